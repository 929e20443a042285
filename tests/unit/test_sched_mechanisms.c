/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Actions and inputs of policies: time against SMs, kills, memory caps, results that clients have, calibration,
 * senseless actions; and every edge of the coroutine's states
 */
#include <signal.h>

#include "tests/unit/sched_device.h"

#define US 1000ULL

static struct harness h;
static char message[256];

static void setup(void)
{
        cr_assert_eq(harness_open(&h, 8, "tests/policies", "fifo"), 0);
}

static void teardown(void)
{
        if (h.sched)
                harness_assert_clean(&h);
        harness_close(&h);
}

TestSuite(sched_mechanisms, .init = setup, .fini = teardown);

/* --- a policy that launches everything to `rung`, and returns one given action once ------------------------------- */

static uint32_t rung, max_blocks, depth, again, seen_events[16];
static struct detshare_action once;
static struct detshare_op_view seen_head, seen_event;
static struct detshare_profile_point seen_points[DETSHARE_POINTS_MAX];
static struct detshare_session_view seen_session;
static uint32_t seen_can_kill, seen_ready;
static uint32_t configured, configured_cells;
static int configured_result;

__attribute__((__visibility__("default"))) int probe_decide(
        void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision);
__attribute__((__visibility__("default"))) int probe_begin(const struct detshare_policy_config *config);

int probe_begin(const struct detshare_policy_config *config)
{
        configured++;
        configured_cells = config->n_interference;
        if (configured_cells)
                cr_assert_eq(config->interference[configured_cells - 1].be_permille, 7 * configured_cells);
        return configured_result;
}

static void look(const struct detshare_snapshot *snapshot)
{
        seen_events[snapshot->event % 16]++;
        seen_event = snapshot->event_op;
        seen_can_kill = snapshot->can_kill;
        if (snapshot->event_session < snapshot->n_sessions)
                seen_session = snapshot->sessions[snapshot->event_session];
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *view = &snapshot->coroutines[i];

                seen_ready = view->ready;
                if (!view->n_ahead)
                        continue;
                seen_head = view->ahead[0];
                if (seen_head.n_points)
                        memcpy(seen_points, seen_head.points, seen_head.n_points * sizeof(seen_points[0]));
        }
}

int probe_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        look(snapshot);
        decision->again = again && snapshot->event == DETSHARE_EVENT_COMPLETE;
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *view = &snapshot->coroutines[i];

                if (once.kind != DETSHARE_ACTION_LAUNCH && once.coroutine == view->id) {
                        decision->actions[decision->n++] = once;
                        once.coroutine = 0;
                } else if (view->ready && view->in_flight < depth) {
                        decision->actions[decision->n++] = (struct detshare_action){.coroutine = view->id,
                                .rung = rung,
                                .count = depth - view->in_flight,
                                .max_resident_blocks = max_blocks};
                }
        }
        return 0;
}

static void probe_start(uint32_t on_rung, uint32_t how_deep)
{
        rung = on_rung;
        depth = how_deep;
        max_blocks = again = 0;
        once = (struct detshare_action){0};
        configured_result = 0;
        memset(seen_events, 0, sizeof(seen_events));
        cr_assert_eq(ds_sched_set_policy(h.sched, "probe", NULL, 0, harness_now(&h), message, sizeof(message)), 0, "%s",
                message);
        harness_step(&h);
}

static void do_once(uint32_t kind, const ds_coroutine *coroutine, uint64_t bytes)
{
        once = (struct detshare_action){.kind = kind, .coroutine = coroutine->id, .bytes = bytes};
        /* causes an event, so that the host calls the policy */
        ds_sched_session_share(coroutine->session, coroutine->session->config.gpu_request, 0, harness_now(&h));
        harness_step(&h);
        cr_assert_eq(once.coroutine, 0);
}

static struct top *idempotent_init(struct top *top, uint64_t duration_ns)
{
        kernel_init(top, 1, duration_ns, 1, 0);
        top->op.launch.kernel = &sdev_idempotent;
        return top;
}

/* --- time against SMs --------------------------------------------------------------------------------------------- */

#define KEY 4711

static const struct ds_kstat_points *points_of(uint64_t key)
{
        uint32_t row = ds_kstat_touch(h.sched->kstat, key);

        return ds_kstat_points(h.sched->kstat, ds_kstat_at(h.sched->kstat, row, key));
}

static uint32_t samples_of(uint64_t key)
{
        const struct ds_kstat_points *points = points_of(key);
        uint32_t n = 0;

        for (uint32_t i = 0; points && i < points->n; i++)
                n += points->at[i].samples;
        return n;
}

static void run_one(ds_coroutine *coroutine, uint32_t on_rung, uint64_t duration)
{
        struct top k;

        rung = on_rung;
        submit(&h, coroutine, kernel_init(&k, 1, duration, 4, KEY));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k.done, 1);
}

