/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constant expressions
 *
 * PTX evaluates integers in 64 bits, signed unless an operand is unsigned. Floats may be negated, added, subtracted,
 * multiplied and divided in double precision. 0f constants are exact bits and cannot be operands.
 */
#include <errno.h>
#include <string.h>

#include "ptx/parser.h"

struct operator
{
        uint16_t punct;
        uint8_t precedence;
};

static const struct operator operators[] = {{'*', 10}, {'/', 10}, {'%', 10}, {'+', 9}, {'-', 9}, {DS_PTX_PUNCT_SHL, 8},
        {DS_PTX_PUNCT_SHR, 8}, {'<', 7}, {'>', 7}, {DS_PTX_PUNCT_LE, 7}, {DS_PTX_PUNCT_GE, 7}, {DS_PTX_PUNCT_EQ, 6},
        {DS_PTX_PUNCT_NE, 6}, {'&', 5}, {'^', 4}, {'|', 3}, {DS_PTX_PUNCT_AND, 2}, {DS_PTX_PUNCT_OR, 1}};

static int parse_binary(
        struct ds_ptx_parser *p, uint32_t least, uint32_t depth, uint32_t op_read, struct ds_ptx_value *ret);

static int parse_whole(struct ds_ptx_parser *p, uint32_t depth, uint32_t op_read, struct ds_ptx_value *ret)
{
        struct ds_ptx_value yes = {0}, no = {0};
        int r = parse_binary(p, 1, depth, op_read, ret);

        if (r || !ds_ptx_accept(p, '?'))
                return r;
        if (depth >= DS_PTX_MAX_NESTING)
                return ds_ptx_error_at(p, &p->token, "this expression nests too deeply");
        r = parse_whole(p, depth + 1, 0, &yes);
        if (!r)
                r = ds_ptx_expect(p, ':');
        if (!r)
                r = parse_whole(p, depth + 1, 0, &no);
        if (!r)
                *ret = ret->bits ? yes : no;
        return r;
}

static int parse_unary(struct ds_ptx_parser *p, uint32_t depth, uint32_t op_read, struct ds_ptx_value *ret);

/* Parses (.s64)x or (.u64)x, whose first parenthesis is already read. */
static int parse_cast(struct ds_ptx_parser *p, uint32_t depth, struct ds_ptx_value *ret)
{
        bool is_unsigned = ds_ptx_at_word(p, ".u64");
        struct ds_ptx_token at = p->token;
        int r;

        ds_ptx_advance(p);
        r = ds_ptx_expect(p, ')');
        if (!r)
                r = parse_unary(p, depth + 1, 0, ret);
        if (r)
                return r;
        if (ret->kind != DS_PTX_TOKEN_INT)
                return ds_ptx_error_at(p, &at, "only an integer can be converted");
        ret->is_unsigned = is_unsigned;
        return 0;
}

static int parse_primary(struct ds_ptx_parser *p, uint32_t depth, struct ds_ptx_value *ret)
{
        int r;

        *ret = (struct ds_ptx_value){.kind = p->token.kind, .is_unsigned = p->token.is_unsigned, .bits = p->token.bits};
        switch (p->token.kind) {
        case DS_PTX_TOKEN_INT:
        case DS_PTX_TOKEN_F32:
        case DS_PTX_TOKEN_F64:
                ds_ptx_advance(p);
                return 0;
        case DS_PTX_TOKEN_IDENT:
                if (!ds_ptx_at_word(p, "WARP_SZ"))
                        return ds_ptx_unexpected(p, "a constant");
                *ret = (struct ds_ptx_value){.kind = DS_PTX_TOKEN_INT, .bits = 32};
                ds_ptx_advance(p);
                return 0;
        default:
                break;
        }
        if (!ds_ptx_accept(p, '('))
                return ds_ptx_unexpected(p, "a constant");
        if (ds_ptx_at_word(p, ".s64") || ds_ptx_at_word(p, ".u64"))
                return parse_cast(p, depth, ret);
        r = parse_whole(p, depth + 1, 0, ret);
        return r ? r : ds_ptx_expect(p, ')');
}

static void negate(struct ds_ptx_value *value)
{
        if (value->kind == DS_PTX_TOKEN_INT)
                value->bits = -value->bits;
        else
                value->bits ^= UINT64_C(1) << 63;
}

static int parse_unary(struct ds_ptx_parser *p, uint32_t depth, uint32_t op_read, struct ds_ptx_value *ret)
{
        struct ds_ptx_token at = p->token;
        uint32_t op = op_read ? op_read : at.kind == DS_PTX_TOKEN_PUNCT ? at.punct : 0;
        int r;

        if (depth >= DS_PTX_MAX_NESTING)
                return ds_ptx_error_at(p, &at, "this expression nests too deeply");
        if (op != '-' && op != '+' && op != '!' && op != '~')
                return parse_primary(p, depth, ret);
        if (!op_read)
                ds_ptx_advance(p);
        r = parse_unary(p, depth + 1, 0, ret);
        if (r)
                return r;
        if (op == '-' && ret->kind != DS_PTX_TOKEN_F32) {
                negate(ret);
        } else if (op != '+') {
                if (ret->kind != DS_PTX_TOKEN_INT)
                        return ds_ptx_error_at(p, &at, "'%c' takes an integer", (char)op);
                ret->bits = op == '!' ? !ret->bits : ~ret->bits;
                ret->is_unsigned = ret->is_unsigned && op == '~';
        }
        return 0;
}

