/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures: which streams take part, the dependencies of each stream's next node, and what ends a capture
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/capture.h"
#include "cuda/copy.h"
#include "cuda/event.h"
#include "cuda/graph.h"
#include "cuda/launch.h"
#include "cuda/stream.h"

#define SLOTS 512u /* value of DS_STREAMS_MAX in the protocol */

struct dcu_capture {
        struct dcu_capture *next;
        unsigned long long id;
        CUstreamCaptureMode mode;
        const void *thread; /* thread that began the capture */
        /* valid: 0 after a call that CUDA forbids during the capture; borrowed: 1 if the graph existed before the
         * capture and belongs to the program */
        int valid, borrowed;
        struct dcu_graph *graph;
        uint32_t origin; /* slot of the stream that began the capture */
};

/* A stream that takes part in a capture. */
struct strand {
        struct dcu_capture *capture; /* NULL: the stream is not capturing */
        struct dcu_edge *deps;       /* nodes on which the stream's next node depends */
        CUgraphNode *handles;        /* copy of `deps` in arrays that the program may read */
        CUgraphEdgeData *data;
        uint32_t n, space, handles_space;
};

/* The captured work that an event stands for. */
struct dcu_capture_mark {
        unsigned long long capture;
        uint32_t n;
        struct dcu_edge deps[];
};

_Atomic uint32_t dcu_captures;

static struct strand strands[SLOTS];
static struct dcu_capture *captures;
static unsigned long long last_id;

static const void *this_thread(void)
{
        return &dcu_self;
}

static struct dcu_capture *capture_of_id(unsigned long long id)
{
        struct dcu_capture *capture = captures;

        while (capture && capture->id != id)
                capture = capture->next;
        return capture;
}

/* --- permitted calls -------------- */

static int joins_legacy(const struct dcu_capture *capture)
{
        for (uint32_t slot = 1; slot < SLOTS; slot++) {
                if (strands[slot].capture == capture && dcu_stream_joins_legacy(slot))
                        return 1;
        }
        return 0;
}

static CUresult check_legacy(int spoil)
{
        CUresult r = CUDA_SUCCESS;

        for (struct dcu_capture *capture = captures; capture; capture = capture->next) {
                if (joins_legacy(capture)) {
                        r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
                        if (spoil)
                                capture->valid = 0;
                }
        }
        return r;
}

