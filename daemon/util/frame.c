/* SPDX-License-Identifier: Apache-2.0 */
#include "util/frame.h"

#include <assert.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/foreign.h"
#include "util/macro.h"

#define HEADER_BYTES 4u
#define IN_SMALL 1024u /* input buffer of an idle connection, bytes; a larger buffer holds one large frame only */
/* Most fds of one message, by the kernel's limit. A receiver with less room would not see that the kernel closes the
 * others. */
#define COME_MAX 253u
#define READS_MAX 4 /* most recvmsg() calls per ds_conn_read(), so that one busy peer does not block the loop */

/* A frame, or the rest of one, that the socket has not accepted yet. */
struct out_frame {
        struct out_frame *next;
        size_t size, sent; /* bytes of header and payload; bytes sent of them */
        size_t n_fds;
        int fds[DS_CONN_FDS_MAX];
        uint8_t data[];
};

struct ds_conn {
        int fd;
        size_t frame_max, out_max;
        uint8_t *in;
        size_t in_cap, in_start, in_end;
        int in_fds[DS_CONN_FDS_MAX];
        size_t n_in_fds, in_fds_max;
        void (*close_fds)(void *user, const int *fds, size_t n); /* NULL: this file closes them */
        void *close_user;
        struct out_frame *out_head, **out_tail;
        size_t out_bytes, out_fds; /* bytes and fds that are queued and not sent */
        /* 1: another process holds the connection, too, and the connection must survive this process */
        int elsewhere;
        size_t unread_fds; /* fds sent since the peer was last known to have read all */
        int window;        /* the kernel's bound of bytes that the peer has not read; 0 = not set */
};

