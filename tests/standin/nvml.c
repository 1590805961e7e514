/*
 * Test double of NVIDIA's management library: libnvidia-ml.so.1. Variables set the values that it returns, some of
 * which change between readings (defaults in parentheses):
 *
 *   STANDIN_DEVICES    number of GPUs (1)
 *   STANDIN_SILENT     error code of getting a GPU's handle
 *   STANDIN_ECC        CORRECTED,UNCORRECTED: memory errors from the second reading on
 *   STANDIN_CLOCK      MHz,REASONS: clock from the third reading on, and the reasons why it is reduced
 *   STANDIN_PROCESSES  number of compute processes on a GPU (1)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef char *Gpu; /* numbers from 1 */

static long number(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtol(text, NULL, 0) : otherwise;
}

/* Returns the number after the first comma of a variable. */
static long second(const char *variable)
{
    const char *comma = getenv(variable) ? strchr(getenv(variable), ',') : NULL;
    return comma ? strtol(comma + 1, NULL, 0) : 0;
}

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }

int nvmlSystemGetDriverVersion(char *text, unsigned length)
{
    snprintf(text, length, "550.54.15");
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = (unsigned)number("STANDIN_DEVICES", 1);
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu *gpu)
{
    *gpu = (Gpu)0 + index + 1;
    return (int)number("STANDIN_SILENT", 0);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, Gpu *gpu)
{
    unsigned bus;
    if (sscanf(address, "%*x:%x:", &bus) != 1)
        return 2;
    *gpu = (Gpu)0 + (bus - 0x3b + 1);
    return (int)number("STANDIN_SILENT", 0);
}

int nvmlDeviceGetName(Gpu gpu, char *text, unsigned length)
{
    (void)gpu;
    snprintf(text, length, "Stand-in GPU");
    return 0;
}

struct pci {
    char legacy[16];
    unsigned domain, bus, device, ids[2];
    char text[32];
};

int nvmlDeviceGetPciInfo_v3(Gpu gpu, struct pci *pci)
{
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x3b + (unsigned)(gpu - (Gpu)0) - 1;
    return 0;
}

int nvmlDeviceGetEccMode(Gpu gpu, unsigned *now, unsigned *pending)
{
    (void)gpu;
    *now = *pending = 1;
    return 0;
}

int nvmlDeviceGetTotalEccErrors(Gpu gpu, unsigned kind, unsigned counter, unsigned long long *count)
{
    static int readings[2];
    (void)gpu, (void)counter;
    long errors = kind ? second("STANDIN_ECC") : number("STANDIN_ECC", 0);
    *count = readings[kind]++ ? (unsigned long long)errors : 0;
    return 0;
}

static int readings;

int nvmlDeviceGetClockInfo(Gpu gpu, unsigned kind, unsigned *mhz)
{
    (void)gpu;
    if (kind == 1)
        readings++;
    *mhz = kind == 2 ? 2619 : readings > 2 ? (unsigned)number("STANDIN_CLOCK", 1980) : 1980;
    return 0;
}

int nvmlDeviceGetMaxClockInfo(Gpu gpu, unsigned kind, unsigned *mhz)
{
    (void)gpu;
    *mhz = kind == 2 ? 2619 : 1980;
    return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(Gpu gpu, unsigned long long *reasons)
{
    (void)gpu;
    *reasons = readings > 2 ? (unsigned long long)second("STANDIN_CLOCK") : 0;
    return 0;
}

int nvmlDeviceGetEnforcedPowerLimit(Gpu gpu, unsigned *milliwatts)
{
    (void)gpu;
    *milliwatts = 700000;
    return 0;
}

struct process {
    unsigned pid;
    unsigned long long memory;
    unsigned instances[2];
};

int nvmlDeviceGetComputeRunningProcesses_v3(Gpu gpu, unsigned *count, struct process *processes)
{
    (void)gpu;
    *count = (unsigned)number("STANDIN_PROCESSES", 1);
    for (unsigned i = 0; i < *count; i++)
        processes[i] = (struct process){.pid = 4711 + i, .memory = 1 << 20};
    return 0;
}
