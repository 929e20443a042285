/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps that were made before
 *
 * A map depends on its arguments alone, and programs that describe the same tensors in every step ask for the same maps
 * over and over: Triton's kernels with descriptors do. Each would be a request to the daemon. The last few hundred are
 * kept here and found by all their arguments, compared as they are: a hash only says where to look. Nothing has to be
 * dropped, for an answer never becomes wrong; one that was not asked for in a long time makes room. Maps of one daemon
 * are not another's, whose driver may be another: the session is part of what is compared, and no two sessions of a
 * process have the same address (retired ones stay). Refusals are not kept: the daemon has words for them.
 */
#pragma once

#include "core/core.h"

#define DCU_TENSOR_CACHE_SETS 64u
#define DCU_TENSOR_CACHE_WAYS 4u

/* What a map is made from; unused bytes are 0. */
struct dcu_tensor_key {
        const dsc_session *session;
        uint64_t address, dims[DSC_TENSOR_RANK_MAX], strides[DSC_TENSOR_RANK_MAX];
        uint32_t box[DSC_TENSOR_RANK_MAX], steps[DSC_TENSOR_RANK_MAX];
        int32_t lower[DSC_TENSOR_RANK_MAX], upper[DSC_TENSOR_RANK_MAX];
        uint32_t given; /* arrays that are not NULL */
        uint32_t kind, data_type, rank, channels, pixels, interleave, mode, swizzle, promotion, fill;
        uint32_t reserved;
        uint8_t map[DSC_TENSOR_MAP_BYTES]; /* of REPLACE: the old one */
};

/* 1: arguments that a map may be had for; 0: there is no such map, and the daemon says so. */
int dcu_tensor_key(const dsc_session *session, const struct dsc_tensor_map *ask,
        const uint8_t map[DSC_TENSOR_MAP_BYTES], struct dcu_tensor_key *ret);
/* 1 and the map, or 0. From any thread, and so the next. */
int dcu_tensor_cache_find(const struct dcu_tensor_key *key, uint8_t ret_map[DSC_TENSOR_MAP_BYTES]);
void dcu_tensor_cache_put(const struct dcu_tensor_key *key, const uint8_t map[DSC_TENSOR_MAP_BYTES]);
