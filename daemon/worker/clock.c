/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device clock as clients see it: declared threads, sleepers, and when virtual time may advance
 *
 * On a simulated device, virtual time stands still while any declared thread runs. All of a session's declared threads
 * are waiting when at least as many of its requests are unanswered. Requests that wait by nature count, and so do
 * requests that cannot start because the session is at a limit. A thread that waits for room in a full ring has no
 * request; a ring that cannot be read further counts instead. A host function that runs in the client counts as one
 * more declared thread, so its real duration takes no virtual time. A session that holds the clock while another one
 * needs it to advance, and shows no activity for 5 s, loses its declarations.
 *
 * A client can show activity and declare itself again without limit, in all of its sessions. So the time for which one
 * user's sessions together hold the clock, while other users have work or sleepers, is bounded: 5 s, of which the user
 * regains one quarter of the elapsed time. Beyond that, its declared threads do not hold the clock. A user without
 * other users on the device has no bound, nor has one that leaves the clock alone for three quarters of the time.
 *
 * On a GPU time passes by itself, and only sleepers need this file.
 */
#include <assert.h>
#include <errno.h>

#include "util/error.h"
#include "worker/internal.h"

#define CLOCK_SAY_NS (60 * DS_NS_PER_S) /* minimum interval of log lines about one user */

/* --- sleepers: a binary heap by wake_ns; each request stores its index -------------------------------------------- */

static void sleepers_set(ds_worker *worker, size_t i, struct dsw_call *call)
{
        worker->sleepers[i] = call;
        call->sleeper = i + 1;
}

static void sleepers_up(ds_worker *worker, size_t i)
{
        struct dsw_call *call = worker->sleepers[i];

        while (i && worker->sleepers[(i - 1) / 2]->wake_ns > call->wake_ns) {
                sleepers_set(worker, i, worker->sleepers[(i - 1) / 2]);
                i = (i - 1) / 2;
        }
        sleepers_set(worker, i, call);
}

static void sleepers_down(ds_worker *worker, size_t i)
{
        struct dsw_call *call = worker->sleepers[i];
        size_t child;

        while ((child = 2 * i + 1) < worker->n_sleepers) {
                if (child + 1 < worker->n_sleepers &&
                        worker->sleepers[child + 1]->wake_ns < worker->sleepers[child]->wake_ns)
                        child++;
                if (worker->sleepers[child]->wake_ns >= call->wake_ns)
                        break;
                sleepers_set(worker, i, worker->sleepers[child]);
                i = child;
        }
        sleepers_set(worker, i, call);
}

int dsw_clock_sleep(struct dsw_call *call)
{
        ds_worker *worker = call->session->worker;
        size_t cap = DS_MAX(worker->cap_sleepers * 2, (size_t)64);
        struct dsw_call **grown;

        if (worker->n_sleepers == worker->cap_sleepers) {
                grown = ds_realloc(worker->sleepers, cap, sizeof(struct dsw_call *));
                if (!grown)
                        return ds_error_origin(-ENOMEM);
                worker->sleepers = grown;
                worker->cap_sleepers = cap;
        }
        call->session->user->n_sleeping++;
        worker->sleepers[worker->n_sleepers] = call;
        sleepers_up(worker, worker->n_sleepers++);
        return 0;
}

void dsw_clock_wake(struct dsw_call *call)
{
        ds_worker *worker = call->session->worker;
        size_t i = call->sleeper - 1;
        struct dsw_call *last;

        assert(call->sleeper);
        assert(worker->sleepers[i] == call);
        call->sleeper = 0;
        call->session->user->n_sleeping--;
        last = worker->sleepers[--worker->n_sleepers];
        if (last == call)
                return;
        sleepers_set(worker, i, last);
        sleepers_up(worker, i);
        sleepers_down(worker, last->sleeper - 1);
}

int dsw_clock_fire(ds_worker *worker)
{
        int n = 0;

        while (worker->n_sleepers && worker->sleepers[0]->wake_ns <= worker->now_ns) {
                struct dsw_call *call = worker->sleepers[0];

                dsw_page_flush(call->session);
                call->finish(call);
                n++;
        }
        return n;
}

/* --- declared threads --------------------------------------------------------------------------------------------- */

