/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the supervisor
 *
 * The table has one row per kind of message. The supervisor is trusted to keep the order (open before all else, ledger
 * before requests). A message for a session that does not exist is answered with an error and is not fatal. Every
 * message with an id gets exactly one answer: SessionClose when nothing of the session is left, Stop when the worker
 * ends.
 *
 * After a restart, sessions are restored while others already work. A step that stops the device waits for a quiesce,
 * and all later messages of the same session wait behind it: a request must not find half of its memory.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "util/clock.h"
#include "util/error.h"
#include "worker/graph.h"
#include "worker/internal.h"

#define CONTROL_POLICIES_MAX 12u /* per page; a page is one frame to a client */
#define CONTROL_VALUES_MAX 4096u /* bytes of the current parameter values of a policy */
_Static_assert(CONTROL_POLICIES_MAX *(sizeof(struct ds_policy_listing) + 64) + CONTROL_VALUES_MAX < 65536 - 1024,
        "a page fits a frame");
#define CONTROL_POLICIES_KNOWN_MAX 256u
_Static_assert(DS_POLICY_PARAMS_MAX == DETSHARE_POLICY_PARAMS_MAX, "all of them can be set at once");
#define CONTROL_SESSIONS_MAX 256u
#define CONTROL_FDS_MAX DS_FRAME_FDS_MAX

/* A message with the fds that came with it. The handler takes the fds that it keeps (DS_TAKE_FD). */
struct control_message {
        const Detshare__Internal__ToWorker *body;
        const uint8_t *payload;
        size_t size;
        int fds[CONTROL_FDS_MAX];
        size_t n_fds;
        /* set by a handler that did nothing because it needs a quiesce: the next quiesce calls it again */
        int too_early;
};

/* A message deferred to a quiesce, or queued behind such a message of its session. */
struct dsw_held {
        struct dsw_held *prev, *next;
        uint8_t *payload;
        size_t size;
        int fds[CONTROL_FDS_MAX];
        size_t n_fds;
};

typedef void (*control_handler)(ds_worker *worker, struct control_message *message);

static void control_answer(ds_worker *worker, const struct control_message *message, int r, const char *what)
{
        int status = r < 0 ? DETSHARE__STATUS__INTERNAL : r;

        dsw_message_answer(worker, message->body->id, status, "%s%s", r ? what : "", r ? " failed" : "");
}

static struct dsw_session *control_session(ds_worker *worker, const struct control_message *message, uint64_t id)
{
        struct dsw_session *session = dsw_session_find(worker, id);

        if (session && session->state != DSW_SESSION_CLOSING)
                return session;
        dsw_message_answer(
                worker, message->body->id, DETSHARE__STATUS__NO_SUCH, "no session %llu", (unsigned long long)id);
        return NULL;
}

static void control_open(ds_worker *worker, struct control_message *message)
{
        int r = message->n_fds == 1 ? dsw_session_open(worker, message->body->open, message->fds[0])
                                    : DETSHARE__STATUS__BAD_REQUEST;

        control_answer(worker, message, r, "opening the session");
}

static void control_attach(ds_worker *worker, struct control_message *message)
{
        struct dsw_session *session = control_session(worker, message, message->body->attach->session);
        int r = DETSHARE__STATUS__BAD_REQUEST;

        if (!session)
                return;
        if (message->n_fds == 2)
                r = dsw_session_attach(
                        session, message->fds[0], DS_TAKE_FD(message->fds[1]), message->body->attach->head);
        control_answer(worker, message, r, "attaching the session");
}

static void control_set(ds_worker *worker, struct control_message *message)
{
        struct dsw_session *session = control_session(worker, message, message->body->set->session);

        if (!session)
                return;
        dsw_session_set(session, message->body->set);
        control_answer(worker, message, 0, "");
}

static void control_close(ds_worker *worker, struct control_message *message)
{
        struct dsw_session *session = control_session(worker, message, message->body->close->session);

        if (session)
                dsw_session_close(session, message->body->id);
}

