/*
 * The message probe of nodegauge: latency, bandwidth and collectives between MPI processes.
 *
 * The patterns are those of the OSU micro-benchmarks; the code is nodegauge's own. It is compiled with the
 * site's mpicc, or with abi/mpi.h as a part of nodegauge's build. The site's launcher starts it with arguments
 * such as
 *
 *   pattern=<name>:<participants>:<bytes>/<warm-up>/<operations>,...   0 operations: until stable
 *   window=<messages> limit=<seconds per size> steps=<a>-<b>,...;...
 *   bind=<cpus>;<cpus>;...                               the CPUs of each rank, if the launcher cannot bind: 0-3,8
 *   library=<path>                                       with abi/mpi.h: the MPI library to open
 *
 * and it prints its results on standard output in lines of words. Rank 0 flushes them after every message
 * size, so that the results of a killed run are kept:
 *
 *   nodegauge-messages 1
 *   mpi <version> <ranks> <thread level>       0 single to 3 multiple
 *   library <text>
 *   variable <name> <value>                    a control variable of MPI_T about eager messages
 *   rank <n> <pid> <cpus> <host>               one line per rank, CPUs as reported by the kernel
 *   refused <pattern> <why>
 *   size <pattern> <bytes> <a> <b> <pairs>     start of a size; a and b are world ranks
 *   batch <n> <trip before> <trip after> <seconds>...   seconds per operation, each a mean of n operations
 *   lost <share>...                            per batch, the share of its time in which another program
 *                                              used the core of a rank
 *   spread <least> <greatest>                  means of the fastest and of the slowest rank
 *   wrong <count>                              bytes that differ from the sent bytes
 *   done <why>                                 stable, samples or limit
 *   step <n>                                   all pairs of a step are complete
 *   end
 *
 * "Trip" is the round-trip time of a cache line between the cores of the first rank and of its partner,
 * seconds; 0 if the ranks share no memory. It shows where a hypervisor has placed the cores.
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

enum { DATA = 1, ACK = 2, TEXT = 3, SYNC = 4, MOST_THREADS = 64, MOST_PATTERNS = 64 };
enum { LEAST_SAMPLES = 20, MOST_SAMPLES = 60, GROUP = 5 };

/* Participants of an operation: ranks below `pairs` with their partners, or every rank. */
enum { PAIR, THREADS, PAIRS, ALL };
static const char *const participants[] = {"pair", "threads", "pairs", "all"};

typedef struct Test Test;
typedef struct {
    const char *name;
    /* Runs n operations and returns this rank's seconds. */
    double (*run)(Test *, long n);
    /* Content of the receive buffers after an operation, and the ranks that have it: names in
       messages_patterns.h. */
    int arrives, where;
} Pattern;

struct Test {
    const Pattern *pattern;
    MPI_Comm comm;
    int participants, rank, ranks, pairs, partner, sender, buffers, senders, receivers;
    long bytes, window, warm_up, operations;
    unsigned char **out, **in;
    MPI_Request *requests;
    MPI_Status *statuses;
    volatile unsigned long *line; /* the shared cache line, or NULL */
};

/* Requested measurements of a pattern. */
typedef struct {
    const Pattern *pattern;
    int participants;
    const char *sizes;
} Request;

static struct {
    long window, samples, validate, life;
    double limit, batch;
    int each, multiple, senders, receivers, patterns;
    Request pattern[MOST_PATTERNS];
    const char *steps;
} asked = {.window = 64, .validate = 1, .life = 600, .limit = 0.25, .batch = 200e-6, .senders = 1,
           .receivers = 2, .steps = ""};

static char *text;
static size_t text_used, text_room;
static int world_rank, world_ranks, direct = 1;

