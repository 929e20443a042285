/* SPDX-License-Identifier: Apache-2.0 */
/* Relocatable device code of two files: compiled with -rdc=true, linked by nvcc before the host's linker. */
#include "runtime.h"

__constant__ int factor = 2;
/* parts/rdc_other.cu defines these two */
extern __device__ int state;
extern __device__ int other(int);

__device__ __noinline__ int twice(int v)
{
        return other(factor * v) + state;
}

template <typename T>
__global__ void apply(T *p)
{
        p[threadIdx.x] = T(twice(int(p[threadIdx.x])));
}

int main()
{
        int *p = program_upload(std::vector<int>(4, 20)), three = 3;
        double *q = program_upload(std::vector<double>(4, 1.0));

        LAUNCHED(apply<<<1, 4>>>(p));
        CHECK(program_download(p, 4) == std::vector<int>(4, 45));
        OK(cudaMemcpyToSymbol(factor, &three, sizeof(three)));
        LAUNCHED(apply<<<1, 4>>>(q));
        CHECK(program_download(q, 4) == std::vector<double>(4, 8.0));
        OK(cudaFree(p));
        OK(cudaFree(q));
        return program_end("rdc");
}
