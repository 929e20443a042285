/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coroutine: the logical execution context of one client stream
 *
 * One list holds all its operations in order: first those on the device, or ended but not reported (first .. boundary),
 * then those waiting (boundary .. last). Ends are reported to the owner strictly in this order.
 *
 * The first waiting operation (the head) may depend on:
 *  - DS_OP_WAIT: a sequence number of a coroutine;
 *  - DS_OP_OUTSIDE: everything before it in its own coroutine, which must have been reported. Then its owner learns
 *    that it is due, and later reports its end. Nothing on the device waits for it, and a policy sees no runnable head;
 *  - the joins of the legacy default stream, as two counters per session. An operation of the legacy coroutine needs
 *    all operations that blocking coroutines submitted before it (blocking_done >= its join_seq). An operation of a
 *    blocking coroutine needs all that the legacy one submitted before it (legacy_done >= its join_seq). Comparing
 *    counts is exact, although blocking operations of a session end in any order. An operation submitted after a legacy
 *    operation L cannot end before L, so everything that blocking_done counts while L waits was submitted before L.
 *
 * Dependencies refer only to operations submitted earlier (a wait for a future number is reduced to the current one).
 * So the graph of dependencies has no cycle, and the earliest unfinished operation of all can always continue.
 *
 * States, changed by one setter only. The work on the device decides them, never a client's claim:
 *
 *             submit            launch             suspend
 *     IDLE ----------> READY ----------> RUNNING ----------> YIELDING
 *       ^              |   ^              |    ^              |    |
 *       | all reported |   |   drained    |    |    resume    |    |
 *       +--------------+   +--------------+    +--------------+    | drained
 *       +---- drained and all reported -----+                      v
 *     IDLE, READY ------------ suspend ----------------------> SUSPENDED
 *     IDLE, READY <----------- resume -------------------------SUSPENDED
 *     any of these ----------- the session is cancelled -----> FAULTED (final)
 *
 * READY means that work waits and nothing is on the device; `runnable` says whether its head may be launched. A kill or
 * an eviction changes no state by itself: the stopped operations return to the queue when all of them have drained, and
 * READY or SUSPENDED follows. A coroutine yields at the end of a kernel or slice: work on the device runs to its end,
 * or is evicted.
 */
#pragma once

#include <errno.h>
#include <stdint.h>

#include "sched/ahead.h"
#include "sched/event.h"
#include "sched/sched.h"

enum ds_coroutine_state {
        DS_COROUTINE_IDLE,
        DS_COROUTINE_READY,
        DS_COROUTINE_RUNNING,
        DS_COROUTINE_YIELDING,
        DS_COROUTINE_SUSPENDED,
        DS_COROUTINE_FAULTED,
        _DS_COROUTINE_STATE_MAX,
        _DS_COROUTINE_STATE_INVALID = -EINVAL,
};

/* Values of ds_op.finished. */
enum ds_op_finished {
        DS_OP_UNFINISHED,
        DS_OP_RAN,       /* has run on the device, which supplied its times */
        DS_OP_NEVER_RAN, /* has not run (no work, refused or dropped); its time is that at which it would have begun */
};

enum ds_coroutine_park {
        DS_PARK_NONE,
        DS_PARK_WAIT, /* parked in the list of waiters of the coroutine that it waits for */
        DS_PARK_JOIN, /* blocking coroutine that waits for the legacy one, parked in the session's list */
};

struct ds_coroutine {
        ds_sched *sched; /* NULL after the session has gone: then only the sequence numbers are valid */
        ds_sched_session *session;
        ds_coroutine *prev, *next; /* links in the session's list of coroutines */
        uint64_t id;
        int32_t priority;
        enum ds_coroutine_state state;
        uint32_t refs;
        uint8_t blocking, legacy, released;
        uint8_t runnable; /* the head is a launch, copy, memset or graph, and all its dependencies have ended */
        uint8_t active;   /* the coroutine has waiting work or work on the device */
        uint8_t touched;  /* 1: in the list that ds_sched_settle() processes; 2: in the list for its next call */
        uint8_t dirty;    /* the view in the snapshot must be rewritten */
        /* work on the device is being killed or evicted: the coroutine launches nothing until all of it has returned */
        uint8_t killing;
        uint8_t full; /* the head is a graph that waits until marks are reported, see graph.h */

