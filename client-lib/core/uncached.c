/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores of 16 bytes that bypass the caches (MOVNTDQ, which every x86-64 processor has)
 *
 * The processor collects the stores to a line of 64 bytes and writes the line at once, so the loop stores whole lines.
 * These stores are not ordered with other stores; the fence behind the loop orders them.
 */
#include "core/uncached.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

#define LINE_BYTES 64u
#define AHEAD_BYTES 1024u /* distance of a prefetch; a prefetch behind the end of the source does no harm */

static inline void copy_line(uint8_t *to, const uint8_t *from)
{
        const __m128i *source = (const __m128i *)(const void *)from;
        __m128i *line = (__m128i *)(void *)to;
        const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
        const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
        _mm_stream_si128(line, a);
        _mm_stream_si128(line + 1, b);
        _mm_stream_si128(line + 2, c);
        _mm_stream_si128(line + 3, d);
}

static void copy_lines(uint8_t *to, const uint8_t *from, size_t n, bool prefetch)
{
        for (size_t i = 0; i < n; i += LINE_BYTES) {
                if (prefetch)
                        __builtin_prefetch(from + i + AHEAD_BYTES);
                copy_line(to + i, from + i);
        }
        _mm_sfence();
}

void dsc__copy_uncached(void *to, const void *from, size_t n, bool prefetch)
{
        const size_t head = -(uintptr_t)to % LINE_BYTES;
        if (n < head + LINE_BYTES) {
                memcpy(to, from, n);
                return;
        }
        const size_t lines = (n - head) / LINE_BYTES * LINE_BYTES;
        uint8_t *line = (uint8_t *)to + head;
        const uint8_t *source = (const uint8_t *)from + head;
        memcpy(to, from, head);
        copy_lines(line, source, lines, prefetch);
        memcpy(line + lines, source + lines, n - head - lines);
}

#else

void dsc__copy_uncached(void *to, const void *from, size_t n, bool prefetch)
{
        memcpy(to, from, n);
}

#endif
