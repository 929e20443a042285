/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits shared by all sessions of one user
 *
 * Each session's operations are bounded, but a user may have a thousand sessions. A user at its bound is treated like a
 * session at its bound: nothing is refused, but its rings are not read and its requests stay queued until a quarter of
 * its bound is free again. The quarter avoids a walk over all of its sessions at every completion.
 *
 * Streams with operations are bounded too, because a policy visits each of them in every decision, and that time delays
 * all sessions.
 */
#include <assert.h>
#include <errno.h>

#include "util/error.h"
#include "worker/internal.h"

static void user_free(ds_worker *worker, struct dsw_user *user)
{
        if (worker->clock_user == user)
                worker->clock_user = NULL;
        HASH_DEL(worker->users, user);
        ds_free(user);
}

/* Frees users without sessions, but only after they have regained all of their time of the virtual clock: otherwise
 * a user could renew that time with a new session. */
static void users_sweep(ds_worker *worker)
{
        struct dsw_user *user, *next;

        HASH_ITER(hh, worker->users, user, next)
        {
                if (user->refs)
                        continue;
                (void)dsw_clock_user_spent(worker, user);
                if (!user->hold_ns)
                        user_free(worker, user);
        }
}

void dsw_users_free(ds_worker *worker)
{
        struct dsw_user *user, *next;

        HASH_ITER(hh, worker->users, user, next)
        if (!user->refs)
                user_free(worker, user);
}

/* Number of streams of a user that must be free again before its queues are tried again. Not a quarter of the bound,
 * because the other streams may stay blocked for long. */
#define USER_STREAMS_ROOM 32u

int dsw_user_get(ds_worker *worker, uint32_t uid, struct dsw_user **ret)
{
        struct dsw_user *user = NULL;

        users_sweep(worker);
        HASH_FIND(hh, worker->users, &uid, sizeof(uid), user);
        if (!user) {
                user = ds_alloc0(1, sizeof(*user));
                if (!user)
                        return ds_error_origin(-ENOMEM);
                user->uid = uid;
                /* no session of the user has this number, so none counts as checked in this round */
                user->value_pass = 1;
                user->hold_wall_ns = worker->wall_ns();
                HASH_ADD(hh, worker->users, uid, sizeof(user->uid), user);
                if (!user->hh.tbl) {
                        ds_free(user);
                        return ds_error_origin(-ENOMEM);
                }
        }
        user->refs++;
        *ret = user;
        return 0;
}

void dsw_user_put(ds_worker *worker, struct dsw_user *user)
{
        if (!user)
                return;
        assert(user->refs > 0);
        if (--user->refs)
                return;
        assert(!user->n_live && !user->n_streams && !user->param_bytes && !user->graph_bytes && !user->piece_bytes);
        if (worker->clock_user == user)
                (void)dsw_clock_user_spent(worker, user);
        worker->clock_user = worker->clock_user == user ? NULL : worker->clock_user;
        if (!user->hold_ns)
                user_free(worker, user);
}

int dsw_user_room(struct dsw_user *user, uint32_t large_params, int new_stream)
{
        if (user->n_live < DSW_USER_OPS_MAX && user->param_bytes + large_params <= DSW_USER_PARAM_BYTES &&
                (!new_stream || user->n_streams < DSW_USER_STREAMS_MAX))
                return 1;
        user->waiting = 1;
        return 0;
}

void dsw_user_ended(ds_worker *worker, struct dsw_user *user)
{
        struct dsw_session *session;

        if (!user->waiting || user->n_live > DSW_USER_OPS_MAX / 4 * 3 ||
                user->param_bytes > DSW_USER_PARAM_BYTES / 4 * 3 ||
                user->n_streams > DSW_USER_STREAMS_MAX - USER_STREAMS_ROOM)
                return;
        user->waiting = 0;
        for (session = worker->sessions; session; session = session->hh.next) {
                if (session->user != user)
                        continue;
                session->retry = 1;
                dsw_session_activate(session);
        }
}
