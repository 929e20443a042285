/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test bodies for features of Hopper and later GPUs: tensor maps and clusters
 *
 * They run on every device, also on one that has neither. Include device_common.h first.
 */
#pragma once

/* --- tensor maps -------------------------------------------------------------------------------------------------- */

/* Tensor maps are encoded at any time, also during other work; wrong arguments give INVALID_VALUE and do not change
 * the map. */
ds_unused static void dt_test_tensor_maps(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        struct ds_tensor_map good = {.kind = DS_TENSOR_MAP_TILED,
                .data_type = 6, /* data type of the map: halves */
                .rank = 3,
                .address = DT_DEVICE_VA,
                .given = DS_TENSOR_DIMS | DS_TENSOR_STRIDES | DS_TENSOR_BOX | DS_TENSOR_STEPS,
                .dims = {64, 32, 4},
                .strides = {128, 4096},
                .box = {32, 8, 2},
                .steps = {1, 1, 1}};
        struct ds_tensor_map bad[13];
        uint8_t map[DS_TENSOR_MAP_BYTES] = {0}, made[DS_TENSOR_MAP_BYTES] = {0};
        int has = ops->tensor_map(t->device, &good, made) == 0;

        cr_assert_eq(has, !ops->info(t->device)->simulated && ops->info(t->device)->attributes[127]);
        for (size_t i = 0; i < DS_ARRAY_SIZE(bad); i++)
                bad[i] = good;
        bad[0].rank = 0;
        bad[1].rank = DS_TENSOR_RANK_MAX + 1;
        bad[2].rank = UINT32_MAX;
        bad[3].given &= ~(uint32_t)DS_TENSOR_DIMS;
        bad[4].given = 0;
        bad[5].kind = (enum ds_tensor_map_kind)77;
        bad[6].address++;
        bad[7].dims[1] = 0;
        bad[8].given &= ~(uint32_t)DS_TENSOR_STRIDES;
        bad[9].given &= ~(uint32_t)DS_TENSOR_STEPS;
        bad[10].data_type = 77;
        bad[11].swizzle = UINT32_MAX;
        bad[12].fill = 1u << 31;
        for (size_t i = 0; has && i < DS_ARRAY_SIZE(bad); i++) {
                memset(map, 0x5a, sizeof(map));
                cr_assert_eq(ops->tensor_map(t->device, &bad[i], map), DS_CUDA_INVALID_VALUE, "%zu", i);
                for (size_t j = 0; j < sizeof(map); j++)
                        cr_assert_eq(map[j], 0x5a);
        }
        if (has) {
                good.address += 4096;
                cr_assert_eq(ops->tensor_map(t->device, &good, map), 0);
                cr_assert_neq(memcmp(map, made, sizeof(map)), 0);
                good.kind = DS_TENSOR_MAP_REPLACE;
                good.address -= 4096;
                cr_assert_eq(ops->tensor_map(t->device, &good, map), 0);
                cr_assert_eq(memcmp(map, made, sizeof(map)), 0);
        } else {
                cr_assert_eq(ops->tensor_map(t->device, &good, map), DS_CUDA_NOT_SUPPORTED);
        }
        dt_close(t);
}

/* --- clusters ----------------------------------------------------------------------------------------------------- */

#define DT_PTX_RANKS                                                                                              \
        ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry ranks(.param .u64 p)\n{\n.reg .b64 %a;\n" \
        ".reg .b32 %r;\nld.param.u64 %a, [p];\nmov.u32 %r, %cluster_ctarank;\nred.global.add.u32 [%a], %r;\nret;\n}\n"

/* The whole device runs clusters of every size; a part of it runs clusters that fit into a TPC. */
ds_unused static void dt_test_clusters(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        struct ds_tpc_mask part = dt_mask(0, DS_MIN(4u, ops->info(t->device)->n_tpcs));
        int knows = ops->info(t->device)->attributes[120];
        ds_device_module *module = dt_load(t, knows ? DT_PTX_RANKS : DT_PTX);
        uint64_t va = DT_HOST_VA;
        volatile uint32_t *sum = (volatile uint32_t *)DT_HOST_VA;
        uint32_t rung, n = 0, most;
        struct ds_launch l;

        cr_assert_eq(ops->rung_create(t->device, &part, &rung), 0);
        most = ops->rung_info(t->device, rung)->cluster_max;
        l = dt_launch_of(t, module, knows ? "ranks" : "null", 16, 1);
        l.cluster[1] = l.cluster[2] = 1;
        l.params = knows ? &va : NULL;
        l.params_size = knows ? 8 : 0;
        cr_assert_eq(ops->rung_info(t->device, t->rung)->cluster_max, knows ? 16 : 1);
        for (uint32_t size = 1; size <= 16; size *= 2) {
                l.cluster[0] = size;
                l.stream = t->stream;
                if (size > 1 && !knows) {
                        cr_assert_eq(ops->launch(t->device, &l, t->next_token), DS_CUDA_NOT_SUPPORTED);
                        continue;
                }
                *sum = 0;
                dt_ok(t, dt_launch(t, &l));
                cr_assert_eq(*sum, knows ? 8 * (size - 1) : 0, "clusters of %u: %u", size, *sum);
                cr_assert(!knows || (ops->clusters(t->device, &l, &n) == 0 && n > 0));
                l.stream = ds_device_stream(rung, 0, 0);
                if (size > most)
                        cr_assert_eq(ops->launch(t->device, &l, t->next_token), DS_CUDA_INVALID_CLUSTER_SIZE);
                else
                        dt_ok(t, dt_launch(t, &l));
        }
        dt_close(t);
}
