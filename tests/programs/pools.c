/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered allocation: freed memory can be allocated again in the same stream at once, and in another one only in
 * order; pools, their attributes, reserved and released memory, errors
 */
#include "program.h"

#define N 1024

static CUfunction add;

static uint64_t figure(CUmemoryPool pool, CUmemPool_attribute attribute)
{
        uint64_t value = 77;

        OK(cuMemPoolGetAttribute(pool, attribute, &value));
        return value;
}

static void run_add(CUdeviceptr p, int v, CUstream stream)
{
        int n = N;
        void *params[] = {&p, &n, &v};

        OK(cuLaunchKernel(add, N / 256, 1, 1, 256, 1, 1, 0, stream, params, NULL));
}

/* Allocates, works and frees repeatedly: the same memory is reused, and results are right. */
static void check_reuse(CUmemoryPool pool)
{
        CUdeviceptr first = 0, p;
        CUstream stream;
        int out[N], again = 0;

        MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        for (int round = 0; round < 50; round++) {
                MUST(cuMemAllocAsync(&p, sizeof(out), stream));
                first = first ? first : p;
                again += p == first;
                OK(cuMemsetD32Async(p, (unsigned int)round, N, stream));
                run_add(p, 5, stream);
                if (round % 10 == 9) {
                        OK(cuMemcpyDtoHAsync(out, p, sizeof(out), stream));
                        OK(cuStreamSynchronize(stream));
                        for (int i = 0; i < N; i++)
                                CHECK(out[i] == round + 5);
                }
                OK(cuMemFreeAsync(p, stream));
        }
        CHECK(again > 10);
        OK(cuStreamSynchronize(stream));
        CHECK(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
        CHECK(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
        OK(cuStreamDestroy(stream));
}

/* One stream frees memory that the other then allocates: no allocation sees another's writes, in any order of the
 * device. */
static void check_two_streams(void)
{
        CUdeviceptr a[8], b;
        CUstream one, two;
        int out[N];

        MUST(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
        MUST(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
        for (int round = 0; round < 20; round++) {
                for (int i = 0; i < 8; i++) {
                        MUST(cuMemAllocAsync(&a[i], sizeof(out), one));
                        OK(cuMemsetD32Async(a[i], 1, N, one));
                        run_add(a[i], i, one);
                }
                for (int i = 0; i < 8; i++)
                        OK(cuMemFreeAsync(a[i], one));
                MUST(cuMemAllocAsync(&b, sizeof(out), two));
                OK(cuMemsetD32Async(b, 100, N, two));
                run_add(b, round, two);
                OK(cuMemcpyDtoHAsync(out, b, sizeof(out), two));
                OK(cuStreamSynchronize(two));
                for (int i = 0; i < N; i++)
                        CHECK(out[i] == 100 + round);
                OK(cuMemFreeAsync(b, two));
        }
        OK(cuCtxSynchronize());
        OK(cuStreamDestroy(one));
        OK(cuStreamDestroy(two));
}

static CUmemoryPool own_pool(void)
{
        CUmemPoolProps props;
        CUmemoryPool pool;

        memset(&props, 0, sizeof(props));
        props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        MUST(cuMemPoolCreate(&pool, &props));
        return pool;
}

static void check_keeping(void)
{
        uint64_t all = UINT64_MAX, none = 0, held, used;
        CUmemoryPool pool = own_pool(), of;
        CUdeviceptr p, q;

        OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
        CHECK(figure(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == UINT64_MAX);
        MUST(cuMemAllocFromPoolAsync(&p, 3 << 20, pool, NULL));
        MUST(cuMemAllocFromPoolAsync(&q, 1000, pool, NULL));
        OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
        CHECK(of == pool);
        held = figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
        CHECK(held >= (3 << 20) + 1000 && figure(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == held);
        OK(cuMemFreeAsync(p, NULL));
        OK(cuMemFree(q));
        OK(cuCtxSynchronize());
        /* a driver may count memory freed by cuMemFree until it next inspects the pool */
        used = figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
        CHECK(used <= held);
        CHECK(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == held);
        CHECK(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= held);
        OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &none));
        CHECK(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == used);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &all));
        OK(cuMemPoolTrimTo(pool, 0));
        CHECK(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
        MUST(cuMemAllocFromPoolAsync(&p, 100, pool, NULL));
        /* memory that was allocated from the destroyed pool stays valid until it is freed */
        OK(cuMemPoolDestroy(pool));
        OK(cuMemsetD8(p, 1, 100));
        OK(cuMemFreeAsync(p, NULL));
        OK(cuCtxSynchronize());
}

static void check_current(void)
{
        CUmemoryPool standard, pool = own_pool(), now;
        CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
        CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
        CUdeviceptr p;

        OK(cuDeviceGetDefaultMemPool(&standard, 0));
        OK(cuDeviceGetMemPool(&now, 0));
        CHECK(now == standard);
        OK(cuDeviceSetMemPool(0, pool));
        OK(cuDeviceGetMemPool(&now, 0));
        CHECK(now == pool);
        MUST(cuMemAllocAsync(&p, 4096, NULL));
        CHECK(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 4096);
        OK(cuMemFreeAsync(p, NULL));
        OK(cuMemPoolGetAccess(&access, pool, &here));
        CHECK(access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        OK(cuCtxSynchronize());
        OK(cuMemPoolDestroy(pool));
        OK(cuDeviceGetMemPool(&now, 0));
        CHECK(now == standard);
}

static void check_errors(void)
{
        CUmemoryPool standard;
        CUmemPoolProps props;
        CUdeviceptr p;

        OK(cuDeviceGetDefaultMemPool(&standard, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocAsync(NULL, 100, NULL));
        p = 1;
        OK(cuMemAllocAsync(&p, 0, NULL));
        CHECK(p == 0);
        OK(cuMemFreeAsync(0, NULL));
        MUST(cuMemAllocAsync(&p, 100, NULL));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p + 8, NULL));
        OK(cuMemFreeAsync(p, NULL));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, NULL));
        OK(cuCtxSynchronize());
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&p, (size_t)1 << 46, NULL));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(standard));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(NULL, NULL));
        memset(&props, 0, sizeof(props));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&standard, &props));
        /* memory of cuMemAlloc can be freed in stream order too */
        MUST(cuMemAlloc(&p, 1000));
        OK(cuMemFreeAsync(p, NULL));
        OK(cuCtxSynchronize());
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
}

int main(int argc, char **argv)
{
        CUcontext context;
        CUmemoryPool standard;
        int supported = 0;

        program_begin(argc, argv);
        context = program_context();
        OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
        CHECK(supported == 1);
        add = program_function(program_module("prog_basic"), "prog_add");
        OK(cuDeviceGetDefaultMemPool(&standard, 0));
        check_reuse(standard);
        check_two_streams();
        check_keeping();
        check_current();
        check_errors();
        OK(cuCtxDestroy(context));
        return program_end("pools");
}
