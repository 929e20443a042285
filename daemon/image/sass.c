/* SPDX-License-Identifier: Apache-2.0 */
#include "image/sass.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "image/cubin.h"
#include "image/sass_code.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define OTHER_ENTRY 0x10     /* st_other of the symbol of a kernel */
#define NAME_MAX_BYTES 16384 /* longest kernel name that can be looked up; sorting compares whole names */

struct function {
        const char *name;
        uint32_t section;
        uint32_t at; /* index of the function's first instruction in its section */
        bool entry;
};

/* A section of code. */
struct text {
        bool known;
        bool entry; /* 1: the section contains a kernel */
        struct ds_sass_kernel facts;
};

struct ds_sass {
        const uint8_t *bytes;
        uint64_t size;
        Elf64_Ehdr header;
        uint64_t n_sections;
        struct ds_cubin cubin;
        struct function *functions; /* all functions, sorted by section and position */
        uint32_t *by_name;          /* kernels sorted by name; each is an index into functions */
        size_t n_functions, n_kernels;
        struct text *texts; /* one element per section */
        uint32_t *info_of;  /* one element per section: index of the .nv.info section about it, 0 = none */
        /* 1: some bytes belong to several sections, so reading even a small file could take forever */
        bool overlaps;
        bool others_known, others_ask;
        struct ds_sass_kernel others; /* combined properties of all functions outside the sections of kernels */
};

/* Reads a section header. ds_cubin_read() has checked that all sections and names are inside the image. */
static Elf64_Shdr section_at(const ds_sass *sass, uint64_t index)
{
        Elf64_Shdr section;

        memcpy(&section, sass->bytes + sass->header.e_shoff + index * sizeof(section), sizeof(section));
        return section;
}

/* --- functions --- */

static int compare_places(const void *a, const void *b)
{
        const struct function *x = a, *y = b;

        if (x->section != y->section)
                return x->section < y->section ? -1 : 1;
        return x->at < y->at ? -1 : x->at > y->at;
}

static int compare_names(const void *a, const void *b, void *sass)
{
        const struct function *functions = ((ds_sass *)sass)->functions;

        return strcmp(functions[*(const uint32_t *)a].name, functions[*(const uint32_t *)b].name);
}

static bool is_code(const Elf64_Shdr *section)
{
        return section->sh_type == SHT_PROGBITS && section->sh_flags & SHF_EXECINSTR && section->sh_size >= SASS_BYTES;
}

static bool is_info(const Elf64_Shdr *section, const char *name)
{
        return section->sh_type != SHT_NOBITS && !strncmp(name, ".nv.info.", strlen(".nv.info."));
}

static void function_add(ds_sass *sass, const Elf64_Sym *symbol, const char *name)
{
        Elf64_Shdr section;

        if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF ||
                symbol->st_shndx >= sass->n_sections || symbol->st_shndx >= SHN_LORESERVE)
                return;
        section = section_at(sass, symbol->st_shndx);
        if (!is_code(&section) || symbol->st_value % SASS_BYTES ||
                symbol->st_value / SASS_BYTES >= section.sh_size / SASS_BYTES)
                return;
        sass->functions[sass->n_functions++] = (struct function){
                .name = name,
                .section = symbol->st_shndx,
                .at = (uint32_t)DS_MIN(symbol->st_value / SASS_BYTES, (uint64_t)UINT32_MAX),
                .entry = (symbol->st_other & OTHER_ENTRY) != 0,
        };
}

static int functions_read(ds_sass *sass, const Elf64_Shdr *table)
{
        Elf64_Shdr names = section_at(sass, table->sh_link);
        uint64_t n = table->sh_size / sizeof(Elf64_Sym);

        sass->functions = ds_alloc0(n, sizeof(*sass->functions));
        sass->by_name = ds_alloc0(n, sizeof(*sass->by_name));
        if (!sass->functions || !sass->by_name)
                return ds_error_origin(-ENOMEM);
        for (uint64_t i = 0; i < n; i++) {
                Elf64_Sym symbol;

                memcpy(&symbol, sass->bytes + table->sh_offset + i * sizeof(symbol), sizeof(symbol));
                function_add(sass, &symbol, (const char *)sass->bytes + names.sh_offset + symbol.st_name);
        }
        qsort(sass->functions, sass->n_functions, sizeof(*sass->functions), compare_places);
        for (uint32_t i = 0; i < sass->n_functions; i++) {
                if (!sass->functions[i].entry)
                        continue;
                sass->texts[sass->functions[i].section].entry = true;
                if (strnlen(sass->functions[i].name, NAME_MAX_BYTES + 1) > NAME_MAX_BYTES)
                        continue;
                sass->by_name[sass->n_kernels++] = i;
        }
        qsort_r(sass->by_name, sass->n_kernels, sizeof(*sass->by_name), compare_names, sass);
        return 0;
}

static int sections_read(ds_sass *sass)
{
        Elf64_Shdr names = section_at(
                sass, sass->header.e_shstrndx == SHN_XINDEX ? section_at(sass, 0).sh_link : sass->header.e_shstrndx);
        uint64_t looked_at = 0;
        int r = 0;

        sass->texts = ds_alloc0(sass->n_sections, sizeof(*sass->texts));
        sass->info_of = ds_alloc0(sass->n_sections, sizeof(*sass->info_of));
        if (!sass->texts || !sass->info_of)
                return ds_error_origin(-ENOMEM);
        for (uint64_t i = 1; i < sass->n_sections && !r; i++) {
                Elf64_Shdr section = section_at(sass, i);
                const char *name = (const char *)sass->bytes + names.sh_offset + section.sh_name;

                if (section.sh_type == SHT_SYMTAB)
                        r = functions_read(sass, &section);
                else if (is_info(&section, name) && section.sh_info < sass->n_sections)
                        sass->info_of[section.sh_info] = (uint32_t)i;
                if (is_code(&section) || is_info(&section, name))
                        looked_at += section.sh_size;
                sass->overlaps |= looked_at > sass->size;
        }
        return ds_error_trace(r);
}

