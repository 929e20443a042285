/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of `detshare` in pauses between requests
 *
 * A scripted GPU of 66 TPCs of two SMs, as in test_policy_detshare.c.
 */
#include "policies/detshare/gaps.h"
#include "tests/unit/policy_harness.h"

#define SMS 132

static struct ph_kernel small = {.name = "small", .blocks = 16, .block_ns = 2 * US};
static struct ph_kernel graph = {.name = "graph", .blocks = 16, .block_ns = 500 * US};
static struct ph_kernel shorts = {.name = "shorts", .blocks = 8 * SMS, .block_ns = 4 * US};
static struct ph_kernel single400 = {.name = "single400", .blocks = SMS, .threads = 1024, .block_ns = 400 * US};
static struct ph_kernel single30 = {.name = "single30", .blocks = SMS, .threads = 1024, .block_ns = 30 * US};
static struct ph_kernel huge = {.name = "huge", .blocks = SMS, .threads = 1024, .block_ns = 3 * MS};

/* Opens the policy such that it holds BE during requests, as for LS sessions that are sensitive to BE. */
#define OPEN(...)                                                                                                    \
        do {                                                                                                         \
                PH_KERNELS_ARE(&small, &graph, &shorts, &single30, &single400, &huge);                               \
                ph_open(SMS / 2, "detshare", "held_first=1", "slack_permille=50", "explore_permille=0", __VA_ARGS__, \
                        NULL);                                                                                       \
        } while (0)

static void request_and_wait(struct ph_client *ls, const struct ph_kernel *kernel, uint32_t n)
{
        const uint32_t before = ls->n_latency;

        ph_request(ls, kernel, n);
        while (ls->n_latency == before)
                ph_run_for(2 * US);
}

/* Counts BE kernels that began in the first 16 us of pauses inside a pair of requests, and in later pauses. */
static void pairs(const char *meet, uint32_t *ret_inside, uint32_t *ret_after)
{
        struct ph_client *ls, *be;
        uint64_t end[2];

        OPEN(meet);
        ph_know(&single30, 0);
        ls = ph_ls(0);
        ls->synchronises = 1;
        be = ph_be();
        ph_loop(be, &single30, 1);
        *ret_inside = *ret_after = 0;
        for (uint32_t i = 0; i < 40; i++) {
                for (uint32_t k = 0; k < 2; k++) {
                        request_and_wait(ls, &small, 100);
                        end[k] = ph_now();
                        ph_run_for(k ? 5 * MS : 16 * US);
                }
                for (uint32_t j = 0; i >= 20 && j < ph.n_log; j++) {
                        const uint64_t at = ph.log[j].client == be ? ph.log[j].launch_ns : 0;

                        *ret_inside += at + 2 * US >= end[0] && at < end[0] + 16 * US;
                        *ret_after += at >= end[1] && at < end[1] + 5 * MS;
                }
        }
        ph_close();
}

/* After a request of LS the next one comes at once, or after 5 ms. No BE kernel starts in the first 16 us of a
 * pause; then BE has all SMs. */
Test(policy_detshare_pauses, in_a_pause_that_may_be_over_at_once_best_effort_waits)
{
        uint32_t inside, after;

        pairs("meet_permille=1000", &inside, &after);
        cr_assert_geq(inside, 18);
        pairs("meet_permille=333", &inside, &after);
        cr_assert_eq(inside, 0);
        cr_assert_geq(after, 20 * 5 * MS / (35 * US));
}

/* LS requests of 0.85 ms arrive every 1 ms. A BE kernel of 3 ms waits, because LS would never catch up after it. Beside
 * requests of 0.6 ms it runs on a part of the SMs. */
Test(policy_detshare_pauses, kernels_longer_than_pauses_wait_beside_a_busy_session)
{
        for (int may = 0; may < 2; may++) {
                struct ph_client *ls, *be;
                uint64_t before;

                OPEN("meet_permille=333");
                ph_know(&huge, 0);
                ls = ph_ls(0);
                ls->synchronises = 1;
                be = ph_be();
                ph_every(ls, &small, may ? 300 : 425, MS, 400);
                ph_run_for(100 * MS);
                ph_loop(be, &huge, 1);
                ph_run_for(50 * MS);
                before = be->ended;
                ph_run_for(200 * MS);
                if (may)
                        cr_assert_geq(be->ended, before + 20);
                else
                        cr_assert_leq(be->ended, before + 5, "%d", (int)(be->ended - before));
                cr_assert_eq(ph_last(be)->side, DETSHARE_SIDE_UPPER);
                ph_close();
        }
}

