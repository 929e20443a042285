/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: the position in a stream at which an event was last recorded
 *
 * Waiting and querying need only the stream's slot and the sequence number. A timed event also has an object in the
 * daemon, which is made at the first recording. An event that other processes share has such an object from the
 * creation of its handle, because any process may be the last to record it.
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
        uint64_t id;     /* the event's object in the daemon; 0: none yet */
        uint64_t shared; /* object in the daemon of an event that other processes can open; 0: not shared */
        uint8_t token[DSC_SHARED_TOKEN];
        /* capture in which the event was last recorded; protected by dcu.lock */
        _Atomic(struct dcu_capture_mark *) mark;
};

struct dcu_event_record {
        int valid; /* 0: never recorded */
        uint32_t slot;
        uint64_t seq;
        /* shared object in the daemon, which alone knows where the event was recorded last; 0: not shared */
        uint64_t shared;
};

/* *ret: where the event was last recorded. CUDA_ERROR_INVALID_HANDLE if the handle is no event's. */
CUresult dcu_event_recorded(CUevent event, struct dcu_event_record *ret);
static inline int dcu_event_captured(struct dcu_event *event)
{
        return atomic_load_explicit(&event->mark, memory_order_relaxed) != NULL;
}

/* Returns the id of a timed event's object in the daemon, and makes the object if needed; 0 for an event without
 * timing. */
CUresult dcu_event_daemon_id(struct dcu_event *event, uint64_t *ret_id);
/* Notes that operation `seq` of the slot is the event's last recording. */
void dcu_event_set(struct dcu_event *event, uint32_t slot, uint64_t seq);
/* Frees the event, and its object in the daemon if in_daemon. With dcu.lock held. */
void dcu_event_free(struct dcu_event *event, int in_daemon);
