/*
 * Test double of a device driver: libcuda.so.1, or with -DHIP libamdhip64.so.6. Devices are the processor: memory
 * is the host's, work in streams runs immediately, events have the time of the host's clock, and kernels are C
 * (kernels.h). Variables cause the failures of real drivers (defaults in parentheses):
 *
 *   STANDIN_INIT     error code of the initialisation
 *   STANDIN_VERSION  version of the driver (12040)
 *   STANDIN_DEVICES  number of devices (1)
 *   STANDIN_MEMORY   bytes of memory per device (1 GiB)
 *   STANDIN_ALLOCATE error code of allocations
 *   STANDIN_CONTEXT  error code of creating a context
 *   STANDIN_MODULE   error code of loading a module
 *   STANDIN_LAUNCH   CODE@N: error code of launch N and of all later calls
 *   STANDIN_CHAINS   error code of launches of the chains of multiply-adds, and of all later calls
 *   STANDIN_WRONG    N: launch N writes a wrong number
 *   STANDIN_COPY     copies that write a wrong byte: `in`, `out`, `across` (between devices), or `together` (in a
 *                    stream while another stream has copies)
 *   STANDIN_MIG      the device is a MIG slice
 */
#define _GNU_SOURCE
#include "kernels.h"
#include <time.h>

#ifdef HIP
#define NAME(cuda, hip) hip
#else
#define NAME(cuda, hip) cuda
#endif
#define SAY(at, text) snprintf(at, (size_t)length, "%s", text)

static long number(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtol(text, NULL, 0) : otherwise;
}

static int lost, launches;
static size_t used[8];
static __thread int current;

static int devices(void)
{
    const char *visible = getenv(NAME("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"));
    if (visible && (*visible < '0' || *visible > '9'))
        return 0;
    return (int)number("STANDIN_DEVICES", 1);
}

int NAME(cuInit, hipInit)(unsigned flags)
{
    (void)flags;
    return devices() ? (int)number("STANDIN_INIT", 0) : 100;
}

int NAME(cuDriverGetVersion, hipDriverGetVersion)(int *version)
{
    *version = (int)number("STANDIN_VERSION", NAME(12040, 60443484));
    return 0;
}

int NAME(cuDeviceGetCount, hipGetDeviceCount)(int *count)
{
    *count = devices();
    return 0;
}

int NAME(cuDeviceGet, hipDeviceGet)(int *device, int index)
{
    *device = index;
    return index < devices() ? 0 : 101;
}

int NAME(cuDeviceGetName, hipDeviceGetName)(char *name, int length, int device)
{
    (void)device;
    SAY(name, getenv("STANDIN_MIG") ? "Stand-in GPU MIG 1g.10gb" : "Stand-in GPU");
    return 0;
}

int NAME(cuDeviceTotalMem_v2, hipDeviceTotalMem)(size_t *bytes, int device)
{
    (void)device;
    *bytes = (size_t)number("STANDIN_MEMORY", 1 << 30);
    return 0;
}

int NAME(cuDeviceGetPCIBusId, hipDeviceGetPCIBusId)(char *text, int length, int device)
{
    snprintf(text, (size_t)length, "0000:%02X:00.0", 0x3b + device);
    return 0;
}

int NAME(cuDeviceGetAttribute, hipDeviceGetAttribute)(int *value, int attribute, int device)
{
    (void)device;
    switch (attribute) {
    case NAME(1, 56): *value = 1024; break;    /* threads per block */
    case NAME(13, 5): *value = 1980000; break; /* kHz */
    case NAME(16, 63): *value = 2; break;      /* multiprocessors */
    case NAME(32, 0): *value = 1; break;       /* ECC */
    case NAME(36, 60): *value = 10000; break;  /* memory clock, kHz */
    case NAME(37, 59): *value = 5120; break;   /* memory bus, bits */
    case NAME(38, 19): *value = 64 << 10; break; /* last cache */
    case NAME(75, 23): *value = 9; break;      /* compute capability */
    default: *value = 0;
    }
    return 0;
}

static void uuid(unsigned char *bytes, int device, int slice)
{
    for (int i = 0; i < 16; i++)
        bytes[i] = (unsigned char)(17 * i + device + 100 * slice);
}

int cuDeviceGetUuid(unsigned char *bytes, int device)
{
    uuid(bytes, device, 0);
    return 0;
}

int cuDeviceGetUuid_v2(unsigned char *bytes, int device)
{
    uuid(bytes, device, getenv("STANDIN_MIG") != NULL);
    return 0;
}

