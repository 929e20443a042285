/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams write values to memory and wait for values: every condition; device and pinned memory; waits that the host, a
 * kernel or another stream satisfies; batches; refused calls
 */
#include <time.h>

#include "program.h"

static CUfunction add;

static void nap_ms(long ms)
{
        const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

        nanosleep(&t, NULL);
}

static void add_to(CUdeviceptr p, int n, int v, CUstream stream)
{
        void *params[] = {&p, &n, &v};

        OK(cuLaunchKernel(add, 1, 1, 1, (unsigned int)n, 1, 1, 0, stream, params, NULL));
}

static uint32_t word(CUdeviceptr p)
{
        uint32_t value = 0;

        OK(cuMemcpyDtoH(&value, p, sizeof(value)));
        return value;
}

static void check_writes(CUdeviceptr p)
{
        uint64_t wide = 0;
        CUstream a;

        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        OK(cuMemsetD32Async(p, 5, 8, a));
        OK(cuStreamWriteValue32(a, p, 100, CU_STREAM_WRITE_VALUE_DEFAULT));
        add_to(p, 1, 1, a);
        OK(cuStreamWriteValue64(a, p + 8, 0x123456789abcdef0u, CU_STREAM_WRITE_VALUE_DEFAULT));
        EXPECT(CUDA_ERROR_INVALID_VALUE, /* only the older API allowed that flag */
                cuStreamWriteValue32(a, p + 20, 6, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
        OK(cuStreamWriteValue32(a, p + 20, 7, CU_STREAM_WRITE_VALUE_DEFAULT));
        OK(cuStreamSynchronize(a));
        CHECK(word(p) == 101 && word(p + 4) == 5 && word(p + 16) == 5 && word(p + 20) == 7);
        OK(cuMemcpyDtoH(&wide, p + 8, sizeof(wide)));
        CHECK(wide == 0x123456789abcdef0u);
        OK(cuStreamDestroy(a));
}

/* Lets a stream wait for a value: the wait holds its stream, and no other, until the other stream writes the value. */
static void wait_one(CUdeviceptr p, uint32_t before, uint32_t value, unsigned int how, uint32_t after)
{
        CUstream a, b;

        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
        OK(cuMemsetD32Async(p, before, 2, a));
        OK(cuStreamSynchronize(a));
        OK(cuStreamWaitValue32(a, p, value, how));
        OK(cuStreamWriteValue32(a, p + 4, 77, 0));
        nap_ms(2);
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
        OK(cuMemsetD32Async(p + 8, 3, 1, b));
        OK(cuStreamSynchronize(b));
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
        OK(cuStreamWriteValue32(b, p, after, 0));
        OK(cuStreamSynchronize(a));
        CHECK(word(p + 4) == 77);
        OK(cuStreamDestroy(a));
        OK(cuStreamDestroy(b));
}

static void check_waits(CUdeviceptr p)
{
        wait_one(p, 9, 10, CU_STREAM_WAIT_VALUE_GEQ, 11);
        /* the comparison is cyclic: 0x80000001 counts as greater than 0x7fffffff */
        wait_one(p, 0x7fffffff, 0x80000001u, CU_STREAM_WAIT_VALUE_GEQ, 0x80000001u);
        wait_one(p, 9, 10, CU_STREAM_WAIT_VALUE_EQ, 10);
        wait_one(p, 1, 6, CU_STREAM_WAIT_VALUE_AND, 4);
        wait_one(p, 0xffffff00u, 0xff, CU_STREAM_WAIT_VALUE_NOR, 0xffff0000u);
}

static void check_wide(CUdeviceptr p)
{
        CUstream a, b;

        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
        OK(cuMemsetD32(p, 0, 8));
        OK(cuStreamSynchronize(NULL)); /* a memset may return before it has ended */
        OK(cuStreamWaitValue64(a, p, 0x100000000u, CU_STREAM_WAIT_VALUE_GEQ));
        OK(cuStreamWriteValue32(b, p, 5, 0)); /* the low half alone does not satisfy the wait */
        OK(cuStreamSynchronize(b));
        nap_ms(2);
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
        OK(cuStreamWriteValue32(b, p + 4, 1, 0));
        OK(cuStreamSynchronize(a));
        OK(cuStreamDestroy(a));
        OK(cuStreamDestroy(b));
}

/* A kernel writes the value that a stream waits for; then the host does, if it can. */
static void check_sources(CUdeviceptr p)
{
        volatile uint32_t *host;
        CUdeviceptr host_p;
        CUstream a, b;

        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
        OK(cuMemsetD32(p, 0, 4));
        OK(cuStreamSynchronize(NULL));
        OK(cuStreamWaitValue32(a, p, 3, CU_STREAM_WAIT_VALUE_EQ));
        for (int i = 0; i < 3; i++)
                add_to(p, 1, 1, b);
        OK(cuStreamSynchronize(a));
        CHECK(word(p) == 3);

        MUST(cuMemHostAlloc((void **)&host, 64, CU_MEMHOSTALLOC_DEVICEMAP));
        if (!cuMemHostGetDevicePointer(&host_p, (void *)host, 0) &&
                !cuStreamWaitValue32(a, host_p, 0, CU_STREAM_WAIT_VALUE_NOR)) {
                /* ~(x | 0) is 0 only for all ones, so that wait is satisfied */
                OK(cuStreamSynchronize(a));
                host[0] = 0;
                OK(cuStreamWaitValue32(a, host_p, 1, CU_STREAM_WAIT_VALUE_EQ));
                OK(cuStreamWriteValue32(a, host_p + 4, 2, 0));
                nap_ms(2);
                EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
                host[0] = 1;
                OK(cuStreamSynchronize(a));
                CHECK(host[1] == 2);
        }
        OK(cuMemFreeHost((void *)host));
        OK(cuStreamDestroy(a));
        OK(cuStreamDestroy(b));
}

static void check_batch(CUdeviceptr p)
{
        static CUstreamBatchMemOpParams ops[256];
        CUstream a, b;

        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
        OK(cuMemsetD32(p, 0, 8));
        OK(cuStreamSynchronize(NULL));
        ops[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
        ops[0].waitValue.address = p;
        ops[0].waitValue.value = 1;
        ops[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
        ops[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        ops[1].writeValue.address = p + 4;
        ops[1].writeValue.value = 2;
        ops[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
        ops[2].writeValue.address = p + 8;
        ops[2].writeValue.value64 = 3;
        OK(cuStreamBatchMemOp(a, 3, ops, 0));
        nap_ms(2);
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
        OK(cuStreamBatchMemOp(b, 0 + 1,
                &(CUstreamBatchMemOpParams){
                        .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = p, .value = 1}},
                0));
        OK(cuStreamSynchronize(a));
        CHECK(word(p + 4) == 2 && word(p + 8) == 3);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(a, 256, ops, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(a, 1, ops, 1));
        OK(cuStreamDestroy(a));
        OK(cuStreamDestroy(b));
}

static void check_refused(CUdeviceptr p)
{
        uint32_t mine = 0;
        int pageable = 0;

        OK(cuDeviceGetAttribute(&pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(NULL, p + 2, 0, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64(NULL, p + 4, 0, 0));
        if (!pageable)
                EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(NULL, (CUdeviceptr)(uintptr_t)&mine, 0, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(NULL, p, 0, 0x100));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(NULL, p, 0, 2));
        OK(cuStreamSynchronize(NULL));
}

int main(int argc, char **argv)
{
        CUcontext context;
        CUmodule module;
        CUdeviceptr p;

        program_begin(argc, argv);
        context = program_context();
        module = program_module("prog_basic");
        add = program_function(module, "prog_add");
        MUST(cuMemAlloc(&p, 4096));
        check_writes(p);
        check_waits(p);
        check_wide(p);
        check_sources(p);
        check_batch(p);
        check_refused(p);
        OK(cuMemFree(p));
        OK(cuCtxDestroy(context));
        return program_end("stream_values");
}
