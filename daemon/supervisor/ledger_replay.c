/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay: the messages with which the next worker restores a session
 */
#include <stdlib.h>

#include "supervisor/ledger_internal.h"
#include "util/error.h"

static int alloc_by_va(const void *a, const void *b)
{
        const struct ds_ledger_alloc *const *x = a, *const *y = b;

        return (*x)->va < (*y)->va ? -1 : (*x)->va > (*y)->va;
}

static int slab_by_va(struct ds_ledger_slab *a, struct ds_ledger_slab *b)
{
        return a->va < b->va ? -1 : a->va > b->va;
}

static ProtobufCBinaryData share_secret(const ds_share *share)
{
        return (ProtobufCBinaryData){
                .len = DS_SHARE_SECRET_BYTES, .data = (uint8_t *)(uintptr_t)ds_share_secret(share)};
}

static int replay_physical(
        const struct ds_ledger_physical *physical, uint64_t session, ds_ledger_replay_fn fn, void *user)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__RestorePhysical restore = DETSHARE__INTERNAL__RESTORE_PHYSICAL__INIT;
        Detshare__Internal__Physical said = DETSHARE__INTERNAL__PHYSICAL__INIT;

        said.handle = physical->id;
        said.bytes = ds_share_bytes(physical->share);
        said.imported = physical->imported;
        restore.session = session;
        restore.physical = &said;
        if (ds_share_id(physical->share)) {
                restore.share = ds_share_id(physical->share);
                restore.secret = share_secret(physical->share);
        }
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_PHYSICAL;
        message.restore_physical = &restore;
        return fn(user, &message, ds_share_fd(physical->share));
}

static int replay_mapping(const struct ds_ledger_mapping *mapping, uint64_t session, ds_ledger_replay_fn fn, void *user)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__RestoreMapping restore = DETSHARE__INTERNAL__RESTORE_MAPPING__INIT;
        Detshare__Internal__Mapping said = DETSHARE__INTERNAL__MAPPING__INIT;

        said.va = mapping->va;
        said.bytes = mapping->bytes;
        said.handle = mapping->physical->id;
        restore.session = session;
        restore.mapping = &said;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_MAPPING;
        message.restore_mapping = &restore;
        return fn(user, &message, -1);
}

static int replay_lent(const ds_ledger *ledger, uint64_t session, ds_ledger_replay_fn fn, void *user)
{
        int r = 0;

        for (uint32_t slab = 0; r >= 0 && slab < DS_POOL_SLABS_MAX; slab++) {
                Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
                Detshare__Internal__RestoreLent restore = DETSHARE__INTERNAL__RESTORE_LENT__INIT;
                Detshare__Internal__Lent lent = DETSHARE__INTERNAL__LENT__INIT;

                if (!(ledger->lent >> slab & 1))
                        continue;
                lent.slab = slab;
                lent.bytes = ledger->lent_bytes;
                restore.session = session;
                restore.lent = &lent;
                message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_LENT;
                message.restore_lent = &restore;
                r = fn(user, &message, -1);
        }
        return r;
}

static int replay_placed(ds_ledger *ledger, uint64_t session, ds_ledger_replay_fn fn, void *user)
{
        int r = 0;

        for (struct ds_ledger_physical *physical = ledger->physicals; r >= 0 && physical; physical = physical->hh.next)
                r = replay_physical(physical, session, fn, user);
        for (struct ds_ledger_mapping *mapping = ledger->mappings; r >= 0 && mapping; mapping = mapping->hh.next)
                r = replay_mapping(mapping, session, fn, user);
        return r;
}

/* Passes one RestoreSlab message with the slab's allocations from *at on. Only the slab's first message has its fd. */
static int replay_ranges(const struct ds_ledger_slab *slab, struct ds_ledger_alloc **sorted, size_t n, size_t *at,
        uint64_t session, ds_ledger_replay_fn fn, void *user, int fd)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__RestoreSlab restore = DETSHARE__INTERNAL__RESTORE_SLAB__INIT;
        Detshare__Internal__Slab said = DETSHARE__INTERNAL__SLAB__INIT;
        size_t count = 0, room = DS_MIN(n - *at, (size_t)DS_LEDGER_RANGES_MAX);
        ds_cleanup(ds_freep) Detshare__Internal__Range *ranges = ds_alloc0(room, sizeof(*ranges));
        ds_cleanup(ds_freep) Detshare__Internal__Range **pointers = ds_alloc0(room, sizeof(*pointers));

        if (!ranges || !pointers)
                return ds_error_origin(-ENOMEM);
        while (count < room && sorted[*at]->va < slab->va + slab->bytes) {
                detshare__internal__range__init(&ranges[count]);
                ranges[count].va = sorted[*at]->va;
                ranges[count].bytes = sorted[*at]->bytes;
                ranges[count].pinned = slab->pinned;
                pointers[count] = &ranges[count];
                count++;
                ++*at;
        }
        said.va = slab->va;
        said.bytes = slab->bytes;
        said.pinned = slab->pinned;
        restore.session = session;
        restore.slab = &said;
        if (slab->share && ds_share_id(slab->share)) {
                restore.share = ds_share_id(slab->share);
                restore.secret = share_secret(slab->share);
        }
        restore.n_allocs = count;
        restore.allocs = pointers;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_SLAB;
        message.restore_slab = &restore;
        return fn(user, &message, fd);
}

