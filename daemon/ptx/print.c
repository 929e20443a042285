/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printer: from the module back to PTX
 *
 * Prints directives, declarations, scopes, labels and instructions in the order of the source, so that the text
 * assembles to the same machine code. Spelling is normalised: one statement per line, no comments, constants as
 * numbers. Statements that the front end keeps as text (.loc, .section, .pragma) are printed unchanged.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "ptx/ir.h"
#include "ptx/print.h"
#include "ptx/tables.h"

static void print_reg(FILE *out, const struct ds_ptx_function *f, uint32_t reg)
{
        char name[16];
        const struct ds_ptx_reg *r;

        if (reg == DS_PTX_NO_REG) {
                fputc('_', out);
                return;
        }
        r = &f->regs[reg];
        fputs(r->decl->name, out);
        if (r->decl->count) {
                snprintf(name, sizeof(name), "%u", r->number);
                fputs(name, out);
        } else if (r->decl->vector) {
                fprintf(out, ".%c", "xyzw"[r->component & 3]);
        }
}

static void print_offset(FILE *out, const struct ds_ptx_operand *operand)
{
        if (operand->offset || operand->plus)
                fprintf(out, "+%" PRId64, operand->offset);
}

static void print_sreg(FILE *out, const struct ds_ptx_operand *operand)
{
        fputs(ds_ptx_sreg_name((enum ds_ptx_sreg)operand->sreg), out);
        if (operand->sreg == DS_PTX_SREG_ENVREG)
                fprintf(out, "%u", operand->component);
        else if (ds_ptx_sreg_components((enum ds_ptx_sreg)operand->sreg))
                fprintf(out, ".%c", "xyzw"[operand->component & 3]);
}

static void print_select(FILE *out, const struct ds_ptx_operand *operand)
{
        static const char *const words[] = {"", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1"};

        if (operand->select == DS_PTX_SELECT_MASK)
                fputs(operand->select_text, out);
        else
                fputs(words[operand->select], out);
}

static void print_list(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_operand *operands, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                fputs(i ? ", " : "", out);
                ds_ptx_print_operand(out, f, &operands[i]);
        }
}

static void print_address(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_operand *operand)
{
        fputc('[', out);
        if (operand->var)
                fputs(operand->var->name, out);
        else if (operand->reg != DS_PTX_NO_REG)
                print_reg(out, f, operand->reg);
        if (operand->var || operand->reg != DS_PTX_NO_REG)
                print_offset(out, operand);
        else
                fprintf(out, "%" PRId64, operand->offset);
        if (operand->n_elements) {
                fputs(", ", out);
                print_list(out, f, operand->elements, operand->n_elements);
        }
        fputs(operand->select == DS_PTX_SELECT_UNIFIED ? "].unified" : "]", out);
}

static void print_call(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_call *call)
{
        if (call->n_rets) {
                fputc('(', out);
                print_list(out, f, call->rets, call->n_rets);
                fputs("), ", out);
        }
        if (call->function)
                fputs(call->function->name, out);
        else
                print_reg(out, f, call->reg);
        if (call->n_args || !call->function) {
                fputs(", (", out);
                print_list(out, f, call->args, call->n_args);
                fputc(')', out);
        }
        if (call->prototype)
                fprintf(out, ", %s", call->prototype->name);
        else if (call->targets != UINT32_MAX)
                fprintf(out, ", %s", f->targets[call->targets].name);
}

