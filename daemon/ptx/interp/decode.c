/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding a function: the main loop, and instructions that only compute
 *
 * Most instructions are "destination, sources" with widths from opcodes.def; they need nothing but a handler.
 * decode_mem.c handles instructions with addresses, decode_flow.c those that jump or wait.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "ptx/interp/decode.h"
#include "util/alloc.h"
#include "util/error.h"

#define T(name) DS_PTX_TYPE_##name
#define COUNT_MAX 60000 /* most instructions between two control operations */

/* --- appending operations --- */
int ds_ix_refuse(ds_ix_decoder *d, const struct ds_ptx_instr *in, const char *fmt, ...)
{
        const struct ds_ptx_module *m = d->interp->module;
        char reason[160];
        va_list args;

        va_start(args, fmt);
        (void)vsnprintf(reason, sizeof(reason), fmt, args);
        va_end(args);
        ds_ptx_diag_add(d->diags, m->text, m->length, in->line, in->column, "%.60s: %s", in->text, reason);
        d->failed = 1;
        return 0;
}

ds_ix_op ds_ix_blank(const struct ds_ptx_instr *in)
{
        return (ds_ix_op){
                .d = DS_IX_NO_SLOT,
                .e = DS_IX_NO_SLOT,
                .a = DS_IX_NO_SLOT,
                .b = DS_IX_NO_SLOT,
                .c = DS_IX_NO_SLOT,
                .f = DS_IX_NO_SLOT,
                .guard = DS_IX_NO_SLOT,
                .line = in->line,
        };
}

static ds_ix_op *append(ds_ix_decoder *d, const ds_ix_op *op)
{
        if (d->n_ops == d->ops_capacity) {
                size_t capacity = d->ops_capacity ? 2 * d->ops_capacity : 64;
                ds_ix_op *ops = ds_realloc(d->ops, capacity, sizeof(*ops));

                if (!ops) {
                        d->out_of_memory = 1;
                        return NULL;
                }
                d->ops = ops;
                d->ops_capacity = capacity;
        }
        d->ops[d->n_ops] = *op;
        return &d->ops[d->n_ops++];
}

static int counts_as_special(const struct ds_ptx_instr *in)
{
        uint8_t class = ds_ptx_op_info((enum ds_ptx_op)in->op)->class;

        return class == DS_PTX_CLASS_SPECIAL || (class == DS_PTX_CLASS_FLOAT && in->types[0] == T(F64));
}

static uint32_t guard_slot(const ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        return in->guard == DS_PTX_NO_REG ? DS_IX_NO_SLOT : d->func->reg[in->guard];
}

void ds_ix_emit_fn(ds_ix_decoder *d, const struct ds_ptx_instr *in, ds_ix_op op, ds_ix_fn fn)
{
        int special = counts_as_special(in);

        op.guard = guard_slot(d, in);
        op.guard_not = in->guard_negated;
        op.inner = fn;
        if (op.guard != DS_IX_NO_SLOT)
                op.fn = special ? ds_ix_guarded_counted : ds_ix_guarded;
        else
                op.fn = special ? ds_ix_counted : fn;
        (void)append(d, &op);
}

void ds_ix_emit(ds_ix_decoder *d, const struct ds_ptx_instr *in, ds_ix_op op, const struct ds_ix_impl *impl)
{
        ds_ix_emit_fn(d, in, op, impl->fn[d->interp->isa]);
}

void ds_ix_emit_plain(ds_ix_decoder *d, ds_ix_op op)
{
        (void)append(d, &op);
}

ds_ix_op *ds_ix_emit_control(ds_ix_decoder *d, ds_ix_op op)
{
        op.count = (uint16_t)d->count;
        d->count = 0;
        return append(d, &op);
}

void ds_ix_fix(ds_ix_decoder *d, uint32_t op, uint32_t label, uint32_t targets)
{
        if (d->n_fixes == d->fixes_capacity) {
                size_t capacity = d->fixes_capacity ? 2 * d->fixes_capacity : 32;
                struct ds_ix_fix *fixes = ds_realloc(d->fixes, capacity, sizeof(*fixes));

                if (!fixes) {
                        d->out_of_memory = 1;
                        return;
                }
                d->fixes = fixes;
                d->fixes_capacity = capacity;
        }
        d->fixes[d->n_fixes++] = (struct ds_ix_fix){.op = op, .label = label, .targets = targets};
}

