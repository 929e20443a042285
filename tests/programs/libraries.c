/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries: loaded without a context, used in several contexts, loaded lazily; a CUkernel in place of a CUfunction */
#include "program.h"

static void check_without_context(CUlibrary library, CUkernel *ret)
{
        CUkernel kernel = NULL, again = NULL, all[32] = {NULL};
        CUlibrary of_kernel = NULL;
        CUfunction function;
        CUmodule module;
        const char *name = NULL;
        unsigned int count = 0, found = 0;
        size_t offset;
        int v = 0;

        OK(cuLibraryGetKernel(&kernel, library, "prog_add"));
        OK(cuLibraryGetKernel(&again, library, "prog_add"));
        CHECK(kernel && kernel == again);
        EXPECT(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&again, library, "absent"));
        OK(cuKernelGetName(&name, kernel));
        CHECK(name && strcmp(name, "prog_add") == 0);
        OK(cuKernelGetLibrary(&of_kernel, kernel));
        CHECK(of_kernel == library);
        OK(cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, 0));
        CHECK(v == 1024);
        EXPECT(CUDA_ERROR_INVALID_DEVICE, cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 99));
        OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 50000, kernel, 0));
        OK(cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, 0));
        CHECK(v == 50000);
        EXPECT(CUDA_ERROR_INVALID_VALUE,
                cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000000, kernel, 0));
        OK(cuLibraryGetKernelCount(&count, library));
        CHECK(count >= 11 && count <= 32);
        OK(cuLibraryEnumerateKernels(all, 32, library));
        for (unsigned int i = 0; i < count; i++)
                found += all[i] == kernel;
        CHECK(found == 1);
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuLibraryGetModule(&module, library));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuKernelGetFunction(&function, kernel));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuKernelGetParamInfo(kernel, 0, &offset, NULL));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuKernelGetFunction(NULL, kernel));
        *ret = kernel;
}

static void launch(CUfunction f, CUdeviceptr p, int v)
{
        int n = 8;
        void *params[] = {&p, &n, &v};

        OK(cuLaunchKernel(f, 1, 1, 1, 8, 1, 1, 0, NULL, params, NULL));
}

/* A captured launch of a CUkernel becomes a node that names the CUfunction, as programs that edit nodes expect. */
static void check_node(CUkernel kernel, CUfunction function, CUdeviceptr p)
{
        CUDA_KERNEL_NODE_PARAMS node_params;
        CUgraphNode node;
        CUstream stream;
        CUgraph graph;
        size_t nodes = 1;
        int n = 8, v = 1;
        void *params[] = {&p, &n, &v};

        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 8, 1, 1, 0, stream, params, NULL));
        OK(cuStreamEndCapture(stream, &graph));
        OK(cuGraphGetNodes(graph, &node, &nodes));
        CHECK(nodes == 1);
        OK(cuGraphKernelNodeGetParams(node, &node_params));
        CHECK(node_params.func == function && node_params.blockDimX == 8);
        OK(cuGraphKernelNodeSetParams(node, &node_params));
        OK(cuGraphDestroy(graph));
        OK(cuStreamDestroy(stream));
}

static void check_in_context(CUlibrary library, CUkernel kernel)
{
        CUcontext context;
        CUfunction function, again;
        CUmodule module, same;
        CUdeviceptr p, table;
        size_t bytes = 0, offset = 99, size = 99;
        int value = 0, blocks = 0;

        MUST(cuCtxCreate(&context, NULL, 0, 0));
        MUST(cuMemAlloc(&p, 64));
        OK(cuMemsetD32(p, 0, 16));
        launch((CUfunction)kernel, p, 1); /* launches a CUkernel in place of a CUfunction */
        OK(cuKernelGetFunction(&function, kernel));
        launch(function, p, 2);
        check_node(kernel, function, p);
        OK(cuLibraryGetModule(&module, library));
        OK(cuLibraryGetModule(&same, library));
        CHECK(module == same);
        OK(cuModuleGetFunction(&again, module, "prog_add"));
        CHECK(again == function);
        launch(again, p, 4);
        OK(cuMemcpyDtoH(&value, p, sizeof(value)));
        CHECK(value == 7);
        OK(cuFuncGetModule(&same, function));
        CHECK(same == module);
        EXPECT(CUDA_ERROR_NOT_PERMITTED, cuModuleUnload(module));
        OK(cuLibraryGetGlobal(&table, &bytes, library, "prog_table"));
        CHECK(bytes == 32);
        OK(cuLibraryGetGlobal(NULL, &bytes, library, "prog_table"));
        OK(cuLibraryGetGlobal(&table, NULL, library, "prog_table"));
        OK(cuMemcpyDtoH(&value, table + 4, sizeof(value)));
        CHECK(value == 20);
        EXPECT(CUDA_ERROR_NOT_FOUND, cuLibraryGetGlobal(&table, &bytes, library, "absent"));
        OK(cuKernelGetParamInfo(kernel, 1, &offset, &size));
        CHECK(offset == 8 && size == 4);
        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (CUfunction)kernel, 128, 0));
        CHECK(blocks > 0);
        /* the last context is destroyed: its copy of the code is unloaded, but the library stays */
        OK(cuCtxDestroy(context));
}

int main(int argc, char **argv)
{
        CUlibrary library, other;
        CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
        void *yes = (void *)1;
        CUkernel kernel;
        char *text, path[4096];

        program_begin(argc, argv);
        MUST(cuInit(0));
        text = program_ptx("prog_basic");
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuLibraryLoadData(&library, NULL, NULL, NULL, 0, NULL, NULL, 0));
        EXPECT(CUDA_ERROR_FILE_NOT_FOUND,
                cuLibraryLoadFromFile(&library, "/nonexistent", NULL, NULL, 0, NULL, NULL, 0));
        MUST(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
        memset(text, 'x', 100); /* the library has its own copy of the text */
        check_without_context(library, &kernel);
        check_in_context(library, kernel);
        check_in_context(library, kernel);
        OK(cuLibraryUnload(library));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload(NULL));
        free(text);
        text = program_ptx("prog_basic");
        MUST(cuLibraryLoadData(&library, text, NULL, NULL, 0, &preserved, &yes, 1));
        snprintf(path, sizeof(path), "%s/prog_basic.ptx", program_kernels);
        MUST(cuLibraryLoadFromFile(&other, path, NULL, NULL, 0, NULL, NULL, 0));
        MUST(cuLibraryGetKernel(&kernel, library, "prog_add"));
        check_in_context(library, kernel);
        MUST(cuLibraryGetKernel(&kernel, other, "prog_add"));
        check_in_context(other, kernel);
        OK(cuLibraryUnload(library));
        OK(cuLibraryUnload(other));
        free(text);
        return program_end("libraries");
}
