/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that load a GPU, and one that measures the effect on itself
 *
 * gpu_load ls KERNELS REQUESTS PAUSE_US SECONDS
 *     a latency-sensitive service: REQUESTS requests of KERNELS launches on 16 blocks and a synchronisation, with a
 *     pause between them, for at most SECONDS or until SIGTERM. Prints `ls N p50 p99 max`, in us; at SIGUSR1 also a
 *     line of the requests so far, which then do not count in the next one.
 * gpu_load be SPIN_US STOP
 *     kernels whose 1,024-thread blocks hold every SM for SPIN_US each, until the file STOP exists. Prints READY, and at
 *     the end `be KERNELS PER_SECOND`.
 * gpu_load churn
 *     a short program: loads a module without and one with variables, allocates, copies, launches, checks the result,
 *     frees everything, ends.
 *
 * Driver API programs that run natively or under DetShare.
 */
#include "tests/bench/gpu_common.h"

#include <signal.h>

#define REQUESTS_MAX 100000
#define LS_BLOCKS 16
#define LS_THREADS 256
#define LS_WORDS (LS_BLOCKS * LS_THREADS)
#define BE_THREADS 1024
#define BE_WAVES 4
#define BE_AHEAD 4

static volatile sig_atomic_t told; /* last signal that has not been handled */

static void tell(int sig)
{
        told = sig;
}

/* Prints the line of these requests, without the first `warm`. 0: there are no more than those. */
static int ls_say(double *us, unsigned n, unsigned warm)
{
        if (n <= warm)
                return 0;
        n -= warm;
        printf("ls %u %.2f", n, bench_percentile(us + warm, n, 0.5));
        printf(" %.2f %.2f\n", bench_percentile(us + warm, n, 0.99), bench_percentile(us + warm, n, 1));
        fflush(stdout);
        return 1;
}

static int run_ls(unsigned kernels, unsigned requests, double pause_us, double seconds)
{
        static double us[REQUESTS_MAX];
        CUfunction layer;
        CUdeviceptr x;
        CUstream stream;
        unsigned n = LS_WORDS, done = 0, warm = 20;
        float a = 0.5f;
        double end;

        signal(SIGUSR1, tell);
        signal(SIGTERM, tell);
        bench_start();
        layer = bench_function(bench_module("gpu_kernels.fatbin"), "layer");
        CHECK(cuMemAlloc(&x, LS_WORDS * sizeof(float)));
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        end = bench_us() + seconds * 1e6;
        while (done < requests + warm && done < REQUESTS_MAX && bench_us() < end && told != SIGTERM) {
                void *params[] = {&x, &n, &a};
                double begin = bench_us();

                for (unsigned i = 0; i < kernels; i++)
                        CHECK(cuLaunchKernel(layer, LS_BLOCKS, 1, 1, LS_THREADS, 1, 1, 0, stream, params, NULL));
                CHECK(cuStreamSynchronize(stream));
                us[done++] = bench_us() - begin;
                bench_sleep_us(pause_us);
                if (told == SIGUSR1) {
                        told = 0;
                        ls_say(us, done, warm);
                        done = warm = 0;
                }
        }
        return ls_say(us, done, warm) ? 0 : 1;
}

static int run_be(unsigned long long spin_us, const char *stop)
{
        unsigned long long ns = spin_us * 1000, kernels = 0;
        CUevent events[BE_AHEAD];
        CUfunction hold;
        CUdeviceptr out;
        CUstream stream;
        unsigned blocks;
        double begin;
        int sms;

        CHECK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, bench_start()));
        blocks = bench_times((unsigned)sms * 2 * BE_WAVES, 4);
        hold = bench_function(bench_module("gpu_kernels.fatbin"), "hold");
        CHECK(cuMemAlloc(&out, blocks * sizeof(unsigned)));
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < BE_AHEAD; i++)
                CHECK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
        for (begin = bench_us(); access(stop, F_OK) != 0; kernels++) {
                void *params[] = {&ns, &out};

                CHECK(cuEventSynchronize(events[kernels % BE_AHEAD]));
                CHECK(cuLaunchKernel(hold, blocks, 1, 1, BE_THREADS, 1, 1, 0, stream, params, NULL));
                CHECK(cuEventRecord(events[kernels % BE_AHEAD], stream));
                if (kernels == BE_AHEAD) {
                        printf("READY\n");
                        fflush(stdout);
                }
        }
        CHECK(cuStreamSynchronize(stream));
        printf("be %llu %.2f\n", kernels, (double)kernels / (bench_us() - begin) * 1e6);
        return 0;
}

static int run_churn(void)
{
        static unsigned host[1u << 18], back[1u << 18];
        CUmodule plain, variables;
        unsigned n = 1u << 18, total = 0;
        CUdeviceptr p, q, global;
        float a = 0.5f;
        size_t size;

        bench_start();
        plain = bench_module("gpu_kernels.fatbin");
        variables = bench_module("gpu_globals.fatbin");
        CHECK(cuMemAlloc(&p, sizeof(host)));
        CHECK(cuMemAlloc(&q, 64u << 20));
        CHECK(cuMemcpyHtoD(p, host, sizeof(host)));
        void *layer[] = {&p, &n, &a}, *count[] = {&q, &n};
        for (int i = 0; i < 8; i++) {
                CHECK(cuLaunchKernel(bench_function(plain, "layer"), 512, 1, 1, 256, 1, 1, 0, NULL, layer, NULL));
                CHECK(cuLaunchKernel(
                        bench_function(variables, "count"), n / 256, 1, 1, 256, 1, 1, 0, NULL, count, NULL));
        }
        CHECK(cuMemcpyDtoH(back, q, sizeof(back)));
        CHECK(cuModuleGetGlobal(&global, &size, variables, "total"));
        CHECK(cuMemcpyDtoH(&total, global, sizeof(total)));
        CHECK(cuMemFree(p));
        CHECK(cuMemFree(q));
        CHECK(cuModuleUnload(plain));
        CHECK(cuModuleUnload(variables));
        if (total == 1 + 8 * n)
                return 0;
        fprintf(stderr, "churn: %u, not %u\n", total, 1 + 8 * n);
        return 1;
}

int main(int argc, char **argv)
{
        if (argc == 6 && !strcmp(argv[1], "ls"))
                return run_ls((unsigned)strtoul(argv[2], NULL, 10),
                        bench_times((unsigned)strtoul(argv[3], NULL, 10), 10), strtod(argv[4], NULL),
                        strtod(argv[5], NULL));
        if (argc == 4 && !strcmp(argv[1], "be"))
                return run_be(strtoull(argv[2], NULL, 10), argv[3]);
        if (argc == 2 && !strcmp(argv[1], "churn"))
                return run_churn();
        fprintf(stderr, "usage: gpu_load ls KERNELS REQUESTS PAUSE_US SECONDS | be SPIN_US STOP | churn\n");
        return 2;
}
