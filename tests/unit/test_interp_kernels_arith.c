/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The corpus in the interpreter, part four: the math library, rounding, conversions, integers, half precision
 *
 * Everything that IEEE or PTX defines is compared bit by bit, with the C library's rounding modes as reference. Library
 * functions are compared with the C library's within the error that CUDA documents (a few units in the last place).
 */
#include <fenv.h>
#include <limits.h>

#include "tests/support/interp_harness.h"

static uint32_t bits32(float x)
{
        uint32_t u;

        memcpy(&u, &x, 4);
        return u;
}

static uint64_t bits64(double x)
{
        uint64_t u;

        memcpy(&u, &x, 8);
        return u;
}

static float as_float(uint32_t u)
{
        float x;

        memcpy(&x, &u, 4);
        return x;
}

static double as_double(uint64_t u)
{
        double x;

        memcpy(&x, &u, 8);
        return x;
}

/* Whether a result is within `ulps` of the exact value; infinities and NaN must agree */
static int close32(float got, double want, double ulps)
{
        float w = (float)want;

        if (want != want)
                return got != got;
        if (isinf(w) || isinf(got))
                return got == w || (isinf(w) && fabsf(got) > 3.4e38f);
        return fabs(got - want) <= ulps * fmax(ldexp(fabs(want), -23), 1e-45);
}

static int close64(double got, double want, double ulps)
{
        if (want != want)
                return got != got;
        if (isinf(want) || isinf(got))
                return got == want;
        return fabs(got - want) <= ulps * fmax(ldexp(fabs(want), -52), 5e-324);
}

/* --- the math library --- */
static void float_body(struct rig *r)
{
        int n = 400;
        float *x = rig_floats(r, 400, 9, 1), *out = rig_alloc(r, 400 * 24 * 4);

        x[0] = 0.5f;
        x[1] = 3.0f;
        x[2] = -1.0f;
        x[3] = 1e-3f;
        x[4] = 100000.0f; /* large enough for the slow argument reduction of sine and cosine */
        x[5] = 88.0f;
        rig_run(r, "math_float", RIG_DIM1(4), RIG_DIM1(128), 0, RIG_ARGS(&x, &out, &n));
        for (int i = 0; i < n; i++) {
                float *o = out + i * 24;
                double v = x[i], a = fabs(v);

                cr_assert(close32(o[0], sin(v), 3), "sin %g: %g", v, o[0]);
                cr_assert(close32(o[1], cos(v), 3), "cos %g: %g", v, o[1]);
                cr_assert(close32(o[2], tan(v), 5), "tan %g: %g", v, o[2]);
                cr_assert(close32(o[3], exp(v), 3), "exp %g: %g", v, o[3]);
                cr_assert(close32(o[4], exp2(v), 3), "exp2 %g: %g", v, o[4]);
                cr_assert(close32(o[5], log(a), 3) && close32(o[6], log2(a), 3) && close32(o[7], log10(a), 3), "log %g",
                        v);
                cr_assert(close32(o[8], pow(a, (double)1.7f), 9), "pow %g: %g", v, o[8]);
                cr_assert(bits32(o[9]) == bits32(sqrtf(fabsf(x[i]))), "sqrt %g", v);
                cr_assert(close32(o[10], 1 / sqrt(a), 3), "rsqrt %g", v);
                cr_assert(bits32(o[11]) == bits32(1.0f / x[i]) && bits32(o[12]) == bits32(x[i] / 3.7f), "div %g", v);
                cr_assert(
                        close32(o[13], cbrt(v), 3) && close32(o[14], erf(v), 4) && close32(o[15], tanh(v), 4), "%g", v);
                cr_assert(
                        close32(o[16], asin((double)(x[i] * 0.1f)), 5) && close32(o[17], atan2(v, 2), 5), "asin %g", v);
                cr_assert(
                        o[18] == floorf(x[i]) && o[19] == ceilf(x[i]) && o[20] == rintf(x[i]) && o[21] == truncf(x[i]));
                cr_assert(bits32(o[22]) == bits32(fmodf(x[i], 0.7f)), "fmod %g: %a %a", v, o[22], fmodf(x[i], 0.7f));
                cr_assert(close32(o[23], expm1(v), 3), "expm1 %g: %g", v, o[23]);
        }
}

