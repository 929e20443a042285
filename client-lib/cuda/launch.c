/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches
 *
 * The hot path: no lock, no system call, and no allocation for up to 4 KiB of parameters. All errors that CUDA reports
 * at once are found here, before anything is sent: handles, dimensions, shared memory, missing parameters. Faults of a
 * running kernel come back as the session's sticky error.
 *
 * Parameters are copied by the layout that came with the kernel, so the daemon gets one packed block.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/capture.h"
#include "cuda/cluster.h"
#include "cuda/event.h"
#include "cuda/launch.h"
#include "cuda/occupancy.h"
#include "cuda/stream.h"

#define PARAMS_ON_STACK 4096u

static int dimensions_valid(const struct dcu_launch *l)
{
        static const CUdevice_attribute block_limit[3] = {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
                CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};
        static const CUdevice_attribute grid_limit[3] = {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
                CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};

        for (int i = 0; i < 3; i++) {
                /* a dimension of zero wraps around to a large number */
                if (l->block[i] - 1 >= (unsigned int)dcu_attribute(block_limit[i]) ||
                        l->grid[i] - 1 >= (unsigned int)dcu_attribute(grid_limit[i]))
                        return 0;
        }
        return 1;
}

/* Quick conservative check. 0: a block of that many threads has enough registers; 1: the exact calculation must
 * decide. */
static int registers_short(unsigned int threads, unsigned int registers)
{
        return (uint64_t)(threads + 127) * (registers + 7) >
               (unsigned int)dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
}

static CUresult check_size(const struct dcu_launch *l, const struct dcu_entry *entry)
{
        unsigned int threads;

        if (!dimensions_valid(l))
                return CUDA_ERROR_INVALID_VALUE;
        threads = l->block[0] * l->block[1] * l->block[2];
        if (threads > (unsigned int)dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK))
                return CUDA_ERROR_INVALID_VALUE;
        if (l->shared_bytes > (unsigned int)atomic_load_explicit(&entry->max_dynamic_shared, memory_order_relaxed))
                return CUDA_ERROR_INVALID_VALUE;
        if (threads > entry->info.max_threads || registers_short(threads, entry->info.registers)) {
                struct dcu_occupancy_device device;

                dcu_occupancy_device(&device);
                if (!dcu_occupancy_registers_fit(&device, (int)entry->info.registers, (int)threads))
                        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
                if (threads > entry->info.max_threads)
                        return CUDA_ERROR_INVALID_VALUE;
        }
        return CUDA_SUCCESS;
}

/* All blocks of a cooperative grid must be resident at once. */
static CUresult check_cooperative(const struct dcu_launch *l, const struct dcu_entry *entry)
{
        struct dcu_occupancy_device device;
        struct dcu_occupancy_kernel kernel;
        uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1], room;

        if (!dcu_attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH))
                return CUDA_ERROR_NOT_SUPPORTED;
        dcu_occupancy_device(&device);
        dcu_occupancy_kernel(entry, &kernel);
        room = (uint64_t)dcu_occupancy_blocks(
                       &device, &kernel, (int)(l->block[0] * l->block[1] * l->block[2]), l->shared_bytes) *
               (uint64_t)dcu_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
        return blocks > room || blocks * l->grid[2] > room ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

/* *ret_buffer, *ret_size: packed parameters of an `extra` list; NULL and 0 if it has none. */
static CUresult read_extra(void **extra, const void **ret_buffer, size_t *ret_size)
{
        const void *buffer = NULL;
        const size_t *size = NULL;

        for (unsigned int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
                if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
                        buffer = extra[i + 1];
                else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
                        size = extra[i + 1];
                else
                        return CUDA_ERROR_INVALID_VALUE;
        }
        if (!buffer != !size)
                return CUDA_ERROR_INVALID_VALUE;
        *ret_buffer = buffer;
        *ret_size = size ? *size : 0;
        return CUDA_SUCCESS;
}

static CUresult pack_extra(const struct dsc_kernel *kernel, void **extra, uint8_t *packed)
{
        const void *buffer;
        size_t size;
        CUresult r = read_extra(extra, &buffer, &size);

        if (r != CUDA_SUCCESS)
                return r;
        if (size > kernel->params_size)
                return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        if (size)
                memcpy(packed, buffer, size);
        memset(packed + size, 0, kernel->params_size - size);
        return CUDA_SUCCESS;
}

