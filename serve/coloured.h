/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pack whose tensors have two places: over all memory channels, and in the channels of its class
 *
 * bimodal.h chooses the copy for each launch. This file does the rest: coloured memory (detshare/coloured.h), a form of
 * each kernel for every possible set of coloured parameters, the weights' second place, an instance's second arena. The
 * result of a run is the same to the last bit wherever its tensors lie.
 *
 * The state is the daemon's at the submission of a launch (detshare_coloured_beside), so a BE instance stays at most
 * SV_AHEAD launches ahead of the GPU. For checks the state can be fixed, or change with every launch.
 *
 * A kernel that the daemon cannot colour stays unchanged, and so does every tensor that it touches. Weights of an LS
 * model move when a request begins and no other runs; its instances share them.
 *
 * Works only under DetShare, with a daemon that has a pool of coloured memory; otherwise opening fails with the reason.
 */
#pragma once

#include "serve/model.h"

#define SV_AHEAD 8u

enum sv_follow {
        SV_FOLLOW_DAEMON,
        SV_FOLLOW_ALONE,  /* the other class has no work */
        SV_FOLLOW_BESIDE, /* the other class always has work */
        SV_FOLLOW_TURNS,  /* another state for every launch or two, in the same sequence in every run of the program */
};

struct sv_coloured;
struct sv_placed; /* an instance's part */

/* bounds: see sv_bounds_read(). The model must be open and stay open longer. */
int sv_coloured_open(struct sv_coloured **ret, const struct sv_model *model, const char *bounds, enum sv_follow follow,
        struct sv_why *why);
/* Call it after closing the instances; NULL is allowed. */
struct sv_coloured *sv_coloured_close(struct sv_coloured *coloured);

struct sv_coloured_figures {
        uint32_t launches, memory_bound; /* numbers per run */
        uint32_t forms, refused;         /* forms that were made; kernels without a form */
        uint64_t launched, coloured;     /* launches so far, and those with a tensor in the class's channels */
        uint64_t moves;                  /* moves of weights */
};

/* May be called while instances run: each figure is the value at some moment. */
void sv_coloured_figures(const struct sv_coloured *coloured, struct sv_coloured_figures *ret);

int sv_placed_open(
        struct sv_placed **ret, struct sv_coloured *coloured, const struct sv_instance *instance, struct sv_why *why);
struct sv_placed *sv_placed_close(struct sv_placed *placed);
/* Begins a run and moves the weights if necessary. sv_placed_end() must follow every successful begin. */
int sv_placed_begin(struct sv_placed *placed, struct sv_why *why);
void sv_placed_end(struct sv_placed *placed);
/* Function and parameters of launch i, which must be the next one; valid until the next call. */
int sv_placed_launch(
        struct sv_placed *placed, uint32_t i, CUfunction *ret_function, void ***ret_params, struct sv_why *why);
/* Copies output i to the host, after its last launch was submitted. */
int sv_placed_output(struct sv_placed *placed, uint32_t i, void *to, struct sv_why *why);
