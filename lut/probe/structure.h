/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics of the labels of pages: their regularity, and which channels occur together
 *
 * All values are counted, not assumed: how often a granule has the same label as the one at a given distance before it
 * in its aligned piece; how many channels an aligned piece has; which sets of them occur. The smallest pieces with
 * several channels define a graph: two channels are neighbours if they share such a piece.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#define DS_STRUCTURE_SIZES 6u /* sizes of pieces: 2, 4, ... 64 granules */
#define DS_STRUCTURE_CHANNELS 256u

typedef struct ds_structure ds_structure;

/* Makes empty statistics. Returns NULL if out of memory. */
ds_structure *ds_structure_new(uint32_t granule_bits);
ds_structure *ds_structure_free(ds_structure *structure);
/* Adds labels of consecutive granules from a page's begin; `none` means no label. */
void ds_structure_add(ds_structure *structure, const uint8_t *labels, uint32_t n, uint8_t none);

struct ds_structure_size {
        uint32_t granules;
        uint64_t pieces;      /* completely labelled pieces */
        uint32_t least, most; /* least and greatest number of channels in one piece */
        double mean;
        uint32_t sets; /* number of different sets of channels in pieces; DS_STRUCTURE_SETS means that or more */
        double again;  /* share of granules with the same label as the one half a piece before */
};
#define DS_STRUCTURE_SETS 4096u

/* Statistics of pieces of 2 << i granules. */
void ds_structure_size(const ds_structure *structure, uint32_t i, struct ds_structure_size *ret);
/* Number of a channel's neighbours: channels that share one of the smallest mixed pieces with it. ret: bitmap of
 * them. */
uint32_t ds_structure_neighbours(const ds_structure *structure, uint32_t channel, uint64_t ret[4]);
/* Number of channels, and the shares of the least and the most frequent one in all labels. */
uint32_t ds_structure_channels(const ds_structure *structure, double *ret_least, double *ret_most);
/* Prints a report. */
void ds_structure_print(const ds_structure *structure, FILE *to);
