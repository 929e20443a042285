/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calibrate: runs LS beside BE on given SMs, for `detsharectl calibrate`
 *
 * Not for serving: the command sets it for each cell of the interference matrix, and the previous policy returns when
 * the command ends. LS goes at once to `ls_sms` SMs from the first TPC on, at high priority. BE goes at once to
 * `be_sms` SMs up to the last TPC, with at most `be_blocks` of its blocks resident (0 = no bound). If both together
 * exceed the GPU, they share SMs. Nothing waits for anything else. With by_priority=1, streams of a raised priority are
 * LS and all others BE, whatever their session is: the session that measures in its own memory has both.
 */
#include "policies/stair.h"

#include <errno.h>

#define DEPTH 16u

struct calibrate {
        uint32_t rung[2]; /* rung of the LS work and of the BE work */
        uint32_t be_blocks;
        int by_priority;
};

static const struct detshare_policy_param params[] = {
        {.name = "ls_sms",
                .help = "SMs for LS: the largest rung with at most this many",
                .def = 65536,
                .min = 1,
                .max = 65536},
        {.name = "be_sms",
                .help = "SMs for BE: the largest rung with at most this many",
                .def = 65536,
                .min = 1,
                .max = 65536},
        {.name = "be_blocks",
                .help = "resident BE blocks on the GPU at most; 0 = no bound",
                .def = 0,
                .min = 0,
                .max = 65536},
        {.name = "by_priority",
                .help = "1: streams of raised priority count as LS, whatever the class of their session; 0: the class "
                        "decides",
                .def = 0,
                .min = 0,
                .max = 1},
};

/* Finds the largest rung of the side `which` (lower or upper) with at most `sms` SMs. Returns 0, or -ENOTSUP if the
 * side has no such rung. */
static int choose(const struct detshare_policy_config *config, uint32_t which, int64_t sms, uint32_t *ret)
{
        struct stair_side side;
        uint32_t i;

        *ret = 0;
        if (sms >= config->n_sms)
                return 0;
        stair_side_init(&side, config, which, DETSHARE_FAMILY_FINE);
        i = stair_at_least(&side, (uint32_t)sms + 1);
        if (!i)
                return -ENOTSUP;
        *ret = side.rung[i - 1];
        return 0;
}

static int calibrate_init(void *state, const struct detshare_policy_config *config)
{
        struct calibrate *c = state;
        int r = choose(config, DETSHARE_SIDE_LOWER, config->params[0], &c->rung[DETSHARE_CLASS_LS]);

        if (!r)
                r = choose(config, DETSHARE_SIDE_UPPER, config->params[1], &c->rung[DETSHARE_CLASS_BE]);
        c->be_blocks = (uint32_t)config->params[2];
        c->by_priority = config->params[3] != 0;
        return r;
}

static int is_ls(const struct calibrate *c, const struct detshare_coroutine_view *coroutine)
{
        return c->by_priority ? coroutine->priority < 0 : coroutine->class_ == DETSHARE_CLASS_LS;
}

static int calibrate_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        const struct calibrate *c = state;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                int ls = is_ls(c, coroutine);

                if (!coroutine->ready || coroutine->in_flight >= DEPTH)
                        continue;
                if (decision->n == decision->capacity) {
                        decision->again = 1;
                        break;
                }
                decision->actions[decision->n++] = (struct detshare_action){
                        .kind = DETSHARE_ACTION_LAUNCH,
                        .rung = c->rung[ls ? DETSHARE_CLASS_LS : DETSHARE_CLASS_BE],
                        .coroutine = coroutine->id,
                        .priority = ls ? DETSHARE_PRIORITY_HIGH : DETSHARE_PRIORITY_LOW,
                        .count = DEPTH - coroutine->in_flight,
                        .max_resident_blocks = ls ? 0 : c->be_blocks,
                };
        }
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "calibrate",
        .description = "runs LS beside BE on given SMs, to measure interference (for detsharectl calibrate)",
        .params = params,
        .n_params = sizeof(params) / sizeof(params[0]),
        .state_size = sizeof(struct calibrate),
        .init = calibrate_init,
        .decide = calibrate_decide,
};
