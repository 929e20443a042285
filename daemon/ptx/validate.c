/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/validate.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ptx/tables.h"
#include "ptx/validate_internal.h"
#include "util/macro.h"

/* One operand of a row in opcodes.def: role, width and flags, decoded from the operand string. */
struct shape {
        char role;
        char width;
        bool optional, vector, any_vector, pair, sink, wider, constant;
};

void ds_ptx_invalid(struct ds_ptx_check *c, uint32_t line, uint32_t column, const char *fmt, ...)
{
        char message[200];
        va_list args;

        va_start(args, fmt);
        vsnprintf(message, sizeof(message), fmt, args);
        va_end(args);
        ds_ptx_diag_add(c->diags, c->module->text, c->module->length, line, column, "%s", message);
}

/* --- types ------------------------------------------------------------------------------------------------------- */
static bool is_bits(enum ds_ptx_type type)
{
        return type >= DS_PTX_TYPE_B8 && type <= DS_PTX_TYPE_B128;
}

static bool is_int(enum ds_ptx_type type)
{
        return type >= DS_PTX_TYPE_U8 && type <= DS_PTX_TYPE_S64;
}

/* Whether only instructions can have this type; registers hold such values as bits. */
static bool is_packed(enum ds_ptx_type type)
{
        return type > DS_PTX_TYPE_PRED || type == DS_PTX_TYPE_TF32;
}

/*
 * Whether a register of type `reg` may stand where the instruction has type `type`. Bit types fit everything of their
 * size (and the assembler accepts .f16x2 for bits), integers fit integers of either sign, floats fit only themselves.
 * `wider`: the register may be larger, for loads, stores and conversions.
 */
static bool compatible(enum ds_ptx_type type, enum ds_ptx_type reg, bool wider)
{
        uint32_t want = ds_ptx_type_bits(type), have = ds_ptx_type_bits(reg);

        if (type == DS_PTX_TYPE_PRED || reg == DS_PTX_TYPE_PRED)
                return type == reg;
        if (wider ? have < want : have != want)
                return false;
        if (is_bits(reg) || is_bits(type) || reg == DS_PTX_TYPE_F16X2)
                return true;
        if (is_int(type))
                return is_int(reg);
        if (type == DS_PTX_TYPE_U16X2 || type == DS_PTX_TYPE_S16X2)
                return type == reg;
        if (is_packed(type))
                return is_int(reg) || type == reg || (type == DS_PTX_TYPE_TF32 && reg == DS_PTX_TYPE_F32);
        return type == reg;
}

static enum ds_ptx_type widened(enum ds_ptx_type type)
{
        switch (type) {
        case DS_PTX_TYPE_U16:
                return DS_PTX_TYPE_U32;
        case DS_PTX_TYPE_S16:
                return DS_PTX_TYPE_S32;
        case DS_PTX_TYPE_U32:
                return DS_PTX_TYPE_U64;
        case DS_PTX_TYPE_S32:
                return DS_PTX_TYPE_S64;
        default:
                return DS_PTX_TYPE_NONE; /* .wide of this type does not exist; ds_ptx_check_modifiers reports that */
        }
}

/* Type of an operand with this width letter; NONE: any type. */
static enum ds_ptx_type type_of(const struct ds_ptx_instr *instr, char width)
{
        switch (width) {
        case '0':
        case '1':
        case '2':
        case '3':
                return width - '0' < instr->n_types ? (enum ds_ptx_type)instr->types[width - '0'] : DS_PTX_TYPE_NONE;
        case 'w':
                if (ds_ptx_has(instr, DS_PTX_MUL_WIDE))
                        return widened((enum ds_ptx_type)instr->types[0]);
                return (enum ds_ptx_type)instr->types[0];
        case 'p':
                return DS_PTX_TYPE_PRED;
        case 'h':
                return DS_PTX_TYPE_U16;
        case 'i':
                return DS_PTX_TYPE_U32;
        case 'q':
                return DS_PTX_TYPE_U64;
        default:
                return DS_PTX_TYPE_NONE;
        }
}

/* --- operands ---------------------------------------------------------------------------------------------------- */
static void wrong(struct ds_ptx_check *c, const struct ds_ptx_operand *operand, const char *what)
{
        ds_ptx_invalid(c, operand->line, operand->column, "'%s': %s", c->instr->text, what);
}

