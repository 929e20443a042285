/* SPDX-License-Identifier: Apache-2.0 */
/* Host threads, each with its own stream, memory and last error, and one stream that all of them use */
#include <atomic>
#include <thread>

#include "runtime.h"

static const int threads = 6, n = 2000;

__global__ void add(int *p, int n, int v)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                p[i] += v;
}

__global__ void count(unsigned int *counter)
{
        atomicAdd(counter, 1);
}

struct result {
        bool good, errors_apart;
};

/* Returns its result in *ret, because only the main thread counts checks. */
static void work(int k, cudaStream_t common, unsigned int *counter, result *ret)
{
        std::vector<int> v(n);
        cudaStream_t s;
        bool good = true;
        int *p;

        good = good && cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess;
        good = good && cudaMalloc(&p, n * sizeof(int)) == cudaSuccess;
        good = good && cudaMemsetAsync(p, 0, n * sizeof(int), s) == cudaSuccess;
        for (int i = 0; i < 15; i++) {
                add<<<(n + 127) / 128, 128, 0, s>>>(p, n, k * i + 1);
                count<<<1, 1, 0, common>>>(counter);
                good = good && cudaGetLastError() == cudaSuccess;
        }
        if (k == 0)
                cudaMalloc((void **)NULL, 1);
        good = good && cudaMemcpyAsync(v.data(), p, n * sizeof(int), cudaMemcpyDeviceToHost, s) == cudaSuccess;
        good = good && cudaStreamSynchronize(s) == cudaSuccess;
        for (int i = 0; i < n; i++)
                good = good && v[i] == k * 105 + 15;
        good = good && cudaFree(p) == cudaSuccess && cudaStreamDestroy(s) == cudaSuccess;
        ret->good = good;
        ret->errors_apart = cudaGetLastError() == (k == 0 ? cudaErrorInvalidValue : cudaSuccess);
}

int main()
{
        std::vector<std::thread> all;
        result results[threads];
        unsigned int *counter;
        cudaStream_t common;

        MUST(cudaMalloc(&counter, sizeof(*counter)));
        OK(cudaMemset(counter, 0, sizeof(*counter)));
        OK(cudaDeviceSynchronize());
        MUST(cudaStreamCreateWithFlags(&common, cudaStreamNonBlocking));
        for (int k = 0; k < threads; k++)
                all.emplace_back(work, k, common, counter, &results[k]);
        for (auto &t : all)
                t.join();
        OK(cudaStreamSynchronize(common));
        CHECK(program_download(counter, 1)[0] == threads * 15);
        for (auto &r : results) {
                CHECK(r.good);
                CHECK(r.errors_apart);
        }
        OK(cudaGetLastError());
        OK(cudaStreamDestroy(common));
        OK(cudaFree(counter));
        return program_end("thread_streams");
}
