/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events: order within and between streams, joins of the legacy stream, queries, times, priorities */
#include "program.h"

#define STEPS 300000u
#define UPLOAD (256 << 10)

static CUfunction busy, add;
static CUdeviceptr scratch;

static void keep_busy(CUstream stream, unsigned int steps)
{
        unsigned int seed = 7;
        void *params[] = {&scratch, &steps, &seed};

        OK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void add_to(CUdeviceptr p, int n, int v, CUstream stream)
{
        void *params[] = {&p, &n, &v};

        OK(cuLaunchKernel(add, 1, 1, 1, (unsigned int)n, 1, 1, 0, stream, params, NULL));
}

static int first_value(CUdeviceptr p)
{
        int value = -1;

        OK(cuMemcpyDtoH(&value, p, sizeof(value)));
        return value;
}

static void check_order(void)
{
        CUstream a, b;
        CUevent event;
        CUdeviceptr p;

        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        MUST(cuMemAlloc(&p, 64));
        OK(cuMemsetD32Async(p, 1, 16, a));
        keep_busy(a, STEPS);
        add_to(p, 16, 10, a);
        OK(cuEventRecord(event, a));
        OK(cuStreamWaitEvent(b, event, 0));
        OK(cuMemcpyDtoDAsync(p + 4, p, 4, b));
        add_to(p, 1, 100, b);
        OK(cuStreamSynchronize(b));
        EXPECT(CUDA_SUCCESS, cuEventQuery(event));
        EXPECT(CUDA_SUCCESS, cuStreamQuery(a));
        CHECK(first_value(p) == 111);
        CHECK(first_value(p + 4) == 11);
        OK(cuMemFree(p));
        OK(cuEventDestroy(event));
        OK(cuStreamDestroy(a));
        OK(cuStreamDestroy(b));
}

static void check_legacy(void)
{
        CUstream blocking, free_running;
        struct program_gate gate;
        CUdeviceptr p;

        OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
        OK(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
        MUST(cuMemAlloc(&p, 64));
        OK(cuMemsetD32(p, 0, 16));
        keep_busy(blocking, STEPS);
        gate = program_gate(blocking);
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(blocking));
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
        EXPECT(CUDA_SUCCESS, cuStreamQuery(free_running));
        EXPECT(CUDA_SUCCESS, cuStreamQuery(CU_STREAM_PER_THREAD));
        add_to(p, 16, 5, blocking);
        add_to(p, 16, 7, NULL); /* this addition runs after all work of the blocking stream */
        add_to(p, 16, 9, blocking);
        program_gate_open(&gate);
        OK(cuStreamSynchronize(NULL));
        EXPECT(CUDA_SUCCESS, cuStreamQuery(CU_STREAM_LEGACY));
        CHECK(first_value(p) == 21);
        program_gate_free(&gate);
        OK(cuMemFree(p));
        OK(cuStreamDestroy(blocking));
        OK(cuStreamDestroy(free_running));
}

/* A synchronous copy may return before its bytes are on the device, but no work may see that. */
static void check_uploads(void)
{
        static int host[UPLOAD], back[UPLOAD];
        CUstream stream, late;
        CUdeviceptr p, q;

        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cuMemAlloc(&p, sizeof(host)));
        MUST(cuMemAlloc(&q, sizeof(host)));
        for (int i = 1; i <= 40; i++) {
                for (int k = 0; k < UPLOAD; k++)
                        host[k] = i * k;
                OK(cuMemcpyHtoD(p, host, sizeof(host)));
                memset(host, 0xff, sizeof(host));
                if (i % 4 == 0) {
                        OK(cuMemsetD32(p, 5, UPLOAD / 2));
                        OK(cuMemcpyDtoD(p + 4 * (UPLOAD / 2), p, 4 * (UPLOAD / 2)));
                }
                OK(cuStreamCreate(&late, CU_STREAM_NON_BLOCKING));
                add_to(p + 4 * (UPLOAD - 64), 64, i, i % 2 ? stream : late);
                OK(cuMemcpyDtoDAsync(q, p, sizeof(host), i % 2 ? stream : late));
                OK(cuMemcpyDtoHAsync(back, q, sizeof(back), i % 2 ? stream : late));
                OK(cuStreamSynchronize(i % 2 ? stream : late));
                for (int k = 0; k < UPLOAD; k += UPLOAD / 64 - 1)
                        CHECK(back[k] == (i % 4 ? i * k : 5) + (k >= UPLOAD - 64 ? i : 0));
                OK(cuStreamDestroy(late));
        }
        OK(cuMemFree(p));
        OK(cuMemFree(q));
        OK(cuStreamDestroy(stream));
}

