/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/link.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/ir.h"
#include "ptx/print.h"
#include "ptx/ptx.h"
#include "ptx/symtab.h"
#include "util/alloc.h"
#include "util/arena.h"
#include "util/error.h"
#include "util/macro.h"

#define NAMES_BYTES DS_MIB(64)   /* memory for names and definitions */
#define REPEAT_MAX 20u           /* most errors of one link in the message */
#define MEMBER_TAKEN 100         /* result of take_member() */
#define FIRST_UNIFIED_TARGET 70u /* targets from here on accept each other's code */

struct unit {
        const struct ds_ptx_link_input *input;
        ds_ptx_module *module; /* NULL: a member of a library that was not needed so far, and is not parsed */
        bool taken;            /* true: part of the result */
};

/* The definition of a name that other texts can see. */
struct definition {
        size_t unit;
        struct ds_ptx_var *var; /* NULL: a function */
        struct ds_ptx_function *function;
        bool strong;
};

struct linker {
        struct unit *units;
        size_t n;
        ds_arena *arena;
        struct ds_ptx_symtab names; /* names that all texts see; the symbol's index: that of its definition */
        struct ds_ptx_symtab used;  /* all names of the result */
        struct definition *definitions;
        size_t n_definitions, space;
        bool (*builtin)(const char *name);
        size_t limit; /* most bytes of one module */
        struct ds_ptx_diags *diags;
        char *message;
        size_t message_size, at;
        unsigned n_errors;
};

static void ds_printf(2, 3) say(struct linker *l, const char *fmt, ...)
{
        va_list args;
        int n;

        if (l->n_errors++ >= REPEAT_MAX || l->at >= l->message_size)
                return;
        va_start(args, fmt);
        n = vsnprintf(l->message + l->at, l->message_size - l->at, fmt, args);
        va_end(args);
        l->at += n > 0 ? (size_t)n : 0;
}

static const char *unit_name(const struct linker *l, size_t unit)
{
        return l->units[unit].input->name;
}

static int parse_unit(struct linker *l, struct unit *unit)
{
        const struct ds_ptx_link_input *input = unit->input;
        int r = ds_ptx_parse(input->text, input->length, l->limit, l->diags, &unit->module);

        if (r > 0)
                ds_ptx_diags_format(l->diags, input->name, l->message, l->message_size);
        return r > 0 ? DS_PTX_LINK_E_INVALID : r;
}

/* --- definitions -------------------------------------------------------------------------------------------------- */

static bool linkage_is_shared(uint8_t linkage)
{
        return linkage == DS_PTX_LINKAGE_VISIBLE || linkage == DS_PTX_LINKAGE_WEAK || linkage == DS_PTX_LINKAGE_COMMON;
}

/* Whether the variable is a definition that other texts can see. */
static bool var_defines(const struct ds_ptx_var *var)
{
        return linkage_is_shared(var->linkage);
}

static bool function_defines(const struct ds_ptx_function *f)
{
        return f->has_body && (f->is_entry || linkage_is_shared(f->linkage));
}

/* Whether the variable is the dynamic shared memory of a launch, which needs no definition. */
static bool var_is_dynamic(const struct ds_ptx_var *var)
{
        return var->linkage == DS_PTX_LINKAGE_EXTERN && var->space == DS_PTX_IN_SHARED && var->unsized;
}

/* Whether the function is a declaration whose definition is in another text. */
static bool function_is_extern(const struct ds_ptx_function *f)
{
        return !f->has_body && f->definition == f;
}

static bool var_is_extern(const struct ds_ptx_var *var)
{
        return var->linkage == DS_PTX_LINKAGE_EXTERN && var->definition == var && !var_is_dynamic(var);
}

static struct definition *find(const struct linker *l, const char *name)
{
        const struct ds_ptx_symbol *symbol = ds_ptx_symtab_find(&l->names, name, strlen(name));

        return symbol ? &l->definitions[symbol->index] : NULL;
}

