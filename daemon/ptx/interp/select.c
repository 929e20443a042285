/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparing, selecting and moving
 *
 * A comparison yields a bit mask of lanes; its unordered form is the complement of the opposite comparison. The decoder
 * splits `set` into a comparison with a temporary predicate as result and a selection of two constants. Moves between a
 * register and a vector of smaller ones pack and unpack.
 */
#include "ptx/interp/half.h"

#define T(name) DS_PTX_TYPE_##name

/* --- setp --- */
enum { SETP_AND = 1, SETP_OR = 2, SETP_XOR = 3, SETP_BOOL = 3, SETP_NOT = 4 };

DS_IX_INLINE uint32_t combine(const ds_ix_warp *w, const ds_ix_op *op, uint32_t t)
{
        uint32_t q = op->mode & SETP_BOOL ? ds_ix_pred(w, op->c) : 0;

        switch (op->mode & SETP_BOOL) {
        case SETP_AND:
                return t & q;
        case SETP_OR:
                return t | q;
        case SETP_XOR:
                return t ^ q;
        default:
                return t;
        }
}

/* Writes setp's results: d = (comparison) op c, e = !(comparison) op c, where op is a boolean operator. */
DS_IX_INLINE void write_comparison(ds_ix_warp *w, const ds_ix_op *op, uint32_t t)
{
        uint32_t d, e;

        t = op->mode & SETP_NOT ? ~t : t;
        d = combine(w, op, t);
        e = combine(w, op, ~t);
        ds_ix_set_pred(w, op->d, d);
        if (op->e != DS_IX_NO_SLOT)
                ds_ix_set_pred(w, op->e, e);
}

