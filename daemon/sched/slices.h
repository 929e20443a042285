/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices: a kernel that is launched so many blocks at a time
 *
 * It is one operation, launched once by the policy and told once. Two slices of it are on the device at a time, so that
 * one follows the other without a gap; the next one is launched by the scheduler itself when one has ended, in the step
 * that follows, for as long as nobody wants the GPU (let_go.h). The operation has a slot of the table all the time,
 * which counts for it as that of any other one does and whose token the device never sees, and one for each slice.
 *
 * While some of its slices are not launched yet nothing is launched behind it. An error of a slice is the operation's.
 */
#pragma once

#include <stdint.h>

#include "sched/launch.h"

/*
 * The first slices of an operation, in the stream of its slot. 0, a CUDA error (none is launched), DS_SLICES_FULL (no
 * room on the device, likewise), or a fatal errno.
 */
#define DS_SLICES_FULL (-EAGAIN)
int ds_slices_begin(ds_coroutine *coroutine, struct ds_op *op, struct ds_slot *slot);
/* 1: some of the operation is not launched yet, and may be. */
int ds_slices_remain(const struct ds_op *op);
/* A slice has ended. */
void ds_slices_complete(ds_sched *sched, struct ds_slot *slice, const struct ds_completion *completion);
/* The coroutine's sliced kernel is to come back: it does when its slices on the device have ended, which may be now. */
void ds_slices_stop(ds_coroutine *coroutine);
/* Launch what may be launched of all. 0 or a fatal errno. */
int ds_slices_step(ds_sched *sched);
