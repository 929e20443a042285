/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies past the caches: any length, between any two alignments, and not a byte more
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/uncached.c"

#define ROOM 4096u

/* The destination lies at this offset in memory of `before`, and all other bytes keep it. */
static void copies(const uint8_t *from, size_t offset, size_t n, uint8_t before)
{
        static uint8_t got[ROOM], expected[ROOM];
        memset(got, before, ROOM);
        memset(expected, before, ROOM);
        memcpy(expected + offset, from, n);
        dsc__copy_uncached(got + offset, from, n, n % 2);
        cr_assert_arr_eq(got, expected, ROOM, "%zu bytes to offset %zu", n, offset);
}

Test(core_uncached, copies_any_length_between_any_alignments, .timeout = 60)
{
        static uint8_t from[ROOM];
        for (size_t i = 0; i < ROOM; i++)
                from[i] = (uint8_t)(i * 31 + i / 256);
        for (size_t n = 0; n < 300; n++)
                for (size_t offset = 0; offset < 70; offset += 3)
                        copies(from + n % 67, offset, n, (uint8_t)n);
        unsigned seed = 1;
        for (int i = 0; i < 2000; i++) {
                const size_t offset = (size_t)rand_r(&seed) % 200, skip = (size_t)rand_r(&seed) % 200;
                copies(from + skip, offset, (size_t)rand_r(&seed) % (ROOM - 200), (uint8_t)i);
        }
}
