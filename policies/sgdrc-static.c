/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sgdrc-static: SGDRC with a fixed, even split
 *
 * The baseline "SGDRC (Static)" of the SGDRC paper (PPoPP'25, section 9): LS and BE have a static and even share of the
 * resources. One kernel of each class runs at once, round robin, as in sgdrc (sgdrc.h). Each class always has its half
 * of the SMs, whether the other has work or not. The split is made as in `static`: the pair of complementary rungs
 * nearest to `ls_percent`; but `static` runs any number of kernels at a time. The paper also divides the VRAM channels,
 * which needs coloured memory and is no part of a policy.
 */
#include "policies/sgdrc.h"

#include <errno.h>

struct sgdrc_static {
        uint32_t rung[2]; /* rung of the LS half and of the BE half */
        struct sgdrc_turn turn[2];
};

static const struct detshare_policy_param params[] = {
        {.name = "ls_percent",
                .help = "share of the SMs for LS, percent; the ladder rounds it",
                .def = 50,
                .min = 1,
                .max = 99},
        SGDRC_DEPTH_PARAMS,
};

static int static_init(void *state, const struct detshare_policy_config *config)
{
        struct sgdrc_static *split = state;
        struct stair_side lower, upper;
        int64_t best = INT64_MAX;

        stair_side_init(&lower, config, DETSHARE_SIDE_LOWER, DETSHARE_FAMILY_FINE);
        stair_side_init(&upper, config, DETSHARE_SIDE_UPPER, DETSHARE_FAMILY_FINE);
        for (uint32_t i = 0; i < lower.n; i++) {
                uint32_t rest = config->n_sms - lower.n_sms[i], k = stair_at_least(&upper, rest);
                int64_t away = (int64_t)lower.n_sms[i] * 100 - config->params[0] * (int64_t)config->n_sms;

                away = away < 0 ? -away : away;
                if (k == upper.n || upper.n_sms[k] != rest || away >= best)
                        continue;
                best = away;
                split->rung[DETSHARE_CLASS_LS] = lower.rung[i];
                split->rung[DETSHARE_CLASS_BE] = upper.rung[k];
        }
        if (best == INT64_MAX)
                return -ENOTSUP; /* a GPU of one TPC cannot be split */
        sgdrc_init_turns(&split->turn[DETSHARE_CLASS_LS], &split->turn[DETSHARE_CLASS_BE], &config->params[1]);
        return 0;
}

static int static_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        static const uint32_t classes[] = {DETSHARE_CLASS_LS, DETSHARE_CLASS_BE};
        struct sgdrc_static *split = state;

        sgdrc_launch_others(snapshot, decision);
        for (uint32_t i = 0; i < 2; i++) {
                struct sgdrc_turn *turn = &split->turn[classes[i]];
                const struct detshare_coroutine_view *next;

                sgdrc_look(turn, snapshot, classes[i]);
                next = sgdrc_next(turn, snapshot, classes[i]);
                if (next)
                        sgdrc_launch(turn, decision, next, split->rung[classes[i]], 0);
        }
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "sgdrc-static",
        .description = "the SGDRC paper's static variant: one LS and one BE kernel at once, half of the SMs each",
        .params = params,
        .n_params = sizeof(params) / sizeof(params[0]),
        .state_size = sizeof(struct sgdrc_static),
        .init = static_init,
        .decide = static_decide,
};
