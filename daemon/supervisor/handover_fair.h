/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which session a restart hands over next, and how long that may take
 *
 * A restart can hand over so many files, bytes of their names, bytes of the state, and all of it in so much time. Each
 * user may use an equal share of each of them, root as well; what a user does not need, the others may use (max-min
 * fairness). Within a user the smallest session comes first, so that as many as possible go on.
 *
 * Room. The next session is that of the user who would have the least afterwards, by the resource of which it needs
 * the largest part. So a session is handed over whenever its user's sessions up to it need no more than an equal share,
 * whatever the others have.
 *
 * Time. A user who has used its share waits, in the middle of a session if need be, until the others have what they
 * want or have used as much. Then it goes on with an equal part of what is left.
 *
 * Pure bookkeeping: it reads no clock and stores nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Contract codes */
#define DS_FAIR_E_END 1  /* nothing waits any more, or there is no time */
#define DS_FAIR_E_FULL 2 /* this session does not fit into what is left, and does not come again */

#define DS_FAIR_TURN_MIN_NS UINT64_C(10000000) /* a turn is not shorter, so that some progress is made in it */

enum ds_fair_kind {
        DS_FAIR_FILES,
        DS_FAIR_NAMES, /* bytes */
        DS_FAIR_STATE, /* bytes */
        _DS_FAIR_MAX,
};

/* Amounts of each: at most UINT32_MAX where they are limits. */
struct ds_fair_room {
        uint64_t of[_DS_FAIR_MAX];
};

struct ds_fair_session {
        uint32_t uid;
        struct ds_fair_room need;
};

typedef struct ds_fair ds_fair;

/* sessions is copied; its elements are numbered from 0. 0 or -ENOMEM. */
int ds_fair_new(const struct ds_fair_session *sessions, size_t n, const struct ds_fair_room *limits, ds_fair **ret);
/* NULL is fine; returns NULL. */
ds_fair *ds_fair_free(ds_fair *fair);
/*
 * The session to work on now, and for how long; left_ns is what is left for all of them. 0: say ds_fair_took() next.
 * FULL: *ret_session is the one that does not fit. END.
 */
int ds_fair_next(ds_fair *fair, uint64_t left_ns, size_t *ret_session, uint64_t *ret_turn_ns);
/* The turn of the session that came last is over after ns. done: the session wants no more of them. */
void ds_fair_took(ds_fair *fair, uint64_t ns, int done);
/* What the sessions that came so far leave of the limits. */
const struct ds_fair_room *ds_fair_left(const ds_fair *fair);

static inline void ds_fair_freep(ds_fair **p)
{
        *p = ds_fair_free(*p);
}
