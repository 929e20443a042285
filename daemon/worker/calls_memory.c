/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about memory
 *
 * A free is checked and takes effect for the client at once: a second free, or new work on the memory, is refused. The
 * memory is really freed when all work has ended that the session had submitted by then.
 */
#include "worker/internal.h"
#include "worker/spare.h"

/*
 * Whether the worker may reply to an allocation: its slab must be cleared, because no other process gets the file of a
 * new slab before that. The slab may become clear between two checks, so every other allocation in it also waits for
 * the request that reports the slab to the supervisor.
 */
static int memory_is_clear(const struct dsw_call *call)
{
        const struct dsw_call *other;

        DL_FOREACH(call->session->parked, other)
        {
                if (other != call && other->slab.clearing && other->fd >= 0 &&
                        call->address - other->slab.va < other->slab.bytes)
                        return 0;
        }
        return dsw_memory_cleared(call->session, call->address);
}

static void memory_finish_alloc(struct dsw_call *call)
{
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Range range = DETSHARE__INTERNAL__RANGE__INIT;
        Detshare__Internal__Slab slab = DETSHARE__INTERNAL__SLAB__INIT;
        Detshare__Address address = DETSHARE__ADDRESS__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        int fd = call->fd; /* owned by the call until the worker replies */

        range.va = address.address = call->address;
        range.bytes = address.bytes = call->target;
        slab.va = call->slab.va;
        slab.bytes = call->slab.bytes;
        ledger.alloc_added = &range;
        ledger.slab_added = fd >= 0 ? &slab : NULL;
        dsw_memory_publish(call->session, call->address);
        reply.result_case = DETSHARE__REPLY__RESULT_MEM_ALLOC;
        reply.mem_alloc = &address;
        dsw_call_reply(call, &reply, &ledger, &fd, fd >= 0, fd >= 0);
}

enum dsw_outcome dsw_calls_mem_alloc(struct dsw_call *call, const Detshare__Request *request)
{
        struct dsw_session *session = call->session;
        enum dsw_outcome outcome;
        struct dsw_slab_note note;
        int r;

        r = dsw_memory_alloc(session, request->mem_alloc->bytes, &call->address, &note);
        if (r)
                return dsw_call_fail(call, r, "%llu bytes of device memory: %s",
                        (unsigned long long)request->mem_alloc->bytes,
                        r == DETSHARE__STATUS__QUOTA ? "too many allocations" : "not available");
        ds_close(call->fd);
        call->fd = note.fd;
        call->target = request->mem_alloc->bytes;
        call->slab.va = note.va;
        call->slab.bytes = note.bytes;
        /* an allocation in an existing slab waits, too: another request must have reported that slab before */
        outcome = dsw_call_park(call, memory_is_clear, memory_finish_alloc);
        if (outcome == DSW_PARKED) {
                call->slab.clearing = 1;
                session->n_clearing++;
                session->worker->n_clearing++;
        }
        return outcome;
}

static void memory_finish_free(struct dsw_call *call)
{
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;

        ledger.alloc_removed = call->address;
        dsw_memory_free(call->session, call->address, &ledger.slab_removed);
        dsw_call_reply(call, NULL, &ledger, NULL, 0, 0);
}

static void memory_finish_pinned_free(struct dsw_call *call)
{
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;

        ledger.alloc_removed = ledger.slab_removed = call->address;
        dsw_memory_pinned_free(call->session, call->address);
        dsw_call_reply(call, NULL, &ledger, NULL, 0, 0);
}

static enum dsw_outcome memory_free(struct dsw_call *call, uint64_t address, int pinned)
{
        if (dsw_memory_begin_free(call->session, address, pinned))
                return dsw_call_fail(
                        call, DS_CUDA_INVALID_VALUE, "no allocation begins at %#llx", (unsigned long long)address);
        call->address = address;
        call->target = call->session->op_index;
        return dsw_call_park(call, dsw_call_session_ended, pinned ? memory_finish_pinned_free : memory_finish_free);
}

enum dsw_outcome dsw_calls_mem_free(struct dsw_call *call, const Detshare__Request *request)
{
        return memory_free(call, request->mem_free->address, 0);
}

enum dsw_outcome dsw_calls_pinned_free(struct dsw_call *call, const Detshare__Request *request)
{
        return memory_free(call, request->pinned_free->address, 1);
}

enum dsw_outcome dsw_calls_mem_info(struct dsw_call *call, const Detshare__Request *request)
{
        Detshare__MemInfoReply info = DETSHARE__MEM_INFO_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        if (request->mem_info->reclaim)
                (void)dsw_spare_free_all(call->session->worker, call->session->user, 1);
        dsw_memory_info(call->session, &info);
        reply.result_case = DETSHARE__REPLY__RESULT_MEM_INFO;
        reply.mem_info = &info;
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
        return DSW_ANSWERED;
}

enum dsw_outcome dsw_calls_pinned_alloc(struct dsw_call *call, const Detshare__Request *request)
{
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Range range = DETSHARE__INTERNAL__RANGE__INIT;
        Detshare__Internal__Slab slab = DETSHARE__INTERNAL__SLAB__INIT;
        Detshare__Address address = DETSHARE__ADDRESS__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        ds_cleanup(ds_closep) int fd = -1;
        int fds[2], r;

        r = dsw_memory_pinned_alloc(call->session, request->pinned_alloc->bytes, request->pinned_alloc->later,
                &address.address, &address.bytes, &fd);
        if (r == DSW_WORK_E_STALLED)
                return DSW_STALLED;
        if (r)
                return dsw_call_fail(call, r, "%llu bytes of pinned memory: %s",
                        (unsigned long long)request->pinned_alloc->bytes,
                        r == DETSHARE__STATUS__QUOTA ? "too many allocations" : "not available");
        range.va = slab.va = address.address;
        range.bytes = slab.bytes = address.bytes;
        range.pinned = slab.pinned = 1;
        ledger.slab_added = &slab;
        ledger.alloc_added = &range;
        reply.result_case = DETSHARE__REPLY__RESULT_PINNED_ALLOC;
        reply.pinned_alloc = &address;
        /* one descriptor for the supervisor, one for the client */
        fds[0] = fds[1] = fd;
        dsw_call_reply(call, &reply, &ledger, fds, 2, 1);
        return DSW_ANSWERED;
}
