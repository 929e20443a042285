/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device properties
 *
 * A property is an attribute under another name; three properties are wider than an attribute.
 */
#include <string.h>

#include "cudart/rt.h"

/* Element of two tables (of int and of size_t members): the member of cudaDeviceProp that gets an attribute's value. */
struct field {
        size_t offset;
        CUdevice_attribute attribute;
};

#define F(member, attribute)                                                             \
        {                                                                                \
                offsetof(struct cudaDeviceProp, member), CU_DEVICE_ATTRIBUTE_##attribute \
        }

static const struct field sizes[] = {
        F(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK),
        F(memPitch, MAX_PITCH),
        F(totalConstMem, TOTAL_CONSTANT_MEMORY),
        F(textureAlignment, TEXTURE_ALIGNMENT),
        F(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT),
        F(surfaceAlignment, SURFACE_ALIGNMENT),
        F(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
        F(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        F(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK),
};

static const struct field numbers[] = {
        F(regsPerBlock, MAX_REGISTERS_PER_BLOCK),
        F(warpSize, WARP_SIZE),
        F(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK),
        F(maxThreadsDim[0], MAX_BLOCK_DIM_X),
        F(maxThreadsDim[1], MAX_BLOCK_DIM_Y),
        F(maxThreadsDim[2], MAX_BLOCK_DIM_Z),
        F(maxGridSize[0], MAX_GRID_DIM_X),
        F(maxGridSize[1], MAX_GRID_DIM_Y),
        F(maxGridSize[2], MAX_GRID_DIM_Z),
        F(major, COMPUTE_CAPABILITY_MAJOR),
        F(minor, COMPUTE_CAPABILITY_MINOR),
        F(multiProcessorCount, MULTIPROCESSOR_COUNT),
        F(integrated, INTEGRATED),
        F(canMapHostMemory, CAN_MAP_HOST_MEMORY),
        F(maxTexture1D, MAXIMUM_TEXTURE1D_WIDTH),
        F(maxTexture1DMipmap, MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH),
        F(maxTexture2D[0], MAXIMUM_TEXTURE2D_WIDTH),
        F(maxTexture2D[1], MAXIMUM_TEXTURE2D_HEIGHT),
        F(maxTexture2DMipmap[0], MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH),
        F(maxTexture2DMipmap[1], MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT),
        F(maxTexture2DLinear[0], MAXIMUM_TEXTURE2D_LINEAR_WIDTH),
        F(maxTexture2DLinear[1], MAXIMUM_TEXTURE2D_LINEAR_HEIGHT),
        F(maxTexture2DLinear[2], MAXIMUM_TEXTURE2D_LINEAR_PITCH),
        F(maxTexture2DGather[0], MAXIMUM_TEXTURE2D_GATHER_WIDTH),
        F(maxTexture2DGather[1], MAXIMUM_TEXTURE2D_GATHER_HEIGHT),
        F(maxTexture3D[0], MAXIMUM_TEXTURE3D_WIDTH),
        F(maxTexture3D[1], MAXIMUM_TEXTURE3D_HEIGHT),
        F(maxTexture3D[2], MAXIMUM_TEXTURE3D_DEPTH),
        F(maxTexture3DAlt[0], MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE),
        F(maxTexture3DAlt[1], MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE),
        F(maxTexture3DAlt[2], MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE),
        F(maxTextureCubemap, MAXIMUM_TEXTURECUBEMAP_WIDTH),
        F(maxTexture1DLayered[0], MAXIMUM_TEXTURE1D_LAYERED_WIDTH),
        F(maxTexture1DLayered[1], MAXIMUM_TEXTURE1D_LAYERED_LAYERS),
        F(maxTexture2DLayered[0], MAXIMUM_TEXTURE2D_LAYERED_WIDTH),
        F(maxTexture2DLayered[1], MAXIMUM_TEXTURE2D_LAYERED_HEIGHT),
        F(maxTexture2DLayered[2], MAXIMUM_TEXTURE2D_LAYERED_LAYERS),
        F(maxTextureCubemapLayered[0], MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH),
        F(maxTextureCubemapLayered[1], MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS),
        F(maxSurface1D, MAXIMUM_SURFACE1D_WIDTH),
        F(maxSurface2D[0], MAXIMUM_SURFACE2D_WIDTH),
        F(maxSurface2D[1], MAXIMUM_SURFACE2D_HEIGHT),
        F(maxSurface3D[0], MAXIMUM_SURFACE3D_WIDTH),
        F(maxSurface3D[1], MAXIMUM_SURFACE3D_HEIGHT),
        F(maxSurface3D[2], MAXIMUM_SURFACE3D_DEPTH),
        F(maxSurface1DLayered[0], MAXIMUM_SURFACE1D_LAYERED_WIDTH),
        F(maxSurface1DLayered[1], MAXIMUM_SURFACE1D_LAYERED_LAYERS),
        F(maxSurface2DLayered[0], MAXIMUM_SURFACE2D_LAYERED_WIDTH),
        F(maxSurface2DLayered[1], MAXIMUM_SURFACE2D_LAYERED_HEIGHT),
        F(maxSurface2DLayered[2], MAXIMUM_SURFACE2D_LAYERED_LAYERS),
        F(maxSurfaceCubemap, MAXIMUM_SURFACECUBEMAP_WIDTH),
        F(maxSurfaceCubemapLayered[0], MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH),
        F(maxSurfaceCubemapLayered[1], MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS),
        F(concurrentKernels, CONCURRENT_KERNELS),
        F(ECCEnabled, ECC_ENABLED),
        F(pciBusID, PCI_BUS_ID),
        F(pciDeviceID, PCI_DEVICE_ID),
        F(pciDomainID, PCI_DOMAIN_ID),
        F(tccDriver, TCC_DRIVER),
        F(asyncEngineCount, ASYNC_ENGINE_COUNT),
        F(unifiedAddressing, UNIFIED_ADDRESSING),
        F(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH),
        F(l2CacheSize, L2_CACHE_SIZE),
        F(persistingL2CacheMaxSize, MAX_PERSISTING_L2_CACHE_SIZE),
        F(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR),
        F(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED),
        F(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED),
        F(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED),
        F(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR),
        F(managedMemory, MANAGED_MEMORY),
        F(isMultiGpuBoard, MULTI_GPU_BOARD),
        F(multiGpuBoardGroupID, MULTI_GPU_BOARD_GROUP_ID),
        F(hostNativeAtomicSupported, HOST_NATIVE_ATOMIC_SUPPORTED),
        F(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS),
        F(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS),
        F(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED),
        F(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
        F(cooperativeLaunch, COOPERATIVE_LAUNCH),
        F(pageableMemoryAccessUsesHostPageTables, PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES),
        F(directManagedMemAccessFromHost, DIRECT_MANAGED_MEM_ACCESS_FROM_HOST),
        F(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR),
        F(accessPolicyMaxWindowSize, MAX_ACCESS_POLICY_WINDOW_SIZE),
        F(hostRegisterSupported, HOST_REGISTER_SUPPORTED),
        F(sparseCudaArraySupported, SPARSE_CUDA_ARRAY_SUPPORTED),
        F(hostRegisterReadOnlySupported, READ_ONLY_HOST_REGISTER_SUPPORTED),
        F(timelineSemaphoreInteropSupported, TIMELINE_SEMAPHORE_INTEROP_SUPPORTED),
        F(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED),
        F(gpuDirectRDMASupported, GPU_DIRECT_RDMA_SUPPORTED),
        F(gpuDirectRDMAFlushWritesOptions, GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS),
        F(gpuDirectRDMAWritesOrdering, GPU_DIRECT_RDMA_WRITES_ORDERING),
        F(memoryPoolSupportedHandleTypes, MEMPOOL_SUPPORTED_HANDLE_TYPES),
        F(deferredMappingCudaArraySupported, DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED),
        F(ipcEventSupported, IPC_EVENT_SUPPORTED),
        F(clusterLaunch, CLUSTER_LAUNCH),
        F(unifiedFunctionPointers, UNIFIED_FUNCTION_POINTERS),
        F(deviceNumaConfig, NUMA_CONFIG),
        F(deviceNumaId, NUMA_ID),
        F(mpsEnabled, MPS_ENABLED),
        F(hostNumaId, HOST_NUMA_ID),
        F(gpuPciDeviceID, GPU_PCI_DEVICE_ID),
        F(gpuPciSubsystemID, GPU_PCI_SUBSYSTEM_ID),
        F(hostNumaMultinodeIpcSupported, HOST_NUMA_MULTINODE_IPC_SUPPORTED),
};

static CUresult fill_numbers(struct cudaDeviceProp *prop, CUdevice device)
{
        CUresult r = CUDA_SUCCESS;
        int value;

        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && r == CUDA_SUCCESS; i++) {
                r = cuDeviceGetAttribute(&value, numbers[i].attribute, device);
                if (r == CUDA_SUCCESS)
                        memcpy((char *)prop + numbers[i].offset, &value, sizeof(value));
        }
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && r == CUDA_SUCCESS; i++) {
                r = cuDeviceGetAttribute(&value, sizes[i].attribute, device);
                if (r == CUDA_SUCCESS)
                        *(size_t *)((char *)prop + sizes[i].offset) = (unsigned int)value;
        }
        return r;
}

static CUresult fill(struct cudaDeviceProp *prop, CUdevice device)
{
        CUuuid uuid;
        CUresult r;

        memset(prop, 0, sizeof(*prop));
        r = cuDeviceGetName(prop->name, sizeof(prop->name), device);
        if (r == CUDA_SUCCESS)
                r = cuDeviceGetUuid(&uuid, device);
        if (r == CUDA_SUCCESS)
                r = cuDeviceTotalMem(&prop->totalGlobalMem, device);
        if (r != CUDA_SUCCESS)
                return r;
        memcpy(&prop->uuid, &uuid, sizeof(prop->uuid));
        return fill_numbers(prop, device);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
        cudaError_t e = rt_enter_process();

        if (e != cudaSuccess)
                return e;
        if (!prop)
                return rt_fail(cudaErrorInvalidValue);
        return rt_error(fill(prop, device));
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
        cudaError_t e = rt_enter_process();

        return e ? e : rt_error(cuDeviceGetAttribute(value, (CUdevice_attribute)attr, device));
}

/* Returns a score of how well the device fits the requested properties; a requested 0 means no preference. */
static int suits(const struct cudaDeviceProp *has, const struct cudaDeviceProp *wish)
{
        int capability = has->major > wish->major || (has->major == wish->major && has->minor >= wish->minor);

        return 4 * capability + (has->totalGlobalMem >= wish->totalGlobalMem) +
               (has->sharedMemPerBlock >= wish->sharedMemPerBlock) + (has->regsPerBlock >= wish->regsPerBlock) +
               (has->maxThreadsPerBlock >= wish->maxThreadsPerBlock) +
               (has->multiProcessorCount >= wish->multiProcessorCount) + (has->totalConstMem >= wish->totalConstMem);
}

cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *prop)
{
        cudaError_t e = rt_enter_process();
        struct cudaDeviceProp has;
        int best = -1;

        if (e != cudaSuccess)
                return e;
        if (!device || !prop)
                return rt_fail(cudaErrorInvalidValue);
        for (int i = 0; i < rt_device_count(); i++) {
                CUresult r = fill(&has, i);

                if (r != CUDA_SUCCESS)
                        return rt_error(r);
                if (suits(&has, prop) > best) {
                        best = suits(&has, prop);
                        *device = i;
                }
        }
        return cudaSuccess;
}
