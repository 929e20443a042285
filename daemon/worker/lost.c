/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loss of the device's context: a fault that the driver does not survive, or a kernel that cannot be stopped
 *
 * The worker reports the operations in flight as they ended. Sessions whose operations carried the error are suspects,
 * and the error becomes their sticky error. The worker sends pending printf output, and a DeviceLost message last. The
 * supervisor then starts a new worker at once and restores the memory of all other sessions. The worker does not use
 * the device again. The supervisor informs the other sessions that had work in flight.
 */
#include <stdio.h>
#include <string.h>

#include "worker/internal.h"

#define LOST_COMPLETIONS 128
#define LOST_STUCK_MAX 900 /* bytes of the device's state that fit a log line after its prefix */

static void lost_suspect(struct dsw_lost *lost, uint64_t id)
{
        for (size_t i = 0; i < lost->n_suspects; i++) {
                if (lost->suspects[i] == id)
                        return;
        }
        if (lost->n_suspects < DSW_SUSPECTS_MAX)
                lost->suspects[lost->n_suspects++] = id;
}

void dsw_lost_op(struct dsw_session *session, int status, const char *message)
{
        struct dsw_lost *lost = &session->worker->lost;

        if (!lost->status || status != lost->status)
                return;
        lost_suspect(lost, session->id);
        if (!lost->message[0] && message)
                snprintf(lost->message, sizeof(lost->message), "%s", message);
}

int dsw_lost_poll(ds_worker *worker, const struct ds_completion *first, size_t n)
{
        struct ds_completion completions[LOST_COMPLETIONS];
        int status = worker->ops->lost(worker->device);

        if (!status || worker->lost.status || worker->ending)
                return 0;
        worker->lost.status = status;
        dsw_output_drain(worker);
        ds_sched_complete(worker->sched, first, n);
        while ((n = worker->ops->poll(worker->device, completions, LOST_COMPLETIONS))) {
                dsw_output_drain(worker);
                ds_sched_complete(worker->sched, completions, n);
        }
        dsw_output_drain(worker);
        return 1;
}

/* Logs what the device reports about the work that does not end; this line is the only record of it. */
static void lost_log_stuck(struct dsw_session *session)
{
        ds_worker *worker = session->worker;
        char text[LOST_STUCK_MAX];

        if (!worker->ops->stuck || !session->space)
                return;
        worker->ops->stuck(worker->device, session->space, text, sizeof(text));
        ds_log(DS_LOG_ERROR, "session %llu waits for: %s", (unsigned long long)session->id,
                text[0] ? text : "nothing that the device has");
}

void dsw_lost_give_up(struct dsw_session *session, int status, const char *message)
{
        struct dsw_lost *lost = &session->worker->lost;

        if (lost->status)
                return;
        lost_log_stuck(session);
        lost->status = status;
        snprintf(lost->message, sizeof(lost->message), "%s", message);
        lost_suspect(lost, session->id);
        /* records the error, although a closing session has no client that reads it */
        dsw_session_fail(session, status, message);
}

static void lost_log(const struct dsw_lost *lost)
{
        char ids[128] = "";
        size_t used = 0;

        for (size_t i = 0; i < lost->n_suspects && used + 32 < sizeof(ids); i++)
                used += (size_t)snprintf(
                        ids + used, sizeof(ids) - used, " %llu", (unsigned long long)lost->suspects[i]);
        ds_log(DS_LOG_ERROR, "the device is lost: error %d: %s; %s%s", lost->status,
                lost->message[0] ? lost->message : "the driver says no more",
                lost->n_suspects ? "it was work of session" : "nobody's work carried it", ids);
}

/* Answers the waiting requests of suspects with the error. The supervisor informs the other sessions. */
static void lost_tell(ds_worker *worker)
{
        struct dsw_lost *lost = &worker->lost;
        struct dsw_session *session;

        for (size_t i = 0; i < lost->n_suspects; i++) {
                session = dsw_session_find(worker, lost->suspects[i]);
                if (!session || !session->error)
                        continue;
                dsw_call_fail_all(session, session->error, session->error_text);
        }
        for (session = worker->sessions; session; session = session->hh.next)
                dsw_page_flush(session);
}

void dsw_lost_say(ds_worker *worker)
{
        Detshare__Internal__FromWorker message = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__DeviceLost body = DETSHARE__INTERNAL__DEVICE_LOST__INIT;
        struct dsw_lost *lost = &worker->lost;

        lost_tell(worker);
        lost_log(lost);
        body.status = lost->status;
        body.message = lost->message;
        body.suspects = lost->suspects;
        body.n_suspects = lost->n_suspects;
        message.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_LOST;
        message.lost = &body;
        dsw_message_send(worker, &message, NULL, 0);
}