void dsw_clock_declare(struct dsw_session *session, int change)
{
        ds_worker *worker = session->worker;

        assert(change > 0 || session->declared >= (uint32_t)-change);
        session->declared += (uint32_t)change;
        if (session->declared && !session->is_declared) {
                session->is_declared = 1;
                DL_APPEND2(worker->declared, session, declared_prev, declared_next);
        } else if (!session->declared && session->is_declared) {
                session->is_declared = 0;
                DL_DELETE2(worker->declared, session, declared_prev, declared_next);
        }
}

/* Number of threads that wait for room in a ring that cannot be read further. */
static uint32_t clock_ring_waiters(const struct dsw_session *session)
{
        uint32_t waiters;

        if (!session->ring || !session->stalled)
                return 0;
        waiters = atomic_load_explicit(&session->ring->waiters, memory_order_relaxed);
        /* one of them may be the client's thread that runs host functions, which never declares itself */
        waiters -= waiters && (session->host.due || dsw_host_running(session));
        /* if the ring has no room for the largest record, a thread may be waiting that is not counted in `waiters`
         * yet */
        if (session->tail_seen - session->head + dsw_record_slots(DSW_RECORD_MAX) > DS_RING_SLOTS)
                waiters = DS_MAX(waiters, 1u);
        return waiters;
}

static uint64_t clock_waiting(const struct dsw_session *session)
{
        return (uint64_t)session->n_blocked + session->n_queued_plain + clock_ring_waiters(session);
}

/* Whether the session holds the clock, i.e. stops virtual time. A running host function counts as a running declared
 * thread. */
static int clock_holds(const struct dsw_session *session)
{
        return session->state == DSW_SESSION_OPEN &&
               (uint64_t)session->declared + dsw_host_running(session) > clock_waiting(session);
}

/* Real time of the session's last activity. If only a host function holds the clock: real time at which that
 * function was called. */
static uint64_t clock_since_wall_ns(const struct dsw_session *session)
{
        return session->declared > clock_waiting(session) ? session->active_wall_ns : session->host.called_wall_ns;
}

/* --- bound on the time for which one user holds the clock --------------------------------------------------------- */

static void clock_spend(ds_worker *worker, struct dsw_user *user, uint64_t held_ns)
{
        user->hold_ns += held_ns;
        if (user->hold_ns < DSW_HOLD_USER_NS)
                return;
        user->hold_ns = DSW_HOLD_USER_NS;
        if (!user->hold_spent &&
                (!user->hold_said_wall_ns || user->hold_wall_ns - user->hold_said_wall_ns > CLOCK_SAY_NS)) {
                user->hold_said_wall_ns = user->hold_wall_ns;
                ds_log_limited(ds_log_budget_of(&worker->log, user->uid), worker->wall_ns(), DS_LOG_INFO,
                        "uid %u held the virtual clock for 5 s while other users waited; from now on its declared "
                        "threads may hold it for a quarter of the time",
                        (unsigned)user->uid);
        }
        user->hold_spent = 1;
}

int dsw_clock_user_spent(ds_worker *worker, struct dsw_user *user)
{
        const uint64_t wall = worker->wall_ns(), past = wall - user->hold_wall_ns;

        user->hold_wall_ns = wall;
        if (worker->clock_user == user)
                clock_spend(worker, user, past);
        else
                user->hold_ns -= DS_MIN(user->hold_ns, past / DSW_HOLD_BACK);
        if (user->hold_ns <= DSW_HOLD_USER_NS - DSW_HOLD_ANEW_NS)
                user->hold_spent = 0;
        return user->hold_spent;
}

/* Whether users other than this one need the clock to advance. */
static int clock_others(const ds_worker *worker, const struct dsw_user *user)
{
        return worker->live_ops > user->n_live || worker->n_sleepers > user->n_sleeping;
}

/* Records the session that holds the clock from now on. NULL: no session holds it. Only time that another user loses
 * is charged. */
static void clock_hold(ds_worker *worker, struct dsw_session *session)
{
        struct dsw_user *user = session && clock_others(worker, session->user) ? session->user : NULL;

        if (worker->clock_user == user)
                return;
        if (worker->clock_user)
                (void)dsw_clock_user_spent(worker, worker->clock_user);
        if (user)
                (void)dsw_clock_user_spent(worker, user);
        worker->clock_user = user;
}

