/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/turns.h"

#include <assert.h>

#include "util/error.h"
#include "util/macro.h"

#define SERVE_NS (100 * DS_NS_PER_US) /* time for which clients are served before the sockets are polled again */
/* Users count as competing until this time after service changed between them; meanwhile each is limited to its
 * share. */
#define SHARED_NS DS_NS_PER_S
#define SHARES 4u /* a user gets 1/SHARES of the processor time while users compete */
/* lead over its share that an idle user may accumulate, multiplied by SHARES: the requests of a framework's start */
#define BURST_NS (100 * DS_NS_PER_MS)
#define DEBT_NS (100 * DS_NS_PER_MS) /* longest wait of a user, even after it had all of the time alone */

void ds_turn_line_init(struct ds_turn_line *line, uid_t uid, uint64_t due_ns)
{
        TAILQ_INIT(&line->turns);
        line->uid = uid;
        line->due_ns = due_ns;
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

static void due_cb(struct ds_deadline *deadline)
{
        struct ds_turns *turns = DS_CONTAINER_OF(deadline, struct ds_turns, due);

        uv_idle_start(&turns->idle, idle_cb);
}

/* The first line in the ring that may be served now. NULL: there is none; then *ret_ns is the earliest time at which
 * one may be served. */
static struct ds_turn_line *next_line(const struct ds_turns *turns, uint64_t now, uint64_t *ret_ns)
{
        const int shared = turns->shared_ns && now - turns->shared_ns < SHARED_NS;
        struct ds_turn_line *line;

        *ret_ns = UINT64_MAX;
        TAILQ_FOREACH(line, &turns->lines, link)
        {
                if (!shared || line->due_ns <= now)
                        return line;
                *ret_ns = DS_MIN(*ret_ns, line->due_ns);
        }
        return NULL;
}

/* Keeps the loop running while a line may be served; otherwise arms the deadline for the next one. */
static void update(struct ds_turns *turns, int may, uint64_t now)
{
        uint64_t due_ns;

        if (TAILQ_EMPTY(&turns->lines))
                uv_check_stop(&turns->check);
        if (may && next_line(turns, now, &due_ns)) {
                uv_idle_start(&turns->idle, idle_cb);
                return;
        }
        uv_idle_stop(&turns->idle);
        if (may && due_ns != UINT64_MAX)
                ds_deadline_arm(turns->deadlines, &turns->due, 1 + (due_ns - now) / DS_NS_PER_MS, due_cb);
        else
                ds_deadline_disarm(turns->deadlines, &turns->due);
}

void ds_turns_spent(struct ds_turns *turns, struct ds_turn_line *line, uint64_t now_ns, uint64_t ns)
{
        const uint64_t least = now_ns > BURST_NS ? now_ns - BURST_NS : 0;

        line->due_ns = DS_MIN(DS_MAX(line->due_ns, least) + SHARES * ns, now_ns + DEBT_NS);
        ds_spin_after(&turns->spin, line->uid, now_ns, ns);
}

static void serve_first(struct ds_turns *turns, struct ds_turn_line *line, uint64_t now)
{
        struct ds_turn *turn = TAILQ_FIRST(&line->turns);

        if (turns->served && turns->last_uid != line->uid)
                turns->shared_ns = now;
        turns->served = 1;
        turns->last_uid = line->uid;
        ds_turns_forget(turns, line, turn);
        /* the line moves to the end, behind all others */
        if (!TAILQ_EMPTY(&line->turns)) {
                TAILQ_REMOVE(&turns->lines, line, link);
                TAILQ_INSERT_TAIL(&turns->lines, line, link);
        }
        turn->serve(turn);
}

static void check_cb(uv_check_t *check)
{
        struct ds_turns *turns = check->data;
        uint64_t begin = uv_hrtime(), now = begin, due_ns;
        struct ds_turn_line *line;
        int may = 1;

        while (now - begin < SERVE_NS && (line = next_line(turns, now, &due_ns)) && (may = turns->may(turns->user))) {
                uint64_t before = now;

                serve_first(turns, line, now);
                now = uv_hrtime();
                ds_turns_spent(turns, line, now, now - before);
        }
        update(turns, may, now);
}

int ds_turns_init(
        struct ds_turns *turns, uv_loop_t *loop, struct ds_deadlines *deadlines, int (*may)(void *user), void *user)
{
        int r;

        TAILQ_INIT(&turns->lines);
        turns->deadlines = deadlines;
        turns->may = may;
        turns->user = user;
        turns->check.data = turns;
        r = uv_check_init(loop, &turns->check);
        if (!r)
                r = uv_idle_init(loop, &turns->idle);
        if (r < 0)
                return ds_error_origin(r);
        return ds_error_trace(ds_spin_init(&turns->spin, loop));
}

static void close_handle(uv_handle_t *handle)
{
        if (handle->loop && !uv_is_closing(handle))
                uv_close(handle, NULL);
}

void ds_turns_deinit(struct ds_turns *turns)
{
        assert(TAILQ_EMPTY(&turns->lines));
        ds_deadline_disarm(turns->deadlines, &turns->due);
        close_handle((uv_handle_t *)&turns->check);
        close_handle((uv_handle_t *)&turns->idle);
        ds_spin_deinit(&turns->spin);
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
        /* the idle handle stops polling from blocking: the check handle, which serves, runs after polling */
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
