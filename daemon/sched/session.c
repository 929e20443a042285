/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: creation, requests, suspension, cancellation
 */
#include "sched/session.h"

#include <assert.h>
#include <string.h>
#include <utlist.h>

#include "sched/internal.h"
#include "sched/let_go.h"
#include "util/alloc.h"
#include "util/error.h"

int ds_sched_session_new(ds_sched *sched, const struct ds_sched_session_config *config, ds_sched_session **ret)
{
        ds_sched_session *session;
        int r;

        r = ds_snapshot_reserve_sessions(&sched->snapshot, sched->n_sessions + 1);
        if (r)
                return ds_error_trace(r);
        session = ds_alloc0(1, sizeof(*session));
        if (!session)
                return ds_error_origin(-ENOMEM);
        session->sched = sched;
        session->config = *config;
        session->view = DS_SNAPSHOT_NONE;
        session->changed_event = (struct ds_sched_event){.kind = DETSHARE_EVENT_SESSION, .session = session};
        session->begin_event = (struct ds_sched_event){.kind = DETSHARE_EVENT_REQUEST_BEGIN, .session = session};
        session->end_event = (struct ds_sched_event){.kind = DETSHARE_EVENT_REQUEST_END, .session = session};
        session->synchronised_event = (struct ds_sched_event){.kind = DETSHARE_EVENT_SYNCHRONISED, .session = session};
        session->memory_cap = UINT64_MAX;
        DL_APPEND(sched->sessions, session);
        sched->n_sessions++;
        sched->n_class_sessions[config->class_]++;
        ds_graph_class_changed(sched);
        ds_trace_session(session);
        ds_sched_event_post(sched, &session->changed_event);
        *ret = session;
        return 0;
}

/* Before the session is freed: removes it from the pending events of operations that have ended, and from the event
 * that is being reported. */
static void session_cancel_events(ds_sched_session *session)
{
        ds_sched *sched = session->sched;
        struct ds_sched_event *event;

        ds_sched_event_cancel(sched, &session->changed_event);
        ds_sched_event_cancel(sched, &session->begin_event);
        ds_sched_event_cancel(sched, &session->end_event);
        ds_sched_event_cancel(sched, &session->synchronised_event);
        for (event = sched->events; event; event = event->next) {
                if (event->session != session)
                        continue;
                event->session = NULL;
                session->events_pending--;
        }
        assert(!session->events_pending);
}

ds_sched_session *ds_sched_session_free(ds_sched_session *session)
{
        ds_sched *sched;
        ds_coroutine *coroutine, *next;

        if (!session)
                return NULL;
        sched = session->sched;
        assert(!session->n_in_flight);
        for (coroutine = session->coroutines; coroutine; coroutine = next) {
                next = coroutine->next;
                ds_coroutine_detach(coroutine);
                coroutine->released = 2;
                ds_coroutine_unref(coroutine);
        }
        assert(!session->n_coroutines && !session->coroutines && !session->join_waiters);
        session_cancel_events(session);
        ds_snapshot_forget_session(session);
        ds_objective_forget(session);
        ds_history_forget(session);
        DL_DELETE(sched->sessions, session);
        sched->n_sessions--;
        sched->n_class_sessions[session->config.class_]--;
        ds_sched_event_post(sched, &sched->gone_event);
        return ds_free(session);
}