static void double_body(struct rig *r)
{
        int n = 300;
        double *x = rig_alloc(r, 2400), *out = rig_alloc(r, 300 * 160);

        for (int i = 0; i < n; i++)
                x[i] = (i - 150) * 0.0637 + 0.001;
        x[7] = 1e6;
        rig_run(r, "math_double", RIG_DIM1(3), RIG_DIM1(128), 0, RIG_ARGS(&x, &out, &n));
        for (int i = 0; i < n; i++) {
                double *o = out + i * 20, v = x[i], a = fabs(v);

                cr_assert(
                        close64(o[0], sin(v), 3) && close64(o[1], cos(v), 3) && close64(o[2], tan(v), 4), "sin %g", v);
                cr_assert(close64(o[3], exp(v), 3) && close64(o[4], exp2(v), 3), "exp %g: %g", v, o[3]);
                cr_assert(close64(o[5], log(a), 3) && close64(o[6], log2(a), 3) && close64(o[7], log10(a), 3), "log %g",
                        v);
                cr_assert(close64(o[8], pow(a, 1.7), 4), "pow %g: %g", v, o[8]);
                cr_assert(o[9] == sqrt(a) && close64(o[10], 1 / sqrt(a), 2) && o[11] == 1 / v && o[12] == v / 3.7, "%g",
                        v);
                cr_assert(
                        close64(o[13], cbrt(v), 3) && close64(o[14], erf(v), 4) && close64(o[15], tanh(v), 4), "%g", v);
                cr_assert(o[16] == floor(v) && o[17] == rint(v) && o[18] == fmod(v, 0.7) && o[19] == fma(v, v, -1.0),
                        "%g", v);
        }
}

static void fast_body(struct rig *r)
{
        int n = 200;
        float *x = rig_floats(r, 200, 3, 4), *out = rig_alloc(r, 200 * 36);

        rig_run(r, "math_fast", RIG_DIM1(2), RIG_DIM1(128), 0, RIG_ARGS(&x, &out, &n));
        for (int i = 0; i < n; i++) {
                float *o = out + i * 9;
                double v = x[i], a = fabs(v);

                cr_assert(fabs(o[0] - sin(v)) < 1e-6 && fabs(o[1] - cos(v)) < 1e-6);
                cr_assert(
                        RIG_NEAR(o[2], exp(v), 1e-6) && RIG_NEAR(o[3], log(a), 1e-6) && RIG_NEAR(o[4], log2(a), 1e-6));
                cr_assert(RIG_NEAR(o[5], pow(a, 0.3), 1e-6) && RIG_NEAR(o[6], v / 3, 1e-6));
                cr_assert(close32(o[7], 1 / sqrt(a), 1) && RIG_NEAR(o[8], pow(10, v * 0.1), 2e-6));
        }
}

Test(interp_arith, math_library)
{
        rig_for_all("math", float_body);
        rig_for_all("math", double_body);
        rig_for_all("math", fast_body);
}

/* --- rounding --------------------- */
static const uint32_t edges32[] = {0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x00000001, 0x80000001, 0x007fffff,
        0x00800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x3f800001, 0x3effffff, 0x33800000,
        0x4b000001, 0x40490fdb, 0x3dcccccd, 0x0d800000, 0x72123456, 0x5f000000, 0xcf000000, 0x4effffff};
#define EDGES32 (sizeof(edges32) / sizeof(edges32[0]))

enum { ADD, MUL, FMA, DIV, SQRT, RCP };

/* noinline and volatile, because the compiler does not know that the rounding mode changes */
static __attribute__((__noinline__)) float rounded(int mode, int op, float a, float b, float c)
{
        volatile float x = a, y = b, z = c, result = 0;

        fesetround(mode);
        switch (op) {
        case ADD:
                result = x + y;
                break;
        case MUL:
                result = x * y;
                break;
        case FMA:
                result = fmaf(x, y, z);
                break;
        case DIV:
                result = x / y;
                break;
        case SQRT:
                result = sqrtf(x);
                break;
        case RCP:
                result = 1.0f / x;
                break;
        }
        fesetround(FE_TONEAREST);
        return result;
}

static __attribute__((__noinline__)) double rounded64(int mode, int op, double a, double b, double c)
{
        volatile double x = a, y = b, z = c, result = 0;

        fesetround(mode);
        switch (op) {
        case ADD:
                result = x + y;
                break;
        case MUL:
                result = x * y;
                break;
        case FMA:
                result = fma(x, y, z);
                break;
        case DIV:
                result = x / y;
                break;
        case SQRT:
                result = sqrt(x);
                break;
        case RCP:
                result = 1.0 / x;
                break;
        }
        fesetround(FE_TONEAREST);
        return result;
}

static int same32(float got, float want)
{
        return want != want ? bits32(got) == 0x7fffffff : bits32(got) == bits32(want);
}

/* Whether a float narrowed from double is right: a NaN keeps its sign and the upper payload */
static int narrowed(float got, float want)
{
        return want != want ? got != got : bits32(got) == bits32(want);
}

static int same64(double got, double want)
{
        return want != want ? got != got : bits64(got) == bits64(want);
}

