/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modulus and weights from sums that are 0
 *
 * Digits have unknown weights modulo an unknown number. Relations are known: sums of a few digits, each added or
 * subtracted, that are 0 modulo that number. A relation is an integer vector, and sums of relations are relations. When
 * the relations span all dimensions, the quotient of the integer vectors by the relations is a finite group: its order
 * is the modulus, and a digit's image in it is its weight. The computation is exact. It cannot detect wrong relations,
 * except that one is refused if it would reduce the group to less than `least`.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define DS_LATTICE_DIMS_MAX 16

/* Row i is 0 before place i. row[i][i] is 0 if no relation has its first nonzero place there. */
struct ds_lattice {
        uint32_t dims;
        int64_t row[DS_LATTICE_DIMS_MAX][DS_LATTICE_DIMS_MAX];
};

/* Adds a relation. Returns false and changes nothing if the group would have fewer than `least` elements, or if
 * numbers would become too large. */
bool ds_lattice_add(struct ds_lattice *lattice, const int8_t *relation, uint64_t least);
/* Order of the group; 0: infinite, or more than 2^32. */
uint64_t ds_lattice_index(const struct ds_lattice *lattice);
/* Finds the digits' weights. Returns false if the group is not cyclic or has more than 255 elements. */
bool ds_lattice_weights(const struct ds_lattice *lattice, uint8_t *ret_weight);
