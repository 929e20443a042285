/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounts of requests' time: constructed cases on the scripted device, and sums that always match; contents of traces;
 * histograms
 */
#include "tests/unit/sched_device.h"
#include "util/histogram.h"

#define US 1000ULL
#define MS 1000000ULL

static struct harness h;
static struct ds_history_request last[DS_HISTORY_REQUESTS + 1];

static void setup(void)
{
        cr_assert_eq(harness_open(&h, 8, NULL, "fifo"), 0);
}

static void teardown(void)
{
        harness_assert_clean(&h);
        harness_close(&h);
}

TestSuite(sched_history, .init = setup, .fini = teardown);
TestSuite(sched_history_policies, .fini = teardown); /* the tests of this suite open a harness of their own */

static void assert_adds_up(const struct ds_history_request *request)
{
        uint64_t sum = 0;

        for (int i = 0; i < _DS_HISTORY_PARTS; i++)
                sum += request->ns[i];
        cr_assert_eq(sum, request->end_ns - request->begin_ns, "%llu charged of %llu", (unsigned long long)sum,
                (unsigned long long)(request->end_ns - request->begin_ns));
}

/* The session's last request; a wait of the client ended it. */
static const struct ds_history_request *request_of(ds_sched_session *session)
{
        size_t n;

        ds_history_synchronised(session);
        n = ds_history_requests(session, harness_now(&h), last, DS_HISTORY_REQUESTS + 1);
        cr_assert_gt(n, 0);
        for (size_t i = 0; i < n; i++)
                assert_adds_up(&last[i]);
        return &last[n - 1];
}

static void assert_part(const struct ds_history_request *request, enum ds_history_part part, uint64_t ns)
{
        cr_assert_eq(request->ns[part], ns, "part %d: %llu, not %llu", (int)part, (unsigned long long)request->ns[part],
                (unsigned long long)ns);
}

static void go_to(uint64_t ns)
{
        harness_run(&h, ns);
        h.device->now_ns = ns;
}

Test(sched_history, one_kernel_alone_only_runs)
{
        ds_sched_session *session = session_open(&h, 1, DETSHARE_CLASS_LS, 0);
        ds_coroutine *stream = stream_open(session, 0, 0);
        const struct ds_history_request *request;
        struct top top;

        go_to(5 * US);
        submit(&h, stream, kernel_init(&top, 1, 100 * US, 16, 0));
        harness_run(&h, UINT64_MAX);
        request = request_of(session);
        cr_assert_eq(request->begin_ns, 5 * US);
        cr_assert_eq(request->end_ns, 105 * US);
        cr_assert_eq(request->operations, 1);
        cr_assert_eq(request->n_blockers, 0);
        cr_assert_eq(request->active, 0);
        assert_part(request, DS_HISTORY_RUNNING, 100 * US);
        cr_assert_eq(request->n_rungs, 1);
        cr_assert_eq(request->rungs[0].rung, 0);
        cr_assert_eq(request->rungs[0].n_sms, 16);
        cr_assert_eq(request->rungs[0].run_ns, 100 * US);
}

/* A kernel is ready for 50 us without a call of the policy: the work that ran meanwhile gets the blame. */
Test(sched_history, not_launched_blames_the_longest_runner)
{
        ds_sched_session *ls = session_open(&h, 1, DETSHARE_CLASS_LS, 0),
                         *be = session_open(&h, 2, DETSHARE_CLASS_BE, 0);
        ds_sched_session *other = session_open(&h, 3, DETSHARE_CLASS_BE, 0);
        ds_coroutine *ls_stream = stream_open(ls, 0, 0), *be_stream = stream_open(be, 0, 0);
        ds_coroutine *other_stream = stream_open(other, 0, 0);
        const struct ds_history_request *request;
        struct top a, b, c;

        submit(&h, be_stream, kernel_init(&a, 2, 300 * US, 16, 0));
        submit(&h, other_stream, kernel_init(&b, 3, 20 * US, 16, 0));
        go_to(10 * US);
        submit(&h, ls_stream, kernel_init(&c, 1, 100 * US, 16, 0));
        ds_sched_settle(h.sched); /* makes the kernel ready without a call of the policy */
        h.device->now_ns = 60 * US;
        harness_run(&h, UINT64_MAX);
        request = request_of(ls);
        assert_part(request, DS_HISTORY_BEHIND, 50 * US);
        assert_part(request, DS_HISTORY_RUNNING, 100 * US);
        cr_assert_eq(request->n_blockers, 1);
        cr_assert_eq(request->blockers[0].session, 2);
        cr_assert_eq(request->blockers[0].uid, 2);
        cr_assert_eq(request->blockers[0].ns, 50 * US);
        cr_assert_eq(request->rungs[0].wait_ns, 50 * US);
}

