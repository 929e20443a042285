/* SPDX-License-Identifier: Apache-2.0 */
/* Round trip: textures, surfaces, cooperative groups and the pipeline interface. */
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_pipeline.h>

namespace cg = cooperative_groups;

extern "C" __global__ void rt_tex(cudaTextureObject_t t, cudaSurfaceObject_t s, float *out)
{
        int i = threadIdx.x;
        float4 v;

        out[i] = tex1Dfetch<float>(t, i) + tex2D<float>(t, i, 0.5f) + tex3D<float>(t, i, 1, 2) +
                 tex2DLod<float>(t, i, 1, 2);
        v = tex2DLayered<float4>(t, i, 1, 3);
        out[i + 32] = v.x + v.w + texCubemap<float>(t, 1, 2, 3) + tex2Dgather<float4>(t, i, 1, 2).z;
        out[i + 64] = tex2DGrad<float>(t, i, 1, make_float2(1, 2), make_float2(3, 4));
        surf2Dwrite(out[i], s, i * 4, 0);
        out[i + 96] = surf2Dread<float>(s, i * 4, 1) + surf1Dread<float4>(s, i * 16).y;
        surf3Dwrite(make_int2(i, 1), s, i * 8, 0, 1, cudaBoundaryModeZero);
}

extern "C" __global__ void rt_groups(const float *in, float *out)
{
        cg::thread_block block = cg::this_thread_block();
        cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
        cg::thread_block_tile<8> part = cg::tiled_partition<8>(warp);
        float v = in[block.thread_rank()];

        v = cg::reduce(warp, v, cg::plus<float>());
        v += part.shfl_down(v, 1);
        if (v > 0) {
                cg::coalesced_group active = cg::coalesced_threads();

                v += active.shfl(v, 0) + (float)active.size();
        }
        block.sync();
        out[block.thread_rank()] = v;
}

extern "C" __global__ void rt_pipeline(const int4 *in, int4 *out)
{
        __shared__ int4 stage[64];

        __pipeline_memcpy_async(&stage[threadIdx.x], &in[threadIdx.x], sizeof(int4));
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        out[threadIdx.x] = stage[63 - threadIdx.x];
}
