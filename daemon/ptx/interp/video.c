/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Video instructions: arithmetic on bytes, halves and words of 32-bit registers
 *
 * A scalar instruction reads one part of each source, computes in more than 32 bits, clamps the result to its type
 * (.sat), and either combines it with c (.add .min .max) or inserts it into one part of c. A SIMD instruction does that
 * for two halves or four bytes, each selected from any place of the pair {b, a}. Parts outside the mask come from c, or
 * (.add) the parts are summed and added to c. vmad multiplies.
 *
 * Decoding computes the selections and destinations (struct recipe); a lane only follows them. No instruction here is
 * fast: GPUs since Maxwell support few of them either, and ptxas emulates the rest.
 */
#include "ptx/interp/decode.h"
#include "ptx/interp/lane.h"

#define T(name) DS_PTX_TYPE_##name

enum what { ADD, SUB, AVERAGE, DIFFERENCE, MIN, MAX, LEFT, RIGHT, SET };
enum second { PLAIN, PLUS, LESS, MORE, MERGE };

/* Parts of a source: part k is the bits [shift[k], shift[k] + bits) of the pair {b, a}. */
struct part {
        uint8_t shift[4], bits, sign;
};

struct recipe {
        struct part a, b;
        uint8_t what, compare; /* enum what; enum ds_ptx_modifier minus DS_PTX_CMP_EQ */
        uint8_t n, wide;       /* number of parts of the result; bits of each */
        uint8_t place[4];      /* lowest bit of part k of the result */
        uint8_t taken;         /* bit k: 1 if part k comes from the computation, 0 if it comes from c */
        uint8_t second, c_sign;
        uint8_t wrap; /* 1: shift amounts are taken modulo 32; 0: they are limited to 32 */
        uint8_t sat;
        int64_t low, high; /* range to which .sat clamps */
        /* only for vmad */
        uint8_t negate, negate_c, plus_one, scale, sign;
};

DS_IX_INLINE int64_t pick(uint64_t pair, const struct part *p, unsigned k)
{
        uint64_t v = pair >> p->shift[k] << (64 - p->bits);

        return p->sign ? (int64_t)v >> (64 - p->bits) : (int64_t)(v >> (64 - p->bits));
}

DS_IX_INLINE int64_t compare(unsigned how, int64_t x, int64_t y)
{
        switch (how) {
        case DS_PTX_CMP_EQ - DS_PTX_CMP_EQ:
                return x == y;
        case DS_PTX_CMP_NE - DS_PTX_CMP_EQ:
                return x != y;
        case DS_PTX_CMP_LT - DS_PTX_CMP_EQ:
                return x < y;
        case DS_PTX_CMP_LE - DS_PTX_CMP_EQ:
                return x <= y;
        case DS_PTX_CMP_GT - DS_PTX_CMP_EQ:
                return x > y;
        default:
                return x >= y;
        }
}

/* vshl and vshr: shifts by at most 32; .sat clamps the whole result. */
DS_IX_INLINE int64_t shift(const struct recipe *r, int64_t x, int64_t by)
{
        uint64_t n = r->wrap ? (uint64_t)by & 31 : DS_MIN((uint64_t)by, UINT64_C(32));

        if (r->what == RIGHT)
                return x >> n;
        if (n == 32 && x > INT32_MAX) /* the only result that 64 bits cannot hold */
                return r->sat ? INT64_MAX : 0;
        return (int64_t)((uint64_t)x << n);
}

DS_IX_INLINE int64_t primary(const struct recipe *r, int64_t x, int64_t y)
{
        switch (r->what) {
        case ADD:
                return x + y;
        case SUB:
                return x - y;
        case AVERAGE: /* the mean of two numbers; one half is rounded away from zero */
                return (x + y + (x + y >= 0)) >> 1;
        case DIFFERENCE:
                return x > y ? x - y : y - x;
        case MIN:
                return x < y ? x : y;
        case MAX:
                return x > y ? x : y;
        case SET:
                return compare(r->compare, x, y);
        default:
                return shift(r, x, y);
        }
}

DS_IX_INLINE uint32_t finish(const struct recipe *r, const int64_t *t, uint32_t c)
{
        uint64_t mask = (UINT64_C(1) << r->wide) - 1;
        int64_t with = r->c_sign ? (int32_t)c : (int64_t)c;
        uint32_t d = c;

        switch (r->second) {
        case PLAIN:
                return (uint32_t)t[0];
        case LESS:
                return (uint32_t)(t[0] < with ? t[0] : with);
        case MORE:
                return (uint32_t)(t[0] > with ? t[0] : with);
        default:
                break;
        }
        for (unsigned k = 0; k < r->n; k++) {
                if (!(r->taken >> k & 1))
                        continue;
                if (r->second == PLUS)
                        d += (uint32_t)t[k];
                else
                        d = (uint32_t)((d & ~(mask << r->place[k])) | ((uint64_t)t[k] & mask) << r->place[k]);
        }
        return d;
}

