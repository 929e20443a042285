/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemGetInfo is exact: every kind of device memory counts, all free memory can be allocated, and one byte more gives
 * only CUDA_ERROR_OUT_OF_MEMORY. The environment variable MEMORY_LIMIT_BYTES states the expected total.
 */
#include "program.h"

#define MIB ((size_t)1 << 20)

static CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};

static size_t free_bytes(void)
{
        size_t available = 0, total = 0;

        OK(cuMemGetInfo(&available, &total));
        CHECK(available <= total);
        return available;
}

static void check_limit(size_t limit)
{
        CUmemGenericAllocationHandle handle, other;
        CUdeviceptr p, q;
        size_t available = 0, total = 0;

        OK(cuMemGetInfo(&available, &total));
        CHECK(total == limit && available == limit);
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, limit + 1));
        MUST(cuMemAlloc(&p, limit / 2));
        CHECK(free_bytes() == limit / 2);
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&q, limit / 2 + 512));
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&handle, limit / 2 + 2 * MIB, &prop, 0));
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&q, limit / 2 + 2 * MIB, NULL));
        MUST(cuMemCreate(&handle, limit / 2, &prop, 0));
        CHECK(free_bytes() == 0);
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&other, 2 * MIB, &prop, 0));
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&q, 512));
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&q, 512, NULL));
        OK(cuMemRelease(handle));
        MUST(cuMemAllocAsync(&q, limit / 4, NULL));
        CHECK(free_bytes() <= limit / 4); /* a pool may reserve more than requested */
        OK(cuMemFreeAsync(q, NULL));
        OK(cuCtxSynchronize());
        OK(cuMemFree(p));
        CHECK(free_bytes() == limit);
}

int main(int argc, char **argv)
{
        const char *limit = getenv("MEMORY_LIMIT_BYTES");
        CUcontext context;
        CUdeviceptr p;
        size_t before, after;

        program_begin(argc, argv);
        context = program_context();
        if (limit)
                check_limit(strtoull(limit, NULL, 0));
        before = free_bytes();
        MUST(cuMemAlloc(&p, 32 * MIB));
        after = free_bytes();
        /* without a limit other processes allocate and free too */
        CHECK(limit ? before - after == 32 * MIB : before > 0 && after > 0);
        OK(cuMemFree(p));
        OK(cuCtxDestroy(context));
        return program_end("memory_limit");
}
