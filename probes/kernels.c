/*
 * The loops of STREAM and kernels like them, for the compilers of a site: what would they make of them?
 *
 * Each function is one thread's share of a loop. OpenMP stays outside, because what it does to such
 * a loop is known: the body moves into a function of its own whose bounds are known at run time
 * only, over arrays that are different objects. So here: bounds are arguments, pointers are
 * restricted (they point to different objects), nothing is said of their alignment, and the index
 * is a signed number as wide as a pointer. A compiler knows no more of the loops of stream.c once
 * it has taken them out of their parallel regions, and may do the same to them: vectors, streaming
 * stores, fused multiply-add, calls of memcpy and memset.
 *
 * With PAGES, say -DPAGES=4, the same loops take so many pages of 4 KiB side by side: the same line of
 * each, then the next line. It is what a user writes by hand where a core's bandwidth is limited by
 * the pages that its prefetchers follow.
 *
 * ELEMENT is double or float. C of 1989 but for __restrict and the attribute, and C++ as well, so
 * that the user's own flags do not stand in the way.
 */
#include <stddef.h>

#ifndef ELEMENT
#define ELEMENT double
#endif

#ifndef PAGES
#define PAGES 1
#endif

/*
 * Elements of a cache line, and from one of the pages side by side to the next: each is walked for four
 * pages, so that it goes on into the page behind it where arrays begin in the middle of one.
 */
enum { LINE = 64 / sizeof(ELEMENT), SPAN = 16384 / sizeof(ELEMENT) };

/* The loops over them, from the outermost on; without PAGES there are none. */
#define GROUPS for (; PAGES > 1 && n - i >= PAGES * SPAN; i += PAGES * SPAN)
#define LINES for (line = i; line < i + SPAN; line += LINE)
#define ELEMENTS                                                                                   \
    for (page = line; page < line + PAGES * SPAN; page += SPAN)                                    \
        for (j = page; j < page + LINE; j++)

/* Found by name however the user's flags hide what is not said to be visible. */
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

/* Not every loop uses every argument. */
#define UNUSED(x) ((void)(x))

/* A loop that writes an array: its name and what it does with element j. */
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
 * A loop that adds up: its name and the term of element j. A sum of many equal numbers drifts with
 * their number, and in float it stands still. So elements are summed in their own type over a block,
 * and blocks in double over a group. The loop inside is the loop that a compiler meets in any
 * program: without leave to reorder, it may not be vectorised.
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

/* Where a stretch of `length` that begins at `from` ends, before `end` at the latest. */
#define STRETCH(from, length, end) ((end) - (from) < (length) ? (end) : (from) + (length))

/* One line a kernel, as in the table of crates/kernels/src/table.rs. */
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
