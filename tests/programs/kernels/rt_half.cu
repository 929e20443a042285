/* SPDX-License-Identifier: Apache-2.0 */
/* Round trip: 16-bit and 8-bit floats. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void rt_half_arith(const __half2 *a, const __half2 *b, __half2 *out, __half *scalar)
{
        int i = threadIdx.x;
        __half2 x = a[i], y = b[i];
        __half p = __low2half(x), q = __high2half(y);

        out[i] = __hfma2(x, y, __hadd2(x, __hmul2(x, y)));
        out[i + 32] = __hadd2_sat(x, y) + __hsub2(x, y) + __h2div(x, y) + __hneg2(x) + __habs2(y);
        out[i + 64] = __hmax2(x, y) + __hmin2(x, y) + h2exp2(x) + h2log2(y) + h2sqrt(x) + h2rcp(y);
        scalar[i] = __hfma_sat(p, q, p) + hexp(p) + hlog(q) + hsin(p) + hcos(q) + hrsqrt(p) + htanh(q);
        scalar[i + 32] = __hlt(p, q) ? hfloor(p) : hceil(q);
        scalar[i + 64] = __hbeq2(x, y) ? p : (__hgtu(p, q) ? q : __hmax_nan(p, q));
        scalar[i + 96] = __float2half_rz(__half2float(p) * 2) + __int2half_rn(__half2int_rn(q)) + __double2half(0.1);
        out[i + 96] = __heq2(x, y) + __hgt2(y, x) + __floats2half2_rn(1.0f, __low2float(x));
        out[i + 128] = __lowhigh2highlow(x) + __halves2half2(p, q) + __hfma2_relu(x, y, x);
}

extern "C" __global__ void rt_bf16_arith(
        const __nv_bfloat162 *a, const __nv_bfloat162 *b, __nv_bfloat162 *out, __nv_bfloat16 *scalar)
{
        int i = threadIdx.x;
        __nv_bfloat162 x = a[i], y = b[i];
        __nv_bfloat16 p = __low2bfloat16(x), q = __high2bfloat16(y);

#if __CUDA_ARCH__ >= 800
        out[i] = __hfma2(x, y, __hadd2(x, __hmul2(x, y)));
        out[i + 32] = __hneg2(x) + __habs2(y);
        scalar[i] = __hfma(p, q, p);
        out[i + 96] = __hmax2(x, y) + __hmin2_nan(x, y) + h2exp(x);
        scalar[i + 96] = hexp2(p) + hlog2(q) + htanh(p);
        scalar[i + 32] = __hle(p, q) ? p : __float2bfloat16_rz(__bfloat162float(q) + 1);
        scalar[i + 64] = __int2bfloat16_rn(__bfloat162int_rz(q)) + __double2bfloat16(0.3);
#endif
        out[i + 64] = __floats2bfloat162_rn(0.5f, __low2float(x));
}

extern "C" __global__ void rt_fp8(const float2 *a, __nv_fp8x2_e4m3 *e4, __nv_fp8x2_e5m2 *e5, __half2 *out)
{
        int i = threadIdx.x;

        e4[i] = __nv_fp8x2_e4m3(a[i]);
        e5[i] = __nv_fp8x2_e5m2(a[i]);
        out[i] = (__half2)e4[i] + (__half2)e5[i];
}

extern "C" __global__ void rt_half_atomics(__half2 *a, __half *b, __nv_bfloat162 *c, float *f, double *d)
{
        atomicAdd(a, __float2half2_rn(1.0f));
        atomicAdd(b, __float2half(2.0f));
        atomicAdd(f, 0.5f);
        atomicAdd(d, 0.25);
#if __CUDA_ARCH__ >= 900
        atomicAdd(c, __float2bfloat162_rn(1.0f));
        f[threadIdx.x] = atomicAdd((float4 *)(f + 64), make_float4(1, 2, 3, 4)).y;
        atomicAdd((float2 *)(f + 128), make_float2(1, 2));
#endif
}
