/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts beside the worker's: when they are made, that none is made for nothing or all the time, and what becomes of
 * one that fails, hangs, or is in the way of a stop
 */
#include "tests/unit/supervisor_fixture.h"

/* --- when --------------------------------------------------------------------------------------------------------- */

#define BEGIN_MS 1000000u

Test(settle, when_it_is_quiet)
{
        struct ds_settle_pace pace = {0};

        ds_settle_pace_stirred(&pace, BEGIN_MS);
        cr_assert_eq(ds_settle_pace_in(&pace, BEGIN_MS), SETTLE_QUIET_MS);
        ds_settle_pace_stirred(&pace, BEGIN_MS + 200);
        cr_assert_eq(ds_settle_pace_in(&pace, BEGIN_MS + 200), SETTLE_QUIET_MS, "moved");
        ds_settle_pace_stirred(&pace, BEGIN_MS + SETTLE_LATEST_MS - 100);
        cr_assert_eq(ds_settle_pace_in(&pace, BEGIN_MS + SETTLE_LATEST_MS - 100), 100, "not for ever");
        cr_assert_eq(ds_settle_pace_in(&pace, BEGIN_MS + SETTLE_LATEST_MS), 0);
        ds_settle_pace_begun(&pace, BEGIN_MS + SETTLE_LATEST_MS);
        cr_assert_eq(pace.first_ms, 0, "nothing is left");
        ds_settle_pace_made(&pace);
        ds_settle_pace_stirred(&pace, BEGIN_MS + SETTLE_LATEST_MS + 100);
        cr_assert_eq(ds_settle_pace_in(&pace, BEGIN_MS + SETTLE_LATEST_MS + 100), SETTLE_APART_MS - 100);
}

/* How many are made in so many seconds for a client that brings something every 400 ms. */
static unsigned made_in(struct ds_settle_pace *pace, uint64_t from_ms, unsigned seconds)
{
        uint64_t due = UINT64_MAX;
        unsigned n = 0;

        for (uint64_t ms = 0; ms < seconds * 1000u; ms += 100) {
                if (from_ms + ms >= due) {
                        ds_settle_pace_begun(pace, from_ms + ms);
                        ds_settle_pace_made(pace);
                        due = UINT64_MAX;
                        n++;
                }
                if (ms % 400)
                        continue;
                ds_settle_pace_stirred(pace, from_ms + ms);
                due = from_ms + ms + ds_settle_pace_in(pace, from_ms + ms);
        }
        return n;
}

Test(settle, not_all_the_time)
{
        struct ds_settle_pace pace = {0};
        uint64_t now = BEGIN_MS;
        unsigned n;

        n = made_in(&pace, now, 10);
        cr_assert(n >= 3 && n <= 5, "a program that comes and loads for a while: %u", n);
        n = made_in(&pace, now += 10000, 600);
        cr_assert(n > 600000 / SETTLE_APART_LONG_MS - 2 && n < 600000 / SETTLE_APART_LONG_MS + 3,
                "one that never ends: %u", n);
        n = made_in(&pace, now += 600000 + SETTLE_APART_LONG_MS + SETTLE_CALM_MS, 10);
        cr_assert(n >= 3 && n <= 5, "the next one that comes later: %u", n);
}

Test(settle, failures_are_tried_again_and_not_for_ever)
{
        struct ds_settle_pace pace = {0};
        uint64_t now = BEGIN_MS, in, last = 0;
        unsigned n = 0;

        ds_settle_pace_stirred(&pace, now);
        for (; pace.first_ms && n < 100; n++) {
                in = ds_settle_pace_in(&pace, now);
                cr_assert_geq(in, last, "each waits at least as long as the one before");
                last = in;
                now += in;
                ds_settle_pace_begun(&pace, now);
                ds_settle_pace_failed(&pace, now);
        }
        cr_assert(n > 2 && n < 10, "%u tries", n);
        ds_settle_pace_stirred(&pace, now + 1);
        cr_assert_eq(ds_settle_pace_in(&pace, now + 1), SETTLE_APART_MAX_MS - 1);
        ds_settle_pace_begun(&pace, now += SETTLE_APART_MAX_MS);
        ds_settle_pace_made(&pace);
        ds_settle_pace_stirred(&pace, now);
        cr_assert_eq(ds_settle_pace_in(&pace, now), SETTLE_APART_MS, "one that was made ends that");
}

