/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/helper_link.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "supervisor/message.h"
#include "supervisor/process.h"
#include "supervisor/supervisor.h"
#include "supervisor/unpack.h"
#include "supervisor/worker_link.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define OUT_MAX (1u << 20)
#define JOB_MAX_MS 30000u
#define BACKOFF_FIRST_MS 50u
#define BACKOFF_MAX_MS 5000u
#define SETTLED_NS DS_NS_PER_S
#define STATUS_UNKNOWN 999 /* CUDA_ERROR_UNKNOWN */
#define ATTRIBUTE_CC_MAJOR 75
#define ATTRIBUTE_CC_MINOR 76

TAILQ_HEAD(job_list, ds_helper_job);

struct ds_helper {
        struct ds_supervisor *supervisor;
        ds_process *process;
        int usable; /* process is there and not lost */
        int stopping;
        struct job_list jobs;
        struct ds_helper_job *current; /* sent; NULL also when it was cancelled */
        int busy;                      /* an answer is due, to current or to nobody */
        uint64_t job_id, started_ns;
        uint32_t backoff_ms;
        struct ds_deadline job_deadline, start_deadline;
};

static void send_next(ds_helper *helper);
static void start_again(struct ds_deadline *deadline);

int ds_helper_new(struct ds_supervisor *supervisor, ds_helper **ret)
{
        ds_helper *helper = ds_alloc0(1, sizeof(*helper));

        if (!helper)
                return ds_error_origin(-ENOMEM);
        helper->supervisor = supervisor;
        TAILQ_INIT(&helper->jobs);
        *ret = helper;
        return 0;
}

static void disarm(ds_helper *helper)
{
        ds_deadline_disarm(&helper->supervisor->deadlines, &helper->job_deadline);
        ds_deadline_disarm(&helper->supervisor->deadlines, &helper->start_deadline);
}

ds_helper *ds_helper_free(ds_helper *helper)
{
        if (!helper)
                return NULL;
        assert(!helper->process);
        assert(TAILQ_EMPTY(&helper->jobs));
        assert(!helper->current);
        disarm(helper);
        return ds_free(helper);
}

/* --- jobs --------------------------------------------------------------------------------------------------------- */

static void finish(ds_helper *helper, struct ds_helper_job *job, struct ds_helper_result *result)
{
        if (helper->current == job)
                helper->current = NULL;
        job->queued = 0;
        job->fd = ds_close(job->fd);
        job->done(job, result);
}

static void fail_current(ds_helper *helper, const char *why)
{
        struct ds_helper_result result = {.status = STATUS_UNKNOWN, .message = why, .fd = -1};

        helper->busy = 0;
        ds_deadline_disarm(&helper->supervisor->deadlines, &helper->job_deadline);
        if (helper->current)
                finish(helper, helper->current, &result);
}

void ds_helper_check(ds_helper *helper, struct ds_helper_job *job, int fd, uint64_t bytes,
        void (*done)(struct ds_helper_job *job, struct ds_helper_result *result))
{
        assert(!job->queued);
        job->fd = fd;
        job->bytes = bytes;
        job->done = done;
        job->queued = 1;
        TAILQ_INSERT_TAIL(&helper->jobs, job, link);
        send_next(helper);
}

void ds_helper_cancel(ds_helper *helper, struct ds_helper_job *job)
{
        if (!job->queued)
                return;
        if (helper->current == job)
                helper->current = NULL;
        else
                TAILQ_REMOVE(&helper->jobs, job, link);
        job->queued = 0;
        job->fd = ds_close(job->fd);
}

static uint32_t compute_capability(const struct ds_worker_info *info)
{
        if (info->n_attributes <= ATTRIBUTE_CC_MINOR)
                return 0;
        return (uint32_t)(info->attributes[ATTRIBUTE_CC_MAJOR] * 10 + info->attributes[ATTRIBUTE_CC_MINOR]);
}

static void job_deadline(struct ds_deadline *deadline)
{
        ds_helper *helper = DS_CONTAINER_OF(deadline, ds_helper, job_deadline);

        /* killed first, so that no other image is sent to it */
        ds_process_kill(helper->process, "an image keeps it busy for too long");
        fail_current(helper, "reading the image took too long");
}

