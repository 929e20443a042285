/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon is killed repeatedly under 32 loaded clients; every client survives
 *
 * Each client is one process. It works until a call fails, requests another session (or makes another CUDA context)
 * until it gets one, and continues. For each death the test checks:
 * - every client gets its error, and how soon
 * - worker and helper exit with the daemon
 * - no process uses the processor while there is no daemon
 * - the next daemon serves at the same socket, and every client works with it
 *
 * At the end the same processes exist, with no more descriptors than at the beginning, and each has printed at most one
 * line per death.
 *
 * Some deaths happen during a restart of the worker, while SIGSTOP stops the daemon, or without a helper. Further
 * cases: SIGTERM under the same load; a daemon that stops for a while, which no client may notice; deaths of the worker
 * and of the helper, after which every client continues; clients that start before their daemon.
 *
 * DetShare promises an error within 100 ms and a start within 500 ms (3 s on a GPU). The times are printed. They are
 * judged only if the third argument is "judge", since other tests may run on the machine.
 *
 * usage: daemon_kills BUILD [KILLS] [judge] [SEED]
 */
#include "tests/e2e/harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/e2e/load/load.h"

#define DEVICE "sim:h200"
#ifdef __SANITIZE_ADDRESS__
#define CLIENTS LOAD_KINDS /* number of clients, one of each kind: a sanitized client costs much */
#else
#define CLIENTS 32
#endif
#define ALL_MS 30000 /* for all clients to connect or to notice a death; generous for a slow machine */
#define DOWN_MS 300
#define RETRY_US 20000
#define ERROR_MS 100
#define READY_SIM_MS 500
#define READY_GPU_MS 3000

/* A client's notes, in memory shared with the parent. */
struct client {
        _Atomic uint64_t error_ns;   /* time from the daemon's death to the client's first error, ns */
        _Atomic uint64_t longest_ns; /* duration of the longest call that failed while there was no daemon, ns */
        _Atomic uint32_t steps, deaths, others;
        _Atomic int last_error;
        _Atomic uint64_t what; /* address of the name of the call that got last_error; it is valid in every process */
        pid_t pid;
        int words; /* read end of the client's standard error */
        enum load_kind kind;
        unsigned lines, n_fds;
};

static const char *build;
static struct client *clients;
static uint64_t seed;
static uint32_t *delays; /* delays between the daemon's death and a client's error, us */
static size_t n_delays;
static uint32_t worst[LOAD_KINDS];
static int ready_ms[1024], orphans_ms[1024];

static uint64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- a client ----------------------------------------------------------------------------------------------------- */

static void failed(struct client *c, struct load *l, int error, uint64_t begin)
{
        const uint64_t now = now_ns();

        c->last_error = error;
        c->what = (uintptr_t)l->what;
        if (error == LOAD_E_WRONG)
                _exit(11);
        if (!load_daemon_gone(l, error)) {
                c->others++;
                load_reset(l);
                return;
        }
        c->deaths++;
        if (c->error_ns == 0)
                c->error_ns = now;
        if (now - begin > c->longest_ns)
                c->longest_ns = now - begin;
        if (l->kind == LOAD_CUDA && load_cuda_stale(l))
                _exit(13);
}

static void client_main(struct client *c, uint64_t own_seed)
{
        struct load load;
        int null = open("/dev/null", O_WRONLY), r;

        dup2(null, STDOUT_FILENO);
        dup2(c->words, STDERR_FILENO);
        load_init(&load, c->kind, build, own_seed);
        for (;;) {
                uint64_t begin = now_ns();

                r = load_open(&load);
                for (int n = 0; !r; n++, begin = now_ns()) {
                        r = load_step(&load);
                        c->steps += !r;
                }
                failed(c, &load, r, begin);
                usleep(RETRY_US);
        }
}

