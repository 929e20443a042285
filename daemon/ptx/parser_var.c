/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables, registers and parameters
 *
 * Sizes and offsets are computed here and checked for overflow, because a declaration may claim any number of bytes. A
 * register range costs nothing until one of its registers is used: `.reg .b32 %r<1000000>` is one entry, and %r7
 * becomes a register with a dense index when an instruction first names it.
 */
#include <errno.h>
#include <string.h>

#include "ptx/parser.h"
#include "util/macro.h"

#define MAX_ALIGN (UINT64_C(1) << 30)
#define MAX_RANGE (UINT64_C(1) << 24)

/* The specifiers of a declaration, between the variable's space and its name. */
struct specifiers {
        enum ds_ptx_space space;
        enum ds_ptx_type type;
        uint8_t vector;
        uint32_t align; /* bytes; 0: not given */
        bool is_ptr, managed;
        enum ds_ptx_space ptr_space;
        uint32_t ptr_align;
};

enum ds_ptx_space ds_ptx_space_of_word(const struct ds_ptx_token *token)
{
        static const char *const words[] = {"", ".reg", ".global", ".const", ".shared", ".local", ".param"};

        _Static_assert(DS_ARRAY_SIZE(words) == _DS_PTX_IN_MAX, "one word per space");
        for (uint32_t i = 1; i < DS_ARRAY_SIZE(words); i++)
                if (ds_ptx_token_is(token, words[i]))
                        return (enum ds_ptx_space)i;
        return DS_PTX_SPACE_NONE;
}

static int parse_align(struct ds_ptx_parser *p, uint32_t *ret)
{
        struct ds_ptx_token at;
        uint64_t align = 0;
        int r;

        ds_ptx_advance(p);
        at = p->token;
        r = ds_ptx_parse_uint(p, MAX_ALIGN, &align);
        if (!r && (!align || (align & (align - 1))))
                r = ds_ptx_error_at(p, &at, "an alignment must be a power of two");
        *ret = (uint32_t)align;
        return r;
}

/* Parses the words behind .ptr in a parameter, such as .global .align 4. */
static int parse_ptr(struct ds_ptx_parser *p, struct specifiers *spec)
{
        ds_ptx_advance(p);
        spec->is_ptr = true;
        spec->ptr_space = ds_ptx_space_of_word(&p->token);
        if (spec->ptr_space == DS_PTX_IN_PARAM || spec->ptr_space == DS_PTX_IN_REG)
                return ds_ptx_unexpected(p, "the space that the pointer is for");
        if (spec->ptr_space != DS_PTX_SPACE_NONE)
                ds_ptx_advance(p);
        return ds_ptx_at_word(p, ".align") ? parse_align(p, &spec->ptr_align) : 0;
}

static int parse_attribute(struct ds_ptx_parser *p, struct specifiers *spec)
{
        int r;

        ds_ptx_advance(p);
        r = ds_ptx_expect(p, '(');
        if (r)
                return r;
        if (!ds_ptx_at_word(p, ".managed"))
                return ds_ptx_unexpected(p, "the attribute .managed");
        ds_ptx_advance(p);
        spec->managed = true;
        return ds_ptx_expect(p, ')');
}

/* Parses the specifiers of a declaration, whose first token, the space, is the current one. */
static int parse_specifiers(struct ds_ptx_parser *p, struct specifiers *spec)
{
        *spec = (struct specifiers){.space = ds_ptx_space_of_word(&p->token)};
        ds_ptx_advance(p);
        while (p->token.kind == DS_PTX_TOKEN_DOT) {
                bool before = spec->space == DS_PTX_IN_PARAM || (!spec->type && !spec->vector);
                int r = 0;

                if (ds_ptx_at_word(p, ".align") && before) {
                        r = parse_align(p, &spec->align);
                } else if (ds_ptx_at_word(p, ".ptr") && spec->type) {
                        r = parse_ptr(p, spec);
                } else if (ds_ptx_at_word(p, ".attribute")) {
                        r = parse_attribute(p, spec);
                } else if (!spec->type && (ds_ptx_at_word(p, ".v2") || ds_ptx_at_word(p, ".v4"))) {
                        spec->vector = (uint8_t)(p->token.start[2] - '0');
                        ds_ptx_advance(p);
                } else {
                        enum ds_ptx_type type = ds_ptx_type_find(p->token.start + 1, p->token.length - 1);

                        if (type == DS_PTX_TYPE_NONE || spec->type != DS_PTX_TYPE_NONE)
                                return ds_ptx_unexpected(p, "a type or a name");
                        spec->type = type;
                        ds_ptx_advance(p);
                }
                if (r)
                        return r;
        }
        return spec->type == DS_PTX_TYPE_NONE ? ds_ptx_unexpected(p, "a type") : 0;
}

