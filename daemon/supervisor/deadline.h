/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines: one timer of the loop for everything that must happen in time
 *
 * A deadline is embedded in the object that it watches. Disarming it is immediate, so that the object can be freed at
 * once, which a timer handle of its own would not allow. Armed deadlines form a list sorted by time; almost
 * all are one of a few constants away, so inserting from the end is short.
 */
#pragma once

#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

struct ds_deadline {
        TAILQ_ENTRY(ds_deadline) link;
        uint64_t at_ms;
        void (*fn)(struct ds_deadline *deadline); /* NULL while not armed; disarmed when it is called */
};

struct ds_deadlines {
        uv_timer_t timer;
        TAILQ_HEAD(ds_deadline_list, ds_deadline) list;
};

/* The memory must stay until the loop has closed the timer. */
int ds_deadlines_init(struct ds_deadlines *deadlines, uv_loop_t *loop);
/* No deadline may be armed. */
void ds_deadlines_deinit(struct ds_deadlines *deadlines);

/* ms from now; an armed one is moved. */
void ds_deadline_arm(struct ds_deadlines *deadlines, struct ds_deadline *deadline, uint64_t ms,
        void (*fn)(struct ds_deadline *deadline));
/* One that is not armed is fine. */
void ds_deadline_disarm(struct ds_deadlines *deadlines, struct ds_deadline *deadline);
static inline int ds_deadline_armed(const struct ds_deadline *deadline)
{
        return deadline->fn != NULL;
}
