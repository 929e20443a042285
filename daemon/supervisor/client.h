/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients: their connections, frames and credentials
 *
 * A client's fault ends only that client. Input that is malformed, too large, too frequent or too slow closes its
 * connection with one log line; the loop continues. A client is freed in the loop's close callback, so it stays valid
 * until the handler of its current request returns, even if it was closed meanwhile.
 *
 * A client with data waits for its turn (turns.h); then one of its requests is handled. A client whose peer disconnects
 * before that is closed, and its unread requests are dropped.
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
 * A request to the worker for this client that belongs to no session. Embed this struct as the first member of one with
 * the request's own data. The client owns it until ds_client_op_end() frees it, which also happens when the client is
 * closed.
 */
struct ds_client_op {
        struct ds_worker_call call;
        struct ds_deadline deadline;
        struct ds_client *client;
        uint64_t request_id;
        TAILQ_ENTRY(ds_client_op) link;
};

/* Creates a client for the connected socket fd, which it consumes also on failure. Returns 0, a contract code of
 * charge.h, or -errno. */
int ds_client_new(struct ds_supervisor *supervisor, int fd);
/* Closes the client: its session leaves and its pending requests are dropped. `why` is logged; NULL: no log line.
 * Idempotent. */
void ds_client_close(struct ds_client *client, const char *why);

/*
 * Creates a client of the previous daemon that had completed its hello. The client is paused until ds_client_resume().
 * Works as ds_client_new(), but without a check of the user's limits.
 */
int ds_client_restore(struct ds_supervisor *supervisor, int fd, struct ds_client **ret);
/* Pause: the supervisor stops reading the client, so that the next daemon reads its requests; replies are still
 * sent. Resume: undoes a pause. */
void ds_client_pause(struct ds_client *client);
void ds_client_resume(struct ds_client *client);
/* Closes the client here without closing its connection, which the next daemon owns: the peer does not notice. */
void ds_client_let_go(struct ds_client *client);
/* Closes a restored client that cannot continue; its peer sees the end of the connection. */
void ds_client_refuse(struct ds_client *client);
struct ds_conn *ds_client_conn(struct ds_client *client);

struct ds_supervisor *ds_client_supervisor(const struct ds_client *client);
struct ds_session *ds_client_session(const struct ds_client *client); /* the client's session; NULL before the hello */
void ds_client_set_session(struct ds_client *client, struct ds_session *session);
ds_user *ds_client_user(const struct ds_client *client);
/* The client after `client` in the list of all clients; the first one if `client` is NULL. NULL: there are no more. */
struct ds_client *ds_client_next(struct ds_supervisor *supervisor, struct ds_client *client);
pid_t ds_client_pid(const struct ds_client *client);
/*
 * Whether the client's user has ended the GPU context so often that the client must wait (blame.h). If so, the request
 * is answered with a status that makes the client retry.
 */
int ds_client_must_wait(struct ds_client *client, uint64_t request_id);
/* Whether the client is an administrator: uid 0, the daemon's own uid, or a member of the admin group. */
int ds_client_is_admin(const struct ds_client *client);
/* Limits of the client, which follow from its user, its groups and the configuration. */
const struct ds_rights *ds_client_rights(const struct ds_client *client);
/* Determines the client's limits again, after a change of the configuration. */
void ds_client_find_rights(struct ds_client *client);
/* Whether sessions of the client may have that class. */
int ds_client_may(const struct ds_client *client, Detshare__Class class_);

/* Sends a reply and fills in its id and fds. Closes the client if its socket cannot accept the reply. */
void ds_client_reply(struct ds_client *client, uint64_t id, Detshare__Reply *reply, const int *fds, size_t n_fds);
/* Sends a reply without a result; fmt is "" for success. */
void ds_client_answer(struct ds_client *client, uint64_t id, int status, const char *fmt, ...) ds_printf(4, 5);

/* Charges one more open request to the client's user. Returns 0; otherwise the user has too many open requests, and
 * request `id` is answered. */
int ds_client_charge_call(struct ds_client *client, uint64_t id, struct ds_charge *charge);
/* Creates a zeroed op of `size` bytes whose first member is struct ds_client_op. Returns NULL if there is no memory
 * or the user has too many requests; then the request is answered. */
void *ds_client_op_new(struct ds_client *client, uint64_t request_id, size_t size,
        void (*done)(struct ds_worker_call *call, const struct ds_worker_answer *answer));
/* Cancels the op and frees it; returns NULL. */
void *ds_client_op_end(struct ds_client_op *op);
