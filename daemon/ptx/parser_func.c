/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions: the header, then a body whose scopes are parsed in a loop
 *
 * There are at least three scopes: the module, the header (parameters), and the outer braces. A label may be used
 * before its definition. It hides an outer label of its name in all of its scope, also before its definition. So each
 * use waits until its scope closes. Then it takes that scope's label, or waits on in the enclosing scope.
 */
#include <errno.h>
#include <string.h>

#include "ptx/parser.h"
#include "util/macro.h"

#define OLD_PARAM_BYTES 4352 /* most bytes of parameters before PTX 8.1 */

int ds_ptx_add_item(struct ds_ptx_parser *p, const struct ds_ptx_item *item)
{
        struct ds_ptx_function *f = p->body->function;

        f->items = ds_arena_grow(p->arena, f->items, f->n_items, &p->body->cap_items, sizeof(*f->items));
        if (!f->items)
                return -ENOMEM;
        f->items[f->n_items] = *item;
        f->items[f->n_items++].at = f->n_instrs;
        return 0;
}

/* --- labels ------------------------------------------------------------------------------------------------------ */
int ds_ptx_refer_label(struct ds_ptx_parser *p, const struct ds_ptx_token *token, uint32_t *slot)
{
        struct ds_ptx_pending *pending = ds_arena_alloc(p->arena, 1, sizeof(*pending));
        uint32_t depth = p->symbols.depth;

        if (!pending)
                return -ENOMEM;
        *pending = (struct ds_ptx_pending){.next = p->body->pending[depth], .token = *token, .slot = slot};
        p->body->pending[depth] = pending;
        return 0;
}

static void close_scope(struct ds_ptx_parser *p)
{
        uint32_t depth = p->symbols.depth;
        struct ds_ptx_pending *pending = p->body->pending[depth];

        p->body->pending[depth] = NULL;
        while (pending) {
                struct ds_ptx_pending *next = pending->next;
                const struct ds_ptx_token *token = &pending->token;
                struct ds_ptx_symbol *symbol = ds_ptx_symtab_find(&p->symbols, token->start, token->length);

                if (symbol && symbol->depth == depth && symbol->kind == DS_PTX_SYMBOL_LABEL) {
                        *pending->slot = symbol->index;
                } else if (depth > p->body->base_depth + 1) {
                        pending->next = p->body->pending[depth - 1];
                        p->body->pending[depth - 1] = pending;
                } else {
                        ds_ptx_error_at(p, token, "label '%.*s' is not defined", (int)DS_MIN(token->length, 100u),
                                token->start);
                }
                pending = next;
        }
        ds_ptx_symtab_close(&p->symbols);
}

static int parse_label(struct ds_ptx_parser *p, const struct ds_ptx_token *token)
{
        struct ds_ptx_function *f = p->body->function;
        struct ds_ptx_label label = {.instr = f->n_instrs, .line = token->line};
        struct ds_ptx_symbol *symbol;
        int r = ds_ptx_copy_text(p, token->start, token->start + token->length, &label.name);

        if (!r)
                r = ds_ptx_declare(p, token, label.name, DS_PTX_SYMBOL_LABEL, &symbol);
        if (r)
                return r;
        f->labels = ds_arena_grow(p->arena, f->labels, f->n_labels, &p->body->cap_labels, sizeof(*f->labels));
        if (!f->labels)
                return -ENOMEM;
        symbol->index = f->n_labels;
        f->labels[f->n_labels] = label;
        return ds_ptx_add_item(p, &(struct ds_ptx_item){.kind = DS_PTX_ITEM_LABEL, .index = f->n_labels++});
}

/* --- lists with a label ------------------------------------------------------------------------------------------ */
/* Parses a list of names: name, name, ...; */
static int parse_names(struct ds_ptx_parser *p, struct ds_ptx_token **ret, uint32_t *ret_n)
{
        struct ds_ptx_token *tokens = NULL;
        size_t capacity = 0;
        uint32_t n = 0;

        do {
                tokens = ds_arena_grow(p->arena, tokens, n, &capacity, sizeof(*tokens));
                if (!tokens)
                        return -ENOMEM;
                if (p->token.kind != DS_PTX_TOKEN_IDENT)
                        return ds_ptx_unexpected(p, "a name");
                tokens[n++] = p->token;
                ds_ptx_advance(p);
        } while (ds_ptx_accept(p, ','));
        *ret = tokens;
        *ret_n = n;
        return ds_ptx_expect(p, ';');
}

