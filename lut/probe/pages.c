/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/probe/pages.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lut/probe/label.h"
#include "lut/sectors.h"
#include "lut/table.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define PAGE DS_PROBE_PAGE
#define ALIGN_PAGES 2u /* of which a part is probed to name channels: one granule of ... */
#define ALIGN_PART 4u
#define SEED UINT64_C(0x9e3779b97f4a7c15)

struct labeller {
        struct ds_pages_labels *ret;
        const uint64_t *pages;
        size_t n_pages;
        ds_bench *bench;
        ds_probe *probe;
        struct ds_lut *lut;
        char lut_name[64];
        size_t n_by_table;
};

static int none(struct labeller *labeller, const char *fmt, ...) ds_printf(2, 3);

static int none(struct labeller *labeller, const char *fmt, ...)
{
        va_list args;

        va_start(args, fmt);
        vsnprintf(labeller->ret->why, sizeof(labeller->ret->why), fmt, args);
        va_end(args);
        return DS_PAGES_E_NONE;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static int is_table(const struct dirent *entry)
{
        const size_t n = strlen(entry->d_name);

        return n > 4 && !strcmp(entry->d_name + n - 4, ".lut");
}

/* The first that is of this model, by name. Without one all is probed. */
static void find_table(struct labeller *labeller, const char *model, const char *directory)
{
        struct dirent **found = NULL;
        char path[512], why[256];
        int n = directory ? scandir(directory, &found, is_table, alphasort) : 0;

        for (int i = 0; i < n; i++) {
                const int length = snprintf(path, sizeof(path), "%s/%s", directory, found[i]->d_name);

                if (!labeller->lut && length > 0 && (size_t)length < sizeof(path) &&
                        ds_lut_open(path, model, &labeller->lut, why, sizeof(why)) == 0)
                        snprintf(labeller->lut_name, sizeof(labeller->lut_name), "%.40s", found[i]->d_name);
                free(found[i]);
        }
        free(found);
}

/* After these nobody knows what the device does: no labels is not all that is wrong. */
static int is_fatal(int r)
{
        return r == -ENOMEM || r == -EIO || r == -ETIMEDOUT || r == -ENOTRECOVERABLE;
}

static int probe_answer(struct labeller *labeller, int r, const char *what)
{
        if (is_fatal(r))
                return ds_error_trace(r);
        if (r < 0)
                return none(labeller, "%s: %s", what, strerror(-r));
        return r ? none(labeller, "%s: the measurement is of no use (%d)", what, r) : 0;
}

static int find_channels(struct labeller *labeller, const struct ds_bench_site *site)
{
        struct ds_pages_labels *ret = labeller->ret;
        struct ds_probe_meter meter;
        int r = ds_bench_over(site, labeller->pages, labeller->n_pages, &labeller->bench);

        if (!r)
                r = ds_bench_tune(labeller->bench, SEED);
        if (r)
                return probe_answer(labeller, r, "times of lines that share a channel");
        ds_bench_meter(labeller->bench, &meter);
        r = ds_probe_new(&meter, labeller->pages, labeller->n_pages, SEED, &labeller->probe);
        if (!r)
                r = ds_probe_calibrate(labeller->probe);
        if (!r)
                r = ds_probe_find_channels(labeller->probe);
        if (r)
                return probe_answer(labeller, r, "channels");
        ret->granule_bits = ds_probe_granule_bits(labeller->probe);
        ret->granules = PAGE >> ret->granule_bits;
        ret->n_channels = ds_probe_channels(labeller->probe);
        ret->channel = ds_alloc(labeller->n_pages * ret->granules);
        return ret->channel ? 0 : ds_error_origin(-ENOMEM);
}

static int label_in_full(struct labeller *labeller, size_t page, size_t n)
{
        return ds_probe_label(labeller->probe, labeller->pages + page, n, NULL,
                labeller->ret->channel + page * labeller->ret->granules);
}

static void want(uint8_t *wanted, size_t granule)
{
        wanted[granule / 8] |= (uint8_t)(1u << granule % 8);
}

/* Some granules of the first pages, at random places. 0 or a negative errno. */
static int label_some(struct labeller *labeller, size_t n)
{
        ds_cleanup(ds_freep) uint8_t *wanted = ds_alloc0(n, labeller->ret->granules / 8);
        uint64_t random = SEED;

        if (!wanted)
                return ds_error_origin(-ENOMEM);
        for (size_t i = 0; i < n * labeller->ret->granules / ALIGN_PART; i++) {
                random = random * UINT64_C(6364136223846793005) + 1442695040888963407; /* Knuth's MMIX */
                want(wanted, (size_t)(random >> 33) % (n * labeller->ret->granules));
        }
        return ds_probe_label(labeller->probe, labeller->pages, n, wanted, labeller->ret->channel);
}

/* Which names the table has for ours; 0, DS_PAGES_E_NONE: it does not describe this board, or a negative errno. */
static int table_names(struct labeller *labeller, uint8_t names[static DS_LUT_CHANNELS_MAX])
{
        const uint8_t *pages[ALIGN_PAGES];
        const size_t n = DS_MIN(labeller->n_pages, (size_t)ALIGN_PAGES);
        int r;

        if (ds_lut_facts(labeller->lut)->granule_bits != ds_probe_granule_bits(labeller->probe) ||
                ds_lut_facts(labeller->lut)->page_bits != DS_PROBE_PAGE_BITS)
                return DS_PAGES_E_NONE;
        for (size_t i = 0; i < n; i++)
                pages[i] = labeller->ret->channel + i * labeller->ret->granules;
        r = label_some(labeller, n);
        if (!r)
                r = ds_lut_align(labeller->lut, pages, n, names);
        return r == DS_LUT_E_NO_PATTERN ? DS_PAGES_E_NONE : r;
}

/* The granules of a signature among all pages' bits. */
static uint8_t *table_wanted(const struct labeller *labeller)
{
        const unsigned bits = ds_lut_facts(labeller->lut)->granule_bits;
        uint8_t *wanted = ds_alloc0(labeller->n_pages, labeller->ret->granules / 8);
        const uint32_t *offsets;
        const size_t n = ds_lut_signature(labeller->lut, &offsets);

        for (size_t page = 0; wanted && page < labeller->n_pages; page++)
                for (size_t i = 0; i < n; i++)
                        want(wanted, page * labeller->ret->granules + (offsets[i] >> bits));
        return wanted;
}

/* The page's labels become the table's, in our names. 0, or E_NO_PATTERN. */
static int table_page(
        struct labeller *labeller, size_t page, const uint8_t names[static DS_LUT_CHANNELS_MAX], const uint8_t *ours)
{
        uint8_t *labels = labeller->ret->channel + page * labeller->ret->granules;
        struct ds_lut_probe probes[DS_LUT_PROBES_MAX];
        const uint32_t *offsets;
        const size_t n_offsets = DS_MIN(ds_lut_signature(labeller->lut, &offsets), (size_t)DS_LUT_PROBES_MAX);
        uint32_t pattern;
        size_t n = 0;

        for (size_t i = 0; i < n_offsets; i++) {
                const uint8_t label = labels[offsets[i] >> ds_lut_facts(labeller->lut)->granule_bits];

                if (label < DS_LUT_CHANNELS_MAX && names[label] != DS_LUT_UNKNOWN)
                        probes[n++] = (struct ds_lut_probe){.offset = offsets[i], .channel = names[label]};
        }
        if (ds_lut_match(labeller->lut, probes, n, &pattern))
                return DS_LUT_E_NO_PATTERN;
        ds_lut_page(labeller->lut, pattern, labels);
        for (size_t i = 0; i < labeller->ret->granules; i++)
                labels[i] = labels[i] < DS_LUT_CHANNELS_MAX ? ours[labels[i]] : DS_SECTORS_NO_CHANNEL;
        labeller->n_by_table++;
        return 0;
}

static int label_by_table(struct labeller *labeller, const uint8_t names[static DS_LUT_CHANNELS_MAX])
{
        ds_cleanup(ds_freep) uint8_t *wanted = table_wanted(labeller);
        uint8_t ours[DS_LUT_CHANNELS_MAX];
        int r;

        if (!wanted)
                return ds_error_origin(-ENOMEM);
        memset(ours, DS_SECTORS_NO_CHANNEL, sizeof(ours));
        for (uint32_t i = 0; i < DS_LUT_CHANNELS_MAX; i++)
                if (names[i] < DS_LUT_CHANNELS_MAX)
                        ours[names[i]] = (uint8_t)i;
        r = ds_probe_label(labeller->probe, labeller->pages, labeller->n_pages, wanted, labeller->ret->channel);
        for (size_t page = 0; !r && page < labeller->n_pages; page++)
                if (table_page(labeller, page, names, ours))
                        r = label_in_full(labeller, page, 1);
        return r;
}

static void say_source(const struct labeller *labeller)
{
        struct ds_pages_labels *ret = labeller->ret;
        const size_t full = labeller->n_pages - labeller->n_by_table;

        if (labeller->n_by_table)
                snprintf(ret->source, sizeof(ret->source), "table %.40s (%s) for %zu pages, %zu probed in full",
                        labeller->lut_name,
                        ds_lut_facts(labeller->lut)->source == DS_LUT_MEASURED ? "measured" : "simulated",
                        labeller->n_by_table, full);
        else
                snprintf(ret->source, sizeof(ret->source), "%zu pages probed in full%s", full,
                        labeller->lut ? ", as the table does not describe this board" : "");
}

static int label_all(
        struct labeller *labeller, const struct ds_bench_site *site, const char *model, const char *lut_dir)
{
        uint8_t names[DS_LUT_CHANNELS_MAX];
        int r = find_channels(labeller, site);

        if (r)
                return r;
        find_table(labeller, model, lut_dir);
        r = labeller->lut ? table_names(labeller, names) : DS_PAGES_E_NONE;
        if (!r)
                r = label_by_table(labeller, names);
        else if (r == DS_PAGES_E_NONE)
                r = label_in_full(labeller, 0, labeller->n_pages);
        say_source(labeller);
        return probe_answer(labeller, r, "labels");
}

int ds_pages_label(const struct ds_bench_site *site, const char *model, const char *lut_dir, const uint64_t *pages,
        size_t n, struct ds_pages_labels *ret)
{
        struct labeller labeller = {.ret = ret, .pages = pages, .n_pages = n};
        int r;

        *ret = (struct ds_pages_labels){};
        r = label_all(&labeller, site, model, lut_dir);
        ds_probe_free(labeller.probe);
        ds_bench_close(labeller.bench);
        ds_lut_free(labeller.lut);
        return r;
}

void ds_pages_deinit(struct ds_pages_labels *labels)
{
        labels->channel = ds_free(labels->channel);
}
