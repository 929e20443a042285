/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of graphs
 */
#include "cuda/capture.h"
#include "cuda/event.h"
#include "cuda/exec.h"

static CUresult enter(CUgraphExec handle, CUstream stream, struct dcu_exec **ret, uint32_t *ret_slot)
{
        struct dcu_context *context, *owner;
        CUresult r = dcu_enter_any(&context);

        if (r != CUDA_SUCCESS)
                return r;
        *ret = dcu_object_of(handle, DCU_GRAPH_EXEC);
        if (!*ret)
                return CUDA_ERROR_INVALID_VALUE;
        return dcu_stream_slot(stream, context, ret_slot, &owner);
}

/* --- memory that the graph allocates and frees --- */

static int is_freed(const struct dcu_graph *graph, const struct dcu_graph_memory *memory)
{
        for (uint32_t i = 0; i < graph->n_nodes; i++) {
                const struct dcu_work *work = graph->nodes[i]->work;

                if (work->type == CU_GRAPH_NODE_TYPE_MEM_FREE && work->memory.memory == memory)
                        return 1;
        }
        return 0;
}

/* CUDA_ERROR_INVALID_VALUE if memory that an earlier launch allocated is still live and the graph was not
 * instantiated with AUTO_FREE_ON_LAUNCH. */
static CUresult check_memory(const struct dcu_exec *exec)
{
        for (uint32_t i = 0; i < exec->graph->n_nodes; i++) {
                const struct dcu_work *work = exec->graph->nodes[i]->work;

                if (work->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || !work->memory.memory->live)
                        continue;
                if (!(exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
                        return CUDA_ERROR_INVALID_VALUE;
        }
        return CUDA_SUCCESS;
}

static CUresult take_memory(const struct dcu_exec *exec)
{
        const struct dcu_graph *graph = exec->graph;
        CUresult r = CUDA_SUCCESS;

        if (!graph->n_memory)
                return r;
        pthread_mutex_lock(&dcu.lock);
        r = check_memory(exec);
        for (uint32_t i = 0; i < graph->n_nodes && r == CUDA_SUCCESS; i++) {
                const struct dcu_work *work = graph->nodes[i]->work;

                if (work->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && !is_freed(graph, work->memory.memory))
                        dcu_graph_memory_live(work->memory.memory, 1);
                if (work->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
                        dcu_graph_memory_live(work->memory.memory, 0);
        }
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

/* --- order of launches ------------ */

/* Waits for the previous launch, and for the events that nodes wait for. */
static CUresult wait_for_others(const struct dcu_exec *exec, uint32_t slot)
{
        const struct dcu_exec_build *build = exec->build;
        CUresult r = CUDA_SUCCESS;

        if (exec->launched && exec->slot != slot && exec->launch_epoch == build->epoch)
                r = dcu_result(dsc_stream_wait(dcu.session, slot, exec->slot, exec->seq));
        for (uint32_t i = 0; i < build->n_waits && r == CUDA_SUCCESS; i++) {
                struct dcu_event_record recorded = {0};

                /* a destroyed event is not waited for */
                if (dcu_event_recorded(build->waits[i], &recorded) != CUDA_SUCCESS)
                        continue;
                if (recorded.shared)
                        r = dcu_result(dsc_shared_stream_wait(dcu.session, slot, recorded.shared));
                else if (recorded.valid)
                        r = dcu_result(dsc_stream_wait(dcu.session, slot, recorded.slot, recorded.seq));
        }
        return r;
}

static void set_events(const struct dcu_exec *exec)
{
        const struct dcu_exec_build *build = exec->build;

        for (uint32_t i = 0; i < build->n_records; i++) {
                struct dcu_event *event = dcu_object_of(build->records[i], DCU_EVENT);

                if (event)
                        dcu_event_set(event, exec->slot, exec->seq);
        }
}

/* Marks the exec as stale if an event that one of its nodes records was destroyed: the daemon's copy must not refer
 * to the event any more. */
static void look_at_events(struct dcu_exec *exec)
{
        const struct dcu_exec_build *build = exec->build;

        for (uint32_t i = 0; build && i < build->n_records; i++) {
                if (!dcu_object_of(build->records[i], DCU_EVENT))
                        exec->stale = 1;
        }
}

static CUresult launch_locked(struct dcu_exec *exec, uint32_t slot)
{
        uint64_t seq;
        CUresult r;

        look_at_events(exec);
        if (exec->n_changed && !dsc_graph_changes_max(dcu.session))
                exec->stale = 1;
        r = dcu_exec_refresh(exec);
        if (r == CUDA_SUCCESS)
                r = take_memory(exec);
        if (r == CUDA_SUCCESS)
                r = wait_for_others(exec, slot);
        if (r == CUDA_SUCCESS)
                r = dcu_exec_launch(exec, slot, &seq);
        if (r != CUDA_SUCCESS)
                return r;
        exec->launched = 1;
        exec->slot = slot;
        exec->seq = seq;
        exec->launch_epoch = exec->build->epoch;
        set_events(exec);
        return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
        struct dcu_exec *exec;
        uint32_t slot;
        CUresult r = enter(hGraphExec, hStream, &exec, &slot);

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&exec->lock);
        r = launch_locked(exec, slot);
        pthread_mutex_unlock(&exec->lock);
        if (r == CUDA_SUCCESS && __builtin_expect(dcu.launch_blocking, 0))
                r = dcu_stream_drain(slot);
        return r;
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
        struct dcu_exec *exec;
        uint32_t slot;
        CUresult r = enter(hGraphExec, hStream, &exec, &slot);

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&exec->lock);
        r = dcu_exec_refresh(exec);
        pthread_mutex_unlock(&exec->lock);
        return r;
}