static int add_definition(struct linker *l, const char *name, const struct definition *new)
{
        struct definition *old = find(l, name);
        struct ds_ptx_symbol *symbol;

        if (old && old->strong && new->strong) {
                say(l, "error   : Multiple definition of '%s' in '%s', first defined in '%s'\n", name,
                        unit_name(l, new->unit), unit_name(l, old->unit));
                return 0;
        }
        if (old) {
                if (new->strong)
                        *old = *new;
                return 0;
        }
        l->definitions = ds_arena_grow(l->arena, l->definitions, l->n_definitions, &l->space, sizeof(*l->definitions));
        symbol = l->definitions ? ds_ptx_symtab_add(&l->names, name, strlen(name), DS_PTX_SYMBOL_LABEL, 0) : NULL;
        if (!symbol)
                return -ENOMEM;
        symbol->index = (uint32_t)l->n_definitions;
        l->definitions[l->n_definitions++] = *new;
        return 0;
}

static int define_unit(struct linker *l, size_t unit)
{
        const struct ds_ptx_module *m = l->units[unit].module;
        int r = 0;

        l->units[unit].taken = true;
        for (uint32_t i = 0; i < m->n_vars && !r; i++) {
                const uint8_t linkage = m->vars[i]->linkage;

                if (var_defines(m->vars[i]))
                        r = add_definition(l, m->vars[i]->name,
                                &(struct definition){
                                        .unit = unit, .var = m->vars[i], .strong = linkage == DS_PTX_LINKAGE_VISIBLE});
        }
        for (uint32_t i = 0; i < m->n_functions && !r; i++) {
                struct ds_ptx_function *f = m->functions[i];

                if (function_defines(f))
                        r = add_definition(l, f->name,
                                &(struct definition){
                                        .unit = unit, .function = f, .strong = f->linkage != DS_PTX_LINKAGE_WEAK});
        }
        return r;
}

/* --- missing names ------------------------------------------------------------------------------------------------ */

typedef int (*name_fn)(struct linker *l, size_t unit, const char *name);

/* Calls fn for each name that a text of the result needs from another text. */
static int each_needed(struct linker *l, name_fn fn)
{
        int r = 0;

        for (size_t u = 0; u < l->n && !r; u++) {
                const struct ds_ptx_module *m = l->units[u].module;

                for (uint32_t i = 0; l->units[u].taken && i < m->n_vars && !r; i++)
                        if (var_is_extern(m->vars[i]))
                                r = fn(l, u, m->vars[i]->name);
                for (uint32_t i = 0; l->units[u].taken && i < m->n_functions && !r; i++)
                        if (function_is_extern(m->functions[i]) && !l->builtin(m->functions[i]->name))
                                r = fn(l, u, m->functions[i]->name);
        }
        return r;
}

static bool unit_defines(const struct ds_ptx_module *m, const char *name)
{
        for (uint32_t i = 0; i < m->n_functions; i++)
                if (function_defines(m->functions[i]) && strcmp(m->functions[i]->name, name) == 0)
                        return true;
        for (uint32_t i = 0; i < m->n_vars; i++)
                if (var_defines(m->vars[i]) && strcmp(m->vars[i]->name, name) == 0)
                        return true;
        return false;
}

/* Whether a member of a library may define the name: only then it is parsed. */
static bool unit_names(const struct ds_ptx_link_input *input, const char *name)
{
        return memmem(input->text, input->length, name, strlen(name)) != NULL;
}

/* Takes the first text of a library that defines the name. Returns MEMBER_TAKEN if one was taken. */
static int take_member(struct linker *l, size_t unit, const char *name)
{
        int r = 0;

        (void)unit;
        if (find(l, name))
                return 0;
        for (size_t u = 0; u < l->n && !r; u++) {
                if (l->units[u].taken || !unit_names(l->units[u].input, name))
                        continue;
                if (!l->units[u].module)
                        r = parse_unit(l, &l->units[u]);
                if (r || !unit_defines(l->units[u].module, name))
                        continue;
                r = define_unit(l, u);
                return r ? r : MEMBER_TAKEN;
        }
        return r;
}

