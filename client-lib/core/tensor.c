/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps
 *
 * The arguments travel and the bytes come back; the library keeps nothing. NULL arrays and empty arrays are
 * distinguished, because the driver answers them differently.
 */
#include <string.h>

#include "core/internal.h"

/* Copies n elements of an array, unless it is NULL, and sets its bit in `given`. */
#define GIVE(to, ask, array, bit, n)                                        \
        do {                                                                \
                if (!(ask)->array)                                          \
                        break;                                              \
                (to)->given |= 1u << (bit);                                 \
                (to)->array = (typeof((to)->array))(uintptr_t)(ask)->array; \
                (to)->n_##array = (n);                                      \
        } while (0)

static void give_arrays(const struct dsc_tensor_map *ask, Detshare__EncodeTensorMap *ret)
{
        const size_t rank = ask->rank <= DSC_TENSOR_RANK_MAX ? ask->rank : 0;
        const size_t corners = ask->kind == DSC_TENSOR_MAP_IM2COL_WIDE ? 1 : rank > 2 ? rank - 2 : 0;

        GIVE(ret, ask, dims, 0, rank);
        GIVE(ret, ask, strides, 1, rank ? rank - 1 : 0);
        GIVE(ret, ask, box, 2, rank);
        GIVE(ret, ask, steps, 3, rank);
        GIVE(ret, ask, lower, 4, corners);
        GIVE(ret, ask, upper, 5, corners);
}

int dsc_tensor_map(dsc_session *s, const struct dsc_tensor_map *ask, uint8_t map[DSC_TENSOR_MAP_BYTES])
{
        Detshare__EncodeTensorMap encode = DETSHARE__ENCODE_TENSOR_MAP__INIT;
        encode.kind = (Detshare__TensorMapKind)ask->kind;
        encode.data_type = ask->data_type;
        encode.rank = ask->rank;
        encode.address = ask->address;
        encode.channels = ask->channels;
        encode.pixels = ask->pixels;
        encode.interleave = ask->interleave;
        encode.mode = ask->mode;
        encode.swizzle = ask->swizzle;
        encode.promotion = ask->promotion;
        encode.fill = ask->fill;
        give_arrays(ask, &encode);
        if (ask->kind == DSC_TENSOR_MAP_REPLACE)
                encode.map = (ProtobufCBinaryData){DSC_TENSOR_MAP_BYTES, map};
        Detshare__Request request = DSC__REQUEST(ENCODE_TENSOR_MAP, encode_tensor_map, &encode);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_ENCODE_TENSOR_MAP, &answer);
        if (r)
                return r;
        const ProtobufCBinaryData *made = &answer.reply->encode_tensor_map->map;
        if (made->len == DSC_TENSOR_MAP_BYTES)
                memcpy(map, made->data, DSC_TENSOR_MAP_BYTES);
        else
                r = DSC__UNKNOWN;
        dsc__answer_clear(&answer);
        return r;
}
