/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The opcode table against the front end and the interpreter, row by row
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ptx/interp/interp.h"
#include "ptx/ir.h"
#include "ptx/ptx.h"
#include "ptx_rows.h"
#include "util/macro.h"

static ds_ptx_module *parse_row(enum ds_ptx_op op)
{
        struct ds_ptx_diags diags;
        ds_ptx_module *module = NULL;
        char text[4096], errors[4096];
        int r;

        cr_assert(ptx_rows[op], "row %s has no statement in ptx_rows.h", ds_ptx_op_info(op)->key);
        snprintf(text, sizeof(text), "%s.visible .entry k(.param .u64 p0)\n{\n%s%s\nret;\n}\n", PTX_ROWS_HEAD,
                PTX_ROWS_BODY, ptx_rows[op]);
        r = ds_ptx_parse(text, strlen(text), 0, &diags, &module);
        ds_ptx_diags_format(&diags, "row", errors, sizeof(errors));
        cr_assert_eq(r, 0, "%s", errors);
        return module;
}

Test(ptx_rows, each_is_found_by_its_statement)
{
        for (uint32_t op = 0; op < _DS_PTX_OP_MAX; op++) {
                ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = parse_row((enum ds_ptx_op)op);

                cr_expect_eq(module->functions[1]->instrs[0].op, op, "'%s' is not %s", ptx_rows[op],
                        ds_ptx_op_info((enum ds_ptx_op)op)->key);
        }
}

/* The column RUN says whether the interpreter loads the instruction; a refusal names it. */
Test(ptx_rows, the_interpreter_executes_run_rows)
{
        for (uint32_t op = 0; op < _DS_PTX_OP_MAX; op++) {
                ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = parse_row((enum ds_ptx_op)op);
                ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
                const struct ds_ptx_op_info *info = ds_ptx_op_info((enum ds_ptx_op)op);
                const char *text = module->functions[1]->instrs[0].text;
                struct ds_ptx_diags diags = {0};
                int r = ds_interp_new(module, &diags, &interp);

                cr_expect_eq(r, info->run ? 0 : DS_INTERP_E_UNSUPPORTED,
                        "'%s': ds_interp_new() returns %d, but the row says %s: is there a case for it in "
                        "ds_ix_find_...()?",
                        ptx_rows[op], r, info->run ? "RUN" : "REFUSE");
                if (!info->run) /* the message may cut off the text of a long instruction */
                        cr_expect(
                                diags.n && strncmp(diags.diag[0].message, text, DS_MIN(strlen(text), (size_t)20)) == 0,
                                "%s", diags.diag[0].message);
        }
}

/* The table must not contain operand strings that the validator would misread. */
Test(ptx_rows, operand_strings_are_well_formed)
{
        for (uint32_t op = 0; op < _DS_PTX_OP_MAX; op++) {
                const struct ds_ptx_op_info *info = ds_ptx_op_info((enum ds_ptx_op)op);

                for (const char *s = info->operands; *s; s += strspn(s, " ")) {
                        size_t n = strcspn(s, " "), head = strchr("dsx", *s) ? 2 : 1;

                        cr_expect(strchr("dsmltcx", *s), "%s: role %c", info->key, *s);
                        cr_assert_geq(n, head, "%s: '%s' is too short", info->key, s);
                        if (head == 2)
                                cr_expect(strchr("0123wphiqza", s[1]), "%s: width %c", info->key, s[1]);
                        for (size_t i = head; i < n; i++)
                                cr_expect(strchr("?{V|_+#", s[i]), "%s: flag %c", info->key, s[i]);
                        s += n;
                }
        }
}
