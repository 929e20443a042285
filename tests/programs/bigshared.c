/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic shared memory beyond 48 KiB: refused until the function attribute allows it, then up to the device's limit
 */
#include "program.h"

#define THREADS 256u
#define BLOCKS 4u

static unsigned int expected(unsigned int thread, unsigned int words, unsigned int seed)
{
        unsigned int sum = 0;

        for (unsigned int i = thread; i < words; i += THREADS)
                sum += ((words - 1 - i + seed) * 2654435761u) ^ i;
        return sum;
}

static void run(CUfunction f, unsigned int bytes, unsigned int seed)
{
        static unsigned int out[BLOCKS * THREADS];
        unsigned int words = bytes / 4;
        CUdeviceptr p;
        void *params[] = {&p, &words, &seed};
        int wrong = 0;

        MUST(cuMemAlloc(&p, sizeof(out)));
        OK(cuLaunchKernel(f, BLOCKS, 1, 1, THREADS, 1, 1, bytes, NULL, params, NULL));
        OK(cuMemcpyDtoH(out, p, sizeof(out)));
        for (unsigned int i = 0; i < BLOCKS * THREADS; i++)
                wrong += out[i] != expected(i % THREADS, words, seed);
        CHECK(wrong == 0);
        OK(cuMemFree(p));
}

int main(int argc, char **argv)
{
        CUcontext context;
        CUfunction f;
        CUdeviceptr p = 0;
        unsigned int words = 1, seed = 1;
        void *params[] = {&p, &words, &seed};
        int most = 0, plain = 0, value = 0, blocks = 0;

        program_begin(argc, argv);
        context = program_context();
        f = program_function(program_module("bigshared"), "fill_shared");
        OK(cuDeviceGetAttribute(&plain, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 0));
        OK(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
        CHECK(plain == 48 << 10 && most >= plain);
        run(f, (unsigned int)plain, 1);
        OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
        CHECK(value == plain);
        EXPECT(CUDA_ERROR_INVALID_VALUE,
                cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, (unsigned int)plain + 4, NULL, params, NULL));
        EXPECT(CUDA_ERROR_INVALID_VALUE,
                cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most + 1));
        OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most));
        OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
        CHECK(value == most);
        run(f, (unsigned int)most, 2);
        run(f, (unsigned int)most / 2 & ~3u, 3);
        run(f, 1024, 4);
        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, (int)THREADS, (size_t)most));
        CHECK(blocks == 1);
        EXPECT(CUDA_ERROR_INVALID_VALUE,
                cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, (unsigned int)most + 4, NULL, params, NULL));
        OK(cuCtxDestroy(context));
        return program_end("bigshared");
}
