/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operation views and their sliding array
 *
 * The array is twice as long as what a policy may see. Views move towards its end as operations leave, and are copied
 * back to the front once per DETSHARE_AHEAD_MAX operations.
 */
#include "sched/ahead.h"

#include <assert.h>
#include <string.h>

#include "device/cluster.h"
#include "sched/forms.h"
#include "sched/internal.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define AHEAD_SLOTS (2 * DETSHARE_AHEAD_MAX)

struct ds_ahead_slots {
        struct detshare_op_view views[AHEAD_SLOTS];
        uint32_t rows[AHEAD_SLOTS]; /* statistics row of each viewed operation */
};

static uint64_t saturating_mul(uint64_t a, uint64_t b)
{
        uint64_t product;

        return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint32_t product3(const uint32_t n[3])
{
        uint64_t product = saturating_mul(saturating_mul(n[0], n[1]), n[2]);

        return product > UINT32_MAX ? UINT32_MAX : (uint32_t)product;
}

static uint64_t op_bytes(const struct ds_op *op)
{
        if (op->kind == DS_OP_COPY)
                return saturating_mul(op->copy.width, op->copy.height);
        return saturating_mul(saturating_mul(op->memset.width, op->memset.height), op->memset.element_size);
}

/* Key of a copy or memset in the statistics: its kind and the power of two of its size, because durations are
 * measured per such group. */
static uint64_t transfer_key(const struct ds_op *op)
{
        uint64_t bytes = op_bytes(op);
        uint64_t size_class = bytes > 1 ? 64 - (uint64_t)__builtin_clzll(bytes - 1) : 0;
        uint64_t kind = op->kind == DS_OP_COPY ? (uint64_t)op->copy.kind : (uint64_t)_DS_COPY_MAX;

        return ds_kstat_mix(0x7472616e73666572ULL + kind, size_class);
}

static uint64_t launch_key(uint64_t hash, const struct ds_launch *launch)
{
        uint64_t key = ds_kstat_mix(hash ? hash : (uint64_t)(uintptr_t)launch->kernel, launch->shared_bytes);

        for (int i = 0; i < 3; i++)
                key = ds_kstat_mix(key, (uint64_t)launch->grid[i] << 32 | launch->block[i]);
        for (int i = 0; i < 3 && launch->cluster[i]; i++)
                key = ds_kstat_mix(key, launch->cluster[i]);
        return key;
}

uint64_t ds_launch_key(const ds_sched *sched, const struct ds_launch *launch)
{
        return launch_key(sched->ops->kernel_info(launch->kernel)->hash, launch);
}

int ds_ahead_reserve(struct ds_ahead *ahead)
{
        if (!ahead->slots)
                ahead->slots = ds_alloc(sizeof(*ahead->slots));
        return ahead->slots ? 0 : -ENOMEM;
}

void ds_ahead_deinit(struct ds_ahead *ahead)
{
        ahead->slots = ds_free(ahead->slots);
}

static uint64_t op_key(const ds_sched *sched, const struct ds_op *op)
{
        if (op->kind == DS_OP_GRAPH)
                return op->graph->key;
        if (op->kind != DS_OP_LAUNCH)
                return transfer_key(op);
        if (op->kernel_key)
                return op->kernel_key;
        return op->forms && op->forms->identity ? launch_key(op->forms->identity, &op->launch)
                                                : ds_launch_key(sched, &op->launch);
}

uint64_t ds_sched_expected_ns(ds_sched *sched, const struct ds_op *op)
{
        uint64_t key = op_key(sched, op);
        const struct ds_kstat_row *row = ds_kstat_at(sched->kstat, ds_kstat_find(sched->kstat, key), key);

        return row && row->samples ? DS_MAX(row->mean_ns, UINT64_C(1)) : 0;
}

void ds_ahead_identify(ds_sched *sched, struct ds_op *op)
{
        struct ds_kstat_row *row;

        op->kernel_key = op_key(sched, op);
        op->cluster_blocks = 1;
        if (op->kind == DS_OP_GRAPH)
                op->cluster_blocks = op->graph->cluster_blocks;
        if (op->kind == DS_OP_LAUNCH)
                op->cluster_blocks = ds_device_cluster_blocks(sched->ops->kernel_info(op->launch.kernel), &op->launch);
        op->stat_row = ds_kstat_touch(sched->kstat, op->kernel_key);
        row = ds_kstat_at(sched->kstat, op->stat_row, op->kernel_key);
        assert(row);
        if (!row->seen && (op->kind == DS_OP_LAUNCH || op->kind == DS_OP_GRAPH) && !ds_op_is_piece(op))
                row->seen = (uint8_t)ds_seen_note(sched, op);
        if (op->kind == DS_OP_LAUNCH && !row->blocks_per_sm) {
                uint32_t blocks = ds_kstat_blocks_per_sm(sched->info, sched->ops->kernel_info(op->launch.kernel),
                        product3(op->launch.block), op->launch.shared_bytes);

                /* a block that does not fit an SM is refused by the device; until then the view shows it as filling
                 * one SM */
                row->blocks_per_sm = DS_MAX(blocks, 1);
        }
}

static void launch_view(ds_sched *sched, const struct ds_op *op, struct detshare_op_view *view)
{
        const struct ds_kstat_row *row = ds_kstat_at(sched->kstat, op->stat_row, op->kernel_key);

        view->kind = DETSHARE_OP_KERNEL;
        view->kernel = op->kernel_key;
        view->blocks = product3(op->launch.grid);
        view->threads = product3(op->launch.block);
        /* while the operation waited in a long queue, the row may have been given to another kernel */
        view->blocks_per_sm = row ? row->blocks_per_sm : 1;
        view->sms_needed = DS_MIN(DS_DIV_UP((uint64_t)view->blocks, view->blocks_per_sm), sched->info->n_sms);
        view->all_resident = ds_launch_all_resident(sched, &op->launch, view->blocks, view->blocks_per_sm);
        view->idempotent = sched->ops->kernel_info(op->launch.kernel)->idempotent;
        view->forms = ds_forms_of(sched, op, view);
        if (view->blocks)
                view->progress_permille = (uint32_t)((uint64_t)op->blocks_ran * 1000 / view->blocks);
}

static void graph_view(const struct ds_op *op, struct detshare_op_view *view)
{
        const struct ds_sched_graph *graph = op->graph;

        view->kind = DETSHARE_OP_KERNEL;
        view->kernel = op->kernel_key;
        view->blocks = graph->blocks;
        view->threads = graph->threads;
        view->blocks_per_sm = graph->blocks_per_sm;
        view->sms_needed = graph->sms_needed;
        view->all_resident = graph->all_resident;
        view->forms = DETSHARE_FORM_NATIVE | DETSHARE_FORM_GRAPH;
}

static void write_view(ds_sched *sched, const struct ds_op *op, struct detshare_op_view *view)
{
        *view = (struct detshare_op_view){.submitted_ns = op->submitted_ns, .phase = op->phase};
        if (op->kind == DS_OP_LAUNCH) {
                launch_view(sched, op, view);
                return;
        }
        if (op->kind == DS_OP_GRAPH) {
                graph_view(op, view);
                return;
        }
        view->kind = op->kind == DS_OP_COPY ? DETSHARE_OP_COPY : DETSHARE_OP_MEMSET;
        view->kernel = op->kernel_key;
        view->bytes = op_bytes(op);
}

static void ahead_push(ds_coroutine *coroutine, const struct ds_op *op)
{
        struct ds_ahead *ahead = &coroutine->ahead;
        struct ds_ahead_slots *slots = ahead->slots;
        uint32_t at = ahead->start + ahead->n;

        if (at == AHEAD_SLOTS) {
                memmove(slots->views, slots->views + ahead->start, ahead->n * sizeof(slots->views[0]));
                memmove(slots->rows, slots->rows + ahead->start, ahead->n * sizeof(slots->rows[0]));
                ahead->start = 0;
                at = ahead->n;
        }
        write_view(coroutine->sched, op, &slots->views[at]);
        slots->rows[at] = op->stat_row;
        ahead->n++;
}

void ds_ahead_fill(ds_coroutine *coroutine)
{
        struct ds_ahead *ahead = &coroutine->ahead;
        struct ds_op *op = ahead->scanned ? ahead->scanned->next : coroutine->boundary;

        for (; op && ahead->n < DETSHARE_AHEAD_MAX; op = op->next) {
                ahead->scanned = op;
                if (ds_op_is_work(op))
                        ahead_push(coroutine, op);
        }
}

void ds_ahead_pop(ds_coroutine *coroutine, const struct ds_op *op)
{
        struct ds_ahead *ahead = &coroutine->ahead;

        if (ahead->scanned == op)
                ahead->scanned = NULL;
        if (!ds_op_is_work(op))
                return;
        assert(ahead->n);
        ahead->start++;
        ahead->n--;
        if (!ahead->n)
                ahead->start = 0;
}

void ds_ahead_clear(struct ds_ahead *ahead)
{
        ahead->start = ahead->n = 0;
        ahead->scanned = NULL;
}

const struct detshare_op_view *ds_ahead_views(ds_coroutine *coroutine)
{
        struct ds_ahead *ahead = &coroutine->ahead;

        if (!ahead->n)
                return NULL;
        ds_kstat_show(coroutine->sched->kstat, ahead->slots->rows + ahead->start, ahead->slots->views + ahead->start,
                ahead->n);
        for (uint32_t i = ahead->start; i < ahead->start + ahead->n; i++)
                if (ahead->slots->views[i].forms & ~(DETSHARE_FORM_NATIVE | DETSHARE_FORM_GRAPH))
                        ds_forms_show(coroutine->sched, ahead->slots->rows[i], &ahead->slots->views[i]);
        return ahead->slots->views + ahead->start;
}
