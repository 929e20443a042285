/* SPDX-License-Identifier: Apache-2.0 */
/* Grids and blocks of one, two and three dimensions: every thread of every block runs once, with its own indices */
#include "runtime.h"

struct Place {
        unsigned int block, thread;
};

__global__ void place(Place *out, unsigned int *count)
{
        unsigned int b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        unsigned int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
        unsigned int at = b * (blockDim.x * blockDim.y * blockDim.z) + t;

        out[at].block = blockIdx.x | blockIdx.y << 10 | blockIdx.z << 20;
        out[at].thread = threadIdx.x | threadIdx.y << 10 | threadIdx.z << 20;
        atomicAdd(&count[at], 1u);
}

static void run(dim3 grid, dim3 block)
{
        size_t n = size_t(grid.x) * grid.y * grid.z * block.x * block.y * block.z, at = 0;
        unsigned int *count = program_upload(std::vector<unsigned int>(n));
        Place *p;
        bool good = true;

        MUST(cudaMalloc(&p, n * sizeof(Place)));
        LAUNCHED(place<<<grid, block>>>(p, count));
        std::vector<Place> got = program_download(p, n);
        CHECK(program_download(count, n) == std::vector<unsigned int>(n, 1));
        for (unsigned int z = 0; z < grid.z; z++)
                for (unsigned int y = 0; y < grid.y; y++)
                        for (unsigned int x = 0; x < grid.x; x++)
                                for (unsigned int w = 0; w < block.z; w++)
                                        for (unsigned int v = 0; v < block.y; v++)
                                                for (unsigned int u = 0; u < block.x; u++, at++)
                                                        good = good && got[at].block == (x | y << 10 | z << 20) &&
                                                               got[at].thread == (u | v << 10 | w << 20);
        CHECK(good);
        OK(cudaFree(p));
        OK(cudaFree(count));
}

int main()
{
        run(1, 1);
        run(7, 33);
        run(dim3(3, 5), dim3(8, 4));
        run(dim3(2, 3, 4), dim3(4, 3, 2));
        run(dim3(1, 1, 9), dim3(1, 1, 64));
        run(dim3(1, 1000), dim3(1, 2));
        run(2, 1024);
        return program_end("grids");
}
