/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coroutines: order, marks, waits, the legacy default stream, release, cancel, requests, states
 */
#include "tests/unit/sched_device.h"

#define US 1000ULL

static struct harness h;

static void setup(void)
{
        cr_assert_eq(harness_open(&h, 8, NULL, "fifo"), 0);
}

static void teardown(void)
{
        if (h.sched)
                harness_assert_clean(&h);
        harness_close(&h);
}

TestSuite(sched_coroutine, .init = setup, .fini = teardown);

Test(sched_coroutine, runs_in_order_and_tells_times)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *c = stream_open(s, 1, 0);
        struct top a, b, mark;

        cr_assert_eq(submit(&h, c, kernel_init(&a, 1, 10 * US, 1, 0)), 0);
        cr_assert_eq(submit(&h, c, kernel_init(&b, 1, 5 * US, 1, 0)), 0);
        cr_assert_eq(submit(&h, c, mark_init(&mark)), 0);
        cr_assert_eq(a.op.seq, 1);
        cr_assert_eq(mark.op.seq, 3);
        cr_assert_eq(ds_coroutine_submitted(c), 3);
        cr_assert_eq(h.told, 0);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(a.end_ns, 10 * US);
        cr_assert_eq(b.start_ns, 10 * US);
        cr_assert_eq(mark.end_ns, 15 * US);
        cr_assert(a.order < b.order && b.order < mark.order);
        cr_assert_eq(ds_coroutine_done(c), 3);
        cr_assert_eq(c->state, DS_COROUTINE_IDLE);
}

Test(sched_coroutine, mark_on_an_idle_stream_has_the_time_of_its_submission)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_LS, 0), 1, 0);
        struct top mark;

        h.device->now_ns = 7 * US;
        cr_assert_eq(submit(&h, c, mark_init(&mark)), 0);
        cr_assert_eq(mark.done, 0, "submit calls nobody back");
        harness_step(&h);
        cr_assert_eq(mark.done, 1);
        cr_assert_eq(mark.end_ns, 7 * US);
}

Test(sched_coroutine, a_wait_delays_only_its_successors)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *a = stream_open(s, 0, 0), *b = stream_open(s, 0, 0), *free_ = stream_open(s, 0, 0);
        struct top slow, wait, after, mark, other;

        submit(&h, a, kernel_init(&slow, 1, 50 * US, 1, 0));
        submit(&h, b, wait_init(&wait, a, 1));
        submit(&h, b, mark_init(&mark));
        submit(&h, b, kernel_init(&after, 1, 5 * US, 1, 0));
        submit(&h, free_, kernel_init(&other, 1, 5 * US, 1, 0));
        harness_step(&h);
        cr_assert_eq(b->state, DS_COROUTINE_READY);
        cr_assert_eq(b->runnable, 0);
        cr_assert_eq(a->state, DS_COROUTINE_RUNNING);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(after.start_ns, 50 * US);
        cr_assert_eq(mark.end_ns, 50 * US, "an event after a wait has the time of what was waited for");
        cr_assert_eq(other.start_ns, 0);
        cr_assert_null(wait.op.wait_for);
}

Test(sched_coroutine, wait_for_the_future_is_cut_down_to_the_present)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *a = stream_open(s, 0, 0), *b = stream_open(s, 0, 0);
        struct top wait_a, wait_b, wait_self, null_wait, ka, kb;

        /* a and b wait for each other: this would be a cycle if a wait covered later operations too */
        submit(&h, a, wait_init(&wait_a, b, 100));
        submit(&h, b, wait_init(&wait_b, a, 100));
        submit(&h, b, wait_init(&wait_self, b, UINT64_MAX));
        submit(&h, b, wait_init(&null_wait, NULL, 9));
        submit(&h, a, kernel_init(&ka, 1, US, 1, 0));
        submit(&h, b, kernel_init(&kb, 1, US, 1, 0));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(ka.done + kb.done + wait_a.done + wait_b.done + wait_self.done + null_wait.done, 6);
}

