/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client core against a daemon: copies of every kind, threads, the device's clock, a killed daemon
 *
 * Each part is a child process, since a process has one session, and runs over both transports.
 *
 * usage: core BUILD
 */
#include "tests/e2e/harness.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"
#include "detshare/detshare.h"

#define DEVICE "sim:h200"
#define THREADS 60

static const char *build;
static unsigned failures;

/* Checks in a child process, which reports failures by its exit status. */
static int expect(int ok, const char *what)
{
        if (!ok) {
                failures++;
                printf("FAIL (%s) %s: %s\n", getenv("DETSHARE_TRANSPORT") ? "rpc" : "ring", what, dsc_message());
                fflush(stdout);
        }
        return ok;
}

static dsc_session *session(void)
{
        int error;
        dsc_session *s = dsc_get(&error);
        if (!expect(s != NULL, "a session"))
                exit(1);
        return s;
}

static struct dsc_kernel kernel(dsc_session *s, const char *name)
{
        char path[300], log[2000] = "";
        struct dsc_kernel k = {.id = 0};
        uint64_t module;
        size_t size;
        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        char *ptx = h_read_file(path, &size);
        expect(dsc_module_load(s, ptx, size + 1, log, sizeof(log), &module) == 0, "a module");
        expect(dsc_kernel_get(s, module, name, &k) == 0, "a kernel");
        free(ptx);
        return k;
}

static int launch(dsc_session *s, uint32_t stream, const struct dsc_kernel *k, uint64_t p, uint32_t n, uint32_t value)
{
        struct {
                uint64_t p;
                uint32_t n, value;
        } params = {p, n, value};
        struct dsc_launch l = {.kernel = k->id,
                .grid = {1, 1, 1},
                .block = {32, 1, 1},
                .params = &params,
                .params_size = sizeof(params)};
        return dsc_launch(s, stream, &l);
}

/* --- copies --- */

static void fill(uint8_t *bytes, size_t n, unsigned seed)
{
        for (size_t i = 0; i < n; i++)
                bytes[i] = (uint8_t)(i * 13 + i / 509 + seed);
}

static void round_trip(dsc_session *s, uint64_t device, size_t n)
{
        uint8_t *from = malloc(n), *to = calloc(1, n);
        fill(from, n, (unsigned)n);
        expect(dsc_write(s, 0, device, 0, from, 0, n, 1) == 0, "a write");
        expect(dsc_read(s, 0, to, 0, device, 0, n, 1) == 0, "a read");
        expect(!memcmp(from, to, n), "the bytes read are the bytes written");
        free(from);
        free(to);
}

static void rectangles(dsc_session *s, uint64_t device)
{
        uint8_t from[64 * 50], to[64 * 50] = {0};
        const struct dsc_memset set = {
                .dst = device, .value = 0x11223344, .element_size = 4, .width = 256, .height = 1};
        const struct dsc_copy copy = {.kind = DSC_DTOD,
                .dst = device + 100000,
                .src = device,
                .width = 40,
                .height = 50,
                .dst_pitch = 64,
                .src_pitch = 128};
        uint32_t words[256];
        fill(from, sizeof(from), 3);
        expect(dsc_write(s, 0, device, 128, from, 64, 40, 50) == 0, "a pitched write");
        expect(dsc_copy(s, 0, &copy) == 0, "a copy on the device");
        expect(dsc_read(s, 0, to, 64, device + 100000, 64, 40, 50) == 0, "a pitched read");
        for (int y = 0; y < 50; y++)
                expect(!memcmp(from + 64 * y, to + 64 * y, 40), "the rows arrive");
        expect(dsc_memset(s, 0, &set) == 0 && dsc_read(s, 0, words, 0, device, 0, sizeof(words), 1) == 0, "a memset");
        expect(words[0] == 0x11223344 && words[255] == 0x11223344, "the memset's words");
}

