/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bound on resident blocks, kept per SM
 *
 * Where a device cannot be told how many blocks of a kernel may be resident, it is told that each needs more shared
 * memory than it does: so much that no more than the bound's share of one SM fits there. The kernel runs as it would,
 * unless it looks at the size of its shared memory. The share is rounded down, so that the bound is kept, but is one
 * block at least: a rung of more SMs than the bound has blocks is too large for it, which the scheduler minds.
 *
 * Clusters of more blocks than a TPC has SMs are left alone: fewer of them might find room on their GPC than must.
 * The memory comes out of what the SM has as L1 cache; that is the price.
 */
#pragma once

#include "device/device.h"

#define DS_BOUND_STEP 256u /* shared memory is given out in such pieces, or smaller ones */

/* CUdevice_attribute */
enum {
        DS_ATTRIBUTE_SHARED_PER_SM = 81,
        DS_ATTRIBUTE_SHARED_PER_BLOCK = 97, /* the most that a kernel may ask for */
        DS_ATTRIBUTE_SHARED_RESERVED = 111, /* beside what it asks for */
};

static inline uint32_t ds_bound_attribute(const struct ds_device_info *info, int attribute)
{
        return info->attributes[attribute] > 0 ? (uint32_t)info->attributes[attribute] : 0;
}

/* Blocks of the kernel that may be on one SM of n_sms; bound is not 0. */
static inline uint32_t ds_bound_share(uint32_t bound, uint32_t n_sms)
{
        return n_sms && bound >= n_sms ? bound / n_sms : 1;
}

/* May its blocks be given memory that they do not need? */
static inline int ds_bound_may_pad(
        const struct ds_device_info *info, const struct ds_kernel_info *kernel, uint32_t cluster_blocks)
{
        return !kernel->sees_shared && (uint64_t)cluster_blocks * info->n_tpcs <= info->n_sms &&
               ds_bound_attribute(info, DS_ATTRIBUTE_SHARED_PER_BLOCK);
}

/* The fewest blocks of a kernel on one SM that this can bring about. */
static inline uint32_t ds_bound_least(const struct ds_device_info *info)
{
        uint32_t most = ds_bound_attribute(info, DS_ATTRIBUTE_SHARED_PER_BLOCK) / DS_BOUND_STEP * DS_BOUND_STEP +
                        ds_bound_attribute(info, DS_ATTRIBUTE_SHARED_RESERVED);
        uint32_t least = ds_bound_attribute(info, DS_ATTRIBUTE_SHARED_PER_SM) / most;

        return least ? least : 1;
}

/*
 * The dynamic shared memory with which no more than `share` blocks fit on an SM, at least what the launch has; what
 * cannot be reached is come near.
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
