/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic of f16, bf16 and their packed pairs
 *
 * Sums and products of two halves are computed in single precision, which has more than twice the bits, so double
 * rounding equals single rounding. Fused operations are rounded to odd in between (half.h). Packed operations process
 * both halves of a 32-bit register.
 */
#include "ptx/interp/half.h"

#define T(name) DS_PTX_TYPE_##name

/* Prepares an operand (.ftz). Modifiers are the same for all lanes, so the compiler moves the tests out of the loops
 * where useful. */
DS_IX_INLINE uint16_t enter(uint16_t h, const ds_ix_op *op)
{
        return op->flags & DS_IX_FTZ ? ds_ix_ftz_half(h) : h;
}

DS_IX_INLINE float shape(float f, const ds_ix_op *op)
{
        if (op->flags & DS_IX_SAT)
                f = ds_ix_saturate(f);
        if (op->flags & DS_IX_RELU)
                f = f > 0.0f || f != f ? f : 0.0f;
        return f;
}

/* Narrows f, which is exact or rounded to odd. With .ftz a value below the normal numbers before rounding becomes
 * zero. */
DS_IX_INLINE uint16_t leave_f16(float f, const ds_ix_op *op)
{
        float g = op->flags & DS_IX_FTZ && __builtin_fabsf(f) < 0x1p-14f ? f * 0.0f : f;

        return ds_ix_to_half(shape(g, op));
}

DS_IX_INLINE uint16_t leave_bf16(float f, const ds_ix_op *op)
{
        return ds_ix_to_bf16(shape(f, op));
}

#define IN_f16(h) ds_ix_from_half(enter(h, op))
#define IN_bf16(h) ds_ix_from_bf16(h)

#define ARITHMETIC(t)                                                                         \
        DS_IX_INLINE uint16_t t##_add(uint16_t a, uint16_t b, const ds_ix_op *op)             \
        {                                                                                     \
                return leave_##t(IN_##t(a) + IN_##t(b), op);                                  \
        }                                                                                     \
        DS_IX_INLINE uint16_t t##_sub(uint16_t a, uint16_t b, const ds_ix_op *op)             \
        {                                                                                     \
                return leave_##t(IN_##t(a) - IN_##t(b), op);                                  \
        }                                                                                     \
        DS_IX_INLINE uint16_t t##_mul(uint16_t a, uint16_t b, const ds_ix_op *op)             \
        {                                                                                     \
                return leave_##t(IN_##t(a) * IN_##t(b), op);                                  \
        }                                                                                     \
        DS_IX_INLINE uint16_t t##_fma(uint16_t a, uint16_t b, uint16_t c, const ds_ix_op *op) \
        {                                                                                     \
                return leave_##t(ds_ix_fma_odd(IN_##t(a), IN_##t(b), IN_##t(c)), op);         \
        }
ARITHMETIC(f16)
ARITHMETIC(bf16)

/* fma.oob: this NaN, of either sign, marks elements outside a tensor; a product with it makes the result zero. */
#define OUT_OF_BOUNDS(h) (((h)&0x7fffu) == 0x7ff7u)
#define OOB(t)                                                                                    \
        DS_IX_INLINE uint16_t t##_fma_oob(uint16_t a, uint16_t b, uint16_t c, const ds_ix_op *op) \
        {                                                                                         \
                return OUT_OF_BOUNDS(a) || OUT_OF_BOUNDS(b) ? 0 : (uint16_t)t##_fma(a, b, c, op); \
        }
OOB(f16)
OOB(bf16)

enum { MINMAX_MAX = 1, MINMAX_NAN = 2, MINMAX_XORSIGN = 4 };

/* Minimum and maximum of bit patterns: both half formats have the same order, with NaNs above infinity. */
DS_IX_INLINE uint16_t minmax(uint16_t a, uint16_t b, uint16_t infinity, const ds_ix_op *op)
{
        uint16_t sign = (uint16_t)((a ^ b) & 0x8000u);
        int a_nan = (a & 0x7fffu) > infinity, b_nan = (b & 0x7fffu) > infinity;

        if (op->mode & MINMAX_XORSIGN) {
                a &= 0x7fffu;
                b &= 0x7fffu;
        }
        int32_t ka = (int16_t)a, kb = (int16_t)b;

        ka ^= (ka >> 15) & 0x7fff;
        kb ^= (kb >> 15) & 0x7fff;
        int first = op->mode & MINMAX_MAX ? ka > kb : ka < kb;
        uint16_t r = a_nan ? b : b_nan ? a : first ? a : b;

        r = op->mode & MINMAX_XORSIGN ? (uint16_t)((r & 0x7fffu) | sign) : r;
        return (a_nan && b_nan) || (op->mode & MINMAX_NAN && (a_nan || b_nan)) ? DS_IX_NAN16 : r;
}

