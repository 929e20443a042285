/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a whole file that the build made for a test
 */
#pragma once

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The result is malloc'ed. Fails the test if the file is missing. */
static inline uint8_t *read_file_of(const char *dir, const char *name, size_t *ret_size)
{
        char path[256];
        uint8_t *bytes;
        long size;
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s", dir, name);
        f = fopen(path, "rb");
        cr_assert_not_null(f, "%s is missing: build it with make", path);
        fseek(f, 0, SEEK_END);
        size = ftell(f);
        rewind(f);
        bytes = malloc((size_t)size);
        cr_assert_eq(fread(bytes, 1, (size_t)size, f), (size_t)size);
        fclose(f);
        *ret_size = (size_t)size;
        return bytes;
}
