/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attach: a client gets its ring, its completion page and the eventfd that wakes the worker
 *
 * A ring that survived a restart of the daemon is sent to the worker as soon as the worker opens the session, so that
 * new requests are queued behind its records. The client receives the ring when it attaches, with a new page and
 * eventfd.
 */
#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>

#include "supervisor/client.h"
#include "supervisor/notify.h"
#include "supervisor/rpc_table.h"
#include "supervisor/session_call.h"
#include "supervisor/session_memory.h"
#include "supervisor/supervisor.h"
#include "util/error.h"
#include "util/macro.h"

/* Called when the worker has mapped ring and page: they may now go to the client. */
static void give_to_client(struct ds_session *session, uint64_t request_id, int event_fd)
{
        Detshare__AttachReply attach = DETSHARE__ATTACH_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        int fds[] = {session->ring.fd, session->page.fd, event_fd};

        attach.wire_version = DS_WIRE_VERSION;
        attach.ring_bytes = DS_RING_BYTES;
        attach.page_bytes = DS_PAGE_BYTES;
        attach.lost_work = session->lost_work;
        attach.lost_globals = session->lost_globals;
        attach.kept = session->ring_kept;
        attach.objects = 1;
        attach.spare_bytes = ds_session_memory_spare(session);
        reply.result_case = DETSHARE__REPLY__RESULT_ATTACH;
        reply.attach = &attach;
        session->attached = 1;
        session->attachments++;
        ds_client_reply(session->client, request_id, &reply, fds, DS_ARRAY_SIZE(fds));
        /* the worker, which has opened the session, has mapped the page, so the supervisor's descriptor is not
         * needed any more */
        session->page.fd = ds_close(session->page.fd);
        /* the ring's descriptor stays open if the next daemon may have to continue reading this ring */
        if (!ds_notify_stores(session->supervisor->notify))
                session->ring.fd = ds_close(session->ring.fd);
}

static void attach_done(struct ds_worker_call *base, const struct ds_worker_answer *answer)
{
        struct ds_session_call *call = DS_CONTAINER_OF(base, struct ds_session_call, base);
        struct ds_session *session = call->session;
        ds_cleanup(ds_closep) int event_fd = -1;
        uint64_t request_id = call->request_id;

        if (!answer) {
                ds_session_call_lost(call);
                return;
        }
        if (answer->message->status) {
                ds_session_call_fail(call, answer->message->status, "%s", answer->message->message);
                return;
        }
        if (!session->sealed) {
                ds_session_call_fail(call, DETSHARE__STATUS__INTERNAL, "the completion page is not sealed");
                return;
        }
        if (session->ring_kept) {
                event_fd = DS_TAKE_FD(session->event_fd);
        } else {
                session->ring = call->ring;
                call->ring = (struct ds_ring)DS_RING_INIT;
                event_fd = DS_TAKE_FD(call->event_fd);
        }
        ds_session_call_free(call);
        if (session->client)
                give_to_client(session, request_id, event_fd);
}

static void kept_done(struct ds_worker_call *base, const struct ds_worker_answer *answer)
{
        struct ds_session_call *call = DS_CONTAINER_OF(base, struct ds_session_call, base);
        struct ds_session *session = call->session;
        int status = answer ? answer->message->status : 0;

        ds_session_call_free(call);
        if (status && session->client)
                ds_client_close(session->client, "its ring could not be attached to the new worker");
}

int ds_session_attach_kept(struct ds_session *session)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__SessionAttach attach = DETSHARE__INTERNAL__SESSION_ATTACH__INIT;
        struct ds_session_call *call = ds_session_call_new(session, NULL, 0, kept_done);
        int fds[2], r;

        if (!call)
                return ds_error_origin(-ENOMEM);
        assert(session->event_fd < 0);
        session->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (session->event_fd < 0) {
                r = -errno;
                ds_session_call_free(call);
                return ds_error_origin(r);
        }
        attach.session = session->id;
        attach.head = session->ring_head;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_ATTACH;
        message.attach = &attach;
        fds[0] = session->ring.fd;
        fds[1] = session->event_fd;
        r = ds_worker_send(session->supervisor->worker, &message, fds, DS_ARRAY_SIZE(fds), &call->base);
        if (r)
                ds_session_call_free(call);
        return r;
}

/* Sends the ring to the worker, or waits until the worker has opened the session: the worker handles a session's
 * messages in order. */
static int send_behind(struct ds_session_call *call)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__SessionSet set = DETSHARE__INTERNAL__SESSION_SET__INIT;

        ds_session_make_set(call->session, &set);
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SET;
        message.set = &set;
        return ds_worker_send(call->session->supervisor->worker, &message, NULL, 0, &call->base);
}

static int send_attach(struct ds_session_call *call)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__SessionAttach attach = DETSHARE__INTERNAL__SESSION_ATTACH__INIT;
        struct ds_session *session = call->session;
        int fds[2], r;

        r = ds_session_open(session);
        if (r)
                return r;
        if (session->ring_kept)
                return send_behind(call);
        r = ds_ring_create(&call->ring);
        if (r)
                return ds_error_trace(r);
        call->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (call->event_fd < 0)
                return ds_error_origin(-errno);
        attach.session = session->id;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_ATTACH;
        message.attach = &attach;
        fds[0] = call->ring.fd;
        fds[1] = call->event_fd;
        return ds_worker_send(session->supervisor->worker, &message, fds, DS_ARRAY_SIZE(fds), &call->base);
}

static int attach_is_open(const struct ds_session *session)
{
        const struct ds_session_call *call;

        TAILQ_FOREACH(call, &session->calls, link)
        if (call->rpc && call->rpc->call == DETSHARE__REQUEST__CALL_ATTACH)
                return 1;
        return 0;
}

void ds_session_attach(struct ds_session *session, uint64_t request_id)
{
        const struct ds_rpc *rpc = ds_rpc_find(DETSHARE__REQUEST__CALL_ATTACH);
        struct ds_session_call *call;
        int r;

        if (session->attached || attach_is_open(session)) {
                ds_client_answer(
                        session->client, request_id, DETSHARE__STATUS__BAD_REQUEST, "the session is attached already");
                return;
        }
        call = ds_session_call_new(session, rpc, request_id, attach_done);
        if (!call) {
                ds_client_answer(
                        session->client, request_id, DETSHARE__STATUS__INTERNAL, "the daemon is out of memory");
                return;
        }
        if (session->presence == DS_PRESENCE_ABSENT && ds_session_must_wait(call))
                return;
        if (ds_worker_state(session->supervisor->worker) != DS_WORKER_READY)
                r = -EPIPE;
        else
                r = send_attach(call);
        if (r == -EPIPE)
                ds_session_call_fail(call, DETSHARE__STATUS__RESTARTING, "the worker is being restarted; retry");
        else if (r)
                ds_session_call_fail(call, DETSHARE__STATUS__INTERNAL,
                        "the shared memory for ring and completion page could not be created");
}
