/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations across the lanes of a warp: shuffles, votes, matches, reductions, bar.warp.sync
 *
 * The .sync instructions name the participating lanes, and wait for lanes that have not arrived. A group that reaches
 * the same operation joins; exited lanes are no longer expected. If nothing else in the warp can run, lanes that wait
 * at different operations of the same kind with the same mask meet (the compiler may have duplicated the operation into
 * two branches). A lane's operands for such a meeting are put into the warp's exchange area when it starts to wait.
 * Lanes with different masks at one operation are different meetings.
 */
#include "ptx/interp/lane.h"
#include "ptx/interp/tensor.h"

#define T(name) DS_PTX_TYPE_##name

enum { KIND_BARRIER, KIND_SHFL, KIND_VOTE, KIND_MATCH, KIND_REDUX, KIND_ELECT, KIND_MATRIX };
enum { WAITS, MEETS };

/* Stores the operands of the running group's lanes in the warp's exchange area. */
static void bring(ds_ix_warp *w, const void *values, uint32_t bytes, uint32_t preds)
{
        for (uint32_t i = 0; i < DS_IX_LANES; i++) {
                if (!(w->mask >> i & 1) || !values)
                        continue;
                w->exchange[i] = 0;
                memcpy(&w->exchange[i], (const uint8_t *)values + (size_t)i * bytes, bytes);
        }
        w->exchange_pred = (w->exchange_pred & ~w->mask) | (preds & w->mask);
}

/* Merges groups that wait for the lanes `need` at the same operation into the running group. */
static void gather(ds_ix_warp *w, const ds_ix_op *op, uint32_t need)
{
        for (uint32_t i = 0; i < w->n_groups;) {
                struct ds_ix_group *g = &w->group[i];

                if (i == w->current || g->state != DS_IX_WAIT_SYNC || g->pc != op || g->frame != w->frame ||
                        g->need != need) {
                        i++;
                        continue;
                }
                w->mask |= g->mask;
                ds_ix_frame_release(w->block, g->frame);
                w->n_groups--;
                if (w->current == w->n_groups)
                        w->current = i;
                w->group[i] = w->group[w->n_groups];
        }
        w->group[w->current].mask = w->mask;
}

/*
 * Checks whether the lanes of the mask in `slot` are present. MEETS: yes, and *ret_present has them. WAITS: no, and
 * *ret_next is the operation to continue with. values, bytes: the register that lanes at other operations may read.
 */
static int meet(ds_ix_warp *w, const ds_ix_op *op, uint32_t slot, int kind, uint32_t bytes, uint32_t preds,
        uint32_t *ret_present, const ds_ix_op **ret_next)
{
        const uint32_t *masks = ds_ix_lanes(w, slot);
        uint32_t first = masks[__builtin_ctz(w->mask)], other = 0;
        struct ds_ix_group *g;

        if (w->granted) {
                *ret_present = w->granted;
                w->granted = 0;
                bring(w, bytes ? ds_ix_lanes(w, op->a) : NULL, bytes, preds);
                return MEETS;
        }
        for (uint32_t i = 0; i < DS_IX_LANES; i++)
                other |= masks[i] != first ? 1u << i : 0;
        if (other & w->mask)
                ds_ix_split(w, other & w->mask, op);
        if (first & w->live & ~w->mask)
                gather(w, op, first);
        *ret_present = w->mask;
        if (!(first & w->live & ~w->mask)) {
                bring(w, bytes ? ds_ix_lanes(w, op->a) : NULL, bytes, preds);
                return MEETS;
        }
        bring(w, bytes ? ds_ix_lanes(w, op->a) : NULL, bytes, preds);
        g = &w->group[w->current];
        g->need = first;
        g->kind = (uint8_t)kind;
        *ret_next = ds_ix_wait(w, op, DS_IX_WAIT_SYNC);
        return WAITS;
}

/*
 * A matrix operation needs all 32 lanes: absent lanes are waited for, and lanes at different matrix instructions never
 * meet.
 */
int ds_ix_whole_warp(ds_ix_warp *w, const ds_ix_op *op, const ds_ix_op **ret_next)
{
        struct ds_ix_group *g;

        if (w->mask == DS_IX_FULL)
                return 1;
        if (!w->granted && w->live == DS_IX_FULL) {
                gather(w, op, DS_IX_FULL);
                if (w->mask == DS_IX_FULL)
                        return 1;
                g = &w->group[w->current];
                g->need = DS_IX_FULL;
                g->kind = KIND_MATRIX;
                *ret_next = ds_ix_wait(w, op, DS_IX_WAIT_SYNC);
                return 0;
        }
        *ret_next = ds_ix_fault(w, op, DS_INTERP_FAULT_ILLEGAL, (uint32_t)__builtin_ctz(w->mask), 0,
                "a matrix instruction is executed by %d of the 32 lanes of a warp", __builtin_popcount(w->mask));
        return 0;
}