static void rounding_body(struct rig *r)
{
        static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};
        int n = EDGES32 * EDGES32 + 500;
        uint32_t seed = 77;
        float *a = rig_alloc(r, (size_t)n * 4), *b = rig_alloc(r, (size_t)n * 4), *c = rig_alloc(r, (size_t)n * 4);
        float *out = rig_alloc(r, (size_t)n * 96);

        for (int i = 0; i < n; i++) {
                int edge = i < (int)(EDGES32 * EDGES32);

                a[i] = as_float(edge ? edges32[i / EDGES32] : rig_random(&seed));
                b[i] = as_float(edge ? edges32[i % EDGES32] : rig_random(&seed));
                c[i] = as_float(edge ? edges32[(i * 7) % EDGES32] : rig_random(&seed));
        }
        rig_run(r, "math_rounding", RIG_DIM1((n + 127) / 128), RIG_DIM1(128), 0, RIG_ARGS(&a, &b, &c, &out, &n));
        for (int i = 0; i < n; i++) {
                float *o = out + i * 24, x = a[i], y = b[i], z = c[i], sat = x > 0 ? (x < 1 ? x : 1) : 0;

                for (int m = 0; m < 4; m++) {
                        cr_assert(same32(o[m], rounded(modes[m], ADD, x, y, 0)), "add %d: %a %a: %a, not %a", m, x, y,
                                o[m], rounded(modes[m], ADD, x, y, 0));
                        cr_assert(same32(o[4 + m], rounded(modes[m], MUL, x, y, 0)), "mul %d: %a %a: %a", m, x, y,
                                o[4 + m]);
                        cr_assert(same32(o[8 + m], rounded(modes[m], FMA, x, y, z)), "fma %d: %a %a %a: %a", m, x, y, z,
                                o[8 + m]);
                        cr_assert(same32(o[12 + m], rounded(modes[m], DIV, x, y, 0)), "div %d: %a %a: %a", m, x, y,
                                o[12 + m]);
                        cr_assert(same32(o[16 + m], rounded(modes[m], SQRT, fabsf(x), 0, 0)), "sqrt %d: %a", m, x);
                }
                cr_assert(same32(o[20], rounded(FE_TONEAREST, RCP, x, 0, 0)) &&
                          same32(o[21], rounded(FE_TOWARDZERO, RCP, x, 0, 0)));
                cr_assert(o[22] == sat && same32(o[23], rounded(FE_TONEAREST, ADD, x, -z, 0)));
        }
}

static void rounding64_body(struct rig *r)
{
        int n = 24 * 24;
        double *a = rig_alloc(r, 24 * 24 * 8), *b = rig_alloc(r, 24 * 24 * 8), *c = rig_alloc(r, 24 * 24 * 8);
        double *out = rig_alloc(r, 24 * 24 * 128), edge[24];

        for (int i = 0; i < 24; i++)
                edge[i] = i < 12 ? as_float(edges32[i]) * (i & 1 ? 1.0000000000000002 : 1e200)
                                 : (i - 17) * 0.1234567890123456;
        edge[12] = as_double(1);
        edge[13] = as_double(0x000fffffffffffff);
        edge[14] = -1.7976931348623157e308;
        for (int i = 0; i < n; i++) {
                a[i] = edge[i / 24];
                b[i] = edge[i % 24];
                c[i] = edge[(i * 5) % 24];
        }
        rig_run(r, "math_rounding_double", RIG_DIM1(6), RIG_DIM1(96), 0, RIG_ARGS(&a, &b, &c, &out, &n));
        for (int i = 0; i < n; i++) {
                static const struct {
                        int mode, op;
                } row[16] = {{FE_TONEAREST, ADD}, {FE_TOWARDZERO, ADD}, {FE_UPWARD, ADD}, {FE_DOWNWARD, ADD},
                        {FE_TOWARDZERO, MUL}, {FE_UPWARD, MUL}, {FE_TONEAREST, FMA}, {FE_TOWARDZERO, FMA},
                        {FE_UPWARD, FMA}, {FE_DOWNWARD, FMA}, {FE_TONEAREST, DIV}, {FE_TOWARDZERO, DIV},
                        {FE_TONEAREST, SQRT}, {FE_DOWNWARD, SQRT}, {FE_TONEAREST, RCP}, {FE_UPWARD, RCP}};

                for (int k = 0; k < 16; k++) {
                        double x = row[k].op == SQRT ? fabs(a[i]) : a[i],
                               want = rounded64(row[k].mode, row[k].op, x, b[i], c[i]);

                        cr_assert(same64(out[i * 16 + k], want), "%d: %a %a %a: %a, not %a", k, a[i], b[i], c[i],
                                out[i * 16 + k], want);
                }
        }
}

Test(interp_arith, roundings)
{
        rig_for_all("math", rounding_body);
        rig_for_all("math", rounding64_body);
}

/* --- conversions --- */
static int64_t to_int(double x, int bits, int is_signed, int nan64)
{
        double high = ldexp(1, bits - is_signed), low = is_signed ? -high : 0;

        if (x != x)
                return bits == 64 || nan64 ? (int64_t)(UINT64_C(1) << (bits - 1)) : 0;
        if (x >= high)
                return (int64_t)(UINT64_MAX >> (64 - bits) >> is_signed);
        if (x <= low)
                return is_signed ? (int64_t)(-(uint64_t)(UINT64_C(1) << (bits - 1))) : 0;
        return is_signed ? (int64_t)x : (int64_t)(uint64_t)x;
}