static int resolve_targets(
        struct ds_ptx_parser *p, const struct ds_ptx_token *tokens, struct ds_ptx_targets *targets, bool calls)
{
        if (calls)
                targets->functions = ds_arena_alloc(p->arena, targets->n, sizeof(*targets->functions));
        else
                targets->labels = ds_arena_alloc(p->arena, targets->n, sizeof(*targets->labels));
        if (calls ? !targets->functions : !targets->labels)
                return -ENOMEM;
        for (uint32_t i = 0; i < targets->n; i++) {
                struct ds_ptx_symbol *symbol;

                if (!calls) {
                        if (ds_ptx_refer_label(p, &tokens[i], &targets->labels[i]))
                                return -ENOMEM;
                        continue;
                }
                symbol = ds_ptx_symtab_find(&p->symbols, tokens[i].start, tokens[i].length);
                if (!symbol || symbol->kind != DS_PTX_SYMBOL_FUNCTION)
                        return ds_ptx_error_at(p, &tokens[i], "'%.*s' is not a function",
                                (int)DS_MIN(tokens[i].length, 100u), tokens[i].start);
                targets->functions[i] = symbol->function;
        }
        return 0;
}

static int parse_targets(struct ds_ptx_parser *p, const struct ds_ptx_token *name)
{
        struct ds_ptx_function *f = p->body->function;
        struct ds_ptx_targets targets = {.line = name->line};
        bool calls = ds_ptx_at_word(p, ".calltargets");
        struct ds_ptx_token *tokens = NULL;
        struct ds_ptx_symbol *symbol;
        int r;

        ds_ptx_advance(p);
        r = ds_ptx_copy_text(p, name->start, name->start + name->length, &targets.name);
        if (!r)
                r = parse_names(p, &tokens, &targets.n);
        if (!r)
                r = resolve_targets(p, tokens, &targets, calls);
        if (!r)
                r = ds_ptx_declare(p, name, targets.name, DS_PTX_SYMBOL_TARGETS, &symbol);
        if (r)
                return r;
        f->targets = ds_arena_grow(p->arena, f->targets, f->n_targets, &p->body->cap_targets, sizeof(*f->targets));
        if (!f->targets)
                return -ENOMEM;
        symbol->index = f->n_targets;
        f->targets[f->n_targets] = targets;
        return ds_ptx_add_item(p, &(struct ds_ptx_item){.kind = DS_PTX_ITEM_TARGETS, .index = f->n_targets++});
}

/* Parses name: .callprototype (.param .b32 _) _ (.param .b64 _) .noreturn; */
static int parse_prototype(struct ds_ptx_parser *p, const struct ds_ptx_token *name)
{
        struct ds_ptx_prototype *prototype = ds_arena_alloc(p->arena, 1, sizeof(*prototype));
        struct ds_ptx_symbol *symbol;
        int r;

        if (!prototype)
                return -ENOMEM;
        prototype->line = name->line;
        ds_ptx_advance(p);
        r = ds_ptx_copy_text(p, name->start, name->start + name->length, &prototype->name);
        if (!r && ds_ptx_at(p, '('))
                r = ds_ptx_parse_params(p, NULL, &prototype->rets, &prototype->n_rets);
        if (!r && !ds_ptx_at_word(p, "_"))
                r = ds_ptx_unexpected(p, "'_'");
        if (r)
                return r;
        ds_ptx_advance(p);
        if (ds_ptx_at(p, '('))
                r = ds_ptx_parse_params(p, NULL, &prototype->params, &prototype->n_params);
        if (!r && ds_ptx_at_word(p, ".noreturn")) {
                if (prototype->n_rets)
                        return ds_ptx_error_at(p, &p->token, "a function with results returns");
                prototype->noreturn = true;
                ds_ptx_advance(p);
        }
        if (!r)
                r = ds_ptx_expect(p, ';');
        if (!r)
                r = ds_ptx_declare(p, name, prototype->name, DS_PTX_SYMBOL_PROTOTYPE, &symbol);
        if (r)
                return r;
        symbol->prototype = prototype;
        return ds_ptx_add_item(p, &(struct ds_ptx_item){.kind = DS_PTX_ITEM_PROTOTYPE, .prototype = prototype});
}

