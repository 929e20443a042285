/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversion of a session to records; see handover_internal.h
 */
#include <assert.h>

#include "supervisor/client.h"
#include "supervisor/handover_internal.h"
#include "supervisor/session.h"
#include "util/frame.h"

#define RECORD(kind, field, message)                                                            \
        {                                                                                       \
                .base = PROTOBUF_C_MESSAGE_INIT(&detshare__internal__saved_record__descriptor), \
                .body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_##kind, .field = (message)  \
        }

struct walk {
        struct ds_session *session;
        ds_handover_put_fn put;
        void *user;
};

/* --- parts of a session ------------------------------------------------------------------------------------------- */

static int put_ledger(void *user, Detshare__Internal__ToWorker *message, int fd)
{
        Detshare__Internal__SavedRecord record = DETSHARE__INTERNAL__SAVED_RECORD__INIT;
        const struct walk *walk = user;

        switch (message->body_case) {
        case DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_SLAB:
                record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_SLAB;
                record.slab = message->restore_slab;
                break;
        case DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_MODULE:
                record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_MODULE;
                record.module = message->restore_module;
                break;
        case DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_GRAPH:
                record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_GRAPH;
                record.graph = message->restore_graph;
                break;
        case DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_PHYSICAL:
                record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_PHYSICAL;
                record.physical = message->restore_physical;
                break;
        case DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_MAPPING:
                record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_MAPPING;
                record.mapping = message->restore_mapping;
                break;
        case DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_LENT:
                record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_LENT;
                record.lent = message->restore_lent;
                break;
        default:
                assert(message->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_STREAM);
                record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_STREAM;
                record.stream = message->restore_stream;
        }
        return walk->put(walk->user, &record, fd);
}

static int put_text(void *user, int to_stderr, const uint8_t *bytes, size_t size)
{
        const struct walk *walk = user;
        Detshare__Internal__SavedText text = DETSHARE__INTERNAL__SAVED_TEXT__INIT;
        Detshare__Internal__SavedRecord record = RECORD(TEXT, text, &text);

        text.to_stderr = to_stderr;
        text.text = (ProtobufCBinaryData){.len = size, .data = (uint8_t *)(uintptr_t)bytes};
        return walk->put(walk->user, &record, -1);
}

static int put_received(void *user, const uint8_t *bytes, size_t size)
{
        const struct walk *walk = user;
        Detshare__Internal__SavedReceived received = DETSHARE__INTERNAL__SAVED_RECEIVED__INIT;
        Detshare__Internal__SavedRecord record = RECORD(RECEIVED, received, &received);

        received.bytes = (ProtobufCBinaryData){.len = size, .data = (uint8_t *)(uintptr_t)bytes};
        return walk->put(walk->user, &record, -1);
}

static int put_queued(void *user, const uint8_t *bytes, size_t size, size_t sent)
{
        const struct walk *walk = user;
        Detshare__Internal__SavedReply reply = DETSHARE__INTERNAL__SAVED_REPLY__INIT;
        Detshare__Internal__SavedRecord record = RECORD(REPLY, reply, &reply);

        reply.frame = (ProtobufCBinaryData){.len = size, .data = (uint8_t *)(uintptr_t)bytes};
        reply.sent = (uint32_t)sent;
        return walk->put(walk->user, &record, -1);
}

static int put_received_fd(void *user, int fd)
{
        const struct walk *walk = user;
        Detshare__Internal__SavedFile file = DETSHARE__INTERNAL__SAVED_FILE__INIT;
        Detshare__Internal__SavedRecord record = RECORD(RECEIVED_FILE, received_file, &file);

        return walk->put(walk->user, &record, fd);
}

static int put_queued_fd(void *user, int fd)
{
        const struct walk *walk = user;
        Detshare__Internal__SavedFile file = DETSHARE__INTERNAL__SAVED_FILE__INIT;
        Detshare__Internal__SavedRecord record = RECORD(REPLY_FILE, reply_file, &file);

        return walk->put(walk->user, &record, fd);
}

/* --- the whole session -------------------------------------------------------------------------------------------- */

static void fill_range(Detshare__Internal__Range *range, const struct ds_window *window)
{
        detshare__internal__range__init(range);
        range->va = window->base;
        range->bytes = window->bytes;
}