static void convert_body(struct rig *r)
{
        int n = EDGES32 + 200;
        uint32_t seed = 5;
        float *f = rig_alloc(r, (size_t)n * 4);
        double *d = rig_alloc(r, (size_t)n * 8);
        long long *out = rig_alloc(r, (size_t)n * 22 * 8);

        for (int i = 0; i < n; i++) {
                f[i] = i < (int)EDGES32 ? as_float(edges32[i])
                                        : ((float)(int)rig_random(&seed)) / (float)(1 << (i % 31));
                d[i] = f[i] * 1.00000001 + 0.25;
        }
        rig_run(r, "math_convert", RIG_DIM1(2), RIG_DIM1(128), 0, RIG_ARGS(&f, &d, &out, &n));
        for (int i = 0; i < n; i++) {
                long long *o = out + i * 22;
                volatile float narrow;
                volatile double from = d[i];

                cr_assert(o[0] == to_int(rint(f[i]), 32, 1, 0) && o[1] == to_int(trunc(f[i]), 32, 1, 0), "%a %lld",
                        f[i], o[0]);
                cr_assert(o[2] == to_int(ceil(f[i]), 32, 1, 0) && o[3] == to_int(floor(f[i]), 32, 1, 0), "%a", f[i]);
                cr_assert(o[4] == to_int(trunc(f[i]), 32, 0, 0), "%a: %lld", f[i], o[4]);
                cr_assert(o[5] == to_int(rint(f[i]), 64, 1, 0) && o[6] == to_int(trunc(f[i]), 64, 0, 0), "%a: %lld",
                        f[i], o[5]);
                cr_assert((int)o[7] == (int)to_int(rint(d[i]), 32, 1, 1) &&
                                  (uint32_t)o[8] == (uint32_t)to_int(trunc(d[i]), 32, 0, 1),
                        "%a: %llx %llx", d[i], o[7], o[8]);
                cr_assert(o[9] == to_int(floor(d[i]), 64, 1, 0) && o[10] == to_int(ceil(d[i]), 64, 0, 0));
                cr_assert(narrowed(as_float((uint32_t)o[11]), (float)d[i]));
                fesetround(FE_TOWARDZERO);
                narrow = (float)from;
                fesetround(FE_TONEAREST);
                cr_assert(narrowed(as_float((uint32_t)o[12]), narrow));
                fesetround(FE_UPWARD);
                narrow = (float)from;
                fesetround(FE_TONEAREST);
                cr_assert(narrowed(as_float((uint32_t)o[13]), narrow), "%a: %a", d[i], narrow);
                cr_assert(same64(as_double((uint64_t)o[14]), f[i]));
                volatile int32_t whole = (int32_t)bits32(f[i]);
                fesetround(FE_TOWARDZERO);
                narrow = (float)whole;
                fesetround(FE_TONEAREST);
                cr_assert(bits32(narrow) == (uint32_t)o[15]);
                cr_assert(bits32((float)(int64_t)bits64(d[i])) == (uint32_t)o[16]);
                volatile uint64_t wide = bits64(d[i]);
                volatile double down;
                fesetround(FE_DOWNWARD);
                down = (double)wide;
                fesetround(FE_TONEAREST);
                cr_assert(bits64(down) == (uint64_t)o[17]);
                cr_assert(
                        (uint32_t)o[20] == (uint32_t)(bits64(d[i]) >> 32) && (uint32_t)o[21] == (uint32_t)bits64(d[i]));
        }
}

Test(interp_arith, conversions)
{
        rig_for_all("math", convert_body);
}

/* --- integers --- */
static int64_t *wides(struct rig *r, int n, uint32_t seed)
{
        static const int64_t edge[] = {0, 1, -1, INT64_MIN, INT64_MAX, 63, 64, 5, -7, 0x123456789abcdef0};
        int64_t *p = rig_alloc(r, (size_t)n * 8);

        for (int i = 0; i < n; i++)
                p[i] = i < 100 ? edge[seed & 1 ? i % 10 : i / 10]
                               : (int64_t)((uint64_t)rig_random(&seed) << 32 | rig_random(&seed));
        return p;
}

