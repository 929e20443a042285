/* SPDX-License-Identifier: Apache-2.0 */
#include "image/cubin.h"

#include <elf.h>
#include <string.h>

#define MACHINE_CUDA 190
/* ELF OS ABI up to toolkit 12: the SM number is the low byte of e_flags; with a later one it is the second byte */
#define OSABI_OLD 51

/* Flags in e_flags for code that runs on one architecture only, in the old and the new layout. */
#define FLAG_FAMILY_OLD 0x800u
#define FLAG_FAMILY 0x8u

#define OTHER_ENTRY 0x10 /* st_other of the symbol of a kernel */

/* Section .nv.compat: records of (form, attribute, 16 bits). After a record of form 4 follow as many bytes as its 16
 * bits say. */
#define COMPAT_FORM_SIZED 4
#define COMPAT_FAMILY 9

/* The image, its header and section names. Entries of its tables are read through copies, because the image is not
 * aligned. */
struct elf {
        const uint8_t *bytes;
        uint64_t size;
        Elf64_Ehdr header;
        uint64_t n_sections;
        const char *section_names;
        uint64_t section_names_size;
        const char *why; /* reason why the image is refused */
};

static int refuse(struct elf *elf, const char *why)
{
        elf->why = why;
        return DS_CUBIN_E_NOT;
}

static int in_image(const struct elf *elf, uint64_t offset, uint64_t size)
{
        return offset <= elf->size && size <= elf->size - offset;
}

static Elf64_Shdr section_at(const struct elf *elf, uint64_t index)
{
        Elf64_Shdr section;

        memcpy(&section, elf->bytes + elf->header.e_shoff + index * sizeof(section), sizeof(section));
        return section;
}

static int section_fits(const struct elf *elf, const Elf64_Shdr *section)
{
        return section->sh_type == SHT_NOBITS || in_image(elf, section->sh_offset, section->sh_size);
}

/* Returns a section as strings, after checking that the last one is terminated. Returns 0 or DS_CUBIN_E_NOT. */
static int strings_of(struct elf *elf, uint64_t index, const char **ret, uint64_t *ret_size)
{
        Elf64_Shdr section;

        if (index >= elf->n_sections)
                return refuse(elf, "a table of strings has a number that no section has");
        section = section_at(elf, index);
        if (section.sh_type == SHT_NOBITS || !section.sh_size || !section_fits(elf, &section))
                return refuse(elf, "a table of strings is empty or lies outside of the file");
        if (elf->bytes[section.sh_offset + section.sh_size - 1])
                return refuse(elf, "a table of strings does not end with a NUL");
        *ret = (const char *)elf->bytes + section.sh_offset;
        *ret_size = section.sh_size;
        return 0;
}

/* The section's name; NULL if it lies outside the table. */
static const char *section_name(const struct elf *elf, const Elf64_Shdr *section)
{
        return section->sh_name < elf->section_names_size ? elf->section_names + section->sh_name : NULL;
}

int ds_cubin_is(const void *image, size_t size)
{
        Elf64_Ehdr header;

        if (size < sizeof(header))
                return 0;
        memcpy(&header, image, sizeof(header));
        return !memcmp(header.e_ident, ELFMAG, SELFMAG) && header.e_ident[EI_CLASS] == ELFCLASS64 &&
               header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_machine == MACHINE_CUDA;
}

/* Finds the section table. In a file with very many kernels, the first section header holds the counts. */
static int elf_open(struct elf *elf)
{
        uint64_t names;

        if (!ds_cubin_is(elf->bytes, elf->size))
                return refuse(elf, "its header is not that of a 64-bit ELF file for CUDA");
        memcpy(&elf->header, elf->bytes, sizeof(elf->header));
        if (elf->header.e_shentsize != sizeof(Elf64_Shdr))
                return refuse(elf, "its section headers have a size that is not ELF's");
        if (!in_image(elf, elf->header.e_shoff, sizeof(Elf64_Shdr)))
                return refuse(elf, "its section headers lie outside of the file");
        elf->n_sections = elf->header.e_shnum ? elf->header.e_shnum : section_at(elf, 0).sh_size;
        if (elf->n_sections > (elf->size - elf->header.e_shoff) / sizeof(Elf64_Shdr))
                return refuse(elf, "it claims more section headers than it has room for");
        if (!elf->n_sections)
                return refuse(elf, "it has no sections");
        names = elf->header.e_shstrndx == SHN_XINDEX ? section_at(elf, 0).sh_link : elf->header.e_shstrndx;
        return strings_of(elf, names, &elf->section_names, &elf->section_names_size);
}

