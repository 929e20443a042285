/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coroutines: queue, dependencies, reports of ended operations
 *
 * Nothing here recurses: a coroutine that may be able to proceed is put on the list of touched coroutines, and
 * ds_sched_settle() processes that list. See coroutine.h for the rules and for the reason why waits cannot form a
 * cycle.
 */
#include "sched/coroutine.h"

#include <assert.h>
#include <utlist.h>

#include "sched/internal.h"
#include "sched/let_go.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

static const uint8_t state_transitions[_DS_COROUTINE_STATE_MAX] = {
#define TO(name) (1u << DS_COROUTINE_##name)
        [DS_COROUTINE_IDLE] = TO(READY) | TO(SUSPENDED) | TO(FAULTED),
        [DS_COROUTINE_READY] = TO(IDLE) | TO(RUNNING) | TO(SUSPENDED) | TO(FAULTED),
        [DS_COROUTINE_RUNNING] = TO(IDLE) | TO(READY) | TO(YIELDING) | TO(FAULTED),
        [DS_COROUTINE_YIELDING] = TO(RUNNING) | TO(SUSPENDED) | TO(FAULTED),
        [DS_COROUTINE_SUSPENDED] = TO(IDLE) | TO(READY) | TO(FAULTED),
        [DS_COROUTINE_FAULTED] = 0,
#undef TO
};

const char *ds_coroutine_state_name(enum ds_coroutine_state state)
{
        static const char *const names[_DS_COROUTINE_STATE_MAX] = {
                [DS_COROUTINE_IDLE] = "idle",
                [DS_COROUTINE_READY] = "ready",
                [DS_COROUTINE_RUNNING] = "running",
                [DS_COROUTINE_YIELDING] = "yielding",
                [DS_COROUTINE_SUSPENDED] = "suspended",
                [DS_COROUTINE_FAULTED] = "faulted",
        };

        return state >= 0 && state < _DS_COROUTINE_STATE_MAX ? names[state] : "invalid";
}

int ds_coroutine_may_become(enum ds_coroutine_state from, enum ds_coroutine_state to)
{
        return (state_transitions[from] >> to & 1) != 0;
}

static void coroutine_set_state(ds_coroutine *coroutine, enum ds_coroutine_state state)
{
        assert(coroutine->state >= 0 && coroutine->state < _DS_COROUTINE_STATE_MAX);
        if (coroutine->state == state)
                return;
        assert(ds_coroutine_may_become(coroutine->state, state));
        coroutine->state = state;
}

static enum ds_coroutine_state coroutine_due_state(const ds_coroutine *coroutine)
{
        if (coroutine->session->cancelled)
                return DS_COROUTINE_FAULTED;
        if (coroutine->session->suspended)
                return coroutine->n_in_flight ? DS_COROUTINE_YIELDING : DS_COROUTINE_SUSPENDED;
        if (coroutine->n_in_flight)
                return DS_COROUTINE_RUNNING;
        return coroutine->n_ops ? DS_COROUTINE_READY : DS_COROUTINE_IDLE;
}

void ds_coroutine_changed(ds_coroutine *coroutine)
{
        int active = coroutine->n_waiting_work || coroutine->n_in_flight;

        if (active != coroutine->active) {
                coroutine->active = (uint8_t)active;
                coroutine->session->n_active += active ? 1 : UINT32_MAX;
        }
        coroutine_set_state(coroutine, coroutine_due_state(coroutine));
        ds_snapshot_coroutine_changed(coroutine);
        ds_snapshot_session_changed(coroutine->session);
}

/* --- creation and release ----------------------------------------------------------------------------------------- */

