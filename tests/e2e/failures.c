/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon whose system calls and allocations fail
 *
 * tests/support/faults replaces calls of the real daemon by ones that fail on demand: in the supervisor, the worker and
 * the helper, the first call during a client's life, the second, and so on. A life may then fail with an error or
 * succeed; it may not hang or see wrong data. The daemon continues, none of its processes dies of a signal that the
 * test did not send, the next life succeeds, and the daemon holds what it held before.
 *
 * Then lasting conditions: no file descriptors while clients connect, reads and writes of single bytes, continuous
 * signals, an unread log, a file size limit of zero, no memory, no processes, jumps of the time of day.
 *
 * usage: failures BUILD [N [PART]]   (N: number of calls that are tried; all with DETSHARE_SOAK)
 */
#include "tests/e2e/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"
#include "tests/support/faults/faults.h"

#define DEVICE "sim:h200"
#define WORDS 20000u
#define LIFE_S 60

enum life_end { LIFE_GOOD, LIFE_ERROR, LIFE_WRONG = 20, LIFE_HUNG = 21, LIFE_DIED = 22 };

static const char *build;
static struct faults *faults;
static char faults_path[64], log_path[80];
static int own_stderr, starts_max, sweep_max;
static unsigned lives; /* number of clients' lives; makes one image of each life unlike all others */

/* --- one client's life, in its own process ------------------------------------------------------------------------ */

/* unlike: the end of the image */
static int life_module(dsc_session *s, unsigned unlike, uint64_t *ret)
{
        char path[300], log[2000] = "", *text, *image;
        int r, n;

        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        text = h_read_file(path, NULL);
        n = asprintf(&image, "%s\n// %u\n", text, unlike);
        free(text);
        if (n < 0)
                return 2;
        r = dsc_module_load(s, image, (size_t)n + 1, log, sizeof(log), ret);
        free(image);
        return r;
}

/* Loads an image that the supervisor may know, and one that only a helper can check. */
static int life_kernel(dsc_session *s, struct dsc_kernel *kernel)
{
        uint64_t known, module;
        int r = life_module(s, 0, &known);

        if (!r)
                r = life_module(s, lives, &module);
        return r ? r : dsc_kernel_get(s, module, "fill", kernel);
}

static int life_work(dsc_session *s, const struct dsc_kernel *kernel, uint64_t p)
{
        static uint32_t back[WORDS];
        struct {
                uint64_t p;
                uint32_t n, value;
        } params = {p, WORDS, 77};
        struct dsc_launch l = {.kernel = kernel->id,
                .grid = {(WORDS + 255) / 256, 1, 1},
                .block = {256, 1, 1},
                .params = &params,
                .params_size = sizeof(params)};
        static uint32_t host[WORDS];

        for (uint32_t i = 0; i < WORDS; i++)
                host[i] = i;
        if (dsc_write(s, 0, p, 0, host, 0, sizeof(host), 1) || dsc_read(s, 0, back, 0, p, 0, sizeof(back), 1))
                return LIFE_ERROR;
        if (memcmp(host, back, sizeof(host)) != 0)
                return LIFE_WRONG;
        if (dsc_launch(s, 0, &l) || dsc_wait_all(s) || dsc_read(s, 0, back, 0, p, 0, sizeof(back), 1))
                return LIFE_ERROR;
        for (uint32_t i = 1; i < WORDS; i++)
                /* the read did not fill the buffer: this word still has its initial pattern */
                if (back[i] == i && back[i - 1] == i - 1)
                        return LIFE_WRONG;
        return LIFE_GOOD;
}

static int life(void)
{
        struct dsc_kernel kernel;
        dsc_session *s;
        void *pinned;
        uint64_t p;
        int error, r;

        s = dsc_get(&error);
        if (!s)
                return error ? LIFE_ERROR : LIFE_WRONG;
        if (dsc_mem_alloc(s, WORDS * 4, &p) || dsc_host_alloc(s, 8192, &pinned) || life_kernel(s, &kernel))
                return LIFE_ERROR;
        r = life_work(s, &kernel, p);
        if (r == LIFE_GOOD && (dsc_mem_free(s, p) || dsc_host_free(s, pinned)))
                return LIFE_ERROR;
        return r;
}

