/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: record, wait, query, elapsed time
 */
#include "cuda/event.h"
#include "cuda/capture.h"
#include "cuda/pool.h"
#include "cuda/stream.h"

#define EVENT_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
        struct dcu_context *context;
        struct dcu_event *event;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!phEvent || (Flags & ~(unsigned int)EVENT_FLAGS))
                return CUDA_ERROR_INVALID_VALUE;
        if ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING))
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        event = dcu_object_new(DCU_EVENT, sizeof(*event), context);
        if (event) {
                pthread_mutex_init(&event->lock, NULL);
                event->flags = Flags;
                *phEvent = dcu_handle(event);
        }
        pthread_mutex_unlock(&dcu.lock);
        return event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void dcu_event_free(struct dcu_event *event, int in_daemon)
{
        if (event->id && in_daemon)
                (void)dsc_event_destroy(dcu.session, event->id);
        dcu_capture_mark_free(atomic_load(&event->mark));
        if (event->shared && in_daemon)
                (void)dsc_shared_close(dcu.session, event->shared);
        pthread_mutex_destroy(&event->lock);
        dcu_object_free(&event->head);
}

static CUresult destroy(CUevent hEvent)
{
        struct dcu_context *context;
        struct dcu_event *event;
        CUresult r = dcu_enter_any(&context);

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        event = dcu_object_of(hEvent, DCU_EVENT);
        if (event)
                dcu_event_free(event, 1);
        pthread_mutex_unlock(&dcu.lock);
        return event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventDestroy(CUevent hEvent)
{
        return destroy(hEvent);
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
        return destroy(hEvent);
}

static CUresult make_object(struct dcu_event *event)
{
        if (event->id || (event->flags & CU_EVENT_DISABLE_TIMING))
                return CUDA_SUCCESS;
        return dcu_result(dsc_event_create(dcu.session, &event->id));
}

CUresult dcu_event_daemon_id(struct dcu_event *event, uint64_t *ret_id)
{
        CUresult r;

        pthread_mutex_lock(&event->lock);
        r = make_object(event);
        *ret_id = event->id;
        pthread_mutex_unlock(&event->lock);
        return r;
}

void dcu_event_set(struct dcu_event *event, uint32_t slot, uint64_t seq)
{
        if (dcu_event_captured(event))
                dcu_capture_unmark(event);
        pthread_mutex_lock(&event->lock);
        event->recorded = 1;
        event->slot = slot;
        event->seq = seq;
        if (event->shared)
                (void)dsc_shared_record(dcu.session, event->shared, slot, seq);
        pthread_mutex_unlock(&event->lock);
}

static CUresult record_locked(struct dcu_event *event, uint32_t slot)
{
        CUresult r = make_object(event);
        uint64_t seq;

        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_event_record(dcu.session, slot, event->id, &seq));
        if (r == CUDA_SUCCESS && event->shared)
                r = dcu_result(dsc_shared_record(dcu.session, event->shared, slot, seq));
        if (r == CUDA_SUCCESS) {
                event->recorded = 1;
                event->slot = slot;
                event->seq = seq;
        }
        return r;
}

