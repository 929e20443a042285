/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-helper: reads what nobody trusts, so that nobody else has to
 *
 * Started by detshared with its end of a socketpair as fd 3, with no privilege and no other descriptor. One image at a
 * time: a request brings a client's file, the answer takes back a sealed one or the compiler's words. Whatever an image
 * does to this process, detshared starts another. Exit status: 0 when the supervisor is gone, 1 after a broken frame, 2
 * for wrong usage.
 */
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "helper/check.h"
#include "internal.pb-c.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/frame.h"
#include "util/log.h"
#include "util/macro.h"

#define HELPER_FD 3
#define HELPER_FRAME_MAX ((size_t)256 << 10)
#define HELPER_MEMORY_MAX DS_GIB(4) /* an image may ask for much; not for all of the machine */

#define HELPER_FILES_MAX 64
#define HELPER_USER 65534u /* nobody */

/*
 * From here on this process can read what it is handed and write memory files. Changing the user takes the parent's
 * death signal back, so it is asked for last.
 */
static int helper_drop_privileges(void)
{
        const struct rlimit memory = {HELPER_MEMORY_MAX, HELPER_MEMORY_MAX}, core = {0, 0};
        const struct rlimit files = {HELPER_FILES_MAX, HELPER_FILES_MAX};

        if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(HELPER_USER, HELPER_USER, HELPER_USER) < 0 ||
                                      setresuid(HELPER_USER, HELPER_USER, HELPER_USER) < 0))
                return ds_error_origin(-errno);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return ds_error_origin(-errno);
        if (setrlimit(RLIMIT_CORE, &core) < 0 || setrlimit(RLIMIT_NOFILE, &files) < 0)
                return ds_error_origin(-errno);
#ifndef __SANITIZE_ADDRESS__ /* a sanitizer reserves terabytes of addresses */
        if (setrlimit(RLIMIT_AS, &memory) < 0)
                return ds_error_origin(-errno);
#else
        (void)memory;
#endif
        return 0;
}

/* 0, or a negative errno when the supervisor is gone. */
static int helper_answer(ds_conn *conn, uint64_t id, const struct ds_check_result *result)
{
        Detshare__Internal__FromHelper answer = DETSHARE__INTERNAL__FROM_HELPER__INIT;
        ds_cleanup(ds_freep) uint8_t *payload = NULL;
        size_t size;

        answer.id = id;
        answer.status = result->status;
        answer.message = (char *)result->message;
        answer.fds = result->fd >= 0;
        answer.bytes = result->bytes;
        answer.hash = result->hash;
        size = detshare__internal__from_helper__get_packed_size(&answer);
        payload = ds_alloc(size);
        if (!payload)
                return ds_error_origin(-ENOMEM);
        detshare__internal__from_helper__pack(&answer, payload);
        return ds_conn_send(conn, payload, size, &result->fd, result->fd >= 0) ? -EPIPE : 0;
}

static int helper_request(ds_conn *conn, const uint8_t *payload, size_t size, struct ds_check_result *result)
{
        Detshare__Internal__ToHelper *request = detshare__internal__to_helper__unpack(NULL, size, payload);
        int fd = -1, r = -EPROTO;

        if (request && request->body_case == DETSHARE__INTERNAL__TO_HELPER__BODY_CHECK && request->fds == 1 &&
                ds_conn_take_fds(conn, &fd, 1) == 0) {
                ds_check_image(fd, request->check->bytes, request->check->cc, request->check->simulated, result);
                r = helper_answer(conn, request->id, result);
                result->fd = ds_close(result->fd);
        }
        ds_close(fd);
        detshare__internal__to_helper__free_unpacked(request, NULL);
        return r;
}

/* Until the supervisor closes its end. */
static int helper_serve(ds_conn *conn, struct ds_check_result *result)
{
        for (;;) {
                struct pollfd p = {.fd = HELPER_FD, .events = POLLIN};
                const uint8_t *payload;
                size_t size;
                int r;

                if (ds_conn_wants_write(conn))
                        p.events |= POLLOUT;
                if (poll(&p, 1, -1) < 0 && errno != EINTR)
                        return ds_error_origin(-errno);
                if (ds_conn_flush(conn) != 0)
                        return 0;
                r = ds_conn_read(conn);
                if (r == DS_CONN_E_CLOSED)
                        return 0;
                if (r)
                        return ds_error_fold(r);
                while ((r = ds_conn_next(conn, &payload, &size)) > 0) {
                        r = helper_request(conn, payload, size, result);
                        if (r == -EPIPE)
                                return 0;
                        if (r < 0)
                                return ds_error_trace(r);
                }
                if (r < 0)
                        return ds_error_trace(r);
        }
}

int main(int argc, char **argv)
{
        ds_cleanup(ds_conn_freep) ds_conn *conn = NULL;
        static struct ds_check_result result;

        if (argc > 1) {
                fprintf(stderr, "%s: started by detshared, takes no arguments\n", argv[0]);
                return 2;
        }
        ds_log_setup("detshare-helper", DS_LOG_INFO);
        signal(SIGPIPE, SIG_IGN);
        signal(SIGINT, SIG_IGN); /* the terminal's: the supervisor decides */
        if (helper_drop_privileges() < 0)
                return 1;
        if (ds_conn_new(HELPER_FD, HELPER_FRAME_MAX, HELPER_FRAME_MAX * 2, &conn) < 0)
                return 1;
        return helper_serve(conn, &result) < 0 ? 1 : 0;
}
