/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of the scheduler in isolation: statistics, occupancy, the ladder; every allocation fails in turn; cost of a
 * launch
 */
#include <time.h>

#include "tests/unit/sched_device.h"

#include "sched/place.h"
#include "tests/unit/rounds.h"
#include "util/alloc.h"

#define US 1000ULL

/* --- statistics --------------------------------------------------------------------------------------------------- */

Test(sched_parts, statistics_follow_the_samples)
{
        ds_kstat *table;
        struct ds_kstat_row *row;
        uint32_t i;

        cr_assert_eq(ds_kstat_new(16, &table), 0);
        i = ds_kstat_touch(table, 7);
        row = ds_kstat_at(table, i, 7);
        ds_kstat_sample(row, 100);
        cr_assert_eq(row->mean_ns, 100);
        ds_kstat_sample(row, 300);
        cr_assert_eq(row->mean_ns, 200);
        ds_kstat_sample(row, 50);
        cr_assert_eq(row->mean_ns, 150);
        cr_assert_eq(row->samples, 3);
        for (int k = 0; k < 1000; k++)
                ds_kstat_sample(row, 100000);
        cr_assert(row->mean_ns > 99900 && row->mean_ns <= 100000);
        for (int k = 0; k < 1000; k++)
                ds_kstat_sample(row, 0);
        cr_assert_leq(row->mean_ns, 31);
        ds_kstat_free(table);
}

Test(sched_parts, statistics_table_is_bounded_and_forgets_the_oldest)
{
        ds_kstat *table;
        uint32_t rows[2000];

        cr_assert_eq(ds_kstat_new(1024, &table), 0);
        for (uint64_t key = 0; key < 2000; key++) {
                rows[key] = ds_kstat_touch(table, key * 0x100000001ULL);
                if (key % 10 == 0)
                        ds_kstat_touch(table, 0);
                cr_assert_eq(ds_kstat_touch(table, key * 0x100000001ULL), rows[key]);
        }
        cr_assert_eq(ds_kstat_count(table), 1024);
        cr_assert_not_null(ds_kstat_at(table, rows[0], 0), "used all the time");
        cr_assert_null(ds_kstat_at(table, rows[1], 0x100000001ULL));
        for (uint64_t key = 2000 - 1000; key < 2000; key++)
                cr_assert_not_null(
                        ds_kstat_at(table, rows[key], key * 0x100000001ULL), "%llu", (unsigned long long)key);
        cr_assert_null(ds_kstat_at(table, DS_KSTAT_NONE, 0));
        ds_kstat_free(table);
}

/* Queries for forms of many kernels do not evict measured points of other kernels. */
Test(sched_parts, questions_about_forms_take_no_points)
{
        const struct ds_kstat_row *row;
        uint32_t measured;
        ds_kstat *table;

        cr_assert_eq(ds_kstat_new(DS_KSTAT_ROWS_MAX, &table), 0);
        measured = ds_kstat_touch(table, 1);
        ds_kstat_point_sample(table, ds_kstat_at(table, measured, 1), 132, 1000);
        for (uint64_t key = 2; key < 3 * DS_KSTAT_POINTS_MAX; key++) {
                const struct ds_kstat_forms *forms =
                        ds_kstat_forms(table, ds_kstat_at(table, ds_kstat_touch(table, key), key));

                cr_assert_eq(forms != NULL, key <= DS_KSTAT_POINTS_MAX);
        }
        row = ds_kstat_at(table, measured, 1);
        cr_assert_not_null(ds_kstat_points(table, row));
        cr_assert_eq(ds_kstat_points(table, row)->n, 1);
        ds_kstat_free(table);
}

Test(sched_parts, statistics_table_without_memory_to_grow)
{
        ds_kstat *table;

        cr_assert_eq(ds_kstat_new(DS_KSTAT_ROWS_MAX, &table), 0);
        for (uint64_t key = 1; key < 5000; key++) {
                ds_alloc_fail_after(0);
                cr_assert_not_null(ds_kstat_at(table, ds_kstat_touch(table, key), key));
        }
        ds_alloc_fail_after(-1);
        cr_assert_lt(ds_kstat_count(table), 1024);
        ds_kstat_free(table);
}