static int replay_slabs(ds_ledger *ledger, uint64_t session, ds_ledger_replay_fn fn, void *user)
{
        size_t n = HASH_COUNT(ledger->allocs), i = 0, at = 0;
        ds_cleanup(ds_freep) struct ds_ledger_alloc **sorted = ds_alloc0(n, sizeof(*sorted));

        if (!sorted)
                return ds_error_origin(-ENOMEM);
        for (struct ds_ledger_alloc *alloc = ledger->allocs; alloc; alloc = alloc->hh.next)
                sorted[i++] = alloc;
        qsort(sorted, n, sizeof(*sorted), alloc_by_va);
        HASH_SRT(hh, ledger->slabs, slab_by_va);
        for (struct ds_ledger_slab *slab = ledger->slabs; slab; slab = slab->hh.next) {
                int fd = slab->fd;

                do {
                        int r = replay_ranges(slab, sorted, n, &at, session, fn, user, fd);

                        if (r < 0)
                                return r;
                        fd = -1;
                } while (at < n && sorted[at]->va < slab->va + slab->bytes);
        }
        assert(at == n);
        return 0;
}

static int replay_stream(
        ds_ledger *ledger, const struct ds_ledger_stream *stream, uint64_t session, ds_ledger_replay_fn fn, void *user)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__RestoreStream restore = DETSHARE__INTERNAL__RESTORE_STREAM__INIT;
        Detshare__Internal__Stream said = DETSHARE__INTERNAL__STREAM__INIT;

        said.stream = stream->slot;
        said.priority = stream->priority;
        said.non_blocking = stream->non_blocking;
        restore.session = session;
        restore.stream = &said;
        restore.seq = ledger->progress ? ledger->progress[stream->slot] : 0;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_STREAM;
        message.restore_stream = &restore;
        return fn(user, &message, -1);
}

static int replay_module(const struct ds_ledger_module *module, uint64_t session, ds_ledger_replay_fn fn, void *user)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__RestoreModule restore = DETSHARE__INTERNAL__RESTORE_MODULE__INIT;

        restore.session = session;
        restore.module = module->id;
        restore.bytes = module->bytes;
        restore.writable_globals = module->writable;
        restore.charged_bytes = module->bytes_charge.amount;
        restore.variable_bytes = module->variables_charge.amount;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_MODULE;
        message.restore_module = &restore;
        return fn(user, &message, module->fd);
}

static int replay_graph(const struct ds_ledger_graph *graph, uint64_t session, ds_ledger_replay_fn fn, void *user)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__RestoreGraph restore = DETSHARE__INTERNAL__RESTORE_GRAPH__INIT;

        restore.session = session;
        restore.graph = graph->id;
        restore.bytes = graph->bytes;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_GRAPH;
        message.restore_graph = &restore;
        return fn(user, &message, graph->fd);
}

int ds_ledger_replay(ds_ledger *ledger, uint64_t session, ds_ledger_replay_fn fn, void *user)
{
        static const struct ds_ledger_stream legacy = {.slot = 0};
        int r = replay_slabs(ledger, session, fn, user);

        if (r >= 0)
                r = replay_placed(ledger, session, fn, user);
        if (r >= 0)
                r = replay_lent(ledger, session, fn, user);
        /* stream slot 0 always exists; only its progress must be sent */
        if (r >= 0 && ledger->progress)
                r = replay_stream(ledger, &legacy, session, fn, user);
        for (struct ds_ledger_stream *stream = ledger->streams; r >= 0 && stream; stream = stream->hh.next)
                r = replay_stream(ledger, stream, session, fn, user);
        for (struct ds_ledger_module *module = ledger->modules; r >= 0 && module; module = module->hh.next)
                r = replay_module(module, session, fn, user);
        for (struct ds_ledger_graph *graph = ledger->graphs; r >= 0 && graph; graph = graph->hh.next)
                r = replay_graph(graph, session, fn, user);
        return r < 0 ? ds_error_trace(r) : 0;
}
