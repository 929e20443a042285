/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the validity of records and of request arguments
 *
 * Pure checks over a private copy of a ring record or over a request's arguments. They distinguish two kinds of errors:
 * broken framing (a record that no correct client writes) ends the session; a wrong argument gets a CUDA error number.
 * The checks keep no state, never read the ring again, and never read client memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "proto/wire.h"

#define DSW_RECORD_MAX (sizeof(struct ds_record_launch) + DS_RECORD_PARAMS_MAX)

/* The limits of the device for launches, from its attributes. */
struct dsw_limits {
        uint32_t block_threads;
        uint32_t block[3], grid[3];
        uint32_t shared_bytes; /* shared memory per block, static plus dynamic, bytes, with the opt-in maximum */
        uint32_t clusters;     /* 1: the device supports thread-block clusters */
};

enum dsw_where {
        DSW_WHERE_NOWHERE, /* the range is not wholly inside one live allocation */
        DSW_WHERE_DEVICE,
        DSW_WHERE_PINNED,
};

typedef enum dsw_where (*dsw_where_fn)(void *user, uint64_t va, uint64_t bytes);

void dsw_limits_init(struct dsw_limits *limits, const struct ds_device_info *info);

/* Number of slots of a record of `size` bytes. */
static inline uint32_t dsw_record_slots(uint32_t size)
{
        return (uint32_t)(((uint64_t)size + DS_RING_SLOT - 1) / DS_RING_SLOT);
}

/*
 * Checks the header of a record at slot `position` (0..DS_RING_SLOTS - 1), when the client has published `available`
 * slots from there. Returns NULL if it is well formed, else the reason why no correct client writes it.
 */
const char *dsw_record_check_head(const struct ds_record *head, uint64_t position, uint64_t available);
/* Checks a whole record whose header is valid. Returns NULL or the reason. */
const char *dsw_record_check_body(const struct ds_record *record);
/* Checks the record of a graph's node in a buffer of `available` bytes. Returns NULL or the reason. */
const char *dsw_record_check_node(const struct ds_record *record, uint64_t available);

/*
 * These functions return a CUDA error number with *ret_why, or 0 if the arguments are valid. dsw_check_launch() does
 * not check the bytes of the launch's parameters.
 */
int dsw_check_launch(const struct dsw_limits *limits, const struct ds_kernel_info *kernel,
        const struct ds_launch *launch, const char **ret_why);
/*
 * Checks a copy: both ranges must lie in live allocations. Sets copy->kind to the kind that the two addresses imply.
 * *ret_empty is 1 if there is nothing to copy; then the addresses are not checked.
 */
int dsw_check_copy(struct ds_copy *copy, dsw_where_fn where, void *user, int *ret_empty, const char **ret_why);
int dsw_check_memset(
        const struct ds_memset *memset, dsw_where_fn where, void *user, int *ret_empty, const char **ret_why);
int dsw_check_value(const struct ds_record_value *value, dsw_where_fn where, void *user, const char **ret_why);
/* Bytes from the first to the last byte of `height` rows; 0 on overflow. width and height must not be 0. */
uint64_t dsw_extent(uint64_t width, uint64_t height, uint64_t pitch);
