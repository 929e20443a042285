/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes as the runtime describes them, in the driver's words
 *
 * Where the driver wants to know a node's context, it is the caller's current one. All need rt_enter.
 */
#pragma once

#include "cudart/rt.h"

cudaError_t rt_node_kernel(const struct cudaKernelNodeParamsV2 *p, CUDA_KERNEL_NODE_PARAMS *ret);
