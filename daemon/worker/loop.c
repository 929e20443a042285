/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's main loop
 *
 * A turn waits (sockets, eventfds, the device, real time) and then runs rounds until nothing moves or other sources
 * must be served. A round reads rings and starts queued requests, handles completions, runs the scheduler's step, does
 * the work that follows (dsw_settle), and finally advances virtual time. The clock is read once per round, and all
 * functions use that value.
 *
 * Before it sleeps, the worker sets page->asleep for every client whose ring it was polling and then checks the rings
 * once more. So either the worker sees a new record, or its writer sees the flag and signals the eventfd. While LS
 * sessions are active, and for a moment after a request, the worker polls instead of sleeping. An idle worker sleeps
 * without a timeout.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/cpus.h"
#include "util/error.h"
#include "worker/graph.h"
#include "worker/graph_piece.h"
#include "worker/internal.h"
#include "worker/later.h"
#include "worker/repeat.h"
#include "worker/ring.h"

#define LOOP_ROUNDS 64                       /* rounds per turn before the worker checks the sockets */
#define LOOP_PUMP_NS (500 * DS_NS_PER_US)    /* real time after which a turn begins no further round */
#define LOOP_ADVANCES 32                     /* advances of virtual time per round while clients keep the worker busy */
#define LOOP_COMPLETIONS 128                 /* completions read in one poll of the device */
#define LOOP_FRAMES 64                       /* frames from the supervisor per turn */
#define LOOP_EVENTS 64                       /* epoll events read in one wait */
#define LOOP_POLL_NS (20 * DS_NS_PER_US)     /* interval at which a waiting worker polls a device that cannot wake it */
#define LOOP_PREPARE_NS (50 * DS_NS_PER_US)  /* interval of polls while the device prepares a load */
#define LOOP_LOOK_NS (10 * DS_NS_PER_US)     /* interval of socket checks while the worker polls the device */
#define LOOP_LOOK_SOON_NS (4 * DS_NS_PER_US) /* the same when records have been read and nothing is left to do */
/* time for which the worker polls the device after activity of any session */
#define LOOP_SPIN_BE_NS (2 * DS_NS_PER_MS)
/* time for which the worker polls after LS activity if there are at least LOOP_SPIN_CPUS CPUs: a wake-up takes
 * longer than a short request */
#define LOOP_SPIN_GPU_NS (20 * DS_NS_PER_MS)
#define LOOP_SPIN_CPUS 4
/* bound of the bytes queued for the supervisor, far above the bound of dsw_message_full() */
#define LOOP_OUT_MAX ((size_t)64 << 20)
#define LOOP_WINDOW ((size_t)128 << 10)    /* size of the socket's buffer, bytes */
#define LOOP_ABORT_NS (300 * DS_NS_PER_MS) /* when the worker stops: real time that aborted work has to end */
#define LOOP_FLUSH_MS 200

/* epoll ids of the sources other than sessions */
enum loop_source {
        SOURCE_SUPERVISOR,
        SOURCE_DEVICE,
        SOURCE_SIGNAL,
        SOURCE_PAGES,
        _SOURCE_MAX,
};

