/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of a probe, shared by label.c (channels, granules, pages), decide.c (decision of a granule's label) and
 * expect.c (its prediction)
 */
#pragma once

#include "lut/probe/label.h"

#define PLACES 16u /* granules per aligned block, for the counts of which channel follows which */
#define PLACES_WIDE 4u
#define LAGS 3u /* number of preceding granules that the prediction uses */

/* A granule whose channel is to be decided. Its last probability is for "none of the known channels". */
struct question {
        uint64_t line;
        uint32_t tests;
        uint8_t label; /* decided channel; DS_PROBE_NONE: not decided, or none of the known channels */
        bool over;
};

/* Factors by which one comparison's positive or negative result changes a probability. */
struct evidence {
        double positive[2], negative[2]; /* [1]: factor if the two lines share a channel, [0]: if they do not */
};

struct channel {
        uint32_t n;
        uint64_t lines[DS_PROBE_LINES_MAX];
};

/* How often a channel followed another one, at a distance of 1 to LAGS granules: per position in 16, and in 4. */
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
        /* if the device can listen: time threshold of each representative's reader, and error rates */
        double heard[DS_PROBE_CHANNELS_MAX];
        struct evidence by_pair, by_ear;
        struct seen *seen;
};

uint64_t ds_probe_random(ds_probe *probe);
/* Address of a random line in the probe's pages. */
uint64_t ds_probe_random_line(ds_probe *probe);
/* The n-th representative of the channel, cyclically. */
uint64_t ds_probe_representative(const ds_probe *probe, uint32_t channel, uint32_t n);
void ds_probe_evidence(struct evidence *ret, double false_positive, double false_negative);
/* Compares each line with all representatives at once: bits[i * channels + c] is 1 if line i slowed the reader of
 * channel c. */
int ds_probe_hear(ds_probe *probe, const uint64_t *lines, size_t n, uint8_t *bits);

/*
 * Decides all questions. odds: initial probabilities of each question, [i * (channels + 1) + c], with a sum of 1;
 * overwritten. most: maximum number of comparisons per question.
 */
int ds_probe_decide(ds_probe *probe, struct question *questions, double *odds, size_t n, uint32_t most);

/* Predicts the channel of granule `at` from the labels before it. odds[c]: probability of channel c; odds[channels]:
 * probability of none of the known channels. */
void ds_probe_expect(const ds_probe *probe, const uint8_t *labels, size_t at, double *odds);
/* Adds the label of granule `at` to the counts of which channel follows which. */
void ds_probe_remember(ds_probe *probe, const uint8_t *labels, size_t at);