/* Memsets and copies on the device return although work before them has not ended. Other streams go on. */
static void check_early(void)
{
        CUstream blocking, stream;
        struct program_gate gate;
        CUdeviceptr p, q;

        OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cuMemAlloc(&p, 128));
        MUST(cuMemAlloc(&q, 64));
        OK(cuMemsetD32(q, 1, 16));
        gate = program_gate(blocking);
        OK(cuMemsetD32(p, 2, 16));
        OK(cuMemcpyDtoD(p + 64, p, 64));
        add_to(q, 16, 10, stream);
        OK(cuStreamSynchronize(stream));
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
        program_gate_open(&gate);
        CHECK(first_value(p + 64) == 2);
        CHECK(first_value(q) == 11);
        program_gate_free(&gate);
        OK(cuMemFree(p));
        OK(cuMemFree(q));
        OK(cuStreamDestroy(blocking));
        OK(cuStreamDestroy(stream));
}

static void check_attributes(void)
{
        CUstream stream;
        CUcontext context, current;
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        unsigned int flags = 9;
        unsigned long long id[4];
        int priority = 9, least, greatest;
        CUdevice device = -1;

        OK(cuCtxGetStreamPriorityRange(&least, &greatest));
        CHECK(least == 0 && greatest < 0);
        OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -100));
        OK(cuStreamGetPriority(stream, &priority));
        CHECK(priority == greatest);
        OK(cuStreamGetFlags(stream, &flags));
        CHECK(flags == CU_STREAM_NON_BLOCKING);
        OK(cuStreamGetCtx(stream, &context));
        OK(cuCtxGetCurrent(&current));
        CHECK(context == current);
        OK(cuStreamGetDevice(stream, &device));
        CHECK(device == 0);
        OK(cuStreamIsCapturing(stream, &status));
        CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
        OK(cuStreamGetId(stream, &id[0]));
        OK(cuStreamGetId(NULL, &id[1]));
        OK(cuStreamGetId(CU_STREAM_LEGACY, &id[2]));
        OK(cuStreamGetId(CU_STREAM_PER_THREAD, &id[3]));
        CHECK(id[0] != id[1] && id[1] == id[2] && id[3] != id[1]);
        OK(cuStreamGetFlags(CU_STREAM_LEGACY, &flags));
        CHECK(flags == 0);
        OK(cuStreamDestroy(stream));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(NULL));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(CU_STREAM_LEGACY));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(CU_STREAM_PER_THREAD));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&stream, 2));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(NULL, 0));
}

static void check_times(void)
{
        CUevent start, end, never, untimed;
        struct program_gate gate;
        CUstream stream;
        float forward = -1, backward = 1, none = 1;

        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&start, CU_EVENT_DEFAULT));
        OK(cuEventCreate(&end, CU_EVENT_BLOCKING_SYNC));
        OK(cuEventCreate(&never, CU_EVENT_DEFAULT));
        OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
        EXPECT(CUDA_SUCCESS, cuEventQuery(never));
        OK(cuEventSynchronize(never));
        OK(cuStreamWaitEvent(stream, never, 0));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&forward, start, end));
        OK(cuEventRecord(start, stream));
        keep_busy(stream, 10 * STEPS);
        gate = program_gate(stream);
        OK(cuEventRecordWithFlags(end, stream, 0));
        OK(cuEventRecord(untimed, stream));
        EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(end));
        EXPECT(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&forward, start, end));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&forward, start, never));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&forward, start, untimed));
        program_gate_open(&gate);
        OK(cuEventSynchronize(end));
        program_gate_free(&gate);
        OK(cuEventElapsedTime(&forward, start, end));
        OK(cuEventElapsedTime(&backward, end, start));
        OK(cuEventElapsedTime(&none, start, start));
        CHECK(forward > 0.05f && forward < 60000.0f);
        CHECK(backward == -forward);
        CHECK(none == 0.0f);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventCreate(NULL, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&start, 8));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(NULL, stream));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventRecordWithFlags(end, stream, 2));
        EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuEventRecordWithFlags(end, stream, CU_EVENT_RECORD_EXTERNAL));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent(stream, end, 2));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamWaitEvent(stream, NULL, 0));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventDestroy(NULL));
        OK(cuEventDestroy(start));
        OK(cuEventDestroy(end));
        OK(cuEventDestroy(never));
        OK(cuEventDestroy(untimed));
        OK(cuStreamDestroy(stream));
}

