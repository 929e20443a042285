/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/pass/colour_trace.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ptx/pass/colour.h"
#include "ptx/pass/use.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define ROUNDS 64 /* most passes over all instructions; beyond that a kernel counts as too hard to trace */

typedef struct ds_ptx_colour_origin origin;
typedef struct ds_ptx_colour_trace trace;

static const origin anything = {.other = true};

static uint64_t taint(origin o)
{
        return o.from | o.mixed;
}

static bool is_written(origin o)
{
        return o.other || taint(o);
}

static bool is_single(uint64_t mask)
{
        return mask && !(mask & (mask - 1));
}

/* Number of the first parameter in the mask, for messages */
static unsigned first_of(uint64_t mask)
{
        return (unsigned)__builtin_ctzll(mask);
}

static void refuse(trace *t, const struct ds_ptx_instr *instr, const char *fmt, ...)
        __attribute__((__format__(__printf__, 3, 4)));

/* Records a reason to refuse the kernel; only the first one is kept. */
static void refuse(trace *t, const struct ds_ptx_instr *instr, const char *fmt, ...)
{
        va_list args;

        if (t->reason[0])
                return;
        va_start(args, fmt);
        vsnprintf(t->reason, sizeof(t->reason), fmt, args);
        va_end(args);
        t->line = instr->line;
}

/* --- origins of values --- */

bool ds_ptx_colour_is_wide(const struct ds_ptx_function *kernel, uint32_t param)
{
        const struct ds_ptx_var *p = kernel->params[param];

        return param < DS_PTX_COLOUR_PARAMS && p->size == 8 && !p->n_dims && !p->vector &&
               (p->type == DS_PTX_TYPE_U64 || p->type == DS_PTX_TYPE_S64 || p->type == DS_PTX_TYPE_B64);
}

static bool is_param_of(const struct ds_ptx_function *f, const struct ds_ptx_var *var)
{
        return var && var->index < f->n_params && f->params[var->index] == var;
}

/* Origin of a value of `size` bytes loaded from offset `at` of the kernel's parameters. */
static origin of_params(const trace *t, uint64_t at, uint64_t size)
{
        const struct ds_ptx_function *f = t->function;

        for (uint32_t i = 0; i < f->n_params && i < DS_PTX_COLOUR_PARAMS; i++) {
                const struct ds_ptx_var *p = f->params[i];

                if (!(t->mask >> i & 1) || at + size <= p->offset || at >= p->offset + p->size)
                        continue;
                if (at == p->offset && size == p->size)
                        return (origin){.from = UINT64_C(1) << i};
                return (origin){.mixed = UINT64_C(1) << i, .rough = true};
        }
        return anything;
}

static bool is_param_load(const trace *t, const struct ds_ptx_instr *instr)
{
        return instr->op == DS_PTX_OP_LD && ds_ptx_instr_space(instr) == DS_PTX_IN_PARAM &&
               is_param_of(t->function, instr->operands[1].var);
}

static origin of_operand(const trace *t, const struct ds_ptx_operand *o)
{
        return o->kind == DS_PTX_OPERAND_REG ? t->regs[o->reg] : anything;
}

/* Union of the origins of all registers that the instruction reads, for a result with an unknown relation to them. */
struct reads {
        const trace *t;
        uint64_t taint;
        bool rough, unwritten;
};

static void add_read(void *user, uint32_t *reg, unsigned use)
{
        struct reads *r = user;

        if (!(use & DS_PTX_USE_READ))
                return;
        r->taint |= taint(r->t->regs[*reg]);
        r->rough |= r->t->regs[*reg].rough;
        r->unwritten |= !is_written(r->t->regs[*reg]);
}

static struct reads reads_of(const trace *t, const struct ds_ptx_instr *instr)
{
        struct reads r = {.t = t};

        ds_ptx_each_register((struct ds_ptx_instr *)instr, add_read, &r);
        return r;
}

