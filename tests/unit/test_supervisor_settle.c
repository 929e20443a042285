/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second context (supervisor/settle.h): its process starts only at the worker's request; it may fail, hang, or run
 * during a stop
 */
#include "tests/unit/supervisor_fixture.h"

static void settle_start(struct fixture *f, const char *mode)
{
        setenv("FAKE_WORKER", mode, 1);
        fx_init(f);
        f->options.device = "cuda:0";
        fx_start(f);
}

static int log_count(const struct fixture *f, const char *line)
{
        char log[4000];
        int n = 0;

        fx_read_log(f, log, sizeof(log));
        for (const char *at = log; (at = strstr(at, line)); at += strlen(line))
                n++;
        return n;
}

static void await_count(const struct fixture *f, const char *line, int n)
{
        for (int i = 0; log_count(f, line) < n && i < 10000; i++)
                usleep(1000);
        cr_assert_eq(log_count(f, line), n, "%d times %s", n, line);
}

static void alloc(ds_conn *conn)
{
        FX_REQUEST(mem_alloc, MEM_ALLOC, MemAlloc, MEM_ALLOC);

        mem_alloc.bytes = 4096;
        fx_ask(conn, &mem_alloc_r, NULL);
        cr_assert_eq(fx_status(conn), 0);
}

/* Only a worker's report starts the settle process; a client's requests do not. */
Test(settle, on_request_of_the_worker)
{
        for (int stirs = 0; stirs < 2; stirs++) {
                struct fixture f;
                ds_conn *conn;

                settle_start(&f, stirs ? "stirs" : "");
                conn = fx_session(&f);
                alloc(conn);
                if (stirs)
                        await_count(&f, "turn\n", 1);
                else
                        usleep(100000); /* no process starts, however long the test waits */
                cr_assert_eq(log_count(&f, "settle\n"), stirs);
                ds_conn_free(conn);
                fx_baseline(&f);
                fx_stop(&f);
        }
}

/* One settle process serves all requests of a worker. */
Test(settle, turns)
{
        struct fixture f;
        ds_conn *conn;

        settle_start(&f, "stirs");
        conn = fx_session(&f);
        alloc(conn);
        await_count(&f, "turn\n", 1);
        for (int i = 2; i <= 4; i++) {
                alloc(conn);
                await_count(&f, "turn\n", i);
        }
        ds_conn_free(conn);
        fx_baseline(&f);
        await_count(&f, "settle\n", 1);
        fx_stop(&f);
}

/* A hanging process delays neither a new worker nor a stop. */
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
        fx_ask(conn, &query_r, NULL); /* kills the worker */
        (void)fx_status(conn);
        fx_wait_serving(&f, pid);
        alloc(conn);
        ds_conn_free(conn);
        begin = fx_now_ms();
        fx_stop(&f);
        cr_assert_lt(fx_now_ms() - begin, 10000u);
}

/* The worker requests one settle: a failed one is retried, though not at once. */
static void check_again(const char *mode, int asks_on)
{
        struct fixture f;
        ds_conn *conn;
        uint64_t begin, took;

        settle_start(&f, mode);
        conn = fx_session(&f);
        begin = fx_now_ms();
        alloc(conn);
        for (int i = 0; log_count(&f, "settle\n") < 2 && i < 1000; i++) {
                if (asks_on)
                        alloc(conn);
                usleep(10000);
        }
        took = fx_now_ms() - begin;
        cr_assert_eq(log_count(&f, "settle\n"), 2);
        cr_assert_geq(took, 900u, "%u ms", (unsigned)took);
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

Test(settle, one_that_fails)
{
        check_again("stirs refuses", 0);
}

/* Somebody kills the process. */
Test(settle, one_that_is_killed)
{
        check_again("stirs perishes", 0);
}

/* The settle process had waited for long and was just ending when the request came. */
Test(settle, one_that_leaves)
{
        check_again("stirs leaves", 0);
}

/* Frequent requests do not make a failing process start more often. */
Test(settle, one_that_fails_is_not_hurried)
{
        check_again("stirs refuses", 1);
}

/* --- processes that are not awaited ------------------------------------------------------------------------------- */

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

/* The supervisor need not wait for the process's end. */
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
