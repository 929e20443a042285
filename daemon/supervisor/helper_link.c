/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/helper_link.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/code_store.h"
#include "supervisor/message.h"
#include "supervisor/process.h"
#include "supervisor/supervisor.h"
#include "supervisor/unpack.h"
#include "supervisor/worker_link.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define OUT_MAX (1u << 20)
#define AT_ONCE_MAX 8u      /* of those that a compiler works on; the helper takes more */
#define JOB_MAX_MS 40000u   /* longer than the helper gives a compiler */
#define FORMS_MAX_MS 90000u /* likewise, with forms of its kernels made, and those compiled */
#define PLACES (AT_ONCE_MAX + 1)
#define FORMS_MADE DETSHARE__INTERNAL__IMAGE_FORMS__FORMS_MADE
#define BACKOFF_FIRST_MS 50u
#define BACKOFF_MAX_MS 5000u
#define SETTLED_NS DS_NS_PER_S
#define STATUS_UNKNOWN 999 /* CUDA_ERROR_UNKNOWN */
#define ATTRIBUTE_CC_MAJOR 75
#define ATTRIBUTE_CC_MINOR 76

TAILQ_HEAD(job_list, ds_helper_job);

/* An image that the helper has. */
struct in_flight {
        ds_helper *helper;
        struct ds_helper_job *job; /* NULL: it was cancelled, its answer is for nobody */
        uint64_t id;               /* 0: the place is free */
        ds_user *user;             /* a reference: whose it was, also when it was cancelled */
        int background;
        uint64_t sent_ns;
        struct ds_deadline deadline;
};

struct ds_helper {
        struct ds_supervisor *supervisor;
        ds_process *process;
        int usable; /* process is there and not lost */
        int stopping;
        struct job_list jobs, background;
        struct in_flight in_flight[PLACES];
        unsigned n_in_flight, n_background; /* background ones apart; those */
        int alone;                          /* what is in flight is a suspect */
        int blamed;                         /* it is known which image the helper is dying of */
        uint64_t last_id, started_ns;
        struct ds_helper_figures figures;
        uint32_t backoff_ms;
        struct ds_deadline start_deadline;
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
        TAILQ_INIT(&helper->background);
        for (size_t i = 0; i < PLACES; i++)
                helper->in_flight[i].helper = helper;
        *ret = helper;
        return 0;
}

static void disarm(ds_helper *helper)
{
        for (size_t i = 0; i < PLACES; i++)
                ds_deadline_disarm(&helper->supervisor->deadlines, &helper->in_flight[i].deadline);
        ds_deadline_disarm(&helper->supervisor->deadlines, &helper->start_deadline);
}

ds_helper *ds_helper_free(ds_helper *helper)
{
        if (!helper)
                return NULL;
        assert(!helper->process);
        assert(TAILQ_EMPTY(&helper->jobs) && TAILQ_EMPTY(&helper->background));
        for (size_t i = 0; i < PLACES; i++)
                assert(!helper->in_flight[i].job);
        disarm(helper);
        return ds_free(helper);
}

/* --- jobs --------------------------------------------------------------------------------------------------------- */

/* It is the client's file: the last one to close it frees its pages. */
static void close_image(ds_helper *helper, struct ds_helper_job *job)
{
        ds_foreign_close(&helper->supervisor->foreign, job->user, &job->fd, 1);
        job->fd = -1;
}

static void finish(ds_helper *helper, struct ds_helper_job *job, struct ds_helper_result *result)
{
        job->queued = 0;
        close_image(helper, job);
        job->done(job, result);
}

/* The place is free again; returns who was in it, NULL for one that was cancelled. */
static struct ds_helper_job *land(struct in_flight *place)
{
        struct ds_helper_job *job = place->job;

        assert(place->id);
        ds_deadline_disarm(&place->helper->supervisor->deadlines, &place->deadline);
        place->id = 0;
        place->job = NULL;
        place->user = ds_user_unref(place->user);
        if (place->background)
                place->helper->n_background--;
        else if (!--place->helper->n_in_flight)
                place->helper->alone = 0;
        return job;
}

static void fail(ds_helper *helper, struct ds_helper_job *job, const char *why)
{
        struct ds_helper_result result = {.status = STATUS_UNKNOWN, .message = why, .fd = -1};

        if (job)
                finish(helper, job, &result);
}

/* What was sent last of all that is in flight; NULL: nothing is. */
static struct in_flight *last_place(ds_helper *helper)
{
        struct in_flight *last = NULL;

        for (size_t i = 0; i < PLACES; i++)
                if (helper->in_flight[i].id && (!last || helper->in_flight[i].id > last->id))
                        last = &helper->in_flight[i];
        return last;
}

