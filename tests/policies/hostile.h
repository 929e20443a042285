/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Skeleton of the policies that the host must refuse: each defines one wrong property before it includes this file
 */
#include "policies/detshare_policy.h"

#ifndef HOSTILE_ABI
#define HOSTILE_ABI DETSHARE_POLICY_ABI
#endif
#ifndef HOSTILE_SIZE
#define HOSTILE_SIZE sizeof(struct detshare_policy)
#endif
#ifndef HOSTILE_INIT_RESULT
#define HOSTILE_INIT_RESULT 0
#endif
#ifndef HOSTILE_DECIDE
#define HOSTILE_DECIDE hostile_decide
#endif
#ifndef HOSTILE_STATE
#define HOSTILE_STATE 0
#endif
#ifndef HOSTILE_PARAMS
#define HOSTILE_PARAMS NULL
#endif
#ifndef HOSTILE_N_PARAMS
#define HOSTILE_N_PARAMS 0
#endif

static int hostile_init(void *state, const struct detshare_policy_config *config)
{
        (void)state;
        (void)config;
        return HOSTILE_INIT_RESULT;
}

__attribute__((__unused__)) static int hostile_decide(
        void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        (void)state;
        (void)snapshot;
        (void)decision;
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = HOSTILE_ABI,
        .size = HOSTILE_SIZE,
        .name = HOSTILE_NAME,
        .description = "test: hostile",
        .params = HOSTILE_PARAMS,
        .n_params = HOSTILE_N_PARAMS,
        .state_size = HOSTILE_STATE,
        .init = hostile_init,
        .decide = HOSTILE_DECIDE,
};
