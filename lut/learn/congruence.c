/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/learn/congruence.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "lut/layout.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define LEAST_PAIRS 100
#define COMES_AGAIN 0.7 /* least share of granule pairs one period apart that have the same channel */
#define SLOTS_MAX 256   /* maximum number of slots per period; the search time grows with the square */
#define PAGE_SAMPLES 256
#define EXPLAINED 0.75
#define ROUNDS 2

/* The least distance, in granules, after which channels repeat. 0: none */
static uint32_t find_period(const struct ds_learn_set *set)
{
        uint32_t size = 1u << set->bits, pairs, same, x;

        for (uint32_t period = 3; period <= size / 4; period++) {
                pairs = same = 0;
                for (uint32_t i = 0; i < set->n_known; i++) {
                        x = set->place[i] & (size - 1);
                        if (x + period >= size || set->label[set->place[i] + period] == DS_LUT_UNKNOWN)
                                continue;
                        pairs++;
                        same += set->label[set->place[i]] == set->label[set->place[i] + period];
                }
                if (pairs >= LEAST_PAIRS && same > COMES_AGAIN * pairs && (period & (period - 1)))
                        return period;
        }
        return 0;
}

struct laying {
        const struct ds_learn_set *set;
        uint32_t period, cells;
        unsigned slot_bits;
        uint32_t *votes;  /* votes of the labels, [cell * channels + channel] */
        uint8_t *channel; /* channel with the most votes, per cell */
        uint32_t *u, *v;  /* step width and start of the sequence, per page */
};

static uint32_t cell(const struct laying *l, uint32_t u, uint32_t v, uint32_t x)
{
        uint32_t slot = (u * (x >> l->slot_bits) + v) % l->period;

        return slot << l->slot_bits | (x & ((1u << l->slot_bits) - 1));
}

static void count_votes(struct laying *l, size_t pages)
{
        uint32_t n = l->set->channels, best;

        memset(l->votes, 0, (size_t)l->cells * n * sizeof(*l->votes));
        for (size_t page = 0; page < pages; page++) {
                const uint8_t *label = ds_learn_page(l->set, page);

                for (uint32_t x = 0; x < 1u << l->set->bits; x++)
                        if (label[x] != DS_LUT_UNKNOWN)
                                l->votes[cell(l, l->u[page], l->v[page], x) * n + label[x]]++;
        }
        for (uint32_t i = 0; i < l->cells; i++) {
                best = 0;
                for (uint32_t c = 1; c < n; c++)
                        best = l->votes[i * n + c] > l->votes[i * n + best] ? c : best;
                l->channel[i] = l->votes[i * n + best] ? (uint8_t)best : DS_LUT_UNKNOWN;
        }
}

static bool coprime(uint32_t a, uint32_t b)
{
        while (b) {
                uint32_t rest = a % b;

                a = b;
                b = rest;
        }
        return a == 1;
}

/* Finds the u and v with which the page agrees best with the votes so far. */
static void lay_page(struct laying *l, size_t page)
{
        const uint8_t *label = ds_learn_page(l->set, page);
        uint32_t xs[PAGE_SAMPLES], n = 0, best = 0, right;

        for (uint32_t i = 0; i < 1u << l->set->bits && n < PAGE_SAMPLES; i++) {
                uint32_t x = ds_lut_spread(i, l->set->bits);

                if (label[x] != DS_LUT_UNKNOWN)
                        xs[n++] = x;
        }
        for (uint32_t u = 1; u < l->period; u++) {
                for (uint32_t v = 0; coprime(l->period, u) && v < l->period; v++) {
                        right = 0;
                        for (uint32_t i = 0; i < n; i++)
                                right += l->channel[cell(l, u, v, xs[i])] == label[xs[i]];
                        if (right > best) {
                                best = right;
                                l->u[page] = u;
                                l->v[page] = v;
                        }
                }
        }
}

static double explained(const struct laying *l)
{
        uint32_t n = l->set->channels, right = 0;

        for (uint32_t i = 0; i < l->cells; i++)
                if (l->channel[i] != DS_LUT_UNKNOWN)
                        right += l->votes[i * n + l->channel[i]];
        return (double)right / l->set->n_known;
}

/* Fits all pages to the sequence of the first one. */
static void lay_pages(struct laying *l)
{
        l->u[0] = 1;
        l->v[0] = 0;
        count_votes(l, 1);
        for (int round = 0; round < ROUNDS; round++)
                for (size_t page = 1; page < l->set->n_pages; page++) {
                        lay_page(l, page);
                        count_votes(l, round ? l->set->n_pages : page + 1);
                }
}

/* Finds the sequence with slots of 2^slot_bits granules. Returns 0 and the share of the labels that the sequence
 * explains, or a negative errno. */
static int try_slots(
        const struct ds_learn_set *set, uint32_t granules, unsigned slot_bits, struct ds_learn_congruence *ret)
{
        struct laying l = {.set = set, .period = granules >> slot_bits, .cells = granules, .slot_bits = slot_bits};
        ds_cleanup(ds_freep) uint32_t *votes = ds_alloc0((size_t)l.cells * set->channels, sizeof(*votes));
        ds_cleanup(ds_freep) uint32_t *u = ds_alloc0(set->n_pages, sizeof(*u)),
                                      *v = ds_alloc0(set->n_pages, sizeof(*v));

        ds_free(ret->channel);
        ret->channel = l.channel = ds_alloc0(l.cells, 1);
        if (!votes || !u || !v || !l.channel)
                return ds_error_origin(-ENOMEM);
        l.votes = votes;
        l.u = u;
        l.v = v;
        lay_pages(&l);
        ret->period = l.period;
        ret->slot_bits = slot_bits;
        ret->explained = explained(&l);
        return 0;
}

int ds_learn_find_congruence(const struct ds_learn_set *set, struct ds_learn_congruence *ret)
{
        uint32_t granules = find_period(set);
        int r;

        *ret = (struct ds_learn_congruence){.channel = NULL};
        if (!granules || !set->n_pages)
                return DS_LEARN_E_NONE;
        for (int slot_bits = __builtin_ctz(granules); slot_bits >= 0; slot_bits--) {
                if (granules >> slot_bits < 3 || granules >> slot_bits > SLOTS_MAX)
                        continue;
                r = try_slots(set, granules, (unsigned)slot_bits, ret);
                if (r || ret->explained >= EXPLAINED)
                        return r;
        }
        return DS_LEARN_E_NONE;
}
