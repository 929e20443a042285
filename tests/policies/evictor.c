/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy that evicts kernels at random times and resumes them on other SMs
 *
 * For tests of kernel forms with whole programs and models, under `--transform always`: their results must equal native
 * ones, however often their kernels stop and wherever they continue. It launches all work of every class as soon as it
 * is ready. It draws a random rung each time when no work of the stream is on the device. The time to the next round is
 * random too, log-uniform from 1 us to `most_us`. So rounds hit short kernels, and long kernels progress between two
 * evictions. In a round, each stream whose kernel can be evicted is evicted with probability 1/`of`.
 *
 * All decisions derive from the seed and the timing. There is no guarantee of service order or fairness.
 */
#include "policies/detshare_policy.h"

#define NS_PER_US 1000ull
#define DOUBLINGS_MAX 20u

struct evictor {
        uint64_t random, look_ns;
        uint32_t n_rungs, of, depth, doublings;
};

static const struct detshare_policy_param params[] = {
        {.name = "seed", .help = "seed of the random decisions", .def = 1, .min = 1, .max = INT64_MAX},
        {.name = "most_us", .help = "longest time between two rounds, us", .def = 512, .min = 2, .max = 1000000},
        {.name = "of", .help = "evict a stream's kernel in one of this many rounds", .def = 2, .min = 1, .max = 1000},
        {.name = "depth", .help = "operations of a stream on the device at once", .def = 4, .min = 1, .max = 256},
};

static uint64_t dice(struct evictor *evictor, uint64_t sides)
{
        evictor->random ^= evictor->random << 13;
        evictor->random ^= evictor->random >> 7;
        evictor->random ^= evictor->random << 17;
        return evictor->random % sides;
}

static int evictor_init(void *state, const struct detshare_policy_config *config)
{
        struct evictor *evictor = state;

        evictor->random = (uint64_t)config->params[0];
        evictor->of = (uint32_t)config->params[2];
        evictor->depth = (uint32_t)config->params[3];
        evictor->n_rungs = config->n_rungs;
        while (evictor->doublings < DOUBLINGS_MAX && 2ll << evictor->doublings <= config->params[1])
                evictor->doublings++;
        return 0;
}

/* Returns a random pause, ns; each interval from 2^n to 2^(n + 1) us is equally likely. */
static uint64_t pause_ns(struct evictor *evictor)
{
        uint64_t us = 1ull << dice(evictor, evictor->doublings);

        return us * NS_PER_US + dice(evictor, us * NS_PER_US);
}

static int action_add(struct detshare_decision *decision, const struct detshare_action *action)
{
        if (decision->n == decision->capacity) {
                decision->again = 1;
                return 0;
        }
        decision->actions[decision->n++] = *action;
        return 1;
}

static void evict(struct evictor *evictor, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (!coroutine->evictable || dice(evictor, evictor->of))
                        continue;
                if (!action_add(decision,
                            &(struct detshare_action){.kind = DETSHARE_ACTION_EVICT, .coroutine = coroutine->id}))
                        return;
        }
}

static void launch(
        struct evictor *evictor, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (!coroutine->ready || coroutine->in_flight >= evictor->depth)
                        continue;
                if (!action_add(decision,
                            &(struct detshare_action){
                                    .kind = DETSHARE_ACTION_LAUNCH,
                                    .rung = coroutine->in_flight ? coroutine->rung
                                                                 : (uint32_t)dice(evictor, evictor->n_rungs),
                                    .coroutine = coroutine->id,
                                    .priority = coroutine->class_ == DETSHARE_CLASS_LS ? DETSHARE_PRIORITY_HIGH
                                                                                       : DETSHARE_PRIORITY_LOW,
                                    .count = evictor->depth - coroutine->in_flight,
                                    .evictable = 1,
                            }))
                        return;
        }
}

static int evictor_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct evictor *evictor = state;

        if (snapshot->now_ns >= evictor->look_ns) {
                evict(evictor, snapshot, decision);
                evictor->look_ns = snapshot->now_ns + pause_ns(evictor);
        }
        launch(evictor, snapshot, decision);
        if (snapshot->n_coroutines)
                decision->next_timer_ns = evictor->look_ns;
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "evictor",
        .description = "test: evicts kernels at random times",
        .params = params,
        .n_params = sizeof(params) / sizeof(params[0]),
        .state_size = sizeof(struct evictor),
        .init = evictor_init,
        .decide = evictor_decide,
};