int ds_coroutine_new(ds_sched_session *session, int32_t priority, int blocking, int legacy, ds_coroutine **ret)
{
        ds_sched *sched = session->sched;
        ds_coroutine *coroutine;
        int r;

        assert(!(blocking && legacy));
        if (session->n_coroutines >= DS_SCHED_SESSION_COROUTINES_MAX)
                return DS_SCHED_E_FULL;
        if (legacy && session->legacy)
                return ds_error_origin(-EEXIST);
        r = ds_snapshot_reserve_coroutines(&sched->snapshot, sched->n_coroutines + 1);
        if (r)
                return ds_error_trace(r);
        coroutine = ds_alloc0(1, sizeof(*coroutine));
        if (!coroutine)
                return ds_error_origin(-ENOMEM);
        coroutine->sched = sched;
        coroutine->session = session;
        coroutine->id = ++sched->next_id;
        coroutine->priority = priority;
        coroutine->refs = 1;
        coroutine->blocking = blocking != 0;
        coroutine->legacy = legacy != 0;
        coroutine->rung = DETSHARE_RUNG_NONE;
        coroutine->view = DS_SNAPSHOT_NONE;
        coroutine->submit_event.kind = DETSHARE_EVENT_SUBMIT;
        coroutine->submit_event.session = session;
        DL_APPEND(session->coroutines, coroutine);
        session->n_coroutines++;
        sched->n_coroutines++;
        if (legacy)
                session->legacy = coroutine;
        coroutine_set_state(coroutine, coroutine_due_state(coroutine));
        *ret = coroutine;
        return 0;
}

static void coroutine_unpark(ds_coroutine *coroutine)
{
        if (coroutine->park == DS_PARK_WAIT)
                DL_DELETE2(coroutine->park_on->waiters, coroutine, park_prev, park_next);
        else if (coroutine->park == DS_PARK_JOIN)
                DL_DELETE2(coroutine->session->join_waiters, coroutine, park_prev, park_next);
        coroutine->park = DS_PARK_NONE;
        coroutine->park_on = NULL;
}

void ds_coroutine_detach(ds_coroutine *coroutine)
{
        ds_sched *sched = coroutine->sched;
        ds_sched_session *session = coroutine->session;

        if (!sched)
                return;
        coroutine_unpark(coroutine);
        /* waiters exist here only if the scheduler ends with work queued; they get no report */
        while (coroutine->waiters)
                coroutine_unpark(coroutine->waiters);
        for (struct ds_op *op = coroutine->boundary; op; op = op->next) {
                ds_let_go_drop(sched, op);
                if (op->kind == DS_OP_WAIT && op->wait_for)
                        op->wait_for = ds_coroutine_unref(op->wait_for);
        }
        if (coroutine->touched == 1)
                DL_DELETE2(sched->touched, coroutine, touched_prev, touched_next);
        else if (coroutine->touched)
                DL_DELETE2(sched->later, coroutine, touched_prev, touched_next);
        ds_sched_event_cancel(sched, &coroutine->submit_event);
        ds_snapshot_forget_coroutine(coroutine);
        if (coroutine->runnable)
                sched->n_runnable--;
        ds_ahead_deinit(&coroutine->ahead);
        DL_DELETE(session->coroutines, coroutine);
        session->n_coroutines--;
        sched->n_coroutines--;
        if (session->legacy == coroutine)
                session->legacy = NULL;
        coroutine->touched = coroutine->runnable = 0;
        coroutine->session = NULL;
        coroutine->sched = NULL;
}

ds_coroutine *ds_coroutine_ref(ds_coroutine *coroutine)
{
        assert(coroutine->refs && coroutine->refs < UINT32_MAX);
        coroutine->refs++;
        return coroutine;
}

ds_coroutine *ds_coroutine_unref(ds_coroutine *coroutine)
{
        if (!coroutine)
                return NULL;
        assert(coroutine->refs);
        if (--coroutine->refs)
                return NULL;
        ds_coroutine_detach(coroutine);
        return ds_free(coroutine);
}

/* Drops the owner's reference of a released coroutine when it has no operations left. */
static void coroutine_check_released(ds_coroutine *coroutine)
{
        if (coroutine->released != 1 || coroutine->n_ops)
                return;
        coroutine->released = 2;
        ds_coroutine_detach(coroutine);
        ds_coroutine_unref(coroutine);
}

void ds_coroutine_release(ds_coroutine *coroutine)
{
        assert(!coroutine->released);
        coroutine->released = 1;
        /* the release is deferred: the caller may be in a done callback of this coroutine */
        ds_coroutine_touch(coroutine);
}

uint32_t ds_coroutine_in_flight(const ds_coroutine *coroutine)
{
        return coroutine->n_in_flight;
}

uint64_t ds_coroutine_submitted(const ds_coroutine *coroutine)
{
        return coroutine->submitted;
}

uint64_t ds_coroutine_done(const ds_coroutine *coroutine)
{
        return coroutine->done;
}

