/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tpot-first: decode steps before prefill before BE, by the slack of the time per output token
 */
#include "tests/unit/policy_harness.h"

#define SMS 16u

static struct ph_kernel token = {.name = "token", .blocks = 8, .block_ns = MS};
static struct ph_kernel other = {.name = "other", .blocks = 8, .block_ns = MS};
static struct ph_kernel prompt = {.name = "prompt", .blocks = 4 * SMS, .per_sm = 4, .block_ns = MS};
static struct ph_kernel slow = {.name = "slow", .blocks = 4 * SMS, .per_sm = 4, .block_ns = 20 * MS};
static struct ph_kernel work = {.name = "work", .blocks = 2 * SMS, .per_sm = 2, .block_ns = MS};

static void tpot_open(const char *a, const char *b)
{
        ph_open(SMS / 2, "tpot-first", a, b, NULL);
        PH_KERNELS_ARE(&token, &other, &prompt, &slow, &work);
}

/* Runs the kernel once, so that the policy knows its duration. */
static void warm_up(const struct ph_kernel *kernel)
{
        struct ph_client *client = ph_be();

        ph_submit(client, 0, kernel, 0);
        ph_run(UINT64_MAX);
}

static struct ph_client *server(uint64_t slo_ns)
{
        struct ph_client *client = ph_ls(slo_ns);

        client->synchronises = 1;
        return client;
}

static void says(struct ph_client *client, uint32_t phase)
{
        ds_sched_session_phase(client->session, phase, ph_now());
}

static void decode(struct ph_client *client, uint32_t n)
{
        says(client, DETSHARE_PHASE_DECODE);
        ph_request(client, &token, n);
}

static void prefill(struct ph_client *client, const struct ph_kernel *kernel, uint32_t n)
{
        says(client, DETSHARE_PHASE_PREFILL);
        ph_request(client, kernel, n);
}

/* --- decode ------------------------------------------------------------------------------------------------------- */

Test(policy_tpot, decode_goes_at_once_to_the_whole_gpu)
{
        struct ph_client *a, *b;

        tpot_open(NULL, NULL);
        warm_up(&prompt);
        a = server(30 * MS);
        b = server(30 * MS);
        prefill(b, &prompt, 20);
        ph_run_for(2500 * US);
        decode(a, 3);
        ph_step();
        cr_assert_eq(ph_in_flight(a), 3);
        cr_assert_eq(ph_last(a)->n_sms, SMS);
        cr_assert_eq(ph_last(a)->priority, DETSHARE_PRIORITY_HIGH);
        cr_assert_eq(ph_last(b)->priority, DETSHARE_PRIORITY_LOW);
        ph_close();
}

Test(policy_tpot, decode_with_the_least_slack_goes_first)
{
        struct ph_client *a, *b, *c;

        tpot_open("decode_streams=1", NULL);
        a = server(90 * MS);
        c = server(30 * MS);
        b = server(60 * MS);
        decode(a, 2);
        ph_step();
        decode(b, 2);
        decode(c, 2);
        ph_run(UINT64_MAX);
        cr_assert_eq(ph_nth(c, 0)->start_ns, ph_before(a, 0)->end_ns);
        cr_assert_eq(ph_nth(b, 0)->start_ns, ph_before(c, 0)->end_ns);
        ph_close();
}

Test(policy_tpot, decode_steps_of_a_few_run_at_once)
{
        struct ph_client *clients[3];

        tpot_open("decode_streams=2", NULL);
        for (int i = 0; i < 3; i++) {
                clients[i] = server(30 * MS);
                decode(clients[i], 2);
        }
        ph_step();
        cr_assert_eq(ph_in_flight(clients[0]) + ph_in_flight(clients[1]) + ph_in_flight(clients[2]), 4);
        ph_close();
}

/* --- prefill ------------------------------------------------------------------------------------------------------ */

Test(policy_tpot, prefill_is_free_without_an_answer)
{
        struct ph_client *b;

        tpot_open(NULL, NULL);
        b = server(30 * MS);
        prefill(b, &prompt, 10);
        ph_step();
        cr_assert_eq(ph_in_flight(b), 10);
        cr_assert_eq(ph_last(b)->n_sms, SMS);
        cr_assert_eq(ph_last(b)->max_resident_blocks, 0);
        ph_close();
}

