/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of a kernel in the interpreter: slices, and workers that are told to stop and taken up again, at random
 *
 * A launch of the native kernel becomes slices of random sizes, or rounds of workers of random numbers with random
 * chunks. Workers run one after the other in a random order, or all in turns; in a round somebody may write the stop
 * flag in the moment that a worker looks at the control block, so that workers leave between any two chunks, and a
 * worker may have a bound. After each round the control block must be as forms.h has it. The same seed gives the same
 * launches, in the same order.
 *
 * What `detshare-ptx run --evict` and the tests of the passes stand on. Nothing here knows what a kernel should leave
 * in memory: who asks compares.
 */
#pragma once

#include <stdint.h>

#include "ptx/interp/interp.h"
#include "ptx/pass/forms.h"

#define DS_FORMS_RUN_WORKERS 6

struct ds_forms_run {
        uint64_t random;
        uint32_t every;             /* one look at the control block of so many is told to stop; 0: none */
        int in_turns;               /* workers all at once instead of one after the other */
        uint32_t evictions, rounds; /* of the last launch, from here on */
        struct ds_interp_cost cost; /* instructions alone */
        char wrong[200];            /* what of the control block was not as it is to be; "": it was */
        /* its own */
        ds_interp_block *work[DS_FORMS_RUN_WORKERS];
        struct ds_ptx_control *control; /* 64 bytes at a multiple of 64 */
        struct ds_ptx_virtual v;
};

/* 0 or -ENOMEM; close it either way. */
int ds_forms_run_open(struct ds_forms_run *run, uint64_t seed);
void ds_forms_run_close(struct ds_forms_run *run);
/* The next random number below n */
uint32_t ds_forms_run_random(struct ds_forms_run *run, uint32_t n);

/*
 * native: a launch of the native kernel, with ranges that are sorted, of fewer than 2^31 blocks and without clusters;
 * kernel: the form's entry. max_instructions is each worker's. Returns 0 and a result, which has the first fault, or
 * -ENOMEM.
 */
int ds_forms_run_sliced(struct ds_forms_run *run, const struct ds_interp_launch *native, const ds_interp_kernel *kernel,
        struct ds_interp_result *ret);
int ds_forms_run_persistent(struct ds_forms_run *run, const struct ds_interp_launch *native,
        const ds_interp_kernel *kernel, struct ds_interp_result *ret);
