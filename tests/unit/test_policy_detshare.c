/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule of `detshare`, sentence by sentence, and its effect on latencies in the simulated timing model
 *
 * The scripted GPU has 66 TPCs of two SMs. LS kernels are small, with 16 blocks. BE kernels are persistent (132 blocks,
 * one per SM: their time falls in one step) or have many blocks (their time falls with the number of SMs).
 */
#include "policies/stair.h"
#include "tests/unit/policy_harness.h"

#define SMS 132

static struct ph_kernel small = {.name = "small", .blocks = 16, .block_ns = 2 * US};
static struct ph_kernel medium = {.name = "medium", .blocks = 16, .block_ns = 20 * US};
static struct ph_kernel wide = {.name = "wide", .blocks = 60, .block_ns = 2 * US};
static struct ph_kernel persistent = {.name = "persistent", .blocks = SMS, .threads = 1024, .block_ns = 200 * US};
static struct ph_kernel slope = {.name = "slope", .blocks = 40 * SMS, .threads = 1024, .block_ns = 10 * US};
static struct ph_kernel shorts = {.name = "shorts", .blocks = 8 * SMS, .block_ns = 4 * US};
static struct ph_kernel block30 = {.name = "block30", .blocks = 4 * SMS, .block_ns = 30 * US};
static struct ph_kernel sloped30 = {.name = "sloped30", .blocks = 80 * SMS, .per_sm = 2, .block_ns = 30 * US};
static struct ph_kernel single30 = {.name = "single30", .blocks = SMS, .threads = 1024, .block_ns = 30 * US};
static struct ph_kernel single400 = {.name = "single400", .blocks = SMS, .threads = 1024, .block_ns = 400 * US};
static struct ph_kernel block2000 = {.name = "block2000", .blocks = 40 * SMS, .block_ns = 2 * MS};
static struct ph_kernel huge = {.name = "huge", .blocks = SMS, .threads = 1024, .block_ns = 3 * MS};
static struct ph_kernel together = {
        .name = "together", .blocks = SMS, .threads = 1024, .block_ns = 500 * US, .all_resident = 1};
static struct ph_kernel endless = {.name = "endless", .blocks = 16, .block_ns = 2000 * MS};
static struct ph_kernel sloped2000 = {.name = "sloped2000", .blocks = 400 * SMS, .per_sm = 1, .block_ns = 2 * MS};

/* Policy parameters that make prices and regimes act as with known BE sessions, and a slack large enough to be seen. */
#define KNOWN "held_first=0", "slack_permille=50"
#define OPEN(...)                                                                                                     \
        do {                                                                                                          \
                PH_KERNELS_ARE(&small, &medium, &wide, &persistent, &slope, &shorts, &block30, &single30, &single400, \
                        &block2000, &huge, &together, &endless, &sloped2000, &sloped30);                              \
                ph_open(SMS / 2, "detshare", KNOWN, __VA_ARGS__ __VA_OPT__(, ) NULL);                                 \
        } while (0)

/* Opens an LS session and runs n requests, so that the policy knows their length and gaps. */
static struct ph_client *taught(uint64_t slo_ns, const struct ph_kernel *kernel, uint32_t n, uint32_t gap_us)
{
        struct ph_client *ls = ph_ls(slo_ns);

        ls->gap_us = gap_us;
        ls->synchronises = 1;
        ph_every(ls, kernel, n, 5 * MS, 20);
        ph_run_for(100 * MS);
        cr_assert_eq(ls->n_latency, 20);
        return ls;
}

/* --- stairs ------------------------------------------------------------------------------------------------------- */

/* Measured on an H200: a GEMM of 132 blocks, one per SM. Its time doubles below 132 SMs, then stays flat down to
 * half. */
static const struct detshare_profile_point gemm_points[] = {{16, 9, 174000}, {32, 9, 92200}, {66, 9, 50500},
        {84, 9, 50400}, {108, 9, 50100}, {124, 9, 49600}, {132, 9, 29700}};

