/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Polling after requests (supervisor/spin.h): when the loop polls, for how long, and what bounds it
 *
 * Accounts are checked with times that the test chooses: one microsecond per step of its clock. Only the end of polling
 * is checked on a running loop.
 */
#include "tests/unit/supervisor_fixture.h"

#include "supervisor/spin.h"
#include "util/cpus.h"

#define US DS_NS_PER_US
#define UID 1000

static struct {
        uv_loop_t loop;
        struct ds_spin spin;
        uint64_t now;
} fx;

static void setup(void)
{
        memset(&fx, 0, sizeof(fx));
        setenv("DETSHARE_CPUS", "4", 1);
        cr_assert_eq(uv_loop_init(&fx.loop), 0);
        cr_assert_eq(ds_spin_init(&fx.spin, &fx.loop), 0);
        ds_spin_set(&fx.spin, 0, 0);
        fx.now = 1000 * DS_NS_PER_S;
}

static void teardown(void)
{
        ds_spin_deinit(&fx.spin);
        uv_run(&fx.loop, UV_RUN_DEFAULT);
        cr_assert_eq(uv_loop_close(&fx.loop), 0);
}

TestSuite(spin, .init = setup, .fini = teardown, .timeout = 60);

static int polls(void)
{
        return uv_is_active((uv_handle_t *)&fx.spin.idle);
}

static int may(uid_t uid)
{
        return ds_spin_ask(&fx.spin, uid, fx.now) != 0;
}

/* A request of the user comes after a gap and takes `work`. Returns the time that the loop polled in the gap. */
static uint64_t request(uid_t uid, uint64_t gap, uint64_t work)
{
        uint64_t polled = polls() ? DS_MIN(gap, DS_SPIN_NS) : 0;

        fx.now += gap + work;
        ds_spin_after(&fx.spin, uid, fx.now, work);
        return polled;
}

Test(spin, the_configuration_and_the_processors_bound_it)
{
        static const struct {
                const char *cpus;
                uint64_t us;
                int never;
                uint64_t limit_ns;
        } cases[] = {
                {"4", 0, 0, DS_SPIN_NS},
                {"16", 20000, 0, DS_SPIN_NS},
                {"16", 7, 0, 7 * US},
                {"16", 0, 1, 0},
                {"3", 0, 0, 0},
                {"3", 50, 0, 0},
        };

        for (size_t i = 0; i < DS_ARRAY_SIZE(cases); i++) {
                setenv("DETSHARE_CPUS", cases[i].cpus, 1);
                ds_spin_set(&fx.spin, cases[i].us, cases[i].never);
                cr_assert_eq(fx.spin.limit_ns, cases[i].limit_ns, "case %zu", i);
                cr_assert_eq(may(UID), cases[i].limit_ns != 0, "case %zu", i);
        }
        request(UID, 0, US);
        cr_assert(!polls());
        unsetenv("DETSHARE_CPUS");
        cr_assert_geq(ds_cpus(), 1u);
}

/* The loop does not block after a request, and blocks again when nothing has followed for the polling time. */
Test(spin, ends_by_itself)
{
        uint64_t begin = uv_hrtime();
        unsigned turns = 0;

        cr_assert(!polls());
        ds_spin_after(&fx.spin, UID, begin, US);
        for (; polls(); turns++)
                uv_run(&fx.loop, UV_RUN_NOWAIT);
        cr_assert_geq(uv_hrtime() - begin, DS_SPIN_NS);
        cr_assert_gt(turns, 0);
        cr_assert_gt(fx.spin.accounts[UID % DS_SPIN_ACCOUNTS].due_ns, 0, "polling is charged");
        /* polling that the configuration turns off meanwhile ends, too */
        ds_spin_after(&fx.spin, UID, uv_hrtime(), US);
        cr_assert(polls());
        ds_spin_set(&fx.spin, 0, 1);
        uv_run(&fx.loop, UV_RUN_DEFAULT);
        cr_assert(!polls());
}

