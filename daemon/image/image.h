/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code images as clients send them: PTX text, fatbin containers, cubins
 *
 * An image is untrusted bytes with a length. ds_image_open() lists its entries without decompressing them.
 * ds_image_ptx() and ds_image_elf() return one entry, decompressed (zstd, LZ4) under a limit.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct ds_image ds_image;

enum ds_image_kind {
        DS_IMAGE_PTX,
        DS_IMAGE_ELF,
        DS_IMAGE_OTHER, /* NVVM or LTO code: listed, but not used */
        _DS_IMAGE_KIND_MAX,
};

/* Positive return codes of the functions below */
#define DS_IMAGE_E_INVALID 1     /* damaged or not an image; see the message */
#define DS_IMAGE_E_TOO_LARGE 2   /* larger than the limit when decompressed */
#define DS_IMAGE_E_UNSUPPORTED 3 /* the entry's compression or kind is not supported */

#define DS_IMAGE_ENTRIES_MAX 256
#define DS_IMAGE_PTX_MAX ((size_t)64 << 20)
#define DS_IMAGE_ELF_MAX ((size_t)256 << 20)

struct ds_image_entry {
        enum ds_image_kind kind;
        uint32_t sm;            /* compute capability: 90 for sm_90 */
        uint32_t arch_specific; /* 1: architecture-specific code (sm_90a) */
        uint32_t version_major, version_minor;
        uint64_t size, unpacked_size; /* bytes in the image; bytes when decompressed */
        uint32_t max_registers;       /* bound of registers per thread that its compiler got; 0: no bound */
};

/* Opens an image. The caller keeps `bytes`, which must stay valid as long as the image. A contract code comes with a
 * message of one sentence. */
int ds_image_open(const void *bytes, size_t size, char *message, size_t message_size, ds_image **ret);
ds_image *ds_image_free(ds_image *image);
size_t ds_image_count(const ds_image *image);
const struct ds_image_entry *ds_image_entry(const ds_image *image, size_t index);
/* Returns the NUL-terminated text of a PTX entry, to be freed with ds_free(); *ret_length excludes the NUL. */
int ds_image_ptx(
        const ds_image *image, size_t index, char *message, size_t message_size, char **ret_text, size_t *ret_length);
/* Returns the unchecked bytes of a machine code entry, to be freed with ds_free(). */
int ds_image_elf(
        const ds_image *image, size_t index, char *message, size_t message_size, void **ret_bytes, size_t *ret_size);
/* Chooses the PTX entry for a GPU of compute capability cc (90): that with the highest target up to cc; if there is
 * none and `any` is set, that with the lowest. Returns -ENOENT if there is none. */
int ds_image_choose_ptx(const ds_image *image, uint32_t cc, int any, size_t *ret_index);
/* Chooses the machine code entry with the GPU's major version and the highest minor version up to the GPU's. Returns
 * -ENOENT if there is none. */
int ds_image_choose_elf(const ds_image *image, uint32_t cc, size_t *ret_index);
/* Describes the image's contents for people: "machine code for sm_80, PTX for sm_80". */
void ds_image_describe(const ds_image *image, char *text, size_t size);

static inline void ds_image_freep(ds_image **p)
{
        *p = ds_image_free(*p);
}
