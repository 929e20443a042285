/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency of calls that a program makes while it starts: memory, streams, information
 *
 * Under DetShare most of these calls are a request to the daemon, which supervisor and worker answer. A second row of
 * cuMemGetInfo has 30 us of computing before each call, as programs compute between their calls. tests/bench/gpu.sh
 * (part `calls`) runs this program natively, and under DetShare with and without polling. Prints one line per figure:
 * name, value, unit.
 *
 * usage: gpu_calls
 */
#include "tests/bench/gpu_common.h"

#define CALLS 1000
#define BYTES ((size_t)4 << 20)
#define PAUSE_US 30.0

static double begins[CALLS], ends[CALLS];
static CUdevice device;

static void figures(const char *name, double *us, unsigned n)
{
        printf("%s_p50 %.2f us\n", name, bench_percentile(us, n, 0.5));
        printf("%s_p99 %.2f us\n", name, bench_percentile(us, n, 0.99));
        fflush(stdout);
}

static double since(double begin)
{
        return bench_us() - begin;
}

static void information(const char *name, double pause_us)
{
        unsigned n = bench_times(CALLS, 10);
        size_t free_bytes, all;

        for (unsigned i = 0; i < n; i++) {
                double begin = bench_us();

                while (since(begin) < pause_us)
                        continue;
                begin = bench_us();
                CHECK(cuMemGetInfo(&free_bytes, &all));
                begins[i] = since(begin);
        }
        figures(name, begins, n);
}

static void streams(void)
{
        unsigned n = bench_times(CALLS, 10);
        CUstream stream;

        for (unsigned i = 0; i < n; i++) {
                double begin = bench_us();

                CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
                begins[i] = since(begin);
                begin = bench_us();
                CHECK(cuStreamDestroy(stream));
                ends[i] = since(begin);
        }
        figures("stream_create", begins, n);
        figures("stream_destroy", ends, n);
}

static void allocations(void)
{
        unsigned n = bench_times(CALLS, 10);
        CUdeviceptr p;

        for (unsigned i = 0; i < n; i++) {
                double begin = bench_us();

                CHECK(cuMemAlloc(&p, BYTES));
                begins[i] = since(begin);
                begin = bench_us();
                CHECK(cuMemFree(p));
                ends[i] = since(begin);
        }
        figures("mem_alloc_4MiB", begins, n);
        figures("mem_free_4MiB", ends, n);
}

static void physical(void)
{
        const CUmemAllocationProp prop = {
                .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
        unsigned n = bench_times(CALLS, 10);
        CUmemGenericAllocationHandle handle;

        for (unsigned i = 0; i < n; i++) {
                double begin = bench_us();

                CHECK(cuMemCreate(&handle, BYTES, &prop, 0));
                begins[i] = since(begin);
                begin = bench_us();
                CHECK(cuMemRelease(handle));
                ends[i] = since(begin);
        }
        figures("mem_create_4MiB", begins, n);
        figures("mem_release_4MiB", ends, n);
}

int main(void)
{
        device = bench_start();
        information("mem_info", 0);
        information("mem_info_after_30us", PAUSE_US);
        streams();
        allocations();
        physical();
        return 0;
}
