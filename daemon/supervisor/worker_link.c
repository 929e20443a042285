/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/worker_link.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "proto/wire.h"
#include "supervisor/client.h"
#include "supervisor/ledger.h"
#include "supervisor/message.h"
#include "supervisor/policy.h"
#include "supervisor/process.h"
#include "supervisor/profiles.h"
#include "supervisor/session.h"
#include "supervisor/supervisor.h"
#include "supervisor/unpack.h"
#include "util/error.h"
#include "util/macro.h"

#define OUT_MAX (64u << 20) /* most bytes queued for the worker; a worker with more of them counts as dead */
#define READY_MAX_MS 60000u /* longest time from a worker's start to its Ready message */
#define PING_EVERY_MS 5000u
#define PING_MAX_MS 10000u /* longest time until a ping is answered; a worker that takes longer hangs */
#define BACKOFF_FIRST_MS 100u
#define BACKOFF_MAX_MS 5000u
#define SETTLED_NS DS_NS_PER_S /* a worker that dies later than this after its Ready is replaced without delay */
#define HUNG_AGAIN_NS (600 * DS_NS_PER_S)
#define EARLY_DEATHS_MAX 3u /* deaths of a worker soon after its start before its policy is suspected */
#define BUILTIN_POLICY "fifo"
#define ARGUMENTS_MAX 72
#define OLD_MAX 3u /* most workers that are lost but not reaped; with more of them the next start waits */

/* A lost worker whose successor has been started; it only has to be reaped. */
struct old_worker {
        ds_worker_link *link;
        ds_process *process;
        int said; /* 1: the reason of its end was logged */
};

/* A message that the worker has not answered. */
struct unanswered {
        uint64_t id;
        UT_hash_handle hh;
        struct ds_worker_call *call; /* NULL: the call was cancelled */
        struct ds_charge charge;
};

struct ds_worker_link {
        struct ds_supervisor *supervisor;
        enum ds_worker_state state;
        ds_process *process;
        uint64_t next_id;
        struct unanswered *unanswered;
        struct ds_worker_call ping, params_call, stop;
        /* serves one purpose at a time: the limit for Ready, the next ping, its answer, or the next start */
        struct ds_deadline deadline;
        struct ds_worker_info info;
        int was_ready;   /* a worker has been ready at least once */
        int device_lost; /* 1: the worker has reported that its context is lost */
        uint32_t n_old;
        int stopping;
        uint64_t ready_ns;
        uint64_t hung_ns; /* time of the last hang, 0: never */
        uint32_t starts, early_deaths, backoff_ms;
        char policy[64]; /* policy with which the next worker starts */
        size_t n_params;
        char *params[DS_POLICY_PARAMS_MAX];
        char active_policy[64];
        char reason[256];   /* last error message of a worker that failed to start */
        char fallback[448]; /* reason for the built-in policy, see ds_worker_fallback() */
};

static const struct ds_log_about worker_lost = {.event = DS_EVENT_WORKER_LOST};
static const struct ds_log_about policy_replaced = {.event = DS_EVENT_POLICY_REPLACED};

static void ready_deadline(struct ds_deadline *deadline);
static void start_deadline(struct ds_deadline *deadline);
static void ping_deadline(struct ds_deadline *deadline);
static void hang_deadline(struct ds_deadline *deadline);

static const char *const state_names[_DS_WORKER_STATE_MAX] = {
        [DS_WORKER_DOWN] = "down",
        [DS_WORKER_STARTING] = "starting",
        [DS_WORKER_READY] = "ready",
        [DS_WORKER_LOST] = "lost",
};

static void set_state(ds_worker_link *link, enum ds_worker_state state)
{
        assert(state >= 0 && state < _DS_WORKER_STATE_MAX);
        ds_log(DS_LOG_DEBUG, "worker: %s -> %s", state_names[link->state], state_names[state]);
        link->state = state;
}

static ds_worker_link *link_of(struct ds_deadline *deadline)
{
        return DS_CONTAINER_OF(deadline, ds_worker_link, deadline);
}

static void arm(ds_worker_link *link, uint64_t ms, void (*fn)(struct ds_deadline *))
{
        ds_deadline_arm(&link->supervisor->deadlines, &link->deadline, ms, fn);
}

static void disarm(ds_worker_link *link)
{
        ds_deadline_disarm(&link->supervisor->deadlines, &link->deadline);
}

