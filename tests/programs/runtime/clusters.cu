/* SPDX-License-Identifier: Apache-2.0 */
/* Thread block clusters with the kernel's and with the launch's size; each block reads its neighbour's shared memory */
#include <cooperative_groups.h>

#include "runtime.h"

namespace cg = cooperative_groups;

__device__ void exchange(int *out)
{
        __shared__ int mine;
        cg::cluster_group cluster = cg::this_cluster();
        unsigned int rank = cluster.block_rank(), n = cluster.num_blocks();

        if (threadIdx.x == 0)
                mine = 1000 + blockIdx.x;
        cluster.sync();
        if (threadIdx.x == 0)
                out[blockIdx.x] = *cluster.map_shared_rank(&mine, (rank + 1) % n) * 100 + int(n);
        cluster.sync();
}

__global__ void __cluster_dims__(2, 1, 1) fixed(int *out)
{
        exchange(out);
}

__global__ void loose(int *out)
{
        exchange(out);
}

static bool right(const int *p, int blocks, int size)
{
        std::vector<int> got = program_download(p, blocks);

        for (int i = 0; i < blocks; i++) {
                int neighbour = i / size * size + (i % size + 1) % size;

                if (got[i] != (1000 + neighbour) * 100 + size)
                        return false;
        }
        return true;
}

int main()
{
        cudaLaunchAttribute attribute[1] = {};
        cudaLaunchConfig_t config = {};
        int *p, clusters = 0, largest = 0;

        MUST(cudaMalloc(&p, 64 * sizeof(int)));
        LAUNCHED(fixed<<<6, 32>>>(p));
        CHECK(right(p, 6, 2));
        LAUNCHED(loose<<<5, 32>>>(p));
        CHECK(right(p, 5, 1));
        attribute[0].id = cudaLaunchAttributeClusterDimension;
        attribute[0].val.clusterDim.y = attribute[0].val.clusterDim.z = 1;
        config.gridDim = 16;
        config.blockDim = 64;
        config.attrs = attribute;
        config.numAttrs = 1;
        for (int size : {1, 2, 4, 8}) {
                attribute[0].val.clusterDim.x = size;
                OK(cudaLaunchKernelEx(&config, loose, p));
                CHECK(right(p, 16, size));
                OK(cudaOccupancyMaxActiveClusters(&clusters, loose, &config));
                CHECK(clusters >= 132 / size / 2);
        }
        OK(cudaOccupancyMaxPotentialClusterSize(&largest, loose, &config));
        CHECK(largest == 8);
        attribute[0].val.clusterDim.x = 3;
        CHECK(cudaLaunchKernelEx(&config, loose, p) != cudaSuccess);
        CHECK(cudaGetLastError() != cudaSuccess);
        OK(cudaDeviceSynchronize());
        OK(cudaFree(p));
        return program_end("clusters");
}
