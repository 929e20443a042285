/* SPDX-License-Identifier: Apache-2.0 */
/* Eight threads, each with streams of its own and its per-thread default stream, allocating, copying, launching at
 * once. */
#include <pthread.h>

#include "program.h"

enum { THREADS = 8, ROUNDS = 40, N = 1000 };

static CUcontext context;
static CUfunction add;
static int results[THREADS];

/* Checks of threads are counted apart: the counters of the program are not for many at once. */
#define STEP(call)                          \
        do {                                \
                if ((call) != CUDA_SUCCESS) \
                        return __LINE__;    \
        } while (0)

static int round_of(int id, int round, CUstream stream, CUevent event, int *host)
{
        CUdeviceptr p;
        int n = N, v = id * 1000 + round;
        void *params[] = {&p, &n, &v};

        STEP(cuMemAlloc(&p, N * sizeof(int)));
        for (int i = 0; i < N; i++)
                host[i] = i * id;
        STEP(cuMemcpyHtoDAsync(p, host, N * sizeof(int), stream));
        STEP(cuLaunchKernel(add, 8, 1, 1, 128, 1, 1, 0, stream, params, NULL));
        STEP(cuEventRecord(event, stream));
        STEP(cuStreamWaitEvent(CU_STREAM_PER_THREAD, event, 0));
        STEP(cuLaunchKernel(add, 8, 1, 1, 128, 1, 1, 0, CU_STREAM_PER_THREAD, params, NULL));
        STEP(cuMemcpyDtoHAsync(host, p, N * sizeof(int), CU_STREAM_PER_THREAD));
        STEP(cuStreamSynchronize(CU_STREAM_PER_THREAD));
        for (int i = 0; i < N; i++) {
                if (host[i] != i * id + 2 * v)
                        return __LINE__;
        }
        STEP(cuMemFree(p));
        return 0;
}

static int work(int id)
{
        static int hosts[THREADS][N];
        CUcontext none = context;
        CUstream stream;
        CUevent event;
        int r = 0;

        STEP(cuCtxGetCurrent(&none));
        if (none)
                return __LINE__; /* a new thread has no context */
        STEP(cuCtxSetCurrent(context));
        STEP(cuStreamCreate(&stream, id & 1));
        STEP(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        for (int round = 0; round < ROUNDS && r == 0; round++)
                r = round_of(id, round, stream, event, hosts[id]);
        STEP(cuEventDestroy(event));
        STEP(cuStreamDestroy(stream));
        return r;
}

static void *start(void *argument)
{
        int id = (int)(intptr_t)argument;

        results[id] = work(id);
        return NULL;
}

/* A thread that has no context asks for an event of another's. */
static void *ask(void *event)
{
        CUcontext none = context;

        OK(cuCtxGetCurrent(&none));
        CHECK(!none);
        OK(cuEventQuery(event));
        return NULL;
}

static void without_context(void)
{
        pthread_t thread;
        CUevent event;

        MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        OK(cuEventRecord(event, NULL));
        OK(cuEventSynchronize(event));
        CHECK(pthread_create(&thread, NULL, ask, event) == 0);
        pthread_join(thread, NULL);
        OK(cuEventDestroy(event));
}

int main(int argc, char **argv)
{
        pthread_t threads[THREADS];

        program_begin(argc, argv);
        context = program_context();
        add = program_function(program_module("prog_basic"), "prog_add");
        for (int again = 0; again < 3; again++) {
                for (int i = 0; i < THREADS; i++)
                        CHECK(pthread_create(&threads[i], NULL, start, (void *)(intptr_t)i) == 0);
                for (int i = 0; i < THREADS; i++) {
                        pthread_join(threads[i], NULL);
                        if (results[i])
                                printf("thread %d failed at line %d\n", i, results[i]);
                        CHECK(results[i] == 0);
                }
        }
        without_context();
        OK(cuCtxSynchronize());
        OK(cuCtxDestroy(context));
        return program_end("threads");
}
