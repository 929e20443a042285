/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timed events
 *
 * The worker keeps an event's time, and forgets it when it dies; a program keeps its events for its whole life. So what
 * a face holds is a number of ours that stands for the worker's, and a worker's successor is given a new event when the
 * old one is recorded again. The time that a dead worker had recorded is gone: asking for it is an invalid handle.
 */
#include <stdlib.h>

#include "client-lib/core/internal.h"

static int create_call(dsc_session *s, uint64_t *ret_id)
{
        Detshare__EventCreate create = DETSHARE__EVENT_CREATE__INIT;
        Detshare__Request request = DSC__REQUEST(EVENT_CREATE, event_create, &create);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_EVENT_CREATE, &answer);
        if (r)
                return r;
        *ret_id = answer.reply->event_create->event;
        dsc__answer_clear(&answer);
        return 0;
}

static int destroy_call(dsc_session *s, uint64_t id)
{
        Detshare__EventDestroy destroy = DETSHARE__EVENT_DESTROY__INIT;
        destroy.event = id;
        Detshare__Request request = DSC__REQUEST(EVENT_DESTROY, event_destroy, &destroy);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

static int new_event(dsc_session *s, struct dsc__event *ret)
{
        int r = s->socket_only ? 0 : dsc__attach(s);
        ret->generation = atomic_load(&s->submit.generation);
        ret->used = true;
        return r ? r : create_call(s, &ret->id);
}

static int insert_locked(struct dsc__events *events, const struct dsc__event *event, uint64_t *ret_event)
{
        size_t at = 0;
        while (at < events->n_slots && events->slots[at].used)
                at++;
        if (at == events->n_slots) {
                const size_t n = events->n_slots ? events->n_slots * 2 : 32;
                struct dsc__event *slots = n <= DS_EVENTS_MAX ? reallocarray(events->slots, n, sizeof(*slots)) : NULL;
                if (!slots)
                        return DSC__OUT_OF_MEMORY;
                for (size_t i = events->n_slots; i < n; i++)
                        slots[i] = (struct dsc__event){.used = false};
                events->slots = slots;
                events->n_slots = n;
        }
        events->slots[at] = *event;
        *ret_event = at + 1;
        return 0;
}

static int find(dsc_session *s, uint64_t event, struct dsc__event *ret)
{
        struct dsc__events *events = &s->events;
        int r = DSC__INVALID_HANDLE;
        pthread_mutex_lock(&events->lock);
        if (event > 0 && event <= events->n_slots && events->slots[event - 1].used) {
                *ret = events->slots[event - 1];
                r = 0;
        }
        pthread_mutex_unlock(&events->lock);
        return r;
}

void dsc__events_clear(dsc_session *s)
{
        pthread_mutex_lock(&s->events.lock);
        free(s->events.slots);
        s->events.slots = NULL;
        s->events.n_slots = 0;
        pthread_mutex_unlock(&s->events.lock);
}

int dsc_event_create(dsc_session *s, uint64_t *ret_event)
{
        struct dsc__event event;
        int r = dsc__usable(s);
        if (!r)
                r = new_event(s, &event);
        if (r)
                return r;
        pthread_mutex_lock(&s->events.lock);
        r = insert_locked(&s->events, &event, ret_event);
        pthread_mutex_unlock(&s->events.lock);
        if (r)
                destroy_call(s, event.id);
        return r;
}

int dsc_event_destroy(dsc_session *s, uint64_t event)
{
        struct dsc__event old;
        int r = dsc__usable(s);
        if (!r)
                r = find(s, event, &old);
        if (r)
                return r;
        pthread_mutex_lock(&s->events.lock);
        if (event <= s->events.n_slots)
                s->events.slots[event - 1].used = false;
        pthread_mutex_unlock(&s->events.lock);
        return old.generation == atomic_load(&s->submit.generation) ? destroy_call(s, old.id) : 0;
}

/* The event as the present worker knows it. */
static int renew(dsc_session *s, uint64_t event, struct dsc__event *ret)
{
        struct dsc__event fresh;
        int r = new_event(s, &fresh);
        if (r)
                return r;
        pthread_mutex_lock(&s->events.lock);
        if (event <= s->events.n_slots && s->events.slots[event - 1].used)
                s->events.slots[event - 1] = fresh;
        pthread_mutex_unlock(&s->events.lock);
        *ret = fresh;
        return 0;
}

static int record_call(dsc_session *s, uint32_t stream, uint64_t id, uint64_t *ret_seq)
{
        Detshare__EventRecord record = DETSHARE__EVENT_RECORD__INIT;
        record.stream = stream;
        record.event = id;
        Detshare__Request request = DSC__REQUEST(EVENT_RECORD, event_record, &record);
        return dsc__submit_call(s, stream, &request, ret_seq);
}

static int record_once(dsc_session *s, uint32_t stream, const struct dsc__event *event, uint64_t *ret_seq)
{
        if (s->socket_only)
                return record_call(s, stream, event->id, ret_seq);
        const struct ds_record_event record = {
                .head = {.type = DS_RECORD_EVENT, .stream = (uint16_t)stream},
                .event = event->id,
        };
        return dsc__submit(s, &record.head, sizeof(record), NULL, 0, event->id ? event->generation : 0, ret_seq);
}

int dsc_event_record(dsc_session *s, uint32_t stream, uint64_t event, uint64_t *ret_seq)
{
        struct dsc__event e = {.id = 0};
        int r = dsc__usable(s);
        if (!r && stream >= DS_STREAMS_MAX)
                r = DSC__INVALID_VALUE;
        if (!r && event)
                r = find(s, event, &e);
        if (r)
                return r;
        r = record_once(s, stream, &e, ret_seq);
        while (r == DSC__E_STALE) {
                r = renew(s, event, &e);
                if (!r)
                        r = record_once(s, stream, &e, ret_seq);
        }
        return r;
}

int dsc_event_elapsed(dsc_session *s, uint64_t start, uint64_t end, int64_t *ret_ns)
{
        struct dsc__event a, b;
        int r = dsc__usable(s);
        if (!r)
                r = find(s, start, &a);
        if (!r)
                r = find(s, end, &b);
        if (r)
                return r;
        if (a.generation != b.generation || a.generation != atomic_load(&s->submit.generation))
                return DSC__INVALID_HANDLE;
        Detshare__EventElapsed elapsed = DETSHARE__EVENT_ELAPSED__INIT;
        elapsed.start = a.id;
        elapsed.end = b.id;
        Detshare__Request request = DSC__REQUEST(EVENT_ELAPSED, event_elapsed, &elapsed);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_EVENT_ELAPSED, &answer);
        if (r)
                return r;
        *ret_ns = answer.reply->event_elapsed->ns;
        dsc__answer_clear(&answer);
        return 0;
}
