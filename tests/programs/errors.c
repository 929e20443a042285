/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong arguments: each call returns the error code of NVIDIA's driver at once, and does not harm the context */
#include "program.h"

static CUmodule module;
static CUfunction nothing, add;
static CUdeviceptr memory;

static void before_init(void)
{
        CUcontext context;
        CUdeviceptr p;
        CUdevice device;
        const char *s;
        int n = 0;

        EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
        EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGet(&device, 0));
        EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&context));
        EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc(&p, 4));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuDriverGetVersion(NULL));
        OK(cuDriverGetVersion(&n));
        CHECK(n >= 13000);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuInit(1));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetErrorName((CUresult)12345, &s));
        CHECK(s == NULL);
        OK(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &s));
        CHECK(s && strcmp(s, "CUDA_ERROR_INVALID_VALUE") == 0);
        OK(cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &s));
        CHECK(s && s[0]);
}

static void devices(void)
{
        CUdevice device;
        char name[300];
        size_t n;
        int v;

        EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetCount(NULL));
        EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, -1));
        EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 100));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetName(NULL, 10, 0));
        EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetName(name, 256, 100));
        OK(cuDeviceGetName(name, sizeof(name), 0));
        CHECK(name[0] && strlen(name) < 200);
        OK(cuDeviceGetName(name, 4, 0));
        CHECK(strlen(name) == 3);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&v, (CUdevice_attribute)1000, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
        EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 100));
        OK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
        CHECK(v == 32);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceTotalMem(NULL, 0));
        OK(cuDeviceTotalMem(&n, 0));
        CHECK(n > 0);
        OK(cuDeviceGetPCIBusId(name, sizeof(name), 0));
        OK(cuDeviceGetByPCIBusId(&device, name));
        CHECK(device == 0);
        OK(cuDeviceGetPCIBusId(name, 13, 0));
        /* the buffer has no room for the terminating zero */
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetPCIBusId(name, 12, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetPCIBusId(name, 0, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetByPCIBusId(&device, NULL));
        OK(cuDeviceCanAccessPeer(&v, 0, 0));
        CHECK(v == 0);
}

static CUresult launch(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
        unsigned int by, unsigned int bz, unsigned int shared)
{
        int n = 4, v = 1;
        void *params[] = {&memory, &n, &v};

        return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, NULL, params, NULL);
}

static void launches(void)
{
        CUfunction reverse = program_function(module, "prog_reverse"), bounds = program_function(module, "prog_bounds");
        CUfunction shared = program_function(module, "prog_static_shared");

        EXPECT(CUDA_ERROR_INVALID_HANDLE, launch(NULL, 1, 1, 1, 1, 1, 1, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, launch(nothing, 0, 1, 1, 1, 1, 1, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, launch(nothing, 1, 0, 1, 1, 1, 1, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, launch(nothing, 1, 1, 0, 1, 1, 1, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, launch(nothing, 1, 1, 1, 0, 1, 1, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, launch(nothing, 1, 1, 1, 1, 1, 0, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, launch(nothing, 1, 65536, 1, 1, 1, 1, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, launch(nothing, 1, 1, 65536, 1, 1, 1, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, launch(nothing, 2147483648u, 1, 1, 1, 1, 1, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, launch(nothing, 1, 1, 1, 1025, 1, 1, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, launch(nothing, 1, 1, 1, 1, 1, 65, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, launch(nothing, 1, 1, 1, 32, 32, 2, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, launch(nothing, 1, 1, 1, 4096, 1, 1, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, launch(bounds, 1, 1, 1, 512, 1, 1, 0));
        EXPECT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                launch(program_function(module, "prog_registers"), 1, 1, 1, 1024, 1, 1, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, launch(reverse, 1, 1, 1, 4, 1, 1, 49153));
        EXPECT(CUDA_ERROR_INVALID_VALUE, launch(shared, 1, 1, 1, 4, 1, 1, 49152 - 16384 + 1));
        OK(launch(shared, 1, 1, 1, 4, 1, 1, 49152 - 16384));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        OK(cuFuncSetAttribute(reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100));
        EXPECT(CUDA_ERROR_INVALID_VALUE, launch(reverse, 1, 1, 1, 4, 1, 1, 101));
        OK(launch(reverse, 1, 1, 1, 4, 1, 1, 100));
        OK(launch(nothing, 1, 1, 1, 1, 1, 64, 0));
        OK(launch(nothing, 1, 1, 1, 32, 32, 1, 0));
        OK(cuCtxSynchronize());
}

static void allocations(void)
{
        CUdeviceptr p = 8, base;
        size_t n, pitch;
        unsigned int flags;
        void *h = (void *)8;
        int local;

        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&p, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(NULL, 4));
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, (size_t)1 << 50));
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, ~(size_t)0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch(&p, &pitch, 100, 10, 3));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch(&p, &pitch, 0, 10, 4));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch(&p, NULL, 100, 10, 4));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory + 16));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(0x1234));
        EXPECT(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &n, 0x1234));
        OK(cuMemGetAddressRange(&base, &n, memory + 100));
        CHECK(base == memory && n == 4096);
        OK(cuMemGetAddressRange(NULL, NULL, memory));
        OK(cuMemHostAlloc(&h, 0, 0));
        CHECK(h == NULL);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(&h, 64, 8));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(NULL, 64, 0));
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemHostAlloc(&h, (size_t)1 << 50, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostGetFlags(&flags, &local));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(&p, &local, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(&local));
        OK(cuMemFreeHost(NULL));
        OK(cuMemHostAlloc(&h, 6400, CU_MEMHOSTALLOC_WRITECOMBINED));
        OK(cuMemHostGetFlags(&flags, (char *)h + 100));
        CHECK(flags == (CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost((char *)h + 16));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree((CUdeviceptr)(uintptr_t)h));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(&p, h, 1));
        OK(cuMemFreeHost(h));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(h));
        MUST(cuMemAlloc(&p, 256));
        OK(cuMemFree(p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
        OK(cuMemFree(0));
}

static void copies(void)
{
        static char h[8192];
        CUDA_MEMCPY2D c = {0};

        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(memory, NULL, 4));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(0, h, 4));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(0x1234, h, 4));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(memory, h, 4097));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(memory + 4000, h, 97));
        OK(cuMemcpyHtoD(0x1234, h, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(h, 0x1234, 4));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(NULL, memory, 4));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(h, memory, 8192));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD(memory, 0x1234, 4));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD((CUdeviceptr)(uintptr_t)h, memory, 64));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync(0x1234, h, 64, NULL));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(memory, 1, 4097));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(0x1234, 1, 4));
        OK(cuMemsetD8(0, 1, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD16(memory + 1, 1, 4));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(memory + 2, 1, 4));
        OK(cuMemsetD32(memory + 4, 1, 1023));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(memory + 4, 1, 1024));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8((CUdeviceptr)(uintptr_t)h, 1, 4));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8(memory, 32, 1, 64, 10));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8(memory, 64, 1, 64, 65));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D32(memory, 66, 1, 4, 4));
        OK(cuMemsetD2D8(memory, 0, 1, 64, 1));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(NULL));
        c.srcMemoryType = CU_MEMORYTYPE_HOST;
        c.srcHost = h;
        c.srcPitch = 64;
        c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        c.dstDevice = memory;
        c.dstPitch = 64;
        c.WidthInBytes = 80;
        c.Height = 4;
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&c)); /* the copy is wider than the pitch */
        c.WidthInBytes = 64;
        c.Height = 65;
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&c)); /* the copy reaches past the end of the allocation */
        c.Height = 64;
        OK(cuMemcpy2D(&c));
        c.dstMemoryType = (CUmemorytype)9;
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&c));
}