uint32_t ds_ix_emit_skip(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        ds_ix_op op = ds_ix_blank(in);

        if (in->guard == DS_PTX_NO_REG)
                return UINT32_MAX;
        op.fn = ds_ix_bra_if;
        op.guard = guard_slot(d, in);
        op.guard_not = !in->guard_negated;
        ds_ix_fix(d, d->n_ops, UINT32_MAX, UINT32_MAX);
        (void)ds_ix_emit_control(d, op);
        return d->n_ops - 1;
}

void ds_ix_end_skip(ds_ix_decoder *d, uint32_t skip)
{
        if (skip != UINT32_MAX && !d->out_of_memory)
                d->ops[skip].imm = d->n_ops;
}

/* --- operands --- */
uint32_t ds_ix_type_bytes(enum ds_ptx_type type)
{
        return ds_ptx_type_bits(type) / 8;
}

uint32_t ds_ix_register_bytes(const ds_ix_decoder *d, uint32_t reg)
{
        return ds_ix_type_bytes((enum ds_ptx_type)d->ir->regs[reg].type);
}

uint32_t ds_ix_temp(ds_ix_decoder *d)
{
        uint32_t slot = d->regs_bytes + d->temps * 512;

        d->temps++;
        d->temps_most = DS_MAX(d->temps_most, d->temps);
        return slot;
}

static uint32_t hash_constant(uint64_t bits, uint32_t bytes)
{
        uint64_t h = (bits + bytes) * UINT64_C(0x9e3779b97f4a7c15);

        return (uint32_t)(h >> 32);
}

static int grow_table(ds_ix_decoder *d)
{
        uint32_t size = d->table_size ? 2 * d->table_size : 128, *table = ds_alloc0(size, sizeof(*table));

        if (!table)
                return 0;
        for (uint32_t i = 0; i < d->n_constants; i++) {
                uint32_t at = hash_constant(d->constants[i].bits, d->constants[i].bytes) & (size - 1);

                while (table[at])
                        at = (at + 1) & (size - 1);
                table[at] = i + 1;
        }
        ds_free(d->table);
        d->table = table;
        d->table_size = size;
        return 1;
}

static int grow_constants(ds_ix_decoder *d)
{
        size_t capacity = d->constants_capacity ? 2 * d->constants_capacity : 64;
        struct ds_ix_constant *c = ds_realloc(d->constants, capacity, sizeof(*c));

        if (!c)
                return 0;
        d->constants = c;
        d->constants_capacity = capacity;
        return grow_table(d);
}

uint32_t ds_ix_constant_slot(ds_ix_decoder *d, uint64_t bits, uint32_t bytes)
{
        uint32_t at;

        if (bytes && bytes < 8)
                bits &= (UINT64_C(1) << (8 * bytes)) - 1;
        if (d->n_constants == d->constants_capacity && !grow_constants(d)) {
                d->out_of_memory = 1;
                return DS_IX_IN_POOL;
        }
        at = hash_constant(bits, bytes) & (d->table_size - 1);
        for (; d->table[at]; at = (at + 1) & (d->table_size - 1)) {
                const struct ds_ix_constant *c = &d->constants[d->table[at] - 1];

                if (c->bits == bits && c->bytes == bytes)
                        return c->offset + DS_IX_IN_POOL;
        }
        d->constants[d->n_constants] = (struct ds_ix_constant){.bits = bits, .bytes = bytes, .offset = d->pool_bytes};
        d->table[at] = ++d->n_constants;
        d->pool_bytes += DS_MAX(bytes * DS_IX_LANES, 64u);
        return d->constants[d->n_constants - 1].offset + DS_IX_IN_POOL;
}

/* Slot with the negated value of a predicate operand. */
static uint32_t negate(ds_ix_decoder *d, const struct ds_ptx_instr *in, uint32_t slot)
{
        const struct ds_ptx_instr not_pred = {.op = DS_PTX_OP_NOT, .types = {T(PRED)}, .guard = DS_PTX_NO_REG};
        ds_ix_op op = ds_ix_blank(in);

        op.a = slot;
        op.d = ds_ix_temp(d);
        ds_ix_emit(d, &not_pred, op, ds_ix_find_bits(&not_pred, &op));
        return op.d;
}

