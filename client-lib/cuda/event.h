/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: the place in a stream that they were last recorded at
 *
 * Waiting and querying need only (slot, sequence number). An event that may be timed has an object in the daemon as
 * well, made when it is first recorded, because most events never are asked for their time. So has one that other
 * processes share, from when a handle is asked for: then any of them may have recorded it last.
 */
#pragma once

#include <pthread.h>

#include "cuda/context.h"

struct dcu_capture_mark;

struct dcu_event {
        struct dcu_object head;
        pthread_mutex_t lock; /* what follows */
        unsigned int flags;
        int recorded;
        uint32_t slot;
        uint64_t seq;
        uint64_t id;     /* the daemon's, 0: none yet */
        uint64_t shared; /* of an event that other processes have or may open: the daemon's, 0: none */
        uint8_t token[DSC_SHARED_TOKEN];
        _Atomic(struct dcu_capture_mark *) mark; /* of a capture that it was last recorded in; dcu.lock */
};

struct dcu_event_record {
        int valid; /* 0: never recorded */
        uint32_t slot;
        uint64_t seq;
        uint64_t shared; /* if not 0, only the daemon knows where it was recorded last */
};

/* CUDA_ERROR_INVALID_HANDLE for no event. */
CUresult dcu_event_recorded(CUevent event, struct dcu_event_record *ret);
static inline int dcu_event_captured(struct dcu_event *event)
{
        return atomic_load_explicit(&event->mark, memory_order_relaxed) != NULL;
}

/* The event's object in the daemon, made now if the event is timed; 0 if it is not. */
CUresult dcu_event_daemon_id(struct dcu_event *event, uint64_t *ret_id);
/* It stands for that operation from now on. */
void dcu_event_set(struct dcu_event *event, uint32_t slot, uint64_t seq);
/* dcu.lock must be held. */
void dcu_event_free(struct dcu_event *event, int in_daemon);
