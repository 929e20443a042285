/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensors of a pack, and what each launch does with them: a pack as bimodal.h wants a model
 *
 * Weights are the pack's `x-weight` lines, intermediates its buffers; a parameter that points to the arena means the
 * buffer that is in use there at that launch. What a kernel writes through its parameters the pack says (`x-writes`);
 * what it only reads follows. A pack that does not say either, whose launches point to no tensor, whose weights do not
 * begin at multiples of SV_BIMODAL_ALIGN (a copy elsewhere would have other low bits in its address), or whose outputs
 * lie in parts of several buffers, has no tensors here: it still runs, as it is.
 *
 * A kernel has a form for each set of its parameters that can be coloured at once, so the sets that can come up are
 * counted here, launch by launch: a mask per set, bit i for the i-th parameter.
 */
#pragma once

#include <stdbool.h>

#include "serve/bimodal.h"
#include "serve/pack.h"

#define SV_TENSOR_NONE UINT32_MAX
#define SV_MASKS_MAX 32u /* of one launch; a launch with more is given no coloured tensor */

struct sv_tensors {
        const struct sv_pack *pack;
        struct sv_bm_model model; /* weights first, in the pack's order, then buffers */
        struct sv_bm_tensor *list;
        struct sv_bm_use *uses;
        struct sv_bm_launch *launches;
        uint32_t *of_param; /* which tensor each parameter of the pack's launches points to */
        uint64_t *begins;   /* of each tensor, in its block */
};

/* memory_bound: of each launch. moves: sv_bm_model's. */
int sv_tensors_open(struct sv_tensors *tensors, const struct sv_pack *pack, const bool *memory_bound, bool moves,
        struct sv_why *why);
/* Fine for one that was zeroed. */
void sv_tensors_close(struct sv_tensors *tensors);

/* The buffer that has the bytes of output i when all has run; SV_TENSOR_NONE: none has ever had any of them. */
uint32_t sv_tensors_output(const struct sv_tensors *tensors, uint32_t i);

/* Which parameters a launch has coloured when its uses have these copies. */
uint64_t sv_tensors_mask(const struct sv_tensors *tensors, uint32_t launch, const enum sv_copy *copies);
/* All masks of the launch that are not 0 and can come up, each once. Returns how many; more than SV_MASKS_MAX: too
 * many. */
uint32_t sv_tensors_masks(const struct sv_tensors *tensors, const struct sv_bimodal *bimodal, uint32_t launch,
        uint64_t ret_masks[static SV_MASKS_MAX]);
