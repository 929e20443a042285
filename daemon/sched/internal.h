/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's internal state, shared by its files only
 */
#pragma once

#include "sched/coroutine.h"
#include "sched/graph.h"
#include "sched/history.h"
#include "sched/host.h"
#include "sched/kstat.h"
#include "sched/ladder.h"
#include "sched/launch.h"
#include "sched/objective.h"
#include "sched/sched.h"
#include "sched/seen.h"
#include "sched/session.h"
#include "sched/snapshot.h"
#include "sched/trace.h"

#define _DS_SCHED_CLASSES 2 /* DETSHARE_CLASS_LS, DETSHARE_CLASS_BE */

#define DS_SCHED_USER_BITS 10

struct ds_sched {
        const struct ds_device_ops *ops;
        ds_device *device;
        const struct ds_device_info *info;
        ds_op_done_fn done;
        ds_op_unfold_fn unfold;
        ds_op_due_fn due;
        void (*memory_cap)(void *user, uint64_t session, uint64_t bytes);
        void *user;

        uint64_t now_ns; /* the latest time that a caller passed */
        uint64_t next_id;
        ds_sched_session *sessions;
        uint32_t n_sessions, n_coroutines, n_ops, n_in_flight;
        uint32_t n_class_ops[_DS_SCHED_CLASSES], n_class_in_flight[_DS_SCHED_CLASSES];
        uint32_t n_class_sessions[_DS_SCHED_CLASSES];
        struct ds_presence be_presence;
        uint64_t ls_begun;                         /* requests of LS sessions that have begun */
        uint64_t class_left_ns[_DS_SCHED_CLASSES]; /* time at which the class's last operation was reported; 0: never */
        uint32_t n_runnable;                       /* coroutines whose head could be launched now */
        unsigned held;                             /* held classes, bit set; see ds_sched_hold() */
        ds_coroutine *touched;
        ds_coroutine *later;   /* coroutines that the next ds_sched_settle() processes */
        ds_coroutine *slicing; /* coroutines with slices not launched yet */
        int error;             /* fatal errno of a function that cannot return it */
        enum ds_sched_transform transform;
        uint64_t evict_bound_ns;

        struct ds_ladder ladder;
        uint32_t *stream_load; /* number of operations in flight of each stream, by the scheduler's stream number */
        ds_kstat *kstat;
        struct ds_seen seen;
        struct ds_slot *slots;
        uint32_t free_slot;
        /* number of the last launch that happened while work of other coroutines was on the device */
        uint64_t mixed_launch;

        struct ds_snapshot snapshot;
        struct ds_sched_event *events;                 /* events that the policy has not seen, sorted by turn */
        uint64_t event_turn;                           /* turn number of the event reported last */
        uint64_t user_turns[1u << DS_SCHED_USER_BITS]; /* turn of each user's last event, by hash; see event.c */
        struct ds_sched_event switch_event, timer_event, gone_event;
        struct ds_host host;
        struct ds_history history;
        struct ds_trace *trace; /* NULL: no trace is running */
        /* only its counters are kept up to date; ds_sched_stats() fills in the other fields */
        struct ds_sched_stats stats;
};

static inline uint64_t ds_sched_now(ds_sched *sched, uint64_t now_ns)
{
        if (now_ns > sched->now_ns)
                sched->now_ns = now_ns;
        return sched->now_ns;
}

/* Counts `change` more operations of the class on the device. */
static inline void ds_sched_class_in_flight(ds_sched *sched, enum detshare_class class_, int32_t change)
{
        sched->n_class_in_flight[class_] += (uint32_t)change;
        if (class_ == DETSHARE_CLASS_BE)
                ds_presence_change(&sched->be_presence, sched->now_ns, change);
}