/* Parses the dimensions behind a name: [4][]. */
static int parse_dims(struct ds_ptx_parser *p, struct ds_ptx_var *var)
{
        while (ds_ptx_accept(p, '[')) {
                int r = 0;

                if (var->n_dims == DS_PTX_MAX_DIMS)
                        return ds_ptx_error_at(p, &p->token, "an array has at most %d dimensions", DS_PTX_MAX_DIMS);
                if (ds_ptx_at(p, ']')) {
                        if (var->n_dims)
                                return ds_ptx_error_at(p, &p->token, "only the first dimension may be left out");
                        var->unsized = true;
                } else {
                        r = ds_ptx_parse_uint(p, DS_PTX_MAX_VAR_BYTES, &var->dims[var->n_dims]);
                }
                var->n_dims++;
                if (!r)
                        r = ds_ptx_expect(p, ']');
                if (r)
                        return r;
        }
        return 0;
}

static uint64_t element_size(const struct ds_ptx_var *var)
{
        return (uint64_t)DS_MAX(ds_ptx_type_bits(var->type) / 8, 1u) * (var->vector ? var->vector : 1);
}

static int compute_size(struct ds_ptx_parser *p, const struct ds_ptx_token *at, struct ds_ptx_var *var)
{
        uint64_t size = element_size(var);

        for (uint32_t i = 0; i < var->n_dims; i++)
                if (__builtin_mul_overflow(size, var->dims[i], &size))
                        size = UINT64_MAX;
        if (var->vector && element_size(var) > 16)
                return ds_ptx_error_at(p, at, "a vector has at most 128 bits");
        if (size > DS_PTX_MAX_VAR_BYTES)
                return ds_ptx_error_at(p, at, "'%.80s' is too large", var->name ? var->name : "_");
        var->size = size;
        return 0;
}

static int new_variable(struct ds_ptx_parser *p, const struct specifiers *spec, struct ds_ptx_var **ret)
{
        struct ds_ptx_var *var = ds_arena_alloc(p->arena, 1, sizeof(*var));

        if (!var)
                return -ENOMEM;
        var->definition = var;
        var->function = p->body ? p->body->function : NULL;
        var->space = (uint8_t)spec->space;
        var->type = (uint8_t)spec->type;
        var->vector = spec->vector;
        var->align_given = spec->align;
        var->align = spec->align ? spec->align : (uint32_t)element_size(var);
        var->is_ptr = spec->is_ptr;
        var->ptr_space = (uint8_t)spec->ptr_space;
        var->ptr_align = spec->ptr_align;
        var->managed = spec->managed;
        var->reg = DS_PTX_NO_REG;
        var->line = p->token.line;
        *ret = var;
        return 0;
}

/* Declares a variable. An extern or common variable and its definition may share a name; any other duplicate is an
 * error. */
static int declare_variable(struct ds_ptx_parser *p, const struct ds_ptx_token *token, struct ds_ptx_var *var)
{
        struct ds_ptx_symbol *symbol = ds_ptx_symtab_find(&p->symbols, token->start, token->length);
        int r;

        if (symbol && symbol->depth == p->symbols.depth && symbol->kind == DS_PTX_SYMBOL_VAR && !p->body) {
                struct ds_ptx_var *old = symbol->var;
                bool new_extern = var->linkage == DS_PTX_LINKAGE_EXTERN;

                if (old->space == var->space && (old->linkage == DS_PTX_LINKAGE_EXTERN || new_extern)) {
                        if (!new_extern && var->linkage == DS_PTX_LINKAGE_NONE)
                                return ds_ptx_error_at(p, token, "'%.100s' was declared .extern", var->name);
                        if (old->type != var->type || old->vector != var->vector)
                                return ds_ptx_error_at(p, token, "'%.100s' was declared with another type", var->name);
                        if (!new_extern)
                                symbol->var = var;
                        return 0;
                }
        }
        r = ds_ptx_declare(p, token, var->name, DS_PTX_SYMBOL_VAR, &symbol);
        if (!r)
                symbol->var = var;
        return r;
}

