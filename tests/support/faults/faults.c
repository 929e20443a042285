/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/faults/faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static struct faults *faults;

__attribute__((constructor)) static void faults_map(void)
{
        const char *path = getenv("DETSHARE_FAULTS");
        int fd = path ? (int)REAL(open)(path, O_RDWR | O_CLOEXEC) : -1;
        void *map;

        if (fd < 0)
                return;
        map = REAL(mmap)(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (map != MAP_FAILED)
                faults = map;
}

/* Decides about this call. Returns 0 if the call shall be made, or the failure that it returns instead. */
static int fault(enum fault_call call)
{
        if (!faults || atomic_load(&faults->call) != (int)call ||
                strncmp(faults->program, program_invocation_short_name, 15) != 0)
                return 0;
        if (atomic_fetch_sub(&faults->left, 1) > 0)
                return 0;
        if (atomic_load(&faults->times) && atomic_load(&faults->fired) >= atomic_load(&faults->times))
                return 0;
        atomic_fetch_add(&faults->fired, 1);
        return atomic_load(&faults->error);
}

#define FAIL_IF(CALL, failed)                    \
        do {                                     \
                int wrong = fault(FAULT_##CALL); \
                                                 \
                if (wrong > 0) {                 \
                        errno = wrong;           \
                        return failed;           \
                }                                \
        } while (0)

/* --- memory: uses libc's own names, since dlsym may allocate ------------------------------------------------------ */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

EXPORT void *malloc(size_t size)
{
        FAIL_IF(MALLOC, NULL);
        return __libc_malloc(size);
}

EXPORT void *calloc(size_t n, size_t size)
{
        FAIL_IF(MALLOC, NULL);
        return __libc_calloc(n, size);
}

EXPORT void *realloc(void *p, size_t size)
{
        FAIL_IF(MALLOC, NULL);
        return __libc_realloc(p, size);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

EXPORT pid_t fork(void)
{
        FAIL_IF(FORK, -1);
        return REAL(fork)();
}

EXPORT int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
        FAIL_IF(ACCEPT, -1);
        return REAL(accept4)(fd, address, size, flags);
}

EXPORT int memfd_create(const char *name, unsigned flags)
{
        FAIL_IF(MEMFD, -1);
        return REAL(memfd_create)(name, flags);
}

EXPORT int ftruncate(int fd, off_t size)
{
        FAIL_IF(FTRUNCATE, -1);
        return REAL(ftruncate)(fd, size);
}

EXPORT void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
        FAIL_IF(MMAP, MAP_FAILED);
        return REAL(mmap)(at, size, prot, flags, fd, offset);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
        int wrong = fault(FAULT_RECVMSG);
        struct iovec one;

        if (wrong > 0) {
                errno = wrong;
                return -1;
        }
        if (wrong == FAULT_SHORT && msg->msg_iovlen) {
                struct msghdr short_ = *msg;
                ssize_t n;

                one = (struct iovec){msg->msg_iov[0].iov_base, msg->msg_iov[0].iov_len ? 1 : 0};
                short_.msg_iov = &one;
                short_.msg_iovlen = 1;
                n = REAL(recvmsg)(fd, &short_, flags);
                msg->msg_controllen = short_.msg_controllen;
                msg->msg_flags = short_.msg_flags;
                return n;
        }
        return REAL(recvmsg)(fd, msg, flags);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
        int wrong = fault(FAULT_SENDMSG);

        if (wrong > 0) {
                errno = wrong;
                return -1;
        }
        if (wrong == FAULT_SHORT && msg->msg_iovlen) {
                struct iovec one = {msg->msg_iov[0].iov_base, 1};
                struct msghdr short_ = *msg;

                short_.msg_iov = &one;
                short_.msg_iovlen = 1;
                return REAL(sendmsg)(fd, &short_, flags);
        }
        return REAL(sendmsg)(fd, msg, flags);
}

EXPORT int socketpair(int domain, int type, int protocol, int fds[2])
{
        FAIL_IF(SOCKETPAIR, -1);
        return REAL(socketpair)(domain, type, protocol, fds);
}

EXPORT int eventfd(unsigned count, int flags)
{
        FAIL_IF(EVENTFD, -1);
        return REAL(eventfd)(count, flags);
}

EXPORT int open(const char *path, int flags, ...)
{
        va_list args;
        mode_t mode;

        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
        FAIL_IF(OPEN, -1);
        return REAL(open)(path, flags, mode);
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int n, int ms)
{
        FAIL_IF(EPOLL_WAIT, -1);
        return REAL(epoll_wait)(fd, events, n, ms);
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int ms)
{
        FAIL_IF(POLL, -1);
        return REAL(poll)(fds, n, ms);
}

/* 1: a pipe or an eventfd. Reading one never fails with EIO, and libuv ends the process if it does. */
static int is_wakeup(int fd)
{
        struct stat st;

        return !REAL(fstat)(fd, &st) && (S_ISFIFO(st.st_mode) || !(st.st_mode & S_IFMT));
}

EXPORT ssize_t read(int fd, void *to, size_t n)
{
        if (faults && atomic_load(&faults->call) == FAULT_READ && atomic_load(&faults->error) == EIO && is_wakeup(fd))
                return REAL(read)(fd, to, n);
        FAIL_IF(READ, -1);
        return REAL(read)(fd, to, n);
}

/* A write to an eventfd fails only when its counter is full, and libuv ends the process at any other error. */
static int is_eventfd(int fd)
{
        char path[32], to[32];
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n = readlink(path, to, sizeof(to) - 1);
        to[n > 0 ? n : 0] = 0;
        return !strcmp(to, "anon_inode:[eventfd]");
}

EXPORT ssize_t write(int fd, const void *from, size_t n)
{
        if (n == sizeof(uint64_t) && is_eventfd(fd))
                return REAL(write)(fd, from, n);
        FAIL_IF(WRITE, -1);
        return REAL(write)(fd, from, n);
}

EXPORT int fcntl(int fd, int command, ...)
{
        va_list args;
        void *arg;

        va_start(args, command);
        arg = va_arg(args, void *);
        va_end(args);
        FAIL_IF(FCNTL, -1);
        return REAL(fcntl)(fd, command, arg);
}

EXPORT int fstat(int fd, struct stat *st)
{
        FAIL_IF(FSTAT, -1);
        return REAL(fstat)(fd, st);
}

EXPORT ssize_t pread(int fd, void *to, size_t n, off_t at)
{
        FAIL_IF(PREAD, -1);
        return REAL(pread)(fd, to, n, at);
}

EXPORT int getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
        FAIL_IF(GETSOCKOPT, -1);
        return REAL(getsockopt)(fd, level, name, value, size);
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *ret)
{
        static int (*real)(clockid_t, struct timespec *);
        int r;

        if (!real)
                real = REAL(clock_gettime);
        r = real(clock, ret);
        if (r == 0 && clock == CLOCK_REALTIME && faults)
                ret->tv_sec += atomic_load(&faults->jump_s);
        return r;
}
