/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management as for expandable segments: a large reservation, memory mapped at its end block by block,
 * access rights, copies and kernels across the boundaries, blocks unmapped again; the same memory at two addresses;
 * export and import by file descriptor; errors
 */
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "program.h"

#define MIB ((size_t)1 << 20)
#define PIECE (2 * MIB)
#define PIECES 4

static CUfunction add;
static CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc both_ways = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static void run_add(CUdeviceptr p, int n, int v)
{
        void *params[] = {&p, &n, &v};

        OK(cuLaunchKernel(add, (unsigned int)((n + 255) / 256), 1, 1, 256, 1, 1, 0, NULL, params, NULL));
}

static atomic_int n_sent; /* messages that the process has sent */

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
        atomic_fetch_add(&n_sent, 1);
        return syscall(SYS_sendmsg, fd, message, flags);
}

/* After the first one, reservations come and go without requests to the daemon. Two at a time have different
 * addresses. */
static void check_reservations(void)
{
        CUdeviceptr p, q;
        int before = 0;

        for (int i = 0; i < 11; i++) {
                if (i == 1)
                        before = atomic_load(&n_sent);
                MUST(cuMemAddressReserve(&p, PIECE, 0, 0, 0));
                MUST(cuMemAddressReserve(&q, (size_t)PIECES * PIECE, 0, 0, 0));
                CHECK(p + PIECE <= q || q + PIECES * PIECE <= p);
                OK(cuMemAddressFree(p, PIECE));
                OK(cuMemAddressFree(q, PIECES * PIECE));
        }
        CHECK(atomic_load(&n_sent) - before < 10);
}

static void check_segment(void)
{
        CUmemGenericAllocationHandle handles[PIECES];
        size_t total = 0, range;
        unsigned long long access = 7;
        CUdeviceptr p, seam;
        int out[512];

        MUST(cuDeviceTotalMem(&total, 0));
        range = (total + total / 8 + PIECE - 1) / PIECE * PIECE;
        MUST(cuMemAddressReserve(&p, range, 0, 0, 0));
        CHECK(p % PIECE == 0);
        for (size_t i = 0; i < PIECES; i++) {
                MUST(cuMemCreate(&handles[i], PIECE, &prop, 0));
                MUST(cuMemMap(p + i * PIECE, PIECE, 0, handles[i], 0));
                OK(cuMemRelease(handles[i]));
        }
        MUST(cuMemSetAccess(p, PIECES * PIECE, &both_ways, 1));
        OK(cuMemGetAccess(&access, &both_ways.location, p + PIECE));
        CHECK(access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        OK(cuMemsetD32(p, 3, PIECES * PIECE / 4));
        seam = p + PIECE - 1024;
        run_add(seam, 512, 40);
        OK(cuMemcpyDtoH(out, seam, sizeof(out)));
        for (int i = 0; i < 512; i++)
                CHECK(out[i] == 43);
        OK(cuMemcpyDtoH(out, p + 2 * PIECE - 1024, sizeof(out)));
        CHECK(out[0] == 3 && out[511] == 3);
        /* replaces a block in the middle: the other blocks keep their contents */
        OK(cuCtxSynchronize());
        OK(cuMemUnmap(p + 2 * PIECE, PIECE));
        OK(cuMemUnmap(p + 2 * PIECE, PIECE)); /* unmapping an unmapped range is no error */
        MUST(cuMemCreate(&handles[2], PIECE, &prop, 0));
        MUST(cuMemMap(p + 2 * PIECE, PIECE, 0, handles[2], 0));
        MUST(cuMemSetAccess(p + 2 * PIECE, PIECE, &both_ways, 1));
        OK(cuMemRelease(handles[2]));
        OK(cuMemsetD32(p + 2 * PIECE, 9, 256));
        OK(cuMemcpyDtoH(out, p + 2 * PIECE - 1024, sizeof(out)));
        CHECK(out[0] == 3 && out[255] == 3 && out[256] == 9 && out[511] == 9);
        OK(cuCtxSynchronize());
        OK(cuMemUnmap(p, PIECES * PIECE));
        OK(cuMemAddressFree(p, range));
}

/* Two mappings of the same memory: bytes written at one address appear at the other. */
static void check_alias(void)
{
        CUmemGenericAllocationHandle handle, again = 0;
        CUmemAllocationProp got;
        CUdeviceptr p, q;
        int out[4];

        MUST(cuMemCreate(&handle, 10 * PIECE, &prop, 0));
        MUST(cuMemAddressReserve(&p, 10 * PIECE, 0, 0, 0));
        MUST(cuMemAddressReserve(&q, 10 * PIECE, 32 * MIB, 0, 0));
        CHECK(q % (32 * MIB) == 0);
        MUST(cuMemMap(p, 10 * PIECE, 0, handle, 0));
        MUST(cuMemMap(q, 10 * PIECE, 0, handle, 0));
        MUST(cuMemSetAccess(p, 10 * PIECE, &both_ways, 1));
        MUST(cuMemSetAccess(q, 10 * PIECE, &both_ways, 1));
        OK(cuMemsetD32(p + 5 * PIECE, 11, 4));
        OK(cuMemcpyDtoH(out, q + 5 * PIECE, sizeof(out)));
        CHECK(out[0] == 11 && out[3] == 11);
        OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + PIECE)));
        CHECK(again == handle);
        OK(cuMemGetAllocationPropertiesFromHandle(&got, again));
        CHECK(got.type == CU_MEM_ALLOCATION_TYPE_PINNED && got.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
        OK(cuMemRelease(again));
        OK(cuMemRelease(handle));
        OK(cuCtxSynchronize());
        OK(cuMemUnmap(p, 10 * PIECE));
        OK(cuMemcpyDtoH(out, q + 5 * PIECE, sizeof(out)));
        CHECK(out[0] == 11);
        OK(cuMemUnmap(q, 10 * PIECE));
        OK(cuMemAddressFree(p, 10 * PIECE));
        OK(cuMemAddressFree(q, 10 * PIECE));
}

