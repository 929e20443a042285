/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instantiated graphs: creation, change, destruction
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/capture.h"
#include "cuda/event.h"
#include "cuda/exec.h"

#define FLAGS                                                                                               \
        ((cuuint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | \
                CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

static struct dcu_exec_build *waiting; /* retired builds that a launch may still use; protected by dcu.lock */

static struct dcu_exec *exec_of(CUgraphExec handle)
{
        return dcu_object_of(handle, DCU_GRAPH_EXEC);
}

/* --- builds that no new launch uses --- */

static int is_over(const struct dcu_exec_build *build)
{
        return !build->launch_epoch || build->launch_epoch != atomic_load(&dcu.epoch) ||
               dsc_peek(dcu.session, build->slot, build->seq) != CUDA_ERROR_NOT_READY;
}

/* Frees retired builds whose last launch has ended. With dcu.lock held. */
static void reap(void)
{
        struct dcu_exec_build **place = &waiting;

        while (*place) {
                struct dcu_exec_build *build = *place;

                if (!is_over(build)) {
                        place = &build->next;
                        continue;
                }
                *place = build->next;
                if (build->graph)
                        dcu_graph_free(build->graph);
                dcu_exec_build_free(build);
        }
}

static void *reap_in_turn(void *argument)
{
        pthread_mutex_lock(&dcu.lock);
        reap();
        dcu_graphs_unlock();
        return argument;
}

/*
 * Host function that runs after the last launch and frees retired builds. The thread that holds dcu.lock may be waiting
 * for all work, including this function. So this function never waits for the lock: if the lock is taken, it starts a
 * thread that does.
 */
static void reap_later(void *argument)
{
        pthread_t thread;

        (void)argument;
        if (pthread_mutex_trylock(&dcu.lock) == 0) {
                reap();
                dcu_graphs_unlock();
        } else if (pthread_create(&thread, NULL, reap_in_turn, NULL) == 0) {
                pthread_detach(thread);
        }
}

/* Puts the build on the list of retired builds: later launches of the exec do not use it. With dcu.lock held. */
static void retire(struct dcu_exec *exec, struct dcu_exec_build *build)
{
        build->slot = exec->slot;
        build->seq = exec->seq;
        build->launch_epoch = exec->launched ? exec->launch_epoch : 0;
        build->next = waiting;
        waiting = build;
        reap();
}

/* --- the daemon's copy ------------ */

/* Creates the daemon's graph from the file, or updates the daemon's graph of the old build if the daemon accepts
 * that. */
static CUresult send(const struct dcu_exec_build *old, struct dcu_exec_build *build, const void *file, size_t bytes)
{
        if (old && old->id && old->epoch == build->epoch && old->n_nodes == build->n_nodes &&
                dsc_graph_update(dcu.session, old->id, file, bytes) == 0) {
                build->id = old->id;
                return CUDA_SUCCESS;
        }
        return dcu_result(dsc_graph_create(dcu.session, file, bytes, &build->id));
}

/* With exec->lock held. */
CUresult dcu_exec_refresh(struct dcu_exec *exec)
{
        struct dcu_exec_build *build, *old = exec->build;
        size_t bytes;
        void *file;
        CUresult r;

        if (old && !exec->stale && old->epoch == atomic_load(&dcu.epoch))
                return CUDA_SUCCESS;
        r = dcu_exec_file(exec->graph, &file, &bytes, &build);
        if (r != CUDA_SUCCESS)
                return r;
        r = send(old, build, file, bytes);
        free(file);
        if (r != CUDA_SUCCESS) {
                dcu_exec_build_free(build);
                return r;
        }
        if (old && old->id != build->id && old->epoch == build->epoch)
                (void)dsc_graph_release(dcu.session, old->id);
        exec->build = build;
        exec->stale = 0;
        dcu_exec_unchanged(exec);
        if (old) {
                pthread_mutex_lock(&dcu.lock);
                retire(exec, old);
                dcu_graphs_unlock();
        }
        return CUDA_SUCCESS;
}

/* --- instantiate --- */

/*
 * sign > 0: marks the graph's memory as used by an instantiated graph; an error if another one uses it. sign < 0:
 * removes the mark. With dcu.lock held.
 */
static CUresult claim_memory(const struct dcu_graph *graph, int sign)
{
        for (uint32_t i = 0; i < graph->n_nodes; i++) {
                const struct dcu_work *work = graph->nodes[i]->work;

                if (work->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
                        continue;
                if (sign > 0 && work->memory.memory->instances)
                        return CUDA_ERROR_NOT_SUPPORTED;
                work->memory.memory->instances = sign > 0;
        }
        return CUDA_SUCCESS;
}

/* A node that can never run because it is in a cycle, to report to the program; NULL: there is no cycle. */
static CUgraphNode stuck_node(const struct dcu_graph *graph)
{
        for (uint32_t i = graph->n_nodes; i-- > 0;) {
                if (graph->nodes[i]->count)
                        return dcu_handle(graph->nodes[i]);
        }
        return NULL;
}

static CUresult check_order(const struct dcu_graph *graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
        struct dcu_node **order;
        CUresult r = dcu_graph_order(graph, &order);

        if (r == CUDA_SUCCESS)
                free(order);
        for (uint32_t i = 0; i < graph->n_nodes && r == CUDA_SUCCESS; i++) {
                if (graph->nodes[i]->work->type == CU_GRAPH_NODE_TYPE_GRAPH)
                        r = check_order(graph->nodes[i]->work->child, params);
        }
        if (r == CUDA_ERROR_INVALID_VALUE && !params->hErrNode_out) {
                params->result_out = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
                params->hErrNode_out = stuck_node(graph);
        }
        return r;
}

/* Instantiates the graph. With dcu.lock held. */
static CUresult make_exec(CUgraph handle, CUDA_GRAPH_INSTANTIATE_PARAMS *params, struct dcu_exec **ret)
{
        const struct dcu_graph *graph = dcu_graph_of(handle);
        struct dcu_graph *clone;
        struct dcu_exec *exec;
        CUresult r;

        if (!graph || graph->parent)
                return CUDA_ERROR_INVALID_VALUE;
        if (graph->capture)
                return CUDA_ERROR_ILLEGAL_STATE;
        r = check_order(graph, params);
        if (r == CUDA_SUCCESS)
                r = claim_memory(graph, 1);
        if (r != CUDA_SUCCESS)
                return r;
        r = dcu_graph_clone(graph, &clone);
        exec = r == CUDA_SUCCESS ? dcu_object_new(DCU_GRAPH_EXEC, sizeof(*exec), NULL) : NULL;
        if (!exec) {
                claim_memory(graph, -1);
                if (r == CUDA_SUCCESS)
                        dcu_graph_free(clone);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        pthread_mutex_init(&exec->lock, NULL);
        exec->graph = clone;
        exec->flags = params->flags;
        *ret = exec;
        return CUDA_SUCCESS;
}

/* Frees the instantiated graph and retires its build. With dcu.lock held. */
static void free_exec(struct dcu_exec *exec)
{
        struct dcu_exec_build *build = exec->build;

        claim_memory(exec->graph, -1);
        free(exec->changed);
        if (build) {
                if (build->epoch == atomic_load(&dcu.epoch))
                        (void)dsc_graph_release(dcu.session, build->id);
                build->graph = exec->graph;
                retire(exec, build);
        } else {
                dcu_graph_free(exec->graph);
        }
        pthread_mutex_destroy(&exec->lock);
        dcu_object_free(&exec->head);
}

static CUresult instantiate(CUgraphExec *ret, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
        struct dcu_context *context;
        struct dcu_exec *exec;
        CUresult r = dcu_enter(&context);

        params->hErrNode_out = NULL;
        params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
        if (r == CUDA_SUCCESS && (!ret || (params->flags & ~FLAGS)))
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS && (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)) {
                params->result_out = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
                r = CUDA_ERROR_NOT_SUPPORTED;
        }
        if (r == CUDA_SUCCESS)
                r = dcu_capture_unsafe();
        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        reap();
        r = make_exec(graph, params, &exec);
        dcu_graphs_unlock();
        if (r != CUDA_SUCCESS)
                return r;
        r = dcu_exec_refresh(exec);
        if (r != CUDA_SUCCESS) {
                pthread_mutex_lock(&dcu.lock);
                free_exec(exec);
                dcu_graphs_unlock();
                return r;
        }
        params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
        *ret = dcu_handle(exec);
        return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
        CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = flags};

        /* the flag needs a stream for the upload, and this call has no stream argument */
        if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
                return CUDA_ERROR_INVALID_VALUE;
        return instantiate(phGraphExec, hGraph, &params);
}

CUresult cuGraphInstantiateWithParams(
        CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
        CUresult r;

        if (!instantiateParams)
                return CUDA_ERROR_INVALID_VALUE;
        r = instantiate(phGraphExec, hGraph, instantiateParams);
        if (r == CUDA_SUCCESS && (instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
                r = cuGraphUpload(*phGraphExec, instantiateParams->hUploadStream);
        return r;
}

CUresult cuGraphInstantiate_v2(
        CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
        CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = 0};
        CUresult r = instantiate(phGraphExec, hGraph, &params);

        if (phErrorNode)
                *phErrorNode = params.hErrNode_out;
        if (logBuffer && bufferSize)
                logBuffer[0] = 0;
        return r;
}

CUresult cuGraphInstantiate(
        CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
        return cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

/* Frees the builds of a graph with user objects right after its last launch, so that destructors of user objects run
 * without another CUDA call. */
static void reap_at_end(const struct dcu_exec *exec)
{
        uint64_t id;

        if (!exec->launched || exec->launch_epoch != atomic_load(&dcu.epoch) || !waiting)
                return;
        if (dsc_host_register(dcu.session, reap_later, NULL, 1, &id) == 0)
                (void)dsc_host_call(dcu.session, exec->slot, id, NULL);
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
        struct dcu_exec *exec;
        CUresult r = dcu_enter_process();

        if (r == CUDA_SUCCESS)
                r = dcu_capture_unsafe();
        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        exec = exec_of(hGraphExec);
        if (exec) {
                struct dcu_exec last = {.launched = exec->launched && exec->graph->n_users,
                        .slot = exec->slot,
                        .launch_epoch = exec->launch_epoch};

                free_exec(exec);
                reap_at_end(&last);
        }
        dcu_graphs_unlock();
        return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
        const struct dcu_exec *exec = exec_of(hGraphExec);
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!exec || !flags)
                return CUDA_ERROR_INVALID_VALUE;
        *flags = exec->flags & ~(cuuint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
        return CUDA_SUCCESS;
}

/* --- change --- */

static struct dcu_node *search(const struct dcu_graph *clone, CUgraphNode original)
{
        for (uint32_t i = 0; i < clone->n_nodes; i++) {
                if (clone->nodes[i]->original == original)
                        return clone->nodes[i];
        }
        return NULL;
}

/* The clone's node that corresponds to a node, also within child graphs. With dcu.lock held. */
static struct dcu_node *counterpart(const struct dcu_graph *clone, const struct dcu_node *node)
{
        const struct dcu_node *parent;
        CUgraphNode handle = dcu_handle(node);

        if (node->graph->parent) {
                parent = counterpart(clone, node->graph->parent);
                if (!parent || parent->work->type != CU_GRAPH_NODE_TYPE_GRAPH)
                        return NULL;
                clone = parent->work->child;
        }
        if (node->index < clone->n_nodes && clone->nodes[node->index]->original == handle)
                return clone->nodes[node->index];
        return search(clone, handle);
}

/* Replaces the work of one node. With exec->lock and dcu.lock held. */
static CUresult set_locked(struct dcu_exec *exec, CUgraphNode handle, struct dcu_work **work)
{
        const struct dcu_node *node = dcu_node_of(handle);
        struct dcu_node *own = node ? counterpart(exec->graph, node) : NULL;
        CUgraphExecUpdateResultInfo info;
        enum dcu_difference difference;
        struct dcu_work *old;

        if (!own || dcu_work_change(own->work, *work) != CU_GRAPH_EXEC_UPDATE_SUCCESS)
                return CUDA_ERROR_INVALID_VALUE;
        if (own->work->type == CU_GRAPH_NODE_TYPE_GRAPH)
                return dcu_graph_compare(own->work->child, (*work)->child, &info) == CU_GRAPH_EXEC_UPDATE_SUCCESS
                               ? dcu_graph_take_over(exec, own->work->child, (*work)->child)
                               : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
        difference = dcu_work_difference(own->work, *work);
        old = own->work;
        own->work = *work;
        *work = old;
        dcu_exec_changed(exec, own, difference);
        return CUDA_SUCCESS;
}

CUresult dcu_exec_set(CUgraphExec handle, CUgraphNode node, CUresult r, struct dcu_work *work)
{
        struct dcu_exec *exec = exec_of(handle);

        if (r != CUDA_SUCCESS)
                return r;
        if (!exec) {
                dcu_work_drop_unlocked(work);
                return CUDA_ERROR_INVALID_VALUE;
        }
        pthread_mutex_lock(&exec->lock);
        pthread_mutex_lock(&dcu.lock);
        r = set_locked(exec, node, &work);
        dcu_work_drop(work);
        dcu_graphs_unlock();
        pthread_mutex_unlock(&exec->lock);
        return r;
}

static CUresult update_locked(struct dcu_exec *exec, CUgraph handle, CUgraphExecUpdateResultInfo *info)
{
        const struct dcu_graph *graph = dcu_graph_of(handle);
        CUresult r;

        *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
        if (!graph || graph->parent)
                return CUDA_ERROR_INVALID_VALUE;
        info->result = dcu_graph_compare(exec->graph, graph, info);
        if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
                return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
        r = dcu_graph_take_over(exec, exec->graph, graph);
        if (r != CUDA_SUCCESS)
                info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
        return r;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
        struct dcu_exec *exec = exec_of(hGraphExec);
        CUresult r = dcu_enter_process();

        if (r == CUDA_SUCCESS && (!exec || !resultInfo))
                r = CUDA_ERROR_INVALID_VALUE;
        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&exec->lock);
        pthread_mutex_lock(&dcu.lock);
        r = update_locked(exec, hGraph, resultInfo);
        dcu_graphs_unlock();
        pthread_mutex_unlock(&exec->lock);
        return r;
}

CUresult cuGraphExecUpdate(
        CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out, CUgraphExecUpdateResult *updateResult_out)
{
        CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
        CUresult r = cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);

        if (hErrorNode_out)
                *hErrorNode_out = info.errorNode;
        if (updateResult_out)
                *updateResult_out = info.result;
        return r;
}

static int can_be_disabled(const struct dcu_node *node)
{
        return node->work->type == CU_GRAPH_NODE_TYPE_KERNEL || node->work->type == CU_GRAPH_NODE_TYPE_MEMCPY ||
               node->work->type == CU_GRAPH_NODE_TYPE_MEMSET;
}

/* Queries (set < 0) or sets whether the node is enabled. */
static CUresult enabled(CUgraphExec handle, CUgraphNode node, int set, unsigned int *ret)
{
        struct dcu_exec *exec = exec_of(handle);
        struct dcu_node *own;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!exec)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&exec->lock);
        pthread_mutex_lock(&dcu.lock);
        own = dcu_node_of(node) ? counterpart(exec->graph, dcu_node_of(node)) : NULL;
        if (!own || !can_be_disabled(own)) {
                r = CUDA_ERROR_INVALID_VALUE;
        } else if (set < 0) {
                *ret = !own->disabled;
        } else if (own->disabled != !set) {
                own->disabled = !set;
                exec->stale = 1;
        }
        pthread_mutex_unlock(&dcu.lock);
        pthread_mutex_unlock(&exec->lock);
        return r;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
        return enabled(hGraphExec, hNode, isEnabled != 0, NULL);
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
        return isEnabled ? enabled(hGraphExec, hNode, -1, isEnabled) : CUDA_ERROR_INVALID_VALUE;
}
