/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cluster.h"

#include "cuda/module.h"

#define PORTABLE_MAX 8u
#define CLUSTER_MAX 16u
#define ASKED_MAX 1024u /* largest cluster size in occupancy queries; no device launches one of that size */

static int any(const unsigned int size[3])
{
        return size[0] || size[1] || size[2];
}

/* 1: the cluster has 1 to `most` blocks, and the grid's dimensions are multiples of the cluster's. */
static int divides(const unsigned int size[3], const unsigned int grid[3], unsigned int most)
{
        for (int i = 0; i < 3; i++) {
                if (size[i] == 0 || size[i] > most || grid[i] % size[i] != 0)
                        return 0;
        }
        return size[0] * size[1] * size[2] <= most;
}

static CUresult check_preferred(
        const unsigned int grid[3], const unsigned int cluster[3], const unsigned int preferred[3], unsigned int most)
{
        if (!any(preferred))
                return CUDA_SUCCESS;
        for (int i = 0; i < 3; i++) {
                if (preferred[i] % (any(cluster) ? cluster[i] : 1) != 0)
                        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        }
        return divides(preferred, grid, most) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

static CUresult check(const struct dcu_entry *entry, unsigned int most, const unsigned int grid[3],
        unsigned int cluster[3], const unsigned int preferred[3])
{
        const struct dsc_kernel *k = &entry->info;
        unsigned int required[3], whole[3] = {grid[0], grid[1], grid[2]};
        int is_required, asked = any(cluster);

        for (int i = 0; i < 3; i++)
                required[i] = k->cluster[0] ? k->cluster[i] : (unsigned int)entry->cluster[i];
        is_required = any(required);
        if (!is_required && !asked)
                return k->cluster_explicit ? CUDA_ERROR_INVALID_CLUSTER_SIZE
                                           : check_preferred(grid, cluster, preferred, most);
        for (int i = 0; is_required && i < 3; i++) {
                if (asked && cluster[i] != required[i])
                        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
                cluster[i] = required[i];
                whole[i] *= k->blocks_are_clusters ? cluster[i] : 1;
        }
        if (k->cluster_max && k->cluster_max < most)
                most = k->cluster_max;
        if (!divides(cluster, whole, most))
                return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        if (cluster[0] * cluster[1] * cluster[2] > 1 && !dcu_attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH))
                return CUDA_ERROR_NOT_SUPPORTED;
        return check_preferred(whole, cluster, preferred, most);
}

CUresult dcu_cluster_check(const struct dcu_entry *entry, const unsigned int grid[3], unsigned int cluster[3],
        const unsigned int preferred[3])
{
        return check(entry, entry->non_portable_cluster ? CLUSTER_MAX : PORTABLE_MAX, grid, cluster, preferred);
}

/* --- occupancy --- */

static CUresult enter(CUfunction func, const CUlaunchConfig *config, struct dcu_entry **ret)
{
        struct dcu_context *context, *owner;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!func || !config || (config->numAttrs && !config->attrs))
                return CUDA_ERROR_INVALID_VALUE;
        *ret = dcu_entry_of(func, &owner);
        if (!*ret)
                return CUDA_ERROR_INVALID_HANDLE;
        if (atomic_load(&(*ret)->epoch) != atomic_load(&dcu.epoch))
                return dcu_entry_reload(*ret);
        return CUDA_SUCCESS;
}

static CUresult count(const struct dcu_entry *entry, const CUlaunchConfig *config, const unsigned int cluster[3],
        uint32_t *ret_clusters)
{
        uint64_t threads = (uint64_t)config->blockDimX * config->blockDimY;

        if (!config->blockDimX || !config->blockDimY || !config->blockDimZ || threads > 1024 ||
                threads * config->blockDimZ > (uint64_t)dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK))
                return CUDA_ERROR_INVALID_VALUE;
        return dcu_result(dsc_kernel_clusters(dcu.session, entry->info.id, cluster,
                (uint32_t)(threads * config->blockDimZ), config->sharedMemBytes, ret_clusters));
}

CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func, const CUlaunchConfig *config)
{
        static const unsigned int none[3] = {0, 0, 0};
        unsigned int cluster[3] = {0, 0, 0}, grid[3];
        struct dcu_entry *entry;
        uint32_t clusters = 0;
        CUresult r = enter(func, config, &entry);

        if (r != CUDA_SUCCESS)
                return r;
        if (!numClusters)
                return CUDA_ERROR_INVALID_VALUE;
        for (unsigned int i = 0; i < config->numAttrs; i++) {
                if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
                        continue;
                cluster[0] = config->attrs[i].value.clusterDim.x;
                cluster[1] = config->attrs[i].value.clusterDim.y;
                cluster[2] = config->attrs[i].value.clusterDim.z;
        }
        grid[0] = config->gridDimX;
        grid[1] = config->gridDimY;
        grid[2] = config->gridDimZ;
        r = check(entry, entry->non_portable_cluster ? ASKED_MAX : PORTABLE_MAX, grid, cluster, none);
        /* a launch without clusters has no cluster occupancy */
        if (r == CUDA_SUCCESS && any(cluster))
                r = count(entry, config, cluster, &clusters);
        if (r == CUDA_SUCCESS)
                *numClusters = (int)clusters;
        return r;
}

/* Reports the largest cluster size of which at least one cluster fits on the device. Ignores the size that the
 * kernel requires. */
CUresult cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func, const CUlaunchConfig *config)
{
        struct dcu_entry *entry;
        uint32_t clusters = 0;
        unsigned int size;
        CUresult r = enter(func, config, &entry);

        if (r != CUDA_SUCCESS)
                return r;
        if (!clusterSize)
                return CUDA_ERROR_INVALID_VALUE;
        if (!dcu_attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH))
                return CUDA_ERROR_NOT_SUPPORTED;
        size = entry->non_portable_cluster ? CLUSTER_MAX : PORTABLE_MAX;
        if (entry->info.cluster_max && entry->info.cluster_max < size)
                size = entry->info.cluster_max;
        for (; r == CUDA_SUCCESS && !clusters && size && !entry->info.cluster[0]; size -= !clusters) {
                const unsigned int cluster[3] = {size, 1, 1};

                r = count(entry, config, cluster, &clusters);
        }
        if (r == CUDA_SUCCESS)
                *clusterSize = (int)size;
        return r;
}
