/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every program of the coverage build has and no other: a process that ends says what it has run
 *
 * One that ends by _exit says it before. The worker and the helper say it when they end in order, which is after they
 * have closed their connection; their supervisor kills them when that ends: it ends with the process here.
 */
#include <errno.h>
#include <gcov.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHILD_FD 3

/* Where a test makes allocations fail: it lets go of this process, since the runtime takes every pointer it gets. */
__attribute__((weak)) void fa_never(void);

/* instead of libc's: what the runtime would do at exit() */
__attribute__((visibility("default"), noreturn)) void _exit(int status)
{
        if (fa_never)
                fa_never();
        __gcov_dump();
        for (;;)
                syscall(SYS_exit_group, status);
}

/* libc's, but for the connection of the worker and the helper */
__attribute__((visibility("default"))) int close(int fd)
{
        if (fd == CHILD_FD && !strncmp(program_invocation_short_name, "detshare-", strlen("detshare-")))
                return 0;
        return (int)syscall(SYS_close, fd);
}
