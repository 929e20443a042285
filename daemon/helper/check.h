/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One image checked: from bytes nobody trusts to a sealed file that the worker loads
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "util/macro.h"
#include "util/sha256.h"

/* CUresult */
#define DS_CHECK_INVALID_VALUE 1
#define DS_CHECK_OUT_OF_MEMORY 2
#define DS_CHECK_INVALID_IMAGE 200
#define DS_CHECK_NO_BINARY 209
#define DS_CHECK_INVALID_PTX 218
#define DS_CHECK_NO_COMPILER 221
#define DS_CHECK_PTX_VERSION 222

#define DS_CHECK_MESSAGE_MAX 16384
#define DS_CHECK_IMAGE_MAX ((uint64_t)256 << 20)

/* How it was come by. */
enum ds_check_origin {
        DS_CHECK_READ,       /* the image was read, nothing had to be compiled */
        DS_CHECK_KNOWN,      /* the same file's image was read before */
        DS_CHECK_REMEMBERED, /* it was compiled before, by this process */
        DS_CHECK_STORED,     /* it was compiled before: a file has it */
        DS_CHECK_COMPILED,   /* now */
        _DS_CHECK_ORIGIN_MAX,
};

struct ds_check_result {
        int status; /* 0 or CUresult */
        int fd;     /* status 0: memory file with all seals, the caller's; else -1 */
        uint64_t bytes;
        uint64_t report_bytes; /* behind them in the file: util/forms_file.h; 0: the image is as its author wrote it */
        uint64_t hash;         /* XXH3 of those bytes */
        uint64_t variable_bytes; /* device memory that it takes beside its code */
        enum ds_check_origin origin;
        int damaged;                        /* a file should have had it, but was damaged */
        uint8_t key[DS_SHA256_BYTES];       /* STORED, COMPILED: the file's name */
        char message[DS_CHECK_MESSAGE_MAX]; /* the compiler's words when status is not 0 */
};

/* Where an image lies: `bytes` bytes from `offset` on of a file, which stays the caller's. */
struct ds_check_source {
        int fd;
        uint64_t offset, bytes;
        const void *mapped; /* those bytes if nobody can change them (ds_check_map), else NULL: they are copied first */
};

/* A memory file sealed against every change, with all of its pages: its bytes, for munmap; NULL for any other. */
void *ds_check_map(int fd, uint64_t offset, uint64_t bytes);

/*
 * Check an image for a GPU of compute capability cc (90). any: the device
 * executes PTX of any target (simulated). Always fills *result; out of memory is a result too (CUDA's 2).
 */
void ds_check_image(const struct ds_check_source *source, uint32_t cc, int any, struct ds_check_result *result);

/* PTX that must be compiled before a GPU can run it. Zero-initialised; the text is freed with ds_free. */
struct ds_check_text {
        char *text;
        size_t length;
        char arch[16];                        /* what ptxas is to make of it: sm_90a */
        uint32_t max_registers, optimization; /* what the client wants of it, as in ModuleLoad; 0: nothing */
};

/*
 * As ds_check_image for a GPU of silicon. Machine code that it runs is a result at once. 1: there is none, *ret is what
 * the compiler must make of it; 0: *result is filled. force_ptx: as if there were no machine
 * code, as CUDA_FORCE_PTX_JIT says.
 */
int ds_check_machine(const struct ds_check_source *source, uint32_t cc, int force_ptx, struct ds_check_result *result,
        struct ds_check_text *ret);
/*
 * The PTX that the image's code for this GPU is made from, or is. 1 with *ret; 0: there is none, and *result says so.
 */
int ds_check_ptx(const struct ds_check_source *source, uint32_t cc, int force_ptx, struct ds_check_result *result,
        struct ds_check_text *ret);
/* A transformed image and its report, `size` bytes in all, as a result. */
void ds_check_forms(const void *bytes, size_t size, uint32_t cc, int simulated, struct ds_check_result *result);
/* Machine code as a result, when this GPU runs it. origin: where it came from, for the message. */
void ds_check_cubin(const void *bytes, size_t size, uint32_t cc, const char *origin, struct ds_check_result *result);
void ds_check_fail(struct ds_check_result *result, int status, const char *fmt, ...) ds_printf(3, 4);
