/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a code image: detects its container and reads the entries' properties
 *
 * There are three shapes: a fatbin container (magic 0xBA55ED50: a 16-byte header, then entries back to back, each with
 * its own header and a padded payload), one cubin (ELF, machine 190), or PTX text. The fatbin *wrapper* that programs
 * register holds pointers of the client's process. The client resolves it, and a wrapper that arrives here is refused.
 *
 * Guarantees: every offset and size is checked against the available bytes before use, in arithmetic that cannot wrap.
 * Each entry advances by at least its 64-byte header, and there are at most DS_IMAGE_ENTRIES_MAX of them. Not here:
 * decompression (unpack.c), the contents of a cubin, linking of relocatable device code.
 */
#include "image/image.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "image/cubin.h"
#include "image/internal.h"
#include "util/alloc.h"
#include "util/error.h"

#define CONTAINER_MAGIC 0xBA55ED50u
#define WRAPPER_MAGIC 0x466243B1u
#define CONTAINER_HEADER 16
#define CONTAINER_VERSION 1

#define ENTRY_HEADER_MIN 64
#define ENTRY_KIND_PTX 1
#define ENTRY_KIND_ELF 2

#define ELF_HEADER 64
#define ELF_MACHINE_CUDA 190
/* ELF OS ABI up to toolkit 12: the SM number is the low byte of e_flags; with a later one it is the second byte */
#define ELF_OSABI_OLD 51

int image_fail(int code, char *message, size_t message_size, const char *fmt, ...)
{
        va_list args;

        if (message && message_size) {
                va_start(args, fmt);
                vsnprintf(message, message_size, fmt, args);
                va_end(args);
        }
        return code;
}

static uint16_t get16(const uint8_t *p)
{
        uint16_t v;

        memcpy(&v, p, sizeof(v));
        return v;
}

static uint32_t get32(const uint8_t *p)
{
        uint32_t v;

        memcpy(&v, p, sizeof(v));
        return v;
}

static uint64_t get64(const uint8_t *p)
{
        uint64_t v;

        memcpy(&v, p, sizeof(v));
        return v;
}

static int image_add(ds_image *image, const struct image_entry *entry)
{
        struct image_entry *entries;

        entries = ds_realloc(image->entries, image->n_entries + 1, sizeof(*entries));
        if (!entries)
                return -ENOMEM;
        image->entries = entries;
        entries[image->n_entries++] = *entry;
        return 0;
}

/* Reads the register bound from nvcc's options in the entry, such as " -maxrregcount=40 ": the PTX compiler needs it
 * again. */
static uint32_t entry_max_registers(const uint8_t *p, uint64_t header)
{
        static const char option[] = "maxrregcount=";
        uint64_t record = get32(p + 20), offset, length, value = 0;
        const uint8_t *text, *end;

        if (!record || record > header || header - record < 8)
                return 0;
        offset = get32(p + record);
        length = get32(p + record + 4);
        if (offset > header || length > header - offset)
                return 0;
        end = p + offset + length;
        text = memmem(p + offset, length, option, strlen(option));
        for (text = text ? text + strlen(option) : end; text < end && *text >= '0' && *text <= '9' && value < 1000;
                text++)
                value = value * 10 + (uint64_t)(*text - '0');
        return value < 1000 ? (uint32_t)value : 0;
}

/* Reads one entry header at p, with `left` bytes in the container; *ret_step: size of the entry with its payload. */
static int entry_read(const uint8_t *p, uint64_t left, struct image_entry *ret, uint64_t *ret_step, char *message,
        size_t message_size)
{
        struct image_entry e = {};
        uint64_t header, padded, packed;

        if (left < ENTRY_HEADER_MIN)
                return image_fail(DS_IMAGE_E_INVALID, message, message_size,
                        "fatbin entry header cut off: %llu bytes left", (unsigned long long)left);
        header = get32(p + 4);
        padded = get64(p + 8);
        packed = get32(p + 16);
        if (header < ENTRY_HEADER_MIN || header > left || padded > left - header || packed > padded)
                return image_fail(DS_IMAGE_E_INVALID, message, message_size,
                        "fatbin entry does not fit: header %llu, payload %llu (%llu used) in %llu bytes",
                        (unsigned long long)header, (unsigned long long)padded, (unsigned long long)packed,
                        (unsigned long long)left);

        e.flags = get64(p + 40);
        e.payload = p + header;
        e.packed = packed ? packed : padded;
        switch (get16(p)) {
        case ENTRY_KIND_PTX:
                e.public.kind = DS_IMAGE_PTX;
                break;
        case ENTRY_KIND_ELF:
                e.public.kind = DS_IMAGE_ELF;
                break;
        default:
                e.public.kind = DS_IMAGE_OTHER;
        }
        e.public.version_minor = get16(p + 24);
        e.public.version_major = get16(p + 26);
        e.public.sm = get32(p + 28);
        e.public.arch_specific = !!(e.flags & IMAGE_FLAG_ARCH_SPECIFIC);
        e.public.max_registers = entry_max_registers(p, header);
        e.public.size = e.packed;
        e.public.unpacked_size = e.flags & (IMAGE_FLAG_LZ4 | IMAGE_FLAG_ZSTD) ? get64(p + 56) : e.packed;
        *ret = e;
        *ret_step = header + padded;
        return 0;
}

