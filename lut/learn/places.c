/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/learn/places.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lut/learn/gf2.h"
#include "lut/learn/lattice.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define NONE DS_LUT_UNKNOWN
#define LEAST_PAIRS 200
#define LOOKS 256 /* pairs after which a difference that looks unpromising is given up */
/* least share of pairs with equal labels for one granule; with one wrong label of twenty, pairs within a granule
 * reach nine of ten */
#define SAME 0.8
/* least share of channels that follow as predicted if the difference flips no digit; a flipped digit allows two or
 * more channels */
#define FOLLOWS 0.75
#define STAYS 0.4
#define PARITIES_MAX 4 /* maximum number of parities; each doubles the time of matching */
#define RELATION_MAX 5 /* maximum number of digits in a relation */
#define RELATION_HOLDS 0.8
#define RELATION_PAIRS 8
#define BASES 4 /* number of pages that are tried as base page for the search of relations */
#define LEAST_MODULUS 3
#define EXPLAINED 0.8
/* maximum number of bits of a granule's number in the samples; the search examines all pairs of a page's granules */
#define BITS_MAX 14
#define STRIDE 7919u
#define OTHER_STRIDE 7927u /* stride used if the number of samples is a multiple of STRIDE; both are primes */

struct places {
        const struct ds_learn_set *set;
        struct ds_learn_draft *draft;
        uint32_t size;
        struct ds_gf2_span same, sure; /* differences that keep the channel; differences that keep the class */
        uint32_t *rest;                /* [x]: x reduced by the current span */
        /* basis of all differences: digits first, then parities, then differences that keep the channel */
        uint32_t basis[32];
        uint32_t flip[PARITIES_MAX]; /* differences that flip a parity, but no digit */
        uint32_t dims, parities;
        uint8_t *voted;  /* channel of each [page << bits | x], with x reduced by `same` */
        uint8_t *class;  /* class of each [page << bits | x], with x reduced by `sure` */
        uint32_t *known; /* number of known entries of each page */
        /* the channel with which a parity exchanges each channel */
        uint8_t exchanged[PARITIES_MAX][DS_LUT_CHANNELS_MAX];
        uint8_t class_of[DS_LUT_CHANNELS_MAX];
        uint32_t classes;
        uint32_t *count; /* buffer of [channels * channels] */
        uint8_t weight[DS_LATTICE_DIMS_MAX];
        uint32_t modulus;
};

/* --- granules of one channel --- */

static bool keeps_channel(const struct ds_learn_set *set, uint32_t d)
{
        const uint32_t stride = set->n_known % STRIDE ? STRIDE : OTHER_STRIDE;
        uint32_t pairs = 0, same = 0;

        for (uint32_t i = 0; i < set->n_known; i++) {
                /* visits the samples with a stride, so that the first ones come from all pages */
                uint32_t at = set->place[(uint64_t)i * stride % set->n_known];

                if (set->label[at ^ d] == NONE)
                        continue;
                pairs++;
                same += set->label[at] == set->label[at ^ d];
                if (pairs % LOOKS == 0 && same < SAME * pairs)
                        return false;
                if (pairs == 16 * LOOKS)
                        return true;
        }
        return pairs >= LEAST_PAIRS && same >= SAME * pairs;
}

/* The value that has more than half of n counts. */
static uint8_t winner(const uint16_t *count, uint32_t n)
{
        uint32_t best = 0, all = 0;

        for (uint32_t i = 0; i < n; i++) {
                all += count[i];
                best = count[i] > count[best] ? i : best;
        }
        return 2u * count[best] > all ? (uint8_t)best : NONE;
}

/* For each x reduced by the span, sets to[x] to the majority of `from` over all granules that reduce to x. names:
 * the value that stands for each label. Sets p->rest for this span. */
