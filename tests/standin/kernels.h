/*
 * Kernels of crates/devices/probes/device.c on the processor, for the stand-in drivers: the loops of crates/kernels/probes/kernels.c, and plain C
 * for the other kernels. A module is a build: element type, elements per vector, and vectors per work-item. PTX is not
 * executed: its first line names the build.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define ELEMENT double
#include "../../crates/kernels/probes/kernels.c"

typedef struct { int is_float, width, items, unloaded; } Module;
typedef double (*Loop)(double *, double *, double *, double *, ptrdiff_t, double);
typedef struct { const Module *module; char name[64]; Loop loop; int adds_up; } Function;

static double get(const Module *m, const void *array, size_t at)
{
    return m->is_float ? ((const float *)array)[at] : ((const double *)array)[at];
}

static void put(const Module *m, void *array, size_t at, double value)
{
    if (m->is_float)
        ((float *)array)[at] = (float)value;
    else
        ((double *)array)[at] = value;
}

/* Returns the build of an image: `build ELEMENT WIDTH ITEMS`, as compiler.c writes it, or as a comment in PTX. */
static Module *module_read(const char *image, char *log, size_t room)
{
    Module m = {0, 2, 2, 0};
    char element[8] = "";
    if (strncmp(image, "// ", 3) == 0)
        image += 3;
    if (sscanf(image, "build %7s %d %d", element, &m.width, &m.items) != 3) {
        snprintf(log, room, "ptxas error: not an image");
        return NULL;
    }
    m.is_float = !strcmp(element, "float");
    Module *module = malloc(sizeof m);
    *module = m;
    return module;
}

/* Looks up a kernel by name; loops are functions of this library. */
static Function *function_of(const Module *module, const char *name)
{
    static const char *others[] = {"nodegauge_fill", "nodegauge_check", "nodegauge_chains",
                                   "nodegauge_loaded"};
    Dl_info self;
    dladdr((void *)function_of, &self);
    void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    Function f = {module, "", NULL, 0};
    snprintf(f.name, sizeof f.name, "%s", name);
    *(void **)&f.loop = library ? dlsym(library, name) : NULL;
    for (int i = 0; !f.loop; i++)
        if (i == 4)
            return NULL;
        else if (!strcmp(name, others[i]))
            break;
    /* A loop that is not a reduction returns 0. */
    double ones[4] = {1, 1, 1, 1};
    f.adds_up = f.loop && f.loop(ones, ones + 1, ones + 2, ones + 3, 1, 1) != 0;
    Function *function = malloc(sizeof f);
    *function = f;
    return function;
}

/*
 * Runs a loop on doubles. The first group writes the sum of a reduction, in place of array c. Passes without a fourth
 * array pass c in its place.
 */
static void loop_run(const Function *f, size_t groups, void **args)
{
    const Module *m = f->module;
    size_t n = *(size_t *)args[5] * (size_t)m->width;
    double *numbers[4], scalar = get(m, args[4], 0);
    void *arrays[4];
    for (int k = 0; k < 4; k++) {
        arrays[k] = *(void **)args[k];
        numbers[k] = malloc(n * sizeof(double));
    }
    const int count = arrays[3] == arrays[2] ? 3 : 4;
    for (int k = 0; k < count; k++)
        for (size_t i = 0; i < n && (k != 2 || !f->adds_up); i++)
            numbers[k][i] = get(m, arrays[k], i);
    double total = f->loop(numbers[0], numbers[1], numbers[2], numbers[3], (ptrdiff_t)n, scalar);
    for (int k = 0; k < count && !f->adds_up; k++)
        for (size_t i = 0; i < n; i++)
            put(m, arrays[k], i, numbers[k][i]);
    for (size_t i = 0; f->adds_up && i < groups * (size_t)m->width; i++)
        put(m, arrays[2], i, i == 0 ? total : 0);
    for (int k = 0; k < 4; k++)
        free(numbers[k]);
}

static void fill_run(const Module *m, void **args)
{
    size_t n = *(size_t *)args[2] * (size_t)m->width;
    for (size_t i = 0; i < n; i++)
        put(m, *(void **)args[0], i, get(m, args[1], 0));
}

/* The first group has the count and the largest deviation; the others have 0. */
static void check_run(const Module *m, size_t groups, void **args)
{
    const void *array = *(void **)args[0];
    double expected = get(m, args[1], 0), allowed = get(m, args[2], 0), worst = 0;
    uint64_t *wrong = *(uint64_t **)args[3], count = 0;
    size_t n = *(size_t *)args[5];
    for (size_t i = 0; i < n; i++) {
        double off = fabs(get(m, array, i) - expected);
        count += !(off <= allowed);
        if (!(off <= worst))
            worst = off == off ? off : INFINITY;
    }
    for (size_t group = 0; group < groups; group++) {
        wrong[group] = group == 0 ? count : 0;
        put(m, *(void **)args[4], group, group == 0 ? worst : 0);
    }
}

/* Chains end with their initial numbers: writes the sum of an item's chains. The rounds only take time. */
static void chains_run(const Module *m, size_t groups, size_t threads, void **args)
{
    double factor = get(m, args[1], 0), term = get(m, args[2], 0);
    uint64_t rounds = *(uint64_t *)args[3];
    volatile double spent = 1;
    for (size_t i = 0; i < groups * threads; i++) {
        for (uint64_t round = 0; round < rounds; round++)
            spent = fma(spent, factor, term);
        for (int v = 0; v < m->width; v++) {
            double item = (double)(i % threads % 64), chains = m->items;
            put(m, *(void **)args[0], i * (size_t)m->width + (size_t)v,
                chains * item + chains * (chains - 1) / 2);
        }
    }
}

/*
 * Follows the chain. Each group that loads then does a block for 16 steps of the chain, at most the limit. The blocks and
 * their pauses only take time.
 */
static void loaded_run(size_t groups, void **args)
{
    const uint64_t *chain = *(const uint64_t **)args[4];
    uint32_t *state = *(uint32_t **)args[5];
    uint64_t pause = *(uint64_t *)args[10], limit = *(uint64_t *)args[11];
    uint64_t at = *(uint64_t *)args[12], steps = *(uint64_t *)args[13];
    for (uint64_t step = 0; step < steps; step++)
        at = chain[at];
    uint64_t loading = groups - (steps > 0);
    uint64_t blocks = steps > 0 && steps / 16 < limit ? steps / 16 : limit;
    volatile double spent = 1;
    for (uint64_t block = 0; loading > 0 && block < blocks; block++)
        for (uint64_t round = 0; round < 100 + pause; round++)
            spent = fma(spent, -1, 1);
    state[0] = (uint32_t)loading;
    state[1] = steps > 0;
    state[2] = (uint32_t)at;
    state[3] = (uint32_t)(blocks * loading);
}

/* Runs a kernel. */
static void function_run(const Function *f, size_t groups, size_t threads, void **args)
{
    if (f->loop)
        loop_run(f, groups, args);
    else if (!strcmp(f->name, "nodegauge_fill"))
        fill_run(f->module, args);
    else if (!strcmp(f->name, "nodegauge_check"))
        check_run(f->module, groups, args);
    else if (!strcmp(f->name, "nodegauge_loaded"))
        loaded_run(groups, args);
    else
        chains_run(f->module, groups, threads, args);
}
