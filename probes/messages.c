/*
 * The message probe of nodegauge: latency, bandwidth and collectives between MPI processes.
 *
 * The patterns, their sizes, windows, warm-ups and what is counted are those that the OSU
 * micro-benchmarks made customary; the text is nodegauge's own. It is compiled by the site's
 * mpicc, started by the site's launcher, and answers on standard output in lines of words, which
 * rank 0 flushes after every message size, so that a run that is killed leaves what it measured:
 *
 *   nodegauge-messages 1
 *   mpi <version> <ranks> <thread level>       library <text>
 *   rank <n> <pid> <cpus> <host>               one line a rank, CPUs as the kernel reports them
 *   refused <pattern> <why>
 *   size <pattern> <bytes> <a> <b> <pairs>     a size begins; a and b are world ranks
 *   batch <n> <trip before> <trip after> <seconds>...   seconds of one operation, a mean of n each
 *   lost <share>...                            of each batch, the share of its time for which a rank
 *                                              was off its core because another program took it
 *   spread <least> <greatest>                  means of the fastest and the slowest rank
 *   wrong <count>                              bytes that were not what was sent
 *   done <why>                                 stable, samples or limit
 *   step <n>                                   all pairs of a step are through
 *   end
 *
 * "Trip" is the time for a cache line to go from the first rank's core to its partner's and back,
 * seconds, 0 when they share no memory: it tells where a hypervisor has put the cores.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { DATA = 1, ACK = 2, TEXT = 3, SYNC = 4, LARGE = 8192, MOST_THREADS = 64 };
enum { LEAST_SAMPLES = 20, MOST_SAMPLES = 60, GROUP = 5 };

typedef struct Test Test;
typedef struct {
    const char *name;
    /* Runs n operations and returns this rank's seconds. */
    double (*run)(Test *, long n);
    int collective;       /* every rank works and is timed, else ranks below `pairs` are timed */
    int windowed;         /* an operation is a window of messages */
    int smallest;         /* bytes */
    int several;          /* more than one pair is meant */
    long most;            /* largest size by custom, bytes */
} Pattern;

struct Test {
    const Pattern *pattern;
    MPI_Comm comm;
    int rank, ranks, pairs, partner, sender, buffers, slot, senders, receivers;
    long bytes, window;
    unsigned char **out, **in;
    MPI_Request *requests;
    MPI_Status *statuses;
    volatile unsigned long *court; /* the shared cache line, or NULL */
};

static struct {
    long window, iterations, warmup, samples, validate, life;
    double limit, batch;
    int each, multiple, senders, receivers, customary;
    const char *tests, *sizes, *steps;
} asked = {64, 0, -1, 0, 1, 600, 0.25, 200e-6, 0, 0, 1, 2, 0, "latency", "", ""};

/* A batch that others took more than this share of does not count. */
static const double TRIFLE = 0.02;

static char *text;
static size_t text_used, text_room;
static int world_rank, world_ranks, direct = 1;

