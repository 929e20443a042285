/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translation of the runtime's node descriptions into the driver's
 *
 * Where the driver wants the context of a node, the caller's current one is passed. All functions need rt_enter.
 */
#pragma once

#include "cudart/rt.h"

cudaError_t rt_node_kernel(const struct cudaKernelNodeParamsV2 *p, CUDA_KERNEL_NODE_PARAMS *ret);
