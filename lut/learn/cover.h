/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables from overlaid pages, and a network for granules without samples
 *
 * If the structure of a hash is not known, but the address bits above the page are XORed into those below, a page
 * equals another page with its granule numbers XORed by a constant. So pages are overlaid by trying all constants; a
 * page that fits no other begins a new table. The samples of a table are votes. Where votes are few or contradictory, a
 * network learns from them, with a granule's bits and the known parities as inputs, and predicts the channels of
 * granules without samples. Nothing is assumed about the function itself.
 */
#pragma once

#include "lut/learn/parity.h"

struct ds_learn_cover {
        uint32_t dims, tables;
        uint32_t mask[16];
        uint8_t *channel; /* [tables << dims]; free with ds_free() */
        double explained; /* share of the labels that the tables predict */
        bool network;     /* a network was trained, because votes alone were not clear everywhere */
        uint32_t told;    /* number of cells without a sample, decided by the network */
};

/* Finds tables by overlaying pages. Returns 0; DS_LEARN_E_NONE: the set has no such structure; or a negative errno. */
int ds_learn_find_cover(const struct ds_learn_set *set, const struct ds_learn_parities *parities, uint64_t seed,
        struct ds_learn_cover *ret);
