/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Periodic sequences with a step width per page
 *
 * Within a page channels repeat with a period that is not a power of two. Other pages have the same sequence with
 * another start and another step width: channel = slot (u k + v) mod T, where k counts slots of a few granules. The
 * period is found by counting how often granules at a distance have the same channel. Then each page is fitted to the
 * sequence of the pages before it by trying all u and v.
 */
#pragma once

#include "lut/learn/set.h"

struct ds_learn_congruence {
        uint32_t period;
        unsigned slot_bits;
        uint8_t *channel; /* [period << slot_bits]; free with ds_free() */
        double explained; /* share of the labels that the sequence predicts */
};

/* Finds a periodic sequence. Returns 0; DS_LEARN_E_NONE: the set has no such structure; or a negative errno. */
int ds_learn_find_congruence(const struct ds_learn_set *set, struct ds_learn_congruence *ret);
