/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: the math library in single precision, with its slow paths, and the intrinsics. */
// targets: sm_75 sm_86+fast
#include <cstdint>

#define UNARY(NAME, EXPRESSION)                                                    \
        extern "C" __global__ void math_##NAME(const float *in, float *out, int n) \
        {                                                                          \
                int i = blockIdx.x * blockDim.x + threadIdx.x;                     \
                if (i < n) {                                                       \
                        float x = in[i];                                           \
                        out[i] = (EXPRESSION);                                     \
                }                                                                  \
        }

UNARY(trigonometric, sinf(x) + cosf(x) * tanf(x))
UNARY(trigonometric_pi, sinpif(x) - cospif(x))
UNARY(inverse_trigonometric, asinf(x) + acosf(x) + atanf(x))
UNARY(hyperbolic, sinhf(x) + coshf(x) + tanhf(x))
UNARY(inverse_hyperbolic, asinhf(x) + acoshf(x) + atanhf(x))
UNARY(exponential, expf(x) + exp2f(x) + exp10f(x) + expm1f(x))
UNARY(logarithmic, logf(x) + log2f(x) + log10f(x) + log1pf(x) + logbf(x))
UNARY(roots, sqrtf(x) + rsqrtf(x) + cbrtf(x) + rcbrtf(x))
UNARY(error, erff(x) + erfcf(x) + erfinvf(x) + erfcinvf(x) + erfcxf(x) + normcdff(x))
UNARY(gamma, tgammaf(x) + lgammaf(x))
UNARY(bessel, j0f(x) + j1f(x) + y0f(x) + y1f(x) + cyl_bessel_i1f(x))
UNARY(rounding, ceilf(x) + floorf(x) + truncf(x) + rintf(x) + nearbyintf(x) + roundf(x))
UNARY(classes, isnan(x) + 2 * isinf(x) + 4 * isfinite(x) + 8 * signbit(x) + fabsf(x))
UNARY(integers, (float)(lrintf(x) + llrintf(x) + lroundf(x) + llroundf(x) + ilogbf(x)))

extern "C" __global__ void math_pairs(const float *a, const float *b, float *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = powf(a[i], b[i]) + atan2f(a[i], b[i]) + hypotf(a[i], b[i]) + fmodf(a[i], b[i]) +
                         remainderf(a[i], b[i]) + fdimf(a[i], b[i]) + copysignf(a[i], b[i]) + nextafterf(a[i], b[i]) +
                         fmaxf(a[i], b[i]) - fminf(b[i], a[i]) + a[i] / b[i];
}

extern "C" __global__ void math_parts(const float *in, float *out, int *exponents, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, e, q;
        float whole, s, c;

        if (i >= n)
                return;
        out[6 * i] = frexpf(in[i], &e);
        exponents[2 * i] = e;
        out[6 * i + 1] = modff(in[i], &whole);
        out[6 * i + 2] = whole + ldexpf(in[i], e) + scalblnf(in[i], 3);
        out[6 * i + 3] = remquof(in[i], 3.0f, &q);
        exponents[2 * i + 1] = q;
        sincosf(in[i], &s, &c);
        out[6 * i + 4] = s;
        out[6 * i + 5] = c;
}

extern "C" __global__ void math_norms(const float4 *in, float *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = norm3df(in[i].x, in[i].y, in[i].z) + rnorm4df(in[i].x, in[i].y, in[i].z, in[i].w) +
                         rhypotf(in[i].x, in[i].w) + normf(4, &in[i].x);
}

extern "C" __global__ void math_series(const float *in, float *out, int n, int order)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = jnf(order, in[i]) + ynf(order, in[i]);
}

extern "C" __global__ void math_intrinsics(const float *a, const float *b, float *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                float x = a[i], y = b[i];

                out[i] = __sinf(x) + __cosf(x) + __tanf(x) + __expf(x) + __exp10f(x) + __logf(x) + __log2f(x) +
                         __log10f(x) + __powf(x, y) + __fdividef(x, y) + __saturatef(x) + __frsqrt_rn(x);
        }
}

extern "C" __global__ void math_rounded(const float *a, const float *b, float4 *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        float x = a[i], y = b[i];

        out[4 * i] = make_float4(__fadd_rn(x, y), __fadd_rz(x, y), __fadd_ru(x, y), __fadd_rd(x, y));
        out[4 * i + 1] = make_float4(__fmul_rn(x, y), __fmul_rz(x, y), __fmaf_ru(x, y, x), __fmaf_rd(x, y, x));
        out[4 * i + 2] = make_float4(__fdiv_rn(x, y), __fdiv_rz(x, y), __fsqrt_ru(x), __fsqrt_rd(x));
        out[4 * i + 3] = make_float4(__frcp_rn(x), __frcp_rz(y), __fsub_ru(x, y), __fsub_rd(x, y));
}

extern "C" __global__ void math_complex(const float2 *in, float2 *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                float2 z = in[i], r;
                float size = hypotf(z.x, z.y), e = expf(z.x);

                r.x = sqrtf((size + z.x) / 2) + e * cosf(z.y) + logf(size);
                r.y = copysignf(sqrtf((size - z.x) / 2), z.y) + e * sinf(z.y) + atan2f(z.y, z.x);
                out[i] = r;
        }
}
