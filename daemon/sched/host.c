/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the policy and doing what it says
 */
#include "sched/host.h"

#include <assert.h>
#include <string.h>

#include "sched/internal.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"

/* What an event was, taken before the policy is asked: what it was embedded in may go while it is told. */
struct telling {
        uint32_t kind;
        ds_sched_session *session;
        uint64_t coroutine, start_ns, end_ns;
        struct detshare_op_view op;
};

/* --- life
 * ---------------------------------------------------------------------------------------------------------------- */

static int host_is_builtin(const ds_plugin *plugin)
{
        return plugin->policy == &ds_plugin_fifo;
}

/* The built-in policy, ready to run. */
static int host_new_builtin(ds_sched *sched, ds_plugin **ret)
{
        char message[256] = "";
        ds_plugin *plugin;
        int r;

        r = ds_plugin_open(&sched->host.place, DS_PLUGIN_BUILTIN, message, sizeof(message), &plugin);
        if (r)
                return ds_error_fold(r);
        r = ds_plugin_init(plugin, &sched->ladder, NULL, 0, message, sizeof(message));
        if (r) {
                ds_plugin_close(plugin);
                return ds_error_fold(r);
        }
        *ret = plugin;
        return 0;
}

/* Puts a policy in charge. Whatever its predecessor had suspended or planned is over. */
static void host_install(ds_sched *sched, ds_plugin *plugin)
{
        struct ds_host *host = &sched->host;

        ds_plugin_close(host->plugin);
        host->plugin = plugin;
        host->timer_ns = host->stall_ns = UINT64_MAX;
        host->overrun_score = 0;
        for (ds_sched_session *session = sched->sessions; session; session = session->next)
                if (session->suspended)
                        ds_sched_session_suspend(session, 0);
        ds_sched_event_post(sched, &sched->switch_event);
}

int ds_host_init(ds_sched *sched, const struct ds_sched_config *config, char *message, size_t message_size)
{
        struct ds_host *host = &sched->host;
        int r;

        host->place.dir = ds_strdup(config->policy_dir ? config->policy_dir : "");
        host->place.dir_fd = config->policy_dir_fd;
        host->place.trust_any_owner = config->trust_any_owner;
        host->wall_ns = config->wall_ns;
        host->budget_ns = config->policy_budget_ns ? config->policy_budget_ns : DS_HOST_BUDGET_NS;
        host->actions = ds_alloc0(DS_HOST_ACTIONS_MAX, sizeof(*host->actions));
        host->timer_ns = host->stall_ns = UINT64_MAX;
        if (!host->place.dir || !host->actions)
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
        host->place.dir = ds_free((char *)host->place.dir);
}

int ds_sched_set_policy(ds_sched *sched, const char *name, const char *const *params, size_t n_params, uint64_t now_ns,
        char *message, size_t message_size)
{
        struct ds_host *host = &sched->host;
        ds_plugin *plugin, *fallback = NULL;
        int r;

        ds_sched_now(sched, now_ns);
        r = ds_plugin_open(&host->place, name, message, message_size, &plugin);
        if (r)
                return ds_error_trace(r);
        r = ds_plugin_init(plugin, &sched->ladder, params, n_params, message, message_size);
        if (!r && !host_is_builtin(plugin))
                r = host_new_builtin(sched, &fallback);
        if (r) {
                ds_plugin_close(plugin);
                return ds_error_trace(r);
        }
        ds_plugin_close(host->fallback);
        host->fallback = fallback;
        host_install(sched, plugin);
        ds_trace_policy(sched, 0);
        return 0;
}

static void host_fall_back(ds_sched *sched, const char *why)
{
        struct ds_host *host = &sched->host;

        assert(host->fallback);
        ds_log(DS_LOG_WARNING, "policy %s %s: the built-in policy takes over", host->plugin->policy->name, why);
        sched->stats.fallbacks++;
        host_install(sched, DS_TAKE_PTR(host->fallback));
        ds_trace_policy(sched, 1);
}

size_t ds_sched_list_policies(ds_sched *sched, struct ds_policy_listing *list, size_t n)
{
        size_t count = ds_plugin_list(&sched->host.place, list, n);

        for (size_t i = 0; i < DS_MIN(count, n); i++)
                list[i].active = !strcmp(list[i].name, sched->host.plugin->policy->name);
        return count;
}

