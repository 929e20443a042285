/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: thread block clusters. */
// targets: sm_90
#include <cooperative_groups.h>
#include <cstdint>

namespace cg = cooperative_groups;

extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_histogram(const unsigned *in, unsigned *out, int n)
{
        __shared__ unsigned bins[64];
        auto cluster = cg::this_cluster();

        if (threadIdx.x < 64)
                bins[threadIdx.x] = 0;
        cluster.sync();
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
                unsigned bin = in[i] & 255;

                atomicAdd(cluster.map_shared_rank(&bins[bin % 64], bin / 64), 1);
        }
        cluster.sync();
        if (threadIdx.x < 64)
                atomicAdd(&out[cluster.block_rank() * 64 + threadIdx.x], bins[threadIdx.x]);
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_sum(const float *in, float *out, int n)
{
        __shared__ float part[32];
        auto cluster = cg::this_cluster();
        float sum = 0;

        for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += gridDim.x * 32)
                sum += in[i];
        part[threadIdx.x] = sum;
        cluster.sync();
        if (cluster.block_rank() == 0) {
                const float *other = cluster.map_shared_rank(part, 1);

                part[threadIdx.x] += other[threadIdx.x];
                __syncwarp();
                if (threadIdx.x == 0) {
                        sum = 0;
                        for (int i = 0; i < 32; i++)
                                sum += part[i];
                        out[blockIdx.x / 2] = sum;
                }
        }
        cluster.sync();
}

extern "C" __global__ void __cluster_dims__(2, 2, 1) cluster_stencil(const float *in, float *out, int w)
{
        __shared__ float tile[8][8];
        auto cluster = cg::this_cluster();
        dim3 at = cluster.block_index();
        int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;

        tile[threadIdx.y][threadIdx.x] = in[y * w + x];
        cluster.sync();
        float right;

        if (threadIdx.x < 7)
                right = tile[threadIdx.y][threadIdx.x + 1];
        else if (at.x == 0)
                right = *cluster.map_shared_rank(&tile[threadIdx.y][0], cluster.block_rank() + 1);
        else
                right = 0;
        out[y * w + x] = right - tile[threadIdx.y][threadIdx.x];
        cluster.sync();
}

extern "C" __global__ void cluster_ranks(unsigned *out)
{
        auto cluster = cg::this_cluster();
        unsigned *mine = out + blockIdx.x * 8, id, shape;

        if (threadIdx.x)
                return;
        mine[0] = cluster.block_rank();
        mine[1] = cluster.num_blocks();
        mine[2] = cluster.thread_rank();
        asm("mov.u32 %0, %%clusterid.x;" : "=r"(id));
        asm("mov.u32 %0, %%nclusterid.x;" : "=r"(shape));
        mine[3] = id;
        mine[4] = shape;
        asm("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(mine[5]));
        asm("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }" : "=r"(mine[6]));
        asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(mine[7]));
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_exchange(int *out)
{
        __shared__ int value;
        __shared__ alignas(8) uint64_t bar;
        uint32_t b = (uint32_t)__cvta_generic_to_shared(&bar), v = (uint32_t)__cvta_generic_to_shared(&value), rank,
                 owner;
        uint64_t far;

        asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        if (threadIdx.x == 0) {
                asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b));
                asm volatile("fence.mbarrier_init.release.cluster;");
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4;" ::"r"(b));
        }
        asm volatile("barrier.cluster.arrive.relaxed.aligned;\n\tbarrier.cluster.wait.aligned;");
        if (threadIdx.x == 0) {
                asm volatile(
                        "{ .reg .b32 a, b; mapa.shared::cluster.u32 a, %0, %2; mapa.shared::cluster.u32 b, %1, %2;\n\t"
                        "st.async.shared::cluster.mbarrier::complete_tx::bytes.s32 [a], %3, [b]; }" ::"r"(v),
                        "r"(b), "r"(rank ^ 1), "r"((int)blockIdx.x));
        }
        asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra L; }" ::"r"(b)
                     : "memory");
        asm volatile("mapa.u64 %0, %1, %2;" : "=l"(far) : "l"(&value), "r"(rank ^ 1));
        asm volatile("getctarank.u64 %0, %1;" : "=r"(owner) : "l"(far));
        out[blockIdx.x * blockDim.x + threadIdx.x] = value + (int)owner;
        asm volatile(
                "{ .reg .b32 a, b; mapa.shared::cluster.u32 a, %0, %1; getctarank.shared::cluster.u32 b, a; }" ::"r"(v),
                "r"(rank));
        asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;");
}
