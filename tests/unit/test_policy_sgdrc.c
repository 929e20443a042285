/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sgdrc and sgdrc-static by the sentences of the paper (sections 4, 7.1 and 9), on the scripted GPU of 66 TPCs
 */
#include "tests/unit/policy_harness.h"

#define SMS 132

static struct ph_kernel small = {.name = "small", .blocks = 16, .block_ns = 20 * US};
static struct ph_kernel wide = {.name = "wide", .blocks = 60, .block_ns = 20 * US};
static struct ph_kernel all = {.name = "all", .blocks = SMS, .block_ns = 20 * US};
static struct ph_kernel big = {.name = "big", .blocks = 40 * SMS, .threads = 1024, .block_ns = 10 * US};
static struct ph_kernel again = {
        .name = "again", .blocks = 40 * SMS, .threads = 1024, .block_ns = 10 * US, .idempotent = 1};

#define OPEN(policy, ...)                                                  \
        do {                                                               \
                PH_KERNELS_ARE(&small, &wide, &all, &big, &again);         \
                ph_open(SMS / 2, policy, __VA_ARGS__ __VA_OPT__(, ) NULL); \
                ph_know(&small, 0);                                        \
                ph_know(&wide, 0);                                         \
                ph_know(&all, 0);                                          \
        } while (0)

/* Number of operations of the class that were running at time ns. */
static uint32_t running(enum detshare_class class_, uint64_t ns)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < ph.n_log; i++)
                n += ph.log[i].client->class_ == class_ && ph.log[i].start_ns <= ns && ph.log[i].end_ns > ns;
        return n;
}

static void one_of_each_runs(void)
{
        for (uint32_t i = 0; i < ph.n_log; i++) {
                cr_assert_leq(running(DETSHARE_CLASS_LS, ph.log[i].start_ns), 1);
                cr_assert_leq(running(DETSHARE_CLASS_BE, ph.log[i].start_ns), 1);
        }
}

/* "At any given time, only one LS kernel and one BE kernel can be colocated on the GPU." */
static void check_one_of_each(const char *policy)
{
        struct ph_client *ls[3], *be[2];

        OPEN(policy);
        for (int i = 0; i < 3; i++)
                ph_request(ls[i] = ph_ls(0), &small, 20);
        for (int i = 0; i < 2; i++)
                ph_loop(be[i] = ph_be(), &big, 4);
        ph_run(5 * MS);
        for (int i = 0; i < 3; i++)
                cr_assert_eq(ls[i]->n_latency, 1);
        ph_loop(be[0], NULL, 0);
        ph_loop(be[1], NULL, 0);
        ph_run(20 * MS);
        cr_assert_gt(ph_stats().launches, 62);
        one_of_each_runs();
        ph_close();
}

Test(policy_sgdrc, one_ls_and_one_be_kernel_at_a_time)
{
        check_one_of_each("sgdrc");
}

Test(policy_sgdrc, static_one_ls_and_one_be_kernel_at_a_time)
{
        check_one_of_each("sgdrc-static");
}

/* "... are launched to the LS (or BE) kernel queue in a round-robin manner": n kernels each. */
static void check_round_robin(const char *policy, const char *turn, uint32_t n)
{
        struct ph_client *ls[3];

        OPEN(policy, turn);
        for (int i = 0; i < 3; i++)
                ls[i] = ph_ls(0);
        for (int i = 0; i < 3; i++)
                ph_request(ls[i], &small, 6);
        ph_run(5 * MS);
        cr_assert_eq(ph.n_log, 18);
        for (uint32_t i = 0; i < 18; i++) {
                if (i % n)
                        cr_assert_eq(ph.log[i].client, ph.log[i - 1].client, "%u", i);
                else if (i)
                        cr_assert_neq(ph.log[i].client, ph.log[i - 1].client, "%u", i);
                if (i >= 3 * n)
                        cr_assert_eq(ph.log[i].client, ph.log[i - 3 * n].client, "%u", i);
        }
        one_of_each_runs();
        ph_close();
}

Test(policy_sgdrc, tasks_of_a_class_take_turns)
{
        check_round_robin("sgdrc", "turn=1", 1);
        check_round_robin("sgdrc-static", "turn=1", 1);
        check_round_robin("sgdrc", "turn=3", 3);
}

