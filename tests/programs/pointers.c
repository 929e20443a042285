/* SPDX-License-Identifier: Apache-2.0 */
/* Pointer attributes of device, pinned, registered and unknown addresses, queried one by one and together */
#include "program.h"

static CUcontext context;

static void expect_u32(CUdeviceptr p, CUpointer_attribute attribute, unsigned int expected)
{
        unsigned int one = 0xabababab, many = 0xabababab;
        void *data[] = {&many};

        OK(cuPointerGetAttribute(&one, attribute, p));
        OK(cuPointerGetAttributes(1, &attribute, data, p));
        CHECK(one == expected && many == expected);
}

static void expect_u64(CUdeviceptr p, CUpointer_attribute attribute, uint64_t expected)
{
        uint64_t one = 0xabababab, many = 0xabababab;
        void *data[] = {&many};

        OK(cuPointerGetAttribute(&one, attribute, p));
        OK(cuPointerGetAttributes(1, &attribute, data, p));
        CHECK(one == expected && many == expected);
}

static void check_known(CUdeviceptr base, size_t size, CUmemorytype type)
{
        CUdeviceptr p = base + 8;

        expect_u32(p, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, type);
        expect_u64(p, CU_POINTER_ATTRIBUTE_CONTEXT, (uintptr_t)context);
        expect_u32(p, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 0);
        expect_u32(p, CU_POINTER_ATTRIBUTE_IS_MANAGED, 0);
        expect_u32(p, CU_POINTER_ATTRIBUTE_MAPPED, 1);
        expect_u64(p, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base);
        expect_u64(p, CU_POINTER_ATTRIBUTE_RANGE_SIZE, size);
        expect_u64(p, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, 0);
}

static void check_unknown(CUdeviceptr p)
{
        CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
        CUcontext of = context;
        unsigned int type = 7, managed = 7;
        CUdeviceptr device = 7;
        void *host = NULL;
        int ordinal = 7;
        void *data[] = {&of, &type, &device, &host, &managed, &ordinal};

        OK(cuPointerGetAttributes(6, attributes, data, p));
        CHECK(of == NULL && type == 0 && device == 0 && host == (void *)(uintptr_t)p && managed == 0 && ordinal == -2);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
}

int main(int argc, char **argv)
{
        static char registered[65536] __attribute__((aligned(4096)));
        CUpointer_attribute unknown = (CUpointer_attribute)99;
        CUdeviceptr p, q;
        uint64_t id = 0, other = 0;
        unsigned int on = 1;
        void *pinned, *data[] = {&id};
        int mapped = 0;

        program_begin(argc, argv);
        context = program_context();
        OK(cuDeviceGetAttribute(&mapped, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 0));
        MUST(cuMemAlloc(&p, 4096));
        MUST(cuMemAlloc(&q, 1000));
        MUST(cuMemHostAlloc(&pinned, 6400, 0));
        check_known(p, 4096, CU_MEMORYTYPE_DEVICE);
        check_known(q, 1000, CU_MEMORYTYPE_DEVICE);
        check_known((uintptr_t)pinned, 6400, CU_MEMORYTYPE_HOST);
        expect_u64(p + 8, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p + 8);
        expect_u64((uintptr_t)pinned + 8, CU_POINTER_ATTRIBUTE_HOST_POINTER, (uintptr_t)pinned + 8);
        if (mapped)
                expect_u64((uintptr_t)pinned + 8, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, (uintptr_t)pinned + 8);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_HOST_POINTER, p));
        OK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
        OK(cuPointerGetAttribute(&other, CU_POINTER_ATTRIBUTE_BUFFER_ID, q));
        CHECK(id != other);
        OK(cuMemHostRegister(registered, 8192, 0));
        EXPECT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(registered, 8192, 0));
        EXPECT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(registered + 4096, 8192, 0));
        expect_u32((uintptr_t)registered + 8, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_MEMORYTYPE_HOST);
        OK(cuMemcpyHtoD(p, registered, 4096));
        OK(cuMemHostUnregister(registered));
        EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(registered));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(NULL));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(NULL, 8192, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(registered, 0, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(registered, 8192, 0x80));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister((void *)(uintptr_t)p, 100, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(pinned, 100, 0));
        check_unknown((uintptr_t)registered);
        check_unknown((uintptr_t)&p);
        check_unknown(0);
        OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
        expect_u32(p, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 1);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
        EXPECT(CUDA_ERROR_INVALID_VALUE,
                cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, (uintptr_t)registered));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttributes(0, NULL, NULL, p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttributes(1, &unknown, data, p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
        OK(cuMemFree(p));
        check_unknown(p);
        OK(cuMemFreeHost(pinned));
        OK(cuCtxDestroy(context));
        return program_end("pointers");
}
