/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `detshare` with measured costs of BE (policies/detshare/felt.h): the place of BE kernels while requests run, on the
 * virtual clock
 *
 * The scripted GPU has 66 TPCs of two SMs. LS kernels take 1.5 times as long beside too much work of a certain BE
 * session. No profile or price predicts that, so the policy must measure it.
 */
#include "tests/unit/policy_harness.h"

#define SMS 132

/* The BE session that slows LS down. */
static const struct ph_client *touched_by;

static uint64_t half_more(const struct ph_kernel *kernel, uint64_t alone_ns, uint32_t n_others)
{
        (void)kernel;
        (void)n_others;
        return touched_by && ph_in_flight(touched_by) ? alone_ns * 3 / 2 : alone_ns;
}

static uint64_t many_more(const struct ph_kernel *kernel, uint64_t alone_ns, uint32_t n_others)
{
        return half_more(kernel, alone_ns, n_others) == alone_ns ? alone_ns : 10 * alone_ns;
}

static uint64_t all_more(const struct ph_kernel *kernel, uint64_t alone_ns, uint32_t n_others)
{
        (void)kernel;
        return n_others ? alone_ns * 4 : alone_ns;
}

static struct ph_kernel small = {.name = "small", .blocks = 16, .block_ns = 2 * US};
static struct ph_kernel shorts = {.name = "shorts", .blocks = 8 * SMS, .block_ns = 4 * US};
static struct ph_kernel endless = {.name = "endless", .blocks = 16, .block_ns = 2000 * MS};
static struct ph_kernel wave = {.name = "wave", .blocks = SMS, .threads = 1024, .block_ns = 2 * MS};
static struct ph_kernel stuck = {.name = "stuck", .blocks = 16, .block_ns = 2 * US, .beside = many_more};
static struct ph_kernel slowed = {.name = "slowed", .blocks = 16, .block_ns = 800 * US, .beside = all_more};
static struct ph_kernel touchy = {.name = "touchy", .blocks = 16, .block_ns = 50 * US, .beside = half_more};

/* Policy parameters that make prices and regimes act as with known BE sessions, and a slack large enough to be seen. */
#define KNOWN "held_first=0", "slack_permille=50"
#define OPEN(...)                                                                           \
        do {                                                                                \
                PH_KERNELS_ARE(&small, &shorts, &endless, &touchy, &wave, &stuck, &slowed); \
                ph_open(SMS / 2, "detshare", KNOWN, __VA_ARGS__ __VA_OPT__(, ) NULL);       \
        } while (0)

/* 200 requests of ten kernels beside a closed loop of BE. Returns how many of the last 100 took longer than alone,
 * percent. */
static uint32_t felt_slower(const struct ph_kernel *kernel, struct ph_client **ret_be, struct ph_client **ret_ls)
{
        struct ph_client *ls = *ret_ls = ph_ls(0);
        uint32_t slower = 0;

        ls->synchronises = 1;
        ls->gap_us = 55;
        touched_by = *ret_be = ph_be();
        ph_know(kernel, 0);
        ph_loop(*ret_be, kernel, 4);
        ph_every(ls, &touchy, 10, 1500 * US, 200);
        ph_run_for(310 * MS);
        cr_assert_eq(ls->n_latency, 200);
        for (uint32_t i = 100; i < 200; i++)
                slower += ls->latency[i] > 13 * touchy.block_ns;
        return slower;
}

/* Number of BE kernels launched since from_ns. */
static uint32_t launched(const struct ph_client *be, uint64_t from_ns)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < ph.n_log; i++)
                n += ph.log[i].client == be && ph.log[i].launch_ns >= from_ns;
        return n;
}

/* A cost that no price predicts is measured: BE runs between requests, and beside a few of them as a trial. */
Test(policy_detshare_felt, best_effort_that_costs_requests_more_than_the_slack_is_held_while_they_run)
{
        struct ph_client *be, *ls;
        uint64_t busy;

        OPEN("explore_permille=0", "be_ahead_us=0");
        cr_assert_leq(felt_slower(&shorts, &be, &ls), 3);
        busy = ph_busy(be, 160 * MS, 310 * MS);
        cr_assert(busy > 450 && busy < 720, "%llu", (unsigned long long)busy);
        ph_close();
        OPEN("explore_permille=0", "be_ahead_us=0", "feel=0");
        cr_assert_geq(felt_slower(&shorts, &be, &ls), 90);
        ph_close();
}

/* The default: BE is held during the first requests beside unknown BE. */
Test(policy_detshare_felt, unknown_best_effort_is_held_first)
{
        for (int held = 0; held < 2; held++) {
                struct ph_client *be, *ls;
                uint32_t slower = 0;

                OPEN("explore_permille=0", "be_ahead_us=0", held ? "held_first=1" : "held_first=0");
                (void)felt_slower(&shorts, &be, &ls);
                for (uint32_t i = 0; i < 100; i++)
                        slower += ls->latency[i] > 13 * touchy.block_ns;
                if (held)
                        cr_assert_leq(slower, 2, "%u", slower);
                else
                        cr_assert_geq(slower, 4, "%u", slower);
                ph_close();
        }
}

