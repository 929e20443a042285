/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel statistics: a chained hash table over an array of rows, and the occupancy rule
 *
 * Rows and buckets are arrays that double together. A list through the rows keeps their order of use, so the row to
 * replace is found at once. Points are in chunks that are allocated one after another. At the bound, a clock algorithm
 * chooses the points to replace: points with a sample since the last pass are spared once.
 */
#include "sched/kstat.h"

#include <assert.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define KSTAT_ROWS_FIRST 256u
#define KSTAT_MEAN_WEIGHT 32u
#define KSTAT_CHUNK 64u
#define KSTAT_CHUNKS (DS_KSTAT_POINTS_MAX / KSTAT_CHUNK)
#define KSTAT_CHANGED_EVERY 64u
#define KSTAT_OFF 2           /* consecutive deviating samples after which a point restarts */
#define KSTAT_DOUBT_EVERY 32u /* launches of a kernel between two requests to measure a doubtful point */

/* Numbers of CUDA device attributes (CUdevice_attribute) */
#define ATTR_THREADS_PER_SM 39
#define ATTR_SHARED_PER_SM 81
#define ATTR_REGISTERS_PER_SM 82
#define ATTR_BLOCKS_PER_SM 106
#define ATTR_RESERVED_SHARED_PER_BLOCK 111

#define WARP 32u
#define WARP_REGISTERS_UNIT 256u /* registers are allocated to a warp in multiples of this */
/* warps of a block are rounded up to a multiple of this: one per sub-partition of an SM */
#define WARP_SLOTS_UNIT 4u
#define SHARED_UNIT 128u

_Static_assert(sizeof(struct ds_kstat_row) == 40, "there may be 65,536 of them");
_Static_assert(DS_KSTAT_POINTS_MAX < UINT16_MAX, "a row holds the number of its points");

struct ds_kstat {
        struct ds_kstat_row *rows;
        uint32_t *buckets; /* n_rows heads of chains of rows */
        uint32_t n_rows, n_used, max_rows;
        uint32_t newest, oldest;
        struct ds_kstat_points *chunks[KSTAT_CHUNKS];
        uint32_t n_points, points_hand; /* points created so far; position of the clock algorithm among them */
        uint32_t n_changed, changed_hand;
        uint64_t taken;
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
        for (uint32_t i = 0; i < KSTAT_CHUNKS; i++)
                ds_free(table->chunks[i]);
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

static struct ds_kstat_points *points_at(const ds_kstat *table, uint32_t i)
{
        return &table->chunks[i / KSTAT_CHUNK][i % KSTAT_CHUNK];
}

/* Frees the row's points. */
static void points_release(ds_kstat *table, struct ds_kstat_row *row)
{
        struct ds_kstat_points *points;

        if (!row->points)
                return;
        points = points_at(table, row->points - 1u);
        table->n_changed -= points->changed;
        *points = (struct ds_kstat_points){.row = DS_KSTAT_NONE};
        row->points = 0;
        table->taken++;
}

/* Removes the least recently used row from its bucket and from the order of use. */
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
        points_release(table, &table->rows[i]);
        return i;
}

