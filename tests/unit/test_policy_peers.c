/* SPDX-License-Identifier: Apache-2.0 */
/*
 * temporal (time slices) and orion, compared with their published rules on the virtual clock
 */
#include "tests/unit/sched_device.h"

#define US 1000ULL
#define MS 1000000ULL

static struct harness h;
static char message[256];

static void teardown(void)
{
        if (h.sched)
                harness_assert_clean(&h);
        harness_close(&h);
}

TestSuite(policy_peers, .fini = teardown);

static void open_with(const char *name, const char *const *params, size_t n)
{
        int r;

        cr_assert_eq(harness_open(&h, 8, "policies", "fifo"), 0);
        r = ds_sched_set_policy(h.sched, name, params, n, 0, message, sizeof(message));
        cr_assert_eq(r, 0, "%s", message);
}

static void run_to_the_end(void)
{
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(harness_stats(&h).fallbacks, 0);
        cr_assert_eq(harness_stats(&h).actions_ignored, 0);
}

/* --- temporal: sessions that always have a next kernel ------------------------------------------------------------ */

#define SPACES 3
static ds_coroutine *streams[SPACES];
static struct top loops[SPACES];
static uint64_t loop_ns[SPACES], loop_until_ns;

static void again(struct harness *harness, struct top *top)
{
        ptrdiff_t i = top - loops;

        if (i >= 0 && i < SPACES && harness_now(harness) < loop_until_ns)
                submit(harness, streams[i], kernel_init(top, (uint32_t)i + 1, loop_ns[i], 1, (uint64_t)i + 1));
}

static void loop_begin(size_t i)
{
        streams[i] = stream_open(session_open(&h, i + 1, DETSHARE_CLASS_BE, 0), 0, 0);
        h.on_done = again;
        submit(&h, streams[i], kernel_init(&loops[i], (uint32_t)i + 1, loop_ns[i], 1, i + 1));
}

/* Asserts that operations of two sessions never overlap. Returns the number of switches between sessions. */
static size_t check_turns(void)
{
        size_t changes = 0;

        for (size_t i = 1; i < h.device->n_log; i++) {
                const struct sdev_record *a = &h.device->log[i - 1], *b = &h.device->log[i];

                if (a->space == b->space)
                        continue;
                cr_assert_geq(b->start_ns, a->end_ns);
                changes++;
        }
        return changes;
}

static uint64_t used_ns(uint32_t space)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < h.device->n_log; i++)
                if (h.device->log[i].space == space)
                        sum += h.device->log[i].end_ns - h.device->log[i].start_ns;
        return sum;
}

Test(policy_peers, temporal_gives_everybody_a_slice_in_turn)
{
        static const char *const params[] = {"slice_ms=5"};

        open_with("temporal", params, 1);
        loop_until_ns = 150 * MS;
        for (size_t i = 0; i < SPACES; i++) {
                loop_ns[i] = MS / (i + 1); /* a session with shorter kernels gets neither more nor less time */
                loop_begin(i);
        }
        run_to_the_end();
        cr_assert_geq(check_turns(), 28);
        cr_assert_leq(check_turns(), 34);
        for (size_t i = 0; i + 30 < h.device->n_log; i++) {
                uint32_t a = h.device->log[i].space, b = h.device->log[i + 1].space;

                cr_assert(a == b || b == a % SPACES + 1, "by id, round and round");
        }
        for (uint32_t i = 0; i < SPACES; i++)
                cr_assert(used_ns(i + 1) >= 45 * MS && used_ns(i + 1) <= 56 * MS, "%lu", (unsigned long)used_ns(i + 1));
}

Test(policy_peers, temporal_waits_for_work_in_flight)
{
        static const char *const params[] = {"slice_ms=5"};

        open_with("temporal", params, 1);
        loop_until_ns = 40 * MS;
        loop_ns[0] = 8 * MS;
        loop_ns[1] = MS;
        loop_begin(0);
        loop_begin(1);
        run_to_the_end();
        cr_assert_eq(h.device->log[0].end_ns, 8 * MS);
        for (size_t i = 1; i <= 5; i++)
                cr_assert_eq(h.device->log[i].start_ns, (7 + i) * MS, "five of 1 ms in a slice of 5");
        cr_assert_eq(h.device->log[6].space, 1);
        cr_assert_eq(h.device->log[6].start_ns, 13 * MS);
        check_turns();
}

