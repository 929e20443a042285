/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The snapshot: the state that a policy sees, updated incrementally
 *
 * It contains only coroutines with work, and sessions with work or pending events. Only those that changed since the
 * last decision are rewritten, so the cost of a decision does not grow with the number of idle clients. The arrays are
 * reserved when coroutines and sessions are created, so writing them cannot fail. Statistics of queued operations are
 * those at the last change of their coroutine. Coroutines are sorted by id; sessions are in an arbitrary but repeatable
 * order.
 */
#pragma once

#include <stdint.h>

#include "sched/sched.h"

#define DS_SNAPSHOT_NONE UINT32_MAX

struct ds_snapshot {
        struct detshare_coroutine_view *coroutine_views;
        ds_coroutine **coroutines; /* coroutines[i] is that of coroutine_views[i] */
        uint32_t n_coroutines, coroutines_reserved;
        uint64_t points_taken; /* value of ds_kstat_taken() when the views were written */
        uint64_t memory_total, memory_free;
        struct detshare_session_view *session_views;
        ds_sched_session **sessions;
        uint32_t n_sessions, sessions_reserved;
        ds_coroutine *dirty_coroutines;
        ds_sched_session *dirty_sessions;
};

void ds_snapshot_deinit(struct ds_snapshot *snapshot);
/* Reserves room for a total of n views. Returns 0 or -ENOMEM. */
int ds_snapshot_reserve_coroutines(struct ds_snapshot *snapshot, uint32_t n);
int ds_snapshot_reserve_sessions(struct ds_snapshot *snapshot, uint32_t n);
void ds_snapshot_coroutine_changed(ds_coroutine *coroutine);
void ds_snapshot_session_changed(ds_sched_session *session);
/* Removes a coroutine (or session) from the arrays and lists at once. A session's coroutines must be removed before
 * it. */
void ds_snapshot_forget_coroutine(ds_coroutine *coroutine);
void ds_snapshot_forget_session(ds_sched_session *session);
/* Rewrites the views of coroutines and sessions that changed. */
void ds_snapshot_refresh(ds_sched *sched);
/* The coroutine with this id; NULL if it has no work or does not exist. Valid from a refresh until the set of
 * coroutines in the snapshot changes. */
ds_coroutine *ds_snapshot_find(const struct ds_snapshot *snapshot, uint64_t id);
