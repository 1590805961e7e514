/*
 * The message probe's patterns, what their data must be, and the fingerprint of where the cores
 * are. Part of messages.c, which says what all of it is.
 */

/* ---- point to point ---------------------------------------------------------------------- */

/* Both sides are in the loop before the clock starts. */
static void meet(Test *t) {
    if (t->sender) {
        MPI_Send(NULL, 0, MPI_CHAR, t->partner, SYNC, t->comm);
        MPI_Recv(NULL, 0, MPI_CHAR, t->partner, SYNC, t->comm, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(NULL, 0, MPI_CHAR, t->partner, SYNC, t->comm, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_CHAR, t->partner, SYNC, t->comm);
    }
}

static double ping(Test *t, long n) {
    const int bytes = (int)t->bytes, partner = t->partner, buffers = t->buffers;
    MPI_Comm comm = t->comm;
    double start, sum = 0;
    int slot = 0;
    long i;
    meet(t);
    if (!t->sender) {
        for (i = 0; i < n; i++) {
            MPI_Recv(t->in[slot], bytes, MPI_CHAR, partner, DATA, comm, MPI_STATUS_IGNORE);
            MPI_Send(t->out[slot], bytes, MPI_CHAR, partner, DATA, comm);
            slot = slot + 1 < buffers ? slot + 1 : 0;
        }
        return 0;
    }
    if (asked.each) {
        for (i = 0; i < n; i++) {
            start = MPI_Wtime();
            MPI_Send(t->out[slot], bytes, MPI_CHAR, partner, DATA, comm);
            MPI_Recv(t->in[slot], bytes, MPI_CHAR, partner, DATA, comm, MPI_STATUS_IGNORE);
            sum += MPI_Wtime() - start;
            slot = slot + 1 < buffers ? slot + 1 : 0;
        }
        return sum / 2;
    }
    start = MPI_Wtime();
    for (i = 0; i < n; i++) {
        MPI_Send(t->out[slot], bytes, MPI_CHAR, partner, DATA, comm);
        MPI_Recv(t->in[slot], bytes, MPI_CHAR, partner, DATA, comm, MPI_STATUS_IGNORE);
        slot = slot + 1 < buffers ? slot + 1 : 0;
    }
    return (MPI_Wtime() - start) / 2;
}

/* No division here: at small sizes it would cost as much as a tenth of a message. */
static void post_sends(Test *t) {
    const int bytes = (int)t->bytes, partner = t->partner, step = t->buffers > 1;
    for (long w = 0; w < t->window; w++)
        MPI_Isend(t->out[step ? w : 0], bytes, MPI_CHAR, partner, DATA, t->comm, &t->requests[w]);
}

static void post_receives(Test *t, MPI_Request *requests) {
    const int bytes = (int)t->bytes, partner = t->partner, step = t->buffers > 1;
    for (long w = 0; w < t->window; w++)
        MPI_Irecv(t->in[step ? w : 0], bytes, MPI_CHAR, partner, DATA, t->comm, &requests[w]);
}

/* A window of sends, answered by four bytes. */
static double stream(Test *t, long n) {
    const int window = (int)t->window;
    double start, sum = 0;
    char ack[4] = {0};
    meet(t);
    start = MPI_Wtime();
    for (long i = 0; i < n; i++) {
        if (asked.each)
            start = MPI_Wtime();
        if (t->sender) {
            post_sends(t);
            MPI_Waitall(window, t->requests, t->statuses);
            MPI_Recv(ack, 4, MPI_CHAR, t->partner, ACK, t->comm, MPI_STATUS_IGNORE);
        } else {
            post_receives(t, t->requests);
            MPI_Waitall(window, t->requests, t->statuses);
            MPI_Send(ack, 4, MPI_CHAR, t->partner, ACK, t->comm);
        }
        if (asked.each)
            sum += MPI_Wtime() - start;
    }
    return asked.each ? sum : MPI_Wtime() - start;
}

/* A window each way at once. */
static double both_ways(Test *t, long n) {
    const int window = (int)t->window;
    double start, sum = 0;
    meet(t);
    start = MPI_Wtime();
    for (long i = 0; i < n; i++) {
        if (asked.each)
            start = MPI_Wtime();
        post_receives(t, t->requests + window);
        post_sends(t);
        MPI_Waitall(window, t->requests, t->statuses);
        MPI_Waitall(window, t->requests + window, t->statuses);
        if (asked.each)
            sum += MPI_Wtime() - start;
    }
    return asked.each ? sum : MPI_Wtime() - start;
}

/* ---- threads ----------------------------------------------------------------------------- */

typedef struct {
    Test *test;
    int index;
    long n;
    double start, end;
    pthread_barrier_t *gate;
} Worker;

/*
 * Thread v of a side takes operations v, v + threads, ... With one sender any receiver may take any
 * message; with several each operation has a tag of its own, so that answers find their asker.
 */
static void *work(void *argument) {
    Worker *w = argument;
    Test *t = w->test;
    const int threads = t->sender ? t->senders : t->receivers, bytes = (int)t->bytes;
    unsigned char *out = t->out[w->index % t->buffers], *in = t->in[w->index % t->buffers];
    pthread_barrier_wait(w->gate);
    if (w->index == 0)
        meet(t);
    pthread_barrier_wait(w->gate);
    w->start = MPI_Wtime();
    for (long i = w->index; i < w->n; i += threads) {
        const int tag = t->senders > 1 ? (int)(SYNC + 1 + i) : DATA;
        if (t->sender) {
            MPI_Send(out, bytes, MPI_CHAR, t->partner, tag, t->comm);
            MPI_Recv(in, bytes, MPI_CHAR, t->partner, tag, t->comm, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, bytes, MPI_CHAR, t->partner, tag, t->comm, MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_CHAR, t->partner, tag, t->comm);
        }
    }
    w->end = MPI_Wtime();
    return NULL;
}

static double threaded(Test *t, long n) {
    const int threads = t->sender ? t->senders : t->receivers;
    Worker workers[MOST_THREADS];
    pthread_t ids[MOST_THREADS];
    pthread_barrier_t gate;
    double first, last;
    pthread_barrier_init(&gate, NULL, (unsigned)threads);
    for (int v = 0; v < threads; v++)
        workers[v] = (Worker){t, v, n, 0, 0, &gate};
    for (int v = 1; v < threads; v++)
        if (pthread_create(&ids[v], NULL, work, &workers[v]))
            fail("cannot start a thread");
    work(&workers[0]);
    first = workers[0].start, last = workers[0].end;
    for (int v = 1; v < threads; v++) {
        pthread_join(ids[v], NULL);
        first = workers[v].start < first ? workers[v].start : first;
        last = workers[v].end > last ? workers[v].end : last;
    }
    pthread_barrier_destroy(&gate);
    /* Senders work at once: an operation takes each of them so much longer. */
    return (last - first) / 2 * t->senders;
}

/* ---- collectives ------------------------------------------------------------------------- */

/* Each call is timed by itself, with a barrier between, so that no rank runs ahead. */
#define TIMED(call)                                                                               \
    double start, sum = 0;                                                                        \
    MPI_Barrier(t->comm);                                                                         \
    for (long i = 0; i < n; i++) {                                                                \
        start = MPI_Wtime();                                                                      \
        call;                                                                                     \
        sum += MPI_Wtime() - start;                                                               \
        MPI_Barrier(t->comm);                                                                     \
    }                                                                                             \
    return sum

static double barrier(Test *t, long n) { TIMED(MPI_Barrier(t->comm)); }

static double bcast(Test *t, long n) {
    unsigned char *buffer = t->rank == 0 ? t->out[0] : t->in[0];
    TIMED(MPI_Bcast(buffer, (int)t->bytes, MPI_CHAR, 0, t->comm));
}

static double allreduce(Test *t, long n) {
    TIMED(MPI_Allreduce(t->out[0], t->in[0], (int)(t->bytes / (long)sizeof(float)), MPI_FLOAT,
                        MPI_SUM, t->comm));
}

static double allgather(Test *t, long n) {
    TIMED(MPI_Allgather(t->out[0], (int)t->bytes, MPI_CHAR, t->in[0], (int)t->bytes, MPI_CHAR,
                        t->comm));
}

static double alltoall(Test *t, long n) {
    TIMED(MPI_Alltoall(t->out[0], (int)t->bytes, MPI_CHAR, t->in[0], (int)t->bytes, MPI_CHAR,
                       t->comm));
}

static const Pattern patterns[] = {
    {"latency", ping, 0, 0, 0, 0, 1L << 22},     {"bw", stream, 0, 1, 1, 0, 1L << 22},
    {"bibw", both_ways, 0, 1, 1, 0, 1L << 22},   {"multi_lat", ping, 0, 0, 0, 1, 1L << 22},
    {"mbw_mr", stream, 0, 1, 1, 1, 1L << 22},    {"latency_mt", threaded, 0, 0, 0, 0, 1L << 22},
    {"barrier", barrier, 1, 0, 0, 1, 0},         {"bcast", bcast, 1, 0, 1, 1, 1L << 20},
    {"allreduce", allreduce, 1, 0, 4, 1, 1L << 20},
    {"allgather", allgather, 1, 0, 1, 1, 1L << 20},
    {"alltoall", alltoall, 1, 0, 1, 1, 1L << 20},
};

/* ---- data -------------------------------------------------------------------------------- */

/* The byte at `i` of what rank `from` sends to `to` in round `round`. */
static unsigned char byte(long i, int from, int to, long round) {
    return (unsigned char)(i * 7 + from * 13 + to * 17 + round * 31 + 5);
}

static long blocks(const Test *t, const char *pattern) {
    return strcmp(t->pattern->name, pattern) == 0 ? t->ranks : 1;
}

static void fill(Test *t, long round) {
    const long parts = blocks(t, "alltoall");
    const int point = !t->pattern->collective;
    for (int b = 0; b < t->buffers; b++) {
        if (t->pattern->run == allreduce) {
            float *out = (float *)(void *)t->out[b];
            for (long i = 0; i < t->bytes / (long)sizeof(float); i++)
                out[i] = (float)((i + round) % 100 + t->rank);
            memset(t->in[b], 0, (size_t)t->bytes);
            continue;
        }
        for (long p = 0; p < parts; p++)
            for (long i = 0; i < t->bytes; i++)
                t->out[b][p * t->bytes + i] = byte(i, t->rank, point ? b : (int)p, round);
        memset(t->in[b], 0, (size_t)(t->bytes * (t->pattern->collective ? t->ranks : 1)));
    }
}

static long wrong_bytes(const unsigned char *in, long bytes, int from, int to, long round) {
    long wrong = 0;
    for (long i = 0; i < bytes; i++)
        wrong += in[i] != byte(i, from, to, round);
    return wrong;
}

/* Bytes (of allreduce: numbers) that are not what was sent to this rank. */
static long check(Test *t, long round) {
    long wrong = 0;
    if (t->pattern->run == barrier || t->bytes == 0)
        return 0;
    if (t->pattern->run == allreduce) {
        const float *in = (const float *)(const void *)t->in[0];
        const long sum = (long)t->ranks * (t->ranks - 1) / 2;
        for (long i = 0; i < t->bytes / (long)sizeof(float); i++)
            wrong += in[i] != (float)(t->ranks * ((i + round) % 100) + sum);
        return wrong;
    }
    if (t->pattern->run == bcast)
        return t->rank ? wrong_bytes(t->in[0], t->bytes, 0, 0, round) : 0;
    if (t->pattern->collective) {
        const int mine = t->pattern->run == alltoall ? t->rank : 0;
        for (int r = 0; r < t->ranks; r++)
            wrong += wrong_bytes(t->in[0] + r * t->bytes, t->bytes, r, mine, round);
        return wrong;
    }
    /* The sender of a stream gets nothing back. */
    if (t->pattern->run == stream && t->sender)
        return 0;
    for (int b = 0; b < t->buffers; b++) {
        const long used = t->pattern->windowed ? t->window : t->pattern->run == threaded ? 0 : 1;
        if (b == 0 || b < used)
            wrong += wrong_bytes(t->in[b], t->bytes, t->partner, b, round);
    }
    return wrong;
}

static long validate(Test *t) {
    long wrong = 0, all = 0;
    for (long round = 0; round < asked.validate; round++) {
        fill(t, round);
        MPI_Barrier(t->comm);
        t->pattern->run(t, t->pattern->run == threaded ? t->senders * t->receivers : 1);
        wrong += check(t, round);
    }
    MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, t->comm);
    return all;
}

