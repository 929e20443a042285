/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rename: numbers registers and labels in the order of the text
 *
 * Two versions of a kernel then differ only where they were changed, and not in all later numbers. A register's name
 * consists of its type and a number per type. All are declared at the top of the body, whatever their scopes were: the
 * front end distinguishes registers of one function wherever they are declared. Parameters in registers, variables and
 * functions keep their names.
 *
 * Refused: functions of modules with debug sections, which name labels (use strip-debug first), and names of variables
 * or functions that look like the new ones.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/pass/pass.h"
#include "ptx/print.h"
#include "util/error.h"
#include "util/macro.h"

#define LABEL "$L_"
#define TARGETS "$T_"

/* Stem of the new register names of a type. No stem is another one with digits behind it. */
static const char *stem_of(enum ds_ptx_type type)
{
        switch (type) {
        case DS_PTX_TYPE_PRED:
                return "%p";
        case DS_PTX_TYPE_B16:
                return "%rs";
        case DS_PTX_TYPE_B32:
                return "%r";
        case DS_PTX_TYPE_B64:
                return "%rd";
        case DS_PTX_TYPE_B128:
                return "%rq";
        case DS_PTX_TYPE_F32:
                return "%f";
        case DS_PTX_TYPE_F64:
                return "%fd";
        default:
                return NULL; /* the stem is then the type's own name between % and _ */
        }
}

struct renamed {
        struct ds_ptx_function copy; /* copy of the function with its own registers and labels */
        ds_arena *arena;
        uint32_t count[_DS_PTX_TYPE_MAX], n_vectors;
        struct ds_ptx_reg_decl ranges[_DS_PTX_TYPE_MAX];
        char stems[_DS_PTX_TYPE_MAX][32];
};

/* Marks registers that are parameters or results: their declarations must not change. */
static void mark_parameters(const struct ds_ptx_function *f, uint8_t *kept)
{
        for (uint32_t i = 0; i < f->n_params; i++)
                if (f->params[i]->reg != DS_PTX_NO_REG)
                        kept[f->params[i]->reg] = 1;
        for (uint32_t i = 0; i < f->n_rets; i++)
                if (f->rets[i]->reg != DS_PTX_NO_REG)
                        kept[f->rets[i]->reg] = 1;
}

/* Declares a vector register under a new name, for all its components; reg: its first component. */
static int rename_vector(struct renamed *n, uint32_t reg)
{
        struct ds_ptx_reg_decl *decl = ds_arena_alloc(n->arena, 1, sizeof(*decl));
        const struct ds_ptx_reg_decl *old = n->copy.regs[reg].decl;
        char name[32];

        if (!decl)
                return -ENOMEM;
        *decl = *old;
        snprintf(name, sizeof(name), "%%v_%u", n->n_vectors++);
        decl->name = ds_arena_strndup(n->arena, name, strlen(name));
        for (uint32_t i = reg; i < n->copy.n_regs && n->copy.regs[i].decl == old; i++)
                n->copy.regs[i].decl = decl;
        return decl->name ? 0 : -ENOMEM;
}

static int rename_registers(struct renamed *n, const struct ds_ptx_function *f)
{
        uint8_t *kept = ds_arena_alloc(n->arena, f->n_regs + (size_t)1, 1);

        n->copy.regs = ds_arena_alloc(n->arena, f->n_regs + (size_t)1, sizeof(*f->regs));
        if (!n->copy.regs || !kept)
                return -ENOMEM;
        mark_parameters(f, kept);
        if (f->n_regs)
                memcpy(n->copy.regs, f->regs, f->n_regs * sizeof(*f->regs));
        for (uint32_t i = 0; i < f->n_regs; i++) {
                struct ds_ptx_reg *reg = &n->copy.regs[i];

                if (kept[i])
                        continue;
                if (reg->decl->vector) {
                        if (reg->decl == f->regs[i].decl && rename_vector(n, i))
                                return -ENOMEM;
                        continue;
                }
                reg->number = n->count[reg->type]++;
                reg->decl = &n->ranges[reg->type];
        }
        for (uint32_t t = 1; t < _DS_PTX_TYPE_MAX; t++) {
                const char *stem = stem_of((enum ds_ptx_type)t);

                snprintf(n->stems[t], sizeof(n->stems[t]), stem ? "%s" : "%%%s_",
                        stem ? stem : ds_ptx_type_name((enum ds_ptx_type)t));
                n->ranges[t] = (struct ds_ptx_reg_decl){.name = n->stems[t], .count = n->count[t], .type = (uint8_t)t};
        }
        return 0;
}

/* Copies labels, lists and prototypes with new names. */
static int rename_labels(struct renamed *n, const struct ds_ptx_function *f)
{
        char name[32];

        n->copy.labels = ds_arena_alloc(n->arena, f->n_labels + (size_t)1, sizeof(*f->labels));
        n->copy.targets = ds_arena_alloc(n->arena, f->n_targets + (size_t)1, sizeof(*f->targets));
        if (!n->copy.labels || !n->copy.targets)
                return -ENOMEM;
        for (uint32_t i = 0; i < f->n_labels; i++) {
                n->copy.labels[i] = f->labels[i];
                snprintf(name, sizeof(name), LABEL "%u", i);
                n->copy.labels[i].name = ds_arena_strndup(n->arena, name, strlen(name));
                if (!n->copy.labels[i].name)
                        return -ENOMEM;
        }
        for (uint32_t i = 0; i < f->n_targets; i++) {
                n->copy.targets[i] = f->targets[i];
                snprintf(name, sizeof(name), TARGETS "%u", i);
                n->copy.targets[i].name = ds_arena_strndup(n->arena, name, strlen(name));
                if (!n->copy.targets[i].name)
                        return -ENOMEM;
        }
        return 0;
}

