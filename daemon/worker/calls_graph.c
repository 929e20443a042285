/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about graphs
 *
 * The file of a GraphCreate or GraphUpdate comes from the client unchecked. graph.c copies it before it checks it.
 */
#include "worker/graph.h"
#include "worker/internal.h"

static enum dsw_outcome graph_failed(struct dsw_call *call, int status, const char *why)
{
        if (status == DSW_WORK_E_STALLED)
                return DSW_STALLED;
        return dsw_call_fail(call, status, "%s", why);
}

enum dsw_outcome dsw_calls_graph_create(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__GraphCreate *create = request->graph_create;
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Graph note = DETSHARE__INTERNAL__GRAPH__INIT;
        Detshare__GraphReply result = DETSHARE__GRAPH_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        const char *why = "the graph cannot be made";
        int r;

        r = dsw_graph_create(call->session, 0, call->fd, create->bytes, &call->graph, &result.graph, &why);
        if (r)
                return graph_failed(call, r, why);
        reply.result_case = DETSHARE__REPLY__RESULT_GRAPH_CREATE;
        result.changes = 1;
        reply.graph_create = &result;
        note.graph = result.graph;
        ledger.graph_added = &note;
        dsw_call_reply(call, &reply, &ledger, NULL, 0, 0);
        return DSW_ANSWERED;
}

enum dsw_outcome dsw_calls_graph_update(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__GraphUpdate *update = request->graph_update;
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Graph note = DETSHARE__INTERNAL__GRAPH__INIT;
        const char *why = "the graph cannot be updated";
        int r;

        r = dsw_graph_update(call->session, update->graph, call->fd, update->bytes, &why);
        if (r)
                return graph_failed(call, r, why);
        note.graph = update->graph;
        ledger.graph_added = &note;
        dsw_call_reply(call, NULL, &ledger, NULL, 0, 0);
        return DSW_ANSWERED;
}

enum dsw_outcome dsw_calls_graph_destroy(struct dsw_call *call, const Detshare__Request *request)
{
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        uint64_t id = request->graph_destroy->graph;

        if (dsw_graph_destroy(call->session, id))
                return dsw_call_fail(call, DS_CUDA_INVALID_HANDLE, "no graph %#llx", (unsigned long long)id);
        ledger.graph_removed = id;
        dsw_call_reply(call, NULL, &ledger, NULL, 0, 0);
        return DSW_ANSWERED;
}