size_t ds_coroutine_room(const ds_coroutine *coroutine)
{
        const ds_sched_session *session = coroutine->session;

        if (!session || session->cancelled || coroutine->released)
                return 0;
        /* the bounds below do not apply to the parts of graphs, so the counts may be above them */
        if (coroutine->n_ops >= DS_SCHED_QUEUE_MAX || session->n_ops >= DS_SCHED_SESSION_QUEUE_MAX)
                return 0;
        return DS_MIN(DS_SCHED_QUEUE_MAX - coroutine->n_ops, DS_SCHED_SESSION_QUEUE_MAX - session->n_ops);
}

/* --- submit ------------------------------------------------------------------------------------------------------- */

static void op_bind_dependencies(ds_coroutine *coroutine, struct ds_op *op)
{
        ds_sched_session *session = coroutine->session;

        op->join_seq = 0;
        if (coroutine->legacy) {
                op->join_seq = session->blocking_submitted;
                session->legacy_submitted++;
        } else if (coroutine->blocking) {
                op->join_seq = session->legacy_submitted;
                session->blocking_submitted++;
        }
        if (op->kind != DS_OP_WAIT || !op->wait_for)
                return;
        /* a wait for a number not submitted yet waits for the last submitted one instead, so no cycle of waits is
         * possible */
        op->wait_seq = DS_MIN(op->wait_seq, op->wait_for->submitted);
        assert(op->wait_for != coroutine || op->wait_seq < op->seq);
        ds_coroutine_ref(op->wait_for);
}

int ds_sched_submit(ds_coroutine *coroutine, struct ds_op *op, uint64_t now_ns)
{
        ds_sched_session *session = coroutine->session;
        ds_sched *sched = coroutine->sched;

        assert(session && sched && !coroutine->released);
        assert(op->kind >= 0 && op->kind < _DS_OP_KIND_MAX);
        if (session->cancelled)
                return DS_SCHED_E_FAULTED;
        if (!ds_coroutine_room(coroutine) || ds_ahead_reserve(&coroutine->ahead))
                return DS_SCHED_E_FULL;
        op->next = NULL;
        op->coroutine = coroutine;
        op->submitted_ns = ds_sched_now(sched, now_ns);
        op->launched_ns = op->start_ns = op->end_ns = 0;
        op->message = NULL;
        op->status = 0;
        op->part = 0;
        ds_op_begin(op);
        if (op->kind == DS_OP_OUTSIDE)
                op->outside.due = op->outside.over = 0;
        op->seq = coroutine->submitted + 1 + op->more;
        op_bind_dependencies(coroutine, op);
        coroutine->submitted = op->seq;
        if (coroutine->last)
                coroutine->last->next = op;
        else
                coroutine->first = op;
        coroutine->last = op;
        if (!coroutine->boundary)
                coroutine->boundary = op;
        coroutine->n_ops++;
        session->n_ops++;
        sched->n_class_ops[session->config.class_]++;
        sched->n_ops++;
        if (op->kind == DS_OP_GRAPH)
                op->in_parts = op->unfolded_all = 0;
        op->phase = session->phase;
        session->synchronised = 0;
        if (ds_op_is_work(op)) {
                coroutine->n_waiting_work++;
                ds_ahead_identify(sched, op);
                ds_sched_session_begin(session, op->submitted_ns);
                ds_history_submit(session, op->submitted_ns);
        }
        ds_ahead_fill(coroutine);
        ds_coroutine_changed(coroutine);
        if (coroutine->boundary == op)
                ds_coroutine_touch(coroutine);
        return 0;
}

/* --- the head and its dependencies -------------------------------------------------------------------------------- */

void ds_coroutine_touch(ds_coroutine *coroutine)
{
        if (coroutine->touched || !coroutine->sched)
                return;
        coroutine->touched = 1;
        DL_APPEND2(coroutine->sched->touched, coroutine, touched_prev, touched_next);
}

static void coroutine_park(ds_coroutine *coroutine, enum ds_coroutine_park park, ds_coroutine *on)
{
        assert(coroutine->park == DS_PARK_NONE);
        coroutine->park = park;
        coroutine->park_on = on;
        if (park == DS_PARK_WAIT)
                DL_APPEND2(on->waiters, coroutine, park_prev, park_next);
        else
                DL_APPEND2(coroutine->session->join_waiters, coroutine, park_prev, park_next);
}