static void pinned(dsc_session *s, uint64_t device)
{
        uint8_t *p, byte = 0;
        uint64_t base, size;
        if (!expect(dsc_host_alloc(s, 1 << 20, (void **)&p) == 0, "pinned memory"))
                return;
        if (dsc_lookup(s, (uintptr_t)p, &base, &size) == 2) {
                const struct dsc_copy in = {
                        .kind = DSC_HTOD, .dst = device, .src = (uintptr_t)p, .width = 1 << 20, .height = 1};
                const struct dsc_copy out = {
                        .kind = DSC_DTOH, .dst = (uintptr_t)p, .src = device, .width = 1 << 20, .height = 1};
                fill(p, 1 << 20, 9);
                expect(dsc_copy(s, 0, &in) == 0 && dsc_wait_all(s) == 0, "pinned to device");
                memset(p, 0, 1 << 20);
                expect(dsc_copy(s, 0, &out) == 0 && dsc_wait_all(s) == 0, "device to pinned");
                fill(&byte, 1, 9);
                expect(p[0] == byte, "pinned bytes");
        }
        expect(dsc_host_free(s, p) == 0, "pinned memory is freed");
}

static void copies(void)
{
        dsc_session *s = session();
        uint64_t device;
        const size_t sizes[] = {1, 4096, 61441, 1 << 20, (5 << 20) + 17};
        expect(dsc_mem_alloc(s, 8 << 20, &device) == 0, "memory");
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                round_trip(s, device, sizes[i]);
        rectangles(s, device);
        pinned(s, device);
        expect(dsc_write(s, 0, device + (512ull << 20), 0, sizes, 0, 8, 1) != 0 || dsc_wait_all(s) != 0,
                "a write outside of all memory fails");
        expect(dsc_reset(s) == 0 && dsc_sticky_error(s) == 0, "a reset");
        expect(dsc_mem_alloc(s, 4096, &device) == 0, "memory after the reset");
        round_trip(s, device, 4096);
}

/* --- threads --- */

static _Atomic unsigned thread_failures;
static struct dsc_kernel fill_kernel;

static void *worker_thread(void *arg)
{
        dsc_session *s = arg;
        uint32_t stream, words[64];
        uint64_t p;
        if (dsc_mem_alloc(s, sizeof(words), &p) || dsc_stream_create(s, 0, 1, &stream)) {
                thread_failures++;
                return NULL;
        }
        for (uint32_t i = 0; i < 20; i++) {
                int r = launch(s, stream, &fill_kernel, p, 32, i);
                if (!r && i % 2)
                        r = dsc_wait(s, stream, dsc_stream_tail(s, stream));
                if (!r)
                        r = dsc_read(s, stream, words, 0, p, 0, 128, 1);
                thread_failures += r != 0 || words[0] != i || words[31] != i;
        }
        thread_failures += dsc_stream_destroy(s, stream) || dsc_mem_free(s, p);
        return NULL;
}

static void threads(void)
{
        pthread_t ids[THREADS];
        dsc_session *s = session();
        fill_kernel = kernel(s, "fill");
        for (int i = 0; i < THREADS; i++)
                pthread_create(&ids[i], NULL, worker_thread, s);
        for (int i = 0; i < THREADS; i++)
                pthread_join(ids[i], NULL);
        expect(thread_failures == 0, "sixty threads, each with a stream of its own");
}

/* --- the clock --- */

static void *sleeper_thread(void *arg)
{
        uint64_t now, start = *(uint64_t *)arg;
        for (uint64_t i = 1; i <= 20; i++) {
                thread_failures += detshare_sleep_until(start + i * 1000000) != 0;
                thread_failures += detshare_now(&now) != 0 || now < start + i * 1000000;
        }
        return NULL;
}

static uint64_t timed(dsc_session *s, const struct dsc_kernel *spin, uint64_t p, uint32_t rounds, int poll)
{
        uint64_t before, after;
        expect(detshare_now(&before) == 0, "the time");
        expect(launch(s, 0, spin, p, 32, rounds) == 0, "a launch");
        const uint64_t seq = dsc_stream_tail(s, 0);
        int r = 0;
        if (poll)
                while ((r = dsc_query(s, 0, seq)) == 600)
                        ;
        else
                r = dsc_wait(s, 0, seq);
        expect(r == 0, "the kernel ends");
        expect(detshare_now(&after) == 0, "the time");
        return after - before;
}