#define SETP(name, A, condition)                                                                    \
        DS_IX_MASK2(name##_mask, A, condition)                                                      \
        DS_IX_INLINE void name##_body(ds_ix_warp *w, const ds_ix_op *op)                            \
        {                                                                                           \
                write_comparison(w, op, name##_mask(ds_ix_lanes(w, op->a), ds_ix_lanes(w, op->b))); \
        }                                                                                           \
        DS_IX_VARIANTS(name)

#define INTEGERS(U, S, bits)             \
        SETP(setp_eq_##bits, U, x == y)  \
        SETP(setp_ne_##bits, U, x != y)  \
        SETP(setp_lt_u##bits, U, x < y)  \
        SETP(setp_le_u##bits, U, x <= y) \
        SETP(setp_lt_s##bits, S, x < y)  \
        SETP(setp_le_s##bits, S, x <= y) \
        SETP(setp_gt_u##bits, U, x > y)  \
        SETP(setp_ge_u##bits, U, x >= y) \
        SETP(setp_gt_s##bits, S, x > y)  \
        SETP(setp_ge_s##bits, S, x >= y)
INTEGERS(uint16_t, int16_t, 16)
INTEGERS(uint32_t, int32_t, 32)
INTEGERS(uint64_t, int64_t, 64)

#define V(x) (x)
#define F(x) ds_ix_ftz(x)
#define H(x) ds_ix_from_half(x)
#define B(x) ds_ix_from_bf16(x)
/* float comparisons in the order of struct order: eq ne lt le gt ge num; all are false for NaN */
#define FLOATS(t, A, L)                                  \
        SETP(setp_eq_##t, A, L(x) == L(y))               \
        SETP(setp_ne_##t, A, L(x) < L(y) || L(x) > L(y)) \
        SETP(setp_lt_##t, A, L(x) < L(y))                \
        SETP(setp_le_##t, A, L(x) <= L(y))               \
        SETP(setp_gt_##t, A, L(x) > L(y))                \
        SETP(setp_ge_##t, A, L(x) >= L(y))               \
        SETP(setp_num_##t, A, L(x) == L(x) && L(y) == L(y))
FLOATS(f32, float, V)
FLOATS(f32_ftz, float, F)
FLOATS(f64, double, V)
FLOATS(f16, uint16_t, H)
FLOATS(bf16, uint16_t, B)

typedef const struct ds_ix_impl *by_order[7];
#define INT_ORDERS(s, bits)                                                                                    \
        {                                                                                                      \
                &setp_eq_##bits, &setp_ne_##bits, &setp_lt_##s, &setp_le_##s, &setp_gt_##s, &setp_ge_##s, NULL \
        }
#define ORDERS(t)                                                                                                 \
        {                                                                                                         \
                &setp_eq_##t, &setp_ne_##t, &setp_lt_##t, &setp_le_##t, &setp_gt_##t, &setp_ge_##t, &setp_num_##t \
        }
static const by_order order_u16 = INT_ORDERS(u16, 16), order_s16 = INT_ORDERS(s16, 16), order_u32 = INT_ORDERS(u32, 32),
                      order_s32 = INT_ORDERS(s32, 32), order_u64 = INT_ORDERS(u64, 64), order_s64 = INT_ORDERS(s64, 64),
                      order_f32 = ORDERS(f32), order_f32_ftz = ORDERS(f32_ftz), order_f64 = ORDERS(f64),
                      order_f16 = ORDERS(f16), order_bf16 = ORDERS(bf16);

/* Handler for packed halves: d compares the low halves, e the high ones. Runs the scalar handler on each half. */
static const ds_ix_op *setp_packed(ds_ix_warp *w, const ds_ix_op *op)
{
        const struct ds_ix_impl *const *order = op->n ? order_bf16 : order_f16;
        const uint32_t *pa = ds_ix_lanes(w, op->a), *pb = ds_ix_lanes(w, op->b);
        uint16_t *halves = (uint16_t *)(void *)w->scratch;

        for (unsigned k = 0; k < 2; k++) {
                ds_ix_op inner = *op;

                inner.a = DS_IX_IN_SCRATCH;
                inner.b = DS_IX_IN_SCRATCH + 64;
                inner.d = k ? op->e : op->d;
                inner.e = DS_IX_NO_SLOT;
                if (inner.d == DS_IX_NO_SLOT)
                        continue;
                for (unsigned i = 0; i < DS_IX_LANES; i++) {
                        uint16_t x = (uint16_t)(pa[i] >> (16 * k)), y = (uint16_t)(pb[i] >> (16 * k));

                        halves[i] = op->flags & DS_IX_FTZ && !op->n ? ds_ix_ftz_half(x) : x;
                        halves[32 + i] = op->flags & DS_IX_FTZ && !op->n ? ds_ix_ftz_half(y) : y;
                }
                (void)order[op->size]->fn[DS_IX_ISA_BASE](w, &inner);
        }
        return op + 1;
}
static const struct ds_ix_impl setp_packed_impl = {{setp_packed, setp_packed}};

static const struct ds_ix_impl *const *orders_of(enum ds_ptx_type type, int ftz)
{
        static const struct ds_ix_impl *const *const table[_DS_PTX_TYPE_MAX] = {[T(B16)] = order_u16,
                [T(U16)] = order_u16,
                [T(S16)] = order_s16,
                [T(B32)] = order_u32,
                [T(U32)] = order_u32,
                [T(S32)] = order_s32,
                [T(B64)] = order_u64,
                [T(U64)] = order_u64,
                [T(S64)] = order_s64,
                [T(F32)] = order_f32,
                [T(F64)] = order_f64,
                [T(F16)] = order_f16,
                [T(BF16)] = order_bf16};

        return type == T(F32) && ftz ? order_f32_ftz : table[type];
}

/* Index of a comparison in by_order. *ret_not: 1 if its result must be complemented, as for the unordered
 * comparisons, which are true for NaN. */
static int order_of(enum ds_ptx_modifier cmp, int *ret_not)
{
        static const struct {
                uint16_t cmp;
                uint8_t order, not ;
        } rows[] = {{DS_PTX_CMP_EQ, 0, 0}, {DS_PTX_CMP_NE, 1, 0}, {DS_PTX_CMP_LT, 2, 0}, {DS_PTX_CMP_LE, 3, 0},
                {DS_PTX_CMP_GT, 4, 0}, {DS_PTX_CMP_GE, 5, 0}, {DS_PTX_CMP_LO, 2, 0}, {DS_PTX_CMP_LS, 3, 0},
                {DS_PTX_CMP_HI, 4, 0}, {DS_PTX_CMP_HS, 5, 0}, {DS_PTX_CMP_EQU, 1, 1}, {DS_PTX_CMP_NEU, 0, 1},
                {DS_PTX_CMP_LTU, 5, 1}, {DS_PTX_CMP_LEU, 4, 1}, {DS_PTX_CMP_GTU, 3, 1}, {DS_PTX_CMP_GEU, 2, 1},
                {DS_PTX_CMP_NUM, 6, 0}, {DS_PTX_CMP_NAN, 6, 1}};

        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++) {
                if (rows[i].cmp != cmp)
                        continue;
                *ret_not = rows[i].not ;
                return rows[i].order;
        }
        return -1;
}

/* Handler of a comparison; type: type of the compared operands, which for `set` is the second type. */
static const struct ds_ix_impl *find_setp(const struct ds_ptx_instr *in, enum ds_ptx_type type, ds_ix_op *op)
{
        enum ds_ptx_modifier logic = ds_ptx_mod(in, DS_PTX_BOOL_AND);
        int inverse = 0, order = order_of(ds_ptx_mod(in, DS_PTX_CMP_EQ), &inverse);
        const struct ds_ix_impl *const *table = orders_of(type, op->flags & DS_IX_FTZ);

        op->mode = logic ? (uint8_t)(logic - DS_PTX_BOOL_AND + 1) : 0;
        op->mode |= inverse ? SETP_NOT : 0;
        if (order < 0)
                return NULL;
        if (type == T(F16X2) || type == T(BF16X2)) {
                op->n = type == T(BF16X2);
                op->size = (uint8_t)order;
                return &setp_packed_impl;
        }
        return table ? table[order] : NULL;
}

/* --- choosing by predicate --- */
#define SELECT(bits, U)                                                                                      \
        DS_IX_BODY(selp_##bits, U, const U *pa = ds_ix_lanes(w, op->a); const U *pb = ds_ix_lanes(w, op->b); \
                   uint32_t chosen = ds_ix_pred(w, op->c), U x = pa[i]; U y = pb[i];                         \
                   d[i] = chosen & ds_ix_bit[i] ? x : y)                                                     \
        DS_IX_OP3(slct_s_##bits, U, U, U, int32_t, z >= 0 ? x : y)                                           \
        DS_IX_OP3(slct_f_##bits, U, U, U, float, z >= 0.0f ? x : y)                                          \
        DS_IX_OP3(slct_ftz_##bits, U, U, U, float, ds_ix_ftz(z) >= 0.0f ? x : y)
SELECT(16, uint16_t)
SELECT(32, uint32_t)
SELECT(64, uint64_t)

/* Last step of `set`: gives a constant if the predicate holds, else 0. */
#define CONSTANT(bits, U)                                                 \
        DS_IX_BODY(set_##bits, U, uint32_t chosen = ds_ix_pred(w, op->a); \
                   U value = (U)op->imm, d[i] = chosen & ds_ix_bit[i] ? value : (U)0)
CONSTANT(16, uint16_t)
CONSTANT(32, uint32_t)
DS_IX_BODY(set_packed, uint32_t, uint32_t low = ds_ix_pred(w, op->a); uint32_t high = ds_ix_pred(w, op->b);
           uint32_t value = (uint32_t)op->imm,
           d[i] = (low & ds_ix_bit[i] ? value & 0xffffu : 0) | (high & ds_ix_bit[i] ? value & 0xffff0000u : 0))

const struct ds_ix_impl *ds_ix_set_result(uint32_t bytes, int packed)
{
        return packed ? &set_packed : bytes == 2 ? &set_16 : bytes == 4 ? &set_32 : NULL;
}

static const struct ds_ix_impl *find_select(const struct ds_ptx_instr *in, const ds_ix_op *op)
{
        uint32_t k = ds_ptx_type_bits(in->types[0]) / 32; /* index 0, 1, 2 for a width of 16, 32, 64 bits */
        static const struct ds_ix_impl *const sel[] = {&selp_16, &selp_32, &selp_64};
        static const struct ds_ix_impl *const sign[] = {&slct_s_16, &slct_s_32, &slct_s_64};
        static const struct ds_ix_impl *const flt[] = {&slct_f_16, &slct_f_32, &slct_f_64};
        static const struct ds_ix_impl *const ftz[] = {&slct_ftz_16, &slct_ftz_32, &slct_ftz_64};

        if (k > 2)
                return NULL;
        if (in->op == DS_PTX_OP_SELP)
                return sel[k];
        if (in->types[1] == T(S32))
                return sign[k];
        return op->flags & DS_IX_FTZ ? ftz[k] : flt[k];
}

/* --- testp --- */
DS_IX_INLINE int classify(int nan, int infinite, int subnormal, uint32_t what)
{
        switch (what) {
        case DS_PTX_TESTP_FINITE - DS_PTX_TESTP_FINITE:
                return !nan && !infinite;
        case DS_PTX_TESTP_INFINITE - DS_PTX_TESTP_FINITE:
                return infinite;
        case DS_PTX_TESTP_NUMBER - DS_PTX_TESTP_FINITE:
                return !nan;
        case DS_PTX_TESTP_NOTANUMBER - DS_PTX_TESTP_FINITE:
                return nan;
        case DS_PTX_TESTP_NORMAL - DS_PTX_TESTP_FINITE:
                return !nan && !infinite && !subnormal; /* zero counts as normal */
        default:
                return subnormal;
        }
}

/* TESTP: `size` is the number without its sign, so that NaN > infinity > normal numbers */
#define TESTP(name, U, infinity, smallest)                                                                           \
        DS_IX_INLINE void name##_body(ds_ix_warp *w, const ds_ix_op *op)                                             \
        {                                                                                                            \
                const U *pa = ds_ix_lanes(w, op->a);                                                                 \
                uint32_t bits = 0;                                                                                   \
                                                                                                                     \
                for (unsigned i = 0; i < DS_IX_LANES; i++) {                                                         \
                        U size = (U)(pa[i] << 1) >> 1;                                                               \
                        bits |= classify(size > (infinity), size == (infinity), size && size < (smallest), op->mode) \
                                        ? ds_ix_bit[i]                                                               \
                                        : 0;                                                                         \
                }                                                                                                    \
                ds_ix_set_pred(w, op->d, bits);                                                                      \
        }                                                                                                            \
        DS_IX_VARIANTS(name)
TESTP(testp_32, uint32_t, 0x7f800000u, 0x00800000u)
TESTP(testp_64, uint64_t, UINT64_C(0x7ff0000000000000), UINT64_C(0x0010000000000000))

/* --- address spaces --- */
static int in_space(const ds_ix_warp *w, uint64_t address, uint32_t space)
{
        uint64_t window = address >> 56, rank = (address & DS_IX_WINDOW_MASK) >> DS_IX_RANK_SHIFT;

        switch (space) {
        case DS_IX_SHARED:
                return window == 1 && rank == w->block->rank;
        case DS_IX_CLUSTER:
                return window == 1 && rank < w->block->cluster->n;
        case DS_IX_LOCAL:
                return window == 2;
        case DS_IX_PARAM:
                return window == 3;
        default: /* const memory lies in global memory */
                return window == 0;
        }
}

DS_IX_INLINE void isspacep_body(ds_ix_warp *w, const ds_ix_op *op)
{
        const uint64_t *pa = ds_ix_lanes(w, op->a);
        uint32_t bits = 0;

        for (unsigned i = 0; i < DS_IX_LANES; i++)
                bits |= in_space(w, pa[i], op->space) ? ds_ix_bit[i] : 0;
        ds_ix_set_pred(w, op->d, bits);
}
DS_IX_VARIANTS(isspacep)

/* cvta: imm is the generic address at which the space begins; 32-bit addresses could be of any space and stay
 * unchanged */
DS_IX_OP1(cvta_to_generic, uint64_t, uint64_t, x + op->imm)
DS_IX_OP1(cvta_from_generic, uint64_t, uint64_t, x - op->imm)

const struct ds_ix_impl *ds_ix_convert_address(int to)
{
        return to ? &cvta_from_generic : &cvta_to_generic;
}

/* --- mov --- */
typedef struct {
        uint64_t word[2];
} b128;

DS_IX_OP1(mov_8, uint8_t, uint8_t, x)
DS_IX_OP1(mov_16, uint16_t, uint16_t, x)
DS_IX_OP1(mov_32, uint32_t, uint32_t, x)
DS_IX_OP1(mov_64, uint64_t, uint64_t, x)
DS_IX_BODY(mov_128, b128, const b128 *pa = ds_ix_lanes(w, op->a), d[i] = pa[i])

DS_IX_INLINE void mov_pred_body(ds_ix_warp *w, const ds_ix_op *op)
{
        ds_ix_set_pred(w, op->d, ds_ix_pred(w, op->a));
}
DS_IX_VARIANTS(mov_pred)

const struct ds_ix_impl *ds_ix_move(uint32_t bytes)
{
        switch (bytes) {
        case 0:
                return &mov_pred;
        case 1:
                return &mov_8;
        case 2:
                return &mov_16;
        case 4:
                return &mov_32;
        case 8:
                return &mov_64;
        case 16:
                return &mov_128;
        default:
                return NULL;
        }
}

/* Packs or unpacks one lane. size: bytes of an element, n: number of elements. A vector's elements are in the slots
 * d e b c (unpack) or a b c f (pack). */
static void pack_lane(uint8_t *to, const uint8_t *const from[4], const ds_ix_op *op, unsigned lane)
{
        for (unsigned k = 0; k < op->n; k++)
                memcpy(to + (size_t)k * op->size, from[k] + (size_t)lane * op->size, op->size);
}

static const ds_ix_op *pack(ds_ix_warp *w, const ds_ix_op *op)
{
        const uint32_t slots[4] = {op->a, op->b, op->c, op->f};
        const uint8_t *from[4] = {NULL};
        uint8_t *to = ds_ix_lanes(w, op->d);
        size_t bytes = (size_t)op->size * op->n;

        for (unsigned k = 0; k < op->n; k++)
                from[k] = ds_ix_lanes(w, slots[k]);
        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                if (w->mask & ds_ix_bit[i])
                        pack_lane(to + i * bytes, from, op, i);
        }
        return op + 1;
}

static const ds_ix_op *unpack(ds_ix_warp *w, const ds_ix_op *op)
{
        const uint32_t slots[4] = {op->d, op->e, op->b, op->c};
        uint8_t copy[16 * DS_IX_LANES];
        size_t bytes = (size_t)op->size * op->n;

        memcpy(copy, ds_ix_lanes(w, op->a), bytes * DS_IX_LANES);
        for (unsigned k = 0; k < op->n; k++) {
                uint8_t *to;

                if (slots[k] == DS_IX_NO_SLOT)
                        continue;
                to = ds_ix_lanes(w, slots[k]);
                for (unsigned i = 0; i < DS_IX_LANES; i++) {
                        if (w->mask & ds_ix_bit[i])
                                memcpy(to + (size_t)i * op->size, copy + i * bytes + (size_t)k * op->size, op->size);
                }
        }
        return op + 1;
}

/* handlers of the common case: 64 bits from and to two 32-bit registers */
DS_IX_OP2(pack_32x2, uint64_t, uint32_t, uint32_t, (uint64_t)y << 32 | x)
DS_IX_OP1(unpack_low, uint32_t, uint64_t, x)
DS_IX_OP1(unpack_high, uint32_t, uint64_t, x >> 32)

const struct ds_ix_impl *ds_ix_pack(const ds_ix_op *op)
{
        static const struct ds_ix_impl any = {{pack, pack}};

        return op->size == 4 && op->n == 2 ? &pack_32x2 : &any;
}

const struct ds_ix_impl *ds_ix_unpack(ds_ix_op *op)
{
        static const struct ds_ix_impl any = {{unpack, unpack}};

        if (op->size == 4 && op->n == 2 && op->e == DS_IX_NO_SLOT)
                return &unpack_low;
        if (op->size == 4 && op->n == 2 && op->d == DS_IX_NO_SLOT) {
                op->d = op->e;
                return &unpack_high;
        }
        return &any;
}

/* Handlers of SETP, SET (its comparison), SELP, SLCT, TESTP, ISSPACEP. */
const struct ds_ix_impl *ds_ix_find_compare(const struct ds_ptx_instr *in, ds_ix_op *op)
{
        switch (in->op) {
        case DS_PTX_OP_SETP:
                return find_setp(in, in->types[0], op);
        case DS_PTX_OP_SET:
                return find_setp(in, in->types[1], op);
        case DS_PTX_OP_SELP:
        case DS_PTX_OP_SLCT:
                return find_select(in, op);
        case DS_PTX_OP_TESTP:
                op->mode = (uint8_t)(ds_ptx_mod(in, DS_PTX_TESTP_FINITE) - DS_PTX_TESTP_FINITE);
                return in->types[0] == T(F64) ? &testp_64 : &testp_32;
        case DS_PTX_OP_ISSPACEP:
                return &isspacep;
        default:
                return NULL;
        }
}
