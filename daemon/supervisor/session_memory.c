/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/session_memory.h"

#include "supervisor/rpc_table.h"
#include "supervisor/supervisor.h"
#include "util/macro.h"

#define INVALID_VALUE 1 /* CUDA_ERROR_INVALID_VALUE */
#define INVALID_HANDLE 400
#define SPARE_PART 8 /* part of the memory that a session may use which its client may keep without using it */

static int has_room(struct ds_session_call *call)
{
        struct ds_ledger_sums sums;

        ds_ledger_sums(call->session->ledger, &sums);
        if (DS_MAX(sums.physicals, sums.mappings) + call->session->n_calls <= DS_LEDGER_PHYSICALS_MAX)
                return 1;
        ds_session_call_fail(call, DETSHARE__STATUS__QUOTA,
                "the session has %u memory handles and %u mappings, about the most permitted", sums.physicals,
                sums.mappings);
        return 0;
}

static int check_map(struct ds_session_call *call, const Detshare__MemMap *map)
{
        if (!ds_session_is_reserved(call->session, map->address, map->bytes)) {
                ds_session_call_fail(call, INVALID_VALUE,
                        "%llu bytes at %#llx are not in a range that the session has reserved",
                        (unsigned long long)map->bytes, (unsigned long long)map->address);
                return -1;
        }
        if (!has_room(call))
                return -1;
        call->map_va = map->address;
        call->map_bytes = map->bytes;
        return 0;
}

static int check_import(struct ds_session_call *call, Detshare__MemImport *import)
{
        struct ds_share_found found;

        if (!has_room(call))
                return -1;
        if (ds_shares_find(call->session->supervisor->shares, import->token.data, import->token.len,
                    call->session->user, &found)) {
                ds_session_call_fail(call, INVALID_HANDLE, "the token belongs to no memory of this user");
                return -1;
        }
        call->base.imported = found.share;
        call->share_offset = found.offset;
        call->share_size = found.size;
        import->bytes = ds_share_bytes(found.share);
        import->token.len = 0; /* the worker does not need the token */
        return 0;
}

int ds_session_memory_check(struct ds_session_call *call, Detshare__Request *request)
{
        switch (request->call_case) {
        case DETSHARE__REQUEST__CALL_MEM_MAP:
                return check_map(call, request->mem_map);
        case DETSHARE__REQUEST__CALL_MEM_IMPORT:
                return check_import(call, request->mem_import);
        case DETSHARE__REQUEST__CALL_MEM_CREATE:
                return has_room(call) ? 0 : -1;
        case DETSHARE__REQUEST__CALL_MEM_EXPORT:
                call->share_va = request->mem_export->handle ? 0 : request->mem_export->address;
                call->share_handle = request->mem_export->handle;
                return 0;
        default:
                return 0;
        }
}

static void reply_token(struct ds_session_call *call, Detshare__Reply *reply, struct ds_session_memory_words *words)
{
        struct ds_session *session = call->session;
        uint64_t offset, size;
        ds_share *share;
        int r = ds_ledger_share(session->ledger, call->share_va, call->share_handle, &share, &offset, &size);

        if (!r)
                r = ds_share_publish(session->supervisor->shares, share);
        if (r) {
                reply->status = r == DS_LEDGER_E_UNKNOWN ? INVALID_VALUE : DETSHARE__STATUS__INTERNAL;
                reply->message = (char *)(uintptr_t) "the memory cannot be exported";
                return;
        }
        ds_share_token(share, offset, size, words->bytes);
        detshare__token_reply__init(&words->token);
        words->token.token = (ProtobufCBinaryData){.len = sizeof(words->bytes), .data = words->bytes};
        reply->result_case = DETSHARE__REPLY__RESULT_MEM_EXPORT;
        reply->mem_export = &words->token;
}

/* Reduces the reported memory to the user's limit, which also bounds each of its sessions. */
static void clamp_info(const struct ds_session *session, Detshare__MemInfoReply *info)
{
        uint64_t limit = ds_user_limit(session->user, DS_CHARGE_DEVICE_BYTES);
        uint64_t used = ds_user_usage(session->user, DS_CHARGE_DEVICE_BYTES);

        used -= DS_MIN(used, info->offered);
        info->total = DS_MIN(info->total, limit);
        info->free = DS_MIN(info->free, limit - DS_MIN(limit, used));
}

uint64_t ds_session_memory_spare(const struct ds_session *session)
{
        uint64_t bytes = ds_worker_info(session->supervisor->worker)->memory_bytes;

        if (session->memory_limit)
                bytes = DS_MIN(bytes, session->memory_limit);
        return DS_MIN(bytes, ds_user_limit(session->user, DS_CHARGE_DEVICE_BYTES)) / SPARE_PART;
}

void ds_session_memory_reply(
        struct ds_session_call *call, Detshare__Reply *reply, struct ds_session_memory_words *words)
{
        if (reply->status || !call->rpc)
                return;
        switch (call->rpc->call) {
        case DETSHARE__REQUEST__CALL_MEM_EXPORT:
                reply_token(call, reply, words);
                break;
        case DETSHARE__REQUEST__CALL_MEM_IMPORT:
                if (reply->result_case != DETSHARE__REPLY__RESULT_PHYSICAL)
                        break;
                words->physical = *reply->physical;
                words->physical.offset = call->share_offset;
                words->physical.size = call->share_size;
                reply->physical = &words->physical;
                break;
        case DETSHARE__REQUEST__CALL_MEM_INFO:
                if (reply->result_case != DETSHARE__REPLY__RESULT_MEM_INFO)
                        break;
                words->info = *reply->mem_info;
                clamp_info(call->session, &words->info);
                reply->mem_info = &words->info;
                break;
        default:
                break;
        }
}