Test(policy_tpot, prefill_beside_an_answer_is_bounded_in_number)
{
        struct ph_client *a, *b;

        tpot_open("prefill_depth=3", NULL);
        warm_up(&prompt);
        a = server(100 * MS);
        b = server(100 * MS);
        decode(a, 10);
        ph_step();
        prefill(b, &prompt, 10);
        ph_step();
        cr_assert_eq(ph_in_flight(b), 3);
        ph_close();
}

/* Launch of a prefill kernel after a decode step of 5 ms has begun, with an objective; NULL: it was not launched. */
static const struct ph_log *beside_step(const struct ph_kernel *kernel, uint64_t slo_ns, const char *param)
{
        static struct ph_log log;
        struct ph_client *a, *b;
        uint32_t n;

        tpot_open(param, NULL);
        warm_up(&prompt);
        warm_up(&slow);
        a = server(slo_ns);
        b = server(slo_ns);
        decode(a, 5); /* makes the duration of a step known */
        ph_run(UINT64_MAX);
        ph_run_for(1000 * MS);
        decode(a, 5);
        ph_step();
        prefill(b, kernel, 1);
        ph_step();
        n = ph_in_flight(b);
        if (n)
                log = *ph_last(b);
        ph_close();
        return n ? &log : NULL;
}

Test(policy_tpot, prefill_that_the_slack_covers_has_the_whole_gpu)
{
        const struct ph_log *log = beside_step(&prompt, 30 * MS, NULL);

        cr_assert_not_null(log);
        cr_assert_eq(log->n_sms, SMS);
        cr_assert_eq(log->max_resident_blocks, 0);
}

Test(policy_tpot, prefill_that_it_does_not_cover_is_confined)
{
        const struct ph_log *log = beside_step(&slow, 20 * MS, "prefill_percent=50");

        cr_assert_not_null(log);
        cr_assert_eq(log->n_sms, SMS / 2);
        cr_assert_eq(log->side, DETSHARE_SIDE_UPPER);
        cr_assert_eq(log->max_resident_blocks, SMS / 2, "one on an SM");
        cr_assert_eq(log->priority, DETSHARE_PRIORITY_LOW);
}

Test(policy_tpot, prefill_waits_where_no_slack_is_left)
{
        cr_assert_null(beside_step(&prompt, 4 * MS, NULL));
}

Test(policy_tpot, prefill_that_waited_long_goes_all_the_same)
{
        struct ph_client *a, *b;
        uint64_t begin_ns;

        tpot_open("starve_ms=50", NULL);
        a = server(MS);
        b = server(MS);
        decode(a, 500);
        ph_step();
        begin_ns = ph_now();
        prefill(b, &prompt, 5);
        ph_run_for(240 * MS);
        cr_assert(ph_launches(b, 0, ph_now()) >= 3 && ph_launches(b, 0, ph_now()) <= 5, "%u",
                ph_launches(b, 0, ph_now()));
        cr_assert_geq(ph_nth(b, 0)->launch_ns, begin_ns);
        cr_assert_leq(ph_nth(b, 0)->launch_ns, begin_ns + 51 * MS);
        ph_close();
}

Test(policy_tpot, an_answer_is_protected_between_its_steps)
{
        struct ph_client *a, *b;

        tpot_open(NULL, NULL);
        warm_up(&slow);
        a = server(20 * MS);
        b = server(20 * MS);
        decode(a, 5);
        ph_run_for(6 * MS);
        prefill(b, &slow, 3);
        ph_step();
        cr_assert_eq(ph_last(b)->n_sms, SMS / 2, "the next step is due");
        ph_run_for(1000 * MS);
        prefill(b, &slow, 3);
        ph_step();
        cr_assert_eq(ph_last(b)->n_sms, SMS, "the answer is over");
        ph_close();
}

/* Start of a new prompt's first operation, ns, while a prefill of 16 x 20 ms runs that began 30 ms before. */
static uint64_t new_prompt_ns(const char *late)
{
        struct ph_client *a, *b, *c;
        uint64_t begin_ns, ns;

        tpot_open("ttft_ms=100", late);
        warm_up(&slow);
        a = server(900 * MS);
        b = server(900 * MS);
        c = server(900 * MS);
        begin_ns = ph_now();
        decode(a, 800); /* so many decode steps that prefill is bounded */
        ph_step();
        prefill(b, &slow, 16);
        ph_run_for(30 * MS);
        prefill(c, &slow, 1);
        ph_run_for(600 * MS);
        ns = ph_nth(c, 0)->launch_ns - begin_ns;
        ph_close();
        return ns;
}

