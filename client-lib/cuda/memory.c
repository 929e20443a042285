/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory: allocation, freeing, queries
 */
#include "cuda/capture.h"
#include "cuda/context.h"
#include "cuda/pool.h"
#include "cuda/range.h"

#define PITCH_ALIGN 512u

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
        struct dcu_context *context;
        CUresult r = dcu_enter(&context);

        if (r == CUDA_SUCCESS)
                r = dcu_capture_unsafe();
        if (r != CUDA_SUCCESS)
                return r;
        if (!dptr)
                return CUDA_ERROR_INVALID_VALUE;
        *dptr = 0;
        return bytesize ? dcu_plain_alloc(context, bytesize, dptr) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocPitch_v2(
        CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned int ElementSizeBytes)
{
        struct dcu_context *context;
        size_t pitch, bytes;
        CUresult r = dcu_enter(&context);

        if (r == CUDA_SUCCESS)
                r = dcu_capture_unsafe();
        if (r != CUDA_SUCCESS)
                return r;
        if (!dptr || !pPitch || WidthInBytes == 0 || Height == 0)
                return CUDA_ERROR_INVALID_VALUE;
        if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16)
                return CUDA_ERROR_INVALID_VALUE;
        if (WidthInBytes > SIZE_MAX - PITCH_ALIGN)
                return CUDA_ERROR_OUT_OF_MEMORY;
        pitch = (WidthInBytes + PITCH_ALIGN - 1) & ~(size_t)(PITCH_ALIGN - 1);
        if (__builtin_mul_overflow(pitch, Height, &bytes))
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = dcu_plain_alloc(context, bytes, dptr);
        if (r == CUDA_SUCCESS)
                *pPitch = pitch;
        return r;
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
        struct dcu_context *context;
        struct dcu_range range;
        CUresult r = dcu_enter_any(&context);

        if (r == CUDA_SUCCESS)
                r = dcu_capture_unsafe();
        if (r != CUDA_SUCCESS || dptr == 0)
                return r;
        if (dcu_graph_memory_freed(dptr, &r))
                return r;
        if (dcu_range_find(dptr, &range) && range.kind == DCU_RANGE_DEVICE)
                return dcu_plain_free(dptr);
        if (dcu_range_remove(dptr, 1u << DCU_RANGE_MANAGED, &range))
                return dcu_result(dsc_host_free(dcu.session, (void *)(uintptr_t)dptr));
        return dcu_pool_free_now(dptr);
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
        struct dcu_context *context;
        uint64_t f, t;
        CUresult r = dcu_enter(&context);

        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_mem_info(dcu.session, &f, &t));
        if (r != CUDA_SUCCESS)
                return r;
        if (free)
                *free = f;
        if (total)
                *total = t;
        return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
        struct dcu_context *context;
        struct dcu_range range;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!dcu_range_find(dptr, &range))
                return CUDA_ERROR_NOT_FOUND;
        if (pbase)
                *pbase = range.base;
        if (psize)
                *psize = range.size;
        return CUDA_SUCCESS;
}
