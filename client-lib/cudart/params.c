/* SPDX-License-Identifier: Apache-2.0 */
#include "cudart/params.h"

#include <string.h>

/* Memory types of source and destination, by kind of copy. */
static const CUmemorytype sides[][2] = {
        [cudaMemcpyHostToHost] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST},
        [cudaMemcpyHostToDevice] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE},
        [cudaMemcpyDeviceToHost] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST},
        [cudaMemcpyDeviceToDevice] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE},
        [cudaMemcpyDefault] = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED},
};

#define KINDS (sizeof(sides) / sizeof(sides[0]))

cudaError_t rt_copy_2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
        enum cudaMemcpyKind kind, CUDA_MEMCPY2D *ret)
{
        if ((size_t)kind >= KINDS)
                return rt_fail(cudaErrorInvalidMemcpyDirection);
        if (height > 1 && (width > dpitch || width > spitch))
                return rt_fail(cudaErrorInvalidPitchValue);
        memset(ret, 0, sizeof(*ret));
        ret->srcMemoryType = sides[kind][0];
        ret->srcHost = src;
        ret->srcDevice = (CUdeviceptr)src;
        ret->srcPitch = spitch;
        ret->dstMemoryType = sides[kind][1];
        ret->dstHost = dst;
        ret->dstDevice = (CUdeviceptr)dst;
        ret->dstPitch = dpitch;
        ret->WidthInBytes = width;
        ret->Height = height;
        return cudaSuccess;
}

/* 1: rows are longer than the pitch, or a slice overlaps the next one. */
static int overlaps(const struct cudaPitchedPtr *p, const struct cudaExtent *extent)
{
        if (!p->ptr)
                return 0;
        return ((extent->height > 1 || extent->depth > 1) && extent->width > p->pitch) ||
               (extent->depth > 1 && extent->height > p->ysize);
}

cudaError_t rt_copy_3d(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *ret)
{
        if (!p)
                return rt_fail(cudaErrorInvalidValue);
        if (p->srcArray || p->dstArray)
                return rt_fail(cudaErrorNotSupported);
        if ((size_t)p->kind >= KINDS)
                return rt_fail(cudaErrorInvalidMemcpyDirection);
        if (overlaps(&p->srcPtr, &p->extent) || overlaps(&p->dstPtr, &p->extent))
                return rt_fail(cudaErrorInvalidPitchValue);
        memset(ret, 0, sizeof(*ret));
        ret->srcXInBytes = p->srcPos.x;
        ret->srcY = p->srcPos.y;
        ret->srcZ = p->srcPos.z;
        ret->srcMemoryType = sides[p->kind][0];
        ret->srcHost = p->srcPtr.ptr;
        ret->srcDevice = (CUdeviceptr)p->srcPtr.ptr;
        ret->srcPitch = p->srcPtr.pitch;
        ret->srcHeight = p->srcPtr.ysize;
        ret->dstXInBytes = p->dstPos.x;
        ret->dstY = p->dstPos.y;
        ret->dstZ = p->dstPos.z;
        ret->dstMemoryType = sides[p->kind][1];
        ret->dstHost = p->dstPtr.ptr;
        ret->dstDevice = (CUdeviceptr)p->dstPtr.ptr;
        ret->dstPitch = p->dstPtr.pitch;
        ret->dstHeight = p->dstPtr.ysize;
        ret->WidthInBytes = p->extent.width;
        ret->Height = p->extent.height;
        ret->Depth = p->extent.depth;
        return cudaSuccess;
}

cudaError_t rt_copy_1d(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, CUDA_MEMCPY3D *ret)
{
        const struct cudaMemcpy3DParms p = {
                .srcPtr = {.ptr = (void *)(uintptr_t)src},
                .dstPtr = {.ptr = dst},
                .extent = {count, 1, 1},
                .kind = kind,
        };

        return rt_copy_3d(&p, ret);
}

static enum cudaMemcpyKind kind_of(CUmemorytype src, CUmemorytype dst)
{
        for (size_t kind = 0; kind < KINDS; kind++) {
                if (sides[kind][0] == src && sides[kind][1] == dst)
                        return (enum cudaMemcpyKind)kind;
        }
        return cudaMemcpyDefault;
}

void rt_copy_told(const CUDA_MEMCPY3D *copy, struct cudaMemcpy3DParms *ret)
{
        void *src =
                copy->srcMemoryType == CU_MEMORYTYPE_HOST ? (void *)(uintptr_t)copy->srcHost : (void *)copy->srcDevice;
        void *dst = copy->dstMemoryType == CU_MEMORYTYPE_HOST ? copy->dstHost : (void *)copy->dstDevice;

        *ret = (struct cudaMemcpy3DParms){
                .srcPos = {copy->srcXInBytes, copy->srcY, copy->srcZ},
                .srcPtr = {src, copy->srcPitch, copy->srcPitch, copy->srcHeight},
                .dstPos = {copy->dstXInBytes, copy->dstY, copy->dstZ},
                .dstPtr = {dst, copy->dstPitch, copy->dstPitch, copy->dstHeight},
                .extent = {copy->WidthInBytes, copy->Height, copy->Depth},
                .kind = kind_of(copy->srcMemoryType, copy->dstMemoryType),
        };
}