/* A client alone in its class gets several kernels launched ahead, which hides the launch time; they run one at a
 * time. */
Test(policy_sgdrc, a_client_alone_in_its_class_is_a_few_kernels_ahead)
{
        struct ph_client *ls;

        OPEN("sgdrc", "ls_depth=3", "turn=1");
        ls = ph_ls(0);
        ph_request(ls, &small, 10);
        ph_run(10 * US);
        cr_assert_eq(ph_in_flight(ls), 3);
        ph_request(ph_ls(0), &small, 10);
        ph_run(70 * US);
        cr_assert_eq(ph_in_flight(ls), 0);
        ph_run(MS);
        one_of_each_runs();
        ph_close();
}

/* "Monopolization state (when the LS kernel queue is empty)" */
Test(policy_sgdrc, while_the_ls_queue_is_empty_best_effort_has_all_sms)
{
        struct ph_client *be;

        OPEN("sgdrc");
        be = ph_be();
        (void)ph_ls(0);
        ph_loop(be, &big, 2);
        ph_run(5 * MS);
        cr_assert_eq(ph_moves(be), 0);
        cr_assert_eq(ph_last(be)->n_sms, SMS);
        ph_close();
}

/* "... the maximum number of SMs required by LS kernels in the sliding window"; BE has the other SMs. */
Test(policy_sgdrc, the_reserve_is_the_largest_need_in_the_window)
{
        struct ph_client *ls, *be;

        OPEN("sgdrc", "window=4", "ls_depth=1");
        ls = ph_ls(0);
        be = ph_be();
        for (int i = 0; i < 40; i++)
                ph_submit(ls, 0, i < 20 ? &small : &wide, 0);
        ph_run(30 * US);
        ph_submit(be, 0, &big, 0);
        ph_run(50 * US); /* the sliding window contains small LS kernels only */
        cr_assert_eq(ph_last(be)->n_sms, SMS - 16);
        cr_assert_eq(ph_last(be)->side, DETSHARE_SIDE_UPPER);
        cr_assert_eq(ph_last(ls)->side, DETSHARE_SIDE_LOWER);
        cr_assert_eq(ph_last(ls)->n_sms, 16);
        ph_run(500 * US); /* the window contains wide LS kernels, which need 60 SMs: the rung of 66 */
        ph_submit(be, 0, &big, 0);
        ph_run(520 * US);
        cr_assert_eq(ph_last(be)->n_sms, 66);
        ph_run(MS);
        cr_assert_eq(ph_last(ls)->n_sms, 66);
        cr_assert_eq(ph_last(ls)->kernel, &wide);
        ph_close();
}

/* SMs of a BE kernel while a wide LS kernel is queued behind three small ones: a window of four sees the wide one, a
 * window of two does not. */
static uint32_t sms_beside(const char *window)
{
        struct ph_client *ls, *be;
        uint32_t n_sms;

        OPEN("sgdrc", window, "ls_depth=1");
        ls = ph_ls(0);
        be = ph_be();
        for (int i = 0; i < 10; i++)
                ph_submit(ls, 0, i < 4 ? &small : &wide, 0);
        ph_run(10 * US);
        ph_submit(be, 0, &big, 0);
        ph_run(15 * US);
        n_sms = ph_last(be)->n_sms;
        ph_close();
        return n_sms;
}

Test(policy_sgdrc, the_window_is_as_long_as_its_parameter_says)
{
        cr_assert_eq(sms_beside("window=4"), 66);
        cr_assert_eq(sms_beside("window=3"), SMS - 16);
}

/* An LS kernel gets only SMs that the running BE kernel leaves: the two sets are disjoint. */
Test(policy_sgdrc, ls_and_be_never_share_an_sm_while_both_run)
{
        struct ph_client *ls, *be;

        OPEN("sgdrc", "window=1", "ls_depth=1", "be_depth=1");
        ls = ph_ls(0);
        be = ph_be();
        for (int i = 0; i < 200; i++)
                ph_submit(ls, 0, i % 7 ? &small : &wide, 0);
        ph_run(10 * US);
        ph_loop(be, &big, 4);
        ph_run(3 * MS);
        for (uint32_t i = 0; i < ph.n_log; i++)
                for (uint32_t k = 0; k < ph.n_log; k++) {
                        const struct ph_log *a = &ph.log[i], *b = &ph.log[k];

                        if (a->client == ls && b->client == be && a->start_ns && b->start_ns &&
                                a->start_ns < b->end_ns && b->start_ns < a->end_ns)
                                cr_assert_leq(a->n_sms + b->n_sms, SMS);
                }
        cr_assert_gt(ph_launches(be, 0, 3 * MS), 2);
        ph_close();
}