int ds_worker_link_new(struct ds_supervisor *supervisor, ds_worker_link **ret)
{
        ds_worker_link *link = ds_alloc0(1, sizeof(*link));

        if (!link)
                return ds_error_origin(-ENOMEM);
        link->supervisor = supervisor;
        link->ping.image_fd = link->params_call.image_fd = link->stop.image_fd = -1;
        snprintf(link->policy, sizeof(link->policy), "%s", supervisor->options->policy);
        *ret = link;
        return 0;
}

static void drop_params(ds_worker_link *link)
{
        for (size_t i = 0; i < link->n_params; i++)
                link->params[i] = ds_free(link->params[i]);
        link->n_params = 0;
}

ds_worker_link *ds_worker_link_free(ds_worker_link *link)
{
        if (!link)
                return NULL;
        assert(!link->process);
        assert(link->n_old == 0);
        assert(!link->unanswered);
        disarm(link);
        drop_params(link);
        return ds_free(link);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* Registers the call for the answer to message `id`, and keeps its charge until then. Returns 0 or -ENOMEM. */
static int expect(ds_worker_link *link, uint64_t id, struct ds_worker_call *call)
{
        struct unanswered *unanswered = ds_alloc0(1, sizeof(*unanswered));

        assert(!call->id);
        if (!unanswered)
                return ds_error_origin(-ENOMEM);
        unanswered->id = id;
        HASH_ADD(hh, link->unanswered, id, sizeof(unanswered->id), unanswered);
        if (!ds_hash_added(unanswered)) {
                ds_free(unanswered);
                return ds_error_origin(-ENOMEM);
        }
        unanswered->call = call;
        ds_charge_move(&unanswered->charge, &call->charge);
        call->id = id;
        return 0;
}

/* Time for which the worker may poll for more after a request of this user, ns. */
static uint64_t spin_after(const ds_worker_link *link, const ds_user *user)
{
        return ds_spin_ask(&link->supervisor->turns.spin, ds_user_uid(user), uv_hrtime());
}

int ds_worker_send(ds_worker_link *link, Detshare__Internal__ToWorker *message, const int *fds, size_t n_fds,
        struct ds_worker_call *call)
{
        const uint8_t *bytes;
        size_t size;
        int r;

        assert(n_fds <= DS_FRAME_FDS_MAX);
        if (link->state != DS_WORKER_READY)
                return -EPIPE;
        message->id = call ? ++link->next_id : 0;
        message->fds = (uint32_t)n_fds;
        message->spin_ns = call && call->charge.user ? spin_after(link, call->charge.user) : 0;
        r = ds_message_pack(&message->base, DS_PROCESS_FRAME_MAX, &bytes, &size);
        if (r)
                return ds_error_fold(r);
        if (call) {
                r = expect(link, message->id, call);
                if (r)
                        return ds_error_trace(r);
        }
        r = ds_process_send(link->process, bytes, size, fds, n_fds);
        /* if the worker has just died, the call ends with its loss, like the calls sent before */
        return call ? 0 : r;
}

int ds_worker_busy(const ds_worker_link *link)
{
        return link->state == DS_WORKER_READY && ds_process_has_enough(link->process);
}

static struct unanswered *find_unanswered(ds_worker_link *link, uint64_t id)
{
        struct unanswered *found = NULL;

        if (id)
                HASH_FIND(hh, link->unanswered, &id, sizeof(id), found);
        return found;
}

void ds_worker_cancel(ds_worker_link *link, struct ds_worker_call *call)
{
        struct unanswered *unanswered = find_unanswered(link, call->id);

        if (unanswered)
                unanswered->call = NULL;
        call->id = 0;
}

static struct ds_worker_call *find_call(ds_worker_link *link, uint64_t id)
{
        struct unanswered *unanswered = find_unanswered(link, id);

        return unanswered ? unanswered->call : NULL;
}

/* Ends the wait for an answer. Returns the call with its charge; NULL: the call was cancelled. */
static struct ds_worker_call *end_unanswered(ds_worker_link *link, struct unanswered *unanswered)
{
        struct ds_worker_call *call = unanswered->call;

        HASH_DELETE(hh, link->unanswered, unanswered);
        if (call) {
                call->id = 0;
                ds_charge_move(&call->charge, &unanswered->charge);
        }
        ds_charge_release(&unanswered->charge);
        ds_free(unanswered);
        return call;
}

static void fail_calls(ds_worker_link *link)
{
        while (link->unanswered) {
                struct ds_worker_call *call = end_unanswered(link, link->unanswered);

                if (call)
                        call->done(call, NULL);
        }
}

/* --- messages of the worker --------------------------------------------------------------------------------------- */

/* Checks the text with the GPU's topology, which is passed to the next worker and to clients. */
static void take_topology(struct ds_worker_info *info, const char *topology)
{
        size_t length = strspn(topology, "0123456789abcdef");

        if (length < sizeof(info->topology) && !topology[length])
                memcpy(info->topology, topology, length + 1);
}

static void take_ready(ds_worker_link *link, const Detshare__Internal__Ready *ready)
{
        struct ds_worker_info *info = &link->info;

        *info = (struct ds_worker_info){
                .memory_bytes = ready->memory_bytes,
                .n_attributes = DS_MIN(ready->n_attributes, DS_ARRAY_SIZE(info->attributes)),
                .simulated = ready->simulated,
                .n_sms = ready->n_sms,
                .n_tpcs = ready->n_tpcs,
                /* a worker that is restarted quickly does not determine the number of GPCs, so the known one stays */
                .n_gpcs = ready->n_gpcs ? ready->n_gpcs : info->n_gpcs,
                .n_rungs = ready->n_rungs,
                .own_bytes = ready->own_bytes,
                .n_coarse_rungs = ready->n_coarse_rungs,
                .ladder_bytes = ready->ladder_bytes,
                .ladder_ns = ready->ladder_ns,
                .n_limits = DS_MIN(ready->n_limits, DS_ARRAY_SIZE(info->limits)),
        };
        take_topology(info, ready->topology);
        snprintf(info->name, sizeof(info->name), "%s", ready->name);
        snprintf(info->model, sizeof(info->model), "%s", ready->model);
        memcpy(info->uuid, ready->uuid.data ? ready->uuid.data : info->uuid,
                DS_MIN(ready->uuid.len, sizeof(info->uuid)));
        if (info->n_attributes)
                memcpy(info->attributes, ready->attributes, info->n_attributes * sizeof(info->attributes[0]));
        if (info->n_limits)
                memcpy(info->limits, ready->limits, info->n_limits * sizeof(info->limits[0]));
        ds_worker_note_policy(link, ready->policy);
}

static void params_done(struct ds_worker_call *call, const struct ds_worker_answer *answer)
{
        ds_worker_link *link = DS_CONTAINER_OF(call, ds_worker_link, params_call);
        char words[DS_POLICY_WORDS_MAX];

        if (answer && answer->message->status)
                ds_log(DS_LOG_ERROR, "policy %s runs with its defaults: %s", link->policy,
                        ds_policy_words(link->supervisor->config, link->policy, answer->message->message, words));
}

/* Sends the policy parameters that were set: a new worker starts with the policy's defaults. */
static void send_params(ds_worker_link *link)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__SetPolicy set = DETSHARE__SET_POLICY__INIT;

        if (!link->n_params)
                return;
        set.name = link->policy;
        set.n_params = link->n_params;
        set.params = link->params;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SET_POLICY;
        message.set_policy = &set;
        link->params_call.done = params_done;
        (void)ds_worker_send(link, &message, NULL, 0, &link->params_call);
}

