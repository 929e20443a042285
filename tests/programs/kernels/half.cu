/* SPDX-License-Identifier: Apache-2.0 */
/* Half and bfloat16: scalar, packed, conversions, comparisons. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void half_scalar(const __half *a, const __half *b, const __half *c, __half *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        __half *o = out + (size_t)i * 10;

        o[0] = __hadd(a[i], b[i]);
        o[1] = __hsub(a[i], b[i]);
        o[2] = __hmul(a[i], b[i]);
        o[3] = __hfma(a[i], b[i], c[i]);
        o[4] = __hneg(a[i]);
        o[5] = __habs(b[i]);
        o[6] = __hlt(a[i], b[i]) ? a[i] : c[i];
        o[7] = __float2half_rn(__half2float(a[i]) * 3.0f);
        o[8] = __hadd_sat(a[i], b[i]);
        o[9] = __float2half_rz(__half2float(b[i]) * 0.3f);
}

extern "C" __global__ void half_packed(const __half2 *a, const __half2 *b, __half2 *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        __half2 *o = out + (size_t)i * 6;

        o[0] = __hadd2(a[i], b[i]);
        o[1] = __hmul2(a[i], b[i]);
        o[2] = __hfma2(a[i], b[i], a[i]);
        o[3] = __hgt2(a[i], b[i]);
        o[4] = __lowhigh2highlow(a[i]);
        o[5] = __hsub2(b[i], a[i]);
}

extern "C" __global__ void bf16_scalar(const __nv_bfloat16 *a, const __nv_bfloat16 *b, const __nv_bfloat16 *c,
                                       __nv_bfloat16 *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        __nv_bfloat16 *o = out + (size_t)i * 6;

        o[0] = __hadd(a[i], b[i]);
        o[1] = __hmul(a[i], b[i]);
#if __CUDA_ARCH__ >= 800
        o[2] = __hfma(a[i], b[i], c[i]);
#else
        o[2] = __float2bfloat16_rn(fmaf(__bfloat162float(a[i]), __bfloat162float(b[i]), __bfloat162float(c[i])));
#endif
        o[3] = __float2bfloat16_rn(__bfloat162float(a[i]) * 3.0f);
        o[4] = __hneg(b[i]);
        o[5] = __hsub(a[i], c[i]);
}

extern "C" __global__ void half_convert(const float *in, const int *ints, unsigned short *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        unsigned short *o = out + (size_t)i * 6;

        o[0] = __half_as_ushort(__float2half_rn(in[i]));
        o[1] = __half_as_ushort(__int2half_rn(ints[i]));
        o[2] = (unsigned short)__half2int_rz(__float2half_rn(in[i]));
        o[3] = __bfloat16_as_ushort(__float2bfloat16(in[i]));
        o[4] = __half_as_ushort(__double2half((double)in[i]));
        o[5] = (unsigned short)__half2short_rn(__float2half_rn(in[i]));
}

/* half storage, float arithmetic; half atomics where the target has such instructions */
extern "C" __global__ void half_dot(const __half *a, const __half *b, float *out, __half2 *packed, int n)
{
        float sum = 0;

        for (int i = threadIdx.x; i < n; i += 32)
                sum = fmaf(__half2float(a[i]), __half2float(b[i]), sum);
        for (int d = 16; d > 0; d /= 2)
                sum += __shfl_xor_sync(0xffffffff, sum, d);
        if (threadIdx.x == 0)
                *out = sum;
        atomicAdd(packed, __floats2half2_rn(1.0f, 0.5f));
}

/* targets from sm_75 only: hardware tanh and exp2 of halves */
extern "C" __global__ void half_math(const __half *in, __half *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        out[4 * i] = hexp2(in[i]);
        out[4 * i + 1] = hsqrt(__habs(in[i]));
        out[4 * i + 2] = hrcp(in[i]);
        out[4 * i + 3] = hfloor(in[i]);
}
