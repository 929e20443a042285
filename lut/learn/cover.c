/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/learn/cover.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "lut/layout.h"
#include "lut/learn/gf2.h"
#include "lut/learn/network.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

/* least share of granule pairs x, x ^ d with equal channels for the difference d to count as one that never changes
 * the channel */
#define SAME 0.75
#define LEAST_PAIRS 30
#define TABLES_MAX 16
#define PAGE_SAMPLES 256
#define FITS 0.7 /* least share of equal labels among the granules that a page and a table both know */
/* required logarithm of the improbability that a fit is due to chance, beyond the logarithm of the number of trials */
#define SURE 12.
#define EXPLAINED 0.75
#define HIDDEN 64
#define CLEAR_BY 3 /* votes by which the best count must exceed twice the second one */
/* passes of the training over the samples; fewer if EXAMPLES would be exceeded in all, about ten seconds */
#define EPOCHS 60
#define EPOCHS_LEAST 4
#define EXAMPLES 900000
#define WRONG_LABELS 0.05 /* assumed rate of wrong labels; decides how much votes weigh against the network */

struct covering {
        const struct ds_learn_set *set;
        struct ds_learn_cover *cover;
        uint32_t unit[16];  /* granule whose coordinate has only bit i */
        uint32_t *image;    /* coordinate of each granule */
        uint16_t *votes;    /* votes of the labels, [(table << dims | coordinate) * channels + channel] */
        uint32_t *constant; /* constant of each page */
        uint8_t *table;
};

/* --- coordinates --- */

/* Finds the differences that never change the channel; coordinates are the remaining bits of a granule's number. */
static void find_coordinates(struct covering *c)
{
        const struct ds_learn_set *set = c->set;
        struct ds_gf2_span span = {.n = 0};
        uint32_t basis[32], dual[32], same, pairs, kernel;

        for (uint32_t d = 1; d < 1u << set->bits; d++) {
                if (!ds_gf2_rest(&span, d))
                        continue;
                same = pairs = 0;
                for (uint32_t i = 0; i < set->n_known; i++) {
                        uint8_t other = set->label[set->place[i] ^ d];

                        pairs += other != DS_LUT_UNKNOWN;
                        same += other == set->label[set->place[i]];
                }
                if (pairs < LEAST_PAIRS || same < SAME * pairs)
                        continue;
                basis[span.n] = d;
                ds_gf2_add(&span, d);
        }
        kernel = span.n;
        for (uint32_t bit = 0; bit < set->bits; bit++)
                if (ds_gf2_rest(&span, 1u << bit)) {
                        basis[span.n] = 1u << bit;
                        ds_gf2_add(&span, 1u << bit);
                }
        ds_gf2_dual(basis, set->bits, dual);
        c->cover->dims = set->bits - kernel;
        memcpy(c->cover->mask, dual + kernel, c->cover->dims * sizeof(*dual));
        memcpy(c->unit, basis + kernel, c->cover->dims * sizeof(*basis));
        for (uint32_t x = 0; x < 1u << set->bits; x++)
                for (uint32_t i = 0; i < c->cover->dims; i++)
                        c->image[x] |= ds_gf2_dot(c->cover->mask[i], x) << i;
}

/* --- fitting of pages ------------- */

struct dot {
        uint32_t y;
        uint8_t label;
};

static uint16_t *votes_at(const struct covering *c, uint32_t table, uint32_t y)
{
        return c->votes + ((size_t)table << c->cover->dims | y) * c->set->channels;
}

/* The label with the most votes at coordinate y of a table; DS_LUT_UNKNOWN if it has no votes. */
static uint8_t most_votes(const struct covering *c, uint32_t table, uint32_t y)
{
        const uint16_t *votes = votes_at(c, table, y);
        uint32_t best = 0;

        for (uint32_t channel = 1; channel < c->set->channels; channel++)
                best = votes[channel] > votes[best] ? channel : best;
        return votes[best] ? (uint8_t)best : DS_LUT_UNKNOWN;
}

