/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/parser.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "util/macro.h"

/* --- tokens ------------------------------------------------------------------------------------------------------ */
void ds_ptx_advance(struct ds_ptx_parser *p)
{
        p->last_end = p->token.start + p->token.length;
        ds_ptx_lexer_next(&p->lexer, &p->token);
}

bool ds_ptx_at(const struct ds_ptx_parser *p, uint32_t punct)
{
        return p->token.kind == DS_PTX_TOKEN_PUNCT && p->token.punct == punct;
}

bool ds_ptx_token_is(const struct ds_ptx_token *token, const char *word)
{
        return (token->kind == DS_PTX_TOKEN_IDENT || token->kind == DS_PTX_TOKEN_DOT) &&
               token->length == strlen(word) && memcmp(token->start, word, token->length) == 0;
}

bool ds_ptx_at_word(const struct ds_ptx_parser *p, const char *word)
{
        return ds_ptx_token_is(&p->token, word);
}

bool ds_ptx_accept(struct ds_ptx_parser *p, uint32_t punct)
{
        if (!ds_ptx_at(p, punct))
                return false;
        ds_ptx_advance(p);
        return true;
}

int ds_ptx_expect(struct ds_ptx_parser *p, uint32_t punct)
{
        char what[4] = {'\'', (char)punct, '\'', '\0'};

        return ds_ptx_accept(p, punct) ? 0 : ds_ptx_unexpected(p, what);
}

/* --- errors ------------------------------------------------------------------------------------------------------ */
int ds_ptx_error_at(struct ds_ptx_parser *p, const struct ds_ptx_token *token, const char *fmt, ...)
{
        char message[200];
        va_list args;

        va_start(args, fmt);
        vsnprintf(message, sizeof(message), fmt, args);
        va_end(args);
        ds_ptx_diag_add(p->diags, p->module->text, p->module->length, token->line, token->column, "%s", message);
        return DS_PTX_E_INVALID;
}

int ds_ptx_unexpected(struct ds_ptx_parser *p, const char *what)
{
        if (p->token.kind == DS_PTX_TOKEN_END)
                return ds_ptx_error_at(p, &p->token, "expected %s before the end of the text", what);
        return ds_ptx_error_at(
                p, &p->token, "expected %s before '%.*s'", what, (int)DS_MIN(p->token.length, 60u), p->token.start);
}

void ds_ptx_skip_statement(struct ds_ptx_parser *p)
{
        while (p->token.kind != DS_PTX_TOKEN_END) {
                bool last = ds_ptx_at(p, ';');

                if (ds_ptx_at(p, '{')) {
                        p->braces++;
                } else if (ds_ptx_at(p, '}')) {
                        if (!p->braces)
                                return;
                        p->braces--;
                }
                ds_ptx_advance(p);
                if (last)
                        return;
        }
}

/* --- texts and names --------------------------------------------------------------------------------------------- */
int ds_ptx_copy_text(struct ds_ptx_parser *p, const char *start, const char *end, const char **ret)
{
        size_t n = (size_t)(end - start);
        char *copy;

        assert(end >= start);
        copy = ds_arena_strndup(p->arena, start, n);
        if (!copy)
                return -ENOMEM;
        /* a comment in the copied text may contain NUL bytes; blanks replace them, since the copy is a C string */
        for (char *nul = copy; (nul = memchr(nul, '\0', n - (size_t)(nul - copy)));)
                *nul = ' ';
        *ret = copy;
        return 0;
}

int ds_ptx_intern(struct ds_ptx_parser *p, const char *s, size_t n, const char **ret)
{
        struct ds_ptx_symbol *symbol = ds_ptx_symtab_find(&p->strings, s, n);

        if (!symbol) {
                const char *copy = ds_arena_strndup(p->arena, s, n);

                symbol = copy ? ds_ptx_symtab_add(&p->strings, copy, n, DS_PTX_SYMBOL_LABEL, 0) : NULL;
        }
        if (!symbol)
                return -ENOMEM;
        *ret = symbol->name;
        return 0;
}

int ds_ptx_parse_name(struct ds_ptx_parser *p, const char *what, struct ds_ptx_token *ret, const char **ret_name)
{
        int r;

        if (p->token.kind != DS_PTX_TOKEN_IDENT || ds_ptx_at_word(p, "$") || ds_ptx_at_word(p, "WARP_SZ"))
                return ds_ptx_unexpected(p, what);
        *ret = p->token;
        r = ds_ptx_copy_text(p, ret->start, ret->start + ret->length, ret_name);
        ds_ptx_advance(p);
        return r;
}

