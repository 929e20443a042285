/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placing: the rung on which an operation really runs, and the bound on its resident blocks
 *
 * A policy names a rung for a coroutine's work. The real rung follows from the operation and its session:
 *  - clusters too large for the rung run on the largest rung of groups on the same side that has no more SMs;
 *  - a session with a share of the SMs gets a rung inside the named one, of either family, within that share;
 *  - a kernel that needs all its blocks resident, and does not fit there, runs on the rung that the policy named. If it
 *    does not fit there either, or no rung can run its clusters, it borrows the whole GPU, which is counted as a loan.
 *    If it does not fit even the GPU, the device refuses it; or, if its blocks only seem to wait for each other, it
 *    runs as without DetShare;
 *  - if the device keeps a bound on resident blocks per SM (device/bound.h), the rung shrinks to as many SMs as the
 *    bound allows one block each. Blocks that must all be resident are not bounded. Copies and memsets use the rung of
 *    the session's kernels, which avoids fences.
 */
#pragma once

#include <stdint.h>

#include "sched/launch.h"

struct ds_place {
        uint32_t rung;
        uint32_t max_resident_blocks; /* bound on resident blocks that the device must keep, 0 = none */
        uint32_t bounded;             /* 1: without the bound, more blocks of the operation would be resident */
};

void ds_place_choose(ds_coroutine *coroutine, const struct ds_op *op, const struct detshare_op_view *view,
        const struct ds_launch_target *target, struct ds_place *ret);
