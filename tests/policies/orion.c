/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gate in the manner of Orion (EuroSys'24), to show that the plug-in ABI is wide enough for it
 *
 * Latency-sensitive work is launched at once. One best-effort operation at a time, round robin over their coroutines,
 * may join it if no LS session is in a request, or it is no kernel, or it needs few enough SMs beside the best-effort
 * work already running and has another bottleneck than the LS kernel (or one of the two is unknown). When the expected
 * durations of the best-effort kernels launched since the last drain pass a threshold, all of them must end first.
 */
#include "policies/detshare_policy.h"

struct orion {
        uint64_t max_duration_ns, launched_ns;
        uint64_t last_be; /* coroutine served last */
        uint32_t max_sms, ls_bound;
};

static const struct detshare_policy_param params[] = {
        {.name = "sm_threshold", .help = "SMs that BE may hold beside LS, 0 = all", .def = 0, .min = 0, .max = 1024},
        {.name = "dur_threshold_us", .help = "BE work between drains", .def = 160, .min = 1, .max = 1000000},
};

static int orion_init(void *state, const struct detshare_policy_config *config)
{
        struct orion *orion = state;

        orion->max_sms = config->params[0] ? (uint32_t)config->params[0] : config->n_sms;
        orion->max_duration_ns = (uint64_t)config->params[1] * 1000;
        return 0;
}

static void launch(struct detshare_decision *decision, const struct detshare_coroutine_view *coroutine, uint32_t count)
{
        if (decision->n == decision->capacity)
                return;
        decision->actions[decision->n++] = (struct detshare_action){
                .kind = DETSHARE_ACTION_LAUNCH,
                .coroutine = coroutine->id,
                .priority = coroutine->class_ == DETSHARE_CLASS_LS ? DETSHARE_PRIORITY_HIGH : DETSHARE_PRIORITY_LOW,
                .count = count,
        };
}

static void launch_ls(struct orion *orion, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (coroutine->class_ != DETSHARE_CLASS_LS || !coroutine->ready)
                        continue;
                launch(decision, coroutine, coroutine->n_ahead);
                orion->ls_bound = coroutine->ahead[coroutine->n_ahead - 1].bound;
        }
}

static int ls_in_request(const struct detshare_snapshot *snapshot)
{
        for (uint32_t i = 0; i < snapshot->n_sessions; i++)
                if (snapshot->sessions[i].request_active)
                        return 1;
        return 0;
}

static int may_join(const struct orion *orion, const struct detshare_op_view *op, uint32_t be_sms)
{
        if (op->kind != DETSHARE_OP_KERNEL)
                return 1;
        if (be_sms + op->sms_needed > orion->max_sms)
                return 0;
        return !op->bound || !orion->ls_bound || op->bound != orion->ls_bound;
}

/* The ready BE coroutine after the one served last; NULL when there is none. */
static const struct detshare_coroutine_view *next_be(
        const struct orion *orion, const struct detshare_snapshot *snapshot)
{
        const struct detshare_coroutine_view *first = NULL;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (coroutine->class_ != DETSHARE_CLASS_BE || !coroutine->ready)
                        continue;
                if (coroutine->id > orion->last_be)
                        return coroutine;
                if (!first)
                        first = coroutine;
        }
        return first;
}

static int orion_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct orion *orion = state;
        const struct detshare_coroutine_view *be;
        uint32_t be_sms = 0, be_in_flight = 0;

        launch_ls(orion, snapshot, decision);
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                if (snapshot->coroutines[i].class_ != DETSHARE_CLASS_BE)
                        continue;
                be_sms += snapshot->coroutines[i].in_flight_sms;
                be_in_flight += snapshot->coroutines[i].in_flight;
        }
        if (!be_in_flight)
                orion->launched_ns = 0;
        be = next_be(orion, snapshot);
        if (!be || orion->launched_ns > orion->max_duration_ns)
                return 0;
        orion->last_be = be->id;
        if (ls_in_request(snapshot) && !may_join(orion, &be->ahead[0], be_sms))
                return 0;
        launch(decision, be, 1);
        orion->launched_ns += be->ahead[0].expected_ns;
        decision->again = 1;
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "orion",
        .description = "test: complementary kernels, bounded SMs and bounded time beside LS",
        .params = params,
        .n_params = sizeof(params) / sizeof(params[0]),
        .state_size = sizeof(struct orion),
        .init = orion_init,
        .decide = orion_decide,
};
