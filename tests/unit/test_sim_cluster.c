/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters on the simulated device: how many fit, the places of their blocks, refusals
 */
#include "tests/gpu/device_common.h"
#include "tests/gpu/device_rungs.h"

#include "device/sim/sim.h"

#define SHARED_ONE (200 * 1024) /* shared memory of a block, bytes: an SM has room for one such block */

#define PTX                                                                                                  \
        ".version 9.0\n.target sm_90\n.address_size 64\n"                                                    \
        ".visible .entry ms()\n{\n ret;\n}\n"                                                                \
        "// detshare-sim: ms block_ns=1000000 bytes=0\n"                                                     \
        ".visible .entry pairs() .reqnctapercluster 2\n{\n ret;\n}\n"                                        \
        ".visible .entry few() .maxclusterrank 4\n{\n ret;\n}\n"                                             \
        ".visible .entry counted(.param .u64 p) .reqntid 32 .reqnctapercluster 2, 2 .blocksareclusters\n{\n" \
        ".reg .b64 %a;\n.reg .b32 %r<4>;\n.reg .pred %p;\nld.param.u64 %a, [p];\nmov.u32 %r0, %tid.x;\n"     \
        "setp.ne.u32 %p, %r0, 0;\n@%p bra E;\nred.global.add.u32 [%a], 1;\nmov.u32 %r1, %nctaid.x;\n"        \
        "mov.u32 %r2, %nctaid.y;\nmad.lo.u32 %r1, %r2, 100, %r1;\nst.global.u32 [%a+4], %r1;\nE: ret;\n}\n"

static struct ds_launch launch_of(
        struct dt *t, ds_device_module *module, const char *name, uint32_t grid, uint32_t cluster)
{
        struct ds_launch l = dt_launch_of(t, module, name, grid, 32);

        l.cluster[0] = cluster;
        l.cluster[1] = l.cluster[2] = cluster ? 1 : 0;
        return l;
}

/* The rows are cuOccupancyMaxActiveClusters on an H200, for 1, 2, 4 and 8 blocks of the kernel per SM. */
Test(sim_cluster, as_many_as_an_h200_holds)
{
        static const struct {
                uint32_t threads, shared, clusters[16];
        } rows[] = {
                {32, SHARED_ONE, {132, 66, 39, 30, 22, 17, 15, 15, 9, 7, 7, 7, 7, 7, 7, 7}},
                {1024, 0, {264, 132, 79, 62, 47, 39, 32, 30, 23, 21, 16, 16, 14, 14, 14, 14}},
                {32, 50000, {528, 264, 163, 124, 94, 79, 69, 62, 51, 44, 37, 37, 30, 30, 28, 28}},
                {256, 0, {1056, 528, 327, 248, 193, 163, 139, 124, 102, 88, 81, 74, 67, 65, 58, 58}},
        };
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        ds_device_module *module = dt_load(t, PTX);

        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++) {
                for (uint32_t size = 1; size <= 16; size++) {
                        struct ds_launch l = launch_of(t, module, "ms", size, size);
                        uint32_t n = 0;

                        l.block[0] = rows[i].threads;
                        l.shared_bytes = rows[i].shared;
                        cr_assert_eq(ds_sim_ops.clusters(t->device, &l, &n), 0);
                        cr_assert_eq(n, rows[i].clusters[size - 1], "row %zu, clusters of %u: %u", i, size, n);
                }
        }
        dt_close(t);
}

/* Clusters that fit at once take as long as one; one more takes twice as long. */
static uint64_t duration(struct dt *t, ds_device_module *module, uint32_t clusters, uint32_t size, uint32_t bound)
{
        struct ds_launch l = launch_of(t, module, "ms", clusters * size, size);
        const struct ds_completion *c;

        l.shared_bytes = SHARED_ONE;
        l.max_resident_blocks = bound;
        c = dt_wait(t, dt_launch(t, &l));
        cr_assert_eq(c->status, 0, "%s", c->message);
        return (c->end_ns - c->start_ns) / 1000000;
}