Test(policy_detshare, stairs_lowest_sm_count_of_a_step)
{
        struct detshare_op_view gemm = {.blocks = 132,
                .blocks_per_sm = 1,
                .samples = 9,
                .expected_ns = 40000,
                .n_points = DS_ARRAY_SIZE(gemm_points),
                .points = gemm_points};

        cr_assert_eq(stair_time(&gemm, 132, 132), 29700);
        cr_assert_eq(stair_lowest(&gemm, 132, 132, 50), 132);
        cr_assert_eq(stair_lowest(&gemm, 131, 132, 50), 66);
        cr_assert_eq(stair_lowest(&gemm, 66, 132, 50), 66);
        cr_assert_eq(stair_need(&gemm, 132, 50), 132);
        /* from 66 SMs on the busiest SM has two blocks; with 65 it has three */
        cr_assert_eq(stair_time(&gemm, 70, 132), 50400);
        cr_assert_geq(stair_time(&gemm, 65, 132), 75600);
        cr_assert_leq(stair_time(&gemm, 65, 132), 92200);
        cr_assert_geq(stair_loss(&gemm, 124, 132), 600);
        cr_assert_eq(stair_loss(&gemm, 132, 132), 0);
}

/* Between measured points the estimate is rather too slow. Beyond them, and without any point, the estimate counts
 * blocks of the busiest SM. */
Test(policy_detshare, stairs_where_little_is_known)
{
        struct detshare_profile_point point = {.n_sms = 66, .samples = 3, .mean_ns = 200000};
        struct detshare_op_view op = {.blocks = 1320, .blocks_per_sm = 2, .n_points = 1, .points = &point};

        cr_assert_eq(stair_time(&op, 66, 132), 200000);
        cr_assert_eq(stair_time(&op, 132, 132), 100000);
        cr_assert_eq(stair_time(&op, 33, 132), 400000);
        op = (struct detshare_op_view){.blocks = 132, .blocks_per_sm = 1, .samples = 5, .expected_ns = 1000};
        cr_assert_eq(stair_time(&op, 131, 132), 2000);
        cr_assert(stair_known(&op));
        op.samples = 0;
        cr_assert(!stair_known(&op));
        cr_assert_eq(stair_time(&op, 131, 132), 2 * stair_time(&op, 132, 132));
        op = (struct detshare_op_view){.blocks = 16, .blocks_per_sm = 2};
        cr_assert_eq(stair_need(&op, 132, 50), 16);
        op.blocks = UINT32_MAX;
        op.samples = 1;
        op.expected_ns = UINT64_MAX / 2;
        cr_assert_gt(stair_time(&op, 1, 132), 0);
        cr_assert_eq(stair_need(&op, 132, 0), 132);
}

/* The reply to `policies` has room for the parameters of every policy. */
Test(policy_detshare, all_parameters_are_listed)
{
        static struct ds_policy_listing list[64];
        size_t n;

        OPEN();
        n = ds_sched_list_policies(ph.sched, list, DS_ARRAY_SIZE(list));
        cr_assert_gt(n, 5);
        for (size_t i = 0; i < n; i++) {
                cr_assert_lt(strlen(list[i].params), sizeof(list[i].params) - 1, "%s", list[i].name);
                cr_assert_lt(strlen(list[i].description), sizeof(list[i].description) - 1, "%s", list[i].name);
        }
        ph_close();
}

/* --- ebb and flow ------------------------------------------------------------------------------------------------- */

Test(policy_detshare, best_effort_has_the_whole_gpu_while_no_request_is_under_way)
{
        struct ph_client *be;

        OPEN("explore_permille=0");
        be = ph_be();
        ph_know(&persistent, 0);
        ph_loop(be, &persistent, 4);
        ph_run(10 * MS);
        cr_assert_eq(ph_moves(be), 0);
        cr_assert_eq(ph_last(be)->n_sms, SMS);
        cr_assert_eq(ph_last(be)->priority, DETSHARE_PRIORITY_LOW);
        cr_assert_geq(ph_busy(be, 0, 10 * MS), 999);
        ph_close();
}

/* When a request's first kernel is launched, BE moves to fewer SMs; its persistent kernel is as fast on 66 SMs as on
 * 116. */
Test(policy_detshare, when_a_request_begins_best_effort_goes_to_the_lowest_sm_count_of_its_step)
{
        struct ph_client *ls, *be;

        OPEN("explore_permille=0");
        be = ph_be();
        ls = ph_ls(0);
        ph_know(&persistent, 0);
        ph_know(&small, 0);
        ph_loop(be, &persistent, 4);
        ph_run(5 * MS);
        ph_request(ls, &small, 1000);
        ph_run(7 * MS);
        cr_assert_eq(ph_last(be)->side, DETSHARE_SIDE_UPPER);
        cr_assert_eq(ph_last(be)->n_sms, 66);
        cr_assert_eq(ph_last(ls)->n_sms, SMS);
        cr_assert_eq(ph_last(ls)->priority, DETSHARE_PRIORITY_HIGH);
        ph_close();
}

