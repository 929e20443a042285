/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps
 *
 * The driver computes them from the arguments alone; it needs a current context, allocates nothing and stops nothing.
 * It reads arrays of this process, with as many elements as a tensor can have dimensions, so a higher rank is refused
 * here. So are arguments that a C program could only produce with a wrong pointer or a value outside the enumeration:
 * elsewhere the driver's reaction is the program's own risk, but this driver serves all sessions.
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

/* Bits of the arrays that the map requires; `strides` has one element less than dimensions, so rank 1 needs none. */
static uint32_t tensor_needs(const struct ds_tensor_map *ask)
{
        uint32_t needs = DS_TENSOR_DIMS | DS_TENSOR_STEPS;

        if (ask->rank > 1)
                needs |= DS_TENSOR_STRIDES;
        if (ask->kind == DS_TENSOR_MAP_TILED)
                needs |= DS_TENSOR_BOX;
        if (ask->kind == DS_TENSOR_MAP_IM2COL)
                needs |= DS_TENSOR_LOWER | DS_TENSOR_UPPER;
        return needs;
}

static int tensor_is_whole(const struct ds_tensor_map *ask)
{
        if (ask->kind == DS_TENSOR_MAP_REPLACE)
                return 1;
        return (ask->given & tensor_needs(ask)) == tensor_needs(ask) &&
               ask->data_type <= CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B &&
               ask->interleave <= CU_TENSOR_MAP_INTERLEAVE_32B && ask->mode <= CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128 &&
               ask->swizzle <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B &&
               ask->promotion <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
               ask->fill <= CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
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
        CUtensorMap copy; /* aligned to 64 bytes, as the driver requires; the caller's `map` may not be */
        CUresult result;

        _Static_assert(sizeof(copy) == DS_TENSOR_MAP_BYTES, "the size of a tensor map");
        if (device->lost)
                return (int)device->lost;
        if (ask->rank > DS_TENSOR_RANK_MAX || !tensor_is_whole(ask))
                return DS_CUDA_INVALID_VALUE;
        memcpy(&copy, map, sizeof(copy));
        result = tensor_make(device, ask, &copy);
        if (result)
                return (int)result; /* not logged: wrong arguments are the client's fault */
        memcpy(map, &copy, sizeof(copy));
        return 0;
}
