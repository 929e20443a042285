/* SPDX-License-Identifier: Apache-2.0 */
/* The legacy default stream: joins blocking streams, before and after, but not non-blocking ones */
#include <atomic>

#include "runtime.h"

static std::atomic<bool> opened;

static void hold(void *)
{
        while (!opened)
                ;
}

__global__ void step(uint32_t *p, uint32_t add, int rounds)
{
        uint32_t v = *p;

        for (int i = 0; i < rounds; i++)
                v = v * 1664525u + add;
        *p = v;
}

static uint32_t stepped(uint32_t v, uint32_t add, int rounds)
{
        for (int i = 0; i < rounds; i++)
                v = v * 1664525u + add;
        return v;
}

/* Three blocking streams and the default stream alternate without events. */
static void joins()
{
        uint32_t *device, got, expected = 0;
        cudaStream_t s[3];

        MUST(cudaMalloc(&device, 4));
        OK(cudaMemset(device, 0, 4));
        for (auto &stream : s)
                MUST(cudaStreamCreate(&stream));
        for (int i = 0; i < 30; i++) {
                LAUNCHED(step<<<1, 1, 0, s[i % 3]>>>(device, i, 60));
                LAUNCHED(step<<<1, 1>>>(device, 1000 + i, 3));
                expected = stepped(stepped(expected, i, 60), 1000 + i, 3);
        }
        OK(cudaMemcpy(&got, device, 4, cudaMemcpyDeviceToHost));
        CHECK(got == expected);
        LAUNCHED(step<<<1, 1, 0, s[0]>>>(device, 5, 500));
        OK(cudaMemcpy(&got, device, 4, cudaMemcpyDeviceToHost));
        CHECK(got == stepped(expected, 5, 500));
        for (auto &stream : s)
                OK(cudaStreamDestroy(stream));
        OK(cudaFree(device));
}

/* While the default stream is held, a blocking stream does not start work, but a non-blocking one does. */
static void held()
{
        cudaStream_t blocking, free_running;
        uint32_t *pinned;

        MUST(cudaMallocHost(&pinned, 256));
        pinned[0] = pinned[1] = 0;
        MUST(cudaStreamCreate(&blocking));
        MUST(cudaStreamCreateWithFlags(&free_running, cudaStreamNonBlocking));
        LAUNCHED(step<<<1, 1, 0, free_running>>>(pinned, 0, 0));
        OK(cudaDeviceSynchronize());
        opened = false;
        OK(cudaLaunchHostFunc(0, hold, NULL));
        LAUNCHED(step<<<1, 1, 0, blocking>>>(pinned, 1, 1));
        LAUNCHED(step<<<1, 1, 0, free_running>>>(pinned + 1, 2, 1));
        OK(cudaStreamSynchronize(free_running));
        CHECK(pinned[1] == 2);
        CHECK(((volatile uint32_t *)pinned)[0] == 0);
        EXPECT(cudaErrorNotReady, cudaStreamQuery(blocking));
        EXPECT(cudaErrorNotReady, cudaStreamQuery(0));
        (void)cudaGetLastError();
        opened = true;
        OK(cudaStreamSynchronize(blocking));
        CHECK(pinned[0] == 1);
        /* holds the blocking stream: the default stream does not start work */
        opened = false;
        OK(cudaLaunchHostFunc(blocking, hold, NULL));
        LAUNCHED(step<<<1, 1>>>(pinned, 5, 1));
        LAUNCHED(step<<<1, 1, 0, free_running>>>(pinned + 1, 0, 1));
        OK(cudaStreamSynchronize(free_running));
        EXPECT(cudaErrorNotReady, cudaStreamQuery(0));
        opened = true;
        OK(cudaDeviceSynchronize());
        CHECK(pinned[0] == 1664525u + 5 && pinned[1] == 2 * 1664525u);
        OK(cudaStreamDestroy(blocking));
        OK(cudaStreamDestroy(free_running));
        OK(cudaFreeHost(pinned));
}

int main()
{
        joins();
        held();
        return program_end("legacy_stream");
}
