/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Current activity, the scheduler's history as messages, and trace files
 *
 * The worker creates a trace's file and the scheduler writes it. The client that stops the trace gets the file sealed,
 * so that no holder can change it under another reader. There is one trace at a time, of the requested size up to
 * DS_TRACE_BYTES_MAX. It ends with this process.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/trace.h"
#include "util/error.h"
#include "worker/internal.h"

#define OBSERVE_SESSIONS_MAX 128u /* entries per page of an answer */
#define EXPLAIN_BYTES 512u        /* longest sentence of a policy about a session */
#define OBSERVE_REQUESTS_MAX (DS_HISTORY_REQUESTS + 1)

/* --- current activity --------------------------------------------------------------------------------------------- */

static void activity_objective(const struct dsw_session *session, Detshare__ActivityEntry *entry)
{
        struct ds_sched_objective now = {.stated = session->slo};

        if (session->sched)
                ds_sched_session_objective(session->sched, &now);
        DS_SLO_WRITE(entry, &now.stated);
        entry->slo_ns = now.ns[DS_SLO_LATENCY];
        entry->ttft_ns = now.ns[DS_SLO_TTFT];
        entry->tpot_ns = now.ns[DS_SLO_TPOT];
        entry->alone_ns = now.alone_ns[DS_SLO_LATENCY];
        entry->alone_ttft_ns = now.alone_ns[DS_SLO_TTFT];
        entry->alone_tpot_ns = now.alone_ns[DS_SLO_TPOT];
        entry->alone_missed_permille = now.alone_missed_permille;
}

static void activity_entry(const struct dsw_session *session, Detshare__ActivityEntry *entry)
{
        struct ds_history_activity now = {.rung = DETSHARE_RUNG_NONE};

        detshare__activity_entry__init(entry);
        if (session->sched)
                ds_history_activity(session->sched, session->worker->now_ns, &now);
        activity_objective(session, entry);
        entry->session = session->id;
        entry->class_ = session->class_ == DETSHARE_CLASS_LS ? DETSHARE__CLASS__LS : DETSHARE__CLASS__BE;
        entry->queued = now.queued;
        entry->in_flight = now.in_flight;
        entry->streams = now.coroutines;
        entry->rung = now.rung;
        entry->rung_sms = now.rung_sms;
        entry->request_active = now.request_active != 0;
        entry->share_permille = now.share_permille;
        entry->requests = now.requests;
        entry->recent_requests = now.window_requests;
        entry->recent_judged = now.window_judged;
        entry->recent_met = now.window_met;
        entry->p50_ns = now.p50_ns;
        entry->p99_ns = now.p99_ns;
        entry->max_ns = now.max_ns;
        entry->memory_used = dsw_memory_used(session);
}

static int by_id(const struct dsw_session *a, const struct dsw_session *b)
{
        return a->id < b->id ? -1 : a->id > b->id;
}

static uint32_t count_ls_active(const ds_worker *worker)
{
        const struct dsw_session *session;
        uint32_t n = 0;

        for (session = worker->sessions; session; session = session->hh.next)
                if (session->class_ == DETSHARE_CLASS_LS && session->sched)
                        n += (uint32_t)ds_history_is_active(session->sched);
        return n;
}