/* Whether `right` equal labels out of `shared` cannot be due to chance, although all constants of all tables were
 * tried. */
static bool is_sure(const struct covering *c, uint32_t right, uint32_t shared)
{
        double chance = 1.0 / c->set->channels, share, information;

        if (right < FITS * shared)
                return false;
        share = DS_MIN((double)right / shared, 0.9999);
        information = share * log(share / chance) + (1 - share) * log((1 - share) / (1 - chance));
        return shared * information > SURE + log((double)(c->cover->tables << c->cover->dims));
}

/* Finds the table and the constant that fit the dots (granules with labels) best. Returns false if none fits surely. */
static bool lay(const struct covering *c, const struct dot *dots, uint32_t n, uint32_t tables, const uint8_t *told,
        uint32_t *ret_table, uint32_t *ret_constant)
{
        uint32_t best = 0, best_shared = 0, right, shared, dims = c->cover->dims;

        for (uint32_t table = 0; table < tables; table++)
                for (uint32_t constant = 0; constant < 1u << dims; constant++) {
                        right = shared = 0;
                        for (uint32_t i = 0; i < n; i++) {
                                uint8_t label = told[table << dims | (dots[i].y ^ constant)];

                                shared += label != DS_LUT_UNKNOWN;
                                right += label == dots[i].label;
                        }
                        if (right > best && is_sure(c, right, shared)) {
                                best = right;
                                best_shared = shared;
                                *ret_table = table;
                                *ret_constant = constant;
                        }
                }
        return best_shared > 0;
}

static uint32_t dots_of(const struct covering *c, size_t page, struct dot *dots)
{
        const uint8_t *label = ds_learn_page(c->set, page);
        uint32_t n = 0;

        for (uint32_t i = 0; i < 1u << c->set->bits && n < PAGE_SAMPLES; i++) {
                uint32_t x = ds_lut_spread(i, c->set->bits);

                if (label[x] != DS_LUT_UNKNOWN)
                        dots[n++] = (struct dot){c->image[x], label[x]};
        }
        return n;
}

/* Counts the votes of all pages again, and the winner of each cell. */
static void vote(struct covering *c, size_t pages, uint8_t *told)
{
        size_t places = (size_t)c->cover->tables << c->cover->dims;

        memset(c->votes, 0, places * c->set->channels * sizeof(*c->votes));
        for (size_t page = 0; page < pages; page++) {
                const uint8_t *label = ds_learn_page(c->set, page);

                for (uint32_t x = 0; x < 1u << c->set->bits; x++)
                        if (label[x] != DS_LUT_UNKNOWN)
                                votes_at(c, c->table[page], c->image[x] ^ c->constant[page])[label[x]]++;
        }
        for (uint32_t table = 0; table < c->cover->tables; table++)
                for (uint32_t y = 0; y < 1u << c->cover->dims; y++)
                        told[table << c->cover->dims | y] = most_votes(c, table, y);
}

/* Merges two tables if one fits the other; their pages then belong to the earlier one. */
static bool join_tables(struct covering *c, uint8_t *told)
{
        ds_cleanup(ds_freep) struct dot *dots = ds_alloc0((size_t)1 << c->cover->dims, sizeof(*dots));
        uint32_t n, into, constant;

        for (uint32_t table = c->cover->tables - 1; dots && table > 0; table--) {
                n = 0;
                for (uint32_t y = 0; y < 1u << c->cover->dims; y++)
                        if (told[table << c->cover->dims | y] != DS_LUT_UNKNOWN)
                                dots[n++] = (struct dot){y, told[table << c->cover->dims | y]};
                if (!lay(c, dots, n, table, told, &into, &constant))
                        continue;
                /* pages of the merged table move to table `into`; pages of the last table move to the merged table's
                 * index */
                for (size_t page = 0; page < c->set->n_pages; page++) {
                        if (c->table[page] == table) {
                                c->table[page] = (uint8_t)into;
                                c->constant[page] ^= constant;
                        } else if (c->table[page] == c->cover->tables - 1) {
                                c->table[page] = (uint8_t)table;
                        }
                }
                c->cover->tables--;
                vote(c, c->set->n_pages, told);
        }
        return dots != NULL;
}

