/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Search for BE's set of channels. Pieces of memory of one size are counted by the set of channels that they touch. A
 * set of channels *cuts* a piece if it contains some, but not all, of the piece's channels. The search starts from each
 * channel in turn, adds the channel that then cuts least until the size is reached, and exchanges two channels while
 * that improves the result; the best of all wins. With some hundred kinds of pieces and at most 128 channels this takes
 * milliseconds.
 */
#include "lut/sectors.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

/* maximum number of kinds of pieces; with more kinds, every set of channels cuts about equally many pieces */
#define KINDS_MAX 4096u
#define SEEDS_MAX 64u

/* A kind: a set of channels, and the number of pieces that touch exactly these channels. */
struct kind {
        struct ds_sectors_set set;
        uint64_t count;
};

struct kinds {
        struct kind *kind;
        size_t n;
        uint64_t pieces, unknown; /* number of pieces; number of pieces with an unlabelled granule */
        uint32_t n_channels;
};

static void set_add(struct ds_sectors_set *set, uint32_t channel)
{
        set->word[channel / 64] |= UINT64_C(1) << channel % 64;
}

static void set_remove(struct ds_sectors_set *set, uint32_t channel)
{
        set->word[channel / 64] &= ~(UINT64_C(1) << channel % 64);
}

/* Returns 0 if `of` and the set are disjoint, 1 if `of` is a subset of the set, 2 if the set cuts `of`. */
static int set_meets(const struct ds_sectors_set *set, const struct ds_sectors_set *of)
{
        int in = 0, out = 0;

        for (size_t i = 0; i < DS_ARRAY_SIZE(set->word); i++) {
                in |= (of->word[i] & set->word[i]) != 0;
                out |= (of->word[i] & ~set->word[i]) != 0;
        }
        return in ? 1 + out : 0;
}

/* --- number of channels ------------------------------------------------------------------------------------------- */

int ds_sectors_count(struct ds_sectors_share share, uint32_t n_channels, uint32_t *ret)
{
        uint64_t n = share.of ? (uint64_t)n_channels * share.parts / share.of : share.parts;

        if (share.of && share.parts < share.of && share.parts)
                n = DS_MAX(n, UINT64_C(1));
        if (!n || n >= n_channels)
                return DS_SECTORS_E_SHARE;
        *ret = (uint32_t)n;
        return 0;
}

static int share_number(const char **at, uint32_t *ret)
{
        uint32_t n = 0;
        const char *p = *at;

        for (; *p >= '0' && *p <= '9' && p - *at < 4; p++)
                n = n * 10 + (uint32_t)(*p - '0');
        if (p == *at)
                return -EINVAL;
        *at = p;
        *ret = n;
        return 0;
}

int ds_sectors_share_read(const char *text, struct ds_sectors_share *ret)
{
        struct ds_sectors_share share = {0};

        if (share_number(&text, &share.parts) || !share.parts)
                return -EINVAL;
        if (*text == '/') {
                text++;
                if (share_number(&text, &share.of) || share.parts >= share.of)
                        return -EINVAL;
        }
        if (*text)
                return -EINVAL;
        *ret = share;
        return 0;
}

/* --- kinds of pieces ---------------------------------------------------------------------------------------------- */

static int kind_order(const void *a, const void *b)
{
        return memcmp(a, b, sizeof(struct ds_sectors_set));
}

/* Sorts the kinds and merges equal ones. */
static void kinds_melt(struct kinds *kinds)
{
        size_t to = 0;

        qsort(kinds->kind, kinds->n, sizeof(kinds->kind[0]), kind_order);
        for (size_t i = 0; i < kinds->n; i++) {
                if (to && !kind_order(&kinds->kind[to - 1], &kinds->kind[i]))
                        kinds->kind[to - 1].count += kinds->kind[i].count;
                else
                        kinds->kind[to++] = kinds->kind[i];
        }
        kinds->n = to;
}

/* Finds the channels of piece i. Returns 0 if one of its granules has no label. */
static int piece_of(const struct ds_sectors_labels *labels, uint32_t bits, size_t i, struct ds_sectors_set *ret)
{
        const size_t per = (size_t)1 << (bits - labels->granule_bits);

        *ret = (struct ds_sectors_set){0};
        for (size_t g = i * per; g < (i + 1) * per; g++) {
                if (labels->channel[g] == DS_SECTORS_NO_CHANNEL)
                        return 0;
                set_add(ret, labels->channel[g]);
        }
        return 1;
}

