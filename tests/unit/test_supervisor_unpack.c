/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacking requests: random and mutated bytes never crash or exceed the budget, amplifying frames are refused, and
 * every repeated field's limit is exact.
 */
#include <criterion/criterion.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "detshare.pb-c.h"
#include "internal.pb-c.h"
#include "proto/wire.h"
#include "supervisor/unpack.h"
#include "util/alloc.h"
#include "util/macro.h"

static int unpack_request(const uint8_t *bytes, size_t size, size_t budget, ProtobufCMessage **ret)
{
        return ds_unpack(&detshare__request__descriptor, bytes, size, budget, ret);
}

static size_t pack_set_policy(uint8_t *out, size_t n_params)
{
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__SetPolicy set = DETSHARE__SET_POLICY__INIT;
        char *params[100];

        for (size_t i = 0; i < n_params; i++)
                params[i] = (char *)"a=1";
        set.name = (char *)"x";
        set.n_params = n_params;
        set.params = params;
        request.call_case = DETSHARE__REQUEST__CALL_SET_POLICY;
        request.set_policy = &set;
        return detshare__request__pack(&request, out);
}

Test(unpack, repeated_limit_is_exact)
{
        ProtobufCMessage *message = NULL;
        uint8_t bytes[2000];

        cr_assert_eq(
                unpack_request(bytes, pack_set_policy(bytes, DS_POLICY_PARAMS_MAX), DS_UNPACK_BUDGET, &message), 0);
        cr_assert_eq(((Detshare__Request *)message)->set_policy->n_params, DS_POLICY_PARAMS_MAX);
        message = ds_unpack_free(message);
        cr_assert_eq(
                unpack_request(bytes, pack_set_policy(bytes, DS_POLICY_PARAMS_MAX + 1), DS_UNPACK_BUDGET, &message),
                DS_UNPACK_E_LIMIT);
        cr_assert_null(message);
}

/* Unknown fields of a request must not reach the worker, which could not parse them and would end. */
Test(unpack, unknown_fields_go_no_further)
{
        /* id 1; a two-byte tag of field 0 (refused in one byte) with two bytes; Sync with field 99 */
        static const uint8_t bytes[] = {8, 1, 0x82, 0, 2, 8, 2, 0xf2, 3, 3, 0x98, 6, 1};
        ProtobufCMessage *message = NULL, *again = NULL;
        uint8_t packed[64];
        size_t size;

        cr_assert_eq(unpack_request(bytes, sizeof(bytes), DS_UNPACK_BUDGET, &message), 0);
        cr_assert_eq(((Detshare__Request *)message)->call_case, DETSHARE__REQUEST__CALL_SYNC);
        size = protobuf_c_message_pack(message, packed);
        cr_assert_eq(size, 5, "%zu bytes", size); /* 5 bytes: the id and an empty Sync */
        cr_assert_eq(unpack_request(packed, size, DS_UNPACK_BUDGET, &again), 0);
        ds_unpack_free(message);
        ds_unpack_free(again);
}

Test(unpack, nested_repeated_limit)
{
        Detshare__Internal__FromWorker from = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__Ready ready = DETSHARE__INTERNAL__READY__INIT;
        static int32_t attributes[300];
        static uint8_t bytes[8000];
        ProtobufCMessage *message = NULL;
        size_t size;

        from.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_READY;
        from.ready = &ready;
        ready.attributes = attributes;
        ready.n_attributes = 257;
        size = detshare__internal__from_worker__pack(&from, bytes);
        cr_assert_eq(ds_unpack(&detshare__internal__from_worker__descriptor, bytes, size, DS_UNPACK_BUDGET, &message),
                DS_UNPACK_E_LIMIT);
        ready.n_attributes = 256;
        size = detshare__internal__from_worker__pack(&from, bytes);
        cr_assert_eq(
                ds_unpack(&detshare__internal__from_worker__descriptor, bytes, size, DS_UNPACK_BUDGET, &message), 0);
        ds_unpack_free(message);
}

