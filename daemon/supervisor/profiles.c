/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/profiles.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/calibration.h"
#include "supervisor/client.h"
#include "supervisor/profile_store.h"
#include "supervisor/session.h"
#include "supervisor/supervisor.h"
#include "supervisor/worker_link.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"

#define WORKER_MAX_MS 1000u
#define POINTS_MAX DS_PROFILE_POINTS_MAX
#define CELL_BLOCKS_MAX 65536u
#define CELL_PERMILLE_MAX 1000000u

/* A list request that waits until the worker has sent its latest measurements. */
struct list_op {
        struct ds_client_op op;
        uint64_t after, since_ms;
        char filter[DS_PROFILE_NAME_MAX + 1];
};

/* Rows of a job, converted for a message. */
struct packed {
        Detshare__Profile profiles[DS_PROFILE_JOB_ROWS], *pointers[DS_PROFILE_JOB_ROWS];
        Detshare__ProfilePoint points[DS_PROFILE_JOB_ROWS][POINTS_MAX],
                *point_pointers[DS_PROFILE_JOB_ROWS][POINTS_MAX];
        size_t n;
};

/* One buffer for all messages, which are packed and sent one at a time. */
static struct packed packed;

/* --- conversion of rows and messages ------------------------------------------------------------------------------ */

static void pack_row(struct ds_profile_row *row)
{
        Detshare__Profile *to = &packed.profiles[packed.n];

        assert(packed.n < DS_PROFILE_JOB_ROWS && row->n_points <= POINTS_MAX);
        detshare__profile__init(to);
        to->id = row->id;
        to->key = row->key;
        to->kernel = row->name;
        to->grid_x = row->grid[0];
        to->grid_y = row->grid[1];
        to->grid_z = row->grid[2];
        to->block_x = row->block[0];
        to->block_y = row->block[1];
        to->block_z = row->block[2];
        to->shared_bytes = row->shared_bytes;
        to->bound = row->bound;
        to->footprint = row->footprint;
        to->sliced_permille = row->sliced.permille;
        to->sliced_samples = row->sliced.samples;
        to->persistent_permille = row->persistent.permille;
        to->persistent_samples = row->persistent.samples;
        to->changed_ms = row->changed_ms;
        to->used_ms = row->used_ms;
        to->of_policy = row->of_policy != 0;
        to->group = row->group;
        to->note = row->note;
        to->n_note = row->n_note;
        for (uint32_t i = 0; i < row->n_points; i++) {
                Detshare__ProfilePoint *point = &packed.points[packed.n][i];

                detshare__profile_point__init(point);
                point->n_sms = row->points[i].n_sms;
                point->samples = row->points[i].samples;
                point->mean_ns = row->points[i].mean_ns;
                packed.point_pointers[packed.n][i] = point;
        }
        to->points = packed.point_pointers[packed.n];
        to->n_points = row->n_points;
        packed.pointers[packed.n++] = to;
}

/* Converts a profile of a message into a row. Returns NULL, or the reason why the profile is invalid. */
static const char *unpack_row(const Detshare__Profile *from, struct ds_profile_row *row)
{
        *row = (struct ds_profile_row){
                .key = from->key,
                .grid = {from->grid_x, from->grid_y, from->grid_z},
                .block = {from->block_x, from->block_y, from->block_z},
                .shared_bytes = from->shared_bytes,
                .bound = from->bound,
                .footprint = from->footprint,
                .sliced = {from->sliced_permille, from->sliced_samples},
                .persistent = {from->persistent_permille, from->persistent_samples},
                .of_policy = from->of_policy != 0,
                .group = from->group,
        };
        ds_profile_set_name(row, from->kernel[0] ? from->kernel : "?");
        for (size_t i = 0; i < from->n_points && i < POINTS_MAX; i++)
                row->points[row->n_points++] = (struct ds_profile_point){.n_sms = from->points[i]->n_sms,
                        .samples = from->points[i]->samples,
                        .mean_ns = from->points[i]->mean_ns};
        for (size_t i = 0; i < from->n_note && i < DS_PROFILE_NOTE_MAX; i++)
                row->note[row->n_note++] = from->note[i];
        return ds_profile_row_wrong(row);
}

