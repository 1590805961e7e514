/* Program with the output of stream.c, for tests. The times follow from the rates, e.g. 10 GB/s for a 4 MB array. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifndef STREAM_TYPE
#define STREAM_TYPE double
#endif
static void line(const char *name, double words) {
    double bytes = words * sizeof(STREAM_TYPE) * STREAM_ARRAY_SIZE, rate = 10000.0;
    double time = bytes / rate / 1e6;
    printf("%-12s%11.1f  %11.6f  %11.6f  %11.6f\n", name, rate, time, time, time);
}
int main(void) {
    /* BEFORE */
    printf("STREAM version $Revision: 5.10 $\n");
    printf("This system uses %d bytes per array element.\n", (int)sizeof(STREAM_TYPE));
    printf("Array size = %llu (elements), Offset = %d (elements)\n",
           (unsigned long long)STREAM_ARRAY_SIZE, OFFSET);
    printf("Each kernel will be executed %d times.\n", NTIMES);
    printf("Number of Threads requested = %s\n", getenv("OMP_NUM_THREADS"));
    printf("Number of Threads counted = %s\n", getenv("OMP_NUM_THREADS"));
    printf("Function    Best Rate MB/s  Avg time     Min time     Max time\n");
    line("Copy:", 2); line("Scale:", 2); line("Add:", 3); line("Triad:", 3);
    printf("%s\n", "Solution Validates: avg error less than 1.000000e-13 on all three arrays");
    return 0;
}