/* Appends an operation that reads a clock into a temporary slot. */
static int read_clock(ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_operand *o, uint32_t bytes,
        uint32_t *ret_slot)
{
        const struct ds_ptx_instr plain = {.op = DS_PTX_OP_MOV, .guard = DS_PTX_NO_REG};
        ds_ix_op op = ds_ix_blank(in);

        op.d = ds_ix_temp(d);
        op.mode = (uint8_t)o->sreg;
        op.n = (uint8_t)bytes;
        ds_ix_emit_fn(d, &plain, op, ds_ix_clock);
        *ret_slot = op.d;
        return 1;
}

static int special_register(ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_operand *o,
        uint32_t bytes, uint32_t *ret_slot)
{
        enum ds_ptx_type type = ds_ptx_sreg_type((enum ds_ptx_sreg)o->sreg);

        if (ds_ix_type_bytes(type) != bytes)
                return ds_ix_refuse(
                        d, in, "%s is not %u bytes wide", ds_ptx_sreg_name((enum ds_ptx_sreg)o->sreg), bytes);
        *ret_slot = ds_ix_sreg_slot((enum ds_ptx_sreg)o->sreg, o->component);
        if (*ret_slot == DS_IX_NO_SLOT)
                return read_clock(d, in, o, bytes, ret_slot);
        d->interp->sregs_used |= UINT64_C(1) << (*ret_slot / DS_IX_SREGS_SLOT);
        if (bytes == 8)
                d->interp->sregs_used |= UINT64_C(2) << (*ret_slot / DS_IX_SREGS_SLOT);
        return 1;
}

/* Slot with the address of a variable that is an operand. */
static int variable_address(ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_operand *o,
        uint32_t bytes, uint32_t *ret_slot)
{
        const struct ds_ptx_instr plain = {.op = DS_PTX_OP_MOV, .guard = DS_PTX_NO_REG};
        ds_ix_op op = ds_ix_blank(in);
        struct ds_ix_place place;

        if (bytes != 4 && bytes != 8)
                return ds_ix_refuse(d, in, "the address of %s needs 32 or 64 bits", o->var->name);
        if (!ds_ix_place_of(d, in, o->var, &place))
                return 0;
        if (place.symbol == DS_IX_SYM_NONE) {
                if (bytes == 4 && (place.space == DS_IX_GLOBAL || place.space == DS_IX_CONST))
                        return ds_ix_refuse(d, in, "the address of %s has 64 bits", o->var->name);
                *ret_slot = ds_ix_constant_slot(d, place.value + (uint64_t)o->offset, bytes);
                return 1;
        }
        op.d = ds_ix_temp(d);
        op.f = place.symbol;
        op.imm = place.value + (uint64_t)o->offset;
        op.n = (uint8_t)bytes;
        ds_ix_emit_fn(d, &plain, op, ds_ix_symbol_address);
        *ret_slot = op.d;
        return 1;
}

/* Bits of a number for an instruction of this width; decimal numbers in the text are doubles. */
static uint64_t number(const struct ds_ptx_operand *o, uint32_t bytes)
{
        double x;
        float f;
        uint32_t u;

        if (o->kind != DS_PTX_OPERAND_F64 || bytes != 4)
                return o->bits;
        memcpy(&x, &o->bits, sizeof(x));
        f = (float)x;
        memcpy(&u, &f, sizeof(u));
        return u;
}

static int register_slot(
        ds_ix_decoder *d, const struct ds_ptx_instr *in, uint32_t reg, uint32_t bytes, uint32_t *ret_slot)
{
        int pred = d->ir->regs[reg].type == T(PRED);
        char name[64];

        if (pred != (bytes == 0) || (!pred && ds_ix_register_bytes(d, reg) != bytes))
                return ds_ix_refuse(d, in, "register %s does not have the instruction's width of %u bytes",
                        ds_ptx_reg_name(d->ir, reg, name, sizeof(name)), bytes);
        *ret_slot = d->func->reg[reg];
        return 1;
}

