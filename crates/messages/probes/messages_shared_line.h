/*
 * Core-to-core latency in the message probe: a ping-pong through one cache line that the first rank and
 * its partner share. Part of messages.c.
 */

/* Spins until the line holds an odd (sent) or even (reply) number other than `seen`; returns 0 after `until`. */
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

/* Returns the round-trip time of the shared line between the first rank and its partner, in the fastest
   batch. */
static double trip(Test *t) {
    enum { TRIPS = 64, BATCHES = 6 };
    double best = 0, start, until = now() + 2e-3;
    unsigned long count = 1;
    if (!t->line || (t->rank != 0 && t->rank != t->pairs))
        return 0;
    if (t->sender) {
        __atomic_store_n(t->line, 0, __ATOMIC_RELEASE);
        meet(t);
        for (int b = 0; b < BATCHES; b++) {
            start = now();
            for (int i = 0; i < TRIPS; i++, count += 2) {
                __atomic_store_n(t->line, count, __ATOMIC_RELEASE);
                if (!await(t->line, 0, count - 1, until))
                    goto out;
            }
            start = (now() - start) / TRIPS;
            best = best == 0 || start < best ? start : best;
        }
    out:
        /* ULONG_MAX is odd, so that the partner reads it like any other number; then it stops. */
        __atomic_store_n(t->line, ULONG_MAX, __ATOMIC_RELEASE);
    } else {
        unsigned long seen = 0;
        meet(t);
        while ((seen = await(t->line, 1, seen, until + 1e-3)) && seen != ULONG_MAX)
            __atomic_store_n(t->line, seen + 1, __ATOMIC_RELEASE);
    }
    meet(t);
    return best;
}

/* Returns 4 KiB of anonymous memory, so that a killed rank leaves no file behind; -1 if the kernel does not
   support it. */
static int anonymous_page(void) {
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

/* Maps one page that the first rank and its partner share; either both have it or neither. The partner opens
   it through /proc, and compares its inode number: in another PID namespace, the path is another file. */
static void open_line(Test *t) {
    char path[64] = "", host[256] = "", other[256];
    unsigned long long number = 0;
    struct stat status;
    int file = -1, good, both;
    void *map = MAP_FAILED;
    MPI_Status *any = MPI_STATUS_IGNORE;
    t->line = NULL;
    if (t->ranks < 2 || t->participants == ALL || (t->rank != 0 && t->rank != t->pairs))
        return;
    gethostname(host, sizeof host - 1);
    MPI_Sendrecv(host, 256, MPI_CHAR, t->partner, TEXT, other, 256, MPI_CHAR, t->partner, TEXT,
                 t->comm, any);
    if (strcmp(host, other) != 0)
        return;
    if (t->sender) {
        file = anonymous_page();
        if (file >= 0 && fstat(file, &status) == 0)
            number = status.st_ino;
        snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), file);
        MPI_Send(path, sizeof path, MPI_CHAR, t->partner, TEXT, t->comm);
        MPI_Send(&number, 1, MPI_UNSIGNED_LONG_LONG, t->partner, TEXT, t->comm);
    } else {
        MPI_Recv(path, sizeof path, MPI_CHAR, t->partner, TEXT, t->comm, any);
        MPI_Recv(&number, 1, MPI_UNSIGNED_LONG_LONG, t->partner, TEXT, t->comm, any);
        file = number ? open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK) : -1;
        if (file >= 0 && (fstat(file, &status) != 0 || status.st_ino != number)) {
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
        t->line = map;
    else if (good)
        munmap(map, 4096);
}