static void control_call(ds_worker *worker, struct control_message *message)
{
        int fd = message->n_fds ? DS_TAKE_FD(message->fds[0]) : -1;

        dsw_call_arrive(worker, message->body, message->payload, message->size, fd);
}

static void control_restore_slab(ds_worker *worker, struct control_message *message)
{
        const Detshare__Internal__RestoreSlab *restore = message->body->restore_slab;
        struct dsw_session *session = control_session(worker, message, restore->session);
        const Detshare__Internal__Slab *slab = restore->slab;
        int r = 0;

        if (!session)
                return;
        if (slab && slab->pinned && message->n_fds && !dsw_quiesce_may(session)) {
                message->too_early = 1;
                return;
        }
        if (message->n_fds) {
                r = slab ? dsw_memory_restore_slab(session, slab->va, slab->bytes, slab->pinned, message->fds[0])
                         : DETSHARE__STATUS__BAD_REQUEST;
        }
        for (size_t i = 0; !r && i < restore->n_allocs; i++)
                r = dsw_memory_restore_alloc(
                        session, restore->allocs[i]->va, restore->allocs[i]->bytes, restore->allocs[i]->pinned);
        control_answer(worker, message, r, "restoring memory");
}

static void control_restore_physical(ds_worker *worker, struct control_message *message)
{
        const Detshare__Internal__RestorePhysical *restore = message->body->restore_physical;
        struct dsw_session *session = control_session(worker, message, restore->session);
        const Detshare__Internal__Physical *physical = restore->physical;
        int r = DETSHARE__STATUS__BAD_REQUEST;
        uint64_t id;

        if (!session)
                return;
        if (physical && physical->handle && message->n_fds == 1)
                r = dsw_vmm_add(session, physical->handle, physical->bytes, &message->fds[0], !physical->imported, &id);
        control_answer(worker, message, r, "restoring memory");
}

static void control_restore_mapping(ds_worker *worker, struct control_message *message)
{
        const Detshare__Internal__RestoreMapping *restore = message->body->restore_mapping;
        struct dsw_session *session = control_session(worker, message, restore->session);
        const Detshare__Internal__Mapping *mapping = restore->mapping;
        int r = DETSHARE__STATUS__BAD_REQUEST;

        if (!session)
                return;
        if (mapping)
                r = dsw_vmm_map(session, mapping->handle, mapping->va, mapping->bytes);
        control_answer(worker, message, r, "restoring a mapping");
}

static void control_restore_lent(ds_worker *worker, struct control_message *message)
{
        const Detshare__Internal__RestoreLent *restore = message->body->restore_lent;
        struct dsw_session *session = control_session(worker, message, restore->session);
        int r = DETSHARE__STATUS__BAD_REQUEST;

        if (!session)
                return;
        if (restore->lent)
                r = dsw_pool_restore(session, restore->lent->slab);
        control_answer(worker, message, r, "restoring a slab of the pool");
}

static void control_pool(ds_worker *worker, struct control_message *message)
{
        int fd = message->n_fds == 1 ? DS_TAKE_FD(message->fds[0]) : -1;
        int r = dsw_pool_take(worker, message->body->pool, &fd);

        ds_close(fd);
        control_answer(worker, message, r, "taking the pool over");
}

static void control_restore_module(ds_worker *worker, struct control_message *message)
{
        const Detshare__Internal__RestoreModule *restore = message->body->restore_module;
        struct dsw_session *session = control_session(worker, message, restore->session);
        struct dsw_module *module;
        char log[DSW_MESSAGE_MAX];
        int r = DETSHARE__STATUS__BAD_REQUEST;

        if (!session)
                return;
        if (message->n_fds == 1 && restore->module)
                r = dsw_module_load(
                        session, restore->module, message->fds[0], restore->bytes, log, sizeof(log), &module);
        if (r == DSW_WORK_E_STALLED) {
                message->too_early = 1;
                return;
        }
        control_answer(worker, message, r, "restoring a module");
}