/* Counts the pieces of 2^bits bytes by their set of channels. Returns 0, or -ERANGE: too many kinds. */
static int kinds_count(const struct ds_sectors_labels *labels, uint32_t bits, struct kinds *kinds)
{
        const size_t n = labels->n_granules >> (bits - labels->granule_bits);

        kinds->n = 0;
        kinds->pieces = n;
        kinds->unknown = 0;
        for (size_t i = 0; i < n; i++) {
                struct kind *kind = &kinds->kind[kinds->n];

                if (!piece_of(labels, bits, i, &kind->set)) {
                        kinds->unknown++;
                        continue;
                }
                kind->count = 1;
                if (++kinds->n < 2 * (size_t)KINDS_MAX)
                        continue;
                kinds_melt(kinds);
                if (kinds->n >= KINDS_MAX)
                        return -ERANGE;
        }
        kinds_melt(kinds);
        return kinds->n >= KINDS_MAX ? -ERANGE : 0;
}

/* --- the search --------------------------------------------------------------------------------------------------- */

static uint64_t cut_by(const struct kinds *kinds, const struct ds_sectors_set *set)
{
        uint64_t cut = 0;

        for (size_t i = 0; i < kinds->n; i++)
                if (set_meets(set, &kinds->kind[i].set) == 2)
                        cut += kinds->kind[i].count;
        return cut;
}

/* Number of pieces whose channels are all in the set; of two sets that cut equally many pieces the one with more
 * inside is better. */
static uint64_t inside(const struct kinds *kinds, const struct ds_sectors_set *set)
{
        uint64_t n = 0;

        for (size_t i = 0; i < kinds->n; i++)
                if (set_meets(set, &kinds->kind[i].set) == 1)
                        n += kinds->kind[i].count;
        return n;
}

struct found {
        struct ds_sectors_set set;
        uint64_t cut, inside;
};

static int better(const struct found *a, const struct found *b)
{
        return a->cut < b->cut || (a->cut == b->cut && a->inside > b->inside);
}

static void judge(const struct kinds *kinds, struct found *found)
{
        found->cut = cut_by(kinds, &found->set);
        found->inside = inside(kinds, &found->set);
}

/* Adds the channel to the set with which the set cuts the fewest pieces. */
static void grow(const struct kinds *kinds, struct found *found)
{
        struct found best = {.cut = UINT64_MAX};

        for (uint32_t c = 0; c < kinds->n_channels; c++) {
                struct found with = *found;

                if (ds_sectors_has(&found->set, c))
                        continue;
                set_add(&with.set, c);
                judge(kinds, &with);
                if (better(&with, &best))
                        best = with;
        }
        *found = best;
}

/* Exchanges the channel inside the set and the one outside whose exchange improves the set most. Returns 0 if none
 * improves it. */
static int exchange(const struct kinds *kinds, struct found *found)
{
        struct found best = *found;

        for (uint32_t out = 0; out < kinds->n_channels; out++) {
                for (uint32_t in = 0; ds_sectors_has(&found->set, out) && in < kinds->n_channels; in++) {
                        struct found with = *found;

                        if (ds_sectors_has(&found->set, in))
                                continue;
                        set_remove(&with.set, out);
                        set_add(&with.set, in);
                        judge(kinds, &with);
                        if (better(&with, &best))
                                best = with;
                }
        }
        if (!better(&best, found))
                return 0;
        *found = best;
        return 1;
}

static struct found search(const struct kinds *kinds, uint32_t n_be)
{
        const uint32_t step = DS_MAX(DS_DIV_UP(kinds->n_channels, SEEDS_MAX), 1u);
        struct found best = {.cut = UINT64_MAX};

        for (uint32_t seed = 0; seed < kinds->n_channels; seed += step) {
                struct found found = {.cut = 0};

                set_add(&found.set, seed);
                judge(kinds, &found);
                for (uint32_t n = 1; n < n_be; n++)
                        grow(kinds, &found);
                if (better(&found, &best))
                        best = found;
        }
        while (best.cut && exchange(kinds, &best))
                continue;
        return best;
}