/* Frames of 64 KiB that would become megabytes of memory: thousands of empty strings or unknown fields. */
Test(unpack, amplification_meets_the_budget)
{
        static uint8_t bytes[65536];
        ProtobufCMessage *message = NULL;
        size_t body = 65536 - 4, n = 0;
        struct mallinfo2 before = mallinfo2();

        /* set_policy (field 18) with empty params (field 2) */
        bytes[n++] = ((18 << 3 | 2) & 0x7f) | 0x80;
        bytes[n++] = 1;
        bytes[n++] = (body & 0x7f) | 0x80;
        bytes[n++] = (body >> 7 & 0x7f) | 0x80;
        bytes[n++] = (uint8_t)(body >> 14);
        while (n + 2 <= sizeof(bytes)) {
                bytes[n++] = 2 << 3 | 2;
                bytes[n++] = 0;
        }
        bytes[2] = ((n - 5) & 0x7f) | 0x80;
        bytes[3] = ((n - 5) >> 7 & 0x7f) | 0x80;
        bytes[4] = (uint8_t)((n - 5) >> 14);
        cr_assert_eq(unpack_request(bytes, n, DS_KIB(256), &message), DS_UNPACK_E_BUDGET);
        cr_assert_neq(unpack_request(bytes, n, DS_UNPACK_BUDGET, &message), 0);
        /* unknown fields of 3 bytes each, which the library keeps one by one */
        for (n = 0; n + 3 <= sizeof(bytes);) {
                bytes[n++] = (uint8_t)((200 << 3) & 0x7f) | 0x80;
                bytes[n++] = (200 << 3) >> 7;
                bytes[n++] = 1;
        }
        cr_assert_eq(unpack_request(bytes, n, DS_KIB(256), &message), DS_UNPACK_E_BUDGET);
        cr_assert_null(message);
        cr_assert_leq(mallinfo2().uordblks, before.uordblks + 4096, "refused messages leave nothing behind");
}

Test(unpack, random_and_mutated_bytes)
{
        unsigned state = 20260202;
        uint8_t bytes[512], good[512];
        size_t good_size = pack_set_policy(good, 20);
        int accepted = 0;

        for (int i = 0; i < 200000; i++) {
                ProtobufCMessage *message = NULL;
                size_t size = good_size;

                if (i % 2) {
                        size = (size_t)rand_r(&state) % sizeof(bytes);
                        for (size_t j = 0; j < size; j++)
                                bytes[j] = (uint8_t)rand_r(&state);
                } else {
                        memcpy(bytes, good, size);
                        for (int j = rand_r(&state) % 4; j >= 0; j--)
                                bytes[(size_t)rand_r(&state) % size] ^= (uint8_t)(1 << rand_r(&state) % 8);
                }
                if (unpack_request(bytes, size, DS_KIB(64), &message) == 0) {
                        accepted++;
                        ds_unpack_free(message);
                } else {
                        cr_assert_null(message);
                }
        }
        cr_assert_gt(accepted, 1000, "the mutations must reach the inner parts");
}

/* A small message has a block of memory of its own; when that is full, each piece of the message may lack memory. */
Test(unpack, out_of_memory)
{
        ProtobufCMessage *message = NULL, *alive[400];
        uint8_t bytes[2000];
        size_t size = pack_set_policy(bytes, 10);
        int n;

        for (size_t i = 0; i < DS_ARRAY_SIZE(alive); i++)
                cr_assert_eq(unpack_request(bytes, size, DS_UNPACK_BUDGET, &alive[i]), 0);
        for (n = 0; n < 100; n++) {
                int r;

                ds_alloc_fail_after(n);
                r = unpack_request(bytes, size, DS_UNPACK_BUDGET, &message);
                ds_alloc_fail_after(-1);
                if (r == 0)
                        break;
                cr_assert_null(message);
        }
        cr_assert_gt(n, 5);
        ds_unpack_free(message);
        for (size_t i = 0; i < DS_ARRAY_SIZE(alive); i++)
                ds_unpack_free(alive[i]);
}
