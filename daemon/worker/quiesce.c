/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quiesce: schedules the calls that stop the whole context
 *
 * On a device with the attribute `stops`, a call marked [stops] in device.h blocks all work until the running kernels
 * end. The worker therefore makes such calls only in a stop: a moment at which nothing is in flight. A session that
 * needs such a call calls dsw_quiesce_may(). If the result is 0, the session must do nothing yet: it is queued, and the
 * next stop starts its requests again.
 *
 *      OPEN --a session is queued, and it is time--> DRAINING --BE is empty--> GAP --no LS work, or 20 ms--> EMPTYING
 *        ^                                           BE held                   BE held                      all held
 *        +---------------------------------- all queued sessions are served <----- nothing is in flight ----+
 *
 * Goal: calls of BE sessions must not change the 99th percentile of LS requests, even if a session loads modules in a
 * loop. So fewer than 1 in 100 LS requests may meet a stop. A request meets a stop if it arrives while LS is held, for
 * a time d, or if it is running when the hold begins. A stop begins only after LS has been idle for a moment, so
 * between requests and not between the kernels of one. While LS is active, a stop for BE begins at the earlier of two
 * times:
 *
 *  - as soon as it is worth its risk (stop_cost.h): the next LS request probably comes later than the stop's end, and
 *    few of the last requests met a stop. A program that starts needs hundreds of stops, one per library's code, most
 *    of 0.1 ms. Beside most services they follow each other at once, in the idle time between requests;
 *  - 200 d after the last stop, at least 20 ms and at most 2 s. LS is held for at most 0.5 % of the time, so about 1 in
 *    200 requests arrives during a stop. So BE progresses even if LS is always busy; then each stop delays the request
 *    that runs, too.
 *
 * A stop of the second kind also waits for a good moment: until its risk is at most as high as right after a request.
 *
 * One stop serves all queued sessions in order, until it has lasted 1.5 ms, until an LS request has arrived, or until
 * the next call is not worth its risk; the rest wait for the next stop. LS sessions are exempt from these rules. If LS
 * sessions exist but have been idle for 50 ms, a stop lasts up to 5 ms or until LS work arrives, and the next stop may
 * follow at once. After stops have delayed too many requests nevertheless, LS must have been idle for 1 s instead.
 * Without LS sessions a stop lasts until all work is done.
 *
 * Background work ("chores" in names) is work that no session waits for: unregistering pinned memory that was freed or
 * whose session has closed, and calls that the device deferred. It runs in a stop that has been short so far, or while
 * the device is idle. Much of it waits for a moment without any activity of a session: one piece may take 20 ms
 * (unregistering 1 GiB), during which the worker answers nobody. Too many pieces or bytes, or too old ones, get stops
 * of their own, of the second kind and of the same length, with at least one piece in each. A backlog of more than
 * QUIESCE_CHORES_MANY pieces gets up to 20 ms per stop, so that it cannot grow without bound.
 *
 * Times are device times, so that virtual time neither skips a due quiesce nor waits for one. Only background work and
 * the length of a stop use real time. Requests of one session keep their order: a request that waits here blocks later
 * ones of its session, and its ring.
 */
#include <assert.h>
#include <unistd.h>

#include "worker/internal.h"
#include "worker/later.h"
#include "worker/repeat.h"

/* interval to the next stop for BE that need not be worth its risk, as a multiple of the time for which LS was held */
#define QUIESCE_PAUSE 200
#define QUIESCE_PAUSE_MIN_NS (20 * DS_NS_PER_MS)
#define QUIESCE_PAUSE_MAX_NS (2 * DS_NS_PER_S)
/* longest time for which LS work may delay a quiesce after BE has drained */
#define QUIESCE_GAP_NS (20 * DS_NS_PER_MS)
#define QUIESCE_LS_NS (50 * DS_NS_PER_MS) /* LS counts as active this long after its last activity */
/* the same after stops have delayed more requests than the budget for hits allows */
#define QUIESCE_LS_LONG_NS DS_NS_PER_S
/* while LS is active, no call of a BE session begins later than this after the beginning of a stop */
#define QUIESCE_RUN_NS (1500 * DS_NS_PER_US)
/* bound of a short stop; background work begins no later than this in a stop */
#define QUIESCE_SHORT_NS (500 * DS_NS_PER_US)
/* both bounds (of BE's calls and of background work) while LS sessions are idle */
#define QUIESCE_IDLE_NS (5 * DS_NS_PER_MS)
/* pieces of background work; with more of them, background work gets a stop of its own */
#define QUIESCE_CHORES_MAX 64u
/* pieces of background work; with more of them, a stop may last QUIESCE_MANY_NS */
#define QUIESCE_CHORES_MANY 512u
#define QUIESCE_MANY_NS (20 * DS_NS_PER_MS)
#define QUIESCE_CHORES_NS (5 * DS_NS_PER_S) /* real time; older background work gets a stop of its own */
/* freed bytes that are still registered; with more of them, or more than an eighth of the RAM, background work gets a
 * stop of its own */