static uint32_t get_le32(const uint8_t *p)
{
        return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put_le32(uint8_t *p, uint32_t v)
{
        p[0] = (uint8_t)v;
        p[1] = (uint8_t)(v >> 8);
        p[2] = (uint8_t)(v >> 16);
        p[3] = (uint8_t)(v >> 24);
}

static void close_fds(int *fds, size_t n)
{
        for (size_t i = 0; i < n; i++)
                fds[i] = ds_close(fds[i]);
}

/* Closes fds that the peer sent. */
static void close_foreign(const ds_conn *conn, int *fds, size_t n)
{
        if (n && conn->close_fds)
                conn->close_fds(conn->close_user, fds, n);
        else
                close_fds(fds, n);
}

static struct out_frame *out_frame_free(struct out_frame *frame)
{
        close_fds(frame->fds, frame->n_fds);
        return ds_free(frame);
}

int ds_conn_new(int fd, size_t frame_max, size_t out_max, ds_conn **ret)
{
        ds_cleanup(ds_closep) int owned = fd;
        ds_conn *conn;
        int flags;

        assert(frame_max > 0 && frame_max <= UINT32_MAX);
        assert(out_max >= frame_max + HEADER_BYTES);
        flags = fcntl(fd, F_GETFL);
        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
                return ds_error_origin(-errno);
        conn = ds_alloc0(1, sizeof(*conn));
        if (!conn)
                return ds_error_origin(-ENOMEM);
        conn->fd = DS_TAKE_FD(owned);
        conn->frame_max = frame_max;
        conn->out_max = out_max;
        conn->out_tail = &conn->out_head;
        conn->in_fds_max = DS_CONN_FDS_MAX;
        *ret = conn;
        return 0;
}

void ds_conn_set_foreign(
        ds_conn *conn, size_t fds_max, void (*close_foreign_fds)(void *user, const int *fds, size_t n), void *user)
{
        assert(fds_max <= DS_CONN_FDS_MAX);
        assert(conn->n_in_fds == 0);
        conn->in_fds_max = fds_max;
        conn->close_fds = close_foreign_fds;
        conn->close_user = user;
}

ds_conn *ds_conn_free(ds_conn *conn)
{
        if (!conn)
                return NULL;
        while (conn->out_head) {
                struct out_frame *next = conn->out_head->next;

                out_frame_free(conn->out_head);
                conn->out_head = next;
        }
        close_foreign(conn, conn->in_fds, conn->n_in_fds);
        if (conn->elsewhere)
                ds_foreign_close_listening(conn->fd);
        else if (conn->close_fds)
                ds_foreign_close_socket(conn->fd);
        else
                ds_close(conn->fd);
        ds_free(conn->in);
        return ds_free(conn);
}

int ds_conn_fd(const ds_conn *conn)
{
        return conn->fd;
}

/* Total bytes of the first buffered frame, with its header. IN_SMALL while its length is unknown; 0 if its length is
 * invalid. */
static size_t frame_need(const ds_conn *conn)
{
        uint32_t length;

        if (conn->in_end - conn->in_start < HEADER_BYTES)
                return IN_SMALL;
        length = get_le32(conn->in + conn->in_start);
        if (length == 0 || length > conn->frame_max)
                return 0;
        return HEADER_BYTES + length;
}

/* Makes room for at least one more byte, and for all of a frame of known length. */
static int make_room(ds_conn *conn)
{
        size_t have = conn->in_end - conn->in_start, need;
        uint8_t *bigger;

        if (have == 0) {
                conn->in_start = conn->in_end = 0;
                if (conn->in_cap > IN_SMALL) {
                        conn->in = ds_free(conn->in);
                        conn->in_cap = 0;
                }
        }
        need = frame_need(conn);
        if (!need)
                return DS_CONN_E_PROTOCOL;
        if (conn->in_start > 0 && conn->in_cap - conn->in_start < need) {
                memmove(conn->in, conn->in + conn->in_start, have);
                conn->in_start = 0;
                conn->in_end = have;
        }
        if (conn->in_cap >= need)
                return 0;
        bigger = ds_realloc(conn->in, DS_MAX(need, (size_t)IN_SMALL), 1);
        if (!bigger)
                return ds_error_origin(-ENOMEM);
        conn->in = bigger;
        conn->in_cap = DS_MAX(need, (size_t)IN_SMALL);
        return 0;
}

/* Keeps the fds received with the bytes, and closes those beyond the limit. */
static int keep_fds(ds_conn *conn, struct msghdr *msg)
{
        int r = msg->msg_flags & MSG_CTRUNC ? DS_CONN_E_PROTOCOL : 0, surplus[COME_MAX];
        size_t n_surplus = 0;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
                size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                for (size_t i = 0; i < n; i++) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
                        if (r == 0 && conn->n_in_fds < conn->in_fds_max) {
                                conn->in_fds[conn->n_in_fds++] = fd;
                        } else {
                                assert(n_surplus < COME_MAX);
                                surplus[n_surplus++] = fd;
                                r = DS_CONN_E_PROTOCOL;
                        }
                }
        }
        close_foreign(conn, surplus, n_surplus);
        return r;
}

/*
 * Position in the buffer up to which to read. A large frame is read to its end and no further. So one read never brings
 * more than IN_SMALL bytes of small frames, which bounds the work that a peer can cause per iteration of the loop.
 */
static size_t in_limit(const ds_conn *conn)
{
        return DS_MIN(conn->in_cap, conn->in_start + DS_MAX(frame_need(conn), (size_t)IN_SMALL));
}

/* Calls recvmsg() once. Returns 1 if data came and filled the buffer, 0 if there is nothing more for now. */
static int read_once(ds_conn *conn)
{
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(sizeof(int) * COME_MAX)];
        } control;
        size_t room = in_limit(conn) - conn->in_end;
        struct iovec iov = {.iov_base = conn->in + conn->in_end, .iov_len = room};
        struct msghdr msg = {.msg_iov = &iov,
                .msg_iovlen = 1,
                .msg_control = control.bytes,
                .msg_controllen = sizeof(control.bytes)};
        ssize_t n;
        int r;

        assert(room > 0);
        do
                n = recvmsg(conn->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                return 0;
        if (n < 0 && (errno == ECONNRESET || errno == EPIPE || errno == ENOTCONN))
                return -DS_CONN_E_CLOSED;
        if (n < 0)
                return ds_error_origin(-errno) - DS_CONN_E_FULL;
        r = keep_fds(conn, &msg);
        if (r || n == 0)
                return r ? -r : -DS_CONN_E_CLOSED;
        conn->in_end += (size_t)n;
        return (size_t)n == room;
}

