/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory of a session: submission ring and completion page
 *
 * The supervisor makes and seals both, keeps the page mapped so that it can speak for a worker that died, and keeps the
 * ring's header mapped (read only) to see whether a client had submitted more than was consumed. See proto/wire.h.
 */
#pragma once

#include <stdint.h>

#include "proto/wire.h"

struct ds_page {
        int fd; /* kept until the client has it; -1 = none */
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

/* A page with its constant fields set. simulated: its clock is virtual. */
int ds_page_create(int simulated, struct ds_page *ret);
/* From now on nobody else can map it for writing: mappings that exist go on. */
int ds_page_seal(const struct ds_page *page);
/* Say that the attachment is over: error (0 = leave it), dead, and wake all that wait. */
void ds_page_kill(struct ds_page *page, int32_t error);
void ds_page_deinit(struct ds_page *page);

/* A ring, its header set, sealed against changes of size. */
int ds_ring_create(struct ds_ring *ret);
void ds_ring_deinit(struct ds_ring *ring);
/* A ring of an earlier life of the daemon: takes fd over (also on failure). 0, 1 (it is none of ours) or -errno. */
int ds_ring_adopt(int fd, struct ds_ring *ret);
/* Sealed against changes of size, and this large? */
int ds_page_file_has(int fd, uint64_t bytes, int more_seals);

/* Work was accepted and has not ended, or was submitted and not consumed. Either may be without a mapping. */
int ds_page_in_flight(const struct ds_page *page, const struct ds_ring *ring);