static int vote(struct places *p, const struct ds_gf2_span *span, const uint8_t *from, const uint8_t *names, uint32_t n,
        uint8_t *to)
{
        ds_cleanup(ds_freep) uint16_t *count = ds_alloc0((size_t)p->size * n, sizeof(*count));

        if (!count)
                return ds_error_origin(-ENOMEM);
        for (uint32_t x = 0; x < p->size; x++)
                p->rest[x] = ds_gf2_rest(span, x);
        for (size_t page = 0; page < p->set->n_pages; page++) {
                const size_t first = page << p->set->bits;

                memset(count, 0, (size_t)p->size * n * sizeof(*count));
                for (uint32_t x = 0; x < p->size; x++)
                        if (from[first + x] != NONE)
                                count[p->rest[x] * n + names[from[first + x]]]++;
                for (uint32_t x = 0; x < p->size; x++)
                        to[first + x] = winner(count + (size_t)x * n, n);
        }
        return 0;
}

static int join_granules(struct places *p)
{
        uint8_t names[DS_LUT_CHANNELS_MAX];

        for (uint32_t c = 0; c < p->set->channels; c++)
                names[c] = (uint8_t)c;
        for (uint32_t d = 1; d < p->size; d++)
                if (ds_gf2_rest(&p->same, d) && keeps_channel(p->set, d))
                        ds_gf2_add(&p->same, d);
        return vote(p, &p->same, p->set->label, names, p->set->channels, p->voted);
}

/* --- classes --- */

/* Counts pairs: count[a * n + b] is the number of x with label a for which x ^ d has label b. p->rest must belong to
 * the span of the labels. Returns the number of pairs. */
static uint32_t count_pairs(const struct places *p, const uint8_t *labels, uint32_t n, uint32_t d)
{
        uint32_t pairs = 0;

        memset(p->count, 0, (size_t)n * n * sizeof(*p->count));
        for (uint32_t x = 0; x < p->size; x++) {
                for (size_t page = 0; p->rest[x] == x && page < p->set->n_pages; page++) {
                        const uint8_t *label = labels + (page << p->set->bits);

                        if (label[x] == NONE || label[p->rest[x ^ d]] == NONE)
                                continue;
                        p->count[label[x] * n + label[p->rest[x ^ d]]]++;
                        pairs++;
                }
        }
        return pairs;
}

static uint32_t most_of(const uint32_t *row, uint32_t n)
{
        uint32_t best = 0;

        for (uint32_t i = 1; i < n; i++)
                best = row[i] > row[best] ? i : best;
        return best;
}

/* Merges the classes of channels that a parity exchanges. */
static void unite(uint32_t n, const uint8_t *exchanged, uint8_t *class_of)
{
        for (uint32_t a = 0; a < n; a++) {
                uint8_t from = class_of[a], to = class_of[exchanged[a]];

                for (uint32_t c = 0; c < n; c++)
                        class_of[c] = class_of[c] == from ? to : class_of[c];
        }
}

static bool is_sure(const struct places *p, uint32_t d)
{
        uint32_t n = p->set->channels, pairs = count_pairs(p, p->voted, n, d), expected = 0;

        for (uint32_t a = 0; a < n; a++)
                expected += p->count[a * n + most_of(p->count + a * n, n)];
        return pairs >= LEAST_PAIRS && expected >= FOLLOWS * pairs;
}

static void number_classes(struct places *p)
{
        uint8_t number[DS_LUT_CHANNELS_MAX];

        memset(number, NONE, sizeof(number));
        for (uint32_t c = 0; c < p->set->channels; c++) {
                uint8_t *at = &number[p->class_of[c]];

                if (*at == NONE)
                        *at = (uint8_t)p->classes++;
                p->class_of[c] = *at;
        }
}

