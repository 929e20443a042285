/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: f16, bf16, their pairs, and the 8-bit formats. */
// targets: sm_80 sm_90
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

template <class T, class T2> __device__ void arithmetic(const T2 *a, const T2 *b, T2 *out)
{
        T2 x = a[threadIdx.x], y = b[threadIdx.x];

        out[threadIdx.x] = __hfma2(x, y, __hadd2(__hmul2(x, y), __hsub2(__h2div(x, y), __hneg2(y))));
}

template <class T, class T2> __device__ void functions(const T2 *in, T2 *out)
{
        T2 x = in[threadIdx.x];

        out[threadIdx.x] = __hadd2(__hadd2(h2exp(x), h2log(x)),
                                   __hadd2(__hadd2(h2sqrt(x), h2rsqrt(x)), __hadd2(h2sin(x), h2cos(x)))) +
                           h2exp2(x) + h2log2(x) + h2rcp(x) + h2floor(x) + h2ceil(x) + h2rint(x) + h2trunc(x) +
                           __habs2(x);
}

template <class T, class T2> __device__ void comparisons(const T2 *a, const T2 *b, int *out, T2 *values)
{
        T2 x = a[threadIdx.x], y = b[threadIdx.x];
        int r = __hblt2(x, y) + 2 * __hbge2(x, y) + 4 * __hbequ2(x, y) + 8 * (__low2half_t(x) > __low2half_t(y));

        values[threadIdx.x] = __hadd2(__hmax2(x, y), __hmin2_nan(x, y)) + __hle2(x, y) + __hneu2(x, y);
        out[threadIdx.x] = r + __hisinf_t(x);
}

__device__ __half __low2half_t(__half2 v)
{
        return __low2half(v);
}
__device__ __nv_bfloat16 __low2half_t(__nv_bfloat162 v)
{
        return __low2bfloat16(v);
}
__device__ int __hisinf_t(__half2 v)
{
        return __hisinf(__high2half(v));
}
__device__ int __hisinf_t(__nv_bfloat162 v)
{
        return __hisinf(__high2bfloat16(v));
}

extern "C" __global__ void half_arithmetic(const __half2 *a, const __half2 *b, __half2 *out)
{
        arithmetic<__half>(a, b, out);
}

extern "C" __global__ void half_functions(const __half2 *in, __half2 *out)
{
        functions<__half>(in, out);
        out[threadIdx.x] += h2tanh(in[threadIdx.x]) + h2exp10(in[threadIdx.x]) + h2log10(in[threadIdx.x]);
}

extern "C" __global__ void half_comparisons(const __half2 *a, const __half2 *b, int *out, __half2 *values)
{
        comparisons<__half>(a, b, out, values);
}

extern "C" __global__ void half_scalar(const __half *a, const __half *b, __half *out)
{
        int i = threadIdx.x;
        __half x = a[i], y = b[i];

        out[i] = x * y + x / y - y + hsqrt(x) + hrsqrt(y) + __hfma_sat(x, y, x) + __hadd_sat(x, y) + __hmul_sat(x, y) +
                 hexp(x) + hlog(y) + hrcp(x);
        if (x > y || __hisnan(x))
                out[i] = __hmax(x, y) + __hmin(x, y) - __habs(x);
        out[i] += __hfma_relu(x, y, x);
}

extern "C" __global__ void half_conversions(const float *in, __half *out, int *integers, float *floats)
{
        int i = threadIdx.x;
        __half h[4] = {__float2half_rn(in[i]), __float2half_rz(in[i]), __float2half_ru(in[i]), __float2half_rd(in[i])};

        out[4 * i] = h[0] + h[1] + h[2] + h[3];
        out[4 * i + 1] = __int2half_rn(i) + __uint2half_rz(i) + __short2half_rn((short)i) + __ll2half_rn(i) +
                         __double2half(in[i]);
        integers[4 * i] = __half2int_rz(h[0]) + __half2int_ru(h[1]);
        integers[4 * i + 1] = (int)__half2uint_rn(h[0]) + __half2short_rd(h[2]);
        integers[4 * i + 2] = (int)(__half2ll_rn(h[0]) + (long long)__half2ull_rz(h[1]));
        integers[4 * i + 3] = __half_as_short(h[3]);
        floats[i] =
                __half2float(h[0]) + __low2float(__floats2half2_rn(in[i], 1)) + __half22float2(__half2half2(h[1])).y;
}

