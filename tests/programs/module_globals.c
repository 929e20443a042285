/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of modules: initial values, writes by host and kernel, one instance per loaded module, freed with it */
#include "program.h"

static int counter(CUmodule module)
{
        CUdeviceptr address;
        size_t bytes;
        int value = -1;

        OK(cuModuleGetGlobal(&address, &bytes, module, "prog_counter"));
        CHECK(bytes == sizeof(int));
        OK(cuMemcpyDtoH(&value, address, sizeof(value)));
        return value;
}

static void check_values(CUmodule module, int scale)
{
        CUfunction globals = program_function(module, "prog_globals");
        CUdeviceptr out;
        int result[8];

        MUST(cuMemAlloc(&out, sizeof(result)));
        void *params[] = {&out};
        OK(cuLaunchKernel(globals, 1, 1, 1, 8, 1, 1, 0, NULL, params, NULL));
        OK(cuMemcpyDtoH(result, out, sizeof(result)));
        for (int i = 0; i < 8; i++)
                CHECK(result[i] == (i + 1) * 10 * ((i & 3) + 1) * scale + 1000);
        OK(cuMemFree(out));
}

static void check_addresses(CUmodule module)
{
        CUdeviceptr address, again, base;
        size_t bytes, range;
        int type = 0, table[8] = {0};

        OK(cuModuleGetGlobal(&address, &bytes, module, "prog_table"));
        CHECK(bytes == sizeof(table));
        OK(cuModuleGetGlobal(&again, NULL, module, "prog_table"));
        CHECK(again == address);
        OK(cuModuleGetGlobal(NULL, &bytes, module, "prog_zeroed"));
        CHECK(bytes == 3 * sizeof(double));
        OK(cuMemGetAddressRange(&base, &range, address + 4));
        CHECK(base <= address && base + range >= address + sizeof(table));
        OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
        CHECK(type == CU_MEMORYTYPE_DEVICE);
        OK(cuMemcpyDtoH(table, address, sizeof(table)));
        CHECK(table[0] == 10 && table[7] == 80);
        EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal(&address, &bytes, module, "prog_absent"));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleGetGlobal(NULL, NULL, module, "prog_table"));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleGetGlobal(&address, &bytes, module, NULL));
}

int main(int argc, char **argv)
{
        CUcontext context;
        CUmodule one, two;
        CUdeviceptr scale;
        size_t bytes;
        int doubled[4] = {2, 4, 6, 8};

        program_begin(argc, argv);
        context = program_context();
        one = program_module("prog_basic");
        two = program_module("prog_basic");
        check_addresses(one);
        CHECK(counter(one) == 5);
        check_values(one, 1);
        check_values(one, 1);
        CHECK(counter(one) == 7);
        CHECK(counter(two) == 5);
        OK(cuModuleGetGlobal(&scale, &bytes, one, "prog_scale"));
        CHECK(bytes == sizeof(doubled));
        OK(cuMemcpyHtoD(scale, doubled, sizeof(doubled)));
        check_values(one, 2);
        check_values(two, 1);
        OK(cuModuleUnload(one));
        check_values(two, 1);
        CHECK(counter(two) == 7);
        one = program_module("prog_basic");
        CHECK(counter(one) == 5);
        OK(cuModuleUnload(one));
        OK(cuModuleUnload(two));
        OK(cuCtxDestroy(context));
        return program_end("module_globals");
}
