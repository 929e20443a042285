/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of compiled code: one per text, compiler and options, in one directory
 *
 * A file's name is the SHA-256 of all that decides what the compiler makes, so that nobody can have code taken for
 * what another text becomes. The file repeats that name and has the SHA-256 of the code itself: one that was cut off
 * or damaged is not believed. It is written beside and renamed, so there is never half a file under a name. Whoever may
 * write the directory is believed; the files are readable for whoever can reach them, so the directory above is closed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "util/sha256.h"

#define DS_CODE_NAME_MAX (2 * DS_SHA256_BYTES + 8) /* hexadecimal digits, ".code", NUL */
#define DS_CODE_FILE_HEADER (16 + 2 * DS_SHA256_BYTES)

/* Contract codes */
#define DS_CODE_FILE_E_NONE 1    /* there is no such file, or none that can be opened */
#define DS_CODE_FILE_E_DAMAGED 2 /* it is not what was written, or others may write it */

void ds_code_file_name(const uint8_t key[static DS_SHA256_BYTES], char ret[static DS_CODE_NAME_MAX]);
/* 1 when the name is one of ds_code_file_name. */
int ds_code_file_is_name(const char *name);
/* The code, for ds_free. owner: uid that may own the file beside root. 0, NONE, DAMAGED, or -ENOMEM. */
int ds_code_file_read(int directory, const uint8_t key[static DS_SHA256_BYTES], uint32_t owner, uint64_t max,
        void **ret_code, size_t *ret_size);
/* What lies in the sealed memory file `code`. 0 or -errno; *ret_bytes is what the file takes. */
int ds_code_file_write(
        int directory, const uint8_t key[static DS_SHA256_BYTES], int code, uint64_t size, uint64_t *ret_bytes);
