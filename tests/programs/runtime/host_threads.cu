/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that all make their first call at the same time and then use the device independently */
#include <thread>

#include "runtime.h"

static __device__ int everybody;

__global__ void work(int *p, int n, int by)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                p[i] = p[i] * by + i;
        if (i == 0)
                atomicAdd(&everybody, by);
}

static void one(int id, int *failures)
{
        const int n = 3000;
        std::vector<int> host(n, id), expected(n, id);
        cudaStream_t stream;
        int device = -1, bad = 0, *p = nullptr;

        bad += cudaMalloc(&p, n * sizeof(int)) != cudaSuccess;
        bad += cudaStreamCreate(&stream) != cudaSuccess;
        bad += cudaMemcpyAsync(p, host.data(), n * sizeof(int), cudaMemcpyHostToDevice, stream) != cudaSuccess;
        for (int r = 1; r <= 10; r++) {
                work<<<(n + 127) / 128, 128, 0, stream>>>(p, n, id);
                bad += cudaGetLastError() != cudaSuccess;
                for (int i = 0; i < n; i++)
                        expected[i] = int(unsigned(expected[i]) * unsigned(id) + unsigned(i));
        }
        bad += cudaMemcpyAsync(host.data(), p, n * sizeof(int), cudaMemcpyDeviceToHost, stream) != cudaSuccess;
        bad += cudaStreamSynchronize(stream) != cudaSuccess;
        bad += host != expected;
        bad += cudaGetDevice(&device) != cudaSuccess || device != 0;
        bad += cudaStreamDestroy(stream) != cudaSuccess;
        bad += cudaFree(p) != cudaSuccess;
        *failures = bad;
}

int main()
{
        std::vector<std::thread> threads;
        int failures[8] = {}, sum = 0;

        for (int i = 0; i < 8; i++)
                threads.emplace_back(one, i + 1, &failures[i]);
        for (std::thread &t : threads)
                t.join();
        for (int f : failures)
                CHECK(f == 0);
        OK(cudaMemcpyFromSymbol(&sum, everybody, sizeof(sum)));
        CHECK(sum == 360);
        return program_end("host_threads");
}
