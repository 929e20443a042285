/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened to sessions' requests: where their time went, and behind whom
 *
 * A request, here, is a session's run of work (of either class): from its first launch, copy or memset until nothing of
 * the session is left and its client has waited for that. A client that launches again within HISTORY_GAP_NS without
 * having waited goes on with the same request; the time between is the host's.
 *
 * Every nanosecond of a request is charged to exactly one of enum ds_history_part (proto/trace.h), so the parts add up
 * to it. A session has a cursor: what lies before it is charged. When an operation's completion comes, the time from
 * the cursor to its start was waiting, which its own times (submitted, ready, launched, started) split, and the rest
 * was running, for the rung that it ran on. A completion that begins before the cursor (another stream's, of the same
 * session) turns what was charged as waiting into running, as far back as the last DS_HISTORY_WAITS pieces.
 *
 * Whom a wait was behind is answered from the last DS_HISTORY_BUSY stretches of work on the device (a session's
 * operations on one rung, one after the other, are one stretch) and from what is on the device now: the session that
 * was there longest meanwhile gets as much of the wait as it was there for, then the next. Before the launch everybody
 * counts, since the policy may have given the whole device to them; behind it only whose TPCs overlap. Waits shorter
 * than DS_HISTORY_LOOK_NS are not looked into: they are what launching costs.
 *
 * What this costs when nobody looks: some additions per operation; a search through those few stretches once per wait
 * of at least DS_HISTORY_LOOK_NS. Memory: 24 KiB per session that has had work, nothing for others. What is not
 * promised: that a wait is charged to the right one when more than DS_HISTORY_BUSY stretches ended during it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "policies/detshare_policy.h"
#include "proto/trace.h"
#include "sched/sched.h"
#include "util/histogram.h"

#define DS_HISTORY_REQUESTS 64u  /* of a session */
#define DS_HISTORY_BLOCKERS 4u   /* of a request */
#define DS_HISTORY_RUNGS 4u      /* of a request */
#define DS_HISTORY_WAITS 32u     /* of a session */
#define DS_HISTORY_BUSY 64u      /* of all */
#define DS_HISTORY_HOLDS 16u     /* of all */
#define DS_HISTORY_LOOK_NS 5000u /* a wait that is looked into */
#define DS_HISTORY_GAP_NS (200 * 1000ULL)
#define DS_HISTORY_SHARE_BITS 27 /* the last second is 8 buckets of 2^27 ns, the newest of them filling */
#define DS_HISTORY_SHARES 8u
#define DS_HISTORY_WINDOW_NS (10 * 1000000000ULL) /* figures of requests are of the last one or two of these */

struct ds_history_blocker {
        uint64_t session;
        uint32_t uid, rung; /* where it was last */
        uint64_t ns;
};

struct ds_history_rung {
        uint32_t rung, n_sms;
        uint64_t run_ns, wait_ns; /* waiting to be launched or to begin there */
};

struct ds_history_request {
        uint64_t begin_ns, end_ns; /* device time; of the active one: up to where it is known */
        uint64_t ns[_DS_HISTORY_PARTS];
        uint64_t own_ns; /* sum over operations of waiting behind earlier ones of their stream; part of none of these */
        uint32_t operations, migrations, loans;
        uint32_t active; /* 1: it goes on */
        uint32_t n_blockers, n_rungs;
        struct ds_history_blocker blockers[DS_HISTORY_BLOCKERS]; /* most first; further ones are in ns[] only */
        struct ds_history_rung rungs[DS_HISTORY_RUNGS];
};

/* What `top` shows of a session. */
struct ds_history_activity {
        uint64_t session;
        uint32_t uid, class_;
        uint64_t slo_ns;
        uint32_t queued, in_flight, coroutines;
        uint32_t rung, rung_sms; /* the largest of what is in flight, else the last of the last second, else NONE */
        uint32_t request_active;
        uint32_t share_permille;              /* of the last second that something of it ran */
        uint64_t requests;                    /* that have ended */
        uint64_t window_requests, window_met; /* lately; within their SLO */
        uint64_t p50_ns, p99_ns, max_ns;      /* of these; 0 when there are none */
};

/* A session's activity. */
void ds_history_activity(ds_sched_session *session, uint64_t now_ns, struct ds_history_activity *ret);
/* Has it a request now, other than one that may only still go on? */
int ds_history_is_active(const ds_sched_session *session);
/* Its last requests, oldest first, the active one last. Returns how many were written. */
size_t ds_history_requests(ds_sched_session *session, uint64_t now_ns, struct ds_history_request *out, size_t n);

/* --- for the scheduler's other files ------------------------------------------------------------------------------ */

struct ds_history_session; /* of one session */
struct ds_launch_target;
struct ds_slot;

struct ds_history_busy {
        uint64_t session, start_ns, end_ns;
        uint32_t uid, rung;
};

struct ds_history_hold {
        uint64_t begin_ns, end_ns; /* end UINT64_MAX: still */
        unsigned classes;
};

/* Of all sessions. */
struct ds_history {
        struct ds_history_busy busy[DS_HISTORY_BUSY];
        uint32_t n_busy; /* ever, but kept small; the newest is at (n_busy - 1) % DS_HISTORY_BUSY */
        struct ds_history_hold holds[DS_HISTORY_HOLDS];
        uint32_t n_holds; /* likewise */
};

/* Work is being submitted; called before it counts as queued. */
void ds_history_submit(ds_sched_session *session, uint64_t now_ns);
/* The head goes to the device; called before it leaves the queue and anything is counted. Fills the slot's flags. */
void ds_history_launch(
        ds_coroutine *coroutine, struct ds_op *op, struct ds_slot *slot, const struct ds_launch_target *target);
/* An operation's times are known; called when it no longer counts as in flight. */
void ds_history_complete(ds_coroutine *coroutine, const struct ds_op *op, const struct ds_slot *slot);
/* Nothing of the session is left; what was told last ended then. */
void ds_history_idle(ds_sched_session *session, uint64_t end_ns);
/* Its client has waited for all of it. */
void ds_history_synchronised(ds_sched_session *session);
void ds_history_held(ds_sched *sched, unsigned classes, uint64_t now_ns);
void ds_history_forget(ds_sched_session *session);
