/* SPDX-License-Identifier: Apache-2.0 */
/* Every copy and memset of linear memory: 1-D, 2-D, 3-D, all directions, pageable and pinned, synchronous and
 * asynchronous */
#include "program.h"

enum { BYTES = 300001, W = 61, H = 37, D = 5 };

static unsigned char source[BYTES], back[BYTES];
static CUstream stream;

static void fill(unsigned char *p, size_t n, uint32_t seed)
{
        for (size_t i = 0; i < n; i++)
                p[i] = (unsigned char)program_random(&seed);
}

static void check_linear(
        unsigned char *host, unsigned char *host2, CUdeviceptr a, CUdeviceptr b, size_t n, uint32_t seed)
{
        fill(host, n, seed);
        memset(host2, 0, n);
        OK(cuMemcpyHtoD(a, host, n));
        OK(cuMemcpyDtoD(b, a, n));
        OK(cuMemcpyDtoH(host2, b, n));
        SAME(host, host2, n);
        fill(host, n, seed + 1);
        OK(cuMemcpyHtoDAsync(a, host, n, stream));
        OK(cuMemcpyDtoDAsync(b, a, n, stream));
        OK(cuMemcpyDtoHAsync(host2, b, n, stream));
        OK(cuStreamSynchronize(stream));
        SAME(host, host2, n);
        fill(host, n, seed + 2);
        OK(cuMemcpy(a, (CUdeviceptr)(uintptr_t)host, n)); /* the addresses of cuMemcpy determine the direction */
        OK(cuMemcpy(b, a, n));
        OK(cuMemcpy((CUdeviceptr)(uintptr_t)host2, b, n));
        SAME(host, host2, n);
        fill(host, n, seed + 3);
        OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)host2, (CUdeviceptr)(uintptr_t)host, n, stream));
        OK(cuStreamSynchronize(stream));
        SAME(host, host2, n);
}

static void check_sizes(void)
{
        static const size_t sizes[] = {1, 3, 4, 7, 63, 4096, 65536, 65537, BYTES};
        unsigned char *pinned, *pinned2;
        CUdeviceptr a, b;

        MUST(cuMemAlloc(&a, BYTES));
        MUST(cuMemAlloc(&b, BYTES));
        MUST(cuMemHostAlloc((void **)&pinned, BYTES, 0));
        MUST(cuMemAllocHost((void **)&pinned2, BYTES));
        for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                check_linear(source, back, a, b, sizes[i], i);
                check_linear(pinned, pinned2, a, b, sizes[i], i + 100);
                check_linear(source, pinned2, a, b, sizes[i], i + 200);
                check_linear(pinned, back, a, b, sizes[i], i + 300);
        }
        check_linear(source + 1, back + 3, a + 5, b + 2, 1001, 400);
        OK(cuMemFreeHost(pinned));
        OK(cuMemFreeHost(pinned2));
        OK(cuMemFree(a));
        OK(cuMemFree(b));
}

/* A large copy, transferred in pieces, both ways; the program reuses its buffer at once. */
static void check_large(void)
{
        size_t n = (size_t)24 << 20;
        unsigned char *a = malloc(n), *b = malloc(n);
        CUdeviceptr p;

        MUST(cuMemAlloc(&p, n));
        fill(a, n, 5);
        OK(cuMemcpyHtoDAsync(p, a, n, stream));
        memset(a, 0, 4096); /* the asynchronous call has copied pageable memory before it returned */
        OK(cuMemcpyDtoH(b, p, n));
        fill(a, 4096, 5);
        SAME(a, b, n);
        OK(cuMemFree(p));
        free(a);
        free(b);
}

