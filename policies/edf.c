/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edf: earliest deadline first (Liu and Layland, JACM 1973), without preemption inside an operation
 *
 * Whenever the GPU is free, the session whose request has the earliest deadline gets it. A request's deadline is its
 * begin plus the objective of its session. A late request has the earliest deadline of all, so it is still served
 * first.
 *
 * - One session at a time has the GPU. Another one's turn begins when everything in flight has ended. Operations that
 *   are known and short are sent ahead if they should begin within `ahead_us`, to hide the time of a launch.
 * - An operation without an objective (best effort, sessions without one) is due `due_ms` after it reaches the head of
 *   its queue. So it comes after requests with sensible objectives, first come first served, and nothing starves under
 *   overload. With 0 it is never due and may starve.
 *
 * Classes and priorities do not matter.
 */
#include "policies/round.h"

struct edf {
        uint64_t ahead_ns, due_ns;
};

static const struct detshare_policy_param edf_params[] = {
        {.name = "ahead_us",
                .help = "operations that should begin within this time are sent to the device ahead, us",
                .def = 100,
                .min = 0,
                .max = 1000000},
        {.name = "due_ms",
                .help = "deadline of an operation without an objective, ms after it reaches the head of its queue; 0 = "
                        "never",
                .def = 1000,
                .min = 0,
                .max = 1000000},
};

static int edf_init(void *state, const struct detshare_policy_config *config)
{
        struct edf *edf = state;

        edf->ahead_ns = (uint64_t)config->params[0] * 1000;
        edf->due_ns = (uint64_t)config->params[1] * 1000000;
        return 0;
}

static uint64_t due(const struct edf *edf, const struct detshare_snapshot *snapshot,
        const struct detshare_coroutine_view *coroutine)
{
        uint64_t deadline_ns = snapshot->sessions[coroutine->session].deadline_ns;

        if (deadline_ns != UINT64_MAX || !edf->due_ns)
                return deadline_ns;
        return coroutine->head_since_ns + edf->due_ns;
}

static int is_before(const struct edf *edf, const struct detshare_snapshot *snapshot,
        const struct detshare_coroutine_view *a, const struct detshare_coroutine_view *b)
{
        uint64_t due_a = due(edf, snapshot, a), due_b = due(edf, snapshot, b);

        return due_a != due_b ? due_a < due_b : a->head_since_ns < b->head_since_ns;
}

/* The ready coroutine whose head has the earliest deadline; NULL if none is ready. */
static const struct detshare_coroutine_view *first_due(const struct edf *edf, const struct detshare_snapshot *snapshot)
{
        const struct detshare_coroutine_view *best = NULL;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (coroutine->ready && (!best || is_before(edf, snapshot, coroutine, best)))
                        best = coroutine;
        }
        return best;
}

static int edf_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        const struct edf *edf = state;
        const struct detshare_coroutine_view *best = first_due(edf, snapshot);

        for (uint32_t i = 0; best && i < snapshot->n_coroutines; i++)
                if (snapshot->coroutines[i].in_flight && snapshot->coroutines[i].session != best->session)
                        return 0;
        for (uint32_t i = 0; best && i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                uint32_t n = 0;

                if (coroutine->ready && coroutine->session == best->session)
                        n = round_within(coroutine, edf->ahead_ns, ROUND_DEPTH);
                if (n && !round_launch(decision, coroutine, 0, n))
                        return 0;
        }
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "edf",
        .description = "the request with the earliest deadline has the whole GPU (earliest deadline first)",
        .params = edf_params,
        .n_params = sizeof(edf_params) / sizeof(edf_params[0]),
        .state_size = sizeof(struct edf),
        .init = edf_init,
        .decide = edf_decide,
};
