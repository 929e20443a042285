/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device for measurements: opened through the device vtable, with mapped pages and loaded kernels
 *
 * There are two ways to time comparisons. On a GPU one launch makes thousands of comparisons in sequence. All SMs
 * synchronise before each, and their own clocks time it: microseconds each. If clocks do not show contention (a
 * simulated device executes a kernel before it plays its time), each comparison is a launch, timed by the device. The
 * device says which way applies; nothing else differs. The amount of reading per comparison is tuned to the smallest
 * that still separates the two kinds of times.
 *
 * All waits have a deadline; a kernel whose blocks wait for each other gives up by itself.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "lut/probe/meter.h"

#define DS_PROBE_E_NO_IMAGE 4 /* contract: no machine code for this GPU: ptxas is missing or failed */
#define DS_BENCH_E_MEMORY 5   /* contract: the device has not enough free memory */

typedef struct ds_bench ds_bench;

struct ds_bench_ask {
        const char *device; /* like "sim:p40" or "cuda:0" */
        size_t n_pages;     /* pages of 2 MiB */
        /* seed of a simulated device: its pages lie at random addresses within 2^spread_bits bytes */
        uint64_t seed;
        uint32_t spread_bits;
        uint64_t base; /* virtual address of the pages; 0: any */
        bool launches; /* 1: one launch per comparison, even on a GPU */
};

/* Opens a device by name, with pages of its own. Returns 0, DS_PROBE_E_NO_IMAGE, DS_BENCH_E_MEMORY, or a negative
 * errno (-ENODEV: the reason was printed). */
int ds_bench_open(const struct ds_bench_ask *ask, ds_bench **ret);
/*
 * For a device that the caller owns, with no other work during the measurement: one of its streams, and pages that are
 * mapped in a space, zeroed, and stay mapped (n addresses, not copied). data: DS_BENCH_DATA bytes of device memory for
 * the bench, and host: as many bytes for its copies; 0: it maps memory of its own in that space, from DS_BENCH_OWN_VA
 * on, until it is closed. takes_text: module_load accepts PTX. Of ops it needs info, launch, copy, memset, poll,
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
/* Makes a bench on the caller's device. Returns the same results as ds_bench_open(). */
int ds_bench_over(const struct ds_bench_site *site, const uint64_t *pages, size_t n_pages, ds_bench **ret);
ds_bench *ds_bench_close(ds_bench *bench);

const struct ds_device_info *ds_bench_info(const ds_bench *bench);
/* Addresses of the pages; they are zeroed, and nothing writes to them. */
const uint64_t *ds_bench_pages(const ds_bench *bench);
/* The device's comparison functions. Times are comparable with each other until the next tuning. */
void ds_bench_meter(ds_bench *bench, struct ds_probe_meter *ret);
/*
 * Finds the least work per comparison that separates the two kinds of times, with random pairs of lines. Returns 0;
 * DS_PROBE_E_ONE_KIND: no amount of work separates them; or a negative errno.
 */
int ds_bench_tune(ds_bench *bench, uint64_t seed);
/* Reads per warp in one comparison, for display. */
uint32_t ds_bench_loads(const ds_bench *bench);

/* --- other kernels ----------------------------- */

#define DS_BENCH_BUILT_FOR 90u /* compute capability of the machine code that the build provides */

struct ds_bench_code {
        const char *name; /* name of the kernel */
        const char *ptx;  /* NUL-terminated */
        size_t ptx_size;  /* without the terminating NUL */
        const void *cubin;
        size_t cubin_size; /* size of the cubin, bytes; 0: built without an assembler */
};

/* Loads a kernel; compiles it first if the device accepts only machine code. Returns 0, DS_PROBE_E_NO_IMAGE, or a
 * negative errno. */
int ds_bench_load(ds_bench *bench, const struct ds_bench_code *code, const ds_device_kernel **ret);
/* Launches the kernel and waits for its end. 0 or a negative errno. ret_ns, if not NULL: its duration on the device. */
int ds_bench_launch(ds_bench *bench, const ds_device_kernel *kernel, uint32_t blocks, uint32_t threads,
        const void *params, uint32_t params_size, uint64_t *ret_ns);
/* Writes and reads the bench's own device memory of DS_BENCH_DATA bytes; `at` and size in bytes. */
#define DS_BENCH_DATA (UINT64_C(16) << 20)
uint64_t ds_bench_data(const ds_bench *bench);
int ds_bench_write(ds_bench *bench, uint64_t at, const void *bytes, size_t size);
int ds_bench_read(ds_bench *bench, uint64_t at, void *bytes, size_t size);

static inline void ds_bench_closep(ds_bench **p)
{
        *p = ds_bench_close(*p);
}
