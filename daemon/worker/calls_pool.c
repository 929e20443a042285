/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about the pool
 *
 * A request for a slab is answered when the slab is cleared. A session has at most one slab that is being cleared; its
 * next request for a slab stays in its queue, like a request that finds no room.
 */
#include "ptx/pass/colour.h"
#include "worker/internal.h"

static enum dsw_outcome pool_none(struct dsw_call *call)
{
        return dsw_call_fail(call, DETSHARE__STATUS__UNSUPPORTED, "the daemon has no pool of coloured memory");
}

enum dsw_outcome dsw_calls_get_channels(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__GetChannels *ask = request->get_channels;
        const struct dsw_pool *pool = &call->session->worker->pool;
        Detshare__ChannelsReply result = DETSHARE__CHANNELS_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        struct ds_ptx_colour_layout layout = {
                .kind = DS_PTX_COLOUR_TABLE, .sector_bits = (uint8_t)pool->facts.sector_bits};
        struct ds_ptx_colour colour = {0};

        if (!pool->facts.n_slabs)
                return pool_none(call);
        if (ask->table &&
                !ds_ptx_colour_set(&layout, ask->window, ask->window_bytes, DSW_POOL_BASE, ask->table, &colour))
                return dsw_call_fail(call, DS_CUDA_INVALID_VALUE, "a colour table cannot be placed at these addresses");
        result.word0 = colour.pool;
        result.word1 = colour.table;
        result.slabs_free = dsw_pool_free_slabs(pool);
        reply.result_case = DETSHARE__REPLY__RESULT_GET_CHANNELS;
        reply.get_channels = &result;
        dsw_call_reply(call, &reply, NULL, &pool->file, 1, 0);
        return DSW_ANSWERED;
}

static int pool_is_clear(const struct dsw_call *call)
{
        return !call->op;
}

static void pool_finish_borrow(struct dsw_call *call)
{
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Lent lent = DETSHARE__INTERNAL__LENT__INIT;
        Detshare__SlabReply result = DETSHARE__SLAB_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        if (call->status) {
                dsw_pool_return(call->session, (uint32_t)call->target);
                dsw_call_fail(call, call->status, "the slab could not be cleared");
                return;
        }
        dsw_pool_publish(call->session, (uint32_t)call->target);
        result.slab = lent.slab = (uint32_t)call->target;
        lent.bytes = call->session->worker->pool.facts.slab_bytes;
        ledger.lent_added = &lent;
        reply.result_case = DETSHARE__REPLY__RESULT_BORROW_SLAB;
        reply.borrow_slab = &result;
        dsw_call_reply(call, &reply, &ledger, NULL, 0, 0);
}

enum dsw_outcome dsw_calls_borrow_slab(struct dsw_call *call, const Detshare__Request *request)
{
        struct dsw_session *session = call->session;
        const char *why = "";
        uint32_t slab = 0;
        int r;

        if (!session->worker->pool.facts.n_slabs)
                return pool_none(call);
        if (session->loan.clearing)
                return DSW_STALLED;
        r = dsw_pool_borrow(session, &slab, &why);
        if (r)
                return dsw_call_fail(call, r, "%s", why);
        r = dsw_pool_clear(session, slab, call);
        if (r) {
                dsw_pool_return(session, slab);
                return dsw_call_fail(call, r, "the daemon is out of memory");
        }
        call->target = slab;
        return dsw_call_park(call, pool_is_clear, pool_finish_borrow);
}

static void pool_finish_return(struct dsw_call *call)
{
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Lent lent = DETSHARE__INTERNAL__LENT__INIT;

        lent.slab = (uint32_t)call->address;
        lent.bytes = call->session->worker->pool.facts.slab_bytes;
        ledger.lent_removed = &lent;
        dsw_pool_return(call->session, (uint32_t)call->address);
        dsw_call_reply(call, NULL, &ledger, NULL, 0, 0);
}

enum dsw_outcome dsw_calls_return_slab(struct dsw_call *call, const Detshare__Request *request)
{
        struct dsw_session *session = call->session;

        if (dsw_pool_begin_return(session, request->return_slab->slab))
                return dsw_call_fail(
                        call, DS_CUDA_INVALID_VALUE, "the session has no slab %u", request->return_slab->slab);
        call->address = request->return_slab->slab;
        call->target = session->op_index;
        return dsw_call_park(call, dsw_call_session_ended, pool_finish_return);
}
