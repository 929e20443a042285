/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maintains the snapshot's arrays
 *
 * A coroutine that gains or loses work is only marked. It enters or leaves the arrays before the next call of the
 * policy, so one that empties and fills in between costs nothing.
 */
#include "sched/snapshot.h"

#include <assert.h>
#include <string.h>
#include <utlist.h>

#include "sched/internal.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

void ds_snapshot_deinit(struct ds_snapshot *snapshot)
{
        ds_free(snapshot->coroutine_views);
        ds_free(snapshot->coroutines);
        ds_free(snapshot->session_views);
        ds_free(snapshot->sessions);
        *snapshot = (struct ds_snapshot){0};
}

static int snapshot_grow(void **views, size_t view_size, void **objects, uint32_t *reserved, uint32_t n)
{
        uint32_t target = DS_MAX(n, *reserved * 2);
        void *grown;

        if (n <= *reserved)
                return 0;
        grown = ds_realloc(*views, target, view_size);
        if (!grown)
                return ds_error_origin(-ENOMEM);
        *views = grown;
        grown = ds_realloc(*objects, target, sizeof(void *));
        if (!grown)
                return ds_error_origin(-ENOMEM);
        *objects = grown;
        *reserved = target;
        return 0;
}

int ds_snapshot_reserve_coroutines(struct ds_snapshot *snapshot, uint32_t n)
{
        void *views = snapshot->coroutine_views, *objects = snapshot->coroutines;
        int r;

        r = snapshot_grow(&views, sizeof(*snapshot->coroutine_views), &objects, &snapshot->coroutines_reserved, n);
        snapshot->coroutine_views = views;
        snapshot->coroutines = objects;
        return ds_error_trace(r);
}

int ds_snapshot_reserve_sessions(struct ds_snapshot *snapshot, uint32_t n)
{
        void *views = snapshot->session_views, *objects = snapshot->sessions;
        int r;

        r = snapshot_grow(&views, sizeof(*snapshot->session_views), &objects, &snapshot->sessions_reserved, n);
        snapshot->session_views = views;
        snapshot->sessions = objects;
        return ds_error_trace(r);
}

void ds_snapshot_coroutine_changed(ds_coroutine *coroutine)
{
        if (coroutine->dirty)
                return;
        coroutine->dirty = 1;
        DL_APPEND2(coroutine->sched->snapshot.dirty_coroutines, coroutine, dirty_prev, dirty_next);
}

void ds_snapshot_session_changed(ds_sched_session *session)
{
        if (session->dirty)
                return;
        session->dirty = 1;
        DL_APPEND2(session->sched->snapshot.dirty_sessions, session, dirty_prev, dirty_next);
}

/* --- coroutines in the snapshot: sorted by id, ascending ---------------------------------------------------------- */

