/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/client.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/wire.h"
#include "supervisor/message.h"
#include "supervisor/poll.h"
#include "supervisor/profiles.h"
#include "supervisor/rate.h"
#include "supervisor/rpc_table.h"
#include "supervisor/session.h"
#include "supervisor/supervisor.h"
#include "supervisor/turns.h"
#include "supervisor/unpack.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/foreign.h"
#include "util/frame.h"

#define HELLO_MAX_MS 5000u
#define FRAME_MAX_MS 5000u /* longest time from the first byte of a frame to its last */
/* a client whose time is over is checked again after this time if the supervisor has not served it yet */
#define OUR_DELAY_MS 100u
/* most descriptors in replies that are still queued in the supervisor, where each one is open */
#define QUEUED_FDS_MAX 8u
/* Most descriptors in replies that the client has not read: one for each request that it can have open. */
#define UNREAD_FDS_MAX 64u
/* Most descriptors received from the client: those of one request, and those of the next, incomplete one. */
#define CLIENT_FDS_MAX 2u
#define GROUPS_MAX 64u
#define MESSAGE_TEXT_MAX 4096u

#define DEAF_LOOK_MS 5u
#define DEAF_LOOKS 200u

enum client_state {
        CLIENT_NEW, /* connected, but the hello has not come yet */
        CLIENT_READY,
        CLIENT_CLOSED, /* closed, but libuv still owns the handle */
        _CLIENT_STATE_MAX,
        _CLIENT_STATE_INVALID = -EINVAL,
};

TAILQ_HEAD(client_op_list, ds_client_op);

struct ds_client {
        uv_poll_t poll;
        struct ds_supervisor *supervisor;
        enum client_state state;
        ds_conn *conn;
        int events;
        struct ucred creds;
        size_t n_groups;
        gid_t groups[GROUPS_MAX];
        ds_user *user;
        struct ds_rights rights;
        /* place in the line for service; the client waits when its socket is readable or a frame is buffered */
        struct ds_turn turn;
        /* 1: the socket became readable while the client waited for service; it is read again after that */
        int overdue;
        struct ds_rate_waiter waiter; /* place in the queue of clients whose user exceeds its request rate */
        struct ds_charge charge, unread;
        struct ds_session *session;
        int paused; /* 1: the client's requests are left unread for the next daemon */
        /* 1: the next daemon owns the connection, so closing it here must not shut it down */
        int elsewhere;
        /* number of checks for which the client was not read, because too many files that its user sent are still
         * open; 0: it is read */
        unsigned deaf;
        struct ds_deadline hearing; /* time at which the supervisor checks again whether the client may be read */
        /* time until which the hello must come, then until which the rest of a frame must come */
        struct ds_deadline deadline;
        struct client_op_list ops;
        uint32_t n_ops;
        TAILQ_ENTRY(ds_client) link;
};

static const char *const state_names[_CLIENT_STATE_MAX] = {
        [CLIENT_NEW] = "new", [CLIENT_READY] = "ready", [CLIENT_CLOSED] = "closed"};

static void update_poll(struct ds_client *client);
static void serve(struct ds_turn *turn);
static void may_ask_again(struct ds_rate_waiter *waiter);
static int pay_unread(struct ds_client *client);

static void set_state(struct ds_client *client, enum client_state state)
{
        assert(state >= 0 && state < _CLIENT_STATE_MAX);
        ds_log(DS_LOG_DEBUG, "client of pid %d: %s -> %s", (int)client->creds.pid, state_names[client->state],
                state_names[state]);
        client->state = state;
}

/* Queues the client for service: a frame was read or its socket is readable. */
static void want_turn(struct ds_client *client)
{
        ds_turns_wait(&client->supervisor->turns, ds_user_turn_line(client->user), &client->turn);
}

static void stop_waiting(struct ds_client *client)
{
        ds_turns_forget(&client->supervisor->turns, ds_user_turn_line(client->user), &client->turn);
        client->overdue = 0;
        ds_rate_forget(ds_user_rate(client->user), &client->waiter);
}

/* --- creation and closing ----------------------------------------------------------------------------------------- */