Test(policy_peers, temporal_idle_sessions_give_up_their_slice)
{
        static const char *const params[] = {"slice_ms=1000"};
        struct top a, b[3];

        open_with("temporal", params, 1);
        submit(&h, stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0), kernel_init(&a, 1, MS, 1, 1));
        streams[1] = stream_open(session_open(&h, 2, DETSHARE_CLASS_LS, 0), 0, 0);
        for (int i = 0; i < 3; i++)
                submit(&h, streams[1], kernel_init(&b[i], 2, MS, 1, 2));
        run_to_the_end();
        cr_assert_eq(a.start_ns, 0);
        cr_assert_eq(b[0].start_ns, MS);
        cr_assert_eq(b[2].end_ns, 4 * MS);
}

Test(policy_peers, temporal_lets_one_session_go_on_alone)
{
        static const char *const params[] = {"slice_ms=5"};

        open_with("temporal", params, 1);
        loop_until_ns = 50 * MS;
        loop_ns[0] = MS;
        loop_begin(0);
        run_to_the_end();
        cr_assert_eq(h.device->n_log, 50);
        for (size_t i = 0; i < 50; i++)
                cr_assert_eq(h.device->log[i].start_ns, i * MS);
}

Test(policy_peers, temporal_launches_ahead_within_the_slice)
{
        static const char *const params[] = {"slice_ms=5"};
        struct top warm, a[40], b;

        open_with("temporal", params, 1);
        streams[0] = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        submit(&h, streams[0], kernel_init(&warm, 1, MS, 1, 1));
        run_to_the_end();
        for (int i = 0; i < 40; i++)
                submit(&h, streams[0], kernel_init(&a[i], 1, MS, 1, 1));
        harness_step(&h);
        cr_assert_eq(streams[0]->n_in_flight, 5);
        submit(&h, stream_open(session_open(&h, 2, DETSHARE_CLASS_BE, 0), 0, 0), kernel_init(&b, 2, MS, 1, 2));
        run_to_the_end();
        cr_assert_eq(b.start_ns, 6 * MS);
        cr_assert_eq(a[39].end_ns, 42 * MS, "nothing but the two");
}

Test(policy_peers, temporal_launches_unknown_kernels_alone)
{
        struct top a[3];

        open_with("temporal", NULL, 0);
        streams[0] = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        for (int i = 0; i < 3; i++)
                submit(&h, streams[0], kernel_init(&a[i], 1, MS, 1, (uint64_t)i + 1));
        harness_step(&h);
        cr_assert_eq(streams[0]->n_in_flight, 1);
        run_to_the_end();
        cr_assert_eq(a[2].end_ns, 3 * MS);
}

Test(policy_peers, temporal_waits_for_its_predecessors_launches)
{
        struct top a, b;

        open_with("fifo", NULL, 0);
        submit(&h, stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0), kernel_init(&a, 1, 8 * MS, 1, 1));
        harness_step(&h);
        cr_assert_eq(ds_sched_set_policy(h.sched, "temporal", NULL, 0, 0, message, sizeof(message)), 0);
        submit(&h, stream_open(session_open(&h, 2, DETSHARE_CLASS_BE, 0), 0, 0), kernel_init(&b, 2, MS, 1, 2));
        run_to_the_end();
        cr_assert_eq(b.start_ns, 8 * MS);
}

Test(policy_peers, temporal_runs_all_streams_of_a_session)
{
        struct top a[2], b;
        ds_sched_session *session;

        open_with("temporal", NULL, 0);
        session = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        for (int i = 0; i < 2; i++)
                submit(&h, stream_open(session, 0, 0), kernel_init(&a[i], 1, MS, 1, 1));
        submit(&h, stream_open(session_open(&h, 2, DETSHARE_CLASS_BE, 0), 0, 0), kernel_init(&b, 2, MS, 1, 2));
        run_to_the_end();
        cr_assert_eq(a[0].start_ns, 0);
        cr_assert_eq(a[1].start_ns, 0);
        cr_assert_eq(b.start_ns, MS);
}

/* --- defaults equal the published constants ----------------------------------------------------------------------- */