/* --- the edits --- */

static void put_declarations(const struct renamed *n, const struct ds_ptx_function *f, FILE *out)
{
        for (uint32_t t = 1; t < _DS_PTX_TYPE_MAX; t++)
                if (n->count[t])
                        fprintf(out, "\t.reg .%s %s<%u>;\n", ds_ptx_type_name((enum ds_ptx_type)t), n->stems[t],
                                n->count[t]);
        for (uint32_t i = 0; i < f->n_regs; i++) {
                const struct ds_ptx_reg_decl *decl = n->copy.regs[i].decl;

                if (decl->vector && n->copy.regs[i].component == 0 && decl != f->regs[i].decl)
                        fprintf(out, "\t.reg .v%u .%s %s;\n", decl->vector,
                                ds_ptx_type_name((enum ds_ptx_type)decl->type), decl->name);
        }
}

static void replace_item(struct ds_ptx_pass_run *run, const struct renamed *n, const struct ds_ptx_function *f,
        uint32_t index, FILE *out, char **text)
{
        const struct ds_ptx_item *item = &f->items[index];

        if (item->kind == DS_PTX_ITEM_REG) {
                ds_ptx_edit_remove_item(run->edit, f, index);
                return;
        }
        if (item->kind != DS_PTX_ITEM_LABEL && item->kind != DS_PTX_ITEM_TARGETS)
                return;
        rewind(out);
        ds_ptx_print_item(out, &n->copy, item);
        fputc('\0', out);
        if (!fflush(out))
                ds_ptx_edit_replace_item(run->edit, f, index, *text);
}

static int rename_function(struct ds_ptx_pass_run *run, const struct ds_ptx_function *f, struct renamed *n)
{
        char *text = NULL;
        size_t length;
        FILE *out = open_memstream(&text, &length);
        int failed;

        if (!out)
                return ds_error_origin(-ENOMEM);
        put_declarations(n, f, out);
        fputc('\0', out);
        failed = fflush(out);
        if (!failed)
                ds_ptx_edit_top(run->edit, f, text, NULL, 0);
        for (uint32_t i = 0; i < f->n_items; i++)
                replace_item(run, n, f, i, out, &text);
        for (uint32_t i = 0; i < f->n_instrs && !failed; i++) {
                rewind(out);
                ds_ptx_print_instr(out, &n->copy, &f->instrs[i]);
                fputc('\0', out);
                failed = fflush(out);
                if (!failed)
                        ds_ptx_edit_replace(run->edit, f, i, text, NULL, 0);
        }
        failed |= fclose(out);
        free(text);
        ds_ptx_pass_done(run, f);
        return failed ? ds_error_origin(-ENOMEM) : 0;
}

/* --- conflicting names --- */

static bool in_the_way(const char *name)
{
        return name && (name[0] == '%' || strncmp(name, LABEL, 3) == 0 || strncmp(name, TARGETS, 3) == 0);
}

static bool function_in_the_way(const struct ds_ptx_function *f)
{
        bool bad = in_the_way(f->name);

        for (uint32_t i = 0; i < f->n_params; i++)
                bad |= in_the_way(f->params[i]->name);
        for (uint32_t i = 0; i < f->n_rets; i++)
                bad |= in_the_way(f->rets[i]->name);
        for (uint32_t i = 0; i < f->n_vars; i++)
                bad |= in_the_way(f->vars[i]->name);
        for (uint32_t i = 0; i < f->n_items; i++)
                bad |= f->items[i].kind == DS_PTX_ITEM_PROTOTYPE && in_the_way(f->items[i].prototype->name);
        return bad;
}

/* Whether a name that the module's functions can see is like a new register or label name. */
static bool module_in_the_way(const struct ds_ptx_module *m)
{
        bool bad = false;

        for (uint32_t i = 0; i < m->n_vars; i++)
                bad |= in_the_way(m->vars[i]->name);
        for (uint32_t i = 0; i < m->n_functions; i++)
                bad |= in_the_way(m->functions[i]->name);
        return bad;
}

static bool has_sections(const struct ds_ptx_module *m)
{
        for (uint32_t i = 0; i < m->n_directives; i++)
                if (m->directives[i].kind == DS_PTX_DIRECTIVE_TEXT &&
                        strncmp(m->directives[i].text, ".section", strlen(".section")) == 0)
                        return true;
        return false;
}

int ds_ptx_pass_rename(struct ds_ptx_pass_run *run)
{
        const struct ds_ptx_module *m = run->module;
        bool sections = has_sections(m), module = module_in_the_way(m);
        ds_cleanup(ds_arena_freep) ds_arena *arena = ds_arena_new(DS_MIB(256));
        int r = 0;

        if (!arena)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < m->n_functions && !r; i++) {
                const struct ds_ptx_function *f = m->functions[i];
                struct renamed *n;

                if (!ds_ptx_pass_wants(run, f))
                        continue;
                if (sections || module || function_in_the_way(f)) {
                        ds_ptx_pass_refuse(run, f, f->line, "%s",
                                sections ? "debug sections name its labels: strip-debug first"
                                         : "a variable, parameter or function has a name like the new ones");
                        continue;
                }
                n = ds_arena_alloc(arena, 1, sizeof(*n));
                if (!n)
                        return ds_error_origin(-ENOMEM);
                n->copy = *f;
                n->arena = arena;
                r = rename_registers(n, f);
                if (!r)
                        r = rename_labels(n, f);
                if (!r)
                        r = rename_function(run, f, n);
        }
        return r;
}
