/* SPDX-License-Identifier: Apache-2.0 */
/* Registered host memory: synchronous and asynchronous copies from and to it, and errors */
#include "runtime.h"

__global__ void add_one(uint32_t *p, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                p[i]++;
}

int main()
{
        const int n = 20000;
        uint32_t *host = (uint32_t *)aligned_alloc(4096, 81920), *device;
        cudaStream_t s;
        bool good = true;
        char *pinned;

        MUST(cudaStreamCreate(&s));
        MUST(cudaMalloc(&device, n * 4));
        for (int i = 0; i < n; i++)
                host[i] = i;
        OK(cudaHostRegister(host, 81920, cudaHostRegisterDefault));
        EXPECT(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(host, 81920, 0));
        EXPECT(cudaErrorHostMemoryAlreadyRegistered, cudaGetLastError());
        for (int turn = 0; turn < 3; turn++) {
                OK(cudaMemcpyAsync(device, host, n * 4, cudaMemcpyHostToDevice, s));
                LAUNCHED(add_one<<<(n + 255) / 256, 256, 0, s>>>(device, n));
                OK(cudaMemcpyAsync(host, device, n * 4, cudaMemcpyDeviceToHost, s));
        }
        OK(cudaStreamSynchronize(s));
        for (int i = 0; i < n; i++)
                good = good && host[i] == (uint32_t)i + 3;
        CHECK(good);
        OK(cudaHostUnregister(host));
        EXPECT(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(host));
        CHECK(host[n - 1] == n + 2);
        EXPECT(cudaErrorInvalidValue, cudaHostRegister(NULL, 16, 0));
        EXPECT(cudaErrorInvalidValue, cudaHostRegister(host, 0, 0));
        EXPECT(cudaErrorInvalidValue, cudaHostRegister(host, 16, 0x1000));
        MUST(cudaMallocHost(&pinned, 4096));
        EXPECT(cudaErrorInvalidValue, cudaHostUnregister(pinned));
        OK(cudaFreeHost(pinned));
        OK(cudaFree(device));
        OK(cudaStreamDestroy(s));
        free(host);
        return program_end("host_register");
}
