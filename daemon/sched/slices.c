/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches slices one after another
 */
#include "sched/slices.h"

#include <assert.h>
#include <errno.h>
#include <utlist.h>

#include "sched/forms.h"
#include "sched/internal.h"
#include "sched/let_go.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

int ds_slices_remain(const struct ds_op *op)
{
        return op->form == DS_PTX_FORM_SLICED && !op->status && op->next_block < ds_launch_blocks(&op->launch);
}

/* Launches the next slice of a kernel. Returns 0, a CUDA error, DS_SLICES_FULL, or a fatal errno. */
static int slice_launch(ds_sched *sched, struct ds_op *op, const struct ds_slot *whole)
{
        uint32_t left = (uint32_t)ds_launch_blocks(&op->launch) - op->next_block;
        struct ds_slot *slice;
        int r;

        if (sched->stream_load[whole->stream] >= DS_SCHED_STREAM_MAX)
                return DS_SLICES_FULL;
        slice = ds_slot_take(sched);
        if (!slice)
                return DS_SLICES_FULL;
        slice->blocks = DS_MIN(op->slice, left);
        r = ds_launch_submit(sched, op, whole, slice);
        if (r) {
                ds_slot_told(sched, slice);
                return r;
        }
        slice->op = op;
        slice->slice = 1;
        slice->stream = whole->stream;
        sched->stream_load[slice->stream]++;
        op->next_block += slice->blocks;
        op->n_slices++;
        return 0;
}

static void slicing_begin(ds_coroutine *coroutine, struct ds_op *op)
{
        assert(!coroutine->slicing);
        coroutine->slicing = op;
        DL_APPEND2(coroutine->sched->slicing, coroutine, slicing_prev, slicing_next);
}

/* Removes the kernel from the list of kernels being sliced: all blocks are launched, or no more will be. */
static void slicing_end(ds_coroutine *coroutine, const struct ds_op *op)
{
        if (coroutine->slicing != op)
                return;
        ds_let_go_no_more(coroutine, &coroutine->sched->slots[op->slot]);
        coroutine->slicing = NULL;
        DL_DELETE2(coroutine->sched->slicing, coroutine, slicing_prev, slicing_next);
}

int ds_slices_begin(ds_coroutine *coroutine, struct ds_op *op, struct ds_slot *slot)
{
        int r;

        assert(op->next_block == op->blocks_ran && !op->n_slices);
        slot->start_ns = UINT64_MAX; /* no slice has ended yet */
        slot->end_ns = 0;
        slot->blocks = 0;
        r = slice_launch(coroutine->sched, op, slot);
        if (!r && ds_slices_remain(op))
                slicing_begin(coroutine, op);
        return r;
}

/* Ends the operation, or returns it to the queue as evicted, as a completion of the device would. */
static void slices_end(ds_coroutine *coroutine, struct ds_op *op, struct ds_slot *whole)
{
        ds_sched *sched = coroutine->sched;
        struct ds_completion completion = {
                .status = ds_slices_remain(op) ? DS_DEVICE_EVICTED : op->status,
                .start_ns = DS_MIN(whole->start_ns, sched->now_ns),
                .end_ns = whole->start_ns <= whole->end_ns ? whole->end_ns : sched->now_ns,
                .blocks = op->blocks_ran + whole->blocks,
        };

        slicing_end(coroutine, op);
        ds_launch_ended(sched, whole, &completion);
}

/* Ends the operation if none of its slices is on the device. */
static void slices_check_end(ds_coroutine *coroutine, struct ds_op *op)
{
        if (!op->n_slices && (coroutine->killing || !ds_slices_remain(op)))
                slices_end(coroutine, op, &coroutine->sched->slots[op->slot]);
}

void ds_slices_complete(ds_sched *sched, struct ds_slot *slice, const struct ds_completion *completion)
{
        struct ds_op *op = DS_TAKE_PTR(slice->op);
        struct ds_slot *whole = &sched->slots[op->slot];

        assert(op->n_slices && sched->stream_load[slice->stream]);
        sched->stream_load[slice->stream]--;
        op->n_slices--;
        whole->start_ns = DS_MIN(whole->start_ns, completion->start_ns);
        whole->end_ns = DS_MAX(completion->end_ns, whole->start_ns);
        ds_sched_now(sched, whole->end_ns);
        whole->blocks += completion->status ? 0 : slice->blocks;
        if (completion->status && !op->status) {
                op->status = completion->status;
                if (completion->message[0])
                        op->message = ds_strndup(completion->message, sizeof(completion->message));
        }
        slice->slice = 0;
        ds_slot_told(sched, slice);
        slices_check_end(op->coroutine, op);
}

void ds_slices_stop(ds_coroutine *coroutine)
{
        assert(coroutine->killing);
        if (coroutine->slicing)
                slices_check_end(coroutine, coroutine->slicing);
}

static int slices_launch_more(ds_coroutine *coroutine)
{
        struct ds_op *op = coroutine->slicing;
        ds_sched *sched = coroutine->sched;
        int r = 0;

        while (!coroutine->killing && ds_slices_remain(op) && op->n_slices < DS_FORMS_SLICES && !r) {
                r = slice_launch(sched, op, &sched->slots[op->slot]);
                if (r > 0)
                        /* the operation ends with this error when its slices on the device have ended */
                        op->status = r;
        }
        if (r < 0 && r != DS_SLICES_FULL)
                return ds_error_trace(r);
        if (!ds_slices_remain(op))
                slicing_end(coroutine, op);
        slices_check_end(coroutine, op);
        return 0;
}

int ds_slices_step(ds_sched *sched)
{
        ds_coroutine *coroutine, *next;
        int r = 0;

        for (coroutine = sched->slicing; coroutine && !r; coroutine = next) {
                next = coroutine->slicing_next;
                r = slices_launch_more(coroutine);
        }
        return r;
}
