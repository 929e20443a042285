/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own simple policies fifo, multistream and static, compared with their rules on the virtual clock
 *
 * Policies of others have tests of their own (test_policy_peers.c and its neighbours).
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

TestSuite(sched_rules, .fini = teardown);

static void open_with(const char *dir)
{
        cr_assert_eq(harness_open(&h, 8, dir, "fifo"), 0);
}

static void set_policy(const char *name, const char *const *params, size_t n)
{
        int r = ds_sched_set_policy(h.sched, name, params, n, harness_now(&h), message, sizeof(message));

        cr_assert_eq(r, 0, "%s", message);
}

/* --- this project's own policies ---------------------------------------------------------------------------------- */

Test(sched_rules, fifo_serves_heads_in_the_order_of_submission)
{
        static const char *const depth[] = {"depth=2"};
        ds_coroutine *c[20];
        struct top tops[20], more[3];

        open_with("policies");
        set_policy("fifo", depth, 1);
        for (uint64_t i = 0; i < 20; i++)
                c[i] = stream_open(session_open(&h, i + 1, i % 2 ? DETSHARE_CLASS_LS : DETSHARE_CLASS_BE, 0), 0, 0);
        for (uint64_t i = 0; i < 20; i++) {
                h.device->now_ns = i;
                submit(&h, c[19 - i], kernel_init(&tops[i], 20 - (uint32_t)i, 100 * US, 1, 0));
        }
        harness_step(&h);
        for (uint64_t i = 0; i < 20; i++) {
                cr_assert_eq(h.device->log[i].space, 20 - i);
                cr_assert_eq(h.device->log[i].priority, 0);
                cr_assert_eq(h.device->log[i].rung, 0);
        }
        for (int i = 0; i < 3; i++)
                submit(&h, c[0], kernel_init(&more[i], 1, 100 * US, 1, 0));
        harness_step(&h);
        cr_assert_eq(c[0]->n_in_flight, 2, "depth");
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(h.told, 23);
}

Test(sched_rules, multistream_gives_priorities)
{
        static const char *const params[] = {"ls_depth=3", "be_depth=1"};
        ds_coroutine *a, *b;
        struct top x[5], y[5];

        open_with("policies");
        set_policy("multistream", params, 2);
        b = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        a = stream_open(session_open(&h, 2, DETSHARE_CLASS_LS, 0), 0, 0);
        for (int i = 0; i < 5; i++) {
                submit(&h, b, kernel_init(&y[i], 1, 100 * US, 1, 0));
                submit(&h, a, kernel_init(&x[i], 2, 100 * US, 1, 0));
        }
        harness_step(&h);
        cr_assert_eq(a->n_in_flight, 3);
        cr_assert_eq(b->n_in_flight, 1);
        for (size_t i = 0; i < 4; i++) {
                cr_assert_eq(h.device->log[i].rung, 0);
                cr_assert_eq(h.device->log[i].priority,
                        h.device->log[i].space == 2 ? DETSHARE_PRIORITY_HIGH : DETSHARE_PRIORITY_LOW);
        }
        cr_assert_eq(h.device->log[0].space, 2, "LS first, although it came later");
        harness_run(&h, UINT64_MAX);
}

/* Checks that short known kernels are launched further ahead than the depth, by time; long or unknown ones are not. */
static void check_ahead(const char *policy, const char *alone, uint64_t ns, uint32_t least, uint32_t most)
{
        const char *const params[] = {"be_depth=2", "be_ahead_us=20", alone};
        ds_coroutine *coroutine;
        struct top ops[100];
        uint32_t largest = 0;

        open_with("policies");
        set_policy(policy, params, 3);
        coroutine = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        for (size_t i = 0; i < DS_ARRAY_SIZE(ops); i++)
                submit(&h, coroutine, kernel_init(&ops[i], 1, ns, 1, 0));
        harness_step(&h);
        cr_assert_eq(coroutine->n_in_flight, 2, "of a kernel that nobody knows");
        for (uint64_t until = ns; h.told < DS_ARRAY_SIZE(ops); until += ns) {
                harness_run(&h, until);
                largest = DS_MAX(largest, coroutine->n_in_flight);
        }
        cr_assert(largest >= least && largest <= most, "%s, %lu ns: %u", policy, (unsigned long)ns, largest);
        harness_close(&h);
}

