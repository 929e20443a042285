/* SPDX-License-Identifier: Apache-2.0 */
/* Occupancy: the runtime's results equal those of the toolkit's calculator (cuda_occupancy.h) for the same
 * attributes */
#include <cuda_occupancy.h>

#include "runtime.h"

__global__ void light(int *p)
{
        p[threadIdx.x] = 1;
}

__global__ void __launch_bounds__(256, 2) heavy(double *p)
{
        double v[24];

        for (int i = 0; i < 24; i++)
                v[i] = p[i * blockDim.x + threadIdx.x];
        for (int r = 0; r < 10; r++)
                for (int i = 0; i < 24; i++)
                        v[i] = v[i] * v[(i + r) % 24] + p[r];
        for (int i = 0; i < 24; i++)
                p[i * blockDim.x + threadIdx.x] = v[i];
}

__global__ void tile(float *p)
{
        __shared__ float s[4096];

        s[threadIdx.x] = p[threadIdx.x];
        __syncthreads();
        p[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}

template <typename K>
static void compare(K *kernel, const cudaOccDeviceProp &device, int block, size_t dynamic)
{
        cudaFuncAttributes a;
        cudaOccResult expected;
        cudaOccDeviceState state;
        int blocks = -1;

        MUST(cudaFuncGetAttributes(&a, kernel));
        cudaOccFuncAttributes attributes = a;
        CHECK(cudaOccMaxActiveBlocksPerMultiprocessor(&expected, &device, &attributes, &state, block, dynamic) == CUDA_OCC_SUCCESS);
        OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, block, dynamic));
        if (blocks != expected.activeBlocksPerMultiprocessor)
                printf("blocks of %d threads and %zu bytes: %d, the calculator says %d\n", block, dynamic, blocks,
                        expected.activeBlocksPerMultiprocessor);
        CHECK(blocks == expected.activeBlocksPerMultiprocessor);
}

template <typename K>
static void potential(K *kernel, const cudaDeviceProp &prop)
{
        int grid = 0, block = 0, blocks = 0, limited_grid = 0, limited = 0;
        cudaFuncAttributes a;

        MUST(cudaFuncGetAttributes(&a, kernel));
        OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, kernel));
        CHECK(block > 0 && block <= a.maxThreadsPerBlock && block % 32 == 0);
        OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, block, 0));
        CHECK(grid == blocks * prop.multiProcessorCount);
        OK(cudaOccupancyMaxPotentialBlockSize(&limited_grid, &limited, kernel, 0, 96));
        CHECK(limited > 0 && limited <= 96);
        OK(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, kernel, [](int threads) { return size_t(threads) * 64; }));
        CHECK(block > 0 && block * 64 <= 49152);
}

static void room()
{
        size_t bytes = 0;
        int blocks = 0;

        OK(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, light, 4, 128));
        CHECK(bytes > 40000);
        OK(cudaFuncSetAttribute(light, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
        OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, light, 128, bytes));
        CHECK(blocks == 4);
        EXPECT(cudaErrorInvalidValue, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, light, 0, 0));
        cudaGetLastError();
}

int main()
{
        cudaDeviceProp prop;

        MUST(cudaGetDeviceProperties(&prop, 0));
        cudaOccDeviceProp device = prop;
        for (int block : {1, 32, 33, 64, 96, 128, 200, 256}) {
                for (size_t dynamic : {0, 1000, 10000, 32768}) {
                        compare(light, device, block, dynamic);
                        compare(heavy, device, block, dynamic);
                        compare(tile, device, block, dynamic);
                }
        }
        compare(light, device, 1024, 0);
        compare(tile, device, 512, 0);
        potential(light, prop);
        potential(heavy, prop);
        potential(tile, prop);
        room();
        return program_end("occupancy");
}
