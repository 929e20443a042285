/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: nodes, what they do, what they depend on
 *
 * A graph is bookkeeping of this process until it is instantiated: nodes in the order in which they were added, each
 * with the work that it stands for and its edges. Work is checked and copied when it is given (a kernel's parameters by
 * its layout), so a program may reuse what it passed. Handles inside of work (functions, events, contexts) are kept as
 * handles and looked at again whenever they are used: what they named may be gone by then.
 *
 * An instantiated graph (exec.h) has a clone of its own; a node of it is found by its place, and by the handle of the
 * node that it was cloned from.
 *
 * All of it is guarded by dcu.lock. Destructors of user objects run after it is released: dcu_graphs_unlock().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cuda/context.h"

#define DCU_GRAPH_DEPTH_MAX 32u    /* graphs inside of each other */
#define DCU_GRAPH_NODES_MAX 65536u /* as the protocol's; children count with the whole */

struct dcu_launch;
struct dcu_box;
struct dcu_node;
struct dcu_graph;
struct dcu_graph_memory;

struct dcu_edge {
        struct dcu_node *node;
        CUgraphEdgeData data;
};

struct dcu_kernel_work {
        CUfunction function;
        CUkernel kernel; /* where it was given as one */
        unsigned int grid[3], block[3], shared_bytes;
        uint8_t *params; /* packed */
        void **pointers; /* into params, one per parameter */
        uint32_t params_size, n_params;
        CUlaunchAttribute *attributes; /* that were set */
        uint32_t n_attributes;
};

struct dcu_work {
        CUgraphNodeType type;
        CUcontext context;
        union {
                struct dcu_kernel_work kernel;
                CUDA_MEMCPY3D copy;
                CUDA_MEMSET_NODE_PARAMS_v2 memset;
                CUDA_HOST_NODE_PARAMS_v2 host;
                struct dcu_graph *child;
                CUevent event;
                struct {
                        struct dcu_graph_memory *memory; /* of ALLOC and FREE; FREE of memory of no graph: NULL */
                        CUDA_MEM_ALLOC_NODE_PARAMS_v2 params;
                } memory;
                CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 memops; /* paramArray is ours */
        };
};

struct dcu_node {
        struct dcu_object head;
        struct dcu_graph *graph;
        struct dcu_work *work;
        struct dcu_edge *deps;
        struct dcu_node **users; /* nodes that depend on this one, once per edge */
        uint32_t n_deps, deps_space, n_users, users_space;
        uint32_t index;       /* in graph->nodes */
        uint32_t seen;        /* by the walk with this number */
        uint32_t count;       /* of a walk's own */
        uint32_t disabled;    /* of an instantiated graph */
        CUgraphNode original; /* that it was cloned from */
};

struct dcu_user_reference {
        struct dcu_user_object *object;
        unsigned int count;
};

struct dcu_graph {
        struct dcu_object head;
        struct dcu_node **nodes;
        uint32_t n_nodes, nodes_space;
        uint32_t n_total;            /* with those of children */
        uint32_t n_memory;           /* allocation and free nodes, with those of children */
        struct dcu_node *parent;     /* of which it is the child graph */
        CUgraph original;            /* that it was cloned from */
        struct dcu_capture *capture; /* that is making it */
        uint32_t depth;              /* of graphs inside of each other below it */
        struct dcu_user_reference *users;
        uint32_t n_users, users_space;
        unsigned long long id;
};

static inline struct dcu_graph *dcu_graph_of(CUgraph handle)
{
        return dcu_object_of(handle, DCU_GRAPH);
}

static inline struct dcu_node *dcu_node_of(CUgraphNode handle)
{
        return dcu_object_of(handle, DCU_NODE);
}

/* --- graph.c: everything here with dcu.lock held --- */

/* NULL when out of memory. */
struct dcu_graph *dcu_graph_new(void);
void dcu_graph_free(struct dcu_graph *graph);
CUresult dcu_graph_clone(const struct dcu_graph *graph, struct dcu_graph **ret);
/* Takes the work over if it succeeds. No edge is looked at but its node, which must be of this graph. */
CUresult dcu_node_add(struct dcu_graph *graph, struct dcu_work *work, const struct dcu_edge *deps, size_t n_deps,
        struct dcu_node **ret);
/* Edges from the nodes of these handles, which must be different ones of the graph: a malloc'ed array. data may be
 * NULL. */
CUresult dcu_edges_of(const struct dcu_graph *graph, const CUgraphNode *deps, const CUgraphEdgeData *data,
        size_t n_deps, struct dcu_edge **ret);