static int add_variable(struct ds_ptx_parser *p, struct ds_ptx_var *var)
{
        struct ds_ptx_module *m = p->module;
        struct ds_ptx_function *f;

        if (!p->body) {
                m->vars = ds_arena_grow(p->arena, m->vars, m->n_vars, &p->cap_vars, sizeof(*m->vars));
                if (!m->vars)
                        return -ENOMEM;
                var->index = m->n_vars;
                m->vars[m->n_vars++] = var;
                return 0;
        }
        f = p->body->function;
        f->vars = ds_arena_grow(p->arena, f->vars, f->n_vars, &p->body->cap_vars, sizeof(*f->vars));
        if (!f->vars)
                return -ENOMEM;
        var->index = f->n_vars;
        f->vars[f->n_vars++] = var;
        return ds_ptx_add_item(p, &(struct ds_ptx_item){.kind = DS_PTX_ITEM_VAR, .var = var});
}

static int parse_declarator(struct ds_ptx_parser *p, const struct specifiers *spec, enum ds_ptx_linkage linkage)
{
        struct ds_ptx_token token;
        struct ds_ptx_var *var;
        int r = new_variable(p, spec, &var);

        if (r)
                return r;
        var->linkage = (uint8_t)linkage;
        r = ds_ptx_parse_name(p, "a name", &token, &var->name);
        if (!r)
                r = parse_dims(p, var);
        if (!r)
                r = compute_size(p, &token, var);
        if (!r)
                r = declare_variable(p, &token, var);
        if (r)
                return r;
        if (ds_ptx_accept(p, '=')) {
                r = ds_ptx_parse_initialiser(p, var);
                if (!r)
                        r = compute_size(p, &token, var);
                if (r)
                        return r;
        }
        if ((var->unsized || !var->size) && linkage != DS_PTX_LINKAGE_EXTERN)
                return ds_ptx_error_at(p, &token, "'%.80s' has no size", var->name);
        return add_variable(p, var);
}

/* Whether only instructions can have this type, and no variable. */
static bool is_for_instructions(enum ds_ptx_type type)
{
        return type == DS_PTX_TYPE_PRED || type == DS_PTX_TYPE_BF16 || type == DS_PTX_TYPE_BF16X2 ||
               type == DS_PTX_TYPE_TF32 || type == DS_PTX_TYPE_U16X2 || type == DS_PTX_TYPE_S16X2 ||
               (type >= DS_PTX_TYPE_E4M3 && type <= DS_PTX_TYPE_E5M2X2);
}

int ds_ptx_parse_variables(struct ds_ptx_parser *p, enum ds_ptx_linkage linkage)
{
        struct ds_ptx_token at = p->token;
        struct specifiers spec;
        int r = parse_specifiers(p, &spec);

        if (r)
                return r;
        if (is_for_instructions(spec.type) || ds_ptx_type_bits(spec.type) < 8)
                return ds_ptx_error_at(p, &at, "a variable cannot have the type .%s", ds_ptx_type_name(spec.type));
        if (!p->body && (spec.space == DS_PTX_IN_PARAM || spec.space == DS_PTX_IN_REG || spec.space == DS_PTX_IN_LOCAL))
                return ds_ptx_error_at(p, &at, "'%.*s' must stand inside a function", (int)at.length, at.start);
        do
                r = parse_declarator(p, &spec, linkage);
        while (!r && ds_ptx_accept(p, ','));
        return r ? r : ds_ptx_expect(p, ';');
}

/* --- registers --------------------------------------------------------------------------------------------------- */
static int parse_register(struct ds_ptx_parser *p, const struct specifiers *spec)
{
        struct ds_ptx_reg_decl *decl = ds_arena_alloc(p->arena, 1, sizeof(*decl));
        struct ds_ptx_symbol *symbol;
        struct ds_ptx_token token;
        uint64_t count = 0;
        int r;

        if (!decl)
                return -ENOMEM;
        decl->type = (uint8_t)spec->type;
        decl->vector = spec->vector;
        decl->line = p->token.line;
        r = ds_ptx_parse_name(p, "a register's name", &token, &decl->name);
        if (r)
                return r;
        if (ds_ptx_accept(p, '<')) {
                if (p->token.kind != DS_PTX_TOKEN_INT || !p->token.bits || p->token.bits > MAX_RANGE)
                        return ds_ptx_error_at(p, &p->token, "a range has 1 to %u registers", (uint32_t)MAX_RANGE);
                if (decl->vector)
                        return ds_ptx_error_at(p, &p->token, "vector registers have no ranges");
                count = p->token.bits;
                ds_ptx_advance(p);
                r = ds_ptx_expect(p, '>');
                if (r)
                        return r;
        }
        decl->count = (uint32_t)count;
        r = ds_ptx_declare(p, &token, decl->name, count ? DS_PTX_SYMBOL_RANGE : DS_PTX_SYMBOL_REG, &symbol);
        if (r)
                return r;
        symbol->reg_decl = decl;
        return ds_ptx_add_item(p, &(struct ds_ptx_item){.kind = DS_PTX_ITEM_REG, .reg_decl = decl});
}

