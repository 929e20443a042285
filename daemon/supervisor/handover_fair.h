/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order in which a restart hands sessions over, and the time for each
 *
 * A restart can hand over a limited number of files, bytes of file names and bytes of state, in a limited time. Each
 * user may use an equal share of each, root as well; a share that a user does not need is available to the others
 * (max-min fairness). Within a user the smallest session comes first, so that as many as possible continue.
 *
 * Room: the next session is that of the user who would hold the least afterwards, measured by the resource of which it
 * needs the largest part. So a session is handed over whenever its user's sessions up to it need no more than an equal
 * share, whatever the others hold.
 *
 * Time: a user that has used its share waits, even in the middle of a session, until the others have finished or have
 * used as much. Then it continues with an equal part of the remaining time.
 *
 * Pure bookkeeping: it reads no clock and stores no files.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Positive return codes of the functions below */
#define DS_FAIR_E_END 1  /* no session is left, or no time */
#define DS_FAIR_E_FULL 2 /* the session does not fit into the remaining room and will not be returned again */

/* shortest turn of a session, ns, so that each turn makes some progress */
#define DS_FAIR_TURN_MIN_NS UINT64_C(10000000)

enum ds_fair_kind {
        DS_FAIR_FILES,
        DS_FAIR_NAMES, /* bytes of file names */
        DS_FAIR_STATE, /* bytes of the state file */
        _DS_FAIR_MAX,
};

/* An amount of each resource. As a limit, each is at most UINT32_MAX. */
struct ds_fair_room {
        uint64_t of[_DS_FAIR_MAX];
};

struct ds_fair_session {
        uint32_t uid;
        struct ds_fair_room need;
};

typedef struct ds_fair ds_fair;

/* Copies the sessions, which are numbered from 0 in this order. Returns 0 or -ENOMEM. */
int ds_fair_new(const struct ds_fair_session *sessions, size_t n, const struct ds_fair_room *limits, ds_fair **ret);
/* Frees the list. NULL is allowed; returns NULL. */
ds_fair *ds_fair_free(ds_fair *fair);
/*
 * Returns the session to work on now, and the length of its turn, ns; left_ns is the time left for all sessions. 0:
 * call ds_fair_took() next. DS_FAIR_E_FULL: *ret_session does not fit. DS_FAIR_E_END: nothing is left to do.
 */
int ds_fair_next(ds_fair *fair, uint64_t left_ns, size_t *ret_session, uint64_t *ret_turn_ns);
/* Ends the turn of the session that ds_fair_next() returned last; the turn took ns. done: the session needs no more
 * turns. */
void ds_fair_took(ds_fair *fair, uint64_t ns, int done);
/* The room that remains: the limits less what the sessions returned so far use. */
const struct ds_fair_room *ds_fair_left(const ds_fair *fair);

static inline void ds_fair_freep(ds_fair **p)
{
        *p = ds_fair_free(*p);
}
