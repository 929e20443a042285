/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Permitted changes of an instantiated graph
 *
 * Nodes of two graphs correspond if they have the same position in the order in which they can run. Graphs that were
 * built alike have the same order, whatever the order of adding edges. CUDA's rules say which members of a node may
 * differ.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/exec.h"
#include "cuda/range.h"

/* --- changes of one node ---------- */

static int is_flat(const CUDA_MEMCPY3D *c)
{
        return c->Height == 1 && c->Depth == 1;
}

static CUgraphExecUpdateResult copy_change(const CUDA_MEMCPY3D *from, const CUDA_MEMCPY3D *to)
{
        if (memcmp(from, to, sizeof(*from)) == 0)
                return CU_GRAPH_EXEC_UPDATE_SUCCESS;
        return is_flat(from) && is_flat(to) && from->srcMemoryType == to->srcMemoryType &&
                               from->dstMemoryType == to->dstMemoryType
                       ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                       : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

static CUgraphExecUpdateResult memset_change(
        const CUDA_MEMSET_NODE_PARAMS_v2 *from, const CUDA_MEMSET_NODE_PARAMS_v2 *to)
{
        int same_shape = from->width == to->width && from->height == to->height &&
                         from->elementSize == to->elementSize && (from->height == 1 || from->pitch == to->pitch);

        return same_shape || (from->height == 1 && to->height == 1) ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                                                    : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

static CUgraphExecUpdateResult memops_change(const struct dcu_work *from, const struct dcu_work *to)
{
        if (from->memops.count != to->memops.count || from->memops.ctx != to->memops.ctx)
                return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        for (unsigned int i = 0; i < from->memops.count; i++) {
                if (from->memops.paramArray[i].operation != to->memops.paramArray[i].operation)
                        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        }
        return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUgraphExecUpdateResult dcu_work_change(const struct dcu_work *from, const struct dcu_work *to)
{
        if (from->type != to->type)
                return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        switch (from->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
                return from->context == to->context ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                                    : CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
        case CU_GRAPH_NODE_TYPE_MEMCPY:
                return copy_change(&from->copy, &to->copy);
        case CU_GRAPH_NODE_TYPE_MEMSET:
                return memset_change(&from->memset, &to->memset);
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
                return memops_change(from, to);
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        case CU_GRAPH_NODE_TYPE_MEM_FREE:
                return from->memory.memory == to->memory.memory ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                                                : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
        default:
                return CU_GRAPH_EXEC_UPDATE_SUCCESS;
        }
}

/* --- graphs --- */

static int has_no_users(const struct dcu_node *node)
{
        return node->n_users == 0;
}

static CUgraphExecUpdateResult fail(CUgraphExecUpdateResultInfo *info, CUgraphExecUpdateResult result,
        const struct dcu_node *node, const struct dcu_node *from)
{
        info->result = result;
        info->errorNode = node ? dcu_handle(node) : NULL;
        info->errorFromNode = from ? dcu_handle(from) : NULL;
        return result;
}

/* Returns a node of `to` without dependents if `to` has more such nodes than `from`; else NULL. */
static const struct dcu_node *extra_end(const struct dcu_graph *from, const struct dcu_graph *to)
{
        const struct dcu_node *first = NULL;
        uint32_t ends = 0, known = 0;

        for (uint32_t i = 0; i < from->n_nodes; i++)
                known += (uint32_t)has_no_users(from->nodes[i]);
        for (uint32_t i = 0; i < to->n_nodes; i++) {
                if (has_no_users(to->nodes[i]) && ends++ == 0)
                        first = to->nodes[i];
        }
        return ends > known ? first : NULL;
}

/* Compares the dependencies of two nodes. `count` of each node is its position in the order. */
static CUgraphExecUpdateResult compare_edges(
        const struct dcu_node *from, const struct dcu_node *to, CUgraphExecUpdateResultInfo *info)
{
        if (from->n_deps != to->n_deps)
                return fail(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, to, NULL);
        for (uint32_t i = 0; i < to->n_deps; i++) {
                uint32_t k = 0;

                while (k < from->n_deps && from->deps[k].node->count != to->deps[i].node->count)
                        k++;
                if (k == from->n_deps)
                        return fail(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, to, to->deps[i].node);
        }
        return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUgraphExecUpdateResult compare_nodes(
        const struct dcu_node *from, const struct dcu_node *to, CUgraphExecUpdateResultInfo *info)
{
        CUgraphExecUpdateResult result = dcu_work_change(from->work, to->work);

        if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
                return fail(info, result, to, NULL);
        result = compare_edges(from, to, info);
        if (result == CU_GRAPH_EXEC_UPDATE_SUCCESS && to->work->type == CU_GRAPH_NODE_TYPE_GRAPH)
                result = dcu_graph_compare(from->work->child, to->work->child, info);
        return result;
}

static void number(struct dcu_node **order, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++)
                order[i]->count = i;
}

CUgraphExecUpdateResult dcu_graph_compare(
        struct dcu_graph *from, const struct dcu_graph *to, CUgraphExecUpdateResultInfo *info)
{
        struct dcu_node **a = NULL, **b = NULL;
        const struct dcu_node *extra;
        CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;

        if (from->n_nodes != to->n_nodes)
                return fail(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, NULL, NULL);
        if (dcu_graph_order(from, &a) != CUDA_SUCCESS || dcu_graph_order(to, &b) != CUDA_SUCCESS) {
                free(a);
                return fail(info, CU_GRAPH_EXEC_UPDATE_ERROR, NULL, NULL);
        }
        number(a, from->n_nodes);
        number(b, to->n_nodes);
        for (uint32_t i = 0; i < to->n_nodes && result == CU_GRAPH_EXEC_UPDATE_SUCCESS; i++) {
                if (a[i]->work->type != b[i]->work->type)
                        result = fail(info, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, b[i], NULL);
                extra = i == 0 ? extra_end(from, to) : NULL;
                if (result == CU_GRAPH_EXEC_UPDATE_SUCCESS && extra)
                        result = fail(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, extra, NULL);
                if (result == CU_GRAPH_EXEC_UPDATE_SUCCESS)
                        result = compare_nodes(a[i], b[i], info);
        }
        free(a);
        free(b);
        return result;
}

/* Clones those works that cannot be copied into the old ones, before any node changes, so that a failure changes
 * nothing. */
static CUresult clone_works(struct dcu_node **from, struct dcu_node **to, uint32_t n, struct dcu_work ***ret)
{
        struct dcu_work **works = calloc(n + 1, sizeof(struct dcu_work *));
        CUresult r = works ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

        for (uint32_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
                if (to[i]->work->type != CU_GRAPH_NODE_TYPE_GRAPH &&
                        dcu_work_difference(from[i]->work, to[i]->work) == DCU_LARGE)
                        r = dcu_work_clone(to[i]->work, &works[i]);
        }
        if (r != CUDA_SUCCESS) {
                for (uint32_t i = 0; works && i < n; i++) {
                        if (works[i])
                                dcu_work_drop(works[i]);
                }
                free(works);
                works = NULL;
        }
        *ret = works;
        return r;
}

/* Replaces the work of a node. clone: a copy of `work`, which the node takes; NULL if the difference is not LARGE. */
static CUresult take_work(
        struct dcu_exec *exec, struct dcu_node *node, const struct dcu_work *work, struct dcu_work *clone)
{
        enum dcu_difference difference = DCU_LARGE;

        if (work->type == CU_GRAPH_NODE_TYPE_GRAPH)
                return dcu_graph_take_over(exec, node->work->child, work->child);
        if (clone) {
                dcu_work_drop(node->work);
                node->work = clone;
        } else {
                difference = dcu_work_difference(node->work, work);
                if (difference == DCU_SMALL)
                        dcu_work_adopt(node->work, work);
        }
        dcu_exec_changed(exec, node, difference);
        return CUDA_SUCCESS;
}

/* The nodes in the order in which the comparison numbered them, a malloc'ed array; NULL: out of memory. */
static struct dcu_node **numbered(const struct dcu_graph *graph)
{
        struct dcu_node **order = malloc((graph->n_nodes + 1) * sizeof(struct dcu_node *));

        for (uint32_t i = 0; order && i < graph->n_nodes; i++)
                order[graph->nodes[i]->count] = graph->nodes[i];
        return order;
}

CUresult dcu_graph_take_over(struct dcu_exec *exec, struct dcu_graph *from, const struct dcu_graph *to)
{
        struct dcu_node **a = numbered(from), **b = numbered(to);
        struct dcu_work **works = NULL;
        uint32_t i = 0;
        CUresult r = a && b ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

        if (r == CUDA_SUCCESS)
                r = clone_works(a, b, to->n_nodes, &works);
        for (; i < to->n_nodes && r == CUDA_SUCCESS; i++)
                r = take_work(exec, a[i], b[i]->work, works[i]);
        for (; works && i < to->n_nodes; i++) {
                if (works[i])
                        dcu_work_drop(works[i]);
        }
        free(works);
        free(a);
        free(b);
        return r;
}
