/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices
 *
 * A session has one device. Its description came with the connection, so these calls make no request.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/state.h"

static CUresult enter_device(CUdevice dev)
{
        CUresult r = dcu_enter_process();

        return r == CUDA_SUCCESS ? dcu_check_device(dev) : r;
}

CUresult cuDeviceGetCount(int *count)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!count)
                return CUDA_ERROR_INVALID_VALUE;
        *count = dcu.n_devices;
        return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!device)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_check_device(ordinal);
        if (r == CUDA_SUCCESS)
                *device = ordinal;
        return r;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
        CUresult r = enter_device(dev);

        if (r != CUDA_SUCCESS)
                return r;
        if (!name || len <= 0)
                return CUDA_ERROR_INVALID_VALUE;
        snprintf(name, (size_t)len, "%s", dcu.device->name);
        return CUDA_SUCCESS;
}

static CUresult get_uuid(CUuuid *uuid, CUdevice dev)
{
        CUresult r = enter_device(dev);

        if (r != CUDA_SUCCESS)
                return r;
        if (!uuid)
                return CUDA_ERROR_INVALID_VALUE;
        memcpy(uuid->bytes, dcu.device->uuid, sizeof(uuid->bytes));
        return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
        return get_uuid(uuid, dev);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
        return get_uuid(uuid, dev);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
        CUresult r = enter_device(dev);

        if (r != CUDA_SUCCESS)
                return r;
        if (!bytes)
                return CUDA_ERROR_INVALID_VALUE;
        *bytes = dcu.device->memory_bytes;
        return CUDA_SUCCESS;
}

/* An attribute as the program sees it: 0 for features of the device that this library does not support. */
static int adjusted(CUdevice_attribute attribute, int value)
{
        const char *transport;

        switch (attribute) {
        /* the daemon's driver makes tensor maps; a simulated device has none */
        case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
                return atomic_load(&dcu.device)->simulated ? 0 : value;
        case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: /* managed memory is pinned memory here, so every device supports it */
                value = 1;
                /* fall through */
        case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
                transport = getenv("DETSHARE_TRANSPORT");
                return transport && strcmp(transport, "rpc") == 0 ? 0 : value;
        case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: /* implemented by the daemon, for every device */
        case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
                return 1;
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
        case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
        case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
        case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
        case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
        case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1:
        case CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH:
        case CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES:
        case CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
        case CU_DEVICE_ATTRIBUTE_MPS_ENABLED:
        case CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK:
        case CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH:
        case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED:
                return 0;
        default:
                return value;
        }
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
        CUresult r = enter_device(dev);

        if (r != CUDA_SUCCESS)
                return r;
        if (!pi || (unsigned int)attrib < 1 || (unsigned int)attrib >= CU_DEVICE_ATTRIBUTE_MAX)
                return CUDA_ERROR_INVALID_VALUE;
        *pi = adjusted(attrib, dcu_attribute(attrib));
        return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
        CUresult r = enter_device(dev);

        if (r != CUDA_SUCCESS)
                return r;
        if (!major || !minor)
                return CUDA_ERROR_INVALID_VALUE;
        *major = dcu_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
        *minor = dcu_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
        return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
        CUresult r = enter_device(dev);

        if (r != CUDA_SUCCESS)
                return r;
        if (!prop)
                return CUDA_ERROR_INVALID_VALUE;
        *prop = (CUdevprop){
                .maxThreadsPerBlock = dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
                .maxThreadsDim = {dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
                        dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
                        dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)},
                .maxGridSize = {dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
                        dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
                        dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)},
                .sharedMemPerBlock = dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
                .totalConstantMemory = dcu_attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
                .SIMDWidth = dcu_attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE),
                .memPitch = dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH),
                .regsPerBlock = dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
                .clockRate = dcu_attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
                .textureAlign = dcu_attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT),
        };
        return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
        CUresult r = enter_device(dev);
        int n;

        if (r != CUDA_SUCCESS)
                return r;
        if (!pciBusId || len <= 0)
                return CUDA_ERROR_INVALID_VALUE;
        n = snprintf(pciBusId, (size_t)len, "%04X:%02X:%02X.0",
                (unsigned int)dcu_attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
                (unsigned int)dcu_attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
                (unsigned int)dcu_attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
        return n < len ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Parses [domain]:[bus]:[device].[function]; domain and function are optional. 0: invalid. */
static int parse_bus_id(const char *text, unsigned int *domain, unsigned int *bus, unsigned int *device)
{
        unsigned int function = 0;
        int end = 0;

        if (sscanf(text, "%x:%x:%x%n.%x%n", domain, bus, device, &end, &function, &end) >= 3)
                return text[end] == '\0' && function == 0;
        *domain = 0;
        if (sscanf(text, "%x:%x%n.%x%n", bus, device, &end, &function, &end) >= 2)
                return text[end] == '\0' && function == 0;
        return 0;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
        unsigned int domain, bus, device;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!dev || !pciBusId || !parse_bus_id(pciBusId, &domain, &bus, &device))
                return CUDA_ERROR_INVALID_VALUE;
        if (domain != (unsigned int)dcu_attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) ||
                bus != (unsigned int)dcu_attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) ||
                device != (unsigned int)dcu_attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID))
                return CUDA_ERROR_INVALID_DEVICE;
        *dev = 0;
        return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
        CUresult r = enter_device(dev);

        if (r != CUDA_SUCCESS)
                return r;
        if (!pi || (unsigned int)type >= CU_EXEC_AFFINITY_TYPE_MAX)
                return CUDA_ERROR_INVALID_VALUE;
        *pi = 0;
        return CUDA_SUCCESS;
}

/* Always 0: there is one device, and a device is not its own peer. */
CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
        CUresult r = enter_device(dev);

        if (r == CUDA_SUCCESS)
                r = dcu_check_device(peerDev);
        if (r != CUDA_SUCCESS)
                return r;
        if (!canAccessPeer)
                return CUDA_ERROR_INVALID_VALUE;
        *canAccessPeer = 0;
        return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice)
{
        CUresult r = enter_device(srcDevice);

        if (r == CUDA_SUCCESS)
                r = dcu_check_device(dstDevice);
        if (r != CUDA_SUCCESS)
                return r;
        return !value || srcDevice == dstDevice ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_NOT_SUPPORTED;
}
