/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of the policy `detshare`: what its user may want to change
 *
 * A number that no user has a reason to change is a constant in the file that uses it.
 */
#pragma once

#include "policies/detshare_policy.h"

enum param {
        P_SLACK,
        P_ATTAIN,
        P_RESERVE,
        P_MEET,
        P_STARVE,
        P_EVICT,
        P_FEEL,
        P_HELD_FIRST,
        P_EXPLORE,
        P_AHEAD,
        PARAMS,
};

extern const struct detshare_policy_param detshare_params[PARAMS];
