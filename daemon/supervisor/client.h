/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients: connections, their frames, and who is behind them
 *
 * A client's fault ends that client: whatever is malformed, too large, too many or too slow closes its connection with
 * one log line, and the loop goes on. Its memory goes in the loop's close callback, so a client that was closed while
 * one of its requests is handled stays valid until the handler is through.
 *
 * A client that has something to say waits for its turn (turns.h), and one request of it is handled then. A client
 * whose peer is gone before that is closed, and what it asked is dropped.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "detshare.pb-c.h"
#include "supervisor/charge.h"
#include "supervisor/deadline.h"
#include "supervisor/rules.h"
#include "supervisor/worker_link.h"
#include "util/macro.h"

struct ds_conn;
struct ds_session;
struct ds_supervisor;
struct ds_client;

/*
 * A question of this client to the worker that belongs to no session; embedded, owned by the client until it is freed
 * with ds_client_op_end, which also happens when the client goes.
 */
struct ds_client_op {
        struct ds_worker_call call;
        struct ds_deadline deadline;
        struct ds_client *client;
        uint64_t request_id;
        TAILQ_ENTRY(ds_client_op) link;
};

/* Takes a connected socket over (also on failure). 0, a contract code of charge.h, or -errno. */
int ds_client_new(struct ds_supervisor *supervisor, int fd);
/* why is logged, NULL = silently. Its session leaves, what it asked is forgotten. Closing twice is fine. */
void ds_client_close(struct ds_client *client, const char *why);

/*
 * One of an earlier life of the daemon that had said hello: nothing is read until it goes on. Takes fd over (also on
 * failure). As ds_client_new, but whatever its user may have now.
 */
int ds_client_restore(struct ds_supervisor *supervisor, int fd, struct ds_client **ret);
/* What it sends from now on is for another life of the daemon; what is sent to it still goes. And back. */
void ds_client_pause(struct ds_client *client);
void ds_client_resume(struct ds_client *client);
/* Close it here, while its connection goes on elsewhere: the peer does not notice. */
void ds_client_let_go(struct ds_client *client);
/* One that was restored cannot go on after all: it is closed, and the peer hears of it. */
void ds_client_refuse(struct ds_client *client);
struct ds_conn *ds_client_conn(struct ds_client *client);

struct ds_supervisor *ds_client_supervisor(const struct ds_client *client);
struct ds_session *ds_client_session(const struct ds_client *client); /* NULL before hello */
void ds_client_set_session(struct ds_client *client, struct ds_session *session);
ds_user *ds_client_user(const struct ds_client *client);
/* The one behind `client`, the first with NULL; NULL: no more. */
struct ds_client *ds_client_next(struct ds_supervisor *supervisor, struct ds_client *client);
pid_t ds_client_pid(const struct ds_client *client);
/*
 * Has its user ended the device's context so often that it must wait (blame.h)? 1: the request was answered, with the
 * status that makes a client ask again.
 */
int ds_client_must_wait(struct ds_client *client, uint64_t request_id);
/* uid 0, the daemon's own uid, or a member of the admin group */
int ds_client_is_admin(const struct ds_client *client);
/* What it may have, by its user, its groups and the configuration. */
const struct ds_rights *ds_client_rights(const struct ds_client *client);
/* Find them anew: the configuration is another. */
void ds_client_find_rights(struct ds_client *client);
/* May its sessions be of that class? */
int ds_client_may(const struct ds_client *client, Detshare__Class class_);

/* Send reply, its id and fds filled in. A client that cannot take it is closed. */
void ds_client_reply(struct ds_client *client, uint64_t id, Detshare__Reply *reply, const int *fds, size_t n_fds);
/* A reply without a result; fmt "" for success. */
void ds_client_answer(struct ds_client *client, uint64_t id, int status, const char *fmt, ...) ds_printf(4, 5);

/* Charges its user for one more open request. 0, or the request `id` was answered: the user has too many. */
int ds_client_charge_call(struct ds_client *client, uint64_t id, struct ds_charge *charge);
/* A zeroed op of `size` bytes whose first member is struct ds_client_op. NULL: it was answered (memory, too many). */
void *ds_client_op_new(struct ds_client *client, uint64_t request_id, size_t size,
        void (*done)(struct ds_worker_call *call, const struct ds_worker_answer *answer));
/* Cancels and frees; returns NULL. */
void *ds_client_op_end(struct ds_client_op *op);
