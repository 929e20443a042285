/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache of tensor maps
 *
 * A map depends on its arguments alone. Programs that describe the same tensors in every step request the same maps
 * again and again (Triton's kernels with descriptors do), and each would be a request to the daemon. The last few
 * hundred maps are kept and found by comparing all arguments; a hash only selects where to look. Entries never become
 * wrong; the least recently used one makes room. Maps of one daemon's driver are not valid for another's: the session
 * is part of the comparison, and no two sessions of a process have the same address (retired ones stay allocated).
 * Refusals are not cached, because the daemon's message is needed.
 */
#pragma once

#include "core/core.h"

#define DCU_TENSOR_CACHE_SETS 64u
#define DCU_TENSOR_CACHE_WAYS 4u

/* Arguments of a map; unused bytes are 0. */
struct dcu_tensor_key {
        const dsc_session *session;
        uint64_t address, dims[DSC_TENSOR_RANK_MAX], strides[DSC_TENSOR_RANK_MAX];
        uint32_t box[DSC_TENSOR_RANK_MAX], steps[DSC_TENSOR_RANK_MAX];
        int32_t lower[DSC_TENSOR_RANK_MAX], upper[DSC_TENSOR_RANK_MAX];
        uint32_t given; /* bits of the arrays that are not NULL */
        uint32_t kind, data_type, rank, channels, pixels, interleave, mode, swizzle, promotion, fill;
        uint32_t reserved;
        uint8_t map[DSC_TENSOR_MAP_BYTES]; /* input map of REPLACE */
};

/* Fills in the key for a request of a map. 1: done; 0: the rank is invalid, so no map exists and the daemon refuses
 * it. */
int dcu_tensor_key(const dsc_session *session, const struct dsc_tensor_map *ask,
        const uint8_t map[DSC_TENSOR_MAP_BYTES], struct dcu_tensor_key *ret);
/* Copies the cached map of the key; 1: there was one. Any thread may call both functions. */
int dcu_tensor_cache_find(const struct dcu_tensor_key *key, uint8_t ret_map[DSC_TENSOR_MAP_BYTES]);
void dcu_tensor_cache_put(const struct dcu_tensor_key *key, const uint8_t map[DSC_TENSOR_MAP_BYTES]);