/* Constants of the authors' code, or of the paper where there is no code. Our own parameters are not listed. */
static const struct {
        const char *policy, *param;
        int64_t published;
} published[] = {
        {"orion", "sm_threshold", 0}, /* the threshold is the number of all SMs */
        {"orion", "dur_permille", 25},
        {"orion", "first_iterations", 10},
        {"orion", "sm_in_flight", 0},
        {"tgs", "window_ms", 50},
        {"tgs", "smooth_permille", 0},
        {"reef", "queue_cap", 2},
        {"reef", "padding", 1},
        {"tally", "wait_us", 100},
        {"tally", "bound_us", 100},
        {"tally", "original_ms", 100},
        {"tally", "slowest_percent", 10},
        {"tally", "evict", 1},
        {"paella", "extra_kernels", 2},
        {"paella", "unfair", 1000000},
        {"gemini", "quota_ms", 250},
        {"gemini", "min_quota_ms", 100},
        {"gemini", "window_ms", 10000},
        {"gemini", "gap_ms", 2},
        {"temporal", "slice_ms", 5},
        {"sgdrc-static", "ls_percent", 50},
};

Test(policy_peers, published_constants_are_the_defaults)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(published); i++) {
                const struct detshare_policy *policy;
                uint32_t k = 0;

                open_with(published[i].policy, NULL, 0);
                policy = h.sched->host.plugin->policy;
                while (k < policy->n_params && strcmp(policy->params[k].name, published[i].param) != 0)
                        k++;
                cr_assert_lt(k, policy->n_params, "%s has no %s", published[i].policy, published[i].param);
                cr_assert_eq(policy->params[k].def, published[i].published, "%s: %s is %lld", published[i].policy,
                        published[i].param, (long long)policy->params[k].def);
                teardown();
        }
}

/* --- orion -------------------------------------------------------------------------------------------------------- */

enum { KEY_LS = 1, KEY_COMPUTE, KEY_MEMORY, KEY_WIDE, KEY_UNKNOWN, KEY_MIDDLE, KEY_SHORT };

static ds_coroutine *ls, *be, *be2;

static uint32_t blocks_of(uint64_t key)
{
        return key == KEY_WIDE ? 1000 : key == KEY_MIDDLE ? 80 : key == KEY_SHORT ? 1 : 16;
}

/* 16 SMs of 8 blocks each; every kernel has run once, and a profile gives its bound. */
static void orion_open(const char *const *params, size_t n_params)
{
        static const uint32_t bounds[] = {
                [KEY_LS] = DETSHARE_BOUND_COMPUTE,
                [KEY_COMPUTE] = DETSHARE_BOUND_COMPUTE,
                [KEY_MEMORY] = DETSHARE_BOUND_MEMORY,
                [KEY_WIDE] = DETSHARE_BOUND_MEMORY,
                [KEY_UNKNOWN] = DETSHARE_BOUND_UNKNOWN,
                [KEY_MIDDLE] = DETSHARE_BOUND_MEMORY,
                [KEY_SHORT] = DETSHARE_BOUND_MEMORY,
        };
        static struct top tops[DS_ARRAY_SIZE(bounds)];
        int r;

        cr_assert_eq(harness_open(&h, 8, "policies", "fifo"), 0);
        ls = stream_open(session_open(&h, 1, DETSHARE_CLASS_LS, 0), 0, 0);
        be = stream_open(session_open(&h, 2, DETSHARE_CLASS_BE, 0), 0, 0);
        be2 = stream_open(session_open(&h, 3, DETSHARE_CLASS_BE, 0), 0, 0);
        for (uint64_t key = KEY_LS; key <= KEY_SHORT; key++) {
                uint64_t ns = key == KEY_LS ? 200 * US : key == KEY_SHORT ? 40 * US : 30 * US;

                ds_sched_set_bound(h.sched, key, bounds[key]);
                submit(&h, be, kernel_init(&tops[key], 2, ns, blocks_of(key), key));
        }
        harness_run(&h, UINT64_MAX);
        h.device->now_ns = MS;
        r = ds_sched_set_policy(h.sched, "orion", params, n_params, harness_now(&h), message, sizeof(message));
        cr_assert_eq(r, 0, "%s", message);
}

/* Submits an LS kernel of 200 us and then a BE kernel with this key. Returns the time from the LS kernel's start to
 * the BE kernel's. */