/* Points are valid during one call, because a launch after it may evict them. */
Test(sched_mechanisms, a_second_call_sees_no_old_points)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);

        probe_start(0, 4);
        run_one(c, 0, 10 * US);
        cr_assert_eq(seen_event.n_points, 1);
        again = 1;
        run_one(c, 0, 10 * US);
        cr_assert_geq(seen_events[DETSHARE_EVENT_AGAIN], 1);
        cr_assert_eq(seen_event.n_points, 0);
        cr_assert_null(seen_event.points);
}

Test(sched_mechanisms, a_kernel_alone_gives_points_by_sms)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        const struct detshare_rung_view *rungs = h.sched->ladder.views;
        struct top k;

        probe_start(0, 4);
        run_one(c, 0, 10 * US);
        run_one(c, 1, 80 * US);
        run_one(c, 0, 30 * US);
        run_one(c, 3, 40 * US);
        cr_assert_eq(samples_of(KEY), 4);
        cr_assert_eq(points_of(KEY)->n, 3);
        cr_assert_eq(seen_event.n_points, 3, "what ended shows what is known, its own time included");
        /* events of waiting operations carry the points too */
        depth = 0;
        submit(&h, c, kernel_init(&k, 1, 10 * US, 4, KEY));
        harness_step(&h);
        cr_assert_eq(seen_head.n_points, 3);
        cr_assert_eq(seen_points[0].n_sms, rungs[1].n_sms);
        cr_assert_eq(seen_points[0].mean_ns, 80 * US);
        cr_assert_eq(seen_points[1].n_sms, rungs[3].n_sms);
        cr_assert_eq(seen_points[1].mean_ns, 40 * US);
        cr_assert_eq(seen_points[2].n_sms, rungs[0].n_sms);
        cr_assert_eq(seen_points[2].mean_ns, 20 * US);
        cr_assert_eq(seen_points[2].samples, 2);
        cr_assert_eq(seen_head.expected_ns, 40 * US, "any rung");
        ds_sched_session_cancel(c->session, DS_CUDA_LAUNCH_FAILED, harness_now(&h));
        harness_run(&h, UINT64_MAX);
}

Test(sched_mechanisms, a_kernel_beside_others_gives_none)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *c = stream_open(s, 0, 0), *other = stream_open(session_open(&h, 2, DETSHARE_CLASS_LS, 0), 0, 0);
        ds_coroutine *sibling = stream_open(s, 0, 0);
        struct top k[8];

        probe_start(0, 4);
        /* no sample: another kernel is running when this one is launched */
        submit(&h, other, kernel_init(&k[0], 1, 10 * US, 4, 1));
        submit(&h, c, kernel_init(&k[1], 1, 100 * US, 4, KEY));
        harness_run(&h, 5 * US);
        cr_assert_eq(h.sched->n_in_flight, 2);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(samples_of(KEY), 0);
        /* no sample: another kernel, even a short one of the same session, starts while this one runs */
        submit(&h, c, kernel_init(&k[2], 1, 100 * US, 4, KEY));
        harness_run(&h, harness_now(&h) + 50 * US);
        submit(&h, sibling, kernel_init(&k[3], 1, US, 4, 1));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(samples_of(KEY), 0);
        /* no sample: the launch has a bound on blocks, or fails */
        max_blocks = 3;
        run_one(c, 0, 10 * US);
        cr_assert_eq(samples_of(KEY), 0);
        max_blocks = 0;
        submit(&h, c, kernel_init(&k[4], 1, 100 * US, 4, KEY));
        k[4].script.status = DS_CUDA_ILLEGAL_ADDRESS;
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(samples_of(KEY), 0);
        /* a sample: kernels of the same stream before and after do not disturb it, nor does a bound that has no
         * effect */
        max_blocks = 4;
        for (int i = 5; i < 8; i++)
                submit(&h, c, kernel_init(&k[i], 1, 10 * US, 4, KEY));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(samples_of(KEY), 3);
        cr_assert_eq(points_of(KEY)->at[0].mean_ns, 10 * US);
        cr_assert_eq(samples_of(1), 0);
}

/* Exact times cost something on a GPU: the scheduler requests them only while they are useful. */
Test(sched_mechanisms, times_are_requested_while_there_are_few)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top k[200];
        uint32_t timed = 0;

        probe_start(0, 200);
        for (size_t i = 0; i < 200; i++)
                submit(&h, c, kernel_init(&k[i], 1, 10 * US, 4, KEY));
        harness_run(&h, UINT64_MAX);
        for (size_t i = 0; i < 200; i++) {
                timed += k[i].op.launch.timed;
                cr_assert(!k[i].op.launch.timed || k[i].op.launch.tell == DS_TELL_EXACT);
        }
        /* the scheduler requests times of every launch until it is known that more launches follow, then of one in
         * 64 */
        cr_assert(timed >= DS_KSTAT_TRIES_MAX && timed <= DS_KSTAT_TRIES_MAX + 4, "%u", timed);
        cr_assert_eq(samples_of(KEY), timed);
        submit(&h, c, kernel_init(&k[0], 1, 10 * US, 4, KEY));
        cr_assert_eq(k[0].op.launch.timed, 0);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k[0].op.launch.timed, 0, "it is known well enough");
        rung = 1;
        submit(&h, c, kernel_init(&k[0], 1, 10 * US, 4, KEY));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k[0].op.launch.timed, 1, "another rung is another time");
}

