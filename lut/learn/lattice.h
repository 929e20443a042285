/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which modulus makes some sums nought
 *
 * Digits have weights that nobody knows, modulo a number that nobody knows; what is known are relations: sums of a few
 * digits, each added or taken off, that are 0. Relations are vectors of whole numbers, and with them all their sums are
 * relations. Once they span all dimensions, what is left of the vectors modulo the relations is a finite group: its
 * size is the modulus, and what a digit is in it is its weight. This is exact; it guarantees nothing about relations
 * that were no relations, except that one that would leave nothing of the group is refused.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define DS_LATTICE_DIMS_MAX 16

/* Row i has nought before place i; row[i][i] is 0 while nothing reaches that far. */
struct ds_lattice {
        uint32_t dims;
        int64_t row[DS_LATTICE_DIMS_MAX][DS_LATTICE_DIMS_MAX];
};

/* Adds a relation. false, and nothing is changed, when the group would be smaller than `least`, or numbers too large.
 */
bool ds_lattice_add(struct ds_lattice *lattice, const int8_t *relation, uint64_t least);
/* How large the group is; 0 while the relations leave it infinite, or where it is larger than 2^32. */
uint64_t ds_lattice_index(const struct ds_lattice *lattice);
/* The digits' weights, if the group is that of numbers modulo its size: false when it is not, or the size exceeds 255.
 */
bool ds_lattice_weights(const struct ds_lattice *lattice, uint8_t *ret_weight);
