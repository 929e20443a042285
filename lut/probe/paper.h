/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SGDRC paper's method to find channels: banks of VRAM, then sets of L2, then marks
 *
 *  1. Two addresses in different rows of one bank take longer to read one after the other, if L2 has neither. They share
 *     a channel. Such addresses are collected for a given first address.
 *  2. The number of collected addresses that evicts any line of the channel from L2 is found by binary search, with
 *     lines that were held back.
 *  3. An address belongs to the channel if reading those addresses evicts it from L2.
 *
 * Details of this implementation: memory is examined in KiB, which the paper found to belong to one channel; an address
 * is collected after four positive readings; whether L2 contents survive a launch is measured, and L2 is refreshed only
 * then.
 *
 * The method takes minutes where contention (label.h) takes seconds, and it needs times of single reads, which a GPU
 * provides only without other work. It serves as a comparison.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lut/probe/bench.h"

#define DS_PAPER_KIB 1024u
#define DS_PAPER_NONE 255u
#define DS_PAPER_CHANNELS_MAX 64u

/* Contract codes. BLIND: times of hits and misses, or of different banks and one bank, cannot be separated. MEMORY:
 * memory ends before a channel is full. */
#define DS_PAPER_E_BLIND 5
#define DS_PAPER_E_MEMORY 6

typedef struct ds_paper ds_paper;

struct ds_paper_found {
        /* mean times, clocks: of a read from L2 and from VRAM; of two reads of different banks and of one bank */
        double hit, miss, apart, conflict;
        int survives;               /* 1: L2 contents survive a launch */
        uint32_t collected, needed; /* last channel: KiB collected; lines that fill the channel's part of L2 */
        uint64_t readings;          /* number of timed readings */
};

/* Number of pages that the method needs in addition to the pages to be marked. */
size_t ds_paper_pages(const struct ds_device_info *info);
/* Makes a run of the method that uses all pages of the bench from index `first` on. Returns 0, DS_PAPER_E_BLIND, or
 * a negative errno. */
int ds_paper_new(ds_bench *bench, size_t n_pages, size_t first, uint64_t seed, ds_paper **ret);
ds_paper *ds_paper_free(ds_paper *paper);

/* Marks which of n KiB, by address, belong to the channel of the KiB at `of`: marks[i] = 1. 0, DS_PAPER_E_MEMORY, or
 * a negative errno. */
int ds_paper_mark(ds_paper *paper, uint64_t of, const uint64_t *kib, size_t n, uint8_t *marks);
/*
 * Labels n KiB with their channels, numbered in the order in which they are found, at most `most`; DS_PAPER_NONE for
 * KiB of no found channel. Returns the same results as ds_paper_mark().
 */
int ds_paper_label(
        ds_paper *paper, const uint64_t *kib, size_t n, uint32_t most, uint8_t *labels, uint32_t *ret_channels);
const struct ds_paper_found *ds_paper_found(const ds_paper *paper);

static inline void ds_paper_freep(ds_paper **p)
{
        *p = ds_paper_free(*p);
}
