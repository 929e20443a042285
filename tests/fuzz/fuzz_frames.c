/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames and their contents: a peer writes anything, in any pieces, with files beside them
 *
 * The input is a series of pieces: one byte for the number of bytes and of files, then the bytes. The reader works like
 * the supervisor with a client: frames, requests within a budget, files as announced. Every request is packed and
 * unpacked again, with the same result.
 */
#include <fcntl.h>
#include <sys/socket.h>

#include "detshare.pb-c.h"
#include "internal.pb-c.h"
#include "proto/wire.h"
#include "supervisor/message.h"
#include "supervisor/unpack.h"
#include "tests/fuzz/fuzz.h"
#include "util/frame.h"

#define PIECES_MAX 256

static void send_piece(int fd, const uint8_t *bytes, size_t size, unsigned n_fds)
{
        union {
                char bytes[CMSG_SPACE(DS_CONN_FDS_MAX * sizeof(int))];
                struct cmsghdr align;
        } control = {.bytes = {0}};
        struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
        struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
        int fds[DS_CONN_FDS_MAX];

        for (unsigned i = 0; i < n_fds; i++)
                /* standard error stands for any file, because the peer's own socket would keep itself open */
                fds[i] = STDERR_FILENO;
        if (n_fds) {
                message.msg_control = control.bytes;
                message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
                struct cmsghdr *c = CMSG_FIRSTHDR(&message);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
                memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
        }
        (void)!sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Packs the message, unpacks the bytes and packs again: the bytes are the same. */
static void pack_again(const ProtobufCMessage *message)
{
        ds_cleanup(ds_unpack_freep) ProtobufCMessage *again = NULL;
        const uint8_t *bytes;
        uint8_t *copy;
        size_t size, size_again;

        if (ds_message_pack(message, 4 * DS_FRAME_MAX, &bytes, &size))
                return; /* Overlong numbers shrink a message when packed; unknown fields do not. */
        copy = fuzz_copy(bytes, size);
        FUZZ_CHECK(ds_unpack(message->descriptor, copy, size, 4 * DS_UNPACK_BUDGET, &again) == 0);
        FUZZ_CHECK(ds_message_pack(again, 4 * DS_FRAME_MAX, &bytes, &size_again) == 0);
        FUZZ_CHECK(size_again == size && memcmp(bytes, copy, size) == 0);
        free(copy);
}

static void take_frame(ds_conn *conn, const uint8_t *payload, size_t size)
{
        static const ProtobufCMessageDescriptor *const others[] = {&detshare__reply__descriptor,
                &detshare__internal__from_worker__descriptor, &detshare__internal__from_helper__descriptor};
        ds_cleanup(ds_unpack_freep) ProtobufCMessage *request = NULL;
        int fds[DS_FRAME_FDS_MAX] = {-1, -1, -1, -1};
        uint32_t n;

        FUZZ_CHECK(size >= 1 && size <= DS_FRAME_MAX);
        for (size_t i = 0; i < DS_ARRAY_SIZE(others); i++) {
                ds_cleanup(ds_unpack_freep) ProtobufCMessage *message = NULL;

                if (ds_unpack(others[i], payload, size, DS_UNPACK_BUDGET, &message) == 0)
                        pack_again(message);
        }
        if (ds_unpack(&detshare__request__descriptor, payload, size, DS_UNPACK_BUDGET, &request))
                return;
        pack_again(request);
        n = ((Detshare__Request *)request)->fds;
        if (n <= DS_FRAME_FDS_MAX && ds_conn_take_fds(conn, fds, n) == 0)
                for (uint32_t i = 0; i < n; i++)
                        FUZZ_CHECK(fcntl(fds[i], F_GETFD) == FD_CLOEXEC);
        for (size_t i = 0; i < DS_FRAME_FDS_MAX; i++)
                ds_close(fds[i]);
}

/* Reads frames as the supervisor does. Returns 0 while the connection is valid. */
static int read_frames(ds_conn *conn)
{
        const uint8_t *payload;
        size_t size;
        int r = ds_conn_read(conn), n;

        while ((n = ds_conn_next(conn, &payload, &size)) == 1)
                take_frame(conn, payload, size);
        FUZZ_CHECK(ds_conn_n_fds(conn) <= DS_CONN_FDS_MAX);
        return r || n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input in = {data, size};
        ds_conn *conn;
        int pair[2], over = 0;

        fuzz_quiet();
        FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
        FUZZ_CHECK(ds_conn_new(pair[0], DS_FRAME_MAX, (size_t)1 << 20, &conn) == 0);
        for (int i = 0; i < PIECES_MAX && in.size && !over; i++) {
                uint8_t how = fuzz_u8(&in);
                const uint8_t *bytes;
                size_t n;

                bytes = fuzz_span(&in, (how & 0x80) ? fuzz_bytes(&in, 2) : how & 0x0f, &n);
                if (n)
                        send_piece(pair[1], bytes, n, how >> 4 & 7);
                over = read_frames(conn);
        }
        close(pair[1]);
        while (!over)
                over = read_frames(conn);
        ds_conn_free(conn);
        fuzz_expect_files();
        return 0;
}
