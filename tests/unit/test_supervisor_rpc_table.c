/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of requests equals the schema: every call of the schema has exactly one row with its name, no message
 * contains itself, every repeated field has a limit, and every limit belongs to a field.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "detshare.pb-c.h"
#include "internal.pb-c.h"
#include "proto/wire.h"
#include "supervisor/rpc_table.h"
#include "supervisor/unpack.h"

#define DEPTH_MAX 8
#define MESSAGES_MAX 200

static const ProtobufCMessageDescriptor *roots[] = {
        &detshare__request__descriptor,
        &detshare__reply__descriptor,
        &detshare__internal__to_worker__descriptor,
        &detshare__internal__from_worker__descriptor,
        &detshare__internal__to_helper__descriptor,
        &detshare__internal__from_helper__descriptor,
        &detshare__internal__saved_record__descriptor,
};

static int is_call(const ProtobufCFieldDescriptor *field)
{
        return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

Test(rpc_table, every_call_has_one_row)
{
        const ProtobufCMessageDescriptor *request = &detshare__request__descriptor;

        for (unsigned i = 0; i < request->n_fields; i++) {
                const ProtobufCFieldDescriptor *field = &request->fields[i];
                const struct ds_rpc *row;
                int rows = 0;

                if (!is_call(field))
                        continue;
                row = ds_rpc_find((Detshare__Request__CallCase)field->id);
                cr_assert_not_null(row, "no row for %s", field->name);
                cr_assert_str_eq(row->name, field->name);
                for (size_t j = 0; ds_rpc_at(j); j++)
                        rows += ds_rpc_at(j)->call == row->call;
                cr_assert_eq(rows, 1, "%d rows for %s", rows, field->name);
        }
}

Test(rpc_table, every_row_is_a_call)
{
        for (size_t i = 0; ds_rpc_at(i); i++) {
                const struct ds_rpc *row = ds_rpc_at(i);
                const ProtobufCFieldDescriptor *field =
                        protobuf_c_message_descriptor_get_field(&detshare__request__descriptor, row->call);

                cr_assert_not_null(field, "row %s", row->name);
                cr_assert(is_call(field));
                /* each call has one server: the supervisor's handler, or the worker for a session with a window */
                cr_assert_eq(!row->handler, !!(row->flags & DS_RPC_WORKER), "row %s", row->name);
                if (row->flags & DS_RPC_WORKER)
                        cr_assert(row->flags & DS_RPC_WINDOW, "row %s", row->name);
                if (row->flags & DS_RPC_WORK)
                        cr_assert(row->flags & DS_RPC_WORKER, "row %s", row->name);
                cr_assert_leq(row->fds, DS_FRAME_FDS_MAX);
                /* the supervisor answers calls up to 39, and 110 to 139 except one */
                cr_assert_eq((int)row->call < 40 || ((int)row->call >= 110 && (int)row->call < 140 &&
                                                            row->call != DETSHARE__REQUEST__CALL_HINT_PHASE),
                        !(row->flags & DS_RPC_WORKER), "row %s", row->name);
        }
        cr_assert_null(ds_rpc_find(DETSHARE__REQUEST__CALL__NOT_SET));
        cr_assert_null(ds_rpc_find((Detshare__Request__CallCase)4711));
}

Test(rpc_table, only_hello_comes_before_hello)
{
        for (size_t i = 0; ds_rpc_at(i); i++)
                cr_assert_eq(!!(ds_rpc_at(i)->flags & DS_RPC_BEFORE_HELLO),
                        ds_rpc_at(i)->call == DETSHARE__REQUEST__CALL_HELLO, "row %s", ds_rpc_at(i)->name);
        cr_assert_eq(ds_rpc_find(DETSHARE__REQUEST__CALL_SET_POLICY)->right, DS_RIGHT_ADMIN);
        cr_assert_eq(ds_rpc_find(DETSHARE__REQUEST__CALL_KILL)->right, DS_RIGHT_ANY, "the handler looks whose it is");
}

/* path: the messages from the root to this one. */
static void walk(const ProtobufCMessageDescriptor *message, const ProtobufCMessageDescriptor **path, int depth)
{
        cr_assert_lt(depth, DEPTH_MAX);
        for (int i = 0; i < depth; i++)
                cr_assert_neq(path[i], message, "%s contains itself", message->name);
        path[depth] = message;
        for (unsigned i = 0; i < message->n_fields; i++) {
                const ProtobufCFieldDescriptor *field = &message->fields[i];

                if (field->label == PROTOBUF_C_LABEL_REPEATED) {
                        const struct ds_field_limit *limit = ds_field_limit_find(message->name, field->name);

                        cr_assert_not_null(limit, "%s.%s has no limit", message->name, field->name);
                        cr_assert_gt(limit->max, 0);
                        cr_assert_leq(limit->max, 4096);
                }
                if (field->type == PROTOBUF_C_TYPE_MESSAGE)
                        walk(field->descriptor, path, depth + 1);
        }
}

Test(rpc_table, no_recursion_and_every_repeated_field_limited)
{
        const ProtobufCMessageDescriptor *path[DEPTH_MAX];

        for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
                walk(roots[i], path, 0);
}

/* A full reply of each of the longest lists fits into a frame. */
Test(rpc_table, full_lists_fit_into_a_frame)
{
        Detshare__KernelReply kernel = DETSHARE__KERNEL_REPLY__INIT;
        static Detshare__KernelParam params[4096], *pointers[4096];
        static uint8_t described[DS_DESCRIBED_MAX];
        static char name[4097];
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        for (uint32_t i = 0; i < 4096; i++) {
                detshare__kernel_param__init(&params[i]);
                params[i].offset = 8 * i;
                params[i].size = 8;
                pointers[i] = &params[i];
        }
        kernel.n_params = 4096;
        kernel.params = pointers;
        reply.id = UINT64_MAX;
        reply.result_case = DETSHARE__REPLY__RESULT_GET_KERNEL;
        reply.get_kernel = &kernel;
        cr_assert_leq(detshare__reply__get_packed_size(&reply), DS_FRAME_MAX);
        /* the largest kernel with which the worker describes others (daemon/worker/calls_module.c) */
        memset(name, 'k', sizeof(name) - 1);
        kernel.n_params = 1024;
        kernel.name = name;
        reply.described.data = described;
        reply.described.len = sizeof(described);
        cr_assert_leq(detshare__reply__get_packed_size(&reply), DS_FRAME_MAX);
}
