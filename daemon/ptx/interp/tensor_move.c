/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving matrices: ldmatrix, stmatrix, movmatrix, wmma.load, wmma.store
 *
 * Every address is checked like a load or store of its width. ldmatrix and stmatrix access one row of 16 bytes for each
 * lane whose address counts. wmma's accesses combine the elements of a register that are adjacent in memory, up to the
 * whole register.
 */
#include "ptx/interp/tensor_tiles.h"

/* Host addresses of matrix rows: lanes 0 to 7 name the rows of the first matrix, and so on. 0: a fault was recorded. */
static int rows_of(ds_ix_warp *w, const struct ds_ix_matrix *m, enum ds_ix_intent intent, struct ds_ix_access *x)
{
        uint32_t all = w->mask;
        int ok;

        w->mask = m->d.n == 4 ? DS_IX_FULL : (1u << (8 * m->d.n)) - 1;
        ok = ds_ix_resolve(w, &m->at, intent, x);
        w->mask = all;
        return ok;
}

static void swap_rows(const uint16_t (*from)[8], uint16_t (*to)[8])
{
        for (unsigned g = 0; g < 8; g++) {
                for (unsigned t = 0; t < 8; t++)
                        to[t][g] = from[g][t];
        }
}

static const ds_ix_op *ldmatrix(ds_ix_warp *w, const ds_ix_op *op)
{
        const struct ds_ix_matrix *m = op->ext;
        uint16_t tile[4][8][8], turned[8][8];
        const ds_ix_op *next;
        struct ds_ix_access x;

        if (!ds_ix_whole_warp(w, op, &next))
                return next;
        if (!rows_of(w, m, DS_IX_READ, &x))
                return NULL;
        /* reads all rows before it writes a register, since a destination register may hold an address */
        for (unsigned i = 0; i < 8u * m->d.n; i++)
                memcpy(tile[i / 8][i % 8], (const void *)(uintptr_t)x.p[i], 16);
        for (unsigned r = 0; r < m->d.n; r++) {
                swap_rows((const uint16_t(*)[8])tile[r], turned);
                memcpy(ds_ix_lanes(w, m->d.slot[r]), m->transposed ? turned : tile[r], sizeof(turned));
        }
        return op + 1;
}

static const ds_ix_op *stmatrix(ds_ix_warp *w, const ds_ix_op *op)
{
        const struct ds_ix_matrix *m = op->ext;
        uint16_t tile[8][8], turned[8][8];
        const ds_ix_op *next;
        struct ds_ix_access x;

        if (!ds_ix_whole_warp(w, op, &next))
                return next;
        if (!rows_of(w, m, DS_IX_WRITE, &x))
                return NULL;
        for (unsigned r = 0; r < m->d.n; r++) {
                memcpy(tile, ds_ix_lanes(w, m->d.slot[r]), sizeof(tile));
                swap_rows((const uint16_t(*)[8])tile, turned);
                for (unsigned g = 0; g < 8; g++)
                        memcpy((void *)(uintptr_t)x.p[8 * r + g], m->transposed ? turned[g] : tile[g], 16);
        }
        return op + 1;
}

static const ds_ix_op *movmatrix(ds_ix_warp *w, const ds_ix_op *op)
{
        const struct ds_ix_matrix *m = op->ext;
        uint16_t tile[8][8], turned[8][8];
        const ds_ix_op *next;

        if (!ds_ix_whole_warp(w, op, &next))
                return next;
        memcpy(tile, ds_ix_lanes(w, m->a.slot[0]), sizeof(tile));
        swap_rows((const uint16_t(*)[8])tile, turned);
        memcpy(ds_ix_lanes(w, m->d.slot[0]), turned, sizeof(turned));
        return op + 1;
}

/* --- wmma --- */
static unsigned element_bits(enum ds_ix_matrix_kind kind)
{
        static const uint8_t bits[_DS_IX_MATRIX_KINDS] = {16, 16, 32, 8, 8, 64, 8, 8, 4, 4, 1, 32, 32};

        return bits[kind];
}

