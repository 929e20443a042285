/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Model packs: the reader for the format of docs/pack.md
 *
 * Packs come from users, so the reader trusts nothing in them. A returned pack is within the format's limits and
 * consistent: every number is in range, every offset within its block, every reference has a target, inputs do not
 * overlap, buffers that share bytes of the arena have disjoint lifetimes, cases are complete, files have the manifest's
 * lengths. The bytes of a file are compared with their SHA-256 when they are read. model.h compares the parameters with
 * the kernels.
 *
 * Not checked: what kernels do. They may write anywhere that the GPU lets them.
 *
 *   pack_words.c   lines, words, numbers          pack.c       the manifest, line by line
 *   pack_whole.c   checks of the whole manifest   pack_file.c  the folder and its files
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "serve/why.h"
#include "util/sha256.h"

#define SV_PACK_VERSION 1u
#define SV_MANIFEST "pack.txt"
#define SV_MANIFEST_MAX ((uint64_t)64 << 20)
#define SV_MODULE_MAX ((uint64_t)256 << 20)
#define SV_BLOCK_MAX ((uint64_t)64 << 30) /* bytes of the arena, and of the weights */
#define SV_LINE_MAX 4096u
#define SV_NAME_MAX 128u
#define SV_DIMS_MAX 8u
#define SV_INPUTS_MAX 16u
#define SV_OUTPUTS_MAX 16u
#define SV_CASES_MAX 16u
#define SV_FILES_MAX 64u
#define SV_KERNELS_MAX 4096u
#define SV_LAUNCHES_MAX 65536u
#define SV_PARAMS_MAX 64u
#define SV_BUFFERS_MAX 65536u
#define SV_WEIGHTS_MAX 65536u
#define SV_THREADS_MAX 1024u
#define SV_SHARED_MAX (227u << 10)
#define SV_ALIGN 256u

enum sv_type {
        SV_F16,
        SV_F32,
        SV_I32,
        SV_I64,
        SV_U8,
};

enum sv_class {
        SV_LS,
        SV_BE,
};

struct sv_file {
        char name[SV_NAME_MAX + 1];
        uint64_t bytes;
        uint8_t sha256[DS_SHA256_BYTES];
};

struct sv_tensor {
        char name[SV_NAME_MAX + 1];
        enum sv_type type;
        uint32_t n_dims;
        uint64_t dims[SV_DIMS_MAX];
        uint64_t offset, bytes, n; /* offset in the arena; size in bytes; number of elements */
};

struct sv_kernel {
        char name[SV_NAME_MAX + 1];
        uint32_t threads, shared, n_params;
        /* the pack has x-writes for this kernel: a bit in `writes` for each parameter written through; the others
         * are only read */
        bool says_writes;
        uint64_t writes;
};

enum sv_param_kind {
        SV_PARAM_ARENA, /* 8 bytes: the address `value` bytes into the arena */
        SV_PARAM_WEIGHTS,
        SV_PARAM_4, /* the low 4 bytes of `value` */
        SV_PARAM_8, /* all 8 bytes of `value` */
};

struct sv_param {
        enum sv_param_kind kind;
        uint64_t value;
};

struct sv_launch {
        uint32_t kernel, grid[3];
        uint32_t first_param; /* index into the pack's params; their number is the kernel's */
        uint32_t has_cost;
        uint64_t flops, bytes;
};

struct sv_buffer {
        uint64_t offset, bytes;
        uint32_t first, last;
};

/* A constant tensor, from an x-weight line */
struct sv_weight {
        uint64_t offset, bytes;
};

struct sv_case {
        uint32_t input[SV_INPUTS_MAX], output[SV_OUTPUTS_MAX]; /* numbers of files */
        uint32_t has_input, has_output;                        /* only while reading: one bit each */
        double abs[SV_OUTPUTS_MAX], rel[SV_OUTPUTS_MAX];
};

