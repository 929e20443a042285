/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of single nodes of instantiated graphs
 *
 * Frameworks update the parameters of a few kernels before each launch. Such changes travel with the launch, in the
 * ring. They need no request, and the daemon handles the changed nodes only. An update by a whole graph is compared
 * node
 * by node, so that it costs no more than its differences.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/exec.h"
#include "proto/wire.h"

/* --- differences ------------------ */

static enum dcu_difference kernel_difference(const struct dcu_kernel_work *a, const struct dcu_kernel_work *b)
{
        if (a->function != b->function || a->kernel != b->kernel || a->shared_bytes != b->shared_bytes ||
                a->params_size != b->params_size || a->n_params != b->n_params || a->n_attributes != b->n_attributes)
                return DCU_LARGE;
        if (a->n_attributes && memcmp(a->attributes, b->attributes, a->n_attributes * sizeof(*a->attributes)) != 0)
                return DCU_LARGE;
        return memcmp(a->grid, b->grid, sizeof(a->grid)) == 0 && memcmp(a->block, b->block, sizeof(a->block)) == 0 &&
                               memcmp(a->params, b->params, a->params_size) == 0
                       ? DCU_SAME
                       : DCU_SMALL;
}

static enum dcu_difference memops_difference(
        const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *a, const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *b)
{
        return a->count == b->count && a->flags == b->flags &&
                               memcmp(a->paramArray, b->paramArray, a->count * sizeof(*a->paramArray)) == 0
                       ? DCU_SAME
                       : DCU_LARGE;
}

enum dcu_difference dcu_work_difference(const struct dcu_work *from, const struct dcu_work *to)
{
        if (from->context != to->context)
                return DCU_LARGE;
        switch (from->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
                return kernel_difference(&from->kernel, &to->kernel);
        case CU_GRAPH_NODE_TYPE_MEMCPY:
                return memcmp(&from->copy, &to->copy, sizeof(from->copy)) == 0 ? DCU_SAME : DCU_SMALL;
        case CU_GRAPH_NODE_TYPE_MEMSET:
                return memcmp(&from->memset, &to->memset, sizeof(from->memset)) == 0 ? DCU_SAME : DCU_SMALL;
        case CU_GRAPH_NODE_TYPE_HOST:
                return from->host.fn == to->host.fn && from->host.userData == to->host.userData ? DCU_SAME : DCU_LARGE;
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
                return from->event == to->event ? DCU_SAME : DCU_LARGE;
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
                return memops_difference(&from->memops, &to->memops);
        case CU_GRAPH_NODE_TYPE_EMPTY:
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC: /* the memory is the same, else the change is not allowed */
        case CU_GRAPH_NODE_TYPE_MEM_FREE:
                return DCU_SAME;
        default:
                return DCU_LARGE;
        }
}

void dcu_work_adopt(struct dcu_work *work, const struct dcu_work *from)
{
        switch (work->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
                memcpy(work->kernel.grid, from->kernel.grid, sizeof(work->kernel.grid));
                memcpy(work->kernel.block, from->kernel.block, sizeof(work->kernel.block));
                memcpy(work->kernel.params, from->kernel.params, work->kernel.params_size);
                break;
        case CU_GRAPH_NODE_TYPE_MEMCPY:
                work->copy = from->copy;
                break;
        case CU_GRAPH_NODE_TYPE_MEMSET:
                work->memset = from->memset;
                break;
        default:
                break;
        }
}

/* --- the changed nodes ------------ */

void dcu_exec_changed(struct dcu_exec *exec, struct dcu_node *node, enum dcu_difference difference)
{
        if (difference == DCU_SAME || (difference == DCU_SMALL && node->changed))
                return;
        if (difference == DCU_LARGE || exec->stale || node->record == DCU_RECORD_NONE ||
                !dcu_array_grow(&exec->changed, &exec->changed_space, exec->n_changed, sizeof(struct dcu_node *))) {
                exec->stale = 1;
                return;
        }
        exec->changed[exec->n_changed++] = node;
        node->changed = 1;
}

void dcu_exec_unchanged(struct dcu_exec *exec)
{
        for (uint32_t i = 0; i < exec->n_changed; i++)
                exec->changed[i]->changed = 0;
        exec->n_changed = 0;
}

/* --- launches --------------------- */

static int by_record(const void *a, const void *b)
{
        const struct dcu_node *const *x = a, *const *y = b;

        return (*x)->record < (*y)->record ? -1 : (*x)->record > (*y)->record;
}

/* Sorts the changed nodes by their records, which is the order that the daemon accepts. */
static void sort_changed(struct dcu_exec *exec)
{
        for (uint32_t i = 1; i < exec->n_changed; i++) {
                if (exec->changed[i - 1]->record > exec->changed[i]->record) {
                        qsort(exec->changed, exec->n_changed, sizeof(struct dcu_node *), by_record);
                        return;
                }
        }
}

/* Bytes of the first changes that fit into one record; 0: the first one is too long. */
static size_t that_fit(const uint8_t *changes, size_t bytes, size_t max)
{
        size_t fit = 0;

        while (fit < bytes) {
                struct ds_graph_change change;

                memcpy(&change, changes + fit, sizeof(change));
                if (change.size > max - fit)
                        break;
                fit += change.size;
        }
        return fit;
}

/* Sends all changes but those that the launch takes along. */
static CUresult send_first(struct dcu_exec *exec, uint32_t slot, uint8_t **changes, size_t *bytes)
{
        const size_t max = dsc_graph_changes_max(dcu.session);
        CUresult r = CUDA_SUCCESS;

        while (r == CUDA_SUCCESS) {
                size_t fit = that_fit(*changes, *bytes, max);

                if (fit == *bytes)
                        return r;
                if (!fit)
                        return CUDA_ERROR_NOT_SUPPORTED;
                r = dcu_result(dsc_graph_change(dcu.session, slot, exec->build->id, *changes, fit));
                *changes += fit;
                *bytes -= fit;
        }
        return r;
}

/* Launches the graph with the changed nodes. CUDA_ERROR_NOT_SUPPORTED: the daemon needs a new file. */
static CUresult launch_changed(struct dcu_exec *exec, uint32_t slot, uint64_t *ret_seq)
{
        uint8_t *changes = NULL, *rest;
        size_t bytes = 0;
        CUresult r;

        sort_changed(exec);
        r = dcu_exec_changes(exec, &changes, &bytes);
        rest = changes;
        if (r == CUDA_SUCCESS)
                r = send_first(exec, slot, &rest, &bytes);
        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_graph_change_launch(dcu.session, slot, exec->build->id, rest, bytes, ret_seq));
        free(changes);
        if (r == CUDA_SUCCESS)
                dcu_exec_unchanged(exec);
        return r;
}

CUresult dcu_exec_launch(struct dcu_exec *exec, uint32_t slot, uint64_t *ret_seq)
{
        CUresult r;

        if (exec->n_changed) {
                r = launch_changed(exec, slot, ret_seq);
                if (r != CUDA_ERROR_NOT_SUPPORTED)
                        return r;
                exec->stale = 1;
                r = dcu_exec_refresh(exec);
                if (r != CUDA_SUCCESS)
                        return r;
        }
        return dcu_result(dsc_graph_launch(dcu.session, slot, exec->build->id, ret_seq));
}
