/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Integer arithmetic of the interpreter: addition, multiplication, division, minimum and maximum
 *
 * Integers wrap; signed operations use unsigned values where C leaves the wrap undefined. Where PTX leaves the result
 * to the machine, it is the hardware's: a division by zero gives all ones, and so does its remainder.
 */
#include "ptx/interp/lane.h"

#define T(name) DS_PTX_TYPE_##name

/* --- addition and subtraction --- */
DS_IX_OP2(add_16, uint16_t, uint16_t, uint16_t, x + y)
DS_IX_OP2(add_32, uint32_t, uint32_t, uint32_t, x + y)
DS_IX_OP2(add_64, uint64_t, uint64_t, uint64_t, x + y)
DS_IX_OP2(sub_16, uint16_t, uint16_t, uint16_t, x - y)
DS_IX_OP2(sub_32, uint32_t, uint32_t, uint32_t, x - y)
DS_IX_OP2(sub_64, uint64_t, uint64_t, uint64_t, x - y)
DS_IX_OP2(add_16x2, uint32_t, uint32_t, uint32_t, ((x + y) & 0xffffu) | ((x & 0xffff0000u) + (y & 0xffff0000u)))

DS_IX_INLINE uint32_t saturate_s32(int64_t v)
{
        return (uint32_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}

DS_IX_OP2(add_sat, uint32_t, int32_t, int32_t, saturate_s32((int64_t)x + y))
DS_IX_OP2(sub_sat, uint32_t, int32_t, int32_t, saturate_s32((int64_t)x - y))

/* --- multiplication --- */
DS_IX_OP2(mul_lo_16, uint16_t, uint16_t, uint16_t, (uint32_t)x *y)
DS_IX_OP2(mul_lo_32, uint32_t, uint32_t, uint32_t, x *y)
DS_IX_OP2(mul_lo_64, uint64_t, uint64_t, uint64_t, x *y)
DS_IX_OP2(mul_hi_u16, uint16_t, uint16_t, uint16_t, ((uint32_t)x * y) >> 16)
DS_IX_OP2(mul_hi_s16, uint16_t, int16_t, int16_t, ((int32_t)x * y) >> 16)
DS_IX_OP2(mul_hi_u32, uint32_t, uint32_t, uint32_t, ((uint64_t)x * y) >> 32)
DS_IX_OP2(mul_hi_s32, uint32_t, int32_t, int32_t, ((int64_t)x * y) >> 32)
DS_IX_OP2(mul_hi_u64, uint64_t, uint64_t, uint64_t, ((unsigned __int128)x * y) >> 64)
DS_IX_OP2(mul_hi_s64, uint64_t, int64_t, int64_t, ((__int128)x * y) >> 64)
DS_IX_OP2(mul_wide_u16, uint32_t, uint16_t, uint16_t, (uint32_t)x *y)
DS_IX_OP2(mul_wide_s16, uint32_t, int16_t, int16_t, (int32_t)x *y)
DS_IX_OP2(mul_wide_u32, uint64_t, uint32_t, uint32_t, (uint64_t)x *y)
DS_IX_OP2(mul_wide_s32, uint64_t, int32_t, int32_t, (int64_t)x *y)

DS_IX_OP3(mad_lo_16, uint16_t, uint16_t, uint16_t, uint16_t, (uint32_t)x *y + z)
DS_IX_OP3(mad_lo_32, uint32_t, uint32_t, uint32_t, uint32_t, x *y + z)
DS_IX_OP3(mad_lo_64, uint64_t, uint64_t, uint64_t, uint64_t, x *y + z)
DS_IX_OP3(mad_hi_u16, uint16_t, uint16_t, uint16_t, uint16_t, (((uint32_t)x * y) >> 16) + z)
DS_IX_OP3(mad_hi_s16, uint16_t, int16_t, int16_t, uint16_t, (((int32_t)x * y) >> 16) + z)
DS_IX_OP3(mad_hi_u32, uint32_t, uint32_t, uint32_t, uint32_t, (((uint64_t)x * y) >> 32) + z)
DS_IX_OP3(mad_hi_s32, uint32_t, int32_t, int32_t, uint32_t, (uint32_t)(((int64_t)x * y) >> 32) + z)
DS_IX_OP3(mad_hi_u64, uint64_t, uint64_t, uint64_t, uint64_t, (uint64_t)(((unsigned __int128)x * y) >> 64) + z)
DS_IX_OP3(mad_hi_s64, uint64_t, int64_t, int64_t, uint64_t, (uint64_t)(((__int128)x * y) >> 64) + z)
DS_IX_OP3(mad_wide_u16, uint32_t, uint16_t, uint16_t, uint32_t, (uint32_t)x *y + z)
DS_IX_OP3(mad_wide_s16, uint32_t, int16_t, int16_t, uint32_t, (uint32_t)((int32_t)x *y) + z)
DS_IX_OP3(mad_wide_u32, uint64_t, uint32_t, uint32_t, uint64_t, (uint64_t)x *y + z)
DS_IX_OP3(mad_wide_s32, uint64_t, int32_t, int32_t, uint64_t, (uint64_t)((int64_t)x *y) + z)
DS_IX_OP3(mad_hi_sat, uint32_t, int32_t, int32_t, int32_t, saturate_s32((((int64_t)x * y) >> 32) + z))

/* mul24 and mad24: factors of 24 bits; .hi takes bits 16..47 of the product */
DS_IX_INLINE int64_t signed24(int32_t x)
{
        return (int32_t)((uint32_t)x << 8) >> 8;
}

#define U24(x) ((uint64_t)((x)&0xffffffu))
DS_IX_OP2(mul24_lo_u, uint32_t, uint32_t, uint32_t, U24(x) * U24(y))
DS_IX_OP2(mul24_hi_u, uint32_t, uint32_t, uint32_t, (U24(x) * U24(y)) >> 16)
DS_IX_OP2(mul24_lo_s, uint32_t, int32_t, int32_t, signed24(x) * signed24(y))
DS_IX_OP2(mul24_hi_s, uint32_t, int32_t, int32_t, (signed24(x) * signed24(y)) >> 16)
DS_IX_OP3(mad24_lo_u, uint32_t, uint32_t, uint32_t, uint32_t, U24(x) * U24(y) + z)
DS_IX_OP3(mad24_hi_u, uint32_t, uint32_t, uint32_t, uint32_t, ((U24(x) * U24(y)) >> 16) + z)
DS_IX_OP3(mad24_lo_s, uint32_t, int32_t, int32_t, uint32_t, (uint32_t)(signed24(x) * signed24(y)) + z)
DS_IX_OP3(mad24_hi_s, uint32_t, int32_t, int32_t, uint32_t, (uint32_t)((signed24(x) * signed24(y)) >> 16) + z)
DS_IX_OP3(mad24_hi_sat, uint32_t, int32_t, int32_t, int32_t,
        saturate_s32((int32_t)((signed24(x) * signed24(y)) >> 16) + (int64_t)z))

/* --- sums of differences, minima, signs --- */
#define ORDERED(bits, s, S)                                                                                  \
        DS_IX_OP3(sad_##s, uint##bits##_t, S, S, uint##bits##_t,                                             \
                z + (x < y ? (uint##bits##_t)y - (uint##bits##_t)x : (uint##bits##_t)x - (uint##bits##_t)y)) \
        DS_IX_OP2(min_##s, S, S, S, x < y ? x : y)                                                           \
        DS_IX_OP2(max_##s, S, S, S, x > y ? x : y)
ORDERED(16, u16, uint16_t)
ORDERED(16, s16, int16_t)
ORDERED(32, u32, uint32_t)
ORDERED(32, s32, int32_t)
ORDERED(64, u64, uint64_t)
ORDERED(64, s64, int64_t)

#define SIGNED(bits)                                                                                      \
        DS_IX_OP1(abs_##bits, uint##bits##_t, uint##bits##_t, x >> (bits - 1) ? (uint##bits##_t) - x : x) \
        DS_IX_OP1(neg_##bits, uint##bits##_t, uint##bits##_t, -x)
SIGNED(16)
SIGNED(32)
SIGNED(64)

DS_IX_OP2(min_relu, int32_t, int32_t, int32_t, x < y ? (x < 0 ? 0 : x) : y < 0 ? 0 : y)
DS_IX_OP2(max_relu, int32_t, int32_t, int32_t, x > y ? (x < 0 ? 0 : x) : y < 0 ? 0 : y)

DS_IX_INLINE uint32_t pair(uint32_t low, uint32_t high)
{
        return (low & 0xffffu) | high << 16;
}

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define LOW_S(x) ((int16_t)(x))
#define HIGH_S(x) ((int16_t)((x) >> 16))
DS_IX_OP2(min_u16x2, uint32_t, uint32_t, uint32_t, pair(MIN(x & 0xffffu, y & 0xffffu), MIN(x >> 16, y >> 16)))
DS_IX_OP2(max_u16x2, uint32_t, uint32_t, uint32_t, pair(MAX(x & 0xffffu, y & 0xffffu), MAX(x >> 16, y >> 16)))
DS_IX_OP2(min_s16x2, uint32_t, uint32_t, uint32_t,
        pair((uint32_t)MIN(LOW_S(x), LOW_S(y)), (uint32_t)MIN(HIGH_S(x), HIGH_S(y))))
DS_IX_OP2(max_s16x2, uint32_t, uint32_t, uint32_t,
        pair((uint32_t)MAX(LOW_S(x), LOW_S(y)), (uint32_t)MAX(HIGH_S(x), HIGH_S(y))))
DS_IX_OP2(min_s16x2_relu, uint32_t, uint32_t, uint32_t,
        pair((uint32_t)MAX(0, MIN(LOW_S(x), LOW_S(y))), (uint32_t)MAX(0, MIN(HIGH_S(x), HIGH_S(y)))))
DS_IX_OP2(max_s16x2_relu, uint32_t, uint32_t, uint32_t,
        pair((uint32_t)MAX(0, MAX(LOW_S(x), LOW_S(y))), (uint32_t)MAX(0, MAX(HIGH_S(x), HIGH_S(y)))))

/* --- division --- */
#define DIVISION(bits, S, U)                                                                                           \
        DS_IX_OP2(div_u##bits, U, U, U, y ? x / (y ? y : 1) : (U)-1)                                                   \
        DS_IX_OP2(rem_u##bits, U, U, U, y ? x % (y ? y : 1) : (U)-1)                                                   \
        DS_IX_OP2(div_s##bits, U, S, S, y == 0 ? (U)-1 : y == -1 ? (U)0 - (U)x : (U)(x / (y == 0 || y == -1 ? 1 : y))) \
        DS_IX_OP2(rem_s##bits, U, S, S, y == 0 ? (U)-1 : y == -1 ? (U)0 : (U)(x % (y == 0 || y == -1 ? 1 : y)))
DIVISION(16, int16_t, uint16_t)
DIVISION(32, int32_t, uint32_t)
DIVISION(64, int64_t, uint64_t)

/* --- packed dot products --- */
#define BYTE(T8, x, k) ((int32_t)(T8)((x) >> (8 * (k))))
#define HALF(T16, x, k) ((int32_t)(T16)((x) >> (16 * (k))))
#define DP4(A, B)                                                                   \
        (uint32_t)(BYTE(A, x, 0) * BYTE(B, y, 0) + BYTE(A, x, 1) * BYTE(B, y, 1)) + \
                (uint32_t)(BYTE(A, x, 2) * BYTE(B, y, 2) + BYTE(A, x, 3) * BYTE(B, y, 3)) + z
#define DP2(A16, B8, k) \
        (uint32_t)(HALF(A16, x, 0) * BYTE(B8, y, 2 * (k))) + (uint32_t)(HALF(A16, x, 1) * BYTE(B8, y, 2 * (k) + 1)) + z
#define DOT(s, A8, B8, A16)                                                             \
        DS_IX_OP3(dp4a_##s, uint32_t, uint32_t, uint32_t, uint32_t, DP4(A8, B8))        \
        DS_IX_OP3(dp2a_lo_##s, uint32_t, uint32_t, uint32_t, uint32_t, DP2(A16, B8, 0)) \
        DS_IX_OP3(dp2a_hi_##s, uint32_t, uint32_t, uint32_t, uint32_t, DP2(A16, B8, 1))
DOT(uu, uint8_t, uint8_t, uint16_t)
DOT(us, uint8_t, int8_t, uint16_t)
DOT(su, int8_t, uint8_t, int16_t)
DOT(ss, int8_t, int8_t, int16_t)

/* --- carry chains --- */
/* CARRY(): U is the operands' type, W a wider type for the sum `total`, whose bit above U is the carry. The flag
 * register is one bit mask per warp. */
#define CARRY(name, U, W, sources, total, keeps)                                  \
        DS_IX_INLINE void name##_body(ds_ix_warp *w, const ds_ix_op *op)          \
        {                                                                         \
                DS_IX_BUFFER(U, buffer);                                          \
                const U *pa = ds_ix_lanes(w, op->a), *pb = ds_ix_lanes(w, op->b); \
                sources;                                                          \
                uint32_t in = w->cc, out = 0;                                     \
                for (unsigned i = 0; i < DS_IX_LANES; i++) {                      \
                        W x = pa[i], y = pb[i], carry = (in >> i) & 1, sum;       \
                        sum = (total);                                            \
                        (void)carry;                                              \
                        buffer[i] = (U)sum;                                       \
                        out |= (uint32_t)((sum >> (8 * sizeof(U))) & 1) << i;     \
                }                                                                 \
                DS_IX_STORE(U, (U *)ds_ix_lanes(w, op->d), buffer, w->mask);      \
                if (keeps)                                                        \
                        w->cc = (w->cc & ~w->mask) | (out & w->mask);             \
        }                                                                         \
        DS_IX_VARIANTS(name)

#define HIGH(U, W) (W)(U)(((W)x * y) >> (8 * sizeof(U)))
#define LOW(U, W) (W)(U)((W)x * y)
#define CARRIES(bits, U, W)                                                                      \
        CARRY(add_cc_##bits, U, W, (void)0, x + y, 1)                                            \
        CARRY(addc_##bits, U, W, (void)0, x + y + carry, op->mode)                               \
        CARRY(sub_cc_##bits, U, W, (void)0, x - y, 1)                                            \
        CARRY(subc_##bits, U, W, (void)0, x - y - carry, op->mode)                               \
        CARRY(mad_lo_cc_##bits, U, W, const U *pc = ds_ix_lanes(w, op->c), LOW(U, W) + pc[i], 1) \
        CARRY(madc_lo_##bits, U, W, const U *pc = ds_ix_lanes(w, op->c), LOW(U, W) + pc[i] + carry, op->mode)
CARRIES(32, uint32_t, uint64_t)
CARRIES(64, uint64_t, unsigned __int128)
/* Carry chains of .hi products, separate for signed and unsigned factors. */
#define HIGHS(s, U, W, S, WS)                                                \
        CARRY(mad_hi_cc_##s, U, W, const U *pc = ds_ix_lanes(w, op->c),      \
                (W)(U)(((WS)(S)x * (WS)(S)y) >> (8 * sizeof(U))) + pc[i], 1) \
        CARRY(madc_hi_##s, U, W, const U *pc = ds_ix_lanes(w, op->c),        \
                (W)(U)(((WS)(S)x * (WS)(S)y) >> (8 * sizeof(U))) + pc[i] + carry, op->mode)
HIGHS(u32, uint32_t, uint64_t, uint32_t, uint64_t)
HIGHS(s32, uint32_t, uint64_t, int32_t, int64_t)
HIGHS(u64, uint64_t, unsigned __int128, uint64_t, unsigned __int128)
HIGHS(s64, uint64_t, unsigned __int128, int64_t, __int128)

/* --- handler tables --- */
typedef const struct ds_ix_impl *by_type[_DS_PTX_TYPE_MAX];

#define ANY(f)                                                                                              \
        [T(U16)] = &f##_16, [T(S16)] = &f##_16, [T(U32)] = &f##_32, [T(S32)] = &f##_32, [T(U64)] = &f##_64, \
        [T(S64)] = &f##_64
#define EACH(f)                                                                                                  \
        [T(U16)] = &f##_u16, [T(S16)] = &f##_s16, [T(U32)] = &f##_u32, [T(S32)] = &f##_s32, [T(U64)] = &f##_u64, \
        [T(S64)] = &f##_s64
#define WIDE(f) [T(U16)] = &f##_u16, [T(S16)] = &f##_s16, [T(U32)] = &f##_u32, [T(S32)] = &f##_s32
#define WORDS(f)                                                                                            \
        [T(U32)] = &f##_32, [T(S32)] = &f##_32, [T(B32)] = &f##_32, [T(U64)] = &f##_64, [T(S64)] = &f##_64, \
        [T(B64)] = &f##_64
#define WORDS_EACH(f) [T(U32)] = &f##_u32, [T(S32)] = &f##_s32, [T(U64)] = &f##_u64, [T(S64)] = &f##_s64

static const struct ds_ix_impl *find_product(const struct ds_ptx_instr *in, enum ds_ptx_type type)
{
        static const by_type mul_lo = {ANY(mul_lo)}, mul_hi = {EACH(mul_hi)}, mul_wide = {WIDE(mul_wide)};
        static const by_type mad_lo = {ANY(mad_lo)}, mad_hi = {EACH(mad_hi)}, mad_wide = {WIDE(mad_wide)};
        enum ds_ptx_modifier part = ds_ptx_mod(in, DS_PTX_MUL_LO);
        int mad = in->op == DS_PTX_OP_MAD;

        if (ds_ptx_has(in, DS_PTX_SAT_SAT))
                return mad && part == DS_PTX_MUL_HI && type == T(S32) ? &mad_hi_sat : NULL;
        if (part == DS_PTX_MUL_WIDE)
                return mad ? mad_wide[type] : mul_wide[type];
        if (part == DS_PTX_MUL_HI)
                return mad ? mad_hi[type] : mul_hi[type];
        return mad ? mad_lo[type] : mul_lo[type];
}

static const struct ds_ix_impl *find_product24(const struct ds_ptx_instr *in, enum ds_ptx_type type)
{
        int high = ds_ptx_has(in, DS_PTX_HILO_HI), sign = type == T(S32);

        if (in->op == DS_PTX_OP_MUL24)
                return high ? (sign ? &mul24_hi_s : &mul24_hi_u) : sign ? &mul24_lo_s : &mul24_lo_u;
        if (ds_ptx_has(in, DS_PTX_SAT_SAT))
                return high && sign ? &mad24_hi_sat : NULL;
        return high ? (sign ? &mad24_hi_s : &mad24_hi_u) : sign ? &mad24_lo_s : &mad24_lo_u;
}

static const struct ds_ix_impl *find_minimum(const struct ds_ptx_instr *in, enum ds_ptx_type type)
{
        static const by_type min = {EACH(min), [T(U16X2)] = &min_u16x2, [T(S16X2)] = &min_s16x2};
        static const by_type max = {EACH(max), [T(U16X2)] = &max_u16x2, [T(S16X2)] = &max_s16x2};
        static const by_type min_r = {[T(S32)] = &min_relu, [T(S16X2)] = &min_s16x2_relu};
        static const by_type max_r = {[T(S32)] = &max_relu, [T(S16X2)] = &max_s16x2_relu};
        int relu = ds_ptx_has(in, DS_PTX_RELU_RELU);

        if (in->op == DS_PTX_OP_MIN)
                return relu ? min_r[type] : min[type];
        return relu ? max_r[type] : max[type];
}

static const struct ds_ix_impl *find_dot(const struct ds_ptx_instr *in)
{
        static const struct ds_ix_impl *const four[] = {&dp4a_uu, &dp4a_us, &dp4a_su, &dp4a_ss};
        static const struct ds_ix_impl *const low[] = {&dp2a_lo_uu, &dp2a_lo_us, &dp2a_lo_su, &dp2a_lo_ss};
        static const struct ds_ix_impl *const high[] = {&dp2a_hi_uu, &dp2a_hi_us, &dp2a_hi_su, &dp2a_hi_ss};
        int signs = (in->types[0] == T(S32)) * 2 + (in->types[1] == T(S32));

        if (in->op == DS_PTX_OP_DP4A)
                return four[signs];
        return ds_ptx_has(in, DS_PTX_HILO_HI) ? high[signs] : low[signs];
}

static const struct ds_ix_impl *find_carry(const struct ds_ptx_instr *in, enum ds_ptx_type type, ds_ix_op *op)
{
        static const by_type add_cc = {WORDS(add_cc)}, addc = {WORDS(addc)};
        static const by_type sub_cc = {WORDS(sub_cc)}, subc = {WORDS(subc)};
        static const by_type mad_lo_cc = {WORDS(mad_lo_cc)}, mad_hi_cc = {WORDS_EACH(mad_hi_cc)};
        static const by_type madc_lo = {WORDS(madc_lo)}, madc_hi = {WORDS_EACH(madc_hi)};
        int high = ds_ptx_has(in, DS_PTX_HILO_HI);

        op->mode = ds_ptx_has(in, DS_PTX_CC_CC);
        switch (in->op) {
        case DS_PTX_OP_ADD_CC:
                return add_cc[type];
        case DS_PTX_OP_ADDC:
                return addc[type];
        case DS_PTX_OP_SUB_CC:
                return sub_cc[type];
        case DS_PTX_OP_SUBC:
                return subc[type];
        case DS_PTX_OP_MAD_CC:
                return high ? mad_hi_cc[type] : mad_lo_cc[type];
        default:
                return high ? madc_hi[type] : madc_lo[type];
        }
}

static const struct ds_ix_impl *find_plain(const struct ds_ptx_instr *in, enum ds_ptx_type type)
{
        static const by_type add = {ANY(add), [T(U16X2)] = &add_16x2, [T(S16X2)] = &add_16x2};
        static const by_type sub = {ANY(sub)}, sad = {EACH(sad)}, div = {EACH(div)}, rem = {EACH(rem)};
        static const by_type abs = {[T(S16)] = &abs_16, [T(S32)] = &abs_32, [T(S64)] = &abs_64};
        static const by_type neg = {[T(S16)] = &neg_16, [T(S32)] = &neg_32, [T(S64)] = &neg_64};
        int sat = ds_ptx_has(in, DS_PTX_SAT_SAT);

        switch (in->op) {
        case DS_PTX_OP_ADD:
                return !sat ? add[type] : type == T(S32) ? &add_sat : NULL;
        case DS_PTX_OP_SUB:
                return !sat ? sub[type] : type == T(S32) ? &sub_sat : NULL;
        case DS_PTX_OP_SAD:
                return sad[type];
        case DS_PTX_OP_DIV:
                return div[type];
        case DS_PTX_OP_REM:
                return rem[type];
        case DS_PTX_OP_ABS:
                return abs[type];
        case DS_PTX_OP_NEG:
                return neg[type];
        default:
                return NULL;
        }
}

const struct ds_ix_impl *ds_ix_find_int(const struct ds_ptx_instr *in, ds_ix_op *op)
{
        enum ds_ptx_type type = in->types[0];

        switch (in->op) {
        case DS_PTX_OP_MUL:
        case DS_PTX_OP_MAD:
                return find_product(in, type);
        case DS_PTX_OP_MUL24:
        case DS_PTX_OP_MAD24:
                return find_product24(in, type);
        case DS_PTX_OP_MIN:
        case DS_PTX_OP_MAX:
                return find_minimum(in, type);
        case DS_PTX_OP_DP4A:
        case DS_PTX_OP_DP2A:
                return find_dot(in);
        case DS_PTX_OP_ADD_CC:
        case DS_PTX_OP_ADDC:
        case DS_PTX_OP_SUB_CC:
        case DS_PTX_OP_SUBC:
        case DS_PTX_OP_MAD_CC:
        case DS_PTX_OP_MADC:
                return find_carry(in, type, op);
        default:
                return find_plain(in, type);
        }
}
