/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Occupancy: against answers of a real GPU, and against the calculator in the toolkit's headers
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__has_include)
#if __has_include(<cuda_occupancy.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wunused-function"
#include <cuda_occupancy.h>
#pragma GCC diagnostic pop
#define HAVE_CALCULATOR 1
#endif
#endif

#include "cuda/occupancy.h"

static const struct dcu_occupancy_device h200 = {.cc_major = 9,
        .threads_per_block = 1024,
        .threads_per_sm = 2048,
        .blocks_per_sm = 32,
        .warp = 32,
        .registers_per_block = 65536,
        .registers_per_sm = 65536,
        .shared_per_sm = 233472,
        .shared_per_block_optin = 232448,
        .shared_reserved = 1024};

Test(occupancy, answers_as_an_h200_did)
{
        FILE *f = fopen(DATA "/occupancy-h200.txt", "r");
        unsigned int n = 0;
        char line[256];

        cr_assert(f);
        while (fgets(line, sizeof(line), f)) {
                struct dcu_occupancy_kernel k = {.carveout = -1};
                int block, blocks;
                size_t dynamic;

                if (line[0] == '#')
                        continue;
                cr_assert_eq(
                        sscanf(line, "%d %zu %d %zu %d", &k.registers, &k.static_shared, &block, &dynamic, &blocks), 5);
                k.max_dynamic_shared = 49152 - k.static_shared;
                cr_expect_eq(dcu_occupancy_blocks(&h200, &k, block, dynamic), blocks, "%s", line);
                n++;
        }
        fclose(f);
        cr_expect_gt(n, 300);
}

Test(occupancy, honours_the_preferred_share)
{
        struct dcu_occupancy_kernel k = {.registers = 10, .max_dynamic_shared = 200000, .carveout = -1};

        cr_expect_eq(dcu_occupancy_blocks(&h200, &k, 128, 100000), 2);
        cr_expect_eq(dcu_occupancy_blocks(&h200, &k, 128, 200000), 1);
        k.carveout = 0;
        cr_expect_eq(dcu_occupancy_blocks(&h200, &k, 128, 16384), 1);
        k.carveout = 50;
        cr_expect_eq(dcu_occupancy_blocks(&h200, &k, 128, 16384), 7);
}

Test(occupancy, of_what_does_not_fit_is_zero)
{
        struct dcu_occupancy_kernel k = {.registers = 8, .max_dynamic_shared = 49152, .carveout = -1};

        cr_expect_eq(dcu_occupancy_blocks(&h200, &k, 2048, 0), 0);
        cr_expect_eq(dcu_occupancy_blocks(&h200, &k, 128, 49153), 0);
        cr_expect_eq(dcu_occupancy_blocks(&h200, &k, 128, 300000), 0);
        cr_expect(dcu_occupancy_registers_fit(&h200, 254, 256));
        cr_expect_not(dcu_occupancy_registers_fit(&h200, 254, 512));
}