static uint64_t loop_cpu_ns(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
        return (uint64_t)ts.tv_sec * DS_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* --- initialisation ----------------------------------------------------------------------------------------------- */

static int loop_watch(ds_worker *worker, int fd, enum loop_source source)
{
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = DSW_SESSION_ID_END + source};

        if (fd >= 0 && epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
                return ds_error_origin(-errno);
        return 0;
}

static int loop_open_device(ds_worker *worker, const struct ds_worker_config *config)
{
        const char *spec = config->device, *rest = spec;
        int r;

        worker->ops = config->ops ? config->ops : ds_device_find(spec, &rest);
        if (!worker->ops) {
                ds_log(DS_LOG_ERROR, "%s: no such device; sim:MODEL and cuda:N are accepted", spec);
                return DS_WORKER_E_REFUSED;
        }
        r = worker->ops->open(rest, &worker->device);
        if (r == -ENODEV) /* the device has logged the reason */
                return DS_WORKER_E_REFUSED;
        if (r)
                return ds_error_fold(r);
        worker->info = worker->ops->info(worker->device);
        worker->device_fd = worker->ops->event_fd(worker->device);
        worker->now_ns = worker->ops->now(worker->device);
        dsw_limits_init(&worker->limits, worker->info);
        return 0;
}

static int loop_open_sched(ds_worker *worker, const struct ds_worker_config *config)
{
        struct ds_sched_config sched = {
                .ops = worker->ops,
                .device = worker->device,
                .policy_dir = config->policy_dir,
                .policy_dir_fd = config->policy_dir_fd,
                .more_dirs = config->more_dirs,
                .n_more_dirs = config->n_more_dirs,
                .policy = config->policy,
                .ladder = {.steps = config->ladder_steps, .by_gpc = config->ladder_by_gpc},
                .done = dsw_op_done,
                .unfold = dsw_graph_unfold,
                .due = dsw_op_due,
                .memory_cap = dsw_memory_cap,
                .user = worker,
                .wall_ns = worker->wall_ns,
                .cpu_ns = config->wall_ns ? NULL : loop_cpu_ns,
                .trust_any_owner = config->trust_any_owner,
                .transform = (enum ds_sched_transform)config->transform,
                .evict_bound_ns = config->evict_bound_ns,
        };
        int r = ds_sched_new(&sched, &worker->sched);

        if (r == DS_SCHED_E_NO_POLICY || r == DS_SCHED_E_REFUSED)
                return DS_WORKER_E_REFUSED;
        return r ? ds_error_fold(r) : 0;
}

static int loop_build(ds_worker *worker, const struct ds_worker_config *config)
{
        int r;

        worker->transform = (enum ds_sched_transform)config->transform;
        worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (worker->epoll_fd < 0)
                return ds_error_origin(-errno);
        r = dsw_message_init(worker);
        if (r)
                return ds_error_trace(r);
        r = loop_open_device(worker, config);
        if (r)
                return ds_error_trace(r);
        r = loop_open_sched(worker, config);
        if (r)
                return ds_error_trace(r);
        r = dsw_pool_make(worker, config);
        if (r)
                return ds_error_trace(r);
        /* the building of the rungs has taken device memory, so the device's figures have changed */
        worker->info = worker->ops->info(worker->device);
        r = worker->info->stops ? dsw_pages_new(worker, 0) : 0;
        if (!r)
                r = loop_watch(worker, ds_conn_fd(worker->conn), SOURCE_SUPERVISOR);
        if (!r)
                r = loop_watch(worker, dsw_pages_fd(worker), SOURCE_PAGES);
        if (!r)
                r = loop_watch(worker, worker->device_fd, SOURCE_DEVICE);
        if (!r)
                r = loop_watch(worker, worker->signal_fd, SOURCE_SIGNAL);
        return ds_error_trace(r);
}

static uint64_t loop_spin_ns(const ds_worker *worker)
{
        if (worker->device_fd >= 0)
                return DSW_SPIN_NS;
        /* with few CPUs, a polling worker would take one of them from the clients */
        return ds_cpus() >= LOOP_SPIN_CPUS ? LOOP_SPIN_GPU_NS : DSW_SPIN_NS / 2;
}

void dsw_loop_limits(ds_worker *worker, uint64_t orphan_ns, uint64_t kernel_ns, uint64_t quiesce_ns, uint64_t spin_ns)
{
        worker->orphan_ns = orphan_ns ? orphan_ns : DSW_ORPHAN_NS;
        worker->quiesce_ns = quiesce_ns ? quiesce_ns : DSW_QUIESCE_NS;
        worker->kernel_ns = kernel_ns;
        worker->spin_ns = spin_ns ? spin_ns : loop_spin_ns(worker);
        if (spin_ns == DS_WORKER_SPIN_NEVER)
                worker->spin_ns = 0;
}

void dsw_loop_follow(ds_worker *worker, uint64_t ns)
{
        if (ns)
                worker->follow_wall_ns = worker->wall_ns() + ns;
}

int ds_worker_new(const struct ds_worker_config *config, ds_worker **ret)
{
        ds_cleanup(ds_worker_freep) ds_worker *worker = ds_alloc0(1, sizeof(*worker));
        int r;

        if (!worker) {
                ds_close(config->fd);
                return ds_error_origin(-ENOMEM);
        }
        worker->epoll_fd = worker->device_fd = -1;
        dsw_pool_init(&worker->pool);
        dsw_stop_cost_init(&worker->quiesce.cost);
        worker->signal_fd = config->signal_fd;
        worker->wall_ns = config->wall_ns ? config->wall_ns : ds_monotonic_ns;
        worker->cpu_ns = config->wall_ns ? config->wall_ns : loop_cpu_ns;
        worker->id_base = config->life << DSW_ID_BASE_SHIFT;
        worker->piece_ns = config->piece_ns ? config->piece_ns : DSW_PIECE_NS;
        worker->repeat_ns = DSW_REPEAT_NS;
        r = ds_conn_new(config->fd, DS_WORKER_FRAME_MAX, LOOP_OUT_MAX, &worker->conn);
        if (r)
                return ds_error_fold(r);
        ds_conn_set_window(worker->conn, LOOP_WINDOW);
        r = loop_build(worker, config);
        if (r)
                return ds_error_trace(r);
        dsw_loop_limits(worker, config->orphan_ns, config->kernel_ns, config->quiesce_ns, config->spin_ns);
        dsw_control_ready(worker);
        dsw_pool_tell(worker);
        *ret = DS_TAKE_PTR(worker);
        return 0;
}

/* --- rounds ------------------------------------------------------------------------------------------------------- */

static size_t loop_pump_session(struct dsw_session *session)
{
        size_t n = dsw_host_poll(session) + dsw_call_start_queued(session);
        uint64_t limit;

        if (session->state != DSW_SESSION_OPEN || session->worker->stopping)
                return n;
        (void)dsw_later_settle(session);
        limit = dsw_ring_tail(session);
        /* a queued request comes before records that the client wrote after it */
        if (session->queue)
                limit = DS_MIN(limit, DS_MAX(session->queue->ring_tail, session->head));
        n += dsw_ring_consume(session, limit, DSW_RING_BATCH);
        if (!n)
                return 0;
        dsw_page_sleeps(session, 0);
        dsw_session_alive(session);
        return n;
}

static size_t loop_pump_device(ds_worker *worker)
{
        struct ds_completion completions[LOOP_COMPLETIONS];
        /* the poll is necessary even when nothing is in flight: only a poll clears the device's descriptor */
        size_t n = worker->ops->poll(worker->device, completions, LOOP_COMPLETIONS);

        if (dsw_lost_poll(worker, completions, n))
                return 1;
        if (n) {
                worker->active_wall_ns = worker->wall_ns();
                dsw_output_drain(worker);
                ds_sched_complete(worker->sched, completions, n);
                worker->sched_due = 1;
        }
        return n;
}

static int loop_step(ds_worker *worker)
{
        int r;

        if (!worker->sched_due && !ds_sched_behind(worker->sched) &&
                (!worker->live_ops || ds_sched_next_timer(worker->sched) > worker->now_ns))
                return 0;
        /*
         * While a declared thread runs, it may submit more work at this instant of virtual time. A decision now would
         * depend on how much it has submitted so far, that is, on the speed of the client and of the machine.
         */
        if (dsw_clock_held(worker))
                return 0;
        worker->sched_due = 0;
        r = ds_sched_step(worker->sched, worker->now_ns);
        return r ? ds_error_fold(r) : 0;
}

/* Polls the slabs that are being cleared, and wakes sessions that wait for one of them. */
static size_t loop_pump_clearing(ds_worker *worker)
{
        struct dsw_session *session;
        uint32_t before = worker->n_clearing;

        for (session = before ? worker->sessions : NULL; session; session = session->hh.next) {
                if (!session->n_clearing)
                        continue;
                dsw_call_settle(session);
                if (!session->n_clearing)
                        dsw_session_dirty(session);
        }
        return before - worker->n_clearing;
}

/* Virtual time stands meanwhile: otherwise what a run shows would depend on the speed of the machine's threads. */
int dsw_loop_awaits(const ds_worker *worker)
{
        return dsw_pages_awaited(worker) || worker->n_preparing || worker->late;
}

/* Runs one round. Returns 1 if something moved, 0 if not, DS_WORKER_E_LOST if the device is lost, or a fatal errno. */
static int loop_round(ds_worker *worker)
{
        size_t taken, moved;
        int r, busy;

        worker->now_ns = worker->ops->now(worker->device);
        moved = dsw_pages_step(worker) + dsw_module_step(worker);
        taken = dsw_turns_pump(worker, loop_pump_session);
        worker->took |= taken != 0;
        moved += taken + loop_pump_device(worker);
        if (worker->lost.status)
                return DS_WORKER_E_LOST;
        r = loop_step(worker);
        if (r)
                return ds_error_trace(r);
        moved += loop_pump_clearing(worker);
        moved += dsw_value_step(worker) + dsw_shared_step(worker);
        moved += (size_t)dsw_settle(worker);
        moved += dsw_call_settle_late(worker);
        dsw_deadline_step(worker);
        if (worker->lost.status)
                return DS_WORKER_E_LOST;
        moved += (size_t)dsw_clock_fire(worker);
        if (worker->info->stops)
                moved += (size_t)dsw_quiesce_step(worker);
        dsw_page_tell_beside(worker);
        /* virtual time advances only in a round that took in no input and answered nothing */
        busy = taken || (ds_sched_behind(worker->sched) && !dsw_clock_held(worker));
        if (dsw_turns_hold_time(worker, busy) || (moved && !busy))
                return 1;
        if (dsw_loop_awaits(worker) && !worker->stopping)
                return busy;
        for (uint32_t i = 0; (r = dsw_clock_advance(worker)) > 0 && busy && i < LOOP_ADVANCES; i++)
                ;
        return r < 0 ? ds_error_trace(r) : r || busy;
}

static int loop_pump(ds_worker *worker)
{
        const uint64_t until = worker->wall_ns() + LOOP_PUMP_NS, stops = worker->quiesce.count;
        int r = 1;

        for (int i = 0; i < LOOP_ROUNDS && r > 0 && !worker->gone && !worker->fatal; i++) {
                r = loop_round(worker);
                /* a device call may have failed because the context is lost; then the error is not an internal one */
                if (r < 0 && dsw_lost_poll(worker, NULL, 0))
                        r = DS_WORKER_E_LOST;
                if (r == DS_WORKER_E_LOST)
                        return r;
                /* a quiesce in this round may have exceeded the time; then the work that the quiesce delayed
                 * continues first */
                if (worker->wall_ns() >= until && worker->quiesce.count == stops)
                        break;
        }
        worker->more = r > 0;
        dsw_stirs_step(worker);
        if (worker->fatal)
                return ds_error_trace(worker->fatal);
        return r < 0 ? ds_error_trace(r) : 0;
}

/* --- stopping ----------------------------------------------------------------------------------------------------- */

void ds_worker_stop(ds_worker *worker, uint64_t grace_ns)
{
        uint64_t until = worker->wall_ns() + DS_MIN(grace_ns, 3600 * DS_NS_PER_S);

        if (!worker->stopping || until < worker->stop_wall_ns)
                worker->stop_wall_ns = until;
        worker->stopping = 1;
        worker->more = 1;
}

int ds_worker_orphaned(const ds_worker *worker)
{
        return worker->gone;
}

static void loop_cancel_all(ds_worker *worker)
{
        for (struct dsw_session *session = worker->sessions; session; session = session->hh.next) {
                session->cancel_due = 1;
                dsw_session_dirty(session);
        }
        worker->cancelled_all = 1;
        worker->more = 1;
}

/* Sends the last answers. Waits at most LOOP_FLUSH_MS each time for the supervisor to read. */
static void loop_flush(ds_worker *worker)
{
        struct pollfd pfd = {.fd = ds_conn_fd(worker->conn), .events = POLLOUT};

        while (ds_conn_wants_write(worker->conn) && poll(&pfd, 1, LOOP_FLUSH_MS) > 0) {
                if (ds_conn_flush(worker->conn))
                        break;
        }
}

/* Advances an orderly stop. Returns DONE when it is complete. */
static int loop_stop_step(ds_worker *worker)
{
        struct dsw_session *session;

        if (!worker->stopping)
                return 0;
        if (worker->live_ops || worker->late) {
                if (worker->wall_ns() < worker->stop_wall_ns)
                        return 0;
                if (!worker->cancelled_all) {
                        loop_cancel_all(worker);
                        worker->stop_wall_ns = worker->wall_ns() + LOOP_ABORT_NS;
                        return 0;
                }
        }
        for (session = worker->sessions; session; session = session->hh.next)
                dsw_call_fail_all(session, DETSHARE__STATUS__SHUTTING_DOWN, "the daemon is stopping");
        dsw_profile_flush(worker);
        dsw_message_answer(worker, worker->stop_id, 0, "%s", "");
        loop_flush(worker);
        return DS_WORKER_E_DONE;
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

/* Sets page->asleep for all polled clients and checks their rings once more. Returns 1 if the worker may sleep, 0 if
 * a ring has work. */
static int loop_fall_asleep(ds_worker *worker)
{
        struct dsw_session *session, *next;
        int quiet = 1;

        DL_FOREACH2(worker->active, session, active_next)
        {
                dsw_page_sleeps(session, 1);
        }
        atomic_thread_fence(memory_order_seq_cst);
        DL_FOREACH_SAFE2(worker->active, session, next, active_next)
        {
                if (dsw_host_waits(session))
                        quiet = 0;
                if (session->stalled || session->queue)
                        continue;
                if (session->state == DSW_SESSION_OPEN && session->ring &&
                        atomic_load_explicit(&session->ring->tail, memory_order_relaxed) != session->head)
                        quiet = 0;
                else if (dsw_ring_synchronised(session))
                        quiet = 0;
                else if (!dsw_host_waits(session))
                        dsw_session_deactivate(session);
        }
        return quiet;
}

/* Whether work is on the device or will get there without any input. */
static int loop_device_works(const ds_worker *worker)
{
        uint32_t be, ls, all;

        if (!worker->live_ops || !worker->n_due)
                return worker->live_ops != 0;
        ds_sched_load(worker->sched, DETSHARE_CLASS_BE, &be, &all);
        ds_sched_load(worker->sched, DETSHARE_CLASS_LS, &ls, &all);
        return be || ls;
}

/*
 * Whether to poll instead of sleeping. Sleep and wake-up take longer than a small kernel, so the worker polls for a
 * while after every LS activity. A device that cannot wake the worker is also polled while LS has work, and briefly
 * after any session's activity. So a client that launches and waits in a loop never meets a sleeping worker. After a
 * request the worker also polls for the time that the supervisor gives it, because requests follow each other.
 */
static int loop_spins(const ds_worker *worker, uint64_t now)
{
        if (now < worker->follow_wall_ns)
                return 1;
        if (worker->ls_active_wall_ns && now - worker->ls_active_wall_ns < worker->spin_ns)
                return 1;
        if (worker->device_fd >= 0 || worker->spin_ns < DSW_SPIN_NS)
                return 0;
        return (worker->ls_live && loop_device_works(worker)) ||
               now - worker->active_wall_ns < DS_MIN(worker->spin_ns, LOOP_SPIN_BE_NS);
}

/* Whether the worker has received frames that it can handle now. */
static int loop_has_frames(const ds_worker *worker)
{
        return worker->frames_left && !dsw_message_full(worker);
}

/* While it polls a device that cannot wake it, the worker checks the sockets only now and then: a system call takes
 * as long as many polls. The best time is after a launch, because the GPU then works. While the worker polls for more
 * requests, it checks the sockets each time. */
static int loop_skips_wait(ds_worker *worker)
{
        const uint64_t interval = worker->took && !worker->more ? LOOP_LOOK_SOON_NS : LOOP_LOOK_NS;
        uint64_t now;

        if (worker->device_fd >= 0 || loop_has_frames(worker) || worker->stopping)
                return 0;
        now = worker->wall_ns();
        if (now >= worker->follow_wall_ns && now - worker->waited_wall_ns < interval &&
                (worker->more || loop_spins(worker, now)))
                return 1;
        worker->waited_wall_ns = now;
        worker->took = 0;
        return 0;
}

static uint64_t loop_wait_ns(ds_worker *worker, int timeout_ms)
{
        uint64_t wait = timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms * DS_NS_PER_MS, now;

        if (worker->more || worker->dirty || !wait)
                return 0;
        now = worker->wall_ns();
        if (loop_spins(worker, now))
                return 0;
        wait = DS_MIN(wait, dsw_clock_wait_ns(worker));
        wait = DS_MIN(wait, dsw_quiesce_wait_ns(worker));
        wait = DS_MIN(wait, dsw_deadline_wait_ns(worker));
        wait = DS_MIN(wait, dsw_stirs_wait_ns(worker));
        wait = DS_MIN(wait, dsw_value_wait_ns(worker));
        wait = DS_MIN(wait, dsw_profile_wait_ns(worker));
        if (worker->device_fd < 0 && (loop_device_works(worker) || worker->n_clearing))
                wait = DS_MIN(wait, LOOP_POLL_NS);
        if (worker->n_preparing)
                wait = DS_MIN(wait, LOOP_PREPARE_NS);
        if (worker->stopping)
                wait = DS_MIN(wait, worker->stop_wall_ns - DS_MIN(now, worker->stop_wall_ns));
        if (wait && !worker->stopping && !loop_fall_asleep(worker))
                return 0;
        return wait;
}

/* Reads the supervisor's frames. While the supervisor reads no answers, its frames stay in the socket, which
 * throttles the requests of its clients. */
static int loop_read_supervisor(ds_worker *worker)
{
        const uint8_t *payload;
        size_t size;
        int r, more;

        if (dsw_message_full(worker))
                return 0;
        r = ds_conn_read(worker->conn);
        if (r < 0)
                return ds_error_trace(r);
        if (r == DS_CONN_E_PROTOCOL)
                return ds_error_origin(-EPROTO);
        for (int i = 0; i < LOOP_FRAMES && !dsw_message_full(worker); i++) {
                more = ds_conn_next(worker->conn, &payload, &size);
                if (more < 0)
                        return ds_error_trace(more);
                if (!more) {
                        worker->frames_left = 0;
                        break;
                }
                worker->frames_left = 1;
                more = dsw_control_frame(worker, payload, size);
                if (more)
                        return ds_error_trace(more);
        }
        if (r == DS_CONN_E_CLOSED)
                worker->gone = 1;
        return 0;
}

/* Selects the epoll events of the supervisor's socket: writable while answers are queued, readable while frames may
 * be read. */
static int loop_watch_supervisor(ds_worker *worker)
{
        struct epoll_event event = {.data.u64 = DSW_SESSION_ID_END + SOURCE_SUPERVISOR};

        event.events = (dsw_message_full(worker) ? 0 : (uint32_t)EPOLLIN) |
                       (ds_conn_wants_write(worker->conn) ? (uint32_t)EPOLLOUT : 0);
        if (event.events == worker->conn_events)
                return 0;
        if (epoll_ctl(worker->epoll_fd, EPOLL_CTL_MOD, ds_conn_fd(worker->conn), &event) < 0)
                return ds_error_origin(-errno);
        worker->conn_events = event.events;
        return 0;
}

static int loop_handle_supervisor(ds_worker *worker, uint32_t events)
{
        int r = 0;

        if (events & (EPOLLOUT | EPOLLHUP))
                r = ds_conn_flush(worker->conn);
        if (r == DS_CONN_E_CLOSED) {
                worker->gone = 1;
                return 0;
        }
        if (r < 0)
                return ds_error_trace(r);
        return ds_error_trace(loop_read_supervisor(worker));
}

static int loop_handle(ds_worker *worker, const struct epoll_event *event)
{
        struct dsw_session *session;

        switch (event->data.u64) {
        case DSW_SESSION_ID_END + SOURCE_SUPERVISOR:
                return ds_error_trace(loop_handle_supervisor(worker, event->events));
        case DSW_SESSION_ID_END + SOURCE_DEVICE:
        case DSW_SESSION_ID_END + SOURCE_PAGES:
                break;
        case DSW_SESSION_ID_END + SOURCE_SIGNAL:
                if (!worker->stopping)
                        ds_worker_stop(worker, DS_WORKER_GRACE_NS);
                break;
        default:
                session = dsw_session_find(worker, event->data.u64);
                if (session)
                        dsw_session_activate(session);
                break;
        }
        return 0;
}

static int loop_wait(ds_worker *worker, uint64_t wait_ns)
{
        struct timespec ts = {
                .tv_sec = (time_t)(wait_ns / DS_NS_PER_S),
                .tv_nsec = (long)(wait_ns % DS_NS_PER_S),
        };
        struct epoll_event events[LOOP_EVENTS];
        int n, r;

        n = epoll_pwait2(worker->epoll_fd, events, LOOP_EVENTS, wait_ns == UINT64_MAX ? NULL : &ts, NULL);
        if (n < 0)
                return errno == EINTR ? 0 : ds_error_origin(-errno);
        for (int i = 0; i < n; i++) {
                r = loop_handle(worker, &events[i]);
                if (r)
                        return ds_error_trace(r);
        }
        return 0;
}

int ds_worker_turn(ds_worker *worker, int timeout_ms)
{
        int r = 0;

        if (!loop_skips_wait(worker))
                r = loop_wait(worker, loop_has_frames(worker) ? 0 : loop_wait_ns(worker, timeout_ms));
        if (!r && loop_has_frames(worker))
                r = loop_read_supervisor(worker);
        if (!r && !worker->gone)
                r = loop_pump(worker);
        if (r == DS_WORKER_E_LOST) {
                dsw_lost_say(worker);
                loop_flush(worker);
                return r;
        }
        if (r)
                return ds_error_trace(r);
        if (worker->gone)
                return DS_WORKER_E_DONE;
        dsw_profile_step(worker);
        r = loop_stop_step(worker);
        if (r)
                return r;
        return ds_error_trace(loop_watch_supervisor(worker));
}

/* --- the end of the worker ---------------------------------------------------------------------------------------- */

/* Waits until nothing is in flight, so that scheduler and device can be freed. Returns 0 when nothing is in flight
 * any more. */
static int loop_drain(ds_worker *worker)
{
        uint64_t until = worker->wall_ns() + 2 * DS_NS_PER_S;

        worker->stopping = worker->ending = 1;
        worker->lost.status = 0;
        loop_cancel_all(worker);
        while (worker->wall_ns() < until) {
                struct pollfd pfd = {.fd = worker->device_fd, .events = POLLIN};

                if (loop_round(worker) < 0)
                        return -EIO;
                if (!worker->live_ops && !worker->dirty)
                        return 0;
                if (!worker->more)
                        poll(&pfd, pfd.fd >= 0, 1);
        }
        return -EBUSY;
}

static void loop_free_device(ds_worker *worker)
{
        struct dsw_session *session, *next;

        if (worker->sched && loop_drain(worker)) {
                /* the process is about to end, and its end frees everything */
                ds_log(DS_LOG_WARNING, "the worker ends with work still in flight");
                return;
        }
        HASH_ITER(hh, worker->sessions, session, next)
        dsw_session_abandon(session);
        dsw_users_free(worker);
        if (worker->sched)
                worker->sched = ds_sched_free(worker->sched);
        if (worker->device)
                worker->device = worker->ops->close(worker->device);
        dsw_op_pool_free(worker);
}

ds_worker *ds_worker_free(ds_worker *worker)
{
        if (!worker)
                return NULL;
        loop_free_device(worker);
        dsw_pool_deinit(&worker->pool);
        dsw_observe_free(worker);
        dsw_pages_free(worker);
        worker->conn = ds_conn_free(worker->conn);
        worker->epoll_fd = ds_close(worker->epoll_fd);
        dsw_message_deinit(worker);
        ds_free(worker->sleepers);
        ds_free(worker->policies);
        return ds_free(worker);
}