static void wide_body(struct rig *r)
{
        int n = 300;
        int64_t *a = wides(r, 300, 2), *b = wides(r, 300, 3), *out = rig_alloc(r, 300 * 128);

        rig_run(r, "int_wide", RIG_DIM1(3), RIG_DIM1(128), 0, RIG_ARGS(&a, &b, &out, &n));
        for (int i = 0; i < n; i++) {
                int64_t x = a[i], y = b[i], *o = out + i * 16;
                uint64_t ux = (uint64_t)x, uy = (uint64_t)y, rev = 0;
                int ok = y != 0 && y != -1;

                for (int k = 0; k < 64; k++)
                        rev |= (ux >> k & 1) << (63 - k);
                cr_assert((uint64_t)o[0] == ux * uy);
                cr_assert((uint64_t)o[1] == (uy ? ux / uy : 0) && (uint64_t)o[2] == (uy ? ux % uy : 0), "%d", i);
                cr_assert(o[3] == (ok ? x / y : 0) && o[4] == (ok ? x % y : 0), "%d", i);
                cr_assert(o[5] == (int64_t)(((__int128)x * y) >> 64));
                cr_assert((uint64_t)o[6] == (uint64_t)(((unsigned __int128)ux * uy) >> 64));
                cr_assert(o[7] == __builtin_popcountll(ux) && o[8] == (ux ? __builtin_clzll(ux) : 64));
                cr_assert((uint64_t)o[9] == rev && o[10] == __builtin_ffsll(x));
                cr_assert((uint64_t)o[11] == ux << (y & 63) && o[12] == x >> (y & 63) &&
                          (uint64_t)o[13] == ux >> (y & 63));
                cr_assert(o[14] == ((x < y ? x : y) ^ (int64_t)(ux > uy ? ux : uy)));
                cr_assert((uint64_t)o[15] == (x < 0 ? 0 - ux : ux) + (uint64_t)((x < y) + 2 * (ux < uy)));
        }
}

static uint32_t perm(uint32_t a, uint32_t b, uint32_t s)
{
        uint8_t bytes[8], r[4];

        memcpy(bytes, &a, 4);
        memcpy(bytes + 4, &b, 4);
        for (int k = 0; k < 4; k++) {
                uint32_t n = s >> (4 * k) & 15;

                r[k] = n & 8 ? (bytes[n & 7] & 0x80 ? 0xff : 0) : bytes[n];
        }
        memcpy(&a, r, 4);
        return a;
}

static void narrow_body(struct rig *r)
{
        int n = 300, *a = rig_alloc(r, 1200), *b = rig_alloc(r, 1200), *out = rig_alloc(r, 300 * 128);
        static const int edge[] = {0, 1, -1, INT_MIN, INT_MAX, 31, 32, 5, -7, 0x12345678};
        uint32_t seed = 8;

        for (int i = 0; i < n; i++) {
                a[i] = i < 100 ? edge[i / 10] : (int)rig_random(&seed);
                b[i] = i < 100 ? edge[i % 10] : (int)rig_random(&seed);
        }
        rig_run(r, "int_narrow", RIG_DIM1(3), RIG_DIM1(128), 0, RIG_ARGS(&a, &b, &out, &n));
        for (int i = 0; i < n; i++) {
                int x = a[i], y = b[i], *o = out + i * 32, ok = y != 0 && y != -1;
                uint32_t ux = (uint32_t)x, uy = (uint32_t)y, rev = 0, d4 = 11, d4u = 13, m24 = (uint32_t)(ux << 8),
                         n24 = uy << 8;
                int64_t sx = x, sy = y;

                for (int k = 0; k < 32; k++)
                        rev |= (ux >> k & 1) << (31 - k);
                for (int k = 0; k < 4; k++) {
                        d4 += (uint32_t)((int8_t)(ux >> 8 * k) * (int8_t)(uy >> 8 * k));
                        d4u += (uint8_t)(ux >> 8 * k) * (uint8_t)(uy >> 8 * k);
                }
                cr_assert((uint32_t)o[0] == ux * uy && (uint32_t)o[1] == (uy ? ux / uy : 0) &&
                          (uint32_t)o[2] == (uy ? ux % uy : 0));
                cr_assert(o[3] == (ok ? x / y : 0) && o[4] == (ok ? x % y : 0));
                cr_assert(o[5] == (int)((sx * sy) >> 32) && (uint32_t)o[6] == (uint32_t)(((uint64_t)ux * uy) >> 32));
                cr_assert(o[7] == __builtin_popcount(ux) && o[8] == (ux ? __builtin_clz(ux) : 32) &&
                          (uint32_t)o[9] == rev);
                cr_assert(o[10] == __builtin_ffs(x) && (uint32_t)o[11] == ux << (y & 31) && o[12] == x >> (y & 31));
                cr_assert((uint32_t)o[13] == ux >> (y & 31) && (uint32_t)o[14] == (uy << 13 | ux >> 19), "%d", i);
                cr_assert(
                        (uint32_t)o[15] == (uint32_t)(((uint64_t)uy << 32 | ux) >> (x & 31)) && (uint32_t)o[16] == ux);
                cr_assert((uint32_t)o[17] == perm(ux, uy, 0x5140) && (uint32_t)o[18] == perm(ux, uy, ux & 0x7777),
                        "%d: %x %x", i, (unsigned)o[18], perm(ux, uy, ux));
                cr_assert((uint32_t)o[19] == 7 + (x < y ? uy - ux : ux - uy) &&
                          (uint32_t)o[20] == 9 + (ux < uy ? uy - ux : ux - uy));
                cr_assert(o[21] == (int)(((int64_t)((int32_t)m24 >> 8)) * ((int32_t)n24 >> 8)));
                cr_assert((uint32_t)o[22] == (uint32_t)((uint64_t)(ux & 0xffffff) * (uy & 0xffffff)));
                cr_assert(o[23] == (int)((sx + sy) >> 1) && o[24] == (int)((sx + sy + 1) >> 1));
                cr_assert((uint32_t)o[25] == d4 && (uint32_t)o[26] == d4u);
                cr_assert((uint32_t)o[27] == 17 + (uint32_t)((int16_t)ux * (int8_t)uy) +
                                                     (uint32_t)((int16_t)(ux >> 16) * (int8_t)(uy >> 8)));
                cr_assert((uint32_t)o[28] == (uint32_t)(x < y ? x : y) + (ux > uy ? ux : uy));
                cr_assert((uint32_t)o[29] == (x < 0 ? 0 - ux : ux) - (uint32_t)(x >= y));
                cr_assert((uint32_t)o[30] == ((ux & uy) | (~ux & 0x0f0f0f0f)));
                cr_assert(o[31] == (int16_t)x * (int16_t)y + (int8_t)(x >> 8) - (uint8_t)(y >> 4));
        }
}