#ifdef HIP
const char *hipGetErrorName(int code) { return code == 2 ? "hipErrorOutOfMemory" : "hipErrorOther"; }
#else
int cuGetErrorName(int code, const char **name)
{
    static const struct { int code; const char *name; } names[] = {
        {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"}, {100, "CUDA_ERROR_NO_DEVICE"},
        {214, "CUDA_ERROR_ECC_UNCORRECTABLE"}, {218, "CUDA_ERROR_INVALID_PTX"}, {719, "CUDA_ERROR_LAUNCH_FAILED"},
        {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
    };
    *name = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code)
            *name = names[i].name;
    return *name ? 0 : 1;
}
#endif

/* A context is the number of its device, from 1. */
int NAME(cuDevicePrimaryCtxRetain, hipDevicePrimaryCtxRetain)(size_t *context, int device)
{
    *context = (size_t)device + 1;
    return (int)number("STANDIN_CONTEXT", 0);
}

int NAME(cuCtxSetCurrent, hipCtxSetCurrent)(size_t context)
{
    current = (int)context - 1;
    return current < 0 ? 201 : 0;
}

int NAME(cuCtxEnablePeerAccess, hipCtxEnablePeerAccess)(size_t context, unsigned flags)
{
    (void)flags;
    return context ? 0 : 201;
}

int NAME(cuMemGetInfo_v2, hipMemGetInfo)(size_t *free_bytes, size_t *all)
{
    *all = (size_t)number("STANDIN_MEMORY", 1 << 30);
    *free_bytes = *all - used[current];
    return 0;
}

/* The length of an allocation is stored before it. */
int NAME(cuMemAlloc_v2, hipMalloc)(char **at, size_t bytes)
{
    int fails = (int)number("STANDIN_ALLOCATE", lost);
    if (fails)
        return fails;
    if (used[current] + bytes > (size_t)number("STANDIN_MEMORY", 1 << 30))
        return 2;
    *at = aligned_alloc(256, (bytes + 511) / 256 * 256);
    if (!*at)
        return 2;
    *(size_t *)*at = bytes;
    used[current] += bytes;
    *at += 256;
    return 0;
}

int NAME(cuMemFree_v2, hipFree)(char *at)
{
    used[current] -= *(size_t *)(at - 256);
    free(at - 256);
    return 0;
}

int NAME(cuMemHostRegister_v2, hipHostRegister)(void *at, size_t bytes, unsigned flags)
{
    (void)flags;
    return at && bytes ? 0 : 1;
}

int NAME(cuMemHostUnregister, hipHostUnregister)(void *at) { return at ? 0 : 1; }

/* Stream with copies that have not been waited for. */
static size_t busy;

static int copied(char *to, const char *from, size_t bytes, size_t stream, const char *way)
{
    const char *wrong = getenv("STANDIN_COPY");
    int together = busy && busy != stream;
    busy = stream;
    if (lost)
        return lost;
    memmove(to, from, bytes);
    if (wrong && !strcmp(wrong, together ? "together" : way))
        to[bytes - 1] ^= 1;
    return 0;
}

int NAME(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync)(char *to, void *from, size_t bytes, size_t stream)
{
    return copied(to, from, bytes, stream, "in");
}

int NAME(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync)(void *to, char *from, size_t bytes, size_t stream)
{
    return copied(to, from, bytes, stream, "out");
}

int NAME(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync)(char *to, char *from, size_t bytes, size_t stream)
{
    return copied(to, from, bytes, stream, "across");
}

int NAME(cuStreamCreate, hipStreamCreateWithFlags)(size_t *stream, unsigned flags)
{
    static size_t streams;
    (void)flags;
    *stream = ++streams;
    return lost;
}

int NAME(cuStreamDestroy_v2, hipStreamDestroy)(size_t stream) { return stream ? 0 : 400; }

int NAME(cuStreamSynchronize, hipStreamSynchronize)(size_t stream)
{
    busy = 0;
    return stream ? lost : 400;
}

int NAME(cuEventCreate, hipEventCreateWithFlags)(struct timespec **event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    return lost;
}

int NAME(cuEventDestroy_v2, hipEventDestroy)(struct timespec *event)
{
    free(event);
    return 0;
}

int NAME(cuEventRecord, hipEventRecord)(struct timespec *event, size_t stream)
{
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, event);
    return lost;
}

int NAME(cuEventElapsedTime, hipEventElapsedTime)(float *millis, struct timespec *from, struct timespec *to)
{
    *millis = (float)((double)(to->tv_sec - from->tv_sec) * 1e3 + (double)(to->tv_nsec - from->tv_nsec) / 1e6);
    return lost;
}

int NAME(cuModuleLoadDataEx, hipModuleLoadDataEx)(Module **module, const char *image, unsigned options, int *names,
                                                  void **values)
{
    char *log = NULL;
    size_t room = 0;
    for (unsigned i = 0; i < options; i++) {
        if (names[i] == 5)
            log = values[i];
        if (names[i] == 6)
            room = (size_t)(uintptr_t)values[i];
    }
    int fails = (int)number("STANDIN_MODULE", 0);
    if (fails) {
        snprintf(log, room, "ptxas application ptx input, line 1; fatal: the stand-in is set to fail");
        return fails;
    }
    *module = module_read(image, log, room);
    return *module ? 0 : 218;
}

/* The module stays allocated, so that launches of its functions can be refused, as CUDA does. */
int NAME(cuModuleUnload, hipModuleUnload)(Module *module)
{
    if (!module || module->unloaded)
        return 400;
    module->unloaded = 1;
    return 0;
}

int NAME(cuModuleGetFunction, hipModuleGetFunction)(Function **function, Module *module, const char *name)
{
    *function = function_of(module, name);
    return *function ? 0 : 500;
}

int NAME(cuLaunchKernel, hipModuleLaunchKernel)(Function *function, unsigned x, unsigned y, unsigned z, unsigned tx,
                                                unsigned ty, unsigned tz, unsigned shared, size_t stream, void **args,
                                                void **extra)
{
    (void)shared, (void)stream, (void)extra;
    const char *fails = getenv("STANDIN_LAUNCH"), *when = fails ? strchr(fails, '@') : NULL;
    launches++;
    if (when && launches >= atoi(when + 1))
        lost = atoi(fails);
    if (!strcmp(function->name, "nodegauge_chains"))
        lost = (int)number("STANDIN_CHAINS", lost);
    if (lost)
        return lost;
    if (function->module->unloaded)
        return 400;
    if (x == 0 || y * z * ty * tz != 1 || tx == 0 || tx > 1024)
        return 1;
    function_run(function, x, tx, args);
    if (launches == number("STANDIN_WRONG", 0))
        (*(char **)args[0])[7] ^= 1;
    return 0;
}