/* The name under which the database keeps profiles of this daemon's GPU. */
void ds_profiles_gpu(struct ds_supervisor *supervisor, char ret[static DS_PROFILE_MODEL_MAX + 1])
{
        const struct ds_worker_info *info = ds_worker_info(supervisor->worker);

        snprintf(ret, DS_PROFILE_MODEL_MAX + 1, "%s/%u", info->name, info->n_sms);
}

static struct ds_profile_job *job_new(
        struct ds_supervisor *supervisor, enum ds_profile_what what, size_t n, void (*done)(struct ds_profile_job *job))
{
        struct ds_profile_job *job = ds_profile_job_new(what, n);

        if (!job)
                return NULL;
        ds_profiles_gpu(supervisor, job->model);
        job->done = done;
        job->user = supervisor;
        return job;
}

static void job_end(struct ds_profile_job *job)
{
        ds_profile_job_free(job);
}

/* Queues a job for which no client waits. The job is dropped if the queue is full. */
static void job_start(struct ds_supervisor *supervisor, struct ds_profile_job *job)
{
        if (ds_profile_store_do(supervisor->profiles, job))
                ds_profile_job_free(job);
}

/* --- messages of the worker --------------------------------------------------------------------------------------- */

static void seen_done(struct ds_profile_job *job)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__ProfilePut put = DETSHARE__INTERNAL__PROFILE_PUT__INIT;
        struct ds_supervisor *supervisor = job->user;

        packed.n = 0;
        for (size_t i = 0; i < job->n && !job->r; i++)
                if (job->rows[i].n_points || job->rows[i].bound || job->rows[i].n_note)
                        pack_row(&job->rows[i]);
        put.profiles = packed.pointers;
        put.n_profiles = packed.n;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_PROFILE_PUT;
        message.profile_put = &put;
        if (packed.n)
                (void)ds_worker_send(supervisor->worker, &message, NULL, 0, NULL);
        ds_profile_job_free(job);
}

void ds_profiles_seen(struct ds_supervisor *supervisor, const Detshare__Internal__ProfileSeen *seen)
{
        struct ds_profile_job *job = job_new(supervisor, DS_PROFILE_SEE, seen->n_profiles, seen_done);

        if (!job)
                return;
        assert(seen->n_profiles <= DS_PROFILE_JOB_ROWS); /* the bound comes from this message's row in unpack.c */
        for (size_t i = 0; i < seen->n_profiles; i++)
                (void)unpack_row(seen->profiles[i], &job->rows[i]);
        job_start(supervisor, job);
}

void ds_profiles_refined(struct ds_supervisor *supervisor, const Detshare__Internal__ProfileRefined *refined)
{
        struct ds_profile_job *job = job_new(supervisor, DS_PROFILE_REFINE, refined->n_profiles, job_end);

        if (!job)
                return;
        job->n = 0;
        for (size_t i = 0; i < refined->n_profiles; i++)
                if (!unpack_row(refined->profiles[i], &job->rows[job->n]))
                        job->n++;
        job_start(supervisor, job);
}

static void tell_calibration(struct ds_profile_job *job)
{
        Detshare__Internal__Interference cells[DS_PROFILE_INTERFERENCE_MAX], *pointers[DS_PROFILE_INTERFERENCE_MAX];
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__Calibration calibration = DETSHARE__INTERNAL__CALIBRATION__INIT;
        struct ds_supervisor *supervisor = job->user;

        for (size_t i = 0; i < job->n; i++) {
                detshare__internal__interference__init(&cells[i]);
                cells[i].ls_load = job->cells[i].ls_load;
                cells[i].be_load = job->cells[i].be_load;
                cells[i].be_sms = job->cells[i].be_sms;
                cells[i].be_blocks = job->cells[i].be_blocks;
                cells[i].ls_permille = job->cells[i].ls_permille;
                cells[i].be_permille = job->cells[i].be_permille;
                pointers[i] = &cells[i];
        }
        calibration.cells = pointers;
        calibration.n_cells = job->n;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_CALIBRATION;
        message.calibration = &calibration;
        (void)ds_worker_send(supervisor->worker, &message, NULL, 0, NULL);
}

