/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Division, roots and the hardware's approximations
 *
 * The .approx functions are computed in double by polynomials with about 45 exact bits and rounded once. The error is
 * far inside the limit of PTX, the result is the same on every machine (no library function, no fused operation), and
 * the code is vectorised. The last bits differ from the hardware's; programs that depend on those also depend on the
 * GPU model.
 *
 * Special cases follow PTX: ranges in which div.approx gives zero, .ftz, results for infinities and NaN.
 */
#include <math.h>

#include "ptx/interp/lane.h"

#define T(name) DS_PTX_TYPE_##name
#define F(x) ds_ix_ftz(x)
#define OUT(r) ds_ix_canonical(r)
#define OUT_FTZ(r) ds_ix_canonical(ds_ix_ftz(r))

DS_IX_OP2(div_rn, uint32_t, float, float, OUT(x / y))
DS_IX_OP2(div_rn_ftz, uint32_t, float, float,
        ds_ix_tiny((double)F(x) / F(y)) ? ds_ix_bits32(F(x) / F(y)) & 0x80000000u : OUT_FTZ(F(x) / F(y)))
DS_IX_OP1(rcp_rn, uint32_t, float, OUT(1.0f / x))
DS_IX_OP1(rcp_rn_ftz, uint32_t, float, OUT_FTZ(1.0f / F(x)))
DS_IX_OP1(sqrt_rn, uint32_t, float, OUT(__builtin_sqrtf(x)))
DS_IX_OP1(sqrt_rn_ftz, uint32_t, float, OUT_FTZ(__builtin_sqrtf(F(x))))

/* div.approx: a divisor beyond 2^126 has a reciprocal of zero, so the result is zero, or NaN for an infinite
 * dividend. */
DS_IX_INLINE float div_approx_of(float x, float y)
{
        float size = y < 0 ? -y : y, q = x / y;

        return size > 0x1p126f && size <= 0x1.fffffep127f ? x * (y < 0 ? -0.0f : 0.0f) : q;
}
DS_IX_OP2(div_approx, uint32_t, float, float, OUT(div_approx_of(x, y)))
DS_IX_OP2(div_approx_ftz, uint32_t, float, float, OUT_FTZ(div_approx_of(F(x), F(y))))
DS_IX_OP1(rsqrt_approx, uint32_t, float, OUT((float)(1.0 / __builtin_sqrt((double)x))))
DS_IX_OP1(rsqrt_approx_ftz, uint32_t, float, OUT_FTZ((float)(1.0 / __builtin_sqrt((double)F(x)))))

/* --- exponential and logarithm --- */
#define MAGIC 0x1.8p52 /* adding this number rounds a double to an integer, whose value is then in the low bits */

/* 2^x for -1000 < x < 1000 */
DS_IX_INLINE double exp2_of(double x)
{
        double shifted = x + MAGIC, y = (x - (shifted - MAGIC)) * 0x1.62e42fefa39efp-1, p = 1.0 / 39916800;

        p = p * y + 1.0 / 3628800;
        p = p * y + 1.0 / 362880;
        p = p * y + 1.0 / 40320;
        p = p * y + 1.0 / 5040;
        p = p * y + 1.0 / 720;
        p = p * y + 1.0 / 120;
        p = p * y + 1.0 / 24;
        p = p * y + 1.0 / 6;
        p = p * y + 0.5;
        p = p * y + 1.0;
        p = p * y + 1.0;
        return ds_ix_double(ds_ix_bits64(p) + (ds_ix_bits64(shifted) << 52));
}

DS_IX_INLINE float ex2_of(float x)
{
        double d = x;

        d = d < 200.0 ? d : 200.0;
        d = d > -200.0 ? d : -200.0;
        return x != x ? x : (float)exp2_of(d);
}

/* log2 of a positive normal double */
DS_IX_INLINE double log2_of(double x)
{
        uint64_t u = ds_ix_bits64(x);
        int32_t up = (u & UINT64_C(0xfffffffffffff)) > UINT64_C(0x6a09e667f3bcd);
        int32_t exponent = (int32_t)(u >> 52) - 1023 + up;
        double m = ds_ix_double((u & UINT64_C(0xfffffffffffff)) | (uint64_t)(1023 - up) << 52);
        double s = (m - 1.0) / (m + 1.0), q = s * s, p = 1.0 / 19;

        p = p * q + 1.0 / 17;
        p = p * q + 1.0 / 15;
        p = p * q + 1.0 / 13;
        p = p * q + 1.0 / 11;
        p = p * q + 1.0 / 9;
        p = p * q + 1.0 / 7;
        p = p * q + 1.0 / 5;
        p = p * q + 1.0 / 3;
        p = p * q + 1.0;
        return (double)exponent + p * s * 0x1.71547652b82fep+1;
}