/* --- statements -------------------------------------------------------------------------------------------------- */
static int parse_named(struct ds_ptx_parser *p, const struct ds_ptx_token *name)
{
        if (ds_ptx_at_word(p, ".branchtargets") || ds_ptx_at_word(p, ".calltargets"))
                return parse_targets(p, name);
        if (ds_ptx_at_word(p, ".callprototype"))
                return parse_prototype(p, name);
        return parse_label(p, name);
}

/* Parses statements that are kept as text: .loc and @@DWARF to the end of the line, .pragma to its semicolon. */
static int parse_text(struct ds_ptx_parser *p, const char *start, bool whole_line)
{
        struct ds_ptx_item item = {.kind = DS_PTX_ITEM_TEXT};
        const char *end;
        int r;

        if (whole_line) {
                ds_ptx_lexer_rest_of_line(&p->lexer, start, &end);
                ds_ptx_advance(p);
        } else {
                r = ds_ptx_parse_pragma(p);
                if (r)
                        return r;
                end = p->last_end;
        }
        r = ds_ptx_copy_text(p, start, end, &item.text);
        return r ? r : ds_ptx_add_item(p, &item);
}

/* Parses .loc file line column, and the rest of the line */
static int parse_loc(struct ds_ptx_parser *p)
{
        const char *start = p->token.start;

        ds_ptx_advance(p);
        for (int i = 0; i < 2; i++) {
                if (p->token.kind != DS_PTX_TOKEN_INT)
                        return ds_ptx_unexpected(p, "a source position as three numbers");
                ds_ptx_advance(p);
        }
        if (p->token.kind != DS_PTX_TOKEN_INT)
                return ds_ptx_unexpected(p, "a source position as three numbers");
        return parse_text(p, start, true);
}

static int parse_body_directive(struct ds_ptx_parser *p)
{
        if (ds_ptx_at_word(p, ".reg"))
                return ds_ptx_parse_registers(p);
        if (ds_ptx_space_of_word(&p->token) != DS_PTX_SPACE_NONE)
                return ds_ptx_parse_variables(p, DS_PTX_LINKAGE_NONE);
        if (ds_ptx_at_word(p, ".loc"))
                return parse_loc(p);
        if (ds_ptx_at_word(p, ".pragma"))
                return parse_text(p, p->token.start, false);
        return ds_ptx_unexpected(p, "a statement");
}

static int parse_guarded(struct ds_ptx_parser *p)
{
        const char *start = p->token.start;
        struct ds_ptx_token first;
        uint32_t guard;
        bool negated;
        int r;

        ds_ptx_advance(p);
        if (ds_ptx_at(p, '@'))
                return parse_text(p, start, true);
        negated = ds_ptx_accept(p, '!');
        r = ds_ptx_parse_predicate(p, &guard);
        if (r)
                return r;
        first = p->token;
        if (first.kind != DS_PTX_TOKEN_IDENT)
                return ds_ptx_unexpected(p, "an instruction");
        ds_ptx_advance(p);
        return ds_ptx_parse_instruction(p, &first, guard, negated);
}

static int parse_statement(struct ds_ptx_parser *p)
{
        struct ds_ptx_token first = p->token;

        p->braces = 0;
        if (first.kind == DS_PTX_TOKEN_DOT)
                return parse_body_directive(p);
        if (ds_ptx_at(p, '@'))
                return parse_guarded(p);
        if (first.kind != DS_PTX_TOKEN_IDENT)
                return ds_ptx_unexpected(p, "a statement");
        ds_ptx_advance(p);
        if (ds_ptx_accept(p, ':'))
                return parse_named(p, &first);
        return ds_ptx_parse_instruction(p, &first, DS_PTX_NO_REG, false);
}

static int parse_scope_end(struct ds_ptx_parser *p)
{
        ds_ptx_advance(p);
        close_scope(p);
        if (p->symbols.depth == p->body->base_depth)
                return 0;
        return ds_ptx_add_item(p, &(struct ds_ptx_item){.kind = DS_PTX_ITEM_CLOSE});
}

