/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cvt: between all scalar types, in every rounding
 *
 * Registers may be wider than the types of a conversion: sources are truncated to their type, results extended by it.
 * The common conversions have handlers of their own. All others use one handler in three steps: read as 64-bit integer
 * or as double (both exact), convert, write. Narrowing rounds once: a double is rounded to odd before it becomes a
 * half.
 */
#include <math.h>

#include "ptx/interp/half.h"

#define T(name) DS_PTX_TYPE_##name

/* --- common conversions --- */
DS_IX_OP1(u64_u32, uint64_t, uint32_t, x)
DS_IX_OP1(s64_s32, int64_t, int32_t, x)
DS_IX_OP1(u32_u64, uint32_t, uint64_t, x)
DS_IX_OP1(u16_u32, uint16_t, uint32_t, x)
DS_IX_OP1(u16_u64, uint16_t, uint64_t, x)
DS_IX_OP1(u32_u16, uint32_t, uint16_t, x)
DS_IX_OP1(s32_s16, int32_t, int16_t, x)
DS_IX_OP1(u64_u16, uint64_t, uint16_t, x)
DS_IX_OP1(s64_s16, int64_t, int16_t, x)
DS_IX_OP1(s32_s8_32, int32_t, int32_t, (int8_t)x)
DS_IX_OP1(u32_u8_32, uint32_t, uint32_t, (uint8_t)x)
DS_IX_OP1(s16_s8_16, int16_t, int16_t, (int8_t)x)
DS_IX_OP1(u16_u8_16, uint16_t, uint16_t, (uint8_t)x)
DS_IX_OP1(f32_s32, float, int32_t, (float)x)
DS_IX_OP1(f32_u32, float, uint32_t, (float)x)
DS_IX_OP1(f64_s32, double, int32_t, (double)x)
DS_IX_OP1(f64_u32, double, uint32_t, (double)x)
/* Between float and double a NaN keeps its sign and the upper bits of its payload, and becomes quiet. */
DS_IX_INLINE uint64_t widen_nan(uint32_t u)
{
        return (uint64_t)(u & 0x80000000u) << 32 | UINT64_C(0x7ff8000000000000) | (uint64_t)(u & 0x3fffffu) << 29;
}

DS_IX_INLINE uint32_t narrow_nan(uint64_t u)
{
        return (uint32_t)(u >> 32 & 0x80000000u) | 0x7fc00000u | (uint32_t)(u >> 29 & 0x3fffffu);
}

DS_IX_OP1(f64_f32, uint64_t, float, x != x ? widen_nan(ds_ix_bits32(x)) : ds_ix_bits64((double)x))
DS_IX_OP1(f32_f64, uint32_t, double, x != x ? narrow_nan(ds_ix_bits64(x)) : ds_ix_bits32((float)x))
DS_IX_OP1(f32_f16, uint32_t, uint16_t, ds_ix_canonical(ds_ix_from_half(x)))
DS_IX_OP1(f16_f32, uint16_t, float, ds_ix_to_half(x))
DS_IX_OP1(bf16_f32, uint16_t, float, ds_ix_to_bf16(x))

/* float to s32 by truncation: clamps values out of range, and gives 0 for NaN */
DS_IX_INLINE int32_t cut_s32(float x)
{
        float in = x > -0x1p31f ? (x < 0x1p31f ? x : 0.0f) : 0.0f;
        int32_t r = (int32_t)in;

        r = x >= 0x1p31f ? INT32_MAX : r;
        return x <= -0x1p31f ? INT32_MIN : r;
}
DS_IX_OP1(s32_f32_rzi, int32_t, float, cut_s32(x))

