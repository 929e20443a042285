/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/handover_fair.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define PART_SHIFT 32 /* parts of a limit are fixed-point numbers in units of 2^-32 */

struct fair_session {
        size_t number;
        uint32_t uid;
        struct ds_fair_room need;
        uint64_t part; /* the largest part of any limit that the session needs */
};

/* A user and what its sessions have so far; its remaining sessions are sessions[next .. end). */
struct fair_user {
        size_t next, end;
        int begun; /* 1: the room of its next session is already counted in `has` */
        struct ds_fair_room has;
        uint64_t spent_ns;
};

struct ds_fair {
        struct fair_session *sessions; /* sorted by user, then by size, ascending */
        struct fair_user *users;
        size_t n_users;
        struct fair_user *turn; /* user whose turn is not over; NULL: none */
        struct ds_fair_room limits, left;
};

/* The part of the limit that the amount is. Amounts above the limit count as limit + 1, so that sums do not
 * overflow. */
static uint64_t part_of(uint64_t amount, uint64_t limit)
{
        return (DS_MIN(amount, limit + 1) << PART_SHIFT) / DS_MAX(limit, 1u);
}

/* The largest part of any limit that the rooms a and b need together. */
static uint64_t largest_part(const struct ds_fair *fair, const struct ds_fair_room *a, const struct ds_fair_room *b)
{
        uint64_t largest = 0;

        for (int kind = 0; kind < _DS_FAIR_MAX; kind++) {
                uint64_t limit = fair->limits.of[kind];
                uint64_t sum = DS_MIN(a->of[kind], limit + 1) + DS_MIN(b->of[kind], limit + 1);

                largest = DS_MAX(largest, part_of(sum, limit));
        }
        return largest;
}

static int by_user_and_part(const void *a, const void *b)
{
        const struct fair_session *x = a, *y = b;

        if (x->uid != y->uid)
                return x->uid < y->uid ? -1 : 1;
        if (x->part != y->part)
                return x->part < y->part ? -1 : 1;
        return x->number < y->number ? -1 : x->number > y->number;
}

static void find_users(ds_fair *fair, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (!i || fair->sessions[i].uid != fair->sessions[i - 1].uid)
                        fair->users[fair->n_users++].next = i;
                fair->users[fair->n_users - 1].end = i + 1;
        }
}

int ds_fair_new(const struct ds_fair_session *sessions, size_t n, const struct ds_fair_room *limits, ds_fair **ret)
{
        static const struct ds_fair_room nothing;
        ds_cleanup(ds_fair_freep) ds_fair *fair = ds_alloc0(1, sizeof(*fair));

        if (!fair)
                return ds_error_origin(-ENOMEM);
        fair->sessions = ds_alloc0(n, sizeof(*fair->sessions));
        fair->users = ds_alloc0(n, sizeof(*fair->users));
        if (!fair->sessions || !fair->users)
                return ds_error_origin(-ENOMEM);
        fair->limits = fair->left = *limits;
        for (int kind = 0; kind < _DS_FAIR_MAX; kind++)
                assert(limits->of[kind] <= UINT32_MAX / 4);
        for (size_t i = 0; i < n; i++)
                fair->sessions[i] = (struct fair_session){.number = i,
                        .uid = sessions[i].uid,
                        .need = sessions[i].need,
                        .part = largest_part(fair, &sessions[i].need, &nothing)};
        qsort(fair->sessions, n, sizeof(*fair->sessions), by_user_and_part);
        find_users(fair, n);
        *ret = DS_TAKE_PTR(fair);
        return 0;
}

ds_fair *ds_fair_free(ds_fair *fair)
{
        if (!fair)
                return NULL;
        ds_free(fair->sessions);
        ds_free(fair->users);
        return ds_free(fair);
}

/* Time that each user with remaining sessions may have spent in total, ns, if no user finishes early. */
static uint64_t level_ns(const ds_fair *fair, uint64_t left_ns)
{
        uint64_t spent = 0, waiting = 0;

        for (size_t i = 0; i < fair->n_users; i++) {
                if (fair->users[i].next == fair->users[i].end)
                        continue;
                waiting++;
                spent += fair->users[i].spent_ns;
        }
        return waiting ? (left_ns + spent) / waiting : 0;
}

/* The user with time left that holds the smallest part of the limits when its next session is added.
 * NULL: none. */
static struct fair_user *least(const ds_fair *fair, uint64_t level)
{
        static const struct ds_fair_room nothing;
        struct fair_user *found = NULL;
        uint64_t found_part = 0;

        for (size_t i = 0; i < fair->n_users; i++) {
                struct fair_user *user = &fair->users[i];
                uint64_t part;

                if (user->next == user->end || user->spent_ns >= level)
                        continue;
                part = largest_part(fair, &user->has, user->begun ? &nothing : &fair->sessions[user->next].need);
                if (!found || part < found_part) {
                        found = user;
                        found_part = part;
                }
        }
        return found;
}

/* Reserves the room of the user's next session. Returns 0 if there is not enough room left, else 1. */
static int take_room(ds_fair *fair, struct fair_user *user)
{
        const struct ds_fair_room *need = &fair->sessions[user->next].need;

        for (int kind = 0; kind < _DS_FAIR_MAX; kind++)
                if (need->of[kind] > fair->left.of[kind])
                        return 0;
        for (int kind = 0; kind < _DS_FAIR_MAX; kind++) {
                fair->left.of[kind] -= need->of[kind];
                user->has.of[kind] += need->of[kind];
        }
        user->begun = 1;
        return 1;
}

int ds_fair_next(ds_fair *fair, uint64_t left_ns, size_t *ret_session, uint64_t *ret_turn_ns)
{
        uint64_t level = level_ns(fair, left_ns);
        struct fair_user *user = least(fair, level);

        assert(!fair->turn);
        if (!left_ns || !user)
                return DS_FAIR_E_END;
        *ret_session = fair->sessions[user->next].number;
        if (!user->begun && !take_room(fair, user)) {
                user->next++;
                return DS_FAIR_E_FULL;
        }
        *ret_turn_ns = DS_MAX(level - user->spent_ns, DS_FAIR_TURN_MIN_NS);
        fair->turn = user;
        return 0;
}

void ds_fair_took(ds_fair *fair, uint64_t ns, int done)
{
        struct fair_user *user = fair->turn;

        assert(user && user->begun);
        fair->turn = NULL;
        user->spent_ns += ns;
        if (done) {
                user->begun = 0;
                user->next++;
        }
}

const struct ds_fair_room *ds_fair_left(const ds_fair *fair)
{
        return &fair->left;
}
