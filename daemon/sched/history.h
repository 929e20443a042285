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

#define DS_HISTORY_REQUESTS 64u  /* requests kept per session */
#define DS_HISTORY_BLOCKERS 4u   /* sessions named per request that it waited behind */
#define DS_HISTORY_RUNGS 4u      /* rungs kept per request */
#define DS_HISTORY_WAITS 32u     /* waits kept per session, which later completions can turn into running */
#define DS_HISTORY_BUSY 64u      /* stretches of work kept, of all sessions together */
#define DS_HISTORY_HOLDS 16u     /* periods with held classes that are kept, for all sessions together */
#define DS_HISTORY_LOOK_NS 5000u /* shortest wait for which the causing session is determined */
#define DS_HISTORY_GAP_NS (200 * 1000ULL)
/* log2 of a bucket in ns: the last second is 8 buckets of 2^27 ns; the newest bucket is incomplete */
#define DS_HISTORY_SHARE_BITS 27
#define DS_HISTORY_SHARES 8u
/* length of a window, ns; statistics of requests cover the last one or two windows */
#define DS_HISTORY_WINDOW_NS (10 * 1000000000ULL)

struct ds_history_blocker {
        uint64_t session;
        uint32_t uid, rung; /* rung: where that session's work was last */
        uint64_t ns;
};

struct ds_history_rung {
        uint32_t rung, n_sms;
        uint64_t run_ns, wait_ns; /* wait_ns: waiting for a launch or a start on this rung */
};

struct ds_history_request {
        /* device time; the end of a request that is still active is the time up to which it is known */
        uint64_t begin_ns, end_ns;
        uint64_t ns[_DS_HISTORY_PARTS];
        /* time that operations waited behind earlier ones of their own stream, summed over operations; not included
         * in ns[] */
        uint64_t own_ns;
        uint32_t operations, migrations, loans;
        uint32_t active; /* 1: the request has not ended */
        uint32_t n_blockers, n_rungs;
        /* sorted, longest wait first; sessions beyond the fourth count in ns[] only */
        struct ds_history_blocker blockers[DS_HISTORY_BLOCKERS];
        struct ds_history_rung rungs[DS_HISTORY_RUNGS];
};

/* A session's figures for `detsharectl top`. */
struct ds_history_activity {
        uint64_t session;
        uint32_t uid, class_;
        uint32_t queued, in_flight, coroutines;
        /* the largest rung with work in flight; else the rung used last in the last second; else DETSHARE_RUNG_NONE */
        uint32_t rung, rung_sms;
        uint32_t request_active;
        uint32_t share_permille; /* share of the last second in which work of the session ran */
        uint64_t requests;       /* number of requests that have ended */
        /* requests in the statistics' windows; those that had an objective since it was last stated; those of them that
         * met it */
        uint64_t window_requests, window_judged, window_met;
        uint64_t p50_ns, p99_ns, max_ns; /* latencies of the requests in these windows; 0 if there are none */
};

/* Fills in a session's figures. */
void ds_history_activity(ds_sched_session *session, uint64_t now_ns, struct ds_history_activity *ret);
/* Whether the session has a request with work. False while a request only waits for a possible continuation. */
int ds_history_is_active(const ds_sched_session *session);
/* Copies the session's last requests, oldest first, the active one last. Returns the number of copied requests. */
size_t ds_history_requests(ds_sched_session *session, uint64_t now_ns, struct ds_history_request *out, size_t n);

/* --- for the scheduler's other files ------------------------------------------------------------------------------ */

struct ds_history_session; /* the history of one session */
struct ds_launch_target;
struct ds_slot;

struct ds_history_busy {
        uint64_t session, start_ns, end_ns;
        uint32_t uid, rung;
};

struct ds_history_hold {
        uint64_t begin_ns, end_ns; /* end UINT64_MAX: the classes are still held */
        unsigned classes;
};

/* History shared by all sessions. */
struct ds_history {
        struct ds_history_busy busy[DS_HISTORY_BUSY];
        /* number of stretches since the start, wrapped to stay small; the newest is at (n_busy - 1) %
         * DS_HISTORY_BUSY */
        uint32_t n_busy;
        struct ds_history_hold holds[DS_HISTORY_HOLDS];
        uint32_t n_holds; /* number of periods since the start, wrapped like n_busy */
};

/* Records that work is submitted. The caller does so before the work counts as queued. */
void ds_history_submit(ds_sched_session *session, uint64_t now_ns);
/* Records that the head is launched, and fills in the slot's flags. The caller does so before the head leaves the
 * queue and any count changes. */
void ds_history_launch(
        ds_coroutine *coroutine, struct ds_op *op, struct ds_slot *slot, const struct ds_launch_target *target);
/* Records the times of an operation that has completed. The caller does so after the operation stopped counting as
 * in flight. */
void ds_history_complete(ds_coroutine *coroutine, const struct ds_op *op, const struct ds_slot *slot);
/* Records that the session has no work left. end_ns: end of the operation reported last. */
void ds_history_idle(ds_sched_session *session, uint64_t end_ns);
/* Records that the session's client has waited for all of its work. */
void ds_history_synchronised(ds_sched_session *session);
void ds_history_held(ds_sched *sched, unsigned classes, uint64_t now_ns);
void ds_history_objective_changed(ds_sched_session *session); /* earlier requests are no longer judged */
void ds_history_forget(ds_sched_session *session);
