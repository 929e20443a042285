/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real GPU: opening, closing, the driver's errors, and the vtable
 *
 * A specification is the GPU's number as CUDA counts, "0". CUDA_VISIBLE_DEVICES of the daemon's own environment is
 * honoured: it renumbers GPUs and hides some, as for every CUDA program.
 *
 * There is one context, the primary one. Calls that would stop it later are made here, before the first client
 * connects. rung_create then makes the rungs. Local memory that the context has once taken stays
 * (CU_CTX_LMEM_RESIZE_TO_MAX). Modules are loaded lazily, step by step (module.c), unless CUDA_MODULE_LOADING=EAGER is
 * in the daemon's environment. The daemon requests the largest number of hardware queues, so that streams do not block
 * each other by sharing one.
 *
 * Closing frees in reverse order what opening made. Where kernels are still running, or the context is lost, the driver
 * is not called again (it would wait, or fail): this process's memory is freed, and the driver's resources are freed
 * with the process.
 */
#include "device/cuda/cuda.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/cuda/internal.h"
#include "util/clock.h"
#include "util/error.h"

#define ORDINAL_MAX 255u
#define SETTLE_BYTES 4096u
#define SETTLE_IDLE_MS 60000

/* --- errors ----------------------------------------------------------------------------------------------------- */

int ds_cuda_failed(ds_device *device, CUresult result, const char *what)
{
        enum ds_log_level level = result == CUDA_ERROR_OUT_OF_MEMORY ? DS_LOG_INFO : DS_LOG_WARNING;

        ds_log_limited(
                &device->log, cuda_now(device), level, "%s: %s", what, ds_cuda_driver_error(&device->driver, result));
        if (cuda_fault_ends(result))
                cuda_fault_note(device, result);
        return (int)result > 0 ? (int)result : ds_error_origin(-EIO);
}

int cuda_usable(const ds_device *device)
{
        return device->primary && !device->lost;
}

/* --- close ------------------------------------------------------------------------------------------------------ */

static ds_device *device_close(ds_device *device)
{
        if (!device)
                return NULL;
        /* jobs in flight continue after the device closes: from here on the context counts as lost */
        if (device->n_jobs && !device->lost)
                device->lost = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (device->primary) {
                cuda_work_free(device);
                cuda_graphs_free(device);
                cuda_modules_free(device);
                cuda_output_free(device);
                cuda_spaces_free(device);
                cuda_rungs_free(device);
                cuda_topology_free(device);
                if (cuda_usable(device))
                        CU(device, cuDevicePrimaryCtxRelease)(device->ordinal);
        }
        ds_cuda_driver_unload(&device->driver);
        return ds_free(device);
}

static void device_closep(ds_device **device)
{
        *device = device_close(*device);
}

/* --- open ------------------------------------------------------------------------------------------------------- */

int cuda_spec_parse(const char *spec, unsigned *ret_ordinal)
{
        unsigned ordinal = 0;
        size_t length = strspn(spec, "0123456789");

        /* a GPU number has no leading zero: 0 and 10 are accepted, 00 and 010 refused */
        if (!length || length > 3 || spec[length] || (spec[0] == '0' && length > 1))
                return -EINVAL;
        for (size_t i = 0; i < length; i++)
                ordinal = ordinal * 10 + (unsigned)(spec[i] - '0');
        if (ordinal > ORDINAL_MAX)
                return -EINVAL;
        *ret_ordinal = ordinal;
        return 0;
}

/* Logs a failure at open, before the log budget exists: which GPU, which operation, which driver error. */
static int open_failed(ds_device *device, const char *spec, const char *what, CUresult result)
{
        ds_log(DS_LOG_ERROR, "cuda:%s: %s: %s", spec, what, ds_cuda_driver_error(&device->driver, result));
        return -ENODEV;
}

static int open_ordinal(ds_device *device, const char *spec, unsigned ordinal)
{
        CUresult result;
        int count = 0;

        /* cuInit reads these two environment variables */
        if (setenv("CUDA_MODULE_LOADING", "LAZY", 0) < 0 || setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1) < 0)
                return ds_error_origin(-errno);
        device->lazy = strcmp(getenv("CUDA_MODULE_LOADING"), "EAGER") != 0;
        result = CU(device, cuInit)(0);
        if (result)
                return open_failed(device, spec, "no GPU can be used: cuInit", result);
        result = CU(device, cuDeviceGetCount)(&count);
        if (result)
                return open_failed(device, spec, "cuDeviceGetCount", result);
        if (ordinal >= (unsigned)count) {
                ds_log(DS_LOG_ERROR, "cuda:%s: this machine has %d GPU%s", spec, count, count == 1 ? "" : "s");
                return -ENODEV;
        }
        result = CU(device, cuDeviceGet)(&device->ordinal, (int)ordinal);
        return result ? open_failed(device, spec, "cuDeviceGet", result) : 0;
}

