/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps in the worker: a client's values, and the resulting calls of the device
 *
 * The simulated device has one replaced call, which records its arguments and returns known bytes.
 */
#include "device/sim/sim.h"
#include "tests/unit/worker_harness.h"

static struct ds_device_ops wrap;
static struct ds_tensor_map asked;
static int calls, answer_of_device;

static int wrap_tensor_map(ds_device *device, const struct ds_tensor_map *ask, uint8_t map[DS_TENSOR_MAP_BYTES])
{
        calls++;
        asked = *ask;
        if (!answer_of_device)
                map[0]++;
        return answer_of_device;
}

static struct wt *wrap_open(int own)
{
        wrap = ds_sim_ops;
        if (own)
                wrap.tensor_map = wrap_tensor_map;
        calls = answer_of_device = 0;
        wt_ops = &wrap;
        return wt_open("h200+quiesce");
}

Test(worker_tensor, the_device_gets_five_of_each_at_most, .timeout = 60)
{
        struct wt *t = wrap_open(1);
        struct wt_client a = wt_client(t, 1, DETSHARE__CLASS__BE);
        uint64_t sizes[7] = {1, 2, 3, 4, 5, 6, 7};
        int32_t corners[7] = {-1, -2, -3};
        uint8_t old[DS_TENSOR_MAP_BYTES] = {41, 5};
        WT_REQUEST(ask, ENCODE_TENSOR_MAP, encode_tensor_map, EncodeTensorMap, ENCODE_TENSOR_MAP, .kind = 1, .rank = 5,
                .address = UINT64_MAX, .given = DS_TENSOR_DIMS | DS_TENSOR_LOWER, .dims = sizes, .n_dims = 7,
                .lower = corners, .n_lower = 2, .pixels = 9, .map = {sizeof(old), old});
        wt_answer *answer = wt_call(t, &a, &ask);

        cr_assert_eq(answer->status, 0);
        cr_assert_eq(answer->reply->encode_tensor_map->map.len, DS_TENSOR_MAP_BYTES);
        cr_assert_eq(answer->reply->encode_tensor_map->map.data[0], 1, "only one of the kinds starts from an old map");
        wt_free(answer);
        cr_assert(asked.kind == DS_TENSOR_MAP_IM2COL && asked.rank == 5 && asked.address == UINT64_MAX);
        cr_assert(asked.given == (DS_TENSOR_DIMS | DS_TENSOR_LOWER) && asked.pixels == 9 && asked.upper[0] == 0);
        cr_assert(asked.dims[4] == 5 && asked.strides[0] == 0, "nothing behind the array is written");
        cr_assert(asked.lower[1] == -2 && asked.lower[2] == 0);
        ask_body.kind = 3;
        answer = wt_call(t, &a, &ask);
        cr_assert_eq(answer->status, 0);
        cr_assert(answer->reply->encode_tensor_map->map.data[0] == 42 &&
                  answer->reply->encode_tensor_map->map.data[1] == 5);
        wt_free(answer);
        answer_of_device = DS_CUDA_INVALID_VALUE;
        cr_assert_eq(wt_call_status(t, &a, &ask), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(calls, 3);
        cr_assert_eq(wt_worker_stats(t).quiesces, 0, "it stops nothing");
        wt_client_close(t, &a);
        wt_close(t);
}

Test(worker_tensor, invalid_tensor_maps_do_not_reach_the_device, .timeout = 60)
{
        struct wt *t = wrap_open(1);
        struct wt_client a = wt_client(t, 1, DETSHARE__CLASS__BE);
        uint8_t old[DS_TENSOR_MAP_BYTES + 1] = {0};
        WT_REQUEST(ask, ENCODE_TENSOR_MAP, encode_tensor_map, EncodeTensorMap, ENCODE_TENSOR_MAP, .rank = 2);

        for (int kind = 4; kind > -3; kind -= 5) {
                ask_body.kind = (Detshare__TensorMapKind)kind;
                cr_assert_eq(wt_call_status(t, &a, &ask), DS_CUDA_INVALID_VALUE);
        }
        ask_body.kind = 0;
        ask_body.rank = 6;
        cr_assert_eq(wt_call_status(t, &a, &ask), DS_CUDA_INVALID_VALUE);
        ask_body.rank = UINT32_MAX;
        cr_assert_eq(wt_call_status(t, &a, &ask), DS_CUDA_INVALID_VALUE);
        ask_body.kind = 3;
        ask_body.rank = 0;
        for (size_t size = 0; size <= sizeof(old); size += size ? 2 : sizeof(old) - 2) {
                ask_body.map = (ProtobufCBinaryData){size, size ? old : NULL};
                cr_assert_eq(wt_call_status(t, &a, &ask), DS_CUDA_INVALID_VALUE, "%zu bytes", size);
        }
        cr_assert_eq(calls, 0);
        wt_client_close(t, &a);
        wt_close(t);
}

Test(worker_tensor, a_simulated_device_has_none, .timeout = 60)
{
        struct wt *t = wrap_open(0);
        struct wt_client a = wt_client(t, 1, DETSHARE__CLASS__BE);
        WT_REQUEST(ask, ENCODE_TENSOR_MAP, encode_tensor_map, EncodeTensorMap, ENCODE_TENSOR_MAP, .rank = 2);

        cr_assert_eq(wt_call_status(t, &a, &ask), DS_CUDA_NOT_SUPPORTED);
        wt_client_close(t, &a);
        wt_close(t);
}