/* Whether the low 8 bits of the instruction's result depend only on the low 8 bits of its operands. */
static bool keeps_low_bits(const struct ds_ptx_instr *instr)
{
        switch (instr->op) {
        case DS_PTX_OP_ADD:
        case DS_PTX_OP_SUB:
        case DS_PTX_OP_NEG:
        case DS_PTX_OP_NOT:
        case DS_PTX_OP_AND:
        case DS_PTX_OP_OR:
        case DS_PTX_OP_XOR:
        case DS_PTX_OP_SELP:
                return !ds_ptx_has(instr, DS_PTX_SAT_SAT);
        case DS_PTX_OP_SHL:
                return instr->operands[2].kind == DS_PTX_OPERAND_INT;
        case DS_PTX_OP_MOV:
                return instr->operands[0].kind == DS_PTX_OPERAND_REG && instr->operands[1].kind == DS_PTX_OPERAND_REG;
        case DS_PTX_OP_CVT:
                return !ds_ptx_has(instr, DS_PTX_SAT_SAT) && !ds_ptx_type_is_float((enum ds_ptx_type)instr->types[0]) &&
                       !ds_ptx_type_is_float((enum ds_ptx_type)instr->types[1]);
        default:
                return false;
        }
}

/* Origin of a result in which the addresses read are contained in an unknown way. */
static origin in_some_way(const trace *t, const struct ds_ptx_instr *instr)
{
        struct reads r = reads_of(t, instr);

        if (!r.taint)
                return anything;
        return (origin){.mixed = r.taint, .rough = r.rough || !keeps_low_bits(instr)};
}

static bool is_wide(const struct ds_ptx_instr *instr)
{
        return instr->n_types && ds_ptx_type_bits((enum ds_ptx_type)instr->types[0]) == 64 &&
               !ds_ptx_type_is_float((enum ds_ptx_type)instr->types[0]);
}

/* A sum of a pointer and a number points to the pointer's tensor; a sum of two pointers points nowhere. */
static origin of_sum(const trace *t, const struct ds_ptx_instr *instr, origin a, origin b)
{
        origin p = a.from ? a : b, number = a.from ? b : a;

        if (!p.from || taint(number))
                return in_some_way(t, instr);
        return p;
}

/* The difference of two addresses in one tensor is a number. */
static origin of_difference(const trace *t, const struct ds_ptx_instr *instr, origin a, origin b)
{
        if (a.from && !taint(b))
                return a;
        if (is_single(a.from) && a.from == b.from && !(a.mixed | b.mixed) && !a.other && !b.other)
                return anything;
        return in_some_way(t, instr);
}

static const struct ds_ptx_operand *constant_of(const struct ds_ptx_instr *instr)
{
        for (uint32_t i = 1; i < instr->n_operands; i++)
                if (instr->operands[i].kind == DS_PTX_OPERAND_INT)
                        return &instr->operands[i];
        return NULL;
}

/*
 * Origin of and, or, xor with a constant: the low bits of an address, an address aligned downwards, or a sum that a
 * compiler wrote as `or` because it knew that the bits are 0. If only the low 8 bits are concerned, the result is that
 * of linear tensors.
 */
static origin of_bits(const trace *t, const struct ds_ptx_instr *instr)
{
        const struct ds_ptx_operand *constant = constant_of(instr);
        const struct ds_ptx_operand *value = &instr->operands[instr->operands[1].kind == DS_PTX_OPERAND_INT ? 2 : 1];
        uint64_t bits = constant ? constant->bits : 0;
        origin o = of_operand(t, value);
        const uint64_t low = (UINT64_C(1) << DS_PTX_COLOUR_SECTOR_MIN) - 1;

        if (!constant || !taint(o))
                return in_some_way(t, instr);
        if (instr->op == DS_PTX_OP_AND && bits <= low && !o.rough)
                return anything;
        if (!o.mixed && is_wide(instr) && (instr->op == DS_PTX_OP_AND ? ~bits <= low : bits <= low))
                return o;
        return in_some_way(t, instr);
}

static origin united(origin a, origin b)
{
        return (origin){a.from | b.from, a.mixed | b.mixed, a.other | b.other, a.rough | b.rough};
}

