/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bound on resident blocks, kept per SM
 *
 * For devices that have no setting for the number of a kernel's resident blocks. The launch requests more shared memory
 * per block than the kernel needs, so that only the bound's share of one SM fits there. The kernel runs normally,
 * unless it reads the size of its shared memory. The share is rounded down, which keeps the bound, but it is at least
 * one block. So a rung with more SMs than the bound has blocks is too large for the bound; the scheduler avoids such
 * rungs.
 *
 * Clusters of more blocks than a TPC has SMs are not padded, because then fewer of them might fit on their GPC than
 * necessary. The price is L1 cache, which shares the SM's memory.
 */
#pragma once

#include "device/device.h"

#define DS_BOUND_STEP 256u /* allocation unit of shared memory, or a multiple of it, bytes */

/* numbers of enum CUdevice_attribute */
enum {
        DS_ATTRIBUTE_SHARED_PER_SM = 81,
        DS_ATTRIBUTE_SHARED_PER_BLOCK = 97, /* most shared memory that a kernel may request per block, bytes */
        /* shared memory that the driver reserves for each block in addition, bytes */
        DS_ATTRIBUTE_SHARED_RESERVED = 111,
};

static inline uint32_t ds_bound_attribute(const struct ds_device_info *info, int attribute)
{
        return info->attributes[attribute] > 0 ? (uint32_t)info->attributes[attribute] : 0;
}

/* Number of the kernel's blocks that may be on one of n_sms SMs, if `bound` blocks may be on all of them together;
 * bound must not be 0. */
static inline uint32_t ds_bound_share(uint32_t bound, uint32_t n_sms)
{
        return n_sms && bound >= n_sms ? bound / n_sms : 1;
}

/* Whether a launch may request more shared memory per block than the kernel needs (see the top of this file). */
static inline int ds_bound_may_pad(
        const struct ds_device_info *info, const struct ds_kernel_info *kernel, uint32_t cluster_blocks)
{
        return !kernel->sees_shared && (uint64_t)cluster_blocks * info->n_tpcs <= info->n_sms &&
               ds_bound_attribute(info, DS_ATTRIBUTE_SHARED_PER_BLOCK);
}

/* The smallest number of a kernel's blocks per SM that padding can enforce. */
static inline uint32_t ds_bound_least(const struct ds_device_info *info)
{
        uint32_t most = ds_bound_attribute(info, DS_ATTRIBUTE_SHARED_PER_BLOCK) / DS_BOUND_STEP * DS_BOUND_STEP +
                        ds_bound_attribute(info, DS_ATTRIBUTE_SHARED_RESERVED);
        uint32_t least = ds_bound_attribute(info, DS_ATTRIBUTE_SHARED_PER_SM) / most;

        return least ? least : 1;
}

/*
 * Size of dynamic shared memory with which at most `share` blocks fit on an SM; never less than the launch needs. If no
 * size achieves this, the result is the closest one.
 */
static inline uint32_t ds_bound_shared(
        const struct ds_device_info *info, const struct ds_kernel_info *kernel, uint32_t shared_bytes, uint32_t share)
{
        uint32_t most = ds_bound_attribute(info, DS_ATTRIBUTE_SHARED_PER_BLOCK);
        uint32_t own = kernel->static_shared + ds_bound_attribute(info, DS_ATTRIBUTE_SHARED_RESERVED);
        uint32_t each = ds_bound_attribute(info, DS_ATTRIBUTE_SHARED_PER_SM) / (share + 1) + 1;

        each = (each + DS_BOUND_STEP - 1) / DS_BOUND_STEP * DS_BOUND_STEP;
        if (each <= own + shared_bytes)
                return shared_bytes;
        if (kernel->static_shared + (uint64_t)shared_bytes >= most)
                return shared_bytes;
        return each - own < most - kernel->static_shared ? each - own : most - kernel->static_shared;
}