static void clocks(void)
{
        pthread_t id;
        uint64_t p, start, end;
        dsc_session *s = session();
        struct dsc_kernel spin = kernel(s, "spin");
        const uint64_t wall = h_now_ms();
        expect(dsc_mem_alloc(s, 4096, &p) == 0, "memory");
        expect(detshare_simulated() == 1, "a simulated device");

        const uint64_t shorter = timed(s, &spin, p, 100, 0), longer = timed(s, &spin, p, 2000, 0);
        expect(shorter > 0 && longer > shorter, "more work takes more of the device's time");
        expect(timed(s, &spin, p, 2000, 0) < longer + longer / 10, "the same work takes the same time");
        expect(timed(s, &spin, p, 2000, 1) < longer + longer / 2, "polling sees the end as well");

        expect(detshare_now(&start) == 0, "the time");
        pthread_create(&id, NULL, sleeper_thread, &start);
        expect(detshare_sleep_until(start + 5000000) == 0, "a sleep");
        expect(detshare_clock_leave() == 0, "leaving the clock");
        pthread_join(id, NULL);
        expect(thread_failures == 0, "another thread sleeps on the same clock");
        expect(detshare_now(&end) == 0 && end >= start + 20000000, "time has passed");

        for (uint32_t i = 0; i < 6000; i++)
                if (!expect(launch(s, 0, &spin, p, 32, 1) == 0, "more launches than the ring has room for"))
                        break;
        expect(dsc_wait_all(s) == 0, "all of them end");
        expect(h_now_ms() - wall < 30000, "no wait lasts until a declaration expires");
}

/* --- the daemon is killed --- */

static pid_t doomed;
static char doomed_socket[100];

static void start_doomed(void)
{
        char program[300];
        snprintf(program, sizeof(program), "%s/detshared", build);
        snprintf(doomed_socket, sizeof(doomed_socket), "/tmp/detshare-doomed-%d", (int)getpid());
        setenv("DETSHARE_SOCKET", doomed_socket, 1);
        doomed = fork();
        if (doomed == 0) {
                const char *device = getenv("DETSHARE_TEST_DEVICE");
                execl(program, program, "--device", device && device[0] ? device : DEVICE, "--socket", doomed_socket,
                        "--foreground", NULL);
                _exit(127);
        }
        for (int i = 0; i < 1500 && access(doomed_socket, F_OK); i++)
                h_sleep_ms(20);
}

static void orphan(void)
{
        dsc_session *s = session();
        struct dsc_kernel spin = kernel(s, "spin");
        uint64_t p;
        expect(dsc_mem_alloc(s, 4096, &p) == 0, "memory");
        expect(launch(s, 0, &spin, p, 32, 2000000000) == 0, "a long kernel");
        kill(doomed, SIGKILL);
        const uint64_t before = h_now_ms();
        const int r = dsc_wait_all(s);
        expect(r == 999, "a wait ends with the daemon");
        expect(h_now_ms() - before < h_patience(1000), "and soon");
        expect(dsc_mem_alloc(s, 64, &p) == 999 && detshare_connected() == 0, "the session is lost");
}

static void part(const char *name, void (*run)(void))
{
        int status;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                run();
                fflush(stdout);
                _exit(failures != 0);
        }
        h_check(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
                "%s over %s: status %#x", name, getenv("DETSHARE_TRANSPORT") ? "rpc" : "ring", status);
}

int main(int argc, char **argv)
{
        build = argc > 1 ? argv[1] : "build";
        h_daemon_start(build, DEVICE, NULL);
        const struct h_status quiet = h_quiet();
        for (int rpc = 0; rpc < 2; rpc++) {
                if (rpc)
                        setenv("DETSHARE_TRANSPORT", "rpc", 1);
                part("copies", copies);
                part("threads", threads);
                if (h_needs_sim(DEVICE, "clocks: what a virtual clock promises"))
                        part("clocks", clocks);
                h_baseline(&quiet, 5000, "after all parts");
        }
        for (int rpc = 0; rpc < 2; rpc++) {
                if (rpc)
                        setenv("DETSHARE_TRANSPORT", "rpc", 1);
                else
                        unsetenv("DETSHARE_TRANSPORT");
                start_doomed();
                part("orphan", orphan);
                waitpid(doomed, NULL, 0);
                unlink(doomed_socket);
        }
        return h_finish();
}
