/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built with --default-stream per-thread: stream 0 is the thread's own in every call, and is still ordered with the
 * legacy stream
 */
#include <thread>

#include "runtime.h"

__global__ void multiply(int *p, int by, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                p[i] *= by;
}

static void one(int id, int *failures)
{
        const int n = 2000;
        std::vector<int> host(n, id), back(n);
        int bad = 0, *p = nullptr;
        unsigned long long mine = 0, named = 1, legacy = 0;

        bad += cudaMalloc(&p, n * sizeof(int)) != cudaSuccess;
        bad += cudaMemcpyAsync(p, host.data(), n * sizeof(int), cudaMemcpyHostToDevice) != cudaSuccess;
        multiply<<<8, 256>>>(p, 3, n);
        bad += cudaGetLastError() != cudaSuccess;
        /* the same stream by its name; then the legacy stream, which is ordered after it */
        multiply<<<8, 256, 0, cudaStreamPerThread>>>(p, 5, n);
        multiply<<<8, 256, 0, cudaStreamLegacy>>>(p, 7, n);
        multiply<<<8, 256>>>(p, 2, n);
        bad += cudaMemcpy(back.data(), p, n * sizeof(int), cudaMemcpyDeviceToHost) != cudaSuccess;
        bad += back != std::vector<int>(n, id * 210);
        bad += cudaMemset(p, 0, n * sizeof(int)) != cudaSuccess;
        bad += cudaStreamSynchronize(0) != cudaSuccess;
        bad += cudaStreamQuery(0) != cudaSuccess;
        bad += cudaStreamGetId(0, &mine) != cudaSuccess || cudaStreamGetId(cudaStreamPerThread, &named) != cudaSuccess;
        bad += cudaStreamGetId(cudaStreamLegacy, &legacy) != cudaSuccess;
        bad += mine != named || mine == legacy;
        bad += cudaFree(p) != cudaSuccess;
        *failures = bad;
}

int main()
{
        std::vector<std::thread> threads;
        int failures[5] = {};

        for (int i = 0; i < 4; i++)
                threads.emplace_back(one, i + 1, &failures[i]);
        one(9, &failures[4]);
        for (std::thread &t : threads)
                t.join();
        for (int f : failures)
                CHECK(f == 0);
        return program_end("per_thread_stream");
}
