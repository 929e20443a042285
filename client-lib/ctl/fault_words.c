/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demangling of other programs' kernel names
 *
 * A C++ name that a client made up can keep the demangler busy for ever, or take all memory. So a child process does it
 * within limits of time and memory; where it does not succeed, the name stays as it is.
 */
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/ctl.h"

#define SECONDS 1
#define BYTES (256ul << 20)

static void child(const char *words, int fd)
{
        const struct rlimit time = {SECONDS, SECONDS}, memory = {BYTES, BYTES}, core = {0, 0};
        char text[sizeof(((struct dsc_fault *)0)->words)];
        setrlimit(RLIMIT_CPU, &time);
        setrlimit(RLIMIT_AS, &memory);
        setrlimit(RLIMIT_CORE, &core);
        dsc_fault_words(words, text, sizeof(text));
        _exit(write(fd, text, strlen(text)) < 0);
}

void ctl_fault_demangle(struct dsc_fault *fault)
{
        char text[sizeof(fault->words)];
        int pipes[2];
        if (pipe(pipes) < 0)
                return;
        const pid_t pid = fork();
        if (pid == 0)
                child(fault->words, pipes[1]);
        close(pipes[1]);
        /* one write of less than PIPE_BUF bytes: it comes whole or not at all */
        const ssize_t n = pid > 0 ? read(pipes[0], text, sizeof(text) - 1) : -1;
        close(pipes[0]);
        if (pid > 0)
                waitpid(pid, NULL, 0);
        if (n <= 0)
                return;
        memcpy(fault->words, text, (size_t)n);
        fault->words[n] = '\0';
}
