/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads only if the GPU's calibration has the expected number of cells: tests that the host gives policies the
 * interference matrix.
 */
#include "policies/detshare_policy.h"

#include <errno.h>

static const struct detshare_policy_param params[] = {
        {.name = "cells", .help = "cells of the calibration", .def = 0, .min = 0, .max = 256},
};

static int cells_init(void *state, const struct detshare_policy_config *config)
{
        (void)state;
        return config->n_interference == (uint64_t)config->params[0] ? 0 : -EINVAL;
}

static int cells_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        (void)state;
        for (uint32_t i = 0; i < snapshot->n_coroutines && decision->n < decision->capacity; i++)
                if (snapshot->coroutines[i].ready)
                        decision->actions[decision->n++] = (struct detshare_action){
                                .kind = DETSHARE_ACTION_LAUNCH,
                                .coroutine = snapshot->coroutines[i].id,
                                .count = 1,
                        };
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "cells",
        .description = "test: loads only with a calibration of `cells` cells",
        .params = params,
        .n_params = 1,
        .state_size = 8,
        .init = cells_init,
        .decide = cells_decide,
};
