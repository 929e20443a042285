/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that graphs allocate
 *
 * An allocation node has memory of its own from its addition on: its address is the same at every launch, and used for
 * nothing else. A launch makes the allocation live; a free (a node, or a call outside of graphs) ends that. A graph
 * with live memory cannot be launched again, unless it was instantiated to free it. The memory returns to the daemon
 * when neither a node nor a live allocation needs it.
 */
#include <stdlib.h>

#include "cuda/capture.h"
#include "cuda/graph.h"
#include "cuda/range.h"

static struct dcu_graph_memory *all;
static _Atomic uint32_t n_all;
/* Memory of graphs, bytes: in use, most that was in use, most that was reserved. All memory counts as reserved and
 * used, because none is cached. The program can reset the two maxima separately. */
static uint64_t used, used_high, reserved_high;

static void account(uint64_t bytes, int sign)
{
        used += sign > 0 ? bytes : -bytes;
        if (used > used_high)
                used_high = used;
        if (used > reserved_high)
                reserved_high = used;
}

struct dcu_graph_memory *dcu_graph_memory_find(uint64_t base)
{
        struct dcu_graph_memory *memory = all;

        while (memory && memory->base != base)
                memory = memory->next;
        return memory;
}

static void give_back(uint64_t base, uint32_t epoch)
{
        struct dcu_range range;

        /* the end of the context may have freed the memory already */
        if (epoch == atomic_load(&dcu.epoch) && dcu_range_remove(base, 1u << DCU_RANGE_DEVICE, &range))
                (void)dsc_mem_free(dcu.session, base);
}

void dcu_graph_memory_drop(struct dcu_graph_memory *memory)
{
        struct dcu_graph_memory **place = &all;

        if (--memory->references)
                return;
        while (*place != memory)
                place = &(*place)->next;
        *place = memory->next;
        atomic_fetch_sub(&n_all, 1);
        account(memory->size, -1);
        give_back(memory->base, memory->epoch);
        free(memory);
}

void dcu_graph_memory_live(struct dcu_graph_memory *memory, int live)
{
        if (memory->live == live)
                return;
        memory->live = live;
        if (live)
                memory->references++;
        else
                dcu_graph_memory_drop(memory);
}

int dcu_graph_memory_freed(CUdeviceptr address, CUresult *ret)
{
        struct dcu_graph_memory *memory;

        if (atomic_load(&n_all) == 0)
                return 0;
        pthread_mutex_lock(&dcu.lock);
        memory = dcu_graph_memory_find(address);
        if (memory) {
                *ret = memory->live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
                dcu_graph_memory_live(memory, 0);
        }
        pthread_mutex_unlock(&dcu.lock);
        return memory != NULL;
}

/* Allocates memory of the context for an allocation node and adds its range. */
static CUresult take(struct dcu_context *context, uint64_t bytes, struct dcu_graph_memory *memory)
{
        struct dcu_range range = {.size = bytes, .kind = DCU_RANGE_DEVICE, .sync_memops = 1, .owner = context};
        CUresult r = dcu_result(dsc_mem_alloc(dcu.session, bytes, &range.base));

        if (r != CUDA_SUCCESS)
                return r;
        memory->base = range.base;
        memory->size = bytes;
        memory->epoch = atomic_load(&dcu.epoch);
        memory->references = 1;
        r = dcu_range_add(&range);
        if (r != CUDA_SUCCESS)
                (void)dsc_mem_free(dcu.session, range.base);
        return r;
}

CUresult dcu_work_alloc(CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params, struct dcu_work **ret)
{
        struct dcu_graph_memory *memory;
        struct dcu_context *context;
        struct dcu_work *work;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (params->bytesize == 0 || params->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
                params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE || params->poolProps.location.id != 0 ||
                params->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE)
                return CUDA_ERROR_INVALID_VALUE;
        work = calloc(1, sizeof(*work));
        memory = calloc(1, sizeof(*memory));
        r = work && memory ? take(context, params->bytesize, memory) : CUDA_ERROR_OUT_OF_MEMORY;
        if (r != CUDA_SUCCESS) {
                free(work);
                free(memory);
                return r;
        }
        params->dptr = memory->base;
        work->type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
        work->context = dcu_handle(context);
        work->memory.memory = memory;
        work->memory.params = *params;
        work->memory.params.accessDescs = NULL;
        work->memory.params.accessDescCount = 0;
        pthread_mutex_lock(&dcu.lock);
        memory->next = all;
        all = memory;
        atomic_fetch_add(&n_all, 1);
        account(memory->size, 1);
        pthread_mutex_unlock(&dcu.lock);
        *ret = work;
        return CUDA_SUCCESS;
}

CUresult dcu_work_free(CUdeviceptr address, struct dcu_work **ret)
{
        struct dcu_graph_memory *memory = dcu_graph_memory_find(address);
        struct dcu_work *work;

        if (!memory)
                return CUDA_ERROR_INVALID_VALUE;
        work = calloc(1, sizeof(*work));
        if (!work)
                return CUDA_ERROR_OUT_OF_MEMORY;
        work->type = CU_GRAPH_NODE_TYPE_MEM_FREE;
        work->memory.memory = memory;
        work->memory.params.dptr = address;
        memory->references++;
        *ret = work;
        return CUDA_SUCCESS;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
        CUresult r = dcu_enter_process();

        /* there is nothing to trim: memory that no graph needs is returned at once */
        return r == CUDA_SUCCESS ? dcu_check_device(device) : r;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
        uint64_t *const known[] = {&used, &used_high, &used, &reserved_high};
        CUresult r = dcu_enter_process();

        if (r == CUDA_SUCCESS)
                r = dcu_check_device(device);
        if (r != CUDA_SUCCESS)
                return r;
        if (!value || (unsigned int)attr > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        *(cuuint64_t *)value = *known[attr];
        pthread_mutex_unlock(&dcu.lock);
        return CUDA_SUCCESS;
}

/* CUDA accepts only the value 0, which resets a high-water mark to the current use. */
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
        CUresult r = dcu_enter_process();

        if (r == CUDA_SUCCESS)
                r = dcu_check_device(device);
        if (r != CUDA_SUCCESS)
                return r;
        if (!value || *(cuuint64_t *)value != 0 ||
                (attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH && attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
                used_high = used;
        else
                reserved_high = used;
        pthread_mutex_unlock(&dcu.lock);
        return CUDA_SUCCESS;
}
