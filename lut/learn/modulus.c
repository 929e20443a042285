/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/learn/modulus.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lut/layout.h"
#include "lut/learn/pairs.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

/* predictability of the channel above which a difference flips no digit; one flipped digit of m = 3 leaves 0.25, one
 * of a large m 0.5 */
#define FLIPS_NONE 0.55
/* least predictability for a difference that flips one digit; two flipped digits of m = 3 leave 0.06 */
#define LEAST_DIGIT 0.10
/* flipping a digit: least share of a channel's pairs that are with its two most frequent partners */
#define TWO_OF_ALL 0.8
#define EQUALLY 0.4      /* flipping a digit: least ratio of the second partner's pairs to the first partner's */
#define CLEAR 0.7        /* share of a channel's pairs that must be with the channels that the structure predicts */
#define PAGE_SAMPLES 192 /* samples used to find a page's constants */
#define LEAST_PAGE 0.75  /* least share of a page's labels that the page's constants must explain */

struct search {
        const struct ds_learn_set *set;
        struct ds_learn_modulus *found;
        uint32_t per;       /* channels with the same parities */
        uint32_t *count;    /* counts of channel pairs for one difference */
        uint32_t basis[32]; /* basis of all differences: first those that flip no digit, then one per digit */
        uint32_t none;      /* number of differences in the basis that flip no digit */
        char *why;
        size_t size;
};

static int give_up(struct search *s, const char *why)
{
        snprintf(s->why, s->size, "%s", why);
        return DS_LEARN_E_NONE;
}

/* --- number of channels per side --- */

static int count_sides(struct search *s)
{
        const struct ds_learn_parities *parities = &s->found->parities;
        uint32_t on[1 << DS_LEARN_PARITIES_MAX] = {0};

        for (uint32_t c = 0; c < s->set->channels; c++)
                on[parities->side[c]]++;
        s->per = on[0];
        for (uint32_t side = 0; side < 1u << parities->n; side++)
                if (on[side] != s->per)
                        return give_up(s, "the parities do not divide the channels equally");
        if (s->per % 2 == 0)
                return give_up(s, "an even number of channels is left by the parities");
        s->found->modulus = s->per;
        return 0;
}

/* --- differences --- */

struct difference {
        uint32_t d;
        float following;
};

static int by_following(const void *a, const void *b)
{
        const struct difference *left = a, *right = b;

        if (left->following != right->following)
                return left->following < right->following ? 1 : -1;
        return (left->d > right->d) - (left->d < right->d);
}

/*
 * Whether the difference d behaves like one digit: flipping its bits leads from each channel to two others, equally
 * often. The difference that flips all digits is excluded. It mirrors the numbers at a position that depends on the
 * page, which can look like a digit if pages are few.
 */
static bool is_digit(const struct search *s, uint32_t d)
{
        uint64_t first = 0, second = 0, all = 0;

        ds_learn_count_pairs(s->set, d, s->count);
        for (uint32_t a = 0; a < s->set->channels; a++) {
                const uint32_t *row = s->count + (size_t)a * s->set->channels;
                uint32_t most = 0, next = 0;

                for (uint32_t b = 0; b < s->set->channels; b++) {
                        all += row[b];
                        if (row[b] > most) {
                                next = most;
                                most = row[b];
                        } else if (row[b] > next) {
                                next = row[b];
                        }
                }
                first += most;
                second += next;
        }
        return (double)(first + second) >= TWO_OF_ALL * (double)all && (double)second >= EQUALLY * (double)first;
}

/* Selects independent differences for the basis, those after which the channel is most predictable first. */
static int find_basis(struct search *s)
{
        uint32_t n = (1u << s->set->bits) - 1;
        ds_cleanup(ds_freep) struct difference *order = ds_alloc0(n, sizeof(*order));
        struct ds_gf2_span span = {.n = 0};
        float following;

        if (!order)
                return ds_error_origin(-ENOMEM);
        for (uint32_t d = 1; d <= n; d++) {
                ds_learn_count_pairs(s->set, d, s->count);
                following = (float)ds_learn_following(s->set, &s->found->parities, s->per, d, s->count);
                order[d - 1] = (struct difference){d, following};
        }
        qsort(order, n, sizeof(*order), by_following);
        for (uint32_t i = 0; i < n && span.n < s->set->bits && order[i].following >= LEAST_DIGIT; i++) {
                bool none = order[i].following >= FLIPS_NONE;

                if (!ds_gf2_rest(&span, order[i].d) || (!none && !is_digit(s, order[i].d)))
                        continue;
                s->basis[span.n] = order[i].d;
                s->none += none;
                ds_gf2_add(&span, order[i].d);
                s->found->least_following = order[i].following;
        }
        if (span.n < s->set->bits)
                return give_up(s, "some address bits belong to no digit: the hash is no sum of digits, or there are "
                                  "too few samples");
        s->found->dims = s->set->bits - s->none;
        if (s->found->dims > DS_ARRAY_SIZE(s->found->mask))
                return give_up(s, "there are more digits than the search supports");
        return 0;
}