/* A kernel whose time falls with the SMs keeps all but the reserve; the reserve is as large as the LS queue needs. */
Test(policy_detshare, the_reserve_is_the_need_of_the_ls_queue)
{
        struct ph_client *ls, *be;

        OPEN("explore_permille=0");
        be = ph_be();
        ls = ph_ls(0);
        ph_know(&slope, 0);
        ph_know(&small, 0);
        ph_know(&wide, 0);
        ph_loop(be, &slope, 4);
        ph_run(5 * MS);
        ph_request(ls, &small, 1500);
        ph_run(7 * MS);
        cr_assert_eq(ph_last(be)->side, DETSHARE_SIDE_UPPER);
        cr_assert_leq(ph_last(be)->n_sms, SMS - 16);
        cr_assert_geq(ph_last(be)->n_sms, SMS - 32);
        ph_run(20 * MS);
        ph_request(ls, &wide, 1500);
        ph_run(22 * MS);
        cr_assert_leq(ph_last(be)->n_sms, SMS - 60);
        ph_close();
}

/* An LS session that used wide kernels lately gets room for them before its queue shows one. */
Test(policy_detshare, the_reserve_covers_recent_needs_of_the_session)
{
        struct ph_client *ls, *be;

        OPEN("explore_permille=0");
        ph_know(&slope, 0);
        ph_know(&small, 0);
        ph_know(&wide, 0);
        ls = taught(0, &wide, 50, 0);
        be = ph_be();
        ph_loop(be, &slope, 4);
        ph_run_for(1 * MS);
        ph_request(ls, &small, 1000);
        ph_run_for(1 * MS);
        cr_assert_leq(ph_last(be)->n_sms, SMS - 60);
        cr_assert_geq(ph_last(be)->n_sms, SMS - 82);
        ph_close();
}

/* Runs a request beside BE kernels of 30 us. Returns the time from its end to the first BE kernel on all SMs, us. */
static uint64_t flows_back_us(int synchronises)
{
        struct ph_client *ls, *be;
        uint64_t end, first = UINT64_MAX;

        OPEN("explore_permille=0", "slack_permille=0", "be_ahead_us=0");
        be = ph_be();
        ls = ph_ls(0);
        ls->synchronises = synchronises;
        ph_know(&single30, 0);
        ph_loop(be, &single30, 4);
        ph_run(5 * MS);
        ph_request(ls, &small, 300);
        while (!ls->n_latency)
                ph_run_for(1 * US);
        end = ph_now();
        cr_assert_eq(ph_last(be)->side, DETSHARE_SIDE_UPPER);
        ph_run(end + 2 * MS);
        for (uint32_t i = 0; i < ph.n_log; i++)
                if (ph.log[i].client == be && ph.log[i].launch_ns >= end && ph.log[i].n_sms == SMS)
                        first = ph.log[i].launch_ns < first ? ph.log[i].launch_ns : first;
        ph_close();
        return (first - end) / US;
}

/* The request ends when its client has waited for it, otherwise when its queue was empty for the hold-off of 100 us. */
Test(policy_detshare, it_flows_back_at_once_when_the_client_has_waited_for_its_request)
{
        cr_assert_leq(flows_back_us(1), 65, "%llu", (unsigned long long)flows_back_us(1));
}

Test(policy_detshare, or_when_the_queue_was_empty_for_the_hold_off)
{
        const uint64_t us = flows_back_us(0);

        cr_assert(us >= 100 && us <= 165, "%llu", (unsigned long long)us);
}

/* A host-bound client has gaps between all kernels: the policy learns that they belong to one request. */
Test(policy_detshare, the_hold_off_is_learnt_from_the_gaps_inside_requests)
{
        struct ph_client *ls, *be;
        uint32_t before;

        /* gaps of 140 us exceed the first hold-off of 100 us; with a slack of 0 BE must move */
        OPEN("explore_permille=0", "slack_permille=0", "feel=0");
        ls = ph_ls(0);
        ls->gap_us = 140;
        ph_every(ls, &small, 50, 20 * MS, 20);
        ph_run(200 * MS);
        be = ph_be();
        ph_know(&single400, 0);
        ph_loop(be, &single400, 4);
        before = ls->n_latency;
        cr_assert_eq(before, 10);
        ph_run(400 * MS);
        cr_assert_eq(ls->n_latency, 20);
        /* BE moves away and back once per request */
        cr_assert_leq(ph_moves(be), 20);
        cr_assert_geq(ph_moves(be), 18);
        ph_close();
}

