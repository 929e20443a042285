/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about memory that a session maps itself, or shares: what the supervisor checks and adds
 *
 * The worker is told what to do with memory; who may have it, and at which addresses, is known here only.
 */
#pragma once

#include "detshare.pb-c.h"
#include "supervisor/session_call.h"

/* Of MemMap, MemCreate, MemImport, before it goes to the worker. 0, or the call was answered and is gone. */
int ds_session_memory_check(struct ds_session_call *call, Detshare__Request *request);

/* What is added to a reply of the worker; it must live until the reply is sent. */
struct ds_session_memory_words {
        Detshare__PhysicalReply physical;
        Detshare__TokenReply token;
        Detshare__MemInfoReply info;
        uint8_t bytes[DS_SHARE_TOKEN_BYTES];
};
void ds_session_memory_reply(
        struct ds_session_call *call, Detshare__Reply *reply, struct ds_session_memory_words *words);
