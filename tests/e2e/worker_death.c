/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker dies: no client hangs, idle sessions lose nothing, new work succeeds
 *
 * An idle client has a pattern in device memory, a busy client has a long kernel running. The worker is killed. The
 * busy client gets an error of class CUDA_ERROR_LAUNCH_FAILED within 1 s. The idle one finds every byte at the same
 * address and launches again. A new client works. Both transports.
 *
 * The same if a client's kernel writes to an invalid address. On a GPU this ends the context for all clients, so the
 * worker exits, and a new one must serve within 1 s; a simulated GPU ends only the client's work. In both cases the
 * offender gets CUDA_ERROR_ILLEGAL_ADDRESS, two idle clients lose nothing, and after a reset the offender can work
 * again.
 *
 * usage: worker_death BUILD
 */
#include "tests/e2e/graph.h"
#include "tests/e2e/harness.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"

#define DEVICE "sim:h200"
#define PTXAS "tests/support/fake_cuda/ptxas"
#define WORDS (3u << 20)

static const char *build;

static void *must_kernel(dsc_session *s, const char *name, struct dsc_kernel *kernel)
{
        char path[300], log[2000] = "";
        uint64_t module;
        size_t size;
        char *ptx;

        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        ptx = h_read_file(path, &size);
        if (dsc_module_load(s, ptx, size + 1, log, sizeof(log), &module) != 0 ||
                dsc_kernel_get(s, module, name, kernel) != 0) {
                printf("cannot load %s: %s %s\n", name, dsc_message(), log);
                exit(3);
        }
        free(ptx);
        return kernel;
}

static int launch(dsc_session *s, const struct dsc_kernel *kernel, uint64_t p, uint32_t n, uint32_t value)
{
        struct {
                uint64_t p;
                uint32_t n, value;
        } params = {p, n, value};
        struct dsc_launch l = {.kernel = kernel->id,
                .grid = {(n + 255) / 256, 1, 1},
                .block = {256, 1, 1},
                .params = &params,
                .params_size = sizeof(params)};

        return dsc_launch(s, 0, &l);
}

/* Makes a graph of 30 launches if *graph is 0, otherwise updates it with another value. The result of the last
 * launch remains. */
static int graph(dsc_session *s, const struct dsc_kernel *kernel, uint64_t p, uint32_t value, uint64_t *id)
{
        struct {
                uint64_t p;
                uint32_t n, value;
        } params[30];

        for (uint32_t i = 0; i < 30; i++) {
                params[i].p = p;
                params[i].n = 1024;
                params[i].value = value + i;
        }
        return graph_make(s, kernel, 4, 256, 30, params, sizeof(params[0]), id);
}

/* Launches the graph after changing its last node to another value. */
static int changed(dsc_session *s, const struct dsc_kernel *kernel, uint64_t p, uint32_t value, uint64_t id)
{
        struct {
                struct ds_graph_change change;
                struct ds_record_launch launch;
                uint64_t p;
                uint32_t n, value;
        } c = {{29, sizeof(c)},
                {.head = {DS_RECORD_LAUNCH, 0, sizeof(c) - sizeof(c.change)},
                        .kernel = kernel->id,
                        .grid = {4, 1, 1},
                        .block = {256, 1, 1},
                        .params_size = 16},
                p, 1024, value};

        if (!dsc_graph_changes_max(s)) /* over the socket alone */
                return graph(s, kernel, p, value - 29, &id) || dsc_graph_launch(s, 0, id, NULL);
        return dsc_graph_change_launch(s, 0, id, &c, sizeof(c), NULL);
}

/* Sets a word on the stream, and a word on a new stream, and reads both. 0: the streams work. */
static int streams_work(dsc_session *s, uint32_t stream, uint64_t p)
{
        const struct dsc_memset sets[2] = {{p, 11, 4, 1, 1, 4}, {p + 4, 12, 4, 1, 1, 4}};
        uint32_t other, words[2];
        uint64_t event;
        int r = dsc_stream_create(s, -1, 1, &other);

        if (r || other == stream || dsc_memset(s, stream, &sets[0]) || dsc_memset(s, other, &sets[1]) ||
                dsc_event_create(s, &event) || dsc_event_record(s, other, event, NULL) || dsc_wait_all(s) ||
                dsc_read(s, 0, words, 0, p, 0, 8, 1))
                return 1;
        return dsc_event_destroy(s, event) || dsc_stream_destroy(s, other) || words[0] != 11 || words[1] != 12;
}

