/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters: checks of a launch's cluster size, and how many clusters fit on the device
 *
 * The rules were measured on NVIDIA's driver. A size of 0 0 0 means none. A size that the kernel requires (by its code,
 * or set by the program) must be requested exactly or left out. A cluster divides the grid and has at most 8 blocks, or
 * 16 if the program allowed non-portable sizes. Any violation is CUDA_ERROR_INVALID_CLUSTER_SIZE. A preferred size must
 * be a multiple of the regular one; it is a hint: blocks are grouped into regular clusters.
 */
#pragma once

#include "cuda/code.h"

/* Checks the cluster size that a launch requests. If it requests none, fills in the size that the kernel requires. */
CUresult dcu_cluster_check(const struct dcu_entry *entry, const unsigned int grid[3], unsigned int cluster[3],
        const unsigned int preferred[3]);
