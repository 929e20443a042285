/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: the position in a stream at which an event was last recorded
 *
 * Waiting and querying need only the slot and the sequence number. A timed event also has an object in the daemon, made
 * at its first recording, because most events are never asked for a time. An event that other processes share has one
 * from the creation of its handle: any process may have recorded it last.
 */
#pragma once

#include <pthread.h>

#include "cuda/context.h"

struct dcu_capture_mark;

struct dcu_event {
        struct dcu_object head;
        pthread_mutex_t lock; /* protects the members below */
        unsigned int flags;
        int recorded;
        uint32_t slot;
        uint64_t seq;
        uint64_t id;     /* object in the daemon; 0: none yet */
        uint64_t shared; /* object in the daemon of an event that other processes can open; 0: none */
        uint8_t token[DSC_SHARED_TOKEN];
        /* capture in which the event was last recorded; protected by dcu.lock */
        _Atomic(struct dcu_capture_mark *) mark;
};

struct dcu_event_record {
        int valid; /* 0: never recorded */
        uint32_t slot;
        uint64_t seq;
        uint64_t shared; /* not 0: only the daemon knows where it was recorded last */
};

/* CUDA_ERROR_INVALID_HANDLE unless the handle is an event's. */
CUresult dcu_event_recorded(CUevent event, struct dcu_event_record *ret);
static inline int dcu_event_captured(struct dcu_event *event)
{
        return atomic_load_explicit(&event->mark, memory_order_relaxed) != NULL;
}

/* The event's object in the daemon, made if the event is timed; 0 if it is not. */
CUresult dcu_event_daemon_id(struct dcu_event *event, uint64_t *ret_id);
/* Makes the event stand for that operation. */
void dcu_event_set(struct dcu_event *event, uint32_t slot, uint64_t seq);
/* With dcu.lock held. */
void dcu_event_free(struct dcu_event *event, int in_daemon);
