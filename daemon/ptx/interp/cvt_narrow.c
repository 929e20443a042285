/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions to formats of 8, 16 and 19 bits with saturation instead of infinity, and from those of 8 bits
 *
 * One function rounds a float's bits to any of these formats; a table row describes each format. .satfinite gives the
 * largest number where other conversions give infinity. Conversions of pairs put the first source above the second.
 */
#include "ptx/interp/half.h"

#define T(name) DS_PTX_TYPE_##name

struct format {
        uint8_t mantissa, bias, shift; /* shift: position of the result's lowest bit */
        uint16_t most, infinity, nan;
        uint8_t bits;
};

enum { F16, BF16, E4M3, E5M2, TF32 };
static const struct format formats[] = {
        [F16] = {10, 15, 0, 0x7bff, 0x7c00, 0x7fff, 16},
        [BF16] = {7, 127, 0, 0x7f7f, 0x7f80, 0x7fff, 16},
        [E4M3] = {3, 7, 0, 0x7e, 0x7e, 0x7f, 8},
        [E5M2] = {2, 15, 0, 0x7b, 0x7c, 0x7f, 8},
        [TF32] = {10, 127, 13, 0, 0, 0, 19},
};
#define TF32_MOST 0x3fbffu /* TF32's largest number, which does not fit the table's 16-bit entries */

/* fields of a narrowing operation: op->mode is the format, op->flags contains .relu, op->size contains these bits */
enum { FINITE = 1 << 0, PAIR = 1 << 1, HALVES = 1 << 2, TO_ZERO = 1 << 3, AWAY = 1 << 4 };

/* Rounds the magnitude of a finite float to the format, and returns its bits. The result may exceed the format's
 * largest number. */
static uint32_t round_to(uint32_t size, const struct format *f, uint32_t how)
{
        int exponent = (int)(size >> 23) - 127, least = 1 - f->bias, shift;
        uint32_t mantissa = (size & 0x7fffffu) | (size >> 23 ? 0x800000u : 0), q, rest, half;

        exponent = size >> 23 ? exponent : -126;
        shift = 23 - f->mantissa + DS_MAX(0, least - exponent);
        shift = DS_MIN(shift, 31);
        q = mantissa >> shift;
        rest = mantissa & ((1u << shift) - 1);
        half = 1u << (shift - 1);
        if (how & AWAY)
                q += rest >= half;
        else if (!(how & TO_ZERO))
                q += rest > half || (rest == half && q & 1);
        return exponent >= least ? ((uint32_t)(exponent + f->bias) << f->mantissa) + q - (1u << f->mantissa) : q;
}

static uint32_t narrow(uint32_t u, const ds_ix_op *op)
{
        const struct format *f = &formats[op->mode];
        uint32_t size = u & 0x7fffffffu, how = op->size, r, sign = u >> 31 << (f->bits - 1);
        uint32_t most = op->mode == TF32 ? TF32_MOST : f->most, infinity = f->infinity;

        if (size > 0x7f800000u)
                /* tf32: a NaN is the truncated one minus one unit, as on hardware */
                return op->mode == TF32 ? (u & 0xffffe000u) - 0x2000u : f->nan;
        if (op->flags & DS_IX_RELU && sign)
                return 0;
        if (size == 0x7f800000u)
                return (sign | (how & FINITE ? most : infinity)) << f->shift;
        r = round_to(size, f, how);
        if (r > most)
                r = how & (FINITE | TO_ZERO) ? most : infinity;
        return (sign | r) << f->shift;
}

/* Handler: converts one source, or two sources into a pair with the first in the upper part. */
static const ds_ix_op *narrow_lanes(ds_ix_warp *w, const ds_ix_op *op)
{
        const uint32_t *pa = ds_ix_lanes(w, op->a), *pb = op->size & PAIR ? ds_ix_lanes(w, op->b) : NULL;
        uint8_t *pd = ds_ix_lanes(w, op->d);
        uint32_t bits = formats[op->mode].bits;

        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                uint32_t high = pa[i], low = pb ? pb[i] : 0, r;

                if (!(w->mask & ds_ix_bit[i]))
                        continue;
                if (op->size & HALVES) {
                        high = ds_ix_bits32(ds_ix_from_half((uint16_t)(pa[i] >> 16)));
                        low = ds_ix_bits32(ds_ix_from_half((uint16_t)pa[i]));
                }
                r = narrow(high, op);
                if (op->size & (PAIR | HALVES))
                        r = r << bits | narrow(low, op);
                memcpy(pd + (size_t)i * op->n, &r, op->n);
        }
        return op + 1;
}
static const struct ds_ix_impl narrow_impl = {{narrow_lanes, narrow_lanes}};

