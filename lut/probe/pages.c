/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/probe/pages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lut/probe/label.h"
#include "lut/sectors.h"
#include "lut/table.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"

#define PAGE DS_PROBE_PAGE
/* to match the table's names with channels, this many pages are probed, and of each one granule of ALIGN_PART */
#define ALIGN_PAGES 2u
#define ALIGN_PART 4u
#define SEED UINT64_C(0x9e3779b97f4a7c15)

struct labeller {
        struct ds_pages_labels *ret;
        const struct ds_pages_ask *ask;
        struct ds_probe_meter meter; /* the bench's meter */
        const char *doing;
        uint64_t of, before; /* granules in this phase of the work; granules done before the phase */
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

/* --- progress: reported at each measurement, or page by page -------------------------- */

static void tell(const struct labeller *labeller, uint64_t done, uint64_t of)
{
        if (labeller->ask->progress)
                labeller->ask->progress(labeller->ask->user, labeller->doing, done, of);
}

static void tell_granules(const struct labeller *labeller)
{
        tell(labeller, labeller->of ? ds_probe_counts(labeller->probe)->granules - labeller->before : 0, labeller->of);
}

/* Begins a phase of the work for the progress report. `of`: its number of granules, 0: not known. */
static void begin(struct labeller *labeller, const char *doing, uint64_t of)
{
        labeller->doing = doing;
        labeller->of = of;
        labeller->before = labeller->probe ? ds_probe_counts(labeller->probe)->granules : 0;
        tell(labeller, 0, of);
}

static int told_pairs(void *user, const struct ds_probe_pair *pairs, size_t n, uint32_t *ticks)
{
        const struct labeller *labeller = user;

        tell_granules(labeller);
        return labeller->meter.pairs(labeller->meter.user, pairs, n, ticks);
}

static int told_widen(void *user, uint32_t bytes)
{
        const struct labeller *labeller = user;

        tell_granules(labeller);
        return labeller->meter.widen(labeller->meter.user, bytes);
}

static int told_listen(
        void *user, const uint64_t *known, uint32_t n_known, const uint64_t *lines, size_t n, uint32_t *ticks)
{
        const struct labeller *labeller = user;

        tell_granules(labeller);
        return labeller->meter.listen(labeller->meter.user, known, n_known, lines, n, ticks);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static int is_table(const struct dirent *entry)
{
        const size_t n = strlen(entry->d_name);

        return n > 4 && !strcmp(entry->d_name + n - 4, ".lut");
}

/* Tries to open a table. Skips a damaged or unreadable file, and a table of another model. */
static void try_table(struct labeller *labeller, int directory, const char *name)
{
        struct ds_lut *lut;
        char why[256];

        if (ds_lut_open_at(directory, name, NULL, &lut, why, sizeof(why))) {
                ds_log(DS_LOG_WARNING, "table of channels %s/%s is not used: %s", labeller->ask->lut_dir, name, why);
                return;
        }
        if (strcmp(ds_lut_facts(lut)->model, labeller->ask->model) != 0) {
                ds_lut_free(lut);
                return;
        }
        labeller->lut = lut;
        snprintf(labeller->lut_name, sizeof(labeller->lut_name), "%.40s", name);
}

/* Uses the first table of this model, in alphabetical order. Without a table all granules are probed. */
static void find_table(struct labeller *labeller)
{
        const struct ds_pages_ask *ask = labeller->ask;
        ds_cleanup(ds_closep) int own = -1;
        struct dirent **found = NULL;
        int fd = ask->lut_dir_fd, n;

        if (!ask->lut_dir)
                return;
        if (!fd)
                fd = own = open(ask->lut_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        n = fd < 0 ? -1 : scandirat(fd, ".", &found, is_table, alphasort);
        if (n < 0)
                ds_log(DS_LOG_WARNING, "tables of channels in %s cannot be read: %s", ask->lut_dir, strerror(errno));
        for (int i = 0; i < n; i++) {
                if (!labeller->lut)
                        try_table(labeller, fd, found[i]->d_name);
                free(found[i]);
        }
        free(found);
}

/* Whether the device's state is not known after this error, so that probing must not continue. */
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
        return r ? none(labeller, "%s: the measurement failed (%d)", what, r) : 0;
}

static int find_channels(struct labeller *labeller, const struct ds_bench_site *site)
{
        struct ds_pages_labels *ret = labeller->ret;
        struct ds_probe_meter meter;
        int r;

        begin(labeller, "tuning", 0);
        r = ds_bench_over(site, labeller->pages, labeller->n_pages, &labeller->bench);
        if (r == DS_BENCH_E_MEMORY)
                return none(labeller, "the device has no memory left to measure with");
        if (!r)
                r = ds_bench_tune(labeller->bench, SEED);
        if (r)
                return probe_answer(labeller, r, "times of lines that share a channel");
        ds_bench_meter(labeller->bench, &labeller->meter);
        meter = (struct ds_probe_meter){.user = labeller,
                .pairs = told_pairs,
                .widen = labeller->meter.widen ? told_widen : NULL,
                .listen = labeller->meter.listen ? told_listen : NULL};
        r = ds_probe_new(&meter, labeller->pages, labeller->n_pages, SEED, &labeller->probe);
        if (!r)
                r = ds_probe_calibrate(labeller->probe);
        if (!r) {
                begin(labeller, "finding channels", 0);
                r = ds_probe_find_channels(labeller->probe);
        }
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
        begin(labeller, "probing pages in full", n * labeller->ret->granules);
        return ds_probe_label(labeller->probe, labeller->pages + page, n, NULL,
                labeller->ret->channel + page * labeller->ret->granules);
}

static void want(uint8_t *wanted, size_t granule)
{
        wanted[granule / 8] |= (uint8_t)(1u << granule % 8);
}

/* Labels random granules of the first pages. 0 or a negative errno. */
static int label_some(struct labeller *labeller, size_t n)
{
        ds_cleanup(ds_freep) uint8_t *wanted = ds_alloc0(n, labeller->ret->granules / 8);
        uint64_t random = SEED;

        if (!wanted)
                return ds_error_origin(-ENOMEM);
        for (size_t i = 0; i < n * labeller->ret->granules / ALIGN_PART; i++) {
                /* multiplier and increment of Knuth's MMIX */
                random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
                want(wanted, (size_t)(random >> 33) % (n * labeller->ret->granules));
        }
        return ds_probe_label(labeller->probe, labeller->pages, n, wanted, labeller->ret->channel);
}

/* Matches the table's channel names with the probe's. Returns 0; DS_PAGES_E_NONE: the table does not describe this
 * board; or a negative errno. */
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
        begin(labeller, "matching channels with the table", 0);
        r = label_some(labeller, n);
        if (!r)
                r = ds_lut_align(labeller->lut, pages, n, names);
        return r == DS_LUT_E_NO_PATTERN ? DS_PAGES_E_NONE : r;
}

/* Bitmap of the granules to probe: those of the table's signature, in all pages. NULL if out of memory. */
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

/* Matches the page with the table, and replaces its labels by those of the table, in the probe's names. Returns 0,
 * or DS_LUT_E_NO_PATTERN. */
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
        const uint32_t *offsets;
        int r;

