/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times at which the worker requests a settle, a switch to another context (worker/stirs.h)
 *
 * The device counts what the test injects. The test sets the worker's times by hand, and its loop does not run: only
 * the moment at which a request is due is tested.
 */
#include "device/sim/sim.h"
#include "sched/internal.h"
#include "tests/unit/worker_harness.h"
#include "worker/internal.h"

static struct ds_device_ops wrap;
static uint64_t n_stirs;
static uint32_t n_divided;

static uint64_t wrap_stirs(const ds_device *device, uint32_t *ret_divided)
{
        *ret_divided = n_divided;
        return n_stirs;
}

static void time_passes(ds_worker *worker, uint64_t ns)
{
        worker->now_ns += ns;
        wt_wall += ns;
}

/* Marks activity of the LS session now. */
static void ls_speaks(ds_worker *worker)
{
        worker->ls_active_wall_ns = wt_wall;
        worker->ls_active_ns = worker->now_ns;
}

static struct wt *stirs_open(void)
{
        struct wt *t;

        n_stirs = 1;
        n_divided = 0;
        wrap = ds_sim_ops;
        wrap.stirs = wrap_stirs;
        wt_ops = &wrap;
        t = wt_open("h200");
        time_passes(t->worker, DS_NS_PER_S);
        return t;
}

/* Whether the worker requested a settle. */
static int steps(ds_worker *worker)
{
        const uint64_t before = worker->stirs.told_ns;

        dsw_stirs_step(worker);
        return worker->stirs.told_ns != before;
}

/* Asserts that the worker requests a settle exactly after ns, and not a microsecond before. */
static void check_due(ds_worker *worker, uint64_t ns)
{
        cr_assert_eq(dsw_stirs_wait_ns(worker), ns);
        time_passes(worker, ns - DS_NS_PER_US);
        cr_assert_not(steps(worker));
        time_passes(worker, DS_NS_PER_US);
        cr_assert(steps(worker));
        cr_assert_eq(dsw_stirs_wait_ns(worker), UINT64_MAX);
        cr_assert_not(steps(worker), "once");
}

Test(worker_stirs, for_ls_only, .timeout = 60)
{
        struct wt *t = stirs_open();
        ds_worker *worker = t->worker;

        cr_assert_eq(dsw_stirs_wait_ns(worker), UINT64_MAX);
        cr_assert_not(steps(worker));
        ls_speaks(worker);
        n_divided = 1;
        cr_assert_eq(dsw_stirs_wait_ns(worker), UINT64_MAX, "kernels on a part would undo it");
        n_divided = 0;
        time_passes(worker, 61 * DS_NS_PER_S);
        cr_assert_eq(dsw_stirs_wait_ns(worker), UINT64_MAX, "it has gone");
        wt_close(t);
}

/* Code entered the context and LS is idle: a request follows when no more code comes. Further requests keep a
 * distance. */
Test(worker_stirs, between_requests, .timeout = 60)
{
        struct wt *t = stirs_open();
        ds_worker *worker = t->worker;

        ls_speaks(worker);
        (void)dsw_stirs_wait_ns(worker);
        n_stirs++;
        check_due(worker, 300 * DS_NS_PER_US);
        n_stirs++;
        check_due(worker, 20 * DS_NS_PER_MS);
        time_passes(worker, DS_NS_PER_S);
        n_stirs++;
        cr_assert_eq(dsw_stirs_wait_ns(worker), 300 * DS_NS_PER_US);
        time_passes(worker, 290 * DS_NS_PER_US);
        ls_speaks(worker);
        check_due(worker, 100 * DS_NS_PER_US);
        wt_close(t);
}

/* Code entered the context, and LS is never idle. */
Test(worker_stirs, within_a_request, .timeout = 60)
{
        struct wt *t = stirs_open();
        ds_worker *worker = t->worker;
        uint32_t *n_ops = &worker->sched->n_class_ops[DETSHARE_CLASS_LS];

        ls_speaks(worker);
        (void)dsw_stirs_wait_ns(worker);
        *n_ops = 1;
        n_stirs++;
        check_due(worker, 5 * DS_NS_PER_MS);
        /* silence of LS changes nothing; code that came during its absence does not cause a request during its first
         * request */
        for (int away = 0; away < 2; away++) {
                *n_ops = 0;
                n_stirs++;
                time_passes(worker, away ? 61 * DS_NS_PER_S : 59 * DS_NS_PER_S);
                (void)dsw_stirs_wait_ns(worker);
                time_passes(worker, DS_NS_PER_MS);
                *n_ops = 1;
                ls_speaks(worker);
                check_due(worker, away ? 5 * DS_NS_PER_MS : 4 * DS_NS_PER_MS);
        }
        *n_ops = 0;
        wt_close(t);
}