Test(policy_sgdrc, when_ls_needs_all_best_effort_waits_for_the_queue_to_be_empty)
{
        struct ph_client *ls, *be;

        OPEN("sgdrc");
        ls = ph_ls(0);
        be = ph_be();
        ph_request(ls, &all, 20);
        ph_run(10 * US);
        ph_submit(be, 0, &big, 0);
        ph_run(350 * US);
        cr_assert_null(ph_before(be, 0));
        ph_run(450 * US);
        cr_assert_eq(ph_last(be)->n_sms, SMS);
        cr_assert_geq(ph_last(be)->launch_ns, 400 * US);
        ph_close();
}

/* "LS tasks can write the eviction flag to preempt a BE kernel. After that, the BE kernel restarts" beside LS. */
Test(policy_sgdrc, a_be_kernel_on_all_sms_is_evicted_and_begins_again_beside_ls)
{
        struct ph_client *ls, *be;

        OPEN("sgdrc");
        ls = ph_ls(0);
        be = ph_be();
        ph_submit(be, 0, &again, 0);
        ph_run(50 * US);
        ph_request(ls, &small, 50);
        ph_run(60 * US);
        cr_assert_eq(ph_stats().kills, 1);
        cr_assert_eq(ph_nth(be, 0)->n_sms, SMS);
        cr_assert_eq(ph_nth(be, 1)->n_sms, SMS - 16);
        cr_assert_eq(ph_last(ls)->n_sms, 16);
        ph_run(2 * MS);
        cr_assert_eq(be->ended, 1);
        cr_assert_eq(ph_stats().kills, 1);
        ph_close();
}

Test(policy_sgdrc, one_that_is_not_proven_idempotent_runs_on)
{
        struct ph_client *ls, *be;

        OPEN("sgdrc");
        ls = ph_ls(0);
        be = ph_be();
        ph_submit(be, 0, &big, 0);
        ph_run(50 * US);
        ph_request(ls, &small, 50);
        ph_run(2 * MS);
        cr_assert_eq(ph_stats().kills, 0);
        cr_assert_null(ph_before(be, 1));
        ph_close();
}

/* A client has two kernels on the device, and the second one must not run beside LS: the first one does not either. */
Test(policy_sgdrc, a_kernel_behind_an_exclusive_one_waits)
{
        struct ph_client *ls, *be;

        OPEN("sgdrc");
        ls = ph_ls(0);
        be = ph_be();
        ph_submit(be, 0, &big, 0);
        ph_submit(be, 0, &again, 0);
        ph_run(50 * US);
        cr_assert_eq(ph_in_flight(be), 2);
        ph_request(ls, &small, 50);
        ph_run(300 * US);
        cr_assert_eq(ph_stats().kills, 0);
        cr_assert_eq(ph_stats().nonsense, 0);
        cr_assert_eq(ph_nth(be, 1)->n_sms, SMS);
        ph_close();
}

/* "statically and evenly partitions resources between LS and BE tasks" */
Test(policy_sgdrc, static_each_class_has_its_half_always)
{
        struct ph_client *ls, *be;

        OPEN("sgdrc-static");
        ls = ph_ls(0);
        be = ph_be();
        ph_loop(be, &big, 2);
        ph_run(2 * MS);
        cr_assert_eq(ph_last(be)->n_sms, 66);
        cr_assert_eq(ph_last(be)->side, DETSHARE_SIDE_UPPER);
        ph_request(ls, &all, 20);
        ph_run(3 * MS);
        cr_assert_eq(ph_last(ls)->n_sms, 66);
        cr_assert_eq(ph_last(ls)->side, DETSHARE_SIDE_LOWER);
        cr_assert_eq(ph_moves(be), 0);
        ph_close();
}