Test(sched_rules, short_kernels_run_ahead_by_time)
{
        check_ahead("multistream", "be_alone_us=0", US, 15, 20);
        check_ahead("static", "be_alone_us=0", US, 15, 20);
        check_ahead("multistream", "be_alone_us=0", 30 * US, 2, 2);
        check_ahead("static", "be_alone_us=0", 100 * US, 2, 2);
        check_ahead("multistream", "be_alone_us=0", 50, 60, 256);
        check_ahead("multistream", "be_alone_us=600", 30 * US, 15, 20);
        check_ahead("static", "be_alone_us=600", 30 * US, 15, 20);
        open_with("policies"); /* the teardown of every test closes a harness */
}

/* After recent LS work BE is launched ahead by the shorter of the two configured times. */
Test(sched_rules, less_runs_ahead_beside_latency_sensitive_work)
{
        static const char *const params[] = {"be_depth=2", "be_ahead_us=20", "be_alone_us=600"};
        ds_coroutine *best, *latency;
        struct top ops[60], other[2];
        uint32_t largest = 0;

        open_with("policies");
        set_policy("multistream", params, 3);
        best = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        latency = stream_open(session_open(&h, 2, DETSHARE_CLASS_LS, 0), 0, 0);
        submit(&h, latency, kernel_init(&other[0], 2, US, 1, 0));
        for (size_t i = 0; i < DS_ARRAY_SIZE(ops); i++)
                submit(&h, best, kernel_init(&ops[i], 1, 30 * US, 1, 0));
        for (uint64_t until = US; h.told < DS_ARRAY_SIZE(ops) + 1; until += 30 * US) {
                harness_run(&h, until);
                largest = DS_MAX(largest, best->n_in_flight);
        }
        cr_assert_eq(largest, 2, "%u", largest);
        harness_close(&h);
        open_with("policies"); /* the teardown of every test closes a harness */
}

static void static_split(uint32_t percent, uint32_t ls_sms, uint32_t be_sms)
{
        char param[32];
        const char *params[] = {param};
        struct top x, y;
        const struct ds_rung_info *ls_rung, *be_rung;

        open_with("policies");
        snprintf(param, sizeof(param), "ls_percent=%u", percent);
        set_policy("static", params, 1);
        submit(&h, stream_open(session_open(&h, 1, DETSHARE_CLASS_LS, 0), 0, 0), kernel_init(&x, 1, 100 * US, 1, 0));
        submit(&h, stream_open(session_open(&h, 2, DETSHARE_CLASS_BE, 0), 0, 0), kernel_init(&y, 2, 100 * US, 1, 0));
        harness_run(&h, UINT64_MAX);
        ls_rung = &h.device->rungs[h.device->log[0].rung];
        be_rung = &h.device->rungs[h.device->log[1].rung];
        cr_assert_eq(ls_rung->n_sms, ls_sms, "%u%%: %u", percent, ls_rung->n_sms);
        cr_assert_eq(be_rung->n_sms, be_sms);
        cr_assert_eq(ls_rung->mask.word[0] & be_rung->mask.word[0], 0);
        cr_assert_eq(ls_rung->mask.word[0] | be_rung->mask.word[0], 0xff);
        harness_close(&h);
}

Test(sched_rules, static_snaps_to_the_nearest_pair)
{
        static_split(50, 8, 8);
        static_split(10, 2, 14);
        static_split(30, 4, 12);
        static_split(33, 6, 10);
        static_split(90, 14, 2);
}

Test(sched_rules, static_needs_a_gpu_that_can_be_split)
{
        cr_assert_eq(harness_open(&h, 1, "policies", "fifo"), 0);
        cr_assert_eq(ds_sched_set_policy(h.sched, "static", NULL, 0, 0, message, sizeof(message)), DS_SCHED_E_REFUSED);
        cr_assert_eq(ds_sched_set_policy(h.sched, "multistream", NULL, 0, 0, message, sizeof(message)), 0);
}
