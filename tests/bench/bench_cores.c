/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gain of a second core: the same blocks on one thread and on two, launches of the simulated device in one stream
 * and in two
 *
 * usage: bench_cores [DIRECTORY of PTX, default build/ptx/sm_75] [SECONDS per figure]
 *
 * Times are real time, so the machine should have no other work. The device executes one launch on one thread and two
 * launches on two, so it needs two streams for two threads.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/sim/sim.h"
#include "ptx/interp/interp.h"
#include "ptx/ptx.h"
#include "util/macro.h"

#define N 128 /* rows and columns of the matrices */
#define BYTES ((size_t)N * N * 4)
#define VA UINT64_C(0x300000000000)
#define SPACE 1
#define MAX_THREADS 2

static double now(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static char *read_file(const char *directory)
{
        char path[4096], *text = calloc(1, 4 << 20);
        FILE *in;

        (void)snprintf(path, sizeof(path), "%s/gemm.ptx", directory);
        in = fopen(path, "rb");
        if (!in || !text || !fread(text, 1, (4 << 20) - 1, in)) {
                (void)fprintf(stderr, "%s cannot be read\n", path);
                exit(1);
        }
        fclose(in);
        return text;
}

/* parameters of the kernel gemm_tiled(m, n, k, a, b, c) */
struct params {
        int32_t m, n, k, padding;
        uint64_t a, b, c;
};

static struct params params_at(uint64_t va)
{
        return (struct params){N, N, N, 0, va, va + BYTES, va + 2 * BYTES};
}

/* --- blocks on threads --- */

struct share {
        const struct ds_interp_launch *launch;
        _Atomic uint64_t next, instructions;
        double end;
};

static void *share_thread(void *arg)
{
        struct share *s = arg;
        ds_interp_block *work = ds_interp_block_new();
        struct ds_interp_result result;
        uint64_t done = 0;

        while (work && now() < s->end) {
                uint64_t i = atomic_fetch_add(&s->next, 1) % (s->launch->grid[0] * s->launch->grid[1]);

                if (ds_interp_run_block(work, s->launch, (uint32_t)(i % s->launch->grid[0]),
                            (uint32_t)(i / s->launch->grid[0]), 0, &result) ||
                        result.fault)
                        break;
                done += result.cost.instructions;
        }
        atomic_fetch_add(&s->instructions, done);
        ds_interp_block_free(work);
        return NULL;
}

/* Runs the launch's blocks on n threads. Returns lane instructions per second. */
static double on_threads(const struct ds_interp_launch *launch, int n, double seconds)
{
        pthread_t threads[MAX_THREADS];
        struct share s = {.launch = launch};
        double start = now();

        s.end = start + seconds;
        for (int i = 0; i < n; i++)
                if (pthread_create(&threads[i], NULL, share_thread, &s))
                        exit(1);
        for (int i = 0; i < n; i++)
                pthread_join(threads[i], NULL);
        return (double)atomic_load(&s.instructions) * 32 / (now() - start);
}

static void bench_blocks(const char *text, double seconds)
{
        static struct ds_ptx_diags diags;
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
        uint8_t *memory = aligned_alloc(4096, 3 * BYTES);
        struct params params = params_at((uintptr_t)memory);
        struct ds_interp_range range = {.va = (uintptr_t)memory, .size = 3 * BYTES};
        struct ds_interp_launch launch = {.grid = {N / 16, N / 16, 1},
                .block = {16, 16, 1},
                .params = &params,
                .params_size = sizeof(params),
                .ranges = &range,
                .n_ranges = 1,
                .n_sms = 1};
        double one, two;

        if (!memory || ds_ptx_parse(text, strlen(text), 0, &diags, &module) || ds_interp_new(module, &diags, &interp) ||
                !(launch.kernel = ds_interp_find_kernel(interp, "gemm_tiled")))
                exit(1);
        memset(memory, 0, 3 * BYTES);
        one = on_threads(&launch, 1, seconds);
        two = on_threads(&launch, 2, seconds);
        printf("%-28s %8.0f M lane-instructions/s on one thread, %8.0f on two: %.2f times\n", "blocks (gemm_tiled)",
                one / 1e6, two / 1e6, two / one);
        free(memory);
}

/* --- launches on the device --- */

static void drain(ds_device *device, size_t n)
{
        struct pollfd p = {.fd = ds_sim_ops.event_fd(device), .events = POLLIN};
        struct ds_completion c[64];
        size_t got;

        while (n) {
                got = ds_sim_ops.poll(device, c, DS_MIN(n, DS_ARRAY_SIZE(c)));
                for (size_t i = 0; i < got; i++)
                        if (c[i].status)
                                exit(1);
                n -= got;
                if (!got && ds_sim_ops.advance(device, UINT64_MAX) == -EAGAIN && poll(&p, 1, 60000) < 1)
                        exit(1);
        }
}

/* Runs launches over n streams, each with its own matrices. Returns launches per second. */
static double on_streams(ds_device *device, const ds_device_kernel *kernel, uint32_t rung, uint32_t n, double seconds)
{
        struct params params;
        struct ds_launch l = {.space = SPACE,
                .kernel = kernel,
                .grid = {N / 16, N / 16, 1},
                .block = {16, 16, 1},
                .params = &params,
                .params_size = sizeof(params)};
        double start = now();
        uint64_t done = 0;

        do {
                for (uint32_t i = 0; i < 16; i++) {
                        l.stream = ds_device_stream(rung, 0, i % n);
                        params = params_at(VA + i % n * DS_MIB(1));
                        if (ds_sim_ops.launch(device, &l, 1))
                                exit(1);
                }
                drain(device, 16);
                done += 16;
        } while (now() - start < seconds);
        return (double)done / (now() - start);
}

static void bench_launches(const char *text, double seconds)
{
        struct ds_tpc_mask mask = {.word = {UINT64_MAX}};
        const ds_device_kernel *kernel;
        ds_device_module *module;
        ds_device *device;
        char log[1000];
        uint32_t rung;
        double one, two;
        int fd;

        if (ds_sim_ops.open("h200", &device) || ds_sim_ops.rung_create(device, &mask, &rung) ||
                ds_sim_ops.space_add(device, SPACE) || ds_sim_ops.mem_create(device, DS_MIB(64), &fd) ||
                ds_sim_ops.mem_map(device, SPACE, fd, VA, DS_MIB(64)) ||
                ds_sim_ops.module_load(device, SPACE, text, strlen(text) + 1, log, sizeof(log), &module) ||
                !(kernel = ds_sim_ops.kernel_find(module, "gemm_tiled")))
                exit(1);
        one = on_streams(device, kernel, rung, 1, seconds);
        two = on_streams(device, kernel, rung, 2, seconds);
        printf("%-28s %8.0f launches/s in one stream, %8.0f in two: %.2f times\n", "launches on sim (gemm_tiled)", one,
                two, two / one);
        ds_sim_ops.close(device);
        close(fd);
}

int main(int argc, char **argv)
{
        char *text = read_file(argc > 1 ? argv[1] : "build/ptx/sm_75");
        double seconds = argc > 2 ? strtod(argv[2], NULL) : 1;

        printf("%ld processors\n", sysconf(_SC_NPROCESSORS_ONLN));
        bench_blocks(text, seconds);
        bench_launches(text, seconds);
        free(text);
        return 0;
}
