/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/session_call.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "supervisor/client.h"
#include "supervisor/page.h"
#include "supervisor/rpc_table.h"
#include "supervisor/session_memory.h"
#include "supervisor/supervisor.h"
#include "util/error.h"
#include "util/macro.h"

#define OUT_OF_MEMORY 2 /* CUDA_ERROR_OUT_OF_MEMORY */

struct ds_session_call *ds_session_call_new(
        struct ds_session *session, const struct ds_rpc *rpc, uint64_t request_id, ds_worker_done_fn done)
{
        struct ds_session_call *call = ds_alloc0(1, sizeof(*call));

        if (!call)
                return NULL;
        call->base.done = done;
        call->base.image_fd = -1;
        call->event_fd = -1;
        call->job.fd = -1;
        call->source = (struct ds_module_source)DS_MODULE_SOURCE_INIT;
        call->ring = (struct ds_ring)DS_RING_INIT;
        call->session = session;
        call->rpc = rpc;
        call->request_id = request_id;
        session->n_calls += rpc ? 1 : 0;
        TAILQ_INSERT_TAIL(&session->calls, call, link);
        return call;
}

struct ds_session_call *ds_session_call_free(struct ds_session_call *call)
{
        struct ds_session *session = call->session;

        ds_worker_cancel(session->supervisor->worker, &call->base);
        ds_charge_release(&call->base.charge);
        ds_helper_cancel(session->supervisor->helper, &call->job);
        ds_close(call->base.image_fd);
        ds_share_unref(call->base.imported);
        ds_charge_release(&call->objects);
        ds_charge_release(&call->bytes);
        ds_charge_release(&call->one);
        ds_charge_release(&call->variables);
        ds_module_source_drop(&call->source);
        ds_forms_leave(call);
        ds_ring_deinit(&call->ring);
        ds_close(call->event_fd);
        if (call->rpc) {
                assert(session->n_calls > 0);
                session->n_calls--;
        }
        TAILQ_REMOVE(&session->calls, call, link);
        return ds_free(call);
}

/* The status that a client gets from a worker's last answers. A stopping worker answers SHUTTING_DOWN; if another
 * daemon follows, the client gets RESTARTING instead and retries. */
static int final_status(const struct ds_session *session, int status)
{
        return status == DETSHARE__STATUS__SHUTTING_DOWN && session->supervisor->handing_over
                       ? DETSHARE__STATUS__RESTARTING
                       : status;
}

void ds_session_call_fail(struct ds_session_call *call, int status, const char *fmt, ...)
{
        struct ds_client *client = call->session->client;
        uint64_t id = call->request_id;
        char text[4096];
        va_list args;

        assert(status);
        status = final_status(call->session, status);
        va_start(args, fmt);
        vsnprintf(text, sizeof(text), fmt, args);
        va_end(args);
        /* the call is freed first, since the answer may end the session */
        ds_session_call_free(call);
        if (client)
                ds_client_answer(client, id, status, "%s", text[0] ? text : "it failed");
}

void ds_session_call_lost(struct ds_session_call *call)
{
        int32_t sticky = call->session->sticky;

        if (call->session->supervisor->state == DS_DAEMON_STOPPING && !call->session->supervisor->handing_over) {
                ds_session_call_fail(call, DETSHARE__STATUS__SHUTTING_DOWN, "the daemon is stopping");
                return;
        }
        /* a reset gets no error but is retried, because it clears the error */
        if (sticky && call->rpc && call->rpc->call != DETSHARE__REQUEST__CALL_RESET_SESSION)
                ds_session_call_fail(call, sticky, "%s",
                        call->session->fault[0] ? call->session->fault : "work was lost when the worker ended");
        else
                ds_session_call_fail(call, DETSHARE__STATUS__RESTARTING, "the worker is being restarted; retry");
}