static int coroutine_outside_is_over(ds_coroutine *coroutine, struct ds_op *op)
{
        ds_sched *sched = coroutine->sched;

        if (!op->outside.due && coroutine->first == op) {
                op->outside.due = 1;
                op->outside.over = sched->due(sched->user, op) != 0;
                op->outside.over_ns = 0;
        }
        return op->outside.over;
}

/* Whether the head's dependencies have ended. If not, parks the coroutine in the list that the end of the dependency
 * processes. */
static int coroutine_head_is_free(ds_coroutine *coroutine)
{
        struct ds_op *op = coroutine->boundary;
        ds_sched_session *session = coroutine->session;

        /* a legacy coroutine needs no list of waiters: it is checked whenever a blocking coroutine ends an operation */
        if (coroutine->legacy && session->blocking_done < op->join_seq)
                return 0;
        if (coroutine->blocking && session->legacy_done < op->join_seq) {
                coroutine_park(coroutine, DS_PARK_JOIN, NULL);
                return 0;
        }
        if (op->kind == DS_OP_WAIT && op->wait_for && op->wait_for->done < op->wait_seq) {
                coroutine_park(coroutine, DS_PARK_WAIT, op->wait_for);
                return 0;
        }
        return op->kind != DS_OP_OUTSIDE || coroutine_outside_is_over(coroutine, op);
}

void ds_sched_over(struct ds_op *op, uint64_t now_ns)
{
        assert(op->kind == DS_OP_OUTSIDE && op->outside.due);
        if (op->finished || op->outside.over)
                return;
        op->outside.over = 1;
        op->outside.over_ns = ds_sched_now(op->coroutine->sched, now_ns);
        ds_coroutine_touch(op->coroutine);
}

static void coroutine_leave_queue(ds_coroutine *coroutine)
{
        struct ds_op *op = coroutine->boundary;

        ds_ahead_pop(coroutine, op);
        coroutine->before = op;
        coroutine->boundary = op->next;
        if (ds_op_is_work(op)) {
                assert(coroutine->n_waiting_work);
                coroutine->n_waiting_work--;
        }
}

/* Takes a head without work (a mark, or a wait that is over) out of the waiting part. It ends when everything before
 * it has ended. */
static void coroutine_pass_head(ds_coroutine *coroutine)
{
        struct ds_op *op = coroutine->boundary;

        assert(!ds_op_is_work(op));
        if (op->kind == DS_OP_WAIT)
                op->wait_for = ds_coroutine_unref(op->wait_for);
        op->start_ns = coroutine->dependency_ns;
        if (op->kind == DS_OP_OUTSIDE)
                op->start_ns = DS_MAX(op->start_ns, op->outside.over_ns);
        op->finished = DS_OP_NEVER_RAN;
        coroutine_leave_queue(coroutine);
}

static void coroutine_set_runnable(ds_coroutine *coroutine, int runnable)
{
        ds_sched *sched = coroutine->sched;

        if (runnable == coroutine->runnable)
                return;
        coroutine->runnable = (uint8_t)runnable;
        sched->n_runnable += runnable ? 1 : UINT32_MAX;
        if (runnable) {
                coroutine->head_since_ns = sched->now_ns;
                ds_sched_event_post(sched, &coroutine->submit_event);
        }
        ds_snapshot_coroutine_changed(coroutine);
}

static void coroutine_resolve_head(ds_coroutine *coroutine)
{
        int runnable = 0;

        coroutine->full = 0;
        coroutine_unpark(coroutine);
        while (!coroutine->killing && coroutine->boundary && coroutine_head_is_free(coroutine)) {
                int unfolded = coroutine->boundary->kind == DS_OP_GRAPH ? ds_graph_unfold(coroutine) : 0;

                coroutine->full = unfolded < 0;
                if (coroutine->full)
                        break;
                if (unfolded)
                        continue;
                if (ds_op_is_work(coroutine->boundary)) {
                        runnable = 1;
                        break;
                }
                coroutine_pass_head(coroutine);
        }
        ds_ahead_fill(coroutine);
        coroutine_set_runnable(coroutine, runnable);
}

