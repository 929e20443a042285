/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which channel a granule may have, from those of the three before it
 *
 * Counts of what followed what, per place in an aligned sixteen; while these are few, what was counted at all places
 * that are the same in an aligned four says more. Granules before that say nothing multiply noise, so counts have to
 * stand against half a one for every channel. A part of the odds is kept for what was never seen: a wrong expectation
 * costs comparisons and no wrong label.
 */
#include "lut/probe/internal.h"
#include "util/macro.h"

#define NONE_ODDS 1e-3  /* of a channel that is not known */
#define CHANCE 0.05     /* of what was never seen */
#define HALF 0.5        /* for every channel, before anything was counted */
#define WIDE_WEIGHT 4.0 /* what the place of four counts for at one of sixteen, in granules */

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