int ds_session_must_wait(struct ds_session_call *call)
{
        const struct ds_session *session = call->session;
        uint64_t ms = ds_blame_wait_ms(&session->supervisor->blame, ds_user_uid(session->user), uv_hrtime());

        if (!ms)
                return 0;
        ds_session_call_fail(call, DETSHARE__STATUS__RESTARTING,
                "the user's programs have ended the GPU's context too often; retry in %llu ms", (unsigned long long)ms);
        return 1;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static void open_done(struct ds_worker_call *base, const struct ds_worker_answer *answer)
{
        struct ds_session_call *call = DS_CONTAINER_OF(base, struct ds_session_call, base);
        struct ds_session *session = call->session;
        int status = answer ? answer->message->status : 0;

        ds_session_call_free(call);
        if (!answer || session->presence != DS_PRESENCE_OPEN)
                return;
        if (status) {
                ds_log(DS_LOG_ERROR, "session %llu: the worker refused to open it with status %d",
                        (unsigned long long)session->id, status);
                ds_client_close(session->client, "the session could not be opened");
                return;
        }
        /* the worker has mapped the page, so nobody else may map it writable from here on */
        if (ds_page_seal(&session->page))
                ds_client_close(session->client, "its page could not be sealed");
        else
                session->sealed = 1;
}

/* Handles the answer about restored parts. If a part could not be restored, the session gets the same error as for
 * lost globals. */
static void restore_done(struct ds_worker_call *base, const struct ds_worker_answer *answer)
{
        struct ds_session_call *call = DS_CONTAINER_OF(base, struct ds_session_call, base);
        struct ds_session *session = call->session;

        if (answer && answer->message->status) {
                ds_log_limited(ds_user_log_budget(session->user), uv_hrtime(), DS_LOG_ERROR,
                        "session %llu: restoring it failed with status %d: %s", (unsigned long long)session->id,
                        answer->message->status, answer->message->message);
                session->lost_globals = 1;
                session->sticky = 719;
                if (session->page.map)
                        atomic_store(&session->page.map->error, session->sticky);
        }
        ds_session_call_free(call);
}

static int send_restore(void *user, Detshare__Internal__ToWorker *message, int fd)
{
        struct ds_session *session = user;
        struct ds_session_call *call = ds_session_call_new(session, NULL, 0, restore_done);
        int r;

        if (!call)
                return ds_error_origin(-ENOMEM);
        r = ds_worker_send(session->supervisor->worker, message, &fd, fd >= 0 ? 1 : 0, &call->base);
        if (r)
                ds_session_call_free(call);
        return r;
}

static int send_open(struct ds_session *session)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__SessionOpen open = DETSHARE__INTERNAL__SESSION_OPEN__INIT;
        struct ds_session_call *call = ds_session_call_new(session, NULL, 0, open_done);
        int r;

        if (!call)
                return ds_error_origin(-ENOMEM);
        open.session = session->id;
        open.uid = (uint32_t)ds_user_uid(session->user);
        open.window_base = session->window.base;
        open.window_bytes = session->window.bytes;
        open.class_ = session->class_;
        DS_SLO_WRITE(&open, &session->slo);
        open.memory_limit = session->memory_limit;
        open.sm_percent = session->sm_percent;
        open.gpu_request = session->share.request;
        open.gpu_limit = session->share.limit;
        open.name = session->name;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_OPEN;
        message.open = &open;
        r = ds_worker_send(session->supervisor->worker, &message, &session->page.fd, 1, &call->base);
        if (r)
                ds_session_call_free(call);
        return r;
}

/* Handles the answer about a limit. A failure is not fatal: a kernel that needs the limit fails by itself. */
static void limit_done(struct ds_worker_call *base, const struct ds_worker_answer *answer)
{
        struct ds_session_call *call = DS_CONTAINER_OF(base, struct ds_session_call, base);
        const Detshare__Reply *reply = NULL;

        if (answer && answer->message->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_REPLY)
                reply = answer->message->reply;
        if (reply && reply->status)
                ds_log_limited(ds_user_log_budget(call->session->user), uv_hrtime(), DS_LOG_ERROR,
                        "session %llu: limit %u could not be restored: %s", (unsigned long long)call->session->id,
                        call->limit, reply->message);
        ds_session_call_free(call);
}

/* Sets a limit in the new worker that the client had raised in an earlier one: limits are part of the lost context. */
static int send_limit(struct ds_session *session, uint32_t limit)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__Call body = DETSHARE__INTERNAL__CALL__INIT;
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__SetLimit set = DETSHARE__SET_LIMIT__INIT;
        struct ds_session_call *call = ds_session_call_new(session, NULL, 0, limit_done);
        int r;

        if (!call)
                return ds_error_origin(-ENOMEM);
        call->limit = set.limit = limit;
        set.value = session->limits[limit];
        request.call_case = DETSHARE__REQUEST__CALL_SET_LIMIT;
        request.set_limit = &set;
        body.session = session->id;
        body.request = &request;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_CALL;
        message.call = &body;
        r = ds_worker_send(session->supervisor->worker, &message, NULL, 0, &call->base);
        if (r)
                ds_session_call_free(call);
        return r;
}