static int open_context(ds_device *device, const char *spec)
{
        const unsigned flags = CU_CTX_SCHED_SPIN | CU_CTX_LMEM_RESIZE_TO_MAX;
        CUresult result = CU(device, cuDevicePrimaryCtxSetFlags)(device->ordinal, flags);

        if (result)
                return open_failed(device, spec, "cuDevicePrimaryCtxSetFlags", result);
        result = CU(device, cuDevicePrimaryCtxRetain)(&device->primary, device->ordinal);
        if (result) {
                device->primary = NULL;
                return open_failed(
                        device, spec, "no context (is the GPU in exclusive use, or its memory full?)", result);
        }
        result = CU(device, cuCtxSetCurrent)(device->primary);
        return result ? open_failed(device, spec, "cuCtxSetCurrent", result) : 0;
}

static int open_parts(ds_device *device)
{
        int (*const parts[])(ds_device *) = {
                cuda_topology_discover,
                cuda_limits_init,
                cuda_rungs_init,
                cuda_memory_init,
                cuda_work_init,
                cuda_output_init,
        };
        int r;

        for (size_t i = 0; i < DS_ARRAY_SIZE(parts); i++) {
                r = parts[i](device);
                if (r > 0) /* the driver refused, and its error is already in the log */
                        return -ENODEV;
                if (r < 0)
                        return ds_error_trace(r);
        }
        return 0;
}

/* Times at which opening began and at which its steps ended, ns. Clients wait for opening when a worker is replaced.
 * The driver takes most of the time. */
struct open_times {
        uint64_t begin, library, driver, context, parts;
};

static double open_ms(uint64_t from, uint64_t to)
{
        return (double)(to - from) / 1e6;
}

static void open_said(const struct open_times *t)
{
        ds_log(DS_LOG_INFO, "the GPU was opened in %.0f ms: library %.0f, driver %.0f, context %.0f, its parts %.0f",
                open_ms(t->begin, t->parts), open_ms(t->begin, t->library), open_ms(t->library, t->driver),
                open_ms(t->driver, t->context), open_ms(t->context, t->parts));
}

static int open_steps(ds_device *device, const char *spec, unsigned ordinal)
{
        struct open_times times = {.begin = ds_monotonic_ns()};
        int r = ds_cuda_driver_load(&device->driver, NULL);

        times.library = ds_monotonic_ns();
        if (!r)
                r = open_ordinal(device, spec, ordinal);
        times.driver = ds_monotonic_ns();
        if (!r)
                r = open_context(device, spec);
        times.context = ds_monotonic_ns();
        if (!r)
                r = open_parts(device);
        if (r)
                return r == -ENODEV ? r : ds_error_trace(r);
        times.parts = ds_monotonic_ns();
        open_said(&times);
        return 0;
}

static int device_open(const char *spec, ds_device **ret)
{
        ds_cleanup(device_closep) ds_device *device = NULL;
        unsigned ordinal;
        int r;

        if (cuda_spec_parse(spec, &ordinal)) {
                ds_log(DS_LOG_ERROR, "cuda:%s: not a GPU number; give the number of a GPU, as in cuda:0", spec);
                return -ENODEV;
        }
        device = ds_alloc0(1, sizeof(*device));
        if (!device)
                return ds_error_origin(-ENOMEM);
        r = open_steps(device, spec, ordinal);
        if (r)
                return r == -ENODEV ? r : ds_error_trace(r);
        *ret = DS_TAKE_PTR(device);
        return 0;
}

/* Makes the GPU work for this context: the driver's own kernel fills some bytes, on any of the SMs. */
static int settle_turn(const struct ds_cuda_driver *driver, CUdeviceptr memory, CUstream stream)
{
        CUresult result = driver->cuMemsetD32Async_fn(memory, 0, SETTLE_BYTES / 4, stream);

        return result || driver->cuStreamSynchronize_fn(stream) ? -ENODEV : 0;
}

static int settle_serve(const struct ds_cuda_driver *driver, CUdeviceptr memory, CUstream stream, int fd)
{
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        char said[512];
        int r = 0;

        while (!r) {
                if (poll(&wait, 1, SETTLE_IDLE_MS) <= 0)
                        return 0;
                /* reads any number of requests at once: one fill serves them all */
                if (read(fd, said, sizeof(said)) <= 0)
                        return 0;
                r = settle_turn(driver, memory, stream);
        }
        return r;
}

