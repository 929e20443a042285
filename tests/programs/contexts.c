/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: the stack of current contexts, the primary context, objects of destroyed contexts, flags, limits, calls
 * without a context */
#include "program.h"

static CUcontext current(void)
{
        CUcontext context = (CUcontext)8;

        OK(cuCtxGetCurrent(&context));
        return context;
}

static void check_without(void)
{
        CUcontext context;
        CUdeviceptr p;
        CUstream stream;
        CUevent event;
        CUdevice device;
        unsigned int flags;
        size_t n;

        CHECK(current() == NULL);
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&p, 16));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuStreamCreate(&stream, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&stream, 99));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuEventCreate(&event, 0));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice(&device));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetFlags(&flags));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&context));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxPushCurrent(NULL));
        EXPECT(CUDA_SUCCESS, cuCtxSetCurrent(NULL));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxDestroy(NULL));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetApiVersion(NULL, &flags));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetLimit(&n, CU_LIMIT_STACK_SIZE));
        EXPECT(CUDA_SUCCESS, cuMemFree(0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(0x1000));
        EXPECT(CUDA_SUCCESS, cuMemFreeHost(NULL));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuStreamSynchronize(NULL));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemGetInfo(&n, &n));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

static void check_stack(void)
{
        CUcontext a, b, popped;
        unsigned long long id_a = 0, id_b = 0;
        unsigned int flags = 99, version = 0;
        CUdevice device = -1;
        CUresult r;

        EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxCreate(&a, NULL, 0xff00, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxCreate(&a, NULL, 3, 0));
        EXPECT(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate(&a, NULL, 0, 99));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxCreate(NULL, NULL, 0, 0));
        MUST(cuCtxCreate(&a, NULL, 0, 0));
        CHECK(current() == a);
        MUST(cuCtxCreate(&b, NULL, CU_CTX_SCHED_BLOCKING_SYNC, 0));
        CHECK(current() == b && a != b);
        OK(cuCtxGetFlags(&flags));
        CHECK(flags == CU_CTX_SCHED_BLOCKING_SYNC);
        OK(cuCtxSetFlags(CU_CTX_SCHED_SPIN | CU_CTX_LMEM_RESIZE_TO_MAX));
        OK(cuCtxGetFlags(&flags));
        CHECK(flags == (CU_CTX_SCHED_SPIN | CU_CTX_LMEM_RESIZE_TO_MAX));
        OK(cuCtxGetId(a, &id_a));
        OK(cuCtxGetId(NULL, &id_b));
        CHECK(id_a != id_b);
        OK(cuCtxGetApiVersion(a, &version));
        CHECK(version == 3020);
        OK(cuCtxGetDevice(&device));
        CHECK(device == 0);
        OK(cuCtxPopCurrent(&popped));
        CHECK(popped == b && current() == a);
        OK(cuCtxPushCurrent(b));
        CHECK(current() == b);
        OK(cuCtxSetCurrent(a));
        CHECK(current() == a);
        OK(cuCtxPopCurrent(NULL));
        CHECK(current() == a);
        OK(cuCtxPushCurrent(b));
        OK(cuCtxDestroy(b));
        CHECK(current() == a);
        /* the driver returns either error for a second destruction, depending on the contents of freed memory */
        r = cuCtxDestroy(b);
        CHECK(r == CUDA_ERROR_CONTEXT_IS_DESTROYED || r == CUDA_ERROR_INVALID_CONTEXT);
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetApiVersion(b, &version));
        OK(cuCtxDestroy(a));
        CHECK(current() == NULL);
}

/* An object belongs to the context in which it was made, and is destroyed with it. */
static void check_ownership(void)
{
        CUcontext a, b;
        CUdeviceptr pa, pb;
        CUstream stream;
        CUevent event_a, event_b;
        CUmodule module;
        CUfunction add;
        int n = 16, v = 2, value = 0;

        MUST(cuCtxCreate(&a, NULL, 0, 0));
        MUST(cuMemAlloc(&pa, 64));
        OK(cuMemsetD32(pa, 5, 16));
        OK(cuStreamCreate(&stream, 0));
        OK(cuEventCreate(&event_a, 0));
        module = program_module("prog_basic");
        add = program_function(module, "prog_add");
        MUST(cuCtxCreate(&b, NULL, 0, 0));
        MUST(cuMemAlloc(&pb, 64));
        OK(cuMemsetD32(pb, 6, 16));
        OK(cuEventCreate(&event_b, 0));
        /* event and stream are from different contexts */
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event_b, stream));
        OK(cuStreamQuery(stream));
        OK(cuEventQuery(event_a));
        void *params[] = {&pa, &n, &v};
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, NULL, params, NULL));
        OK(cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, stream, params, NULL));
        OK(cuMemcpyDtoD(pb, pa, 4)); /* memory is accessible from both contexts */
        OK(cuCtxDestroy(b));
        CHECK(current() == a);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(pb));
        OK(cuMemcpyDtoH(&value, pa, sizeof(value)));
        CHECK(value == 7);
        OK(cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, NULL, params, NULL));
        OK(cuMemcpyDtoH(&value, pa, sizeof(value)));
        CHECK(value == 9);
        OK(cuCtxDestroy(a));
        MUST(cuCtxCreate(&a, NULL, 0, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(pa));
        OK(cuCtxDestroy(a));
}

