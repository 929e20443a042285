/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Framed, non-blocking Unix stream connections with file descriptors beside the frames
 *
 * A frame is a little-endian uint32 with the payload's length and the payload. Used for clients, worker and helper
 * alike; the peer is taken to be hostile: the length is checked before anything is stored, input buffers are bounded by
 * the frame limit, output by a limit of its own (a peer that does not read is dropped, it does not make us hold
 * memory), and fds that nobody asked for are bounded and closed.
 *
 * File descriptors are kept in arrival order and taken by the frame's reader, who knows from the payload how many
 * belong to it. Those of a peer that is a stranger may take long to close (util/foreign.h): whoever owns the connection
 * says who closes them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct ds_conn ds_conn;

/* Contract codes */
#define DS_CONN_E_CLOSED 1   /* the peer has closed, or the connection broke */
#define DS_CONN_E_PROTOCOL 2 /* length out of range, too many fds */
#define DS_CONN_E_FULL 3     /* the peer does not read: more than out_max bytes are waiting */

#define DS_CONN_FDS_MAX 16 /* received and not yet taken */

/* Takes over fd (also on failure) and makes it non-blocking. frame_max: payload bytes; out_max: bytes queued. */
int ds_conn_new(int fd, size_t frame_max, size_t out_max, ds_conn **ret);
/*
 * The peer is a stranger: at most fds_max of its descriptors are kept at a time, more are against the protocol, and
 * those that nobody takes are closed by close_fds (which may keep them for longer than the connection lives).
 */
void ds_conn_set_foreign(
        ds_conn *conn, size_t fds_max, void (*close_fds)(void *user, const int *fds, size_t n), void *user);
/* Closes the fd and everything queued; NULL is fine; returns NULL. */
ds_conn *ds_conn_free(ds_conn *conn);
int ds_conn_fd(const ds_conn *conn);

/* Read what is there, at most a few frames' worth. 0 (also when nothing was there), CLOSED, PROTOCOL or -errno. */
int ds_conn_read(ds_conn *conn);
/* The next whole frame: 1 and its payload, valid until the next call on conn; 0 if there is none; PROTOCOL as -EPROTO.
 */
int ds_conn_next(ds_conn *conn, const uint8_t **ret_payload, size_t *ret_size);
/* True when ds_conn_next has something to say. */
int ds_conn_ready(const ds_conn *conn);
/* True while part of a frame is here and the rest is not. */
int ds_conn_partial(const ds_conn *conn);
/* Take the oldest n received fds. 0, or DS_CONN_E_PROTOCOL when there are fewer (none is taken then). */
int ds_conn_take_fds(ds_conn *conn, int *fds, size_t n);
size_t ds_conn_n_fds(const ds_conn *conn);

/* Queue a frame and send what can be sent. fds are duplicated when they cannot be sent at once. 0, CLOSED, FULL,
 * -errno. */
int ds_conn_send(ds_conn *conn, const void *payload, size_t size, const int *fds, size_t n_fds);
/* Send more of what is queued. 0, CLOSED or -errno. */
int ds_conn_flush(ds_conn *conn);
int ds_conn_wants_write(const ds_conn *conn);
/* What is queued: bytes, and fds that are kept open for the peer until it reads. */
size_t ds_conn_queued(const ds_conn *conn);
/* Whether the peer has not yet read all that was sent to it. */
int ds_conn_is_unread(const ds_conn *conn);
/* Let the socket hold about so many bytes for the peer (the kernel's own count, about 1 KB for a small frame). */
void ds_conn_set_window(ds_conn *conn, size_t bytes);
/*
 * 1 while a quarter of the window or more is unread, or frames are queued here. Poll for writing to learn of the end:
 * the kernel calls a stream writable by the same rule.
 */
int ds_conn_window_full(const ds_conn *conn);
size_t ds_conn_queued_fds(const ds_conn *conn);
/* fds that were sent and perhaps not yet read: they count against the limit of all that this user has in flight. */
size_t ds_conn_unread_fds(ds_conn *conn);

/*
 * A connection that goes on in another process: what has been read and not handled, and what has not been sent. The fds
 * that are shown stay the connection's. A negative return of a function ends the walk and is passed on.
 */
struct ds_conn_keep {
        int (*received)(void *user, const uint8_t *bytes, size_t size);
        int (*received_fd)(void *user, int fd);
        int (*queued)(void *user, const uint8_t *frame, size_t size, size_t sent); /* with its header */
        int (*queued_fd)(void *user, int fd);                                      /* of the frame before */
        void *user;
};
int ds_conn_show(const ds_conn *conn, const struct ds_conn_keep *keep);
/* Other processes hold it: freed it is only closed, and the peer does not notice. */
void ds_conn_set_elsewhere(ds_conn *conn, int elsewhere);
/* The other end of it, on a new connection. 0, PROTOCOL (no connection can have been like that), -errno. */
int ds_conn_put_received(ds_conn *conn, const uint8_t *bytes, size_t size);
int ds_conn_put_received_fd(ds_conn *conn, int *fd); /* taken: set to -1 */
int ds_conn_put_queued(ds_conn *conn, const uint8_t *frame, size_t size, size_t sent);
int ds_conn_put_queued_fd(ds_conn *conn, int *fd);

static inline void ds_conn_freep(ds_conn **p)
{
        *p = ds_conn_free(*p);
}
