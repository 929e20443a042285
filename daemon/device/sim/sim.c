/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated GPU: opening, closing, rungs, and the vtable
 *
 * A specification is MODEL[+timing][+quiesce][+apart][+noise=PERCENT][+order=SEED]:
 *
 *  +timing         kernels are checked and timed but not executed (copies and memsets are). A module may then also be a
 *                  profile (profile.h), instead of PTX.
 *  +quiesce        the device reports, as a GPU does, that module loads and the like stop all work; this shows the
 *                  worker's response without a GPU.
 *  +order=SEED     the blocks of every launch are executed in another order, the same in every run. Tests use it to
 *                  find kernels that rely on one order.
 *  +apart          requests that wait for a full channel delay no others: work shares nothing but the channels.
 *  +noise=PERCENT  PERCENT of 100 launches move twice their bytes, as if another user read beside them. The launch's
 *                  number decides which.
 *
 * The device's memory is the model's or half of this machine's RAM, whichever is less: slabs are host memory. See
 * internal.h for how the parts work together, and for the features of a GPU that this device lacks.
 */
#include "device/sim/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "device/sim/internal.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/log.h"

#define SUFFIX_TIMING "+timing"
#define SUFFIX_QUIESCE "+quiesce"
#define SUFFIX_ORDER "+order="
#define SUFFIX_APART "+apart"
#define SUFFIX_NOISE "+noise="
#define FIFO_MAX DS_MIB(64) /* most bytes of unread text of a session; it is host memory */

static ds_device *sim_close(ds_device *device)
{
        if (!device)
                return NULL;
        sim_jobs_free(device);
        sim_texts_free(device);
        sim_modules_free(device);
        sim_spaces_free(device);
        sim_blocks_deinit(device);
        sim_l2_deinit(device);
        while (device->n_rungs)
                ds_free(device->rungs[--device->n_rungs]);
        ds_free(device->heap);
        ds_close(device->event_fd);
        return ds_free(device);
}

static void sim_closep(ds_device **device)
{
        *device = sim_close(*device);
}

/* Reads the number of a suffix such as "+noise=5"; false: it is no number, or greater than `most`. */
static bool spec_number(const char *suffix, size_t length, const char *name, uint64_t most, uint64_t *ret)
{
        size_t prefix = strlen(name);
        uint64_t value;
        char *end;

        if (length <= prefix || strncmp(suffix, name, prefix) || suffix[prefix] < '0' || suffix[prefix] > '9')
                return false;
        errno = 0;
        value = strtoull(suffix + prefix, &end, 10);
        if (errno || end != suffix + length || value > most)
                return false;
        *ret = value;
        return true;
}

/* Reads the suffixes behind the model. Returns -EINVAL and logs a line if one is wrong. */
static int spec_suffixes(const char *spec, const char *suffix, ds_device *device)
{
        while (*suffix) {
                size_t length = strcspn(suffix + 1, "+") + 1;
                uint64_t percent;

                if (length == strlen(SUFFIX_TIMING) && !strncmp(suffix, SUFFIX_TIMING, length)) {
                        device->timing_only = true;
                } else if (length == strlen(SUFFIX_QUIESCE) && !strncmp(suffix, SUFFIX_QUIESCE, length)) {
                        device->info.stops = 1;
                } else if (length == strlen(SUFFIX_APART) && !strncmp(suffix, SUFFIX_APART, length)) {
                        device->channels_apart = true;
                } else if (spec_number(suffix, length, SUFFIX_NOISE, 100, &percent)) {
                        device->noise = (uint32_t)percent;
                } else if (!spec_number(suffix, length, SUFFIX_ORDER, UINT64_MAX, &device->order_seed)) {
                        ds_log(DS_LOG_ERROR,
                                "sim:%s: unknown suffix '%.*s', there are %s, %s, %s, %sPERCENT and %sSEED", spec,
                                (int)length, suffix, SUFFIX_TIMING, SUFFIX_QUIESCE, SUFFIX_APART, SUFFIX_NOISE,
                                SUFFIX_ORDER);
                        return -EINVAL;
                }
                suffix += length;
        }
        return 0;
}

/* The model that a specification names; NULL, with a line in the log: there is no such model. */
static const struct sim_model *spec_model(const char *spec)
{
        size_t length = strcspn(spec, "+"), first = strcspn(spec, ",+");
        const struct sim_model *model;

        if (first < length) {
                ds_log(DS_LOG_ERROR, "sim:%s: one simulated GPU per daemon for now, name one model", spec);
                return NULL;
        }
        model = sim_model_find(spec, length);
        if (!model)
                ds_log(DS_LOG_ERROR, "sim:%s: no such model, there are h200, a2000, p40 and gtx1080", spec);
        return model;
}

