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
#include "worker/internal.h"

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

int dsw_stream_open(
        struct dsw_session *session, uint32_t slot, int32_t priority, int non_blocking, struct dsw_stream **ret)
{
        struct dsw_stream *stream;
        int r;

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

void dsw_stream_close(struct dsw_stream *stream)
{
        assert(stream->state == DSW_STREAM_OPEN);
        assert(stream->slot != 0);
        stream->state = DSW_STREAM_CLOSING;
        stream->session->n_closing++;
        dsw_session_dirty(stream->session);
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

void dsw_stream_forget_all(struct dsw_session *session, int keep_slots)
{
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
        stream_publish(stream, seq, 1);
        stream_end_dropped(stream);
}
