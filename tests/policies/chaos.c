/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy of random decisions: valid launches, migrations, suspensions, kills, evictions, memory caps and timers, and
 * invalid actions of every kind
 *
 * All decisions derive from the seed in its parameters, so a failing run can be repeated.
 */
#include "policies/detshare_policy.h"

struct chaos {
        uint64_t random;
        uint32_t n_rungs;
};

static const struct detshare_policy_param params[] = {
        {.name = "seed", .help = "seed of the random decisions", .def = 1, .min = 1, .max = INT64_MAX},
};

static uint64_t dice(struct chaos *chaos, uint64_t sides)
{
        chaos->random ^= chaos->random << 13;
        chaos->random ^= chaos->random >> 7;
        chaos->random ^= chaos->random << 17;
        return chaos->random % sides;
}

static int chaos_init(void *state, const struct detshare_policy_config *config)
{
        struct chaos *chaos = state;

        chaos->random = (uint64_t)config->params[0];
        chaos->n_rungs = config->n_rungs;
        return 0;
}

static struct detshare_action nonsense(struct chaos *chaos)
{
        return (struct detshare_action){
                .kind = (uint32_t)dice(chaos, 8),
                .rung = (uint32_t)dice(chaos, UINT32_MAX),
                .coroutine = dice(chaos, 3) ? dice(chaos, 20) : dice(chaos, UINT64_MAX),
                .priority = (uint32_t)dice(chaos, 4),
                .count = (uint32_t)dice(chaos, 3),
                .max_resident_blocks = (uint32_t)dice(chaos, 100),
                .bytes = dice(chaos, 3) ? dice(chaos, 1 << 30) : UINT64_MAX,
                .evictable = (uint32_t)dice(chaos, 2),
        };
}

static int chaos_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct chaos *chaos = state;
        uint64_t n = dice(chaos, 8);

        for (uint64_t i = 0; i < n; i++) {
                struct detshare_action *action = &decision->actions[decision->n++];

                *action = nonsense(chaos);
                if (!snapshot->n_coroutines || !dice(chaos, 4))
                        continue;
                action->coroutine = snapshot->coroutines[dice(chaos, snapshot->n_coroutines)].id;
                action->rung = (uint32_t)dice(chaos, chaos->n_rungs);
                action->priority = (uint32_t)dice(chaos, 2);
                action->count = 1 + (uint32_t)dice(chaos, 5);
                action->kind = DETSHARE_ACTION_LAUNCH;
                if (!dice(chaos, 8))
                        action->kind = DETSHARE_ACTION_SUSPEND + (uint32_t)dice(chaos, 5);
        }
        decision->again = dice(chaos, 3) == 0;
        if (dice(chaos, 2))
                decision->next_timer_ns = dice(chaos, 5) ? snapshot->now_ns + dice(chaos, 100000) : 0;
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "chaos",
        .description = "test: random actions",
        .params = params,
        .n_params = 1,
        .state_size = sizeof(struct chaos),
        .init = chaos_init,
        .decide = chaos_decide,
};
