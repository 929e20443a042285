/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Video instructions: selectors, negation and the second operation
 *
 * Scalar instructions combine the result with a third operand, or write it into a part of that operand, never both.
 * Instructions on two or four lanes choose a lane of both sources for each lane of the result, and may add the lanes
 * up.
 */
#include <string.h>

#include "ptx/tables.h"
#include "ptx/validate_internal.h"

static void wrong(struct ds_ptx_check *c, const struct ds_ptx_operand *operand, const char *what)
{
        ds_ptx_invalid(c, operand->line, operand->column, "'%.120s': %s", c->instr->text, what);
}

static bool has(const struct ds_ptx_check *c, enum ds_ptx_modifier modifier)
{
        return ds_ptx_has(c->instr, modifier);
}

static void check_scalar_merge(struct ds_ptx_check *c)
{
        const struct ds_ptx_operand *d = &c->instr->operands[0];
        bool merges = ds_ptx_mod(c->instr, DS_PTX_MERGE_ADD), part = d->select != DS_PTX_SELECT_NONE;

        if (merges && part)
                wrong(c, d, "a second operation does not go with a part of the destination");
        else if ((merges || part) && !c->n_optional)
                wrong(c, d, "the third source is missing");
}

static void check_scalar(struct ds_ptx_check *c)
{
        const struct ds_ptx_operand *operands = c->instr->operands;
        bool mad = c->instr->op == DS_PTX_OP_VMAD || c->instr->op == DS_PTX_OP_VMAD_PO;
        bool product = mad && operands[1].negated != operands[2].negated;

        for (uint32_t i = 0; i < c->instr->n_operands; i++) {
                if (operands[i].select == DS_PTX_SELECT_MASK || (i == 3 && operands[i].select))
                        wrong(c, &operands[i], "this part of a register does not go with the instruction");
                if (operands[i].negated && !mad)
                        wrong(c, &operands[i], "this operand cannot be negated");
        }
        if (!mad) {
                check_scalar_merge(c);
                return;
        }
        if (operands[0].select)
                wrong(c, &operands[0], "the destination is a whole register");
        if (product && operands[3].negated)
                wrong(c, &operands[3], "either the product or the third source is negated");
        if (c->instr->op == DS_PTX_OP_VMAD_PO && (product || operands[3].negated))
                wrong(c, &operands[3], ".po does not go with negation");
}

/* Number of lanes in an operand's selector, such as 2 in ".h10"; letter: h or b. */
static uint32_t count_lanes(const struct ds_ptx_operand *operand, char letter)
{
        if (operand->select != DS_PTX_SELECT_MASK || operand->select_text[1] != letter)
                return 0;
        return (uint32_t)strlen(operand->select_text) - 2;
}

static bool descends(const char *digits, char top)
{
        for (; *digits; digits++) {
                if (*digits > top || (digits[1] && digits[1] >= digits[0]))
                        return false;
        }
        return true;
}

static bool destination_fits(const struct ds_ptx_operand *d, bool halves)
{
        if (d->select == DS_PTX_SELECT_NONE)
                return true;
        if (d->select == DS_PTX_SELECT_MASK)
                return count_lanes(d, halves ? 'h' : 'b') && descends(d->select_text + 2, halves ? '1' : '3');
        return (d->select >= DS_PTX_SELECT_H0) == halves;
}

static void check_lanes(struct ds_ptx_check *c, bool halves)
{
        const struct ds_ptx_operand *operands = c->instr->operands;

        if (!destination_fits(&operands[0], halves))
                wrong(c, &operands[0], "these lanes do not go with the instruction");
        for (uint32_t i = 1; i < c->instr->n_operands; i++) {
                bool whole = operands[i].kind == DS_PTX_OPERAND_REG && !operands[i].select;

                if (!whole && (i == 3 || count_lanes(&operands[i], halves ? 'h' : 'b') != (halves ? 2u : 4u)))
                        wrong(c, &operands[i], "a register, with a lane for each lane of the result, belongs here");
                if (operands[i].negated)
                        wrong(c, &operands[i], "this operand cannot be negated");
        }
        if (ds_ptx_mod(c->instr, DS_PTX_MERGE_ADD) > DS_PTX_MERGE_ADD)
                wrong(c, &operands[0], "only .add is a second operation here");
        if (has(c, DS_PTX_SAT_SAT) && has(c, DS_PTX_MERGE_ADD))
                wrong(c, &operands[0], ".sat and .add exclude each other");
}

void ds_ptx_check_video(struct ds_ptx_check *c)
{
        const char *mnemonic = ds_ptx_op_info((enum ds_ptx_op)c->instr->op)->mnemonic;
        char last = mnemonic[strlen(mnemonic) - 1];
        enum ds_ptx_modifier cmp = ds_ptx_mod(c->instr, DS_PTX_CMP_EQ);

        if (last == '2' || last == '4')
                check_lanes(c, last == '2');
        else
                check_scalar(c);
        if (cmp > DS_PTX_CMP_HS || (cmp > DS_PTX_CMP_GE && c->instr->types[1] != DS_PTX_TYPE_U32))
                wrong(c, &c->instr->operands[0], "the comparison does not go with the types");
        if ((c->instr->op == DS_PTX_OP_VSHL || c->instr->op == DS_PTX_OP_VSHR) && c->instr->types[2] != DS_PTX_TYPE_U32)
                wrong(c, &c->instr->operands[2], "the shift amount must be .u32");
}
