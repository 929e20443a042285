/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that break the GPU context, and clients that die with a kernel running: the effect on other sessions
 *
 * Two idle sessions, one over the ring and one over the socket, hold patterns in 64 MiB of device memory and in pinned
 * memory. A program writes to a bad address; a second one to a misaligned address; a third one traps. Each time:
 * - the program gets CUDA's error, and a program with a kernel in flight at the same time gets an error too;
 * - the daemon remains the same process;
 * - a program that starts after the error gets its first results within 1 s. The driver's own time until it reports a
 *   fault is printed: 0.1 s for an address, 3 s for a trap;
 * - the idle sessions find every byte at the same addresses and launch kernels on them.
 * Then the test kills a client with a kernel of some seconds, which the daemon lets end, and one with an endless
 * kernel, for which the daemon restarts the worker. The idle sessions survive all of it.
 *
 * usage: faults BUILD [MS]        MS: duration of the kernel of some seconds (default 5000)
 */
#include "tests/e2e/harness.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"

#define DEVICE "cuda:0"
#define WORDS (16u << 20) /* 64 MiB of words */
#define PINNED_WORDS (1u << 18)
#define WORK_WORDS (1u << 16)
#define SERVED_MS 1000 /* limit from the error to a new program's first results */
/* seconds that the daemon lets an orphan's kernel run: longer than the kernel that it lets end */
#define ORPHAN_S 8
#define ORPHAN_SLACK_MS 5000
#define CHILD_MS 60000 /* time limit of each step of a child */

static const char *build;

/* --- the children ----------------- */

struct client {
        dsc_session *session;
        uint64_t module, memory;
        struct dsc_kernel kernel;
};

static int load(struct client *c, const char *kernel)
{
        char path[300], log[2000] = "";
        size_t size;
        char *ptx;
        int r;

        snprintf(path, sizeof(path), "%s/gpu/faults.ptx", build);
        ptx = h_read_file(path, &size);
        r = dsc_module_load(c->session, ptx, size + 1, log, sizeof(log), &c->module);
        free(ptx);
        if (!r)
                r = dsc_kernel_get(c->session, c->module, kernel, &c->kernel);
        if (r)
                printf("cannot load %s: %d %s %s\n", kernel, r, dsc_message(), log);
        return r;
}

static int client_open(struct client *c, const char *kernel)
{
        int r;

        c->session = dsc_get(&r);
        if (!c->session)
                return r ? r : -1;
        r = dsc_mem_alloc(c->session, WORK_WORDS * 4, &c->memory);
        return r ? r : load(c, kernel);
}

static int launch(const struct client *c, uint32_t blocks, uint64_t p, uint32_t n, uint32_t value)
{
        struct {
                uint64_t p;
                uint32_t n, value;
        } params = {p, n, value};
        struct dsc_launch l = {.kernel = c->kernel.id,
                .grid = {blocks, 1, 1},
                .block = {128, 1, 1},
                .params = &params,
                .params_size = sizeof(params)};

        return dsc_launch(c->session, 0, &l);
}

/* Computes on the CPU the result of mix for n words. */
static void host_mix(uint32_t *p, uint32_t n, uint32_t value)
{
        for (uint32_t i = 0; i < n; i++)
                p[i] = p[i] * 3 + value + i;
}

/* Makes a client usable again after an error. Returns 0, or prints the failed step and returns its number. */
static int start_anew(struct client *c)
{
        int r = dsc_reset(c->session);

        if (r)
                printf("reset: %d %s\n", r, dsc_message());
        else if ((r = client_open(c, "mix")) != 0)
                printf("after the reset: %d %s, sticky %d\n", r, dsc_message(), dsc_sticky_error(c->session));
        return r;
}

