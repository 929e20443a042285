/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input of the learner: pages of labelled granules
 *
 * Made from the run of a file that has most samples. Labels are numbered without gaps, and units are joined to granules
 * if neighbours almost always have the same label. One part is for training; held-out pages and unselected granules are
 * for the test. Nothing here depends on the form of a hash.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lut/samples.h"
#include "lut/table.h"

#define DS_LEARN_E_FEW 1  /* contract: not enough samples */
#define DS_LEARN_E_NONE 2 /* contract: no structure of the searched kind */

struct ds_learn_set {
        unsigned granule_bits; /* log2 of a granule's bytes */
        unsigned bits;         /* bits of a granule's number in its page */
        uint32_t channels;
        size_t n_pages;
        uint32_t n_known;  /* labelled granules of all pages */
        uint32_t *known;   /* labelled granules per page */
        uint8_t *label;    /* label of each [page << bits | granule]; DS_LUT_UNKNOWN without a label */
        uint64_t *address; /* address of each page */
        uint32_t *place;   /* indices in label of all labelled granules; filled in by ds_learn_split() */
};

static inline const uint8_t *ds_learn_page(const struct ds_learn_set *set, size_t page)
{
        return set->label + (page << set->bits);
}

/* The next number of a pseudorandom sequence (splitmix64). */
static inline uint64_t ds_learn_random(uint64_t *state)
{
        uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

/* Reads the run of the file that has most samples. Returns 0; DS_LEARN_E_FEW; or a negative errno. Free *ret with
 * ds_learn_set_deinit(). */
int ds_learn_gather(const struct ds_lut_samples *samples, struct ds_learn_set *ret);
/*
 * Splits the set: about every fourth page is held out. Of the others at most n granules are kept for training, in a
 * number of pages that gives enough pairs of granules within each. Unused pages are held out too.
 */
int ds_learn_split(const struct ds_learn_set *all, uint32_t n, uint64_t seed, struct ds_learn_set *ret_train,
        struct ds_learn_set *ret_held);
/* Selects from the training pages of a split: one page with up to n/2 granules, and other pages with n/2 granules in
 * all, so few that these are an eighth of each page. */
int ds_learn_dense(const struct ds_learn_set *all, const struct ds_learn_set *train, uint32_t n, uint64_t seed,
        struct ds_learn_set *ret);
void ds_learn_set_deinit(struct ds_learn_set *set);
