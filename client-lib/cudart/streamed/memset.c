/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memsets
 *
 * A three-dimensional memset fills one plane if each slice begins right after the rows of the previous one; otherwise
 * it fills one plane per slice.
 */
#include "cudart/rt.h"

cudaError_t cudaMemset(void *devPtr, int value, size_t count)
{
        cudaError_t e = rt_enter();

        return e || count == 0 ? e : rt_error(cuMemsetD8((CUdeviceptr)devPtr, (unsigned char)value, count));
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)
{
        cudaError_t e = rt_enter();

        return e || count == 0 ? e
                               : rt_error(cuMemsetD8Async((CUdeviceptr)devPtr, (unsigned char)value, count, stream));
}

/* Fills rows with a value. stream NULL: the call blocks. */
static CUresult fill(CUdeviceptr dst, size_t pitch, int value, size_t width, size_t height, const cudaStream_t *stream)
{
        if (stream)
                return cuMemsetD2D8Async(dst, pitch, (unsigned char)value, width, height, *stream);
        return cuMemsetD2D8(dst, pitch, (unsigned char)value, width, height);
}

static cudaError_t plane(void *devPtr, size_t pitch, int value, size_t width, size_t height, const cudaStream_t *stream)
{
        cudaError_t e = rt_enter();

        if (e != cudaSuccess || width == 0 || height == 0)
                return e;
        return rt_error(fill((CUdeviceptr)devPtr, pitch, value, width, height, stream));
}

static cudaError_t slices(
        const struct cudaPitchedPtr *p, int value, struct cudaExtent extent, const cudaStream_t *stream)
{
        CUdeviceptr at = (CUdeviceptr)p->ptr;
        cudaError_t e = rt_enter();
        size_t slice;
        CUresult r = CUDA_SUCCESS;

        if (e != cudaSuccess || extent.width == 0 || extent.height == 0 || extent.depth == 0)
                return e;
        if (extent.depth > 1 && extent.height > p->ysize)
                return rt_fail(cudaErrorInvalidValue);
        if (__builtin_mul_overflow(p->pitch, p->ysize, &slice))
                return rt_fail(cudaErrorInvalidValue);
        if (extent.height == p->ysize && !__builtin_mul_overflow(extent.height, extent.depth, &extent.height))
                extent.depth = 1;
        for (size_t z = 0; z < extent.depth && r == CUDA_SUCCESS; z++)
                r = fill(at + z * slice, p->pitch, value, extent.width, extent.height, stream);
        return rt_error(r);
}

cudaError_t cudaMemset2D(void *devPtr, size_t pitch, int value, size_t width, size_t height)
{
        return plane(devPtr, pitch, value, width, height, NULL);
}

cudaError_t cudaMemset2DAsync(void *devPtr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
        return plane(devPtr, pitch, value, width, height, &stream);
}

cudaError_t cudaMemset3D(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent)
{
        return slices(&pitchedDevPtr, value, extent, NULL);
}

cudaError_t cudaMemset3DAsync(
        struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent, cudaStream_t stream)
{
        return slices(&pitchedDevPtr, value, extent, &stream);
}