static int check_register_type(struct ds_ptx_parser *p, const struct ds_ptx_token *at, enum ds_ptx_type type)
{
        if (type != DS_PTX_TYPE_TF32 && type != DS_PTX_TYPE_U16X2 && type != DS_PTX_TYPE_S16X2 &&
                (type == DS_PTX_TYPE_PRED || (ds_ptx_type_bits(type) >= 8 && type < DS_PTX_TYPE_E4M3)))
                return 0;
        return ds_ptx_error_at(p, at, "a register cannot have the type .%s", ds_ptx_type_name(type));
}

int ds_ptx_parse_registers(struct ds_ptx_parser *p)
{
        struct ds_ptx_token at = p->token;
        struct specifiers spec;
        int r = parse_specifiers(p, &spec);

        if (!r)
                r = check_register_type(p, &at, spec.type);
        if (r)
                return r;
        do
                r = parse_register(p, &spec);
        while (!r && ds_ptx_accept(p, ','));
        return r ? r : ds_ptx_expect(p, ';');
}

int ds_ptx_use_register(struct ds_ptx_parser *p, struct ds_ptx_symbol *symbol, uint32_t *ret)
{
        const struct ds_ptx_reg_decl *decl = symbol->reg_decl;
        struct ds_ptx_function *f = p->body->function;

        if (symbol->reg == DS_PTX_NO_REG) {
                symbol->reg = f->n_regs;
                for (uint8_t i = 0; i < DS_MAX(decl->vector, 1); i++) {
                        f->regs = ds_arena_grow(p->arena, f->regs, f->n_regs, &p->body->cap_regs, sizeof(*f->regs));
                        if (!f->regs)
                                return -ENOMEM;
                        f->regs[f->n_regs++] = (struct ds_ptx_reg){
                                .decl = decl, .number = symbol->number, .type = decl->type, .component = i};
                }
        }
        *ret = symbol->reg;
        return 0;
}

/* Finds a register of a range, such as %r12 of %r<20>: the name ends in a number below the range's count, without
 * leading zeros. */
static struct ds_ptx_symbol *lookup_range(
        struct ds_ptx_parser *p, const struct ds_ptx_token *token, const struct ds_ptx_symbol *outer, int *ret_r)
{
        uint64_t number = 0, unit = 1;

        for (uint32_t stem = token->length; stem > 1 && unit <= MAX_RANGE; unit *= 10) {
                char c = token->start[--stem];
                struct ds_ptx_symbol *range, *symbol;

                if (c < '0' || c > '9')
                        return NULL;
                number += (uint64_t)(c - '0') * unit;
                if (c == '0' && unit > 1)
                        continue; /* the number may not begin with this 0; the stem may end further left */
                range = ds_ptx_symtab_find_range(&p->symbols, token->start, stem, (uint32_t)number);
                if (!range || (outer && range->depth <= outer->depth))
                        continue;
                symbol = ds_ptx_symtab_add(&p->symbols, token->start, token->length, DS_PTX_SYMBOL_REG, range->depth);
                if (!symbol) {
                        *ret_r = -ENOMEM;
                        return NULL;
                }
                symbol->reg_decl = range->reg_decl;
                symbol->number = (uint32_t)number;
                return symbol;
        }
        return NULL;
}

struct ds_ptx_symbol *ds_ptx_lookup(struct ds_ptx_parser *p, const struct ds_ptx_token *token, int *ret_r)
{
        struct ds_ptx_symbol *symbol = ds_ptx_symtab_find(&p->symbols, token->start, token->length);

        struct ds_ptx_symbol *inner;