/* Computes the end of the header, section or segment that lies last in the file. */
static int elf_end(struct elf *elf, uint64_t *ret)
{
        uint64_t end = elf->header.e_shoff + elf->n_sections * sizeof(Elf64_Shdr), segments;
        Elf64_Shdr section;

        segments = (uint64_t)elf->header.e_phnum * elf->header.e_phentsize;
        if (segments && !in_image(elf, elf->header.e_phoff, segments))
                return refuse(elf, "its program headers lie outside of the file");
        if (segments && elf->header.e_phoff + segments > end)
                end = elf->header.e_phoff + segments;
        for (uint64_t i = 1; i < elf->n_sections; i++) {
                section = section_at(elf, i);
                if (!section_fits(elf, &section))
                        return refuse(elf, "a section lies outside of the file");
                if (!section_name(elf, &section))
                        return refuse(elf, "a section's name lies outside of the table of names");
                if (section.sh_type != SHT_NOBITS && section.sh_offset + section.sh_size > end)
                        end = section.sh_offset + section.sh_size;
        }
        *ret = end;
        return 0;
}

static int starts_with(const char *text, const char *prefix)
{
        return !strncmp(text, prefix, strlen(prefix));
}

/*
 * Whether a variable is the compiler's own: strings for printf and assert, function names, tables of the mathematical
 * library. All of them are initialised, and no program can name or write them.
 */
static int is_compilers_own(const char *name)
{
        static const char *const prefixes[] = {"$str", "__unnamed_", "__cudart_", ".str", "$_str", "_$_str"};

        for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
                if (starts_with(name, prefixes[i]))
                        return 1;
        return 0;
}

static int holds_variables(const char *section)
{
        return !strcmp(section, ".nv.global") || !strcmp(section, ".nv.global.init") ||
               !strcmp(section, ".nv.constant3") || !strcmp(section, ".nv.constant.user");
}

static void undefined_read(const char *name, struct ds_cubin *cubin)
{
        if (!strcmp(name, "vprintf"))
                cubin->prints = 1;
        if (!strcmp(name, "__assertfail"))
                cubin->asserts = 1;
        if (!strcmp(name, "malloc") || !strcmp(name, "free") || !strcmp(name, "__nv_aligned_device_malloc"))
                cubin->mallocs = 1;
}

static int symbol_read(struct elf *elf, const Elf64_Sym *symbol, const char *name, struct ds_cubin *cubin)
{
        unsigned type = ELF64_ST_TYPE(symbol->st_info), bind = ELF64_ST_BIND(symbol->st_info);
        Elf64_Shdr section;

        if (symbol->st_shndx == SHN_UNDEF) {
                undefined_read(name, cubin);
                return 0;
        }
        if (type == STT_FUNC && bind != STB_LOCAL && symbol->st_other & OTHER_ENTRY)
                cubin->n_kernels++;
        if (type != STT_OBJECT || !symbol->st_size)
                return 0;
        /* a section number that does not fit this field is not looked up; the symbol may be a variable, so it counts
         * as one */
        if (symbol->st_shndx == SHN_XINDEX)
                cubin->has_globals = 1;
        if (symbol->st_shndx >= SHN_LORESERVE)
                return 0;
        if (symbol->st_shndx >= elf->n_sections)
                return refuse(elf, "a variable is in a section that there is not");
        section = section_at(elf, symbol->st_shndx);
        if (!holds_variables(section_name(elf, &section)))
                return 0;
        /* the driver trusts the symbol's size, and a program may copy to all of it */
        if (symbol->st_value > section.sh_size || symbol->st_size > section.sh_size - symbol->st_value)
                return refuse(elf, "a variable is larger than its section");
        if (!is_compilers_own(name))
                cubin->has_globals = 1;
        return 0;
}

