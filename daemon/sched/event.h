/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that the policy is still to be told
 *
 * An event is embedded in what it is about (a coroutine, a session, an operation in flight), so telling one never needs
 * memory, and what happens twice before the policy is asked is told once. A session with untold events stays in the
 * policy's snapshot until they are told.
 *
 * Users take turns: one with thousands of events has its next one told after at most one of each other user. Within a
 * user, and where there is one user only, events are told in the order in which they were posted.
 */
#pragma once

#include <stdint.h>

#include "policies/detshare_policy.h"
#include "sched/sched.h"

struct ds_sched_event {
        struct ds_sched_event *prev, *next;
        ds_sched_session *session; /* NULL: none, or gone */
        uint32_t kind;             /* enum detshare_event */
        uint8_t pending;
        uint64_t turn; /* of its user; those of a lower turn are told first */
};

/* Nothing when it is pending already. */
void ds_sched_event_post(ds_sched *sched, struct ds_sched_event *event);
/* Nothing when it is not pending. */
void ds_sched_event_cancel(ds_sched *sched, struct ds_sched_event *event);
/* The next one, no longer pending; NULL when there is none. Its session stays listed until ds_sched_event_told. */
struct ds_sched_event *ds_sched_event_pop(ds_sched *sched);
void ds_sched_event_told(ds_sched_session *session);
