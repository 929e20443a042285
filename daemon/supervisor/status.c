/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status and lists: the supervisor's own data, combined with the worker's
 *
 * The supervisor asks the worker with a time limit, so the status is available while the worker restarts or hangs. Then
 * the last known values of the worker are returned, and the reply says so. Values that the supervisor counts itself
 * (windows, charges, memory, modules) are always exact.
 */
#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "supervisor/client.h"
#include "supervisor/code_store.h"
#include "supervisor/handlers.h"
#include "supervisor/helper_link.h"
#include "supervisor/policy.h"
#include "supervisor/profiles.h"
#include "supervisor/session.h"
#include "supervisor/supervisor.h"
#include "supervisor/worker_link.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/macro.h"

#define WORKER_MAX_MS 1000u
#define CLIENTS_PAGE 128u
#define FDS_SHARE 20u /* counting open descriptors takes at most 1/20 of the time */
#define POLICY_NAME_MAX 63u
#define PARAM_BYTES_MAX 256u

struct list_op {
        struct ds_client_op op;
        uint64_t after;
};

struct policy_op {
        struct ds_client_op op;
        size_t n_params;
        char *params[DS_POLICY_PARAMS_MAX];
        int configured; /* 1: the parameters came from the configuration */
        char name[POLICY_NAME_MAX + 1];
};

static struct ds_client_op *op_of(struct ds_worker_call *call)
{
        return DS_CONTAINER_OF(call, struct ds_client_op, call);
}

static int ask(struct ds_client_op *op, Detshare__Internal__ToWorker *message)
{
        return ds_worker_send(ds_client_supervisor(op->client)->worker, message, NULL, 0, &op->call);
}

static void answer_restarting(struct ds_client_op *op)
{
        struct ds_client *client = op->client;
        uint64_t id = op->request_id;

        ds_client_op_end(op);
        ds_client_answer(client, id, DETSHARE__STATUS__RESTARTING, "the worker is being restarted; retry");
}

/* --- status ------------------------------------------------------------------------------------------------------- */

static uint64_t thread_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return (uint64_t)now.tv_sec * DS_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Counts the open descriptors that are held for clients. beside: number of the others. */
static uint32_t count_fds(uint32_t beside)
{
        DIR *directory = opendir("/proc/self/fd");
        uint32_t n = 0;

        beside += 3; /* the directory lists ".", ".." and its own descriptor, too */
        if (!directory)
                return 0;
        while (readdir(directory))
                n++;
        closedir(directory);
        return n < beside ? 0 : n - beside;
}

/*
 * Returns the number of open descriptors. Every user may request the status, and counting ten thousand descriptors
 * takes ten milliseconds. So counting takes at most a twentieth of the time, however often it is requested; otherwise
 * the last count is returned.
 */
static uint32_t open_fds(struct ds_supervisor *supervisor)
{
        struct ds_open_fds *fds = &supervisor->open_fds;
        uint64_t begin;

        if (uv_hrtime() < fds->next_ns)
                return fds->n;
        begin = thread_ns();
        fds->n = count_fds(ds_helper_count(supervisor->helper) + (uint32_t)ds_helper_remembered(supervisor->helper));
        fds->next_ns = uv_hrtime() + FDS_SHARE * (thread_ns() - begin);
        return fds->n;
}

/* Adds the sums of all sessions' ledgers. */
static void add_sessions(const struct ds_supervisor *supervisor, Detshare__StatusReply *status)
{
        const struct ds_session *session;
        struct ds_ledger_sums sums;

        TAILQ_FOREACH(session, &supervisor->sessions, link)
        {
                if (!session->ledger)
                        continue;
                if (session->client) {
                        status->sessions++;
                        status->sessions_ls += session->class_ == DETSHARE__CLASS__LS;
                }
                ds_ledger_sums(session->ledger, &sums);
                status->memory_slabs += sums.slab_bytes;
                status->memory_used += sums.alloc_bytes;
                status->modules += sums.modules;
        }
}

