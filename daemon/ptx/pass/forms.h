/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of a kernel: what a launch needs so that blocks can be run in portions, or be let go and taken up again
 *
 * A kernel as its author wrote it is the native form. Two passes make others, each an entry of its own with the same
 * code per block; both take the block's index from what they are given instead of from the hardware:
 *  - sliced (pass `slice`): a launch of m blocks in one dimension does the blocks first .. first + m - 1. Nothing is
 *    added but the computation of the index: it costs launches.
 *  - persistent (pass `preempt`): a launch of any number of workers. Each takes `chunk` blocks at a time from a
 *    counter, in increasing order, and asks before that whether it is to stop. What it has taken it finishes, so after
 *    a stop exactly the blocks below the counter have run, each once, and another launch, of any number of workers on
 *    any SMs, goes on from there. With a chunk of one block a worker leaves at the end of the block in which it is told
 *    to. With more it asks and takes while the last two of a chunk run, which costs no time, and leaves after two
 *    blocks and a chunk at most.
 * A block keeps its index, so results are those of the native form to the last bit, for every kernel whose blocks may
 * run in increasing order: a block may wait for one of a lower index, as the hardware starts them in that order.
 *
 * Both forms have the parameters of the native one, unchanged, and one more behind them: struct ds_ptx_virtual, aligned
 * to 8 bytes. Linear indices count x first, then y, then z.
 */
#pragma once

#include <stdint.h>

enum ds_ptx_form {
        DS_PTX_FORM_NATIVE,
        DS_PTX_FORM_SLICED,
        DS_PTX_FORM_PERSISTENT,
        _DS_PTX_FORM_MAX,
};

/* What an entry's name has behind the native one's in a module that has all forms; a kernel's own name never does. */
#define DS_PTX_FORM_SLICED_SUFFIX "__ds_sliced"
#define DS_PTX_FORM_PERSISTENT_SUFFIX "__ds_persistent"

/* Changes when the same module would give other text: part of what compiled images are kept by. */
#define DS_PTX_FORMS_VERSION 5u

/* The last parameter of both forms */
struct ds_ptx_virtual {
        uint64_t control;  /* persistent: address of a struct ds_ptx_control in the memory of the device */
        uint32_t grid[3];  /* as the client launched it */
        uint32_t n_blocks; /* their product: below 2^31, so that the counter cannot wrap */
        uint32_t first;    /* sliced: the linear index of this launch's first block */
        uint32_t epoch;    /* persistent: this launch stops when control.stop has this value; never 0 */
        uint32_t chunk;    /* persistent: blocks taken at a time, at least 1 */
        uint32_t most;     /* persistent: a worker leaves when it has taken so many times; 0: no bound */
};

/*
 * Persistent: in the memory of the device, at a multiple of 64, all 0 when the first launch that names it begins; of
 * one launch at a time. Who takes a launch up again gives it another epoch.
 */
struct ds_ptx_control {
        uint32_t stop;      /* written by who wants the launch that has this epoch to stop; read with .relaxed.gpu */
        uint32_t next;      /* the counter; the last worker of a launch that did the last block sets it to 0 */
        uint32_t left;      /* workers that have left: 0 again when all of them have */
        uint32_t completed; /* the epoch of the launch that did the last block */
        uint32_t reserved[12];
};