static int find_classes(struct places *p)
{
        p->sure = p->same;
        for (uint32_t c = 0; c < p->set->channels; c++)
                p->class_of[c] = (uint8_t)c;
        for (uint32_t d = 1; d < p->size; d++) {
                if (p->rest[d] != d || !ds_gf2_rest(&p->sure, d) || !is_sure(p, d))
                        continue;
                if (p->parities == PARITIES_MAX)
                        return DS_LEARN_E_NONE;
                for (uint32_t c = 0; c < p->set->channels; c++)
                        p->exchanged[p->parities][c] =
                                (uint8_t)most_of(p->count + c * p->set->channels, p->set->channels);
                unite(p->set->channels, p->exchanged[p->parities], p->class_of);
                ds_gf2_add(&p->sure, d);
                p->flip[p->parities++] = d;
        }
        number_classes(p);
        p->dims = p->set->bits - p->sure.n;
        if (p->classes < 3 || p->dims < 3 || p->dims > DS_LATTICE_DIMS_MAX)
                return DS_LEARN_E_NONE;
        return vote(p, &p->sure, p->voted, p->class_of, p->classes, p->class);
}

/* --- digits --- */

struct difference {
        uint32_t d;
        double doubt; /* entropy of the class after the difference, bits */
};

static int by_doubt(const void *a, const void *b)
{
        const struct difference *left = a, *right = b;

        return left->doubt != right->doubt ? (left->doubt > right->doubt ? 1 : -1)
                                           : (left->d > right->d) - (left->d < right->d);
}

/* Entropy of the class after the difference d, bits. Two digits with equal or opposite weights cancel in half of the
 * cases, which can look like one digit. With `leaves`, a difference that often leaves the class unchanged gets a
 * high entropy, since a single digit rarely does so. */
static double doubt_of(const struct places *p, uint32_t d, bool leaves)
{
        uint32_t n = p->classes, pairs = count_pairs(p, p->class, n, d), row, stay = 0;
        double bits = 0;

        for (uint32_t a = 0; a < n; a++) {
                stay += p->count[a * n + a];
                row = 0;
                for (uint32_t b = 0; b < n; b++)
                        row += p->count[a * n + b];
                for (uint32_t b = 0; b < n; b++)
                        if (p->count[a * n + b])
                                bits += p->count[a * n + b] * log2((double)row / p->count[a * n + b]);
        }
        if (pairs < LEAST_PAIRS)
                return 2 * log2(n);
        return bits / pairs + (leaves && stay > STAYS * pairs ? log2(n) : 0);
}

static int find_digits(struct places *p, bool leaves)
{
        ds_cleanup(ds_freep) struct difference *all = ds_alloc0(p->size, sizeof(*all));
        struct ds_gf2_span span = p->sure;
        uint32_t n = 0, digits = 0;

        if (!all)
                return ds_error_origin(-ENOMEM);
        for (uint32_t d = 1; d < p->size; d++)
                if (p->rest[d] == d)
                        all[n++] = (struct difference){d, doubt_of(p, d, leaves)};
        qsort(all, n, sizeof(*all), by_doubt);
        for (uint32_t i = 0; i < n; i++)
                if (ds_gf2_add(&span, all[i].d))
                        p->basis[digits++] = all[i].d;
        assert(digits == p->dims);
        memcpy(p->basis + p->dims, p->flip, p->parities * sizeof(*p->flip));
        n = p->dims + p->parities;
        for (uint32_t bit = 0; bit < p->set->bits; bit++)
                if (p->same.row[bit])
                        p->basis[n++] = p->same.row[bit];
        assert(n == p->set->bits);
        return 0;
}

/* --- the modulus --- */

/* The granule that has the digits y. */
static uint32_t at_digits(const struct places *p, uint32_t y)
{
        uint32_t x = 0;

        for (uint32_t i = 0; i < p->dims; i++)
                x ^= y >> i & 1 ? p->basis[i] : 0;
        return p->rest[x];
}

/* Whether the class stays the same if the digits of the mask `of` change from `from` to the complement of `from`. */
static bool holds(const struct places *p, const uint8_t *class, uint32_t of, uint32_t from)
{
        uint32_t pairs = 0, same = 0, others = ((1u << p->dims) - 1) & ~of;
        bool done = false;

        /* iterates over all values of the other digits */
        for (uint32_t y = others; !done; y = (y - 1) & others) {
                done = !y;
                if (class[y | from] == NONE || class[y | (of ^ from)] == NONE)
                        continue;
                pairs++;
                same += class[y | from] == class[y | (of ^ from)];
        }
        return pairs >= RELATION_PAIRS && same >= RELATION_HOLDS * pairs;
}

