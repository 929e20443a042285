/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading of cubins: real ones of several architectures, and damaged ones
 *
 * Damaged ones are copies of exactly their size, so that the address sanitizer notices one byte too many.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/cubin.h"
#include "tests/unit/read_file.h"
#include "util/macro.h"

static uint8_t *load(const char *name, size_t *ret_size)
{
        return read_file_of(TEST_CUBIN_DIR, name, ret_size);
}

static struct ds_cubin read_file(const char *name, size_t *ret_size)
{
        struct ds_cubin cubin = {};
        uint8_t *bytes = load(name, ret_size);

        cr_assert(ds_cubin_is(bytes, *ret_size), "%s", name);
        cr_assert_eq(ds_cubin_read(bytes, *ret_size, &cubin), 0, "%s", name);
        free(bytes);
        return cubin;
}

Test(cubin, real_ones_of_every_layout)
{
        static const struct {
                const char *name;
                uint32_t cc, family, kernels, globals, prints, asserts, mallocs;
        } cases[] = {
                {"sm_75.plain.cubin", 75, 0, 1, 0, 0, 0, 0},
                {"sm_80.plain.cubin", 80, 0, 1, 0, 0, 0, 0},
                {"sm_86.plain.cubin", 86, 0, 1, 0, 0, 0, 0},
                {"sm_90.plain.cubin", 90, 0, 1, 0, 0, 0, 0},
                {"sm_90a.plain.cubin", 90, 1, 1, 0, 0, 0, 0},
                {"sm_100.plain.cubin", 100, 0, 1, 0, 0, 0, 0},
                {"sm_75.talks.cubin", 75, 0, 3, 0, 1, 1, 1},
                {"sm_90.talks.cubin", 90, 0, 3, 0, 1, 1, 1},
                {"sm_100.talks.cubin", 100, 0, 3, 0, 1, 1, 1},
                {"sm_90.variables.0.cubin", 90, 0, 1, 1, 0, 0, 0},
                {"sm_90.variables.1.cubin", 90, 0, 1, 1, 0, 0, 0},
                {"sm_90.variables.2.cubin", 90, 0, 1, 1, 0, 0, 0},
        };

        for (size_t i = 0; i < DS_ARRAY_SIZE(cases); i++) {
                size_t size;
                struct ds_cubin c = read_file(cases[i].name, &size);

                cr_expect_eq(c.cc, cases[i].cc, "%s: %u", cases[i].name, c.cc);
                cr_expect_eq(c.family, cases[i].family, "%s", cases[i].name);
                cr_expect_eq(c.n_kernels, cases[i].kernels, "%s: %u", cases[i].name, c.n_kernels);
                cr_expect_eq(c.has_globals, cases[i].globals, "%s", cases[i].name);
                cr_expect_eq(c.prints, cases[i].prints, "%s", cases[i].name);
                cr_expect_eq(c.asserts, cases[i].asserts, "%s", cases[i].name);
                cr_expect_eq(c.mallocs, cases[i].mallocs, "%s", cases[i].name);
                cr_expect_eq(c.size, size, "%s: %llu of %zu", cases[i].name, (unsigned long long)c.size, size);
        }
}

/* Finds the section and the symbol of the one variable in a cubin. */
static Elf64_Sym *variable_of(uint8_t *bytes, const char *in, Elf64_Shdr **ret_section)
{
        const Elf64_Ehdr *header = (const Elf64_Ehdr *)bytes;
        Elf64_Shdr *sections = (Elf64_Shdr *)(bytes + header->e_shoff);
        const char *names = (const char *)bytes + sections[header->e_shstrndx].sh_offset;

        for (unsigned i = 1; i < header->e_shnum; i++) {
                const Elf64_Shdr *table = &sections[i];

                for (size_t k = 0; table->sh_type == SHT_SYMTAB && k < table->sh_size / sizeof(Elf64_Sym); k++) {
                        Elf64_Sym *symbol = (Elf64_Sym *)(bytes + table->sh_offset) + k;

                        if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || !symbol->st_shndx ||
                                strcmp(names + sections[symbol->st_shndx].sh_name, in))
                                continue;
                        *ret_section = &sections[symbol->st_shndx];
                        return symbol;
                }
        }
        cr_assert_fail("no variable in %s", in);
        return NULL;
}