/* --- two 8-bit numbers to halves: exact --- */
static uint16_t half_of_e4m3(uint32_t v)
{
        uint32_t sign = (v & 0x80u) << 8, rest = v & 0x7fu;

        /* The bits of an e4m3 number, moved up and read as a half, are 2^-8 of the number, also for subnormals. The
         * multiplication by 256 corrects that. */
        if (rest == 0x7fu)
                return DS_IX_NAN16;
        return (uint16_t)(sign | ds_ix_to_half(ds_ix_from_half((uint16_t)(rest << 7)) * 256.0f));
}

static uint16_t half_of_e5m2(uint32_t v)
{
        return (v & 0x7fu) > 0x7cu ? DS_IX_NAN16 : (uint16_t)(v << 8);
}

static uint16_t clip(uint16_t h, uint32_t relu)
{
        return relu && h & 0x8000u ? 0 : h;
}

static const ds_ix_op *widen_lanes(ds_ix_warp *w, const ds_ix_op *op)
{
        const uint16_t *pa = ds_ix_lanes(w, op->a);
        uint32_t *pd = ds_ix_lanes(w, op->d), relu = op->flags & DS_IX_RELU;

        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                uint32_t high = pa[i] >> 8, low = pa[i] & 0xffu;

                high = clip(op->mode == E4M3 ? half_of_e4m3(high) : half_of_e5m2(high), relu);
                low = clip(op->mode == E4M3 ? half_of_e4m3(low) : half_of_e5m2(low), relu);
                if (w->mask & ds_ix_bit[i])
                        pd[i] = high << 16 | low;
        }
        return op + 1;
}
static const struct ds_ix_impl widen_impl = {{widen_lanes, widen_lanes}};

/* --- handler tables --- */
static int format_of(enum ds_ptx_type type)
{
        switch (type) {
        case T(F16):
        case T(F16X2):
                return F16;
        case T(BF16):
        case T(BF16X2):
                return BF16;
        case T(E4M3X2):
                return E4M3;
        case T(E5M2X2):
                return E5M2;
        case T(TF32):
                return TF32;
        default:
                return -1;
        }
}

const struct ds_ix_impl *ds_ix_find_narrow(const struct ds_ptx_instr *in, ds_ix_op *op)
{
        enum ds_ptx_type to = in->types[0], from = in->types[1];
        int target = format_of(to), source = format_of(from), pair = in->n_operands > 2;

        op->imm = 0;
        op->size = (uint8_t)((ds_ptx_has(in, DS_PTX_SATFINITE_SATFINITE) ? FINITE : 0) | (pair ? PAIR : 0) |
                             (op->mode == DS_IX_RZ ? TO_ZERO : 0) | (op->mode == DS_IX_RNA ? AWAY : 0));
        if ((source == E4M3 || source == E5M2) && to == T(F16X2) && op->n == 4) {
                op->mode = (uint8_t)source;
                return &widen_impl;
        }
        if (target < 0 || (from != T(F32) && from != T(F16X2)) || op->flags & (DS_IX_FTZ | DS_IX_SAT))
                return NULL;
        if (from == T(F16X2)) {
                if ((target != E4M3 && target != E5M2) || pair)
                        return NULL;
                op->size |= HALVES;
        } else if (pair != (to != T(F16) && to != T(BF16) && to != T(TF32))) {
                return NULL;
        }
        op->mode = (uint8_t)target;
        return op->n == (target == TF32 || to == T(F16X2) || to == T(BF16X2) ? 4 : 2) ? &narrow_impl : NULL;
}
