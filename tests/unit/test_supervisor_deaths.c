/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole supervisor with workers and helpers that die, lie and linger, and without memory. Every test ends with a stop
 * that proves the sums: all windows, charges and handles are returned.
 */
#include "tests/unit/rounds.h"
#include "tests/unit/supervisor_fixture.h"

/* --- the worker's deaths ------------------------------------------------------------------------------------------ */

/* Attaches the session. Returns 0, the completion page and whether work was lost; or the status of the refusal. */
static int attach(ds_conn *conn, const struct ds_completion_page **ret_page, int *lost_work)
{
        Detshare__Reply *reply;
        int fds[3], status;
        FX_REQUEST(attach, ATTACH, Attach, ATTACH);

        fx_ask(conn, &attach_r, NULL);
        reply = fx_answer(conn);
        cr_assert_not_null(reply);
        status = reply->status;
        if (status == 0) {
                cr_assert_eq(reply->fds, 3);
                cr_assert_eq(ds_conn_take_fds(conn, fds, 3), 0);
                *lost_work = reply->attach->lost_work;
                *ret_page = mmap(NULL, DS_PAGE_BYTES, PROT_READ, MAP_SHARED, fds[1], 0);
                cr_assert_neq(*ret_page, MAP_FAILED);
                cr_assert_eq(mmap(NULL, DS_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0), MAP_FAILED);
                cr_assert_lt(ftruncate(fds[0], 0), 0);
                cr_assert_lt(ftruncate(fds[1], 0), 0);
                for (int i = 0; i < 3; i++)
                        close(fds[i]);
        }
        detshare__reply__free_unpacked(reply, NULL);
        return status;
}

static void ask_sync(ds_conn *conn)
{
        FX_REQUEST(sync, SYNC, Sync, SYNC);
        fx_ask(conn, &sync_r, NULL);
}

static int launch_status(ds_conn *conn)
{
        FX_REQUEST(launch, LAUNCH, Launch, LAUNCH);
        fx_ask(conn, &launch_r, NULL);
        return fx_status(conn);
}

Test(deaths, a_dead_worker_is_replaced_and_set_up)
{
        const struct ds_completion_page *idle_page, *busy_page;
        int lost, restarted = DETSHARE__STATUS__RESTARTING;
        struct fixture f;
        ds_conn *idle, *busy;
        char log[4000];
        uint32_t pid;
        FX_REQUEST(reset_session, RESET_SESSION, ResetSession, RESET_SESSION);

        fx_init(&f);
        fx_start(&f);
        pid = fx_wait_serving(&f, 0);
        idle = fx_session(&f);
        busy = fx_session(&f);
        cr_assert_eq(fx_alloc_status(idle, 4096), 0);
        cr_assert_eq(attach(idle, &idle_page, &lost), 0);
        cr_assert_eq(attach(busy, &busy_page, &lost), 0);
        cr_assert_eq(launch_status(busy), 0);
        ask_sync(idle);
        ask_sync(busy);
        /* otherwise this worker's last log lines would count as its successor's */
        fx_await_log(&f, "call 62\n", 2);
        cr_assert_eq(truncate(f.log, 0), 0);
        kill((pid_t)pid, SIGKILL);
        cr_assert_eq(fx_status(idle), restarted, "nothing of it was lost");
        cr_assert_eq(fx_status(busy), 719);
        cr_assert_eq(atomic_load(&idle_page->dead), 1);
        cr_assert_eq(atomic_load(&idle_page->error), 0);
        cr_assert_eq(atomic_load(&busy_page->dead), 1);
        cr_assert_eq(atomic_load(&busy_page->error), 719);
        cr_assert_geq(atomic_load(&busy_page->wake), 1);
        fx_wait_serving(&f, pid);
        cr_assert_eq(attach(busy, &busy_page, &lost), 0);
        cr_assert_eq(lost, 1);
        cr_assert_eq(atomic_load(&busy_page->error), 719, "until it is reset");
        fx_ask(busy, &reset_session_r, NULL);
        cr_assert_eq(fx_status(busy), 0);
        cr_assert_eq(attach(idle, &idle_page, &lost), 0);
        cr_assert_eq(lost, 0);
        fx_read_log(&f, log, sizeof(log));
        cr_assert_str_eq(log, "start fifo\n"
                              "open class=0 error=719\nstream 0 seq=7\ncall 68\n"
                              "open class=0 error=0\nslab 67108864 allocs=1 fds=1\nstream 0 seq=0\n");
        ds_conn_free(idle);
        ds_conn_free(busy);
        fx_baseline(&f);
        fx_stop(&f);
}