struct sv_pack {
        char *path;  /* path of the folder, for messages */
        int folder;  /* -1: the manifest was read without a folder */
        int trusted; /* 1: the files' bytes are not compared with their hashes */
        char model[SV_NAME_MAX + 1], framework[SV_NAME_MAX + 1], compiler[SV_NAME_MAX + 1];
        enum sv_class class_;
        uint64_t batch;
        uint32_t arch;            /* 90 for sm_90 */
        uint32_t module, weights; /* numbers of files */
        uint64_t arena;
        uint32_t n_files, n_inputs, n_outputs, n_kernels, n_launches, n_params, n_buffers, n_weights, n_cases;
        struct sv_file files[SV_FILES_MAX];
        struct sv_tensor inputs[SV_INPUTS_MAX], outputs[SV_OUTPUTS_MAX];
        struct sv_case cases[SV_CASES_MAX];
        struct sv_kernel *kernels;
        struct sv_launch *launches;
        struct sv_param *params;
        struct sv_buffer *buffers;
        struct sv_weight *weights_list; /* by ascending offset, without overlap */
};

/* Opens a folder: reads its manifest, and checks that its files exist with the stated lengths. */
int sv_pack_open(const char *path, struct sv_pack **ret, struct sv_why *why);
/* Reads a manifest alone; name: its name in messages. */
int sv_pack_parse(const char *text, size_t size, const char *name, struct sv_pack **ret, struct sv_why *why);
/* NULL is allowed; returns NULL. */
struct sv_pack *sv_pack_free(struct sv_pack *pack);
void sv_pack_freep(struct sv_pack **pack);

/* Takes one piece of a file: 0, or -1 with a reason. */
typedef int (*sv_take)(void *user, const void *bytes, size_t size, struct sv_why *why);
/* Reads a whole file in order, in pieces of at most 1 MiB. The pieces are verified only when this returns 0. */
int sv_pack_read(const struct sv_pack *pack, uint32_t file, sv_take take, void *user, struct sv_why *why);
/* Loads a file into memory, followed by a NUL; free it with ds_free. */
int sv_pack_load(const struct sv_pack *pack, uint32_t file, uint8_t **ret, struct sv_why *why);
/* Compares every file's bytes with the manifest's hash. */
int sv_pack_verify(const struct sv_pack *pack, struct sv_why *why);

uint64_t sv_pack_input_bytes(const struct sv_pack *pack);
uint64_t sv_pack_output_bytes(const struct sv_pack *pack);
const char *sv_type_name(enum sv_type type);
uint32_t sv_type_bytes(enum sv_type type);

/* --- between the files of the reader --- */

#define SV_WORDS_MAX (6u + SV_PARAMS_MAX)

struct sv_reader {
        const char *name, *at, *end;
        uint32_t line;
        char buffer[SV_LINE_MAX + 1];
        const char *words[SV_WORDS_MAX];
        uint32_t n_words;
        uint32_t rooms[5]; /* allocated elements of kernels, launches, params, buffers, weights */
        struct sv_pack *pack;
        struct sv_why *why;
};

/* Reads the next line with content, split into words. 1: there is one, 0: end of file, -1: error. */
int sv_next_line(struct sv_reader *reader);
/* Writes "pack.txt, line 7, kernel: ..." to why. Returns -1. */
__attribute__((format(printf, 2, 3))) int sv_wrong(struct sv_reader *reader, const char *format, ...);
/* Parses word i, which messages call `field`. */
int sv_number(struct sv_reader *reader, uint32_t i, const char *field, uint64_t least, uint64_t most, uint64_t *ret);
int sv_name(struct sv_reader *reader, uint32_t i, const char *field, char ret[static SV_NAME_MAX + 1]);
int sv_fraction(struct sv_reader *reader, uint32_t i, const char *field, double *ret);
int sv_hash(struct sv_reader *reader, uint32_t i, const char *field, uint8_t ret[static DS_SHA256_BYTES]);
/* Parses all of the text as decimal digits without a sign. 0, or -1 without a message. */
int sv_digits(const char *text, uint64_t most, uint64_t *ret);
/* Checks properties of the whole manifest after reading. */
int sv_pack_whole(const struct sv_pack *pack, const char *name, struct sv_why *why);
