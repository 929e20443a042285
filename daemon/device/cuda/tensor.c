/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps
 *
 * The driver writes them, from the arguments alone; it wants a current context and takes and stops nothing. It is given
 * arrays of ours with as many elements as a tensor can have dimensions, so a rank beyond that is refused here.
 */
#include <string.h>

#include "device/cuda/internal.h"

#define GIVEN(ask, bit, array) ((ask)->given & DS_TENSOR_##bit ? (ask)->array : NULL)

static CUresult tensor_tiled(ds_device *device, const struct ds_tensor_map *ask, CUtensorMap *map)
{
        return CU(device, cuTensorMapEncodeTiled)(map, (CUtensorMapDataType)ask->data_type, ask->rank,
                (void *)(uintptr_t)ask->address, GIVEN(ask, DIMS, dims), GIVEN(ask, STRIDES, strides),
                GIVEN(ask, BOX, box), GIVEN(ask, STEPS, steps), (CUtensorMapInterleave)ask->interleave,
                (CUtensorMapSwizzle)ask->swizzle, (CUtensorMapL2promotion)ask->promotion,
                (CUtensorMapFloatOOBfill)ask->fill);
}

static CUresult tensor_im2col(ds_device *device, const struct ds_tensor_map *ask, CUtensorMap *map)
{
        return CU(device, cuTensorMapEncodeIm2col)(map, (CUtensorMapDataType)ask->data_type, ask->rank,
                (void *)(uintptr_t)ask->address, GIVEN(ask, DIMS, dims), GIVEN(ask, STRIDES, strides),
                GIVEN(ask, LOWER, lower), GIVEN(ask, UPPER, upper), ask->channels, ask->pixels,
                GIVEN(ask, STEPS, steps), (CUtensorMapInterleave)ask->interleave, (CUtensorMapSwizzle)ask->swizzle,
                (CUtensorMapL2promotion)ask->promotion, (CUtensorMapFloatOOBfill)ask->fill);
}

static CUresult tensor_wide(ds_device *device, const struct ds_tensor_map *ask, CUtensorMap *map)
{
        return CU(device, cuTensorMapEncodeIm2colWide)(map, (CUtensorMapDataType)ask->data_type, ask->rank,
                (void *)(uintptr_t)ask->address, GIVEN(ask, DIMS, dims), GIVEN(ask, STRIDES, strides), ask->lower[0],
                ask->upper[0], ask->channels, ask->pixels, GIVEN(ask, STEPS, steps),
                (CUtensorMapInterleave)ask->interleave, (CUtensorMapIm2ColWideMode)ask->mode,
                (CUtensorMapSwizzle)ask->swizzle, (CUtensorMapL2promotion)ask->promotion,
                (CUtensorMapFloatOOBfill)ask->fill);
}

static CUresult tensor_make(ds_device *device, const struct ds_tensor_map *ask, CUtensorMap *map)
{
        switch (ask->kind) {
        case DS_TENSOR_MAP_TILED:
                return tensor_tiled(device, ask, map);
        case DS_TENSOR_MAP_IM2COL:
                return tensor_im2col(device, ask, map);
        case DS_TENSOR_MAP_IM2COL_WIDE:
                return tensor_wide(device, ask, map);
        case DS_TENSOR_MAP_REPLACE:
                return CU(device, cuTensorMapReplaceAddress)(map, (void *)(uintptr_t)ask->address);
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

int cuda_tensor_map(ds_device *device, const struct ds_tensor_map *ask, uint8_t map[DS_TENSOR_MAP_BYTES])
{
        CUtensorMap copy; /* aligned as the driver wants it */
        CUresult result;

        _Static_assert(sizeof(copy) == DS_TENSOR_MAP_BYTES, "the size of a tensor map");
        if (device->lost)
                return (int)device->lost;
        if (ask->rank > DS_TENSOR_RANK_MAX)
                return DS_CUDA_INVALID_VALUE;
        memcpy(&copy, map, sizeof(copy));
        result = tensor_make(device, ask, &copy);
        if (result)
                return (int)result; /* the arguments were wrong, which is nobody's fault but the client's */
        memcpy(map, &copy, sizeof(copy));
        return 0;
}