DS_IX_INLINE void video_body(ds_ix_warp *w, const ds_ix_op *op)
{
        const struct recipe *r = op->ext;
        const uint32_t *pa = ds_ix_lanes(w, op->a), *pb = ds_ix_lanes(w, op->b), *pc = ds_ix_lanes(w, op->c);
        DS_IX_BUFFER(uint32_t, d);

        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                uint64_t pair = (uint64_t)pb[i] << 32 | pa[i];
                int64_t t[4] = {0};

                for (unsigned k = 0; k < r->n; k++) {
                        t[k] = primary(r, pick(pair, &r->a, k), pick(pair, &r->b, k));
                        if (r->sat)
                                t[k] = t[k] < r->low ? r->low : t[k] > r->high ? r->high : t[k];
                }
                d[i] = finish(r, t, pc[i]);
        }
        DS_IX_STORE(uint32_t, (uint32_t *)ds_ix_lanes(w, op->d), d, w->mask);
}
DS_IX_VARIANTS(video)

/* vmad: a * b + c is computed exactly in 66 bits, then shifted, then clamped. */
DS_IX_INLINE uint32_t multiply(const struct recipe *r, uint64_t pair, uint32_t c)
{
        __int128 product = (__int128)pick(pair, &r->a, 0) * pick(pair, &r->b, 0);
        __int128 with = r->sign ? (int32_t)c : (int64_t)c, sum;

        if (r->negate_c)
                with = -with;
        sum = ((r->negate ? -product : product) + with + r->plus_one) >> r->scale;
        if (r->sat)
                sum = sum < r->low ? r->low : sum > r->high ? r->high : sum;
        return (uint32_t)sum;
}

DS_IX_INLINE void vmad_body(ds_ix_warp *w, const ds_ix_op *op)
{
        const struct recipe *r = op->ext;
        const uint32_t *pa = ds_ix_lanes(w, op->a), *pb = ds_ix_lanes(w, op->b), *pc = ds_ix_lanes(w, op->c);
        DS_IX_BUFFER(uint32_t, d);

        for (unsigned i = 0; i < DS_IX_LANES; i++)
                d[i] = multiply(r, (uint64_t)pb[i] << 32 | pa[i], pc[i]);
        DS_IX_STORE(uint32_t, (uint32_t *)ds_ix_lanes(w, op->d), d, w->mask);
}
DS_IX_VARIANTS(vmad)

/* --- decoding --- */
/* list of the SIMD instructions: opcode, operation, number of parts */
static const struct {
        uint16_t op;
        uint8_t what, n;
} kinds[] = {
        {DS_PTX_OP_VADD, ADD, 1},
        {DS_PTX_OP_VSUB, SUB, 1},
        {DS_PTX_OP_VABSDIFF, DIFFERENCE, 1},
        {DS_PTX_OP_VMIN, MIN, 1},
        {DS_PTX_OP_VMAX, MAX, 1},
        {DS_PTX_OP_VSHL, LEFT, 1},
        {DS_PTX_OP_VSHR, RIGHT, 1},
        {DS_PTX_OP_VMAD, ADD, 1},
        {DS_PTX_OP_VMAD_PO, ADD, 1},
        {DS_PTX_OP_VSET, SET, 1},
        {DS_PTX_OP_VADD2, ADD, 2},
        {DS_PTX_OP_VSUB2, SUB, 2},
        {DS_PTX_OP_VAVRG2, AVERAGE, 2},
        {DS_PTX_OP_VABSDIFF2, DIFFERENCE, 2},
        {DS_PTX_OP_VMIN2, MIN, 2},
        {DS_PTX_OP_VMAX2, MAX, 2},
        {DS_PTX_OP_VSET2, SET, 2},
        {DS_PTX_OP_VADD4, ADD, 4},
        {DS_PTX_OP_VSUB4, SUB, 4},
        {DS_PTX_OP_VAVRG4, AVERAGE, 4},
        {DS_PTX_OP_VABSDIFF4, DIFFERENCE, 4},
        {DS_PTX_OP_VMIN4, MIN, 4},
        {DS_PTX_OP_VMAX4, MAX, 4},
        {DS_PTX_OP_VSET4, SET, 4},
};

/* First bit of the part of a register that an operand names (.b0 .. .b3, .h0, .h1; without a name: the whole
 * register). */
