/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session as the device that the probe of memory channels (lut/probe/) measures
 *
 * The probe's launches, copies and memsets become operations of one stream, which end in order. A launch is timed by
 * two events around it, so its time includes the cost of a launch; the probe compares times only with each other. Other
 * work on the device would show in the times: the caller makes sure that there is none.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/calibrate.h"
#include "device/device.h"
#include "lut/probe/pages.h"

#define QUEUE 96u             /* most submitted operations that were not waited for; the probe submits at most 64 */
#define ATTRIBUTE_CC_MAJOR 75 /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR */
#define ATTRIBUTE_CC_MINOR 76
#define KERNELS 4u
#define SCRATCH (1u << 20)

struct ds_device_kernel {
        struct ds_kernel_info info;
        uint64_t id;
};

struct ds_device_module {
        dsc_session *session;
        uint64_t id;
        struct ds_device_kernel kernels[KERNELS];
        size_t n_kernels;
};

struct operation {
        uint64_t token, events[2], seqs[2];
        int is_timed;
};

struct ds_device {
        dsc_session *session;
        uint32_t stream;
        struct ds_device_info info;
        uint64_t scratch;
        struct operation queue[QUEUE];
        uint64_t n_submitted, n_told;
};

static const struct ds_device_info *bench_info(ds_device *device)
{
        return &device->info;
}

/* --- operations --- */

static struct operation *operation_begin(ds_device *device, uint64_t token)
{
        struct operation *o = &device->queue[device->n_submitted % QUEUE];
        if (device->n_submitted - device->n_told == QUEUE)
                return NULL;
        o->token = token;
        o->is_timed = 0;
        return o;
}

static int operation_end(ds_device *device, struct operation *o, int r)
{
        if (r)
                return dsc_cuda(r);
        if (!o->is_timed)
                o->seqs[1] = dsc_stream_tail(device->session, device->stream);
        device->n_submitted++;
        return 0;
}

/* Submits an operation before the first launch of a batch: otherwise the time of that launch would include its way
 * to the device. */
static int keep_busy(ds_device *device)
{
        const struct dsc_memset to = {
                .dst = device->scratch, .element_size = 4, .width = SCRATCH / 4, .height = 1, .pitch = SCRATCH};
        return dsc_memset(device->session, device->stream, &to);
}

static int bench_launch(ds_device *device, const struct ds_launch *launch, uint64_t token)
{
        struct operation *o = operation_begin(device, token);
        struct dsc_launch to = {
                .kernel = launch->kernel->id,
                .cooperative = launch->cooperative,
                .shared_bytes = launch->shared_bytes,
                .params = launch->params,
                .params_size = launch->params_size,
        };
        if (!o)
                return -ENOSPC;
        memcpy(to.grid, launch->grid, sizeof(to.grid));
        memcpy(to.block, launch->block, sizeof(to.block));
        o->is_timed = 1;
        int r = device->n_told == device->n_submitted ? keep_busy(device) : 0;
        if (!r)
                r = dsc_event_record(device->session, device->stream, o->events[0], &o->seqs[0]);
        if (!r)
                r = dsc_launch(device->session, device->stream, &to);
        if (!r)
                r = dsc_event_record(device->session, device->stream, o->events[1], &o->seqs[1]);
        return operation_end(device, o, r);
}

static int bench_copy(ds_device *device, const struct ds_copy *copy, uint64_t token)
{
        struct operation *o = operation_begin(device, token);
        const size_t width = (size_t)copy->width, height = (size_t)copy->height;
        if (!o)
                return -ENOSPC;
        const int r = copy->kind == DS_COPY_HTOD
                              ? dsc_write(device->session, device->stream, copy->dst, width,
                                        (const void *)(uintptr_t)copy->src, width, width, height)
                              : dsc_read(device->session, device->stream, (void *)(uintptr_t)copy->dst, width,
                                        copy->src, width, width, height);
        return operation_end(device, o, r);
}

static int bench_memset(ds_device *device, const struct ds_memset *memset, uint64_t token)
{
        struct operation *o = operation_begin(device, token);
        const struct dsc_memset to = {
                .dst = memset->dst,
                .value = (uint32_t)memset->value,
                .element_size = memset->element_size,
                .width = memset->width,
                .height = memset->height,
                .pitch = memset->pitch ? memset->pitch : memset->width * memset->element_size,
        };
        if (!o)
                return -ENOSPC;
        return operation_end(device, o, dsc_memset(device->session, device->stream, &to));
}

/* Reads the times of an operation's events. The page holds an event's time until another event takes its slot. */
static int operation_times(ds_device *device, const struct operation *o, struct ds_completion *ret)
{
        int64_t ns;
        if (dsc_event_time(device->session, o->events[0], device->stream, o->seqs[0], &ret->start_ns) &&
                dsc_event_time(device->session, o->events[1], device->stream, o->seqs[1], &ret->end_ns))
                return 0;
        ret->start_ns = 0;
        const int r = dsc_event_elapsed(device->session, o->events[0], o->events[1], &ns);
        ret->end_ns = r || ns < 0 ? 0 : (uint64_t)ns;
        return dsc_cuda(r);
}