/* A kernel is ready for as long while no other work runs: the policy gets the blame. */
Test(sched_history, not_launched_with_nobody_there_is_the_policy)
{
        ds_sched_session *ls = session_open(&h, 1, DETSHARE_CLASS_LS, 0),
                         *be = session_open(&h, 2, DETSHARE_CLASS_BE, 0);
        ds_coroutine *ls_stream = stream_open(ls, 0, 0), *be_stream = stream_open(be, 0, 0);
        const struct ds_history_request *request;
        struct top a, c;

        submit(&h, be_stream, kernel_init(&a, 2, 30 * US, 16, 0));
        go_to(10 * US);
        submit(&h, ls_stream, kernel_init(&c, 1, 100 * US, 16, 0));
        ds_sched_settle(h.sched); /* makes the kernel ready without a call of the policy */
        h.device->now_ns = 60 * US;
        harness_run(&h, UINT64_MAX);
        request = request_of(ls);
        assert_part(request, DS_HISTORY_BEHIND, 20 * US);
        assert_part(request, DS_HISTORY_POLICY, 30 * US);
        assert_part(request, DS_HISTORY_RUNNING, 100 * US);
}

static void delay_streams(uint32_t rung, uint64_t until_ns)
{
        uint32_t first = h.sched->ladder.device_rung[rung] * DS_LADDER_STREAMS;

        for (uint32_t i = 0; i < DS_LADDER_STREAMS; i++)
                h.device->free_at[first + i] = until_ns;
}

Test(sched_history, launched_and_not_begun_is_the_device)
{
        ds_sched_session *session = session_open(&h, 1, DETSHARE_CLASS_LS, 0);
        ds_coroutine *stream = stream_open(session, 0, 0);
        struct top top;

        delay_streams(0, 40 * US);
        submit(&h, stream, kernel_init(&top, 1, 100 * US, 16, 0));
        harness_run(&h, UINT64_MAX);
        assert_part(request_of(session), DS_HISTORY_DEVICE, 40 * US);
        assert_part(request_of(session), DS_HISTORY_RUNNING, 100 * US);
}

/* A kernel that was launched and has not begun is delayed only by work that shares its TPCs. */
Test(sched_history, launched_and_not_begun_blames_work_on_the_rung)
{
        ds_sched_session *ls = session_open(&h, 1, DETSHARE_CLASS_LS, 0),
                         *be = session_open(&h, 2, DETSHARE_CLASS_BE, 0);
        ds_coroutine *ls_stream = stream_open(ls, 0, 0), *be_stream = stream_open(be, 0, 0);
        struct top a, b;

        submit(&h, be_stream, kernel_init(&a, 2, 500 * US, 16, 0));
        harness_step(&h);
        delay_streams(0, 40 * US);
        submit(&h, ls_stream, kernel_init(&b, 1, 100 * US, 16, 0));
        harness_run(&h, UINT64_MAX);
        assert_part(request_of(ls), DS_HISTORY_BEHIND, 40 * US);
        cr_assert_eq(request_of(ls)->blockers[0].session, 2);
}

