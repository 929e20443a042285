/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/message.h"

#include <assert.h>

static uint8_t message_buffer[DS_MESSAGE_MAX];

int ds_message_pack(const ProtobufCMessage *message, size_t max, const uint8_t **ret_bytes, size_t *ret_size)
{
        size_t size = protobuf_c_message_get_packed_size(message);

        assert(max <= sizeof(message_buffer));
        if (size > max)
                return DS_MESSAGE_E_TOO_LARGE;
        protobuf_c_message_pack(message, message_buffer);
        *ret_bytes = message_buffer;
        *ret_size = size;
        return 0;
}