static int handle_ready(ds_worker_link *link, const Detshare__Internal__FromWorker *message)
{
        if (link->state != DS_WORKER_STARTING || message->body_case != DETSHARE__INTERNAL__FROM_WORKER__BODY_READY) {
                /* records the error message of a worker that cannot start */
                if (message->message[0])
                        snprintf(link->reason, sizeof(link->reason), "%s", message->message);
                return -EPROTO;
        }
        take_ready(link, message->ready);
        link->was_ready = 1;
        link->ready_ns = uv_hrtime();
        set_state(link, DS_WORKER_READY);
        arm(link, PING_EVERY_MS, ping_deadline);
        (void)ds_pool_give(&link->supervisor->pool, link);
        send_params(link);
        ds_supervisor_worker_ready(link->supervisor);
        return 0;
}

/* Updates the ledger before the answer is delivered. Returns the number of fds that the entry consumed, or a
 * negative errno. */
static int apply_ledger(ds_worker_link *link, const Detshare__Internal__Ledger *entry, struct ds_worker_call *call,
        int *fds, size_t n_fds)
{
        struct ds_session *session = ds_session_find(link->supervisor, entry->session);
        int none = -1, needs = entry->slab_added || (entry->physical_added && !entry->physical_added->imported), r;
        struct ds_ledger_beside beside = {.slab_fd = needs && n_fds ? &fds[0] : &none};

        if (needs && n_fds < 1)
                return ds_error_origin(-EPROTO);
        if (!session || !session->ledger)
                return needs; /* the session was closed meanwhile */
        if (call) {
                beside.image_fd = &call->image_fd;
                beside.image_bytes = call->image_bytes;
                beside.module_charge = call->module_charge;
                beside.image_charge = call->image_charge;
                beside.variables_charge = call->variables_charge;
                beside.imported = call->imported;
                beside.source = call->source;
        }
        r = ds_session_apply(session, entry, &beside);
        /* a session whose memory the ledger cannot record must end, which frees its memory */
        if (r == -ENOMEM) {
                ds_client_close(session->client, "the daemon is out of memory for its ledger");
                return needs;
        }
        if (r == DS_LEDGER_E_PROTOCOL)
                return ds_error_origin(-EPROTO);
        return r ? ds_error_fold(r) : needs;
}