static int say_missing(struct linker *l, size_t unit, const char *name)
{
        if (!find(l, name))
                say(l, "error   : Undefined reference to '%s' in '%s'\n", name, unit_name(l, unit));
        return 0;
}

static void compare(struct linker *l, size_t unit, const struct ds_ptx_var *var)
{
        const struct definition *definition = find(l, var->name);
        const char *what = NULL;

        if (!definition)
                return;
        if (!definition->var || definition->var->space != var->space)
                what = "Memory space";
        else if (!var->unsized && var->size != definition->var->size)
                what = "Size";
        if (what)
                say(l, "error   : %s doesn't match for '%s' in '%s', first specified in '%s'\n", what, var->name,
                        unit_name(l, unit), unit_name(l, definition->unit));
}

/* Compares each text's declarations of variables with the definitions. */
static void compare_all(struct linker *l)
{
        for (size_t u = 0; u < l->n; u++)
                for (uint32_t i = 0; l->units[u].taken && i < l->units[u].module->n_vars; i++)
                        if (var_is_extern(l->units[u].module->vars[i]))
                                compare(l, u, l->units[u].module->vars[i]);
}

/* Finds all definitions of the result. Returns 0, -ENOMEM or a code of link.h. */
static int resolve(struct linker *l)
{
        int r = 0;

        for (size_t u = 0; u < l->n && !r; u++)
                if (!l->units[u].input->on_demand) {
                        r = parse_unit(l, &l->units[u]);
                        if (!r)
                                r = define_unit(l, u);
                }
        while (!r && (r = each_needed(l, take_member)) == MEMBER_TAKEN)
                r = 0;
        if (!r && !l->n_errors)
                compare_all(l);
        if (r || l->n_errors)
                return r ? r : DS_PTX_LINK_E_DUPLICATE;
        r = each_needed(l, say_missing);
        return !r && l->n_errors ? DS_PTX_LINK_E_UNDEFINED : r;
}

/* --- names of one text -------------------------------------------------------------------------------------------- */

static bool is_used(const struct linker *l, const char *name)
{
        return ds_ptx_symtab_find(&l->used, name, strlen(name)) != NULL;
}

static int use(struct linker *l, const char *name)
{
        if (is_used(l, name))
                return 0;
        return ds_ptx_symtab_add(&l->used, name, strlen(name), DS_PTX_SYMBOL_LABEL, 0) ? 0 : -ENOMEM;
}

/* Returns a name for a text's own variable or function: the old one if it is free. NULL: no memory. */
static const char *own_name(struct linker *l, size_t unit, const char *name)
{
        const size_t room = strlen(name) + 48;
        char *fresh;

        if (!is_used(l, name))
                return use(l, name) ? NULL : name;
        fresh = ds_arena_alloc(l->arena, room, 1);
        for (unsigned i = 0; fresh; i++) {
                snprintf(fresh, room, i ? "%s$linked%zu_%u" : "%s$linked%zu", name, unit + 1, i);
                if (!is_used(l, fresh))
                        return use(l, fresh) ? NULL : fresh;
        }
        return NULL;
}

/* Marks the names that all texts share as used. */
static int use_shared(struct linker *l)
{
        int r = 0;

        for (size_t u = 0; u < l->n && !r; u++) {
                const struct ds_ptx_module *m = l->units[u].module;

                for (uint32_t i = 0; l->units[u].taken && i < m->n_vars && !r; i++)
                        if (var_defines(m->vars[i]) || var_is_extern(m->vars[i]))
                                r = use(l, m->vars[i]->name);
                for (uint32_t i = 0; l->units[u].taken && i < m->n_functions && !r; i++)
                        if (function_defines(m->functions[i]) || function_is_extern(m->functions[i]))
                                r = use(l, m->functions[i]->name);
        }
        return r;
}

