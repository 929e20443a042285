/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edf, gemini's token, paella's order of jobs and antman's sleeps, compared with their rules on the virtual clock
 */
#include "tests/unit/policy_harness.h"

#define SMS 16u

static struct ph_kernel full = {.name = "full", .blocks = SMS, .block_ns = MS};
static struct ph_kernel full2 = {.name = "full2", .blocks = SMS, .block_ns = 3 * MS};
static struct ph_kernel quarter = {.name = "quarter", .blocks = SMS / 4, .block_ns = MS};
static struct ph_kernel ten = {.name = "ten", .blocks = SMS, .block_ns = 10 * MS};
static struct ph_kernel short_ = {.name = "short", .blocks = SMS, .block_ns = 10 * US};
static struct ph_kernel medium = {.name = "medium", .blocks = SMS, .block_ns = 100 * US};
static struct ph_kernel long_ = {.name = "long", .blocks = SMS, .block_ns = 600 * MS};
static struct ph_kernel longest = {.name = "longest", .blocks = SMS, .block_ns = 2000 * MS};

static uint64_t varying_ns;

static uint64_t varying_time(const struct ph_kernel *kernel, uint32_t n_sms)
{
        (void)kernel;
        (void)n_sms;
        return varying_ns;
}

static struct ph_kernel varying = {.name = "varying", .blocks = SMS, .block_ns = MS, .time = varying_time};

/* The client that slows others: kernels that run beside its kernels take disturbed_percent longer; NULL: none. */
static const struct ph_client *disturbing;
static uint64_t disturbed_percent;

static uint64_t beside(const struct ph_kernel *kernel, uint64_t alone_ns, uint32_t n_others)
{
        (void)kernel;
        (void)n_others;
        return disturbing && ph_in_flight(disturbing) ? alone_ns * disturbed_percent / 100 : alone_ns;
}

static struct ph_kernel sensitive = {.name = "sensitive", .blocks = SMS / 2, .block_ns = MS, .beside = beside};

#define KERNELS_ARE_TOLD() \
        PH_KERNELS_ARE(&full, &full2, &quarter, &ten, &short_, &medium, &long_, &longest, &varying, &sensitive)

/* Runs one kernel of each kind in sequence, so that the scheduler knows their times. */
static void warm_up(struct ph_client *client, const struct ph_kernel *kernel)
{
        ph_submit(client, 1, kernel, 0);
        ph_run(UINT64_MAX);
}

/* Asserts that operations of two clients never overlap. */
static void check_exclusive(void)
{
        for (uint32_t i = 1; i < ph.n_log; i++)
                if (ph.log[i].client != ph.log[i - 1].client && ph.log[i].start_ns)
                        cr_assert_geq(ph.log[i].start_ns, ph.log[i - 1].end_ns);
}

/* --- edf ---------------------------------------------------------------------------------------------------------- */

Test(policy_peers_time, edf_serves_the_request_that_is_due_first)
{
        static const uint64_t slo[4] = {9 * MS, 3 * MS, 0, 6 * MS};
        struct ph_client *clients[4];

        ph_open(SMS / 2, "edf", NULL);
        KERNELS_ARE_TOLD();
        for (int i = 0; i < 4; i++)
                clients[i] = i == 2 ? ph_be() : ph_ls(slo[i]);
        for (int i = 0; i < 4; i++)
                ph_request(clients[i], &short_, 5);
        ph_run(UINT64_MAX);
        cr_assert_leq(ph_before(clients[1], 0)->end_ns, ph_nth(clients[3], 0)->start_ns);
        cr_assert_leq(ph_before(clients[3], 0)->end_ns, ph_nth(clients[0], 0)->start_ns);
        cr_assert_leq(ph_before(clients[0], 0)->end_ns, ph_nth(clients[2], 0)->start_ns, "no deadline comes last");
        cr_assert_eq(ph_last(clients[2])->end_ns, 20 * 10 * US, "one at a time, no gap");
        check_exclusive();
        ph_close();
}