static void calibration_done(struct ds_profile_job *job)
{
        if (!job->r && job->n)
                tell_calibration(job);
        ds_profile_job_free(job);
}

void ds_profiles_worker_ready(struct ds_supervisor *supervisor)
{
        struct ds_profile_job *job =
                job_new(supervisor, DS_PROFILE_CALIBRATION, DS_PROFILE_INTERFERENCE_MAX, calibration_done);

        if (!supervisor->config->state && !ds_worker_restarts(supervisor->worker))
                ds_log(DS_LOG_INFO, "there is no state directory: profiles of kernels are lost when the daemon ends");
        if (job)
                job_start(supervisor, job);
}

int ds_profiles_start(struct ds_supervisor *supervisor)
{
        return ds_error_trace(
                ds_profile_store_new(&supervisor->loop, supervisor->config->state, 0, &supervisor->profiles));
}

/* --- requests of administrators ----------------------------------------------------------------------------------- */

static void answer_busy(struct ds_client *client, uint64_t id)
{
        ds_client_answer(client, id, DETSHARE__STATUS__RESTARTING, "the profile database is busy; retry");
}

/* The client whose request the job answers; NULL: it is gone. */
static struct ds_client *asker(const struct ds_profile_job *job)
{
        struct ds_session *session = ds_session_find(job->user, job->session);

        return session ? session->client : NULL;
}

/* Queues a job for a client's request, which is answered when the job is done. Consumes the job. */
static void job_ask(struct ds_client *client, uint64_t id, struct ds_profile_job *job)
{
        struct ds_supervisor *supervisor = ds_client_supervisor(client);

        job->session = ds_client_session(client)->id;
        job->request_id = id;
        if (!ds_profile_store_do(supervisor->profiles, job))
                return;
        ds_profile_job_free(job);
        answer_busy(client, id);
}

static void reply_list(struct ds_client *client, struct ds_profile_job *job)
{
        struct ds_supervisor *supervisor = job->user;
        Detshare__ProfileList list = DETSHARE__PROFILE_LIST__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        struct ds_profile_figures figures;

        packed.n = 0;
        for (size_t i = 0; i < job->n; i++)
                pack_row(&job->rows[i]);
        ds_profile_store_figures(supervisor->profiles, &figures);
        list.profiles = packed.pointers;
        list.n_profiles = packed.n;
        list.more = job->more;
        list.gpu = job->model;
        list.kept = figures.rows;
        list.bytes = figures.bytes;
        list.refused = figures.refused;
        list.failed = figures.failed;
        list.in_memory = figures.in_memory;
        reply.result_case = DETSHARE__REPLY__RESULT_LIST_PROFILES;
        reply.list_profiles = &list;
        ds_client_reply(client, job->request_id, &reply, NULL, 0);
}

static void reply_forgotten(struct ds_client *client, const struct ds_profile_job *job)
{
        Detshare__ForgetReply forget = DETSHARE__FORGET_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        forget.count = job->count;
        reply.result_case = DETSHARE__REPLY__RESULT_FORGET_PROFILES;
        reply.forget_profiles = &forget;
        ds_client_reply(client, job->request_id, &reply, NULL, 0);
}

/* Makes the worker drop all its profiles and request them again, also those that were not deleted: the filter is a
 * name, and the worker knows only keys. */
