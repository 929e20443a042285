/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory: copies are right, also asynchronous ones and ones that reach past it; kernels use it where the
 * device allows it; its attributes during and after the registration
 */
#include "program.h"

#define N 100000

static CUfunction add;

static void check_copies(CUdeviceptr p, int *host, int *back)
{
        CUstream stream;

        MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < N; i++)
                host[i] = i;
        OK(cuMemcpyHtoDAsync(p, host, N * sizeof(int), stream));
        OK(cuMemsetD32Async(p, 7, 10, stream));
        OK(cuMemcpyDtoHAsync(back, p, N * sizeof(int), stream));
        OK(cuStreamSynchronize(stream));
        CHECK(back[0] == 7 && back[9] == 7 && back[10] == 10 && back[N - 1] == N - 1);
        OK(cuMemcpy((uintptr_t)back, p + 40, 400));
        CHECK(back[0] == 10 && back[99] == 109);
        OK(cuStreamDestroy(stream));
}

/* Checks that the device reads the same bytes, if it can access the memory. */
static void check_device(int *host)
{
        CUdeviceptr device = 0, told = 0;
        int n = 256, v = 5;
        void *params[] = {&device, &n, &v};
        CUresult r = cuMemHostGetDevicePointer(&device, host + 100, 0);

        /* under DetShare a process whose pages cannot be replaced has no device address */
        if (r == CUDA_ERROR_NOT_SUPPORTED)
                return;
        CHECK(r == CUDA_SUCCESS);
        OK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, (uintptr_t)(host + 100)));
        CHECK(told == device);
        for (int i = 0; i < 500; i++)
                host[i] = i;
        OK(cuLaunchKernel(add, 1, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
        OK(cuCtxSynchronize());
        CHECK(host[99] == 99 && host[100] == 105 && host[355] == 360 && host[356] == 356);
        OK(cuMemsetD32(device, 3, 2));
        OK(cuCtxSynchronize());
        CHECK(host[100] == 3 && host[101] == 3 && host[102] == 107);
}

int main(int argc, char **argv)
{
        int *host, *back, can = 7;
        unsigned int flags = 99;
        CUcontext context;
        CUdeviceptr p;

        program_begin(argc, argv);
        context = program_context();
        add = program_function(program_module("prog_basic"), "prog_add");
        host = aligned_alloc(4096, (N * sizeof(int) + 4095) / 4096 * 4096);
        back = malloc(N * sizeof(int));
        if (!host || !back)
                return 1;
        MUST(cuMemAlloc(&p, N * sizeof(int)));
        memset(host, 1, N * sizeof(int));
        OK(cuMemHostRegister(host, N * sizeof(int), CU_MEMHOSTREGISTER_PORTABLE));
        CHECK(host[0] == 0x01010101 && host[N - 1] == 0x01010101);
        OK(cuMemHostGetFlags(&flags, host));
        CHECK(flags & CU_MEMHOSTREGISTER_PORTABLE);
        OK(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0));
        CHECK(can == 0 || can == 1);
        check_copies(p, host, back);
        check_device(host);
        host[5] = 55;
        OK(cuMemHostUnregister(host));
        CHECK(host[5] == 55);
        EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(host));
        check_copies(p, host, back); /* the memory is pageable again */
        OK(cuMemFree(p));
        free(host);
        free(back);
        OK(cuCtxDestroy(context));
        return program_end("host_register");
}