static int take_output(ds_worker_link *link, const Detshare__Internal__Output *output)
{
        struct ds_session *session = ds_session_find(link->supervisor, output->session);

        if (output->text.len > DS_OUTPUT_PAGE_MAX)
                return ds_error_origin(-EPROTO);
        if (session && session->presence == DS_PRESENCE_OPEN)
                ds_output_add(session, output->to_stderr, output->text.data, output->text.len);
        return 0;
}

/* Handles the worker's last message. Its connection ends here, so that the next worker can be started at once. */
static int take_device_lost(ds_worker_link *link, const Detshare__Internal__DeviceLost *lost)
{
        if (lost->status <= 0)
                return ds_error_origin(-EPROTO);
        link->device_lost = 1;
        ds_sessions_device_lost(link->supervisor, lost);
        ds_process_kill(link->process, NULL);
        return 0;
}

static int handle_message(ds_worker_link *link, const Detshare__Internal__FromWorker *message, int *fds, size_t n_fds)
{
        struct ds_worker_answer answer = {.message = message};
        struct unanswered *unanswered;
        struct ds_worker_call *call;
        int taken = 0;

        if (message->id == 0 && message->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_FAULT) {
                ds_session_fault(link->supervisor, message->fault->session, message->fault->reason);
                return 0;
        }
        if (link->state == DS_WORKER_STARTING || message->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_READY)
                return handle_ready(link, message);
        if (message->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_OUTPUT)
                return take_output(link, message->output);
        if (message->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_LOST)
                return take_device_lost(link, message->lost);
        if (message->id == 0 && message->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_PROFILE_SEEN) {
                ds_profiles_seen(link->supervisor, message->profile_seen);
                return 0;
        }
        if (message->id == 0 && message->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_PROFILE_REFINED) {
                ds_profiles_refined(link->supervisor, message->profile_refined);
                return 0;
        }
        if (message->id == 0 && message->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_STIRRED) {
                ds_settle_turn(&link->supervisor->settle);
                return 0;
        }
        if (message->id == 0 && message->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_FORMS_WANTED) {
                ds_forms_wanted(link->supervisor, message->forms_wanted->session, message->forms_wanted->module);
                return 0;
        }
        if (message->id == 0 && message->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_POOL)
                return n_fds == 1 ? ds_pool_take(&link->supervisor->pool, message->pool, &fds[0])
                                  : ds_error_origin(-EPROTO);
        if (message->id > link->next_id)
                return ds_error_origin(-EPROTO);
        call = find_call(link, message->id);
        if (message->ledger)
                taken = apply_ledger(link, message->ledger, call, fds, n_fds);
        if (taken < 0)
                return ds_error_trace(taken);
        if (message->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_REPLY &&
                message->reply->fds != n_fds - (size_t)taken)
                return ds_error_origin(-EPROTO);
        unanswered = find_unanswered(link, message->id);
        call = unanswered ? end_unanswered(link, unanswered) : NULL;
        if (!call) /* the client is gone, or the message only has a ledger entry: there is nothing to deliver */
                return 0;
        answer.fds = fds + taken;
        answer.n_fds = n_fds - (size_t)taken;
        call->done(call, &answer);
        return 0;
}

/* The user whose request this message answers; NULL: none. */
static ds_user *user_of(ds_worker_link *link, uint64_t id)
{
        const struct unanswered *unanswered = find_unanswered(link, id);

        return unanswered ? unanswered->charge.user : NULL;
}

