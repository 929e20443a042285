/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/session.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/client.h"
#include "supervisor/rpc_table.h"
#include "supervisor/session_call.h"
#include "supervisor/supervisor.h"
#include "util/error.h"
#include "util/macro.h"
#include "util/text.h"

#define INVALID_VALUE 1 /* CUDA_ERROR_INVALID_VALUE */
#define OUT_OF_MEMORY 2
#define LAUNCH_FAILED 719 /* CUDA_ERROR_LAUNCH_FAILED, for a session whose work was lost with the worker */

static int take_window(struct ds_session *session, char *message, size_t message_size)
{
        ds_windows *windows = session->supervisor->windows;
        uint64_t memory = ds_worker_info(session->supervisor->worker)->memory_bytes;

        if (ds_windows_take(
                    windows, ds_windows_choose(windows, memory, (unsigned)session->n_refused), &session->window)) {
                snprintf(message, message_size, "all address windows are in use; end other sessions and retry");
                return DETSHARE__STATUS__QUOTA;
        }
        return 0;
}

/* Sets the message for an exhausted limit: which limit, and which rule sets it. */
static void say_full(const struct ds_session *session, int code, char *message, size_t message_size)
{
        char name[DS_RULE_NAME_MAX + 4];

        if (code == DS_CHARGE_E_USER)
                snprintf(message, message_size, "uid %u has %llu sessions, the most permitted%s",
                        (unsigned)ds_user_uid(session->user),
                        (unsigned long long)ds_user_limit(session->user, DS_CHARGE_WINDOWS),
                        ds_user_limit_name(session->user, DS_CHARGE_WINDOWS, name, sizeof(name)));
        else
                snprintf(message, message_size, "all users together have the most permitted sessions");
}

/* Creates the parts that only a session with GPU work needs. */
static int session_build(struct ds_session *session, char *message, size_t message_size)
{
        int r;

        r = ds_charge_take(&session->charge, session->user, DS_CHARGE_WINDOWS, 1);
        if (r) {
                say_full(session, r, message, message_size);
                return DETSHARE__STATUS__QUOTA;
        }
        r = take_window(session, message, message_size);
        if (r)
                return r;
        if (ds_ledger_new(&session->window, session->user, &session->ledger)) {
                snprintf(message, message_size, "the daemon is out of memory");
                return DETSHARE__STATUS__INTERNAL;
        }
        return 0;
}

static void session_free(struct ds_session *session)
{
        struct ds_supervisor *supervisor = session->supervisor;
        struct ds_session_call *call;

        assert(!session->client);
        while ((call = TAILQ_FIRST(&session->calls)))
                ds_session_call_free(call);
        if (session->hh.tbl) {
                HASH_DELETE(hh, supervisor->session_by_id, session);
                TAILQ_REMOVE(&supervisor->sessions, session, link);
                supervisor->n_control_only -= session->control_only ? 1 : 0;
        }
        ds_page_deinit(&session->page);
        ds_ring_deinit(&session->ring);
        ds_close(session->event_fd);
        ds_output_deinit(&session->output);
        ds_ledger_free(session->ledger);
        for (size_t i = 0; i < DS_SESSION_RESERVED_MAX; i++)
                ds_windows_release_extra(supervisor->windows, &session->reserved[i]);
        ds_windows_release(supervisor->windows, &session->window);
        ds_session_accept_window(session);
        ds_charge_release(&session->charge);
        ds_user_unref(session->user);
        ds_free(session);
}

void ds_session_set_name(struct ds_session *session, const char *from)
{
        size_t n = strnlen(from, DS_SESSION_NAME_MAX);

        /* moves the end of the name to the beginning of a UTF-8 sequence */
        while (n > 0 && from[n] && ((unsigned char)from[n] & 0xc0) == 0x80)
                n--;
        memcpy(session->name, from, n);
        session->name[n] = 0;
        ds_text_make_safe(session->name);
}

void ds_session_ask_percent(struct ds_session *session, uint32_t percent, uint32_t most)
{
        session->sm_asked = percent;
        session->sm_percent = percent ? DS_MIN(percent, most) : most;
}