/* LS works 620 us of every 640 us; BE kernels take 60 us, and one of them starts in many of the gaps. */
Test(policy_detshare, requests_back_to_back_do_not_move_best_effort_to_and_fro)
{
        struct ph_client *ls, *be;
        uint32_t moves;

        OPEN("explore_permille=0", "slack_permille=0", "be_ahead_us=0");
        ls = ph_ls(0);
        ls->synchronises = 1;
        be = ph_be();
        ph_know(&single30, 0);
        ph_loop(be, &single30, 4);
        ph_every(ls, &small, 310, 640 * US, 200);
        ph_run(20 * MS);
        moves = ph_moves(be);
        ph_run(120 * MS);
        cr_assert_gt(ls->n_latency, 180);
        cr_assert_leq(ph_moves(be), moves + 2);
        cr_assert_eq(ph_last(be)->side, DETSHARE_SIDE_UPPER);
        ph_close();
}

/* A kernel fits several times into gaps of 500 us between requests, so BE runs there. */
Test(policy_detshare, gaps_long_enough_for_a_kernel_are_used)
{
        struct ph_client *ls, *be;
        uint32_t moves;

        OPEN("explore_permille=0", "slack_permille=0", "be_ahead_us=0");
        ls = ph_ls(0);
        ls->synchronises = 1;
        be = ph_be();
        ph_know(&single30, 0);
        ph_loop(be, &single30, 4);
        ph_every(ls, &small, 250, 1000 * US, 100);
        ph_run(20 * MS);
        moves = ph_moves(be);
        ph_run(100 * MS);
        cr_assert_geq(ph_moves(be), moves + 150);
        ph_close();
}

/* --- the two prices ----------------------------------------------------------------------------------------------- */

Test(policy_detshare, beside_short_blocks_priority_alone_is_enough)
{
        struct ph_client *ls, *be;

        OPEN("explore_permille=0");
        ls = ph_ls(0);
        be = ph_be();
        ph_know(&shorts, 0);
        ph_loop(be, &shorts, 4);
        ph_request(ls, &small, 1000);
        ph_run(2 * MS);
        cr_assert_gt(ph_launches(be, 0, 2 * MS), 20);
        cr_assert_eq(ph_moves(be), 0);
        cr_assert_eq(ph_last(be)->n_sms, SMS);
        ph_close();
}

/* BE blocks of 30 us make LS wait 15 us on average. That costs nothing where LS has gaps of 20 us between kernels,
 * and much where it has none. */
Test(policy_detshare, a_waits_cost_depends_on_existing_gaps)
{
        struct ph_client *ls, *be;

        OPEN("explore_permille=0");
        ph_know(&block30, 0);
        ls = taught(0, &small, 50, 24);
        be = ph_be();
        ph_loop(be, &block30, 4);
        ph_run_for(1 * MS);
        ph_request(ls, &small, 200);
        ph_run_for(4 * MS);
        cr_assert_eq(ph_moves(be), 0);
        cr_assert_eq(ph_last(be)->n_sms, SMS);
        ph_close();

        OPEN("explore_permille=0");
        ph_know(&block30, 0);
        ls = taught(0, &small, 50, 0);
        be = ph_be();
        ph_loop(be, &block30, 4);
        ph_run_for(1 * MS);
        ph_request(ls, &small, 2000);
        ph_run_for(2 * MS);
        cr_assert_eq(ph_last(be)->side, DETSHARE_SIDE_UPPER);
        ph_close();
}

/* Requests of 100 us with an objective of 50 ms can wait for blocks of 30 us at each kernel. */
Test(policy_detshare, an_slo_that_leaves_time_lets_best_effort_keep_its_sms)
{
        struct ph_client *ls, *be;
        uint64_t moves;

        OPEN("explore_permille=0", "feel=0");
        ph_know(&block30, 0);
        ls = taught(50 * MS, &small, 50, 0);
        be = ph_be();
        ph_loop(be, &block30, 4);
        ph_run_for(1 * MS);
        moves = ph_moves(be); /* between requests, kernels that the next one will probably meet leave SMs free */
        cr_assert_eq(ph_last(be)->n_sms, SMS);
        ph_request(ls, &small, 2000);
        ph_run_for(2 * MS);
        cr_assert_eq(ph_moves(be), moves);
        cr_assert_eq(ph_last(be)->n_sms, SMS);
        ph_close();
}

