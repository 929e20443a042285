/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quiesce: the only time for calls that stop the whole context
 *
 * Where the device says `stops`, a call marked [stops] in device.h made beside a running kernel freezes everybody until
 * that kernel ends. So it is made only when nothing is in flight. Who needs one asks dsw_quiesce_may(); told no, it
 * does nothing yet, its session is on the list, and it is started again in the next quiesce:
 *
 *      OPEN --somebody waits, and it is time--> DRAINING --BE has ended--> GAP --no LS work, or 20 ms--> EMPTYING
 *        ^                                      BE held                    BE held                      all held
 *        +--------------------------------- all that wait go, in one go <------- nothing is in flight ----+
 *
 * An LS session never waits for another one's rate; what BE sessions need happens at most five times a second while
 * LS is active, and for a few milliseconds each time, so that a BE client which loads modules in a loop does not own
 * the GPU. What nobody waits for (chores: unregistering pinned memory that was given back, what the device put off)
 * goes along with any quiesce, or when all is idle, or when there is too much of it or it is too old.
 *
 * Times are the device's, so that virtual time neither passes over a quiesce that is due nor waits for one; only the
 * chores, which nobody measures, and the length of the stop itself go by real time. Within a session requests
 * keep their order: one that waits here holds those behind it, and the ring behind those.
 */
#include <assert.h>

#include "worker/internal.h"

#define QUIESCE_EVERY_NS (200 * DS_NS_PER_MS) /* at most one in this time for BE's sake while LS is active */
#define QUIESCE_GAP_NS (20 * DS_NS_PER_MS)    /* that LS work may keep a quiesce waiting once BE has drained */
#define QUIESCE_LS_NS (50 * DS_NS_PER_MS)     /* LS is active this long after its last sign of life */
#define QUIESCE_RUN_NS (5 * DS_NS_PER_MS)     /* no BE session's call begins later than this in a stop, beside LS */
#define QUIESCE_CHORES_MAX 64u                /* pieces; more are worth a quiesce of their own */
#define QUIESCE_CHORES_NS (5 * DS_NS_PER_S)   /* real time; older ones too */

#define HELD_BE (1u << DETSHARE_CLASS_BE)
#define HELD_ALL (HELD_BE | 1u << DETSHARE_CLASS_LS)

/* --- who waits ---------------------------------------------------------------------------------------------------- */

static void quiesce_enlist(struct dsw_session *session)
{
        struct dsw_quiesce *quiesce = &session->worker->quiesce;

        if (session->waits_stop)
                return;
        session->waits_stop = 1;
        DL_APPEND2(quiesce->waiting, session, stop_prev, stop_next);
}

void dsw_quiesce_forget(struct dsw_session *session)
{
        if (!session->waits_stop)
                return;
        session->waits_stop = 0;
        DL_DELETE2(session->worker->quiesce.waiting, session, stop_prev, stop_next);
}

int dsw_quiesce_runs(const ds_worker *worker)
{
        return !worker->info->stops || worker->quiesce.running;
}

static int quiesce_ls_active(const ds_worker *worker)
{
        uint32_t in_flight, all;

        ds_sched_load(worker->sched, DETSHARE_CLASS_LS, &in_flight, &all);
        if (all)
                return 1;
        return worker->ls_active_wall_ns && worker->now_ns - worker->ls_active_ns < QUIESCE_LS_NS;
}

/* LS would be kept waiting too long by one more call of a BE session. */
static int quiesce_run_is_long(const struct dsw_session *session)
{
        ds_worker *worker = session->worker;

        return session->class_ != DETSHARE_CLASS_LS && worker->quiesce.beside_ls && worker->quiesce.begun &&
               worker->wall_ns() - worker->quiesce.run_wall_ns > QUIESCE_RUN_NS;
}

int dsw_quiesce_may(struct dsw_session *session)
{
        struct dsw_quiesce *quiesce = &session->worker->quiesce;

        if (!session->worker->info->stops)
                return 1;
        if (quiesce->running && !quiesce_run_is_long(session)) {
                quiesce->begun = 1;
                return 1;
        }
        quiesce_enlist(session);
        return 0;
}