static int send_limits(struct ds_session *session)
{
        int r = 0;

        for (uint32_t limit = 0; !r && limit < DS_SESSION_LIMITS; limit++)
                if (session->limits[limit])
                        r = send_limit(session, limit);
        return r;
}

/* Sets the values in the page from which the worker continues to count. */
static void fill_page(struct ds_session *session)
{
        struct ds_completion_page *page = session->page.map;
        const uint64_t *progress = ds_ledger_progress(session->ledger);

        atomic_store(&page->error, session->sticky);
        atomic_store(&page->output, session->output.total);
        atomic_store(&page->head, session->ring_kept ? session->ring_head : 0);
        /* destroyed streams get their numbers, too, so that a client that still waits for them is not blocked */
        for (size_t i = 0; progress && i < DS_STREAMS_MAX; i++)
                atomic_store(&page->stream_done[i], progress[i]);
}

int ds_session_open(struct ds_session *session)
{
        int r;

        if (session->presence == DS_PRESENCE_OPEN)
                return 0;
        assert(session->presence == DS_PRESENCE_ABSENT);
        assert(!session->page.map);
        r = ds_page_create(ds_worker_info(session->supervisor->worker)->simulated, &session->page);
        if (r)
                return ds_error_trace(r);
        fill_page(session);
        r = send_open(session);
        if (r) {
                ds_page_deinit(&session->page);
                return r;
        }
        session->presence = DS_PRESENCE_OPEN;
        r = send_limits(session);
        if (!r)
                r = ds_ledger_replay(session->ledger, session->id, send_restore, session);
        if (!r && session->ring_kept)
                r = ds_session_attach_kept(session);
        /* a session that is only partly restored is not usable */
        if (r)
                ds_worker_kill(session->supervisor->worker, "a session could not be restored");
        return r;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

/*
 * The worker knows only the session's error code; the supervisor adds the message. `query` is the caller's memory: the
 * answer owns and frees the strings of its own QueryReply.
 */
static void explain(const struct ds_session *session, Detshare__Reply *reply, Detshare__QueryReply *query)
{
        if (!session->fault[0] || !session->sticky)
                return;
        if (reply->status == session->sticky)
                reply->message = (char *)session->fault;
        if (reply->result_case != DETSHARE__REPLY__RESULT_QUERY || reply->query->error != session->sticky)
                return;
        *query = *reply->query;
        query->fault = (char *)session->fault;
        reply->query = query;
}

/* Notes a device time in a reply, which the client may know before any page shows it. The next worker's clock starts
 * no earlier. */
static void note_clock(struct ds_supervisor *supervisor, const Detshare__Reply *reply)
{
        if (reply->result_case == DETSHARE__REPLY__RESULT_CLOCK && reply->clock)
                supervisor->device_now_ns = DS_MAX(supervisor->device_now_ns, reply->clock->now_ns);
}

static void forward_done(struct ds_worker_call *base, const struct ds_worker_answer *answer)
{
        struct ds_session_call *call = DS_CONTAINER_OF(base, struct ds_session_call, base);
        struct ds_client *client = call->session->client;
        struct ds_session_memory_words words;
        Detshare__QueryReply query;
        Detshare__Reply reply;
        uint64_t id = call->request_id;

        if (!answer) {
                ds_session_call_lost(call);
                return;
        }
        if (answer->message->body_case != DETSHARE__INTERNAL__FROM_WORKER__BODY_REPLY) {
                ds_session_call_fail(call,
                        answer->message->status ? answer->message->status : DETSHARE__STATUS__INTERNAL, "%s",
                        answer->message->message);
                return;
        }
        reply = *answer->message->reply; /* shallow copy: the answer still owns what the pointers refer to */
        reply.status = final_status(call->session, reply.status);
        explain(call->session, &reply, &query);
        note_clock(call->session->supervisor, &reply);
        ds_session_memory_reply(call, &reply, &words);
        if (call->limit_value && reply.status == 0)
                call->session->limits[call->limit] = call->limit_value;
        ds_session_call_free(call);
        if (client)
                ds_client_reply(client, id, &reply, answer->fds, answer->n_fds);
}

/*
 * The tail of the ring at the client's request. A client that does not know yet that its ring was kept sends 0 or an
 * invalid tail; then all records in the ring precede its request.
 */
static uint64_t true_tail(const struct ds_session *session, uint64_t said)
{
        if (!session->ring_kept || (session->attached && said))
                return said;
        return atomic_load(&session->ring.header->tail);
}

/* Sends the call to the worker; opens the session there first if necessary. */
static void send_request(struct ds_session_call *call, Detshare__Request *request, const int *fds, size_t n_fds)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__Call body = DETSHARE__INTERNAL__CALL__INIT;
        struct ds_session *session = call->session;
        int r;

        if (ds_worker_state(session->supervisor->worker) != DS_WORKER_READY) {
                ds_session_call_lost(call);
                return;
        }
        if (session->presence == DS_PRESENCE_ABSENT && ds_session_must_wait(call))
                return;
        r = ds_session_open(session);
        if (!r) {
                request->ring_tail = true_tail(session, request->ring_tail);
                request->fds = (uint32_t)n_fds;
                body.session = session->id;
                body.request = request;
                body.no_ptx = call->source.no_ptx;
                message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_CALL;
                message.call = &body;
                r = ds_worker_send(session->supervisor->worker, &message, fds, n_fds, &call->base);
        }
        if (r == -EPIPE)
                ds_session_call_lost(call);
        else if (r)
                ds_session_call_fail(call, DETSHARE__STATUS__INTERNAL,
                        "the daemon could not forward the request to the worker; retry");
}

