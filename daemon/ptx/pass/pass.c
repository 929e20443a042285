/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/pass/pass.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

const struct ds_ptx_pass ds_ptx_passes[] = {
        {"strip-debug", "remove line numbers, files and debug sections", ds_ptx_pass_strip_debug},
        {"rename", "number registers and labels in the order of the text, so that versions differ little",
                ds_ptx_pass_rename},
        {"dce", "remove instructions whose results are unused", ds_ptx_pass_dce},
        {"count-blocks", "count the blocks that end in ds_blocks_ended[kernel], kernels in the order of the text",
                ds_ptx_pass_count_blocks},
        {"block-order", "take each block's index from the array of .b32 that ds_block_order points to, if any",
                ds_ptx_pass_block_order},
        {"slice", "add a parameter that selects the blocks of a larger launch to run", ds_ptx_pass_slice},
        {"preempt", "let workers take blocks from a counter until a stop request; adds a parameter",
                ds_ptx_pass_preempt},
        {"colour", "let parameters point to tensors in sectors of some memory channels; adds a parameter",
                ds_ptx_pass_colour},
        {NULL, NULL, NULL},
};

const struct ds_ptx_pass *ds_ptx_pass_find(const char *name, size_t length)
{
        for (const struct ds_ptx_pass *p = ds_ptx_passes; p->name; p++)
                if (strlen(p->name) == length && memcmp(p->name, name, length) == 0)
                        return p;
        return NULL;
}

bool ds_ptx_pass_wants(const struct ds_ptx_pass_run *run, const struct ds_ptx_function *function)
{
        const char *only = run->options.only;

        return function->has_body && (!only || (function->is_entry && strcmp(function->name, only) == 0));
}

const struct ds_ptx_function *ds_ptx_pass_declaration(
        const struct ds_ptx_module *m, const struct ds_ptx_function *kernel)
{
        for (uint32_t i = 0; i < m->n_functions; i++)
                if (m->functions[i] != kernel && m->functions[i]->definition == kernel)
                        return m->functions[i];
        return NULL;
}

void ds_ptx_pass_done(struct ds_ptx_pass_run *run, const struct ds_ptx_function *function)
{
        struct ds_ptx_outcome *outcome = &run->outcome[function->index];

        if (outcome->verdict != DS_PTX_PASS_REFUSED)
                outcome->verdict = DS_PTX_PASS_DONE;
}

void ds_ptx_pass_refuse(
        struct ds_ptx_pass_run *run, const struct ds_ptx_function *function, uint32_t line, const char *fmt, ...)
{
        struct ds_ptx_outcome *outcome = &run->outcome[function->index];
        va_list args;

        if (outcome->verdict == DS_PTX_PASS_REFUSED)
                return;
        outcome->verdict = DS_PTX_PASS_REFUSED;
        outcome->line = line;
        va_start(args, fmt);
        vsnprintf(outcome->reason, sizeof(outcome->reason), fmt, args);
        va_end(args);
}

bool ds_ptx_pass_refuse_facts(struct ds_ptx_pass_run *run, const struct ds_ptx_function *function, uint32_t mask)
{
        const struct ds_ptx_facts *facts = &run->facts[function->index];
        enum ds_ptx_fact fact;

        mask &= facts->mask;
        if (!mask)
                return false;
        fact = (enum ds_ptx_fact)__builtin_ctz(mask);
        ds_ptx_pass_refuse(run, function, facts->line[fact], "%s", ds_ptx_fact_text(fact));
        return true;
}

int ds_ptx_pass_apply(const struct ds_ptx_pass *pass, const struct ds_ptx_module *module, const char *only,
        size_t limit, struct ds_ptx_outcome *ret_outcome, struct ds_ptx_diags *diags, struct ds_ptx_module **ret)
{
        const struct ds_ptx_pass_options options = {.only = only};

        return ds_ptx_pass_apply_with(pass, module, &options, limit, ret_outcome, diags, ret);
}

int ds_ptx_pass_apply_with(const struct ds_ptx_pass *pass, const struct ds_ptx_module *module,
        const struct ds_ptx_pass_options *options, size_t limit, struct ds_ptx_outcome *ret_outcome,
        struct ds_ptx_diags *diags, struct ds_ptx_module **ret)
{
        ds_cleanup(ds_ptx_edit_freep) ds_ptx_edit *edit = ds_ptx_edit_new(module, limit);
        ds_cleanup(ds_freep) struct ds_ptx_facts *facts = ds_alloc0(module->n_functions, sizeof(*facts));
        struct ds_ptx_pass_run run = {
                .module = module, .facts = facts, .edit = edit, .options = *options, .outcome = ret_outcome};
        int r;

        if (!edit || !facts)
                return ds_error_origin(-ENOMEM);
        *diags = (struct ds_ptx_diags){0};
        for (uint32_t i = 0; i < module->n_functions; i++)
                ret_outcome[i] = (struct ds_ptx_outcome){0};
        r = ds_ptx_facts_find(module, facts);
        if (!r)
                r = pass->run(&run);
        if (r)
                return ds_error_trace(r);
        r = ds_ptx_edit_apply(edit, limit, diags, ret);
        return r < 0 ? ds_error_trace(r) : r;
}
