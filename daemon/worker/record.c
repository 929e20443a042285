/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record checker
 *
 * It checks everything that a client puts into a record or a request before the device sees it. The checks follow
 * CUDA's own order where programs can see a difference.
 */
#include "worker/record.h"

#include <assert.h>
#include <string.h>

#include "device/cluster.h"
#include "util/macro.h"

/* Numbers of CUDA device attributes (CUdevice_attribute) */
enum {
        ATTR_THREADS_PER_BLOCK = 1,
        ATTR_BLOCK_X = 2,
        ATTR_GRID_X = 5,
        ATTR_SHARED = 8,
        ATTR_SHARED_OPTIN = 97,
        ATTR_CLUSTERS = 120,
};

static uint32_t limits_attribute(const struct ds_device_info *info, uint32_t id, uint32_t otherwise)
{
        return info->attributes[id] > 0 ? (uint32_t)info->attributes[id] : otherwise;
}

void dsw_limits_init(struct dsw_limits *limits, const struct ds_device_info *info)
{
        /* defaults that every GPU since Kepler supports, if a device does not report them */
        static const uint32_t block[3] = {1024, 1024, 64}, grid[3] = {INT32_MAX, 65535, 65535};

        limits->block_threads = limits_attribute(info, ATTR_THREADS_PER_BLOCK, 1024);
        for (uint32_t i = 0; i < 3; i++) {
                limits->block[i] = limits_attribute(info, ATTR_BLOCK_X + i, block[i]);
                limits->grid[i] = limits_attribute(info, ATTR_GRID_X + i, grid[i]);
        }
        limits->shared_bytes = limits_attribute(info, ATTR_SHARED, 48 * 1024);
        limits->shared_bytes = DS_MAX(limits->shared_bytes, limits_attribute(info, ATTR_SHARED_OPTIN, 0));
        limits->clusters = limits_attribute(info, ATTR_CLUSTERS, 0);
}

/* Most bytes that may follow the fixed part of a record of this type. */
static uint32_t record_more(uint16_t type)
{
        if (type == DS_RECORD_LAUNCH)
                return DS_RECORD_PARAMS_MAX;
        return type == DS_RECORD_GRAPH || type == DS_RECORD_CHANGE ? DS_GRAPH_CHANGES_MAX : 0;
}

/* Size of the fixed part of a record of this type. 0: unknown type. */
static uint32_t record_size(uint16_t type)
{
        switch (type) {
        case DS_RECORD_PAD:
                return sizeof(struct ds_record);
        case DS_RECORD_LAUNCH:
                return sizeof(struct ds_record_launch);
        case DS_RECORD_COPY:
                return sizeof(struct ds_record_copy);
        case DS_RECORD_MEMSET:
                return sizeof(struct ds_record_memset);
        case DS_RECORD_EVENT:
                return sizeof(struct ds_record_event);
        case DS_RECORD_WAIT:
                return sizeof(struct ds_record_wait);
        case DS_RECORD_GRAPH:
        case DS_RECORD_CHANGE:
                return sizeof(struct ds_record_graph);
        case DS_RECORD_HOST:
                return sizeof(struct ds_record_host);
        case DS_RECORD_VALUE:
                return sizeof(struct ds_record_value);
        case DS_RECORD_OBJECT:
                return sizeof(struct ds_record_object);
        default:
                return 0;
        }
}

const char *dsw_record_check_head(const struct ds_record *head, uint64_t position, uint64_t available)
{
        uint32_t least = record_size(head->type), slots = dsw_record_slots(head->size);

        assert(position < DS_RING_SLOTS);
        if (!least)
                return "unknown record type";
        if (head->size < least)
                return "record too short";
        if (slots > available)
                return "record reaches past the ring's tail";
        if (slots > DS_RING_SLOTS - position)
                return "record crosses the end of the ring";
        if (head->type == DS_RECORD_PAD)
                return slots == DS_RING_SLOTS - position ? NULL : "padding does not end with the ring";
        if (head->size - least > record_more(head->type))
                return "record too long";
        if (head->stream >= DS_STREAMS_MAX)
                return "stream out of range";
        return NULL;
}

