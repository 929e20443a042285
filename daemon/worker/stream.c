/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of a session: slots, sequence numbers, coroutines
 *
 * Client and worker count a stream's operations alike, including those dropped because the session has failed. A
 * dropped operation ends when everything before it in its stream has ended, so stream_done only grows and reaches every
 * submitted number.
 */
#include <assert.h>
#include <errno.h>

#include "util/error.h"
#include "worker/graph.h"
#include "worker/internal.h"
#include "worker/repeat.h"

struct dsw_stream *dsw_stream_find(struct dsw_session *session, uint64_t slot)
{
        struct dsw_stream *stream = slot < session->n_streams ? session->streams[slot] : NULL;

        return stream && stream->state == DSW_STREAM_OPEN ? stream : NULL;
}

/* Opens a stream in this slot. Its numbers continue from the value in the page, which an earlier worker may have
 * written. */
static void stream_begin(struct dsw_session *session, struct dsw_stream *stream, uint32_t slot)
{
        stream->session = session;
        stream->slot = slot;
        stream->submitted = stream->done = atomic_load(&session->page->stream_done[slot]);
}

/* The structure of the slot, created on first use. Returns NULL when out of memory. */
static struct dsw_stream *stream_slot(struct dsw_session *session, uint32_t slot)
{
        struct dsw_stream **grown;
        uint32_t n;

        assert(slot < DS_STREAMS_MAX);
        if (slot >= session->n_streams) {
                n = DS_MIN(DS_STREAMS_MAX, DS_MAX(slot + 1, session->n_streams * 2));
                grown = ds_realloc(session->streams, n, sizeof(struct dsw_stream *));
                if (!grown)
                        return NULL;
                for (uint32_t i = session->n_streams; i < n; i++)
                        grown[i] = NULL;
                session->streams = grown;
                session->n_streams = n;
        }
        if (!session->streams[slot]) {
                session->streams[slot] = ds_alloc0(1, sizeof(struct dsw_stream));
                if (session->streams[slot])
                        stream_begin(session, session->streams[slot], slot);
        }
        return session->streams[slot];
}

static uint32_t stream_free_slot(const struct dsw_session *session)
{
        uint32_t slot = 0;

        while (slot < session->n_streams && session->streams[slot] && session->streams[slot]->state != DSW_STREAM_FREE)
                slot++;
        return slot;
}

void dsw_stream_reap(struct dsw_session *session)
{
        for (uint32_t i = 1; session->n_closing && i < session->n_streams; i++) {
                struct dsw_stream *stream = session->streams[i];

                if (!stream || stream->state != DSW_STREAM_CLOSING || stream->live)
                        continue;
                ds_coroutine_release(stream->coroutine);
                stream->coroutine = NULL;
                stream->state = DSW_STREAM_FREE;
                session->n_closing--;
                session->worker->sched_due = 1;
        }
}

int dsw_stream_open(
        struct dsw_session *session, uint32_t slot, int32_t priority, int non_blocking, struct dsw_stream **ret)
{
        struct dsw_stream *stream;
        int r;

        dsw_stream_reap(session); /* the slot may be that of a stream that was destroyed just now */
        if (slot == UINT32_MAX)
                slot = stream_free_slot(session);
        if (slot >= DS_STREAMS_MAX)
                return DETSHARE__STATUS__QUOTA;
        stream = stream_slot(session, slot);
        if (!stream)
                return ds_error_origin(-ENOMEM);
        if (stream->state != DSW_STREAM_FREE)
                return ds_error_origin(-EEXIST);
        r = ds_coroutine_new(session->sched, priority, slot != 0 && !non_blocking, slot == 0, &stream->coroutine);
        if (r)
                return ds_error_fold(r);
        stream->state = DSW_STREAM_OPEN;
        stream->priority = priority;
        stream->non_blocking = non_blocking;
        stream->base = stream->submitted - ds_coroutine_submitted(stream->coroutine);
        *ret = stream;
        return 0;
}

/* Reports to the supervisor's ledger a stream that was created (NULL: none), the slot of one that was destroyed before
 * (0: none), and a graph that was destroyed (0: none). */
static void object_tell(struct dsw_session *session, const struct dsw_stream *added, uint32_t removed, uint64_t graph)
{
        Detshare__Internal__FromWorker message = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Stream note = DETSHARE__INTERNAL__STREAM__INIT;

        ledger.session = session->id;
        ledger.stream_removed = removed;
        ledger.graph_removed = graph;
        if (added) {
                note.stream = added->slot;
                note.priority = added->priority;
                note.non_blocking = added->non_blocking;
                ledger.stream_added = &note;
        }
        message.ledger = &ledger;
        dsw_message_send(session->worker, &message, NULL, 0);
}

