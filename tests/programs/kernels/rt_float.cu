/* SPDX-License-Identifier: Apache-2.0 */
/* Round trip: float and double arithmetic in every rounding, conversions, and the math library. */
#include <cstdint>

extern "C" __global__ void rt_rounding(const float *a, const double *d, float *out, double *dout)
{
        int i = threadIdx.x;
        float x = a[i], y = a[i + 1], z = a[i + 2];
        double u = d[i], v = d[i + 1], w = d[i + 2];

        out[i] = __fadd_rn(x, y) + __fadd_rz(x, y) + __fadd_ru(x, y) + __fadd_rd(x, y) + __fsub_rz(x, y);
        out[i + 64] = __fmul_rn(x, y) + __fmul_rz(x, y) + __fmul_ru(x, y) + __fmul_rd(x, y);
        out[i + 128] = __fmaf_rn(x, y, z) + __fmaf_rz(x, y, z) + __fmaf_ru(x, y, z) + __fmaf_rd(x, y, z);
        out[i + 192] = __fdiv_rn(x, y) + __fdiv_rz(x, y) + __fdiv_ru(x, y) + __fdiv_rd(x, y) + __fdividef(x, y);
        out[i + 256] = __frcp_rn(x) + __frcp_rz(x) + __fsqrt_rn(x) + __fsqrt_ru(x) + __frsqrt_rn(x);
        dout[i] = __dadd_rn(u, v) + __dadd_rz(u, v) + __dmul_ru(u, v) + __fma_rd(u, v, w) + __ddiv_rn(u, v);
        dout[i + 64] = __drcp_rn(u) + __dsqrt_rz(v) + __ddiv_ru(u, w) + __dsub_rd(u, v);
}

extern "C" __global__ void rt_math(const float *a, const double *d, float *out, double *dout)
{
        int i = threadIdx.x, e;
        float x = a[i], s, c;
        double u = d[i], ds, dc;

        sincosf(x, &s, &c);
        out[i] = s + c + expf(x) + exp2f(x) + logf(x) + log2f(x) + powf(x, s) + tanhf(x) + erff(x) + atan2f(s, c);
        out[i + 64] = __sinf(x) + __cosf(x) + __expf(x) + __logf(x) + __log2f(x) + __powf(x, 2.5f) + __tanf(x);
        out[i + 128] =
                floorf(x) + ceilf(x) + truncf(x) + rintf(x) + roundf(x) + fabsf(x) + copysignf(x, s) + fmodf(x, 3);
        out[i + 192] = fminf(x, s) + fmaxf(x, c) + fdimf(x, 1) + hypotf(x, s) + cbrtf(x) + rsqrtf(x) + ldexpf(x, 3);
        out[i + 256] =
                __saturatef(x) + (float)isnan(x) + (float)isinf(x) + (float)signbit(x) + frexpf(x, &e) + (float)e;
        sincos(u, &ds, &dc);
        dout[i] = ds + dc + exp(u) + log(u) + pow(u, 1.5) + tanh(u) + erf(u) + fmod(u, 3.0) + cbrt(u) + lgamma(u);
        dout[i + 64] = floor(u) + ceil(u) + trunc(u) + rint(u) + fmin(u, ds) + fmax(u, dc) + rsqrt(u) + sqrt(u);
}

extern "C" __global__ void rt_convert(
        const float *a, const double *d, const int *n, long long *out, float *fout, double *dout, unsigned char *bytes)
{
        int i = threadIdx.x;
        float x = a[i];
        double u = d[i];
        long long wide = n[i] * 3LL;

        out[i] = __float2int_rn(x) + __float2int_rz(x) + __float2int_ru(x) + __float2int_rd(x) + __float2uint_rn(x);
        out[i + 64] = __float2ll_rn(x) + (long long)__float2ull_rz(x) + __double2int_rn(u) + __double2ll_rz(u);
        out[i + 128] = (long long)(unsigned char)x + (short)u + (unsigned short)x + (signed char)n[i];
        fout[i] = __int2float_rn(n[i]) + __int2float_rz(n[i]) + __uint2float_ru(n[i]) + __ll2float_rd(wide) + (float)u;
        fout[i + 64] = __double2float_rz(u) + __double2float_ru(u) + (float)(unsigned long long)wide;
        dout[i] = __int2double_rn(n[i]) + __ll2double_rz(wide) + __ull2double_rn((unsigned long long)wide) + (double)x;
        out[i + 192] = __float_as_int(x) ^ __double_as_longlong(u) ^ __double2hiint(u) ^ __double2loint(u);
        dout[i + 64] = __hiloint2double(n[i], 5) + __int_as_float(n[i]);
        bytes[i] = (unsigned char)(x * 255.0f + 0.5f);
}