static void find_masks(struct search *s)
{
        uint32_t dual[32];

        ds_gf2_dual(s->basis, s->set->bits, dual);
        for (uint32_t i = 0; i < s->found->dims; i++)
                s->found->mask[i] = dual[s->none + i];
}

/* --- the channels' numbers --- */

/* Finds the two channels that pair with this channel most often. Returns 1 if they are clearly the only two. */
static bool two_most(const struct search *s, uint32_t channel, uint32_t *ret_first, uint32_t *ret_second)
{
        const uint32_t *row = s->count + (size_t)channel * s->set->channels;
        uint32_t first = 0, second = 1, all = 0;

        if (row[1] > row[0])
                first = 1, second = 0;
        for (uint32_t c = 0; c < s->set->channels; c++) {
                all += row[c];
                if (c < 2)
                        continue;
                if (row[c] > row[first]) {
                        second = first;
                        first = c;
                } else if (row[c] > row[second]) {
                        second = c;
                }
        }
        *ret_first = first;
        *ret_second = second;
        return row[first] + row[second] >= CLEAR * all && row[second] * 6 >= row[first];
}

/*
 * Walks from the first channel of side 0 around the ring that the counts define: the n-th channel gets the number n
 * modulo m. If the ring crosses two sides it is twice as long, and m is odd, so both sides get all numbers. Returns 1
 * if the counts form such a ring.
 */
static bool walk_ring(struct search *s, bool crosses, uint8_t *number)
{
        uint32_t length = crosses ? 2 * s->per : s->per, at = 0, from, a, b, begin;

        while (s->found->parities.side[at])
                at++;
        begin = from = at;
        memset(number, DS_LUT_UNKNOWN, s->set->channels);
        for (uint32_t i = 0; i < length; i++) {
                if (number[at] != DS_LUT_UNKNOWN || !two_most(s, at, &a, &b))
                        return false;
                number[at] = (uint8_t)(i % s->per);
                if (i > 0 && from != a && from != b)
                        return false;
                b = i == 0 || from != a ? a : b;
                from = at;
                at = b;
        }
        return at == begin;
}

/* Derives the channel numbers of one side from those of another. `same`: the difference between the sides flips no
 * digit, so numbers are equal; otherwise a number is the middle of the two that lead to it. Returns 1 if every
 * number occurs once. */
static bool carry_over(struct search *s, uint32_t from, uint32_t to, bool same, uint8_t *number)
{
        const uint8_t *side = s->found->parities.side;
        uint32_t a, b, middle = (s->per + 1) / 2;
        uint64_t seen[2] = {0, 0};

        for (uint32_t c = 0; c < s->set->channels; c++) {
                if (side[c] != to)
                        continue;
                if (!two_most(s, c, &a, &b) && !same)
                        return false;
                if (side[a] != from || (!same && side[b] != from))
                        return false;
                number[c] = (uint8_t)(same ? number[a] : (number[a] + number[b]) * middle % s->per);
                if (seen[number[c] / 64] >> number[c] % 64 & 1)
                        return false;
                seen[number[c] / 64] |= UINT64_C(1) << number[c] % 64;
        }
        return true;
}

/* Numbers the channels of the remaining sides, by differences that lead from a numbered side to another one. Returns
 * 1 if all sides are numbered. */
