/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bimodal tensors: the copy of a tensor that each launch of a model gets
 *
 * The place of a tensor determines its memory channels. A tensor that a memory-bound kernel touches can have two
 * places: over *all* channels, or *coloured*, in the channels of its class. The SGDRC paper's rule (section 7.2)
 * chooses the copy for each launch. This file is that rule and nothing else: no driver, no clock, no memory.
 *
 * - *Monopolisation* (no work of the other class): a memory-bound kernel reads the weights over all channels, and
 *   writes over all channels.
 * - *Colocation*: it reads the coloured weights, and writes coloured.
 * - In both states every kernel reads an intermediate where its writer left it. A kernel that is not memory-bound
 *   writes over all channels, and reads the weights there.
 *
 * The state may change before any launch, and nothing waits for it: a written tensor stays where it is until its life
 * ends. So an intermediate has one version at any time. The launch that writes it first in its life chooses the place.
 * Later writers of the same tensor (a concatenation's parts, an update in place) follow that choice.
 *
 * Weights: BE models hold both copies of weights that memory-bound kernels read, so that the next launch can have the
 * other one. LS models (`moves`) hold one copy, over their class's channels. They move it before a request when the
 * state has changed (sv_bimodal_request); during a request it stays.
 *
 * Intermediates: one that no memory-bound kernel can write first has no coloured place. The others share an arena by
 * their lifetimes, as the model's own arena does. So the second places cost the memory-bound weights once more, and an
 * arena as large as the intermediates that are alive at one time.
 *
 * Kernels whose code accepts no coloured tensor (`fixed`) keep every tensor that they touch over all channels.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SV_BIMODAL_NOWHERE UINT64_MAX
#define SV_BIMODAL_ALIGN 256u

enum sv_copy {
        SV_ALL,      /* over all channels, at the pack's own place */
        SV_COLOURED, /* over the channels of its class */
};

enum sv_state {
        SV_MONOPOLISATION,
        SV_COLOCATION,
};

#define SV_READS 1u
#define SV_WRITES 2u

struct sv_bm_tensor {
        uint64_t bytes;
        uint32_t first, last; /* first and last launch that uses it; ignored for a weight */
        bool weight;          /* written before the model runs and never again */
        bool given;           /* an input: written before the first launch, over all channels */
};

struct sv_bm_use {
        uint32_t tensor;
        uint32_t access; /* SV_READS, SV_WRITES or both */
};

struct sv_bm_launch {
        uint32_t first_use, n_uses;
        bool memory_bound, fixed;
};

/* A model. The caller owns the arrays and keeps them. A launch uses a tensor at most once. */
struct sv_bm_model {
        const struct sv_bm_tensor *tensors;
        const struct sv_bm_use *uses;
        const struct sv_bm_launch *launches;
        uint32_t n_tensors, n_uses, n_launches;
        bool moves; /* weights are moved, not held twice */
};

/* Sizes in bytes, rounded up to SV_BIMODAL_ALIGN */
struct sv_bm_footprint {
        uint64_t weights; /* over all channels */
        /* coloured copies; for a model that moves its weights: their size during colocation, which replaces the
         * other copy */
        uint64_t weights_again;
        uint64_t arena;       /* intermediates over all channels, sharing memory by lifetimes */
        uint64_t arena_apart; /* the same, if each had memory of its own */
        uint64_t arena_again; /* coloured intermediates, sharing memory by lifetimes */
        uint64_t arena_again_apart;
};

struct sv_bimodal;

/* Makes the plan. 0, -ENOMEM, or -EINVAL: the model is invalid (numbers out of range, a weight that is written). */
int sv_bimodal_new(const struct sv_bm_model *model, struct sv_bimodal **ret);
/* NULL is allowed; returns NULL. */
struct sv_bimodal *sv_bimodal_free(struct sv_bimodal *bimodal);
void sv_bimodal_freep(struct sv_bimodal **bimodal);

/* Offset of the coloured copy: of a weight among the coloured weights, of an intermediate in the coloured arena.
 * NOWHERE: it has none. */
uint64_t sv_bimodal_place(const struct sv_bimodal *bimodal, uint32_t tensor);
/* arena: size of the arena in the model's own plan, bytes. */
void sv_bimodal_footprint(const struct sv_bimodal *bimodal, uint64_t arena, struct sv_bm_footprint *ret);

/*
 * Begins the next run, in which only the inputs are alive. True: the caller must move the weights to the place that
 * sv_bimodal_weights() returns, before the first launch (only models that move).
 */
bool sv_bimodal_request(struct sv_bimodal *bimodal, enum sv_state state);
enum sv_copy sv_bimodal_weights(const struct sv_bimodal *bimodal);
/*
 * The next launch of the run, in this state: ret_copies gets one entry for each of its uses. Launches come in order.
 * After the last one sv_bimodal_copy() still returns the places of outputs.
 */
void sv_bimodal_launch(struct sv_bimodal *bimodal, enum sv_state state, enum sv_copy *ret_copies);
/* Place of the current or last version of an intermediate. */
enum sv_copy sv_bimodal_copy(const struct sv_bimodal *bimodal, uint32_t tensor);
