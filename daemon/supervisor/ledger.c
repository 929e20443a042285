/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/ledger.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire.h"
#include "supervisor/hash.h"
#include "util/error.h"
#include "util/macro.h"

struct slab {
        uint64_t va, bytes;
        int pinned, fd;
        uint32_t n_allocs; /* that lie in it */
        ds_share *share;   /* once it was exported */
        struct ds_charge slab_charge, bytes_charge;
        UT_hash_handle hh;
};

struct physical {
        uint64_t id;
        ds_share *share;
        int imported;
        uint32_t n_mappings;
        struct ds_charge one, file; /* the worker's */
        UT_hash_handle hh;
};

struct mapping {
        uint64_t va, bytes;
        struct physical *physical;
        UT_hash_handle hh;
};

struct alloc {
        uint64_t va, bytes;
        struct slab *slab;
        struct ds_charge charge, one;
        UT_hash_handle hh;
};

struct graph {
        uint64_t id, bytes;
        int fd;
        struct ds_charge object_charge, bytes_charge;
        UT_hash_handle hh;
};

struct module {
        uint64_t id, bytes;
        int fd, writable;
        struct ds_charge module_charge, bytes_charge, variables_charge;
        struct ds_module_forms forms;
        UT_hash_handle hh;
};

struct stream {
        uint32_t slot;
        int32_t priority;
        int non_blocking;
        UT_hash_handle hh;
};

struct ds_ledger {
        struct ds_window window;
        ds_user *user;
        struct slab *slabs;
        struct alloc *allocs;
        struct physical *physicals;
        struct mapping *mappings;
        uint64_t physical_bytes; /* of its own */
        struct module *modules;
        struct graph *graphs;
        struct stream *streams;
        uint64_t slab_bytes, alloc_bytes; /* device memory */
        uint32_t n_writable;              /* modules with writable globals */
        uint64_t lent, lent_bytes;        /* slabs of the pool, a bit each; of one */
        struct ds_charge lent_charge;
        uint64_t *progress; /* DS_STREAMS_MAX sequence numbers once a worker has died, else NULL */
};

int ds_ledger_new(const struct ds_window *window, ds_user *user, ds_ledger **ret)
{
        ds_ledger *ledger = ds_alloc0(1, sizeof(*ledger));

        if (!ledger)
                return ds_error_origin(-ENOMEM);
        ledger->window = *window;
        ledger->user = ds_user_ref(user);
        *ret = ledger;
        return 0;
}

static void slab_drop(ds_ledger *ledger, struct slab *slab)
{
        assert(slab->n_allocs == 0);
        HASH_DELETE(hh, ledger->slabs, slab);
        ledger->slab_bytes -= slab->pinned ? 0 : slab->bytes;
        if (slab->share)
                ds_share_left(slab->share);
        ds_share_unref(slab->share);
        ds_charge_release(&slab->slab_charge);
        ds_charge_release(&slab->bytes_charge);
        ds_close(slab->fd);
        ds_free(slab);
}

static void alloc_drop(ds_ledger *ledger, struct alloc *alloc)
{
        HASH_DELETE(hh, ledger->allocs, alloc);
        assert(alloc->slab->n_allocs > 0);
        alloc->slab->n_allocs--;
        ledger->alloc_bytes -= alloc->slab->pinned ? 0 : alloc->bytes;
        ds_charge_release(&alloc->charge);
        ds_charge_release(&alloc->one);
        ds_free(alloc);
}

static void module_drop(ds_ledger *ledger, struct module *module)
{
        HASH_DELETE(hh, ledger->modules, module);
        ledger->n_writable -= module->writable ? 1 : 0;
        ds_charge_release(&module->module_charge);
        ds_charge_release(&module->bytes_charge);
        ds_charge_release(&module->variables_charge);
        ds_module_forms_deinit(&module->forms);
        ds_close(module->fd);
        ds_free(module);
}

static void graph_drop(ds_ledger *ledger, struct graph *graph)
{
        HASH_DELETE(hh, ledger->graphs, graph);
        ds_charge_release(&graph->object_charge);
        ds_charge_release(&graph->bytes_charge);
        ds_close(graph->fd);
        ds_free(graph);
}

static void stream_drop(ds_ledger *ledger, struct stream *stream)
{
        HASH_DELETE(hh, ledger->streams, stream);
        ds_free(stream);
}