static int have_frame(const ds_conn *conn)
{
        size_t have = conn->in_end - conn->in_start;

        return have >= HEADER_BYTES && have - HEADER_BYTES >= get_le32(conn->in + conn->in_start);
}

int ds_conn_read(ds_conn *conn)
{
        for (int i = 0; i < READS_MAX; i++) {
                int r = make_room(conn);

                if (r)
                        return r;
                /* with a whole frame in the buffer, further bytes stay in the socket, where they use the peer's
                 * memory */
                if (conn->in_end >= in_limit(conn))
                        return 0;
                r = read_once(conn);
                if (r < -DS_CONN_E_FULL)
                        return ds_error_trace(r + DS_CONN_E_FULL);
                if (r < 0)
                        return -r;
                if (r == 0 || have_frame(conn))
                        return 0;
        }
        return 0;
}

int ds_conn_next(ds_conn *conn, const uint8_t **ret_payload, size_t *ret_size)
{
        size_t have = conn->in_end - conn->in_start;
        uint32_t length;

        if (have < HEADER_BYTES)
                return 0;
        length = get_le32(conn->in + conn->in_start);
        if (length == 0 || length > conn->frame_max)
                return -EPROTO;
        if (have - HEADER_BYTES < length)
                return 0;
        *ret_payload = conn->in + conn->in_start + HEADER_BYTES;
        *ret_size = length;
        conn->in_start += HEADER_BYTES + length;
        return 1;
}

int ds_conn_ready(const ds_conn *conn)
{
        size_t have = conn->in_end - conn->in_start;

        /* a frame of invalid length counts as ready, because its bytes never all arrive */
        return have_frame(conn) || (have >= HEADER_BYTES && get_le32(conn->in + conn->in_start) > conn->frame_max);
}

int ds_conn_partial(const ds_conn *conn)
{
        return conn->in_end > conn->in_start && !have_frame(conn);
}

int ds_conn_take_fds(ds_conn *conn, int *fds, size_t n)
{
        if (n > conn->n_in_fds)
                return DS_CONN_E_PROTOCOL;
        memcpy(fds, conn->in_fds, n * sizeof(int));
        conn->n_in_fds -= n;
        memmove(conn->in_fds, conn->in_fds + n, conn->n_in_fds * sizeof(int));
        return 0;
}

size_t ds_conn_n_fds(const ds_conn *conn)
{
        return conn->n_in_fds;
}

/* Calls sendmsg() once. Returns the number of bytes sent (0: the socket is full), -DS_CONN_E_CLOSED,
 * -DS_CONN_E_FULL, or -errno - DS_CONN_E_FULL. */
static ssize_t send_once(int fd, struct iovec *iov, size_t n_iov, const int *fds, size_t n_fds)
{
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(sizeof(int) * DS_CONN_FDS_MAX)];
        } control = {.bytes = {0}};
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n_iov};
        ssize_t n;

        if (n_fds) {
                struct cmsghdr *c;

                msg.msg_control = control.bytes;
                msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
                c = CMSG_FIRSTHDR(&msg);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
                memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
        }
        do
                n = sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        if (n >= 0)
                return n;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
                return 0;
        if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN)
                return -DS_CONN_E_CLOSED;
        if (errno == ETOOMANYREFS) /* the peer has too many unreceived fds */
                return -DS_CONN_E_FULL;
        return ds_error_origin(-errno) - DS_CONN_E_FULL;
}

