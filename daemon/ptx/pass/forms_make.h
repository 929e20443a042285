/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module with all forms of its kernels (forms.h)
 *
 * The native kernels stay unchanged. Behind them come copies in the sliced and in the persistent form, named with the
 * suffixes, for each kernel for which that is proven safe. Forms without a proof are omitted, and the verdict says why.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptx/ir.h"
#include "ptx/pass/forms.h"

/* Whether one form of a kernel was made, and why not. */
struct ds_ptx_form_fate {
        bool made;
        uint32_t line; /* line of the reason, 0: no particular line */
        char reason[160];
};

struct ds_ptx_form_verdict {
        /* made of NATIVE: true if the function is a kernel with a body */
        struct ds_ptx_form_fate forms[_DS_PTX_FORM_MAX];
        /*
         * true: blocks of the kernel wait for other blocks, possibly of a lower index. The forms run blocks in
         * increasing order. Where a block waits for a later one, they need as many resident blocks as the native form.
         */
        bool waits;
        /* true: the kernel uses variables of the module that code may write, and another instance of the module has
         * its own copies of them */
        bool variables;
};

/*
 * Makes the module with all forms. limit: most bytes of the new module's arena, 0 for the default. ret_verdicts: one
 * per function of `module`, n_functions entries. Returns 0 and the new module (even without any form), -ENOMEM, or
 * DS_PTX_E_INVALID with diagnostics about the generated text, which is a defect.
 */
int ds_ptx_forms_make(const struct ds_ptx_module *module, size_t limit, struct ds_ptx_diags *diags,
        struct ds_ptx_module **ret, struct ds_ptx_form_verdict *ret_verdicts);
/* Finds only the verdicts. Returns 0 or -ENOMEM. */
int ds_ptx_forms_judge(const struct ds_ptx_module *module, struct ds_ptx_form_verdict *ret_verdicts);
/* Word for a form: "native", "sliced", "persistent". */
const char *ds_ptx_form_word(enum ds_ptx_form form);
