/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on words of memory, as streams and graphs have them
 */
#pragma once

#include "cuda/api.h"

/* Address, flags, and whether it is served. */
CUresult dcu_memop_check(const CUstreamBatchMemOpParams *op);
