/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake libcuda on the simulated device, called directly: the properties that tests of the cuda device rely on
 *
 * It is loaded as the daemon loads a driver. Each test is a process of its own with a driver of its own.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/cuda/driver.h"
#include "tests/support/fake_cuda/cubin.h"
#include "util/macro.h"

#define VA UINT64_C(0x300000000000)
#define SLAB DS_MIB(64)
#define HEADER ".version 7.8\n.target sm_90\n.address_size 64\n"

/* kernel add: y[i] += i in every thread; further kernels and a variable for several tests */
static const char text[] = HEADER
        ".visible .global .align 4 .u32 counter = 40;\n"
        ".visible .entry add(.param .u64 y, .param .u32 n)\n"
        "{\n .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>;\n ld.param.u64 %rd1, [y];\n ld.param.u32 %r1, [n];\n"
        " mov.u32 %r2, %ctaid.x;\n mov.u32 %r3, %ntid.x;\n mov.u32 %r4, %tid.x;\n mad.lo.s32 %r5, %r2, %r3, %r4;\n"
        " setp.ge.u32 %p1, %r5, %r1;\n @%p1 bra DONE;\n mul.wide.u32 %rd2, %r5, 4;\n add.s64 %rd3, %rd1, %rd2;\n"
        " ld.global.u32 %r6, [%rd3];\n add.u32 %r7, %r6, %r5;\n st.global.u32 [%rd3], %r7;\nDONE:\n ret;\n}\n"
        ".visible .entry smid(.param .u64 y)\n"
        "{\n .reg .b32 %r<4>; .reg .b64 %rd<4>;\n ld.param.u64 %rd1, [y];\n mov.u32 %r1, %smid;\n"
        " mul.wide.u32 %rd2, %r1, 4;\n add.s64 %rd3, %rd1, %rd2;\n mov.u32 %r2, 1;\n st.global.u32 [%rd3], %r2;\n "
        "ret;\n}\n"
        /* kernel spin: an empty loop of n rounds */
        ".visible .entry spin(.param .u32 n)\n"
        "{\n .reg .pred %p<2>; .reg .b32 %r<3>;\n ld.param.u32 %r1, [n];\n mov.u32 %r2, 0;\nAGAIN:\n"
        " add.u32 %r2, %r2, 1;\n setp.lt.u32 %p1, %r2, %r1;\n @%p1 bra AGAIN;\n ret;\n}\n";

static struct ds_cuda_driver driver;
static CUcontext context;

#define CALL(name) (driver.name##_fn)
#define OK(call) cr_assert_eq((call), CUDA_SUCCESS)

static void setup(void)
{
        CUdevice device;

        OK(ds_cuda_driver_load(&driver, TEST_FAKE_CUDA));
        OK(CALL(cuInit)(0));
        OK(CALL(cuDeviceGet)(&device, 0));
        OK(CALL(cuDevicePrimaryCtxRetain)(&context, device));
        OK(CALL(cuCtxSetCurrent)(context));
}

static void teardown(void)
{
        OK(CALL(cuDevicePrimaryCtxRelease)(0));
}

static CUmemGenericAllocationHandle memory_new(void)
{
        CUmemAllocationProp prop = {
                .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
        };
        CUmemGenericAllocationHandle handle;

        OK(CALL(cuMemCreate)(&handle, SLAB, &prop, 0));
        return handle;
}

