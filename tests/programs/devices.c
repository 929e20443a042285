/* SPDX-License-Identifier: Apache-2.0 */
/* All ways to query properties of a device agree with each other. */
#include "program.h"

/* the program calls deprecated functions, as old programs do */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static int attribute(CUdevice_attribute which)
{
        int value = -1;

        OK(cuDeviceGetAttribute(&value, which, 0));
        return value;
}

int main(int argc, char **argv)
{
        CUdevprop properties;
        CUuuid a, b;
        CUresult (*by_name)(int *, CUdevice_attribute, CUdevice) = NULL;
        CUdriverProcAddressQueryResult status;
        CUmoduleLoadingMode mode;
        const void *table = &a;
        int count = 0, major = 0, minor = 0, warp = 0, affinity = 9;
        void *found = NULL;

        program_begin(argc, argv);
        MUST(cuInit(0));
        OK(cuInit(0));
        OK(cuDeviceGetCount(&count));
        CHECK(count >= 1);
        OK(cuDeviceComputeCapability(&major, &minor, 0));
        CHECK(major == attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
        CHECK(minor == attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
        OK(cuDeviceGetProperties(&properties, 0));
        CHECK(properties.maxThreadsPerBlock == attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
        CHECK(properties.SIMDWidth == 32 && properties.maxThreadsDim[2] == 64 && properties.maxGridSize[1] == 65535);
        CHECK(properties.sharedMemPerBlock == 49152 && properties.totalConstantMemory == 65536);
        CHECK(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) > 0);
        CHECK(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) >= 49152);
        CHECK(attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) == 1);
        OK(cuDeviceGetUuid(&a, 0));
        OK(cuDeviceGetUuid_v2(&b, 0));
        SAME(&a, &b, sizeof(a));
        OK(cuDeviceGetExecAffinitySupport(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0));
        OK(cuModuleGetLoadingMode(&mode));
        CHECK(mode == CU_MODULE_LAZY_LOADING || mode == CU_MODULE_EAGER_LOADING);
        OK(cuGetProcAddress("cuDeviceGetAttribute", &found, 13000, 0, &status));
        CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS && found);
        memcpy(&by_name, &found, sizeof(found));
        OK(by_name(&warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
        CHECK(warp == 32);
        OK(cuGetProcAddress("cuNothingOfThatName", &found, 13000, 0, &status));
        CHECK(!found && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
        CHECK(cuGetExportTable(&table, (const CUuuid *)"sixteen bytes....") != CUDA_SUCCESS);
        return program_end("devices");
}