void ds_session_ask_share(struct ds_session *session, struct ds_gpu_share asked, struct ds_gpu_share most)
{
        const uint32_t limit = asked.limit ? DS_MIN(asked.limit, most.limit) : most.limit;

        session->share_asked = asked;
        session->share.limit = limit < DS_GPU_SHARE_ALL || asked.limit ? limit : 0;
        session->share.request = DS_MIN(asked.request, DS_MIN(most.request, limit));
}

/* Allocates a session without an id, not in any list. NULL: out of memory. */
static struct ds_session *session_alloc(struct ds_supervisor *supervisor, ds_user *user)
{
        struct ds_session *session = ds_alloc0(1, sizeof(*session));

        if (!session)
                return NULL;
        session->supervisor = supervisor;
        session->user = ds_user_ref(user);
        session->page = (struct ds_page)DS_PAGE_INIT;
        session->ring = (struct ds_ring)DS_RING_INIT;
        session->event_fd = -1;
        TAILQ_INIT(&session->calls);
        ds_output_init(&session->output);
        return session;
}

/* Adds the session to the lists under this id. Returns 0; otherwise the session is in no list. */
static int session_enlist(struct ds_session *session, uint64_t id)
{
        struct ds_supervisor *supervisor = session->supervisor;

        session->id = id;
        HASH_ADD(hh, supervisor->session_by_id, id, sizeof(session->id), session);
        if (!ds_hash_added(session))
                return ds_error_origin(-ENOMEM);
        TAILQ_INSERT_TAIL(&supervisor->sessions, session, link);
        supervisor->n_control_only += session->control_only ? 1 : 0;
        return 0;
}

int ds_session_new(struct ds_supervisor *supervisor, struct ds_client *client, ds_user *user,
        const struct ds_session_config *config, char *message, size_t message_size, struct ds_session **ret)
{
        struct ds_session *session = session_alloc(supervisor, user);
        int r = DETSHARE__STATUS__INTERNAL;

        snprintf(message, message_size, "the daemon is out of memory");
        if (!session)
                return r;
        session->pid = config->pid;
        session->connected_ns = uv_hrtime();
        ds_session_set_name(session, config->name);
        session->class_ = config->class_;
        session->slo = config->slo;
        session->memory_limit = config->memory_limit;
        session->sm_percent = config->sm_percent;
        session->control_only = config->control_only;
        if (session_enlist(session, ++supervisor->next_session) == 0)
                r = session->control_only ? 0 : session_build(session, message, message_size);
        if (r) {
                session_free(session);
                return r;
        }
        session->client = client;
        *ret = session;
        return 0;
}

/* --- restore after a restart of the daemon ------------------------------------------------------------------------ */

static void restore_fields(struct ds_session *session, const Detshare__Internal__SavedSession *saved)
{
        session->pid = (pid_t)saved->pid;
        session->connected_ns = saved->connected_ns;
        ds_session_set_name(session, saved->name);
        session->class_ = saved->class_;
        session->slo = DS_SLO_READ(saved);
        session->memory_limit = saved->memory_limit;
        session->sm_percent = saved->sm_percent;
        session->sm_asked = saved->sm_asked;
        session->share = (struct ds_gpu_share){saved->gpu_request, saved->gpu_limit};
        session->share_asked = (struct ds_gpu_share){saved->gpu_request_asked, saved->gpu_limit_asked};
        session->lost_work = saved->lost_work;
        session->lost_globals = saved->lost_globals;
        session->sticky = saved->sticky;
        snprintf(session->fault, sizeof(session->fault), "%s", saved->fault);
        for (size_t i = 0; i < saved->n_limits && i < DS_SESSION_LIMITS; i++)
                session->limits[i] = saved->limits[i];
        ds_output_restore(&session->output, saved->output_total, saved->output_dropped, saved->output_unread);
}

static int restore_window(struct ds_session *session, const Detshare__Internal__Range *range, struct ds_window *window,
        struct ds_charge *charge)
{
        const struct ds_window wanted = {.base = range->va, .bytes = range->bytes};

        if (ds_windows_take_at(session->supervisor->windows, &wanted))
                return DS_SESSION_E_REFUSED;
        *window = wanted;
        /* the charge ignores the limit, which was checked when the window was assigned */
        ds_charge_force(charge, session->user, DS_CHARGE_WINDOWS, 1);
        return 0;
}