void dsw_observe_activity(ds_worker *worker, uint64_t id, const Detshare__Internal__SessionActivity *ask)
{
        Detshare__ActivityEntry entries[OBSERVE_SESSIONS_MAX], *pointers[OBSERVE_SESSIONS_MAX];
        Detshare__Internal__FromWorker answer = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__ActivityList list = DETSHARE__ACTIVITY_LIST__INIT;
        struct ds_sched_stats stats = {0};
        struct dsw_session *session;

        HASH_SORT(worker->sessions, by_id);
        for (session = worker->sessions; session && !list.more; session = session->hh.next) {
                if (session->id <= ask->after || !(ask->all || session->uid == ask->uid))
                        continue;
                list.more = list.n_sessions == OBSERVE_SESSIONS_MAX;
                if (list.more)
                        break;
                activity_entry(session, &entries[list.n_sessions]);
                pointers[list.n_sessions] = &entries[list.n_sessions];
                list.n_sessions++;
        }
        ds_sched_stats(worker->sched, &stats);
        list.sessions = pointers;
        list.now_ns = worker->now_ns;
        list.ls_active = count_ls_active(worker);
        list.migrations = stats.migrations;
        list.loans = stats.loans;
        answer.id = id;
        answer.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_ACTIVITY;
        answer.activity = &list;
        dsw_message_send(worker, &answer, NULL, 0);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

/* A request's history as a message, with all arrays that it points to. */
struct explained {
        Detshare__RequestEntry entry;
        Detshare__BlockerEntry blockers[DS_HISTORY_BLOCKERS], *behind[DS_HISTORY_BLOCKERS];
        Detshare__RungEntry rungs[DS_HISTORY_RUNGS], *rung[DS_HISTORY_RUNGS];
};

static void explain_lists(struct explained *out, const struct ds_history_request *request)
{
        for (uint32_t i = 0; i < request->n_blockers; i++) {
                out->blockers[i] = (Detshare__BlockerEntry)DETSHARE__BLOCKER_ENTRY__INIT;
                out->blockers[i].session = request->blockers[i].session;
                out->blockers[i].uid = request->blockers[i].uid;
                out->blockers[i].rung = request->blockers[i].rung;
                out->blockers[i].ns = request->blockers[i].ns;
                out->behind[i] = &out->blockers[i];
        }
        for (uint32_t i = 0; i < request->n_rungs; i++) {
                out->rungs[i] = (Detshare__RungEntry)DETSHARE__RUNG_ENTRY__INIT;
                out->rungs[i].rung = request->rungs[i].rung;
                out->rungs[i].n_sms = request->rungs[i].n_sms;
                out->rungs[i].run_ns = request->rungs[i].run_ns;
                out->rungs[i].wait_ns = request->rungs[i].wait_ns;
                out->rung[i] = &out->rungs[i];
        }
        out->entry.behind = out->behind;
        out->entry.n_behind = request->n_blockers;
        out->entry.rungs = out->rung;
        out->entry.n_rungs = request->n_rungs;
}

static void explain_request(struct explained *out, const struct ds_history_request *request)
{
        Detshare__RequestEntry *entry = &out->entry;

        detshare__request_entry__init(entry);
        entry->begin_ns = request->begin_ns;
        entry->end_ns = request->end_ns;
        entry->running_ns = request->ns[DS_HISTORY_RUNNING];
        entry->behind_ns = request->ns[DS_HISTORY_BEHIND];
        entry->device_ns = request->ns[DS_HISTORY_DEVICE];
        entry->policy_ns = request->ns[DS_HISTORY_POLICY];
        entry->held_ns = request->ns[DS_HISTORY_HELD];
        entry->depends_ns = request->ns[DS_HISTORY_DEPENDS];
        entry->host_ns = request->ns[DS_HISTORY_HOST];
        entry->own_ns = request->own_ns;
        entry->operations = request->operations;
        entry->migrations = request->migrations;
        entry->loans = request->loans;
        entry->active = request->active != 0;
        explain_lists(out, request);
}

void dsw_observe_explain(ds_worker *worker, uint64_t id, const Detshare__Explain *ask)
{
        Detshare__Internal__FromWorker answer = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__ExplainReply reply = DETSHARE__EXPLAIN_REPLY__INIT;
        const struct dsw_session *session = dsw_session_find(worker, ask->session);
        struct ds_history_request requests[OBSERVE_REQUESTS_MAX];
        Detshare__RequestEntry *entries[OBSERVE_REQUESTS_MAX];
        struct explained explained[OBSERVE_REQUESTS_MAX];
        char policy[EXPLAIN_BYTES] = "";
        size_t n = 0;

        if (session && session->sched)
                ds_sched_session_explain(session->sched, policy, sizeof(policy));
        reply.policy = policy;
        /* a session without a scheduler session does no work and has no history */
        if (session && session->sched)
                n = ds_history_requests(session->sched, worker->now_ns, requests, OBSERVE_REQUESTS_MAX);
        for (size_t i = 0; i < n; i++) {
                explain_request(&explained[i], &requests[i]);
                entries[i] = &explained[i].entry;
        }
        reply.session = ask->session;
        reply.requests = entries;
        reply.n_requests = n;
        reply.error = session ? session->error : 0;
        reply.fault = session && session->error ? (char *)session->error_text : reply.fault;
        answer.id = id;
        answer.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_EXPLAINED;
        answer.explained = &reply;
        dsw_message_send(worker, &answer, NULL, 0);
}

/* --- traces ------------------------------------------------------------------------------------------------------- */

static void trace_clear(struct dsw_trace *trace)
{
        if (trace->memory)
                munmap(trace->memory, trace->bytes);
        trace->memory = NULL;
        trace->bytes = 0;
        trace->fd = trace->fd > 0 ? ds_close(trace->fd) : -1;
}

void dsw_observe_free(ds_worker *worker)
{
        trace_clear(&worker->trace);
}

static int trace_map(struct dsw_trace *trace, size_t bytes)
{
        int r;

        trace->fd = memfd_create("detshare-trace", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (trace->fd < 0)
                return ds_error_origin(-errno);
        if (ftruncate(trace->fd, (off_t)bytes) < 0) {
                r = -errno;
                trace_clear(trace);
                return ds_error_origin(r);
        }
        trace->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, trace->fd, 0);
        if (trace->memory == MAP_FAILED) {
                r = -errno;
                trace->memory = NULL;
                trace_clear(trace);
                return ds_error_origin(r);
        }
        trace->bytes = bytes;
        return 0;
}

void dsw_observe_trace_start(ds_worker *worker, uint64_t id, const Detshare__TraceStart *ask)
{
        uint64_t bytes = ask->bytes ? ask->bytes : DS_TRACE_BYTES_DEFAULT, until_ns = UINT64_MAX;
        int r;

        if (worker->trace.memory) {
                dsw_message_answer(worker, id, DETSHARE__STATUS__BAD_PARAMETER, "a trace is running already");
                return;
        }
        if (bytes < DS_TRACE_BYTES_MIN || bytes > DS_TRACE_BYTES_MAX) {
                dsw_message_answer(worker, id, DETSHARE__STATUS__BAD_PARAMETER,
                        "a trace has %llu to %llu bytes, not %llu", DS_TRACE_BYTES_MIN, DS_TRACE_BYTES_MAX,
                        (unsigned long long)bytes);
                return;
        }
        if (ask->duration_ns && ask->duration_ns < UINT64_MAX - worker->now_ns)
                until_ns = worker->now_ns + ask->duration_ns;
        r = trace_map(&worker->trace, bytes);
        if (!r)
                r = ds_sched_trace_start(worker->sched, worker->trace.memory, bytes, worker->now_ns, until_ns);
        if (r) {
                trace_clear(&worker->trace);
                dsw_message_answer(worker, id, DETSHARE__STATUS__INTERNAL, "out of memory for a trace");
                return;
        }
        dsw_message_answer(worker, id, 0, "%s", "");
}

void dsw_observe_trace_stop(ds_worker *worker, uint64_t id)
{
        Detshare__Internal__FromWorker answer = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__TraceReply reply = DETSHARE__TRACE_REPLY__INIT;
        struct dsw_trace *trace = &worker->trace;
        const struct ds_trace_header *header = trace->memory;

        if (!header) {
                dsw_message_answer(worker, id, DETSHARE__STATUS__NO_SUCH, "no trace is running");
                return;
        }
        (void)ds_sched_trace_stop(worker->sched, worker->now_ns);
        reply.bytes = trace->bytes;
        reply.written = header->written;
        reply.kept = DS_MIN(header->written, header->capacity);
        munmap(trace->memory, trace->bytes);
        trace->memory = NULL;
        (void)fcntl(trace->fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        answer.id = id;
        answer.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_TRACED;
        answer.traced = &reply;
        dsw_message_send(worker, &answer, &trace->fd, 1);
        trace_clear(trace);
}