/* Whether the client's data has arrived, but the supervisor has not read it yet. Then the delay is not the client's,
 * and fn is scheduled again. */
static int waits_for_us(struct ds_client *client, void (*fn)(struct ds_deadline *))
{
        if (!client->turn.waiting)
                return 0;
        ds_deadline_arm(&client->supervisor->deadlines, &client->deadline, OUR_DELAY_MS, fn);
        return 1;
}

static void hello_deadline(struct ds_deadline *deadline)
{
        struct ds_client *client = DS_CONTAINER_OF(deadline, struct ds_client, deadline);

        if (!waits_for_us(client, hello_deadline))
                ds_client_close(client, "it did not send Hello in time");
}

static void frame_deadline(struct ds_deadline *deadline)
{
        struct ds_client *client = DS_CONTAINER_OF(deadline, struct ds_client, deadline);

        if (!waits_for_us(client, frame_deadline))
                ds_client_close(client, "it did not complete a frame in time");
}

static int read_credentials(struct ds_client *client, int fd)
{
        socklen_t size = sizeof(client->creds);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &client->creds, &size) < 0)
                return ds_error_origin(-errno);
        size = sizeof(client->groups);
        /* the kernel does not list the groups of a client that has more than fit here, so it counts as a member of
         * none */
        if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, client->groups, &size) == 0)
                client->n_groups = size / sizeof(gid_t);
        return 0;
}

/* Callback of the client's connection: closes received descriptors that no request used. */
static void close_fds(void *user, const int *fds, size_t n)
{
        struct ds_client *client = user;

        ds_foreign_close(&client->supervisor->foreign, client->user, fds, n);
}

static void close_socketp(int *fdp)
{
        *fdp = ds_foreign_close_socket(*fdp);
}

static void client_free(struct ds_client *client)
{
        ds_conn_free(client->conn);
        ds_charge_release(&client->charge);
        ds_charge_release(&client->unread);
        ds_user_unref(client->user);
        ds_free(client);
}

static void client_freep(struct ds_client **p)
{
        if (*p)
                client_free(*p);
}

/* Creates a client for the connected socket fd, which it consumes also on failure. restored: the session existed
 * before the restart, so its user's limits are not checked again. */
static int client_make(struct ds_supervisor *supervisor, int fd, int restored, struct ds_client **ret)
{
        ds_cleanup(client_freep) struct ds_client *client = ds_alloc0(1, sizeof(*client));
        ds_cleanup(close_socketp) int owned = fd;
        int r;

        if (!client)
                return ds_error_origin(-ENOMEM);
        client->supervisor = supervisor;
        client->poll.data = client;
        client->turn.serve = serve;
        client->waiter.go = may_ask_again;
        TAILQ_INIT(&client->ops);
        r = read_credentials(client, fd);
        if (r)
                return ds_error_trace(r);
        r = ds_user_get(supervisor->users, client->creds.uid, &client->user);
        if (r)
                return ds_error_fold(r);
        ds_client_find_rights(client);
        if (restored)
                ds_charge_force(&client->charge, client->user, DS_CHARGE_CONNECTIONS, 1);
        else
                r = ds_charge_take(&client->charge, client->user, DS_CHARGE_CONNECTIONS, 1);
        if (r)
                return r;
        r = ds_conn_new(DS_TAKE_FD(owned), DS_FRAME_MAX, DS_CLIENT_OUT_MAX, &client->conn);
        if (r)
                return ds_error_fold(r);
        ds_conn_set_foreign(client->conn, CLIENT_FDS_MAX, close_fds, client);
        r = uv_poll_init(&supervisor->loop, &client->poll, ds_conn_fd(client->conn));
        if (r < 0)
                return ds_error_origin(r);
        TAILQ_INSERT_TAIL(&supervisor->clients, client, link);
        *ret = DS_TAKE_PTR(client);
        return 0;
}

int ds_client_new(struct ds_supervisor *supervisor, int fd)
{
        struct ds_client *client;
        int r = client_make(supervisor, fd, 0, &client);

        if (r)
                return r;
        ds_deadline_arm(&supervisor->deadlines, &client->deadline, HELLO_MAX_MS, hello_deadline);
        update_poll(client);
        return 0;
}