const char *dsw_record_check_body(const struct ds_record *record)
{
        const struct ds_record_launch *launch = (const void *)record;
        const struct ds_record_copy *copy = (const void *)record;
        const struct ds_record_wait *wait = (const void *)record;
        const struct ds_record_value *value = (const void *)record;
        const struct ds_record_object *object = (const void *)record;

        switch (record->type) {
        case DS_RECORD_LAUNCH:
                if (launch->params_size > DS_RECORD_PARAMS_MAX || record->size - sizeof(*launch) != launch->params_size)
                        return "parameter size does not fit the record";
                return NULL;
        case DS_RECORD_COPY:
                return copy->kind < _DS_COPY_MAX ? NULL : "unknown kind of copy";
        case DS_RECORD_WAIT:
                return wait->other < DS_STREAMS_MAX && wait->shared <= 1 ? NULL : "stream out of range";
        case DS_RECORD_VALUE:
                return value->kind < _DS_VALUE_KIND_MAX ? NULL : "unknown kind of value";
        case DS_RECORD_OBJECT:
                if (object->kind <= DS_OBJECT_STREAM_END && record->stream == 0)
                        return "stream 0 cannot be created or destroyed";
                return object->kind < _DS_OBJECT_KIND_MAX ? NULL : "unknown kind of object";
        default:
                return NULL;
        }
}

const char *dsw_record_check_node(const struct ds_record *record, uint64_t available)
{
        uint32_t least = record_size(record->type);

        if (!least || record->type == DS_RECORD_WAIT || record->type == DS_RECORD_GRAPH ||
                record->type == DS_RECORD_CHANGE || record->type == DS_RECORD_OBJECT)
                return "a graph's node cannot be a record of this type";
        if (record->size < least || record->size > available)
                return "the record of a graph's node is too short, or longer than the node";
        if (record->type != DS_RECORD_LAUNCH && record->size != least)
                return "the record of a graph's node is too long";
        return dsw_record_check_body(record);
}

static int check_why(int status, const char **ret_why, const char *why)
{
        *ret_why = why;
        return status;
}

static int check_clusters(const struct dsw_limits *limits, const struct ds_kernel_info *kernel,
        const struct ds_launch *launch, const char **ret_why)
{
        uint32_t cluster[3];
        uint64_t grid[3];

        if (ds_device_cluster(kernel, launch->grid, launch->cluster, cluster, grid))
                return check_why(DS_CUDA_INVALID_CLUSTER_SIZE, ret_why,
                        "the clusters are not the kernel's, too large, or do not divide the grid");
        if (!limits->clusters && (cluster[0] > 1 || cluster[1] > 1 || cluster[2] > 1))
                return check_why(DS_CUDA_NOT_SUPPORTED, ret_why, "the device knows no clusters");
        for (int i = 0; i < 3; i++)
                if (grid[i] > limits->grid[i])
                        return check_why(DS_CUDA_INVALID_VALUE, ret_why, "a grid dimension is out of range");
        return 0;
}

int dsw_check_launch(const struct dsw_limits *limits, const struct ds_kernel_info *kernel,
        const struct ds_launch *launch, const char **ret_why)
{
        uint64_t threads = (uint64_t)launch->block[0] * launch->block[1];

        for (int i = 0; i < 3; i++) {
                if (!launch->grid[i] || launch->grid[i] > limits->grid[i])
                        return check_why(DS_CUDA_INVALID_VALUE, ret_why, "a grid dimension is out of range");
                if (!launch->block[i] || launch->block[i] > limits->block[i])
                        return check_why(DS_CUDA_INVALID_VALUE, ret_why, "a block dimension is out of range");
        }
        /* each of the three dimensions was checked to be at most a few thousand, so the product does not overflow */
        threads *= launch->block[2];
        if (threads > limits->block_threads)
                return check_why(DS_CUDA_INVALID_VALUE, ret_why, "too many threads per block for the device");
        if (kernel->max_threads && threads > kernel->max_threads)
                return check_why(DS_CUDA_INVALID_VALUE, ret_why, "too many threads per block for the kernel");
        if ((uint64_t)launch->shared_bytes + kernel->static_shared > limits->shared_bytes)
                return check_why(DS_CUDA_INVALID_VALUE, ret_why, "too much shared memory");
        if (launch->params_size != kernel->params_size)
                return check_why(DS_CUDA_INVALID_VALUE, ret_why, "parameters do not have the kernel's size");
        return check_clusters(limits, kernel, launch, ret_why);
}

