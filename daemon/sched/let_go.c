/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Killing and evicting
 */
#include "sched/let_go.h"

#include <assert.h>

#include "sched/internal.h"
#include "sched/slices.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

static int op_lets_go(const struct ds_op *op)
{
        return op->kind == DS_OP_LAUNCH && (op->form == DS_PTX_FORM_PERSISTENT || ds_slices_remain(op));
}

static int op_may_be_killed(const ds_sched *sched, const struct ds_op *op)
{
        return sched->ops->kill && op->kind == DS_OP_LAUNCH && op->form == DS_PTX_FORM_NATIVE &&
               sched->ops->kernel_info(op->launch.kernel)->idempotent;
}

/* Whether all remaining slices of the operation are on the device, so that it ends soon by itself. */
static int op_is_ending(const struct ds_op *op)
{
        return op->kind == DS_OP_LAUNCH && op->form == DS_PTX_FORM_SLICED && !ds_slices_remain(op);
}

/* --- attributes shown to the policy ------------------------------------------------------------------------------- */

int ds_let_go_may_follow(const ds_coroutine *coroutine, const struct ds_op *op)
{
        if (coroutine->slicing)
                return 0;
        return !coroutine->n_let_go || (op->kind == DS_OP_LAUNCH && op->form == DS_PTX_FORM_PERSISTENT);
}

void ds_let_go_launched(ds_coroutine *coroutine, const struct ds_op *op, struct ds_slot *slot)
{
        slot->lets_go = (uint8_t)op_lets_go(op);
        if (!slot->lets_go)
                return;
        coroutine->n_let_go++;
        coroutine->let_go_ns = DS_MAX(coroutine->let_go_ns, slot->evict_ns);
        coroutine->let_go_expected_ns += slot->view.expected_ns;
}

void ds_let_go_no_more(ds_coroutine *coroutine, struct ds_slot *slot)
{
        if (!slot->lets_go)
                return;
        slot->lets_go = 0;
        coroutine->n_let_go--;
        coroutine->let_go_expected_ns -= slot->view.expected_ns;
        if (!coroutine->n_let_go)
                coroutine->let_go_ns = 0;
        ds_coroutine_changed(coroutine);
}

/* --- stopping operations ------------------------------------------------------------------------------------------ */

/*
 * Links the slots of the operations to stop by next_free, newest first, and returns the newest. DS_SLOT_NONE: there is
 * none, or some operation in flight cannot be stopped. *ret_ending: some operation is not stopped, because it ends soon
 * by itself.
 */
static uint32_t let_go_list(const ds_coroutine *coroutine, int kill, int *ret_ending)
{
        ds_sched *sched = coroutine->sched;
        uint32_t youngest = DS_SLOT_NONE;

        *ret_ending = 0;
        for (const struct ds_op *op = coroutine->first; op != coroutine->boundary; op = op->next) {
                if (op->finished)
                        continue;
                if (op_lets_go(op) || (kill && op_may_be_killed(sched, op))) {
                        /* a sliced operation's slices on the device run to their end, so operations before it end by
                         * themselves before that */
                        if (op->form == DS_PTX_FORM_SLICED)
                                youngest = DS_SLOT_NONE;
                        sched->slots[op->slot].next_free = youngest;
                        youngest = op->slot;
                        continue;
                }
                if (kill && !op_is_ending(op))
                        return DS_SLOT_NONE;
                *ret_ending = 1;
                youngest = DS_SLOT_NONE; /* operations before this one end by themselves before it does */
        }
        return youngest;
}

static int let_go_one(ds_sched *sched, struct ds_slot *slot)
{
        const struct ds_op *op = slot->op;

        if (op->form == DS_PTX_FORM_PERSISTENT)
                return sched->ops->evict(sched->device, ds_slot_token(sched, slot));
        if (op->form == DS_PTX_FORM_SLICED)
                /* nothing to do for the device: stopping a sliced operation means that no more slices are launched */
                return 0;
        return sched->ops->kill(sched->device, ds_slot_token(sched, slot));
}

static int let_go(ds_coroutine *coroutine, int kill)
{
        ds_sched *sched = coroutine->sched;
        int r = 0, ending;
        uint32_t i;

        if (coroutine->killing)
                return DS_LET_GO_ALREADY;
        i = let_go_list(coroutine, kill, &ending);
        if (i == DS_SLOT_NONE)
                return kill && ending ? DS_LET_GO_ALREADY : 0;
        /* if an operation has already ended or cannot be stopped, those before it end by themselves, too: the walk
         * stops */
        for (; i != DS_SLOT_NONE && !r; i = sched->slots[i].next_free)
                r = let_go_one(sched, &sched->slots[i]);
        if (r < 0)
                return ds_error_fold(r);
        ds_coroutine_killing(coroutine);
        ds_coroutine_changed(coroutine);
        ds_slices_stop(coroutine);
        return 1;
}

int ds_launch_kill(ds_coroutine *coroutine)
{
        return let_go(coroutine, 1);
}

int ds_launch_evict(ds_coroutine *coroutine)
{
        return let_go(coroutine, 0);
}

void ds_launch_evict_quietly(ds_coroutine *coroutine)
{
        int r = coroutine->n_let_go ? let_go(coroutine, 0) : 0;

        if (r < 0)
                coroutine->sched->error = r;
}

/* --- operations that returned to the queue ------------------------------------------------------------------------ */

void ds_let_go_drop(ds_sched *sched, struct ds_op *op)
{
        if (op->kind != DS_OP_LAUNCH || !op->launch.resumes)
                return;
        sched->ops->drop(sched->device, op->launch.resumes - 1);
        op->launch.resumes = 0;
}

static void evicted(ds_coroutine *coroutine, struct ds_op *op, const struct ds_slot *slot, uint32_t blocks)
{
        ds_sched *sched = coroutine->sched;
        ds_sched_session *session = coroutine->session;

        session->evictions++;
        session->blocks += blocks - op->blocks_ran;
        sched->stats.evictions++;
        op->evictions++;
        op->ran_ns += op->end_ns - op->start_ns;
        if (!op->blocks_ran)
                op->began_ns = op->start_ns;
        op->blocks_ran = blocks;
        if (op->form == DS_PTX_FORM_PERSISTENT)
                op->launch.resumes = 1 + ds_slot_token(sched, slot);
        else
                assert(op->next_block == blocks);
}

static void killed(ds_coroutine *coroutine, struct ds_op *op, const struct ds_slot *slot)
{
        coroutine->session->kills++;
        coroutine->sched->stats.kills++;
        op->launch.replays = 1 + ds_slot_token(coroutine->sched, slot);
}

void ds_let_go_returned(ds_coroutine *coroutine, struct ds_op *op, struct ds_slot *slot, uint32_t blocks)
{
        ds_sched_session *session = coroutine->session;

        session->device_ns += op->end_ns - op->start_ns;
        if (op->status == DS_DEVICE_EVICTED)
                evicted(coroutine, op, slot, blocks);
        else
                killed(coroutine, op, slot);
        op->finished = DS_OP_UNFINISHED;
        op->killed = 1;
        if (session->cancelled) {
                ds_let_go_drop(coroutine->sched, op);
                op->finished = DS_OP_RAN;
                op->status = session->cancel_status;
        }
        ds_slot_told(coroutine->sched, slot);
}