extern "C" __global__ void half_shuffles(__half2 *data, __half *one)
{
        __half2 v = data[threadIdx.x];

        v = __hadd2(v, __shfl_xor_sync(~0u, v, 1));
        v = __hadd2(v, __shfl_down_sync(~0u, v, 2));
        data[threadIdx.x] = __lowhigh2highlow(v);
        one[threadIdx.x] = __shfl_sync(~0u, one[threadIdx.x], 3) + __ldg(&one[5]);
}

extern "C" __global__ void bfloat_arithmetic(const __nv_bfloat162 *a, const __nv_bfloat162 *b, __nv_bfloat162 *out)
{
        arithmetic<__nv_bfloat16>(a, b, out);
}

extern "C" __global__ void bfloat_functions(const __nv_bfloat162 *in, __nv_bfloat162 *out)
{
        functions<__nv_bfloat16>(in, out);
}

extern "C" __global__ void bfloat_comparisons(
        const __nv_bfloat162 *a, const __nv_bfloat162 *b, int *out, __nv_bfloat162 *values)
{
        comparisons<__nv_bfloat16>(a, b, out, values);
}

extern "C" __global__ void bfloat_conversions(const float *in, __nv_bfloat16 *out, int *integers)
{
        int i = threadIdx.x;
        __nv_bfloat16 b = __float2bfloat16_rn(in[i]);

        out[2 * i] = b + __float2bfloat16_rz(in[i]) + __int2bfloat16_rn(i) + __ull2bfloat16_rn(i);
        out[2 * i + 1] = __double2bfloat16(in[i]) + __float2bfloat16_ru(in[i]);
        integers[i] = __bfloat162int_rz(b) + __bfloat162ushort_rn(b) + (int)__bfloat162float(b);
        *(__nv_bfloat162 *)&out[2 * i] = __floats2bfloat162_rn(in[i], in[i + 1]);
}

template <class E> __device__ void eight_bits(const float4 *in, const __half2 *halves, unsigned *out, float *back)
{
        int i = threadIdx.x;
        E e(in[i].x);
        __nv_fp8_interpretation_t kind = sizeof(E) == 1 && E(448.0f).__x == 0x7e ? __NV_E4M3 : __NV_E5M2;

        out[2 * i] = e.__x | __nv_cvt_float2_to_fp8x2(make_float2(in[i].y, in[i].z), __NV_SATFINITE, kind) << 8;
        out[2 * i + 1] = __nv_cvt_halfraw2_to_fp8x2((__half2_raw)halves[i], __NV_SATFINITE, kind);
        back[i] = float(e) +
                  __half2float(__low2half(__half2(__nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)out[2 * i], kind))));
}

extern "C" __global__ void eighth_e4m3(const float4 *in, const __half2 *halves, unsigned *out, float *back)
{
        eight_bits<__nv_fp8_e4m3>(in, halves, out, back);
}

extern "C" __global__ void eighth_e5m2(const float4 *in, const __half2 *halves, unsigned *out, float *back)
{
        eight_bits<__nv_fp8_e5m2>(in, halves, out, back);
}

extern "C" __global__ void half_gemm(const __half2 *a, const __half2 *b, __half2 *c, int n)
{
        int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
        __half2 sum = __float2half2_rn(0);

        for (int k = 0; k < n; k++)
                sum = __hfma2(__half2half2(__low2half(a[i * n + k])), b[k * n + j], sum);
        c[i * n + j] = sum;
}

extern "C" __global__ void half_softmax(const __half *in, __half *out, int n)
{
        float most = -INFINITY, sum = 0;

        for (int i = 0; i < n; i++)
                most = fmaxf(most, __half2float(in[blockIdx.x * n + i]));
        for (int i = threadIdx.x; i < n; i += 32)
                sum += __expf(__half2float(in[blockIdx.x * n + i]) - most);
        for (int step = 16; step; step /= 2)
                sum += __shfl_xor_sync(~0u, sum, step);
        for (int i = threadIdx.x; i < n; i += 32)
                out[blockIdx.x * n + i] = __float2half(__expf(__half2float(in[blockIdx.x * n + i]) - most) / sum);
}
