/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A number modulo m whose values are places, and channels that have several places
 *
 * As in lut/learn/modulus.h, parities of address bits are digits whose weights are added modulo m. But here the number
 * is no channel's name: a map that can be any tells which channel is at each number, perhaps another one where a parity
 * is 0 than where it is 1, and a channel may be at several numbers. So m need not have anything to do with how many
 * channels there are, nor channels be equally many on any side. Found in this order, by counts over all pages that some
 * wrong labels do not change:
 *
 *  1. differences after which the channel is the same: such granules vote for one label;
 *  2. differences after which another channel follows for certain (a parity is flipped and no digit is): channels that
 *     are so exchanged are a class, and classes are what the digits alone tell;
 *  3. the differences that flip one digit: those after which the class is known best, among independent ones;
 *  4. which digits can be added and others taken off with the class as it was, at all places of one page: each such sum
 *     is a multiple of m, and from them m and all weights follow at once (lut/learn/lattice.h);
 *  5. the parities, and the map.
 *
 * Needs one page of which most is known, some of which an eighth is, and granules of 128 bytes at least. Fails where
 * pages' classes are not told by digits alone.
 */
#pragma once

#include "lut/learn/build.h"
#include "lut/learn/set.h"

/* draft: its head says of the pages what lut/layout.h wants; the form, its numbers, masks, weights and channels are
 * filled in. ret_explained: share of the set's labels that come out. 0; DS_LEARN_E_NONE; negative errno. */
int ds_learn_find_places(const struct ds_learn_set *set, struct ds_learn_draft *draft, double *ret_explained);