static int on_frame(void *user, const uint8_t *payload, size_t size)
{
        ds_cleanup(ds_unpack_freep) ProtobufCMessage *unpacked = NULL;
        const Detshare__Internal__FromWorker *message;
        int fds[DS_FRAME_FDS_MAX] = {-1, -1, -1, -1}, r;
        const uint64_t begin = uv_hrtime();
        ds_worker_link *link = user;
        ds_user *asker;
        uint64_t now;

        r = ds_unpack(&detshare__internal__from_worker__descriptor, payload, size, DS_UNPACK_BUDGET, &unpacked);
        if (r)
                return ds_error_fold(r);
        message = (const Detshare__Internal__FromWorker *)unpacked;
        /* any message counts as a sign of life: a worker that restores sessions may answer a ping late */
        if (link->ping.id)
                arm(link, PING_MAX_MS, hang_deadline);
        if (message->fds > DS_FRAME_FDS_MAX || ds_process_take_fds(link->process, fds, message->fds))
                return ds_error_origin(-EPROTO);
        asker = user_of(link, message->id);
        if (asker)
                ds_user_ref(asker);
        r = handle_message(link, message, fds, message->fds);
        now = uv_hrtime();
        if (asker)
                ds_turns_spent(&link->supervisor->turns, ds_user_turn_line(asker), now, now - begin);
        ds_user_unref(asker);
        for (size_t i = 0; i < DS_FRAME_FDS_MAX; i++)
                ds_close(fds[i]);
        return r;
}

/* --- life cycle --------------------------------------------------------------------------------------------------- */

static void old_lost(void *user)
{
        assert(0); /* never called: the connection of an old worker is already lost */
}

static int old_frame(void *user, const uint8_t *payload, size_t size)
{
        return -EPROTO;
}

static void old_ended(void *user, const char *how, int killed)
{
        struct old_worker *old = user;
        ds_worker_link *link = old->link;

        ds_log_about(&worker_lost, old->said ? DS_LOG_DEBUG : DS_LOG_ERROR, "the worker %s and was replaced", how);
        ds_process_free(old->process);
        ds_free(old);
        assert(link->n_old > 0);
        link->n_old--;
        ds_supervisor_check_stop(link->supervisor);
}

static const struct ds_process_ops old_ops = {.frame = old_frame, .lost = old_lost, .ended = old_ended};

static int is_settled(const ds_worker_link *link)
{
        return link->ready_ns && uv_hrtime() - link->ready_ns >= SETTLED_NS;
}

/* Starts the next worker before this lost one has ended. */
static void start_beside(ds_worker_link *link)
{
        struct old_worker *old;

        /* after an early death, the supervisor first waits for the exit status, which decides whether to delay the
         * next start or to replace the policy */
        if (link->stopping || !link->ready_ns || link->n_old >= OLD_MAX || !(link->device_lost || is_settled(link)))
                return;
        old = ds_alloc0(1, sizeof(*old));
        if (!old)
                return;
        *old = (struct old_worker){.link = link, .process = link->process, .said = link->device_lost};
        link->n_old++;
        if (is_settled(link))
                link->backoff_ms = link->early_deaths = 0;
        ds_process_hand_over(DS_TAKE_PTR(link->process), &old_ops, old);
        set_state(link, DS_WORKER_DOWN);
        start_deadline(&link->deadline);
}

static void on_lost(void *user)
{
        ds_worker_link *link = user;

        set_state(link, DS_WORKER_LOST);
        disarm(link);
        ds_sessions_worker_lost(link->supervisor);
        fail_calls(link);
        ds_sessions_bury(link->supervisor);
        if (link->was_ready)
                ds_supervisor_worker_lost(link->supervisor);
        start_beside(link);
}

static void suspect_policy(ds_worker_link *link, const char *why)
{
        if (!strcmp(link->policy, BUILTIN_POLICY))
                return;
        ds_log_about(&policy_replaced, DS_LOG_ERROR, "%s: the next worker has the policy %s instead of %s", why,
                BUILTIN_POLICY, link->policy);
        snprintf(link->fallback, sizeof(link->fallback), "policy %s: %s%s%s", link->policy, why,
                link->reason[0] ? ": " : "", link->reason);
        snprintf(link->policy, sizeof(link->policy), "%s", BUILTIN_POLICY);
        drop_params(link);
}

