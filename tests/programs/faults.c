/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel with an illegal write: the next synchronisation returns the error, every later call too, until the context
 * is destroyed
 *
 * If FAULTS_PAUSE is in the environment, the program waits for the end of its standard input before it destroys the
 * context.
 *
 * Afterwards a new context either works, or is refused with the same error: NVIDIA's driver refuses it until the
 * process ends.
 */
#include "program.h"

static void check_sticky(CUstream stream, CUevent event, CUdeviceptr p, CUfunction nothing)
{
        CUcontext context;
        CUdevice device;
        size_t n;
        int v;

        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&p, 4));
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemcpyDtoH(&v, p, 4));
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFree(p));
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamQuery(stream));
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuEventQuery(event));
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuEventRecord(event, stream));
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, nothing));
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemGetInfo(&n, &n));
        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamDestroy(stream));
        OK(cuCtxGetCurrent(&context));
        OK(cuCtxGetDevice(&device));
        OK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
        OK(cuCtxPopCurrent(&context));
        OK(cuCtxPushCurrent(context));
}

static void check_afterwards(void)
{
        CUcontext context;
        CUresult r = cuCtxCreate(&context, NULL, 0, 0);
        CUdeviceptr p;
        int n = 16, v = 2, value = 0;

        CHECK(r == CUDA_SUCCESS || r == CUDA_ERROR_ILLEGAL_ADDRESS);
        if (r != CUDA_SUCCESS)
                return;
        MUST(cuMemAlloc(&p, 64));
        OK(cuMemsetD32(p, 40, 16));
        void *params[] = {&p, &n, &v};
        OK(cuLaunchKernel(
                program_function(program_module("prog_basic"), "prog_add"), 1, 1, 1, 16, 1, 1, 0, NULL, params, NULL));
        OK(cuMemcpyDtoH(&value, p, sizeof(value)));
        CHECK(value == 42);
        OK(cuCtxDestroy(context));
}

int main(int argc, char **argv)
{
        CUcontext context;
        CUmodule module;
        CUfunction wild, nothing;
        CUdeviceptr p, nowhere = 0x10;
        CUstream stream;
        CUevent event;
        void *params[] = {&nowhere};

        program_begin(argc, argv);
        context = program_context();
        module = program_module("prog_basic");
        wild = program_function(module, "prog_wild");
        nothing = program_function(module, "prog_nothing");
        MUST(cuMemAlloc(&p, 64));
        OK(cuStreamCreate(&stream, 0));
        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        OK(cuLaunchKernel(wild, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        check_sticky(stream, event, p, nothing);
        while (getenv("FAULTS_PAUSE") && getchar() != EOF)
                ;
        OK(cuCtxDestroy(context));
        check_afterwards();
        return program_end("faults");
}