static bool number_sides(struct search *s, bool *done, uint8_t *number)
{
        const struct ds_learn_parities *parities = &s->found->parities;
        uint32_t sides = 1u << parities->n, left = sides, before, flips;

        for (uint32_t side = 0; side < sides; side++)
                left -= done[side];
        while (left) {
                before = left;
                for (uint32_t i = 0; i < s->set->bits && left; i++) {
                        flips = ds_learn_parities_of(parities, s->basis[i]);
                        if (!flips)
                                continue;
                        ds_learn_count_pairs(s->set, s->basis[i], s->count);
                        for (uint32_t side = 0; side < sides; side++)
                                if (done[side] && !done[side ^ flips] &&
                                        carry_over(s, side, side ^ flips, i < s->none, number)) {
                                        done[side ^ flips] = true;
                                        left--;
                                }
                }
                if (left == before)
                        return false;
        }
        return true;
}

static int number_channels(struct search *s)
{
        const struct ds_learn_parities *parities = &s->found->parities;
        bool done[1 << DS_LEARN_PARITIES_MAX];
        uint8_t number[DS_LUT_CHANNELS_MAX];
        uint32_t flips;

        for (uint32_t i = s->none; i < s->set->bits; i++) {
                ds_learn_count_pairs(s->set, s->basis[i], s->count);
                flips = ds_learn_parities_of(parities, s->basis[i]);
                if (!walk_ring(s, flips != 0, number))
                        continue;
                memset(done, 0, sizeof(done));
                done[0] = done[flips] = true;
                if (!number_sides(s, done, number))
                        continue;
                memcpy(s->found->number, number, s->set->channels);
                return 0;
        }
        return give_up(s, "flipping a digit does not lead from a channel to two others: no sum modulo their number");
}

/* --- weights --- */

/* Finds the weight of each digit. A weight and its negative are equivalent, since the page's constant absorbs the
 * sign. */
static int find_weights(struct search *s)
{
        const struct ds_learn_parities *parities = &s->found->parities;
        uint32_t n = s->set->channels, m = s->per, best;
        uint64_t by[DS_LUT_CHANNELS_MAX], all;

        for (uint32_t i = 0; i < s->found->dims; i++) {
                uint32_t flips = ds_learn_parities_of(parities, s->basis[s->none + i]), step;

                ds_learn_count_pairs(s->set, s->basis[s->none + i], s->count);
                memset(by, 0, sizeof(by));
                all = 0;
                for (uint32_t a = 0; a < n; a++)
                        for (uint32_t b = 0; b < n; b++) {
                                if ((parities->side[a] ^ parities->side[b]) != flips)
                                        continue;
                                step = (s->found->number[b] + m - s->found->number[a]) % m;
                                by[DS_MIN(step, m - step)] += s->count[a * n + b];
                                all += s->count[a * n + b];
                        }
                best = 1;
                for (uint32_t w = 2; w <= m / 2; w++)
                        best = by[w] > by[best] ? w : best;
                if ((double)by[best] < CLEAR * (double)all)
                        return give_up(s, "a digit has no single weight");
                s->found->weight[i] = (uint8_t)best;
        }
        return 0;
}

/* --- pages --- */

struct page_sample {
        uint32_t y; /* digits of the granule */
        uint8_t number;
};

/* The page's constant of each parity, by majority of the labels. */
static uint32_t page_parities(const struct search *s, const uint8_t *label)
{
        const struct ds_learn_parities *parities = &s->found->parities;
        uint32_t ones[DS_LEARN_PARITIES_MAX] = {0}, n = 0, bits, constant = 0;

        for (uint32_t x = 0; x < 1u << s->set->bits; x++) {
                if (label[x] == DS_LUT_UNKNOWN)
                        continue;
                bits = ds_learn_parities_of(parities, x) ^ parities->side[label[x]];
                for (uint32_t i = 0; i < parities->n; i++)
                        ones[i] += bits >> i & 1;
                n++;
        }
        for (uint32_t i = 0; i < parities->n; i++)
                constant |= (uint32_t)(ones[i] * 2 > n) << i;
        return constant;
}

static uint32_t digits_of(const struct search *s, uint32_t x)
{
        uint32_t y = 0;

        for (uint32_t i = 0; i < s->found->dims; i++)
                y |= ds_gf2_dot(s->found->mask[i], x) << i;
        return y;
}

