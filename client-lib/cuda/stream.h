/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: from a CUstream to the daemon's stream slot
 *
 * Slot 0 is the legacy default stream of the session, joined by the daemon with all blocking streams as CUDA demands.
 * Each thread that uses the per-thread default stream has a real stream for it, made on first use.
 *
 * cuStreamDestroy returns at once while the daemon's answer comes when the stream has drained, so a busy stream's slot
 * is kept aside and given back by a later call that finds it idle.
 */
#pragma once

#include "cuda/context.h"

/* Kept and given back, see streamattr.c; all zero: as they are at first. */
struct dcu_stream_attributes {
        CUaccessPolicyWindow window;
        CUsynchronizationPolicy policy;
        CUlaunchMemSyncDomainMap map;
        CUlaunchMemSyncDomain domain;
        int map_set;
};

struct dcu_stream {
        struct dcu_object head;
        uint32_t slot;
        unsigned int flags;
        int priority;
        unsigned long long id;
        struct dcu_stream_attributes attributes;
};

/*
 * The slot of a stream handle in the calling thread; *ret_owner is the context it belongs to (current for 0, 1, 2).
 * Without a current context (NULL) a stream is enough, as NVIDIA's driver has it; 0, 1 and 2 then are
 * CUDA_ERROR_INVALID_CONTEXT. For what cannot be captured: work that can be asks dcu_stream_work() of capture.h.
 */
CUresult dcu_stream_slot(
        CUstream stream, struct dcu_context *current, uint32_t *ret_slot, struct dcu_context **ret_owner);
/* The same for questions: also a stream that captures, and the legacy stream beside one. */
CUresult dcu_stream_slot_any(
        CUstream stream, struct dcu_context *current, uint32_t *ret_slot, struct dcu_context **ret_owner);
/* For the core (dsc_streams): a CUstream's slot in the calling thread, 0 or a CUDA error. */
int dcu_stream_for_core(void *stream, uint32_t *ret_slot);
int dcu_stream_joins_legacy(uint32_t slot);
/* Wait for everything that has been submitted to the slot (and, for slot 0, to what it joins with). */
CUresult dcu_stream_drain(uint32_t slot);
/*
 * A synchronous call has submitted device-side work to the slot. The call may return before it has ended where nothing
 * can tell the difference: as long as every stream joins with slot 0. Otherwise wait for it, now or when that changes.
 */
CUresult dcu_stream_settle(uint32_t slot);

/* Object and slot. dcu.lock must be held. */
void dcu_stream_free(struct dcu_stream *stream, int in_daemon);
/* The session is being reset: forget all slots. dcu.lock must be held. */
void dcu_stream_reset(void);
void dcu_stream_thread_end(struct dcu_thread *thread);
