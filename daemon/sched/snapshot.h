/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The snapshot: what a policy sees, kept up to date piece by piece
 *
 * Only coroutines with work and sessions that have some (or something to be told about) are in it, and only those that
 * changed since the last decision are written again, so the cost of a decision does not grow with the number of
 * clients that are idle. The arrays are reserved when coroutines and sessions are made: writing them cannot fail.
 * What the statistics say about queued operations is of the time when their coroutine last changed.
 * Coroutines are ascending by id; sessions are in no particular (but repeatable) order.
 */
#pragma once

#include <stdint.h>

#include "sched/sched.h"

#define DS_SNAPSHOT_NONE UINT32_MAX

struct ds_snapshot {
        struct detshare_coroutine_view *coroutine_views;
        ds_coroutine **coroutines; /* beside the views */
        uint32_t n_coroutines, coroutines_reserved;
        uint64_t points_taken; /* ds_kstat_taken() when the views were written */
        uint64_t memory_total, memory_free;
        struct detshare_session_view *session_views;
        ds_sched_session **sessions;
        uint32_t n_sessions, sessions_reserved;
        ds_coroutine *dirty_coroutines;
        ds_sched_session *dirty_sessions;
};

void ds_snapshot_deinit(struct ds_snapshot *snapshot);
/* Room for so many in all. -ENOMEM. */
int ds_snapshot_reserve_coroutines(struct ds_snapshot *snapshot, uint32_t n);
int ds_snapshot_reserve_sessions(struct ds_snapshot *snapshot, uint32_t n);
void ds_snapshot_coroutine_changed(ds_coroutine *coroutine);
void ds_snapshot_session_changed(ds_sched_session *session);
/* It goes: out of the arrays and lists at once. A session's coroutines must have gone before. */
void ds_snapshot_forget_coroutine(ds_coroutine *coroutine);
void ds_snapshot_forget_session(ds_sched_session *session);
/* Write what changed. */
void ds_snapshot_refresh(ds_sched *sched);
/* NULL when no coroutine with work has this id. Valid between refresh and the next change of what is listed. */
ds_coroutine *ds_snapshot_find(const struct ds_snapshot *snapshot, uint64_t id);