/* Requests of several sessions overlap all the time: each session's cost is found, and BE without cost returns. */
Test(policy_detshare_felt, costs_are_found_with_overlapping_requests)
{
        struct ph_client *be, *ls[2];
        uint64_t busy;

        OPEN("explore_permille=0", "be_ahead_us=0", "held_first=1");
        touched_by = NULL;
        be = ph_be();
        ph_know(&shorts, 0);
        ph_loop(be, &shorts, 4);
        for (int i = 0; i < 2; i++) {
                ls[i] = ph_ls(0);
                ls[i]->synchronises = 1;
                ph_every(ls[i], &touchy, 2, 110 * US + i, 1600);
                ph_run_for(30 * US);
        }
        ph_run_for(170 * MS);
        busy = ph_busy(be, ph_now() - 10 * MS, ph_now());
        cr_assert_geq(busy, 800, "%llu", (unsigned long long)busy);
        ph_close();
}

/* The fifth request is the first one for which BE is held as a comparison; it is one kernel of 2 s. */
Test(policy_detshare_felt, a_request_that_goes_on_is_not_the_measure_for_ever)
{
        struct ph_client *be, *ls;

        OPEN("explore_permille=0");
        ls = ph_ls(0);
        ls->synchronises = 1;
        be = ph_be();
        ph_know(&shorts, 0);
        ph_loop(be, &shorts, 4);
        for (uint32_t i = 0; i < 4; i++) {
                ph_request(ls, &small, 10);
                ph_run_for(5 * MS);
        }
        ph_request(ls, &endless, 1);
        ph_run_for(1000 * MS);
        cr_assert_leq(ph_busy(be, ph_now() - 1000 * MS, ph_now() - 955 * MS), 100, "it is held at first");
        cr_assert_geq(ph_busy(be, ph_now() - 900 * MS, ph_now()), 900);
        ph_close();
}

/* A trial of more BE must cost LS little more than is needed to recognise its outcome. */
Test(policy_detshare_felt, a_trial_is_given_up_when_it_is_known_how_it_ends)
{
        struct ph_client *be, *ls;
        uint32_t trials = 0;
        uint64_t most = 0;

        OPEN("explore_permille=0", "be_ahead_us=0", "held_first=1");
        ls = ph_ls(0);
        ls->synchronises = 1;
        touched_by = be = ph_be();
        ph_know(&shorts, 0);
        ph_loop(be, &shorts, 4);
        ls->gap_us = 3;
        ph_every(ls, &stuck, 500, 2500 * US, 450);
        ph_run_for(1150 * MS);
        cr_assert_eq(ls->n_latency, 450);
        for (uint32_t i = 100; i < 450; i++) {
                trials += ls->latency[i] > 3000 * US;
                most = ls->latency[i] > most ? ls->latency[i] : most;
        }
        cr_assert(trials >= 2 && trials <= 40, "%u", trials);
        cr_assert_leq(most, 6500 * US, "%llu us of some 1700, or of 10000", (unsigned long long)most / 1000);
        ph_close();
}

/* feel=0 switches regimes off, also for the first session; held_first then has no effect. */
Test(policy_detshare_felt, without_regimes_best_effort_is_held_for_nobody)
{
        for (int late = 0; late < 2; late++) {
                struct ph_client *be, *ls;
                uint64_t from;

                PH_KERNELS_ARE(&small, &shorts);
                ph_open(SMS / 2, "detshare", "feel=0", "explore_permille=0", NULL);
                ls = ph_ls(0);
                ls->synchronises = 1;
                be = ph_be();
                ph_know(&shorts, 0);
                if (!late)
                        ph_loop(be, &shorts, 4);
                for (uint32_t i = 0; i < 4; i++) {
                        ph_request(ls, &small, 10);
                        ph_run_for(1 * MS);
                }
                if (late)
                        ph_loop(be, &shorts, 4);
                ph_run_for(1 * MS);
                ph_request(ls, &small, 2000);
                ph_run_for(1 * MS);
                from = ph_now();
                ph_run_for(2 * MS);
                cr_assert_geq(launched(be, from), 40, "%d: %u", late, launched(be, from));
                ph_close();
        }
}

/*
 * A request is longer beside BE than alone, and long requests may lose more. If the length beside BE counted as the
 * length, it would grow without end.
 */
Test(policy_detshare_felt, how_long_requests_are_is_learnt_without_best_effort)
{
        struct ph_client *be, *ls;
        uint64_t from;
        uint32_t n = 0;

        sdev_mask_permille = 110;
        OPEN("explore_permille=0", "feel=0");
        ls = ph_ls(0);
        ls->synchronises = 1;
        ph_know(&wave, 0);
        ph_every(ls, &slowed, 1, 5000 * US, 600);
        ph_run_for(100 * MS);
        be = ph_be();
        ph_loop(be, &wave, 4);
        ph_run_for(2500 * MS);
        from = ph_now();
        ph_run_for(300 * MS);
        for (uint32_t i = 0; i < ph.n_log; i++) {
                if (ph.log[i].client != be || ph.log[i].launch_ns < from)
                        continue;
                cr_assert_eq(ph.log[i].side, DETSHARE_SIDE_UPPER, "%u SMs", ph.log[i].n_sms);
                n++;
        }
        cr_assert_geq(n, 20, "%u", n);
        ph_close();
}

Test(policy_detshare_felt, best_effort_returns_when_it_costs_nothing)
{
        struct ph_client *be, *other, *ls;
        uint64_t from;

        OPEN("explore_permille=0", "be_ahead_us=0");
        cr_assert_leq(felt_slower(&shorts, &be, &ls), 3);
        touched_by = NULL;
        other = ph_be();
        ph_loop(other, &shorts, 4);
        ph_every(ls, &touchy, 10, 1500 * US, 1400);
        ph_run_for(2150 * MS);
        from = ph_now() - 150 * MS;
        cr_assert_geq(ph_busy(be, from, ph_now()) + ph_busy(other, from, ph_now()), 1600, "two of them, all the time");
        ph_close();
}
