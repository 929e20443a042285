/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sectors: which channels become best effort's, and in which pieces memory can be coloured
 *
 * Pure arithmetic over labels: an array with the channel of every granule of some pages. From a number of channels that
 * best effort is to have it finds
 *  - which ones: those that are found together. Where pieces of memory belong to several channels (on an H200 each KiB
 *    to a pair of 47, on a Tesla P40 4 KiB to a group of four) a set that follows those groups leaves most pieces
 *    whole, and any other cuts them. The set is looked for in the labels; nothing of any part is known here.
 *  - how large sectors are: the larger, the cheaper for kernels. The SGDRC paper's rule (appendix A.2) is the upper
 *    bound: as many KiB as there are channels where that is a power of two, else one KiB. Below it decides what is
 *    lost: the largest size at which no more than `lost_permille` of the memory lies in sectors of both sides.
 *  - the class of each sector. Where a class's sectors lie follows the part's hash: on none that is known are they
 *    regular over pages, so who has memory in them keeps a table.
 * The same labels give the same answer. A granule without a label makes its sector nobody's.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DS_SECTORS_CHANNELS_MAX 128u
#define DS_SECTORS_NO_CHANNEL 0xffu   /* a granule of which nothing is known */
#define DS_SECTORS_LOST_PERMILLE 125u /* what may be lost by default */
#define DS_SECTORS_BITS_MAX 16u

/* Contract codes */
#define DS_SECTORS_E_LABELS 1 /* a label that is no channel, or too few of them */
#define DS_SECTORS_E_SHARE 2  /* so many channels cannot be taken: one must be left on either side */

struct ds_sectors_set {
        uint64_t word[DS_SECTORS_CHANNELS_MAX / 64];
};

/* Labels: of n_granules granules, n_granules << granule_bits bytes, a multiple of 2^DS_SECTORS_BITS_MAX. */
struct ds_sectors_labels {
        const uint8_t *channel; /* by granule */
        size_t n_granules;
        uint32_t granule_bits; /* at most DS_SECTORS_BITS_MAX */
        uint32_t n_channels;   /* at most DS_SECTORS_CHANNELS_MAX */
};

/* How much best effort is to have: channels, or a part of them. */
struct ds_sectors_share {
        uint32_t parts, of; /* of 0: parts is a number of channels */
};

struct ds_sectors_plan {
        struct ds_sectors_set be;
        uint32_t n_be;
        uint32_t sector_bits;
        uint32_t be_permille, ls_permille, lost_permille; /* of the labelled memory; they add up to 1000 */
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

/* How many of n channels a share is: at least one, and one is left. 0 or E_SHARE. */
int ds_sectors_count(struct ds_sectors_share share, uint32_t n_channels, uint32_t *ret);
/* "1/3", "15": 0 and the share, or -EINVAL. */
int ds_sectors_share_read(const char *text, struct ds_sectors_share *ret);

/* 0, E_LABELS, E_SHARE or -ENOMEM. min_bits: no smaller sectors (kernels cannot have them). */
int ds_sectors_plan(const struct ds_sectors_labels *labels, struct ds_sectors_share share, uint32_t min_bits,
        uint32_t lost_permille, struct ds_sectors_plan *ret);
/* The class of each sector, (n_granules << granule_bits) >> sector_bits of them, one byte each. */
void ds_sectors_classify(
        const struct ds_sectors_labels *labels, const struct ds_sectors_plan *plan, uint8_t *ret_classes);
