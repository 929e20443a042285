/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quiesces: moments without work on the device, for calls that stop it (quiesce.c)
 */
#pragma once

#include <stdint.h>

#include "worker/stop_cost.h"
#include "worker/worker.h"

struct dsw_session;

enum dsw_quiesce_state {
        DSW_QUIESCE_OPEN,
        DSW_QUIESCE_DRAINING, /* the worker holds back new BE work, and BE work in flight ends */
        DSW_QUIESCE_GAP,      /* no BE work in flight; LS continues */
        DSW_QUIESCE_EMPTYING, /* the worker holds back new work of both classes */
        _DSW_QUIESCE_STATE_MAX,
};

struct dsw_quiesce {
        enum dsw_quiesce_state state;
        int running;                 /* nothing is in flight: calls that stop the device are allowed */
        int beside_ls;               /* LS was active when the stop began */
        int for_be;                  /* in this stop, a call of a BE session or background work was done */
        uint32_t n_calls;            /* calls made in this stop */
        unsigned call_class;         /* class (stop_cost.h) of the latest of them */
        uint64_t call_wall_ns;       /* real time at which it began; 0: it has ended */
        int limit;                   /* highest risk of a further call in this stop, permille */
        uint64_t bound_ns;           /* real time from the stop's begin within which BE's calls must begin */
        uint64_t empty_ns, run_ns;   /* device time since which LS is held; since which the device is empty */
        uint64_t pause_ns;           /* interval after which the next stop for BE may come, whatever it costs LS */
        struct dsw_session *waiting; /* sessions that wait for a quiesce, in order of arrival */
        uint64_t drained_ns;         /* device time at which the last BE work ended */
        uint64_t last_ns;            /* device time at which the last stop for BE ended */
        uint64_t held_wall_ns, run_wall_ns;
        uint64_t chores_wall_ns;  /* real time since deferred background work exists; 0 = none */
        int chores_go_on;         /* the last stop ended with background work left */
        uint64_t count, total_ns; /* stops so far; their real time from holding BE to releasing it */
        uint64_t stop_ns;         /* part of total_ns for which LS was held */
        struct dsw_stop_cost cost;
};

/* Whether a call marked [stops] may be made for this session now. If not, the caller must do nothing yet: the next
 * quiesce starts the session's queued requests again and continues its close or reset. */
int dsw_quiesce_may(struct dsw_session *session);
/* The same, for a call of which more is known: its kind, and the size of what it makes. */
int dsw_quiesce_may_do(struct dsw_session *session, enum dsw_stop_kind kind, uint64_t bytes);
int dsw_quiesce_runs(const ds_worker *worker); /* whether such calls are allowed now; does not request a quiesce */
void dsw_quiesce_forget(struct dsw_session *session);
void dsw_quiesce_chore(ds_worker *worker);             /* requests that deferred background work is done */
void dsw_quiesce_ls_begins(ds_worker *worker);         /* LS had no work until now */
int dsw_quiesce_step(ds_worker *worker);               /* returns 1 if the state advanced */
uint64_t dsw_quiesce_next_ns(const ds_worker *worker); /* device time of the next step that depends on time alone */
uint64_t dsw_quiesce_wait_ns(const ds_worker *worker); /* real time until the next such step */