Test(sched_history_policies, disjoint_rungs_are_not_in_each_others_way)
{
        static const char *const params[] = {"ls_percent=50"};
        ds_sched_session *ls, *be;
        ds_coroutine *ls_stream, *be_stream;
        char message[128];
        struct top a, b;

        cr_assert_eq(harness_open(&h, 8, "policies", "fifo"), 0);
        cr_assert_eq(ds_sched_set_policy(h.sched, "static", params, 1, 0, message, sizeof(message)), 0, "%s", message);
        ls = session_open(&h, 1, DETSHARE_CLASS_LS, 0);
        be = session_open(&h, 2, DETSHARE_CLASS_BE, 0);
        ls_stream = stream_open(ls, 0, 0);
        be_stream = stream_open(be, 0, 0);
        submit(&h, be_stream, kernel_init(&a, 2, 500 * US, 16, 0));
        harness_step(&h);
        for (uint32_t rung = 0; rung < h.sched->ladder.n; rung++)
                delay_streams(rung, 40 * US);
        submit(&h, ls_stream, kernel_init(&b, 1, 100 * US, 16, 0));
        harness_run(&h, UINT64_MAX);
        assert_part(request_of(ls), DS_HISTORY_BEHIND, 0);
        assert_part(request_of(ls), DS_HISTORY_DEVICE, 40 * US);
        cr_assert_neq(request_of(ls)->rungs[0].rung, 0);
}

Test(sched_history, held_by_a_quiesce)
{
        ds_sched_session *ls = session_open(&h, 1, DETSHARE_CLASS_LS, 0),
                         *be = session_open(&h, 2, DETSHARE_CLASS_BE, 0);
        ds_coroutine *ls_stream = stream_open(ls, 0, 0), *be_stream = stream_open(be, 0, 0);
        struct top a, b;

        go_to(10 * US);
        ds_sched_hold(h.sched, 1u << DETSHARE_CLASS_BE, 10 * US);
        submit(&h, ls_stream, kernel_init(&a, 1, 20 * US, 16, 0));
        submit(&h, be_stream, kernel_init(&b, 2, 100 * US, 16, 0));
        go_to(50 * US);
        ds_sched_hold(h.sched, 3, 50 * US);
        go_to(60 * US);
        ds_sched_hold(h.sched, 0, 60 * US);
        harness_run(&h, UINT64_MAX);
        assert_part(request_of(be), DS_HISTORY_HELD, 50 * US);
        assert_part(request_of(be), DS_HISTORY_RUNNING, 100 * US);
        assert_part(request_of(ls), DS_HISTORY_HELD, 0);
        assert_part(request_of(ls), DS_HISTORY_RUNNING, 20 * US);
}

/* LS may launch while BE is held for a quiesce, so the quiesce is not the cause of LS's delay. */
Test(sched_history, a_quiesce_of_the_other_class_holds_nobody)
{
        ds_sched_session *ls = session_open(&h, 1, DETSHARE_CLASS_LS, 0);
        ds_coroutine *stream = stream_open(ls, 0, 0);
        struct top top;

        go_to(10 * US);
        ds_sched_hold(h.sched, 1u << DETSHARE_CLASS_BE, 10 * US);
        submit(&h, stream, kernel_init(&top, 1, 20 * US, 16, 0));
        ds_sched_settle(h.sched); /* makes the kernel ready without a call of the policy */
        h.device->now_ns = 40 * US;
        ds_sched_hold(h.sched, 0, 40 * US);
        harness_run(&h, UINT64_MAX);
        assert_part(request_of(ls), DS_HISTORY_HELD, 0);
        assert_part(request_of(ls), DS_HISTORY_POLICY, 30 * US);
        assert_part(request_of(ls), DS_HISTORY_RUNNING, 20 * US);
}

Test(sched_history_policies, loans_are_counted)
{
        static const ds_device_kernel cooperative = {
                .info = {.name = "grid_sync", .max_threads = 1024, .registers = 16, .cooperative = 1}};
        static const char *const params[] = {"ls_percent=50"};
        ds_coroutine *stream;
        ds_sched_session *ls;
        char message[128];
        struct top small, large;

        cr_assert_eq(harness_open(&h, 8, "policies", "fifo"), 0);
        cr_assert_eq(ds_sched_set_policy(h.sched, "static", params, 1, 0, message, sizeof(message)), 0, "%s", message);
        ls = session_open(&h, 1, DETSHARE_CLASS_LS, 0);
        stream = stream_open(ls, 0, 0);
        kernel_init(&small, 1, 10 * US, 64, 0); /* 8 of 16 SMs hold 64 blocks */
        kernel_init(&large, 1, 10 * US, 65, 0);
        small.op.launch.kernel = large.op.launch.kernel = &cooperative;
        submit(&h, stream, &small);
        submit(&h, stream, &large);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(request_of(ls)->operations, 2);
        cr_assert_eq(request_of(ls)->loans, 1);
}

