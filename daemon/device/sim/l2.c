/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents of L2 when a kernel begins
 *
 * probe.c knows what a launch does to an empty L2. Whether L2 still holds part of its memory depends on the work that
 * ran before, in virtual time. So the device keeps a counter of bytes brought into L2. For each piece of memory it
 * keeps the counter's value at the end of the last kernel that touched the piece. L2 holds the piece if the bytes that
 * came in since then and the kernel's own memory fit into L2 together. Replacement is no perfect queue, so the limit is
 * soft: a piece is wholly there up to 3/4 of L2, and gone from 5/4 on. For a launch that uses only some channels, all
 * of this counts its channels only.
 *
 * Limits: only begins and ends count, so two concurrent kernels find each other's memory only when they begin again. A
 * piece has one time, not one per line. Only bytes change, latencies do not.
 */
#include "device/sim/internal.h"
#include "util/alloc.h"
#include "util/error.h"

int sim_l2_init(ds_device *device)
{
        device->l2.entries = ds_alloc0(SIM_L2_ENTRIES, sizeof(*device->l2.entries));
        return device->l2.entries ? 0 : ds_error_origin(-ENOMEM);
}

void sim_l2_deinit(ds_device *device)
{
        device->l2.entries = ds_free(device->l2.entries);
}

/* Counter of bytes that came into the part of L2 that the launch uses; *ret_size: bytes of that part. */
static uint64_t l2_filled(const ds_device *device, const struct sim_traffic *traffic, uint64_t *ret_size)
{
        const struct sim_l2 *l2 = &device->l2;
        uint64_t n = device->model->channels.n, used = 0, filled = 0;

        for (uint32_t c = 0; c < n; c++) {
                if (traffic->uneven && !traffic->shares[c])
                        continue;
                used++;
                filled += l2->channel_filled[c];
        }
        *ret_size = device->model->l2_bytes * used / n;
        return filled + l2->filled / n * used;
}

static struct sim_l2_entry *l2_entry(const ds_device *device, uint64_t key)
{
        uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);

        return &device->l2.entries[hash >> 32 & (SIM_L2_ENTRIES - 1)];
}

/* Share of a piece that L2 still holds, in 1024ths; since: bytes that came into L2 after the piece was last used. */
static uint64_t l2_kept(uint64_t size, uint64_t since)
{
        if (since <= size - size / 4)
                return SIM_LOAD_ONE;
        if (since >= size + size / 4)
                return 0;
        return (size + size / 4 - since) * SIM_LOAD_ONE / (size / 2);
}

void sim_l2_begin(ds_device *device, struct sim_job *job)
{
        struct sim_traffic *traffic = &job->traffic;
        uint64_t size, filled, there = 0, missing;
        const struct sim_l2_entry *entry;

        if (!traffic->n_granules || !traffic->touched)
                return;
        filled = l2_filled(device, traffic, &size);
        for (uint32_t i = 0; i < traffic->n_granules; i++) {
                entry = l2_entry(device, traffic->granules[i].key);
                if (entry->key != traffic->granules[i].key)
                        continue;
                there += traffic->granules[i].bytes * l2_kept(size, filled - entry->filled + traffic->touched);
        }
        there = DS_MIN(there / traffic->touched, SIM_LOAD_ONE);
        missing = SIM_LOAD_ONE - there;
        traffic->fill = (uint32_t)(traffic->fill * missing / SIM_LOAD_ONE);
        traffic->vram = (uint32_t)(traffic->vram * missing / SIM_LOAD_ONE);
}

void sim_l2_end(ds_device *device, const struct sim_job *job)
{
        const struct sim_traffic *traffic = &job->traffic;
        uint64_t size, filled;

        if (!traffic->n_granules)
                return;
        filled = l2_filled(device, traffic, &size);
        for (uint32_t i = 0; i < traffic->n_granules; i++)
                *l2_entry(device, traffic->granules[i].key) =
                        (struct sim_l2_entry){.key = traffic->granules[i].key, .filled = filled};
}

void sim_l2_fill(ds_device *device, const struct sim_job *job, uint64_t bytes)
{
        const struct sim_traffic *traffic = &job->traffic;

        if (!traffic->uneven) {
                device->l2.filled += bytes;
                return;
        }
        for (uint32_t c = 0; c < device->model->channels.n; c++)
                device->l2.channel_filled[c] += bytes * traffic->shares[c] / SIM_LOAD_ONE;
}
