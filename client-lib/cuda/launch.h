/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch of a kernel is, for launches and for the kernel nodes of graphs
 *
 * All that CUDA reports at once is found by dcu_launch_check(); parameters are packed by the layout that came with the
 * kernel.
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
        unsigned int cluster[3], preferred[3]; /* of attributes; 0: not asked for */
        const CUlaunchAttribute *attributes;   /* as given, for the node of a capture */
        unsigned int n_attributes;
};

/* Take one attribute; what the daemon decides by itself is a hint without effect. */
CUresult dcu_launch_attribute(struct dcu_launch *launch, const CUlaunchAttribute *attribute);
/*
 * Handle, dimensions, shared memory, clusters (whose size is completed). *ret_owner: the context that the function
 * belongs to, NULL for none.
 */
CUresult dcu_launch_check(struct dcu_launch *launch, struct dcu_entry **ret_entry, struct dcu_context **ret_owner);
/* All of kernel->params_size bytes are written. */
CUresult dcu_launch_pack(const struct dcu_launch *launch, const struct dsc_kernel *kernel, uint8_t *packed);