static int symbols_read(struct elf *elf, const Elf64_Shdr *table, struct ds_cubin *cubin)
{
        uint64_t names_size;
        const char *names;
        Elf64_Sym symbol;

        if (table->sh_entsize != sizeof(symbol) || table->sh_size % sizeof(symbol))
                return refuse(elf, "its symbols have a size that is not ELF's");
        if (strings_of(elf, table->sh_link, &names, &names_size))
                return DS_CUBIN_E_NOT;
        for (uint64_t at = 0; at < table->sh_size; at += sizeof(symbol)) {
                memcpy(&symbol, elf->bytes + table->sh_offset + at, sizeof(symbol));
                if (symbol.st_name >= names_size)
                        return refuse(elf, "a symbol's name lies outside of the table of names");
                if (symbol_read(elf, &symbol, names + symbol.st_name, cubin))
                        return DS_CUBIN_E_NOT;
        }
        return 0;
}

/* Reads .nv.compat, where toolkit 13.0 marks sm_90a code, instead of in e_flags. */
static void compat_read(const struct elf *elf, const Elf64_Shdr *section, struct ds_cubin *cubin)
{
        const uint8_t *p = elf->bytes + section->sh_offset;
        uint64_t left = section->sh_size, step;

        for (; left >= 4; p += step, left -= step) {
                step = 4;
                if (p[0] == COMPAT_FORM_SIZED)
                        step += (uint64_t)p[2] | (uint64_t)p[3] << 8;
                else if (p[1] == COMPAT_FAMILY && p[2])
                        cubin->family = 1;
                if (step > left)
                        return;
        }
}

/*
 * Adds the GPU memory that the section occupies while the image is loaded. Zero-filled sections count whatever their
 * name: a file of a few bytes may declare any amount of it.
 */
static void memory_read(const Elf64_Shdr *section, const char *name, struct ds_cubin *cubin)
{
        const uint64_t wanted = SHF_WRITE | SHF_ALLOC;

        if (!section->sh_size || (section->sh_flags & wanted) != wanted || starts_with(name, ".nv.shared") ||
                starts_with(name, ".nv.local"))
                return;
        if (section->sh_type == SHT_NOBITS)
                cubin->has_globals = 1;
        if (__builtin_add_overflow(cubin->variable_bytes, section->sh_size, &cubin->variable_bytes))
                cubin->variable_bytes = UINT64_MAX;
}

/* Reads all sections. Accepts one table of each kind: a million references to one table could be read almost
 * forever. */
static int sections_read(struct elf *elf, struct ds_cubin *cubin)
{
        int tables = 0, compats = 0;
        Elf64_Shdr section;

        for (uint64_t i = 1; i < elf->n_sections; i++) {
                section = section_at(elf, i);
                memory_read(&section, section_name(elf, &section), cubin);
                if (section.sh_type == SHT_SYMTAB && tables++)
                        return refuse(elf, "it has several tables of symbols");
                if (section.sh_type == SHT_SYMTAB && symbols_read(elf, &section, cubin))
                        return DS_CUBIN_E_NOT;
                if (section.sh_type != SHT_NOBITS && !strcmp(section_name(elf, &section), ".nv.compat") && !compats++)
                        compat_read(elf, &section, cubin);
        }
        return 0;
}

static int cubin_read(struct elf *elf, struct ds_cubin *ret)
{
        struct ds_cubin cubin = {};
        uint32_t flags;
        int old;

        if (elf_open(elf) || elf_end(elf, &cubin.size))
                return DS_CUBIN_E_NOT;
        flags = elf->header.e_flags;
        old = elf->header.e_ident[EI_OSABI] == OSABI_OLD;
        cubin.cc = old ? flags & 0xff : flags >> 8 & 0xff;
        cubin.family = !!(flags & (old ? FLAG_FAMILY_OLD : FLAG_FAMILY));
        if (!cubin.cc)
                return refuse(elf, "it does not say which GPUs it is for");
        /* symbols of relocatable code do not say which variables it will have */
        cubin.has_globals = elf->header.e_type != ET_EXEC;
        if (sections_read(elf, &cubin))
                return DS_CUBIN_E_NOT;
        *ret = cubin;
        return 0;
}

int ds_cubin_read(const void *image, size_t size, struct ds_cubin *ret)
{
        struct elf elf = {.bytes = image, .size = size};

        return cubin_read(&elf, ret);
}

const char *ds_cubin_why(const void *image, size_t size)
{
        struct elf elf = {.bytes = image, .size = size};
        struct ds_cubin cubin;

        return cubin_read(&elf, &cubin) ? elf.why : NULL;
}

int ds_cubin_runs_on(const struct ds_cubin *cubin, uint32_t cc)
{
        if (cubin->family)
                return cubin->cc == cc;
        return cubin->cc / 10 == cc / 10 && cubin->cc <= cc;
}
