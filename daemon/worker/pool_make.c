/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool is made: slabs are set aside, and what lies in which channel is found
 *
 * Two ways to the labels. Where there is a table of channels for this model (lut/table.h), a part of two pages is
 * probed to learn which channel has which name, and of all pages as many granules as tell the patterns apart; a page
 * that fits no pattern is probed in full, and so are all when there is no table or it describes another board.
 * Probing needs the device to itself, which it has before anybody is served.
 *
 * A pool that cannot be had is no reason not to serve: one line says why, and there is none.
 */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lut/probe/bench.h"
#include "lut/probe/label.h"
#include "lut/sectors.h"
#include "lut/table.h"
#include "ptx/pass/colour.h"
#include "util/error.h"
#include "worker/internal.h"

#define PAGE DS_PROBE_PAGE
#define ALIGN_PAGES 2u /* of which a part is probed to name channels: one granule of ... */
#define ALIGN_PART 4u
#define CLEAR_MAX_NS (60 * DS_NS_PER_S)
#define SEED UINT64_C(0x9e3779b97f4a7c15)
#define POOL_E_NONE 1 /* contract: there will be no pool, and why is in maker.why */

struct maker {
        ds_worker *worker;
        struct dsw_pool *pool;
        uint32_t space;
        int has_space;
        struct ds_sectors_share share;
        uint64_t *pages;
        size_t n_pages;
        ds_bench *bench;
        ds_probe *probe;
        struct ds_lut *lut;
        char lut_name[64];
        size_t granules; /* of a page */
        uint8_t *labels; /* of all pages' granules */
        uint32_t n_channels;
        size_t n_by_table;
        char why[256];
};

static int none(struct maker *maker, const char *fmt, ...) ds_printf(2, 3);

static int none(struct maker *maker, const char *fmt, ...)
{
        va_list args;

        va_start(args, fmt);
        vsnprintf(maker->why, sizeof(maker->why), fmt, args);
        va_end(args);
        return POOL_E_NONE;
}

/* --- slabs -------------------------------------------------------------------------------------------------------- */

/* As few as the files that may be kept, whole pages each. */
static void make_sizes(struct maker *maker, uint64_t bytes)
{
        struct ds_pool_file *facts = &maker->pool->facts;
        const uint64_t pages = DS_MIN(bytes, DSW_POOL_BYTES_MAX) / PAGE, each = DS_DIV_UP(pages, DS_POOL_SLABS_MAX);

        facts->slab_bytes = each * PAGE;
        facts->n_slabs = each ? (uint32_t)(pages / each) : 0;
        maker->n_pages = facts->n_slabs * each;
}

static void make_pause(void)
{
        const struct timespec pause = {.tv_nsec = 100 * DS_NS_PER_US};

        nanosleep(&pause, NULL);
}

static int make_slab(struct maker *maker, uint32_t i)
{
        const struct ds_device_ops *ops = maker->worker->ops;
        ds_device *device = maker->worker->device;
        struct dsw_pool *pool = maker->pool;
        const uint64_t va = dsw_pool_address(pool, i), begin = maker->worker->wall_ns();
        int r = ops->mem_create(device, pool->facts.slab_bytes, &pool->slabs[i].fd);

        if (r == DS_CUDA_OUT_OF_MEMORY)
                return none(maker, "the device has no memory for it");
        if (!r)
                r = ops->mem_map(device, maker->space, pool->slabs[i].fd, va, pool->facts.slab_bytes);
        if (!r)
                r = ops->mem_keep(device, maker->space, va);
        if (r)
                return r > 0 || r == -EEXIST
                               ? none(maker, "its memory cannot be mapped at %#llx", (unsigned long long)va)
                               : ds_error_trace(r);
        while (!ops->mem_cleared(device, maker->space, va)) {
                if (maker->worker->wall_ns() - begin > CLEAR_MAX_NS)
                        return ds_error_origin(-ETIMEDOUT);
                make_pause();
        }
        return 0;
}