Test(policy_peers_time, edf_prefers_a_later_request_with_an_earlier_deadline)
{
        struct ph_client *slow, *fast;

        ph_open(SMS / 2, "edf", NULL);
        KERNELS_ARE_TOLD();
        slow = ph_ls(50 * MS);
        fast = ph_ls(2 * MS);
        ph_request(slow, &full, 10);
        ph_run(2 * MS + 500 * US);
        ph_request(fast, &short_, 1);
        ph_run(UINT64_MAX);
        cr_assert_eq(ph_last(fast)->start_ns, 3 * MS, "when what is in flight has ended");
        cr_assert_eq(ph_last(slow)->end_ns, 10 * MS + 10 * US);
        ph_close();
}

Test(policy_peers_time, edf_a_late_request_is_still_first)
{
        struct ph_client *late, *other;

        ph_open(SMS / 2, "edf", NULL);
        KERNELS_ARE_TOLD();
        late = ph_ls(2 * MS);
        other = ph_ls(8 * MS);
        ph_request(late, &full, 5);
        ph_request(other, &full, 1);
        ph_run(UINT64_MAX);
        cr_assert_eq(ph_last(other)->start_ns, 5 * MS);
        ph_close();
}

/* Runs LS work that would use the whole GPU for ever; returns how often BE ran. */
static uint32_t edf_starve(const char *due)
{
        struct ph_client *ls, *be;
        uint32_t n;

        ph_open(SMS / 2, "edf", due, NULL);
        KERNELS_ARE_TOLD();
        ls = ph_ls(500 * MS);
        be = ph_be();
        ph_every(ls, &full, 4, 4 * MS, 1000);
        ph_loop(be, &full, 2);
        ph_run(3900 * MS);
        n = ph_launches(be, 0, ph_now());
        ph_close();
        return n;
}

Test(policy_peers_time, edf_work_without_deadline_runs_eventually)
{
        uint32_t n = edf_starve("due_ms=1000");

        cr_assert(n >= 3 && n <= 20, "%u", n);
        cr_assert_eq(edf_starve("due_ms=0"), 0);
}

Test(policy_peers_time, edf_sends_short_operations_ahead)
{
        struct ph_client *client;

        ph_open(SMS / 2, "edf", "ahead_us=100", NULL);
        KERNELS_ARE_TOLD();
        client = ph_be();
        warm_up(client, &short_);
        for (int i = 0; i < 40; i++)
                ph_submit(client, 0, &short_, 0);
        ph_step();
        cr_assert_eq(ph_in_flight(client), 10);
        ph_close();
}

/* --- gemini ------------------------------------------------------------------------------------------------------- */

static struct ph_client *gemini_client(uint32_t request, uint32_t limit)
{
        return ph_client(&(struct ds_sched_session_config){
                .class_ = DETSHARE_CLASS_BE, .gpu_request = request, .gpu_limit = limit});
}

/* Two clients that always have a next kernel, for one minute. busy[]: their shares of the last 40 s, permille. */
static void gemini_run(const uint32_t share[2][2], uint64_t busy[2])
{
        struct ph_client *clients[2];

        ph_open(SMS / 2, "gemini", NULL);
        KERNELS_ARE_TOLD();
        for (int i = 0; i < 2; i++) {
                clients[i] = gemini_client(share[i][0], share[i][1]);
                ph_loop(clients[i], &ten, 1);
        }
        ph_run(60000 * MS);
        for (int i = 0; i < 2; i++)
                busy[i] = ph_busy(clients[i], 20000 * MS, 60000 * MS);
        check_exclusive();
        ph_close();
}

Test(policy_peers_time, gemini_limits_hold_and_the_rest_stays_idle)
{
        uint64_t busy[2];

        gemini_run((const uint32_t[2][2]){{0, 300}, {0, 500}}, busy);
        cr_assert(busy[0] > 280 && busy[0] <= 305, "%lu", (unsigned long)busy[0]);
        cr_assert(busy[1] > 480 && busy[1] <= 505, "%lu", (unsigned long)busy[1]);
}

