/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: nodes, their work, their dependencies
 *
 * Until it is instantiated, a graph is bookkeeping of this process: nodes in the order of their addition, each with its
 * work and its edges. Work is checked and copied when it is given (a kernel's parameters by its layout), so the program
 * may reuse its arguments. Handles within work (functions, events, contexts) stay handles and are looked up at each
 * use, because their objects may be gone by then.
 *
 * An instantiated graph (exec.h) has a clone. A node of the clone is found by its position, and by the handle of the
 * original node.
 *
 * dcu.lock protects all of it. Destructors of user objects run after it is released, in dcu_graphs_unlock().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cuda/context.h"

#define DCU_GRAPH_DEPTH_MAX 32u    /* most levels of nested child graphs */
#define DCU_GRAPH_NODES_MAX 65536u /* most nodes of a graph, with those of child graphs, as in the protocol */

#define DCU_RECORD_NONE UINT32_MAX

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
        CUkernel kernel; /* kernel handle that the program gave; NULL: it gave a function */
        unsigned int grid[3], block[3], shared_bytes;
        uint8_t *params; /* packed parameters of the kernel */
        void **pointers; /* address of each parameter in `params` */
        uint32_t params_size, n_params;
        CUlaunchAttribute *attributes; /* attributes that the program set */
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
                        /* allocation of an ALLOC or FREE node; NULL: the FREE node frees memory that no graph
                         * allocates */
                        struct dcu_graph_memory *memory;
                        CUDA_MEM_ALLOC_NODE_PARAMS_v2 params;
                } memory;
                CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 memops; /* paramArray is a copy that this library allocated */
        };
};

struct dcu_node {
        struct dcu_object head;
        struct dcu_graph *graph;
        struct dcu_work *work;
        struct dcu_edge *deps;
        struct dcu_node **users; /* nodes that depend on this one, once per edge */
        uint32_t n_deps, deps_space, n_users, users_space;
        uint32_t index;    /* index in graph->nodes */
        uint32_t seen;     /* number of the last walk (dcu_walk_new()) that visited the node */
        uint32_t count;    /* scratch value of a walk, for example a position */
        uint32_t disabled; /* 1: a node of an instantiated graph that does nothing at launch */
        /* index of the node's only record in the file of an instantiated graph; DCU_RECORD_NONE: a change of the node
         * needs a new file */
        uint32_t record;
        uint32_t changed;     /* 1: the node is in exec->changed */
        CUgraphNode original; /* handle of the node that it was cloned from */
};

struct dcu_user_reference {
        struct dcu_user_object *object;
        unsigned int count;
};

