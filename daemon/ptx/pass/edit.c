/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/pass/edit.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/print.h"
#include "ptx/symtab.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define DEFAULT_LIMIT DS_MIB(64)
#define MAX_BINDINGS 32
#define MODULE UINT32_MAX /* value of a note's function for notes about the module itself */

/* Kinds of notes, in the order in which they are printed at one place. */
enum kind {
        KIND_PROLOGUE,
        KIND_DIRECTIVE, /* a directive of the module is removed */
        KIND_PARAMETER,
        KIND_TOP,
        KIND_ITEM, /* text NULL: the item is removed */
        KIND_BEFORE,
        KIND_REPLACE, /* text NULL: the instruction is removed */
        KIND_AFTER,
        KIND_EPILOGUE,
};

struct note {
        uint32_t function, at, seq;
        enum kind kind;
        const char *text;
};

struct ds_ptx_edit {
        const struct ds_ptx_module *module;
        ds_arena *arena;
        struct note *notes;
        size_t n_notes, capacity;
        struct ds_ptx_function **clones;
        size_t n_clones, clone_capacity;
        struct ds_ptx_symtab names;
        const char *target;
        bool has_names, sorted;
        int error;
};

ds_ptx_edit *ds_ptx_edit_new(const struct ds_ptx_module *module, size_t limit)
{
        ds_cleanup(ds_ptx_edit_freep) ds_ptx_edit *edit = ds_alloc0(1, sizeof(*edit));

        if (!edit)
                return NULL;
        edit->module = module;
        edit->arena = ds_arena_new(limit ? limit : DEFAULT_LIMIT);
        return edit->arena ? DS_TAKE_PTR(edit) : NULL;
}

ds_ptx_edit *ds_ptx_edit_free(ds_ptx_edit *edit)
{
        if (!edit)
                return NULL;
        ds_arena_free(edit->arena);
        return ds_free(edit);
}

void ds_ptx_edit_fail(ds_ptx_edit *edit)
{
        if (!edit->error)
                edit->error = -ENOMEM;
}

bool ds_ptx_edit_is_empty(const ds_ptx_edit *edit)
{
        return !edit->n_notes && !edit->n_clones && !edit->target && !edit->error;
}

/* --- templates --- */

static const struct ds_ptx_binding *find_binding(
        const char *name, size_t length, const struct ds_ptx_binding *bindings, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (strlen(bindings[i].name) == length && memcmp(bindings[i].name, name, length) == 0)
                        return &bindings[i];
        assert(!"a template names something that is not bound");
        return NULL;
}

/* Fills in the template; writes the result to `out` unless that is NULL, and returns its length. */
static size_t fill(const char *text, const struct ds_ptx_binding *bindings, size_t n, char *out)
{
        size_t length = 0;

        while (*text) {
                const struct ds_ptx_binding *b;
                size_t name = 0;

                if (*text != '#') {
                        if (out)
                                out[length] = *text;
                        length++;
                        text++;
                        continue;
                }
                while (isalnum((unsigned char)text[1 + name]) || text[1 + name] == '_')
                        name++;
                b = find_binding(text + 1, name, bindings, n);
                if (out)
                        memcpy(out + length, b->text, strlen(b->text));
                length += strlen(b->text);
                text += 1 + name;
        }
        return length;
}

static void note(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t at, enum kind kind,
        const char *text, const struct ds_ptx_binding *bindings, size_t n)
{
        struct note new = {.function = function ? function->index : MODULE, .at = at, .kind = kind};
        char *filled;

        assert(n <= MAX_BINDINGS);
        if (edit->error)
                return;
        if (text && !n) {
                new.text = ds_arena_strndup(edit->arena, text, strlen(text));
        } else if (text) {
                filled = ds_arena_alloc(edit->arena, fill(text, bindings, n, NULL) + 1, 1);
                if (filled)
                        fill(text, bindings, n, filled);
                new.text = filled;
        }
        edit->notes = ds_arena_grow(edit->arena, edit->notes, edit->n_notes, &edit->capacity, sizeof(*edit->notes));
        if (!edit->notes || (text && !new.text)) {
                edit->error = -ENOMEM;
                return;
        }
        new.seq = (uint32_t)edit->n_notes;
        edit->notes[edit->n_notes++] = new;
        edit->sorted = false;
}

void ds_ptx_edit_before(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t at, const char *text,
        const struct ds_ptx_binding *bindings, size_t n)
{
        assert(at <= function->n_instrs);
        note(edit, function, at, KIND_BEFORE, text, bindings, n);
}

void ds_ptx_edit_after(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t at, const char *text,
        const struct ds_ptx_binding *bindings, size_t n)
{
        assert(at < function->n_instrs);
        note(edit, function, at, KIND_AFTER, text, bindings, n);
}

