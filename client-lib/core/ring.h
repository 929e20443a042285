/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producer's side of the submission ring
 *
 * One producer at a time (the caller's lock), one consumer in another process. The producer writes slots and moves
 * `tail`; it learns from the completion page how far the consumer got and whether it sleeps. No system call unless it
 * sleeps.
 *
 * A lost wake-up is impossible: the producer stores tail and then loads `asleep`; the consumer stores `asleep` and then
 * looks at tail again before it sleeps. All four are sequentially consistent, so at least one side sees the other.
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
        uint64_t n_slots; /* power of two */
        uint64_t tail;
        uint64_t head; /* as last seen */
        int event_fd;
};

/* The memory stays the caller's: DS_RING_BYTES. What the header says of sizes is not believed. */
void dsc__ring_init(
        struct dsc__ring *ring, struct ds_ring_header *header, const struct ds_completion_page *page, int event_fd);
/*
 * Append one record: size bytes at record (its head's size is filled in here) and payload_size bytes behind. 0 or
 * DSC__RING_FULL, and then nothing has happened. The record must fit an empty ring.
 */
int dsc__ring_put(
        struct dsc__ring *ring, const struct ds_record *record, size_t size, const void *payload, size_t payload_size);
/* Wake the worker: after a store that it looks at, if `asleep` says so. With the producer's lock. */
void dsc__ring_kick(const struct dsc__ring *ring);
/* Slots that must be free for a record of that many bytes, at the worst place. */
uint64_t dsc__ring_need(size_t bytes);
