/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bimodal tensors: which copy of a tensor each launch of a model is given
 *
 * Memory channels are dealt out by where tensors lie. A tensor that a memory-bound kernel touches can lie in two
 * places: over *all* channels, or *coloured*, in the channels of its class. Which of them a launch is given is the
 * SGDRC paper's rule (section 7.2), and this file is that rule and nothing else: no driver, no clock, no memory.
 *
 *   - *Monopolisation* (nobody of the other class works): a memory-bound kernel reads the weights that lie over all
 *     channels, and writes over all channels.
 *   - *Colocation*: it reads the coloured weights, and writes coloured.
 *   - In both, and for every other kernel: an intermediate is read where the kernel that wrote it left it. What a
 *     kernel writes that is not memory-bound lies over all channels, and so do the weights that it reads.
 *
 * The state may change before any launch, and nothing stops for it: what is written already stays where it is until its
 * life ends. So an intermediate has one version at any time. Its place is chosen by the launch that writes first in its
 * life; whoever writes more of it or in it (a concatenation's parts, an update in place) follows that choice.
 *
 * Weights: best-effort models hold both copies of those that memory-bound kernels read, so that the next launch can
 * have the other one. Latency-sensitive ones (`moves`) hold one, over their class's channels, which is moved before a
 * request when the state has changed (sv_bimodal_request); during a request it stays.
 *
 * Intermediates are reused: the coloured place of one that no memory-bound kernel can write first does not exist, and
 * those of the others share an arena as their lifetimes allow, as the model's own arena does. So what two places cost
 * is the memory-bound weights once more, and an arena that is as large as what is alive at one time.
 *
 * Kernels whose code takes no coloured tensor (`fixed`) keep every tensor that they touch over all channels.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SV_BIMODAL_NOWHERE UINT64_MAX
#define SV_BIMODAL_ALIGN 256u

enum sv_copy {
        SV_ALL,      /* over all channels: where the pack has it */
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
        uint32_t first, last; /* launches in which it is in use; of a weight: not looked at */
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

/* A model. The arrays are the caller's, and must stay. A tensor is used by a launch once at most. */
struct sv_bm_model {
        const struct sv_bm_tensor *tensors;
        const struct sv_bm_use *uses;
        const struct sv_bm_launch *launches;
        uint32_t n_tensors, n_uses, n_launches;
        bool moves; /* weights are moved, not held twice */
};

/* Bytes, all of them rounded up to SV_BIMODAL_ALIGN */
struct sv_bm_footprint {
        uint64_t weights;       /* over all channels */
        uint64_t weights_again; /* coloured; of a model that moves: where they lie in colocation, not beside the others
                                 */
        uint64_t arena;         /* intermediates over all channels, by lifetimes */
        uint64_t arena_apart;   /* ... each with memory of its own */
        uint64_t arena_again;   /* coloured intermediates, by lifetimes */
        uint64_t arena_again_apart;
};

struct sv_bimodal;

/* The plan. 0, -EINVAL: the model is none (numbers out of range, a weight that is written), or -ENOMEM. */
int sv_bimodal_new(const struct sv_bm_model *model, struct sv_bimodal **ret);
/* NULL is fine; returns NULL. */
struct sv_bimodal *sv_bimodal_free(struct sv_bimodal *bimodal);
void sv_bimodal_freep(struct sv_bimodal **bimodal);

/* Where the coloured copy lies: a weight among coloured weights, an intermediate in the coloured arena; NOWHERE: it has
 * none. */
uint64_t sv_bimodal_place(const struct sv_bimodal *bimodal, uint32_t tensor);
/* arena: what the model's own plan of its arena takes. */
void sv_bimodal_footprint(const struct sv_bimodal *bimodal, uint64_t arena, struct sv_bm_footprint *ret);

/*
 * The next run begins: nothing is alive but the inputs. True: the weights must be moved to where the state wants them
 * before the first launch (models that move only): sv_bimodal_weights() says where that is.
 */
bool sv_bimodal_request(struct sv_bimodal *bimodal, enum sv_state state);
enum sv_copy sv_bimodal_weights(const struct sv_bimodal *bimodal);
/*
 * The next launch of the run, in this state: ret_copies has an entry for each of its uses. The launches come in order;
 * after the last one sv_bimodal_copy() still says where outputs are.
 */
void sv_bimodal_launch(struct sv_bimodal *bimodal, enum sv_state state, enum sv_copy *ret_copies);
/* Where the version of an intermediate that is alive, or was last, lies. */
enum sv_copy sv_bimodal_copy(const struct sv_bimodal *bimodal, uint32_t tensor);
