/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The demo's best-effort job: iterations of a few large kernels, as many as it can
 *
 * Each iteration walks a graph from every SM (long blocks that hold their SM), multiplies matrices and normalises, some
 * rounds of that; its result is the next one's input, so the hash after iteration i depends on every bit before it.
 * Prints one line per iteration: the device time in ns at its end, its duration, and the hash. Ends after ITERATIONS,
 * when the file STOP exists, or with -s at the end of the common start (common.h).
 *
 * usage: be_job [-s] KERNELS.ptx ITERATIONS STOP STEPS N ROUNDS
 *
 * STEPS of a walk; N x N matrices, N a multiple of 16; with -s the first iterations warm up and print nothing
 */
#include <unistd.h>

#include "common.h"

#define NODES 65536
#define WALK_THREADS 2
#define WARM 3 /* number of iterations before the measured work */

static CUfunction k_walk, k_gemm, k_norm;

struct job {
        CUdeviceptr next, feature, walks, a, b, c, gain, bias;
        unsigned blocks, shared;
        int n_walks, steps, buckets, n, rounds;
        size_t matrix; /* size of a matrix, bytes */
        CUstream stream;
};

static CUdeviceptr make_graph(uint32_t *seed)
{
        uint32_t *next = malloc(NODES * sizeof(*next));
        CUdeviceptr p;

        if (!next)
                exit(1);
        for (uint32_t i = 0; i < NODES; i++) {
                demo_random(seed);
                next[i] = *seed % NODES;
        }
        CHECK(cuMemAlloc(&p, NODES * sizeof(*next)));
        CHECK(cuMemcpyHtoD(p, next, NODES * sizeof(*next)));
        free(next);
        return p;
}

static void build(struct job *job, CUdevice device)
{
        uint32_t seed = 42;
        int sms, shared;

        CHECK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
        CHECK(cuDeviceGetAttribute(&shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device));
        CHECK(cuFuncSetAttribute(k_walk, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared));
        job->blocks = (unsigned)sms * 2;
        job->shared = (unsigned)shared;
        job->buckets = 256;
        job->n_walks = (int)job->blocks * WALK_THREADS;
        job->next = make_graph(&seed);
        job->feature = demo_weights(NODES, 1, &seed);
        CHECK(cuMemAlloc(&job->walks, (size_t)job->n_walks * sizeof(float)));
        job->a = demo_weights((size_t)job->n * (size_t)job->n, 1, &seed);
        job->b = demo_weights((size_t)job->n * (size_t)job->n, 0.2f, &seed);
        CHECK(cuMemAlloc(&job->c, job->matrix));
        job->gain = demo_weights((size_t)job->n, 1, &seed);
        job->bias = demo_weights((size_t)job->n, 1, &seed);
        CHECK(cuStreamCreate(&job->stream, CU_STREAM_NON_BLOCKING));
}

static void iterate(struct job *job)
{
        uint32_t nodes = NODES;
        unsigned tiles = (unsigned)job->n / 16;
        void *walk[] = {&job->next, &job->feature, &job->walks, &nodes, &job->steps, &job->buckets};
        void *gemm[] = {&job->a, &job->b, &job->c, &job->n, &job->n, &job->n};
        void *norm[] = {&job->c, &job->gain, &job->bias, &job->n};

        for (int i = 0; i < job->rounds; i++) {
                CHECK(cuLaunchKernel(
                        k_walk, job->blocks, 1, 1, WALK_THREADS, 1, 1, job->shared, job->stream, walk, NULL));
                CHECK(cuLaunchKernel(k_gemm, tiles, tiles, 1, 16, 16, 1, 0, job->stream, gemm, NULL));
                CHECK(cuLaunchKernel(k_norm, (unsigned)job->n, 1, 1, 64, 1, 1, 0, job->stream, norm, NULL));
                CHECK(cuMemcpyDtoDAsync(job->a, job->c, job->matrix, job->stream));
        }
}

static uint64_t result_hash(struct job *job, float *host)
{
        uint64_t hash = DEMO_HASH_START;

        CHECK(cuMemcpyDtoHAsync(host, job->a, job->matrix, job->stream));
        CHECK(cuStreamSynchronize(job->stream));
        hash = demo_hash(hash, host, job->matrix);
        CHECK(cuMemcpyDtoHAsync(host, job->walks, (size_t)job->n_walks * sizeof(float), job->stream));
        CHECK(cuStreamSynchronize(job->stream));
        return demo_hash(hash, host, (size_t)job->n_walks * sizeof(float));
}

static void warm(struct job *job, float *host)
{
        for (int i = 0; i < WARM; i++) {
                iterate(job);
                (void)result_hash(job, host);
        }
}

static void run(struct job *job, int common, long iterations, const char *stop)
{
        float *host = malloc((size_t)job->n_walks * sizeof(float) + job->matrix);
        uint64_t before, now, hash, end = UINT64_MAX;

        if (!host)
                exit(1);
        if (common) {
                warm(job, host);
                demo_start(&before, &end);
        } else {
                before = demo_now();
        }
        for (long i = 0; i < iterations && before < end && access(stop, F_OK) != 0; i++) {
                iterate(job);
                hash = result_hash(job, host);
                now = demo_now();
                printf("%llu %llu %016llx\n", (unsigned long long)now, (unsigned long long)(now - before),
                        (unsigned long long)hash);
                fflush(stdout);
                before = now;
        }
        free(host);
}

int main(int argc, char **argv)
{
        struct job job = {0};
        CUcontext context;
        CUmodule module;
        CUdevice device;
        char *ptx;
        int common = demo_flag(&argc, &argv);

        if (argc == 7) {
                job.steps = atoi(argv[4]);
                job.n = atoi(argv[5]);
                job.rounds = atoi(argv[6]);
                job.matrix = (size_t)job.n * (size_t)job.n * sizeof(float);
        }
        if (job.steps < 1 || job.n < 16 || job.n % 16 || job.rounds < 1) {
                fprintf(stderr, "usage: be_job [-s] KERNELS.ptx ITERATIONS STOP STEPS N ROUNDS\n");
                return 2;
        }
        CHECK(cuInit(0));
        if (common)
                /* declares the thread to the virtual clock: preparing takes the same virtual time on every machine */
                (void)demo_now();
        CHECK(cuDeviceGet(&device, 0));
        CHECK(cuCtxCreate(&context, NULL, 0, device));
        ptx = demo_read_file(argv[1]);
        CHECK(cuModuleLoadData(&module, ptx));
        free(ptx);
        CHECK(cuModuleGetFunction(&k_walk, module, "random_walk"));
        CHECK(cuModuleGetFunction(&k_gemm, module, "gemm"));
        CHECK(cuModuleGetFunction(&k_norm, module, "layer_norm"));
        build(&job, device);
        run(&job, common, strtol(argv[2], NULL, 10), argv[3]);
        CHECK(cuCtxDestroy(context));
        return 0;
}
