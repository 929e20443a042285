/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a device by name for measurements, with all of its SMs and pages of its memory
 */
#include <errno.h>

#include "lut/probe/bench_internal.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"

/* Maps the pages at random addresses, because a simulated device hashes the virtual address. */
static int map_scattered(ds_bench *bench, const struct ds_bench_ask *ask)
{
        uint64_t slots = (UINT64_C(1) << ask->spread_bits) >> BENCH_PAGE_BITS;
        int r;

        for (size_t n = 0, tries = 0; n < ask->n_pages; tries++) {
                uint64_t va = bench->base + (ds_bench_mix(ask->seed ^ ds_bench_mix(tries)) % slots << BENCH_PAGE_BITS);
                bool there = false;

                if (tries > 64 * ask->n_pages + 1024)
                        return ds_error_origin(-ENOSPC);
                for (size_t i = 0; i < n && !there; i++)
                        there = bench->own_pages[i] == va;
                if (there)
                        continue;
                r = ds_bench_map(bench, va, UINT64_C(1) << BENCH_PAGE_BITS);
                if (r)
                        return r;
                bench->own_pages[n++] = va;
        }
        return 0;
}

static int map_pages(ds_bench *bench, const struct ds_bench_ask *ask)
{
        bench->own_pages = ds_alloc0(DS_MAX(ask->n_pages, 1u), sizeof(*bench->own_pages));
        if (!bench->own_pages)
                return ds_error_origin(-ENOMEM);
        bench->pages = bench->own_pages;
        bench->n_pages = ask->n_pages;
        bench->base = ask->base ? ask->base : BENCH_PAGES_VA;
        if (bench->info->simulated && ask->spread_bits)
                return map_scattered(bench, ask);
        for (size_t i = 0; i < ask->n_pages; i++)
                bench->own_pages[i] = bench->base + ((uint64_t)i << BENCH_PAGE_BITS);
        return ds_bench_map(bench, bench->base, (uint64_t)ask->n_pages << BENCH_PAGE_BITS);
}

static int open_device(ds_bench *bench, const struct ds_bench_ask *ask)
{
        struct ds_tpc_mask all = {};
        uint32_t rung;
        const char *rest;
        int r;

        bench->spec = ask->device;
        bench->space = BENCH_SPACE;
        bench->ops = ds_device_find(ask->device, &rest);
        if (!bench->ops) {
                ds_log(DS_LOG_ERROR, "%s: no such device; sim:MODEL and cuda:N are accepted", ask->device);
                return ds_error_origin(-ENODEV);
        }
        r = bench->ops->open(rest, &bench->device);
        if (r)
                return ds_error_trace(r);
        bench->info = bench->ops->info(bench->device);
        for (uint32_t i = 0; i < bench->info->n_tpcs; i++)
                all.word[i / 64] |= UINT64_C(1) << i % 64;
        r = bench->ops->rung_create(bench->device, &all, &rung);
        if (r)
                return ds_error_trace(r);
        bench->stream = ds_device_stream(rung, 0, 0);
        return ds_error_trace(bench->ops->space_add(bench->device, bench->space));
}

int ds_bench_open(const struct ds_bench_ask *ask, ds_bench **ret)
{
        ds_cleanup(ds_bench_closep) ds_bench *bench = ds_bench_new();
        int r;

        if (!bench)
                return ds_error_origin(-ENOMEM);
        bench->owns = true;
        r = open_device(bench, ask);
        if (!r)
                r = map_pages(bench, ask);
        if (!r)
                r = ds_bench_furnish(bench, ask->launches);
        if (!r)
                *ret = DS_TAKE_PTR(bench);
        return r;
}