Test(policy_peers_time, gemini_requests_are_met_and_the_rest_is_shared)
{
        uint64_t busy[2];

        gemini_run((const uint32_t[2][2]){{600, 0}, {200, 0}}, busy);
        cr_assert(busy[0] > 580 && busy[0] < 680, "%lu", (unsigned long)busy[0]);
        cr_assert(busy[1] > 300, "%lu", (unsigned long)busy[1]);
        cr_assert(busy[0] + busy[1] > 970, "work conserving below the limits");
}

Test(policy_peers_time, gemini_without_shares_all_get_the_same)
{
        uint64_t busy[2];

        gemini_run((const uint32_t[2][2]){{0, 0}, {0, 0}}, busy);
        cr_assert(busy[0] > 450 && busy[1] > 450);
}

Test(policy_peers_time, gemini_requests_that_add_up_to_more_are_missed_alike)
{
        uint64_t busy[2];

        gemini_run((const uint32_t[2][2]){{800, 0}, {800, 0}}, busy);
        cr_assert(busy[0] > 450 && busy[1] > 450);
}

/* A client waits for each of its kernels and needs 10 us until the next one, so it often has nothing ready when its
 * turn ends. */
Test(policy_peers_time, gemini_serves_requests_of_a_waiting_client)
{
        struct ph_client *client, *others[2];
        uint64_t busy;

        ph_open(SMS / 2, "gemini", "quota_ms=2", "min_quota_ms=2", "window_ms=100", NULL);
        KERNELS_ARE_TOLD();
        client = gemini_client(600, 0);
        for (int i = 0; i < 2; i++)
                ph_loop(others[i] = gemini_client(0, 0), &medium, 2);
        while (ph_now() < 400 * MS) {
                uint64_t ended = client->ended;

                ph_submit(client, 0, &medium, 0);
                while (client->ended == ended)
                        ph_run_for(10 * US);
                ph_run_for(10 * US);
        }
        busy = ph_busy(client, 200 * MS, 400 * MS); /* the client is busy in ten of eleven parts of its turns */
        cr_assert(busy >= 510 && busy <= 600, "%lu", (unsigned long)busy);
        for (int i = 0; i < 2; i++)
                cr_assert_geq(ph_busy(others[i], 200 * MS, 400 * MS), 150);
        check_exclusive();
        ph_close();
}

/* The clients of the first n turns, as decimal digits from 1. */
static uint64_t turns(uint32_t n)
{
        uint64_t digits = 0;

        for (uint32_t i = 0; i < ph.n_log && n; i++) {
                if (i && ph.log[i].client == ph.log[i - 1].client && ph.log[i].start_ns % (250 * MS))
                        continue;
                digits = digits * 10 + ph.log[i].client->id;
                n--;
        }
        return digits;
}

Test(policy_peers_time, gemini_turns_go_to_new_ones_then_by_missing_then_by_use)
{
        struct ph_client *clients[3];

        ph_open(SMS / 2, "gemini", NULL);
        KERNELS_ARE_TOLD();
        clients[0] = gemini_client(0, 0);
        clients[1] = gemini_client(200, 0);
        clients[2] = gemini_client(500, 0);
        for (int i = 0; i < 3; i++)
                ph_loop(clients[i], &ten, 1);
        ph_run(2500 * MS);
        /* all three clients once; then the one that lacks most of its minimum share: 95% of a half against 87.5% of
         * a fifth, then 90%, 85%, 75%, and so on */
        cr_assert_eq(turns(7), 2313323, "%lu", (unsigned long)turns(7));
        ph_close();
}

Test(policy_peers_time, gemini_serves_a_new_client_next)
{
        struct ph_client *first, *second, *late;

        ph_open(SMS / 2, "gemini", NULL);
        KERNELS_ARE_TOLD();
        first = gemini_client(900, 0);
        second = gemini_client(0, 0);
        ph_loop(first, &ten, 1);
        ph_loop(second, &ten, 1);
        ph_run(1600 * MS);
        late = gemini_client(0, 0);
        ph_loop(late, &ten, 1);
        ph_run(2500 * MS);
        cr_assert_eq(ph_nth(late, 0)->start_ns, 1750 * MS, "%lu", (unsigned long)ph_nth(late, 0)->start_ns);
        ph_close();
}

