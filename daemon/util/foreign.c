/* SPDX-License-Identifier: Apache-2.0 */
#include "util/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/macro.h"

#define QUICK_BLOCKS (DS_MIB(64) / 512) /* size of a file whose pages are freed quickly, in blocks of 512 bytes */
#define NAMED_BLOCKS (DS_GIB(4) / 512)
#define INTERRUPT_NS (2 * (long)DS_NS_PER_MS) /* longest time that a close may block */

int ds_foreign_is_memory(int fd)
{
        return fcntl(fd, F_GET_SEALS) >= 0; /* only memory files support seals */
}

static int disk_file(int fd, struct statx *ret)
{
        const int flags = fcntl(fd, F_GETFL);

        if (flags < 0 || (flags & (O_ACCMODE | O_PATH)) != O_RDONLY)
                return 0;
        /* reads cached attributes, because this must not call a user's file system */
        if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_NLINK | STATX_BLOCKS, ret) < 0)
                return 0;
        return S_ISREG(ret->stx_mode) && ret->stx_dev_major != 0;
}

int ds_foreign_is_disk_file(int fd)
{
        struct statx st;

        return disk_file(fd, &st);
}

int ds_foreign_closes_at_once(int fd)
{
        struct statx disk;
        struct stat st;

        /* a file with a name is not freed when it is closed; if it loses its name just now, it is small enough to be
         * freed quickly */
        if (disk_file(fd, &disk))
                return disk.stx_nlink > 0 && disk.stx_blocks <= NAMED_BLOCKS;
        return ds_foreign_is_memory(fd) && fstat(fd, &st) == 0 && st.st_blocks <= (blkcnt_t)QUICK_BLOCKS;
}

static void on_interrupt(int signum)
{
}

/* Starts a timer that repeatedly interrupts this thread's blocking calls, until it is deleted. */
static int interrupt_start(timer_t *ret)
{
        static int ready;
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
        const struct itimerspec when = {{0, INTERRUPT_NS}, {0, INTERRUPT_NS}};
        struct sigaction action = {.sa_handler = on_interrupt};

        if (!ready && sigaction(SIGALRM, &action, NULL) < 0)
                return -errno;
        ready = 1;
        event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
        if (timer_create(CLOCK_MONOTONIC, &event, ret) < 0)
                return -errno;
        return timer_settime(*ret, 0, &when, NULL); /* this call cannot fail with these values */
}

int ds_foreign_close_listening(int fd)
{
        int saved = errno, interrupted;
        timer_t timer;

        if (fd < 0)
                return -1;
        interrupted = interrupt_start(&timer) == 0;
        close(fd);
        if (interrupted)
                timer_delete(timer);
        errno = saved;
        return -1;
}

int ds_foreign_close_socket(int fd)
{
        int saved = errno, unread = 0;

        if (fd < 0)
                return -1;
        shutdown(fd, SHUT_RDWR); /* after the shutdown the socket receives nothing more */
        if (ioctl(fd, FIONREAD, &unread) < 0 || unread)
                ds_foreign_close_listening(fd);
        else
                close(fd);
        errno = saved;
        return -1;
}