static uint64_t beside_ls(uint64_t key, uint64_t duration)
{
        static struct top a, b;
        uint64_t begin = harness_now(&h);

        submit(&h, ls, kernel_init(&a, 1, 200 * US, 16, KEY_LS));
        harness_run(&h, begin + 10 * US);
        submit(&h, be, kernel_init(&b, 2, duration, blocks_of(key), key));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(a.start_ns, begin, "LS never waits");
        cr_assert_eq(b.done, 1);
        return b.start_ns - begin;
}

Test(policy_peers, orion_lets_only_complementary_kernels_join)
{
        static const char *const params[] = {"sm_threshold=8", "first_iterations=0"};

        orion_open(params, 2);
        cr_assert_eq(beside_ls(KEY_COMPUTE, 30 * US), 200 * US, "the same bottleneck waits for the request to end");
        cr_assert_eq(beside_ls(KEY_MEMORY, 30 * US), 10 * US, "another one joins");
        cr_assert_eq(beside_ls(KEY_UNKNOWN, 30 * US), 10 * US, "an unknown one joins");
        cr_assert_eq(beside_ls(KEY_WIDE, 30 * US), 200 * US, "one that needs too many SMs does not");
}

Test(policy_peers, orion_lets_all_join_during_the_first_ten_iterations)
{
        static const char *const params[] = {"dur_threshold_us=1000000"};

        orion_open(params, 1);
        for (int i = 0; i < 10; i++)
                cr_assert_eq(beside_ls(KEY_COMPUTE, 30 * US), 10 * US);
        cr_assert_eq(beside_ls(KEY_COMPUTE, 30 * US), 200 * US);
}

Test(policy_peers, orion_lets_copies_join)
{
        static const char *const params[] = {"sm_threshold=1", "first_iterations=0"};
        struct top a, b = {.op.kind = DS_OP_COPY};

        orion_open(params, 2);
        b.op.copy = (struct ds_copy){.space = 2, .width = 5 * US, .height = 1};
        submit(&h, ls, kernel_init(&a, 1, 200 * US, 16, KEY_LS));
        harness_run(&h, MS + 10 * US);
        submit(&h, be, &b);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(b.start_ns, MS + 10 * US);
}

/*
 * Two BE kernels need two SMs each, and three SMs are allowed: one starts per round. Both wait for a kernel of unknown
 * duration, so that one event starts both rounds.
 */
Test(policy_peers, orion_bounds_the_sms_of_a_round)
{
        static const char *const params[] = {"sm_threshold=3", "dur_threshold_us=100000", "first_iterations=0"};
        struct top a, unknown, b, c, d;

        orion_open(params, 3);
        submit(&h, ls, kernel_init(&a, 1, 200 * US, 16, KEY_LS));
        submit(&h, be, kernel_init(&unknown, 2, 50 * US, 16, 1000));
        harness_run(&h, MS + 10 * US);
        submit(&h, be, kernel_init(&b, 2, 30 * US, 16, KEY_MEMORY));
        submit(&h, be2, kernel_init(&c, 3, 30 * US, 16, KEY_MEMORY));
        submit(&h, be2, kernel_init(&d, 3, 30 * US, 1000, KEY_WIDE));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(b.start_ns, MS + 50 * US);
        cr_assert_eq(c.start_ns, MS + 50 * US);
        cr_assert_eq(d.start_ns, MS + 200 * US, "too many for any round");
}

Test(policy_peers, orion_bounds_the_sms_of_be_together)
{
        static const char *const params[] = {
                "sm_threshold=3", "dur_threshold_us=100000", "first_iterations=0", "sm_in_flight=1"};
        struct top a, b, c;

        orion_open(params, 4);
        submit(&h, ls, kernel_init(&a, 1, 200 * US, 16, KEY_LS));
        harness_run(&h, MS + 10 * US);
        submit(&h, be, kernel_init(&b, 2, 30 * US, 16, KEY_MEMORY));  /* this kernel needs 2 SMs */
        submit(&h, be2, kernel_init(&c, 3, 30 * US, 16, KEY_MEMORY)); /* this kernel needs 2 further SMs */
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(b.start_ns, MS + 10 * US);
        cr_assert_eq(c.start_ns, MS + 40 * US);
}

