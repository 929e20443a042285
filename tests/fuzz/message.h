/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of any type with values from the input
 *
 * Most messages are well formed, also after changes of the schema. A callback supplies the numbers, since it knows
 * which ones are valid. One message exists at a time.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "tests/fuzz/fuzz.h"

#define FUZZ_LIST_MAX 40

struct fuzz_maker {
        struct fuzz_input *in;
        uint64_t (*number)(struct fuzz_input *in);
        size_t used;
        _Alignas(16) uint8_t room[32768];
};

static inline void *fuzz_room(struct fuzz_maker *maker, size_t size)
{
        void *at = maker->room + maker->used;

        size = DS_ALIGN_UP(size, (size_t)16);
        FUZZ_CHECK(size <= sizeof(maker->room) - maker->used);
        maker->used += size;
        return memset(at, 0, size);
}

static inline char *fuzz_text(struct fuzz_maker *maker)
{
        static char *const words[] = {"", "fifo", "kernel", "a=1", "static", "name"};
        uint8_t how = fuzz_u8(maker->in);
        const uint8_t *bytes;
        char *text;
        size_t n;

        if (how < 0xc0)
                return words[how % DS_ARRAY_SIZE(words)];
        bytes = fuzz_span(maker->in, how & 63, &n);
        text = fuzz_room(maker, n + 1);
        if (n)
                memcpy(text, bytes, n);
        return text;
}

static inline ProtobufCMessage *fuzz_message(struct fuzz_maker *maker, const ProtobufCMessageDescriptor *descriptor);

static inline void fuzz_value(struct fuzz_maker *maker, const ProtobufCFieldDescriptor *field, void *at)
{
        switch (field->type) {
        case PROTOBUF_C_TYPE_UINT64:
        case PROTOBUF_C_TYPE_INT64:
                *(uint64_t *)at = maker->number(maker->in);
                break;
        case PROTOBUF_C_TYPE_BOOL:
                *(protobuf_c_boolean *)at = fuzz_u8(maker->in) & 1;
                break;
        case PROTOBUF_C_TYPE_STRING:
                *(char **)at = fuzz_text(maker);
                break;
        case PROTOBUF_C_TYPE_BYTES:
                *(ProtobufCBinaryData *)at = (ProtobufCBinaryData){fuzz_u8(maker->in), fuzz_room(maker, 256)};
                break;
        case PROTOBUF_C_TYPE_MESSAGE:
                *(ProtobufCMessage **)at = fuzz_message(maker, field->descriptor);
                break;
        default:
                *(uint32_t *)at = (uint32_t)maker->number(maker->in);
        }
}

/* Makes a list of a few elements; lists of small elements may be as long as their limits. */
static inline void fuzz_list(struct fuzz_maker *maker, const ProtobufCFieldDescriptor *field, ProtobufCMessage *message)
{
        size_t n = fuzz_u8(maker->in);
        uint8_t *values = fuzz_room(maker, FUZZ_LIST_MAX * sizeof(void *));

        n = n < 0xf8 ? n & 3 : FUZZ_LIST_MAX;
        if (field->type == PROTOBUF_C_TYPE_MESSAGE)
                n = DS_MIN(n, (size_t)3);
        for (size_t i = 0; i < n; i++) {
                size_t step = field->type == PROTOBUF_C_TYPE_UINT32 || field->type == PROTOBUF_C_TYPE_INT32 ? 4 : 8;

                fuzz_value(maker, field, values + i * step);
        }
        *(size_t *)((uint8_t *)message + field->quantifier_offset) = n;
        *(void **)((uint8_t *)message + field->offset) = values;
}

static inline void fuzz_one_of(
        struct fuzz_maker *maker, ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
        *(uint32_t *)((uint8_t *)message + field->quantifier_offset) = field->id;
        fuzz_value(maker, field, (uint8_t *)message + field->offset);
}

/* Makes any message of that type; for a oneof, any member. */
static inline ProtobufCMessage *fuzz_message(struct fuzz_maker *maker, const ProtobufCMessageDescriptor *descriptor)
{
        ProtobufCMessage *message = fuzz_room(maker, descriptor->sizeof_message);
        const ProtobufCFieldDescriptor *choices[128];
        size_t n_choices = 0;

        protobuf_c_message_init(descriptor, message);
        for (unsigned i = 0; i < descriptor->n_fields; i++) {
                const ProtobufCFieldDescriptor *field = &descriptor->fields[i];

                if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
                        choices[n_choices++] = field;
                else if (field->label == PROTOBUF_C_LABEL_REPEATED)
                        fuzz_list(maker, field, message);
                else if (field->type != PROTOBUF_C_TYPE_MESSAGE || (fuzz_u8(maker->in) & 3) == 0)
                        fuzz_value(maker, field, (uint8_t *)message + field->offset);
        }
        if (n_choices)
                fuzz_one_of(maker, message, choices[fuzz_u8(maker->in) % n_choices]);
        return message;
}