/* ---- where the cores are ------------------------------------------------------------------- */

static double now(void) { return MPI_Wtime(); }

/* Spins until the line holds an odd (server's) or even (answer's) number other than `seen`. */
static unsigned long await(volatile unsigned long *line, unsigned long odd, unsigned long seen,
                           double until) {
    unsigned long value;
    for (long spins = 1;; spins++) {
        value = __atomic_load_n(line, __ATOMIC_ACQUIRE);
        if (value != seen && (value & 1) == odd)
            return value;
        if (spins % 4096 == 0) {
            if (now() > until)
                return 0;
            sched_yield();
        }
    }
}

/* Round trip of the shared line between the first rank and its partner; the fastest batch counts. */
static double trip(Test *t) {
    enum { TRIPS = 64, BATCHES = 6 };
    double best = 0, start, until = now() + 2e-3;
    unsigned long ball = 1;
    if (!t->court || (t->rank != 0 && t->rank != t->pairs))
        return 0;
    if (t->sender) {
        __atomic_store_n(t->court, 0, __ATOMIC_RELEASE);
        meet(t);
        for (int b = 0; b < BATCHES; b++) {
            start = now();
            for (int i = 0; i < TRIPS; i++, ball += 2) {
                __atomic_store_n(t->court, ball, __ATOMIC_RELEASE);
                if (!await(t->court, 0, ball - 1, until))
                    goto out;
            }
            start = (now() - start) / TRIPS;
            best = best == 0 || start < best ? start : best;
        }
    out:
        /* ULONG_MAX is odd: the partner takes it for a serve, and ends. */
        __atomic_store_n(t->court, ULONG_MAX, __ATOMIC_RELEASE);
    } else {
        unsigned long seen = 0;
        meet(t);
        while ((seen = await(t->court, 1, seen, until + 1e-3)) && seen != ULONG_MAX)
            __atomic_store_n(t->court, seen + 1, __ATOMIC_RELEASE);
    }
    meet(t);
    return best;
}

