/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workload as code: for simulations in which kernels have another form that lets go
 *
 * A profile's kernels are times, and have one form. With this its kernels are entries of modules of PTX, with as many
 * blocks resident on an SM as of the profile's, each of which takes the kernel's time over its waves and its part of
 * the bytes; those that take longer than the scheduler's bound on evictions may have one in the persistent form, too,
 * as the daemon's helper would make it. Those that the profile calls memory-bound may be there once more, confined to
 * some of the GPU's channels, as when their tensors are coloured. What is lost: the stair of a profile, where it is
 * another one than that of whole waves. What a form costs (its counter, its flag) is not in it: nothing that could be
 * measured is executed here.
 */
#pragma once

#include "device/device.h"
#include "replay/workload.h"
#include "sched/sched.h"

/* A kernel over all channels, or in some */
struct ds_replay_form {
        const ds_device_kernel *native; /* NULL: there is no such one */
        struct ds_sched_forms of;       /* without a form where the workload is to have none */
};

struct ds_replay_forms {
        ds_device_module **modules;
        uint32_t n_modules;
        struct ds_replay_form *plain, *coloured; /* by kernel of the profile */
};

struct ds_replay_forms_want {
        int evictable;
        uint32_t channels[2]; /* memory-bound kernels once more, in [0] up to before [1]; both 0: not */
};

/* DS_REPLAY_E_BAD_FILE with a message, or -ENOMEM; close it in any case. */
int ds_replay_forms_open(const struct ds_device_ops *ops, ds_device *device, uint32_t space,
        const struct ds_replay_workload *workload, const struct ds_replay_forms_want *want, struct ds_replay_forms *ret,
        char *message, size_t message_size);
void ds_replay_forms_close(const struct ds_device_ops *ops, ds_device *device, struct ds_replay_forms *forms);
