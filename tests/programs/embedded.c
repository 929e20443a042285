/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image in the program's own file, and copies of it in memory, loaded repeatedly as modules and as libraries: each
 * load works and gives the same code
 */
#include "program.h"

/* Padding that makes the image so long that the client passes it as part of a file. */
#define LINE "// ...................................................................................................\n"
#define LINES_10 LINE LINE LINE LINE LINE LINE LINE LINE LINE LINE
#define LINES_100 LINES_10 LINES_10 LINES_10 LINES_10 LINES_10 LINES_10 LINES_10 LINES_10 LINES_10 LINES_10

static const char text[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n" LINES_100 LINES_100
        ".visible .entry add(.param .u64 p, .param .u32 n)\n{\n.reg .b64 %d<2>;\n.reg .b32 %r<4>;\n"
        "ld.param.u64 %d1, [p];\nld.param.u32 %r1, [n];\nld.global.u32 %r2, [%d1];\nadd.u32 %r3, %r1, %r2;\n"
        "st.global.u32 [%d1], %r3;\nret;\n}\n";

static CUdeviceptr sum;
static unsigned expected;

static void add(CUfunction function, unsigned n)
{
        void *params[] = {&sum, &n};

        OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        expected += n;
}

static void as_module(const char *image)
{
        CUmodule module;

        MUST(cuModuleLoadData(&module, image));
        add(program_function(module, "add"), 3);
        OK(cuModuleUnload(module));
}

static void as_library(const char *image, int preserved)
{
        CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
        void *value = (void *)(uintptr_t)1;
        CUlibrary library;
        CUkernel kernel;

        MUST(cuLibraryLoadData(&library, image, NULL, NULL, 0, &option, &value, preserved ? 1 : 0));
        MUST(cuLibraryGetKernel(&kernel, library, "add"));
        EXPECT(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&kernel, library, "ad"));
        add((CUfunction)kernel, 5);
        OK(cuCtxSynchronize());
        OK(cuLibraryUnload(library));
}

int main(int argc, char **argv)
{
        CUcontext context;
        unsigned value;
        char *copy;

        program_begin(argc, argv);
        context = program_context();
        copy = malloc(sizeof(text));
        memcpy(copy, text, sizeof(text));
        MUST(cuMemAlloc(&sum, sizeof(value)));
        OK(cuMemsetD32(sum, 0, 1));
        for (int i = 0; i < 3; i++) {
                as_module(text);
                as_module(copy);
                as_library(text, 1);
                as_library(copy, 0);
        }
        OK(cuMemcpyDtoH(&value, sum, sizeof(value)));
        CHECK(value == expected);
        free(copy);
        OK(cuMemFree(sum));
        OK(cuCtxDestroy(context));
        return program_end("embedded");
}
