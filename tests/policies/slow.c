/* SPDX-License-Identifier: Apache-2.0 */
/* A policy that launches all ready work, but uses 8 ms of processor time per decision, more than a policy may. */
#include <time.h>

#include "policies/detshare_policy.h"

static int slow_init(void *state, const struct detshare_policy_config *config)
{
        (void)state;
        (void)config;
        return 0;
}

static int64_t clock_us(void)
{
        struct timespec now;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int slow_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        int64_t end = clock_us() + 8000;

        (void)state;
        while (clock_us() < end)
                ;
        for (uint32_t i = 0; i < snapshot->n_coroutines && decision->n < decision->capacity; i++) {
                if (!snapshot->coroutines[i].ready)
                        continue;
                decision->actions[decision->n++] =
                        (struct detshare_action){.coroutine = snapshot->coroutines[i].id, .count = 1};
        }
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "slow",
        .description = "test: exceeds its time limit",
        .init = slow_init,
        .decide = slow_decide,
};