static void spawn(int i)
{
        struct client *c = &clients[i];
        const uint64_t own_seed = h_random(&seed);
        pid_t pid;

        if (c->pid)
                close(c->words);
        *c = (struct client){0};
        c->kind = (enum load_kind)(i % LOAD_KINDS);
        /* A GPU's clock is the machine's clock, so sleeping needs no daemon there. */
        if (c->kind == LOAD_SLEEP && !h_simulated(DEVICE))
                c->kind = LOAD_STEADY;
        c->words = memfd_create("words", MFD_CLOEXEC);

        fflush(stdout);
        pid = fork(); /* the notes lie in shared memory: the child must not write 0 to `pid` there */
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                client_main(c, own_seed);
        }
        c->pid = pid;
}

/* --- observing the clients ---------------------------------------------------------------------------------------- */

/* Counts the lines of a file, except the note about the simulated clock, which comes once per process at any time. */
static unsigned count_lines(int fd)
{
        static const char note[] = "detshare: this device is simulated";
        static char text[1 << 18];
        const ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
        unsigned lines = 0;

        text[n > 0 ? n : 0] = '\0';
        for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
                lines += strncmp(line, note, sizeof(note) - 1) != 0;
        return lines;
}

/* Counts the entries of a directory, except Criterion's files of other tests that run meanwhile (their names begin
 * with bxf). */
static unsigned count_entries(const char *path)
{
        DIR *d = opendir(path);
        const struct dirent *entry;
        unsigned n = 0;

        while (d && (entry = readdir(d)))
                n += strncmp(entry->d_name, "bxf", 3) != 0;
        if (d)
                closedir(d);
        return n;
}

static unsigned count_fds(pid_t pid)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
        return count_entries(path);
}

static uint64_t cpu_ns(void)
{
        unsigned long long ns = 0, all = 0;
        char path[64];

        for (int i = 0; i < CLIENTS; i++) {
                FILE *f;

                snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)clients[i].pid);
                f = fopen(path, "r");
                if (f && fscanf(f, "%llu", &ns) == 1)
                        all += ns;
                if (f)
                        fclose(f);
        }
        return all;
}

static void say_stuck(const struct client *c, const char *what)
{
        printf("  %s: client %d (%s): %u steps, %u deaths, %u other errors, the last: %d in %.60s\n", what,
                (int)(c - clients), load_name(c->kind), c->steps, c->deaths, c->others, c->last_error,
                c->what ? (const char *)(uintptr_t)c->what : "-");
}

/* Waits up to ALL_MS until is() holds for every client. what: name of this wait. */
static int all(int (*is)(const struct client *c, uint64_t arg), uint64_t arg, const char *what)
{
        const uint64_t end = h_now_ms() + ALL_MS;
        int missing = CLIENTS;

        while (missing && h_now_ms() < end) {
                missing = 0;
                for (int i = 0; i < CLIENTS; i++)
                        missing += !is(&clients[i], arg);
                if (missing)
                        h_sleep_ms(2);
        }
        for (int i = 0; i < CLIENTS && missing; i++)
                if (!is(&clients[i], arg))
                        say_stuck(&clients[i], what);
        return h_check(missing == 0, "%s: %d clients do not", what, missing);
}

static int has_failed(const struct client *c, uint64_t since_ns)
{
        return c->error_ns >= since_ns;
}

static uint32_t steps_before[CLIENTS];

static int has_worked(const struct client *c, uint64_t more)
{
        return c->steps >= steps_before[c - clients] + more;
}

static void all_work(const char *what)
{
        for (int i = 0; i < CLIENTS; i++)
                steps_before[i] = clients[i].steps;
        all(has_worked, 2, what);
}

/* The words before the number that says more. */
static const char *how_it_ended(pid_t ended, int status)
{
        if (ended < 0)
                return "is no child any more: errno";
        return WIFSIGNALED(status) ? "was killed by signal" : "ended with exit status";
}