Test(policy_tpot, begun_prompts_go_before_new_ones)
{
        uint64_t ns = new_prompt_ns("late_percent=0");

        cr_assert(ns >= 270 * MS && ns <= 330 * MS, "%lu", (unsigned long)ns);
}

Test(policy_tpot, a_new_prompt_that_can_still_make_it_overtakes_one_that_is_late)
{
        uint64_t ns = new_prompt_ns("late_percent=60");

        cr_assert(ns >= 100 * MS && ns <= 130 * MS, "%lu", (unsigned long)ns);
}

Test(policy_tpot, a_server_that_never_ends_a_step_does_not_keep_prefill_out)
{
        struct ph_client *a, *b;
        uint64_t begin_ns;

        tpot_open(NULL, NULL);
        warm_up(&prompt);
        a = server(20 * MS);
        b = server(20 * MS);
        begin_ns = ph_now();
        decode(a, 200);
        ph_run_for(25 * MS);
        prefill(b, &prompt, 1);
        ph_run_for(100 * MS);
        cr_assert_geq(ph_nth(b, 0)->launch_ns, begin_ns + 40 * MS, "late, no slack");
        cr_assert_leq(ph_nth(b, 0)->launch_ns, begin_ns + 42 * MS, "taken for the next step");
        ph_close();
}

/* --- best effort -------------------------------------------------------------------------------------------------- */

Test(policy_tpot, be_is_free_alone)
{
        struct ph_client *be;

        tpot_open(NULL, NULL);
        be = ph_be();
        ph_loop(be, &work, 4);
        ph_run(10 * MS);
        cr_assert_eq(ph_last(be)->n_sms, SMS);
        cr_assert_eq(ph_busy(be, 0, 10 * MS), 1000);
        ph_close();
}

Test(policy_tpot, be_beside_an_answer_has_few_sms_and_little_on_the_device)
{
        struct ph_client *a, *be;

        tpot_open("be_percent=25", "be_depth=3");
        a = server(100 * MS);
        be = ph_be();
        decode(a, 20);
        ph_step();
        ph_loop(be, &work, 10);
        ph_run_for(MS);
        cr_assert_eq(ph_in_flight(be), 3);
        cr_assert_eq(ph_last(be)->n_sms, SMS / 4);
        cr_assert_eq(ph_last(be)->side, DETSHARE_SIDE_UPPER);
        cr_assert_eq(ph_last(be)->priority, DETSHARE_PRIORITY_LOW);
        ph_close();
}

Test(policy_tpot, be_waits_for_prefill_but_not_for_ever)
{
        struct ph_client *a, *be;
        uint64_t begin_ns;

        tpot_open("starve_ms=50", NULL);
        a = server(30 * MS);
        be = ph_be();
        prefill(a, &prompt, 200);
        ph_step();
        begin_ns = ph_now();
        ph_request(be, &work, 5);
        ph_run_for(160 * MS);
        cr_assert_geq(ph_nth(be, 0)->launch_ns, begin_ns + 50 * MS);
        cr_assert_leq(ph_nth(be, 0)->launch_ns, begin_ns + 51 * MS);
        cr_assert(ph_launches(be, 0, ph_now()) >= 2 && ph_launches(be, 0, ph_now()) <= 3, "one at a time");
        ph_close();
}

Test(policy_tpot, be_waits_where_no_slack_is_left)
{
        struct ph_client *a, *be;
        uint64_t begin_ns;

        tpot_open(NULL, NULL);
        a = server(20 * MS);
        be = ph_be();
        begin_ns = ph_now();
        decode(a, 30);
        ph_run_for(22 * MS);
        ph_request(be, &work, 1);
        ph_run(UINT64_MAX);
        cr_assert_geq(ph_last(be)->launch_ns, begin_ns + 30 * MS, "when the step has ended");
        ph_close();
}

/* --- recognising phases without a hint ---------------------------------------------------------------------------- */

/* Priority of the first kernel of the n-th request; a request recognised as prefill has the low priority. */
static uint32_t priority(const struct ph_client *client, uint64_t request)
{
        for (uint32_t i = 0; i < ph.n_log; i++)
                if (ph.log[i].client == client && ph.log[i].request == request)
                        return ph.log[i].priority;
        cr_assert_fail("no such request");
        return 0;
}

