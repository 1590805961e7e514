/*
 * Measurement of one size in the message probe: warm-up, batches until the median is stable, and the time
 * lost to other programs. Part of messages.c.
 */

/* A batch is discarded if other programs used more than this share of its time. */
static const double MOST_LOST = 0.02;

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/*
 * True if the median is known to half a percent: half the width of its distribution-free 95 %
 * confidence interval, whose ends are the order statistics at a distance of about sqrt(n) from the middle.
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

/* Number of operations per batch, and number of batches between two checks of the limit. */
typedef struct {
    long operations, group;
} Plan;

/* Warms up in pieces of doubling size, so that a slow machine uses only a share of the limit. */
static Plan warm_up(Test *t) {
    const long fixed = t->operations, custom = t->warm_up, whole = whole_operations(t);
    long done = 0, piece = whole, plan[3];
    double start = now(), begun, one;
    do {
        begun = now();
        t->pattern->run(t, piece);
        one = (now() - begun) / (double)piece;
        done += piece;
        plan[0] = done >= custom || now() - start > asked.limit / 4;
        plan[1] = (long)(asked.batch / (one > 1e-9 ? one : 1e-9)) + 1;
        /* At least eight batches must fit in the limit. */
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

/* Returns the reason to stop, or NULL to continue; rank 0 decides. */
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

/* Involuntary context switches of this thread so far, and its CPU time. */
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

/* Runs a batch; `lost` is the share of the time in which other programs used this thread's core. A thread
 * that sleeps voluntarily, as in some libraries that wait for a network, has lost nothing. */
static double batch(Test *t, long n, double *lost) {
    const Use before = use();
    const double start = now(), seconds = t->pattern->run(t, n), wall = now() - start;
    const Use after = use();
    const double off = wall - (after.on_core - before.on_core);
    *lost = after.switches > before.switches && off > 0 ? off / wall : 0;
    return seconds / (double)n;
}

static void measure(Test *t) {
    const int collective = t->participants == ALL;
    const int timed = collective ? t->ranks : t->pairs, counts = collective || t->rank < t->pairs;
    double group[GROUP], mean[GROUP], least[GROUP], greatest[GROUP], all[MOST_SAMPLES] = {0};
    double off[GROUP], lost[GROUP];
    double before, after, started, least_sum = 0, greatest_sum = 0;
    const long fixed = t->operations;
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
                if (clean < MOST_SAMPLES && lost[g] <= MOST_LOST)
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