int ds_ix_source(ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_operand *o, uint32_t bytes,
        uint32_t *ret_slot)
{
        int ok = 1;

        switch (o->kind) {
        case DS_PTX_OPERAND_REG:
                ok = register_slot(d, in, o->reg, bytes, ret_slot);
                break;
        case DS_PTX_OPERAND_INT:
        case DS_PTX_OPERAND_F32:
        case DS_PTX_OPERAND_F64:
                if (bytes > 8)
                        return ds_ix_refuse(d, in, "a constant of %u bytes is not supported", bytes);
                *ret_slot = bytes ? ds_ix_constant_slot(d, number(o, bytes), bytes)
                                  : ds_ix_constant_slot(d, o->bits ? UINT32_MAX : 0, 0);
                break;
        case DS_PTX_OPERAND_SREG:
                ok = special_register(d, in, o, bytes, ret_slot);
                break;
        case DS_PTX_OPERAND_VAR:
                ok = variable_address(d, in, o, bytes, ret_slot);
                break;
        case DS_PTX_OPERAND_FUNCTION:
                if (bytes != 8)
                        return ds_ix_refuse(d, in, "a function's address has 64 bits");
                ds_ix_behind(d->interp, o->function)->address_taken = 1;
                *ret_slot = ds_ix_constant_slot(
                        d, DS_IX_CODE_BASE + UINT64_C(16) * ds_ix_behind(d->interp, o->function)->ir->index, 8);
                break;
        default:
                return ds_ix_refuse(d, in, "an operand of this kind is not supported here");
        }
        if (ok && o->negated) {
                if (bytes)
                        return ds_ix_refuse(d, in, "a negated operand is not supported here");
                *ret_slot = negate(d, in, *ret_slot);
        }
        return ok;
}

int ds_ix_destination(ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_operand *o, uint32_t bytes,
        uint32_t *ret_slot)
{
        if (o->kind == DS_PTX_OPERAND_SINK) {
                *ret_slot = bytes ? DS_IX_IN_SCRATCH : DS_IX_NO_SLOT;
                return 1;
        }
        if (o->kind != DS_PTX_OPERAND_REG)
                return ds_ix_refuse(d, in, "a destination of this kind is not supported");
        return register_slot(d, in, o->reg, bytes, ret_slot);
}

/* Destination d|p: slots for a value and a predicate; either may be missing. */
static int pair_destination(
        ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_operand *o, uint32_t bytes, ds_ix_op *op)
{
        op->d = bytes ? DS_IX_IN_SCRATCH : DS_IX_NO_SLOT;
        if (o->reg != DS_PTX_NO_REG && !register_slot(d, in, o->reg, bytes, &op->d))
                return 0;
        if (op->d == DS_IX_NO_SLOT)
                op->d = ds_ix_temp(d);
        return o->pair == DS_PTX_NO_REG || register_slot(d, in, o->pair, 0, &op->e);
}

/* --- instructions that compute --- */
/* Register bytes of an operand whose width is described by this letter of opcodes.def. */
static uint32_t described_bytes(const struct ds_ptx_instr *in, char width)
{
        switch (width) {
        case 'w':
                return ds_ix_type_bytes((enum ds_ptx_type)in->types[0]) * (ds_ptx_has(in, DS_PTX_MUL_WIDE) ? 2 : 1);
        case 'p':
                return 0;
        case 'h':
                return 2;
        case 'i':
                return 4;
        case 'q':
        case 'z':
                return 8;
        default:
                return width >= '0' && width <= '3' ? ds_ix_type_bytes((enum ds_ptx_type)in->types[width - '0']) : 0;
        }
}

