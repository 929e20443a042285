/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture: what is submitted to a stream becomes nodes of a graph
 *
 * A capture is this process's own and never reaches the device (design, law 3): the nodes of our graph are made here,
 * and everything else, of this process and of others, goes on. The rules are CUDA's: which streams a capture spreads
 * to by events, what may not be called meanwhile, by which thread, and which mistake invalidates a capture.
 *
 * dcu_stream_slot() refuses a stream that captures: a call that knows nothing of captures is one that cannot be
 * captured. A call that can asks dcu_stream_work() instead and makes a node when that says so. A call that CUDA has as
 * unsafe during a capture (one that is not ordered by streams) asks dcu_capture_unsafe() first.
 *
 * While nothing captures all of this costs one load. State of captures is guarded by dcu.lock.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/stream.h"

struct dcu_launch;
struct dcu_box;
struct dcu_event;
struct dcu_capture_mark;

extern _Atomic uint32_t dcu_captures; /* that have begun and not ended, in this process */

static inline int dcu_captures_any(void)
{
        return __builtin_expect(atomic_load_explicit(&dcu_captures, memory_order_relaxed) != 0, 0);
}

/*
 * As dcu_stream_slot(), for work that can be captured: *ret_capturing says whether it is to be. Errors: the legacy
 * stream while a stream that it joins with captures, a stream whose capture was invalidated.
 */
CUresult dcu_stream_work(CUstream stream, struct dcu_context *current, uint32_t *ret_slot,
        struct dcu_context **ret_owner, int *ret_capturing);

CUresult dcu_capture_check_work(uint32_t slot, int *ret_capturing);
CUresult dcu_capture_check_unsafe(void);
/* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if the calling thread may not do this now; that ends the capture's validity. */
static inline CUresult dcu_capture_unsafe(void)
{
        return dcu_captures_any() ? dcu_capture_check_unsafe() : CUDA_SUCCESS;
}

/* For what waits for every stream: no capture may be under way, whatever its mode. */
CUresult dcu_capture_check_all(void);
static inline CUresult dcu_capture_none(void)
{
        return dcu_captures_any() ? dcu_capture_check_all() : CUDA_SUCCESS;
}

/* What dcu_stream_slot() asks: may something that cannot be captured use the slot? */
CUresult dcu_capture_check_slot(uint32_t slot);
/* The slot's capture, if it has one, is not valid any more. */
void dcu_capture_spoil(uint32_t slot);

/* Nodes, behind what the slot's stream has captured so far. All check that it still captures. */
CUresult dcu_capture_launch(uint32_t slot, struct dcu_context *owner, const struct dcu_launch *launch);
/* dst_host, src_host: that side is the host's as the program sees it. */
CUresult dcu_capture_copy(
        uint32_t slot, struct dcu_context *owner, const struct dcu_box *box, int dst_host, int src_host);
CUresult dcu_capture_memset(uint32_t slot, const CUDA_MEMSET_NODE_PARAMS_v2 *params);
CUresult dcu_capture_host(uint32_t slot, CUhostFn fn, void *argument);
CUresult dcu_capture_memops(uint32_t slot, struct dcu_context *owner, unsigned int count,
        const CUstreamBatchMemOpParams *ops, unsigned int flags);
CUresult dcu_capture_mem_alloc(uint32_t slot, size_t bytes, CUdeviceptr *ret);
CUresult dcu_capture_mem_free(uint32_t slot, CUdeviceptr address);

/* --- events --- */

/* The event stands for what the slot has captured so far, or (external) a node records it. */
CUresult dcu_capture_record(uint32_t slot, struct dcu_event *event, unsigned int flags);
/* The slot's stream, which captures or not, waits for an event that was last recorded in a capture. */
CUresult dcu_capture_join(uint32_t slot, struct dcu_event *event);
/* A stream that captures waits for an event that was recorded outside of captures. */
CUresult dcu_capture_wait_outside(uint32_t slot, struct dcu_event *event, unsigned int flags);
/* Query and the like of an event that was last recorded in a capture: the error. */
CUresult dcu_capture_event_used(struct dcu_event *event);
/* It is recorded outside. */
void dcu_capture_unmark(struct dcu_event *event);
void dcu_capture_mark_free(struct dcu_capture_mark *mark);

/* --- the calls --- */

CUresult dcu_capture_begin(uint32_t slot, CUstreamCaptureMode mode, CUgraph graph, const CUgraphNode *deps,
        const CUgraphEdgeData *data, size_t n_deps);
CUresult dcu_capture_end(uint32_t slot, CUgraph *ret);
CUresult dcu_capture_update(
        uint32_t slot, const CUgraphNode *deps, const CUgraphEdgeData *data, size_t n, unsigned int flags);

struct dcu_capture_info {
        int wants_deps, wants_data;
        CUstreamCaptureStatus status;
        unsigned long long id;
        CUgraph graph;
        const CUgraphNode *deps;
        const CUgraphEdgeData *data;
        size_t n;
};

CUresult dcu_capture_info(uint32_t slot, struct dcu_capture_info *info);

/* The slot is given back, or all are: dcu.lock is held. */
void dcu_capture_slot_gone(uint32_t slot);
void dcu_capture_reset(void);

/*
 * A free of memory that a graph allocates, by a call outside of graphs: 1 if the address is one, and *ret the result of
 * the call.
 */
int dcu_graph_memory_freed(CUdeviceptr address, CUresult *ret);