/* Returns a session that holds the clock, or NULL. Sessions without activity for too long lose their declarations. */
static struct dsw_session *clock_find(ds_worker *worker)
{
        struct dsw_session *session, *next;

        DL_FOREACH_SAFE2(worker->declared, session, next, declared_next)
        {
                int silent = worker->wall_ns() - clock_since_wall_ns(session) >= DSW_HOLD_MAX_NS;

                /* a host function that has run for this long no longer holds the clock; the client's declarations
                 * stay valid */
                if (!clock_holds(session) || (silent && session->declared <= clock_waiting(session)))
                        continue;
                if (clock_others(worker, session->user) && dsw_clock_user_spent(worker, session->user))
                        continue;
                worker->clock_held_wall_ns = worker->wall_ns();
                if (!silent) {
                        /* this session probably holds the clock at the next check too, so it becomes the first of
                         * the list */
                        DL_DELETE2(worker->declared, session, declared_prev, declared_next);
                        DL_PREPEND2(worker->declared, session, declared_prev, declared_next);
                        return session;
                }
                ds_log_limited(ds_log_budget_of(&worker->log, session->uid), worker->wall_ns(), DS_LOG_INFO,
                        "session %llu held the virtual clock for 5 s without activity; its %u thread declarations are "
                        "dropped",
                        (unsigned long long)session->id, session->declared);
                dsw_clock_declare(session, -(int)session->declared);
        }
        return NULL;
}

static struct dsw_session *clock_holder(ds_worker *worker)
{
        struct dsw_session *holder = clock_find(worker);

        clock_hold(worker, holder);
        return holder;
}

int dsw_clock_held(ds_worker *worker)
{
        return worker->ops->advance && !worker->stopping && clock_holder(worker);
}

/* --- advancing virtual time --------------------------------------------------------------------------------------- */

/* Earliest device time that the worker waits for: the first sleeper's or the scheduler's next timer. UINT64_MAX:
 * none. */
static uint64_t clock_next(const ds_worker *worker)
{
        uint64_t next = worker->n_sleepers ? worker->sleepers[0]->wake_ns : UINT64_MAX, timer;

        if (worker->live_ops) {
                timer = ds_sched_next_timer(worker->sched);
                /* a timer that has already expired does not bound the advance */
                if (timer > worker->now_ns)
                        next = DS_MIN(next, timer);
        }
        return DS_MIN(next, dsw_quiesce_next_ns(worker));
}

static int clock_wanted(const ds_worker *worker)
{
        return worker->live_ops || worker->n_sleepers || dsw_quiesce_next_ns(worker) != UINT64_MAX;
}

int dsw_clock_advance(ds_worker *worker)
{
        uint64_t limit;
        int r;

        if (!worker->ops->advance)
                return 0;
        if (!clock_wanted(worker)) {
                clock_hold(worker, NULL);
                return 0;
        }
        if (!worker->stopping && clock_holder(worker))
                return 0;
        limit = clock_next(worker);
        r = worker->ops->advance(worker->device, limit);
        if (r == -EAGAIN || (r == -ETIME && limit == UINT64_MAX))
                return 0;
        if (r && r != -ETIME)
                return ds_error_trace(r);
        worker->now_ns = worker->ops->now(worker->device);
        if (worker->live_ops && ds_sched_next_timer(worker->sched) <= worker->now_ns)
                worker->sched_due = 1;
        return 1;
}

uint64_t dsw_clock_wait_ns(ds_worker *worker)
{
        uint64_t next, silent;
        struct dsw_session *holder;

        if (!clock_wanted(worker))
                return UINT64_MAX;
        if (!worker->ops->advance) {
                next = clock_next(worker);
                return next == UINT64_MAX ? next : next - DS_MIN(next, worker->now_ns);
        }
        holder = clock_holder(worker);
        if (!holder)
                return UINT64_MAX;
        silent = worker->wall_ns() - clock_since_wall_ns(holder);
        next = DSW_HOLD_MAX_NS - DS_MIN(silent, DSW_HOLD_MAX_NS);
        return worker->clock_user ? DS_MIN(next, DSW_HOLD_USER_NS - worker->clock_user->hold_ns) : next;
}
