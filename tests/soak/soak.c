/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long-term use of memory, descriptors, threads and charges by the daemon
 *
 * - steady: 16 clients work, one is killed per second, the policy changes every five seconds
 * - deaths: the same clients, and each second the worker or the helper is killed
 * - churn: four processes connect, send Hello and disconnect without pause
 * - idle: a thousand clients that do nothing; the cost of each
 *
 * The test inspects the daemon's processes each second. It prints the slope of their memory after warm-up (a fifth of
 * the time), and judges it (1 MiB/h) if the rest was at least half an hour; for shorter times the slope is noise.
 * Everything else must return to its initial value. The last lines are a table and `N passed, N failed`.
 *
 * usage: soak BUILD steady|deaths|churn SECONDS | idle CLIENTS
 */
#include "tests/e2e/harness.h"

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/control.h"
#include "tests/e2e/load/load.h"

#define DEVICE "sim:h200"
#define CLIENTS 16
#define CHURNERS 4
#define JUDGE_S 1800
#define SLOPE_KIB_H 1024
#define IDLE_S 10
#define IDLE_KIB 32
#define BACK_MS 10000

enum who { SUPERVISOR, WORKER, HELPER, _WHO_MAX };
static const char *const who_names[_WHO_MAX] = {"supervisor", "worker", "helper"};

struct process {
        pid_t pid;
        unsigned long rss_kib;
        unsigned fds, threads;
};

/* Sums for a regression line through (seconds, KiB). */
struct slope {
        double n, x, y, xx, xy;
        unsigned long first, last, most;
};

static const char *build;
static uint64_t seed = 20260001;
static pid_t children[CLIENTS];
static struct slope slopes[_WHO_MAX];
static _Atomic uint64_t *counts; /* shared: steps of the clients, errors */

/* --- inspecting processes ----------------------------------------------------------------------------------------- */

static unsigned count_entries(pid_t pid, const char *what)
{
        char path[64];
        unsigned n = 0;
        DIR *d;

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
        d = opendir(path);
        while (d && readdir(d))
                n++;
        if (d)
                closedir(d);
        return n;
}

static unsigned long long number_of(pid_t pid, const char *file, const char *format)
{
        unsigned long long n = 0;
        char path[64];
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
        f = fopen(path, "r");
        if (f && fscanf(f, format, &n) != 1)
                n = 0;
        if (f)
                fclose(f);
        return n;
}

static int look(struct process all[_WHO_MAX], struct h_status *status)
{
        if (h_status(status))
                return -1;
        all[SUPERVISOR].pid = h_daemon_pid();
        all[WORKER].pid = (pid_t)status->worker_pid;
        all[HELPER].pid = (pid_t)status->helper_pid;
        for (int i = 0; i < _WHO_MAX; i++) {
                struct process *p = &all[i];

                p->rss_kib = (unsigned long)(number_of(p->pid, "statm", "%*u %llu") *
                                             (unsigned long long)sysconf(_SC_PAGESIZE) / 1024);
                p->fds = count_entries(p->pid, "fd");
                p->threads = count_entries(p->pid, "task");
        }
        return 0;
}

static void add_sample(double seconds, const struct process all[_WHO_MAX])
{
        for (int i = 0; i < _WHO_MAX; i++) {
                struct slope *s = &slopes[i];
                const double y = (double)all[i].rss_kib;

                if (!all[i].rss_kib)
                        continue;
                s->first = s->n > 0 ? s->first : all[i].rss_kib;
                s->last = all[i].rss_kib;
                s->most = s->last > s->most ? s->last : s->most;
                s->n++;
                s->x += seconds;
                s->y += y;
                s->xx += seconds * seconds;
                s->xy += seconds * y;
        }
}

static double kib_per_hour(const struct slope *s)
{
        const double d = s->n * s->xx - s->x * s->x;

        return d > 0 ? (s->n * s->xy - s->x * s->y) / d * 3600 : 0;
}

/* --- clients ------------------------------------------------------------------------------------------------------ */

static void spawn(int i)
{
        const enum load_kind kind = (enum load_kind)(i % LOAD_KINDS);
        const uint64_t own_seed = h_random(&seed);
        struct load load;
        int r;

        fflush(stdout);
        children[i] = fork();
        if (children[i])
                return;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!freopen("/dev/null", "w", stdout))
                _exit(3);
        load_init(&load, kind, build, own_seed);
        for (;;) {
                r = load_open(&load);
                for (; !r; r = load_step(&load))
                        counts[0]++;
                counts[r == LOAD_E_WRONG ? 2 : 1]++;
                load_reset(&load);
                usleep(5000);
        }
}

static void end_all(void)
{
        for (int i = 0; i < CLIENTS; i++) {
                kill(children[i], SIGKILL);
                waitpid(children[i], NULL, 0);
        }
}