static void fail(const char *what) {
    fprintf(stderr, "nodegauge-messages: rank %d: %s\n", world_rank, what);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

/* Appends to the output; `flush` prints it if this process may print. */
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

static double now(void) { return MPI_Wtime(); }

#include "messages_patterns.h"
#include "messages_shared_line.h"
#include "messages_measure.h"

/* ---- control ------------------------------------------------------------------------------- */

/* Reads a size such as "8/100/0" and returns the start of the next one. */
static const char *read_size(Test *t, const char *at) {
    char *end;
    t->bytes = strtol(at, &end, 10);
    t->warm_up = strtol(end + (*end == '/'), &end, 10);
    t->operations = strtol(end + (*end == '/'), &end, 10);
    return end + (*end == ',');
}

/* Runs all sizes of one pattern on `comm`; `first` and `second` are the world ranks in the output. */
static void run_pattern(const Request *request, MPI_Comm comm, int first, int second) {
    const Pattern *pattern = request->pattern;
    Test t = {.pattern = pattern, .comm = comm, .window = asked.window,
              .participants = request->participants};
    const int collective = t.participants == ALL;
    long largest = 0;
    MPI_Comm_rank(comm, &t.rank);
    MPI_Comm_size(comm, &t.ranks);
    t.pairs = t.participants == PAIRS ? t.ranks / 2 : 1;
    t.sender = t.rank < t.pairs;
    t.partner = t.sender ? t.rank + t.pairs : t.rank - t.pairs;
    if (t.rank >= 2 * t.pairs)
        t.partner = MPI_PROC_NULL; /* with an odd number of ranks, one has no partner */
    t.senders = asked.senders, t.receivers = asked.receivers;
    t.buffers = asked.multiple && !collective ? (int)asked.window : 1;
    for (const char *at = request->sizes; *at;) {
        at = read_size(&t, at);
        largest = t.bytes > largest ? t.bytes : largest;
    }
    t.out = calloc((size_t)t.buffers, sizeof *t.out);
    t.in = calloc((size_t)t.buffers, sizeof *t.in);
    t.requests = calloc(2 * (size_t)asked.window, sizeof *t.requests);
    t.statuses = calloc((size_t)asked.window, sizeof *t.statuses);
    if (!t.out || !t.in || !t.requests || !t.statuses)
        fail("no memory");
    for (int b = 0; b < t.buffers; b++)
        t.out[b] = page((size_t)(largest * blocks_out(&t))),
        t.in[b] = page((size_t)(largest * blocks_in(&t)));
    open_line(&t);
    for (const char *at = request->sizes; *at;) {
        at = read_size(&t, at);
        if (t.rank == 0)
            say("size %s %ld %d %d %d\n", pattern->name, t.bytes, first, second, t.pairs);
        flush();
        measure(&t);
        flush();
    }
    if (t.line)
        munmap((void *)t.line, 4096);
    for (int b = 0; b < t.buffers; b++)
        free(t.out[b]), free(t.in[b]);
    free(t.out), free(t.in), free(t.requests), free(t.statuses);
}

static void run_patterns(MPI_Comm comm, int first, int second) {
    for (int p = 0; p < asked.patterns; p++)
        run_pattern(&asked.pattern[p], comm, first, second);
}

/*
 * Runs steps such as "0-1,2-3;0-2,1-3": the pairs of a step run concurrently, one step after another. Ranks
 * without work sleep, so that they neither poll memory nor heat the chip.
 */
static void run_steps(void) {
    const char *at = asked.steps;
    for (int step = 0; *at; step++) {
        int colour = MPI_UNDEFINED, key = 0, pairs = 0, partner_a = 0, partner_b = 0;
        MPI_Comm pair;
        MPI_Request all;
        int gone = 0, answers = 0, length;
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
            answers = text_used > 0;
            flush();
            while (answers < pairs) {
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
                answers++;
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

/* Writes the CPUs on which this process may run: 0-3,8. */
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

/* True if MPI_T was initialised. It is finalised last, directly before MPI itself: in MPICH 5.0.0,
   MPI_T_finalize frees data of the collectives, and a later MPI_Bcast crashes; Open MPI 4.1.4 crashes if it is
   called after MPI_Finalize. */
static int variables_read;

/* Prints the library's control variables with "eager" in their names: integers that belong to no object. */
static void print_variables(void) {
#if MPI_VERSION >= 3
    int level, count = 0;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &level) || MPI_T_cvar_get_num(&count))
        return;
    for (int i = 0; i < count; i++) {
        char name[200], words[2];
        int length = sizeof name, room = sizeof words, verbosity, object, scope, size = 0, values;
        union {
            int whole;
            long long large;
        } value = {.large = 0};
        MPI_Datatype type;
        MPI_T_enum names;
        MPI_T_cvar_handle handle;
        if (MPI_T_cvar_get_info(i, name, &length, &verbosity, &type, &names, words, &room, &object,
                                &scope)
            || object != MPI_T_BIND_NO_OBJECT || (!strstr(name, "eager") && !strstr(name, "EAGER"))
            || (type != MPI_INT && type != MPI_UNSIGNED_LONG && type != MPI_UNSIGNED_LONG_LONG)
            || MPI_Type_size(type, &size) || size > (int)sizeof value
            || MPI_T_cvar_handle_alloc(i, NULL, &handle, &values))
            continue;
        if (values == 1 && MPI_T_cvar_read(handle, &value) == MPI_SUCCESS)
            say("variable %s %lld\n", name, type == MPI_INT ? value.whole : value.large);
        MPI_T_cvar_handle_free(&handle);
    }
    variables_read = 1;
#endif
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
        say("nodegauge-messages 1\nmpi %d.%d %d %d\n", version, subversion, world_ranks,
            (level >= MPI_THREAD_FUNNELED) + (level >= MPI_THREAD_SERIALIZED)
                + (level >= MPI_THREAD_MULTIPLE));
        say("library %.400s\n", library);
        print_variables();
        for (int r = 0; r < world_ranks; r++)
            say("rank %d %s\n", r, all + (size_t)r * sizeof mine);
        flush();
    }
    free(all);
}

/* Reads "latency:pair:8/100/0,16/100/0"; an unknown pattern is ignored. */
static void read_pattern(char *text) {
    char *who = strchr(text, ':'), *sizes = who ? strchr(who + 1, ':') : NULL;
    Request request = {NULL, -1, sizes ? sizes + 1 : NULL};
    if (!sizes || asked.patterns == MOST_PATTERNS)
        return;
    *who++ = 0, *sizes = 0;
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++)
        if (strcmp(patterns[p].name, text) == 0)
            request.pattern = &patterns[p];
    for (int i = PAIR; i <= ALL; i++)
        if (strcmp(participants[i], who) == 0)
            request.participants = i;
    if (request.pattern && request.participants >= 0)
        asked.pattern[asked.patterns++] = request;
}

