/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for activity, past requests and traces: forwarded to the worker, filtered for the client
 *
 * The worker identifies sessions by number and user. The session that a request waited for is named to administrators
 * and to that session's own user; for other users it is "another client".
 */
#include <assert.h>

#include "supervisor/client.h"
#include "supervisor/handlers.h"
#include "supervisor/session.h"
#include "supervisor/supervisor.h"
#include "supervisor/worker_link.h"
#include "util/macro.h"

#define WORKER_MAX_MS 1000u

static void answer_restarting(struct ds_client_op *op)
{
        struct ds_client *client = op->client;
        uint64_t id = op->request_id;

        ds_client_op_end(op);
        ds_client_answer(client, id, DETSHARE__STATUS__RESTARTING, "the worker is being restarted; retry");
}

static void worker_deadline(struct ds_deadline *deadline)
{
        answer_restarting(DS_CONTAINER_OF(deadline, struct ds_client_op, deadline));
}

static void ask(struct ds_client_op *op, Detshare__Internal__ToWorker *message)
{
        struct ds_supervisor *supervisor = ds_client_supervisor(op->client);

        if (ds_worker_send(supervisor->worker, message, NULL, 0, &op->call))
                answer_restarting(op);
        else
                ds_deadline_arm(&supervisor->deadlines, &op->deadline, WORKER_MAX_MS, worker_deadline);
}

/* Takes the worker's answer to a client's request. Returns 1 if it has the expected body, or 0 after the client got
 * an error. In both cases the operation has ended. */
static int take_answer(struct ds_worker_call *call, const struct ds_worker_answer *answer,
        Detshare__Internal__FromWorker__BodyCase expect, struct ds_client **ret_client, uint64_t *ret_id)
{
        struct ds_client_op *op = DS_CONTAINER_OF(call, struct ds_client_op, call);
        const char *words;
        int status;

        *ret_client = op->client;
        *ret_id = op->request_id;
        if (!answer) {
                answer_restarting(op);
                return 0;
        }
        ds_client_op_end(op);
        status = answer->message->status;
        words = answer->message->message;
        if (!status && answer->message->body_case == expect)
                return 1;
        if (!status) {
                status = DETSHARE__STATUS__INTERNAL;
                words = "";
        }
        ds_client_answer(
                *ret_client, *ret_id, status, "%s", words[0] ? words : "the worker does not know this request");
        return 0;
}

/* --- activity ----------------------------------------------------------------------------------------------------- */

static void activity_done(struct ds_worker_call *call, const struct ds_worker_answer *answer)
{
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        struct ds_client *client;
        uint64_t id;

        if (!take_answer(call, answer, DETSHARE__INTERNAL__FROM_WORKER__BODY_ACTIVITY, &client, &id))
                return;
        reply.result_case = DETSHARE__REPLY__RESULT_LIST_ACTIVITY;
        reply.list_activity = answer->message->activity;
        ds_client_reply(client, id, &reply, NULL, 0);
}

void ds_handle_list_activity(struct ds_client *client, Detshare__Request *request, int *fds)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__SessionActivity activity = DETSHARE__INTERNAL__SESSION_ACTIVITY__INIT;
        struct ds_client_op *op = ds_client_op_new(client, request->id, sizeof(*op), activity_done);

        if (!op)
                return;
        activity.after = request->list_activity->after;
        activity.all = ds_client_is_admin(client);
        activity.uid = (uint32_t)ds_user_uid(ds_client_user(client));
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SESSION_ACTIVITY;
        message.session_activity = &activity;
        ask(op, &message);
}

/* --- request history ---------------------------------------------------------------------------------------------- */

#define SHOWN_REQUESTS_MAX 65u /* as many rows as unpack.c allows */
#define SHOWN_BEHIND_MAX 4u

/* A request of the history, reduced to the fields that the client may see. */
struct shown {
        Detshare__RequestEntry entry;
        Detshare__BlockerEntry blockers[SHOWN_BEHIND_MAX], *behind[SHOWN_BEHIND_MAX];
};

static void show_blocker(
        const struct ds_client *client, const Detshare__BlockerEntry *blocker, Detshare__BlockerEntry *shown)
{
        const struct ds_session *session;

        *shown = *blocker;
        shown->name = (char *)"";
        shown->uid = 0;
        if (!ds_client_is_admin(client) && blocker->uid != (uint32_t)ds_user_uid(ds_client_user(client))) {
                shown->session = 0;
                return;
        }
        session = ds_session_find(ds_client_supervisor(client), blocker->session);
        if (session)
                shown->name = (char *)session->name;
}

static void show_request(const struct ds_client *client, const Detshare__RequestEntry *entry, struct shown *shown)
{
        shown->entry = *entry;
        assert(entry->n_behind <= SHOWN_BEHIND_MAX);
        for (size_t i = 0; i < entry->n_behind; i++) {
                show_blocker(client, entry->behind[i], &shown->blockers[i]);
                shown->behind[i] = &shown->blockers[i];
        }
        shown->entry.behind = shown->behind;
}

/*
 * Adds the error and the message of the fault by which the session ended the context. The supervisor has both. The worker
 * is a new one, and learns the error when the client calls next.
 */