/* Duration of the client's first turn at or after from_ns. */
static uint64_t turn_ns(const struct ph_client *client, uint64_t from_ns)
{
        uint64_t begin_ns = 0;

        for (uint32_t i = 0; i < ph.n_log; i++) {
                if (ph.log[i].client == client && ph.log[i].start_ns >= from_ns && !begin_ns)
                        begin_ns = ph.log[i].start_ns;
                else if (ph.log[i].client != client && begin_ns)
                        return ph.log[i].start_ns - begin_ns;
        }
        return 0;
}

Test(policy_peers_time, gemini_the_quota_follows_the_bursts)
{
        struct ph_client *bursty, *other;

        ph_open(SMS / 2, "gemini", NULL);
        KERNELS_ARE_TOLD();
        bursty = gemini_client(0, 0);
        ph_every(bursty, &ten, 3, 100 * MS, 3);
        ph_run(1000 * MS);
        other = gemini_client(0, 0);
        ph_loop(bursty, &full, 1);
        ph_loop(other, &full, 1);
        ph_run(3000 * MS);
        /* the bursty client had 3 x 32 ms, then 100 ms twice, as the other client had 250 ms; with the first quota
         * it would have had 250 ms */
        cr_assert_eq(turn_ns(bursty, 1100 * MS), 200 * MS, "%lu", (unsigned long)turn_ns(bursty, 1100 * MS));
        ph_close();
}

Test(policy_peers_time, gemini_half_of_the_quota_is_the_longest_burst)
{
        struct ph_client *client, *other;
        uint64_t ns;

        ph_open(SMS / 2, "gemini", NULL);
        KERNELS_ARE_TOLD();
        client = gemini_client(0, 0);
        other = gemini_client(0, 0);
        ph_submit(client, 0, &long_, 0);
        ph_run(100 * MS);
        ph_loop(other, &full, 1);
        ph_loop(client, &full, 1);
        ph_run(3000 * MS);
        ns = turn_ns(client, 800 * MS);
        cr_assert(ns >= 424 * MS && ns <= 427 * MS, "(250 + 600) / 2: %lu", (unsigned long)ns);
        ph_close();
}

/* Number of times that a client loses the token: it runs two kernels of 10 us with a gap in between, while another
 * client waits. */
static int gemini_gap(uint32_t gap_us)
{
        struct ph_client *client, *other;
        int others = 0;

        ph_open(SMS / 2, "gemini", NULL);
        KERNELS_ARE_TOLD();
        client = gemini_client(0, 0);
        other = gemini_client(0, 0);
        client->gap_us = gap_us;
        ph_request(client, &short_, 20);
        ph_run(10 * US);
        ph_loop(other, &full, 1);
        ph_run(15 * MS);
        others = (int)ph_launches(other, 0, 15 * MS);
        ph_close();
        return others;
}

Test(policy_peers_time, gemini_a_long_pause_ends_the_turn)
{
        cr_assert_eq(gemini_gap(1900), 0);
        cr_assert_gt(gemini_gap(2500), 0);
}

Test(policy_peers_time, gemini_launches_ahead_within_the_turn)
{
        struct ph_client *client;

        ph_open(SMS / 2, "gemini", "quota_ms=5", "min_quota_ms=5", NULL);
        KERNELS_ARE_TOLD();
        client = gemini_client(0, 0);
        warm_up(client, &full);
        ph_run_for(100 * MS); /* until the turn is over */
        for (int i = 0; i < 12; i++)
                ph_submit(client, 0, &full, 0);
        ph_step();
        cr_assert_eq(ph_in_flight(client), 5, "of 1 ms each: %u", ph_in_flight(client));
        ph_close();
}

Test(policy_peers_time, gemini_overuse_counts)
{
        struct ph_client *client;

        ph_open(SMS / 2, "gemini", NULL);
        KERNELS_ARE_TOLD();
        client = gemini_client(0, 100);
        ph_submit(client, 0, &longest, 0);
        ph_submit(client, 0, &full, 0);
        ph_run(UINT64_MAX);
        cr_assert(ph_last(client)->start_ns >= 11000 * MS && ph_last(client)->start_ns < 11300 * MS, "%lu",
                (unsigned long)ph_last(client)->start_ns);
        ph_close();
}