DS_IX_INLINE float lg2_of(float x)
{
        float r = (float)log2_of(x > 0 ? (double)x : 1.0);

        r = x > 0x1.fffffep127f ? x : r;
        r = x == 0 ? -INFINITY : r;
        return x >= 0 ? r : NAN;
}

DS_IX_INLINE float tanh_of(float x)
{
        double d = x, size = d < 0 ? -d : d, e = exp2_of((size < 20.0 ? size : 20.0) * 0x1.71547652b82fep+1);
        double big = (e - 1.0) / (e + 1.0), small = size - size * size * size * (1.0 / 3);
        double r = size < 0x1p-11 ? small : big;

        return x != x ? x : (float)(d < 0 ? -r : r);
}

DS_IX_OP1(ex2, uint32_t, float, OUT(ex2_of(x)))
DS_IX_OP1(ex2_ftz, uint32_t, float, OUT_FTZ(ex2_of(F(x))))
DS_IX_OP1(lg2, uint32_t, float, OUT(lg2_of(x)))
DS_IX_OP1(lg2_ftz, uint32_t, float, OUT_FTZ(lg2_of(F(x))))
DS_IX_OP1(tanh_f32, uint32_t, float, tanh_of(x) == 0 ? ds_ix_bits32(x) : OUT(tanh_of(x)))

/* --- sine and cosine --- */
#define FAR 0x1p24f /* largest argument for which reduce() is exact */

/* x - k pi/2, with pi/2 in three parts, whose products with k < 2^25 are exact */
DS_IX_INLINE double reduce(double x, double shifted)
{
        double k = shifted - MAGIC;

        return ((x - k * 0x1.921fb54p+0) - k * 0x1.10b4610p-30) - k * 0x1.a62633145c06ep-58;
}

DS_IX_INLINE double sine_near(double r)
{
        double q = r * r, p = -1.0 / 1307674368000;

        p = p * q + 1.0 / 6227020800;
        p = p * q - 1.0 / 39916800;
        p = p * q + 1.0 / 362880;
        p = p * q - 1.0 / 5040;
        p = p * q + 1.0 / 120;
        p = p * q - 1.0 / 6;
        return r + r * q * p;
}

DS_IX_INLINE double cosine_near(double r)
{
        double q = r * r, p = -1.0 / 87178291200;

        p = p * q + 1.0 / 479001600;
        p = p * q - 1.0 / 3628800;
        p = p * q + 1.0 / 40320;
        p = p * q - 1.0 / 720;
        p = p * q + 1.0 / 24;
        p = p * q - 0.5;
        return 1.0 + q * p;
}

/* sin(x + quarter pi/2) */
DS_IX_INLINE float circular(float x, uint64_t quarter)
{
        double d = x < FAR && x > -FAR ? (double)x : 0.0, shifted = d * 0x1.45f306dc9c883p-1 + MAGIC;
        double r = reduce(d, shifted);
        uint64_t k = ds_ix_bits64(shifted) + quarter;
        double v = k & 1 ? cosine_near(r) : sine_near(r);

        return (float)(k & 2 ? -v : v);
}

/* Computes sine or cosine for lanes with arguments beyond FAR, one by one; infinities give NaN. */
static void circular_far(const float *x, uint32_t *r, int cosine)
{
        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                if (x[i] < FAR && x[i] > -FAR)
                        continue;
                r[i] = OUT((float)(cosine ? cos((double)x[i]) : sin((double)x[i])));
        }
}

#define CIRCULAR(name, quarter)                                                            \
        DS_IX_INLINE void name##_body(ds_ix_warp *w, const ds_ix_op *op)                   \
        {                                                                                  \
                DS_IX_BUFFER(uint32_t, buffer);                                            \
                const float *pa = ds_ix_lanes(w, op->a);                                   \
                uint32_t ftz = op->flags & DS_IX_FTZ, far = 0;                             \
                                                                                           \
                DS_IX_EACH                                                                 \
                {                                                                          \
                        float x = ftz ? F(pa[i]) : pa[i], r = circular(x, quarter);        \
                        buffer[i] = OUT(ftz ? F(r) : r);                                   \
                        /* the sine of -0 is -0 */                                         \
                        buffer[i] = !(quarter) && x == 0 ? ds_ix_bits32(x) : buffer[i];    \
                }                                                                          \
                for (unsigned i = 0; i < DS_IX_LANES; i++)                                 \
                        far |= !(pa[i] < FAR && pa[i] > -FAR);                             \
                if (far)                                                                   \
                        circular_far(pa, buffer, quarter);                                 \
                DS_IX_STORE(uint32_t, (uint32_t *)ds_ix_lanes(w, op->d), buffer, w->mask); \
        }                                                                                  \
        DS_IX_VARIANTS(name)
