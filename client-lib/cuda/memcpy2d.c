/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two- and three-dimensional copies of linear memory
 *
 * CUDA describes each side by type, base, offset in bytes, rows and slices, and a pitch; a pitch or height of zero
 * means without gaps. Arrays are not supported.
 */
#include "cuda/copy.h"

/* One side of CUDA_MEMCPY2D or CUDA_MEMCPY3D. */
struct given {
        CUmemorytype type;
        const void *host;
        CUdeviceptr device;
        CUarray array;
        size_t x, y, z, pitch, height;
};

static CUresult base_of(const struct given *g, struct dcu_side *side)
{
        switch ((unsigned int)g->type) {
        case CU_MEMORYTYPE_HOST:
                side->address = (uintptr_t)g->host;
                side->rule = DCU_SIDE_ANY;
                return CUDA_SUCCESS;
        case CU_MEMORYTYPE_DEVICE:
                side->address = g->device;
                side->rule = DCU_SIDE_DEVICE;
                return CUDA_SUCCESS;
        case CU_MEMORYTYPE_UNIFIED:
                side->address = g->device;
                side->rule = DCU_SIDE_ANY;
                return CUDA_SUCCESS;
        case CU_MEMORYTYPE_ARRAY:
                return g->array ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

/* *side: address of the first byte, pitch and slice of one side of a copy. */
static CUresult side_of(const struct given *g, const struct dcu_box *box, struct dcu_side *side)
{
        size_t pitch_max = (size_t)(unsigned int)dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH), right, bottom, offset,
               rows;
        CUresult r = base_of(g, side);

        if (r != CUDA_SUCCESS)
                return r;
        if (side->address == 0 || __builtin_add_overflow(g->x, box->width, &right) ||
                __builtin_add_overflow(g->y, box->height, &bottom))
                return CUDA_ERROR_INVALID_VALUE;
        side->pitch = g->pitch ? g->pitch : right;
        rows = g->height ? g->height : bottom;
        if (right > side->pitch || side->pitch > pitch_max || (box->depth > 1 && bottom > rows) ||
                __builtin_mul_overflow(side->pitch, rows, &side->slice))
                return CUDA_ERROR_INVALID_VALUE;
        if (__builtin_mul_overflow(g->z, side->slice, &offset) ||
                __builtin_add_overflow(side->address, offset, &side->address) ||
                __builtin_mul_overflow(g->y, side->pitch, &offset) || __builtin_add_overflow(offset, g->x, &offset) ||
                __builtin_add_overflow(side->address, offset, &side->address))
                return CUDA_ERROR_INVALID_VALUE;
        return CUDA_SUCCESS;
}

static CUresult copy(const struct given *dst, const struct given *src, struct dcu_box *box, CUstream stream, int sync)
{
        struct dcu_context *context;
        CUresult r = sync ? dcu_enter(&context) : dcu_enter_any(&context);

        if (r != CUDA_SUCCESS || box->width == 0 || box->height == 0 || box->depth == 0)
                return r;
        r = side_of(dst, box, &box->dst);
        if (r == CUDA_SUCCESS)
                r = side_of(src, box, &box->src);
        return r == CUDA_SUCCESS ? dcu_copy_box(context, stream, sync, box) : r;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, int sync)
{
        struct dcu_box box = {.depth = 1};
        struct given dst, src;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!c)
                return CUDA_ERROR_INVALID_VALUE;
        box.width = c->WidthInBytes;
        box.height = c->Height;
        dst = (struct given){
                c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray, c->dstXInBytes, c->dstY, 0, c->dstPitch, 0};
        src = (struct given){
                c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray, c->srcXInBytes, c->srcY, 0, c->srcPitch, 0};
        return copy(&dst, &src, &box, stream, sync);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
        return copy_2d(pCopy, NULL, 1);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
        return copy_2d(pCopy, NULL, 1);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
        return copy_2d(pCopy, hStream, 0);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *c, CUstream stream, int sync)
{
        struct dcu_box box = {.depth = 0};
        struct given dst, src;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!c)
                return CUDA_ERROR_INVALID_VALUE;
        box.width = c->WidthInBytes;
        box.height = c->Height;
        box.depth = c->Depth;
        dst = (struct given){c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray, c->dstXInBytes, c->dstY, c->dstZ,
                c->dstPitch, c->dstHeight};
        src = (struct given){c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray, c->srcXInBytes, c->srcY, c->srcZ,
                c->srcPitch, c->srcHeight};
        return copy(&dst, &src, &box, stream, sync);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
        return copy_3d(pCopy, NULL, 1);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
        return copy_3d(pCopy, hStream, 0);
}

CUresult dcu_copy_box_of(const CUDA_MEMCPY3D *c, struct dcu_box *ret)
{
        struct given dst, src;
        CUresult r;

        *ret = (struct dcu_box){.width = c->WidthInBytes, .height = c->Height, .depth = c->Depth};
        if (ret->width == 0 || ret->height == 0 || ret->depth == 0)
                return CUDA_ERROR_INVALID_VALUE;
        dst = (struct given){c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray, c->dstXInBytes, c->dstY, c->dstZ,
                c->dstPitch, c->dstHeight};
        src = (struct given){c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray, c->srcXInBytes, c->srcY, c->srcZ,
                c->srcPitch, c->srcHeight};
        r = side_of(&dst, ret, &ret->dst);
        return r == CUDA_SUCCESS ? side_of(&src, ret, &ret->src) : r;
}

static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *c, CUstream stream, int sync)
{
        struct dcu_box box = {.depth = 0};
        struct dcu_context *context;
        struct given dst, src;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!c)
                return CUDA_ERROR_INVALID_VALUE;
        if (c->dstContext)
                r = dcu_context_check(c->dstContext, &context);
        if (r == CUDA_SUCCESS && c->srcContext)
                r = dcu_context_check(c->srcContext, &context);
        if (r != CUDA_SUCCESS)
                return r;
        box.width = c->WidthInBytes;
        box.height = c->Height;
        box.depth = c->Depth;
        dst = (struct given){c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray, c->dstXInBytes, c->dstY, c->dstZ,
                c->dstPitch, c->dstHeight};
        src = (struct given){c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray, c->srcXInBytes, c->srcY, c->srcZ,
                c->srcPitch, c->srcHeight};
        return copy(&dst, &src, &box, stream, sync);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy)
{
        return copy_3d_peer(pCopy, NULL, 1);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
        return copy_3d_peer(pCopy, hStream, 0);
}