static int send_error(ssize_t r)
{
        return r < -DS_CONN_E_FULL ? (int)r + DS_CONN_E_FULL : (int)-r;
}

/* Queues the rest of a frame of which the first `sent` bytes are already sent. */
static int enqueue(ds_conn *conn, const uint8_t *header, const void *payload, size_t size, size_t sent, const int *fds,
        size_t n_fds)
{
        size_t total = HEADER_BYTES + size;
        struct out_frame *frame = ds_alloc(sizeof(*frame) + total);

        if (!frame)
                return ds_error_origin(-ENOMEM);
        *frame = (struct out_frame){.size = total, .sent = sent};
        memcpy(frame->data, header, HEADER_BYTES);
        memcpy(frame->data + HEADER_BYTES, payload, size);
        if (sent == 0) {
                for (size_t i = 0; i < n_fds; i++) {
                        int copy = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);

                        if (copy < 0) {
                                int r = -errno;

                                out_frame_free(frame);
                                return ds_error_origin(r);
                        }
                        frame->fds[frame->n_fds++] = copy;
                }
        }
        *conn->out_tail = frame;
        conn->out_tail = &frame->next;
        conn->out_bytes += total - sent;
        conn->out_fds += frame->n_fds;
        return 0;
}

int ds_conn_send(ds_conn *conn, const void *payload, size_t size, const int *fds, size_t n_fds)
{
        uint8_t header[HEADER_BYTES];
        ssize_t sent = 0;

        assert(size > 0 && size <= conn->frame_max);
        assert(n_fds <= DS_CONN_FDS_MAX);
        put_le32(header, (uint32_t)size);
        if (conn->out_bytes + HEADER_BYTES + size > conn->out_max)
                return DS_CONN_E_FULL;
        if (!conn->out_head) {
                struct iovec iov[2] = {{header, HEADER_BYTES}, {(void *)payload, size}};

                sent = send_once(conn->fd, iov, 2, fds, n_fds);
                if (sent < 0)
                        return ds_error_trace(send_error(sent));
                if (sent)
                        conn->unread_fds += n_fds;
                if ((size_t)sent == HEADER_BYTES + size)
                        return 0;
        }
        return ds_error_trace(enqueue(conn, header, payload, size, (size_t)sent, fds, n_fds));
}

int ds_conn_flush(ds_conn *conn)
{
        while (conn->out_head) {
                struct out_frame *frame = conn->out_head;
                struct iovec iov = {frame->data + frame->sent, frame->size - frame->sent};
                ssize_t n = send_once(conn->fd, &iov, 1, frame->fds, frame->n_fds);

                if (n <= 0)
                        return ds_error_trace(send_error(n));
                close_fds(frame->fds, frame->n_fds);
                conn->out_fds -= frame->n_fds;
                conn->unread_fds += frame->n_fds;
                frame->n_fds = 0;
                frame->sent += (size_t)n;
                conn->out_bytes -= (size_t)n;
                if (frame->sent < frame->size)
                        continue;
                conn->out_head = frame->next;
                if (!conn->out_head)
                        conn->out_tail = &conn->out_head;
                out_frame_free(frame);
        }
        assert(conn->out_bytes == 0);
        assert(conn->out_fds == 0);
        return 0;
}

/* --- transfer of a connection to another process ------------------------------------------------------------------ */

int ds_conn_show(const ds_conn *conn, const struct ds_conn_keep *keep)
{
        size_t have = conn->in_end - conn->in_start;
        int r = have ? keep->received(keep->user, conn->in + conn->in_start, have) : 0;

        for (size_t i = 0; r >= 0 && i < conn->n_in_fds; i++)
                r = keep->received_fd(keep->user, conn->in_fds[i]);
        for (const struct out_frame *frame = conn->out_head; r >= 0 && frame; frame = frame->next) {
                r = keep->queued(keep->user, frame->data, frame->size, frame->sent);
                for (size_t i = 0; r >= 0 && i < frame->n_fds; i++)
                        r = keep->queued_fd(keep->user, frame->fds[i]);
        }
        return r < 0 ? ds_error_trace(r) : 0;
}

