/*
 * The patterns of the message probe, one function each, and the expected data. Part of messages.c,
 * which describes the probe. The participants and sizes of each pattern are in the table of
 * crates/messages/src/pattern.rs.
 */

/* ---- point to point ---------------------------------------------------------------------- */

/* Synchronises the two sides of a pair. */
static void meet(Test *t) {
    if (t->sender) {
        MPI_Send(NULL, 0, MPI_CHAR, t->partner, SYNC, t->comm);
        MPI_Recv(NULL, 0, MPI_CHAR, t->partner, SYNC, t->comm, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(NULL, 0, MPI_CHAR, t->partner, SYNC, t->comm, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_CHAR, t->partner, SYNC, t->comm);
    }
}

/* Synchronises both sides before the clock starts; with several pairs, all of them. */
static void start_together(Test *t) {
    if (t->participants == PAIRS)
        MPI_Barrier(t->comm);
    meet(t);
}

static double ping(Test *t, long n) {
    const int bytes = (int)t->bytes, partner = t->partner, buffers = t->buffers;
    MPI_Comm comm = t->comm;
    double start, sum = 0;
    int slot = 0;
    long i;
    start_together(t);
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

/* Without a division, which would cost up to a tenth of a small message. */
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

/* A window of sends with a four-byte reply. */
static double stream(Test *t, long n) {
    const int window = (int)t->window;
    double start, sum = 0;
    char ack[4] = {0};
    start_together(t);
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

/* A window in each direction concurrently. */
static double both_ways(Test *t, long n) {
    const int window = (int)t->window;
    double start, sum = 0;
    start_together(t);
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
 * Thread v of a side performs operations v, v + threads, ... With one sender, any receiver may receive any
 * message. With several senders, each operation has its own tag, so that the reply reaches its sender.
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
    /* Senders run concurrently, so the time of one operation is longer by their number. */
    return (last - first) / 2 * t->senders;
}

/* ---- collectives ------------------------------------------------------------------------- */

/* Times each call separately, without the statement `between`. */
#define TIMED_WITH(between, call)                                                                 \
    double start, sum = 0;                                                                        \
    MPI_Barrier(t->comm);                                                                         \
    for (long i = 0; i < n; i++) {                                                                \
        start = MPI_Wtime();                                                                      \
        call;                                                                                     \
        sum += MPI_Wtime() - start;                                                               \
        between;                                                                                  \
    }                                                                                             \
    return sum
/* With a barrier between calls, so that no rank runs ahead. */
#define TIMED(call) TIMED_WITH(MPI_Barrier(t->comm), call)

/* No barrier between calls: an untimed barrier would do part of the timed one's work. */
static double barrier(Test *t, long n) { TIMED_WITH((void)0, MPI_Barrier(t->comm)); }

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

/* Content of the receive buffers after an operation. */
enum {
    NOTHING,          /* no data */
    MESSAGE,          /* the partner's message, in the first buffer */
    WINDOW,           /* the partner's window of messages, in all buffers */
    FROM_ROOT,        /* rank 0's block */
    FROM_EACH,        /* a block of each rank, the same for all receivers */
    FROM_EACH_FOR_ME, /* a block of each rank, different for each receiver */
    SUM               /* the sum of all ranks' single-precision numbers */
};
enum { AT_ALL, AT_RECEIVERS, AT_ROOT };

static const Pattern patterns[] = {
    {"latency", ping, MESSAGE, AT_ALL},
    {"bw", stream, WINDOW, AT_RECEIVERS},
    {"bibw", both_ways, WINDOW, AT_ALL},
    {"multi_lat", ping, MESSAGE, AT_ALL},
    {"mbw_mr", stream, WINDOW, AT_RECEIVERS},
    {"latency_mt", threaded, MESSAGE, AT_ALL},
    {"barrier", barrier, NOTHING, AT_ALL},
    {"bcast", bcast, FROM_ROOT, AT_RECEIVERS},
    {"allreduce", allreduce, SUM, AT_ALL},
    {"allgather", allgather, FROM_EACH, AT_ALL},
    {"alltoall", alltoall, FROM_EACH_FOR_ME, AT_ALL},
};

/* ---- data -------------------------------------------------------------------------------- */

/* Returns byte `i` of the message from rank `from` to `to` in round `round`. */
static unsigned char byte(long i, int from, int to, long round) {
    return (unsigned char)(i * 7 + from * 13 + to * 17 + round * 31 + 5);
}

/* Returns the number of operations in which each sending thread meets each receiving thread. */
static long whole_operations(const Test *t) {
    return t->participants == THREADS ? (long)t->senders * t->receivers : 1;
}

/* Number of blocks in a rank's send buffer, and in its receive buffer. */
static long blocks_out(const Test *t) { return t->pattern->arrives == FROM_EACH_FOR_ME ? t->ranks : 1; }
static long blocks_in(const Test *t) {
    return t->pattern->arrives == FROM_EACH ? t->ranks : blocks_out(t);
}

static void fill(Test *t, long round) {
    const int collective = t->participants == ALL;
    const long parts = blocks_out(t);
    for (int b = 0; b < t->buffers; b++) {
        memset(t->in[b], 0, (size_t)(t->bytes * blocks_in(t)));
        if (t->pattern->arrives == SUM) {
            float *out = (float *)(void *)t->out[b];
            for (long i = 0; i < t->bytes / (long)sizeof(float); i++)
                out[i] = (float)((i + round) % 100 + t->rank);
            continue;
        }
        for (long p = 0; p < parts; p++)
            for (long i = 0; i < t->bytes; i++)
                t->out[b][p * t->bytes + i] = byte(i, t->rank, collective ? (int)p : b, round);
    }
}

static long wrong_bytes(const unsigned char *in, long bytes, int from, int to, long round) {
    long wrong = 0;
    for (long i = 0; i < bytes; i++)
        wrong += in[i] != byte(i, from, to, round);
    return wrong;
}

static long wrong_sums(const Test *t, long round) {
    const float *in = (const float *)(const void *)t->in[0];
    const long sum = (long)t->ranks * (t->ranks - 1) / 2;
    long wrong = 0;
    for (long i = 0; i < t->bytes / (long)sizeof(float); i++)
        wrong += in[i] != (float)(t->ranks * ((i + round) % 100) + sum);
    return wrong;
}

/* Returns the number of received bytes (for sums: numbers) that differ from the expected ones. */
static long check(Test *t, long round) {
    const int arrives = t->pattern->arrives;
    long wrong = 0;
    if (t->participants != ALL && t->partner == MPI_PROC_NULL)
        return 0;
    if ((t->pattern->where == AT_RECEIVERS && t->sender) || (t->pattern->where == AT_ROOT && t->rank))
        return 0;
    switch (arrives) {
    case SUM:
        return wrong_sums(t, round);
    case FROM_ROOT:
        return wrong_bytes(t->in[0], t->bytes, 0, 0, round);
    case FROM_EACH:
    case FROM_EACH_FOR_ME:
        for (int r = 0; r < t->ranks; r++)
            wrong += wrong_bytes(t->in[0] + r * t->bytes, t->bytes, r,
                                 arrives == FROM_EACH ? 0 : t->rank, round);
        return wrong;
    case MESSAGE:
        return wrong_bytes(t->in[0], t->bytes, t->partner, 0, round);
    case WINDOW:
        for (int b = 0; b < t->buffers; b++)
            wrong += wrong_bytes(t->in[b], t->bytes, t->partner, b, round);
        return wrong;
    default:
        return 0;
    }
}

static long validate(Test *t) {
    long wrong = 0, all = 0;
    for (long round = 0; round < asked.validate; round++) {
        fill(t, round);
        MPI_Barrier(t->comm);
        t->pattern->run(t, whole_operations(t));
        wrong += check(t, round);
    }
    MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, t->comm);
    return all;
}
