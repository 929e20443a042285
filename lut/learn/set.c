/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/learn/set.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define LEAST_SAMPLES 256
#define LEAST_PAIRS 64   /* least number of pairs of neighbouring units before they are joined to one granule */
#define ENOUGH_PAIRS 600 /* number of pairs of granules with the same difference that suffice for the search */
/* minimum number of pages; each page has its own constants, so one page alone does not determine the hash */
#define PAGES_LEAST 4
#define HELD_OUT 4 /* one page of this many is held out */
#define DENSE 8    /* in pages that need not be dense, one granule of this many is known */

static int set_init(struct ds_learn_set *set, const struct ds_learn_set *like, size_t n_pages)
{
        *set = (struct ds_learn_set){
                .granule_bits = like->granule_bits, .bits = like->bits, .channels = like->channels, .n_pages = n_pages};
        set->known = ds_alloc0(n_pages + 1, sizeof(*set->known));
        set->address = ds_alloc0(n_pages + 1, sizeof(*set->address));
        set->label = ds_alloc((n_pages + 1) << set->bits);
        if (!set->known || !set->address || !set->label) {
                ds_learn_set_deinit(set);
                return ds_error_origin(-ENOMEM);
        }
        memset(set->label, DS_LUT_UNKNOWN, n_pages << set->bits);
        return 0;
}

void ds_learn_set_deinit(struct ds_learn_set *set)
{
        set->known = ds_free(set->known);
        set->address = ds_free(set->address);
        set->place = ds_free(set->place);
        set->label = ds_free(set->label);
}

static void count_known(struct ds_learn_set *set)
{
        set->n_known = 0;
        for (size_t page = 0; page < set->n_pages; page++) {
                set->known[page] = 0;
                for (uint32_t x = 0; x < 1u << set->bits; x++)
                        set->known[page] += ds_learn_page(set, page)[x] != DS_LUT_UNKNOWN;
                set->n_known += set->known[page];
        }
}

/* --- reading of a file ------------ */

static uint32_t best_run(const struct ds_lut_samples *samples)
{
        uint64_t most = 0, n;
        uint32_t best = 0;

        for (size_t i = 0; i < samples->n_blocks; i++) {
                n = 0;
                for (size_t k = 0; k < samples->n_blocks; k++)
                        n += samples->blocks[k].run == samples->blocks[i].run ? samples->blocks[k].n : 0;
                if (n > most) {
                        most = n;
                        best = samples->blocks[i].run;
                }
        }
        return best;
}

/* Index of the page in the set; adds a new page if necessary. */
static size_t page_of(struct ds_learn_set *set, uint64_t address)
{
        size_t i = 0;

        while (i < set->n_pages && set->address[i] != address)
                i++;
        if (i == set->n_pages)
                set->address[set->n_pages++] = address;
        return i;
}

/* Removes labels that occur too rarely, and numbers the others from 0. */
static void number_labels(struct ds_learn_set *set)
{
        uint8_t number[256];
        uint64_t count[256] = {0}, n = 0, labels = 0;
        size_t all = set->n_pages << set->bits;

        for (size_t i = 0; i < all; i++)
                count[set->label[i]]++;
        for (uint32_t label = 0; label < DS_LUT_UNKNOWN; label++) {
                n += count[label];
                labels += count[label] > 0;
        }
        memset(number, DS_LUT_UNKNOWN, sizeof(number));
        for (uint32_t label = 0; label < DS_LUT_UNKNOWN; label++)
                if (count[label] * labels * 8 >= n && count[label])
                        number[label] = (uint8_t)set->channels++;
        for (size_t i = 0; i < all; i++)
                set->label[i] = number[set->label[i]];
}

/* Joins pairs of neighbouring units to one granule if their labels are almost always equal; where the two labels
 * differ, removes them. */
static bool join_neighbours(struct ds_learn_set *set)
{
        size_t all = set->n_pages << set->bits, pairs = 0, same = 0;
        uint8_t *label = set->label;

        for (size_t i = 0; i < all; i += 2) {
                pairs += label[i] != DS_LUT_UNKNOWN && label[i + 1] != DS_LUT_UNKNOWN;
                same += label[i] != DS_LUT_UNKNOWN && label[i] == label[i + 1];
        }
        if (set->bits < 2 || pairs < LEAST_PAIRS || same * 20 < pairs * 17)
                return false;
        for (size_t i = 0; i < all; i += 2) {
                if (label[i] == DS_LUT_UNKNOWN || label[i] == label[i + 1])
                        label[i / 2] = label[i + 1];
                else
                        label[i / 2] = label[i + 1] == DS_LUT_UNKNOWN ? label[i] : DS_LUT_UNKNOWN;
        }
        set->bits--;
        set->granule_bits++;
        return true;
}