static void control_module_forms(ds_worker *worker, struct control_message *message)
{
        const Detshare__Internal__ModuleForms *come = message->body->module_forms;
        struct dsw_session *session = control_session(worker, message, come->session);
        int fd = -1;

        if (!session)
                return;
        if (message->n_fds)
                fd = DS_TAKE_FD(message->fds[0]);
        dsw_forms_come(session, come, &fd, message->body->id);
        ds_close(fd);
}

static void control_session_forms(ds_worker *worker, struct control_message *message)
{
        dsw_forms_list(worker, message->body->id, message->body->session_forms);
}

static void control_restore_graph(ds_worker *worker, struct control_message *message)
{
        const Detshare__Internal__RestoreGraph *restore = message->body->restore_graph;
        struct dsw_session *session = control_session(worker, message, restore->session);
        int r = DETSHARE__STATUS__BAD_REQUEST;
        struct dsw_graph *made = NULL;
        const char *why;
        uint64_t id;

        if (!session)
                return;
        if (message->n_fds == 1 && restore->graph)
                r = dsw_graph_create(session, restore->graph, message->fds[0], restore->bytes, &made, &id, &why);
        /* a module or memory that the graph names may already be gone: then only a launch of the graph fails */
        control_answer(worker, message, r == DS_CUDA_INVALID_HANDLE || r == DS_CUDA_INVALID_VALUE ? 0 : r,
                "restoring a graph");
}

static int control_restore_slot(struct dsw_session *session, const Detshare__Internal__Stream *stream, uint64_t seq)
{
        struct dsw_stream *restored;
        int r;

        if (stream->stream >= DS_STREAMS_MAX)
                return DETSHARE__STATUS__BAD_REQUEST;
        restored = dsw_stream_find(session, stream->stream);
        if (!restored) {
                r = dsw_stream_open(session, stream->stream, stream->priority, stream->non_blocking, &restored);
                if (r)
                        return ds_error_trace(r);
        }
        /* the client's completion page may already hold the stream's number: both must be the same */
        if (restored->submitted == seq)
                return 0;
        if (restored->submitted)
                return DETSHARE__STATUS__BAD_REQUEST;
        restored->submitted = restored->done = seq;
        restored->base += seq;
        atomic_store(&session->page->stream_done[restored->slot], seq);
        return 0;
}

static void control_restore_stream(ds_worker *worker, struct control_message *message)
{
        const Detshare__Internal__RestoreStream *restore = message->body->restore_stream;
        struct dsw_session *session = control_session(worker, message, restore->session);
        int r = DETSHARE__STATUS__BAD_REQUEST;

        if (!session)
                return;
        if (restore->stream)
                r = control_restore_slot(session, restore->stream, restore->seq);
        control_answer(worker, message, r, "restoring a stream");
}

/* --- policies ----------------------------------------------------------------------------------------------------- */

static int control_policy_status(int r)
{
        switch (r) {
        case DS_SCHED_E_NO_POLICY:
                return DETSHARE__STATUS__NO_SUCH;
        case DS_SCHED_E_BAD_PARAM:
                return DETSHARE__STATUS__BAD_PARAMETER;
        case DS_SCHED_E_REFUSED:
                return DETSHARE__STATUS__UNSUPPORTED;
        default:
                return r < 0 ? DETSHARE__STATUS__INTERNAL : r;
        }
}

static void control_set_policy(ds_worker *worker, struct control_message *message)
{
        const Detshare__SetPolicy *set = message->body->set_policy;
        char text[512] = "";
        int r;

        if (set->n_params > DS_POLICY_PARAMS_MAX) {
                dsw_message_answer(worker, message->body->id, DETSHARE__STATUS__BAD_REQUEST, "too many parameters");
                return;
        }
        r = ds_sched_set_policy(worker->sched, set->name, (const char *const *)set->params, set->n_params,
                worker->now_ns, text, sizeof(text));
        worker->sched_due = 1;
        dsw_message_answer(worker, message->body->id, control_policy_status(r), "%s", r ? text : "");
}

/*
 * Lists the policies. A search loads every plug-in and any client may cause one, so there is at most one per second.
 * Returns 0 or -ENOMEM.
 */
