/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: creation, waits, queries, destruction
 */
#include <string.h>

#include "cuda/capture.h"
#include "cuda/event.h"
#include "cuda/pool.h"
#include "cuda/stream.h"

#define SLOTS 512u /* value of DS_STREAMS_MAX in the protocol */
#define ID_LEGACY 7u
#define ID_PER_THREAD 15u
#define ID_FIRST 16u

/* Bit sets: slots of blocking streams; slots of destroyed streams that still have work. */
static _Atomic uint64_t blocking[SLOTS / 64];
static _Atomic uint64_t draining[SLOTS / 64];
static _Atomic uint32_t n_draining;
static _Atomic unsigned long long next_id = ID_FIRST;

static void set_bit(_Atomic uint64_t *bits, uint32_t slot)
{
        atomic_fetch_or(&bits[slot / 64], 1ull << slot % 64);
}

static int clear_bit(_Atomic uint64_t *bits, uint32_t slot)
{
        return (atomic_fetch_and(&bits[slot / 64], ~(1ull << slot % 64)) >> slot % 64) & 1;
}

static int slot_busy(uint32_t slot)
{
        return dsc_peek(dcu.session, slot, dsc_stream_tail(dcu.session, slot)) == CUDA_ERROR_NOT_READY;
}

/* Frees the slots of destroyed streams whose work has ended. */
static void reap(void)
{
        for (uint32_t word = 0; word < SLOTS / 64 && atomic_load(&n_draining); word++) {
                for (uint64_t bits = atomic_load(&draining[word]); bits; bits &= bits - 1) {
                        uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(bits);

                        if (!slot_busy(slot) && clear_bit(draining, slot)) {
                                atomic_fetch_sub(&n_draining, 1);
                                clear_bit(blocking, slot);
                                (void)dsc_stream_destroy(dcu.session, slot);
                        }
                }
        }
}

static void release_slot(uint32_t slot)
{
        /* a draining slot still joins with the legacy stream, so its bit in `blocking` stays until the slot is freed */
        set_bit(draining, slot);
        atomic_fetch_add(&n_draining, 1);
        reap();
}

static CUresult make_slot(int priority, unsigned int flags, uint32_t *ret_slot)
{
        CUresult r;

        reap();
        r = dcu_result(dsc_stream_create(dcu.session, priority, (flags & CU_STREAM_NON_BLOCKING) != 0, ret_slot));
        if (r != CUDA_SUCCESS)
                return r;
        if (!(flags & CU_STREAM_NON_BLOCKING))
                set_bit(blocking, *ret_slot);
        return CUDA_SUCCESS;
}

static CUresult per_thread_slot(uint32_t *ret_slot)
{
        struct dcu_thread *self = &dcu_self;
        uint32_t epoch = atomic_load_explicit(&dcu.epoch, memory_order_relaxed);
        CUresult r;

        if (!self->stream || self->stream_epoch != epoch) {
                if (!dcu_thread_register())
                        return CUDA_ERROR_OUT_OF_MEMORY;
                self->stream = 0;
                r = make_slot(0, CU_STREAM_DEFAULT, &self->stream);
                if (r != CUDA_SUCCESS)
                        return r;
                self->stream_epoch = epoch;
        }
        *ret_slot = self->stream;
        return CUDA_SUCCESS;
}

CUresult dcu_stream_slot_any(
        CUstream stream, struct dcu_context *current, uint32_t *ret_slot, struct dcu_context **ret_owner)
{
        const struct dcu_stream *object;

        *ret_owner = current;
        if (stream == CU_STREAM_LEGACY || (!stream && !dcu_self.per_thread)) {
                *ret_slot = 0;
                return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
        }
        if (!stream || stream == CU_STREAM_PER_THREAD)
                return current ? per_thread_slot(ret_slot) : CUDA_ERROR_INVALID_CONTEXT;
        object = dcu_object_of(stream, DCU_STREAM);
        if (!object)
                return current ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_CONTEXT;
        *ret_slot = object->slot;
        *ret_owner = object->head.owner;
        return CUDA_SUCCESS;
}

CUresult dcu_stream_slot(
        CUstream stream, struct dcu_context *current, uint32_t *ret_slot, struct dcu_context **ret_owner)
{
        CUresult r = dcu_stream_slot_any(stream, current, ret_slot, ret_owner);

        return r == CUDA_SUCCESS && dcu_captures_any() ? dcu_capture_check_slot(*ret_slot) : r;
}

int dcu_stream_for_core(void *stream, uint32_t *ret_slot)
{
        struct dcu_context *context, *owner;
        CUresult r = dcu_enter_any(&context);

        return (int)(r == CUDA_SUCCESS ? dcu_stream_slot(stream, context, ret_slot, &owner) : r);
}

CUresult dcu_stream_work(CUstream stream, struct dcu_context *current, uint32_t *ret_slot,
        struct dcu_context **ret_owner, int *ret_capturing)
{
        CUresult r = dcu_stream_slot_any(stream, current, ret_slot, ret_owner);