/* The session with the shortest requests decides what counts as long. */
Test(policy_detshare, the_shortest_requests_define_a_long_kernel)
{
        for (int two = 0; two < 2; two++) {
                struct ph_client *be, *ls, *other;

                sdev_mask_permille = 110;
                OPEN("explore_permille=0");
                ph_know(&huge, 0);
                other = ph_ls(0);
                other->synchronises = 1;
                ls = taught(0, &small, 200, 0);
                for (int i = 0; two && i < 20; i++) {
                        ph_request(other, &medium, 1000);
                        ph_run_for(30 * MS);
                }
                if (two)
                        ph_request(other, &medium, 1000);
                ph_request(ls, &small, 200);
                ph_run_for(20 * US);
                be = ph_be();
                ph_submit(be, 0, &huge, 0);
                ph_run_for(20 * US);
                cr_assert_lt(ph_last(be)->n_sms, SMS, "%d", two);
                ph_close();
        }
}

/* --- bounds ------------------------------------------------------------------------------------------------------- */

/* The policy launches BE's next kernel 100 us before the last one ends, or earlier by LS's slack: two kernels of 3
 * ms are never on the device together. */
Test(policy_detshare, best_effort_work_is_given_to_the_device_just_in_time)
{
        struct ph_client *be;
        uint64_t from, to;

        OPEN("explore_permille=0", "meet_permille=1000");
        ph_know(&huge, 0);
        (void)taught(0, &small, 50, 0);
        be = ph_be();
        ph_loop(be, &huge, 8);
        from = ph_now() + 3 * MS;
        ph_run_for(60 * MS);
        to = ph_now();
        for (uint32_t i = 1; ph_nth(be, i)->end_ns && ph_nth(be, i + 1)->end_ns; i++) {
                cr_assert_geq(ph_nth(be, i)->launch_ns + 101 * US, ph_nth(be, i - 1)->end_ns);
                cr_assert_leq(ph_nth(be, i)->launch_ns, ph_nth(be, i - 1)->end_ns - 20 * US);
        }
        cr_assert_geq(ph_busy(be, from, to - 3 * MS), 999);
        ph_close();
}

static uint64_t drifting_ns;

static uint64_t drifting_time(const struct ph_kernel *kernel, uint32_t n_sms)
{
        return drifting_ns;
}

static struct ph_kernel drifting = {.name = "drifting", .blocks = SMS, .time = drifting_time};

/* A kernel takes fifty times its expected time: the policy counts overdue kernels as ended, but only up to a bound. */
Test(policy_detshare, kernels_slower_than_expected_do_not_pile_up_on_the_device)
{
        struct ph_client *be;

        OPEN("explore_permille=0");
        PH_KERNELS_ARE(&drifting);
        drifting_ns = 400 * US;
        ph_know(&drifting, 0);
        be = ph_be();
        drifting_ns = 20 * MS;
        ph_loop(be, &drifting, 64);
        for (int i = 0; i < 100; i++) {
                ph_run_for(3 * MS);
                cr_assert_leq(ph_in_flight(be), 6);
        }
        cr_assert_geq(ph_busy(be, 0, 240 * MS), 990);
        ph_close();
}

/* With known kernels and no LS session the device has 1 ms of work in advance. */
Test(policy_detshare, alone_it_has_more_ahead)
{
        struct ph_client *be;

        OPEN("explore_permille=0");
        ph_know(&slope, 0);
        be = ph_be();
        ph_loop(be, &slope, 16);
        ph_run(10 * MS);
        cr_assert_geq(ph_in_flight(be), 1);
        cr_assert_leq(ph_before(be, 0)->launch_ns + 1300 * US, ph_now() + 2 * MS);
        cr_assert_geq(ph_in_flight(be), 2);
        ph_close();
}

static const struct detshare_interference matrix[] = {
        {.ls_load = DETSHARE_LOAD_READ,
                .be_load = DETSHARE_LOAD_READ,
                .be_sms = 66,
                .be_blocks = 0,
                .ls_permille = 1900},
        {.ls_load = DETSHARE_LOAD_READ,
                .be_load = DETSHARE_LOAD_READ,
                .be_sms = 66,
                .be_blocks = 66,
                .ls_permille = 1250},
        {.ls_load = DETSHARE_LOAD_READ,
                .be_load = DETSHARE_LOAD_READ,
                .be_sms = 66,
                .be_blocks = 33,
                .ls_permille = 1090},
        {.ls_load = DETSHARE_LOAD_READ,
                .be_load = DETSHARE_LOAD_WRITE,
                .be_sms = 66,
                .be_blocks = 33,
                .ls_permille = 1080},
        {.ls_load = DETSHARE_LOAD_READ, .be_load = DETSHARE_LOAD_COMPUTE, .be_sms = 66, .ls_permille = 1010},
};

