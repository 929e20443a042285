/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From text to a checked module: parse, link declarations to definitions, validate
 */
#include <string.h>

#include "ptx/parser.h"
#include "ptx/validate.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define DEFAULT_LIMIT DS_MIB(256)
#define MAX_TEXT DS_MIB(512)

/* Makes each declaration point to its definition. */
static void link_definitions(struct ds_ptx_parser *p)
{
        struct ds_ptx_module *m = p->module;

        for (uint32_t i = 0; i < m->n_functions; i++) {
                struct ds_ptx_function *f = m->functions[i];
                struct ds_ptx_symbol *symbol = ds_ptx_symtab_find(&p->symbols, f->name, strlen(f->name));

                if (!f->has_body && f->definition == f && symbol && symbol->kind == DS_PTX_SYMBOL_FUNCTION)
                        f->definition = symbol->function->definition;
        }
        for (uint32_t i = 0; i < m->n_vars; i++) {
                struct ds_ptx_var *var = m->vars[i];
                struct ds_ptx_symbol *symbol = ds_ptx_symtab_find(&p->symbols, var->name, strlen(var->name));

                if (symbol && symbol->kind == DS_PTX_SYMBOL_VAR)
                        var->definition = symbol->var;
        }
}

static struct ds_ptx_module *new_module(const char *text, size_t length, size_t limit)
{
        ds_cleanup(ds_arena_freep) ds_arena *arena = ds_arena_new(limit);
        struct ds_ptx_module *m = arena ? ds_arena_alloc(arena, 1, sizeof(*m)) : NULL;

        if (!m)
                return NULL;
        m->text = ds_arena_strndup(arena, text, length);
        if (!m->text)
                return NULL;
        m->length = length;
        m->address_size = 64;
        m->arena = DS_TAKE_PTR(arena);
        return m;
}

static int parse(struct ds_ptx_module *m, struct ds_ptx_diags *diags)
{
        struct ds_ptx_parser *p = ds_arena_alloc(m->arena, 1, sizeof(*p));
        int r;

        if (!p)
                return -ENOMEM;
        p->module = m;
        p->arena = m->arena;
        p->diags = diags;
        ds_ptx_index_init(&p->index);
        ds_ptx_lexer_init(&p->lexer, m->text, m->length, diags);
        p->token.start = m->text;
        r = ds_ptx_symtab_init(&p->symbols, m->arena);
        if (!r)
                r = ds_ptx_symtab_init(&p->strings, m->arena);
        if (!r)
                r = ds_ptx_parse_module(p);
        if (!r)
                link_definitions(p);
        return r;
}

int ds_ptx_parse(const char *text, size_t length, size_t limit, struct ds_ptx_diags *diags, ds_ptx_module **ret)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *m = NULL;
        int r;

        *diags = (struct ds_ptx_diags){0};
        m = length <= MAX_TEXT ? new_module(text, length, limit ? limit : DEFAULT_LIMIT) : NULL;
        if (!m)
                return ds_error_origin(-ENOMEM);
        r = parse(m, diags);
        if (r < 0)
                return ds_error_origin(r);
        if (r > 0)
                return DS_PTX_E_INVALID;
        ds_ptx_validate(m, diags);
        if (diags->total)
                return DS_PTX_E_INVALID;
        *ret = DS_TAKE_PTR(m);
        return 0;
}

static void add_variables(uint64_t *sum, struct ds_ptx_var *const *vars, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++) {
                int kept = vars[i]->space == DS_PTX_IN_GLOBAL || vars[i]->space == DS_PTX_IN_CONST;

                if (kept && vars[i]->linkage != DS_PTX_LINKAGE_EXTERN &&
                        __builtin_add_overflow(*sum, vars[i]->size, sum))
                        *sum = UINT64_MAX;
        }
}

uint64_t ds_ptx_variable_bytes(const ds_ptx_module *module)
{
        uint64_t sum = 0;

        add_variables(&sum, module->vars, module->n_vars);
        for (uint32_t i = 0; i < module->n_functions; i++)
                add_variables(&sum, module->functions[i]->vars, module->functions[i]->n_vars);
        return sum;
}

ds_ptx_module *ds_ptx_module_free(ds_ptx_module *module)
{
        if (module)
                ds_arena_free(module->arena);
        return NULL;
}
