/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy whose decisions come from the test program, which exports probe_decide
 */
#include "policies/detshare_policy.h"

int probe_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision);
/* Called by init() if the test program defines it; only some tests do. */
__attribute__((__weak__)) int probe_begin(const struct detshare_policy_config *config);

static int probe_init(void *state, const struct detshare_policy_config *config)
{
        (void)state;
        return probe_begin ? probe_begin(config) : 0;
}

static int probe_forward(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        return probe_decide(state, snapshot, decision);
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "probe",
        .description = "test: the test program decides",
        .init = probe_init,
        .decide = probe_forward,
};