/* Costs of bounds on resident blocks, none of which keeps LS below 1.1 times: beside computing BE a bound has no
 * effect; beside reading BE 66 blocks are nearly as good as 16. */
static const struct detshare_interference beyond[] = {
        {.be_load = DETSHARE_LOAD_COMPUTE, .be_sms = 66, .be_blocks = 0, .ls_permille = 1250},
        {.be_load = DETSHARE_LOAD_COMPUTE, .be_sms = 66, .be_blocks = 66, .ls_permille = 1320},
        {.be_load = DETSHARE_LOAD_COMPUTE, .be_sms = 66, .be_blocks = 16, .ls_permille = 1270},
        {.be_load = DETSHARE_LOAD_READ, .be_sms = 66, .be_blocks = 0, .ls_permille = 1900},
        {.be_load = DETSHARE_LOAD_READ, .be_sms = 66, .be_blocks = 132, .ls_permille = 1700},
        {.be_load = DETSHARE_LOAD_READ, .be_sms = 66, .be_blocks = 66, .ls_permille = 1610},
        {.be_load = DETSHARE_LOAD_READ, .be_sms = 66, .be_blocks = 16, .ls_permille = 1590},
};

/* One measured bound keeps LS within 1.1 times; another one is slightly above and does not qualify. */
static const struct detshare_interference nearly[] = {
        {.be_load = DETSHARE_LOAD_READ, .be_sms = 66, .be_blocks = 0, .ls_permille = 1110},
        {.be_load = DETSHARE_LOAD_READ, .be_sms = 66, .be_blocks = 66, .ls_permille = 1099},
        {.be_load = DETSHARE_LOAD_READ, .be_sms = 66, .be_blocks = 16, .ls_permille = 1090},
};

static uint32_t bound_by(
        const struct detshare_interference *cells, uint32_t n, enum detshare_kernel_bound bound, int with_ls)
{
        struct ph_client *ls, *be;
        uint32_t blocks;

        OPEN("explore_permille=0");
        cr_assert_eq(ds_sched_set_interference(ph.sched, cells, n, ph_now()), 0);
        ph_know(&persistent, bound);
        ls = ph_ls(0);
        be = ph_be();
        if (with_ls)
                ph_request(ls, &small, 1000);
        ph_run(10 * US);
        ph_loop(be, &persistent, 4);
        ph_run(MS);
        blocks = ph_last(be)->max_resident_blocks;
        cr_assert_eq(ph_last(be)->n_sms, with_ls ? 66 : SMS);
        ph_close();
        return blocks;
}

static uint32_t bound_beside_ls(enum detshare_kernel_bound bound, int with_ls)
{
        return bound_by(matrix, DS_ARRAY_SIZE(matrix), bound, with_ls);
}

Test(policy_detshare, resident_blocks_follow_the_calibration)
{
        cr_assert_eq(bound_beside_ls(DETSHARE_BOUND_MEMORY, 1), 33);
        cr_assert_eq(bound_beside_ls(DETSHARE_BOUND_COMPUTE, 1), 0);
        cr_assert_eq(bound_beside_ls(DETSHARE_BOUND_UNKNOWN, 1), 0);
        cr_assert_eq(bound_beside_ls(DETSHARE_BOUND_MEMORY, 0), 0);
}

Test(policy_detshare, where_no_bound_is_enough_it_is_the_weakest_that_is_as_good_as_any)
{
        cr_assert_eq(bound_by(beyond, DS_ARRAY_SIZE(beyond), DETSHARE_BOUND_COMPUTE, 1), 0);
        cr_assert_eq(bound_by(beyond, DS_ARRAY_SIZE(beyond), DETSHARE_BOUND_MEMORY, 1), 66);
        cr_assert_eq(bound_by(nearly, DS_ARRAY_SIZE(nearly), DETSHARE_BOUND_MEMORY, 1), 66);
}

Test(policy_detshare, a_kernel_that_needs_the_whole_gpu_borrows_it_only_while_no_deadline_breaks)
{
        struct ph_client *ls, *be;

        OPEN("starve_ms=20", "feel=0");
        ph_know(&together, 0);
        ls = taught(400 * US, &small, 50, 0);
        be = ph_be();
        ph_request(ls, &medium, 2000); /* 40 ms of LS work */
        ph_run_for(10 * US);
        ph_submit(be, 0, &together, 0);
        ph_run_for(15 * MS);
        cr_assert_null(ph_before(be, 0));
        /* BE is held, but not for ever */
        ph_run_for(10 * MS);
        cr_assert_eq(ph_last(be)->n_sms, SMS);
        ph_close();

        OPEN("starve_ms=20", "feel=0");
        ph_know(&together, 0);
        ls = taught(400 * MS, &small, 50, 0);
        be = ph_be();
        ph_request(ls, &medium, 2000);
        ph_run_for(10 * US);
        ph_submit(be, 0, &together, 0);
        ph_run_for(10 * US);
        cr_assert_eq(ph_last(be)->n_sms, SMS);
        ph_close();
}

