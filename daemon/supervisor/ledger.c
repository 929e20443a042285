/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/ledger_internal.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/macro.h"

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

static void slab_drop(ds_ledger *ledger, struct ds_ledger_slab *slab)
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

static void alloc_drop(ds_ledger *ledger, struct ds_ledger_alloc *alloc)
{
        HASH_DELETE(hh, ledger->allocs, alloc);
        assert(alloc->slab->n_allocs > 0);
        alloc->slab->n_allocs--;
        ledger->alloc_bytes -= alloc->slab->pinned ? 0 : alloc->bytes;
        ds_charge_release(&alloc->charge);
        ds_charge_release(&alloc->one);
        ds_free(alloc);
}

static void module_drop(ds_ledger *ledger, struct ds_ledger_module *module)
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

static void graph_drop(ds_ledger *ledger, struct ds_ledger_graph *graph)
{
        HASH_DELETE(hh, ledger->graphs, graph);
        ds_charge_release(&graph->object_charge);
        ds_charge_release(&graph->bytes_charge);
        ds_close(graph->fd);
        ds_free(graph);
}

static void stream_drop(ds_ledger *ledger, struct ds_ledger_stream *stream)
{
        HASH_DELETE(hh, ledger->streams, stream);
        ds_free(stream);
}

static void mapping_drop(ds_ledger *ledger, struct ds_ledger_mapping *mapping)
{
        HASH_DELETE(hh, ledger->mappings, mapping);
        mapping->physical->n_mappings--;
        ds_free(mapping);
}

static void physical_drop(ds_ledger *ledger, struct ds_ledger_physical *physical)
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

/* Whether the range [va, va + bytes) lies in the half of the window for its kind of memory (pinned or device). */
static int in_half(const ds_ledger *ledger, uint64_t va, uint64_t bytes, int pinned)
{
        uint64_t half = ledger->window.bytes / 2, base = ledger->window.base + (pinned ? half : 0);

        return bytes > 0 && bytes <= half && va >= base && va - base <= half - bytes;
}

