/* SPDX-License-Identifier: Apache-2.0 */
/*
 * static: a fixed split of the SMs
 *
 * Latency-sensitive work has one part of the GPU and best-effort work the rest, whether the other class has work or
 * not. Neither ever waits for the other's blocks, and each loses the SMs of the other. The split is the pair of
 * complementary rungs of the ladder nearest to `ls_percent`.
 */
#include "policies/depth.h"

#include <errno.h>

struct split {
        uint32_t rung[2]; /* rung of LS and of BE */
        struct depth depth;
};

static const struct detshare_policy_param params[] = {
        {.name = "ls_percent",
                .help = "share of the SMs for LS, percent; the ladder rounds it",
                .def = 50,
                .min = 10,
                .max = 90},
        DEPTH_PARAMS,
};

/* The rung with exactly the TPCs that `rung` does not have; 0 (the whole GPU, which has no complement) if there is
 * none. */
static uint32_t complement(const struct detshare_policy_config *config, uint32_t rung)
{
        const struct detshare_rung_view *all = &config->rungs[0], *of = &config->rungs[rung];

        for (uint32_t i = 1; i < config->n_rungs; i++) {
                const struct detshare_rung_view *other = &config->rungs[i];

                if (other->tpcs[0] == (all->tpcs[0] & ~of->tpcs[0]) && other->tpcs[1] == (all->tpcs[1] & ~of->tpcs[1]))
                        return i;
        }
        return 0;
}

static uint64_t distance(const struct detshare_policy_config *config, uint32_t rung, int64_t percent)
{
        int64_t difference = (int64_t)config->rungs[rung].n_sms * 100 - percent * (int64_t)config->n_sms;

        return (uint64_t)(difference < 0 ? -difference : difference);
}

static int split_init(void *state, const struct detshare_policy_config *config)
{
        struct split *split = state;
        uint32_t best = 0, best_complement = 0;

        for (uint32_t i = 1; i < config->n_rungs; i++) {
                uint32_t rest = config->rungs[i].family == DETSHARE_FAMILY_FINE ? complement(config, i) : 0;

                if (!rest ||
                        (best && distance(config, i, config->params[0]) >= distance(config, best, config->params[0])))
                        continue;
                best = i;
                best_complement = rest;
        }
        if (!best)
                return -ENOTSUP; /* a GPU of one TPC cannot be split */
        split->rung[DETSHARE_CLASS_LS] = best;
        split->rung[DETSHARE_CLASS_BE] = best_complement;
        depth_init(&split->depth, &config->params[1]);
        return 0;
}

static int split_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct split *split = state;

        depth_look(&split->depth, snapshot);
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                uint32_t count = 0;

                if (coroutine->ready)
                        count = depth_count(&split->depth, snapshot, coroutine);
                if (!count)
                        continue;
                if (decision->n == decision->capacity) {
                        decision->again = 1;
                        break;
                }
                decision->actions[decision->n++] = (struct detshare_action){
                        .kind = DETSHARE_ACTION_LAUNCH,
                        .rung = split->rung[coroutine->class_],
                        .coroutine = coroutine->id,
                        .priority =
                                coroutine->class_ == DETSHARE_CLASS_LS ? DETSHARE_PRIORITY_HIGH : DETSHARE_PRIORITY_LOW,
                        .count = count,
                };
        }
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "static",
        .description = "a fixed split of the SMs between LS and BE",
        .params = params,
        .n_params = sizeof(params) / sizeof(params[0]),
        .state_size = sizeof(struct split),
        .init = split_init,
        .decide = split_decide,
};