static void check_reg_type(struct ds_ptx_check *c, struct ds_ptx_operand *operand, uint32_t reg,
        const struct shape *shape, enum ds_ptx_type type)
{
        const struct ds_ptx_reg *r = &c->function->regs[reg];
        enum ds_ptx_type have = (enum ds_ptx_type)r->type;
        char name[80];

        if (shape->width == 'z' && ds_ptx_type_bits(have) >= 32 && (is_bits(have) || is_int(have)))
                return;
        if (shape->width != 'z' && (type == DS_PTX_TYPE_NONE || compatible(type, have, shape->wider)))
                return;
        ds_ptx_reg_name(c->function, reg, name, sizeof(name));
        ds_ptx_invalid(c, operand->line, operand->column, "'%s': register %.60s of type .%s does not fit %s%s",
                c->instr->text, name, ds_ptx_type_name(have), shape->width == 'z' ? "an address" : ".",
                shape->width == 'z' ? "" : ds_ptx_type_name(type));
}

/* Converts a decimal number, parsed as a double, to the constant of a .f32 operand: rounds to nearest, as the
 * assembler does. */
static void narrow(struct ds_ptx_operand *operand)
{
        double wide;
        float value;

        if (operand->kind != DS_PTX_OPERAND_F64)
                return;
        memcpy(&wide, &operand->bits, sizeof(wide));
        value = (float)wide;
        operand->kind = DS_PTX_OPERAND_F32;
        operand->bits = 0;
        memcpy(&operand->bits, &value, sizeof(value));
}

static void check_constant(
        struct ds_ptx_check *c, struct ds_ptx_operand *operand, const struct shape *shape, enum ds_ptx_type type)
{
        bool is_float = operand->kind != DS_PTX_OPERAND_INT;

        if (shape->width == 'z' && is_float)
                wrong(c, operand, "a float constant where an address belongs");
        if (type == DS_PTX_TYPE_NONE)
                return;
        if (type == DS_PTX_TYPE_U16X2 || type == DS_PTX_TYPE_S16X2)
                wrong(c, operand, "a constant cannot have this type");
        else if (ds_ptx_type_bits(type) > 64)
                wrong(c, operand, "a 128-bit operand cannot be a constant");
        else if (type == DS_PTX_TYPE_F32 || type == DS_PTX_TYPE_F64) {
                if (!is_float)
                        wrong(c, operand, "an integer constant where a float belongs");
                else if (type == DS_PTX_TYPE_F64)
                        /* 0f3F800000 with a .f64 operand: these bits, zero-extended, as the assembler takes them */
                        operand->kind = DS_PTX_OPERAND_F64;
                else
                        narrow(operand);
        } else if (is_float && type != (operand->kind == DS_PTX_OPERAND_F32 ? DS_PTX_TYPE_B32 : DS_PTX_TYPE_B64)) {
                wrong(c, operand, "a float constant where an integer belongs");
        } else if (ds_ptx_type_is_float(type) && !is_bits(type)) {
                wrong(c, operand, "a constant cannot have this type");
        }
}

/* Checks the address of a variable or function used as a value */
static void check_symbol(struct ds_ptx_check *c, struct ds_ptx_operand *operand, enum ds_ptx_type type)
{
        uint32_t bits = ds_ptx_type_bits(type);

        if (c->instr->op == DS_PTX_OP_CVTA && operand->kind == DS_PTX_OPERAND_VAR &&
                !ds_ptx_has(c->instr, DS_PTX_TO_TO) &&
                (enum ds_ptx_space)operand->var->space != ds_ptx_instr_space(c->instr))
                wrong(c, operand, "the variable is in another state space");
        if (c->instr->op != DS_PTX_OP_MOV && c->instr->op != DS_PTX_OP_CVTA && c->instr->op != DS_PTX_OP_MAPA &&
                c->instr->op != DS_PTX_OP_GETCTARANK)
                wrong(c, operand, "an address must be moved to a register first");
        else if (type != DS_PTX_TYPE_NONE && ((bits != 32 && bits != 64) || !(is_bits(type) || is_int(type))))
                wrong(c, operand, "an address does not fit this type");
}