static void check_primary(void)
{
        CUcontext a, b, c;
        CUdeviceptr p, q;
        unsigned int flags = 99;
        int active = 99;
        CUdevice device = -1;

        OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
        CHECK(flags == 0 && active == 0);
        OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC));
        OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
        CHECK(flags == CU_CTX_SCHED_BLOCKING_SYNC && active == 0);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuDevicePrimaryCtxSetFlags(0, 0xff00));
        OK(cuDevicePrimaryCtxSetFlags(0, 0));
        OK(cuDevicePrimaryCtxReset(0));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
        EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRetain(&a, 99));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuDevicePrimaryCtxRetain(NULL, 0));
        MUST(cuDevicePrimaryCtxRetain(&a, 0));
        MUST(cuDevicePrimaryCtxRetain(&b, 0));
        CHECK(a == b && current() == NULL);
        OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
        CHECK(active == 1);
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&p, 16));
        OK(cuCtxSetCurrent(a));
        MUST(cuMemAlloc(&p, 16));
        OK(cuDevicePrimaryCtxRelease(0));
        MUST(cuMemAlloc(&q, 16));
        OK(cuDevicePrimaryCtxRelease(0));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
        CHECK(current() == a);
        EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&q, 16));
        EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetApiVersion(a, &flags));
        OK(cuCtxGetDevice(&device));
        MUST(cuDevicePrimaryCtxRetain(&c, 0));
        CHECK(c == a);
        MUST(cuMemAlloc(&q, 16));
        OK(cuDevicePrimaryCtxReset(0));
        OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
        CHECK(active == 0);
        EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&q, 16));
        OK(cuDevicePrimaryCtxRelease(0));
        OK(cuCtxSetCurrent(NULL));
}

static void check_settings(void)
{
        CUfunc_cache cache = CU_FUNC_CACHE_PREFER_EQUAL;
        CUcontext context;
        size_t n = 0;
        int least, greatest;

        MUST(cuCtxCreate(&context, NULL, 0, 0));
        OK(cuCtxGetLimit(&n, CU_LIMIT_STACK_SIZE));
        CHECK(n == 1024);
        OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2000));
        OK(cuCtxGetLimit(&n, CU_LIMIT_STACK_SIZE));
        CHECK(n == 2000);
        OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 10));
        OK(cuCtxGetLimit(&n, CU_LIMIT_STACK_SIZE));
        CHECK(n == 16);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, (size_t)1 << 30));
        OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 33000000));
        OK(cuCtxGetLimit(&n, CU_LIMIT_MALLOC_HEAP_SIZE));
        CHECK(n == 33030144);
        EXPECT(CUDA_ERROR_UNSUPPORTED_LIMIT, cuCtxGetLimit(&n, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH));
        OK(cuCtxGetLimit(&n, CU_LIMIT_CIG_ENABLED));
        CHECK(n == 0);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit(&n, CU_LIMIT_MAX));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE));
        EXPECT(CUDA_ERROR_NOT_PERMITTED, cuCtxSetLimit(CU_LIMIT_CIG_ENABLED, 1));
        OK(cuCtxGetCacheConfig(&cache));
        CHECK(cache == CU_FUNC_CACHE_PREFER_NONE);
        OK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
        OK(cuCtxGetCacheConfig(&cache));
        CHECK(cache == CU_FUNC_CACHE_PREFER_L1);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxSetCacheConfig((CUfunc_cache)9));
        OK(cuCtxGetStreamPriorityRange(&least, &greatest));
        OK(cuCtxGetStreamPriorityRange(NULL, NULL));
        OK(cuCtxResetPersistingL2Cache());
        EXPECT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(context, 0));
        OK(cuCtxDestroy(context));
}

int main(int argc, char **argv)
{
        program_begin(argc, argv);
        MUST(cuInit(0));
        check_without();
        check_stack();
        check_ownership();
        check_primary();
        check_settings();
        return program_end("contexts");
}
