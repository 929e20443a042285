/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linker with one PTX text, as programs that generate PTX use it, and compiler options: the result can be loaded
 * and runs. Errors and their messages come from the call that adds the text. An image that cannot be linked is refused.
 */
#include "program.h"

#include <string.h>

static const char good[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                           ".visible .entry seven(.param .u64 p)\n{\n.reg .b64 %d<2>;\n.reg .b32 %r<2>;\n"
                           "ld.param.u64 %d1, [p];\nmov.u32 %r1, 7;\nst.global.u32 [%d1], %r1;\nret;\n}\n";
static const char bad[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry k()\n{\nfrobnicate;\nret;\n}\n";

static void runs(const void *image)
{
        CUdeviceptr memory;
        CUfunction function;
        CUmodule module;
        int value = 0;
        void *params[] = {&memory};

        EXPECT(CUDA_SUCCESS, cuMemAlloc(&memory, sizeof(value)));
        EXPECT(CUDA_SUCCESS, cuModuleLoadData(&module, image));
        EXPECT(CUDA_SUCCESS, cuModuleGetFunction(&function, module, "seven"));
        EXPECT(CUDA_SUCCESS, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        EXPECT(CUDA_SUCCESS, cuMemcpyDtoH(&value, memory, sizeof(value)));
        CHECK(value == 7);
        EXPECT(CUDA_SUCCESS, cuModuleUnload(module));
        EXPECT(CUDA_SUCCESS, cuMemFree(memory));
}

static void one_text(void)
{
        char errors[1000] = "x";
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_MAX_REGISTERS};
        void *values[] = {errors, (void *)(uintptr_t)sizeof(errors), (void *)(uintptr_t)32};
        CUlinkState state;
        size_t size = 0;
        void *image;

        EXPECT(CUDA_SUCCESS, cuLinkCreate(3, options, values, &state));
        EXPECT(CUDA_SUCCESS,
                cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)good, sizeof(good), "good", 0, NULL, NULL));
        EXPECT(CUDA_SUCCESS, cuLinkComplete(state, &image, &size));
        CHECK(image && size > 0);
        runs(image);
        /* a link that is complete takes no more images */
        EXPECT(CUDA_ERROR_INVALID_VALUE,
                cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)good, sizeof(good), "more", 0, NULL, NULL));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLinkComplete(state, &image, &size));
        EXPECT(CUDA_SUCCESS, cuLinkDestroy(state));
}

static void two_texts(void)
{
        char errors[1000] = "x";
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
        void *values[] = {errors, (void *)(uintptr_t)sizeof(errors)};
        CUlinkState state;
        CUresult r;

        EXPECT(CUDA_SUCCESS, cuLinkCreate(2, options, values, &state));
        EXPECT(CUDA_SUCCESS,
                cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)good, sizeof(good), "good", 0, NULL, NULL));
        /* DetShare refuses a second image; other drivers find the name defined twice */
        r = cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)good, sizeof(good), "more", 0, NULL, NULL);
        CHECK(r != CUDA_ERROR_NOT_SUPPORTED || strstr(errors, "linking several images"));
        EXPECT(CUDA_SUCCESS, cuLinkDestroy(state));
}

/* Links a module without functions. */
static void no_text(void)
{
        CUfunction function;
        CUlinkState state;
        CUmodule module;
        size_t size = 0;
        void *image;

        EXPECT(CUDA_SUCCESS, cuLinkCreate(0, NULL, NULL, &state));
        EXPECT(CUDA_SUCCESS, cuLinkComplete(state, &image, &size));
        CHECK(image && size > 0);
        EXPECT(CUDA_SUCCESS, cuModuleLoadData(&module, image));
        EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&function, module, "seven"));
        EXPECT(CUDA_SUCCESS, cuModuleUnload(module));
        EXPECT(CUDA_SUCCESS, cuLinkDestroy(state));
}

/* Links an invalid text. CUDA leaves open when the log's size is written and whether it counts the terminating zero. */
static void bad_text(void)
{
        char errors[1000] = "";
        size_t sizes[3];
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
        void *values[] = {errors, (void *)(uintptr_t)sizeof(errors)};
        CUlinkState state;

        EXPECT(CUDA_SUCCESS, cuLinkCreate(2, options, values, &state));
        EXPECT(CUDA_ERROR_INVALID_PTX,
                cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)bad, sizeof(bad), "bad", 0, NULL, NULL));
        CHECK(strstr(errors, "frobnicate"));
        sizes[0] = (size_t)values[1];
        EXPECT(CUDA_ERROR_INVALID_VALUE,
                cuLinkAddData(state, (CUjitInputType)99, (void *)(uintptr_t)bad, sizeof(bad), "a", 0, NULL, NULL));
        EXPECT(CUDA_ERROR_FILE_NOT_FOUND, cuLinkAddFile(state, CU_JIT_INPUT_PTX, "/nowhere", 0, NULL, NULL));
        sizes[1] = (size_t)values[1];
        EXPECT(CUDA_SUCCESS, cuLinkDestroy(state));
        sizes[2] = (size_t)values[1];
        if (program_is_shared())
                CHECK(sizes[0] == strlen(errors) + 1);
        else
                NOTE("link: %zu bytes of words in room for %zu; the size is %zu when they are there, then %zu, "
                     "at last %zu",
                        strlen(errors), sizeof(errors), sizes[0], sizes[1], sizes[2]);
}

/*
 * Optimisation level and register limit reach the compiler, if there is one; the program sees no difference. The
 * compile time may be 0 if the driver has cached the result.
 */
static void options(void)
{
        const float before = -1;
        CUjit_option names[] = {CU_JIT_OPTIMIZATION_LEVEL, CU_JIT_MAX_REGISTERS, CU_JIT_WALL_TIME};
        void *values[] = {(void *)(uintptr_t)1, (void *)(uintptr_t)24, NULL};
        CUmodule module;
        CUfunction function;
        int registers = 0;
        float ms;

        memcpy(&values[2], &before, sizeof(before));
        EXPECT(CUDA_SUCCESS, cuModuleLoadDataEx(&module, good, 3, names, values));
        memcpy(&ms, &values[2], sizeof(ms));
        if (program_is_shared())
                CHECK(ms > 0);
        else
                NOTE("link: the compiler took %g ms (%g: left as it was)", (double)ms, (double)before);
        EXPECT(CUDA_SUCCESS, cuModuleGetFunction(&function, module, "seven"));
        EXPECT(CUDA_SUCCESS, cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
        EXPECT(CUDA_SUCCESS, cuModuleUnload(module));
}

int main(int argc, char **argv)
{
        CUcontext context;

        program_begin(argc, argv);
        context = program_context();

        one_text();
        two_texts();
        no_text();
        bad_text();
        options();
        EXPECT(CUDA_SUCCESS, cuCtxDestroy(context));
        return program_end("link");
}