/* --- the process -------------------------------------------------------------------------------------------------- */

static void settle_start(struct fixture *f, const char *mode)
{
        setenv("FAKE_WORKER", mode, 1);
        fx_init(f);
        f->options.device = "cuda:0";
        fx_start(f);
}

static int log_has(const struct fixture *f, const char *line)
{
        char log[4000];

        fx_read_log(f, log, sizeof(log));
        return strstr(log, line) != NULL;
}

static void alloc(ds_conn *conn)
{
        FX_REQUEST(mem_alloc, MEM_ALLOC, MemAlloc, MEM_ALLOC);

        mem_alloc.bytes = 4096;
        fx_ask(conn, &mem_alloc_r, NULL);
        cr_assert_eq(fx_status(conn), 0);
}

/* A worker that says that something came is believed; what clients ask for makes nothing by itself. */
Test(settle, for_what_the_worker_says)
{
        for (int stirs = 0; stirs < 2; stirs++) {
                struct fixture f;
                ds_conn *conn;

                settle_start(&f, stirs ? "stirs" : "");
                conn = fx_session(&f);
                alloc(conn);
                if (stirs)
                        fx_await_log(&f, "settle\n", 1);
                else
                        usleep(2 * SETTLE_QUIET_MS * 1000); /* nothing comes, however long one waits */
                cr_assert_eq(log_has(&f, "settle\n"), stirs);
                ds_conn_free(conn);
                fx_baseline(&f);
                fx_stop(&f);
        }
}

/* One that hangs is in nobody's way: not in the worker's, which is replaced, and not in that of a stop. */
Test(settle, one_that_hangs)
{
        struct fixture f;
        ds_conn *conn;
        uint64_t begin;
        uint32_t pid;
        FX_REQUEST(query, QUERY, Query, QUERY);

        settle_start(&f, "stirs hangs dies");
        pid = fx_wait_serving(&f, 0);
        conn = fx_session(&f);
        alloc(conn);
        fx_await_log(&f, "settle\n", 1);
        fx_ask(conn, &query_r, NULL); /* the worker dies of it */
        (void)fx_status(conn);
        fx_wait_serving(&f, pid);
        alloc(conn);
        ds_conn_free(conn);
        begin = fx_now_ms();
        fx_stop(&f);
        cr_assert_lt(fx_now_ms() - begin, SETTLE_TIME_MS);
}

/* It is tried again, though nothing came anew. */
static void check_again(const char *mode)
{
        struct fixture f;
        ds_conn *conn;

        settle_start(&f, mode);
        conn = fx_session(&f);
        alloc(conn);
        fx_await_log(&f, "settle\n", 2);
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

Test(settle, one_that_fails)
{
        check_again("stirs refuses");
}

/* As the daemon does with those that take too long. */
Test(settle, one_that_is_killed)
{
        check_again("stirs perishes");
}

/* --- left alone -----------------------------------------------------------------------------------------------------
 */

static int left_frame(void *user, const uint8_t *payload, size_t size)
{
        return 1;
}

static void left_told(void *user)
{
        cr_assert_fail("nobody hears of one that was left");
}

static void left_ended(void *user, const char *how, int killed)
{
        left_told(user);
}

/* Who leaves a process need not wait for its end. */
Test(settle, a_process_that_is_left)
{
        static const struct ds_process_ops left_ops = {left_frame, left_told, left_ended};
        const char *argv[] = {"/bin/sleep", "3600", NULL};
        ds_process *process;
        uv_loop_t loop;
        pid_t pid;
        int status;

        cr_assert_eq(uv_loop_init(&loop), 0);
        cr_assert_eq(ds_process_spawn(&loop, argv, 2 * DS_PROCESS_FRAME_MAX, &left_ops, NULL, &process), 0);
        pid = ds_process_pid(process);
        cr_assert_null(ds_process_leave(process));
        cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0, "nothing is waited for");
        cr_assert_eq(uv_loop_close(&loop), 0);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