Test(policy_peers, orion_is_free_without_ls)
{
        struct top b, c;

        orion_open(NULL, 0);
        submit(&h, be, kernel_init(&b, 2, 30 * US, 1000, KEY_WIDE));
        submit(&h, be2, kernel_init(&c, 3, 30 * US, 1000, KEY_WIDE));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(b.start_ns, MS);
        cr_assert_eq(c.start_ns, MS);
}

static void submit_short(struct top *tops, int n)
{
        for (int i = 0; i < n; i++)
                submit(&h, be, kernel_init(&tops[i], 2, 40 * US, 1, KEY_SHORT));
}

Test(policy_peers, orion_drains_after_its_duration_threshold)
{
        static const char *const params[] = {"dur_threshold_us=100"};
        struct top tops[9];
        uint64_t begin;

        orion_open(params, 1);
        beside_ls(KEY_MEMORY, 30 * US); /* after this LS kernel the policy knows that there is an LS client */
        begin = harness_now(&h);
        submit_short(tops, 9);
        harness_run(&h, UINT64_MAX);
        /* summed durations reach the threshold of 100 us: first 30 + 40 + 40 = 110 us (30 of the earlier kernel),
         * then 40 + 40 + 40. The next three kernels start when these have ended */
        for (int i = 0; i < 8; i++)
                cr_assert_eq(tops[i].op.launched_ns, begin + (uint64_t)(i < 2 ? 0 : i < 5 ? 80 : 200) * US, "%d", i);
}

Test(policy_peers, orion_learns_the_threshold_from_the_latency_of_a_request)
{
        /* the threshold is 40% of 200 us: two kernels of 40 us and one more fit */
        static const char *const params[] = {"dur_permille=400"};
        struct top a, tops[6];
        uint64_t begin;

        orion_open(params, 1);
        submit(&h, ls, kernel_init(&a, 1, 200 * US, 16, KEY_LS));
        harness_run(&h, UINT64_MAX);
        begin = harness_now(&h);
        submit_short(tops, 6);
        harness_run(&h, UINT64_MAX);
        for (int i = 0; i < 6; i++)
                cr_assert_eq(tops[i].op.launched_ns, begin + (uint64_t)(i / 3) * 120 * US, "%d", i);
}

Test(policy_peers, orion_follows_requests_that_become_longer)
{
        static const char *const params[] = {"dur_permille=500"};
        struct top a, tops[6];
        uint64_t begin;

        orion_open(params, 1);
        /* this request of 70 us sets a threshold of 35 us: the policy drains BE after each kernel */
        submit(&h, ls, kernel_init(&a, 1, 70 * US, 16, KEY_LS));
        harness_run(&h, UINT64_MAX);
        for (int i = 0; i < 200; i++) {
                submit(&h, ls, kernel_init(&a, 1, 200 * US, 16, KEY_LS));
                harness_run(&h, UINT64_MAX);
        }
        begin = harness_now(&h);
        submit_short(tops, 6); /* the threshold is nearly 100 us: the policy drains BE after three kernels */
        harness_run(&h, UINT64_MAX);
        for (int i = 0; i < 6; i++)
                cr_assert_eq(tops[i].op.launched_ns, begin + (uint64_t)(i / 3) * 120 * US, "%d", i);
}

/* Until an LS request has ended, the threshold is 100 us: three BE kernels of 40 us start, the others after these. */
Test(policy_peers, orion_has_a_threshold_before_the_first_request_has_ended)
{
        static const char *const params[] = {"first_iterations=0"};
        struct top a, tops[4];
        uint64_t begin;

        orion_open(params, 1);
        begin = harness_now(&h);
        submit(&h, ls, kernel_init(&a, 1, 1000 * US, 16, KEY_LS));
        submit_short(tops, 4);
        harness_run(&h, UINT64_MAX);
        for (int i = 0; i < 4; i++)
                cr_assert_eq(tops[i].op.launched_ns, begin + (uint64_t)(i / 3) * 120 * US, "%d", i);
}

Test(policy_peers, orion_drains_after_unknown_kernels)
{
        static const char *const params[] = {"dur_threshold_us=100000"};
        struct top tops[3];
        uint64_t begin;

        orion_open(params, 1);
        beside_ls(KEY_MEMORY, 30 * US);
        begin = harness_now(&h);
        for (int i = 0; i < 3; i++)
                submit(&h, be, kernel_init(&tops[i], 2, 40 * US, 1, 1000 + (uint64_t)i));
        harness_run(&h, UINT64_MAX);
        for (int i = 0; i < 3; i++)
                cr_assert_eq(tops[i].op.launched_ns, begin + (uint64_t)i * 40 * US);
}

