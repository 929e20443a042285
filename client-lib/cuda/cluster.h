/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters: what a launch may ask for, and how many fit on the device
 *
 * The rules are the driver's, as measured on one: a size of 0 0 0 is none, what a kernel requires (by its code or by
 * the program) must be asked for or nothing, a cluster divides the grid and has 8 blocks at most, 16 where the program
 * has allowed sizes that are not portable. All that is wrong is CUDA_ERROR_INVALID_CLUSTER_SIZE. A preferred size must
 * fit the regular one and is a hint: blocks are grouped into regular clusters.
 */
#pragma once

#include "cuda/code.h"

/* Looks at what was asked for, and fills in what the program requires instead. */
CUresult dcu_cluster_check(const struct dcu_entry *entry, const unsigned int grid[3], unsigned int cluster[3],
        const unsigned int preferred[3]);