static int container_read(ds_image *image, const uint8_t *p, size_t size, char *message, size_t message_size)
{
        uint64_t header, left, step = 0;
        struct image_entry entry;
        int r;

        if (size < CONTAINER_HEADER)
                return image_fail(
                        DS_IMAGE_E_INVALID, message, message_size, "fatbin header cut off: %zu of 16 bytes", size);
        header = get16(p + 6);
        left = get64(p + 8);
        if (get16(p + 4) != CONTAINER_VERSION)
                return image_fail(
                        DS_IMAGE_E_UNSUPPORTED, message, message_size, "fatbin container of version %u", get16(p + 4));
        if (header < CONTAINER_HEADER || header > size || left > size - header)
                return image_fail(DS_IMAGE_E_INVALID, message, message_size,
                        "fatbin container claims %llu bytes behind a header of %llu, but only %zu bytes came",
                        (unsigned long long)left, (unsigned long long)header, size);

        for (p += header; left; p += step, left -= step) {
                if (image->n_entries >= DS_IMAGE_ENTRIES_MAX)
                        return image_fail(DS_IMAGE_E_TOO_LARGE, message, message_size,
                                "fatbin container holds more than %d entries", DS_IMAGE_ENTRIES_MAX);
                r = entry_read(p, left, &entry, &step, message, message_size);
                if (r)
                        return r;
                r = image_add(image, &entry);
                if (r)
                        return ds_error_origin(r);
        }
        return 0;
}

static int elf_read(ds_image *image, const uint8_t *p, size_t size, char *message, size_t message_size)
{
        struct image_entry e = {.payload = p, .packed = size};
        uint64_t sections, headers;
        struct ds_cubin cubin;
        uint32_t flags;
        int r;

        if (size < ELF_HEADER)
                return image_fail(
                        DS_IMAGE_E_INVALID, message, message_size, "ELF header cut off: %zu of 64 bytes", size);
        if (p[4] != 2 || p[5] != 1 || get16(p + 18) != ELF_MACHINE_CUDA)
                return image_fail(DS_IMAGE_E_INVALID, message, message_size,
                        "ELF image is no cubin: class %u, machine %u", p[4], get16(p + 18));
        sections = get64(p + 40);
        headers = (uint64_t)get16(p + 58) * get16(p + 60);
        if (sections > size || headers > size - sections)
                return image_fail(DS_IMAGE_E_INVALID, message, message_size,
                        "cubin cut off: section headers end past its %zu bytes", size);
        flags = get32(p + 48);
        e.public.kind = DS_IMAGE_ELF;
        e.public.sm = p[7] == ELF_OSABI_OLD ? flags & 0xff : flags >> 8 & 0xff;
        if (ds_cubin_read(p, size, &cubin) == 0)
                e.public.arch_specific = cubin.family;
        e.public.version_major = p[8];
        e.public.size = e.public.unpacked_size = size;
        r = image_add(image, &e);
        return r ? ds_error_origin(r) : 0;
}

/* If the line begins with the directive `name`: the text behind it, without blanks; otherwise NULL. */
static const char *line_directive(const char *line, const char *end, const char *name)
{
        size_t n = strlen(name);

        while (line < end && (*line == ' ' || *line == '\t'))
                line++;
        if ((size_t)(end - line) < n || memcmp(line, name, n))
                return NULL;
        for (line += n; line < end && (*line == ' ' || *line == '\t');)
                line++;
        return line;
}

static uint32_t read_number(const char **p, const char *end)
{
        uint32_t v = 0;

        for (; *p < end && **p >= '0' && **p <= '9' && v < 100000; (*p)++)
                v = v * 10 + (uint32_t)(**p - '0');
        return v;
}

/* Reads properties from the first lines of PTX text. A text without them is left to the parser, which reports
 * errors. */
static void text_header(const char *text, const char *end, struct ds_image_entry *e)
{
        const char *line, *next, *p;

        for (line = text; line < end; line = next) {
                next = memchr(line, '\n', (size_t)(end - line));
                next = next ? next + 1 : end;
                p = line_directive(line, next, ".version");
                if (p) {
                        e->version_major = read_number(&p, next);
                        if (p < next && *p == '.') {
                                p++;
                                e->version_minor = read_number(&p, next);
                        }
                }
                p = line_directive(line, next, ".target");
                if (p && next - p > 3 && !memcmp(p, "sm_", 3)) {
                        p += 3;
                        e->sm = read_number(&p, next);
                        e->arch_specific = p < next && *p == 'a';
                        return;
                }
        }
}

