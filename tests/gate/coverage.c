/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into every program of the coverage build: a process writes its counts when it ends
 *
 * A process that ends with _exit writes them first. The worker and the helper write them when they end in order, after
 * they have closed their connection. The supervisor kills them when the connection ends, so here it ends with the
 * process.
 */
#include <errno.h>
#include <gcov.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHILD_FD 3

/* Present in tests that make allocations fail: stops the failures in this process, because the runtime uses the result of
 * every allocation unchecked. */
__attribute__((weak)) void fa_never(void);

/* replaces libc's: does the runtime's work of exit() first */
__attribute__((visibility("default"), noreturn)) void _exit(int status)
{
        if (fa_never)
                fa_never();
        __gcov_dump();
        for (;;)
                syscall(SYS_exit_group, status);
}

/* calls libc's, except for the connection of the worker and the helper */
__attribute__((visibility("default"))) int close(int fd)
{
        if (fd == CHILD_FD && !strncmp(program_invocation_short_name, "detshare-", strlen("detshare-")))
                return 0;
        return (int)syscall(SYS_close, fd);
}
