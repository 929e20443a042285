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
