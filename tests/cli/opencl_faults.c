/*
 * Wrapper of the system's libOpenCL.so.1 that injects a fault. The variable FAULT selects it:
 *
 *   crash     the process dies when the library is loaded
 *   none      there is no platform
 *   build     every program fails to build
 *   memory    every allocation fails
 *   busy      the device is in use by another process
 *   single    the device has no double precision
 *   lost=N    the device is lost after launch N
 *   wrong=N   from launch N on, kernels compute nothing
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *system_library;
static long launches;

/* Returns N if FAULT is `name=N`, 1 if it is `name`, and 0 otherwise. */
static long fault(const char *name)
{
    const char *fault = getenv("FAULT");
    const size_t length = strlen(name);
    if (!fault || strncmp(fault, name, length))
        return 0;
    return fault[length] == '=' ? atol(fault + length + 1) : !fault[length];
}

#if defined(__x86_64__)
#define JUMP(name) "jmp *" #name "_there(%rip)"
#else
#define JUMP(name) "adrp x16, " #name "_there\nldr x16, [x16, :lo12:" #name "_there]\nbr x16"
#endif
#define EACH(DO)                                                                                   \
    DO(clGetPlatformInfo) DO(clGetDeviceIDs) DO(clReleaseContext) DO(clCreateCommandQueue)         \
    DO(clReleaseCommandQueue) DO(clSetMemObjectDestructorCallback) DO(clReleaseMemObject)          \
    DO(clCreateProgramWithSource) DO(clGetProgramBuildInfo) DO(clReleaseProgram)                   \
    DO(clCreateKernel) DO(clSetKernelArg)                                                          \
    DO(clReleaseKernel) DO(clEnqueueReadBuffer) DO(clEnqueueWriteBuffer) DO(clEnqueueCopyBuffer)   \
    DO(clEnqueueFillBuffer) DO(clEnqueueMigrateMemObjects) DO(clEnqueueMapBuffer)                  \
    DO(clEnqueueUnmapMemObject) DO(clEnqueueMarkerWithWaitList) DO(clFlush)                        \
    DO(clGetEventProfilingInfo) DO(clReleaseEvent)
#define HERE(name)                                                                                 \
    __attribute__((visibility("hidden"))) void *name##_there;                                      \
    __asm__(".text\n.globl " #name "\n.type " #name ", %function\n" #name ":\n" JUMP(name) "\n");
#define FIND(name) name##_there = dlsym(system_library, #name);
EACH(HERE)

__attribute__((constructor)) static void load(void)
{
    if (fault("crash"))
        abort();
    system_library = dlopen(getenv("SYSTEM_OPENCL"), RTLD_NOW | RTLD_LOCAL);
    if (!system_library)
        abort();
    EACH(FIND)
}

#define REAL(type, name) ((type)dlsym(system_library, #name))

int clGetPlatformIDs(unsigned n, void **at, unsigned *count)
{
    if (fault("none"))
        return -1001;
    return REAL(int (*)(unsigned, void **, unsigned *), clGetPlatformIDs)(n, at, count);
}

int clGetDeviceInfo(void *device, unsigned what, size_t bytes, void *at, size_t *length)
{
    typedef int (*ask)(void *, unsigned, size_t, void *, size_t *);
    const int code = REAL(ask, clGetDeviceInfo)(device, what, bytes, at, length);
    if (what == 0x1032 && at && fault("single"))
        memset(at, 0, bytes);
    return code;
}

void *clCreateContext(const intptr_t *p, unsigned n, void **devices, void *f, void *d, int *code)
{
    typedef void *(*create)(const intptr_t *, unsigned, void **, void *, void *, int *);
    if (fault("busy")) {
        *code = -2;
        return NULL;
    }
    return REAL(create, clCreateContext)(p, n, devices, f, d, code);
}

void *clCreateBuffer(void *context, uint64_t flags, size_t bytes, void *host, int *code)
{
    typedef void *(*create)(void *, uint64_t, size_t, void *, int *);
    if (fault("memory")) {
        *code = -4;
        return NULL;
    }
    return REAL(create, clCreateBuffer)(context, flags, bytes, host, code);
}

int clBuildProgram(void *program, unsigned n, void **devices, const char *options, void *f, void *d)
{
    typedef int (*build)(void *, unsigned, void **, const char *, void *, void *);
    const char *wrong = fault("build") ? "-Dulong=nothing" : options;
    return REAL(build, clBuildProgram)(program, n, devices, wrong, f, d);
}

int clEnqueueNDRangeKernel(void *queue, void *kernel, unsigned dimensions, const size_t *offset,
                           const size_t *all, const size_t *group, unsigned n, void **wait,
                           void **event)
{
    typedef int (*launch)(void *, void *, unsigned, const size_t *, const size_t *, const size_t *,
                          unsigned, void **, void **);
    launches++;
    if (fault("lost") && launches > fault("lost"))
        return -36;
    if (fault("wrong") && launches >= fault("wrong"))
        all = group;
    return REAL(launch, clEnqueueNDRangeKernel)(queue, kernel, dimensions, offset, all, group, n,
                                                wait, event);
}

int clFinish(void *queue)
{
    if (fault("lost") && launches > fault("lost"))
        return -36;
    return REAL(int (*)(void *), clFinish)(queue);
}