/* Binds this process to its part of a list such as 0-3,8;4-7. Only Hydra starts ranks that it cannot bind, so the
   number of the rank is known from its variable before MPI is initialised. */
static void bind_to(const char *list) {
#ifdef __linux__
    const char *number = getenv("PMI_RANK");
    const int most = 8192;
    cpu_set_t *set = CPU_ALLOC(most);
    const size_t size = CPU_ALLOC_SIZE(most);
    if (!number || !set)
        return;
    for (long rank = atol(number); rank > 0 && list; rank--) {
        list = strchr(list, ';');
        list += list != NULL;
    }
    CPU_ZERO_S(size, set);
    while (list && *list && *list != ';') {
        char *end;
        long from = strtol(list, &end, 10), to = from;
        if (*end == '-')
            to = strtol(end + 1, &end, 10);
        for (; from >= 0 && from <= to && from < most; from++)
            CPU_SET_S((size_t)from, size, set);
        list = *end == ',' ? end + 1 : end;
        if (*end != ',')
            break;
    }
    /* The ranks report where they are, whether this succeeds or not. */
    if (CPU_COUNT_S(size, set) > 0)
        (void)sched_setaffinity(0, size, set);
    CPU_FREE(set);
#else
    (void)list;
#endif
}

static void read_arguments(int count, char **words) {
    for (int i = 1; i < count; i++) {
        char *value = strchr(words[i], '=');
        if (!value)
            continue;
        *value++ = 0;
        if (strcmp(words[i], "pattern") == 0)
            read_pattern(value);
        if (strcmp(words[i], "steps") == 0)
            asked.steps = value;
        if (strcmp(words[i], "bind") == 0)
            bind_to(value);
#ifdef MPI_OPENED_WHEN_RUN
        if (strcmp(words[i], "library") == 0)
            open_mpi(value);
#endif
#define NUMBER(name, function) if (strcmp(words[i], #name) == 0) asked.name = function(value)
        NUMBER(window, atol);
        NUMBER(samples, atol);
        NUMBER(validate, atol);
        NUMBER(life, atol);
        NUMBER(limit, atof);
        NUMBER(batch, atof);
        NUMBER(each, atoi);
        NUMBER(multiple, atoi);
        NUMBER(senders, atoi);
        NUMBER(receivers, atoi);
    }
}

int main(int count, char **words) {
    int level = MPI_THREAD_SINGLE, threads = 0;
#ifdef __linux__
    /* This process ends with its parent. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    read_arguments(count, words);
    alarm((unsigned)asked.life);
    for (int p = 0; p < asked.patterns; p++)
        threads |= asked.pattern[p].participants == THREADS;
    if (threads)
        MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &level);
    else
        MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_ranks);
    introduce(level);
    if (threads && level < MPI_THREAD_MULTIPLE) {
        for (int p = 0; p < asked.patterns && world_rank == 0; p++)
            if (asked.pattern[p].participants == THREADS)
                say("refused %s level %d\n", asked.pattern[p].pattern->name, level);
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
#if MPI_VERSION >= 3
    if (variables_read)
        MPI_T_finalize();
#endif
    MPI_Finalize();
    return 0;
}