/* --- paella ------------------------------------------------------------------------------------------------------- */

/* A blocker holds the GPU for 2 ms, so that work submitted meanwhile is ordered. */
static struct ph_client *paella_open(const char *a, const char *b, const char *c)
{
        struct ph_client *blocker;

        ph_open(SMS / 2, "paella", a, b, c, NULL);
        KERNELS_ARE_TOLD();
        blocker = ph_be();
        warm_up(blocker, &full);
        warm_up(blocker, &full2);
        warm_up(blocker, &quarter);
        return blocker;
}

static void block(struct ph_client *blocker)
{
        ph_submit(blocker, 0, &full2, 0);
        ph_step();
}

Test(policy_peers_time, paella_the_least_left_goes_first)
{
        struct ph_client *blocker = paella_open("extra_kernels=0", "ahead=0", NULL), *a = ph_be(), *b = ph_be();

        block(blocker);
        ph_request(a, &full, 10);
        ph_request(b, &full, 2);
        ph_run(UINT64_MAX);
        cr_assert_eq(ph_last(b)->end_ns, ph_nth(a, 0)->start_ns);
        ph_close();
}

Test(policy_peers_time, paella_a_later_job_with_less_left_goes_first)
{
        struct ph_client *blocker = paella_open("extra_kernels=0", "ahead=0", NULL), *a = ph_be(), *b = ph_be();

        (void)blocker;
        ph_request(a, &full, 10);
        ph_run_for(2500 * US);
        ph_request(b, &full, 2);
        ph_run(UINT64_MAX);
        cr_assert_eq(ph_nth(b, 0)->start_ns, ph_nth(a, 2)->end_ns);
        cr_assert_eq(ph_nth(a, 3)->start_ns, ph_last(b)->end_ns);
        ph_close();
}

Test(policy_peers_time, paella_remaining_time_is_length_times_share)
{
        struct ph_client *blocker = paella_open("extra_kernels=0", "ahead=0", NULL), *a, *b;

        a = ph_be();
        b = ph_be();
        block(blocker);
        ph_request(a, &full, 2);
        ph_request(b, &quarter, 4);
        ph_run(UINT64_MAX);
        cr_assert_lt(ph_nth(b, 0)->start_ns, ph_nth(a, 0)->start_ns, "4 x 1 ms x a quarter is less than 2 ms");
        ph_close();
}

Test(policy_peers_time, paella_lengths_are_half_old_and_half_new)
{
        static const uint64_t times[] = {10 * MS, MS, MS};
        struct ph_client *blocker = paella_open("extra_kernels=0", "ahead=0", NULL), *a, *b;

        for (size_t i = 0; i < DS_ARRAY_SIZE(times); i++) {
                varying_ns = times[i];
                warm_up(blocker, &varying);
        }
        a = ph_be();
        b = ph_be();
        block(blocker);
        ph_request(a, &full, 3);
        ph_request(b, &varying, 1);
        ph_run(UINT64_MAX);
        /* the estimate for b is ((10 + 1) / 2 + 1) / 2 = 3.25 operations, which exceeds 3 */
        cr_assert_lt(ph_nth(a, 0)->start_ns, ph_nth(b, 0)->start_ns);
        warm_up(blocker, &varying); /* 2.1 after the kernel of b and this one, where the mean is 2.8 */
        block(blocker);
        ph_request(a, &full2, 1);
        ph_request(b, &varying, 1);
        ph_run(UINT64_MAX);
        cr_assert_lt(ph_last(b)->start_ns, ph_last(a)->start_ns);
        ph_close();
}

Test(policy_peers_time, paella_kernels_that_fit_go_at_once)
{
        struct ph_client *blocker = paella_open("extra_kernels=0", "ahead=0", NULL), *clients[5];
        uint64_t begin_ns = ph_now();

        (void)blocker;
        for (int i = 0; i < 5; i++) {
                clients[i] = ph_be();
                ph_request(clients[i], &quarter, 1);
        }
        ph_run(UINT64_MAX);
        for (int i = 0; i < 4; i++)
                cr_assert_eq(ph_last(clients[i])->launch_ns, begin_ns);
        cr_assert_eq(ph_last(clients[4])->launch_ns, begin_ns + MS, "no room for a fifth");
        ph_close();
}