static void mapping_drop(ds_ledger *ledger, struct mapping *mapping)
{
        HASH_DELETE(hh, ledger->mappings, mapping);
        mapping->physical->n_mappings--;
        ds_free(mapping);
}

static void physical_drop(ds_ledger *ledger, struct physical *physical)
{
        assert(physical->n_mappings == 0);
        HASH_DELETE(hh, ledger->physicals, physical);
        ledger->physical_bytes -= physical->imported ? 0 : ds_share_bytes(physical->share);
        ds_share_unref(physical->share);
        ds_charge_release(&physical->one);
        ds_charge_release(&physical->file);
        ds_free(physical);
}

void ds_ledger_reset(ds_ledger *ledger)
{
        while (ledger->mappings)
                mapping_drop(ledger, ledger->mappings);
        while (ledger->physicals)
                physical_drop(ledger, ledger->physicals);
        while (ledger->allocs)
                alloc_drop(ledger, ledger->allocs);
        while (ledger->slabs)
                slab_drop(ledger, ledger->slabs);
        while (ledger->graphs)
                graph_drop(ledger, ledger->graphs);
        while (ledger->modules)
                module_drop(ledger, ledger->modules);
        while (ledger->streams)
                stream_drop(ledger, ledger->streams);
        ledger->lent = 0;
        ds_charge_release(&ledger->lent_charge);
}

ds_ledger *ds_ledger_free(ds_ledger *ledger)
{
        if (!ledger)
                return NULL;
        ds_ledger_reset(ledger);
        ds_user_unref(ledger->user);
        ds_free(ledger->progress);
        return ds_free(ledger);
}

/* Is [va, va + bytes) inside the half of the window that its kind belongs to? */
static int in_half(const ds_ledger *ledger, uint64_t va, uint64_t bytes, int pinned)
{
        uint64_t half = ledger->window.bytes / 2, base = ledger->window.base + (pinned ? half : 0);

        return bytes > 0 && bytes <= half && va >= base && va - base <= half - bytes;
}

static int slab_add(ds_ledger *ledger, const Detshare__Internal__Slab *said, const struct ds_ledger_beside *beside)
{
        struct slab *slab;

        if (!in_half(ledger, said->va, said->bytes, said->pinned) || *beside->slab_fd < 0)
                return DS_LEDGER_E_PROTOCOL;
        for (slab = ledger->slabs; slab; slab = slab->hh.next)
                if (said->va < slab->va + slab->bytes && slab->va < said->va + said->bytes)
                        return DS_LEDGER_E_PROTOCOL;
        slab = ds_alloc0(1, sizeof(*slab));
        if (!slab)
                return ds_error_origin(-ENOMEM);
        slab->va = said->va;
        slab->bytes = said->bytes;
        slab->pinned = said->pinned;
        HASH_ADD(hh, ledger->slabs, va, sizeof(slab->va), slab);
        if (!ds_hash_added(slab)) {
                ds_free(slab);
                return ds_error_origin(-ENOMEM);
        }
        slab->fd = DS_TAKE_FD(*beside->slab_fd);
        ledger->slab_bytes += slab->pinned ? 0 : slab->bytes;
        ds_charge_force(&slab->slab_charge, ledger->user, DS_CHARGE_SLABS, 1);
        if (slab->pinned)
                ds_charge_force(&slab->bytes_charge, ledger->user, DS_CHARGE_HOST_BYTES, slab->bytes);
        return 0;
}

static struct slab *slab_around(const ds_ledger *ledger, uint64_t va, uint64_t bytes)
{
        for (struct slab *slab = ledger->slabs; slab; slab = slab->hh.next)
                if (va >= slab->va && bytes <= slab->bytes && va - slab->va <= slab->bytes - bytes)
                        return slab;
        return NULL;
}