/* Zeroes, mixes and reads the memory. Returns 0 when every word is right. */
static int work(const struct client *c, uint32_t value)
{
        static uint32_t want[WORK_WORDS], got[WORK_WORDS];
        struct dsc_memset zero = {.dst = c->memory, .element_size = 4, .width = WORK_WORDS, .height = 1};
        int r = dsc_memset(c->session, 0, &zero);

        memset(want, 0, sizeof(want));
        for (uint32_t i = 0; !r && i < 3; i++) {
                r = launch(c, 32, c->memory, WORK_WORDS, value + i);
                host_mix(want, WORK_WORDS, value + i);
        }
        if (!r)
                r = dsc_read(c->session, 0, got, 0, c->memory, 0, sizeof(got), 1);
        if (r) {
                printf("work: %d %s\n", r, dsc_message());
                return r;
        }
        return memcmp(want, got, sizeof(got)) ? -2 : 0;
}

struct idle {
        struct client c;
        uint64_t memory;
        uint32_t *host, *back, *pinned, *pinned_want;
        int mapped; /* 1: kernels can access the pinned memory */
        uint32_t rounds;
};

static int idle_open(struct idle *idle)
{
        uint64_t base, size;
        void *pinned;

        idle->host = malloc(WORDS * 4);
        idle->back = malloc(WORDS * 4);
        idle->pinned_want = malloc(PINNED_WORDS * 4);
        if (!idle->host || !idle->back || !idle->pinned_want || client_open(&idle->c, "mix"))
                return 10;
        if (dsc_mem_alloc(idle->c.session, WORDS * 4, &idle->memory) ||
                dsc_host_alloc(idle->c.session, PINNED_WORDS * 4, &pinned))
                return 11;
        idle->pinned = pinned;
        idle->mapped = dsc_lookup(idle->c.session, (uintptr_t)pinned, &base, &size) == 2;
        for (uint32_t i = 0; i < WORDS; i++)
                idle->host[i] = i * 2654435761u + (uint32_t)getpid();
        for (uint32_t i = 0; i < PINNED_WORDS; i++)
                idle->pinned[i] = idle->pinned_want[i] = i * 40503u + 77;
        if (dsc_write(idle->c.session, 0, idle->memory, 0, idle->host, 0, WORDS * 4, 1) || work(&idle->c, 1))
                return 12;
        return 0;
}

/* Verifies every byte of an idle session's memory, then runs kernels on some of them. */
static int idle_verify(struct idle *idle)
{
        uint32_t value = ++idle->rounds * 1000;
        int r;

        if (memcmp(idle->pinned, idle->pinned_want, PINNED_WORDS * 4))
                return 20;
        if ((r = dsc_read(idle->c.session, 0, idle->back, 0, idle->memory, 0, WORDS * 4, 1))) {
                printf("read: %d %s\n", r, dsc_message());
                return 21;
        }
        if (memcmp(idle->host, idle->back, WORDS * 4))
                return 22;
        if (work(&idle->c, value))
                return 23;
        if (launch(&idle->c, 64, idle->memory, WORDS / 4, value))
                return 24;
        host_mix(idle->host, WORDS / 4, value);
        if (idle->mapped) {
                if (launch(&idle->c, 8, (uintptr_t)idle->pinned, PINNED_WORDS / 2, value))
                        return 25;
                host_mix(idle->pinned_want, PINNED_WORDS / 2, value);
        }
        return dsc_wait_all(idle->c.session) ? 26 : 0;
}

/* Child of an idle session: writes 'r' when ready; answers each 'v' with the number of the failed step, 0 for none;
 * 'q' ends it. */
static int idle_child(int in, int out)
{
        struct idle idle = {.rounds = 0};
        uint8_t answer = (uint8_t)idle_open(&idle);
        char command;

        if (answer || write(out, "r", 1) != 1)
                return answer;
        while (read(in, &command, 1) == 1 && command == 'v') {
                answer = (uint8_t)idle_verify(&idle);
                fflush(stdout);
                if (write(out, &answer, 1) != 1)
                        return 30;
        }
        return dsc_mem_free(idle.c.session, idle.memory) || dsc_host_free(idle.c.session, idle.pinned) ? 31 : 0;
}

static const char *offence;

/* Child that breaks the context: writes 'r' when ready; on 'g' it commits the fault and writes two bytes, its error.
 * After a reset it works like any other client. */
