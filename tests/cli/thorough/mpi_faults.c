/* Faults between an MPI and a program, injected through MPI's profiling interface; preloaded into ranks. FAULT selects
 * one: hang, die, corrupt, single. With `count` there is no fault: rank 0 writes its number of barriers of all ranks to
 * the file with this library's name and the suffix .count. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fault(const char *name) {
    const char *asked = getenv("FAULT");
    return asked && strcmp(asked, name) == 0;
}

int MPI_Init_thread(int *count, char ***words, int required, int *provided) {
    const int code = PMPI_Init_thread(count, words, required, provided);
    if (fault("single"))
        *provided = MPI_THREAD_SINGLE;
    return code;
}

int MPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    if (count == 1024 && fault("hang"))
        for (;;)
            sleep(1000);
    if (count == 1024 && fault("die"))
        raise(SIGKILL);
    return PMPI_Send(buffer, count, type, to, tag, comm);
}

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status *status) {
    const int code = PMPI_Recv(buffer, count, type, from, tag, comm, status);
    if (count == 1024 && fault("corrupt"))
        ((unsigned char *)buffer)[13] ^= 0x20;
    return code;
}

static long barriers;

int MPI_Barrier(MPI_Comm comm) {
    barriers++;
    return PMPI_Barrier(comm);
}

int MPI_Finalize(void) {
    char path[4096];
    int rank;
    FILE *file;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (fault("count") && rank == 0) {
        snprintf(path, sizeof path, "%s.count", getenv("LD_PRELOAD"));
        file = fopen(path, "w");
        if (file) {
            fprintf(file, "%ld", barriers);
            fclose(file);
        }
    }
    return PMPI_Finalize();
}
