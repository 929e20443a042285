/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress counters: how far the GPU is in each stream
 *
 * Behind every job the GPU writes the job's number into host memory, one counter per stream. That costs as much as
 * recording an event (0.9 us on an H200). But checking costs only a read of memory instead of a driver call (0.6 to 1.8
 * us), and one read covers all finished jobs of the stream. The write comes after the job's own writes are visible to
 * all observers (CU_STREAM_WRITE_VALUE_DEFAULT). Each counter has a cache line of its own, so the GPU's writes for one
 * stream do not invalidate another stream's counter in the CPU's cache.
 *
 * A lost context writes nothing any more, so while there is work the device queries the driver every 100 us.
 *
 * The memory is registered when the device is opened, for the largest possible number of streams, because registering
 * stops the context. Kernels of any session could write to it, as to everything in the context. A wrong number makes
 * jobs end early, and never a job that was not submitted.
 */
#include <errno.h>
#include <sys/mman.h>

#include "device/cuda/internal.h"
#include "util/error.h"

#define COUNTER_WORDS 8 /* words of 8 bytes per counter: one cache line */
#define COUNTERS_SIZE (DS_DEVICE_RUNGS_MAX * CUDA_STREAMS_PER_RUNG * COUNTER_WORDS * sizeof(uint64_t))
/* form.c's memory for results from the GPU lies in the same registration */
#define REGISTERED_SIZE (COUNTERS_SIZE + cuda_forms_host_bytes())
#define COUNTERS_ASK_NS (100 * DS_NS_PER_US)

uint64_t *cuda_counter_of(const ds_device *device, const struct cuda_stream *stream)
{
        return &device->counters[(size_t)stream->id * COUNTER_WORDS];
}

static int counters_register(ds_device *device, void *memory)
{
        CUdeviceptr got = 0;
        CUresult result;

        result = CU(device, cuMemHostRegister)(
                memory, REGISTERED_SIZE, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
        if (result)
                return ds_cuda_failed(device, result, "cuMemHostRegister");
        result = CU(device, cuMemHostGetDevicePointer)(&got, memory, 0);
        if (!result && got == (uintptr_t)memory)
                return 0;
        CU(device, cuMemHostUnregister)(memory);
        return result ? ds_cuda_failed(device, result, "cuMemHostGetDevicePointer") : ds_error_origin(-ENOTSUP);
}

int cuda_counters_init(ds_device *device)
{
        void *memory;
        int can = 0, r;

        if (CU(device, cuDeviceGetAttribute)(
                    &can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device->ordinal) ||
                !can) {
                ds_log(DS_LOG_INFO, "this GPU cannot write progress counters: completions use events instead");
                return 0;
        }
        memory = mmap(NULL, REGISTERED_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (memory == MAP_FAILED)
                return ds_error_origin(-errno);
        r = counters_register(device, memory);
        if (r) {
                munmap(memory, REGISTERED_SIZE);
                return ds_error_trace(r);
        }
        device->counters = memory;
        return 0;
}

void *cuda_counters_more(const ds_device *device)
{
        return device->counters ? (uint8_t *)device->counters + COUNTERS_SIZE : NULL;
}

void cuda_counters_free(ds_device *device)
{
        void *memory = DS_TAKE_PTR(device->counters);

        /* if the driver did not unregister the memory, the GPU may still write there; the memory is freed with the
         * process */
        if (memory && cuda_usable(device) && !CU(device, cuMemHostUnregister)(memory))
                munmap(memory, REGISTERED_SIZE);
}

CUresult cuda_counter_submit(ds_device *device, struct cuda_stream *stream, uint64_t number)
{
        CUresult result = CU(device, cuStreamWriteValue64)(
                stream->stream, (uintptr_t)cuda_counter_of(device, stream), number, CU_STREAM_WRITE_VALUE_DEFAULT);

        if (!result)
                stream->asked = number;
        return result;
}

uint64_t cuda_counter(const ds_device *device, const struct cuda_stream *stream)
{
        return device->counters ? __atomic_load_n(cuda_counter_of(device, stream), __ATOMIC_ACQUIRE) : 0;
}

void cuda_counters_tend(ds_device *device, uint64_t now_ns)
{
        CUresult result;

        if (!device->counters || !device->busy || device->lost || now_ns - device->asked_ns < COUNTERS_ASK_NS)
                return;
        device->asked_ns = now_ns;
        result = CU(device, cuStreamQuery)(device->busy->stream);
        if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
                cuda_fault_note(device, result);
}