static uint32_t coroutine_position(const struct ds_snapshot *snapshot, uint64_t id)
{
        uint32_t low = 0, high = snapshot->n_coroutines;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (snapshot->coroutines[middle]->id < id)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

ds_coroutine *ds_snapshot_find(const struct ds_snapshot *snapshot, uint64_t id)
{
        uint32_t at = coroutine_position(snapshot, id);

        if (at == snapshot->n_coroutines || snapshot->coroutines[at]->id != id)
                return NULL;
        return snapshot->coroutines[at];
}

static void coroutines_move(struct ds_snapshot *snapshot, uint32_t to, uint32_t from, uint32_t n)
{
        memmove(snapshot->coroutines + to, snapshot->coroutines + from, n * sizeof(snapshot->coroutines[0]));
        memmove(snapshot->coroutine_views + to, snapshot->coroutine_views + from,
                n * sizeof(snapshot->coroutine_views[0]));
        for (uint32_t i = to; i < to + n; i++)
                snapshot->coroutines[i]->view = i;
}

static void coroutine_list(struct ds_snapshot *snapshot, ds_coroutine *coroutine)
{
        uint32_t at = coroutine_position(snapshot, coroutine->id);

        assert(snapshot->n_coroutines < snapshot->coroutines_reserved);
        coroutines_move(snapshot, at + 1, at, snapshot->n_coroutines - at);
        snapshot->n_coroutines++;
        snapshot->coroutines[at] = coroutine;
        coroutine->view = at;
}

static void coroutine_unlist(struct ds_snapshot *snapshot, ds_coroutine *coroutine)
{
        uint32_t at = coroutine->view;

        assert(at < snapshot->n_coroutines && snapshot->coroutines[at] == coroutine);
        snapshot->n_coroutines--;
        coroutines_move(snapshot, at, at + 1, snapshot->n_coroutines - at);
        coroutine->view = DS_SNAPSHOT_NONE;
}

_Static_assert((uint32_t)DS_COROUTINE_FAULTED == (uint32_t)DETSHARE_COROUTINE_FAULTED &&
                       _DS_COROUTINE_STATE_MAX == DETSHARE_COROUTINE_FAULTED + 1,
        "policies see the states under the same numbers");

static void coroutine_write(ds_sched *sched, ds_coroutine *coroutine)
{
        struct detshare_coroutine_view *view = &sched->snapshot.coroutine_views[coroutine->view];
        const ds_sched_session *session = coroutine->session;

        *view = (struct detshare_coroutine_view){
                .id = coroutine->id,
                .session = session->view,
                .class_ = session->config.class_,
                .priority = coroutine->priority,
                .queued = coroutine->n_waiting_work,
                .ready = coroutine->runnable && !session->suspended && !ds_sched_session_held(session),
                .in_flight = coroutine->n_in_flight,
                .rung = coroutine->n_in_flight ? coroutine->rung : DETSHARE_RUNG_NONE,
                .in_flight_sms = (uint32_t)DS_MIN(coroutine->in_flight_sms, sched->info->n_sms),
                .in_flight_expected_ns = coroutine->in_flight_expected_ns,
                .in_flight_since_ns = coroutine->n_in_flight ? coroutine->first->launched_ns : 0,
                .head_since_ns = coroutine->head_since_ns,
                .state = (uint32_t)coroutine->state,
                .n_ahead = coroutine->ahead.n,
                .evictable = coroutine->n_let_go && !coroutine->killing,
                .evict_ns = coroutine->let_go_ns + coroutine->in_flight_expected_ns - coroutine->let_go_expected_ns,
                .ahead = ds_ahead_views(coroutine),
        };
}

/* --- sessions in the snapshot: the last one moves into a gap ------------------------------------------------------ */

static int session_is_wanted(const ds_sched_session *session)
{
        return session->n_active || session->request_active || session->suspended || session->events_pending;
}

static void session_place(struct ds_snapshot *snapshot, ds_sched_session *session, uint32_t at)
{
        ds_coroutine *coroutine;

        snapshot->sessions[at] = session;
        session->view = at;
        for (coroutine = session->coroutines; coroutine; coroutine = coroutine->next) {
                if (coroutine->active)
                        ds_snapshot_coroutine_changed(coroutine);
        }
}

static void session_unlist(struct ds_snapshot *snapshot, ds_sched_session *session)
{
        uint32_t at = session->view;
        uint32_t last = snapshot->n_sessions - 1;

        assert(at < snapshot->n_sessions && snapshot->sessions[at] == session);
        snapshot->n_sessions--;
        session->view = DS_SNAPSHOT_NONE;
        if (at == last)
                return;
        snapshot->session_views[at] = snapshot->session_views[last];
        session_place(snapshot, snapshot->sessions[last], at);
}

static void session_write(struct ds_snapshot *snapshot, const ds_sched_session *session)
{
        const struct ds_sched_session_config *config = &session->config;
        struct detshare_session_view *view = &snapshot->session_views[session->view];
        uint64_t deadline = UINT64_MAX;
        uint32_t counted;
        const uint64_t slo_ns = ds_objective_ns(session, &counted);

        if (session->request_active && slo_ns && slo_ns < UINT64_MAX - session->request_begin_ns)
                deadline = session->request_begin_ns + slo_ns;
        *view = (struct detshare_session_view){
                .id = config->id,
                .uid = config->uid,
                .class_ = config->class_,
                .slo_ns = slo_ns,
                .counted = counted,
                .ttft_ns = ds_objective_in_force(session, DS_SLO_TTFT),
                .tpot_ns = ds_objective_in_force(session, DS_SLO_TPOT),
                .request_active = session->request_active,
                .suspended = session->suspended,
                .request_begin_ns = session->request_begin_ns,
                .deadline_ns = deadline,
                .device_ns = session->device_ns,
                .sm_percent = config->sm_percent,
                .in_flight = session->n_in_flight,
                .synchronised = session->synchronised,
                .phase = session->phase,
                .gpu_request = config->gpu_request,
                .gpu_limit = config->gpu_limit,
                .memory_used = session->memory_used,
                .memory_limit = config->memory_limit,
        };
}

static void session_refresh(struct ds_snapshot *snapshot, ds_sched_session *session)
{
        int wanted = session_is_wanted(session);

        if (!wanted) {
                if (session->view != DS_SNAPSHOT_NONE)
                        session_unlist(snapshot, session);
                return;
        }
        if (session->view == DS_SNAPSHOT_NONE) {
                assert(snapshot->n_sessions < snapshot->sessions_reserved);
                session_place(snapshot, session, snapshot->n_sessions++);
        }
        session_write(snapshot, session);
}

/* --- coroutines and sessions -------------------------------------------------------------------------------------- */

void ds_snapshot_forget_coroutine(ds_coroutine *coroutine)
{
        struct ds_snapshot *snapshot = &coroutine->sched->snapshot;

        if (coroutine->active)
                coroutine->session->n_active--;
        coroutine->active = 0;
        if (coroutine->view != DS_SNAPSHOT_NONE)
                coroutine_unlist(snapshot, coroutine);
        if (coroutine->dirty)
                DL_DELETE2(snapshot->dirty_coroutines, coroutine, dirty_prev, dirty_next);
        coroutine->dirty = 0;
}

void ds_snapshot_forget_session(ds_sched_session *session)
{
        struct ds_snapshot *snapshot = &session->sched->snapshot;

        if (session->view != DS_SNAPSHOT_NONE)
                session_unlist(snapshot, session);
        if (session->dirty)
                DL_DELETE2(snapshot->dirty_sessions, session, dirty_prev, dirty_next);
        session->dirty = 0;
}

/* Marks views to be rewritten if the points that they refer to now belong to another kernel. */
static void snapshot_points_taken(ds_sched *sched)
{
        struct ds_snapshot *snapshot = &sched->snapshot;
        uint64_t taken = ds_kstat_taken(sched->kstat);

        if (taken == snapshot->points_taken)
                return;
        snapshot->points_taken = taken;
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++)
                ds_snapshot_coroutine_changed(snapshot->coroutines[i]);
}

void ds_snapshot_refresh(ds_sched *sched)
{
        struct ds_snapshot *snapshot = &sched->snapshot;
        ds_sched_session *session;
        ds_coroutine *coroutine;

        snapshot_points_taken(sched);
        /* sessions come first: one that moves makes its coroutines write its new index */
        while ((session = snapshot->dirty_sessions)) {
                DL_DELETE2(snapshot->dirty_sessions, session, dirty_prev, dirty_next);
                session->dirty = 0;
                session_refresh(snapshot, session);
        }
        while ((coroutine = snapshot->dirty_coroutines)) {
                DL_DELETE2(snapshot->dirty_coroutines, coroutine, dirty_prev, dirty_next);
                coroutine->dirty = 0;
                if (coroutine->active && coroutine->view == DS_SNAPSHOT_NONE)
                        coroutine_list(snapshot, coroutine);
                else if (!coroutine->active && coroutine->view != DS_SNAPSHOT_NONE)
                        coroutine_unlist(snapshot, coroutine);
                if (coroutine->active)
                        coroutine_write(sched, coroutine);
        }
}
