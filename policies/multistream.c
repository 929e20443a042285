/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multistream: stream priorities only
 *
 * Latency-sensitive work goes to high-priority streams, best-effort work to low-priority ones, both on the whole GPU.
 * The hardware prefers blocks of the higher priority whenever an SM has room. It never takes room back, so beside
 * kernels with long blocks a latency-sensitive kernel waits for the shortest of them.
 *
 * The SGDRC paper (PPoPP'25, section 9) has a baseline of this name. There each class has one stream that takes the
 * requests of its clients in turn; here every stream of a client is one on the device.
 */
#include "policies/depth.h"

struct multistream {
        struct depth depth;
};

static const struct detshare_policy_param params[] = {
        DEPTH_PARAMS,
};

static int multistream_init(void *state, const struct detshare_policy_config *config)
{
        struct multistream *multistream = state;

        depth_init(&multistream->depth, config->params);
        return 0;
}

static void launch_class(const struct multistream *multistream, const struct detshare_snapshot *snapshot,
        struct detshare_decision *decision, uint32_t class_)
{
        uint32_t count;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (!coroutine->ready || coroutine->class_ != class_)
                        continue;
                count = depth_count(&multistream->depth, snapshot, coroutine);
                if (!count)
                        continue;
                if (decision->n == decision->capacity) {
                        decision->again = 1;
                        return;
                }
                decision->actions[decision->n++] = (struct detshare_action){
                        .kind = DETSHARE_ACTION_LAUNCH,
                        .rung = 0,
                        .coroutine = coroutine->id,
                        .priority = class_ == DETSHARE_CLASS_LS ? DETSHARE_PRIORITY_HIGH : DETSHARE_PRIORITY_LOW,
                        .count = count,
                };
        }
}

static int multistream_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct multistream *multistream = state;

        depth_look(&multistream->depth, snapshot);
        launch_class(state, snapshot, decision, DETSHARE_CLASS_LS);
        launch_class(state, snapshot, decision, DETSHARE_CLASS_BE);
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "multistream",
        .description = "LS on streams of high priority, BE on streams of low priority, all on the whole GPU",
        .params = params,
        .n_params = sizeof(params) / sizeof(params[0]),
        .state_size = sizeof(struct multistream),
        .init = multistream_init,
        .decide = multistream_decide,
};