static void check_select(struct ds_ptx_check *c, struct ds_ptx_operand *operand)
{
        bool video = ds_ptx_op_info((enum ds_ptx_op)c->instr->op)->class == DS_PTX_CLASS_VIDEO;

        if (operand->select && !video)
                wrong(c, operand, "only video instructions take parts of registers");
        if (operand->negated && !video && c->function->regs[operand->reg].type != DS_PTX_TYPE_PRED)
                wrong(c, operand, "only predicates can be negated here");
}

/* Whether an instruction of `bits` bits may read the register: indices and extents also in 16 bits, a grid's id also
 * in 32. */
static bool sreg_size_fits(enum ds_ptx_sreg sreg, uint32_t bits)
{
        uint32_t have = ds_ptx_type_bits(ds_ptx_sreg_type(sreg));

        if (bits == 16)
                return ds_ptx_sreg_components(sreg) > 0;
        return have == 1 || bits == have || (bits == 32 && sreg == DS_PTX_SREG_GRIDID);
}

static void check_source(
        struct ds_ptx_check *c, struct ds_ptx_operand *operand, const struct shape *shape, enum ds_ptx_type type)
{
        if (shape->constant && operand->kind != DS_PTX_OPERAND_INT) {
                wrong(c, operand, "an integer constant belongs here");
                return;
        }
        switch (operand->kind) {
        case DS_PTX_OPERAND_REG:
                check_select(c, operand);
                check_reg_type(c, operand, operand->reg, shape, type);
                break;
        case DS_PTX_OPERAND_INT:
        case DS_PTX_OPERAND_F32:
        case DS_PTX_OPERAND_F64:
                check_constant(c, operand, shape, type);
                break;
        case DS_PTX_OPERAND_SREG:
                if (c->instr->op != DS_PTX_OP_MOV)
                        wrong(c, operand, "a special register can only be moved");
                else if (!sreg_size_fits((enum ds_ptx_sreg)operand->sreg, ds_ptx_type_bits(type)))
                        wrong(c, operand, "the special register has the wrong size");
                else if (!is_bits(type) && !is_int(type) &&
                         !compatible(type, ds_ptx_sreg_type((enum ds_ptx_sreg)operand->sreg), false))
                        wrong(c, operand, "the special register has the wrong type");
                break;
        case DS_PTX_OPERAND_VAR:
        case DS_PTX_OPERAND_FUNCTION:
                check_symbol(c, operand, shape->width == 'z' ? DS_PTX_TYPE_B64 : type);
                break;
        default:
                wrong(c, operand, "a register or a constant belongs here");
        }
}

static void check_dest(
        struct ds_ptx_check *c, struct ds_ptx_operand *operand, const struct shape *shape, enum ds_ptx_type type)
{
        switch (operand->kind) {
        case DS_PTX_OPERAND_REG:
                check_select(c, operand);
                if (operand->negated)
                        wrong(c, operand, "a destination cannot be negated");
                check_reg_type(c, operand, operand->reg, shape, type);
                break;
        case DS_PTX_OPERAND_PAIR:
                if (!shape->pair)
                        wrong(c, operand, "this instruction has one destination");
                if (operand->reg != DS_PTX_NO_REG)
                        check_reg_type(c, operand, operand->reg, shape, type);
                else if (!shape->sink)
                        wrong(c, operand, "the destination cannot be left out");
                if (operand->pair != DS_PTX_NO_REG && c->function->regs[operand->pair].type != DS_PTX_TYPE_PRED)
                        wrong(c, operand, "the second destination must be a predicate");
                break;
        case DS_PTX_OPERAND_SINK:
                if (!shape->sink)
                        wrong(c, operand, "the destination cannot be left out");
                break;
        default:
                wrong(c, operand, "a register belongs here");
        }
}

static void check_scalar(
        struct ds_ptx_check *c, struct ds_ptx_operand *operand, const struct shape *shape, enum ds_ptx_type type)
{
        if (shape->role == 'd')
                check_dest(c, operand, shape, type);
        else
                check_source(c, operand, shape, type);
}

static void check_elements(
        struct ds_ptx_check *c, struct ds_ptx_operand *operand, const struct shape *shape, enum ds_ptx_type type)
{
        struct shape element = *shape;
        uint32_t bits = 0;

        element.sink = true;
        element.pair = false;
        for (uint32_t i = 0; i < operand->n_elements; i++) {
                struct ds_ptx_operand *e = &operand->elements[i];
                uint32_t have = e->kind == DS_PTX_OPERAND_REG
                                        ? ds_ptx_type_bits((enum ds_ptx_type)c->function->regs[e->reg].type)
                                        : 0;

                if (have && bits && have != bits)
                        wrong(c, e, "the registers of a vector must have the same size");
                bits = have ? have : bits;
                check_scalar(c, e, &element, type);
        }
}

