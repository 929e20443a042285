/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives the stand-in service manager (tests/support/manager) from a test: sends commands, reads lines with a deadline
 */
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/harness.h"

#define MANAGER_WAIT_MS 30000

static struct {
        pid_t pid;
        int to, from;
        char text[1 << 16];
        size_t used;
} manager;

/* argv: the manager's, beginning with its program. log: file for the daemon's standard error, -1 = the test's. */
static inline void manager_run(char *const argv[], int log)
{
        int a[2], b[2];

        fflush(stdout);
        if (pipe2(a, O_CLOEXEC) || pipe2(b, O_CLOEXEC) || (manager.pid = fork()) < 0)
                exit(1);
        if (manager.pid == 0) {
                dup2(a[0], 0);
                dup2(b[1], 1);
                if (log >= 0)
                        dup2(log, 2);
                execv(argv[0], argv);
                _exit(127);
        }
        close(a[0]);
        close(b[1]);
        manager.to = a[1];
        manager.from = b[0];
        manager.used = 0;
}

/* Reads until a line begins with `begin` and discards earlier lines. NULL: not in time. */
static inline const char *manager_says(const char *begin)
{
        static char line[512];
        uint64_t end = h_now_ms() + MANAGER_WAIT_MS;

        for (;;) {
                char *newline = memchr(manager.text, '\n', manager.used);

                if (newline) {
                        size_t n = (size_t)(newline - manager.text);

                        snprintf(line, sizeof(line), "%.*s", (int)n, manager.text);
                        memmove(manager.text, newline + 1, manager.used -= n + 1);
                        if (!strncmp(line, begin, strlen(begin)))
                                return line;
                        continue;
                }
                struct pollfd p = {.fd = manager.from, .events = POLLIN};
                uint64_t now = h_now_ms();
                ssize_t n;

                if (now >= end || poll(&p, 1, (int)(end - now)) <= 0)
                        return NULL;
                n = read(manager.from, manager.text + manager.used, sizeof(manager.text) - manager.used);
                if (n <= 0)
                        return NULL;
                manager.used += (size_t)n;
        }
}

static inline void manager_do(const char *word)
{
        if (write(manager.to, word, strlen(word)) < 0 || write(manager.to, "\n", 1) != 1)
                exit(1);
}

/* The manager ends the daemon and itself; this waits for both. */
static inline void manager_quit(void)
{
        int status = -1;

        manager_do("quit");
        waitpid(manager.pid, &status, 0);
        h_check(status == 0, "the manager ended with %d", status);
        close(manager.to);
        close(manager.from);
}