static void set_elsewhere(struct ds_client *client, int elsewhere)
{
        client->elsewhere = elsewhere;
        ds_conn_set_elsewhere(client->conn, elsewhere);
}

int ds_client_restore(struct ds_supervisor *supervisor, int fd, struct ds_client **ret)
{
        int r = client_make(supervisor, fd, 1, ret);

        if (r)
                return r;
        (*ret)->paused = 1;
        set_elsewhere(*ret, 1);
        return 0;
}

static void closed_cb(uv_handle_t *handle)
{
        struct ds_client *client = handle->data;
        struct ds_supervisor *supervisor = client->supervisor;

        client_free(client);
        ds_supervisor_check_stop(supervisor);
}

static void log_close(const struct ds_client *client, const char *why)
{
        const struct ds_log_about about = {
                .event = DS_EVENT_CLIENT_CLOSED,
                .session = client->session ? client->session->id : 0,
                .pid = client->creds.pid,
                .uid = client->creds.uid,
        };

        if (ds_log_may(ds_user_log_budget(client->user), uv_hrtime(), DS_LOG_WARNING))
                ds_log_about(&about, DS_LOG_WARNING, "client closed (pid %d, uid %u): %s", (int)client->creds.pid,
                        (unsigned)client->creds.uid, why);
}

void ds_client_close(struct ds_client *client, const char *why)
{
        struct ds_supervisor *supervisor = client->supervisor;
        struct ds_client_op *op;

        if (client->state == CLIENT_CLOSED)
                return;
        if (why)
                log_close(client, why);
        set_state(client, CLIENT_CLOSED);
        ds_deadline_disarm(&supervisor->deadlines, &client->deadline);
        ds_deadline_disarm(&supervisor->deadlines, &client->hearing);
        stop_waiting(client);
        TAILQ_REMOVE(&supervisor->clients, client, link);
        while ((op = TAILQ_FIRST(&client->ops)))
                ds_client_op_end(op);
        ds_profiles_client_gone(client);
        if (client->session) {
                struct ds_session *session = DS_TAKE_PTR(client->session);

                ds_session_leave(session);
        }
        /* the connection is freed later, with its memory; shutdown() informs the peer now */
        if (!client->elsewhere)
                shutdown(ds_conn_fd(client->conn), SHUT_RDWR);
        uv_close((uv_handle_t *)&client->poll, closed_cb);
}

void ds_client_refuse(struct ds_client *client)
{
        set_elsewhere(client, 0);
        ds_client_close(client, NULL);
}

void ds_client_let_go(struct ds_client *client)
{
        set_elsewhere(client, 1);
        ds_client_close(client, NULL);
}

/* --- frames ------------------------------------------------------------------------------------------------------- */

/* Checks the conditions in the RPC table's row of the call. Returns 0 if the handler may run. */
static int check_right(struct ds_client *client, const struct ds_rpc *rpc, const Detshare__Request *request)
{
        if (client->supervisor->state == DS_DAEMON_STOPPING) {
                ds_client_answer(client, request->id, DETSHARE__STATUS__SHUTTING_DOWN, "the daemon is stopping");
                return -1;
        }
        if (rpc->right == DS_RIGHT_ADMIN && !ds_client_is_admin(client)) {
                ds_client_answer(client, request->id, DETSHARE__STATUS__DENIED,
                        "%s needs uid 0 or the group detshare-admin", rpc->name);
                return -1;
        }
        if ((rpc->flags & DS_RPC_WINDOW) && client->session->control_only) {
                ds_client_answer(client, request->id, DETSHARE__STATUS__BAD_REQUEST,
                        "%s: the session was opened for control requests only, not for GPU work", rpc->name);
                return -1;
        }
        return 0;
}