Test(sched_coroutine, wait_for_a_released_coroutine)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_sched_session *other = session_open(&h, 2, DETSHARE_CLASS_BE, 0);
        ds_coroutine *a = stream_open(s, 0, 0), *b = stream_open(other, 0, 0);
        struct top slow, wait, after, late_wait, late;

        submit(&h, a, kernel_init(&slow, 1, 50 * US, 1, 0));
        submit(&h, b, wait_init(&wait, a, 1));
        submit(&h, b, kernel_init(&after, 2, 5 * US, 1, 0));
        ds_coroutine_ref(a);
        ds_coroutine_release(a);
        cr_assert_eq(ds_coroutine_room(a), 0);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(after.start_ns, 50 * US);
        cr_assert_eq(harness_stats(&h).coroutines, 1);
        ds_sched_session_free(s);
        /* the stream's sequence numbers stay valid, although stream and session are closed */
        cr_assert_eq(ds_coroutine_done(a), 1);
        submit(&h, b, wait_init(&late_wait, a, 1));
        submit(&h, b, kernel_init(&late, 2, US, 1, 0));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(late.done, 1);
        ds_coroutine_unref(a);
}

Test(sched_coroutine, legacy_stream_joins_blocking_ones)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *legacy = stream_open(s, 0, 1), *x = stream_open(s, 1, 0), *y = stream_open(s, 1, 0);
        ds_coroutine *apart = stream_open(s, 0, 0), *second;
        struct top x1, y1, l1, l2, x2, y2, p1, p2;

        cr_assert_eq(ds_coroutine_new(s, 0, 0, 1, &second), -EEXIST);
        submit(&h, x, kernel_init(&x1, 1, 10 * US, 1, 0));
        submit(&h, y, kernel_init(&y1, 1, 30 * US, 1, 0));
        submit(&h, apart, kernel_init(&p1, 1, 500 * US, 1, 0));
        submit(&h, legacy, kernel_init(&l1, 1, 10 * US, 1, 0));
        submit(&h, legacy, kernel_init(&l2, 1, 10 * US, 1, 0));
        submit(&h, x, kernel_init(&x2, 1, 10 * US, 1, 0));
        submit(&h, apart, kernel_init(&p2, 1, 10 * US, 1, 0));
        submit(&h, y, mark_init(&y2));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(l1.start_ns, 30 * US, "after all blocking work before it");
        cr_assert_eq(l2.start_ns, 40 * US);
        cr_assert_eq(x2.start_ns, 50 * US, "blocking work waits for the legacy stream");
        cr_assert_eq(y2.end_ns, 50 * US, "so does an event on a blocking stream");
        cr_assert_eq(p1.start_ns, 0, "a non-blocking stream takes no part");
        cr_assert_eq(p2.start_ns, 500 * US);
}

Test(sched_coroutine, a_new_legacy_stream_after_the_old_one)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *legacy = stream_open(s, 0, 1), *x = stream_open(s, 1, 0);
        struct top l[20], x1, l2, x2;

        for (int i = 0; i < 20; i++)
                submit(&h, legacy, kernel_init(&l[i], 1, US, 1, 0));
        submit(&h, x, kernel_init(&x1, 1, 10 * US, 1, 0));
        ds_coroutine_release(legacy);
        harness_run(&h, 20 * US);
        cr_assert_null(s->legacy);
        legacy = stream_open(s, 0, 1);
        submit(&h, legacy, kernel_init(&l2, 1, US, 1, 0));
        submit(&h, x, kernel_init(&x2, 1, US, 1, 0));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(x1.start_ns, 20 * US);
        cr_assert_eq(l2.start_ns, 30 * US);
        cr_assert_eq(x2.start_ns, 31 * US);
}

Test(sched_coroutine, queue_is_bounded)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *c = stream_open(s, 0, 0);
        struct top *tops = calloc(DS_SCHED_QUEUE_MAX + 1, sizeof(*tops));

        for (int i = 0; i < DS_SCHED_QUEUE_MAX; i++) {
                cr_assert_eq(ds_coroutine_room(c), (size_t)(DS_SCHED_QUEUE_MAX - i));
                cr_assert_eq(submit(&h, c, kernel_init(&tops[i], 1, US, 1, 0)), 0);
        }
        cr_assert_eq(ds_coroutine_room(c), 0);
        kernel_init(&tops[DS_SCHED_QUEUE_MAX], 1, US, 1, 0);
        cr_assert_eq(submit(&h, c, &tops[DS_SCHED_QUEUE_MAX]), DS_SCHED_E_FULL);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(h.told, DS_SCHED_QUEUE_MAX);
        cr_assert_eq(tops[DS_SCHED_QUEUE_MAX].done, 0);
        cr_assert_eq(tops[DS_SCHED_QUEUE_MAX - 1].end_ns, DS_SCHED_QUEUE_MAX * US);
        free(tops);
}

