/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels with a known time as a function of the number of SMs. `wide` has as many blocks as the GPU has SMs, each with
 * all shared memory of an SM, so it needs two waves as soon as one SM is missing. `narrow` has eight small blocks.
 *
 * usage: stairs [DIRECTORY [ROUNDS [TURNS]]]
 *   ROUNDS   launches of each kernel, one after the other
 *   TURNS    loop iterations of a block
 */
#include "program.h"

#define KERNEL(name, factor, add)                                                       \
        ".visible .entry " name "(.param .u64 out, .param .u32 n)\n{\n"                 \
        " .reg .u64 %p<4>;\n .reg .u32 %r<6>;\n .reg .pred %q;\n"                       \
        " ld.param.u64 %p1, [out];\n ld.param.u32 %r1, [n];\n mov.u32 %r2, %ctaid.x;\n" \
        " mov.u32 %r3, 0;\n mov.u32 %r4, %r2;\n"                                        \
        "AGAIN:\n mad.lo.u32 %r4, %r4, " factor ", " add ";\n add.u32 %r3, %r3, 1;\n"   \
        " setp.lt.u32 %q, %r3, %r1;\n @%q bra AGAIN;\n"                                 \
        " mul.wide.u32 %p2, %r2, 4;\n add.u64 %p3, %p1, %p2;\n st.global.u32 [%p3], %r4;\n ret;\n}\n"

static const char ptx[] = ".version 7.0\n.target sm_60\n.address_size 64\n" KERNEL("wide", "1664525", "1013904223")
        KERNEL("narrow", "22695477", "1");

static uint32_t expected(uint32_t block, uint32_t n, uint32_t factor, uint32_t add)
{
        uint32_t x = block;

        for (uint32_t i = 0; i < n; i++)
                x = x * factor + add;
        return x;
}

static int attribute(CUdevice_attribute name)
{
        int value = 0;

        OK(cuDeviceGetAttribute(&value, name, 0));
        return value;
}

int main(int argc, char **argv)
{
        enum { NARROW = 8 };
        const int rounds = argc > 2 ? atoi(argv[2]) : 2;
        uint32_t n = argc > 3 ? (uint32_t)atoi(argv[3]) : 300, *result;
        CUfunction wide, narrow;
        CUcontext context;
        CUdeviceptr out;
        CUmodule module;
        int sms, room;

        program_begin(argc, argv);
        context = program_context();
        sms = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
        room = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
        MUST(cuModuleLoadData(&module, ptx));
        wide = program_function(module, "wide");
        narrow = program_function(module, "narrow");
        OK(cuFuncSetAttribute(wide, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, room));
        MUST(cuMemAlloc(&out, (size_t)sms * 4));
        result = calloc((size_t)sms, 4);
        void *params[] = {&out, &n};
        for (int i = 0; i < rounds; i++) {
                OK(cuLaunchKernel(wide, (unsigned)sms, 1, 1, 32, 1, 1, (unsigned)room, NULL, params, NULL));
                OK(cuCtxSynchronize());
        }
        OK(cuMemcpyDtoH(result, out, (size_t)sms * 4));
        for (int i = 0; i < sms; i++)
                CHECK(result[i] == expected((uint32_t)i, n, 1664525, 1013904223));
        for (int i = 0; i < rounds; i++)
                OK(cuLaunchKernel(narrow, NARROW, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
        OK(cuMemcpyDtoH(result, out, NARROW * 4));
        for (int i = 0; i < NARROW; i++)
                CHECK(result[i] == expected((uint32_t)i, n, 22695477, 1));
        free(result);
        OK(cuMemFree(out));
        OK(cuModuleUnload(module));
        OK(cuCtxDestroy(context));
        return program_end("stairs");
}