DS_IX_INLINE uint16_t f16_minmax(uint16_t a, uint16_t b, const ds_ix_op *op)
{
        return minmax(enter(a, op), enter(b, op), 0x7c00u, op);
}

DS_IX_INLINE uint16_t bf16_minmax(uint16_t a, uint16_t b, const ds_ix_op *op)
{
        return minmax(a, b, 0x7f80u, op);
}

/* Absolute value. This and negation turn a NaN into the canonical NaN. */
DS_IX_INLINE uint16_t f16_abs(uint16_t a, const ds_ix_op *op)
{
        return (a & 0x7fffu) > 0x7c00u ? DS_IX_NAN16 : enter(a, op) & 0x7fffu;
}

DS_IX_INLINE uint16_t f16_neg(uint16_t a, const ds_ix_op *op)
{
        return (a & 0x7fffu) > 0x7c00u ? DS_IX_NAN16 : enter(a, op) ^ 0x8000u;
}

DS_IX_INLINE uint16_t bf16_abs(uint16_t a, const ds_ix_op *op)
{
        return (a & 0x7fffu) > 0x7f80u ? DS_IX_NAN16 : a & 0x7fffu;
}

DS_IX_INLINE uint16_t bf16_neg(uint16_t a, const ds_ix_op *op)
{
        return (a & 0x7fffu) > 0x7f80u ? DS_IX_NAN16 : a ^ 0x8000u;
}

