/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/deadline.h"

#include <assert.h>
#include <stddef.h>

#include "util/error.h"

static void set_timer(struct ds_deadlines *deadlines);

static void timer_cb(uv_timer_t *timer)
{
        struct ds_deadlines *deadlines = timer->data;
        uint64_t now = uv_now(timer->loop);
        struct ds_deadline *first;

        while ((first = TAILQ_FIRST(&deadlines->list)) && first->at_ms <= now) {
                void (*fn)(struct ds_deadline *) = first->fn;

                ds_deadline_disarm(deadlines, first);
                fn(first);
        }
        set_timer(deadlines);
}

static void set_timer(struct ds_deadlines *deadlines)
{
        const struct ds_deadline *first = TAILQ_FIRST(&deadlines->list);
        uint64_t now = uv_now(deadlines->timer.loop);

        /* when the first deadline is disarmed, the timer stays: one that fires too early costs less than moving it
         * with every request */
        if (first)
                uv_timer_start(&deadlines->timer, timer_cb, first->at_ms > now ? first->at_ms - now : 0, 0);
        else
                uv_timer_stop(&deadlines->timer);
}

int ds_deadlines_init(struct ds_deadlines *deadlines, uv_loop_t *loop)
{
        int r = uv_timer_init(loop, &deadlines->timer);

        if (r < 0)
                return ds_error_origin(r);
        deadlines->timer.data = deadlines;
        TAILQ_INIT(&deadlines->list);
        return 0;
}

void ds_deadlines_deinit(struct ds_deadlines *deadlines)
{
        assert(TAILQ_EMPTY(&deadlines->list));
        if (!uv_is_closing((uv_handle_t *)&deadlines->timer))
                uv_close((uv_handle_t *)&deadlines->timer, NULL);
}

void ds_deadline_arm(struct ds_deadlines *deadlines, struct ds_deadline *deadline, uint64_t ms,
        void (*fn)(struct ds_deadline *deadline))
{
        struct ds_deadline *before;

        assert(fn);
        if (deadline->fn)
                TAILQ_REMOVE(&deadlines->list, deadline, link);
        deadline->at_ms = uv_now(deadlines->timer.loop) + ms;
        deadline->fn = fn;
        before = TAILQ_LAST(&deadlines->list, ds_deadline_list);
        while (before && before->at_ms > deadline->at_ms)
                before = TAILQ_PREV(before, ds_deadline_list, link);
        if (before) {
                TAILQ_INSERT_AFTER(&deadlines->list, before, deadline, link);
        } else {
                TAILQ_INSERT_HEAD(&deadlines->list, deadline, link);
                set_timer(deadlines);
        }
}

void ds_deadline_disarm(struct ds_deadlines *deadlines, struct ds_deadline *deadline)
{
        if (!deadline->fn)
                return;
        TAILQ_REMOVE(&deadlines->list, deadline, link);
        deadline->fn = NULL;
        if (TAILQ_EMPTY(&deadlines->list))
                uv_timer_stop(&deadlines->timer);
}
