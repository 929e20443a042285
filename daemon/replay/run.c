/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulation's loop
 */
#include "replay/run.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/device.h"
#include "replay/forms.h"
#include "replay/trace.h"
#include "sched/sched.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define COMPLETIONS 64
#define ATTRIBUTE_MEMORY_CLOCK_KHZ 36 /* numbers of CUDA's device attributes */
#define ATTRIBUTE_MEMORY_BITS 37
/* fraction of the memory bandwidth from which a kernel counts as memory-bound, as in Orion */
#define MEMORY_BOUND 0.6
/* time that a server needs to take the next request from its queue, ns: real ones need 10 to 200 us, and a request that
 * begins at the moment at which the previous one ends would look like a part of it */
#define RUN_TURN_NS 10000u
#define PROFILED_SAMPLES 100 /* samples that a stored profile claims to have */
#define BUSY_MAX 4096        /* most spans of busy time that are kept, because later kernels can still change them */

/* A workload on the device: the launch of each kernel. */
struct part {
        ds_device_module *module;
        struct ds_launch *launches;
        struct ds_replay_forms forms;
        uint32_t n, next;
};

struct slot {
        struct ds_op op;
        struct session *session;
        int last; /* 1: the last operation of its request or step */
};

struct session {
        struct run *run;
        const struct ds_replay_session *config;
        struct ds_replay_session_result *result;
        struct part parts[2];
        ds_sched_session *sched;
        ds_coroutine *coroutine;
        struct slot *slots; /* a ring, because operations end in order */
        uint32_t next_slot, n_free;
        int closed;     /* 1: a closed session, which submits step after step without waiting */
        int serving;    /* 1: a request is being submitted */
        int waiting;    /* 1: the session waits for the time of its next request */
        int has_result; /* 1: the request has ended, and the policy does not know it yet */
        /* kernels of each part of the request: total number, and number submitted so far */
        uint64_t todo[2], at[2];
        struct ds_replay_arrival arrival; /* arrival of the current request, or of the next one */
        uint64_t begin_ns;                /* time at which the server begins it, ns */
        uint64_t *latencies;
        size_t n_latencies, capacity;
};

/* Times at which any kernel ran, as disjoint spans, oldest first. Kernels end in order, but do not begin in order. */
struct busy {
        struct {
                uint64_t begin, end;
        } spans[BUSY_MAX];
        size_t n;
        uint64_t before_ns; /* total length of the spans that were dropped */
};

struct run {
        const struct ds_replay_config *config;
        const struct ds_device_ops *ops;
        ds_device *device;
        ds_sched *sched;
        ds_replay_trace *trace;
        struct session sessions[DS_REPLAY_SESSIONS_MAX];
        const char *names[DS_REPLAY_SESSIONS_MAX];
        uint32_t n_sessions;
        uint64_t now, next_begin_ns;
        int stopping; /* 1: the simulated time is over */
        int error;
        struct busy busy;
        struct ds_replay_result *result;
};

/* --- busy time --- */

static void busy_add(struct busy *busy, uint64_t begin, uint64_t end)
{
        while (busy->n && busy->spans[busy->n - 1].end >= begin) {
                busy->n--;
                begin = DS_MIN(begin, busy->spans[busy->n].begin);
        }
        if (busy->n == BUSY_MAX) {
                for (size_t i = 0; i < BUSY_MAX / 2; i++)
                        busy->before_ns += busy->spans[i].end - busy->spans[i].begin;
                memmove(busy->spans, busy->spans + BUSY_MAX / 2, BUSY_MAX / 2 * sizeof(busy->spans[0]));
                busy->n = BUSY_MAX / 2;
        }
        busy->spans[busy->n].begin = begin;
        busy->spans[busy->n++].end = end;
}

static uint64_t busy_sum(const struct busy *busy)
{
        uint64_t sum = busy->before_ns;

        for (size_t i = 0; i < busy->n; i++)
                sum += busy->spans[i].end - busy->spans[i].begin;
        return sum;
}

/* --- requests --- */

static uint64_t tokens_part(uint64_t tokens, const struct part *part, const struct ds_replay_workload *workload)
{
        uint64_t samples = workload->profile->samples;

        return DS_MAX(1, DS_DIV_UP(tokens * part->n, samples));
}