static void worker_forgets(struct ds_supervisor *supervisor)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__ProfileForget forget = DETSHARE__INTERNAL__PROFILE_FORGET__INIT;

        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_PROFILE_FORGET;
        message.profile_forget = &forget;
        (void)ds_worker_send(supervisor->worker, &message, NULL, 0, NULL);
}

static void job_answer(struct ds_profile_job *job)
{
        struct ds_client *client = asker(job);

        if (job->what == DS_PROFILE_FORGET && !job->r)
                worker_forgets(job->user);
        if (client && job->r)
                ds_client_answer(client, job->request_id, DETSHARE__STATUS__INTERNAL,
                        "the profile database could not be read or written");
        else if (client && job->what == DS_PROFILE_LIST)
                reply_list(client, job);
        else if (client && job->what == DS_PROFILE_FORGET)
                reply_forgotten(client, job);
        else if (client)
                ds_client_answer(client, job->request_id, 0, "%s", "");
        ds_profile_job_free(job);
}

/* Checks a name filter. Returns 0, or the request is answered. */
static int check_filter(struct ds_client *client, uint64_t id, const char *filter)
{
        if (strlen(filter) <= DS_PROFILE_NAME_MAX)
                return 0;
        ds_client_answer(
                client, id, DETSHARE__STATUS__BAD_PARAMETER, "a filter has at most %u bytes", DS_PROFILE_NAME_MAX);
        return -1;
}

static void finish_list(struct ds_client_op *op)
{
        const struct list_op *list = DS_CONTAINER_OF(op, struct list_op, op);
        struct ds_client *client = op->client;
        uint64_t id = op->request_id;
        struct ds_profile_job *job =
                job_new(ds_client_supervisor(client), DS_PROFILE_LIST, DS_PROFILE_JOB_ROWS, job_answer);

        if (job) {
                job->after = list->after;
                job->since_ms = list->since_ms;
                snprintf(job->filter, sizeof(job->filter), "%s", list->filter);
        }
        ds_client_op_end(op);
        if (job)
                job_ask(client, id, job);
        else
                answer_busy(client, id);
}

static void flush_done(struct ds_worker_call *call, const struct ds_worker_answer *answer)
{
        finish_list(DS_CONTAINER_OF(call, struct ds_client_op, call));
}

static void flush_deadline(struct ds_deadline *deadline)
{
        finish_list(DS_CONTAINER_OF(deadline, struct ds_client_op, deadline));
}

/* Lists profiles. Before that, the worker sends its latest measurements. */
void ds_handle_list_profiles(struct ds_client *client, Detshare__Request *request, int *fds)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__ProfileFlush flush = DETSHARE__INTERNAL__PROFILE_FLUSH__INIT;
        struct ds_supervisor *supervisor = ds_client_supervisor(client);
        const Detshare__ListProfiles *list = request->list_profiles;
        struct list_op *op;

        if (check_filter(client, request->id, list->filter))
                return;
        op = ds_client_op_new(client, request->id, sizeof(*op), flush_done);
        if (!op)
                return;
        op->after = list->after;
        op->since_ms = list->since_ms;
        snprintf(op->filter, sizeof(op->filter), "%s", list->filter);
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_PROFILE_FLUSH;
        message.profile_flush = &flush;
        /* for further pages, the worker does not send its measurements again */
        if (list->after || ds_worker_send(supervisor->worker, &message, NULL, 0, &op->op.call))
                finish_list(&op->op);
        else
                ds_deadline_arm(&supervisor->deadlines, &op->op.deadline, WORKER_MAX_MS, flush_deadline);
}

void ds_handle_forget_profiles(struct ds_client *client, Detshare__Request *request, int *fds)
{
        struct ds_profile_job *job;

        if (check_filter(client, request->id, request->forget_profiles->filter))
                return;
        job = job_new(ds_client_supervisor(client), DS_PROFILE_FORGET, 0, job_answer);
        if (!job) {
                answer_busy(client, request->id);
                return;
        }
        snprintf(job->filter, sizeof(job->filter), "%s", request->forget_profiles->filter);
        job_ask(client, request->id, job);
}

