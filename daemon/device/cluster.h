/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clusters of a launch
 *
 * The launch's and the kernel's cluster size must be equal if both are set. Clusters divide the grid, and none has more
 * than DS_DEVICE_CLUSTER_MAX blocks. As in the driver, 1 1 1 is a size (refused for a kernel that requires another
 * one), and 0 0 0 means none.
 */
#pragma once

#include "device/device.h"

/*
 * Computes the clusters of a launch (1 each: none) and its grid in blocks, from the cluster sizes of the launch and of
 * the kernel. Returns 0, or DS_CUDA_INVALID_CLUSTER_SIZE if they contradict each other or a cluster has more than
 * `most` blocks. Limits of rungs and devices are not checked.
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

/* As ds_device_cluster_within(), with at most DS_DEVICE_CLUSTER_MAX blocks in a cluster. */
static inline int ds_device_cluster(const struct ds_kernel_info *kernel, const uint32_t *grid, const uint32_t *cluster,
        uint32_t *ret_cluster, uint64_t *ret_grid)
{
        return ds_device_cluster_within(kernel, DS_DEVICE_CLUSTER_MAX, grid, cluster, ret_cluster, ret_grid);
}

/* Blocks per cluster of the launch, 1 = no clusters; DS_DEVICE_CLUSTER_MAX + 1 if the launch is invalid. */
static inline uint32_t ds_device_cluster_blocks(const struct ds_kernel_info *kernel, const struct ds_launch *launch)
{
        uint32_t cluster[3];
        uint64_t grid[3];

        if (ds_device_cluster(kernel, launch->grid, launch->cluster, cluster, grid))
                return DS_DEVICE_CLUSTER_MAX + 1;
        return cluster[0] * cluster[1] * cluster[2];
}
