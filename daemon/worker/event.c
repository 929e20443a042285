/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timed events of a session
 *
 * A worker never assigns an event id twice. An event whose id the client chose (DS_EVENT_OF_CLIENT) is created on first
 * use. Clients keep their events across a restart of the worker, which remembers
 * none. So an unknown id from before this process began (see id_base) creates the event on first use, within the
 * session's limit. Its recorded time is lost: it behaves like a new event.
 */
#include <errno.h>

#include "util/error.h"
#include "worker/internal.h"

static struct dsw_event *event_add(struct dsw_session *session, uint64_t id)
{
        struct dsw_event *event = ds_alloc0(1, sizeof(*event));

        if (!event)
                return NULL;
        event->id = id;
        HASH_ADD(hh, session->events, id, sizeof(id), event);
        /* if uthash had no memory to add the event, it has set the pointer to its table to NULL */
        if (!event->hh.tbl)
                return ds_free(event);
        return event;
}

struct dsw_event *dsw_event_known(struct dsw_session *session, uint64_t id)
{
        struct dsw_event *event;

        HASH_FIND(hh, session->events, &id, sizeof(id), event);
        return event;
}

struct dsw_event *dsw_event_find(struct dsw_session *session, uint64_t id)
{
        struct dsw_event *event = dsw_event_known(session, id);

        if (event || !id || (id > session->worker->id_base && !(id & DS_EVENT_OF_CLIENT)))
                return event;
        return HASH_COUNT(session->events) < DS_EVENTS_MAX ? event_add(session, id) : NULL;
}

int dsw_event_create(struct dsw_session *session, uint64_t *ret_id)
{
        if (HASH_COUNT(session->events) >= DS_EVENTS_MAX)
                return DETSHARE__STATUS__QUOTA;
        if (!event_add(session, session->event_id + 1))
                return ds_error_origin(-ENOMEM);
        *ret_id = ++session->event_id;
        return 0;
}

void dsw_event_destroy(struct dsw_session *session, struct dsw_event *event)
{
        HASH_DEL(session->events, event);
        ds_free(event);
}

void dsw_event_destroy_all(struct dsw_session *session)
{
        struct dsw_event *event, *next;

        HASH_ITER(hh, session->events, event, next)
        dsw_event_destroy(session, event);
}
