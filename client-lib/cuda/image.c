/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds of images by their first bytes, and their lengths
 */
#include <elf.h>
#include <stdint.h>
#include <string.h>

#include "cuda/image.h"
#include "proto/wire.h"

#define WRAPPER_MAGIC 0x466243b1u
#define WRAPPER_OF_PARTS 2
#define CONTAINER_MAGIC 0xba55ed50u

struct wrapper {
        uint32_t magic, version;
        const void *data;
        const void *more; /* a file name; in version 2 an array of the parts that were linked into `data` */
};

struct container {
        uint32_t magic;
        uint16_t version, header_bytes;
        uint64_t entries_bytes;
};

static size_t end_of(uint64_t offset, uint64_t size)
{
        return offset > DCU_IMAGE_MAX || size > DCU_IMAGE_MAX ? DCU_IMAGE_MAX + 1 : (size_t)(offset + size);
}

static size_t larger(size_t a, size_t b)
{
        return a > b ? a : b;
}

/* Length of a cubin: the end of its last header or section, bytes. */
static size_t elf_size(const uint8_t *bytes)
{
        const Elf64_Ehdr *header = (const Elf64_Ehdr *)bytes;
        size_t size = sizeof(*header);

        if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
                return 0;
        size = larger(size, end_of(header->e_phoff, (uint64_t)header->e_phnum * header->e_phentsize));
        size = larger(size, end_of(header->e_shoff, (uint64_t)header->e_shnum * header->e_shentsize));
        if (size > DCU_IMAGE_MAX)
                return 0;
        for (uint32_t i = 0; i < header->e_shnum && header->e_shentsize >= sizeof(Elf64_Shdr); i++) {
                const Elf64_Shdr *section =
                        (const Elf64_Shdr *)(bytes + header->e_shoff + (size_t)i * header->e_shentsize);

                if (section->sh_type != SHT_NOBITS)
                        size = larger(size, end_of(section->sh_offset, section->sh_size));
        }
        for (uint32_t i = 0; i < header->e_phnum && header->e_phentsize >= sizeof(Elf64_Phdr); i++) {
                const Elf64_Phdr *segment =
                        (const Elf64_Phdr *)(bytes + header->e_phoff + (size_t)i * header->e_phentsize);

                size = larger(size, end_of(segment->p_offset, segment->p_filesz));
        }
        return size > DCU_IMAGE_MAX ? 0 : size;
}

static size_t container_size(const uint8_t *bytes)
{
        struct container header;

        memcpy(&header, bytes, sizeof(header));
        if (header.header_bytes < sizeof(header) || header.entries_bytes > DCU_IMAGE_MAX - header.header_bytes)
                return 0;
        return header.header_bytes + (size_t)header.entries_bytes;
}

/* Length of an image for coloured kernels (detshare/coloured.h), which the image contains, bytes. */
static size_t coloured_size(const uint8_t *bytes)
{
        struct ds_coloured_image header;

        memcpy(&header, bytes, sizeof(header));
        return header.bytes > DCU_IMAGE_MAX ? 0 : (size_t)header.bytes;
}

/*
 * The fatbin container of a wrapper. Code that was compiled to be linked (nvcc -rdc=true) is linked machine code, which
 * a simulated device cannot use. If the program was linked from one part, that part contains all of its PTX:
 * prefer_part chooses it.
 */
static const void *wrapped(const void *p, int prefer_part)
{
        const void *const *parts;
        struct wrapper wrapper;

        memcpy(&wrapper, p, sizeof(wrapper));
        parts = wrapper.more;
        if (prefer_part && wrapper.version == WRAPPER_OF_PARTS && parts && parts[0] && !parts[1])
                return parts[0];
        return wrapper.data;
}

int dcu_image_measure(const void *p, int prefer_part, const void **ret_bytes, size_t *ret_size)
{
        const char *text = p;
        uint32_t magic = 0;
        size_t size;

        /* byte by byte, because the shortest image is an empty string */
        for (size_t i = 0; i < sizeof(magic) && (i == 0 || text[i - 1] != '\0'); i++)
                magic |= (uint32_t)(uint8_t)text[i] << 8 * i;
        if (magic == WRAPPER_MAGIC) {
                p = wrapped(p, prefer_part);
                if (!p)
                        return 0;
                memcpy(&magic, p, sizeof(magic));
                if (magic != CONTAINER_MAGIC)
                        return 0;
        }
        if (magic == CONTAINER_MAGIC)
                size = container_size(p);
        else if (magic == DS_COLOURED_MAGIC)
                size = coloured_size(p);
        else if (memcmp(&magic, ELFMAG, SELFMAG) == 0)
                size = elf_size(p);
        else
                size = strnlen(p, DCU_IMAGE_MAX + 1);
        if (size == 0 || size > DCU_IMAGE_MAX)
                return 0;
        *ret_bytes = p;
        *ret_size = size;
        return 1;
}

/* Skips blanks and comments, which PTX may begin with. */
static size_t skip_blank(const char *text, size_t size)
{
        size_t i = 0;

        while (i < size) {
                if (strchr(" \t\r\n\f\v", text[i]) && text[i]) {
                        i++;
                } else if (i + 1 < size && text[i] == '/' && text[i + 1] == '/') {
                        while (i < size && text[i] != '\n')
                                i++;
                } else if (i + 1 < size && text[i] == '/' && text[i + 1] == '*') {
                        const char *end = memmem(text + i + 2, size - i - 2, "*/", 2);

                        if (!end)
                                return size;
                        i = (size_t)(end - text) + 2;
                } else {
                        break;
                }
        }
        return i;
}

int dcu_image_plausible(const void *bytes, size_t size)
{
        static const char directive[] = ".version";
        uint32_t magic = 0;
        size_t at;

        if (size >= sizeof(magic))
                memcpy(&magic, bytes, sizeof(magic));
        if (magic == CONTAINER_MAGIC || magic == DS_COLOURED_MAGIC || memcmp(&magic, ELFMAG, SELFMAG) == 0)
                return 1;
        at = skip_blank(bytes, size);
        return size - at >= strlen(directive) && memcmp((const char *)bytes + at, directive, strlen(directive)) == 0;
}