/* Time until the next start, ms. crashed: the last worker failed by itself, and was not killed. */
static uint32_t backoff(ds_worker_link *link, int crashed)
{
        if (is_settled(link)) {
                link->backoff_ms = link->early_deaths = 0;
                return 0;
        }
        if (crashed && ++link->early_deaths >= EARLY_DEATHS_MAX)
                suspect_policy(link, "the worker does not live");
        link->backoff_ms = link->backoff_ms ? DS_MIN(2 * link->backoff_ms, BACKOFF_MAX_MS) : BACKOFF_FIRST_MS;
        return link->backoff_ms;
}

static void on_ended(void *user, const char *how, int killed)
{
        ds_worker_link *link = user;
        uint32_t ms;

        link->process = ds_process_free(link->process);
        set_state(link, DS_WORKER_DOWN);
        if (link->stopping) {
                ds_supervisor_check_stop(link->supervisor);
                return;
        }
        if (!link->was_ready) {
                /* the reason of a failed start: the worker's own message if it sent one, else how its process ended */
                if (!link->reason[0])
                        snprintf(link->reason, sizeof(link->reason), "it %s", killed ? "ended, or was killed" : how);
                ds_supervisor_worker_failed(link->supervisor, link->reason);
                return;
        }
        /* a start that fails while an old worker still runs may be the old one's fault */
        ms = backoff(link, !killed && !link->n_old);
        ds_log_about(&worker_lost, DS_LOG_ERROR, "the worker %s and is replaced%s", how, ms ? " after a pause" : "");
        if (ms)
                arm(link, ms, start_deadline);
        else
                start_deadline(&link->deadline);
}

static const struct ds_process_ops process_ops = {.frame = on_frame, .lost = on_lost, .ended = on_ended};

struct arguments {
        const char *argv[ARGUMENTS_MAX];
        size_t n;
        char clock[24], orphan[24], kernel[24], quiesce[24], evict[24], piece[24], spin[24], steps[24], pool[24];
        char pool_for[DS_CALIBRATION_GPUS_MAX][DS_CALIBRATION_NAME_MAX + 24];
};

static void add_option(struct arguments *args, const char *name, const char *value)
{
        if (!value)
                return;
        assert(args->n + 3 <= ARGUMENTS_MAX);
        args->argv[args->n++] = name;
        args->argv[args->n++] = value;
}

/* The number as text; NULL if it is 0 (not set), because the worker has its own default. */
static const char *number_of(char text[static 24], uint64_t n)
{
        snprintf(text, 24, "%llu", (unsigned long long)n);
        return n ? text : NULL;
}

/* Adds the calibrated values of all GPUs to the worker's arguments; the worker selects those of its GPU. */
static void add_calibrated(const struct ds_calibration *calibration, struct arguments *args)
{
        for (size_t i = 0; i < calibration->n; i++) {
                const struct ds_calibration_gpu *gpu = &calibration->gpus[i];

                snprintf(args->pool_for[i], sizeof(args->pool_for[i]), "%s=%u/%u", gpu->name, gpu->be, gpu->channels);
                if (gpu->be)
                        add_option(args, "--pool-for", args->pool_for[i]);
        }
}

/*
 * BE's share of the pool that the worker is to make; NULL: none. An existing pool is passed to the worker as files.
 * Only the daemon's first worker makes a pool: finding the channels takes long on a GPU, and after a fault all sessions
 * wait.
 */
static const char *pool_to_make(const ds_worker_link *link)
{
        const struct ds_supervisor *supervisor = link->supervisor;
        const char *why, *be = ds_pool_wanted(supervisor->options->config, &supervisor->calibration, NULL, &why);

        return supervisor->pool.complete || link->was_ready ? NULL : be;
}

static void add_pool(const ds_worker_link *link, struct arguments *args)
{
        const struct ds_options *options = link->supervisor->options;
        const char *be = pool_to_make(link);

        if (!be)
                return;
        add_option(args, "--pool-mib", number_of(args->pool, options->config->pool_bytes / DS_MIB(1)));
        add_option(args, "--pool-be", be);
        add_option(args, "--lut-dir", options->lut_dir[0] ? options->lut_dir : NULL);
        if (!strcmp(be, "auto"))
                add_calibrated(&link->supervisor->calibration, args);
}