void dsw_quiesce_chore(ds_worker *worker)
{
        if (dsw_quiesce_runs(worker) || worker->quiesce.chores_wall_ns)
                return;
        if (worker->n_gone || worker->ops->put_off(worker->device))
                worker->quiesce.chores_wall_ns = DS_MAX(worker->wall_ns(), (uint64_t)1);
}

/* --- is it time? -------------------------------------------------------------------------------------------------- */

static int quiesce_chores_press(const ds_worker *worker)
{
        const struct dsw_quiesce *quiesce = &worker->quiesce;

        if (!quiesce->chores_wall_ns)
                return 0;
        return worker->n_gone + worker->ops->put_off(worker->device) > QUIESCE_CHORES_MAX ||
               worker->wall_ns() - quiesce->chores_wall_ns >= QUIESCE_CHORES_NS;
}

/* Nothing runs or waits to run, and LS has been away for a while: the chores cost nobody anything. */
static int quiesce_chores_are_free(const ds_worker *worker)
{
        if (!worker->quiesce.chores_wall_ns || worker->live_ops)
                return 0;
        return !worker->ls_active_wall_ns || worker->wall_ns() - worker->ls_active_wall_ns >= QUIESCE_LS_NS;
}

static int quiesce_ls_waits(const ds_worker *worker)
{
        const struct dsw_session *session;

        DL_FOREACH2(worker->quiesce.waiting, session, stop_next)
        {
                if (session->class_ == DETSHARE_CLASS_LS)
                        return 1;
        }
        return 0;
}

/* The device time at which a quiesce for BE's sake may begin. */
static uint64_t quiesce_be_turn(const ds_worker *worker)
{
        const struct dsw_quiesce *quiesce = &worker->quiesce;
        uint64_t turn = quiesce->count ? quiesce->last_ns + QUIESCE_EVERY_NS : 0, quiet;
        uint32_t in_flight, all;

        if (turn <= worker->now_ns || !quiesce_ls_active(worker))
                return 0;
        ds_sched_load(worker->sched, DETSHARE_CLASS_LS, &in_flight, &all);
        quiet = all ? UINT64_MAX : worker->ls_active_ns + QUIESCE_LS_NS;
        return DS_MIN(turn, quiet);
}

static int quiesce_is_due(const ds_worker *worker)
{
        const struct dsw_quiesce *quiesce = &worker->quiesce;

        if (!quiesce->waiting && !quiesce->chores_wall_ns)
                return 0;
        if (quiesce_chores_are_free(worker) || quiesce_ls_waits(worker))
                return 1;
        return (quiesce->waiting || quiesce_chores_press(worker)) && quiesce_be_turn(worker) <= worker->now_ns;
}

uint64_t dsw_quiesce_next_ns(const ds_worker *worker)
{
        const struct dsw_quiesce *quiesce = &worker->quiesce;

        if (quiesce->state == DSW_QUIESCE_GAP)
                return quiesce->drained_ns + QUIESCE_GAP_NS;
        if (quiesce->state != DSW_QUIESCE_OPEN || !(quiesce->waiting || quiesce_chores_press(worker)))
                return UINT64_MAX;
        return quiesce_be_turn(worker);
}

uint64_t dsw_quiesce_wait_ns(const ds_worker *worker)
{
        const struct dsw_quiesce *quiesce = &worker->quiesce;
        uint64_t now, until;

        if (!quiesce->chores_wall_ns || quiesce->state != DSW_QUIESCE_OPEN)
                return UINT64_MAX;
        now = worker->wall_ns();
        until = quiesce->chores_wall_ns + QUIESCE_CHORES_NS;
        if (!worker->live_ops)
                until = DS_MIN(until, worker->ls_active_wall_ns + QUIESCE_LS_NS);
        /* pressing ones wait for their turn on the device clock, which the others wait for too */
        return until > now ? until - now : QUIESCE_LS_NS;
}

/* --- the stop ----------------------------------------------------------------------------------------------------- */

/* What waits for it in a session: emptying it when it closes or resets, or the requests in its queue. */
static void quiesce_serve(struct dsw_session *session)
{
        if (session->state == DSW_SESSION_OPEN) {
                session->retry = 1;
                dsw_call_start_queued(session);
        }
        dsw_session_dirty(session);
}