/* A zeroed section holds writable variables whatever its name, and takes memory that the file does not contain. */
Test(cubin, variables_hidden_and_huge)
{
        size_t size;
        uint8_t *bytes = load("sm_90.variables.0.cubin", &size);
        struct ds_cubin cubin;
        Elf64_Shdr *section;
        Elf64_Sym *symbol = variable_of(bytes, ".nv.global", &section);
        const uint64_t was = symbol->st_size;

        cr_assert_eq(ds_cubin_read(bytes, size, &cubin), 0);
        cr_assert(cubin.has_globals && cubin.variable_bytes == section->sh_size, "%llu",
                (unsigned long long)cubin.variable_bytes);
        symbol->st_size = section->sh_size - symbol->st_value + 1;
        cr_assert_eq(ds_cubin_read(bytes, size, &cubin), DS_CUBIN_E_NOT, "a variable larger than all of them");
        symbol->st_size = was;
        symbol->st_value = UINT64_MAX - 1;
        cr_assert_eq(ds_cubin_read(bytes, size, &cubin), DS_CUBIN_E_NOT);
        symbol->st_info = ELF64_ST_INFO(STB_LOCAL, STT_NOTYPE);
        section->sh_size = DS_GIB(100);
        cr_assert_eq(ds_cubin_read(bytes, size, &cubin), 0);
        cr_assert(cubin.has_globals, "one that has no symbol");
        cr_assert_eq(cubin.variable_bytes, DS_GIB(100));
        section->sh_size = 0;
        cr_assert_eq(ds_cubin_read(bytes, size, &cubin), 0);
        cr_assert(!cubin.has_globals && !cubin.variable_bytes);
        free(bytes);
}

Test(cubin, the_old_layout_of_the_flags)
{
        size_t size;
        uint8_t *bytes = load("sm_90.plain.cubin", &size);
        Elf64_Ehdr *header = (Elf64_Ehdr *)bytes;
        struct ds_cubin cubin;

        header->e_ident[EI_OSABI] = 51;
        header->e_flags = 0x5a055a; /* flags of code for sm_90, 64 bit, compiled from compute_90 */
        cr_assert_eq(ds_cubin_read(bytes, size, &cubin), 0);
        cr_assert(cubin.cc == 0x5a && !cubin.family);
        header->e_flags |= 0x800;
        cr_assert_eq(ds_cubin_read(bytes, size, &cubin), 0);
        cr_assert(cubin.cc == 0x5a && cubin.family);
        free(bytes);
}

Test(cubin, what_follows_is_not_counted)
{
        size_t size;
        uint8_t *bytes = load("sm_90.plain.cubin", &size);
        struct ds_cubin cubin;

        bytes = realloc(bytes, size + 100);
        memset(bytes + size, 'x', 100);
        cr_assert_eq(ds_cubin_read(bytes, size + 100, &cubin), 0);
        cr_assert_eq(cubin.size, size);
        free(bytes);
}

Test(cubin, which_gpu_runs_which)
{
        static const struct {
                uint32_t cc, family, gpu;
                int runs;
        } cases[] = {
                {90, 0, 90, 1},
                {90, 1, 90, 1},
                {80, 0, 86, 1},
                {86, 0, 80, 0},
                {80, 0, 90, 0},
                {90, 0, 100, 0},
                {100, 0, 103, 1},
                {100, 1, 103, 0},
                {75, 0, 75, 1},
        };

        for (size_t i = 0; i < DS_ARRAY_SIZE(cases); i++) {
                struct ds_cubin cubin = {.cc = cases[i].cc, .family = cases[i].family};

                cr_assert_eq(ds_cubin_runs_on(&cubin, cases[i].gpu), cases[i].runs, "case %zu", i);
        }
}

