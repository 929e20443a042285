/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every program of the coverage build has and no other: a process that ends by _exit says what it has run, too
 */
#include <gcov.h>
#include <sys/syscall.h>
#include <unistd.h>

/* instead of libc's: what the runtime would do at exit() */
__attribute__((visibility("default"), noreturn)) void _exit(int status)
{
        __gcov_dump();
        for (;;)
                syscall(SYS_exit_group, status);
}