static void add_worker_stats(const struct ds_supervisor *supervisor, Detshare__StatusReply *status)
{
        const struct ds_worker_figures *last = &supervisor->last_figures;

        status->launches = last->launches;
        status->completed = last->completed;
        status->errors = last->errors;
        status->in_flight = last->in_flight;
        status->queued = last->queued;
        status->device_now_ns = last->device_now_ns;
        status->policy_fallbacks = last->fallbacks;
        status->policy_fallback = (char *)(last->fallback[0] ? last->fallback : ds_worker_fallback(supervisor->worker));
        status->quiesces = last->quiesces;
        status->quiesce_ns = last->quiesce_ns;
        status->quiesce_stop_ns = last->quiesce_stop_ns;
        status->quiesce_hits = last->quiesce_hits;
        status->spin_ns = last->spin_ns;
        status->request_spin_ns = supervisor->turns.spin.limit_ns;
        status->worker_cpu_ns = last->cpu_ns;
        status->supervisor_cpu_ns = ds_process_cpu_ns();
        status->migrations = last->migrations;
        status->loans = last->loans;
        status->kills = last->kills;
        status->policy_nonsense = last->nonsense;
        status->evictions = last->evictions;
        status->resumes = last->resumed;
        status->launches_sliced = last->sliced;
        status->launches_persistent = last->persistent;
        status->modules_transformed = last->modules_transformed;
}

static void add_images(const struct ds_supervisor *supervisor, Detshare__StatusReply *status)
{
        const struct ds_helper_figures *figures = ds_helper_figures(supervisor->helper);
        struct ds_code_figures files = {0};

        if (supervisor->code_store)
                ds_code_store_figures(supervisor->code_store, &files);
        status->images = figures->images;
        status->images_known = figures->known;
        status->code_remembered = figures->remembered;
        status->code_stored = figures->stored;
        status->code_compiled = figures->compiled;
        status->code_damaged = figures->damaged;
        status->forms_made = figures->forms_made;
        status->forms_found = figures->forms_found;
        status->forms_failed = figures->forms_failed;
        status->forms_ns = figures->forms_ns;
        status->code_files = files.files;
        status->code_bytes = files.bytes;
}

static void reply_status(struct ds_client *client, uint64_t id, int fresh)
{
        struct ds_supervisor *supervisor = ds_client_supervisor(client);
        const struct ds_worker_info *info = ds_worker_info(supervisor->worker);
        Detshare__StatusReply status = DETSHARE__STATUS_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        uint32_t list[DS_POOL_CHANNELS_MAX];
        char gpu[DS_PROFILE_MODEL_MAX + 1];

        status.version = (char *)DETSHARE_VERSION;
        status.uptime_ns = uv_hrtime() - supervisor->started_ns;
        status.device = (char *)info->name;
        status.simulated = info->simulated;
        status.worker_state = (char *)ds_daemon_state_name(supervisor->state);
        status.worker_pid = (uint32_t)ds_worker_pid(supervisor->worker);
        status.worker_restarts = ds_worker_restarts(supervisor->worker);
        status.helper_pid = (uint32_t)ds_helper_pid(supervisor->helper);
        status.policy = (char *)ds_worker_policy(supervisor->worker);
        status.transform = (char *)ds_transform_name(supervisor->options->transform);
        status.memory_total = info->memory_bytes;
        status.n_sms = info->n_sms;
        status.n_tpcs = info->n_tpcs;
        status.n_gpcs = info->n_gpcs;
        status.n_rungs = info->n_rungs;
        status.device_own_bytes = info->own_bytes;
        status.n_coarse_rungs = info->n_coarse_rungs;
        status.ladder_bytes = info->ladder_bytes;
        status.ladder_ns = info->ladder_ns;
        status.topology = (char *)info->topology;
        status.open_fds = open_fds(supervisor);
        status.windows = ds_windows_count(supervisor->windows);
        /* control connections do not count, so that the value is 0 without other clients */
        status.charges = ds_users_charges(supervisor->users) - supervisor->n_control_only;
        status.worker_answers = fresh;
        add_sessions(supervisor, &status);
        add_worker_stats(supervisor, &status);
        add_images(supervisor, &status);
        ds_profiles_gpu(supervisor, gpu);
        ds_pool_status(&supervisor->pool, supervisor->options->config, &supervisor->calibration, gpu,
                ds_pool_lent(supervisor), list, &status);
        reply.result_case = DETSHARE__REPLY__RESULT_GET_STATUS;
        reply.get_status = &status;
        ds_client_reply(client, id, &reply, NULL, 0);
}