static void fail(const char *what) {
    fprintf(stderr, "nodegauge-messages: rank %d: %s\n", world_rank, what);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

/* Adds to the answer; `flush` sends it when this process may print. */
static void say(const char *format, ...) {
    va_list list;
    if (text_used + 512 > text_room) {
        text_room = 2 * text_room + 4096;
        text = realloc(text, text_room);
        if (!text)
            fail("no memory");
    }
    va_start(list, format);
    text_used += (size_t)vsnprintf(text + text_used, 512, format, list);
    va_end(list);
}

static void flush(void) {
    if (!direct || world_rank != 0)
        return;
    fwrite(text, 1, text_used, stdout);
    fflush(stdout);
    text_used = 0;
}

static unsigned char *page(size_t bytes) {
    void *p = NULL;
    if (posix_memalign(&p, (size_t)sysconf(_SC_PAGESIZE), bytes ? bytes : 1))
        fail("no memory for the message buffers");
    memset(p, 'a', bytes ? bytes : 1);
    return p;
}

#include "messages_patterns.h"

/* ---- one size ------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/*
 * Whether the median is known to half a percent: half the width of its distribution-free 95 %
 * interval, whose ends are the order statistics about sqrt(n) from the middle.
 */
static int stable(const double *samples, long n) {
    double sorted[MOST_SAMPLES];
    long reach = 1;
    if (n < LEAST_SAMPLES || n > MOST_SAMPLES)
        return 0;
    memcpy(sorted, samples, (size_t)n * sizeof *samples);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    while (reach * reach < n)
        reach++;
    return sorted[n / 2 + reach] - sorted[n / 2 - reach] <= 0.01 * sorted[n / 2];
}

/* Timed operations of a size: as asked, or as the OSU micro-benchmarks time; 0 for no fixed number. */
static long iterations(const Test *t) {
    const int large = t->bytes > LARGE;
    if (asked.iterations || !asked.customary)
        return asked.iterations;
    if (t->pattern->windowed)
        return large ? 20 : 100;
    if (t->pattern->collective)
        return large ? 100 : 1000;
    return large ? 1000 : 10000;
}

/* How many operations make a batch, and how many batches lie between two looks at the clock. */
typedef struct {
    long operations, group;
} Plan;

/* Warms up in doubling pieces, so that a slow machine stays within a share of the limit. */
static Plan warm_up(Test *t) {
    const long fixed = iterations(t);
    const int large = t->bytes > LARGE;
    const long whole = t->pattern->run == threaded ? (long)t->senders * t->receivers : 1;
    long custom = t->pattern->windowed ? (large ? 2 : 10) : (large ? 10 : 100);
    long done = 0, piece = whole, plan[3];
    double start = now(), begun, one;
    if (asked.warmup >= 0)
        custom = asked.warmup;
    do {
        begun = now();
        t->pattern->run(t, piece);
        one = (now() - begun) / (double)piece;
        done += piece;
        plan[0] = done >= custom || now() - start > asked.limit / 4;
        plan[1] = (long)(asked.batch / (one > 1e-9 ? one : 1e-9)) + 1;
        /* At least eight batches fit the limit. */
        while (plan[1] > 1 && (double)plan[1] * one > asked.limit / 8)
            plan[1] /= 2;
        plan[1] = (plan[1] + whole - 1) / whole * whole;
        plan[2] = (double)plan[1] * one > asked.limit / 8 ? 1 : GROUP;
        MPI_Bcast(plan, 3, MPI_LONG, 0, t->comm);
        piece = done + 2 * piece <= custom ? 2 * piece : piece;
    } while (!plan[0]);
    if (fixed && plan[1] > fixed)
        plan[1] = fixed;
    return (Plan){plan[1], plan[2]};
}

/* Whether it is over, and why; the first rank decides. */
static const char *over(const double *samples, long have, long clean, long fixed, long left,
                        double started) {
    if (fixed || asked.samples) {
        if (fixed ? left <= 0 : have >= asked.samples)
            return "samples";
    } else if (stable(samples, clean)) {
        return "stable";
    } else if (clean >= MOST_SAMPLES) {
        return "samples";
    }
    return now() - started >= asked.limit ? "limit" : NULL;
}

/* Involuntary switches of this thread so far, and its time on a core. */
typedef struct {
    long switches;
    double on_core;
} Use;

static Use use(void) {
    Use u = {0, 0};
#ifdef RUSAGE_THREAD
    struct rusage usage;
    struct timespec cpu;
    if (getrusage(RUSAGE_THREAD, &usage) == 0 && clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) == 0)
        u = (Use){usage.ru_nivcsw, (double)cpu.tv_sec + 1e-9 * (double)cpu.tv_nsec};
#endif
    return u;
}

/* Runs a batch; tells the share of the time for which others had this thread's core. A thread that
 * sleeps by itself, as some libraries do while they wait for a network, lost nothing. */
