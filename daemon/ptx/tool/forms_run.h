/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of a kernel in the interpreter: slices, and workers that stop and resume at random
 *
 * A launch of the native kernel becomes slices of random sizes, or rounds of random numbers of workers with random
 * chunks. Workers run one after the other in a random order, or all in turns. In a round the stop request may be
 * written when a worker reads the control block, so that workers leave between any two chunks; a worker may have a
 * limit. After each round the control block must have the state that forms.h specifies. The same seed gives the same
 * launches, in the same order.
 *
 * Used by `detshare-ptx run --evict` and by the tests of the passes. The code does not know a kernel's correct results:
 * the caller compares them.
 */
#pragma once

#include <stdint.h>

#include "ptx/interp/interp.h"
#include "ptx/pass/forms.h"

#define DS_FORMS_RUN_WORKERS 6

struct ds_forms_run {
        uint64_t random;
        /* number of reads of the control block per stop request, on average; 0: no stop requests */
        uint32_t every;
        int in_turns; /* 1: workers run in turns instead of one after the other */
        /* results (as all following fields): numbers of evictions and of rounds of the last launch */
        uint32_t evictions, rounds;
        struct ds_interp_cost cost; /* cost of the last launch; only instructions are counted */
        char wrong[200];            /* text about wrong fields of the control block; "": none */
        /* private */
        ds_interp_block *work[DS_FORMS_RUN_WORKERS];
        struct ds_ptx_control *control; /* the control block, 64 bytes at a multiple of 64 */
        struct ds_ptx_virtual v;
};

/* Prepares a run. 0 or -ENOMEM; the caller closes it in both cases. */
int ds_forms_run_open(struct ds_forms_run *run, uint64_t seed);
void ds_forms_run_close(struct ds_forms_run *run);
/* Returns the next random number, which is less than n. */
uint32_t ds_forms_run_random(struct ds_forms_run *run, uint32_t n);

/*
 * Runs a launch in the sliced or in the persistent form. native: launch of the native kernel, with sorted ranges, fewer
 * than 2^31 blocks and no clusters; kernel: the form's entry. max_instructions applies to each worker. Returns 0 and a
 * result with the first fault, or -ENOMEM.
 */
int ds_forms_run_sliced(struct ds_forms_run *run, const struct ds_interp_launch *native, const ds_interp_kernel *kernel,
        struct ds_interp_result *ret);
int ds_forms_run_persistent(struct ds_forms_run *run, const struct ds_interp_launch *native,
        const ds_interp_kernel *kernel, struct ds_interp_result *ret);