/* Child process: writes 'r' when ready, waits for a byte, then verifies its memory. Exit status 0: all checks
 * passed. */
static int idle_client(int in, int out)
{
        int error;
        dsc_session *s = dsc_get(&error);
        uint32_t *host = malloc(WORDS * 4), *back = malloc(WORDS * 4);
        struct dsc_kernel fill;
        uint64_t p, q, id = 0;
        uint32_t stream;
        char c;

        if (!s || !host || !back || dsc_mem_alloc(s, WORDS * 4, &p) || dsc_mem_alloc(s, 4096, &q) ||
                dsc_stream_create(s, 0, 1, &stream) || streams_work(s, stream, q))
                return 10;
        must_kernel(s, "fill", &fill);
        for (uint32_t i = 0; i < WORDS; i++)
                host[i] = i * 2654435761u;
        if (dsc_write(s, 0, p, 0, host, 0, WORDS * 4, 1) || launch(s, &fill, q, 1024, 7) ||
                graph(s, &fill, q, 100, &id) || dsc_graph_launch(s, 0, id, NULL) || changed(s, &fill, q, 300, id) ||
                dsc_wait_all(s))
                return 11;
        if (write(out, "r", 1) != 1 || read(in, &c, 1) != 1)
                return 12;
        if (dsc_read(s, 0, back, 0, p, 0, WORDS * 4, 1))
                return 13;
        if (memcmp(host, back, WORDS * 4))
                return 14;
        if (launch(s, &fill, q, 1024, 9) || dsc_wait_all(s) || dsc_read(s, 0, back, 0, q, 0, 4096, 1))
                return 15;
        for (int i = 0; i < 1024; i++)
                if (back[i] != 9)
                        return 16;
        /* in the new worker the graph exists as before, with its change, and can be changed and updated */
        if (dsc_graph_launch(s, 0, id, NULL) || dsc_read(s, 0, back, 0, q, 0, 4096, 1) || back[77] != 300)
                return 18;
        if (changed(s, &fill, q, 400, id) || dsc_read(s, 0, back, 0, q, 0, 4096, 1) || back[77] != 400)
                return 20;
        if (graph(s, &fill, q, 200, &id) || dsc_graph_launch(s, 0, id, NULL) ||
                dsc_read(s, 0, back, 0, q, 0, 4096, 1) || back[77] != 229)
                return 19;
        if (streams_work(s, stream, q) || dsc_stream_destroy(s, stream))
                return 21;
        if (dsc_graph_destroy(s, id) || dsc_mem_free(s, p) || dsc_mem_free(s, q))
                return 17;
        free(host);
        free(back);
        dsc_kernel_clear(&fill);
        return 0;
}

/* Child process: starts a kernel that would run for minutes, writes 'r', waits for the kernel. */
static int busy_client(int in, int out)
{
        int error, r;
        dsc_session *s = dsc_get(&error);
        struct dsc_kernel spin, fill;
        uint64_t p, begin;

        (void)in;
        if (!s || dsc_mem_alloc(s, 4096, &p))
                return 20;
        must_kernel(s, "spin", &spin);
        must_kernel(s, "fill", &fill);
        if (launch(s, &spin, p, 256, 2000000000u))
                return 21;
        h_sleep_ms(100);
        if (write(out, "r", 1) != 1)
                return 22;
        r = dsc_cuda(dsc_wait_all(s));
        begin = h_now_ms();
        if (r != 719)
                return 23;
        if (write(out, "e", 1) != 1)
                return 24;
        /* the error of lost work is sticky until a reset; then new work succeeds */
        if (dsc_cuda(launch(s, &fill, p, 256, 1)) != 719 && dsc_cuda(dsc_wait_all(s)) != 719)
                return 25;
        if (dsc_reset(s))
                return 26;
        must_kernel(s, "fill", &fill);
        if (dsc_mem_alloc(s, 4096, &p) || launch(s, &fill, p, 256, 3) || dsc_wait_all(s))
                return 27;
        return h_now_ms() - begin < h_patience(10000) ? 0 : 28;
}

