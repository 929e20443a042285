/* SPDX-License-Identifier: Apache-2.0 */
/* The math library in float and double: each thread evaluates every function at its own argument. */

#define MATH_FLOAT 24
#define MATH_DOUBLE 20

extern "C" __global__ void math_float(const float *x, float *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        float v = x[i], *o = out + (size_t)i * MATH_FLOAT;

        o[0] = sinf(v);
        o[1] = cosf(v);
        o[2] = tanf(v);
        o[3] = expf(v);
        o[4] = exp2f(v);
        o[5] = logf(fabsf(v));
        o[6] = log2f(fabsf(v));
        o[7] = log10f(fabsf(v));
        o[8] = powf(fabsf(v), 1.7f);
        o[9] = sqrtf(fabsf(v));
        o[10] = rsqrtf(fabsf(v));
        o[11] = 1.0f / v;
        o[12] = v / 3.7f;
        o[13] = cbrtf(v);
        o[14] = erff(v);
        o[15] = tanhf(v);
        o[16] = asinf(v * 0.1f);
        o[17] = atan2f(v, 2.0f);
        o[18] = floorf(v);
        o[19] = ceilf(v);
        o[20] = rintf(v);
        o[21] = truncf(v);
        o[22] = fmodf(v, 0.7f);
        o[23] = expm1f(v);
}

extern "C" __global__ void math_double(const double *x, double *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        double v = x[i], *o = out + (size_t)i * MATH_DOUBLE;

        o[0] = sin(v);
        o[1] = cos(v);
        o[2] = tan(v);
        o[3] = exp(v);
        o[4] = exp2(v);
        o[5] = log(fabs(v));
        o[6] = log2(fabs(v));
        o[7] = log10(fabs(v));
        o[8] = pow(fabs(v), 1.7);
        o[9] = sqrt(fabs(v));
        o[10] = rsqrt(fabs(v));
        o[11] = 1.0 / v;
        o[12] = v / 3.7;
        o[13] = cbrt(v);
        o[14] = erf(v);
        o[15] = tanh(v);
        o[16] = floor(v);
        o[17] = rint(v);
        o[18] = fmod(v, 0.7);
        o[19] = fma(v, v, -1.0);
}

/* Intrinsics with a rounding mode: exact to the bit. */
extern "C" __global__ void math_rounding(const float *a, const float *b, const float *c, float *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        float x = a[i], y = b[i], z = c[i], *o = out + (size_t)i * 24;

        o[0] = __fadd_rn(x, y);
        o[1] = __fadd_rz(x, y);
        o[2] = __fadd_ru(x, y);
        o[3] = __fadd_rd(x, y);
        o[4] = __fmul_rn(x, y);
        o[5] = __fmul_rz(x, y);
        o[6] = __fmul_ru(x, y);
        o[7] = __fmul_rd(x, y);
        o[8] = __fmaf_rn(x, y, z);
        o[9] = __fmaf_rz(x, y, z);
        o[10] = __fmaf_ru(x, y, z);
        o[11] = __fmaf_rd(x, y, z);
        o[12] = __fdiv_rn(x, y);
        o[13] = __fdiv_rz(x, y);
        o[14] = __fdiv_ru(x, y);
        o[15] = __fdiv_rd(x, y);
        o[16] = __fsqrt_rn(fabsf(x));
        o[17] = __fsqrt_rz(fabsf(x));
        o[18] = __fsqrt_ru(fabsf(x));
        o[19] = __fsqrt_rd(fabsf(x));
        o[20] = __frcp_rn(x);
        o[21] = __frcp_rz(x);
        o[22] = __saturatef(x);
        o[23] = __fsub_rn(x, z);
}

extern "C" __global__ void math_rounding_double(const double *a, const double *b, const double *c, double *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        double x = a[i], y = b[i], z = c[i], *o = out + (size_t)i * 16;

        o[0] = __dadd_rn(x, y);
        o[1] = __dadd_rz(x, y);
        o[2] = __dadd_ru(x, y);
        o[3] = __dadd_rd(x, y);
        o[4] = __dmul_rz(x, y);
        o[5] = __dmul_ru(x, y);
        o[6] = __fma_rn(x, y, z);
        o[7] = __fma_rz(x, y, z);
        o[8] = __fma_ru(x, y, z);
        o[9] = __fma_rd(x, y, z);
        o[10] = __ddiv_rn(x, y);
        o[11] = __ddiv_rz(x, y);
        o[12] = __dsqrt_rn(fabs(x));
        o[13] = __dsqrt_rd(fabs(x));
        o[14] = __drcp_rn(x);
        o[15] = __drcp_ru(x);
}

/* The hardware's approximations, by intrinsics */
extern "C" __global__ void math_fast(const float *x, float *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        float v = x[i], *o = out + (size_t)i * 9;

        o[0] = __sinf(v);
        o[1] = __cosf(v);
        o[2] = __expf(v);
        o[3] = __logf(fabsf(v));
        o[4] = __log2f(fabsf(v));
        o[5] = __powf(fabsf(v), 0.3f);
        o[6] = __fdividef(v, 3.0f);
        o[7] = __frsqrt_rn(fabsf(v));
        o[8] = __exp10f(v * 0.1f);
}

/* Conversions in every rounding mode, with values out of range and NaN */
extern "C" __global__ void math_convert(const float *f, const double *d, long long *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        long long *o = out + (size_t)i * 22;

        o[0] = __float2int_rn(f[i]);
        o[1] = __float2int_rz(f[i]);
        o[2] = __float2int_ru(f[i]);
        o[3] = __float2int_rd(f[i]);
        o[4] = __float2uint_rz(f[i]);
        o[5] = __float2ll_rn(f[i]);
        o[6] = (long long)__float2ull_rz(f[i]);
        o[7] = __double2int_rn(d[i]);
        o[8] = __double2uint_rz(d[i]);
        o[9] = __double2ll_rd(d[i]);
        o[10] = (long long)__double2ull_ru(d[i]);
        o[11] = __float_as_int(__double2float_rn(d[i]));
        o[12] = __float_as_int(__double2float_rz(d[i]));
        o[13] = __float_as_int(__double2float_ru(d[i]));
        o[14] = __double_as_longlong((double)f[i]);
        o[15] = __float_as_int(__int2float_rz(__float_as_int(f[i])));
        o[16] = __float_as_int(__ll2float_rn(__double_as_longlong(d[i])));
        o[17] = __double_as_longlong(__ull2double_rd((unsigned long long)__double_as_longlong(d[i])));
        o[18] = (signed char)f[i];
        o[19] = (unsigned short)f[i];
        o[20] = __double2hiint(d[i]);
        o[21] = __double2loint(d[i]);
}