static int offender_child(int in, int out)
{
        struct client c;
        uint8_t answer[2];
        char go;
        int r;

        if (client_open(&c, offence) || write(out, "r", 1) != 1 || read(in, &go, 1) != 1)
                return 10;
        r = launch(&c, 1, c.memory, 1, 0);
        if (!r)
                r = dsc_wait_all(c.session);
        r = dsc_cuda(r);
        answer[0] = (uint8_t)r;
        answer[1] = (uint8_t)(r >> 8);
        if (write(out, answer, 2) != 2)
                return 11;
        if (dsc_cuda(launch(&c, 1, c.memory, 1, 0)) != r || dsc_sticky_error(c.session) != r)
                return 12;
        if (start_anew(&c))
                return 13;
        return work(&c, 5) ? 14 : 0;
}

/* Child with a kernel in flight when the context breaks: it soon gets an error, and after a reset it works again. */
static int beside_child(int in, int out)
{
        struct client c;
        uint8_t answer[2];
        int r;

        (void)in;
        if (client_open(&c, "endless") || launch(&c, 1, c.memory, 1, 0) || write(out, "r", 1) != 1)
                return 10;
        r = dsc_cuda(dsc_wait_all(c.session));
        answer[0] = (uint8_t)r;
        answer[1] = (uint8_t)(r >> 8);
        if (write(out, answer, 2) != 2)
                return 11;
        if (start_anew(&c))
                return 12;
        return work(&c, 6) ? 13 : 0;
}

/* Child that starts after the error: writes 'r' before it connects; on 'g' it connects; 'd' after its first right
 * results. Prints the times of its steps. */
static int fresh_child(int in, int out)
{
        uint64_t begin, session, memory, module;
        struct client c;
        char go;
        int r;

        if (write(out, "r", 1) != 1 || read(in, &go, 1) != 1)
                return 10;
        begin = h_now_ms();
        c.session = dsc_get(&r);
        session = h_now_ms();
        if (!c.session || dsc_mem_alloc(c.session, WORK_WORDS * 4, &c.memory))
                return 11;
        memory = h_now_ms();
        if (load(&c, "mix"))
                return 11;
        module = h_now_ms();
        if (work(&c, 9))
                return 12;
        printf("of this time: session %llu ms, memory %llu, module %llu, first results %llu ms\n",
                (unsigned long long)(session - begin), (unsigned long long)(memory - session),
                (unsigned long long)(module - memory), (unsigned long long)(h_now_ms() - module));
        return write(out, "d", 1) == 1 ? 0 : 13;
}

static uint32_t spin_ms = 5000;

/* Child that launches a long kernel and writes 'r'; then the parent kills it. */
static int doomed_child(int in, int out)
{
        struct client c;

        (void)in;
        if (client_open(&c, offence) || launch(&c, 1, c.memory, 1, spin_ms))
                return 10;
        h_sleep_ms(200); /* by now the worker has taken the launch out of the ring */
        if (write(out, "r", 1) != 1)
                return 11;
        return dsc_wait_all(c.session);
}

/* --- the test --------------------- */

struct child {
        pid_t pid;
        int to, from;
};

static struct child spawn(int (*run)(int, int), const char *transport)
{
        int a[2], b[2];
        struct child c;

        fflush(stdout);
        if (pipe2(a, O_CLOEXEC) || pipe2(b, O_CLOEXEC) || (c.pid = fork()) < 0)
                exit(1);
        if (c.pid == 0) {
                int status;

                close(a[1]);
                close(b[0]);
                setenv("DETSHARE_TRANSPORT", transport, 1);
                status = run(a[0], b[1]);
                fflush(stdout);
                _exit(status);
        }
        close(a[0]);
        close(b[1]);
        c.to = a[1];
        c.from = b[0];
        return c;
}