Test(sched_coroutine, marks_behind_a_long_kernel_count_against_the_bound)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top *tops = calloc(DS_SCHED_QUEUE_MAX + 1, sizeof(*tops));
        int n = 1;

        submit(&h, c, kernel_init(&tops[0], 1, 1000 * US, 1, 0));
        harness_step(&h);
        while (!submit(&h, c, mark_init(&tops[n])))
                harness_step(&h), n++;
        cr_assert_eq(n, DS_SCHED_QUEUE_MAX);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(h.told, DS_SCHED_QUEUE_MAX);
        free(tops);
}

Test(sched_coroutine, coroutines_of_a_session_are_bounded)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *c = NULL;

        for (int i = 0; i < DS_SCHED_SESSION_COROUTINES_MAX; i++)
                c = stream_open(s, 0, 0);
        cr_assert_eq(ds_coroutine_new(s, 0, 0, 0, &c), DS_SCHED_E_FULL);
}

Test(sched_coroutine, cancel_ends_everything_in_order)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0),
                         *other = session_open(&h, 2, DETSHARE_CLASS_BE, 0);
        ds_coroutine *c = stream_open(s, 0, 0), *d = stream_open(other, 0, 0);
        struct top tops[40], wait, k, refused;

        for (int i = 0; i < 40; i++)
                submit(&h, c, kernel_init(&tops[i], 1, 100 * US, 1, 0));
        submit(&h, d, wait_init(&wait, c, 40));
        submit(&h, d, kernel_init(&k, 2, US, 1, 0));
        h.device->abort_works = 0;
        harness_run(&h, 150 * US);
        ds_sched_session_cancel(s, DS_CUDA_LAUNCH_FAILED, harness_now(&h));
        cr_assert_eq(c->state, DS_COROUTINE_FAULTED);
        cr_assert_not(ds_sched_session_idle(s));
        cr_assert_eq(h.told, 1, "what was queued is told after what still runs before it");
        cr_assert_eq(submit(&h, c, kernel_init(&refused, 1, US, 1, 0)), DS_SCHED_E_FAULTED);
        harness_run(&h, UINT64_MAX);
        cr_assert(ds_sched_session_idle(s));
        for (int i = 0; i < 40; i++) {
                cr_assert_eq(tops[i].done, 1);
                cr_assert_eq(tops[i].status, i < 16 + 1 ? 0 : DS_CUDA_LAUNCH_FAILED);
                cr_assert(i == 0 || tops[i].order > tops[i - 1].order);
        }
        cr_assert_eq(k.status, 0);
        cr_assert_eq(k.start_ns, 1700 * US, "others that wait for it go on when it is over");
        ds_sched_session_free(s);
        cr_assert_eq(harness_stats(&h).sessions, 1);
}

Test(sched_coroutine, cancel_of_a_session_that_waits)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_LS, 0),
                         *other = session_open(&h, 2, DETSHARE_CLASS_BE, 0);
        ds_coroutine *c = stream_open(s, 0, 0), *d = stream_open(other, 0, 0);
        struct top slow, wait, k, again;

        submit(&h, d, kernel_init(&slow, 2, 100 * US, 1, 0));
        submit(&h, c, wait_init(&wait, d, 1));
        submit(&h, c, kernel_init(&k, 1, US, 1, 0));
        harness_step(&h);
        ds_sched_session_cancel(s, DS_CUDA_ILLEGAL_ADDRESS, harness_now(&h));
        cr_assert_eq(wait.status, DS_CUDA_ILLEGAL_ADDRESS);
        cr_assert_eq(k.status, DS_CUDA_ILLEGAL_ADDRESS);
        cr_assert(ds_sched_session_idle(s));
        ds_sched_session_free(s);
        submit(&h, d, kernel_init(&again, 2, US, 1, 0));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(again.end_ns, 101 * US);
}