#define QUIESCE_CHORES_BYTES DS_GIB(4)
#define QUIESCE_CHORES_RAM 8
/* freed bytes that are still registered; more of them are unregistered only after QUIESCE_CALM_NS of real time without
 * activity of any session, or if background work is urgent, or if a session closes */
#define QUIESCE_FEW_BYTES DS_MIB(32)
#define QUIESCE_CALM_NS (10 * DS_NS_PER_MS)

#define HELD_BE (1u << DETSHARE_CLASS_BE)
#define HELD_ALL (HELD_BE | 1u << DETSHARE_CLASS_LS)

/* --- the queue of sessions ---------------------------------------------------------------------------------------- */

static void quiesce_enlist(struct dsw_session *session, unsigned class_)
{
        struct dsw_quiesce *quiesce = &session->worker->quiesce;

        if (session->waits_stop)
                return;
        session->waits_stop = 1;
        session->stop_class = class_;
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

/* Time for which LS counts as active after its last activity. */
static uint64_t quiesce_ls_ns(const ds_worker *worker)
{
        return dsw_stop_cost_overdrawn(&worker->quiesce.cost) ? QUIESCE_LS_LONG_NS : QUIESCE_LS_NS;
}

static int quiesce_ls_active(const ds_worker *worker)
{
        uint32_t in_flight, all;

        ds_sched_load(worker->sched, DETSHARE_CLASS_LS, &in_flight, &all);
        if (all)
                return 1;
        return worker->ls_active_wall_ns && worker->now_ns - worker->ls_active_ns < quiesce_ls_ns(worker);
}

/* Device time since which LS is idle, if it is. */
static uint64_t quiesce_idle_since(const ds_worker *worker)
{
        return DS_MAX(worker->ls_active_ns, worker->ls_end_ns);
}

/* Whether the session is LS and has submitted work that the worker has not read, and that waits for nothing else. */
static int quiesce_ls_unread(const struct dsw_session *session)
{
        if (session->class_ != DETSHARE_CLASS_LS || session->state != DSW_SESSION_OPEN || !session->ring)
                return 0;
        return !session->stalled && !session->queue &&
               atomic_load_explicit(&session->ring->tail, memory_order_relaxed) != session->head;
}

static int quiesce_ls_came(const ds_worker *worker)
{
        const struct dsw_session *session;

        for (session = worker->sessions; session; session = session->hh.next)
                if (quiesce_ls_unread(session))
                        return 1;
        return 0;
}

/* Class of the call that the next stop makes first. */
static unsigned quiesce_next_class(const ds_worker *worker)
{
        const struct dsw_session *first = worker->quiesce.waiting;

        return first ? first->stop_class : dsw_stop_class(DSW_STOP_OTHER, 0);
}

/* Whether a further call in this stop is worth its risk. `lasted`: real time since the begin of the stop. */
static int quiesce_is_worth(const ds_worker *worker, unsigned class_, uint64_t lasted)
{
        const struct dsw_quiesce *quiesce = &worker->quiesce;
        const uint64_t idle = quiesce->run_ns - quiesce_idle_since(worker) + lasted;

        return dsw_stop_cost_moment(&quiesce->cost, class_, idle, quiesce->limit) == idle;
}

/* Whether another call of a BE session would probably delay LS, or for too long. */
static int quiesce_run_is_long(const struct dsw_session *session, unsigned class_)
{
        ds_worker *worker = session->worker;
        const struct dsw_quiesce *quiesce = &worker->quiesce;
        const uint64_t lasted = worker->wall_ns() - quiesce->run_wall_ns;

        if (session->class_ == DETSHARE_CLASS_LS || !quiesce->n_calls)
                return 0;
        if (lasted > quiesce->bound_ns || (quiesce->bound_ns != UINT64_MAX && quiesce_ls_came(worker)))
                return 1;
        return quiesce->beside_ls && !quiesce_is_worth(worker, class_, lasted);
}

/* Learns how long the latest call of this stop has taken, if it has not ended before. */
static void quiesce_call_ends(ds_worker *worker)
{
        struct dsw_quiesce *quiesce = &worker->quiesce;

        if (quiesce->call_wall_ns)
                dsw_stop_cost_call(&quiesce->cost, quiesce->call_class, worker->wall_ns() - quiesce->call_wall_ns);
        quiesce->call_wall_ns = 0;
}

int dsw_quiesce_may_do(struct dsw_session *session, enum dsw_stop_kind kind, uint64_t bytes)
{
        ds_worker *worker = session->worker;
        struct dsw_quiesce *quiesce = &worker->quiesce;
        const unsigned class_ = dsw_stop_class(kind, bytes);

        if (!worker->info->stops)
                return 1;
        if (quiesce->running) {
                quiesce_call_ends(worker);
                if (!quiesce_run_is_long(session, class_)) {
                        quiesce->n_calls++;
                        quiesce->for_be |= session->class_ != DETSHARE_CLASS_LS;
                        quiesce->call_class = class_;
                        quiesce->call_wall_ns = DS_MAX(worker->wall_ns(), (uint64_t)1);
                        return 1;
                }
        }
        quiesce_enlist(session, class_);
        return 0;
}

int dsw_quiesce_may(struct dsw_session *session)
{
        return dsw_quiesce_may_do(session, DSW_STOP_OTHER, 0);
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

/* --- the time of the next stop ------------------------------------------------------------------------------------ */

static uint64_t quiesce_gone_most(void)
{
        static uint64_t most; /* 0: not computed yet */
        long pages = most ? 0 : sysconf(_SC_PHYS_PAGES);

        if (!most)
                most = DS_MIN(QUIESCE_CHORES_BYTES,
                        (uint64_t)DS_MAX(pages, 1L) * (uint64_t)sysconf(_SC_PAGESIZE) / QUIESCE_CHORES_RAM);
        return most;
}

static int quiesce_chores_press(const ds_worker *worker)
{
        const struct dsw_quiesce *quiesce = &worker->quiesce;

        if (!quiesce->chores_wall_ns)
                return 0;
        return quiesce->chores_go_on || quiesce_n_chores(worker) > QUIESCE_CHORES_MAX ||
               worker->gone_bytes > quiesce_gone_most() ||
               worker->wall_ns() - quiesce->chores_wall_ns >= QUIESCE_CHORES_NS;
}

/* Whether a session that closed still has pinned memory: until that is gone, its user is charged for it. */
static int quiesce_session_leaves(const ds_worker *worker)
{
        const struct dsw_session *session;

        for (session = worker->sessions; session; session = session->hh.next) {
                if (session->state == DSW_SESSION_CLOSING && session->memory.n_gone)
                        return 1;
        }
        return 0;
}

/* Whether background work need not wait for a calm moment. */
static int quiesce_chores_are_few(const ds_worker *worker)
{
        return worker->gone_bytes <= QUIESCE_FEW_BYTES || quiesce_session_leaves(worker);
}

/* Real time from which background work delays nobody, if nothing happens until then. */
static uint64_t quiesce_calm_wall_ns(const ds_worker *worker)
{
        uint64_t any = quiesce_chores_are_few(worker) ? 0 : worker->active_wall_ns + QUIESCE_CALM_NS;
        uint64_t ls = worker->ls_active_wall_ns ? worker->ls_active_wall_ns + QUIESCE_LS_NS : 0;

        return DS_MAX(any, ls);
}

/* Whether the device is idle and no session active, so that background work delays nobody. */
static int quiesce_chores_are_free(const ds_worker *worker)
{
        return worker->quiesce.chores_wall_ns && !worker->live_ops && worker->wall_ns() >= quiesce_calm_wall_ns(worker);
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

/*
 * Device time from which a stop for the queued sessions has at most this risk; UINT64_MAX: not before LS's next request.
 * LS is idle.
 */
static uint64_t quiesce_moment(const ds_worker *worker, int limit)
{
        const uint64_t since = quiesce_idle_since(worker), idle = worker->now_ns - since;
        uint64_t moment;

        if (idle < DSW_STOP_QUIET_NS)
                return since + DSW_STOP_QUIET_NS;
        moment = dsw_stop_cost_moment(&worker->quiesce.cost, quiesce_next_class(worker), idle, limit);
        return moment == UINT64_MAX ? moment : since + moment;
}

/* Device time from which a quiesce for BE sessions may begin. */
static uint64_t quiesce_be_turn(const ds_worker *worker)
{
        const struct dsw_quiesce *quiesce = &worker->quiesce;
        uint64_t turn = quiesce->count ? quiesce->last_ns + quiesce->pause_ns : 0;
        uint32_t in_flight, all;

        if (turn <= worker->now_ns || !quiesce_ls_active(worker))
                return 0;
        ds_sched_load(worker->sched, DETSHARE_CLASS_LS, &in_flight, &all);
        if (all)
                return turn;
        turn = DS_MIN(turn, worker->ls_active_ns + quiesce_ls_ns(worker));
        return quiesce->waiting ? DS_MIN(turn, quiesce_moment(worker, dsw_stop_cost_limit(&quiesce->cost))) : turn;
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

/* Highest risk of a stop that begins now: right after a request, no moment is better for a stop that is due. */
static int quiesce_limit(const ds_worker *worker)
{
        const struct dsw_stop_cost *cost = &worker->quiesce.cost;

        return DS_MAX(dsw_stop_cost_limit(cost),
                (int)dsw_stop_cost_risk(cost, quiesce_next_class(worker), DSW_STOP_QUIET_NS));
}

/* Device time from which both classes may be held: at a good moment after LS's last work, but at most QUIESCE_GAP_NS
 * after BE has drained. */
static uint64_t quiesce_gap_end(const ds_worker *worker)
{
        uint64_t end = worker->quiesce.drained_ns + QUIESCE_GAP_NS;
        uint32_t in_flight, all;

        ds_sched_load(worker->sched, DETSHARE_CLASS_LS, &in_flight, &all);
        if (all)
                return end;
        if (!worker->ls_active_wall_ns)
                return 0;
        if (!quiesce_ls_active(worker))
                return DS_MIN(end, quiesce_idle_since(worker) + DSW_STOP_QUIET_NS);
        return DS_MIN(end, quiesce_moment(worker, quiesce_limit(worker)));
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
                until = DS_MIN(until, quiesce_calm_wall_ns(worker));
        /* urgent background work waits for the device clock, like queued sessions: check again after this time */
        return until > now ? until - now : QUIESCE_LS_NS;
}

/* --- the stop ----------------------------------------------------------------------------------------------------- */

/* Continues the session's deferred work: its close or reset, its restoring, or the requests in its queue. */
static void quiesce_serve(struct dsw_session *session)
{
        dsw_control_resume(session);
        (void)dsw_later_settle(session);
        if (session->state == DSW_SESSION_OPEN) {
                session->retry = 1;
                dsw_call_start_queued(session);
        }
        dsw_value_serve(session);
        dsw_forms_resume(session);
        dsw_repeat_serve(session);
        dsw_session_dirty(session);
}

/* Does one piece of background work. 0: there is none. */
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
 * Whether another piece of background work may begin in this stop. Urgent work (`press`) gets at least one piece per
 * stop. For a very long backlog, the time that BE's calls took in this stop does not count: otherwise calls longer than
 * a stop could block it forever.
 */
static int quiesce_chores_may(const ds_worker *worker, int press, uint32_t n_done, uint64_t since_wall_ns)
{
        const struct dsw_quiesce *quiesce = &worker->quiesce;
        const uint64_t now = worker->wall_ns(), lasted = now - quiesce->run_wall_ns;

        if (press && !n_done)
                return 1;
        if (!press && quiesce_ls_came(worker))
                return 0;
        if (!quiesce->beside_ls)
                return lasted < quiesce->bound_ns;
        if (!press && !quiesce_is_worth(worker, dsw_stop_class(DSW_STOP_CHORE, 0), lasted))
                return 0;
        if (quiesce_n_chores(worker) > QUIESCE_CHORES_MANY)
                return now - since_wall_ns < QUIESCE_MANY_NS;
        return lasted < (press ? QUIESCE_RUN_NS : QUIESCE_SHORT_NS);
}

/* Does as much background work as the stop has time for. */
static void quiesce_chores(ds_worker *worker)
{
        struct dsw_quiesce *quiesce = &worker->quiesce;
        const int press = quiesce_chores_press(worker);
        const uint64_t since_wall_ns = worker->wall_ns();
        const int may = quiesce->beside_ls || press || quiesce_chores_are_few(worker) || !quiesce->n_calls;
        uint32_t n_done = 0;

        while (may && quiesce_n_chores(worker) && quiesce_chores_may(worker, press, n_done, since_wall_ns)) {
                const uint64_t begin_wall_ns = worker->wall_ns();

                if (!quiesce_chore_do(worker))
                        break;
                dsw_stop_cost_call(
                        &quiesce->cost, dsw_stop_class(DSW_STOP_CHORE, 0), worker->wall_ns() - begin_wall_ns);
                n_done++;
        }
        dsw_settle(worker);
        quiesce->for_be |= n_done != 0;
        quiesce->chores_go_on = 0;
        if (!quiesce_n_chores(worker)) {
                quiesce->chores_wall_ns = 0;
        } else if (n_done) {
                quiesce->chores_wall_ns = DS_MAX(worker->wall_ns(), (uint64_t)1);
                /* without LS activity, the next stop continues with the rest, so that LS work that arrives gets in
                 * between */
                quiesce->chores_go_on = !quiesce->beside_ls;
        }
}

/* Serves one session and learns how long its last call takes. */
static void quiesce_serve_one(struct dsw_session *session)
{
        ds_worker *worker = session->worker;

        dsw_quiesce_forget(session);
        quiesce_serve(session);
        quiesce_call_ends(worker);
}

/* Serves the queued sessions of one class in order. Sessions that join meanwhile wait for the next stop. */
static void quiesce_serve_class(ds_worker *worker, enum detshare_class class_)
{
        struct dsw_session *session, *next, *last = worker->quiesce.waiting ? worker->quiesce.waiting->stop_prev : NULL;

        for (session = worker->quiesce.waiting; session; session = session == last ? NULL : next) {
                next = session->stop_next;
                if (session->class_ == class_)
                        quiesce_serve_one(session);
        }
}

/* Time for which this stop held LS: while the device emptied (device time) and during the calls (real time, because
 * virtual time may stand still). */
static uint64_t quiesce_held_ns(const ds_worker *worker)
{
        const struct dsw_quiesce *quiesce = &worker->quiesce;

        return quiesce->run_ns - quiesce->empty_ns + (worker->wall_ns() - quiesce->run_wall_ns);
}

/* Interval to the next stop for BE that need not be worth its risk. */
static uint64_t quiesce_pause_ns(const ds_worker *worker)
{
        const uint64_t held = DS_MIN(quiesce_held_ns(worker), QUIESCE_PAUSE_MAX_NS);

        if (!worker->quiesce.beside_ls)
                return QUIESCE_PAUSE_MIN_NS;
        return DS_MIN(DS_MAX(QUIESCE_PAUSE * held, QUIESCE_PAUSE_MIN_NS), QUIESCE_PAUSE_MAX_NS);
}

/* Number of LS sessions whose request this stop has delayed. */
static uint32_t quiesce_hits(const ds_worker *worker)
{
        const struct dsw_session *session;
        uint32_t in_flight, all, n = 0;

        ds_sched_load(worker->sched, DETSHARE_CLASS_LS, &in_flight, &all);
        for (session = worker->sessions; session; session = session->hh.next)
                n += quiesce_ls_unread(session) ||
                     (all && session->class_ == DETSHARE_CLASS_LS && session->n_live && !session->waits_stop);
        return n;
}

/* Real time after the beginning of the stop within which BE's next call must begin. */
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
        quiesce->for_be = 0;
        quiesce->n_calls = 0;
        quiesce->limit = quiesce_limit(worker);
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
        quiesce->stop_ns += quiesce_held_ns(worker);
        if (quiesce->for_be) /* LS's own stops take no turn from BE */
                quiesce->pause_ns = quiesce_pause_ns(worker);
        dsw_stop_cost_hits(&quiesce->cost, quiesce_hits(worker), quiesce->for_be);
}

static void quiesce_open(ds_worker *worker)
{
        struct dsw_quiesce *quiesce = &worker->quiesce;

        ds_sched_hold(worker->sched, 0, worker->now_ns);
        worker->sched_due = 1;
        worker->now_ns = worker->ops->now(worker->device);
        if (quiesce->for_be)
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

/* Advances by one state if its condition holds now. Returns 1 if it advanced. */
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
                /* the next round reads the rings; its LS work, if any, comes first */
                if (worker->now_ns < quiesce->drained_ns + QUIESCE_GAP_NS && quiesce_ls_came(worker))
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

void dsw_quiesce_ls_begins(ds_worker *worker)
{
        if (worker->info->stops && worker->ls_end_ns)
                dsw_stop_cost_gap(&worker->quiesce.cost, worker->now_ns - worker->ls_end_ns);
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
                quiesce_open(worker); /* the sessions that waited are gone, so there is nothing to stop for */
                return 1;
        }
        while (quiesce->state != DSW_QUIESCE_OPEN && quiesce_move(worker))
                moved = 1;
        return moved;
}
