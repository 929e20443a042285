/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about memory that a session maps itself or shares: checks and additions by the supervisor
 *
 * The worker only carries out the operations. The supervisor knows who may have which memory, at which addresses.
 */
#pragma once

#include "detshare.pb-c.h"
#include "supervisor/session_call.h"

/* Checks a MemMap, MemCreate or MemImport before it goes to the worker. Returns 0; otherwise the call is answered
 * and freed. */
int ds_session_memory_check(struct ds_session_call *call, Detshare__Request *request);

/* Parts that the supervisor adds to a reply of the worker; must live until the reply is sent. */
struct ds_session_memory_words {
        Detshare__PhysicalReply physical;
        Detshare__TokenReply token;
        Detshare__MemInfoReply info;
        uint8_t bytes[DS_SHARE_TOKEN_BYTES];
};
/* Returns the most bytes of unused allocations that the client should keep and offer (AttachReply.spare_bytes). */
uint64_t ds_session_memory_spare(const struct ds_session *session);
void ds_session_memory_reply(
        struct ds_session_call *call, Detshare__Reply *reply, struct ds_session_memory_words *words);