Test(sched_coroutine, device_errors_reach_the_right_operation)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *c = stream_open(s, 0, 0);
        struct ds_sched_session_stats stats;
        struct top ok, refused, bad, last;

        submit(&h, c, kernel_init(&ok, 1, 10 * US, 1, 0));
        kernel_init(&refused, 1, US, 1, 0);
        refused.script.refuse = DS_CUDA_LAUNCH_OUT_OF_RESOURCES;
        submit(&h, c, &refused);
        kernel_init(&bad, 1, US, 1, 0);
        bad.script.status = DS_CUDA_ILLEGAL_ADDRESS;
        submit(&h, c, &bad);
        submit(&h, c, kernel_init(&last, 1, US, 1, 0));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(ok.status, 0);
        cr_assert_str_empty(ok.message);
        cr_assert_eq(refused.status, DS_CUDA_LAUNCH_OUT_OF_RESOURCES);
        cr_assert_eq(bad.status, DS_CUDA_ILLEGAL_ADDRESS);
        cr_assert_str_eq(bad.message, "scripted fault");
        cr_assert_eq(last.status, 0);
        cr_assert(ok.order < refused.order && refused.order < bad.order && bad.order < last.order);
        ds_sched_session_stats(s, &stats);
        cr_assert_eq(stats.errors, 2);
        cr_assert_eq(stats.launches, 3);
        cr_assert_eq(stats.completed, 4);
        cr_assert_eq(stats.device_ns, 12 * US);
}

Test(sched_coroutine, a_broken_device_is_fatal)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top k;

        submit(&h, c, kernel_init(&k, 1, US, 1, 0));
        h.device->fail_launch = -EIO;
        cr_assert_eq(ds_sched_step(h.sched, 0), -EIO);
        cr_assert_eq(k.done, 0);
        /* after the error of the device the queued kernel is still in its place */
        ds_sched_set_policy(h.sched, "fifo", NULL, 0, 0, (char[1]){0}, 1);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k.done, 1);
}

Test(sched_coroutine, requests_of_ls_sessions)
{
        ds_sched_session *ls = session_open(&h, 1, DETSHARE_CLASS_LS, 1000 * US),
                         *be = session_open(&h, 2, DETSHARE_CLASS_BE, 0);
        ds_coroutine *a = stream_open(ls, 0, 0), *b = stream_open(ls, 0, 0), *c = stream_open(be, 0, 0);
        struct ds_sched_session_stats stats;
        struct top k[4], mark;

        submit(&h, a, mark_init(&mark));
        harness_run(&h, UINT64_MAX);
        ds_sched_session_stats(ls, &stats);
        cr_assert_eq(stats.requests, 0, "an event alone is no request");
        submit(&h, a, kernel_init(&k[0], 1, 10 * US, 1, 0));
        submit(&h, c, kernel_init(&k[1], 2, 90 * US, 1, 0));
        harness_run(&h, 5 * US);
        submit(&h, b, kernel_init(&k[2], 1, 20 * US, 1, 0));
        harness_run(&h, 15 * US);
        cr_assert_eq(ls->request_active, 1, "one request until both streams are empty");
        harness_run(&h, 30 * US);
        cr_assert_eq(ls->request_active, 0);
        submit(&h, b, kernel_init(&k[3], 1, 20 * US, 1, 0));
        cr_assert_eq(ls->request_begin_ns, 30 * US);
        ds_sched_session_set(ls, DETSHARE_CLASS_BE, 0, 100, harness_now(&h));
        cr_assert_eq(ls->request_active, 0);
        ds_sched_session_set(ls, DETSHARE_CLASS_LS, 0, 100, harness_now(&h));
        cr_assert_eq(ls->request_active, 1);
        harness_run(&h, UINT64_MAX);
        ds_sched_session_stats(ls, &stats);
        cr_assert_eq(stats.requests, 3);
        cr_assert_eq(stats.request_active, 0);
        ds_sched_session_stats(be, &stats);
        cr_assert_eq(stats.requests, 0);
}

static ds_coroutine *release_target;
static struct top chained;

