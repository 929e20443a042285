/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/unpack.h"

#include <assert.h>
#include <string.h>

#include "proto/wire.h"
#include "util/alloc.h"
#include "util/error.h"

/* Limits of all repeated fields of the two schemas, one row each. */
static const struct ds_field_limit field_limits[] = {
        {"detshare.ClientList", "clients", 128},
        {"detshare.PolicyList", "policies", 64},
        {"detshare.SetPolicy", "params", DS_POLICY_PARAMS_MAX},
        {"detshare.StatusReply", "channels_be_list", 256},
        {"detshare.DeviceReply", "attributes", 256},
        {"detshare.DeviceReply", "limits", 8},
        {"detshare.KernelReply", "params", 4096},
        {"detshare.KernelList", "names", 128},
        {"detshare.EncodeTensorMap", "dims", 5},
        {"detshare.EncodeTensorMap", "strides", 5},
        {"detshare.EncodeTensorMap", "box", 5},
        {"detshare.EncodeTensorMap", "steps", 5},
        {"detshare.EncodeTensorMap", "lower", 5},
        {"detshare.EncodeTensorMap", "upper", 5},
        {"detshare.Profile", "points", 24},
        {"detshare.Profile", "note", 40},
        {"detshare.ProfileList", "profiles", 64},
        {"detshare.PutProfiles", "profiles", 32},
        {"detshare.ProfileRun", "params", DS_POLICY_PARAMS_MAX},
        {"detshare.PutCalibration", "cells", 256},
        {"detshare.ChannelCalibration", "cells", 128},
        {"detshare.CalibrationReply", "cells", 256},
        {"detshare.internal.ProfilePut", "profiles", 64},
        {"detshare.internal.ProfileSeen", "profiles", 64},
        {"detshare.internal.ProfileRefined", "profiles", 64},
        {"detshare.internal.Calibration", "cells", 256},
        {"detshare.ActivityList", "sessions", 128},
        {"detshare.ExplainReply", "requests", 65},
        {"detshare.FormsList", "kernels", 32},
        {"detshare.RequestEntry", "behind", 4},
        {"detshare.RequestEntry", "rungs", 4},
        {"detshare.internal.Ready", "attributes", 256},
        {"detshare.internal.Ready", "limits", 8},
        {"detshare.internal.DeviceLost", "suspects", 256},
        {"detshare.internal.RestoreSlab", "allocs", 4096},
        {"detshare.internal.SessionListReply", "sessions", 256},
        {"detshare.internal.SavedSession", "refused", 8},
        {"detshare.internal.SavedSession", "reserved", 64},
        {"detshare.internal.SavedSession", "limits", 8},
        {"detshare.internal.SavedSession", "progress", 512},
};

/*
 * Static memory for a message of normal size, so that messages of the worker are not lost when the heap is exhausted.
 * It holds one message; a second one uses the heap. With AddressSanitizer it is tiny, because errors on the heap are
 * easier to detect.
 */
#ifndef __has_feature /* defines __has_feature for gcc 12, which lacks it */
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define BLOCK_BYTES 16u
#else
#define BLOCK_BYTES (64u << 10)
#endif
static struct {
        _Alignas(16) uint8_t bytes[BLOCK_BYTES];
        size_t used;
        uint32_t pieces; /* number of allocations in use */
} block;

struct budget {
        size_t left;
        int broken; /* 1: an allocation exceeded the budget */
};

static void *budget_alloc(void *data, size_t size)
{
        struct budget *budget = data;

        /* the size includes the heap's overhead per block, which dominates for a frame of tiny strings */
        size = DS_ALIGN_UP(DS_MAX(size, (size_t)1), (size_t)16);
        if (size + 16 > budget->left) {
                budget->broken = 1;
                return NULL;
        }
        budget->left -= size + 16;
        if (size > BLOCK_BYTES - block.used)
                return ds_alloc(size);
        block.used += size;
        block.pieces++;
        return block.bytes + block.used - size;
}

static void budget_free(void *data, void *p)
{
        if ((uint8_t *)p < block.bytes || (uint8_t *)p >= block.bytes + BLOCK_BYTES) {
                ds_free(p);
                return;
        }
        assert(block.pieces > 0);
        if (--block.pieces == 0)
                block.used = 0;
}

const struct ds_field_limit *ds_field_limit_find(const char *message, const char *field)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(field_limits); i++)
                if (!strcmp(field_limits[i].message, message) && !strcmp(field_limits[i].field, field))
                        return &field_limits[i];
        return NULL;
}

/*
 * Removes fields that the schema does not know. protobuf-c accepts some encodings that it refuses to read after it has
 * written them again, and a worker that cannot read a message of its supervisor ends.
 */
static void drop_unknown(ProtobufCMessage *message)
{
        for (unsigned i = 0; i < message->n_unknown_fields; i++)
                budget_free(NULL, message->unknown_fields[i].data);
        if (message->unknown_fields)
                budget_free(NULL, message->unknown_fields);
        message->unknown_fields = NULL;
        message->n_unknown_fields = 0;
}

static int check_message(ProtobufCMessage *message);

static int check_repeated(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
        const char *base = (const char *)message;
        size_t n = *(const size_t *)(base + field->quantifier_offset);
        const struct ds_field_limit *limit;

        if (n == 0)
                return 0;
        limit = ds_field_limit_find(message->descriptor->name, field->name);
        if (!limit || n > limit->max)
                return DS_UNPACK_E_LIMIT;
        if (field->type != PROTOBUF_C_TYPE_MESSAGE)
                return 0;
        for (size_t i = 0; i < n; i++) {
                int r = check_message((*(ProtobufCMessage *const *const *)(base + field->offset))[i]);

                if (r)
                        return r;
        }
        return 0;
}

/* Checks the limits of a message's repeated fields. Recursion is bounded by the schema's few levels, since no
 * message is recursive. */
static int check_message(ProtobufCMessage *message)
{
        const char *base = (const char *)message;

        drop_unknown(message);
        for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
                const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
                ProtobufCMessage *sub;
                int r = 0;

                if (field->label == PROTOBUF_C_LABEL_REPEATED) {
                        r = check_repeated(message, field);
                } else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
                        if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
                                *(const uint32_t *)(base + field->quantifier_offset) != field->id)
                                continue;
                        sub = *(ProtobufCMessage *const *)(base + field->offset);
                        r = sub ? check_message(sub) : 0;
                }
                if (r)
                        return r;
        }
        return 0;
}

int ds_unpack(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t size, size_t budget_bytes,
        ProtobufCMessage **ret)
{
        struct budget budget = {.left = budget_bytes};
        ProtobufCAllocator allocator = {.alloc = budget_alloc, .free = budget_free, .allocator_data = &budget};
        ds_cleanup(ds_unpack_freep) ProtobufCMessage *message = NULL;
        int r;

        assert(bytes || size == 0);
        message = protobuf_c_message_unpack(descriptor, &allocator, size, bytes);
        if (!message)
                return budget.broken ? DS_UNPACK_E_BUDGET : DS_UNPACK_E_MALFORMED;
        r = check_message(message);
        if (r)
                return r;
        *ret = DS_TAKE_PTR(message);
        return 0;
}

void *ds_unpack_free(ProtobufCMessage *message)
{
        ProtobufCAllocator allocator = {.alloc = budget_alloc, .free = budget_free};

        if (message)
                protobuf_c_message_free_unpacked(message, &allocator);
        return NULL;
}
