/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pack whose tensors lie in two places: over all memory channels, and in those of its class
 *
 * bimodal.h says which copy each launch is given; this is the rest: the coloured memory (detshare/coloured.h), a form
 * of each kernel for every set of parameters that can come up, the weights' second place, an instance's second arena.
 * What a run gives is the same to the last bit wherever its tensors lie.
 *
 * The state is what the daemon says when a launch is submitted (detshare_coloured_beside), so a best-effort instance
 * stays at most SV_AHEAD launches before the GPU. For checking it can be fixed, or change with every launch.
 *
 * A kernel that the daemon cannot colour stays as it is, and so does every tensor that it touches. Weights of a
 * latency-sensitive model are moved when a request begins and no other runs; its instances share them.
 *
 * Only under DetShare, with a daemon that keeps coloured memory; else opening says why not.
 */
#pragma once

#include "serve/model.h"

#define SV_AHEAD 8u

enum sv_follow {
        SV_FOLLOW_DAEMON,
        SV_FOLLOW_ALONE,  /* as if the other class had no work */
        SV_FOLLOW_BESIDE, /* as if it always had */
        SV_FOLLOW_TURNS,  /* another state for every launch or two, in the same order in every run of the program */
};

struct sv_coloured;
struct sv_placed; /* an instance's part */

/* bounds: as sv_bounds_read() takes it. The model is open and stays longer. */
int sv_coloured_open(struct sv_coloured **ret, const struct sv_model *model, const char *bounds, enum sv_follow follow,
        struct sv_why *why);
/* After its instances; NULL is fine. */
struct sv_coloured *sv_coloured_close(struct sv_coloured *coloured);

struct sv_coloured_figures {
        uint32_t launches, memory_bound; /* of a run */
        uint32_t forms, refused;         /* that were made; kernels that have none */
        uint64_t launched, coloured;     /* so far; of these, with a tensor in the class's channels */
        uint64_t moves;                  /* of weights, by models whose weights move */
};

/* While instances may run: each figure is as it was at some time. */
void sv_coloured_figures(const struct sv_coloured *coloured, struct sv_coloured_figures *ret);

int sv_placed_open(
        struct sv_placed **ret, struct sv_coloured *coloured, const struct sv_instance *instance, struct sv_why *why);
struct sv_placed *sv_placed_close(struct sv_placed *placed);
/* A run begins: its weights are where they are to be. And it has ended: called for every begin that returned 0. */
int sv_placed_begin(struct sv_placed *placed, struct sv_why *why);
void sv_placed_end(struct sv_placed *placed);
/* The function and the parameters of launch i, the next one; valid until the next call. */
int sv_placed_launch(
        struct sv_placed *placed, uint32_t i, CUfunction *ret_function, void ***ret_params, struct sv_why *why);
/* The bytes of output i, when its last launch was submitted, to the host. */
int sv_placed_output(struct sv_placed *placed, uint32_t i, void *to, struct sv_why *why);
