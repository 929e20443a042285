/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/learn/lattice.h"

#include <string.h>

/* bound of intermediate numbers: they grow while the lattice has few rows, and then shrink again */
#define TOO_LARGE (INT64_C(1) << 40)

static bool take_off(int64_t *from, const int64_t *row, int64_t times, uint32_t dims)
{
        int64_t product;

        for (uint32_t i = 0; i < dims; i++) {
                if (__builtin_mul_overflow(times, row[i], &product) || product > TOO_LARGE || product < -TOO_LARGE)
                        return false;
                from[i] -= product;
                if (from[i] > TOO_LARGE || from[i] < -TOO_LARGE)
                        return false;
        }
        return true;
}

static void swap_rows(int64_t *a, int64_t *b, uint32_t dims)
{
        int64_t swap[DS_LATTICE_DIMS_MAX];

        memcpy(swap, a, dims * sizeof(*swap));
        memcpy(a, b, dims * sizeof(*swap));
        memcpy(b, swap, dims * sizeof(*swap));
}

/* Reduces the part of the row behind place `from` by the lattice's later rows. Returns false if a number becomes too
 * large. */
static bool shorten(struct ds_lattice *lattice, int64_t *row, uint32_t from)
{
        for (uint32_t k = from; k < lattice->dims; k++)
                if (lattice->row[k][k] && !take_off(row, lattice->row[k], row[k] / lattice->row[k][k], lattice->dims))
                        return false;
        return true;
}

/* Runs Euclid's algorithm on place i of the vector and of row i; afterwards place i of the vector is 0. Returns
 * false if a number becomes too large. */
static bool clear_place(struct ds_lattice *lattice, int64_t *vector, uint32_t i)
{
        int64_t *row = lattice->row[i];

        while (vector[i]) {
                if (!take_off(row, vector, row[i] / vector[i], lattice->dims))
                        return false;
                swap_rows(row, vector, lattice->dims);
        }
        return shorten(lattice, row, i + 1) && shorten(lattice, vector, i + 1);
}

bool ds_lattice_add(struct ds_lattice *lattice, const int8_t *relation, uint64_t least)
{
        const struct ds_lattice before = *lattice;
        int64_t vector[DS_LATTICE_DIMS_MAX] = {0};
        uint64_t index;
        bool fits = true;

        for (uint32_t i = 0; i < lattice->dims; i++)
                vector[i] = relation[i];
        for (uint32_t i = 0; fits && i < lattice->dims; i++)
                fits = clear_place(lattice, vector, i);
        index = ds_lattice_index(lattice);
        if (fits && (!index || index >= least))
                return true;
        *lattice = before;
        return false;
}

uint64_t ds_lattice_index(const struct ds_lattice *lattice)
{
        uint64_t index = 1, at;

        for (uint32_t i = 0; i < lattice->dims; i++) {
                at = (uint64_t)(lattice->row[i][i] < 0 ? -lattice->row[i][i] : lattice->row[i][i]);
                if (!at || at > UINT32_MAX || index * at > UINT32_MAX)
                        return 0;
                index *= at;
        }
        return index;
}

/* --- weights --- */

/* Reduces the vector to its representative, whose places are at least 0 and below the rows' diagonal. */
static void reduce(const struct ds_lattice *lattice, int64_t *vector)
{
        int64_t at, times;

        for (uint32_t i = 0; i < lattice->dims; i++) {
                at = lattice->row[i][i];
                times = vector[i] / at;
                if (vector[i] - times * at < 0)
                        times += at < 0 ? 1 : -1;
                for (uint32_t k = i; k < lattice->dims; k++)
                        vector[k] -= times * lattice->row[i][k];
        }
}

static bool is_nought(const int64_t *vector, uint32_t dims)
{
        for (uint32_t i = 0; i < dims; i++)
                if (vector[i])
                        return false;
        return true;
}

/* Whether the element generates the group. If so, *ret_weight holds for each digit the multiple of the element that
 * equals the digit. */
static bool generates(const struct ds_lattice *lattice, const int64_t *element, uint32_t size, uint8_t *ret_weight)
{
        int64_t unit[DS_LATTICE_DIMS_MAX][DS_LATTICE_DIMS_MAX] = {{0}}, at[DS_LATTICE_DIMS_MAX] = {0};
        uint32_t dims = lattice->dims;

        for (uint32_t i = 0; i < dims; i++) {
                unit[i][i] = 1;
                reduce(lattice, unit[i]);
        }
        for (uint32_t times = 0; times < size; times++) {
                if (times && is_nought(at, dims))
                        return false;
                for (uint32_t i = 0; i < dims; i++)
                        if (memcmp(at, unit[i], dims * sizeof(*at)) == 0)
                                ret_weight[i] = (uint8_t)times;
                for (uint32_t i = 0; i < dims; i++)
                        at[i] += element[i];
                reduce(lattice, at);
        }
        return true;
}

bool ds_lattice_weights(const struct ds_lattice *lattice, uint8_t *ret_weight)
{
        uint64_t size = ds_lattice_index(lattice);
        int64_t element[DS_LATTICE_DIMS_MAX];

        if (!size || size > UINT8_MAX)
                return false;
        /* tries single digits and sums of two digits as generators, because the modulus may share a factor with each
         * weight */
        for (uint32_t i = 0; i < lattice->dims; i++)
                for (uint32_t k = i; k < lattice->dims; k++) {
                        memset(element, 0, sizeof(element));
                        element[i] = 1;
                        element[k] = 1;
                        if (generates(lattice, element, (uint32_t)size, ret_weight))
                                return true;
                }
        return false;
}
