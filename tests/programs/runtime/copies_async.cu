/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous copies: chunks in four streams from and to pinned memory, pageable memory that changes after the call,
 * and work that depends on the copies
 */
#include "runtime.h"

static const int streams = 4, chunk = 3000;

__global__ void churn(uint32_t *p, int n, int rounds)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        for (int r = 0; r < rounds; r++)
                p[i] = p[i] * 1664525u + 1013904223u + i;
}

static uint32_t churned(uint32_t v, int i, int rounds)
{
        for (int r = 0; r < rounds; r++)
                v = v * 1664525u + 1013904223u + i;
        return v;
}

static void chunks()
{
        cudaStream_t s[streams];
        uint32_t *host, *device, seed = 5;
        std::vector<uint32_t> before(streams * chunk);

        MUST(cudaMallocHost(&host, sizeof(uint32_t) * streams * chunk));
        MUST(cudaMalloc(&device, sizeof(uint32_t) * streams * chunk));
        for (int i = 0; i < streams * chunk; i++)
                before[i] = host[i] = program_random(&seed);
        for (int k = 0; k < streams; k++)
                MUST(cudaStreamCreateWithFlags(&s[k], k & 1 ? cudaStreamNonBlocking : cudaStreamDefault));
        for (int k = 0; k < streams; k++) {
                uint32_t *h = host + k * chunk, *d = device + k * chunk;

                OK(cudaMemcpyAsync(d, h, chunk * 4, cudaMemcpyHostToDevice, s[k]));
                LAUNCHED(churn<<<(chunk + 127) / 128, 128, 0, s[k]>>>(d, chunk, 3 + k));
                OK(cudaMemcpyAsync(h, d, chunk * 4, cudaMemcpyDeviceToHost, s[k]));
        }
        for (int k = 0; k < streams; k++) {
                bool good = true;

                OK(cudaStreamSynchronize(s[k]));
                OK(cudaStreamQuery(s[k]));
                for (int i = 0; i < chunk; i++)
                        good = good && host[k * chunk + i] == churned(before[k * chunk + i], i, 3 + k);
                CHECK(good);
                OK(cudaStreamDestroy(s[k]));
        }
        OK(cudaFree(device));
        OK(cudaFreeHost(host));
}

/* When the call returns, the caller may change the pageable memory. */
static void pageable()
{
        std::vector<uint32_t> data(5000), back(5000, 0);
        cudaStream_t s;
        uint32_t *a, *b;
        bool good = true;

        MUST(cudaStreamCreate(&s));
        MUST(cudaMalloc(&a, 20000));
        MUST(cudaMalloc(&b, 20000));
        for (int i = 0; i < 5000; i++)
                data[i] = i * 7;
        LAUNCHED(churn<<<40, 128, 0, s>>>(a, 5000, 50));
        OK(cudaMemcpyAsync(a, data.data(), 20000, cudaMemcpyHostToDevice, s));
        for (auto &v : data)
                v = 0xdeadbeef;
        LAUNCHED(churn<<<40, 128, 0, s>>>(a, 5000, 2));
        OK(cudaMemcpyAsync(b, a, 20000, cudaMemcpyDeviceToDevice, s));
        OK(cudaMemcpyAsync(back.data(), b, 20000, cudaMemcpyDeviceToHost, s));
        for (int i = 0; i < 5000; i++)
                good = good && back[i] == churned(i * 7, i, 2);
        CHECK(good);
        OK(cudaStreamSynchronize(s));
        OK(cudaMemcpyAsync(a, data.data(), 0, cudaMemcpyHostToDevice, s));
        OK(cudaStreamDestroy(s));
        OK(cudaFree(a));
        OK(cudaFree(b));
}

/* A destroyed stream completes its work. */
static void abandoned()
{
        uint32_t *host, *device;
        cudaStream_t s;

        MUST(cudaMallocHost(&host, 4096));
        MUST(cudaMalloc(&device, 4096));
        MUST(cudaStreamCreate(&s));
        memset(host, 0, 4096);
        OK(cudaMemsetAsync(device, 0, 4096, s));
        LAUNCHED(churn<<<8, 128, 0, s>>>(device, 1024, 40));
        OK(cudaMemcpyAsync(host, device, 4096, cudaMemcpyDeviceToHost, s));
        OK(cudaStreamDestroy(s));
        OK(cudaDeviceSynchronize());
        CHECK(host[1023] == churned(0, 1023, 40));
        OK(cudaFree(device));
        OK(cudaFreeHost(host));
}

int main()
{
        chunks();
        pageable();
        abandoned();
        return program_end("copies_async");
}
