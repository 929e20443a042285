/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory: host and kernels access the same bytes at one address; hints, their attributes, errors */
#include "program.h"

#define N 2048
#define LARGE ((size_t)4 << 20)
#define UNUSED 20

static CUfunction add;

static void run_add(CUdeviceptr p, int n, int v)
{
        void *params[] = {&p, &n, &v};

        OK(cuLaunchKernel(add, N / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
}

static void check_bytes(CUdeviceptr p)
{
        int *host = (int *)(uintptr_t)p, out[N];

        for (int i = 0; i < N; i++)
                host[i] = i;
        run_add(p, N, 10);
        OK(cuCtxSynchronize());
        for (int i = 0; i < N; i++)
                CHECK(host[i] == i + 10);
        host[0] = 1000;
        OK(cuMemcpyDtoH(out, p, sizeof(out)));
        CHECK(out[0] == 1000 && out[1] == 11);
        OK(cuMemsetD32(p, 7, N));
        OK(cuCtxSynchronize());
        CHECK(host[0] == 7 && host[N - 1] == 7);
}

static void check_attributes(CUdeviceptr p)
{
        unsigned int managed = 0, type = 0;
        uint64_t base = 0, device = 0;
        void *host = NULL;

        OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p + 4));
        OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 4));
        OK(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 4));
        OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p + 4));
        OK(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, p + 4));
        CHECK(managed == 1 && type == CU_MEMORYTYPE_DEVICE && base == p);
        CHECK(device == p + 4 && host == (void *)(uintptr_t)(p + 4));
}

static void check_hints(CUdeviceptr p)
{
        CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
        CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST, .id = 0};
        size_t bytes = N * sizeof(int);
        int value = -7, concurrent = 0;

        OK(cuMemRangeGetAttribute(&value, sizeof(value), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, bytes));
        CHECK(value == 0);
        OK(cuMemAdvise(p, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
        OK(cuMemRangeGetAttribute(&value, sizeof(value), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, bytes));
        CHECK(value == 1);
        OK(cuMemAdvise(p, bytes, CU_MEM_ADVISE_UNSET_READ_MOSTLY, here));
        OK(cuMemAdvise(p, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
        OK(cuMemRangeGetAttribute(&value, sizeof(value), CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, bytes));
        CHECK(value == CU_DEVICE_CPU);
        OK(cuMemAdvise(p, bytes, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, host));
        OK(cuMemPrefetchAsync(p, bytes, host, 0, NULL));
        OK(cuCtxSynchronize());
        OK(cuMemRangeGetAttribute(&value, sizeof(value), CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, bytes));
        CHECK(value == CU_DEVICE_CPU);
        OK(cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0));
        if (concurrent)
                OK(cuMemPrefetchAsync(p, bytes, here, 0, NULL));
        EXPECT(CUDA_ERROR_INVALID_VALUE,
                cuMemRangeGetAttribute(&value, 1, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, bytes));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(p, bytes, (CUmem_advise)99, here));
}

/* Memory that the host writes before the GPU uses it keeps these bytes, and is zero elsewhere. Unused memory can be
 * freed, however much there is. */
static void check_large(void)
{
        CUdeviceptr large, unused[UNUSED];
        size_t words = LARGE / sizeof(int);
        int *host;

        for (int i = 0; i < UNUSED; i++)
                OK(cuMemAllocManaged(&unused[i], LARGE, CU_MEM_ATTACH_GLOBAL));
        MUST(cuMemAllocManaged(&large, LARGE, CU_MEM_ATTACH_GLOBAL));
        host = (int *)(uintptr_t)large;
        host[0] = 5;
        host[words - 1] = 6;
        run_add(large, N, 10);
        run_add(large + LARGE - N * sizeof(int), N, 10);
        OK(cuCtxSynchronize());
        CHECK(host[0] == 15 && host[N - 1] == 10 && host[N] == 0);
        CHECK(host[words / 2] == 0 && host[words - N] == 10 && host[words - 1] == 16);
        OK(cuMemFree(large));
        for (int i = 0; i < UNUSED; i++)
                OK(cuMemFree(unused[i]));
}

int main(int argc, char **argv)
{
        CUcontext context;
        CUdeviceptr p, q;
        int supported = 0;

        program_begin(argc, argv);
        context = program_context();
        OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0));
        add = program_function(program_module("prog_basic"), "prog_add");
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&p, 0, CU_MEM_ATTACH_GLOBAL));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&p, 100, 0));
        if (!supported) { /* a session without shared memory has no managed memory */
                EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemAllocManaged(&p, 100, CU_MEM_ATTACH_GLOBAL));
                OK(cuCtxDestroy(context));
                return program_end("managed");
        }
        MUST(cuMemAllocManaged(&p, N * sizeof(int), CU_MEM_ATTACH_GLOBAL));
        MUST(cuMemAllocManaged(&q, 4096, CU_MEM_ATTACH_HOST));
        check_bytes(p);
        check_attributes(p);
        check_hints(p);
        check_large();
        OK(cuMemFree(p));
        OK(cuMemFree(q));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
        OK(cuCtxDestroy(context));
        return program_end("managed");
}
