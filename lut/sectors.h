/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sectors: the channels for BE, and the pieces in which memory is coloured
 *
 * Pure arithmetic on labels, an array with the channel of every granule of some pages. For a number of channels that BE
 * gets it computes:
 *
 *  - which channels: those that occur together. Where pieces of memory belong to several channels (on an H200 each KiB
 *    to a pair of 47, on a Tesla P40 4 KiB to a group of four) a set that consists of such groups leaves most pieces
 *    whole; any other set cuts them. The set is found from the labels alone, without knowledge about any GPU.
 *  - the sector size: the larger, the cheaper for kernels. The SGDRC paper's rule (appendix A.2) is the upper bound: as
 *    many KiB as there are channels if that is a power of two, else one KiB. Below that the loss decides: the largest
 *    size at which at most `lost_permille` of the memory lies in sectors with channels of both classes.
 *  - the class of each sector. The positions of a class's sectors follow the GPU's hash; on no known GPU are they the
 *    same for all pages, so users of such memory keep a table.
 *
 * The same labels give the same result. A sector with an unlabelled granule belongs to no class.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DS_SECTORS_CHANNELS_MAX 128u
#define DS_SECTORS_NO_CHANNEL 0xffu /* channel number of a granule without a label */
/* default limit of the memory in sectors with channels of both classes, permille */
#define DS_SECTORS_LOST_PERMILLE 125u
#define DS_SECTORS_BITS_MAX 16u

/* Contract codes */
#define DS_SECTORS_E_LABELS 1 /* a label is not a channel number, or too few granules have labels */
#define DS_SECTORS_E_SHARE 2  /* invalid number of channels: each side needs at least one */

struct ds_sectors_set {
        uint64_t word[DS_SECTORS_CHANNELS_MAX / 64];
};

/* Labels of n_granules granules. n_granules << granule_bits, their size in bytes, is a multiple of
 * 2^DS_SECTORS_BITS_MAX. */
struct ds_sectors_labels {
        const uint8_t *channel; /* channel of each granule */
        size_t n_granules;
        uint32_t granule_bits; /* at most DS_SECTORS_BITS_MAX */
        uint32_t n_channels;   /* at most DS_SECTORS_CHANNELS_MAX */
};

/* BE's share: a number or a fraction of the channels. */
struct ds_sectors_share {
        uint32_t parts, of; /* the fraction parts/of; if of is 0, parts is a number of channels */
};

struct ds_sectors_plan {
        struct ds_sectors_set be;
        uint32_t n_be;
        uint32_t sector_bits;
        /* shares of the labelled memory in sectors of BE, of LS, and of both, permille; their sum is 1000 */
        uint32_t be_permille, ls_permille, lost_permille;
};

enum ds_sectors_class {
        DS_SECTORS_BE,
        DS_SECTORS_LS,
        DS_SECTORS_NEITHER,
        _DS_SECTORS_CLASS_MAX,
};

static inline int ds_sectors_has(const struct ds_sectors_set *set, uint32_t channel)
{
        return channel < DS_SECTORS_CHANNELS_MAX && (set->word[channel / 64] >> channel % 64 & 1);
}

/* Number of channels for a share of n_channels: at least one, and at least one is left. 0 or DS_SECTORS_E_SHARE. */
int ds_sectors_count(struct ds_sectors_share share, uint32_t n_channels, uint32_t *ret);
/* Parses a share like "1/3" or "15": 0, or -EINVAL. */
int ds_sectors_share_read(const char *text, struct ds_sectors_share *ret);

/* Computes the plan. min_bits: smallest sector size that kernels support, log2 of bytes. Returns 0,
 * DS_SECTORS_E_LABELS, DS_SECTORS_E_SHARE or -ENOMEM. */
int ds_sectors_plan(const struct ds_sectors_labels *labels, struct ds_sectors_share share, uint32_t min_bits,
        uint32_t lost_permille, struct ds_sectors_plan *ret);
/* Writes the class of each sector, one byte each, for (n_granules << granule_bits) >> sector_bits sectors. */
void ds_sectors_classify(
        const struct ds_sectors_labels *labels, const struct ds_sectors_plan *plan, uint8_t *ret_classes);
