/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of calls for a Driver API program: launches, copies, events, modules
 *
 * tests/bench/gpu.sh runs this program natively and under DetShare and prints both side by side. Prints one line per
 * figure: name, value, unit. Figures are medians unless the name says otherwise, and of this process alone.
 *
 * With `rate` it only launches, for SECONDS from the time when the file START exists. It prints READY before, and
 * afterwards `rate LAUNCHES SECONDS CPU_US`: launches that have ended, their time, and the processor time of the process.
 * With `changing` the same, but each launch has another argument.
 *
 * usage: gpu_figures [rate|changing SECONDS START]
 */
#include "tests/bench/gpu_common.h"

#define SAMPLES_MAX 20000
#define BATCH 100 /* launches between two synchronisations; every queue holds that many */
#define COPY_MAX (256u << 20)

static double samples[SAMPLES_MAX];
static CUstream stream;
static CUfunction nothing, hold, layer;

static void figure(const char *name, double value, const char *unit)
{
        printf("%s %.3f %s\n", name, value, unit);
        fflush(stdout);
}

static void figure_percentiles(const char *name, unsigned n)
{
        char text[64];

        snprintf(text, sizeof(text), "%s_p50", name);
        figure(text, bench_percentile(samples, n, 0.5), "us");
        snprintf(text, sizeof(text), "%s_p99", name);
        figure(text, bench_percentile(samples, n, 0.99), "us");
}