static int fold_float(struct ds_ptx_parser *p, const struct ds_ptx_token *at, struct ds_ptx_value *left,
        const struct ds_ptx_value *right)
{
        double a, b;

        if (left->kind != DS_PTX_TOKEN_F64 || right->kind != DS_PTX_TOKEN_F64)
                return ds_ptx_error_at(p, at, "both sides of this operator must be numbers of one kind");
        memcpy(&a, &left->bits, sizeof(a));
        memcpy(&b, &right->bits, sizeof(b));
        switch (at->punct) {
        case '+':
                a += b;
                break;
        case '-':
                a -= b;
                break;
        case '*':
                a *= b;
                break;
        case '/':
                a /= b;
                break;
        default:
                return ds_ptx_error_at(p, at, "this operator takes integers");
        }
        memcpy(&left->bits, &a, sizeof(a));
        return 0;
}

/* Divides as PTX does: -2^63 / -1 wraps. remainder: returns the remainder instead. */
static uint64_t divide(uint64_t a, uint64_t b, bool is_unsigned, bool remainder)
{
        if (is_unsigned)
                return remainder ? a % b : a / b;
        if ((int64_t)b == -1)
                return remainder ? 0 : -a;
        return (uint64_t)(remainder ? (int64_t)a % (int64_t)b : (int64_t)a / (int64_t)b);
}

static bool less(uint64_t a, uint64_t b, bool is_unsigned)
{
        return is_unsigned ? a < b : (int64_t)a < (int64_t)b;
}

static uint64_t shift_right(uint64_t a, uint64_t n, bool is_unsigned)
{
        if (is_unsigned)
                return n < 64 ? a >> n : 0;
        return (uint64_t)((int64_t)a >> (n < 63 ? n : 63));
}

static uint64_t fold_int(uint32_t op, uint64_t a, uint64_t b, bool is_unsigned)
{
        switch (op) {
        case '*':
                return a * b;
        case '/':
        case '%':
                return divide(a, b, is_unsigned, op == '%');
        case '+':
                return a + b;
        case '-':
                return a - b;
        case DS_PTX_PUNCT_SHL:
                return b < 64 ? a << b : 0;
        case DS_PTX_PUNCT_SHR:
                return shift_right(a, b, is_unsigned);
        case '<':
                return less(a, b, is_unsigned);
        case '>':
                return less(b, a, is_unsigned);
        case DS_PTX_PUNCT_LE:
                return !less(b, a, is_unsigned);
        case DS_PTX_PUNCT_GE:
                return !less(a, b, is_unsigned);
        case DS_PTX_PUNCT_EQ:
                return a == b;
        case DS_PTX_PUNCT_NE:
                return a != b;
        case '&':
                return a & b;
        case '^':
                return a ^ b;
        case '|':
                return a | b;
        case DS_PTX_PUNCT_AND:
                return a && b;
        default:
                return a || b;
        }
}

static int fold(struct ds_ptx_parser *p, const struct ds_ptx_token *at, struct ds_ptx_value *left,
        const struct ds_ptx_value *right)
{
        bool is_unsigned = left->is_unsigned || right->is_unsigned;

        if (left->kind != DS_PTX_TOKEN_INT || right->kind != DS_PTX_TOKEN_INT)
                return fold_float(p, at, left, right);
        if ((at->punct == '/' || at->punct == '%') && !right->bits)
                return ds_ptx_error_at(p, at, "division by zero");
        left->bits = fold_int(at->punct, left->bits, right->bits, is_unsigned);
        left->is_unsigned = is_unsigned;
        return 0;
}

static uint32_t precedence(const struct ds_ptx_parser *p)
{
        if (p->token.kind != DS_PTX_TOKEN_PUNCT)
                return 0;
        for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
                if (operators[i].punct == p->token.punct)
                        return operators[i].precedence;
        return 0;
}

static int parse_binary(
        struct ds_ptx_parser *p, uint32_t least, uint32_t depth, uint32_t op_read, struct ds_ptx_value *ret)
{
        int r;

        if (depth >= DS_PTX_MAX_NESTING)
                return ds_ptx_error_at(p, &p->token, "this expression nests too deeply");
        r = parse_unary(p, depth, op_read, ret);
        while (!r && precedence(p) >= least) {
                struct ds_ptx_token at = p->token;
                struct ds_ptx_value right;
                uint32_t level = precedence(p);

                ds_ptx_advance(p);
                r = parse_binary(p, level + 1, depth + 1, 0, &right);
                if (!r)
                        r = fold(p, &at, ret, &right);
        }
        return r;
}

int ds_ptx_parse_const(struct ds_ptx_parser *p, uint32_t op_read, struct ds_ptx_value *ret)
{
        return parse_whole(p, 0, op_read, ret);
}

int ds_ptx_parse_int(struct ds_ptx_parser *p, int64_t *ret)
{
        struct ds_ptx_token at = p->token;
        struct ds_ptx_value value;
        int r = ds_ptx_parse_const(p, 0, &value);

        if (r)
                return r;
        if (value.kind != DS_PTX_TOKEN_INT)
                return ds_ptx_error_at(p, &at, "an integer belongs here");
        *ret = (int64_t)value.bits;
        return 0;
}

int ds_ptx_parse_uint(struct ds_ptx_parser *p, uint64_t max, uint64_t *ret)
{
        struct ds_ptx_token at = p->token;
        int64_t value = 0;
        int r = ds_ptx_parse_int(p, &value);

        if (r)
                return r;
        if (value < 0 || (uint64_t)value > max)
                return ds_ptx_error_at(p, &at, "this number must be from 0 to %llu", (unsigned long long)max);
        *ret = (uint64_t)value;
        return 0;
}