/* Checks a mov such as mov.b64 {a, b}, c: the sizes of the elements add up to that of the type. */
static void check_packed(
        struct ds_ptx_check *c, struct ds_ptx_operand *operand, const struct shape *shape, enum ds_ptx_type type)
{
        uint32_t n = operand->n_elements, bits = n ? ds_ptx_type_bits(type) / n : 0;
        enum ds_ptx_type part = bits == 8    ? DS_PTX_TYPE_B8
                                : bits == 16 ? DS_PTX_TYPE_B16
                                : bits == 32 ? DS_PTX_TYPE_B32
                                : bits == 64 ? DS_PTX_TYPE_B64
                                             : DS_PTX_TYPE_NONE;

        if (!is_bits(type) || (n != 2 && n != 4) || part == DS_PTX_TYPE_NONE)
                wrong(c, operand, "a vector of this many elements does not fit the type");
        else
                check_elements(c, operand, shape, part);
}

static void check_value(struct ds_ptx_check *c, struct ds_ptx_operand *operand, const struct shape *shape)
{
        enum ds_ptx_type type = type_of(c->instr, shape->width);
        uint32_t count = shape->vector ? ds_ptx_instr_vector(c->instr) : 1;

        if (operand->kind != DS_PTX_OPERAND_VECTOR) {
                if (count > 1 || (shape->any_vector && c->instr->op != DS_PTX_OP_MOV))
                        wrong(c, operand, "a vector {a, b} belongs here");
                else
                        check_scalar(c, operand, shape, type);
        } else if (c->instr->op == DS_PTX_OP_MOV) {
                if (shape->role == 's' && c->instr->operands[0].kind == DS_PTX_OPERAND_VECTOR)
                        wrong(c, operand, "a vector is moved to or from a register");
                check_packed(c, operand, shape, type);
        } else if (shape->any_vector) {
                check_elements(c, operand, shape, type);
                /* ld and st accept {x}, a vector of one element, in place of x */
        } else if (!shape->vector || count != operand->n_elements) {
                wrong(c, operand, count > 1 ? "the vector has the wrong number of elements" : "a scalar belongs here");
        } else {
                check_elements(c, operand, shape, type);
        }
}

/* --- addresses --------------------------------------------------------------------------------------------------- */
static bool var_in_space(const struct ds_ptx_var *var, enum ds_ptx_space space)
{
        return space == DS_PTX_SPACE_NONE || (enum ds_ptx_space)var->space == space;
}

/* State space that an instruction's address must be in; NONE: any space. */
static enum ds_ptx_space space_of_address(const struct ds_ptx_check *c, enum ds_ptx_class class)
{
        const char *mnemonic = ds_ptx_op_info((enum ds_ptx_op)c->instr->op)->mnemonic;

        if (strncmp(mnemonic, "mbarrier.", 9) == 0)
                return DS_PTX_IN_SHARED;
        if (class == DS_PTX_CLASS_MEMORY || class == DS_PTX_CLASS_ATOMIC || class == DS_PTX_CLASS_TENSOR ||
                c->instr->op == DS_PTX_OP_CP_ASYNC_MBARRIER || c->instr->op == DS_PTX_OP_ST_ASYNC)
                return ds_ptx_instr_space(c->instr);
        return DS_PTX_SPACE_NONE;
}

