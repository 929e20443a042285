/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Session: one client process as the scheduler sees it
 *
 * It groups coroutines for what concerns all of them: the joins of the legacy default stream, suspension, cancellation,
 * and the request. Suspension always applies to the whole session: a suspended stream that another one waits for would
 * hang both. The request is the unit in which an LS client's work is protected. It begins with the first launch, copy
 * or memset after the session had no work left, and ends when it has none left again.
 */
#pragma once

#include <stdint.h>

#include "sched/event.h"
#include "sched/sched.h"

struct ds_sched_session {
        ds_sched *sched;
        ds_sched_session *prev, *next;
        struct ds_sched_session_config config;
        struct ds_history_session *history; /* NULL until the session has had work */
        struct ds_objective *objective;     /* NULL until an LS session that states one has had work */
        ds_coroutine *coroutines;
        uint32_t n_coroutines;
        ds_coroutine *legacy;
        ds_coroutine *join_waiters; /* blocking coroutines whose head waits for the legacy one */
        uint64_t legacy_submitted, legacy_done, blocking_submitted, blocking_done;

        uint32_t n_ops, n_in_flight;
        uint32_t n_active; /* number of coroutines with work */
        uint8_t request_active, suspended, cancelled, dirty;
        uint8_t synchronised; /* 1: the session's client has waited for all that it submitted */
        int32_t cancel_status;
        uint32_t phase; /* enum detshare_phase of operations submitted now */
        uint64_t memory_used, memory_cap;
        uint64_t request_begin_ns;
        uint64_t arrival_ns; /* arrival that the client stated last, ns; 0: never */
        uint64_t launches, completed, errors, requests, device_ns, wait_ns, kills, evictions, blocks;

        struct ds_sched_event changed_event, begin_event, end_event, synchronised_event;
        uint32_t events_pending;
        ds_sched_session *dirty_prev, *dirty_next;
        uint32_t view; /* index in the snapshot, or DS_SNAPSHOT_NONE */
};

/* Records that work was submitted: begins a request if the session has none. */
void ds_sched_session_begin(ds_sched_session *session, uint64_t now_ns);
/* Called when operations have ended: ends the request if none is left. */
void ds_sched_session_check_end(ds_sched_session *session);
/* Whether the class of the session is held (ds_sched_hold). */
int ds_sched_session_held(const ds_sched_session *session);
/* Sets the policy's cap on the session's device memory; UINT64_MAX: none. */
void ds_sched_session_cap(ds_sched_session *session, uint64_t bytes);
/* Stops (suspend = 1) or continues (0) launching work of the session. */
void ds_sched_session_suspend(ds_sched_session *session, int suspend);