static void handle_request(struct ds_client *client, Detshare__Request *request, int *fds)
{
        const struct ds_rpc *rpc = ds_rpc_find(request->call_case);

        if (!rpc && client->state == CLIENT_READY && request->fds == 0) {
                ds_client_answer(client, request->id, DETSHARE__STATUS__UNSUPPORTED, "unknown request");
                return;
        }
        if (!rpc || rpc->fds != request->fds) {
                ds_client_close(client, "it sent a request with the wrong number of file descriptors");
                return;
        }
        for (size_t i = 0; i < rpc->fds; i++)
                if (!ds_foreign_is_memory(fds[i]) && !(rpc->flags & DS_RPC_FILE && ds_foreign_is_disk_file(fds[i]))) {
                        ds_client_close(client, "it sent a file descriptor that is not a memory file");
                        return;
                }
        if (client->state == CLIENT_NEW && !(rpc->flags & DS_RPC_BEFORE_HELLO)) {
                ds_client_close(client, "it sent a request before Hello");
                return;
        }
        if (client->state == CLIENT_READY && (rpc->flags & DS_RPC_WINDOW) &&
                rpc->call != DETSHARE__REQUEST__CALL_WINDOW_REFUSED)
                ds_session_accept_window(client->session);
        if (check_right(client, rpc, request))
                return;
        if (rpc->handler)
                rpc->handler(client, request, fds);
        else
                ds_session_forward(client->session, rpc, request, fds);
}

static void handle_frame(struct ds_client *client, const uint8_t *payload, size_t size)
{
        ds_cleanup(ds_unpack_freep) ProtobufCMessage *message = NULL;
        int fds[DS_FRAME_FDS_MAX] = {-1, -1, -1, -1};
        Detshare__Request *request;
        int r;

        r = ds_unpack(&detshare__request__descriptor, payload, size, DS_UNPACK_BUDGET, &message);
        if (r) {
                ds_client_close(client, "a malformed request");
                return;
        }
        request = (Detshare__Request *)message;
        if (request->fds > DS_FRAME_FDS_MAX || ds_conn_take_fds(client->conn, fds, request->fds)) {
                ds_client_close(client, "a request announced file descriptors that were not sent");
                return;
        }
        handle_request(client, request, fds);
        close_fds(client, fds, request->fds);
}

/* A partly received frame must be complete in time, counted from its first byte. */
static void watch_partial(struct ds_client *client, int any)
{
        struct ds_deadlines *deadlines = &client->supervisor->deadlines;

        if (client->state != CLIENT_READY)
                return;
        if (!ds_conn_partial(client->conn))
                ds_deadline_disarm(deadlines, &client->deadline);
        else if (any || !ds_deadline_armed(&client->deadline))
                ds_deadline_arm(deadlines, &client->deadline, FRAME_MAX_MS, frame_deadline);
}

/* Whether the rate of the client's user allows one more request now. If not, the client is queued and its callback
 * is called when the rate allows one. */
static int may_ask(struct ds_client *client)
{
        return ds_rate_take(ds_user_rate(client->user), &client->supervisor->deadlines, &client->waiter, uv_hrtime());
}

/* Arms or disarms the deadline and closes a failed client after an attempt to handle a frame. n: result of
 * ds_conn_next(), r: of ds_conn_read(). */
static void after_frame(struct ds_client *client, int n, int r)
{
        if (client->waiter.waiting && r == 0) /* the client waits for its user's rate, so it has no deadline itself */
                ds_deadline_disarm(&client->supervisor->deadlines, &client->deadline);
        else if (n < 0 || r == DS_CONN_E_PROTOCOL)
                ds_client_close(client, "it sent a frame of wrong length, or too many file descriptors");
        else if (r)
                ds_client_close(client, r < 0 ? "reading failed" : NULL);
        else if (ds_conn_ready(client->conn))
                want_turn(client);
        else if (ds_conn_n_fds(client->conn) && !ds_conn_partial(client->conn))
                ds_client_close(client, "it sent file descriptors that no request announced");
        else
                watch_partial(client, n == 1);
}