static void check_2d(void)
{
        size_t pitch;
        CUdeviceptr p, q;
        static unsigned char out[W * H];
        CUDA_MEMCPY2D c = {0};

        MUST(cuMemAllocPitch(&p, &pitch, W, H, 4));
        MUST(cuMemAlloc(&q, (W + 9) * (H + 2)));
        CHECK(pitch % 512 == 0);
        fill(source, W * H, 9);
        c.srcMemoryType = CU_MEMORYTYPE_HOST;
        c.srcHost = source;
        c.srcPitch = W;
        c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        c.dstDevice = p;
        c.dstPitch = pitch;
        c.WidthInBytes = W;
        c.Height = H;
        OK(cuMemcpy2D(&c));
        OK(cuStreamSynchronize(NULL)); /* natively the copy may return before it has ended */
        c.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
        c.srcHost = NULL;
        c.srcDevice = p;
        c.srcPitch = pitch;
        c.dstDevice = q;
        c.dstPitch = W + 9;
        c.dstXInBytes = 5;
        c.dstY = 2;
        OK(cuMemcpy2DAsync(&c, stream));
        memset(&c, 0, sizeof(c));
        c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        c.srcDevice = q;
        c.srcPitch = W + 9;
        c.srcXInBytes = 5 + 10;
        c.srcY = 2 + 3;
        c.dstMemoryType = CU_MEMORYTYPE_HOST;
        c.dstHost = out;
        c.dstPitch = W;
        c.WidthInBytes = W - 10;
        c.Height = H - 3;
        OK(cuStreamSynchronize(stream));
        OK(cuMemcpy2DUnaligned(&c));
        for (int y = 0; y < H - 3; y++)
                SAME(out + y * W, source + (y + 3) * W + 10, W - 10);
        OK(cuMemFree(p));
        OK(cuMemFree(q));
}

static void check_3d(void)
{
        static unsigned char out[W * H * D];
        CUdeviceptr p;
        CUDA_MEMCPY3D c = {0};

        MUST(cuMemAlloc(&p, 128 * 64 * D));
        fill(source, sizeof(out), 11);
        c.srcMemoryType = CU_MEMORYTYPE_HOST;
        c.srcHost = source;
        c.srcPitch = W;
        c.srcHeight = H;
        c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        c.dstDevice = p;
        c.dstPitch = 128;
        c.dstHeight = 64;
        c.WidthInBytes = W;
        c.Height = H;
        c.Depth = D;
        OK(cuMemcpy3D(&c));
        memset(&c, 0, sizeof(c));
        c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        c.srcDevice = p;
        c.srcPitch = 128;
        c.srcHeight = 64;
        c.srcXInBytes = 4;
        c.srcY = 2;
        c.srcZ = 1;
        c.dstMemoryType = CU_MEMORYTYPE_HOST;
        c.dstHost = out;
        c.dstPitch = W;
        c.dstHeight = H;
        c.WidthInBytes = W - 4;
        c.Height = H - 2;
        c.Depth = D - 1;
        OK(cuMemcpy3DAsync(&c, stream));
        OK(cuStreamSynchronize(stream));
        for (int z = 0; z < D - 1; z++) {
                for (int y = 0; y < H - 2; y++)
                        SAME(out + (z * H + y) * W, source + ((z + 1) * H + y + 2) * W + 4, W - 4);
        }
        OK(cuMemFree(p));
}

static void expect_bytes(const unsigned char *p, size_t n, unsigned int value, unsigned int element)
{
        int same = 1;

        for (size_t i = 0; i < n; i++)
                same &= p[i] == (unsigned char)(value >> 8 * (i % element));
        CHECK(same);
}