        struct ds_op *first, *boundary, *last;
        /* the last operation that is not waiting any more, in the list just before `boundary`; if it was reported,
         * `first` equals `boundary` */
        struct ds_op *before;
        uint32_t n_ops;           /* number of operations in the list */
        uint32_t n_waiting_work;  /* launches, copies and memsets from boundary on */
        uint32_t n_in_flight;     /* number of operations on the device */
        uint32_t n_marks;         /* parts of graphs that do no work (marks) and are not reported yet */
        uint64_t submitted, done; /* sequence numbers of the operation submitted last and of the one reported last */
        uint64_t last_end_ns;     /* end of the operation reported last */
        uint64_t dependency_ns;   /* end of the head's last dependency */
        uint64_t head_since_ns;
        struct ds_ahead ahead;

        enum ds_coroutine_park park;
        ds_coroutine *park_on;
        ds_coroutine *park_prev, *park_next;
        ds_coroutine *waiters; /* coroutines parked on this one */

        uint32_t rung, stream; /* target of the last launch: rung of the ladder, stream of the scheduler */
        uint32_t last_index;   /* index of that stream within its rung; preferred for the next launch */
        uint64_t in_flight_sms, in_flight_expected_ns;
        struct ds_op *slicing; /* the newest operation in flight with slices left to launch; see slices.h */
        ds_coroutine *slicing_prev, *slicing_next;
        uint32_t n_let_go; /* operations in flight that can be evicted, see let_go.h */
        /* longest eviction time among those operations; sum of their expected_ns */
        uint64_t let_go_ns, let_go_expected_ns;

        struct ds_sched_event submit_event;
        ds_coroutine *touched_prev, *touched_next;
        ds_coroutine *dirty_prev, *dirty_next;
        uint32_t view; /* index in the snapshot, or DS_SNAPSHOT_NONE */
};

/* Whether the state diagram above allows the change. */
int ds_coroutine_may_become(enum ds_coroutine_state from, enum ds_coroutine_state to);
const char *ds_coroutine_state_name(enum ds_coroutine_state state);

static inline int ds_op_is_work(const struct ds_op *op)
{
        return op->kind == DS_OP_LAUNCH || op->kind == DS_OP_COPY || op->kind == DS_OP_MEMSET ||
               (op->kind == DS_OP_GRAPH && !op->in_parts);
}

static inline int ds_op_is_piece(const struct ds_op *op)
{
        return op->kind == DS_OP_GRAPH && op->graph->piece;
}

/* Resets an operation to the state in which nothing of it has run. */
static inline void ds_op_begin(struct ds_op *op)
{
        op->finished = op->killed = 0;
        op->form = op->n_slices = 0;
        op->blocks_ran = op->next_block = op->slice = op->chunk = op->evictions = 0;
        op->began_ns = op->ran_ns = 0;
        if (op->kind != DS_OP_LAUNCH)
                return;
        op->launch.replays = op->launch.resumes = 0;
        op->launch.first = op->launch.n_blocks = op->launch.workers = op->launch.chunk = 0;
}

/* Puts the coroutine on the list of ds_sched_settle(): a dependency or operation ended, or an operation was
 * submitted. */
void ds_coroutine_touch(ds_coroutine *coroutine);
/* Updates counts, state and view after a change of the queue or of the work on the device. */
void ds_coroutine_changed(ds_coroutine *coroutine);
/* Moves the head, which must be runnable, out of the waiting part after its launch or refusal. */
void ds_coroutine_pop(ds_coroutine *coroutine);
/* When the killed or evicted work has left the device: puts all operations from the first killed one on back into
 * the waiting part. */
void ds_coroutine_return(ds_coroutine *coroutine);
/* Records that the policy has killed or evicted the work in flight: the coroutine launches nothing before it has
 * returned. */
void ds_coroutine_killing(ds_coroutine *coroutine);
/* Ends all waiting operations with this error. They are reported after the operations in flight before them. */
void ds_coroutine_fault(ds_coroutine *coroutine, int status);
/* Detaches the coroutine from a session that is being freed. The last reference frees the coroutine. */
void ds_coroutine_detach(ds_coroutine *coroutine);
/* Resolves heads and reports ended operations until nothing changes ("settle" in names). */
void ds_sched_settle(ds_sched *sched);
