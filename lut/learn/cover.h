/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages laid over each other, and a network for what nobody saw
 *
 * Where the structure of a hash is not known but the address bits above the page are XORed into those below, a page is
 * another page with its granule numbers XORed by a constant. So pages are laid over each other by trying all constants:
 * those that do not fit any other begin a table of their own. What is seen of a table are votes; a network that gets a
 * granule's bits, and the parities that were found, learns them where they are few or contradict each other, and tells
 * the channels of granules that no page showed.
 * Nothing is assumed of the function itself.
 */
#pragma once

#include "lut/learn/parity.h"

struct ds_learn_cover {
        uint32_t dims, tables;
        uint32_t mask[16];
        uint8_t *channel; /* [tables << dims]; ds_free */
        double explained; /* share of the labels */
        bool network;     /* votes alone were not clear everywhere: it was trained */
        uint32_t told;    /* places of tables that no sample had, and the network told */
};

/* 0; DS_LEARN_E_NONE; negative errno. */
int ds_learn_find_cover(const struct ds_learn_set *set, const struct ds_learn_parities *parities, uint64_t seed,
        struct ds_learn_cover *ret);
