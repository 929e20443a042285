/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: parameters in every form, launch attributes, shapes, parameter layouts, large parameter blocks */
#include "program.h"

static CUmodule module;
static CUdeviceptr out;

static int value_of(int index)
{
        int value = -1;

        OK(cuMemcpyDtoH(&value, out + (CUdeviceptr)index * 4, 4));
        return value;
}

static void check_extra(CUfunction add)
{
        struct {
                CUdeviceptr p;
                int n, v;
        } packed = {out, 4, 1};
        size_t size = sizeof(packed);
        void *pointer = CU_LAUNCH_PARAM_BUFFER_POINTER, *bytes = CU_LAUNCH_PARAM_BUFFER_SIZE,
             *end = CU_LAUNCH_PARAM_END;
        void *extra[] = {pointer, &packed, bytes, &size, end}, *swapped[] = {bytes, &size, pointer, &packed, end};
        void *half[] = {pointer, &packed, end}, *unknown[] = {(void *)7, &packed, end}, *empty[] = {end};
        void *params[] = {&packed.p, &packed.n, &packed.v};

        OK(cuMemsetD32(out, 0, 16));
        OK(cuLaunchKernel(add, 1, 1, 1, 4, 1, 1, 0, NULL, NULL, extra));
        OK(cuLaunchKernel(add, 1, 1, 1, 4, 1, 1, 0, NULL, NULL, swapped));
        OK(cuLaunchKernel(add, 1, 1, 1, 4, 1, 1, 0, NULL, params, NULL));
        CHECK(value_of(0) == 3 && value_of(3) == 3 && value_of(4) == 0);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(add, 1, 1, 1, 4, 1, 1, 0, NULL, params, extra));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(add, 1, 1, 1, 4, 1, 1, 0, NULL, NULL, half));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(add, 1, 1, 1, 4, 1, 1, 0, NULL, NULL, unknown));
        OK(cuLaunchKernel(program_function(module, "prog_nothing"), 1, 1, 1, 4, 1, 1, 0, NULL, NULL, empty));
        size = 20;
        EXPECT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, cuLaunchKernel(add, 1, 1, 1, 4, 1, 1, 0, NULL, NULL, extra));
        OK(cuCtxSynchronize());
}

static CUresult with_attribute(CUfunction f, CUlaunchAttribute *attribute, unsigned int grid)
{
        CUlaunchConfig config = {.gridDimX = grid,
                .gridDimY = 1,
                .gridDimZ = 1,
                .blockDimX = 4,
                .blockDimY = 1,
                .blockDimZ = 1,
                .attrs = attribute,
                .numAttrs = attribute ? 1 : 0};
        int n = 4, v = 1;
        void *params[] = {&out, &n, &v};

        return cuLaunchKernelEx(&config, f, params, NULL);
}

static void check_attributes(CUfunction add)
{
        CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_IGNORE};
        CUlaunchConfig none = {.gridDimX = 1,
                .gridDimY = 1,
                .gridDimZ = 1,
                .blockDimX = 1,
                .blockDimY = 1,
                .blockDimZ = 1,
                .numAttrs = 1};

        OK(cuMemsetD32(out, 0, 16));
        OK(with_attribute(add, NULL, 1));
        OK(with_attribute(add, &a, 1));
        a.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        a.value.clusterDim.x = a.value.clusterDim.y = a.value.clusterDim.z = 1;
        OK(with_attribute(add, &a, 1));
        a.value.clusterDim.x = 2;
        /* this cluster size does not divide the grid */
        EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, with_attribute(add, &a, 1));
        a.value.clusterDim.x = 0;
        EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, with_attribute(add, &a, 1));
        memset(&a, 0, sizeof(a));
        a.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        a.value.programmaticStreamSerializationAllowed = 1;
        OK(with_attribute(add, &a, 1));
        memset(&a, 0, sizeof(a));
        a.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
        a.value.priority = -100;
        OK(with_attribute(add, &a, 1));
        memset(&a, 0, sizeof(a));
        a.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        OK(with_attribute(add, &a, 1));
        a.value.cooperative = 1;
        OK(with_attribute(add, &a, 1));
        EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, with_attribute(add, &a, 1000000));
        memset(&a, 0, sizeof(a));
        a.id = (CUlaunchAttributeID)99;
        EXPECT(CUDA_ERROR_INVALID_VALUE, with_attribute(add, &a, 1));
        a.id = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
        a.value.sharedMemCarveout = 500;
        EXPECT(CUDA_ERROR_INVALID_VALUE, with_attribute(add, &a, 1));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(NULL, add, NULL, NULL));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(&none, add, NULL, NULL));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, with_attribute(NULL, NULL, 1));
        OK(cuCtxSynchronize());
        CHECK(value_of(0) == 7);
}

