/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ladder: the rungs (sets of TPCs with their own streams) that work may run on
 *
 * Rung 0 is the whole GPU. Then come complementary pairs in steps of an eighth of the TPCs: for k = 1..7 a rung with
 * k/8 of them and the rung with all the others, so a policy can give two classes of work disjoint parts in any such
 * ratio and move the border without waiting. Small GPUs, where two steps would be the same set, have fewer pairs.
 *
 * TPCs are taken in the order of their numbers; on GPUs that number across GPCs that spreads a rung over them, on
 * others it does not. All rungs are built once, before serving; a rung is never made or destroyed afterwards.
 *
 * A pair's first rung begins at TPC 0, its second one ends at the last TPC. Of rungs on one side each holds all smaller
 * ones, so a session's share of the SMs (ds_ladder_cap) is a smaller rung inside the one that the policy named.
 */
#pragma once

#include "device/device.h"
#include "policies/detshare_policy.h"

#define DS_LADDER_STEPS 8u
#define DS_LADDER_MAX (1u + 2u * (DS_LADDER_STEPS - 1u))
#define DS_LADDER_STREAMS (DS_DEVICE_PRIORITIES * DS_DEVICE_STREAMS_PER_RUNG) /* of one rung */

struct ds_ladder {
        uint32_t n;
        uint32_t device_rung[DS_LADDER_MAX];            /* the device's number of each */
        struct detshare_rung_view views[DS_LADDER_MAX]; /* as policies see them, by our number */
};

/* Makes the rungs on the device. Negative errno when it refuses one. */
int ds_ladder_build(struct ds_ladder *ladder, const struct ds_device_ops *ops, ds_device *device);
/*
 * The rung for a session that may use `percent` of the TPCs where the policy named `rung`: that one if it has no more,
 * else the largest one inside it that has no more, or the smallest one inside it when all have more. Inside the whole
 * GPU an LS session's are those that begin at TPC 0, a BE session's the others.
 */
uint32_t ds_ladder_cap(const struct ds_ladder *ladder, uint32_t rung, uint32_t percent, enum detshare_class class_);