static CUresult record(CUevent hEvent, CUstream hStream, unsigned int flags)
{
        struct dcu_event *event = dcu_object_of(hEvent, DCU_EVENT);
        struct dcu_context *context, *owner;
        uint32_t slot;
        int capturing;
        CUresult r = dcu_enter_any(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (flags & ~(unsigned int)CU_EVENT_RECORD_EXTERNAL)
                return CUDA_ERROR_INVALID_VALUE;
        if (!event)
                return CUDA_ERROR_INVALID_HANDLE;
        r = dcu_stream_work(hStream, context, &slot, &owner, &capturing);
        if (r != CUDA_SUCCESS)
                return r;
        if (owner != event->head.owner)
                return CUDA_ERROR_INVALID_HANDLE;
        if (capturing)
                return dcu_capture_record(slot, event, flags);
        if (flags & CU_EVENT_RECORD_EXTERNAL)
                return CUDA_ERROR_ILLEGAL_STATE; /* the flag is valid only in a capture */
        if (dcu_event_captured(event))
                dcu_capture_unmark(event);
        pthread_mutex_lock(&event->lock);
        r = record_locked(event, slot);
        pthread_mutex_unlock(&event->lock);
        return r;
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
        return record(hEvent, hStream, 0);
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
        return record(hEvent, hStream, flags);
}

CUresult dcu_event_recorded(CUevent handle, struct dcu_event_record *ret)
{
        struct dcu_event *event = dcu_object_of(handle, DCU_EVENT);

        if (!event)
                return CUDA_ERROR_INVALID_HANDLE;
        pthread_mutex_lock(&event->lock);
        *ret = (struct dcu_event_record){event->recorded, event->slot, event->seq, event->shared};
        pthread_mutex_unlock(&event->lock);
        return CUDA_SUCCESS;
}

/* The checks with which calls on events begin. They need no current context: PyTorch's thread for pinned memory
 * queries events without one. */
static CUresult enter_event(CUevent hEvent, struct dcu_event_record *ret)
{
        struct dcu_event *event = dcu_object_of(hEvent, DCU_EVENT);
        struct dcu_context *context;
        CUresult r = dcu_enter_any(&context);

        if (r == CUDA_SUCCESS && event && dcu_event_captured(event))
                return dcu_capture_event_used(event);
        if (r == CUDA_SUCCESS)
                r = dcu_capture_unsafe();
        return r == CUDA_SUCCESS ? dcu_event_recorded(hEvent, ret) : r;
}

CUresult cuEventQuery(CUevent hEvent)
{
        struct dcu_event_record recorded;
        CUresult r = enter_event(hEvent, &recorded);

        if (r == CUDA_SUCCESS && recorded.shared)
                return dcu_result(dsc_shared_query(dcu.session, recorded.shared));
        if (r != CUDA_SUCCESS || !recorded.valid)
                return r;
        return dcu_result(dsc_query(dcu.session, recorded.slot, recorded.seq));
}

CUresult cuEventSynchronize(CUevent hEvent)
{
        struct dcu_event_record recorded;
        CUresult r = enter_event(hEvent, &recorded);

        if (r == CUDA_SUCCESS && recorded.shared)
                return dcu_result(dsc_shared_wait(dcu.session, recorded.shared));
        if (r != CUDA_SUCCESS || !recorded.valid)
                return r;
        r = dcu_result(dsc_wait(dcu.session, recorded.slot, recorded.seq));
        dcu_pool_synchronized();
        return r;
}

struct timed {
        uint64_t id, seq;
        uint32_t slot;
};

/* The daemon's object of a timed event; CUDA_ERROR_INVALID_HANDLE if there is none, CUDA_ERROR_INVALID_VALUE if it
 * was last recorded in a capture. */
static CUresult timed(CUevent hEvent, struct timed *ret)
{
        struct dcu_event *event = dcu_object_of(hEvent, DCU_EVENT);
        CUresult r = CUDA_ERROR_INVALID_HANDLE;

        if (!event)
                return r;
        if (dcu_event_captured(event))
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&event->lock);
        if (event->recorded && event->id) {
                *ret = (struct timed){event->id, event->seq, event->slot};
                r = CUDA_SUCCESS;
        }
        pthread_mutex_unlock(&event->lock);
        return r;
}

/* Computes the time between the events. Times that the daemon wrote to shared memory need no request. */
static CUresult between(const struct timed *start, const struct timed *end, int64_t *ret_ns)
{
        uint64_t from, to;

        if (dsc_event_time(dcu.session, start->id, start->slot, start->seq, &from) &&
                dsc_event_time(dcu.session, end->id, end->slot, end->seq, &to)) {
                *ret_ns = (int64_t)(to - from);
                return CUDA_SUCCESS;
        }
        return dcu_result(dsc_event_elapsed(dcu.session, start->id, end->id, ret_ns));
}

static CUresult elapsed(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
        struct dcu_context *context;
        struct timed start, end;
        int64_t ns;
        CUresult r = dcu_enter_any(&context);

        if (r == CUDA_SUCCESS)
                r = timed(hStart, &start);
        if (r == CUDA_SUCCESS)
                r = timed(hEnd, &end);
        if (r == CUDA_SUCCESS && !pMilliseconds)
                r = CUDA_ERROR_INVALID_HANDLE; /* NVIDIA's driver returns this, not an invalid value */
        if (r == CUDA_SUCCESS)
                r = between(&start, &end, &ns);
        if (r == CUDA_SUCCESS)
                *pMilliseconds = (float)((double)ns * 1e-6);
        return r;
}

CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
        return elapsed(pMilliseconds, hStart, hEnd);
}

CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
        return elapsed(pMilliseconds, hStart, hEnd);
}