Test(sched_parts, occupancy)
{
        ds_device *device = sdev_new(66);
        struct ds_kernel_info k = {.registers = 32};

        /* results of NVIDIA's occupancy calculator for these shapes and compute capability 9.0 */
        cr_assert_eq(ds_kstat_blocks_per_sm(&device->info, &k, 256, 0), 8);
        cr_assert_eq(ds_kstat_blocks_per_sm(&device->info, &k, 1024, 0), 2);
        cr_assert_eq(ds_kstat_blocks_per_sm(&device->info, &k, 32, 0), 32);
        cr_assert_eq(ds_kstat_blocks_per_sm(&device->info, &k, 33, 0), 32);
        k.registers = 255;
        cr_assert_eq(ds_kstat_blocks_per_sm(&device->info, &k, 256, 0), 1);
        cr_assert_eq(ds_kstat_blocks_per_sm(&device->info, &k, 1024, 0), 0);
        k.registers = 128;
        cr_assert_eq(ds_kstat_blocks_per_sm(&device->info, &k, 128, 0), 4);
        k.registers = 16;
        k.static_shared = 47 * 1024;
        cr_assert_eq(ds_kstat_blocks_per_sm(&device->info, &k, 128, 0), 4);
        cr_assert_eq(ds_kstat_blocks_per_sm(&device->info, &k, 128, 180 * 1024), 1);
        cr_assert_eq(ds_kstat_blocks_per_sm(&device->info, &k, 128, 190 * 1024), 0);
        memset(device->info.attributes, 0, sizeof(device->info.attributes));
        cr_assert_eq(ds_kstat_blocks_per_sm(&device->info, &k, 128, UINT32_MAX), 32, "nothing is known");
        free(device);
}

/* --- ladder ------------------------------------------------------------------------------------------------------- */

static int rung_inside(const struct ds_ladder *ladder, uint32_t rung, uint32_t of)
{
        const uint64_t *a = ladder->views[rung].tpcs, *b = ladder->views[of].tpcs;

        return !(a[0] & ~b[0]) && !(a[1] & ~b[1]);
}

static void check_cap(const struct ds_ladder *ladder, uint32_t rung, uint32_t percent, int class_)
{
        uint32_t cap = ds_ladder_cap(ladder, rung, percent, (enum detshare_class)class_);
        uint32_t all = ladder->views[0].n_tpcs, n = ladder->views[cap].n_tpcs, smallest = UINT32_MAX, largest = 0;

        for (uint32_t i = 0; i < ladder->n; i++) {
                /* the rung of the whole GPU belongs to both sides */
                if (!rung_inside(ladder, i, rung) || (i && !rung && (i & 1) != (class_ == DETSHARE_CLASS_LS)))
                        continue;
                smallest = DS_MIN(smallest, ladder->views[i].n_tpcs);
                if (ladder->views[i].n_tpcs * 100 <= percent * all)
                        largest = DS_MAX(largest, ladder->views[i].n_tpcs);
        }
        cr_assert(rung_inside(ladder, cap, rung), "%u of %u in rung %u is %u", percent, all, rung, cap);
        cr_assert_eq(n, largest ? largest : smallest, "%u%% of %u in rung %u is rung %u", percent, all, rung, cap);
        cr_assert(cap == rung || rung || (cap & 1) == (class_ == DETSHARE_CLASS_LS), "the class's side");
}

