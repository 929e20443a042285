/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/learn/pairs.h"

#include <string.h>

void ds_learn_count_pairs(const struct ds_learn_set *set, uint32_t d, uint32_t *ret_count)
{
        memset(ret_count, 0, (size_t)set->channels * set->channels * sizeof(*ret_count));
        for (uint32_t i = 0; i < set->n_known; i++) {
                uint8_t to = set->label[set->place[i] ^ d];

                if (to != DS_LUT_UNKNOWN)
                        ret_count[set->label[set->place[i]] * set->channels + to]++;
        }
}

/* Pearson's chi-squared of the channels of one side against the channels of another, minus its expected value for
 * independent channels. */
static double contingency(const struct ds_learn_set *set, const struct ds_learn_parities *parities, uint32_t from,
        uint32_t to, uint32_t per, const uint32_t *count, double *ret_pairs)
{
        double row[DS_LUT_CHANNELS_MAX] = {0}, column[DS_LUT_CHANNELS_MAX] = {0}, all = 0, sum = 0, n;

        for (uint32_t a = 0; a < set->channels; a++)
                for (uint32_t b = 0; parities->side[a] == from && b < set->channels; b++)
                        if (parities->side[b] == to) {
                                n = count[a * set->channels + b];
                                row[a] += n;
                                column[b] += n;
                                all += n;
                        }
        *ret_pairs = all;
        if (all < 1)
                return 0;
        for (uint32_t a = 0; a < set->channels; a++)
                for (uint32_t b = 0; row[a] > 0 && b < set->channels; b++)
                        if (parities->side[b] == to && column[b] > 0) {
                                n = count[a * set->channels + b];
                                sum += n * n / (row[a] * column[b]);
                        }
        return all * (sum - 1) - (double)(per - 1) * (per - 1);
}

double ds_learn_following(const struct ds_learn_set *set, const struct ds_learn_parities *parities, uint32_t per,
        uint32_t d, const uint32_t *count)
{
        uint32_t flips = ds_learn_parities_of(parities, d);
        double sum = 0, all = 0, pairs;

        for (uint32_t side = 0; side < 1u << parities->n; side++) {
                sum += contingency(set, parities, side, side ^ flips, per, count, &pairs);
                all += pairs;
        }
        return all > 0 && per > 1 ? sum / (all * (per - 1)) : 0;
}
