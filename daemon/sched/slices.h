/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices: a kernel that is launched a limited number of blocks at a time
 *
 * The kernel is one operation: the policy launches it once, and it is reported once. Two slices of it are on the device
 * at a time, so that one follows the other without a gap. When one has ended, the scheduler itself launches the next in
 * the following step, until the kernel is evicted (let_go.h). The operation has a slot of its own throughout, which
 * counts like any other and whose token the device never sees, and one slot for each slice.
 *
 * While some of its slices are not launched yet, nothing is launched behind it. An error of a slice is the operation's
 * error.
 */
#pragma once

#include <stdint.h>

#include "sched/launch.h"

/*
 * Launches the first slices of an operation in the stream of its slot. Returns 0, a CUDA error (none is launched),
 * DS_SLICES_FULL (no room on the device, none is launched), or a fatal errno.
 */
#define DS_SLICES_FULL (-EAGAIN)
int ds_slices_begin(ds_coroutine *coroutine, struct ds_op *op, struct ds_slot *slot);
/* Whether some blocks of the operation are not launched yet and may still be launched. */
int ds_slices_remain(const struct ds_op *op);
/* Handles the completion of a slice. */
void ds_slices_complete(ds_sched *sched, struct ds_slot *slice, const struct ds_completion *completion);
/* Evicts the coroutine's sliced kernel: it returns to the queue when its slices on the device have ended. If there
 * are none, it returns at once. */
void ds_slices_stop(ds_coroutine *coroutine);
/* Launches the next slices of all coroutines, as far as allowed and possible. Returns 0 or a fatal errno. */
int ds_slices_step(ds_sched *sched);