/*
 * The helper died. Of one image: then it is to blame. Of one of several: each is tried again, alone, before any other,
 * in the order in which they were sent, so that only the one that kills fails. What nobody waits for is not tried
 * again. One that was told to stop died of none: who waits for it is told what all are told, or asks the next daemon.
 */
static void fail_in_flight(ds_helper *helper, const char *why)
{
        int one = helper->n_in_flight + helper->n_background == 1 && !helper->blamed && !helper->stopping;

        for (struct in_flight *place; (place = last_place(helper));) {
                struct ds_helper_job *job = land(place);

                if (!job)
                        continue;
                if (one || job->background) {
                        fail(helper, job, why);
                        continue;
                }
                job->suspect = 1;
                TAILQ_INSERT_HEAD(&helper->jobs, job, link);
        }
}

static struct in_flight *find_place(ds_helper *helper, uint64_t id)
{
        for (size_t i = 0; i < PLACES; i++)
                if (helper->in_flight[i].id == id)
                        return &helper->in_flight[i];
        return NULL;
}

static struct in_flight *find_job(ds_helper *helper, const struct ds_helper_job *job)
{
        for (size_t i = 0; i < PLACES; i++)
                if (helper->in_flight[i].job == job)
                        return &helper->in_flight[i];
        return NULL;
}

void ds_helper_check(ds_helper *helper, struct ds_helper_job *job, ds_user *user, int fd, uint64_t bytes,
        void (*done)(struct ds_helper_job *job, struct ds_helper_result *result))
{
        assert(!job->queued);
        job->user = user;
        job->fd = fd;
        job->bytes = bytes;
        job->done = done;
        job->queued = 1;
        job->suspect = 0;
        if (job->background)
                TAILQ_INSERT_TAIL(&helper->background, job, link);
        else
                TAILQ_INSERT_TAIL(&helper->jobs, job, link);
        send_next(helper);
}

/* A compiler at work for nobody is ended, so that whoever comes and goes does not keep it from others. */
static void send_cancel(ds_helper *helper, uint64_t id)
{
        Detshare__Internal__ToHelper message = DETSHARE__INTERNAL__TO_HELPER__INIT;
        Detshare__Internal__CancelImage cancel = DETSHARE__INTERNAL__CANCEL_IMAGE__INIT;
        const uint8_t *bytes;
        size_t size;

        cancel.image = id;
        message.body_case = DETSHARE__INTERNAL__TO_HELPER__BODY_CANCEL;
        message.cancel = &cancel;
        if (!ds_error_fold(ds_message_pack(&message.base, DS_PROCESS_FRAME_MAX, &bytes, &size)))
                (void)ds_process_send(helper->process, bytes, size, NULL, 0);
}

void ds_helper_cancel(ds_helper *helper, struct ds_helper_job *job)
{
        struct in_flight *place;

        if (!job->queued)
                return;
        place = find_job(helper, job);
        if (place)
                place->job = NULL;
        else if (job->background)
                TAILQ_REMOVE(&helper->background, job, link);
        else
                TAILQ_REMOVE(&helper->jobs, job, link);
        job->queued = 0;
        close_image(helper, job);
        /* for a simulated device nothing is compiled: the answer is on its way, but where forms are made */
        if (place && helper->usable && (job->forms || !ds_worker_info(helper->supervisor->worker)->simulated))
                send_cancel(helper, place->id);
}

static uint32_t compute_capability(const struct ds_worker_info *info)
{
        if (info->n_attributes <= ATTRIBUTE_CC_MINOR)
                return 0;
        return (uint32_t)(info->attributes[ATTRIBUTE_CC_MAJOR] * 10 + info->attributes[ATTRIBUTE_CC_MINOR]);
}

static void job_deadline(struct ds_deadline *deadline)
{
        struct in_flight *place = DS_CONTAINER_OF(deadline, struct in_flight, deadline);
        ds_helper *helper = place->helper;

        /* killed first, so that no other image is sent to it */
        ds_process_kill(helper->process, "an image keeps it busy for too long");
        helper->blamed = 1;
        fail(helper, land(place), "reading the image took too long");
}

/* Images of a simulated device take the helper's own time, so a second one would only wait there. */
static unsigned at_once(void)
{
        long cores = sysconf(_SC_NPROCESSORS_ONLN);

        return cores > 4 ? DS_MIN((unsigned)cores / 2, AT_ONCE_MAX) : 2;
}

static unsigned user_in_flight(const ds_helper *helper, const ds_user *user)
{
        unsigned n = 0;

        for (size_t i = 0; i < PLACES; i++)
                n += helper->in_flight[i].user == user && !helper->in_flight[i].background;
        return n;
}

/* Of the users that have not enough already, one that has the least, and of those the one that was served longest ago.
 */
static struct ds_helper_job *choose(const ds_helper *helper, unsigned limit)
{
        unsigned least = UINT_MAX, n = 0;
        struct ds_helper_job *best = NULL, *job;
        const ds_user *last = NULL;