static void launch_nothing(void)
{
        CHECK(cuLaunchKernel(nothing, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

/* A launch that no other one equals: a layer of no elements, with another factor. */
static void launch_changing(void)
{
        static float factor;
        CUdeviceptr none = 0;
        unsigned n = 0;
        void *params[] = {&none, &n, &factor};

        factor += 1;
        CHECK(cuLaunchKernel(layer, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

static void launch_hold(unsigned long long ns, CUdeviceptr out)
{
        void *params[] = {&ns, &out};

        CHECK(cuLaunchKernel(hold, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

/* --- launches --- */

static void launches(void)
{
        unsigned n = bench_times(SAMPLES_MAX, BATCH), many = bench_times(100000, 100);
        double begin;

        for (unsigned i = 0; i < 10 * BATCH; i++)
                launch_nothing();
        CHECK(cuStreamSynchronize(stream));
        for (unsigned i = 0; i < n; i++) {
                begin = bench_us();
                launch_nothing();
                samples[i] = bench_us() - begin;
                if (i % BATCH == BATCH - 1)
                        CHECK(cuStreamSynchronize(stream));
        }
        CHECK(cuStreamSynchronize(stream));
        figure_percentiles("launch", n);
        n = bench_times(5000, 20);
        for (unsigned i = 0; i < n; i++) {
                begin = bench_us();
                launch_nothing();
                CHECK(cuStreamSynchronize(stream));
                samples[i] = bench_us() - begin;
        }
        figure_percentiles("launch_sync", n);
        begin = bench_us();
        for (unsigned i = 0; i < many; i++)
                launch_nothing();
        CHECK(cuStreamSynchronize(stream));
        figure("launches_per_s", many / (bench_us() - begin) * 1e6, "1/s");
        begin = bench_us();
        for (unsigned i = 0; i < many; i++)
                launch_changing();
        CHECK(cuStreamSynchronize(stream));
        figure("launches_changing_per_s", many / (bench_us() - begin) * 1e6, "1/s");
}

/* --- copies --- */

/* GB/s of copies in one direction, median. */
static double bandwidth(int to_device, CUdeviceptr device, char *host, size_t size)
{
        unsigned n = bench_times(size >= 16u << 20 ? 12 : 200, 2);

        for (unsigned i = 0; i < n; i++) {
                double begin = bench_us();

                CHECK(to_device ? cuMemcpyHtoDAsync(device, host, size, stream)
                                : cuMemcpyDtoHAsync(host, device, size, stream));
                CHECK(cuStreamSynchronize(stream));
                samples[i] = bench_us() - begin;
        }
        return (double)size / bench_percentile(samples, n, 0.5) / 1e3;
}

static void copies_of(const char *kind, char *host, CUdeviceptr device, size_t largest)
{
        static const struct {
                size_t size;
                const char *name;
        } sizes[] = {{64u << 10, "64KiB"}, {1u << 20, "1MiB"}, {16u << 20, "16MiB"}, {256u << 20, "256MiB"}};

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                char name[64];

                if (sizes[i].size > largest)
                        continue;
                snprintf(name, sizeof(name), "%s_h2d_%s", kind, sizes[i].name);
                figure(name, bandwidth(1, device, host, sizes[i].size), "GB/s");
                snprintf(name, sizeof(name), "%s_d2h_%s", kind, sizes[i].name);
                figure(name, bandwidth(0, device, host, sizes[i].size), "GB/s");
        }
}

/* Time of a synchronous copy of 4 KiB of pageable memory while the GPU is idle. */
static void small_copies(CUdeviceptr device, char *pageable)
{
        unsigned n = bench_times(5000, 20);

        for (int to_device = 1; to_device >= 0; to_device--) {
                for (unsigned i = 0; i < n; i++) {
                        double begin;

                        CHECK(cuCtxSynchronize());
                        begin = bench_us();
                        CHECK(to_device ? cuMemcpyHtoD(device, pageable, 4096) : cuMemcpyDtoH(pageable, device, 4096));
                        samples[i] = bench_us() - begin;
                }
                figure_percentiles(to_device ? "copy_4KiB_to_device" : "copy_4KiB_to_host", n);
        }
}

static void copies(void)
{
        size_t largest = bench_times(COPY_MAX, 1u << 20);
        CUdeviceptr device;
        char *pageable = malloc(largest);
        void *pinned;
        double begin = bench_us();

        CHECK(cuMemHostAlloc(&pinned, largest, 0));
        figure("pinned_alloc_largest", bench_us() - begin, "us");
        CHECK(cuMemAlloc(&device, largest));
        if (!pageable)
                exit(1);
        memset(pinned, 1, largest);
        memset(pageable, 2, largest);
        copies_of("pinned", pinned, device, largest);
        copies_of("pageable", pageable, device, largest);
        small_copies(device, pageable);
        CHECK(cuMemFreeHost(pinned));
        CHECK(cuMemFree(device));
        free(pageable);
}

/* --- events, memory, modules --- */

static void events(void)
{
        static const unsigned us[] = {100, 1000};
        unsigned n = bench_times(200, 3);
        CUevent begin, end;
        CUdeviceptr out;

        CHECK(cuEventCreate(&begin, 0));
        CHECK(cuEventCreate(&end, 0));
        CHECK(cuMemAlloc(&out, 4096));
        for (int k = 0; k < 2; k++) {
                char name[64];

                for (unsigned i = 0; i < n; i++) {
                        float ms;

                        CHECK(cuEventRecord(begin, stream));
                        launch_hold(us[k] * 1000ull, out);
                        CHECK(cuEventRecord(end, stream));
                        CHECK(cuEventSynchronize(end));
                        CHECK(cuEventElapsedTime(&ms, begin, end));
                        samples[i] = (double)ms * 1e3;
                }
                snprintf(name, sizeof(name), "elapsed_of_%uus", us[k]);
                figure_percentiles(name, n);
        }
        CHECK(cuMemFree(out));
        CHECK(cuEventDestroy(begin));
        CHECK(cuEventDestroy(end));
}

static void memory_of(const char *name, size_t size, double *free_us, unsigned n)
{
        char text[64];
        CUdeviceptr p;

        for (unsigned i = 0; i < n; i++) {
                double begin = bench_us();

                CHECK(cuMemAlloc(&p, size));
                samples[i] = bench_us() - begin;
                begin = bench_us();
                CHECK(cuMemFree(p));
                free_us[i] = bench_us() - begin;
        }
        snprintf(text, sizeof(text), "alloc_%s", name);
        figure(text, bench_percentile(samples, n, 0.5), "us");
        snprintf(text, sizeof(text), "free_%s", name);
        figure(text, bench_percentile(free_us, n, 0.5), "us");
}

static void memory(void)
{
        unsigned n = bench_times(500, 5), few = bench_times(50, 5);
        double *free_us = malloc(n * sizeof(double));
        CUdeviceptr held;

        if (!free_us)
                exit(1);
        CHECK(cuMemAlloc(&held, 1u << 20)); /* held for the whole run, as in a program that has device memory */
        memory_of("4KiB", 4096, free_us, n);
        memory_of("1MiB", 1u << 20, free_us, n);
        memory_of("2MiB", 2u << 20, free_us, n);
        memory_of("20MiB", 20u << 20, free_us, few);
        memory_of("256MiB", 256u << 20, free_us, few);
        memory_of("1GiB", 1u << 30, free_us, few);
        CHECK(cuMemFree(held));
        free(free_us);
}

/* Looks a kernel up, launches it once, unloads the module. Returns the time until the launch has ended. */
static double launch_once(CUmodule module, double begin)
{
        double us;

        CHECK(cuLaunchKernel(bench_function(module, "nothing"), 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
        CHECK(cuStreamSynchronize(stream));
        us = bench_us() - begin;
        CHECK(cuModuleUnload(module));
        return us;
}

static double load_once(const char *image)
{
        double begin = bench_us();
        CUmodule module;

        CHECK(cuModuleLoadData(&module, image));
        return launch_once(module, begin);
}

/* Machine code is for one kind of GPU: no figures for another kind or for a driver that executes text. */
static void modules_of_code(void)
{
        char *cubin = bench_file("gpu_kernels.cubin", NULL);
        unsigned n = bench_times(20, 2);
        CUmodule module;
        double begin = bench_us(), us;
        CUresult r = cuModuleLoadData(&module, cubin);

        if (r == CUDA_ERROR_NO_BINARY_FOR_GPU) {
                free(cubin);
                return;
        }
        CHECK(r);
        us = launch_once(module, begin);
        figure("module_cubin_first", us, "us");
        for (unsigned i = 0; i < n; i++)
                samples[i] = load_once(cubin);
        figure("module_cubin_again", bench_percentile(samples, n, 0.5), "us");
        free(cubin);
}

static void modules(void)
{
        size_t size;
        char *ptx = bench_file("gpu_kernels.ptx", &size);
        char *text = malloc(size + 100);
        unsigned few = bench_times(5, 1);

        if (!text)
                exit(1);
        modules_of_code();
        /* each round loads a text that is in no cache */
        for (unsigned i = 0; i < few; i++) {
                snprintf(text, size + 100, "%s// %d %u %.0f\n", ptx, (int)getpid(), i, bench_us());
                samples[i] = load_once(text);
        }
        figure("module_ptx_new", bench_percentile(samples, few, 0.5), "us");
        for (unsigned i = 0; i < few; i++)
                samples[i] = load_once(text);
        figure("module_ptx_again", bench_percentile(samples, few, 0.5), "us");
        free(text);
        free(ptx);
}

static double cpu_us(void)
{
        struct timespec t;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Several processes run this at the same time: all of them wait for one file. */
static int rate(double seconds, const char *start, void (*launch)(void))
{
        double begin, cpu;
        unsigned n = 0;

        for (unsigned i = 0; i < 10 * BATCH; i++)
                launch();
        CHECK(cuStreamSynchronize(stream));
        printf("READY\n");
        fflush(stdout);
        while (access(start, F_OK) != 0)
                bench_sleep_us(1000);
        begin = bench_us();
        cpu = cpu_us();
        for (; bench_us() - begin < seconds * 1e6; n += BATCH)
                for (unsigned i = 0; i < BATCH; i++)
                        launch();
        CHECK(cuStreamSynchronize(stream));
        printf("rate %u %.6f %.1f\n", n, (bench_us() - begin) / 1e6, cpu_us() - cpu);
        return 0;
}

int main(int argc, char **argv)
{
        double begin = bench_us(), started;
        CUmodule module;

        if (argc != 1 && (argc != 4 || (strcmp(argv[1], "rate") && strcmp(argv[1], "changing")))) {
                fprintf(stderr, "usage: gpu_figures [rate|changing SECONDS START]\n");
                return 2;
        }
        bench_start();
        started = bench_us();
        module = bench_module("gpu_kernels.fatbin");
        nothing = bench_function(module, "nothing");
        hold = bench_function(module, "hold");
        layer = bench_function(module, "layer");
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        if (argc == 4)
                return rate(strtod(argv[2], NULL), argv[3], strcmp(argv[1], "rate") ? launch_changing : launch_nothing);
        figure("start_context", started - begin, "us");
        launches();
        events();
        copies();
        memory();
        modules();
        return 0;
}