int ds_ptx_declare(struct ds_ptx_parser *p, const struct ds_ptx_token *token, const char *name,
        enum ds_ptx_symbol_kind kind, struct ds_ptx_symbol **ret)
{
        size_t length = strlen(name);
        struct ds_ptx_symbol *old = kind == DS_PTX_SYMBOL_RANGE ? ds_ptx_symtab_find_range(&p->symbols, name, length, 0)
                                                                : ds_ptx_symtab_find(&p->symbols, name, length);

        if (strcmp(name, "_") == 0)
                return ds_ptx_error_at(p, token, "'_' is not a name");
        if (old && old->depth == p->symbols.depth)
                return ds_ptx_error_at(p, token, "'%.100s' is already defined in this scope", name);
        *ret = ds_ptx_symtab_add(&p->symbols, name, length, kind, p->symbols.depth);
        return *ret ? 0 : -ENOMEM;
}

/* --- the module's top level -------------------------------------------------------------------------------------- */
static int add_directive(struct ds_ptx_parser *p, const struct ds_ptx_directive *directive)
{
        struct ds_ptx_module *m = p->module;

        m->directives =
                ds_arena_grow(p->arena, m->directives, m->n_directives, &p->cap_directives, sizeof(*m->directives));
        if (!m->directives)
                return -ENOMEM;
        m->directives[m->n_directives++] = *directive;
        return 0;
}

static int add_text_directive(struct ds_ptx_parser *p, const char *start, const char *end)
{
        struct ds_ptx_directive directive = {.kind = DS_PTX_DIRECTIVE_TEXT};
        int r = ds_ptx_copy_text(p, start, end, &directive.text);

        return r ? r : add_directive(p, &directive);
}

/* Parses .file and @@DWARF, kept unchanged to the end of the line. */
static int parse_text_line(struct ds_ptx_parser *p)
{
        const char *start = p->token.start, *end;

        if (ds_ptx_accept(p, '@')) {
                if (!ds_ptx_at(p, '@'))
                        return ds_ptx_unexpected(p, "'@'");
        } else {
                ds_ptx_advance(p);
                if (p->token.kind != DS_PTX_TOKEN_INT)
                        return ds_ptx_unexpected(p, "the number of a file");
                ds_ptx_advance(p);
                if (p->token.kind != DS_PTX_TOKEN_STRING)
                        return ds_ptx_unexpected(p, "the name of a file");
        }
        ds_ptx_lexer_rest_of_line(&p->lexer, start, &end);
        ds_ptx_advance(p);
        return add_text_directive(p, start, end);
}

/* Parses .section name { ... }, kept unchanged. */
static int parse_section(struct ds_ptx_parser *p)
{
        const char *start = p->token.start;

        ds_ptx_advance(p);
        if (p->token.kind != DS_PTX_TOKEN_DOT)
                return ds_ptx_unexpected(p, "a section's name");
        while (p->token.kind != DS_PTX_TOKEN_END && !ds_ptx_at(p, '}'))
                ds_ptx_advance(p);
        if (!ds_ptx_at(p, '}'))
                return ds_ptx_unexpected(p, "'}'");
        ds_ptx_advance(p);
        return add_text_directive(p, start, p->last_end);
}

int ds_ptx_parse_pragma(struct ds_ptx_parser *p)
{
        do {
                ds_ptx_advance(p);
                if (p->token.kind != DS_PTX_TOKEN_STRING)
                        return ds_ptx_unexpected(p, "a string");
                ds_ptx_advance(p);
        } while (ds_ptx_at(p, ','));
        return ds_ptx_expect(p, ';');
}

/* Parses .pragma "...";, kept unchanged. */
static int parse_pragma(struct ds_ptx_parser *p)
{
        const char *start = p->token.start;
        int r = ds_ptx_parse_pragma(p);

        return r ? r : add_text_directive(p, start, p->last_end);
}

static int parse_version(struct ds_ptx_parser *p)
{
        uint32_t major = 0, minor = 0;
        char buffer[16] = "";

        ds_ptx_advance(p);
        memcpy(buffer, p->token.start, DS_MIN(p->token.length, sizeof(buffer) - 1));
        if (p->token.kind != DS_PTX_TOKEN_F64 || sscanf(buffer, "%2u.%1u", &major, &minor) != 2)
                return ds_ptx_unexpected(p, "a version such as 8.0");
        if (p->module->version)
                return ds_ptx_error_at(p, &p->token, ".version is given twice");
        p->module->version = major * 10 + minor;
        if (p->module->version < 60 || p->module->version > 99)
                return ds_ptx_error_at(
                        p, &p->token, "PTX version %u.%u is not supported (6.0 to 9.9 are)", major, minor);
        ds_ptx_advance(p);
        return 0;
}

