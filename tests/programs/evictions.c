/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels whose blocks count themselves: each block runs exactly once, with its own index and the right result, however
 * often the kernel is evicted, sliced or moved. `claim` has long blocks. `turn` has a three-dimensional grid, a barrier
 * and shared memory, and some of its blocks exit early.
 *
 * usage: evictions [DIRECTORY [ROUNDS [TURNS [WAVES [FILE]]]]]
 *   ROUNDS   launches of each kernel
 *   TURNS    loop iterations of a block of `claim`
 *   WAVES    blocks of `claim` per SM, each of which takes nearly all shared memory of the SM
 *   FILE     made between the two kernels; the program waits until another process has removed it
 */
#include <unistd.h>

#include "program.h"

static const char ptx[] =
        ".version 7.0\n.target sm_60\n.address_size 64\n"
        ".visible .entry claim(.param .u64 out, .param .u64 count, .param .u64 table, .param .u32 n)\n{\n"
        " .reg .u64 %p<9>;\n .reg .u32 %r<8>;\n .reg .pred %q;\n"
        " ld.param.u64 %p1, [out];\n ld.param.u64 %p4, [count];\n ld.param.u32 %r1, [n];\n mov.u32 %r2, %ctaid.x;\n"
        " ld.param.u64 %p6, [table];\n"
        " mov.u32 %r3, 0;\n mov.u32 %r4, %r2;\n"
        "AGAIN:\n and.b32 %r6, %r4, 31;\n mul.wide.u32 %p7, %r6, 4;\n add.u64 %p8, %p6, %p7;\n"
        " ld.volatile.global.u32 %r7, [%p8];\n" /* the loaded value is always the same, which a compiler cannot know */
        " mad.lo.u32 %r4, %r4, 1664525, %r7;\n add.u32 %r3, %r3, 1;\n"
        " setp.lt.u32 %q, %r3, %r1;\n @%q bra AGAIN;\n"
        " mov.u32 %r5, %tid.x;\n setp.ne.u32 %q, %r5, 0;\n @%q ret;\n"
        " mul.wide.u32 %p2, %r2, 4;\n add.u64 %p3, %p1, %p2;\n st.global.u32 [%p3], %r4;\n"
        " add.u64 %p5, %p4, %p2;\n red.global.add.u32 [%p5], 1;\n ret;\n}\n"
        ".visible .entry turn(.param .u64 out, .param .u64 count)\n{\n"
        " .reg .u64 %p<8>;\n .reg .u32 %r<16>;\n .reg .pred %q;\n .shared .align 4 .b8 board[256];\n"
        " mov.u32 %r1, %ctaid.x;\n mov.u32 %r2, %ctaid.y;\n mov.u32 %r3, %ctaid.z;\n"
        " mov.u32 %r4, %nctaid.x;\n mov.u32 %r5, %nctaid.y;\n"
        " mad.lo.u32 %r6, %r3, %r5, %r2;\n mad.lo.u32 %r6, %r6, %r4, %r1;\n" /* %r6: linear index of the block */
        " mov.u32 %r7, %tid.x;\n"
        " ld.param.u64 %p1, [out];\n ld.param.u64 %p2, [count];\n"
        " mul.wide.u32 %p3, %r6, 4;\n add.u64 %p4, %p2, %p3;\n"
        " setp.ne.u32 %q, %r7, 0;\n @%q bra COUNTED;\n red.global.add.u32 [%p4], 1;\nCOUNTED:\n"
        " and.b32 %r8, %r6, 7;\n setp.eq.u32 %q, %r8, 5;\n @%q ret;\n" /* every eighth block exits as a whole */
        " mov.u32 %r9, board;\n shl.b32 %r10, %r7, 2;\n add.u32 %r10, %r9, %r10;\n"
        " mad.lo.u32 %r11, %r6, 100, %r7;\n st.shared.u32 [%r10], %r11;\n bar.sync 0;\n"
        " sub.u32 %r12, 63, %r7;\n shl.b32 %r12, %r12, 2;\n add.u32 %r12, %r9, %r12;\n ld.shared.u32 %r13, [%r12];\n"
        " shl.b32 %r14, %r6, 6;\n add.u32 %r14, %r14, %r7;\n mul.wide.u32 %p5, %r14, 4;\n add.u64 %p6, %p1, %p5;\n"
        " st.global.u32 [%p6], %r13;\n ret;\n}\n";

enum { LEFT = 1024 };
enum { THREADS = 64, X = 5, Y = 7, Z = 11, BLOCKS = X * Y * Z, AT_ONCE = 4, TABLE = 32 };

static uint32_t expected(uint32_t block, uint32_t n)
{
        uint32_t x = block;

        for (uint32_t i = 0; i < n; i++)
                x = x * 1664525u + 1013904223u;
        return x;
}

