/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on words of memory, for streams and graphs
 */
#pragma once

#include "cuda/api.h"

/* CUDA_SUCCESS if address, flags and kind of the operation are valid and supported. */
CUresult dcu_memop_check(const CUstreamBatchMemOpParams *op);
