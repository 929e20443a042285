/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Letting go: what is on the device of a coroutine comes back before it has run to its end
 *
 * Killing ends idempotent kernels at once; they begin again. Evicting has kernels in another form (forms.h) stop at the
 * end of their blocks; they go on from there. Either way what is in flight is ended from the youngest to the oldest, so
 * that none begins because one before it was ended; nothing of the coroutine is launched until all of it has come back;
 * then its queue begins again with the first that did not run to its end, whatever came behind that.
 *
 * So that this keeps the order of a coroutine, what stands behind something that lets go must let go, too: behind a
 * persistent kernel on the device only another one is launched, everything else waits until it has ended; behind slices
 * of which some are not launched yet nothing is. What stands before may be anything: it runs to its end.
 *
 * Evicting a sliced kernel means that no more slices of it are launched (slices.h).
 *
 * Progress is kept by the operation (blocks_ran, next_block) and, for persistent kernels, by the device, which is told
 * to drop it when the operation ends otherwise.
 */
#pragma once

#include <stdint.h>

#include "sched/launch.h"

/*
 * End what the coroutine has in flight and put it back at the head of its queue. 1: it is under way (nothing of it is
 * launched before all has come back, and what had ended before counts as ended); 0: something in flight is neither
 * proven idempotent nor does it let go, or nothing is, or the device cannot; DS_LET_GO_ALREADY; or a fatal errno.
 */
#define DS_LET_GO_ALREADY 2
int ds_launch_kill(ds_coroutine *coroutine);
/* Have what lets go do so. Returns as ds_launch_kill; 0: nothing in flight does. */
int ds_launch_evict(ds_coroutine *coroutine);
/* The same, when nobody waits for an answer; a fatal errno comes with the next step. */
void ds_launch_evict_quietly(ds_coroutine *coroutine);

/* May the head, in its form, follow what is in flight? */
int ds_let_go_may_follow(const ds_coroutine *coroutine, const struct ds_op *op);
/* It was launched: what a policy is told of evictions. */
void ds_let_go_launched(ds_coroutine *coroutine, const struct ds_op *op, struct ds_slot *slot);
/* It ended, or will not let go any more. */
void ds_let_go_no_more(ds_coroutine *coroutine, struct ds_slot *slot);
/* An operation that was evicted is given up: the device need not remember it. */
void ds_let_go_drop(ds_sched *sched, struct ds_op *op);
/* It came back, killed or evicted (then `blocks` of it have run in all): what it used of the device it has used. */
void ds_let_go_returned(ds_coroutine *coroutine, struct ds_op *op, struct ds_slot *slot, uint32_t blocks);
