/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client whose kernel does not end: it blocks no other client, gets an error, and leaves nothing behind
 *
 * The kernel keeps an execution thread of the simulated device busy for a minute of real time; the device's clock must
 * not wait for it. Beside it another client launches, synchronises and sleeps on the device's clock. The test repeats
 * this with enough such kernels to occupy all threads. Their session gets CUDA's error for a launch timeout. A client
 * killed while its kernel executes leaves nothing behind.
 *
 * On sim:MODEL+quiesce code is loaded only while nothing runs. There a new client waits until the daemon aborts the
 * kernel on its behalf, after the configured time. Clients that are connected already continue meanwhile.
 *
 * usage: endless_kernel BUILD [long]
 *
 * "long", or DETSHARE_TEST_WHOLE: also the abort by the device's clock of kernels that occupy all threads, and a single
 * endless kernel, which takes a processor for a minute. tests/unit/test_sim_long.c tests the rule, and `make soak` runs
 * this.
 */
#include "tests/e2e/harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"
#include "detshare/detshare.h"

#define ENDLESS 2000000000u
#define LAUNCH_TIMEOUT 702
/* bound of the other client's requests on a busy machine, ms; the kernels run longer, or the time is not checked */
#define SERVED_MS 60000
#define GIVEN_UP_MS 240000
#define STREAMS 7 /* number of endless kernels: more than the device has threads */

static const char *build;

static int fail(const char *what, int r)
{
        printf("FAIL %s: %d %s\n", what, r, dsc_message());
        fflush(stdout);
        return 1;
}

struct client {
        dsc_session *session;
        struct dsc_kernel kernel;
        uint64_t memory;
};

static int client_open(struct client *client, const char *kernel)
{
        char path[300];
        uint64_t module;
        size_t size;
        char *ptx;
        int r;

        client->session = dsc_get(&r);
        if (!client->session)
                return r;
        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        ptx = h_read_file(path, &size);
        r = dsc_module_load(client->session, ptx, size + 1, NULL, 0, &module);
        free(ptx);
        if (!r)
                r = dsc_kernel_get(client->session, module, kernel, &client->kernel);
        return r ? r : dsc_mem_alloc(client->session, 4096, &client->memory);
}

static int client_launch(const struct client *client, uint32_t stream, uint64_t offset, uint32_t value)
{
        struct {
                uint64_t p;
                uint32_t n, value;
        } params = {client->memory + offset, 32, value};
        struct dsc_launch launch = {.kernel = client->kernel.id,
                .grid = {1, 1, 1},
                .block = {32, 1, 1},
                .params = &params,
                .params_size = sizeof(params)};

        return dsc_launch(client->session, stream, &launch);
}

/* Starts endless kernels in this many streams and reports when they run. Returns 0 if they end with 702. */
static int hostile_child(uint32_t streams, int ready)
{
        struct client client;
        uint32_t stream;
        int r = client_open(&client, "spin");

        for (uint32_t i = 0; !r && i < streams; i++) {
                r = dsc_stream_create(client.session, 0, 1, &stream);
                if (!r)
                        r = client_launch(&client, stream, 256 * i, ENDLESS);
        }
        if (r || dsc_query(client.session, stream, dsc_stream_tail(client.session, stream)) != 600)
                return fail("an endless kernel", r);
        /* by then the endless kernels have left the ring and execute */
        h_sleep_ms(300);
        if (write(ready, "r", 1) != 1)
                return 1;
        r = dsc_wait_all(client.session);
        if (r != LAUNCH_TIMEOUT || dsc_sticky_error(client.session) != LAUNCH_TIMEOUT)
                return fail("it ends with 702", r);
        return 0;
}

static pid_t hostile_start(uint32_t streams)
{
        int pipes[2];
        pid_t pid;
        char c;

        if (pipe(pipes))
                return -1;
        fflush(stdout);
        pid = fork();
        if (pid == 0)
                _exit(hostile_child(streams, pipes[1]));
        close(pipes[1]);
        h_check(read(pipes[0], &c, 1) == 1, "an endless kernel is under way");
        close(pipes[0]);
        return pid;
}

/* A client that repeats launch, synchronise and compare; finally it sleeps on the device's clock. */
static int served_child(void)
{
        uint32_t values[32];
        struct client client;
        uint64_t now;
        int r = client_open(&client, "fill");

        for (uint32_t i = 1; !r && i <= 20; i++) {
                r = client_launch(&client, 0, 0, i);
                if (!r)
                        r = dsc_wait(client.session, 0, dsc_stream_tail(client.session, 0));
                if (!r)
                        r = dsc_read(client.session, 0, values, 0, client.memory, 0, sizeof(values), 1);
                if (!r && (values[0] != i || values[31] != i))
                        return fail("the result", (int)values[0]);
        }
        if (r)
                return fail("a launch beside it", r);
        if (detshare_now(&now) || detshare_sleep_until(now + 5000000))
                return fail("a sleep on the device's clock", 0);
        return 0;
}

