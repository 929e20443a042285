/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shortest: a policy outside of DetShare's tree, to begin your own from
 *
 * Rule: latency-sensitive (LS) kernels go to the whole GPU at high priority at once. A best-effort (BE) kernel starts
 * only while no LS request is under way, and only one BE kernel is in flight: the one with the shortest expected
 * duration. So an LS kernel waits for at most one BE kernel, `patience_us` long at most once that kernel is known.
 *
 * What it guarantees: each LS kernel waits for at most one BE kernel. What it does not: a BE session with long kernels
 * may wait without end beside one with short kernels. A real policy must bound that wait.
 *
 * The file needs one header, detshare_policy.h, and exports one symbol, detshare_policy. `make` builds it, `make test`
 * replays it without a GPU and without a daemon.
 */
#include <detshare/detshare_policy.h>

struct shortest {
        /* longest expected duration of a BE kernel that may start, ns; applies to kernels of known duration */
        uint64_t patience_ns;
};

static const struct detshare_policy_param params[] = {
        {.name = "patience_us",
                .help = "longest expected duration of a best-effort kernel that starts beside LS sessions, in us",
                .def = 500,
                .min = 1,
                .max = 1000000},
};

static int shortest_init(void *state, const struct detshare_policy_config *config)
{
        struct shortest *shortest = state;

        shortest->patience_ns = (uint64_t)config->params[0] * 1000;
        return 0;
}

/* Adds a launch. Returns 0 if actions[] is full: the host then calls decide() again after it has applied the
 * actions. */
static int launch(struct detshare_decision *decision, uint64_t coroutine, uint32_t priority, uint32_t count)
{
        if (decision->n == decision->capacity) {
                decision->again = 1;
                return 0;
        }
        decision->actions[decision->n++] = (struct detshare_action){
                .kind = DETSHARE_ACTION_LAUNCH,
                .rung = 0, /* the whole GPU */
                .coroutine = coroutine,
                .priority = priority,
                .count = count,
        };
        return 1;
}

static int ls_is_active(const struct detshare_snapshot *snapshot)
{
        for (uint32_t i = 0; i < snapshot->n_sessions; i++)
                if (snapshot->sessions[i].class_ == DETSHARE_CLASS_LS && snapshot->sessions[i].request_active)
                        return 1;
        return 0;
}

static int has_ls_session(const struct detshare_snapshot *snapshot)
{
        for (uint32_t i = 0; i < snapshot->n_sessions; i++)
                if (snapshot->sessions[i].class_ == DETSHARE_CLASS_LS)
                        return 1;
        return 0;
}

static int shortest_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        const struct shortest *shortest = state;
        const struct detshare_coroutine_view *best = NULL;
        int be_runs = 0, bounded = has_ls_session(snapshot);

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (coroutine->class_ == DETSHARE_CLASS_LS) {
                        if (coroutine->ready && !launch(decision, coroutine->id, DETSHARE_PRIORITY_HIGH, 16))
                                return 0;
                        continue;
                }
                be_runs |= coroutine->in_flight > 0;
                if (!coroutine->ready || (bounded && coroutine->ahead[0].expected_ns > shortest->patience_ns))
                        continue;
                if (!best || coroutine->ahead[0].expected_ns < best->ahead[0].expected_ns)
                        best = coroutine;
        }
        if (best && !be_runs && !ls_is_active(snapshot))
                launch(decision, best->id, DETSHARE_PRIORITY_LOW, 1);
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "shortest",
        .description = "one best-effort kernel at a time, the shortest first, and none during LS requests",
        .params = params,
        .n_params = sizeof(params) / sizeof(params[0]),
        .state_size = sizeof(struct shortest),
        .init = shortest_init,
        .decide = shortest_decide,
};
