/* SPDX-License-Identifier: Apache-2.0 */
#include "image/object.h"

#include <ar.h>
#include <elf.h>
#include <string.h>

#include "image/internal.h"

#define CONTAINER_MAGIC 0xBA55ED50u
#define CONTAINER_HEADER 16u
#define MACHINE_CUDA 190
#define SECTION "__nv_relfatbin"
#define MEMBER_NAME_MAX 256

struct walk {
        ds_object_fn fn;
        void *user;
        char *message;
        size_t message_size;
};

/* A copy of the header, because archives align their members to 2 bytes only. */
static int elf_header(const uint8_t *bytes, size_t size, Elf64_Ehdr *ret)
{
        if (size < sizeof(*ret) || memcmp(bytes, ELFMAG, SELFMAG) != 0)
                return 0;
        memcpy(ret, bytes, sizeof(*ret));
        return ret->e_ident[EI_CLASS] == ELFCLASS64 && ret->e_ident[EI_DATA] == ELFDATA2LSB;
}

int ds_object_is_archive(const void *bytes, size_t size)
{
        return size >= SARMAG && memcmp(bytes, ARMAG, SARMAG) == 0;
}

int ds_object_is_host(const void *bytes, size_t size)
{
        Elf64_Ehdr header;

        return elf_header(bytes, size, &header) && header.e_machine != MACHINE_CUDA;
}

static int fail(const struct walk *walk, const char *member, const char *why)
{
        return image_fail(DS_OBJECT_E_INVALID, walk->message, walk->message_size, "the host object %s%sis damaged: %s",
                member, *member ? " " : "", why);
}

/* --- objects ------------------------------------------------------------------------------------------------------ */

static int containers(const struct walk *walk, const char *member, const uint8_t *p, uint64_t left)
{
        while (left >= CONTAINER_HEADER) {
                uint32_t magic;
                uint16_t header;
                uint64_t entries, step;
                int r;

                memcpy(&magic, p, sizeof(magic));
                if (magic == 0) { /* padding between two containers */
                        p += 8;
                        left -= 8;
                        continue;
                }
                memcpy(&header, p + 6, sizeof(header));
                memcpy(&entries, p + 8, sizeof(entries));
                if (magic != CONTAINER_MAGIC || header < CONTAINER_HEADER || header > left || entries > left - header)
                        return fail(walk, member, "its section " SECTION " holds no fatbin containers");
                step = header + entries;
                r = walk->fn(walk->user, member, p, (size_t)step);
                if (r)
                        return r;
                step = DS_MIN(DS_ALIGN_UP(step, (uint64_t)8), left);
                p += step;
                left -= step;
        }
        return 0;
}

static int section_at(const uint8_t *bytes, size_t size, const Elf64_Ehdr *header, uint32_t index, Elf64_Shdr *ret)
{
        const uint64_t offset = (uint64_t)index * sizeof(*ret);

        if (header->e_shentsize != sizeof(*ret) || index >= header->e_shnum || header->e_shoff > size ||
                offset + sizeof(*ret) > size - header->e_shoff)
                return 0;
        memcpy(ret, bytes + header->e_shoff + offset, sizeof(*ret));
        return ret->sh_type == SHT_NOBITS || (ret->sh_offset <= size && ret->sh_size <= size - ret->sh_offset);
}

static int object(const struct walk *walk, const char *member, const uint8_t *bytes, size_t size)
{
        Elf64_Shdr names, section;
        Elf64_Ehdr header;

        if (!elf_header(bytes, size, &header) || header.e_machine == MACHINE_CUDA)
                return 0;
        if (!header.e_shnum)
                return 0;
        if (!section_at(bytes, size, &header, header.e_shstrndx, &names) || names.sh_type != SHT_STRTAB)
                return fail(walk, member, "it has no table of section names");
        for (uint32_t i = 0; i < header.e_shnum; i++) {
                int r;

                if (!section_at(bytes, size, &header, i, &section))
                        return fail(walk, member, "a section lies outside of the file");
                if (section.sh_type == SHT_NOBITS || section.sh_name > names.sh_size ||
                        names.sh_size - section.sh_name < sizeof(SECTION) ||
                        memcmp(bytes + names.sh_offset + section.sh_name, SECTION, sizeof(SECTION)) != 0)
                        continue;
                r = containers(walk, member, bytes + section.sh_offset, section.sh_size);
                if (r)
                        return r;
        }
        return 0;
}

/* --- archives ----------------------------------------------------------------------------------------------------- */

static int number_of(const char *text, size_t n, uint64_t *ret)
{
        *ret = 0;
        for (size_t i = 0; i < n && text[i] != ' '; i++) {
                if (text[i] < '0' || text[i] > '9')
                        return 0;
                *ret = *ret * 10 + (uint64_t)(text[i] - '0');
        }
        return 1;
}

/* Copies the member's name. Long names are in a table of the archive, at the offset behind the slash. */
static void member_name(const struct ar_hdr *header, const char *table, size_t table_size, char name[MEMBER_NAME_MAX])
{
        const char *from = header->ar_name, *end;
        size_t room = sizeof(header->ar_name), n;
        uint64_t offset;

        if (from[0] == '/' && number_of(from + 1, room - 1, &offset) && from[1] != ' ' && offset < table_size) {
                from = table + offset;
                room = table_size - offset;
        }
        end = memchr(from, '/', room);
        n = DS_MIN(end ? (size_t)(end - from) : room, (size_t)MEMBER_NAME_MAX - 1);
        memcpy(name, from, n);
        name[n] = '\0';
}

static int archive(const struct walk *walk, const uint8_t *bytes, size_t size)
{
        const char *table = "";
        size_t table_size = 0, at = SARMAG;

        while (size - at >= sizeof(struct ar_hdr)) {
                const struct ar_hdr *header = (const void *)(bytes + at);
                char name[MEMBER_NAME_MAX];
                uint64_t length;
                int r;

                at += sizeof(*header);
                if (memcmp(header->ar_fmag, ARFMAG, sizeof(header->ar_fmag)) != 0 ||
                        !number_of(header->ar_size, sizeof(header->ar_size), &length) || length > size - at)
                        return image_fail(DS_OBJECT_E_INVALID, walk->message, walk->message_size,
                                "the archive is damaged at byte %zu of %zu", at - sizeof(*header), size);
                if (header->ar_name[0] == '/' && header->ar_name[1] == '/') {
                        table = (const char *)bytes + at;
                        table_size = (size_t)length;
                } else {
                        member_name(header, table, table_size, name);
                        r = object(walk, name, bytes + at, (size_t)length);
                        if (r)
                                return r;
                }
                at += (size_t)DS_MIN(DS_ALIGN_UP(length, (uint64_t)2), (uint64_t)(size - at));
        }
        return 0;
}

int ds_object_walk(const void *bytes, size_t size, ds_object_fn fn, void *user, char *message, size_t message_size)
{
        const struct walk walk = {.fn = fn, .user = user, .message = message, .message_size = message_size};

        if (ds_object_is_archive(bytes, size))
                return archive(&walk, bytes, size);
        if (ds_object_is_host(bytes, size))
                return object(&walk, "", bytes, size);
        return image_fail(DS_OBJECT_E_INVALID, message, message_size, "neither a host object nor an archive");
}