Test(sim_cluster, blocks_of_a_cluster_are_placed_together)
{
        static const uint32_t fit[][2] = {{16, 7}, {8, 15}, {4, 30}, {3, 39}, {2, 66}, {1, 132}};
        struct dt *t = dt_open(&ds_sim_ops, "h200+timing");
        ds_device_module *module = dt_load(t, PTX);

        for (size_t i = 0; i < DS_ARRAY_SIZE(fit); i++) {
                cr_assert_eq(duration(t, module, 1, fit[i][0], 0), 1);
                cr_assert_eq(duration(t, module, fit[i][1], fit[i][0], 0), 1, "clusters of %u", fit[i][0]);
                cr_assert_eq(duration(t, module, fit[i][1] + 1, fit[i][0], 0), 2, "clusters of %u", fit[i][0]);
                cr_assert_eq(duration(t, module, 3 * fit[i][1], fit[i][0], 0), 3, "clusters of %u", fit[i][0]);
        }
        /* a bound below a cluster's size allows one cluster at a time */
        cr_assert_eq(duration(t, module, 3, 8, 1), 3);
        cr_assert_eq(duration(t, module, 4, 8, 23), 2);
        dt_close(t);
}

/* A cluster waits until all its SMs are free, although they become free one after the other. */
Test(sim_cluster, room_comes_little_by_little)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200+timing");
        ds_device_module *module = dt_load(t, PTX);
        struct ds_launch one = launch_of(t, module, "ms", 1, 0), large = launch_of(t, module, "ms", 7 * 16, 16);

        one.shared_bytes = large.shared_bytes = SHARED_ONE;
        one.stream = ds_device_stream(t->rung, 1, 1);
        for (int i = 0; i < 5; i++)
                dt_launch(t, &one);
        one.grid[0] = 140;
        one.stream = ds_device_stream(t->rung, 1, 2);
        dt_launch(t, &one);
        dt_ok(t, dt_launch(t, &large));
        dt_wait_all(t);
        dt_close(t);
}

static int try_launch(struct dt *t, const struct ds_launch *l)
{
        int r = t->ops->launch(t->device, l, t->next_token);

        t->next_token += !r;
        return r;
}

Test(sim_cluster, refusals)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200+timing");
        ds_device_module *module = dt_load(t, PTX);
        struct ds_tpc_mask part = dt_mask(3, 16);
        struct ds_launch l;
        uint32_t rung;

        cr_assert_eq(ds_sim_ops.rung_create(t->device, &part, &rung), 0);
        cr_assert_eq(ds_sim_ops.rung_info(t->device, t->rung)->cluster_max, 16);
        cr_assert_eq(ds_sim_ops.rung_info(t->device, rung)->cluster_max, 2);
        l = launch_of(t, module, "ms", 16, 2);
        l.stream = ds_device_stream(rung, 0, 0);
        cr_assert_eq(try_launch(t, &l), 0);
        l.cluster[0] = 4;
        cr_assert_eq(try_launch(t, &l), DS_CUDA_INVALID_CLUSTER_SIZE, "groups of two SMs");
        l = launch_of(t, module, "few", 16, 4);
        cr_assert_eq(try_launch(t, &l), 0);
        l.cluster[0] = 8;
        cr_assert_eq(try_launch(t, &l), DS_CUDA_INVALID_CLUSTER_SIZE);
        l = launch_of(t, module, "pairs", 7, 0);
        cr_assert_eq(try_launch(t, &l), DS_CUDA_INVALID_CLUSTER_SIZE, "pairs of seven");
        l = launch_of(t, module, "ms", 18, 18);
        cr_assert_eq(try_launch(t, &l), DS_CUDA_INVALID_CLUSTER_SIZE);
        dt_wait_all(t);
        dt_close(t);
}

/* Groups as an H200's driver makes them, with clusters on them. */
Test(sim_cluster, groups)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        const struct ds_device_info *info = ds_sim_ops.info(t->device);
        uint32_t rung;

        cr_assert_eq(info->n_groups, 16);
        for (uint32_t i = 0; i < 16; i++)
                cr_assert_eq(info->group_sms[i], i < 15 ? 8 : 12);
        cr_assert_eq(info->n_gpcs, 8);
        cr_assert_eq(ds_sim_ops.rung_create_coarse(t->device, 1u << 15, &rung), 0);
        cr_assert_eq(ds_sim_ops.rung_info(t->device, rung)->cluster_max, 2, "what is left over is of no GPC");
        cr_assert_eq(ds_sim_ops.rung_create_coarse(t->device, 1u << 1 | 1u << 8, &rung), 0);
        cr_assert_eq(ds_sim_ops.rung_info(t->device, rung)->cluster_max, 16, "two of one GPC");
        cr_assert_eq(ds_sim_ops.rung_create_coarse(t->device, 1u << 1 | 1u << 9, &rung), 0);
        cr_assert_eq(ds_sim_ops.rung_info(t->device, rung)->cluster_max, 8, "of two GPCs");
        dt_close(t);
        dt_test_groups(&ds_sim_ops, "h200");
}

