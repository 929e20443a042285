/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slice: a launch of m blocks does m blocks of a larger launch (forms.h, sliced)
 *
 * The block's index is computed from the slice's first block; nothing else changes. A grid of one dimension, checked at
 * run time by a parameter, needs no division. Functions that read the index find it on a board in shared memory, where
 * every thread of the block writes the same values: each thread reads values that it has written itself.
 */
#include <stddef.h>

#include "ptx/pass/form.h"
#include "util/error.h"
#include "util/macro.h"

static const char top_text[] = "\t.reg .b32 #x, #y, #z;\n"
                               "\t{\n"
                               "\t.reg .pred %ds_p;\n\t.reg .b32 %ds_a, %ds_b;\n"
                               "\tmov.u32 %ds_a, %ctaid.x;\n"
                               "\tld.param.u32 %ds_b, [#param+24];\n" /* index of the slice's first block */
                               "\tadd.u32 #x, %ds_a, %ds_b;\n"
                               "\tmov.u32 #y, 0;\n\tmov.u32 #z, 0;\n"
                               "\tld.param.u32 %ds_a, [#param+8];\n"  /* grid.x */
                               "\tld.param.u32 %ds_b, [#param+20];\n" /* n_blocks */
                               "\tsetp.eq.u32 %ds_p, %ds_a, %ds_b;\n"
                               "\t@%ds_p bra #label;\n"
                               "\tdiv.u32 #y, #x, %ds_a;\n\tmul.lo.u32 %ds_b, #y, %ds_a;\n\tsub.u32 #x, #x, %ds_b;\n"
                               "\tld.param.u32 %ds_a, [#param+12];\n" /* grid.y */
                               "\tdiv.u32 #z, #y, %ds_a;\n\tmul.lo.u32 %ds_b, #z, %ds_a;\n\tsub.u32 #y, #y, %ds_b;\n"
                               "#label:\n"
                               "\t}";
static const char board_text[] = "\t{\n\t.reg .b32 %ds_a;\n"
                                 "\tst.shared.u32 [#board], #x;\n\tst.shared.u32 [#board+4], #y;\n"
                                 "\tst.shared.u32 [#board+8], #z;\n"
                                 "\tld.param.u32 %ds_a, [#param+8];\n\tst.shared.u32 [#board+80], %ds_a;\n"
                                 "\tld.param.u32 %ds_a, [#param+12];\n\tst.shared.u32 [#board+84], %ds_a;\n"
                                 "\tld.param.u32 %ds_a, [#param+16];\n\tst.shared.u32 [#board+88], %ds_a;\n"
                                 "\t}";

_Static_assert(offsetof(struct ds_ptx_virtual, grid) == 8 && offsetof(struct ds_ptx_virtual, n_blocks) == 20 &&
                       offsetof(struct ds_ptx_virtual, first) == 24 && DS_PTX_BOARD_GRID == 80 && !DS_PTX_BOARD_NOW,
        "the text above has these numbers");

void ds_ptx_form_slice(
        struct ds_ptx_form_run *run, const struct ds_ptx_form_plan *plan, const struct ds_ptx_function *to)
{
        char xyz[3][DS_PTX_NAME_MAX], label[DS_PTX_NAME_MAX], parameter[DS_PTX_NAME_MAX];
        const struct ds_ptx_binding bindings[] = {{"x", xyz[0]}, {"y", xyz[1]}, {"z", xyz[2]}, {"label", label},
                {"param", parameter}, {"board", plan->asks ? ds_ptx_form_board(run) : ""}};

        ds_ptx_edit_fresh(run->edit, "%ds_x", xyz[0]);
        ds_ptx_edit_fresh(run->edit, "%ds_y", xyz[1]);
        ds_ptx_edit_fresh(run->edit, "%ds_z", xyz[2]);
        ds_ptx_edit_fresh(run->edit, "$L_ds_line", label);
        ds_ptx_form_parameter(run, to, parameter);
        ds_ptx_edit_top(run->edit, to, top_text, bindings, DS_ARRAY_SIZE(bindings));
        if (plan->asks)
                ds_ptx_edit_top(run->edit, to, board_text, bindings, DS_ARRAY_SIZE(bindings));
        ds_ptx_form_index(run, plan, to, parameter, (const char *const[]){xyz[0], xyz[1], xyz[2]}, to->n_instrs);
}

int ds_ptx_pass_slice(struct ds_ptx_pass_run *run)
{
        return ds_ptx_form_pass(run, DS_PTX_FORM_SLICED);
}