/* --- charges for requests ----------------------------------------------------------------------------------------- */

/* Charges a part of a request. Returns 0; otherwise the call is answered and freed. */
static int charge(struct ds_session_call *call, struct ds_charge *to, enum ds_charge_slot slot, uint64_t amount)
{
        ds_user *user = call->session->user;
        int r = ds_charge_take(to, user, slot, amount), of_user = r == DS_CHARGE_E_USER;
        char name[DS_RULE_NAME_MAX + 4] = "";

        if (!r)
                return 0;
        ds_session_call_fail(call, DETSHARE__STATUS__QUOTA,
                "%llu %s were requested; %s limit of %llu would be exceeded%s", (unsigned long long)amount,
                ds_charge_name(slot), of_user ? "the user's" : "the daemon's",
                (unsigned long long)ds_user_limit(user, slot),
                of_user ? ds_user_limit_name(user, slot, name, sizeof(name)) : "");
        return -1;
}

static int check_memory(struct ds_session_call *call, enum ds_charge_slot slot, uint64_t bytes)
{
        struct ds_ledger_sums sums;

        ds_ledger_sums(call->session->ledger, &sums);
        if (sums.allocs + call->session->n_calls > DS_LEDGER_ALLOCS_MAX) {
                ds_session_call_fail(call, DETSHARE__STATUS__QUOTA,
                        "the session has %u allocations, about the most permitted", sums.allocs);
                return -1;
        }
        if (charge(call, &call->objects, DS_CHARGE_SLABS, 1) || charge(call, &call->one, DS_CHARGE_ALLOCS, 1))
                return -1;
        return charge(call, &call->bytes, slot, bytes);
}

static int check_request(struct ds_session_call *call, Detshare__Request *request)
{
        if (ds_session_memory_check(call, request))
                return -1;
        switch (request->call_case) {
        case DETSHARE__REQUEST__CALL_MEM_ALLOC:
                return check_memory(call, DS_CHARGE_DEVICE_BYTES, request->mem_alloc->bytes);
        case DETSHARE__REQUEST__CALL_PINNED_ALLOC:
                return check_memory(call, DS_CHARGE_HOST_BYTES, request->pinned_alloc->bytes);
        case DETSHARE__REQUEST__CALL_MEM_CREATE:
                return check_memory(call, DS_CHARGE_DEVICE_BYTES, request->mem_create->bytes);
        case DETSHARE__REQUEST__CALL_BORROW_SLAB:
                return charge(
                        call, &call->bytes, DS_CHARGE_DEVICE_BYTES, call->session->supervisor->pool.facts.slab_bytes);
        case DETSHARE__REQUEST__CALL_MEM_IMPORT: /* the exporting user is charged for the bytes */
                return check_memory(call, DS_CHARGE_DEVICE_BYTES, 0);
        default:
                return 0;
        }
}

/* --- modules ------------------------------------------------------------------------------------------------------ */

