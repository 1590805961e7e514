/*
 * STREAM loops for devices, in the C subset that OpenCL, CUDA and HIP share. The statements of the loops are in
 * the MAP and SUM lines of kernels.c, which are appended to this text.
 *
 * ELEMENT is double or float. A work-item (thread) processes ITEMS vectors of WIDTH elements; their distance is
 * the size of a group, so that a group reads whole lines. With STRIDED, each group loops over tiles
 * (grid-stride loop); without, there is one group per tile and no loop. n is the number of vectors, a multiple
 * of the tile size, so that no item has to compare its index with n: compilers for processors do not combine
 * items with such a condition into vectors.
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
#define COUNT(place, more) atomic_add(place, more)
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
#define COUNT(place, more) atomicAdd((unsigned *)(place), more)
#define UNROLL _Pragma("unroll")
typedef unsigned long long INDEX;
#if WIDTH == 1
typedef ELEMENT VECTOR;
#elif defined(__clang__)
typedef ELEMENT VECTOR __attribute__((ext_vector_type(WIDTH)));
#else
/* NVIDIA's compiler has no vector types with operators; alignment to the whole size gives one load or store. */
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
/* The compilers contract this to a fused multiply-add by default. */
#define fma(x, y, z) ((x) * (y) + (z))
#endif

/* Maximum number of work-items per group in reductions. */
#define LARGEST_GROUP 256

/* Index of a work-item's first vector in each tile. */
#define TILE ((INDEX)ITEMS * GROUP_SIZE)
#define FIRST (GROUP * TILE + ITEM)
#if STRIDED
#define TILES for (INDEX base = FIRST; base < n; base += GROUPS * TILE)
#else
#define TILES const INDEX base = FIRST;
#endif
#define VECTORS(statement)                                                                         \
    TILES {                                                                                        \
        UNROLL for (int k = 0; k < ITEMS; k++) {                                                   \
            const INDEX j = base + (INDEX)k * GROUP_SIZE;                                          \
            statement;                                                                             \
        }                                                                                          \
    }

/* Sums the value `own` of all items of a group into `sums[0]`. */
#define ADD_UP(sums, own)                                                                          \
    sums[ITEM] = own;                                                                              \
    for (unsigned step = GROUP_SIZE / 2; step > 0; step /= 2) {                                    \
        BARRIER;                                                                                   \
        if (ITEM < step)                                                                           \
            sums[ITEM] += sums[ITEM + step];                                                       \
    }

/* The arrays, the scalar and the number of vectors per array. Passes without a kernel that uses d have no fourth array. */
#define ARGUMENTS                                                                                  \
    GLOBAL VECTOR *RESTRICT a, GLOBAL VECTOR *RESTRICT b, GLOBAL VECTOR *RESTRICT c,               \
        GLOBAL VECTOR *RESTRICT d, const ELEMENT s, const INDEX n

/* A loop that writes an array: its name, and the statement for vector j. */
#define MAP(name, statement)                                                                       \
    KERNEL void nodegauge_##name(ARGUMENTS)                                                        \
    {                                                                                              \
        VECTORS(statement)                                                                         \
    }

/* A reduction: its name, and the term of vector j. Each group writes its sum, a vector, into c; the group size is
   a power of two. */
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
 * Compares every element of an array with its expected value. Each group returns the number of elements whose
 * error exceeds the allowed one, and the largest error; the error of a NaN is infinite.
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
 * Fused multiply-adds in registers, in ITEMS independent chains. With y = -1, every second operation restores the
 * previous value: an even number of rounds leaves each chain unchanged, although its bits change in every
 * operation.
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

/*
 * Chain and load. Group 0 follows a chain of `steps` dependent loads with one item, once the other groups load the memory, or
 * after `timeout` looks for them. Without steps, group 0 loads, too. The other groups run blocks of BLOCK vectors per
 * item of a mix of reads and writes, and then wait `pause` rounds, until the chain ends, or for `limit` blocks.
 *
 * state[0]: number of groups that load; state[1]: 1 after the end of the chain; state[2]: position at the end of the chain;
 * state[3]: blocks of all items, in units of their group. The factor s is 0, so that arrays of ones keep their values.
 */
#define BLOCK 4
#define EACH(statement)                                                                            \
    UNROLL for (int k = 0; k < BLOCK; k++) {                                                       \
        const INDEX j = base + (INDEX)k * GROUP_SIZE;                                              \
        statement;                                                                                 \
    }
KERNEL void nodegauge_loaded(GLOBAL VECTOR *RESTRICT a, GLOBAL VECTOR *RESTRICT b,
                  GLOBAL VECTOR *RESTRICT c, GLOBAL VECTOR *RESTRICT out,
                  GLOBAL const INDEX *chain, volatile GLOBAL unsigned *state, const ELEMENT s, const INDEX mix,
                  const INDEX n, const INDEX start, const INDEX pause, const INDEX limit, const INDEX first,
                  const INDEX steps, const INDEX timeout)
{
    if (GROUP == 0 && steps > 0) {
        if (ITEM == 0) {
            for (INDEX look = 0; look < timeout && state[0] + 1 < GROUPS; look++) {
            }
            INDEX at = first;
            for (INDEX step = 0; step < steps; step++) at = chain[at];
            state[2] = (unsigned)at;
            state[1] = 1;
        }
        return;
    }
    const INDEX tiles = n / ((INDEX)BLOCK * GROUP_SIZE);
    INDEX tile = (start + GROUP) % tiles;
    const VECTOR factor = s, one = s + (ELEMENT)1;
    VECTOR sum = (ELEMENT)0;
    unsigned waited = ITEM;
    unsigned blocks = 0;
    if (ITEM == 0)
        COUNT(&state[0], 1);
    while (blocks < limit && state[1] == 0) {
        const INDEX base = tile * BLOCK * GROUP_SIZE + ITEM;
        if (mix == 0) {
            EACH(sum += a[j])
        } else if (mix == 1) {
            EACH(a[j] = a[j] + factor * (b[j] + c[j]))
        } else if (mix == 2) {
            EACH(a[j] = a[j] + factor * b[j])
        } else if (mix == 3) {
            EACH(a[j] = a[j] + factor * a[j])
        } else {
            EACH(a[j] = one)
        }
        for (INDEX round = 0; round < pause; round++) waited = waited * 1664525u + 1013904223u;
        tile += GROUPS;
        if (tile >= tiles)
            tile %= tiles;
        blocks++;
    }
    /* The sum and the rounds of the wait loop are used, so that no compiler leaves them out. */
    const VECTOR last = (ELEMENT)(waited == 1u);
    sum += last;
    out[GROUP * GROUP_SIZE + ITEM] = sum;
    if (ITEM == 0)
        COUNT(&state[3], blocks);
}