CIRCULAR(sine, 0)
CIRCULAR(cosine, 1)

/* --- double precision: only the upper half of the result is approximated --- */
/* Operand of rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64, which use only the upper 32 bits of their operand;
 * subnormals become zero. */
DS_IX_INLINE double start(double x)
{
        uint64_t u = ds_ix_bits64(x) & UINT64_C(0xffffffff00000000);

        return ds_ix_double(u & UINT64_C(0x7ff0000000000000) ? u : u & UINT64_C(0x8000000000000000));
}

DS_IX_INLINE uint64_t upper(double x)
{
        uint64_t u = ds_ix_bits64(x) & UINT64_C(0xffffffff00000000);

        u = u & UINT64_C(0x7ff0000000000000) ? u : u & UINT64_C(0x8000000000000000);
        return x != x ? UINT64_C(0x7fffffff00000000) : u;
}

DS_IX_OP1(rcp_approx_f64, uint64_t, double, upper(1.0 / start(x)))
DS_IX_OP1(rsqrt_approx_ftz_f64, uint64_t, double, upper(1.0 / __builtin_sqrt(start(x))))
DS_IX_OP1(rsqrt_approx_f64, double, double, 1.0 / __builtin_sqrt(x))

/* --- handler tables --- */
static const struct ds_ix_impl *find_division(const struct ds_ptx_instr *in, const ds_ix_op *op)
{
        enum ds_ptx_modifier approx = ds_ptx_mod(in, DS_PTX_APPROX_APPROX);
        int ftz = !!(op->flags & DS_IX_FTZ), f64 = in->types[0] == T(F64);

        if (f64 && approx)
                return in->op == DS_PTX_OP_RCP && ftz ? &rcp_approx_f64 : NULL;
        if (f64 || op->mode != DS_IX_RN)
                return NULL;
        switch (in->op) {
        case DS_PTX_OP_FDIV:
                if (approx == DS_PTX_APPROX_APPROX)
                        return ftz ? &div_approx_ftz : &div_approx;
                return ftz ? &div_rn_ftz : &div_rn;
        case DS_PTX_OP_RCP:
                return ftz ? &rcp_rn_ftz : &rcp_rn;
        default:
                return ftz ? &sqrt_rn_ftz : &sqrt_rn;
        }
}

const struct ds_ix_impl *ds_ix_special_f32(int want_ex2)
{
        return want_ex2 ? &ex2 : &tanh_f32;
}

const struct ds_ix_impl *ds_ix_find_special(const struct ds_ptx_instr *in, ds_ix_op *op)
{
        const struct ds_ix_impl *impl;
        int ftz = !!(op->flags & DS_IX_FTZ);

        if (in->types[0] != T(F32) && in->types[0] != T(F64))
                return ds_ix_find_half(in, op);
        switch (in->op) {
        case DS_PTX_OP_FDIV:
        case DS_PTX_OP_RCP:
        case DS_PTX_OP_SQRT:
                impl = find_division(in, op);
                return impl || ds_ptx_mod(in, DS_PTX_APPROX_APPROX) ? impl : ds_ix_find_float(in, op);
        case DS_PTX_OP_RSQRT:
                if (in->types[0] == T(F64))
                        return ftz ? &rsqrt_approx_ftz_f64 : &rsqrt_approx_f64;
                return ftz ? &rsqrt_approx_ftz : &rsqrt_approx;
        case DS_PTX_OP_SIN:
                return &sine;
        case DS_PTX_OP_COS:
                return &cosine;
        case DS_PTX_OP_LG2:
                return ftz ? &lg2_ftz : &lg2;
        case DS_PTX_OP_EX2:
                return ftz ? &ex2_ftz : &ex2;
        case DS_PTX_OP_TANH:
                return &tanh_f32;
        default:
                return NULL;
        }
}