/* Finds the page's flipped digits and shift s that explain most of the samples. */
static uint32_t page_digits(
        const struct search *s, const struct page_sample *samples, uint32_t n, const uint8_t *sum, uint8_t *ret_shift)
{
        uint32_t m = s->per, best = 0, best_constant = 0, difference;
        uint16_t by[DS_LUT_CHANNELS_MAX];

        for (uint32_t constant = 0; constant < 1u << s->found->dims; constant++) {
                memset(by, 0, m * sizeof(*by));
                for (uint32_t i = 0; i < n; i++) {
                        difference = samples[i].number + m - sum[samples[i].y ^ constant];
                        by[difference - (difference >= m ? m : 0)]++;
                }
                for (uint32_t shift = 0; shift < m; shift++)
                        if (by[shift] > best) {
                                best = by[shift];
                                best_constant = constant;
                                *ret_shift = (uint8_t)shift;
                        }
        }
        return best_constant;
}

static double explained(const struct search *s, size_t page, const uint8_t *sum)
{
        const struct ds_learn_modulus *found = s->found;
        const uint8_t *label = ds_learn_page(s->set, page);
        uint32_t constant = found->constant[page], n = 0, right = 0, digits = (1u << found->dims) - 1, side;

        for (uint32_t x = 0; x < 1u << s->set->bits; x++) {
                if (label[x] == DS_LUT_UNKNOWN)
                        continue;
                side = ds_learn_parities_of(&found->parities, x) ^ constant >> found->dims;
                right += found->parities.side[label[x]] == side &&
                         found->number[label[x]] ==
                                 (found->shift[page] + sum[(digits_of(s, x) ^ constant) & digits]) % s->per;
                n++;
        }
        return n ? (double)right / n : 0;
}

static void find_page(const struct search *s, size_t page, const uint8_t *sum)
{
        const uint8_t *label = ds_learn_page(s->set, page);
        struct page_sample samples[PAGE_SAMPLES];
        uint32_t n = 0, x;

        for (uint32_t i = 0; i < 1u << s->set->bits && n < PAGE_SAMPLES; i++) {
                x = ds_lut_spread(i, s->set->bits);
                if (label[x] != DS_LUT_UNKNOWN)
                        samples[n++] = (struct page_sample){digits_of(s, x), s->found->number[label[x]]};
        }
        s->found->constant[page] = page_digits(s, samples, n, sum, &s->found->shift[page]) | page_parities(s, label)
                                                                                                     << s->found->dims;
        s->found->explained[page] = explained(s, page, sum);
}

static int find_pages(struct search *s)
{
        ds_cleanup(ds_freep) uint8_t *sum = ds_alloc0((size_t)1 << s->found->dims, 1);
        size_t good = 0;

        s->found->constant = ds_alloc0(s->set->n_pages, sizeof(*s->found->constant));
        s->found->shift = ds_alloc0(s->set->n_pages, 1);
        s->found->explained = ds_alloc0(s->set->n_pages, sizeof(*s->found->explained));
        if (!sum || !s->found->constant || !s->found->shift || !s->found->explained)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < s->found->dims; i++)
                for (uint32_t y = 0; y < 1u << i; y++)
                        sum[1u << i | y] = (uint8_t)((sum[y] + s->found->weight[i]) % s->per);
        for (size_t page = 0; page < s->set->n_pages; page++) {
                find_page(s, page, sum);
                good += s->found->explained[page] >= LEAST_PAGE;
        }
        return good * 10 >= s->set->n_pages * 9 ? 0 : give_up(s, "the sums do not explain all pages");
}

int ds_learn_find_modulus(const struct ds_learn_set *set, const struct ds_learn_parities *parities,
        struct ds_learn_modulus *ret, char *why, size_t size)
{
        struct search s = {.set = set, .found = ret, .why = why, .size = size};
        ds_cleanup(ds_freep) uint32_t *count = ds_alloc0((size_t)set->channels * set->channels, sizeof(*count));
        int r;

        *ret = (struct ds_learn_modulus){.modulus = 1, .parities = *parities, .least_following = 1};
        if (!count)
                return ds_error_origin(-ENOMEM);
        s.count = count;
        r = count_sides(&s);
        if (!r && s.per > 1) {
                r = find_basis(&s);
                if (!r) {
                        find_masks(&s);
                        r = number_channels(&s);
                }
                if (!r)
                        r = find_weights(&s);
        }
        return r ? r : find_pages(&s);
}

void ds_learn_modulus_deinit(struct ds_learn_modulus *modulus)
{
        modulus->constant = ds_free(modulus->constant);
        modulus->shift = ds_free(modulus->shift);
        modulus->explained = ds_free(modulus->explained);
}