Test(sched_history, waiting_for_an_event_of_another_session_depends)
{
        ds_sched_session *one = session_open(&h, 1, DETSHARE_CLASS_LS, 0),
                         *two = session_open(&h, 2, DETSHARE_CLASS_LS, 0);
        ds_coroutine *first = stream_open(one, 0, 0), *second = stream_open(two, 0, 0);
        struct top a, wait, b;

        submit(&h, first, kernel_init(&a, 1, 80 * US, 16, 0));
        submit(&h, second, wait_init(&wait, first, 1));
        submit(&h, second, kernel_init(&b, 2, 10 * US, 16, 0));
        harness_run(&h, UINT64_MAX);
        assert_part(request_of(two), DS_HISTORY_DEPENDS, 80 * US);
        assert_part(request_of(two), DS_HISTORY_RUNNING, 10 * US);
        cr_assert_eq(request_of(two)->own_ns, 80 * US);
}

Test(sched_history, a_request_continues_after_a_short_gap_unless_synchronised)
{
        ds_sched_session *session = session_open(&h, 1, DETSHARE_CLASS_LS, 0);
        ds_coroutine *stream = stream_open(session, 0, 0);
        struct top a, b, c, d;
        size_t n;

        submit(&h, stream, kernel_init(&a, 1, 10 * US, 16, 0));
        go_to(60 * US);
        submit(&h, stream, kernel_init(&b, 1, 10 * US, 16, 0));
        go_to(100 * US);
        cr_assert_eq(ds_history_requests(session, harness_now(&h), last, 2), 1);
        cr_assert_eq(last[0].active, 1);
        assert_part(request_of(session), DS_HISTORY_HOST, 50 * US);
        assert_part(request_of(session), DS_HISTORY_RUNNING, 20 * US);
        /* the client has waited, so the next kernel begins a new request */
        submit(&h, stream, kernel_init(&c, 1, 10 * US, 16, 0));
        go_to(200 * US);
        go_to(200 * US + DS_HISTORY_GAP_NS);
        /* the client has not waited, but the gap is too long for one request */
        submit(&h, stream, kernel_init(&d, 1, 10 * US, 16, 0));
        harness_run(&h, UINT64_MAX);
        n = ds_history_requests(session, harness_now(&h), last, 8);
        cr_assert_eq(n, 3);
        cr_assert_eq(last[1].end_ns, 110 * US);
        cr_assert_eq(last[2].begin_ns, 200 * US + DS_HISTORY_GAP_NS);
}

/* Two streams run concurrently and the second one is reported first: time that counted as waiting becomes running
 * time. */
Test(sched_history, streams_beside_each_other_run_once)
{
        ds_sched_session *session = session_open(&h, 1, DETSHARE_CLASS_LS, 0);
        ds_coroutine *one = stream_open(session, 0, 0), *two = stream_open(session, 0, 0);
        struct top a, b;

        submit(&h, one, kernel_init(&a, 1, 100 * US, 16, 0));
        harness_step(&h);
        delay_streams(0, 50 * US);
        submit(&h, two, kernel_init(&b, 1, 10 * US, 16, 0));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(b.end_ns, 60 * US);
        assert_part(request_of(session), DS_HISTORY_RUNNING, 100 * US);
        assert_part(request_of(session), DS_HISTORY_DEVICE, 0);
        cr_assert_eq(request_of(session)->rungs[0].run_ns, 100 * US);
        cr_assert_eq(request_of(session)->rungs[0].wait_ns, 0);
}

