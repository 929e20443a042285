/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions: matching the dotted words against the opcode table, then the operands
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ptx/parser.h"
#include "util/macro.h"

#define MAX_TEXT 200  /* most characters of an instruction's words */
#define MAX_ARGS 4096 /* most arguments of one call */

struct spelling {
        struct ds_ptx_word words[DS_PTX_MAX_WORDS];
        struct ds_ptx_token tokens[DS_PTX_MAX_WORDS];
        uint32_t n;
        char text[MAX_TEXT + 1];
        size_t length;
};

static bool add_word(struct spelling *spelling, const struct ds_ptx_token *token)
{
        bool dot = token->kind == DS_PTX_TOKEN_DOT;

        if (spelling->n == DS_PTX_MAX_WORDS || spelling->length + token->length > MAX_TEXT)
                return false;
        spelling->tokens[spelling->n] = *token;
        spelling->words[spelling->n++] = (struct ds_ptx_word){token->start + dot, token->length - dot};
        memcpy(spelling->text + spelling->length, token->start, token->length);
        spelling->length += token->length;
        spelling->text[spelling->length] = '\0';
        return true;
}

static int read_words(struct ds_ptx_parser *p, const struct ds_ptx_token *first, struct spelling *spelling)
{
        spelling->n = 0;
        spelling->length = 0;
        if (!add_word(spelling, first))
                return ds_ptx_error_at(p, first, "unknown instruction '%.60s...'", first->start);
        for (; p->token.kind == DS_PTX_TOKEN_DOT; ds_ptx_advance(p))
                if (!add_word(spelling, &p->token))
                        return ds_ptx_error_at(p, first, "unknown instruction '%.60s...'", spelling->text);
        return 0;
}

static int find_row(struct ds_ptx_parser *p, const struct spelling *spelling, struct ds_ptx_instr *instr)
{
        const struct ds_ptx_token *first = &spelling->tokens[0];
        uint32_t word = 0;

        switch (ds_ptx_match(&p->index, spelling->words, spelling->n, instr, &word)) {
        case DS_PTX_MATCH_OK:
                return ds_ptx_intern(p, spelling->text, spelling->length, &instr->text);
        case DS_PTX_MATCH_WORD:
                return ds_ptx_error_at(p, &spelling->tokens[word],
                        "unknown instruction '%.100s': '.%.*s' does not fit there", spelling->text,
                        (int)DS_MIN(spelling->words[word].n, 40u), spelling->words[word].s);
        case DS_PTX_MATCH_MISSING:
                return ds_ptx_error_at(
                        p, first, "unknown instruction '%.100s': something is missing at its end", spelling->text);
        default:
                return ds_ptx_error_at(p, first, "unknown instruction '%.100s'", spelling->text);
        }
}

/* --- calls ------------------------------------------------------------------------------------------------------- */
/* Parses an argument list (a, b); the current token is its parenthesis. */
static int parse_arguments(struct ds_ptx_parser *p, struct ds_ptx_operand **ret, uint16_t *ret_n)
{
        struct ds_ptx_operand *args = NULL;
        size_t capacity = 0;
        uint16_t n = 0;

        ds_ptx_advance(p);
        while (!ds_ptx_at(p, ')')) {
                int r = n ? ds_ptx_expect(p, ',') : 0;

                if (n == MAX_ARGS)
                        return ds_ptx_error_at(p, &p->token, "a call has at most %d arguments", MAX_ARGS);
                args = ds_arena_grow(p->arena, args, n, &capacity, sizeof(*args));
                if (!args)
                        return -ENOMEM;
                if (!r)
                        r = ds_ptx_parse_operand(p, &args[n++]);
                if (r)
                        return r;
        }
        ds_ptx_advance(p);
        *ret = args;
        *ret_n = n;
        return 0;
}

static int parse_callee(struct ds_ptx_parser *p, struct ds_ptx_call *call)
{
        struct ds_ptx_token at = p->token;
        struct ds_ptx_operand callee;
        int r = ds_ptx_parse_operand(p, &callee);

        if (r)
                return r;
        if (callee.kind == DS_PTX_OPERAND_FUNCTION)
                call->function = callee.function;
        else if (callee.kind == DS_PTX_OPERAND_REG && !callee.negated && !callee.select)
                call->reg = callee.reg;
        else
                return ds_ptx_error_at(p, &at, "a call needs a function or a register with its address");
        return 0;
}

/* Parses the prototype or the target list of an indirect call */
static int parse_call_kind(struct ds_ptx_parser *p, struct ds_ptx_call *call)
{
        struct ds_ptx_symbol *symbol = NULL;

        if (p->token.kind == DS_PTX_TOKEN_IDENT)
                symbol = ds_ptx_symtab_find(&p->symbols, p->token.start, p->token.length);
        if (symbol && symbol->kind == DS_PTX_SYMBOL_PROTOTYPE)
                call->prototype = symbol->prototype;
        else if (symbol && symbol->kind == DS_PTX_SYMBOL_TARGETS)
                call->targets = symbol->index;
        else
                return ds_ptx_unexpected(p, "the name of a .callprototype or .calltargets");
        ds_ptx_advance(p);
        return 0;
}