/* First PTX version in which NVIDIA's assembler accepts a target, 10 * major + minor; 0: an unknown target. */
static uint32_t version_of_target(uint32_t target, char suffix)
{
        static const struct {
                /* family: first PTX version of .target sm_100f, later than that of sm_100 */
                uint8_t target, version, family;
        } rows[] = {{72, 61, 0}, {75, 63, 0}, {80, 70, 0}, {86, 71, 0}, {87, 74, 0}, {88, 90, 0}, {89, 78, 0},
                {90, 78, 0}, {100, 86, 88}, {103, 88, 88}, {110, 90, 90}, {120, 87, 88}, {121, 88, 88}};

        if (target == 90 && suffix)
                return 80;
        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++)
                if (rows[i].target == target)
                        return suffix == 'f' ? rows[i].family : rows[i].version;
        return 0;
}

/* Parses the options behind the architecture in .target: ", texmode_unified, debug". */
static int parse_target_options(struct ds_ptx_parser *p)
{
        bool unified = false, independent = false;

        while (ds_ptx_accept(p, ',')) {
                unified |= ds_ptx_at_word(p, "texmode_unified");
                independent |= ds_ptx_at_word(p, "texmode_independent");
                if (unified && independent)
                        return ds_ptx_error_at(p, &p->token, "a target has one texture mode");
                if (!ds_ptx_at_word(p, "texmode_unified") && !ds_ptx_at_word(p, "texmode_independent") &&
                        !ds_ptx_at_word(p, "debug"))
                        return ds_ptx_unexpected(p, "a target option");
                ds_ptx_advance(p);
        }
        return 0;
}

/* Parses .target sm_90a, debug */
static int parse_target(struct ds_ptx_parser *p)
{
        struct ds_ptx_token first;
        uint32_t number = 0, since;
        char buffer[16] = "", suffix = '\0';
        int n = 0, r;

        ds_ptx_advance(p);
        first = p->token;
        memcpy(buffer, first.start, DS_MIN(first.length, sizeof(buffer) - 1));
        if (first.kind != DS_PTX_TOKEN_IDENT || sscanf(buffer, "sm_%3u%n%c", &number, &n, &suffix) < 1 || !n ||
                (suffix && (n + 1 != (int)first.length || !strchr("af", suffix))))
                return ds_ptx_unexpected(p, "a target such as sm_75");
        if (p->module->target)
                return ds_ptx_error_at(p, &first, ".target is given twice");
        since = version_of_target(number, suffix);
        if (p->module->version && p->module->version < since)
                return ds_ptx_error_at(p, &first,
                        "target %s requires PTX version %u.%u or higher, the module has %u.%u", buffer, since / 10,
                        since % 10, p->module->version / 10, p->module->version % 10);
        p->module->target = number;
        p->module->target_suffix = suffix;
        ds_ptx_advance(p);
        r = parse_target_options(p);
        return r ? r : ds_ptx_copy_text(p, first.start, p->last_end, &p->module->target_text);
}

static int parse_address_size(struct ds_ptx_parser *p)
{
        struct ds_ptx_token at;
        uint64_t size;
        int r;

        ds_ptx_advance(p);
        at = p->token;
        r = ds_ptx_parse_uint(p, 64, &size);
        if (r)
                return r;
        if (size != 64)
                return ds_ptx_error_at(p, &at, "only 64-bit addresses are supported");
        if (p->module->address_size_given || p->module->n_vars || p->module->n_functions)
                return ds_ptx_error_at(p, &at, ".address_size may appear once, before functions and variables");
        p->module->address_size_given = true;
        return 0;
}

static int find_function(struct ds_ptx_parser *p, struct ds_ptx_function **ret)
{
        struct ds_ptx_symbol *symbol = NULL;
        int r = 0;

        if (p->token.kind == DS_PTX_TOKEN_IDENT)
                symbol = ds_ptx_lookup(p, &p->token, &r);
        if (r)
                return r;
        if (!symbol || symbol->kind != DS_PTX_SYMBOL_FUNCTION)
                return ds_ptx_unexpected(p, "the name of a declared function");
        *ret = symbol->function;
        ds_ptx_advance(p);
        return 0;
}

/* Parses .alias declared, defined; */
static int parse_alias(struct ds_ptx_parser *p)
{
        struct ds_ptx_directive directive = {.kind = DS_PTX_DIRECTIVE_ALIAS};
        struct ds_ptx_function *alias, *aliasee;
        struct ds_ptx_token at;
        int r;

        ds_ptx_advance(p);
        at = p->token;
        r = find_function(p, &alias);
        if (!r)
                r = ds_ptx_expect(p, ',');
        if (!r)
                r = find_function(p, &aliasee);
        if (!r)
                r = ds_ptx_expect(p, ';');
        if (r)
                return r;
        if (alias->has_body || !aliasee->has_body || alias == aliasee)
                return ds_ptx_error_at(p, &at, ".alias needs a declared function and a defined one");
        if (!ds_ptx_same_prototype(alias, aliasee))
                return ds_ptx_error_at(p, &at, "the two functions of .alias do not have the same parameters");
        alias->definition = aliasee;
        directive.alias = alias;
        directive.aliasee = aliasee;
        return add_directive(p, &directive);
}