/* Exports memory as a file descriptor and imports it in the same process. */
static void check_export(void)
{
        CUmemGenericAllocationHandle handle, imported;
        CUdeviceptr p, q;
        int out[4], fd = -1;

        MUST(cuMemCreate(&handle, PIECE, &prop, 0));
        MUST(cuMemAddressReserve(&p, PIECE, 0, 0, 0));
        MUST(cuMemAddressReserve(&q, PIECE, 0, 0, 0));
        MUST(cuMemMap(p, PIECE, 0, handle, 0));
        MUST(cuMemSetAccess(p, PIECE, &both_ways, 1));
        OK(cuMemsetD32(p, 21, 4));
        MUST(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        CHECK(fd >= 0);
        MUST(cuMemImportFromShareableHandle(
                &imported, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        close(fd);
        MUST(cuMemMap(q, PIECE, 0, imported, 0));
        MUST(cuMemSetAccess(q, PIECE, &both_ways, 1));
        OK(cuMemcpyDtoH(out, q, sizeof(out)));
        CHECK(out[0] == 21 && out[3] == 21);
        OK(cuCtxSynchronize());
        OK(cuMemUnmap(p, PIECE));
        OK(cuMemRelease(handle));
        OK(cuMemcpyDtoH(out, q, sizeof(out)));
        CHECK(out[0] == 21);
        OK(cuMemUnmap(q, PIECE));
        OK(cuMemRelease(imported));
        OK(cuMemAddressFree(p, PIECE));
        OK(cuMemAddressFree(q, PIECE));
}

static void check_errors(void)
{
        CUmemGenericAllocationHandle handle;
        CUmemAllocationProp bad = prop;
        size_t granularity = 0;
        CUdeviceptr p;

        OK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        CHECK(granularity == PIECE);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 1000, &prop, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 0, &prop, 0));
        bad.location.id = 99;
        EXPECT(CUDA_ERROR_INVALID_DEVICE, cuMemCreate(&handle, PIECE, &bad, 0));
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&handle, (size_t)1 << 45, &prop, 0));
        MUST(cuMemCreate(&handle, PIECE, &prop, 0));
        MUST(cuMemAddressReserve(&p, 4 * PIECE, 0, 0, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(p + 1000, PIECE, 0, handle, 0));
        EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(p, 2 * PIECE, 0, handle, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(p, PIECE, &both_ways, 1));
        MUST(cuMemMap(p, PIECE, 0, handle, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(p, PIECE, 0, handle, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
        OK(cuMemUnmap(p, PIECE));
        OK(cuMemRelease(handle));
        OK(cuMemAddressFree(p, 4 * PIECE));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&p, 0, 0, 0, 0));
}

int main(int argc, char **argv)
{
        CUcontext context;
        int supported = 0;

        program_begin(argc, argv);
        context = program_context();
        OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
        CHECK(supported == 1);
        add = program_function(program_module("prog_basic"), "prog_add");
        check_reservations();
        check_segment();
        check_alias();
        check_export();
        check_errors();
        OK(cuCtxDestroy(context));
        return program_end("vmm");
}