void ds_ptx_edit_replace(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t at, const char *text,
        const struct ds_ptx_binding *bindings, size_t n)
{
        assert(at < function->n_instrs);
        note(edit, function, at, KIND_REPLACE, text, bindings, n);
}

void ds_ptx_edit_remove(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t at)
{
        assert(at < function->n_instrs);
        note(edit, function, at, KIND_REPLACE, NULL, NULL, 0);
}

void ds_ptx_edit_top(ds_ptx_edit *edit, const struct ds_ptx_function *function, const char *text,
        const struct ds_ptx_binding *bindings, size_t n)
{
        assert(function->has_body);
        note(edit, function, 0, KIND_TOP, text, bindings, n);
}

void ds_ptx_edit_parameter(ds_ptx_edit *edit, const struct ds_ptx_function *function, const char *text,
        const struct ds_ptx_binding *bindings, size_t n)
{
        struct note *first = NULL, *last;
        size_t size;
        char *both;

        note(edit, function, 0, KIND_PARAMETER, text, bindings, n);
        if (edit->error)
                return;
        last = &edit->notes[edit->n_notes - 1];
        for (size_t i = 0; !first; i++)
                if (edit->notes[i].kind == KIND_PARAMETER && edit->notes[i].function == function->index)
                        first = &edit->notes[i];
        if (first == last)
                return;
        size = strlen(first->text) + strlen(last->text) + 3;
        both = ds_arena_alloc(edit->arena, size, 1);
        if (!both) {
                edit->error = -ENOMEM;
                return;
        }
        snprintf(both, size, "%s, %s", first->text, last->text);
        first->text = both;
        edit->n_notes--;
}

void ds_ptx_edit_target(ds_ptx_edit *edit, const char *text)
{
        if (edit->error)
                return;
        edit->target = ds_arena_strndup(edit->arena, text, strlen(text));
        if (!edit->target)
                edit->error = -ENOMEM;
}

const struct ds_ptx_function *ds_ptx_edit_clone(
        ds_ptx_edit *edit, const struct ds_ptx_function *function, const char *name)
{
        struct ds_ptx_function *clone;

        if (edit->error)
                return NULL;
        clone = ds_arena_alloc(edit->arena, 1, sizeof(*clone));
        edit->clones =
                ds_arena_grow(edit->arena, edit->clones, edit->n_clones, &edit->clone_capacity, sizeof(*edit->clones));
        if (clone && edit->clones) {
                *clone = *function;
                clone->name = ds_arena_strndup(edit->arena, name, strlen(name));
                clone->index = edit->module->n_functions + (uint32_t)edit->n_clones;
                clone->definition = clone;
                if (!clone->is_entry)
                        clone->linkage = DS_PTX_LINKAGE_NONE;
        }
        if (!clone || !edit->clones || !clone->name) {
                edit->error = -ENOMEM;
                return NULL;
        }
        edit->clones[edit->n_clones++] = clone;
        return clone;
}

void ds_ptx_edit_replace_item(
        ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t item, const char *text)
{
        assert(item < function->n_items);
        note(edit, function, item, KIND_ITEM, text, NULL, 0);
}

void ds_ptx_edit_remove_item(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t item)
{
        assert(item < function->n_items);
        note(edit, function, item, KIND_ITEM, NULL, NULL, 0);
}

void ds_ptx_edit_remove_directive(ds_ptx_edit *edit, uint32_t directive)
{
        assert(directive < edit->module->n_directives);
        note(edit, NULL, directive, KIND_DIRECTIVE, NULL, NULL, 0);
}

void ds_ptx_edit_prologue(ds_ptx_edit *edit, const char *text, const struct ds_ptx_binding *bindings, size_t n)
{
        note(edit, NULL, 0, KIND_PROLOGUE, text, bindings, n);
}

void ds_ptx_edit_epilogue(ds_ptx_edit *edit, const char *text, const struct ds_ptx_binding *bindings, size_t n)
{
        note(edit, NULL, 0, KIND_EPILOGUE, text, bindings, n);
}

/* --- names --- */

static int add_name(ds_ptx_edit *edit, const char *name)
{
        size_t length = name ? strlen(name) : 0;

        if (!length || ds_ptx_symtab_find(&edit->names, name, length))
                return 0;
        return ds_ptx_symtab_add(&edit->names, name, length, DS_PTX_SYMBOL_LABEL, 0) ? 0 : -ENOMEM;
}

static int add_vars(ds_ptx_edit *edit, struct ds_ptx_var *const *vars, uint32_t n)
{
        int r = 0;

        for (uint32_t i = 0; i < n && !r; i++)
                r = add_name(edit, vars[i]->name);
        return r;
}