static int restore_reserved(
        struct ds_session *session, const Detshare__Internal__Range *range, struct ds_window *window)
{
        const struct ds_window wanted = {.base = range->va, .bytes = range->bytes};

        if (ds_windows_take_extra_at(session->supervisor->windows, &wanted))
                return DS_SESSION_E_REFUSED;
        *window = wanted;
        return 0;
}

static int restore_holdings(struct ds_session *session, const Detshare__Internal__SavedSession *saved)
{
        int r = restore_window(session, saved->window, &session->window, &session->charge);

        for (size_t i = 0; !r && i < saved->n_refused && i < DS_SESSION_REFUSALS_MAX; i++) {
                r = restore_window(session, saved->refused[i], &session->refused[i], &session->refused_charge[i]);
                session->n_refused += r ? 0 : 1;
        }
        for (size_t i = 0; !r && i < saved->n_reserved && i < DS_SESSION_RESERVED_MAX; i++)
                r = restore_reserved(session, saved->reserved[i], &session->reserved[i]);
        if (!r)
                r = ds_error_fold(ds_ledger_new(&session->window, session->user, &session->ledger));
        if (!r && saved->n_progress)
                r = ds_error_fold(ds_ledger_set_progress(session->ledger, saved->progress, saved->n_progress));
        return r;
}

static int is_possible(const struct ds_supervisor *supervisor, const Detshare__Internal__SavedSession *saved)
{
        struct ds_session *last = TAILQ_LAST(&supervisor->sessions, ds_session_list);

        return saved->window && saved->session > 0 && saved->session <= supervisor->next_session &&
               (!last || last->id < saved->session) && strlen(saved->name) <= DS_SESSION_NAME_MAX &&
               (saved->class_ == DETSHARE__CLASS__BE || saved->class_ == DETSHARE__CLASS__LS) &&
               saved->sm_percent > 0 && saved->sm_percent <= 100 && saved->gpu_request <= DS_GPU_SHARE_ALL &&
               saved->gpu_limit <= DS_GPU_SHARE_ALL && saved->sticky >= 0;
}

int ds_session_restore(struct ds_supervisor *supervisor, struct ds_client *client,
        const Detshare__Internal__SavedSession *saved, struct ds_session **ret)
{
        struct ds_session *session;
        int r;

        if (!is_possible(supervisor, saved))
                return DS_SESSION_E_REFUSED;
        session = session_alloc(supervisor, ds_client_user(client));
        if (!session)
                return ds_error_origin(-ENOMEM);
        restore_fields(session, saved);
        r = session_enlist(session, saved->session);
        if (!r)
                r = restore_holdings(session, saved);
        if (r) {
                session_free(session);
                return ds_error_trace(r);
        }
        session->client = client;
        *ret = session;
        return 0;
}

struct ds_session *ds_session_find(struct ds_supervisor *supervisor, uint64_t id)
{
        struct ds_session *session = NULL;

        HASH_FIND(hh, supervisor->session_by_id, &id, sizeof(id), session);
        return session && session->client ? session : NULL;
}

/* --- end of a session --------------------------------------------------------------------------------------------- */

static void close_done(struct ds_worker_call *base, const struct ds_worker_answer *answer)
{
        struct ds_session_call *call = DS_CONTAINER_OF(base, struct ds_session_call, base);
        struct ds_session *session = call->session;

        /* without an answer the worker is gone, and ds_sessions_bury() follows */
        if (!answer)
                return;
        session_free(session);
}

void ds_session_leave(struct ds_session *session)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__SessionClose close = DETSHARE__INTERNAL__SESSION_CLOSE__INIT;
        struct ds_session_call *call, *next;

        session->client = NULL;
        ds_output_leave(&session->output);
        if (session->presence == DS_PRESENCE_ABSENT) {
                session_free(session);
                return;
        }
        /* cancels the calls that were not sent to the worker yet */
        for (call = TAILQ_FIRST(&session->calls); call; call = next) {
                next = TAILQ_NEXT(call, link);
                if (!call->base.id)
                        ds_session_call_free(call);
        }
        session->presence = DS_PRESENCE_CLOSING;
        close.session = session->id;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_CLOSE;
        message.close = &close;
        call = ds_session_call_new(session, NULL, 0, close_done);
        /* if the message cannot be sent, the worker is restarted, which closes the session as well */
        if (!call || ds_worker_send(session->supervisor->worker, &message, NULL, 0, &call->base))
                ds_worker_kill(session->supervisor->worker, "a session could not be closed");
}

