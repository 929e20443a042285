/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that the policy has not seen yet
 *
 * An event is embedded in its subject (a coroutine, a session, an operation in flight), so reporting it needs no
 * memory. An event that is posted twice before the policy is called is reported once. A session with pending events
 * stays in the policy's snapshot until they are reported.
 *
 * Users alternate: a user with thousands of events has its next one reported after at most one of each other user.
 * Events of one user are reported in the order in which they were posted.
 */
#pragma once

#include <stdint.h>

#include "policies/detshare_policy.h"
#include "sched/sched.h"

struct ds_sched_event {
        struct ds_sched_event *prev, *next;
        ds_sched_session *session; /* session of the event's subject; NULL: it has none, or the session has gone */
        uint32_t kind;             /* enum detshare_event */
        uint8_t pending;
        uint64_t turn; /* turn number of its user; lower numbers are reported first */
};

/* Adds the event to the list. Does nothing if it is pending already. */
void ds_sched_event_post(ds_sched *sched, struct ds_sched_event *event);
/* Removes the event from the list. Does nothing if it is not pending. */
void ds_sched_event_cancel(ds_sched *sched, struct ds_sched_event *event);
/* Takes the next event, which is then no longer pending; NULL if there is none. Its session stays in the snapshot
 * until ds_sched_event_told(). */
struct ds_sched_event *ds_sched_event_pop(ds_sched *sched);
void ds_sched_event_told(ds_sched_session *session);