/* rounding to integral values of the same floating-point type */
#define INTEGRALS(t, U, F, suffix, out)                           \
        DS_IX_OP1(t##_rni, U, F, out(__builtin_rint##suffix(x)))  \
        DS_IX_OP1(t##_rzi, U, F, out(__builtin_trunc##suffix(x))) \
        DS_IX_OP1(t##_rmi, U, F, out(__builtin_floor##suffix(x))) \
        DS_IX_OP1(t##_rpi, U, F, out(__builtin_ceil##suffix(x)))
#define OUT64(x) (ds_ix_bits64(x) | ((x) != (x) ? UINT64_C(1) << 51 : 0))
INTEGRALS(f32, uint32_t, float, f, ds_ix_canonical)
INTEGRALS(f64, uint64_t, double, , OUT64)
DS_IX_OP1(f32_sat, float, float, ds_ix_saturate(x))

/* two floats become a pair of halves, the first one in the upper half */
DS_IX_INLINE float relu(float x, const ds_ix_op *op)
{
        return op->flags & DS_IX_RELU && x <= 0 ? 0.0f : x;
}
#define PAIR(low, high) ((uint32_t)(low) | (uint32_t)(high) << 16)
DS_IX_OP2(f16x2_f32, uint32_t, float, float, PAIR(ds_ix_to_half(relu(y, op)), ds_ix_to_half(relu(x, op))))
DS_IX_OP2(bf16x2_f32, uint32_t, float, float, PAIR(ds_ix_to_bf16(relu(y, op)), ds_ix_to_bf16(relu(x, op))))

/* --- general conversion --- */
/* Fields of a general conversion's operation: size and n are the registers' bytes, mode is the rounding to a float
 * format, space the rounding to an integral value (enum below), imm the types. */
enum { INTEGRAL_NONE, INTEGRAL_NEAREST, INTEGRAL_ZERO, INTEGRAL_DOWN, INTEGRAL_UP };
#define FROM(op) ((enum ds_ptx_type)((op)->imm & 0xff))
#define TO(op) ((enum ds_ptx_type)((op)->imm >> 8 & 0xff))

static uint64_t read_register(const uint8_t *p, uint32_t bytes)
{
        uint64_t u = 0;

        memcpy(&u, p, bytes);
        return u;
}

/* Truncates u to the type's width and extends it by the type's sign. */
static uint64_t cut(uint64_t u, enum ds_ptx_type type)
{
        uint32_t up = 64 - ds_ptx_type_bits(type);

        return ds_ptx_type_is_signed(type) ? (uint64_t)((int64_t)(u << up) >> up) : u << up >> up;
}

static double read_float(uint64_t u, enum ds_ptx_type type, uint32_t flags)
{
        float f;

        switch (type) {
        case T(F64):
                return ds_ix_double(u);
        case T(F16):
                return ds_ix_from_half((uint16_t)u);
        case T(BF16):
                return ds_ix_from_bf16((uint16_t)u);
        default:
                f = ds_ix_float((uint32_t)u);
                return flags & DS_IX_FTZ ? ds_ix_ftz(f) : f;
        }
}

static double integral(double x, uint32_t how)
{
        switch (how) {
        case INTEGRAL_NEAREST:
                return rint(x);
        case INTEGRAL_ZERO:
                return trunc(x);
        case INTEGRAL_DOWN:
                return floor(x);
        case INTEGRAL_UP:
                return ceil(x);
        default:
                return x;
        }
}

/* Corrects a sign-magnitude pattern u, which is rounded to nearest, to another rounding. back: value of u; exact:
 * value to round. */
static uint64_t redirect(uint64_t u, double back, long double exact, uint32_t mode)
{
        int negative = exact<0, over = back> exact, under = back < exact;

        switch (mode) {
        case DS_IX_RZ:
                return negative ? u - (uint64_t)under : u - (uint64_t)over;
        case DS_IX_RM:
                return negative ? u + (uint64_t)over : u - (uint64_t)over;
        case DS_IX_RP:
                return negative ? u - (uint64_t)under : u + (uint64_t)under;
        default:
                return u;
        }
}

static uint32_t to_tf32(float f, uint32_t mode)
{
        uint32_t u = ds_ix_bits32(f);

        if ((u & 0x7f800000u) == 0x7f800000u || mode == DS_IX_RZ)
                return u & 0xffffe000u;
        if (mode == DS_IX_RNA)
                return (u + 0x1000u) & 0xffffe000u;
        return (u + 0xfffu + (u >> 13 & 1)) & 0xffffe000u;
}

/* Writes a value to a float format in op's rounding. 64-bit integers and doubles are both exact in a long double. */
static uint64_t write_float(long double exact, const ds_ix_op *op)
{
        double d = (double)exact;
        uint64_t u;

        if (op->flags & DS_IX_SAT)
                exact = d = d > 0 ? (d < 1 ? d : 1) : 0;
        if (op->flags & DS_IX_RELU && d <= 0)
                exact = d = 0;
        switch (TO(op)) {
        case T(F64):
                return redirect(ds_ix_bits64(d), d, exact, op->mode);
        case T(F16):
                u = ds_ix_to_half(ds_ix_narrow_odd(d));
                return redirect(u, ds_ix_from_half((uint16_t)u), exact, op->mode);
        case T(BF16):
                u = ds_ix_to_bf16(ds_ix_narrow_odd(d));
                return redirect(u, ds_ix_from_bf16((uint16_t)u), exact, op->mode);
        case T(TF32):
                return to_tf32((float)d, op->mode);
        default:
                break;
        }
        float f = (float)exact;

        u = redirect(ds_ix_bits32(f), f, exact, op->mode);
        return op->flags & DS_IX_FTZ ? ds_ix_bits32(ds_ix_ftz(ds_ix_float((uint32_t)u))) : u;
}

/* Converts a NaN between formats: canonical if single and half precision meet, else with sign and payload. */
static uint64_t convert_nan(uint64_t u, enum ds_ptx_type from, enum ds_ptx_type to, uint32_t flags)
{
        uint64_t wide;

        if (from == T(F32) && flags & DS_IX_FTZ)
                u = DS_IX_NAN32;
        if (from == T(BF16) && to == T(F32))
                return u << 16;
        if (from != T(F64) && to != T(F64))
                return to == T(TF32) ? u & 0xffffe000u : to == T(F32) ? DS_IX_NAN32 : DS_IX_NAN16;
        wide = from == T(F64)    ? u | UINT64_C(1) << 51
               : from == T(F16)  ? (u & 0x8000) << 48 | UINT64_C(0x7ff8000000000000) | (u & 0x1ff) << 42
               : from == T(BF16) ? widen_nan((uint32_t)u << 16)
                                 : widen_nan((uint32_t)u);
        switch (to) {
        case T(F64):
                return wide;
        case T(F16):
                return (wide >> 48 & 0x8000) | 0x7e00 | (wide >> 42 & 0x1ff);
        case T(BF16):
                return narrow_nan(wide) >> 16;
        default:
                return narrow_nan(wide);
        }
}

/* Rounds x to an integer and clamps it to the destination's range. For NaN see the PTX manual, cvt,
 * "float-to-integer". */
static uint64_t write_integer(double x, const ds_ix_op *op)
{
        enum ds_ptx_type to = TO(op), from = FROM(op);
        uint32_t bits = ds_ptx_type_bits(to);
        int sign = ds_ptx_type_is_signed(to);
        double low = sign ? -ldexp(1, (int)bits - 1) : 0, high = ldexp(1, (int)bits - sign);

        if (x != x)
                return from != T(F64) && bits < 64 ? 0 : UINT64_C(1) << (bits - 1);
        if (x <= low)
                return sign ? (uint64_t)INT64_MIN >> (64 - bits) : 0;
        if (x >= high)
                return UINT64_MAX >> (64 - bits) >> sign;
        return x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x;
}

/* .sat between integers: clamps u to the destination's range. */
static uint64_t clamp(uint64_t u, const ds_ix_op *op)
{
        uint32_t bits = ds_ptx_type_bits(TO(op));
        int from_signed = ds_ptx_type_is_signed(FROM(op));
        int to_signed = ds_ptx_type_is_signed(TO(op)) || TO(op) == T(S4) || TO(op) == T(S2);
        uint64_t high = UINT64_MAX >> (64 - bits) >> to_signed;
        int negative = from_signed && (int64_t)u < 0;

        if (!negative)
                return u > high ? high : u;
        if (!to_signed)
                return 0;
        return (int64_t)u < -(int64_t)high - 1 ? (uint64_t)(-(int64_t)high - 1) : u;
}

static uint64_t convert(uint64_t u, const ds_ix_op *op)
{
        enum ds_ptx_type from = FROM(op), to = TO(op);
        int from_float = ds_ptx_type_is_float(from), to_float = ds_ptx_type_is_float(to);
        double x;

        if (!from_float) {
                u = cut(u, from);
                if (to_float)
                        return write_float(ds_ptx_type_is_signed(from) ? (long double)(int64_t)u : (long double)u, op);
                return op->flags & DS_IX_SAT ? clamp(u, op) : u;
        }
        x = integral(read_float(u, from, op->flags), op->space);
        if (to_float && x != x && !(op->flags & DS_IX_SAT))
                return convert_nan(u, from, to, op->flags);
        return to_float ? write_float(x, op) : write_integer(x, op);
}

static const ds_ix_op *cvt_any(ds_ix_warp *w, const ds_ix_op *op)
{
        const uint8_t *pa = ds_ix_lanes(w, op->a);
        uint8_t *pd = ds_ix_lanes(w, op->d);
        enum ds_ptx_type to = TO(op);

        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                uint64_t u;

                if (!(w->mask & ds_ix_bit[i]))
                        continue;
                u = cut(convert(read_register(pa + (size_t)i * op->size, op->size), op), to);
                memcpy(pd + (size_t)i * op->n, &u, op->n);
        }
        return op + 1;
}
static const struct ds_ix_impl cvt_any_impl = {{cvt_any, cvt_any}};

/* --- cvt.pack: two saturated integers side by side, above the low bits of a third ---------------- */
static const ds_ix_op *cvt_pack(ds_ix_warp *w, const ds_ix_op *op)
{
        const uint32_t *pa = ds_ix_lanes(w, op->a), *pb = ds_ix_lanes(w, op->b);
        const uint32_t *pc = op->c == DS_IX_NO_SLOT ? NULL : ds_ix_lanes(w, op->c);
        uint32_t *pd = ds_ix_lanes(w, op->d), bits = ds_ptx_type_bits(TO(op)), field = UINT32_MAX >> (32 - bits);

        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                uint32_t high = (uint32_t)clamp(cut(pa[i], FROM(op)), op) & field;
                uint32_t low = (uint32_t)clamp(cut(pb[i], FROM(op)), op) & field;
                uint32_t rest = pc && bits < 16 ? pc[i] << (2 * bits) : 0;

                if (w->mask & ds_ix_bit[i])
                        pd[i] = rest | high << bits | low;
        }
        return op + 1;
}
static const struct ds_ix_impl cvt_pack_impl = {{cvt_pack, cvt_pack}};

/* --- handler tables --- */
struct quick {
        uint8_t to, from, to_bytes, from_bytes;
        const struct ds_ix_impl *impl;
};

/* handlers of conversions without any modifier */
static const struct quick plain[] = {
        {T(U64), T(U32), 8, 4, &u64_u32},
        {T(S64), T(U32), 8, 4, &u64_u32},
        {T(S64), T(S32), 8, 4, &s64_s32},
        {T(U64), T(S32), 8, 4, &s64_s32},
        {T(U32), T(U64), 4, 8, &u32_u64},
        {T(S32), T(S64), 4, 8, &u32_u64},
        {T(U32), T(S64), 4, 8, &u32_u64},
        {T(S32), T(U64), 4, 8, &u32_u64},
        {T(U16), T(U32), 2, 4, &u16_u32},
        {T(S16), T(S32), 2, 4, &u16_u32},
        {T(U16), T(U64), 2, 8, &u16_u64},
        {T(U32), T(U16), 4, 2, &u32_u16},
        {T(S32), T(U16), 4, 2, &u32_u16},
        {T(S32), T(S16), 4, 2, &s32_s16},
        {T(U64), T(U16), 8, 2, &u64_u16},
        {T(S64), T(S16), 8, 2, &s64_s16},
        {T(S32), T(S8), 4, 4, &s32_s8_32},
        {T(U32), T(U8), 4, 4, &u32_u8_32},
        {T(S16), T(S8), 2, 2, &s16_s8_16},
        {T(U16), T(U8), 2, 2, &u16_u8_16},
        {T(F64), T(F32), 8, 4, &f64_f32},
        {T(F32), T(F16), 4, 2, &f32_f16},
};

/* Rounds to tf32; infinities and NaN keep the bits that tf32 has. */
#define TF32(rounded) ((((x)&0x7f800000u) == 0x7f800000u ? (x) : (rounded)) & 0xffffe000u)
DS_IX_OP1(tf32_f32_rn, uint32_t, uint32_t, TF32(x + 0xfffu + (x >> 13 & 1)))
DS_IX_OP1(tf32_f32_rz, uint32_t, uint32_t, TF32(x))
DS_IX_OP1(tf32_f32_rna, uint32_t, uint32_t, TF32(x + 0x1000u))
static const struct ds_ix_impl *const tf32_f32[] = {
        [DS_IX_RN] = &tf32_f32_rn, [DS_IX_RZ] = &tf32_f32_rz, [DS_IX_RNA] = &tf32_f32_rna};

/* handlers of conversions with .rn */
static const struct quick nearest[] = {
        {T(F32), T(S32), 4, 4, &f32_s32},
        {T(F32), T(U32), 4, 4, &f32_u32},
        {T(F64), T(S32), 8, 4, &f64_s32},
        {T(F64), T(U32), 8, 4, &f64_u32},
        {T(F32), T(F64), 4, 8, &f32_f64},
        {T(F16), T(F32), 2, 4, &f16_f32},
        {T(BF16), T(F32), 2, 4, &bf16_f32},
};

/* handlers of roundings to integral values, indexed by op->space */
static const struct ds_ix_impl *const f32_integral[] = {NULL, &f32_rni, &f32_rzi, &f32_rmi, &f32_rpi};
static const struct ds_ix_impl *const f64_integral[] = {NULL, &f64_rni, &f64_rzi, &f64_rmi, &f64_rpi};

static const struct ds_ix_impl *find_quick(const struct quick *q, size_t n, const ds_ix_op *op)
{
        for (size_t i = 0; i < n; i++) {
                if (q[i].to == TO(op) && q[i].from == FROM(op) && q[i].to_bytes == op->n && q[i].from_bytes == op->size)
                        return q[i].impl;
        }
        return NULL;
}

/* Whether the general conversion supports the type */
static int known(enum ds_ptx_type type, int to)
{
        switch (type) {
        case T(U8):
        case T(S8):
        case T(U16):
        case T(S16):
        case T(U32):
        case T(S32):
        case T(U64):
        case T(S64):
        case T(F16):
        case T(BF16):
        case T(F32):
        case T(F64):
                return 1;
        default:
                return to && type == T(TF32);
        }
}

static const struct ds_ix_impl *find_scalar(const struct ds_ptx_instr *in, ds_ix_op *op)
{
        enum ds_ptx_modifier whole = ds_ptx_mod(in, DS_PTX_ROUND_INT_RNI), round = ds_ptx_mod(in, DS_PTX_ROUND_RN);
        const struct ds_ix_impl *impl = NULL;
        uint32_t special = op->flags & (DS_IX_FTZ | DS_IX_SAT | DS_IX_RELU);

        op->space = (uint8_t)(whole ? whole - DS_PTX_ROUND_INT_RNI + INTEGRAL_NEAREST : INTEGRAL_NONE);
        /* older compilers' syntax: .rn, .rz etc. between equal float types round to an integral value */
        if (!whole && round && ds_ptx_type_is_float(FROM(op)) && !ds_ptx_type_is_float(TO(op)))
                op->space = (uint8_t)(op->mode + INTEGRAL_NEAREST);
        if (!special && TO(op) == T(TF32) && FROM(op) == T(F32) && op->n == 4 && op->size == 4)
                impl = tf32_f32[op->mode];
        else if (!special && op->mode == DS_IX_RN && !op->space)
                impl = round ? find_quick(nearest, DS_ARRAY_SIZE(nearest), op)
                             : find_quick(plain, DS_ARRAY_SIZE(plain), op);
        else if (!special && FROM(op) == T(F32) && TO(op) == T(F32))
                impl = f32_integral[op->space];
        else if (!special && FROM(op) == T(F64) && TO(op) == T(F64))
                impl = f64_integral[op->space];
        else if (special == DS_IX_SAT && FROM(op) == T(F32) && TO(op) == T(F32) && !op->space)
                impl = &f32_sat;
        else if (!special && op->space == INTEGRAL_ZERO && TO(op) == T(S32) && FROM(op) == T(F32) && op->n == 4)
                impl = &s32_f32_rzi;
        if (impl)
                return impl;
        return known(FROM(op), 0) && known(TO(op), 1) ? &cvt_any_impl : NULL;
}

const struct ds_ix_impl *ds_ix_find_cvt(
        const struct ds_ptx_instr *in, uint32_t from_bytes, uint32_t to_bytes, ds_ix_op *op)
{
        enum ds_ptx_type to = in->types[0], from = in->types[1];

        op->size = (uint8_t)from_bytes;
        op->n = (uint8_t)to_bytes;
        op->imm = (uint64_t)from | (uint64_t)to << 8;
        if (ds_ptx_has(in, DS_PTX_RELU_RELU))
                op->flags |= DS_IX_RELU;
        if (in->op == DS_PTX_OP_CVT_PACK)
                return &cvt_pack_impl;
        if (ds_ptx_has(in, DS_PTX_SATFINITE_SATFINITE) || to == T(E4M3X2) || to == T(E5M2X2) || from == T(E4M3X2) ||
                from == T(E5M2X2) || ((to == T(F16X2) || to == T(BF16X2)) && op->mode == DS_IX_RZ))
                return ds_ix_find_narrow(in, op);
        if (to == T(F16X2) || to == T(BF16X2)) {
                if (from != T(F32) || op->mode != DS_IX_RN || op->flags & (DS_IX_SAT | DS_IX_FTZ))
                        return NULL;
                return to == T(F16X2) ? &f16x2_f32 : &bf16x2_f32;
        }
        return find_scalar(in, op);
}
