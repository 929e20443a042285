/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Malicious compressed entries in valid fatbins
 *
 * The container is right: magic, sizes, flags, one entry of PTX. The payload is made by hand: frames that expand to
 * much more than they declare, or to the maximum from a few kilobytes; many frames, skippable frames, no frame; a
 * window of gigabytes, a missing dictionary, a wrong checksum, truncated streams; LZ4 with lengths and offsets outside
 * of its data. Each is refused or expands to exactly its declared size, in bounded time and memory of this process.
 */
#include <criterion/criterion.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "image/image.h"
#include "util/alloc.h"
#include "util/macro.h"

#define ZSTD UINT64_C(0x8000)
#define LZ4 UINT64_C(0x2000)
#define PAYLOAD_MAX (16u << 20)
#define SECONDS 10.0
#define MEMORY_KB (400l << 10)

static uint8_t *image; /* a container, one entry, and its payload */
static uint8_t *payload;
static size_t n_payload;

static void begin(void)
{
        image = calloc(1, 16 + 64 + PAYLOAD_MAX);
        cr_assert(image);
        payload = image + 16 + 64;
        n_payload = 0;
}

static void put(size_t at, uint64_t value, size_t bytes)
{
        memcpy(image + at, &value, bytes);
}

/* Unpacks the payload as an entry of `declared` bytes. Returns the result of ds_image_ptx; *ret_length: bytes. */
static int unpack(uint64_t flags, uint64_t declared, size_t *ret_length)
{
        char message[200] = "", *text = NULL;
        struct timespec from, to;
        struct rusage usage;
        ds_image *opened = NULL;
        double took;
        int r;

        put(0, 0xBA55ED50u, 4);
        put(4, 1, 2);
        put(6, 16, 2);
        put(8, 64 + n_payload, 8);
        put(16, 1, 2); /* kind: PTX */
        put(20, 64, 4);
        put(24, n_payload, 8);
        put(32, n_payload, 4);
        put(44, 90, 4);
        put(56, flags, 8);
        put(72, declared, 8);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
        cr_assert_eq(ds_image_open(image, 16 + 64 + n_payload, message, sizeof(message), &opened), 0, "%s", message);
        r = ds_image_ptx(opened, 0, message, sizeof(message), &text, ret_length);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
        took = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
        cr_expect_lt(took, SECONDS, "%zu bytes took %.1f s", n_payload, took);
        getrusage(RUSAGE_SELF, &usage);
#ifndef __SANITIZE_ADDRESS__
        cr_expect_lt(usage.ru_maxrss, MEMORY_KB, "%zu bytes took %ld KiB", n_payload, usage.ru_maxrss);
#endif
        cr_expect_eq(r > 0, message[0] != 0, "%d: %s", r, message);
        ds_free(text);
        ds_image_free(opened);
        return r;
}

/* Appends one frame of n blanks to the payload. window_log 0: the library's choice */
static void add_frame(size_t n, int window_log, const char *dictionary)
{
        ZSTD_CCtx *context = ZSTD_createCCtx();
        char *blanks = malloc(n + 1);
        size_t size;

        cr_assert(context && blanks);
        memset(blanks, ' ', n);
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
        ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, !window_log);
        if (window_log)
                cr_assert(!ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log)));
        if (dictionary)
                ZSTD_CCtx_refPrefix(context, dictionary, strlen(dictionary));
        size = ZSTD_compress2(context, payload + n_payload, PAYLOAD_MAX - n_payload, blanks, n);
        cr_assert(!ZSTD_isError(size), "%s", ZSTD_getErrorName(size));
        n_payload += size;
        ZSTD_freeCCtx(context);
        free(blanks);
}

Test(image_bombs, zstd_as_large_as_it_may_be, .init = begin)
{
        size_t length;

        add_frame(DS_IMAGE_PTX_MAX, 0, NULL);
        cr_assert_lt(n_payload, 16384);
        cr_expect_eq(unpack(ZSTD, DS_IMAGE_PTX_MAX, &length), 0);
        cr_expect_eq(length, DS_IMAGE_PTX_MAX);
        cr_expect_eq(unpack(ZSTD, 100, &length), DS_IMAGE_E_INVALID, "more than it declares");
        cr_expect_eq(unpack(ZSTD, 0, &length), DS_IMAGE_E_INVALID);
        cr_expect_eq(unpack(ZSTD, DS_IMAGE_PTX_MAX - 1, &length), DS_IMAGE_E_INVALID);
        cr_expect_eq(unpack(ZSTD, DS_IMAGE_PTX_MAX + 1, &length), DS_IMAGE_E_TOO_LARGE);
        cr_expect_eq(unpack(ZSTD, UINT64_MAX, &length), DS_IMAGE_E_TOO_LARGE);
}

Test(image_bombs, zstd_in_frames, .init = begin)
{
        size_t length;

        add_frame(1000, 0, NULL);
        add_frame(500, 0, NULL);
        cr_expect_eq(unpack(ZSTD, 1500, &length), 0);
        cr_expect_eq(unpack(ZSTD, 1000, &length), DS_IMAGE_E_INVALID, "the second frame does not fit");
        /* skippable frames: one in between, one of 4 GiB that is missing, and nothing but skippable ones */
        n_payload += ZSTD_writeSkippableFrame(payload + n_payload, 100, "skipped", 7, 3);
        cr_expect_eq(unpack(ZSTD, 1500, &length), 0);
        memcpy(payload + n_payload, "\x50\x2a\x4d\x18\xff\xff\xff\xff", 8);
        n_payload += 8;
        cr_expect_eq(unpack(ZSTD, 1500, &length), DS_IMAGE_E_INVALID);
        n_payload = ZSTD_writeSkippableFrame(payload, 100, "skipped", 7, 0);
        cr_expect_eq(unpack(ZSTD, 1500, &length), DS_IMAGE_E_INVALID);
}

