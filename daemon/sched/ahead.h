/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of queued operations, as a policy sees them
 *
 * A sliding array of the first DETSHARE_AHEAD_MAX waiting launches, copies and memsets. Each view is written once, when
 * its operation enters the window. Only the values from the statistics are refreshed before a policy reads it.
 */
#pragma once

#include <stdint.h>

#include "policies/detshare_policy.h"
#include "sched/sched.h"

struct ds_ahead_slots;

struct ds_ahead {
        struct ds_ahead_slots *slots; /* NULL until the first submit */
        uint32_t start, n;
        /* the last operation with a view; NULL = begin at the coroutine's first waiting operation */
        struct ds_op *scanned;
};

/* Allocates the array if there is none. Returns 0 or -ENOMEM. */
int ds_ahead_reserve(struct ds_ahead *ahead);
void ds_ahead_deinit(struct ds_ahead *ahead);
/* Finds (or creates) the statistics row of an operation; fills in kernel_key if it is 0. */
void ds_ahead_identify(ds_sched *sched, struct ds_op *op);
/* Key of a kernel and its launch shape: the same in every process and for every client, independent of streams and
 * data. */
uint64_t ds_launch_key(const ds_sched *sched, const struct ds_launch *launch);
/* Writes the views of waiting operations that are among the first DETSHARE_AHEAD_MAX now and have no view yet. */
void ds_ahead_fill(ds_coroutine *coroutine);
/* Removes the view of `op`, the first waiting operation, which leaves the queue. */
void ds_ahead_pop(ds_coroutine *coroutine, const struct ds_op *op);
void ds_ahead_clear(struct ds_ahead *ahead);
/* Returns the n_ahead views, with current statistics. */
const struct detshare_op_view *ds_ahead_views(ds_coroutine *coroutine);
