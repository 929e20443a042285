/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What labels of pages look like: how regular they are, which channels are found together
 *
 * Counted, not assumed: how often a granule has the label of the one so many before it in its aligned piece; how many
 * channels an aligned piece has, and which sets of them occur. From the smallest pieces with several channels follows a
 * graph: two channels are neighbours where they share such a piece.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#define DS_STRUCTURE_SIZES 6u /* pieces of 2, 4, ... 64 granules */
#define DS_STRUCTURE_CHANNELS 256u

typedef struct ds_structure ds_structure;

/* NULL: out of memory. */
ds_structure *ds_structure_new(uint32_t granule_bits);
ds_structure *ds_structure_free(ds_structure *structure);
/* Labels of consecutive granules from a page's begin; `none` is no label. */
void ds_structure_add(ds_structure *structure, const uint8_t *labels, uint32_t n, uint8_t none);

struct ds_structure_size {
        uint32_t granules;
        uint64_t pieces;      /* that are labelled without a gap */
        uint32_t least, most; /* channels in one */
        double mean;
        uint32_t sets; /* different sets of channels; at most DS_STRUCTURE_SETS, which means more */
        double again;  /* how often a granule has the label of the one half a piece before */
};
#define DS_STRUCTURE_SETS 4096u

/* Of pieces of 2 << i granules. */
void ds_structure_size(const ds_structure *structure, uint32_t i, struct ds_structure_size *ret);
/* How many neighbours a channel has, and which: a bit each. */
uint32_t ds_structure_neighbours(const ds_structure *structure, uint32_t channel, uint64_t ret[4]);
/* Channels that were seen, and the share of the most and the least frequent one in all labels. */
uint32_t ds_structure_channels(const ds_structure *structure, double *ret_least, double *ret_most);
/* For people. */
void ds_structure_print(const ds_structure *structure, FILE *to);
