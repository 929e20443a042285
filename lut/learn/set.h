/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is learnt from: pages of labelled granules
 *
 * Made of a file of samples: the run that has most of them, labels numbered without gaps, units joined to granules
 * where neighbours have the same label nearly always. A part is for learning; pages that are held out, and granules
 * that are not chosen, are what the outcome is judged by. Nothing here knows what a hash looks like.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lut/samples.h"
#include "lut/table.h"

#define DS_LEARN_E_FEW 1  /* contract: not enough samples to say anything */
#define DS_LEARN_E_NONE 2 /* contract: there is no structure of the kind that is sought */

struct ds_learn_set {
        unsigned granule_bits; /* of a byte's number that are within a granule */
        unsigned bits;         /* of a granule's number in its page */
        uint32_t channels;
        size_t n_pages;
        uint32_t n_known;  /* granules with a label, of all pages */
        uint32_t *known;   /* of each page */
        uint8_t *label;    /* [page << bits | granule], DS_LUT_UNKNOWN where there is none */
        uint64_t *address; /* of each page */
        uint32_t *place;   /* all granules with a label, as places in label; made by ds_learn_split */
};

static inline const uint8_t *ds_learn_page(const struct ds_learn_set *set, size_t page)
{
        return set->label + (page << set->bits);
}

/* The next of a sequence of numbers that a seed begins (splitmix64). */
static inline uint64_t ds_learn_random(uint64_t *state)
{
        uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

/* All of a file's best run. 0; DS_LEARN_E_FEW; negative errno. The caller has ret freed by the last function. */
int ds_learn_gather(const struct ds_lut_samples *samples, struct ds_learn_set *ret);
/*
 * Splits: every fourth page or so is held out; of the others at most n granules are kept for learning, in so many pages
 * that there are enough pairs of granules within each. Pages that nobody needed are held out too.
 */
int ds_learn_split(const struct ds_learn_set *all, uint32_t n, uint64_t seed, struct ds_learn_set *ret_train,
        struct ds_learn_set *ret_held);
/* Of the pages of a split that are for learning: one that has up to half of n granules, and so few others that the
 * other half are an eighth of each. */
int ds_learn_dense(const struct ds_learn_set *all, const struct ds_learn_set *train, uint32_t n, uint64_t seed,
        struct ds_learn_set *ret);
void ds_learn_set_deinit(struct ds_learn_set *set);
