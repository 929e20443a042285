/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ladder: the rungs (sets of TPCs with their own streams) that work may run on
 *
 * Rung 0 is the whole GPU. Then come complementary pairs in steps of a sixteenth of the TPCs (or as configured): for
 * k = 1..15 a rung with k/16 of them and the rung with all the others, so a policy can give two classes of work
 * disjoint parts in any such ratio and move the border without waiting. Small GPUs, where two steps would be the same
 * set, have fewer pairs. A pair's first rung is on the lower side, its second one on the upper side; of rungs on one
 * side each holds all smaller ones.
 *
 * TPCs are taken in an order that spreads a rung over the GPCs (each of them gives its first TPC, then each its
 * second), so that a small rung has as many ways to memory as can be; or GPC by GPC, so that two classes meet in one
 * GPC at most. Where the device does not know its GPCs they are taken in the order of their numbers.
 *
 * A rung of single TPCs takes clusters of no more blocks than one TPC has SMs. For larger ones there is a second family
 * of pairs, made of the device's groups of TPCs that share a GPC, in steps of an eighth of the groups at most. With the
 * order by GPC its rungs lie where the fine ones of their side are. With the other one only half and half does: a
 * coarse rung of the upper side has TPCs that a fine one of the lower side has, too.
 *
 * All rungs are built once, before serving; a rung is never made or destroyed afterwards.
 */
#pragma once

#include "device/device.h"
#include "policies/detshare_policy.h"

#define DS_LADDER_STEPS 16u
#define DS_LADDER_STEPS_MAX 24u
#define DS_LADDER_COARSE_STEPS 8u
#define DS_LADDER_MAX DS_DEVICE_RUNGS_MAX
#define DS_LADDER_STREAMS (DS_DEVICE_PRIORITIES * DS_DEVICE_STREAMS_PER_RUNG) /* of one rung */

_Static_assert(1 + 2 * (DS_LADDER_STEPS_MAX - 1) + 2 * (DS_LADDER_COARSE_STEPS - 1) <= DS_LADDER_MAX,
        "the device has as many rungs");

struct ds_ladder_options {
        uint32_t steps;  /* 2..DS_LADDER_STEPS_MAX; 0 = DS_LADDER_STEPS */
        uint32_t by_gpc; /* 1: GPC by GPC; 0: spread over them */
};

struct ds_ladder {
        uint32_t n, n_coarse;
        uint64_t bytes;                                 /* device memory that it takes, 0 = none or not known */
        uint32_t mask_permille;                         /* what the device says of it, 0 where nothing is divided */
        uint64_t build_ns;                              /* real time that building it took; 0 = nobody looked */
        uint32_t device_rung[DS_LADDER_MAX];            /* the device's number of each */
        struct detshare_rung_view views[DS_LADDER_MAX]; /* as policies see them, by our number */
};

/* Makes the rungs on the device. Negative errno when it refuses one. options NULL: as they are without. */
int ds_ladder_build(struct ds_ladder *ladder, const struct ds_device_ops *ops, ds_device *device,
        const struct ds_ladder_options *options);

/* What a rung is looked for with. */
struct ds_ladder_ask {
        uint32_t rung;              /* inside this one */
        enum detshare_class class_; /* inside the whole GPU: LS is on the lower side, BE on the upper one */
        uint32_t percent;           /* with so much of the TPCs at most */
        uint32_t n_sms;             /* and so many SMs */
        uint32_t cluster_blocks;    /* that takes clusters of so many blocks; 0 or 1: none */
};

/*
 * The largest rung inside the one named that has no more TPCs and SMs than asked for and takes the clusters, or the
 * smallest that takes them when all have more. Rungs of groups are "inside" those of their side that have as many SMs
 * at least, and are used where the named one's family does not take the clusters. DETSHARE_RUNG_NONE: none takes them.
 */
uint32_t ds_ladder_find(const struct ds_ladder *ladder, const struct ds_ladder_ask *ask);
/* The same for the session's share of the SMs alone. */
uint32_t ds_ladder_cap(const struct ds_ladder *ladder, uint32_t rung, uint32_t percent, enum detshare_class class_);