/* Begin the current request: determine how many kernels of each part it has. */
static void request_begin(struct session *session)
{
        const struct ds_replay_arrival *arrival = &session->arrival;

        session->serving = 1;
        session->waiting = 0;
        if (session->config->states_arrivals)
                ds_sched_session_arrival(session->sched, arrival->ns, session->run->now);
        session->at[0] = session->at[1] = 0;
        session->parts[0].next = session->parts[1].next = 0;
        session->todo[0] = session->parts[0].n;
        session->todo[1] = session->parts[1].n;
        if (!session->parts[1].n || (!arrival->context_tokens && !arrival->generated_tokens))
                return;
        session->todo[0] = tokens_part(arrival->context_tokens, &session->parts[0], session->config->workload[0]);
        session->todo[1] = (uint64_t)arrival->generated_tokens * session->parts[1].n;
}

/* Key of a kernel, which is the same in every run. */
static uint64_t kernel_key(uint32_t space, unsigned part, uint32_t kernel)
{
        return (uint64_t)(space * 2 + part) << 32 | kernel;
}

/* Whether a session of the other class has operations that are submitted and have not ended. */
static int is_beside(const struct session *session)
{
        uint32_t in_flight, all;

        ds_sched_load(session->run->sched,
                session->config->class_ == DETSHARE_CLASS_LS ? DETSHARE_CLASS_BE : DETSHARE_CLASS_LS, &in_flight, &all);
        return all != 0;
}

/* The next kernel in its form for all channels, or for the channels of the session's class while the other class has
 * work. */
static const struct ds_replay_form *form_next(const struct session *session, unsigned part, uint32_t kernel)
{
        const struct ds_replay_forms *forms = &session->parts[part].forms;

        if (!forms->plain)
                return NULL;
        return forms->coloured[kernel].native && is_beside(session) ? &forms->coloured[kernel] : &forms->plain[kernel];
}

static struct ds_launch request_next(
        struct session *session, int *ret_last, uint64_t *ret_key, const struct ds_sched_forms **ret_forms)
{
        unsigned part = session->at[0] == session->todo[0];
        uint32_t kernel = session->parts[part].next;
        const struct ds_replay_form *form = form_next(session, part, kernel);
        struct ds_launch launch = session->parts[part].launches[kernel];

        session->parts[part].next = kernel + 1 < session->parts[part].n ? kernel + 1 : 0;
        session->at[part]++;
        *ret_forms = form ? &form->of : NULL;
        if (form)
                launch.kernel = form->native;
        *ret_key = kernel_key(session->parts[0].launches[0].space, part, kernel);
        *ret_last = session->at[0] == session->todo[0] && session->at[1] == session->todo[1];
        return launch;
}

static void submit(struct session *session)
{
        struct slot *slot;
        uint64_t key;
        int r;

        while (session->serving && session->n_free && !session->run->stopping) {
                slot = &session->slots[session->next_slot];
                session->next_slot = (session->next_slot + 1) % session->config->queue;
                session->n_free--;
                slot->session = session;
                slot->op.kind = DS_OP_LAUNCH;
                slot->op.launch = request_next(session, &slot->last, &key, &slot->op.forms);
                slot->op.kernel_key = key;
                r = ds_sched_submit(session->coroutine, &slot->op, session->run->now);
                if (r) {
                        session->run->error = r < 0 ? r : -ENOTRECOVERABLE;
                        return;
                }
                if (slot->last && session->closed)
                        request_begin(session);
                else if (slot->last)
                        session->serving = 0; /* all kernels of the request are submitted */
        }
}

/* Begin the next request, now or when it arrives. */
static void request_follow(struct session *session)
{
        struct run *run = session->run;

        if (ds_replay_arrivals_closed(session->config->arrivals))
                session->arrival.ns = run->now + (session->has_result ? session->config->think_ns : 0);
        else
                session->arrival = ds_replay_arrivals_next(session->config->arrivals);
        session->begin_ns = session->arrival.ns;
        if (session->has_result && !ds_replay_arrivals_closed(session->config->arrivals))
                session->begin_ns = DS_MAX(session->begin_ns, run->now + RUN_TURN_NS);
        session->waiting = session->begin_ns > run->now;
        if (!session->waiting)
                request_begin(session);
        else
                run->next_begin_ns = DS_MIN(run->next_begin_ns, session->begin_ns);
}