/* Reads n bytes within ms. Returns 1 when they arrived. */
static int hear(const struct child *c, void *bytes, size_t n, int ms)
{
        uint64_t end = h_now_ms() + (uint64_t)ms;

        for (size_t got = 0; got < n;) {
                struct pollfd p = {.fd = c->from, .events = POLLIN};
                uint64_t now = h_now_ms();
                ssize_t r;

                if (now >= end || poll(&p, 1, (int)(end - now)) <= 0)
                        return 0;
                r = read(c->from, (char *)bytes + got, n - got);
                if (r <= 0)
                        return 0;
                got += (size_t)r;
        }
        return 1;
}

static int hear_byte(const struct child *c, char want, int ms)
{
        char got = 0;

        return hear(c, &got, 1, ms) && got == want;
}

static int hear_error(const struct child *c, int ms)
{
        uint8_t bytes[2];

        return hear(c, bytes, 2, ms) ? bytes[0] | bytes[1] << 8 : -1;
}

static int say(const struct child *c, char byte)
{
        return write(c->to, &byte, 1) == 1;
}

/* Waits for the child's end and returns its exit status; kills a child that does not end. */
static int reap(struct child *c)
{
        uint64_t end = h_now_ms() + CHILD_MS;
        int status = 0;

        close(c->to);
        while (waitpid(c->pid, &status, WNOHANG) == 0) {
                if (h_now_ms() > end) {
                        kill(c->pid, SIGKILL);
                        waitpid(c->pid, &status, 0);
                        break;
                }
                h_sleep_ms(5);
        }
        close(c->from);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

static void reap_good(struct child *c, const char *when, const char *who)
{
        int step = reap(c);

        h_check(step == 0, "%s: %s: step %d", when, who, step);
}

static void verify(const struct child idle[2], const char *when)
{
        for (int i = 0; i < 2; i++) {
                uint8_t step = 99;
                uint64_t begin = h_now_ms();

                h_check(say(&idle[i], 'v') && hear(&idle[i], &step, 1, CHILD_MS) && step == 0,
                        "%s: the idle session over the %s: step %u", when, i ? "socket" : "ring", step);
                printf("%s: idle session over the %s verified in %llu ms\n", when, i ? "socket" : "ring",
                        (unsigned long long)(h_now_ms() - begin));
        }
}

static void fault(const char *kernel, int error, int other, const char *transport, const struct child idle[2])
{
        struct h_status before = {0}, after = {0};
        struct child offender, beside = spawn(beside_child, "ring"), fresh = spawn(fresh_child, transport);
        uint64_t begin, seen, served;
        pid_t daemon = h_daemon_pid();
        int r;

        offence = kernel;
        offender = spawn(offender_child, transport);
        h_check(hear_byte(&beside, 'r', CHILD_MS) && hear_byte(&fresh, 'r', CHILD_MS) &&
                        hear_byte(&offender, 'r', CHILD_MS),
                "%s: a program did not become ready", kernel);
        h_check(h_status(&before) == 0, "%s: status before", kernel);
        begin = h_now_ms();
        say(&offender, 'g');
        r = hear_error(&offender, CHILD_MS);
        seen = h_now_ms();
        /* another driver reports faults sooner than NVIDIA's, possibly before the offender is known */
        h_check(r == error || r == other || (r == 719 && getenv("DETSHARE_LIBCUDA")), "%s: the offender got %d, not %d",
                kernel, r, error);
        say(&fresh, 'g');
        h_check(hear_byte(&fresh, 'd', CHILD_MS), "%s: a program after the fault did not work", kernel);
        served = h_now_ms();
        printf("%s: error %d after %llu ms; a new program's first results %llu ms later\n", kernel, r,
                (unsigned long long)(seen - begin), (unsigned long long)(served - seen));
        h_check(served - seen <= SERVED_MS, "%s: served %llu ms after the error only", kernel,
                (unsigned long long)(served - seen));
        r = hear_error(&beside, CHILD_MS);
        h_check(r > 0, "%s: the program with a kernel in flight got %d", kernel, r);
        printf("%s: the program with a kernel in flight beside it got %d\n", kernel, r);
        verify(idle, kernel);
        reap_good(&offender, kernel, "offender");
        reap_good(&beside, kernel, "beside");
        reap_good(&fresh, kernel, "fresh");
        h_check(kill(daemon, 0) == 0 && h_status(&after) == 0 && h_daemon_pid() == daemon, "%s: the daemon", kernel);
        h_check(after.worker_restarts == before.worker_restarts + 1 && after.worker_pid != before.worker_pid,
                "%s: the worker was restarted %u times", kernel, after.worker_restarts - before.worker_restarts);
}

/* Waits until the worker was restarted. Returns the milliseconds that took, or -1. */
static int64_t wait_restart(uint32_t restarts, uint64_t ms)
{
        uint64_t begin = h_now_ms();
        struct h_status now;

        while (h_now_ms() < begin + ms) {
                if (h_status(&now) == 0 && now.worker_restarts > restarts && !strcmp(now.worker_state, "serving"))
                        return (int64_t)(h_now_ms() - begin);
                h_sleep_ms(20);
        }
        return -1;
}

static void killed(const char *kernel, const struct child idle[2])
{
        struct h_status before = h_quiet(), after = {0};
        struct child child, fresh;

        offence = kernel;
        child = spawn(doomed_child, "ring");
        h_check(hear_byte(&child, 'r', CHILD_MS), "killed in %s: the client did not become ready", kernel);
        kill(child.pid, SIGKILL);
        reap(&child);
        if (!strcmp(kernel, "endless")) {
                int64_t ms = wait_restart(before.worker_restarts, ORPHAN_S * 1000 + ORPHAN_SLACK_MS);

                h_check(ms >= 0, "killed in %s: the worker was not restarted", kernel);
                printf("killed in %s: the worker was restarted after %lld ms\n", kernel, (long long)ms);
        } else {
                fresh = spawn(fresh_child, "ring");
                h_check(hear_byte(&fresh, 'r', CHILD_MS) && say(&fresh, 'g') && hear_byte(&fresh, 'd', CHILD_MS),
                        "killed in %s: another client is not served during the kernel", kernel);
                reap_good(&fresh, kernel, "fresh");
        }
        h_baseline(&before, (int)spin_ms * 2 + 5000, kernel);
        h_check(h_status(&after) == 0 &&
                        (after.worker_restarts != before.worker_restarts) == !strcmp(kernel, "endless"),
                "killed in %s: the worker was restarted %u times", kernel,
                after.worker_restarts - before.worker_restarts);
        verify(idle, kernel);
}

static void start(void)
{
        static char path[] = "/tmp/detshare-faults-XXXXXX";
        const char *extra[] = {"--config", path, NULL};
        char text[64];
        int fd = mkstemp(path), n = snprintf(text, sizeof(text), "[limits]\norphan_seconds=%d\n", ORPHAN_S);

        if (fd < 0 || write(fd, text, (size_t)n) != n)
                exit(1);
        close(fd);
        h_daemon_start(build, DEVICE, extra);
        unlink(path);
}

int main(int argc, char **argv)
{
        struct h_status before;
        struct child idle[2];

        if (argc < 2)
                return 2;
        build = argv[1];
        if (argc > 2)
                spin_ms = (uint32_t)strtoul(argv[2], NULL, 10);
        start();
        before = h_quiet();
        idle[0] = spawn(idle_child, "ring");
        idle[1] = spawn(idle_child, "rpc");
        for (int i = 0; i < 2; i++)
                h_check(hear_byte(&idle[i], 'r', CHILD_MS), "idle session %d did not become ready", i);
        verify(idle, "at first");
        fault("wild", 700, 700, "ring", idle);
        fault("misaligned", 716, 700, "rpc", idle);
        fault("trap", 719, 715, "ring", idle);
        killed("spin", idle);
        killed("endless", idle);
        for (int i = 0; i < 2; i++) {
                say(&idle[i], 'q');
                reap_good(&idle[i], "at the end", i ? "socket" : "ring");
        }
        h_baseline(&before, 5000, "at the end");
        return h_finish();
}