void ds_conn_set_elsewhere(ds_conn *conn, int elsewhere)
{
        conn->elsewhere = elsewhere;
}

int ds_conn_put_received(ds_conn *conn, const uint8_t *bytes, size_t size)
{
        if (conn->in_end || size == 0 || size > HEADER_BYTES + conn->frame_max)
                return DS_CONN_E_PROTOCOL;
        conn->in = ds_alloc(DS_MAX(size, (size_t)IN_SMALL));
        if (!conn->in)
                return ds_error_origin(-ENOMEM);
        memcpy(conn->in, bytes, size);
        conn->in_cap = DS_MAX(size, (size_t)IN_SMALL);
        conn->in_end = size;
        return frame_need(conn) ? 0 : DS_CONN_E_PROTOCOL;
}

int ds_conn_put_received_fd(ds_conn *conn, int *fd)
{
        if (conn->n_in_fds == DS_CONN_FDS_MAX)
                return DS_CONN_E_PROTOCOL;
        conn->in_fds[conn->n_in_fds++] = DS_TAKE_FD(*fd);
        return 0;
}

int ds_conn_put_queued(ds_conn *conn, const uint8_t *frame, size_t size, size_t sent)
{
        if (size <= HEADER_BYTES || size - HEADER_BYTES != get_le32(frame) || size - HEADER_BYTES > conn->frame_max ||
                sent >= size || conn->out_bytes + size > conn->out_max)
                return DS_CONN_E_PROTOCOL;
        return ds_error_trace(enqueue(conn, frame, frame + HEADER_BYTES, size - HEADER_BYTES, sent, NULL, 0));
}

int ds_conn_put_queued_fd(ds_conn *conn, int *fd)
{
        struct out_frame *frame = conn->out_head;

        while (frame && frame->next)
                frame = frame->next;
        /* fds travel with a frame's first byte, so they cannot be added to a frame that is partly sent */
        if (!frame || frame->sent || frame->n_fds == DS_CONN_FDS_MAX)
                return DS_CONN_E_PROTOCOL;
        frame->fds[frame->n_fds++] = DS_TAKE_FD(*fd);
        conn->out_fds++;
        return 0;
}

int ds_conn_wants_write(const ds_conn *conn)
{
        return conn->out_head != NULL;
}

size_t ds_conn_queued(const ds_conn *conn)
{
        return conn->out_bytes;
}

size_t ds_conn_queued_fds(const ds_conn *conn)
{
        return conn->out_fds;
}

int ds_conn_is_unread(const ds_conn *conn)
{
        int unread;

        return conn->out_bytes || (ioctl(conn->fd, SIOCOUTQ, &unread) == 0 && unread > 0);
}

void ds_conn_set_window(ds_conn *conn, size_t bytes)
{
        int wanted = (int)(bytes / 2); /* half, because the kernel doubles this value */
        socklen_t size = sizeof(conn->window);

        if (setsockopt(conn->fd, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof(wanted)) < 0 ||
                getsockopt(conn->fd, SOL_SOCKET, SO_SNDBUF, &conn->window, &size) < 0)
                conn->window = 0;
}

int ds_conn_window_full(const ds_conn *conn)
{
        int unread;

        if (conn->out_bytes)
                return 1;
        return conn->window && ioctl(conn->fd, SIOCOUTQ, &unread) == 0 && unread > conn->window / 4;
}

size_t ds_conn_unread_fds(ds_conn *conn)
{
        int unread;

        if (conn->unread_fds && ioctl(conn->fd, SIOCOUTQ, &unread) == 0 && unread == 0)
                conn->unread_fds = 0;
        return conn->unread_fds;
}