static void operation_tell(ds_device *device, const struct operation *o, struct ds_completion *ret)
{
        *ret = (struct ds_completion){.token = o->token};
        ret->status = dsc_cuda(dsc_wait(device->session, device->stream, o->seqs[1]));
        if (!ret->status && o->is_timed)
                ret->status = operation_times(device, o, ret);
        if (ret->status)
                snprintf(ret->message, sizeof(ret->message), "%s", dsc_message());
}

/* Waits for the oldest operation: the caller has nothing else to do. */
static size_t bench_poll(ds_device *device, struct ds_completion *ret, size_t n)
{
        if (!n || device->n_told == device->n_submitted)
                return 0;
        operation_tell(device, &device->queue[device->n_told % QUEUE], ret);
        device->n_told++;
        return 1;
}

static int bench_event_fd(ds_device *device)
{
        (void)device;
        return -1;
}

/* --- code --- */

static int bench_module_load(ds_device *device, uint32_t space, const void *image, size_t size, char *log,
        size_t log_size, ds_device_module **ret)
{
        struct ds_device_module *module = calloc(1, sizeof(*module));
        (void)space;
        if (!module)
                return -ENOMEM;
        module->session = device->session;
        const int r = dsc_module_load(device->session, image, size, log, log_size, &module->id);
        if (r) {
                free(module);
                return dsc_cuda(r);
        }
        *ret = module;
        return 0;
}

static ds_device_module *bench_module_unload(ds_device *device, ds_device_module *module)
{
        (void)dsc_module_unload(device->session, module->id);
        free(module);
        return NULL;
}

static const ds_device_kernel *bench_kernel_find(ds_device_module *module, const char *name)
{
        struct ds_device_kernel *kernel = &module->kernels[module->n_kernels];
        struct dsc_kernel found;
        if (module->n_kernels == KERNELS || dsc_kernel_get(module->session, module->id, name, &found))
                return NULL;
        kernel->id = found.id;
        kernel->info.params_size = found.params_size;
        dsc_kernel_clear(&found);
        module->n_kernels++;
        return kernel;
}

static const struct ds_kernel_info *bench_kernel_info(const ds_device_kernel *kernel)
{
        return &kernel->info;
}

static const struct ds_device_ops bench_ops = {
        .version = DS_DEVICE_OPS_VERSION,
        .name = "session",
        .info = bench_info,
        .module_load = bench_module_load,
        .module_unload = bench_module_unload,
        .kernel_find = bench_kernel_find,
        .kernel_info = bench_kernel_info,
        .launch = bench_launch,
        .copy = bench_copy,
        .memset = bench_memset,
        .poll = bench_poll,
        .event_fd = bench_event_fd,
};

/* --- the session --- */

static void take_info(ds_device *device)
{
        const struct dsc_device *from = dsc_device(device->session);
        struct ds_device_info *info = &device->info;
        snprintf(info->name, sizeof(info->name), "%s", from->name);
        snprintf(info->model, sizeof(info->model), "%s", from->model);
        info->simulated = from->simulated != 0;
        info->n_sms = from->n_sms;
        if (from->n_attributes > ATTRIBUTE_CC_MINOR) {
                info->cc_major = (uint32_t)from->attributes[ATTRIBUTE_CC_MAJOR];
                info->cc_minor = (uint32_t)from->attributes[ATTRIBUTE_CC_MINOR];
        }
}

static int make_events(ds_device *device)
{
        int r = 0;
        for (size_t i = 0; i < QUEUE * 2 && !r; i++)
                r = dsc_event_create(device->session, &device->queue[i / 2].events[i % 2]);
        return r;
}

static void drop_events(ds_device *device)
{
        for (size_t i = 0; i < QUEUE * 2; i++)
                if (device->queue[i / 2].events[i % 2])
                        (void)dsc_event_destroy(device->session, device->queue[i / 2].events[i % 2]);
}

static int label(ds_device *device, const char *lut_dir, const uint64_t *pages, size_t n, struct ds_pages_labels *ret)
{
        struct ds_bench_site site = {
                .ops = &bench_ops, .device = device, .host = calloc(1, DS_BENCH_DATA), .takes_text = true};
        char model[80];
        const struct ds_pages_ask ask = {.model = model, .lut_dir = lut_dir};
        int r = site.host ? dsc_mem_alloc(device->session, DS_BENCH_DATA, &site.data) : 2;
        if (!r)
                r = dsc_mem_alloc(device->session, SCRATCH, &device->scratch);
        snprintf(model, sizeof(model), "%s%s", device->info.simulated ? "sim:" : "",
                device->info.simulated ? device->info.model : device->info.name);
        r = r ? -ENOMEM : ds_pages_label(&site, &ask, pages, n, ret);
        if (device->scratch)
                (void)dsc_mem_free(device->session, device->scratch);
        if (site.data)
                (void)dsc_mem_free(device->session, site.data);
        free(site.host);
        return r;
}

int calibrate_bench_label(dsc_session *session, uint32_t stream, const char *lut_dir, const uint64_t *pages, size_t n,
        struct ds_pages_labels *ret)
{
        ds_device *device = calloc(1, sizeof(*device));
        int r = -ENOMEM;
        *ret = (struct ds_pages_labels){.channel = NULL};
        if (!device)
                return r;
        device->session = session;
        device->stream = stream;
        take_info(device);
        if (!make_events(device))
                r = label(device, lut_dir, pages, n, ret);
        drop_events(device);
        free(device);
        return r;
}
