/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the requests that the worker answers
 *
 * Column `blocks`: while a declared thread waits for the answer, it counts as waiting on the device clock. Column
 * `healthy`: in a session with a sticky error the request fails with that error, as the CUDA call behind it would.
 */
#include "worker/internal.h"

/* clang-format off */
#define ROW(NAME, fn, blocks, healthy) {DETSHARE__REQUEST__CALL_##NAME, #fn, dsw_calls_##fn, blocks, healthy}

static const struct dsw_call_row calls_rows[] = {
        /*  call            handler         blocks healthy */
        ROW(MEM_ALLOC,      mem_alloc,      0, 1),
        ROW(MEM_FREE,       mem_free,       1, 0),
        ROW(MEM_INFO,       mem_info,       0, 0),
        ROW(PINNED_ALLOC,   pinned_alloc,   0, 1),
        ROW(PINNED_FREE,    pinned_free,    1, 0),
        ROW(MEM_CREATE,     mem_create,     0, 1),
        ROW(MEM_RELEASE,    mem_release,    0, 0),
        ROW(MEM_MAP,        mem_map,        0, 1),
        ROW(MEM_UNMAP,      mem_unmap,      1, 0),
        ROW(MEM_EXPORT,     mem_export,     0, 1),
        ROW(MEM_IMPORT,     mem_import,     0, 1),
        ROW(MODULE_LOAD,    module_load,    0, 1),
        ROW(MODULE_UNLOAD,  module_unload,  1, 0),
        ROW(GET_KERNEL,     get_kernel,     0, 0),
        ROW(GET_GLOBAL,     get_global,     0, 0),
        ROW(LIST_KERNELS,   list_kernels,   0, 0),
        ROW(STREAM_CREATE,  stream_create,  0, 0),
        ROW(STREAM_DESTROY, stream_destroy, 1, 0),
        ROW(EVENT_CREATE,   event_create,   0, 0),
        ROW(EVENT_DESTROY,  event_destroy,  0, 0),
        ROW(EVENT_ELAPSED,  event_elapsed,  1, 0),
        ROW(LAUNCH,         launch,         0, 1),
        ROW(COPY,           copy,           0, 1),
        ROW(WRITE,          write,          0, 1),
        ROW(READ,           read,           1, 1),
        ROW(MEMSET,         memset,         0, 1),
        ROW(EVENT_RECORD,   event_record,   0, 1),
        ROW(STREAM_WAIT,    stream_wait,    0, 1),
        ROW(HOST_CALL,      host_call,      0, 1),
        ROW(HOST_NEXT,      host_next,      0, 0),
        ROW(VALUE,          value,          0, 1),
        ROW(SHARED_EVENT,   shared_event,   0, 0),
        ROW(SYNC,           sync,           1, 0),
        ROW(QUERY,          query,          0, 0),
        ROW(CLOCK_JOIN,     clock_join,     0, 0),
        ROW(CLOCK_LEAVE,    clock_leave,    0, 0),
        ROW(SLEEP_UNTIL,    sleep_until,    1, 0),
        ROW(HINT_PHASE,     hint_phase,     0, 0),
        ROW(GET_STATS,      get_stats,      0, 0),
        ROW(RESET_SESSION,  reset_session,  1, 0),
        ROW(SET_LIMIT,      set_limit,      0, 1),
        ROW(COUNT_CLUSTERS, count_clusters, 0, 0),
        ROW(GRAPH_CREATE,   graph_create,   0, 1),
        ROW(GRAPH_UPDATE,   graph_update,   0, 1),
        ROW(GRAPH_DESTROY,  graph_destroy,  0, 0),
        ROW(GRAPH_LAUNCH,   graph_launch,   0, 1),
        ROW(GET_CHANNELS,   get_channels,   0, 0),
        ROW(BORROW_SLAB,    borrow_slab,    1, 1),
        ROW(RETURN_SLAB,    return_slab,    1, 0),
        ROW(ENCODE_TENSOR_MAP, encode_tensor_map, 0, 0),
};
/* clang-format on */

const struct dsw_call_row *dsw_calls_find(Detshare__Request__CallCase call)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(calls_rows); i++) {
                if (calls_rows[i].call == call)
                        return &calls_rows[i];
        }
        return NULL;
}
