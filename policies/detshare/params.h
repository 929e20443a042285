/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of the policy `detshare`: their indices, names, defaults and limits
 */
#pragma once

#include "policies/detshare_policy.h"

/* Values of the parameter ls_overlap */
#define LS_OVERLAP 1
#define LS_APART 2

enum param {
        P_LS_DEPTH,
        P_LS_LATE_DEPTH,
        P_LS_OVERLAP,
        P_LS_TOLERANCE,
        P_BE_TOLERANCE,
        P_SLACK,
        P_ATTAIN,
        P_SHORT,
        P_WINDOW,
        P_NEED,
        P_RESERVE_LEAST,
        P_RESERVE,
        P_STANDING,
        P_RECENT,
        P_HOLD,
        P_HOLD_FIRST,
        P_HOLD_LEAST,
        P_HOLD_MOST,
        P_AHEAD,
        P_ALONE,
        P_UNKNOWN,
        P_INTERFERENCE,
        P_FAIR,
        P_STARVE,
        P_EXPLORE,
        P_EXPLORE_SAMPLES,
        P_EXPLORE_POINTS,
        P_FEEL,
        P_EVICT,
        P_RESUME,
        P_FLOOR,
        P_EVICT_RUN,
        P_MASK,
        P_HELD_FIRST,
        P_MEET,
        P_BUSY,
        PARAMS,
};

extern const struct detshare_policy_param detshare_params[PARAMS];