static uint8_t scalar_part(const struct ds_ptx_operand *o, uint8_t *ret_bits)
{
        if (o->select >= DS_PTX_SELECT_B0 && o->select <= DS_PTX_SELECT_B3) {
                *ret_bits = 8;
                return (uint8_t)(8 * (o->select - DS_PTX_SELECT_B0));
        }
        if (o->select == DS_PTX_SELECT_H0 || o->select == DS_PTX_SELECT_H1) {
                *ret_bits = 16;
                return (uint8_t)(16 * (o->select - DS_PTX_SELECT_H0));
        }
        *ret_bits = 32;
        return 0;
}

/* Parts of {b, a} that a SIMD operand names, the lowest first; without names those that begin at `from`. */
static int simd_parts(const struct ds_ptx_operand *o, uint32_t n, uint32_t from, struct part *ret)
{
        const char *text = o->select == DS_PTX_SELECT_MASK ? o->select_text : NULL;
        uint32_t bits = 32 / n;

        ret->bits = (uint8_t)bits;
        if (o->select && (!text || strlen(text) != n + 2 || text[1] != (n == 2 ? 'h' : 'b')))
                return 0;
        for (uint32_t k = 0; k < n; k++) {
                uint32_t number = text ? (uint32_t)(text[n + 1 - k] - '0') : from + k;

                if (number >= 2 * n)
                        return 0;
                ret->shift[k] = (uint8_t)(bits * number);
        }
        return 1;
}

/* Mask of the parts that a SIMD destination names, such as .h1, .b20, .b3210; 0 if it names none. */
static uint8_t simd_mask(const struct ds_ptx_operand *o, uint32_t n)
{
        uint8_t mask = 0;

        switch (o->select) {
        case DS_PTX_SELECT_NONE:
                return (uint8_t)((1u << n) - 1);
        case DS_PTX_SELECT_H0:
        case DS_PTX_SELECT_H1:
                return n == 2 ? (uint8_t)(1u << (o->select - DS_PTX_SELECT_H0)) : 0;
        case DS_PTX_SELECT_MASK:
                break;
        default:
                return n == 4 ? (uint8_t)(1u << (o->select - DS_PTX_SELECT_B0)) : 0;
        }
        if (o->select_text[1] != (n == 2 ? 'h' : 'b'))
                return 0;
        for (const char *s = o->select_text + 2; *s; s++) {
                if (*s < '0' || (uint32_t)(*s - '0') >= n)
                        return 0;
                mask |= (uint8_t)(1u << (*s - '0'));
        }
        return mask;
}

/* Sets the range to which .sat clamps a part of `bits` bits. */
static void clamp_to(struct recipe *r, uint32_t bits, int sign)
{
        r->low = sign ? -(INT64_C(1) << (bits - 1)) : 0;
        r->high = sign ? (INT64_C(1) << (bits - 1)) - 1 : (INT64_C(1) << bits) - 1;
}

static enum second second_of(const struct ds_ptx_instr *in)
{
        switch ((int)ds_ptx_mod(in, DS_PTX_MERGE_ADD)) {
        case DS_PTX_MERGE_ADD:
                return PLUS;
        case DS_PTX_MERGE_MIN:
                return LESS;
        case DS_PTX_MERGE_MAX:
                return MORE;
        default:
                return PLAIN;
        }
}

static int scalar_recipe(ds_ix_decoder *d, const struct ds_ptx_instr *in, int sign, struct recipe *r)
{
        const struct ds_ptx_operand *o = in->operands;

        r->a.shift[0] = scalar_part(&o[1], &r->a.bits);
        r->b.shift[0] = (uint8_t)(32 + scalar_part(&o[2], &r->b.bits));
        r->place[0] = scalar_part(&o[0], &r->wide);
        r->taken = 1;
        r->second = (uint8_t)second_of(in);
        if (o[0].select)
                r->second = r->second == PLAIN ? MERGE : UINT8_MAX;
        if (o[0].select == DS_PTX_SELECT_MASK || o[1].select == DS_PTX_SELECT_MASK ||
                o[2].select == DS_PTX_SELECT_MASK || (in->n_operands > 3 && o[3].select) || r->second == UINT8_MAX ||
                (r->second != PLAIN && in->n_operands < 4))
                return ds_ix_refuse(d, in, "there is no such part of a register here");
        clamp_to(r, r->wide, sign);
        return 1;
}