static void finish_status(struct ds_client_op *op, int fresh)
{
        struct ds_client *client = op->client;
        uint64_t id = op->request_id;

        ds_client_op_end(op);
        reply_status(client, id, fresh);
}

static void note_stats(struct ds_supervisor *supervisor, const Detshare__Internal__WorkerStatsReply *stats)
{
        supervisor->last_figures = (struct ds_worker_figures){
                .launches = stats->launches,
                .completed = stats->completed,
                .errors = stats->errors,
                .in_flight = stats->in_flight,
                .queued = stats->queued,
                .device_now_ns = stats->device_now_ns,
                .fallbacks = stats->fallbacks,
                .quiesces = stats->quiesces,
                .quiesce_ns = stats->quiesce_ns,
                .quiesce_stop_ns = stats->quiesce_stop_ns,
                .quiesce_hits = stats->quiesce_hits,
                .spin_ns = stats->spin_ns,
                .cpu_ns = stats->cpu_ns,
                .migrations = stats->migrations,
                .loans = stats->loans,
                .kills = stats->kills,
                .nonsense = stats->nonsense,
                .evictions = stats->evictions,
                .resumed = stats->resumed,
                .sliced = stats->sliced,
                .persistent = stats->persistent,
                .modules_transformed = stats->modules_transformed,
        };
        snprintf(supervisor->last_figures.fallback, sizeof(supervisor->last_figures.fallback), "%s", stats->fallback);
        ds_worker_note_policy(supervisor->worker, stats->policy);
}

static void status_done(struct ds_worker_call *call, const struct ds_worker_answer *answer)
{
        struct ds_client_op *op = op_of(call);
        int fresh = answer && answer->message->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_STATS;

        if (fresh)
                note_stats(ds_client_supervisor(op->client), answer->message->stats);
        finish_status(op, fresh);
}

static void status_deadline(struct ds_deadline *deadline)
{
        finish_status(DS_CONTAINER_OF(deadline, struct ds_client_op, deadline), 0);
}

void ds_handle_get_status(struct ds_client *client, Detshare__Request *request, int *fds)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__WorkerStats stats = DETSHARE__INTERNAL__WORKER_STATS__INIT;
        struct ds_client_op *op = ds_client_op_new(client, request->id, sizeof(*op), status_done);

        if (!op)
                return;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_STATS;
        message.stats = &stats;
        if (ask(op, &message))
                finish_status(op, 0);
        else
                ds_deadline_arm(
                        &ds_client_supervisor(client)->deadlines, &op->deadline, WORKER_MAX_MS, status_deadline);
}

/* --- clients ------------------------------------------------------------------------------------------------------ */

/* The entry with this id in a list that is sorted by id, ascending. */
static const Detshare__StatsReply *find_stats(const Detshare__Internal__SessionListReply *list, uint64_t id)
{
        for (size_t i = 0; list && i < list->n_sessions; i++)
                if (list->sessions[i]->session == id)
                        return list->sessions[i]->stats;
        return NULL;
}

