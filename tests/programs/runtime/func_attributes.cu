/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of a kernel: attributes, name, parameters, handles; and the attributes that can be set */
#include "runtime.h"

struct Big {
        char c;
        double d[3];
};

__global__ void many(char a, int b, double c, Big d, short e, float *f)
{
        *f = a + b + float(c) + float(d.d[2]) + e;
}

__global__ void __launch_bounds__(64) small(float *f)
{
        __shared__ float s[100];

        s[threadIdx.x] = 1;
        __syncthreads();
        *f = s[63 - threadIdx.x];
}

extern "C" __global__ void plain(int *p)
{
        *p = 9;
}

static void attributes()
{
        cudaFuncAttributes a;

        OK(cudaFuncGetAttributes(&a, small));
        CHECK(a.sharedSizeBytes == 400);
        CHECK(a.maxThreadsPerBlock == 64);
        CHECK(a.localSizeBytes == 0);
        CHECK(a.numRegs > 0 && a.numRegs <= 255);
        CHECK(a.binaryVersion == 90 && a.ptxVersion == 90);
        OK(cudaFuncGetAttributes(&a, plain));
        CHECK(a.sharedSizeBytes == 0 && a.maxThreadsPerBlock == 1024 && a.clusterDimMustBeSet == 0);
        CHECK(a.maxDynamicSharedSizeBytes == 49152);
        OK(cudaFuncSetAttribute(plain, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000));
        OK(cudaFuncSetAttribute(plain, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
        OK(cudaFuncGetAttributes(&a, plain));
        CHECK(a.maxDynamicSharedSizeBytes == 100000 && a.preferredShmemCarveout == 50);
        OK(cudaFuncSetCacheConfig(plain, cudaFuncCachePreferL1));
        EXPECT(cudaErrorInvalidValue, cudaFuncSetAttribute(plain, cudaFuncAttributeMaxDynamicSharedMemorySize, 1000000));
        EXPECT(cudaErrorInvalidValue, cudaFuncSetAttribute(plain, (cudaFuncAttribute)0, 1));
        cudaGetLastError();
}

static void parameters()
{
        static const size_t offsets[] = {0, 4, 8, 16, 48, 56}, sizes[] = {1, 4, 8, sizeof(Big), 2, 8};
        size_t offset, size;

        for (size_t i = 0; i < 6; i++) {
                OK(cudaFuncGetParamInfo((const void *)many, i, &offset, &size));
                CHECK(offset == offsets[i] && size == sizes[i]);
        }
        EXPECT(cudaErrorInvalidValue, cudaFuncGetParamInfo((const void *)many, 6, &offset, &size));
        cudaGetLastError();
}

static void handles()
{
        int *p = program_upload(std::vector<int>(1));
        const char *name = nullptr;
        cudaFunction_t function = nullptr;
        cudaKernel_t kernel = nullptr;
        void *args[] = {&p};

        OK(cudaFuncGetName(&name, (const void *)plain));
        CHECK(name && strcmp(name, "plain") == 0);
        OK(cudaGetFuncBySymbol(&function, (const void *)plain));
        OK(cudaGetKernel(&kernel, (const void *)plain));
        CHECK(function && kernel);
        OK(cudaLaunchKernel((const void *)kernel, 1, 1, args, 0, 0));
        CHECK(program_download(p, 1)[0] == 9);
        OK(cudaFree(p));
}

static void wrong()
{
        cudaFuncAttributes a;
        cudaFunction_t function;
        cudaKernel_t kernel;
        const char *name;

        CHECK(cudaFuncGetAttributes(&a, (const void *)wrong) != cudaSuccess);
        CHECK(cudaFuncGetName(&name, (const void *)wrong) != cudaSuccess);
        EXPECT(cudaErrorInvalidDeviceFunction, cudaGetFuncBySymbol(&function, (const void *)wrong));
        EXPECT(cudaErrorInvalidDeviceFunction, cudaGetKernel(&kernel, (const void *)wrong));
        CHECK(cudaFuncSetAttribute((const void *)wrong, cudaFuncAttributePreferredSharedMemoryCarveout, 5) != cudaSuccess);
        CHECK(cudaGetLastError() != cudaSuccess);
        OK(cudaGetLastError());
}

int main()
{
        float *f;
        Big big = {'x', {1, 2, 3}};

        MUST(cudaMalloc(&f, 4));
        LAUNCHED(many<<<1, 1>>>('\2', 100, 0.5, big, -7, f));
        CHECK(program_download(f, 1)[0] == 98.5f);
        OK(cudaFree(f));
        attributes();
        parameters();
        handles();
        wrong();
        return program_end("func_attributes");
}