/* An LS request is one long operation: the session counts as active until it ends, although nothing happens in
 * between. */
Test(policy_detshare_pauses, a_session_was_active_until_its_request_ended)
{
        struct ph_client *ls, *be;
        uint64_t from;

        OPEN("meet_permille=333");
        ph_know(&huge, 0);
        ls = ph_ls(0);
        ls->synchronises = 1;
        for (uint32_t i = 0; i < 20; i++) {
                request_and_wait(ls, &graph, 1);
                ph_run_for(20 * US);
        }
        be = ph_be();
        from = ph_now();
        ph_loop(be, &huge, 1);
        for (uint32_t i = 0; i < 300; i++) {
                request_and_wait(ls, &graph, 1);
                ph_run_for(20 * US);
        }
        cr_assert_geq(be->ended, 2);
        for (uint32_t i = 0; i < ph.n_log; i++)
                if (ph.log[i].client == be && ph.log[i].launch_ns >= from)
                        cr_assert_eq(ph.log[i].side, DETSHARE_SIDE_UPPER, "%u SMs", ph.log[i].n_sms);
        ph_close();
}

/* A BE session whose kernel needs a long pause waits; another BE session with harmless kernels does not wait behind
 * it. */
Test(policy_detshare_pauses, a_waiting_be_session_does_not_block_others)
{
        uint64_t ended[2];

        for (int two = 0; two < 2; two++) {
                struct ph_client *ls, *be;

                sdev_mask_permille = 110;
                OPEN("meet_permille=333");
                ph_know(&single400, 0);
                ph_know(&shorts, 0);
                ls = ph_ls(0);
                ls->synchronises = 1;
                ph_every(ls, &small, 500, 1300 * US, 400);
                ph_run_for(100 * MS);
                if (two)
                        ph_loop(ph_be(), &single400, 4);
                be = ph_be();
                ph_loop(be, &shorts, 4);
                ph_run_for(100 * MS);
                ended[two] = be->ended;
                ph_run_for(200 * MS);
                ended[two] = be->ended - ended[two];
                ph_close();
        }
        cr_assert_geq(ended[0], 500);
        cr_assert_geq(ended[1], ended[0] / 2, "%d of %d", (int)ended[1], (int)ended[0]);
}

/* --- statistics of pauses ----------------------------------------------------------------------------------------- */

Test(policy_detshare_pauses, how_many_of_the_gaps_that_last_so_long_are_over_soon)
{
        struct gaps gaps = {0};

        for (uint32_t i = 0; i < 7; i++)
                gaps_learn(&gaps, 20 * US);
        cr_assert_eq(gaps_over_permille(&gaps, 0, MS), 0, "too few to tell");
        for (uint32_t i = 0; i < 8; i++)
                gaps_learn(&gaps, i ? 600 * US : 20 * US);
        /* 8 gaps of 20 to 22 us, 7 gaps of 576 to 640 us */
        cr_assert_eq(gaps_over_permille(&gaps, 0, 16 * US), 0);
        cr_assert_eq(gaps_over_permille(&gaps, 0, 21 * US), 4 * 1000 / 15);
        cr_assert_eq(gaps_over_permille(&gaps, 0, 32 * US), 8 * 1000 / 15);
        cr_assert_eq(gaps_over_permille(&gaps, 21 * US, US), 4 * 1000 / 11);
        cr_assert_eq(gaps_over_permille(&gaps, 32 * US, 480 * US), 0);
        cr_assert_eq(gaps_over_permille(&gaps, 32 * US, 992 * US), 1000);
        cr_assert_eq(gaps_over_permille(&gaps, 608 * US, 16 * US), 500);
        cr_assert_eq(gaps_over_permille(&gaps, 2 * MS, MS), 0, "none was so long");
        cr_assert_eq(gaps_over_permille(&gaps, UINT64_MAX / 2, UINT64_MAX), 0);
        cr_assert_eq(gaps_edge(0), US);
        cr_assert_eq(gaps_edge(US), US + US / 8);
        cr_assert_eq(gaps_edge(33 * US), 36 * US);
        cr_assert_gt(gaps_edge(UINT64_MAX / 4), UINT64_MAX / 4);
}
