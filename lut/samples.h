/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of VRAM channels: measurements of a probe, as input for the learner
 *
 * A file is a header and blocks that are only appended; a block is a page, or a part of one, with a checksum. Opening
 * the file to append removes a truncated last block; reading ignores it. So an interrupted probe continues where it
 * was. A file that is damaged in the middle is not appended to.
 *
 * A sample is a *unit* of a page (2^unit_bits bytes, the probe's unit of measurement; the true granule may be larger,
 * which the learner finds) and a label. Labels are names of channels, consistent within a *run*. Another run may name
 * channels differently, and on a GPU it has other pages. Addresses are virtual; whether the bits above the page have a
 * meaning is not known here.
 *
 * Numbers are little endian. Although the file is the probe's own and small, its reader does not trust any length in
 * it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DS_LUT_SAMPLES_VERSION 1
#define DS_LUT_SAMPLES_MAGIC "DSSAMPL\n" /* first eight bytes of a file */
#define DS_LUT_SAMPLE_UNKNOWN 0xff       /* label of a unit that was measured, but not decided */

/* contract */
#define DS_LUT_SAMPLES_E_REFUSED 1 /* the file has no samples, is damaged, or is of another version or device */

/* Properties common to all blocks of a file. */
struct ds_lut_about {
        char device[64];    /* model name from the driver, or "sim:MODEL" */
        char driver[32];    /* driver version, "" if there is none */
        uint32_t source;    /* enum ds_lut_source of lut/table.h */
        uint32_t unit_bits; /* at least 5, at most page_bits */
        uint32_t page_bits; /* 21 */
        uint32_t bus_bits;  /* width of the memory bus from the driver, 0: not known */
};

struct ds_lut_sample {
        uint32_t unit; /* below 2^(page_bits - unit_bits) */
        uint8_t label; /* number of the channel, or DS_LUT_SAMPLE_UNKNOWN */
};

struct ds_lut_block {
        uint64_t address; /* address of the page, a multiple of its size */
        uint32_t run;     /* number of the run; channel names are consistent within a run */
        uint32_t n;
        struct ds_lut_sample *samples; /* owned by the struct ds_lut_samples that contains the block, if any */
};

struct ds_lut_samples {
        struct ds_lut_about about;
        struct ds_lut_block *blocks;
        size_t n_blocks;
        uint64_t n_samples; /* samples of all blocks, including undecided ones */
        uint32_t next_run;  /* first unused run number */
        uint64_t torn;      /* bytes at the end of the file that are no complete block */
};

/* Reads all blocks of a file. 0; DS_LUT_SAMPLES_E_REFUSED with the reason in why; negative errno. Free the result
 * with ds_lut_samples_free(). */
int ds_lut_samples_read(const char *path, struct ds_lut_samples **ret, char *why, size_t size);
struct ds_lut_samples *ds_lut_samples_free(struct ds_lut_samples *samples);

/* Opens a file to append. A missing file is created; an existing one must have the same `about`. A truncated block
 * is removed. A second writer at the same time is refused. */
struct ds_lut_writer;
int ds_lut_writer_open(
        const char *path, const struct ds_lut_about *about, struct ds_lut_writer **ret, char *why, size_t size);
/* Writes one block with a single write; flushed to disk at the close. -EFBIG: larger than the reader accepts. */
int ds_lut_writer_put(struct ds_lut_writer *writer, const struct ds_lut_block *block);
/* Flushes the file to disk and closes it; NULL is allowed. */
int ds_lut_writer_close(struct ds_lut_writer *writer);