static void code(void)
{
        static const char bad[] = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry f()\n{\n"
                                  "  frobnicate.u32 %r1, 5;\n  ret;\n}\n";
        char log[1024] = "", info[64] = "";
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
                CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
        void *values[] = {log, (void *)sizeof(log), info, (void *)sizeof(info)};
        CUmodule m = NULL;
        CUfunction f;

        EXPECT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&m, "garbage text"));
        EXPECT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&m, ""));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(&m, NULL));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(NULL, bad));
        EXPECT(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&m, "/nonexistent/module.ptx"));
        EXPECT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoad(&m, "/dev/null"));
        EXPECT(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&m, bad, 4, options, values));
        CHECK(strstr(log, "frobnicate") != NULL);
        CHECK(strstr(log, "6") != NULL); /* the log has the line number of the error */
        CHECK((size_t)values[1] > 0 && (size_t)values[1] <= sizeof(log));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&m, bad, 1, NULL, NULL));
        EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&f, module, "absent"));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleGetFunction(&f, module, NULL));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleGetFunction(&f, module, ""));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&f, NULL, "prog_add"));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleGetFunction(NULL, module, "prog_add"));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(NULL));
}

static void functions(void)
{
        CUfunction shared = program_function(module, "prog_static_shared");
        const char *name;
        int v = 0, optin = 0;

        EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetAttribute(&v, (CUfunction_attribute)100, add));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, add));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, NULL));
        OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared));
        CHECK(v == 49152 - 16384);
        OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, shared));
        CHECK(v == 16384);
        OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, program_function(module, "prog_bounds")));
        CHECK(v == 256);
        OK(cuDeviceGetAttribute(&optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(add, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 5));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1));
        EXPECT(CUDA_ERROR_INVALID_VALUE,
                cuFuncSetAttribute(add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, optin + 1));
        OK(cuFuncSetAttribute(add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, optin));
        EXPECT(CUDA_ERROR_INVALID_VALUE,
                cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, optin - 16384 + 1));
        EXPECT(CUDA_ERROR_INVALID_VALUE,
                cuFuncSetAttribute(add, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101));
        EXPECT(CUDA_ERROR_INVALID_VALUE,
                cuFuncSetAttribute(add, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, -2));
        OK(cuFuncSetAttribute(add, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncSetCacheConfig(add, (CUfunc_cache)9));
        OK(cuFuncSetCacheConfig(add, CU_FUNC_CACHE_PREFER_SHARED));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetName(NULL, add));
        OK(cuFuncGetName(&name, add));
        CHECK(strcmp(name, "prog_add") == 0);
}

int main(int argc, char **argv)
{
        CUcontext context;

        program_begin(argc, argv);
        before_init();
        context = program_context();
        module = program_module("prog_basic");
        nothing = program_function(module, "prog_nothing");
        add = program_function(module, "prog_add");
        MUST(cuMemAlloc(&memory, 4096));
        OK(cuMemsetD8(memory, 0, 4096));
        devices();
        launches();
        allocations();
        copies();
        code();
        functions();
        OK(launch(add, 1, 1, 1, 4, 1, 1, 0)); /* none of these calls has harmed the context */
        OK(cuCtxSynchronize());
        OK(cuCtxDestroy(context));
        return program_end("errors");
}