static bool copies_address(const struct ds_ptx_instr *instr)
{
        const struct ds_ptx_operand *o = instr->operands;

        if (instr->n_operands < 2 || o[0].kind != DS_PTX_OPERAND_REG || o[1].kind != DS_PTX_OPERAND_REG ||
                !is_wide(instr))
                return false;
        switch (instr->op) {
        case DS_PTX_OP_MOV:
                return true;
        case DS_PTX_OP_CVTA:
                return ds_ptx_instr_space(instr) == DS_PTX_IN_GLOBAL;
        case DS_PTX_OP_CVT:
                return ds_ptx_type_bits((enum ds_ptx_type)instr->types[1]) == 64 &&
                       !ds_ptx_type_is_float((enum ds_ptx_type)instr->types[1]);
        default:
                return false;
        }
}

/* Origin of an arithmetic result */
static origin of_arithmetic(const trace *t, const struct ds_ptx_instr *instr)
{
        const struct ds_ptx_operand *o = instr->operands;

        if (copies_address(instr))
                return of_operand(t, &o[1]);
        switch (instr->op) {
        case DS_PTX_OP_ADD:
                if (is_wide(instr))
                        return of_sum(t, instr, of_operand(t, &o[1]), of_operand(t, &o[2]));
                break;
        case DS_PTX_OP_SUB:
                if (is_wide(instr))
                        return of_difference(t, instr, of_operand(t, &o[1]), of_operand(t, &o[2]));
                break;
        case DS_PTX_OP_MAD: /* mad of 32-bit factors is a 64-bit sum only with .wide */
                if (!ds_ptx_has(instr, DS_PTX_SAT_SAT) && !taint(of_operand(t, &o[1])) && !taint(of_operand(t, &o[2])))
                        return of_operand(t, &o[3]);
                break;
        case DS_PTX_OP_AND:
        case DS_PTX_OP_OR:
                return of_bits(t, instr);
        case DS_PTX_OP_SELP:
                return united(of_operand(t, &o[1]), of_operand(t, &o[2]));
        default:
                break;
        }
        return in_some_way(t, instr);
}

static origin of_instr(const trace *t, const struct ds_ptx_instr *instr)
{
        switch (ds_ptx_op_info((enum ds_ptx_op)instr->op)->class) {
        case DS_PTX_CLASS_INT:
        case DS_PTX_CLASS_FLOAT:
        case DS_PTX_CLASS_SPECIAL:
        case DS_PTX_CLASS_MOVE:
        case DS_PTX_CLASS_CONVERT:
        case DS_PTX_CLASS_VIDEO:
        case DS_PTX_CLASS_WARP:
        case DS_PTX_CLASS_TENSOR:
                return of_arithmetic(t, instr);
        default: /* the result comes from memory or from a query; queries about coloured addresses are checked below */
                return anything;
        }
}

/* --- tracing --- */

static void write_origin(trace *t, uint32_t reg, origin o)
{
        origin *to, both;

        if (reg == DS_PTX_NO_REG)
                return;
        to = &t->regs[reg];
        both = united(*to, o);
        t->changed |=
                both.from != to->from || both.mixed != to->mixed || both.other != to->other || both.rough != to->rough;
        *to = both;
}

struct writes {
        trace *t;
        origin o;
};

static void write_each(void *user, uint32_t *reg, unsigned use)
{
        struct writes *w = user;

        if (use & DS_PTX_USE_WRITE)
                write_origin(w->t, *reg, w->o);
}

static void follow_param_load(trace *t, const struct ds_ptx_instr *instr)
{
        const struct ds_ptx_operand *to = &instr->operands[0], *address = &instr->operands[1];
        uint32_t n = to->kind == DS_PTX_OPERAND_VECTOR ? to->n_elements : 1;
        uint64_t size = ds_ptx_type_bits((enum ds_ptx_type)instr->types[0]) / 8;
        uint64_t at = address->var->offset + (uint64_t)address->offset;

        for (uint32_t i = 0; i < n; i++) {
                const struct ds_ptx_operand *reg = to->kind == DS_PTX_OPERAND_VECTOR ? &to->elements[i] : to;

                if (reg->kind == DS_PTX_OPERAND_REG)
                        write_origin(t, reg->reg, of_params(t, at + i * size, size));
        }
}

