/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels by contention: the channel of each granule of memory
 *
 * Reading two lines at once takes about twice as long if they share a channel. Everything follows from that:
 *
 *   - a threshold between the two kinds of times (split.h);
 *   - the granule: how many consecutive bytes belong to one channel;
 *   - the channels: a line that contends with no known channel belongs to a new one. A few lines of each channel are
 *     kept as its representatives, for all of memory;
 *   - the error rates: how often a time is on the wrong side of the threshold;
 *   - the label of each granule.
 *
 * The order in which a granule is compared with representatives is learnt meanwhile: how often which channel followed
 * which, 1, 2 and 3 granules before, at this position of an aligned block of 16. So regular memory needs little more
 * than one comparison per granule, but every label is measured. A granule gets its label when the odds against all
 * others reach DS_PROBE_ODDS with the measured error rates: disturbed times cost more comparisons. A granule that is
 * not decided after many comparisons stays without a label.
 *
 * Channels are numbered in the order in which they are found; the numbers mean nothing outside of one ds_probe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lut/probe/meter.h"
#include "lut/probe/split.h"

#define DS_PROBE_CHANNELS_MAX 64u
#define DS_PROBE_LINES_MAX 8u /* maximum number of representatives per channel */
#define DS_PROBE_NONE 255u    /* no label */
#define DS_PROBE_LINE 128u    /* bytes: unit of a comparison */
#define DS_PROBE_PAGE_BITS 21u
#define DS_PROBE_PAGE (UINT64_C(1) << DS_PROBE_PAGE_BITS)
#define DS_PROBE_ODDS 1e4

/* Contract codes, next to DS_PROBE_E_ONE_KIND: */
#define DS_PROBE_E_CHANNELS 2 /* there are more than DS_PROBE_CHANNELS_MAX channels, or fewer than two */
#define DS_PROBE_E_GRANULE 3  /* lines contend over a longer range of addresses than channels can cause */

typedef struct ds_probe ds_probe;

/* Reliability of the comparisons. */
struct ds_probe_quality {
        struct ds_probe_split split;
        double false_positive, false_negative; /* error rates per comparison; measured, never 0 */
        bool listens;                          /* 1: comparing with all representatives at once is as reliable */
};

struct ds_probe_counts {
        uint64_t pairs, listened; /* comparisons of pairs so far, and comparisons by listening */
        uint64_t granules, undecided;
};

/*
 * pages: memory for the search of channels; it must stay mapped, since representatives lie in it. Neither argument is
 * copied.
 */
int ds_probe_new(
        const struct ds_probe_meter *meter, const uint64_t *pages, size_t n_pages, uint64_t seed, ds_probe **ret);
ds_probe *ds_probe_free(ds_probe *probe);

/*
 * Measures the threshold and the granule size. 0, DS_PROBE_E_ONE_KIND, DS_PROBE_E_GRANULE, or a negative errno.
 */
int ds_probe_calibrate(ds_probe *probe);
/* Finds the channels, then measures better error rates. 0, DS_PROBE_E_CHANNELS, DS_PROBE_E_ONE_KIND, or a negative
 * errno. */
int ds_probe_find_channels(ds_probe *probe);

uint32_t ds_probe_channels(const ds_probe *probe);
uint32_t ds_probe_granule_bits(const ds_probe *probe);
const struct ds_probe_quality *ds_probe_quality(const ds_probe *probe);
const struct ds_probe_counts *ds_probe_counts(const ds_probe *probe);

/* The representatives of a channel: lines[]; returns their number. */
uint32_t ds_probe_known(const ds_probe *probe, uint32_t channel, uint64_t lines[DS_PROBE_LINES_MAX]);

/*
 * Labels the granules of n pages that are set in the bits of `wanted` (n times granules per page; NULL: all).
 * labels[page * granules + granule] is DS_PROBE_NONE if not wanted or not decided. 0 or a negative errno.
 */
int ds_probe_label(ds_probe *probe, const uint64_t *pages, size_t n, const uint8_t *wanted, uint8_t *labels);

static inline void ds_probe_freep(ds_probe **p)
{
        *p = ds_probe_free(*p);
}