/* Memory without a name, 4 KiB of it, so that a rank that is killed leaves no file behind. -1 where the
   kernel has none. */
static int nameless_page(void) {
    int file = -1;
#ifdef SYS_memfd_create
    file = (int)syscall(SYS_memfd_create, "nodegauge", 0u);
#endif
    if (file >= 0 && ftruncate(file, 4096) != 0) {
        close(file);
        file = -1;
    }
    return file;
}

/* Maps one page that the first rank and its partner share; both or neither have it. The partner opens
   it through /proc, and compares its number: in another process namespace the path is another file. */
static void open_court(Test *t) {
    char path[64] = "", host[256] = "", other[256];
    unsigned long long number = 0;
    struct stat said;
    int file = -1, good, both;
    void *map = MAP_FAILED;
    MPI_Status *any = MPI_STATUS_IGNORE;
    t->court = NULL;
    if (t->ranks < 2 || t->pattern->collective || (t->rank != 0 && t->rank != t->pairs))
        return;
    gethostname(host, sizeof host - 1);
    MPI_Sendrecv(host, 256, MPI_CHAR, t->partner, TEXT, other, 256, MPI_CHAR, t->partner, TEXT,
                 t->comm, any);
    if (strcmp(host, other) != 0)
        return;
    if (t->sender) {
        file = nameless_page();
        if (file >= 0 && fstat(file, &said) == 0)
            number = said.st_ino;
        snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), file);
        MPI_Send(path, sizeof path, MPI_CHAR, t->partner, TEXT, t->comm);
        MPI_Send(&number, 1, MPI_UNSIGNED_LONG_LONG, t->partner, TEXT, t->comm);
    } else {
        MPI_Recv(path, sizeof path, MPI_CHAR, t->partner, TEXT, t->comm, any);
        MPI_Recv(&number, 1, MPI_UNSIGNED_LONG_LONG, t->partner, TEXT, t->comm, any);
        file = number ? open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK) : -1;
        if (file >= 0 && (fstat(file, &said) != 0 || said.st_ino != number)) {
            close(file);
            file = -1;
        }
    }
    if (file >= 0)
        map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    good = map != MAP_FAILED;
    MPI_Sendrecv(&good, 1, MPI_INT, t->partner, TEXT, &both, 1, MPI_INT, t->partner, TEXT, t->comm,
                 any);
    if (file >= 0)
        close(file);
    if (good && both)
        t->court = map;
    else if (good)
        munmap(map, 4096);
}
