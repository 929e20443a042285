/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacking protobuf messages from peers that are not trusted
 *
 * The protobuf library turns one byte into as many as 84 bytes of heap and follows nested messages without a limit. So
 * every message is unpacked through an allocator with a budget, the schema has no recursive message (a test
 * proves it), and every repeated field has a limit that is checked before anybody looks at the message. Fields that
 * the schema does not know are left out.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

#include "util/macro.h"

/* Contract codes */
#define DS_UNPACK_E_MALFORMED 1
#define DS_UNPACK_E_BUDGET 2 /* would take more memory than the budget */
#define DS_UNPACK_E_LIMIT 3  /* a repeated field has too many elements */

#define DS_UNPACK_BUDGET DS_MIB(8)

/* One repeated field: "detshare.SetPolicy", "params", 48. */
struct ds_field_limit {
        const char *message;
        const char *field;
        size_t max;
};

/* The limit of a repeated field, or NULL when it has none (which a test forbids). */
const struct ds_field_limit *ds_field_limit_find(const char *message, const char *field);

/* budget: bytes of heap that the message may take. */
int ds_unpack(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t size, size_t budget,
        ProtobufCMessage **ret);
/* NULL is fine; returns NULL. */
void *ds_unpack_free(ProtobufCMessage *message);

static inline void ds_unpack_freep(void *pp)
{
        void **p = pp;

        *p = ds_unpack_free(*p);
}
