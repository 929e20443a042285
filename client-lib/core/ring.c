/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producer's side of the submission ring: see ring.h for its guarantees, proto/wire.h for the layout
 *
 * The tail is kept here and only published in shared memory: a stray pointer of the program that overwrites the shared
 * copy cannot make this side skip or repeat a record.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/ring.h"

void dsc__ring_init(
        struct dsc__ring *ring, struct ds_ring_header *header, const struct ds_completion_page *page, int event_fd)
{
        *ring = (struct dsc__ring){
                .header = header,
                .page = page,
                .slots = (uint8_t *)header + DS_RING_HEADER,
                .n_slots = DS_RING_SLOTS,
                .event_fd = event_fd,
        };
        ring->tail = atomic_load_explicit(&header->tail, memory_order_relaxed);
        ring->head = ring->tail;
}

static uint64_t slots_for(size_t bytes)
{
        return (bytes + DS_RING_SLOT - 1) / DS_RING_SLOT;
}

uint64_t dsc__ring_need(size_t bytes)
{
        return 2 * slots_for(bytes) - 1;
}

static int has_room(struct dsc__ring *ring, uint64_t slots)
{
        if (ring->tail + slots - ring->head <= ring->n_slots)
                return 1;
        ring->head = atomic_load_explicit(&ring->page->head, memory_order_acquire);
        return ring->tail + slots - ring->head <= ring->n_slots;
}

void dsc__ring_kick(const struct dsc__ring *ring)
{
        const uint64_t one = 1;
        while (write(ring->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
                ;
}

static uint8_t *slot_at(struct dsc__ring *ring, uint64_t count)
{
        return ring->slots + (count & (ring->n_slots - 1)) * DS_RING_SLOT;
}

static void put_pad(struct dsc__ring *ring, uint64_t slots)
{
        const struct ds_record pad = {.type = DS_RECORD_PAD, .size = (uint32_t)(slots * DS_RING_SLOT)};
        memcpy(slot_at(ring, ring->tail), &pad, sizeof(pad));
        ring->tail += slots;
}

int dsc__ring_put(
        struct dsc__ring *ring, const struct ds_record *record, size_t size, const void *payload, size_t payload_size)
{
        const uint64_t slots = slots_for(size + payload_size);
        const uint64_t to_end = ring->n_slots - (ring->tail & (ring->n_slots - 1));
        const uint64_t pad = slots > to_end ? to_end : 0;
        assert(slots <= ring->n_slots / 2);
        if (!has_room(ring, pad + slots))
                return DSC__RING_FULL;

        if (pad)
                put_pad(ring, pad);
        uint8_t *at = slot_at(ring, ring->tail);
        struct ds_record head = *record;
        head.size = (uint32_t)(size + payload_size);
        memcpy(at, &head, sizeof(head));
        memcpy(at + sizeof(head), (const uint8_t *)record + sizeof(head), size - sizeof(head));
        if (payload_size)
                memcpy(at + size, payload, payload_size);
        ring->tail += slots;

        atomic_store(&ring->header->tail, ring->tail);
        if (atomic_load(&ring->page->asleep))
                dsc__ring_kick(ring);
        return 0;
}
