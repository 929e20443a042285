/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of compiled code: one per source text, compiler and options, in one directory
 *
 * A file's name is the SHA-256 of everything that determines the compiler's output. So nobody can pass off other code
 * as the result of a text. The file repeats the name and has the SHA-256 of the code itself; a truncated or damaged
 * file is rejected. Files are written under a temporary name and renamed, so a name never refers to an incomplete file.
 * Everybody who can write to the directory is trusted. The files are readable for everybody who can reach them, so the
 * directory above must restrict access.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "util/sha256.h"

#define DS_CODE_NAME_MAX (2 * DS_SHA256_BYTES + 8) /* size of a file's name: hexadecimal digits, ".code", NUL */
#define DS_CODE_FILE_HEADER (16 + 2 * DS_SHA256_BYTES)

/* Positive return codes of the functions below */
#define DS_CODE_FILE_E_NONE 1    /* there is no such file, or it cannot be opened */
#define DS_CODE_FILE_E_DAMAGED 2 /* the file is damaged, or others can write to it */

void ds_code_file_name(const uint8_t key[static DS_SHA256_BYTES], char ret[static DS_CODE_NAME_MAX]);
/* Whether the name has the form that ds_code_file_name() writes. */
int ds_code_file_is_name(const char *name);
/* Reads the code, which the caller frees with ds_free(). owner: uid that may own the file, beside root. Returns 0,
 * NONE, DAMAGED, or -ENOMEM. */
int ds_code_file_read(int directory, const uint8_t key[static DS_SHA256_BYTES], uint32_t owner, uint64_t max,
        void **ret_code, size_t *ret_size);
/* Stores the contents of the sealed memory file `code`. Returns 0 or a negative errno; *ret_bytes: size of the file. */
int ds_code_file_write(
        int directory, const uint8_t key[static DS_SHA256_BYTES], int code, uint64_t size, uint64_t *ret_bytes);