static int simd_recipe(ds_ix_decoder *d, const struct ds_ptx_instr *in, int sign, struct recipe *r)
{
        const struct ds_ptx_operand *o = in->operands;
        enum second second = second_of(in);

        r->wide = (uint8_t)(32 / r->n);
        r->taken = simd_mask(&o[0], r->n);
        for (uint32_t k = 0; k < r->n; k++)
                r->place[k] = (uint8_t)(k * r->wide);
        r->second = second == PLUS ? PLUS : MERGE;
        if (!r->taken || (second != PLAIN && second != PLUS) || in->n_operands < 4 || o[3].select ||
                !simd_parts(&o[1], r->n, 0, &r->a) || !simd_parts(&o[2], r->n, r->n, &r->b))
                return ds_ix_refuse(d, in, "there is no such part of a register here");
        clamp_to(r, r->wide, sign);
        return 1;
}

/* Decodes vmad, whose result is signed if one of its operands is signed or negated. */
static int vmad_recipe(ds_ix_decoder *d, const struct ds_ptx_instr *in, struct recipe *r)
{
        const struct ds_ptx_operand *o = in->operands;

        if (!scalar_recipe(d, in, 0, r))
                return 0;
        r->negate = o[1].negated != o[2].negated;
        r->negate_c = o[3].negated;
        r->plus_one = in->op == DS_PTX_OP_VMAD_PO;
        if ((r->negate && r->negate_c) || (r->plus_one && (r->negate || r->negate_c)) || r->second != PLAIN)
                return ds_ix_refuse(d, in, "these operands cannot be negated together");
        r->sign = r->a.sign || r->b.sign || r->negate || r->negate_c;
        r->scale = ds_ptx_has(in, DS_PTX_SCALE_SHR7) ? 7 : ds_ptx_has(in, DS_PTX_SCALE_SHR15) ? 15 : 0;
        clamp_to(r, 32, r->sign);
        return 1;
}

static int recipe_of(ds_ix_decoder *d, const struct ds_ptx_instr *in, struct recipe *r)
{
        int set = r->what == SET, sign = !set && in->types[0] == T(S32);

        r->a.sign = in->types[!set] == T(S32);
        r->b.sign = in->types[!set + 1] == T(S32);
        r->c_sign = (uint8_t)sign;
        r->sat = ds_ptx_has(in, DS_PTX_SAT_SAT);
        r->wrap = ds_ptx_has(in, DS_PTX_CLAMP_WRAP);
        if (set)
                r->compare = (uint8_t)(ds_ptx_mod(in, DS_PTX_CMP_EQ) - DS_PTX_CMP_EQ);
        if (r->compare > DS_PTX_CMP_GE - DS_PTX_CMP_EQ)
                return ds_ix_refuse(d, in, "there is no such comparison here");
        if (in->op == DS_PTX_OP_VMAD || in->op == DS_PTX_OP_VMAD_PO)
                return vmad_recipe(d, in, r);
        if (r->what == LEFT || r->what == RIGHT)
                r->b.sign = 0;
        return r->n == 1 ? scalar_recipe(d, in, sign, r) : simd_recipe(d, in, sign, r);
}

/* Slot of a source register; the recipe holds the part to read and its sign. */
static int source(ds_ix_decoder *d, const struct ds_ptx_instr *in, uint32_t k, uint32_t *ret_slot)
{
        struct ds_ptx_operand plain;

        if (k >= in->n_operands) {
                *ret_slot = ds_ix_constant_slot(d, 0, 4);
                return 1;
        }
        plain = in->operands[k];
        plain.negated = false;
        return ds_ix_source(d, in, &plain, 4, ret_slot);
}

int ds_ix_decode_video(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        struct recipe *r = ds_arena_alloc(d->interp->arena, 1, sizeof(*r));
        ds_ix_op op = ds_ix_blank(in);
        int mad = in->op == DS_PTX_OP_VMAD || in->op == DS_PTX_OP_VMAD_PO;
        size_t row = 0;

        if (!r) {
                d->out_of_memory = 1;
                return 0;
        }
        while (row < DS_ARRAY_SIZE(kinds) && kinds[row].op != in->op)
                row++;
        if (row == DS_ARRAY_SIZE(kinds))
                return ds_ix_refuse(d, in, "not supported by the simulated device");
        memset(r, 0, sizeof(*r));
        r->what = kinds[row].what;
        r->n = kinds[row].n;
        if (!recipe_of(d, in, r) || !ds_ix_destination(d, in, &in->operands[0], 4, &op.d) || !source(d, in, 1, &op.a) ||
                !source(d, in, 2, &op.b) || !source(d, in, 3, &op.c))
                return 0;
        op.ext = r;
        ds_ix_emit(d, in, op, mad ? &vmad : &video);
        return 1;
}