static int parse_scope_start(struct ds_ptx_parser *p)
{
        struct ds_ptx_token at = p->token;

        if (p->symbols.depth >= p->body->base_depth + DS_PTX_MAX_SCOPES || !ds_ptx_symtab_open(&p->symbols))
                return ds_ptx_error_at(p, &at, "scopes nest more than %d deep", DS_PTX_MAX_SCOPES);
        ds_ptx_advance(p);
        if (p->symbols.depth == p->body->base_depth + 1)
                return 0;
        return ds_ptx_add_item(p, &(struct ds_ptx_item){.kind = DS_PTX_ITEM_OPEN});
}

/* Parses the body. Counts errors and skips each statement that has one; returns only errors that end the parse. */
static int parse_body(struct ds_ptx_parser *p)
{
        int r = parse_scope_start(p);

        while (!r && p->symbols.depth > p->body->base_depth) {
                if (p->token.kind == DS_PTX_TOKEN_END)
                        return ds_ptx_unexpected(p, "'}'");
                if (ds_ptx_at(p, '{'))
                        r = parse_scope_start(p);
                else if (ds_ptx_at(p, '}'))
                        r = parse_scope_end(p);
                else
                        r = parse_statement(p);
                if (r > 0 && p->diags->total < DS_PTX_MAX_ERRORS) {
                        ds_ptx_skip_statement(p);
                        r = 0;
                }
        }
        return r;
}

/* --- headers ----------------------------------------------------------------------------------------------------- */
static int parse_number(struct ds_ptx_parser *p, bool positive, uint32_t *ret)
{
        struct ds_ptx_token at = p->token;
        uint64_t value = 0;
        int r = ds_ptx_parse_uint(p, UINT32_MAX, &value);

        *ret = (uint32_t)value;
        return r || value || !positive ? r : ds_ptx_error_at(p, &at, "this number must not be 0");
}

/* Parses n or n, n, n; numbers not given become 1. */
static int parse_extent(struct ds_ptx_parser *p, bool positive, uint32_t ret[3])
{
        for (int i = 0; i < 3; i++)
                ret[i] = 1;
        for (int i = 0; i < 3; i++) {
                int r = parse_number(p, positive, &ret[i]);

                if (r)
                        return r;
                if (i == 2 || !ds_ptx_accept(p, ','))
                        break;
        }
        return 0;
}

static int parse_limit(struct ds_ptx_parser *p, struct ds_ptx_limits *limits)
{
        const struct {
                const char *word;
                uint32_t *extent; /* place that receives up to three numbers */
                uint32_t *number;
                bool *flag;
                bool positive;
        } rows[] = {
                {".maxntid", limits->maxntid, NULL, NULL, true},
                {".reqntid", limits->reqntid, NULL, NULL, true},
                {".reqnctapercluster", limits->reqnctapercluster, NULL, NULL, false},
                {".minnctapersm", NULL, &limits->minnctapersm, NULL, true},
                {".maxnreg", NULL, &limits->maxnreg, NULL, true},
                {".maxclusterrank", NULL, &limits->maxclusterrank, NULL, false},
                {".explicitcluster", NULL, NULL, &limits->explicitcluster, false},
                {".noreturn", NULL, NULL, &limits->noreturn, false},
                {".blocksareclusters", NULL, NULL, &limits->blocksareclusters, false},
        };

        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++) {
                if (!ds_ptx_at_word(p, rows[i].word))
                        continue;
                ds_ptx_advance(p);
                if (rows[i].extent)
                        return parse_extent(p, rows[i].positive, rows[i].extent);
                if (rows[i].flag) {
                        *rows[i].flag = true;
                        return 0;
                }
                return parse_number(p, rows[i].positive, rows[i].number);
        }
        return ds_ptx_unexpected(p, "'{' or a performance directive");
}

