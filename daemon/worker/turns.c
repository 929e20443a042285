/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits each user's share of a round of the loop
 *
 * A user may have a thousand sessions. In one round, the rings of all its sessions of one class supply DSW_RING_BATCH
 * records together, so a round costs the same for each user, however many sessions it has. The session at which the
 * share ends moves to the end of the list, so that every session of a user is served. Sessions of a user whose share is
 * used up are skipped until the next round. No request is refused, and no order within a session changes.
 *
 * Virtual time advances only in a round that took in no records and left the policy no unseen events. Clients that keep
 * their rings full could stop it for everybody: after DSW_TURNS_TIME_NS of the worker's processor time without such a
 * round, it advances anyway. Real time would not do: figures would depend on how long the worker waits for a processor.
 */
#include <assert.h>

#include "worker/internal.h"

static struct dsw_turn *turn_of(const struct dsw_session *session)
{
        struct dsw_user *user = session->user;

        assert(session->class_ < _DSW_TURN_CLASSES);
        if (user->turn_number != session->worker->turn) {
                user->turn_number = session->worker->turn;
                for (uint32_t i = 0; i < _DSW_TURN_CLASSES; i++)
                        user->turns[i] = (struct dsw_turn){.records = DSW_RING_BATCH, .looks = DSW_VALUE_BATCH};
        }
        return &user->turns[session->class_];
}

static size_t turn_spend(uint32_t *left, size_t n)
{
        *left -= (uint32_t)DS_MIN(n, (size_t)*left);
        return *left;
}

size_t dsw_turns_records(const struct dsw_session *session)
{
        return turn_of(session)->records;
}

void dsw_turns_spend_records(struct dsw_session *session, size_t n)
{
        turn_spend(&turn_of(session)->records, n);
}

size_t dsw_turns_looks(const struct dsw_session *session)
{
        return turn_of(session)->looks;
}

void dsw_turns_spend_looks(struct dsw_session *session, size_t n)
{
        turn_spend(&turn_of(session)->looks, n);
}

size_t dsw_turns_pump(ds_worker *worker, size_t (*pump)(struct dsw_session *session))
{
        struct dsw_session *session, *next, *last = worker->active ? worker->active->active_prev : NULL;
        size_t n = 0, before;

        worker->turn++;
        for (session = worker->active; session; session = session == last ? NULL : next) {
                next = session->active_next;
                before = dsw_turns_records(session);
                n += pump(session);
                if (before && !dsw_turns_records(session) && session->is_active) {
                        DL_DELETE2(worker->active, session, active_prev, active_next);
                        DL_APPEND2(worker->active, session, active_prev, active_next);
                }
        }
        return n;
}

int dsw_turns_hold_time(ds_worker *worker, int busy)
{
        uint64_t now;

        if (!busy) {
                worker->busy_cpu_ns = 0;
                return 0;
        }
        if (!worker->ops->advance)
                return 1;
        now = DS_MAX(worker->cpu_ns(), (uint64_t)1);
        if (!worker->busy_cpu_ns)
                worker->busy_cpu_ns = now;
        return now - worker->busy_cpu_ns < DSW_TURNS_TIME_NS;
}
