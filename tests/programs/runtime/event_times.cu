/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: status before, during and after, times that never decrease, and errors of events without a time
 */
#include "runtime.h"

__global__ void spin(uint32_t *p, int rounds)
{
        uint32_t v = p[0];

        for (int i = 0; i < rounds; i++)
                v = v * 1664525u + 1013904223u;
        p[0] = v;
}

static uint32_t *device;

static void times(cudaStream_t s)
{
        cudaEvent_t e[4];
        float ms, whole, sum = 0;

        for (auto &event : e)
                MUST(cudaEventCreate(&event));
        for (int i = 0; i < 4; i++) {
                OK(cudaEventRecord(e[i], s));
                LAUNCHED(spin<<<1, 1, 0, s>>>(device, 1000));
        }
        OK(cudaEventSynchronize(e[3]));
        for (int i = 0; i < 3; i++) {
                OK(cudaEventQuery(e[i]));
                OK(cudaEventElapsedTime(&ms, e[i], e[i + 1]));
                CHECK(ms > 0);
                sum += ms;
        }
        OK(cudaEventElapsedTime(&whole, e[0], e[3]));
        CHECK(fabsf(whole - sum) <= 0.01f + 0.001f * whole);
        OK(cudaEventElapsedTime(&ms, e[1], e[1]));
        CHECK(ms == 0);
        OK(cudaEventElapsedTime(&ms, e[3], e[0]));
        CHECK(ms < 0);
        for (auto &event : e)
                OK(cudaEventDestroy(event));
}

/* Records one event several times: only the last record counts. */
static void again(cudaStream_t s)
{
        cudaEvent_t a, b;
        float ms;

        MUST(cudaEventCreate(&a));
        MUST(cudaEventCreateWithFlags(&b, cudaEventBlockingSync));
        OK(cudaEventRecord(b, s));
        OK(cudaEventRecord(a, s));
        LAUNCHED(spin<<<1, 1, 0, s>>>(device, 1000));
        OK(cudaEventRecord(b, s));
        OK(cudaEventSynchronize(b));
        OK(cudaEventElapsedTime(&ms, a, b));
        CHECK(ms > 0);
        OK(cudaEventDestroy(a));
        OK(cudaEventRecord(b, s));
        OK(cudaEventDestroy(b));
        OK(cudaStreamSynchronize(s));
}

static void wrong(cudaStream_t s)
{
        cudaEvent_t e, never, untimed;
        float ms;

        EXPECT(cudaErrorInvalidValue, cudaEventCreate(NULL));
        EXPECT(cudaErrorInvalidValue, cudaEventCreateWithFlags(&e, 0x100));
        EXPECT(cudaErrorInvalidValue, cudaEventCreateWithFlags(&e, cudaEventInterprocess));
        MUST(cudaEventCreate(&e));
        MUST(cudaEventCreate(&never));
        MUST(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
        OK(cudaEventQuery(never));
        OK(cudaEventSynchronize(never));
        OK(cudaStreamWaitEvent(s, never, 0));
        EXPECT(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, e, never));
        OK(cudaEventRecord(e, s));
        OK(cudaEventRecord(untimed, s));
        OK(cudaStreamSynchronize(s));
        EXPECT(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, e, never));
        EXPECT(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, e, untimed));
        EXPECT(cudaErrorInvalidValue, cudaEventElapsedTime(NULL, e, e));
        EXPECT(cudaErrorInvalidResourceHandle, cudaEventRecord(NULL, s));
        EXPECT(cudaErrorInvalidResourceHandle, cudaStreamWaitEvent(s, NULL, 0));
        EXPECT(cudaErrorInvalidValue, cudaStreamWaitEvent(s, e, 7));
        EXPECT(cudaErrorInvalidResourceHandle, cudaEventDestroy(NULL));
        EXPECT(cudaErrorInvalidValue, cudaEventRecordWithFlags(e, s, 5));
        EXPECT(cudaErrorIllegalState, cudaEventRecordWithFlags(e, s, cudaEventRecordExternal));
        OK(cudaEventRecordWithFlags(e, s, cudaEventRecordDefault));
        OK(cudaEventSynchronize(e));
        OK(cudaEventDestroy(e));
        OK(cudaEventDestroy(never));
        OK(cudaEventDestroy(untimed));
}

int main()
{
        cudaStream_t s;

        MUST(cudaMalloc(&device, 256));
        MUST(cudaMemset(device, 0, 256));
        MUST(cudaStreamCreate(&s));
        times(0);
        times(s);
        again(s);
        wrong(s);
        OK(cudaStreamDestroy(s));
        OK(cudaFree(device));
        return program_end("event_times");
}
