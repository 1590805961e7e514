/*
 * Test double of a vendor's BLAS: libcublas.so.12, or with -DHIP librocblas.so.4. Multiplies on the processor.
 * STANDIN_DGEMM=wrong makes the elements wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HIP
#define NAME(cuda, hip) hip
#define PLAIN 111
#else
#define NAME(cuda, hip) cuda
#define PLAIN 0
#endif

int NAME(cublasCreate_v2, rocblas_create_handle)(size_t *handle)
{
    *handle = 1;
    return 0;
}

int NAME(cublasDestroy_v2, rocblas_destroy_handle)(size_t handle) { return handle != 1; }
int NAME(cublasSetStream_v2, rocblas_set_stream)(size_t handle, size_t stream) { return handle != 1 || !stream; }

int cublasGetVersion_v2(size_t handle, int *version)
{
    *version = 120304;
    return handle != 1;
}

int rocblas_get_version_string(char *text, size_t length)
{
    snprintf(text, length, "4.2.0");
    return 0;
}

int NAME(cublasDgemm_v2, rocblas_dgemm)(size_t handle, int ta, int tb, int m, int n, int k, const double *alpha,
                                        const double *a, int lda, const double *b, int ldb, const double *beta,
                                        double *c, int ldc)
{
    if (handle != 1 || ta != PLAIN || tb != PLAIN || *beta != 0)
        return 7;
    for (int j = 0; j < n; j++) {
        double *column = c + (size_t)j * ldc;
        memset(column, 0, (size_t)m * sizeof *column);
        for (int p = 0; p < k; p++) {
            const double factor = *alpha * b[p + (size_t)j * ldb];
            for (int i = 0; i < m; i++)
                column[i] += factor * a[i + (size_t)p * lda];
        }
    }
    if (getenv("STANDIN_DGEMM"))
        for (int i = 0; i < m * n; i++)
            c[i] += 1;
    return 0;
}
