/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/learn/parity.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

/* least height of a candidate's peak relative to a perfect one; with one wrong label of twenty a parity has 0.9 */
#define CANDIDATE 0.45
#define CANDIDATES_MAX 512
/* Least share of the granules that lie on the side predicted by their page and channel. A mask that is no parity but
 * divides the channels of each page differently reaches 0.83 at most. */
#define CONSISTENT 0.88
#define STARTS 8 /* different start values that the search for the sides tries */
#define ROUNDS 12

static void walsh(float *at, unsigned bits)
{
        for (uint32_t half = 1; half < 1u << bits; half *= 2)
                for (uint32_t i = 0; i < 1u << bits; i += 2 * half)
                        for (uint32_t k = i; k < i + half; k++) {
                                float a = at[k], b = at[k + half];

                                at[k] = a + b;
                                at[k + half] = a - b;
                        }
}

/* For each mask: how much the granules of each page and channel lie on one side; 0 for a random mask, 1 for a
 * parity. */
static int find_peaks(const struct ds_learn_set *set, float *peak)
{
        ds_cleanup(ds_freep) float *at = ds_alloc0((size_t)1 << set->bits, sizeof(*at));
        uint32_t n, size = 1u << set->bits;
        double of = 0;

        if (!at)
                return ds_error_origin(-ENOMEM);
        memset(peak, 0, size * sizeof(*peak));
        for (size_t page = 0; page < set->n_pages; page++)
                for (uint32_t channel = 0; channel < set->channels; channel++) {
                        n = 0;
                        for (uint32_t x = 0; x < size; x++) {
                                at[x] = ds_learn_page(set, page)[x] == channel;
                                n += ds_learn_page(set, page)[x] == channel;
                        }
                        if (n < 2)
                                continue;
                        walsh(at, set->bits);
                        for (uint32_t mask = 0; mask < size; mask++)
                                peak[mask] += at[mask] * at[mask] - (float)n;
                        of += (double)n * (n - 1);
                }
        for (uint32_t mask = 0; mask < size; mask++)
                peak[mask] = of > 0 ? (float)(peak[mask] / of) : 0;
        return 0;
}

/* --- sides --- */

struct sides {
        const struct ds_learn_set *set;
        float *excess; /* [page * channels + channel]: granules on side 0 minus those on side 1 */
        int8_t *page;  /* side of each page and each channel: 1 or -1 */
        int8_t *channel;
};

static void count_excess(struct sides *sides, uint32_t mask)
{
        const struct ds_learn_set *set = sides->set;

        memset(sides->excess, 0, set->n_pages * set->channels * sizeof(*sides->excess));
        for (size_t page = 0; page < set->n_pages; page++)
                for (uint32_t x = 0; x < 1u << set->bits; x++)
                        if (ds_learn_page(set, page)[x] != DS_LUT_UNKNOWN)
                                sides->excess[page * set->channels + ds_learn_page(set, page)[x]] +=
                                        ds_gf2_dot(mask, x) ? -1.f : 1.f;
}

/* Sets the pages' sides from the channels' sides, then the channels' from the pages', until nothing changes. Returns
 * the share of granules whose side is explained. */
static double settle(struct sides *sides, size_t first)
{
        const struct ds_learn_set *set = sides->set;
        double sum, total = 0;

        for (uint32_t c = 0; c < set->channels; c++)
                sides->channel[c] = sides->excess[first * set->channels + c] < 0 ? -1 : 1;
        for (int round = 0; round < ROUNDS; round++) {
                for (size_t page = 0; page < set->n_pages; page++) {
                        sum = 0;
                        for (uint32_t c = 0; c < set->channels; c++)
                                sum += sides->channel[c] * sides->excess[page * set->channels + c];
                        sides->page[page] = sum < 0 ? -1 : 1;
                }
                total = 0;
                for (uint32_t c = 0; c < set->channels; c++) {
                        sum = 0;
                        for (size_t page = 0; page < set->n_pages; page++)
                                sum += sides->page[page] * sides->excess[page * set->channels + c];
                        sides->channel[c] = sum < 0 ? -1 : 1;
                        total += fabs(sum);
                }
        }
        return total;
}

