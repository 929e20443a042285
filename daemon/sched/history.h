/* SPDX-License-Identifier: Apache-2.0 */
/*
 * History of sessions' requests: where their time went, and which sessions they waited behind
 *
 * A request, here, is a session's run of work (of either class): from its first launch, copy or memset until nothing of
 * the session is left and its client has waited for that. If the client launches again within DS_HISTORY_GAP_NS without
 * having waited, the same request continues; the time between is charged to the host.
 *
 * Every nanosecond of a request is charged to exactly one of enum ds_history_part (proto/trace.h), so the parts add up
 * to it. A session has a cursor: the time before it is charged. When an operation completes, the time from the cursor
 * to its start was waiting, which is divided by its own times (submitted, ready, launched, started). The rest was
 * running, on its rung. A completion that begins before the cursor (on another stream of the same session) turns
 * charged waiting into running, as far back as the last DS_HISTORY_WAITS waits.
 *
 * The session that a wait was behind is found from the last DS_HISTORY_BUSY stretches of work on the device
 * (consecutive operations of one session on one rung are one stretch), and from the work on the device now. The session
 * that was there longest is charged with that part of the wait, then the next one. Before the launch every session
 * counts, because the policy may have given the whole device to it; after the launch, only sessions with overlapping
 * TPCs. Waits shorter than DS_HISTORY_LOOK_NS are not examined: launching takes that long.
 *
 * Cost when nobody reads the history: some additions per operation, and a search through the stretches once per wait of
 * at least DS_HISTORY_LOOK_NS. Memory: 24 KiB per session that has had work. Not guaranteed: the right session if more
 * than DS_HISTORY_BUSY stretches ended during a wait.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "policies/detshare_policy.h"
#include "proto/trace.h"
#include "sched/sched.h"
#include "util/histogram.h"

#define DS_HISTORY_REQUESTS 64u  /* kept per session */
#define DS_HISTORY_BLOCKERS 4u   /* kept per request */
#define DS_HISTORY_RUNGS 4u      /* kept per request */
#define DS_HISTORY_WAITS 32u     /* kept per session */
#define DS_HISTORY_BUSY 64u      /* stretches of work, of all sessions */
#define DS_HISTORY_HOLDS 16u     /* periods of held classes, of all sessions */
#define DS_HISTORY_LOOK_NS 5000u /* shortest wait that is examined */
#define DS_HISTORY_GAP_NS (200 * 1000ULL)
#define DS_HISTORY_SHARE_BITS 27 /* the last second is 8 buckets of 2^27 ns; the newest is incomplete */
#define DS_HISTORY_SHARES 8u
#define DS_HISTORY_WINDOW_NS (10 * 1000000000ULL) /* statistics of requests cover the last one or two of these */

struct ds_history_blocker {
        uint64_t session;
        uint32_t uid, rung; /* rung: where the session was last */
        uint64_t ns;
};

struct ds_history_rung {
        uint32_t rung, n_sms;
        uint64_t run_ns, wait_ns; /* wait for a launch or a start there */
};

struct ds_history_request {
        uint64_t begin_ns, end_ns; /* device time; end of the active request: the time up to which it is known */
        uint64_t ns[_DS_HISTORY_PARTS];
        uint64_t own_ns; /* sum over operations of waiting behind earlier ones of their stream; not included in ns[] */
        uint32_t operations, migrations, loans;
        uint32_t active; /* 1: it has not ended */
        uint32_t n_blockers, n_rungs;
        struct ds_history_blocker blockers[DS_HISTORY_BLOCKERS]; /* longest first; further ones count in ns[] only */
        struct ds_history_rung rungs[DS_HISTORY_RUNGS];
};

/* A session's figures for `detsharectl top`. */
struct ds_history_activity {
        uint64_t session;
        uint32_t uid, class_;
        uint64_t slo_ns;
        uint32_t queued, in_flight, coroutines;
        /* largest rung with work in flight, else the last one used in the last second, else NONE */
        uint32_t rung, rung_sms;
        uint32_t request_active;
        uint32_t share_permille;              /* share of the last second in which work of the session ran */
        uint64_t requests;                    /* requests ended */
        uint64_t window_requests, window_met; /* requests of the window; those within their SLO */
        uint64_t p50_ns, p99_ns, max_ns;      /* latencies of these requests; 0 if there are none */
};

/* Fills in a session's figures. */
void ds_history_activity(ds_sched_session *session, uint64_t now_ns, struct ds_history_activity *ret);
/* Whether the session has a request that is not merely waiting for a possible continuation. */
int ds_history_is_active(const ds_sched_session *session);
/* Copies its last requests, oldest first, the active one last. Returns how many were written. */
size_t ds_history_requests(ds_sched_session *session, uint64_t now_ns, struct ds_history_request *out, size_t n);

/* --- for the scheduler's other files ------------------------------------------------------------------------------ */

struct ds_history_session; /* history of one session */
struct ds_launch_target;
struct ds_slot;

struct ds_history_busy {
        uint64_t session, start_ns, end_ns;
        uint32_t uid, rung;
};

struct ds_history_hold {
        uint64_t begin_ns, end_ns; /* end UINT64_MAX: still held */
        unsigned classes;
};

/* History shared by all sessions. */
struct ds_history {
        struct ds_history_busy busy[DS_HISTORY_BUSY];
        /* count since the start, wrapped to stay small; the newest is at (n_busy - 1) % DS_HISTORY_BUSY */
        uint32_t n_busy;
        struct ds_history_hold holds[DS_HISTORY_HOLDS];
        uint32_t n_holds; /* as n_busy */
};

/* Work is being submitted; must be called before it counts as queued. */
void ds_history_submit(ds_sched_session *session, uint64_t now_ns);
/* The head is about to be launched; must be called before it leaves the queue and any count changes. Fills in the
 * slot's flags. */
void ds_history_launch(
        ds_coroutine *coroutine, struct ds_op *op, struct ds_slot *slot, const struct ds_launch_target *target);
/* An operation's times are known; must be called after it stopped counting as in flight. */
void ds_history_complete(ds_coroutine *coroutine, const struct ds_op *op, const struct ds_slot *slot);
/* The session has no work left; end_ns: end of the operation reported last. */
void ds_history_idle(ds_sched_session *session, uint64_t end_ns);
/* The session's client has waited for all of its work. */
void ds_history_synchronised(ds_sched_session *session);
void ds_history_held(ds_sched *sched, unsigned classes, uint64_t now_ns);
void ds_history_forget(ds_sched_session *session);
