/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User objects: objects of the program that are destroyed when no graph needs them any more
 *
 * They are reference-counted. The destructor of an object without references is queued. It runs in the thread that
 * dropped the last reference, once that thread holds no lock: a destructor may do anything except call CUDA.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/graph.h"

struct dcu_user_object {
        struct dcu_object head;
        void *argument;
        CUhostFn destroy;
        uint64_t count;
        struct dcu_user_object *next; /* next in the list of objects whose destructor must still run */
};

static struct dcu_user_object *due_first, **due_last = &due_first;

static void drop(struct dcu_user_object *object, uint64_t count)
{
        object->count -= count < object->count ? count : object->count;
        if (object->count)
                return;
        *due_last = object;
        due_last = &object->next;
}

struct dcu_user_object *dcu_users_due(void)
{
        struct dcu_user_object *due = due_first;

        if (due) {
                due_first = due->next;
                if (!due_first)
                        due_last = &due_first;
        }
        return due;
}

void dcu_users_destroy(struct dcu_user_object *due)
{
        due->destroy(due->argument);
        pthread_mutex_lock(&dcu.lock);
        dcu_object_free(&due->head);
        pthread_mutex_unlock(&dcu.lock);
}

static struct dcu_user_reference *reference_of(struct dcu_graph *graph, const struct dcu_user_object *object)
{
        for (uint32_t i = 0; i < graph->n_users; i++) {
                if (graph->users[i].object == object)
                        return &graph->users[i];
        }
        return NULL;
}

static CUresult retain(struct dcu_graph *graph, struct dcu_user_object *object, unsigned int count)
{
        struct dcu_user_reference *reference = reference_of(graph, object);

        if (reference) {
                reference->count += count;
                return CUDA_SUCCESS;
        }
        if (!dcu_array_grow(&graph->users, &graph->users_space, graph->n_users, sizeof(*graph->users)))
                return CUDA_ERROR_OUT_OF_MEMORY;
        graph->users[graph->n_users++] = (struct dcu_user_reference){object, count};
        return CUDA_SUCCESS;
}

CUresult dcu_users_copy(const struct dcu_graph *from, struct dcu_graph *to)
{
        for (uint32_t i = 0; i < from->n_users; i++) {
                CUresult r = retain(to, from->users[i].object, 1);

                if (r != CUDA_SUCCESS)
                        return r;
                from->users[i].object->count++;
        }
        return CUDA_SUCCESS;
}

void dcu_users_drop(struct dcu_graph *graph)
{
        for (uint32_t i = 0; i < graph->n_users; i++)
                drop(graph->users[i].object, graph->users[i].count);
        graph->n_users = 0;
}

CUresult cuUserObjectCreate(
        CUuserObject *object_out, void *ptr, CUhostFn destroy, unsigned int initialRefcount, unsigned int flags)
{
        struct dcu_user_object *object;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!object_out || !destroy || initialRefcount == 0 || initialRefcount > INT_MAX ||
                flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        object = dcu_object_new(DCU_USER_OBJECT, sizeof(*object), NULL);
        if (object) {
                object->argument = ptr;
                object->destroy = destroy;
                object->count = initialRefcount;
                *object_out = dcu_handle(object);
        }
        pthread_mutex_unlock(&dcu.lock);
        return object ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The object of a handle that still has references, if `count` is 1 to INT_MAX; else NULL. With dcu.lock held. */
static struct dcu_user_object *object_of(CUuserObject handle, unsigned int count)
{
        struct dcu_user_object *object = dcu_object_of(handle, DCU_USER_OBJECT);

        return object && object->count && count && count <= INT_MAX ? object : NULL;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
        struct dcu_user_object *o;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        o = object_of(object, count);
        if (o)
                o->count += count;
        pthread_mutex_unlock(&dcu.lock);
        return o ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
        struct dcu_user_object *o;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        o = object_of(object, count);
        if (o)
                drop(o, count);
        dcu_graphs_unlock();
        return o ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
        struct dcu_user_object *o;
        struct dcu_graph *g;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (flags & ~(unsigned int)CU_GRAPH_USER_OBJECT_MOVE)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        o = object_of(object, count);
        g = dcu_graph_of(graph);
        r = o && g ? retain(g, o, count) : CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS && !(flags & CU_GRAPH_USER_OBJECT_MOVE))
                o->count += count;
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

static CUresult release_from(struct dcu_graph *graph, struct dcu_user_object *object, unsigned int count)
{
        struct dcu_user_reference *reference = reference_of(graph, object);

        if (!reference)
                return CUDA_ERROR_INVALID_VALUE;
        if (count > reference->count) /* the program may release more references than the graph holds: release all */
                count = reference->count;
        reference->count -= count;
        if (reference->count == 0)
                *reference = graph->users[--graph->n_users];
        drop(object, count);
        return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
        struct dcu_user_object *o;
        struct dcu_graph *g;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        o = object_of(object, count);
        g = dcu_graph_of(graph);
        r = o && g ? release_from(g, o, count) : CUDA_ERROR_INVALID_VALUE;
        dcu_graphs_unlock();
        return r;
}