#define LOW(v) ((uint16_t)(v))
#define HIGH(v) ((uint16_t)((v) >> 16))
#define PACK(low, high) ((uint32_t)(low) | (uint32_t)(high) << 16)
#define ONE(t, f)                                              \
        DS_IX_OP1(f##_##t, uint16_t, uint16_t, t##_##f(x, op)) \
        DS_IX_OP1(f##_##t##x2, uint32_t, uint32_t, PACK(t##_##f(LOW(x), op), t##_##f(HIGH(x), op)))
#define TWO(t, f)                                                           \
        DS_IX_OP2(f##_##t, uint16_t, uint16_t, uint16_t, t##_##f(x, y, op)) \
        DS_IX_OP2(f##_##t##x2, uint32_t, uint32_t, uint32_t,                \
                PACK(t##_##f(LOW(x), LOW(y), op), t##_##f(HIGH(x), HIGH(y), op)))
#define THREE(t, f)                                                                      \
        DS_IX_OP3(f##_##t, uint16_t, uint16_t, uint16_t, uint16_t, t##_##f(x, y, z, op)) \
        DS_IX_OP3(f##_##t##x2, uint32_t, uint32_t, uint32_t, uint32_t,                   \
                PACK(t##_##f(LOW(x), LOW(y), LOW(z), op), t##_##f(HIGH(x), HIGH(y), HIGH(z), op)))
#define ALL(t) \
        ONE(t, abs) ONE(t, neg) TWO(t, add) TWO(t, sub) TWO(t, mul) TWO(t, minmax) THREE(t, fma) THREE(t, fma_oob)
ALL(f16)
ALL(bf16)

/* --- approximations: evaluated as in special.c, on the widened value --- */
static const ds_ix_op *approximate(ds_ix_warp *w, const ds_ix_op *op);
static const struct ds_ix_impl approx_half = {{approximate, approximate}};

enum { APPROX_EX2 = 1, APPROX_BF16 = 2, APPROX_PACKED = 4 };

static void widen(float *to, const void *from, int packed, int high, int bf16, uint32_t ftz)
{
        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                uint16_t h = packed ? (uint16_t)(((const uint32_t *)from)[i] >> (high ? 16 : 0))
                                    : ((const uint16_t *)from)[i];

                to[i] = bf16 ? ds_ix_from_bf16(h) : ds_ix_from_half(ftz ? ds_ix_ftz_half(h) : h);
        }
}

static void narrow(uint16_t *to, const float *from, int bf16, uint32_t ftz)
{
        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                uint16_t h = bf16 ? ds_ix_to_bf16(from[i]) : ds_ix_to_half(from[i]);

                to[i] = ftz && !bf16 ? ds_ix_ftz_half(h) : h;
        }
}

/* Handler: runs the single-precision handler on each half, with the warp's scratch area as registers. */
static const ds_ix_op *approximate(ds_ix_warp *w, const ds_ix_op *op)
{
        uint32_t packed = op->mode & APPROX_PACKED, bf16 = op->mode & APPROX_BF16, ftz = op->flags & DS_IX_FTZ;
        DS_IX_BUFFER(uint16_t, half[2]);
        ds_ix_op inner = {.d = DS_IX_IN_SCRATCH, .a = DS_IX_IN_SCRATCH};
        const struct ds_ix_impl *impl = ds_ix_special_f32(op->mode & APPROX_EX2);
        uint32_t mask = w->mask;

        w->mask = DS_IX_FULL;
        for (int k = 0; k < (packed ? 2 : 1); k++) {
                widen((float *)(void *)w->scratch, ds_ix_lanes(w, op->a), !!packed, k, !!bf16, ftz);
                (void)impl->fn[DS_IX_ISA_BASE](w, &inner);
                narrow(half[k], (const float *)(void *)w->scratch, !!bf16, ftz);
        }
        w->mask = mask;
        if (packed) {
                DS_IX_BUFFER(uint32_t, both);

                for (unsigned i = 0; i < DS_IX_LANES; i++)
                        both[i] = PACK(half[0][i], half[1][i]);
                DS_IX_STORE(uint32_t, (uint32_t *)ds_ix_lanes(w, op->d), both, mask);
        } else {
                DS_IX_STORE(uint16_t, (uint16_t *)ds_ix_lanes(w, op->d), half[0], mask);
        }
        return op + 1;
}

/* --- handler tables --- */
static const struct ds_ix_impl *of_type(const struct ds_ix_impl *const f[4], enum ds_ptx_type type)
{
        return type == T(F16)      ? f[0]
               : type == T(F16X2)  ? f[1]
               : type == T(BF16)   ? f[2]
               : type == T(BF16X2) ? f[3]
                                   : NULL;
}

#define TYPES(f)                                             \
        {                                                    \
                &f##_f16, &f##_f16x2, &f##_bf16, &f##_bf16x2 \
        }

static const struct ds_ix_impl *find_minmax(const struct ds_ptx_instr *in, ds_ix_op *op)
{
        static const struct ds_ix_impl *const f[] = TYPES(minmax);

        op->mode = (uint8_t)(in->op == DS_PTX_OP_FMAX ? MINMAX_MAX : 0);
        if (ds_ptx_has(in, DS_PTX_NAN_NAN))
                op->mode |= MINMAX_NAN;
        if (ds_ptx_has(in, DS_PTX_XORSIGN_XORSIGN))
                op->mode |= MINMAX_XORSIGN;
        return of_type(f, in->types[0]);
}

static const struct ds_ix_impl *find_approx(const struct ds_ptx_instr *in, ds_ix_op *op)
{
        enum ds_ptx_type type = in->types[0];

        op->mode = (uint8_t)(in->op == DS_PTX_OP_EX2 ? APPROX_EX2 : 0);
        if (type == T(BF16) || type == T(BF16X2))
                op->mode |= APPROX_BF16;
        if (type == T(F16X2) || type == T(BF16X2))
                op->mode |= APPROX_PACKED;
        return &approx_half;
}

const struct ds_ix_impl *ds_ix_find_half(const struct ds_ptx_instr *in, ds_ix_op *op)
{
        static const struct ds_ix_impl *const add[] = TYPES(add), *const sub[] = TYPES(sub), *const mul[] = TYPES(mul);
        static const struct ds_ix_impl *const fma[] = TYPES(fma), *const oob[] = TYPES(fma_oob),
                                              *const abs[] = TYPES(abs), *const neg[] = TYPES(neg);
        enum ds_ptx_type type = in->types[0];

        if (op->mode != DS_IX_RN || !of_type(add, type))
                return NULL;
        if (ds_ptx_has(in, DS_PTX_RELU_RELU))
                op->flags |= DS_IX_RELU;
        switch (in->op) {
        case DS_PTX_OP_FADD:
                return of_type(add, type);
        case DS_PTX_OP_FSUB:
                return of_type(sub, type);
        case DS_PTX_OP_FMUL:
                return of_type(mul, type);
        case DS_PTX_OP_FMA:
                return of_type(ds_ptx_has(in, DS_PTX_OOB_OOB) ? oob : fma, type);
        case DS_PTX_OP_FABS:
                return of_type(abs, type);
        case DS_PTX_OP_FNEG:
                return of_type(neg, type);
        case DS_PTX_OP_FMIN:
        case DS_PTX_OP_FMAX:
                return find_minmax(in, op);
        case DS_PTX_OP_EX2:
        case DS_PTX_OP_TANH:
                return find_approx(in, op);
        default:
                return NULL;
        }
}
