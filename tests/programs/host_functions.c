/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions and callbacks: their order in the stream, which work waits for them, many at once, CUDA calls from
 * inside, the default streams, destroyed streams, errors, the end of a context
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

static CUfunction add;

static void add_to(CUdeviceptr p, int n, int v, CUstream stream)
{
        void *params[] = {&p, &n, &v};

        OK(cuLaunchKernel(add, 1, 1, 1, (unsigned int)n, 1, 1, 0, stream, params, NULL));
}

static void nap_ms(long ms)
{
        const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

        nanosleep(&t, NULL);
}

/* A host function that returns only when the main thread opens the gate. */
struct gate {
        _Atomic int entered, open, left;
};

static void stand(void *arg)
{
        struct gate *gate = arg;

        atomic_store(&gate->entered, 1);
        while (!atomic_load(&gate->open))
                nap_ms(1);
        atomic_store(&gate->left, 1);
}

static void await(_Atomic int *flag)
{
        for (int i = 0; i < 30000 && !atomic_load(flag); i++)
                nap_ms(1);
        CHECK(atomic_load(flag));
}

struct seen {
        int *host;
        int value;
        _Atomic int calls;
};

static void look(void *arg)
{
        struct seen *seen = arg;

        seen->value = *seen->host;
        *seen->host = seen->value * 2;
        atomic_fetch_add(&seen->calls, 1);
}

/* While a host function runs, work before it has ended and work after it has not begun. */
static void check_order(void)
{
        struct seen seen = {0};
        CUdeviceptr p;
        CUstream a;

        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        MUST(cuMemHostAlloc((void **)&seen.host, sizeof(int), 0));
        MUST(cuMemAlloc(&p, sizeof(int)));
        OK(cuMemsetD32Async(p, 3, 1, a));
        add_to(p, 1, 4, a);
        OK(cuMemcpyDtoHAsync(seen.host, p, sizeof(int), a));
        OK(cuLaunchHostFunc(a, look, &seen));
        OK(cuStreamSynchronize(a));
        CHECK(seen.calls == 1 && seen.value == 7 && *seen.host == 14);
        OK(cuMemFree(p));
        OK(cuMemFreeHost(seen.host));
        OK(cuStreamDestroy(a));
}

static void check_waiting(void)
{
        struct gate gate = {0};
        CUstream a, b, c;
        CUevent before, behind;
        CUdeviceptr p;
        int value = 0;

        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&c, CU_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
        OK(cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING));
        MUST(cuMemAlloc(&p, 64));
        OK(cuMemsetD32(p, 1, 16));
        OK(cuEventRecord(before, a));
        OK(cuLaunchHostFunc(a, stand, &gate));
        OK(cuEventRecord(behind, a));
        OK(cuStreamWaitEvent(b, behind, 0));
        add_to(p, 1, 10, b);
        await(&gate.entered);
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
        EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(behind));
        EXPECT(CUDA_SUCCESS, cuEventQuery(before));
        /* another stream continues, and so do calls that need the daemon */
        add_to(p + 4, 1, 5, c);
        OK(cuMemcpyDtoHAsync(&value, p + 4, 4, c));
        OK(cuStreamSynchronize(c));
        CHECK(value == 6);
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
        atomic_store(&gate.open, 1);
        OK(cuEventSynchronize(behind));
        CHECK(gate.left);
        OK(cuStreamSynchronize(b));
        OK(cuMemcpyDtoH(&value, p, 4));
        CHECK(value == 11);
        OK(cuMemFree(p));
        OK(cuEventDestroy(before));
        OK(cuEventDestroy(behind));
        OK(cuStreamDestroy(a));
        OK(cuStreamDestroy(b));
        OK(cuStreamDestroy(c));
}

/* The legacy default stream waits for a host function in a blocking stream, and the reverse. */
static void check_default_streams(void)
{
        struct gate gate = {0};
        CUstream a, free_;
        CUdeviceptr p;

        OK(cuStreamCreate(&a, CU_STREAM_DEFAULT));
        OK(cuStreamCreate(&free_, CU_STREAM_NON_BLOCKING));
        MUST(cuMemAlloc(&p, 64));
        OK(cuLaunchHostFunc(a, stand, &gate));
        OK(cuMemsetD32Async(p, 1, 1, NULL));
        await(&gate.entered);
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
        OK(cuMemsetD32Async(p + 4, 1, 1, free_));
        OK(cuStreamSynchronize(free_));
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
        atomic_store(&gate.open, 1);
        OK(cuStreamSynchronize(NULL));
        CHECK(gate.left);

        gate = (struct gate){0};
        OK(cuLaunchHostFunc(CU_STREAM_LEGACY, stand, &gate));
        OK(cuMemsetD32Async(p, 2, 1, a));
        await(&gate.entered);
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
        atomic_store(&gate.open, 1);
        OK(cuStreamSynchronize(a));
        CHECK(gate.left);

        gate = (struct gate){.open = 1};
        OK(cuLaunchHostFunc(CU_STREAM_PER_THREAD, stand, &gate));
        OK(cuCtxSynchronize());
        CHECK(gate.left);
        OK(cuMemFree(p));
        OK(cuStreamDestroy(a));
        OK(cuStreamDestroy(free_));
}

