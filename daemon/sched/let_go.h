/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Killing and evicting ("let go" in names): operations on the device return before they have run to their end
 *
 * A kill ends idempotent kernels at once; they start again from the beginning. An eviction stops kernels in another
 * form (forms.h) at the end of their blocks; they continue from there. In both cases the operations in flight are
 * stopped from the newest to the oldest, so that none begins because an earlier one was stopped. Nothing of the
 * coroutine is launched until all have returned. Then its queue restarts with the first operation that did not run to
 * its end.
 *
 * To keep the order of a coroutine, everything behind an evictable operation must be evictable, too. Behind a
 * persistent kernel on the device only another one is launched; all else waits until it has ended. Behind slices
 * nothing is launched while some are not launched yet. Operations before it may be of any kind: they run to their end.
 *
 * To evict a sliced kernel means that no more of its slices are launched (slices.h).
 *
 * The operation stores the progress (blocks_ran, next_block). For persistent kernels the device stores it, too; the
 * device is instructed to drop it when the operation ends otherwise.
 */
#pragma once

#include <stdint.h>

#include "sched/launch.h"

/*
 * Kills the coroutine's operations in flight, which then return to the head of its queue. Returns:
 *  1: begun. The coroutine launches nothing before all have returned; one that had already ended counts as ended.
 *  0: nothing is in flight, the device cannot kill, or some operation is neither proven idempotent nor evictable.
 *  DS_LET_GO_ALREADY: all operations in flight end soon anyway.
 *  A fatal errno of the device.
 */
#define DS_LET_GO_ALREADY 2
int ds_launch_kill(ds_coroutine *coroutine);
/* Evicts the coroutine's evictable operations in flight. Returns as ds_launch_kill(); 0: none is evictable. */
int ds_launch_evict(ds_coroutine *coroutine);
/* Evicts like ds_launch_evict(), but returns nothing: the next ds_sched_step() returns a fatal errno. */
void ds_launch_evict_quietly(ds_coroutine *coroutine);

/* Whether the head `op`, in its form, may be launched behind the coroutine's operations in flight. */
int ds_let_go_may_follow(const ds_coroutine *coroutine, const struct ds_op *op);
/* Updates the coroutine's eviction attributes after a launch. */
void ds_let_go_launched(ds_coroutine *coroutine, const struct ds_op *op, struct ds_slot *slot);
/* Updates the coroutine's eviction attributes when an operation has ended or cannot be evicted any more. */
void ds_let_go_no_more(ds_coroutine *coroutine, struct ds_slot *slot);
/* Makes the device forget the progress of an evicted operation that is given up. */
void ds_let_go_drop(ds_sched *sched, struct ds_op *op);
/* Handles a killed or evicted operation, and charges the device time that it used. blocks: for an evicted one, the
 * blocks that have run over all its launches. */
void ds_let_go_returned(ds_coroutine *coroutine, struct ds_op *op, struct ds_slot *slot, uint32_t blocks);