int ds_sass_open(const void *image, size_t size, ds_sass **ret)
{
        ds_cleanup(ds_sass_freep) ds_sass *sass = NULL;
        struct ds_cubin cubin;
        int r;

        if (ds_cubin_read(image, size, &cubin))
                return DS_SASS_E_NOT;
        sass = ds_alloc0(1, sizeof(*sass));
        if (!sass)
                return ds_error_origin(-ENOMEM);
        sass->bytes = image;
        sass->size = size;
        sass->cubin = cubin;
        memcpy(&sass->header, image, sizeof(sass->header));
        sass->n_sections = sass->header.e_shnum ? sass->header.e_shnum : section_at(sass, 0).sh_size;
        r = sections_read(sass);
        if (r)
                return ds_error_trace(r);
        *ret = DS_TAKE_PTR(sass);
        return 0;
}

ds_sass *ds_sass_free(ds_sass *sass)
{
        if (!sass)
                return NULL;
        ds_free(sass->functions);
        ds_free(sass->by_name);
        ds_free(sass->texts);
        ds_free(sass->info_of);
        return ds_free(sass);
}

/* --- properties ------------------- */

/* Whether the section contains functions beside kernels; their addresses may be called. */
static bool has_functions(const ds_sass *sass, uint32_t index)
{
        size_t low = 0, high = sass->n_functions;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (sass->functions[middle].section < index)
                        low = middle + 1;
                else
                        high = middle;
        }
        for (; low < sass->n_functions && sass->functions[low].section == index; low++)
                if (!sass->functions[low].entry)
                        return true;
        return false;
}

static struct sass_code code_of(const ds_sass *sass, uint32_t index)
{
        Elf64_Shdr section = section_at(sass, index), info = section_at(sass, sass->info_of[index]);

        return (struct sass_code){
                .text = sass->bytes + section.sh_offset,
                .n = (uint32_t)DS_MIN(section.sh_size / SASS_BYTES, (uint64_t)UINT32_MAX),
                .cc = sass->cubin.cc,
                .info = sass->info_of[index] ? sass->bytes + info.sh_offset : NULL,
                .info_size = sass->info_of[index] ? info.sh_size : 0,
        };
}

/* Reads functions in sections of their own, as in programs linked from parts. Kernels that call into other sections
 * call these. */
static int others_read(ds_sass *sass, bool loops)
{
        uint32_t last = 0;
        int r = 0;

        for (size_t i = 0; i < sass->n_functions && r >= 0; i++) {
                uint32_t index = sass->functions[i].section;
                struct sass_summary summary;
                struct sass_code code;

                if (sass->texts[index].entry || index == last)
                        continue;
                last = index;
                code = code_of(sass, index);
                code.others_ask = sass->others_ask;
                summary = sass_summary(&code);
                r = loops && !sass->others.waits ? sass_loops_wait(&code) : 0;
                sass->others.waits |= r > 0;
                sass->others.sees_shared |= summary.sees_shared;
                sass->others_ask |= summary.asks;
        }
        return r < 0 ? ds_error_trace(r) : 0;
}

static int others_know(ds_sass *sass)
{
        int r;

        if (sass->others_known)
                return 0;
        r = others_read(sass, false);
        if (!r)
                r = others_read(sass, true);
        sass->others_known = !r;
        return ds_error_trace(r);
}

static int text_know(ds_sass *sass, uint32_t index)
{
        struct text *text = &sass->texts[index];
        struct sass_summary summary;
        struct sass_code code;
        int r = 0;

        if (text->known)
                return 0;
        code = code_of(sass, index);
        summary = sass_summary(&code);
        if (summary.calls_elsewhere)
                r = others_know(sass);
        if (!r) {
                code.others_ask = sass->others_ask || (summary.asks && has_functions(sass, index));
                r = sass_loops_wait(&code);
        }
        if (r < 0)
                return ds_error_trace(r);
        text->facts.waits = r || (summary.calls_elsewhere && sass->others.waits);
        text->facts.sees_shared = summary.sees_shared || (summary.calls_elsewhere && sass->others.sees_shared);
        text->known = true;
        return 0;
}

int ds_sass_kernel(ds_sass *sass, const char *name, struct ds_sass_kernel *ret)
{
        size_t low = 0, high = sass->n_kernels;
        int order, r;

        *ret = (struct ds_sass_kernel){.waits = 1, .sees_shared = 1};
        if (sass->overlaps)
                return 0;
        while (low < high) {
                size_t middle = low + (high - low) / 2;
                const struct function *f = &sass->functions[sass->by_name[middle]];

                order = strcmp(name, f->name);
                if (!order) {
                        r = text_know(sass, f->section);
                        if (r)
                                return ds_error_trace(r);
                        *ret = sass->texts[f->section].facts;
                        return 0;
                }
                if (order < 0)
                        high = middle;
                else
                        low = middle + 1;
        }
        return 0;
}

const char *ds_sass_kernel_name(const ds_sass *sass, size_t index)
{
        return index < sass->n_kernels ? sass->functions[sass->by_name[index]].name : NULL;
}