/* A BE session with three streams gets as much device time as one with one stream, which loses nothing by it. */
Test(policy_detshare, best_effort_sessions_get_equal_device_time)
{
        struct ph_client *many, *one;

        OPEN("explore_permille=0");
        ph_know(&persistent, 0);
        many = ph_be();
        one = ph_be();
        for (uint32_t i = 0; i < 600; i++)
                ph_submit(many, i % 3, &persistent, 0);
        ph_loop(one, &persistent, 8);
        ph_run(30 * MS);
        cr_assert_geq(ph_busy(one, 0, 30 * MS), 990);
        cr_assert_leq(many->device_ns, one->device_ns + 4 * MS, "%llu and %llu us",
                (unsigned long long)(many->device_ns / US), (unsigned long long)(one->device_ns / US));
        cr_assert_geq(many->device_ns + 4 * MS, one->device_ns);
        ph_loop(one, NULL, 0);
        ph_close();
}

/* A BE kernel that needs fewer SMs than its neighbours stays on their rung. */
Test(policy_detshare, kernels_with_different_stairs_stay_on_one_rung_that_is_good_for_all)
{
        struct ph_client *ls, *be;

        OPEN("explore_permille=0");
        ls = ph_ls(0);
        be = ph_be();
        ph_know(&persistent, 0);
        ph_know(&slope, 0);
        ph_know(&small, 0);
        ph_request(ls, &small, 4000);
        ph_run(10 * US);
        for (int i = 0; i < 12; i++)
                ph_submit(be, 0, i % 2 ? &persistent : &slope, 0);
        ph_run(7 * MS);
        cr_assert_gt(ph_launches(be, 0, 7 * MS), 8);
        cr_assert_leq(ph_moves(be), 1);
        ph_close();
}

/* --- profiles ----------------------------------------------------------------------------------------------------- */

Test(policy_detshare, a_kernel_known_on_few_sm_counts_is_tried_on_others_for_a_small_part_of_the_time)
{
        struct ph_client *be;
        uint64_t elsewhere = 0, all = 0;
        uint32_t rungs = 0;

        OPEN("explore_permille=20");
        be = ph_be();
        ph_loop(be, &persistent, 4);
        ph_run(1000 * MS);
        for (uint32_t i = 0; i < ph.n_log; i++) {
                uint64_t ns = ph.log[i].end_ns - ph.log[i].start_ns;

                if (!ph.log[i].end_ns)
                        continue;
                all += ns;
                elsewhere += ph.log[i].n_sms != SMS ? ns : 0;
                rungs |= ph.log[i].n_sms != SMS ? 1u << ph.log[i].rung % 32 : 0;
        }
        cr_assert_gt(elsewhere, 0);
        cr_assert_leq(elsewhere, all * 25 / 1000);
        cr_assert_geq(__builtin_popcount(rungs), 4);
        cr_assert_leq(__builtin_popcount(rungs), 6);
        ph_close();
}

Test(policy_detshare, nothing_is_tried_while_a_request_is_under_way)
{
        struct ph_client *ls, *be;

        OPEN("explore_permille=1000");
        ls = ph_ls(50 * MS);
        be = ph_be();
        ph_know(&shorts, 0);
        ph_request(ls, &medium, 2000);
        ph_run(10 * US);
        ph_loop(be, &shorts, 4);
        ph_run(20 * MS);
        cr_assert_eq(ph_moves(be), 0);
        ph_close();
}

/* A GPU of one TPC cannot be divided: all sessions work on it. */
Test(policy_detshare, a_gpu_without_a_ladder)
{
        static const char *const names[] = {"detshare", "sgdrc"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                struct ph_client *ls, *be;

                PH_KERNELS_ARE(&small, &persistent, &together);
                ph_open(1, names[i], NULL);
                ls = ph_ls(0);
                be = ph_be();
                ph_loop(be, &persistent, 3);
                ph_every(ls, &small, 20, 30 * MS, 10);
                ph_run(400 * MS);
                cr_assert_eq(ls->n_latency, 10);
                cr_assert_gt(be->ended, 5);
                cr_assert_eq(ph_moves(be), 0);
                ph_close();
        }
}

