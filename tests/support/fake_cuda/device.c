/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver: the device, its primary context and the context's limits
 *
 * The device reports the properties of the sim's h200. Without a context a call opens a sim, reads the property and
 * closes it; this costs the start of a few threads. The last release of the primary context closes the sim and its
 * running work without waiting. A lost context stays lost until then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_cuda/fake.h"

#define MODEL "h200"
#define STACK_MAX DS_KIB(512)

struct CUctx_st {
        int unused;
};

__thread CUcontext fake_current;

static struct CUctx_st primary;
static struct ds_device_info description;

static const struct ds_device_info *device_info(void)
{
        ds_device *device;

        if (!description.n_sms && !fake_sim->open(MODEL, &device)) {
                description = *fake_sim->info(device);
                fake_sim->close(device);
        }
        return &description;
}

/* Size of device memory: that of an H200. The machine has less: the sim's slabs are host memory, and cuMemCreate
 * fails when that is used up. */
uint64_t fake_memory(void)
{
        return sim_model_find(MODEL, strlen(MODEL))->memory_bytes;
}

FAKE_API cuDeviceGetCount(int *count)
{
        FAKE_ENTER(cuDeviceGetCount, INIT);
        *count = 1;
        return CUDA_SUCCESS;
}

FAKE_API cuDeviceGet(CUdevice *device, int ordinal)
{
        FAKE_ENTER(cuDeviceGet, INIT);
        if (ordinal)
                return CUDA_ERROR_INVALID_DEVICE;
        *device = 0;
        return CUDA_SUCCESS;
}

FAKE_API cuDeviceGetName(char *name, int len, CUdevice dev)
{
        FAKE_ENTER(cuDeviceGetName, INIT);
        if (dev || len <= 0)
                return dev ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
        snprintf(name, (size_t)len, "DetShare fake H200");
        return CUDA_SUCCESS;
}

FAKE_API cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
        FAKE_ENTER(cuDeviceGetUuid, INIT);
        if (dev)
                return CUDA_ERROR_INVALID_DEVICE;
        memcpy(uuid->bytes, "dtshr-fake-h200", sizeof(uuid->bytes));
        return CUDA_SUCCESS;
}

FAKE_API cuDeviceTotalMem(size_t *bytes, CUdevice dev)
{
        FAKE_ENTER(cuDeviceTotalMem, INIT);
        if (dev)
                return CUDA_ERROR_INVALID_DEVICE;
        *bytes = fake_memory();
        return CUDA_SUCCESS;
}

FAKE_API cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice dev)
{
        const char *memops = getenv("FAKE_CUDA_MEMOPS"), *clusters = getenv("FAKE_CUDA_CLUSTERS");

        FAKE_ENTER(cuDeviceGetAttribute, INIT);
        if (dev)
                return CUDA_ERROR_INVALID_DEVICE;
        if (attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
                return CUDA_ERROR_INVALID_VALUE;
        *value = attribute < DS_DEVICE_ATTRIBUTES ? device_info()->attributes[attribute] : 0;
        if (attribute == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS)
                *value = !memops || strcmp(memops, "0");
        if (attribute == CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED)
                *value = 1; /* tensor maps exist, but no kernel here can copy with them */
        if (attribute == CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH && (!clusters || strcmp(clusters, "1")))
                *value = 0;
        return CUDA_SUCCESS;
}

/* --- the primary context --- */

static CUresult primary_open(void)
{
        struct ds_tpc_mask all = {};
        CUgreenCtx rung;
        CUresult r;

        r = fake_result(fake_sim->open(MODEL, &fake.device));
        if (r)
                return r;
        fake.start_ns = fake_clock();
        fake.lost = CUDA_SUCCESS;
        for (uint32_t i = 0; i < fake_sim->info(fake.device)->n_tpcs; i++)
                all.word[i / 64] |= UINT64_C(1) << i % 64;
        r = fake_result(fake_sim->space_add(fake.device, FAKE_SPACE));
        if (!r)
                r = fake_rung_take(&all, false, FAKE_RUNG_PRIMARY, &rung);
        if (r) {
                fake.device = fake_sim->close(fake.device);
                return r;
        }
        fake.limits[CU_LIMIT_STACK_SIZE] = 1024;
        fake.limits[CU_LIMIT_PRINTF_FIFO_SIZE] = DS_MIB(1);
        fake.limits[CU_LIMIT_MALLOC_HEAP_SIZE] = DS_MIB(8);
        return CUDA_SUCCESS;
}

FAKE_API cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
        CUresult r;

        FAKE_ENTER(cuDevicePrimaryCtxRetain, INIT);
        if (dev)
                return CUDA_ERROR_INVALID_DEVICE;
        r = fake.device ? CUDA_SUCCESS : primary_open();
        if (r)
                return r;
        fake.retains++;
        *ctx = &primary;
        return CUDA_SUCCESS;
}