static void submit_and_release(struct harness *harness, struct top *top)
{
        if (!release_target)
                return;
        submit(harness, release_target, kernel_init(&chained, 1, US, 1, 0));
        ds_coroutine_release(DS_TAKE_PTR(release_target));
}

Test(sched_coroutine, the_callback_may_submit_and_release)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top k;

        release_target = c;
        h.on_done = submit_and_release;
        submit(&h, c, kernel_init(&k, 1, US, 1, 0));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(chained.done, 1);
        cr_assert_eq(harness_stats(&h).coroutines, 0);
}

Test(sched_coroutine, the_scheduler_may_go_with_work_queued)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_LS, 0), *t = session_open(&h, 2, DETSHARE_CLASS_BE, 0);
        ds_coroutine *a = stream_open(s, 1, 0), *b = stream_open(t, 0, 0), *legacy = stream_open(s, 0, 1), *kept;
        struct top k[4], wait[3];

        kept = ds_coroutine_ref(b);
        submit(&h, b, wait_init(&wait[0], a, 0));
        submit(&h, a, kernel_init(&k[0], 1, US, 1, 0));
        submit(&h, b, wait_init(&wait[1], a, 1));
        submit(&h, b, kernel_init(&k[1], 2, US, 1, 0));
        submit(&h, legacy, kernel_init(&k[2], 1, US, 1, 0));
        submit(&h, a, wait_init(&wait[2], b, 3));
        submit(&h, a, kernel_init(&k[3], 1, US, 1, 0));
        ds_sched_settle(h.sched);
        ds_coroutine_release(a);
        h.sched = ds_sched_free(h.sched);
        cr_assert_eq(h.told, 1, "only the wait that had nothing to wait for");
        cr_assert_eq(ds_coroutine_submitted(kept), 3);
        ds_coroutine_unref(kept);
}

Test(sched_coroutine, names_of_states)
{
        cr_assert_str_eq(ds_coroutine_state_name(DS_COROUTINE_YIELDING), "yielding");
        cr_assert_str_eq(ds_coroutine_state_name(_DS_COROUTINE_STATE_INVALID), "invalid");
}

/* The scheduler reports a kernel once, when it is seen for the first time; a report without room is repeated later. */
Test(sched_coroutine, kernels_seen_for_the_first_time)
{
        ds_coroutine *a = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct ds_sched_seen seen[DS_SEEN_MAX + 1];
        struct top k[DS_SEEN_MAX + 3];

        for (uint32_t i = 0; i < DS_ARRAY_SIZE(k); i++)
                submit(&h, a, kernel_init(&k[i], 1, US, i < 2 ? 7 : i + 7, 0));
        cr_assert_eq(ds_sched_seen(h.sched, seen, 1), 1);
        cr_assert_eq(seen[0].key, k[0].op.kernel_key);
        cr_assert_eq(k[1].op.kernel_key, k[0].op.kernel_key);
        cr_assert_eq(seen[0].grid[0], 7);
        cr_assert_eq(seen[0].block[0], 256);
        cr_assert_eq(seen[0].n_kernels, 0);
        cr_assert_str_eq(seen[0].name, "scripted");
        cr_assert_eq(ds_sched_seen(h.sched, seen, DS_SEEN_MAX + 1), DS_SEEN_MAX - 1, "128 in all");
        cr_assert_eq(ds_sched_seen(h.sched, seen, 1), 0);
        harness_run(&h, UINT64_MAX);
        submit(&h, a, kernel_init(&k[0], 1, US, 7, 0));
        submit(&h, a, kernel_init(&k[DS_ARRAY_SIZE(k) - 1], 1, US, DS_ARRAY_SIZE(k) + 6, 0));
        cr_assert_eq(ds_sched_seen(h.sched, seen, 2), 1, "for which there was no room");
        cr_assert_eq(seen[0].key, k[DS_ARRAY_SIZE(k) - 1].op.kernel_key);
        harness_run(&h, UINT64_MAX);
        ds_sched_profiles_forget(h.sched);
        submit(&h, a, kernel_init(&k[0], 1, US, 7, 0));
        cr_assert_eq(ds_sched_seen(h.sched, seen, 2), 1, "it was forgotten");
        harness_run(&h, UINT64_MAX);
}
