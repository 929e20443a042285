/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps: descriptions of tensors for the GPU's bulk copies
 *
 * A map is 128 opaque bytes, made from its arguments alone; its address is the same here and in the daemon. Only the
 * driver knows the format, and makes maps only within a context. So this library requests each map from the daemon,
 * once per map while it is cached (tensor_cache.h). A simulated device executes no tensor copies and has no maps.
 */
#include <string.h>

#include "cuda/context.h"
#include "cuda/state.h"
#include "cuda/tensor_cache.h"

#define MAP_ALIGNMENT 64u

static int ask_once(dsc_session *session, const struct dsc_tensor_map *ask, uint8_t bytes[DSC_TENSOR_MAP_BYTES])
{
        struct dcu_tensor_key key;
        const int known = dcu_tensor_key(session, ask, bytes, &key);
        int r;

        if (known && !dsc_lost(session) && dcu_tensor_cache_find(&key, bytes))
                return 0;
        r = dsc_tensor_map(session, ask, bytes);
        if (known && !r)
                dcu_tensor_cache_put(&key, bytes);
        return r;
}

static CUresult make(const char *name, CUtensorMap *map, const struct dsc_tensor_map *ask)
{
        struct dcu_context *context;
        uint8_t bytes[DSC_TENSOR_MAP_BYTES];
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (atomic_load(&dcu.device)->simulated)
                return (CUresult)dcu_unsupported(name);
        if (!map || (uintptr_t)map % MAP_ALIGNMENT)
                return CUDA_ERROR_INVALID_VALUE;
        memcpy(bytes, map, sizeof(bytes));
        r = dcu_result(ask_once(dcu.session, ask, bytes));
        if (r == CUDA_SUCCESS)
                memcpy(map, bytes, sizeof(bytes));
        return r;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
        void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides, const cuuint32_t *boxDim,
        const cuuint32_t *elementStrides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
        CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
        const struct dsc_tensor_map ask = {.kind = DSC_TENSOR_MAP_TILED,
                .data_type = (uint32_t)tensorDataType,
                .rank = tensorRank,
                .address = (uintptr_t)globalAddress,
                .dims = globalDim,
                .strides = globalStrides,
                .box = boxDim,
                .steps = elementStrides,
                .interleave = (uint32_t)interleave,
                .swizzle = (uint32_t)swizzle,
                .promotion = (uint32_t)l2Promotion,
                .fill = (uint32_t)oobFill};

        return make("cuTensorMapEncodeTiled", tensorMap, &ask);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
        void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
        const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
        cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
        const struct dsc_tensor_map ask = {.kind = DSC_TENSOR_MAP_IM2COL,
                .data_type = (uint32_t)tensorDataType,
                .rank = tensorRank,
                .address = (uintptr_t)globalAddress,
                .dims = globalDim,
                .strides = globalStrides,
                .steps = elementStrides,
                .lower = pixelBoxLowerCorner,
                .upper = pixelBoxUpperCorner,
                .channels = channelsPerPixel,
                .pixels = pixelsPerColumn,
                .interleave = (uint32_t)interleave,
                .swizzle = (uint32_t)swizzle,
                .promotion = (uint32_t)l2Promotion,
                .fill = (uint32_t)oobFill};

        return make("cuTensorMapEncodeIm2col", tensorMap, &ask);
}

CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
        void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides, int pixelBoxLowerCornerWidth,
        int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
        const cuuint32_t *elementStrides, CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
        const struct dsc_tensor_map ask = {.kind = DSC_TENSOR_MAP_IM2COL_WIDE,
                .data_type = (uint32_t)tensorDataType,
                .rank = tensorRank,
                .address = (uintptr_t)globalAddress,
                .dims = globalDim,
                .strides = globalStrides,
                .steps = elementStrides,
                .lower = &pixelBoxLowerCornerWidth,
                .upper = &pixelBoxUpperCornerWidth,
                .channels = channelsPerPixel,
                .pixels = pixelsPerColumn,
                .interleave = (uint32_t)interleave,
                .mode = (uint32_t)mode,
                .swizzle = (uint32_t)swizzle,
                .promotion = (uint32_t)l2Promotion,
                .fill = (uint32_t)oobFill};

        return make("cuTensorMapEncodeIm2colWide", tensorMap, &ask);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress)
{
        const struct dsc_tensor_map ask = {.kind = DSC_TENSOR_MAP_REPLACE, .address = (uintptr_t)globalAddress};

        return make("cuTensorMapReplaceAddress", tensorMap, &ask);
}