/* Sends rows to the worker, which uses them at once. Points that the worker has measured more often itself stay. */
static void tell_worker(struct ds_supervisor *supervisor, struct ds_profile_job *job)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__ProfilePut put = DETSHARE__INTERNAL__PROFILE_PUT__INIT;

        packed.n = 0;
        for (size_t i = 0; i < job->n; i++)
                pack_row(&job->rows[i]);
        put.profiles = packed.pointers;
        put.n_profiles = packed.n;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_PROFILE_PUT;
        message.profile_put = &put;
        (void)ds_worker_send(supervisor->worker, &message, NULL, 0, NULL);
}

void ds_handle_put_profiles(struct ds_client *client, Detshare__Request *request, int *fds)
{
        const Detshare__PutProfiles *put = request->put_profiles;
        struct ds_profile_job *job = job_new(ds_client_supervisor(client), DS_PROFILE_PUT, put->n_profiles, job_answer);

        if (!job) {
                answer_busy(client, request->id);
                return;
        }
        for (size_t i = 0; i < put->n_profiles; i++) {
                const char *wrong = unpack_row(put->profiles[i], &job->rows[i]);

                if (!wrong)
                        continue;
                ds_client_answer(client, request->id, DETSHARE__STATUS__BAD_PARAMETER, "profile %zu (%.64s): %s", i + 1,
                        job->rows[i].name, wrong);
                ds_profile_job_free(job);
                return;
        }
        tell_worker(ds_client_supervisor(client), job);
        job_ask(client, request->id, job);
}

/* --- profiling runs and calibrations ------------------------------------------------------------------------------ */

static void put_back(struct ds_supervisor *supervisor)
{
        supervisor->profiling = 0;
        ds_worker_policy_again(supervisor->worker);
        ds_log(DS_LOG_INFO, "a profiling run ended: policy %s", ds_worker_policy(supervisor->worker));
}

void ds_profiles_client_gone(struct ds_client *client)
{
        struct ds_supervisor *supervisor = ds_client_supervisor(client);
        const struct ds_session *session = ds_client_session(client);

        if (session && supervisor->profiling == session->id)
                put_back(supervisor);
}

/* A request to the worker to change the policy for a profiling run. The operation ends before its client is freed. */
struct run_op {
        struct ds_client_op op;
        const char *policy;
};

/* Handles a policy that refused to start. The same policy may have been running with other parameters, so the
 * previous policy is restored. */
static void run_refused(struct ds_client *client, const char *policy)
{
        struct ds_supervisor *supervisor = ds_client_supervisor(client);

        if (supervisor->profiling != ds_client_session(client)->id)
                return;
        supervisor->profiling = 0;
        if (!strcmp(ds_worker_policy(supervisor->worker), policy))
                put_back(supervisor);
}

static void run_done(struct ds_worker_call *call, const struct ds_worker_answer *answer)
{
        struct ds_client_op *op = DS_CONTAINER_OF(call, struct ds_client_op, call);
        const char *policy = DS_CONTAINER_OF(op, struct run_op, op)->policy;
        struct ds_client *client = op->client;
        struct ds_supervisor *supervisor = ds_client_supervisor(client);
        uint64_t id = op->request_id;
        int status = answer ? answer->message->status : DETSHARE__STATUS__RESTARTING;

        if (!status && strcmp(ds_worker_policy(supervisor->worker), policy))
                ds_log(DS_LOG_INFO, "policy %s for a profiling run (by uid %u)", policy,
                        (unsigned)ds_user_uid(ds_client_user(client)));
        if (!status)
                ds_worker_note_policy(supervisor->worker, policy);
        else
                run_refused(client, policy);
        ds_client_op_end(op);
        ds_client_answer(client, id, status, "%s",
                !answer  ? "the worker is being restarted; retry"
                : status ? answer->message->message
                         : "");
}

