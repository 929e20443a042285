/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storing: see handover.h
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "supervisor/client.h"
#include "supervisor/handover.h"
#include "supervisor/handover_internal.h"
#include "supervisor/notify.h"
#include "supervisor/saved.h"
#include "supervisor/session_call.h"
#include "supervisor/supervisor.h"
#include "util/error.h"
#include "util/frame.h"
#include "util/macro.h"

#define STORE_MAX_NS (3 * DS_NS_PER_S) /* for all of it: a manager that takes its time costs the rest */

#define RECORD(kind, field, message)                                                            \
        {                                                                                       \
                .base = PROTOBUF_C_MESSAGE_INIT(&detshare__internal__saved_record__descriptor), \
                .body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_##kind, .field = (message)  \
        }

struct saving {
        struct ds_supervisor *supervisor;
        ds_saved_writer *writer;
        struct ds_session *session;
        uint64_t id;        /* the session's; 0: what is no session's */
        uint32_t pool;      /* files of the pool that are stored */
        uint32_t n_files;   /* of the session */
        size_t names_bytes; /* of all */
        uint64_t until_ns;
        int deaf;        /* the manager does not take any more */
        const char *why; /* a session could not be stored */
};

/* A session that is stored. */
struct saved {
        uint64_t id;
        uint32_t n_files;
};

static int give_up(struct saving *saving, int r, const char *why)
{
        saving->why = why;
        return r;
}

/*
 * The manager keeps one of two handles of the same open file, and sessions may have the same image or the same memory:
 * a memory file is opened once more, so that each has one of its own. -1: it is no such file (or cannot be opened):
 * what a GPU's driver made is found again by what it is shared as (handover_take.c).
 */
static int open_again(int fd)
{
        struct stat st;
        char path[64];
        int again;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return -1;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        /* a client's file may have a lease on it: opening would wait for the client, 45 s for each */
        again = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
        return again >= 0 ? again : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

/* 0 and the file's number, or a negative errno. */
static int store(struct saving *saving, int fd, uint32_t *ret_file)
{
        char name[DS_HANDOVER_NAME_MAX];
        size_t length = ds_handover_name(name, saving->id, saving->n_files + 1);
        ds_cleanup(ds_closep) int own = -1;
        int r;

        if (saving->deaf || uv_hrtime() > saving->until_ns)
                return give_up(saving, -ETIMEDOUT, "the service manager does not take files any more");
        if (saving->names_bytes + length + 1 > DS_HANDOVER_NAMES_MAX)
                return give_up(saving, -EMFILE, "there are more files than can be handed over");
        own = open_again(fd);
        r = ds_notify_store(saving->supervisor->notify, name, own >= 0 ? own : fd);
        if (r) {
                saving->deaf = 1;
                return give_up(saving, r < 0 ? r : -ENOTSUP, "the service manager did not take a file");
        }
        saving->names_bytes += length + 1;
        *ret_file = ++saving->n_files;
        return 0;
}

/* fd -1: without a file. */
static int put(struct saving *saving, Detshare__Internal__SavedRecord *record, int fd)
{
        int r = fd >= 0 ? store(saving, fd, &record->file) : 0;

        if (!r)
                r = ds_saved_write(saving->writer, record);
        if (r > 0)
                return give_up(saving, -EFBIG, "it has more than the state may hold");
        return r;
}

static int put_ledger(void *user, Detshare__Internal__ToWorker *message, int fd)
{
        Detshare__Internal__SavedRecord record = DETSHARE__INTERNAL__SAVED_RECORD__INIT;
        struct saving *saving = user;

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
                if (!saving->pool)
                        return give_up(saving, -ENOTSUP, "it has coloured memory, which could not be stored");
                record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_LENT;
                record.lent = message->restore_lent;
                break;
        default:
                assert(message->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_STREAM);
                record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_STREAM;
                record.stream = message->restore_stream;
        }
        return put(saving, &record, fd);
}

static int put_text(void *user, int to_stderr, const uint8_t *bytes, size_t size)
{
        Detshare__Internal__SavedText text = DETSHARE__INTERNAL__SAVED_TEXT__INIT;
        Detshare__Internal__SavedRecord record = RECORD(TEXT, text, &text);

        text.to_stderr = to_stderr;
        text.text = (ProtobufCBinaryData){.len = size, .data = (uint8_t *)(uintptr_t)bytes};
        return put(user, &record, -1);
}

