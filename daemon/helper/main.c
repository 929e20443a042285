/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-helper: reads untrusted images, so that no other process of the daemon has to
 *
 * Started by detshared with one end of a socketpair as fd 3, without privilege and other descriptors. A request carries
 * a client's file; the answer carries a sealed file or the compiler's messages. Images are read in this process; the
 * compiler for a real GPU is a child. If an image kills or stalls this process, detshared starts another.
 *
 * All images sent to it belong to one user, and so do its caches: an image that takes control of it affects no other
 * user (helper/fence.h, supervisor/helper_link.h).
 *
 * Arguments: --again, if an earlier helper has logged which compiler is used; then the configured path of ptxas, or
 * --simulated if no PTX will be compiled. Exit status: 0 when the supervisor is gone, 1 after an invalid frame, 2 for
 * wrong usage.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "helper/fence.h"
#include "helper/jobs.h"
#include "internal.pb-c.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/frame.h"
#include "util/log.h"
#include "util/macro.h"

#define HELPER_FD 3
#define HELPER_FRAME_MAX ((size_t)256 << 10)

static const Detshare__Internal__ImageOrigin origins[_DS_CHECK_ORIGIN_MAX] = {
        [DS_CHECK_READ] = DETSHARE__INTERNAL__IMAGE_ORIGIN__READ,
        [DS_CHECK_KNOWN] = DETSHARE__INTERNAL__IMAGE_ORIGIN__KNOWN,
        [DS_CHECK_REMEMBERED] = DETSHARE__INTERNAL__IMAGE_ORIGIN__REMEMBERED,
        [DS_CHECK_STORED] = DETSHARE__INTERNAL__IMAGE_ORIGIN__STORED,
        [DS_CHECK_COMPILED] = DETSHARE__INTERNAL__IMAGE_ORIGIN__COMPILED,
};

/* Sends an answer. Returns 0, or a negative errno if the supervisor is gone. */
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
        answer.report_bytes = result->report_bytes;
        answer.hash = result->hash;
        answer.variable_bytes = result->variable_bytes;
        answer.origin = origins[result->origin];
        answer.damaged = result->damaged;
        answer.no_ptx = result->no_ptx;
        if (result->origin == DS_CHECK_STORED || result->origin == DS_CHECK_COMPILED) {
                answer.key.data = (uint8_t *)(uintptr_t)result->key;
                answer.key.len = sizeof(result->key);
        }
        size = detshare__internal__from_helper__get_packed_size(&answer);
        payload = ds_alloc(size);
        if (!payload)
                return ds_error_origin(-ENOMEM);
        detshare__internal__from_helper__pack(&answer, payload);
        return ds_conn_send(conn, payload, size, &result->fd, result->fd >= 0) ? -EPIPE : 0;
}

static int helper_on_answer(void *user, uint64_t id, const struct ds_check_result *result)
{
        return helper_answer(user, id, result);
}

static const struct ds_jobs_ops jobs_ops = {.answer = helper_on_answer};

/* Whether CUDA_FORCE_PTX_JIT is set: as with NVIDIA's driver, PTX is then compiled even if there is machine code. */
static int helper_force_ptx(void)
{
        const char *value = getenv("CUDA_FORCE_PTX_JIT");

        return value && !strcmp(value, "1");
}

static const enum ds_jobs_forms forms[] = {
        [DETSHARE__INTERNAL__IMAGE_FORMS__NATIVE] = DS_JOBS_NATIVE,
        [DETSHARE__INTERNAL__IMAGE_FORMS__FORMS_STORED] = DS_JOBS_STORED,
        [DETSHARE__INTERNAL__IMAGE_FORMS__FORMS_MADE] = DS_JOBS_MADE,
        [DETSHARE__INTERNAL__IMAGE_FORMS__FORMS_ONLY] = DS_JOBS_ONLY,
};

static const enum ds_jobs_link links[] = {
        [DETSHARE__INTERNAL__IMAGE_LINK__NO_LINK] = DS_JOBS_NO_LINK,
        [DETSHARE__INTERNAL__IMAGE_LINK__CHECK] = DS_JOBS_CHECK,
        [DETSHARE__INTERNAL__IMAGE_LINK__LINK] = DS_JOBS_LINK,
};

static int helper_check(ds_conn *conn, ds_jobs *jobs, uint64_t id, const Detshare__Internal__CheckImage *check)
{
        struct ds_jobs_request request = {
                .id = id,
                .offset = check->offset,
                .bytes = check->bytes,
                .uid = check->uid,
                .max_registers = check->max_registers,
                .optimization = check->optimization,
                .cc = check->cc,
                .simulated = check->simulated,
                .force_ptx = helper_force_ptx(),
                .forms = forms[check->forms < DS_ARRAY_SIZE(forms) ? check->forms : 0],
                .link = links[check->link < DS_ARRAY_SIZE(links) ? check->link : 0],
        };
        int fd, r;

        if (ds_conn_take_fds(conn, &fd, 1) != 0)
                return -EPROTO;
        r = ds_jobs_take(jobs, &request, fd);
        ds_close(fd);
        return r;
}