static void carry_body(struct rig *r)
{
        int n = 100;
        uint64_t *a = (uint64_t *)wides(r, 200, 2), *b = (uint64_t *)wides(r, 200, 3), *out = rig_alloc(r, 6400);

        rig_run(r, "int_carry", RIG_DIM1(1), RIG_DIM1(128), 0, RIG_ARGS(&a, &b, &out, &n));
        for (int i = 0; i < n; i++) {
                unsigned __int128 x = (unsigned __int128)a[2 * i + 1] << 64 | a[2 * i];
                unsigned __int128 y = (unsigned __int128)b[2 * i + 1] << 64 | b[2 * i];
                unsigned __int128 want[4] = {x + y, x - y, x * y, x >> 7};

                for (int k = 0; k < 4; k++)
                        cr_assert(out[8 * i + 2 * k] == (uint64_t)want[k] &&
                                  out[8 * i + 2 * k + 1] == (uint64_t)(want[k] >> 64));
        }
}

static void ptx_body(struct rig *r)
{
        int n = 200;
        uint32_t *a = rig_words(r, 200, 31), *b = rig_words(r, 200, 32), *out = rig_alloc(r, 200 * 48);

        a[0] = UINT32_MAX;
        b[0] = 1;
        a[1] = 0;
        b[1] = INT_MAX;
        rig_run(r, "int_ptx", RIG_DIM1(2), RIG_DIM1(128), 0, RIG_ARGS(&a, &b, &out, &n));
        for (int i = 0; i < n; i++) {
                uint32_t x = a[i], y = b[i], *o = out + i * 12, lut = 0, len = 9, pos = y & 31;
                uint64_t sum = (uint64_t)x + y, product = (uint64_t)x * y;
                int64_t saturated = (int64_t)(int32_t)x + (int32_t)y, field;

                cr_assert(o[0] == (uint32_t)sum && o[1] == x + (uint32_t)(sum >> 32), "add %d", i);
                cr_assert(o[2] == x - y && o[3] == y - 5 - (x < y), "sub %d", i);
                cr_assert(o[4] == (uint32_t)product + y);
                cr_assert(o[5] == (uint32_t)(product >> 32) + 1 + (uint32_t)(((product & UINT32_MAX) + y) >> 32),
                        "mad %d", i);
                cr_assert(o[6] == (x >> 5 & 0x7ff));
                field = (int32_t)x >> pos;
                if (pos + len < 32)
                        field = (int64_t)((uint64_t)field << 55) >> 55;
                cr_assert(o[7] == (uint32_t)field, "bfe %d: %x %x", i, o[7], (uint32_t)field);
                cr_assert(o[8] == ((y & ~(0x1fffu << 7)) | (x & 0x1fff) << 7));
                for (int k = 0; k < 32; k++)
                        lut |= (0x96u >> ((x >> k & 1) << 2 | (y >> k & 1) << 1 | (0x12345678u >> k & 1)) & 1) << k;
                cr_assert(o[9] == lut && o[10] == (x ? (uint32_t)__builtin_clz(x) : UINT32_MAX));
                cr_assert((int32_t)o[11] == (saturated > INT_MAX          ? INT_MAX
                                                    : saturated < INT_MIN ? INT_MIN
                                                                          : (int32_t)saturated));
        }
}

Test(interp_arith, integers)
{
        rig_for_all("intops", wide_body);
        rig_for_all("intops", narrow_body);
        rig_for_all("intops", carry_body);
        rig_for_all("intops", ptx_body);
}

/* --- half precision: a slow reference through exact doubles ------- */
static double half_value(uint16_t h, int exponent_bits)
{
        int fraction = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1, e = (h & 0x7fff) >> fraction;
        double m = h & ((1 << fraction) - 1), v;

        if (e == (1 << exponent_bits) - 1)
                v = m ? NAN : INFINITY;
        else
                v = e ? ldexp(m + (1 << fraction), e - bias - fraction) : ldexp(m, 1 - bias - fraction);
        return h & 0x8000 ? -v : v;
}

