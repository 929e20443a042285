/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pack on a device: one model, and any number of instances of it
 *
 * The model is what is shared: the module, loaded once, and the weights, uploaded once. An instance has an arena, a
 * stream, pinned memory for inputs and outputs, and its parameters, addresses and all, ready to be launched with. A run
 * copies the inputs in, launches the pack's kernels in their order and copies the outputs back, all on its stream, and
 * waits for the end. Instances run beside each other, each used by one thread at a time.
 *
 * What the pack says of kernels is compared with the kernels, since a driver reads as many bytes of a parameter as the
 * kernel declares, whatever the launch meant. A new arena is filled with a byte that is NaN in floats: a run that reads
 * what it has not written shows.
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
        struct sv_placed *placed; /* its tensors lie in two places (coloured.h); NULL: they do not */
        CUstream stream;
        CUdeviceptr arena;
        uint8_t *input, *output; /* pinned: the tensors one after the other, in the pack's order */
        uint64_t *values;        /* of all parameters of all launches */
        void **params;           /* their addresses */
        CUdeviceptr input_at[SV_INPUTS_MAX], output_at[SV_OUTPUTS_MAX];
};

int sv_model_open(
        struct sv_model *model, const struct sv_driver *driver, const struct sv_pack *pack, struct sv_why *why);
/* After its instances. Fine for one that was zeroed or whose open failed. */
void sv_model_close(struct sv_model *model);

int sv_instance_open(struct sv_instance *instance, const struct sv_model *model, struct sv_why *why);
void sv_instance_close(struct sv_instance *instance);
/* From `input` to `output`. By a thread that has entered the driver. */
int sv_instance_run(struct sv_instance *instance, struct sv_why *why);
/* The same with an event before each launch and one behind the last. */
int sv_instance_run_timed(struct sv_instance *instance, const CUevent *events, struct sv_why *why);
/* Device memory of a model with so many instances. */
uint64_t sv_model_bytes(const struct sv_pack *pack, unsigned instances);
