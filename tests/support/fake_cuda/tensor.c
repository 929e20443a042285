/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver: tensor maps
 *
 * Arguments are checked against cuda.h. A map has sixteen words: the address; kind, rank and enums, one byte each; five
 * sizes; four strides; then ten halves: five of the box and five steps. A map without a box has three corners instead
 * (the lower one in the upper 16 bits), channels and pixels. tests/programs/tensor_maps.c relies on this layout.
 */
#include <string.h>

#include "tests/support/fake_cuda/fake.h"

#define RANK_MAX 5u

struct fake_map {
        uint64_t address;
        uint8_t kind, rank, type, interleave, swizzle, promotion, fill, mode;
        uint64_t dims[RANK_MAX], strides[RANK_MAX - 1];
        uint32_t box[RANK_MAX], steps[RANK_MAX];
};

_Static_assert(sizeof(struct fake_map) == sizeof(CUtensorMap), "a map is 128 bytes");

enum { TILED = 1, IM2COL, WIDE };

/* Arguments common to all three kinds. */
static CUresult map_begin(struct fake_map *map, unsigned kind, CUtensorMapDataType type, cuuint32_t rank,
        const void *address, const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *steps)
{
        *map = (struct fake_map){
                .address = (uintptr_t)address, .kind = (uint8_t)kind, .rank = (uint8_t)rank, .type = (uint8_t)type};
        if (!rank || rank > RANK_MAX || (kind != TILED && rank < 3) || !dims || !steps || (rank > 1 && !strides))
                return CUDA_ERROR_INVALID_VALUE;
        if ((unsigned)type > CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B || map->address % 16)
                return CUDA_ERROR_INVALID_VALUE;
        for (uint32_t i = 0; i < rank; i++) {
                if (!dims[i] || dims[i] > UINT64_C(1) << 32 || !steps[i] || steps[i] > 8)
                        return CUDA_ERROR_INVALID_VALUE;
                map->dims[i] = dims[i];
                map->steps[i] = steps[i];
        }
        for (uint32_t i = 0; i + 1 < rank; i++) {
                if (strides[i] % 16 || strides[i] >= UINT64_C(1) << 40)
                        return CUDA_ERROR_INVALID_VALUE;
                map->strides[i] = strides[i];
        }
        return CUDA_SUCCESS;
}

static CUresult map_end(CUtensorMap *ret, struct fake_map *map, CUtensorMapInterleave interleave,
        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
        if (!ret || (uintptr_t)ret % 64 || (unsigned)interleave > CU_TENSOR_MAP_INTERLEAVE_32B ||
                (unsigned)swizzle > CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B ||
                (unsigned)promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B ||
                (unsigned)fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
                return CUDA_ERROR_INVALID_VALUE;
        if (interleave && map->rank < 3)
                return CUDA_ERROR_INVALID_VALUE;
        map->interleave = (uint8_t)interleave;
        map->swizzle = (uint8_t)swizzle;
        map->promotion = (uint8_t)promotion;
        map->fill = (uint8_t)fill;
        memcpy(ret, map, sizeof(*map));
        return CUDA_SUCCESS;
}

static void map_corner(struct fake_map *map, uint32_t i, int lower, int upper)
{
        map->box[i] = (uint32_t)(uint16_t)lower << 16 | (uint16_t)upper;
}

FAKE_API cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType type, cuuint32_t rank, void *address,
        const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps,
        CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
        CUtensorMapFloatOOBfill fill)
{
        struct fake_map map;
        CUresult r;

        FAKE_ENTER(cuTensorMapEncodeTiled, CONTEXT);
        r = map_begin(&map, TILED, type, rank, address, dims, strides, steps);
        if (r || !box)
                return CUDA_ERROR_INVALID_VALUE;
        for (uint32_t i = 0; i < rank; i++) {
                if (!box[i] || box[i] > 256)
                        return CUDA_ERROR_INVALID_VALUE;
                map.box[i] = box[i];
        }
        return map_end(tensorMap, &map, interleave, swizzle, promotion, fill);
}

FAKE_API cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType type, cuuint32_t rank, void *address,
        const cuuint64_t *dims, const cuuint64_t *strides, const int *lower, const int *upper, cuuint32_t channels,
        cuuint32_t pixels, const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
        CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
        struct fake_map map;
        CUresult r;

        FAKE_ENTER(cuTensorMapEncodeIm2col, CONTEXT);
        r = map_begin(&map, IM2COL, type, rank, address, dims, strides, steps);
        if (r || !lower || !upper || channels > 256 || pixels > 1024)
                return CUDA_ERROR_INVALID_VALUE;
        for (uint32_t i = 0; i + 2 < rank; i++)
                map_corner(&map, i, lower[i], upper[i]);
        map.box[3] = channels;
        map.box[4] = pixels;
        return map_end(tensorMap, &map, interleave, swizzle, promotion, fill);
}

FAKE_API cuTensorMapEncodeIm2colWide(CUtensorMap *tensorMap, CUtensorMapDataType type, cuuint32_t rank, void *address,
        const cuuint64_t *dims, const cuuint64_t *strides, int lower, int upper, cuuint32_t channels, cuuint32_t pixels,
        const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
        struct fake_map map;
        CUresult r;

        FAKE_ENTER(cuTensorMapEncodeIm2colWide, CONTEXT);
        r = map_begin(&map, WIDE, type, rank, address, dims, strides, steps);
        if (r || channels > 256 || pixels > 1024 || (unsigned)mode > CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128)
                return CUDA_ERROR_INVALID_VALUE;
        map_corner(&map, 0, lower, upper);
        map.box[3] = channels;
        map.box[4] = pixels;
        map.mode = (uint8_t)mode;
        return map_end(tensorMap, &map, interleave, swizzle, promotion, fill);
}

FAKE_API cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *address)
{
        struct fake_map map;

        FAKE_ENTER(cuTensorMapReplaceAddress, CONTEXT);
        if (!tensorMap || (uintptr_t)tensorMap % 64 || (uintptr_t)address % 16)
                return CUDA_ERROR_INVALID_VALUE;
        memcpy(&map, tensorMap, sizeof(map));
        map.address = (uintptr_t)address;
        memcpy(tensorMap, &map, sizeof(map));
        return CUDA_SUCCESS;
}
