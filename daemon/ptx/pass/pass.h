/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes: modules in, modules out, and a word per kernel on what became of it
 *
 * A pass is a row of a table: a name, a line about it, a function that looks at one module and notes edits (edit.h).
 * The framework applies them, which parses and validates what came out, and hands the module to the next pass. The
 * module that went in is never changed. For each kernel a pass says what it did: done, unchanged, or refused with the
 * reason: a pass that cannot prove that it is right leaves the kernel as it is. Refusing is no error; a pass whose
 * output does not parse is one, and the framework's caller gets no module.
 *
 * All passes keep what a kernel computes to the last bit; what each changes beside that is in its row's line.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ptx/ir.h"
#include "ptx/pass/edit.h"
#include "ptx/pass/facts.h"

enum ds_ptx_verdict {
        DS_PTX_PASS_UNCHANGED, /* there was nothing to do */
        DS_PTX_PASS_DONE,
        DS_PTX_PASS_REFUSED,
};

/* Of one function with a body; what concerns the module as a whole is told of each. */
struct ds_ptx_outcome {
        uint8_t verdict; /* enum ds_ptx_verdict */
        uint32_t line;   /* REFUSED: where the reason is, 0: nowhere in particular */
        char reason[160];
};

struct ds_ptx_colour_layout;

/* What passes are told beside the module; all 0 is good. */
struct ds_ptx_pass_options {
        const char *only;                          /* a kernel's name: the others stay as they are; NULL: all */
        const struct ds_ptx_colour_layout *layout; /* of pass colour; NULL: every second of sectors of 2 KiB */
        uint64_t mask;                             /* of pass colour: parameters; 0: all that can be coloured */
};

/* One pass at work on one module */
struct ds_ptx_pass_run {
        const struct ds_ptx_module *module;
        const struct ds_ptx_facts *facts; /* by function */
        ds_ptx_edit *edit;
        struct ds_ptx_pass_options options;
        struct ds_ptx_outcome *outcome; /* by function, UNCHANGED at first */
};

struct ds_ptx_pass {
        const char *name, *summary;
        int (*run)(struct ds_ptx_pass_run *run); /* 0 or -ENOMEM */
};

/* The table, ended by a row without a name */
extern const struct ds_ptx_pass ds_ptx_passes[];
const struct ds_ptx_pass *ds_ptx_pass_find(const char *name, size_t length);

/* For passes: whether the function is one to look at; its verdict, the first refusal stays. */
bool ds_ptx_pass_wants(const struct ds_ptx_pass_run *run, const struct ds_ptx_function *function);
void ds_ptx_pass_done(struct ds_ptx_pass_run *run, const struct ds_ptx_function *function);
void ds_ptx_pass_refuse(struct ds_ptx_pass_run *run, const struct ds_ptx_function *function, uint32_t line,
        const char *fmt, ...) __attribute__((__format__(__printf__, 4, 5)));
/* A declaration of the kernel, which would say that it has the parameters that it had; NULL: none */
const struct ds_ptx_function *ds_ptx_pass_declaration(
        const struct ds_ptx_module *module, const struct ds_ptx_function *kernel);
/* Refuses the function when it has one of the facts. Returns whether it did. */
bool ds_ptx_pass_refuse_facts(struct ds_ptx_pass_run *run, const struct ds_ptx_function *function, uint32_t mask);

/*
 * Run one pass, on all kernels or on one, without other options. limit: of the new module's arena, 0 for the default.
 * ret_outcome: an array of module->n_functions. Returns 0 and the module (also when it is the same), -ENOMEM, or
 * DS_PTX_E_INVALID with diagnostics about the text that the pass wrote.
 */
int ds_ptx_pass_apply(const struct ds_ptx_pass *pass, const struct ds_ptx_module *module, const char *only,
        size_t limit, struct ds_ptx_outcome *ret_outcome, struct ds_ptx_diags *diags, struct ds_ptx_module **ret);
/* The same, with options */
int ds_ptx_pass_apply_with(const struct ds_ptx_pass *pass, const struct ds_ptx_module *module,
        const struct ds_ptx_pass_options *options, size_t limit, struct ds_ptx_outcome *ret_outcome,
        struct ds_ptx_diags *diags, struct ds_ptx_module **ret);

/* Each pass in a file of its own */
int ds_ptx_pass_strip_debug(struct ds_ptx_pass_run *run);
int ds_ptx_pass_rename(struct ds_ptx_pass_run *run);
int ds_ptx_pass_dce(struct ds_ptx_pass_run *run);
int ds_ptx_pass_count_blocks(struct ds_ptx_pass_run *run);
int ds_ptx_pass_block_order(struct ds_ptx_pass_run *run);
int ds_ptx_pass_slice(struct ds_ptx_pass_run *run);
int ds_ptx_pass_preempt(struct ds_ptx_pass_run *run);
int ds_ptx_pass_colour(struct ds_ptx_pass_run *run);
