/* Faults of devices, file systems and kernels, injected into the C library by LD_PRELOAD. FAULT selects one:
 *   eio=N      reads fail with EIO from read N of a data file on
 *   enospc=N   writes fail with ENOSPC after N bytes of data files
 *   edquot=N   writes fail with EDQUOT after N bytes of data files
 *   flip=N     byte N of a data file is read with inverted bits
 *   lost=N     the block with byte N of a data file is not written, although the call succeeds
 *   uring      the kernel has no io_uring
 *   direct     direct I/O is refused at the first transfer, not when a file is opened
 *   quota=N    the user's quota leaves N KiB
 *   readonly   folders cannot be created
 *   unreadable a process cannot read the memory of another process
 *   garbled    large reads of the memory of another process have an inverted bit
 *   fast=N     the clock runs N times as fast
 *   stepped=N  the wall clock is set N seconds back at each reading
 *   coarse=N   the clock advances in steps of N ns
 *   nothp      the kernel refuses transparent huge pages to this process
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const char *fault(const char *name, long *number) {
    const char *all = getenv("FAULT");
    size_t n = strlen(name);
    if (!all || strncmp(all, name, n) || (all[n] && all[n] != '=')) return NULL;
    if (number) *number = all[n] ? atol(all + n + 1) : 0;
    return all;
}

/* True if a descriptor refers to a data file of the gauge. */
static int is_data(int fd) {
    char link[64], path[PATH_MAX + 1];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX);
    if (n < 0) return 0;
    path[n] = 0;
    return strstr(path, "nodegauge-io-") && strstr(path, "/data-");
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int refuses_direct(int fd) {
    return fault("direct", NULL) && (fcntl(fd, F_GETFL) & O_DIRECT) && is_data(fd);
}

static int read_fails(int fd) {
    static atomic_long reads;
    long n;
    if (refuses_direct(fd)) return errno = EINVAL, 1;
    if (fault("eio", &n) && is_data(fd) && ++reads >= n) return errno = EIO, 1;
    return 0;
}

static void spoil(int fd, void *buffer, ssize_t moved, off_t at) {
    long n;
    if (fault("flip", &n) && moved > 0 && n >= at && n < at + moved && is_data(fd))
        ((uint8_t *)buffer)[n - at] ^= 0xff;
}

ssize_t read(int fd, void *buffer, size_t length) {
    if (read_fails(fd)) return -1;
    off_t at = fault("flip", NULL) ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t moved = NEXT(read)(fd, buffer, length);
    spoil(fd, buffer, moved, at);
    return moved;
}

ssize_t pread(int fd, void *buffer, size_t length, off_t at) {
    if (read_fails(fd)) return -1;
    ssize_t moved = NEXT(pread)(fd, buffer, length, at);
    spoil(fd, buffer, moved, at);
    return moved;
}
ssize_t pread64(int fd, void *buffer, size_t length, off_t at) { return pread(fd, buffer, length, at); }

static int write_fails(int fd, size_t length) {
    static atomic_long written;
    long n;
    if (refuses_direct(fd)) return errno = EINVAL, 1;
    int full = fault("enospc", &n) ? ENOSPC : fault("edquot", &n) ? EDQUOT : 0;
    if (full && is_data(fd) && (written += length) > n) return errno = full, 1;
    return 0;
}

static int is_lost(int fd, size_t length, off_t at) {
    long n;
    return fault("lost", &n) && n >= at && n < at + (off_t)length && is_data(fd);
}

ssize_t write(int fd, const void *buffer, size_t length) {
    if (write_fails(fd, length)) return -1;
    if (fault("lost", NULL) && is_lost(fd, length, lseek(fd, 0, SEEK_CUR))) {
        lseek(fd, length, SEEK_CUR);
        return length;
    }
    return NEXT(write)(fd, buffer, length);
}

ssize_t pwrite(int fd, const void *buffer, size_t length, off_t at) {
    if (write_fails(fd, length)) return -1;
    if (is_lost(fd, length, at)) return length;
    return NEXT(pwrite)(fd, buffer, length, at);
}
ssize_t pwrite64(int fd, const void *buffer, size_t length, off_t at) { return pwrite(fd, buffer, length, at); }

long syscall(long number, ...) {
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_io_uring_setup && fault("uring", NULL)) return errno = ENOSYS, -1;
    return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int quotactl(int command, const char *device, int id, caddr_t address) {
    long n;
    (void)device;
    (void)id;
    (void)command;
    if (!fault("quota", &n)) return errno = ESRCH, -1;
    struct dqblk quota;
    memset(&quota, 0, sizeof quota);
    quota.dqb_bhardlimit = n + 100;
    quota.dqb_curspace = 100 * 1024;
    memcpy(address, &quota, sizeof quota);
    return 0;
}

int mkdir(const char *path, mode_t mode) {
    if (fault("readonly", NULL) && strstr(path, "nodegauge-io-")) return errno = EROFS, -1;
    return NEXT(mkdir)(path, mode);
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *into, unsigned long parts, const struct iovec *from,
                         unsigned long others, unsigned long flags) {
    if (fault("unreadable", NULL)) return errno = EPERM, -1;
    ssize_t n = NEXT(process_vm_readv)(pid, into, parts, from, others, flags);
    if (n > 4096 && fault("garbled", NULL)) ((unsigned char *)into->iov_base)[13] ^= 0x20;
    return n;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static atomic_llong began, readings;
    long times;
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME && fault("stepped", &times)) now->tv_sec -= ++readings * times;
    long step;
    if (!failed && clock == CLOCK_MONOTONIC && fault("coarse", &step)) {
        long long all = now->tv_sec * 1000000000LL + now->tv_nsec;
        all -= all % step;
        now->tv_sec = all / 1000000000;
        now->tv_nsec = all % 1000000000;
    }
    if (failed || clock != CLOCK_MONOTONIC || !fault("fast", &times)) return failed;
    long long ns = now->tv_sec * 1000000000LL + now->tv_nsec, first = 0;
    atomic_compare_exchange_strong(&began, &first, ns);
    ns = began + (ns - began) * times;
    now->tv_sec = ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
    return 0;
}

__attribute__((constructor)) static void refuse_huge_pages(void) {
    if (fault("nothp", NULL)) prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}
