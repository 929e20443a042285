/* SPDX-License-Identifier: Apache-2.0 */
/* Invalid launches: each is refused at once with its own error, and has no other effect */
#include "runtime.h"

__global__ void fill(int *p, int v)
{
        p[blockIdx.x * blockDim.x + threadIdx.x] = v;
}

__global__ void __launch_bounds__(128) bounded(int *p)
{
        p[threadIdx.x] = 1;
}

__global__ void shared_static(int *p)
{
        __shared__ int s[8192];

        s[threadIdx.x] = threadIdx.x;
        __syncthreads();
        p[threadIdx.x] = s[31 - threadIdx.x];
}

__device__ int variable;

static void no_kernel(int *, int)
{
}

#define REFUSED(code, ...)                        \
        do {                                      \
                __VA_ARGS__;                      \
                EXPECT(code, cudaPeekAtLastError()); \
                EXPECT(code, cudaGetLastError()); \
                OK(cudaGetLastError());           \
        } while (0)

static void shapes(int *p)
{
        REFUSED(cudaErrorInvalidValue, fill<<<0, 1>>>(p, 1));
        REFUSED(cudaErrorInvalidValue, fill<<<dim3(1, 0), 1>>>(p, 1));
        REFUSED(cudaErrorInvalidValue, fill<<<1, 0>>>(p, 1));
        REFUSED(cudaErrorInvalidValue, fill<<<1, 1025>>>(p, 1));
        REFUSED(cudaErrorInvalidValue, fill<<<1, dim3(32, 33)>>>(p, 1));
        REFUSED(cudaErrorInvalidValue, fill<<<1, dim3(1, 1, 65)>>>(p, 1));
        REFUSED(cudaErrorInvalidValue, fill<<<dim3(1, 65536), 1>>>(p, 1));
        REFUSED(cudaErrorInvalidValue, fill<<<dim3(1, 1, 65536), 1>>>(p, 1));
        REFUSED(cudaErrorInvalidValue, fill<<<0x80000000u, 1>>>(p, 1));
        REFUSED(cudaErrorInvalidValue, fill<<<1, 1, 300000>>>(p, 1));
        REFUSED(cudaErrorInvalidValue, fill<<<1, 1, 49153>>>(p, 1));
        REFUSED(cudaErrorInvalidValue, shared_static<<<1, 32, 20000>>>(p));
}

static void functions(int *p)
{
        int v = 1;
        void *args[] = {&p, &v};

        EXPECT(cudaErrorInvalidResourceHandle, cudaLaunchKernel((const void *)no_kernel, 1, 1, args, 0, 0));
        EXPECT(cudaErrorInvalidResourceHandle, cudaGetLastError());
        EXPECT(cudaErrorInvalidResourceHandle, cudaLaunchKernel((const void *)&variable, 1, 1, args, 0, 0));
        EXPECT(cudaErrorInvalidResourceHandle, cudaGetLastError());
        EXPECT(cudaErrorInvalidDeviceFunction, cudaLaunchKernel((const void *)nullptr, 1, 1, args, 0, 0));
        EXPECT(cudaErrorInvalidDeviceFunction, cudaGetLastError());
        OK(cudaLaunchKernel((const void *)fill, 1, 4, args, 0, 0));
        EXPECT(cudaErrorInvalidValue, cudaLaunchKernel((const void *)fill, 1, 2048, args, 0, 0));
        EXPECT(cudaErrorInvalidValue, cudaGetLastError());
}

int main()
{
        int *p = program_upload(std::vector<int>(128, 5));

        shapes(p);
        functions(p);
        OK(cudaDeviceSynchronize());
        std::vector<int> expected(128, 5);
        for (int i = 0; i < 4; i++)
                expected[i] = 1;
        CHECK(program_download(p, 128) == expected);
        LAUNCHED(bounded<<<1, 128>>>(p));
        CHECK(program_download(p, 128) == std::vector<int>(128, 1));
        OK(cudaFree(p));
        return program_end("launch_errors");
}