void dcu_node_remove(struct dcu_node *node);
CUresult dcu_node_connect(struct dcu_node *from, struct dcu_node *to, const CUgraphEdgeData *data);
int dcu_node_disconnect(struct dcu_node *from, struct dcu_node *to);
struct dcu_edge *dcu_node_edge(struct dcu_node *from, struct dcu_node *to); /* NULL: there is none */
/* Another number for a walk over nodes. */
uint32_t dcu_walk_new(void);
/* The nodes in an order in which they can run, a malloc'ed array; CUDA_ERROR_INVALID_VALUE if there is none. */
CUresult dcu_graph_order(const struct dcu_graph *graph, struct dcu_node ***ret);
/* Room for one more: the array doubles. 0 when out of memory. */
int dcu_array_grow(void *array, uint32_t *space, uint32_t n, size_t element);
/* Releases dcu.lock and runs what destructors of user objects have become due. */
void dcu_graphs_unlock(void);

/* --- graph_node.c: without dcu.lock --- */

/* Add a node to the graph; r != CUDA_SUCCESS: there is no work. The work is taken in every case. */
CUresult dcu_graph_add(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *data,
        size_t n_deps, CUresult r, struct dcu_work *work);
/* The work of a node of that type, CUDA_ERROR_INVALID_VALUE for any other. dcu.lock is not held: it is the program's
 * business that nobody changes the node meanwhile. */
CUresult dcu_node_work(CUgraphNode node, CUgraphNodeType type, const struct dcu_work **ret);
/* Other work of the same type for the node; as dcu_graph_add(). */
CUresult dcu_node_set(CUgraphNode node, CUresult r, struct dcu_work *work);

/* --- graph_user.c --- */

CUresult dcu_users_copy(const struct dcu_graph *from, struct dcu_graph *to);
void dcu_users_drop(struct dcu_graph *graph);
struct dcu_user_object *dcu_users_due(void);         /* one whose destructor is due, NULL: none */
void dcu_users_destroy(struct dcu_user_object *due); /* without the lock */

/* --- work.c, work_kernel.c: what a node does; checked and copied. Without dcu.lock unless it says so --- */

CUresult dcu_work_empty(struct dcu_work **ret);
CUresult dcu_work_launch(const struct dcu_launch *launch, CUcontext context, struct dcu_work **ret);
/* As CUDA describes a kernel node. old: its attributes are kept, may be NULL. */
CUresult dcu_work_kernel(const CUDA_KERNEL_NODE_PARAMS *params, const struct dcu_work *old, struct dcu_work **ret);
CUresult dcu_work_copy(const CUDA_MEMCPY3D *params, CUcontext context, struct dcu_work **ret);
CUresult dcu_work_memset(const CUDA_MEMSET_NODE_PARAMS_v2 *params, struct dcu_work **ret);
CUresult dcu_work_host(CUhostFn fn, void *argument, struct dcu_work **ret);
CUresult dcu_work_event(CUgraphNodeType type, CUevent event, struct dcu_work **ret);
CUresult dcu_work_memops(CUcontext context, unsigned int count, const CUstreamBatchMemOpParams *ops, unsigned int flags,
        struct dcu_work **ret);
CUresult dcu_work_alloc(CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params, struct dcu_work **ret);
CUresult dcu_work_free(CUdeviceptr address, struct dcu_work **ret);            /* dcu.lock is held */
CUresult dcu_work_child(const struct dcu_graph *graph, struct dcu_work **ret); /* dcu.lock is held */
CUresult dcu_work_clone(const struct dcu_work *from, struct dcu_work **ret);   /* dcu.lock is held */
void dcu_work_drop(struct dcu_work *work);                                     /* dcu.lock is held */
void dcu_work_drop_unlocked(struct dcu_work *work);

void dcu_work_kernel_clear(struct dcu_kernel_work *kernel);
CUresult dcu_work_kernel_clone(const struct dcu_kernel_work *from, struct dcu_kernel_work *to);
/* A value in the list of attributes, replacing what is there. */
CUresult dcu_work_kernel_attribute(
        struct dcu_kernel_work *kernel, CUlaunchAttributeID id, const CUlaunchAttributeValue *value);
/* A launch as the work has it: function, dimensions, attributes taken. */
CUresult dcu_work_kernel_launch(const struct dcu_kernel_work *kernel, struct dcu_launch *ret);
/* As CUDA describes a copy: the box, which is known to fit. */
void dcu_work_describe_box(const struct dcu_box *box, int dst_host, int src_host, CUDA_MEMCPY3D *ret);

/* --- graph_memory.c --- */

struct dcu_graph_memory {
        struct dcu_graph_memory *next;
        uint64_t base, size;
        uint32_t references; /* work of nodes, and one while it is live */
        uint32_t epoch;
        int instances; /* instantiated graphs that allocate it: at most one */
        int live;      /* a launch has allocated it and nothing has freed it yet */
};

/* dcu.lock is held. */
struct dcu_graph_memory *dcu_graph_memory_find(uint64_t base);
void dcu_graph_memory_drop(struct dcu_graph_memory *memory);
void dcu_graph_memory_live(struct dcu_graph_memory *memory, int live);
