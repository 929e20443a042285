/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of events that the policy has not seen
 */
#include "sched/event.h"

#include <assert.h>
#include <utlist.h>

#include "sched/internal.h"
#include "sched/snapshot.h"
#include "util/macro.h"

/* Assigns the next turn number of the event's user. Users whose uids have the same hash share their turns. */
static uint64_t event_turn(ds_sched *sched, const ds_sched_session *session)
{
        uint64_t *turn = &sched->user_turns[session->config.uid * 2654435761u >> (32 - DS_SCHED_USER_BITS)];

        *turn = DS_MAX(*turn, sched->event_turn) + 1;
        return *turn;
}

/* Inserts the event behind the events with the same or an earlier turn. */
static void event_insert(ds_sched *sched, struct ds_sched_event *event)
{
        struct ds_sched_event *after = sched->events ? sched->events->prev : NULL;

        event->turn = after ? after->turn : sched->event_turn;
        if (event->session)
                event->turn = event_turn(sched, event->session);
        while (after && after->turn > event->turn)
                after = after == sched->events ? NULL : after->prev;
        if (after)
                DL_APPEND_ELEM(sched->events, after, event);
        else
                DL_PREPEND(sched->events, event);
}

void ds_sched_event_post(ds_sched *sched, struct ds_sched_event *event)
{
        if (event->pending)
                return;
        event->pending = 1;
        event_insert(sched, event);
        if (event->session) {
                event->session->events_pending++;
                ds_snapshot_session_changed(event->session);
        }
}

static void event_unlink(ds_sched *sched, struct ds_sched_event *event)
{
        assert(event->pending);
        DL_DELETE(sched->events, event);
        event->pending = 0;
}

void ds_sched_event_cancel(ds_sched *sched, struct ds_sched_event *event)
{
        if (!event->pending)
                return;
        event_unlink(sched, event);
        ds_sched_event_told(event->session);
}

struct ds_sched_event *ds_sched_event_pop(ds_sched *sched)
{
        struct ds_sched_event *event = sched->events;

        if (event) {
                event_unlink(sched, event);
                sched->event_turn = event->turn;
        }
        return event;
}

void ds_sched_event_told(ds_sched_session *session)
{
        if (!session)
                return;
        assert(session->events_pending);
        session->events_pending--;
        ds_snapshot_session_changed(session);
}