void ds_sessions_bury(struct ds_supervisor *supervisor)
{
        struct ds_session *session = TAILQ_FIRST(&supervisor->sessions), *next;

        for (; session; session = next) {
                next = TAILQ_NEXT(session, link);
                if (!session->client && session->presence == DS_PRESENCE_ABSENT)
                        session_free(session);
        }
}

void ds_session_fault(struct ds_supervisor *supervisor, uint64_t id, const char *reason)
{
        struct ds_session *session = ds_session_find(supervisor, id);

        if (session)
                ds_client_close(session->client, reason[0] ? reason : "it broke the rules of its ring");
}

/* --- windows ------------------------------------------------------------------------------------------------------ */

int ds_session_refuse_window(struct ds_session *session, char *message, size_t message_size)
{
        struct ds_ledger_sums sums;
        int r;

        assert(!session->control_only);
        ds_ledger_sums(session->ledger, &sums);
        if (session->presence != DS_PRESENCE_ABSENT || session->n_calls || sums.slabs || sums.modules || sums.streams ||
                sums.physicals) {
                snprintf(message, message_size, "the window is in use already and cannot be replaced");
                return DETSHARE__STATUS__BAD_REQUEST;
        }
        if (session->n_refused == DS_SESSION_REFUSALS_MAX) {
                snprintf(message, message_size, "the client could not reserve any of %d windows",
                        DS_SESSION_REFUSALS_MAX);
                return DETSHARE__STATUS__QUOTA;
        }
        if (ds_charge_take(&session->refused_charge[session->n_refused], session->user, DS_CHARGE_WINDOWS, 1)) {
                snprintf(message, message_size, "the user has the most permitted windows");
                return DETSHARE__STATUS__QUOTA;
        }
        /* refused windows stay assigned, so that the next window differs */
        session->refused[session->n_refused++] = session->window;
        session->window = (struct ds_window){0};
        r = take_window(session, message, message_size);
        if (r)
                return r;
        session->ledger = ds_ledger_free(session->ledger);
        if (ds_ledger_new(&session->window, session->user, &session->ledger)) {
                snprintf(message, message_size, "the daemon is out of memory");
                return DETSHARE__STATUS__INTERNAL;
        }
        return 0;
}

void ds_session_accept_window(struct ds_session *session)
{
        while (session->n_refused > 0) {
                ds_windows_release(session->supervisor->windows, &session->refused[--session->n_refused]);
                ds_charge_release(&session->refused_charge[session->n_refused]);
        }
}

/* --- addresses outside of the window ------------------------------------------------------------------------------ */

int ds_session_is_reserved(const struct ds_session *session, uint64_t base, uint64_t bytes)
{
        for (size_t i = 0; bytes && i < DS_SESSION_RESERVED_MAX; i++) {
                const struct ds_window *range = &session->reserved[i];

                if (base >= range->base && base - range->base < range->bytes &&
                        bytes <= range->bytes - (base - range->base))
                        return 1;
        }
        return 0;
}

static uint64_t user_reserved(const struct ds_session *asking)
{
        const struct ds_session *session;
        uint64_t sum = 0;

        TAILQ_FOREACH(session, &asking->supervisor->sessions, link)
        for (size_t i = 0; session->user == asking->user && i < DS_SESSION_RESERVED_MAX; i++)
                sum += session->reserved[i].bytes;
        return sum;
}

int ds_session_reserve(
        struct ds_session *session, uint64_t bytes, char *message, size_t message_size, struct ds_window *ret)
{
        struct ds_window *free = NULL;
        uint64_t sum = 0;