Test(sched_parts, ladder_has_complementary_pairs)
{
        static const uint32_t sizes[] = {1, 2, 3, 5, 8, 13, 20, 30, 66, 128};

        for (size_t s = 0; s < DS_ARRAY_SIZE(sizes); s++) {
                ds_device *device = sdev_new(sizes[s]);
                struct ds_ladder ladder;

                cr_assert_eq(ds_ladder_build(&ladder, &sdev_ops, device, NULL), 0);
                cr_assert_eq(ladder.n, 1 + 2 * (sizes[s] > 16 ? 15 : sizes[s] - 1));
                cr_assert_eq(ladder.views[0].n_tpcs, sizes[s]);
                for (uint32_t i = 1; i < ladder.n; i += 2) {
                        const struct detshare_rung_view *a = &ladder.views[i], *b = &ladder.views[i + 1];

                        cr_assert_eq(a->n_tpcs + b->n_tpcs, sizes[s]);
                        cr_assert(a->n_tpcs && b->n_tpcs);
                        for (int w = 0; w < 2; w++) {
                                cr_assert_eq(a->tpcs[w] & b->tpcs[w], 0);
                                cr_assert_eq(a->tpcs[w] | b->tpcs[w], ladder.views[0].tpcs[w]);
                        }
                        cr_assert(i == 1 || a->n_tpcs > ladder.views[i - 2].n_tpcs);
                }
                free(device);
        }
}

/* A session's share selects the largest allowed rung on the same side and inside of the rung that the policy names. */
Test(sched_parts, a_share_of_the_sms_is_a_rung_inside_the_one_named)
{
        static const uint32_t sizes[] = {1, 2, 3, 5, 8, 13, 30, 66, 128};

        for (size_t s = 0; s < DS_ARRAY_SIZE(sizes); s++) {
                ds_device *device = sdev_new(sizes[s]);
                struct ds_ladder ladder;

                cr_assert_eq(ds_ladder_build(&ladder, &sdev_ops, device, NULL), 0);
                for (uint32_t rung = 0; rung < ladder.n; rung++)
                        for (uint32_t percent = 1; percent <= 100; percent++)
                                for (int class_ = 0; class_ < 2; class_++)
                                        check_cap(&ladder, rung, percent, class_);
                free(device);
        }
}

/* --- placing ------------------------------------------------------------------------------------------------------ */

/* Opens a scheduler on a device of 32 TPCs in 8 groups. Returns a coroutine of a session with this class and share. */
static ds_coroutine *place_open(struct harness *h, struct ds_device *device, int class_, uint32_t percent)
{
        struct ds_sched_config config = {.ops = &sdev_ops,
                .device = device,
                .policy_dir = "",
                .policy = "fifo",
                .done = harness_done,
                .user = h};
        ds_sched_session *session;

        device->info.n_groups = 8;
        *h = (struct harness){.device = device};
        cr_assert_eq(ds_sched_new(&config, &h->sched), 0);
        cr_assert_eq(h->sched->ladder.n, 1 + 2 * 15 + 2 * 7);
        session = session_open(h, 1, (enum detshare_class)class_, 0);
        ds_sched_session_set(session, (enum detshare_class)class_, 0, percent, 0);
        return stream_open(session, 0, 0);
}

struct place_row {
        uint32_t side, n_sms; /* the fine rung that the policy names: its side and SM count; SIDE_ALL: the whole GPU */
        uint32_t cluster, bound, all_resident, blocks, per_sm;
        uint32_t to_side, to_sms, to_family; /* the rung on which the kernel runs */
        uint32_t to_bound, loans;
};

static uint32_t rung_named(const struct ds_ladder *ladder, uint32_t side, uint32_t n_sms)
{
        for (uint32_t i = 0; i < ladder->n; i++)
                if (ladder->views[i].side == side && ladder->views[i].family == DETSHARE_FAMILY_FINE &&
                        (!side || ladder->views[i].n_sms == n_sms))
                        return i;
        cr_assert_fail("no rung of %u SMs", n_sms);
        return 0;
}

