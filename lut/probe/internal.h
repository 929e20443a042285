/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of a probe, shared by label.c (channels, granules, pages), decide.c (decision of a granule's label) and
 * expect.c (its prediction)
 */
#pragma once

#include "lut/probe/label.h"

#define PLACES 16u /* granules of an aligned block, for the counts of predecessors */
#define PLACES_WIDE 4u
#define LAGS 3u /* number of preceding granules that are used */

/* A granule whose channel is to be decided. The last of its probabilities is for "none of the known channels". */
struct question {
        uint64_t line;
        uint32_t tests;
        uint8_t label; /* DS_PROBE_NONE: not decided, or none of the known channels */
        bool over;
};

/* Factors by which one comparison's positive or negative result changes a probability. */
struct evidence {
        double positive[2], negative[2]; /* [1]: if the lines share the channel, [0]: if not */
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
        /* listening: threshold of each representative's reader, and error rates */
        double heard[DS_PROBE_CHANNELS_MAX];
        struct evidence by_pair, by_ear;
        struct seen *seen;
};

uint64_t ds_probe_random(ds_probe *probe);
/* A random line of the pages. */
uint64_t ds_probe_random_line(ds_probe *probe);
/* A representative of the channel; varies with n. */
uint64_t ds_probe_representative(const ds_probe *probe, uint32_t channel, uint32_t n);
void ds_probe_evidence(struct evidence *ret, double false_positive, double false_negative);
/* Compares with all representatives at once: bits[i * channels + c] is 1 if channel c's reader was slowed by line i. */
int ds_probe_hear(ds_probe *probe, const uint64_t *lines, size_t n, uint8_t *bits);

/*
 * Decides all questions. odds: the initial probabilities of each question, [i * (channels + 1) + c], with a sum of 1;
 * overwritten. most: limit of comparisons per question.
 */
int ds_probe_decide(ds_probe *probe, struct question *questions, double *odds, size_t n, uint32_t most);

/* Predicts granule `at` from the labels before it: odds[c], and odds[channels] for none of them. */
void ds_probe_expect(const ds_probe *probe, const uint8_t *labels, size_t at, double *odds);
/* Adds the granule's label to the counts. */
void ds_probe_remember(ds_probe *probe, const uint8_t *labels, size_t at);