/* Rounds x = high + low, with a tiny |low|, to the nearest even half, by comparing with both neighbours */
static uint16_t half_nearest(double high, double low, int exponent_bits)
{
        uint16_t limit = (uint16_t)(((1 << exponent_bits) - 1) << (15 - exponent_bits)), best = 0,
                 sign = signbit(high) ? 0x8000 : 0;
        double a = fabs(high), rest = sign ? -low : low;
        uint16_t lo = 0, hi = limit;

        if (high != high)
                return 0x7fff;
        while (lo < hi) { /* binary search for the greatest half that is not above a */
                uint16_t middle = (uint16_t)((lo + hi + 1) / 2);

                if (half_value(middle, exponent_bits) <= a && middle < limit)
                        lo = middle;
                else
                        hi = (uint16_t)(middle - 1);
        }
        best = lo;
        if (isinf(a))
                return sign | limit;
        double down = half_value(lo, exponent_bits),
               up = lo + 1 == limit ? 2 * down - half_value((uint16_t)(lo - 1), exponent_bits)
                                    : half_value((uint16_t)(lo + 1), exponent_bits);
        double middle = (down + up) / 2;

        if (a > middle || (a == middle && (rest > 0 || (rest == 0 && (lo & 1)))))
                best = (uint16_t)(lo + 1);
        /* exactly representable, and |low| is too small to change the nearest number */
        return sign | best;
}

static void halves_body(struct rig *r)
{
        int n = 3000, e = 5;
        uint32_t seed = 99;
        uint16_t *a = rig_alloc(r, 6000), *b = rig_alloc(r, 6000), *c = rig_alloc(r, 6000), *out = rig_alloc(r, 60000);
        uint16_t *packed = rig_alloc(r, 36000);

        for (int i = 0; i < n; i++) {
                a[i] = (uint16_t)rig_random(&seed);
                b[i] = (uint16_t)(i & 1 ? rig_random(&seed) : 0x3c00u + (rig_random(&seed) & 0x3ff));
                c[i] = (uint16_t)(i & 2 ? rig_random(&seed) : rig_random(&seed) & 0x83ff);
        }
        rig_run(r, "half_scalar", RIG_DIM1(24), RIG_DIM1(128), 0, RIG_ARGS(&a, &b, &c, &out, &n));
        int pairs = n / 2;
        rig_run(r, "half_packed", RIG_DIM1(12), RIG_DIM1(128), 0, RIG_ARGS(&a, &b, &packed, &pairs));
        for (int i = 0; i < n; i++) {
                double x = half_value(a[i], e), y = half_value(b[i], e), z = half_value(c[i], e), sum = x + y;
                uint16_t *o = out + i * 10, *p = packed + (i / 2) * 12 + i % 2;

                cr_assert(o[0] == half_nearest(sum, 0, e) && p[0] == o[0], "%g + %g: %x", x, y, o[0]);
                cr_assert(o[1] == half_nearest(x - y, 0, e) && o[2] == half_nearest(x * y, 0, e) && p[2] == o[2]);
                cr_assert(o[3] == half_nearest(x * y + z, 0, e), "fma %g %g %g: %x %x", x, y, z, o[3],
                        half_nearest(x * y + z, 0, e));
                cr_assert(o[4] == (x != x ? 0x7fff : a[i] ^ 0x8000) && o[5] == (y != y ? 0x7fff : b[i] & 0x7fff), "%x",
                        o[4]);
                cr_assert(o[6] == (x < y ? a[i] : c[i]));
                cr_assert(o[7] == half_nearest((float)x * 3.0f, 0, e));
                cr_assert(o[8] == half_nearest(sum > 0 ? fmin(sum, 1) : 0, 0, e), "sat %g: %x", sum, o[8]);
                cr_assert(p[4] == half_nearest(fma(x, y, x), 0, e));
                cr_assert(p[6] == (x > y ? 0x3c00 : 0) && p[8] == a[i ^ 1] && p[10] == half_nearest(y - x, 0, e));
                double third = (float)y * 0.3f, cut = half_value(o[9], e);
                cr_assert(y != y || (fabs(cut) <= fabs(third) &&
                                            (isinf(third) || third == cut ||
                                                    fabs(half_value((uint16_t)(o[9] + 1), e)) > fabs(third))),
                        "rz %g: %g", third, cut);
        }
}

