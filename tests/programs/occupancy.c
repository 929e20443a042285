/* SPDX-License-Identifier: Apache-2.0 */
/* Occupancy: consistent with the device's limits and with possible launches */
#include "program.h"

static int attribute(CUdevice_attribute which)
{
        int value = -1;

        OK(cuDeviceGetAttribute(&value, which, 0));
        return value;
}

static size_t half_of_block(int block)
{
        return (size_t)block * 16;
}

static void check_blocks(CUfunction nothing, CUfunction shared)
{
        int per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
        int blocks_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
        int n = -1, last = blocks_per_sm;

        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, nothing, 1, 0));
        CHECK(n == blocks_per_sm);
        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, nothing, 1024, 0));
        CHECK(n == per_sm / 1024);
        OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                &n, nothing, 96, 0, CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE));
        CHECK(n == (per_sm / 96 < blocks_per_sm ? per_sm / 96 : blocks_per_sm));
        for (size_t bytes = 0; bytes <= 49152; bytes += 4096) {
                OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, nothing, 32, bytes));
                CHECK(n >= 1 && n <= last);
                last = n;
        }
        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, nothing, 32, 49153));
        CHECK(n == 0);
        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, nothing, 2048, 0));
        CHECK(n == 0);
        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, shared, 32, 49152 - 16384));
        CHECK(n >= 1);
        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, shared, 32, 49152 - 16384 + 1));
        CHECK(n == 0);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, nothing, 0, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, nothing, -1, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, nothing, 32, 0));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, NULL, 32, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&n, nothing, 32, 0, 2));
}

static void check_block_size(CUfunction nothing, CUfunction bounds)
{
        int sms = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), grid = 0, block = 0, n = 0;

        OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, nothing, NULL, 0, 0));
        CHECK(block == 1024);
        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, nothing, block, 0));
        CHECK(grid == n * sms);
        OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, bounds, NULL, 0, 0));
        CHECK(block == 256);
        OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, nothing, NULL, 0, 128));
        CHECK(block <= 128 && block > 0);
        OK(cuOccupancyMaxPotentialBlockSizeWithFlags(
                &grid, &block, nothing, half_of_block, 0, 0, CU_OCCUPANCY_DEFAULT));
        CHECK(block > 0 && grid > 0);
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuOccupancyMaxPotentialBlockSize(&grid, &block, NULL, NULL, 0, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxPotentialBlockSize(NULL, &block, nothing, NULL, 0, 0));
}

static void check_shared(CUfunction nothing, CUfunction reverse)
{
        int optin = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), n = 0;
        size_t bytes = 0;

        OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, nothing, 1, 32));
        CHECK(bytes == 49152);
        OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, nothing, 8, 32));
        CHECK(bytes > 0 && bytes <= 49152);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuOccupancyAvailableDynamicSMemPerBlock(&bytes, nothing, 0, 32));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuOccupancyAvailableDynamicSMemPerBlock(&bytes, nothing, 1, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuOccupancyAvailableDynamicSMemPerBlock(&bytes, nothing, 1, 2048));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuOccupancyAvailableDynamicSMemPerBlock(&bytes, nothing, 1000, 32));
        if (optin <= 49152)
                return;
        OK(cuFuncSetAttribute(reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, optin));
        OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, reverse, 1, 32));
        CHECK(bytes == (size_t)optin);
        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, reverse, 32, (size_t)optin));
        CHECK(n == 1);
        OK(cuFuncSetAttribute(reverse, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 0));
        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, reverse, 32, 16384));
        CHECK(n == 1);
}

/* A cooperative launch of as many blocks as fit succeeds; one more block is refused. */
static void check_cooperative(CUfunction nothing)
{
        unsigned int most;
        int n = 0;

        if (!attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH))
                return;
        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, nothing, 1024, 0));
        most = (unsigned int)(n * attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
        OK(cuLaunchCooperativeKernel(nothing, most, 1, 1, 1024, 1, 1, 0, NULL, NULL));
        EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                cuLaunchCooperativeKernel(nothing, most + 1, 1, 1, 1024, 1, 1, 0, NULL, NULL));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchCooperativeKernel(nothing, 1, 1, 1, 2048, 1, 1, 0, NULL, NULL));
        OK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
        CUcontext context;
        CUmodule module;

        program_begin(argc, argv);
        context = program_context();
        module = program_module("prog_basic");
        check_blocks(program_function(module, "prog_nothing"), program_function(module, "prog_static_shared"));
        check_block_size(program_function(module, "prog_nothing"), program_function(module, "prog_bounds"));
        check_shared(program_function(module, "prog_nothing"), program_function(module, "prog_reverse"));
        check_cooperative(program_function(module, "prog_nothing"));
        OK(cuCtxDestroy(context));
        return program_end("occupancy");
}
