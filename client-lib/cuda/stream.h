/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: from a CUstream to the daemon's stream slot
 *
 * Slot 0 is the session's legacy default stream. The daemon joins it with all blocking streams, as CUDA demands. Each
 * thread that uses the per-thread default stream has a real stream for it, made at its first use.
 *
 * cuStreamDestroy returns at once, but the daemon answers when the stream has drained. So the slot of a busy stream is
 * put aside, and a later call that finds it idle frees it.
 */
#pragma once

#include "cuda/context.h"

/* Attributes of a stream: stored and returned without effect (see streamattr.c), initially zero. */
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
 * The slot of a stream handle in the calling thread; *ret_owner: its context (the current one for 0, 1, 2). A stream
 * handle needs no current context (*ret_owner NULL), as with NVIDIA's driver; 0, 1 and 2 without one are
 * CUDA_ERROR_INVALID_CONTEXT. For work that cannot be captured; other work uses dcu_stream_work() of capture.h.
 */
CUresult dcu_stream_slot(
        CUstream stream, struct dcu_context *current, uint32_t *ret_slot, struct dcu_context **ret_owner);
/* As dcu_stream_slot(), for queries: also accepts a capturing stream, and the legacy stream while a blocking stream
 * captures. */
CUresult dcu_stream_slot_any(
        CUstream stream, struct dcu_context *current, uint32_t *ret_slot, struct dcu_context **ret_owner);
/* For the core's callback (dsc_streams()): *ret_slot is the slot of a CUstream in the calling thread. Returns 0 or a
 * CUDA error. */
int dcu_stream_for_core(void *stream, uint32_t *ret_slot);
int dcu_stream_joins_legacy(uint32_t slot);
/* Waits for all work submitted to the slot (and, for slot 0, to the streams that it joins with). */
CUresult dcu_stream_drain(uint32_t slot);
/*
 * For synchronous calls that submit work to the slot of which only later work can tell whether it has ended.
 * dcu_ahead_begin() before the submission; dcu_ahead_end() after it. 1: the call may return at once: no work was left for
 * which the slot waits, other than of such calls, and later work of every stream runs after the submitted work. 0: later
 * work of non-blocking streams may run before it: work that is left before it may wait for such a stream.
 */
struct dcu_ahead {
        int idle; /* 1: no work was left before */
        struct dsc_ahead core;
};
void dcu_ahead_begin(uint32_t slot, struct dcu_ahead *ret);
int dcu_ahead_end(uint32_t slot, const struct dcu_ahead *begin);

/* Frees object and slot. With dcu.lock held. */
void dcu_stream_free(struct dcu_stream *stream, int in_daemon);
/* The session is being reset: forgets all slots. With dcu.lock held. */
void dcu_stream_reset(void);
void dcu_stream_thread_end(struct dcu_thread *thread);