/* Handles one request of the client, if the rate of its user allows one. */
static void take_frame(struct ds_client *client)
{
        const uint8_t *payload;
        int n = 0, r = 0;
        size_t size;

        if (!ds_conn_ready(client->conn))
                r = ds_conn_read(client->conn);
        if (!r && ds_conn_ready(client->conn) && may_ask(client))
                n = ds_conn_next(client->conn, &payload, &size);
        if (n == 1)
                handle_frame(client, payload, size);
        if (client->state != CLIENT_CLOSED)
                after_frame(client, n, r);
}

static void may_ask_again(struct ds_rate_waiter *waiter)
{
        struct ds_client *client = DS_CONTAINER_OF(waiter, struct ds_client, waiter);

        if (client->state == CLIENT_NEW)
                ds_deadline_arm(&client->supervisor->deadlines, &client->deadline, HELLO_MAX_MS, hello_deadline);
        want_turn(client);
        update_poll(client);
}

/*
 * Checks whether the client may be read again. Threads close the files that a user sent, which takes a while on a busy
 * machine; until then no client of that user is read. If the files do not close at all, a client of the user that has
 * data is closed.
 */
static void hear_again(struct ds_deadline *deadline)
{
        struct ds_client *client = DS_CONTAINER_OF(deadline, struct ds_client, hearing);

        if (!ds_foreign_too_many(&client->supervisor->foreign, client->user)) {
                client->deaf = 0;
                /* the client may have complete frames in its buffer; those of a paused client are for the next
                 * daemon */
                if (!client->paused)
                        want_turn(client);
        } else if (++client->deaf > DEAF_LOOKS) {
                ds_client_close(client, "its user has sent too many file descriptors that are slow to close");
        } else {
                ds_deadline_arm(&client->supervisor->deadlines, &client->hearing, DEAF_LOOK_MS, hear_again);
        }
        if (client->state != CLIENT_CLOSED)
                update_poll(client);
}

static void serve(struct ds_turn *turn)
{
        struct ds_client *client = DS_CONTAINER_OF(turn, struct ds_client, turn);

        client->overdue = 0;
        if (ds_foreign_too_many(&client->supervisor->foreign, client->user)) {
                client->deaf = 1;
                ds_deadline_arm(&client->supervisor->deadlines, &client->hearing, DEAF_LOOK_MS, hear_again);
        } else {
                take_frame(client);
        }
        if (client->state != CLIENT_CLOSED)
                update_poll(client);
}

void ds_client_pause(struct ds_client *client)
{
        client->paused = 1;
        ds_deadline_disarm(&client->supervisor->deadlines, &client->deadline);
        stop_waiting(client);
        update_poll(client);
}

void ds_client_resume(struct ds_client *client)
{
        client->paused = 0;
        set_elsewhere(client, 0);
        /* complete frames may be in the buffer, for which the user's rate had no room yet */
        want_turn(client);
        update_poll(client);
}

/* Whether the client's socket is not read for now. */
static int is_silent(const struct ds_client *client)
{
        return client->waiter.waiting || client->paused || client->deaf;
}

/* Handles a socket that is readable or whose peer is gone. If the peer is gone, its unread requests are dropped. */
static void client_spoke(struct ds_client *client, int events)
{
        if ((events & UV_DISCONNECT) && (is_silent(client) || client->turn.waiting)) {
                ds_client_close(client, NULL);
        } else if (client->turn.waiting) {
                client->overdue = 1;
        } else if (!is_silent(client)) {
                want_turn(client);
        }
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
        struct ds_client *client = poll->data;

        if (status < 0) {
                ds_client_close(client, NULL);
                return;
        }
        if ((events & UV_WRITABLE) && ds_conn_flush(client->conn)) {
                ds_client_close(client, NULL);
                return;
        }
        (void)pay_unread(client); /* the charge cannot fail here: the amount can only have become smaller */
        if (events & (UV_READABLE | UV_DISCONNECT))
                client_spoke(client, events);
        if (client->state != CLIENT_CLOSED)
                update_poll(client);
}

static void update_poll(struct ds_client *client)
{
        int events = UV_DISCONNECT | (ds_conn_wants_write(client->conn) ? UV_WRITABLE : 0) |
                     (is_silent(client) || client->overdue ? 0 : UV_READABLE);

        if (events == client->events)
                return;
        client->events = events;
        if (ds_poll_start(&client->poll, events, poll_cb))
                ds_client_close(client, "its socket cannot be polled");
}