/* Stores the operands in op: destination in d (and e), sources in a b c f, a constant-only one in imm. */
static int simple_operands(ds_ix_decoder *d, const struct ds_ptx_instr *in, ds_ix_op *op)
{
        const char *word = ds_ptx_op_info((enum ds_ptx_op)in->op)->operands;
        uint32_t *sources[] = {&op->a, &op->b, &op->c, &op->f};
        uint32_t n = 0;

        for (uint32_t k = 0; k < in->n_operands && *word; k++) {
                const struct ds_ptx_operand *o = &in->operands[k];
                uint32_t bytes = described_bytes(in, word[1]);

                if (word[0] == 'd') {
                        if (o->kind == DS_PTX_OPERAND_PAIR ? !pair_destination(d, in, o, bytes, op)
                                                           : !ds_ix_destination(d, in, o, bytes, &op->d))
                                return 0;
                        if (op->d == DS_IX_NO_SLOT)
                                op->d = ds_ix_temp(d);
                } else if (strcspn(word, "#") < strcspn(word, " ")) {
                        if (o->kind != DS_PTX_OPERAND_INT)
                                return ds_ix_refuse(d, in, "a constant is needed");
                        op->imm = o->bits;
                } else if (n == DS_ARRAY_SIZE(sources)) {
                        return ds_ix_refuse(d, in, "too many operands");
                } else if (!ds_ix_source(d, in, o, bytes, sources[n++])) {
                        return 0;
                }
                word += strcspn(word, " ");
                word += *word == ' ';
        }
        return 1;
}

static void read_modifiers(const struct ds_ptx_instr *in, ds_ix_op *op)
{
        enum ds_ptx_modifier round = ds_ptx_mod(in, DS_PTX_ROUND_RN);

        op->mode = (uint8_t)(round ? round - DS_PTX_ROUND_RN + DS_IX_RN : DS_IX_RN);
        op->flags |= ds_ptx_has(in, DS_PTX_FTZ_FTZ) ? DS_IX_FTZ : 0;
        op->flags |= ds_ptx_has(in, DS_PTX_SAT_SAT) ? DS_IX_SAT : 0;
}

static const struct ds_ix_impl *find_handler(const struct ds_ptx_instr *in, ds_ix_op *op)
{
        const struct ds_ix_impl *impl;

        switch (ds_ptx_op_info((enum ds_ptx_op)in->op)->class) {
        case DS_PTX_CLASS_INT:
                impl = ds_ix_find_int(in, op);
                return impl ? impl : ds_ix_find_bits(in, op);
        case DS_PTX_CLASS_FLOAT:
                return ds_ix_find_float(in, op);
        case DS_PTX_CLASS_SPECIAL:
                return in->op == DS_PTX_OP_DIV || in->op == DS_PTX_OP_REM ? ds_ix_find_int(in, op)
                                                                          : ds_ix_find_special(in, op);
        case DS_PTX_CLASS_COMPARE:
        case DS_PTX_CLASS_MOVE:
                return ds_ix_find_compare(in, op);
        case DS_PTX_CLASS_WARP:
                return ds_ix_find_warp(in, op);
        default:
                return NULL;
        }
}

static int decode_simple(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        ds_ix_op op = ds_ix_blank(in);
        const struct ds_ix_impl *impl;
        uint32_t skip = UINT32_MAX;

        read_modifiers(in, &op);
        impl = find_handler(in, &op);
        if (!impl)
                return ds_ix_refuse(d, in, "not supported by the simulated device");
        /* no wrapper around operations whose lanes wait for each other: lanes without the guard jump over them */
        if (ds_ptx_op_info((enum ds_ptx_op)in->op)->flags & DS_PTX_CONVERGE && in->op != DS_PTX_OP_ACTIVEMASK) {
                struct ds_ptx_instr always = *in;

                always.guard = DS_PTX_NO_REG;
                skip = ds_ix_emit_skip(d, in);
                if (!simple_operands(d, in, &op))
                        return 0;
                ds_ix_emit(d, &always, op, impl);
                ds_ix_end_skip(d, skip);
                return 1;
        }
        if (!simple_operands(d, in, &op))
                return 0;
        ds_ix_emit(d, in, op, impl);
        return 1;
}

static uint32_t operand_bytes(const ds_ix_decoder *d, const struct ds_ptx_operand *o, uint32_t otherwise)
{
        return o->kind == DS_PTX_OPERAND_REG ? ds_ix_register_bytes(d, o->reg) : otherwise;
}