static double batch(Test *t, long n, double *lost) {
    const Use before = use();
    const double start = now(), seconds = t->pattern->run(t, n), wall = now() - start;
    const Use after = use();
    const double off = wall - (after.on_core - before.on_core);
    *lost = after.switches > before.switches && off > 0 ? off / wall : 0;
    return seconds / (double)n;
}

static void measure(Test *t) {
    const int collective = t->pattern->collective;
    const int timed = collective ? t->ranks : t->pairs, counts = collective || t->rank < t->pairs;
    double group[GROUP], mean[GROUP], least[GROUP], greatest[GROUP], all[MOST_SAMPLES] = {0};
    double off[GROUP], lost[GROUP];
    double before, after, started, least_sum = 0, greatest_sum = 0;
    const long fixed = iterations(t);
    long have = 0, clean = 0, left = fixed, wrong;
    const char *why = NULL;
    int go = 1;
    MPI_Barrier(t->comm);
    const Plan plan = warm_up(t);
    for (started = now(); go;) {
        long n = plan.operations;
        int batches = (int)plan.group;
        if (asked.samples && have + batches > asked.samples)
            batches = (int)(asked.samples - have);
        if (fixed && left < n)
            n = left, batches = 1;
        else if (fixed && left < batches * n)
            batches = (int)(left / n);
        before = trip(t);
        for (int g = 0; g < batches; g++) {
            const double seconds = batch(t, n, &off[g]);
            group[g] = counts ? seconds : 0;
        }
        after = trip(t);
        left -= batches * n;
        MPI_Reduce(group, mean, batches, MPI_DOUBLE, MPI_SUM, 0, t->comm);
        MPI_Reduce(off, lost, batches, MPI_DOUBLE, MPI_MAX, 0, t->comm);
        if (collective) {
            MPI_Reduce(group, least, batches, MPI_DOUBLE, MPI_MIN, 0, t->comm);
            MPI_Reduce(group, greatest, batches, MPI_DOUBLE, MPI_MAX, 0, t->comm);
        }
        if (t->rank == 0) {
            say("batch %ld %.3e %.3e", n, before, after);
            for (int g = 0; g < batches; g++, have++) {
                say(" %.5e", mean[g] / timed);
                if (clean < MOST_SAMPLES && lost[g] <= TRIFLE)
                    all[clean++] = mean[g] / timed;
                if (collective)
                    least_sum += least[g], greatest_sum += greatest[g];
            }
            say("\nlost");
            for (int g = 0; g < batches; g++)
                say(" %.3f", lost[g]);
            say("\n");
            why = over(all, have, clean, fixed, left, started);
            go = !why;
        }
        MPI_Bcast(&go, 1, MPI_INT, 0, t->comm);
    }
    if (t->rank == 0 && collective)
        say("spread %.5e %.5e\n", least_sum / (double)have, greatest_sum / (double)have);
    if (asked.validate > 0) {
        wrong = validate(t);
        if (t->rank == 0)
            say("wrong %ld\n", wrong);
    }
    if (t->rank == 0)
        say("done %s\n", why);
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int listed(const char *list, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == 0))
            return 1;
    return 0;
}