static void run_begin(struct ds_client *client, const Detshare__Request *request)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__SetPolicy set = DETSHARE__SET_POLICY__INIT;
        struct ds_supervisor *supervisor = ds_client_supervisor(client);
        struct run_op *run = ds_client_op_new(client, request->id, sizeof(*run), run_done);

        if (!run)
                return;
        run->policy = request->profile_run->calibrate ? DS_CALIBRATE_POLICY : DS_PROFILE_POLICY;
        set.name = (char *)run->policy;
        set.params = request->profile_run->params;
        set.n_params = request->profile_run->n_params;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SET_POLICY;
        message.set_policy = &set;
        /* marks the run as begun before the worker's answer, because the client may disconnect before the answer
         * arrives */
        supervisor->profiling = ds_client_session(client)->id;
        if (!ds_worker_send(supervisor->worker, &message, NULL, 0, &run->op.call))
                return;
        run_refused(client, run->policy);
        ds_client_op_end(&run->op);
        ds_client_answer(client, request->id, DETSHARE__STATUS__RESTARTING, "the worker is being restarted; retry");
}

void ds_handle_profile_run(struct ds_client *client, Detshare__Request *request, int *fds)
{
        struct ds_supervisor *supervisor = ds_client_supervisor(client);
        int own = supervisor->profiling == ds_client_session(client)->id;

        if (request->profile_run->end) {
                if (own)
                        put_back(supervisor);
                ds_client_answer(client, request->id, own ? 0 : DETSHARE__STATUS__BAD_REQUEST, "%s",
                        own ? "" : "this connection has no profiling run");
        } else if (supervisor->profiling && !(own && request->profile_run->calibrate))
                ds_client_answer(client, request->id, DETSHARE__STATUS__BAD_REQUEST,
                        "session %llu has a profiling run; retry when it has ended",
                        (unsigned long long)supervisor->profiling);
        else
                run_begin(client, request);
}

/* --- calibration -------------------------------------------------------------------------------------------------- */

/* Channel calibration as sent to a client. */
struct packed_channels {
        Detshare__ChannelCalibration channels;
        Detshare__ChannelCell cells[DS_CALIBRATION_CELLS_MAX], *pointers[DS_CALIBRATION_CELLS_MAX];
};

static void pack_channels(const struct ds_calibration_gpu *gpu, struct packed_channels *ret)
{
        detshare__channel_calibration__init(&ret->channels);
        ret->channels.channels = gpu->channels;
        ret->channels.be = gpu->be;
        for (uint32_t i = 0; i < gpu->n; i++) {
                detshare__channel_cell__init(&ret->cells[i]);
                ret->cells[i].ls_load = gpu->cells[i].ls_load;
                ret->cells[i].be_load = gpu->cells[i].be_load;
                ret->cells[i].be_channels = gpu->cells[i].be_channels;
                ret->cells[i].be_blocks = gpu->cells[i].be_blocks;
                ret->cells[i].ls_permille = gpu->cells[i].ls_permille;
                ret->cells[i].be_permille = gpu->cells[i].be_permille;
                ret->pointers[i] = &ret->cells[i];
        }
        ret->channels.cells = ret->pointers;
        ret->channels.n_cells = gpu->n;
}

static void pack_calibration(const struct ds_profile_job *job, Detshare__CalibrationReply *ret,
        Detshare__CalibrationCell cells[static DS_PROFILE_INTERFERENCE_MAX],
        Detshare__CalibrationCell *pointers[static DS_PROFILE_INTERFERENCE_MAX])
{
        for (size_t i = 0; i < job->n; i++) {
                detshare__calibration_cell__init(&cells[i]);
                cells[i].ls_load = job->cells[i].ls_load;
                cells[i].be_load = job->cells[i].be_load;
                cells[i].be_sms = job->cells[i].be_sms;
                cells[i].be_blocks = job->cells[i].be_blocks;
                cells[i].ls_permille = job->cells[i].ls_permille;
                cells[i].be_permille = job->cells[i].be_permille;
                pointers[i] = &cells[i];
        }
        ret->cells = pointers;
        ret->n_cells = job->n;
        ret->gpu = (char *)job->model;
}

