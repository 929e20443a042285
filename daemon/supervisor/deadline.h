/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines: one timer of the loop for all timeouts of the supervisor
 *
 * A deadline is embedded in the object that it watches. Disarming is immediate, so the object can be freed at once; a
 * libuv timer per object would not allow that. Armed deadlines form a list sorted by time. Almost all use one of a few
 * constant delays, so an insertion that searches from the end is short.
 */
#pragma once

#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

struct ds_deadline {
        TAILQ_ENTRY(ds_deadline) link;
        uint64_t at_ms;
        /* callback, which is called after the deadline is disarmed; NULL while not armed */
        void (*fn)(struct ds_deadline *deadline);
};

struct ds_deadlines {
        uv_timer_t timer;
        TAILQ_HEAD(ds_deadline_list, ds_deadline) list;
};

/* Starts the timer. The memory must stay valid until the loop has closed the timer. */
int ds_deadlines_init(struct ds_deadlines *deadlines, uv_loop_t *loop);
/* Closes the timer. No deadline may be armed. */
void ds_deadlines_deinit(struct ds_deadlines *deadlines);

/* Arms the deadline to expire in `ms` from now. An armed deadline is moved. */
void ds_deadline_arm(struct ds_deadlines *deadlines, struct ds_deadline *deadline, uint64_t ms,
        void (*fn)(struct ds_deadline *deadline));
/* Disarms the deadline. One that is not armed is allowed. */
void ds_deadline_disarm(struct ds_deadlines *deadlines, struct ds_deadline *deadline);
static inline int ds_deadline_armed(const struct ds_deadline *deadline)
{
        return deadline->fn != NULL;
}