uint64_t dsw_extent(uint64_t width, uint64_t height, uint64_t pitch)
{
        uint64_t rows, bytes;

        assert(width && height);
        if (__builtin_mul_overflow(height - 1, pitch, &rows) || __builtin_add_overflow(rows, width, &bytes))
                return 0;
        return bytes;
}

static enum dsw_where check_extent(
        dsw_where_fn where, void *user, uint64_t va, uint64_t width, uint64_t height, uint64_t pitch)
{
        uint64_t bytes = dsw_extent(width, height, pitch), end;

        if (!bytes || (height > 1 && pitch < width) || __builtin_add_overflow(va, bytes, &end))
                return DSW_WHERE_NOWHERE;
        return where(user, va, bytes);
}

int dsw_check_copy(struct ds_copy *copy, dsw_where_fn where, void *user, int *ret_empty, const char **ret_why)
{
        static const enum ds_copy_kind kinds[2][2] = {
                /* row: the source is on the device (0) or host (1); column: the same for the destination */
                {DS_COPY_DTOD, DS_COPY_DTOH},
                {DS_COPY_HTOD, DS_COPY_HTOH},
        };
        enum dsw_where dst, src;

        *ret_empty = !copy->width || !copy->height;
        if (*ret_empty)
                return 0;
        dst = check_extent(where, user, copy->dst, copy->width, copy->height, copy->dst_pitch);
        if (dst == DSW_WHERE_NOWHERE)
                return check_why(DS_CUDA_INVALID_VALUE, ret_why, "a copy's destination is not in an allocation");
        src = check_extent(where, user, copy->src, copy->width, copy->height, copy->src_pitch);
        if (src == DSW_WHERE_NOWHERE)
                return check_why(DS_CUDA_INVALID_VALUE, ret_why, "a copy's source is not in an allocation");
        copy->kind = kinds[src == DSW_WHERE_PINNED][dst == DSW_WHERE_PINNED];
        return 0;
}

int dsw_check_memset(
        const struct ds_memset *memset, dsw_where_fn where, void *user, int *ret_empty, const char **ret_why)
{
        uint64_t bytes;
        uint32_t size = memset->element_size;

        *ret_empty = 0;
        if (size != 1 && size != 2 && size != 4)
                return check_why(DS_CUDA_INVALID_VALUE, ret_why, "a memset's element size is not 1, 2 or 4");
        *ret_empty = !memset->width || !memset->height;
        if (*ret_empty)
                return 0;
        if (memset->dst % size || (memset->height > 1 && memset->pitch % size))
                return check_why(DS_CUDA_INVALID_VALUE, ret_why, "a memset is not aligned to its elements");
        if (__builtin_mul_overflow(memset->width, (uint64_t)size, &bytes) ||
                check_extent(where, user, memset->dst, bytes, memset->height, memset->pitch) == DSW_WHERE_NOWHERE)
                return check_why(DS_CUDA_INVALID_VALUE, ret_why, "a memset's destination is not in an allocation");
        return 0;
}

int dsw_check_value(const struct ds_record_value *value, dsw_where_fn where, void *user, const char **ret_why)
{
        if ((value->bytes != 4 && value->bytes != 8) || value->address % value->bytes ||
                value->kind >= _DS_VALUE_KIND_MAX)
                return check_why(DS_CUDA_INVALID_VALUE, ret_why, "no word of 4 or 8 bytes");
        if (where(user, value->address, value->bytes) == DSW_WHERE_NOWHERE)
                return check_why(DS_CUDA_INVALID_VALUE, ret_why, "a value is not in an allocation");
        return 0;
}