int ds_ledger_slab_add(ds_ledger *ledger, const Detshare__Internal__Slab *said, const struct ds_ledger_beside *beside)
{
        struct ds_ledger_slab *slab;

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

struct ds_ledger_slab *ds_ledger_slab_around(const ds_ledger *ledger, uint64_t va, uint64_t bytes)
{
        for (struct ds_ledger_slab *slab = ledger->slabs; slab; slab = slab->hh.next)
                if (va >= slab->va && bytes <= slab->bytes && va - slab->va <= slab->bytes - bytes)
                        return slab;
        return NULL;
}

int ds_ledger_alloc_add(ds_ledger *ledger, const Detshare__Internal__Range *said)
{
        struct ds_ledger_slab *slab = ds_ledger_slab_around(ledger, said->va, said->bytes);
        struct ds_ledger_alloc *alloc = NULL;

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

struct ds_ledger_physical *ds_ledger_physical_find(const ds_ledger *ledger, uint64_t id)
{
        struct ds_ledger_physical *physical = NULL;

        HASH_FIND(hh, ledger->physicals, &id, sizeof(id), physical);
        return physical;
}

/* Adds a handle. Consumes the reference to the share. */
int ds_ledger_physical_enlist(ds_ledger *ledger, uint64_t id, int imported, ds_share *share)
{
        struct ds_ledger_physical *physical = ds_alloc0(1, sizeof(*physical));

        if (!physical) {
                ds_share_unref(share);
                return ds_error_origin(-ENOMEM);
        }
        *physical = (struct ds_ledger_physical){.id = id, .share = share, .imported = imported};
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

        if (!said->handle || !said->bytes || said->bytes > UINT64_MAX / 4 ||
                ds_ledger_physical_find(ledger, said->handle) ||
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
        return share ? ds_ledger_physical_enlist(ledger, said->handle, said->imported, share) : DS_LEDGER_E_PROTOCOL;
}

int ds_ledger_is_mapped(const ds_ledger *ledger, uint64_t va, uint64_t bytes)
{
        for (const struct ds_ledger_mapping *mapping = ledger->mappings; mapping; mapping = mapping->hh.next)
                if (va < mapping->va + mapping->bytes && mapping->va < va + bytes)
                        return 1;
        return 0;
}

int ds_ledger_mapping_add(ds_ledger *ledger, const Detshare__Internal__Mapping *said)
{
        struct ds_ledger_physical *physical = ds_ledger_physical_find(ledger, said->handle);
        struct ds_ledger_mapping *mapping;

        if (!physical || !said->va || !said->bytes || said->bytes > ds_share_bytes(physical->share) ||
                said->bytes > UINT64_MAX - said->va || ds_ledger_is_mapped(ledger, said->va, said->bytes) ||
                HASH_COUNT(ledger->mappings) >= DS_LEDGER_PHYSICALS_MAX)
                return DS_LEDGER_E_PROTOCOL;
        mapping = ds_alloc0(1, sizeof(*mapping));
        if (!mapping)
                return ds_error_origin(-ENOMEM);
        *mapping = (struct ds_ledger_mapping){.va = said->va, .bytes = said->bytes, .physical = physical};
        HASH_ADD(hh, ledger->mappings, va, sizeof(mapping->va), mapping);
        if (!ds_hash_added(mapping)) {
                ds_free(mapping);
                return ds_error_origin(-ENOMEM);
        }
        physical->n_mappings++;
        return 0;
}

/* Makes the slab sharable. The share has a descriptor of its own, beside the slab's. */
int ds_ledger_slab_share(ds_ledger *ledger, struct ds_ledger_slab *slab)
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
        struct ds_ledger_physical *physical = handle ? ds_ledger_physical_find(ledger, handle) : NULL;
        struct ds_ledger_alloc *alloc = NULL;
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
        r = ds_ledger_slab_share(ledger, alloc->slab);
        if (r)
                return ds_error_trace(r);
        *ret = alloc->slab->share;
        *ret_offset = alloc->va - alloc->slab->va;
        *ret_size = alloc->bytes;
        return 0;
}

int ds_ledger_module_add(
        ds_ledger *ledger, const Detshare__Internal__Module *said, const struct ds_ledger_beside *beside)
{
        struct ds_ledger_module *module = NULL;

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
        struct ds_ledger_module *module = NULL;

        HASH_FIND(hh, ledger->modules, &id, sizeof(id), module);
        if (!module)
                return NULL;
        *ret_fd = module->fd;
        *ret_bytes = module->bytes;
        return &module->forms;
}

struct ds_ledger_graph *ds_ledger_graph_find(ds_ledger *ledger, uint64_t id)
{
        struct ds_ledger_graph *graph = NULL;

        HASH_FIND(hh, ledger->graphs, &id, sizeof(id), graph);
        return graph;
}

/* Adds a graph; an updated graph replaces its previous version. */
int ds_ledger_graph_add(ds_ledger *ledger, const Detshare__Internal__Graph *said, const struct ds_ledger_beside *beside)
{
        struct ds_ledger_graph *graph, *before = ds_ledger_graph_find(ledger, said->graph);

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

int ds_ledger_stream_add(ds_ledger *ledger, const Detshare__Internal__Stream *said)
{
        struct ds_ledger_stream *stream = NULL;

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

int ds_ledger_lent_change(ds_ledger *ledger, const Detshare__Internal__Lent *said, int added)
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

/* Applies the removals of an entry. An id of 0 means that nothing is removed, since ids are never 0. */
static int apply_removals(ds_ledger *ledger, const Detshare__Internal__Ledger *entry)
{
        if (entry->alloc_removed) {
                struct ds_ledger_alloc *alloc = NULL;

                HASH_FIND(hh, ledger->allocs, &entry->alloc_removed, sizeof(entry->alloc_removed), alloc);
                if (!alloc)
                        return DS_LEDGER_E_PROTOCOL;
                alloc_drop(ledger, alloc);
        }
        if (entry->slab_removed) {
                struct ds_ledger_slab *slab = NULL;

                HASH_FIND(hh, ledger->slabs, &entry->slab_removed, sizeof(entry->slab_removed), slab);
                if (!slab || slab->n_allocs)
                        return DS_LEDGER_E_PROTOCOL;
                slab_drop(ledger, slab);
        }
        if (entry->mapping_removed) {
                struct ds_ledger_mapping *mapping = NULL;

                HASH_FIND(hh, ledger->mappings, &entry->mapping_removed, sizeof(entry->mapping_removed), mapping);
                if (!mapping)
                        return DS_LEDGER_E_PROTOCOL;
                mapping_drop(ledger, mapping);
        }
        if (entry->physical_removed) {
                struct ds_ledger_physical *physical = ds_ledger_physical_find(ledger, entry->physical_removed);

                if (!physical || physical->n_mappings)
                        return DS_LEDGER_E_PROTOCOL;
                physical_drop(ledger, physical);
        }
        if (entry->module_removed) {
                struct ds_ledger_module *module = NULL;

                HASH_FIND(hh, ledger->modules, &entry->module_removed, sizeof(entry->module_removed), module);
                if (!module)
                        return DS_LEDGER_E_PROTOCOL;
                module_drop(ledger, module);
        }
        if (entry->graph_removed) {
                struct ds_ledger_graph *graph = ds_ledger_graph_find(ledger, entry->graph_removed);

                if (!graph)
                        return DS_LEDGER_E_PROTOCOL;
                graph_drop(ledger, graph);
        }
        if (entry->stream_removed) {
                struct ds_ledger_stream *stream = NULL;

                HASH_FIND(hh, ledger->streams, &entry->stream_removed, sizeof(entry->stream_removed), stream);
                if (!stream)
                        return DS_LEDGER_E_PROTOCOL;
                stream_drop(ledger, stream);
        }
        return entry->lent_removed ? ds_ledger_lent_change(ledger, entry->lent_removed, 0) : 0;
}

int ds_ledger_apply(ds_ledger *ledger, const Detshare__Internal__Ledger *entry, const struct ds_ledger_beside *beside)
{
        int r;

        if (entry->reset)
                ds_ledger_reset(ledger);
        r = apply_removals(ledger, entry);
        if (!r && entry->slab_added)
                r = ds_ledger_slab_add(ledger, entry->slab_added, beside);
        if (!r && entry->alloc_added)
                r = ds_ledger_alloc_add(ledger, entry->alloc_added);
        if (!r && entry->physical_added)
                r = physical_add(ledger, entry->physical_added, beside);
        if (!r && entry->mapping_added)
                r = ds_ledger_mapping_add(ledger, entry->mapping_added);
        if (!r && entry->module_added)
                r = ds_ledger_module_add(ledger, entry->module_added, beside);
        if (!r && entry->graph_added)
                r = ds_ledger_graph_add(ledger, entry->graph_added, beside);
        if (!r && entry->stream_added)
                r = ds_ledger_stream_add(ledger, entry->stream_added);
        if (!r && entry->lent_added)
                r = ds_ledger_lent_change(ledger, entry->lent_added, 1);
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
