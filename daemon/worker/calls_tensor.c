/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps
 *
 * The device's driver checks the arguments. This file only ensures that the call is possible: an existing kind, a rank
 * that fits the arrays, and an old map of the right size.
 */
#include <string.h>

#include "worker/internal.h"

/* Copies an array of the request, truncated to the length of the destination; elements that the request lacks stay
 * 0. */
#define TAKE(to, ask, array)                                                                                    \
        do {                                                                                                    \
                if ((ask)->n_##array)                                                                           \
                        memcpy((to)->array, (ask)->array,                                                       \
                                DS_MIN((ask)->n_##array, DS_ARRAY_SIZE((to)->array)) * sizeof((to)->array[0])); \
        } while (0)

static void tensor_take(const Detshare__EncodeTensorMap *ask, struct ds_tensor_map *ret)
{
        *ret = (struct ds_tensor_map){.kind = (enum ds_tensor_map_kind)ask->kind,
                .data_type = ask->data_type,
                .rank = ask->rank,
                .address = ask->address,
                .given = ask->given,
                .channels = ask->channels,
                .pixels = ask->pixels,
                .interleave = ask->interleave,
                .mode = ask->mode,
                .swizzle = ask->swizzle,
                .promotion = ask->promotion,
                .fill = ask->fill};
        TAKE(ret, ask, dims);
        TAKE(ret, ask, strides);
        TAKE(ret, ask, box);
        TAKE(ret, ask, steps);
        TAKE(ret, ask, lower);
        TAKE(ret, ask, upper);
}

enum dsw_outcome dsw_calls_encode_tensor_map(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__EncodeTensorMap *ask = request->encode_tensor_map;
        const ds_worker *worker = call->session->worker;
        Detshare__TensorMapReply result = DETSHARE__TENSOR_MAP_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        uint8_t map[DS_TENSOR_MAP_BYTES] = {0};
        struct ds_tensor_map arguments;
        int r;

        if ((int)ask->kind < 0 || (int)ask->kind >= _DS_TENSOR_MAP_KIND_MAX || ask->rank > DS_TENSOR_RANK_MAX)
                return dsw_call_fail(call, DS_CUDA_INVALID_VALUE, "no such tensor map");
        if (ask->kind == DETSHARE__TENSOR_MAP_KIND__TENSOR_MAP_REPLACE) {
                if (ask->map.len != sizeof(map))
                        return dsw_call_fail(call, DS_CUDA_INVALID_VALUE, "a tensor map has %zu bytes", sizeof(map));
                memcpy(map, ask->map.data, sizeof(map));
        }
        tensor_take(ask, &arguments);
        r = worker->ops->tensor_map(worker->device, &arguments, map);
        if (r)
                return dsw_call_fail(call, r > 0 ? r : DS_CUDA_UNKNOWN, "tensor map not made");
        result.map.data = map;
        result.map.len = sizeof(map);
        reply.result_case = DETSHARE__REPLY__RESULT_ENCODE_TENSOR_MAP;
        reply.encode_tensor_map = &result;
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
        return DSW_ANSWERED;
}
