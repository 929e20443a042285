/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory, kernels and single operations on a device under measurement
 */
#include "lut/probe/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "lut/probe/bench_internal.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"

#define WAIT_S 60
#define SPIN_NS (2 * DS_NS_PER_MS)

/* --- memory --- */

int ds_bench_map(ds_bench *bench, uint64_t va, uint64_t size)
{
        ds_cleanup(ds_closep) int fd = -1;
        int r;

        r = bench->ops->mem_create(bench->device, size, &fd);
        if (r > 0) {
                ds_log(DS_LOG_ERROR, "%s: not enough free device memory to measure", bench->spec);
                return DS_BENCH_E_MEMORY;
        }
        if (!r)
                r = bench->ops->mem_map(bench->device, bench->space, fd, va, size);
        return ds_error_trace(r);
}

static int map_host(ds_bench *bench)
{
        int r;

        bench->host_fd = memfd_create("lut-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (bench->host_fd < 0 || ftruncate(bench->host_fd, (off_t)DS_BENCH_DATA) ||
                fcntl(bench->host_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
                return ds_error_origin(-errno);
        r = bench->ops->host_map(bench->device, bench->space, bench->host_fd, BENCH_HOST_VA, DS_BENCH_DATA);
        bench->mapped_host = !r;
        return ds_error_trace(r);
}

/* --- single operations ------------ */

static uint64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * DS_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Waits for a completion. Most arrive within about 10 us, and there are thousands. So on a device without an event
 * this polls for SPIN_NS before it sleeps. */
static int bench_step(ds_bench *bench, uint64_t begin_ns)
{
        struct pollfd p = {.fd = bench->ops->event_fd(bench->device), .events = POLLIN};
        int r = bench->ops->advance ? bench->ops->advance(bench->device, UINT64_MAX) : -EAGAIN;
        uint64_t waited_ns = now_ns() - begin_ns;

        if (r == -ETIME)
                return ds_error_origin(-ENOTRECOVERABLE);
        if (p.fd < 0 && waited_ns < SPIN_NS)
                return 0;
        if (r == -EAGAIN && poll(&p, p.fd >= 0, p.fd >= 0 ? 1000 : 1) < 0 && errno != EINTR)
                return ds_error_origin(-errno);
        if (waited_ns > WAIT_S * DS_NS_PER_S) {
                ds_log(DS_LOG_ERROR, "%s: the submitted work has not ended after %d s", bench->spec, WAIT_S);
                return ds_error_origin(-ETIMEDOUT);
        }
        return 0;
}

int ds_bench_wait(ds_bench *bench, uint64_t n, uint32_t *took)
{
        struct ds_completion c[16];
        uint64_t begin_ns = now_ns();
        size_t got;
        int r;

        for (uint64_t came = 0; came < n; came += got) {
                got = bench->ops->poll(bench->device, c, DS_ARRAY_SIZE(c));
                for (size_t i = 0; i < got; i++) {
                        if (c[i].status) {
                                ds_log(DS_LOG_ERROR, "%s: error %d: %s", bench->spec, c[i].status, c[i].message);
                                return ds_error_origin(-EIO);
                        }
                        if (took)
                                took[c[i].token] = (uint32_t)DS_MIN(c[i].end_ns - c[i].start_ns, UINT32_MAX);
                }
                r = got ? 0 : bench_step(bench, begin_ns);
                if (r)
                        return r;
        }
        return 0;
}

/* Turns the result of the submission `what` into 0 or a negative errno. Logs a refusal by the device. */
static int submitted(ds_bench *bench, int r, const char *what)
{
        if (r <= 0)
                return ds_error_trace(r);
        ds_log(DS_LOG_ERROR, "%s: error %d at %s", bench->spec, r, what);
        return ds_error_origin(-ENXIO);
}

int ds_bench_submit(ds_bench *bench, const struct ds_launch *launch, uint64_t token)
{
        return submitted(bench, bench->ops->launch(bench->device, launch, token), "a launch");
}

int ds_bench_launch(ds_bench *bench, const ds_device_kernel *kernel, uint32_t blocks, uint32_t threads,
        const void *params, uint32_t params_size, uint64_t *ret_ns)
{
        struct ds_launch launch = {
                .stream = bench->stream,
                .space = bench->space,
                .kernel = kernel,
                .grid = {blocks, 1, 1},
                .block = {threads, 1, 1},
                .params = params,
                .params_size = params_size,
                .timed = 1,
                .tell = DS_TELL_EXACT,
        };
        uint32_t took = 0;
        int r;

        r = ds_bench_submit(bench, &launch, 0);
        if (!r)
                r = ds_bench_wait(bench, 1, &took);
        if (ret_ns)
                *ret_ns = took;
        return r;
}

static int bench_copy(ds_bench *bench, enum ds_copy_kind kind, uint64_t dst, uint64_t src, size_t size)
{
        struct ds_copy copy = {
                .stream = bench->stream,
                .space = bench->space,
                .kind = kind,
                .dst = dst,
                .src = src,
                .width = size,
                .height = 1,
        };
        int r;

        r = submitted(bench, bench->ops->copy(bench->device, &copy, 0), "a copy");
        return r ? r : ds_bench_wait(bench, 1, NULL);
}

uint64_t ds_bench_data(const ds_bench *bench)
{
        return bench->data;
}

int ds_bench_write(ds_bench *bench, uint64_t at, const void *bytes, size_t size)
{
        memcpy(bench->host, bytes, size);
        return bench_copy(bench, DS_COPY_HTOD, bench->data + at, (uintptr_t)bench->host, size);
}

int ds_bench_read(ds_bench *bench, uint64_t at, void *bytes, size_t size)
{
        int r = bench_copy(bench, DS_COPY_DTOH, (uintptr_t)bench->host, bench->data + at, size);

        if (!r)
                memcpy(bytes, bench->host, size);
        return r;
}

int ds_bench_zero(ds_bench *bench, uint64_t at, size_t size)
{
        struct ds_memset memset = {
                .stream = bench->stream,
                .space = bench->space,
                .dst = bench->data + at,
                .element_size = 4,
                .width = size / 4,
                .height = 1,
        };
        int r;

        r = submitted(bench, bench->ops->memset(bench->device, &memset, 0), "a memset");
        return r ? r : ds_bench_wait(bench, 1, NULL);
}

/* --- kernels --- */

int ds_bench_load_image(ds_bench *bench, const void *image, size_t size, const char *name, const ds_device_kernel **ret)
{
        ds_device_module **module = &bench->modules[bench->n_modules];
        char log[1024] = "";
        int r;

        if (bench->n_modules == DS_ARRAY_SIZE(bench->modules))
                return ds_error_origin(-ENOSPC);
        r = bench->ops->module_load(bench->device, bench->space, image, size, log, sizeof(log), module);
        if (r) {
                ds_log(DS_LOG_ERROR, "%s: loading %s failed (%d): %s", bench->spec, name, r, log);
                return ds_error_origin(r < 0 ? r : -ENOEXEC);
        }
        bench->n_modules++;
        *ret = bench->ops->kernel_find(*module, name);
        if (!*ret)
                return ds_error_origin(-ENOENT);
        if (bench->ops->kernel_loaded && !bench->ops->kernel_loaded(*ret))
                r = submitted(bench, bench->ops->kernel_load(bench->device, *ret), "a kernel that is loaded");
        return r;
}

uint64_t ds_bench_mix(uint64_t x)
{
        x += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 (Steele et al.) */
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

uint64_t ds_bench_line(const ds_bench *bench, uint64_t *seed)
{
        uint64_t x = ds_bench_mix((*seed)++);

        return bench->pages[x % bench->n_pages] +
               (ds_bench_mix(x) & ((UINT64_C(1) << BENCH_PAGE_BITS) - 1) & ~(uint64_t)(bench->width - 1));
}

/* --- open, close --- */

ds_bench *ds_bench_close(ds_bench *bench)
{
        if (!bench)
                return NULL;
        while (bench->n_modules)
                bench->ops->module_unload(bench->device, bench->modules[--bench->n_modules]);
        if (bench->mapped_host)
                bench->ops->host_unmap(bench->device, bench->space, BENCH_HOST_VA, DS_BENCH_DATA);
        if (bench->mapped_data)
                bench->ops->mem_unmap(bench->device, bench->space, BENCH_DATA_VA, DS_BENCH_DATA);
        if (bench->device && bench->owns)
                bench->ops->close(bench->device);
        ds_close(bench->host_fd);
        ds_free(bench->own_pages);
        return ds_free(bench);
}

/* Maps memory for the bench's data if the caller of ds_bench_over() provided none. */
static int map_own(ds_bench *bench)
{
        int r = ds_bench_map(bench, BENCH_DATA_VA, DS_BENCH_DATA);

        bench->mapped_data = !r;
        if (!r)
                r = map_host(bench);
        bench->data = BENCH_DATA_VA;
        bench->host = (void *)(uintptr_t)BENCH_HOST_VA;
        return ds_error_trace(r);
}

int ds_bench_furnish(ds_bench *bench, bool launches)
{
        int r = bench->data ? 0 : map_own(bench);

        if (!r)
                r = ds_bench_meter_init(bench, launches);
        return ds_error_trace(r);
}

ds_bench *ds_bench_new(void)
{
        ds_bench *bench = ds_alloc0(1, sizeof(*bench));

        if (bench)
                bench->host_fd = -1;
        return bench;
}

int ds_bench_over(const struct ds_bench_site *site, const uint64_t *pages, size_t n_pages, ds_bench **ret)
{
        ds_cleanup(ds_bench_closep) ds_bench *bench = ds_bench_new();
        int r;

        if (!bench)
                return ds_error_origin(-ENOMEM);
        bench->ops = site->ops;
        bench->device = site->device;
        bench->info = site->ops->info(site->device);
        bench->spec = bench->info->model;
        bench->stream = site->stream;
        bench->space = site->space;
        bench->data = site->data;
        bench->host = site->host;
        bench->takes_text = site->takes_text;
        bench->pages = pages;
        bench->n_pages = n_pages;
        r = ds_bench_furnish(bench, false);
        if (!r)
                *ret = DS_TAKE_PTR(bench);
        return r;
}

const struct ds_device_info *ds_bench_info(const ds_bench *bench)
{
        return bench->info;
}

const uint64_t *ds_bench_pages(const ds_bench *bench)
{
        return bench->pages;
}