/* In every random history each nanosecond counts once, and blame never exceeds waiting. */
Test(sched_history_policies, random_histories_add_up)
{
        static struct top tops[4000];
        ds_coroutine *streams[8];
        ds_sched_session *sessions[4];
        unsigned seed = 7;
        size_t checked = 0;

        cr_assert_eq(harness_open(&h, 8, "policies", "multistream"), 0);
        for (uint32_t i = 0; i < 4; i++) {
                sessions[i] = session_open(&h, i + 1, i < 2 ? DETSHARE_CLASS_LS : DETSHARE_CLASS_BE, MS);
                streams[2 * i] = stream_open(sessions[i], i & 1, 0);
                streams[2 * i + 1] = stream_open(sessions[i], i & 1, 0);
        }
        for (size_t i = 0; i < DS_ARRAY_SIZE(tops); i++) {
                uint32_t at = (uint32_t)rand_r(&seed) % 8;
                uint64_t pause = (uint64_t)rand_r(&seed) % 8 ? 0 : (uint64_t)rand_r(&seed) % (400 * US);

                if (i > 100 && rand_r(&seed) % 5 == 0)
                        submit(&h, streams[at], wait_init(&tops[i], streams[(uint32_t)rand_r(&seed) % 8], i));
                else
                        submit(&h, streams[at],
                                kernel_init(&tops[i], at / 2 + 1, (uint64_t)rand_r(&seed) % (60 * US), 16, 0));
                if (rand_r(&seed) % 40 == 0)
                        ds_sched_hold(h.sched, (unsigned)rand_r(&seed) % 4, harness_now(&h));
                if (rand_r(&seed) % 30 == 0)
                        delay_streams(0, harness_now(&h) + 20 * US);
                if (pause)
                        go_to(harness_now(&h) + pause);
        }
        ds_sched_hold(h.sched, 0, harness_now(&h));
        harness_run(&h, UINT64_MAX);
        for (uint32_t i = 0; i < 4; i++) {
                size_t n = ds_history_requests(sessions[i], harness_now(&h), last, DS_HISTORY_REQUESTS + 1);

                for (size_t k = 0; k < n; k++, checked++) {
                        uint64_t blamed = 0, ran = 0;

                        assert_adds_up(&last[k]);
                        for (uint32_t j = 0; j < last[k].n_blockers; j++)
                                blamed += last[k].blockers[j].ns;
                        for (uint32_t j = 0; j < last[k].n_rungs; j++)
                                ran += last[k].rungs[j].run_ns;
                        cr_assert_leq(blamed, last[k].ns[DS_HISTORY_BEHIND]);
                        cr_assert_eq(ran, last[k].ns[DS_HISTORY_RUNNING]);
                }
        }
        cr_assert_gt(checked, 50);
}

Test(sched_history, the_last_64_are_kept_and_counted)
{
        ds_sched_session *session = session_open(&h, 1, DETSHARE_CLASS_LS, 150 * US);
        ds_coroutine *stream = stream_open(session, 0, 0);
        struct ds_history_activity activity;
        struct top tops[100];

        for (uint64_t i = 0; i < 100; i++) {
                /* one request in ten exceeds its objective */
                submit(&h, stream, kernel_init(&tops[i], 1, i % 10 ? 100 * US : 200 * US, 16, i + 1));
                go_to((i + 1) * MS);
                ds_history_synchronised(session);
        }
        cr_assert_eq(ds_history_requests(session, 100 * MS, last, DS_HISTORY_REQUESTS + 1), 64);
        cr_assert_eq(last[63].begin_ns, 99 * MS);
        cr_assert_eq(last[0].begin_ns, 36 * MS);
        cr_assert_eq(ds_history_requests(session, 100 * MS, last, 2), 2);
        cr_assert_eq(last[1].begin_ns, 99 * MS);
        ds_history_activity(session, 100 * MS, &activity);
        cr_assert_eq(activity.requests, 100);
        cr_assert_eq(activity.window_requests, 100);
        cr_assert_eq(activity.window_judged, 100);
        cr_assert_eq(activity.window_met, 90);
        cr_assert(activity.p50_ns >= 100 * US && activity.p50_ns < 107 * US);
        cr_assert(activity.p99_ns >= 200 * US && activity.p99_ns < 213 * US);
        cr_assert_eq(activity.max_ns, 200 * US);
        /* one kernel of 110 us on average in each ms: 11% of the time */
        cr_assert(activity.share_permille >= 105 && activity.share_permille <= 115, "%u", activity.share_permille);
        /* with another objective, requests judged by the old one no longer count as judged */
        ds_sched_session_set(session, DETSHARE_CLASS_LS, &(struct ds_slo){.ns = {300 * US}}, 0, 100 * MS);
        ds_history_activity(session, 100 * MS, &activity);
        cr_assert_eq(activity.window_requests, 100);
        cr_assert_eq(activity.window_judged, 0);
        cr_assert_eq(activity.window_met, 0);
        submit(&h, stream, kernel_init(&tops[0], 1, 200 * US, 16, 101));
        go_to(101 * MS);
        ds_history_synchronised(session);
        ds_history_activity(session, 101 * MS, &activity);
        cr_assert_eq(activity.window_judged, 1);
        cr_assert_eq(activity.window_met, 1);
        /* 30 s after the last request */
        ds_history_activity(session, 100 * MS + 30 * 1000 * MS, &activity);
        cr_assert_eq(activity.window_requests, 0);
        cr_assert_eq(activity.p99_ns, 0);
        cr_assert_eq(activity.share_permille, 0);
        cr_assert_eq(activity.requests, 101);
}

