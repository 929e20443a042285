/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Occupancy: the driver's answers
 */
#include "cudart/rt.h"

static cudaError_t function(const void *func, CUfunction *ret)
{
        cudaError_t e = rt_enter();
        CUkernel kernel;

        if (e == cudaSuccess)
                e = rt_kernel(func, &kernel);
        if (e == cudaSuccess)
                *ret = (CUfunction)kernel;
        return e;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize)
{
        return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                numBlocks, func, blockSize, dynamicSMemSize, cudaOccupancyDefault);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize, unsigned int flags)
{
        CUfunction f;
        cudaError_t e = function(func, &f);

        return e ? e
                 : rt_error(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                           numBlocks, f, blockSize, dynamicSMemSize, flags));
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(
        size_t *dynamicSmemSize, const void *func, int numBlocks, int blockSize)
{
        CUfunction f;
        cudaError_t e = function(func, &f);

        return e ? e : rt_error(cuOccupancyAvailableDynamicSMemPerBlock(dynamicSmemSize, f, numBlocks, blockSize));
}

/* *ret: the driver's description of a launch. */
static cudaError_t config_of(const cudaLaunchConfig_t *config, CUlaunchConfig *ret)
{
        if (!config || config->dynamicSmemBytes > UINT32_MAX)
                return rt_fail(cudaErrorInvalidValue);
        *ret = (CUlaunchConfig){config->gridDim.x, config->gridDim.y, config->gridDim.z, config->blockDim.x,
                config->blockDim.y, config->blockDim.z, (unsigned int)config->dynamicSmemBytes, config->stream,
                (CUlaunchAttribute *)config->attrs, config->numAttrs};
        return cudaSuccess;
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(
        int *clusterSize, const void *func, const cudaLaunchConfig_t *launchConfig)
{
        CUlaunchConfig config;
        CUfunction f;
        cudaError_t e = function(func, &f);

        if (e == cudaSuccess)
                e = config_of(launchConfig, &config);
        return e ? e : rt_error(cuOccupancyMaxPotentialClusterSize(clusterSize, f, &config));
}

cudaError_t cudaOccupancyMaxActiveClusters(int *numClusters, const void *func, const cudaLaunchConfig_t *launchConfig)
{
        CUlaunchConfig config;
        CUfunction f;
        cudaError_t e = function(func, &f);

        if (e == cudaSuccess)
                e = config_of(launchConfig, &config);
        return e ? e : rt_error(cuOccupancyMaxActiveClusters(numClusters, f, &config));
}
