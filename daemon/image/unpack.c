/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking one PTX text out of an image
 *
 * A payload is stored, a zstd frame, or a raw LZ4 block; the entry declares how many bytes it becomes. That number is
 * the client's word: it is capped before anything is allocated, decompression writes into a buffer of exactly that size
 * and never past it, and a result of another size is damage. What comes out is text: a NUL inside it is damage too.
 */
#include <lz4.h>
#include <string.h>
#include <zstd.h>

#include "image/internal.h"
#include "util/alloc.h"
#include "util/error.h"

/* Writes at most size bytes; returns how many the payload became, or a negative number when it is damaged. */
static int64_t payload_unpack(const struct image_entry *entry, char *text, size_t size)
{
        size_t n;

        if (entry->flags & IMAGE_FLAG_ZSTD) {
                n = ZSTD_decompress(text, size, entry->payload, entry->packed);
                return ZSTD_isError(n) ? -1 : (int64_t)n;
        }
        if (entry->flags & IMAGE_FLAG_LZ4) {
                if (entry->packed > LZ4_MAX_INPUT_SIZE)
                        return -1;
                return LZ4_decompress_safe((const char *)entry->payload, text, (int)entry->packed, (int)size);
        }
        memcpy(text, entry->payload, size);
        return (int64_t)size;
}

static int entry_check(const struct image_entry *entry, char *message, size_t message_size)
{
        if (entry->public.kind != DS_IMAGE_PTX || entry->flags & IMAGE_FLAG_LTO)
                return image_fail(DS_IMAGE_E_UNSUPPORTED, message, message_size, "the entry is no PTX text");
        if ((entry->flags & IMAGE_FLAG_ZSTD) && (entry->flags & IMAGE_FLAG_LZ4))
                return image_fail(
                        DS_IMAGE_E_UNSUPPORTED, message, message_size, "the entry claims to be both zstd and LZ4");
        if (entry->public.unpacked_size > DS_IMAGE_PTX_MAX)
                return image_fail(DS_IMAGE_E_TOO_LARGE, message, message_size,
                        "PTX of %llu bytes: the limit is %zu MiB", (unsigned long long)entry->public.unpacked_size,
                        DS_IMAGE_PTX_MAX >> 20);
        return 0;
}

int ds_image_ptx(
        const ds_image *image, size_t index, char *message, size_t message_size, char **ret_text, size_t *ret_length)
{
        ds_cleanup(ds_freep) char *text = NULL;
        const struct image_entry *entry;
        size_t size, length;
        int64_t n;
        int r;

        if (index >= image->n_entries)
                return image_fail(DS_IMAGE_E_INVALID, message, message_size, "no entry %zu in the image", index);
        entry = &image->entries[index];
        r = entry_check(entry, message, message_size);
        if (r)
                return r;
        size = entry->public.unpacked_size;
        text = ds_alloc(size + 1);
        if (!text)
                return ds_error_origin(-ENOMEM);
        n = payload_unpack(entry, text, size);
        if (n < 0 || (uint64_t)n != size)
                return image_fail(DS_IMAGE_E_INVALID, message, message_size,
                        "damaged compressed PTX: %zu bytes did not become the declared %zu", entry->packed, size);
        for (length = size; length && !text[length - 1];)
                length--;
        text[length] = 0;
        if (memchr(text, 0, length))
                return image_fail(DS_IMAGE_E_INVALID, message, message_size, "PTX text with a NUL inside");
        *ret_text = DS_TAKE_PTR(text);
        *ret_length = length;
        return 0;
}