static void fill_entry(
        Detshare__ClientEntry *entry, const struct ds_session *session, const Detshare__StatsReply *stats)
{
        struct ds_ledger_sums sums = {0};

        detshare__client_entry__init(entry);
        if (session->ledger)
                ds_ledger_sums(session->ledger, &sums);
        entry->session = session->id;
        entry->pid = (uint32_t)session->pid;
        entry->uid = (uint32_t)ds_user_uid(session->user);
        entry->name = (char *)session->name;
        entry->class_ = session->class_;
        DS_SLO_WRITE(entry, &session->slo);
        entry->memory_used = sums.alloc_bytes;
        entry->memory_limit = session->memory_limit;
        entry->gpu_request = session->share.request;
        entry->gpu_limit = session->share.limit;
        entry->sm_percent = session->sm_percent;
        entry->control_only = session->control_only;
        entry->connected_ns = uv_hrtime() - session->connected_ns;
        if (!stats)
                return;
        entry->launches = stats->launches;
        entry->completed = stats->completed;
        entry->errors = stats->errors;
        entry->queued = stats->queued;
        entry->in_flight = stats->in_flight;
        entry->device_ns = stats->device_ns;
}

static void reply_clients(
        struct ds_client *client, uint64_t id, uint64_t after, const Detshare__Internal__SessionListReply *stats)
{
        const struct ds_supervisor *supervisor = ds_client_supervisor(client);
        Detshare__ClientEntry entries[CLIENTS_PAGE], *pointers[CLIENTS_PAGE];
        Detshare__ClientList list = DETSHARE__CLIENT_LIST__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        const struct ds_session *session;
        int admin = ds_client_is_admin(client);

        TAILQ_FOREACH(session, &supervisor->sessions, link)
        {
                if (session->id <= after || !session->client)
                        continue;
                /* only administrators see the sessions of other users */
                if (!admin && session->user != ds_client_user(client))
                        continue;
                if (list.n_clients == CLIENTS_PAGE) {
                        list.more = 1;
                        break;
                }
                fill_entry(&entries[list.n_clients], session, find_stats(stats, session->id));
                pointers[list.n_clients] = &entries[list.n_clients];
                list.n_clients++;
        }
        list.clients = pointers;
        reply.result_case = DETSHARE__REPLY__RESULT_LIST_CLIENTS;
        reply.list_clients = &list;
        ds_client_reply(client, id, &reply, NULL, 0);
}

static void finish_clients(struct ds_client_op *op, const Detshare__Internal__SessionListReply *stats)
{
        struct ds_client *client = op->client;
        uint64_t id = op->request_id, after = DS_CONTAINER_OF(op, struct list_op, op)->after;

        ds_client_op_end(op);
        reply_clients(client, id, after, stats);
}

static void clients_done(struct ds_worker_call *call, const struct ds_worker_answer *answer)
{
        int listed = answer && answer->message->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_SESSION_LIST;

        finish_clients(op_of(call), listed ? answer->message->session_list : NULL);
}

static void clients_deadline(struct ds_deadline *deadline)
{
        finish_clients(DS_CONTAINER_OF(deadline, struct ds_client_op, deadline), NULL);
}

void ds_handle_list_clients(struct ds_client *client, Detshare__Request *request, int *fds)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__SessionList list = DETSHARE__INTERNAL__SESSION_LIST__INIT;
        struct list_op *op = ds_client_op_new(client, request->id, sizeof(*op), clients_done);

        if (!op)
                return;
        op->after = list.after = request->list_clients->after;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SESSION_LIST;
        message.session_list = &list;
        if (ask(&op->op, &message))
                finish_clients(&op->op, NULL);
        else
                ds_deadline_arm(
                        &ds_client_supervisor(client)->deadlines, &op->op.deadline, WORKER_MAX_MS, clients_deadline);
}

/* --- policies ----------------------------------------------------------------------------------------------------- */

static void list_policies_done(struct ds_worker_call *call, const struct ds_worker_answer *answer)
{
        struct ds_client_op *op = op_of(call);
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        struct ds_client *client = op->client;
        uint64_t id = op->request_id;

        if (!answer) {
                answer_restarting(op);
                return;
        }
        ds_client_op_end(op);
        if (answer->message->body_case != DETSHARE__INTERNAL__FROM_WORKER__BODY_POLICIES) {
                ds_client_answer(client, id, DETSHARE__STATUS__INTERNAL, "the policies could not be listed");
                return;
        }
        reply.result_case = DETSHARE__REPLY__RESULT_LIST_POLICIES;
        reply.list_policies = answer->message->policies;
        ds_client_reply(client, id, &reply, NULL, 0);
}