/* After the points of a kernel were evicted, the view of its idle queue shows no points of another kernel. */
Test(sched_mechanisms, views_do_not_point_at_another_kernels_points)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct ds_kstat_row *row;
        struct top k;

        probe_start(0, 4);
        run_one(c, 0, 10 * US);
        depth = 0;
        submit(&h, c, kernel_init(&k, 1, 10 * US, 4, KEY));
        harness_step(&h);
        cr_assert_eq(seen_head.n_points, 1);
        for (uint64_t key = 1; ds_kstat_taken(h.sched->kstat) == 0; key++) {
                row = ds_kstat_at(h.sched->kstat, ds_kstat_touch(h.sched->kstat, key << 32), key << 32);
                for (uint32_t i = 0; i < 5; i++)
                        ds_kstat_point_sample(h.sched->kstat, row, 1 + i, 5);
        }
        cr_assert_null(points_of(KEY));
        ds_sched_session_share(session_open(&h, 2, DETSHARE_CLASS_BE, 0), 1, 1, harness_now(&h));
        harness_step(&h);
        cr_assert_eq(seen_head.n_points, 0);
        depth = 1;
        ds_sched_session_share(c->session, 1, 1, harness_now(&h));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k.done, 1);
}

Test(sched_mechanisms, profiles_come_and_go)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct ds_sched_profile put = {.key = KEY,
                .bound = DETSHARE_BOUND_MEMORY,
                .n_points = 4,
                .points = {{2, 10, 900 * US}, {4, 1, 500 * US}, {4, 9, 1}, {16, 3, 100 * US}}};
        struct ds_sched_profile got[4];
        struct top k;

        probe_start(0, 0);
        ds_sched_profile_put(h.sched, &put);
        cr_assert_eq(ds_sched_profiles_changed(h.sched, got, 4), 0, "what came from there is not news there");
        submit(&h, c, kernel_init(&k, 1, 10 * US, 4, KEY));
        harness_step(&h);
        cr_assert_eq(seen_head.bound, DETSHARE_BOUND_MEMORY);
        cr_assert_eq(seen_head.expected_ns, 100 * US, "a guess from the largest");
        cr_assert_eq(seen_head.n_points, 3, "one was not in order");
        cr_assert_eq(seen_points[0].samples, 10);
        depth = 1;
        ds_sched_session_share(c->session, 1, 1, harness_now(&h));
        harness_run(&h, UINT64_MAX);
        /* the fourth sample of the point at 16 SMs */
        cr_assert_eq(ds_sched_profiles_changed(h.sched, got, 4), 1);
        cr_assert_eq(got[0].key, KEY);
        cr_assert_eq(got[0].bound, DETSHARE_BOUND_MEMORY);
        cr_assert_eq(got[0].n_points, 3);
        cr_assert_eq(got[0].points[2].n_sms, 16);
        cr_assert_eq(got[0].points[2].samples, 4);
        cr_assert_eq(got[0].points[2].mean_ns, 100 * US - 90 * US / 4);
        cr_assert_eq(ds_sched_profiles_changed(h.sched, got, 4), 0, "told once");
        /* a point with fewer samples than the known one does not replace it */
        put = (struct ds_sched_profile){.key = KEY, .n_points = 1, .points = {{16, 3, 1}}};
        ds_sched_profile_put(h.sched, &put);
        cr_assert_eq(points_of(KEY)->at[2].samples, 4);
        put.points[0].samples = 50;
        ds_sched_profile_put(h.sched, &put);
        cr_assert_eq(points_of(KEY)->at[2].mean_ns, 1);
        put = (struct ds_sched_profile){.key = 5, .n_points = UINT32_MAX};
        ds_sched_profile_put(h.sched, &put);
        cr_assert_null(points_of(5));
}

/* --- kill --------------------------------------------------------------------------------------------------------- */

