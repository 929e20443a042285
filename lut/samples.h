/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of VRAM channels: what a probe has measured, on its way to the learner
 *
 * A file is a header and blocks that are only ever appended: each is a page, or a part of one, with a checksum. A block
 * that was cut off at any byte is no block: opening the file to append takes it away, reading the file ignores it. So a
 * probe that was ended goes on where it was. What is damaged with more behind it than a block is not appended to.
 *
 * A sample is a *unit* of a page (2^unit_bits bytes, what the probe measures one by one; the true granule may be larger
 * and is the learner's to find) and a label. Labels are names of channels that are consistent within a *run*; the next
 * run may name channels differently, and on a GPU its pages are other ones. Addresses are as kernels see them; whether
 * the bits above the page mean anything is not known here.
 *
 * Numbers are little endian. The file is the probe's own work and small; still its reader believes no length in it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DS_LUT_SAMPLES_VERSION 1
#define DS_LUT_SAMPLES_MAGIC "DSSAMPL\n" /* a file's first eight bytes */
#define DS_LUT_SAMPLE_UNKNOWN 0xff       /* measured, and still doubtful */

/* contract */
#define DS_LUT_SAMPLES_E_REFUSED 1 /* no file of samples, damaged, of another version, or of another device */

/* What all blocks of a file have in common. */
struct ds_lut_about {
        char device[64];    /* the model's name as the driver gives it, or "sim:MODEL" */
        char driver[32];    /* its version, "" when there is none */
        uint32_t source;    /* enum ds_lut_source of lut/table.h */
        uint32_t unit_bits; /* at least 5, at most page_bits */
        uint32_t page_bits; /* 21 */
        uint32_t bus_bits;  /* width of the memory's bus as the driver has it, 0 when it does not say */
};

struct ds_lut_sample {
        uint32_t unit; /* below 2^(page_bits - unit_bits) */
        uint8_t label; /* or DS_LUT_SAMPLE_UNKNOWN */
};

struct ds_lut_block {
        uint64_t address; /* of the page, a multiple of its size */
        uint32_t run;     /* labels of one run are consistent */
        uint32_t n;
        struct ds_lut_sample *samples; /* in a struct ds_lut_samples: owned by that */
};

struct ds_lut_samples {
        struct ds_lut_about about;
        struct ds_lut_block *blocks;
        size_t n_blocks;
        uint64_t n_samples; /* of all blocks, doubtful ones too */
        uint32_t next_run;  /* a number that no block has */
        uint64_t torn;      /* bytes at the end that are no block */
};

/* All blocks of a file. 0; DS_LUT_SAMPLES_E_REFUSED with the reason in why; negative errno. Free with the next. */
int ds_lut_samples_read(const char *path, struct ds_lut_samples **ret, char *why, size_t size);
struct ds_lut_samples *ds_lut_samples_free(struct ds_lut_samples *samples);

/* Appending. The file is made when it is not there; one that is must have the same `about`. What was torn is taken
 * away. One writer at a time: a second one is refused. */
struct ds_lut_writer;
int ds_lut_writer_open(
        const char *path, const struct ds_lut_about *about, struct ds_lut_writer **ret, char *why, size_t size);
/* One block, written in one go and given to the disk when it is closed; -EFBIG beyond what the reader takes. */
int ds_lut_writer_put(struct ds_lut_writer *writer, const struct ds_lut_block *block);
/* fsync and close; NULL is fine. */
int ds_lut_writer_close(struct ds_lut_writer *writer);