static int alloc_add(ds_ledger *ledger, const Detshare__Internal__Range *said)
{
        struct slab *slab = slab_around(ledger, said->va, said->bytes);
        struct alloc *alloc = NULL;

        HASH_FIND(hh, ledger->allocs, &said->va, sizeof(said->va), alloc);
        if (alloc || !slab || said->bytes == 0 || !slab->pinned != !said->pinned)
                return DS_LEDGER_E_PROTOCOL;
        alloc = ds_alloc0(1, sizeof(*alloc));
        if (!alloc)
                return ds_error_origin(-ENOMEM);
        alloc->va = said->va;
        alloc->bytes = said->bytes;
        alloc->slab = slab;
        HASH_ADD(hh, ledger->allocs, va, sizeof(alloc->va), alloc);
        if (!ds_hash_added(alloc)) {
                ds_free(alloc);
                return ds_error_origin(-ENOMEM);
        }
        slab->n_allocs++;
        ds_charge_force(&alloc->one, ledger->user, DS_CHARGE_ALLOCS, 1);
        if (!slab->pinned) {
                ledger->alloc_bytes += alloc->bytes;
                ds_charge_force(&alloc->charge, ledger->user, DS_CHARGE_DEVICE_BYTES, alloc->bytes);
        }
        return 0;
}

static struct physical *physical_find(const ds_ledger *ledger, uint64_t id)
{
        struct physical *physical = NULL;

        HASH_FIND(hh, ledger->physicals, &id, sizeof(id), physical);
        return physical;
}

/* Takes the reference over. */
static int physical_enlist(ds_ledger *ledger, uint64_t id, int imported, ds_share *share)
{
        struct physical *physical = ds_alloc0(1, sizeof(*physical));

        if (!physical) {
                ds_share_unref(share);
                return ds_error_origin(-ENOMEM);
        }
        *physical = (struct physical){.id = id, .share = share, .imported = imported};
        HASH_ADD(hh, ledger->physicals, id, sizeof(physical->id), physical);
        if (!ds_hash_added(physical)) {
                ds_share_unref(share);
                ds_free(physical);
                return ds_error_origin(-ENOMEM);
        }
        ledger->physical_bytes += imported ? 0 : ds_share_bytes(share);
        ds_charge_force(&physical->one, ledger->user, DS_CHARGE_ALLOCS, 1);
        ds_charge_force(&physical->file, ledger->user, DS_CHARGE_SLABS, 1);
        return 0;
}

static int physical_add(
        ds_ledger *ledger, const Detshare__Internal__Physical *said, const struct ds_ledger_beside *beside)
{
        ds_share *share = NULL;
        int r = 0;

        if (!said->handle || !said->bytes || said->bytes > UINT64_MAX / 4 || physical_find(ledger, said->handle) ||
                HASH_COUNT(ledger->physicals) >= DS_LEDGER_PHYSICALS_MAX)
                return DS_LEDGER_E_PROTOCOL;
        if (said->imported)
                share = beside->imported && ds_share_bytes(beside->imported) == said->bytes
                                ? ds_share_ref(beside->imported)
                                : NULL;
        else if (*beside->slab_fd >= 0)
                r = ds_share_new(beside->slab_fd, said->bytes, 1, ledger->user, &share);
        if (r)
                return ds_error_trace(r);
        return share ? physical_enlist(ledger, said->handle, said->imported, share) : DS_LEDGER_E_PROTOCOL;
}

int ds_ledger_is_mapped(const ds_ledger *ledger, uint64_t va, uint64_t bytes)
{
        for (const struct mapping *mapping = ledger->mappings; mapping; mapping = mapping->hh.next)
                if (va < mapping->va + mapping->bytes && mapping->va < va + bytes)
                        return 1;
        return 0;
}

static int mapping_add(ds_ledger *ledger, const Detshare__Internal__Mapping *said)
{
        struct physical *physical = physical_find(ledger, said->handle);
        struct mapping *mapping;

        if (!physical || !said->va || !said->bytes || said->bytes > ds_share_bytes(physical->share) ||
                said->bytes > UINT64_MAX - said->va || ds_ledger_is_mapped(ledger, said->va, said->bytes) ||
                HASH_COUNT(ledger->mappings) >= DS_LEDGER_PHYSICALS_MAX)
                return DS_LEDGER_E_PROTOCOL;
        mapping = ds_alloc0(1, sizeof(*mapping));
        if (!mapping)
                return ds_error_origin(-ENOMEM);
        *mapping = (struct mapping){.va = said->va, .bytes = said->bytes, .physical = physical};
        HASH_ADD(hh, ledger->mappings, va, sizeof(mapping->va), mapping);
        if (!ds_hash_added(mapping)) {
                ds_free(mapping);
                return ds_error_origin(-ENOMEM);
        }
        physical->n_mappings++;
        return 0;
}

