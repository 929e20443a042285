/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parser internals: what its files share
 *
 * Recursive descent over one module with one token of look-ahead. Names are resolved while parsing. PTX declares names
 * before their use; only labels may come later, and uses of them wait in the scope's list. So a parsed module has no
 * unresolved name. No recursion on input is unbounded: scopes are a loop, expressions and initialisers count their
 * depth.
 *
 * Functions here return 0, or DS_PTX_E_INVALID after they have reported an error (the caller skips to the next
 * statement), or -ENOMEM, which ends the parse.
 *
 *  parser.c          tokens, errors, the module's top level
 *  parser_expr.c     constant expressions
 *  parser_var.c      variables, registers, initialisers
 *  parser_func.c     functions: headers, parameters, bodies with their scopes, labels, lists
 *  parser_instr.c    instructions and calls
 *  parser_operand.c  operands
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptx/ir.h"
#include "ptx/lexer.h"
#include "ptx/symtab.h"
#include "ptx/tables.h"

#define DS_PTX_MAX_ERRORS 1000 /* number of errors after which the parse ends */
#define DS_PTX_MAX_NESTING 32  /* most nested expressions or initialisers */
#define DS_PTX_MAX_VAR_BYTES (UINT64_C(1) << 40)

/* A use of a label whose definition has not been parsed yet. */
struct ds_ptx_pending {
        struct ds_ptx_pending *next;
        struct ds_ptx_token token;
        uint32_t *slot; /* place that receives the index of the label */
};

/* State of the function whose body is being parsed: capacities of its arrays, and unresolved labels by scope. */
struct ds_ptx_body {
        struct ds_ptx_function *function;
        size_t cap_regs, cap_vars, cap_instrs, cap_labels, cap_targets, cap_items;
        /* unresolved labels of each scope, by depth in the symbol table */
        struct ds_ptx_pending *pending[DS_PTX_MAX_SCOPES + 4];
        uint32_t base_depth; /* depth of the scope of the body's outermost braces */
};

struct ds_ptx_parser {
        struct ds_ptx_module *module;
        ds_arena *arena;
        struct ds_ptx_diags *diags;
        struct ds_ptx_lexer lexer;
        struct ds_ptx_token token; /* current token */
        uint32_t braces;           /* open braces of vectors and initialisers in the current statement */
        const char *last_end;      /* end of the previous token */
        struct ds_ptx_index index;
        struct ds_ptx_symtab symbols;
        struct ds_ptx_symtab strings; /* interned instruction texts */
        struct ds_ptx_body *body;     /* function whose body is being parsed; NULL at module level */
        size_t cap_directives, cap_vars, cap_functions;
};

/* Value of a constant expression. */
struct ds_ptx_value {
        uint8_t kind; /* DS_PTX_TOKEN_INT, _F32 or _F64 */
        bool is_unsigned;
        uint64_t bits;
};

/* parser.c */
void ds_ptx_advance(struct ds_ptx_parser *p);
bool ds_ptx_at(const struct ds_ptx_parser *p, uint32_t punct);
/* true if the current token is this identifier, or this dotted word (with its dot) */
bool ds_ptx_at_word(const struct ds_ptx_parser *p, const char *word);
bool ds_ptx_token_is(const struct ds_ptx_token *token, const char *word);
bool ds_ptx_accept(struct ds_ptx_parser *p, uint32_t punct);
int ds_ptx_expect(struct ds_ptx_parser *p, uint32_t punct);
/* Reports "expected WHAT before 'token'" at the current token. */
int ds_ptx_unexpected(struct ds_ptx_parser *p, const char *what);
int ds_ptx_error_at(struct ds_ptx_parser *p, const struct ds_ptx_token *token, const char *fmt, ...)
        __attribute__((__format__(__printf__, 3, 4)));