/* Prints an operand that is a constant or a name. */
static void print_plain(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_operand *operand)
{
        switch (operand->kind) {
        case DS_PTX_OPERAND_SREG:
                print_sreg(out, operand);
                break;
        case DS_PTX_OPERAND_INT:
                fprintf(out, "%" PRId64, (int64_t)operand->bits);
                break;
        case DS_PTX_OPERAND_F32:
                fprintf(out, "0f%08" PRIX64, operand->bits);
                break;
        case DS_PTX_OPERAND_F64:
                fprintf(out, "0d%016" PRIX64, operand->bits);
                break;
        case DS_PTX_OPERAND_VAR:
                fputs(operand->var->name, out);
                print_offset(out, operand);
                break;
        case DS_PTX_OPERAND_FUNCTION:
                fputs(operand->function->name, out);
                break;
        case DS_PTX_OPERAND_LABEL:
                fputs(f->labels[operand->label].name, out);
                break;
        case DS_PTX_OPERAND_TARGETS:
                fputs(f->targets[operand->targets].name, out);
                break;
        default:
                break;
        }
}

void ds_ptx_print_operand(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_operand *operand)
{
        if (operand->negated)
                fputc(operand->reg != DS_PTX_NO_REG && f->regs[operand->reg].type == DS_PTX_TYPE_PRED ? '!' : '-', out);
        switch (operand->kind) {
        case DS_PTX_OPERAND_REG:
                print_reg(out, f, operand->reg);
                print_select(out, operand);
                break;
        case DS_PTX_OPERAND_SINK:
                fputc('_', out);
                break;
        case DS_PTX_OPERAND_PAIR:
                print_reg(out, f, operand->reg);
                fputc('|', out);
                print_reg(out, f, operand->pair);
                break;
        case DS_PTX_OPERAND_ADDRESS:
                print_address(out, f, operand);
                break;
        case DS_PTX_OPERAND_VECTOR:
                fputc('{', out);
                print_list(out, f, operand->elements, operand->n_elements);
                fputc('}', out);
                if (operand->pair != DS_PTX_NO_REG) {
                        fputc('|', out);
                        print_reg(out, f, operand->pair);
                }
                break;
        case DS_PTX_OPERAND_CALL:
                print_call(out, f, operand->call);
                break;
        default:
                print_plain(out, f, operand);
        }
}

void ds_ptx_print_instr(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_instr *instr)
{
        fputc('\t', out);
        if (instr->guard != DS_PTX_NO_REG) {
                fputs(instr->guard_negated ? "@!" : "@", out);
                print_reg(out, f, instr->guard);
                fputc(' ', out);
        }
        fputs(instr->text, out);
        if (instr->n_operands) {
                fputc(' ', out);
                print_list(out, f, instr->operands, instr->n_operands);
        }
        fputs(";\n", out);
}

static void print_targets(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_targets *targets)
{
        fprintf(out, "%s: %s ", targets->name, targets->labels ? ".branchtargets" : ".calltargets");
        for (uint32_t i = 0; i < targets->n; i++)
                fprintf(out, "%s%s", i ? ", " : "",
                        targets->labels ? f->labels[targets->labels[i]].name : targets->functions[i]->name);
        fputs(";\n", out);
}

static void print_reg_decl(FILE *out, const struct ds_ptx_reg_decl *decl)
{
        fputs("\t.reg ", out);
        if (decl->vector)
                fprintf(out, ".v%u ", decl->vector);
        fprintf(out, ".%s %s", ds_ptx_type_name((enum ds_ptx_type)decl->type), decl->name);
        if (decl->count)
                fprintf(out, "<%u>", decl->count);
        fputs(";\n", out);
}

static void print_prototype(FILE *out, const struct ds_ptx_prototype *prototype)
{
        fprintf(out, "%s: .callprototype ", prototype->name);
        if (prototype->n_rets) {
                ds_ptx_print_params(out, prototype->rets, prototype->n_rets);
                fputc(' ', out);
        }
        fputs("_ ", out);
        ds_ptx_print_params(out, prototype->params, prototype->n_params);
        fputs(prototype->noreturn ? " .noreturn;\n" : ";\n", out);
}