/* A slab has one for its file and one for the worker's. */
static int slab_share(ds_ledger *ledger, struct slab *slab)
{
        int fd, r;

        if (slab->share)
                return 0;
        fd = fcntl(slab->fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
                return ds_error_origin(-errno);
        r = ds_share_new(&fd, slab->bytes, 0, ledger->user, &slab->share);
        ds_close(fd);
        return ds_error_trace(r);
}

int ds_ledger_share(
        ds_ledger *ledger, uint64_t va, uint64_t handle, ds_share **ret, uint64_t *ret_offset, uint64_t *ret_size)
{
        struct physical *physical = handle ? physical_find(ledger, handle) : NULL;
        struct alloc *alloc = NULL;
        int r;

        if (physical) {
                *ret = physical->share;
                *ret_offset = 0;
                *ret_size = ds_share_bytes(physical->share);
                return 0;
        }
        if (!handle)
                HASH_FIND(hh, ledger->allocs, &va, sizeof(va), alloc);
        if (!alloc || alloc->slab->pinned)
                return DS_LEDGER_E_UNKNOWN;
        r = slab_share(ledger, alloc->slab);
        if (r)
                return ds_error_trace(r);
        *ret = alloc->slab->share;
        *ret_offset = alloc->va - alloc->slab->va;
        *ret_size = alloc->bytes;
        return 0;
}

static int module_add(ds_ledger *ledger, const Detshare__Internal__Module *said, const struct ds_ledger_beside *beside)
{
        struct module *module = NULL;

        HASH_FIND(hh, ledger->modules, &said->module, sizeof(said->module), module);
        if (module || !beside->image_fd || *beside->image_fd < 0)
                return DS_LEDGER_E_PROTOCOL;
        module = ds_alloc0(1, sizeof(*module));
        if (!module)
                return ds_error_origin(-ENOMEM);
        module->id = said->module;
        module->bytes = beside->image_bytes;
        module->writable = said->writable_globals;
        HASH_ADD(hh, ledger->modules, id, sizeof(module->id), module);
        if (!ds_hash_added(module)) {
                ds_free(module);
                return ds_error_origin(-ENOMEM);
        }
        module->fd = DS_TAKE_FD(*beside->image_fd);
        ds_module_forms_init(&module->forms);
        if (beside->source)
                ds_module_source_move(&module->forms.source, beside->source);
        ledger->n_writable += module->writable ? 1 : 0;
        if (beside->module_charge)
                ds_charge_move(&module->module_charge, beside->module_charge);
        if (beside->image_charge)
                ds_charge_move(&module->bytes_charge, beside->image_charge);
        if (beside->variables_charge)
                ds_charge_move(&module->variables_charge, beside->variables_charge);
        return 0;
}

struct ds_module_forms *ds_ledger_module(ds_ledger *ledger, uint64_t id, int *ret_fd, uint64_t *ret_bytes)
{
        struct module *module = NULL;

        HASH_FIND(hh, ledger->modules, &id, sizeof(id), module);
        if (!module)
                return NULL;
        *ret_fd = module->fd;
        *ret_bytes = module->bytes;
        return &module->forms;
}

static struct graph *graph_find(ds_ledger *ledger, uint64_t id)
{
        struct graph *graph = NULL;

        HASH_FIND(hh, ledger->graphs, &id, sizeof(id), graph);
        return graph;
}

/* An updated one takes the place of the one before. */
static int graph_add(ds_ledger *ledger, const Detshare__Internal__Graph *said, const struct ds_ledger_beside *beside)
{
        struct graph *graph, *before = graph_find(ledger, said->graph);

        if (!said->graph || !beside->image_fd || *beside->image_fd < 0)
                return DS_LEDGER_E_PROTOCOL;
        graph = ds_alloc0(1, sizeof(*graph));
        if (!graph)
                return ds_error_origin(-ENOMEM);
        if (before)
                graph_drop(ledger, before);
        graph->id = said->graph;
        graph->bytes = beside->image_bytes;
        HASH_ADD(hh, ledger->graphs, id, sizeof(graph->id), graph);
        if (!ds_hash_added(graph)) {
                ds_free(graph);
                return ds_error_origin(-ENOMEM);
        }
        graph->fd = DS_TAKE_FD(*beside->image_fd);
        if (beside->module_charge)
                ds_charge_move(&graph->object_charge, beside->module_charge);
        if (beside->image_charge)
                ds_charge_move(&graph->bytes_charge, beside->image_charge);
        return 0;
}

static int stream_add(ds_ledger *ledger, const Detshare__Internal__Stream *said)
{
        struct stream *stream = NULL;

        HASH_FIND(hh, ledger->streams, &said->stream, sizeof(said->stream), stream);
        if (stream || said->stream == 0 || said->stream >= DS_STREAMS_MAX)
                return DS_LEDGER_E_PROTOCOL;
        stream = ds_alloc0(1, sizeof(*stream));
        if (!stream)
                return ds_error_origin(-ENOMEM);
        stream->slot = said->stream;
        stream->priority = said->priority;
        stream->non_blocking = said->non_blocking;
        HASH_ADD(hh, ledger->streams, slot, sizeof(stream->slot), stream);
        if (!ds_hash_added(stream)) {
                ds_free(stream);
                return ds_error_origin(-ENOMEM);
        }
        return 0;
}

static int lent_change(ds_ledger *ledger, const Detshare__Internal__Lent *said, int added)
{
        const uint64_t bit = said->slab < DS_POOL_SLABS_MAX ? UINT64_C(1) << said->slab : 0;
        if (!bit || !said->bytes || said->bytes > UINT64_MAX / DS_POOL_SLABS_MAX || !(ledger->lent & bit) == !added ||
                (ledger->lent && ledger->lent_bytes != said->bytes))
                return DS_LEDGER_E_PROTOCOL;
        ledger->lent ^= bit;
        ledger->lent_bytes = said->bytes;
        ds_charge_release(&ledger->lent_charge);
        if (ledger->lent)
                ds_charge_force(&ledger->lent_charge, ledger->user, DS_CHARGE_DEVICE_BYTES,
                        (uint64_t)__builtin_popcountll(ledger->lent) * said->bytes);
        return 0;
}

/* Removals; ids are never 0, which stands for "nothing removed". */
static int apply_removals(ds_ledger *ledger, const Detshare__Internal__Ledger *entry)
{
        if (entry->alloc_removed) {
                struct alloc *alloc = NULL;

                HASH_FIND(hh, ledger->allocs, &entry->alloc_removed, sizeof(entry->alloc_removed), alloc);
                if (!alloc)
                        return DS_LEDGER_E_PROTOCOL;
                alloc_drop(ledger, alloc);
        }
        if (entry->slab_removed) {
                struct slab *slab = NULL;

                HASH_FIND(hh, ledger->slabs, &entry->slab_removed, sizeof(entry->slab_removed), slab);
                if (!slab || slab->n_allocs)
                        return DS_LEDGER_E_PROTOCOL;
                slab_drop(ledger, slab);
        }
        if (entry->mapping_removed) {
                struct mapping *mapping = NULL;

                HASH_FIND(hh, ledger->mappings, &entry->mapping_removed, sizeof(entry->mapping_removed), mapping);
                if (!mapping)
                        return DS_LEDGER_E_PROTOCOL;
                mapping_drop(ledger, mapping);
        }
        if (entry->physical_removed) {
                struct physical *physical = physical_find(ledger, entry->physical_removed);

                if (!physical || physical->n_mappings)
                        return DS_LEDGER_E_PROTOCOL;
                physical_drop(ledger, physical);
        }
        if (entry->module_removed) {
                struct module *module = NULL;

                HASH_FIND(hh, ledger->modules, &entry->module_removed, sizeof(entry->module_removed), module);
                if (!module)
                        return DS_LEDGER_E_PROTOCOL;
                module_drop(ledger, module);
        }
        if (entry->graph_removed) {
                struct graph *graph = graph_find(ledger, entry->graph_removed);

                if (!graph)
                        return DS_LEDGER_E_PROTOCOL;
                graph_drop(ledger, graph);
        }
        if (entry->stream_removed) {
                struct stream *stream = NULL;

                HASH_FIND(hh, ledger->streams, &entry->stream_removed, sizeof(entry->stream_removed), stream);
                if (!stream)
                        return DS_LEDGER_E_PROTOCOL;
                stream_drop(ledger, stream);
        }
        return entry->lent_removed ? lent_change(ledger, entry->lent_removed, 0) : 0;
}

int ds_ledger_apply(ds_ledger *ledger, const Detshare__Internal__Ledger *entry, const struct ds_ledger_beside *beside)
{
        int r;

        if (entry->reset)
                ds_ledger_reset(ledger);
        r = apply_removals(ledger, entry);
        if (!r && entry->slab_added)
                r = slab_add(ledger, entry->slab_added, beside);
        if (!r && entry->alloc_added)
                r = alloc_add(ledger, entry->alloc_added);
        if (!r && entry->physical_added)
                r = physical_add(ledger, entry->physical_added, beside);
        if (!r && entry->mapping_added)
                r = mapping_add(ledger, entry->mapping_added);
        if (!r && entry->module_added)
                r = module_add(ledger, entry->module_added, beside);
        if (!r && entry->graph_added)
                r = graph_add(ledger, entry->graph_added, beside);
        if (!r && entry->stream_added)
                r = stream_add(ledger, entry->stream_added);
        if (!r && entry->lent_added)
                r = lent_change(ledger, entry->lent_added, 1);
        return ds_error_trace(r);
}

static int need_progress(ds_ledger *ledger)
{
        if (!ledger->progress)
                ledger->progress = ds_alloc0(DS_STREAMS_MAX, sizeof(*ledger->progress));
        return ledger->progress ? 0 : ds_error_origin(-ENOMEM);
}

int ds_ledger_save_progress(ds_ledger *ledger, const struct ds_completion_page *page)
{
        int r = need_progress(ledger);

        for (size_t i = 0; !r && i < DS_STREAMS_MAX; i++)
                ledger->progress[i] = atomic_load_explicit(&page->stream_done[i], memory_order_relaxed);
        return r;
}

const uint64_t *ds_ledger_progress(const ds_ledger *ledger)
{
        return ledger->progress;
}

int ds_ledger_set_progress(ds_ledger *ledger, const uint64_t *progress, size_t n)
{
        int r = need_progress(ledger);

        assert(n <= DS_STREAMS_MAX);
        if (!r && n)
                memcpy(ledger->progress, progress, n * sizeof(*progress));
        return r;
}

static int alloc_by_va(const void *a, const void *b)
{
        const struct alloc *const *x = a, *const *y = b;

        return (*x)->va < (*y)->va ? -1 : (*x)->va > (*y)->va;
}

static int slab_by_va(struct slab *a, struct slab *b)
{
        return a->va < b->va ? -1 : a->va > b->va;
}

static ProtobufCBinaryData share_secret(const ds_share *share)
{
        return (ProtobufCBinaryData){
                .len = DS_SHARE_SECRET_BYTES, .data = (uint8_t *)(uintptr_t)ds_share_secret(share)};
}

static int replay_physical(const struct physical *physical, uint64_t session, ds_ledger_replay_fn fn, void *user)
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

static int replay_mapping(const struct mapping *mapping, uint64_t session, ds_ledger_replay_fn fn, void *user)
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

        for (struct physical *physical = ledger->physicals; r >= 0 && physical; physical = physical->hh.next)
                r = replay_physical(physical, session, fn, user);
        for (struct mapping *mapping = ledger->mappings; r >= 0 && mapping; mapping = mapping->hh.next)
                r = replay_mapping(mapping, session, fn, user);
        return r;
}