/* Sends the client's messages to the daemon's log, since errors are expected. */
static void quiet(void)
{
        int fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

        dup2(fd, 2);
        close(fd);
}

static pid_t life_begin(int rpc)
{
        pid_t pid;

        fflush(stdout);
        lives++;
        pid = fork();
        if (pid)
                return pid;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        quiet();
        if (rpc)
                setenv("DETSHARE_TRANSPORT", "rpc", 1);
        alarm(LIFE_S);
        _exit(life());
}

static int life_end(pid_t pid)
{
        int status;

        if (waitpid(pid, &status, 0) != pid)
                return LIFE_DIED;
        if (WIFSIGNALED(status))
                return WTERMSIG(status) == SIGALRM ? LIFE_HUNG : LIFE_DIED;
        return WEXITSTATUS(status);
}

static int live(int rpc)
{
        return life_end(life_begin(rpc));
}

/* Waits until a client's life succeeds; the worker may still be starting. */
static void served(const char *what)
{
        uint64_t end = h_now_ms() + 30000;
        int end_of;

        while ((end_of = live(0)) != LIFE_GOOD && h_now_ms() < end)
                h_sleep_ms(20);
        h_check(end_of == LIFE_GOOD, "%s: the next client is not served: %d", what, end_of);
}

/* --- the daemon --------------------------------------------------------------------------------------------------- */

static void start(void)
{
        char path[300], absolute[4096];
        int fd = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);

        snprintf(path, sizeof(path), "%s/faults/faults.so", build);
        if (fd < 0 || !realpath(path, absolute)) {
                printf("FAIL %s is missing\n0 passed, 1 failed\n", path);
                exit(1);
        }
        setenv("LD_PRELOAD", absolute, 1);
        setenv("DETSHARE_FAULTS", faults_path, 1);
        dup2(fd, 2);
        h_daemon_start(build, DEVICE, NULL);
        dup2(own_stderr, 2);
        close(fd);
        unsetenv("LD_PRELOAD");
        unsetenv("DETSHARE_FAULTS");
}

static void stop(void)
{
        static const char *const bad[] = {"by signal 6", "by signal 11", "by signal 7", "by signal 25", "Assertion"};
        char *said;

        h_check(h_daemon_stop() >= 0, "the daemon does not end in order");
        said = h_read_file(log_path, NULL);
        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
                h_check(!strstr(said, bad[i]), "the log says '%s'", bad[i]);
        free(said);
}

static void arm(const char *program, enum fault_call call, int error, int64_t n, int64_t times)
{
        atomic_store(&faults->call, FAULT_NONE);
        snprintf(faults->program, sizeof(faults->program), "%s", program);
        atomic_store(&faults->error, error);
        atomic_store(&faults->left, n - 1);
        atomic_store(&faults->times, times);
        atomic_store(&faults->fired, 0);
        atomic_store(&faults->call, (int32_t)call);
}

static int disarm(void)
{
        atomic_store(&faults->call, FAULT_NONE);
        return atomic_load(&faults->fired) > 0;
}

/* --- failure of the n-th call ------------------------------------------------------------------------------------- */