static void check_memsets(void)
{
        CUdeviceptr p;

        MUST(cuMemAlloc(&p, 4096));
        OK(cuMemsetD8(p, 0x11, 4096));
        OK(cuMemsetD16(p + 2, 0x2345, 100));
        OK(cuMemsetD32(p + 512, 0x89abcdef, 100));
        OK(cuMemcpyDtoH(back, p, 4096));
        expect_bytes(back, 2, 0x11, 1);
        expect_bytes(back + 2, 200, 0x2345, 2);
        expect_bytes(back + 202, 310, 0x11, 1);
        expect_bytes(back + 512, 400, 0x89abcdef, 4);
        expect_bytes(back + 912, 4096 - 912, 0x11, 1);
        OK(cuMemsetD8Async(p, 1, 4096, stream));
        OK(cuMemsetD2D8Async(p, 64, 2, 33, 64, stream));
        OK(cuMemsetD2D16Async(p + 34, 128, 0x0304, 5, 32, stream));
        OK(cuMemsetD2D32Async(p + 48, 64, 0x05060708, 2, 64, stream));
        OK(cuMemcpyDtoHAsync(back, p, 4096, stream));
        OK(cuStreamSynchronize(stream));
        for (int row = 0; row < 64; row++) {
                expect_bytes(back + row * 64, 33, 2, 1);
                expect_bytes(back + row * 64 + 34, 10, row & 1 ? 0x0101 : 0x0304, 2);
                expect_bytes(back + row * 64 + 48, 8, 0x05060708, 4);
                expect_bytes(back + row * 64 + 56, 8, 1, 1);
        }
        OK(cuMemsetD2D8(p, 4096, 9, 100, 1));
        OK(cuMemsetD2D16(p + 100, 128, 0x0909, 2, 3));
        OK(cuMemsetD2D32(p + 512, 512, 0x09090909, 128, 7));
        OK(cuMemcpyDtoH(back, p, 4096));
        expect_bytes(back, 104, 9, 1);
        expect_bytes(back + 512, 4096 - 512, 9, 1);
        OK(cuMemFree(p));
}

/* Pinned memory that kernels access by its host address, if the device can. */
static void check_zero_copy(CUmodule module)
{
        CUfunction add = program_function(module, "prog_add");
        CUdeviceptr address = 0;
        int *p, mapped = 0, n = 100, v = 3;

        OK(cuDeviceGetAttribute(&mapped, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 0));
        if (!mapped)
                return;
        MUST(cuMemHostAlloc((void **)&p, 400, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
        for (int i = 0; i < 100; i++)
                p[i] = i;
        OK(cuMemHostGetDevicePointer(&address, p, 0));
        CHECK(address == (CUdeviceptr)(uintptr_t)p);
        void *params[] = {&address, &n, &v};
        OK(cuLaunchKernel(add, 1, 1, 1, 128, 1, 1, 0, stream, params, NULL));
        OK(cuStreamSynchronize(stream));
        for (int i = 0; i < 100; i++)
                CHECK(p[i] == i + 3);
        OK(cuMemsetD32(address, 0x01010101, 100));
        expect_bytes((unsigned char *)p, 400, 1, 1);
        OK(cuMemFreeHost(p));
}

static void check_peers(CUcontext context)
{
        CUdeviceptr p;

        MUST(cuMemAlloc(&p, 8192));
        fill(source, 4096, 21);
        OK(cuMemcpyHtoD(p, source, 4096));
        OK(cuMemcpyPeer(p + 4096, context, p, context, 2048));
        OK(cuMemcpyPeerAsync(p + 6144, context, p + 2048, context, 2048, stream));
        OK(cuStreamSynchronize(stream));
        OK(cuMemcpyDtoH(back, p + 4096, 4096));
        SAME(back, source, 4096);
        OK(cuMemFree(p));
}

int main(int argc, char **argv)
{
        CUcontext context;
        size_t before, after, total;

        program_begin(argc, argv);
        context = program_context();
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuMemGetInfo(&before, &total));
        CHECK(before <= total && total > 0);
        check_sizes();
        check_large();
        check_2d();
        check_3d();
        check_memsets();
        check_zero_copy(program_module("prog_basic"));
        check_peers(context);
        OK(cuMemGetInfo(&after, &total));
        CHECK(after <= total);
        OK(cuStreamDestroy(stream));
        OK(cuCtxDestroy(context));
        return program_end("memory_all_copies");
}