static CUresult pack_params(const struct dsc_kernel *kernel, void **params, uint8_t *packed)
{
        for (uint32_t i = 0; i < kernel->n_params; i++) {
                if (!params[i])
                        return CUDA_ERROR_INVALID_VALUE;
                memcpy(packed + kernel->params[i].offset, params[i], kernel->params[i].size);
        }
        return CUDA_SUCCESS;
}

CUresult dcu_launch_pack(const struct dcu_launch *l, const struct dsc_kernel *kernel, uint8_t *packed)
{
        /* the bytes between parameters also go to the device, so they must not contain old data */
        memset(packed, 0, kernel->params_size);
        if (l->params && l->extra)
                return CUDA_ERROR_INVALID_VALUE;
        if (l->extra)
                return pack_extra(kernel, l->extra, packed);
        if (kernel->n_params == 0)
                return CUDA_SUCCESS;
        return l->params ? pack_params(kernel, l->params, packed) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult send(const struct dcu_launch *l, const struct dcu_entry *entry, uint32_t slot, const uint8_t *packed)
{
        const struct dsc_launch message = {
                .kernel = entry->info.id,
                .grid = {l->grid[0], l->grid[1], l->grid[2]},
                .block = {l->block[0], l->block[1], l->block[2]},
                .cluster = {l->cluster[0], l->cluster[1], l->cluster[2]},
                .cooperative = l->cooperative != 0,
                .shared_bytes = l->shared_bytes,
                .params = packed,
                .params_size = entry->info.params_size,
        };
        CUresult r = dcu_result(dsc_launch(dcu.session, slot, &message));

        if (r == CUDA_SUCCESS && __builtin_expect(dcu.launch_blocking, 0))
                r = dcu_stream_drain(slot);
        return r;
}

static CUresult pack_and_send(const struct dcu_launch *l, const struct dcu_entry *entry, uint32_t slot)
{
        uint8_t on_stack[PARAMS_ON_STACK], *packed = on_stack;
        CUresult r;

        if (entry->info.params_size > sizeof(on_stack)) {
                packed = malloc(entry->info.params_size);
                if (!packed)
                        return CUDA_ERROR_OUT_OF_MEMORY;
        }
        r = dcu_launch_pack(l, &entry->info, packed);
        if (r == CUDA_SUCCESS)
                r = send(l, entry, slot, packed);
        if (packed != on_stack)
                free(packed);
        return r;
}

CUresult dcu_launch_check(struct dcu_launch *l, struct dcu_entry **ret_entry, struct dcu_context **ret_owner)
{
        struct dcu_entry *entry = dcu_entry_of(l->function, ret_owner);
        CUresult r;

        if (!entry)
                return CUDA_ERROR_INVALID_HANDLE;
        r = check_size(l, entry);
        if (r == CUDA_SUCCESS)
                r = dcu_cluster_check(entry, l->grid, l->cluster, l->preferred);
        if (r == CUDA_SUCCESS && l->cooperative)
                r = check_cooperative(l, entry);
        *ret_entry = entry;
        return r;
}

static CUresult launch(struct dcu_launch *l)
{
        struct dcu_context *context, *owner, *stream_owner;
        struct dcu_entry *entry;
        uint32_t slot;
        int capturing;
        CUresult r = dcu_enter_any(&context);

        if (r == CUDA_SUCCESS)
                r = dcu_stream_work(l->stream, context, &slot, &stream_owner, &capturing);
        if (r != CUDA_SUCCESS)
                return r;
        r = dcu_launch_check(l, &entry, &owner);
        if (r != CUDA_SUCCESS) {
                if (capturing)
                        dcu_capture_spoil(slot);
                return r;
        }
        if (owner && owner != stream_owner)
                return CUDA_ERROR_INVALID_HANDLE;
        if (__builtin_expect(capturing, 0))
                return dcu_capture_launch(slot, stream_owner, l);
        if (__builtin_expect(atomic_load_explicit(&entry->epoch, memory_order_acquire) !=
                                     atomic_load_explicit(&dcu.epoch, memory_order_relaxed),
                    0)) {
                r = dcu_entry_reload(entry);
                if (r != CUDA_SUCCESS)
                        return r;
        }
        return pack_and_send(l, entry, slot);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
        CUstream hStream, void **kernelParams, void **extra)
{
        struct dcu_launch l = {f, {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes,
                hStream, kernelParams, extra, 0, {0, 0, 0}, {0, 0, 0}, NULL, 0};

        return launch(&l);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
        CUstream hStream, void **kernelParams)
{
        static const CUlaunchAttribute cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
        struct dcu_launch l = {f, {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes,
                hStream, kernelParams, NULL, 1, {0, 0, 0}, {0, 0, 0}, &cooperative, 1};

        return launch(&l);
}

/* Checks the attribute of an event that the kernel may trigger before its end. Here the event is recorded after the
 * kernel: later than needed, which CUDA allows. */
static CUresult check_event(CUevent handle, int flags)
{
        const struct dcu_event *event = dcu_object_of(handle, DCU_EVENT);

        if (!event)
                return CUDA_ERROR_INVALID_HANDLE;
        return flags || !(event->flags & CU_EVENT_DISABLE_TIMING) || (event->flags & CU_EVENT_INTERPROCESS)
                       ? CUDA_ERROR_INVALID_VALUE
                       : CUDA_SUCCESS;
}

static CUresult record_events(const CUlaunchConfig *config)
{
        CUresult r = CUDA_SUCCESS;

        for (unsigned int i = 0; i < config->numAttrs && r == CUDA_SUCCESS; i++) {
                const CUlaunchAttribute *attribute = &config->attrs[i];

                if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
                        r = cuEventRecord(attribute->value.programmaticEvent.event, config->hStream);
                else if (attribute->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
                        r = cuEventRecord(attribute->value.launchCompletionEvent.event, config->hStream);
        }
        return r;
}

/*
 * Accepts or refuses one launch attribute. Hints have no effect: the daemon decides about caching, priorities and
 * order; a kernel that may overlap the previous kernel need not. Attributes that the program relies on are refused.
 */
CUresult dcu_launch_attribute(struct dcu_launch *l, const CUlaunchAttribute *attribute)
{
        const CUlaunchAttributeValue *value = &attribute->value;

        switch ((unsigned int)attribute->id) {
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
        case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
                return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
                l->cooperative = value->cooperative != 0;
                return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
                l->cluster[0] = value->clusterDim.x;
                l->cluster[1] = value->clusterDim.y;
                l->cluster[2] = value->clusterDim.z;
                return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
                l->preferred[0] = value->preferredClusterDim.x;
                l->preferred[1] = value->preferredClusterDim.y;
                l->preferred[2] = value->preferredClusterDim.z;
                return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
                return value->sharedMemCarveout > CU_SHAREDMEM_CARVEOUT_MAX_SHARED ||
                                       (int)value->sharedMemCarveout < CU_SHAREDMEM_CARVEOUT_DEFAULT
                               ? CUDA_ERROR_INVALID_VALUE
                               : CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
                return check_event(value->programmaticEvent.event, value->programmaticEvent.flags);
        case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
                return check_event(value->launchCompletionEvent.event, value->launchCompletionEvent.flags);
        case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
                return value->deviceUpdatableKernelNode.deviceUpdatable ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
        struct dcu_context *context;
        struct dcu_launch l;
        CUresult r = dcu_enter_any(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!config || (config->numAttrs && !config->attrs))
                return CUDA_ERROR_INVALID_VALUE;
        l = (struct dcu_launch){f, {config->gridDimX, config->gridDimY, config->gridDimZ},
                {config->blockDimX, config->blockDimY, config->blockDimZ}, config->sharedMemBytes, config->hStream,
                kernelParams, extra, 0, {0, 0, 0}, {0, 0, 0}, config->attrs, config->numAttrs};
        for (unsigned int i = 0; i < config->numAttrs; i++) {
                r = dcu_launch_attribute(&l, &config->attrs[i]);
                if (r != CUDA_SUCCESS)
                        return r;
        }
        r = launch(&l);
        return r == CUDA_SUCCESS ? record_events(config) : r;
}

/* Calls that control a profiler: nothing reads them. */
CUresult cuProfilerStart(void)
{
        struct dcu_context *context;

        return dcu_enter(&context);
}

CUresult cuProfilerStop(void)
{
        struct dcu_context *context;

        return dcu_enter(&context);
}
