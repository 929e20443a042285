/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block-wide barriers: bar.sync, bar.arrive, bar.red
 *
 * A barrier without a count is complete when all threads that have not exited have arrived. A barrier with a count is
 * complete after that many arrivals, where each warp counts as 32 threads. Diverged lanes of a warp may arrive one
 * group at a time. Groups wait in their warps; the arrival that completes the barrier makes them ready and writes their
 * results.
 */
#include "ptx/interp/core.h"

static uint32_t *lane_values(const ds_ix_warp *w, uint32_t slot)
{
        return ds_ix_lanes(w, slot);
}

static void write_result(ds_ix_warp *w, const struct ds_ix_group *g, const ds_ix_op *op, const struct ds_ix_barrier *b)
{
        uint32_t mask = w->mask, *d;
        uint8_t *frame = w->base[DS_IX_IN_FRAME];

        w->base[DS_IX_IN_FRAME] = g->frame->regs;
        w->mask = g->mask;
        if (op->mode == DS_IX_VOTE_POPC) {
                d = lane_values(w, op->d);
                for (uint32_t i = 0; i < DS_IX_LANES; i++)
                        d[i] = g->mask >> i & 1 ? b->votes : d[i];
        } else {
                int holds = op->mode == DS_IX_VOTE_AND ? b->votes == b->voted : b->votes != 0;

                ds_ix_set_pred(w, op->d, holds ? DS_IX_FULL : 0);
        }
        w->base[DS_IX_IN_FRAME] = frame;
        w->mask = mask;
}

/* If the barrier `id` is complete, releases all groups that wait there and returns 1; else returns 0. */
static int release(ds_ix_block *block, uint32_t id)
{
        struct ds_ix_barrier *b = &block->barrier[id];
        int complete = b->expected ? b->arrived >= b->expected : b->lanes >= block->live_threads;

        if (!b->active || !complete)
                return 0;
        for (uint32_t k = 0; k < block->n_warps; k++) {
                ds_ix_warp *w = &block->warp[k];

                for (uint32_t i = 0; i < w->n_groups; i++) {
                        struct ds_ix_group *g = &w->group[i];

                        if (g->state != DS_IX_WAIT_BARRIER || g->barrier != id)
                                continue;
                        if (g->pc[-1].fn == ds_ix_barrier_red)
                                write_result(w, g, &g->pc[-1], b);
                        g->state = DS_IX_READY;
                        w->others++;
                }
        }
        memset(b, 0, sizeof(*b));
        return 1;
}

/* Counts exited lanes as arrived at the barrier where the lowest remaining lane of their warp waits, as if they had
 * exited before it. */
static void count_leavers(ds_ix_warp *w, uint32_t leaving)
{
        for (uint32_t i = 0; w->live && i < w->n_groups; i++) {
                const struct ds_ix_group *g = &w->group[i];

                if (g->state == DS_IX_WAIT_BARRIER && g->mask >> __builtin_ctz(w->live) & 1)
                        w->block->barrier[g->barrier].arrived += (uint32_t)__builtin_popcount(leaving);
        }
}

void ds_ix_barrier_exit(ds_ix_warp *w, uint32_t leaving)
{
        count_leavers(w, leaving);
        for (uint32_t id = 0; id < DS_IX_BARRIERS; id++) {
                if (w->block->barrier[id].active)
                        (void)release(w->block, id);
        }
}

/* Registers the arrival of the running group. Returns the barrier's number, or -1 after a fault. */
static int arrive(ds_ix_warp *w, const ds_ix_op *op, uint32_t votes)
{
        uint32_t lane = (uint32_t)__builtin_ctz(w->mask), id = lane_values(w, op->a)[lane];
        uint32_t count = op->b == DS_IX_NO_SLOT ? 0 : lane_values(w, op->b)[lane];
        uint32_t lanes = (uint32_t)__builtin_popcount(w->mask);
        struct ds_ix_barrier *b;

        w->cost.barriers++;
        if (id >= DS_IX_BARRIERS || (op->b != DS_IX_NO_SLOT && (count == 0 || count % DS_IX_LANES))) {
                ds_ix_fault(w, op, DS_INTERP_FAULT_ILLEGAL, lane, 0, "barrier %u with %u threads", id, count);
                return -1;
        }
        b = &w->block->barrier[id];
        if (!b->active)
                b->expected = count;
        b->active = 1;
        b->lanes += lanes;
        b->arrived += lanes;
        /* lanes that have exited, or that the warp never had, count as arrived together with the warp's lowest lane */
        if (w->mask >> __builtin_ctz(w->live) & 1)
                b->arrived += DS_IX_LANES - (uint32_t)__builtin_popcount(w->live);
        b->voted += lanes;
        b->votes += (uint32_t)__builtin_popcount(votes & w->mask);
        return (int)id;
}

/* The running group arrives and waits. Returns the next operation: the group's own if it completes the barrier, else
 * another group's. */
static const ds_ix_op *wait_for(ds_ix_warp *w, const ds_ix_op *op, uint32_t votes)
{
        int id = arrive(w, op, votes);
        struct ds_ix_group *g = &w->group[w->current];

        if (id < 0)
                return NULL;
        g->pc = op + 1;
        g->mask = w->mask;
        g->frame = w->frame;
        g->state = DS_IX_WAIT_BARRIER;
        g->barrier = (uint8_t)id;
        if (!release(w->block, (uint32_t)id))
                return ds_ix_pick(w);
        /* the group is the only one of its warp, so it continues */
        if (w->n_groups == 1) {
                g->state = DS_IX_RUNNING;
                w->others = 0;
                return op + 1;
        }
        return ds_ix_pick(w);
}

const ds_ix_op *ds_ix_barrier_sync(ds_ix_warp *w, const ds_ix_op *op)
{
        return wait_for(w, op, 0);
}

const ds_ix_op *ds_ix_barrier_arrive(ds_ix_warp *w, const ds_ix_op *op)
{
        int id = arrive(w, op, 0);

        if (id < 0)
                return NULL;
        if (release(w->block, (uint32_t)id) && w->others)
                return ds_ix_switch(w, op + 1);
        return op + 1;
}

const ds_ix_op *ds_ix_barrier_red(ds_ix_warp *w, const ds_ix_op *op)
{
        return wait_for(w, op, ds_ix_pred(w, op->c));
}
