/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coroutine: the logical execution context of one client stream
 *
 * One list holds all its operations in order: first those on the device or ended but not told (first .. boundary),
 * then those waiting (boundary .. last). Operations are told strictly in this order.
 *
 * What the head of the waiting part may depend on:
 *  - DS_OP_WAIT: a sequence number of a coroutine;
 *  - DS_OP_OUTSIDE: everything before it in its own coroutine, which must have been told; then its owner is told that
 * it is due and says when it is over. Nothing on the device ever waits for that, and a policy sees no runnable head;
 *  - the joins of the legacy default stream, as two counters per session. An operation of the legacy coroutine needs
 *    all operations that blocking coroutines had submitted before it (blocking_done >= its join_seq); an operation of a
 *    blocking coroutine needs all that the legacy one had submitted before it (legacy_done >= its join_seq). Comparing
 *    counts is exact, although blocking operations of a session end in any order: one that was submitted after a legacy
 *    operation L cannot end before L, so what blocking_done counts while L waits was all submitted before L.
 * Everything refers to operations submitted earlier (a wait for the future is cut down to what exists), so the graph
 * of dependencies has no cycle and the earliest unfinished operation of all can always go on.
 *
 * States, changed by one setter only; what is on the device decides, never what a client says:
 *
 *              submit            launch             suspend
 *      IDLE ----------> READY ----------> RUNNING ----------> YIELDING
 *        ^              |   ^              |    ^              |    |
 *        |   all told   |   |   drained    |    |    resume    |    |
 *        +--------------+   +--------------+    +--------------+    | drained
 *        +---- drained and all told -------+                        v
 *      IDLE, READY ------------ suspend ----------------------> SUSPENDED
 *      IDLE, READY <----------- resume -------------------------SUSPENDED
 *      any of these ----------- the session is cancelled -----> FAULTED, for good
 *
 * READY says that work waits and nothing is on the device; whether its head may go is `runnable`. A kill or an eviction
 * changes no state by itself: what was ended comes back to the queue when all of it has drained, and READY or SUSPENDED
 * is next. A coroutine yields where a kernel or a slice ends: what is on the device runs to its end, or lets go.
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

/* ds_op.finished */
enum ds_op_finished {
        DS_OP_UNFINISHED,
        DS_OP_RAN,       /* the device gave its times */
        DS_OP_NEVER_RAN, /* no work, refused or dropped: it has the time at which its turn came */
};

enum ds_coroutine_park {
        DS_PARK_NONE,
        DS_PARK_WAIT, /* in another coroutine's list of waiters */
        DS_PARK_JOIN, /* a blocking coroutine that waits for the legacy one, in the session's list */
};

struct ds_coroutine {
        ds_sched *sched; /* NULL once the session is gone; then only sequence numbers are left */
        ds_sched_session *session;
        ds_coroutine *prev, *next; /* the session's coroutines */
        uint64_t id;
        int32_t priority;
        enum ds_coroutine_state state;
        uint32_t refs;
        uint8_t blocking, legacy, released;
        uint8_t runnable; /* the head is work and all it depends on has ended */
        uint8_t active;   /* work waits or is on the device */
        uint8_t touched;  /* in the list to settle; 2: in the one of the next time */
        uint8_t dirty;    /* its view must be written anew */
        uint8_t killing;  /* what is on the device was ended or is to let go: nothing goes before all of it is back */
        uint8_t full;     /* the head is a graph that waits for marks to be told, see graph.h */

        struct ds_op *first, *boundary, *last;
        struct ds_op *before; /* what left the queue last; comes before boundary unless it was told: then first does */
        uint32_t n_ops;       /* all of them */
        uint32_t n_waiting_work;  /* launches, copies, memsets from boundary on */
        uint32_t n_in_flight;     /* on the device */
        uint32_t n_marks;         /* parts of graphs that are no work, not told yet */
        uint64_t submitted, done; /* sequence numbers */
        uint64_t last_end_ns;     /* end of what was told last */
        uint64_t dependency_ns;   /* end of what the head waited for last */
        uint64_t head_since_ns;
        struct ds_ahead ahead;

        enum ds_coroutine_park park;
        ds_coroutine *park_on;
        ds_coroutine *park_prev, *park_next;
        ds_coroutine *waiters; /* coroutines parked on this one */

        uint32_t rung, stream; /* where the last launched operation went: the ladder's number, the scheduler's stream */
        uint32_t last_index;   /* stream index used last, preferred */
        uint64_t in_flight_sms, in_flight_expected_ns;
        struct ds_op *slicing; /* the youngest in flight, of which there is something to launch yet; see slices.h */
        ds_coroutine *slicing_prev, *slicing_next;
        uint32_t n_let_go;                      /* in flight and would let go, see let_go.h */
        uint64_t let_go_ns, let_go_expected_ns; /* how long the longest of them takes to; sum of their expected_ns */

        struct ds_sched_event submit_event;
        ds_coroutine *touched_prev, *touched_next;
        ds_coroutine *dirty_prev, *dirty_next;
        uint32_t view; /* index in the snapshot, DS_SNAPSHOT_NONE */
};

/* The drawing. */
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

/* Nothing of it has run. */
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

/* Look at it again at the next settle: a dependency ended, an operation ended, something was submitted. */
void ds_coroutine_touch(ds_coroutine *coroutine);
/* Counts, state and view after any change of queue or device work. */
void ds_coroutine_changed(ds_coroutine *coroutine);
/* Takes the head, which must be runnable, out of the waiting part because it was launched (or refused). */
void ds_coroutine_pop(ds_coroutine *coroutine);
/* Nothing of it is on the device any more: from the first operation that was killed on all wait again. */
void ds_coroutine_return(ds_coroutine *coroutine);
/* The policy ended what is in flight: nothing goes before it. */
void ds_coroutine_killing(ds_coroutine *coroutine);
/* Everything still waiting ends with this error, told after what is in flight before it. */
void ds_coroutine_fault(ds_coroutine *coroutine, int status);
/* Cuts it loose from a session that goes; the last reference frees it. */
void ds_coroutine_detach(ds_coroutine *coroutine);
/* Resolve heads and tell ended operations until nothing changes any more. */
void ds_sched_settle(ds_sched *sched);