Test(sched_history, running_work_has_its_share)
{
        ds_sched_session *session = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *stream = stream_open(session, 0, 0);
        struct ds_history_activity activity;
        struct top top;

        go_to(4000 * MS);
        submit(&h, stream, kernel_init(&top, 1, 60000 * MS, 16, 0));
        go_to(4000 * MS + 2000 * MS);
        ds_history_activity(session, harness_now(&h), &activity);
        cr_assert_eq(activity.share_permille, 1000);
        cr_assert_eq(activity.request_active, 1);
        cr_assert_eq(activity.rung, 0);
        cr_assert_eq(activity.rung_sms, 16);
        cr_assert_eq(activity.in_flight, 1);
        harness_run(&h, UINT64_MAX);
        ds_history_activity(session, harness_now(&h), &activity);
        cr_assert_geq(activity.share_permille, 990);
        cr_assert_eq(activity.rung, 0);
        ds_history_activity(session, harness_now(&h) + 2000 * MS, &activity);
        cr_assert_eq(activity.rung, DETSHARE_RUNG_NONE);
        cr_assert_eq(activity.rung_sms, 0);
}

Test(sched_history, a_session_that_is_cancelled_ends_its_request)
{
        ds_sched_session *session = session_open(&h, 1, DETSHARE_CLASS_LS, 0);
        ds_coroutine *stream = stream_open(session, 0, 0);
        struct top a, b;

        submit(&h, stream, kernel_init(&a, 1, 100 * US, 16, 0));
        harness_step(&h);
        submit(&h, stream, kernel_init(&b, 1, 100 * US, 16, 0));
        go_to(30 * US);
        ds_sched_session_cancel(session, DS_CUDA_LAUNCH_FAILED, 30 * US);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(ds_history_requests(session, harness_now(&h), last, 2), 1);
        cr_assert_eq(last[0].active, 0);
        assert_adds_up(&last[0]);
}

/* --- traces ------------------------------------------------------------------------------------------------------- */

static _Alignas(64) uint8_t memory[DS_TRACE_BYTES_MIN];

static const struct ds_trace_record *record_at(uint64_t index)
{
        const struct ds_trace_header *header = (void *)memory;

        return (const struct ds_trace_record *)(void *)(memory + header->records_at) + index % header->capacity;
}

static const struct ds_trace_record *record_find(enum ds_trace_kind kind, uint64_t session)
{
        const struct ds_trace_header *header = (void *)memory;
        uint64_t first = header->written - DS_MIN(header->written, header->capacity);

        for (uint64_t i = first; i < header->written; i++)
                if (record_at(i)->kind == (uint32_t)kind && record_at(i)->session == session)
                        return record_at(i);
        return NULL;
}

static const char *name_at(uint32_t name)
{
        return (const char *)memory + ((const struct ds_trace_header *)(void *)memory)->names_at + name;
}