/* One RestoreSlab with the allocations from *at on that lie in it; fd only with the slab's first. */
static int replay_ranges(const struct slab *slab, struct alloc **sorted, size_t n, size_t *at, uint64_t session,
        ds_ledger_replay_fn fn, void *user, int fd)
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
        ds_cleanup(ds_freep) struct alloc **sorted = ds_alloc0(n, sizeof(*sorted));

        if (!sorted)
                return ds_error_origin(-ENOMEM);
        for (struct alloc *alloc = ledger->allocs; alloc; alloc = alloc->hh.next)
                sorted[i++] = alloc;
        qsort(sorted, n, sizeof(*sorted), alloc_by_va);
        HASH_SRT(hh, ledger->slabs, slab_by_va);
        for (struct slab *slab = ledger->slabs; slab; slab = slab->hh.next) {
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
        ds_ledger *ledger, const struct stream *stream, uint64_t session, ds_ledger_replay_fn fn, void *user)
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

static int replay_module(const struct module *module, uint64_t session, ds_ledger_replay_fn fn, void *user)
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

static int replay_graph(const struct graph *graph, uint64_t session, ds_ledger_replay_fn fn, void *user)
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
        static const struct stream legacy = {.slot = 0};
        int r = replay_slabs(ledger, session, fn, user);

        if (r >= 0)
                r = replay_placed(ledger, session, fn, user);
        if (r >= 0)
                r = replay_lent(ledger, session, fn, user);
        /* slot 0 always exists; only its progress needs saying */
        if (r >= 0 && ledger->progress)
                r = replay_stream(ledger, &legacy, session, fn, user);
        for (struct stream *stream = ledger->streams; r >= 0 && stream; stream = stream->hh.next)
                r = replay_stream(ledger, stream, session, fn, user);
        for (struct module *module = ledger->modules; r >= 0 && module; module = module->hh.next)
                r = replay_module(module, session, fn, user);
        for (struct graph *graph = ledger->graphs; r >= 0 && graph; graph = graph->hh.next)
                r = replay_graph(graph, session, fn, user);
        return r < 0 ? ds_error_trace(r) : 0;
}

