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
#define AT_ONCE_MAX 8u    /* most images that compilers work on at the same time; a helper itself allows more */
#define JOB_MAX_MS 40000u /* longest time for an image; above the helper's own limit for a compiler */
/* longest time for an image whose forms are made and compiled; also above the helper's limit */
#define FORMS_MAX_MS 90000u
#define PLACES (AT_ONCE_MAX + 1)
/* Most helper processes. While fewer than AT_ONCE_MAX images are in progress, one of these is free or idle, so no
 * user waits for another user's helper. */
#define READERS_MAX PLACES
#define IDLE_MS 120000u /* time after which an idle helper is ended; longer than a program needs to restart */
#define FORMS_MADE DETSHARE__INTERNAL__IMAGE_FORMS__FORMS_MADE
#define BACKOFF_FIRST_MS 50u
#define BACKOFF_MAX_MS 5000u
#define SETTLED_NS DS_NS_PER_S
#define STATUS_UNKNOWN 999 /* CUDA_ERROR_UNKNOWN */
#define ATTRIBUTE_CC_MAJOR 75
#define ATTRIBUTE_CC_MINOR 76

TAILQ_HEAD(job_list, ds_helper_job);

/* A helper process that serves one user, or a slot for one. */
struct reader {
        ds_helper *helper;
        ds_process *process; /* NULL: the slot has no process, or it is not restarted yet */
        int usable;          /* the process exists and is not lost */
        int retired;         /* 1: the supervisor ends the process, to serve another user (uid below) or nobody */
        int assigned;        /* 1: the helper serves uid; 0: it is free for the next user */
        uid_t uid;
        int has_directory;                  /* 1: it has received the directory of the user's compiled code */
        unsigned n_in_flight, n_background; /* number of images that it works on: for clients; in the background */
        int alone;                          /* 1: its image is a suspect, so it gets no other image meanwhile */
        int blamed;                         /* 1: the image that kills the process is known */
        uint64_t started_ns, used_ns, pass;
        uint32_t backoff_ms;
        struct ds_deadline deadline; /* time of the restart if process is NULL; otherwise end of the idle time */
};

/* A slot for an image that was sent to a helper. */
struct in_flight {
        struct reader *reader;
        struct ds_helper_job *job; /* NULL: cancelled; the helper's answer is dropped */
        uint64_t id;               /* id of the request to the helper; 0: the slot is free */
        ds_user *user;             /* user of the image, also after a cancel; holds a reference */
        int background;
        uint64_t sent_ns;
        struct ds_deadline deadline;
};

struct ds_helper {
        struct ds_supervisor *supervisor;
        int stopping;
        struct job_list jobs, background;
        struct in_flight in_flight[PLACES];
        unsigned n_in_flight, n_background; /* images in flight, in all helpers: for clients; in the background */
        struct reader readers[READERS_MAX];
        uint64_t last_id, pass;
        int said; /* 1: a helper has logged which compiler it uses */
        ds_image_memory *memory;
        struct ds_helper_figures figures;
};

static void send_next(ds_helper *helper);
static void start_again(struct ds_deadline *deadline);
static void idle_for_long(struct ds_deadline *deadline);
static void reader_begin(struct reader *reader);

int ds_helper_new(struct ds_supervisor *supervisor, ds_helper **ret)
{
        ds_helper *helper = ds_alloc0(1, sizeof(*helper));

        if (!helper)
                return ds_error_origin(-ENOMEM);
        if (ds_image_memory_new(ds_image_memory_room(), &helper->memory)) {
                ds_free(helper);
                return ds_error_origin(-ENOMEM);
        }
        helper->supervisor = supervisor;
        TAILQ_INIT(&helper->jobs);
        TAILQ_INIT(&helper->background);
        for (size_t i = 0; i < READERS_MAX; i++)
                helper->readers[i].helper = helper;
        *ret = helper;
        return 0;
}

static void disarm(ds_helper *helper)
{
        for (size_t i = 0; i < PLACES; i++)
                ds_deadline_disarm(&helper->supervisor->deadlines, &helper->in_flight[i].deadline);
        for (size_t i = 0; i < READERS_MAX; i++)
                ds_deadline_disarm(&helper->supervisor->deadlines, &helper->readers[i].deadline);
}

