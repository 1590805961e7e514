/*
 * The loops of STREAM for devices, in the C that OpenCL, CUDA and HIP share. What the loops do stands in the
 * lines MAP and SUM of kernels.c, which are put behind this text.
 *
 * ELEMENT is double or float; a work-item (thread) takes ITEMS vectors of WIDTH elements, which lie a group
 * apart, so that a group reads whole lines. With STRIDED, groups go on to the next tile until all is done
 * (grid-stride); without, there is a group for each tile, and no loop. n counts vectors, and is a multiple of
 * a tile.
 */
#ifdef __OPENCL_VERSION__
#if defined(cl_khr_fp64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define KERNEL __kernel
#define GLOBAL __global
#define LOCAL __local
#define RESTRICT restrict
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define ITEM get_local_id(0)
#define GROUP get_group_id(0)
#define GROUPS get_num_groups(0)
#define GROUP_SIZE get_local_size(0)
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#endif
typedef ulong INDEX;
#define JOIN_(element, width) element##width
#define JOIN(element, width) JOIN_(element, width)
#if WIDTH == 1
typedef ELEMENT VECTOR;
#else
typedef JOIN(ELEMENT, WIDTH) VECTOR;
#endif
#else
#define KERNEL extern "C" __global__
#define GLOBAL
#define LOCAL __shared__
#define RESTRICT __restrict__
#define BARRIER __syncthreads()
#define ITEM threadIdx.x
#define GROUP blockIdx.x
#define GROUPS gridDim.x
#define GROUP_SIZE blockDim.x
#define UNROLL _Pragma("unroll")
typedef unsigned long long INDEX;
#if WIDTH == 1
typedef ELEMENT VECTOR;
#elif defined(__clang__)
typedef ELEMENT VECTOR __attribute__((ext_vector_type(WIDTH)));
#else
/* NVIDIA's compiler has no vectors with operators; aligned as a whole, one is read and written as a whole. */
struct alignas(sizeof(ELEMENT) * WIDTH) VECTOR {
    ELEMENT e[WIDTH];
    VECTOR() = default;
    __device__ VECTOR(ELEMENT x) { UNROLL for (int i = 0; i < WIDTH; i++) e[i] = x; }
    __device__ VECTOR &operator+=(VECTOR y)
    {
        UNROLL for (int i = 0; i < WIDTH; i++) e[i] += y.e[i];
        return *this;
    }
};
static __device__ VECTOR operator+(VECTOR x, VECTOR y) { return x += y; }
static __device__ VECTOR operator*(VECTOR x, VECTOR y)
{
    UNROLL for (int i = 0; i < WIDTH; i++) x.e[i] *= y.e[i];
    return x;
}
#endif
/* Contracted by the compilers' default. */
#define fma(x, y, z) ((x) * (y) + (z))
#endif

/* Work-items of a group at most, in loops that add up. */
#define LARGEST_GROUP 256

/* Where a work-item's vectors begin, tile by tile. */
#define TILE ((INDEX)ITEMS * GROUP_SIZE)
#define FIRST (GROUP * TILE + ITEM)
#if STRIDED
#define TILES for (INDEX base = FIRST; base < n; base += GROUPS * TILE)
#else
#define TILES const INDEX base = FIRST; if (base < n)
#endif
#define VECTORS(statement)                                                                         \
    TILES {                                                                                        \
        UNROLL for (int k = 0; k < ITEMS; k++) {                                                   \
            const INDEX j = base + (INDEX)k * GROUP_SIZE;                                          \
            statement;                                                                             \
        }                                                                                          \
    }

/* Adds up what each item of a group has in `own`, and leaves it in `sums[0]`. */
#define ADD_UP(sums, own)                                                                          \
    sums[ITEM] = own;                                                                              \
    for (unsigned step = GROUP_SIZE / 2; step > 0; step /= 2) {                                    \
        BARRIER;                                                                                   \
        if (ITEM < step)                                                                           \
            sums[ITEM] += sums[ITEM + step];                                                       \
    }

