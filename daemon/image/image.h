/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code images as clients send them: PTX text, fatbin wrappers and containers, cubins
 *
 * An image arrives as bytes with a length; nothing in it is trusted. ds_image_open lists what is inside without
 * decompressing; ds_image_ptx and ds_image_elf hand out one entry, decompressed (zstd, LZ4) under a limit.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct ds_image ds_image;

enum ds_image_kind {
        DS_IMAGE_PTX,
        DS_IMAGE_ELF,
        DS_IMAGE_OTHER, /* NVVM, LTO: listed, not used */
        _DS_IMAGE_KIND_MAX,
};

/* Contract codes */
#define DS_IMAGE_E_INVALID 1     /* damaged or not an image; see the message */
#define DS_IMAGE_E_TOO_LARGE 2   /* decompresses past the limit */
#define DS_IMAGE_E_UNSUPPORTED 3 /* a compression or kind that is not known */

#define DS_IMAGE_ENTRIES_MAX 256
#define DS_IMAGE_PTX_MAX ((size_t)64 << 20)
#define DS_IMAGE_ELF_MAX ((size_t)256 << 20)

struct ds_image_entry {
        enum ds_image_kind kind;
        uint32_t sm;            /* 90 for sm_90 */
        uint32_t arch_specific; /* sm_90a */
        uint32_t version_major, version_minor;
        uint64_t size, unpacked_size; /* bytes */
        uint32_t max_registers;       /* per thread, that its compiler was to use; 0: as many as it likes */
};

/* bytes stay the caller's and must outlive the image. message: one sentence when a contract code is returned. */
int ds_image_open(const void *bytes, size_t size, char *message, size_t message_size, ds_image **ret);
ds_image *ds_image_free(ds_image *image);
size_t ds_image_count(const ds_image *image);
const struct ds_image_entry *ds_image_entry(const ds_image *image, size_t index);
/* The text of a PTX entry, NUL-terminated, malloc'ed with ds_alloc; *ret_length without the NUL. */
int ds_image_ptx(
        const ds_image *image, size_t index, char *message, size_t message_size, char **ret_text, size_t *ret_length);
/* The bytes of an entry of machine code, malloc'ed with ds_alloc; not looked into. */
int ds_image_elf(
        const ds_image *image, size_t index, char *message, size_t message_size, void **ret_bytes, size_t *ret_size);
/* Which PTX entry a GPU of compute capability cc (90) takes: highest <= cc; any lowest if `any`. -ENOENT. */
int ds_image_choose_ptx(const ds_image *image, uint32_t cc, int any, size_t *ret_index);
/* Which entry of machine code it takes: same major version, highest minor up to its own. -ENOENT. */
int ds_image_choose_elf(const ds_image *image, uint32_t cc, size_t *ret_index);
/* What is in it, for people: "machine code for sm_80, PTX for sm_80". */
void ds_image_describe(const ds_image *image, char *text, size_t size);

static inline void ds_image_freep(ds_image **p)
{
        *p = ds_image_free(*p);
}
