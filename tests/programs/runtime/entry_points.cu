/* SPDX-License-Identifier: Apache-2.0 */
/* Driver functions found by name, and both APIs in one program: they share contexts, memory, streams and kernels */
#include <cuda.h>

#include "runtime.h"

__global__ void add(int *p, int v)
{
        *p += v;
}

template <typename F>
static F find(const char *name, unsigned int version)
{
        cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
        void *f = nullptr;

        OK(cudaGetDriverEntryPointByVersion(name, &f, version, cudaEnableDefault, &found));
        if (!f || found != cudaDriverEntryPointSuccess) {
                printf("%s is not there\nFAIL\n", name);
                exit(1);
        }
        return (F)f;
}

int main()
{
        auto get_current = find<CUresult (*)(CUcontext *)>("cuCtxGetCurrent", 4000);
        auto alloc = find<CUresult (*)(CUdeviceptr *, size_t)>("cuMemAlloc", 3020);
        auto release = find<CUresult (*)(CUdeviceptr)>("cuMemFree", 3020);
        auto launch = find<CUresult (*)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                unsigned int, CUstream, void **, void **)>("cuLaunchKernel", 4000);
        auto retain = find<CUresult (*)(CUcontext *, CUdevice)>("cuDevicePrimaryCtxRetain", 7000);
        auto undo = find<CUresult (*)(CUdevice)>("cuDevicePrimaryCtxRelease", 11000);
        CUcontext current = nullptr, primary = nullptr;
        cudaFunction_t function;
        cudaStream_t stream;
        CUdeviceptr p = 0;
        int v = 5;

        MUST(cudaFree(nullptr));
        CHECK(get_current(&current) == CUDA_SUCCESS && current);
        CHECK(retain(&primary, 0) == CUDA_SUCCESS && primary == current);
        CHECK(undo(0) == CUDA_SUCCESS);
        CHECK(alloc(&p, 64) == CUDA_SUCCESS);
        OK(cudaMemset((void *)p, 0, 64));
        MUST(cudaStreamCreate(&stream));
        MUST(cudaGetFuncBySymbol(&function, (const void *)add));
        void *args[] = {&p, &v};
        OK(cudaStreamSynchronize(0));
        CHECK(launch((CUfunction)function, 1, 1, 1, 1, 1, 1, 0, (CUstream)stream, args, nullptr) == CUDA_SUCCESS);
        LAUNCHED(add<<<1, 1, 0, stream>>>((int *)p, 30));
        OK(cudaStreamSynchronize(stream));
        CHECK(program_download((int *)p, 1)[0] == 35);
        CHECK(release(p) == CUDA_SUCCESS);
        OK(cudaStreamDestroy(stream));
        cudaDriverEntryPointQueryResult found;
        void *f = (void *)1;
        OK(cudaGetDriverEntryPointByVersion("cuNoSuchFunction", &f, 12000, cudaEnableDefault, &found));
        CHECK(found == cudaDriverEntryPointSymbolNotFound && !f);
        return program_end("entry_points");
}