static int helper_directory(ds_conn *conn, ds_jobs *jobs, const Detshare__Internal__CodeDirectory *directory)
{
        int fd;

        if (ds_conn_take_fds(conn, &fd, 1) != 0)
                return -EPROTO;
        ds_jobs_set_directory(jobs, fd, directory->owner);
        return 0;
}

static int helper_request(ds_conn *conn, ds_jobs *jobs, const uint8_t *payload, size_t size)
{
        Detshare__Internal__ToHelper *request = detshare__internal__to_helper__unpack(NULL, size, payload);
        int r = -EPROTO;

        if (request && request->body_case == DETSHARE__INTERNAL__TO_HELPER__BODY_CHECK && request->fds == 1)
                r = helper_check(conn, jobs, request->id, request->check);
        else if (request && request->body_case == DETSHARE__INTERNAL__TO_HELPER__BODY_CANCEL && request->fds == 0)
                r = ds_jobs_cancel(jobs, request->cancel->image);
        else if (request && request->body_case == DETSHARE__INTERNAL__TO_HELPER__BODY_DIRECTORY && request->fds == 1)
                r = helper_directory(conn, jobs, request->directory);
        detshare__internal__to_helper__free_unpacked(request, NULL);
        return r;
}

/* Handles the received requests while a compiler can be started; the others stay unread. */
static int helper_requests(ds_conn *conn, ds_jobs *jobs)
{
        const uint8_t *payload;
        size_t size;
        int r = 0;

        while (!ds_jobs_full(jobs) && (r = ds_conn_next(conn, &payload, &size)) > 0) {
                r = helper_request(conn, jobs, payload, size);
                if (r < 0)
                        return r;
        }
        return r;
}

/* Handles events once. Returns 0; DS_CONN_E_CLOSED or -EPIPE: the supervisor is gone; other values are fatal errors. */
static int helper_turn(ds_conn *conn, ds_jobs *jobs)
{
        struct pollfd p[1 + DS_JOBS_POLLFDS] = {{.fd = HELPER_FD, .events = POLLIN}};
        int timeout, r;
        size_t n;

        if (ds_conn_wants_write(conn))
                p[0].events |= POLLOUT;
        if (ds_jobs_full(jobs))
                p[0].events &= (short)~POLLIN;
        n = ds_jobs_poll(jobs, p + 1, &timeout);
        if (poll(p, 1 + n, timeout) < 0 && errno != EINTR)
                return ds_error_origin(-errno);
        if (ds_conn_flush(conn) != 0)
                return -EPIPE;
        r = ds_jobs_step(jobs);
        if (!r && p[0].revents & ~POLLOUT)
                r = ds_conn_read(conn);
        if (!r)
                r = helper_requests(conn, jobs);
        return r;
}

/* Runs until the supervisor closes its end. */
static int helper_serve(const struct ds_ptxas *ptxas, ds_conn *conn)
{
        ds_cleanup(ds_jobs_freep) ds_jobs *jobs = NULL;
        int r;

        r = ds_jobs_new(ptxas, &jobs_ops, conn, &jobs);
        while (!r)
                r = helper_turn(conn, jobs);
        return r == DS_CONN_E_CLOSED || r == -EPIPE ? 0 : ds_error_fold(r);
}

int main(int argc, char **argv)
{
        ds_cleanup(ds_conn_freep) ds_conn *conn = NULL;
        static struct ds_ptxas ptxas;
        const int again = argc > 1 && !strcmp(argv[1], "--again");
        const char *what = argc > 1 + again ? argv[1 + again] : NULL;
        const int simulated = what && !strcmp(what, "--simulated");

        if (argc > 2 + again) {
                fprintf(stderr, "%s: started by detshared, takes --again and the path of ptxas or --simulated\n",
                        argv[0]);
                return 2;
        }
        ds_log_setup("detshare-helper", DS_LOG_INFO);
        signal(SIGPIPE, SIG_IGN);
        /* the limit of file sizes also applies to memfds: exceeding it must cause an error instead of a signal */
        signal(SIGXFSZ, SIG_IGN);
        signal(SIGINT, SIG_IGN); /* a terminal sends SIGINT to all its processes; the supervisor decides what to do */
        if (ds_fence(!again))
                return 1;
        ds_ptxas_find(simulated ? NULL : what, &ptxas);
        if (!simulated && !again)
                ds_log(DS_LOG_INFO, "%s%s", ptxas.path[0] ? "PTX is compiled for the GPU by " : "",
                        ptxas.path[0] ? ptxas.path : ptxas.missing);
        if (ds_conn_new(HELPER_FD, HELPER_FRAME_MAX, HELPER_FRAME_MAX * 2, &conn) < 0)
                return 1;
        return helper_serve(&ptxas, conn) < 0 ? 1 : 0;
}
