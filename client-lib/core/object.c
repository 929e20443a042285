/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, timed events and graphs, created or destroyed without a request
 *
 * A record OBJECT in the ring creates a stream or destroys an object, in order with the operations. Nothing can fail
 * except by the number of streams or events, which this library counts, or by lack of memory in the daemon, which
 * becomes the session's error. The client chooses the slots of streams and the ids of events.
 *
 * The record is no operation, so a worker's death does not count it as lost work. Instead, each new attachment begins
 * with the records of all streams. An event is created by its first record in any worker. The end of a graph may be
 * lost with a worker; the graph then stays until the session is reset or ends.
 */
#include <string.h>

#include "core/internal.h"

bool dsc__objects(dsc_session *s)
{
        return !s->socket_only && (dsc__attached(s) || dsc__attach(s) == 0) && atomic_load(&s->submit.objects);
}

static int put_locked(dsc_session *s, const struct ds_record_object *record)
{
        struct dsc__submit *submit = &s->submit;
        for (;;) {
                int r = dsc__attach_locked(s);
                if (!r)
                        r = dsc__sticky(s);
                if (r)
                        return r;
                if (dsc__ring_put(&submit->ring, &record->head, sizeof(*record), NULL, 0) == DSC__RING_FULL)
                        return DSC__RING_FULL;
                atomic_store(&s->rpc.ring_tail, submit->ring.tail);
                if (!atomic_load(&s->page->dead))
                        return 0;
                /* the old worker may have handled the record; to handle it again has no other effect */
                r = dsc__attach_locked(s);
                if (r || submit->kept)
                        return r;
        }
}

/* --- streams --- */

static struct ds_record_object stream_record(uint32_t stream, const struct dsc__stream *as)
{
        return (struct ds_record_object){
                .head = {.type = DS_RECORD_OBJECT, .stream = (uint16_t)stream},
                .kind = as->non_blocking ? DS_OBJECT_STREAM_NON_BLOCKING : DS_OBJECT_STREAM,
                .priority = as->priority,
        };
}

void dsc__streams_renew_locked(dsc_session *s)
{
        struct dsc__submit *submit = &s->submit;
        for (uint32_t i = 1; i < DS_STREAMS_MAX && submit->objects; i++) {
                const struct ds_record_object record = stream_record(i, &submit->streams[i]);
                if (!submit->streams[i].used)
                        continue;
                /* the ring is empty, so it has room for all streams */
                (void)dsc__ring_put(&submit->ring, &record.head, sizeof(record), NULL, 0);
                atomic_store(&s->rpc.ring_tail, submit->ring.tail);
        }
}

void dsc__streams_forget_locked(dsc_session *s)
{
        memset(s->submit.streams, 0, sizeof(s->submit.streams));
}

void dsc__stream_note(dsc_session *s, uint32_t stream, const struct dsc__stream *as)
{
        if (stream >= DS_STREAMS_MAX)
                return;
        pthread_mutex_lock(&s->submit.lock);
        s->submit.streams[stream] = *as;
        pthread_mutex_unlock(&s->submit.lock);
}

static int create_locked(dsc_session *s, const struct dsc__stream *as, uint32_t *ret_stream)
{
        struct dsc__submit *submit = &s->submit;
        uint32_t slot = 1;
        while (slot < DS_STREAMS_MAX && submit->streams[slot].used)
                slot++;
        if (slot == DS_STREAMS_MAX)
                return DETSHARE__STATUS__QUOTA;
        const struct ds_record_object record = stream_record(slot, as);
        const int r = put_locked(s, &record);
        if (r == 0)
                submit->streams[slot] = *as;
        *ret_stream = slot;
        return r;
}

int dsc__stream_create(dsc_session *s, int32_t priority, bool non_blocking, uint32_t *ret_stream)
{
        const struct dsc__stream as = {.used = true, .non_blocking = non_blocking, .priority = priority};
        int r = dsc__usable(s);
        dsc__clock_contact(s);
        while (!r) {
                pthread_mutex_lock(&s->submit.lock);
                r = create_locked(s, &as, ret_stream);
                pthread_mutex_unlock(&s->submit.lock);
                if (r == DETSHARE__STATUS__QUOTA)
                        dsc__message(
                                "stream not created: the session has %u streams, the most permitted", DS_STREAMS_MAX);
                if (r != DSC__RING_FULL)
                        break;
                r = dsc__await_room(s, dsc__ring_need(sizeof(struct ds_record_object)));
        }
        return dsc__told(s, r);
}

static int destroy_locked(dsc_session *s, uint32_t stream)
{
        const struct ds_record_object record = {
                .head = {.type = DS_RECORD_OBJECT, .stream = (uint16_t)stream}, .kind = DS_OBJECT_STREAM_END};
        if (!s->submit.streams[stream].used)
                return DSC__INVALID_HANDLE;
        const int r = put_locked(s, &record);
        if (r == 0)
                s->submit.streams[stream].used = false;
        return r;
}

int dsc__stream_destroy(dsc_session *s, uint32_t stream)
{
        if (!stream || stream >= DS_STREAMS_MAX)
                return DSC__INVALID_HANDLE;
        const uint64_t tail = dsc_stream_tail(s, stream);
        int r = dsc__usable(s);
        if (!r && !dsc__ended(s, stream, tail))
                r = dsc_wait(s, stream, tail);
        dsc__clock_contact(s);
        while (!r) {
                pthread_mutex_lock(&s->submit.lock);
                r = destroy_locked(s, stream);
                pthread_mutex_unlock(&s->submit.lock);
                if (r != DSC__RING_FULL)
                        break;
                r = dsc__await_room(s, dsc__ring_need(sizeof(struct ds_record_object)));
        }
        return dsc__told(s, r);
}

/* --- events --- */

int dsc__event_create(dsc_session *s, uint64_t *ret_event)
{
        if (atomic_fetch_add(&s->n_events, 1) >= DS_EVENTS_MAX) {
                atomic_fetch_sub(&s->n_events, 1);
                dsc__message("event not created: the session has %u timed events, the most permitted", DS_EVENTS_MAX);
                return DETSHARE__STATUS__QUOTA;
        }
        *ret_event = DS_EVENT_OF_CLIENT | (atomic_fetch_add(&s->event_id, 1) + 1);
        return 0;
}

/* Puts the record of an object's end. */
static int put_end(dsc_session *s, uint32_t kind, uint64_t id)
{
        const struct ds_record_object record = {.head = {.type = DS_RECORD_OBJECT}, .kind = kind, .id = id};
        int r = dsc__usable(s);
        dsc__clock_contact(s);
        while (!r) {
                pthread_mutex_lock(&s->submit.lock);
                r = put_locked(s, &record);
                pthread_mutex_unlock(&s->submit.lock);
                if (r != DSC__RING_FULL)
                        break;
                r = dsc__await_room(s, dsc__ring_need(sizeof(record)));
        }
        return dsc__told(s, r);
}

int dsc__event_destroy(dsc_session *s, uint64_t event)
{
        uint32_t n = atomic_load(&s->n_events);
        const int r = put_end(s, DS_OBJECT_EVENT_END, event);
        while (n && !atomic_compare_exchange_weak(&s->n_events, &n, n - 1))
                ;
        return r;
}

/* --- graphs --- */

int dsc_graph_release(dsc_session *s, uint64_t graph)
{
        return dsc__objects(s) ? put_end(s, DS_OBJECT_GRAPH_END, graph) : dsc_graph_destroy(s, graph);
}