static void another_policy(unsigned n)
{
        static char half[] = "ls_percent=50";
        static char *const params[] = {half};
        static const char *const names[] = {"fifo", "static", "multistream"};
        dsc_session *s = NULL;

        h_check(dsc_control_open(NULL, 0, &s) == 0, "a control session: %s", dsc_message());
        if (s)
                h_check(dsc_control_set_policy(s, names[n % 3], params, n % 3 == 1) == 0, "policy %s: %s", names[n % 3],
                        dsc_message());
        dsc_control_close(s);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

static void print_table(
        const char *part, int seconds, const struct process before[_WHO_MAX], const struct process after[_WHO_MAX])
{
        for (int i = 0; i < _WHO_MAX; i++) {
                const struct slope *s = &slopes[i];

                printf("| %s, %d s | %s | %lu | %lu | %lu | %+.0f | %+d | %+d |\n", part, seconds, who_names[i],
                        s->first, s->last, s->most, kib_per_hour(s), (int)after[i].fds - (int)before[i].fds,
                        (int)after[i].threads - (int)before[i].threads);
        }
}

static void judge(int seconds, const struct process before[_WHO_MAX], const struct process after[_WHO_MAX])
{
        for (int i = 0; i < _WHO_MAX; i++) {
                h_check(after[i].fds <= before[i].fds, "%s: %u descriptors, then %u", who_names[i], before[i].fds,
                        after[i].fds);
                h_check(after[i].threads <= before[i].threads, "%s: %u threads, then %u", who_names[i],
                        before[i].threads, after[i].threads);
                if (seconds >= JUDGE_S)
                        h_check(kib_per_hour(&slopes[i]) <= SLOPE_KIB_H, "%s grows by %.0f KiB an hour", who_names[i],
                                kib_per_hour(&slopes[i]));
        }
        h_check(counts[2] == 0, "%llu results were wrong", (unsigned long long)counts[2]);
}

/* Does not reap the process; h_daemon_stop does. */
static int daemon_lives(void)
{
        siginfo_t info = {0};

        if (waitid(P_PID, (id_t)h_daemon_pid(), &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid == 0)
                return 1;
        return h_check(0, "the daemon ended: %s %d", info.si_code == CLD_EXITED ? "status" : "signal", info.si_status);
}

/* The event of each second. */
static void event(int second, int deaths, const struct process now[_WHO_MAX])
{
        const int i = second % CLIENTS;

        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
        spawn(i);
        if (second % 5 == 4)
                another_policy((unsigned)second / 5);
        if (deaths && now[second & 1 ? WORKER : HELPER].pid > 0)
                kill(now[second & 1 ? WORKER : HELPER].pid, SIGKILL);
}

static void loaded(const char *part, int seconds, int deaths)
{
        struct process before[_WHO_MAX] = {0}, now[_WHO_MAX] = {0};
        struct h_status quiet, status;
        uint64_t begin, last_steps;

        h_daemon_start(build, DEVICE, NULL);
        for (int i = 0; i < CLIENTS; i++)
                spawn(i);
        h_sleep_ms(1000);
        end_all();
        quiet = h_quiet();
        h_check(look(before, &status) == 0, "status");
        begin = h_now_ms();
        for (int i = 0; i < CLIENTS; i++)
                spawn(i);
        for (int second = 0; second < seconds; second++) {
                while (h_now_ms() < begin + (uint64_t)second * 1000)
                        h_sleep_ms(20);
                if (!daemon_lives())
                        break;
                if (look(now, &status) == 0 && second >= seconds / 5)
                        add_sample(second, now);
                event(second, deaths, now);
        }
        last_steps = counts[0];
        for (const uint64_t end = h_now_ms() + BACK_MS; counts[0] < last_steps + 100 && h_now_ms() < end;)
                h_sleep_ms(10);
        h_check(counts[0] >= last_steps + 100, "the clients work at the end");
        end_all();
        h_baseline(&quiet, BACK_MS, part);
        for (const uint64_t end = h_now_ms() + BACK_MS; h_now_ms() < end; h_sleep_ms(20))
                if (look(now, &status) == 0 && now[SUPERVISOR].fds <= before[SUPERVISOR].fds &&
                        now[WORKER].fds <= before[WORKER].fds && now[HELPER].fds <= before[HELPER].fds)
                        break;
        print_table(part, seconds, before, now);
        judge(seconds, before, now);
        printf("%s: %llu steps, %llu errors, %u restarts of the worker\n", part, (unsigned long long)counts[0],
                (unsigned long long)counts[1], status.worker_restarts);
}

static void churner(void)
{
        dsc_session *s = NULL;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
                counts[dsc_control_open(NULL, 0, &s) ? 1 : 0]++;
                s = dsc_control_close(s);
        }
}

static void churn(int seconds)
{
        struct process before[_WHO_MAX] = {0}, after[_WHO_MAX] = {0};
        struct h_status quiet, status;
        pid_t pids[CHURNERS];

        h_daemon_start(build, DEVICE, NULL);
        quiet = h_quiet();
        for (int round = 0; round < 2; round++) { /* the first round warms up */
                h_check(look(before, &status) == 0, "status");
                counts[0] = 0;
                for (int i = 0; i < CHURNERS; i++) {
                        fflush(stdout);
                        pids[i] = fork();
                        if (pids[i] == 0)
                                churner();
                }
                h_sleep_ms(round ? seconds * 1000 : 1000);
                for (int i = 0; i < CHURNERS; i++) {
                        kill(pids[i], SIGKILL);
                        waitpid(pids[i], NULL, 0);
                }
                h_baseline(&quiet, BACK_MS, "churn");
        }
        h_check(look(after, &status) == 0, "status");
        printf("| churn, %d s | supervisor | %lu | %lu | %lu | - | %+d | %+d |\n", seconds, before[SUPERVISOR].rss_kib,
                after[SUPERVISOR].rss_kib, after[SUPERVISOR].rss_kib,
                (int)after[SUPERVISOR].fds - (int)before[SUPERVISOR].fds,
                (int)after[SUPERVISOR].threads - (int)before[SUPERVISOR].threads);
        printf("churn: %llu connections, %llu a second, %llu errors\n", (unsigned long long)counts[0],
                (unsigned long long)counts[0] / (unsigned)seconds, (unsigned long long)counts[1]);
        h_check(counts[1] == 0, "%llu connections were refused", (unsigned long long)counts[1]);
        h_check(after[SUPERVISOR].rss_kib <= before[SUPERVISOR].rss_kib + 512, "the supervisor has grown by %ld KiB",
                (long)after[SUPERVISOR].rss_kib - (long)before[SUPERVISOR].rss_kib);
}

static unsigned long long busy_ns(const struct process all[_WHO_MAX])
{
        return number_of(all[SUPERVISOR].pid, "schedstat", "%llu") + number_of(all[WORKER].pid, "schedstat", "%llu");
}

/* A session with ring and page, like a client that has worked before. -1: it was refused. */
static int idle_client(void)
{
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__Attach attach = DETSHARE__ATTACH__INIT;
        int fd = h_hello(0, NULL, NULL), files[4] = {-1, -1, -1, -1}, ok;
        Detshare__Reply *reply;

        request.id = 2;
        request.call_case = DETSHARE__REQUEST__CALL_ATTACH;
        request.attach = &attach;
        reply = fd < 0 ? NULL : h_call(fd, &request, files);
        ok = reply && reply->status == 0;
        for (int i = 0; i < 4; i++)
                if (files[i] >= 0)
                        close(files[i]);
        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        if (!ok && fd >= 0)
                close(fd);
        return ok ? fd : -1;
}

static void idle(int n)
{
        static char path[] = "/tmp/detshare-soak-XXXXXX";
        const char *extra[] = {"--config", path, NULL};
        struct process before[_WHO_MAX] = {0}, after[_WHO_MAX] = {0};
        struct rlimit files;
        int *fds = calloc((size_t)n, sizeof(*fds)), fd = mkstemp(path), made = 0;
        struct h_status quiet, status;
        unsigned long long begin;
        double kib, percent;

        if (!fds || fd < 0 || getrlimit(RLIMIT_NOFILE, &files) < 0)
                exit(2);
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
        dprintf(fd, "[limits]\nconnections=%d\nconnections_per_uid=%d\n", n + 100, n + 100);
        close(fd);
        h_daemon_start(build, DEVICE, extra);
        quiet = h_quiet();
        h_check(look(before, &status) == 0, "status");
        while (made < n && (fds[made] = idle_client()) >= 0)
                made++;
        h_check(made == n, "%d clients of %d could connect", made, n);
        h_check(look(after, &status) == 0, "status");
        begin = busy_ns(after);
        h_sleep_ms(IDLE_S * 1000);
        percent = (double)(busy_ns(after) - begin) / (IDLE_S * 1e7);
        kib = ((double)after[SUPERVISOR].rss_kib - (double)before[SUPERVISOR].rss_kib + (double)after[WORKER].rss_kib -
                      (double)before[WORKER].rss_kib) /
              n;
        printf("idle: %d clients, %.1f KiB each (supervisor and worker), %.2f%% of a processor\n", made, kib, percent);
        h_check(kib <= IDLE_KIB, "an idle client costs %.1f KiB", kib);
        h_check(percent <= 1, "idle clients cost %.2f%% of a processor", percent);
        for (int i = 0; i < made; i++)
                close(fds[i]);
        h_baseline(&quiet, BACK_MS, "idle");
        free(fds);
        unlink(path);
}

int main(int argc, char **argv)
{
        const int n = argc > 3 ? atoi(argv[3]) : 0;

        if (argc < 4 || n < 1) {
                fprintf(stderr, "usage: soak BUILD steady|deaths|churn SECONDS | idle CLIENTS\n");
                return 2;
        }
        build = argv[1];
        setbuf(stdout, NULL);
        counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (counts == MAP_FAILED)
                return 2;
        if (!strcmp(argv[2], "steady") || !strcmp(argv[2], "deaths"))
                loaded(argv[2], n, argv[2][0] == 'd');
        else if (!strcmp(argv[2], "churn"))
                churn(n);
        else if (!strcmp(argv[2], "idle"))
                idle(n);
        else
                return 2;
        return h_finish();
}