/* A truncated cubin is refused, because its section headers are at its end. */
Test(cubin, cut_at_every_byte)
{
        size_t size;
        uint8_t *bytes = load("sm_90.talks.cubin", &size);

        for (size_t n = 0; n < size; n++) {
                uint8_t *cut = malloc(n ? n : 1);
                struct ds_cubin cubin;

                memcpy(cut, bytes, n);
                cr_assert_eq(ds_cubin_read(cut, n, &cubin), DS_CUBIN_E_NOT, "%zu of %zu bytes", n, size);
                free(cut);
        }
        free(bytes);
}

Test(cubin, changed_at_random)
{
        static const char *const names[] = {"sm_75.talks.cubin", "sm_90.talks.cubin", "sm_100.talks.cubin"};
        unsigned seed = 20261120, intact = 0, refused = 0;

        for (int round = 0; round < 30000; round++) {
                static uint8_t *files[DS_ARRAY_SIZE(names)];
                static size_t sizes[DS_ARRAY_SIZE(names)];
                size_t which = (size_t)round % DS_ARRAY_SIZE(names), size;
                struct ds_cubin cubin;
                uint8_t *copy;

                if (!files[which])
                        files[which] = load(names[which], &sizes[which]);
                size = sizes[which];
                copy = malloc(size);
                memcpy(copy, files[which], size);
                /* most changes hit the headers and tables */
                for (int n = 1 + rand_r(&seed) % 8; n; n--) {
                        size_t at = (size_t)rand_r(&seed) % 3 ? (size_t)rand_r(&seed) % size
                                                              : (size_t)rand_r(&seed) % sizeof(Elf64_Ehdr);

                        copy[at] = (uint8_t)rand_r(&seed);
                }
                if (ds_cubin_read(copy, size, &cubin))
                        refused++;
                else
                        intact += cubin.size <= size;
                free(copy);
                if (round >= 30000 - (int)DS_ARRAY_SIZE(names))
                        free(files[which]);
        }
        cr_assert_eq(intact + refused, 30000, "a size past the end was accepted");
        cr_assert(intact > 1000 && refused > 1000, "%u %u", intact, refused);
}

/* Millions of symbol tables that share the same bytes: the reader refuses the second one. */
Test(cubin, one_table_many_times, .timeout = 10)
{
        size_t size, n = 200000;
        uint8_t *file = load("sm_90.plain.cubin", &size), *bytes = calloc(1, size + n * sizeof(Elf64_Shdr));
        Elf64_Ehdr *header = (Elf64_Ehdr *)bytes;
        Elf64_Shdr *sections, *table = NULL;
        struct ds_cubin cubin;

        memcpy(bytes, file, size);
        sections = (Elf64_Shdr *)(bytes + header->e_shoff);
        for (unsigned i = 0; i < header->e_shnum; i++)
                if (sections[i].sh_type == SHT_SYMTAB)
                        table = &sections[i];
        cr_assert_not_null(table);
        for (size_t i = header->e_shnum; i < n; i++)
                sections[i] = *table;
        sections[0].sh_size = n;
        header->e_shnum = 0;
        cr_assert_eq(ds_cubin_read(bytes, size + n * sizeof(Elf64_Shdr), &cubin), DS_CUBIN_E_NOT);
        free(bytes);
        free(file);
}

/* Kinds of damage to the tables of a copy */
enum damage {
        HEADERS_OUTSIDE,
        HEADER_SIZE,
        TOO_MANY,
        NO_NAMES,
        NAMES_OPEN,
        NAMES_OUTSIDE,
        PROGRAM_OUTSIDE,
        SECTION_OUTSIDE,
        NAME_OUTSIDE,
        SYMBOL_SIZE,
        SYMBOL_NAME,
        NO_TARGET,
        CLASS,
        _DAMAGES,
};