/* Adds all relations of n digits that hold in the page. */
static void add_relations(const struct places *p, const uint8_t *class, int n, struct ds_lattice *lattice)
{
        int8_t relation[DS_LATTICE_DIMS_MAX];

        for (uint32_t of = 1; of < 1u << p->dims; of++) {
                if (__builtin_popcount(of) != n)
                        continue;
                /* only relations whose lowest digit is positive, so that each relation occurs once */
                for (uint32_t from = of; from; from = (from - 1) & of) {
                        if (!(from & of & -of) || !holds(p, class, of, from))
                                continue;
                        for (uint32_t i = 0; i < p->dims; i++)
                                relation[i] = (int8_t)((from >> i & 1) - ((of ^ from) >> i & 1));
                        ds_lattice_add(lattice, relation, LEAST_MODULUS);
                }
        }
}

/* Finds the modulus and the weights of the digits from one page. */
static int find_weights(struct places *p, size_t page)
{
        ds_cleanup(ds_freep) uint8_t *class = ds_alloc((size_t)1 << p->dims);
        struct ds_lattice lattice = {.dims = p->dims};

        if (!class)
                return ds_error_origin(-ENOMEM);
        for (uint32_t y = 0; y < 1u << p->dims; y++)
                class[y] = p->class[(page << p->set->bits) + at_digits(p, y)];
        for (int n = 2; n <= RELATION_MAX; n++)
                add_relations(p, class, n, &lattice);
        p->modulus = (uint32_t)ds_lattice_index(&lattice);
        if (p->modulus < LEAST_MODULUS || p->modulus > DS_LUT_CHANNELS_MAX ||
                p->modulus << (p->dims + p->parities) > DS_LUT_SEARCH_MAX || !ds_lattice_weights(&lattice, p->weight))
                return DS_LEARN_E_NONE;
        return 0;
}

static uint32_t number_at(const struct places *p, uint32_t y)
{
        uint32_t sum = 0;

        for (uint32_t i = 0; i < p->dims; i++)
                sum += y >> i & 1 ? p->weight[i] : 0;
        return sum % p->modulus;
}

/* --- parities and the map --- */

static uint32_t bits_of(const uint32_t *masks, uint32_t n, uint32_t x)
{
        uint32_t bits = 0;

        for (uint32_t i = 0; i < n; i++)
                bits |= ds_gf2_dot(masks[i], x) << i;
        return bits;
}

/* Number of the page's granules that have the most frequent channel among granules with the same number and the same
 * side of this mask. Channels that the other parities exchange count as one. */
static uint32_t agreement(const struct places *p, size_t page, uint32_t mask, const uint8_t *group,
        const uint8_t *number, uint16_t *count)
{
        uint32_t n = p->set->channels, sum = 0;

        memset(count, 0, 2 * (size_t)p->modulus * n * sizeof(*count));
        for (uint32_t x = 0; x < p->size; x++) {
                uint8_t channel = p->voted[(page << p->set->bits) + x];

                if (channel != NONE)
                        count[(number[x] * 2 + ds_gf2_dot(mask, x)) * n + group[channel]]++;
        }
        for (uint32_t at = 0; at < 2 * p->modulus; at++) {
                uint32_t best = 0;

                for (uint32_t c = 0; c < n; c++)
                        best = DS_MAX(best, (uint32_t)count[at * n + c]);
                sum += best;
        }
        return sum;
}

/* Groups the channels that the parities other than `which` exchange. */
static void group_channels(const struct places *p, uint32_t which, uint8_t *ret_group)
{
        for (uint32_t c = 0; c < p->set->channels; c++)
                ret_group[c] = (uint8_t)c;
        for (uint32_t i = 0; i < p->parities; i++)
                if (i != which)
                        unite(p->set->channels, p->exchanged[i], ret_group);
}