static uint32_t paella_extra(const char *extra)
{
        struct ph_client *blocker = paella_open(extra, "ahead=0", NULL), *clients[6];
        uint32_t n = 0;

        block(blocker);
        for (int i = 0; i < 6; i++) {
                clients[i] = ph_be();
                ph_request(clients[i], &full, 1);
        }
        ph_step();
        for (int i = 0; i < 6; i++)
                n += ph_in_flight(clients[i]);
        ph_close();
        return n;
}

Test(policy_peers_time, paella_a_few_that_do_not_fit_wait_on_the_device)
{
        cr_assert_eq(paella_extra("extra_kernels=0"), 0);
        cr_assert_eq(paella_extra("extra_kernels=2"), 2);
}

/* Runs long jobs beside an endless row of short ones; returns the number of launches of the long jobs. */
static uint32_t paella_fair(const char *unfair)
{
        struct ph_client *blocker = paella_open("extra_kernels=0", "ahead=0", unfair), *a = ph_be(), *b = ph_be();
        uint64_t begin_ns = ph_now();
        uint32_t n;

        (void)blocker;
        ph_loop(b, &full, 2);
        ph_request(a, &full, 100);
        ph_run_for(90 * MS);
        n = ph_launches(a, begin_ns, ph_now());
        ph_close();
        return n;
}

Test(policy_peers_time, paella_serves_clients_with_enough_credit)
{
        uint32_t n = paella_fair("unfair=3");

        cr_assert_eq(paella_fair(NULL), 0, "a million: long jobs wait");
        /* long jobs run from 3 credits on and gain half a credit per kernel of the others; then kernels alternate */
        cr_assert(n >= 35 && n <= 45, "%u", n);
}

/* A client waits for its first service: each operation of another client gives 1/n of a credit to all n clients. */
static uint32_t paella_waits(uint32_t others)
{
        struct ph_client *blocker = paella_open("extra_kernels=0", "ahead=0", "unfair=3"), *a = ph_be(), *b[3];
        uint64_t begin_ns = ph_now();
        uint32_t n = 0;

        (void)blocker;
        for (uint32_t i = 0; i < others; i++)
                ph_loop(b[i] = ph_be(), &full, 2);
        ph_request(a, &full, 100);
        ph_run_for(40 * MS);
        for (uint32_t i = 0; i < others; i++)
                n += ph_launches(b[i], begin_ns, ph_nth(a, 0)->launch_ns);
        ph_close();
        return n;
}

Test(policy_peers_time, paella_credit_is_shared_by_all_that_have_work)
{
        cr_assert_eq(paella_waits(1), 6, "3 credits are 6 halves");
        cr_assert_eq(paella_waits(3), 14, "12 quarters, and two of the three have as much by then, and less to do");
}

/* After jobs of 10 and 2 the estimate is 6: a client with 5 left goes before it, a client with 7 does not. */
static int paella_is_before(uint32_t n)
{
        struct ph_client *blocker = paella_open("extra_kernels=0", "ahead=0", NULL), *ls = ph_ls(0), *b = ph_be();
        int is_before;

        ls->synchronises = 1;
        ph_request(ls, &full, 10);
        ph_run(UINT64_MAX);
        ph_request(ls, &full, 2);
        ph_run(UINT64_MAX);
        block(blocker);
        ph_request(ls, &full, 1);
        ph_request(b, &full, n);
        ph_run(UINT64_MAX);
        is_before = ph_last(b)->start_ns < ph_last(ls)->start_ns;
        ph_close();
        return is_before;
}

Test(policy_peers_time, paella_averages_old_and_new_job_lengths)
{
        cr_assert(paella_is_before(5));
        cr_assert(!paella_is_before(7));
}

