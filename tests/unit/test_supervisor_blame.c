/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's fault ends the device's context: errors of each session, speed of the replacement, the new worker's input,
 * and delays for users who cause faults repeatedly
 */
#include "tests/unit/supervisor_fixture.h"

#include "supervisor/blame.h"

/* --- the record of faults ----------------------------------------------------------------------------------------- */

#define S DS_NS_PER_S

Test(blame, a_few_faults_cost_nothing)
{
        struct ds_blame blame = {0};

        for (unsigned i = 0; i < DS_BLAME_FREE; i++)
                ds_blame_add(&blame, 1000, 1, 100 * S + i);
        cr_assert_eq(ds_blame_wait_ms(&blame, 1000, 100 * S + 10), 0);
        /* one fault every 12 s never causes a delay */
        for (unsigned i = 1; i < 1000; i++) {
                ds_blame_add(&blame, 1001, 1, i * DS_BLAME_LEAK_NS);
                cr_assert_eq(ds_blame_wait_ms(&blame, 1001, i * DS_BLAME_LEAK_NS + 1), 0);
        }
}

Test(blame, the_wait_grows_is_bounded_and_ends)
{
        struct ds_blame blame = {0};
        uint64_t last = 0, now = 100 * S;

        for (unsigned i = 0; i < DS_BLAME_FREE; i++)
                ds_blame_add(&blame, 1000, 1, now);
        for (unsigned i = 0; i < 100; i++) {
                uint64_t ms;

                ds_blame_add(&blame, 1000, 1, now);
                ms = ds_blame_wait_ms(&blame, 1000, now);
                cr_assert_geq(ms, DS_BLAME_FIRST_MS);
                cr_assert_geq(ms, last);
                cr_assert_leq(ms, DS_BLAME_MAX_MS);
                last = ms;
        }
        cr_assert_eq(last, DS_BLAME_MAX_MS);
        cr_assert_eq(ds_blame_wait_ms(&blame, 1001, now), 0, "others do not wait");
        cr_assert_eq(ds_blame_wait_ms(&blame, 1000, now + 8 * S), 0);
        /* after a time without faults the user does not have to wait any more */
        ds_blame_add(&blame, 1000, 1, now + 300 * S);
        cr_assert_eq(ds_blame_wait_ms(&blame, 1000, now + 300 * S), 0);
}

Test(blame, shared_root_and_many)
{
        struct ds_blame blame = {0};

        for (int i = 0; i < 100; i++)
                ds_blame_add(&blame, 0, 1, 100 * S);
        cr_assert_eq(ds_blame_wait_ms(&blame, 0, 100 * S), 0, "root can do worse");
        for (int i = 0; i < 10; i++)
                ds_blame_add(&blame, 7, 2, 100 * S);
        cr_assert_eq(ds_blame_wait_ms(&blame, 7, 100 * S), 0, "half of ten is five");
        ds_blame_add(&blame, 7, 2, 100 * S);
        cr_assert_gt(ds_blame_wait_ms(&blame, 7, 100 * S), 0);
        for (uid_t uid = 1000; uid < 2000; uid++)
                ds_blame_add(&blame, uid, 1, 200 * S);
        cr_assert_eq(ds_blame_wait_ms(&blame, 7, 101 * S), 0, "of very many the oldest is forgotten");
}

/* --- the daemon --------------------------------------------------------------------------------------------------- */

static int alloc_status(ds_conn *conn)
{
        FX_REQUEST(mem_alloc, MEM_ALLOC, MemAlloc, MEM_ALLOC);

        mem_alloc.bytes = 4096;
        fx_ask(conn, &mem_alloc_r, NULL);
        return fx_status(conn);
}

static int query_status(ds_conn *conn)
{
        FX_REQUEST(query, QUERY, Query, QUERY);

        fx_ask(conn, &query_r, NULL);
        return fx_status(conn);
}

/* A kernel of this session faults. Returns the client's error and its message. */
static int message_of(ds_conn *conn, char *message, size_t size)
{
        Detshare__Reply *reply;
        int status;

        reply = fx_answer(conn);
        if (!reply)
                return -1;
        status = reply->status;
        snprintf(message, size, "%s", reply->message);
        detshare__reply__free_unpacked(reply, NULL);
        return status;
}

static int fault(ds_conn *conn, char *message, size_t size)
{
        FX_REQUEST(copy, COPY, Copy, COPY);

        fx_ask(conn, &copy_r, NULL);
        return message_of(conn, message, size);
}

/* The error that a session gets from the new worker after a kernel of it has faulted. */
static int later(ds_conn *conn, char *message, size_t size)
{
        FX_REQUEST(memset, MEMSET, Memset, MEMSET);

        fx_ask(conn, &memset_r, NULL);
        return message_of(conn, message, size);
}

static int launch_status(ds_conn *conn)
{
        FX_REQUEST(launch, LAUNCH, Launch, LAUNCH);

        fx_ask(conn, &launch_r, NULL);
        return fx_status(conn);
}

static int limit_status(ds_conn *conn, uint32_t limit, uint64_t value)
{
        FX_REQUEST(set_limit, SET_LIMIT, SetLimit, SET_LIMIT);

        set_limit.limit = limit;
        set_limit.value = value;
        fx_ask(conn, &set_limit_r, NULL);
        return fx_status(conn);
}

