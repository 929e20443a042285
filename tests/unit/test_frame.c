/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Framed connections: frames arrive whole however the bytes are split, and descriptors stay with their frame. A peer
 * that lies about lengths, floods descriptors or does not read reaches a limit.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/frame.h"
#include "util/macro.h"

#define FRAME_MAX 65536

static size_t count_fds(void)
{
        DIR *dir = opendir("/proc/self/fd");
        size_t n = 0;

        while (readdir(dir))
                n++;
        closedir(dir);
        return n;
}

/* Makes a connection; *ret_raw: the raw socket at its other end. */
static ds_conn *pair(int *ret_raw, size_t out_max)
{
        ds_conn *conn = NULL;
        int fds[2];

        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        cr_assert_eq(ds_conn_new(fds[0], FRAME_MAX, out_max, &conn), 0);
        *ret_raw = fds[1];
        return conn;
}

static void put(int fd, const void *bytes, size_t n)
{
        cr_assert_eq(write(fd, bytes, n), (ssize_t)n);
}

static void put_frame(int fd, const void *payload, uint32_t size)
{
        uint8_t *bytes = malloc(4 + (size_t)size);

        memcpy(bytes, (uint8_t[]){size & 255, size >> 8 & 255, size >> 16 & 255, size >> 24}, 4);
        memcpy(bytes + 4, payload, size);
        put(fd, bytes, 4 + (size_t)size);
        free(bytes);
}

static int put_fds(int sock, const void *bytes, size_t n, const int *fds, size_t n_fds)
{
        char control[CMSG_SPACE(sizeof(int) * 64)] = {0};
        struct iovec iov = {(void *)bytes, n};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control};
        struct cmsghdr *c;

        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
        return sendmsg(sock, &msg, 0) == (ssize_t)n ? 0 : -1;
}

Test(frame, byte_by_byte)
{
        const char *text = "hello";
        const uint8_t *payload;
        size_t size;
        int raw;
        ds_conn *conn = pair(&raw, 1 << 20);
        uint8_t bytes[9] = {5, 0, 0, 0, 'h', 'e', 'l', 'l', 'o'};

        for (size_t i = 0; i < sizeof(bytes); i++) {
                cr_assert_eq(ds_conn_next(conn, &payload, &size), 0);
                cr_assert_eq(ds_conn_partial(conn), i > 0);
                put(raw, bytes + i, 1);
                cr_assert_eq(ds_conn_read(conn), 0);
        }
        cr_assert_eq(ds_conn_partial(conn), 0);
        cr_assert_eq(ds_conn_next(conn, &payload, &size), 1);
        cr_assert_eq(size, 5);
        cr_assert_eq(memcmp(payload, text, 5), 0);
        cr_assert_eq(ds_conn_next(conn, &payload, &size), 0);
        cr_assert_eq(ds_conn_partial(conn), 0);
        ds_conn_free(conn);
        close(raw);
}

/* Sends frames of random sizes in random pieces, and compares them byte by byte. */
Test(frame, random_pieces)
{
        unsigned seed = 20260101;
        int raw;
        ds_conn *conn = pair(&raw, 1 << 20);
        uint8_t *sent = malloc(FRAME_MAX + 4);

        for (int round = 0; round < 300; round++) {
                uint32_t size = round % 10 == 0 ? FRAME_MAX : 1 + (uint32_t)rand_r(&seed) % 3000, at = 0;
                const uint8_t *payload = NULL;
                size_t got = 0;

                memcpy(sent, (uint8_t[]){size & 255, size >> 8 & 255, size >> 16 & 255, 0}, 4);
                for (uint32_t i = 0; i < size; i++)
                        sent[4 + i] = (uint8_t)rand_r(&seed);
                while (at < size + 4) {
                        uint32_t piece = 1 + (uint32_t)rand_r(&seed) % 5000, n = DS_MIN(size + 4 - at, piece);

                        put(raw, sent + at, n);
                        at += n;
                        cr_assert_eq(ds_conn_read(conn), 0, "seed 20260101 round %d", round);
                        int r = ds_conn_next(conn, &payload, &got);

                        cr_assert_eq(r, at == size + 4, "round %d: %d at %u of %u", round, r, at, size + 4);
                }
                cr_assert_eq(got, size);
                cr_assert_eq(memcmp(payload, sent + 4, size), 0);
        }
        free(sent);
        ds_conn_free(conn);
        close(raw);
}

Test(frame, many_in_one_read)
{
        int raw, n = 0;
        ds_conn *conn = pair(&raw, 1 << 20);
        const uint8_t *payload;
        size_t size;

        /* more small writes than 150 would not fit into the socket's buffer */
        for (int i = 0; i < 150; i++)
                put_frame(raw, "0123456789", 10);
        while (n < 150) {
                cr_assert_eq(ds_conn_read(conn), 0);
                while (ds_conn_next(conn, &payload, &size) == 1) {
                        cr_assert_eq(size, 10);
                        n++;
                }
        }
        ds_conn_free(conn);
        close(raw);
}

Test(frame, bad_lengths)
{
        uint32_t lengths[] = {0, FRAME_MAX + 1, UINT32_MAX};

        for (size_t i = 0; i < DS_ARRAY_SIZE(lengths); i++) {
                const uint8_t *payload;
                size_t size;
                int raw;
                ds_conn *conn = pair(&raw, 1 << 20);

                put(raw, &lengths[i], 4);
                cr_assert_eq(ds_conn_read(conn), 0);
                cr_assert_eq(ds_conn_next(conn, &payload, &size), -EPROTO);
                cr_assert_eq(ds_conn_read(conn), DS_CONN_E_PROTOCOL);
                ds_conn_free(conn);
                close(raw);
        }
}