/* Gives the text's own variables and functions names that no other text uses. */
static int rename_own(struct linker *l, size_t unit)
{
        const struct ds_ptx_module *m = l->units[unit].module;

        for (uint32_t i = 0; i < m->n_vars; i++) {
                struct ds_ptx_var *var = m->vars[i];

                if ((var->linkage == DS_PTX_LINKAGE_NONE || var_is_dynamic(var)) &&
                        !(var->name = own_name(l, unit, var->name)))
                        return -ENOMEM;
        }
        for (uint32_t i = 0; i < m->n_functions; i++) {
                struct ds_ptx_function *f = m->functions[i];

                if (f->has_body && !function_defines(f) && !(f->name = own_name(l, unit, f->name)))
                        return -ENOMEM;
        }
        for (uint32_t i = 0; i < m->n_functions; i++)
                if (m->functions[i]->definition)
                        m->functions[i]->name = m->functions[i]->definition->name;
        for (uint32_t i = 0; i < m->n_vars; i++)
                if (m->vars[i]->definition)
                        m->vars[i]->name = m->vars[i]->definition->name;
        return 0;
}

static int rename_all(struct linker *l)
{
        int r = use_shared(l);

        for (size_t u = 0; u < l->n && !r; u++)
                if (l->units[u].taken)
                        r = rename_own(l, u);
        return r;
}

/* --- printing ----------------------------------------------------------------------------------------------------- */

/* Whether the result contains this definition. */
static bool var_is_kept(const struct linker *l, const struct ds_ptx_var *var)
{
        return var->linkage == DS_PTX_LINKAGE_NONE || var_is_dynamic(var) ||
               (var_defines(var) && find(l, var->name)->var == var);
}

static bool function_is_kept(const struct linker *l, const struct ds_ptx_function *f)
{
        return f->has_body && (!function_defines(f) || find(l, f->name)->function == f);
}

static bool drop_line(void *user, FILE *out, const struct ds_ptx_function *f, uint32_t index)
{
        const struct ds_ptx_item *item = &f->items[index];

        (void)user;
        (void)out;
        return item->kind == DS_PTX_ITEM_TEXT &&
               (strncmp(item->text, ".loc", 4) == 0 || strncmp(item->text, "@@", 2) == 0);
}

/* Finds the highest version and target. Returns 0, or DS_PTX_LINK_E_APART if there is no common target. */
static int print_head(struct linker *l, FILE *out)
{
        const struct ds_ptx_module *best = NULL;
        uint32_t version = 0, lowest = UINT32_MAX;

        for (size_t u = 0; u < l->n; u++) {
                const struct ds_ptx_module *m = l->units[u].module;

                if (!l->units[u].taken)
                        continue;
                version = DS_MAX(version, m->version);
                lowest = DS_MIN(lowest, m->target);
                if (m->address_size != 64 || strstr(m->target_text, "texmode") || strstr(m->target_text, "map_f64")) {
                        say(l, "'%s' has address size %u and target '%s', which linked texts cannot have\n",
                                unit_name(l, u), m->address_size, m->target_text);
                        return DS_PTX_LINK_E_APART;
                }
                if (!best || m->target > best->target || (m->target == best->target && m->target_suffix))
                        best = m;
        }
        assert(best); /* the caller prints nothing if no text is taken */
        if (lowest < FIRST_UNIFIED_TARGET && best->target >= FIRST_UNIFIED_TARGET) {
                say(l, "texts for targets sm_%u and sm_%u cannot be one text\n", lowest, best->target);
                return DS_PTX_LINK_E_APART;
        }
        fprintf(out, ".version %u.%u\n.target sm_%u", version / 10, version % 10, best->target);
        if (best->target_suffix)
                fputc(best->target_suffix, out);
        fputs("\n.address_size 64\n", out);
        return 0;
}

