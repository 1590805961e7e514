/*
 * Declarations of the MPI functions that the message probe uses, for libraries that are opened at run time.
 * Without mpicc, nodegauge uses its embedded probe, which is compiled with this header instead of the library's
 * own. Every function is a pointer with the function's name, filled by open_mpi(), so that the probe needs no
 * changes in its source.
 *
 * The build script generates "mpi_abi.h" from the table of binary interfaces (crates/abi/src/lib.rs): the type of
 * handles (MPI_HANDLE_TYPE, and MPI_HANDLES_ARE_SYMBOLS if they are addresses of symbols of the library), the members of
 * a status (MPI_STATUS_MEMBERS), the values of handles and constants (MPI_HANDLES, MPI_CONSTANTS), and the address of
 * MPI_STATUS_IGNORE.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_abi.h"

#define MPI_OPENED_WHEN_RUN
#define MPI_VERSION 3

typedef MPI_HANDLE_TYPE(MPI_a_comm) MPI_Comm;
typedef MPI_HANDLE_TYPE(MPI_a_datatype) MPI_Datatype;
typedef MPI_HANDLE_TYPE(MPI_an_op) MPI_Op;
typedef MPI_HANDLE_TYPE(MPI_a_request) MPI_Request;
typedef struct {
    MPI_STATUS_MEMBERS
} MPI_Status;
typedef struct MPI_an_enum *MPI_T_enum;
typedef struct MPI_a_cvar_handle *MPI_T_cvar_handle;

#define MPI_STATUS_IGNORE ((MPI_Status *)MPI_STATUS_IGNORE_ADDRESS)
#define MPI_CONSTANT(name, value) name = value,
enum { MPI_CONSTANTS(MPI_CONSTANT) MPI_CONSTANTS_END };

/* Functions: result type, name, arguments. */
#define MPI_FUNCTIONS(_)                                                                          \
    _(int, MPI_Init, (int *, char ***))                                                           \
    _(int, MPI_Init_thread, (int *, char ***, int, int *))                                        \
    _(int, MPI_Finalize, (void))                                                                  \
    _(int, MPI_Abort, (MPI_Comm, int))                                                            \
    _(double, MPI_Wtime, (void))                                                                  \
    _(int, MPI_Get_version, (int *, int *))                                                       \
    _(int, MPI_Get_library_version, (char *, int *))                                              \
    _(int, MPI_Comm_rank, (MPI_Comm, int *))                                                      \
    _(int, MPI_Comm_size, (MPI_Comm, int *))                                                      \
    _(int, MPI_Comm_split, (MPI_Comm, int, int, MPI_Comm *))                                      \
    _(int, MPI_Comm_free, (MPI_Comm *))                                                           \
    _(int, MPI_Type_size, (MPI_Datatype, int *))                                                  \
    _(int, MPI_Send, (const void *, int, MPI_Datatype, int, int, MPI_Comm))                       \
    _(int, MPI_Recv, (void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *))               \
    _(int, MPI_Sendrecv, (const void *, int, MPI_Datatype, int, int, void *, int, MPI_Datatype,   \
                          int, int, MPI_Comm, MPI_Status *))                                      \
    _(int, MPI_Isend, (const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))       \
    _(int, MPI_Irecv, (void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))             \
    _(int, MPI_Iprobe, (int, int, MPI_Comm, int *, MPI_Status *))                                 \
    _(int, MPI_Get_count, (const MPI_Status *, MPI_Datatype, int *))                              \
    _(int, MPI_Test, (MPI_Request *, int *, MPI_Status *))                                        \
    _(int, MPI_Waitall, (int, MPI_Request *, MPI_Status *))                                       \
    _(int, MPI_Barrier, (MPI_Comm))                                                               \
    _(int, MPI_Ibarrier, (MPI_Comm, MPI_Request *))                                               \
    _(int, MPI_Bcast, (void *, int, MPI_Datatype, int, MPI_Comm))                                 \
    _(int, MPI_Reduce, (const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm))          \
    _(int, MPI_Allreduce, (const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm))            \
    _(int, MPI_Gather, (const void *, int, MPI_Datatype, void *, int, MPI_Datatype, int, MPI_Comm)) \
    _(int, MPI_Allgather, (const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm)) \
    _(int, MPI_Alltoall, (const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm))  \
    _(int, MPI_T_init_thread, (int, int *))                                                       \
    _(int, MPI_T_finalize, (void))                                                                \
    _(int, MPI_T_cvar_get_num, (int *))                                                           \
    _(int, MPI_T_cvar_get_info, (int, char *, int *, int *, MPI_Datatype *, MPI_T_enum *, char *, \
                                 int *, int *, int *))                                            \
    _(int, MPI_T_cvar_handle_alloc, (int, void *, MPI_T_cvar_handle *, int *))                    \
    _(int, MPI_T_cvar_handle_free, (MPI_T_cvar_handle *))                                         \
    _(int, MPI_T_cvar_read, (MPI_T_cvar_handle, void *))

#ifdef MPI_HANDLES_ARE_SYMBOLS
#define MPI_HANDLE(type, name, symbol) static type name;
#else
#define MPI_HANDLE(type, name, number) static const type name = (type)number;
#endif
#define MPI_FUNCTION(result, name, arguments) static result(*name) arguments;
MPI_HANDLES(MPI_HANDLE)
MPI_FUNCTIONS(MPI_FUNCTION)

/* Opens the library at `path` and looks up all names above; on failure, ends this process. */
static void open_mpi(const char *path) {
    /* RTLD_GLOBAL: plug-ins of Open MPI look up its symbols in the global scope. */
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL), *found;
    if (!library) {
        fprintf(stderr, "nodegauge-messages: %s\n", dlerror());
        exit(2);
    }
#define MPI_FIND(name, symbol)                                                                    \
    found = dlsym(library, symbol);                                                               \
    if (!found) {                                                                                 \
        fprintf(stderr, "nodegauge-messages: %s has no %s\n", path, symbol);                      \
        exit(2);                                                                                  \
    }                                                                                             \
    memcpy(&name, &found, sizeof name);
#define MPI_FIND_FUNCTION(result, name, arguments) MPI_FIND(name, #name)
#define MPI_FIND_HANDLE(type, name, symbol) MPI_FIND(name, #symbol)
    MPI_FUNCTIONS(MPI_FIND_FUNCTION)
#ifdef MPI_HANDLES_ARE_SYMBOLS
    MPI_HANDLES(MPI_FIND_HANDLE)
#endif
}