void ds_ptx_print_item(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_item *item)
{
        switch (item->kind) {
        case DS_PTX_ITEM_OPEN:
                fputs("\t{\n", out);
                break;
        case DS_PTX_ITEM_CLOSE:
                fputs("\t}\n", out);
                break;
        case DS_PTX_ITEM_REG:
                print_reg_decl(out, item->reg_decl);
                break;
        case DS_PTX_ITEM_VAR:
                fputc('\t', out);
                ds_ptx_print_var(out, item->var);
                fputs(";\n", out);
                break;
        case DS_PTX_ITEM_LABEL:
                fprintf(out, "%s:\n", f->labels[item->index].name);
                break;
        case DS_PTX_ITEM_TARGETS:
                print_targets(out, f, &f->targets[item->index]);
                break;
        case DS_PTX_ITEM_PROTOTYPE:
                print_prototype(out, item->prototype);
                break;
        default:
                fprintf(out, "\t%s\n", item->text);
        }
}

static void print_body(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_print_hooks *hooks)
{
        uint32_t item = 0;

        fputs("\n{\n", out);
        if (hooks->top)
                hooks->top(hooks->user, out, f);
        for (uint32_t i = 0; i <= f->n_instrs; i++) {
                for (; item < f->n_items && f->items[item].at == i; item++)
                        if (!hooks->item || !hooks->item(hooks->user, out, f, item))
                                ds_ptx_print_item(out, f, &f->items[item]);
                if ((!hooks->instr || !hooks->instr(hooks->user, out, f, i)) && i < f->n_instrs)
                        ds_ptx_print_instr(out, f, &f->instrs[i]);
        }
        fputs("}\n", out);
}

void ds_ptx_print_function(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_print_hooks *hooks)
{
        const char *more = hooks->params ? hooks->params(hooks->user, f) : NULL;

        fprintf(out, "\n%s%s ", ds_ptx_linkage_text((enum ds_ptx_linkage)f->linkage), f->is_entry ? ".entry" : ".func");
        if (f->n_rets) {
                ds_ptx_print_params(out, f->rets, f->n_rets);
                fputc(' ', out);
        }
        fputs(f->name, out);
        if (f->n_params || !f->is_entry || more)
                ds_ptx_print_params_and(out, f->params, f->n_params, more);
        if (f->limits_text)
                fprintf(out, "\n%s", f->limits_text);
        if (!f->has_body) {
                fputs(";\n", out);
                return;
        }
        print_body(out, f, hooks);
}

static void print_directive(FILE *out, const struct ds_ptx_directive *directive, const struct ds_ptx_print_hooks *hooks)
{
        switch (directive->kind) {
        case DS_PTX_DIRECTIVE_VAR:
                ds_ptx_print_var(out, directive->var);
                fputs(";\n", out);
                break;
        case DS_PTX_DIRECTIVE_FUNCTION:
                ds_ptx_print_function(out, directive->function, hooks);
                break;
        case DS_PTX_DIRECTIVE_ALIAS:
                fprintf(out, ".alias %s, %s;\n", directive->alias->name, directive->aliasee->name);
                break;
        default:
                fprintf(out, "%s\n", directive->text);
        }
}

int ds_ptx_print_with(const ds_ptx_module *module, const struct ds_ptx_print_hooks *hooks, FILE *out)
{
        fprintf(out, ".version %u.%u\n.target %s\n", module->version / 10, module->version % 10,
                hooks->target ? hooks->target : module->target_text);
        if (module->address_size_given)
                fprintf(out, ".address_size %u\n", module->address_size);
        fputc('\n', out);
        for (uint32_t i = 0; i < module->n_directives; i++)
                if (!hooks->directive || !hooks->directive(hooks->user, out, i))
                        print_directive(out, &module->directives[i], hooks);
        if (hooks->end)
                hooks->end(hooks->user, out);
        return ferror(out) ? -EIO : 0;
}

int ds_ptx_print(const ds_ptx_module *module, FILE *out)
{
        static const struct ds_ptx_print_hooks none = {0};

        return ds_ptx_print_with(module, &none, out);
}