/* The session's objective now, ns: a factor is one of what it has had alone so far. 0: it has none, or it is not known. */
static uint64_t objective_of(const struct session *session)
{
        struct ds_sched_objective objective;

        ds_sched_session_objective(session->sched, &objective);
        return objective.ns[DS_SLO_LATENCY];
}

static void latency_add(struct session *session, uint64_t ns)
{
        size_t more = session->capacity ? session->capacity * 2 : 1024;
        uint64_t *grown;

        if (session->n_latencies == session->capacity) {
                grown = ds_realloc(session->latencies, more, sizeof(*grown));
                if (!grown) {
                        session->run->error = ds_error_origin(-ENOMEM);
                        return;
                }
                session->latencies = grown;
                session->capacity = more;
        }
        session->latencies[session->n_latencies++] = ns;
        session->result->slo_ns = objective_of(session);
        session->result->in_slo += !session->result->slo_ns || ns <= session->result->slo_ns;
}

static void request_end(struct session *session)
{
        uint64_t now = session->run->now;

        session->result->ended++;
        latency_add(session, now - session->arrival.ns);
        session->has_result = !session->closed;
        if (session->closed)
                session->arrival.ns = now; /* the latency of the next step counts from now on */
        else
                request_follow(session);
}

/* Report to the policy the servers that wait for work. A server that begins its next request at once did not wait. */
static void tell_results(struct run *run)
{
        for (uint32_t i = 0; i < run->n_sessions; i++) {
                if (run->sessions[i].has_result && !run->sessions[i].serving)
                        ds_sched_session_synchronised(run->sessions[i].sched, run->now);
                run->sessions[i].has_result = 0;
        }
}

static void run_done(void *user, struct ds_op *op, int status, uint64_t start_ns, uint64_t end_ns, const char *message)
{
        struct slot *slot = DS_CONTAINER_OF(op, struct slot, op);
        struct session *session = slot->session;
        struct run *run = user;

        session->n_free++;
        if (run->stopping)
                return;
        if (status) {
                run->error = ds_error_origin(-ENOTRECOVERABLE);
                return;
        }
        session->result->kernels++;
        if (slot->last)
                request_end(session);
        submit(session);
}

/* --- opening ---------------------- */

/* Load the profile itself: its kernels are times. */
static int part_load(struct run *run, const struct ds_replay_session *config, const struct ds_replay_workload *workload,
        uint32_t space, struct part *part, char *message, size_t message_size)
{
        char log[256] = "";
        int r;

        r = run->ops->module_load(run->device, space, workload->text, workload->size, log, sizeof(log), &part->module);
        if (r <= 0)
                return ds_error_trace(r);
        snprintf(message, message_size, "%s: %s", *workload->profile->name ? workload->profile->name : config->name,
                log);
        return DS_REPLAY_E_BAD_FILE;
}

/* Load the profile as code, simulated block by block: BE kernels that can be evicted, kernels in the channels of
 * their class. */
static int part_open_forms(struct run *run, const struct ds_replay_session *config,
        const struct ds_replay_workload *workload, uint32_t space, struct part *part, char *message,
        size_t message_size)
{
        const uint32_t be = run->config->be_channels;
        struct ds_replay_forms_want want = {.evictable = run->config->transform && config->class_ == DETSHARE_CLASS_BE};

        if (be && config->class_ == DETSHARE_CLASS_BE)
                want.channels[1] = be;
        if (be && config->class_ == DETSHARE_CLASS_LS) {
                want.channels[0] = be;
                want.channels[1] = DS_REPLAY_CHANNELS_MAX;
        }
        return ds_error_trace(ds_replay_forms_open(
                run->ops, run->device, space, workload, &want, &part->forms, message, message_size));
}

static int part_open(struct run *run, const struct ds_replay_session *config, unsigned k, uint32_t space,
        struct part *part, char *message, size_t message_size)
{
        const struct ds_replay_workload *workload = config->workload[k];
        const struct sim_profile_kernel *kernel;
        int r;

