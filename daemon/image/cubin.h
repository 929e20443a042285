/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a cubin says of itself
 *
 * A cubin is an ELF file for NVIDIA's machine: a section of code per kernel, sections of variables, symbols. This reads
 * what the daemon must know before and beside loading it. The bytes may come from a client: everything is checked, and
 * nothing is written.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ds_cubin {
        uint32_t cc;     /* 90 for sm_90 */
        uint32_t family; /* 1: architecture-specific (sm_90a): runs on exactly this cc */
        uint32_t n_kernels;
        uint32_t
                has_globals; /* writable __device__ or __constant__ variables, the compiler's own strings not counted */
        uint32_t prints;     /* refers to vprintf */
        uint32_t asserts;    /* refers to __assertfail */
        uint32_t mallocs;    /* refers to the device heap */
        uint64_t variable_bytes; /* of the GPU's memory, beside the code */
        uint64_t size;           /* of the ELF file proper; the image may be longer */
};

#define DS_CUBIN_E_NOT 1 /* not a cubin, or a damaged one */

/* 1 when the bytes begin like a cubin. */
int ds_cubin_is(const void *image, size_t size);
/* 0 or DS_CUBIN_E_NOT. */
int ds_cubin_read(const void *image, size_t size, struct ds_cubin *ret);
/* Why ds_cubin_read refuses it, as half a sentence: "a section lies outside of the file"; NULL when it does not. */
const char *ds_cubin_why(const void *image, size_t size);
/* 1 when a GPU of this compute capability (90) can run it. */
int ds_cubin_runs_on(const struct ds_cubin *cubin, uint32_t cc);