        for (size_t i = DS_SESSION_RESERVED_MAX; i-- > 0;) {
                sum += session->reserved[i].bytes;
                free = session->reserved[i].bytes ? free : &session->reserved[i];
        }
        if (!free || bytes > DS_SESSION_RESERVED_BYTES || sum > DS_SESSION_RESERVED_BYTES - bytes) {
                snprintf(message, message_size,
                        "a session may reserve at most %d address ranges and %llu bytes of addresses",
                        DS_SESSION_RESERVED_MAX, (unsigned long long)DS_SESSION_RESERVED_BYTES);
                return DETSHARE__STATUS__QUOTA;
        }
        if (ds_windows_take_extra(session->supervisor->windows, bytes, free)) {
                snprintf(message, message_size, "no range of %llu bytes of addresses is free",
                        (unsigned long long)bytes);
                return OUT_OF_MEMORY;
        }
        /* a user gets no more addresses if it would then hold more than remain for all others */
        if (user_reserved(session) > ds_windows_extra_left(session->supervisor->windows)) {
                ds_windows_release_extra(session->supervisor->windows, free);
                snprintf(message, message_size,
                        "the user's sessions have reserved more addresses than are left for others");
                return DETSHARE__STATUS__QUOTA;
        }
        *ret = *free;
        return 0;
}

/* Whether a pending request may map memory in this range of addresses. */
static int is_being_mapped(const struct ds_session *session, const struct ds_window *range)
{
        const struct ds_session_call *call;

        TAILQ_FOREACH(call, &session->calls, link)
        if (call->map_bytes && call->map_va < range->base + range->bytes &&
                range->base < call->map_va + call->map_bytes)
                return 1;
        return 0;
}

int ds_session_unreserve(struct ds_session *session, uint64_t base, char *message, size_t message_size)
{
        for (size_t i = 0; i < DS_SESSION_RESERVED_MAX; i++) {
                struct ds_window *range = &session->reserved[i];

                if (!range->bytes || range->base != base)
                        continue;
                if (is_being_mapped(session, range) || ds_ledger_is_mapped(session->ledger, base, range->bytes)) {
                        snprintf(message, message_size, "memory is mapped in the range; unmap it first");
                        return INVALID_VALUE;
                }
                ds_windows_release_extra(session->supervisor->windows, range);
                return 0;
        }
        snprintf(message, message_size, "no reserved range begins at %#llx", (unsigned long long)base);
        return INVALID_VALUE;
}

/* --- the session in the worker ------------------------------------------------------------------------------------ */

void ds_session_make_set(const struct ds_session *session, Detshare__Internal__SessionSet *set)
{
        set->session = session->id;
        set->class_ = session->class_;
        DS_SLO_WRITE(set, &session->slo);
        set->memory_limit = session->memory_limit;
        set->sm_percent = session->sm_percent;
        set->gpu_request = session->share.request;
        set->gpu_limit = session->share.limit;
}

void ds_session_changed(struct ds_session *session)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__SessionSet set = DETSHARE__INTERNAL__SESSION_SET__INIT;

        if (session->presence != DS_PRESENCE_OPEN)
                return;
        ds_session_make_set(session, &set);
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SET;
        message.set = &set;
        (void)ds_worker_send(session->supervisor->worker, &message, NULL, 0, NULL);
}

int ds_session_apply(
        struct ds_session *session, const Detshare__Internal__Ledger *entry, const struct ds_ledger_beside *beside)
{
        if (entry->reset) {
                session->sticky = 0;
                session->fault[0] = 0;
                session->lost_work = session->lost_globals = 0;
                memset(session->limits, 0, sizeof(session->limits));
        }
        if (entry->mapping_added &&
                !ds_session_is_reserved(session, entry->mapping_added->va, entry->mapping_added->bytes))
                return DS_LEDGER_E_PROTOCOL;
        return ds_ledger_apply(session->ledger, entry, beside);
}

/* Whether a request that the worker has may put work on the device. */
static int has_work_call(const struct ds_session *session)
{
        const struct ds_session_call *call;

        TAILQ_FOREACH(call, &session->calls, link)
        if (call->base.id && call->rpc && (call->rpc->flags & DS_RPC_WORK))
                return 1;
        return 0;
}

/*
 * Whether the worker finished all the work that it took from the session, and recorded that. Then records behind the
 * ring's head are only delayed: the next worker continues reading there.
 */
static int ended_in_order(const struct ds_session *session)
{
        static const struct ds_ring none = DS_RING_INIT;

        return session->supervisor->drained && !ds_page_in_flight(&session->page, &none) && !has_work_call(session) &&
               (!session->ring.header || session->ring.fd >= 0);
}

