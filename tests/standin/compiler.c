/*
 * Stands in for AMD's compiler at run time in tests: libhiprtc.so.6. It gives the carried PTX of a build, from the
 * folder in STANDIN_PTX, which the stand-in driver runs; builds that are not carried do not compile, and none does
 * with STANDIN_COMPILE=fails.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *code, log[200];
} Program;

static const char *value(const char **options, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (!strncmp(options[i], name, strlen(name)))
            return options[i] + strlen(name);
    return "";
}

int hiprtcCreateProgram(Program **program, const char *source, const char *name, int count, const char **headers,
                        const char **names)
{
    (void)name, (void)count, (void)headers, (void)names;
    *program = calloc(1, sizeof **program);
    return strstr(source, "KERNEL void nodegauge_fill") ? 0 : 6;
}

int hiprtcCompileProgram(Program *program, int count, const char **options)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-%s-%s%s.ptx", getenv("STANDIN_PTX"),
             strcmp(value(options, count, "-DELEMENT="), "float") ? "f64" : "f32", value(options, count, "-DWIDTH="),
             value(options, count, "-DITEMS="), *value(options, count, "-DSTRIDED=") == '1' ? "-strided" : "");
    FILE *file = getenv("STANDIN_COMPILE") ? NULL : fopen(path, "r");
    if (!file) {
        snprintf(program->log, sizeof program->log, "device.c:1:1: error: this build is not carried\n");
        return 6;
    }
    program->code = calloc(1, 1 << 20);
    fread(program->code, 1, (1 << 20) - 1, file);
    fclose(file);
    return 0;
}

int hiprtcGetProgramLogSize(Program *program, size_t *bytes)
{
    *bytes = strlen(program->log) + 1;
    return 0;
}

int hiprtcGetProgramLog(Program *program, char *log)
{
    strcpy(log, program->log);
    return 0;
}

int hiprtcGetCodeSize(Program *program, size_t *bytes)
{
    *bytes = strlen(program->code) + 1;
    return 0;
}

int hiprtcGetCode(Program *program, char *code)
{
    strcpy(code, program->code);
    return 0;
}

int hiprtcDestroyProgram(Program **program)
{
    free((*program)->code);
    free(*program);
    return 0;
}