static int decode_isspacep(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        static const uint8_t spaces[_DS_PTX_IN_MAX] = {
                [DS_PTX_IN_SHARED] = DS_IX_SHARED, [DS_PTX_IN_LOCAL] = DS_IX_LOCAL, [DS_PTX_IN_PARAM] = DS_IX_PARAM};
        const struct ds_ptx_instr widen = {
                .op = DS_PTX_OP_CVT, .types = {T(U64), T(U32)}, .n_types = 2, .n_operands = 2, .guard = DS_PTX_NO_REG};
        uint32_t bytes = operand_bytes(d, &in->operands[1], 8);
        ds_ix_op op = ds_ix_blank(in), wide = ds_ix_blank(in);

        op.space = ds_ptx_has(in, DS_PTX_SPACE_SHARED_CLUSTER) ? DS_IX_CLUSTER : spaces[ds_ptx_instr_space(in)];
        if (!ds_ix_source(d, in, &in->operands[1], bytes, &op.a) ||
                !ds_ix_destination(d, in, &in->operands[0], 0, &op.d))
                return 0;
        if (bytes == 4) {
                wide.a = op.a;
                wide.d = op.a = ds_ix_temp(d);
                ds_ix_emit(d, &widen, wide, ds_ix_find_cvt(&widen, 4, 8, &wide));
        }
        if (op.d == DS_IX_NO_SLOT)
                op.d = ds_ix_temp(d);
        ds_ix_emit(d, in, op, ds_ix_find_compare(in, &op));
        return 1;
}

/* Decodes set: a comparison into a temporary predicate, then a selection of two constants. */
static int decode_set(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        enum ds_ptx_type to = in->types[0], from = in->types[1];
        int packed = from == T(F16X2) || from == T(BF16X2);
        struct ds_ptx_instr compare = *in;
        ds_ix_op op = ds_ix_blank(in), result = ds_ix_blank(in);
        const struct ds_ix_impl *impl, *last = ds_ix_set_result(ds_ix_type_bytes(to), packed);
        uint32_t n = in->n_operands;

        read_modifiers(in, &op);
        impl = find_handler(in, &op);
        if (!impl || !last || n < 3 || (packed && ds_ix_type_bytes(to) != 4))
                return ds_ix_refuse(d, in, "not supported by the simulated device");
        op.d = ds_ix_temp(d);
        op.e = packed ? ds_ix_temp(d) : DS_IX_NO_SLOT;
        if (!ds_ix_source(d, in, &in->operands[1], ds_ix_type_bytes(from), &op.a) ||
                !ds_ix_source(d, in, &in->operands[2], ds_ix_type_bytes(from), &op.b) ||
                (n > 3 && !ds_ix_source(d, in, &in->operands[3], 0, &op.c)) ||
                !ds_ix_destination(d, in, &in->operands[0], ds_ix_type_bytes(to), &result.d))
                return 0;
        result.a = op.d;
        result.b = op.e;
        switch (to) {
        case T(F32):
                result.imm = 0x3f800000u;
                break;
        case T(F16):
        case T(F16X2):
                result.imm = 0x3c003c00u;
                break;
        case T(BF16):
        case T(BF16X2):
                result.imm = 0x3f803f80u;
                break;
        default:
                result.imm = UINT64_MAX;
        }
        compare.guard = DS_PTX_NO_REG;
        ds_ix_emit(d, &compare, op, impl);
        ds_ix_emit(d, in, result, last);
        return 1;
}

static int decode_cvt(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        uint32_t to_type = DS_MAX(ds_ix_type_bytes((enum ds_ptx_type)in->types[0]), 2u);
        uint32_t from_type = DS_MAX(ds_ix_type_bytes((enum ds_ptx_type)in->types[1]), 2u);
        uint32_t to = operand_bytes(d, &in->operands[0], to_type), from = operand_bytes(d, &in->operands[1], from_type);
        ds_ix_op op = ds_ix_blank(in);
        const struct ds_ix_impl *impl;

        read_modifiers(in, &op);
        impl = ds_ix_find_cvt(in, from, to, &op);
        if (!impl || to < ds_ix_type_bytes((enum ds_ptx_type)in->types[0]) || !to || !from ||
                from < ds_ix_type_bytes((enum ds_ptx_type)in->types[1]))
                return ds_ix_refuse(d, in, "not supported by the simulated device");
        /* the third operand of cvt.pack is a 32-bit word; the second source of a pair conversion has the first one's
         * type */
        if (!ds_ix_destination(d, in, &in->operands[0], to, &op.d) ||
                !ds_ix_source(d, in, &in->operands[1], from, &op.a) ||
                (in->n_operands > 2 && !ds_ix_source(d, in, &in->operands[2], from, &op.b)) ||
                (in->n_operands > 3 && !ds_ix_source(d, in, &in->operands[3], 4, &op.c)))
                return 0;
        if (in->n_operands > 2 && from != 4)
                return ds_ix_refuse(d, in, "not supported by the simulated device");
        ds_ix_emit(d, in, op, impl);
        return 1;
}