/* Returns 1 if the child ends within ms with status 0. The child is gone afterwards. */
static int child_returns(pid_t pid, uint64_t ms)
{
        uint64_t end = h_now_ms() + ms;
        int status;

        while (h_now_ms() < end) {
                if (waitpid(pid, &status, WNOHANG) == pid)
                        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
                h_sleep_ms(5);
        }
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        return 0;
}

static void expect_served(const char *transport, uint64_t ms, const char *what)
{
        uint64_t begin = h_now_ms();
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                setenv("DETSHARE_TRANSPORT", transport, 1);
                _exit(served_child());
        }
        h_check(child_returns(pid, ms), "%s: a client over the %s was not served within %llu ms", what, transport,
                (unsigned long long)ms);
        printf("%s: served over the %s in %llu ms\n", what, transport, (unsigned long long)(h_now_ms() - begin));
}

static int still_there(pid_t pid)
{
        return waitpid(pid, NULL, WNOHANG) == 0;
}

/* On a device that code loads stop: the daemon aborts the kernels. The configured bound is 2 s, and the daemon gives
 * aborted work the same time again. */
static void given_up_where_all_stops(int all)
{
        const char *extra[] = {"--config", NULL, NULL};
        struct h_status before, after;
        char config[] = "/tmp/detshare-endless-XXXXXX";
        int fd = mkstemp(config);
        uint64_t begin;
        pid_t pid;

        h_check(fd >= 0 && dprintf(fd, "[limits]\nquiesce_seconds = 2\n") > 0, "a configuration");
        close(fd);
        extra[1] = config;
        h_daemon_start(build, "sim:h200+quiesce", extra);
        before = h_quiet();

        pid = hostile_start(1);
        begin = h_now_ms();
        expect_served("ring", SERVED_MS, "after an endless kernel");
        h_check(h_now_ms() - begin >= 1500, "the kernel ran for the configured time");
        h_check(child_returns(pid, SERVED_MS), "an endless kernel ends with 702");
        h_baseline(&before, 5000, "after 702");

        if (all) {
                pid = hostile_start(STREAMS);
                expect_served("rpc", SERVED_MS, "after more than there are threads");
                h_check(child_returns(pid, SERVED_MS), "endless kernels end with 702");
                h_baseline(&before, 5000, "after 702 of many");
        }

        pid = hostile_start(1);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        h_baseline(&before, 1000, "killed while its kernel was executed");
        h_check(h_status(&after) == 0 && after.worker_restarts == before.worker_restarts, "the worker did not restart");
        unlink(config);
}

static void one_is_given_up(const struct h_status *before)
{
        uint64_t begin = h_now_ms();
        pid_t pid = hostile_start(1);

        expect_served("ring", SERVED_MS, "beside another");
        h_check(child_returns(pid, GIVEN_UP_MS), "an endless kernel ends with 702");
        printf("one kernel: given up after %llu ms\n", (unsigned long long)(h_now_ms() - begin));
        h_baseline(before, 5000, "after 702");
}

static void many_are_given_up(const struct h_status *before)
{
        uint64_t begin = h_now_ms();
        pid_t pid = hostile_start(STREAMS);

        expect_served("ring", GIVEN_UP_MS, "beside more than there are threads");
        h_check(child_returns(pid, GIVEN_UP_MS), "endless kernels end with 702");
        printf("%d kernels: given up after %llu ms\n", STREAMS, (unsigned long long)(h_now_ms() - begin));
        h_baseline(before, 5000, "after 702 of many");
}

int main(int argc, char **argv)
{
        struct h_status before, after;
        pid_t pid;
        int stops, whole;

        if (argc < 2)
                return 2;
        build = argv[1];
        whole = argc > 2 || getenv("DETSHARE_TEST_WHOLE");
        if (!h_needs_sim("sim:h200", "a GPU cannot end one kernel alone: tests/gpu/faults has what happens there"))
                return h_finish();
        stops = getenv("DETSHARE_TEST_DEVICE") && strstr(getenv("DETSHARE_TEST_DEVICE"), "+quiesce");
        if (stops) {
                given_up_where_all_stops(1);
                return h_finish();
        }
        h_daemon_start(build, "sim:h200", NULL);
        before = h_quiet();

        pid = hostile_start(1);
        expect_served("ring", SERVED_MS, "beside an endless kernel");
        expect_served("rpc", SERVED_MS, "beside an endless kernel");
        h_check(still_there(pid), "the endless kernel was still being executed");
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        h_baseline(&before, 1000, "killed while its kernel was executed");

        if (whole) {
                one_is_given_up(&before);
                many_are_given_up(&before);
        }
        h_check(h_status(&after) == 0 && after.worker_restarts == before.worker_restarts, "the worker did not restart");
        if (!whole && !getenv("DETSHARE_TEST_DEVICE")) {
                h_check(h_daemon_stop() >= 0, "the daemon ends");
                given_up_where_all_stops(0);
        }
        return h_finish();
}
