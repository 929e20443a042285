/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/limited.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS 1
#define BYTES (256ul << 20)
#define FAILURES_MAX 3u

_Noreturn static void child(void (*work)(const char *, char *, size_t), const char *text, int fd)
{
        const struct rlimit time = {SECONDS, SECONDS}, core = {0, 0};
        char result[CTL_LIMITED_BYTES] = "";
        setrlimit(RLIMIT_CPU, &time);
        setrlimit(RLIMIT_CORE, &core);
#ifndef __SANITIZE_ADDRESS__ /* no such limit with AddressSanitizer, which reserves terabytes of addresses */
        const struct rlimit memory = {BYTES, BYTES};
        setrlimit(RLIMIT_AS, &memory);
#endif
        work(text, result, sizeof(result));
        _exit(write(fd, result, strlen(result)) < 0);
}

int ctl_limited(void (*work)(const char *text, char *ret, size_t size), const char *text, char *ret, size_t size)
{
        static unsigned failures;
        char result[CTL_LIMITED_BYTES];
        int pipes[2];
        if (failures >= FAILURES_MAX || pipe(pipes) < 0)
                return 0;
        const pid_t pid = fork();
        if (pid == 0)
                child(work, text, pipes[1]);
        close(pipes[1]);
        /* the child writes less than PIPE_BUF bytes at once, so the result arrives completely or not at all */
        const ssize_t n = pid > 0 ? read(pipes[0], result, sizeof(result) - 1) : -1;
        close(pipes[0]);
        if (pid > 0)
                waitpid(pid, NULL, 0);
        failures += n <= 0;
        if (n <= 0)
                return 0;
        result[n] = '\0';
        snprintf(ret, size, "%s", result);
        return 1;
}