static void bf16_body(struct rig *r)
{
        int n = 2000, e = 8;
        uint32_t seed = 123;
        uint16_t *a = rig_alloc(r, 4000), *b = rig_alloc(r, 4000), *c = rig_alloc(r, 4000), *out = rig_alloc(r, 24000);
        int fused = 1;

        for (int i = 0; i < n; i++) {
                a[i] = (uint16_t)rig_random(&seed);
                b[i] = (uint16_t)(0x3f80u + (rig_random(&seed) & 0xff));
                c[i] = (uint16_t)(i & 1 ? rig_random(&seed) : a[i] ^ 0x8000);
        }
        rig_run(r, "bf16_scalar", RIG_DIM1(16), RIG_DIM1(128), 0, RIG_ARGS(&a, &b, &c, &out, &n));
        for (int i = 0; i < n; i++) {
                double x = half_value(a[i], e), y = half_value(b[i], e), z = half_value(c[i], e);
                uint16_t *o = out + i * 6;
                double product = x * y, sum = product + z, back = sum - product,
                       rest = (product - (sum - back)) + (z - back);

                cr_assert(o[0] == half_nearest((float)x + (float)y, 0, e) || o[0] == half_nearest(x + y, 0, e),
                        "%g %g %x", x, y, o[0]);
                cr_assert(o[1] == half_nearest(x * y, 0, e), "%g * %g: %x", x, y, o[1]);
                fused &= o[2] == half_nearest(sum, rest, e) ||
                         o[2] == half_nearest(fmaf((float)x, (float)y, (float)z), 0, e);
                cr_assert(fused, "fma %a %a %a: %x", x, y, z, o[2]);
                cr_assert(o[3] == half_nearest((float)x * 3.0f, 0, e) && o[4] == (b[i] ^ 0x8000), "%g: %x %x", x, o[3],
                        o[4]);
        }
}

static void half_convert_body(struct rig *r)
{
        int n = 1000, *ints = (int *)rig_words(r, 1000, 4);
        uint32_t seed = 6;
        float *in = rig_alloc(r, 4000);
        uint16_t *out = rig_alloc(r, 12000), *math_in = rig_alloc(r, 2000), *math = rig_alloc(r, 8000);

        for (int i = 0; i < n; i++) {
                in[i] = i < 30 ? as_float(edges32[i % EDGES32])
                               : ldexpf((float)(int)rig_random(&seed), (int)(rig_random(&seed) % 60) - 55);
                ints[i] >>= i % 24;
                math_in[i] = (uint16_t)(0x2c00 + i * 11);
        }
        rig_run(r, "half_convert", RIG_DIM1(8), RIG_DIM1(128), 0, RIG_ARGS(&in, &ints, &out, &n));
        for (int i = 0; i < n; i++) {
                uint16_t *o = out + i * 6, h = half_nearest(in[i], 0, 5);
                double v = half_value(h, 5);

                cr_assert(o[0] == h && o[3] == half_nearest(in[i], 0, 8) && (o[4] == h || v != v), "%a: %x %x %x",
                        in[i], o[0], o[3], o[4]);
                cr_assert(o[1] == half_nearest(ints[i], 0, 5), "%d: %x", ints[i], o[1]);
                cr_assert(o[2] == (uint16_t)to_int(trunc(v), 32, 1, 0), "%g: %x", v, o[2]);
                cr_assert(o[5] == (uint16_t)to_int(rint(v), 16, 1, 0), "%g: %x", v, o[5]);
        }
        rig_run(r, "half_math", RIG_DIM1(8), RIG_DIM1(125), 0, RIG_ARGS(&math_in, &math, &n));
        for (int i = 0; i < n; i++) {
                double v = half_value(math_in[i], 5);

                cr_assert(fabs(half_value(math[4 * i], 5) - exp2(v)) <= exp2(v) * 0x1p-9 || exp2(v) > 65000, "exp2 %g",
                        v);
                cr_assert(fabs(half_value(math[4 * i + 1], 5) - sqrt(v)) <= sqrt(v) * 0x1p-9);
                cr_assert(fabs(half_value(math[4 * i + 2], 5) - 1 / v) <= 1 / v * 0x1p-9 + 0x1p-24);
                cr_assert(half_value(math[4 * i + 3], 5) == floor(v));
        }
}

static void half_dot_body(struct rig *r)
{
        int n = 200;
        uint16_t *a = rig_alloc(r, 400), *b = rig_alloc(r, 400), *packed = rig_alloc(r, 4);
        float *out = rig_alloc(r, 4), lane[32] = {0};

        for (int i = 0; i < n; i++) {
                a[i] = (uint16_t)(0x3000 + i * 29);
                b[i] = (uint16_t)(0xb000 + i * 17);
                lane[i % 32] = fmaf((float)half_value(a[i], 5), (float)half_value(b[i], 5), lane[i % 32]);
        }
        for (int d = 16; d > 0; d /= 2) {
                float old[32];

                memcpy(old, lane, sizeof(old));
                for (int i = 0; i < 32; i++)
                        lane[i] = old[i] + old[i ^ d];
        }
        rig_run(r, "half_dot", RIG_DIM1(1), RIG_DIM1(32), 0, RIG_ARGS(&a, &b, &out, &packed, &n));
        cr_assert(*out == lane[0]);
        cr_assert(half_value(packed[0], 5) == 32 && half_value(packed[1], 5) == 16, "%x %x", packed[0], packed[1]);
}

Test(interp_arith, halves)
{
        rig_for_all("half", halves_body);
        rig_for_all("half", bf16_body);
        rig_for_all("half", half_convert_body);
        rig_for_all("half", half_dot_body);
}
