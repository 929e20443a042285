/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of untold events
 */
#include "sched/event.h"

#include <assert.h>
#include <utlist.h>

#include "sched/internal.h"
#include "sched/snapshot.h"

void ds_sched_event_post(ds_sched *sched, struct ds_sched_event *event)
{
        if (event->pending)
                return;
        event->pending = 1;
        DL_APPEND(sched->events, event);
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

        if (event)
                event_unlink(sched, event);
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
