/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls the policy and carries out its actions
 */
#include "sched/host.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "sched/internal.h"
#include "sched/let_go.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"

/* A copy of an event, made before the policy is called, because the event's owner may be freed during the call. */
struct telling {
        uint32_t kind;
        ds_sched_session *session;
        uint64_t coroutine, start_ns, end_ns;
        struct detshare_op_view op;
};

/* --- installing policies ------------------------------------------------------------------------------------------ */

static int host_is_builtin(const ds_plugin *plugin)
{
        return plugin->policy == &ds_plugin_fifo;
}

static struct ds_plugin_world host_world(ds_sched *sched)
{
        return (struct ds_plugin_world){
                .ladder = &sched->ladder,
                .interference = sched->host.interference,
                .n_interference = sched->host.n_interference,
                .notes = &sched->host.notes,
        };
}

/* Creates the built-in policy, ready to run. */
static int host_new_builtin(ds_sched *sched, ds_plugin **ret)
{
        struct ds_plugin_world world = host_world(sched);
        char message[256] = "";
        ds_plugin *plugin;
        int r;

        r = ds_plugin_open(&sched->host.place, DS_PLUGIN_BUILTIN, message, sizeof(message), &plugin);
        if (r)
                return ds_error_fold(r);
        r = ds_plugin_init(plugin, &world, NULL, 0, message, sizeof(message));
        if (r) {
                ds_plugin_close(plugin);
                return ds_error_fold(r);
        }
        *ret = plugin;
        return 0;
}

/* Starts a policy. Suspensions, caps and timers of the previous one end. */
static void host_begin(ds_sched *sched)
{
        struct ds_host *host = &sched->host;

        host->timer_ns = host->stall_ns = UINT64_MAX;
        host->overrun_score = host->nonsense_score = 0;
        for (ds_sched_session *session = sched->sessions; session; session = session->next) {
                if (session->suspended)
                        ds_sched_session_suspend(session, 0);
                ds_sched_session_cap(session, UINT64_MAX);
        }
        ds_sched_event_post(sched, &sched->switch_event);
}

/* Puts a policy in charge, and frees the one that was in charge. */
static void host_install(ds_sched *sched, ds_plugin *plugin)
{
        ds_plugin_close(sched->host.plugin);
        sched->host.plugin = plugin;
        host_begin(sched);
}

/* Copies the policy directories of the configuration. Returns 0 or -ENOMEM. */
static int host_places(struct ds_host *host, const struct ds_sched_config *config)
{
        struct ds_plugin_place *last = &host->place;

        assert(config->n_more_dirs <= DS_POLICY_DIRS_MAX);
        host->place.dir = ds_strdup(config->policy_dir ? config->policy_dir : "");
        host->place.dir_fd = config->policy_dir_fd;
        host->place.trust_any_owner = config->trust_any_owner;
        for (size_t i = 0; i < config->n_more_dirs && last->dir; i++) {
                host->more[i] = (struct ds_plugin_place){.dir = ds_strdup(config->more_dirs[i].path),
                        .dir_fd = config->more_dirs[i].fd,
                        .trust_any_owner = config->trust_any_owner};
                last->next = &host->more[i];
                last = &host->more[i];
        }
        return last->dir ? 0 : ds_error_origin(-ENOMEM);
}

int ds_host_init(ds_sched *sched, const struct ds_sched_config *config, char *message, size_t message_size)
{
        struct ds_host *host = &sched->host;
        int r;

        r = host_places(host, config);
        if (r)
                return ds_error_trace(r);
        host->wall_ns = config->wall_ns;
        host->cpu_ns = config->cpu_ns;
        host->budget_ns = config->policy_budget_ns ? config->policy_budget_ns : DS_HOST_BUDGET_NS;
        host->nonsense_limit = config->nonsense_limit ? config->nonsense_limit : DS_HOST_NONSENSE_LIMIT;
        host->actions = ds_alloc0(DS_HOST_ACTIONS_MAX, sizeof(*host->actions));
        host->timer_ns = host->stall_ns = UINT64_MAX;
        if (!host->actions)
                return ds_error_origin(-ENOMEM);
        r = host_new_builtin(sched, &host->plugin);
        if (r)
                return ds_error_trace(r);
        ds_sched_event_post(sched, &sched->switch_event);
        if (!config->policy || !strcmp(config->policy, DS_PLUGIN_BUILTIN))
                return 0;
        return ds_error_trace(ds_sched_set_policy(sched, config->policy, NULL, 0, 0, message, message_size));
}