/* Handles the helper's result: sends its image to the worker. */
static void image_done(struct ds_helper_job *job, struct ds_helper_result *result)
{
        struct ds_session_call *call = DS_CONTAINER_OF(job, struct ds_session_call, job);
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__ModuleLoad load = DETSHARE__MODULE_LOAD__INIT;
        unsigned cost;

        if (result->status && call->session->supervisor->handing_over) {
                /* the failure may be the helper's end instead of the image, so the client retries */
                ds_session_call_fail(call, DETSHARE__STATUS__RESTARTING, "the daemon is being restarted");
                return;
        }
        if (result->status) {
                ds_session_call_fail(call, result->status, "%s", result->message);
                return;
        }
        if (result->variable_bytes > ds_worker_info(call->session->supervisor->worker)->memory_bytes) {
                ds_session_call_fail(call, OUT_OF_MEMORY, "the image's variables take %llu bytes of device memory",
                        (unsigned long long)result->variable_bytes);
                return;
        }
        ds_forms_note(call, result);
        ds_charge_release(&call->bytes);
        cost = ds_worker_info(call->session->supervisor->worker)->simulated ? DS_MODULE_COST_PTX : DS_MODULE_COST_CUBIN;
        if (charge(call, &call->bytes, DS_CHARGE_HOST_BYTES, result->bytes * cost + result->report_bytes) ||
                charge(call, &call->variables, DS_CHARGE_DEVICE_BYTES, result->variable_bytes))
                return;
        call->base.image_fd = DS_TAKE_FD(result->fd);
        call->base.image_bytes = load.bytes = result->bytes;
        call->base.module_charge = &call->objects;
        call->base.image_charge = &call->bytes;
        call->base.variables_charge = &call->variables;
        call->base.source = &call->source;
        /* the client's tail is valid only if the session was not attached again, in a new worker, while the helper
         * worked */
        request.ring_tail = call->attachments == call->session->attachments ? call->ring_tail : 0;
        request.call_case = DETSHARE__REQUEST__CALL_MODULE_LOAD;
        request.module_load = &load;
        send_request(call, &request, &call->base.image_fd, 1);
}

static void load_module(struct ds_session_call *call, const Detshare__Request *request, int *fds)
{
        uint64_t bytes = request->module_load->bytes;
        struct ds_ledger_sums sums;

        ds_ledger_sums(call->session->ledger, &sums);
        if (sums.modules + call->session->n_calls > DS_LEDGER_MODULES_MAX) {
                ds_session_call_fail(call, DETSHARE__STATUS__QUOTA,
                        "the session has %u modules, about the most permitted", sums.modules);
                return;
        }
        if (bytes == 0 || bytes > DS_IMAGE_BYTES_MAX) {
                ds_session_call_fail(call, DETSHARE__STATUS__BAD_PARAMETER,
                        "the image has %llu bytes; 1 to %llu are accepted", (unsigned long long)bytes,
                        DS_IMAGE_BYTES_MAX);
                return;
        }
        if (charge(call, &call->objects, DS_CHARGE_MODULES, 1) ||
                charge(call, &call->bytes, DS_CHARGE_HOST_BYTES, bytes))
                return;
        call->job.offset = request->module_load->offset;
        call->job.max_registers = request->module_load->max_registers;
        call->job.optimization = request->module_load->optimization;
        ds_forms_prepare(call, fds[0], bytes);
        call->ring_tail = request->ring_tail;
        call->attachments = call->session->attachments;
        ds_helper_check(call->session->supervisor->helper, &call->job, call->session->user, DS_TAKE_FD(fds[0]), bytes,
                image_done);
}

/* Handles the helper's result of linking: sends the file to the client. */
static void link_done(struct ds_helper_job *job, struct ds_helper_result *result)
{
        struct ds_session_call *call = DS_CONTAINER_OF(job, struct ds_session_call, job);
        Detshare__LinkReply link = DETSHARE__LINK_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        const int send = !result->status && job->link_step == DETSHARE__INTERNAL__IMAGE_LINK__LINK;

        if (result->status && call->session->supervisor->handing_over) {
                ds_session_call_fail(call, DETSHARE__STATUS__RESTARTING, "the daemon is being restarted");
                return;
        }
        if (result->status) {
                ds_session_call_fail(call, result->status, "%s", result->message);
                return;
        }
        link.bytes = send ? result->bytes : 0;
        link.log = (char *)result->message;
        reply.result_case = DETSHARE__REPLY__RESULT_MODULE_LINK;
        reply.module_link = &link;
        if (call->session->client)
                ds_client_reply(call->session->client, call->request_id, &reply, send ? &result->fd : NULL, send);
        ds_session_call_free(call);
}