/* --- replies ------------------------------------------------------------------------------------------------------ */

/* Charges the replies that are queued here for the client to its user. Returns 0 or DS_CONN_E_FULL. */
static int pay_unread(struct ds_client *client)
{
        size_t queued = ds_conn_queued(client->conn);

        if (queued == client->unread.amount)
                return 0;
        ds_charge_release(&client->unread);
        return queued && ds_charge_take(&client->unread, client->user, DS_CHARGE_REPLIES, queued) ? DS_CONN_E_FULL : 0;
}

/* Whether a reply with n_fds descriptors may be sent. A client that does not read must not hold the supervisor's
 * descriptors, nor use up the kernel's limit of descriptors in flight, which all users share. */
static int may_send(struct ds_client *client, size_t n_fds)
{
        if (n_fds && (ds_conn_queued_fds(client->conn) + n_fds > QUEUED_FDS_MAX ||
                             ds_conn_unread_fds(client->conn) + n_fds > UNREAD_FDS_MAX))
                return DS_CONN_E_FULL;
        return 0;
}

void ds_client_reply(struct ds_client *client, uint64_t id, Detshare__Reply *reply, const int *fds, size_t n_fds)
{
        static const uint8_t id_zero[] = {1 << 3, 0};
        const uint8_t *bytes;
        size_t size;
        int r;

        if (client->state == CLIENT_CLOSED)
                return;
        reply->id = id;
        reply->fds = (uint32_t)n_fds;
        if (ds_message_pack(&reply->base, DS_FRAME_MAX, &bytes, &size)) {
                ds_client_answer(client, id, DETSHARE__STATUS__INTERNAL, "the reply does not fit into a frame");
                return;
        }
        /* a message of default values encodes to 0 bytes, but a frame must not be empty */
        if (size == 0) {
                bytes = id_zero;
                size = sizeof(id_zero);
        }
        r = may_send(client, n_fds);
        if (!r)
                r = ds_conn_send(client->conn, bytes, size, fds, n_fds);
        if (!r)
                r = pay_unread(client);
        if (r)
                ds_client_close(client, r == DS_CONN_E_FULL ? "it does not read its replies" : NULL);
        else
                update_poll(client);
}

void ds_client_answer(struct ds_client *client, uint64_t id, int status, const char *fmt, ...)
{
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        char text[MESSAGE_TEXT_MAX + 1];
        va_list args;

        va_start(args, fmt);
        vsnprintf(text, sizeof(text), fmt, args);
        va_end(args);
        assert(!status == !*text);
        reply.status = status;
        reply.message = text;
        ds_client_reply(client, id, &reply, NULL, 0);
}

int ds_client_charge_call(struct ds_client *client, uint64_t id, struct ds_charge *charge)
{
        const int r = ds_charge_take(charge, client->user, DS_CHARGE_CALLS, 1);

        if (r == DS_CHARGE_E_USER)
                ds_client_answer(client, id, DETSHARE__STATUS__QUOTA,
                        "the user has %llu open requests, the most permitted; retry later",
                        (unsigned long long)ds_user_limit(client->user, DS_CHARGE_CALLS));
        else if (r)
                ds_client_answer(client, id, DETSHARE__STATUS__QUOTA,
                        "all users together have the most permitted open requests; retry later");
        return r;
}

/* --- requests to the worker --------------------------------------------------------------------------------------- */

