/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that requests the status continuously, from a daemon that has many open files
 *
 * Every user may request the status, and the supervisor has one thread for all clients. The cost of a reply must not
 * grow with the number of files that others have open. The test measures the supervisor's own processor time, which
 * does not depend on other work on the machine.
 *
 * usage: hostile_status BUILD
 */
#include "tests/e2e/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define CROWD 2000 /* connections; each is an open file of the supervisor */
#define ASKS 1500
#define ONCE_NS 100000000 /* allowance for one-time work of the supervisor on a busy machine, ns */
/* the cost of the many files is at most 1/SHARE of a reply's time; DetShare's own bound is a twentieth */
#define SHARE 10

static unsigned long long supervisor_ns(void)
{
        unsigned long long ns = 0;
        char path[64];
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)h_daemon_pid());
        f = fopen(path, "r");
        h_check(f && fscanf(f, "%llu", &ns) == 1, "%s", path);
        if (f)
                fclose(f);
        return ns;
}

/* Returns the supervisor's processor time for one reply, ns. *ret_ns: real time of all replies, ns. */
static unsigned long long ask(int fd, const char *when, unsigned long long *ret_ns)
{
        H_REQUEST(GetStatus, GET_STATUS, GET_STATUS, get_status);
        unsigned long long begin = supervisor_ns();
        uint64_t begin_us = h_now_us();
        int failed = 0;

        for (int i = 0; i < ASKS; i++)
                failed += h_ask_status(fd, &request, NULL, 0, 10000) != 0;
        h_check(failed == 0, "%s: %d of %d were not answered", when, failed, ASKS);
        *ret_ns = (h_now_us() - begin_us) * 1000;
        return (supervisor_ns() - begin) / ASKS;
}

int main(int argc, char **argv)
{
        const struct rlimit files = {CROWD * 8, CROWD * 8};
        static int fds[CROWD];
        unsigned long long alone, beside, ns;
        char config[200];
        const char *const extra[] = {"--config", config, NULL};
        struct h_status before, now = {0};
        int fd, n = 0;
        FILE *f;

        if (argc < 2)
                return 2;
        if (setrlimit(RLIMIT_NOFILE, &files) < 0) {
                h_skip("a crowd of connections", "a limit of open files (ulimit -Hn) of 16000");
                printf("0 passed, 0 failed\n");
                return 0;
        }
        /* Without root the daemon's user has the limits of an ordinary user. */
        h_place();
        snprintf(config, sizeof(config), "%s.conf", h_socket());
        f = fopen(config, "w");
        if (!f || fprintf(f, "[limits]\nconnections_per_uid = 4096\nsessions_per_uid = 4096\n") < 0 || fclose(f))
                h_check(0, "%s cannot be written", config);
        h_daemon_again(argv[1], "sim:h200", extra);
        before = h_quiet();
        fd = h_hello(1, NULL, NULL);
        alone = ask(fd, "alone", &ns);
        while (n < CROWD && (fds[n] = h_hello(1, NULL, NULL)) >= 0)
                n++;
        h_check(n == CROWD, "%d connections of %d", n, CROWD);
        beside = ask(fd, "beside many", &ns);
        h_sleep_ms(200);
        h_check(h_status(&now) == 0 && now.open_fds >= before.open_fds + CROWD, "%u files are open", now.open_fds);
        printf("an answer costs %llu us, beside %d connections %llu us\n", alone / 1000, n, beside / 1000);
        h_check(beside * ASKS <= 2 * alone * ASKS + ns / SHARE + ONCE_NS,
                "an answer costs %llu ns, and %llu ns where many files are open", alone, beside);
        while (n > 0)
                close(fds[--n]);
        close(fd);
        h_baseline(&before, 10000, "after the crowd");
        unlink(config);
        return h_finish();
}
