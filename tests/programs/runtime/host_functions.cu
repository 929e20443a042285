/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions in a stream: each runs after all earlier and before all later work, in every stream
 */
#include <atomic>

#include "runtime.h"

static const int rounds = 20;

struct step {
        int *value;
        int seen, add;
};

static void advance(void *arg)
{
        step *s = (step *)arg;

        s->seen = *s->value;
        *s->value += s->add;
}

__global__ void triple(int *value)
{
        *value = *value * 3;
}

/* Enqueues: copy in, triple, copy out, host adds; the final value proves the order */
static void chain(cudaStream_t s)
{
        step steps[rounds];
        int *host, *device, expected = 1;

        MUST(cudaMallocHost(&host, sizeof(int)));
        MUST(cudaMalloc(&device, sizeof(int)));
        *host = 1;
        for (int i = 0; i < rounds; i++) {
                steps[i] = {host, 0, i + 1};
                OK(cudaMemcpyAsync(device, host, sizeof(int), cudaMemcpyHostToDevice, s));
                LAUNCHED(triple<<<1, 1, 0, s>>>(device));
                OK(cudaMemcpyAsync(host, device, sizeof(int), cudaMemcpyDeviceToHost, s));
                OK(cudaLaunchHostFunc(s, advance, &steps[i]));
        }
        OK(cudaStreamSynchronize(s));
        for (int i = 0; i < rounds; i++) {
                expected = (int)((unsigned int)expected * 3u);
                CHECK(steps[i].seen == expected);
                expected += i + 1;
        }
        CHECK(*host == expected);
        OK(cudaFree(device));
        OK(cudaFreeHost(host));
}

struct shared {
        std::atomic<int> count;
        std::atomic<bool> open;
};

static void bump(void *arg)
{
        ((shared *)arg)->count++;
}

static void wait_open(void *arg)
{
        shared *s = (shared *)arg;

        while (!s->open)
                ;
        s->count++;
}

/* While a host function runs, its stream is not ready, and later work of the stream does not start. */
static void holds()
{
        cudaStream_t a, b;
        shared first = {{0}, {false}}, second = {{0}, {false}};

        MUST(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
        MUST(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
        OK(cudaLaunchHostFunc(a, wait_open, &first));
        OK(cudaLaunchHostFunc(a, bump, &second));
        EXPECT(cudaErrorNotReady, cudaStreamQuery(a));
        (void)cudaGetLastError();
        CHECK(second.count == 0);
        first.open = true;
        OK(cudaStreamSynchronize(a));
        CHECK(first.count == 1 && second.count == 1);
        OK(cudaStreamQuery(a));
        for (int i = 0; i < 50; i++) {
                OK(cudaLaunchHostFunc(a, bump, &first));
                OK(cudaLaunchHostFunc(b, bump, &second));
        }
        OK(cudaDeviceSynchronize());
        CHECK(first.count == 51 && second.count == 51);
        EXPECT(cudaErrorInvalidValue, cudaLaunchHostFunc(a, NULL, &first));
        OK(cudaStreamDestroy(a));
        OK(cudaStreamDestroy(b));
}

int main()
{
        cudaStream_t s;

        chain(0);
        MUST(cudaStreamCreate(&s));
        chain(s);
        OK(cudaStreamDestroy(s));
        holds();
        EXPECT(cudaErrorInvalidValue, cudaGetLastError());
        return program_end("host_functions");
}