int ds_sched_session_idle(const ds_sched_session *session)
{
        return !session->n_ops && !session->n_in_flight;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

/* Posts that a request begins or ends. A pending begin and a pending end cancel each other, so the policy always
 * sees them alternate. */
static void request_event(ds_sched_session *session, struct ds_sched_event *event, struct ds_sched_event *opposite)
{
        if (event->pending && opposite->pending) {
                ds_sched_event_cancel(session->sched, opposite);
                return;
        }
        ds_sched_event_post(session->sched, event);
}

static void request_begin(ds_sched_session *session, uint64_t now_ns)
{
        session->request_active = 1;
        session->request_begin_ns = now_ns;
        session->requests++;
        request_event(session, &session->begin_event, &session->end_event);
        ds_snapshot_session_changed(session);
}

static void request_end(ds_sched_session *session)
{
        session->request_active = 0;
        request_event(session, &session->end_event, &session->begin_event);
        ds_snapshot_session_changed(session);
}

void ds_sched_session_begin(ds_sched_session *session, uint64_t now_ns)
{
        if (!session->request_active && session->config.class_ == DETSHARE_CLASS_LS)
                request_begin(session, now_ns);
}

void ds_sched_session_check_end(ds_sched_session *session)
{
        if (session->request_active && !session->n_ops)
                request_end(session);
}

/* --- changes from outside ----------------------------------------------------------------------------------------- */

static void session_coroutines_changed(ds_sched_session *session)
{
        ds_coroutine *coroutine;

        for (coroutine = session->coroutines; coroutine; coroutine = coroutine->next)
                ds_coroutine_changed(coroutine);
}

static void session_move_class(ds_sched_session *session, enum detshare_class class_)
{
        ds_sched *sched = session->sched;

        sched->n_class_ops[session->config.class_] -= session->n_ops;
        ds_sched_class_in_flight(sched, session->config.class_, -(int32_t)session->n_in_flight);
        sched->n_class_sessions[session->config.class_]--;
        session->config.class_ = class_;
        sched->n_class_sessions[class_]++;
        sched->n_class_ops[class_] += session->n_ops;
        ds_sched_class_in_flight(sched, class_, (int32_t)session->n_in_flight);
        ds_graph_class_changed(sched);
}

void ds_sched_session_set(ds_sched_session *session, enum detshare_class class_, const struct ds_slo *slo,
        uint32_t sm_percent, uint64_t now_ns)
{
        static const struct ds_slo none;
        uint64_t now = ds_sched_now(session->sched, now_ns);

        if (class_ != session->config.class_ || memcmp(&session->config.slo, slo ? slo : &none, sizeof(none))) {
                ds_objective_changed(session);
                ds_history_objective_changed(session);
        }
        session_move_class(session, class_);
        session->config.slo = slo ? *slo : none;
        session->config.sm_percent = sm_percent;
        if (session->n_active)
                ds_sched_session_begin(session, now);
        if (session->request_active && class_ != DETSHARE_CLASS_LS)
                request_end(session);
        session_coroutines_changed(session);
        ds_snapshot_session_changed(session);
        ds_trace_session(session);
        ds_sched_event_post(session->sched, &session->changed_event);
}

void ds_sched_session_share(ds_sched_session *session, uint32_t gpu_request, uint32_t gpu_limit, uint64_t now_ns)
{
        ds_sched_now(session->sched, now_ns);
        session->config.gpu_request = gpu_request;
        session->config.gpu_limit = gpu_limit;
        ds_sched_event_post(session->sched, &session->changed_event);
}

void ds_sched_session_phase(ds_sched_session *session, uint32_t phase, uint64_t now_ns)
{
        ds_sched_now(session->sched, now_ns);
        if (phase == session->phase)
                return;
        session->phase = phase;
        ds_sched_event_post(session->sched, &session->changed_event);
}

void ds_sched_session_arrival(ds_sched_session *session, uint64_t arrival_ns, uint64_t now_ns)
{
        ds_sched_now(session->sched, now_ns);
        session->arrival_ns = arrival_ns;
}

void ds_sched_session_explain(const ds_sched_session *session, char *text, uint32_t size)
{
        ds_host_explain(&session->sched->host, session->config.id, text, size);
}

void ds_sched_session_objective(const ds_sched_session *session, struct ds_sched_objective *ret)
{
        ds_objective_activity(session, ret);
}

void ds_sched_session_synchronised(ds_sched_session *session, uint64_t now_ns)
{
        ds_sched_now(session->sched, now_ns);
        if (session->n_ops || session->cancelled || session->synchronised)
                return;
        session->synchronised = 1;
        ds_history_synchronised(session);
        ds_sched_event_post(session->sched, &session->synchronised_event);
}

void ds_sched_session_memory(ds_sched_session *session, uint64_t used, uint64_t limit, uint64_t now_ns)
{
        ds_sched_now(session->sched, now_ns);
        session->config.memory_limit = limit;
        session->memory_used = used;
        ds_snapshot_session_changed(session);
}

void ds_sched_memory(ds_sched *sched, uint64_t total, uint64_t free)
{
        sched->snapshot.memory_total = total;
        sched->snapshot.memory_free = free;
}

void ds_sched_session_cap(ds_sched_session *session, uint64_t bytes)
{
        ds_sched *sched = session->sched;

        if (session->memory_cap == bytes)
                return;
        session->memory_cap = bytes;
        sched->memory_cap(sched->user, session->config.id, bytes);
}

/* Posts an event to the policy for each coroutine that could be launched. */
static void session_offer(ds_sched_session *session)
{
        ds_coroutine *coroutine;

        for (coroutine = session->coroutines; coroutine; coroutine = coroutine->next) {
                if (coroutine->runnable)
                        ds_sched_event_post(session->sched, &coroutine->submit_event);
        }
}

int ds_sched_session_held(const ds_sched_session *session)
{
        return (session->sched->held >> session->config.class_ & 1) != 0;
}

/* Evicts the session's operations in flight, so that the device empties sooner. */
static void session_evict(ds_sched_session *session)
{
        ds_coroutine *coroutine;

        for (coroutine = session->coroutines; coroutine; coroutine = coroutine->next)
                ds_launch_evict_quietly(coroutine);
}

/* Lets the session's slices on the device run to their end, and launches no more of them. */
static void session_stop_slices(ds_sched_session *session)
{
        ds_coroutine *coroutine;

        for (coroutine = session->coroutines; coroutine; coroutine = coroutine->next)
                if (coroutine->slicing)
                        ds_launch_evict_quietly(coroutine);
}

void ds_sched_hold(ds_sched *sched, unsigned classes, uint64_t now_ns)
{
        ds_sched_session *session;
        unsigned before = sched->held;

        ds_history_held(sched, classes, ds_sched_now(sched, now_ns));
        sched->held = classes;
        if (before != classes)
                /* work that waits during a hold must not count as a stall of the policy */
                sched->host.stall_ns = UINT64_MAX;
        for (session = sched->sessions; session && before != classes; session = session->next) {
                if (!((before ^ classes) >> session->config.class_ & 1))
                        continue;
                session_coroutines_changed(session);
                if (ds_sched_session_held(session))
                        session_evict(session);
                else if (!session->suspended)
                        session_offer(session);
        }
}

void ds_sched_load(const ds_sched *sched, enum detshare_class class_, uint32_t *ret_in_flight, uint32_t *ret_all)
{
        *ret_in_flight = sched->n_class_in_flight[class_];
        *ret_all = sched->n_class_ops[class_];
}

void ds_sched_session_suspend(ds_sched_session *session, int suspend)
{
        assert(!session->cancelled);
        if (session->suspended == (suspend != 0))
                return;
        session->suspended = suspend != 0;
        session_coroutines_changed(session);
        ds_snapshot_session_changed(session);
        if (suspend)
                session_stop_slices(session);
        else
                session_offer(session);
}

void ds_sched_session_cancel(ds_sched_session *session, int status, uint64_t now_ns)
{
        ds_sched *sched = session->sched;
        ds_coroutine *coroutine;

        assert(status > 0);
        ds_sched_now(sched, now_ns);
        if (session->cancelled)
                return;
        session->cancelled = 1;
        session->cancel_status = status;
        session->suspended = 0;
        for (coroutine = session->coroutines; coroutine; coroutine = coroutine->next) {
                ds_coroutine_fault(coroutine, status);
                ds_launch_evict_quietly(coroutine);
                ds_coroutine_changed(coroutine);
        }
        ds_snapshot_session_changed(session);
        if (session->n_in_flight)
                sched->ops->abort(sched->device, session->config.space);
        ds_sched_settle(sched);
}

void ds_sched_session_stats(const ds_sched_session *session, struct ds_sched_session_stats *stats)
{
        *stats = (struct ds_sched_session_stats){
                .launches = session->launches,
                .completed = session->completed,
                .errors = session->errors,
                .requests = session->requests,
                .device_ns = session->device_ns,
                .wait_ns = session->wait_ns,
                .kills = session->kills,
                .evictions = session->evictions,
                .blocks = session->blocks,
                .queued = session->n_ops - session->n_in_flight,
                .in_flight = session->n_in_flight,
                .coroutines = session->n_coroutines,
                .request_active = session->request_active,
        };
}