/* Skips the statement: stops behind its `;`, before a `}` that is not its own, or at the end of the text. */
void ds_ptx_skip_statement(struct ds_ptx_parser *p);
/* ds_ptx_copy_text(): a copy of the text from start to end. ds_ptx_intern(): a copy that equal texts share. */
int ds_ptx_copy_text(struct ds_ptx_parser *p, const char *start, const char *end, const char **ret);
int ds_ptx_intern(struct ds_ptx_parser *p, const char *s, size_t n, const char **ret);
/* Reads an identifier into *ret and *ret_name, and advances. */
int ds_ptx_parse_name(struct ds_ptx_parser *p, const char *what, struct ds_ptx_token *ret, const char **ret_name);
/* Adds a name to the current scope; it is an error if the scope already has that name. */
int ds_ptx_declare(struct ds_ptx_parser *p, const struct ds_ptx_token *token, const char *name,
        enum ds_ptx_symbol_kind kind, struct ds_ptx_symbol **ret);
int ds_ptx_parse_module(struct ds_ptx_parser *p);

/* parser_expr.c */
/* op_read: the unary operator at the begin of the expression if the caller has read it already; else 0 */
int ds_ptx_parse_const(struct ds_ptx_parser *p, uint32_t op_read, struct ds_ptx_value *ret);
int ds_ptx_parse_int(struct ds_ptx_parser *p, int64_t *ret);
int ds_ptx_parse_uint(struct ds_ptx_parser *p, uint64_t max, uint64_t *ret);

/* parser_var.c */
enum ds_ptx_space ds_ptx_space_of_word(const struct ds_ptx_token *token);
/* Parses a declaration such as `.global .align 4 .b8 x[4] = {...}, y;`; the current token is the space. */
int ds_ptx_parse_variables(struct ds_ptx_parser *p, enum ds_ptx_linkage linkage);
int ds_ptx_parse_registers(struct ds_ptx_parser *p);
/* Parses a parameter list such as (.param .u32 a, .reg .b32 b), with its parentheses; function: NULL for a prototype */
int ds_ptx_parse_params(
        struct ds_ptx_parser *p, struct ds_ptx_function *function, struct ds_ptx_var ***ret, uint32_t *ret_n);
/* Finds a symbol by name; for a register of a range it makes the symbol. NULL: the name is unknown, or out of memory
 * (*ret_r). */
struct ds_ptx_symbol *ds_ptx_lookup(struct ds_ptx_parser *p, const struct ds_ptx_token *token, int *ret_r);
/* The dense index of a register's symbol (of a vector register: of its first component) */
int ds_ptx_use_register(struct ds_ptx_parser *p, struct ds_ptx_symbol *symbol, uint32_t *ret);

/* parser_init.c */
int ds_ptx_parse_initialiser(struct ds_ptx_parser *p, struct ds_ptx_var *var);

/* parser_func.c */
int ds_ptx_parse_function(struct ds_ptx_parser *p, enum ds_ptx_linkage linkage);
bool ds_ptx_same_prototype(const struct ds_ptx_function *a, const struct ds_ptx_function *b);
/* Parses .pragma "...", "..."; and advances behind it. */
int ds_ptx_parse_pragma(struct ds_ptx_parser *p);
int ds_ptx_add_item(struct ds_ptx_parser *p, const struct ds_ptx_item *item);
/* Stores in *slot the index of the label that the token names, when the label's scope ends. */
int ds_ptx_refer_label(struct ds_ptx_parser *p, const struct ds_ptx_token *token, uint32_t *slot);

/* parser_instr.c */
/* first: identifier of the mnemonic, already read; guard: predicate register, DS_PTX_NO_REG: none */
int ds_ptx_parse_instruction(
        struct ds_ptx_parser *p, const struct ds_ptx_token *first, uint32_t guard, bool guard_negated);

/* parser_operand.c */
int ds_ptx_parse_operand(struct ds_ptx_parser *p, struct ds_ptx_operand *ret);
int ds_ptx_parse_predicate(struct ds_ptx_parser *p, uint32_t *ret);