static int text_read(ds_image *image, const uint8_t *p, size_t size, char *message, size_t message_size)
{
        struct image_entry e = {.payload = p};
        int r;

        while (size && !p[size - 1])
                size--;
        for (size_t i = 0; i < size; i++)
                if (p[i] < ' ' && !(p[i] >= '\t' && p[i] <= '\r'))
                        return image_fail(DS_IMAGE_E_INVALID, message, message_size,
                                "neither fatbin, cubin nor PTX text: byte 0x%02x at offset %zu", p[i], i);
        if (!size)
                return image_fail(DS_IMAGE_E_INVALID, message, message_size, "empty image");
        e.packed = e.public.size = e.public.unpacked_size = size;
        e.public.kind = DS_IMAGE_PTX;
        text_header((const char *)p, (const char *)p + size, &e.public);
        r = image_add(image, &e);
        return r ? ds_error_origin(r) : 0;
}

int ds_image_open(const void *bytes, size_t size, char *message, size_t message_size, ds_image **ret)
{
        ds_cleanup(ds_image_freep) ds_image *image = NULL;
        const uint8_t *p = bytes;
        uint32_t magic = 0;
        int r;

        image = ds_alloc0(1, sizeof(*image));
        if (!image)
                return ds_error_origin(-ENOMEM);
        memcpy(&magic, p, size < sizeof(magic) ? size : sizeof(magic));
        if (magic == WRAPPER_MAGIC)
                return image_fail(DS_IMAGE_E_UNSUPPORTED, message, message_size,
                        "a fatbin wrapper holds pointers of its process: send the container that it points to");
        if (magic == CONTAINER_MAGIC)
                r = container_read(image, p, size, message, message_size);
        else if (size >= 4 && !memcmp(p, "\177ELF", 4))
                r = elf_read(image, p, size, message, message_size);
        else
                r = text_read(image, p, size, message, message_size);
        if (r)
                return r;
        *ret = DS_TAKE_PTR(image);
        return 0;
}

ds_image *ds_image_free(ds_image *image)
{
        if (image) {
                ds_free(image->entries);
                ds_free(image);
        }
        return NULL;
}

size_t ds_image_count(const ds_image *image)
{
        return image->n_entries;
}

const struct ds_image_entry *ds_image_entry(const ds_image *image, size_t index)
{
        return index < image->n_entries ? &image->entries[index].public : NULL;
}

/* Whether code runs on a GPU of this cc: sm_90a code on 9.0 only, sm_90 code on every later one */
static int entry_runs_on(const struct ds_image_entry *e, uint32_t cc)
{
        return e->arch_specific ? e->sm == cc : e->sm <= cc;
}

int ds_image_choose_ptx(const ds_image *image, uint32_t cc, int any, size_t *ret_index)
{
        const struct ds_image_entry *best = NULL, *lowest = NULL, *e;
        size_t best_index = 0, lowest_index = 0;

        for (size_t i = 0; i < image->n_entries; i++) {
                e = &image->entries[i].public;
                if (e->kind != DS_IMAGE_PTX)
                        continue;
                if (entry_runs_on(e, cc) && (!best || e->sm > best->sm)) {
                        best = e;
                        best_index = i;
                }
                if (!lowest || e->sm < lowest->sm) {
                        lowest = e;
                        lowest_index = i;
                }
        }
        if (!best && !(any && lowest))
                return -ENOENT;
        *ret_index = best ? best_index : lowest_index;
        return 0;
}

int ds_image_choose_elf(const ds_image *image, uint32_t cc, size_t *ret_index)
{
        const struct ds_image_entry *best = NULL, *e;

        for (size_t i = 0; i < image->n_entries; i++) {
                struct ds_cubin cubin;

                e = &image->entries[i].public;
                cubin = (struct ds_cubin){.cc = e->sm, .family = e->arch_specific};
                if (e->kind != DS_IMAGE_ELF || !ds_cubin_runs_on(&cubin, cc))
                        continue;
                if (!best || e->sm > best->sm || (e->sm == best->sm && e->arch_specific > best->arch_specific)) {
                        best = e;
                        *ret_index = i;
                }
        }
        return best ? 0 : -ENOENT;
}

void ds_image_describe(const ds_image *image, char *text, size_t size)
{
        static const char *const kinds[] = {
                [DS_IMAGE_PTX] = "PTX", [DS_IMAGE_ELF] = "machine code", [DS_IMAGE_OTHER] = "code of another kind"};
        size_t at = 0;
        int n;

        snprintf(text, size, "nothing");
        for (size_t i = 0; i < image->n_entries && at < size; i++) {
                const struct ds_image_entry *e = &image->entries[i].public;

                n = snprintf(text + at, size - at, "%s%s for sm_%u%s", i ? ", " : "", kinds[e->kind], e->sm,
                        e->arch_specific ? "a" : "");
                at += n > 0 ? (size_t)n : size;
        }
}
