/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands
 *
 * The form of an operand decides its kind: `[` an address, `{` a vector, a name the kind of its symbol, anything else a
 * constant. The validator checks whether the instruction accepts it there.
 */
#include <errno.h>
#include <string.h>

#include "ptx/parser.h"
#include "util/macro.h"

static int set_constant(struct ds_ptx_parser *p, uint32_t op_read, struct ds_ptx_operand *ret)
{
        struct ds_ptx_value value;
        int r = ds_ptx_parse_const(p, op_read, &value);

        if (r)
                return r;
        ret->kind = value.kind == DS_PTX_TOKEN_INT   ? DS_PTX_OPERAND_INT
                    : value.kind == DS_PTX_TOKEN_F32 ? DS_PTX_OPERAND_F32
                                                     : DS_PTX_OPERAND_F64;
        ret->bits = value.bits;
        return 0;
}

static int undefined(struct ds_ptx_parser *p, const struct ds_ptx_token *token)
{
        return ds_ptx_error_at(p, token, "'%.*s' is not defined", (int)DS_MIN(token->length, 100u), token->start);
}

/* Index 0..3 of .x .y .z .w or .r .g .b .a; -1: another word. */
static int component_of_word(const struct ds_ptx_token *token)
{
        const char *letters = "xyzwrgba", *at;

        if (token->kind != DS_PTX_TOKEN_DOT || token->length != 2)
                return -1;
        at = strchr(letters, token->start[1]);
        return at ? (int)((at - letters) % 4) : -1;
}