/* --- main loop --- */
static int decode_instr(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        switch (ds_ptx_op_info((enum ds_ptx_op)in->op)->class) {
        case DS_PTX_CLASS_MEMORY:
                return ds_ix_decode_memory(d, in);
        case DS_PTX_CLASS_ATOMIC:
                return ds_ix_decode_atomic(d, in);
        case DS_PTX_CLASS_CONTROL:
        case DS_PTX_CLASS_MISC:
                return ds_ix_decode_control(d, in);
        case DS_PTX_CLASS_BARRIER:
                return ds_ix_decode_barrier(d, in);
        case DS_PTX_CLASS_CONVERT:
                return decode_cvt(d, in);
        case DS_PTX_CLASS_TENSOR:
                return ds_ix_decode_tensor(d, in);
        case DS_PTX_CLASS_ASYNC:
                return ds_ix_decode_copy(d, in);
        case DS_PTX_CLASS_VIDEO:
                return ds_ix_decode_video(d, in);
        case DS_PTX_CLASS_MOVE:
                if (in->op == DS_PTX_OP_SELP || in->op == DS_PTX_OP_SLCT)
                        return decode_simple(d, in);
                return ds_ix_decode_move(d, in);
        default:
                if (in->op == DS_PTX_OP_ISSPACEP)
                        return decode_isspacep(d, in);
                return in->op == DS_PTX_OP_SET ? decode_set(d, in) : decode_simple(d, in);
        }
}

/* A function that moves the stack pointer restores it when it returns: reserves a slot in its frame for that. */
static void reserve_stack(ds_ix_decoder *d)
{
        uint32_t i = 0;

        while (i < d->ir->n_instrs && d->ir->instrs[i].op != DS_PTX_OP_ALLOCA &&
                d->ir->instrs[i].op != DS_PTX_OP_STACKRESTORE)
                i++;
        if (i == d->ir->n_instrs)
                return;
        d->func->stack = d->interp->stack = 1;
        d->func->stack_slot = DS_ALIGN_UP(d->regs_bytes, 64u);
        d->regs_bytes = d->func->stack_slot + DS_ALIGN_UP((uint32_t)sizeof(uint32_t) * DS_IX_LANES, 64u);
}

static void mark_leaders(ds_ix_decoder *d)
{
        for (uint32_t i = 0; i < d->ir->n_labels; i++)
                d->leader[d->ir->labels[i].instr] = 1;
}

/* Ends a block of code with an operation that counts its instructions, unless it ends with a jump. */
static void close_block(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        ds_ix_op op = ds_ix_blank(in);
        const ds_ix_op *last = d->n_ops ? &d->ops[d->n_ops - 1] : NULL;

        if (!last ||
                (d->count == 0 && (last->fn == ds_ix_bra || last->fn == ds_ix_bra_if || last->fn == ds_ix_fall ||
                                          last->fn == ds_ix_ret || last->fn == ds_ix_exit || last->fn == ds_ix_brx)))
                return;
        op.fn = ds_ix_fall;
        (void)ds_ix_emit_control(d, op);
}

static void walk(ds_ix_decoder *d)
{
        static const struct ds_ptx_instr end = {.op = DS_PTX_OP_RET, .guard = DS_PTX_NO_REG, .text = "end"};
        ds_ix_op op;

        for (uint32_t i = 0; i < d->ir->n_instrs && !d->out_of_memory; i++) {
                const struct ds_ptx_instr *in = &d->ir->instrs[i];

                if (d->leader[i] || d->count >= COUNT_MAX)
                        close_block(d, in);
                d->start[i] = d->n_ops;
                d->count++;
                d->temps = 0;
                (void)decode_instr(d, in);
        }
        if (d->leader[d->ir->n_instrs])
                close_block(d, &end);
        d->start[d->ir->n_instrs] = d->n_ops;
        op = ds_ix_blank(&end);
        op.fn = ds_ix_ret;
        (void)ds_ix_emit_control(d, op);
}

