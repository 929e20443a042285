/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One allocation in two processes: each reads the other's writes, also by kernels; the memory lives until both have
 * freed it; an invalid handle is refused
 */
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

#define N 1024

static CUfunction add;

static void run_add(CUdeviceptr p, int v)
{
        int n = N;
        void *params[] = {&p, &n, &v};

        OK(cuLaunchKernel(add, N / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
}

static void expect_all(CUdeviceptr p, int value)
{
        int out[N];

        OK(cuMemcpyDtoH(out, p, sizeof(out)));
        for (int i = 0; i < N; i++)
                CHECK(out[i] == value);
}

/* The other process; its argument is the handle in hexadecimal. */
static int child(const char *text)
{
        CUcontext context = program_context();
        CUdeviceptr p, again, base;
        CUipcMemHandle handle, forged;
        unsigned int byte;
        size_t size = 0;

        for (size_t i = 0; i < sizeof(handle); i++) {
                sscanf(text + 2 * i, "%2x", &byte);
                ((unsigned char *)&handle)[i] = (unsigned char)byte;
        }
        add = program_function(program_module("prog_basic"), "prog_add");
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle(&p, handle, 0));
        forged = handle;
        for (size_t i = 0; i < sizeof(forged); i++)
                ((unsigned char *)&forged)[i] ^= (unsigned char)(0x55 + i);
        CHECK(cuIpcOpenMemHandle(&p, forged, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS);
        MUST(cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        OK(cuMemGetAddressRange(&base, &size, p));
        CHECK(base == p && size >= N * sizeof(int));
        expect_all(p, 5);
        run_add(p, 10);
        OK(cuCtxSynchronize());
        expect_all(p, 15);
        MUST(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        CHECK(again == p);
        OK(cuIpcCloseMemHandle(p));
        expect_all(p, 15);
        OK(cuIpcCloseMemHandle(p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(p));
        OK(cuCtxDestroy(context));
        return program_end("ipc_memory, the other process");
}

static int run_child(char *self, const CUipcMemHandle *handle)
{
        char text[2 * sizeof(*handle) + 1];

        for (size_t i = 0; i < sizeof(*handle); i++)
                snprintf(text + 2 * i, 3, "%02x", ((const unsigned char *)handle)[i]);
        return program_again(self, text);
}

int main(int argc, char **argv)
{
        CUipcMemHandle handle;
        CUcontext context;
        CUdeviceptr p, q, other;
        void *host;

        program_begin(argc, argv);
        if (argc > 2)
                return child(argv[2]);
        context = program_context();
        add = program_function(program_module("prog_basic"), "prog_add");
        MUST(cuMemAlloc(&other, 12345));
        MUST(cuMemAlloc(&p, N * sizeof(int)));
        OK(cuMemsetD32(p, 5, N));
        OK(cuCtxSynchronize());
        MUST(cuIpcGetMemHandle(&handle, p));
        CHECK(cuIpcOpenMemHandle(&q, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS);
        CHECK(run_child(argv[0], &handle) == 0);
        expect_all(p, 15);
        OK(cuMemFree(p));
        OK(cuMemFree(other));
        MUST(cuMemAllocHost(&host, 4096));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, (uintptr_t)host));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(NULL, (uintptr_t)host));
        OK(cuMemFreeHost(host));
        OK(cuCtxDestroy(context));
        return program_end("ipc_memory");
}