        *ret_capturing = 0;
        return r == CUDA_SUCCESS && dcu_captures_any() ? dcu_capture_check_work(*ret_slot, ret_capturing) : r;
}

int dcu_stream_joins_legacy(uint32_t slot)
{
        return (int)(atomic_load(&blocking[slot / 64]) >> slot % 64 & 1);
}

CUresult dcu_stream_drain(uint32_t slot)
{
        uint64_t seq = dsc_stream_tail(dcu.session, slot);
        CUresult r;

        if (slot == 0) {
                /* wait for all blocking streams by one operation of the legacy stream */
                r = dcu_result(dsc_event_record(dcu.session, 0, 0, &seq));
                if (r != CUDA_SUCCESS)
                        return r;
        }
        return dcu_result(dsc_wait(dcu.session, slot, seq));
}

static int slot_unfinished(uint32_t slot)
{
        return !dsc_ended(dcu.session, slot, dsc_stream_tail(dcu.session, slot));
}

/* 1: busy() holds for a blocking stream. */
static int any_blocking(int (*busy)(uint32_t slot))
{
        for (uint32_t word = 0; word < SLOTS / 64; word++) {
                for (uint64_t bits = atomic_load(&blocking[word]); bits; bits &= bits - 1) {
                        if (busy(word * 64 + (uint32_t)__builtin_ctzll(bits)))
                                return 1;
                }
        }
        return 0;
}

void dcu_ahead_begin(uint32_t slot, struct dcu_ahead *ret)
{
        ret->idle = slot == 0 && dsc_ahead_begin(dcu.session, &ret->core) && !any_blocking(slot_unfinished);
}

int dcu_ahead_end(uint32_t slot, const struct dcu_ahead *begin)
{
        /* another thread may have submitted to a blocking stream since dcu_ahead_begin(), before this call's work */
        return slot == 0 && begin->idle && dsc_ahead_end(dcu.session, &begin->core) && !any_blocking(slot_unfinished);
}

void dcu_stream_free(struct dcu_stream *stream, int in_daemon)
{
        uint32_t slot = stream->slot;

        dcu_capture_slot_gone(slot);
        dcu_object_free(&stream->head);
        if (in_daemon)
                release_slot(slot);
}

void dcu_stream_reset(void)
{
        dcu_capture_reset();
        for (uint32_t word = 0; word < SLOTS / 64; word++) {
                atomic_store(&blocking[word], 0);
                atomic_store(&draining[word], 0);
        }
        atomic_store(&n_draining, 0);
}

void dcu_stream_thread_end(struct dcu_thread *thread)
{
        pthread_mutex_lock(&dcu.lock);
        if (thread->stream && thread->stream_epoch == atomic_load(&dcu.epoch)) {
                dcu_capture_slot_gone(thread->stream);
                release_slot(thread->stream);
        }
        thread->stream = 0;
        pthread_mutex_unlock(&dcu.lock);
}

/* Limits a priority to CUDA's range on all devices with priorities: 0 is the lowest, -5 the highest. */
static int clamp_priority(int priority)
{
        return priority > 0 ? 0 : (priority < -5 ? -5 : priority);
}

static CUresult create(CUstream *phStream, unsigned int flags, int priority)
{
        struct dcu_stream *stream = NULL;
        struct dcu_context *context;
        uint32_t slot = 0;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!phStream || (flags & ~(unsigned int)CU_STREAM_NON_BLOCKING))
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_enter(&context);
        if (r != CUDA_SUCCESS)
                return r;
        r = make_slot(priority, flags, &slot);
        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        stream = dcu_object_new(DCU_STREAM, sizeof(*stream), context);
        if (stream) {
                stream->slot = slot;
                stream->flags = flags;
                stream->priority = priority;
                stream->id = atomic_fetch_add(&next_id, 1);
                *phStream = dcu_handle(stream);
        } else {
                release_slot(slot);
        }
        pthread_mutex_unlock(&dcu.lock);
        return stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
        return create(phStream, Flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
        return create(phStream, flags, clamp_priority(priority));
}

CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
        struct dcu_context *context;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (leastPriority)
                *leastPriority = 0;
        if (greatestPriority)
                *greatestPriority = -5;
        return CUDA_SUCCESS;
}