Test(policy_peers_time, paella_learns_the_rest_of_a_job)
{
        struct ph_client *blocker = paella_open("extra_kernels=0", "ahead=0", NULL), *ls = ph_ls(0), *b = ph_be();

        ls->synchronises = 1;
        ph_request(ls, &full, 10);
        ph_run(UINT64_MAX);
        block(blocker);
        ph_request(ls, &full, 1); /* the last job of ls had 10 operations, so this one counts as the first of a job */
        ph_request(b, &full, 3);
        ph_run(UINT64_MAX);
        cr_assert_lt(ph_last(b)->start_ns, ph_last(ls)->start_ns);
        ph_close();
}

Test(policy_peers_time, paella_goes_ahead_where_nothing_else_waits)
{
        struct ph_client *blocker = paella_open("extra_kernels=0", "ahead=1", NULL), *a = ph_be(), *b = ph_be();

        (void)blocker;
        ph_request(a, &full, 10);
        ph_step();
        cr_assert_eq(ph_in_flight(a), 2);
        ph_run_for(1500 * US);
        ph_request(b, &full, 1);
        ph_run_for(MS);
        cr_assert_eq(ph_in_flight(a), 1, "b waits to be dispatched");
        ph_run(UINT64_MAX);
        cr_assert_eq(ph_last(b)->start_ns, ph_nth(a, 2)->end_ns);
        ph_close();
}

/* --- antman ------------------------------------------------------------------------------------------------------- */

static struct ph_client *guaranteed, *opportunistic;

/* Opens antman with an LS session that always has a request of 1 ms in progress, and BE kernels of 10 us. */
static void antman_open(const char *param, uint64_t percent)
{
        ph_open(SMS / 2, "antman", param, NULL);
        KERNELS_ARE_TOLD();
        guaranteed = ph_ls(0);
        opportunistic = ph_be();
        disturbed_percent = percent;
        disturbing = percent > 100 ? opportunistic : NULL;
}

Test(policy_peers_time, antman_opportunistic_jobs_are_free_alone)
{
        antman_open("depth=3", 100);
        ph_loop(opportunistic, &short_, 4);
        ph_step();
        cr_assert_eq(ph_in_flight(opportunistic), 3);
        ph_run(100 * MS);
        cr_assert_geq(ph_busy(opportunistic, 0, 99 * MS), 990);
        ph_close();
}

Test(policy_peers_time, antman_sleeps_so_that_a_share_is_left_and_raises_it)
{
        antman_open(NULL, 100);
        ph_loop(guaranteed, &sensitive, 2);
        ph_loop(opportunistic, &short_, 4);
        ph_run(1300 * MS);
        for (uint64_t i = 0; i < 10; i++) {
                uint64_t busy = ph_busy(opportunistic, (100 * i + 1) * MS, (100 * i + 99) * MS);

                cr_assert(
                        busy + 5 >= 100 * i && busy <= 100 * i + 5, "%lu: %lu", (unsigned long)i, (unsigned long)busy);
        }
        cr_assert_geq(ph_busy(opportunistic, 1101 * MS, 1199 * MS), 995);
        ph_close();
}

Test(policy_peers_time, antman_slows_harmful_jobs_until_guaranteed_ones_recover)
{
        uint64_t harmless, busy;

        antman_open(NULL, 150);
        ph_loop(guaranteed, &sensitive, 2);
        ph_loop(opportunistic, &medium, 4);
        disturbing = NULL;
        ph_run(2000 * MS);
        cr_assert_geq(ph_busy(opportunistic, 1500 * MS, 1999 * MS), 990);
        disturbing = opportunistic;
        ph_run(4000 * MS);
        busy = ph_busy(opportunistic, 2500 * MS, 4000 * MS);
        cr_assert(busy > 10 && busy < 300, "%lu", (unsigned long)busy);
        disturbing = NULL;
        ph_run(8000 * MS);
        harmless = ph_busy(opportunistic, 6000 * MS, 8000 * MS);
        cr_assert_geq(harmless, 990, "%lu", (unsigned long)harmless);
        ph_close();
}