static uint32_t kstat_take_row(ds_kstat *table)
{
        if (table->n_used == table->n_rows) {
                if (table->n_rows == table->max_rows)
                        return kstat_evict_oldest(table);
                /* without memory for a larger table, the oldest row is replaced */
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

uint32_t ds_kstat_find(ds_kstat *table, uint64_t key)
{
        uint32_t i = *kstat_bucket(table, key);

        while (i != DS_KSTAT_NONE && table->rows[i].key != key)
                i = table->rows[i].chain;
        return i;
}

struct ds_kstat_row *ds_kstat_at(ds_kstat *table, uint32_t row, uint64_t key)
{
        if (row >= table->n_used || table->rows[row].key != key)
                return NULL;
        return &table->rows[row];
}

static void mean_add(uint32_t *samples, uint64_t *mean_ns, uint64_t duration_ns)
{
        int64_t difference = (int64_t)(duration_ns - *mean_ns);

        if (*samples < UINT32_MAX)
                ++*samples;
        *mean_ns += (uint64_t)(difference / (int64_t)DS_MIN(*samples, KSTAT_MEAN_WEIGHT));
}

void ds_kstat_sample(struct ds_kstat_row *row, uint64_t duration_ns)
{
        mean_add(&row->samples, &row->mean_ns, duration_ns);
}

/* --- points ------------------------------------------------------------------------------------------------------- */

/* Takes a free place for points, or one whose points have no recent sample. Returns its index, or DS_KSTAT_NONE. */
static uint32_t points_take(ds_kstat *table)
{
        uint32_t chunk = table->n_points / KSTAT_CHUNK;

        if (table->n_points < DS_KSTAT_POINTS_MAX && !table->chunks[chunk])
                table->chunks[chunk] = ds_alloc0(KSTAT_CHUNK, sizeof(*table->chunks[chunk]));
        if (table->n_points < DS_KSTAT_POINTS_MAX && table->chunks[chunk])
                return table->n_points++;
        /* the first pass spares points that were used since the last search, the second spares none */
        for (uint32_t i = 0; i < 2 * table->n_points; i++) {
                uint32_t at = table->points_hand++ % table->n_points;
                struct ds_kstat_points *points = points_at(table, at);

                if (points->row != DS_KSTAT_NONE && points->used) {
                        points->used = 0;
                        continue;
                }
                if (points->row != DS_KSTAT_NONE)
                        points_release(table, &table->rows[points->row]);
                return at;
        }
        return DS_KSTAT_NONE;
}

/* The row's points, created if necessary. Returns NULL if there is no memory. */
static struct ds_kstat_points *points_of(ds_kstat *table, struct ds_kstat_row *row)
{
        struct ds_kstat_points *points;
        uint32_t i;

        if (row->points)
                return points_at(table, row->points - 1u);
        i = points_take(table);
        if (i == DS_KSTAT_NONE)
                return NULL;
        points = points_at(table, i);
        *points = (struct ds_kstat_points){.row = (uint32_t)(row - table->rows), .used = 1};
        row->points = (uint16_t)(i + 1);
        return points;
}

const struct ds_kstat_points *ds_kstat_points(const ds_kstat *table, const struct ds_kstat_row *row)
{
        return row->points ? points_at(table, row->points - 1u) : NULL;
}

void ds_kstat_show(const ds_kstat *table, const uint32_t *rows, struct detshare_op_view *views, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++) {
                const struct ds_kstat_row *row = &table->rows[rows[i]];
                const struct ds_kstat_points *points;

                views[i].n_points = 0;
                views[i].points = NULL;
                if (row->key != views[i].kernel)
                        continue;
                views[i].samples = row->samples;
                views[i].expected_ns = row->mean_ns;
                views[i].bound = row->bound;
                if (!row->points)
                        continue;
                points = points_at(table, row->points - 1u);
                views[i].n_points = points->n;
                views[i].points = points->n ? points->at : NULL;
        }
}

static uint32_t points_position(const struct ds_kstat_points *points, uint32_t n_sms)
{
        uint32_t i = 0;

        while (i < points->n && points->at[i].n_sms < n_sms)
                i++;
        return i;
}

/* Removes the point with the fewest samples, but never the point with the most SMs. */
static void points_make_room(struct ds_kstat_points *points)
{
        uint32_t weakest = 0;

        for (uint32_t i = 1; i + 1 < points->n; i++)
                if (points->at[i].samples < points->at[weakest].samples)
                        weakest = i;
        points->n--;
        for (uint32_t i = weakest; i < points->n; i++)
                points->at[i] = points->at[i + 1];
}

/* The point for this many SMs, without samples if it is new. */
static struct detshare_profile_point *points_point(struct ds_kstat_points *points, uint32_t n_sms)
{
        uint32_t at = points_position(points, n_sms);

        if (at < points->n && points->at[at].n_sms == n_sms)
                return &points->at[at];
        if (points->n == DETSHARE_POINTS_MAX) {
                points_make_room(points);
                at = points_position(points, n_sms);
        }
        for (uint32_t i = points->n++; i > at; i--)
                points->at[i] = points->at[i - 1];
        points->at[at] = (struct detshare_profile_point){.n_sms = n_sms};
        return &points->at[at];
}

/* Compares a duration with a mean. Returns 1 if it is more than twice the mean, -1 if less than half of it,
 * otherwise 0. */
static int mean_is_off(uint64_t mean_ns, uint64_t ns)
{
        return (ns / 2 > mean_ns) - (ns < mean_ns / 2);
}

/* Whether the kernel's recent mean is more than twice or less than half of the point's. Other work or a smaller rung
 * may be the cause, so only a new measurement can decide. */
static int points_are_doubtful(const struct ds_kstat_row *row, const struct ds_kstat_points *points, uint32_t at)
{
        return row->samples && row->samples - points->sampled_at >= KSTAT_DOUBT_EVERY &&
               mean_is_off(points->at[at].mean_ns, row->mean_ns);
}

int ds_kstat_point_wanted(ds_kstat *table, struct ds_kstat_row *row, uint32_t n_sms, uint32_t samples)
{
        struct ds_kstat_points *points = points_of(table, row);
        uint32_t at;

        if (!points)
                return 0;
        at = points_position(points, n_sms);
        if (at < points->n && points->at[at].n_sms == n_sms && points->at[at].samples >= samples &&
                !points_are_doubtful(row, points, at))
                return 0;
        if (points->tries >= DS_KSTAT_TRIES_MAX)
                return 0;
        points->tries++;
        return 1;
}

static void points_mark_changed(ds_kstat *table, struct ds_kstat_points *points)
{
        table->n_changed += !points->changed;
        points->changed = 1;
}

/* Records whether this sample deviates from the point. Returns 1 if the point must restart with this sample: enough
 * consecutive samples, and the kernel's own mean, deviate in the same direction. */
static int points_restart(struct ds_kstat_points *points, const struct ds_kstat_row *row,
        const struct detshare_profile_point *point, uint64_t ns)
{
        const int off = mean_is_off(point->mean_ns, ns);

        if (!off && points->off_sms != point->n_sms)
                return 0; /* a normal sample on other SMs says nothing about the point with the deviations */
        if (off * points->off <= 0 || points->off_sms != point->n_sms)
                points->off = (int8_t)off;
        else if (points->off * off < KSTAT_OFF)
                points->off = (int8_t)(points->off + off);
        points->off_sms = point->n_sms;
        if (points->off * off < KSTAT_OFF || !row->samples || mean_is_off(point->mean_ns, row->mean_ns) != off)
                return 0;
        if (off < 0 && mean_is_off(row->mean_ns, ns))
                return 0;
        points->off = 0;
        return 1;
}

void ds_kstat_point_sample(ds_kstat *table, struct ds_kstat_row *row, uint32_t n_sms, uint64_t duration_ns)
{
        struct ds_kstat_points *points = points_of(table, row);
        struct detshare_profile_point *point;
        int restarts;

        if (!points)
                return;
        points->used = 1;
        points->tries = 0;
        points->sampled_at = row->samples;
        point = points_point(points, n_sms);
        /* The first launch of a kernel loads its code and data. If the second takes less than half as long, the
         * first does not count. */
        if (point->samples == 1 && duration_ns < point->mean_ns / 2)
                point->samples = 0;
        if (!point->samples)
                point->mean_ns = 0;
        restarts = point->samples && points_restart(points, row, point, duration_ns);
        if (restarts)
                point->mean_ns = duration_ns;
        mean_add(&point->samples, &point->mean_ns, duration_ns);
        if (restarts || !(point->samples & (point->samples - 1)) || !(point->samples % KSTAT_CHANGED_EVERY))
                points_mark_changed(table, points);
}

void ds_kstat_point_put(ds_kstat *table, struct ds_kstat_row *row, const struct detshare_profile_point *put)
{
        struct ds_kstat_points *points = points_of(table, row);
        struct detshare_profile_point *point;

        if (!points)
                return;
        points->used = 1;
        point = points_point(points, put->n_sms);
        if (point->samples < put->samples)
                *point = *put;
}

struct ds_kstat_forms *ds_kstat_forms(ds_kstat *table, struct ds_kstat_row *row)
{
        struct ds_kstat_points *points = NULL;

        /* every launch comes here, so it may create points for the kernel, but not replace those of another kernel */
        if (row->points || table->n_points < DS_KSTAT_POINTS_MAX)
                points = points_of(table, row);
        return points ? &points->forms : NULL;
}

const struct ds_kstat_forms *ds_kstat_forms_known(const ds_kstat *table, uint32_t row, uint64_t key)
{
        if (row >= table->n_used || table->rows[row].key != key || !table->rows[row].points)
                return NULL;
        return &points_at(table, table->rows[row].points - 1u)->forms;
}

void ds_kstat_form_sample(
        ds_kstat *table, struct ds_kstat_row *row, enum ds_ptx_form form, uint32_t n_sms, uint64_t duration_ns)
{
        struct ds_kstat_points *points = points_of(table, row);
        struct ds_sched_form_cost *cost;
        uint64_t native_ns, mean;
        uint32_t at;

        if (!points)
                return;
        at = points_position(points, n_sms);
        if (at == points->n || points->at[at].n_sms != n_sms || !points->at[at].mean_ns)
                return;
        native_ns = points->at[at].mean_ns;
        points->used = 1;
        points->forms.tries[form] = 0;
        cost = &points->forms.costs[form];
        mean = cost->permille;
        /* bounds the ratio to the native form at 1000, so that the product cannot overflow */
        duration_ns = DS_MIN(duration_ns, DS_MIN(native_ns, UINT64_MAX / 1000000) * 1000);
        mean_add(&cost->samples, &mean, duration_ns / DS_MAX(native_ns / 1000, 1u));
        cost->permille = (uint32_t)DS_MIN(mean, (uint64_t)UINT32_MAX);
        if (!(cost->samples & (cost->samples - 1)) || !(cost->samples % KSTAT_CHANGED_EVERY))
                points_mark_changed(table, points);
}

void ds_kstat_form_put(
        ds_kstat *table, struct ds_kstat_row *row, enum ds_ptx_form form, const struct ds_sched_form_cost *put)
{
        struct ds_kstat_forms *forms = ds_kstat_forms(table, row);

        if (forms && forms->costs[form].samples < put->samples)
                forms->costs[form] = *put;
}

const struct ds_kstat_row *ds_kstat_changed(ds_kstat *table)
{
        for (uint32_t i = 0; i < table->n_points && table->n_changed; i++) {
                struct ds_kstat_points *points = points_at(table, table->changed_hand++ % table->n_points);

                if (!points->changed)
                        continue;
                points->changed = 0;
                table->n_changed--;
                return &table->rows[points->row];
        }
        return NULL;
}

void ds_kstat_forget(ds_kstat *table)
{
        for (uint32_t i = 0; i < table->n_used; i++) {
                points_release(table, &table->rows[i]);
                table->rows[i].seen = 0;
        }
}

uint64_t ds_kstat_taken(const ds_kstat *table)
{
        return table->taken;
}

/* --- occupancy ---------------------------------------------------------------------------------------------------- */

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