Test(sched_mechanisms, a_killed_queue_runs_again_in_order)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *c = stream_open(s, 0, 0), *waiter = stream_open(session_open(&h, 2, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top k[4], mark, wait[2], behind;
        struct ds_sched_session_stats stats;

        probe_start(0, 8);
        submit(&h, waiter, kernel_init(&behind, 1, US, 1, 0));
        harness_run(&h, UINT64_MAX);
        /* k0 ends, k1 runs, k2 and k3 follow, with a completed wait and a mark in between */
        submit(&h, c, idempotent_init(&k[0], 10 * US));
        submit(&h, c, idempotent_init(&k[1], 100 * US));
        submit(&h, c, wait_init(&wait[0], waiter, 1));
        submit(&h, c, idempotent_init(&k[2], 100 * US));
        submit(&h, c, mark_init(&mark));
        submit(&h, c, idempotent_init(&k[3], 100 * US));
        submit(&h, waiter, wait_init(&wait[1], c, 5)); /* this wait is for the mark */
        submit(&h, waiter, kernel_init(&behind, 1, US, 1, 0));
        harness_run(&h, 51 * US);
        cr_assert_eq(c->n_in_flight, 3);
        do_once(DETSHARE_ACTION_KILL, c, 0);
        cr_assert_eq(seen_can_kill, 1);
        cr_assert_eq(h.device->kills, 3);
        cr_assert_eq(c->state, DS_COROUTINE_RUNNING);
        harness_run(&h, UINT64_MAX);
        ds_sched_session_stats(s, &stats);
        cr_assert_eq(stats.kills, 3);
        cr_assert_eq(harness_stats(&h).kills, 3);
        cr_assert_eq(stats.launches, 7, "four, and three anew");
        cr_assert_eq(stats.completed, 4);
        cr_assert_eq(stats.errors, 0);
        cr_assert_eq(stats.device_ns, 10 * US + 40 * US + 3 * 100 * US, "what it used before counts");
        cr_assert_eq(k[0].start_ns, US);
        cr_assert_eq(k[1].start_ns, 51 * US);
        cr_assert_eq(k[2].start_ns, 151 * US);
        cr_assert_eq(k[3].start_ns, 251 * US);
        cr_assert_eq(mark.end_ns, 251 * US);
        cr_assert_eq(behind.start_ns, 251 * US);
        cr_assert(k[0].order < k[1].order && k[1].order < wait[0].order && wait[0].order < k[2].order &&
                  k[2].order < mark.order && mark.order < k[3].order);
        cr_assert_eq(seen_events[DETSHARE_EVENT_COMPLETE], 6, "nobody is told that a killed kernel has ended");
        cr_assert_eq(harness_stats(&h).nonsense, 0);
}

Test(sched_mechanisms, operations_that_ended_before_the_kill_stay_ended)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top k[2];

        probe_start(0, 8);
        submit(&h, c, idempotent_init(&k[0], 10 * US));
        submit(&h, c, idempotent_init(&k[1], 100 * US));
        harness_step(&h);
        /* the kernel has ended, but its end is not reported yet */
        h.device->now_ns = 10 * US;
        cr_assert_eq(ds_launch_kill(c), 1);
        cr_assert_eq(ds_launch_kill(c), DS_LET_GO_ALREADY);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k[0].end_ns, 10 * US);
        cr_assert_eq(k[1].start_ns, 10 * US);
        cr_assert_eq(k[1].end_ns, 110 * US);
        cr_assert_eq(harness_stats(&h).kills, 1);
}

/* The device may report kills late: no operation behind the killed ones is launched before all of them are back. */
Test(sched_mechanisms, nothing_is_launched_before_all_is_back)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top k[3];

        probe_start(0, 2);
        submit(&h, c, idempotent_init(&k[0], 100 * US));
        submit(&h, c, idempotent_init(&k[1], 100 * US));
        harness_step(&h);
        cr_assert_eq(h.device->n_log, 2);
        h.device->now_ns = 30 * US;
        cr_assert_eq(ds_launch_kill(c), 1);
        depth = 8;
        submit(&h, c, idempotent_init(&k[2], 100 * US));
        ds_coroutine_touch(c);
        ds_sched_session_share(c->session, 1, 1, harness_now(&h));
        cr_assert_eq(ds_sched_step(h.sched, harness_now(&h)), 0);
        cr_assert_eq(seen_ready, 0);
        cr_assert_eq(h.device->n_log, 2);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(h.device->n_log, 5);
        for (int i = 0; i < 3; i++)
                cr_assert_eq(k[i].start_ns, (30 + 100 * (uint64_t)i) * US);
}

Test(sched_mechanisms, killing_makes_sense_for_idempotent_kernels_only)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top k[2], copy = {.op.kind = DS_OP_COPY};

        probe_start(0, 8);
        submit(&h, c, idempotent_init(&k[0], 100 * US));
        submit(&h, c, kernel_init(&k[1], 1, 100 * US, 1, 0));
        harness_step(&h);
        do_once(DETSHARE_ACTION_KILL, c, 0);
        cr_assert_eq(harness_stats(&h).nonsense, 1);
        harness_run(&h, UINT64_MAX);
        submit(&h, c, idempotent_init(&k[0], 100 * US));
        copy.op.copy = (struct ds_copy){.space = 1, .width = 10, .height = 1};
        submit(&h, c, &copy);
        harness_step(&h);
        do_once(DETSHARE_ACTION_KILL, c, 0);
        cr_assert_eq(harness_stats(&h).nonsense, 2);
        harness_run(&h, UINT64_MAX);
        /* nothing is in flight */
        depth = 0;
        submit(&h, c, idempotent_init(&k[0], 100 * US));
        harness_step(&h);
        do_once(DETSHARE_ACTION_KILL, c, 0);
        cr_assert_eq(harness_stats(&h).nonsense, 3);
        depth = 8;
        ds_sched_session_share(c->session, 1, 1, harness_now(&h));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(h.device->kills, 0);
        cr_assert_eq(h.told, 5);
}