        if (run->config->transform || run->config->blocks)
                r = part_open_forms(run, config, workload, space, part, message, message_size);
        else
                r = part_load(run, config, workload, space, part, message, message_size);
        if (r)
                return ds_error_trace(r);
        part->n = workload->profile->n_kernels;
        part->launches = ds_alloc0(part->n, sizeof(*part->launches));
        if (!part->launches)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < part->n; i++) {
                kernel = &workload->profile->kernels[i];
                part->launches[i] = (struct ds_launch){.space = space, .timed = 1};
                part->launches[i].kernel =
                        part->forms.plain ? part->forms.plain[i].native : run->ops->kernel_at(part->module, i);
                memcpy(part->launches[i].grid, kernel->grid, sizeof(kernel->grid));
                memcpy(part->launches[i].block, kernel->block, sizeof(kernel->block));
        }
        return 0;
}

/* Bandwidth of the memory by the data sheet, bytes per second: two transfers per clock cycle. */
static double data_sheet_bandwidth(const struct run *run)
{
        const int32_t *attributes = run->ops->info(run->device)->attributes;

        return 2e3 * attributes[ATTRIBUTE_MEMORY_CLOCK_KHZ] * attributes[ATTRIBUTE_MEMORY_BITS] / 8;
}

/* Fill in the stored profile of one kernel. In a profile without bytes the bound is unknown. */
static void kernel_profile(
        const struct run *run, const struct sim_profile *of, const struct sim_profile_kernel *kernel, uint64_t key)
{
        struct ds_sched_profile profile = {.key = key};
        uint32_t n_tpcs = run->ops->info(run->device)->n_tpcs, sms, last = 0;

        for (uint32_t i = 1; i <= DS_LADDER_STEPS && profile.n_points < DETSHARE_POINTS_MAX; i++) {
                sms = n_tpcs * i / DS_LADDER_STEPS * (of->sms / n_tpcs);
                if (sms == last)
                        continue;
                last = sms;
                profile.points[profile.n_points++] = (struct detshare_profile_point){
                        .n_sms = sms, .samples = PROFILED_SAMPLES, .mean_ns = sim_profile_time(of, kernel, sms)};
        }
        if (kernel->memory_bound)
                profile.bound = DETSHARE_BOUND_MEMORY;
        else if (kernel->bytes)
                profile.bound =
                        (double)kernel->bytes * 1e9 / (double)kernel->ns >= MEMORY_BOUND * data_sheet_bandwidth(run)
                                ? DETSHARE_BOUND_MEMORY
                                : DETSHARE_BOUND_COMPUTE;
        ds_sched_profile_put(run->sched, &profile);
}

static void session_profile(const struct run *run, const struct ds_replay_session *config, uint32_t space)
{
        const struct sim_profile *profile;

        for (unsigned k = 0; k < 2 && config->workload[k]; k++) {
                profile = config->workload[k]->profile;
                for (uint32_t i = 0; i < profile->n_kernels; i++)
                        kernel_profile(run, profile, &profile->kernels[i], kernel_key(space, k, i));
        }
}

static int session_open(struct run *run, uint32_t i, char *message, size_t message_size)
{
        const struct ds_replay_session *config = &run->config->sessions[i];
        struct session *session = &run->sessions[i];
        struct ds_sched_session_config sched = {.id = i + 1,
                .class_ = config->class_,
                .slo = {.ns = {config->slo_ns}, .permille = {config->slo_permille}},
                .sm_percent = config->sm_percent,
                .space = i + 1};
        int r = 0;

        *session = (struct session){.run = run, .config = config, .result = &run->result->sessions[i]};
        run->names[i] = config->name;
        run->n_sessions = i + 1;
        session->closed = config->class_ == DETSHARE_CLASS_BE && ds_replay_arrivals_closed(config->arrivals);
        session->slots = ds_alloc0(config->queue, sizeof(*session->slots));
        if (!session->slots)
                return ds_error_origin(-ENOMEM);
        session->n_free = config->queue;
        r = run->ops->space_add(run->device, sched.space);
        for (unsigned k = 0; !r && k < 2 && config->workload[k]; k++)
                r = part_open(run, config, k, sched.space, &session->parts[k], message, message_size);
        if (!r)
                r = ds_sched_session_new(run->sched, &sched, &session->sched);
        if (!r)
                r = ds_coroutine_new(session->sched, 0, 1, 0, &session->coroutine);
        if (r)
                return ds_error_trace(r);
        if (run->config->profiled)
                session_profile(run, config, sched.space);
        ds_replay_arrivals_rewind(config->arrivals);
        request_follow(session);
        return 0;
}