static int control_look_at_policies(ds_worker *worker)
{
        uint64_t now = worker->wall_ns();
        size_t n;

        if (worker->policies && now - worker->policies_wall_ns < DS_NS_PER_S)
                return 0;
        if (!worker->policies)
                worker->policies = ds_alloc0(CONTROL_POLICIES_KNOWN_MAX, sizeof(*worker->policies));
        if (!worker->policies)
                return -ENOMEM;
        n = ds_sched_list_policies(worker->sched, worker->policies, CONTROL_POLICIES_KNOWN_MAX);
        worker->n_policies = DS_MIN(n, (size_t)CONTROL_POLICIES_KNOWN_MAX);
        worker->policies_wall_ns = now;
        return 0;
}

static void control_list_policies(ds_worker *worker, struct control_message *message)
{
        Detshare__Internal__FromWorker answer = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__PolicyEntry entries[CONTROL_POLICIES_MAX], *pointers[CONTROL_POLICIES_MAX];
        Detshare__PolicyList list = DETSHARE__POLICY_LIST__INIT;
        size_t after = message->body->list_policies->after;
        struct ds_sched_stats stats = {0};
        char values[CONTROL_VALUES_MAX];

        if (control_look_at_policies(worker)) {
                control_answer(worker, message, -ENOMEM, "listing the policies");
                return;
        }
        ds_sched_stats(worker->sched, &stats);
        ds_sched_policy_values(worker->sched, values, sizeof(values));
        for (size_t i = after; i < worker->n_policies && list.n_policies < CONTROL_POLICIES_MAX; i++) {
                Detshare__PolicyEntry *entry = &entries[list.n_policies];

                *entry = (Detshare__PolicyEntry)DETSHARE__POLICY_ENTRY__INIT;
                entry->name = worker->policies[i].name;
                entry->description = worker->policies[i].description;
                entry->params = worker->policies[i].params;
                entry->active = !strcmp(entry->name, stats.policy);
                entry->in_force = entry->active ? values : (char *)"";
                pointers[list.n_policies++] = entry;
        }
        list.policies = pointers;
        list.more = after + list.n_policies < worker->n_policies;
        answer.id = message->body->id;
        answer.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_POLICIES;
        answer.policies = &list;
        dsw_message_send(worker, &answer, NULL, 0);
}

/* --- statistics --------------------------------------------------------------------------------------------------- */

static void control_stats(ds_worker *worker, struct control_message *message)
{
        Detshare__Internal__WorkerStatsReply stats = DETSHARE__INTERNAL__WORKER_STATS_REPLY__INIT;
        Detshare__Internal__FromWorker answer = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        struct ds_sched_stats sched = {0};
        struct dsw_session *session;

        ds_sched_stats(worker->sched, &sched);
        stats.launches = worker->totals.launches;
        stats.completed = worker->totals.completed;
        stats.errors = worker->totals.errors;
        stats.in_flight = sched.in_flight;
        stats.queued = sched.queued;
        stats.device_now_ns = worker->now_ns;
        stats.policy = sched.policy;
        stats.fallbacks = sched.fallbacks;
        stats.fallback = sched.fallback;
        stats.migrations = sched.migrations;
        stats.loans = sched.loans;
        stats.kills = sched.kills;
        stats.nonsense = sched.nonsense;
        stats.evictions = sched.evictions;
        stats.resumed = sched.resumed;
        stats.sliced = sched.sliced;
        stats.persistent = sched.persistent;
        stats.modules_transformed = worker->n_transformed;
        stats.memory_slabs = worker->slab_bytes;
        for (session = worker->sessions; session; session = session->hh.next)
                stats.memory_used += dsw_memory_used(session);
        stats.modules = worker->n_modules;
        stats.sessions = HASH_COUNT(worker->sessions);
        stats.quiesces = worker->quiesce.count;
        stats.quiesce_ns = worker->quiesce.total_ns;
        stats.quiesce_stop_ns = worker->quiesce.stop_ns;
        stats.quiesce_hits = worker->quiesce.cost.n_hits;
        stats.spin_ns = worker->spin_ns;
        stats.cpu_ns = ds_process_cpu_ns();
        answer.id = message->body->id;
        answer.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_STATS;
        answer.stats = &stats;
        dsw_message_send(worker, &answer, NULL, 0);
}