/* The arrays, the scalar and the vectors of an array. Passes without a kernel that uses d have no fourth array. */
#define ARGUMENTS                                                                                  \
    GLOBAL VECTOR *RESTRICT a, GLOBAL VECTOR *RESTRICT b, GLOBAL VECTOR *RESTRICT c,               \
        GLOBAL VECTOR *RESTRICT d, const ELEMENT s, const INDEX n

/* A loop that writes an array: its name, and what it does with vector j. */
#define MAP(name, statement)                                                                       \
    KERNEL void nodegauge_##name(ARGUMENTS)                                                        \
    {                                                                                              \
        VECTORS(statement)                                                                         \
    }

/* A loop that adds up: its name, and the term of vector j. Each group writes its sum, a vector, into c; groups are
   powers of two. */
#define SUM(name, term)                                                                            \
    KERNEL void nodegauge_##name(ARGUMENTS)                                                        \
    {                                                                                              \
        LOCAL VECTOR sums[LARGEST_GROUP];                                                          \
        VECTOR own = (ELEMENT)0;                                                                   \
        VECTORS(own += term)                                                                       \
        ADD_UP(sums, own)                                                                          \
        if (ITEM == 0)                                                                             \
            c[GROUP] = sums[0];                                                                    \
    }

/* Fills an array. */
KERNEL void nodegauge_fill(GLOBAL VECTOR *a, const ELEMENT value, const INDEX n) { VECTORS(a[j] = value) }

/*
 * Holds every element of an array against what it must be: for each group how many are off by more than is
 * allowed, and by how much the worst is; what is no number is off by infinity.
 */
KERNEL void nodegauge_check(GLOBAL const ELEMENT *a, const ELEMENT expected, const ELEMENT allowed,
                  GLOBAL INDEX *wrong, GLOBAL ELEMENT *worst, const INDEX n)
{
    LOCAL INDEX counts[LARGEST_GROUP];
    LOCAL ELEMENT most[LARGEST_GROUP];
    INDEX count = 0;
    ELEMENT own = 0;
    for (INDEX i = (INDEX)GROUP * GROUP_SIZE + ITEM; i < n; i += (INDEX)GROUPS * GROUP_SIZE) {
        const ELEMENT off = a[i] < expected ? expected - a[i] : a[i] - expected;
        count += !(off <= allowed);
        if (!(off <= own))
            own = off == off ? off : (ELEMENT)1 / (ELEMENT)0;
    }
    most[ITEM] = own;
    ADD_UP(counts, count)
    for (unsigned step = GROUP_SIZE / 2; step > 0; step /= 2) {
        BARRIER;
        if (ITEM < step && most[ITEM + step] > most[ITEM])
            most[ITEM] = most[ITEM + step];
    }
    if (ITEM == 0) {
        wrong[GROUP] = counts[0];
        worst[GROUP] = most[0];
    }
}

/*
 * Fused multiply-adds in registers, ITEMS chains side by side. With y = -1 every second one gives back the number
 * before, so that an even number of rounds leaves each chain as it began, while its bits change every time.
 */
KERNEL void nodegauge_chains(GLOBAL VECTOR *out, const ELEMENT y, const ELEMENT z, const INDEX rounds)
{
    VECTOR x[ITEMS];
    const VECTOR factor = y, term = z;
    UNROLL for (int k = 0; k < ITEMS; k++) x[k] = (ELEMENT)(ITEM % 64 + k);
    for (INDEX round = 0; round < rounds; round++) {
        UNROLL for (int k = 0; k < ITEMS; k++) x[k] = fma(x[k], factor, term);
        UNROLL for (int k = 0; k < ITEMS; k++) x[k] = fma(x[k], factor, term);
        UNROLL for (int k = 0; k < ITEMS; k++) x[k] = fma(x[k], factor, term);
        UNROLL for (int k = 0; k < ITEMS; k++) x[k] = fma(x[k], factor, term);
    }
    VECTOR sum = (ELEMENT)0;
    UNROLL for (int k = 0; k < ITEMS; k++) sum += x[k];
    out[(INDEX)GROUP * GROUP_SIZE + ITEM] = sum;
}

