/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for a value in memory
 *
 * A wait for a value is an operation. It becomes due when everything before it in its stream has ended, and it ends
 * when the word satisfies the condition. It stays in its coroutine's queue and never reaches the device, so a wait that
 * is never satisfied blocks only its own stream.
 *
 * The worker reads pinned memory itself. It fetches a word in device memory by a small copy (a probe): an operation of
 * a hidden coroutine of the session. One probe is in flight at a time, for the due waits in turn. A word changes
 * because work ran, or because another process or the host wrote it. So the worker checks it soon after any work has
 * ended, and otherwise at intervals that grow from 20 us to 2 ms of real time.
 */
#include <assert.h>
#include <string.h>

#include "worker/internal.h"

#define VALUE_PAUSE_MIN_NS (20 * DS_NS_PER_US)
#define VALUE_PAUSE_MAX_NS (2 * DS_NS_PER_MS)

static int value_holds(const struct dsw_op *op, uint64_t there)
{
        uint64_t mask = op->value_bytes == 4 ? UINT32_MAX : UINT64_MAX, value = op->value & mask;

        there &= mask;
        switch ((enum ds_value_kind)op->value_kind) {
        case DS_VALUE_GEQ:
                return op->value_bytes == 4 ? (int32_t)(uint32_t)(there - value) >= 0 : (int64_t)(there - value) >= 0;
        case DS_VALUE_EQ:
                return there == value;
        case DS_VALUE_AND:
                return (there & value) != 0;
        case DS_VALUE_NOR:
                return (~(there | value) & mask) != 0;
        case DS_VALUE_WRITE:
        case _DS_VALUE_KIND_MAX:
                break;
        }
        assert(0 && "unknown kind of wait");
        return 1;
}

/* Reads a word of pinned memory or of the bounce buffer. The worker maps both at the addresses that the device uses. */
static uint64_t value_read(uint64_t address, uint32_t bytes)
{
        const void *p = (const void *)(uintptr_t)address;

        return bytes == 4 ? __atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE)
                          : __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE);
}

static int value_is_pinned(const struct dsw_op *op)
{
        return dsw_memory_where(op->session, op->address, op->value_bytes) == DSW_WHERE_PINNED;
}

int dsw_value_due(struct dsw_op *op)
{
        struct dsw_session *session = op->session;

        if (value_is_pinned(op) && value_holds(op, value_read(op->address, op->value_bytes)))
                return 1;
        DL_APPEND2(session->values, op, due_prev, due_next);
        op->due = DSW_DUE_WAITING;
        session->worker->n_values++;
        session->probe.pause_ns = session->probe.wall_ns = 0;
        return 0;
}

void dsw_value_forget(struct dsw_op *op)
{
        struct dsw_session *session = op->session;

        if (session->probe.target == op)
                session->probe.target = NULL;
        if (op->due != DSW_DUE_WAITING)
                return;
        op->due = DSW_DUE_NOT;
        DL_DELETE2(session->values, op, due_prev, due_next);
        session->worker->n_values--;
}

static void value_over(struct dsw_op *op)
{
        ds_worker *worker = op->session->worker;

        dsw_value_forget(op);
        ds_sched_over(&op->op, worker->now_ns);
        worker->sched_due = 1;
}

/* --- probes ------------------------------------------------------------------------------------------------------- */

/* Submits a probe for a waiting operation. Returns 0, or an error of this attempt, which the worker repeats later. */
static int probe_submit(struct dsw_session *session, struct dsw_op *target)
{
        struct dsw_probe *probe = &session->probe;
        uint64_t bounce;
        struct dsw_op *op;

        if (!probe->coroutine && ds_coroutine_new(session->sched, 0, 0, 0, &probe->coroutine)) {
                probe->coroutine = NULL;
                return -1;
        }
        if (dsw_memory_bounce_alloc(session, sizeof(uint64_t), &bounce))
                return -1;
        op = dsw_op_new(session, DS_OP_COPY, 0);
        if (!op) {
                dsw_memory_bounce_free(session, bounce);
                return -1;
        }
        op->bounce = bounce;
        op->op.copy = (struct ds_copy){
                .space = session->space,
                .kind = DS_COPY_DTOH,
                .dst = bounce,
                .src = target->address,
                .width = target->value_bytes,
                .height = 1,
                .dst_pitch = target->value_bytes,
                .src_pitch = target->value_bytes,
        };
        if (ds_sched_submit(probe->coroutine, &op->op, session->worker->now_ns)) {
                dsw_memory_bounce_free(session, bounce);
                dsw_op_free(op);
                return -1;
        }
        probe->op = op;
        probe->target = target;
        session->worker->live_ops++;
        session->worker->sched_due = 1;
        return 0;
}

