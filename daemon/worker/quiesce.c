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
 * What BE sessions need must not be seen in the 99th percentile of LS's requests, whoever loads modules in a loop: less
 * than one of a hundred requests may meet a stop. Of requests that come at any time those meet it that come while LS is
 * held, d long, or are under way when that begins; and a stop begins when LS has had nothing to do for a moment,
 * between requests and not between the kernels of one. So after a stop the next one waits while LS is active:
 *
 *  - of at most 0.5 ms, 100 d, at least 20 ms: LS is held for 1 % of the time at most, so about one request of a
 * hundred comes then, and it waits for 0.5 ms at most: that is all by which the 99th percentile can grow. A program
 * that starts needs hundreds of such stops, one for the code of each library, most of 0.1 ms;
 *  - of a longer one 200 d, between 0.1 and 2 s: that meets one request of two hundred.
 *
 * All that wait go in the same stop, one after the other until it has lasted 1.5 ms; the others go in the next. An LS
 * session never waits for this rate. Where LS sessions have nothing to do a stop lasts 5 ms, since one of them may come
 * at any moment, and the next one may follow at once; where there are none, as long as there is something to do.
 *
 * What nobody waits for (chores: unregistering pinned memory that was given back or whose session is gone, what the
 * device put off) goes along with a stop that has been short so far, or when all is idle, or when there is too much of
 * it or it is too old. Then it has stops of its own, at the same rate and of the same length, and one piece of it is
 * done in each, whatever goes before it; where it is very much, which must not grow without end, it has up to 20 ms of
 * each.
 *
 * Times are the device's, so that virtual time neither passes over a quiesce that is due nor waits for one; only the
 * chores, which nobody measures, and the length of the stop itself go by real time. Within a session requests
 * keep their order: one that waits here holds those behind it, and the ring behind those.
 */
#include <assert.h>

#include "worker/internal.h"

#define QUIESCE_PAUSE 200 /* times as long as LS was held, before the next for BE's sake */
#define QUIESCE_PAUSE_MIN_NS (100 * DS_NS_PER_MS)
#define QUIESCE_PAUSE_SHORT 100 /* the same, after a short one */
#define QUIESCE_PAUSE_SHORT_MIN_NS (20 * DS_NS_PER_MS)
#define QUIESCE_PAUSE_MAX_NS (2 * DS_NS_PER_S)
#define QUIESCE_QUIET_NS (100 * DS_NS_PER_US) /* without LS work: the next kernel of a request comes sooner */
#define QUIESCE_GAP_NS (20 * DS_NS_PER_MS)    /* that LS work may keep a quiesce waiting once BE has drained */
#define QUIESCE_LS_NS (50 * DS_NS_PER_MS)     /* LS is active this long after its last sign of life */
#define QUIESCE_RUN_NS (1500 * DS_NS_PER_US)  /* no BE session's call begins later than this in a stop, beside LS */
#define QUIESCE_SHORT_NS (500 * DS_NS_PER_US) /* and no chore later than this: so long is a short one */
#define QUIESCE_IDLE_NS (5 * DS_NS_PER_MS)    /* neither, while LS has nothing to do */
#define QUIESCE_CHORES_MAX 64u                /* pieces; more are worth a quiesce of their own */
#define QUIESCE_CHORES_MANY 512u              /* more than these are worth a long one */
#define QUIESCE_MANY_NS (20 * DS_NS_PER_MS)
#define QUIESCE_CHORES_NS (5 * DS_NS_PER_S) /* real time; older ones are worth one too */

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

        return session->class_ != DETSHARE_CLASS_LS && worker->quiesce.begun &&
               worker->wall_ns() - worker->quiesce.run_wall_ns > worker->quiesce.bound_ns;
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

static size_t quiesce_n_chores(const ds_worker *worker)
{
        return worker->n_gone + worker->ops->put_off(worker->device);
}

void dsw_quiesce_chore(ds_worker *worker)
{
        if (dsw_quiesce_runs(worker) || worker->quiesce.chores_wall_ns)
                return;
        if (quiesce_n_chores(worker))
                worker->quiesce.chores_wall_ns = DS_MAX(worker->wall_ns(), (uint64_t)1);
}

/* --- is it time? -------------------------------------------------------------------------------------------------- */