/* Prints the declarations of functions that the result defines, and of those that the device defines, once each. */
static int print_declarations(struct linker *l, FILE *out)
{
        static const struct ds_ptx_print_hooks none = {0};
        struct ds_ptx_symtab declared;

        if (ds_ptx_symtab_init(&declared, l->arena))
                return -ENOMEM;
        for (size_t u = 0; u < l->n; u++) {
                const struct ds_ptx_module *m = l->units[u].module;

                for (uint32_t i = 0; l->units[u].taken && i < m->n_functions; i++) {
                        struct ds_ptx_function f = *m->functions[i];
                        const bool device = function_is_extern(m->functions[i]) && !find(l, f.name);

                        if (f.is_entry || !(device || function_is_kept(l, m->functions[i])) ||
                                ds_ptx_symtab_find(&declared, f.name, strlen(f.name)))
                                continue;
                        f.has_body = false;
                        ds_ptx_print_function(out, &f, &none);
                        if (!ds_ptx_symtab_add(&declared, f.name, strlen(f.name), DS_PTX_SYMBOL_LABEL, 0))
                                return -ENOMEM;
                }
        }
        return 0;
}

/* A variable of the result and whether it was printed. */
struct place {
        const struct ds_ptx_var *var;
        uint8_t mark; /* 1: its addresses are being followed; 2: printed */
};

struct places {
        struct place *place;
        struct ds_ptx_symtab by_name;
        size_t n;
};

static int print_var(struct places *places, struct place *place, FILE *out, unsigned depth)
{
        int r = 0;

        if (place->mark == 2)
                return 0;
        if (place->mark == 1 || depth > 1000)
                return DS_PTX_LINK_E_APART;
        place->mark = 1;
        for (uint32_t i = 0; i < place->var->n_relocs && !r; i++) {
                const struct ds_ptx_var *to = place->var->relocs[i].var;
                const struct ds_ptx_symbol *symbol =
                        to && to->name != place->var->name
                                ? ds_ptx_symtab_find(&places->by_name, to->name, strlen(to->name))
                                : NULL;

                if (symbol && &places->place[symbol->index] != place)
                        r = print_var(places, &places->place[symbol->index], out, depth + 1);
        }
        if (r)
                return r;
        ds_ptx_print_var(out, place->var);
        fputs(";\n", out);
        place->mark = 2;
        return 0;
}

/* Collects the variables of the result. Returns 0 or -ENOMEM. */
static int find_places(struct linker *l, struct places *places)
{
        size_t n = 0;

        for (size_t u = 0; u < l->n; u++)
                n += l->units[u].taken ? l->units[u].module->n_vars : 0;
        *places = (struct places){.place = ds_arena_alloc(l->arena, n + 1, sizeof(*places->place))};
        if (!places->place || ds_ptx_symtab_init(&places->by_name, l->arena))
                return -ENOMEM;
        for (size_t u = 0; u < l->n; u++) {
                const struct ds_ptx_module *m = l->units[u].module;

                for (uint32_t i = 0; l->units[u].taken && i < m->n_vars; i++) {
                        struct ds_ptx_symbol *symbol;

                        if (!var_is_kept(l, m->vars[i]))
                                continue;
                        symbol = ds_ptx_symtab_add(
                                &places->by_name, m->vars[i]->name, strlen(m->vars[i]->name), DS_PTX_SYMBOL_LABEL, 0);
                        if (!symbol)
                                return -ENOMEM;
                        symbol->index = (uint32_t)places->n;
                        places->place[places->n++].var = m->vars[i];
                }
        }
        return 0;
}

/* Prints each variable behind those whose addresses its initial value contains. */
static int print_vars(struct linker *l, FILE *out)
{
        struct places places;
        int r = find_places(l, &places);

        for (size_t i = 0; i < places.n && !r; i++)
                r = print_var(&places, &places.place[i], out, 0);
        if (r == DS_PTX_LINK_E_APART)
                say(l, "variables contain each other's addresses\n");
        return r;
}

static void print_functions(const struct linker *l, FILE *out)
{
        static const struct ds_ptx_print_hooks hooks = {.item = drop_line};

        for (size_t u = 0; u < l->n; u++) {
                const struct ds_ptx_module *m = l->units[u].module;

                for (uint32_t i = 0; l->units[u].taken && i < m->n_functions; i++)
                        if (function_is_kept(l, m->functions[i]))
                                ds_ptx_print_function(out, m->functions[i], &hooks);
                for (uint32_t i = 0; l->units[u].taken && i < m->n_directives; i++) {
                        const struct ds_ptx_directive *d = &m->directives[i];

                        if (d->kind == DS_PTX_DIRECTIVE_ALIAS)
                                fprintf(out, ".alias %s, %s;\n", d->alias->name, d->aliasee->name);
                }
        }
}