static int device_open(struct run *run, char *message, size_t message_size)
{
        const char *rest = NULL;
        char spec[64];
        int r;

        run->ops = ds_device_find(run->config->device, &rest);
        if (!run->ops || strcmp(run->ops->name, "sim") != 0) {
                snprintf(message, message_size, "'%.40s': not a simulated device, as sim:h200 is", run->config->device);
                return DS_REPLAY_E_BAD_DEVICE;
        }
        snprintf(spec, sizeof(spec), "%.48s%s", rest, strstr(rest, "+timing") ? "" : "+timing");
        r = run->ops->open(spec, &run->device);
        if (r == -ENODEV) {
                snprintf(message, message_size, "'%.40s': no such device", run->config->device);
                return DS_REPLAY_E_BAD_DEVICE;
        }
        return ds_error_trace(r);
}

static int sched_open(struct run *run, char *message, size_t message_size)
{
        const struct ds_replay_config *config = run->config;
        struct ds_sched_config sched = {.ops = run->ops,
                .device = run->device,
                .policy_dir = config->policy_dir,
                .more_dirs = config->more_dirs,
                .n_more_dirs = config->n_more_dirs,
                .trust_any_owner = config->policy_any_owner,
                .done = run_done,
                .user = run};
        int r;

        if (config->trace) {
                run->trace = ds_replay_trace_new(
                        run->ops, run->device, run->names, config->n_sessions, config->trace, config->trace_json);
                if (!run->trace)
                        return ds_error_origin(-ENOMEM);
                sched.ops = &ds_replay_trace_ops;
                sched.device = ds_replay_trace_device(run->trace);
        }
        r = ds_sched_new(&sched, &run->sched);
        if (!r)
                r = ds_sched_set_policy(
                        run->sched, config->policy, config->params, config->n_params, 0, message, message_size);
        return r > 0 ? DS_REPLAY_E_BAD_POLICY : ds_error_trace(r);
}

/* --- the loop --- */

static int take_ends(struct run *run)
{
        struct ds_completion completions[COMPLETIONS];
        int any = 0;
        size_t n;

        run->now = run->ops->now(run->device);
        while ((n = run->ops->poll(run->device, completions, COMPLETIONS))) {
                if (run->trace && !run->stopping)
                        ds_replay_trace_ended(run->trace, completions, n);
                for (size_t i = 0; i < n && !run->stopping; i++)
                        busy_add(&run->busy, completions[i].start_ns, completions[i].end_ns);
                ds_sched_complete(run->sched, completions, n);
                any = 1;
        }
        return any;
}

/* Begin requests whose time has come. Returns the time of the next arrival. */
static void take_arrivals(struct run *run)
{
        struct session *session;

        if (run->now < run->next_begin_ns)
                return;
        run->next_begin_ns = UINT64_MAX;
        for (uint32_t i = 0; i < run->n_sessions; i++) {
                session = &run->sessions[i];
                if (!session->waiting)
                        continue;
                if (session->begin_ns > run->now) {
                        run->next_begin_ns = DS_MIN(run->next_begin_ns, session->begin_ns);
                        continue;
                }
                request_begin(session);
                submit(session);
        }
}

static int run_loop(struct run *run, uint64_t end_ns)
{
        uint64_t until;
        int r = 0;

        for (uint32_t i = 0; i < run->n_sessions; i++)
                submit(&run->sessions[i]);
        while (!r && !run->error && run->now < end_ns) {
                take_ends(run);
                tell_results(run);
                take_arrivals(run);
                r = ds_sched_step(run->sched, run->now);
                until = DS_MIN(DS_MIN(ds_sched_next_timer(run->sched), run->next_begin_ns), end_ns);
                if (!r)
                        r = run->ops->advance(run->device, until);
                r = r == -ETIME ? 0 : r;
                run->now = run->ops->now(run->device);
        }
        return ds_error_trace(r ? r : run->error);
}

/* Drop all operations that have not ended. */
static void run_stop(struct run *run)
{
        run->stopping = 1;
        for (uint32_t i = 0; i < run->n_sessions; i++)
                if (run->sessions[i].sched)
                        ds_sched_session_cancel(run->sessions[i].sched, DS_CUDA_LAUNCH_FAILED, run->now);
        for (uint32_t i = 0; i < run->n_sessions; i++)
                while (run->sessions[i].sched && !ds_sched_session_idle(run->sessions[i].sched))
                        if (!take_ends(run))
                                (void)run->ops->advance(run->device, UINT64_MAX);
}

