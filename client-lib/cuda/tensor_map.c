/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps: descriptions of tensors that the GPU's bulk copies read
 *
 * A map is 128 opaque bytes, made from its arguments alone: no context is asked, and the address in it is the same here
 * and in the daemon. What the bytes mean is the driver's secret, so the machine's own driver makes them. A simulated
 * device executes no tensor copies and has no maps.
 */
#include <string.h>

#include "cuda/genuine.h"
#include "cuda/state.h"

/* The driver's function into *ret, where there is one. */
static CUresult driver_function(const char *name, void *ret)
{
        const struct dsc_device *device;
        CUresult r = dcu_enter_process();
        void *symbol;

        if (r != CUDA_SUCCESS)
                return r;
        device = atomic_load(&dcu.device);
        if (device->simulated || dcu_genuine_start(device->uuid) != CUDA_SUCCESS)
                return (CUresult)dcu_unsupported(name);
        symbol = dcu_genuine_symbol(name);
        if (!symbol)
                return CUDA_ERROR_NOT_SUPPORTED;
        memcpy(ret, &symbol, sizeof(symbol));
        return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
        void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides, const cuuint32_t *boxDim,
        const cuuint32_t *elementStrides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
        CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
        typeof(cuTensorMapEncodeTiled) *function;
        CUresult r = driver_function("cuTensorMapEncodeTiled", &function);

        return r == CUDA_SUCCESS
                       ? function(tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
                                 boxDim, elementStrides, interleave, swizzle, l2Promotion, oobFill)
                       : r;
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
        void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
        const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
        cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
        typeof(cuTensorMapEncodeIm2col) *function;
        CUresult r = driver_function("cuTensorMapEncodeIm2col", &function);

        return r == CUDA_SUCCESS ? function(tensorMap, tensorDataType, tensorRank, globalAddress, globalDim,
                                           globalStrides, pixelBoxLowerCorner, pixelBoxUpperCorner, channelsPerPixel,
                                           pixelsPerColumn, elementStrides, interleave, swizzle, l2Promotion, oobFill)
                                 : r;
}

CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
        void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides, int pixelBoxLowerCornerWidth,
        int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
        const cuuint32_t *elementStrides, CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
        typeof(cuTensorMapEncodeIm2colWide) *function;
        CUresult r = driver_function("cuTensorMapEncodeIm2colWide", &function);

        return r == CUDA_SUCCESS
                       ? function(tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
                                 pixelBoxLowerCornerWidth, pixelBoxUpperCornerWidth, channelsPerPixel, pixelsPerColumn,
                                 elementStrides, interleave, mode, swizzle, l2Promotion, oobFill)
                       : r;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress)
{
        typeof(cuTensorMapReplaceAddress) *function;
        CUresult r = driver_function("cuTensorMapReplaceAddress", &function);

        return r == CUDA_SUCCESS ? function(tensorMap, globalAddress) : r;
}