Test(frame, closed_after_the_last_frame)
{
        const uint8_t *payload;
        size_t size;
        int raw;
        ds_conn *conn = pair(&raw, 1 << 20);

        put_frame(raw, "x", 1);
        close(raw);
        cr_assert_eq(ds_conn_read(conn), 0);
        cr_assert_eq(ds_conn_next(conn, &payload, &size), 1);
        cr_assert_eq(ds_conn_read(conn), DS_CONN_E_CLOSED);
        cr_assert_eq(ds_conn_send(conn, "y", 1, NULL, 0), DS_CONN_E_CLOSED);
        ds_conn_free(conn);
}

Test(frame, fds_come_in_order_and_are_not_inherited)
{
        size_t before = count_fds();
        const uint8_t *payload;
        int raw, got[2], fds[3];
        struct stat a, b;
        size_t size;
        ds_conn *conn = pair(&raw, 1 << 20);

        for (int i = 0; i < 3; i++)
                fds[i] = memfd_create("t", MFD_CLOEXEC);
        put_frame(raw, "a", 1);
        cr_assert_eq(put_fds(raw, "\1\0\0\0b", 5, fds, 1), 0);
        cr_assert_eq(put_fds(raw, "\1\0\0\0c", 5, fds + 1, 2), 0);
        for (int n = 0; n < 3;) {
                cr_assert_eq(ds_conn_read(conn), 0);
                while (ds_conn_next(conn, &payload, &size) == 1)
                        n++;
        }
        cr_assert_eq(ds_conn_n_fds(conn), 3);
        cr_assert_eq(ds_conn_take_fds(conn, got, 4), DS_CONN_E_PROTOCOL);
        cr_assert_eq(ds_conn_take_fds(conn, got, 2), 0);
        for (int i = 0; i < 2; i++) {
                fstat(fds[i], &a);
                fstat(got[i], &b);
                cr_assert_eq(a.st_ino, b.st_ino);
                cr_assert(fcntl(got[i], F_GETFD) & FD_CLOEXEC);
                close(got[i]);
        }
        ds_conn_free(conn); /* freeing the connection closes the descriptor that nobody took */
        for (int i = 0; i < 3; i++)
                close(fds[i]);
        close(raw);
        cr_assert_eq(count_fds(), before);
}

Test(frame, too_many_fds_are_closed)
{
        size_t before = count_fds();
        int raw, fds[40];
        ds_conn *conn = pair(&raw, 1 << 20);

        for (int i = 0; i < 40; i++)
                fds[i] = raw;
        cr_assert_eq(put_fds(raw, "\1\0\0\0b", 5, fds, 40), 0);
        cr_assert_eq(ds_conn_read(conn), DS_CONN_E_PROTOCOL);
        ds_conn_free(conn);
        conn = pair(&fds[0], 1 << 20);
        /* a frame may carry sixteen descriptors; the seventeenth is refused */
        cr_assert_eq(
                put_fds(fds[0], "\3", 1,
                        (int[16]){raw, raw, raw, raw, raw, raw, raw, raw, raw, raw, raw, raw, raw, raw, raw, raw}, 16),
                0);
        cr_assert_eq(ds_conn_read(conn), 0);
        cr_assert_eq(put_fds(fds[0], "\0", 1, &raw, 1), 0);
        cr_assert_eq(ds_conn_read(conn), DS_CONN_E_PROTOCOL);
        ds_conn_free(conn);
        close(fds[0]);
        close(raw);
        cr_assert_eq(count_fds(), before);
}

/* The peer does not read: frames queue up to out_max bytes, then the sender gets an error. The queue holds
 * duplicates of the sender's descriptors. */
Test(frame, slow_reader)
{
        size_t before = count_fds(), sent = 0, got = 0, fds = 0;
        static uint8_t payload[50000];
        ds_conn *conn, *peer = NULL;
        int raw, r, fd = memfd_create("t", MFD_CLOEXEC);
        const uint8_t *in;
        size_t size;

        conn = pair(&raw, 1 << 20);
        cr_assert_eq(ds_conn_new(raw, FRAME_MAX, 1 << 20, &peer), 0);
        while ((r = ds_conn_send(conn, payload, sizeof(payload), &fd, 1)) == 0) {
                payload[0]++;
                sent++;
        }
        cr_assert_eq(r, DS_CONN_E_FULL);
        cr_assert(sent >= 20 && sent < 60);
        cr_assert(ds_conn_wants_write(conn));
        cr_assert(ds_conn_queued(conn) > (1 << 20) - sizeof(payload) - 4);
        cr_assert_eq(ds_conn_queued_fds(conn), (ds_conn_queued(conn) - 1) / (sizeof(payload) + 4));
        close(fd);
        while (got < sent) {
                cr_assert_eq(ds_conn_read(peer), 0);
                while (ds_conn_next(peer, &in, &size) == 1) {
                        int one;

                        cr_assert_eq(size, sizeof(payload));
                        cr_assert_eq(in[0], got);
                        cr_assert_eq(ds_conn_take_fds(peer, &one, 1), 0);
                        close(one);
                        got++;
                        fds++;
                }
                cr_assert_eq(ds_conn_flush(conn), 0);
        }
        cr_assert_eq(fds, sent);
        cr_assert_not(ds_conn_wants_write(conn));
        cr_assert_eq(ds_conn_queued(conn) + ds_conn_queued_fds(conn), 0);
        ds_conn_free(conn);
        ds_conn_free(peer);
        cr_assert_eq(count_fds(), before);
}
