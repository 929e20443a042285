/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: the math library in double precision. */
// targets: sm_80
#include <cstdint>

#define UNARY(NAME, EXPRESSION)                                                       \
        extern "C" __global__ void mathd_##NAME(const double *in, double *out, int n) \
        {                                                                             \
                int i = blockIdx.x * blockDim.x + threadIdx.x;                        \
                if (i < n) {                                                          \
                        double x = in[i];                                             \
                        out[i] = (EXPRESSION);                                        \
                }                                                                     \
        }

UNARY(trigonometric, sin(x) + cos(x) * tan(x))
UNARY(trigonometric_pi, sinpi(x) - cospi(x))
UNARY(inverse_trigonometric, asin(x) + acos(x) + atan(x))
UNARY(hyperbolic, sinh(x) + cosh(x) + tanh(x))
UNARY(inverse_hyperbolic, asinh(x) + acosh(x) + atanh(x))
UNARY(exponential, exp(x) + exp2(x) + exp10(x) + expm1(x))
UNARY(logarithmic, log(x) + log2(x) + log10(x) + log1p(x) + logb(x))
UNARY(roots, sqrt(x) + rsqrt(x) + cbrt(x) + rcbrt(x))
UNARY(error, erf(x) + erfc(x) + erfinv(x) + erfcinv(x) + erfcx(x) + normcdf(x))
UNARY(gamma, tgamma(x) + lgamma(x))
UNARY(bessel, j0(x) + j1(x) + y0(x) + y1(x) + cyl_bessel_i1f(x))
UNARY(rounding, ceil(x) + floor(x) + trunc(x) + rint(x) + nearbyint(x) + round(x))
UNARY(classes, isnan(x) + 2 * isinf(x) + 4 * isfinite(x) + 8 * signbit(x) + fabs(x))
UNARY(integers, (double)(lrint(x) + llrint(x) + lround(x) + llround(x) + ilogb(x)))

extern "C" __global__ void mathd_pairs(const double *a, const double *b, double *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = pow(a[i], b[i]) + atan2(a[i], b[i]) + hypot(a[i], b[i]) + fmod(a[i], b[i]) +
                         remainder(a[i], b[i]) + fdim(a[i], b[i]) + copysign(a[i], b[i]) + nextafter(a[i], b[i]) +
                         fmax(a[i], b[i]) - fmin(b[i], a[i]) + a[i] / b[i];
}

extern "C" __global__ void mathd_parts(const double *in, double *out, int *exponents, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, e, q;
        double whole, s, c;

        if (i >= n)
                return;
        out[6 * i] = frexp(in[i], &e);
        exponents[2 * i] = e;
        out[6 * i + 1] = modf(in[i], &whole);
        out[6 * i + 2] = whole + ldexp(in[i], e) + scalbln(in[i], 3);
        out[6 * i + 3] = remquo(in[i], 3.0, &q);
        exponents[2 * i + 1] = q;
        sincos(in[i], &s, &c);
        out[6 * i + 4] = s;
        out[6 * i + 5] = c;
}

extern "C" __global__ void mathd_norms(const double4_16a *in, double *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = norm3d(in[i].x, in[i].y, in[i].z) + rnorm4d(in[i].x, in[i].y, in[i].z, in[i].w) +
                         rhypot(in[i].x, in[i].w) + norm(4, &in[i].x);
}

extern "C" __global__ void mathd_series(const double *in, double *out, int n, int order)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = jn(order, in[i]) + yn(order, in[i]);
}

extern "C" __global__ void mathd_rounded(const double *a, const double *b, double4_16a *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        double x = a[i], y = b[i];

        out[4 * i] = make_double4_16a(__dadd_rn(x, y), __dadd_rz(x, y), __dadd_ru(x, y), __dadd_rd(x, y));
        out[4 * i + 1] = make_double4_16a(__dmul_rn(x, y), __dmul_rz(x, y), __fma_ru(x, y, x), __fma_rd(x, y, x));
        out[4 * i + 2] = make_double4_16a(__ddiv_rn(x, y), __ddiv_rz(x, y), __dsqrt_ru(x), __dsqrt_rd(x));
        out[4 * i + 3] = make_double4_16a(__drcp_rn(x), __drcp_rz(y), __dsub_ru(x, y), __dsub_rd(x, y));
}