Test(sched_mechanisms, a_device_that_cannot_kill)
{
        struct ds_device_ops ops = *h.sched->ops;
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top k;

        ops.kill = NULL;
        h.sched->ops = &ops;
        probe_start(0, 8);
        submit(&h, c, idempotent_init(&k, 100 * US));
        harness_step(&h);
        do_once(DETSHARE_ACTION_KILL, c, 0);
        cr_assert_eq(seen_can_kill, 0);
        cr_assert_eq(harness_stats(&h).nonsense, 1);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k.end_ns, 100 * US);
}

/* Kills a kernel whose coroutine is parked behind a killed one, whose session is suspended, or cancelled meanwhile. */
Test(sched_mechanisms, killing_beside_everything_else)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *c = stream_open(s, 0, 0), *other = stream_open(s, 0, 0);
        struct top k[3], wait, slow;

        probe_start(0, 8);
        submit(&h, other, kernel_init(&slow, 1, 300 * US, 1, 0));
        submit(&h, c, idempotent_init(&k[0], 100 * US));
        submit(&h, c, wait_init(&wait, other, 1));
        submit(&h, c, idempotent_init(&k[1], 100 * US));
        harness_run(&h, 50 * US);
        cr_assert_eq(c->park, DS_PARK_WAIT);
        do_once(DETSHARE_ACTION_KILL, c, 0);
        harness_run(&h, 200 * US);
        cr_assert_eq(k[0].end_ns, 150 * US);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k[1].start_ns, 300 * US);
        /* the session is suspended: the killed kernel runs again after the resume */
        submit(&h, c, idempotent_init(&k[0], 100 * US));
        harness_run(&h, 450 * US);
        do_once(DETSHARE_ACTION_KILL, c, 0);
        do_once(DETSHARE_ACTION_SUSPEND, c, 0);
        cr_assert_eq(c->state, DS_COROUTINE_SUSPENDED);
        harness_run(&h, 600 * US);
        cr_assert_eq(k[0].done, 1 - 1);
        do_once(DETSHARE_ACTION_RESUME, c, 0);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k[0].start_ns, 600 * US);
        /* the session is cancelled while the killed kernel is on its way back */
        submit(&h, c, idempotent_init(&k[0], 100 * US));
        submit(&h, c, idempotent_init(&k[1], 100 * US));
        submit(&h, c, idempotent_init(&k[2], 100 * US));
        harness_step(&h);
        cr_assert_eq(ds_launch_kill(c), 1);
        ds_sched_session_cancel(s, DS_CUDA_LAUNCH_FAILED, harness_now(&h));
        harness_run(&h, UINT64_MAX);
        for (int i = 0; i < 3; i++) {
                cr_assert_eq(k[i].done, 1);
                cr_assert_eq(k[i].status, DS_CUDA_LAUNCH_FAILED);
        }
        cr_assert(ds_sched_session_idle(s));
        cr_assert_eq(c->state, DS_COROUTINE_FAULTED);
}

Test(sched_mechanisms, killed_after_a_migration)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top k[3];

        probe_start(1, 1);
        submit(&h, c, idempotent_init(&k[0], 100 * US));
        submit(&h, c, idempotent_init(&k[1], 100 * US));
        harness_run(&h, 10 * US);
        rung = 2;
        depth = 2;
        submit(&h, c, idempotent_init(&k[2], 100 * US));
        ds_sched_session_share(c->session, 1, 1, harness_now(&h));
        harness_run(&h, 50 * US);
        cr_assert_eq(c->n_in_flight, 2);
        cr_assert_eq(h.device->fences, 1, "one per migration, and nothing else");
        cr_assert_eq(harness_stats(&h).migrations, 1);
        do_once(DETSHARE_ACTION_KILL, c, 0);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k[0].start_ns, 50 * US);
        cr_assert_eq(k[1].start_ns, 150 * US);
        cr_assert_eq(k[2].start_ns, 250 * US);
        cr_assert_eq(h.device->fences, harness_stats(&h).migrations);
}

/* --- memory, results, calibration --------------------------------------------------------------------------------- */

Test(sched_mechanisms, a_memory_cap_goes_with_the_policy)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *c = stream_open(s, 0, 0);
        struct top k;

        probe_start(0, 1);
        ds_sched_memory(h.sched, 1000, 400);
        ds_sched_session_memory(s, 300, 700, 0);
        submit(&h, c, kernel_init(&k, 1, 100 * US, 1, 0));
        harness_step(&h);
        do_once(DETSHARE_ACTION_MEMORY_CAP, c, 512);
        cr_assert_eq(h.caps[1], 512);
        cr_assert_eq(seen_session.memory_used, 300);
        cr_assert_eq(seen_session.memory_limit, 700);
        cr_assert_eq(ds_sched_set_policy(h.sched, "fifo", NULL, 0, 0, message, sizeof(message)), 0);
        cr_assert_eq(h.caps[1], UINT64_MAX);
        harness_run(&h, UINT64_MAX);
        h.sched->memory_cap = NULL;
        probe_start(0, 1);
        submit(&h, c, kernel_init(&k, 1, 100 * US, 1, 0));
        harness_step(&h);
        do_once(DETSHARE_ACTION_MEMORY_CAP, c, 512);
        cr_assert_eq(harness_stats(&h).nonsense, 1, "where nobody keeps to it");
        harness_run(&h, UINT64_MAX);
}