static void check_counts(CUdeviceptr count, uint32_t n, uint32_t rounds)
{
        uint32_t *counts = calloc(n, 4), wrong = 0;

        OK(cuMemcpyDtoH(counts, count, (size_t)n * 4));
        for (uint32_t i = 0; i < n; i++)
                wrong += counts[i] != rounds;
        CHECK(wrong == 0);
        free(counts);
}

static int attribute(CUdevice_attribute name)
{
        int value = 0;

        OK(cuDeviceGetAttribute(&value, name, 0));
        return value;
}

static void claim(CUfunction kernel, uint32_t blocks, uint32_t shared, uint32_t rounds, uint32_t n)
{
        uint32_t *results = calloc(blocks, 4), wrong = 0;
        CUdeviceptr out, count, table;

        MUST(cuMemAlloc(&out, (size_t)blocks * 4));
        MUST(cuMemAlloc(&count, (size_t)blocks * 4));
        MUST(cuMemAlloc(&table, TABLE * 4));
        OK(cuMemsetD32(count, 0, blocks));
        OK(cuMemsetD32(table, 1013904223u, TABLE));
        void *params[] = {&out, &count, &table, &n};
        for (uint32_t i = 0; i < rounds; i++) {
                OK(cuLaunchKernel(kernel, blocks, 1, 1, 32, 1, 1, shared, NULL, params, NULL));
                if (i % AT_ONCE == AT_ONCE - 1)
                        OK(cuCtxSynchronize());
        }
        OK(cuCtxSynchronize());
        OK(cuMemcpyDtoH(results, out, (size_t)blocks * 4));
        for (uint32_t i = 0; i < blocks; i++)
                wrong += results[i] != expected(i, n);
        CHECK(wrong == 0);
        check_counts(count, blocks, rounds);
        OK(cuMemFree(table));
        OK(cuMemFree(count));
        OK(cuMemFree(out));
        free(results);
}

static void turn(CUfunction kernel, uint32_t rounds)
{
        uint32_t *results = calloc(BLOCKS * THREADS, 4), wrong = 0;
        CUdeviceptr out, count;

        MUST(cuMemAlloc(&out, BLOCKS * THREADS * 4));
        MUST(cuMemAlloc(&count, BLOCKS * 4));
        OK(cuMemsetD32(out, 0, BLOCKS * THREADS));
        OK(cuMemsetD32(count, 0, BLOCKS));
        void *params[] = {&out, &count};
        for (uint32_t i = 0; i < rounds; i++)
                OK(cuLaunchKernel(kernel, X, Y, Z, THREADS, 1, 1, 0, NULL, params, NULL));
        OK(cuCtxSynchronize());
        OK(cuMemcpyDtoH(results, out, BLOCKS * THREADS * 4));
        for (uint32_t block = 0; block < BLOCKS; block++)
                for (uint32_t i = 0; i < THREADS; i++)
                        wrong += results[block * THREADS + i] !=
                                 ((block & 7) == 5 ? 0 : block * 100 + (THREADS - 1 - i));
        CHECK(wrong == 0);
        check_counts(count, BLOCKS, rounds);
        OK(cuMemFree(count));
        OK(cuMemFree(out));
        free(results);
}

static void wait_for(const char *path)
{
        FILE *file = fopen(path, "w");

        CHECK(file != NULL);
        if (file)
                fclose(file);
        while (access(path, F_OK) == 0)
                usleep(10000);
}

/* Launches blocks that have an SM each to themselves, unless waves = 0. Some shared memory is left for the
 * persistent form. */
static void claim_waves(CUfunction kernel, uint32_t waves, uint32_t rounds, uint32_t n)
{
        const int sms = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
        const int room = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);

        if (!waves) {
                claim(kernel, (uint32_t)sms * 2 + 3, 0, rounds, n);
                return;
        }
        OK(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, room));
        claim(kernel, (uint32_t)sms * waves, (uint32_t)room - LEFT, rounds, n);
}

int main(int argc, char **argv)
{
        const uint32_t rounds = argc > 2 ? (uint32_t)atoi(argv[2]) : 2, n = argc > 3 ? (uint32_t)atoi(argv[3]) : 100;
        const uint32_t waves = argc > 4 ? (uint32_t)atoi(argv[4]) : 0;
        CUcontext context;
        CUmodule module;

        program_begin(argc, argv);
        context = program_context();
        MUST(cuModuleLoadData(&module, ptx));
        claim_waves(program_function(module, "claim"), waves, rounds, n);
        if (argc > 5)
                wait_for(argv[5]);
        turn(program_function(module, "turn"), rounds);
        OK(cuModuleUnload(module));
        OK(cuCtxDestroy(context));
        return program_end("evictions");
}
