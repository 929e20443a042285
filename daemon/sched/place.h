/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placing: on which rung an operation really runs, and with which bound on its resident blocks
 *
 * A policy names a rung for a coroutine's work. What runs there follows from the operation and its session:
 *  - clusters larger than the rung takes go to the largest rung of groups on the same side that has no more SMs;
 *  - a session with a share of the SMs gets a rung inside, of either family, that has no more than that;
 *  - what needs all its blocks resident, and has not room for them there, goes to where the policy said; if it has none
 *    there either, or no rung takes its clusters, it borrows the whole GPU, and that is counted: a loan. What does not
 *    even fit there is the device's to refuse or, if its blocks only seem to wait for each other, to run as it would
 *    without DetShare;
 *  - a bound on resident blocks that the device keeps per SM (device/bound.h) makes the rung smaller, to as many SMs as
 *    the bound allows one block each. Blocks that must all be resident are not bounded.
 * Copies and memsets go along with the session's kernels, which spares them the fences.
 */
#pragma once

#include <stdint.h>

#include "sched/launch.h"

struct ds_place {
        uint32_t rung;
        uint32_t max_resident_blocks; /* what the device is told, 0 = no bound */
        uint32_t bounded;             /* 1: the bound holds back some of its blocks */
};

void ds_place_choose(ds_coroutine *coroutine, const struct ds_op *op, const struct detshare_op_view *view,
        const struct ds_launch_target *target, struct ds_place *ret);
