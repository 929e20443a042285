/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that kernels print: passed from the device to the supervisor, which keeps it until the client requests it
 *
 * The worker reads the text after a poll and before it reports the poll's completions. A client that sees its kernel
 * ended therefore finds in page->output how much text it can request. The supervisor keeps a bounded amount per session
 * and drops the rest. If the supervisor does not read, the worker drops text too, without counting it, as CUDA's own
 * FIFO does.
 */
#include "worker/internal.h"

#define OUTPUT_PIECE 49152u /* bytes of text per message */
/* the worker drops text while the supervisor has more bytes than this to read */
#define OUTPUT_QUEUED_MAX ((size_t)DS_MIB(24))

static struct dsw_session *output_session(ds_worker *worker, uint32_t space)
{
        struct dsw_session *session;

        for (session = worker->sessions; session; session = session->hh.next) {
                if (session->space == space)
                        return session;
        }
        return NULL;
}

static void output_send(struct dsw_session *session, const struct ds_device_output *piece)
{
        Detshare__Internal__FromWorker message = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__Output body = DETSHARE__INTERNAL__OUTPUT__INIT;

        body.session = session->id;
        body.to_stderr = piece->to_stderr != 0;
        body.text.data = (uint8_t *)(uintptr_t)piece->text;
        body.text.len = piece->size;
        message.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_OUTPUT;
        message.output = &body;
        dsw_message_send(session->worker, &message, NULL, 0);
        atomic_fetch_add_explicit(&session->page->output, piece->size, memory_order_release);
}

void dsw_output_drain(ds_worker *worker)
{
        struct dsw_session *session;
        struct ds_device_output text, piece;

        while (worker->ops->output(worker->device, &text)) {
                session = output_session(worker, text.space);
                while (session && text.size && ds_conn_queued(worker->conn) < OUTPUT_QUEUED_MAX) {
                        piece = text;
                        piece.size = DS_MIN(text.size, (size_t)OUTPUT_PIECE);
                        output_send(session, &piece);
                        text.text += piece.size;
                        text.size -= piece.size;
                }
        }
}