static int add_function_names(ds_ptx_edit *edit, const struct ds_ptx_function *f)
{
        int r = add_name(edit, f->name);

        if (!r)
                r = add_vars(edit, f->rets, f->n_rets);
        if (!r)
                r = add_vars(edit, f->params, f->n_params);
        if (!r)
                r = add_vars(edit, f->vars, f->n_vars);
        for (uint32_t i = 0; i < f->n_labels && !r; i++)
                r = add_name(edit, f->labels[i].name);
        for (uint32_t i = 0; i < f->n_targets && !r; i++)
                r = add_name(edit, f->targets[i].name);
        for (uint32_t i = 0; i < f->n_items && !r; i++) {
                if (f->items[i].kind == DS_PTX_ITEM_REG)
                        r = add_name(edit, f->items[i].reg_decl->name);
                else if (f->items[i].kind == DS_PTX_ITEM_PROTOTYPE)
                        r = add_name(edit, f->items[i].prototype->name);
        }
        return r;
}

/* Collects all names of the module. A register range gives its stem, so a fresh name never ends in a digit after
 * such a stem. */
static int collect_names(ds_ptx_edit *edit)
{
        const struct ds_ptx_module *m = edit->module;
        int r = ds_ptx_symtab_init(&edit->names, edit->arena);

        if (!r)
                r = add_vars(edit, m->vars, m->n_vars);
        for (uint32_t i = 0; i < m->n_functions && !r; i++)
                r = add_function_names(edit, m->functions[i]);
        edit->has_names = !r;
        return r;
}

const char *ds_ptx_edit_fresh(ds_ptx_edit *edit, const char *stem, char buffer[DS_PTX_NAME_MAX])
{
        struct ds_ptx_symbol *first;
        const char *copy;

        buffer[0] = '\0';
        if (!edit->error && !edit->has_names)
                edit->error = collect_names(edit);
        if (edit->error)
                return buffer;
        snprintf(buffer, DS_PTX_NAME_MAX, "%.48s", stem);
        first = ds_ptx_symtab_find(&edit->names, buffer, strlen(buffer));
        /* Tries stem plus a number plus a letter, such as x1_, which no register range contains. Each stem continues
         * at the number it tried last, or n kernels would try n * n names. */
        if (first)
                do
                        snprintf(buffer, DS_PTX_NAME_MAX, "%.48s%u_", stem, ++first->number);
                while (ds_ptx_symtab_find(&edit->names, buffer, strlen(buffer)));
        copy = ds_arena_strndup(edit->arena, buffer, strlen(buffer));
        if (!copy || add_name(edit, copy)) {
                edit->error = -ENOMEM;
                buffer[0] = '\0';
        }
        return buffer;
}

const char *ds_ptx_edit_operand(
        ds_ptx_edit *edit, const struct ds_ptx_function *function, const struct ds_ptx_operand *operand)
{
        char *text = NULL, *copy = NULL;
        size_t length;
        FILE *out = edit->error ? NULL : open_memstream(&text, &length);

        if (out) {
                ds_ptx_print_operand(out, function, operand);
                if (!fclose(out))
                        copy = ds_arena_strndup(edit->arena, text, length);
                free(text);
        }
        if (!copy && !edit->error)
                edit->error = -ENOMEM;
        return copy ? copy : "";
}

const char *ds_ptx_edit_register(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t reg)
{
        const struct ds_ptx_operand operand = {.kind = DS_PTX_OPERAND_REG, .reg = reg, .pair = DS_PTX_NO_REG};

        return ds_ptx_edit_operand(edit, function, &operand);
}

const char *ds_ptx_edit_guard(
        ds_ptx_edit *edit, const struct ds_ptx_function *function, const struct ds_ptx_instr *instr)
{
        const char *reg;
        char *text;
        size_t size;

        if (instr->guard == DS_PTX_NO_REG)
                return "";
        reg = ds_ptx_edit_register(edit, function, instr->guard);
        size = strlen(reg) + 4;
        text = edit->error ? NULL : ds_arena_alloc(edit->arena, size, 1);
        if (!text) {
                edit->error = -ENOMEM;
                return "";
        }
        snprintf(text, size, "@%s%s ", instr->guard_negated ? "!" : "", reg);
        return text;
}

/* --- applying --- */