static void fill_session(Detshare__Internal__SavedSession *saved, struct ds_session *session)
{
        const struct ds_rights *rights = ds_client_rights(session->client);

        saved->session = session->id;
        saved->pid = (uint32_t)session->pid;
        saved->uid = (uint32_t)ds_user_uid(session->user);
        saved->name = session->name;
        saved->class_ = session->class_;
        DS_SLO_WRITE(saved, &session->slo);
        saved->memory_limit = session->memory_limit;
        saved->sm_percent = session->sm_percent;
        saved->sm_asked = session->sm_asked;
        saved->gpu_request = session->share.request;
        saved->gpu_limit = session->share.limit;
        saved->gpu_request_asked = session->share_asked.request;
        saved->gpu_limit_asked = session->share_asked.limit;
        saved->connected_ns = session->connected_ns;
        saved->lost_work = session->lost_work;
        saved->lost_globals = session->lost_globals;
        saved->sticky = session->sticky;
        saved->fault = session->fault;
        saved->n_limits = DS_SESSION_LIMITS;
        saved->limits = session->limits;
        saved->output_total = session->output.total;
        saved->output_dropped = session->output.dropped;
        saved->output_unread = session->output.unread;
        saved->may_classes = (uint32_t)rights->of[DS_RULE_CLASSES].value;
        saved->may_sm_percent = (uint32_t)rights->of[DS_RULE_SM_PERCENT].value;
        saved->may_gpu_request = (uint32_t)rights->of[DS_RULE_GPU_REQUEST].value;
        saved->may_gpu_limit = (uint32_t)rights->of[DS_RULE_GPU_LIMIT].value;
}

static int put_session(const struct walk *walk)
{
        Detshare__Internal__Range reserved[DS_SESSION_RESERVED_MAX], *reserved_at[DS_SESSION_RESERVED_MAX];
        Detshare__Internal__Range window, refused[DS_SESSION_REFUSALS_MAX], *pointers[DS_SESSION_REFUSALS_MAX];
        Detshare__Internal__SavedSession saved = DETSHARE__INTERNAL__SAVED_SESSION__INIT;
        Detshare__Internal__SavedRecord record = RECORD(SESSION, session, &saved);
        struct ds_session *session = walk->session;

        fill_session(&saved, session);
        fill_range(&window, &session->window);
        saved.window = &window;
        saved.n_refused = session->n_refused;
        saved.refused = pointers;
        for (size_t i = 0; i < session->n_refused; i++) {
                fill_range(&refused[i], &session->refused[i]);
                pointers[i] = &refused[i];
        }
        saved.reserved = reserved_at;
        for (size_t i = 0; i < DS_SESSION_RESERVED_MAX; i++) {
                if (!session->reserved[i].bytes)
                        continue;
                fill_range(&reserved[saved.n_reserved], &session->reserved[i]);
                reserved_at[saved.n_reserved] = &reserved[saved.n_reserved];
                saved.n_reserved++;
        }
        saved.progress = (uint64_t *)(uintptr_t)ds_ledger_progress(session->ledger);
        saved.n_progress = saved.progress ? DS_STREAMS_MAX : 0;
        while (saved.n_progress && !saved.progress[saved.n_progress - 1])
                saved.n_progress--;
        return walk->put(walk->user, &record, ds_conn_fd(ds_client_conn(session->client)));
}

static int put_ring(const struct walk *walk)
{
        Detshare__Internal__SavedRing ring = DETSHARE__INTERNAL__SAVED_RING__INIT;
        Detshare__Internal__SavedRecord record = RECORD(RING, ring, &ring);

        if (!walk->session->ring_kept)
                return 0;
        ring.head = walk->session->ring_head;
        return walk->put(walk->user, &record, walk->session->ring.fd);
}

static int put_done(const struct walk *walk)
{
        Detshare__Internal__SavedDone done = DETSHARE__INTERNAL__SAVED_DONE__INIT;
        Detshare__Internal__SavedRecord record = RECORD(DONE, done, &done);

        done.session = walk->session->id;
        return walk->put(walk->user, &record, -1);
}

int ds_handover_walk(struct ds_session *session, ds_handover_put_fn put, void *user)
{
        struct walk walk = {.session = session, .put = put, .user = user};
        const struct ds_conn_keep keep = {.received = put_received,
                .received_fd = put_received_fd,
                .queued = put_queued,
                .queued_fd = put_queued_fd,
                .user = &walk};
        int r = put_session(&walk);

        if (!r)
                r = put_ring(&walk);
        if (!r)
                r = ds_ledger_replay(session->ledger, session->id, put_ledger, &walk);
        if (!r)
                r = ds_output_show(&session->output, put_text, &walk);
        if (!r)
                r = ds_conn_show(ds_client_conn(session->client), &keep);
        return r ? r : put_done(&walk);
}