/* Finds the mask of a parity. Its value is known for the differences that flip no digit; whether it also contains a
 * digit is found by trial. */
static int find_parity(struct places *p, size_t page, uint32_t which)
{
        ds_cleanup(ds_freep) uint16_t *count = ds_alloc(2 * (size_t)p->modulus * p->set->channels * sizeof(*count));
        ds_cleanup(ds_freep) uint8_t *number = ds_alloc(p->size);
        uint32_t *mask = &p->draft->mask[p->dims + which], plain = *mask, tried, most = 0, right;
        uint8_t group[DS_LUT_CHANNELS_MAX];

        if (!count || !number)
                return ds_error_origin(-ENOMEM);
        group_channels(p, which, group);
        for (uint32_t x = 0; x < p->size; x++)
                number[x] = (uint8_t)number_at(p, bits_of(p->draft->mask, p->dims, x));
        for (uint32_t digits = 0; digits < 1u << p->dims; digits++) {
                tried = plain;
                for (uint32_t i = 0; i < p->dims; i++)
                        tried ^= digits >> i & 1 ? p->draft->mask[i] : 0;
                right = agreement(p, page, tried, group, number, count);
                if (right > most) {
                        most = right;
                        *mask = tried;
                }
        }
        return 0;
}

/* Sets each cell of the map to the majority of its labels, given the pages' patterns; ignores pages without a
 * pattern. */
static int fill_map(struct places *p, const uint32_t *pattern, uint32_t *ret_right)
{
        const uint32_t all = p->dims + p->parities, cells = p->modulus << p->parities, n = p->set->channels;
        ds_cleanup(ds_freep) uint32_t *count = ds_alloc0((size_t)cells * n, sizeof(*count));
        uint32_t y, at, best;

        if (!count)
                return ds_error_origin(-ENOMEM);
        for (size_t page = 0; page < p->set->n_pages; page++)
                for (uint32_t x = 0; pattern[page] != UINT32_MAX && x < p->size; x++) {
                        uint8_t label = ds_learn_page(p->set, page)[x];

                        if (label == NONE)
                                continue;
                        y = bits_of(p->draft->mask, all, x) ^ (pattern[page] & ((1u << all) - 1));
                        at = (number_at(p, y & ((1u << p->dims) - 1)) + (pattern[page] >> all)) % p->modulus;
                        count[((y >> p->dims) * p->modulus + at) * n + label]++;
                }
        *ret_right = 0;
        for (uint32_t cell = 0; cell < cells; cell++) {
                best = most_of(count + (size_t)cell * n, n);
                p->draft->channel[cell] = count[(size_t)cell * n + best] ? (uint8_t)best : NONE;
                *ret_right += count[(size_t)cell * n + best];
        }
        return 0;
}

/* The page's pattern, matched from some of its known granules; UINT32_MAX if no pattern matches. */
static uint32_t match_page(const struct places *p, const struct ds_lut *lut, size_t page)
{
        struct ds_lut_probe probes[DS_LUT_PROBES_MAX / 2];
        uint32_t pattern, x;
        size_t n = 0;

        for (uint32_t i = 0; i < p->size && n < DS_ARRAY_SIZE(probes); i++) {
                x = ds_lut_spread(i, p->set->bits);
                if (ds_learn_page(p->set, page)[x] != NONE)
                        probes[n++] = (struct ds_lut_probe){x << p->set->granule_bits, ds_learn_page(p->set, page)[x]};
        }
        return ds_lut_match(lut, probes, n, &pattern) ? UINT32_MAX : pattern;
}