static int control_by_id(const struct dsw_session *a, const struct dsw_session *b)
{
        return a->id < b->id ? -1 : a->id > b->id;
}

static void control_session_list(ds_worker *worker, struct control_message *message)
{
        Detshare__Internal__SessionStats entries[CONTROL_SESSIONS_MAX], *pointers[CONTROL_SESSIONS_MAX];
        Detshare__Internal__SessionListReply list = DETSHARE__INTERNAL__SESSION_LIST_REPLY__INIT;
        Detshare__Internal__FromWorker answer = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__StatsReply stats[CONTROL_SESSIONS_MAX];
        struct dsw_session *session;

        HASH_SORT(worker->sessions, control_by_id);
        for (session = worker->sessions; session; session = session->hh.next) {
                size_t i = list.n_sessions;

                if (session->id <= message->body->session_list->after)
                        continue;
                if (i == CONTROL_SESSIONS_MAX) {
                        list.more = 1;
                        break;
                }
                stats[i] = (Detshare__StatsReply)DETSHARE__STATS_REPLY__INIT;
                dsw_session_stats(session, &stats[i]);
                entries[i] = (Detshare__Internal__SessionStats)DETSHARE__INTERNAL__SESSION_STATS__INIT;
                entries[i].session = session->id;
                entries[i].stats = &stats[i];
                pointers[list.n_sessions++] = &entries[i];
        }
        list.sessions = pointers;
        answer.id = message->body->id;
        answer.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_SESSION_LIST;
        answer.session_list = &list;
        dsw_message_send(worker, &answer, NULL, 0);
}

static void control_activity(ds_worker *worker, struct control_message *message)
{
        dsw_observe_activity(worker, message->body->id, message->body->session_activity);
}

static void control_explain(ds_worker *worker, struct control_message *message)
{
        dsw_observe_explain(worker, message->body->id, message->body->explain);
}

static void control_trace_start(ds_worker *worker, struct control_message *message)
{
        dsw_observe_trace_start(worker, message->body->id, message->body->trace_start);
}

static void control_trace_stop(ds_worker *worker, struct control_message *message)
{
        dsw_observe_trace_stop(worker, message->body->id);
}

static void control_profile_put(ds_worker *worker, struct control_message *message)
{
        dsw_profile_put(worker, message->body->profile_put);
}

static void control_profile_flush(ds_worker *worker, struct control_message *message)
{
        dsw_profile_flush(worker);
        control_answer(worker, message, 0, "");
}

static void control_profile_forget(ds_worker *worker, struct control_message *message)
{
        ds_sched_profiles_forget(worker->sched);
}

static void control_calibration(ds_worker *worker, struct control_message *message)
{
        control_answer(worker, message, dsw_profile_calibration(worker, message->body->calibration), "calibration");
}

static void control_stop(ds_worker *worker, struct control_message *message)
{
        worker->stop_id = message->body->id;
        ds_worker_stop(worker, message->body->stop->grace_ns);
}

static void control_limits(ds_worker *worker, struct control_message *message)
{
        const Detshare__Internal__WorkerLimits *limits = message->body->limits;

        dsw_loop_limits(worker, limits->orphan_ns, limits->kernel_ns, limits->quiesce_ns,
                limits->spin_never ? DS_WORKER_SPIN_NEVER : limits->spin_ns);
}