/* Runs a window of sixteen requests of n kernels, the fastest of which takes least_ns. Returns whether the worker
 * requested a settle at the last one. */
static int window(struct dsw_session *session, uint32_t kernels, uint64_t least_ns)
{
        const uint64_t before = session->worker->stirs.n_slow;

        for (uint32_t i = 0; i < 16; i++) {
                const uint64_t now = session->worker->now_ns, ns = i == 7 ? least_ns : 2 * least_ns;

                dsw_stirs_ended(session, kernels - 1, now, now + ns / 2, 0);
                dsw_stirs_ended(session, 1, now + ns / 2, now + ns, 0);
                dsw_stirs_ended(session, 0, now + ns, now + ns, 1);
        }
        return session->worker->stirs.n_slow != before;
}

/* Requests become slow without a known cause: one request to settle, and later another one if it did not help. */
Test(worker_stirs, requests_that_are_slow_without_a_cause, .timeout = 60)
{
        struct wt *t = stirs_open();
        ds_worker *worker = t->worker;
        struct dsw_session session = {.worker = worker};
        uint32_t said = 0;

        ls_speaks(worker);
        (void)dsw_stirs_wait_ns(worker);
        time_passes(worker, DS_NS_PER_S);
        cr_assert(steps(worker), "of what there was before");
        cr_assert_not(window(&session, 100, 500 * DS_NS_PER_US), "the first ones");
        cr_assert_not(window(&session, 100, 510 * DS_NS_PER_US), "a little");
        cr_assert_not(window(&session, 31, 800 * DS_NS_PER_US), "too few kernels to tell");
        cr_assert_eq(dsw_stirs_wait_ns(worker), UINT64_MAX);
        time_passes(worker, DS_NS_PER_S);
        cr_assert(window(&session, 100, 550 * DS_NS_PER_US));
        check_due(worker, 300 * DS_NS_PER_US);
        for (uint32_t i = 0; i < 100; i++) {
                time_passes(worker, 100 * DS_NS_PER_MS);
                said += (uint32_t)window(&session, 100, 550 * DS_NS_PER_US);
        }
        /* requests to settle come after 50, 100, 200, 400 and 800 ms, then every second */
        cr_assert_geq(said, 10);
        cr_assert_leq(said, 16);
        /* every second window is slow: requests to settle come no more often than before */
        said = 0;
        for (uint32_t i = 0; i < 200; i++) {
                time_passes(worker, 50 * DS_NS_PER_MS);
                said += (uint32_t)window(&session, 100, (i % 2 ? 550 : 500) * DS_NS_PER_US);
        }
        cr_assert_leq(said, 11);
        cr_assert_geq(said, 8);
        /* after a long time without slowness the next request comes early again */
        for (uint32_t i = 0; i < 50; i++)
                cr_assert_not(window(&session, 100, 500 * DS_NS_PER_US));
        time_passes(worker, DS_NS_PER_S);
        cr_assert(window(&session, 100, 550 * DS_NS_PER_US));
        time_passes(worker, 100 * DS_NS_PER_MS);
        cr_assert(window(&session, 100, 550 * DS_NS_PER_US));
        wt_close(t);
}

/* A session with other work is not slow, and a session that stays slow is not reported for ever. */
Test(worker_stirs, other_requests_are_not_slow_ones, .timeout = 60)
{
        struct wt *t = stirs_open();
        ds_worker *worker = t->worker;
        struct dsw_session session = {.worker = worker};
        uint32_t said = 0;

        cr_assert_not(window(&session, 100, 500 * DS_NS_PER_US));
        for (uint32_t i = 0; i < 8; i++)
                cr_assert_not(window(&session, 300, 1500 * DS_NS_PER_US), "%u", i);
        cr_assert(window(&session, 300, 1600 * DS_NS_PER_US));
        for (uint32_t i = 0; i < 4000; i++) {
                time_passes(worker, DS_NS_PER_S);
                said = window(&session, 300, 1600 * DS_NS_PER_US) ? i : said;
        }
        cr_assert_geq(said, 20);
        cr_assert_leq(said, 2000);
        wt_close(t);
}
