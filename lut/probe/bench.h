/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device to measure on: opened through the device vtable, with pages of its memory mapped and the kernels loaded
 *
 * Times are of two sorts. On a GPU a launch makes thousands of comparisons, one after the other, all SMs meeting before
 * each, timed by the SMs' own clocks: microseconds each. Where clocks do not see contention (a simulated device
 * executes a kernel before its time is played) each comparison is a launch, timed by the device. The device says which
 * it is; nothing else is different. How much is read for one comparison is tuned: as little as keeps the two kinds
 * apart.
 *
 * All waits have a deadline; a kernel whose blocks wait for each other gives up by itself.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "lut/probe/meter.h"

#define DS_PROBE_E_NO_IMAGE 4 /* contract: no machine code for this GPU: ptxas is not there, or failed */
#define DS_BENCH_E_MEMORY 5   /* contract: the device has no memory left for it */

typedef struct ds_bench ds_bench;

struct ds_bench_ask {
        const char *device; /* "sim:p40", "cuda:0" */
        size_t n_pages;     /* of 2 MiB */
        uint64_t seed;      /* pages of a simulated device lie at random in 2^spread_bits bytes */
        uint32_t spread_bits;
        uint64_t base; /* where they begin; 0: somewhere */
        bool launches; /* a comparison is a launch also where the GPU could do better */
};

/* 0, DS_PROBE_E_NO_IMAGE, DS_BENCH_E_MEMORY, or a negative errno (-ENODEV: it has been said why). */
int ds_bench_open(const struct ds_bench_ask *ask, ds_bench **ret);
/*
 * On a device that is somebody's, where nothing is in flight and nothing comes meanwhile: a stream of it, and pages
 * that are mapped in a space, clear, and stay (n addresses, not copied). data: DS_BENCH_DATA bytes of device memory
 * for it, and host as many that its copies take; 0: it maps memory of its own in that space, from DS_BENCH_OWN_VA on,
 * until it is closed. takes_text: module_load compiles PTX. Of ops it needs info, launch, copy, memset, poll,
 * event_fd, module_load, module_unload, kernel_find and kernel_info; advance and kernel_loaded may be NULL.
 */
#define DS_BENCH_OWN_VA UINT64_C(0x320000000000)
struct ds_bench_site {
        const struct ds_device_ops *ops;
        ds_device *device;
        uint32_t stream, space;
        uint64_t data;
        void *host;
        bool takes_text;
};
/* As ds_bench_open. */
int ds_bench_over(const struct ds_bench_site *site, const uint64_t *pages, size_t n_pages, ds_bench **ret);
ds_bench *ds_bench_close(ds_bench *bench);

const struct ds_device_info *ds_bench_info(const ds_bench *bench);
/* The pages' addresses; they are clear, and nobody writes them. */
const uint64_t *ds_bench_pages(const ds_bench *bench);
/* How this device compares. Times of one tuning are comparable with each other. */
void ds_bench_meter(ds_bench *bench, struct ds_probe_meter *ret);
/*
 * The least work that keeps the kinds apart, found with random pairs of the pages. 0, DS_PROBE_E_ONE_KIND (none does),
 * or a negative errno.
 */
int ds_bench_tune(ds_bench *bench, uint64_t seed);
/* Reads per warp and comparison, for people. */
uint32_t ds_bench_loads(const ds_bench *bench);

/* --- for other kernels than the comparisons' --- */

#define DS_BENCH_BUILT_FOR 90u /* compute capability of the machine code that the build brings */

struct ds_bench_code {
        const char *name; /* the kernel's */
        const char *ptx;  /* NUL-terminated */
        size_t ptx_size;  /* without its end */
        const void *cubin;
        size_t cubin_size; /* 0: there was no assembler */
};

/* Compiled where the device takes machine code only. 0, DS_PROBE_E_NO_IMAGE, or a negative errno. */
int ds_bench_load(ds_bench *bench, const struct ds_bench_code *code, const ds_device_kernel **ret);
/* One launch, to its end. 0 or a negative errno. ret_ns, when not NULL: how long it took on the device. */
int ds_bench_launch(ds_bench *bench, const ds_device_kernel *kernel, uint32_t blocks, uint32_t threads,
        const void *params, uint32_t params_size, uint64_t *ret_ns);
/* Device memory of its own, DS_BENCH_DATA bytes, and how it is filled and read; `at` and size in bytes. */
#define DS_BENCH_DATA (UINT64_C(16) << 20)
uint64_t ds_bench_data(const ds_bench *bench);
int ds_bench_write(ds_bench *bench, uint64_t at, const void *bytes, size_t size);
int ds_bench_read(ds_bench *bench, uint64_t at, void *bytes, size_t size);

static inline void ds_bench_closep(ds_bench **p)
{
        *p = ds_bench_close(*p);
}