static void check_address(struct ds_ptx_check *c, struct ds_ptx_operand *operand, bool first)
{
        static const struct shape any = {.role = 's', .width = 'z'};
        enum ds_ptx_class class = (enum ds_ptx_class)ds_ptx_op_info((enum ds_ptx_op)c->instr->op)->class;

        if (operand->kind != DS_PTX_OPERAND_ADDRESS) {
                wrong(c, operand, "an address [x] belongs here");
                return;
        }
        if (operand->reg != DS_PTX_NO_REG)
                check_reg_type(c, operand, operand->reg, &any, DS_PTX_TYPE_NONE);
        if (operand->var && first && !var_in_space(operand->var, space_of_address(c, class)))
                ds_ptx_invalid(c, operand->line, operand->column, "'%s': '%.80s' is in another state space",
                        c->instr->text, operand->var->name);
        if (!operand->var && operand->reg == DS_PTX_NO_REG && ds_ptx_instr_space(c->instr) != DS_PTX_IN_LOCAL)
                wrong(c, operand, "an address without a base is for .local only");
        if (operand->var && c->instr->op == DS_PTX_OP_PREFETCHU && operand->var->space != DS_PTX_IN_GLOBAL)
                wrong(c, operand, "a generic address belongs here");
        if (operand->n_elements && class != DS_PTX_CLASS_ASYNC && class != DS_PTX_CLASS_TEXTURE)
                wrong(c, operand, "this address has coordinates");
        if (operand->select && c->instr->op != DS_PTX_OP_LD)
                wrong(c, operand, ".unified belongs to ld");
}

/* --- calls ------------------------------------------------------------------------------------------------------- */
static void check_argument(
        struct ds_ptx_check *c, struct ds_ptx_operand *operand, const struct ds_ptx_var *param, bool dest)
{
        struct shape shape = {.role = dest ? 'd' : 's', .sink = dest};

        if (operand->kind == DS_PTX_OPERAND_VAR && operand->var->space == DS_PTX_IN_PARAM && !operand->offset) {
                if (!param->unsized && operand->var->size != param->size)
                        wrong(c, operand, "the argument's size differs from the parameter's");
        } else if (param->space == DS_PTX_IN_PARAM && operand->kind == DS_PTX_OPERAND_VAR) {
                wrong(c, operand, "an argument must be a parameter variable, a register or a constant");
        } else if (param->n_dims) {
                wrong(c, operand, "an array parameter takes a parameter variable");
        } else {
                check_scalar(c, operand, &shape, (enum ds_ptx_type)param->type);
        }
}

static void check_arguments(struct ds_ptx_check *c, const struct ds_ptx_operand *at, struct ds_ptx_operand *args,
        uint32_t n, struct ds_ptx_var *const *params, uint32_t n_params, bool dest)
{
        bool variadic = n_params && params[n_params - 1]->unsized;

        if (variadic ? n + 1 < n_params : n != n_params) {
                ds_ptx_invalid(c, at->line, at->column, "the call has %u %s, the function %u", n,
                        dest ? "results" : "arguments", n_params);
                return;
        }
        for (uint32_t i = 0; i < n; i++)
                check_argument(c, &args[i], params[DS_MIN(i, n_params - 1)], dest);
}

/*
 * Adds n, the targets that an indirect call or jump may reach, to the module's total. Any number of instructions may
 * name one list, so checking the lists takes time that grows with the square of the text. False: the module exceeds its
 * limit.
 */
static bool charge_targets(struct ds_ptx_check *c, const struct ds_ptx_operand *operand, uint32_t n)
{
        c->n_targets += n;
        if (c->n_targets <= DS_PTX_TARGETS_MAX)
                return true;
        ds_ptx_invalid(c, operand->line, operand->column,
                "the module's indirect calls and jumps have more than %u targets together", DS_PTX_TARGETS_MAX);
        return false;
}

/* Checks that a call's arguments fit each function in the call's list of targets. */
static void check_call_targets(
        struct ds_ptx_check *c, struct ds_ptx_operand *operand, const struct ds_ptx_targets *targets)
{
        const struct ds_ptx_call *call = operand->call;

        if (!charge_targets(c, operand, targets->n))
                return;
        for (uint32_t i = 0; i < targets->n; i++) {
                const struct ds_ptx_function *f = targets->functions[i];

                check_arguments(c, operand, call->rets, call->n_rets, f->rets, f->n_rets, true);
                check_arguments(c, operand, call->args, call->n_args, f->params, f->n_params, false);
        }
}

static void check_call(struct ds_ptx_check *c, struct ds_ptx_operand *operand)
{
        static const struct shape address = {.role = 's', .width = 'z'};
        const struct ds_ptx_call *call = operand->call;

        if (call->function) {
                if (call->function->is_entry)
                        wrong(c, operand, "an entry cannot be called");
                check_arguments(
                        c, operand, call->rets, call->n_rets, call->function->rets, call->function->n_rets, true);
                check_arguments(
                        c, operand, call->args, call->n_args, call->function->params, call->function->n_params, false);
                return;
        }
        check_reg_type(c, operand, call->reg, &address, DS_PTX_TYPE_NONE);
        if (call->prototype) {
                check_arguments(
                        c, operand, call->rets, call->n_rets, call->prototype->rets, call->prototype->n_rets, true);
                check_arguments(c, operand, call->args, call->n_args, call->prototype->params,
                        call->prototype->n_params, false);
        } else if (call->targets == UINT32_MAX || c->function->targets[call->targets].labels) {
                wrong(c, operand, "an indirect call needs a prototype or a list of targets");
        } else {
                check_call_targets(c, operand, &c->function->targets[call->targets]);
        }
}