/* An instruction that reads a register not yet written waits for the next pass: a loop writes it later in the text. */
static void follow_instr(trace *t, const struct ds_ptx_instr *instr)
{
        struct writes w = {.t = t};

        if (is_param_load(t, instr)) {
                follow_param_load(t, instr);
                return;
        }
        if (instr->op != DS_PTX_OP_SELP && reads_of(t, instr).unwritten)
                return;
        w.o = of_instr(t, instr);
        ds_ptx_each_register((struct ds_ptx_instr *)instr, write_each, &w);
}

struct undefined {
        uint8_t *written;
};

static void note_written(void *user, uint32_t *reg, unsigned use)
{
        const struct undefined *u = user;

        if (use & DS_PTX_USE_WRITE)
                u->written[*reg] = 1;
}

/* Starts the trace: registers that are read and never written count as arbitrary values. */
static int begin(trace *t)
{
        const struct ds_ptx_function *f = t->function;
        ds_cleanup(ds_freep) uint8_t *written = ds_alloc0((size_t)f->n_regs + 1, 1);
        struct undefined u = {written};

        if (!written)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < f->n_instrs; i++)
                ds_ptx_each_register(&f->instrs[i], note_written, &u);
        for (uint32_t i = 0; i < f->n_regs; i++)
                t->regs[i].other = !written[i];
        return 0;
}

/* Repeats passes until no origin changes. Values around a loop need one more pass each, so real kernels take few. */
static void follow_all(trace *t)
{
        for (uint32_t round = 0; round < ROUNDS && t->function->n_instrs <= t->steps; round++) {
                t->steps -= t->function->n_instrs;
                t->changed = false;
                for (uint32_t i = 0; i < t->function->n_instrs; i++)
                        follow_instr(t, &t->function->instrs[i]);
                if (!t->changed)
                        return;
        }
        snprintf(t->reason, sizeof(t->reason), "its addresses take too many steps to follow");
        t->line = t->function->line;
}

/* Follows the origins of all registers; those written only in a cycle without any input count as arbitrary values,
 * too. */
static void follow(trace *t)
{
        follow_all(t);
        for (uint32_t i = 0; i < t->function->n_regs; i++)
                t->regs[i].other |= !is_written(t->regs[i]);
        follow_all(t);
}

/* --- checks of uses --- */

/* Index of the operand that is the address of a possibly global access; -1: there is none that can be translated. */
static int address_of(const struct ds_ptx_instr *instr)
{
        switch (instr->op) {
        case DS_PTX_OP_LD:
        case DS_PTX_OP_LDU:
        case DS_PTX_OP_CP_ASYNC:
        case DS_PTX_OP_ATOM:
        case DS_PTX_OP_ATOM_CAS:
        case DS_PTX_OP_ATOM_EXCH:
                return 1;
        case DS_PTX_OP_ST:
        case DS_PTX_OP_RED:
        case DS_PTX_OP_PREFETCH:
        case DS_PTX_OP_PREFETCHU:
        case DS_PTX_OP_APPLYPRIORITY:
        case DS_PTX_OP_DISCARD:
                return 0;
        default:
                return -1;
        }
}

/* Coloured parameters that the operands other than `except` may point to or contain. */
static uint64_t taint_beside(const trace *t, const struct ds_ptx_instr *instr, int except)
{
        uint64_t found = 0;

        for (uint32_t i = 0; i < instr->n_operands; i++) {
                const struct ds_ptx_operand *o = &instr->operands[i];

                if ((int)i == except || ds_ptx_operand_role(instr, i) == 'd')
                        continue;
                if (o->kind == DS_PTX_OPERAND_REG || (o->kind == DS_PTX_OPERAND_ADDRESS && o->reg != DS_PTX_NO_REG))
                        found |= taint(t->regs[o->reg]);
                for (uint32_t k = 0; k < o->n_elements; k++)
                        if (o->elements[k].kind == DS_PTX_OPERAND_REG)
                                found |= taint(t->regs[o->elements[k].reg]);
        }
        return found;
}

