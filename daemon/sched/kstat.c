/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel statistics: a chained hash table over an array of rows, and the occupancy rule
 *
 * Rows are an array that doubles, buckets an array of row numbers that doubles with it. Order of use is a list through
 * the rows, so that finding the row to give up costs nothing.
 */
#include "sched/kstat.h"

#include <assert.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define KSTAT_ROWS_FIRST 256u
#define KSTAT_MEAN_WEIGHT 32u

/* CUdevice_attribute numbers */
#define ATTR_THREADS_PER_SM 39
#define ATTR_SHARED_PER_SM 81
#define ATTR_REGISTERS_PER_SM 82
#define ATTR_BLOCKS_PER_SM 106
#define ATTR_RESERVED_SHARED_PER_BLOCK 111

#define WARP 32u
#define WARP_REGISTERS_UNIT 256u /* registers are given to a warp in units of this */
#define WARP_SLOTS_UNIT 4u       /* one per sub-partition of an SM */
#define SHARED_UNIT 128u

struct ds_kstat {
        struct ds_kstat_row *rows;
        uint32_t *buckets; /* n_rows of them */
        uint32_t n_rows, n_used, max_rows;
        uint32_t newest, oldest;
};

uint64_t ds_kstat_mix(uint64_t a, uint64_t b)
{
        __uint128_t product = (__uint128_t)(a ^ 0x9e3779b97f4a7c15ULL) * (b ^ 0xd6e8feb86659fd93ULL);

        return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint32_t *kstat_bucket(ds_kstat *table, uint64_t key)
{
        return &table->buckets[ds_kstat_mix(key, 1) & (table->n_rows - 1)];
}

static int kstat_resize(ds_kstat *table, uint32_t n_rows)
{
        struct ds_kstat_row *rows;
        uint32_t *buckets;

        buckets = ds_alloc0(n_rows, sizeof(*buckets));
        if (!buckets)
                return -ENOMEM;
        rows = ds_realloc(table->rows, n_rows, sizeof(*rows));
        if (!rows) {
                ds_free(buckets);
                return -ENOMEM;
        }
        ds_free(table->buckets);
        table->rows = rows;
        table->buckets = buckets;
        table->n_rows = n_rows;
        for (uint32_t i = 0; i < n_rows; i++)
                buckets[i] = DS_KSTAT_NONE;
        for (uint32_t i = 0; i < table->n_used; i++) {
                uint32_t *bucket = kstat_bucket(table, rows[i].key);

                rows[i].chain = *bucket;
                *bucket = i;
        }
        return 0;
}

int ds_kstat_new(uint32_t max_rows, ds_kstat **ret)
{
        ds_kstat *table;

        assert(max_rows && max_rows <= DS_KSTAT_ROWS_MAX && !(max_rows & (max_rows - 1)));
        table = ds_alloc0(1, sizeof(*table));
        if (!table)
                return ds_error_origin(-ENOMEM);
        table->max_rows = max_rows;
        table->newest = table->oldest = DS_KSTAT_NONE;
        if (kstat_resize(table, DS_MIN(max_rows, KSTAT_ROWS_FIRST))) {
                ds_kstat_free(table);
                return ds_error_origin(-ENOMEM);
        }
        *ret = table;
        return 0;
}

ds_kstat *ds_kstat_free(ds_kstat *table)
{
        if (!table)
                return NULL;
        ds_free(table->rows);
        ds_free(table->buckets);
        return ds_free(table);
}

uint32_t ds_kstat_count(const ds_kstat *table)
{
        return table->n_used;
}

static void kstat_unlink_use(ds_kstat *table, uint32_t i)
{
        struct ds_kstat_row *row = &table->rows[i];

        if (row->newer != DS_KSTAT_NONE)
                table->rows[row->newer].older = row->older;
        else
                table->newest = row->older;
        if (row->older != DS_KSTAT_NONE)
                table->rows[row->older].newer = row->newer;
        else
                table->oldest = row->newer;
}

static void kstat_link_newest(ds_kstat *table, uint32_t i)
{
        struct ds_kstat_row *row = &table->rows[i];

        row->newer = DS_KSTAT_NONE;
        row->older = table->newest;
        if (table->newest != DS_KSTAT_NONE)
                table->rows[table->newest].newer = i;
        else
                table->oldest = i;
        table->newest = i;
}

/* Takes the row out of its bucket and out of the order of use. */
static uint32_t kstat_evict_oldest(ds_kstat *table)
{
        uint32_t i = table->oldest;
        uint32_t *link = kstat_bucket(table, table->rows[i].key);

        while (*link != i) {
                assert(*link != DS_KSTAT_NONE);
                link = &table->rows[*link].chain;
        }
        *link = table->rows[i].chain;
        kstat_unlink_use(table, i);
        return i;
}

static uint32_t kstat_take_row(ds_kstat *table)
{
        if (table->n_used == table->n_rows) {
                if (table->n_rows == table->max_rows)
                        return kstat_evict_oldest(table);
                /* short of memory, the table stays as large as it is */
                if (kstat_resize(table, table->n_rows * 2))
                        return kstat_evict_oldest(table);
        }
        return table->n_used++;
}

uint32_t ds_kstat_touch(ds_kstat *table, uint64_t key)
{
        uint32_t *bucket = kstat_bucket(table, key);
        uint32_t i;

        for (i = *bucket; i != DS_KSTAT_NONE; i = table->rows[i].chain) {
                if (table->rows[i].key != key)
                        continue;
                if (table->newest != i) {
                        kstat_unlink_use(table, i);
                        kstat_link_newest(table, i);
                }
                return i;
        }
        i = kstat_take_row(table);
        bucket = kstat_bucket(table, key);
        table->rows[i] = (struct ds_kstat_row){.key = key, .chain = *bucket};
        *bucket = i;
        kstat_link_newest(table, i);
        return i;
}

struct ds_kstat_row *ds_kstat_at(ds_kstat *table, uint32_t row, uint64_t key)
{
        if (row >= table->n_used || table->rows[row].key != key)
                return NULL;
        return &table->rows[row];
}

void ds_kstat_sample(struct ds_kstat_row *row, uint64_t duration_ns)
{
        uint32_t weight;
        int64_t difference = (int64_t)(duration_ns - row->mean_ns);

        if (row->samples < UINT32_MAX)
                row->samples++;
        weight = DS_MIN(row->samples, KSTAT_MEAN_WEIGHT);
        row->mean_ns += (uint64_t)(difference / (int64_t)weight);
}

static uint64_t kstat_attribute(const struct ds_device_info *device, int attribute)
{
        int32_t value = device->attributes[attribute];

        return value > 0 ? (uint64_t)value : 0;
}

uint32_t ds_kstat_blocks_per_sm(const struct ds_device_info *device, const struct ds_kernel_info *kernel,
        uint32_t threads, uint32_t dynamic_shared)
{
        uint64_t blocks = kstat_attribute(device, ATTR_BLOCKS_PER_SM);
        uint64_t warps = DS_MAX(DS_DIV_UP((uint64_t)threads, WARP), 1);
        uint64_t limit, unit;

        if (!blocks)
                blocks = 32;
        limit = kstat_attribute(device, ATTR_THREADS_PER_SM);
        if (limit)
                blocks = DS_MIN(blocks, limit / (warps * WARP));
        limit = kstat_attribute(device, ATTR_REGISTERS_PER_SM);
        if (limit && kernel->registers) {
                unit = DS_ALIGN_UP((uint64_t)kernel->registers * WARP, WARP_REGISTERS_UNIT);
                blocks = DS_MIN(blocks, (limit / unit) / WARP_SLOTS_UNIT * WARP_SLOTS_UNIT / warps);
        }
        limit = kstat_attribute(device, ATTR_SHARED_PER_SM);
        unit = (uint64_t)kernel->static_shared + dynamic_shared +
               kstat_attribute(device, ATTR_RESERVED_SHARED_PER_BLOCK);
        unit = DS_ALIGN_UP(unit, SHARED_UNIT);
        if (limit && unit)
                blocks = DS_MIN(blocks, limit / unit);
        return (uint32_t)blocks;
}