static void send_next(ds_helper *helper)
{
        Detshare__Internal__ToHelper message = DETSHARE__INTERNAL__TO_HELPER__INIT;
        Detshare__Internal__CheckImage check = DETSHARE__INTERNAL__CHECK_IMAGE__INIT;
        const struct ds_worker_info *info = ds_worker_info(helper->supervisor->worker);
        struct ds_helper_job *job = TAILQ_FIRST(&helper->jobs);
        const uint8_t *bytes;
        size_t size;

        if (!job || helper->busy || !helper->usable)
                return;
        check.bytes = job->bytes;
        check.cc = compute_capability(info);
        check.simulated = info->simulated;
        message.id = ++helper->job_id;
        message.fds = 1;
        message.body_case = DETSHARE__INTERNAL__TO_HELPER__BODY_CHECK;
        message.check = &check;
        if (ds_error_fold(ds_message_pack(&message.base, DS_PROCESS_FRAME_MAX, &bytes, &size)))
                return;
        /* a helper that cannot take it is on its way out; the job waits for the next */
        if (ds_process_send(helper->process, bytes, size, &job->fd, 1))
                return;
        TAILQ_REMOVE(&helper->jobs, job, link);
        helper->current = job;
        helper->busy = 1;
        ds_deadline_arm(&helper->supervisor->deadlines, &helper->job_deadline, JOB_MAX_MS, job_deadline);
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* Nothing that the helper can still change, and as large as it says. */
static int check_image_fd(int fd, uint64_t bytes)
{
        int seals = fcntl(fd, F_GET_SEALS), want = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
        struct stat st;

        if (seals < 0 || (seals & want) != want)
                return 0;
        return fstat(fd, &st) == 0 && bytes > 0 && (uint64_t)st.st_size == bytes && bytes <= DS_IMAGE_BYTES_MAX;
}

static int on_frame(void *user, const uint8_t *payload, size_t size)
{
        ds_cleanup(ds_unpack_freep) ProtobufCMessage *unpacked = NULL;
        const Detshare__Internal__FromHelper *message;
        struct ds_helper_result result;
        ds_helper *helper = user;
        ds_cleanup(ds_closep) int fd = -1;
        int r;

        r = ds_unpack(&detshare__internal__from_helper__descriptor, payload, size, DS_UNPACK_BUDGET, &unpacked);
        if (r)
                return ds_error_fold(r);
        message = (const Detshare__Internal__FromHelper *)unpacked;
        if (!helper->busy || message->id != helper->job_id || message->fds != (message->status == 0))
                return ds_error_origin(-EPROTO);
        if (message->fds && ds_process_take_fds(helper->process, &fd, 1))
                return ds_error_origin(-EPROTO);
        if (message->fds && !check_image_fd(fd, message->bytes))
                return ds_error_origin(-EPROTO);
        result = (struct ds_helper_result){
                .status = message->status,
                .message = message->message,
                .fd = DS_TAKE_FD(fd),
                .bytes = message->bytes,
                .hash = message->hash,
        };
        helper->busy = 0;
        ds_deadline_disarm(&helper->supervisor->deadlines, &helper->job_deadline);
        if (helper->current)
                finish(helper, helper->current, &result);
        ds_close(result.fd);
        send_next(helper);
        return 0;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void on_lost(void *user)
{
        ds_helper *helper = user;

        helper->usable = 0;
        fail_current(helper, "the process that reads images died of this one");
}

static void on_ended(void *user, const char *how, int killed)
{
        ds_helper *helper = user;

        helper->process = ds_process_free(helper->process);
        if (helper->stopping) {
                ds_supervisor_check_stop(helper->supervisor);
                return;
        }
        if (uv_hrtime() - helper->started_ns >= SETTLED_NS)
                helper->backoff_ms = 0;
        helper->backoff_ms = helper->backoff_ms ? DS_MIN(2 * helper->backoff_ms, BACKOFF_MAX_MS) : BACKOFF_FIRST_MS;
        ds_log(DS_LOG_ERROR, "the helper %s; another is started", how);
        ds_deadline_arm(&helper->supervisor->deadlines, &helper->start_deadline, helper->backoff_ms, start_again);
}

static const struct ds_process_ops process_ops = {.frame = on_frame, .lost = on_lost, .ended = on_ended};

int ds_helper_start(ds_helper *helper)
{
        const char *argv[] = {helper->supervisor->options->helper_path, NULL};
        int r;

        assert(!helper->process);
        r = ds_process_spawn(&helper->supervisor->loop, argv, OUT_MAX, &process_ops, helper, &helper->process);
        if (r)
                return ds_error_trace(r);
        helper->usable = 1;
        helper->started_ns = uv_hrtime();
        send_next(helper);
        return 0;
}

static void start_again(struct ds_deadline *deadline)
{
        ds_helper *helper = DS_CONTAINER_OF(deadline, ds_helper, start_deadline);

        if (!helper->stopping && ds_helper_start(helper))
                ds_deadline_arm(&helper->supervisor->deadlines, &helper->start_deadline, BACKOFF_MAX_MS, start_again);
}

pid_t ds_helper_pid(const ds_helper *helper)
{
        return helper->process ? ds_process_pid(helper->process) : 0;
}

void ds_helper_stop(ds_helper *helper)
{
        helper->stopping = 1;
        disarm(helper);
        if (helper->process)
                ds_process_shutdown(helper->process);
}

void ds_helper_kill(ds_helper *helper)
{
        if (helper->process)
                ds_process_kill(helper->process, NULL);
}