void ds_coroutine_pop(ds_coroutine *coroutine)
{
        assert(coroutine->runnable && coroutine->boundary);
        coroutine_leave_queue(coroutine);
        coroutine->head_since_ns = coroutine->sched->now_ns;
        coroutine_resolve_head(coroutine);
}

void ds_coroutine_in_parts(ds_coroutine *coroutine)
{
        struct ds_op *op = coroutine->boundary;

        assert(op->kind == DS_OP_GRAPH && !op->in_parts);
        op->in_parts = 1;
        coroutine->n_waiting_work--;
        coroutine->n_marks += op->part;
        ds_ahead_clear(&coroutine->ahead);
        coroutine_resolve_head(coroutine);
        ds_coroutine_changed(coroutine);
        ds_coroutine_touch(coroutine); /* the graph has ended already if there was no memory for its first part */
}

void ds_coroutine_fault(ds_coroutine *coroutine, int status)
{
        coroutine_unpark(coroutine);
        coroutine_set_runnable(coroutine, 0);
        ds_sched_event_cancel(coroutine->sched, &coroutine->submit_event);
        for (struct ds_op *op = coroutine->first; op != coroutine->boundary; op = op->next) {
                if (!op->killed)
                        continue;
                ds_let_go_drop(coroutine->sched, op);
                op->status = status;
                op->finished = DS_OP_RAN;
        }
        for (struct ds_op *op = coroutine->boundary; op; op = op->next) {
                if (op->kind == DS_OP_WAIT)
                        op->wait_for = ds_coroutine_unref(op->wait_for);
                ds_let_go_drop(coroutine->sched, op);
                op->start_ns = coroutine->sched->now_ns;
                op->status = status;
                op->finished = DS_OP_NEVER_RAN;
        }
        coroutine->boundary = NULL;
        coroutine->full = 0;
        coroutine->n_waiting_work = 0;
        ds_ahead_clear(&coroutine->ahead);
        ds_coroutine_touch(coroutine);
}

void ds_coroutine_killing(ds_coroutine *coroutine)
{
        coroutine->killing = 1;
        coroutine_unpark(coroutine);
        coroutine_set_runnable(coroutine, 0);
        ds_sched_event_cancel(coroutine->sched, &coroutine->submit_event);
}

/* Resets an operation to the state before its launch. A mark or wait that is over stays so. */
static void op_return(ds_coroutine *coroutine, struct ds_op *op)
{
        op->finished = DS_OP_UNFINISHED;
        op->killed = 0;
        if (!ds_op_is_work(op))
                return;
        op->status = 0;
        op->message = ds_free(op->message);
        coroutine->n_waiting_work++;
}

void ds_coroutine_return(ds_coroutine *coroutine)
{
        struct ds_op *before = NULL, *op = coroutine->first;

        assert(coroutine->killing && !coroutine->n_in_flight);
        coroutine->killing = 0;
        for (; op != coroutine->boundary && !(op->killed && !op->finished); op = op->next)
                before = op;
        if (op == coroutine->boundary)
                return;
        coroutine_unpark(coroutine);
        for (struct ds_op *back = op; back != coroutine->boundary; back = back->next)
                op_return(coroutine, back);
        coroutine->boundary = op;
        coroutine->before = before;
        ds_ahead_clear(&coroutine->ahead);
}

/* --- reports of ended operations ---------------------------------------------------------------------------------- */

static void coroutine_wake(ds_coroutine *waiter, uint64_t end_ns)
{
        waiter->dependency_ns = DS_MAX(waiter->dependency_ns, end_ns);
        coroutine_unpark(waiter);
        ds_coroutine_touch(waiter);
}

static void coroutine_wake_waiters(ds_coroutine *coroutine)
{
        ds_sched_session *session = coroutine->session;
        ds_coroutine *waiter, *next;

        for (waiter = coroutine->waiters; waiter; waiter = next) {
                next = waiter->park_next;
                if (waiter->boundary->wait_seq <= coroutine->done)
                        coroutine_wake(waiter, coroutine->last_end_ns);
        }
        for (waiter = coroutine->legacy ? session->join_waiters : NULL; waiter; waiter = next) {
                next = waiter->park_next;
                if (waiter->boundary->join_seq <= session->legacy_done)
                        coroutine_wake(waiter, coroutine->last_end_ns);
        }
        if (coroutine->blocking && session->legacy && session->legacy->boundary &&
                session->blocking_done >= session->legacy->boundary->join_seq && !session->legacy->runnable)
                coroutine_wake(session->legacy, coroutine->last_end_ns);
}