/* --- restoring ---------------------------------------------------------------------------------------------------- */

/* That one of an earlier life, which may be here already because another session has it too; or NULL. */
static ds_share *share_known(ds_shares *shares, uint64_t id, const ProtobufCBinaryData *secret)
{
        ds_share *share = secret->len == DS_SHARE_SECRET_BYTES ? ds_shares_at(shares, id) : NULL;

        if (share && memcmp(ds_share_secret(share), secret->data, secret->len) != 0)
                share = ds_share_unref(share);
        return share;
}

static int share_name(ds_shares *shares, ds_share *share, uint64_t id, const ProtobufCBinaryData *secret)
{
        int r = 0;

        if (id && secret->len == DS_SHARE_SECRET_BYTES)
                r = ds_share_republish(shares, share, id, secret->data);
        return r > 0 ? DS_LEDGER_E_PROTOCOL : ds_error_trace(r);
}

int ds_ledger_restore_physical(
        ds_ledger *ledger, ds_shares *shares, const Detshare__Internal__RestorePhysical *restore, int *fd)
{
        const Detshare__Internal__Physical *said = restore->physical;
        ds_share *share;
        int r = 0;

        if (!said || !said->handle || *fd < 0 || !said->bytes || said->bytes > UINT64_MAX / 4 ||
                physical_find(ledger, said->handle) || HASH_COUNT(ledger->physicals) >= DS_LEDGER_PHYSICALS_MAX)
                return DS_LEDGER_E_PROTOCOL;
        share = share_known(shares, restore->share, &restore->secret);
        if (!share) {
                r = ds_share_new(fd, said->bytes, 1, ledger->user, &share);
                if (!r)
                        r = share_name(shares, share, restore->share, &restore->secret);
        } else if (ds_share_bytes(share) != said->bytes) {
                r = DS_LEDGER_E_PROTOCOL;
        }
        if (r) {
                ds_share_unref(share);
                return ds_error_trace(r);
        }
        return ds_error_trace(physical_enlist(ledger, said->handle, said->imported, share));
}