static int print_all(struct linker *l, FILE *out)
{
        int r = print_head(l, out);

        if (!r)
                r = print_declarations(l, out);
        if (!r)
                r = print_vars(l, out);
        if (!r)
                print_functions(l, out);
        return r ? r : ferror(out) ? -ENOMEM : 0;
}

/* --- linking ------------------------------------------------------------------------------------------------------ */

/* Parses the result: what the front end does not accept is not one text. */
static int check_result(struct linker *l, const char *text, size_t length)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        int r = ds_ptx_parse(text, length, l->limit, l->diags, &module);

        if (r > 0)
                ds_ptx_diags_format(l->diags, "the linked text", l->message, l->message_size);
        return r > 0 ? DS_PTX_LINK_E_APART : r;
}

static int print_result(struct linker *l, char **ret, size_t *ret_length)
{
        char *text = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&text, &length);
        int r = out ? print_all(l, out) : -ENOMEM;

        if (out && fclose(out) && !r)
                r = -ENOMEM;
        if (!r)
                r = check_result(l, text, length);
        *ret = r ? NULL : ds_strndup(text, length);
        *ret_length = length;
        free(text); /* allocated by open_memstream() */
        return r ? r : *ret ? 0 : -ENOMEM;
}

/* The only text of the result, which is an empty module if no text takes part; NULL: there are several. */
static const struct ds_ptx_link_input *only_text(const struct linker *l)
{
        static const char head[] = ".version 7.0\n.target sm_70\n.address_size 64\n";
        static const struct ds_ptx_link_input nothing = {.text = head, .length = sizeof(head) - 1};
        const struct ds_ptx_link_input *only = NULL;

        for (size_t u = 0; u < l->n; u++) {
                if (l->units[u].taken && only)
                        return NULL;
                if (l->units[u].taken)
                        only = l->units[u].input;
        }
        return only ? only : &nothing;
}

static int link_units(struct linker *l, char **ret, size_t *ret_length)
{
        const struct ds_ptx_link_input *only;
        int r = ds_ptx_symtab_init(&l->names, l->arena);

        if (!r)
                r = ds_ptx_symtab_init(&l->used, l->arena);
        if (!r)
                r = resolve(l);
        if (r)
                return r;
        only = only_text(l);
        if (only) {
                *ret = ds_strndup(only->text, only->length);
                *ret_length = only->length;
                return *ret ? 0 : -ENOMEM;
        }
        r = rename_all(l);
        return r ? r : print_result(l, ret, ret_length);
}

int ds_ptx_link(const struct ds_ptx_link_input *inputs, size_t n, size_t limit, bool (*builtin)(const char *name),
        char *message, size_t message_size, char **ret_text, size_t *ret_length)
{
        ds_cleanup(ds_freep) struct ds_ptx_diags *diags = ds_alloc0(1, sizeof(*diags));
        ds_cleanup(ds_freep) struct unit *units = ds_alloc0(n, sizeof(*units));
        ds_cleanup(ds_arena_freep) ds_arena *arena = ds_arena_new(NAMES_BYTES);
        struct linker l = {.units = units,
                .n = n,
                .arena = arena,
                .builtin = builtin,
                .limit = limit,
                .diags = diags,
                .message = message,
                .message_size = message_size};
        int r = diags && units && arena ? 0 : -ENOMEM;

        if (message_size)
                message[0] = 0;
        for (size_t u = 0; u < n && !r; u++)
                units[u].input = &inputs[u];
        if (!r)
                r = link_units(&l, ret_text, ret_length);
        for (size_t u = 0; units && u < n; u++)
                ds_ptx_module_free(units[u].module);
        return r < 0 ? ds_error_origin(r) : r;
}