static CUresult check_slot_locked(uint32_t slot)
{
        struct dcu_capture *capture = strands[slot].capture;

        if (slot == 0)
                return check_legacy(1);
        if (!capture)
                return CUDA_SUCCESS;
        if (!capture->valid)
                return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        capture->valid = 0;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult dcu_capture_check_slot(uint32_t slot)
{
        CUresult r;

        pthread_mutex_lock(&dcu.lock);
        r = check_slot_locked(slot);
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult dcu_capture_check_work(uint32_t slot, int *ret_capturing)
{
        const struct dcu_capture *capture;
        CUresult r = CUDA_SUCCESS;

        pthread_mutex_lock(&dcu.lock);
        capture = strands[slot].capture;
        if (slot == 0)
                r = check_legacy(1);
        else if (capture && !capture->valid)
                r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        *ret_capturing = r == CUDA_SUCCESS && capture;
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

/* 1: CUDA forbids unsafe calls in this thread because of the capture. A thread is restricted by its own captures,
 * and in GLOBAL mode also by other threads' GLOBAL captures. */
static int prohibits(const struct dcu_capture *capture)
{
        if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
                return 0;
        if (capture->thread == this_thread())
                return 1;
        return dcu_self.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult dcu_capture_check_unsafe(void)
{
        CUresult r = CUDA_SUCCESS;

        if (dcu_self.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
                return r;
        pthread_mutex_lock(&dcu.lock);
        for (struct dcu_capture *capture = captures; capture; capture = capture->next) {
                if (prohibits(capture)) {
                        capture->valid = 0;
                        r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
                }
        }
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult dcu_capture_check_all(void)
{
        CUresult r = CUDA_SUCCESS;

        pthread_mutex_lock(&dcu.lock);
        for (struct dcu_capture *capture = captures; capture; capture = capture->next) {
                capture->valid = 0;
                r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

void dcu_capture_spoil(uint32_t slot)
{
        pthread_mutex_lock(&dcu.lock);
        if (strands[slot].capture)
                strands[slot].capture->valid = 0;
        pthread_mutex_unlock(&dcu.lock);
}

/* --- streams that take part in a capture --- */

static int has_dep(const struct strand *strand, const struct dcu_node *node)
{
        for (uint32_t i = 0; i < strand->n; i++) {
                if (strand->deps[i].node == node)
                        return 1;
        }
        return 0;
}

static CUresult add_deps(struct strand *strand, const struct dcu_edge *deps, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (has_dep(strand, deps[i].node))
                        continue;
                if (!dcu_array_grow(&strand->deps, &strand->space, strand->n, sizeof(*strand->deps)))
                        return CUDA_ERROR_OUT_OF_MEMORY;
                strand->deps[strand->n++] = deps[i];
        }
        return CUDA_SUCCESS;
}

static void strand_end(struct strand *strand)
{
        free(strand->deps);
        free(strand->handles);
        free(strand->data);
        *strand = (struct strand){0};
}

/* Ends the capture. keep: 1 the graph belongs to the program from now on, 0 the graph is freed. */
static void finish(struct dcu_capture *capture, int keep)
{
        struct dcu_capture **place = &captures;

        for (uint32_t slot = 0; slot < SLOTS; slot++) {
                if (strands[slot].capture == capture)
                        strand_end(&strands[slot]);
        }
        while (*place != capture)
                place = &(*place)->next;
        *place = capture->next;
        capture->graph->capture = NULL;
        if (!keep)
                dcu_graph_free(capture->graph);
        free(capture);
        atomic_fetch_sub(&dcu_captures, 1);
}

void dcu_capture_slot_gone(uint32_t slot)
{
        struct dcu_capture *capture = strands[slot].capture;

        if (!capture)
                return;
        if (capture->origin == slot)
                finish(capture, 0);
        else
                strand_end(&strands[slot]);
}

void dcu_capture_reset(void)
{
        while (captures)
                finish(captures, 0);
}

/* --- nodes --- */

/* Adds a node with this work after the stream's captured work. Frees the work on failure. With dcu.lock held. */
static CUresult add_locked(uint32_t slot, struct dcu_work *work)
{
        struct strand *strand = &strands[slot];
        struct dcu_node *node;
        CUresult r = CUDA_ERROR_ILLEGAL_STATE;

        if (strand->capture)
                r = strand->capture->valid ? dcu_node_add(strand->capture->graph, work, strand->deps, strand->n, &node)
                                           : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        if (r != CUDA_SUCCESS) {
                dcu_work_drop(work);
                return r;
        }
        strand->n = 0;
        return add_deps(strand, &(struct dcu_edge){.node = node}, 1);
}

static CUresult add(uint32_t slot, CUresult r, struct dcu_work *work)
{
        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        r = add_locked(slot, work);
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

/* Gives the kernel node the priority of its stream, unless the launch has a priority. Priority is a hint: if memory
 * is short, the node has none. */
static void note_priority(const struct dcu_launch *launch, struct dcu_work *work)
{
        const struct dcu_stream *stream = dcu_object_of(launch->stream, DCU_STREAM);
        CUlaunchAttributeValue value = {.priority = stream ? stream->priority : 0};

        for (uint32_t i = 0; i < launch->n_attributes; i++) {
                if (launch->attributes[i].id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
                        return;
        }
        if (value.priority)
                (void)dcu_work_kernel_attribute(&work->kernel, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
}

CUresult dcu_capture_launch(uint32_t slot, struct dcu_context *owner, const struct dcu_launch *launch)
{
        struct dcu_work *work = NULL;
        CUresult r = dcu_work_launch(launch, dcu_handle(owner), &work);

        if (r != CUDA_SUCCESS)
                dcu_capture_spoil(slot);
        else
                note_priority(launch, work);
        return add(slot, r, work);
}

CUresult dcu_capture_copy(
        uint32_t slot, struct dcu_context *owner, const struct dcu_box *box, int dst_host, int src_host)
{
        struct dcu_work *work = NULL;
        CUDA_MEMCPY3D params;
        CUresult r;

        dcu_work_describe_box(box, dst_host, src_host, &params);
        r = dcu_work_copy(&params, dcu_handle(owner), &work);
        return add(slot, r, work);
}

CUresult dcu_capture_memset(uint32_t slot, const CUDA_MEMSET_NODE_PARAMS_v2 *params)
{
        struct dcu_work *work = NULL;
        CUresult r = dcu_work_memset(params, &work);

        return add(slot, r, work);
}

CUresult dcu_capture_host(uint32_t slot, CUhostFn fn, void *argument)
{
        struct dcu_work *work = NULL;
        CUresult r = dcu_work_host(fn, argument, &work);

        return add(slot, r, work);
}

CUresult dcu_capture_memops(uint32_t slot, struct dcu_context *owner, unsigned int count,
        const CUstreamBatchMemOpParams *ops, unsigned int flags)
{
        struct dcu_work *work = NULL;
        CUresult r = dcu_work_memops(dcu_handle(owner), count, ops, flags, &work);

        return add(slot, r, work);
}

CUresult dcu_capture_mem_alloc(uint32_t slot, size_t bytes, CUdeviceptr *ret)
{
        CUDA_MEM_ALLOC_NODE_PARAMS_v2 params = {
                .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
                .bytesize = bytes,
        };
        struct dcu_work *work = NULL;
        CUresult r = dcu_work_alloc(&params, &work);

        r = add(slot, r, work);
        if (r == CUDA_SUCCESS)
                *ret = params.dptr;
        return r;
}

CUresult dcu_capture_mem_free(uint32_t slot, CUdeviceptr address)
{
        struct dcu_work *work = NULL;
        CUresult r;

        pthread_mutex_lock(&dcu.lock);
        r = dcu_work_free(address, &work);
        if (r == CUDA_SUCCESS)
                r = add_locked(slot, work);
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

/* --- events --- */

void dcu_capture_mark_free(struct dcu_capture_mark *mark)
{
        free(mark);
}

void dcu_capture_unmark(struct dcu_event *event)
{
        pthread_mutex_lock(&dcu.lock);
        free(atomic_exchange(&event->mark, NULL));
        pthread_mutex_unlock(&dcu.lock);
}

static CUresult mark_locked(uint32_t slot, struct dcu_event *event)
{
        const struct strand *strand = &strands[slot];
        struct dcu_capture_mark *mark;

        if (!strand->capture)
                return CUDA_ERROR_ILLEGAL_STATE;
        mark = malloc(sizeof(*mark) + strand->n * sizeof(mark->deps[0]));
        if (!mark)
                return CUDA_ERROR_OUT_OF_MEMORY;
        mark->capture = strand->capture->id;
        mark->n = strand->n;
        if (strand->n)
                memcpy(mark->deps, strand->deps, strand->n * sizeof(mark->deps[0]));
        free(atomic_exchange(&event->mark, mark));
        return CUDA_SUCCESS;
}

CUresult dcu_capture_record(uint32_t slot, struct dcu_event *event, unsigned int flags)
{
        struct dcu_work *work = NULL;
        CUresult r;

        if (flags & CU_EVENT_RECORD_EXTERNAL) {
                r = dcu_work_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, dcu_handle(event), &work);
                return add(slot, r, work);
        }
        pthread_mutex_lock(&dcu.lock);
        r = mark_locked(slot, event);
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

static CUresult join_locked(uint32_t slot, const struct dcu_capture_mark *mark)
{
        struct dcu_capture *capture = mark ? capture_of_id(mark->capture) : NULL;
        struct strand *strand = &strands[slot];

        if (!capture) { /* the capture that recorded the event has ended, so the event stands for no node */
                if (strand->capture)
                        strand->capture->valid = 0;
                return CUDA_ERROR_INVALID_VALUE;
        }
        if (slot == 0) {
                capture->valid = 0;
                return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
        if (strand->capture && strand->capture != capture) {
                strand->capture->valid = capture->valid = 0;
                return CUDA_ERROR_STREAM_CAPTURE_MERGE;
        }
        if (!capture->valid)
                return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        strand->capture = capture;
        return add_deps(strand, mark->deps, mark->n);
}

CUresult dcu_capture_join(uint32_t slot, struct dcu_event *event)
{
        CUresult r;

        pthread_mutex_lock(&dcu.lock);
        r = join_locked(slot, atomic_load(&event->mark));
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult dcu_capture_wait_outside(uint32_t slot, struct dcu_event *event, unsigned int flags)
{
        struct dcu_work *work = NULL;
        CUresult r;

        if (flags & CU_EVENT_WAIT_EXTERNAL) {
                r = dcu_work_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, dcu_handle(event), &work);
                return add(slot, r, work);
        }
        dcu_capture_spoil(slot);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

CUresult dcu_capture_event_used(struct dcu_event *event)
{
        const struct dcu_capture_mark *mark;
        struct dcu_capture *capture;

        pthread_mutex_lock(&dcu.lock);
        mark = atomic_load(&event->mark);
        capture = mark ? capture_of_id(mark->capture) : NULL;
        if (capture)
                capture->valid = 0;
        pthread_mutex_unlock(&dcu.lock);
        return capture ? CUDA_ERROR_CAPTURED_EVENT : CUDA_ERROR_INVALID_VALUE;
}

/* --- begin and end --- */

/* graph: graph to which the capture adds nodes, NULL: a new one. With dcu.lock held. */
static CUresult begin_locked(
        uint32_t slot, CUstreamCaptureMode mode, struct dcu_graph *graph, const struct dcu_edge *deps, size_t n_deps)
{
        struct strand *strand = &strands[slot];
        struct dcu_capture *capture;
        CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

        if (strand->capture || (graph && graph->capture))
                return CUDA_ERROR_ILLEGAL_STATE;
        capture = calloc(1, sizeof(*capture));
        if (capture) {
                capture->borrowed = graph != NULL;
                capture->graph = graph ? graph : dcu_graph_new();
        }
        if (capture && capture->graph)
                r = add_deps(strand, deps, n_deps);
        if (r != CUDA_SUCCESS) {
                strand_end(strand);
                if (capture && capture->graph && !graph)
                        dcu_graph_free(capture->graph);
                free(capture);
                return r;
        }
        capture->id = ++last_id;
        capture->mode = mode;
        capture->thread = this_thread();
        capture->valid = 1;
        capture->origin = slot;
        capture->graph->capture = capture;
        capture->next = captures;
        captures = capture;
        strand->capture = capture;
        atomic_fetch_add(&dcu_captures, 1);
        return CUDA_SUCCESS;
}

CUresult dcu_capture_begin(uint32_t slot, CUstreamCaptureMode mode, CUgraph graph, const CUgraphNode *deps,
        const CUgraphEdgeData *data, size_t n_deps)
{
        struct dcu_edge *edges = NULL;
        struct dcu_graph *g = NULL;
        CUresult r = CUDA_SUCCESS;

        if (slot == 0)
                return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        if (graph) {
                g = dcu_graph_of(graph);
                r = g ? dcu_edges_of(g, deps, data, n_deps, &edges) : CUDA_ERROR_INVALID_VALUE;
        }
        if (r == CUDA_SUCCESS)
                r = begin_locked(slot, mode, g, edges, n_deps);
        pthread_mutex_unlock(&dcu.lock);
        free(edges);
        return r;
}

/* Marks (node->seen = walk) the last nodes of the stream and all nodes on which they depend, directly or indirectly. */
static CUresult mark_ancestors(const struct dcu_graph *graph, const struct strand *from, uint32_t walk)
{
        struct dcu_node **stack = malloc((graph->n_nodes + 1) * sizeof(struct dcu_node *));
        uint32_t n = 0;

        if (!stack)
                return CUDA_ERROR_OUT_OF_MEMORY;
        for (uint32_t i = 0; i < from->n; i++) {
                from->deps[i].node->seen = walk;
                stack[n++] = from->deps[i].node;
        }
        while (n) {
                const struct dcu_node *node = stack[--n];

                for (uint32_t i = 0; i < node->n_deps; i++) {
                        if (node->deps[i].node->seen != walk) {
                                node->deps[i].node->seen = walk;
                                stack[n++] = node->deps[i].node;
                        }
                }
        }
        free(stack);
        return CUDA_SUCCESS;
}

/* CUDA_ERROR_STREAM_CAPTURE_UNJOINED unless the work captured from every other stream precedes the end of the work
 * of the stream that began the capture. */
static CUresult check_joined(const struct dcu_capture *capture)
{
        uint32_t walk = dcu_walk_new();
        CUresult r = mark_ancestors(capture->graph, &strands[capture->origin], walk);

        for (uint32_t slot = 1; slot < SLOTS && r == CUDA_SUCCESS; slot++) {
                const struct strand *strand = &strands[slot];

                for (uint32_t i = 0; strand->capture == capture && i < strand->n; i++) {
                        if (strand->deps[i].node->seen != walk)
                                r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
                }
        }
        return r;
}

static CUresult end_locked(uint32_t slot, CUgraph *ret)
{
        struct dcu_capture *capture = strands[slot].capture;
        CUresult r = CUDA_SUCCESS;

        if (!capture)
                return CUDA_ERROR_ILLEGAL_STATE;
        if (capture->origin != slot) {
                capture->valid = 0;
                return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
        }
        if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != this_thread())
                r = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
        else if (!capture->valid)
                r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        else
                r = check_joined(capture);
        if (r == CUDA_SUCCESS && ret)
                *ret = dcu_handle(capture->graph);
        finish(capture, r == CUDA_SUCCESS && (ret || capture->borrowed));
        return r;
}

CUresult dcu_capture_end(uint32_t slot, CUgraph *ret)
{
        CUresult r;

        if (ret)
                *ret = NULL;
        pthread_mutex_lock(&dcu.lock);
        r = end_locked(slot, ret);
        dcu_graphs_unlock();
        return r;
}

/* --- queries ---------------------- */

/* Copies the dependencies of the stream's next node to arrays that the program may read until it uses the stream
 * again. */
static CUresult show_deps(struct strand *strand)
{
        CUgraphNode *handles = realloc(strand->handles, (strand->n + 1) * sizeof(CUgraphNode));
        CUgraphEdgeData *data;

        if (!handles)
                return CUDA_ERROR_OUT_OF_MEMORY;
        strand->handles = handles;
        data = realloc(strand->data, (strand->n + 1) * sizeof(*data));
        if (!data)
                return CUDA_ERROR_OUT_OF_MEMORY;
        strand->data = data;
        for (uint32_t i = 0; i < strand->n; i++) {
                handles[i] = dcu_handle(strand->deps[i].node);
                data[i] = strand->deps[i].data;
        }
        return CUDA_SUCCESS;
}

static int has_data(const struct strand *strand)
{
        for (uint32_t i = 0; i < strand->n; i++) {
                if (strand->deps[i].data.from_port || strand->deps[i].data.type)
                        return 1;
        }
        return 0;
}

static CUresult info_locked(uint32_t slot, struct dcu_capture_info *info)
{
        struct strand *strand = &strands[slot];
        CUresult r = slot == 0 ? check_legacy(0) : CUDA_SUCCESS;

        info->status = CU_STREAM_CAPTURE_STATUS_NONE;
        if (r != CUDA_SUCCESS || !strand->capture)
                return r;
        info->status = strand->capture->valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
        info->id = strand->capture->id;
        info->graph = dcu_handle(strand->capture->graph);
        if (info->wants_deps && !info->wants_data && has_data(strand))
                return CUDA_ERROR_LOSSY_QUERY;
        r = info->wants_deps ? show_deps(strand) : CUDA_SUCCESS;
        info->deps = strand->handles;
        info->data = strand->data;
        info->n = strand->n;
        return r;
}

CUresult dcu_capture_info(uint32_t slot, struct dcu_capture_info *info)
{
        CUresult r;

        info->status = CU_STREAM_CAPTURE_STATUS_NONE;
        if (!dcu_captures_any())
                return CUDA_SUCCESS;
        pthread_mutex_lock(&dcu.lock);
        r = info_locked(slot, info);
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult dcu_capture_update(
        uint32_t slot, const CUgraphNode *deps, const CUgraphEdgeData *data, size_t n, unsigned int flags)
{
        struct strand *strand = &strands[slot];
        struct dcu_edge *edges = NULL;
        CUresult r = CUDA_ERROR_ILLEGAL_STATE;

        if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        if (strand->capture)
                r = strand->capture->valid ? dcu_edges_of(strand->capture->graph, deps, data, n, &edges)
                                           : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        if (r == CUDA_SUCCESS) {
                if (flags & CU_STREAM_SET_CAPTURE_DEPENDENCIES)
                        strand->n = 0;
                r = add_deps(strand, edges, n);
        }
        pthread_mutex_unlock(&dcu.lock);
        free(edges);
        return r;
}