Test(sched_mechanisms, hints_of_a_client_are_visible)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_LS, 0);
        ds_coroutine *c = stream_open(s, 0, 0);
        struct top k[2];

        probe_start(0, 0);
        ds_sched_session_share(s, 300, 600, 0);
        ds_sched_session_phase(s, DETSHARE_PHASE_PREFILL, 0);
        submit(&h, c, kernel_init(&k[0], 1, 100 * US, 1, 0));
        ds_sched_session_phase(s, DETSHARE_PHASE_DECODE, 0);
        submit(&h, c, kernel_init(&k[1], 1, 100 * US, 1, 0));
        harness_step(&h);
        cr_assert_eq(seen_session.gpu_request, 300);
        cr_assert_eq(seen_session.gpu_limit, 600);
        cr_assert_eq(seen_session.phase, DETSHARE_PHASE_DECODE);
        cr_assert_eq(seen_head.phase, DETSHARE_PHASE_PREFILL, "what it had said then");
        ds_sched_session_synchronised(s, harness_now(&h));
        harness_step(&h);
        cr_assert_eq(seen_events[DETSHARE_EVENT_SYNCHRONISED], 0, "that cannot be");
        depth = 2;
        ds_sched_session_share(s, 300, 0, 0);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(seen_events[DETSHARE_EVENT_REQUEST_END], 1);
        cr_assert_eq(seen_session.synchronised, 0, "its queue is empty, but it has not looked");
        ds_sched_session_synchronised(s, harness_now(&h));
        ds_sched_session_synchronised(s, harness_now(&h));
        harness_step(&h);
        cr_assert_eq(seen_events[DETSHARE_EVENT_SYNCHRONISED], 1);
        cr_assert_eq(seen_session.synchronised, 1);
        submit(&h, c, mark_init(&k[0]));
        ds_sched_session_share(s, 1, 0, 0);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(seen_session.synchronised, 0, "there is something that it has not waited for");
}

Test(sched_mechanisms, a_calibration_restarts_the_policy)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct detshare_interference cells[2] = {{.be_permille = 7}, {.be_permille = 14}};
        struct top k;

        configured = 0;
        probe_start(0, 1);
        cr_assert_eq(configured, 1);
        cr_assert_eq(configured_cells, 0);
        submit(&h, c, kernel_init(&k, 1, 100 * US, 1, 0));
        harness_step(&h);
        do_once(DETSHARE_ACTION_SUSPEND, c, 0);
        cr_assert_eq(ds_sched_set_interference(h.sched, cells, 2, harness_now(&h)), 0);
        memset(cells, 0, sizeof(cells));
        cr_assert_eq(configured, 2);
        cr_assert_eq(configured_cells, 2);
        cr_assert_eq(c->state, DS_COROUTINE_RUNNING, "as if it were another policy; what runs goes on");
        harness_step(&h);
        cr_assert_eq(seen_events[DETSHARE_EVENT_SWITCH], 2);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k.end_ns, 100 * US);
        /* a policy that starts later gets the calibration too */
        probe_start(0, 1);
        cr_assert_eq(configured_cells, 2);
        /* a policy that refuses the calibration is replaced */
        configured_result = -EINVAL;
        cr_assert_eq(ds_sched_set_interference(h.sched, NULL, 0, harness_now(&h)), DS_SCHED_E_REFUSED);
        cr_assert_str_eq(harness_stats(&h).policy, "fifo");
        cr_assert_eq(ds_sched_set_interference(h.sched, cells, 1, harness_now(&h)), 0, "the built-in one takes any");
        submit(&h, c, kernel_init(&k, 1, 100 * US, 1, 0));
        harness_run(&h, UINT64_MAX);
}

/* --- senseless actions -------------------------------------------------------------------------------------------- */

Test(sched_mechanisms, a_policy_that_answers_nonsense_is_replaced)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top k[100];
        int n = 0;

        h.sched->host.nonsense_limit = DS_HOST_NONSENSE_LIMIT;
        probe_start(0, 1);
        for (size_t i = 0; i < 100; i++)
                submit(&h, c, kernel_init(&k[i], 1, 100 * US, 1, 0));
        harness_step(&h);
        /* eight senseless actions in a short time are tolerated, and forgotten with time */
        for (; n < 8; n++)
                do_once(7, c, 0);
        cr_assert_str_eq(harness_stats(&h).policy, "probe");
        cr_assert_eq(harness_stats(&h).nonsense, 8);
        harness_run(&h, 3000 * US);
        for (n = 0; strcmp(harness_stats(&h).policy, "fifo"); n++)
                do_once(7, c, 0);
        cr_assert_gt(n, 1);
        cr_assert_eq(harness_stats(&h).fallbacks, 1);
        cr_assert_str_eq(h.sched->host.nonsense, "an unknown kind of action");
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(h.told, 100, "nothing is lost");
}