/* Guaranteed work slows down by itself at 2 s. Returns the opportunistic share of the time from 8 s to 9 s. */
static uint64_t antman_after_change(const char *forget)
{
        uint64_t busy;

        antman_open(forget, 100);
        varying_ns = MS;
        ph_loop(guaranteed, &varying, 2);
        ph_loop(opportunistic, &medium, 4);
        ph_run(2000 * MS);
        cr_assert_geq(ph_busy(opportunistic, 1500 * MS, 1999 * MS), 990);
        varying_ns = 2 * MS;
        ph_run(9000 * MS);
        busy = ph_busy(opportunistic, 8000 * MS, 9000 * MS);
        ph_close();
        return busy;
}

Test(policy_peers_time, antman_forgets_that_guaranteed_jobs_were_faster)
{
        cr_assert_geq(antman_after_change("forget_permille=50"), 990);
        cr_assert_eq(antman_after_change("forget_permille=2"), 0, "a third of a minute is left");
}

Test(policy_peers_time, antman_opportunistic_jobs_are_free_when_guaranteed_ones_are_gone)
{
        antman_open("gone_ms=50", 200);
        ph_loop(guaranteed, &sensitive, 2);
        ph_loop(opportunistic, &short_, 4);
        ph_run(500 * MS);
        ph_loop(guaranteed, NULL, 0);
        ph_run(700 * MS);
        cr_assert_geq(ph_busy(opportunistic, 560 * MS, 699 * MS), 990);
        ph_loop(guaranteed, &sensitive, 2);
        ph_run(790 * MS);
        cr_assert_eq(ph_launches(opportunistic, 701 * MS, 790 * MS), 0, "the first interval measures");
        ph_close();
}

#define CAPS 8
static struct {
        uint64_t session, bytes;
} caps[CAPS];
static uint32_t n_caps;

static void memory_cap(void *user, uint64_t session, uint64_t bytes)
{
        (void)user;
        caps[n_caps % CAPS].session = session;
        caps[n_caps++ % CAPS].bytes = bytes;
}

static uint64_t last_cap(const struct ph_client *client)
{
        for (uint32_t i = n_caps; i-- > 0;)
                if (caps[i % CAPS].session == client->id)
                        return caps[i % CAPS].bytes;
        return 0;
}

#define GIB (1ull << 30)

Test(policy_peers_time, antman_memory_limit_follows_guaranteed_jobs)
{
        struct ph_client *other;

        antman_open("reserve_mib=0", 100);
        ph.sched->memory_cap = memory_cap;
        ds_sched_memory(ph.sched, 100 * GIB, 60 * GIB);
        guaranteed =
                ph_client(&(struct ds_sched_session_config){.class_ = DETSHARE_CLASS_LS, .memory_limit = 40 * GIB});
        other = ph_be();
        ds_sched_session_memory(guaranteed->session, 10 * GIB, 40 * GIB, ph_now());
        ds_sched_session_memory(opportunistic->session, 5 * GIB, 0, ph_now());
        ph_loop(opportunistic, &full, 2);
        ph_run(5 * MS);
        cr_assert_eq(n_caps, 0, "nobody to keep memory for");
        ph_loop(guaranteed, &sensitive, 2);
        ph_run(10 * MS);
        cr_assert_eq(last_cap(opportunistic), 35 * GIB, "%lu: 5 it has, 60 free less 30 that the other may ask for",
                (unsigned long)(last_cap(opportunistic) / GIB));
        ph_loop(other, &full, 2);
        ph_run(20 * MS);
        cr_assert_eq(last_cap(opportunistic), 20 * GIB);
        cr_assert_eq(last_cap(other), 15 * GIB);
        ds_sched_memory(ph.sched, 100 * GIB, 20 * GIB);
        ph_run(30 * MS);
        cr_assert_eq(last_cap(opportunistic), 5 * GIB, "what it has it keeps");
        ph_loop(guaranteed, NULL, 0);
        ph_run(5200 * MS);
        cr_assert_eq(last_cap(opportunistic), UINT64_MAX);
        ph_close();
}

Test(policy_peers_time, antman_says_nothing_of_memory_that_it_does_not_know)
{
        antman_open(NULL, 100);
        ph_loop(guaranteed, &sensitive, 2);
        ph_loop(opportunistic, &short_, 2);
        ph_run(5 * MS);
        ph_close();
}
