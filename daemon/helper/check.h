/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check of one image: from untrusted bytes to a sealed file that the worker loads
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "util/macro.h"
#include "util/sha256.h"

/* Values of CUresult */
#define DS_CHECK_INVALID_VALUE 1
#define DS_CHECK_OUT_OF_MEMORY 2
#define DS_CHECK_INVALID_IMAGE 200
#define DS_CHECK_NO_BINARY 209
#define DS_CHECK_INVALID_PTX 218
#define DS_CHECK_NO_COMPILER 221
#define DS_CHECK_PTX_VERSION 222
#define DS_CHECK_INVALID_SOURCE 300
#define DS_CHECK_UNKNOWN 999

#define DS_CHECK_MESSAGE_MAX 16384
#define DS_CHECK_IMAGE_MAX ((uint64_t)256 << 20)

/* The way in which a result was obtained. */
enum ds_check_origin {
        DS_CHECK_READ,       /* the image was read, no compilation was necessary */
        DS_CHECK_KNOWN,      /* an image at the same place was read before */
        DS_CHECK_REMEMBERED, /* compiled before, found in this process's cache */
        DS_CHECK_STORED,     /* compiled before, found on disk */
        DS_CHECK_COMPILED,   /* compiled for this request */
        _DS_CHECK_ORIGIN_MAX,
};

struct ds_check_result {
        int status; /* 0, or a value of CUresult */
        int fd;     /* with status 0: memory file with all seals, owned by the caller; otherwise -1 */
        uint64_t bytes;
        /* bytes of the report that follows the image in the file (util/forms_file.h); 0: no transformed forms */
        uint64_t report_bytes;
        uint64_t hash;           /* XXH3 hash of the first `bytes` bytes of the file */
        uint64_t variable_bytes; /* bytes of device memory for the module's variables */
        enum ds_check_origin origin;
        int no_ptx;                         /* 1: ds_check_ptx() would find no PTX in the image; 0: not known */
        int damaged;                        /* 1: a file on disk was found to be damaged */
        uint8_t key[DS_SHA256_BYTES];       /* STORED, COMPILED: name of the file on disk */
        char message[DS_CHECK_MESSAGE_MAX]; /* the compiler's output when status is not 0 */
};

/* Location of an image: `bytes` bytes at `offset` of a file that the caller owns. */
struct ds_check_source {
        int fd;
        uint64_t offset, bytes;
        /* mapping of those bytes if nobody can change them (ds_check_map()); NULL: the check copies them first */
        const void *mapped;
};

/* Maps a memory file that has all seals and no holes; unmap it with munmap(). Returns NULL for any other file. */
void *ds_check_map(int fd, uint64_t offset, uint64_t bytes);

/*
 * Checks an image for a GPU of compute capability cc (like 90). any: the device executes PTX of any target (simulated).
 * Always fills *result; out of memory is also a result (CUDA_ERROR_OUT_OF_MEMORY).
 */
void ds_check_image(const struct ds_check_source *source, uint32_t cc, int any, struct ds_check_result *result);

/* Result of ds_check_machine(): PTX to compile for a real GPU. Zero-initialise it; free the text with ds_free(). */
struct ds_check_text {
        char *text;
        size_t length;
        char arch[16];                        /* target of ptxas, like sm_90a */
        uint32_t max_registers, optimization; /* options of the client as in ModuleLoad; 0: none */
        int relocatable;                      /* 1: to be linked, so names of other texts may be missing */
};

/*
 * Checks an image for a real GPU. Returns 0: *result is filled, with machine code for this GPU or an error. 1: there is
 * no machine code, and *ret is the text to compile. force_ptx: ignore machine code, as CUDA_FORCE_PTX_JIT requests.
 */
int ds_check_machine(const struct ds_check_source *source, uint32_t cc, int force_ptx, struct ds_check_result *result,
        struct ds_check_text *ret);
/*
 * Finds the PTX from which the image's code for this GPU was made. Returns 1 and *ret; 0: there is none, and *result
 * holds the reason.
 */
int ds_check_ptx(const struct ds_check_source *source, uint32_t cc, int force_ptx, struct ds_check_result *result,
        struct ds_check_text *ret);
/* Makes a result from a transformed image and its report, `size` bytes in all. */
void ds_check_forms(const void *bytes, size_t size, uint32_t cc, int simulated, struct ds_check_result *result);
/* Makes a result from machine code, if this GPU can run it. origin: where the code comes from, for the message. */
void ds_check_cubin(const void *bytes, size_t size, uint32_t cc, const char *origin, struct ds_check_result *result);
/* Makes a result from the output of a link: PTX text, a fatbin, or machine code. */
void ds_check_linked(const void *bytes, size_t size, uint32_t cc, struct ds_check_result *result);
void ds_check_fail(struct ds_check_result *result, int status, const char *fmt, ...) ds_printf(3, 4);
