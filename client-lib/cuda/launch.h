/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Description of a kernel launch, for launches and for kernel nodes of graphs
 *
 * dcu_launch_check() finds all errors that CUDA reports at once. Parameters are packed by the layout that the daemon
 * sent with the kernel.
 */
#pragma once

#include <stdint.h>

#include "cuda/module.h"

struct dcu_launch {
        CUfunction function;
        unsigned int grid[3], block[3];
        unsigned int shared_bytes;
        CUstream stream;
        void **params, **extra;
        int cooperative;
        /* requested and preferred cluster size from attributes; 0 0 0: not requested */
        unsigned int cluster[3], preferred[3];
        const CUlaunchAttribute *attributes; /* attributes as given, for the node of a capture */
        unsigned int n_attributes;
};

/* Applies one attribute to the launch. Hints about decisions of the daemon have no effect. */
CUresult dcu_launch_attribute(struct dcu_launch *launch, const CUlaunchAttribute *attribute);
/*
 * Checks handle, dimensions and shared memory, checks the cluster size, and fills it in if the kernel requires one.
 * *ret_owner: context of the function, NULL for a library's kernel.
 */
CUresult dcu_launch_check(struct dcu_launch *launch, struct dcu_entry **ret_entry, struct dcu_context **ret_owner);
/* Packs the parameters; writes all kernel->params_size bytes. */
CUresult dcu_launch_pack(const struct dcu_launch *launch, const struct dsc_kernel *kernel, uint8_t *packed);