Test(policy_peers, orion_does_not_drain_once_the_ls_client_has_finished)
{
        static const char *const params[] = {"dur_threshold_us=100", "finished_ms=50"};
        struct top tops[9];

        orion_open(params, 2);
        beside_ls(KEY_MEMORY, 30 * US);
        h.device->now_ns += 51 * MS;
        submit_short(tops, 9);
        harness_step(&h);
        cr_assert_eq(be->n_in_flight, 9);
        harness_run(&h, UINT64_MAX);
}

/* Iterations of 200 us against a limit: after each ten the threshold moves by half of the remaining interval. */
static void train(uint32_t iterations)
{
        static struct top a;

        for (uint32_t i = 0; i < iterations; i++) {
                submit(&h, ls, kernel_init(&a, 1, 200 * US, 16, KEY_LS));
                harness_run(&h, UINT64_MAX);
        }
}

Test(policy_peers, orion_searches_the_threshold_for_training)
{
        static const char *const slow[] = {"hp_limit_us=100", "first_iterations=0", "dur_threshold_us=100000"};
        static const char *const fast[] = {"hp_limit_us=300", "first_iterations=0", "dur_threshold_us=100000"};

        orion_open(slow, 3); /* 8 of 16 SMs; iterations exceed their limit, so the SM threshold falls to 4, 2, 1, 0 */
        cr_assert_eq(beside_ls(KEY_MEMORY, 30 * US), 10 * US);
        train(19);
        cr_assert_eq(beside_ls(KEY_MEMORY, 30 * US), 10 * US, "2 SMs");
        train(9);
        cr_assert_eq(beside_ls(KEY_MEMORY, 30 * US), 200 * US, "1 SM");
        teardown();
        orion_open(fast, 3); /* iterations stay below their limit, so the SM threshold rises to 12, 14, 15 SMs */
        cr_assert_eq(beside_ls(KEY_WIDE, 30 * US), 200 * US);
        cr_assert_eq(beside_ls(KEY_MIDDLE, 30 * US), 200 * US, "10 SMs");
        train(39);
        cr_assert_eq(beside_ls(KEY_MIDDLE, 30 * US), 10 * US);
        cr_assert_eq(beside_ls(KEY_WIDE, 30 * US), 200 * US, "all SMs are never reached");
        cr_assert_eq(beside_ls(KEY_MEMORY, 30 * US), 10 * US);
}

Test(policy_peers, orion_opens_in_the_update_phase)
{
        static const char *const params[] = {
                "update_start=2", "first_iterations=0", "dur_threshold_us=100000", "sm_threshold=4"};
        struct top a[3], b, c;

        orion_open(params, 4);
        for (int i = 0; i < 3; i++)
                submit(&h, ls, kernel_init(&a[i], 1, 200 * US, 16, KEY_LS));
        submit(&h, be, kernel_init(&b, 2, 30 * US, 16, KEY_COMPUTE));
        submit(&h, be2, kernel_init(&c, 3, 30 * US, 1000, KEY_WIDE));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(b.start_ns, MS + 400 * US, "the same bottleneck, when the first two kernels have ended");
        cr_assert_eq(c.start_ns, MS + 600 * US, "too many SMs: only after the request");
}

Test(policy_peers, orion_serves_be_clients_in_turn)
{
        static const char *const params[] = {"dur_threshold_us=50", "first_iterations=0"};
        struct top x[4], y[4];

        orion_open(params, 2);
        beside_ls(KEY_MEMORY, 30 * US);
        for (int i = 0; i < 4; i++) {
                submit(&h, be, kernel_init(&x[i], 2, 40 * US, 1, KEY_SHORT));
                submit(&h, be2, kernel_init(&y[i], 3, 40 * US, 1, KEY_SHORT));
        }
        harness_run(&h, UINT64_MAX);
        for (int i = 0; i < 4; i++)
                cr_assert_leq(DS_MAX(x[i].start_ns, y[i].start_ns) - DS_MIN(x[i].start_ns, y[i].start_ns), 40 * US);
}