/* One pattern, all sizes, on `comm`; `first` and `second` are the world ranks that are named. */
static void run_pattern(const Pattern *pattern, MPI_Comm comm, int first, int second) {
    Test t = {.pattern = pattern, .comm = comm, .window = asked.window};
    long largest = 0;
    char *end;
    MPI_Comm_rank(comm, &t.rank);
    MPI_Comm_size(comm, &t.ranks);
    t.pairs = pattern->several && !pattern->collective ? t.ranks / 2 : 1;
    t.sender = t.rank < t.pairs;
    t.partner = t.sender ? t.rank + t.pairs : t.rank - t.pairs;
    t.senders = asked.senders, t.receivers = asked.receivers;
    t.buffers = asked.multiple && !pattern->collective ? (int)asked.window : 1;
    for (const char *at = asked.sizes; *at; at = *end ? end + 1 : end) {
        const long size = strtol(at, &end, 10);
        largest = size > largest ? size : largest;
    }
    if (pattern->most < largest && pattern->collective)
        largest = pattern->most;
    const size_t room = (size_t)largest * (size_t)(pattern->collective ? t.ranks : 1);
    t.out = calloc((size_t)t.buffers, sizeof *t.out);
    t.in = calloc((size_t)t.buffers, sizeof *t.in);
    t.requests = calloc(2 * (size_t)asked.window, sizeof *t.requests);
    t.statuses = calloc((size_t)asked.window, sizeof *t.statuses);
    if (!t.out || !t.in || !t.requests || !t.statuses)
        fail("no memory");
    for (int b = 0; b < t.buffers; b++)
        t.out[b] = page(room), t.in[b] = page(room);
    open_court(&t);
    for (const char *at = asked.sizes; *at; at = *end ? end + 1 : end) {
        t.bytes = strtol(at, &end, 10);
        if (pattern->run == barrier)
            t.bytes = 0, end = (char *)at + strlen(at);
        else if (t.bytes < pattern->smallest || (pattern->collective && t.bytes > pattern->most) ||
                 (pattern->run == allreduce && t.bytes % (long)sizeof(float)))
            continue;
        if (t.rank == 0)
            say("size %s %ld %d %d %d\n", pattern->name, t.bytes, first, second, t.pairs);
        flush();
        measure(&t);
        flush();
    }
    if (t.court)
        munmap((void *)t.court, 4096);
    for (int b = 0; b < t.buffers; b++)
        free(t.out[b]), free(t.in[b]);
    free(t.out), free(t.in), free(t.requests), free(t.statuses);
}

static void run_patterns(MPI_Comm comm, int first, int second) {
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++)
        if (listed(asked.tests, patterns[p].name))
            run_pattern(&patterns[p], comm, first, second);
}

/*
 * Steps such as "0-1,2-3;0-2,1-3": the pairs of a step work at once, step after step. Who has
 * nothing to do sleeps, so that it neither polls memory nor heats the chip.
 */