static void reply_calibration(struct ds_client *client, const struct ds_profile_job *job)
{
        Detshare__CalibrationCell cells[DS_PROFILE_INTERFERENCE_MAX], *pointers[DS_PROFILE_INTERFERENCE_MAX];
        Detshare__CalibrationReply calibration = DETSHARE__CALIBRATION_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        struct ds_supervisor *supervisor = job->user;
        const struct ds_calibration_gpu *gpu = ds_calibration_find(&supervisor->calibration, job->model);
        struct ds_profile_figures figures;
        struct packed_channels channels;

        pack_calibration(job, &calibration, cells, pointers);
        ds_profile_store_figures(supervisor->profiles, &figures);
        calibration.simulated = ds_worker_info(supervisor->worker)->simulated;
        calibration.in_memory = figures.in_memory;
        if (gpu) {
                pack_channels(gpu, &channels);
                calibration.channels = &channels.channels;
        }
        reply.result_case = DETSHARE__REPLY__RESULT_GET_CALIBRATION;
        reply.get_calibration = &calibration;
        ds_client_reply(client, job->request_id, &reply, NULL, 0);
}

static void calibration_answer(struct ds_profile_job *job)
{
        struct ds_client *client = asker(job);

        if (job->what == DS_PROFILE_CALIBRATE && !job->r)
                tell_calibration(job);
        if (client && job->r)
                ds_client_answer(client, job->request_id, DETSHARE__STATUS__INTERNAL,
                        "the profile database could not be read or written");
        else if (client && job->what == DS_PROFILE_CALIBRATION)
                reply_calibration(client, job);
        else if (client)
                ds_client_answer(client, job->request_id, 0, "%s", "");
        ds_profile_job_free(job);
}

static int same_combination(const Detshare__CalibrationCell *a, const Detshare__CalibrationCell *b)
{
        return a->ls_load == b->ls_load && a->be_load == b->be_load && a->be_sms == b->be_sms &&
               a->be_blocks == b->be_blocks;
}

/* Returns NULL, or the reason why cell `at` is invalid. */
static const char *cell_wrong(const Detshare__PutCalibration *put, size_t at, uint32_t n_sms)
{
        const Detshare__CalibrationCell *cell = put->cells[at];

        if (cell->ls_load >= DS_PROFILE_LOADS || cell->be_load >= DS_PROFILE_LOADS)
                return "a kernel's kind is not accepted; 0 (compute), 1 (read) and 2 (write) are";
        if (!cell->be_sms || cell->be_sms > n_sms)
                return "its number of SMs is above the GPU's";
        if (cell->be_blocks > CELL_BLOCKS_MAX)
                return "its bound of resident blocks is above the largest accepted";
        if (!cell->ls_permille || cell->ls_permille > CELL_PERMILLE_MAX || cell->be_permille > CELL_PERMILLE_MAX)
                return "it has no measured time or rate";
        for (size_t i = 0; i < at; i++)
                if (same_combination(cell, put->cells[i]))
                        return "its combination was given before";
        return NULL;
}

/* Checks the cells of a calibration. Returns 0, or -1: the request is answered. */
static int check_cells(struct ds_client *client, const Detshare__Request *request)
{
        const struct ds_worker_info *info = ds_worker_info(ds_client_supervisor(client)->worker);
        const Detshare__PutCalibration *put = request->put_calibration;

        for (size_t i = 0; i < put->n_cells; i++) {
                const char *wrong = cell_wrong(put, i, info->n_sms);

                if (!wrong)
                        continue;
                ds_client_answer(client, request->id, DETSHARE__STATUS__BAD_PARAMETER, "cell %zu: %s", i + 1, wrong);
                return -1;
        }
        if (put->n_cells || put->channels)
                return 0;
        ds_client_answer(client, request->id, DETSHARE__STATUS__BAD_PARAMETER,
                "there are neither cells nor channels; one of them is needed");
        return -1;
}