static void control_ping(ds_worker *worker, struct control_message *message)
{
        control_answer(worker, message, 0, "");
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static const struct {
        Detshare__Internal__ToWorker__BodyCase body;
        control_handler handler;
} control_rows[] = {
        {DETSHARE__INTERNAL__TO_WORKER__BODY_CALL, control_call},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_OPEN, control_open},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_ATTACH, control_attach},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_SET, control_set},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_CLOSE, control_close},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_SLAB, control_restore_slab},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_PHYSICAL, control_restore_physical},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_MAPPING, control_restore_mapping},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_LENT, control_restore_lent},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_POOL, control_pool},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_MODULE, control_restore_module},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_GRAPH, control_restore_graph},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_STREAM, control_restore_stream},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_SET_POLICY, control_set_policy},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_LIST_POLICIES, control_list_policies},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_STATS, control_stats},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_SESSION_LIST, control_session_list},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_SESSION_ACTIVITY, control_activity},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_EXPLAIN, control_explain},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_TRACE_START, control_trace_start},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_TRACE_STOP, control_trace_stop},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_PROFILE_PUT, control_profile_put},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_PROFILE_FLUSH, control_profile_flush},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_CALIBRATION, control_calibration},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_PROFILE_FORGET, control_profile_forget},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_MODULE_FORMS, control_module_forms},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_SESSION_FORMS, control_session_forms},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_STOP, control_stop},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_PING, control_ping},
        {DETSHARE__INTERNAL__TO_WORKER__BODY_LIMITS, control_limits},
};

static void control_close_fds(struct control_message *message)
{
        for (size_t i = 0; i < message->n_fds; i++)
                message->fds[i] = ds_close(message->fds[i]);
}

static void control_handle(ds_worker *worker, struct control_message *message)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(control_rows); i++) {
                if (control_rows[i].body == message->body->body_case) {
                        control_rows[i].handler(worker, message);
                        return;
                }
        }
        dsw_message_answer(worker, message->body->id, DETSHARE__STATUS__BAD_REQUEST, "unknown message");
}

/* --- deferred messages -------------------------------------------------------------------------------------------- */

/* The session that a message is about; NULL if the message names no existing session. */
static struct dsw_session *control_about(ds_worker *worker, const Detshare__Internal__ToWorker *body)
{
        switch (body->body_case) {
        case DETSHARE__INTERNAL__TO_WORKER__BODY_CALL:
                return dsw_session_find(worker, body->call->session);
        case DETSHARE__INTERNAL__TO_WORKER__BODY_ATTACH:
                return dsw_session_find(worker, body->attach->session);
        case DETSHARE__INTERNAL__TO_WORKER__BODY_SET:
                return dsw_session_find(worker, body->set->session);
        case DETSHARE__INTERNAL__TO_WORKER__BODY_CLOSE:
                return dsw_session_find(worker, body->close->session);
        case DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_SLAB:
                return dsw_session_find(worker, body->restore_slab->session);
        case DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_PHYSICAL:
                return dsw_session_find(worker, body->restore_physical->session);
        case DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_MAPPING:
                return dsw_session_find(worker, body->restore_mapping->session);
        case DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_MODULE:
                return dsw_session_find(worker, body->restore_module->session);
        case DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_LENT:
                return dsw_session_find(worker, body->restore_lent->session);
        case DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_GRAPH:
                return dsw_session_find(worker, body->restore_graph->session);
        case DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_STREAM:
                return dsw_session_find(worker, body->restore_stream->session);
        default:
                return NULL;
        }
}

static struct dsw_held *control_held_free(struct dsw_held *held)
{
        for (size_t i = 0; i < held->n_fds; i++)
                ds_close(held->fds[i]);
        ds_free(held->payload);
        return ds_free(held);
}

/* Defers the message and takes its fds. */
static int control_hold(struct dsw_session *session, struct control_message *message)
{
        struct dsw_held *held = ds_alloc0(1, sizeof(*held));

        if (!held)
                return ds_error_origin(-ENOMEM);
        held->payload = ds_alloc(message->size);
        if (!held->payload) {
                ds_free(held);
                return ds_error_origin(-ENOMEM);
        }
        memcpy(held->payload, message->payload, message->size);
        held->size = message->size;
        for (; held->n_fds < message->n_fds; held->n_fds++)
                held->fds[held->n_fds] = DS_TAKE_FD(message->fds[held->n_fds]);
        DL_APPEND(session->held, held);
        return 0;
}

