/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: textures and surfaces as objects. */
// targets: sm_75
#include <cstdint>

extern "C" __global__ void texture_fetch(cudaTextureObject_t t, float4 *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = tex1Dfetch<float4>(t, i);
}

extern "C" __global__ void texture_lines(cudaTextureObject_t t, float *out, int4 *integers)
{
        float x = threadIdx.x / 32.0f;

        out[threadIdx.x] = tex1D<float>(t, x) + tex1DLod<float>(t, x, 1) + tex1DGrad<float>(t, x, 0.1f, 0.2f) +
                           tex1DLayered<float>(t, x, 2);
        integers[threadIdx.x] = tex1Dfetch<int4>(t, threadIdx.x);
}

extern "C" __global__ void texture_planes(cudaTextureObject_t t, float2 *out, uint4 *integers)
{
        float x = threadIdx.x / 32.0f, y = blockIdx.x / 8.0f;
        float2 a = tex2D<float2>(t, x, y), b = tex2DLod<float2>(t, x, y, 2), c = tex2DLayered<float2>(t, x, y, 1);
        float2 d = tex2DGrad<float2>(t, x, y, make_float2(x, y), make_float2(y, x)),
               e = tex2DLayeredLod<float2>(t, x, y, 1, 1);

        out[threadIdx.x] = make_float2(a.x + b.x + c.x + d.x + e.x, a.y);
        integers[threadIdx.x] = tex2D<uint4>(t, x, y);
}

extern "C" __global__ void texture_gather(cudaTextureObject_t t, float4 *out, int4 *integers)
{
        float x = threadIdx.x / 32.0f, y = blockIdx.x / 8.0f;
        float4 a = tex2Dgather<float4>(t, x, y, 0), b = tex2Dgather<float4>(t, x, y, 3);

        out[threadIdx.x] = make_float4(a.x, a.y, b.z, b.w);
        integers[threadIdx.x] = tex2Dgather<int4>(t, x, y, 1);
}

extern "C" __global__ void texture_volumes(cudaTextureObject_t t, cudaTextureObject_t cube, float *out)
{
        float x = threadIdx.x / 32.0f, y = blockIdx.x / 8.0f;

        out[threadIdx.x] = tex3D<float>(t, x, y, x) + tex3DLod<float>(t, x, y, y, 1) +
                           texCubemap<float>(cube, x, y, 1) + texCubemapLayered<float>(cube, x, y, 1, 2) +
                           texCubemapLod<float>(cube, x, y, 1, 1);
}

extern "C" __global__ void texture_sparse(cudaTextureObject_t t, float *out, int *resident)
{
        bool there;

        out[threadIdx.x] = tex2D<float>(t, threadIdx.x, 0.5f, &there);
        resident[threadIdx.x] = there;
}

extern "C" __global__ void surface_copy(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int w)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
        uchar4 v = surf2Dread<uchar4>(from, x * 4, y);

        v.x = 255 - v.x;
        if (x < w)
                surf2Dwrite(v, to, x * 4, y, cudaBoundaryModeZero);
}

extern "C" __global__ void surface_kinds(cudaSurfaceObject_t s, int x, float *out)
{
        float4 v;
        short2 h;
        double d;

        surf1Dread(&v, s, x * 16, cudaBoundaryModeClamp);
        surf1Dwrite(v, s, x * 16, cudaBoundaryModeTrap);
        surf3Dread(&h, s, x * 4, 1, 2);
        surf3Dwrite(h, s, x * 4, 2, 1, cudaBoundaryModeClamp);
        surf2DLayeredread(&out[1], s, x * 4, 1, 3);
        surf2DLayeredwrite(out[0], s, x * 4, 1, 3);
        surfCubemapread(&out[2], s, x * 4, 1, 2);
        surf1DLayeredwrite((unsigned char)x, s, x, 1);
        d = v.x + h.y;
        out[3] = (float)d;
}

extern "C" __global__ void surface_queries(cudaTextureObject_t t, cudaSurfaceObject_t s, int *out)
{
        int a, b, c, d;

        asm volatile("txq.width.b32 %0, [%1];" : "=r"(a) : "l"(t));
        asm volatile("txq.height.b32 %0, [%1];" : "=r"(b) : "l"(t));
        asm volatile("suq.width.b32 %0, [%1];" : "=r"(c) : "l"(s));
        asm volatile("suq.channel_order.b32 %0, [%1];" : "=r"(d) : "l"(s));
        out[0] = a + b + c + d;
        asm volatile("{ .reg .pred p, q; istypep.texref p, %1; istypep.surfref q, %2; @p xor.b32 %0, %0, 1; @q xor.b32 "
                     "%0, %0, 2; }"
                     : "+r"(a)
                     : "l"(t), "l"(s));
        out[1] = a;
        asm volatile("sust.p.2d.b32.trap [%0, {%1, %2}], {%3};" ::"l"(s), "r"(a), "r"(b), "r"(c));
        asm volatile("sured.b.add.2d.u32.trap [%0, {%1, %2}], %3;" ::"l"(s), "r"(a), "r"(b), "r"(c));
        asm volatile("sured.p.min.1d.b32.clamp [%0, {%1}], %2;" ::"l"(s), "r"(a), "r"(b));
        asm volatile("sured.b.max.1d.s32.clamp [%0, {%1}], %2;" ::"l"(s), "r"(a), "r"(b));
}
