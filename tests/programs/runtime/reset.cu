/* SPDX-License-Identifier: Apache-2.0 */
/* cudaDeviceReset frees everything; afterwards the program can start again, and variables have their initial values */
#include "runtime.h"

__device__ int counter = 7;

__global__ void count(int *out)
{
        *out = atomicAdd(&counter, 1);
}

static int run()
{
        int *p = program_upload(std::vector<int>(1)), v;

        LAUNCHED(count<<<1, 1>>>(p));
        v = program_download(p, 1)[0];
        OK(cudaFree(p));
        return v;
}

int main()
{
        int *before;

        for (int round = 0; round < 3; round++) {
                CHECK(run() == 7);
                CHECK(run() == 8);
                MUST(cudaMalloc(&before, 1 << 20));
                OK(cudaDeviceReset());
                EXPECT(cudaErrorInvalidValue, cudaFree(before));
                EXPECT(cudaErrorInvalidValue, cudaGetLastError());
        }
        OK(cudaDeviceReset());
        OK(cudaDeviceReset());
        OK(cudaSetDevice(0));
        CHECK(run() == 7);
        return program_end("reset");
}