/* Stores the channel calibration of the request at once. Returns -1 if the request is answered. */
static int take_channels(struct ds_client *client, const Detshare__Request *request)
{
        struct ds_supervisor *supervisor = ds_client_supervisor(client);
        const Detshare__ChannelCalibration *from = request->put_calibration->channels;
        struct ds_calibration_gpu gpu = {.channels = from->channels, .be = from->be};
        const char *wrong;
        int r;

        ds_profiles_gpu(supervisor, gpu.name);
        for (; gpu.n < from->n_cells && gpu.n < DS_CALIBRATION_CELLS_MAX; gpu.n++) {
                const Detshare__ChannelCell *cell = from->cells[gpu.n];

                gpu.cells[gpu.n] = (struct ds_calibration_cell){cell->ls_load, cell->be_load, cell->be_channels,
                        cell->be_blocks, cell->ls_permille, cell->be_permille};
        }
        wrong = ds_calibration_wrong(&gpu);
        if (wrong) {
                ds_client_answer(client, request->id, DETSHARE__STATUS__BAD_PARAMETER, "channels: %s", wrong);
                return -1;
        }
        r = ds_calibration_put(&supervisor->calibration, &gpu);
        if (!r)
                return 0;
        ds_client_answer(client, request->id, DETSHARE__STATUS__INTERNAL,
                "the calibration of memory channels cannot be %s", r == -ENOMEM ? "kept in memory" : "written");
        return -1;
}

/* Creates a job about calibrations. NULL: the request is answered. */
static struct ds_profile_job *calibration_job(
        struct ds_client *client, uint64_t id, enum ds_profile_what what, size_t n)
{
        struct ds_profile_job *job = job_new(ds_client_supervisor(client), what, n, calibration_answer);

        if (!job)
                answer_busy(client, id);
        return job;
}

void ds_handle_put_calibration(struct ds_client *client, Detshare__Request *request, int *fds)
{
        const Detshare__PutCalibration *put = request->put_calibration;
        struct ds_profile_job *job;

        if (check_cells(client, request) || (put->channels && take_channels(client, request)))
                return;
        if (!put->n_cells) {
                ds_client_answer(client, request->id, 0, "%s", "");
                return;
        }
        job = calibration_job(client, request->id, DS_PROFILE_CALIBRATE, put->n_cells);
        if (!job)
                return;
        for (size_t i = 0; i < put->n_cells; i++)
                job->cells[i] = (struct ds_profile_interference){put->cells[i]->ls_load, put->cells[i]->be_load,
                        put->cells[i]->be_sms, put->cells[i]->be_blocks, put->cells[i]->ls_permille,
                        put->cells[i]->be_permille};
        job_ask(client, request->id, job);
}

void ds_handle_forget_calibration(struct ds_client *client, Detshare__Request *request, int *fds)
{
        struct ds_supervisor *supervisor = ds_client_supervisor(client);
        struct ds_profile_job *job = calibration_job(client, request->id, DS_PROFILE_CALIBRATE, 0);

        if (job && ds_calibration_forget(&supervisor->calibration, job->model))
                ds_log(DS_LOG_WARNING,
                        "%s: the calibration of its memory channels could not be deleted and may be back at the next "
                        "start",
                        job->model);
        if (job)
                job_ask(client, request->id, job);
}

void ds_handle_get_calibration(struct ds_client *client, Detshare__Request *request, int *fds)
{
        struct ds_profile_job *job =
                calibration_job(client, request->id, DS_PROFILE_CALIBRATION, DS_PROFILE_INTERFERENCE_MAX);

        if (job)
                job_ask(client, request->id, job);
}