/* --- finishing --- */
static int build_pool(ds_ix_decoder *d)
{
        uint8_t *pool = ds_arena_alloc(d->interp->arena, (size_t)d->pool_bytes + 64, 1);

        if (!pool)
                return ds_error_origin(-ENOMEM);
        pool = (uint8_t *)DS_ALIGN_UP((uintptr_t)pool, 64);
        for (uint32_t k = 0; k < d->n_constants; k++) {
                const struct ds_ix_constant *c = &d->constants[k];

                for (uint32_t i = 0; i < (c->bytes ? DS_IX_LANES : 1); i++)
                        memcpy(pool + c->offset + (size_t)i * c->bytes, &c->bits, c->bytes ? c->bytes : 4);
        }
        d->func->pool = pool;
        return 0;
}

static int fix_table(ds_ix_decoder *d, ds_ix_op *op, const struct ds_ptx_targets *targets)
{
        struct ds_ix_table *table =
                ds_arena_alloc(d->interp->arena, 1, sizeof(*table) + targets->n * sizeof(table->target[0]));

        if (!table)
                return ds_error_origin(-ENOMEM);
        table->n = targets->n;
        for (uint32_t k = 0; k < targets->n; k++)
                table->target[k] = &d->func->ops[d->start[d->ir->labels[targets->labels[k]].instr]];
        op->ext = table;
        return 0;
}

static int fix_jumps(ds_ix_decoder *d)
{
        int r = 0;

        for (uint32_t k = 0; k < d->n_fixes && !r; k++) {
                const struct ds_ix_fix *fix = &d->fixes[k];
                ds_ix_op *op = &d->func->ops[fix->op];

                if (fix->targets != UINT32_MAX)
                        r = fix_table(d, op, &d->ir->targets[fix->targets]);
                else if (fix->label == UINT32_MAX)
                        op->target = &d->func->ops[op->imm];
                else
                        op->target = &d->func->ops[d->start[d->ir->labels[fix->label].instr]];
        }
        return r;
}

static int finish(ds_ix_decoder *d)
{
        ds_ix_func *func = d->func;
        int r;

        func->n_ops = d->n_ops;
        func->ops = ds_arena_alloc(d->interp->arena, d->n_ops, sizeof(*func->ops));
        if (!func->ops)
                return ds_error_origin(-ENOMEM);
        memcpy(func->ops, d->ops, d->n_ops * sizeof(*func->ops));
        func->frame_bytes = d->regs_bytes + d->temps_most * 512;
        r = build_pool(d);
        if (!r)
                r = fix_jumps(d);
        if (!r)
                r = ds_ix_order(func, d->interp->arena);
        if (!r)
                r = ds_ix_estimate_registers(func->ir, &func->registers);
        return r;
}

int ds_ix_decode(ds_interp *interp, ds_ix_func *func, struct ds_ptx_diags *diags)
{
        const struct ds_ptx_function *ir = func->ir;
        ds_ix_decoder d = {.interp = interp, .func = func, .ir = ir, .diags = diags, .regs_bytes = func->frame_bytes};
        int r = 0;

        d.start = ds_alloc0((size_t)ir->n_instrs + 1, sizeof(*d.start));
        d.leader = ds_alloc0((size_t)ir->n_instrs + 1, sizeof(*d.leader));
        if (d.start && d.leader) {
                mark_leaders(&d);
                reserve_stack(&d);
                walk(&d);
        } else {
                d.out_of_memory = 1;
        }
        if (d.out_of_memory)
                r = ds_error_origin(-ENOMEM);
        else if (d.failed)
                r = DS_INTERP_E_UNSUPPORTED;
        else
                r = finish(&d);
        ds_free(d.start);
        ds_free(d.leader);
        ds_free(d.ops);
        ds_free(d.fixes);
        ds_free(d.constants);
        ds_free(d.table);
        return r;
}