#define MANY 300 /* number of events: more than fit into the page from which the client reads times without a call */

/* Events recorded in sequence: their times do not decrease, and the differences add up. */
static void check_many_times(void)
{
        CUevent events[MANY];
        CUstream stream;
        float whole, part, before = 0;

        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < MANY; i++) {
                OK(cuEventCreate(&events[i], CU_EVENT_DEFAULT));
                OK(cuEventRecord(events[i], stream));
                if (i % 50 == 0)
                        keep_busy(stream, STEPS);
        }
        OK(cuStreamSynchronize(stream));
        OK(cuEventElapsedTime(&whole, events[0], events[MANY - 1]));
        CHECK(whole > 0);
        for (int i = 0; i < MANY; i++) {
                float rest = -1;

                OK(cuEventElapsedTime(&part, events[0], events[i]));
                OK(cuEventElapsedTime(&rest, events[i], events[MANY - 1]));
                CHECK(part >= before && rest >= 0);
                CHECK(part + rest > whole * 0.999f - 0.01f && part + rest < whole * 1.001f + 0.01f);
                before = part;
        }
        /* an event that is recorded again has another time */
        OK(cuEventRecord(events[0], stream));
        OK(cuEventSynchronize(events[0]));
        OK(cuEventElapsedTime(&part, events[0], events[MANY - 1]));
        CHECK(part <= 0);
        for (int i = 0; i < MANY; i++)
                OK(cuEventDestroy(events[i]));
        OK(cuStreamDestroy(stream));
}

/* A destroyed stream completes its work, and an event in it is reached. */
static void check_early_destroy(void)
{
        struct program_gate gate;
        CUstream stream;
        CUevent event;
        CUdeviceptr p;

        MUST(cuMemAlloc(&p, 64));
        OK(cuMemsetD32(p, 3, 16));
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        keep_busy(stream, STEPS);
        gate = program_gate(stream);
        add_to(p, 16, 4, stream);
        OK(cuEventRecord(event, stream));
        OK(cuStreamDestroy(stream));
        EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
        program_gate_open(&gate);
        OK(cuEventSynchronize(event));
        CHECK(first_value(p) == 7);
        program_gate_free(&gate);
        OK(cuEventDestroy(event));
        OK(cuMemFree(p));
}

int main(int argc, char **argv)
{
        CUcontext context;
        CUmodule module;

        program_begin(argc, argv);
        context = program_context();
        module = program_module("prog_basic");
        busy = program_function(module, "prog_busy");
        add = program_function(module, "prog_add");
        MUST(cuMemAlloc(&scratch, 4096));
        for (int i = 0; i < 3; i++)
                check_order();
        check_legacy();
        check_uploads();
        check_early();
        check_attributes();
        check_times();
        check_many_times();
        check_early_destroy();
        for (int i = 0; i < 700; i++) { /* creates and destroys more streams than a session can have at once */
                CUstream stream;

                OK(cuStreamCreate(&stream, i & 1));
                OK(cuStreamDestroy(stream));
        }
        OK(cuCtxSynchronize());
        OK(cuCtxDestroy(context));
        return program_end("streams_events");
}