static int parse_call(struct ds_ptx_parser *p, struct ds_ptx_operand *ret)
{
        struct ds_ptx_call *call = ds_arena_alloc(p->arena, 1, sizeof(*call));
        int r = 0;

        if (!call)
                return -ENOMEM;
        *ret = (struct ds_ptx_operand){
                .kind = DS_PTX_OPERAND_CALL, .line = p->token.line, .column = p->token.column, .call = call};
        call->reg = DS_PTX_NO_REG;
        call->targets = UINT32_MAX;
        if (ds_ptx_at(p, '(')) {
                r = parse_arguments(p, &call->rets, &call->n_rets);
                if (!r)
                        r = ds_ptx_expect(p, ',');
        }
        if (!r)
                r = parse_callee(p, call);
        if (r || !ds_ptx_accept(p, ','))
                return r;
        if (ds_ptx_at(p, '(')) {
                r = parse_arguments(p, &call->args, &call->n_args);
                if (r || !ds_ptx_accept(p, ','))
                        return r;
        }
        return parse_call_kind(p, call);
}

/* --- operands ---------------------------------------------------------------------------------------------------- */
static int parse_label(struct ds_ptx_parser *p, struct ds_ptx_operand *ret)
{
        if (p->token.kind != DS_PTX_TOKEN_IDENT)
                return ds_ptx_unexpected(p, "a label");
        ret->kind = DS_PTX_OPERAND_LABEL;
        ret->line = p->token.line;
        ret->column = p->token.column;
        return 0;
}

static int parse_target_list(struct ds_ptx_parser *p, struct ds_ptx_operand *ret)
{
        struct ds_ptx_symbol *symbol = NULL;

        if (p->token.kind == DS_PTX_TOKEN_IDENT)
                symbol = ds_ptx_symtab_find(&p->symbols, p->token.start, p->token.length);
        if (!symbol || symbol->kind != DS_PTX_SYMBOL_TARGETS || !p->body->function->targets[symbol->index].labels)
                return ds_ptx_unexpected(p, "the name of a .branchtargets list");
        *ret = (struct ds_ptx_operand){.kind = DS_PTX_OPERAND_TARGETS,
                .line = p->token.line,
                .column = p->token.column,
                .targets = symbol->index};
        ds_ptx_advance(p);
        return 0;
}

/* Role letter of operand i in a row's operand string (opcodes.def); '\0' past its end. */
static char role_of(const char *operands, uint32_t i)
{
        while (i-- && operands) {
                operands = strchr(operands, ' ');
                operands = operands ? operands + 1 : NULL;
        }
        return operands ? *operands : '\0';
}

static int parse_operands(struct ds_ptx_parser *p, struct ds_ptx_instr *instr)
{
        const struct ds_ptx_op_info *info = ds_ptx_op_info((enum ds_ptx_op)instr->op);
        struct ds_ptx_operand found[DS_PTX_MAX_OPERANDS];
        struct ds_ptx_token label = {0};
        uint8_t n = 0;

        while (!ds_ptx_at(p, ';')) {
                char role = role_of(info->operands, n);
                int r = n ? ds_ptx_expect(p, ',') : 0;

                if (r)
                        return r;
                if (n == DS_PTX_MAX_OPERANDS)
                        return ds_ptx_error_at(p, &p->token, "'%s' has too many operands", instr->text);
                found[n] = (struct ds_ptx_operand){.reg = DS_PTX_NO_REG, .pair = DS_PTX_NO_REG};
                if (role == 'l') {
                        label = p->token;
                        r = parse_label(p, &found[n]);
                        if (!r)
                                ds_ptx_advance(p);
                } else if (role == 't') {
                        r = parse_target_list(p, &found[n]);
                } else if (role == 'c') {
                        r = parse_call(p, &found[n]);
                } else {
                        r = ds_ptx_parse_operand(p, &found[n]);
                }
                if (r)
                        return r;
                n++;
        }
        instr->n_operands = n;
        if (!n)
                return 0;
        instr->operands = ds_arena_alloc(p->arena, n, sizeof(*found));
        if (!instr->operands)
                return -ENOMEM;
        memcpy(instr->operands, found, n * sizeof(*found));
        /* the label's index is stored later into this operand, which must not move any more; only bra has a label */
        return found[0].kind == DS_PTX_OPERAND_LABEL ? ds_ptx_refer_label(p, &label, &instr->operands[0].label) : 0;
}

int ds_ptx_parse_instruction(
        struct ds_ptx_parser *p, const struct ds_ptx_token *first, uint32_t guard, bool guard_negated)
{
        struct ds_ptx_function *f = p->body->function;
        struct ds_ptx_instr instr = {
                .guard = guard, .guard_negated = guard_negated, .line = first->line, .column = first->column};
        struct spelling spelling;
        int r = read_words(p, first, &spelling);

        if (!r)
                r = find_row(p, &spelling, &instr);
        if (!r)
                r = parse_operands(p, &instr);
        if (!r)
                r = ds_ptx_expect(p, ';');
        if (r)
                return r;
        f->instrs = ds_arena_grow(p->arena, f->instrs, f->n_instrs, &p->body->cap_instrs, sizeof(*f->instrs));
        if (!f->instrs)
                return -ENOMEM;
        f->instrs[f->n_instrs++] = instr;
        return 0;
}
