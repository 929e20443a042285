/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture: work submitted to a stream becomes nodes of a graph
 *
 * A capture belongs to this process and never reaches the device: its nodes are made here, while other streams and
 * other processes continue. The rules are CUDA's: how a capture spreads to other streams by events, which calls a
 * thread may not make meanwhile, and which mistakes invalidate a capture.
 *
 * dcu_stream_slot() refuses a capturing stream: calls that cannot be captured use it. Calls that can be captured use
 * dcu_stream_work() and make a node if it says so. Calls that CUDA calls unsafe during a capture (those not ordered by
 * streams) check dcu_capture_unsafe() first.
 *
 * While no stream captures, all of this costs one load. dcu.lock protects the state of captures.
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

extern _Atomic uint32_t dcu_captures; /* number of captures in this process that have begun and not ended */

static inline int dcu_captures_any(void)
{
        return __builtin_expect(atomic_load_explicit(&dcu_captures, memory_order_relaxed) != 0, 0);
}

/*
 * As dcu_stream_slot(), for work that can be captured; *ret_capturing: 1 if the caller must make a node. Errors: the
 * legacy stream while a stream that it joins with captures, a stream whose capture is invalid.
 */
CUresult dcu_stream_work(CUstream stream, struct dcu_context *current, uint32_t *ret_slot,
        struct dcu_context **ret_owner, int *ret_capturing);

CUresult dcu_capture_check_work(uint32_t slot, int *ret_capturing);
CUresult dcu_capture_check_unsafe(void);
/* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if the calling thread may not do this now; the capture is then invalid. */
static inline CUresult dcu_capture_unsafe(void)
{
        return dcu_captures_any() ? dcu_capture_check_unsafe() : CUDA_SUCCESS;
}

/* For calls that wait for every stream: an error if any capture is under way, whatever its mode. */
CUresult dcu_capture_check_all(void);
static inline CUresult dcu_capture_none(void)
{
        return dcu_captures_any() ? dcu_capture_check_all() : CUDA_SUCCESS;
}

/* For dcu_stream_slot(): an error if work that cannot be captured may not use the slot. */
CUresult dcu_capture_check_slot(uint32_t slot);
/* Invalidates the slot's capture, if it has one. */
void dcu_capture_spoil(uint32_t slot);

/* Adding of nodes after the slot's captured work. All check that the slot still captures. */
CUresult dcu_capture_launch(uint32_t slot, struct dcu_context *owner, const struct dcu_launch *launch);
/* dst_host, src_host: 1 if that side is a host address of the program. */
CUresult dcu_capture_copy(
        uint32_t slot, struct dcu_context *owner, const struct dcu_box *box, int dst_host, int src_host);
CUresult dcu_capture_memset(uint32_t slot, const CUDA_MEMSET_NODE_PARAMS_v2 *params);
CUresult dcu_capture_host(uint32_t slot, CUhostFn fn, void *argument);
CUresult dcu_capture_memops(uint32_t slot, struct dcu_context *owner, unsigned int count,
        const CUstreamBatchMemOpParams *ops, unsigned int flags);
CUresult dcu_capture_mem_alloc(uint32_t slot, size_t bytes, CUdeviceptr *ret);
CUresult dcu_capture_mem_free(uint32_t slot, CUdeviceptr address);

/* --- events --- */

/* Makes the event stand for the slot's captured work; external: adds a node that records it. */
CUresult dcu_capture_record(uint32_t slot, struct dcu_event *event, unsigned int flags);
/* The slot's stream, capturing or not, waits for an event that was last recorded in a capture. */
CUresult dcu_capture_join(uint32_t slot, struct dcu_event *event);
/* A capturing stream waits for an event that was recorded outside of captures. */
CUresult dcu_capture_wait_outside(uint32_t slot, struct dcu_event *event, unsigned int flags);
/* The error of queries and waits on an event that was last recorded in a capture. */
CUresult dcu_capture_event_used(struct dcu_event *event);
/* The event was recorded outside of captures: forget what it stood for. */
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

/* The slot, or all slots, is freed; with dcu.lock held. */
void dcu_capture_slot_gone(uint32_t slot);
void dcu_capture_reset(void);

/*
 * For a free outside of graphs: 1 if a graph allocates the address; *ret is then the call's result.
 */
int dcu_graph_memory_freed(CUdeviceptr address, CUresult *ret);