void ds_host_deinit(ds_sched *sched)
{
        struct ds_host *host = &sched->host;

        host->plugin = ds_plugin_close(host->plugin);
        host->fallback = ds_plugin_close(host->fallback);
        host->actions = ds_free(host->actions);
        host->interference = ds_free(host->interference);
        ds_notes_deinit(&host->notes);
        host->place.dir = ds_free((char *)host->place.dir);
        for (size_t i = 0; i < DS_POLICY_DIRS_MAX; i++)
                host->more[i].dir = ds_free((char *)host->more[i].dir);
}

int ds_sched_set_policy(ds_sched *sched, const char *name, const char *const *params, size_t n_params, uint64_t now_ns,
        char *message, size_t message_size)
{
        struct ds_host *host = &sched->host;
        struct ds_plugin_world world = host_world(sched);
        ds_plugin *plugin, *fallback = NULL;
        int r;

        ds_sched_now(sched, now_ns);
        r = ds_plugin_open(&host->place, name, message, message_size, &plugin);
        if (r)
                return ds_error_trace(r);
        r = ds_plugin_init(plugin, &world, params, n_params, message, message_size);
        if (!r && !host_is_builtin(plugin))
                r = host_new_builtin(sched, &fallback);
        if (r) {
                ds_plugin_close(plugin);
                return ds_error_trace(r);
        }
        ds_plugin_close(host->fallback);
        host->fallback = fallback;
        host_install(sched, plugin);
        sched->stats.fallback[0] = 0;
        ds_trace_policy(sched, 0);
        return 0;
}

static void host_fall_back(ds_sched *sched, const char *why)
{
        struct ds_host *host = &sched->host;

        assert(host->fallback);
        ds_log(DS_LOG_WARNING, "policy %s %s: the built-in policy takes over", host->plugin->policy->name, why);
        snprintf(sched->stats.fallback, sizeof(sched->stats.fallback), "policy %s %s", host->plugin->policy->name, why);
        sched->stats.fallbacks++;
        host_install(sched, DS_TAKE_PTR(host->fallback));
        ds_trace_policy(sched, 1);
}

/* Restarts the policy in charge with a new description of the GPU. If the policy refuses it, the built-in one takes
 * over, which does not read the description. */
static int host_begin_anew(ds_sched *sched)
{
        struct ds_plugin_world world = host_world(sched);
        struct ds_host *host = &sched->host;
        char message[256] = "";
        int r;

        r = ds_plugin_begin(host->plugin, &world, message, sizeof(message));
        if (!r)
                host_begin(sched);
        if (r <= 0 || !host->fallback)
                return ds_error_fold(r);
        host_fall_back(sched, "cannot work with this calibration");
        return r;
}

int ds_sched_set_interference(ds_sched *sched, const struct detshare_interference *matrix, uint32_t n, uint64_t now_ns)
{
        struct ds_host *host = &sched->host;
        struct detshare_interference *old = host->interference, *copy = NULL;
        uint32_t n_old = host->n_interference;
        int r;

        ds_sched_now(sched, now_ns);
        if (n) {
                copy = ds_alloc(n * sizeof(*copy));
                if (!copy)
                        return ds_error_origin(-ENOMEM);
                memcpy(copy, matrix, n * sizeof(*copy));
        }
        host->interference = copy;
        host->n_interference = n;
        r = host_begin_anew(sched);
        if (r >= 0) {
                ds_free(old);
                return ds_error_trace(r);
        }
        /* the policy still runs, with the previous interference data */
        host->interference = old;
        host->n_interference = n_old;
        ds_free(copy);
        return ds_error_trace(r);
}

void ds_sched_policy_values(const ds_sched *sched, char *ret, size_t size)
{
        const ds_plugin *plugin = sched->host.plugin;
        size_t at = 0;

        ret[0] = 0;
        for (uint32_t i = 0; i < plugin->policy->n_params && at < size; i++)
                at += (size_t)snprintf(ret + at, size - at, "%s%s=%lld", i ? "\n" : "", plugin->policy->params[i].name,
                        (long long)plugin->params[i]);
}

size_t ds_sched_list_policies(ds_sched *sched, struct ds_policy_listing *list, size_t n)
{
        size_t count = ds_plugin_list(&sched->host.place, list, n);

        for (size_t i = 0; i < DS_MIN(count, n); i++)
                list[i].active = !strcmp(list[i].name, sched->host.plugin->policy->name);
        return count;
}

/* --- actions ------------------------------------------------------------------------------------------------------ */