static int put_received(void *user, const uint8_t *bytes, size_t size)
{
        Detshare__Internal__SavedReceived received = DETSHARE__INTERNAL__SAVED_RECEIVED__INIT;
        Detshare__Internal__SavedRecord record = RECORD(RECEIVED, received, &received);

        received.bytes = (ProtobufCBinaryData){.len = size, .data = (uint8_t *)(uintptr_t)bytes};
        return put(user, &record, -1);
}

static int put_queued(void *user, const uint8_t *bytes, size_t size, size_t sent)
{
        Detshare__Internal__SavedReply reply = DETSHARE__INTERNAL__SAVED_REPLY__INIT;
        Detshare__Internal__SavedRecord record = RECORD(REPLY, reply, &reply);

        reply.frame = (ProtobufCBinaryData){.len = size, .data = (uint8_t *)(uintptr_t)bytes};
        reply.sent = (uint32_t)sent;
        return put(user, &record, -1);
}

static int put_received_fd(void *user, int fd)
{
        Detshare__Internal__SavedFile file = DETSHARE__INTERNAL__SAVED_FILE__INIT;
        Detshare__Internal__SavedRecord record = RECORD(RECEIVED_FILE, received_file, &file);

        return put(user, &record, fd);
}

static int put_queued_fd(void *user, int fd)
{
        Detshare__Internal__SavedFile file = DETSHARE__INTERNAL__SAVED_FILE__INIT;
        Detshare__Internal__SavedRecord record = RECORD(REPLY_FILE, reply_file, &file);

        return put(user, &record, fd);
}

/* --- a session ---------------------------------------------------------------------------------------------------- */

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
        saved->slo_ns = session->slo_ns;
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

static int put_session(struct saving *saving)
{
        Detshare__Internal__Range reserved[DS_SESSION_RESERVED_MAX], *reserved_at[DS_SESSION_RESERVED_MAX];
        Detshare__Internal__Range window, refused[DS_SESSION_REFUSALS_MAX], *pointers[DS_SESSION_REFUSALS_MAX];
        Detshare__Internal__SavedSession saved = DETSHARE__INTERNAL__SAVED_SESSION__INIT;
        Detshare__Internal__SavedRecord record = RECORD(SESSION, session, &saved);
        struct ds_session *session = saving->session;

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
        return put(saving, &record, ds_conn_fd(ds_client_conn(session->client)));
}

static int put_ring(struct saving *saving)
{
        Detshare__Internal__SavedRing ring = DETSHARE__INTERNAL__SAVED_RING__INIT;
        Detshare__Internal__SavedRecord record = RECORD(RING, ring, &ring);

        if (!saving->session->ring_kept)
                return 0;
        ring.head = saving->session->ring_head;
        return put(saving, &record, saving->session->ring.fd);
}

static int put_done(struct saving *saving)
{
        Detshare__Internal__SavedDone done = DETSHARE__INTERNAL__SAVED_DONE__INIT;
        Detshare__Internal__SavedRecord record = RECORD(DONE, done, &done);

        done.session = saving->session->id;
        return put(saving, &record, -1);
}

static int put_all(struct saving *saving)
{
        const struct ds_conn_keep keep = {.received = put_received,
                .received_fd = put_received_fd,
                .queued = put_queued,
                .queued_fd = put_queued_fd,
                .user = saving};
        struct ds_session *session = saving->session;
        int r = put_session(saving);

        if (!r)
                r = put_ring(saving);
        if (!r)
                r = ds_ledger_replay(session->ledger, session->id, put_ledger, saving);
        if (!r)
                r = ds_output_show(&session->output, put_text, saving);
        if (!r)
                r = ds_conn_show(ds_client_conn(session->client), &keep);
        return r ? r : put_done(saving);
}

static void unstore(struct saving *saving)
{
        char name[DS_HANDOVER_NAME_MAX];

        for (; saving->n_files > 0; saving->n_files--) {
                size_t length = ds_handover_name(name, saving->id, saving->n_files);

                ds_notify_unstore(saving->supervisor->notify, name);
                saving->names_bytes -= length + 1;
        }
}

/* What it asked and nobody has answered it asks again; those that the worker had were answered when that went. */
static struct ds_session *end_calls(struct ds_supervisor *supervisor, uint64_t id)
{
        struct ds_session_call *call;
        struct ds_session *session;

        /* answering may end the client, and the session with it */
        while ((session = ds_session_find(supervisor, id)) && (call = TAILQ_FIRST(&session->calls))) {
                if (call->rpc)
                        ds_session_call_fail(call, DETSHARE__STATUS__RESTARTING, "the daemon is being restarted");
                else
                        ds_session_call_free(call);
        }
        return session;
}

