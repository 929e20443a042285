/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of a kernel: variants whose blocks can run in parts, or stop and resume
 *
 * A kernel as its author wrote it is the native form. Two passes make other forms, each an entry of its own with the
 * same code per block. Both take the block's index from a parameter instead of the hardware:
 *
 *  - sliced (pass `slice`): a launch of m blocks in one dimension does the blocks first .. first + m - 1. Only the
 *    computation of the index is added; the cost is more launches.
 *  - persistent (pass `preempt`): a launch of any number of workers. Each takes `chunk` blocks at a time from a
 *    counter, in increasing order, and checks before that whether it has to stop. It finishes the blocks that it has
 *    taken. So after a stop exactly the blocks below the counter have run, each once. Another launch, of any number of
 *    workers on any SMs, continues from there. With a chunk of one block a worker leaves at the end of the block during
 *    which the request came. With larger chunks it checks and takes during the last two blocks of a chunk, which costs
 *    no time, and leaves after at most two blocks and a chunk.
 *
 * A block keeps its index. So results are those of the native form to the last bit, for every kernel whose blocks may
 * run in increasing order: a block may wait for one of a lower index, as the hardware starts them in that order.
 *
 * Both forms have the parameters of the native one, unchanged, and behind them struct ds_ptx_virtual, aligned to 8
 * bytes. Linear indices count x first, then y, then z.
 */
#pragma once

#include <stdint.h>

enum ds_ptx_form {
        DS_PTX_FORM_NATIVE,
        DS_PTX_FORM_SLICED,
        DS_PTX_FORM_PERSISTENT,
        _DS_PTX_FORM_MAX,
};

/* Suffixes of an entry's name in a module with all forms; a kernel's own name never ends with them. */
#define DS_PTX_FORM_SLICED_SUFFIX "__ds_sliced"
#define DS_PTX_FORM_PERSISTENT_SUFFIX "__ds_persistent"

/* Version of the generated code, part of the key of cached compiled images. It must change whenever the same module
 * gives another text. */
#define DS_PTX_FORMS_VERSION 5u

/* Last parameter of a sliced or persistent kernel. */
struct ds_ptx_virtual {
        uint64_t control;  /* persistent: address of a struct ds_ptx_control in device memory */
        uint32_t grid[3];  /* grid of the client's launch, blocks */
        uint32_t n_blocks; /* product of grid; below 2^31, so that the counter cannot wrap */
        uint32_t first;    /* sliced: linear index of this launch's first block */
        uint32_t epoch;    /* persistent: value of control.stop that stops this launch; never 0 */
        uint32_t chunk;    /* persistent: number of blocks that a worker takes at a time, at least 1 */
        uint32_t most;     /* persistent: number of tickets (chunks) after which a worker leaves; 0: no limit */
};

/*
 * Control block of a persistent kernel: in device memory, at a multiple of 64, all 0 when the kernel's first launch
 * begins. Only one launch at a time uses it. A launch that resumes another has another epoch.
 */
struct ds_ptx_control {
        uint32_t stop; /* epoch of the launch that has to stop; workers read it with .relaxed.gpu */
        /* number of blocks taken; the last worker of the launch that did the last block sets it to 0 */
        uint32_t next;
        uint32_t left;      /* number of workers that have left; 0 again when all of them have */
        uint32_t completed; /* epoch of the launch that did the last block */
        uint32_t reserved[12];
};