static CUresult destroy(CUstream hStream)
{
        struct dcu_context *context;
        struct dcu_stream *stream;
        CUresult r = dcu_enter_any(&context);

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        stream = dcu_object_of(hStream, DCU_STREAM);
        if (stream)
                dcu_stream_free(stream, 1);
        pthread_mutex_unlock(&dcu.lock);
        return stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamDestroy(CUstream hStream)
{
        return destroy(hStream);
}

CUresult cuStreamDestroy_v2(CUstream hStream)
{
        return destroy(hStream);
}

/* The checks with which queries on a stream begin. */
static CUresult enter_stream(CUstream hStream, uint32_t *ret_slot, struct dcu_context **ret_owner)
{
        struct dcu_context *context;
        CUresult r = dcu_enter_any(&context);

        return r == CUDA_SUCCESS ? dcu_stream_slot_any(hStream, context, ret_slot, ret_owner) : r;
}

/* Checks for calls that wait for a stream or query it: refused while the stream captures, or while a capture forbids
 * the call in this thread. */
static CUresult enter_waiting(CUstream hStream, uint32_t *ret_slot)
{
        struct dcu_context *context, *owner;
        CUresult r = dcu_enter_any(&context);

        if (r == CUDA_SUCCESS)
                r = dcu_stream_slot(hStream, context, ret_slot, &owner);
        return r == CUDA_SUCCESS ? dcu_capture_unsafe() : r;
}

CUresult cuStreamSynchronize(CUstream hStream)
{
        uint32_t slot;
        CUresult r = enter_waiting(hStream, &slot);

        if (r == CUDA_SUCCESS)
                r = dcu_stream_drain(slot);
        dcu_pool_synchronized();
        return r;
}

CUresult cuStreamQuery(CUstream hStream)
{
        uint32_t slot;
        CUresult r = enter_waiting(hStream, &slot);

        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_query(dcu.session, slot, dsc_stream_tail(dcu.session, slot)));
        if (r == CUDA_SUCCESS && slot == 0 && any_blocking(slot_busy))
                r = CUDA_ERROR_NOT_READY;
        return r;
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
        struct dcu_event *event = dcu_object_of(hEvent, DCU_EVENT);
        struct dcu_event_record recorded;
        struct dcu_context *context, *owner;
        uint32_t slot;
        int capturing;
        CUresult r = dcu_enter_any(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (Flags & ~(unsigned int)CU_EVENT_WAIT_EXTERNAL)
                return CUDA_ERROR_INVALID_VALUE;
        if (!event)
                return CUDA_ERROR_INVALID_HANDLE;
        r = dcu_stream_work(hStream, context, &slot, &owner, &capturing);
        if (r != CUDA_SUCCESS)
                return r;
        if (!capturing && (Flags & CU_EVENT_WAIT_EXTERNAL))
                return CUDA_ERROR_ILLEGAL_STATE; /* the flag is valid only in a capture */
        if (!(Flags & CU_EVENT_WAIT_EXTERNAL) && dcu_event_captured(event))
                return dcu_capture_join(slot, event);
        if (capturing)
                return dcu_capture_wait_outside(slot, event, Flags);
        r = dcu_event_recorded(hEvent, &recorded);
        if (r != CUDA_SUCCESS)
                return r;
        if (recorded.shared)
                return dcu_result(dsc_shared_stream_wait(dcu.session, slot, recorded.shared));
        if (!recorded.valid)
                return CUDA_SUCCESS;
        return dcu_result(dsc_stream_wait(dcu.session, slot, recorded.slot, recorded.seq));
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
        const struct dcu_stream *stream = dcu_object_of(hStream, DCU_STREAM);
        struct dcu_context *owner;
        uint32_t slot;
        CUresult r = enter_stream(hStream, &slot, &owner);

        if (r != CUDA_SUCCESS)
                return r;
        if (!flags)
                return CUDA_ERROR_INVALID_VALUE;
        *flags = stream ? stream->flags : CU_STREAM_DEFAULT;
        return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
        const struct dcu_stream *stream = dcu_object_of(hStream, DCU_STREAM);
        struct dcu_context *owner;
        uint32_t slot;
        CUresult r = enter_stream(hStream, &slot, &owner);

        if (r != CUDA_SUCCESS)
                return r;
        if (!priority)
                return CUDA_ERROR_INVALID_VALUE;
        *priority = stream ? stream->priority : 0;
        return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
        const struct dcu_stream *stream = dcu_object_of(hStream, DCU_STREAM);
        struct dcu_context *owner;
        uint32_t slot;
        CUresult r = enter_stream(hStream, &slot, &owner);

        if (r != CUDA_SUCCESS)
                return r;
        if (!streamId)
                return CUDA_ERROR_INVALID_VALUE;
        *streamId = stream ? stream->id : (slot == 0 ? ID_LEGACY : ID_PER_THREAD + ((unsigned long long)slot << 32));
        return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
        struct dcu_context *owner;
        uint32_t slot;
        CUresult r = enter_stream(hStream, &slot, &owner);

        if (r != CUDA_SUCCESS)
                return r;
        if (!pctx)
                return CUDA_ERROR_INVALID_VALUE;
        *pctx = dcu_context_handle(owner);
        return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
        if (pGreenCtx)
                *pGreenCtx = NULL;
        return cuStreamGetCtx(hStream, pCtx);
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
        struct dcu_context *owner;
        uint32_t slot;
        CUresult r = enter_stream(hStream, &slot, &owner);

        if (r != CUDA_SUCCESS)
                return r;
        if (!device)
                return CUDA_ERROR_INVALID_VALUE;
        *device = 0;
        return CUDA_SUCCESS;
}