static void place_check(ds_coroutine *coroutine, const ds_device_kernel *kernel, const struct place_row *row)
{
        ds_sched *sched = coroutine->sched;
        struct ds_launch_target target = {
                .rung = rung_named(&sched->ladder, row->side, row->n_sms), .max_resident_blocks = row->bound};
        struct detshare_op_view view = {.kind = DETSHARE_OP_KERNEL,
                .blocks = row->blocks ? row->blocks : 1000,
                .blocks_per_sm = row->per_sm ? row->per_sm : 8,
                .all_resident = row->all_resident};
        struct ds_op op = {.kind = DS_OP_LAUNCH, .launch.kernel = kernel, .cluster_blocks = DS_MAX(row->cluster, 1u)};
        uint64_t loans = sched->stats.loans;
        const struct detshare_rung_view *to;
        struct ds_place place;

        ds_place_choose(coroutine, &op, &view, &target, &place);
        to = &sched->ladder.views[place.rung];
        cr_assert(to->side == row->to_side && to->n_sms == row->to_sms && to->family == row->to_family,
                "%u of side %u, clusters of %u, bound %u: side %u, %u SMs, family %u", row->n_sms, row->side,
                row->cluster, row->bound, to->side, to->n_sms, to->family);
        cr_assert_eq(place.max_resident_blocks, row->to_bound, "%u SMs, bound %u: %u", row->n_sms, row->bound,
                place.max_resident_blocks);
        cr_assert_eq(sched->stats.loans - loans, row->loans);
}

#define ALL DETSHARE_SIDE_ALL
#define LOWER DETSHARE_SIDE_LOWER
#define UPPER DETSHARE_SIDE_UPPER
#define COARSE DETSHARE_FAMILY_COARSE

static void place_rows(int class_, uint32_t percent, uint32_t per_sm, const struct place_row *rows, size_t n)
{
        ds_device_kernel kernel = sdev_kernel;
        ds_device *device = sdev_new(32);
        ds_coroutine *coroutine;
        struct harness h;

        device->info.bound_per_sm = per_sm;
        device->info.attributes[97] = 232448;
        coroutine = place_open(&h, device, class_, percent);
        for (size_t i = 0; i < n; i++)
                place_check(coroutine, &kernel, &rows[i]);
        ds_coroutine_release(coroutine);
        harness_close(&h);
}

/* Kernels with large clusters run on groups of the same side with no more SMs; without such groups on the whole GPU,
 * as a loan. */
Test(sched_parts, clusters_find_groups)
{
        static const struct place_row rows[] = {
                {.side = LOWER, .n_sms = 32, .cluster = 2, .to_side = LOWER, .to_sms = 32},
                {.side = LOWER, .n_sms = 32, .cluster = 4, .to_side = LOWER, .to_sms = 32, .to_family = COARSE},
                {.side = LOWER, .n_sms = 28, .cluster = 8, .to_side = LOWER, .to_sms = 24, .to_family = COARSE},
                {.side = UPPER, .n_sms = 60, .cluster = 8, .to_side = UPPER, .to_sms = 56, .to_family = COARSE},
                {.side = LOWER, .n_sms = 28, .cluster = 16, .to_side = LOWER, .to_sms = 24, .to_family = COARSE},
                {.side = LOWER, .n_sms = 12, .cluster = 16, .to_side = ALL, .to_sms = 64, .loans = 1},
                {.side = UPPER, .n_sms = 4, .cluster = 4, .to_side = ALL, .to_sms = 64, .loans = 1},
                {.side = ALL, .cluster = 16, .to_side = ALL, .to_sms = 64},
                {.side = LOWER, .n_sms = 32, .cluster = 8, .all_resident = 1, .blocks = 257, .to_sms = 64, .loans = 1},
                {.side = LOWER,
                        .n_sms = 32,
                        .cluster = 8,
                        .all_resident = 1,
                        .blocks = 256,
                        .to_side = LOWER,
                        .to_sms = 32,
                        .to_family = COARSE},
        };
        /* placements of a BE session whose share is half of the GPU */
        static const struct place_row shared[] = {
                {.side = ALL, .to_side = UPPER, .to_sms = 32},
                {.side = ALL, .cluster = 4, .to_side = UPPER, .to_sms = 32, .to_family = COARSE},
                {.side = LOWER, .n_sms = 60, .cluster = 8, .to_side = LOWER, .to_sms = 32, .to_family = COARSE},
                {.side = LOWER,
                        .n_sms = 60,
                        .cluster = 8,
                        .all_resident = 1,
                        .blocks = 400,
                        .to_side = LOWER,
                        .to_sms = 56,
                        .to_family = COARSE},
        };

        place_rows(DETSHARE_CLASS_LS, 100, 0, rows, DS_ARRAY_SIZE(rows));
        place_rows(DETSHARE_CLASS_BE, 50, 0, shared, DS_ARRAY_SIZE(shared));
}

