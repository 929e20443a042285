/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thread block clusters: ranks and shapes, distributed shared memory, barriers split into arrive and wait
 *
 * For older targets this file has one kernel, whose name says so.
 */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

/* Writes 16 words per block: its position in its cluster and in its grid */
extern "C" __global__ void cluster_where(unsigned int *out)
{
        unsigned int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z), w[16], explicit_;

        asm("mov.u32 %0, %%clusterid.x;" : "=r"(w[0]));
        asm("mov.u32 %0, %%clusterid.y;" : "=r"(w[1]));
        asm("mov.u32 %0, %%clusterid.z;" : "=r"(w[2]));
        asm("mov.u32 %0, %%nclusterid.x;" : "=r"(w[3]));
        asm("mov.u32 %0, %%nclusterid.y;" : "=r"(w[4]));
        asm("mov.u32 %0, %%nclusterid.z;" : "=r"(w[5]));
        asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(w[6]));
        asm("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(w[7]));
        asm("mov.u32 %0, %%cluster_ctaid.z;" : "=r"(w[8]));
        asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(w[9]));
        asm("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(w[10]));
        asm("mov.u32 %0, %%cluster_nctaid.z;" : "=r"(w[11]));
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(w[12]));
        asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(w[13]));
        asm("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }" : "=r"(explicit_));
        w[14] = explicit_;
        w[15] = block;
        if (threadIdx.x < 16)
                out[block * 16 + threadIdx.x] = w[threadIdx.x];
}

/* The sum over each cluster: its first block reads the others' shared memory */
extern "C" __global__ void cluster_reduce(const int *in, int n, long long *out)
{
        __shared__ long long sums[32];
        cg::cluster_group cluster = cg::this_cluster();
        unsigned int size = cluster.num_blocks(), id = blockIdx.x / size;
        long long sum = 0;

        for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < (unsigned int)n; i += gridDim.x * blockDim.x)
                sum += in[i];
        for (int by = 16; by; by >>= 1)
                sum += __shfl_xor_sync(0xffffffffu, sum, by);
        if (threadIdx.x % 32 == 0)
                sums[threadIdx.x / 32] = sum;
        cluster.sync();
        if (cluster.block_rank() == 0 && threadIdx.x == 0) {
                sum = 0;
                for (unsigned int b = 0; b < size; b++) {
                        const long long *theirs = cluster.map_shared_rank(sums, b);

                        for (unsigned int k = 0; k < blockDim.x / 32; k++)
                                sum += theirs[k];
                }
                out[id] = sum;
        }
        cluster.sync(); /* a block must not exit while another one reads its memory */
}

/* A histogram whose bins are distributed over the blocks of a cluster */
extern "C" __global__ void cluster_histogram(const unsigned int *in, int n, unsigned int *bins, int per_block)
{
        extern __shared__ unsigned int mine[];
        cg::cluster_group cluster = cg::this_cluster();
        unsigned int size = cluster.num_blocks(), rank = cluster.block_rank();

        for (int i = threadIdx.x; i < per_block; i += blockDim.x)
                mine[i] = 0;
        cluster.sync();
        for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < (unsigned int)n; i += gridDim.x * blockDim.x) {
                unsigned int bin = in[i] % (size * per_block);

                atomicAdd(cluster.map_shared_rank(mine, bin / per_block) + bin % per_block, 1u);
        }
        cluster.sync();
        for (int i = threadIdx.x; i < per_block; i += blockDim.x)
                atomicAdd(&bins[rank * per_block + i], mine[i]);
}

/* Values pass around a ring: in each round a block writes to its neighbour's memory, with arrive and wait apart */
extern "C" __global__ void cluster_ring(unsigned int *out, int rounds)
{
        __shared__ unsigned int slot[2][64];
        cg::cluster_group cluster = cg::this_cluster();
        unsigned int rank = cluster.block_rank(), next = (rank + 1) % cluster.num_blocks();
        unsigned int value = blockIdx.x * 1000 + threadIdx.x;

        asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
        /* after this barrier all blocks of the cluster have started */
        asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
        for (int i = 0; i < rounds; i++) {
                cluster.map_shared_rank(&slot[i & 1][0], next)[threadIdx.x] = value;
                asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
                asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
                value = slot[i & 1][threadIdx.x] + 1;
        }
        out[blockIdx.x * blockDim.x + threadIdx.x] = value;
        cluster.sync();
}