int ds_ledger_restore_mapping(ds_ledger *ledger, const Detshare__Internal__RestoreMapping *restore)
{
        return restore->mapping ? ds_error_trace(mapping_add(ledger, restore->mapping)) : DS_LEDGER_E_PROTOCOL;
}

static int restore_slab_share(ds_ledger *ledger, ds_shares *shares, const Detshare__Internal__RestoreSlab *restore)
{
        struct slab *slab = slab_around(ledger, restore->slab->va, restore->slab->bytes);
        int r;

        if (!restore->share || !slab)
                return 0;
        slab->share = share_known(shares, restore->share, &restore->secret);
        if (slab->share)
                return ds_share_bytes(slab->share) == slab->bytes ? 0 : DS_LEDGER_E_PROTOCOL;
        r = slab_share(ledger, slab);
        return r ? ds_error_trace(r) : share_name(shares, slab->share, restore->share, &restore->secret);
}

int ds_ledger_restore_slab(
        ds_ledger *ledger, ds_shares *shares, const Detshare__Internal__RestoreSlab *restore, int *fd)
{
        struct ds_ledger_beside beside = {.slab_fd = fd};
        int r = 0, had_fd = *fd >= 0;

        if (!restore->slab)
                return DS_LEDGER_E_PROTOCOL;
        /* more allocations of a slab follow without its file */
        if (*fd >= 0)
                r = slab_add(ledger, restore->slab, &beside);
        if (!r && had_fd)
                r = restore_slab_share(ledger, shares, restore);
        for (size_t i = 0; !r && i < restore->n_allocs; i++)
                r = HASH_COUNT(ledger->allocs) < DS_LEDGER_ALLOCS_MAX ? alloc_add(ledger, restore->allocs[i])
                                                                      : DS_LEDGER_E_PROTOCOL;
        return ds_error_trace(r);
}

