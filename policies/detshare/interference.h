/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds on BE's resident blocks from the calibration of the GPU
 *
 * `detsharectl calibrate` measured how long LS takes beside BE with a given number of blocks. Of LS kernels of all
 * kinds the worst counts; of BE kernels those of the bound's kind count: compute, or read and write.
 */
#pragma once

#include "policies/detshare_policy.h"

/*
 * The highest bound on BE blocks that keeps LS under the limit; 0 (no bound) counts as the highest. If no bound keeps
 * LS under the limit: the highest one at which LS is as fast as at the best one. Every launch takes longer beside other
 * work, and fewer blocks do not change that.
 */
uint32_t interference_bound(
        const struct detshare_policy_config *config, uint32_t n_sms, uint32_t bound, uint32_t permille);
