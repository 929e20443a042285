/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns: users are served round robin, one request each
 *
 * Problem. A loop that handles whatever a socket brings serves a user by the number of its connections: beside 250 of
 * one user, a request of another waits for thousands.
 *
 * A connection with something to say takes its place in its user's line, and the users' lines stand in a ring. After
 * the loop has looked at all sockets, and so has taken all answers of worker and helper, it serves one request of the
 * first connection of each line, round and round, for a fraction of a millisecond. Then it looks at the sockets again.
 * It serves nobody while the worker has enough to do (`may`), so that requests wait at their senders' cost and not
 * behind each other on the way to the worker.
 *
 * While several users are there, each gets a quarter of this process's time at most: a user that floods would otherwise
 * keep the daemon's processes busy all the time, and with them a processor that the others need. A user who is alone
 * has all of it.
 *
 * A request therefore waits for at most one request of each other user, and for the few that are on their way; that of
 * a user who has had its share for up to a tenth of a second.
 */
#pragma once

#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "supervisor/deadline.h"

/* Embedded in a connection; zero-initialised but for serve. */
struct ds_turn {
        TAILQ_ENTRY(ds_turn) link;
        int waiting;
        void (*serve)(struct ds_turn *turn); /* one request; it may wait again at once */
};

/* Embedded in a user. */
struct ds_turn_line {
        TAILQ_HEAD(ds_turn_list, ds_turn) turns;
        TAILQ_ENTRY(ds_turn_line) link;
        uint64_t due_ns; /* not served before, while others are there */
};

/* Part of the supervisor. */
struct ds_turns {
        uv_check_t check;
        uv_idle_t idle; /* keeps the loop turning while somebody can be served */
        TAILQ_HEAD(ds_turn_lines, ds_turn_line) lines;
        struct ds_deadlines *deadlines;
        struct ds_deadline due;          /* of the first line, while none is due */
        const struct ds_turn_line *last; /* served last, only to compare with */
        uint64_t shared_ns;              /* when a line was served after another one, the last time; 0 = never */
        int (*may)(void *user);          /* 0: nobody is served; what changes that wakes the loop */
        void *user;
};

void ds_turn_line_init(struct ds_turn_line *line);
/* Asserts that nobody waits. */
void ds_turn_line_deinit(struct ds_turn_line *line);

/* The memory must stay until the loop has closed the handles. 0 or -errno. */
int ds_turns_init(
        struct ds_turns *turns, uv_loop_t *loop, struct ds_deadlines *deadlines, int (*may)(void *user), void *user);
/* Nobody may wait. */
void ds_turns_deinit(struct ds_turns *turns);
/* So much time, ns, was spent for a user outside of its turn: on an answer to it. */
void ds_turns_spent(struct ds_turn_line *line, uint64_t now_ns, uint64_t ns);
/* At the end of its user's line; one that waits already keeps its place. */
void ds_turns_wait(struct ds_turns *turns, struct ds_turn_line *line, struct ds_turn *turn);
/* One that does not wait is fine. */
void ds_turns_forget(struct ds_turns *turns, struct ds_turn_line *line, struct ds_turn *turn);