static void all_live(const char *what)
{
        for (int i = 0; i < CLIENTS; i++) {
                const struct client *c = &clients[i];
                int status = 0;
                /* not within h_check(): its other arguments may be evaluated before the call */
                const pid_t ended = waitpid(c->pid, &status, WNOHANG);
                const int error = errno;

                if (ended == 0)
                        continue;
                say_stuck(c, what);
                h_check(0, "%s: client %d (%s) %s %d", what, i, load_name(c->kind), how_it_ended(ended, status),
                        ended < 0             ? error
                        : WIFSIGNALED(status) ? WTERMSIG(status)
                                              : WEXITSTATUS(status));
        }
}

/* --- one death ---------------------------------------------------------------------------------------------------- */

/* pid 0: there was no such process. waitpid(0) would reap any client that has ended. */
static int gone_within(pid_t pid, int ms)
{
        if (!pid)
                return 1;
        for (const uint64_t end = h_now_ms() + h_patience((uint64_t)ms); h_now_ms() < end; h_sleep_ms(1))
                if (waitpid(pid, NULL, WNOHANG) == pid || (kill(pid, 0) < 0 && errno == ESRCH))
                        return 1;
        return 0;
}

static void forget_errors(void)
{
        for (int i = 0; i < CLIENTS; i++) {
                clients[i].error_ns = 0;
                clients[i].lines = count_lines(clients[i].words);
        }
}

static void take_delays(uint64_t killed_ns)
{
        for (int i = 0; i < CLIENTS; i++) {
                const struct client *c = &clients[i];
                const uint32_t us = c->error_ns > killed_ns ? (uint32_t)((c->error_ns - killed_ns) / 1000) : 0;

                delays[n_delays++] = us;
                if (us > worst[c->kind])
                        worst[c->kind] = us;
                /* one line about the lost work and one about the missing daemon */
                h_check(count_lines(c->words) <= c->lines + 2, "client %d (%s) said %u lines", i, load_name(c->kind),
                        count_lines(c->words) - c->lines);
        }
}

/* Measures the clients' processor time while there is no daemon: 32 clients that retry every 20 ms need little; one
 * busy loop needs a whole processor. */
static void stay_down(void)
{
        const uint64_t before = cpu_ns();
        unsigned percent;

        h_sleep_ms(DOWN_MS);
        percent = (unsigned)((cpu_ns() - before) / 10000 / DOWN_MS);
        h_check(percent <= 60, "without a daemon the clients use %u%% of a processor", percent);
}

static void before_death(int kind, const struct h_status *status)
{
        switch (kind) {
        case 1:
                if (status->worker_pid)
                        kill((pid_t)status->worker_pid, SIGKILL);
                usleep((useconds_t)(h_random(&seed) % 30000));
                break;
        case 3:
                if (status->helper_pid)
                        kill((pid_t)status->helper_pid, SIGKILL);
                break;
        case 4:
                kill(h_daemon_pid(), SIGSTOP);
                h_sleep_ms(50);
                break;
        default:
                break;
        }
}

static void death(int n)
{
        struct h_status status = {0};
        uint64_t killed_ns;

        all_work("work with the daemon");
        usleep((useconds_t)(h_random(&seed) % 60000));
        if (!h_check(h_status(&status) == 0, "status before death %d", n))
                return;
        forget_errors();
        before_death(n % 5, &status);
        killed_ns = now_ns();
        h_daemon_kill();
        h_check(gone_within((pid_t)status.worker_pid, 5000), "the worker outlives the daemon");
        h_check(gone_within((pid_t)status.helper_pid, 5000), "the helper outlives the daemon");
        orphans_ms[n] = (int)((now_ns() - killed_ns) / 1000000);
        all(has_failed, killed_ns, "get an error when the daemon is killed");
        take_delays(killed_ns);
        if (n % 5 == 2)
                stay_down();
        all_live("after a death of the daemon");
        ready_ms[n] = h_daemon_again(build, DEVICE, NULL);
}

