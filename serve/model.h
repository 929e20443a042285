/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pack on a device: one model, and any number of instances of it
 *
 * Instances share the model: the module, loaded once, and the weights, uploaded once. An instance has an arena, a
 * stream, pinned memory for inputs and outputs, and its parameters, ready for launching. A run copies the inputs in,
 * launches the pack's kernels in order, copies the outputs back, all on its stream, and waits for the end. Instances
 * may run concurrently; one thread at a time uses each.
 *
 * The manifest's parameters are compared with the kernels, because a driver reads as many bytes of a parameter as the
 * kernel declares. A new arena is filled with a byte that is NaN in floats, so a run that reads unwritten memory shows.
 */
#pragma once

#include "serve/driver.h"
#include "serve/pack.h"

struct sv_model {
        const struct sv_driver *driver;
        const struct sv_pack *pack;
        CUmodule module;
        CUfunction *kernels;
        CUdeviceptr weights; /* 0: none */
};

struct sv_placed;

struct sv_instance {
        const struct sv_model *model;
        struct sv_placed *placed; /* its tensors have two places (coloured.h); NULL: one place */
        CUstream stream;
        CUdeviceptr arena;
        uint8_t *input, *output; /* pinned: all tensors in sequence, in the pack's order */
        uint64_t *values;        /* values of all parameters of all launches */
        void **params;           /* their addresses */
        CUdeviceptr input_at[SV_INPUTS_MAX], output_at[SV_OUTPUTS_MAX];
};

int sv_model_open(
        struct sv_model *model, const struct sv_driver *driver, const struct sv_pack *pack, struct sv_why *why);
/* Call it after closing the instances. Also for a zeroed model, or after a failed open. */
void sv_model_close(struct sv_model *model);

int sv_instance_open(struct sv_instance *instance, const struct sv_model *model, struct sv_why *why);
void sv_instance_close(struct sv_instance *instance);
/* Runs from `input` to `output`. The calling thread must have entered the driver. */
int sv_instance_run(struct sv_instance *instance, struct sv_why *why);
/* Runs with an event before each launch and one after the last. */
int sv_instance_run_timed(struct sv_instance *instance, const CUevent *events, struct sv_why *why);
/* Device memory of a model with this number of instances, bytes. */
uint64_t sv_model_bytes(const struct sv_pack *pack, unsigned instances);
