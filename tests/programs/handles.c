/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stale and wrong handles: an error, not a crash
 *
 * NVIDIA's driver dereferences such handles and usually crashes, so this program runs only under DetShare.
 */
#include "program.h"

int main(int argc, char **argv)
{
        CUcontext context;
        CUmodule module;
        CUlibrary library;
        CUfunction function;
        CUkernel kernel;
        CUstream stream;
        CUevent event;
        unsigned int flags;
        char *text;
        int v;

        program_begin(argc, argv);
        context = program_context();
        text = program_ptx("prog_basic");
        MUST(cuModuleLoadData(&module, text));
        MUST(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
        MUST(cuModuleGetFunction(&function, module, "prog_nothing"));
        MUST(cuLibraryGetKernel(&kernel, library, "prog_nothing"));
        MUST(cuStreamCreate(&stream, 0));
        MUST(cuEventCreate(&event, 0));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&function, (CUmodule)library, "prog_nothing"));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLibraryGetKernel(&kernel, (CUlibrary)module, "prog_nothing"));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery((CUstream)event));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery((CUevent)stream));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, (CUkernel)function, 0));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel((CUfunction)module, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize((CUstream)(uintptr_t)0x1234567));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventRecord((CUevent)(uintptr_t)-1, NULL));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent((CUcontext)&v));
        OK(cuStreamDestroy(stream));
        OK(cuEventDestroy(event));
        OK(cuModuleUnload(module));
        OK(cuLibraryUnload(library));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamGetFlags(stream, &flags));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(stream));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(event));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventDestroy(event));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&function, module, "prog_nothing"));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload(library));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLibraryGetKernel(&kernel, library, "prog_nothing"));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        OK(cuStreamCreate(&stream, 0)); /* new objects may reuse the memory of the old handles */
        OK(cuEventCreate(&event, 0));
        OK(cuEventRecord(event, stream));
        OK(cuEventSynchronize(event));
        OK(cuCtxDestroy(context));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuStreamQuery(stream));
        MUST(cuCtxCreate(&context, NULL, 0, 0));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(stream));
        OK(cuCtxDestroy(context));
        free(text);
        return program_end("handles");
}