static void deaths(int kills, int judge)
{
        uint64_t longest = 0;
        int ready = 0, orphans = 0;
        uint32_t p99;

        for (int n = 0; n < kills; n++) {
                death(n);
                ready = ready_ms[n] > ready ? ready_ms[n] : ready;
                orphans = orphans_ms[n] > orphans ? orphans_ms[n] : orphans;
                if (n == 0)
                        all_work("work with the second daemon");
                for (int i = 0; i < CLIENTS && n == 0; i++)
                        clients[i].n_fds = count_fds(clients[i].pid);
        }
        all_work("work with the last daemon");
        qsort(delays, n_delays, sizeof(*delays), h_by_value);
        p99 = n_delays ? delays[n_delays * 99 / 100] : 0;
        for (int i = 0; i < CLIENTS; i++)
                longest = clients[i].longest_ns > longest ? clients[i].longest_ns : longest;
        printf("%d deaths under %d clients: error after p50 %.1f p99 %.1f max %.1f ms; worker and helper gone after at "
               "most %d ms; the next serves after at most %d ms; a failing call took at most %.1f ms\n",
                kills, CLIENTS, n_delays ? delays[n_delays / 2] / 1000.0 : 0, p99 / 1000.0,
                n_delays ? delays[n_delays - 1] / 1000.0 : 0, orphans, ready, (double)longest / 1e6);
        for (int k = 0; k < LOAD_KINDS; k++)
                printf("  %-8s at most %6.1f ms\n", load_name((enum load_kind)k), worst[k] / 1000.0);
        if (judge) {
                h_check(p99 <= ERROR_MS * 1000u, "an error takes %.1f ms", p99 / 1000.0);
                h_check(ready <= (h_simulated(DEVICE) ? READY_SIM_MS : READY_GPU_MS), "the next daemon takes %d ms",
                        ready);
        }
}

/* --- other ways to end -------------------------------------------------------------------------------------------- */

static void sigterm(void)
{
        const pid_t pid = h_daemon_pid();
        uint64_t begin;
        int status = -1;

        all_work("work before SIGTERM");
        forget_errors();
        begin = now_ns();
        kill(pid, SIGTERM);
        for (const uint64_t end = h_now_ms() + ALL_MS; h_now_ms() < end; h_sleep_ms(2))
                if (waitpid(pid, &status, WNOHANG) == pid)
                        break;
        h_check(status == 0, "SIGTERM under load: status %#x", (unsigned)status);
        printf("SIGTERM under load: the daemon ended after %d ms\n", (int)((now_ns() - begin) / 1000000));
        all(has_failed, begin, "get an error when the daemon ends");
        all_live("after SIGTERM");
        (void)h_daemon_again(build, DEVICE, NULL);
        all_work("work after SIGTERM");
}

static uint32_t sum_errors(void)
{
        uint32_t n = 0;

        for (int i = 0; i < CLIENTS; i++)
                n += clients[i].deaths + clients[i].others;
        return n;
}

static void stop_and_go_on(void)
{
        uint32_t before;

        all_work("work before the daemon is stopped");
        before = sum_errors();
        kill(h_daemon_pid(), SIGSTOP);
        h_sleep_ms(DOWN_MS);
        kill(h_daemon_pid(), SIGCONT);
        all_work("work after the daemon was stopped for a while");
        h_check(sum_errors() == before, "a daemon that stops for a while costs %u errors", sum_errors() - before);
}

/* Kills the worker or the helper: no client is cut off, all continue. */
static void children_die(int times, int worker)
{
        struct h_status status = {0};
        uint32_t deaths_before = 0, deaths_after = 0;

        for (int i = 0; i < CLIENTS; i++)
                deaths_before += clients[i].deaths;
        for (int n = 0; n < times; n++) {
                usleep((useconds_t)(h_random(&seed) % 50000));
                if (h_status(&status) == 0 && status.worker_pid && status.helper_pid)
                        kill((pid_t)(worker ? status.worker_pid : status.helper_pid), SIGKILL);
                all_work(worker ? "work after a death of the worker" : "work after a death of the helper");
        }
        for (int i = 0; i < CLIENTS; i++)
                deaths_after += clients[i].deaths;
        h_check(deaths_after == deaths_before, "a death of the %s cut %u connections", worker ? "worker" : "helper",
                deaths_after - deaths_before);
}

