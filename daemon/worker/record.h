/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is what a client asks for valid?
 *
 * Pure checks over a private copy of a ring record or over a request's arguments. Two kinds of wrong are told apart:
 * broken framing (a record that no correct client writes) ends the session, a wrong argument gets a CUDA error number.
 * Nothing here keeps state, touches the ring twice or reads client memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "proto/wire.h"

#define DSW_RECORD_MAX (sizeof(struct ds_record_launch) + DS_RECORD_PARAMS_MAX)

/* What the device takes, from its attributes. */
struct dsw_limits {
        uint32_t block_threads;
        uint32_t block[3], grid[3];
        uint32_t shared_bytes; /* per block, static and dynamic, opted in */
        uint32_t clusters;     /* 1: it knows them */
};

enum dsw_where {
        DSW_WHERE_NOWHERE, /* not wholly inside one live allocation */
        DSW_WHERE_DEVICE,
        DSW_WHERE_PINNED,
};

typedef enum dsw_where (*dsw_where_fn)(void *user, uint64_t va, uint64_t bytes);

void dsw_limits_init(struct dsw_limits *limits, const struct ds_device_info *info);

/* Slots that a record of `size` bytes takes. */
static inline uint32_t dsw_record_slots(uint32_t size)
{
        return (uint32_t)(((uint64_t)size + DS_RING_SLOT - 1) / DS_RING_SLOT);
}

/*
 * A header at slot `position` (0..DS_RING_SLOTS - 1) with `available` slots published. NULL when it is well formed,
 * else the reason why no correct client writes it.
 */
const char *dsw_record_check_head(const struct ds_record *head, uint64_t position, uint64_t available);
/* A whole record whose header passed. NULL or the reason. */
const char *dsw_record_check_body(const struct ds_record *record);
/* A record of a graph's node, of which `available` bytes are there. NULL or the reason. */
const char *dsw_record_check_node(const struct ds_record *record, uint64_t available);

/*
 * CUDA error numbers, 0 = valid. *ret_why is set with an error. Parameters of the launch are not looked at, and it has
 * params_size bytes of them.
 */
int dsw_check_launch(const struct dsw_limits *limits, const struct ds_kernel_info *kernel,
        const struct ds_launch *launch, const char **ret_why);
/*
 * Both extents must lie in live allocations. The kind is set to what the two addresses say. *ret_empty is 1 when there
 * is nothing to copy (the addresses are not looked at then).
 */
int dsw_check_copy(struct ds_copy *copy, dsw_where_fn where, void *user, int *ret_empty, const char **ret_why);
int dsw_check_memset(
        const struct ds_memset *memset, dsw_where_fn where, void *user, int *ret_empty, const char **ret_why);
int dsw_check_value(const struct ds_record_value *value, dsw_where_fn where, void *user, const char **ret_why);
/* Bytes from the first to the last byte of height rows; 0 on overflow. width and height are not 0. */
uint64_t dsw_extent(uint64_t width, uint64_t height, uint64_t pitch);