/* Checks that the address can only be in coloured tensors; only then one translation fits. */
static bool is_clear(trace *t, const struct ds_ptx_instr *instr, origin o)
{
        enum ds_ptx_space space = instr->op == DS_PTX_OP_CP_ASYNC ? DS_PTX_IN_GLOBAL : ds_ptx_instr_space(instr);

        if (o.mixed)
                refuse(t, instr, "accesses memory at an address computed from parameter %u in an unknown way",
                        first_of(o.mixed));
        else if (o.other)
                refuse(t, instr, "accesses parameter %u, or memory that is not coloured", first_of(o.from));
        else if (space != DS_PTX_IN_GLOBAL && space != DS_PTX_SPACE_NONE)
                refuse(t, instr, "uses the address of parameter %u for another state space", first_of(o.from));
        else
                return true;
        return false;
}

static void check_access(trace *t, uint32_t at)
{
        const struct ds_ptx_instr *instr = &t->function->instrs[at];
        int which = address_of(instr);
        uint64_t beside = taint_beside(t, instr, which);
        const struct ds_ptx_operand *address = &instr->operands[which];
        origin o = {0};

        if (address->kind == DS_PTX_OPERAND_ADDRESS && address->reg != DS_PTX_NO_REG)
                o = t->regs[address->reg];
        if (beside && instr->op == DS_PTX_OP_ST && ds_ptx_instr_space(instr) == DS_PTX_IN_PARAM)
                refuse(t, instr, "passes the address of parameter %u to a function", first_of(beside));
        else if (beside)
                refuse(t, instr, "stores the address of parameter %u, or a value computed from it, in memory",
                        first_of(beside));
        if (!taint(o) || !is_clear(t, instr, o))
                return;
        t->accesses[at] = (uint8_t)(which + 1);
        t->n_accesses++;
}

/*
 * Whether a comparison has the same result as with linear tensors. Equality of an address with 0 has. An order relative
 * to 0 has not, as it would compare two tensors if another address was subtracted. Two addresses of one tensor have the
 * same order if they are in it or near it: sums are assumed not to wrap around.
 */
static bool compares_alike(const trace *t, const struct ds_ptx_instr *instr)
{
        uint32_t first = 1;
        const struct ds_ptx_operand *o = &instr->operands[first];
        origin a, b;

        /* isspacep: every address is global, but a value computed from one may not be */
        if (instr->op == DS_PTX_OP_ISSPACEP)
                return !of_operand(t, &o[0]).mixed;
        if ((instr->op != DS_PTX_OP_SETP && instr->op != DS_PTX_OP_SET) || instr->n_operands > 4)
                return false;
        a = of_operand(t, &o[0]);
        b = of_operand(t, &o[1]);
        if (a.mixed | b.mixed || ds_ptx_type_bits((enum ds_ptx_type)instr->types[instr->n_types - 1]) != 64)
                return false;
        if (o[0].kind == DS_PTX_OPERAND_INT || o[1].kind == DS_PTX_OPERAND_INT)
                return o[o[0].kind == DS_PTX_OPERAND_INT ? 0 : 1].bits == 0 &&
                       (ds_ptx_has(instr, DS_PTX_CMP_EQ) || ds_ptx_has(instr, DS_PTX_CMP_NE));
        return is_single(a.from) && a.from == b.from && !a.other && !b.other;
}

struct answers {
        const trace *t;
        bool predicate;
};

static void see_answer(void *user, uint32_t *reg, unsigned use)
{
        struct answers *a = user;

        a->predicate |= (use & DS_PTX_USE_WRITE) && a->t->function->regs[*reg].type == DS_PTX_TYPE_PRED;
}

