/* SPDX-License-Identifier: Apache-2.0 */
/* The device: properties against attributes, limits, flags, bus ids, versions, invalid ordinals */
#include <cuda_profiler_api.h>

#include "runtime.h"

static int attribute(cudaDeviceAttr which)
{
        int v = -1;

        OK(cudaDeviceGetAttribute(&v, which, 0));
        return v;
}

static void properties()
{
        cudaDeviceProp p;
        size_t available, total;

        MUST(cudaGetDeviceProperties(&p, 0));
        CHECK(strlen(p.name) > 3);
        CHECK(p.major == attribute(cudaDevAttrComputeCapabilityMajor) && p.minor == attribute(cudaDevAttrComputeCapabilityMinor));
        CHECK(p.multiProcessorCount == attribute(cudaDevAttrMultiProcessorCount) && p.multiProcessorCount > 0);
        CHECK(p.warpSize == 32 && p.maxThreadsPerBlock == 1024 && p.maxThreadsDim[2] == 64);
        CHECK(p.maxGridSize[0] == 0x7fffffff && p.maxGridSize[1] == 65535 && p.maxGridSize[2] == 65535);
        CHECK(p.sharedMemPerBlock == 49152 && p.totalConstMem == 65536);
        CHECK(p.sharedMemPerBlockOptin == size_t(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)));
        CHECK(p.sharedMemPerMultiprocessor == size_t(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor)));
        CHECK(p.reservedSharedMemPerBlock == size_t(attribute(cudaDevAttrReservedSharedMemoryPerBlock)));
        CHECK(p.regsPerBlock == attribute(cudaDevAttrMaxRegistersPerBlock) && p.l2CacheSize == attribute(cudaDevAttrL2CacheSize));
        CHECK(p.maxThreadsPerMultiProcessor == attribute(cudaDevAttrMaxThreadsPerMultiProcessor));
        CHECK(p.unifiedAddressing == 1 && p.canMapHostMemory == attribute(cudaDevAttrCanMapHostMemory) && p.concurrentKernels == 1);
        CHECK(p.cooperativeLaunch == attribute(cudaDevAttrCooperativeLaunch) && p.clusterLaunch == attribute(cudaDevAttrClusterLaunch));
        CHECK(p.memoryPoolsSupported == attribute(cudaDevAttrMemoryPoolsSupported));
        CHECK(p.pciBusID == attribute(cudaDevAttrPciBusId) && p.memoryBusWidth == attribute(cudaDevAttrGlobalMemoryBusWidth));
        OK(cudaMemGetInfo(&available, &total));
        CHECK(available <= total && total <= p.totalGlobalMem);
}

static void names()
{
        char id[32] = "", cut[32] = "";
        int device = -1;

        OK(cudaDeviceGetPCIBusId(id, sizeof(id), 0));
        CHECK(strlen(id) == 12 && id[4] == ':' && id[7] == ':' && id[10] == '.');
        EXPECT(cudaErrorInvalidValue, cudaDeviceGetPCIBusId(cut, 12, 0)); /* no room for the terminating zero */
        OK(cudaDeviceGetByPCIBusId(&device, id));
        CHECK(device == 0);
        OK(cudaGetDevice(&device));
        CHECK(device == 0);
        cudaDeviceProp wish = {};
        device = -1;
        OK(cudaChooseDevice(&device, &wish));
        CHECK(device >= 0);
}

static void limits()
{
        int least = 9, greatest = 9, can = -1;
        size_t bytes = 0;

        OK(cudaDeviceGetLimit(&bytes, cudaLimitStackSize));
        CHECK(bytes >= 1024);
        OK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
        OK(cudaDeviceGetLimit(&bytes, cudaLimitStackSize));
        CHECK(bytes == 4096);
        OK(cudaDeviceGetLimit(&bytes, cudaLimitMallocHeapSize));
        CHECK(bytes >= 8388608);
        OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
        CHECK(least == 0 && greatest < 0);
        OK(cudaDeviceCanAccessPeer(&can, 0, 0));
        CHECK(can == 0);
        EXPECT(cudaErrorPeerAccessUnsupported, cudaDeviceEnablePeerAccess(0, 0));
        EXPECT(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(0));
        cudaGetLastError();
}

static void wrong()
{
        cudaDeviceProp p;
        int v, n = 0;

        OK(cudaGetDeviceCount(&n));
        CHECK(n >= 1);
        EXPECT(cudaErrorInvalidDevice, cudaSetDevice(n));
        EXPECT(cudaErrorInvalidDevice, cudaSetDevice(-1));
        EXPECT(cudaErrorInvalidDevice, cudaGetDeviceProperties(&p, n));
        EXPECT(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&v, cudaDevAttrWarpSize, n));
        EXPECT(cudaErrorInvalidValue, cudaDeviceGetAttribute(&v, (cudaDeviceAttr)9999, 0));
        EXPECT(cudaErrorInvalidValue, cudaGetDeviceCount(nullptr));
        EXPECT(cudaErrorInvalidValue, cudaGetLastError());
        OK(cudaGetLastError());
        OK(cudaSetDevice(0));
}

int main()
{
        unsigned int flags = 0;
        int driver = 0, runtime = 0;

        OK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
        OK(cudaGetDeviceFlags(&flags));
        CHECK((flags & cudaDeviceScheduleMask) == cudaDeviceScheduleBlockingSync);
        OK(cudaDriverGetVersion(&driver));
        OK(cudaRuntimeGetVersion(&runtime));
        CHECK(runtime >= 13000 && runtime < 14000 && driver >= 13000);
        properties();
        names();
        limits();
        wrong();
        OK(cudaInitDevice(0, 0, 0));
        OK(cudaProfilerStart());
        OK(cudaProfilerStop());
        OK(cudaDeviceSynchronize());
        return program_end("devices");
}
