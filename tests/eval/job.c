/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of the evaluation without PyTorch: requests or steps of kernels whose blocks take a given time
 *
 * A Driver API program that takes the evaluation's orders (measure.py), as workload.py does:
 *
 *      stdin                 stdout
 *                            {"ready": ...}            prepared and warm
 *      serve FILE            {"latencies_ms": [...], "at_s": [...]}: a request at each time of the file (a line each, s)
 *      loop SECONDS          {"items": N, "seconds": S, "latencies_ms": [...]}: one step after the other
 *      slo MS                {"slo_ms": MS}: the objective of this client of DetShare; 0: none
 *
 * A request's latency is from its arrival to its end, also if the previous one still ran at its arrival. The number of
 * loop rounds per block is measured once at the start, as well as other work on the GPU allows.
 *
 * usage: job KERNELS.ptx KERNELS BLOCK_US [BLOCKS [THREADS]]     kernels of a step; BLOCKS 0: as many as the GPU holds,
 *                                                              xN: N times that
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(call)                                                             \
        do {                                                                    \
                CUresult r_ = (call);                                           \
                if (r_ != CUDA_SUCCESS) {                                       \
                        fprintf(stderr, "job: %s: error %d\n", #call, (int)r_); \
                        exit(1);                                                \
                }                                                               \
        } while (0)

#define TIMES_MAX 1000000
#define FIRST_ROUNDS 256
#define TRIES 8
#define AHEAD_S 0.0003 /* end of each sleep during which the program polls the clock instead, s */

struct job {
        CUfunction blocks;
        CUstream stream;
        CUdeviceptr out;
        unsigned n_kernels, n_blocks, threads, rounds;
};

static double now_s(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void sleep_until(double at)
{
        double left = at - now_s();

        if (left > AHEAD_S)
                usleep((useconds_t)((left - AHEAD_S) * 1e6));
        while (now_s() < at)
                ;
}

static void launch(struct job *job, unsigned rounds)
{
        void *params[] = {&job->out, &rounds};

        CHECK(cuLaunchKernel(job->blocks, job->n_blocks, 1, 1, job->threads, 1, 1, 0, job->stream, params, NULL));
}

static void step(struct job *job)
{
        for (unsigned i = 0; i < job->n_kernels; i++)
                launch(job, job->rounds);
        CHECK(cuStreamSynchronize(job->stream));
}

/* Duration of one kernel with blocks of `rounds` rounds by the GPU's clock, us. */
static double once_us(struct job *job, unsigned rounds)
{
        CUevent begin, end;
        float ms = 0;

        CHECK(cuEventCreate(&begin, CU_EVENT_DEFAULT));
        CHECK(cuEventCreate(&end, CU_EVENT_DEFAULT));
        CHECK(cuEventRecord(begin, job->stream));
        launch(job, rounds);
        CHECK(cuEventRecord(end, job->stream));
        CHECK(cuEventSynchronize(end));
        CHECK(cuEventElapsedTime(&ms, begin, end));
        CHECK(cuEventDestroy(begin));
        CHECK(cuEventDestroy(end));
        return (double)ms * 1000;
}

/* Minimum duration over several runs, us, because other programs of the cell may be preparing themselves on the same
 * GPU. */
static double kernel_us(struct job *job, unsigned rounds)
{
        double least = once_us(job, rounds);

        for (int i = 1; i < TRIES; i++) {
                double us = once_us(job, rounds);

                least = us < least ? us : least;
        }
        return least;
}

/* Derives the time of one round from kernels of two lengths, so that the cost of a launch cancels out. */
static void calibrate(struct job *job, double block_us)
{
        double low, high, round;
        unsigned rounds = FIRST_ROUNDS;

        (void)kernel_us(job, rounds);
        for (;;) {
                low = kernel_us(job, rounds);
                high = kernel_us(job, rounds * 3);
                if (high - low > 0.1 * block_us || rounds > 1u << 28)
                        break;
                rounds *= 4;
        }
        round = (high - low) / (2.0 * rounds);
        job->rounds = round > 0 && block_us / round > 1 ? (unsigned)(block_us / round) : 1;
}

static void print_ms(const char *name, const double *values, size_t n)
{
        printf("\"%s\": [", name);
        for (size_t i = 0; i < n; i++)
                printf("%s%.4f", i ? ", " : "", values[i]);
        printf("]");
}

static void serve(struct job *job, const char *path)
{
        static double arrivals[TIMES_MAX], latencies[TIMES_MAX];
        FILE *file = fopen(path, "re");
        double begin;
        size_t n = 0;

        if (!file) {
                fprintf(stderr, "job: %s cannot be read\n", path);
                exit(1);
        }
        while (n < TIMES_MAX && fscanf(file, "%lf", &arrivals[n]) == 1)
                n++;
        (void)fclose(file);
        begin = now_s();
        for (size_t i = 0; i < n; i++) {
                sleep_until(begin + arrivals[i]);
                step(job);
                latencies[i] = (now_s() - begin - arrivals[i]) * 1e3;
        }
        printf("{");
        print_ms("latencies_ms", latencies, n);
        printf(", ");
        print_ms("at_s", arrivals, n);
        printf("}\n");
}

static void loop(struct job *job, double seconds)
{
        static double latencies[TIMES_MAX];
        double begin = now_s(), last = begin, now = begin;
        size_t n = 0;

        while (now < begin + seconds && n < TIMES_MAX) {
                step(job);
                now = now_s();
                latencies[n++] = (now - last) * 1e3;
                last = now;
        }
        printf("{\"items\": %zu, \"seconds\": %.6f, ", n, now - begin);
        print_ms("latencies_ms", latencies, n);
        printf("}\n");
}

/* The library is the one that the drop-in libcuda uses, so the objective is of this program's session. */
static void objective(double ms)
{
        void *library = dlopen("libdetshare-client.so.0", RTLD_NOW);
        int (*set_slo_ns)(uint64_t) = NULL;

        if (library)
                *(void **)&set_slo_ns = dlsym(library, "detshare_set_slo_ns");
        if (!set_slo_ns || set_slo_ns((uint64_t)(ms * 1e6))) {
                fprintf(stderr, "job: the objective cannot be set: this program is no client of DetShare\n");
                exit(1);
        }
        printf("{\"slo_ms\": %.6f}\n", ms);
}

static void prepare(struct job *job, char **argv, int argc)
{
        int fits = 0, sms = 0;
        unsigned waves = 1;
        CUdevice device;
        CUcontext context;
        CUmodule module;

        CHECK(cuInit(0));
        CHECK(cuDeviceGet(&device, 0));
        CHECK(cuDevicePrimaryCtxRetain(&context, device));
        CHECK(cuCtxSetCurrent(context));
        CHECK(cuModuleLoad(&module, argv[1]));
        CHECK(cuModuleGetFunction(&job->blocks, module, "blocks"));
        CHECK(cuStreamCreate(&job->stream, CU_STREAM_NON_BLOCKING));
        CHECK(cuMemAlloc(&job->out, 256));
        job->n_kernels = (unsigned)strtoul(argv[2], NULL, 10);
        if (argc > 4 && argv[4][0] == 'x')
                waves = (unsigned)strtoul(argv[4] + 1, NULL, 10);
        else
                job->n_blocks = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
        job->threads = argc > 5 ? (unsigned)strtoul(argv[5], NULL, 10) : 1024;
        CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&fits, job->blocks, (int)job->threads, 0));
        CHECK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
        if (!job->n_blocks)
                job->n_blocks = (unsigned)(fits * sms);
        calibrate(job, strtod(argv[3], NULL));
        job->n_blocks *= waves;
        step(job);
}

int main(int argc, char **argv)
{
        static struct job job;
        char line[4096], word[4096];
        double seconds;

        if (argc < 4) {
                fprintf(stderr, "usage: %s KERNELS.ptx KERNELS BLOCK_US [BLOCKS [THREADS]]\n", argv[0]);
                return 2;
        }
        prepare(&job, argv, argc);
        printf("{\"ready\": {\"kernels\": %u, \"blocks\": %u, \"rounds\": %u}}\n", job.n_kernels, job.n_blocks,
                job.rounds);
        fflush(stdout);
        while (fgets(line, sizeof(line), stdin)) {
                if (sscanf(line, "serve %4095s", word) == 1)
                        serve(&job, word);
                else if (sscanf(line, "loop %lf", &seconds) == 1)
                        loop(&job, seconds);
                else if (sscanf(line, "slo %lf", &seconds) == 1)
                        objective(seconds);
                else
                        return 2;
                fflush(stdout);
        }
        return 0;
}
