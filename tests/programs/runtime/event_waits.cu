/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that wait for each other's events: a value passes around a ring, and a step out of order changes it */
#include "runtime.h"

__global__ void step(uint32_t *p, uint32_t factor, uint32_t add, int rounds)
{
        uint32_t v = *p;

        for (int i = 0; i < rounds; i++)
                v = v * factor + add;
        *p = v;
}

static const int streams = 5;

/* In each round, stream k waits for the work of stream k - 1. */
static void ring(unsigned int flags)
{
        cudaStream_t s[streams];
        cudaEvent_t e[streams];
        uint32_t *device, got, expected = 7;

        MUST(cudaMalloc(&device, 4));
        MUST(cudaMemcpy(device, &expected, 4, cudaMemcpyHostToDevice));
        OK(cudaDeviceSynchronize());
        for (int i = 0; i < streams; i++) {
                MUST(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
                MUST(cudaEventCreateWithFlags(&e[i], flags));
        }
        for (int i = 0; i < 40; i++) {
                int k = i % streams, before = (i + streams - 1) % streams;

                if (i > 0)
                        OK(cudaStreamWaitEvent(s[k], e[before], 0));
                LAUNCHED(step<<<1, 1, 0, s[k]>>>(device, 1664525u + 2 * i, 12345u + i, 40 - i));
                OK(cudaEventRecord(e[k], s[k]));
                for (int r = 0; r < 40 - i; r++)
                        expected = expected * (1664525u + 2 * i) + 12345u + i;
        }
        OK(cudaEventSynchronize(e[39 % streams]));
        OK(cudaMemcpy(&got, device, 4, cudaMemcpyDeviceToHost));
        CHECK(got == expected);
        for (int i = 0; i < streams; i++) {
                OK(cudaStreamDestroy(s[i]));
                OK(cudaEventDestroy(e[i]));
        }
        OK(cudaFree(device));
}

/* A wait refers to the work recorded at its call, not to later records of the event. */
static void snapshot()
{
        cudaStream_t a, b;
        cudaEvent_t e;
        uint32_t *device, got[2];

        MUST(cudaMalloc(&device, 8));
        MUST(cudaMemset(device, 0, 8));
        OK(cudaDeviceSynchronize());
        MUST(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
        MUST(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
        MUST(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
        LAUNCHED(step<<<1, 1, 0, a>>>(device, 1, 1, 500));
        OK(cudaEventRecord(e, a));
        OK(cudaStreamWaitEvent(b, e, 0));
        OK(cudaEventRecord(e, b));
        OK(cudaEventDestroy(e));
        OK(cudaMemcpyAsync(device + 1, device, 4, cudaMemcpyDeviceToDevice, b));
        OK(cudaStreamSynchronize(b));
        OK(cudaMemcpy(got, device, 8, cudaMemcpyDeviceToHost));
        CHECK(got[0] == 500 && got[1] == 500);
        OK(cudaStreamDestroy(a));
        OK(cudaStreamDestroy(b));
        OK(cudaFree(device));
}

int main()
{
        ring(cudaEventDefault);
        ring(cudaEventDisableTiming);
        snapshot();
        return program_end("event_waits");
}