static void leave_ring(struct ds_session *session, int in_order)
{
        session->event_fd = ds_close(session->event_fd);
        session->ring_kept = in_order && session->ring.header && session->page.map;
        if (session->ring_kept)
                session->ring_head = atomic_load(&session->page.map->head);
        else
                ds_ring_deinit(&session->ring);
}

static void session_worker_lost(struct ds_session *session)
{
        const int in_order = ended_in_order(session);
        struct ds_ledger_sums sums;

        if (!in_order && (ds_page_in_flight(&session->page, &session->ring) || has_work_call(session)))
                session->lost_work = 1;
        ds_ledger_sums(session->ledger, &sums);
        if (sums.writable_globals)
                session->lost_globals = 1;
        /* an error that is already in the page becomes the session's error */
        if (session->page.map && atomic_load(&session->page.map->error))
                session->sticky = atomic_load(&session->page.map->error);
        else if (session->lost_work || session->lost_globals)
                session->sticky = LAUNCH_FAILED;
        if (session->page.map && ds_ledger_save_progress(session->ledger, session->page.map)) {
                session->sticky = LAUNCH_FAILED;
                session->lost_work = 1;
        }
        if (session->page.map)
                ds_output_worker_lost(session, atomic_load(&session->page.map->output));
        leave_ring(session, in_order);
        if (session->page.map)
                session->supervisor->device_now_ns =
                        DS_MAX(session->supervisor->device_now_ns, atomic_load(&session->page.map->now_ns));
        ds_page_kill(&session->page, session->sticky);
        ds_page_deinit(&session->page);
        session->attached = session->sealed = 0;
        session->presence = DS_PRESENCE_ABSENT;
}

static struct ds_session *find_present(struct ds_supervisor *supervisor, uint64_t id)
{
        struct ds_session *session = NULL;

        HASH_FIND(hh, supervisor->session_by_id, &id, sizeof(id), session);
        return session && session->presence != DS_PRESENCE_ABSENT ? session : NULL;
}

static void set_fault(struct ds_session *session, int32_t status, const char *message)
{
        struct ds_completion_page *page = session->page.map;
        int32_t none = 0;

        snprintf(session->fault, sizeof(session->fault), "%s", message);
        session->lost_work = 1;
        /* an error that the page already has is kept; session_worker_lost() reads it there */
        if (page)
                atomic_compare_exchange_strong(&page->error, &none, status);
}

void ds_sessions_device_lost(struct ds_supervisor *supervisor, const Detshare__Internal__DeviceLost *lost)
{
        struct ds_log_about about = {.event = DS_EVENT_DEVICE_LOST};
        char who[600] = "", message[DS_SESSION_FAULT_MAX];
        unsigned n = 0;
        size_t at = 0;

        /* the message may contain a kernel's name, which the client chose */
        snprintf(message, sizeof(message), "%s", lost->message[0] ? lost->message : "a kernel failed");
        ds_text_make_safe(message);
        for (size_t i = 0; i < lost->n_suspects; i++)
                n += find_present(supervisor, lost->suspects[i]) != NULL;
        for (size_t i = 0; i < lost->n_suspects; i++) {
                struct ds_session *session = find_present(supervisor, lost->suspects[i]);

                if (!session)
                        continue;
                if (at < sizeof(who))
                        at += (size_t)snprintf(who + at, sizeof(who) - at, "%ssession %llu '%s' (pid %d, uid %u)",
                                at ? ", " : "", (unsigned long long)session->id, session->name, (int)session->pid,
                                (unsigned)ds_user_uid(session->user));
                if (n == 1) {
                        about.session = session->id;
                        about.pid = session->pid;
                        about.uid = ds_user_uid(session->user);
                }
                set_fault(session, lost->status, message);
                ds_blame_add(&supervisor->blame, ds_user_uid(session->user), n, uv_hrtime());
        }
        ds_log_about(&about, DS_LOG_ERROR, "the GPU's context was lost with error %d: %s; caused by %s%s", lost->status,
                message, n > 1 ? "one of " : "", n ? who : "a session that has ended");
}

void ds_sessions_worker_lost(struct ds_supervisor *supervisor)
{
        struct ds_session *session;

        TAILQ_FOREACH(session, &supervisor->sessions, link)
        if (session->presence != DS_PRESENCE_ABSENT)
                session_worker_lost(session);
}