/* The ladder of every model: sizes, pairs, families, sides, and which rung lies inside which. */
Test(sim_cluster, ladders)
{
        static const char *const specs[] = {"h200", "a2000", "p40", "gtx1080"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(specs); i++)
                dt_test_ladder(&ds_sim_ops, specs[i]);
}

Test(sim_cluster, bound)
{
        dt_test_bound(&ds_sim_ops, "h200");
}

/* With order `spread` the smallest rung has one TPC per GPC; with `gpc` its TPCs share a GPC, and both sides share
 * one. */
Test(sim_cluster, the_order_of_the_ladder)
{
        for (uint32_t by_gpc = 0; by_gpc < 2; by_gpc++) {
                struct dt *t = dt_open(&ds_sim_ops, "h200");
                const struct ds_device_info *info = ds_sim_ops.info(t->device);
                struct ds_ladder_options options = {.by_gpc = by_gpc};
                struct ds_ladder ladder;

                cr_assert_eq(ds_ladder_build(&ladder, &ds_sim_ops, t->device, &options), 0);
                for (uint32_t i = 1; i < ladder.n - ladder.n_coarse; i += 2) {
                        uint64_t gpcs[2] = {0, 0};

                        for (uint32_t tpc = 0; tpc < info->n_tpcs; tpc++)
                                for (int side = 0; side < 2; side++)
                                        if (ladder.views[i + (uint32_t)side].tpcs[tpc / 64] >> tpc % 64 & 1)
                                                gpcs[side] |= UINT64_C(1) << info->gpc_of_tpc[tpc] % 64;
                        if (by_gpc)
                                cr_assert_leq(__builtin_popcountll(gpcs[0] & gpcs[1]), 1, "rungs %u", i);
                        else if (ladder.views[i].n_tpcs <= 8)
                                cr_assert_eq(__builtin_popcountll(gpcs[0]), (int)ladder.views[i].n_tpcs);
                }
                dt_close(t);
        }
}

Test(sim_cluster, an_older_device_knows_none)
{
        struct dt *t = dt_open(&ds_sim_ops, "a2000+timing");
        ds_device_module *module = dt_load(t, PTX);
        struct ds_launch l = launch_of(t, module, "ms", 2, 1);
        uint32_t n;

        cr_assert_eq(ds_sim_ops.rung_info(t->device, t->rung)->cluster_max, 1);
        cr_assert_eq(try_launch(t, &l), 0);
        l.cluster[0] = 2;
        cr_assert_eq(try_launch(t, &l), DS_CUDA_NOT_SUPPORTED);
        cr_assert_eq(ds_sim_ops.clusters(t->device, &l, &n), DS_CUDA_NOT_SUPPORTED);
        l = launch_of(t, module, "pairs", 2, 0);
        cr_assert_eq(try_launch(t, &l), DS_CUDA_NOT_SUPPORTED, "what the code requires");
        dt_wait_all(t);
        dt_close(t);
}

/* .blocksareclusters: the grid counts clusters, not blocks */
Test(sim_cluster, grids_of_clusters)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        ds_device_module *module = dt_load(t, PTX);
        struct ds_launch l = launch_of(t, module, "counted", 3, 0);
        uint64_t va = DT_DEVICE_VA;
        uint32_t got[2];

        l.grid[1] = 2;
        l.params = &va;
        l.params_size = 8;
        dt_ok(t, dt_launch(t, &l));
        memcpy(got, (void *)(uintptr_t)va, sizeof(got));
        cr_assert_eq(got[0], 24);
        cr_assert_eq(got[1], 406, "%u", got[1]);
        dt_close(t);
}