static void memory_map(CUmemGenericAllocationHandle handle, CUdeviceptr va)
{
        CUmemAccessDesc access = {
                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

        OK(CALL(cuMemMap)(va, SLAB, 0, handle, 0));
        OK(CALL(cuMemSetAccess)(va, SLAB, &access, 1));
}

static void reserve(CUdeviceptr va, size_t size)
{
        CUdeviceptr got;

        OK(CALL(cuMemAddressReserve)(&got, size, 0, va, 0));
        cr_assert_eq(got, va);
}

static CUstream stream_new(void)
{
        CUstream stream;

        OK(CALL(cuStreamCreateWithPriority)(&stream, CU_STREAM_NON_BLOCKING, 0));
        return stream;
}

static CUfunction function_of(CUlibrary library, const char *wanted)
{
        CUkernel kernels[8];
        unsigned int n;
        const char *name;
        CUfunction f = NULL;

        OK(CALL(cuLibraryGetKernelCount)(&n, library));
        OK(CALL(cuLibraryEnumerateKernels)(kernels, n, library));
        for (unsigned int i = 0; i < n; i++) {
                OK(CALL(cuKernelGetName)(&name, kernels[i]));
                if (!strcmp(name, wanted))
                        OK(CALL(cuKernelGetFunction)(&f, kernels[i]));
        }
        cr_assert_not_null(f);
        return f;
}

static CUlibrary library_new(const char *ptx)
{
        CUlibrary library;
        size_t size;
        void *image = gpu_test_cubin(ptx, true, &size);

        cr_assert_not_null(image, "ptxas refuses the text");

        OK(CALL(cuLibraryLoadData)(&library, image, NULL, NULL, 0, NULL, NULL, 0));
        free(image);
        return library;
}

static void launch(CUfunction f, CUstream stream, unsigned int grid, unsigned int block, void *params, size_t size)
{
        void *extra[] = {
                CU_LAUNCH_PARAM_BUFFER_POINTER, params, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};

        OK(CALL(cuLaunchKernel)(f, grid, 1, 1, block, 1, 1, 0, stream, NULL, extra));
}

struct add {
        CUdeviceptr y;
        uint32_t n;
};

static void spin(CUlibrary library, CUstream stream, uint32_t rounds)
{
        launch(function_of(library, "spin"), stream, 1, 32, &rounds, sizeof(rounds));
}

Test(fake_cuda, names_its_device, .init = setup, .fini = teardown, .timeout = 60)
{
        const char *name;
        char device[64];
        int value;

        OK(CALL(cuDeviceGetName)(device, sizeof(device), 0));
        cr_assert(strstr(device, "fake"), "%s", device);
        OK(CALL(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
        cr_assert_eq(value, 132);
        OK(CALL(cuGetErrorName)(CUDA_ERROR_ILLEGAL_ADDRESS, &name));
        cr_assert_str_eq(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
        cr_assert_eq(CALL(cuGetErrorName)(12345, &name), CUDA_ERROR_INVALID_VALUE);
}

Test(fake_cuda, kernels_give_results, .init = setup, .fini = teardown, .timeout = 60)
{
        CUlibrary library = library_new(text);
        CUstream stream = stream_new();
        struct add params = {.y = VA, .n = 1000};
        uint32_t host[1000];
        void *by_pointer[] = {&params.y, &params.n};

        reserve(VA, 4 * SLAB);
        memory_map(memory_new(), VA);
        OK(CALL(cuMemsetD32Async)(VA, 7, 1000, stream));
        launch(function_of(library, "add"), stream, 4, 256, &params, 12);
        OK(CALL(cuLaunchKernel)(function_of(library, "add"), 4, 1, 1, 256, 1, 1, 0, stream, by_pointer, NULL));
        OK(CALL(cuMemcpyDtoHAsync)(host, VA, sizeof(host), stream));
        for (uint32_t i = 0; i < 1000; i++)
                cr_assert_eq(host[i], 7 + 2 * i);
}

/* New device memory contains old bytes, and unmapped memory is inaccessible. */
Test(fake_cuda, memory_is_as_dirty_as_a_gpus, .init = setup, .timeout = 60)
{
        CUmemGenericAllocationHandle handle = memory_new();
        CUstream stream = stream_new();
        uint8_t byte = 0;

        cr_assert_eq(CALL(cuMemMap)(VA, SLAB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE, "nothing is reserved");
        reserve(VA, SLAB);
        OK(CALL(cuMemMap)(VA, SLAB, 0, handle, 0));
        cr_assert_eq(CALL(cuMemcpyDtoHAsync)(&byte, VA, 1, stream), CUDA_ERROR_INVALID_VALUE, "no access");
        OK(CALL(cuMemUnmap)(VA, SLAB));
        memory_map(handle, VA);
        OK(CALL(cuMemcpyDtoHAsync)(&byte, VA, 1, stream));
        cr_assert_neq(byte, 0);
        cr_assert_eq(CALL(cuMemAddressFree)(VA, SLAB), CUDA_ERROR_INVALID_VALUE, "still mapped");
        OK(CALL(cuMemUnmap)(VA, SLAB));
        OK(CALL(cuMemRelease)(handle));
        cr_assert_eq(CALL(cuMemRelease)(handle), CUDA_ERROR_INVALID_VALUE);
        OK(CALL(cuMemAddressFree)(VA, SLAB));
}

/* Another process, or a later mapping, finds the bytes by the descriptor. */
Test(fake_cuda, memory_outlives_the_context, .init = setup, .timeout = 60)
{
        CUmemGenericAllocationHandle handle = memory_new();
        CUstream stream = stream_new();
        uint32_t word = 0;
        int fd = -1;

        reserve(VA, SLAB);
        memory_map(handle, VA);
        OK(CALL(cuMemsetD32Async)(VA + SLAB - 4, 0xfeedface, 1, stream));
        OK(CALL(cuMemExportToShareableHandle)(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        OK(CALL(cuStreamSynchronize)(stream));
        OK(CALL(cuMemRelease)(handle));
        teardown();
        cr_assert_eq(CALL(cuCtxSynchronize)(), CUDA_ERROR_INVALID_CONTEXT);
        OK(CALL(cuDevicePrimaryCtxRetain)(&context, 0));
        OK(CALL(cuCtxSetCurrent)(context));
        stream = stream_new();
        reserve(VA, SLAB);
        OK(CALL(cuMemImportFromShareableHandle)(
                &handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        memory_map(handle, VA);
        OK(CALL(cuMemcpyDtoHAsync)(&word, VA + SLAB - 4, 4, stream));
        cr_assert_eq(word, 0xfeedface);
        close(fd);
        teardown();
}

Test(fake_cuda, registered_memory_is_the_kernels, .init = setup, .fini = teardown, .timeout = 60)
{
        CUlibrary library = library_new(text);
        CUstream stream = stream_new();
        uint32_t *host = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        struct add params = {.y = (uintptr_t)host, .n = 100};
        CUdeviceptr device;

        cr_assert_eq(CALL(cuMemHostRegister)((void *)(uintptr_t)VA, 4096, 0), CUDA_ERROR_INVALID_VALUE);
        OK(CALL(cuMemHostRegister)(host, 65536, 0));
        cr_assert_eq(CALL(cuMemHostRegister)(host + 1024, 4096, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        OK(CALL(cuMemHostGetDevicePointer)(&device, host, 0));
        cr_assert_eq(device, params.y);
        launch(function_of(library, "add"), stream, 1, 128, &params, 12);
        OK(CALL(cuMemHostUnregister)(host)); /* unregistering waits for the kernel, as with the real driver */
        cr_assert_eq(host[99], 99);
        cr_assert_eq(CALL(cuMemHostUnregister)(host), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
        munmap(host, 65536);
}

/* The fake GPU has 66 pairs of SMs; work in a green context of some of them runs on these SMs only. */
Test(fake_cuda, green_contexts_confine, .init = setup, .fini = teardown, .timeout = 60)
{
        CUdevResource whole, groups[80], chosen[3], rest;
        CUdevResourceDesc desc;
        CUlibrary library = library_new(text);
        CUgreenCtx green;
        CUstream streams[9];
        CUdeviceptr y = VA;
        uint32_t seen[132], n = 0;
        unsigned int n_groups = 80;

        OK(CALL(cuDeviceGetDevResource)(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
        cr_assert_eq(whole.sm.smCount, 132);
        OK(CALL(cuDevSmResourceSplitByCount)(
                groups, &n_groups, &whole, &rest, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, 2));
        cr_assert_eq(n_groups, 66);
        chosen[0] = groups[3];
        chosen[1] = groups[40];
        chosen[2] = groups[65];
        OK(CALL(cuDevResourceGenerateDesc)(&desc, chosen, 3));
        OK(CALL(cuGreenCtxCreate)(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
        for (int i = 0; i < 8; i++)
                OK(CALL(cuGreenCtxStreamCreate)(&streams[i], green, CU_STREAM_NON_BLOCKING, 0));
        cr_assert_neq(CALL(cuGreenCtxStreamCreate)(&streams[8], green, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
        OK(CALL(cuGreenCtxStreamCreate)(&streams[8], green, CU_STREAM_NON_BLOCKING, -5));
        reserve(VA, SLAB);
        memory_map(memory_new(), VA);
        OK(CALL(cuMemsetD32Async)(VA, 0, 132, streams[0]));
        launch(function_of(library, "smid"), streams[0], 500, 32, &y, 8);
        OK(CALL(cuMemcpyDtoHAsync)(seen, VA, sizeof(seen), streams[0]));
        for (uint32_t i = 0; i < 132; i++)
                n += seen[i];
        cr_assert(n > 0 && n <= 6, "%u", n);
        OK(CALL(cuGreenCtxDestroy)(green));
        cr_assert_eq(CALL(cuStreamQuery)(streams[0]), CUDA_ERROR_INVALID_HANDLE);
        n_groups = 80;
        OK(CALL(cuDevSmResourceSplitByCount)(groups, &n_groups, &whole, &rest, 0, 8));
        cr_assert_eq(n_groups * 8 + rest.sm.smCount, 132);
        n_groups = 80;
        cr_assert_eq(CALL(cuDevSmResourceSplitByCount)(groups, &n_groups, &rest, NULL, 0, 8),
                CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "a remainder");
}

/* The test creates and destroys more green contexts than the simulated device has rungs: destroyed ones are reused. */
Test(fake_cuda, green_contexts_come_and_go, .init = setup, .fini = teardown, .timeout = 60)
{
        CUdevResource whole, groups[66];
        CUdevResourceDesc desc;
        CUgreenCtx green;
        unsigned int n = 66;

        OK(CALL(cuDeviceGetDevResource)(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
        OK(CALL(cuDevSmResourceSplitByCount)(
                groups, &n, &whole, NULL, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, 2));
        for (unsigned int i = 0; i < 2 * n; i++) {
                OK(CALL(cuDevResourceGenerateDesc)(&desc, &groups[i % n], 1));
                OK(CALL(cuGreenCtxCreate)(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
                OK(CALL(cuGreenCtxDestroy)(green));
        }
}

Test(fake_cuda, events_are_reached_in_order, .init = setup, .fini = teardown, .timeout = 60)
{
        CUlibrary library = library_new(text);
        CUstream a = stream_new(), b = stream_new();
        CUevent first, second, never;
        float ms = -1;

        OK(CALL(cuEventCreate)(&first, 0));
        OK(CALL(cuEventCreate)(&second, 0));
        OK(CALL(cuEventCreate)(&never, CU_EVENT_DISABLE_TIMING));
        OK(CALL(cuEventQuery)(never));
        OK(CALL(cuEventRecord)(first, a));
        spin(library, a, 4000000);
        OK(CALL(cuEventRecord)(second, a));
        cr_assert_eq(CALL(cuEventQuery)(second), CUDA_ERROR_NOT_READY);
        cr_assert_eq(CALL(cuEventElapsedTime)(&ms, first, second), CUDA_ERROR_NOT_READY);
        OK(CALL(cuStreamWaitEvent)(b, second, 0));
        spin(library, b, 10);
        OK(CALL(cuStreamSynchronize)(b));
        OK(CALL(cuEventQuery)(second));
        OK(CALL(cuEventElapsedTime)(&ms, first, second));
        cr_assert(ms > 0.1f && ms < 5000.0f, "%f", (double)ms);
        cr_assert_eq(CALL(cuEventElapsedTime)(&ms, first, never), CUDA_ERROR_INVALID_HANDLE);
        OK(CALL(cuEventDestroy)(first));
        OK(CALL(cuEventDestroy)(second));
        OK(CALL(cuEventDestroy)(never));
}

/* After the first fault every call returns that error. */
Test(fake_cuda, a_fault_ends_the_context, .init = setup, .timeout = 60)
{
        CUlibrary library = library_new(text);
        CUstream stream = stream_new(), other = stream_new();
        struct add params = {.y = 0x1000, .n = 1};
        CUevent event;
        size_t a, b;

        OK(CALL(cuEventCreate)(&event, 0));
        launch(function_of(library, "add"), stream, 1, 1, &params, 12);
        cr_assert_eq(CALL(cuStreamSynchronize)(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
        cr_assert_eq(CALL(cuStreamQuery)(other), CUDA_ERROR_ILLEGAL_ADDRESS);
        cr_assert_eq(CALL(cuEventQuery)(event), CUDA_ERROR_ILLEGAL_ADDRESS);
        cr_assert_eq(CALL(cuMemGetInfo)(&a, &b), CUDA_ERROR_ILLEGAL_ADDRESS);
        cr_assert_eq(CALL(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(fake_cuda, code_for_other_gpus_is_refused, .init = setup, .fini = teardown, .timeout = 60)
{
        char log[500] = "";
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
        void *values[] = {log, (void *)sizeof(log)}, *image;
        CUlibrary library;
        size_t size;

        image = gpu_test_cubin(text, false, &size);
        cr_assert_eq(
                CALL(cuLibraryLoadData)(&library, image, NULL, NULL, 0, NULL, NULL, 0), CUDA_ERROR_NO_BINARY_FOR_GPU);
        free(image);
        OK(CALL(cuLibraryLoadData)(&library, text, NULL, NULL, 0, NULL, NULL, 0));
        OK(CALL(cuLibraryUnload)(library));
        cr_assert_eq(CALL(cuLibraryUnload)(library), CUDA_ERROR_INVALID_HANDLE);
        cr_assert_eq(
                CALL(cuLibraryLoadData)(&library, HEADER ".entry k() { nonsense; }", options, values, 2, NULL, NULL, 0),
                CUDA_ERROR_INVALID_PTX);
        cr_assert(strstr(log, "nonsense"), "%s", log);
}

Test(fake_cuda, kernels_report_their_attributes, .init = setup, .fini = teardown, .timeout = 60)
{
        CUlibrary library = library_new(text);
        CUfunction add = function_of(library, "add");
        CUkernel kernels[3];
        CUstream stream = stream_new();
        struct add params = {};
        void *by_pointer[] = {&params.y, &params.n};
        size_t offset, size;
        CUdeviceptr counter;
        int value;

        OK(CALL(cuLibraryEnumerateKernels)(kernels, 3, library));
        OK(CALL(cuKernelGetParamInfo)(kernels[0], 1, &offset, &size));
        cr_assert(offset == 8 && size == 4);
        cr_assert_eq(CALL(cuKernelGetParamInfo)(kernels[0], 2, &offset, &size), CUDA_ERROR_INVALID_VALUE);
        OK(CALL(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, add));
        cr_assert_eq(value, 1024);
        OK(CALL(cuLibraryGetGlobal)(&counter, &size, library, "counter"));
        cr_assert(counter && size == 4);
        cr_assert_eq(CALL(cuLibraryGetGlobal)(&counter, &size, library, "no"), CUDA_ERROR_NOT_FOUND);
        /* a kernel needs an attribute for more than 48 KiB of shared memory */
        cr_assert_eq(
                CALL(cuLaunchKernel)(add, 1, 1, 1, 1, 1, 1, 50000, stream, by_pointer, NULL), CUDA_ERROR_INVALID_VALUE);
        OK(CALL(cuFuncSetAttribute)(add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000));
        OK(CALL(cuLaunchKernel)(add, 1, 1, 1, 1, 1, 1, 50000, stream, by_pointer, NULL));
        OK(CALL(cuStreamSynchronize)(stream));
}

static void setup_injected(void)
{
        setenv("FAKE_CUDA_FAIL", "cuMemGetInfo:2:2,cuCtxSynchronize:0:999", 1);
        setup();
}

Test(fake_cuda, ordered_failures_happen, .init = setup_injected, .fini = teardown, .timeout = 60)
{
        size_t a, b;

        OK(CALL(cuMemGetInfo)(&a, &b));
        cr_assert(a && a < b);
        cr_assert_eq(CALL(cuMemGetInfo)(&a, &b), CUDA_ERROR_OUT_OF_MEMORY);
        OK(CALL(cuMemGetInfo)(&a, &b));
        cr_assert_eq(CALL(cuCtxSynchronize)(), CUDA_ERROR_UNKNOWN);
        cr_assert_eq(CALL(cuCtxSynchronize)(), CUDA_ERROR_UNKNOWN);
}

static char log_path[] = "/tmp/fake-cuda-log.XXXXXX";

static void setup_strict(void)
{
        close(mkstemp(log_path));
        setenv("FAKE_CUDA_LOG", log_path, 1);
        setenv("FAKE_CUDA_STRICT", "1", 1);
        setup();
}

Test(fake_cuda, the_log_marks_calls_made_while_busy, .init = setup_strict, .fini = teardown, .timeout = 60)
{
        CUlibrary library = library_new(text);
        CUstream stream = stream_new();
        char log[4096] = "";
        size_t a, b;
        FILE *f;

        spin(library, stream, 4000000);
        OK(CALL(cuMemGetInfo)(&a, &b));
        OK(CALL(cuStreamSynchronize)(stream));
        OK(CALL(cuLibraryUnload)(library));
        f = fopen(log_path, "r");
        cr_assert(fread(log, 1, sizeof(log) - 1, f) > 0);
        fclose(f);
        unlink(log_path);
        cr_assert(strstr(log, "\ncuLibraryLoadData idle\n"), "%s", log);
        cr_assert(strstr(log, "\ncuMemGetInfo busy\n"), "%s", log);
        cr_assert(strstr(log, "\ncuLibraryUnload idle\n"), "%s", log);
}

Test(fake_cuda, stopping_the_busy_is_a_crash, .init = setup_strict, .signal = SIGABRT, .timeout = 60)
{
        CUlibrary library = library_new(text);

        unlink(log_path);
        spin(library, stream_new(), 4000000);
        CALL(cuLibraryUnload)(library);
}