/* Makes the map from the base page alone, then from all pages whose patterns that map identifies. */
static int find_map(struct places *p, size_t base, double *ret_explained)
{
        ds_cleanup(ds_freep) uint32_t *pattern = ds_alloc(p->set->n_pages * sizeof(*pattern));
        struct ds_lut *lut;
        uint32_t right;
        int r;

        if (!pattern)
                return ds_error_origin(-ENOMEM);
        for (size_t page = 0; page < p->set->n_pages; page++)
                pattern[page] = page == base ? 0 : UINT32_MAX;
        r = fill_map(p, pattern, &right);
        if (!r)
                r = ds_learn_read(p->draft, &lut);
        if (r)
                return r > 0 ? DS_LEARN_E_NONE : r;
        for (size_t page = 0; page < p->set->n_pages; page++)
                pattern[page] = match_page(p, lut, page);
        ds_lut_free(lut);
        r = fill_map(p, pattern, &right);
        *ret_explained = (double)right / p->set->n_known;
        return r || *ret_explained >= EXPLAINED ? r : DS_LEARN_E_NONE;
}

static int make_draft(struct places *p, size_t base, double *ret_explained)
{
        struct ds_learn_draft *draft = p->draft;
        uint32_t masks[32];
        int r = 0;

        ds_gf2_dual(p->basis, p->set->bits, masks);
        memcpy(draft->mask, masks, (p->dims + p->parities) * sizeof(*masks));
        memcpy(draft->weight, p->weight, p->dims);
        for (uint32_t i = 0; !r && i < p->parities; i++)
                r = find_parity(p, base, i);
        if (r)
                return r;
        draft->head.form = DS_LUT_PLACES;
        draft->head.dims = p->dims;
        draft->head.parities = p->parities;
        draft->head.modulus = p->modulus;
        draft->n_channel = (size_t)p->modulus << p->parities;
        ds_free(draft->channel);
        draft->channel = ds_alloc(draft->n_channel);
        return draft->channel ? find_map(p, base, ret_explained) : ds_error_origin(-ENOMEM);
}

/* --- the whole search ------------- */

static void count_known(struct places *p)
{
        memset(p->known, 0, p->set->n_pages * sizeof(*p->known));
        for (size_t page = 0; page < p->set->n_pages; page++)
                for (uint32_t x = 0; x < p->size; x++)
                        p->known[page] += p->class[(page << p->set->bits) + x] != NONE;
}

/* Tries the most complete pages as base, one after the other, until one identifies all others. */
static int try_bases(struct places *p, double *ret_explained)
{
        int r = DS_LEARN_E_NONE;

        count_known(p);
        for (int i = 0; r == DS_LEARN_E_NONE && i < BASES; i++) {
                size_t base = 0;

                for (size_t page = 1; page < p->set->n_pages; page++)
                        base = p->known[page] > p->known[base] ? page : base;
                if (!p->known[base])
                        break;
                p->known[base] = 0;
                r = find_weights(p, base);
                if (!r)
                        r = make_draft(p, base, ret_explained);
        }
        return r;
}

static int find(struct places *p, double *ret_explained)
{
        int r = join_granules(p);

        if (!r)
                r = find_classes(p);
        if (r)
                return r;
        r = DS_LEARN_E_NONE;
        for (int leaves = 0; leaves < 2 && r == DS_LEARN_E_NONE; leaves++) {
                r = find_digits(p, leaves);
                if (!r)
                        r = try_bases(p, ret_explained);
        }
        return r;
}

int ds_learn_find_places(const struct ds_learn_set *set, struct ds_learn_draft *draft, double *ret_explained)
{
        struct places p = {.set = set, .draft = draft, .size = 1u << set->bits};
        int r = -ENOMEM;

        if (set->n_pages < 2 || !set->n_known || set->bits > BITS_MAX)
                return DS_LEARN_E_NONE;
        p.voted = ds_alloc(set->n_pages << set->bits);
        p.class = ds_alloc(set->n_pages << set->bits);
        p.known = ds_alloc0(set->n_pages, sizeof(*p.known));
        p.rest = ds_alloc0(p.size, sizeof(*p.rest));
        p.count = ds_alloc((size_t)set->channels * set->channels * sizeof(*p.count));
        if (p.voted && p.class && p.known && p.rest && p.count)
                r = find(&p, ret_explained);
        else
                r = ds_error_origin(r);
        ds_free(p.voted);
        ds_free(p.class);
        ds_free(p.known);
        ds_free(p.rest);
        ds_free(p.count);
        return r;
}