/* Programs start before the daemon: they print one line, get an error, and work once the daemon serves. */
static void daemon_comes_late(void)
{
        struct h_status status = {0};

        h_check(h_status(&status) == 0, "status");
        h_daemon_kill();
        h_check(gone_within((pid_t)status.worker_pid, 5000) && gone_within((pid_t)status.helper_pid, 5000),
                "worker and helper outlive the daemon");
        for (int i = 0; i < CLIENTS; i++)
                spawn(i);
        all(has_failed, 1, "get an error while there is no daemon yet");
        h_sleep_ms(DOWN_MS);
        for (int i = 0; i < CLIENTS; i++) {
                const struct client *c = &clients[i];
                const unsigned lines = count_lines(c->words);

                /* Clients that use the protocol directly, without the client library, print nothing. */
                h_check(lines == (c->kind != LOAD_HALF && c->kind != LOAD_CONTROL),
                        "a client (%s) without a daemon said %u lines", load_name(c->kind), lines);
                h_check(c->steps == 0, "a client worked without a daemon");
        }
        (void)h_daemon_again(build, DEVICE, NULL);
        all_work("work with a daemon that came late");
        for (int i = 0; i < CLIENTS; i++) {
                kill(clients[i].pid, SIGKILL);
                waitpid(clients[i].pid, NULL, 0);
        }
}

static void end_clients(void)
{
        long rss = 0;
        uint32_t others = 0;

        for (int i = 0; i < CLIENTS; i++) {
                struct client *c = &clients[i];
                const unsigned n = count_fds(c->pid);

                h_check(n <= c->n_fds + 6, "client %d (%s) had %u descriptors and has %u", i, load_name(c->kind),
                        c->n_fds, n);
                rss = h_memory_kb(c->pid, "VmRSS") > rss ? h_memory_kb(c->pid, "VmRSS") : rss;
                others += c->others;
        }
        printf("the largest client: %ld KiB; errors that were not the daemon's end: %u\n", rss, others);
        all_live("at the end");
        for (int i = 0; i < CLIENTS; i++) {
                kill(clients[i].pid, SIGKILL);
                waitpid(clients[i].pid, NULL, 0);
        }
}

int main(int argc, char **argv)
{
        int kills = argc > 2                        ? atoi(argv[2])
                    : getenv("DETSHARE_TEST_WHOLE") ? 5
                                                    : 3,
            judge = argc > 3 && !strcmp(argv[3], "judge");
        unsigned shm = count_entries("/dev/shm");
        struct h_status before;

        seed = argc > 4 ? strtoull(argv[4], NULL, 0) : (uint64_t)getpid() * 2654435761u + 1;
        if (argc < 2 || kills < 0 || kills > 1024)
                return 2;
        build = argv[1];
        setbuf(stdout, NULL);
        printf("seed %llu, %d kills\n", (unsigned long long)seed, kills);
        clients = mmap(NULL, sizeof(*clients) * CLIENTS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        delays = calloc((size_t)kills * CLIENTS + 1, sizeof(*delays));
        if (clients == MAP_FAILED || !delays || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
                return 2;
        h_daemon_start(build, DEVICE, NULL);
        before = h_quiet();
        for (int i = 0; i < CLIENTS; i++)
                spawn(i);
        deaths(kills, judge);
        sigterm();
        stop_and_go_on();
        children_die(1 + kills / 5, 1);
        children_die(1 + kills / 5, 0);
        end_clients();
        h_baseline(&before, 5000, "after the last client");
        daemon_comes_late();
        h_baseline(&before, 5000, "after the last of those that were there first");
        h_check(count_entries("/dev/shm") <= shm, "files in /dev/shm are left");
        free(delays);
        return h_finish();
}
