/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which clusters a launch has
 *
 * What a launch asks for and what the kernel's code requires must be the same when both say something; clusters divide
 * the grid, and no cluster has more than DS_DEVICE_CLUSTER_MAX blocks. As the driver has it: a size of 1 1 1 is a size
 * (a kernel that requires another one is refused), 0 0 0 is none.
 */
#pragma once

#include "device/device.h"

/*
 * The clusters that a launch has (1 each: none) and the blocks of its grid, from what was asked for and what the kernel
 * requires: 0, or DS_CUDA_INVALID_CLUSTER_SIZE when they do not fit each other. What a rung or a device takes is not
 * looked at.
 */
static inline int ds_device_cluster_within(const struct ds_kernel_info *kernel, uint32_t most, const uint32_t *grid,
        const uint32_t *cluster, uint32_t *ret_cluster, uint64_t *ret_grid)
{
        int asked = cluster[0] || cluster[1] || cluster[2], required = kernel->cluster[0] != 0;
        uint64_t blocks = 1;

        if (kernel->cluster_explicit && !asked && !required)
                return DS_CUDA_INVALID_CLUSTER_SIZE;
        for (int i = 0; i < 3; i++) {
                ret_cluster[i] = required ? kernel->cluster[i] : asked ? cluster[i] : 1;
                if (!ret_cluster[i] || (asked && cluster[i] != ret_cluster[i]))
                        return DS_CUDA_INVALID_CLUSTER_SIZE;
                if (ret_cluster[i] > most)
                        return DS_CUDA_INVALID_CLUSTER_SIZE;
                blocks *= ret_cluster[i];
                ret_grid[i] = (uint64_t)grid[i] * (kernel->blocks_are_clusters ? ret_cluster[i] : 1);
                if (ret_grid[i] % ret_cluster[i])
                        return DS_CUDA_INVALID_CLUSTER_SIZE;
        }
        if (blocks > most || (kernel->cluster_max && blocks > kernel->cluster_max))
                return DS_CUDA_INVALID_CLUSTER_SIZE;
        return 0;
}

/* Of a launch. */
static inline int ds_device_cluster(const struct ds_kernel_info *kernel, const uint32_t *grid, const uint32_t *cluster,
        uint32_t *ret_cluster, uint64_t *ret_grid)
{
        return ds_device_cluster_within(kernel, DS_DEVICE_CLUSTER_MAX, grid, cluster, ret_cluster, ret_grid);
}

/* Blocks of the launch's clusters, 1 = none; DS_DEVICE_CLUSTER_MAX + 1 when the launch will be refused. */
static inline uint32_t ds_device_cluster_blocks(const struct ds_kernel_info *kernel, const struct ds_launch *launch)
{
        uint32_t cluster[3];
        uint64_t grid[3];

        if (ds_device_cluster(kernel, launch->grid, launch->cluster, cluster, grid))
                return DS_DEVICE_CLUSTER_MAX + 1;
        return cluster[0] * cluster[1] * cluster[2];
}