Test(sched_history, a_trace_has_all_operations)
{
        ds_sched_session *ls = session_open(&h, 1, DETSHARE_CLASS_LS, 0),
                         *be = session_open(&h, 2, DETSHARE_CLASS_BE, 0);
        ds_coroutine *ls_stream = stream_open(ls, 0, 0), *be_stream = stream_open(be, 0, 0);
        const struct ds_trace_header *header = (void *)memory;
        const struct ds_trace_record *record;
        struct top a, b, untraced;

        cr_assert_eq(ds_sched_trace_stop(h.sched, 0), -ENOENT);
        submit(&h, be_stream, kernel_init(&untraced, 2, 3 * US, 16, 0));
        go_to(10 * US);
        cr_assert_eq(ds_sched_trace_start(h.sched, memory, sizeof(memory), 10 * US, UINT64_MAX), 0);
        cr_assert_eq(ds_sched_trace_start(h.sched, memory, sizeof(memory), 10 * US, UINT64_MAX), -EBUSY);
        submit(&h, be_stream, kernel_init(&a, 2, 300 * US, 24, 77));
        go_to(20 * US);
        submit(&h, ls_stream, kernel_init(&b, 1, 100 * US, 16, 78));
        ds_sched_settle(h.sched); /* makes the kernel ready without a call of the policy */
        h.device->now_ns = 60 * US;
        harness_run(&h, UINT64_MAX);
        ds_history_synchronised(ls);
        ds_sched_session_set(be, DETSHARE_CLASS_LS, 0, 100, harness_now(&h));
        cr_assert_eq(ds_sched_trace_stop(h.sched, harness_now(&h)), 0);
        cr_assert_eq(header->magic, DS_TRACE_MAGIC);
        cr_assert_eq(header->n_sms, 16);
        cr_assert_eq(header->n_rungs, h.sched->ladder.n);
        cr_assert_eq(header->rungs[0].tpcs[0], 0xff);
        cr_assert_eq(header->begin_ns, 10 * US);
        cr_assert_eq(header->end_ns, 310 * US);
        record = record_find(DS_TRACE_OPERATION, 2);
        cr_assert_eq(record->kernel, 77);
        cr_assert_eq(record->begin_ns, 10 * US);
        cr_assert_eq(record->end_ns, 310 * US);
        cr_assert_eq(record->blocks, 24);
        cr_assert_eq(record->part, 0);
        cr_assert_str_eq(name_at(record->name), "scripted");
        record = record_find(DS_TRACE_OPERATION, 1);
        cr_assert_eq(record->submitted_ns, 20 * US);
        cr_assert_eq(record->ready_ns, 20 * US);
        cr_assert_eq(record->launched_ns, 60 * US);
        cr_assert_eq(record->begin_ns, 60 * US);
        cr_assert_eq(record->part, 1 + DS_HISTORY_BEHIND);
        cr_assert_eq(record->behind, 2);
        cr_assert_eq(record->sms, 16);
        record = record_find(DS_TRACE_REQUEST, 1);
        cr_assert_eq(record->begin_ns, 20 * US);
        cr_assert_eq(record->end_ns, 160 * US);
        cr_assert_str_eq(name_at(record_find(DS_TRACE_POLICY, 0)->name), "fifo");
        cr_assert_eq(record_find(DS_TRACE_SESSION, 1)->detail, DETSHARE_CLASS_LS);
        cr_assert_eq(record_find(DS_TRACE_SESSION, 2)->detail, DETSHARE_CLASS_BE);
        cr_assert_eq(record_at(header->written - 1)->kind, DS_TRACE_SESSION);
        cr_assert_eq(record_at(header->written - 1)->detail, DETSHARE_CLASS_LS);
}

