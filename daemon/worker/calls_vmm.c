/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about memory that the client maps itself, and about other sessions' memory
 *
 * The supervisor has already decided which memory a session may import and which addresses it may map.
 */
#include <errno.h>
#include <fcntl.h>

#include "util/error.h"
#include "worker/internal.h"

static int vmm_is_clear(const struct dsw_call *call)
{
        return dsw_memory_cleared(call->session, call->address);
}

static void vmm_reply_physical(struct dsw_call *call, uint64_t handle, uint64_t bytes, int fd)
{
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Physical physical = DETSHARE__INTERNAL__PHYSICAL__INIT;
        Detshare__PhysicalReply said = DETSHARE__PHYSICAL_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        physical.handle = said.handle = handle;
        physical.bytes = said.bytes = said.size = bytes;
        physical.imported = fd < 0;
        ledger.physical_added = &physical;
        reply.result_case = DETSHARE__REPLY__RESULT_PHYSICAL;
        reply.physical = &said;
        dsw_call_reply(call, &reply, &ledger, &fd, fd >= 0, fd >= 0);
}

static void vmm_finish_create(struct dsw_call *call)
{
        ds_cleanup(ds_closep) int fd = DS_TAKE_FD(call->fd), own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        uint64_t bytes = call->slab.bytes, handle;
        int r = own < 0 ? ds_error_origin(-errno) : 0;

        dsw_memory_scrub_end(call->session, call->address);
        if (!r)
                r = dsw_vmm_add(call->session, 0, bytes, &own, 1, &handle);
        if (r)
                dsw_call_fail(call, r, "%llu bytes of device memory: %s", (unsigned long long)bytes,
                        r == DETSHARE__STATUS__QUOTA ? "too many allocations without an address"
                                                     : "the daemon cannot open a file for it");
        else
                vmm_reply_physical(call, handle, bytes, fd);
}

enum dsw_outcome dsw_calls_mem_create(struct dsw_call *call, const Detshare__Request *request)
{
        struct dsw_session *session = call->session;
        uint64_t bytes = request->mem_create->bytes;
        enum dsw_outcome outcome;
        int r = dsw_memory_scrub_begin(session, bytes, &call->address, &call->fd);

        if (r)
                return dsw_call_fail(call, r, "%llu bytes of device memory: not available", (unsigned long long)bytes);
        call->slab.bytes = bytes;
        outcome = dsw_call_park(call, vmm_is_clear, vmm_finish_create);
        if (outcome == DSW_PARKED) {
                call->slab.clearing = 1;
                session->n_clearing++;
                session->worker->n_clearing++;
        }
        return outcome;
}

enum dsw_outcome dsw_calls_mem_import(struct dsw_call *call, const Detshare__Request *request)
{
        uint64_t handle;
        int r = call->fd < 0 ? DETSHARE__STATUS__BAD_REQUEST
                             : dsw_vmm_add(call->session, 0, request->mem_import->bytes, &call->fd, 0, &handle);

        if (r)
                return dsw_call_fail(call, r, "the memory cannot be imported");
        vmm_reply_physical(call, handle, request->mem_import->bytes, -1);
        return DSW_ANSWERED;
}

enum dsw_outcome dsw_calls_mem_release(struct dsw_call *call, const Detshare__Request *request)
{
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        uint64_t handle = request->mem_release->handle;
        int r = dsw_vmm_release(call->session, handle);

        if (r)
                return dsw_call_fail(
                        call, r, "no memory has the handle %llu, or some of it is mapped", (unsigned long long)handle);
        ledger.physical_removed = handle;
        dsw_call_reply(call, NULL, &ledger, NULL, 0, 0);
        return DSW_ANSWERED;
}

enum dsw_outcome dsw_calls_mem_map(struct dsw_call *call, const Detshare__Request *request)
{
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Mapping mapping = DETSHARE__INTERNAL__MAPPING__INIT;
        const Detshare__MemMap *map = request->mem_map;
        int r = dsw_vmm_map(call->session, map->handle, map->address, map->bytes);

        if (r)
                return dsw_call_fail(call, r, "%llu bytes of %llu cannot be mapped at %#llx",
                        (unsigned long long)map->bytes, (unsigned long long)map->handle,
                        (unsigned long long)map->address);
        mapping.va = map->address;
        mapping.bytes = map->bytes;
        mapping.handle = map->handle;
        ledger.mapping_added = &mapping;
        dsw_call_reply(call, NULL, &ledger, NULL, 0, 0);
        return DSW_ANSWERED;
}

static void vmm_finish_unmap(struct dsw_call *call)
{
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;

        ledger.mapping_removed = call->address;
        dsw_vmm_unmap(call->session, call->address);
        dsw_call_reply(call, NULL, &ledger, NULL, 0, 0);
}

enum dsw_outcome dsw_calls_mem_unmap(struct dsw_call *call, const Detshare__Request *request)
{
        uint64_t address = request->mem_unmap->address;

        if (dsw_vmm_begin_unmap(call->session, address))
                return dsw_call_fail(
                        call, DS_CUDA_INVALID_VALUE, "nothing is mapped at %#llx", (unsigned long long)address);
        call->address = address;
        call->target = call->session->op_index;
        return dsw_call_park(call, dsw_call_session_ended, vmm_finish_unmap);
}

/* Allows other sessions to import the memory. The supervisor already has its file; the worker only ensures that the
 * memory outlives the free by its owner. */
enum dsw_outcome dsw_calls_mem_export(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__MemExport *export = request->mem_export;
        int r;

        if (export->handle)
                r = dsw_vmm_find(call->session, export->handle) ? 0 : DS_CUDA_INVALID_VALUE;
        else
                r = dsw_memory_keep(call->session, export->address);
        return r ? dsw_call_fail(call, r, "there is no such memory") : dsw_call_ok(call);
}