/* Result of an action; a negative value is a fatal errno */
enum action_result {
        ACTION_NONSENSE, /* the action was invalid already in the snapshot that the policy received */
        ACTION_DONE,
        /* not possible now, which is not the policy's mistake: the class is held, or the device is full */
        ACTION_NOT_NOW,
        /* not possible any more: an earlier action of the same decision changed the state, or the session is ending */
        ACTION_TOO_LATE,
};

static int action_nonsense(ds_sched *sched, const char *what)
{
        sched->host.nonsense = what;
        return ACTION_NONSENSE;
}

/* Result of an action on a coroutine that is not runnable: too late if it was runnable when the policy was called,
 * else invalid. */
static int action_not_ready(ds_sched *sched, const ds_coroutine *coroutine)
{
        if (sched->snapshot.coroutine_views[coroutine->view].ready)
                return ACTION_TOO_LATE;
        return action_nonsense(sched, "a launch of work that was not ready");
}

static int action_launch(ds_sched *sched, ds_coroutine *coroutine, const struct detshare_action *action)
{
        struct ds_launch_target target = {
                .rung = action->rung,
                .priority = action->priority,
                .max_resident_blocks = action->max_resident_blocks,
                .evictable = action->evictable,
        };
        int r;

        if (action->rung >= sched->ladder.n || action->priority >= DS_DEVICE_PRIORITIES || !action->count)
                return action_nonsense(sched, "a launch with an invalid rung or priority, or of no operations");
        if (ds_sched_session_held(coroutine->session))
                return ACTION_NOT_NOW;
        if (!coroutine->runnable || coroutine->session->suspended)
                return action_not_ready(sched, coroutine);
        r = ds_launch_head(coroutine, &target, action->count, sched->now_ns);
        return r > 0 ? ACTION_DONE : r < 0 ? r : ACTION_NOT_NOW;
}

static int action_kill(ds_coroutine *coroutine)
{
        int r = ds_launch_kill(coroutine);

        if (r == DS_LET_GO_ALREADY)
                return ACTION_NOT_NOW;
        if (!r)
                return action_nonsense(
                        coroutine->sched, "a kill of a coroutine without an idempotent kernel in flight");
        return r > 0 ? ACTION_DONE : r;
}

static int action_evict(ds_sched *sched, ds_coroutine *coroutine)
{
        int r = ds_launch_evict(coroutine);

        if (r == DS_LET_GO_ALREADY)
                return ACTION_NOT_NOW;
        if (!r && sched->snapshot.coroutine_views[coroutine->view].evictable)
                return ACTION_TOO_LATE;
        if (!r)
                return action_nonsense(sched, "an eviction of work that cannot be evicted");
        return r > 0 ? ACTION_DONE : r;
}

static int action_memory_cap(ds_sched_session *session, uint64_t bytes)
{
        if (!session->sched->memory_cap)
                return action_nonsense(session->sched, "a memory cap, which this daemon does not support");
        ds_sched_session_cap(session, bytes);
        return ACTION_DONE;
}

static int action_apply(ds_sched *sched, const struct detshare_action *action)
{
        ds_coroutine *coroutine = ds_snapshot_find(&sched->snapshot, action->coroutine);

        if (!coroutine)
                return action_nonsense(sched, "an unknown coroutine");
        if (coroutine->session->cancelled)
                return ACTION_TOO_LATE;
        switch (action->kind) {
        case DETSHARE_ACTION_LAUNCH:
                return action_launch(sched, coroutine, action);
        case DETSHARE_ACTION_SUSPEND:
        case DETSHARE_ACTION_RESUME:
                ds_sched_session_suspend(coroutine->session, action->kind == DETSHARE_ACTION_SUSPEND);
                return ACTION_DONE;
        case DETSHARE_ACTION_KILL:
                return action_kill(coroutine);
        case DETSHARE_ACTION_EVICT:
                return action_evict(sched, coroutine);
        case DETSHARE_ACTION_MEMORY_CAP:
                return action_memory_cap(coroutine->session, action->bytes);
        default:
                return action_nonsense(sched, "an unknown kind of action");
        }
}

/* Carries out a decision. *ret_nonsense: whether some action was invalid. */
static int host_apply(ds_sched *sched, const struct detshare_decision *decision, int *ret_nonsense)
{
        uint32_t n = DS_MIN(decision->n, DS_HOST_ACTIONS_MAX);
        int r;

        *ret_nonsense = decision->n > n;
        if (*ret_nonsense)
                sched->host.nonsense = "more actions than a decision may have";
        sched->stats.actions_ignored += decision->n - n;
        for (uint32_t i = 0; i < n; i++) {
                r = action_apply(sched, &sched->host.actions[i]);
                if (r < 0)
                        return ds_error_trace(r);
                sched->stats.actions += r == ACTION_DONE;
                sched->stats.actions_ignored += r == ACTION_NONSENSE || r == ACTION_TOO_LATE;
                *ret_nonsense |= r == ACTION_NONSENSE;
        }
        /* launches that the device refused are reported now; until here, nothing may move the snapshot's arrays */
        ds_sched_settle(sched);
        return 0;
}

