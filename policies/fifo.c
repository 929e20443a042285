/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fifo: first come, first served
 *
 * Every operation goes to the whole GPU at one priority, in the order in which clients submitted the heads of their
 * queues. Classes do not matter. `depth` bounds how far one coroutine runs ahead on the device. Programs that share a
 * GPU without any help behave like this. It is the baseline of every comparison, and the policy that takes over when
 * another one fails.
 */
#include "policies/detshare_policy.h"

struct fifo {
        uint32_t depth;
};

static const struct detshare_policy_param params[] = {
        {.name = "depth",
                .help = "operations of one coroutine on the device at once",
                .def = 16,
                .min = 1,
                .max = 1024},
};

static int fifo_init(void *state, const struct detshare_policy_config *config)
{
        struct fifo *fifo = state;

        fifo->depth = (uint32_t)config->params[0];
        return 0;
}

static uint64_t arrival(const struct detshare_snapshot *snapshot, uint64_t coroutine_index)
{
        return snapshot->coroutines[coroutine_index].ahead[0].submitted_ns;
}

/* Inserts the action in the order in which the heads of the queues were submitted. Until the end of the decision the
 * action's `reserved` field holds the coroutine's index. */
static void insert(
        const struct detshare_snapshot *snapshot, struct detshare_decision *decision, uint32_t index, uint32_t count)
{
        uint32_t at = decision->n;

        while (at && arrival(snapshot, decision->actions[at - 1].reserved) > arrival(snapshot, index)) {
                decision->actions[at] = decision->actions[at - 1];
                at--;
        }
        decision->actions[at] = (struct detshare_action){
                .kind = DETSHARE_ACTION_LAUNCH,
                .rung = 0,
                .coroutine = snapshot->coroutines[index].id,
                .priority = DETSHARE_PRIORITY_HIGH,
                .count = count,
                .reserved = index,
        };
        decision->n++;
}

static int fifo_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        const struct fifo *fifo = state;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (!coroutine->ready || coroutine->in_flight >= fifo->depth)
                        continue;
                if (decision->n == decision->capacity) {
                        decision->again = 1;
                        break;
                }
                insert(snapshot, decision, i, fifo->depth - coroutine->in_flight);
        }
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "fifo",
        .description = "first come, first served on the whole GPU, without classes",
        .params = params,
        .n_params = sizeof(params) / sizeof(params[0]),
        .state_size = sizeof(struct fifo),
        .init = fifo_init,
        .decide = fifo_decide,
};