/* A bound per SM limits the number of SMs to the number of blocks; kernels that must be all resident have no bound. */
Test(sched_parts, bounds_find_smaller_rungs)
{
        static const struct place_row per_sm[] = {
                {.side = UPPER, .n_sms = 60, .bound = 33, .to_side = UPPER, .to_sms = 32, .to_bound = 33},
                {.side = UPPER, .n_sms = 60, .bound = 60, .to_side = UPPER, .to_sms = 60, .to_bound = 60},
                {.side = UPPER, .n_sms = 60, .bound = 500, .to_side = UPPER, .to_sms = 60},
                {.side = ALL, .bound = 33, .to_side = UPPER, .to_sms = 32, .to_bound = 33},
                {.side = ALL, .bound = 1, .to_side = UPPER, .to_sms = 4, .to_bound = 1},
                {.side = ALL, .bound = 33, .blocks = 33, .to_side = ALL, .to_sms = 64},
                {.side = ALL, .bound = 33, .per_sm = 1, .to_side = UPPER, .to_sms = 32},
                {.side = ALL, .bound = 33, .all_resident = 1, .blocks = 400, .to_side = ALL, .to_sms = 64},
                /* clusters without padding: as many SMs as hold the bound at eight blocks each */
                {.side = ALL, .bound = 130, .cluster = 8, .to_side = UPPER, .to_sms = 16, .to_family = COARSE},
        };
        static const struct place_row exact[] = {
                {.side = UPPER, .n_sms = 60, .bound = 33, .to_side = UPPER, .to_sms = 60, .to_bound = 33},
                {.side = ALL, .bound = 33, .all_resident = 1, .blocks = 400, .to_side = ALL, .to_sms = 64},
        };

        place_rows(DETSHARE_CLASS_BE, 100, 1, per_sm, DS_ARRAY_SIZE(per_sm));
        place_rows(DETSHARE_CLASS_BE, 100, 0, exact, DS_ARRAY_SIZE(exact));
}

Test(sched_parts, ladder_on_a_device_that_has_rungs_already)
{
        struct harness h;
        ds_sched *second;
        struct ds_sched_config config = {
                .ops = &sdev_ops, .policy_dir = "", .policy = "fifo", .done = harness_done, .user = &h};
        ds_sched_session *s;
        struct top k;

        cr_assert_eq(harness_open(&h, 8, NULL, "fifo"), 0);
        config.device = h.device;
        cr_assert_eq(ds_sched_new(&config, &second), 0);
        ds_sched_free(h.sched);
        h.sched = second;
        s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        submit(&h, stream_open(s, 0, 0), kernel_init(&k, 1, US, 1, 0));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(h.device->log[0].rung, 15, "the second scheduler's own whole GPU");
        harness_close(&h);
}