ds_helper *ds_helper_free(ds_helper *helper)
{
        if (!helper)
                return NULL;
        assert(!ds_helper_count(helper));
        assert(TAILQ_EMPTY(&helper->jobs) && TAILQ_EMPTY(&helper->background));
        for (size_t i = 0; i < PLACES; i++)
                assert(!helper->in_flight[i].job);
        disarm(helper);
        helper->memory = ds_image_memory_free(helper->memory);
        return ds_free(helper);
}

static int reader_is_idle(const struct reader *reader)
{
        return !reader->n_in_flight && !reader->n_background;
}

/* --- jobs --------------------------------------------------------------------------------------------------------- */

/* Closes the client's file by ds_foreign_close(), because the last close frees the file's pages and may take long. */
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

/* Frees the slot of an image. Returns its job, or NULL if the job was cancelled. */
static struct ds_helper_job *land(struct in_flight *place)
{
        struct reader *reader = place->reader;
        ds_helper *helper = reader->helper;
        struct ds_helper_job *job = place->job;

        assert(place->id);
        ds_deadline_disarm(&helper->supervisor->deadlines, &place->deadline);
        place->id = 0;
        place->job = NULL;
        place->reader = NULL;
        place->user = ds_user_unref(place->user);
        if (place->background) {
                helper->n_background--;
                reader->n_background--;
        } else {
                helper->n_in_flight--;
                if (!--reader->n_in_flight)
                        reader->alone = 0;
        }
        if (reader_is_idle(reader) && reader->usable && !helper->stopping)
                ds_deadline_arm(&helper->supervisor->deadlines, &reader->deadline, IDLE_MS, idle_for_long);
        return job;
}

static void fail(ds_helper *helper, struct ds_helper_job *job, const char *why)
{
        struct ds_helper_result result = {.status = STATUS_UNKNOWN, .message = why, .fd = -1};

        if (job)
                finish(helper, job, &result);
}

/* The slot of the image that was sent last to this helper; NULL: none is in flight. */
static struct in_flight *last_place(struct reader *reader)
{
        struct in_flight *last = NULL, *place;

        for (size_t i = 0; i < PLACES; i++) {
                place = &reader->helper->in_flight[i];
                if (place->id && place->reader == reader && (!last || place->id > last->id))
                        last = place;
        }
        return last;
}

/*
 * Ends the jobs of a helper that died. If it had one image, that image is to blame and fails. If it had several, each
 * image is retried alone, before other images of its user and in the order of sending, so that only the harmful one
 * fails. Background jobs are not retried. If the supervisor stops, no image is to blame: its client gets the answer
 * that all clients get, or asks the next daemon.
 */