static void store32(ds_ix_warp *w, uint32_t slot, const uint32_t *values)
{
        uint32_t *d;

        if (slot == DS_IX_NO_SLOT)
                return;
        d = ds_ix_lanes(w, slot);
        DS_IX_STORE(uint32_t, d, values, w->mask);
}

static const ds_ix_op *warp_sync(ds_ix_warp *w, const ds_ix_op *op)
{
        const ds_ix_op *next = op + 1;
        uint32_t present;

        return meet(w, op, op->a, KIND_BARRIER, 0, 0, &present, &next) == MEETS ? op + 1 : next;
}

/* --- shuffles --- */
enum { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX };

/* The lane that `lane` reads; *ret_inside: whether that lane is in the segment of `lane`. */
DS_IX_INLINE uint32_t shuffle_source(uint32_t how, uint32_t lane, uint32_t b, uint32_t c, uint32_t *ret_inside)
{
        int32_t segment = (int32_t)(c >> 8 & 31), clamp = (int32_t)(c & 31), by = (int32_t)(b & 31),
                self = (int32_t)lane;
        int32_t high = (self & segment) | (clamp & ~segment), low = self & segment, j, inside;

        switch (how) {
        case SHFL_UP:
                j = self - by;
                inside = j >= high;
                break;
        case SHFL_DOWN:
                j = self + by;
                inside = j <= high;
                break;
        case SHFL_BFLY:
                j = self ^ by;
                inside = j <= high;
                break;
        default:
                j = low | (by & ~segment);
                inside = j <= high;
                break;
        }
        *ret_inside = (uint32_t)inside;
        return inside ? (uint32_t)j & 31 : lane;
}

static void shuffle(ds_ix_warp *w, const ds_ix_op *op, const uint32_t *values)
{
        const uint32_t *pb = ds_ix_lanes(w, op->b), *pc = ds_ix_lanes(w, op->c);
        DS_IX_BUFFER(uint32_t, result);
        uint32_t preds = 0, inside;

        for (uint32_t i = 0; i < DS_IX_LANES; i++) {
                result[i] = values[shuffle_source(op->mode, i, pb[i], pc[i], &inside)];
                preds |= inside << i;
        }
        store32(w, op->d, result);
        if (op->e != DS_IX_NO_SLOT)
                ds_ix_set_pred(w, op->e, preds);
}

static const ds_ix_op *shfl(ds_ix_warp *w, const ds_ix_op *op)
{
        const uint32_t *masks = ds_ix_lanes(w, op->f), *values = ds_ix_lanes(w, op->a);
        DS_IX_BUFFER(uint32_t, exchanged);
        const ds_ix_op *next = op + 1;
        uint32_t present, differ = 0;

        for (uint32_t i = 0; i < DS_IX_LANES; i++)
                differ |= masks[i] ^ masks[0];
        /* fast path: all lanes are here and every mask names all lanes */
        if (w->mask == DS_IX_FULL && !differ) {
                shuffle(w, op, values);
                return op + 1;
        }
        if (meet(w, op, op->f, KIND_SHFL, 4, 0, &present, &next) == WAITS)
                return next;
        for (uint32_t i = 0; i < DS_IX_LANES; i++)
                exchanged[i] = present >> i & 1 ? (uint32_t)w->exchange[i] : values[i];
        shuffle(w, op, exchanged);
        return op + 1;
}

/* --- votes --- */
enum { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };

static const ds_ix_op *vote(ds_ix_warp *w, const ds_ix_op *op)
{
        const ds_ix_op *next = op + 1;
        uint32_t present, yes, holds;

        if (meet(w, op, op->b, KIND_VOTE, 0, ds_ix_pred(w, op->a), &present, &next) == WAITS)
                return next;
        present &= ((const uint32_t *)ds_ix_lanes(w, op->b))[__builtin_ctz(w->mask)];
        yes = w->exchange_pred & present;
        if (op->mode == VOTE_BALLOT) {
                DS_IX_BUFFER(uint32_t, all);

                DS_IX_EACH
                all[i] = yes;
                store32(w, op->d, all);
                return op + 1;
        }
        holds = op->mode == VOTE_ALL ? yes == present : op->mode == VOTE_ANY ? yes != 0 : yes == present || yes == 0;
        ds_ix_set_pred(w, op->d, holds ? DS_IX_FULL : 0);
        return op + 1;
}

static const ds_ix_op *activemask(ds_ix_warp *w, const ds_ix_op *op)
{
        DS_IX_BUFFER(uint32_t, all);

        DS_IX_EACH
        all[i] = w->mask;
        store32(w, op->d, all);
        return op + 1;
}

/* --- matches --- */
static const ds_ix_op *match_any(ds_ix_warp *w, const ds_ix_op *op)
{
        DS_IX_BUFFER(uint32_t, result);
        const ds_ix_op *next = op + 1;
        uint32_t present;

        if (meet(w, op, op->b, KIND_MATCH, op->size, 0, &present, &next) == WAITS)
                return next;
        for (uint32_t i = 0; i < DS_IX_LANES; i++) {
                result[i] = 0;
                for (uint32_t k = 0; k < DS_IX_LANES; k++)
                        result[i] |= present >> k & 1 && w->exchange[k] == w->exchange[i] ? 1u << k : 0;
        }
        store32(w, op->d, result);
        return op + 1;
}