/* --- actions
 * --------------------------------------------------------------------------------------------------------------- */

#define ACTION_HELD 2

/* 1: carried out, 0: makes no sense, ACTION_HELD: not now, and not the policy's mistake; negative: fatal */
static int action_launch(ds_sched *sched, ds_coroutine *coroutine, const struct detshare_action *action)
{
        struct ds_launch_target target = {
                .rung = action->rung,
                .priority = action->priority,
                .max_resident_blocks = action->max_resident_blocks,
        };
        int r;

        if (action->rung >= sched->ladder.n || action->priority >= DS_DEVICE_PRIORITIES || !action->count)
                return 0;
        if (!coroutine->runnable || coroutine->session->suspended)
                return 0;
        if (ds_sched_session_held(coroutine->session))
                return ACTION_HELD;
        r = ds_launch_head(coroutine, &target, action->count, sched->now_ns);
        /* no room on the device is no mistake either */
        return r > 0 ? 1 : r < 0 ? r : ACTION_HELD;
}

static int action_apply(ds_sched *sched, const struct detshare_action *action)
{
        ds_coroutine *coroutine = ds_snapshot_find(&sched->snapshot, action->coroutine);

        if (!coroutine || coroutine->session->cancelled)
                return 0;
        switch (action->kind) {
        case DETSHARE_ACTION_LAUNCH:
                return action_launch(sched, coroutine, action);
        case DETSHARE_ACTION_SUSPEND:
        case DETSHARE_ACTION_RESUME:
                ds_sched_session_suspend(coroutine->session, action->kind == DETSHARE_ACTION_SUSPEND);
                return 1;
        default:
                return 0;
        }
}

static int host_apply(ds_sched *sched, const struct detshare_decision *decision)
{
        uint32_t n = DS_MIN(decision->n, DS_HOST_ACTIONS_MAX);
        int r;

        sched->stats.actions_ignored += decision->n - n;
        for (uint32_t i = 0; i < n; i++) {
                r = action_apply(sched, &sched->host.actions[i]);
                if (r < 0)
                        return ds_error_trace(r);
                sched->stats.actions += r == 1;
                sched->stats.actions_ignored += !r;
        }
        /* refused launches are told now; the snapshot's arrays have not moved before */
        ds_sched_settle(sched);
        return 0;
}

/* --- decisions
 * --------------------------------------------------------------------------------------------------------------- */

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
        };
}

/* NULL, or why this policy must go. */
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
        return host->overrun_score > DS_HOST_OVERRUN_LIMIT ? "overran its time too often" : NULL;
}

/* One call of the policy and what follows from it. *ret_again: it wants another one. */
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
        uint64_t start_ns, spent_ns = 0;
        const char *why;
        int r;

        host_snapshot(sched, telling, &snapshot);
        start_ns = host->wall_ns ? host->wall_ns() : 0;
        r = host->plugin->policy->decide(host->plugin->state, &snapshot, &decision);
        if (host->wall_ns)
                spent_ns = host->wall_ns() - start_ns;
        sched->stats.decisions++;
        why = host_watch(sched, spent_ns, r);
        if (why && host->fallback) {
                host_fall_back(sched, why);
                *ret_again = 0;
                return 0;
        }
        host->timer_ns = decision.next_timer_ns;
        if (host->timer_ns != UINT64_MAX)
                host->timer_ns = DS_MAX(host->timer_ns, sched->now_ns + DS_HOST_TIMER_MIN_NS);
        *ret_again = decision.again != 0;
        return ds_error_trace(host_apply(sched, &decision));
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
                r = host_decide(sched, &telling, &again);
        }
        ds_sched_event_told(telling.session);
        return ds_error_trace(r);
}

/* Ready work that nobody is going to launch: nothing runs that could end, and no timer was asked for. */
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
        struct ds_sched_event *event;
        int r = 0;

        if (now >= host->timer_ns) {
                host->timer_ns = UINT64_MAX;
                ds_sched_event_post(sched, &sched->timer_event);
        }
        if (now >= host->stall_ns && host->fallback)
                host_fall_back(sched, "launches nothing and waits for nothing");
        for (uint32_t i = 0; !r && i < DS_HOST_EVENTS_PER_STEP && (event = ds_sched_event_pop(sched)); i++)
                r = host_tell(sched, event);
        host_watch_stall(sched);
        return ds_error_trace(r);
}