/* --- instructions ------------------------------------------------------------------------------------------------ */
/* Decodes the first word of an operand string; returns the rest of the string. */
static const char *read_shape(const char *s, struct shape *shape)
{
        *shape = (struct shape){.role = *s++};
        if (strchr("dsx", shape->role))
                shape->width = *s++;
        for (; *s && *s != ' '; s++) {
                shape->optional |= *s == '?';
                shape->vector |= *s == '{';
                shape->any_vector |= *s == 'V';
                shape->pair |= *s == '|';
                shape->sink |= *s == '_';
                shape->wider |= *s == '+';
                shape->constant |= *s == '#';
        }
        return *s ? s + 1 : s;
}

static void check_operand(struct ds_ptx_check *c, uint32_t i, const struct shape *shape)
{
        struct ds_ptx_operand *operand = &c->instr->operands[i];

        if (operand->kind == DS_PTX_OPERAND_VECTOR && operand->pair != DS_PTX_NO_REG) {
                if (!shape->pair)
                        wrong(c, operand, "this instruction has one destination");
                else if (c->function->regs[operand->pair].type != DS_PTX_TYPE_PRED)
                        wrong(c, operand, "the second destination must be a predicate");
        }
        switch (shape->role) {
        case 'd':
        case 's':
                check_value(c, operand, shape);
                break;
        case 'm':
                check_address(c, operand, i < 2);
                break;
        case 'c':
                check_call(c, operand);
                break;
        default: /* nothing to check: the parser has resolved labels and target lists, and role x accepts anything */
                if (operand->kind == DS_PTX_OPERAND_TARGETS)
                        (void)charge_targets(c, operand, c->function->targets[operand->targets].n);
        }
}

static void check_instr(struct ds_ptx_check *c)
{
        const struct ds_ptx_op_info *info = ds_ptx_op_info((enum ds_ptx_op)c->instr->op);
        const char *operands = info->operands, *s;
        uint32_t required = 0, optional = 0, given = c->instr->n_operands, at = 0, spare;
        struct shape shape;

        for (s = operands; *s;) {
                s = read_shape(s, &shape);
                *(shape.optional ? &optional : &required) += 1;
        }
        c->n_optional = given - required;
        if (given < required || given > required + optional) {
                ds_ptx_invalid(c, c->instr->line, c->instr->column, "'%s' takes %u%s operands, not %u", c->instr->text,
                        required, optional ? " or more" : "", given);
                return;
        }
        spare = given - required;
        for (s = operands; *s;) {
                s = read_shape(s, &shape);
                if (shape.optional) {
                        if (!spare)
                                continue;
                        spare--;
                }
                check_operand(c, at++, &shape);
        }
        ds_ptx_check_modifiers(c);
        ds_ptx_check_target(c);
        if (info->class == DS_PTX_CLASS_TENSOR)
                ds_ptx_check_matrix(c);
        if (info->class == DS_PTX_CLASS_ASYNC || info->class == DS_PTX_CLASS_ATOMIC)
                ds_ptx_check_async(c);
        if (info->class == DS_PTX_CLASS_VIDEO)
                ds_ptx_check_video(c);
}

void ds_ptx_validate(struct ds_ptx_module *module, struct ds_ptx_diags *diags)
{
        struct ds_ptx_check c = {.module = module, .diags = diags};

        ds_ptx_index_modifiers(&c);
        ds_ptx_index_needs(&c);
        for (uint32_t i = 0; i < module->n_functions && diags->total < DS_PTX_VALIDATE_MAX; i++) {
                c.function = module->functions[i];
                for (uint32_t j = 0; j < c.function->n_instrs && diags->total < DS_PTX_VALIDATE_MAX; j++) {
                        c.instr = &c.function->instrs[j];
                        check_instr(&c);
                }
        }
}