struct counted {
        _Atomic int *order;
        int place, seen;
};

static void count(void *arg)
{
        struct counted *counted = arg;

        counted->seen = atomic_fetch_add(counted->order, 1);
}

/* More host functions than can be in flight, in one stream and in many */
static void check_many(void)
{
        enum { STREAMS = 8, EACH = 200 };
        static struct counted one[1000], each[STREAMS][EACH];
        static _Atomic int orders[STREAMS];
        _Atomic int order = 0;
        CUstream streams[STREAMS];
        int in_order = 1;

        for (int i = 0; i < STREAMS; i++)
                OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < 1000; i++) {
                one[i] = (struct counted){&order, i, -1};
                if (cuLaunchHostFunc(streams[0], count, &one[i]))
                        CHECK(0);
        }
        OK(cuStreamSynchronize(streams[0]));
        for (int i = 0; i < 1000; i++)
                in_order &= one[i].seen == i;
        CHECK(in_order && order == 1000);

        for (int k = 0; k < EACH; k++) {
                for (int i = 0; i < STREAMS; i++) {
                        each[i][k] = (struct counted){&orders[i], k, -1};
                        if (cuLaunchHostFunc(streams[i], count, &each[i][k]))
                                CHECK(0);
                }
        }
        OK(cuCtxSynchronize());
        for (int i = 0; i < STREAMS; i++) {
                for (int k = 0; k < EACH; k++)
                        in_order &= each[i][k].seen == k;
        }
        CHECK(in_order);
        for (int i = 0; i < STREAMS; i++)
                OK(cuStreamDestroy(streams[i]));
}

static void forbidden(void *arg)
{
        CUresult *results = arg;
        CUdeviceptr p;

        results[0] = cuMemAlloc(&p, 16);
        results[1] = cuStreamSynchronize(NULL);
        results[2] = cuCtxSynchronize();
}

struct called {
        CUstream stream;
        CUresult status;
        _Atomic int calls;
};

static void CUDA_CB callback(CUstream stream, CUresult status, void *arg)
{
        struct called *called = arg;

        called->stream = stream;
        called->status = status;
        atomic_fetch_add(&called->calls, 1);
}

static void check_calls(void)
{
        CUresult results[3] = {0};
        struct called called = {.status = CUDA_ERROR_UNKNOWN}, gone = {0};
        CUstream a;

        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        OK(cuLaunchHostFunc(a, forbidden, results));
        OK(cuStreamAddCallback(a, callback, &called, 0));
        OK(cuStreamSynchronize(a));
        for (int i = 0; i < 3; i++)
                CHECK(results[i] == CUDA_ERROR_NOT_PERMITTED);
        CHECK(called.calls == 1 && called.status == CUDA_SUCCESS && called.stream == a);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc(a, NULL, NULL));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamAddCallback(a, NULL, NULL, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamAddCallback(a, callback, &called, 1));
        /* a destroyed stream completes its work */
        OK(cuStreamAddCallback(a, callback, &gone, 0));
        OK(cuStreamDestroy(a));
        OK(cuCtxSynchronize());
        CHECK(gone.calls == 1);
}

static void *use_from_thread(void *arg)
{
        static _Atomic int order;
        struct counted counted[50];
        CUstream a;

        OK(cuCtxSetCurrent(arg));
        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < 50; i++) {
                counted[i] = (struct counted){&order, i, -1};
                OK(cuLaunchHostFunc(a, count, &counted[i]));
                if (i % 10 == 9)
                        OK(cuStreamSynchronize(a));
        }
        for (int i = 1; i < 50; i++)
                CHECK(counted[i].seen > counted[i - 1].seen);
        OK(cuStreamDestroy(a));
        return NULL;
}

static void check_threads(CUcontext context)
{
        pthread_t threads[4];

        for (int i = 0; i < 4; i++)
                pthread_create(&threads[i], NULL, use_from_thread, context);
        for (int i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
        struct called last = {0};
        CUcontext context;
        CUmodule module;

        program_begin(argc, argv);
        context = program_context();
        module = program_module("prog_basic");
        add = program_function(module, "prog_add");
        check_order();
        check_waiting();
        check_default_streams();
        check_many();
        check_calls();
        check_threads(context);
        OK(cuStreamAddCallback(NULL, callback, &last, 0));
        OK(cuCtxDestroy(context));
        CHECK(last.calls == 1 && last.status == CUDA_SUCCESS);
        return program_end("host_functions");
}