void dsw_value_probed(struct dsw_op *op, int status)
{
        struct dsw_session *session = op->session;
        struct dsw_op *target = session->probe.target;
        uint64_t there;

        assert(session->probe.op == op);
        session->probe.op = session->probe.target = NULL;
        session->worker->live_ops--;
        if (target && status) {
                dsw_session_fail(session, status, "a value that a stream waits for cannot be read");
        } else if (target) {
                there = value_read(op->bounce, target->value_bytes);
                if (value_holds(target, there)) {
                        value_over(target);
                } else {
                        /* the value is not reached yet, so the next probe serves the next wait of the session */
                        DL_DELETE2(session->values, target, due_prev, due_next);
                        DL_APPEND2(session->values, target, due_prev, due_next);
                }
        }
        dsw_memory_bounce_free(session, op->bounce);
        dsw_op_free(op);
        dsw_session_dirty(session);
}

void dsw_value_reset(struct dsw_session *session)
{
        assert(!session->probe.op && !session->values);
        session->probe = (struct dsw_probe){.coroutine = NULL};
}

/* --- checking values ---------------------------------------------------------------------------------------------- */

static size_t value_look(struct dsw_session *session)
{
        struct dsw_op *op, *next, *far = NULL;
        size_t n = 0, looks = 0;

        DL_FOREACH_SAFE2(session->values, op, next, due_next)
        {
                enum dsw_where where = dsw_memory_where(session, op->address, op->value_bytes);

                looks++;
                if (where == DSW_WHERE_NOWHERE) {
                        dsw_session_fail(session, DS_CUDA_ILLEGAL_ADDRESS, "a value that a stream waits for is gone");
                        return n;
                }
                if (where == DSW_WHERE_DEVICE)
                        far = far ? far : op;
                else if (value_holds(op, value_read(op->address, op->value_bytes)))
                        value_over(op), n++;
        }
        if (far && !session->probe.op && !session->error)
                probe_submit(session, far);
        dsw_turns_spend_looks(session, looks);
        return n;
}

void dsw_value_serve(struct dsw_session *session)
{
        if (session->values && session->state == DSW_SESSION_OPEN)
                value_look(session);
}

/*
 * Whether the session may check its values now, within the user's share of checks per round. Sessions of the user that
 * had no check in this round come first in the next one.
 */
static int value_may_look(struct dsw_session *session)
{
        struct dsw_user *user = session->user;

        if (session->value_pass == user->value_pass)
                return 0;
        if (dsw_turns_looks(session))
                return 1;
        user->value_spent = 1;
        return 0;
}

static void value_round_over(ds_worker *worker)
{
        struct dsw_user *user;

        for (user = worker->users; user; user = user->hh.next) {
                user->value_pass += !user->value_spent;
                user->value_spent = 0;
        }
}

size_t dsw_value_step(ds_worker *worker)
{
        struct dsw_session *session;
        uint64_t wall;
        size_t n = 0;

        if (!worker->n_values)
                return 0;
        wall = worker->wall_ns();
        for (session = worker->sessions; session; session = session->hh.next) {
                struct dsw_probe *probe = &session->probe;

                if (!session->values || session->state != DSW_SESSION_OPEN || !value_may_look(session))
                        continue;
                if (probe->seen_completed != worker->totals.completed)
                        probe->pause_ns = 0;
                if (probe->pause_ns && wall < probe->wall_ns)
                        continue;
                probe->seen_completed = worker->totals.completed;
                probe->pause_ns = DS_MIN(DS_MAX(probe->pause_ns * 2, VALUE_PAUSE_MIN_NS), VALUE_PAUSE_MAX_NS);
                probe->wall_ns = wall + probe->pause_ns;
                n += value_look(session);
                session->value_pass = session->user->value_pass;
        }
        value_round_over(worker);
        return n;
}

uint64_t dsw_value_wait_ns(const ds_worker *worker)
{
        const struct dsw_session *session;
        uint64_t wait = UINT64_MAX, wall;

        if (!worker->n_values)
                return UINT64_MAX;
        wall = worker->wall_ns();
        for (session = worker->sessions; session; session = session->hh.next) {
                if (session->values && session->state == DSW_SESSION_OPEN)
                        wait = DS_MIN(wait, session->probe.wall_ns - DS_MIN(session->probe.wall_ns, wall));
        }
        return wait;
}
