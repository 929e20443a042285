/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes held for a quiesce
 */
#include "tests/unit/sched_device.h"

#define MS 1000000ULL

static struct harness h;

static void teardown(void)
{
        if (h.sched)
                harness_assert_clean(&h);
        harness_close(&h);
}

TestSuite(sched_hold, .fini = teardown);

static ds_coroutine *hold_stream(uint64_t id, enum detshare_class class_)
{
        return stream_open(session_open(&h, id, class_, 0), 0, 0);
}

static uint32_t hold_in_flight(enum detshare_class class_)
{
        uint32_t in_flight, all;

        ds_sched_load(h.sched, class_, &in_flight, &all);
        return in_flight;
}

/* Holds a class under this policy: held work is not launched, running work ends, other work continues, and the
 * policy is not blamed. */
static void check_hold(const char *policy)
{
        static struct top first, second, ls_top;
        ds_coroutine *ls, *be;
        struct ds_sched_stats stats;
        uint32_t in_flight, all;

        cr_assert_eq(harness_open(&h, 8, "policies", policy), 0);
        ls = hold_stream(1, DETSHARE_CLASS_LS);
        be = hold_stream(2, DETSHARE_CLASS_BE);
        submit(&h, be, kernel_init(&first, 1, MS, 16, 1));
        harness_run(&h, MS / 2);
        cr_assert_eq(hold_in_flight(DETSHARE_CLASS_BE), 1);
        ds_sched_hold(h.sched, 1u << DETSHARE_CLASS_BE, harness_now(&h));
        submit(&h, be, kernel_init(&second, 2, MS, 16, 2));
        submit(&h, ls, kernel_init(&ls_top, 3, MS, 16, 3));
        /* 3 s: much longer than a policy may stay idle with ready work */
        harness_run(&h, 3000 * MS);
        cr_assert_eq(first.done, 1);
        cr_assert_eq(ls_top.done, 1);
        cr_assert_eq(second.done, 0);
        ds_sched_load(h.sched, DETSHARE_CLASS_BE, &in_flight, &all);
        cr_assert_eq(in_flight, 0);
        cr_assert_eq(all, 1);
        h.device->now_ns = 3000 * MS;
        ds_sched_hold(h.sched, 0, harness_now(&h));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(second.done, 1);
        cr_assert_geq(second.start_ns, 3000 * MS);
        ds_sched_stats(h.sched, &stats);
        cr_assert_eq(stats.fallbacks, 0);
        cr_assert_eq(stats.actions_ignored, 0);
        teardown();
}

Test(sched_hold, nothing_of_a_held_class_is_launched)
{
        check_hold("fifo");
        check_hold("multistream");
        check_hold("static");
}

/* A session that changes its class while one class is held is treated by its new class. */
Test(sched_hold, the_class_of_now_counts)
{
        static struct top a, b;
        ds_sched_session *session;
        ds_coroutine *stream;

        cr_assert_eq(harness_open(&h, 8, NULL, "fifo"), 0);
        session = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        stream = stream_open(session, 0, 0);
        ds_sched_hold(h.sched, 1u << DETSHARE_CLASS_BE, 0);
        submit(&h, stream, kernel_init(&a, 1, MS, 16, 1));
        harness_run(&h, MS);
        cr_assert_eq(a.done, 0);
        ds_sched_session_set(session, DETSHARE_CLASS_LS, 0, 100, harness_now(&h));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(a.done, 1);
        ds_sched_session_set(session, DETSHARE_CLASS_BE, 0, 100, harness_now(&h));
        submit(&h, stream, kernel_init(&b, 2, MS, 16, 2));
        harness_run(&h, harness_now(&h) + MS);
        cr_assert_eq(b.done, 0);
        ds_sched_hold(h.sched, 0, harness_now(&h));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(b.done, 1);
}