/* More sessions connect, work and disconnect than the policy has room to remember. */
Test(policy_detshare, its_memory_is_bounded)
{
        struct ph_client *be;

        OPEN("explore_permille=0");
        ph_know(&persistent, 0);
        be = ph_be();
        ph_loop(be, &persistent, 4);
        for (int i = 0; i < 60; i++) {
                struct ph_client *ls = ph_ls(0);

                ph_request(ls, &small, 20);
                ph_run_for(MS);
                cr_assert_eq(ls->n_latency, 1);
                ph_leave(ls);
        }
        ph_run_for(10 * MS);
        cr_assert_eq(ph_last(be)->n_sms, SMS);
        ph_close();
}

/* --- latencies on the simulated timing model (sim) ---------------------------------------------------------------- */

static struct ph_kernel *const sim_kernels[] = {&small, &shorts, &persistent, &block2000};

struct sim_result {
        uint64_t p50_ns, p99_ns, be_ended, moves;
};

/* Requests of 100 small kernels with gaps of 4 us, every 5 ms, beside a closed loop of BE kernels (NULL: alone). */
static struct sim_result sim_beside(const char *policy, const struct ph_kernel *beside, int with_ls)
{
        struct sim_result result;
        struct ph_client *ls, *be;

        ph_open_sim(sim_kernels, DS_ARRAY_SIZE(sim_kernels), policy, strcmp(policy, "detshare") ? NULL : "held_first=0",
                NULL);
        be = ph_be();
        ls = ph_ls(0);
        ls->gap_us = 4;
        ls->synchronises = 1;
        if (beside)
                ph_loop(be, beside, 16);
        ph_run(20 * MS);
        if (with_ls)
                ph_every(ls, &small, 100, 5137 * US, 60);
        ph_run(400 * MS);
        result = (struct sim_result){.be_ended = be->ended, .moves = ph_moves(be)};
        if (with_ls) {
                cr_assert_gt(ls->n_latency, 0);
                result.p50_ns = ph_latency(ls, 500);
                result.p99_ns = ph_latency(ls, 990);
        }
        ph_close();
        return result;
}

/* BE kernels of 132 blocks fill all SMs. Under multistream each LS kernel may wait for one; under detshare only the
 * first may. */
Test(policy_detshare, sim_latency_beside_kernels_that_hold_every_sm)
{
        struct sim_result alone = sim_beside("detshare", NULL, 1), ours = sim_beside("detshare", &persistent, 1),
                          streams = sim_beside("multistream", &persistent, 1);

        cr_assert_lt(ours.p99_ns, streams.p99_ns / 2, "%llu against %llu us", (unsigned long long)(ours.p99_ns / US),
                (unsigned long long)(streams.p99_ns / US));
        cr_assert_lt(ours.p50_ns, streams.p50_ns / 2);
        cr_assert_leq(ours.p99_ns, alone.p99_ns + 2 * persistent.block_ns);
}

Test(policy_detshare, sim_latency_beside_blocks_of_2_ms)
{
        struct sim_result alone = sim_beside("detshare", NULL, 1), ours = sim_beside("detshare", &block2000, 1),
                          streams = sim_beside("multistream", &block2000, 1);

        cr_assert_lt(ours.p99_ns, streams.p99_ns / 2, "%llu against %llu us", (unsigned long long)(ours.p99_ns / US),
                (unsigned long long)(streams.p99_ns / US));
        cr_assert_leq(ours.p50_ns, alone.p50_ns * 11 / 10, "%llu against %llu us alone",
                (unsigned long long)(ours.p50_ns / US), (unsigned long long)(alone.p50_ns / US));
}

/* Without LS work detshare equals multistream, which never holds work back. */
Test(policy_detshare, sim_best_effort_alone_loses_nothing)
{
        struct sim_result ours = sim_beside("detshare", &persistent, 0),
                          streams = sim_beside("multistream", &persistent, 0);

        cr_assert_geq(ours.be_ended * 100, streams.be_ended * 98, "%llu against %llu",
                (unsigned long long)ours.be_ended, (unsigned long long)streams.be_ended);
}

/* Kernels with short blocks stay on all SMs: BE does as well as under multistream, and LS no worse. */
Test(policy_detshare, sim_beside_short_blocks_it_is_multistream)
{
        struct sim_result ours = sim_beside("detshare", &shorts, 1), streams = sim_beside("multistream", &shorts, 1);

        cr_assert_geq(ours.be_ended * 100, streams.be_ended * 95);
        cr_assert_leq(ours.p99_ns * 100, streams.p99_ns * 110);
}
