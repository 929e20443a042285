/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cuda device through the device vtable, on the fake driver
 *
 * The bodies are those that run on a real GPU too (tests/gpu/device_common.h), then what only a driver that can be made
 * to fail shows. The fake driver aborts when something that stops the context is called while work is in flight.
 */
#include "tests/gpu/device_common.h"

#include "device/cuda/cuda.h"

static void setup(void)
{
        setenv("DETSHARE_LIBCUDA", TEST_FAKE_CUDA, 1);
        setenv("PTXAS", TEST_FAKE_PTXAS, 1);
}

#define SHARED(body, name)                                    \
        Test(cuda_device, name, .init = setup, .timeout = 60) \
        {                                                     \
                body(&ds_cuda_ops, "0");                      \
        }

SHARED(dt_test_info, info)
SHARED(dt_test_rungs, rungs)
SHARED(dt_test_spaces, spaces)
SHARED(dt_test_memory, memory)
SHARED(dt_test_copy_2d, copy_2d)
SHARED(dt_test_memset, memset)
SHARED(dt_test_memory_errors, memory_errors)
SHARED(dt_test_slab_survives, slab_survives)
SHARED(dt_test_module, module)
SHARED(dt_test_launch_errors, launch_errors)
SHARED(dt_test_saxpy, saxpy)
SHARED(dt_test_zero_copy, zero_copy)
SHARED(dt_test_stream_order, stream_order)
SHARED(dt_test_fences, fences)
SHARED(dt_test_globals, globals)
SHARED(dt_test_clock, clock)
SHARED(dt_test_unmap_under_work, unmap_under_work)
