/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps are the same bytes wherever they are made; a device without tensor copies says that it has none
 *
 * The hash that is printed is to be the same natively and under DetShare. On the fake driver (tests/support/fake_cuda)
 * the bytes are known.
 */
#include "program.h"

#define AT 0x7000000000
#define PLAIN                                                                                       \
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, \
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE

static const cuuint64_t dims[5] = {64, 128, 96, 8, 4},
                        strides[4] = {128, 128 * 128, 128 * 128 * 96, 128 * 128 * 96 * 8};
static const cuuint32_t box[5] = {64, 32, 2, 1, 1}, steps[5] = {1, 1, 2, 1, 1};
static const int lower[3] = {-1, -2, 0}, upper[3] = {1, -3, 5};
static uint64_t hash = 14695981039346656037ull;

/* FNV-1a, by Fowler, Noll and Vo */
static void add(const CUtensorMap *map)
{
        const unsigned char *bytes = (const unsigned char *)map;

        for (size_t i = 0; i < sizeof(*map); i++)
                hash = (hash ^ bytes[i]) * 1099511628211ull;
}

static CUresult tiled(CUtensorMap *map, cuuint32_t rank, CUdeviceptr at)
{
        return cuTensorMapEncodeTiled(
                map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, (void *)at, dims, strides, box, steps, PLAIN);
}

static CUresult im2col(CUtensorMap *map, cuuint32_t rank)
{
        return cuTensorMapEncodeIm2col(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, (void *)AT, dims, strides, lower,
                upper, 64, 32, steps, PLAIN);
}

static CUresult wide(CUtensorMap *map, cuuint32_t rank)
{
        return cuTensorMapEncodeIm2colWide(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, (void *)AT, dims, strides, -4, 7,
                64, 32, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W,
                CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* Every argument comes through: what the fake driver writes is what it was given. */
static void check_fake(const CUtensorMap *map, unsigned kind, unsigned rank, uint64_t address)
{
        uint64_t want[16] = {address, kind | (uint64_t)rank << 8 | CU_TENSOR_MAP_DATA_TYPE_FLOAT16 << 16 |
                                              (uint64_t)CU_TENSOR_MAP_SWIZZLE_128B << 32};
        uint32_t halves[10] = {0};

        memcpy(want + 2, dims, rank * sizeof(dims[0]));
        memcpy(want + 7, strides, (rank - 1) * sizeof(strides[0]));
        memcpy(halves, box, rank * sizeof(box[0]));
        memcpy(halves + 5, steps, rank * sizeof(steps[0]));
        if (kind != 1) {
                memset(halves, 0, 5 * sizeof(halves[0]));
                halves[3] = 64;
                halves[4] = 32;
                for (unsigned i = 0; kind == 2 && i < rank - 2; i++)
                        halves[i] = (uint32_t)(uint16_t)lower[i] << 16 | (uint16_t)upper[i];
                if (kind == 3)
                        halves[0] = 0xfffc0007;
        }
        memcpy(want + 11, halves, sizeof(halves));
        CHECK(memcmp(want, map, sizeof(want)) == 0);
}

/* Arguments that make no map leave the one that is there alone. */
static void check_refusals(CUdeviceptr p)
{
        struct {
                CUtensorMap first, second;
        } maps;
        CUtensorMap *map = &maps.first, old;

        memset(&maps, 0x5a, sizeof(maps));
        old = *map;
        EXPECT(CUDA_ERROR_INVALID_VALUE, tiled(map, 9, p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, tiled(map, 6, p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, tiled(map, UINT32_MAX, p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, tiled(map, 0, p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, tiled(map, 2, p + 4));
        EXPECT(CUDA_ERROR_INVALID_VALUE, tiled(NULL, 2, p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, tiled((CUtensorMap *)((char *)map + 32), 2, p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, im2col(map, 6));
        EXPECT(CUDA_ERROR_INVALID_VALUE, im2col(map, 2));
        EXPECT(CUDA_ERROR_INVALID_VALUE, wide(map, 1));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void *)p,
                                                 dims, NULL, box, steps, PLAIN));
        EXPECT(CUDA_ERROR_INVALID_VALUE,
                cuTensorMapEncodeTiled(map, (CUtensorMapDataType)99, 2, (void *)p, dims, strides, box, steps, PLAIN));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuTensorMapReplaceAddress(NULL, (void *)p));
        CHECK(memcmp(map, &old, sizeof(old)) == 0);
}

static void check_maps(CUdeviceptr p)
{
        char name[100] = "";
        CUtensorMap map, again;
        int fake;

        OK(cuDeviceGetName(name, sizeof(name), 0));
        fake = strstr(name, "fake") != NULL;
        for (unsigned rank = 1; rank <= 5; rank++) {
                OK(tiled(&map, rank, AT));
                add(&map);
                if (fake)
                        check_fake(&map, 1, rank, AT);
        }
        for (unsigned rank = 3; rank <= 5; rank++) {
                OK(im2col(&map, rank));
                add(&map);
                if (fake)
                        check_fake(&map, 2, rank, AT);
        }
        if (wide(&map, 4) == CUDA_SUCCESS) { /* a mode that not every GPU has */
                add(&map);
                if (fake)
                        check_fake(&map, 3, 4, AT);
        } else {
                CHECK(!fake);
        }
        printf("maps %llx\n", (unsigned long long)hash);
        OK(tiled(&again, 4, p));
        OK(tiled(&map, 4, AT));
        CHECK(memcmp(&map, &again, sizeof(map)) != 0);
        OK(cuTensorMapReplaceAddress(&map, (void *)p));
        CHECK(memcmp(&map, &again, sizeof(map)) == 0);
}

int main(int argc, char **argv)
{
        CUcontext context;
        CUtensorMap map;
        CUdeviceptr p;
        int has = 0;

        program_begin(argc, argv);
        context = program_context();
        MUST(cuMemAlloc(&p, 256 * 128 * 2));
        OK(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0));
        if (has) {
                check_maps(p);
                check_refusals(p);
        } else {
                EXPECT(CUDA_ERROR_NOT_SUPPORTED, tiled(&map, 2, AT));
                EXPECT(CUDA_ERROR_NOT_SUPPORTED, im2col(&map, 4));
        }
        OK(cuMemFree(p));
        OK(cuCtxDestroy(context));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, tiled(&map, 2, AT));
        return program_end("tensor_maps");
}