int ds_ledger_restore_lent(ds_ledger *ledger, const Detshare__Internal__RestoreLent *restore)
{
        return restore->lent ? lent_change(ledger, restore->lent, 1) : DS_LEDGER_E_PROTOCOL;
}

int ds_ledger_restore_module(ds_ledger *ledger, const Detshare__Internal__RestoreModule *restore, int *fd)
{
        Detshare__Internal__Module said = DETSHARE__INTERNAL__MODULE__INIT;
        struct ds_charge object = {0}, image = {0}, variables = {0};
        struct ds_ledger_beside beside = {.image_fd = fd,
                .image_bytes = restore->bytes,
                .module_charge = &object,
                .image_charge = &image,
                .variables_charge = &variables};
        uint64_t most = UINT64_MAX / 4; /* sums of charges must not overflow */
        int r;

        if (!restore->module || restore->charged_bytes > most || restore->variable_bytes > most ||
                HASH_COUNT(ledger->modules) >= DS_LEDGER_MODULES_MAX)
                return DS_LEDGER_E_PROTOCOL;
        said.module = restore->module;
        said.writable_globals = restore->writable_globals;
        ds_charge_force(&object, ledger->user, DS_CHARGE_MODULES, 1);
        ds_charge_force(&image, ledger->user, DS_CHARGE_HOST_BYTES, restore->charged_bytes);
        ds_charge_force(&variables, ledger->user, DS_CHARGE_DEVICE_BYTES, restore->variable_bytes);
        r = module_add(ledger, &said, &beside);
        ds_charge_release(&object);
        ds_charge_release(&image);
        ds_charge_release(&variables);
        return ds_error_trace(r);
}

int ds_ledger_restore_graph(ds_ledger *ledger, const Detshare__Internal__RestoreGraph *restore, int *fd)
{
        Detshare__Internal__Graph said = DETSHARE__INTERNAL__GRAPH__INIT;
        struct ds_charge object = {0}, image = {0};
        struct ds_ledger_beside beside = {
                .image_fd = fd, .image_bytes = restore->bytes, .module_charge = &object, .image_charge = &image};
        int r;

        if (graph_find(ledger, restore->graph) || HASH_COUNT(ledger->graphs) >= DS_LEDGER_GRAPHS_MAX)
                return DS_LEDGER_E_PROTOCOL;
        said.graph = restore->graph;
        ds_charge_force(&object, ledger->user, DS_CHARGE_SLABS, 1);
        ds_charge_force(&image, ledger->user, DS_CHARGE_HOST_BYTES, restore->bytes);
        r = graph_add(ledger, &said, &beside);
        ds_charge_release(&object);
        ds_charge_release(&image);
        return ds_error_trace(r);
}

int ds_ledger_restore_stream(ds_ledger *ledger, const Detshare__Internal__RestoreStream *restore)
{
        if (!restore->stream)
                return DS_LEDGER_E_PROTOCOL;
        /* the legacy default stream needs no entry */
        return restore->stream->stream ? ds_error_trace(stream_add(ledger, restore->stream)) : 0;
}

void ds_ledger_sums(const ds_ledger *ledger, struct ds_ledger_sums *ret)
{
        *ret = (struct ds_ledger_sums){
                .slabs = HASH_COUNT(ledger->slabs),
                .allocs = HASH_COUNT(ledger->allocs),
                .modules = HASH_COUNT(ledger->modules),
                .graphs = HASH_COUNT(ledger->graphs),
                .streams = HASH_COUNT(ledger->streams),
                .physicals = HASH_COUNT(ledger->physicals),
                .mappings = HASH_COUNT(ledger->mappings),
                .slab_bytes = ledger->slab_bytes + ledger->physical_bytes,
                .alloc_bytes = ledger->alloc_bytes + ledger->physical_bytes,
                .lent = (uint32_t)__builtin_popcountll(ledger->lent),
                .writable_globals = ledger->n_writable > 0,
        };
}