/* Queries the address space of pointers: owner and kind. Writes 8 words per block. */
extern "C" __global__ void cluster_addresses(unsigned int *out)
{
        __shared__ unsigned int word;
        cg::cluster_group cluster = cg::this_cluster();
        unsigned int rank = cluster.block_rank(), other = cluster.num_blocks() - 1 - rank, value;
        unsigned int *theirs = cluster.map_shared_rank(&word, other);
        unsigned int mine32 = (unsigned int)__cvta_generic_to_shared(&word), theirs32, of, spaces = 0, p;

        if (threadIdx.x == 0)
                word = 100 + rank;
        cluster.sync();
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs32) : "r"(mine32), "r"(other));
        asm("getctarank.shared::cluster.u32 %0, %1;" : "=r"(of) : "r"(theirs32));
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(theirs32) : "memory");
        asm("{ .reg .pred p; isspacep.shared::cta p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(p) : "l"(&word));
        spaces |= p;
        asm("{ .reg .pred p; isspacep.shared::cluster p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(p) : "l"(&word));
        spaces |= p << 1;
        asm("{ .reg .pred p; isspacep.shared::cluster p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(p) : "l"(theirs));
        spaces |= p << 2;
        asm("{ .reg .pred p; isspacep.shared::cluster p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(p) : "l"(out));
        spaces |= p << 3;
        asm("{ .reg .pred p; isspacep.shared::cta p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(p) : "l"(theirs));
        spaces |= p << 4;
        if (threadIdx.x == 0) {
                unsigned int *o = out + blockIdx.x * 8;

                o[0] = of;
                o[1] = value;
                o[2] = *theirs;
                o[3] = cluster.query_shared_rank(theirs);
                o[4] = spaces;
                o[5] = cluster.map_shared_rank(&word, rank) == &word;
                o[6] = cluster.query_shared_rank(&word);
                o[7] = cluster.dim_threads().x;
        }
        cluster.sync();
}

/* A generic pointer to a block's own shared memory is valid in its neighbour */
extern "C" __global__ void cluster_pointers(unsigned int *out)
{
        __shared__ unsigned int word;
        __shared__ unsigned int *told;
        cg::cluster_group cluster = cg::this_cluster();
        unsigned int next = (cluster.block_rank() + 1) % cluster.num_blocks();

        if (threadIdx.x == 0) {
                word = 7 + cluster.block_rank();
                *cluster.map_shared_rank(&told, next) = &word;
        }
        cluster.sync();
        if (threadIdx.x == 0)
                out[blockIdx.x] = *told;
        cluster.sync();
}

/* A cluster shape that the kernel itself requires */
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_fixed(unsigned int *out)
{
        __shared__ unsigned int word;
        cg::cluster_group cluster = cg::this_cluster();

        if (threadIdx.x == 0)
                word = blockIdx.x;
        cluster.sync();
        if (threadIdx.x == 0)
                out[blockIdx.x] = *cluster.map_shared_rank(&word, cluster.block_rank() ^ 1) * 10 + cluster.num_blocks();
        cluster.sync();
}

/* Some threads of some blocks exit early: the barrier counts the remaining ones */
extern "C" __global__ void cluster_leavers(unsigned int *out)
{
        __shared__ unsigned int count;
        unsigned int rank = cg::this_cluster().block_rank();

        if (threadIdx.x == 0)
                count = 0;
        __syncthreads();
        if (threadIdx.x % 32 >= 32 - rank)
                return;
        asm volatile("barrier.cluster.arrive;" ::: "memory");
        atomicAdd(&count, 1u);
        asm volatile("barrier.cluster.wait;" ::: "memory");
        asm volatile("barrier.cluster.arrive;" ::: "memory");
        asm volatile("barrier.cluster.wait;" ::: "memory");
        if (threadIdx.x == 0)
                out[blockIdx.x] = count;
}
#else
extern "C" __global__ void cluster_none(void)
{
}
#endif
