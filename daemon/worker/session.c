/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: open, attach, fail, reset, close, and dsw_settle()
 *
 * A failed session keeps its error until it is reset: its queued operations are dropped, and new ones are counted and
 * dropped. A cancelled scheduler session is not reused: a reset session gets a new one, with new coroutines under the
 * old numbers. Close and reset wait, without blocking anybody else, until nothing of the session runs. Then modules,
 * memory and the device's address space are freed, in this order.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "util/error.h"
#include "util/text.h"
#include "worker/graph.h"
#include "worker/internal.h"

struct dsw_session *dsw_session_find(ds_worker *worker, uint64_t id)
{
        struct dsw_session *session;

        HASH_FIND(hh, worker->sessions, &id, sizeof(id), session);
        return session;
}

/* --- shared memory ------------------------------------------------------------------------------------------------ */

static int session_map(int fd, size_t bytes, int protection, void **ret)
{
        struct stat st;
        void *p;

        if (fstat(fd, &st) < 0)
                return ds_error_origin(-errno);
        if (st.st_size < 0 || (size_t)st.st_size < bytes)
                return ds_error_origin(-EINVAL);
        p = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
                return ds_error_origin(-errno);
        *ret = p;
        return 0;
}

static void session_detach(struct dsw_session *session)
{
        if (session->ring)
                munmap((void *)(uintptr_t)session->ring, DS_RING_BYTES);
        session->ring = NULL;
        session->stalled = 0;
        /* closing the fd is not enough to remove it from the epoll set: the client holds a duplicate */
        if (session->event_fd >= 0)
                epoll_ctl(session->worker->epoll_fd, EPOLL_CTL_DEL, session->event_fd, NULL);
        session->event_fd = ds_close(session->event_fd);
}

int dsw_session_attach(struct dsw_session *session, int ring_fd, int event_fd, uint64_t head)
{
        /* edge triggered: the worker never reads the eventfd, so a client that manipulates it cannot block the
         * worker */
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = session->id};
        ds_cleanup(ds_closep) int owned = event_fd;
        void *ring;
        int r;

        if (session->ring)
                return ds_error_origin(-EALREADY);
        r = session_map(ring_fd, DS_RING_BYTES, PROT_READ, &ring);
        if (r)
                return ds_error_trace(r);
        /* the worker writes words of the header: ds_ring_header.spare */
        if (mprotect(ring, DS_RING_HEADER, PROT_READ | PROT_WRITE) < 0) {
                r = -errno;
                munmap(ring, DS_RING_BYTES);
                return ds_error_origin(r);
        }
        if (epoll_ctl(session->worker->epoll_fd, EPOLL_CTL_ADD, event_fd, &event) < 0) {
                r = -errno;
                munmap(ring, DS_RING_BYTES);
                return ds_error_origin(r);
        }
        session->ring = ring;
        session->event_fd = DS_TAKE_FD(owned);
        session->head = session->tail_seen = head;
        session->synchronised_seen = atomic_load(&session->ring->synchronised);
        atomic_store(&session->page->head, head);
        session->asleep = 0;
        dsw_page_sleeps(session, 1);
        dsw_host_attach(session);
        dsw_session_activate(session);
        return 0;
}

/* --- membership in the worker's lists ----------------------------------------------------------------------------- */

void dsw_session_dirty(struct dsw_session *session)
{
        session->retry = 1;
        if (session->queue)
                dsw_session_activate(session);
        if (session->is_dirty)
                return;
        session->is_dirty = 1;
        session->dirty_next = session->worker->dirty;
        session->worker->dirty = session;
}

void dsw_session_activate(struct dsw_session *session)
{
        if (session->is_active)
                return;
        session->is_active = 1;
        DL_APPEND2(session->worker->active, session, active_prev, active_next);
}

void dsw_session_deactivate(struct dsw_session *session)
{
        if (!session->is_active)
                return;
        session->is_active = 0;
        DL_DELETE2(session->worker->active, session, active_prev, active_next);
}

