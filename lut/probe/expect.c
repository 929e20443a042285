/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prediction of a granule's channel from the channels of the three granules before it
 *
 * Counts how often a channel followed another, per position in an aligned block of 16 granules. While these counts are
 * small, counts per position in an aligned block of 4 are more reliable. Irrelevant predecessors only add noise, so
 * each channel has a prior of half a count. A part of the probability is reserved for combinations that never occurred.
 * A wrong prediction costs additional comparisons, but never causes a wrong label.
 */
#include "lut/probe/internal.h"
#include "util/macro.h"

#define NONE_ODDS 1e-3 /* probability that the channel is none of the known ones */
#define CHANCE 0.05    /* probability reserved for combinations that never occurred */
#define HALF 0.5       /* prior count of every channel */
/* maximum weight of the counts per position in 4 relative to the counts per position in 16, in granules */
#define WIDE_WEIGHT 4.0

static uint64_t total(const uint32_t *counts, uint32_t n)
{
        uint64_t sum = 0;

        for (uint32_t c = 0; c < n; c++)
                sum += counts[c];
        return sum;
}

void ds_probe_expect(const ds_probe *probe, const uint8_t *labels, size_t at, double *odds)
{
        uint32_t place = at % PLACES, n = probe->n;
        const uint32_t *narrow, *wide;
        double sum = 0, all_narrow, all_wide;

        for (uint32_t c = 0; c < n; c++)
                odds[c] = 1;
        for (uint32_t lag = 1; lag <= LAGS && lag <= place; lag++) {
                if (labels[at - lag] == DS_PROBE_NONE)
                        continue;
                narrow = probe->seen->narrow[lag - 1][place][labels[at - lag]];
                wide = probe->seen->wide[lag - 1][place % PLACES_WIDE][labels[at - lag]];
                all_narrow = (double)total(narrow, n) + WIDE_WEIGHT;
                all_wide = (double)total(wide, n) + HALF * n;
                for (uint32_t c = 0; c < n; c++)
                        odds[c] *= (narrow[c] + WIDE_WEIGHT * (wide[c] + HALF) / all_wide) / all_narrow;
        }
        for (uint32_t c = 0; c < n; c++)
                sum += odds[c];
        for (uint32_t c = 0; c < n; c++)
                odds[c] = (1 - NONE_ODDS) * ((1 - CHANCE) * odds[c] / sum + CHANCE / n);
        odds[n] = NONE_ODDS;
}

void ds_probe_remember(ds_probe *probe, const uint8_t *labels, size_t at)
{
        uint32_t place = at % PLACES;

        for (uint32_t lag = 1; lag <= LAGS && lag <= place; lag++) {
                if (labels[at - lag] == DS_PROBE_NONE)
                        continue;
                probe->seen->narrow[lag - 1][place][labels[at - lag]][labels[at]]++;
                probe->seen->wide[lag - 1][place % PLACES_WIDE][labels[at - lag]][labels[at]]++;
        }
}