static void show_fault(const struct ds_client *client, Detshare__ExplainReply *explained)
{
        const struct ds_session *session = ds_session_find(ds_client_supervisor(client), explained->session);

        if (!session || !session->fault[0] || !session->sticky)
                return;
        if (explained->error && explained->error != session->sticky)
                return;
        explained->error = session->sticky;
        explained->fault = (char *)session->fault;
}

static void explain_done(struct ds_worker_call *call, const struct ds_worker_answer *answer)
{
        Detshare__RequestEntry *entries[SHOWN_REQUESTS_MAX];
        struct shown shown[SHOWN_REQUESTS_MAX];
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        Detshare__ExplainReply explained;
        struct ds_client *client;
        uint64_t id;

        if (!take_answer(call, answer, DETSHARE__INTERNAL__FROM_WORKER__BODY_EXPLAINED, &client, &id))
                return;
        explained = *answer->message->explained;
        assert(explained.n_requests <= SHOWN_REQUESTS_MAX);
        for (size_t i = 0; i < explained.n_requests; i++) {
                show_request(client, explained.requests[i], &shown[i]);
                entries[i] = &shown[i].entry;
        }
        explained.requests = entries;
        show_fault(client, &explained);
        reply.result_case = DETSHARE__REPLY__RESULT_EXPLAIN;
        reply.explain = &explained;
        ds_client_reply(client, id, &reply, NULL, 0);
}

/* Whether the client may see the session: returns 0, or the request is answered. A user gets the same answer for a
 * session of another user as for one that does not exist. */
static int check_session(struct ds_client *client, const char *what, uint64_t request_id, uint64_t id)
{
        const struct ds_session *session = ds_session_find(ds_client_supervisor(client), id);

        if (!ds_client_is_admin(client) && !(session && session->user == ds_client_user(client))) {
                ds_client_answer(client, request_id, DETSHARE__STATUS__DENIED,
                        "%s: another user's session needs uid 0 or the group detshare-admin", what);
                return -1;
        }
        if (session)
                return 0;
        ds_client_answer(
                client, request_id, DETSHARE__STATUS__NO_SUCH, "there is no session %llu", (unsigned long long)id);
        return -1;
}

void ds_handle_explain(struct ds_client *client, Detshare__Request *request, int *fds)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        struct ds_client_op *op;

        if (check_session(client, "explain", request->id, request->explain->session))
                return;
        op = ds_client_op_new(client, request->id, sizeof(*op), explain_done);
        if (!op)
                return;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_EXPLAIN;
        message.explain = request->explain;
        ask(op, &message);
}

static void forms_done(struct ds_worker_call *call, const struct ds_worker_answer *answer)
{
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        struct ds_client *client;
        uint64_t id;

        if (!take_answer(call, answer, DETSHARE__INTERNAL__FROM_WORKER__BODY_FORMS, &client, &id))
                return;
        reply.result_case = DETSHARE__REPLY__RESULT_LIST_FORMS;
        reply.list_forms = answer->message->forms;
        ds_client_reply(client, id, &reply, NULL, 0);
}

void ds_handle_list_forms(struct ds_client *client, Detshare__Request *request, int *fds)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__SessionForms forms = DETSHARE__INTERNAL__SESSION_FORMS__INIT;
        struct ds_client_op *op;

        if (check_session(client, "list_forms", request->id, request->list_forms->session))
                return;
        op = ds_client_op_new(client, request->id, sizeof(*op), forms_done);
        if (!op)
                return;
        forms.session = request->list_forms->session;
        forms.after = request->list_forms->after;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SESSION_FORMS;
        message.session_forms = &forms;
        ask(op, &message);
}

/* --- traces ------------------------------------------------------------------------------------------------------- */

static void trace_start_done(struct ds_worker_call *call, const struct ds_worker_answer *answer)
{
        struct ds_client *client;
        uint64_t id;

        if (take_answer(call, answer, DETSHARE__INTERNAL__FROM_WORKER__BODY__NOT_SET, &client, &id))
                ds_client_answer(client, id, 0, "%s", "");
}

void ds_handle_trace_start(struct ds_client *client, Detshare__Request *request, int *fds)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        struct ds_client_op *op = ds_client_op_new(client, request->id, sizeof(*op), trace_start_done);

        if (!op)
                return;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_TRACE_START;
        message.trace_start = request->trace_start;
        ask(op, &message);
}

static void trace_stop_done(struct ds_worker_call *call, const struct ds_worker_answer *answer)
{
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        struct ds_client *client;
        uint64_t id;

        if (!take_answer(call, answer, DETSHARE__INTERNAL__FROM_WORKER__BODY_TRACED, &client, &id))
                return;
        if (answer->n_fds != 1) {
                ds_client_answer(client, id, DETSHARE__STATUS__INTERNAL, "the worker did not send the trace's file");
                return;
        }
        reply.result_case = DETSHARE__REPLY__RESULT_TRACE_STOP;
        reply.trace_stop = answer->message->traced;
        ds_client_reply(client, id, &reply, answer->fds, 1);
}

void ds_handle_trace_stop(struct ds_client *client, Detshare__Request *request, int *fds)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        struct ds_client_op *op = ds_client_op_new(client, request->id, sizeof(*op), trace_stop_done);

        if (!op)
                return;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_TRACE_STOP;
        message.trace_stop = request->trace_stop;
        ask(op, &message);
}
