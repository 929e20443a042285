/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor maps are the same bytes wherever they are made; a device without tensor copies says that it has none. */
#include "program.h"

int main(int argc, char **argv)
{
        const cuuint64_t dims[2] = {256, 128}, strides[1] = {512};
        const cuuint32_t box[2] = {64, 32}, steps[2] = {1, 1};
        unsigned long long sum = 0, word[16];
        CUtensorMap map;
        CUdeviceptr p;
        CUcontext context;
        int has = 0;
        CUresult r;

        program_begin(argc, argv);
        context = program_context();
        MUST(cuMemAlloc(&p, 256 * 128 * 2));
        OK(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0));
        memset(&map, 0, sizeof(map));
        r = cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void *)0x7000000000, dims, strides, box,
                steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        CHECK(r == (has ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED));
        memcpy(word, &map, sizeof(word));
        for (int i = 0; i < 16; i++)
                sum = sum * 31 + word[i];
        if (has) {
                CHECK(sum != 0);
                printf("map %llx\n", sum);
                OK(cuTensorMapReplaceAddress(&map, (void *)p));
                CHECK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 9, (void *)p, dims, strides, box,
                              steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                              CU_TENSOR_MAP_L2_PROMOTION_NONE,
                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_ERROR_INVALID_VALUE);
        }
        OK(cuMemFree(p));
        OK(cuCtxDestroy(context));
        return program_end("tensor_maps");
}
