/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates the pool: allocates its slabs and finds the channel of each sector
 *
 * lut/probe/pages.h determines the channels. Probing needs an otherwise idle device, so it happens before any session
 * is served.
 *
 * If the pool cannot be made, the worker serves without one, and a log line gives the reason.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lut/probe/label.h"
#include "lut/probe/pages.h"
#include "lut/sectors.h"
#include "ptx/pass/colour.h"
#include "util/error.h"
#include "worker/internal.h"

#define PAGE DS_PROBE_PAGE
#define CLEAR_MAX_NS (60 * DS_NS_PER_S)
#define POOL_E_NONE 1             /* return code: the worker gets no pool, for the reason in maker.why */
#define SAID_NS (5 * DS_NS_PER_S) /* interval between two progress lines */
#define STEPS_MAX 8u

/* A step of making the pool, and the time that the step has taken so far. */
struct step {
        const char *what;
        uint64_t ns;
};

struct maker {
        ds_worker *worker;
        struct dsw_pool *pool;
        uint32_t space;
        int has_space;
        struct ds_sectors_share share;
        int measured; /* 1: the share comes from a calibration of this GPU model, 0: from the configuration */
        uint64_t *pages;
        size_t n_pages;
        struct ds_pages_labels labels;
        /* times when the first step began, of the last log line, and when the current step began */
        uint64_t begin_ns, said_ns, step_ns;
        struct step steps[STEPS_MAX];
        uint32_t n_steps, step;
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

/* --- progress ----------------------------------------------------------------------------------------------------- */

/* Index of the step in the list. A step that no longer fits into the list gets the index of the last one. */
static uint32_t step_of(struct maker *maker, const char *what)
{
        uint32_t i = 0;

        while (i < maker->n_steps && strcmp(maker->steps[i].what, what) != 0)
                i++;
        if (i == STEPS_MAX)
                return i - 1;
        if (i == maker->n_steps)
                maker->steps[maker->n_steps++] = (struct step){.what = what};
        return i;
}

/* Begins a step, or continues an earlier one. The time since the last call is added to the step that ran until now. */
static void step_count(struct maker *maker, const char *what, uint64_t now_ns)
{
        if (maker->n_steps)
                maker->steps[maker->step].ns += now_ns - maker->step_ns;
        maker->step = step_of(maker, what);
        maker->step_ns = now_ns;
}

/* Logs progress every few seconds, because the worker serves no session meanwhile. `of`: the total of `done`, 0 =
 * unknown. */
static void make_progress(void *user, const char *what, uint64_t done, uint64_t of)
{
        struct maker *maker = user;
        const uint64_t now_ns = maker->worker->wall_ns();
        char part[32] = "";

        step_count(maker, what, now_ns);
        if (now_ns - maker->said_ns < SAID_NS)
                return;
        maker->said_ns = now_ns;
        if (of)
                snprintf(part, sizeof(part), ", %llu%% of it", (unsigned long long)(done * 100 / of));
        ds_log(DS_LOG_INFO, "coloured memory, %llu s so far: %s%s",
                (unsigned long long)((now_ns - maker->begin_ns) / DS_NS_PER_S), what, part);
}

/* The duration of each step as text for the log. */
static void steps_text(const struct maker *maker, char *ret, size_t size)
{
        size_t n = 0;

        ret[0] = '\0';
        for (uint32_t i = 0; i < maker->n_steps && n < size; i++)
                n += (size_t)snprintf(ret + n, size - n, "%s%s %llu", i ? ", " : "", maker->steps[i].what,
                        (unsigned long long)(maker->steps[i].ns / DS_NS_PER_MS));
}

/* --- slabs -------------------------------------------------------------------------------------------------------- */

/* Chooses slabs of whole pages. They are as small as the limit on the number of files allows. */
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
                return none(maker, "the device has too little free memory");
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
        for (uint32_t i = 0; !r && i < maker->pool->facts.n_slabs; i++) {
                make_progress(maker, "taking memory", i, maker->pool->facts.n_slabs);
                r = make_slab(maker, i);
        }
        return r;
}

/* --- channel labels ----------------------------------------------------------------------------------------------- */

/* Returns a stream of a rung that covers the whole device. */
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

static int make_labels(struct maker *maker, const struct ds_worker_config *config)
{
        const ds_worker *worker = maker->worker;
        const struct ds_device_info *info = worker->info;
        const struct ds_bench_site site = {
                .ops = worker->ops, .device = worker->device, .stream = make_stream(worker), .space = maker->space};
        char model[80];
        const struct ds_pages_ask ask = {.model = model,
                .lut_dir = config->lut_dir,
                .lut_dir_fd = config->lut_dir_fd,
                .progress = make_progress,
                .user = maker};
        int r;

        snprintf(model, sizeof(model), "%s%s", info->simulated ? "sim:" : "",
                info->simulated ? info->model : info->name);
        r = ds_pages_label(&site, &ask, maker->pages, maker->n_pages, &maker->labels);
        return r == DS_PAGES_E_NONE ? none(maker, "%s", maker->labels.why) : r;
}

