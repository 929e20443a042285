/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 (FIPS 180-4)
 *
 * Makes names for contents that come from users: nobody can make two contents with one name. About 300 MB/s, so not for
 * large data.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DS_SHA256_BYTES 32

struct ds_sha256 {
        uint32_t state[8];
        uint64_t bytes;
        uint8_t block[64];
};

void ds_sha256_begin(struct ds_sha256 *sum);
void ds_sha256_add(struct ds_sha256 *sum, const void *bytes, size_t size);
void ds_sha256_end(struct ds_sha256 *sum, uint8_t ret[static DS_SHA256_BYTES]);