/* An action that has become impossible since the policy saw the snapshot is not senseless. */
Test(sched_mechanisms, races_are_no_nonsense)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top k[DS_SCHED_STREAM_MAX + 8];

        probe_start(0, UINT32_MAX);
        for (size_t i = 0; i < DS_ARRAY_SIZE(k); i++)
                submit(&h, c, kernel_init(&k[i], 1, US, 1, 0));
        /* the device is full: the policy is called again and again, and requests more launches */
        harness_step(&h);
        for (int i = 0; i < 20; i++) {
                ds_sched_session_share(c->session, (uint32_t)i, 1, harness_now(&h));
                harness_step(&h);
        }
        cr_assert_eq(h.sched->n_in_flight, DS_SCHED_STREAM_MAX);
        /* the class is held */
        ds_sched_hold(h.sched, 1u << DETSHARE_CLASS_BE, harness_now(&h));
        harness_run(&h, 100 * US);
        cr_assert_eq(seen_ready, 0);
        ds_sched_hold(h.sched, 0, harness_now(&h));
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(harness_stats(&h).nonsense, 0);
        cr_assert_eq(harness_stats(&h).actions_ignored, 0);
}

/* --- states ------------------------------------------------------------------------------------------------------- */

#define EDGE(from, to)                                 \
        {                                              \
                DS_COROUTINE_##from, DS_COROUTINE_##to \
        }

/* The edges of the state drawing in coroutine.h. */
static const enum ds_coroutine_state edges[][2] = {EDGE(IDLE, READY), EDGE(READY, RUNNING), EDGE(RUNNING, YIELDING),
        EDGE(READY, IDLE), EDGE(RUNNING, READY), EDGE(YIELDING, RUNNING), EDGE(YIELDING, SUSPENDED),
        EDGE(RUNNING, IDLE), EDGE(IDLE, SUSPENDED), EDGE(READY, SUSPENDED), EDGE(SUSPENDED, IDLE),
        EDGE(SUSPENDED, READY), EDGE(IDLE, FAULTED), EDGE(READY, FAULTED), EDGE(RUNNING, FAULTED),
        EDGE(YIELDING, FAULTED), EDGE(SUSPENDED, FAULTED)};

Test(sched_mechanisms, no_edge_but_those_of_the_drawing, .init = NULL, .fini = NULL)
{
        size_t n = 0;

        for (int from = 0; from < _DS_COROUTINE_STATE_MAX; from++)
                for (int to = 0; to < _DS_COROUTINE_STATE_MAX; to++) {
                        int drawn = 0;

                        for (size_t i = 0; i < DS_ARRAY_SIZE(edges); i++)
                                drawn |= (int)edges[i][0] == from && (int)edges[i][1] == to;
                        cr_assert_eq(ds_coroutine_may_become(from, to), drawn, "%d %d", from, to);
                        n += (size_t)drawn;
                }
        cr_assert_eq(n, DS_ARRAY_SIZE(edges));
}

/* The setter accepts no other edge: a cancelled coroutine does not return. */
Test(sched_mechanisms, the_setter_insists, .signal = SIGABRT)
{
        ds_coroutine *c = stream_open(session_open(&h, 1, DETSHARE_CLASS_BE, 0), 0, 0);

        c->state = DS_COROUTINE_FAULTED;
        ds_coroutine_changed(c);
}

static void edge(const ds_coroutine *c, enum ds_coroutine_state before, enum ds_coroutine_state now, unsigned *taken)
{
        cr_assert_eq(c->state, now, "%s", ds_coroutine_state_name(c->state));
        for (size_t i = 0; i < DS_ARRAY_SIZE(edges); i++)
                if (edges[i][0] == before && edges[i][1] == now)
                        *taken |= 1u << i;
}