/* --- decisions ---------------------------------------------------------------------------------------------------- */

static void host_snapshot(ds_sched *sched, const struct telling *telling, struct detshare_snapshot *snapshot)
{
        const ds_sched_session *session = telling->session;

        ds_snapshot_refresh(sched);
        *snapshot = (struct detshare_snapshot){
                .size = sizeof(*snapshot),
                .event = telling->kind,
                .now_ns = sched->now_ns,
                .n_sms = sched->info->n_sms,
                .n_tpcs = sched->info->n_tpcs,
                .n_coroutines = sched->snapshot.n_coroutines,
                .n_sessions = sched->snapshot.n_sessions,
                .n_rungs = sched->ladder.n,
                .event_session = session ? session->view : UINT32_MAX,
                .event_coroutine = telling->coroutine,
                .event_start_ns = telling->start_ns,
                .event_end_ns = telling->end_ns,
                .event_op = telling->op,
                .coroutines = sched->snapshot.coroutine_views,
                .sessions = sched->snapshot.session_views,
                .rungs = sched->ladder.views,
                .can_kill = sched->ops->kill != NULL,
                .can_evict = sched->ops->evict && sched->transform != DS_SCHED_TRANSFORM_NEVER,
                .memory_total = sched->snapshot.memory_total,
                .memory_free = sched->snapshot.memory_free,
        };
}

/* Begins to measure a decision. Reading a thread's processor time is a system call, so it happens occasionally, and
 * again after a long decision. */
static uint64_t watch_start(struct ds_host *host)
{
        uint64_t wall_ns = host->wall_ns ? host->wall_ns() : 0;

        if (host->cpu_ns && wall_ns - host->seen_wall_ns >= DS_HOST_SEEN_NS) {
                host->seen_wall_ns = wall_ns;
                host->seen_cpu_ns = host->cpu_ns();
        }
        return wall_ns;
}

/*
 * Duration of a decision as its budget counts it. Programs that keep the processors busy can make any decision take
 * long, which must not cause a replacement of the policy. So the thread's processor time counts, and a share of real
 * time, because a policy must not sleep either.
 */
static uint64_t watch_spent(struct ds_host *host, uint64_t start_ns)
{
        uint64_t wall_ns;

        host->decided_wall_ns = host->wall_ns ? host->wall_ns() : 0;
        wall_ns = host->decided_wall_ns - start_ns;
        if (!host->cpu_ns || wall_ns <= host->budget_ns)
                return wall_ns;
        return DS_MAX(DS_MIN(host->cpu_ns() - host->seen_cpu_ns, wall_ns), wall_ns / DS_HOST_PREEMPTED);
}

/* Watches durations and errors: returns NULL, or the reason why the policy must be replaced. */
static const char *host_watch(ds_sched *sched, uint64_t spent_ns, int result)
{
        struct ds_host *host = &sched->host;

        if (spent_ns > host->budget_ns) {
                sched->stats.overruns++;
                host->overrun_score += DS_HOST_OVERRUN_SCORE;
        } else if (host->overrun_score) {
                host->overrun_score--;
        }
        if (result)
                return "returned an error";
        return host->overrun_score > DS_HOST_OVERRUN_LIMIT ? "exceeded its time budget too often" : NULL;
}

/* Counts decisions with invalid actions. Returns 1 if there were so many that the policy must be replaced. */
static int host_watch_answers(ds_sched *sched, int nonsense)
{
        struct ds_host *host = &sched->host;

        if (nonsense) {
                sched->stats.nonsense++;
                host->nonsense_score += DS_HOST_NONSENSE_SCORE;
        } else if (host->nonsense_score) {
                host->nonsense_score--;
        }
        return host->nonsense_limit != UINT32_MAX && host->nonsense_score > host->nonsense_limit;
}

void ds_host_explain(const struct ds_host *host, uint64_t session, char *text, uint32_t size)
{
        const ds_plugin *plugin = host->plugin;

        text[0] = '\0';
        if (plugin->policy->explain)
                plugin->policy->explain(plugin->state, session, text, size);
        text[size - 1] = '\0';
}

