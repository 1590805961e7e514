/*
 * Test double of AMD's run-time compiler: libhiprtc.so.6. Its code is the name of a build, which the stand-in driver
 * runs (kernels.h). Every compilation fails if STANDIN_COMPILE is set.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char code[64], log[200];
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
    if (getenv("STANDIN_COMPILE")) {
        snprintf(program->log, sizeof program->log, "device.c:1:1: error: the stand-in is set to fail\n");
        return 6;
    }
    snprintf(program->code, sizeof program->code, "build %s %s %s", value(options, count, "-DELEMENT="),
             value(options, count, "-DWIDTH="), value(options, count, "-DITEMS="));
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
    free(*program);
    return 0;
}