static void link_module(struct ds_session_call *call, const Detshare__Request *request, int *fds)
{
        const uint64_t bytes = request->module_link->bytes;

        if (bytes == 0 || bytes > DS_IMAGE_BYTES_MAX || !ds_page_file_has(fds[0], bytes, F_SEAL_WRITE)) {
                ds_session_call_fail(call, DETSHARE__STATUS__BAD_PARAMETER,
                        "the inputs' file is not a sealed memory file of %llu bytes; 1 to %llu are accepted",
                        (unsigned long long)bytes, DS_IMAGE_BYTES_MAX);
                return;
        }
        if (charge(call, &call->bytes, DS_CHARGE_HOST_BYTES, 2 * bytes))
                return;
        call->job.link_step = request->module_link->check ? DETSHARE__INTERNAL__IMAGE_LINK__CHECK
                                                          : DETSHARE__INTERNAL__IMAGE_LINK__LINK;
        ds_helper_check(call->session->supervisor->helper, &call->job, call->session->user, DS_TAKE_FD(fds[0]), bytes,
                link_done);
}

static void send_import(struct ds_session_call *call, Detshare__Request *request)
{
        const int fd = ds_share_fd(call->base.imported);

        send_request(call, request, &fd, 1);
}

/* Takes the file of a graph. The call owns it until the worker has accepted the graph, then the ledger does. */
static void take_graph(struct ds_session_call *call, Detshare__Request *request, int *fds)
{
        uint64_t bytes = request->call_case == DETSHARE__REQUEST__CALL_GRAPH_CREATE ? request->graph_create->bytes
                                                                                    : request->graph_update->bytes;

        if (bytes > DS_GRAPH_BYTES_MAX || !ds_page_file_has(fds[0], bytes, 0)) {
                ds_session_call_fail(call, DETSHARE__STATUS__BAD_PARAMETER,
                        "the graph's file is not a memory file of %llu bytes, sealed against shrinking, growing and "
                        "more seals; at most %u bytes are accepted",
                        (unsigned long long)bytes, DS_GRAPH_BYTES_MAX);
                return;
        }
        if (charge(call, &call->objects, DS_CHARGE_SLABS, 1) || charge(call, &call->bytes, DS_CHARGE_HOST_BYTES, bytes))
                return;
        call->base.image_fd = DS_TAKE_FD(fds[0]);
        call->base.image_bytes = bytes;
        call->base.module_charge = &call->objects;
        call->base.image_charge = &call->bytes;
        send_request(call, request, &call->base.image_fd, 1);
}

void ds_session_forward(struct ds_session *session, const struct ds_rpc *rpc, Detshare__Request *request, int *fds)
{
        struct ds_charge charged = {0};
        struct ds_session_call *call;

        if (session->n_calls >= DS_SESSION_CALLS_MAX) {
                ds_client_answer(session->client, request->id, DETSHARE__STATUS__QUOTA,
                        "the session has %u open requests, the most permitted", DS_SESSION_CALLS_MAX);
                return;
        }
        if (ds_client_charge_call(session->client, request->id, &charged))
                return;
        call = ds_session_call_new(session, rpc, request->id, forward_done);
        if (!call) {
                ds_charge_release(&charged);
                ds_client_answer(
                        session->client, request->id, DETSHARE__STATUS__INTERNAL, "the daemon is out of memory");
                return;
        }
        ds_charge_move(&call->base.charge, &charged);
        if (check_request(call, request))
                return;
        if (request->call_case == DETSHARE__REQUEST__CALL_SET_LIMIT && request->set_limit->limit < DS_SESSION_LIMITS) {
                call->limit = request->set_limit->limit;
                call->limit_value = request->set_limit->value;
        }
        if (request->call_case == DETSHARE__REQUEST__CALL_MODULE_LOAD)
                load_module(call, request, fds);
        else if (request->call_case == DETSHARE__REQUEST__CALL_MODULE_LINK)
                link_module(call, request, fds);
        else if (rpc->fds == 1)
                take_graph(call, request, fds);
        else if (call->base.imported)
                send_import(call, request);
        else
                send_request(call, request, NULL, 0);
}