/* Calls the policy once and carries out the decision. *ret_again: the policy requests another call. */
static int host_decide(ds_sched *sched, const struct telling *telling, int *ret_again)
{
        struct ds_host *host = &sched->host;
        struct detshare_snapshot snapshot;
        struct detshare_decision decision = {
                .size = sizeof(decision),
                .capacity = DS_HOST_ACTIONS_MAX,
                .next_timer_ns = UINT64_MAX,
                .actions = host->actions,
        };
        uint64_t start_ns;
        char why_nonsense[128];
        const char *why;
        int r, nonsense;

        host_snapshot(sched, telling, &snapshot);
        start_ns = watch_start(host);
        r = host->plugin->policy->decide(host->plugin->state, &snapshot, &decision);
        sched->stats.decisions++;
        why = host_watch(sched, watch_spent(host, start_ns), r);
        if (why && host->fallback) {
                host_fall_back(sched, why);
                *ret_again = 0;
                return 0;
        }
        host->timer_ns = decision.next_timer_ns;
        if (host->timer_ns != UINT64_MAX)
                host->timer_ns = DS_MAX(host->timer_ns, sched->now_ns + DS_HOST_TIMER_MIN_NS);
        *ret_again = decision.again != 0;
        r = host_apply(sched, &decision, &nonsense);
        if (!r && host_watch_answers(sched, nonsense) && host->fallback) {
                snprintf(why_nonsense, sizeof(why_nonsense), "returned too many invalid actions (the last: %s)",
                        host->nonsense);
                host_fall_back(sched, why_nonsense);
                *ret_again = 0;
        }
        return ds_error_trace(r);
}

static void telling_take(ds_sched *sched, struct ds_sched_event *event, struct telling *telling)
{
        *telling = (struct telling){.kind = event->kind, .session = event->session};
        if (event->kind == DETSHARE_EVENT_SUBMIT) {
                telling->coroutine = DS_CONTAINER_OF(event, ds_coroutine, submit_event)->id;
        } else if (event->kind == DETSHARE_EVENT_COMPLETE) {
                struct ds_slot *slot = DS_CONTAINER_OF(event, struct ds_slot, event);

                telling->coroutine = slot->coroutine;
                telling->start_ns = slot->start_ns;
                telling->end_ns = slot->end_ns;
                telling->op = slot->view;
                ds_kstat_show(sched->kstat, &slot->stat_row, &telling->op, 1);
                ds_slot_told(sched, slot);
        }
}

static int host_tell(ds_sched *sched, struct ds_sched_event *event)
{
        struct telling telling;
        int r, again;

        telling_take(sched, event, &telling);
        r = host_decide(sched, &telling, &again);
        for (uint32_t i = 0; !r && again && i < DS_HOST_AGAIN_MAX; i++) {
                telling.kind = DETSHARE_EVENT_AGAIN;
                /* launches of the last decision may have reassigned the kernel's points to another kernel */
                telling.op.n_points = 0;
                telling.op.points = NULL;
                r = host_decide(sched, &telling, &again);
        }
        ds_sched_event_told(telling.session);
        return ds_error_trace(r);
}

/* Detects a stall: work is ready, but nothing is in flight and no timer is set. */
static void host_watch_stall(ds_sched *sched)
{
        struct ds_host *host = &sched->host;
        int stalled = sched->n_runnable && !sched->n_in_flight && host->timer_ns == UINT64_MAX && host->fallback;

        if (!stalled || sched->held)
                host->stall_ns = UINT64_MAX;
        else if (host->stall_ns == UINT64_MAX)
                host->stall_ns = sched->now_ns + DS_HOST_STALL_NS;
}

int ds_host_run(ds_sched *sched, uint64_t now_ns)
{
        struct ds_host *host = &sched->host;
        uint64_t now = ds_sched_now(sched, now_ns);
        const uint64_t until = host->wall_ns ? host->wall_ns() + DS_HOST_STEP_NS : 0;
        struct ds_sched_event *event;
        int r = 0;

        if (now >= host->timer_ns) {
                host->timer_ns = UINT64_MAX;
                ds_sched_event_post(sched, &sched->timer_event);
        }
        if (now >= host->stall_ns && host->fallback)
                host_fall_back(sched, "launches no ready work and sets no timer");
        for (uint32_t i = 0; !r && i < DS_HOST_EVENTS_PER_STEP && (event = ds_sched_event_pop(sched)); i++) {
                r = host_tell(sched, event);
                if (until && host->decided_wall_ns >= until)
                        break;
        }
        host_watch_stall(sched);
        return ds_error_trace(r);
}