        TAILQ_FOREACH(job, &helper->jobs, link)
        {
                if (job->user == last)
                        continue;
                last = job->user;
                n = user_in_flight(helper, last);
                if (limit > 1 && n >= limit - 1 && ds_user_uid(last) != 0)
                        continue;
                if (best && (n > least || (n == least && ds_user_turn(last, 0) >= ds_user_turn(best->user, 0))))
                        continue;
                best = job;
                least = n;
        }
        return best;
}

/* NULL: none now. Those of which one may have killed the helper come first, one by one. */
static struct ds_helper_job *next_job(const ds_helper *helper, const struct ds_worker_info *info)
{
        struct ds_helper_job *first = TAILQ_FIRST(&helper->jobs);
        unsigned limit = !first || info->simulated || first->suspect || helper->alone ? 1 : at_once();

        if (!first || !helper->usable || helper->n_in_flight >= limit)
                return NULL;
        return first->suspect ? first : choose(helper, limit);
}

/* One at a time, and only when nobody waits; users take turns. */
static struct ds_helper_job *next_background(const ds_helper *helper)
{
        struct ds_helper_job *best = TAILQ_FIRST(&helper->background), *job;

        if (!helper->usable || helper->n_background || helper->alone || !TAILQ_EMPTY(&helper->jobs))
                return NULL;
        TAILQ_FOREACH(job, &helper->background, link)
        {
                if (ds_user_turn(job->user, 1) < ds_user_turn(best->user, 1))
                        best = job;
        }
        return best;
}

static int send_job(ds_helper *helper, struct ds_helper_job *job, const struct ds_worker_info *info)
{
        Detshare__Internal__ToHelper message = DETSHARE__INTERNAL__TO_HELPER__INIT;
        Detshare__Internal__CheckImage check = DETSHARE__INTERNAL__CHECK_IMAGE__INIT;
        struct in_flight *place = find_place(helper, 0);
        const uint8_t *bytes;
        size_t size;

        assert(place);
        check.bytes = job->bytes;
        check.cc = compute_capability(info);
        check.simulated = info->simulated;
        check.offset = job->offset;
        check.uid = (uint32_t)ds_user_uid(job->user);
        check.max_registers = job->max_registers;
        check.optimization = job->optimization;
        check.forms = job->forms;
        message.id = ++helper->last_id;
        message.fds = 1;
        message.body_case = DETSHARE__INTERNAL__TO_HELPER__BODY_CHECK;
        message.check = &check;
        if (ds_error_fold(ds_message_pack(&message.base, DS_PROCESS_FRAME_MAX, &bytes, &size)))
                return -1;
        /* a helper that cannot take it is on its way out; the job waits for the next */
        if (ds_process_send(helper->process, bytes, size, &job->fd, 1))
                return -1;
        place->job = job;
        place->id = message.id;
        place->user = ds_user_ref(job->user);
        place->background = job->background;
        place->sent_ns = uv_hrtime();
        ds_user_served(job->user, job->background);
        if (job->background) {
                TAILQ_REMOVE(&helper->background, job, link);
                helper->n_background++;
        } else {
                TAILQ_REMOVE(&helper->jobs, job, link);
                helper->n_in_flight++;
                helper->alone = job->suspect;
        }
        ds_deadline_arm(
                &helper->supervisor->deadlines, &place->deadline, job->forms ? FORMS_MAX_MS : JOB_MAX_MS, job_deadline);
        return 0;
}