        if (!wanted)
                return ds_error_origin(-ENOMEM);
        memset(ours, DS_SECTORS_NO_CHANNEL, sizeof(ours));
        for (uint32_t i = 0; i < DS_LUT_CHANNELS_MAX; i++)
                if (names[i] < DS_LUT_CHANNELS_MAX)
                        ours[names[i]] = (uint8_t)i;
        begin(labeller, "probing signatures of pages", labeller->n_pages * ds_lut_signature(labeller->lut, &offsets));
        r = ds_probe_label(labeller->probe, labeller->pages, labeller->n_pages, wanted, labeller->ret->channel);
        for (size_t page = 0; !r && page < labeller->n_pages; page++) {
                labeller->doing = "looking pages up";
                tell(labeller, page, labeller->n_pages);
                if (table_page(labeller, page, names, ours))
                        r = label_in_full(labeller, page, 1);
        }
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

static int label_all(struct labeller *labeller, const struct ds_bench_site *site)
{
        uint8_t names[DS_LUT_CHANNELS_MAX];
        int r = find_channels(labeller, site);

        if (r)
                return r;
        find_table(labeller);
        r = labeller->lut ? table_names(labeller, names) : DS_PAGES_E_NONE;
        if (!r)
                r = label_by_table(labeller, names);
        else if (r == DS_PAGES_E_NONE)
                r = label_in_full(labeller, 0, labeller->n_pages);
        say_source(labeller);
        return probe_answer(labeller, r, "labels");
}

int ds_pages_label(const struct ds_bench_site *site, const struct ds_pages_ask *ask, const uint64_t *pages, size_t n,
        struct ds_pages_labels *ret)
{
        struct labeller labeller = {.ret = ret, .ask = ask, .pages = pages, .n_pages = n};
        int r;

        *ret = (struct ds_pages_labels){};
        r = label_all(&labeller, site);
        ds_probe_free(labeller.probe);
        ds_bench_close(labeller.bench);
        ds_lut_free(labeller.lut);
        return r;
}

void ds_pages_deinit(struct ds_pages_labels *labels)
{
        labels->channel = ds_free(labels->channel);
}