        *ret_r = 0;
        if (!p->body || (symbol && symbol->depth == p->symbols.depth))
                return symbol;
        /* a range of an inner scope hides the same name of an outer scope, even if that name came from a range too */
        inner = lookup_range(p, token, symbol, ret_r);
        return inner || *ret_r ? inner : symbol;
}

/* --- parameters -------------------------------------------------------------------------------------------------- */
/* Declares a parameter; one in register space becomes a register of the function, too. */
static int declare_param(struct ds_ptx_parser *p, const struct ds_ptx_token *token, struct ds_ptx_var *var)
{
        struct ds_ptx_reg_decl *decl;
        struct ds_ptx_symbol *symbol;
        int r;

        if (var->space != DS_PTX_IN_REG) {
                r = ds_ptx_declare(p, token, var->name, DS_PTX_SYMBOL_VAR, &symbol);
                if (!r)
                        symbol->var = var;
                return r;
        }
        decl = ds_arena_alloc(p->arena, 1, sizeof(*decl));
        if (!decl)
                return -ENOMEM;
        *decl = (struct ds_ptx_reg_decl){.name = var->name, .type = var->type, .line = token->line};
        r = ds_ptx_declare(p, token, var->name, DS_PTX_SYMBOL_REG, &symbol);
        if (r)
                return r;
        symbol->reg_decl = decl;
        return ds_ptx_use_register(p, symbol, &var->reg);
}

static int check_param_space(struct ds_ptx_parser *p, const struct ds_ptx_function *function)
{
        if (ds_ptx_at_word(p, ".param") || (ds_ptx_at_word(p, ".reg") && !(function && function->is_entry)))
                return 0;
        return ds_ptx_unexpected(p, function && function->is_entry ? ".param" : ".param or .reg");
}

static int parse_param(struct ds_ptx_parser *p, struct ds_ptx_function *function, struct ds_ptx_var **ret)
{
        struct specifiers spec = {};
        struct ds_ptx_token token;
        struct ds_ptx_var *var;
        int r = check_param_space(p, function);

        if (!r)
                r = parse_specifiers(p, &spec);
        if (!r && spec.space == DS_PTX_IN_PARAM && spec.type != DS_PTX_TYPE_PRED && ds_ptx_type_bits(spec.type) < 8)
                r = ds_ptx_error_at(p, &p->token, "a parameter cannot have the type .%s", ds_ptx_type_name(spec.type));
        if (!r && spec.type == DS_PTX_TYPE_PRED && spec.space == DS_PTX_IN_PARAM)
                r = ds_ptx_error_at(p, &p->token, "a predicate cannot be a parameter in .param space");
        if (!r && spec.space == DS_PTX_IN_PARAM &&
                (spec.vector || spec.type == DS_PTX_TYPE_F16X2 || is_for_instructions(spec.type)))
                r = ds_ptx_error_at(p, &p->token, "a parameter in .param space does not have this type");
        if (!r)
                r = new_variable(p, &spec, &var);
        if (!r)
                r = ds_ptx_parse_name(p, "a parameter's name", &token, &var->name);
        if (!r)
                r = parse_dims(p, var);
        if (!r)
                r = compute_size(p, &token, var);
        if (!r && var->n_dims > 1)
                r = ds_ptx_error_at(p, &token, "a parameter has one dimension");
        if (r)
                return r;
        if (!function || strcmp(var->name, "_") == 0)
                var->name = NULL;
        else
                r = declare_param(p, &token, var);
        *ret = var;
        return r;
}

int ds_ptx_parse_params(
        struct ds_ptx_parser *p, struct ds_ptx_function *function, struct ds_ptx_var ***ret, uint32_t *ret_n)
{
        struct ds_ptx_var **params = NULL;
        size_t capacity = 0;
        uint32_t n = 0;
        int r = ds_ptx_expect(p, '(');

        if (r)
                return r;
        while (!ds_ptx_at(p, ')')) {
                params = ds_arena_grow(p->arena, params, n, &capacity, sizeof(*params));
                if (!params)
                        return -ENOMEM;
                r = n ? ds_ptx_expect(p, ',') : 0;
                if (!r && n && params[n - 1]->unsized)
                        r = ds_ptx_error_at(p, &p->token, "only the last parameter is an array without a size");
                if (!r)
                        r = parse_param(p, function, &params[n]);
                if (r)
                        return r;
                params[n]->index = n;
                n++;
        }
        ds_ptx_advance(p);
        *ret = params;
        *ret_n = n;
        return 0;
}