/* --- the plan ----------------------------------------------------------------------------------------------------- */

/* Upper bound of a sector's size by the SGDRC paper's rule, log2 of bytes. */
static uint32_t bits_max(uint32_t n_be)
{
        const int power = (n_be & (n_be - 1)) == 0;

        return DS_MIN(10u + (power ? (uint32_t)__builtin_ctz(n_be) : 0), DS_SECTORS_BITS_MAX);
}

static int labels_check(const struct ds_sectors_labels *labels)
{
        if (labels->granule_bits > DS_SECTORS_BITS_MAX || labels->n_channels > DS_SECTORS_CHANNELS_MAX ||
                !labels->n_granules || labels->n_granules % ((size_t)1 << (DS_SECTORS_BITS_MAX - labels->granule_bits)))
                return DS_SECTORS_E_LABELS;
        for (size_t i = 0; i < labels->n_granules; i++)
                if (labels->channel[i] >= labels->n_channels && labels->channel[i] != DS_SECTORS_NO_CHANNEL)
                        return DS_SECTORS_E_LABELS;
        return 0;
}

static void plan_fill(const struct kinds *kinds, const struct found *found, uint32_t bits, struct ds_sectors_plan *ret)
{
        const uint64_t be = found->inside, lost = found->cut + kinds->unknown;

        ret->be = found->set;
        ret->sector_bits = bits;
        ret->be_permille = (uint32_t)(be * 1000 / kinds->pieces);
        ret->lost_permille = (uint32_t)DS_DIV_UP(lost * 1000, kinds->pieces);
        ret->ls_permille = 1000 - DS_MIN(ret->be_permille + ret->lost_permille, 1000u);
}

/* Tries sector sizes from the largest down to one that loses little enough memory. The smallest size loses least and
 * is accepted in any case. */
static void plan_size(const struct ds_sectors_labels *labels, struct kinds *kinds, uint32_t lowest,
        uint32_t lost_permille, struct ds_sectors_plan *ret)
{
        for (uint32_t bits = DS_MAX(bits_max(ret->n_be), lowest);; bits--) {
                struct found found = {.cut = 0};
                int r = kinds_count(labels, bits, kinds);

                if (!r) {
                        found = search(kinds, ret->n_be);
                        plan_fill(kinds, &found, bits, ret);
                }
                if ((!r && found.cut * 1000 <= kinds->pieces * lost_permille) || bits == lowest)
                        return;
        }
}

int ds_sectors_plan(const struct ds_sectors_labels *labels, struct ds_sectors_share share, uint32_t min_bits,
        uint32_t lost_permille, struct ds_sectors_plan *ret)
{
        const uint32_t lowest = DS_MAX(min_bits, labels->granule_bits);
        struct ds_sectors_plan plan = {.lost_permille = 1000};
        struct kinds kinds = {.n_channels = labels->n_channels};
        int r = labels_check(labels);

        if (!r)
                r = ds_sectors_count(share, labels->n_channels, &plan.n_be);
        if (r)
                return r;
        if (lowest > DS_SECTORS_BITS_MAX)
                return DS_SECTORS_E_LABELS;
        kinds.kind = ds_alloc0(2 * (size_t)KINDS_MAX, sizeof(kinds.kind[0]));
        if (!kinds.kind)
                return ds_error_origin(-ENOMEM);
        plan_size(labels, &kinds, lowest, lost_permille, &plan);
        ds_free(kinds.kind);
        if (!plan.sector_bits)
                return DS_SECTORS_E_LABELS;
        *ret = plan;
        return 0;
}

void ds_sectors_classify(
        const struct ds_sectors_labels *labels, const struct ds_sectors_plan *plan, uint8_t *ret_classes)
{
        static const uint8_t classes[] = {DS_SECTORS_LS, DS_SECTORS_BE, DS_SECTORS_NEITHER};
        const size_t n = labels->n_granules >> (plan->sector_bits - labels->granule_bits);
        struct ds_sectors_set piece;

        for (size_t i = 0; i < n; i++)
                ret_classes[i] = piece_of(labels, plan->sector_bits, i, &piece) ? classes[set_meets(&plan->be, &piece)]
                                                                                : (uint8_t)DS_SECTORS_NEITHER;
}