/* Parses the selection of a video operand: .b0 .. .b3, .h0, .h1, or a mask of several: .h10, .b3210. */
static int parse_select(struct ds_ptx_parser *p, struct ds_ptx_operand *ret)
{
        static const char *const words[] = {"", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1"};
        const struct ds_ptx_token at = p->token, *token = &at;
        uint32_t i;

        for (i = 1; i < DS_ARRAY_SIZE(words); i++) {
                if (ds_ptx_token_is(token, words[i])) {
                        ret->select = (uint8_t)i;
                        ds_ptx_advance(p);
                        return 0;
                }
        }
        for (i = 2; i < token->length; i++)
                if (token->start[i] < '0' || token->start[i] > (token->start[1] == 'b' ? '7' : '3'))
                        break;
        if (i < token->length || i < 4 || i > 6 || (token->start[1] != 'b' && token->start[1] != 'h'))
                return ds_ptx_unexpected(p, "a part of a register (.x, .b0, .h1)");
        ret->select = DS_PTX_SELECT_MASK;
        ds_ptx_advance(p);
        return ds_ptx_intern(p, token->start, token->length, &ret->select_text);
}

/* Replaces a vector register, named as a whole, by a vector operand with its components. */
static int expand_vector(struct ds_ptx_parser *p, uint32_t first, uint32_t n, struct ds_ptx_operand *ret)
{
        ret->kind = DS_PTX_OPERAND_VECTOR;
        ret->n_elements = (uint16_t)n;
        ret->elements = ds_arena_alloc(p->arena, n, sizeof(*ret->elements));
        if (!ret->elements)
                return -ENOMEM;
        for (uint32_t i = 0; i < n; i++)
                ret->elements[i] = (struct ds_ptx_operand){.kind = DS_PTX_OPERAND_REG,
                        .reg = first + i,
                        .pair = DS_PTX_NO_REG,
                        .line = ret->line,
                        .column = ret->column};
        return 0;
}

/* Parses one half of a pair a|b: the name of a scalar register, or the sink `_`, which gives DS_PTX_NO_REG. */
static int parse_pair_half(struct ds_ptx_parser *p, uint32_t *ret)
{
        struct ds_ptx_token token = p->token;
        struct ds_ptx_symbol *symbol;
        int r;

        *ret = DS_PTX_NO_REG;
        if (token.kind != DS_PTX_TOKEN_IDENT)
                return ds_ptx_unexpected(p, "a register");
        if (ds_ptx_at_word(p, "_")) {
                ds_ptx_advance(p);
                return 0;
        }
        symbol = ds_ptx_lookup(p, &token, &r);
        if (r)
                return r;
        if (!symbol || symbol->kind != DS_PTX_SYMBOL_REG || symbol->reg_decl->vector)
                return symbol ? ds_ptx_unexpected(p, "a register") : undefined(p, &token);
        ds_ptx_advance(p);
        return ds_ptx_use_register(p, symbol, ret);
}

static int finish_pair(struct ds_ptx_parser *p, struct ds_ptx_operand *ret)
{
        if (!ds_ptx_accept(p, '|'))
                return 0;
        ret->kind = DS_PTX_OPERAND_PAIR;
        return parse_pair_half(p, &ret->pair);
}

/* Parses the rest of a register operand, whose name is already read. */
static int parse_register(struct ds_ptx_parser *p, struct ds_ptx_symbol *symbol, struct ds_ptx_operand *ret)
{
        uint32_t vector = symbol->reg_decl->vector;
        int component, r = ds_ptx_use_register(p, symbol, &ret->reg);

        if (r)
                return r;
        ret->kind = DS_PTX_OPERAND_REG;
        if (p->token.kind != DS_PTX_TOKEN_DOT)
                return vector ? expand_vector(p, ret->reg, vector, ret) : finish_pair(p, ret);
        if (!vector)
                return parse_select(p, ret);
        component = component_of_word(&p->token);
        if (component < 0 || component >= (int)vector)
                return ds_ptx_unexpected(p, "a component of the vector register");
        ret->reg += (uint32_t)component;
        ds_ptx_advance(p);
        return 0;
}

static int parse_special(struct ds_ptx_parser *p, const struct ds_ptx_token *token, struct ds_ptx_operand *ret)
{
        enum ds_ptx_sreg sreg = ds_ptx_sreg_find(token->start, token->length, &ret->component);
        int component;

        if (sreg == DS_PTX_SREG_NONE)
                return undefined(p, token);
        ret->kind = DS_PTX_OPERAND_SREG;
        ret->sreg = (uint16_t)sreg;
        if (!ds_ptx_sreg_components(sreg))
                return 0;
        component = component_of_word(&p->token);
        if (component < 0)
                return ds_ptx_unexpected(p, "a component (.x, .y, .z) of the special register");
        ret->component = (uint8_t)component;
        ds_ptx_advance(p);
        return 0;
}

static int parse_named(struct ds_ptx_parser *p, struct ds_ptx_operand *ret)
{
        struct ds_ptx_token token = p->token;
        struct ds_ptx_symbol *symbol;
        int r;

        symbol = ds_ptx_lookup(p, &token, &r);
        if (r)
                return r;
        ds_ptx_advance(p);
        if (!symbol)
                return parse_special(p, &token, ret);
        switch (symbol->kind) {
        case DS_PTX_SYMBOL_REG:
                return parse_register(p, symbol, ret);
        case DS_PTX_SYMBOL_FUNCTION:
                ret->kind = DS_PTX_OPERAND_FUNCTION;
                ret->function = symbol->function;
                return 0;
        case DS_PTX_SYMBOL_VAR:
                ret->kind = DS_PTX_OPERAND_VAR;
                ret->var = symbol->var;
                ret->plus = ds_ptx_at(p, '+');
                return ret->plus ? ds_ptx_parse_int(p, &ret->offset) : 0;
        default:
                return ds_ptx_error_at(p, &token, "'%.*s' is a label and cannot stand here",
                        (int)DS_MIN(token.length, 100u), token.start);
        }
}

/* Parses the operands behind the base of an address: `, {x, y}` or `, sampler, {x}` */
static int parse_coordinates(struct ds_ptx_parser *p, struct ds_ptx_operand *ret)
{
        struct ds_ptx_operand found[3];
        uint16_t n = 0;

        while (ds_ptx_accept(p, ',')) {
                int r;

                if (n == DS_ARRAY_SIZE(found))
                        return ds_ptx_unexpected(p, "']'");
                if (ds_ptx_at(p, '['))
                        return ds_ptx_unexpected(p, "coordinates");
                r = ds_ptx_parse_operand(p, &found[n++]);
                if (r)
                        return r;
        }
        if (!n)
                return 0;
        ret->n_elements = n;
        ret->elements = ds_arena_alloc(p->arena, n, sizeof(*found));
        if (!ret->elements)
                return -ENOMEM;
        memcpy(ret->elements, found, n * sizeof(*found));
        return 0;
}

static int parse_base(struct ds_ptx_parser *p, struct ds_ptx_operand *ret)
{
        struct ds_ptx_operand base = {
                .reg = DS_PTX_NO_REG, .pair = DS_PTX_NO_REG, .line = p->token.line, .column = p->token.column};
        struct ds_ptx_token at = p->token;
        int r;

        if (at.kind != DS_PTX_TOKEN_IDENT || ds_ptx_at_word(p, "WARP_SZ"))
                return ds_ptx_parse_int(p, &ret->offset);
        r = parse_named(p, &base);
        if (r)
                return r;
        if (base.kind == DS_PTX_OPERAND_VAR) {
                ret->var = base.var;
                ret->offset = base.offset;
                ret->plus = base.plus;
                return 0;
        }
        if (base.kind != DS_PTX_OPERAND_REG || base.select)
                return ds_ptx_error_at(p, &at, "an address begins with a register or a variable");
        ret->reg = base.reg;
        ret->plus = ds_ptx_at(p, '+') || ds_ptx_at(p, '-');
        return ret->plus ? ds_ptx_parse_int(p, &ret->offset) : 0;
}

static int parse_address(struct ds_ptx_parser *p, struct ds_ptx_operand *ret)
{
        int r;

        ds_ptx_advance(p);
        ret->kind = DS_PTX_OPERAND_ADDRESS;
        r = parse_base(p, ret);
        if (!r)
                r = parse_coordinates(p, ret);
        if (!r)
                r = ds_ptx_expect(p, ']');
        if (!r && ds_ptx_at_word(p, ".unified")) {
                ret->select = DS_PTX_SELECT_UNIFIED;
                ds_ptx_advance(p);
        }
        return r;
}

static int parse_element(struct ds_ptx_parser *p, struct ds_ptx_operand *ret)
{
        struct ds_ptx_token at = p->token;
        int r;

        if (ds_ptx_at(p, '[') || ds_ptx_at(p, '{'))
                return ds_ptx_unexpected(p, "a register or a constant");
        r = ds_ptx_parse_operand(p, ret);
        if (!r && (ret->kind == DS_PTX_OPERAND_VECTOR || ret->kind == DS_PTX_OPERAND_PAIR))
                return ds_ptx_error_at(p, &at, "an element of a vector must be a scalar");
        return r;
}

static int parse_vector(struct ds_ptx_parser *p, struct ds_ptx_operand *ret)
{
        struct ds_ptx_operand *elements = NULL;
        size_t capacity = 0;
        uint16_t n = 0;

        ret->kind = DS_PTX_OPERAND_VECTOR;
        ds_ptx_advance(p);
        p->braces++;
        do {
                int r;

                if (n == DS_PTX_MAX_VECTOR)
                        return ds_ptx_error_at(p, &p->token, "a vector has at most %d elements", DS_PTX_MAX_VECTOR);
                elements = ds_arena_grow(p->arena, elements, n, &capacity, sizeof(*elements));
                if (!elements)
                        return -ENOMEM;
                r = parse_element(p, &elements[n++]);
                if (r)
                        return r;
        } while (ds_ptx_accept(p, ','));
        ret->elements = elements;
        ret->n_elements = n;
        if (ds_ptx_expect(p, '}'))
                return DS_PTX_E_INVALID;
        p->braces--;
        return 0;
}

/* Parses an operand that begins with a minus sign: -x of a register (video instructions), else a constant. */
static int parse_minus(struct ds_ptx_parser *p, struct ds_ptx_operand *ret)
{
        ds_ptx_advance(p);
        if (p->token.kind != DS_PTX_TOKEN_IDENT || ds_ptx_at_word(p, "WARP_SZ"))
                return set_constant(p, '-', ret);
        ret->negated = true;
        return parse_named(p, ret);
}

/* Parses an operand that begins with !: a predicate, or a constant. */
static int parse_not(struct ds_ptx_parser *p, struct ds_ptx_operand *ret)
{
        struct ds_ptx_token at = p->token;
        int r;

        ds_ptx_advance(p);
        if (p->token.kind != DS_PTX_TOKEN_IDENT || ds_ptx_at_word(p, "WARP_SZ"))
                return set_constant(p, '!', ret);
        ret->negated = true;
        r = parse_named(p, ret);
        if (!r && ret->kind != DS_PTX_OPERAND_REG)
                return ds_ptx_error_at(p, &at, "'!' takes a predicate register");
        return r;
}

int ds_ptx_parse_predicate(struct ds_ptx_parser *p, uint32_t *ret)
{
        struct ds_ptx_token at = p->token;
        int r = parse_pair_half(p, ret);

        if (r)
                return r;
        if (*ret == DS_PTX_NO_REG || p->body->function->regs[*ret].type != DS_PTX_TYPE_PRED)
                return ds_ptx_error_at(p, &at, "a guard must be a predicate register");
        return 0;
}

int ds_ptx_parse_operand(struct ds_ptx_parser *p, struct ds_ptx_operand *ret)
{
        *ret = (struct ds_ptx_operand){
                .reg = DS_PTX_NO_REG, .pair = DS_PTX_NO_REG, .line = p->token.line, .column = p->token.column};
        if (ds_ptx_at(p, '['))
                return parse_address(p, ret);
        if (ds_ptx_at(p, '{')) {
                int r = parse_vector(p, ret);

                return !r && ds_ptx_accept(p, '|') ? parse_pair_half(p, &ret->pair) : r;
        }
        if (ds_ptx_at(p, '-'))
                return parse_minus(p, ret);
        if (ds_ptx_at_word(p, "_")) {
                ds_ptx_advance(p);
                ret->kind = DS_PTX_OPERAND_SINK;
                return finish_pair(p, ret);
        }
        if (ds_ptx_at(p, '!'))
                return parse_not(p, ret);
        if (p->token.kind == DS_PTX_TOKEN_IDENT && !ds_ptx_at_word(p, "WARP_SZ"))
                return parse_named(p, ret);
        return set_constant(p, 0, ret);
}