static void fail_in_flight(struct reader *reader, const char *why)
{
        ds_helper *helper = reader->helper;
        int one = reader->n_in_flight + reader->n_background == 1 && !reader->blamed && !helper->stopping;

        for (struct in_flight *place; (place = last_place(reader));) {
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
        struct ds_helper_result result;

        assert(!job->queued);
        job->user = user;
        job->fd = fd;
        job->bytes = bytes;
        job->done = done;
        job->queued = 1;
        job->suspect = 0;
        job->identified = ds_image_memory_identify(helper->memory, job, &job->key);
        if (job->identified && ds_image_memory_find(helper->memory, &job->key, &result)) {
                helper->figures.images++;
                helper->figures.known++;
                finish(helper, job, &result);
                ds_close(result.fd);
                return;
        }
        if (job->background)
                TAILQ_INSERT_TAIL(&helper->background, job, link);
        else
                TAILQ_INSERT_TAIL(&helper->jobs, job, link);
        send_next(helper);
}

/* Cancels an image whose client has gone, so that clients which connect and leave do not keep compilers busy. */
static void send_cancel(struct in_flight *place)
{
        Detshare__Internal__ToHelper message = DETSHARE__INTERNAL__TO_HELPER__INIT;
        Detshare__Internal__CancelImage cancel = DETSHARE__INTERNAL__CANCEL_IMAGE__INIT;
        const uint8_t *bytes;
        size_t size;

        cancel.image = place->id;
        message.body_case = DETSHARE__INTERNAL__TO_HELPER__BODY_CANCEL;
        message.cancel = &cancel;
        if (!ds_error_fold(ds_message_pack(&message.base, DS_PROCESS_FRAME_MAX, &bytes, &size)))
                (void)ds_process_send(place->reader->process, bytes, size, NULL, 0);
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
        /* without a compilation (simulated device, no forms) the answer arrives soon anyway, so a cancel is not
         * worth it */
        if (place && place->reader->usable &&
                (job->forms || job->link_step || !ds_worker_info(helper->supervisor->worker)->simulated))
                send_cancel(place);
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
        struct reader *reader = place->reader;

        /* the process is killed before fail(), so that no other image is sent to it */
        ds_process_kill(reader->process, "checking an image took too long");
        reader->blamed = 1;
        fail(reader->helper, land(place), "checking the image took too long");
}

/* The most images that all helpers together may work on. */
static unsigned at_once(void)
{
        static long cores; /* reading it opens a file */

        if (!cores)
                cores = sysconf(_SC_NPROCESSORS_ONLN);
        return cores > 4 ? DS_MIN((unsigned)cores / 2, AT_ONCE_MAX) : 2;
}

static unsigned user_in_flight(const ds_helper *helper, const ds_user *user)
{
        unsigned n = 0;

        for (size_t i = 0; i < PLACES; i++)
                n += helper->in_flight[i].user == user && !helper->in_flight[i].background;
        return n;
}

/* The helper process of this user; NULL: none. */
static struct reader *reader_of(ds_helper *helper, uid_t uid)
{
        for (size_t i = 0; i < READERS_MAX; i++)
                if (helper->readers[i].assigned && helper->readers[i].uid == uid)
                        return &helper->readers[i];
        return NULL;
}

/* Rank of a helper slot for a new user, lowest first. 0: unused process; 1: no process; 2: idle process of another
 * user; 3: not available. */
static int reader_distance(const struct reader *reader)
{
        if (!reader_is_idle(reader) || (reader->process && !reader->usable))
                return 3;
        if (!reader->assigned)
                return reader->usable ? 0 : 1;
        return 2;
}

/* A slot for a new user: a free one, else the idle one with the oldest last use. NULL: none now. */
static struct reader *reader_free(ds_helper *helper)
{
        struct reader *best = NULL, *reader;
        int least = 3, distance;

        for (size_t i = 0; i < READERS_MAX; i++) {
                reader = &helper->readers[i];
                distance = reader_distance(reader);
                if (distance < least || (best && distance == least && reader->used_ns < best->used_ns)) {
                        best = reader;
                        least = distance;
                }
        }
        return best;
}

/* Assigns the slot to this user. The process of another user ends first, so that none of its state is carried over. */
static void reader_assign(struct reader *reader, uid_t uid)
{
        const int fresh = !reader->assigned;

        reader->assigned = 1;
        reader->uid = uid;
        reader->backoff_ms = 0;
        if (fresh && reader->usable)
                return;
        ds_deadline_disarm(&reader->helper->supervisor->deadlines, &reader->deadline);
        if (!reader->process) {
                reader_begin(reader);
                return;
        }
        reader->retired = 1;
        reader->usable = 0;
        ds_process_kill(reader->process, NULL);
}

/* Whether the user's helper, or a slot that can be assigned to the user now, can take this job. */
static int reader_takes(ds_helper *helper, const struct reader *reader, const struct ds_helper_job *job)
{
        if (!reader)
                return reader_free(helper) != NULL;
        if (!reader->usable || reader->alone)
                return 0;
        if (job->background || !reader->n_in_flight)
                return 1;
        /* for a simulated device the helper checks images itself, one after the other */
        return !job->suspect && !ds_worker_info(helper->supervisor->worker)->simulated;
}

/*
 * The next job for a client. Of the users below their limit, it is the first job of a user with the fewest images in
 * flight, and of those of the one served longest ago. Only the first job of a user counts, so that none overtakes an
 * image that must run alone. NULL: none now.
 */
static struct ds_helper_job *next_job(ds_helper *helper)
{
        const unsigned limit = at_once();
        unsigned least = UINT_MAX, n = 0;
        struct ds_helper_job *best = NULL, *job;
        const ds_user *last = NULL;
        struct reader *reader;

        if (helper->n_in_flight >= limit)
                return NULL;
        helper->pass++;
        TAILQ_FOREACH(job, &helper->jobs, link)
        {
                if (job->user == last)
                        continue;
                last = job->user;
                reader = reader_of(helper, ds_user_uid(last));
                if (reader && reader->pass == helper->pass)
                        continue;
                if (reader)
                        reader->pass = helper->pass;
                n = user_in_flight(helper, last);
                if ((n >= limit - 1 && ds_user_uid(last) != 0) || !reader_takes(helper, reader, job))
                        continue;
                if (best && (n > least || (n == least && ds_user_turn(last, 0) >= ds_user_turn(best->user, 0))))
                        continue;
                best = job;
                least = n;
        }
        return best;
}

/* The next background job. They run one at a time, and only while no client waits; users take turns. NULL: none now. */
static struct ds_helper_job *next_background(ds_helper *helper)
{
        struct ds_helper_job *best = NULL, *job;

        if (helper->n_background || !TAILQ_EMPTY(&helper->jobs))
                return NULL;
        TAILQ_FOREACH(job, &helper->background, link)
        {
                if (best && ds_user_turn(job->user, 1) >= ds_user_turn(best->user, 1))
                        continue;
                if (reader_takes(helper, reader_of(helper, ds_user_uid(job->user)), job))
                        best = job;
        }
        return best;
}

/* Sends the directory of the user's compiled code, which did not exist when the helper started. If the helper cannot
 * receive it, it compiles more than necessary. */
static void send_directory(struct reader *reader)
{
        Detshare__Internal__ToHelper message = DETSHARE__INTERNAL__TO_HELPER__INIT;
        Detshare__Internal__CodeDirectory directory = DETSHARE__INTERNAL__CODE_DIRECTORY__INIT;
        const ds_code_store *store = reader->helper->supervisor->code_store;
        ds_cleanup(ds_closep) int fd = -1;
        const uint8_t *bytes;
        size_t size;

        if (reader->has_directory || !store)
                return;
        fd = ds_code_store_directory(store, reader->uid);
        directory.owner = (uint32_t)geteuid();
        message.body_case = DETSHARE__INTERNAL__TO_HELPER__BODY_DIRECTORY;
        message.directory = &directory;
        message.fds = 1;
        if (fd >= 0 && !ds_error_fold(ds_message_pack(&message.base, DS_PROCESS_FRAME_MAX, &bytes, &size)))
                reader->has_directory = !ds_process_send(reader->process, bytes, size, &fd, 1);
}

/* Sends the image. Returns 0, or -1: the helper is ending and cannot receive the image, so the job waits for the
 * next helper. */
static int send_check(struct reader *reader, const struct ds_helper_job *job, uint64_t id)
{
        const struct ds_worker_info *info = ds_worker_info(reader->helper->supervisor->worker);
        Detshare__Internal__ToHelper message = DETSHARE__INTERNAL__TO_HELPER__INIT;
        Detshare__Internal__CheckImage check = DETSHARE__INTERNAL__CHECK_IMAGE__INIT;
        const uint8_t *bytes;
        size_t size;

        check.bytes = job->bytes;
        check.cc = compute_capability(info);
        check.simulated = info->simulated;
        check.offset = job->offset;
        check.uid = (uint32_t)ds_user_uid(job->user);
        check.max_registers = job->max_registers;
        check.optimization = job->optimization;
        check.forms = job->forms;
        check.link = job->link_step;
        message.id = id;
        message.fds = 1;
        message.body_case = DETSHARE__INTERNAL__TO_HELPER__BODY_CHECK;
        message.check = &check;
        if (ds_error_fold(ds_message_pack(&message.base, DS_PROCESS_FRAME_MAX, &bytes, &size)))
                return -1;
        return ds_process_send(reader->process, bytes, size, &job->fd, 1) ? -1 : 0;
}

static int send_job(struct reader *reader, struct ds_helper_job *job)
{
        ds_helper *helper = reader->helper;
        struct in_flight *place = find_place(helper, 0);

        assert(place);
        assert(reader->assigned && reader->uid == ds_user_uid(job->user));
        send_directory(reader);
        if (send_check(reader, job, ++helper->last_id))
                return -1;
        place->reader = reader;
        place->job = job;
        place->id = helper->last_id;
        place->user = ds_user_ref(job->user);
        place->background = job->background;
        place->sent_ns = reader->used_ns = uv_hrtime();
        ds_user_served(job->user, job->background);
        if (job->background) {
                TAILQ_REMOVE(&helper->background, job, link);
                helper->n_background++;
                reader->n_background++;
        } else {
                TAILQ_REMOVE(&helper->jobs, job, link);
                helper->n_in_flight++;
                reader->n_in_flight++;
                reader->alone = job->suspect;
        }
        ds_deadline_disarm(&helper->supervisor->deadlines, &reader->deadline);
        ds_deadline_arm(&helper->supervisor->deadlines, &place->deadline,
                job->forms || job->link_step ? FORMS_MAX_MS : JOB_MAX_MS, job_deadline);
        return 0;
}

/* Sends the job to its user's helper. 0, or -1: the helper is not ready and the job waits. */
static int dispatch(ds_helper *helper, struct ds_helper_job *job)
{
        const uid_t uid = ds_user_uid(job->user);
        struct reader *reader = reader_of(helper, uid);

        if (!reader) {
                reader = reader_free(helper);
                reader_assign(reader, uid);
        }
        return reader->usable ? send_job(reader, job) : -1;
}

static void send_next(ds_helper *helper)
{
        struct ds_helper_job *job;

        if (helper->stopping)
                return;
        /* jobs of users whose helper is still starting are skipped */
        while ((job = next_job(helper)))
                if (dispatch(helper, job) && reader_of(helper, ds_user_uid(job->user))->usable)
                        return;
        job = next_background(helper);
        if (job)
                (void)dispatch(helper, job);
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* Checks that the helper cannot change the file any more, and that its size is as reported. */
static int check_image_fd(int fd, uint64_t bytes)
{
        int seals = fcntl(fd, F_GET_SEALS), want = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
        struct stat st;

        if (seals < 0 || (seals & want) != want)
                return 0;
        return fstat(fd, &st) == 0 && bytes > 0 && (uint64_t)st.st_size == bytes && bytes <= DS_IMAGE_BYTES_MAX;
}

/* Counts the result. Stores compiled code in the directory of the user that this helper serves. */
static void count(const struct in_flight *place, const Detshare__Internal__FromHelper *message, int fd)
{
        ds_helper *helper = place->reader->helper;
        const uid_t uid = place->reader->uid;
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
                ds_code_store_used(store, uid, message->key.data);
        else if (message->origin == DETSHARE__INTERNAL__IMAGE_ORIGIN__COMPILED)
                ds_code_store_put(store, uid, message->key.data, fd, message->bytes + message->report_bytes);
}

/* Counts transformed images, separately for clients' jobs and background jobs. */
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

size_t ds_helper_remembered(const ds_helper *helper)
{
        return ds_image_memory_count(helper->memory);
}

static int on_frame(void *user, const uint8_t *payload, size_t size)
{
        ds_cleanup(ds_unpack_freep) ProtobufCMessage *unpacked = NULL;
        const Detshare__Internal__FromHelper *message;
        struct ds_helper_result result;
        struct ds_helper_job *job;
        struct in_flight *place;
        struct reader *reader = user;
        ds_helper *helper = reader->helper;
        ds_cleanup(ds_closep) int fd = -1;
        int r;

        r = ds_unpack(&detshare__internal__from_helper__descriptor, payload, size, DS_UNPACK_BUDGET, &unpacked);
        if (r)
                return ds_error_fold(r);
        message = (const Detshare__Internal__FromHelper *)unpacked;
        place = message->id ? find_place(helper, message->id) : NULL;
        /* a helper may answer only for images that it was sent */
        if (!place || place->reader != reader || message->fds != (message->status == 0))
                return ds_error_origin(-EPROTO);
        if (message->fds && ds_process_take_fds(reader->process, &fd, 1))
                return ds_error_origin(-EPROTO);
        if (message->fds && (message->report_bytes > DS_IMAGE_BYTES_MAX || message->bytes > DS_IMAGE_BYTES_MAX ||
                                    !check_image_fd(fd, message->bytes + message->report_bytes)))
                return ds_error_origin(-EPROTO);
        count(place, message, fd);
        count_forms(helper, message, place);
        result = (struct ds_helper_result){
                .status = message->status,
                .message = message->message,
                .fd = DS_TAKE_FD(fd),
                .bytes = message->bytes,
                .report_bytes = message->report_bytes,
                .hash = message->hash,
                .variable_bytes = message->variable_bytes,
                .no_ptx = message->no_ptx,
        };
        job = land(place);
        if (job && job->identified)
                ds_image_memory_add(helper->memory, job, &job->key, &result);
        if (job)
                finish(helper, job, &result);
        ds_close(result.fd);
        send_next(helper);
        return 0;
}

/* --- life cycle --------------------------------------------------------------------------------------------------- */

static void on_lost(void *user)
{
        struct reader *reader = user;

        reader->usable = 0;
        ds_deadline_disarm(&reader->helper->supervisor->deadlines, &reader->deadline);
        fail_in_flight(reader, "the helper process ended while it checked this image");
}

static void on_ended(void *user, const char *how, int killed)
{
        struct reader *reader = user;
        ds_helper *helper = reader->helper;

        reader->process = ds_process_free(reader->process);
        if (helper->stopping) {
                ds_supervisor_check_stop(helper->supervisor);
                return;
        }
        if (reader->retired) {
                reader->retired = 0;
                if (reader->assigned)
                        reader_begin(reader);
                send_next(helper);
                return;
        }
        if (uv_hrtime() - reader->started_ns >= SETTLED_NS)
                reader->backoff_ms = 0;
        reader->backoff_ms = reader->backoff_ms ? DS_MIN(2 * reader->backoff_ms, BACKOFF_MAX_MS) : BACKOFF_FIRST_MS;
        ds_log(DS_LOG_ERROR, "the helper %s and is replaced", how);
        ds_deadline_arm(&helper->supervisor->deadlines, &reader->deadline, reader->backoff_ms, start_again);
}

static const struct ds_process_ops process_ops = {.frame = on_frame, .lost = on_lost, .ended = on_ended};

/* Starts a helper process. Returns 0 or a negative errno. */
static int reader_start(struct reader *reader)
{
        ds_helper *helper = reader->helper;
        const struct ds_options *options = helper->supervisor->options;
        const int simulated = !strncmp(options->device, "sim:", strlen("sim:"));
        const char *what = simulated ? "--simulated" : options->config->ptxas;
        const char *argv[] = {options->helper_path, helper->said ? "--again" : what, helper->said ? what : NULL, NULL};
        int r;

        assert(!reader->process);
        r = ds_process_spawn(&helper->supervisor->loop, argv, OUT_MAX, &process_ops, reader, &reader->process);
        if (r)
                return ds_error_trace(r);
        helper->said = 1;
        reader->usable = 1;
        reader->blamed = reader->has_directory = 0;
        reader->started_ns = reader->used_ns = uv_hrtime();
        return 0;
}

/* Starts the process now, or later if that fails. */
static void reader_begin(struct reader *reader)
{
        if (reader_start(reader))
                ds_deadline_arm(&reader->helper->supervisor->deadlines, &reader->deadline, BACKOFF_MAX_MS, start_again);
}

static void start_again(struct ds_deadline *deadline)
{
        struct reader *reader = DS_CONTAINER_OF(deadline, struct reader, deadline);

        reader_begin(reader);
        send_next(reader->helper);
}

/* The running helper process that was started first; NULL: none runs. */
static struct reader *reader_first(const ds_helper *helper)
{
        const struct reader *first = NULL, *reader;

        for (size_t i = 0; i < READERS_MAX; i++) {
                reader = &helper->readers[i];
                if (reader->process && (!first || reader->started_ns < first->started_ns))
                        first = reader;
        }
        return (struct reader *)first;
}

static void idle_for_long(struct ds_deadline *deadline)
{
        struct reader *reader = DS_CONTAINER_OF(deadline, struct reader, deadline);

        if (reader == reader_first(reader->helper)) {
                ds_deadline_arm(&reader->helper->supervisor->deadlines, &reader->deadline, IDLE_MS, idle_for_long);
                return;
        }
        reader->assigned = 0;
        reader->retired = 1;
        reader->usable = 0;
        ds_process_kill(reader->process, NULL);
}

int ds_helper_start(ds_helper *helper)
{
        int r = reader_start(&helper->readers[0]);

        if (!r)
                send_next(helper);
        return r;
}

pid_t ds_helper_pid(const ds_helper *helper)
{
        const struct reader *first = reader_first(helper);

        return first ? ds_process_pid(first->process) : 0;
}

unsigned ds_helper_count(const ds_helper *helper)
{
        unsigned n = 0;

        for (size_t i = 0; i < READERS_MAX; i++)
                n += helper->readers[i].process != NULL;
        return n;
}

void ds_helper_stop(ds_helper *helper)
{
        helper->stopping = 1;
        disarm(helper);
        for (size_t i = 0; i < READERS_MAX; i++)
                if (helper->readers[i].process)
                        ds_process_shutdown(helper->readers[i].process);
}

void ds_helper_kill(ds_helper *helper)
{
        for (size_t i = 0; i < READERS_MAX; i++)
                if (helper->readers[i].process)
                        ds_process_kill(helper->readers[i].process, NULL);
}