/* Checks the newest performance directive, at token `at`, and reports a conflict with an earlier one. */
static int check_limits(struct ds_ptx_parser *p, const struct ds_ptx_token *at, const struct ds_ptx_function *f)
{
        const struct ds_ptx_limits *l = &f->limits;
        bool clusters = l->reqnctapercluster[0] || l->maxclusterrank || l->explicitcluster || l->blocksareclusters;

        if (l->maxntid[0] && l->reqntid[0])
                return ds_ptx_error_at(p, at, ".maxntid and .reqntid exclude each other");
        if (l->reqnctapercluster[0] && l->maxclusterrank)
                return ds_ptx_error_at(p, at, ".reqnctapercluster and .maxclusterrank exclude each other");
        if (clusters && p->module->target < 90)
                return ds_ptx_error_at(p, at, "'%.*s' needs .target sm_90", (int)at->length, at->start);
        if (clusters && p->module->version < 78)
                return ds_ptx_error_at(p, at, "'%.*s' needs .version 7.8", (int)at->length, at->start);
        return 0;
}

/* Parses the directives of a .func: .noreturn, and the number of registers that the function preserves, which is
 * kept as text. */
static int parse_func_word(struct ds_ptx_parser *p, struct ds_ptx_limits *limits)
{
        uint32_t ignored;

        if (ds_ptx_at_word(p, ".noreturn"))
                return parse_limit(p, limits);
        if (!ds_ptx_at_word(p, ".abi_preserve") && !ds_ptx_at_word(p, ".abi_preserve_control"))
                return ds_ptx_unexpected(p, "'{' or .noreturn");
        ds_ptx_advance(p);
        return parse_number(p, false, &ignored);
}

static int parse_limits(struct ds_ptx_parser *p, struct ds_ptx_function *f)
{
        const char *start = p->token.start;
        bool any = false;

        while (p->token.kind == DS_PTX_TOKEN_DOT) {
                struct ds_ptx_token at = p->token;
                int r;

                any = true;
                if (!f->is_entry)
                        r = parse_func_word(p, &f->limits);
                else if (ds_ptx_at_word(p, ".noreturn"))
                        r = ds_ptx_unexpected(p, "'{' or a performance directive");
                else
                        r = ds_ptx_at_word(p, ".pragma") ? ds_ptx_parse_pragma(p) : parse_limit(p, &f->limits);
                if (!r)
                        r = check_limits(p, &at, f);
                if (r)
                        return r;
        }
        if (f->limits.blocksareclusters && (!f->limits.reqntid[0] || !f->limits.reqnctapercluster[0]))
                return ds_ptx_error_at(p, &p->token, ".blocksareclusters needs .reqntid and .reqnctapercluster");
        return any ? ds_ptx_copy_text(p, start, p->last_end, &f->limits_text) : 0;
}

/* Assigns offsets to a kernel's parameters: one packed block, each parameter at its alignment. */
static int lay_out_params(struct ds_ptx_parser *p, const struct ds_ptx_token *name, struct ds_ptx_function *f)
{
        uint32_t limit = p->module->version < 81 ? OLD_PARAM_BYTES : DS_PTX_MAX_PARAM_BYTES;
        uint64_t end = 0;

        for (uint32_t i = 0; i < f->n_params; i++) {
                struct ds_ptx_var *var = f->params[i];

                if (var->unsized || !var->size)
                        return ds_ptx_error_at(p, name, "parameter %u of an entry has no size", i);
                end = DS_ALIGN_UP(end, (uint64_t)var->align);
                var->offset = end;
                end += var->size;
                if (end > limit)
                        return ds_ptx_error_at(p, name, "the parameters take more than %u bytes", limit);
        }
        f->params_size = (uint32_t)end;
        return 0;
}

static bool same_params(struct ds_ptx_var *const *a, uint32_t n_a, struct ds_ptx_var *const *b, uint32_t n_b)
{
        if (n_a != n_b)
                return false;
        for (uint32_t i = 0; i < n_a; i++)
                if (a[i]->size != b[i]->size || a[i]->space != b[i]->space || a[i]->type != b[i]->type)
                        return false;
        return true;
}

bool ds_ptx_same_prototype(const struct ds_ptx_function *a, const struct ds_ptx_function *b)
{
        return a->is_entry == b->is_entry && same_params(a->params, a->n_params, b->params, b->n_params) &&
               same_params(a->rets, a->n_rets, b->rets, b->n_rets);
}

/* Whether a later declaration may have the linkage of f: the same as the first, or none if the first is visible
 * outside. */
