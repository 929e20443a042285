/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bit operations of the interpreter: logic, shifts, fields, permutations, counting
 *
 * Shift amounts beyond the width are clamped, and fields that reach beyond the word are cut, exactly as PTX specifies.
 * So no lane causes an undefined shift in C.
 */
#include "ptx/interp/lane.h"

#define T(name) DS_PTX_TYPE_##name

/* --- logic --- */
#define LOGIC(bits)                                                                  \
        DS_IX_OP2(and_##bits, uint##bits##_t, uint##bits##_t, uint##bits##_t, x &y)  \
        DS_IX_OP2(or_##bits, uint##bits##_t, uint##bits##_t, uint##bits##_t, x | y)  \
        DS_IX_OP2(xor_##bits, uint##bits##_t, uint##bits##_t, uint##bits##_t, x ^ y) \
        DS_IX_OP1(not_##bits, uint##bits##_t, uint##bits##_t, ~x)                    \
        DS_IX_OP1(cnot_##bits, uint##bits##_t, uint##bits##_t, x == 0)
LOGIC(16)
LOGIC(32)
LOGIC(64)

#define PREDICATE(name, value)                                                  \
        DS_IX_INLINE void name##_body(ds_ix_warp *w, const ds_ix_op *op)        \
        {                                                                       \
                uint32_t x = ds_ix_pred(w, op->a);                              \
                uint32_t y = op->b == DS_IX_NO_SLOT ? 0 : ds_ix_pred(w, op->b); \
                (void)y;                                                        \
                ds_ix_set_pred(w, op->d, value);                                \
        }                                                                       \
        DS_IX_VARIANTS(name)
PREDICATE(and_pred, x &y)
PREDICATE(or_pred, x | y)
PREDICATE(xor_pred, x ^ y)
PREDICATE(not_pred, ~x)

DS_IX_INLINE uint32_t lop3_of(uint32_t a, uint32_t b, uint32_t c, uint32_t lut)
{
        uint32_t r = 0;

        r |= (0 - (lut >> 0 & 1)) & ~a & ~b & ~c;
        r |= (0 - (lut >> 1 & 1)) & ~a & ~b & c;
        r |= (0 - (lut >> 2 & 1)) & ~a & b & ~c;
        r |= (0 - (lut >> 3 & 1)) & ~a & b & c;
        r |= (0 - (lut >> 4 & 1)) & a & ~b & ~c;
        r |= (0 - (lut >> 5 & 1)) & a & ~b & c;
        r |= (0 - (lut >> 6 & 1)) & a & b & ~c;
        r |= (0 - (lut >> 7 & 1)) & a & b & c;
        return r;
}

DS_IX_OP3(lop3, uint32_t, uint32_t, uint32_t, uint32_t, lop3_of(x, y, z, (uint32_t)op->imm))

/* lop3 with a predicate result: p = (d != 0), combined with the predicate operand */
DS_IX_INLINE void lop3_bool_body(ds_ix_warp *w, const ds_ix_op *op)
{
        DS_IX_BUFFER(uint32_t, buffer);
        const uint32_t *pa = ds_ix_lanes(w, op->a), *pb = ds_ix_lanes(w, op->b), *pc = ds_ix_lanes(w, op->c);
        uint32_t set = 0, q = ds_ix_pred(w, op->f);

        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                buffer[i] = lop3_of(pa[i], pb[i], pc[i], (uint32_t)op->imm & 0xff);
                set |= buffer[i] ? ds_ix_bit[i] : 0;
        }
        DS_IX_STORE(uint32_t, (uint32_t *)ds_ix_lanes(w, op->d), buffer, w->mask);
        ds_ix_set_pred(w, op->e, op->mode == 0 ? set & q : op->mode == 1 ? set | q : set ^ q);
}
DS_IX_VARIANTS(lop3_bool)

/* --- shifts --- */
#define SHIFTS(bits)                                                                                           \
        DS_IX_OP2(shl_##bits, uint##bits##_t, uint##bits##_t, uint32_t, y < bits ? x << (y & (bits - 1)) : 0)  \
        DS_IX_OP2(shr_u##bits, uint##bits##_t, uint##bits##_t, uint32_t, y < bits ? x >> (y & (bits - 1)) : 0) \
        DS_IX_OP2(shr_s##bits, int##bits##_t, int##bits##_t, uint32_t, x >> (y < bits ? y : bits - 1))
SHIFTS(16)
SHIFTS(32)
SHIFTS(64)

#define FUNNEL ((uint64_t)y << 32 | x)
DS_IX_OP3(shf_l_wrap, uint32_t, uint32_t, uint32_t, uint32_t, (FUNNEL << (z & 31)) >> 32)
DS_IX_OP3(shf_r_wrap, uint32_t, uint32_t, uint32_t, uint32_t, FUNNEL >> (z & 31))
DS_IX_OP3(shf_l_clamp, uint32_t, uint32_t, uint32_t, uint32_t, (FUNNEL << (z < 32 ? z : 32)) >> 32)
DS_IX_OP3(shf_r_clamp, uint32_t, uint32_t, uint32_t, uint32_t, FUNNEL >> (z < 32 ? z : 32))

/* --- bytes --- */
DS_IX_INLINE uint32_t permute(uint32_t a, uint32_t b, uint32_t selector)
{
        uint64_t bytes = (uint64_t)b << 32 | a;
        uint32_t r = 0;

        for (unsigned k = 0; k < 4; k++) {
                uint32_t s = selector >> (4 * k), byte = (uint32_t)(bytes >> (8 * (s & 7))) & 0xff;
                uint32_t sign = 0xff & (0 - (byte >> 7));

                r |= (s & 8 ? sign : byte) << (8 * k);
        }
        return r;
}

DS_IX_OP3(prmt, uint32_t, uint32_t, uint32_t, uint32_t, permute(x, y, z))

/* Selectors of prmt's named modes: the two low bits of the third operand choose one of a mode's four permutations. */
static const uint16_t prmt_modes[6][4] = {
        {0x3210, 0x4321, 0x5432, 0x6543}, /* f4e */
        {0x5670, 0x6701, 0x7012, 0x0123}, /* b4e */
        {0x0000, 0x1111, 0x2222, 0x3333}, /* rc8 */
        {0x3210, 0x3211, 0x3222, 0x3333}, /* ecl */
        {0x0000, 0x1110, 0x2210, 0x3210}, /* ecr */
        {0x1010, 0x3232, 0x1010, 0x3232}, /* rc16 */
};
DS_IX_OP3(prmt_mode, uint32_t, uint32_t, uint32_t, uint32_t, permute(x, y, prmt_modes[op->mode][z & 3]))

/* --- bit fields --- */
#define FIELDS(bits, U, S)                                                                                    \
        DS_IX_INLINE U low_mask_##bits(uint32_t length)                                                       \
        {                                                                                                     \
                return length < bits ? ((U)1 << (length & (bits - 1))) - 1 : (U)-1;                           \
        }                                                                                                     \
        DS_IX_INLINE U extract_u##bits(U a, uint32_t pos, uint32_t length)                                    \
        {                                                                                                     \
                return pos < bits ? (a >> (pos & (bits - 1))) & low_mask_##bits(length) : 0;                  \
        }                                                                                                     \
        DS_IX_INLINE U extract_s##bits(S a, uint32_t pos, uint32_t length)                                    \
        {                                                                                                     \
                S v = a >> (pos < bits ? pos : bits - 1);                                                     \
                uint32_t up = length < bits ? bits - length : 0;                                              \
                                                                                                              \
                if (length == 0)                                                                              \
                        return 0;                                                                             \
                return pos + length < bits ? (U)((S)((U)v << (up & (bits - 1))) >> (up & (bits - 1))) : (U)v; \
        }                                                                                                     \
        DS_IX_INLINE U insert_##bits(U a, U b, uint32_t pos, uint32_t length)                                 \
        {                                                                                                     \
                U field = pos < bits ? low_mask_##bits(length) << (pos & (bits - 1)) : 0;                     \
                                                                                                              \
                return (b & ~field) | ((a << (pos & (bits - 1))) & field);                                    \
        }                                                                                                     \
        DS_IX_OP3(bfe_u##bits, U, U, uint32_t, uint32_t, extract_u##bits(x, y & 0xff, z & 0xff))              \
        DS_IX_OP3(bfe_s##bits, U, S, uint32_t, uint32_t, extract_s##bits(x, y & 0xff, z & 0xff))              \
        DS_IX_OP4(bfi_##bits, U, U, U, uint32_t, uint32_t, insert_##bits(x, y, z & 0xff, v & 0xff))
FIELDS(32, uint32_t, int32_t)
FIELDS(64, uint64_t, int64_t)

DS_IX_OP2(bmsk_wrap, uint32_t, uint32_t, uint32_t, low_mask_32(y & 31) << (x & 31))
DS_IX_OP2(bmsk_clamp, uint32_t, uint32_t, uint32_t, x < 32 ? low_mask_32(y) << (x & 31) : 0)
DS_IX_OP2(szext_u_wrap, uint32_t, uint32_t, uint32_t, extract_u32(x, 0, y & 31))
DS_IX_OP2(szext_u_clamp, uint32_t, uint32_t, uint32_t, extract_u32(x, 0, y < 32 ? y : 32))
DS_IX_OP2(szext_s_wrap, uint32_t, int32_t, uint32_t, extract_s32(x, 0, y & 31))
DS_IX_OP2(szext_s_clamp, uint32_t, int32_t, uint32_t, extract_s32(x, 0, y < 32 ? y : 32))

/* --- counting --- */
DS_IX_INLINE uint32_t find_32(uint32_t v)
{
        return v ? 31 - (uint32_t)__builtin_clz(v) : UINT32_MAX;
}

DS_IX_INLINE uint32_t find_64(uint64_t v)
{
        return v ? 63 - (uint32_t)__builtin_clzll(v) : UINT32_MAX;
}

DS_IX_INLINE uint32_t reverse_32(uint32_t v)
{
        v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
        v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
        v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
        return __builtin_bswap32(v);
}

/* fns: position of the offset-th set bit of mask at or above base (below base for negative offsets); all ones if
 * there is none. */
static uint32_t nth_set(uint32_t mask, uint32_t base, int32_t offset)
{
        int64_t left = offset, step = offset > 0 ? 1 : -1;

        if (base > 31)
                return UINT32_MAX;
        if (offset == 0)
                return mask >> base & 1 ? base : UINT32_MAX;
        for (int64_t pos = base; pos >= 0 && pos < 32; pos += step) {
                if (mask >> pos & 1)
                        left -= step;
                if (left == 0)
                        return (uint32_t)pos;
        }
        return UINT32_MAX;
}

#define SIGN_FREE(x) ((x) < 0 ? ~(x) : (x))
#define SHIFT_AMOUNT(found, top) ((found) == UINT32_MAX ? UINT32_MAX : (top) - (found))
DS_IX_OP1(popc_32, uint32_t, uint32_t, __builtin_popcount(x))
DS_IX_OP1(popc_64, uint32_t, uint64_t, __builtin_popcountll(x))
DS_IX_OP1(clz_32, uint32_t, uint32_t, x ? (uint32_t)__builtin_clz(x) : 32)
DS_IX_OP1(clz_64, uint32_t, uint64_t, x ? (uint32_t)__builtin_clzll(x) : 64)
DS_IX_OP1(brev_32, uint32_t, uint32_t, reverse_32(x))
DS_IX_OP1(brev_64, uint64_t, uint64_t, (uint64_t)reverse_32((uint32_t)x) << 32 | reverse_32((uint32_t)(x >> 32)))
DS_IX_OP1(bfind_u32, uint32_t, uint32_t, find_32(x))
DS_IX_OP1(bfind_s32, uint32_t, int32_t, find_32((uint32_t)SIGN_FREE(x)))
DS_IX_OP1(bfind_u64, uint32_t, uint64_t, find_64(x))
DS_IX_OP1(bfind_s64, uint32_t, int64_t, find_64((uint64_t)SIGN_FREE(x)))
DS_IX_OP1(bfind_shift_u32, uint32_t, uint32_t, SHIFT_AMOUNT(find_32(x), 31))
DS_IX_OP1(bfind_shift_s32, uint32_t, int32_t, SHIFT_AMOUNT(find_32((uint32_t)SIGN_FREE(x)), 31))
DS_IX_OP1(bfind_shift_u64, uint32_t, uint64_t, SHIFT_AMOUNT(find_64(x), 63))
DS_IX_OP1(bfind_shift_s64, uint32_t, int64_t, SHIFT_AMOUNT(find_64((uint64_t)SIGN_FREE(x)), 63))
DS_IX_OP3(fns, uint32_t, uint32_t, uint32_t, int32_t, nth_set(x, y, z))

/* --- handler tables --- */
typedef const struct ds_ix_impl *by_type[_DS_PTX_TYPE_MAX];

#define LOGICAL(f) [T(PRED)] = &f##_pred, [T(B16)] = &f##_16, [T(B32)] = &f##_32, [T(B64)] = &f##_64
#define PLAIN(f) [T(B16)] = &f##_16, [T(B32)] = &f##_32, [T(B64)] = &f##_64
#define WORDS(f) [T(B32)] = &f##_32, [T(B64)] = &f##_64
#define WORDS_EACH(f) [T(U32)] = &f##_u32, [T(S32)] = &f##_s32, [T(U64)] = &f##_u64, [T(S64)] = &f##_s64

static const struct ds_ix_impl *find_shift(const struct ds_ptx_instr *in, enum ds_ptx_type type)
{
        static const by_type shl = {PLAIN(shl)};
        static const by_type shr = {[T(B16)] = &shr_u16,
                [T(U16)] = &shr_u16,
                [T(S16)] = &shr_s16,
                [T(B32)] = &shr_u32,
                [T(U32)] = &shr_u32,
                [T(S32)] = &shr_s32,
                [T(B64)] = &shr_u64,
                [T(U64)] = &shr_u64,
                [T(S64)] = &shr_s64};
        int left = ds_ptx_has(in, DS_PTX_FUNNEL_L), clamp = ds_ptx_has(in, DS_PTX_CLAMP_CLAMP);

        if (in->op == DS_PTX_OP_SHL)
                return shl[type];
        if (in->op == DS_PTX_OP_SHR)
                return shr[type];
        if (clamp)
                return left ? &shf_l_clamp : &shf_r_clamp;
        return left ? &shf_l_wrap : &shf_r_wrap;
}

static const struct ds_ix_impl *find_bytes(const struct ds_ptx_instr *in, ds_ix_op *op)
{
        enum ds_ptx_modifier mode = ds_ptx_mod(in, DS_PTX_PRMT_F4E);

        if (!mode)
                return &prmt;
        op->mode = (uint8_t)(mode - DS_PTX_PRMT_F4E);
        return op->mode < DS_ARRAY_SIZE(prmt_modes) ? &prmt_mode : NULL;
}

static const struct ds_ix_impl *find_field(const struct ds_ptx_instr *in, enum ds_ptx_type type)
{
        static const by_type bfe = {WORDS_EACH(bfe)}, bfi = {WORDS(bfi)};
        int clamp = ds_ptx_has(in, DS_PTX_CLAMP_CLAMP);

        switch (in->op) {
        case DS_PTX_OP_BFE:
                return bfe[type];
        case DS_PTX_OP_BFI:
                return bfi[type];
        case DS_PTX_OP_BMSK:
                return clamp ? &bmsk_clamp : &bmsk_wrap;
        default:
                if (type == T(S32))
                        return clamp ? &szext_s_clamp : &szext_s_wrap;
                return clamp ? &szext_u_clamp : &szext_u_wrap;
        }
}

static const struct ds_ix_impl *find_count(const struct ds_ptx_instr *in, enum ds_ptx_type type)
{
        static const by_type brev = {WORDS(brev)}, clz = {WORDS(clz)}, popc = {WORDS(popc)};
        static const by_type bfind = {WORDS_EACH(bfind)}, bfind_shift = {WORDS_EACH(bfind_shift)};

        switch (in->op) {
        case DS_PTX_OP_BREV:
                return brev[type];
        case DS_PTX_OP_CLZ:
                return clz[type];
        case DS_PTX_OP_POPC:
                return popc[type];
        case DS_PTX_OP_BFIND:
                return ds_ptx_has(in, DS_PTX_SHIFTAMT_SHIFTAMT) ? bfind_shift[type] : bfind[type];
        default:
                return &fns;
        }
}

const struct ds_ix_impl *ds_ix_find_bits(const struct ds_ptx_instr *in, ds_ix_op *op)
{
        static const by_type and = {LOGICAL(and)}, or = {LOGICAL(or)},
                             xor = {
                                     LOGICAL(xor)};
        static const by_type not = {LOGICAL(not )}, cnot = {PLAIN(cnot)};
        enum ds_ptx_type type = in->types[0];

        switch (in->op) {
        case DS_PTX_OP_AND:
                return and[type];
        case DS_PTX_OP_OR:
                return or [type];
        case DS_PTX_OP_XOR:
                return xor[type];
        case DS_PTX_OP_NOT:
                return not [type];
        case DS_PTX_OP_CNOT:
                return cnot[type];
        case DS_PTX_OP_LOP3:
                return &lop3;
        case DS_PTX_OP_LOP3_BOOL:
                op->mode = (uint8_t)(ds_ptx_mod(in, DS_PTX_BOOL_AND) - DS_PTX_BOOL_AND);
                return &lop3_bool;
        case DS_PTX_OP_SHL:
        case DS_PTX_OP_SHR:
        case DS_PTX_OP_SHF:
                return find_shift(in, type);
        case DS_PTX_OP_PRMT:
                return find_bytes(in, op);
        case DS_PTX_OP_BFE:
        case DS_PTX_OP_BFI:
        case DS_PTX_OP_BMSK:
        case DS_PTX_OP_SZEXT:
                return find_field(in, type);
        case DS_PTX_OP_BREV:
        case DS_PTX_OP_CLZ:
        case DS_PTX_OP_POPC:
        case DS_PTX_OP_BFIND:
        case DS_PTX_OP_FNS:
                return find_count(in, type);
        default:
                return NULL;
        }
}
