/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on words of memory, for streams and graphs
 */
#pragma once

#include "cuda/api.h"

/* Checks address and flags, and whether the operation is supported. */
CUresult dcu_memop_check(const CUstreamBatchMemOpParams *op);
