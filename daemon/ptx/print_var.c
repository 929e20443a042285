/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/print.h"

#include <inttypes.h>
#include <string.h>

static const char *space_word(enum ds_ptx_space space)
{
        static const char *const words[] = {"", ".reg", ".global", ".const", ".shared", ".local", ".param"};

        return words[space];
}

const char *ds_ptx_linkage_text(enum ds_ptx_linkage linkage)
{
        static const char *const words[] = {"", ".visible ", ".extern ", ".weak ", ".common "};

        return words[linkage];
}

static void print_type(FILE *out, const struct ds_ptx_var *var)
{
        fputs(space_word((enum ds_ptx_space)var->space), out);
        if (var->managed)
                fputs(" .attribute(.managed)", out);
        if (var->align_given)
                fprintf(out, " .align %u", var->align);
        if (var->vector)
                fprintf(out, " .v%u", var->vector);
        fprintf(out, " .%s", ds_ptx_type_name((enum ds_ptx_type)var->type));
        if (!var->is_ptr)
                return;
        fputs(" .ptr", out);
        if (var->ptr_space)
                fprintf(out, " %s", space_word((enum ds_ptx_space)var->ptr_space));
        if (var->ptr_align)
                fprintf(out, " .align %u", var->ptr_align);
}

static void print_name(FILE *out, const struct ds_ptx_var *var)
{
        fprintf(out, " %s", var->name ? var->name : "_");
        for (uint32_t i = 0; i < var->n_dims; i++) {
                if (var->unsized && !i)
                        fputs("[]", out);
                else
                        fprintf(out, "[%" PRIu64 "]", var->dims[i]);
        }
}

static void print_reloc(FILE *out, const struct ds_ptx_reloc *reloc)
{
        if (reloc->mask)
                fprintf(out, "0x%" PRIX64 "(", reloc->mask);
        fprintf(out, "%s%s%s", reloc->generic ? "generic(" : "", reloc->var ? reloc->var->name : reloc->function->name,
                reloc->generic ? ")" : "");
        if (reloc->addend)
                fprintf(out, "+%" PRId64, reloc->addend);
        if (reloc->mask)
                fputc(')', out);
}

static void print_value(FILE *out, const struct ds_ptx_var *var, const uint8_t *at, uint64_t size)
{
        uint64_t bits = 0;

        memcpy(&bits, at, size);
        if (var->type == DS_PTX_TYPE_F32)
                fprintf(out, "0f%08" PRIX64, bits);
        else if (var->type == DS_PTX_TYPE_F64)
                fprintf(out, "0d%016" PRIX64, bits);
        else
                fprintf(out, "%" PRIu64, bits);
}

/* State of printing the initial values of one variable. */
struct row {
        const struct ds_ptx_var *var;
        uint64_t element;
        uint32_t reloc; /* index of the next address in the variable's relocs */
};

static void print_element(FILE *out, struct row *row, uint64_t offset)
{
        const struct ds_ptx_var *var = row->var;

        while (row->reloc < var->n_relocs && var->relocs[row->reloc].offset < offset)
                row->reloc++;
        if (row->reloc < var->n_relocs && var->relocs[row->reloc].offset == offset)
                print_reloc(out, &var->relocs[row->reloc]);
        else
                print_value(out, var, var->data + offset, row->element);
}

static void print_row(FILE *out, struct row *row, uint32_t level, uint64_t offset)
{
        const struct ds_ptx_var *var = row->var;
        uint32_t levels = var->n_dims + (var->vector ? 1 : 0);
        uint64_t count = level < var->n_dims ? var->dims[level] : var->vector;
        uint64_t step = row->element;

        for (uint32_t i = level + 1; i < levels; i++)
                step *= i < var->n_dims ? var->dims[i] : var->vector;
        fputc('{', out);
        for (uint64_t i = 0; i < count && offset < var->initialised; i++, offset += step) {
                fputs(i ? ", " : "", out);
                if (level + 1 < levels)
                        print_row(out, row, level + 1, offset);
                else
                        print_element(out, row, offset);
        }
        fputc('}', out);
}

void ds_ptx_print_var(FILE *out, const struct ds_ptx_var *var)
{
        uint64_t bytes = ds_ptx_type_bits((enum ds_ptx_type)var->type) / 8;
        struct row row = {.var = var, .element = bytes ? bytes : 1};

        fputs(ds_ptx_linkage_text((enum ds_ptx_linkage)var->linkage), out);
        print_type(out, var);
        print_name(out, var);
        if (!var->data)
                return;
        fputs(" = ", out);
        if (var->n_dims || var->vector)
                print_row(out, &row, 0, 0);
        else
                print_element(out, &row, 0);
}

void ds_ptx_print_params(FILE *out, struct ds_ptx_var *const *params, uint32_t n)
{
        ds_ptx_print_params_and(out, params, n, NULL);
}

void ds_ptx_print_params_and(FILE *out, struct ds_ptx_var *const *params, uint32_t n, const char *more)
{
        fputc('(', out);
        for (uint32_t i = 0; i < n; i++) {
                fputs(i ? ", " : "", out);
                print_type(out, params[i]);
                print_name(out, params[i]);
        }
        if (more)
                fprintf(out, "%s%s", n ? ", " : "", more);
        fputc(')', out);
}
