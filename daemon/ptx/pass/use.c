/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/pass/use.h"

#include <string.h>

struct visit {
        ds_ptx_use_fn fn;
        void *user;
};

static void visit_reg(const struct visit *v, uint32_t *reg, unsigned use)
{
        if (*reg != DS_PTX_NO_REG)
                v->fn(v->user, reg, use);
}

static void visit_operand(const struct visit *v, struct ds_ptx_operand *o, unsigned use);

static void visit_call(const struct visit *v, struct ds_ptx_call *call)
{
        for (uint32_t i = 0; i < call->n_rets; i++)
                visit_operand(v, &call->rets[i], DS_PTX_USE_WRITE);
        visit_reg(v, &call->reg, DS_PTX_USE_READ);
        for (uint32_t i = 0; i < call->n_args; i++)
                visit_operand(v, &call->args[i], DS_PTX_USE_READ);
}

static void visit_operand(const struct visit *v, struct ds_ptx_operand *o, unsigned use)
{
        switch (o->kind) {
        case DS_PTX_OPERAND_REG:
                visit_reg(v, &o->reg, use | (o->select && use == DS_PTX_USE_WRITE ? DS_PTX_USE_PART : 0));
                break;
        case DS_PTX_OPERAND_PAIR:
                visit_reg(v, &o->reg, use);
                visit_reg(v, &o->pair, use);
                break;
        case DS_PTX_OPERAND_SINK:
                break;
        case DS_PTX_OPERAND_ADDRESS:
                visit_reg(v, &o->reg, DS_PTX_USE_READ);
                for (uint32_t i = 0; i < o->n_elements; i++)
                        visit_operand(v, &o->elements[i], DS_PTX_USE_READ);
                break;
        case DS_PTX_OPERAND_VECTOR:
                for (uint32_t i = 0; i < o->n_elements; i++)
                        visit_operand(v, &o->elements[i], use);
                visit_reg(v, &o->pair, use);
                break;
        case DS_PTX_OPERAND_CALL:
                visit_call(v, o->call);
                break;
        default:
                break;
        }
}

/* Reads one word of a row's operand string (opcodes.def): its role, and whether it is optional. Returns the next
 * word, or NULL at the end. */
static const char *next_word(const char *s, char *ret_role, bool *ret_optional)
{
        if (!*s)
                return NULL;
        *ret_role = *s;
        for (*ret_optional = false; *s && *s != ' '; s++)
                *ret_optional |= *s == '?';
        return *s ? s + 1 : s;
}

/* Finds the roles of all operands of an instruction; 0 past the row's end. */
static void roles_of(const struct ds_ptx_instr *instr, char roles[static DS_PTX_MAX_OPERANDS])
{
        const char *words = ds_ptx_op_info((enum ds_ptx_op)instr->op)->operands, *s = words;
        uint32_t required = 0, spare, at = 0;
        bool optional;
        char role;

        while ((s = next_word(s, &role, &optional)))
                required += !optional;
        spare = instr->n_operands > required ? instr->n_operands - required : 0;
        for (s = words; (s = next_word(s, &role, &optional)) && at < DS_PTX_MAX_OPERANDS;) {
                if (optional && !spare)
                        continue;
                spare -= optional;
                roles[at++] = role;
        }
        while (at < DS_PTX_MAX_OPERANDS)
                roles[at++] = 0;
}

char ds_ptx_operand_role(const struct ds_ptx_instr *instr, uint32_t index)
{
        char roles[DS_PTX_MAX_OPERANDS];

        roles_of(instr, roles);
        return index < DS_PTX_MAX_OPERANDS ? roles[index] : 0;
}

/* How an instruction uses operand `index`, also where the table says "anything": it writes the results of loads from
 * textures and surfaces, and reads and writes accumulators of wgmma. */
static unsigned use_of(const struct ds_ptx_instr *instr, uint32_t index, char role)
{
        if (role == 'x' && !index && (ds_ptx_op_info((enum ds_ptx_op)instr->op)->flags & DS_PTX_WRITES) == 0 &&
                ds_ptx_op_info((enum ds_ptx_op)instr->op)->class == DS_PTX_CLASS_TEXTURE)
                return DS_PTX_USE_WRITE;
        if (role != 'd')
                return DS_PTX_USE_READ;
        if (instr->op == DS_PTX_OP_WGMMA || instr->op == DS_PTX_OP_WGMMA_SP)
                return DS_PTX_USE_WRITE | DS_PTX_USE_READ | DS_PTX_USE_PART;
        return DS_PTX_USE_WRITE;
}

void ds_ptx_each_register(struct ds_ptx_instr *instr, ds_ptx_use_fn fn, void *user)
{
        const struct visit v = {.fn = fn, .user = user};
        char roles[DS_PTX_MAX_OPERANDS];

        roles_of(instr, roles);
        visit_reg(&v, &instr->guard, DS_PTX_USE_READ | DS_PTX_USE_GUARD);
        for (uint32_t i = 0; i < instr->n_operands; i++)
                visit_operand(&v, &instr->operands[i], use_of(instr, i, roles[i]));
}

bool ds_ptx_falls_through(const struct ds_ptx_instr *instr)
{
        return instr->guard != DS_PTX_NO_REG || !(ds_ptx_op_info((enum ds_ptx_op)instr->op)->flags & DS_PTX_ENDS);
}

uint32_t ds_ptx_jumps(
        const struct ds_ptx_function *function, const struct ds_ptx_instr *instr, const uint32_t **ret_labels)
{
        const struct ds_ptx_targets *targets;

        if (instr->op == DS_PTX_OP_BRA && instr->n_operands) {
                *ret_labels = &instr->operands[0].label;
                return 1;
        }
        for (uint32_t i = 0; i < instr->n_operands; i++) {
                if (instr->operands[i].kind != DS_PTX_OPERAND_TARGETS)
                        continue;
                targets = &function->targets[instr->operands[i].targets];
                *ret_labels = targets->labels;
                return targets->labels ? targets->n : 0;
        }
        return 0;
}
