/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacking of protobuf messages from untrusted peers
 *
 * protobuf-c may allocate as many as 84 bytes of heap per input byte and follows nested messages without a limit. So
 * every message is unpacked through an allocator with a budget. The schema has no recursive message, which a test
 * proves. Every repeated field has a limit, checked before the message is returned. Unknown fields are removed.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

#include "util/macro.h"

/* Positive return codes of the functions below */
#define DS_UNPACK_E_MALFORMED 1
#define DS_UNPACK_E_BUDGET 2 /* the message needs more memory than the budget */
#define DS_UNPACK_E_LIMIT 3  /* a repeated field has too many elements */

#define DS_UNPACK_BUDGET DS_MIB(8)

/* Limit of one repeated field: like "detshare.SetPolicy", "params", 48. */
struct ds_field_limit {
        const char *message;
        const char *field;
        size_t max;
};

/* The limit of a repeated field; NULL: it has none (a test ensures that each has one). */
const struct ds_field_limit *ds_field_limit_find(const char *message, const char *field);

/* Unpacks a message. budget: most bytes of heap that it may use. */
int ds_unpack(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t size, size_t budget,
        ProtobufCMessage **ret);
/* Frees a message. NULL is allowed; returns NULL. */
void *ds_unpack_free(ProtobufCMessage *message);

static inline void ds_unpack_freep(void *pp)
{
        void **p = pp;

        *p = ds_unpack_free(*p);
}
