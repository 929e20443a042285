/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the bench: bench.c (the device), bench_open.c (opening a device for it), meter.c (comparisons), image.c
 * (machine code)
 */
#pragma once

#include "lut/probe/bench.h"

#define BENCH_SPACE 1u
#define BENCH_PAGE_BITS 21u
#define BENCH_PAGES_VA UINT64_C(0x300000000000)
#define BENCH_DATA_VA DS_BENCH_OWN_VA
#define BENCH_HOST_VA (DS_BENCH_OWN_VA + DS_BENCH_DATA)
#define BENCH_MODULES 4u

struct ds_bench {
        const struct ds_device_ops *ops;
        const char *spec;
        ds_device *device;
        const struct ds_device_info *info;
        bool owns;       /* 1: the bench owns the device and the pages, and frees them */
        bool takes_text; /* modules may be PTX */
        bool mapped_data, mapped_host;
        uint32_t stream, space;
        uint64_t base, data; /* address of the pages; address of the bench's data, 0: not mapped yet */
        void *host;
        const uint64_t *pages;
        uint64_t *own_pages;
        size_t n_pages;
        int host_fd;
        ds_device_module *modules[BENCH_MODULES];
        uint32_t n_modules;
        bool by_launch; /* one launch per comparison */
        const ds_device_kernel *once, *rounds;
        uint32_t blocks, loads; /* blocks of a comparison, and reads per warp */
        uint32_t width;         /* bytes of one channel that a line stands for */
};

ds_bench *ds_bench_new(void);
/* Maps a new slab at an address of the space. 0, DS_BENCH_E_MEMORY, or a negative errno. */
int ds_bench_map(ds_bench *bench, uint64_t va, uint64_t size);
/* Prepares the bench: maps its data if needed and loads its kernels. Returns 0, DS_PROBE_E_NO_IMAGE, or a negative
 * errno. */
int ds_bench_furnish(ds_bench *bench, bool launches);
/* A bijection that maps consecutive numbers to random-looking ones. */
uint64_t ds_bench_mix(uint64_t x);
/* Waits for n completions. took, if not NULL: took[token] becomes the duration on the device, ns. Returns 0 or a
 * negative errno. */
int ds_bench_wait(ds_bench *bench, uint64_t n, uint32_t *took);
int ds_bench_submit(ds_bench *bench, const struct ds_launch *launch, uint64_t token);
int ds_bench_zero(ds_bench *bench, uint64_t at, size_t size);
int ds_bench_load_image(
        ds_bench *bench, const void *image, size_t size, const char *name, const ds_device_kernel **ret);
int ds_bench_meter_init(ds_bench *bench, bool launches);
/* Address of a random line in the bench's pages. */
uint64_t ds_bench_line(const ds_bench *bench, uint64_t *seed);
