/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SGDRC paper's way to find channels: banks of VRAM, then sets of L2, then marks
 *
 *  1. Two addresses that are in different rows of one bank take longer to read one right behind the other, when L2 has
 *     neither. They share a channel. From one address on, such addresses are collected.
 *  2. Of those that were collected, so many as are needed to throw any line of the channel out of L2: found by binary
 *     search with lines that were held back.
 *  3. An address is of the channel if reading those throws it out of L2.
 *
 * What of it is ours: memory is looked at in KiB, which the paper found to be of one channel; an address counts as
 * collected after four readings; whether L2 outlives a launch is measured, and it is refreshed only if it does.
 *
 * It takes minutes where contention (label.h) takes seconds, and it needs times of single reads that a GPU gives only
 * while nobody else uses it. It stands here to be compared with.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lut/probe/bench.h"

#define DS_PAPER_KIB 1024u
#define DS_PAPER_NONE 255u
#define DS_PAPER_CHANNELS_MAX 64u

/* Contract: times of hits and misses, or of banks, are of one kind; or memory ends before a channel is full */
#define DS_PAPER_E_BLIND 5
#define DS_PAPER_E_MEMORY 6

typedef struct ds_paper ds_paper;

struct ds_paper_found {
        double hit, miss, apart, conflict; /* clocks: one read from L2, from VRAM; two reads of two banks, of one */
        int survives;                      /* 1: L2 outlives a launch */
        uint32_t collected, needed;        /* of the last channel: KiB that were collected; lines that fill its L2 */
        uint64_t readings;                 /* timed ones */
};

/* Pages that it needs beside those that are to be marked. */
size_t ds_paper_pages(const struct ds_device_info *info);
/* Takes all pages of the bench from `first` on for itself. 0, DS_PAPER_E_BLIND, or a negative errno. */
int ds_paper_new(ds_bench *bench, size_t n_pages, size_t first, uint64_t seed, ds_paper **ret);
ds_paper *ds_paper_free(ds_paper *paper);

/* Which of n KiB, by address, are of the channel of the KiB at `of`: marks[i] = 1. 0, E_MEMORY, or a negative errno. */
int ds_paper_mark(ds_paper *paper, uint64_t of, const uint64_t *kib, size_t n, uint8_t *marks);
/*
 * The channel of each of n KiB, numbered as found, at most `most` of them; DS_PAPER_NONE where none marked it. Returns
 * as ds_paper_mark.
 */
int ds_paper_label(
        ds_paper *paper, const uint64_t *kib, size_t n, uint32_t most, uint8_t *labels, uint32_t *ret_channels);
const struct ds_paper_found *ds_paper_found(const ds_paper *paper);

static inline void ds_paper_freep(ds_paper **p)
{
        *p = ds_paper_free(*p);
}