static int settle_context(const struct ds_cuda_driver *driver, unsigned ordinal, int fd)
{
        CUdeviceptr memory;
        CUcontext context;
        CUstream stream;
        CUdevice device;
        int r;

        if (driver->cuInit_fn(0) || driver->cuDeviceGet_fn(&device, (int)ordinal) ||
                driver->cuDevicePrimaryCtxSetFlags_fn(device, CU_CTX_SCHED_BLOCKING_SYNC) ||
                driver->cuDevicePrimaryCtxRetain_fn(&context, device))
                return -ENODEV;
        if (driver->cuCtxSetCurrent_fn(context) || driver->cuMemAlloc_fn(&memory, SETTLE_BYTES) ||
                driver->cuStreamCreateWithPriority_fn(&stream, CU_STREAM_NON_BLOCKING, 0))
                r = -ENODEV;
        else
                r = settle_serve(driver, memory, stream, fd);
        driver->cuDevicePrimaryCtxRelease_fn(device);
        return r;
}

/* Logs nothing: a GPU whose memory is full has no room for another context, which is not an error. */
static int device_settle(const char *spec, int fd)
{
        struct ds_cuda_driver driver = {0};
        unsigned ordinal;
        int r;

        if (cuda_spec_parse(spec, &ordinal))
                return -ENODEV;
        r = ds_cuda_driver_load(&driver, NULL);
        if (r)
                return r == -ENODEV ? r : ds_error_trace(r);
        r = settle_context(&driver, ordinal, fd);
        ds_cuda_driver_unload(&driver);
        return r;
}

/* --- operations that involve several files ---------------------------------------------------------------------- */

static const struct ds_device_info *device_info(ds_device *device)
{
        return &device->info;
}

static size_t device_put_off(ds_device *device)
{
        return cuda_put_off(device) + cuda_memory_put_off(device) + cuda_graphs_put_off(device);
}

static void device_put_off_do(ds_device *device)
{
        if (cuda_graphs_put_off(device)) /* graphs first, since instantiated graphs keep their kernels loaded */
                cuda_graphs_put_off_do(device);
        else if (cuda_put_off(device))
                cuda_put_off_do(device);
        else
                cuda_memory_put_off_do(device);
}

static uint64_t device_stirs(const ds_device *device, uint32_t *ret_divided)
{
        *ret_divided = device->n_divided;
        return device->n_stirs;
}

static size_t device_poll(ds_device *device, struct ds_completion *completions, size_t n)
{
        size_t done = cuda_poll(device, completions, n);

        cuda_memory_sweep(device);
        return done;
}

/* -1: the driver has no file that becomes readable, so the owner polls while there is work. */
static int device_event_fd(ds_device *device)
{
        return -1;
}

const struct ds_device_ops ds_cuda_ops = {
        .version = DS_DEVICE_OPS_VERSION,
        .name = "cuda",
        .open = device_open,
        .settle = device_settle,
        .close = device_close,
        .info = device_info,
        .rung_create = cuda_rung_create,
        .rung_create_coarse = cuda_rung_create_coarse,
        .rung_info = cuda_rung_info,
        .space_add = cuda_space_add,
        .space_remove = cuda_space_remove,
        .mem_create = cuda_mem_create,
        .mem_map = cuda_mem_map,
        .mem_unmap = cuda_mem_unmap,
        .mem_cleared = cuda_mem_cleared,
        .mem_keep = cuda_mem_keep,
        .host_map = cuda_host_map,
        .host_move = cuda_host_move,
        .host_unmap = cuda_host_unmap,
        .module_cached = cuda_module_cached,
        .module_prepare = cuda_module_prepare,
        .module_prepared = cuda_module_prepared,
        .module_load = cuda_module_load,
        .module_again = cuda_module_again,
        .module_lies_in = cuda_module_lies_in,
        .module_unload = cuda_module_unload,
        .kernel_find = cuda_kernel_find,
        .kernel_at = cuda_kernel_at,
        .kernel_info = cuda_kernel_info,
        .kernel_loaded = cuda_kernel_loaded,
        .kernel_load = cuda_kernel_load,
        .global_find = cuda_global_find,
        .module_has_globals = cuda_module_has_globals,
        .put_off = device_put_off,
        .put_off_do = device_put_off_do,
        .stirs = device_stirs,
        .limit_raise = cuda_limit_raise,
        .limit_get = cuda_limit_get,
        .launch = cuda_launch,
        .clusters = cuda_clusters,
        .tensor_map = cuda_tensor_map,
        .copy = cuda_copy,
        .memset = cuda_memset,
        .graph_new = cuda_graph_new,
        .graph_build = cuda_graph_build,
        .graph_ready = cuda_graph_ready,
        .graph_launch = cuda_graph_launch,
        .graph_take = cuda_graph_take,
        .graph_change = cuda_graph_change,
        .graph_free = cuda_graph_free,
        .fence = cuda_fence,
        .abort = cuda_abort,
        .evict = cuda_evict,
        .drop = cuda_drop,
        .poll = device_poll,
        .output = cuda_output,
        .lost = cuda_lost,
        .stuck = cuda_stuck,
        .event_fd = device_event_fd,
        .now = cuda_now,
};
