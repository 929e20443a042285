/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel statistics: what the scheduler has learnt about each kernel and launch shape
 *
 * A row per key holds the running mean of the durations seen, how many blocks one SM holds at once, and what a profile
 * said about the kernel's bound. Rows are found by a 64-bit key; two shapes that collide would share a row, which costs
 * a wrong guess and nothing else. The table is bounded: when it is full the row not looked up for longest makes room.
 * A row's number stays valid memory for ever, but may come to belong to another key; ds_kstat_at() tells.
 */
#pragma once

#include <stdint.h>

#include "device/device.h"

typedef struct ds_kstat ds_kstat;

#define DS_KSTAT_ROWS_MAX 65536u
#define DS_KSTAT_NONE UINT32_MAX

struct ds_kstat_row {
        uint64_t key;
        uint64_t mean_ns;
        uint32_t samples;       /* saturating */
        uint32_t blocks_per_sm; /* 0 = not computed yet */
        uint32_t bound;         /* enum detshare_kernel_bound */
        uint32_t seen;          /* 1: who keeps profiles is told of it, see seen.h */
        uint32_t chain;         /* next row of the same hash bucket */
        uint32_t newer, older;  /* order of use */
};

/* max_rows: a power of two, at most DS_KSTAT_ROWS_MAX. -ENOMEM. */
int ds_kstat_new(uint32_t max_rows, ds_kstat **ret);
ds_kstat *ds_kstat_free(ds_kstat *table);
/* The row of the key, made if need be (short of memory, in place of the oldest) and marked as used now. */
uint32_t ds_kstat_touch(ds_kstat *table, uint64_t key);
/* The row if it still belongs to the key, else NULL. The pointer is good until the next touch. */
struct ds_kstat_row *ds_kstat_at(ds_kstat *table, uint32_t row, uint64_t key);
uint32_t ds_kstat_count(const ds_kstat *table);
/* One more duration. The mean forgets: a sample weighs 1/32 at least, so it follows a kernel whose data change. */
void ds_kstat_sample(struct ds_kstat_row *row, uint64_t duration_ns);

/*
 * Blocks of this shape that one SM holds at once, from the device's attributes and the kernel's registers and shared
 * memory; 0 when one block alone does not fit. Attributes that the device does not know do not limit.
 */
uint32_t ds_kstat_blocks_per_sm(const struct ds_device_info *device, const struct ds_kernel_info *kernel,
        uint32_t threads, uint32_t dynamic_shared);

/* A good mix of two words, for keys. */
uint64_t ds_kstat_mix(uint64_t a, uint64_t b);
