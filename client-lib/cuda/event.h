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
};

struct dcu_event_record {
        int valid; /* 0: never recorded */
        uint32_t slot;
        uint64_t seq;
        uint64_t shared; /* if not 0, only the daemon knows where it was recorded last */
};

/* CUDA_ERROR_INVALID_HANDLE for no event. */
CUresult dcu_event_recorded(CUevent event, struct dcu_event_record *ret);
/* dcu.lock must be held. */
void dcu_event_free(struct dcu_event *event, int in_daemon);
