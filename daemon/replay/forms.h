/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workload as code, for simulations in which kernels have a form that can be evicted
 *
 * A profile's kernels are times, and have one form. This module writes them as entries of PTX modules. A kernel has as
 * many resident blocks per SM as in the profile. Each block takes the kernel's time divided by the number of waves, and
 * its part of the bytes. Kernels that take longer than the scheduler's bound on evictions can also have the persistent
 * form that the daemon's helper would make. Kernels that the profile calls memory-bound can exist a second time,
 * confined to some of the GPU's channels, like kernels with coloured tensors.
 *
 * Lost in this conversion: a stair of the profile that is not that of whole waves. The cost of a form (its counter and
 * its flag) is not simulated, because nothing is executed.
 */
#pragma once

#include "device/device.h"
#include "replay/workload.h"
#include "sched/sched.h"

/* A kernel's handles: one of these exists for all channels, and one for some of them. */
struct ds_replay_form {
        const ds_device_kernel *native; /* NULL: there is no such kernel */
        struct ds_sched_forms of;       /* handles of the kernel's other forms; NULL if the workload has none */
};

struct ds_replay_forms {
        ds_device_module **modules;
        uint32_t n_modules;
        struct ds_replay_form *plain, *coloured; /* arrays with one element per kernel of the profile */
};

struct ds_replay_forms_want {
        int evictable;
        /* memory-bound kernels exist a second time, over the channels from [0] to before [1]; both 0: they do not */
        uint32_t channels[2];
};

/* Writes the workload as modules and loads them. Returns 0, DS_REPLAY_E_BAD_FILE with a message, or -ENOMEM. Close
 * *ret in any case. */
int ds_replay_forms_open(const struct ds_device_ops *ops, ds_device *device, uint32_t space,
        const struct ds_replay_workload *workload, const struct ds_replay_forms_want *want, struct ds_replay_forms *ret,
        char *message, size_t message_size);
void ds_replay_forms_close(const struct ds_device_ops *ops, ds_device *device, struct ds_replay_forms *forms);