Test(image_bombs, zstd_in_a_million_frames, .init = begin)
{
        size_t length, one;

        add_frame(0, 0, NULL);
        one = n_payload;
        while (n_payload + one < PAYLOAD_MAX) {
                memcpy(payload + n_payload, payload, one);
                n_payload += one;
        }
        cr_assert_gt(n_payload / one, 1000000);
        cr_expect_eq(unpack(ZSTD, 1, &length), DS_IMAGE_E_INVALID);
        cr_expect_eq(unpack(ZSTD, 0, &length), 0);
        for (n_payload = 0; n_payload + 8 < PAYLOAD_MAX; n_payload += 8)
                memcpy(payload + n_payload, "\x50\x2a\x4d\x18\0\0\0\0", 8);
        cr_expect_eq(unpack(ZSTD, 1, &length), DS_IMAGE_E_INVALID);
}

Test(image_bombs, zstd_headers, .init = begin)
{
        size_t length;

        /* a frame with a window of 2 GiB, which a streaming decoder would allocate */
        add_frame(3000, 12, NULL);
        cr_assert_eq(payload[4] & 0x20, 0, "a frame with a window");
        payload[5] = (31 - 10) << 3;
        (void)unpack(ZSTD, 3000, &length);
        payload[5] = 0xff;
        cr_expect_eq(unpack(ZSTD, 3000, &length), DS_IMAGE_E_INVALID, "a window of more than there can be");
        /* a frame with the number of a dictionary, and content that refers to the dictionary */
        n_payload = 0;
        add_frame(3000, 0, NULL);
        memmove(payload + 9, payload + 5, n_payload);
        memcpy(payload + 5, "\x01\x02\x03\x04", 4);
        payload[4] |= 3;
        n_payload += 4;
        cr_expect_eq(unpack(ZSTD, 3000, &length), DS_IMAGE_E_INVALID, "an unknown dictionary");
        n_payload = 0;
        add_frame(3000, 0, NULL);
        payload[n_payload - 1] ^= 1;
        cr_expect_eq(unpack(ZSTD, 3000, &length), DS_IMAGE_E_INVALID, "a wrong checksum");
        payload[n_payload - 1] ^= 1;
        payload[4] |= 8;
        cr_expect_eq(unpack(ZSTD, 3000, &length), DS_IMAGE_E_INVALID, "a reserved bit");
}

Test(image_bombs, zstd_cut_off, .init = begin)
{
        size_t length, whole;

        add_frame(100000, 0, NULL);
        whole = n_payload;
        for (n_payload = 1; n_payload < whole; n_payload++)
                cr_expect_eq(unpack(ZSTD, 100000, &length), DS_IMAGE_E_INVALID, "%zu of %zu", n_payload, whole);
}

Test(image_bombs, zstd_changed_by_chance, .init = begin)
{
        uint64_t state = 88172645463325252u;
        size_t length;

        add_frame(100000, 0, NULL);
        add_frame(70000, 17, NULL);
        for (int i = 0; i < 3000; i++) {
                uint8_t *at, was;

                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                at = payload + state % n_payload;
                was = *at;
                *at ^= (uint8_t)(1 + (state >> 32) % 255);
                cr_assert_geq(unpack(ZSTD, 170000, &length), 0);
                *at = was;
        }
}

Test(image_bombs, lz4, .init = begin)
{
        size_t length;
        char *blanks = malloc(DS_IMAGE_PTX_MAX);

        cr_assert(blanks);
        memset(blanks, ' ', DS_IMAGE_PTX_MAX);
        n_payload = (size_t)LZ4_compress_default(blanks, (char *)payload, (int)DS_IMAGE_PTX_MAX, (int)PAYLOAD_MAX);
        free(blanks);
        cr_assert_gt(n_payload, 0);
        cr_expect_eq(unpack(LZ4, DS_IMAGE_PTX_MAX, &length), 0);
        cr_expect_eq(length, DS_IMAGE_PTX_MAX);
        cr_expect_eq(unpack(LZ4, DS_IMAGE_PTX_MAX - 1, &length), DS_IMAGE_E_INVALID);
        cr_expect_eq(unpack(LZ4, 100, &length), DS_IMAGE_E_INVALID);
        cr_expect_eq(unpack(LZ4, DS_IMAGE_PTX_MAX + 1, &length), DS_IMAGE_E_TOO_LARGE);
        n_payload /= 2;
        cr_expect_eq(unpack(LZ4, DS_IMAGE_PTX_MAX, &length), DS_IMAGE_E_INVALID, "cut off");
        /* LZ4 with a match before the beginning, a match at distance 0, and literals and a match of endless length */
        n_payload = 5;
        memcpy(payload,
                "\x1f"
                "a\xff\xff\0",
                5);
        cr_expect_eq(unpack(LZ4, 100, &length), DS_IMAGE_E_INVALID);
        memcpy(payload,
                "\x1f"
                "a\0\0\0",
                5);
        (void)unpack(LZ4, 20, &length);
        n_payload = PAYLOAD_MAX;
        memset(payload, 0xff, n_payload);
        cr_expect_eq(unpack(LZ4, DS_IMAGE_PTX_MAX, &length), DS_IMAGE_E_INVALID);
        memcpy(payload,
                "\x1f"
                "a\1\0",
                4);
        cr_expect_eq(unpack(LZ4, DS_IMAGE_PTX_MAX, &length), DS_IMAGE_E_INVALID);
}