static int compare_notes(const void *a, const void *b)
{
        const struct note *x = a, *y = b;

        if (x->function != y->function)
                return x->function < y->function ? -1 : 1;
        if (x->kind != y->kind)
                return x->kind < y->kind ? -1 : 1;
        if (x->at != y->at)
                return x->at < y->at ? -1 : 1;
        return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* The first note of this kind at this place; notes of one place are adjacent. NULL: there is none. */
static const struct note *find_notes(const ds_ptx_edit *edit, uint32_t function, enum kind kind, uint32_t at)
{
        const struct note wanted = {.function = function, .kind = kind, .at = at};
        size_t low = 0, high = edit->n_notes;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (compare_notes(&edit->notes[middle], &wanted) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low < edit->n_notes && edit->notes[low].function == function && edit->notes[low].kind == kind &&
                edit->notes[low].at == at)
                return &edit->notes[low];
        return NULL;
}

/* Prints all texts of the place, each on its own line; false if there is no note. */
static bool put_notes(const ds_ptx_edit *edit, FILE *out, uint32_t function, enum kind kind, uint32_t at)
{
        const struct note *n = find_notes(edit, function, kind, at), *end;

        if (!n)
                return false;
        end = edit->notes + edit->n_notes;
        for (; n < end && n->function == function && n->kind == kind && n->at == at; n++)
                if (n->text)
                        fprintf(out, "%s\n", n->text);
        return true;
}

/* Prints the text before the first directive */
static void put_prologue(const ds_ptx_edit *edit, FILE *out)
{
        static const struct ds_ptx_print_hooks none = {0};

        for (size_t i = 0; i < edit->n_clones; i++) {
                struct ds_ptx_function declaration = *edit->clones[i];

                declaration.has_body = false;
                if (!declaration.is_entry)
                        ds_ptx_print_function(out, &declaration, &none);
        }
        put_notes(edit, out, MODULE, KIND_PROLOGUE, 0);
}

static bool hook_directive(void *user, FILE *out, uint32_t index)
{
        if (!index)
                put_prologue(user, out);
        return find_notes(user, MODULE, KIND_DIRECTIVE, index) != NULL;
}

static const char *hook_params(void *user, const struct ds_ptx_function *f)
{
        const struct note *n = find_notes(user, f->index, KIND_PARAMETER, 0);

        return n ? n->text : NULL;
}

static void hook_top(void *user, FILE *out, const struct ds_ptx_function *f)
{
        put_notes(user, out, f->index, KIND_TOP, 0);
}

static bool hook_item(void *user, FILE *out, const struct ds_ptx_function *f, uint32_t index)
{
        const ds_ptx_edit *edit = user;

        if (f->index >= edit->module->n_functions && f->items[index].kind == DS_PTX_ITEM_TEXT &&
                strncmp(f->items[index].text, ".loc", strlen(".loc")) == 0)
                return true;
        return put_notes(user, out, f->index, KIND_ITEM, index);
}

static bool hook_instr(void *user, FILE *out, const struct ds_ptx_function *f, uint32_t index)
{
        put_notes(user, out, f->index, KIND_BEFORE, index);
        if (index == f->n_instrs)
                return true;
        if (!put_notes(user, out, f->index, KIND_REPLACE, index))
                ds_ptx_print_instr(out, f, &f->instrs[index]);
        put_notes(user, out, f->index, KIND_AFTER, index);
        return true;
}

/* The printer's hooks for functions, both of the module and copied. */
static struct ds_ptx_print_hooks function_hooks(ds_ptx_edit *edit)
{
        return (struct ds_ptx_print_hooks){
                .user = edit, .params = hook_params, .top = hook_top, .item = hook_item, .instr = hook_instr};
}

static void hook_end(void *user, FILE *out)
{
        ds_ptx_edit *edit = user;
        const struct ds_ptx_print_hooks hooks = function_hooks(edit);

        if (!edit->module->n_directives)
                put_prologue(edit, out);
        for (size_t i = 0; i < edit->n_clones; i++)
                ds_ptx_print_function(out, edit->clones[i], &hooks);
        put_notes(edit, out, MODULE, KIND_EPILOGUE, 0);
}

/* Prints the edited module. The stream allocates the text with malloc; NULL: out of memory. */
static char *print_edited(ds_ptx_edit *edit, size_t *ret_length)
{
        struct ds_ptx_print_hooks hooks = function_hooks(edit);
        char *text = NULL;
        FILE *out = open_memstream(&text, ret_length);
        int r;

        if (!out)
                return NULL;
        hooks.target = edit->target;
        hooks.directive = hook_directive;
        hooks.end = hook_end;
        r = ds_ptx_print_with(edit->module, &hooks, out);
        if (fclose(out) || r) {
                free(text);
                return NULL;
        }
        return text;
}

int ds_ptx_edit_apply(ds_ptx_edit *edit, size_t limit, struct ds_ptx_diags *diags, struct ds_ptx_module **ret)
{
        size_t length;
        char *text;
        int r;

        if (edit->error)
                return ds_error_origin(edit->error);
        if (!edit->sorted && edit->n_notes)
                qsort(edit->notes, edit->n_notes, sizeof(*edit->notes), compare_notes);
        edit->sorted = true;
        text = print_edited(edit, &length);
        if (!text)
                return ds_error_origin(-ENOMEM);
        r = ds_ptx_parse(text, length, limit, diags, ret);
        free(text);
        return r < 0 ? ds_error_trace(r) : r;
}