/* The supervisor checks a worker's messages: it replaces a lying worker, and the clients stay. */
Test(deaths, workers_that_break_the_protocol)
{
        const char *modes[] = {"garbage", "forges", "dies"};

        for (int i = 0; i < 3; i++) {
                struct fixture f;
                ds_conn *conn;
                uint32_t pid;
                FX_REQUEST(query, QUERY, Query, QUERY);

                setenv("FAKE_WORKER", modes[i], 1);
                fx_init(&f);
                fx_start(&f);
                pid = fx_wait_serving(&f, 0);
                conn = fx_session(&f);
                fx_ask(conn, &query_r, NULL);
                cr_assert_eq(fx_status(conn), DETSHARE__STATUS__RESTARTING, "%s", modes[i]);
                fx_wait_serving(&f, pid);
                cr_assert_eq(fx_alloc_status(conn, 4096), 0, "%s", modes[i]);
                ds_conn_free(conn);
                fx_baseline(&f);
                fx_stop(&f);
        }
}

Test(deaths, a_worker_that_lies_about_memory)
{
        struct fixture f;
        ds_conn *conn;
        uint32_t pid;

        setenv("FAKE_WORKER", "lies", 1);
        fx_init(&f);
        fx_start(&f);
        pid = fx_wait_serving(&f, 0);
        conn = fx_session(&f);
        cr_assert_eq(fx_alloc_status(conn, 4096), DETSHARE__STATUS__RESTARTING);
        fx_wait_serving(&f, pid);
        cr_assert_eq(fx_ping(conn), 0);
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

/* A worker that does not answer is replaced together with its policy, because only a policy can make it hang. */
Test(deaths, a_worker_that_hangs, .timeout = 60)
{
        uint64_t begin = fx_now_ms();
        Detshare__Reply *reply;
        struct fixture f;
        ds_conn *conn;
        char log[1000];
        uint32_t pid;

        fx_init(&f);
        f.options.policy = "clever";
        fx_start(&f);
        pid = fx_wait_serving(&f, 0);
        conn = fx_session(&f);
        cr_assert_eq(fx_alloc_status(conn, 4096), 0);
        kill((pid_t)pid, SIGSTOP);
        ask_sync(conn);
        cr_assert_eq(fx_ping(conn), 0, "the supervisor answers meanwhile");
        reply = (Detshare__Reply *)fx_receive(conn, &detshare__reply__descriptor, 20000);
        cr_assert_not_null(reply);
        cr_assert_eq(reply->status, DETSHARE__STATUS__RESTARTING);
        detshare__reply__free_unpacked(reply, NULL);
        cr_assert_leq(fx_now_ms() - begin, 17000);
        fx_wait_serving(&f, pid);
        fx_read_log(&f, log, sizeof(log));
        cr_assert_str_eq(log, "start clever\nopen class=0 error=0\ncall 40\nstart fifo\n");
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

/* On a real GPU the driver may hang behind a client's kernel, so the policy is blamed only the second time. */
Test(deaths, a_worker_of_a_gpu_that_hangs, .timeout = 90)
{
        struct fixture f;
        char log[1000];
        uint32_t pid;

        setenv("FAKE_WORKER", "silicon", 1);
        fx_init(&f);
        f.options.policy = "clever";
        fx_start(&f);
        pid = fx_wait_serving(&f, 0);
        for (int i = 0; i < 2; i++) {
                kill((pid_t)pid, SIGSTOP);
                for (int k = 0; k < 200 && kill((pid_t)pid, 0) == 0; k++)
                        usleep(100000);
                pid = fx_wait_serving(&f, pid);
        }
        fx_read_log(&f, log, sizeof(log));
        cr_assert_str_eq(log, "start clever\nstart clever\nstart fifo\n", "%s", log);
        fx_baseline(&f);
        fx_stop(&f);
        unsetenv("FAKE_WORKER");
}

Test(deaths, a_policy_survives_the_worker)
{
        char *params[] = {(char *)"a=1", (char *)"b=2"}, log[4000];
        struct fixture f;
        ds_conn *conn;
        uint32_t pid;
        FX_REQUEST(set_policy, SET_POLICY, SetPolicy, SET_POLICY);

        fx_init(&f);
        fx_start(&f);
        pid = fx_wait_serving(&f, 0);
        conn = fx_hello(&f, 1, DETSHARE__CLASS__BE, NULL, NULL);
        set_policy.name = (char *)"static";
        set_policy.params = params;
        set_policy.n_params = 2;
        fx_ask(conn, &set_policy_r, NULL);
        cr_assert_eq(fx_status(conn), 0);
        set_policy.name = (char *)"../evil";
        fx_ask(conn, &set_policy_r, NULL);
        cr_assert_eq(fx_status(conn), DETSHARE__STATUS__BAD_PARAMETER);
        cr_assert_eq(truncate(f.log, 0), 0);
        kill((pid_t)pid, SIGKILL);
        fx_wait_serving(&f, pid);
        fx_read_log(&f, log, sizeof(log));
        cr_assert_str_eq(log, "start static\npolicy static params=2\n");
        ds_conn_free(conn);
        fx_stop(&f);
}

/* --- modules and the helper --------------------------------------------------------------------------------------- */

Test(deaths, images_that_kill_the_helper)
{
        struct fixture f;
        ds_conn *a, *b;

        fx_init(&f);
        fx_start(&f);
        a = fx_session(&f);
        b = fx_session(&f);
        cr_assert_eq(fx_load_status(a, "good"), 0);
        cr_assert_eq(fx_load_status(a, "Bad"), 218);
        /* the good images behind one that kills the helper wait for the next helper */
        fx_ask_load(a, "Killer");
        fx_ask_load(b, "good");
        fx_ask_load(a, "good");
        cr_assert_eq(fx_status(a), 999);
        cr_assert_eq(fx_status(a), 0);
        cr_assert_eq(fx_status(b), 0);
        fx_ask_load_bytes(a, "good", 0);
        cr_assert_eq(fx_status(a), DETSHARE__STATUS__BAD_PARAMETER);
        fx_ask_load_bytes(a, "good", DS_IMAGE_BYTES_MAX + 1);
        cr_assert_eq(fx_status(a), DETSHARE__STATUS__BAD_PARAMETER);
        /* the client leaves while the helper has its image */
        fx_ask_load(b, "good");
        ds_conn_free(b);
        cr_assert_eq(fx_load_status(a, "good"), 0);
        ds_conn_free(a);
        fx_baseline(&f);
        fx_stop(&f);
}

/* The helper has several images at once: the supervisor must find the one that kills it. */
Test(deaths, images_that_kill_the_helper_beside_others)
{
        struct fixture f;
        ds_conn *a, *b;

        setenv("FAKE_WORKER", "silicon", 1);
        fx_init(&f);
        fx_start(&f);
        a = fx_session(&f);
        b = fx_session(&f);
        for (int round = 0; round < 3; round++) {
                fx_ask_load(b, "Slow");
                fx_ask_load(a, "Killer");
                fx_ask_load(b, "good");
                fx_ask_load(a, "Bad");
                fx_ask_load(a, "good");
                cr_assert_eq(fx_status(b), 0, "round %d", round);
                cr_assert_eq(fx_status(b), 0, "round %d", round);
                cr_assert_eq(fx_status(a), 999, "round %d", round);
                cr_assert_eq(fx_status(a), 218, "round %d", round);
                cr_assert_eq(fx_status(a), 0, "round %d", round);
        }
        ds_conn_free(a);
        ds_conn_free(b);
        fx_baseline(&f);
        fx_stop(&f);
}

/* A client disconnects while the helper has its images: the supervisor cancels them, and they delay no other
 * client's. */
Test(deaths, images_of_the_gone_are_cancelled)
{
        struct fixture f;
        ds_conn *a, *b;
        char log[4000];

        setenv("FAKE_WORKER", "silicon", 1);
        fx_init(&f);
        fx_start(&f);
        a = fx_session(&f);
        b = fx_session(&f);
        fx_ask_load(a, "Slow");
        fx_ask_load(a, "Slow");
        fx_ask_load(a, "Slow");
        usleep(100000);
        ds_conn_free(a);
        cr_assert_eq(fx_load_status(b, "good"), 0);
        fx_read_log(&f, log, sizeof(log));
        /* on up to four cores the helper has two images at once: both may be root's, but one of another user's */
        cr_assert(strstr(log, geteuid() == 0 ? "cancelled 2\n" : "cancelled 1\n"), "%s", log);
        ds_conn_free(b);
        fx_baseline(&f);
        fx_stop(&f);
}

Test(deaths, a_helper_that_returns_unsealed_files)
{
        struct fixture f;
        ds_conn *conn;

        setenv("FAKE_HELPER", "unsealed", 1);
        fx_init(&f);
        fx_start(&f);
        conn = fx_session(&f);
        cr_assert_eq(fx_load_status(conn, "good"), 999);
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

/* A module's writable globals die with the worker: its session gets an error although it was idle. */
Test(deaths, globals_that_are_lost)
{
        const struct ds_completion_page *page;
        struct fixture f;
        ds_conn *conn;
        uint32_t pid;
        int lost;

        setenv("FAKE_WORKER", "globals", 1);
        fx_init(&f);
        fx_start(&f);
        pid = fx_wait_serving(&f, 0);
        conn = fx_session(&f);
        cr_assert_eq(fx_load_status(conn, "good"), 0);
        kill((pid_t)pid, SIGKILL);
        fx_wait_serving(&f, pid);
        cr_assert_eq(attach(conn, &page, &lost), 0);
        cr_assert_eq(lost, 0);
        cr_assert_eq(atomic_load(&page->error), 719);
        ds_conn_free(conn);
        fx_stop(&f);
}

/* --- memory that runs out ----------------------------------------------------------------------------------------- */

/* Sends some of every request; failures are accepted. */
static void everything(const struct fixture *f)
{
        ds_conn *conn = fx_hello(f, 0, DETSHARE__CLASS__BE, NULL, NULL);
        Detshare__Reply *reply;
        FX_REQUEST(get_status, GET_STATUS, GetStatus, GET_STATUS);
        FX_REQUEST(list_clients, LIST_CLIENTS, ListClients, LIST_CLIENTS);
        FX_REQUEST(set_policy, SET_POLICY, SetPolicy, SET_POLICY);
        FX_REQUEST(attach, ATTACH, Attach, ATTACH);

        if (!conn)
                return;
        fx_ask(conn, &attach_r, NULL);
        (void)fx_status(conn);
        (void)fx_alloc_status(conn, 4096);
        (void)fx_load_status(conn, "good");
        (void)launch_status(conn);
        fx_ask(conn, &get_status_r, NULL);
        reply = fx_answer(conn);
        if (reply && reply->status == 0 && reply->get_status && reply->get_status->worker_pid)
                kill((pid_t)reply->get_status->worker_pid, SIGKILL);
        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        fx_ask(conn, &list_clients_r, NULL);
        (void)fx_status(conn);
        set_policy.name = (char *)"fifo";
        fx_ask(conn, &set_policy_r, NULL);
        (void)fx_status(conn);
        ds_conn_free(conn);
}

/*
 * The n-th allocation fails, for every n of a run: nothing crashes, and the sums balance at each end. A short run tries
 * one of three, other ones each time.
 */
Test(deaths, memory_runs_out_at_any_point, .timeout = 120)
{
        const int64_t step = rounds_step(3);
        int clean = 0, tried = 0;

        for (int64_t n = 1 + getpid() % step; n < 160; n += step, tried++) {
                struct fixture f;
                int status;

                fx_init(&f);
                f.fail_after = n;
                fx_start(&f);
                for (int i = 0; i < FX_WAIT_MS && access(f.socket, F_OK) && !fx_ended(&f); i++)
                        usleep(1000);
                if (access(f.socket, F_OK) == 0)
                        everything(&f);
                kill(f.pid, SIGTERM);
                status = fx_wait(&f, FX_WAIT_MS);
                cr_assert(status == 0 || status == 1, "allocation %d: status %d", (int)n, status);
                clean += status == 0;
                fx_clean(&f);
        }
        cr_assert_gt(clean, tried * 5 / 8);
}