FAKE_API cuDevicePrimaryCtxRelease(CUdevice dev)
{
        FAKE_ENTER(cuDevicePrimaryCtxRelease, INIT);
        if (dev)
                return CUDA_ERROR_INVALID_DEVICE;
        if (!fake.retains)
                return CUDA_ERROR_INVALID_CONTEXT;
        if (--fake.retains)
                return CUDA_SUCCESS;
        if (!fake.lost)
                fake_pump();
        fake_flush();
        fake_libraries_free();
        fake.device = fake_sim->close(fake.device);
        fake_memory_reset();
        fake_rungs_free();
        return CUDA_SUCCESS;
}

FAKE_API cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
        FAKE_ENTER(cuDevicePrimaryCtxSetFlags, INIT);
        return dev ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

FAKE_API cuCtxSetCurrent(CUcontext ctx)
{
        FAKE_ENTER(cuCtxSetCurrent, INIT);
        if (ctx && (ctx != &primary || !fake.device))
                return CUDA_ERROR_INVALID_CONTEXT;
        fake_current = ctx;
        return CUDA_SUCCESS;
}

FAKE_API cuCtxSynchronize(void)
{
        FAKE_ENTER(cuCtxSynchronize, CONTEXT);
        return fake_wait(NULL);
}

FAKE_API cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
        FAKE_ENTER(cuCtxGetStreamPriorityRange, CONTEXT);
        if (least)
                *least = 0;
        if (greatest)
                *greatest = -5;
        return CUDA_SUCCESS;
}

/* --- limits --- */

FAKE_API cuCtxSetLimit(CUlimit limit, size_t value)
{
        FAKE_ENTER(cuCtxSetLimit, STOPS);
        switch (limit) {
        case CU_LIMIT_STACK_SIZE:
                if (value > STACK_MAX)
                        return CUDA_ERROR_INVALID_VALUE;
                break;
        case CU_LIMIT_PRINTF_FIFO_SIZE:
        case CU_LIMIT_MALLOC_HEAP_SIZE:
                if (value > fake_memory() / 2)
                        return CUDA_ERROR_OUT_OF_MEMORY;
                break;
        default:
                return CUDA_ERROR_UNSUPPORTED_LIMIT;
        }
        fake.limits[limit] = value;
        if (limit < (CUlimit)_DS_LIMIT_MAX)
                return fake_result(fake_sim->limit_raise(fake.device, (enum ds_device_limit)limit, value));
        return CUDA_SUCCESS;
}

FAKE_API cuCtxGetLimit(size_t *value, CUlimit limit)
{
        FAKE_ENTER(cuCtxGetLimit, CONTEXT);
        if (limit != CU_LIMIT_STACK_SIZE && limit != CU_LIMIT_PRINTF_FIFO_SIZE && limit != CU_LIMIT_MALLOC_HEAP_SIZE)
                return CUDA_ERROR_UNSUPPORTED_LIMIT;
        *value = fake.limits[limit];
        return CUDA_SUCCESS;
}
