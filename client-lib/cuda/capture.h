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
 * stream's capture is invalid; or the stream is the legacy stream, and a blocking stream captures.
 */
CUresult dcu_stream_work(CUstream stream, struct dcu_context *current, uint32_t *ret_slot,
        struct dcu_context **ret_owner, int *ret_capturing);

CUresult dcu_capture_check_work(uint32_t slot, int *ret_capturing);
CUresult dcu_capture_check_unsafe(void);
/* For calls that CUDA calls unsafe: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if a capture forbids them in the calling
 * thread; that capture is then invalid. */
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

/* For dcu_stream_slot(): an error if the slot's stream captures, or is the legacy stream while a blocking stream
 * captures. */
CUresult dcu_capture_check_slot(uint32_t slot);
/* Makes the capture in which the slot's stream takes part invalid; does nothing if there is none. */
void dcu_capture_spoil(uint32_t slot);

/* Functions that add a node after the slot's captured work. All return an error if the stream no longer captures. */
CUresult dcu_capture_launch(uint32_t slot, struct dcu_context *owner, const struct dcu_launch *launch);
/* dst_host, src_host: 1 if that side of the copy is a host address of the program. */
CUresult dcu_capture_copy(
        uint32_t slot, struct dcu_context *owner, const struct dcu_box *box, int dst_host, int src_host);
CUresult dcu_capture_memset(uint32_t slot, const CUDA_MEMSET_NODE_PARAMS_v2 *params);
CUresult dcu_capture_host(uint32_t slot, CUhostFn fn, void *argument);
CUresult dcu_capture_memops(uint32_t slot, struct dcu_context *owner, unsigned int count,
        const CUstreamBatchMemOpParams *ops, unsigned int flags);
CUresult dcu_capture_mem_alloc(uint32_t slot, size_t bytes, CUdeviceptr *ret);
CUresult dcu_capture_mem_free(uint32_t slot, CUdeviceptr address);

/* --- events --- */

/* Makes the event stand for the slot's captured work. flags with CU_EVENT_RECORD_EXTERNAL: adds a node that records
 * the event instead. */
CUresult dcu_capture_record(uint32_t slot, struct dcu_event *event, unsigned int flags);
/* The slot's stream, capturing or not, waits for an event that was last recorded in a capture. */
CUresult dcu_capture_join(uint32_t slot, struct dcu_event *event);
/* A capturing stream waits for an event that was recorded outside of captures. */
CUresult dcu_capture_wait_outside(uint32_t slot, struct dcu_event *event, unsigned int flags);
/* The error of queries and waits on an event that was last recorded in a capture. */
CUresult dcu_capture_event_used(struct dcu_event *event);
/* Forgets the captured work that the event stood for, because the event is recorded outside of captures. */
void dcu_capture_unmark(struct dcu_event *event);
void dcu_capture_mark_free(struct dcu_capture_mark *mark);

/* --- implementations of CUDA's capture calls --- */

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

/* Ends the capture of a slot, or of all slots (reset), because the stream or the session is freed. With dcu.lock
 * held. */
void dcu_capture_slot_gone(uint32_t slot);
void dcu_capture_reset(void);

/*
 * For freeing memory outside of graphs: 1 if a graph's node allocates the address; *ret is then the result of the free.
 */
int dcu_graph_memory_freed(CUdeviceptr address, CUresult *ret);
