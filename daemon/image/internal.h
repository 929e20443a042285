/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structures shared by the files of the image layer: an opened image and its entries
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "image/image.h"
#include "util/macro.h"

#define IMAGE_FLAG_LZ4 UINT64_C(0x2000)
#define IMAGE_FLAG_ZSTD UINT64_C(0x8000)
#define IMAGE_FLAG_LTO UINT64_C(0x10000)
#define IMAGE_FLAG_ARCH_SPECIFIC UINT64_C(0x100000)

struct image_entry {
        struct ds_image_entry public;
        uint64_t flags;
        const uint8_t *payload; /* payload of the entry, inside the caller's bytes */
        size_t packed;          /* bytes of the payload that matter; without padding if the size is known */
};

struct ds_image {
        struct image_entry *entries;
        size_t n_entries;
};

/* Writes the formatted message (message may be NULL) and returns code. */
int image_fail(int code, char *message, size_t message_size, const char *fmt, ...) ds_printf(4, 5);