static void do_damage(uint8_t *bytes, enum damage damage)
{
        Elf64_Ehdr *header = (Elf64_Ehdr *)bytes;
        Elf64_Shdr *sections = (Elf64_Shdr *)(bytes + header->e_shoff), *names = &sections[header->e_shstrndx];
        Elf64_Shdr *symbols = sections;

        while (symbols->sh_type != SHT_SYMTAB)
                symbols++;
        switch (damage) {
        case HEADERS_OUTSIDE:
                header->e_shoff = UINT64_MAX - 8;
                break;
        case HEADER_SIZE:
                header->e_shentsize--;
                break;
        case TOO_MANY:
                header->e_shnum = 60000;
                break;
        case NO_NAMES:
                header->e_shstrndx = header->e_shnum;
                break;
        case NAMES_OPEN:
                bytes[names->sh_offset + names->sh_size - 1] = 'x';
                break;
        case NAMES_OUTSIDE:
                names->sh_offset = UINT64_MAX;
                break;
        case PROGRAM_OUTSIDE:
                header->e_phoff = UINT64_MAX - 4;
                header->e_phnum = 2;
                header->e_phentsize = 56;
                break;
        case SECTION_OUTSIDE:
                symbols->sh_size = UINT64_MAX;
                break;
        case NAME_OUTSIDE:
                symbols->sh_name = UINT32_MAX;
                break;
        case SYMBOL_SIZE:
                symbols->sh_entsize = 23;
                break;
        case SYMBOL_NAME:
                ((Elf64_Sym *)(bytes + symbols->sh_offset))[1].st_name = UINT32_MAX;
                break;
        case NO_TARGET:
                header->e_flags = 0;
                break;
        default:
                header->e_ident[EI_CLASS] = ELFCLASS32;
        }
}

/* A refusal says what is wrong with the image. */
Test(cubin, refusals_say_why)
{
        static const char *const words[_DAMAGES] = {
                [HEADERS_OUTSIDE] = "section headers lie outside of the file",
                [HEADER_SIZE] = "section headers have a size",
                [TOO_MANY] = "more section headers than it has room for",
                [NO_NAMES] = "a number that no section has",
                [NAMES_OPEN] = "does not end with a NUL",
                [NAMES_OUTSIDE] = "is empty or lies outside of the file",
                [PROGRAM_OUTSIDE] = "program headers lie outside of the file",
                [SECTION_OUTSIDE] = "a section lies outside of the file",
                [NAME_OUTSIDE] = "a section's name lies outside",
                [SYMBOL_SIZE] = "symbols have a size",
                [SYMBOL_NAME] = "a symbol's name lies outside",
                [NO_TARGET] = "does not say which GPUs",
                [CLASS] = "not that of a 64-bit ELF file for CUDA",
        };
        size_t size;
        uint8_t *bytes = load("sm_90.plain.cubin", &size), *copy = malloc(size);
        struct ds_cubin cubin;
        const char *why;

        cr_assert_null(ds_cubin_why(bytes, size));
        for (int i = 0; i < _DAMAGES; i++) {
                memcpy(copy, bytes, size);
                do_damage(copy, (enum damage)i);
                cr_assert_eq(ds_cubin_read(copy, size, &cubin), DS_CUBIN_E_NOT, "%s", words[i]);
                why = ds_cubin_why(copy, size);
                cr_assert(why && strstr(why, words[i]), "'%s' does not say '%s'", why, words[i]);
        }
        free(copy);
        free(bytes);
}

Test(cubin, others_are_none)
{
        static const char text[] =
                ".version 9.0\n.target sm_90\n.address_size 64\n// long enough for an ELF header .....";
        uint8_t elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
        struct ds_cubin cubin;

        cr_assert(!ds_cubin_is(text, sizeof(text)) && !ds_cubin_is(elf, sizeof(elf)) && !ds_cubin_is("", 0));
        cr_assert_eq(ds_cubin_read(text, sizeof(text), &cubin), DS_CUBIN_E_NOT);
        cr_assert_eq(ds_cubin_read(elf, sizeof(elf), &cubin), DS_CUBIN_E_NOT);
}
