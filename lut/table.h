/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of VRAM channels: the channel of each granule of a page
 *
 * A GPU distributes memory over its channels by a hash of the physical address. Memory comes in pages of 2 MiB whose
 * low 21 bits are physical; the higher bits are unknown and enter the hash as a few constants. So every page of a GPU
 * has one of a bounded number of *patterns*, and a few probes of a page (its *signature*) determine which. No physical
 * address and no privilege is needed. A table holds all patterns of one GPU model, in one of these forms:
 *
 * - MODULUS: parities of address bits, combined with a number modulo m. A x ^ c gives some bits and some digits, and the
 *   digits' weights are added modulo m (A a matrix over GF(2), x the granule's number, c the page's constant). Hashes
 *   of XORs only are the case m = 1.
 * - PLACES: the same with any m, and any map from parities and sums to channels.
 * - XOR: the channel is the entry of table t at A x ^ c: any function of parities, in a few variants.
 * - CONGRUENCE: the channel is slot (u k + v) mod T of one sequence, where k is the number of the step in the page (a
 *   step is a few granules), and u and v belong to the page.
 *
 * The reader does not trust the file: it checks lengths, ranges and a checksum before use, and a refusal comes with a
 * sentence. A table can still be wrong for the GPU at hand (another board lacks another channel). So its user aligns it
 * with a few fully probed pages, and probes pages that match no pattern in full.
 *
 * Channel numbers are names. Two runs of a probe name the same channels differently; ds_lut_align() finds the table's
 * channel for each name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DS_LUT_VERSION 1
#define DS_LUT_CHANNELS_MAX 128
#define DS_LUT_UNKNOWN 0xff /* channel of a granule that is not known */
#define DS_LUT_PROBES_MAX 256
#define DS_LUT_LEARNT_MAX INT64_C(253402300799) /* last second of the year 9999 */

/* contract codes */
#define DS_LUT_E_REFUSED 1    /* no such file, or not a valid table: damaged, truncated, of another version or model */
#define DS_LUT_E_NO_PATTERN 2 /* the page's probes match no pattern of the table, or more than one */

enum ds_lut_source {
        DS_LUT_MEASURED = 1,  /* measured on a GPU */
        DS_LUT_SIMULATED = 2, /* measured on a simulated device, whose hash is invented: useless on a GPU */
};

enum ds_lut_form {
        DS_LUT_XOR = 1,
        DS_LUT_CONGRUENCE = 2,
        DS_LUT_MODULUS = 3,
        DS_LUT_PLACES = 4,
};

/* Properties of a table. Strings live as long as the table. */
struct ds_lut_facts {
        const char *model;   /* device name from the driver, like "NVIDIA H200", or "sim:p40" */
        const char *driver;  /* driver version during the measurement */
        const char *learner; /* program, version and method */
        enum ds_lut_source source;
        enum ds_lut_form form;
        unsigned granule_bits; /* a granule, the smallest piece of one channel, has 2^granule_bits bytes */
        unsigned page_bits;    /* log2 of a page's bytes: 21 */
        unsigned channels;
        uint32_t patterns;   /* number of patterns that a page may have */
        uint32_t samples;    /* granules used for learning */
        uint32_t held_out;   /* granules withheld from the learner, for the test */
        uint32_t held_right; /* withheld granules that it predicted correctly from the pages' signatures */
        int64_t learnt_at;   /* seconds since 1970 */
};

/* A measured granule of a page: offset in bytes from the page's beginning, and channel */
struct ds_lut_probe {
        uint32_t offset;
        uint8_t channel;
};

struct ds_lut;

/* Reads and checks a table. model: the required device; NULL: any. Returns 0; DS_LUT_E_REFUSED with the reason in
 * why (a sentence without full stop, at most size bytes); or a negative errno. The caller owns *ret. */
int ds_lut_open(const char *path, const char *model, struct ds_lut **ret, char *why, size_t size);
/* Same as ds_lut_open(), with a path relative to an open directory. */
int ds_lut_open_at(int directory, const char *path, const char *model, struct ds_lut **ret, char *why, size_t size);
/* Same as ds_lut_open(), with the file's bytes in memory; the function copies them. */
int ds_lut_parse(const void *bytes, size_t n, const char *model, struct ds_lut **ret, char *why, size_t size);
/* Frees a table; NULL is allowed. Returns NULL. */
struct ds_lut *ds_lut_free(struct ds_lut *lut);

const struct ds_lut_facts *ds_lut_facts(const struct ds_lut *lut);

/* Offsets (bytes) of the granules whose channels distinguish all patterns of the table, even if a few are measured
 * wrong. */
size_t ds_lut_signature(const struct ds_lut *lut, const uint32_t **ret_offsets);
/* Finds the pattern of a page from n measured granules, with channels in the table's numbers; at most
 * DS_LUT_PROBES_MAX. Tolerates a few wrong granules if no other pattern is as close. Returns 0 or
 * DS_LUT_E_NO_PATTERN. */
int ds_lut_match(const struct ds_lut *lut, const struct ds_lut_probe *probes, size_t n, uint32_t *ret_pattern);
/* The channel of the granule at offset bytes of a page with this pattern; pattern < facts->patterns. */
uint32_t ds_lut_channel(const struct ds_lut *lut, uint32_t pattern, uint32_t offset);
/* Channels of all granules of a page with this pattern: 2^(page_bits - granule_bits) bytes, one channel each. */
void ds_lut_page(const struct ds_lut *lut, uint32_t pattern, uint8_t *ret_channels);

/* Finds the table's channel for each name of a measurement. pages: fully measured pages (channels[i] of n_granules
 * granules of the table's size, DS_LUT_UNKNOWN if not known), with names below DS_LUT_CHANNELS_MAX.
 * ret_names[DS_LUT_CHANNELS_MAX]: the table's channel for each name, DS_LUT_UNKNOWN for names that do not occur. One
 * page mostly suffices, two to four are safe. 0; DS_LUT_E_NO_PATTERN: the table does not describe these pages (it is
 * of another board); negative errno. */
int ds_lut_align(const struct ds_lut *lut, const uint8_t *const *pages, size_t n_pages, uint8_t *ret_names);