static void run_steps(void) {
    const char *at = asked.steps;
    for (int step = 0; *at; step++) {
        int colour = MPI_UNDEFINED, key = 0, pairs = 0, partner_a = 0, partner_b = 0;
        MPI_Comm pair;
        MPI_Request all;
        int gone = 0, heard = 0, length;
        for (;; at++) {
            char *end;
            const int a = (int)strtol(at, &end, 10), b = (int)strtol(end + 1, &end, 10);
            if (a == world_rank || b == world_rank)
                colour = pairs, key = b == world_rank, partner_a = a, partner_b = b;
            pairs++;
            at = end;
            if (*at != ',')
                break;
        }
        at += *at == ';';
        MPI_Comm_split(MPI_COMM_WORLD, colour, key, &pair);
        direct = 0;
        text_used = 0;
        if (pair != MPI_COMM_NULL) {
            run_patterns(pair, partner_a, partner_b);
            MPI_Comm_free(&pair);
            if (key == 0 && world_rank != 0)
                MPI_Send(text, (int)text_used, MPI_CHAR, 0, TEXT, MPI_COMM_WORLD);
        }
        direct = 1;
        if (world_rank == 0) {
            heard = text_used > 0;
            flush();
            while (heard < pairs) {
                MPI_Status status;
                MPI_Iprobe(MPI_ANY_SOURCE, TEXT, MPI_COMM_WORLD, &gone, &status);
                if (!gone) {
                    usleep(200);
                    continue;
                }
                MPI_Get_count(&status, MPI_CHAR, &length);
                text_used = 0;
                while (text_room <= (size_t)length)
                    say("%200s", ""), text_used = text_room - 256;
                MPI_Recv(text, length, MPI_CHAR, status.MPI_SOURCE, TEXT, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
                text_used = (size_t)length;
                flush();
                heard++;
            }
            text_used = 0;
            say("step %d\n", step);
            flush();
        }
        MPI_Ibarrier(MPI_COMM_WORLD, &all);
        for (gone = 0; !gone; MPI_Test(&all, &gone, MPI_STATUS_IGNORE))
            usleep(200);
    }
}

/* The CPUs that the kernel lets this process run on: 0-3,8. */
static void my_cpus(char *list, size_t room) {
    size_t used = 0;
    list[0] = 0;
#ifdef __linux__
    const int most = 8192;
    cpu_set_t *set = CPU_ALLOC(most);
    const size_t size = CPU_ALLOC_SIZE(most);
    if (set && sched_getaffinity(0, size, set) == 0)
        for (int from = 0, to; from < most && used + 16 < room; from = to + 1) {
            to = from;
            if (!CPU_ISSET_S(from, size, set))
                continue;
            while (to + 1 < most && CPU_ISSET_S(to + 1, size, set))
                to++;
            used += (size_t)snprintf(list + used, room - used, from < to ? "%s%d-%d" : "%s%d",
                                     used ? "," : "", from, to);
        }
    if (set)
        CPU_FREE(set);
#endif
    if (!used)
        snprintf(list, room, "?");
}

static void introduce(int level) {
    char mine[512] = "", cpus[200], host[256] = "", library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    char *all = malloc((size_t)world_ranks * sizeof mine);
    int length, version, subversion;
    if (!all)
        fail("no memory");
    my_cpus(cpus, sizeof cpus);
    gethostname(host, sizeof host - 1);
    snprintf(mine, sizeof mine, "%ld %s %s", (long)getpid(), cpus, host);
    MPI_Gather(mine, sizeof mine, MPI_CHAR, all, sizeof mine, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (world_rank == 0) {
        MPI_Get_version(&version, &subversion);
        MPI_Get_library_version(library, &length);
        for (char *c = library; *c; c++)
            *c = *c == '\n' ? '|' : *c == '\t' ? ' ' : *c;
        say("nodegauge-messages 1\nmpi %d.%d %d %d\n", version, subversion, world_ranks, level);
        say("library %.400s\n", library);
        for (int r = 0; r < world_ranks; r++)
            say("rank %d %s\n", r, all + (size_t)r * sizeof mine);
        flush();
    }
    free(all);
}

static void read_arguments(int count, char **words) {
    for (int i = 1; i < count; i++) {
        char *value = strchr(words[i], '=');
        if (!value)
            continue;
        *value++ = 0;
#define NUMBER(name, function) if (strcmp(words[i], #name) == 0) asked.name = function(value)
        NUMBER(window, atol);
        NUMBER(iterations, atol);
        NUMBER(warmup, atol);
        NUMBER(samples, atol);
        NUMBER(validate, atol);
        NUMBER(life, atol);
        NUMBER(limit, atof);
        NUMBER(batch, atof);
        NUMBER(each, atoi);
        NUMBER(multiple, atoi);
        NUMBER(senders, atoi);
        NUMBER(receivers, atoi);
        NUMBER(customary, atoi);
        NUMBER(tests, );
        NUMBER(sizes, );
        NUMBER(steps, );
    }
}

int main(int count, char **words) {
    int level = MPI_THREAD_SINGLE, threads;
#ifdef __linux__
    /* Whoever started this process is gone: so is this. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    read_arguments(count, words);
    alarm((unsigned)asked.life);
    threads = listed(asked.tests, "latency_mt");
    if (threads)
        MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &level);
    else
        MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_ranks);
    introduce(level);
    if (threads && level < MPI_THREAD_MULTIPLE) {
        if (world_rank == 0)
            say("refused latency_mt level %d\n", level);
        flush();
    } else if (world_ranks < 2) {
        if (world_rank == 0)
            say("refused all one rank\n");
        flush();
    } else if (*asked.steps) {
        run_steps();
    } else {
        run_patterns(MPI_COMM_WORLD, 0, world_ranks / 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == 0)
        say("end\n");
    flush();
    MPI_Finalize();
    return 0;
}
