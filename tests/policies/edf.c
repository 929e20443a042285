/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Earliest deadline first, to show that the plug-in ABI is wide enough for it
 *
 * One operation on the GPU at a time: the head whose session's request is due first. Sessions without a deadline come
 * last, in the order of their coroutines.
 */
#include "policies/detshare_policy.h"

static int edf_init(void *state, const struct detshare_policy_config *config)
{
        (void)state;
        (void)config;
        return 0;
}

static int edf_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        const struct detshare_coroutine_view *best = NULL;

        (void)state;
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (coroutine->in_flight)
                        return 0;
                if (!coroutine->ready)
                        continue;
                if (!best || snapshot->sessions[coroutine->session].deadline_ns <
                                     snapshot->sessions[best->session].deadline_ns)
                        best = coroutine;
        }
        if (!best)
                return 0;
        decision->actions[decision->n++] =
                (struct detshare_action){.kind = DETSHARE_ACTION_LAUNCH, .coroutine = best->id, .count = 1};
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "edf",
        .description = "test: earliest deadline first",
        .init = edf_init,
        .decide = edf_decide,
};