/* 1: it is stored. */
static int save_session(struct saving *saving, struct ds_session *session)
{
        uint64_t at = ds_saved_tell(saving->writer);

        saving->session = session;
        saving->id = session->id;
        saving->n_files = 0;
        saving->why = NULL;
        if (put_all(saving) == 0)
                return 1;
        ds_log(DS_LOG_WARNING, "session %llu '%s' (pid %d) cannot be handed over: %s", (unsigned long long)session->id,
                session->name, (int)session->pid, saving->why ? saving->why : "the daemon is out of memory");
        unstore(saving);
        (void)ds_saved_back_to(saving->writer, at);
        return 0;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static int put_header(struct saving *saving)
{
        Detshare__Internal__SavedHeader header = DETSHARE__INTERNAL__SAVED_HEADER__INIT;
        Detshare__Internal__SavedRecord record = RECORD(HEADER, header, &header);

        header.version = DS_SAVED_VERSION;
        header.device = (char *)(uintptr_t)saving->supervisor->options->device;
        header.device_now_ns = saving->supervisor->device_now_ns;
        header.last_session = saving->supervisor->next_session;
        return put(saving, &record, -1);
}

static int put_piece(void *user, Detshare__Internal__PoolPiece *piece, int fd)
{
        Detshare__Internal__SavedRecord record = RECORD(POOL, pool, piece);

        return put(user, &record, fd);
}

/* The pool of coloured memory, where sessions have some of it: else the next daemon makes its own. */
static void save_pool(struct saving *saving)
{
        const struct ds_supervisor *supervisor = saving->supervisor;
        const uint64_t at = ds_saved_tell(saving->writer);

        if (!ds_pool_lent(supervisor) || !supervisor->pool.complete)
                return;
        if (ds_pool_show(&supervisor->pool, put_piece, saving) == 0) {
                saving->pool = saving->n_files;
                return;
        }
        ds_log(DS_LOG_WARNING, "coloured memory cannot be handed over: %s",
                saving->why ? saving->why : "the daemon is out of memory");
        unstore(saving);
        (void)ds_saved_back_to(saving->writer, at);
}

/*
 * Nobody will want it: the manager is not to keep gigabytes for whoever comes next, nor connections, whose clients
 * would not hear before that that they are closed.
 */
static void unstore_all(struct saving *saving, const struct saved *saved, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                saving->id = saved[i].id;
                saving->n_files = saved[i].n_files;
                unstore(saving);
        }
        saving->id = 0;
        saving->n_files = saving->pool;
        saving->pool = 0;
        unstore(saving);
}

static int store_state(struct saving *saving)
{
        ds_cleanup(ds_closep) int fd = -1;
        int r = ds_saved_finish(saving->writer, &fd);

        if (!r)
                r = ds_notify_store(saving->supervisor->notify, DS_HANDOVER_STATE, fd);
        if (r)
                ds_log(DS_LOG_ERROR, "the state could not be stored: no session is handed over");
        return r;
}

/* The clients of sessions up to this one go on elsewhere. */
static void let_go(struct ds_supervisor *supervisor, const struct saved *saved, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                struct ds_session *session = ds_session_find(supervisor, saved[i].id);

                if (session)
                        ds_client_let_go(session->client);
        }
}

void ds_handover_save(struct ds_supervisor *supervisor)
{
        ds_cleanup(ds_saved_writer_freep) ds_saved_writer *writer = NULL;
        struct saving saving = {.supervisor = supervisor,
                .names_bytes = sizeof(DS_HANDOVER_STATE),
                .until_ns = uv_hrtime() + STORE_MAX_NS};
        ds_cleanup(ds_freep) struct saved *saved = ds_alloc0(HASH_COUNT(supervisor->session_by_id), sizeof(*saved));
        struct ds_session *session, *next;
        size_t n = 0;

        supervisor->handing_over = 0;
        if (!saved || ds_saved_writer_new(&writer))
                return;
        saving.writer = writer;
        if (put_header(&saving))
                return;
        save_pool(&saving);
        for (session = TAILQ_FIRST(&supervisor->sessions); session; session = next) {
                next = TAILQ_NEXT(session, link);
                if (session->control_only)
                        continue;
                session = end_calls(supervisor, session->id);
                if (session && save_session(&saving, session))
                        saved[n++] = (struct saved){.id = session->id, .n_files = saving.n_files};
        }
        if (!n || store_state(&saving)) {
                unstore_all(&saving, saved, n);
                return;
        }
        let_go(supervisor, saved, n);
        ds_log(DS_LOG_INFO, "%zu sessions are handed over", n);
}