static int stream_refuse(const char **ret_why, const char *why)
{
        *ret_why = why;
        return DS_CUDA_INVALID_HANDLE;
}

/* Creates a stream. An idle stream in the slot gets the attributes of the record. */
static int stream_create(struct dsw_session *session, const struct ds_record_object *record, const char **ret_why)
{
        const int non_blocking = record->kind == DS_OBJECT_STREAM_NON_BLOCKING;
        struct dsw_stream *stream = dsw_stream_find(session, record->head.stream);
        uint32_t removed = 0;
        int r;

        if (stream && stream->priority == record->priority && !stream->non_blocking == !non_blocking)
                return 0;
        if (stream && stream->live)
                return stream_refuse(ret_why, "a stream with work was created again");
        if (stream) {
                removed = stream->slot;
                dsw_stream_close(stream);
        }
        r = dsw_stream_open(session, record->head.stream, record->priority, non_blocking, &stream);
        if (r) {
                *ret_why = "a stream cannot be created: the daemon is out of memory, or its slot is in use";
                return DS_CUDA_OUT_OF_MEMORY;
        }
        object_tell(session, stream, removed, 0);
        return 0;
}

int dsw_stream_object(struct dsw_session *session, const struct ds_record_object *record, const char **ret_why)
{
        struct dsw_stream *stream = dsw_stream_find(session, record->head.stream);
        struct dsw_event *event;

        switch (record->kind) {
        case DS_OBJECT_STREAM_END:
                if (!stream)
                        return stream_refuse(ret_why, "the end of an unknown stream");
                dsw_stream_close(stream);
                object_tell(session, NULL, stream->slot, 0);
                return 0;
        case DS_OBJECT_EVENT_END:
                event = dsw_event_known(session, record->id);
                if (!event) /* an event of the client that was never recorded in this worker */
                        return record->id & DS_EVENT_OF_CLIENT ? 0
                                                               : stream_refuse(ret_why, "the end of an unknown event");
                dsw_event_destroy(session, event);
                dsw_graph_taken(session);
                return 0;
        case DS_OBJECT_GRAPH_END:
                /* a graph is unknown if its end was sent twice, or if this worker could not restore it */
                if (!dsw_graph_destroy(session, record->id))
                        object_tell(session, NULL, 0, record->id);
                return 0;
        default:
                return stream_create(session, record, ret_why);
        }
}

void dsw_stream_close(struct dsw_stream *stream)
{
        assert(stream->state == DSW_STREAM_OPEN);
        assert(stream->slot != 0);
        stream->state = DSW_STREAM_CLOSING;
        stream->session->n_closing++;
        dsw_session_dirty(stream->session);
}

void dsw_stream_forget_all(struct dsw_session *session, int keep_slots)
{
        dsw_repeat_forget_all(session);
        for (uint32_t i = 0; i < session->n_streams; i++) {
                if (session->streams[i]) {
                        session->streams[i]->coroutine = NULL;
                        session->streams[i]->state = DSW_STREAM_FREE;
                }
                if (!keep_slots)
                        session->streams[i] = ds_free(session->streams[i]);
        }
        session->n_closing = 0;
        if (!keep_slots) {
                session->streams = ds_free(session->streams);
                session->n_streams = 0;
        }
}

static void stream_publish(struct dsw_stream *stream, uint64_t done, uint64_t n)
{
        struct ds_completion_page *page = stream->session->page;

        assert(done >= stream->done);
        assert(done <= stream->submitted);
        stream->done = done;
        atomic_fetch_add_explicit(&page->completed, n, memory_order_relaxed);
        atomic_store_explicit(&page->stream_done[stream->slot], done, memory_order_release);
}

/* Ends dropped operations when all operations before them have ended. */
static void stream_end_dropped(struct dsw_stream *stream)
{
        uint64_t n = stream->dropped;

        if (stream->live || !n)
                return;
        stream->dropped = 0;
        stream_publish(stream, stream->submitted, n);
}

uint64_t dsw_stream_drop(struct dsw_stream *stream)
{
        atomic_fetch_add_explicit(&stream->session->page->accepted, 1, memory_order_relaxed);
        stream->submitted++;
        stream->dropped++;
        stream_end_dropped(stream);
        dsw_session_dirty(stream->session);
        return stream->submitted;
}

void dsw_stream_ended(struct dsw_stream *stream, uint64_t seq)
{
        assert(stream->live > 0);
        stream->live--;
        stream->session->user->n_streams -= stream->live == 0;
        stream_publish(stream, seq, seq - stream->done);
        stream_end_dropped(stream);
}