static uint64_t host_memory(void)
{
        long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

        return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

/* Time at which an earlier worker process stopped the device's clock; the clock that clients see continues from
 * there. */
static uint64_t clock_before(void)
{
        const char *value = getenv("DETSHARE_CLOCK_NS");

        return value ? strtoull(value, NULL, 10) : 0;
}

static int sim_open(const char *spec, ds_device **ret)
{
        ds_cleanup(sim_closep) ds_device *device = NULL;
        const struct sim_model *model;
        int r;

        model = spec_model(spec);
        if (!model)
                return -ENODEV;
        device = ds_alloc0(1, sizeof(*device));
        if (!device)
                return ds_error_origin(-ENOMEM);
        device->event_fd = -1;
        device->limits[DS_LIMIT_STACK_SIZE] = 1024; /* limits of a new CUDA context */
        device->limits[DS_LIMIT_PRINTF_FIFO_SIZE] = DS_MIB(1);
        atomic_init(&device->text_limit, DS_MIB(1));
        device->limits[DS_LIMIT_MALLOC_HEAP_SIZE] = DS_MIB(8);
        device->model = model;
        device->now = clock_before();
        sim_model_info(model, &device->info);
        sim_model_groups(model, &device->info);
        if (spec_suffixes(spec, spec + strcspn(spec, "+"), device))
                return -ENODEV;
        device->info.slab_granularity = SIM_GRANULARITY;
        device->info.memory_bytes = DS_MIN(model->memory_bytes, host_memory() / 2) & ~(SIM_GRANULARITY - 1);
        device->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (device->event_fd < 0)
                return ds_error_origin(-errno);
        r = sim_blocks_init(device);
        if (r < 0)
                return ds_error_trace(r);
        r = sim_l2_init(device);
        if (r < 0)
                return ds_error_trace(r);
        r = sim_pool_start(device);
        if (r < 0)
                return ds_error_trace(r);
        *ret = DS_TAKE_PTR(device);
        return 0;
}

static const struct ds_device_info *sim_info(ds_device *device)
{
        return &device->info;
}

/* Makes a rung from the TPCs in info, and fills the rest of its information. */
static int rung_make(ds_device *device, const struct ds_rung_info *info, uint32_t *ret_rung)
{
        const struct sim_model *model = device->model;
        ds_cleanup(ds_freep) struct sim_rung *rung = NULL;
        uint32_t tpc;
        int r;

        if (device->n_rungs == DS_DEVICE_RUNGS_MAX)
                return ds_error_origin(-ENOSPC);
        rung = ds_alloc0(1, sizeof(*rung));
        if (!rung)
                return ds_error_origin(-ENOMEM);
        rung->info = *info;
        for (tpc = 0; tpc < DS_DEVICE_TPCS_MAX; tpc++) {
                if (!(info->mask.word[tpc / 64] >> tpc % 64 & 1))
                        continue;
                if (tpc >= model->n_tpcs)
                        return ds_error_origin(-EINVAL);
                rung->info.n_tpcs++;
        }
        if (!rung->info.n_tpcs)
                return ds_error_origin(-EINVAL);
        rung->info.n_sms = rung->info.n_tpcs * model->sms_per_tpc;
        rung->info.cluster_max = sim_clusters_max(device, &rung->info);
        for (uint32_t i = 0; i < device->n_sms; i++) {
                tpc = device->sm[i].id / model->sms_per_tpc;
                if (info->mask.word[tpc / 64] >> tpc % 64 & 1)
                        rung->sms[i / 64] |= UINT64_C(1) << i % 64;
        }
        /* events per stream: its head's own, a deadline, a limit on blocks, and two for a profile's kernel */
        r = sim_heap_reserve(device, 5 * DS_DEVICE_PRIORITIES * DS_DEVICE_STREAMS_PER_RUNG);
        if (r < 0)
                return ds_error_trace(r);
        sim_streams_init(rung, device->n_rungs);
        *ret_rung = device->n_rungs;
        device->rungs[device->n_rungs++] = DS_TAKE_PTR(rung);
        sim_room_rungs(device);
        return 0;
}

static int sim_rung_create(ds_device *device, const struct ds_tpc_mask *mask, uint32_t *ret_rung)
{
        const struct ds_rung_info info = {.mask = *mask};

        return ds_error_trace(rung_make(device, &info, ret_rung));
}

static int sim_rung_create_coarse(ds_device *device, uint32_t groups, uint32_t *ret_rung)
{
        struct ds_rung_info info = {.coarse = 1};

        for (uint32_t i = 0; i < DS_DEVICE_GROUPS_MAX; i++) {
                if (!(groups >> i & 1))
                        continue;
                if (i >= device->info.n_groups)
                        return ds_error_origin(-EINVAL);
                for (size_t word = 0; word < DS_ARRAY_SIZE(info.mask.word); word++)
                        info.mask.word[word] |= device->info.group[i].word[word];
        }
        return ds_error_trace(rung_make(device, &info, ret_rung));
}

static const struct ds_rung_info *sim_rung_info(ds_device *device, uint32_t rung)
{
        return rung < device->n_rungs ? &device->rungs[rung]->info : NULL;
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

static int sim_limit_raise(ds_device *device, enum ds_device_limit limit, uint64_t value)
{
        if (limit < 0 || limit >= _DS_LIMIT_MAX)
                return DS_CUDA_INVALID_VALUE;
        if (value > (limit == DS_LIMIT_PRINTF_FIFO_SIZE ? FIFO_MAX : device->info.memory_bytes))
                return DS_CUDA_OUT_OF_MEMORY;
        device->limits[limit] = DS_MAX(device->limits[limit], value);
        atomic_store(&device->text_limit, device->limits[DS_LIMIT_PRINTF_FIFO_SIZE]);
        return 0;
}

static uint64_t sim_limit_get(ds_device *device, enum ds_device_limit limit)
{
        return limit >= 0 && limit < _DS_LIMIT_MAX ? device->limits[limit] : 0;
}

/* --- operations of a device that never stops (QUIESCE in device.h) and whose new memory is zero ------------------- */

/* Does nothing: a slab is its file, whose memory is never reused. */
static int sim_mem_keep(ds_device *device, uint32_t space, uint64_t va)
{
        return sim_space_find(device, space) ? 0 : -ENOENT;
}

static int sim_mem_cleared(ds_device *device, uint32_t space, uint64_t va)
{
        return 1;
}

static int sim_module_cached(ds_device *device, const void *image, size_t size)
{
        return !device->info.stops;
}

static size_t sim_put_off(ds_device *device)
{
        return 0;
}

static void sim_put_off_do(ds_device *device)
{
}

static int sim_lost(ds_device *device)
{
        return 0;
}

static int sim_event_fd(ds_device *device)
{
        return device->event_fd;
}

/* Not supported: the device executes no tensor copies. */
static int sim_tensor_map(ds_device *device, const struct ds_tensor_map *ask, uint8_t map[DS_TENSOR_MAP_BYTES])
{
        return DS_CUDA_NOT_SUPPORTED;
}

const struct ds_device_ops ds_sim_ops = {
        .version = DS_DEVICE_OPS_VERSION,
        .name = "sim",
        .open = sim_open,
        .close = sim_close,
        .info = sim_info,
        .rung_create = sim_rung_create,
        .rung_create_coarse = sim_rung_create_coarse,
        .rung_info = sim_rung_info,
        .space_add = sim_space_add,
        .space_remove = sim_space_remove,
        .mem_create = sim_mem_create,
        .mem_map = sim_mem_map,
        .mem_unmap = sim_mem_unmap,
        .mem_cleared = sim_mem_cleared,
        .mem_keep = sim_mem_keep,
        .host_map = sim_host_map,
        .host_move = sim_host_move,
        .host_unmap = sim_host_unmap,
        .module_cached = sim_module_cached,
        .module_load = sim_module_load,
        .module_unload = sim_module_unload,
        .kernel_find = sim_kernel_find,
        .kernel_at = sim_kernel_at,
        .kernel_info = sim_kernel_info,
        .global_find = sim_global_find,
        .module_has_globals = sim_module_has_globals,
        .put_off = sim_put_off,
        .put_off_do = sim_put_off_do,
        .limit_raise = sim_limit_raise,
        .limit_get = sim_limit_get,
        .launch = sim_launch,
        .clusters = sim_clusters,
        .tensor_map = sim_tensor_map,
        .copy = sim_copy,
        .memset = sim_memset,
        .fence = sim_fence,
        .abort = sim_abort,
        .kill = sim_kill,
        .bound = sim_bound,
        .evict = sim_evict,
        .drop = sim_drop,
        .poll = sim_poll,
        .output = sim_output,
        .lost = sim_lost,
        .event_fd = sim_event_fd,
        .now = sim_now,
        .advance = sim_advance,
};
