/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs messages into one buffer that the whole supervisor shares. Packing and sending happen in one step on one
 * thread.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

/* Positive return codes */
#define DS_MESSAGE_E_TOO_LARGE 1

#define DS_MESSAGE_MAX (256u * 1024)

/* Packs a message of at most max bytes (up to DS_MESSAGE_MAX). The result is valid until the next call. */
int ds_message_pack(const ProtobufCMessage *message, size_t max, const uint8_t **ret_bytes, size_t *ret_size);