struct dcu_graph {
        struct dcu_object head;
        struct dcu_node **nodes;
        uint32_t n_nodes, nodes_space;
        uint32_t n_total;            /* number of nodes, with those of children */
        uint32_t n_memory;           /* number of allocation and free nodes, with those of children */
        struct dcu_node *parent;     /* node of which this is the child graph */
        CUgraph original;            /* handle of the graph that it was cloned from */
        struct dcu_capture *capture; /* capture that adds nodes to the graph; NULL: none */
        uint32_t depth;              /* number of levels of child graphs below it */
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

/* --- graph.c: with dcu.lock held ------------------- */

/* NULL: out of memory. */
struct dcu_graph *dcu_graph_new(void);
void dcu_graph_free(struct dcu_graph *graph);
CUresult dcu_graph_clone(const struct dcu_graph *graph, struct dcu_graph **ret);
/* Adds a node to the graph. On success the node owns `work`. Checks only that the nodes of `deps` belong to the
 * graph. */
CUresult dcu_node_add(struct dcu_graph *graph, struct dcu_work *work, const struct dcu_edge *deps, size_t n_deps,
        struct dcu_node **ret);
/* Makes a malloc'ed array of edges from the nodes of these handles, which must be distinct nodes of the graph. data
 * may be NULL. */
CUresult dcu_edges_of(const struct dcu_graph *graph, const CUgraphNode *deps, const CUgraphEdgeData *data,
        size_t n_deps, struct dcu_edge **ret);
void dcu_node_remove(struct dcu_node *node);
CUresult dcu_node_connect(struct dcu_node *from, struct dcu_node *to, const CUgraphEdgeData *data);
int dcu_node_disconnect(struct dcu_node *from, struct dcu_node *to);
/* edge between the nodes; NULL: there is none */
struct dcu_edge *dcu_node_edge(struct dcu_node *from, struct dcu_node *to);
/* A new number for a walk over nodes. */
uint32_t dcu_walk_new(void);
/* The nodes in an order in which they can run, a malloc'ed array; CUDA_ERROR_INVALID_VALUE: there is a cycle. */
CUresult dcu_graph_order(const struct dcu_graph *graph, struct dcu_node ***ret);
/* Makes room for one more element by doubling the array. 0: out of memory. */
int dcu_array_grow(void *array, uint32_t *space, uint32_t n, size_t element);
/* Releases dcu.lock, then runs destructors of user objects that are due. */
void dcu_graphs_unlock(void);

/* --- graph_node.c: without dcu.lock --- */

/* Adds a node with this work to the graph. r: result of making the work; if it is an error, this function returns it
 * and adds no node. Frees the work on failure. */
CUresult dcu_graph_add(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *data,
        size_t n_deps, CUresult r, struct dcu_work *work);
/* *ret: the work of the node, which must be of that type; CUDA_ERROR_INVALID_VALUE for other types. Takes no lock:
 * the program must not change the node meanwhile. */
CUresult dcu_node_work(CUgraphNode node, CUgraphNodeType type, const struct dcu_work **ret);
/* Replaces the node's work by work of the same type. r and work: as for dcu_graph_add(). */
CUresult dcu_node_set(CUgraphNode node, CUresult r, struct dcu_work *work);

/* --- graph_user.c --- */

CUresult dcu_users_copy(const struct dcu_graph *from, struct dcu_graph *to);
void dcu_users_drop(struct dcu_graph *graph);
struct dcu_user_object *dcu_users_due(void);         /* a user object whose destructor is due, NULL: none */
void dcu_users_destroy(struct dcu_user_object *due); /* call without dcu.lock */

/* --- work.c, work_kernel.c: work of nodes, checked and copied; without dcu.lock unless noted ----------- */

CUresult dcu_work_empty(struct dcu_work **ret);
CUresult dcu_work_launch(const struct dcu_launch *launch, CUcontext context, struct dcu_work **ret);
/* Makes the work of a kernel node. old: previous work, whose attributes are kept; may be NULL. */
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
/* Sets or replaces one attribute of the kernel node. */
CUresult dcu_work_kernel_attribute(
        struct dcu_kernel_work *kernel, CUlaunchAttributeID id, const CUlaunchAttributeValue *value);
/* The launch that the work describes: function, dimensions, attributes. */
CUresult dcu_work_kernel_launch(const struct dcu_kernel_work *kernel, struct dcu_launch *ret);
/* Describes a box as CUDA's parameters of a copy node. The box was checked before. dst_host, src_host: 1 if that
 * side is host memory. */
void dcu_work_describe_box(const struct dcu_box *box, int dst_host, int src_host, CUDA_MEMCPY3D *ret);

/* --- graph_memory.c --- */

struct dcu_graph_memory {
        struct dcu_graph_memory *next;
        uint64_t base, size;
        uint32_t references; /* number of nodes that allocate or free the memory, plus 1 while it is live */
        uint32_t epoch;
        int instances; /* number of instantiated graphs that allocate this memory, 0 or 1 */
        int live;      /* 1: a launch has allocated the memory and nothing has freed it yet */
};

/* With dcu.lock held. */
struct dcu_graph_memory *dcu_graph_memory_find(uint64_t base);
void dcu_graph_memory_drop(struct dcu_graph_memory *memory);
void dcu_graph_memory_live(struct dcu_graph_memory *memory, int live);
