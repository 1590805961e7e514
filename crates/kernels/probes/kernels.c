/*
 * STREAM and similar kernels, compiled with the compilers of a site to measure the code that they
 * generate.
 *
 * Each function is one thread's share of a loop. OpenMP is not used here, because its effect on such
 * a loop is known: the compiler moves the loop body into a separate function, whose bounds are known
 * only at run time and whose arrays are different objects. Therefore the bounds are arguments here,
 * the pointers are restricted (they point to different objects), their alignment is unspecified, and
 * the index is a signed integer as wide as a pointer. After a compiler has moved the loops of stream.c
 * out of their parallel regions, it has the same information about them, and can apply the same
 * optimisations: vectors, streaming stores, fused multiply-add, calls of memcpy and memset.
 *
 * With PAGES, e.g. -DPAGES=4, the same loops process that many 4 KiB pages side by side: the same line
 * of each page, then the next line. Users write such loops by hand if the bandwidth of a core is
 * limited by the number of pages that its prefetchers follow.
 *
 * ELEMENT is double or float. The language is C89 plus __restrict and the attribute, and also valid
 * C++, so that it compiles with the user's own flags.
 */
#include <stddef.h>

#ifndef ELEMENT
#define ELEMENT double
#endif

#ifndef PAGES
#define PAGES 1
#endif

/*
 * Elements per cache line, and distance in elements between the pages that are processed side by side.
 * Each sequence covers four pages, so that it continues into the following page if an array does not
 * start at a page boundary.
 */
enum { LINE = 64 / sizeof(ELEMENT), SPAN = 16384 / sizeof(ELEMENT) };

/* Loops over the pages, outermost first; without PAGES they do nothing. */
#define GROUPS for (; PAGES > 1 && n - i >= PAGES * SPAN; i += PAGES * SPAN)
#define LINES for (line = i; line < i + SPAN; line += LINE)
#define ELEMENTS                                                                                   \
    for (page = line; page < line + PAGES * SPAN; page += SPAN)                                    \
        for (j = page; j < page + LINE; j++)

/* Visible by name even if the user's flags hide symbols by default. */
#ifdef __cplusplus
#define KERNEL extern "C" __attribute__((visibility("default")))
#else
#define KERNEL __attribute__((visibility("default")))
#endif

/*
 * A share of each array, its length, and STREAM's scalar. Passes without a kernel that uses d have no fourth array,
 * and d points nowhere then.
 */
#define SHARE                                                                                      \
    ELEMENT *__restrict a, ELEMENT *__restrict b, ELEMENT *__restrict c, ELEMENT *__restrict d,    \
        ptrdiff_t n, double scalar

/* Some loops do not use all arguments. */
#define UNUSED(x) ((void)(x))

/* A loop that writes an array: its name and the statement for element j. */
#define MAP(name, statement)                                                                       \
    KERNEL double nodegauge_##name(SHARE)                                                          \
    {                                                                                              \
        const ELEMENT s = (ELEMENT)scalar;                                                         \
        ptrdiff_t i = 0, line, page, j;                                                            \
        UNUSED(a);                                                                                 \
        UNUSED(b);                                                                                 \
        UNUSED(c);                                                                                 \
        UNUSED(d);                                                                                 \
        UNUSED(s);                                                                                 \
        GROUPS LINES ELEMENTS statement;                                                           \
        for (j = i; j < n; j++)                                                                    \
            statement;                                                                             \
        return 0;                                                                                  \
    }

/*
 * A reduction loop: its name and the term of element j. In one running sum of many equal numbers, the
 * rounding error grows with their number, and in float the sum stops growing. Therefore elements are
 * summed in their own type over a block, and blocks in double over a group. The inner loop is that of
 * an ordinary program: a compiler may not vectorise it unless it is allowed to reorder operations.
 */
#define SUM(name, term)                                                                            \
    KERNEL double nodegauge_##name(SHARE)                                                          \
    {                                                                                              \
        double total = 0;                                                                          \
        ptrdiff_t i = 0, line, page, j;                                                            \
        UNUSED(a);                                                                                 \
        UNUSED(b);                                                                                 \
        UNUSED(c);                                                                                 \
        UNUSED(d);                                                                                 \
        UNUSED(scalar);                                                                            \
        GROUPS {                                                                                   \
            double group = 0;                                                                      \
            LINES {                                                                                \
                ELEMENT block = 0;                                                                 \
                ELEMENTS block += term;                                                            \
                group += block;                                                                    \
            }                                                                                      \
            total += group;                                                                        \
        }                                                                                          \
        j = i;                                                                                     \
        while (j < n) {                                                                            \
            const ptrdiff_t group_end = STRETCH(j, GROUP, n);                                      \
            double group = 0;                                                                      \
            while (j < group_end) {                                                                \
                const ptrdiff_t block_end = STRETCH(j, BLOCK, group_end);                          \
                ELEMENT block = 0;                                                                 \
                for (; j < block_end; j++)                                                         \
                    block += term;                                                                 \
                group += block;                                                                    \
            }                                                                                      \
            total += group;                                                                        \
        }                                                                                          \
        return total;                                                                              \
    }
enum { BLOCK = 512, GROUP = 512 * BLOCK };

/* End of a stretch of `length` that begins at `from`, at most `end`. */
#define STRETCH(from, length, end) ((end) - (from) < (length) ? (end) : (from) + (length))

/* One line per kernel, as in the table of crates/kernels/src/table.rs. */
MAP(copy, c[j] = a[j])
MAP(scale, b[j] = s * c[j])
MAP(add, c[j] = a[j] + b[j])
MAP(triad, a[j] = b[j] + s * c[j])
MAP(write, c[j] = s)
MAP(update, a[j] = s * a[j])
MAP(nstream, a[j] += b[j] + s * c[j])
MAP(vector_triad, d[j] = a[j] + b[j] * c[j])
SUM(read, a[j])
SUM(dot, a[j] * b[j])
