/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/turns.h"

#include <assert.h>

#include "util/error.h"
#include "util/macro.h"

#define SERVE_NS (200 * DS_NS_PER_US) /* before the sockets are looked at again */

void ds_turn_line_init(struct ds_turn_line *line)
{
        TAILQ_INIT(&line->turns);
}

void ds_turn_line_deinit(struct ds_turn_line *line)
{
        assert(TAILQ_EMPTY(&line->turns));
        (void)line;
}

static void idle_cb(uv_idle_t *idle)
{
}

static void check_cb(uv_check_t *check);

/* The loop turns by itself as long as somebody can be served. */
static void update(struct ds_turns *turns, int may)
{
        if (TAILQ_EMPTY(&turns->lines)) {
                uv_check_stop(&turns->check);
                uv_idle_stop(&turns->idle);
        } else if (may) {
                uv_idle_start(&turns->idle, idle_cb);
        } else {
                uv_idle_stop(&turns->idle);
        }
}

static void serve_first(struct ds_turns *turns, struct ds_turn_line *line)
{
        struct ds_turn *turn = TAILQ_FIRST(&line->turns);

        ds_turns_forget(turns, line, turn);
        /* behind the others, also if it has nobody else: whoever waits anew stands at the end */
        if (!TAILQ_EMPTY(&line->turns)) {
                TAILQ_REMOVE(&turns->lines, line, link);
                TAILQ_INSERT_TAIL(&turns->lines, line, link);
        }
        turn->serve(turn);
}

static void check_cb(uv_check_t *check)
{
        struct ds_turns *turns = check->data;
        const uint64_t until = uv_hrtime() + SERVE_NS;
        struct ds_turn_line *line;
        int may = 1;

        while ((line = TAILQ_FIRST(&turns->lines)) && (may = turns->may(turns->user))) {
                serve_first(turns, line);
                if (uv_hrtime() > until)
                        break;
        }
        update(turns, may);
}

int ds_turns_init(struct ds_turns *turns, uv_loop_t *loop, int (*may)(void *user), void *user)
{
        int r;

        TAILQ_INIT(&turns->lines);
        turns->may = may;
        turns->user = user;
        turns->check.data = turns;
        r = uv_check_init(loop, &turns->check);
        if (!r)
                r = uv_idle_init(loop, &turns->idle);
        return r < 0 ? ds_error_origin(r) : 0;
}

static void close_handle(uv_handle_t *handle)
{
        if (handle->loop && !uv_is_closing(handle))
                uv_close(handle, NULL);
}

void ds_turns_deinit(struct ds_turns *turns)
{
        assert(TAILQ_EMPTY(&turns->lines));
        close_handle((uv_handle_t *)&turns->check);
        close_handle((uv_handle_t *)&turns->idle);
}

void ds_turns_wait(struct ds_turns *turns, struct ds_turn_line *line, struct ds_turn *turn)
{
        if (turn->waiting)
                return;
        turn->waiting = 1;
        if (TAILQ_EMPTY(&line->turns))
                TAILQ_INSERT_TAIL(&turns->lines, line, link);
        TAILQ_INSERT_TAIL(&line->turns, turn, link);
        uv_check_start(&turns->check, check_cb);
        /* the check comes after looking at the sockets, which is not to wait now */
        uv_idle_start(&turns->idle, idle_cb);
}

void ds_turns_forget(struct ds_turns *turns, struct ds_turn_line *line, struct ds_turn *turn)
{
        if (!turn->waiting)
                return;
        turn->waiting = 0;
        TAILQ_REMOVE(&line->turns, turn, link);
        if (TAILQ_EMPTY(&line->turns))
                TAILQ_REMOVE(&turns->lines, line, link);
}
