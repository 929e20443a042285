/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launch configuration between <<< and >>>
 *
 * Compiled code pushes the configuration before it evaluates the call's arguments; the kernel's stub pops it. The
 * arguments may contain launches themselves, so each thread has a stack. More than one entry is rare; further entries
 * are malloc'ed.
 */
#include <stdlib.h>

#include "cudart/crt.h"

struct rt_config {
        dim3 grid, block;
        size_t shared;
        cudaStream_t stream;
        struct rt_config *below;
};

static __thread struct rt_config first;
static __thread struct rt_config *top;

unsigned int __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, struct CUstream_st *stream)
{
        struct rt_config *config = top ? malloc(sizeof(*config)) : &first;

        if (!config)
                return (unsigned int)rt_fail(cudaErrorMemoryAllocation);
        *config = (struct rt_config){gridDim, blockDim, sharedMem, stream, top};
        top = config;
        return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem, void *stream)
{
        struct rt_config *config = top;

        if (!config)
                return rt_fail(cudaErrorMissingConfiguration);
        *gridDim = config->grid;
        *blockDim = config->block;
        *sharedMem = config->shared;
        *(cudaStream_t *)stream = config->stream;
        top = config->below;
        if (config != &first)
                free(config);
        return cudaSuccess;
}