/* Bytes from the begin of the matrix to element `e` of a lane's register r. */
static uint64_t offset_of(const struct ds_ix_matrix *m, unsigned r, unsigned e, uint32_t lane, uint64_t stride)
{
        unsigned bits = element_bits((enum ds_ix_matrix_kind)m->d.kind), each = bits < 32 ? 32 / bits : 1;
        uint64_t outer = m->d.tile[r].outer * 8u + lane / 4, inner;

        if (m->accumulator && bits >= 32)
                inner = m->d.tile[r].inner * 8u + lane % 4 * 2 + (r & 1);
        else
                inner = (m->d.tile[r].inner * 4u + lane % 4) * each + e;
        return (m->across ? inner * stride + outer : outer * stride + inner) * bits / 8;
}

/*
 * Checks one access of all lanes: element `e` of register r, and those behind it that are adjacent in memory. The
 * addresses are put into the warp's scratch memory, which has the right size.
 */
static int reach(ds_ix_warp *w, const struct ds_ix_matrix *m, unsigned r, unsigned e, uint32_t bytes,
        enum ds_ix_intent intent, struct ds_ix_access *x)
{
        const uint32_t *strides = ds_ix_lanes(w, m->stride), *narrow = ds_ix_lanes(w, m->at.a);
        const uint64_t *wide = ds_ix_lanes(w, m->at.a);
        uint64_t *places = (uint64_t *)(void *)w->scratch;
        ds_ix_op at = m->at;

        for (uint32_t i = 0; i < DS_IX_LANES; i++) {
                uint64_t base = at.flags & DS_IX_WIDE_ADDRESS ? wide[i] : narrow[i];

                places[i] = base + at.imm + offset_of(m, r, e, i, strides[i]);
        }
        at.a = DS_IX_IN_SCRATCH;
        at.imm = 0;
        at.flags |= DS_IX_WIDE_ADDRESS;
        at.size = (uint8_t)bytes;
        return ds_ix_resolve(w, &at, intent, x);
}

static const ds_ix_op *wmma_access(ds_ix_warp *w, const ds_ix_op *op, enum ds_ix_intent intent)
{
        const struct ds_ix_matrix *m = op->ext;
        unsigned bits = element_bits((enum ds_ix_matrix_kind)m->d.kind), whole = bits == 64 ? 8 : 4;
        unsigned bytes = m->across && bits < 32 ? bits / 8 : whole;
        uint8_t loaded[DS_IX_MATRIX_REGS][8 * DS_IX_LANES];
        const ds_ix_op *next;
        struct ds_ix_access x;

        if (!ds_ix_whole_warp(w, op, &next))
                return next;
        for (unsigned r = 0; r < m->d.n; r++) {
                uint8_t *lanes = intent == DS_IX_READ ? loaded[r] : ds_ix_lanes(w, m->d.slot[r]);

                for (unsigned from = 0; from < whole; from += bytes) {
                        if (!reach(w, m, r, from / bytes, bytes, intent, &x))
                                return NULL;
                        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                                uint8_t *part = lanes + (size_t)whole * i + from, *there = (uint8_t *)(uintptr_t)x.p[i];

                                memcpy(intent == DS_IX_READ ? part : there, intent == DS_IX_READ ? there : part, bytes);
                        }
                }
        }
        for (unsigned r = 0; r < m->d.n && intent == DS_IX_READ; r++)
                memcpy(ds_ix_lanes(w, m->d.slot[r]), loaded[r], (size_t)whole * DS_IX_LANES);
        return op + 1;
}

static const ds_ix_op *wmma_load(ds_ix_warp *w, const ds_ix_op *op)
{
        return wmma_access(w, op, DS_IX_READ);
}

static const ds_ix_op *wmma_store(ds_ix_warp *w, const ds_ix_op *op)
{
        return wmma_access(w, op, DS_IX_WRITE);
}

const struct ds_ix_impl ds_ix_ldmatrix = {{ldmatrix, ldmatrix}};
const struct ds_ix_impl ds_ix_stmatrix = {{stmatrix, stmatrix}};
const struct ds_ix_impl ds_ix_movmatrix = {{movmatrix, movmatrix}};
const struct ds_ix_impl ds_ix_wmma_load = {{wmma_load, wmma_load}};
const struct ds_ix_impl ds_ix_wmma_store = {{wmma_store, wmma_store}};