static void walk(ds_coroutine *c, struct top *k, unsigned *taken)
{
        ds_sched_session *s = c->session;

        submit(&h, c, mark_init(k));
        edge(c, DS_COROUTINE_IDLE, DS_COROUTINE_READY, taken);
        harness_step(&h);
        /* the coroutine has a mark only, which is reported without any launch */
        edge(c, DS_COROUTINE_READY, DS_COROUTINE_IDLE, taken);
        ds_sched_session_suspend(s, 1);
        edge(c, DS_COROUTINE_IDLE, DS_COROUTINE_SUSPENDED, taken);
        ds_sched_session_suspend(s, 0);
        edge(c, DS_COROUTINE_SUSPENDED, DS_COROUTINE_IDLE, taken);
        submit(&h, c, kernel_init(k, 1, 10 * US, 1, 0));
        ds_sched_session_suspend(s, 1);
        edge(c, DS_COROUTINE_READY, DS_COROUTINE_SUSPENDED, taken);
        ds_sched_session_suspend(s, 0);
        edge(c, DS_COROUTINE_SUSPENDED, DS_COROUTINE_READY, taken);
        harness_step(&h);
        edge(c, DS_COROUTINE_READY, DS_COROUTINE_RUNNING, taken);
        ds_sched_session_suspend(s, 1);
        edge(c, DS_COROUTINE_RUNNING, DS_COROUTINE_YIELDING, taken);
        ds_sched_session_suspend(s, 0);
        edge(c, DS_COROUTINE_YIELDING, DS_COROUTINE_RUNNING, taken);
        harness_run(&h, UINT64_MAX);
        edge(c, DS_COROUTINE_RUNNING, DS_COROUTINE_IDLE, taken);
        /* the coroutine is drained for another rung and has more work, whose next launch is refused meanwhile */
        depth = 1;
        submit(&h, c, kernel_init(k, 1, 10 * US, 1, 0));
        submit(&h, c, kernel_init(k + 1, 1, 10 * US, 1, 0));
        harness_step(&h);
        ds_sched_hold(h.sched, 1u << DETSHARE_CLASS_BE, harness_now(&h));
        harness_run(&h, harness_now(&h) + 20 * US);
        edge(c, DS_COROUTINE_RUNNING, DS_COROUTINE_READY, taken);
        ds_sched_hold(h.sched, 0, harness_now(&h));
        harness_step(&h);
        ds_sched_session_suspend(s, 1);
        harness_run(&h, harness_now(&h) + 20 * US);
        edge(c, DS_COROUTINE_YIELDING, DS_COROUTINE_SUSPENDED, taken);
        ds_sched_session_suspend(s, 0);
}

Test(sched_mechanisms, every_edge_is_taken)
{
        unsigned taken = 0;
        struct top k[8];

        probe_start(0, 1);
        for (uint64_t id = 1; id <= 5; id++) {
                ds_sched_session *s = session_open(&h, id, DETSHARE_CLASS_BE, 0);
                ds_coroutine *c = stream_open(s, 0, 0);
                enum ds_coroutine_state before;

                walk(c, k, &taken);
                /* the coroutine is cancelled in each of the five states */
                if (id >= 2)
                        submit(&h, c, kernel_init(&k[2], 1, 10 * US, 1, 0));
                if (id >= 3 && id < 5)
                        harness_step(&h);
                if (id >= 4)
                        ds_sched_session_suspend(s, 1);
                before = c->state;
                cr_assert_eq((uint64_t)before, id - 1, "the first five states");
                ds_sched_session_cancel(s, DS_CUDA_LAUNCH_FAILED, harness_now(&h));
                edge(c, before, DS_COROUTINE_FAULTED, &taken);
                harness_run(&h, UINT64_MAX);
        }
        cr_assert_eq(taken, (1u << DS_ARRAY_SIZE(edges)) - 1, "%#x", taken);
}

/*
 * If single streams were suspended, a stream that waits for an event of a suspended one would never return, and its
 * whole process would hang. So a session stops and continues as a whole, whichever stream the policy named.
 */
Test(sched_mechanisms, suspension_with_events_between_streams_does_not_hang)
{
        ds_sched_session *s = session_open(&h, 1, DETSHARE_CLASS_BE, 0);
        ds_coroutine *a = stream_open(s, 0, 0), *b = stream_open(s, 0, 0);
        ds_coroutine *outside = stream_open(session_open(&h, 2, DETSHARE_CLASS_BE, 0), 0, 0);
        struct top k[6], wait[3];

        probe_start(0, 1);
        /* stream a waits for stream b, b for a's first operation, another session for b's last operation */
        submit(&h, a, kernel_init(&k[0], 1, 100 * US, 1, 0));
        submit(&h, b, wait_init(&wait[0], a, 1));
        submit(&h, b, kernel_init(&k[1], 1, 100 * US, 1, 0));
        submit(&h, a, wait_init(&wait[1], b, 2));
        submit(&h, a, kernel_init(&k[2], 1, 100 * US, 1, 0));
        submit(&h, outside, wait_init(&wait[2], b, 2));
        submit(&h, outside, kernel_init(&k[3], 1, 100 * US, 1, 0));
        harness_run(&h, 50 * US);
        do_once(DETSHARE_ACTION_SUSPEND, a, 0);
        harness_run(&h, 300 * US);
        cr_assert_eq(k[0].done, 1);
        cr_assert_eq(k[1].done + k[2].done + k[3].done, 0);
        cr_assert_eq(a->state, DS_COROUTINE_SUSPENDED);
        cr_assert_eq(b->state, DS_COROUTINE_SUSPENDED);
        do_once(DETSHARE_ACTION_RESUME, b, 0);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(k[1].start_ns, 300 * US);
        cr_assert_eq(k[2].start_ns, 400 * US);
        cr_assert_eq(k[3].start_ns, 400 * US);
        cr_assert_eq(harness_stats(&h).fallbacks, 0, "nobody had to be replaced for it");
}
