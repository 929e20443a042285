/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor without memory: every allocation of twelve scenarios fails once
 *
 * For n = 1, 2, 3... the n-th allocation after the scenario's begin fails, libuv's included, until a run needs fewer.
 * After each run the supervisor lives, every request has an answer or a closed connection, the next client is served,
 * all charges are at their baseline, and at its end nothing stays allocated.
 *
 * The daemon's rule: at start it ends with status 1. While it serves, it refuses the client or answers the request with
 * an error. It replaces a worker or helper whose message it cannot store, because incomplete books are worse than a
 * restart.
 */
#include "tests/unit/oom_fixture.h"
#include "tests/unit/rounds.h"

#define N_MAX 400

typedef void scenario(struct fixture *f);

/* --- requests with any answer, but never without one -------------------------------------------------------------- */

/* Opens a session; NULL: it was refused. */
static ds_conn *session(struct fixture *f)
{
        return fx_hello(f, 0, DETSHARE__CLASS__BE, NULL, NULL);
}

static int answered(ds_conn *conn)
{
        uint64_t begin = fx_now_ms();
        int status = fx_status(conn);

        cr_assert_lt(fx_now_ms() - begin, FX_WAIT_MS, "no answer came");
        return status;
}

static int ask_alloc(ds_conn *conn)
{
        FX_REQUEST(mem_alloc, MEM_ALLOC, MemAlloc, MEM_ALLOC);
        mem_alloc.bytes = 4096;
        fx_ask(conn, &mem_alloc_r, NULL);
        return answered(conn);
}

static int ask_load(ds_conn *conn)
{
        ds_cleanup(ds_closep) int fd = memfd_create("image", MFD_CLOEXEC);
        FX_REQUEST(module_load, MODULE_LOAD, ModuleLoad, MODULE_LOAD);

        cr_assert_eq(write(fd, "good", 4), 4);
        module_load.bytes = 4;
        module_load_r.fds = 1;
        fx_ask(conn, &module_load_r, &fd);
        return answered(conn);
}

static int ask_attach(ds_conn *conn)
{
        FX_REQUEST(attach, ATTACH, Attach, ATTACH);
        uint64_t begin = fx_now_ms();
        Detshare__Reply *reply;
        int fds[3], status;

        fx_ask(conn, &attach_r, NULL);
        reply = fx_answer(conn);
        cr_assert_lt(fx_now_ms() - begin, FX_WAIT_MS, "no answer came");
        if (!reply)
                return -1;
        status = reply->status;
        if (!status) {
                cr_assert_eq(ds_conn_take_fds(conn, fds, 3), 0);
                for (int i = 0; i < 3; i++)
                        close(fds[i]);
        }
        detshare__reply__free_unpacked(reply, NULL);
        return status;
}

static int ask_launch(ds_conn *conn)
{
        FX_REQUEST(launch, LAUNCH, Launch, LAUNCH);
        fx_ask(conn, &launch_r, NULL);
        return answered(conn);
}