static void make_arguments(const ds_worker_link *link, struct arguments *args)
{
        const struct ds_options *options = link->supervisor->options;
        const struct ds_config *config = link->supervisor->config;

        *args = (struct arguments){.argv = {options->worker_path}, .n = 1};
        add_option(args, "--device", options->device);
        add_option(args, "--policy", link->policy);
        for (size_t i = 0; i < options->n_policy_dirs; i++)
                add_option(args, "--policy-dir", options->policy_dirs[i]);
        add_option(args, "--policy-dir", options->policy_dir);
        /* the library is that of the daemon's start; a reload does not change it */
        add_option(args, "--libcuda", options->config->libcuda);
        /* the clock of a simulated device must not go back, because clients have read it */
        if (!strncmp(options->device, "sim:", strlen("sim:")))
                add_option(args, "--clock-ns", number_of(args->clock, link->supervisor->device_now_ns));
        add_option(args, "--orphan-s", number_of(args->orphan, config->orphan_seconds));
        add_option(args, "--kernel-s", number_of(args->kernel, config->kernel_seconds));
        add_option(args, "--quiesce-s", number_of(args->quiesce, config->quiesce_seconds));
        if (options->transform != DS_TRANSFORM_AUTO)
                add_option(args, "--transform", ds_transform_name(options->transform));
        add_option(args, "--evict-us", number_of(args->evict, options->config->evict_us));
        add_option(args, "--piece-us", number_of(args->piece, options->config->graph_piece_us));
        add_option(args, "--spin-us", config->spin_never ? "0" : number_of(args->spin, config->spin_us));
        add_option(args, "--ladder-steps", number_of(args->steps, options->config->ladder_steps));
        add_option(args, "--ladder-order", options->config->ladder_by_gpc ? "gpc" : NULL);
        add_pool(link, args);
        if (link->was_ready) {
                args->argv[args->n++] = "--restarted";
                add_option(args, "--topology", link->info.topology[0] ? link->info.topology : NULL);
        }
        assert(args->n < ARGUMENTS_MAX);
}

/* Longest time until Ready, ms: the worker may have to probe all of a pool. */
static uint32_t ready_max_ms(const ds_worker_link *link)
{
        return pool_to_make(link) ? ds_pool_patience_ms(link->supervisor->options->config) : READY_MAX_MS;
}

int ds_worker_start(ds_worker_link *link)
{
        struct arguments args;
        int r;

        assert(link->state == DS_WORKER_DOWN);
        link->ready_ns = 0;
        link->device_lost = 0;
        link->reason[0] = 0;
        make_arguments(link, &args);
        r = ds_process_spawn(&link->supervisor->loop, args.argv, OUT_MAX, &process_ops, link, &link->process);
        if (r)
                return ds_error_trace(r);
        link->starts++;
        set_state(link, DS_WORKER_STARTING);
        arm(link, ready_max_ms(link), ready_deadline);
        return 0;
}

static void start_deadline(struct ds_deadline *deadline)
{
        ds_worker_link *link = link_of(deadline);

        if (!link->stopping && ds_worker_start(link))
                arm(link, backoff(link, 0), start_deadline);
}

static void ready_deadline(struct ds_deadline *deadline)
{
        ds_worker_link *link = link_of(deadline);

        snprintf(link->reason, sizeof(link->reason), "it was not ready within %u s", ready_max_ms(link) / 1000);
        ds_process_kill(link->process, link->reason);
}

static void hang_deadline(struct ds_deadline *deadline)
{
        ds_worker_link *link = link_of(deadline);

        /* on a GPU the driver may have caused the hang, so the policy is suspected only after a second one */
        if (link->info.simulated || (link->hung_ns && uv_hrtime() - link->hung_ns < HUNG_AGAIN_NS))
                suspect_policy(link, "the worker hung");
        link->hung_ns = uv_hrtime();
        ds_process_kill(link->process, "it does not answer its pings");
}

static void ping_done(struct ds_worker_call *call, const struct ds_worker_answer *answer)
{
        ds_worker_link *link = DS_CONTAINER_OF(call, ds_worker_link, ping);

        if (answer && !link->stopping)
                arm(link, PING_EVERY_MS, ping_deadline);
}

static void ping_deadline(struct ds_deadline *deadline)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__WorkerPing ping = DETSHARE__INTERNAL__WORKER_PING__INIT;
        ds_worker_link *link = link_of(deadline);

        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_PING;
        message.ping = &ping;
        link->ping.done = ping_done;
        if (ds_worker_send(link, &message, NULL, 0, &link->ping) == 0)
                arm(link, PING_MAX_MS, hang_deadline);
        else
                arm(link, PING_EVERY_MS, ping_deadline);
}

