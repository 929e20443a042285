/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producer's side of the submission ring
 *
 * One producer at a time (under the caller's lock), one consumer in another process. The producer writes slots and
 * advances `tail`. The completion page shows how far the consumer is and whether it sleeps. The producer makes no
 * system call unless the consumer sleeps.
 *
 * No wake-up is lost: the producer stores tail, then loads `asleep`; the consumer stores `asleep`, then reads tail
 * again before it sleeps. All four accesses are sequentially consistent, so at least one side sees the other.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/wire.h"

#define DSC__RING_FULL (-1)

struct dsc__ring {
        struct ds_ring_header *header;
        const struct ds_completion_page *page;
        uint8_t *slots;
        uint64_t n_slots; /* number of slots, a power of two */
        uint64_t tail;
        uint64_t head; /* consumer's position when the producer last read it */
        int event_fd;
};

/* Makes a ring in the caller's memory of DS_RING_BYTES. Does not trust the sizes in the memory's header. */
void dsc__ring_init(
        struct dsc__ring *ring, struct ds_ring_header *header, const struct ds_completion_page *page, int event_fd);
/*
 * Appends one record: `size` bytes (this function fills in the size in its head), then payload_size bytes. Returns 0,
 * or DSC__RING_FULL and changes nothing. The record must fit into an empty ring.
 */
int dsc__ring_put(
        struct dsc__ring *ring, const struct ds_record *record, size_t size, const void *payload, size_t payload_size);
/* Wakes the worker if it sleeps (`asleep` in the page). Call after storing something that the worker reads. With the
 * producer's lock held. */
void dsc__ring_kick(const struct dsc__ring *ring);
/* Returns the number of free slots that a record of so many bytes needs at most, whatever its position. */
uint64_t dsc__ring_need(size_t bytes);