/* Child process: a kernel writes to an invalid address. Writes 'e' when it has the error. */
static int faulty_client(int in, int out)
{
        int error, r;
        dsc_session *s = dsc_get(&error);
        struct dsc_kernel bad, fill;
        uint32_t back[256];
        uint64_t p;
        char c;

        if (!s || dsc_mem_alloc(s, 4096, &p))
                return 30;
        must_kernel(s, "bad_address", &bad);
        if (write(out, "r", 1) != 1 || read(in, &c, 1) != 1)
                return 31;
        /* a launch gets the error if the context dies before the launch returns */
        r = launch(s, &bad, p, 1, 0);
        if ((r && dsc_cuda(r) != 700) || dsc_cuda(dsc_wait_all(s)) != 700)
                return 32;
        if (write(out, "e", 1) != 1)
                return 33;
        if (dsc_cuda(launch(s, &bad, p, 1, 0)) != 700 && dsc_cuda(dsc_wait_all(s)) != 700)
                return 34;
        if (dsc_reset(s))
                return 35;
        must_kernel(s, "fill", &fill);
        if (dsc_mem_alloc(s, 4096, &p) || launch(s, &fill, p, 256, 3) || dsc_wait_all(s))
                return 36;
        if (dsc_read(s, 0, back, 0, p, 0, sizeof(back), 1) || back[0] != 3 || back[255] != 3)
                return 37;
        dsc_kernel_clear(&bad);
        dsc_kernel_clear(&fill);
        return 0;
}

static int wait_byte(struct h_child *c, char want)
{
        char got = 0;

        return read(c->from, &got, 1) == 1 && got == want;
}