void *ds_client_op_new(struct ds_client *client, uint64_t request_id, size_t size,
        void (*done)(struct ds_worker_call *call, const struct ds_worker_answer *answer))
{
        struct ds_charge charge = {0};
        struct ds_client_op *op;

        assert(size >= sizeof(*op));
        if (client->n_ops >= DS_SESSION_CALLS_MAX) {
                ds_client_answer(client, request_id, DETSHARE__STATUS__QUOTA,
                        "the session has %u open requests, the most permitted", DS_SESSION_CALLS_MAX);
                return NULL;
        }
        if (ds_client_charge_call(client, request_id, &charge))
                return NULL;
        op = ds_alloc0(1, size);
        if (!op) {
                ds_charge_release(&charge);
                ds_client_answer(client, request_id, DETSHARE__STATUS__INTERNAL, "the daemon is out of memory");
                return NULL;
        }
        ds_charge_move(&op->call.charge, &charge);
        op->call.done = done;
        op->call.image_fd = -1;
        op->client = client;
        op->request_id = request_id;
        client->n_ops++;
        TAILQ_INSERT_TAIL(&client->ops, op, link);
        return op;
}

void *ds_client_op_end(struct ds_client_op *op)
{
        struct ds_client *client = op->client;

        assert(client->n_ops > 0);
        ds_worker_cancel(client->supervisor->worker, &op->call);
        ds_charge_release(&op->call.charge);
        ds_deadline_disarm(&client->supervisor->deadlines, &op->deadline);
        TAILQ_REMOVE(&client->ops, op, link);
        client->n_ops--;
        return ds_free(op);
}

/* --- identity ----------------------------------------------------------------------------------------------------- */

struct ds_supervisor *ds_client_supervisor(const struct ds_client *client)
{
        return client->supervisor;
}

struct ds_session *ds_client_session(const struct ds_client *client)
{
        return client->session;
}

ds_conn *ds_client_conn(struct ds_client *client)
{
        return client->conn;
}

void ds_client_set_session(struct ds_client *client, struct ds_session *session)
{
        assert(!client->session);
        client->session = session;
        ds_deadline_disarm(&client->supervisor->deadlines, &client->deadline);
        set_state(client, CLIENT_READY);
}

ds_user *ds_client_user(const struct ds_client *client)
{
        return client->user;
}

struct ds_client *ds_client_next(struct ds_supervisor *supervisor, struct ds_client *client)
{
        return client ? TAILQ_NEXT(client, link) : TAILQ_FIRST(&supervisor->clients);
}

pid_t ds_client_pid(const struct ds_client *client)
{
        return client->creds.pid;
}

int ds_client_must_wait(struct ds_client *client, uint64_t request_id)
{
        uint64_t ms = ds_blame_wait_ms(&client->supervisor->blame, client->creds.uid, uv_hrtime());

        if (!ms)
                return 0;
        ds_client_answer(client, request_id, DETSHARE__STATUS__RESTARTING,
                "the user's programs have ended the GPU's context too often; retry in %llu ms", (unsigned long long)ms);
        return 1;
}

static int in_group(const struct ds_client *client, gid_t gid)
{
        if (client->creds.gid == gid)
                return 1;
        for (size_t i = 0; i < client->n_groups; i++)
                if (client->groups[i] == gid)
                        return 1;
        return 0;
}

int ds_client_is_admin(const struct ds_client *client)
{
        const struct ds_supervisor *supervisor = client->supervisor;

        return client->creds.uid == 0 || client->creds.uid == geteuid() ||
               (supervisor->have_admin_gid && in_group(client, supervisor->admin_gid));
}

const struct ds_rights *ds_client_rights(const struct ds_client *client)
{
        return &client->rights;
}

void ds_client_find_rights(struct ds_client *client)
{
        const struct ds_supervisor *supervisor = client->supervisor;
        const struct ds_defaults *defaults = &supervisor->defaults;
        const struct ds_identity who = {.uid = client->creds.uid,
                .gid = client->creds.gid,
                .n_groups = client->n_groups,
                .groups = client->groups,
                .admin = ds_client_is_admin(client)};

        ds_rules_for(&supervisor->config->rules, &who, who.uid == 0 ? &defaults->root : &defaults->everybody,
                &client->rights);
        ds_user_add_rights(client->user, &client->rights);
}

int ds_client_may(const struct ds_client *client, Detshare__Class class_)
{
        const uint64_t classes = client->rights.of[DS_RULE_CLASSES].value;

        return (classes & (class_ == DETSHARE__CLASS__LS ? DS_CLASS_BIT_LS : DS_CLASS_BIT_BE)) != 0;
}