int ds_learn_gather(const struct ds_lut_samples *samples, struct ds_learn_set *ret)
{
        struct ds_learn_set shape = {
                .granule_bits = samples->about.unit_bits, .bits = samples->about.page_bits - samples->about.unit_bits};
        uint32_t run = best_run(samples);
        size_t page;
        int r;

        if (shape.bits > 16)
                return DS_LEARN_E_FEW;
        r = set_init(ret, &shape, samples->n_blocks);
        if (r)
                return r;
        ret->n_pages = 0;
        for (size_t i = 0; i < samples->n_blocks; i++) {
                if (samples->blocks[i].run != run)
                        continue;
                page = page_of(ret, samples->blocks[i].address);
                for (uint32_t k = 0; k < samples->blocks[i].n; k++)
                        ret->label[page << ret->bits | samples->blocks[i].samples[k].unit] =
                                samples->blocks[i].samples[k].label;
        }
        number_labels(ret);
        while (join_neighbours(ret))
                ;
        count_known(ret);
        if (ret->n_known < LEAST_SAMPLES || ret->channels < 2 || ret->channels > DS_LUT_CHANNELS_MAX) {
                ds_learn_set_deinit(ret);
                return DS_LEARN_E_FEW;
        }
        return 0;
}

/* --- training and test sets ---------- */

static int list_places(struct ds_learn_set *set)
{
        uint32_t n = 0;

        set->place = ds_alloc0(set->n_known + 1, sizeof(*set->place));
        if (!set->place)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < set->n_pages << set->bits; i++)
                if (set->label[i] != DS_LUT_UNKNOWN)
                        set->place[n++] = i;
        return 0;
}

/* Best number of pages for n known granules. The pairs within a page grow with the square of its known granules. */
static size_t pages_for(const struct ds_learn_set *all, uint32_t n, size_t most)
{
        uint64_t pages = (uint64_t)n * n / ((uint64_t)ENOUGH_PAIRS << (all->bits + 1));
        uint64_t least = DS_MAX(((uint64_t)n >> all->bits) + 1, (uint64_t)PAGES_LEAST);

        return DS_MIN(DS_MAX(pages, least), (uint64_t)most);
}

static void shuffle(uint32_t *numbers, size_t n, uint64_t *state)
{
        for (size_t i = n; i > 1; i--) {
                size_t k = ds_learn_random(state) % i;
                uint32_t swap = numbers[i - 1];

                numbers[i - 1] = numbers[k];
                numbers[k] = swap;
        }
}

/* Copies n random granules of the page, or all known ones. */
static void choose_granules(
        const struct ds_learn_set *all, size_t from, uint32_t n, uint64_t *state, struct ds_learn_set *to, size_t page)
{
        uint32_t left = all->known[from];

        for (uint32_t x = 0; x < 1u << all->bits; x++) {
                uint8_t label = ds_learn_page(all, from)[x];

                if (label == DS_LUT_UNKNOWN)
                        continue;
                if (ds_learn_random(state) % left-- < n) {
                        to->label[page << to->bits | x] = label;
                        n--;
                }
        }
        to->address[page] = all->address[from];
}

int ds_learn_split(const struct ds_learn_set *all, uint32_t n, uint64_t seed, struct ds_learn_set *ret_train,
        struct ds_learn_set *ret_held)
{
        ds_cleanup(ds_freep) uint32_t *order = ds_alloc0(all->n_pages + 1, sizeof(*order));
        size_t held = all->n_pages < 2 ? 0 : DS_MAX(all->n_pages / HELD_OUT, (size_t)1), pages;
        uint32_t left = DS_MIN(n, all->n_known);
        int r;

        if (!order)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < all->n_pages; i++)
                order[i] = i;
        shuffle(order, all->n_pages, &seed);
        pages = pages_for(all, left, all->n_pages - held);
        r = set_init(ret_train, all, pages);
        if (r)
                return r;
        r = set_init(ret_held, all, all->n_pages - pages);
        if (r) {
                ds_learn_set_deinit(ret_train);
                return r;
        }
        for (size_t i = 0; i < all->n_pages; i++) {
                uint32_t share = i < pages ? DS_MIN(all->known[order[i]], left / (uint32_t)(pages - i)) : UINT32_MAX;

                choose_granules(
                        all, order[i], share, &seed, i < pages ? ret_train : ret_held, i < pages ? i : i - pages);
                left -= i < pages ? share : 0;
        }
        count_known(ret_train);
        count_known(ret_held);
        r = list_places(ret_train);
        if (r) {
                ds_learn_set_deinit(ret_train);
                ds_learn_set_deinit(ret_held);
        }
        return r;
}

int ds_learn_dense(const struct ds_learn_set *all, const struct ds_learn_set *train, uint32_t n, uint64_t seed,
        struct ds_learn_set *ret)
{
        uint32_t first = DS_MIN(n / 2, 1u << all->bits), left = n, share;
        uint64_t pages = 1 + DS_MAX((uint64_t)(n - first) * DENSE >> all->bits, (uint64_t)1);
        size_t from;
        int r;

        pages = DS_MIN(pages, (uint64_t)train->n_pages);
        r = set_init(ret, all, pages);
        if (r)
                return r;
        for (size_t i = 0; i < pages; i++) {
                for (from = 0; all->address[from] != train->address[i]; from++)
                        ;
                share = DS_MIN(all->known[from], i ? left / (uint32_t)(pages - i) : first);
                choose_granules(all, from, share, &seed, ret, i);
                left -= share;
        }
        count_known(ret);
        r = list_places(ret);
        if (r)
                ds_learn_set_deinit(ret);
        return r;
}
