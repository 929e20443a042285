/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a policy sees of the operations in a coroutine's queue
 *
 * The first DETSHARE_AHEAD_MAX launches, copies and memsets that wait, as an array that slides: each view is written
 * once, when its operation comes into reach, and only what the statistics say is refreshed before a policy reads it.
 */
#pragma once

#include <stdint.h>

#include "policies/detshare_policy.h"
#include "sched/sched.h"

struct ds_ahead_slots;

struct ds_ahead {
        struct ds_ahead_slots *slots; /* made at the first submit */
        uint32_t start, n;
        struct ds_op *scanned; /* the last operation looked at, NULL = start at the coroutine's boundary */
};

/* -ENOMEM */
int ds_ahead_reserve(struct ds_ahead *ahead);
void ds_ahead_deinit(struct ds_ahead *ahead);
/* Looks up (or makes) the statistics row of an operation; fills kernel_key if it is 0. */
void ds_ahead_identify(ds_sched *sched, struct ds_op *op);
/* Of a kernel and how it is launched: the same in every process and for every client. Not the streams, not the data. */
uint64_t ds_launch_key(const ds_sched *sched, const struct ds_launch *launch);
/* Write views of operations that came into reach. */
void ds_ahead_fill(ds_coroutine *coroutine);
/* `op`, the first waiting operation, leaves the queue. */
void ds_ahead_pop(ds_coroutine *coroutine, const struct ds_op *op);
void ds_ahead_clear(struct ds_ahead *ahead);
/* The views, with today's statistics; n_ahead of them. */
const struct detshare_op_view *ds_ahead_views(ds_coroutine *coroutine);