static int lay_pages(struct covering *c, uint8_t *told)
{
        struct dot dots[PAGE_SAMPLES];
        uint32_t n, table, constant;

        for (size_t page = 0; page < c->set->n_pages; page++) {
                n = dots_of(c, page, dots);
                if (!lay(c, dots, n, c->cover->tables, told, &table, &constant)) {
                        if (c->cover->tables == TABLES_MAX)
                                return DS_LEARN_E_NONE;
                        table = c->cover->tables++;
                        constant = 0;
                }
                c->table[page] = (uint8_t)table;
                c->constant[page] = constant;
                vote(c, page + 1, told);
        }
        return join_tables(c, told) ? 0 : ds_error_origin(-ENOMEM);
}

/* --- the network --- */

static uint32_t n_inputs(const struct covering *c, const struct ds_learn_parities *parities)
{
        return c->cover->dims + parities->n + c->cover->tables;
}

/* Inputs of the network: the bits and parities of a coordinate as -1 and 1, and the table. Differences that never
 * change the channel do not change a parity either, so parities of granule numbers are parities of coordinates. */
static void inputs_of(
        const struct covering *c, const struct ds_learn_parities *parities, uint32_t table, uint32_t y, float *ret)
{
        uint32_t bits = 0;

        for (uint32_t i = 0; i < c->cover->dims; i++) {
                *ret++ = y >> i & 1 ? -1.f : 1.f;
                bits ^= y >> i & 1 ? ds_learn_parities_of(parities, c->unit[i]) : 0;
        }
        for (uint32_t i = 0; i < parities->n; i++)
                *ret++ = bits >> i & 1 ? -1.f : 1.f;
        for (uint32_t i = 0; i < c->cover->tables; i++)
                *ret++ = i == table;
}

static int train(
        const struct covering *c, const struct ds_learn_parities *parities, uint64_t seed, struct ds_network *network)
{
        uint32_t in = n_inputs(c, parities), at, n = 0;
        ds_cleanup(ds_freep) float *inputs = ds_alloc0((size_t)c->set->n_known * in, sizeof(*inputs));
        ds_cleanup(ds_freep) uint8_t *labels = ds_alloc0(c->set->n_known, 1);
        size_t page;

        if (!inputs || !labels)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < c->set->n_known; i++) {
                at = c->set->place[i];
                page = at >> c->set->bits;
                inputs_of(c, parities, c->table[page], c->image[at & ((1u << c->set->bits) - 1)] ^ c->constant[page],
                        inputs + (size_t)n * in);
                labels[n++] = c->set->label[at];
        }
        return ds_network_train(network, inputs, labels, n,
                DS_MIN((uint32_t)EPOCHS, DS_MAX((uint32_t)EXAMPLES / n, (uint32_t)EPOCHS_LEAST)), seed);
}

/* Whether the votes alone decide every cell clearly, so that no network is needed. */
static bool is_clear(const struct covering *c)
{
        uint32_t best, second;

        for (size_t i = 0; i < (size_t)c->cover->tables << c->cover->dims; i++) {
                const uint16_t *votes = c->votes + i * c->set->channels;

                best = second = 0;
                for (uint32_t channel = 0; channel < c->set->channels; channel++) {
                        if (votes[channel] > best) {
                                second = best;
                                best = votes[channel];
                        } else if (votes[channel] > second) {
                                second = votes[channel];
                        }
                }
                if (best < second * 2 + CLEAR_BY)
                        return false;
        }
        return true;
}

/* Decides the channel of each cell by the combined likelihood of its votes and the network's prediction (if there is
 * a network). */