static struct ph_client *repeated(uint64_t slo_ns, int synchronises)
{
        struct ph_client *client;

        tpot_open(NULL, NULL);
        client = ph_ls(slo_ns);
        client->synchronises = synchronises;
        for (int i = 0; i < 4; i++) {
                ph_request(client, &work, 3);
                ph_run_for(5 * MS);
        }
        return client;
}

Test(policy_tpot, a_short_sequence_that_repeats_is_a_decode_step)
{
        for (int synchronises = 0; synchronises < 2; synchronises++) {
                struct ph_client *client = repeated(30 * MS, synchronises);

                cr_assert_eq(priority(client, 1), DETSHARE_PRIORITY_LOW, "its grids fill the GPU");
                cr_assert_eq(priority(client, 2), DETSHARE_PRIORITY_LOW);
                cr_assert_eq(priority(client, 3), DETSHARE_PRIORITY_HIGH);
                cr_assert_eq(priority(client, 4), DETSHARE_PRIORITY_HIGH);
                ph_close();
        }
}

/* A client that ran sequences of n_a kernels a and n_b kernels b alternately, four in all */
static struct ph_client *in_turn(const struct ph_kernel *a, uint32_t n_a, const struct ph_kernel *b, uint32_t n_b)
{
        struct ph_client *client;

        tpot_open(NULL, NULL);
        client = server(30 * MS);
        for (int i = 0; i < 4; i++) {
                ph_request(client, i % 2 ? b : a, i % 2 ? n_b : n_a);
                ph_run_for(25 * MS);
        }
        return client;
}

Test(policy_tpot, a_tenth_more_or_fewer_operations_repeat_it)
{
        struct ph_client *client = in_turn(&work, 10, &work, 11);

        cr_assert_eq(priority(client, 2), DETSHARE_PRIORITY_LOW);
        cr_assert_eq(priority(client, 3), DETSHARE_PRIORITY_HIGH);
        ph_close();
        client = in_turn(&work, 10, &work, 12);
        for (uint64_t i = 1; i <= 4; i++)
                cr_assert_eq(priority(client, i), DETSHARE_PRIORITY_LOW);
        ph_close();
}

Test(policy_tpot, other_kernels_do_not)
{
        struct ph_client *client = in_turn(&work, 3, &prompt, 3);

        ph_request(client, &prompt, 3);
        ph_run_for(25 * MS);
        for (uint64_t i = 1; i <= 5; i++)
                cr_assert_eq(priority(client, i), DETSHARE_PRIORITY_LOW);
        ph_close();
}

Test(policy_tpot, one_that_takes_longer_than_a_token_may_is_not)
{
        struct ph_client *client = repeated(2 * MS, 1);

        cr_assert_eq(priority(client, 4), DETSHARE_PRIORITY_LOW);
        ph_close();
}

Test(policy_tpot, a_large_grid_that_no_step_has_is_prefill_and_the_rest_of_its_sequence)
{
        struct ph_client *client = repeated(30 * MS, 1);

        ph_submit(client, 0, &prompt, 0);
        ph_run_for(1500 * US);
        ph_submit(client, 0, &work, 0);
        ph_run_for(5 * MS);
        cr_assert_eq(ph_before(client, 1)->priority, DETSHARE_PRIORITY_LOW);
        cr_assert_eq(ph_before(client, 0)->priority, DETSHARE_PRIORITY_LOW, "the client has not waited yet");
        ph_close();
}

Test(policy_tpot, unknown_work_is_protected)
{
        struct ph_client *client;

        tpot_open(NULL, NULL);
        client = server(30 * MS);
        ph_request(client, &other, 3);
        ph_run(UINT64_MAX);
        cr_assert_eq(ph_last(client)->priority, DETSHARE_PRIORITY_HIGH);
        ph_close();
}

Test(policy_tpot, a_hint_of_the_client_wins)
{
        struct ph_client *client = repeated(30 * MS, 1);

        prefill(client, &work, 3);
        ph_run_for(5 * MS);
        cr_assert_eq(ph_last(client)->priority, DETSHARE_PRIORITY_LOW);
        decode(client, 3);
        ph_run_for(5 * MS);
        cr_assert_eq(ph_last(client)->priority, DETSHARE_PRIORITY_HIGH);
        ph_close();
}
