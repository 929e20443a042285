/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The properties of a cubin
 *
 * A cubin is an ELF file for NVIDIA's machine: a section of code per kernel, sections of variables, and symbols. This
 * module reads the properties that the daemon must know before loading it. The bytes may come from a client: everything
 * is checked, and nothing is written.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ds_cubin {
        uint32_t cc;     /* compute capability: 90 for sm_90 */
        uint32_t family; /* 1: architecture-specific (sm_90a): runs on exactly this cc */
        uint32_t n_kernels;
        uint32_t has_globals;    /* writable __device__ or __constant__ variables, except the compiler's own strings */
        uint32_t prints;         /* 1: the code refers to vprintf */
        uint32_t asserts;        /* 1: the code refers to __assertfail */
        uint32_t mallocs;        /* 1: the code refers to the device heap */
        uint64_t variable_bytes; /* GPU memory beside the code, bytes */
        uint64_t size;           /* size of the ELF file itself, bytes; the image may be longer */
};

#define DS_CUBIN_E_NOT 1 /* the bytes are not a cubin, or a damaged one */

/* Whether the bytes begin like a cubin. */
int ds_cubin_is(const void *image, size_t size);
/* Reads the properties of a cubin. Returns 0 or DS_CUBIN_E_NOT. */
int ds_cubin_read(const void *image, size_t size, struct ds_cubin *ret);
/* The reason why ds_cubin_read() refuses the image, as a clause: "a section lies outside of the file". NULL if it
 * accepts the image. */
const char *ds_cubin_why(const void *image, size_t size);
/* Whether a GPU of this compute capability (90) can run the cubin. */
int ds_cubin_runs_on(const struct ds_cubin *cubin, uint32_t cc);
