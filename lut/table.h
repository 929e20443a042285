/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of VRAM channels: which channel each granule of a page belongs to
 *
 * A GPU spreads memory over its channels by a hash of the physical address. Memory comes in pages of 2 MiB whose low 21
 * bits are the physical ones; the bits above are unknown, and enter the hash as a few constants. So all pages of a GPU
 * have one of a bounded number of *patterns*, and a few probes of a page (its *signature*) say which: no physical
 * address is needed, and no privilege. A table holds the family of patterns of one GPU model, in a form that is known:
 *
 * - MODULUS: parities of address bits, joined with a number modulo m. A x ^ c gives some bits and some digits, and the
 *   digits' weights are added modulo m (A a matrix over GF(2), x the granule's number, c the page's constant). Hashes
 *   that are XORs and nothing else are the case m = 1.
 * - PLACES: the same with m of any kind, and any map from parities and sums to channels.
 * - XOR: the channel is what table t has at A x ^ c: any function at all of parities, in a few variants.
 * - CONGRUENCE: the channel is slot (u k + v) mod T of one sequence, k the number of the step in the page (a step is
 *   a few granules), u and v the page's.
 *
 * The reader trusts nothing in the file: lengths, ranges and a checksum are looked at before anything is used, and what
 * is refused is refused with a sentence. A table can still be wrong for the GPU at hand (another board misses another
 * channel): whoever uses one aligns it with a few pages that were probed in full, and falls back to probing in full for
 * pages that match no pattern.
 *
 * Channels' numbers are names. Two runs of a probe name the same channels differently: ds_lut_align finds which name is
 * which channel of the table.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DS_LUT_VERSION 1
#define DS_LUT_CHANNELS_MAX 128
#define DS_LUT_UNKNOWN 0xff /* a granule's channel that nobody knows */
#define DS_LUT_PROBES_MAX 256
#define DS_LUT_LEARNT_MAX INT64_C(253402300799) /* the last second of the year 9999 */

/* contract: what callers of the functions below handle */
#define DS_LUT_E_REFUSED 1    /* no such file, or no table: damaged, truncated, of another version or model */
#define DS_LUT_E_NO_PATTERN 2 /* the page's probes match no pattern of the table, or no single one */

enum ds_lut_source {
        DS_LUT_MEASURED = 1,  /* on a GPU */
        DS_LUT_SIMULATED = 2, /* on the simulated device, whose hashes are inventions: of no use on a GPU */
};

enum ds_lut_form {
        DS_LUT_XOR = 1,
        DS_LUT_CONGRUENCE = 2,
        DS_LUT_MODULUS = 3,
        DS_LUT_PLACES = 4,
};

/* What a table says of itself. Strings live as long as the table. */
struct ds_lut_facts {
        const char *model;   /* the device's name as the driver gives it, e.g. "NVIDIA H200" or "sim:p40" */
        const char *driver;  /* under which it was measured */
        const char *learner; /* program and version, and how it was found */
        enum ds_lut_source source;
        enum ds_lut_form form;
        unsigned granule_bits; /* the least piece of one channel is 2^granule_bits bytes */
        unsigned page_bits;    /* a pattern's reach: 21 */
        unsigned channels;
        uint32_t patterns;   /* how many pages can have */
        uint32_t samples;    /* granules it was learnt from */
        uint32_t held_out;   /* granules that the learner was not shown */
        uint32_t held_right; /* and how many of these it told, given the signatures of their pages */
        int64_t learnt_at;   /* seconds since 1970 */
};

/* One granule of a page that was measured: where (bytes from the page's beginning) and which channel */
struct ds_lut_probe {
        uint32_t offset;
        uint8_t channel;
};

struct ds_lut;

/* Reads and checks a table. model: the device that it must be for, NULL for any. 0; DS_LUT_E_REFUSED with the reason in
 * why (a sentence without full stop, at most size bytes); negative errno. The caller owns *ret. */
int ds_lut_open(const char *path, const char *model, struct ds_lut **ret, char *why, size_t size);
/* The same of a path that begins at a directory that is open. */
int ds_lut_open_at(int directory, const char *path, const char *model, struct ds_lut **ret, char *why, size_t size);
/* The same of bytes in memory, which are copied. */
int ds_lut_parse(const void *bytes, size_t n, const char *model, struct ds_lut **ret, char *why, size_t size);
/* NULL is fine; returns NULL. */
struct ds_lut *ds_lut_free(struct ds_lut *lut);

const struct ds_lut_facts *ds_lut_facts(const struct ds_lut *lut);

/* The offsets (bytes) whose channels tell all patterns of the table apart, also when a few of them are measured wrong.
 */
size_t ds_lut_signature(const struct ds_lut *lut, const uint32_t **ret_offsets);
/* The pattern of a page of which n granules were measured, in the table's channels; at most DS_LUT_PROBES_MAX. A few
 * wrong ones are forgiven as far as no other pattern is as near. 0 or DS_LUT_E_NO_PATTERN. */
int ds_lut_match(const struct ds_lut *lut, const struct ds_lut_probe *probes, size_t n, uint32_t *ret_pattern);
/* The channel of the granule at offset bytes of a page with this pattern; pattern < facts->patterns. */
uint32_t ds_lut_channel(const struct ds_lut *lut, uint32_t pattern, uint32_t offset);
/* All granules of such a page: 2^(page_bits - granule_bits) bytes, one channel each. */
void ds_lut_page(const struct ds_lut *lut, uint32_t pattern, uint8_t *ret_channels);

/* Names for channels: pages that were measured in full (channels[i] of n_granules granules of the table's size,
 * DS_LUT_UNKNOWN where nobody knows), in names of the measurement's own below DS_LUT_CHANNELS_MAX.
 * ret_names[DS_LUT_CHANNELS_MAX]: the table's channel for each name, DS_LUT_UNKNOWN for names that do not occur. One
 * page does in most cases, two to four are safe. 0; DS_LUT_E_NO_PATTERN when the table does not describe these pages
 * (it is of another board); negative errno. */
int ds_lut_align(const struct ds_lut *lut, const uint8_t *const *pages, size_t n_pages, uint8_t *ret_names);