/* --- the result --------------------------------------------------------------------------------------------------- */

static int make_plan(struct maker *maker, uint8_t **ret_classes)
{
        struct ds_pool_file *facts = &maker->pool->facts;
        const struct ds_sectors_labels labels = {.channel = maker->labels.channel,
                .n_granules = maker->n_pages * maker->labels.granules,
                .granule_bits = maker->labels.granule_bits,
                .n_channels = maker->labels.n_channels};
        struct ds_sectors_plan plan;
        int r;

        if (maker->measured && maker->share.of != labels.n_channels)
                return none(maker,
                        "best effort's share was measured with %u channels, but this device has %u: run detsharectl "
                        "calibrate",
                        maker->share.of, labels.n_channels);
        r = ds_sectors_plan(&labels, maker->share, DS_PTX_COLOUR_SECTOR_MIN, DS_SECTORS_LOST_PERMILLE, &plan);

        if (r == DS_SECTORS_E_SHARE)
                return none(maker, "best effort's share does not fit %u channels", labels.n_channels);
        if (r)
                return r < 0 ? ds_error_trace(r) : none(maker, "the channel labels are inconsistent");
        *ret_classes = ds_alloc(labels.n_granules);
        if (!*ret_classes)
                return ds_error_origin(-ENOMEM);
        ds_sectors_classify(&labels, &plan, *ret_classes);
        facts->magic = DS_POOL_MAGIC;
        facts->version = DS_WIRE_VERSION;
        facts->sector_bits = plan.sector_bits;
        facts->granule_bits = labels.granule_bits;
        facts->n_channels = labels.n_channels;
        facts->n_be = plan.n_be;
        facts->be_permille = plan.be_permille;
        facts->ls_permille = plan.ls_permille;
        facts->lost_permille = plan.lost_permille;
        memcpy(facts->be_set, plan.be.word, sizeof(plan.be.word));
        memcpy(facts->provenance, maker->labels.source, sizeof(facts->provenance));
        return 0;
}

/* The share of the channels measured on this GPU model, for example "15/47". NULL: no share is worth it there. */
static const char *pool_measured(const ds_worker *worker, const struct ds_worker_config *config)
{
        const struct ds_device_info *info = worker->info;
        char name[96];
        const size_t n = (size_t)snprintf(name, sizeof(name), "%s/%u=", info->name, info->n_sms);

        for (uint32_t i = 0; i < config->n_pool_for; i++)
                if (!strncmp(config->pool_for[i], name, n))
                        return config->pool_for[i] + n;
        return NULL;
}

static int make_all(struct maker *maker, const struct ds_worker_config *config, const char *share)
{
        ds_cleanup(ds_freep) uint8_t *classes = NULL;
        int r;

        if (!share || ds_sectors_share_read(share, &maker->share))
                return none(maker, "best effort's share of the channels is not given");
        make_sizes(maker, config->pool_bytes);
        if (!maker->n_pages)
                return none(maker, "its size must be at least 2 MiB");
        r = make_slabs(maker);
        if (!r)
                r = make_labels(maker, config);
        if (!r) {
                make_progress(maker, "choosing sectors", 0, 0);
                r = make_plan(maker, &classes);
        }
        return r ? r : ds_error_trace(dsw_pool_file_make(&maker->pool->facts, classes, &maker->pool->file));
}

/* Unmaps the slabs: a slab without a borrower is mapped in no space. */
static void make_end(struct maker *maker)
{
        const struct ds_device_ops *ops = maker->worker->ops;
        ds_device *device = maker->worker->device;
        const struct ds_pool_file *facts = &maker->pool->facts;

        ds_free(maker->pages);
        ds_pages_deinit(&maker->labels);
        /* removing the space unmaps all slabs in it */
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
        const char *share = config->pool_be;
        char steps[256];
        int r;

        if (!config->pool_bytes)
                return 0;
        if (share && !strcmp(share, "auto")) {
                share = pool_measured(worker, config);
                if (!share)
                        return 0; /* no pool; the supervisor logs the reason */
                maker.measured = 1;
        }
        maker.begin_ns = maker.said_ns = worker->wall_ns();
        r = make_all(&maker, config, share);
        make_end(&maker);
        make_progress(&maker, "the rest", 0, 0);
        steps_text(&maker, steps, sizeof(steps));
        if (r == POOL_E_NONE) {
                ds_log(DS_LOG_ERROR, "no pool of coloured memory: %s", maker.why);
                return 0;
        }
        if (r)
                return ds_error_trace(r);
        ds_log(DS_LOG_INFO,
                "coloured memory: %llu MiB, %u of %u channels for best effort, sectors of %u bytes, %u.%u%% lost; %s; "
                "found in %llu ms (%s)",
                (unsigned long long)(facts->n_slabs * facts->slab_bytes / DS_MIB(1)), facts->n_be, facts->n_channels,
                1u << facts->sector_bits, facts->lost_permille / 10, facts->lost_permille % 10, facts->provenance,
                (unsigned long long)((worker->wall_ns() - maker.begin_ns) / DS_NS_PER_MS), steps);
        return 0;
}