static int quiesce_chores_press(const ds_worker *worker)
{
        const struct dsw_quiesce *quiesce = &worker->quiesce;

        if (!quiesce->chores_wall_ns)
                return 0;
        return quiesce->chores_go_on || quiesce_n_chores(worker) > QUIESCE_CHORES_MAX ||
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
        uint64_t turn = quiesce->count ? quiesce->last_ns + quiesce->pause_ns : 0, quiet;
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

/* The device time at which all may be held: a moment after LS's last work, and not for ever later. */
static uint64_t quiesce_gap_end(const ds_worker *worker)
{
        uint64_t end = worker->quiesce.drained_ns + QUIESCE_GAP_NS;
        uint32_t in_flight, all;

        ds_sched_load(worker->sched, DETSHARE_CLASS_LS, &in_flight, &all);
        if (all)
                return end;
        if (!worker->ls_active_wall_ns)
                return 0;
        return DS_MIN(end, DS_MAX(worker->ls_active_ns, worker->ls_end_ns) + QUIESCE_QUIET_NS);
}

uint64_t dsw_quiesce_next_ns(const ds_worker *worker)
{
        const struct dsw_quiesce *quiesce = &worker->quiesce;

        if (quiesce->state == DSW_QUIESCE_GAP)
                return quiesce_gap_end(worker);
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

/* What waits for it in a session: emptying it when it closes or resets, restoring it, or the requests in its queue. */
static void quiesce_serve(struct dsw_session *session)
{
        dsw_control_resume(session);
        if (session->state == DSW_SESSION_OPEN) {
                session->retry = 1;
                dsw_call_start_queued(session);
        }
        dsw_value_serve(session);
        dsw_forms_resume(session);
        dsw_session_dirty(session);
}

/* One piece. 0: there is none. */
static int quiesce_chore_do(ds_worker *worker)
{
        struct dsw_session *session;

        if (worker->ops->put_off(worker->device)) {
                worker->ops->put_off_do(worker->device);
                return 1;
        }
        for (session = worker->n_gone ? worker->sessions : NULL; session; session = session->hh.next) {
                if (dsw_memory_sweep(session))
                        return 1;
        }
        return 0;
}

/*
 * May one more be begun, when so many were done since? Where they press a stop has one at least, and where they are
 * very many what BE's calls took is not theirs: else calls that take longer than a stop may last, in each, would be
 * before all of them for ever.
 */
static int quiesce_chores_may(const ds_worker *worker, int press, uint32_t n_done, uint64_t since_wall_ns)
{
        const struct dsw_quiesce *quiesce = &worker->quiesce;
        const uint64_t now = worker->wall_ns(), lasted = now - quiesce->run_wall_ns;

        if (press && !n_done)
                return 1;
        if (!quiesce->beside_ls)
                return lasted < quiesce->bound_ns;
        if (quiesce_n_chores(worker) > QUIESCE_CHORES_MANY)
                return now - since_wall_ns < QUIESCE_MANY_NS;
        return lasted < (press ? QUIESCE_RUN_NS : QUIESCE_SHORT_NS);
}

/* As much as the stop has time for. */
static void quiesce_chores(ds_worker *worker)
{
        struct dsw_quiesce *quiesce = &worker->quiesce;
        const int press = quiesce_chores_press(worker);
        const uint64_t since_wall_ns = worker->wall_ns();
        uint32_t n_done = 0;

        while (quiesce_n_chores(worker) && quiesce_chores_may(worker, press, n_done, since_wall_ns) &&
                quiesce_chore_do(worker))
                n_done++;
        dsw_settle(worker);
        quiesce->chores_go_on = 0;
        if (!quiesce_n_chores(worker)) {
                quiesce->chores_wall_ns = 0;
        } else if (n_done) {
                quiesce->chores_wall_ns = DS_MAX(worker->wall_ns(), (uint64_t)1);
                quiesce->chores_go_on = !quiesce->beside_ls; /* only LS that comes is to be let in between */
        }
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

/* LS was held while the rest ended, in the device's time, and while the calls were made, in which that may stand. */
static uint64_t quiesce_pause_ns(const ds_worker *worker)
{
        const struct dsw_quiesce *quiesce = &worker->quiesce;
        uint64_t held = quiesce->run_ns - quiesce->empty_ns + (worker->wall_ns() - quiesce->run_wall_ns);

        if (!quiesce->beside_ls)
                return QUIESCE_PAUSE_SHORT_MIN_NS;
        if (held <= QUIESCE_SHORT_NS)
                return DS_MAX(QUIESCE_PAUSE_SHORT * held, QUIESCE_PAUSE_SHORT_MIN_NS);
        held = DS_MIN(held, QUIESCE_PAUSE_MAX_NS);
        return DS_MIN(DS_MAX(QUIESCE_PAUSE * held, QUIESCE_PAUSE_MIN_NS), QUIESCE_PAUSE_MAX_NS);
}

/* How long the stop may have lasted when BE's next call is begun. */
static uint64_t quiesce_bound(const ds_worker *worker)
{
        const struct dsw_session *session;

        if (worker->quiesce.beside_ls)
                return QUIESCE_RUN_NS;
        for (session = worker->sessions; session; session = session->hh.next)
                if (session->class_ == DETSHARE_CLASS_LS)
                        return QUIESCE_IDLE_NS;
        return UINT64_MAX;
}

static void quiesce_run(ds_worker *worker)
{
        struct dsw_quiesce *quiesce = &worker->quiesce;

        quiesce->running = 1;
        quiesce->begun = 0;
        quiesce->beside_ls = quiesce_ls_active(worker);
        quiesce->bound_ns = quiesce_bound(worker);
        quiesce->run_ns = worker->now_ns;
        quiesce->run_wall_ns = worker->wall_ns();
        quiesce_serve_class(worker, DETSHARE_CLASS_LS);
        quiesce_serve_class(worker, DETSHARE_CLASS_BE);
        dsw_settle(worker);
        quiesce_chores(worker);
        quiesce->running = 0;
        quiesce->count++;
        quiesce->pause_ns = quiesce_pause_ns(worker);
}

static void quiesce_open(ds_worker *worker)
{
        struct dsw_quiesce *quiesce = &worker->quiesce;

        ds_sched_hold(worker->sched, 0, worker->now_ns);
        worker->sched_due = 1;
        worker->now_ns = worker->ops->now(worker->device);
        quiesce->last_ns = worker->now_ns;
        quiesce->state = DSW_QUIESCE_OPEN;
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
        uint32_t be, ls, all;

        ds_sched_load(worker->sched, DETSHARE_CLASS_BE, &be, &all);
        ds_sched_load(worker->sched, DETSHARE_CLASS_LS, &ls, &all);
        switch (quiesce->state) {
        case DSW_QUIESCE_DRAINING:
                if (be)
                        return 0;
                quiesce->state = DSW_QUIESCE_GAP;
                quiesce->drained_ns = worker->now_ns;
                return 1;
        case DSW_QUIESCE_GAP:
                if (worker->now_ns < quiesce_gap_end(worker))
                        return 0;
                quiesce->state = DSW_QUIESCE_EMPTYING;
                quiesce->empty_ns = worker->now_ns;
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