#define ASK(conn, name, NAME, type, TYPE)           \
        ({                                          \
                FX_REQUEST(name, NAME, type, TYPE); \
                fx_ask(conn, &name##_r, NULL);      \
                answered(conn);                     \
        })

/* --- scenarios ---------------------------------------------------------------------------------------------------- */

static void connect_hello(struct fixture *f)
{
        ds_conn_free(session(f));
}

static void attach(struct fixture *f)
{
        ds_conn *conn = session(f);

        if (conn)
                ask_attach(conn);
        ds_conn_free(conn);
}

static void alloc_and_free(struct fixture *f)
{
        ds_conn *conn = session(f);

        if (conn && ask_alloc(conn) == 0)
                ASK(conn, mem_free, MEM_FREE, MemFree, MEM_FREE);
        ds_conn_free(conn);
}

static void pinned(struct fixture *f)
{
        FX_REQUEST(pinned_alloc, PINNED_ALLOC, PinnedAlloc, PINNED_ALLOC);
        ds_conn *conn = session(f);

        pinned_alloc.bytes = 4096;
        if (conn) {
                fx_ask(conn, &pinned_alloc_r, NULL);
                answered(conn);
        }
        ds_conn_free(conn);
}

static void module_load(struct fixture *f)
{
        ds_conn *conn = session(f);

        if (conn)
                ask_load(conn);
        ds_conn_free(conn);
}

/* Launches and a synchronisation by request on the socket; the synchronisation has no answer until its client
 * disconnects. */
static void launch_and_sync(struct fixture *f)
{
        FX_REQUEST(sync, SYNC, Sync, SYNC);
        ds_conn *conn = session(f);

        if (conn && ask_launch(conn) == 0)
                fx_ask(conn, &sync_r, NULL);
        ds_conn_free(conn);
}

static void lists(struct fixture *f)
{
        ds_conn *conn = session(f);

        if (conn && ASK(conn, get_status, GET_STATUS, GetStatus, GET_STATUS) >= 0 &&
                ASK(conn, list_clients, LIST_CLIENTS, ListClients, LIST_CLIENTS) >= 0)
                ASK(conn, list_policies, LIST_POLICIES, ListPolicies, LIST_POLICIES);
        ds_conn_free(conn);
}

static void profiles(struct fixture *f)
{
        Detshare__Profile profile = DETSHARE__PROFILE__INIT, *pointers[] = {&profile};
        Detshare__ProfilePoint point = DETSHARE__PROFILE_POINT__INIT, *points[] = {&point};
        FX_REQUEST(put_profiles, PUT_PROFILES, PutProfiles, PUT_PROFILES);
        ds_conn *conn = session(f);

        point.n_sms = point.samples = 1;
        point.mean_ns = 1000;
        profile.kernel = (char *)"kernel";
        profile.n_points = 1;
        profile.points = points;
        put_profiles.n_profiles = 1;
        put_profiles.profiles = pointers;
        if (conn)
                fx_ask(conn, &put_profiles_r, NULL);
        if (conn && answered(conn) >= 0 && ASK(conn, list_profiles, LIST_PROFILES, ListProfiles, LIST_PROFILES) >= 0 &&
                ASK(conn, profile_run, PROFILE_RUN, ProfileRun, PROFILE_RUN) >= 0)
                ASK(conn, forget_profiles, FORGET_PROFILES, ForgetProfiles, FORGET_PROFILES);
        ds_conn_free(conn);
}

static void calibration(struct fixture *f)
{
        Detshare__CalibrationCell cell = DETSHARE__CALIBRATION_CELL__INIT, *pointers[] = {&cell};
        FX_REQUEST(put_calibration, PUT_CALIBRATION, PutCalibration, PUT_CALIBRATION);
        FX_REQUEST(profile_run, PROFILE_RUN, ProfileRun, PROFILE_RUN);
        ds_conn *conn = session(f);

        cell.be_sms = 66;
        cell.ls_permille = 1000;
        put_calibration.n_cells = 1;
        put_calibration.cells = pointers;
        profile_run.calibrate = 1;
        if (conn)
                fx_ask(conn, &profile_run_r, NULL);
        if (conn && answered(conn) >= 0) {
                fx_ask(conn, &put_calibration_r, NULL);
                if (answered(conn) >= 0 &&
                        ASK(conn, get_calibration, GET_CALIBRATION, GetCalibration, GET_CALIBRATION) >= 0)
                        ASK(conn, forget_calibration, FORGET_CALIBRATION, ForgetCalibration, FORGET_CALIBRATION);
        }
        ds_conn_free(conn);
}

static void set_policy(struct fixture *f)
{
        char *params[] = {(char *)"a=1", (char *)"b=2"};
        FX_REQUEST(set_policy, SET_POLICY, SetPolicy, SET_POLICY);
        ds_conn *conn = session(f);

        set_policy.name = (char *)"fifo";
        set_policy.n_params = 2;
        set_policy.params = params;
        if (conn) {
                fx_ask(conn, &set_policy_r, NULL);
                answered(conn);
        }
        ds_conn_free(conn);
}

static void printed(struct fixture *f)
{
        char text[5000];
        FX_REQUEST(write, WRITE, Write, WRITE);
        FX_REQUEST(output_read, OUTPUT_READ, OutputRead, OUTPUT_READ);
        ds_conn *conn = session(f);

        memset(text, 'x', sizeof(text));
        write.data.data = (uint8_t *)text;
        write.data.len = sizeof(text);
        output_read.upto = UINT64_MAX;
        if (conn) {
                fx_ask(conn, &write_r, NULL);
                if (answered(conn) == 0) {
                        fx_ask(conn, &output_read_r, NULL);
                        answered(conn);
                }
        }
        ds_conn_free(conn);
}

/* The next worker maps a client's memory again at the client's next request. */
static void replay(struct fixture *f)
{
        Detshare__Reply *reply;
        FX_REQUEST(get_status, GET_STATUS, GetStatus, GET_STATUS);
        ds_conn *conn = session(f);

        if (conn && ask_alloc(conn) == 0 && ask_load(conn) == 0) {
                fx_ask(conn, &get_status_r, NULL);
                reply = fx_answer(conn);
                if (reply && reply->get_status && reply->get_status->worker_pid)
                        kill((pid_t)reply->get_status->worker_pid, SIGKILL);
                if (reply)
                        detshare__reply__free_unpacked(reply, NULL);
                /* retries until the client is served again, or gets an error that says that it is not */
                for (int i = 0; i < 200; i++) {
                        int status = ask_launch(conn);

                        if (status != DETSHARE__STATUS__RESTARTING)
                                break;
                        usleep(10000);
                }
        }
        ds_conn_free(conn);
}

/* Two clients disconnect while requests are open. */
static void leave_under_load(struct fixture *f)
{
        FX_REQUEST(launch, LAUNCH, Launch, LAUNCH);
        FX_REQUEST(mem_alloc, MEM_ALLOC, MemAlloc, MEM_ALLOC);
        FX_REQUEST(sync, SYNC, Sync, SYNC);
        ds_conn *conns[2] = {session(f), session(f)};

        mem_alloc.bytes = 4096;
        for (int i = 0; i < 8; i++) {
                ds_conn *conn = conns[i % 2];

                if (!conn)
                        continue;
                fx_ask(conn, &launch_r, NULL);
                fx_ask(conn, &mem_alloc_r, NULL);
                fx_ask(conn, &sync_r, NULL);
        }
        ds_conn_free(conns[0]);
        ds_conn_free(conns[1]);
}

/* --- the sweep ---------------------------------------------------------------------------------------------------- */

static uint32_t serving_pid(struct fixture *f)
{
        cr_assert(!fx_ended(f), "the supervisor has ended");
        return fx_wait_serving(f, 0);
}

static void served(struct fixture *f, int64_t n)
{
        ds_conn *conn;

        for (int i = 0; i < 500; i++) {
                int status;

                conn = session(f);
                cr_assert_not_null(conn, "after %d the next client is refused", (int)n);
                status = ask_attach(conn);
                if (status == 0)
                        status = ask_alloc(conn);
                if (status == 0)
                        status = ask_load(conn);
                ds_conn_free(conn);
                if (status == 0)
                        return;
                /* the pid changes while the worker is being replaced */
                cr_assert(
                        status == DETSHARE__STATUS__RESTARTING || status == 719, "after %d: status %d", (int)n, status);
                usleep(10000);
        }
        cr_assert_fail("after %d the next client is not served", (int)n);
}

/* Prints the number of allocations. A short run tries one of three, other ones each time. */
static void sweep(const char *name, scenario *fn)
{
        const int64_t step = rounds_step(3);
        struct fixture f;
        uint32_t pid;
        int64_t n;
        int restarts = 0;

        fa_share();
        oom_start(&f);
        pid = fx_wait_serving(&f, 0);
        for (n = 1 + getpid() % step; n < N_MAX; n += step) {
                uint32_t now;

                fa_arm(n);
                fn(&f);
                /* lets the loop finish; the count is read when nothing is pending */
                usleep(2000);
                if (!fa_disarm())
                        break;
                now = serving_pid(&f);
                served(&f, n);
                fx_baseline(&f);
                if (now == pid)
                        continue;
                /* a dead worker delays its successor; a new supervisor has no such delay */
                restarts++;
                fx_stop(&f);
                oom_start(&f);
                pid = fx_wait_serving(&f, 0);
        }
        served(&f, n);
        fx_baseline(&f);
        fx_stop(&f);
        fprintf(stderr, "%s: %d allocations, one of %d failed once; %d workers replaced\n", name, (int)n - 1, (int)step,
                restarts);
        cr_assert(n > 1 && n < N_MAX, "%s: %d", name, (int)n);
}

#define SWEEP(name)                     \
        Test(oom, name, .timeout = 240) \
        {                               \
                sweep(#name, name);     \
        }

SWEEP(connect_hello)
SWEEP(attach)
SWEEP(alloc_and_free)
SWEEP(pinned)
SWEEP(module_load)
SWEEP(launch_and_sync)
SWEEP(lists)
SWEEP(profiles)
SWEEP(calibration)
SWEEP(set_policy)
SWEEP(printed)
SWEEP(replay)
SWEEP(leave_under_load)

/* Enough connections that libuv's table of polled descriptors grows; each connects again after every allocation
 * failed. */
Test(oom, crowd, .timeout = 60)
{
        ds_conn *conns[40];
        struct fixture f;
        int refused = 0;

        fa_share();
        oom_start(&f);
        fx_wait_serving(&f, 0);
        for (size_t i = 0; i < DS_ARRAY_SIZE(conns); i++) {
                int fired = 1;

                for (int64_t n = 1; fired && n < 50; n++) {
                        fa_arm(n);
                        conns[i] = fx_hello(&f, 1, DETSHARE__CLASS__BE, NULL, NULL);
                        fired = fa_disarm();
                        refused += !conns[i];
                        if (!fired)
                                break;
                        ds_conn_free(conns[i]);
                        usleep(3000); /* so that the next connection gets the same file descriptor */
                }
                cr_assert(!fired && conns[i]);
        }
        cr_assert_gt(refused, (int)DS_ARRAY_SIZE(conns));
        for (size_t i = 0; i < DS_ARRAY_SIZE(conns); i++)
                ds_conn_free(conns[i]);
        fx_baseline(&f);
        fx_stop(&f);
}

/* A daemon that starts without memory ends with status 1, or serves; it retries where it can. */
Test(oom, start, .timeout = 240)
{
        int64_t n;
        int failed = 0;

        fa_share();
        for (n = 1; n < N_MAX; n++) {
                struct fixture f;
                int status, fired;

                fa_arm(n);
                oom_start(&f);
                while (access(f.socket, F_OK) && !fx_ended(&f))
                        usleep(500);
                if (!fx_ended(&f)) {
                        ds_conn_free(fx_hello(&f, 1, DETSHARE__CLASS__BE, NULL, NULL));
                        kill(f.pid, SIGTERM);
                }
                status = fx_wait(&f, FX_WAIT_MS);
                fired = fa_disarm();
                cr_assert(status == 0 || status == 1, "allocation %d: status %d", (int)n, status);
                cr_assert(fired || status == 0);
                failed += status == 1;
                fx_clean(&f);
                if (!fired)
                        break;
        }
        fprintf(stderr, "start and stop: %d allocations, %d of which it cannot start without\n", (int)n - 1, failed);
        cr_assert(n > 1 && n < N_MAX && failed > 1);
}

/* Stopping needs no memory: it ends in order, whichever allocation fails. */
Test(oom, stop, .timeout = 60)
{
        struct fixture f;
        ds_conn *conn;

        fa_share();
        oom_start(&f);
        conn = fx_session(&f);
        cr_assert_eq(ask_alloc(conn), 0);
        fa_arm(1);
        fx_stop(&f);
        fprintf(stderr, "stop: %s\n", fa_disarm() ? "an allocation failed" : "no allocation");
        ds_conn_free(conn);
}