/* Handles a deferred message. Returns 1 if it is done and freed, 0 if it needs another quiesce. */
static int control_release(struct dsw_session *session, struct dsw_held *held)
{
        ds_worker *worker = session->worker;
        struct control_message message = {.payload = held->payload, .size = held->size, .n_fds = held->n_fds};

        message.body = dsw_message_unpack(worker, held->payload, held->size);
        if (!message.body) {
                worker->fatal = ds_error_origin(-ENOMEM);
                return 0;
        }
        memcpy(message.fds, held->fds, sizeof(message.fds));
        control_handle(worker, &message);
        /* the fds that remain: those that the handler took are -1 */
        memcpy(held->fds, message.fds, sizeof(message.fds));
        if (message.too_early)
                return 0;
        DL_DELETE(session->held, held);
        control_held_free(held);
        return 1;
}

void dsw_control_resume(struct dsw_session *session)
{
        while (session->held && control_release(session, session->held))
                continue;
}

void dsw_control_forget(struct dsw_session *session)
{
        while (session->held) {
                struct dsw_held *held = session->held;

                DL_DELETE(session->held, held);
                control_held_free(held);
        }
}

int dsw_control_frame(ds_worker *worker, const uint8_t *payload, size_t size)
{
        ds_cleanup(control_close_fds) struct control_message message = {.payload = payload, .size = size};
        struct dsw_session *session;

        message.body = dsw_message_unpack(worker, payload, size);
        if (!message.body || message.body->fds > CONTROL_FDS_MAX)
                return ds_error_origin(-EPROTO);
        if (ds_conn_take_fds(worker->conn, message.fds, message.body->fds))
                return ds_error_origin(-EPROTO);
        message.n_fds = message.body->fds;
        dsw_loop_follow(worker, message.body->spin_ns);
        session = control_about(worker, message.body);
        if (!session || !session->held)
                control_handle(worker, &message);
        else
                message.too_early = 1;
        return message.too_early ? ds_error_trace(control_hold(session, &message)) : 0;
}

void dsw_control_ready(ds_worker *worker)
{
        Detshare__Internal__FromWorker message = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__Ready ready = DETSHARE__INTERNAL__READY__INIT;
        const struct ds_device_info *info = worker->info;
        struct ds_sched_stats sched = {0};
        char topology[DS_DEVICE_TOPOLOGY_MAX];
        uint64_t limits[_DS_LIMIT_MAX];

        ds_sched_stats(worker->sched, &sched);
        ready.name = (char *)(uintptr_t)info->name;
        ready.model = (char *)(uintptr_t)info->model;
        ready.uuid.data = (uint8_t *)(uintptr_t)info->uuid;
        ready.uuid.len = sizeof(info->uuid);
        ready.memory_bytes = info->memory_bytes;
        ready.attributes = (int32_t *)(uintptr_t)info->attributes;
        ready.n_attributes = DS_DEVICE_ATTRIBUTES;
        ready.simulated = info->simulated != 0;
        ready.n_sms = info->n_sms;
        ready.slab_granularity = info->slab_granularity;
        ready.policy = sched.policy;
        ready.n_tpcs = info->n_tpcs;
        ready.n_gpcs = info->n_gpcs;
        ready.n_rungs = sched.n_rungs;
        ready.own_bytes = info->own_bytes;
        ready.n_coarse_rungs = sched.n_coarse_rungs;
        ready.ladder_bytes = sched.ladder_bytes;
        ready.ladder_ns = sched.ladder_ns;
        ds_device_topology_write(info, topology);
        ready.topology = topology;
        for (int i = 0; i < _DS_LIMIT_MAX; i++)
                limits[i] = worker->ops->limit_get(worker->device, (enum ds_device_limit)i);
        ready.limits = limits;
        ready.n_limits = _DS_LIMIT_MAX;
        message.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_READY;
        message.ready = &ready;
        dsw_message_send(worker, &message, NULL, 0);
}

void dsw_control_fault(struct dsw_session *session, const char *reason)
{
        Detshare__Internal__FromWorker message = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__SessionFault fault = DETSHARE__INTERNAL__SESSION_FAULT__INIT;

        fault.session = session->id;
        fault.reason = (char *)(uintptr_t)reason;
        message.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_FAULT;
        message.fault = &fault;
        dsw_message_send(session->worker, &message, NULL, 0);
}