void dsw_session_alive(struct dsw_session *session)
{
        ds_worker *worker = session->worker;

        session->active_wall_ns = worker->active_wall_ns = worker->wall_ns();
        if (session->class_ != DETSHARE_CLASS_LS)
                return;
        worker->ls_active_wall_ns = DS_MAX(session->active_wall_ns, (uint64_t)1);
        worker->ls_active_ns = worker->now_ns;
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

static void session_set_error(struct dsw_session *session, int status, const char *text)
{
        session->error = status;
        snprintf(session->error_text, sizeof(session->error_text), "%s", text);
        ds_text_make_safe(session->error_text); /* the text quotes a kernel's name, which the client chose */
        session->cancel_due = 1;
        dsw_session_dirty(session);
}

void dsw_session_fail(struct dsw_session *session, int status, const char *text)
{
        if (session->error || session->state != DSW_SESSION_OPEN)
                return;
        session_set_error(session, status, text && *text ? text : "an operation failed");
        atomic_store(&session->page->error, status);
        atomic_fetch_add(&session->page->error_count, 1);
        ds_log_limited(ds_log_budget_of(&session->worker->log, session->uid), session->worker->wall_ns(), DS_LOG_INFO,
                "session %llu: error %d: %s", (unsigned long long)session->id, status, session->error_text);
}

int dsw_session_error(struct dsw_session *session)
{
        int status = atomic_load_explicit(&session->page->error, memory_order_relaxed);

        if (!session->error && status)
                session_set_error(session, status, "work was lost when the device's process ended");
        return session->error;
}

void dsw_session_fault(struct dsw_session *session, const char *reason)
{
        if (session->state == DSW_SESSION_FAULTED || session->state == DSW_SESSION_CLOSING)
                return;
        session->state = DSW_SESSION_FAULTED;
        session->cancel_due = 1;
        dsw_control_fault(session, reason);
        dsw_session_dirty(session);
}

/* --- open --------------------------------------------------------------------------------------------------------- */

static int session_sched_new(struct dsw_session *session)
{
        struct ds_sched_session_config config = {
                .id = session->id,
                .uid = session->uid,
                .class_ = session->class_,
                .slo = session->slo,
                .sm_percent = session->sm_percent,
                .space = session->space,
                .gpu_request = session->gpu_request,
                .gpu_limit = session->gpu_limit,
        };
        struct dsw_stream *stream;
        int r;

        memcpy(config.name, session->name, sizeof(config.name));
        r = ds_sched_session_new(session->worker->sched, &config, &session->sched);
        if (r)
                return ds_error_fold(r);
        session->memory.cap = UINT64_MAX;
        dsw_memory_tell(session);
        ds_sched_session_phase(session->sched, session->phase, session->worker->now_ns);
        session->worker->sched_due = 1;
        r = dsw_stream_open(session, 0, 0, 0, &stream);
        return r ? ds_error_fold(r) : 0;
}

static int session_space_add(struct dsw_session *session)
{
        ds_worker *worker = session->worker;
        int r;

        do {
                session->space = ++worker->next_space;
                r = worker->ops->space_add(worker->device, session->space);
        } while (r == -EEXIST);
        return ds_error_trace(r);
}

/* Frees a session, also a half-built one whose remaining fields are zero. */
static void session_free(struct dsw_session *session)
{
        ds_worker *worker = session->worker;

        assert(!session->live);
        assert(!session->n_calls);
        if (session->declared)
                dsw_clock_declare(session, -(int)session->declared);
        worker->n_closing -= session->state == DSW_SESSION_CLOSING;
        dsw_session_deactivate(session);
        dsw_quiesce_forget(session);
        dsw_module_forget(session);
        dsw_control_forget(session);
        session_detach(session);
        dsw_value_reset(session);
        dsw_pool_reset(session);
        dsw_shared_close_all(session);
        if (session->sched)
                session->sched = ds_sched_session_free(session->sched);
        worker->sched_due = 1;
        dsw_stream_forget_all(session, 0);
        dsw_event_destroy_all(session);
        dsw_graph_destroy_all(session);
        dsw_module_unload_all(session);
        dsw_memory_free_all(session);
        if (session->space)
                (void)ds_error_trace(worker->ops->space_remove(worker->device, session->space));
        if (session->page)
                munmap(session->page, DS_PAGE_BYTES);
        dsw_user_put(worker, session->user);
        ds_free(session);
}

static int session_build(struct dsw_session *session, const Detshare__Internal__SessionOpen *open, int page_fd)
{
        void *page;
        int r;

        session->id = open->session;
        session->uid = open->uid;
        snprintf(session->name, sizeof(session->name), "%s", open->name);
        session->class_ = open->class_ == DETSHARE__CLASS__LS ? DETSHARE_CLASS_LS : DETSHARE_CLASS_BE;
        session->slo = DS_SLO_READ(open);
        session->sm_percent = open->sm_percent ? open->sm_percent : 100;
        session->gpu_request = open->gpu_request;
        session->gpu_limit = open->gpu_limit;
        session->event_fd = -1;
        session->event_id = session->graph_id = session->worker->id_base;
        session->module_generation = session->worker->id_base >> DSW_ID_BASE_SHIFT;
        session->active_wall_ns = session->worker->wall_ns();
        dsw_memory_init(session, open->window_base, open->window_bytes, open->memory_limit);
        r = dsw_user_get(session->worker, session->uid, &session->user);
        if (r)
                return ds_error_trace(r);
        r = session_map(page_fd, DS_PAGE_BYTES, PROT_READ | PROT_WRITE, &page);
        if (r)
                return ds_error_trace(r);
        session->page = page;
        r = session_space_add(session);
        if (r) {
                session->space = 0;
                return ds_error_trace(r);
        }
        return ds_error_trace(session_sched_new(session));
}

int dsw_session_open(ds_worker *worker, const Detshare__Internal__SessionOpen *open, int page_fd)
{
        struct dsw_session *session;
        int r;

        if (!open->session || open->session >= DSW_SESSION_ID_END ||
                (open->window_base | open->window_bytes) % DS_MIB(4) ||
                open->window_base + open->window_bytes < open->window_base)
                return DETSHARE__STATUS__BAD_REQUEST;
        if (dsw_session_find(worker, open->session))
                return DETSHARE__STATUS__BAD_REQUEST;
        session = ds_alloc0(1, sizeof(*session));
        if (!session)
                return ds_error_origin(-ENOMEM);
        session->worker = worker;
        r = session_build(session, open, page_fd);
        if (r) {
                session_free(session);
                return ds_error_trace(r);
        }
        HASH_ADD(hh, worker->sessions, id, sizeof(session->id), session);
        if (!session->hh.tbl) {
                session_free(session);
                return ds_error_origin(-ENOMEM);
        }
        dsw_page_flush(session);
        return 0;
}

static void session_set_share(struct dsw_session *session, uint32_t request, uint32_t limit)
{
        if (session->gpu_request == request && session->gpu_limit == limit)
                return;
        session->gpu_request = request;
        session->gpu_limit = limit;
        if (session->sched)
                ds_sched_session_share(session->sched, request, limit, session->worker->now_ns);
}

void dsw_session_set(struct dsw_session *session, const Detshare__Internal__SessionSet *set)
{
        session->class_ = set->class_ == DETSHARE__CLASS__LS ? DETSHARE_CLASS_LS : DETSHARE_CLASS_BE;
        session->judged &= !memcmp(&session->slo, &DS_SLO_READ(set), sizeof(session->slo));
        session->slo = DS_SLO_READ(set);
        session->memory.limit = set->memory_limit;
        session->sm_percent = set->sm_percent ? set->sm_percent : 100;
        if (session->sched)
                ds_sched_session_set(
                        session->sched, session->class_, &session->slo, session->sm_percent, session->worker->now_ns);
        session_set_share(session, set->gpu_request, set->gpu_limit);
        dsw_memory_tell(session);
        session->worker->sched_due = 1;
}

void dsw_session_judge(struct dsw_session *session)
{
        struct ds_sched_objective objective;

        if (session->judged || !ds_slo_is_stated(&session->slo))
                return;
        ds_sched_session_objective(session->sched, &objective);
        if (!objective.alone_missed_permille)
                return;
        session->judged = 1;
        ds_log_limited(ds_log_budget_of(&session->worker->log, session->uid), session->worker->wall_ns(),
                DS_LOG_WARNING,
                "session %llu (%s): %u.%u %% of its requests miss its objective even without other sessions; "
                "detsharectl explain %llu shows it",
                (unsigned long long)session->id, session->name, objective.alone_missed_permille / 10,
                objective.alone_missed_permille % 10, (unsigned long long)session->id);
}

void dsw_session_stats(const struct dsw_session *session, Detshare__StatsReply *stats)
{
        struct ds_sched_session_stats now = {0};

        if (session->sched)
                ds_sched_session_stats(session->sched, &now);
        stats->launches = session->past.launches + now.launches;
        stats->completed = session->past.completed + now.completed;
        stats->errors = session->past.errors + now.errors;
        stats->requests = session->past.requests + now.requests;
        stats->device_ns = session->past.device_ns + now.device_ns;
        stats->wait_ns = session->past.wait_ns + now.wait_ns;
        stats->queued = now.queued;
        stats->in_flight = now.in_flight;
        stats->memory_used = dsw_memory_used(session);
        stats->memory_limit = session->memory.limit;
        stats->memory_peak = session->memory.peak;
        stats->class_ = session->class_ == DETSHARE_CLASS_LS ? DETSHARE__CLASS__LS : DETSHARE__CLASS__BE;
        stats->slo_ns = session->slo.ns[DS_SLO_LATENCY];
        stats->session = session->id;
}

/* --- reset and close ---------------------------------------------------------------------------------------------- */

int dsw_session_idle(const struct dsw_session *session)
{
        return !session->live && !session->n_clearing && (!session->sched || ds_sched_session_idle(session->sched));
}

/*
 * Informs the supervisor that the session's memory is gone. The memory may belong to another session long before the
 * reset is answered. Without this message, the supervisor would restore it to this session if the worker ended in
 * between.
 */
static void session_tell_emptied(struct dsw_session *session)
{
        Detshare__Internal__FromWorker message = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;

        if (session->state != DSW_SESSION_RESETTING ||
                (!session->memory.device.n_slabs && !session->memory.physical && !session->loan.slabs))
                return;
        ledger.session = session->id;
        ledger.reset = 1;
        message.ledger = &ledger;
        dsw_message_send(session->worker, &message, NULL, 0);
}

/* Whether everything of the session can be freed now. Frees the memory that can be freed without a stop before it
 * waits for a quiesce. */
static int session_may_empty(struct dsw_session *session)
{
        if (!dsw_session_idle(session))
                return 0;
        if (dsw_quiesce_runs(session->worker) || !dsw_memory_has_pinned(session))
                return 1;
        session_tell_emptied(session);
        dsw_graph_destroy_all(session);
        dsw_module_unload_all(session);
        dsw_memory_free_device(session);
        dsw_pages_forget(session, &session->file);
        if (session->state == DSW_SESSION_RESETTING)
                return dsw_quiesce_may(session);
        return !dsw_memory_leave(session) && dsw_quiesce_may(session);
}

static void session_keep_stats(struct dsw_session *session)
{
        struct ds_sched_session_stats now = {0};

        if (session->sched)
                ds_sched_session_stats(session->sched, &now);
        session->past.launches += now.launches;
        session->past.completed += now.completed;
        session->past.errors += now.errors;
        session->past.requests += now.requests;
        session->past.device_ns += now.device_ns;
        session->past.wait_ns += now.wait_ns;
}

static void session_finish_reset(struct dsw_session *session)
{
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        struct dsw_call *call = session->reset_call;

        session_keep_stats(session);
        dsw_value_reset(session);
        dsw_pool_reset(session);
        dsw_shared_close_all(session);
        session->sched = ds_sched_session_free(session->sched);
        dsw_stream_forget_all(session, 1);
        dsw_event_destroy_all(session);
        dsw_graph_destroy_all(session);
        dsw_module_unload_all(session);
        dsw_memory_free_all(session);
        session->error = 0;
        session->error_text[0] = 0;
        session->cancelled = session->cancel_due = 0;
        atomic_store(&session->page->error, 0);
        if (session_sched_new(session)) {
                /* without a scheduler session, this session is unusable */
                session->state = DSW_SESSION_OPEN;
                dsw_session_fault(session, "the session could not be reset: the daemon is out of memory");
                return;
        }
        session->state = DSW_SESSION_OPEN;
        ledger.reset = 1;
        dsw_page_flush(session);
        dsw_call_reply(call, NULL, &ledger, NULL, 0, 0);
        dsw_session_activate(session);
        session->retry = 1;
}

void dsw_session_close(struct dsw_session *session, uint64_t close_id)
{
        session->state = DSW_SESSION_CLOSING;
        session->close_id = close_id;
        session->close_wall_ns = session->worker->wall_ns();
        session->worker->n_closing++;
        session->cancel_due = 1;
        session_detach(session);
        dsw_call_fail_all(session, DETSHARE__STATUS__NO_SUCH, "the session is closing");
        dsw_session_dirty(session);
}

static void session_finish_close(struct dsw_session *session)
{
        ds_worker *worker = session->worker;
        uint64_t close_id = session->close_id;

        HASH_DEL(worker->sessions, session);
        session_free(session);
        dsw_message_answer(worker, close_id, 0, "%s", "");
}

void dsw_session_abandon(struct dsw_session *session)
{
        dsw_call_fail_all(session, DETSHARE__STATUS__SHUTTING_DOWN, "the daemon is stopping");
        HASH_DEL(session->worker->sessions, session);
        session_free(session);
}

/* --- after operations have ended ---------------------------------------------------------------------------------- */

static void session_settle(struct dsw_session *session)
{
        ds_worker *worker = session->worker;

        if (session->cancel_due && session->sched && !session->cancelled) {
                session->cancelled = 1;
                ds_sched_session_cancel(
                        session->sched, session->error ? session->error : DS_CUDA_LAUNCH_FAILED, worker->now_ns);
                worker->sched_due = 1;
        }
        session->cancel_due = 0;
        dsw_stream_reap(session);
        dsw_host_call(session);
        dsw_page_flush(session);
        if (session->state == DSW_SESSION_FAULTED)
                dsw_call_fail_all(session, DETSHARE__STATUS__BAD_REQUEST, "the session broke the ring's rules");
        dsw_call_settle(session);
        /* operations that the cancel has ended, and requests that wait for the supervisor, come first */
        if (session->is_dirty || session->is_late)
                return;
        if (session->state == DSW_SESSION_RESETTING && session_may_empty(session))
                session_finish_reset(session);
        else if (session->state == DSW_SESSION_CLOSING && session_may_empty(session))
                session_finish_close(session);
}

int dsw_settle(ds_worker *worker)
{
        struct dsw_session *session;
        int n = 0;

        while ((session = worker->dirty)) {
                worker->dirty = session->dirty_next;
                session->is_dirty = 0;
                session_settle(session);
                n++;
        }
        return n;
}
