/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of memory and copy calls, one by one: the code, that it is the last error once, and that nothing else changes
 */
#include "runtime.h"

/* checks that a call returns this error, and that it is the last error once */
#define FAILS(code, ...)                             \
        do {                                         \
                EXPECT(code, __VA_ARGS__);           \
                EXPECT(code, cudaPeekAtLastError()); \
                EXPECT(code, cudaGetLastError());    \
                OK(cudaGetLastError());              \
        } while (0)

__device__ int variable[16];

static void allocations(char *local)
{
        char *p = local, *q;
        size_t pitch;

        OK(cudaMalloc(&p, 0));
        CHECK(p == NULL);
        FAILS(cudaErrorInvalidValue, cudaMalloc((void **)NULL, 4));
        FAILS(cudaErrorMemoryAllocation, cudaMalloc(&p, (size_t)1 << 50));
        OK(cudaMallocPitch(&p, &pitch, 0, 4));
        CHECK(p == NULL && pitch == 0);
        FAILS(cudaErrorInvalidValue, cudaMallocPitch((void **)NULL, &pitch, 5, 5));
        FAILS(cudaErrorInvalidValue, cudaMallocPitch((void **)&p, (size_t *)NULL, 5, 5));
        OK(cudaFree(NULL));
        FAILS(cudaErrorInvalidValue, cudaFree(local));
        FAILS(cudaErrorInvalidValue, cudaFree((void *)0x12345000));
        MUST(cudaMalloc(&p, 4096));
        FAILS(cudaErrorInvalidValue, cudaFree(p + 16));
        FAILS(cudaErrorInvalidValue, cudaFreeHost(p));
        MUST(cudaMallocHost(&q, 4096));
        FAILS(cudaErrorInvalidValue, cudaFree(q));
        OK(cudaFreeHost(q));
        FAILS(cudaErrorInvalidValue, cudaFreeHost(q));
        OK(cudaFree(p));
        FAILS(cudaErrorInvalidValue, cudaFree(p));
}

static void copies(char *local)
{
        char *p, *h;

        MUST(cudaMalloc(&p, 4096));
        MUST(cudaMallocHost(&h, 4096));
        FAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpy(p, local, 16, (cudaMemcpyKind)5));
        FAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpy(p, local, 16, (cudaMemcpyKind)-1));
        FAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpyAsync(p, h, 16, (cudaMemcpyKind)9, 0));
        FAILS(cudaErrorInvalidValue, cudaMemcpy(NULL, local, 16, cudaMemcpyHostToDevice));
        FAILS(cudaErrorInvalidValue, cudaMemcpy(p, NULL, 16, cudaMemcpyHostToDevice));
        FAILS(cudaErrorInvalidValue, cudaMemcpy(NULL, local, 16, cudaMemcpyHostToHost));
        OK(cudaMemcpy(NULL, NULL, 0, cudaMemcpyHostToDevice));
        OK(cudaMemcpy(NULL, NULL, 0, (cudaMemcpyKind)5));
        FAILS(cudaErrorInvalidValue, cudaMemcpy(local, local + 16, 16, cudaMemcpyHostToDevice));
        FAILS(cudaErrorInvalidValue, cudaMemcpy(p, local, 16, cudaMemcpyDeviceToHost));
        FAILS(cudaErrorInvalidValue, cudaMemset(p, 0, 8 << 20));
        OK(cudaFree(p));
        OK(cudaFreeHost(h));
}

static void symbols(char *local)
{
        void *p;

        FAILS(cudaErrorInvalidValue, cudaMemcpyToSymbol(variable, local, 64, 4));
        FAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpyToSymbol(variable, local, 64, 0, cudaMemcpyDeviceToHost));
        FAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpyFromSymbol(local, variable, 16, 0, cudaMemcpyHostToDevice));
        FAILS(cudaErrorInvalidSymbol, cudaMemcpyToSymbol((const void *)local, local, 4));
        FAILS(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&p, (const void *)local));
        OK(cudaMemcpyToSymbol(variable, local, 64));
        OK(cudaMemcpyFromSymbol(local + 64, variable, 64, 0, cudaMemcpyDefault));
        SAME(local, local + 64, 64);
}

int main()
{
        char local[256];

        for (int i = 0; i < 256; i++)
                local[i] = i;
        allocations(local);
        copies(local);
        symbols(local);
        return program_end("memory_errors");
}