static const ds_ix_op *match_all(ds_ix_warp *w, const ds_ix_op *op)
{
        DS_IX_BUFFER(uint32_t, result);
        const ds_ix_op *next = op + 1;
        uint32_t present, equal = 1;

        if (meet(w, op, op->b, KIND_MATCH, op->size, 0, &present, &next) == WAITS)
                return next;
        for (uint32_t i = 0; i < DS_IX_LANES; i++)
                equal &= !(present >> i & 1) || w->exchange[i] == w->exchange[__builtin_ctz(present)];
        DS_IX_EACH
        result[i] = equal ? present : 0;
        store32(w, op->d, result);
        if (op->e != DS_IX_NO_SLOT)
                ds_ix_set_pred(w, op->e, equal ? DS_IX_FULL : 0);
        return op + 1;
}

/* --- reductions --- */
enum { REDUX_ADD, REDUX_MIN, REDUX_MAX, REDUX_AND, REDUX_OR, REDUX_XOR, REDUX_SIGNED = 8 };

static uint32_t reduce(uint32_t a, uint32_t b, uint32_t how)
{
        int less = how & REDUX_SIGNED ? (int32_t)a < (int32_t)b : a < b;

        switch (how & ~(uint32_t)REDUX_SIGNED) {
        case REDUX_ADD:
                return a + b;
        case REDUX_MIN:
                return less ? a : b;
        case REDUX_MAX:
                return less ? b : a;
        case REDUX_AND:
                return a & b;
        case REDUX_OR:
                return a | b;
        default:
                return a ^ b;
        }
}

static const ds_ix_op *redux(ds_ix_warp *w, const ds_ix_op *op)
{
        DS_IX_BUFFER(uint32_t, all);
        const ds_ix_op *next = op + 1;
        uint32_t present, first, r;

        if (meet(w, op, op->b, KIND_REDUX, 4, 0, &present, &next) == WAITS)
                return next;
        first = (uint32_t)__builtin_ctz(present);
        r = (uint32_t)w->exchange[first];
        for (uint32_t i = first + 1; i < DS_IX_LANES; i++)
                r = present >> i & 1 ? reduce(r, (uint32_t)w->exchange[i], op->mode) : r;
        DS_IX_EACH
        all[i] = r;
        store32(w, op->d, all);
        return op + 1;
}

static const ds_ix_op *elect(ds_ix_warp *w, const ds_ix_op *op)
{
        DS_IX_BUFFER(uint32_t, all);
        const ds_ix_op *next = op + 1;
        uint32_t present, leader;

        if (meet(w, op, op->a, KIND_ELECT, 0, 0, &present, &next) == WAITS)
                return next;
        leader = (uint32_t)__builtin_ctz(present);
        DS_IX_EACH
        all[i] = leader;
        store32(w, op->d, all);
        if (op->e != DS_IX_NO_SLOT)
                ds_ix_set_pred(w, op->e, 1u << leader);
        return op + 1;
}

/* --- handler tables --- */
#define IMPL(f) static const struct ds_ix_impl impl_##f = {{f, f}};
IMPL(warp_sync)
IMPL(shfl)
IMPL(vote)
IMPL(activemask)
IMPL(match_any)
IMPL(match_all)
IMPL(redux)
IMPL(elect)

const struct ds_ix_impl *ds_ix_find_warp(const struct ds_ptx_instr *in, ds_ix_op *op)
{
        enum ds_ptx_type type = in->types[0];

        switch (in->op) {
        case DS_PTX_OP_BAR_WARP_SYNC:
                return &impl_warp_sync;
        case DS_PTX_OP_SHFL:
                op->mode = (uint8_t)(ds_ptx_mod(in, DS_PTX_SHFL_UP) - DS_PTX_SHFL_UP);
                return &impl_shfl;
        case DS_PTX_OP_VOTE:
                op->mode = (uint8_t)(ds_ptx_mod(in, DS_PTX_VOTE_ALL) - DS_PTX_VOTE_ALL);
                return &impl_vote;
        case DS_PTX_OP_ACTIVEMASK:
                return &impl_activemask;
        case DS_PTX_OP_MATCH:
                op->size = (uint8_t)(ds_ptx_type_bits(type) / 8);
                return ds_ptx_has(in, DS_PTX_MATCH_ALL) ? &impl_match_all : &impl_match_any;
        case DS_PTX_OP_REDUX:
                op->mode = (uint8_t)(ds_ptx_mod(in, DS_PTX_REDUX_ADD) - DS_PTX_REDUX_ADD);
                op->mode |= type == T(S32) ? REDUX_SIGNED : 0;
                return &impl_redux;
        case DS_PTX_OP_ELECT:
                return &impl_elect;
        default:
                return NULL;
        }
}
