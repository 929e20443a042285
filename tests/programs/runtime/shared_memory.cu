/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory: static, dynamic, both, and a dynamic size above the default limit without the attribute */
#include "runtime.h"

extern __shared__ unsigned char raw[];

__global__ void reverse(int *data, int n)
{
        int *tile = reinterpret_cast<int *>(raw);

        for (int i = threadIdx.x; i < n; i += blockDim.x)
                tile[i] = data[i];
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += blockDim.x)
                data[i] = tile[n - 1 - i];
}

template <typename T>
__global__ void both(T *out)
{
        __shared__ T fixed[32];
        T *tile = reinterpret_cast<T *>(raw);

        fixed[threadIdx.x] = T(threadIdx.x);
        tile[threadIdx.x] = T(100 + threadIdx.x);
        __syncthreads();
        out[threadIdx.x] = fixed[31 - threadIdx.x] + tile[(threadIdx.x + 1) % 32];
}

static void reversed(int n)
{
        std::vector<int> in(n), expected(n);
        int *p;

        for (int i = 0; i < n; i++) {
                in[i] = i * 3;
                expected[n - 1 - i] = i * 3;
        }
        p = program_upload(in);
        LAUNCHED(reverse<<<1, 256, n * sizeof(int)>>>(p, n));
        CHECK(program_download(p, n) == expected);
        OK(cudaFree(p));
}

template <typename T>
static void mixed()
{
        std::vector<T> expected(32);
        T *p;

        for (int i = 0; i < 32; i++)
                expected[i] = T(31 - i) + T(100 + (i + 1) % 32);
        MUST(cudaMalloc(&p, 32 * sizeof(T)));
        LAUNCHED(both<T><<<1, 32, 32 * sizeof(T)>>>(p));
        CHECK(program_download(p, 32) == expected);
        OK(cudaFree(p));
}

int main()
{
        cudaDeviceProp prop;
        cudaFuncAttributes a;
        int most;

        MUST(cudaGetDeviceProperties(&prop, 0));
        most = int(prop.sharedMemPerBlockOptin);
        reversed(7);
        reversed(1024);
        reversed(12288);
        mixed<int>();
        mixed<double>();
        mixed<short>();
        /* one byte above the default limit needs the function attribute */
        reverse<<<1, 32, 49153>>>(nullptr, 0);
        EXPECT(cudaErrorInvalidValue, cudaGetLastError());
        OK(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
        OK(cudaFuncGetAttributes(&a, reverse));
        CHECK(a.maxDynamicSharedSizeBytes == most);
        reversed(most / 4);
        reverse<<<1, 32, most + 1>>>(nullptr, 0);
        EXPECT(cudaErrorInvalidValue, cudaGetLastError());
        EXPECT(cudaErrorInvalidValue, cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1));
        /* static shared memory counts too */
        EXPECT(cudaErrorInvalidValue, cudaFuncSetAttribute(both<double>, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
        cudaGetLastError();
        OK(cudaDeviceSynchronize());
        return program_end("shared_memory");
}