static void check_layout(void)
{
        static const struct {
                size_t offset, size;
        } expected[] = {{0, 1}, {4, 4}, {8, 2}, {16, 8}, {24, 4}, {32, 8}};
        CUfunction f = program_function(module, "prog_params");
        long long result[5];
        size_t offset, size;
        char a = -3;
        int b = 1 << 30;
        short c = -12345;
        double d = 0.125;
        float g = -2.5f;
        void *params[] = {&a, &b, &c, &d, &g, &out};

        for (size_t i = 0; i < 6; i++) {
                offset = size = 999;
                OK(cuFuncGetParamInfo(f, i, &offset, &size));
                CHECK(offset == expected[i].offset && size == expected[i].size);
        }
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(f, 6, &offset, &size));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(f, 0, NULL, &size));
        OK(cuFuncGetParamInfo(f, 0, &offset, NULL));
        OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        OK(cuMemcpyDtoH(result, out, sizeof(result)));
        CHECK(result[0] == -3 && result[1] == 1 << 30 && result[2] == -12345 && result[3] == 1 && result[4] == -40);
}

static void check_big(void)
{
        static struct {
                int head, values[1200], tail;
        } big;
        CUfunction f = program_function(module, "prog_big_param");
        void *params[] = {&big, &out};
        int expected[32], result[32];

        big.head = 11;
        big.tail = 13;
        for (int i = 0; i < 1200; i++)
                big.values[i] = i * 3;
        for (int t = 0; t < 32; t++) {
                expected[t] = 24;
                for (int i = t; i < 1200; i += 32)
                        expected[t] += big.values[i] * (i + 1);
        }
        OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
        memset(&big, 0, sizeof(big)); /* the launch has its own copy of the parameters */
        OK(cuMemcpyDtoH(result, out, sizeof(result)));
        SAME(result, expected, sizeof(result));
}

static void check_shape(
        unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz)
{
        CUfunction f = program_function(module, "prog_where");
        unsigned int blocks = gx * gy * gz, threads = bx * by * bz;
        int *result = malloc(sizeof(int) * blocks * threads), same = 1;
        void *params[] = {&out};

        OK(cuMemsetD32(out, 0xffffffff, blocks * threads));
        OK(cuLaunchKernel(f, gx, gy, gz, bx, by, bz, 0, NULL, params, NULL));
        OK(cuMemcpyDtoH(result, out, sizeof(int) * blocks * threads));
        for (unsigned int i = 0; i < blocks * threads; i++)
                same &= result[i] == (int)(i / threads * 10000 + i % threads);
        CHECK(same);
        free(result);
}

static void check_shared(void)
{
        CUfunction reverse = program_function(module, "prog_reverse");
        int values[100], result[100], optin = 0;
        void *params[] = {&out};

        for (int i = 0; i < 100; i++)
                values[i] = i * i;
        OK(cuMemcpyHtoD(out, values, sizeof(values)));
        OK(cuLaunchKernel(reverse, 1, 1, 1, 100, 1, 1, 400, NULL, params, NULL));
        OK(cuDeviceGetAttribute(&optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
        OK(cuFuncSetAttribute(reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, optin));
        OK(cuLaunchKernel(reverse, 1, 1, 1, 100, 1, 1, (unsigned int)optin, NULL, params, NULL));
        OK(cuLaunchKernel(reverse, 1, 1, 1, 100, 1, 1, 400, NULL, params, NULL));
        OK(cuMemcpyDtoH(result, out, sizeof(result)));
        for (int i = 0; i < 100; i++)
                CHECK(result[i] == values[99 - i]);
}

int main(int argc, char **argv)
{
        CUcontext context;
        CUfunction add;

        program_begin(argc, argv);
        context = program_context();
        module = program_module("prog_basic");
        add = program_function(module, "prog_add");
        MUST(cuMemAlloc(&out, 1 << 20));
        check_extra(add);
        check_attributes(add);
        check_layout();
        check_big();
        check_shape(1, 1, 1, 1, 1, 1);
        check_shape(5, 1, 1, 33, 1, 1);
        check_shape(2, 3, 4, 4, 5, 6);
        check_shape(7, 2, 1, 1, 1, 64);
        check_shape(3, 1, 2, 1024, 1, 1);
        check_shared();
        OK(cuCtxDestroy(context));
        return program_end("launch_ex");
}
