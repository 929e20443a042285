/* SPDX-License-Identifier: Apache-2.0 */
/* Stream-ordered memory: used and freed among kernels, allocated again, passed to another stream */
#include "runtime.h"

__global__ void fill(uint32_t *p, int n, uint32_t seed)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                p[i] = seed * 2654435761u + i;
}

__global__ void sum(const uint32_t *p, int n, unsigned long long *out)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                atomicAdd(out, (unsigned long long)p[i]);
}

static unsigned long long expected(int n, uint32_t seed)
{
        unsigned long long s = 0;

        for (int i = 0; i < n; i++)
                s += (uint32_t)(seed * 2654435761u + i);
        return s;
}

/* Each round frees its memory before its work has run: the next round may get that memory, and must not disturb the
 * work. */
static void reuse(cudaStream_t s)
{
        const int rounds = 12;
        unsigned long long *sums, got[rounds];

        MUST(cudaMalloc(&sums, sizeof(got)));
        OK(cudaMemset(sums, 0, sizeof(got)));
        for (int i = 0; i < rounds; i++) {
                int n = 1000 + 777 * i;
                uint32_t *p = NULL;

                OK(cudaMallocAsync(&p, n * sizeof(uint32_t), s));
                CHECK(p != NULL && (uintptr_t)p % 256 == 0);
                LAUNCHED(fill<<<(n + 255) / 256, 256, 0, s>>>(p, n, i));
                LAUNCHED(sum<<<(n + 255) / 256, 256, 0, s>>>(p, n, sums + i));
                OK(cudaFreeAsync(p, s));
        }
        OK(cudaStreamSynchronize(s));
        OK(cudaMemcpy(got, sums, sizeof(got), cudaMemcpyDeviceToHost));
        for (int i = 0; i < rounds; i++)
                CHECK(got[i] == expected(1000 + 777 * i, i));
        OK(cudaFree(sums));
}

/* Allocates in one stream; uses and frees in another, after an event. */
static void across()
{
        unsigned long long *out, got;
        cudaStream_t a, b;
        cudaEvent_t e;
        uint32_t *p;

        MUST(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
        MUST(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
        MUST(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
        MUST(cudaMalloc(&out, 8));
        OK(cudaMemset(out, 0, 8));
        OK(cudaDeviceSynchronize());
        OK(cudaMallocAsync(&p, 40000, a));
        LAUNCHED(fill<<<40, 256, 0, a>>>(p, 10000, 3));
        OK(cudaEventRecord(e, a));
        OK(cudaStreamWaitEvent(b, e, 0));
        LAUNCHED(sum<<<40, 256, 0, b>>>(p, 10000, out));
        OK(cudaFreeAsync(p, b));
        OK(cudaStreamSynchronize(b));
        OK(cudaMemcpy(&got, out, 8, cudaMemcpyDeviceToHost));
        CHECK(got == expected(10000, 3));
        OK(cudaStreamDestroy(a));
        OK(cudaStreamDestroy(b));
        OK(cudaEventDestroy(e));
        OK(cudaFree(out));
}

static void wrong(cudaStream_t s)
{
        char local[16], *p = local;

        OK(cudaMallocAsync(&p, 0, s));
        CHECK(p == NULL);
        EXPECT(cudaErrorInvalidValue, cudaMallocAsync((void **)NULL, 16, s));
        OK(cudaFreeAsync(NULL, s));
        EXPECT(cudaErrorInvalidValue, cudaFreeAsync(local, s));
        EXPECT(cudaErrorMemoryAllocation, cudaMallocAsync(&p, (size_t)1 << 50, s));
        OK(cudaMallocAsync(&p, 64, s));
        OK(cudaFreeAsync(p, s));
        EXPECT(cudaErrorInvalidValue, cudaFreeAsync(p, s));
        /* both ways to allocate combine with both ways to free */
        OK(cudaMallocAsync(&p, 64, s));
        OK(cudaStreamSynchronize(s));
        OK(cudaFree(p));
        MUST(cudaMalloc(&p, 64));
        OK(cudaFreeAsync(p, s));
        OK(cudaStreamSynchronize(s));
}

int main()
{
        int has = 0;
        cudaStream_t s;

        MUST(cudaDeviceGetAttribute(&has, cudaDevAttrMemoryPoolsSupported, 0));
        CHECK(has == 1);
        MUST(cudaStreamCreate(&s));
        reuse(0);
        reuse(s);
        across();
        wrong(s);
        OK(cudaStreamDestroy(s));
        return program_end("malloc_async");
}