static void send_next(ds_helper *helper)
{
        const struct ds_worker_info *info = ds_worker_info(helper->supervisor->worker);
        struct ds_helper_job *job;

        while ((job = next_job(helper, info)))
                if (send_job(helper, job, info))
                        return;
        job = next_background(helper);
        if (job)
                (void)send_job(helper, job, info);
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

/* What was compiled is kept, if it can be checked that it is what it says. */
static void count(
        ds_helper *helper, const Detshare__Internal__FromHelper *message, const struct in_flight *place, int fd)
{
        uint64_t *const by_origin[] = {
                [DETSHARE__INTERNAL__IMAGE_ORIGIN__KNOWN] = &helper->figures.known,
                [DETSHARE__INTERNAL__IMAGE_ORIGIN__REMEMBERED] = &helper->figures.remembered,
                [DETSHARE__INTERNAL__IMAGE_ORIGIN__STORED] = &helper->figures.stored,
                [DETSHARE__INTERNAL__IMAGE_ORIGIN__COMPILED] = &helper->figures.compiled,
        };
        struct ds_code_store *store = helper->supervisor->code_store;

        helper->figures.damaged += message->damaged;
        if (message->status)
                return;
        helper->figures.images += !place->background;
        if (!place->background && (size_t)message->origin < DS_ARRAY_SIZE(by_origin) && by_origin[message->origin])
                ++*by_origin[message->origin];
        if (!store || message->key.len != DS_SHA256_BYTES)
                return;
        if (message->origin == DETSHARE__INTERNAL__IMAGE_ORIGIN__STORED)
                ds_code_store_used(store, message->key.data);
        else if (message->origin == DETSHARE__INTERNAL__IMAGE_ORIGIN__COMPILED)
                ds_code_store_put(store, message->key.data, fd, message->bytes + message->report_bytes);
}

/* Of what a client or nobody waited for, which place says. */
static void count_forms(ds_helper *helper, const Detshare__Internal__FromHelper *message, const struct in_flight *place)
{
        struct ds_helper_figures *figures = &helper->figures;

        if (message->report_bytes && message->origin == DETSHARE__INTERNAL__IMAGE_ORIGIN__COMPILED) {
                figures->forms_made++;
                figures->forms_ns += uv_hrtime() - place->sent_ns;
        } else if (message->report_bytes) {
                figures->forms_found++;
        } else if (place->job && (place->background || (!message->status && place->job->forms == FORMS_MADE))) {
                figures->forms_failed++;
        }
}

const struct ds_helper_figures *ds_helper_figures(const ds_helper *helper)
{
        return &helper->figures;
}

static int on_frame(void *user, const uint8_t *payload, size_t size)
{
        ds_cleanup(ds_unpack_freep) ProtobufCMessage *unpacked = NULL;
        const Detshare__Internal__FromHelper *message;
        struct ds_helper_result result;
        struct ds_helper_job *job;
        struct in_flight *place;
        ds_helper *helper = user;
        ds_cleanup(ds_closep) int fd = -1;
        int r;

        r = ds_unpack(&detshare__internal__from_helper__descriptor, payload, size, DS_UNPACK_BUDGET, &unpacked);
        if (r)
                return ds_error_fold(r);
        message = (const Detshare__Internal__FromHelper *)unpacked;
        place = message->id ? find_place(helper, message->id) : NULL;
        if (!place || message->fds != (message->status == 0))
                return ds_error_origin(-EPROTO);
        if (message->fds && ds_process_take_fds(helper->process, &fd, 1))
                return ds_error_origin(-EPROTO);
        if (message->fds && (message->report_bytes > DS_IMAGE_BYTES_MAX || message->bytes > DS_IMAGE_BYTES_MAX ||
                                    !check_image_fd(fd, message->bytes + message->report_bytes)))
                return ds_error_origin(-EPROTO);
        count(helper, message, place, fd);
        count_forms(helper, message, place);
        result = (struct ds_helper_result){
                .status = message->status,
                .message = message->message,
                .fd = DS_TAKE_FD(fd),
                .bytes = message->bytes,
                .report_bytes = message->report_bytes,
                .hash = message->hash,
                .variable_bytes = message->variable_bytes,
        };
        job = land(place);
        if (job)
                finish(helper, job, &result);
        ds_close(result.fd);
        send_next(helper);
        return 0;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void on_lost(void *user)
{
        ds_helper *helper = user;

        helper->usable = 0;
        fail_in_flight(helper, "the process that reads images died of this one");
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

/* A helper that cannot take it compiles more than it would have to. */
static void send_directory(ds_helper *helper)
{
        Detshare__Internal__ToHelper message = DETSHARE__INTERNAL__TO_HELPER__INIT;
        Detshare__Internal__CodeDirectory directory = DETSHARE__INTERNAL__CODE_DIRECTORY__INIT;
        int fd = helper->supervisor->code_store ? ds_code_store_directory(helper->supervisor->code_store) : -1;
        const uint8_t *bytes;
        size_t size;

        directory.owner = (uint32_t)geteuid();
        message.body_case = DETSHARE__INTERNAL__TO_HELPER__BODY_DIRECTORY;
        message.directory = &directory;
        message.fds = 1;
        if (fd >= 0 && !ds_error_fold(ds_message_pack(&message.base, DS_PROCESS_FRAME_MAX, &bytes, &size)))
                (void)ds_process_send(helper->process, bytes, size, &fd, 1);
}

int ds_helper_start(ds_helper *helper)
{
        const struct ds_options *options = helper->supervisor->options;
        const int simulated = !strncmp(options->device, "sim:", strlen("sim:"));
        const char *argv[] = {options->helper_path, simulated ? "--simulated" : options->config->ptxas, NULL};
        int r;

        assert(!helper->process);
        r = ds_process_spawn(&helper->supervisor->loop, argv, OUT_MAX, &process_ops, helper, &helper->process);
        if (r)
                return ds_error_trace(r);
        helper->usable = 1;
        helper->blamed = 0;
        helper->started_ns = uv_hrtime();
        send_directory(helper);
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