Test(sched_history_policies, a_trace_has_moves_holds_and_policies)
{
        static const char *const params[] = {"ls_percent=50"};
        const struct ds_trace_record *record;
        ds_sched_session *be;
        ds_coroutine *stream;
        char message[128];
        struct top a, b;

        cr_assert_eq(harness_open(&h, 8, "policies", "fifo"), 0);
        be = session_open(&h, 2, DETSHARE_CLASS_BE, 0);
        stream = stream_open(be, 0, 0);
        memset(memory, 0, sizeof(memory));
        cr_assert_eq(ds_sched_trace_start(h.sched, memory, sizeof(memory), 0, UINT64_MAX), 0);
        submit(&h, stream, kernel_init(&a, 2, 100 * US, 16, 0));
        harness_step(&h);
        /* this share moves BE's next kernel to a smaller rung, behind the running one */
        ds_sched_session_set(be, DETSHARE_CLASS_BE, 0, 25, 0);
        submit(&h, stream, kernel_init(&b, 2, 100 * US, 16, 0));
        harness_run(&h, UINT64_MAX);
        ds_sched_hold(h.sched, 2, harness_now(&h));
        go_to(300 * US);
        ds_sched_hold(h.sched, 0, harness_now(&h));
        cr_assert_eq(ds_sched_set_policy(h.sched, "static", params, 1, 300 * US, message, sizeof(message)), 0);
        harness_step(&h);
        cr_assert_eq(ds_sched_trace_stop(h.sched, harness_now(&h)), 0);
        record = record_find(DS_TRACE_MOVE, 2);
        cr_assert_not_null(record);
        cr_assert_eq(record->from, 0);
        cr_assert_neq(record->rung, 0);
        cr_assert_eq(record->sms, 4);
        cr_assert(record->flags & DS_TRACE_FENCED);
        cr_assert(record->flags & DS_TRACE_CAPPED);
        record = record_find(DS_TRACE_HOLD, 0);
        cr_assert_eq(record->detail, 2);
        cr_assert_eq(record->begin_ns, 200 * US);
        cr_assert_eq(record->end_ns, 300 * US);
        record = record_at(((const struct ds_trace_header *)(void *)memory)->written - 1);
        cr_assert_eq(record->kind, DS_TRACE_POLICY);
        cr_assert_str_eq(name_at(record->name), "static");
        cr_assert_eq(ds_history_requests(be, harness_now(&h), last, 8), 1);
        cr_assert_eq(last[0].migrations, 1);
}

Test(sched_history, a_full_trace_loses_the_oldest)
{
        ds_sched_session *session = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *stream = stream_open(session, 0, 0);
        const struct ds_trace_header *header = (void *)memory;
        uint64_t n = 0, first;
        struct top top;

        cr_assert_eq(ds_sched_trace_start(h.sched, memory, sizeof(memory), 0, 20 * MS), 0);
        for (; header->written < header->capacity + 500; n++) {
                submit(&h, stream, kernel_init(&top, 1, US, 1, 5));
                harness_run(&h, UINT64_MAX);
                cr_assert_lt(n, 3 * header->capacity);
        }
        first = header->written - header->capacity;
        cr_assert_gt(first, 0);
        cr_assert_eq(record_at(first)->kind, DS_TRACE_OPERATION);
        cr_assert_lt(record_at(first)->end_ns, record_at(header->written - 1)->end_ns);
        cr_assert_eq((uint64_t)((const uint8_t *)(record_at(header->capacity - 1) + 1) - memory) <= sizeof(memory), 1);
        /* the recording time is over */
        go_to(21 * MS);
        n = header->written;
        submit(&h, stream, kernel_init(&top, 1, US, 1, 5));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(header->written, n);
        cr_assert_eq(ds_sched_trace_stop(h.sched, harness_now(&h)), 0);
        cr_assert_eq(header->end_ns, 20 * MS);
}

Test(histogram, quantiles_are_within_a_sixteenth)
{
        static struct ds_histogram a, none;
        static const uint32_t permille[] = {500, 900, 990, 1000};

        cr_assert_eq(ds_histogram_quantile(&none, &none, 500), 0);
        for (uint64_t i = 1; i <= 10000; i++)
                ds_histogram_add(&a, i * 5 * US);
        for (size_t i = 0; i < DS_ARRAY_SIZE(permille); i++) {
                uint64_t exact = permille[i] * 10 * 5 * US, got = ds_histogram_quantile(&a, &none, permille[i]);

                cr_assert(got >= exact && got <= exact + exact / 16, "%u: %llu for %llu", permille[i],
                        (unsigned long long)got, (unsigned long long)exact);
        }
        ds_histogram_add(&none, 3);
        cr_assert_eq(ds_histogram_quantile(&none, &none, 500), 3);
        ds_histogram_add(&none, UINT64_MAX);
        cr_assert_eq(ds_histogram_quantile(&none, &none, 1000), UINT64_MAX);
}
