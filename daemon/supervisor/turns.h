/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns: users are served round robin, one request each
 *
 * Problem. A loop that handles every readable socket serves users in proportion to their number of connections. If one
 * user has 250 connections, a request of another user waits for thousands of requests.
 *
 * A connection with data is queued in its user's line, and the lines form a ring. After the loop has polled all
 * sockets, and so has handled all answers of worker and helper, it serves one request of the first connection of each
 * line, round robin, for a fraction of a millisecond. Then it polls again. It serves no client while the worker has
 * enough unread requests (`may`). So requests wait in their senders' sockets, and not behind each other on the way to
 * the worker.
 *
 * While several users are active, each gets at most a quarter of this process's time, and 25 ms of it at once.
 * Otherwise a user that floods the
 * daemon would keep its processes busy all the time, and with them a processor that others need. A user that is alone
 * gets all of the time.
 *
 * So a request waits for at most one request of each other user, and the few that are already with the worker. A
 * request of a user that has used up its share waits for up to a tenth of a second.
 */
#pragma once

#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <uv.h>

#include "supervisor/deadline.h"
#include "supervisor/spin.h"

/* A connection's place in the line. Embed it in the connection; zero-initialise all fields but `serve`. */
struct ds_turn {
        TAILQ_ENTRY(ds_turn) link;
        int waiting;
        void (*serve)(struct ds_turn *turn); /* handles one request; it may queue the connection again */
};

/* The line of one user's connections. Embed it in the user. */
struct ds_turn_line {
        TAILQ_HEAD(ds_turn_list, ds_turn) turns;
        TAILQ_ENTRY(ds_turn_line) link;
        uid_t uid;
        uint64_t due_ns; /* earliest time of the next service while other users are active */
};

/* Part of struct ds_supervisor. */
struct ds_turns {
        uv_check_t check;
        uv_idle_t idle; /* active while a line may be served, so that the loop does not block */
        struct ds_spin spin;
        TAILQ_HEAD(ds_turn_lines, ds_turn_line) lines;
        struct ds_deadlines *deadlines;
        struct ds_deadline due; /* armed for the line that is due first, while no line is due */
        int served;             /* a user was served */
        uid_t last_uid;         /* user served last; it may be gone, and come again with another line */
        uint64_t shared_ns;     /* last time when service changed from one user to another; 0: never */
        /* returns 0 while no client may be served; when that changes, the loop is woken */
        int (*may)(void *user);
        void *user;
};

/* due_ns: that of the user's last line, or 0: a user does not escape its debt by connecting again. */
void ds_turn_line_init(struct ds_turn_line *line, uid_t uid, uint64_t due_ns);
/* Asserts that no connection waits. */
void ds_turn_line_deinit(struct ds_turn_line *line);

/* Starts the handles. Their memory must stay valid until the loop has closed them. Returns 0 or -errno. */
int ds_turns_init(
        struct ds_turns *turns, uv_loop_t *loop, struct ds_deadlines *deadlines, int (*may)(void *user), void *user);
/* Closes the handles. No connection may wait. */
void ds_turns_deinit(struct ds_turns *turns);
/* Charges processor time, ns, that the supervisor spent for the user outside of its turn, on an answer. Polling begins
 * then, as after a request (spin.h). */
void ds_turns_spent(struct ds_turns *turns, struct ds_turn_line *line, uint64_t now_ns, uint64_t ns);
/* Queues a connection at the end of its user's line. One that is queued already keeps its place. */
void ds_turns_wait(struct ds_turns *turns, struct ds_turn_line *line, struct ds_turn *turn);
/* Removes a connection from its line. One that is not queued is allowed. */
void ds_turns_forget(struct ds_turns *turns, struct ds_turn_line *line, struct ds_turn *turn);
