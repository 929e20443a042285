/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decompresses one entry of an image
 *
 * A payload is stored, a zstd frame, or a raw LZ4 block. The entry declares its decompressed size. That number is
 * untrusted: it is bounded before anything is allocated. Decompression never writes past a buffer of exactly that size,
 * and a result of another size counts as damage. PTX is text, so a NUL inside it is damage, too.
 */
#include <lz4.h>
#include <string.h>
#include <zstd.h>

#include "image/internal.h"
#include "util/alloc.h"
#include "util/error.h"

/* Decompresses a payload into at most size bytes. Returns the decompressed size, or a negative number if the payload
 * is damaged. */
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

static int entry_check(
        const ds_image *image, size_t index, enum ds_image_kind kind, size_t limit, char *message, size_t message_size)
{
        const char *what = kind == DS_IMAGE_PTX ? "PTX" : "machine code";
        const struct image_entry *entry;

        if (index >= image->n_entries)
                return image_fail(DS_IMAGE_E_INVALID, message, message_size, "no entry %zu in the image", index);
        entry = &image->entries[index];
        if (entry->public.kind != kind || entry->flags & IMAGE_FLAG_LTO)
                return image_fail(DS_IMAGE_E_UNSUPPORTED, message, message_size, "the entry is no %s",
                        kind == DS_IMAGE_PTX ? "PTX text" : what);
        if ((entry->flags & IMAGE_FLAG_ZSTD) && (entry->flags & IMAGE_FLAG_LZ4))
                return image_fail(
                        DS_IMAGE_E_UNSUPPORTED, message, message_size, "the entry claims to be both zstd and LZ4");
        if (entry->public.unpacked_size > limit)
                return image_fail(DS_IMAGE_E_TOO_LARGE, message, message_size, "%s of %llu bytes: the limit is %zu MiB",
                        what, (unsigned long long)entry->public.unpacked_size, limit >> 20);
        return 0;
}

/* Decompresses the entry, as many bytes as it declares, and appends a NUL. */
static int entry_unpack(const struct image_entry *entry, char *message, size_t message_size, char **ret)
{
        size_t size = entry->public.unpacked_size;
        /* the memory is zeroed because a decoder may leave holes, in which bytes of other images must not appear */
        ds_cleanup(ds_freep) char *bytes = ds_alloc0(size + 1, 1);
        int64_t n;

        if (!bytes)
                return ds_error_origin(-ENOMEM);
        n = payload_unpack(entry, bytes, size);
        if (n < 0 || (uint64_t)n != size)
                return image_fail(DS_IMAGE_E_INVALID, message, message_size,
                        "damaged compressed %s: %zu bytes did not become the declared %zu",
                        entry->public.kind == DS_IMAGE_PTX ? "PTX" : "machine code", entry->packed, size);
        bytes[size] = 0;
        *ret = DS_TAKE_PTR(bytes);
        return 0;
}

int ds_image_ptx(
        const ds_image *image, size_t index, char *message, size_t message_size, char **ret_text, size_t *ret_length)
{
        ds_cleanup(ds_freep) char *text = NULL;
        size_t length;
        int r;

        r = entry_check(image, index, DS_IMAGE_PTX, DS_IMAGE_PTX_MAX, message, message_size);
        if (!r)
                r = entry_unpack(&image->entries[index], message, message_size, &text);
        if (r)
                return r;
        for (length = image->entries[index].public.unpacked_size; length && !text[length - 1];)
                length--;
        if (memchr(text, 0, length))
                return image_fail(DS_IMAGE_E_INVALID, message, message_size, "PTX text with a NUL inside");
        *ret_text = DS_TAKE_PTR(text);
        *ret_length = length;
        return 0;
}

int ds_image_elf(
        const ds_image *image, size_t index, char *message, size_t message_size, void **ret_bytes, size_t *ret_size)
{
        char *bytes;
        int r;

        r = entry_check(image, index, DS_IMAGE_ELF, DS_IMAGE_ELF_MAX, message, message_size);
        if (!r)
                r = entry_unpack(&image->entries[index], message, message_size, &bytes);
        if (r)
                return r;
        *ret_bytes = bytes;
        *ret_size = image->entries[index].public.unpacked_size;
        return 0;
}