static bool same_linkage(const struct ds_ptx_function *old, const struct ds_ptx_function *f)
{
        bool kept = old->linkage == DS_PTX_LINKAGE_VISIBLE || old->linkage == DS_PTX_LINKAGE_WEAK;

        return f->linkage == old->linkage || (f->linkage == DS_PTX_LINKAGE_NONE && kept);
}

/* Declares the function's name at module level; an earlier declaration must have the same parameters and results. */
static int declare_function(struct ds_ptx_parser *p, const struct ds_ptx_token *token, struct ds_ptx_function *f)
{
        struct ds_ptx_symbol *symbol = ds_ptx_symtab_find(&p->symbols, token->start, token->length);
        const struct ds_ptx_function *old;

        if (!symbol || symbol->depth > 0) {
                symbol = ds_ptx_symtab_add(&p->symbols, f->name, token->length, DS_PTX_SYMBOL_FUNCTION, 0);
                if (!symbol)
                        return -ENOMEM;
                symbol->function = f;
                return 0;
        }
        if (symbol->kind != DS_PTX_SYMBOL_FUNCTION)
                return ds_ptx_error_at(p, token, "'%.100s' is already defined", f->name);
        old = symbol->function;
        if (old->has_body)
                return ds_ptx_error_at(p, token, "function '%.100s' is already defined", f->name);
        if (!ds_ptx_same_prototype(old, f))
                return ds_ptx_error_at(p, token, "'%.100s' was declared with other parameters", f->name);
        if (old->limits.noreturn != f->limits.noreturn)
                return ds_ptx_error_at(p, token, "one declaration of '%.100s' has .noreturn, another has not", f->name);
        if (!same_linkage(old, f))
                return ds_ptx_error_at(p, token, "'%.100s' was declared with another linkage", f->name);
        symbol->function = f;
        return 0;
}

static int parse_header(struct ds_ptx_parser *p, struct ds_ptx_function *f)
{
        struct ds_ptx_token name;
        int r = 0;

        f->is_entry = ds_ptx_at_word(p, ".entry");
        ds_ptx_advance(p);
        if (ds_ptx_at(p, '(') && !f->is_entry)
                r = ds_ptx_parse_params(p, f, &f->rets, &f->n_rets);
        if (!r)
                r = ds_ptx_parse_name(p, "a function's name", &name, &f->name);
        if (!r && ds_ptx_at(p, '('))
                r = ds_ptx_parse_params(p, f, &f->params, &f->n_params);
        if (!r && f->n_rets > 1 && f->rets[0]->space == DS_PTX_IN_PARAM)
                r = ds_ptx_error_at(p, &name, "several results must be in .reg space");
        if (!r && f->is_entry)
                r = lay_out_params(p, &name, f);
        if (!r)
                r = parse_limits(p, f);
        if (r)
                return r;
        f->has_body = ds_ptx_at(p, '{');
        if (!f->has_body)
                r = ds_ptx_expect(p, ';');
        else if (f->linkage == DS_PTX_LINKAGE_EXTERN)
                r = ds_ptx_error_at(p, &name, "an .extern function has no body");
        return r ? r : declare_function(p, &name, f);
}

static int add_function(struct ds_ptx_parser *p, struct ds_ptx_function *f)
{
        struct ds_ptx_module *m = p->module;

        m->functions = ds_arena_grow(p->arena, m->functions, m->n_functions, &p->cap_functions, sizeof(*m->functions));
        if (!m->functions)
                return -ENOMEM;
        f->index = m->n_functions;
        m->functions[m->n_functions++] = f;
        return 0;
}

int ds_ptx_parse_function(struct ds_ptx_parser *p, enum ds_ptx_linkage linkage)
{
        struct ds_ptx_function *f = ds_arena_alloc(p->arena, 1, sizeof(*f));
        struct ds_ptx_body body = {.function = f};
        int r;

        if (!f || !ds_ptx_symtab_open(&p->symbols))
                return -ENOMEM;
        f->linkage = (uint8_t)linkage;
        f->definition = f;
        f->line = p->token.line;
        body.base_depth = p->symbols.depth;
        p->body = &body;
        r = parse_header(p, f);
        if (!r)
                r = add_function(p, f);
        if (!r && f->has_body)
                r = parse_body(p);
        while (p->symbols.depth >= body.base_depth)
                ds_ptx_symtab_close(&p->symbols);
        p->body = NULL;
        return r;
}