static const struct {
        enum fault_call call;
        int error;
        const char *name;
} wrongs[] = {
        {FAULT_MALLOC, ENOMEM, "malloc ENOMEM"},
        {FAULT_MEMFD, EMFILE, "memfd_create EMFILE"},
        {FAULT_MEMFD, ENOMEM, "memfd_create ENOMEM"},
        {FAULT_FTRUNCATE, ENOSPC, "ftruncate ENOSPC"},
        {FAULT_FTRUNCATE, EINTR, "ftruncate EINTR"},
        {FAULT_MMAP, ENOMEM, "mmap ENOMEM"},
        {FAULT_RECVMSG, EINTR, "recvmsg EINTR"},
        {FAULT_RECVMSG, ENOMEM, "recvmsg ENOMEM"},
        {FAULT_RECVMSG, ECONNRESET, "recvmsg ECONNRESET"},
        {FAULT_SENDMSG, EINTR, "sendmsg EINTR"},
        {FAULT_SENDMSG, EPIPE, "sendmsg EPIPE"},
        {FAULT_SENDMSG, ENOBUFS, "sendmsg ENOBUFS"},
        {FAULT_ACCEPT, EMFILE, "accept EMFILE"},
        {FAULT_ACCEPT, ENFILE, "accept ENFILE"},
        {FAULT_ACCEPT, ECONNABORTED, "accept ECONNABORTED"},
        {FAULT_ACCEPT, EINTR, "accept EINTR"},
        {FAULT_EVENTFD, EMFILE, "eventfd EMFILE"},
        {FAULT_EPOLL_WAIT, EINTR, "epoll_wait EINTR"},
        {FAULT_POLL, EINTR, "poll EINTR"},
        {FAULT_READ, EINTR, "read EINTR"},
        {FAULT_READ, EIO, "read EIO"},
        {FAULT_WRITE, EINTR, "write EINTR"},
        {FAULT_WRITE, ENOSPC, "write ENOSPC"},
        {FAULT_FCNTL, EMFILE, "fcntl EMFILE"},
        {FAULT_FSTAT, ENOMEM, "fstat ENOMEM"},
        {FAULT_PREAD, EIO, "pread EIO"},
        {FAULT_GETSOCKOPT, ENOBUFS, "getsockopt ENOBUFS"},
};

/* Lets call 1 fail, then call 2, and so on, in a client's life each, up to n_max. Returns the number of calls that
 * failed. */
static int sweep(const char *program, size_t w, int n_max)
{
        int n, errors = 0;

        for (n = 1; n <= n_max; n++) {
                struct h_status before = h_quiet();
                char what[100];
                int end, fired;

                snprintf(what, sizeof(what), "%s, %s, call %d", program, wrongs[w].name, n);
                arm(program, wrongs[w].call, wrongs[w].error, n, 1);
                end = live(n % 3 == 2);
                fired = disarm();
                if (!fired) {
                        h_check(end == LIFE_GOOD, "%s: no call failed, but the life ended with %d", what, end);
                        break;
                }
                h_check(end == LIFE_GOOD || end == LIFE_ERROR, "%s: a client's life ended with %d", what, end);
                errors += end != LIFE_GOOD;
                served(what);
                h_baseline(&before, 5000, what);
        }
        if (n > 1)
                printf("%s, %s: %d calls failed, %d lives with an error\n", program, wrongs[w].name, n - 1, errors);
        return n - 1;
}

static void sweeps(void)
{
        static const char *const programs[] = {"detshared", "detshare-worker", "detshare-helper"};
        int calls = 0;

        for (size_t p = 0; p < 3; p++) {
                start();
                served("before");
                for (size_t w = 0; w < sizeof(wrongs) / sizeof(*wrongs); w++)
                        calls += sweep(programs[p], w, sweep_max);
                stop();
        }
        printf("%d failures\n", calls);
        h_check(calls > 60, "only %d calls failed", calls);
}

/* --- lasting conditions ------------------------------------------------------------------------------------------- */

