/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: cooperative groups. */
// targets: sm_75 sm_90
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

extern "C" __global__ void groups_tile_sum(const int *in, int *out)
{
        cg::thread_block_tile<16> tile = cg::tiled_partition<16>(cg::this_thread_block());
        int v = in[cg::this_grid().thread_rank()];

        for (int step = tile.size() / 2; step; step /= 2)
                v += tile.shfl_down(v, step);
        if (tile.thread_rank() == 0)
                out[blockIdx.x * (blockDim.x / 16) + tile.meta_group_rank()] = v;
}

extern "C" __global__ void groups_reduce(const float *in, float *out, const unsigned *bits, unsigned *all)
{
        auto block = cg::this_thread_block();
        auto warp = cg::tiled_partition<32>(block);
        float most = cg::reduce(warp, in[block.thread_rank()], cg::greater<float>());
        unsigned any = cg::reduce(warp, bits[block.thread_rank()], cg::bit_or<unsigned>());

        if (warp.thread_rank() == 0) {
                out[warp.meta_group_rank()] = most;
                all[warp.meta_group_rank()] = any;
        }
}

extern "C" __global__ void groups_scan(const int *in, int *out, int *before)
{
        auto warp = cg::tiled_partition<32>(cg::this_thread_block());

        out[threadIdx.x] = cg::inclusive_scan(warp, in[threadIdx.x], cg::plus<int>());
        before[threadIdx.x] = cg::exclusive_scan(warp, in[threadIdx.x]);
}

extern "C" __global__ void groups_coalesced(const int *in, int *out, int *count)
{
        if (in[threadIdx.x] > 0) {
                cg::coalesced_group active = cg::coalesced_threads();
                int base = 0;

                if (active.thread_rank() == 0)
                        base = atomicAdd(count, active.size());
                out[active.shfl(base, 0) + active.thread_rank()] = in[threadIdx.x];
        }
}

extern "C" __global__ void groups_partitions(const int *in, int *out)
{
        auto warp = cg::tiled_partition<32>(cg::this_thread_block());
        auto same = cg::labeled_partition(warp, in[threadIdx.x] & 3);
        auto odd = cg::binary_partition(warp, (in[threadIdx.x] & 1) != 0);

        out[threadIdx.x] = same.size() * 100 + odd.thread_rank() + same.any(in[threadIdx.x] > 9) + odd.ballot(1);
}

extern "C" __global__ void groups_grid(int *data, int n)
{
        cg::grid_group grid = cg::this_grid();

        for (int step = 1; step < n; step *= 2) {
                int i = grid.thread_rank(), v = i >= step && i < n ? data[i - step] : 0;

                grid.sync();
                if (i < n)
                        data[i] += v;
                grid.sync();
        }
}

extern "C" __global__ void groups_copy(const float4 *in, float4 *out, int each)
{
        extern __shared__ float4 s[];
        auto block = cg::this_thread_block();

        cg::memcpy_async(block, s, in + blockIdx.x * each, sizeof(float4) * each);
        cg::wait(block);
        for (int i = block.thread_rank(); i < each; i += block.size())
                out[blockIdx.x * each + i] = s[each - 1 - i];
}

extern "C" __global__ void groups_votes(const int *in, unsigned *out)
{
        auto tile = cg::tiled_partition<8>(cg::this_thread_block());
        int v = in[threadIdx.x];

        out[threadIdx.x] = tile.match_any(v) + (tile.all(v > 0) ? 1000 : 0) + tile.shfl_xor(v, 3);
#if __CUDA_ARCH__ >= 700
        int same;

        out[threadIdx.x] += tile.match_all(v, same) + same;
#endif
}

extern "C" __global__ void groups_elect(int *out)
{
        auto block = cg::this_thread_block();

        cg::invoke_one(cg::coalesced_threads(), [&] { atomicAdd(out, 1); });
        block.sync();
        auto token = block.barrier_arrive();

        if (block.thread_rank() == 0)
                out[1] = (int)block.num_threads();
        block.barrier_wait(std::move(token));
        out[2 + block.thread_rank()] = out[1];
}
