/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying memory past the caches
 *
 * A staged copy (copy.c) touches each byte once, in memory that the GPU has just written or will read. memcpy() reads
 * each line of its destination from memory before it overwrites it, unless the line is in a cache. Stores that bypass
 * the caches do not. On an H200's machine, a read of 12.6 MB after 9 ms without copies takes 0.99 ms with such stores and
 * 1.68 ms with memcpy(); NVIDIA's driver takes 0.94 ms (docs/gpu/measured.md).
 *
 * Guarantees. The destination has the bytes of the source, for every later load of any thread and of the GPU, as after
 * memcpy(). On processors without such stores it is memcpy().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* size of a whole copy from which dsc__copy_uncached() is worth it: smaller destinations are likely to be in a cache, and
 * to be read soon */
#define DSC__UNCACHED_BYTES (256u << 10)

/* Copies n bytes between memory that does not overlap. prefetch: also requests lines of the source ahead of the copy. */
void dsc__copy_uncached(void *to, const void *from, size_t n, bool prefetch);