/* --- results --- */

static int by_value(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return (x > y) - (x < y);
}

/* The smallest latency that at least `percent` percent of the latencies do not exceed. */
static uint64_t percentile(const struct session *session, size_t percent)
{
        size_t n = session->n_latencies;

        return n ? session->latencies[DS_MAX(DS_DIV_UP(n * percent, 100), 1) - 1] : 0;
}

static void session_result(struct session *session)
{
        struct ds_replay_session_result *result = session->result;
        struct ds_sched_session_stats stats;
        uint64_t end = session->run->config->duration_ns, whole = session->parts[0].n + session->parts[1].n;

        ds_sched_session_stats(session->sched, &stats);
        result->device_ns = stats.device_ns;
        result->steps = (double)result->kernels / (double)whole;
        if (session->n_latencies)
                qsort(session->latencies, session->n_latencies, sizeof(session->latencies[0]), by_value);
        result->p50_ns = percentile(session, 50);
        result->p99_ns = percentile(session, 99);
        result->max_ns = percentile(session, 100);
        if (session->run->config->latencies) {
                result->latencies_ns = session->latencies;
                session->latencies = NULL;
                session->n_latencies = session->capacity = 0;
        }
        result->arrived = result->ended;
        if (ds_replay_arrivals_closed(session->config->arrivals))
                return;
        for (; session->arrival.ns < end; session->arrival = ds_replay_arrivals_next(session->config->arrivals))
                result->arrived++;
}

static void run_result(struct run *run)
{
        struct ds_sched_stats stats;

        ds_sched_stats(run->sched, &stats);
        for (uint32_t i = 0; i < run->n_sessions; i++) {
                session_result(&run->sessions[i]);
                run->result->kernels += run->result->sessions[i].kernels;
        }
        run->result->decisions = stats.decisions;
        run->result->migrations = stats.migrations;
        run->result->evictions = stats.evictions;
        run->result->fallbacks = stats.fallbacks;
        snprintf(run->result->fallback, sizeof(run->result->fallback), "%s", stats.fallback);
        run->result->busy_ns = busy_sum(&run->busy);
        snprintf(run->result->policy, sizeof(run->result->policy), "%s", stats.policy);
}

static void run_close(struct run *run)
{
        ds_sched_free(run->sched);
        for (uint32_t i = 0; i < run->n_sessions; i++) {
                for (unsigned k = 0; k < 2; k++) {
                        ds_replay_forms_close(run->ops, run->device, &run->sessions[i].parts[k].forms);
                        run->ops->module_unload(run->device, run->sessions[i].parts[k].module);
                        ds_free(run->sessions[i].parts[k].launches);
                }
                ds_free(run->sessions[i].slots);
                ds_free(run->sessions[i].latencies);
        }
        ds_replay_trace_free(run->trace);
        if (run->device)
                run->ops->close(run->device);
        ds_free(run);
}

static double clock_s(clockid_t clock)
{
        struct timespec t;

        (void)clock_gettime(clock, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int ds_replay_run(
        const struct ds_replay_config *config, char *message, size_t message_size, struct ds_replay_result *ret)
{
        struct run *run = ds_alloc0(1, sizeof(*run));
        double begin, cpu;
        int r;

        if (!run)
                return ds_error_origin(-ENOMEM);
        assert(config->n_sessions && config->n_sessions <= DS_REPLAY_SESSIONS_MAX);
        memset(ret, 0, sizeof(*ret));
        run->config = config;
        run->result = ret;
        run->next_begin_ns = UINT64_MAX;
        for (uint32_t i = 0; i < config->n_sessions; i++)
                run->names[i] = config->sessions[i].name;
        r = device_open(run, message, message_size);
        if (!r)
                r = sched_open(run, message, message_size);
        for (uint32_t i = 0; !r && i < config->n_sessions; i++)
                r = session_open(run, i, message, message_size);
        begin = clock_s(CLOCK_MONOTONIC);
        cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
        if (!r)
                r = run_loop(run, config->duration_ns);
        ret->real_s = clock_s(CLOCK_MONOTONIC) - begin;
        ret->cpu_s = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        if (!r)
                run_result(run);
        if (run->sched)
                run_stop(run);
        run_close(run);
        return ds_error_trace(r);
}