void ds_worker_set_limits(ds_worker_link *link)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__WorkerLimits limits = DETSHARE__INTERNAL__WORKER_LIMITS__INIT;
        const struct ds_config *config = link->supervisor->config;

        limits.orphan_ns = config->orphan_seconds * DS_NS_PER_S;
        limits.kernel_ns = config->kernel_seconds * DS_NS_PER_S;
        limits.quiesce_ns = config->quiesce_seconds * DS_NS_PER_S;
        limits.spin_ns = config->spin_us * DS_NS_PER_US;
        limits.spin_never = config->spin_never != 0;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_LIMITS;
        message.limits = &limits;
        /* if no worker is ready, the next one gets the values at its start */
        (void)ds_worker_send(link, &message, NULL, 0, NULL);
}

/* Callback: the worker has answered all requests and accepts no more. */
static void stop_done(struct ds_worker_call *call, const struct ds_worker_answer *answer)
{
        ds_worker_link *link = DS_CONTAINER_OF(call, ds_worker_link, stop);

        link->supervisor->drained = answer && !answer->message->status;
}

void ds_worker_stop(ds_worker_link *link, uint64_t grace_ms)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__Stop stop = DETSHARE__INTERNAL__STOP__INIT;

        link->stopping = 1;
        disarm(link);
        if (!link->process)
                return;
        stop.grace_ns = grace_ms * DS_NS_PER_MS;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_STOP;
        message.stop = &stop;
        link->stop.done = stop_done;
        if (ds_worker_send(link, &message, NULL, 0, &link->stop))
                ds_process_kill(link->process, NULL);
}

void ds_worker_kill(ds_worker_link *link, const char *why)
{
        if (link->process)
                ds_process_kill(link->process, why);
}

/* --- accessors ---------------------------------------------------------------------------------------------------- */

enum ds_worker_state ds_worker_state(const ds_worker_link *link)
{
        return link->state;
}

const struct ds_worker_info *ds_worker_info(const ds_worker_link *link)
{
        return &link->info;
}

int ds_worker_gone(const ds_worker_link *link)
{
        return link->state == DS_WORKER_DOWN && link->n_old == 0;
}

int ds_worker_watched(const ds_worker_link *link)
{
        const struct ds_deadline *deadline = &link->deadline;

        if (link->stopping || link->state == DS_WORKER_LOST)
                return 1;
        /* a deadline that has expired still counts here: the loop handles it in its next iteration */
        return ds_deadline_armed(deadline) || (link->process && ds_process_dying(link->process));
}

pid_t ds_worker_pid(const ds_worker_link *link)
{
        return link->process ? ds_process_pid(link->process) : 0;
}

uint32_t ds_worker_restarts(const ds_worker_link *link)
{
        return link->starts ? link->starts - 1 : 0;
}

int ds_worker_set_policy(ds_worker_link *link, const char *name, char *const *params, size_t n_params)
{
        char *copies[DS_POLICY_PARAMS_MAX];

        assert(n_params <= DS_POLICY_PARAMS_MAX);
        for (size_t i = 0; i < n_params; i++) {
                copies[i] = ds_strdup(params[i]);
                if (!copies[i]) {
                        while (i-- > 0)
                                ds_free(copies[i]);
                        return ds_error_origin(-ENOMEM);
                }
        }
        ds_worker_take_policy(link, name, copies, n_params);
        return 0;
}

void ds_worker_take_policy(ds_worker_link *link, const char *name, char **params, size_t n_params)
{
        assert(n_params <= DS_POLICY_PARAMS_MAX);
        drop_params(link);
        for (size_t i = 0; i < n_params; i++)
                link->params[i] = params[i];
        link->n_params = n_params;
        snprintf(link->policy, sizeof(link->policy), "%s", name);
        link->fallback[0] = 0;
        ds_worker_note_policy(link, name);
}

void ds_worker_policy_again(ds_worker_link *link)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__SetPolicy set = DETSHARE__SET_POLICY__INIT;

        set.name = link->policy;
        set.n_params = link->n_params;
        set.params = link->params;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SET_POLICY;
        message.set_policy = &set;
        /* if no worker is ready, the next one starts with this policy */
        (void)ds_worker_send(link, &message, NULL, 0, NULL);
        ds_worker_note_policy(link, link->policy);
}

const char *ds_worker_policy(const ds_worker_link *link)
{
        return link->active_policy;
}

const char *ds_worker_fallback(const ds_worker_link *link)
{
        return link->fallback;
}

void ds_worker_note_policy(ds_worker_link *link, const char *name)
{
        snprintf(link->active_policy, sizeof(link->active_policy), "%s", name);
}