/* Share of granules that lie on the predicted side with the best choice of sides; ret_side: 1 for the channels on
 * side 1. */
static double consistency(struct sides *sides, uint32_t mask, uint8_t *ret_side)
{
        double total, best = 0;
        size_t starts = DS_MIN(sides->set->n_pages, (size_t)STARTS);

        count_excess(sides, mask);
        for (size_t i = 0; i < starts; i++) {
                total = settle(sides, i * sides->set->n_pages / starts);
                if (total <= best)
                        continue;
                best = total;
                for (uint32_t c = 0; c < sides->set->channels; c++)
                        ret_side[c] = sides->channel[c] < 0;
        }
        return 0.5 + best / sides->set->n_known / 2;
}

/* --- masks --- */

struct candidate {
        uint32_t mask;
        float peak;
};

static int by_peak(const void *a, const void *b)
{
        const struct candidate *left = a, *right = b;

        return left->peak != right->peak ? (left->peak < right->peak ? 1 : -1)
                                         : (left->mask > right->mask) - (left->mask < right->mask);
}

static void keep(struct ds_learn_parities *found, const struct ds_learn_set *set, uint32_t mask, double share,
        const uint8_t *side)
{
        for (uint32_t c = 0; c < set->channels; c++)
                found->side[c] |= (uint8_t)(side[c] << found->n);
        found->share[found->n] = share;
        found->mask[found->n++] = mask;
}

static void choose(struct sides *sides, const struct candidate *candidates, size_t n, struct ds_learn_parities *found)
{
        uint8_t side[DS_LUT_CHANNELS_MAX];
        struct ds_gf2_span span = {.n = 0};
        uint32_t on_one;
        double share;

        for (size_t i = 0; i < n && found->n < DS_LEARN_PARITIES_MAX; i++) {
                if (!ds_gf2_rest(&span, candidates[i].mask))
                        continue;
                share = consistency(sides, candidates[i].mask, side);
                on_one = 0;
                for (uint32_t c = 0; c < sides->set->channels; c++)
                        on_one += side[c];
                if (share < CONSISTENT || !on_one || on_one == sides->set->channels)
                        continue;
                ds_gf2_add(&span, candidates[i].mask);
                keep(found, sides->set, candidates[i].mask, share, side);
        }
}

int ds_learn_find_parities(const struct ds_learn_set *set, struct ds_learn_parities *ret)
{
        ds_cleanup(ds_freep) float *peak = ds_alloc0((size_t)1 << set->bits, sizeof(*peak));
        ds_cleanup(ds_freep) float *excess = ds_alloc0(set->n_pages * set->channels, sizeof(*excess));
        ds_cleanup(ds_freep) int8_t *page = ds_alloc0(set->n_pages, 1), *channel = ds_alloc0(set->channels, 1);
        ds_cleanup(ds_freep) struct candidate *candidates = ds_alloc0((size_t)1 << set->bits, sizeof(*candidates));
        struct sides sides = {set, excess, page, channel};
        size_t n = 0;
        int r;

        *ret = (struct ds_learn_parities){.n = 0};
        if (!peak || !excess || !page || !channel || !candidates)
                return ds_error_origin(-ENOMEM);
        r = find_peaks(set, peak);
        if (r)
                return r;
        for (uint32_t mask = 1; mask < 1u << set->bits; mask++)
                if (peak[mask] > CANDIDATE)
                        candidates[n++] = (struct candidate){mask, peak[mask]};
        qsort(candidates, n, sizeof(*candidates), by_peak);
        choose(&sides, candidates, DS_MIN(n, (size_t)CANDIDATES_MAX), ret);
        return 0;
}
