/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A probe from inside: what label.c (channels, granules, pages), decide.c (a granule's label) and expect.c (which one
 * it may be) share
 */
#pragma once

#include "lut/probe/label.h"

#define PLACES 16u /* granules of an aligned piece, in which is learnt what follows what */
#define PLACES_WIDE 4u
#define LAGS 3u /* granules before that are looked at */

/* A question: whose channel is it? Probabilities of the channels, and at [channels] of none of them. */
struct question {
        uint64_t line;
        uint32_t tests;
        uint8_t label; /* DS_PROBE_NONE: not decided, or of no channel that is known */
        bool over;
};

/* Of one comparison: what a positive and a negative one say, as factors of probability. */
struct evidence {
        double positive[2], negative[2]; /* [1]: if they share the channel, [0]: if not */
};

struct channel {
        uint32_t n;
        uint64_t lines[DS_PROBE_LINES_MAX];
};

/* How often a channel came behind another, so many granules before: at a place of sixteen, and at one of four. */
struct seen {
        uint32_t narrow[LAGS][PLACES][DS_PROBE_CHANNELS_MAX][DS_PROBE_CHANNELS_MAX];
        uint32_t wide[LAGS][PLACES_WIDE][DS_PROBE_CHANNELS_MAX][DS_PROBE_CHANNELS_MAX];
};

struct ds_probe {
        struct ds_probe_meter meter;
        const uint64_t *pages;
        size_t n_pages;
        uint64_t random;
        struct ds_probe_quality quality;
        struct ds_probe_counts counts;
        uint32_t n, granule_bits;
        struct channel channels[DS_PROBE_CHANNELS_MAX];
        /* listening: thresholds of each representative's own reader, and error rates */
        double heard[DS_PROBE_CHANNELS_MAX];
        struct evidence by_pair, by_ear;
        struct seen *seen;
};

uint64_t ds_probe_random(ds_probe *probe);
/* A line of the pages. */
uint64_t ds_probe_random_line(ds_probe *probe);
/* A representative of the channel; another one with each n. */
uint64_t ds_probe_representative(const ds_probe *probe, uint32_t channel, uint32_t n);
void ds_probe_evidence(struct evidence *ret, double false_positive, double false_negative);
/* All representatives at once: bits[i * channels + c] is 1 where line i was heard by channel c's reader. */
int ds_probe_hear(ds_probe *probe, const uint64_t *lines, size_t n, uint8_t *bits);

/*
 * Answers questions. odds: those of each, [i * (channels + 1) + c], which sum up to 1; they are used up. most: so many
 * comparisons for each at most.
 */
int ds_probe_decide(ds_probe *probe, struct question *questions, double *odds, size_t n, uint32_t most);

/* What is expected of granule `at`, from the labels before it: odds[c], and [channels] for none of them. */
void ds_probe_expect(const ds_probe *probe, const uint8_t *labels, size_t at, double *odds);
/* It has its label. */
void ds_probe_remember(ds_probe *probe, const uint8_t *labels, size_t at);
