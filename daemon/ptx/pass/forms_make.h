/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module with all forms of its kernels (forms.h)
 *
 * The native kernels stay as they are, word by word; behind them come copies in the sliced and in the persistent form,
 * under the names with the suffixes, of each kernel for which that is proven safe. What is not proven is left out, and
 * the verdict says why.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptx/ir.h"
#include "ptx/pass/forms.h"

/* What became of one form of a kernel */
struct ds_ptx_form_fate {
        bool made;
        uint32_t line; /* where the reason is, 0: nowhere in particular */
        char reason[160];
};

struct ds_ptx_form_verdict {
        struct ds_ptx_form_fate forms[_DS_PTX_FORM_MAX]; /* NATIVE: made when it is a kernel with a body */
        /*
         * Blocks wait for other blocks, as they may for those of a lower index. Its forms run them in that order, but
         * need as many resident as the native one where a block waits for a later one.
         */
        bool waits;
        /* Uses variables of the module that somebody may write: a second instance of the module has others. */
        bool variables;
};

/*
 * limit: bytes of the new module's arena, 0 for the default. ret_verdicts: by function of `module`, n_functions of
 * them. Returns 0 and the new module (also where it has no form), -ENOMEM, or DS_PTX_E_INVALID with diagnostics about
 * the text that was made, which is a defect.
 */
int ds_ptx_forms_make(const struct ds_ptx_module *module, size_t limit, struct ds_ptx_diags *diags,
        struct ds_ptx_module **ret, struct ds_ptx_form_verdict *ret_verdicts);
/* The verdicts alone. Returns 0 or -ENOMEM. */
int ds_ptx_forms_judge(const struct ds_ptx_module *module, struct ds_ptx_form_verdict *ret_verdicts);
/* "native", "sliced", "persistent" */
const char *ds_ptx_form_word(enum ds_ptx_form form);
