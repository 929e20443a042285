/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that repeats one graph, and the single operations of such steps
 *
 * The graph is shaped like the inference of a batch by a large language model: twelve layers of twelve kernels of 15 to
 * 170 us each, 9.5 ms in total. Every kernel holds all SMs for exactly its time by the GPU's clock. So the time of a
 * step beyond this sum is the cost of launching.
 *
 *   graph SECONDS          launched and waited for, step after step
 *   plain SECONDS          the same kernels one by one, which shows natively what a graph saves
 *   copy SECONDS           12 MiB to newly allocated memory, as a framework copies a result
 *   idle SECONDS PERIOD_MS a latency-sensitive neighbour: connected, with one empty kernel per period (0: none)
 *
 * Prints one line: the operation, its count, and of its times in us the 10th, 50th and 99th percentile in the second
 * half of the run, when the daemon has learnt all costs; and the median of the first half.
 */
#include "tests/bench/gpu_common.h"

#define LAYERS 12
#define LAYER                                                     \
        {                                                         \
                60, 60, 60, 110, 60, 15, 15, 170, 40, 170, 15, 15 \
        }
#define KERNELS_MAX (LAYERS * 12)
#define STEPS_MAX 100000
#define COPY_BYTES ((size_t)64 * 128 * 768 * 2)

struct job {
        CUfunction hold, nothing;
        CUstream stream;
        CUdeviceptr out;
        CUgraphExec graph;
        unsigned sms, n;
        uint64_t ns[KERNELS_MAX], all_ns;
};

static void launch_all(struct job *job)
{
        for (unsigned i = 0; i < job->n; i++) {
                void *params[] = {&job->ns[i], &job->out};

                /* A launch shape of its own for each length, so that the daemon distinguishes the kernels. */
                unsigned threads = 32 + (unsigned)(job->ns[i] / 1000);

                CHECK(cuLaunchKernel(job->hold, job->sms, 1, 1, threads, 1, 1, 0, job->stream, params, NULL));
        }
}

/* Loads the kernels' machine code, or their PTX if the code is for another GPU (with the fake driver). */
static CUmodule kernels(void)
{
        char *image = bench_file("gpu_kernels.fatbin", NULL), *text = bench_file("gpu_kernels.ptx", NULL);
        CUmodule module;

        if (cuModuleLoadData(&module, image))
                CHECK(cuModuleLoadData(&module, text));
        free(image);
        free(text);
        return module;
}

static void job_start(struct job *job)
{
        static const uint64_t layer[] = LAYER;
        CUdevice device = bench_start();
        CUmodule module = kernels();
        int sms = 0;

        CHECK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
        *job = (struct job){.sms = bench_times((unsigned)sms, 1)};
        job->hold = bench_function(module, "hold");
        job->nothing = bench_function(module, "nothing");
        CHECK(cuMemAlloc(&job->out, COPY_BYTES));
        CHECK(cuMemsetD8(job->out, 0, COPY_BYTES));
        CHECK(cuStreamCreate(&job->stream, CU_STREAM_NON_BLOCKING));
        for (unsigned i = 0; i < LAYERS; i++)
                for (unsigned k = 0; k < sizeof(layer) / sizeof(layer[0]); k++) {
                        job->ns[job->n] = layer[k] * 1000;
                        job->all_ns += job->ns[job->n++];
                }
}

static void job_capture(struct job *job)
{
        CUgraph graph;

        CHECK(cuStreamBeginCapture(job->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        launch_all(job);
        CHECK(cuStreamEndCapture(job->stream, &graph));
        CHECK(cuGraphInstantiate(&job->graph, graph, 0));
        CHECK(cuGraphDestroy(graph));
}

static void step_graph(struct job *job)
{
        CHECK(cuGraphLaunch(job->graph, job->stream));
        CHECK(cuStreamSynchronize(job->stream));
}

static void step_plain(struct job *job)
{
        launch_all(job);
        CHECK(cuStreamSynchronize(job->stream));
}

static void step_copy(struct job *job)
{
        void *to = malloc(COPY_BYTES);

        if (!to)
                exit(1);
        CHECK(cuMemcpyDtoH(to, job->out, COPY_BYTES));
        free(to);
}

static void measure(struct job *job, const char *what, void (*step)(struct job *), double seconds)
{
        static double all[STEPS_MAX];
        double begin = bench_us(), before = begin, first, p10, p99;
        unsigned n = 0, half;

        while (n < 4 || (n < STEPS_MAX && before < begin + seconds * 1e6)) {
                double now;

                step(job);
                now = bench_us();
                all[n++] = now - before;
                before = now;
        }
        half = n / 2;
        first = bench_percentile(all, half, 0.5);
        p10 = bench_percentile(all + half, n - half, 0.1);
        p99 = bench_percentile(all + half, n - half, 0.99);
        printf("%s n %u p10 %.1f p50 %.1f p99 %.1f first_half_p50 %.1f", what, n, p10,
                bench_percentile(all + half, n - half, 0.5), p99, first);
        if (step != step_copy)
                printf(" kernels %u of %.1f", job->n, (double)job->all_ns / 1000);
        printf("\n");
}

static void idle(struct job *job, double seconds, double period_ms)
{
        double end = bench_us() + seconds * 1e6;

        printf("idle\n");
        fflush(stdout);
        while (bench_us() < end) {
                bench_sleep_us(period_ms > 0 ? period_ms * 1000 : 20000);
                if (period_ms <= 0)
                        continue;
                CHECK(cuLaunchKernel(job->nothing, 1, 1, 1, 1, 1, 1, 0, job->stream, NULL, NULL));
                CHECK(cuStreamSynchronize(job->stream));
        }
}

int main(int argc, char **argv)
{
        const char *what = argc > 2 ? argv[1] : "";
        double seconds = argc > 2 ? strtod(argv[2], NULL) : 0;
        struct job job;

        job_start(&job);
        if (!strcmp(what, "graph")) {
                job_capture(&job);
                measure(&job, what, step_graph, seconds);
        } else if (!strcmp(what, "plain")) {
                measure(&job, what, step_plain, seconds);
        } else if (!strcmp(what, "copy")) {
                measure(&job, what, step_copy, seconds);
        } else if (!strcmp(what, "idle") && argc > 3) {
                idle(&job, seconds, strtod(argv[3], NULL));
        } else {
                fprintf(stderr, "usage: gpu_graph graph|plain|copy SECONDS | idle SECONDS PERIOD_MS\n");
                return 2;
        }
        return 0;
}