static int make_slabs(struct maker *maker)
{
        ds_worker *worker = maker->worker;
        int r;

        maker->space = ++worker->next_space;
        r = worker->ops->space_add(worker->device, maker->space);
        if (r)
                return ds_error_trace(r);
        maker->has_space = 1;
        maker->pages = ds_alloc0(maker->n_pages, sizeof(*maker->pages));
        if (!maker->pages)
                return ds_error_origin(-ENOMEM);
        for (size_t i = 0; i < maker->n_pages; i++)
                maker->pages[i] = DSW_POOL_BASE + i * PAGE;
        for (uint32_t i = 0; !r && i < maker->pool->facts.n_slabs; i++)
                r = make_slab(maker, i);
        return r;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static int is_table(const struct dirent *entry)
{
        const size_t n = strlen(entry->d_name);

        return n > 4 && !strcmp(entry->d_name + n - 4, ".lut");
}

/* The first that is of this model, by name. Without one all is probed. */
static void make_find_table(struct maker *maker, const char *directory)
{
        const struct ds_device_info *info = maker->worker->info;
        struct dirent **found = NULL;
        char model[80], path[512], why[256];
        int n = directory ? scandir(directory, &found, is_table, alphasort) : 0;

        snprintf(model, sizeof(model), "%s%s", info->simulated ? "sim:" : "",
                info->simulated ? info->model : info->name);
        for (int i = 0; i < n; i++) {
                const int length = snprintf(path, sizeof(path), "%s/%s", directory, found[i]->d_name);

                if (!maker->lut && length > 0 && (size_t)length < sizeof(path) &&
                        ds_lut_open(path, model, &maker->lut, why, sizeof(why)) == 0)
                        snprintf(maker->lut_name, sizeof(maker->lut_name), "%.40s", found[i]->d_name);
                free(found[i]);
        }
        free(found);
}

/* --- labels ------------------------------------------------------------------------------------------------------- */

/* A stream of a rung with all of the device. */
static uint32_t make_stream(const ds_worker *worker)
{
        const struct ds_rung_info *rung;
        uint32_t i = 0;

        for (; i < DS_DEVICE_RUNGS_MAX; i++) {
                rung = worker->ops->rung_info(worker->device, i);
                if (!rung || (rung->n_tpcs == worker->info->n_tpcs && !rung->coarse))
                        break;
        }
        return ds_device_stream(i, 0, 0);
}

static int probe_answer(struct maker *maker, int r, const char *what)
{
        if (r < 0)
                return r == -ENOMEM ? ds_error_trace(r) : none(maker, "%s: %s", what, strerror(-r));
        return r ? none(maker, "%s: the measurement is of no use (%d)", what, r) : 0;
}

static int make_probe(struct maker *maker)
{
        ds_worker *worker = maker->worker;
        struct ds_probe_meter meter;
        int r = ds_bench_over(worker->ops, worker->device, make_stream(worker), maker->space, maker->pages,
                maker->n_pages, &maker->bench);

        if (!r)
                r = ds_bench_tune(maker->bench, SEED);
        if (r)
                return probe_answer(maker, r, "times of lines that share a channel");
        ds_bench_meter(maker->bench, &meter);
        r = ds_probe_new(&meter, maker->pages, maker->n_pages, SEED, &maker->probe);
        if (!r)
                r = ds_probe_calibrate(maker->probe);
        if (!r)
                r = ds_probe_find_channels(maker->probe);
        if (r)
                return probe_answer(maker, r, "channels");
        maker->granules = PAGE >> ds_probe_granule_bits(maker->probe);
        maker->n_channels = ds_probe_channels(maker->probe);
        maker->labels = ds_alloc(maker->n_pages * maker->granules);
        return maker->labels ? 0 : ds_error_origin(-ENOMEM);
}

static int label_in_full(struct maker *maker, size_t page, size_t n)
{
        return ds_probe_label(maker->probe, maker->pages + page, n, NULL, maker->labels + page * maker->granules);
}

static void want(uint8_t *wanted, size_t granule)
{
        wanted[granule / 8] |= (uint8_t)(1u << granule % 8);
}

/* Some granules of the first pages, at random places. 0 or a negative errno. */
static int label_some(struct maker *maker, size_t n)
{
        ds_cleanup(ds_freep) uint8_t *wanted = ds_alloc0(n, maker->granules / 8);
        uint64_t random = SEED;

        if (!wanted)
                return ds_error_origin(-ENOMEM);
        for (size_t i = 0; i < n * maker->granules / ALIGN_PART; i++) {
                random = random * UINT64_C(6364136223846793005) + 1442695040888963407; /* Knuth's MMIX */
                want(wanted, (size_t)(random >> 33) % (n * maker->granules));
        }
        return ds_probe_label(maker->probe, maker->pages, n, wanted, maker->labels);
}

/* Which names the table has for ours; 0, POOL_E_NONE: it does not describe this board, or a negative errno. */
static int table_names(struct maker *maker, uint8_t names[static DS_LUT_CHANNELS_MAX])
{
        const uint8_t *pages[ALIGN_PAGES];
        const size_t n = DS_MIN(maker->n_pages, (size_t)ALIGN_PAGES);
        int r;

        if (ds_lut_facts(maker->lut)->granule_bits != ds_probe_granule_bits(maker->probe) ||
                ds_lut_facts(maker->lut)->page_bits != DS_PROBE_PAGE_BITS)
                return POOL_E_NONE;
        for (size_t i = 0; i < n; i++)
                pages[i] = maker->labels + i * maker->granules;
        r = label_some(maker, n);
        if (!r)
                r = ds_lut_align(maker->lut, pages, n, names);
        return r == DS_LUT_E_NO_PATTERN ? POOL_E_NONE : r;
}

/* The granules of a signature among all pages' bits. */
static uint8_t *table_wanted(const struct maker *maker)
{
        const unsigned bits = ds_lut_facts(maker->lut)->granule_bits;
        uint8_t *wanted = ds_alloc0(maker->n_pages, maker->granules / 8);
        const uint32_t *offsets;
        const size_t n = ds_lut_signature(maker->lut, &offsets);

        for (size_t page = 0; wanted && page < maker->n_pages; page++)
                for (size_t i = 0; i < n; i++)
                        want(wanted, page * maker->granules + (offsets[i] >> bits));
        return wanted;
}

/* The page's labels become the table's, in our names. 0, or E_NO_PATTERN. */
static int table_page(
        struct maker *maker, size_t page, const uint8_t names[static DS_LUT_CHANNELS_MAX], const uint8_t *ours)
{
        uint8_t *labels = maker->labels + page * maker->granules;
        struct ds_lut_probe probes[DS_LUT_PROBES_MAX];
        const uint32_t *offsets;
        const size_t n_offsets = DS_MIN(ds_lut_signature(maker->lut, &offsets), (size_t)DS_LUT_PROBES_MAX);
        uint32_t pattern;
        size_t n = 0;

        for (size_t i = 0; i < n_offsets; i++) {
                const uint8_t label = labels[offsets[i] >> ds_lut_facts(maker->lut)->granule_bits];

                if (label < DS_LUT_CHANNELS_MAX && names[label] != DS_LUT_UNKNOWN)
                        probes[n++] = (struct ds_lut_probe){.offset = offsets[i], .channel = names[label]};
        }
        if (ds_lut_match(maker->lut, probes, n, &pattern))
                return DS_LUT_E_NO_PATTERN;
        ds_lut_page(maker->lut, pattern, labels);
        for (size_t i = 0; i < maker->granules; i++)
                labels[i] = labels[i] < DS_LUT_CHANNELS_MAX ? ours[labels[i]] : DS_SECTORS_NO_CHANNEL;
        maker->n_by_table++;
        return 0;
}

static int label_by_table(struct maker *maker, const uint8_t names[static DS_LUT_CHANNELS_MAX])
{
        ds_cleanup(ds_freep) uint8_t *wanted = table_wanted(maker);
        uint8_t ours[DS_LUT_CHANNELS_MAX];
        int r;

        if (!wanted)
                return ds_error_origin(-ENOMEM);
        memset(ours, DS_SECTORS_NO_CHANNEL, sizeof(ours));
        for (uint32_t i = 0; i < DS_LUT_CHANNELS_MAX; i++)
                if (names[i] < DS_LUT_CHANNELS_MAX)
                        ours[names[i]] = (uint8_t)i;
        r = ds_probe_label(maker->probe, maker->pages, maker->n_pages, wanted, maker->labels);
        for (size_t page = 0; !r && page < maker->n_pages; page++)
                if (table_page(maker, page, names, ours))
                        r = label_in_full(maker, page, 1);
        return r;
}

static int make_labels(struct maker *maker, const char *lut_dir)
{
        uint8_t names[DS_LUT_CHANNELS_MAX];
        int r = make_probe(maker);

        if (r)
                return r;
        make_find_table(maker, lut_dir);
        r = maker->lut ? table_names(maker, names) : POOL_E_NONE;
        if (!r)
                r = label_by_table(maker, names);
        else if (r == POOL_E_NONE)
                r = label_in_full(maker, 0, maker->n_pages);
        return probe_answer(maker, r, "labels");
}

/* --- what comes of it --------------------------------------------------------------------------------------------- */

static void make_say(const struct maker *maker, struct ds_pool_file *facts)
{
        const size_t full = maker->n_pages - maker->n_by_table;

        if (maker->n_by_table)
                snprintf(facts->provenance, sizeof(facts->provenance),
                        "table %.40s (%s) for %zu pages, %zu probed in full", maker->lut_name,
                        ds_lut_facts(maker->lut)->source == DS_LUT_MEASURED ? "measured" : "simulated",
                        maker->n_by_table, full);
        else
                snprintf(facts->provenance, sizeof(facts->provenance), "%zu pages probed in full%s", full,
                        maker->lut ? ", as the table does not describe this board" : "");
}

static int make_plan(struct maker *maker, uint8_t **ret_classes)
{
        struct ds_pool_file *facts = &maker->pool->facts;
        const struct ds_sectors_labels labels = {.channel = maker->labels,
                .n_granules = maker->n_pages * maker->granules,
                .granule_bits = ds_probe_granule_bits(maker->probe),
                .n_channels = maker->n_channels};
        struct ds_sectors_plan plan;
        int r = ds_sectors_plan(&labels, maker->share, DS_PTX_COLOUR_SECTOR_MIN, DS_SECTORS_LOST_PERMILLE, &plan);

        if (r == DS_SECTORS_E_SHARE)
                return none(maker, "best effort cannot have so many of %u channels", maker->n_channels);
        if (r)
                return r < 0 ? ds_error_trace(r) : none(maker, "its labels make no sense");
        *ret_classes = ds_alloc(labels.n_granules);
        if (!*ret_classes)
                return ds_error_origin(-ENOMEM);
        ds_sectors_classify(&labels, &plan, *ret_classes);
        facts->magic = DS_POOL_MAGIC;
        facts->version = DS_WIRE_VERSION;
        facts->sector_bits = plan.sector_bits;
        facts->granule_bits = labels.granule_bits;
        facts->n_channels = maker->n_channels;
        facts->n_be = plan.n_be;
        facts->be_permille = plan.be_permille;
        facts->ls_permille = plan.ls_permille;
        facts->lost_permille = plan.lost_permille;
        memcpy(facts->be_set, plan.be.word, sizeof(plan.be.word));
        make_say(maker, facts);
        return 0;
}

static int make_all(struct maker *maker, const struct ds_worker_config *config)
{
        ds_cleanup(ds_freep) uint8_t *classes = NULL;
        int r;

        if (!config->pool_be || ds_sectors_share_read(config->pool_be, &maker->share))
                return none(maker, "best effort's share of the channels is not given");
        make_sizes(maker, config->pool_bytes);
        if (!maker->n_pages)
                return none(maker, "it must have 2 MiB at least");
        r = make_slabs(maker);
        if (!r)
                r = make_labels(maker, config->lut_dir);
        if (!r)
                r = make_plan(maker, &classes);
        return r ? r : ds_error_trace(dsw_pool_file_make(&maker->pool->facts, classes, &maker->pool->file));
}

/* Slabs that nobody has are mapped nowhere. */
static void make_end(struct maker *maker)
{
        const struct ds_device_ops *ops = maker->worker->ops;
        ds_device *device = maker->worker->device;
        const struct ds_pool_file *facts = &maker->pool->facts;

        ds_probe_free(maker->probe);
        ds_bench_close(maker->bench);
        ds_lut_free(maker->lut);
        ds_free(maker->pages);
        ds_free(maker->labels);
        /* removing the space unmaps what it has */
        if (maker->has_space)
                (void)ds_error_trace(ops->space_remove(device, maker->space));
        if (maker->why[0] || maker->pool->file < 0)
                dsw_pool_deinit(maker->pool);
        else
                maker->worker->slab_bytes += facts->n_slabs * facts->slab_bytes;
}

int dsw_pool_make(ds_worker *worker, const struct ds_worker_config *config)
{
        struct maker maker = {.worker = worker, .pool = &worker->pool};
        const struct ds_pool_file *facts = &worker->pool.facts;
        const uint64_t begin = worker->wall_ns();
        int r;

        if (!config->pool_bytes)
                return 0;
        r = make_all(&maker, config);
        make_end(&maker);
        if (r == POOL_E_NONE) {
                ds_log(DS_LOG_ERROR, "no pool of coloured memory: %s", maker.why);
                return 0;
        }
        if (r)
                return ds_error_trace(r);
        ds_log(DS_LOG_INFO,
                "coloured memory: %llu MiB, %u of %u channels for best effort, sectors of %u bytes, %u.%u%% lost; %s; "
                "found in %llu ms",
                (unsigned long long)(facts->n_slabs * facts->slab_bytes / DS_MIB(1)), facts->n_be, facts->n_channels,
                1u << facts->sector_bits, facts->lost_permille / 10, facts->lost_permille % 10, facts->provenance,
                (unsigned long long)((worker->wall_ns() - begin) / DS_NS_PER_MS));
        return 0;
}