static void quiesce_chores(ds_worker *worker)
{
        struct dsw_session *session, *next;

        if (!worker->quiesce.chores_wall_ns)
                return;
        HASH_ITER(hh, worker->sessions, session, next)
        dsw_memory_sweep(session);
        if (worker->ops->put_off(worker->device))
                worker->ops->put_off_do(worker->device);
        worker->quiesce.chores_wall_ns = 0;
}

/* Those of one class, in the order in which they asked. Who asks meanwhile waits for the next time. */
static void quiesce_serve_class(ds_worker *worker, enum detshare_class class_)
{
        struct dsw_session *session, *next, *last = worker->quiesce.waiting ? worker->quiesce.waiting->stop_prev : NULL;

        for (session = worker->quiesce.waiting; session; session = session == last ? NULL : next) {
                next = session->stop_next;
                if (session->class_ != class_)
                        continue;
                dsw_quiesce_forget(session);
                quiesce_serve(session);
        }
}

static void quiesce_run(ds_worker *worker)
{
        struct dsw_quiesce *quiesce = &worker->quiesce;

        quiesce->running = 1;
        quiesce->begun = 0;
        quiesce->beside_ls = quiesce_ls_active(worker);
        quiesce->run_wall_ns = worker->wall_ns();
        quiesce_serve_class(worker, DETSHARE_CLASS_LS);
        quiesce_serve_class(worker, DETSHARE_CLASS_BE);
        dsw_settle(worker);
        quiesce_chores(worker);
        quiesce->running = 0;
        quiesce->count++;
}

static void quiesce_open(ds_worker *worker)
{
        struct dsw_quiesce *quiesce = &worker->quiesce;

        ds_sched_hold(worker->sched, 0, worker->now_ns);
        worker->sched_due = 1;
        quiesce->state = DSW_QUIESCE_OPEN;
        worker->now_ns = worker->ops->now(worker->device);
        quiesce->last_ns = worker->now_ns;
        quiesce->total_ns += worker->wall_ns() - quiesce->held_wall_ns;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static void quiesce_close(ds_worker *worker)
{
        struct dsw_quiesce *quiesce = &worker->quiesce;

        quiesce->state = DSW_QUIESCE_DRAINING;
        quiesce->held_wall_ns = worker->wall_ns();
        ds_sched_hold(worker->sched, HELD_BE, worker->now_ns);
        worker->sched_due = 1;
}

/* As far as it goes without waiting. 1 when it moved. */
static int quiesce_move(ds_worker *worker)
{
        struct dsw_quiesce *quiesce = &worker->quiesce;
        uint32_t be, be_all, ls, ls_all;

        ds_sched_load(worker->sched, DETSHARE_CLASS_BE, &be, &be_all);
        ds_sched_load(worker->sched, DETSHARE_CLASS_LS, &ls, &ls_all);
        switch (quiesce->state) {
        case DSW_QUIESCE_DRAINING:
                if (be)
                        return 0;
                quiesce->state = DSW_QUIESCE_GAP;
                quiesce->drained_ns = worker->now_ns;
                return 1;
        case DSW_QUIESCE_GAP:
                if (ls_all && worker->now_ns - quiesce->drained_ns < QUIESCE_GAP_NS)
                        return 0;
                quiesce->state = DSW_QUIESCE_EMPTYING;
                ds_sched_hold(worker->sched, HELD_ALL, worker->now_ns);
                return 1;
        case DSW_QUIESCE_EMPTYING:
                if (be || ls)
                        return 0;
                quiesce_run(worker);
                quiesce_open(worker);
                return 1;
        case DSW_QUIESCE_OPEN:
        case _DSW_QUIESCE_STATE_MAX:
                break;
        }
        return 0;
}

int dsw_quiesce_step(ds_worker *worker)
{
        struct dsw_quiesce *quiesce = &worker->quiesce;
        int moved = 0;

        if (quiesce->state == DSW_QUIESCE_OPEN) {
                if (!quiesce_is_due(worker))
                        return 0;
                quiesce_close(worker);
                moved = 1;
        } else if (!quiesce->waiting && !quiesce->chores_wall_ns) {
                quiesce_open(worker); /* whoever wanted it is gone */
                return 1;
        }
        while (quiesce->state != DSW_QUIESCE_OPEN && quiesce_move(worker))
                moved = 1;
        return moved;
}
