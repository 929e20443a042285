/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sequence that goes round in steps of the page's own
 *
 * Within a page channels come again after a period that is no power of two; other pages have the same sequence, begun
 * elsewhere and gone through in other steps: channel = slot (u k + v) mod T, where k counts slots of a few granules.
 * The period is sought by how often granules that far apart are of one channel; then each page is laid on the sequence
 * of those before it by trying all u and v.
 */
#pragma once

#include "lut/learn/set.h"

struct ds_learn_congruence {
        uint32_t period;
        unsigned slot_bits;
        uint8_t *channel; /* [period << slot_bits]; ds_free */
        double explained; /* share of the labels */
};

/* 0; DS_LEARN_E_NONE; negative errno. */
int ds_learn_find_congruence(const struct ds_learn_set *set, struct ds_learn_congruence *ret);
