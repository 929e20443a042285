/* SPDX-License-Identifier: Apache-2.0 */
/* Eight threads that allocate, copy and launch at the same time, each in streams of its own and in its per-thread
 * default stream */
#include <pthread.h>

#include "program.h"

enum { THREADS = 8, ROUNDS = 40, N = 1000 };

static CUcontext context;
static CUfunction add;
static int results[THREADS];

/* Ends the thread at the first failed call with its line; the program's counters of checks are not thread-safe. */
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
                return __LINE__; /* a new thread must have no context */
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

/* Objects of one context that threads without a context use */
struct shared {
        CUstream stream;
        CUevent event, times[2];
        CUdeviceptr memory;
        int *pinned;
};

static void ask_events(const struct shared *s)
{
        float ms = -1;

        OK(cuEventQuery(s->event));
        OK(cuEventSynchronize(s->event));
        OK(cuEventElapsedTime(&ms, s->times[0], s->times[1]));
        CHECK(ms >= 0);
        OK(cuEventRecord(s->event, s->stream));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuEventRecord(s->event, NULL));
        OK(cuStreamWaitEvent(s->stream, s->event, 0));
}

static void ask_stream(const struct shared *s)
{
        CUstreamCaptureStatus status;
        CUcontext owner = NULL;
        unsigned long long id;
        unsigned int flags = 0;
        int priority;
        CUresult r = cuStreamQuery(s->stream);

        CHECK(r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY);
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuStreamQuery(NULL));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuStreamQuery(CU_STREAM_PER_THREAD));
        OK(cuStreamSynchronize(s->stream));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuStreamSynchronize(NULL));
        OK(cuStreamGetFlags(s->stream, &flags));
        CHECK(flags == CU_STREAM_NON_BLOCKING);
        OK(cuStreamGetPriority(s->stream, &priority));
        OK(cuStreamGetId(s->stream, &id));
        OK(cuStreamIsCapturing(s->stream, &status));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuStreamIsCapturing(NULL, &status));
        OK(cuStreamGetCtx(s->stream, &owner));
        CHECK(owner == context);
}

static void work_there(const struct shared *s)
{
        CUdeviceptr p;

        OK(cuMemsetD32Async(s->memory, 41, 4, s->stream));
        OK(cuMemcpyDtoHAsync(s->pinned, s->memory, 16, s->stream));
        OK(cuMemcpyHtoDAsync(s->memory, s->pinned, 16, s->stream));
        OK(cuMemcpyAsync(s->memory, (CUdeviceptr)(uintptr_t)s->pinned, 16, s->stream));
        OK(cuStreamSynchronize(s->stream));
        CHECK(s->pinned[0] == 41 && s->pinned[3] == 41);
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemsetD32(s->memory, 1, 4));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyHtoD(s->memory, s->pinned, 16));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyDtoH(s->pinned, s->memory, 16));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&p, 16));
        OK(cuMemAllocAsync(&p, 16, s->stream));
        OK(cuMemFreeAsync(p, s->stream));
}

static void end_all(const struct shared *s)
{
        OK(cuStreamDestroy(s->stream));
        OK(cuEventDestroy(s->event));
        OK(cuMemFreeHost(s->pinned));
        OK(cuMemFree(s->memory));
}

static void *ask(void *shared)
{
        CUcontext none = context;

        OK(cuCtxGetCurrent(&none));
        CHECK(!none);
        ask_events(shared);
        ask_stream(shared);
        work_there(shared);
        end_all(shared);
        return NULL;
}

/* A stream, an event or an address identifies its context, so the thread needs none. */
static void without_context(void)
{
        struct shared s;
        pthread_t thread;

        MUST(cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
        MUST(cuEventCreate(&s.event, CU_EVENT_DISABLE_TIMING));
        MUST(cuMemAlloc(&s.memory, 64));
        MUST(cuMemAllocHost((void **)&s.pinned, 64));
        for (int i = 0; i < 2; i++) {
                MUST(cuEventCreate(&s.times[i], CU_EVENT_DEFAULT));
                OK(cuEventRecord(s.times[i], s.stream));
        }
        OK(cuEventRecord(s.event, s.stream));
        OK(cuEventSynchronize(s.event));
        CHECK(pthread_create(&thread, NULL, ask, &s) == 0);
        pthread_join(thread, NULL);
        OK(cuEventDestroy(s.times[0]));
        OK(cuEventDestroy(s.times[1]));
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
