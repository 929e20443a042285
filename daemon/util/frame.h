/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Framed, non-blocking Unix stream connections with file descriptors beside the frames
 *
 * A frame is a little-endian uint32 with the payload's length, then the payload. Clients, worker and helper all use it.
 * The peer is assumed to be hostile. The length is checked before anything is stored. Input buffers are bounded by the
 * frame limit, and output by a limit of its own: a peer that does not read is disconnected. Unexpected fds are bounded
 * and closed.
 *
 * File descriptors are kept in arrival order. The frame's reader takes as many as the payload says. Descriptors from an
 * untrusted peer may take long to close (util/foreign.h), so the connection's owner chooses the function that closes
 * them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct ds_conn ds_conn;

/* Positive return codes of the functions below */
#define DS_CONN_E_CLOSED 1   /* the peer has closed the connection, or it broke */
#define DS_CONN_E_PROTOCOL 2 /* the peer sent a frame with a length out of range, or too many fds */
#define DS_CONN_E_FULL 3     /* the peer does not read: more than out_max bytes are queued */

#define DS_CONN_FDS_MAX 16 /* most fds that are received and not taken yet */

/* Creates a connection for fd, which it takes over also on failure and makes non-blocking. frame_max: most bytes of
 * a payload; out_max: most bytes queued. */
int ds_conn_new(int fd, size_t frame_max, size_t out_max, ds_conn **ret);
/*
 * Marks the peer as untrusted. At most fds_max of its descriptors are kept at a time; more violate the protocol.
 * close_fds closes those that are not taken, and may keep them for longer than the connection lives.
 */
void ds_conn_set_foreign(
        ds_conn *conn, size_t fds_max, void (*close_fds)(void *user, const int *fds, size_t n), void *user);
/* Closes the connection's fd and discards everything queued. NULL is allowed; returns NULL. */
ds_conn *ds_conn_free(ds_conn *conn);
int ds_conn_fd(const ds_conn *conn);

/* Reads available data, at most a few frames. Returns 0 (also without data), CLOSED, PROTOCOL or a negative errno. */
int ds_conn_read(ds_conn *conn);
/* Returns 1 and the next whole frame's payload, valid until the next call on conn; 0 if there is none; -EPROTO for a
 * protocol violation. */
int ds_conn_next(ds_conn *conn, const uint8_t **ret_payload, size_t *ret_size);
/* Whether ds_conn_next() would return a frame or an error. */
int ds_conn_ready(const ds_conn *conn);
/* Whether an incomplete frame has arrived. */
int ds_conn_partial(const ds_conn *conn);
/* Takes the n fds received first. Returns 0, or DS_CONN_E_PROTOCOL if there are fewer (none is taken then). */
int ds_conn_take_fds(ds_conn *conn, int *fds, size_t n);
size_t ds_conn_n_fds(const ds_conn *conn);

/* Queues a frame and sends as much of it as possible. fds are duplicated if they cannot be sent at once. Returns 0,
 * CLOSED, FULL, or a negative errno. */
int ds_conn_send(ds_conn *conn, const void *payload, size_t size, const int *fds, size_t n_fds);
/* Sends more of the queued frames. Returns 0, CLOSED or a negative errno. */
int ds_conn_flush(ds_conn *conn);
int ds_conn_wants_write(const ds_conn *conn);
/* Number of queued bytes; ds_conn_queued_fds(): number of queued fds, which stay open until the peer reads. */
size_t ds_conn_queued(const ds_conn *conn);
/* Whether the peer has not read all data yet. */
int ds_conn_is_unread(const ds_conn *conn);
/* Limits the unread bytes in the socket to about this many, as the kernel counts them (about 1 KB for a small
 * frame). */
void ds_conn_set_window(ds_conn *conn, size_t bytes);
/*
 * Returns 1 while a quarter of the window or more is unread, or frames are queued here. To learn when that ends, poll
 * for writing: the kernel reports a stream as writable by the same rule.
 */
int ds_conn_window_full(const ds_conn *conn);
size_t ds_conn_queued_fds(const ds_conn *conn);
/* Number of fds sent that the peer may not have read: they count towards the kernel's limit of a user's fds in
 * flight. */
size_t ds_conn_unread_fds(ds_conn *conn);

/*
 * Functions that receive the state of a connection which another process takes over: data read but not handled, and
 * data not sent. The connection keeps the fds that it shows. A negative result of a function ends the walk and is
 * returned.
 */
struct ds_conn_keep {
        int (*received)(void *user, const uint8_t *bytes, size_t size);
        int (*received_fd)(void *user, int fd);
        /* frame with its header; `sent` bytes of it are sent */
        int (*queued)(void *user, const uint8_t *frame, size_t size, size_t sent);
        int (*queued_fd)(void *user, int fd); /* fd of the preceding frame */
        void *user;
};
int ds_conn_show(const ds_conn *conn, const struct ds_conn_keep *keep);
/* Marks that other processes hold the connection, too: freeing it only closes the fd, and the peer does not notice. */
void ds_conn_set_elsewhere(ds_conn *conn, int elsewhere);
/* These functions restore the state of a connection that ds_conn_show() has passed on. They return 0, PROTOCOL (the
 * data cannot be valid), or a negative errno. */
int ds_conn_put_received(ds_conn *conn, const uint8_t *bytes, size_t size);
int ds_conn_put_received_fd(ds_conn *conn, int *fd); /* on success takes the fd and sets *fd to -1 */
int ds_conn_put_queued(ds_conn *conn, const uint8_t *frame, size_t size, size_t sent);
int ds_conn_put_queued_fd(ds_conn *conn, int *fd);

static inline void ds_conn_freep(ds_conn **p)
{
        *p = ds_conn_free(*p);
}
