/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensors of a pack and their use by each launch: a pack in the form that bimodal.h needs
 *
 * Weights are the pack's `x-weight` lines, intermediates its buffers. A parameter that points into the arena means the
 * buffer in use there at that launch. The pack lists the parameters through which a kernel writes (`x-writes`); the
 * others are only read. Some packs have no tensors here and run unchanged: packs without these lines, whose launches
 * point to no tensor, whose weights do not begin at multiples of SV_BIMODAL_ALIGN (a copy would differ in the low bits
 * of its address), or whose outputs lie in parts of several buffers.
 *
 * A kernel has a form for each set of parameters that can be coloured together. This file lists the possible sets
 * launch by launch: one mask per set, bit i for parameter i.
 */
#pragma once

#include <stdbool.h>

#include "serve/bimodal.h"
#include "serve/pack.h"

#define SV_TENSOR_NONE UINT32_MAX
#define SV_MASKS_MAX 32u /* masks per launch; a launch with more gets no coloured tensor */

struct sv_tensors {
        const struct sv_pack *pack;
        struct sv_bm_model model; /* weights in the pack's order, then buffers */
        struct sv_bm_tensor *list;
        struct sv_bm_use *uses;
        struct sv_bm_launch *launches;
        uint32_t *of_param; /* tensor of each parameter of the pack's launches */
        uint64_t *begins;   /* offset of each tensor in its block */
};

/* memory_bound: one entry per launch. moves: see sv_bm_model. */
int sv_tensors_open(struct sv_tensors *tensors, const struct sv_pack *pack, const bool *memory_bound, bool moves,
        struct sv_why *why);
/* Also for zeroed tensors. */
void sv_tensors_close(struct sv_tensors *tensors);

/* Buffer that holds output i after the run; SV_TENSOR_NONE: no buffer ever holds any byte of it. */
uint32_t sv_tensors_output(const struct sv_tensors *tensors, uint32_t i);

/* Mask of coloured parameters of a launch whose uses have these copies. */
uint64_t sv_tensors_mask(const struct sv_tensors *tensors, uint32_t launch, const enum sv_copy *copies);
/* All possible non-zero masks of the launch, each once. Returns their number; more than SV_MASKS_MAX: too many. */
uint32_t sv_tensors_masks(const struct sv_tensors *tensors, const struct sv_bimodal *bimodal, uint32_t launch,
        uint64_t ret_masks[static SV_MASKS_MAX]);
