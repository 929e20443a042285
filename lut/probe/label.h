/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels by contention: which channel each granule of memory belongs to
 *
 * Two lines that share a channel take about twice as long to read at once as two that do not. From that alone: a
 * threshold (split.h), how much of memory in a row belongs to one channel, the channels (a line that contends with none
 * that is known has a new one; of each channel a few lines are kept as its representatives, the same for all of
 * memory), how often a time is on the wrong side of the threshold, and then the label of granule after granule.
 *
 * Which representative a granule is compared with first is learnt meanwhile: how often which channel followed which,
 * 1, 2 and 3 granules before and at this place of an aligned sixteen. So regular memory needs little more than one
 * comparison per granule, and nothing is a label that was not measured. A granule has its label when the odds against
 * all others are DS_PROBE_ODDS, counted with the error rates that were found: where times are disturbed, more is
 * compared. What is not decided after many comparisons stays without a label.
 *
 * Numbers of channels are in the order in which they were found, and mean nothing beyond one ds_probe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lut/probe/meter.h"
#include "lut/probe/split.h"

#define DS_PROBE_CHANNELS_MAX 64u
#define DS_PROBE_LINES_MAX 8u /* representatives of a channel */
#define DS_PROBE_NONE 255u    /* no label */
#define DS_PROBE_LINE 128u    /* bytes: the least that is told apart */
#define DS_PROBE_PAGE_BITS 21u
#define DS_PROBE_PAGE (UINT64_C(1) << DS_PROBE_PAGE_BITS)
#define DS_PROBE_ODDS 1e4

/* Contract, beside DS_PROBE_E_ONE_KIND: */
#define DS_PROBE_E_CHANNELS 2 /* more than DS_PROBE_CHANNELS_MAX channels, or fewer than two */
#define DS_PROBE_E_GRANULE 3  /* so much in a row contends that it cannot be channels */

typedef struct ds_probe ds_probe;

/* How good the comparisons are. */
struct ds_probe_quality {
        struct ds_probe_split split;
        double false_positive, false_negative; /* of one comparison; as found, never 0 */
        bool listens;                          /* all representatives at once are as good */
};

struct ds_probe_counts {
        uint64_t pairs, listened; /* measured so far */
        uint64_t granules, undecided;
};

/*
 * pages: those that lines are taken from while channels are looked for; they must stay as long as representatives are
 * in them. Neither is copied.
 */
int ds_probe_new(
        const struct ds_probe_meter *meter, const uint64_t *pages, size_t n_pages, uint64_t seed, ds_probe **ret);
ds_probe *ds_probe_free(ds_probe *probe);

/*
 * A threshold, and how many bytes in a row, aligned, belong to one channel. 0, DS_PROBE_E_ONE_KIND, DS_PROBE_E_GRANULE,
 * or a negative errno.
 */
int ds_probe_calibrate(ds_probe *probe);
/* The channels, then better error rates. 0, DS_PROBE_E_CHANNELS, DS_PROBE_E_ONE_KIND, or a negative errno. */
int ds_probe_find_channels(ds_probe *probe);

uint32_t ds_probe_channels(const ds_probe *probe);
uint32_t ds_probe_granule_bits(const ds_probe *probe);
const struct ds_probe_quality *ds_probe_quality(const ds_probe *probe);
const struct ds_probe_counts *ds_probe_counts(const ds_probe *probe);

/* The representatives of a channel: how many, and lines[]. */
uint32_t ds_probe_known(const ds_probe *probe, uint32_t channel, uint64_t lines[DS_PROBE_LINES_MAX]);

/*
 * Labels of the granules of n pages, wanted by the bits of `wanted` (n times granules per page; NULL: all): labels[page
 * * granules + granule], DS_PROBE_NONE where it is not wanted or not decided. 0 or a negative errno.
 */
int ds_probe_label(ds_probe *probe, const uint64_t *pages, size_t n, const uint8_t *wanted, uint8_t *labels);

static inline void ds_probe_freep(ds_probe **p)
{
        *p = ds_probe_free(*p);
}
