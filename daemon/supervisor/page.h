/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory of a session: submission ring and completion page
 *
 * The supervisor creates and seals both. It keeps the page mapped, so that it can report errors for a worker that died.
 * It keeps the ring's header mapped (read only), to see whether a client submitted more records than were consumed.
 * Layout: proto/wire.h.
 */
#pragma once

#include <stdint.h>

#include "proto/wire.h"

struct ds_page {
        int fd; /* open until the client has received it; -1: closed */
        struct ds_completion_page *map;
};

struct ds_ring {
        int fd;
        const struct ds_ring_header *header;
};

#define DS_PAGE_INIT     \
        {                \
                .fd = -1 \
        }
#define DS_RING_INIT     \
        {                \
                .fd = -1 \
        }

/* Creates a page and sets its constant fields. simulated: the device's clock is virtual. */
int ds_page_create(int simulated, struct ds_page *ret);
/* Seals the page: nobody can map it writable any more. Existing mappings stay valid. */
int ds_page_seal(const struct ds_page *page);
/* Marks the client's attachment as ended: sets `error` (0: unchanged) and `dead` in the page, and wakes all waiters. */
void ds_page_kill(struct ds_page *page, int32_t error);
void ds_page_deinit(struct ds_page *page);

/* Creates a ring, sets its header and seals its size. */
int ds_ring_create(struct ds_ring *ret);
void ds_ring_deinit(struct ds_ring *ring);
/* Maps a ring of an earlier daemon. Consumes fd, also on failure. Returns 0, 1 (not a ring of this daemon's format)
 * or -errno. */
int ds_ring_adopt(int fd, struct ds_ring *ret);
/* Whether the file has this size, is sealed against changes of its size, and has the seals more_seals. 0: also a file
 * with huge pages. */
int ds_page_file_has(int fd, uint64_t bytes, int more_seals);

/* Whether the client has work in flight: work that was accepted and has not ended, or records that were submitted
 * and not consumed. Page and ring may lack a mapping. */
int ds_page_in_flight(const struct ds_page *page, const struct ds_ring *ring);
