/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restore: rebuilds a ledger from the records of an earlier daemon
 */
#include <string.h>

#include "supervisor/ledger_internal.h"
#include "util/error.h"

/* The share with this id, if it is restored already because another session has it, too. NULL: it is not. */
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
                ds_ledger_physical_find(ledger, said->handle) ||
                HASH_COUNT(ledger->physicals) >= DS_LEDGER_PHYSICALS_MAX)
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
        return ds_error_trace(ds_ledger_physical_enlist(ledger, said->handle, said->imported, share));
}

int ds_ledger_restore_mapping(ds_ledger *ledger, const Detshare__Internal__RestoreMapping *restore)
{
        return restore->mapping ? ds_error_trace(ds_ledger_mapping_add(ledger, restore->mapping))
                                : DS_LEDGER_E_PROTOCOL;
}

static int restore_slab_share(ds_ledger *ledger, ds_shares *shares, const Detshare__Internal__RestoreSlab *restore)
{
        struct ds_ledger_slab *slab = ds_ledger_slab_around(ledger, restore->slab->va, restore->slab->bytes);
        int r;

        if (!restore->share || !slab)
                return 0;
        slab->share = share_known(shares, restore->share, &restore->secret);
        if (slab->share)
                return ds_share_bytes(slab->share) == slab->bytes ? 0 : DS_LEDGER_E_PROTOCOL;
        r = ds_ledger_slab_share(ledger, slab);
        return r ? ds_error_trace(r) : share_name(shares, slab->share, restore->share, &restore->secret);
}

int ds_ledger_restore_slab(
        ds_ledger *ledger, ds_shares *shares, const Detshare__Internal__RestoreSlab *restore, int *fd)
{
        struct ds_ledger_beside beside = {.slab_fd = fd};
        int r = 0, had_fd = *fd >= 0;

        if (!restore->slab)
                return DS_LEDGER_E_PROTOCOL;
        /* only the first message of a slab has its file; further ones carry more allocations */
        if (*fd >= 0)
                r = ds_ledger_slab_add(ledger, restore->slab, &beside);
        if (!r && had_fd)
                r = restore_slab_share(ledger, shares, restore);
        for (size_t i = 0; !r && i < restore->n_allocs; i++)
                r = HASH_COUNT(ledger->allocs) < DS_LEDGER_ALLOCS_MAX ? ds_ledger_alloc_add(ledger, restore->allocs[i])
                                                                      : DS_LEDGER_E_PROTOCOL;
        return ds_error_trace(r);
}

int ds_ledger_restore_lent(ds_ledger *ledger, const Detshare__Internal__RestoreLent *restore)
{
        return restore->lent ? ds_ledger_lent_change(ledger, restore->lent, 1) : DS_LEDGER_E_PROTOCOL;
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
        uint64_t most = UINT64_MAX / 4; /* bound of the values, so that sums of charges do not overflow */
        int r;

        if (!restore->module || restore->charged_bytes > most || restore->variable_bytes > most ||
                HASH_COUNT(ledger->modules) >= DS_LEDGER_MODULES_MAX)
                return DS_LEDGER_E_PROTOCOL;
        said.module = restore->module;
        said.writable_globals = restore->writable_globals;
        ds_charge_force(&object, ledger->user, DS_CHARGE_MODULES, 1);
        ds_charge_force(&image, ledger->user, DS_CHARGE_HOST_BYTES, restore->charged_bytes);
        ds_charge_force(&variables, ledger->user, DS_CHARGE_DEVICE_BYTES, restore->variable_bytes);
        r = ds_ledger_module_add(ledger, &said, &beside);
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

        if (ds_ledger_graph_find(ledger, restore->graph) || HASH_COUNT(ledger->graphs) >= DS_LEDGER_GRAPHS_MAX)
                return DS_LEDGER_E_PROTOCOL;
        said.graph = restore->graph;
        ds_charge_force(&object, ledger->user, DS_CHARGE_SLABS, 1);
        ds_charge_force(&image, ledger->user, DS_CHARGE_HOST_BYTES, restore->bytes);
        r = ds_ledger_graph_add(ledger, &said, &beside);
        ds_charge_release(&object);
        ds_charge_release(&image);
        return ds_error_trace(r);
}

int ds_ledger_restore_stream(ds_ledger *ledger, const Detshare__Internal__RestoreStream *restore)
{
        if (!restore->stream)
                return DS_LEDGER_E_PROTOCOL;
        /* stream 0 is the legacy default stream, which needs no entry */
        return restore->stream->stream ? ds_error_trace(ds_ledger_stream_add(ledger, restore->stream)) : 0;
}