/* A user sends requests all the time, at the rate that costs the daemon most. */
static void flood(uint64_t gap, uint64_t work)
{
        const uint64_t begin = fx.now;
        uint64_t polled = 0, worked = 0;

        while (fx.now - begin < 20 * DS_NS_PER_S) {
                polled += request(UID, gap, work);
                worked += work;
                /* here the loop would have stopped */
                if (polls() && !may(UID))
                        uv_idle_stop(&fx.spin.idle);
        }
        cr_assert_leq(polled, worked + (fx.now - begin) / DS_SPIN_SHARE + DS_SPIN_SAVED_NS + 2 * DS_SPIN_NS,
                "%llu us of polling for %llu us of work", (unsigned long long)(polled / US),
                (unsigned long long)(worked / US));
        cr_assert_geq(polled, DS_SPIN_SAVED_NS);
}

Test(spin, a_flood_costs_what_its_requests_cost)
{
        flood(49 * US, 0);
        teardown();
        setup();
        flood(49 * US, 5 * US);
        teardown();
        setup();
        flood(10 * US, US);
}

/* A user without polling time gets some later, and other users have their own. */
Test(spin, accounts_are_separate_and_recover)
{
        unsigned n = 0;

        for (; may(UID) && n < 100000; n++)
                request(UID, 40 * US, 0);
        cr_assert_geq(n, DS_SPIN_SAVED_NS / (40 * US));
        cr_assert_leq(n, 2 * DS_SPIN_SAVED_NS / (40 * US));
        cr_assert(may(UID + 1));
        cr_assert(!may(UID + DS_SPIN_ACCOUNTS), "this user shares the account");
        fx.now += DS_NS_PER_S / 10;
        cr_assert(may(UID));
        for (n = 0; may(UID) && n < 100000; n++)
                request(UID, 40 * US, 0);
        cr_assert_leq(n, 2 + DS_NS_PER_S / 10 / DS_SPIN_SHARE / (40 * US), "as much as a fiftieth of the time");
}

/* Lets the polling end without a further request, as the loop does. */
static void nothing_comes(void)
{
        cr_assert(polls());
        fx.spin.until_ns = 0;
        uv_run(&fx.loop, UV_RUN_NOWAIT);
        cr_assert(!polls());
}

/* Polling pauses if the next requests come too late; a worker that takes long for its answer is no reason. */
Test(spin, pauses_if_it_is_in_vain)
{
        unsigned n;

        fx.now = uv_hrtime();
        for (unsigned i = 0; i < 2 * DS_SPIN_VAIN_MAX; i++) {
                cr_assert(may(UID));
                request(UID, 0, US); /* leads to a request to the worker */
                nothing_comes();
        }
        for (unsigned i = 0; i < 10 * DS_SPIN_VAIN_MAX; i++) {
                request(UID, 0, US);
                request(UID, US, US); /* two of three requests follow in time */
                request(UID, US, US);
                nothing_comes();
        }
        for (n = 0; n < DS_SPIN_VAIN_MAX; n++) {
                request(UID, 0, US);
                if (!polls())
                        break;
                nothing_comes();
        }
        cr_assert_leq(n, DS_SPIN_VAIN_MAX / 2);
        cr_assert_gt(n, 2);
        cr_assert(!may(UID));
        cr_assert(may(UID + 1));
        fx.now += DS_SPIN_PAUSE_NS;
        cr_assert(may(UID));
}

static void info(ds_conn *conn)
{
        FX_REQUEST(mem_info, MEM_INFO, MemInfo, MEM_INFO);

        fx_ask(conn, &mem_info_r, NULL);
        cr_assert_eq(fx_status(conn), 0);
}

static int count(const char *log, const char *line)
{
        int n = 0;

        for (const char *at = log; (at = strstr(at, line)); at += strlen(line))
                n++;
        return n;
}

/* Each request of a client tells the worker for how long it may poll; other messages do not. */
Test(spin, the_worker_may_poll_after_requests)
{
        for (int never = 0; never < 2; never++) {
                struct fixture f;
                ds_conn *conn;
                char log[4000];

                setenv("DETSHARE_CPUS", "8", 1);
                setenv("FAKE_WORKER", "polls arguments", 1);
                fx_init(&f);
                f.config.spin_never = (uint64_t)never;
                fx_start(&f);
                conn = fx_session(&f);
                info(conn);
                info(conn);
                fx_read_log(&f, log, sizeof(log));
                cr_assert_eq(count(log, "may poll for 50 us\n"), never ? 0 : 2, "%s", log);
                cr_assert_eq(strstr(log, "--spin-us\n0\n") != NULL, never, "%s", log);
                ds_conn_free(conn);
                fx_baseline(&f);
                fx_stop(&f);
        }
}