static void coroutine_count_done(ds_coroutine *coroutine, const struct ds_op *op)
{
        ds_sched_session *session = coroutine->session;

        assert(coroutine->n_ops && session->n_ops && coroutine->sched->n_ops);
        coroutine->n_ops--;
        session->n_ops--;
        coroutine->sched->n_class_ops[session->config.class_]--;
        coroutine->sched->class_left_ns[session->config.class_] = coroutine->sched->now_ns;
        coroutine->sched->n_ops--;
        if (!op->part) {
                assert(op->seq == coroutine->done + 1 + op->more);
                coroutine->done = op->seq;
                session->legacy_done += coroutine->legacy;
                session->blocking_done += coroutine->blocking;
        }
        coroutine->n_marks -= op->part && !ds_op_is_work(op);
        if (!ds_op_is_work(op))
                return;
        session->completed += op->kind == DS_OP_GRAPH ? op->graph->n_works : 1;
        if (op->status)
                session->errors++;
}

/* Reports the oldest operation of the coroutine, which has ended: counts it, wakes coroutines that wait for it, and
 * calls its owner, which may free it. */
static void coroutine_tell_first(ds_coroutine *coroutine)
{
        struct ds_op *op = coroutine->first;
        ds_sched *sched = coroutine->sched;
        ds_sched_session *session = coroutine->session;
        char *message = op->message;
        uint64_t start_ns, end_ns;

        coroutine->first = op->next;
        if (!coroutine->first)
                coroutine->last = NULL;
        if (op->finished == DS_OP_NEVER_RAN) {
                op->end_ns = DS_MAX(DS_MAX(coroutine->last_end_ns, op->submitted_ns), op->start_ns);
                op->start_ns = op->end_ns;
        }
        start_ns = op->start_ns;
        end_ns = op->end_ns;
        coroutine->last_end_ns = DS_MAX(coroutine->last_end_ns, end_ns);
        coroutine_count_done(coroutine, op);
        coroutine_wake_waiters(coroutine);
        ds_coroutine_changed(coroutine);
        ds_sched_session_check_end(session);
        if (!session->n_ops)
                ds_history_idle(session, end_ns);
        op->message = NULL;
        op->next = NULL;
        sched->done(sched->user, op, op->status, start_ns, end_ns, message);
        ds_free(message);
}

/* Defers the unfolding of the rest of a graph to the next call of ds_sched_settle(), so that other coroutines come
 * first. */
static void coroutine_put_off(ds_coroutine *coroutine)
{
        if (coroutine->touched)
                return;
        coroutine->touched = 2;
        DL_APPEND2(coroutine->sched->later, coroutine, touched_prev, touched_next);
}

static void coroutine_settle(ds_coroutine *coroutine)
{
        int told;

        do {
                if (!coroutine->session->cancelled)
                        coroutine_resolve_head(coroutine);
                told = 0;
                while (coroutine->first && coroutine->first != coroutine->boundary && coroutine->first->finished) {
                        coroutine_tell_first(coroutine);
                        told = 1;
                }
                /* the report may have made the head due if it is of kind DS_OP_OUTSIDE */
        } while (told && coroutine->boundary && coroutine->boundary->kind == DS_OP_OUTSIDE);
        if (coroutine->full && coroutine->n_marks < DS_GRAPH_MARKS)
                coroutine_put_off(coroutine);
        ds_coroutine_changed(coroutine);
        coroutine_check_released(coroutine);
}

void ds_sched_settle(ds_sched *sched)
{
        ds_coroutine *coroutine;

        while ((coroutine = sched->later)) {
                DL_DELETE2(sched->later, coroutine, touched_prev, touched_next);
                coroutine->touched = 0;
                ds_coroutine_touch(coroutine);
        }
        while ((coroutine = sched->touched)) {
                DL_DELETE2(sched->touched, coroutine, touched_prev, touched_next);
                coroutine->touched = 0;
                ds_coroutine_ref(coroutine);
                coroutine_settle(coroutine);
                ds_coroutine_unref(coroutine);
        }
}
