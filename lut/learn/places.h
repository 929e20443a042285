/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums modulo m with any map to channels, where a channel may have several numbers
 *
 * As in lut/learn/modulus.h, parities of address bits are digits whose weights are added modulo m. But here an
 * arbitrary map assigns a channel to each number; the map may depend on parities, and a channel may have several
 * numbers. So m is independent of the number of channels, and sides may have different numbers of channels. The steps,
 * by counts over all pages, so that some wrong labels do not matter:
 *
 *  1. differences that keep the channel: such granules vote for one label;
 *  2. differences after which another channel follows with certainty (they flip a parity, but no digit): channels
 *     exchanged in this way form a class, and digits alone determine the class;
 *  3. the differences that flip one digit: the independent ones after which the class is most predictable;
 *  4. digits that can be added and others subtracted without a change of the class, at all positions of one page: each
 *     such sum is a multiple of m, and they give m and all weights (lut/learn/lattice.h);
 *  5. the parities, and the map.
 *
 * It needs one almost complete page, some pages of which an eighth is known, and granules of at least 128 bytes. It
 * fails if digits alone do not determine the class.
 */
#pragma once

#include "lut/learn/build.h"
#include "lut/learn/set.h"

/* Finds a modulus and a map. draft: its head has the fields about pages that lut/layout.h requires; the function
 * fills in form, numbers, masks, weights and channels. ret_explained: share of the set's labels that the draft
 * predicts. Returns 0; DS_LEARN_E_NONE: no such structure; or a negative errno. */
int ds_learn_find_places(const struct ds_learn_set *set, struct ds_learn_draft *draft, double *ret_explained);