/* Parses a function or variables, which add themselves to the module's arrays; appends the new ones as directives. */
static int parse_entity(struct ds_ptx_parser *p, enum ds_ptx_linkage linkage)
{
        uint32_t vars = p->module->n_vars, functions = p->module->n_functions;
        bool is_function = ds_ptx_at_word(p, ".entry") || ds_ptx_at_word(p, ".func");
        int r;

        if (!is_function && ds_ptx_space_of_word(&p->token) == DS_PTX_SPACE_NONE)
                return ds_ptx_unexpected(p, "a directive");
        if (linkage == DS_PTX_LINKAGE_COMMON && !ds_ptx_at_word(p, ".global"))
                return ds_ptx_error_at(p, &p->token, ".common is for variables in .global space");
        r = is_function ? ds_ptx_parse_function(p, linkage) : ds_ptx_parse_variables(p, linkage);
        if (r < 0)
                return r;
        for (; vars < p->module->n_vars; vars++) {
                struct ds_ptx_directive directive = {.kind = DS_PTX_DIRECTIVE_VAR, .var = p->module->vars[vars]};

                if (add_directive(p, &directive))
                        return -ENOMEM;
        }
        for (; functions < p->module->n_functions; functions++) {
                struct ds_ptx_directive directive = {
                        .kind = DS_PTX_DIRECTIVE_FUNCTION, .function = p->module->functions[functions]};

                if (add_directive(p, &directive))
                        return -ENOMEM;
        }
        return r;
}

static enum ds_ptx_linkage linkage_of_word(const struct ds_ptx_token *token)
{
        static const char *const words[] = {"", ".visible", ".extern", ".weak", ".common"};

        for (uint32_t i = 1; i < DS_ARRAY_SIZE(words); i++)
                if (ds_ptx_token_is(token, words[i]))
                        return (enum ds_ptx_linkage)i;
        return DS_PTX_LINKAGE_NONE;
}

static int parse_directive(struct ds_ptx_parser *p)
{
        enum ds_ptx_linkage linkage;

        if (ds_ptx_at(p, '@') || ds_ptx_at_word(p, ".file"))
                return parse_text_line(p);
        if (p->token.kind != DS_PTX_TOKEN_DOT)
                return ds_ptx_unexpected(p, "a directive");
        if (ds_ptx_at_word(p, ".version"))
                return parse_version(p);
        if (!p->module->version)
                return ds_ptx_error_at(p, &p->token, "the text does not begin with .version");
        if (ds_ptx_at_word(p, ".target"))
                return parse_target(p);
        if (!p->module->target)
                return ds_ptx_error_at(p, &p->token, ".target is missing after .version");
        if (ds_ptx_at_word(p, ".address_size"))
                return parse_address_size(p);
        if (ds_ptx_at_word(p, ".section"))
                return parse_section(p);
        if (ds_ptx_at_word(p, ".pragma"))
                return parse_pragma(p);
        if (ds_ptx_at_word(p, ".alias"))
                return parse_alias(p);
        linkage = linkage_of_word(&p->token);
        if (linkage != DS_PTX_LINKAGE_NONE)
                ds_ptx_advance(p);
        return parse_entity(p, linkage);
}

/* After an error at the top level: skips the rest of the statement, or of the function's body if it began one. */
static void recover(struct ds_ptx_parser *p)
{
        while (p->token.kind != DS_PTX_TOKEN_END) {
                bool closes = ds_ptx_at(p, '}'), last = ds_ptx_at(p, ';') && !p->braces;

                if (ds_ptx_at(p, '{'))
                        p->braces++;
                else if (closes && p->braces)
                        p->braces--;
                ds_ptx_advance(p);
                if (last || (closes && !p->braces && !ds_ptx_at(p, ';')))
                        return;
        }
}

int ds_ptx_parse_module(struct ds_ptx_parser *p)
{
        ds_ptx_advance(p);
        while (p->token.kind != DS_PTX_TOKEN_END && p->diags->total < DS_PTX_MAX_ERRORS) {
                size_t errors = p->diags->total;
                int r;

                p->braces = 0;
                r = parse_directive(p);

                if (r < 0)
                        return r;
                if (!r)
                        continue;
                assert(p->diags->total > errors);
                if (!p->module->version || !p->module->target)
                        return r;
                recover(p);
        }
        if (!p->module->version || !p->module->target)
                return ds_ptx_error_at(p, &p->token, "the text has no .version and .target");
        return p->diags->total ? DS_PTX_E_INVALID : 0;
}