Test(lost, the_offender_gets_the_error_and_idle_sessions_continue)
{
        char message[300], log[2000];
        struct fixture f;
        ds_conn *idle, *busy, *bad;
        uint64_t begin;
        uint32_t pid;

        fx_init(&f);
        fx_start(&f);
        pid = fx_wait_serving(&f, 0);
        idle = fx_session(&f);
        busy = fx_session(&f);
        bad = fx_session(&f);
        cr_assert_eq(alloc_status(idle), 0);
        cr_assert_eq(limit_status(idle, 0, 65536), 0);
        cr_assert_eq(launch_status(busy), 0);
        cr_assert_eq(truncate(f.log, 0), 0);
        begin = fx_now_ms();
        cr_assert_eq(fault(bad, message, sizeof(message)), 700);
        cr_assert_str_eq(message, "kernel boom wrote to address 0x10");
        /* the new worker starts at once, although the old one lingers for 30 s and ran only briefly: a client caused
         * the fault */
        fx_wait_serving(&f, pid);
        cr_assert_leq(fx_now_ms() - begin, 500);
        cr_assert_eq(query_status(idle), 0);
        fx_read_log(&f, log, sizeof(log));
        cr_assert_str_eq(log,
                "open class=0 error=0\ncall 56\nstart fifo\nopen class=0 error=0\ncall 69\nlimit 0 65536\n"
                "slab 67108864 allocs=1 fds=1\nstream 0 seq=0\ncall 63\n");
        cr_assert_eq(truncate(f.log, 0), 0);
        cr_assert_eq(query_status(bad), 0);
        cr_assert_eq(query_status(busy), 0);
        fx_read_log(&f, log, sizeof(log));
        cr_assert_str_eq(log, "open class=0 error=700\nstream 0 seq=0\ncall 63\n"
                              "open class=0 error=719\nstream 0 seq=7\ncall 63\n");
        cr_assert_eq(later(bad, message, sizeof(message)), 700);
        cr_assert_str_eq(message, "kernel boom wrote to address 0x10");
        cr_assert_eq(later(busy, message, sizeof(message)), 719);
        cr_assert_str_eq(message, "work was lost");
        cr_assert_eq(later(idle, message, sizeof(message)), 0);
        ds_conn_free(idle);
        ds_conn_free(busy);
        ds_conn_free(bad);
        fx_baseline(&f);
        fx_stop(&f);
}

/* Ten faults in a row by root: each new worker starts at once, and an idle session notices nothing. */
Test(lost, again_and_again)
{
        struct fixture f;
        ds_conn *idle;

        if (geteuid() != 0)
                skip_test("root, to become another user");
        fx_init(&f);
        fx_start(&f);
        idle = fx_session(&f);
        cr_assert_eq(alloc_status(idle), 0);
        for (int i = 0; i < 10; i++) {
                uint32_t pid = fx_wait_serving(&f, 0);
                ds_conn *bad = fx_session(&f);
                uint64_t begin = fx_now_ms();
                char message[300];

                cr_assert_eq(fault(bad, message, sizeof(message)), 700);
                ds_conn_free(bad);
                fx_wait_serving(&f, pid);
                cr_assert_leq(fx_now_ms() - begin, 1000, "round %d", i);
                cr_assert_eq(query_status(idle), 0);
        }
        ds_conn_free(idle);
        fx_baseline(&f);
        fx_stop(&f);
}

/* Runs as uid 65534: five faults are free, then its sessions wait. Returns the line of the first failure; 0: none. */
static int as_nobody(const struct fixture *f)
{
        ds_conn *old, *conn;
        char message[300];

#define EXPECT(condition) \
        if (!(condition)) \
        return __LINE__
        EXPECT(setresuid(65534, 65534, 65534) == 0);
        old = fx_hello(f, 0, DETSHARE__CLASS__BE, NULL, NULL);
        for (unsigned i = 0; i <= DS_BLAME_FREE; i++) {
                uint32_t pid = fx_wait_serving(f, 0);

                conn = fx_hello(f, 0, DETSHARE__CLASS__BE, NULL, NULL);
                EXPECT(conn);
                EXPECT(fault(conn, message, sizeof(message)) == 700);
                ds_conn_free(conn);
                fx_wait_serving(f, pid);
        }
        EXPECT(!fx_hello(f, 0, DETSHARE__CLASS__BE, NULL, NULL));  /* a new session is refused */
        EXPECT(query_status(old) == DETSHARE__STATUS__RESTARTING); /* an old session, in the new worker, has to wait */
        usleep((DS_BLAME_FIRST_MS + 100) * 1000);
        EXPECT(query_status(old) == 0);
        conn = fx_hello(f, 0, DETSHARE__CLASS__BE, NULL, NULL);
        EXPECT(conn);
        ds_conn_free(conn);
        ds_conn_free(old);
#undef EXPECT
        return 0;
}

Test(lost, a_frequent_offender_waits, .timeout = 30)
{
        struct fixture f;
        int status;
        pid_t pid;

        if (geteuid() != 0)
                skip_test("root, to become another user");
        fx_init(&f);
        cr_assert_eq(chmod(f.dir, 0755), 0);
        fx_start(&f);
        fx_wait_serving(&f, 0);
        fflush(NULL);
        pid = fork();
        if (pid == 0)
                _exit(as_nobody(&f) % 256);
        waitpid(pid, &status, 0);
        cr_assert(WIFEXITED(status));
        cr_assert_eq(WEXITSTATUS(status), 0, "line %d (modulo 256)", WEXITSTATUS(status));
        fx_baseline(&f);
        fx_stop(&f);
}