/* Refuses arithmetic on a parameter's address that writes a predicate or a carry: its result depends on the address */
static void check_arithmetic(trace *t, const struct ds_ptx_instr *instr, uint64_t found)
{
        struct answers a = {.t = t};

        ds_ptx_each_register((struct ds_ptx_instr *)instr, see_answer, &a);
        if (a.predicate || (ds_ptx_op_info((enum ds_ptx_op)instr->op)->flags & DS_PTX_CARRY_OUT))
                refuse(t, instr, "tests bits of the address of parameter %u", first_of(found));
}

static void check_other(trace *t, const struct ds_ptx_instr *instr)
{
        uint64_t found = reads_of(t, instr).taint;

        if (!found)
                return;
        switch (ds_ptx_op_info((enum ds_ptx_op)instr->op)->class) {
        case DS_PTX_CLASS_INT:
        case DS_PTX_CLASS_FLOAT:
        case DS_PTX_CLASS_SPECIAL:
        case DS_PTX_CLASS_MOVE:
        case DS_PTX_CLASS_CONVERT:
        case DS_PTX_CLASS_VIDEO:
        case DS_PTX_CLASS_WARP:
                check_arithmetic(t, instr, found);
                break;
        case DS_PTX_CLASS_COMPARE:
                if (!compares_alike(t, instr))
                        refuse(t, instr, "compares the address of parameter %u with something else", first_of(found));
                break;
        case DS_PTX_CLASS_CONTROL:
                refuse(t, instr,
                        instr->op == DS_PTX_OP_CALL ? "passes the address of parameter %u to a function"
                                                    : "jumps depending on the address of parameter %u",
                        first_of(found));
                break;
        default:
                refuse(t, instr, "uses the address of parameter %u in '%.40s', which is not translated",
                        first_of(found), ds_ptx_op_info((enum ds_ptx_op)instr->op)->mnemonic);
        }
}

/* Refuses a kernel that takes the address of a parameter, since reads through that address are not traced. */
static void check_names(trace *t, const struct ds_ptx_instr *instr, const struct ds_ptx_operand *o)
{
        if ((o->kind == DS_PTX_OPERAND_VAR || (o->kind == DS_PTX_OPERAND_ADDRESS && !is_param_load(t, instr))) &&
                is_param_of(t->function, o->var) && o->var->index < DS_PTX_COLOUR_PARAMS &&
                (t->mask >> o->var->index & 1))
                refuse(t, instr, "takes the address of parameter %u itself", o->var->index);
        for (uint32_t i = 0; i < o->n_elements; i++)
                check_names(t, instr, &o->elements[i]);
}

static void check(trace *t)
{
        const struct ds_ptx_function *f = t->function;

        for (uint32_t i = 0; i < f->n_instrs; i++) {
                for (uint32_t k = 0; k < f->instrs[i].n_operands; k++)
                        check_names(t, &f->instrs[i], &f->instrs[i].operands[k]);
                if (address_of(&f->instrs[i]) >= 0)
                        check_access(t, i);
                else
                        check_other(t, &f->instrs[i]);
        }
}

int ds_ptx_colour_trace_new(
        const struct ds_ptx_function *kernel, uint64_t mask, uint64_t *steps, struct ds_ptx_colour_trace **ret)
{
        ds_cleanup(ds_ptx_colour_trace_freep) trace *t = ds_alloc0(1, sizeof(*t));

        if (!t)
                return ds_error_origin(-ENOMEM);
        t->function = kernel;
        t->mask = mask;
        t->steps = *steps;
        t->regs = ds_alloc0((size_t)kernel->n_regs + 1, sizeof(*t->regs));
        t->accesses = ds_alloc0((size_t)kernel->n_instrs + 1, 1);
        if (!t->regs || !t->accesses)
                return ds_error_origin(-ENOMEM);
        if (begin(t))
                return ds_error_trace(-ENOMEM);
        follow(t);
        check(t);
        *steps = t->steps;
        *ret = DS_TAKE_PTR(t);
        return 0;
}

struct ds_ptx_colour_trace *ds_ptx_colour_trace_free(struct ds_ptx_colour_trace *t)
{
        if (!t)
                return NULL;
        ds_free(t->regs);
        ds_free(t->accesses);
        return ds_free(t);
}
