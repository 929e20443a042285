/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test bodies for every device: rungs over groups of TPCs, the ladder, and a bound on resident blocks
 */
#pragma once

#include <time.h>

#include "sched/ladder.h"
#include "tests/gpu/device_common.h"
#include "tests/gpu/device_hopper.h"

static inline uint32_t dt_count(const struct ds_tpc_mask *mask)
{
        uint32_t n = 0;

        for (size_t i = 0; i < DS_ARRAY_SIZE(mask->word); i++)
                n += (uint32_t)__builtin_popcountll(mask->word[i]);
        return n;
}

static inline uint64_t dt_wall_ns(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * DS_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

/* Asserts that clusters of each size up to the rung's limit run there, and larger ones are refused. */
static inline void dt_rung_takes(struct dt *t, uint32_t rung, ds_device_module *module)
{
        const struct ds_rung_info *info = t->ops->rung_info(t->device, rung);
        volatile uint32_t *sum = (volatile uint32_t *)DT_HOST_VA;
        struct ds_launch l = dt_launch_of(t, module, "ranks", 64, 1);
        uint64_t va = DT_HOST_VA;

        l.cluster[1] = l.cluster[2] = 1;
        l.params = &va;
        l.params_size = 8;
        l.stream = ds_device_stream(rung, 1, 0);
        for (uint32_t size = 2; size <= 16; size *= 2) {
                l.cluster[0] = size;
                if (size > info->cluster_max) {
                        cr_assert_eq(t->ops->launch(t->device, &l, t->next_token), DS_CUDA_INVALID_CLUSTER_SIZE);
                        continue;
                }
                *sum = 0;
                dt_ok(t, dt_launch(t, &l));
                cr_assert_eq(*sum, 32 * (size - 1), "clusters of %u on %u SMs: %u", size, info->n_sms, *sum);
        }
}

static inline void dt_groups_apart(const struct ds_device_info *info)
{
        struct ds_tpc_mask all = {};
        uint32_t sms = 0, known = 0;

        for (uint32_t i = 0; i < info->n_groups; i++) {
                sms += info->group_sms[i];
                known += dt_count(&info->group[i]);
                for (size_t word = 0; word < DS_ARRAY_SIZE(all.word); word++)
                        all.word[word] |= info->group[i].word[word];
        }
        cr_assert_leq(sms, info->n_sms);
        cr_assert_eq(dt_count(&all), known, "a TPC is in two groups");
        printf("%u groups of %u SMs and %u, TPCs known of %u, clusters of %u\n", info->n_groups, info->group_sms[0],
                info->n_groups ? info->group_sms[info->n_groups - 1] : 0, known, info->group_clusters);
}

ds_unused static void dt_test_groups(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        const struct ds_device_info *info = ops->info(t->device);
        ds_device_module *module;
        uint32_t rung;

        dt_groups_apart(info);
        cr_assert_eq(info->n_groups != 0, info->attributes[120] != 0, "a device with clusters has groups");
        cr_assert(ops->rung_create_coarse(t->device, 0, &rung) < 0, "no group");
        cr_assert(info->n_groups == 32 || ops->rung_create_coarse(t->device, 1u << info->n_groups, &rung) < 0);
        if (info->n_groups) {
                const uint32_t every = info->n_groups == 32 ? UINT32_MAX : (1u << info->n_groups) - 1;
                const uint32_t asked[] = {1, every, every & 0x55555555, every & 0xffff00, 1u << (info->n_groups - 1)};

                module = dt_load(t, DT_PTX_RANKS);
                for (size_t i = 0; i < DS_ARRAY_SIZE(asked); i++) {
                        if (!asked[i])
                                continue;
                        cr_assert_eq(ops->rung_create_coarse(t->device, asked[i], &rung), 0);
                        cr_assert_eq(ops->rung_info(t->device, rung)->coarse, 1);
                        cr_assert(asked[i] != 1 || ops->rung_info(t->device, rung)->cluster_max == 8);
                        dt_rung_takes(t, rung, module);
                }
        }
        dt_close(t);
}

/* --- the ladder --------------------------------------------------------------------------------------------------- */

/* Asserts that a rung contains all smaller ones of its side and family, and that the two rungs of a pair are
 * disjoint. */
static inline void dt_ladder_nests(const struct ds_ladder *ladder)
{
        for (uint32_t i = 1; i < ladder->n; i++)
                for (uint32_t j = 1; j < ladder->n; j++) {
                        const struct detshare_rung_view *a = &ladder->views[i], *b = &ladder->views[j];

                        if (a->family != b->family)
                                continue;
                        for (int w = 0; w < 2; w++) {
                                if (a->side == b->side && a->n_tpcs <= b->n_tpcs)
                                        cr_assert_eq(a->tpcs[w] & ~b->tpcs[w], 0, "rung %u is not in %u", i, j);
                                if (j == i + 1 && i % 2)
                                        cr_assert_eq(a->tpcs[w] & b->tpcs[w], 0, "rungs %u and %u overlap", i, j);
                        }
                }
}

static inline void dt_ladder_of(const struct ds_device_ops *ops, const char *spec, struct ds_ladder_options options)
{
        struct dt *t = dt_open(ops, spec);
        const struct ds_device_info *info = ops->info(t->device);
        struct ds_ladder ladder;
        uint64_t begin = dt_wall_ns();
        uint32_t steps = options.steps ? options.steps : DS_LADDER_STEPS;

        cr_assert_eq(ds_ladder_build(&ladder, ops, t->device, &options), 0);
        printf("%u rungs, %u of groups, %s: %.1f MiB, %.1f ms\n", ladder.n, ladder.n_coarse,
                options.by_gpc ? "GPC by GPC" : "spread", (double)ladder.bytes / (double)DS_MIB(1),
                (double)(dt_wall_ns() - begin) / 1e6);
        cr_assert_eq(ladder.views[0].n_sms, info->n_sms);
        cr_assert_eq(ladder.n - ladder.n_coarse, 1 + 2 * (DS_MIN(steps, info->n_tpcs) - 1));
        cr_assert_eq(ladder.n_coarse, info->n_groups ? 2 * (DS_MIN(DS_LADDER_COARSE_STEPS, info->n_groups) - 1) : 0);
        for (uint32_t i = 1; i < ladder.n; i++) {
                cr_assert_eq(ladder.views[i].side, i % 2 ? DETSHARE_SIDE_LOWER : DETSHARE_SIDE_UPPER);
                cr_assert_eq(ladder.views[i].family == DETSHARE_FAMILY_COARSE, i >= ladder.n - ladder.n_coarse);
                cr_assert(ladder.views[i].family != DETSHARE_FAMILY_COARSE || ladder.views[i].cluster_max >= 8);
        }
        dt_ladder_nests(&ladder);
        dt_close(t);
}

ds_unused static void dt_test_ladder(const struct ds_device_ops *ops, const char *spec)
{
        dt_ladder_of(ops, spec, (struct ds_ladder_options){});
        dt_ladder_of(ops, spec, (struct ds_ladder_options){.by_gpc = 1});
        dt_ladder_of(ops, spec, (struct ds_ladder_options){.steps = 8});
}

/* --- a bound on resident blocks ----------------------------------------------------------------------------------- */

#ifndef DT_BOUND_LOOPS
#define DT_BOUND_LOOPS 4000u
#endif

/* kernel loop: n dependent steps; it tests the result, so that a compiler cannot remove the loop */
#define DT_PTX_LOOP                                                                                              \
        DT_PTX_HEADER                                                                                            \
        ".visible .entry loop(.param .u32 n)\n{\n .reg .pred %p<3>; .reg .b32 %r<4>;\n ld.param.u32 %r1, [n];\n" \
        " mov.u32 %r2, 0;\n mov.u32 %r3, 0;\nAGAIN:\n mad.lo.u32 %r3, %r3, 1664525, 1013904223;\n"               \
        " add.u32 %r2, %r2, 1;\n setp.lt.u32 %p1, %r2, %r1;\n @%p1 bra AGAIN;\n"                                 \
        " setp.eq.u32 %p2, %r3, 0;\n @%p2 trap;\n ret;\n}\n"

/* Time of a kernel with four blocks per SM of the rung, ns, under a bound on resident blocks; shared: bytes of
 * shared memory per block. */
static inline uint64_t dt_bounded_ns(struct dt *t, ds_device_module *module, uint32_t bound, uint32_t shared)
{
        uint32_t sms = t->ops->rung_info(t->device, t->rung)->n_sms, n = DT_BOUND_LOOPS;
        struct ds_launch l = dt_launch_of(t, module, "loop", 4 * sms, 32);
        const struct ds_completion *c;
        uint64_t least = UINT64_MAX;

        l.params = &n;
        l.params_size = 4;
        l.timed = 1;
        l.tell = DS_TELL_EXACT;
        l.max_resident_blocks = bound;
        l.shared_bytes = shared;
        for (int i = 0; i < 3; i++) {
                c = dt_wait(t, dt_launch(t, &l));
                cr_assert_eq(c->status, 0);
                least = DS_MIN(least, c->end_ns - c->start_ns);
        }
        return least;
}

/* The bound on resident blocks determines the number of waves; it adds no shared memory to a kernel that already
 * uses much. */
ds_unused static void dt_test_bound(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX_LOOP);
        uint32_t sms = ops->rung_info(t->device, t->rung)->n_sms;
        uint32_t most = (uint32_t)ops->info(t->device)->attributes[97];
        uint64_t free_ns = dt_bounded_ns(t, module, 0, 0), two = dt_bounded_ns(t, module, 2 * sms, 0);
        uint64_t one = dt_bounded_ns(t, module, sms, 0), large = dt_bounded_ns(t, module, sms, most);

        printf("4 blocks per SM: %.1f us, 2 at once: %.1f, 1 at once: %.1f, with all shared memory %.1f\n",
                (double)free_ns / 1e3, (double)two / 1e3, (double)one / 1e3, (double)large / 1e3);
        cr_assert(two * 10 > free_ns * 15 && two * 10 < free_ns * 27, "two waves: %llu, %llu",
                (unsigned long long)free_ns, (unsigned long long)two);
        cr_assert(one * 10 > free_ns * 30 && one * 10 < free_ns * 50, "four waves: %llu, %llu",
                (unsigned long long)free_ns, (unsigned long long)one);
        cr_assert(large * 10 < one * 12);
        dt_close(t);
}