static int decide(const struct covering *c, const struct ds_learn_parities *parities, struct ds_network *network)
{
        uint32_t n = c->set->channels, best;
        double worth = log((1 - WRONG_LABELS) * (n - 1) / WRONG_LABELS);
        float inputs[16 + DS_LEARN_PARITIES_MAX + TABLES_MAX], logs[DS_LUT_CHANNELS_MAX] = {0};
        uint16_t *votes;

        c->cover->channel = ds_alloc0((size_t)c->cover->tables << c->cover->dims, 1);
        if (!c->cover->channel)
                return ds_error_origin(-ENOMEM);
        for (uint32_t table = 0; table < c->cover->tables; table++)
                for (uint32_t y = 0; y < 1u << c->cover->dims; y++) {
                        votes = votes_at(c, table, y);
                        if (network) {
                                inputs_of(c, parities, table, y, inputs);
                                ds_network_tell(network, inputs, logs);
                        }
                        best = 0;
                        for (uint32_t i = 1; i < n; i++)
                                if (votes[i] * worth + (double)logs[i] > votes[best] * worth + (double)logs[best])
                                        best = i;
                        c->cover->told += most_votes(c, table, y) == DS_LUT_UNKNOWN;
                        c->cover->channel[table << c->cover->dims | y] = (uint8_t)best;
                }
        return 0;
}

static int fill_in(const struct covering *c, const struct ds_learn_parities *parities, uint64_t seed)
{
        struct ds_network *network = NULL;
        int r = 0;

        if (!is_clear(c)) {
                network = ds_network_new(n_inputs(c, parities), HIDDEN, c->set->channels, seed);
                r = network ? train(c, parities, seed, network) : ds_error_origin(-ENOMEM);
                c->cover->network = true;
        }
        if (!r)
                r = decide(c, parities, network);
        ds_network_free(network);
        return r;
}

static double explained(const struct covering *c)
{
        uint32_t right = 0, at;
        size_t page;

        for (uint32_t i = 0; i < c->set->n_known; i++) {
                at = c->set->place[i];
                page = at >> c->set->bits;
                right += c->set->label[at] ==
                         c->cover->channel[(uint32_t)c->table[page] << c->cover->dims |
                                           (c->image[at & ((1u << c->set->bits) - 1)] ^ c->constant[page])];
        }
        return (double)right / c->set->n_known;
}

int ds_learn_find_cover(const struct ds_learn_set *set, const struct ds_learn_parities *parities, uint64_t seed,
        struct ds_learn_cover *ret)
{
        struct covering c = {.set = set, .cover = ret};
        ds_cleanup(ds_freep) uint32_t *image = ds_alloc0((size_t)1 << set->bits, sizeof(*image));
        ds_cleanup(ds_freep) uint32_t *constant = ds_alloc0(set->n_pages + 1, sizeof(*constant));
        ds_cleanup(ds_freep) uint8_t *table = ds_alloc0(set->n_pages + 1, 1);
        ds_cleanup(ds_freep) uint16_t *votes = NULL;
        ds_cleanup(ds_freep) uint8_t *told = NULL;
        int r;

        *ret = (struct ds_learn_cover){.channel = NULL};
        if (!image || !constant || !table)
                return ds_error_origin(-ENOMEM);
        c.image = image;
        c.constant = constant;
        c.table = table;
        find_coordinates(&c);
        votes = ds_alloc0(((size_t)TABLES_MAX << ret->dims) * set->channels, sizeof(*votes));
        told = ds_alloc0((size_t)TABLES_MAX << ret->dims, 1);
        if (!votes || !told)
                return ds_error_origin(-ENOMEM);
        c.votes = votes;
        r = lay_pages(&c, told);
        if (r)
                return r;
        r = fill_in(&c, parities, seed);
        if (!r)
                ret->explained = explained(&c);
        return r || ret->explained >= EXPLAINED ? r : DS_LEARN_E_NONE;
}