Test(occupancy, available_shared_memory_as_an_h200_said)
{
        static const int expected[][2] = {
                {1, 49152}, {6, 38912}, {11, 21120}, {16, 14592}, {21, 11008}, {26, 8960}, {31, 7424}, {36, -1}};
        static const int expected_16k[][2] = {{1, 32768}, {6, 22528}, {11, 4736}, {16, -1}, {31, -1}};
        struct dcu_occupancy_kernel k = {.registers = 8, .max_dynamic_shared = 49152, .carveout = -1};

        for (unsigned int i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
                cr_expect_eq(dcu_occupancy_dynamic_shared(&h200, &k, expected[i][0], 32), expected[i][1], "%d",
                        expected[i][0]);
        cr_expect_eq(dcu_occupancy_dynamic_shared(&h200, &k, 2, 1024), 49152);
        cr_expect_eq(dcu_occupancy_dynamic_shared(&h200, &k, 3, 1024), -1);
        k.static_shared = 16384;
        k.max_dynamic_shared = 32768;
        for (unsigned int i = 0; i < sizeof(expected_16k) / sizeof(expected_16k[0]); i++)
                cr_expect_eq(dcu_occupancy_dynamic_shared(&h200, &k, expected_16k[i][0], 32), expected_16k[i][1], "%d",
                        expected_16k[i][0]);
        k.registers = 254;
        k.static_shared = 0;
        k.max_dynamic_shared = 49152;
        cr_expect_eq(dcu_occupancy_dynamic_shared(&h200, &k, 11, 32), -1);
}

#ifdef HAVE_CALCULATOR
static void describe(const struct dcu_occupancy_device *d, cudaOccDeviceProp *p)
{
        *p = (cudaOccDeviceProp){.computeMajor = d->cc_major,
                .computeMinor = d->cc_minor,
                .maxThreadsPerBlock = d->threads_per_block,
                .maxThreadsPerMultiprocessor = d->threads_per_sm,
                .regsPerBlock = d->registers_per_block,
                .regsPerMultiprocessor = d->registers_per_sm,
                .warpSize = d->warp,
                .sharedMemPerBlock = 49152,
                .sharedMemPerMultiprocessor = d->shared_per_sm,
                .numSms = 100,
                .sharedMemPerBlockOptin = d->shared_per_block_optin,
                .reservedSharedMemPerBlock = d->shared_reserved};
}

static void compare(const struct dcu_occupancy_device *d, unsigned int seed)
{
        cudaOccDeviceProp properties;
        cudaOccDeviceState state = {.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT};

        srand(seed);
        describe(d, &properties);
        for (int i = 0; i < 4000; i++) {
                struct dcu_occupancy_kernel k = {.registers = 1 + rand() % 255, .carveout = -1};
                cudaOccFuncAttributes attributes = {.maxThreadsPerBlock = 1024,
                        .numRegs = k.registers,
                        .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
                        .maxDynamicSharedSizeBytes = d->shared_per_block_optin};
                cudaOccResult result;
                int block = 1 + rand() % 1024;
                size_t dynamic = rand() % 3 ? (size_t)(rand() % 30000) : 0;

                k.carveout = rand() % 2 ? rand() % 101 : -1;
                state.carveoutConfig = k.carveout;
                k.static_shared = rand() % 2 ? (size_t)(rand() % 20000) : 0;
                k.max_dynamic_shared = d->shared_per_block_optin;
                attributes.sharedSizeBytes = k.static_shared;
                cr_assert_eq(cudaOccMaxActiveBlocksPerMultiprocessor(
                                     &result, &properties, &attributes, &state, block, dynamic),
                        CUDA_OCC_SUCCESS);
                cr_expect_eq(dcu_occupancy_blocks(d, &k, block, dynamic), result.activeBlocksPerMultiprocessor,
                        "cc %d.%d registers %d static %zu block %d dynamic %zu: %d not %d", d->cc_major, d->cc_minor,
                        k.registers, k.static_shared, block, dynamic, dcu_occupancy_blocks(d, &k, block, dynamic),
                        result.activeBlocksPerMultiprocessor);
        }
}
#endif

Test(occupancy, agrees_with_the_toolkits_calculator)
{
#ifdef HAVE_CALCULATOR
        struct dcu_occupancy_device turing = {7, 5, 1024, 1024, 16, 32, 65536, 65536, 65536, 65536, 0};
        struct dcu_occupancy_device ampere = {8, 6, 1024, 1536, 16, 32, 65536, 65536, 102400, 101376, 1024};
        struct dcu_occupancy_device a100 = {8, 0, 1024, 2048, 32, 32, 65536, 65536, 167936, 166912, 1024};

        compare(&h200, 1);
        compare(&turing, 2);
        compare(&ampere, 3);
        compare(&a100, 4);
#else
        skip_test("cuda_occupancy.h of a CUDA toolkit");
#endif
}
