/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes: from module to module, with a verdict per kernel
 *
 * A pass is a row of a table: a name, a one-line summary, and a function that examines one module and notes edits
 * (edit.h). The framework applies them, which parses and validates the result, and gives the module to the next pass.
 * The input module never changes. For each kernel a pass reports: done, unchanged, or refused with the reason. A pass
 * that cannot prove that it is correct leaves the kernel unchanged. A refusal is no error. Output that does not parse
 * is one, and then the framework's caller gets no module.
 *
 * All passes keep a kernel's results to the last bit; the summary says what else changes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ptx/ir.h"
#include "ptx/pass/edit.h"
#include "ptx/pass/facts.h"

enum ds_ptx_verdict {
        DS_PTX_PASS_UNCHANGED, /* the pass had nothing to do in this function */
        DS_PTX_PASS_DONE,
        DS_PTX_PASS_REFUSED,
};

/* A pass's result for one function with a body; a result for the whole module is repeated for each function. */
struct ds_ptx_outcome {
        uint8_t verdict; /* enum ds_ptx_verdict */
        uint32_t line;   /* REFUSED: line of the reason, 0: no particular line */
        char reason[160];
};

struct ds_ptx_colour_layout;

/* Options of passes; all 0 is valid. */
struct ds_ptx_pass_options {
        const char *only;                          /* name of the only kernel to change; NULL: all kernels */
        const struct ds_ptx_colour_layout *layout; /* for pass colour; NULL: every second sector of 2 KiB */
        /* for pass colour: mask of the parameters to colour; 0: all that can be coloured */
        uint64_t mask;
};

/* State of one pass on one module */
struct ds_ptx_pass_run {
        const struct ds_ptx_module *module;
        const struct ds_ptx_facts *facts; /* facts of each function, by its index */
        ds_ptx_edit *edit;
        struct ds_ptx_pass_options options;
        struct ds_ptx_outcome *outcome; /* result of each function, by its index; initially UNCHANGED */
};

struct ds_ptx_pass {
        const char *name, *summary;
        int (*run)(struct ds_ptx_pass_run *run); /* 0 or -ENOMEM */
};

/* All passes; ends with a row without a name */
extern const struct ds_ptx_pass ds_ptx_passes[];
const struct ds_ptx_pass *ds_ptx_pass_find(const char *name, size_t length);

/* For passes: _wants() returns whether to process the function; _done() and _refuse() set its verdict, where the
 * first refusal stays. */
bool ds_ptx_pass_wants(const struct ds_ptx_pass_run *run, const struct ds_ptx_function *function);
void ds_ptx_pass_done(struct ds_ptx_pass_run *run, const struct ds_ptx_function *function);
void ds_ptx_pass_refuse(struct ds_ptx_pass_run *run, const struct ds_ptx_function *function, uint32_t line,
        const char *fmt, ...) __attribute__((__format__(__printf__, 4, 5)));
/* A declaration of the kernel beside its definition, which would contradict a changed parameter list; NULL: none. */
const struct ds_ptx_function *ds_ptx_pass_declaration(
        const struct ds_ptx_module *module, const struct ds_ptx_function *kernel);
/* Refuses the function if it has one of the facts in `mask`. Returns true if it refused it. */
bool ds_ptx_pass_refuse_facts(struct ds_ptx_pass_run *run, const struct ds_ptx_function *function, uint32_t mask);

/*
 * Runs one pass, on all kernels or on one, without other options. limit: bytes of the new module's arena, 0 for the
 * default. ret_outcome: an array of module->n_functions. Returns 0 and the module (also if it is unchanged), -ENOMEM,
 * or DS_PTX_E_INVALID with diagnostics about the text that the pass wrote.
 */
int ds_ptx_pass_apply(const struct ds_ptx_pass *pass, const struct ds_ptx_module *module, const char *only,
        size_t limit, struct ds_ptx_outcome *ret_outcome, struct ds_ptx_diags *diags, struct ds_ptx_module **ret);
/* As ds_ptx_pass_apply(), with options for the pass. */
int ds_ptx_pass_apply_with(const struct ds_ptx_pass *pass, const struct ds_ptx_module *module,
        const struct ds_ptx_pass_options *options, size_t limit, struct ds_ptx_outcome *ret_outcome,
        struct ds_ptx_diags *diags, struct ds_ptx_module **ret);

/* Run functions of the passes, one per file. */
int ds_ptx_pass_strip_debug(struct ds_ptx_pass_run *run);
int ds_ptx_pass_rename(struct ds_ptx_pass_run *run);
int ds_ptx_pass_dce(struct ds_ptx_pass_run *run);
int ds_ptx_pass_count_blocks(struct ds_ptx_pass_run *run);
int ds_ptx_pass_block_order(struct ds_ptx_pass_run *run);
int ds_ptx_pass_slice(struct ds_ptx_pass_run *run);
int ds_ptx_pass_preempt(struct ds_ptx_pass_run *run);
int ds_ptx_pass_colour(struct ds_ptx_pass_run *run);