Test(sched_parts, a_device_that_refuses_a_rung)
{
        struct harness h = {.device = sdev_new(8)};
        struct ds_sched_config config = {.ops = &sdev_ops,
                .device = h.device,
                .policy_dir = "",
                .policy = "fifo",
                .done = harness_done,
                .user = &h};

        h.device->fail_rung = 3;
        cr_assert_eq(ds_sched_new(&config, &h.sched), -EIO);
        cr_assert_null(h.sched);
        free(h.device);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* Runs a scheduler while one allocation fails: the call that needed it returns an error and all else continues.
 * Returns 0 if no allocation failed. */
static int scenario(int64_t fail_after)
{
        struct harness h = {.device = sdev_new(8)};
        struct ds_sched_config config = {.ops = &sdev_ops,
                .device = h.device,
                .policy_dir = build_path("policies"),
                .policy = "multistream",
                .done = harness_done,
                .user = &h};
        struct ds_sched_session_config session_config = {.id = 1, .class_ = DETSHARE_CLASS_LS, .space = 1};
        ds_sched_session *sessions[3] = {NULL};
        ds_coroutine *c;
        struct top tops[3][4];
        char message[128];
        uint64_t accepted = 0;
        int failed = 0, r;

        ds_alloc_fail_after(fail_after);
        r = ds_sched_new(&config, &h.sched);
        if (r) {
                cr_assert_eq(r, -ENOMEM);
                free(h.device);
                return 1;
        }
        for (int i = 0; i < 3; i++) {
                r = ds_sched_session_new(h.sched, &session_config, &sessions[i]);
                if (!r)
                        r = ds_coroutine_new(sessions[i], 0, 1, 0, &c);
                failed += r != 0;
                cr_assert(!r || r == -ENOMEM);
                for (int k = 0; !r && k < 4; k++) {
                        kernel_init(&tops[i][k], 1, US, 1, 0);
                        tops[i][k].script.status = k == 2 ? DS_CUDA_ASSERT : 0;
                        r = ds_sched_submit(c, &tops[i][k].op, 0);
                        failed += r != 0;
                        accepted += !r;
                        cr_assert(!r || r == DS_SCHED_E_FULL);
                        r = 0;
                }
        }
        r = ds_sched_set_policy(h.sched, "static", NULL, 0, 0, message, sizeof(message));
        cr_assert(!r || r == -ENOMEM);
        failed += r != 0;
        harness_run(&h, UINT64_MAX);
        ds_alloc_fail_after(-1);
        cr_assert_eq(h.told, accepted);
        harness_assert_clean(&h);
        harness_close(&h);
        return failed;
}

Test(sched_parts, every_allocation_may_fail)
{
        int n, unharmed = 0;

        for (n = 0; unharmed < 8; n++) {
                cr_assert_lt(n, 300);
                unharmed = scenario(n) ? 0 : unharmed + 1;
        }
        cr_assert_gt(n, 20, "the sweep reached the allocations at all");
}

/* --- speed -------------------------------------------------------------------------------------------------------- */

static double seconds(void)
{
        struct timespec now;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#define SPEED_SESSIONS 8
#define SPEED_OPS (ROUNDS_SANITIZED && !rounds_are_all() ? 40000 : 200000)

static struct top speed_tops[SPEED_SESSIONS][64];
static uint64_t speed_next[SPEED_SESSIONS];

/* 8 clients with 32 queued launches each. Returns processor time per launch from submission to end, ns, device
 * included. */
static double launch_cost(const char *policy, uint32_t n_idle)
{
        struct harness h;
        ds_coroutine *c[SPEED_SESSIONS];
        double begin, cost;

        cr_assert_eq(harness_open(&h, 66, "policies", policy), 0);
        for (uint32_t i = 0; i < n_idle; i++)
                stream_open(session_open(&h, 1000 + i, DETSHARE_CLASS_BE, 0), 1, 0);
        harness_step(&h);
        memset(speed_next, 0, sizeof(speed_next));
        for (uint64_t i = 0; i < SPEED_SESSIONS; i++)
                c[i] = stream_open(session_open(&h, i + 1, i % 2, 0), 1, 0);
        begin = seconds();
        while (h.told < SPEED_OPS) {
                for (uint32_t i = 0; i < SPEED_SESSIONS; i++)
                        while (c[i]->n_ops < 32) {
                                struct top *top = &speed_tops[i][speed_next[i]++ % 64];

                                submit(&h, c[i], kernel_init(top, i + 1, US, 128, 1 + speed_next[i] % 50));
                        }
                harness_step(&h);
                sdev_advance(h.device, UINT64_MAX);
        }
        cost = (seconds() - begin) * 1e9 / (double)h.told;
        harness_run(&h, UINT64_MAX);
        harness_assert_clean(&h);
        harness_close(&h);
        printf("%s, %u idle sessions: %.0f ns per launch (scripted device included)\n", policy, n_idle, cost);
        return cost;
}

Test(sched_parts, a_launch_costs_little_and_idle_sessions_nothing)
{
        /* 80,000 launches per second on one core, with a margin for sanitizers and busy machines */
        double bound = 12500;

        cr_assert_lt(launch_cost("fifo", 0), bound);
        cr_assert_lt(launch_cost("multistream", 0), bound);
        cr_assert_lt(launch_cost("static", 1000), bound);
}
