/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ladder: the rungs (sets of TPCs with streams of their own) that work may run on
 *
 * Rung 0 is the whole GPU. Then come complementary pairs in steps of a sixteenth of the TPCs (or as configured): for k
 * = 1..15, a rung with k/16 of them and the rung with the rest. So a policy can give two classes of work disjoint parts
 * in any such ratio and move the border without waiting. Small GPUs, where two steps would be the same set, have fewer
 * pairs. A pair's first rung is on the lower side, its second one on the upper side. Each rung contains all smaller
 * ones of its side.
 *
 * TPCs are assigned in one of two orders. The first spreads a rung over the GPCs (each GPC gives its first TPC, then
 * each its second), so that a small rung has as many paths to memory as possible. The second goes GPC by GPC, so that
 * two classes share at most one GPC. If the device does not report its GPCs, TPCs are taken in numerical order.
 *
 * A rung of single TPCs can run clusters of at most as many blocks as one TPC has SMs. For larger clusters there is a
 * second family of pairs ("coarse"), made of the device's groups of TPCs that share a GPC, in steps of an eighth of the
 * groups at most. With the order by GPC, its rungs cover the same TPCs as the fine ones of their side. With the other
 * order that is true only for the half-and-half pair: a coarse rung of the upper side shares TPCs with fine ones of the
 * lower side.
 *
 * All rungs are built once, before serving; no rung is created or destroyed afterwards.
 */
#pragma once

#include "device/device.h"
#include "policies/detshare_policy.h"

#define DS_LADDER_STEPS 16u
#define DS_LADDER_STEPS_MAX 24u
#define DS_LADDER_COARSE_STEPS 8u
#define DS_LADDER_MAX DS_DEVICE_RUNGS_MAX
#define DS_LADDER_STREAMS (DS_DEVICE_PRIORITIES * DS_DEVICE_STREAMS_PER_RUNG) /* streams of one rung */

_Static_assert(1 + 2 * (DS_LADDER_STEPS_MAX - 1) + 2 * (DS_LADDER_COARSE_STEPS - 1) <= DS_LADDER_MAX,
        "the device has as many rungs");

struct ds_ladder_options {
        uint32_t steps;  /* number of steps, 2..DS_LADDER_STEPS_MAX; 0 = DS_LADDER_STEPS */
        uint32_t by_gpc; /* order of the TPCs: 1 = GPC by GPC, 0 = spread over the GPCs */
};

struct ds_ladder {
        uint32_t n, n_coarse;
        /* device memory that the rungs take together, bytes; 0 = none or not known */
        uint64_t bytes;
        /* the device's mask_permille, see device.h; 0 if the GPU cannot be divided */
        uint32_t mask_permille;
        uint64_t build_ns;                              /* real time that the build took; 0 = not measured */
        uint32_t device_rung[DS_LADDER_MAX];            /* the device's number of each rung */
        struct detshare_rung_view views[DS_LADDER_MAX]; /* rungs as policies see them, by the ladder's number */
};

/* Creates the rungs on the device. Returns 0, or a negative errno if the device refuses one. options NULL: the
 * defaults. */
int ds_ladder_build(struct ds_ladder *ladder, const struct ds_device_ops *ops, ds_device *device,
        const struct ds_ladder_options *options);

/* Conditions of a search for a rung. */
struct ds_ladder_ask {
        uint32_t rung;              /* the result lies inside this rung */
        enum detshare_class class_; /* if `rung` is the whole GPU: LS searches the lower side, BE the upper one */
        uint32_t percent;           /* the result has at most this share of the TPCs */
        uint32_t n_sms;             /* the result has at most this many SMs */
        uint32_t cluster_blocks;    /* the result can run clusters of this many blocks; 0 or 1: no clusters */
};

/*
 * Returns the largest rung inside ask->rung that meets the bounds on TPCs and SMs and can run the clusters. If none
 * meets the bounds, returns the smallest that can run the clusters. Coarse rungs count as inside the rungs of their
 * side with at least as many SMs, and are used only if the family of ask->rung cannot run the clusters.
 * DETSHARE_RUNG_NONE: none can.
 */
uint32_t ds_ladder_find(const struct ds_ladder *ladder, const struct ds_ladder_ask *ask);
/* Like ds_ladder_find() with the session's share of the SMs (percent) as the only bound. */
uint32_t ds_ladder_cap(const struct ds_ladder *ladder, uint32_t rung, uint32_t percent, enum detshare_class class_);