static double cpu_seconds(pid_t pid)
{
        unsigned long user = 0, system = 0;
        char path[64], *text, *p;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        text = calloc(1, 2000);
        {
                int fd = open(path, O_RDONLY | O_CLOEXEC);

                (void)!read(fd, text, 1999);
                close(fd);
        }
        p = strrchr(text, ')');
        if (p)
                sscanf(p, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
        free(text);
        return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* The daemon has no descriptors left: it can neither accept nor refuse connections. Waiting clients must not keep it
 * busy. */
static void no_file_descriptors(void)
{
        struct rlimit old, none = {8, 8};
        int waiting[50];
        double begin, used;

        prlimit(h_daemon_pid(), RLIMIT_NOFILE, NULL, &old);
        none.rlim_max = old.rlim_max;
        prlimit(h_daemon_pid(), RLIMIT_NOFILE, &none, NULL);
        for (int i = 0; i < 50; i++)
                waiting[i] = h_connect();
        begin = cpu_seconds(h_daemon_pid());
        h_sleep_ms(1000);
        used = cpu_seconds(h_daemon_pid()) - begin;
        printf("without file descriptors: %.0f %% of a CPU\n", used * 100);
        h_check(used < 0.5, "a daemon without file descriptors uses %.0f %% of a CPU", used * 100);
        prlimit(h_daemon_pid(), RLIMIT_NOFILE, &old, NULL);
        for (int i = 0; i < 50; i++)
                close(waiting[i]);
        served("file descriptors are back");
}

/*
 * Descriptors from clients and from the worker do not arrive: the messages are truncated, and the daemon must notice.
 * Meanwhile a client may get an error that asks it to retry, since the supervisor replaces a worker whose messages it
 * cannot receive. The client continues afterwards.
 */
static void few_file_descriptors(void)
{
        struct rlimit old, few;
        struct h_status before = h_quiet();

        prlimit(h_daemon_pid(), RLIMIT_NOFILE, NULL, &old);
        few.rlim_max = old.rlim_max;
        for (unsigned more = 2; more < 8; more += 2) {
                pid_t client;
                int end;

                few.rlim_cur = before.open_fds + more;
                prlimit(h_daemon_pid(), RLIMIT_NOFILE, &few, NULL);
                client = life_begin(0);
                h_sleep_ms(700);
                prlimit(h_daemon_pid(), RLIMIT_NOFILE, &old, NULL);
                end = life_end(client);
                h_check(end == LIFE_GOOD || end == LIFE_ERROR, "with %u descriptors more: %d", more, end);
        }
        served("more file descriptors");
        h_baseline(&before, 10000, "few file descriptors");
}

static void single_bytes(void)
{
        static const char *const programs[] = {"detshared", "detshare-worker", "detshare-helper"};

        for (size_t p = 0; p < 3; p++) {
                for (int i = 0; i < 2; i++) {
                        char what[80];
                        int end;

                        snprintf(what, sizeof(what), "%s %s single bytes", programs[p], i ? "writes" : "reads");
                        arm(programs[p], i ? FAULT_SENDMSG : FAULT_RECVMSG, FAULT_SHORT, 1, 0);
                        end = live(p == 0 && i == 0);
                        h_check(disarm(), "%s: it did not", what);
                        h_check(end == LIFE_GOOD, "%s: %d", what, end);
                }
        }
}

static void on_alarm(int signum)
{
}

/* System calls are interrupted all the time: a timer signals the client; SIGSTOP and SIGCONT stop and continue the
 * daemon's processes. */
static void signals(void)
{
        struct itimerval often = {{0, 500}, {0, 500}};
        struct h_status status;
        int end = LIFE_ERROR, n = 0;
        pid_t client, worker;

        h_check(h_status(&status) == 0, "no status");
        worker = (pid_t)status.worker_pid;
        fflush(stdout);
        client = fork();
        if (!client) {
                struct sigaction action = {.sa_handler = on_alarm};

                prctl(PR_SET_PDEATHSIG, SIGKILL);
                sigaction(SIGPROF, &action, NULL);
                sigaction(SIGALRM, &action, NULL);
                setitimer(ITIMER_REAL, &often, NULL);
                for (int i = 0; i < 3 && end != LIFE_WRONG; i++)
                        end = life();
                _exit(end);
        }
        for (uint64_t until = h_now_ms() + LIFE_S * 1000; h_now_ms() < until; n++) {
                int ended;

                kill(h_daemon_pid(), SIGCHLD);
                kill(h_daemon_pid(), SIGSTOP);
                kill(h_daemon_pid(), SIGCONT);
                kill(worker, SIGSTOP);
                kill(worker, SIGCONT);
                usleep(300);
                if (waitpid(client, &ended, WNOHANG) == client) {
                        h_check(WIFEXITED(ended) && WEXITSTATUS(ended) == LIFE_GOOD, "beside signals: status %#x",
                                ended);
                        printf("a client lived through %d rounds of signals\n", n);
                        return;
                }
        }
        kill(client, SIGKILL);
        waitpid(client, NULL, 0);
        h_check(0, "a client hangs beside signals");
}

/* A file size limit of zero: memfds cannot grow, and SIGXFSZ must not kill. */
static void no_file_size(void)
{
        struct rlimit old, none = {0, RLIM_INFINITY};
        struct h_status status;

        h_check(h_status(&status) == 0, "no status");
        prlimit(h_daemon_pid(), RLIMIT_FSIZE, NULL, &old);
        none.rlim_max = old.rlim_max;
        prlimit(h_daemon_pid(), RLIMIT_FSIZE, &none, NULL);
        prlimit((pid_t)status.worker_pid, RLIMIT_FSIZE, &none, NULL);
        h_check(live(0) == LIFE_ERROR, "a life without files");
        h_check(kill(h_daemon_pid(), 0) == 0, "the daemon died of a limit of file sizes");
        prlimit(h_daemon_pid(), RLIMIT_FSIZE, &old, NULL);
        if (h_status(&status) == 0 && status.worker_pid)
                prlimit((pid_t)status.worker_pid, RLIMIT_FSIZE, &old, NULL);
        served("files may grow again");
}

/* Supervisor and worker get no further address space: allocations, mappings and thread stacks fail. */
static void no_memory(void)
{
        struct rlimit old, little = {1 << 20, RLIM_INFINITY};
        struct h_status status;
        int end;

        h_check(h_status(&status) == 0, "no status");
        prlimit(h_daemon_pid(), RLIMIT_AS, NULL, &old);
        little.rlim_max = old.rlim_max;
        prlimit(h_daemon_pid(), RLIMIT_AS, &little, NULL);
        prlimit((pid_t)status.worker_pid, RLIMIT_AS, &little, NULL);
        end = live(0);
        h_check(end == LIFE_GOOD || end == LIFE_ERROR, "a life without memory: %d", end);
        prlimit(h_daemon_pid(), RLIMIT_AS, &old, NULL);
        if (h_status(&status) == 0 && status.worker_pid)
                prlimit((pid_t)status.worker_pid, RLIMIT_AS, &old, NULL);
        served("memory is back");
}

/* The worker dies and fork() fails: the supervisor retries until it succeeds. */
static void no_processes(void)
{
        struct h_status status;

        h_check(h_status(&status) == 0 && status.worker_pid, "no status");
        arm("detshared", FAULT_FORK, EAGAIN, 1, 3);
        kill((pid_t)status.worker_pid, SIGKILL);
        for (uint64_t end = h_now_ms() + 20000; h_now_ms() < end && atomic_load(&faults->fired) < 3; h_sleep_ms(10))
                ;
        h_check(atomic_load(&faults->fired) == 3, "fork() was tried %d times", (int)atomic_load(&faults->fired));
        disarm();
        served("processes again");
}

/* A client's life: its event works in the next worker, and so does a new event there. */
static int event_life(int knock, int wait)
{
        uint64_t event, other = 0, seq;
        char byte = 1;
        int error;
        dsc_session *s = dsc_get(&error);

        if (!s || dsc_event_create(s, &event) || dsc_event_record(s, 0, event, &seq) || dsc_wait_all(s))
                return LIFE_ERROR;
        if (write(knock, &byte, 1) != 1 || read(wait, &byte, 1) != 1)
                return LIFE_ERROR;
        /* The session had nothing in flight at the worker's death, so it continues in the next worker. */
        if ((error = dsc_event_record(s, 0, event, &seq)) || (error = dsc_wait_all(s))) {
                fprintf(stderr, "the event of the previous worker: %d %s\n", error, dsc_message());
                return LIFE_WRONG;
        }
        return dsc_event_create(s, &other) == 0 && other > event ? LIFE_GOOD : LIFE_WRONG;
}

/* The time of day jumps back by ten years, then forward by twenty, and the worker dies each time. The next worker
 * knows everything that clients hold. */
static void clock_jumps(void)
{
        static const int64_t years[] = {-10, 20, -1};

        for (size_t i = 0; i < sizeof(years) / sizeof(*years); i++) {
                int knock[2], wait[2], end;
                uint32_t old;
                struct h_status status;
                char byte = 1;
                pid_t pid;

                if (pipe(knock) || pipe(wait))
                        return;
                fflush(stdout);
                pid = fork();
                if (!pid) {
                        prctl(PR_SET_PDEATHSIG, SIGKILL);
                        quiet();
                        alarm(LIFE_S);
                        _exit(event_life(knock[1], wait[0]));
                }
                close(knock[1]);
                h_check(read(knock[0], &byte, 1) == 1, "a client with an event");
                h_check(h_status(&status) == 0 && status.worker_pid, "no status");
                atomic_store(&faults->jump_s, years[i] * 366 * 86400);
                old = status.worker_pid;
                kill((pid_t)old, SIGKILL);
                /* waits for the new worker, because work submitted before the restart would be lost */
                for (uint64_t end_ms = h_now_ms() + 20000; h_now_ms() < end_ms; h_sleep_ms(5))
                        if (h_status(&status) == 0 && status.worker_pid && status.worker_pid != old)
                                break;
                h_check(write(wait[1], &byte, 1) == 1, "a client that waits");
                end = life_end(pid);
                h_check(end == LIFE_GOOD, "a client whose clock went by %d years: %d", (int)years[i], end);
                served("another time of day");
                atomic_store(&faults->jump_s, 0);
                close(knock[0]);
                close(wait[0]);
                close(wait[1]);
        }
}

/* The daemon's log is a full pipe without a reader. */
static void log_that_nobody_reads(void)
{
        int fds[2], n = 0;
        char byte = 'x';

        if (pipe2(fds, O_CLOEXEC) < 0)
                return;
        fcntl(fds[1], F_SETFL, O_NONBLOCK);
        while (write(fds[1], &byte, 1) == 1)
                n++;
        fcntl(fds[1], F_SETFL, 0);
        dup2(fds[1], 2);
        h_daemon_start(build, DEVICE, NULL);
        dup2(own_stderr, 2);
        for (int i = 0; i < 300; i++) {
                int fd = h_connect();

                (void)!write(fd, "\xff\xff\xff\xff", 4); /* an invalid frame length, which causes a line of the log */
                close(fd);
        }
        served("a log that nobody reads");
        h_check(h_daemon_stop() >= 0, "a daemon whose log nobody reads does not stop");
        close(fds[0]);
        close(fds[1]);
        printf("the log's pipe held %d bytes\n", n);
}

/* The daemon starts with descriptors 0, 1 and 2 closed: it must not treat later files as its standard streams. */
static void closed_streams(void)
{
        int in = dup(0), out = dup(1);

        fflush(stdout);
        fcntl(in, F_SETFD, FD_CLOEXEC);
        fcntl(out, F_SETFD, FD_CLOEXEC);
        close(0);
        close(1);
        close(2);
        h_daemon_start(build, DEVICE, NULL);
        dup2(in, 0);
        dup2(out, 1);
        dup2(own_stderr, 2);
        close(in);
        close(out);
        served("a daemon without standard streams");
        h_check(h_daemon_stop() >= 0, "a daemon without standard streams does not stop");
}

/* --- start -------------------------------------------------------------------------------------------------------- */

/* Starts a daemon while a call fails; it must exit soon with a status. Returns 1 if it served. */
static int start_once(const char *socket)
{
        char program[300], preload[4096], path[300];
        uint64_t end = h_now_ms() + 30000;
        int status, sent = 0;
        pid_t pid;

        snprintf(program, sizeof(program), "%s/detshared", build);
        snprintf(path, sizeof(path), "%s/faults/faults.so", build);
        if (!realpath(path, preload))
                return -1;
        fflush(stdout);
        pid = fork();
        if (!pid) {
                int fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

                prctl(PR_SET_PDEATHSIG, SIGKILL);
                setenv("LD_PRELOAD", preload, 1);
                setenv("DETSHARE_FAULTS", faults_path, 1);
                dup2(fd, 1);
                dup2(fd, 2);
                execl(program, program, "--device", DEVICE, "--socket", socket, "--foreground", NULL);
                _exit(127);
        }
        while (h_now_ms() < end) {
                if (waitpid(pid, &status, WNOHANG) == pid)
                        return WIFEXITED(status) && WEXITSTATUS(status) <= 1 ? sent : -1;
                /* The supervisor may serve before its worker does; the test can stop the daemon then. */
                if (!sent && !access(socket, F_OK)) {
                        h_sleep_ms(20);
                        kill(pid, SIGTERM);
                        sent = 1;
                }
                h_sleep_ms(2);
        }
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return -1;
}

static void starts(void)
{
        static const struct {
                enum fault_call call;
                int error;
        } some[] = {{FAULT_MALLOC, ENOMEM}, {FAULT_FORK, EAGAIN}, {FAULT_SOCKETPAIR, EMFILE}, {FAULT_OPEN, EMFILE},
                {FAULT_FCNTL, EBADF}, {FAULT_ACCEPT, EMFILE}, {FAULT_EVENTFD, EMFILE}, {FAULT_READ, EINTR}};
        char socket[80];
        int runs = 0, served_ = 0;

        snprintf(socket, sizeof(socket), "%s.sock", faults_path);
        for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++) {
                for (int n = 1; n <= starts_max; n++) {
                        int r, fired;

                        arm("detshared", some[i].call, some[i].error, n, 1);
                        r = start_once(socket);
                        fired = disarm();
                        h_check(r >= 0, "starting with call %d of kind %d failing", n, (int)some[i].call);
                        runs++;
                        served_ += r == 1;
                        unlink(socket);
                        if (!fired)
                                break;
                }
        }
        printf("%d starts with a call that fails, %d of them served\n", runs, served_);
}

static const struct {
        const char *name;
        void (*fn)(void);
        int own_daemon;
} parts[] = {
        {"starts", starts, 0},
        {"no_file_descriptors", no_file_descriptors, 1},
        {"few_file_descriptors", few_file_descriptors, 1},
        {"single_bytes", single_bytes, 1},
        {"signals", signals, 1},
        {"no_file_size", no_file_size, 1},
        {"no_memory", no_memory, 1},
        {"no_processes", no_processes, 1},
        {"clock_jumps", clock_jumps, 1},
        {"log_that_nobody_reads", log_that_nobody_reads, 0},
        {"closed_streams", closed_streams, 0},
        {"sweeps", sweeps, 0},
};

int main(int argc, char **argv)
{
        int n_max = getenv("DETSHARE_SOAK") ? 300 : 2, ran = 0, fd;

        if (argc < 2)
                return 2;
        build = argv[1];
        if (argc > 2)
                n_max = atoi(argv[2]);
        own_stderr = fcntl(2, F_DUPFD_CLOEXEC, 10);
        snprintf(faults_path, sizeof(faults_path), "/tmp/detshare-faults-XXXXXX");
        fd = mkstemp(faults_path);
        if (fd < 0 || ftruncate(fd, sizeof(*faults)) < 0)
                return 1;
        fchmod(fd, 0666);
        faults = mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        snprintf(log_path, sizeof(log_path), "%s.log", faults_path);
        starts_max = 4 * n_max;
        sweep_max = n_max;
        for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
                uint64_t begin = h_now_ms();

                if (argc > 3 && strcmp(argv[3], parts[i].name) != 0)
                        continue;
                ran++;
                if (parts[i].own_daemon)
                        start();
                parts[i].fn();
                if (parts[i].own_daemon)
                        stop();
                printf("%s: %.1f s\n", parts[i].name, (double)(h_now_ms() - begin) / 1000);
        }
        if (!ran)
                h_check(0, "there is no part %s; parts[] in tests/e2e/failures.c lists them", argv[3]);
        unlink(faults_path);
        unlink(log_path);
        return h_finish();
}
