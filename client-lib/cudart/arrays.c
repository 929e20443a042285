/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays, textures and surfaces: not supported
 *
 * Functions that make one return cudaErrorNotSupported (gen/generate.py). Functions that free one accept NULL, because
 * programs free handles that they may not have made.
 */
#include "cudart/rt.h"

static cudaError_t nothing(int is_nothing)
{
        cudaError_t e = rt_enter();

        return e || is_nothing ? e : rt_fail(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaFreeArray(cudaArray_t array)
{
        return nothing(!array);
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray)
{
        return nothing(!mipmappedArray);
}

cudaError_t cudaDestroyTextureObject(cudaTextureObject_t texObject)
{
        return nothing(texObject == 0);
}

cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t surfObject)
{
        return nothing(surfObject == 0);
}
