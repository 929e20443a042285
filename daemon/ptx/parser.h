/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parser internals: what its files share
 *
 * Recursive descent with one token of look-ahead over one module. Names are resolved while parsing (PTX declares before
 * use; only labels may come later, they wait in the scope's list), so a parsed module has no dangling name. Nothing
 * recurses on input without a bound: scopes are a loop, expressions and initialisers count their depth.
 *
 * Functions here return 0, DS_PTX_E_INVALID when they reported an error (the caller skips to the next statement), or
 * -ENOMEM, which ends the parse.
 *
 *   parser.c          tokens, errors, the module's top level
 *   parser_expr.c     constant expressions
 *   parser_var.c      variables, registers, initialisers
 *   parser_func.c     functions: headers, parameters, bodies with their scopes, labels, lists
 *   parser_instr.c    instructions and calls
 *   parser_operand.c  operands
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptx/ir.h"
#include "ptx/lexer.h"
#include "ptx/symtab.h"
#include "ptx/tables.h"

#define DS_PTX_MAX_ERRORS 1000 /* the parse ends after so many */
#define DS_PTX_MAX_NESTING 32  /* of expressions and initialisers */
#define DS_PTX_MAX_VAR_BYTES (UINT64_C(1) << 40)

/* A name that was used before its label stood */
struct ds_ptx_pending {
        struct ds_ptx_pending *next;
        struct ds_ptx_token token;
        uint32_t *slot; /* receives the label's index */
};

/* The function whose body is being read: capacities of its arrays, and labels waited for per scope */
struct ds_ptx_body {
        struct ds_ptx_function *function;
        size_t cap_regs, cap_vars, cap_instrs, cap_labels, cap_targets, cap_items;
        struct ds_ptx_pending *pending[DS_PTX_MAX_SCOPES + 4]; /* by depth of the symbol table */
        uint32_t base_depth;                                   /* of the outermost braces */
};

struct ds_ptx_parser {
        struct ds_ptx_module *module;
        ds_arena *arena;
        struct ds_ptx_diags *diags;
        struct ds_ptx_lexer lexer;
        struct ds_ptx_token token; /* the current one */
        uint32_t braces;           /* open in the statement being read: of vectors and initialisers */
        const char *last_end;      /* end of the token before it */
        struct ds_ptx_index index;
        struct ds_ptx_symtab symbols;
        struct ds_ptx_symtab strings; /* interned instruction texts */
        struct ds_ptx_body *body;     /* NULL at module level */
        size_t cap_directives, cap_vars, cap_functions;
};

/* What a constant expression is worth */
struct ds_ptx_value {
        uint8_t kind; /* DS_PTX_TOKEN_INT, _F32 or _F64 */
        bool is_unsigned;
        uint64_t bits;
};

/* parser.c */
void ds_ptx_advance(struct ds_ptx_parser *p);
bool ds_ptx_at(const struct ds_ptx_parser *p, uint32_t punct);
bool ds_ptx_at_word(const struct ds_ptx_parser *p, const char *word); /* identifier, or dotted word with its dot */
bool ds_ptx_token_is(const struct ds_ptx_token *token, const char *word);
bool ds_ptx_accept(struct ds_ptx_parser *p, uint32_t punct);
int ds_ptx_expect(struct ds_ptx_parser *p, uint32_t punct);
/* "expected WHAT before 'token'" at the current token */
int ds_ptx_unexpected(struct ds_ptx_parser *p, const char *what);
int ds_ptx_error_at(struct ds_ptx_parser *p, const struct ds_ptx_token *token, const char *fmt, ...)
        __attribute__((__format__(__printf__, 3, 4)));
/* Skip to behind the statement's `;`, or before a `}` that is not its own, or the end */
void ds_ptx_skip_statement(struct ds_ptx_parser *p);
/* Copies of the text between two places, of a token, and a shared copy */
int ds_ptx_copy_text(struct ds_ptx_parser *p, const char *start, const char *end, const char **ret);
int ds_ptx_intern(struct ds_ptx_parser *p, const char *s, size_t n, const char **ret);
/* An identifier becomes *ret and *ret_name, and is passed. */
int ds_ptx_parse_name(struct ds_ptx_parser *p, const char *what, struct ds_ptx_token *ret, const char **ret_name);
/* Adds a name to the current scope; an error when the scope has it already. */
int ds_ptx_declare(struct ds_ptx_parser *p, const struct ds_ptx_token *token, const char *name,
        enum ds_ptx_symbol_kind kind, struct ds_ptx_symbol **ret);
int ds_ptx_parse_module(struct ds_ptx_parser *p);

/* parser_expr.c */
/* op_read: the unary operator that the expression begins with, when it has been passed already, else 0 */
int ds_ptx_parse_const(struct ds_ptx_parser *p, uint32_t op_read, struct ds_ptx_value *ret);
int ds_ptx_parse_int(struct ds_ptx_parser *p, int64_t *ret);
int ds_ptx_parse_uint(struct ds_ptx_parser *p, uint64_t max, uint64_t *ret);

/* parser_var.c */
enum ds_ptx_space ds_ptx_space_of_word(const struct ds_ptx_token *token);
/* `.global .align 4 .b8 x[4] = {...}, y;` with the space as current token */
int ds_ptx_parse_variables(struct ds_ptx_parser *p, enum ds_ptx_linkage linkage);
int ds_ptx_parse_registers(struct ds_ptx_parser *p);
/* (.param .u32 a, .reg .b32 b): the list with its parentheses; named false for prototypes */
int ds_ptx_parse_params(
        struct ds_ptx_parser *p, struct ds_ptx_function *function, struct ds_ptx_var ***ret, uint32_t *ret_n);
/* A symbol by name; registers of a range come into being here. NULL when there is none (or no memory: *ret_r). */
struct ds_ptx_symbol *ds_ptx_lookup(struct ds_ptx_parser *p, const struct ds_ptx_token *token, int *ret_r);
/* The dense index of a register's symbol (the first of a vector register's) */
int ds_ptx_use_register(struct ds_ptx_parser *p, struct ds_ptx_symbol *symbol, uint32_t *ret);

/* parser_init.c */
int ds_ptx_parse_initialiser(struct ds_ptx_parser *p, struct ds_ptx_var *var);

/* parser_func.c */
int ds_ptx_parse_function(struct ds_ptx_parser *p, enum ds_ptx_linkage linkage);
bool ds_ptx_same_prototype(const struct ds_ptx_function *a, const struct ds_ptx_function *b);
/* .pragma "...", "...";: behind it */
int ds_ptx_parse_pragma(struct ds_ptx_parser *p);
int ds_ptx_add_item(struct ds_ptx_parser *p, const struct ds_ptx_item *item);
/* *slot receives the index of the label that the token names, when its scope ends. */
int ds_ptx_refer_label(struct ds_ptx_parser *p, const struct ds_ptx_token *token, uint32_t *slot);

/* parser_instr.c */
/* first: the mnemonic's identifier, already passed; guard: DS_PTX_NO_REG when there is none */
int ds_ptx_parse_instruction(
        struct ds_ptx_parser *p, const struct ds_ptx_token *first, uint32_t guard, bool guard_negated);

/* parser_operand.c */
int ds_ptx_parse_operand(struct ds_ptx_parser *p, struct ds_ptx_operand *ret);
int ds_ptx_parse_predicate(struct ds_ptx_parser *p, uint32_t *ret);
