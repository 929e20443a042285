/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/rpc_table.h"

#include "supervisor/handlers.h"
#include "supervisor/profiles.h"
#include "util/macro.h"

#define CALL(name) DETSHARE__REQUEST__CALL_##name
#define OWN DS_RPC_WINDOW
#define WORKER (DS_RPC_WINDOW | DS_RPC_WORKER)
#define WORK (DS_RPC_WINDOW | DS_RPC_WORKER | DS_RPC_WORK)

/* clang-format off */
static const struct ds_rpc table[] = {
        /* call                   name              right             flags                fds  handler */
        {CALL(HELLO),             "hello",          DS_RIGHT_ANY,     DS_RPC_BEFORE_HELLO, 0, ds_handle_hello},
        {CALL(WINDOW_REFUSED),    "window_refused", DS_RIGHT_ANY,     OWN,                 0, ds_handle_window_refused},
        {CALL(ATTACH),            "attach",         DS_RIGHT_ANY,     OWN,                 0, ds_handle_attach},
        {CALL(SET_SESSION),       "set_session",    DS_RIGHT_HANDLER, 0,                   0, ds_handle_set_session},
        {CALL(PING),              "ping",           DS_RIGHT_ANY,     0,                   0, ds_handle_ping},
        {CALL(GET_STATUS),        "get_status",     DS_RIGHT_ANY,     0,                   0, ds_handle_get_status},
        {CALL(LIST_CLIENTS),      "list_clients",   DS_RIGHT_HANDLER, 0,                   0, ds_handle_list_clients},
        {CALL(LIST_POLICIES),     "list_policies",  DS_RIGHT_ANY,     0,                   0, ds_handle_list_policies},
        {CALL(SET_POLICY),        "set_policy",     DS_RIGHT_ADMIN,   0,                   0, ds_handle_set_policy},
        {CALL(KILL),              "kill",           DS_RIGHT_ANY,     0,                   0, ds_handle_kill},
        {CALL(GET_DEVICE),        "get_device",     DS_RIGHT_ANY,     0,                   0, ds_handle_get_device},
        {CALL(OUTPUT_READ),       "output_read",    DS_RIGHT_ANY,     OWN,                 0, ds_handle_output_read},
        {CALL(MEM_ALLOC),         "mem_alloc",      DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(MEM_FREE),          "mem_free",       DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(MEM_INFO),          "mem_info",       DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(PINNED_ALLOC),      "pinned_alloc",   DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(PINNED_FREE),       "pinned_free",    DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(ADDRESS_RESERVE),   "address_reserve", DS_RIGHT_ANY,    OWN,                 0, ds_handle_address_reserve},
        {CALL(ADDRESS_FREE),      "address_free",   DS_RIGHT_ANY,     OWN,                 0, ds_handle_address_free},
        {CALL(MEM_CREATE),        "mem_create",     DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(MEM_RELEASE),       "mem_release",    DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(MEM_MAP),           "mem_map",        DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(MEM_UNMAP),         "mem_unmap",      DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(MEM_EXPORT),        "mem_export",     DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(MEM_IMPORT),        "mem_import",     DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(MODULE_LOAD),       "module_load",    DS_RIGHT_ANY,     WORKER | DS_RPC_FILE, 1, NULL},
        {CALL(MODULE_LINK),       "module_link",    DS_RIGHT_ANY,     WORKER,              1, NULL},
        {CALL(MODULE_UNLOAD),     "module_unload",  DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(GET_KERNEL),        "get_kernel",     DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(GET_GLOBAL),        "get_global",     DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(LIST_KERNELS),      "list_kernels",   DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(STREAM_CREATE),     "stream_create",  DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(STREAM_DESTROY),    "stream_destroy", DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(EVENT_CREATE),      "event_create",   DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(EVENT_DESTROY),     "event_destroy",  DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(EVENT_ELAPSED),     "event_elapsed",  DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(LAUNCH),            "launch",         DS_RIGHT_ANY,     WORK,                0, NULL},
        {CALL(COPY),              "copy",           DS_RIGHT_ANY,     WORK,                0, NULL},
        {CALL(WRITE),             "write",          DS_RIGHT_ANY,     WORK,                0, NULL},
        {CALL(READ),              "read",           DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(MEMSET),            "memset",         DS_RIGHT_ANY,     WORK,                0, NULL},
        {CALL(EVENT_RECORD),      "event_record",   DS_RIGHT_ANY,     WORK,                0, NULL},
        {CALL(STREAM_WAIT),       "stream_wait",    DS_RIGHT_ANY,     WORK,                0, NULL},
        {CALL(HOST_CALL),         "host_call",      DS_RIGHT_ANY,     WORK,                0, NULL},
        {CALL(HOST_NEXT),         "host_next",      DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(VALUE),             "value",          DS_RIGHT_ANY,     WORK,                0, NULL},
        {CALL(SHARED_EVENT),      "shared_event",   DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(SYNC),              "sync",           DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(QUERY),             "query",          DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(CLOCK_JOIN),        "clock_join",     DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(CLOCK_LEAVE),       "clock_leave",    DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(SLEEP_UNTIL),       "sleep_until",    DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(GET_STATS),         "get_stats",      DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(RESET_SESSION),     "reset_session",  DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(SET_LIMIT),         "set_limit",      DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(COUNT_CLUSTERS),    "count_clusters", DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(GRAPH_CREATE),      "graph_create",   DS_RIGHT_ANY,     WORKER,              1, NULL},
        {CALL(GRAPH_UPDATE),      "graph_update",   DS_RIGHT_ANY,     WORKER,              1, NULL},
        {CALL(GRAPH_DESTROY),     "graph_destroy",  DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(GET_CHANNELS),      "get_channels",   DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(BORROW_SLAB),       "borrow_slab",    DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(RETURN_SLAB),       "return_slab",    DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(ENCODE_TENSOR_MAP), "encode_tensor_map", DS_RIGHT_ANY,  WORKER,              0, NULL},
        {CALL(LIST_ACTIVITY),     "list_activity",  DS_RIGHT_HANDLER, 0,                   0, ds_handle_list_activity},
        {CALL(EXPLAIN),           "explain",        DS_RIGHT_HANDLER, 0,                   0, ds_handle_explain},
        {CALL(LIST_FORMS),        "list_forms",     DS_RIGHT_HANDLER, 0,                   0, ds_handle_list_forms},
        {CALL(TRACE_START),       "trace_start",    DS_RIGHT_ADMIN,   0,                   0, ds_handle_trace_start},
        {CALL(TRACE_STOP),        "trace_stop",     DS_RIGHT_ADMIN,   0,                   0, ds_handle_trace_stop},
        {CALL(HINT_PHASE),        "hint_phase",     DS_RIGHT_ANY,     WORKER,              0, NULL},
        {CALL(GRAPH_LAUNCH),      "graph_launch",   DS_RIGHT_ANY,     WORK,                0, NULL},
        {CALL(LIST_PROFILES),     "list_profiles",  DS_RIGHT_ADMIN,   0,                   0, ds_handle_list_profiles},
        {CALL(FORGET_PROFILES),   "forget_profiles", DS_RIGHT_ADMIN,  0,                   0, ds_handle_forget_profiles},
        {CALL(PUT_PROFILES),      "put_profiles",   DS_RIGHT_ADMIN,   0,                   0, ds_handle_put_profiles},
        {CALL(PROFILE_RUN),       "profile_run",    DS_RIGHT_ADMIN,   0,                   0, ds_handle_profile_run},
        {CALL(PUT_CALIBRATION),   "put_calibration", DS_RIGHT_ADMIN,  0,                   0, ds_handle_put_calibration},
        {CALL(GET_CALIBRATION),   "get_calibration", DS_RIGHT_ANY,    0,                   0, ds_handle_get_calibration},
        {CALL(FORGET_CALIBRATION), "forget_calibration", DS_RIGHT_ADMIN, 0,                0, ds_handle_forget_calibration},
};
/* clang-format on */

const struct ds_rpc *ds_rpc_find(Detshare__Request__CallCase call)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(table); i++)
                if (table[i].call == call)
                        return &table[i];
        return NULL;
}

const struct ds_rpc *ds_rpc_at(size_t index)
{
        return index < DS_ARRAY_SIZE(table) ? &table[index] : NULL;
}
