/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole supervisor: start and stop, hello and windows, limits, rights. Every test ends with a stop that proves the
 * sums: all windows, charges and handles are returned.
 */
#include "tests/unit/supervisor_fixture.h"

/* --- start and stop ----------------------------------------------------------------------------------------------- */

Test(life, serves_and_stops)
{
        struct fixture f;
        ds_conn *conn;

        fx_init(&f);
        fx_start(&f);
        conn = fx_session(&f);
        cr_assert_eq(fx_ping(conn), 0);
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

Test(life, stops_under_clients_and_a_worker_that_lingers)
{
        struct fixture f;
        ds_conn *conns[10];
        FX_REQUEST(sync, SYNC, Sync, SYNC);

        setenv("FAKE_WORKER", "lingers", 1);
        fx_init(&f);
        fx_start(&f);
        for (int i = 0; i < 10; i++) {
                conns[i] = fx_session(&f);
                fx_ask(conns[i], &sync_r, NULL);
        }
        cr_assert_eq(fx_ping(conns[0]), 0);
        fx_stop(&f);
        for (int i = 0; i < 10; i++) {
                int status = fx_status(conns[i]);

                cr_assert(status == DETSHARE__STATUS__SHUTTING_DOWN || status == -1, "%d", status);
                ds_conn_free(conns[i]);
        }
}

Test(life, a_worker_that_cannot_start)
{
        const char *modes[] = {"fails", "says"};

        for (int i = 0; i < 2; i++) {
                struct fixture f;

                setenv("FAKE_WORKER", modes[i], 1);
                fx_init(&f);
                fx_start(&f);
                cr_assert_eq(fx_wait(&f, FX_WAIT_MS), 1);
                cr_assert_neq(access(f.socket, F_OK), 0);
                fx_clean(&f);
        }
}

/* Each worker gets the configured options of the device, and no others. */
Test(life, a_worker_gets_the_configuration)
{
        static const char *const logs[] = {"start fifo\nstart fifo\n--restarted\n",
                "start fifo\n--libcuda\n/lib/x.so\n--orphan-s\n7\n--kernel-s\n8\n--quiesce-s\n9\n--spin-us\n6\n"
                "start fifo\n--libcuda\n/lib/x.so\n--orphan-s\n7\n--kernel-s\n8\n--quiesce-s\n9\n--spin-us\n6\n"
                "--restarted\n"};

        for (int i = 0; i < 2; i++) {
                struct fixture f;
                char log[1000];
                uint32_t pid;

                setenv("FAKE_WORKER", "arguments", 1);
                fx_init(&f);
                if (i) {
                        f.config.libcuda = (char *)"/lib/x.so";
                        f.config.orphan_seconds = 7;
                        f.config.kernel_seconds = 8;
                        f.config.quiesce_seconds = 9;
                        f.config.spin_us = 6;
                }
                fx_start(&f);
                pid = fx_wait_serving(&f, 0);
                kill((pid_t)pid, SIGKILL);
                fx_wait_serving(&f, pid);
                fx_read_log(&f, log, sizeof(log));
                cr_assert_str_eq(log, logs[i]);
                fx_stop(&f);
        }
}

/* The new worker's clock starts behind every time that a client can have seen. This includes the time that a reply
 * gave just before the old worker died, which no page contains. */
Test(life, time_continues_where_a_client_saw_it)
{
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__ClockJoin join = DETSHARE__CLOCK_JOIN__INIT;
        struct fixture f;
        char log[1000];
        ds_conn *conn;
        uint32_t pid;

        setenv("FAKE_WORKER", "arguments", 1);
        fx_init(&f);
        fx_start(&f);
        pid = fx_wait_serving(&f, 0);
        conn = fx_session(&f);
        request.id = 7;
        request.call_case = DETSHARE__REQUEST__CALL_CLOCK_JOIN;
        request.clock_join = &join;
        fx_ask(conn, &request, NULL);
        cr_assert(fx_status(conn) == 0);
        kill((pid_t)pid, SIGKILL);
        fx_wait_serving(&f, pid);
        fx_read_log(&f, log, sizeof(log));
        cr_assert(strstr(log, "--clock-ns\n12345\n"), "%s", log);
        ds_conn_free(conn);
        fx_stop(&f);
}

Test(life, programs_that_are_not_there)
{
        struct fixture f;

        fx_init(&f);
        snprintf(f.options.worker_path, sizeof(f.options.worker_path), "/nowhere/worker");
        fx_start(&f);
        cr_assert_eq(fx_wait(&f, FX_WAIT_MS), 1);
        fx_clean(&f);
}

Test(life, socket_paths)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        struct fixture f, second;
        char path[200];
        int fd;

        fx_init(&f);
        /* a socket path that is too long is refused, not truncated */
        memset(path, 'x', sizeof(path));
        memcpy(path, f.dir, strlen(f.dir));
        path[strlen(f.dir)] = '/';
        path[sizeof(address.sun_path)] = 0;
        f.options.socket = path;
        fx_start(&f);
        cr_assert_eq(fx_wait(&f, FX_WAIT_MS), 1);
        path[sizeof(address.sun_path) - 1] = 0;
        cr_assert_neq(access(path, F_OK), 0);
        f.options.socket = f.socket;
        /* another kind of file exists at the socket's path: the daemon refuses to start, and the file stays */
        fd = open(f.socket, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        close(fd);
        fx_start(&f);
        cr_assert_eq(fx_wait(&f, FX_WAIT_MS), 1);
        cr_assert_eq(unlink(f.socket), 0);
        /* a socket file without a listener is replaced */
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        snprintf(address.sun_path, sizeof(address.sun_path), "%s", f.socket);
        cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        close(fd);
        fx_start(&f);
        ds_conn_free(fx_session(&f));
        /* another daemon serves at this socket: this second one is refused, and the first continues */
        second = f;
        fx_start(&second);
        cr_assert_eq(fx_wait(&second, FX_WAIT_MS), 1);
        ds_conn_free(fx_session(&f));
        fx_baseline(&f);
        fx_stop(&f);
}

/* --- hello and windows -------------------------------------------------------------------------------------------- */

static int hello_status(const struct fixture *f, uint32_t version, const char *name, int class_, uint32_t percent)
{
        ds_conn *conn = fx_conn(fx_connect(f));
        int status;
        FX_REQUEST(hello, HELLO, Hello, HELLO);

        hello.version = version;
        hello.name = (char *)name;
        hello.class_ = (Detshare__Class)class_;
        hello.sm_percent = percent;
        fx_ask(conn, &hello_r, NULL);
        status = fx_status(conn);
        ds_conn_free(conn);
        return status;
}

Test(life, hello_is_checked)
{
        char name[70] = "";
        struct fixture f;
        ds_conn *conn;
        FX_REQUEST(hello, HELLO, Hello, HELLO);
        FX_REQUEST(mem_info, MEM_INFO, MemInfo, MEM_INFO);

        fx_init(&f);
        fx_start(&f);
        memset(name, 'n', 64);
        cr_assert_eq(hello_status(&f, 2, "x", 0, 0), DETSHARE__STATUS__BAD_VERSION);
        cr_assert_eq(hello_status(&f, 1, name, 0, 0), DETSHARE__STATUS__BAD_PARAMETER);
        cr_assert_eq(hello_status(&f, 1, name + 1, 0, 0), 0);
        cr_assert_eq(hello_status(&f, 1, "x", 5, 0), DETSHARE__STATUS__BAD_PARAMETER);
        cr_assert_eq(hello_status(&f, 1, "x", 0, 101), DETSHARE__STATUS__BAD_PARAMETER);
        conn = fx_conn(fx_connect(&f));
        cr_assert_eq(fx_ping(conn), -1, "a request before hello");
        ds_conn_free(conn);
        conn = fx_session(&f);
        hello.version = 1;
        fx_ask(conn, &hello_r, NULL);
        cr_assert_eq(fx_status(conn), DETSHARE__STATUS__BAD_REQUEST, "hello twice");
        cr_assert_eq(fx_ping(conn), 0);
        ds_conn_free(conn);
        conn = fx_hello(&f, 1, DETSHARE__CLASS__BE, NULL, NULL);
        fx_ask(conn, &mem_info_r, NULL);
        cr_assert_eq(fx_status(conn), DETSHARE__STATUS__BAD_REQUEST, "GPU work of a control connection");
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

Test(life, windows_are_refused_and_returned)
{
        uint64_t bases[9];
        struct fixture f;
        ds_conn *conn;
        FX_REQUEST(window_refused, WINDOW_REFUSED, WindowRefused, WINDOW_REFUSED);
        FX_REQUEST(query, QUERY, Query, QUERY);

        fx_init(&f);
        fx_start(&f);
        conn = fx_hello(&f, 0, DETSHARE__CLASS__BE, &bases[0], NULL);
        for (int i = 1; i < 9; i++) {
                Detshare__Reply *reply;

                fx_ask(conn, &window_refused_r, NULL);
                reply = fx_answer(conn);
                cr_assert(reply && reply->status == 0 && reply->hello->window_bytes >= DS_GIB(4));
                bases[i] = reply->hello->window_base;
                for (int j = 0; j < i; j++)
                        cr_assert_neq(bases[i], bases[j]);
                detshare__reply__free_unpacked(reply, NULL);
        }
        fx_ask(conn, &window_refused_r, NULL);
        cr_assert_eq(fx_status(conn), DETSHARE__STATUS__QUOTA);
        fx_ask(conn, &query_r, NULL);
        cr_assert_eq(fx_status(conn), 0, "it takes the last one, and work goes on");
        fx_ask(conn, &window_refused_r, NULL);
        cr_assert_eq(fx_status(conn), DETSHARE__STATUS__BAD_REQUEST, "too late");
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

Test(life, connections_per_uid)
{
        struct fixture f;
        ds_conn *conns[3], *fourth;

        fx_init(&f);
        f.config.connections_per_uid = 3;
        fx_start(&f);
        for (int i = 0; i < 3; i++)
                conns[i] = fx_session(&f);
        fourth = fx_conn(fx_connect(&f));
        cr_assert_eq(fx_ping(fourth), -1);
        ds_conn_free(fourth);
        for (int i = 0; i < 3; i++)
                cr_assert_eq(fx_ping(conns[i]), 0, "the others notice nothing");
        ds_conn_free(conns[2]);
        conns[2] = NULL;
        for (int i = 0; i < 500 && !conns[2]; i++, usleep(2000))
                conns[2] = fx_hello(&f, 0, DETSHARE__CLASS__BE, NULL, NULL);
        cr_assert_not_null(conns[2], "room again");
        for (int i = 0; i < 3; i++)
                ds_conn_free(conns[i]);
        for (int i = 0; i < 500; i++, usleep(2000))
                if ((conns[0] = fx_hello(&f, 1, DETSHARE__CLASS__BE, NULL, NULL)))
                        break;
        ds_conn_free(conns[0]);
        fx_baseline(&f);
        fx_stop(&f);
}

/* Half a frame and silence: the client is dropped after 5 s; a client that finishes in time stays. */
Test(life, slow_clients_are_dropped, .timeout = 30)
{
        int silent, half, n_closed = 0;
        uint64_t begin = fx_now_ms();
        struct fixture f;
        ds_conn *conn, *idle;

        fx_init(&f);
        fx_start(&f);
        idle = fx_session(&f);
        conn = fx_session(&f);
        silent = fx_connect(&f);
        half = ds_conn_fd(conn);
        cr_assert_eq(send(half, "\x05\0", 2, 0), 2);
        while (n_closed < 2 && fx_now_ms() < begin + 12000) {
                struct pollfd p[2] = {{.fd = silent, .events = POLLIN}, {.fd = half, .events = POLLIN}};

                n_closed = poll(p, 2, 100);
        }
        cr_assert_eq(n_closed, 2);
        cr_assert_geq(fx_now_ms() - begin, 4500);
        cr_assert_leq(fx_now_ms() - begin, 8000);
        cr_assert_eq(fx_ping(idle), 0, "a session that is only idle stays");
        close(silent);
        ds_conn_free(conn);
        ds_conn_free(idle);
        fx_baseline(&f);
        fx_stop(&f);
}

/* A client that requests large replies and reads none is dropped. */
Test(life, a_client_that_does_not_read_is_dropped)
{
        struct fixture f;
        ds_conn *good, *deaf;
        uint8_t bytes[16], frame[20] = {0};
        size_t size;
        int fd, r = 0;
        FX_REQUEST(get_device, GET_DEVICE, GetDevice, GET_DEVICE);

        fx_init(&f);
        fx_start(&f);
        good = fx_session(&f);
        deaf = fx_session(&f);
        fd = ds_conn_fd(deaf);
        fcntl(fd, F_SETFL, 0);
        size = detshare__request__pack(&get_device_r, bytes);
        frame[0] = (uint8_t)size;
        memcpy(frame + 4, bytes, size);
        for (int i = 0; i < 200000 && r >= 0; i++)
                r = (int)send(fd, frame, 4 + size, MSG_NOSIGNAL);
        cr_assert_lt(r, 0, "it was dropped");
        cr_assert_eq(fx_ping(good), 0);
        ds_conn_free(good);
        ds_conn_free(deaf);
        fx_baseline(&f);
        fx_stop(&f);
}

/* More clients than file descriptors: new ones are refused, connected ones continue, and the loop does not spin. */
Test(life, out_of_file_descriptors, .timeout = 30)
{
        struct rusage usage;
        struct fixture f;
        ds_conn *good;
        int fds[60];

        fx_init(&f);
        f.files = 40;
        fx_start(&f);
        good = fx_session(&f);
        for (int i = 0; i < 60; i++)
                fds[i] = fx_connect(&f);
        for (uint64_t end = fx_now_ms() + 1000; fx_now_ms() < end; usleep(50000))
                cr_assert_eq(fx_ping(good), 0);
        for (int i = 0; i < 60; i++)
                close(fds[i]);
        ds_conn_free(good);
        good = NULL;
        for (int i = 0; i < 500 && !good; i++, usleep(2000))
                good = fx_hello(&f, 1, DETSHARE__CLASS__BE, NULL, NULL);
        cr_assert_not_null(good, "room again");
        ds_conn_free(good);
        fx_baseline(&f);
        fx_stop(&f);
        getrusage(RUSAGE_CHILDREN, &usage);
        cr_assert_leq(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec, 0, "it must not spin");
}

/* The description of the device equals the worker's report. */
Test(life, the_device_is_described)
{
        const Detshare__StatusReply *status;
        Detshare__Reply *reply;
        struct fixture f;
        ds_conn *conn;
        FX_REQUEST(get_device, GET_DEVICE, GetDevice, GET_DEVICE);

        fx_init(&f);
        fx_start(&f);
        fx_wait_serving(&f, 0);
        reply = fx_get_status(&f);
        status = reply->get_status;
        cr_assert(status->n_sms == 132 && status->n_tpcs == 66 && status->n_gpcs == 8 && status->n_rungs == 15);
        cr_assert_eq(status->device_own_bytes, DS_MIB(600));
        detshare__reply__free_unpacked(reply, NULL);
        conn = fx_session(&f);
        fx_ask(conn, &get_device_r, NULL);
        reply = fx_answer(conn);
        cr_assert(reply && reply->get_device && reply->get_device->n_limits == 3);
        cr_assert_eq(reply->get_device->limits[0], 1024);
        cr_assert_eq(reply->get_device->limits[2], 8 << 20);
        detshare__reply__free_unpacked(reply, NULL);
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

Test(life, too_many_open_requests)
{
        struct fixture f;
        ds_conn *conn;
        FX_REQUEST(sync, SYNC, Sync, SYNC);

        fx_init(&f);
        fx_start(&f);
        conn = fx_session(&f);
        for (int i = 0; i < 64; i++)
                fx_ask(conn, &sync_r, NULL);
        fx_ask(conn, &sync_r, NULL);
        cr_assert_eq(fx_status(conn), DETSHARE__STATUS__QUOTA);
        cr_assert_eq(fx_ping(conn), 0);
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

Test(life, memory_per_uid)
{
        struct fixture f;
        ds_conn *a, *b;
        FX_REQUEST(pinned_alloc, PINNED_ALLOC, PinnedAlloc, PINNED_ALLOC);

        fx_init(&f);
        f.config.memory_per_uid = 3 * 4096;
        fx_start(&f);
        a = fx_session(&f);
        b = fx_session(&f);
        cr_assert_eq(fx_alloc_status(a, 4096), 0);
        cr_assert_eq(fx_alloc_status(a, 4096), 0);
        cr_assert_eq(fx_alloc_status(b, 2 * 4096), DETSHARE__STATUS__QUOTA, "over all sessions of the user");
        cr_assert_eq(fx_alloc_status(b, 4096), 0);
        cr_assert_eq(fx_alloc_status(a, 1), DETSHARE__STATUS__QUOTA);
        cr_assert_eq(fx_alloc_status(a, UINT64_MAX), DETSHARE__STATUS__QUOTA);
        ds_conn_free(b);
        for (int i = 0; i < 500 && fx_alloc_status(a, 4096); i++)
                usleep(2000);
        cr_assert_eq(fx_alloc_status(a, 1), DETSHARE__STATUS__QUOTA, "what b gave back is in use again");
        pinned_alloc.bytes = UINT64_C(1) << 50;
        fx_ask(a, &pinned_alloc_r, NULL);
        cr_assert_eq(fx_status(a), DETSHARE__STATUS__QUOTA, "1 PiB of pinned memory");
        ds_conn_free(a);
        fx_baseline(&f);
        fx_stop(&f);
}

/* --- rights ------------------------------------------------------------------------------------------------------- */

static int set_session_status(ds_conn *conn, uint64_t session, int class_)
{
        FX_REQUEST(set_session, SET_SESSION, SetSession, SET_SESSION);
        set_session.session = session;
        set_session.set_class = 1;
        set_session.class_ = (Detshare__Class)class_;
        fx_ask(conn, &set_session_r, NULL);
        return fx_status(conn);
}

static int kill_status(ds_conn *conn, uint64_t session)
{
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__Kill body = DETSHARE__KILL__INIT;

        body.session = session;
        request.call_case = DETSHARE__REQUEST__CALL_KILL;
        request.kill = &body;
        fx_ask(conn, &request, NULL);
        return fx_status(conn);
}

/* Checks what uid 65534 sees and may do. Returns the line of the first failure; 0: none. */
static int as_nobody(const struct fixture *f)
{
        Detshare__Class granted;
        Detshare__Reply *reply;
        ds_conn *conn;
        FX_REQUEST(set_policy, SET_POLICY, SetPolicy, SET_POLICY);
        FX_REQUEST(list_clients, LIST_CLIENTS, ListClients, LIST_CLIENTS);

#define EXPECT(condition) \
        if (!(condition)) \
        return __LINE__
        EXPECT(setresuid(65534, 65534, 65534) == 0);
        conn = fx_hello(f, 0, DETSHARE__CLASS__LS, NULL, &granted);
        EXPECT(conn && granted == DETSHARE__CLASS__BE);
        EXPECT(set_session_status(conn, 0, DETSHARE__CLASS__LS) == DETSHARE__STATUS__DENIED);
        EXPECT(set_session_status(conn, 0, DETSHARE__CLASS__BE) == 0);
        EXPECT(set_session_status(conn, 1, DETSHARE__CLASS__BE) == DETSHARE__STATUS__DENIED);
        EXPECT(set_session_status(conn, 4711, DETSHARE__CLASS__BE) == DETSHARE__STATUS__DENIED);
        EXPECT(kill_status(conn, 1) == DETSHARE__STATUS__DENIED);
        EXPECT(kill_status(conn, 4711) == DETSHARE__STATUS__DENIED);
        set_policy.name = (char *)"fifo";
        fx_ask(conn, &set_policy_r, NULL);
        EXPECT(fx_status(conn) == DETSHARE__STATUS__DENIED);
        fx_ask(conn, &list_clients_r, NULL);
        reply = fx_answer(conn);
        EXPECT(reply && reply->list_clients->n_clients == 1 && reply->list_clients->clients[0]->uid == 65534);
        detshare__reply__free_unpacked(reply, NULL);
        ds_conn_free(conn);
#undef EXPECT
        return 0;
}

Test(life, rights)
{
        Detshare__Class granted;
        struct fixture f;
        ds_conn *root;
        int status;
        pid_t pid;

        if (geteuid() != 0)
                skip_test("root, to become another user");
        fx_init(&f);
        cr_assert_eq(chmod(f.dir, 0755), 0);
        fx_start(&f);
        root = fx_hello(&f, 0, DETSHARE__CLASS__LS, NULL, &granted);
        cr_assert_eq(granted, DETSHARE__CLASS__LS);
        fflush(NULL);
        pid = fork();
        if (pid == 0)
                _exit(as_nobody(&f) % 256);
        waitpid(pid, &status, 0);
        cr_assert(WIFEXITED(status));
        cr_assert_eq(WEXITSTATUS(status), 0, "line %d (modulo 256)", WEXITSTATUS(status));
        cr_assert_eq(set_session_status(root, 4711, DETSHARE__CLASS__BE), DETSHARE__STATUS__NO_SUCH);
        cr_assert_eq(kill_status(root, 4711), DETSHARE__STATUS__NO_SUCH);
        cr_assert_eq(kill_status(root, 1), 0, "its own");
        cr_assert_eq(fx_ping(root), -1);
        ds_conn_free(root);
        fx_baseline(&f);
        fx_stop(&f);
}