static int reap(struct h_child *c)
{
        int status;

        waitpid(c->pid, &status, 0);
        close(c->to);
        close(c->from);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

static void round_of(const char *transport, int n)
{
        struct h_child idle = h_spawn(idle_client, transport), busy, fresh;
        struct h_status status = {0}, after = {0};
        uint64_t begin;
        int r;

        h_check(wait_byte(&idle, 'r'), "%s %d: the idle client is ready", transport, n);
        busy = h_spawn(busy_client, transport);
        h_check(wait_byte(&busy, 'r'), "%s %d: the busy client is ready", transport, n);
        h_check(h_status(&status) == 0 && status.worker_pid > 0, "%s %d: status before", transport, n);
        begin = h_now_ms();
        kill((pid_t)status.worker_pid, SIGKILL);
        h_check(wait_byte(&busy, 'e'), "%s %d: the busy client gets its error", transport, n);
        h_check(h_now_ms() - begin <= h_patience(1000), "%s %d: its error came only after %llu ms", transport, n,
                (unsigned long long)(h_now_ms() - begin));
        h_check(h_status(&after) == 0, "%s %d: the daemon answers meanwhile", transport, n);
        h_check(write(idle.to, "g", 1) == 1, "%s %d: go", transport, n);
        r = reap(&idle);
        h_check(r == 0, "%s %d: idle client: step %d", transport, n, r);
        r = reap(&busy);
        h_check(r == 0, "%s %d: busy client: step %d", transport, n, r);
        fresh = h_spawn(idle_client, transport);
        h_check(wait_byte(&fresh, 'r') && write(fresh.to, "g", 1) == 1, "%s %d: fresh client", transport, n);
        r = reap(&fresh);
        h_check(r == 0, "%s %d: new client: step %d", transport, n, r);
        h_check(h_status(&after) == 0 && after.worker_restarts > status.worker_restarts &&
                        after.worker_pid != status.worker_pid,
                "%s %d: the restart is counted", transport, n);
}

/* Milliseconds from begin until the daemon serves with a worker other than pid; -1: not in time */
static int new_worker(uint32_t pid, uint64_t begin)
{
        struct h_status status;

        for (; h_now_ms() < begin + h_patience(10000); h_sleep_ms(1))
                if (h_status(&status) == 0 && !strcmp(status.worker_state, "serving") && status.worker_pid != pid)
                        return (int)(h_now_ms() - begin);
        return -1;
}

static void fault_round(const char *transport, int n)
{
        struct h_child idle[2], faulty;
        struct h_status status = {0}, after = {0};
        uint64_t begin;
        int r;

        for (int i = 0; i < 2; i++) {
                idle[i] = h_spawn(idle_client, transport);
                h_check(wait_byte(&idle[i], 'r'), "fault, %s %d: idle client %d is ready", transport, n, i);
        }
        faulty = h_spawn(faulty_client, transport);
        h_check(wait_byte(&faulty, 'r'), "fault, %s %d: the offender is ready", transport, n);
        h_check(h_status(&status) == 0, "fault, %s %d: status before", transport, n);
        h_check(write(faulty.to, "g", 1) == 1, "fault, %s %d: go", transport, n);
        h_check(wait_byte(&faulty, 'e'), "fault, %s %d: the offender gets its error", transport, n);
        begin = h_now_ms();
        if (!h_simulated(DEVICE)) {
                r = new_worker(status.worker_pid, begin);
                printf("fault, %s %d: another worker serves %d ms after the error\n", transport, n, r);
                h_check(r >= 0 && (uint64_t)r <= h_patience(1000), "fault, %s %d: another worker serves after %d ms",
                        transport, n, r);
        }
        for (int i = 0; i < 2; i++) {
                h_check(write(idle[i].to, "g", 1) == 1, "fault, %s %d: go", transport, n);
                r = reap(&idle[i]);
                h_check(r == 0, "fault, %s %d: idle client %d: step %d", transport, n, i, r);
        }
        r = reap(&faulty);
        h_check(r == 0, "fault, %s %d: the offender: step %d", transport, n, r);
        h_check(h_status(&after) == 0 && after.worker_restarts == status.worker_restarts + !h_simulated(DEVICE),
                "fault, %s %d: restarted %u times", transport, n, after.worker_restarts - status.worker_restarts);
}

static void deaths(const char *const *extra)
{
        struct h_status before;

        h_daemon_start(build, DEVICE, extra);
        before = h_quiet();
        for (int i = 0; i < 3; i++) {
                round_of("ring", i);
                round_of("rpc", i);
        }
        for (int i = 0; i < 3; i++) {
                fault_round("ring", i);
                fault_round("rpc", i);
        }
        h_baseline(&before, 5000, "after worker deaths");
}

/* Finds the paths of the fake driver and its compiler, accessible to the daemon's processes. Returns 0 if there are
 * none. */
static int fake_driver(char *libcuda, char *ptxas, size_t size)
{
        const char *place = getenv("DETSHARE_TEST_PLACE");
        char *here = realpath(PTXAS, NULL);

        snprintf(libcuda, size, "%s/libcuda.so.1", place && *place ? place : "");
        snprintf(ptxas, size, "%s/bin/ptxas", place ? place : "");
        if (!place || !*place) {
                snprintf(libcuda, size, "%s/fake_cuda/libcuda.so.1", build);
                snprintf(ptxas, size, "%s", here ? here : "");
        }
        free(here);
        return *ptxas && access(libcuda, R_OK) == 0;
}

int main(int argc, char **argv)
{
        char libcuda[4096], ptxas[4096];
        const char *extra[] = {"--libcuda", libcuda, "--ptxas", ptxas, NULL};

        if (argc < 2)
                return 2;
        build = argv[1];
        setbuf(stdout, NULL);
        deaths(NULL);
        /* Repeats the test on the cuda device with the fake driver, where a fault loses the context. */
        if (h_simulated(DEVICE) && fake_driver(libcuda, ptxas, sizeof(libcuda))) {
                h_daemon_stop();
                setenv("DETSHARE_TEST_DEVICE", "cuda:0", 1);
                deaths(extra);
        }
        return h_finish();
}