void ds_handle_list_policies(struct ds_client *client, Detshare__Request *request, int *fds)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        struct ds_client_op *op = ds_client_op_new(client, request->id, sizeof(*op), list_policies_done);

        if (!op)
                return;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_LIST_POLICIES;
        message.list_policies = request->list_policies;
        if (ask(op, &message))
                answer_restarting(op);
}

static void set_policy_done(struct ds_worker_call *call, const struct ds_worker_answer *answer)
{
        struct policy_op *op = DS_CONTAINER_OF(op_of(call), struct policy_op, op);
        struct ds_client *client = op->op.client;
        uint64_t id = op->op.request_id;
        char place[DS_POLICY_WORDS_MAX];
        const char *words;
        int status;

        if (!answer) {
                answer_restarting(&op->op);
                return;
        }
        status = answer->message->status;
        words = answer->message->message;
        if (op->configured)
                words = ds_policy_words(ds_client_supervisor(client)->config, op->name, words, place);
        if (status == 0) {
                /* the policy is also stored for workers that start later */
                if (ds_worker_set_policy(ds_client_supervisor(client)->worker, op->name, op->params, op->n_params))
                        status = DETSHARE__STATUS__INTERNAL;
                else
                        ds_log(DS_LOG_INFO, "policy %s (set by uid %u)", op->name,
                                (unsigned)ds_user_uid(ds_client_user(client)));
        }
        ds_client_op_end(&op->op);
        if (status && !words[0])
                ds_client_answer(client, id, status, "the policy could not be set");
        else
                ds_client_answer(client, id, status, "%s", status ? words : "");
}

/* Checks the request. Returns 0, or the request is answered. */
static int check_policy(struct ds_client *client, uint64_t id, const Detshare__SetPolicy *set)
{
        if (!set->name[0] || strlen(set->name) > POLICY_NAME_MAX || strchr(set->name, '/')) {
                ds_client_answer(client, id, DETSHARE__STATUS__BAD_PARAMETER,
                        "a policy's name has 1 to %u characters without '/'", POLICY_NAME_MAX);
                return -1;
        }
        for (size_t i = 0; i < set->n_params; i++) {
                if (strlen(set->params[i]) > PARAM_BYTES_MAX) {
                        ds_client_answer(client, id, DETSHARE__STATUS__BAD_PARAMETER,
                                "parameter %zu has more than %u characters, the most accepted", i + 1, PARAM_BYTES_MAX);
                        return -1;
                }
        }
        return 0;
}

void ds_handle_set_policy(struct ds_client *client, Detshare__Request *request, int *fds)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__SetPolicy *set = request->set_policy, own;
        char *params[DS_CONFIG_PARAMS_MAX], *text;
        size_t bytes = sizeof(struct policy_op);
        struct policy_op *op;

        if (check_policy(client, request->id, set))
                return;
        own = *set;
        /* a request without parameters uses those of the configuration */
        if (set->n_params == 0) {
                own.n_params = ds_policy_params(ds_client_supervisor(client)->config, set->name, params);
                own.params = params;
                set = &own;
        }
        for (size_t i = 0; i < set->n_params; i++)
                bytes += strlen(set->params[i]) + 1;
        op = ds_client_op_new(client, request->id, bytes, set_policy_done);
        if (!op)
                return;
        assert(set->n_params <= DS_ARRAY_SIZE(op->params)); /* the bound comes from this message's row in unpack.c */
        snprintf(op->name, sizeof(op->name), "%s", set->name);
        op->configured = set == &own;
        /* the text of the parameters is stored behind the op */
        text = (char *)(op + 1);
        for (size_t i = 0; i < set->n_params; i++) {
                op->params[op->n_params++] = text;
                text = stpcpy(text, set->params[i]) + 1;
        }
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SET_POLICY;
        message.set_policy = set;
        if (ask(&op->op, &message))
                answer_restarting(&op->op);
}
