/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client core's session and requests, against a daemon inside the test
 *
 * Each Criterion test is a process, so each has the one session that a process can have.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/control.h"
#include "core/core.h"
#include "detshare/detshare.h"
#include "tests/support/fake_daemon.h"

#define SOON_MS 3000 /* bound for "does not hang"; the promise is 100 ms, which tests/e2e/daemon_kills.c measures */

static struct fake fake;

static dsc_session *get(void)
{
        int error = -1;
        dsc_session *s = dsc_get(&error);
        cr_assert(s, "dsc_get: %d %s", error, dsc_message());
        return s;
}

Test(core_session, hello_says_what_the_environment_says)
{
        setenv("DETSHARE_CLASS", "ls", 1);
        setenv("DETSHARE_SLO_MS", "2.5", 1);
        setenv("DETSHARE_SLO", "1.5x", 1);
        setenv("DETSHARE_TTFT", "200ms", 1);
        setenv("DETSHARE_TTFT_MS", "300", 1);
        setenv("DETSHARE_TPOT", "40ms", 1);
        setenv("DETSHARE_TPOT_MS", "30", 1);
        setenv("DETSHARE_MEM_LIMIT", "1G", 1);
        setenv("DETSHARE_SM_PERCENT", "40", 1);
        setenv("DETSHARE_GPU_REQUEST", ".25", 1);
        setenv("DETSHARE_GPU_LIMIT", "0.3339", 1);
        setenv("DETSHARE_NAME", "alexnet", 1);
        fake_start(&fake);
        const struct dsc_device *device = dsc_device(get());
        cr_assert_str_eq(fake.hello_name, "alexnet");
        cr_assert_eq(fake.hello_class, DETSHARE__CLASS__LS);
        cr_assert_eq(fake.hello_slo.ns[DS_SLO_LATENCY], 2500000);
        cr_assert_eq(fake.hello_slo.permille[DS_SLO_LATENCY], 1500);
        cr_assert_eq(fake.hello_slo.ns[DS_SLO_TTFT], 200000000);
        cr_assert_eq(fake.hello_slo.ns[DS_SLO_TPOT], 30000000);
        cr_assert_eq(fake.hello_limit, 1ull << 30);
        cr_assert_eq(fake.hello_percent, 40);
        cr_assert_eq(fake.hello_request, 250);
        cr_assert_eq(fake.hello_share_limit, 333);
        cr_assert_str_eq(device->name, "Fake");
        cr_assert_eq(device->attributes[1], 1024);
        cr_assert_eq(device->n_sms, 4);
        cr_assert_eq(get(), get());
        cr_assert_eq(fake.connections, 1);
}

/* The client refuses an invalid limit in the environment: to ignore it silently would be worse than a program that
 * does not start. */
Test(core_session, nonsense_in_the_environment_is_refused)
{
        static const char *const nonsense[][2] = {{"DETSHARE_CLASS", "royal"}, {"DETSHARE_SLO_MS", "soon"},
                {"DETSHARE_SLO_MS", "1e3"}, {"DETSHARE_SLO", "1.5"}, {"DETSHARE_SLO", "0.5x"},
                {"DETSHARE_TTFT", "fast"}, {"DETSHARE_TTFT_MS", "5ms"}, {"DETSHARE_TPOT", "101x"},
                {"DETSHARE_MEM_LIMIT", "-1"}, {"DETSHARE_MEM_LIMIT", "1.5G"}, {"DETSHARE_MEM_LIMIT", "5x"},
                {"DETSHARE_MEM_LIMIT", "5GB"}, {"DETSHARE_MEM_LIMIT", "99999999999T"}, {"DETSHARE_SM_PERCENT", "half"},
                {"DETSHARE_SM_PERCENT", "50%"}, {"DETSHARE_SM_PERCENT", "-5"}, {"DETSHARE_GPU_REQUEST", "1.001"},
                {"DETSHARE_GPU_REQUEST", "50"}, {"DETSHARE_GPU_REQUEST", "0.0001"}, {"DETSHARE_GPU_REQUEST", "50%"},
                {"DETSHARE_GPU_LIMIT", "-0.5"}, {"DETSHARE_GPU_LIMIT", "0.5.5"}, {"DETSHARE_GPU_LIMIT", "1e-1"},
                {"DETSHARE_GPU_LIMIT", "99999999999999999999"}, {"DETSHARE_PHASE", "reading"},
                {"DETSHARE_TRANSPORT", "pigeon"}};
        fake_start(&fake);
        for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
                char words[64];
                int error = 0;
                snprintf(words, sizeof(words), "%s=%s", nonsense[i][0], nonsense[i][1]);
                setenv(nonsense[i][0], nonsense[i][1], 1);
                cr_assert_null(dsc_get(&error), "%s", words);
                cr_assert_eq(error, 1);
                cr_assert(strstr(dsc_message(), words), "%s: %s", words, dsc_message());
                unsetenv(nonsense[i][0]);
        }
        cr_assert_eq(fake.connections, 0);
        get();
}

Test(core_session, what_is_empty_or_zero_counts_as_not_given)
{
        setenv("DETSHARE_CLASS", "", 1);
        setenv("DETSHARE_SLO_MS", "0", 1);
        setenv("DETSHARE_SLO", "", 1);
        setenv("DETSHARE_TTFT", "0", 1);
        setenv("DETSHARE_MEM_LIMIT", "", 1);
        setenv("DETSHARE_SM_PERCENT", "00", 1);
        setenv("DETSHARE_GPU_REQUEST", "0", 1);
        setenv("DETSHARE_GPU_LIMIT", "", 1);
        setenv("DETSHARE_PHASE", "", 1);
        setenv("DETSHARE_NAME", "", 1);
        fake_start(&fake);
        get();
        cr_assert_eq(fake.hello_request, 0);
        cr_assert_eq(fake.hello_share_limit, 0);
        cr_assert_eq(fake.hello_class, DETSHARE__CLASS__BE);
        cr_assert(!ds_slo_is_stated(&fake.hello_slo));
        cr_assert_eq(fake.hello_limit, 0);
        cr_assert_eq(fake.hello_percent, 0);
        cr_assert_neq(fake.hello_name[0], '\0');
}

Test(core_session, the_whole_is_a_share)
{
        setenv("DETSHARE_GPU_REQUEST", "1", 1);
        setenv("DETSHARE_GPU_LIMIT", "1.000", 1);
        fake_start(&fake);
        get();
        cr_assert_eq(fake.hello_request, 1000);
        cr_assert_eq(fake.hello_share_limit, 1000);
}

Test(core_session, a_limit_may_have_a_suffix)
{
        setenv("DETSHARE_MEM_LIMIT", "5T", 1);
        fake_start(&fake);
        get();
        cr_assert_eq(fake.hello_limit, 5ull << 40);
}

Test(core_session, a_share_that_cannot_be_is_left_for_the_daemon_to_refuse)
{
        setenv("DETSHARE_SM_PERCENT", "99999999999", 1);
        fake_start(&fake);
        get();
        cr_assert_eq(fake.hello_percent, UINT32_MAX);
}

Test(core_session, a_window_in_use_is_refused)
{
        const uint64_t taken[2] = {0x180000000000, 0x190000000000};
        for (int i = 0; i < 2; i++) {
                void *at = (void *)(uintptr_t)(taken[i] + (1u << 20));
                cr_assert_eq(mmap(at, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), at);
                fake.windows[i] = taken[i];
        }
        fake.n_windows = 2;
        fake_start(&fake);
        get();
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_WINDOW_REFUSED], 2);
}

Test(core_session, no_window_at_all_is_an_error)
{
        int error = 0;
        for (int i = 0; i < 16; i++)
                fake.windows[i] = 0x190000000001; /* an address at which nothing can be mapped */
        fake.n_windows = 16;
        fake_start(&fake);
        cr_assert_null(dsc_get(&error));
        cr_assert_eq(error, 2);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_WINDOW_REFUSED], 8);
        fake.n_windows = 0;
        get(); /* the client retries with another window and succeeds */
}

Test(core_session, an_absent_daemon_is_one_line_and_no_device)
{
        char words[1024];
        int error = 0, ends[2], saved = dup(STDERR_FILENO);
        setenv("DETSHARE_SOCKET", "/nonexistent/sock", 1);
        cr_assert_eq(pipe(ends), 0);
        dup2(ends[1], STDERR_FILENO);
        for (int i = 0; i < 3; i++)
                cr_assert_null(dsc_get(&error));
        dup2(saved, STDERR_FILENO);
        close(ends[1]);
        const ssize_t n = read(ends[0], words, sizeof(words) - 1);
        cr_assert_gt(n, 0);
        words[n] = '\0';
        cr_assert_str_eq(words,
                "detshare: cannot reach the daemon at /nonexistent/sock: No such file or directory (systemctl start "
                "detshared; DETSHARE_SOCKET names another socket; DETSHARE_FALLBACK=native does without)\n");
        cr_assert_eq(error, 100);
        cr_assert_eq(detshare_connect(NULL), DETSHARE_E_UNREACHABLE);
        cr_assert_eq(detshare_connected(), 0);
        cr_assert(strstr(detshare_last_error(), "/nonexistent/sock"));
}

Test(core_session, a_path_too_long_is_refused)
{
        char path[300];
        int error = 0;
        memset(path, 'x', sizeof(path));
        path[0] = '/';
        path[299] = '\0';
        setenv("DETSHARE_SOCKET", path, 1);
        cr_assert_null(dsc_get(&error));
        cr_assert_eq(error, 100);
        cr_assert(strstr(dsc_message(), "longer"));
}

static enum fake_verdict close_on_hello(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        return request->call_case == DETSHARE__REQUEST__CALL_HELLO ? FAKE_CLOSE : FAKE_DEFAULT;
}

Test(core_session, a_daemon_that_hangs_up_is_unreachable)
{
        int error = 0;
        fake.hook = close_on_hello;
        fake_start(&fake);
        cr_assert_null(dsc_get(&error));
        cr_assert_eq(error, 100);
}

/* --- fork --- */

static int n_sockets(void)
{
        int n = 0;
        for (int fd = 0; fd < 256; fd++) {
                char link[64], to[64];
                snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
                ssize_t size = readlink(link, to, sizeof(to) - 1);
                if (size > 0) {
                        to[size] = '\0';
                        n += !strncmp(to, "socket:", 7);
                }
        }
        return n;
}

#define IN_CHILD(condition)                     \
        do {                                    \
                if (!(condition))               \
                        _exit(__LINE__ & 0x7f); \
        } while (0)

static void child_of_a_session(dsc_session *s, int sockets)
{
        uint64_t a = 0, b = 0;
        int error = 0;
        void *p;
        char bytes[16] = {0};
        struct dsc_launch launch = {.kernel = 1};
        IN_CHILD(n_sockets() == sockets - 1);
        IN_CHILD(!dsc_get(&error) && error == 3);
        IN_CHILD(dsc_mem_alloc(s, 64, &a) == 3 && dsc_mem_free(s, 64) == 3 && dsc_mem_info(s, &a, &b) == 3);
        IN_CHILD(dsc_host_alloc(s, 64, &p) == 3 && dsc_host_free(s, &a) == 3 && dsc_lookup(s, 64, &a, &b) == 0);
        IN_CHILD(dsc_module_load(s, bytes, 16, NULL, 0, &a) == 3 && dsc_module_unload(s, 1) == 3);
        IN_CHILD(dsc_launch(s, 0, &launch) == 3 && dsc_wait(s, 0, 1) == 3 && dsc_wait_all(s) == 3);
        IN_CHILD(dsc_query(s, 0, 1) == 3 && dsc_sticky_error(s) == 3 && dsc_reset(s) == 3);
        IN_CHILD(dsc_write(s, 0, FAKE_WINDOW, 0, bytes, 0, 16, 1) == 3 &&
                 dsc_read(s, 0, bytes, 0, FAKE_WINDOW, 0, 16, 1) == 3);
        IN_CHILD(dsc_event_create(s, &a) == 3 && dsc_event_record(s, 0, 0, &a) == 3);
        IN_CHILD(detshare_connected() == 0 && detshare_now(&a) == DETSHARE_E_LOST);
        _exit(0);
}

Test(core_session, a_forked_child_gets_not_initialized_and_the_parent_goes_on)
{
        uint64_t address;
        int status;
        fake_start(&fake);
        dsc_session *s = get();
        struct dsc_launch launch = {.kernel = 1};
        cr_assert_eq(dsc_launch(s, 0, &launch), 0);
        const int sockets = n_sockets();
        pid_t pid = fork();
        if (pid == 0)
                child_of_a_session(s, sockets);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFEXITED(status));
        cr_assert_eq(WEXITSTATUS(status), 0, "the child failed in the line that is %d modulo 128", WEXITSTATUS(status));
        cr_assert_eq(dsc_wait(s, 0, 1), 0);
        cr_assert_eq(dsc_mem_alloc(s, 64, &address), 0);
}

Test(core_session, a_child_of_a_process_without_session_may_have_one)
{
        int status;
        fake_start(&fake);
        pid_t pid = fork();
        if (pid == 0) {
                int error = 0;
                _exit(dsc_get(&error) ? 0 : error);
        }
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFEXITED(status));
        cr_assert_eq(WEXITSTATUS(status), 0);
}

/* --- requests --- */

Test(core_session, a_restarting_worker_is_waited_for)
{
        uint64_t address;
        fake_start(&fake);
        dsc_session *s = get();
        fake.restarting = 3;
        cr_assert_eq(dsc_mem_alloc(s, 64, &address), 0);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_MEM_ALLOC], 4);
}

static enum fake_verdict refuse(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        if (request->call_case != DETSHARE__REQUEST__CALL_MEM_ALLOC)
                return FAKE_DEFAULT;
        reply->status = *(int *)f->user;
        reply->message = (char *)"the limit of this session is 5 bytes";
        return FAKE_ANSWERED;
}

Test(core_session, statuses_and_their_words)
{
        const int map[][2] = {{DETSHARE__STATUS__QUOTA, 2}, {DETSHARE__STATUS__DENIED, 800},
                {DETSHARE__STATUS__BAD_REQUEST, 1}, {DETSHARE__STATUS__BAD_PARAMETER, 1},
                {DETSHARE__STATUS__INTERNAL, 999}, {DETSHARE__STATUS__UNSUPPORTED, 801},
                {DETSHARE__STATUS__SHUTTING_DOWN, 999}, {719, 719}, {2, 2}, {-5, 999}};
        int status = 0;
        uint64_t address = 99;
        fake.hook = refuse;
        fake.user = &status;
        fake_start(&fake);
        dsc_session *s = get();
        for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++) {
                status = map[i][0];
                cr_assert_eq(dsc_cuda(dsc_mem_alloc(s, 64, &address)), map[i][1], "status %d", status);
        }
        cr_assert_eq(address, 99, "an out-parameter is not touched on failure");
        cr_assert_str_eq(dsc_message(), "the limit of this session is 5 bytes");
        cr_assert_eq(dsc_cuda(DETSHARE__STATUS__RESTARTING), 999);
}

Test(core_session, replies_may_come_in_single_bytes)
{
        uint64_t a, b, base, size;
        void *p = NULL;
        struct dsc_launch launch = {.kernel = 1};
        fake.dribble = true;
        fake_start(&fake);
        dsc_session *s = get();
        cr_assert_eq(dsc_mem_alloc(s, 64, &a), 0);
        cr_assert_eq(dsc_mem_alloc(s, 64, &b), 0);
        cr_assert_eq(dsc_host_alloc(s, 10000, &p), 0);
        memset(p, 7, 10000);
        cr_assert_eq(dsc_lookup(s, (uintptr_t)p + 9999, &base, &size), 2);
        cr_assert_eq(dsc_launch(s, 0, &launch), 0);
        cr_assert_eq(dsc_wait_all(s), 0);
}

static enum fake_verdict garbage(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        if (request->call_case != DETSHARE__REQUEST__CALL_MEM_ALLOC)
                return FAKE_DEFAULT;
        const uint8_t bytes[] = {3, 0, 0, 0, 0xff, 0xff, 0xff};
        cr_assert_eq(write(f->client_fd, bytes, sizeof(bytes)), (ssize_t)sizeof(bytes));
        return FAKE_SILENT;
}

Test(core_session, a_frame_without_sense_ends_the_session)
{
        uint64_t address, total;
        fake.hook = garbage;
        fake_start(&fake);
        dsc_session *s = get();
        cr_assert_eq(dsc_mem_alloc(s, 64, &address), 999);
        cr_assert_eq(dsc_mem_info(s, &address, &total), 999);
        cr_assert_eq(detshare_connected(), 0);
}

Test(core_session, an_answer_of_another_kind_is_an_internal_error)
{
        uint64_t a, b;
        fake_start(&fake);
        dsc_session *s = get();
        /* the fake daemon answers with a result of another kind */
        cr_assert_eq(dsc_mem_info(s, &a, &b), DETSHARE__STATUS__INTERNAL);
}

Test(core_session, a_request_beyond_a_frame_is_refused_here)
{
        struct dsc_kernel kernel;
        char *name = malloc(100000);
        memset(name, 'k', 99999);
        name[99999] = '\0';
        fake_start(&fake);
        dsc_session *s = get();
        cr_assert_eq(dsc_kernel_get(s, 1, name, &kernel), 1);
        uint64_t address;
        cr_assert_eq(dsc_mem_alloc(s, 64, &address), 0);
        free(name);
}

/* --- threads --- */

static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t held[128];
static _Atomic uint32_t n_held;
static _Atomic uint32_t outstanding, most_outstanding;

static enum fake_verdict hold_syncs(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        if (request->call_case != DETSHARE__REQUEST__CALL_SYNC)
                return FAKE_DEFAULT;
        pthread_mutex_lock(&held_lock);
        held[n_held++] = request->id;
        if (++outstanding > most_outstanding)
                most_outstanding = (uint32_t)outstanding;
        pthread_mutex_unlock(&held_lock);
        return FAKE_SILENT;
}

static void release_held(void)
{
        uint64_t ids[128];
        pthread_mutex_lock(&held_lock);
        const uint32_t n = n_held;
        memcpy(ids, held, n * sizeof(ids[0]));
        n_held = 0;
        pthread_mutex_unlock(&held_lock);
        for (uint32_t i = 0; i < n; i++) {
                Detshare__Reply reply = DETSHARE__REPLY__INIT;
                reply.id = ids[i];
                outstanding--;
                fake_reply(&fake, &reply, NULL, 0);
        }
}

static _Atomic uint32_t n_ended;

static void *sync_main(void *session)
{
        const int r = dsc_wait_all(session);
        n_ended++;
        return (void *)(intptr_t)r;
}

static void nap(void)
{
        usleep(1000);
}

Test(core_session, a_long_wait_does_not_hold_up_other_threads, .timeout = 20)
{
        pthread_t thread;
        uint64_t address;
        void *r;
        setenv("DETSHARE_TRANSPORT", "rpc", 1);
        fake.hook = hold_syncs;
        fake_start(&fake);
        dsc_session *s = get();
        pthread_create(&thread, NULL, sync_main, s);
        while (n_held < 1)
                nap();
        for (int i = 0; i < 100; i++)
                cr_assert_eq(dsc_mem_alloc(s, 64, &address), 0);
        cr_assert_eq(n_ended, 0);
        release_held();
        pthread_join(thread, &r);
        cr_assert_null(r);
}

/* The daemon accepts 64 open requests of a session. */
Test(core_session, a_hundred_waiting_threads_leave_room_for_others, .timeout = 30)
{
        pthread_t threads[100];
        uint64_t address;
        setenv("DETSHARE_TRANSPORT", "rpc", 1);
        fake.hook = hold_syncs;
        fake_start(&fake);
        dsc_session *s = get();
        for (int i = 0; i < 100; i++)
                pthread_create(&threads[i], NULL, sync_main, s);
        while (n_held < 48)
                nap();
        for (int i = 0; i < 20; i++)
                cr_assert_eq(dsc_mem_alloc(s, 64, &address), 0);
        while (n_ended < 100) {
                release_held();
                nap();
        }
        for (int i = 0; i < 100; i++)
                pthread_join(threads[i], NULL);
        cr_assert_eq(most_outstanding, 48);
}

static void *alloc_main(void *session)
{
        for (int i = 0; i < 500; i++) {
                uint64_t address, base, size;
                cr_assert_eq(dsc_mem_alloc(session, 512, &address), 0);
                cr_assert_eq(dsc_lookup(session, address + 511, &base, &size), 1);
                cr_assert_eq(base, address);
                cr_assert_eq(size, 512);
                cr_assert_eq(dsc_lookup(session, address - 1, &base, &size) == 1 && base == address, 0);
                if (i % 3 == 0) {
                        cr_assert_eq(dsc_mem_free(session, address), 0);
                        cr_assert_eq(dsc_lookup(session, address, &base, &size), 0);
                }
        }
        return NULL;
}

Test(core_session, sixteen_threads_get_their_own_answers, .timeout = 60)
{
        pthread_t threads[16];
        fake_start(&fake);
        dsc_session *s = get();
        for (int i = 0; i < 16; i++)
                pthread_create(&threads[i], NULL, alloc_main, s);
        for (int i = 0; i < 16; i++)
                pthread_join(threads[i], NULL);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_MEM_ALLOC], 16 * 500);
}

/* --- the daemon dies --- */

Test(core_session, a_killed_daemon_fails_open_requests_at_once, .timeout = 20)
{
        pthread_t threads[8];
        uint64_t address;
        void *r;
        setenv("DETSHARE_TRANSPORT", "rpc", 1);
        fake.hook = hold_syncs;
        fake_start(&fake);
        dsc_session *s = get();
        for (int i = 0; i < 8; i++)
                pthread_create(&threads[i], NULL, sync_main, s);
        while (n_held < 8)
                nap();
        const uint64_t before = fake_now_ms();
        fake_stop(&fake);
        for (int i = 0; i < 8; i++) {
                pthread_join(threads[i], &r);
                cr_assert_eq((intptr_t)r, 999);
        }
        cr_assert_lt(fake_now_ms() - before, SOON_MS);
        cr_assert_eq(dsc_mem_alloc(s, 64, &address), 999);
        cr_assert_eq(dsc_cuda(dsc_wait_all(s)), 999);
        cr_assert_eq(detshare_set_slo_ns(1), DETSHARE_E_LOST);
        cr_assert_eq(detshare_connected(), 0);
}

Test(core_session, a_killed_daemon_wakes_sleepers_of_the_page, .timeout = 20)
{
        pthread_t thread;
        struct dsc_launch launch = {.kernel = 1};
        void *r;
        fake.paused = true;
        fake_start(&fake);
        dsc_session *s = get();
        cr_assert_eq(dsc_launch(s, 0, &launch), 0);
        cr_assert_eq(dsc_query(s, 0, 1), 600);
        pthread_create(&thread, NULL, sync_main, s);
        while (atomic_load(&fake.ring->waiters) == 0)
                nap();
        const uint64_t before = fake_now_ms();
        fake_stop(&fake);
        pthread_join(thread, &r);
        cr_assert_eq((intptr_t)r, 999);
        cr_assert_lt(fake_now_ms() - before, SOON_MS);
}

Test(core_session, polling_and_launching_notice_a_killed_daemon, .timeout = 20)
{
        struct dsc_launch launch = {.kernel = 1};
        int r;
        fake.paused = true;
        fake_start(&fake);
        dsc_session *s = get();
        cr_assert_eq(dsc_launch(s, 0, &launch), 0);
        fake_stop(&fake);
        const uint64_t before = fake_now_ms();
        while ((r = dsc_query(s, 0, 1)) == 600)
                ;
        cr_assert_eq(r, 999);
        cr_assert_lt(fake_now_ms() - before, SOON_MS);
        cr_assert_eq(dsc_launch(s, 0, &launch), 999);
}

Test(core_session, a_full_ring_notices_a_killed_daemon, .timeout = 20)
{
        struct dsc_launch launch = {.kernel = 1};
        int r;
        fake.paused = true;
        fake_start(&fake);
        dsc_session *s = get();
        cr_assert_eq(dsc_launch(s, 0, &launch), 0);
        fake_stop(&fake);
        const uint64_t before = fake_now_ms();
        while ((r = dsc_launch(s, 0, &launch)) == 0)
                ;
        cr_assert_eq(r, 999);
        cr_assert_lt(fake_now_ms() - before, SOON_MS);
}

/* --- the public interface --------- */

static enum fake_verdict stats_hook(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        static Detshare__StatsReply stats = DETSHARE__STATS_REPLY__INIT;
        if (request->call_case == DETSHARE__REQUEST__CALL_SET_SESSION && request->set_session->set_class) {
                reply->status = DETSHARE__STATUS__DENIED;
                reply->message = (char *)"uid 1000 may not be ls";
                return FAKE_ANSWERED;
        }
        if (request->call_case != DETSHARE__REQUEST__CALL_GET_STATS)
                return FAKE_DEFAULT;
        stats.launches = 5;
        stats.in_flight = 3;
        reply->result_case = DETSHARE__REPLY__RESULT_GET_STATS;
        reply->get_stats = &stats;
        return FAKE_ANSWERED;
}

Test(core_session, the_public_functions)
{
        struct detshare_stats stats = {.size = sizeof(stats)};
        struct {
                struct detshare_stats stats;
                uint64_t not_known_yet;
        } old, newer = {.stats.size = sizeof(newer), .not_known_yet = 7};
        memset(&old, 0x55, sizeof(old));
        old.stats.size = offsetof(struct detshare_stats, completed);
        char long_name[80] = {0};
        memset(long_name, 'n', 79);
        fake.hook = stats_hook;
        fake_start(&fake);
        cr_assert_eq(detshare_connect(fake.path), 0);
        cr_assert_eq(detshare_connect(NULL), 0);
        cr_assert_eq(detshare_connect("/elsewhere"), DETSHARE_E_INVALID);
        cr_assert_eq(detshare_connected(), 1);
        cr_assert_eq(detshare_get_stats(&stats), 0);
        cr_assert_eq(stats.launches, 5);
        cr_assert_eq(stats.in_flight, 3);
        cr_assert_eq(detshare_get_stats(&old.stats), 0);
        cr_assert_eq(old.stats.launches, 5);
        cr_assert_eq(old.stats.in_flight, 0x55555555, "a shorter structure is not written beyond its end");
        cr_assert_eq(old.stats.size, offsetof(struct detshare_stats, completed));
        cr_assert_eq(detshare_get_stats(&newer.stats), 0);
        cr_assert_eq(newer.stats.size, sizeof(stats), "what the library does not know it does not claim");
        cr_assert_eq(newer.not_known_yet, 7);
        stats.size = 4;
        cr_assert_eq(detshare_get_stats(&stats), DETSHARE_E_INVALID);
        cr_assert_eq(detshare_get_stats(NULL), DETSHARE_E_INVALID);
        cr_assert_eq(detshare_set_class(DETSHARE_LS), DETSHARE_E_DENIED);
        cr_assert_str_eq(detshare_last_error(), "uid 1000 may not be ls");
        cr_assert_eq(detshare_set_class((enum detshare_client_class)7), DETSHARE_E_INVALID);
        cr_assert_eq(detshare_set_slo_ns(5000000), 0);
        cr_assert_eq(detshare_set_objective(DETSHARE_LATENCY, 5000000, 1500), 0);
        cr_assert_eq(detshare_set_objective(DETSHARE_TPOT, 0, 100000), 0);
        cr_assert_eq(detshare_set_objective(DETSHARE_TTFT, 0, 0), 0);
        cr_assert_eq(detshare_set_objective(DETSHARE_TTFT, 0, 999), DETSHARE_E_INVALID);
        cr_assert_eq(detshare_set_objective(DETSHARE_TTFT, 0, 100001), DETSHARE_E_INVALID);
        cr_assert_eq(detshare_set_objective((enum detshare_objective)3, 1, 0), DETSHARE_E_INVALID);
        cr_assert_eq(detshare_arrival(1), 0);
        cr_assert_eq(detshare_set_name("me"), 0);
        cr_assert_eq(detshare_set_name(long_name), DETSHARE_E_INVALID);
        cr_assert_eq(detshare_set_memory_limit(1), 0);
        cr_assert_eq(detshare_now(NULL), DETSHARE_E_INVALID);
        cr_assert_str_eq(detshare_version(), DETSHARE_VERSION);
        for (int e = 0; e >= -10; e--)
                cr_assert_str_neq(detshare_strerror(e), "unknown error");
        cr_assert_str_eq(detshare_strerror(-11), "unknown error");
}

Test(core_session, a_control_session_has_no_window)
{
        dsc_session *s = NULL;
        struct dsc_status status;
        fake_start(&fake);
        cr_assert_eq(dsc_control_open(NULL, 1, &s), 0);
        cr_assert_eq(dsc_control_is_ls(s), 1);
        cr_assert_str_eq(dsc_control_version(s), "fake");
        cr_assert_eq(dsc_control_status(s, &status), DETSHARE__STATUS__INTERNAL);
        cr_assert_eq(dsc_control_kill(s, 5), 0);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_GET_DEVICE], 0);
        /* a false claim of the daemon that it owns an address must not unmap the program's own memory there */
        void *ours = mmap((void *)(uintptr_t)FAKE_WINDOW, 4096, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        cr_assert_eq(ours, (void *)(uintptr_t)FAKE_WINDOW);
        cr_assert_null(dsc_control_close(s));
        cr_assert_eq(msync(ours, 4096, MS_ASYNC), 0);
        cr_assert_eq(dsc_control_open("/nonexistent", 0, &s), DSC_CONTROL_UNREACHABLE);
}

/* --- phases --- */

static uint32_t hinted;

static enum fake_verdict note_phase(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        if (request->call_case == DETSHARE__REQUEST__CALL_HINT_PHASE) {
                hinted = request->hint_phase->phase;
                cr_assert_eq(request->ring_tail, f->ring ? atomic_load(&f->ring->tail) : 0);
        }
        return FAKE_DEFAULT;
}

static uint32_t hints(void)
{
        return fake.requests[DETSHARE__REQUEST__CALL_HINT_PHASE];
}

static void work(dsc_session *s)
{
        cr_assert_eq(dsc_launch(s, 0, &(struct dsc_launch){.kernel = 7, .grid = {1, 1, 1}, .block = {1, 1, 1}}), 0);
        cr_assert_eq(dsc_wait(s, 0, dsc_stream_tail(s, 0)), 0);
}

Test(core_session, a_phase_is_told_when_it_changes, .timeout = 20)
{
        fake_start(&fake);
        fake.hook = note_phase;
        dsc_session *s = get();
        cr_assert_eq(detshare_hint_phase((enum detshare_client_phase)3), DETSHARE_E_INVALID);
        cr_assert_eq(detshare_hint_phase(DETSHARE_NO_PHASE), 0);
        cr_assert_eq(detshare_hint_phase(DETSHARE_PREFILL), 0);
        cr_assert_eq(hints(), 0, "nothing was submitted yet");
        work(s);
        cr_assert(hints() == 1 && hinted == 1, "%u hints, %u", hints(), hinted);
        for (int i = 0; i < 3; i++)
                cr_assert_eq(detshare_hint_phase(DETSHARE_DECODE), 0);
        cr_assert(hints() == 2 && hinted == 2);
        work(s);
        fake_worker_dies(&fake, 0);
        work(s);
        cr_assert(hints() == 3 && hinted == 2, "the next worker is told");
        cr_assert_eq(detshare_hint_phase(DETSHARE_NO_PHASE), 0);
        cr_assert(hints() == 4 && hinted == 0);
        fake_worker_dies(&fake, 0);
        work(s);
        cr_assert_eq(hints(), 4, "that there is none is no news to it");
}

Test(core_session, a_phase_of_the_environment, .timeout = 20)
{
        setenv("DETSHARE_PHASE", "Decode", 1);
        fake_start(&fake);
        fake.hook = note_phase;
        work(get());
        cr_assert(hints() == 1 && hinted == 2);
}

Test(core_session, a_phase_without_a_ring, .timeout = 20)
{
        setenv("DETSHARE_PHASE", "prefill", 1);
        setenv("DETSHARE_TRANSPORT", "rpc", 1);
        fake_start(&fake);
        fake.hook = note_phase;
        get();
        cr_assert(hints() == 1 && hinted == 1);
        cr_assert_eq(detshare_hint_phase(DETSHARE_NO_PHASE), 0);
        cr_assert(hints() == 2 && hinted == 0);
}

static enum fake_verdict refuse_phase(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        if (request->call_case != DETSHARE__REQUEST__CALL_HINT_PHASE)
                return FAKE_DEFAULT;
        reply->status = DETSHARE__STATUS__UNSUPPORTED;
        return FAKE_ANSWERED;
}

Test(core_session, a_phase_that_was_refused_is_not_the_phase, .timeout = 20)
{
        fake_start(&fake);
        work(get());
        fake.hook = refuse_phase;
        for (int i = 0; i < 2; i++)
                cr_assert_eq(detshare_hint_phase(DETSHARE_DECODE), DETSHARE_E_UNSUPPORTED);
        cr_assert_eq(hints(), 2);
}

/* --- the client has all results --- */

static uint64_t told(void)
{
        return atomic_load(&fake.ring->synchronised);
}

Test(core_session, whoever_waited_for_everything_says_so, .timeout = 20)
{
        fake_start(&fake);
        dsc_session *s = get();
        for (uint64_t i = 1; i <= 3; i++) {
                work(s);
                /* the fake worker moves the ring's head only after the operation has ended */
                for (int ms = 0; told() != i && ms < SOON_MS; ms++) {
                        usleep(1000);
                        cr_assert_eq(i == 2 ? dsc_query(s, 0, i) : dsc_wait_all(s), 0);
                }
                cr_assert_eq(told(), i);
        }
        fake.paused = true;
        cr_assert_eq(dsc_launch(s, 0, &(struct dsc_launch){.kernel = 7, .grid = {1, 1, 1}, .block = {1, 1, 1}}), 0);
        cr_assert_eq(dsc_wait(s, 0, 3), 0);
        cr_assert_eq(dsc_query(s, 0, 4), 600);
        cr_assert_eq(told(), 3, "something is left");
        fake.paused = false;
        for (int ms = 0; dsc_peek(s, 0, 4) && ms < SOON_MS; ms++)
                usleep(1000);
        usleep(20000);
        cr_assert_eq(dsc_peek(s, 0, 4), 0);
        cr_assert_eq(told(), 3, "nobody has asked for the program");
        for (int ms = 0; told() != 4 && ms < SOON_MS; ms++) {
                cr_assert_eq(dsc_query(s, 0, 4), 0);
                usleep(1000);
        }
        cr_assert_eq(told(), 4);
}

/* True if a sleeping worker is woken by the report. */
static bool heard(const char *class_)
{
        setenv("DETSHARE_CLASS", class_, 1);
        fake_start(&fake);
        dsc_session *s = get();
        work(s);
        fake.naps = true;
        /* waits until the worker has announced that it sleeps and has looked at the ring once more */
        for (int ms = 0; !atomic_load(&fake.sleeps) && ms < SOON_MS; ms++)
                usleep(1000);
        atomic_store(&fake.synchronised, 0);
        atomic_store(&fake.ring->synchronised, 0);
        cr_assert_eq(dsc_wait_all(s), 0);
        cr_assert_eq(told(), 1);
        for (int ms = 0; atomic_load(&fake.synchronised) != 1 && ms < 300; ms++)
                usleep(1000);
        return atomic_load(&fake.synchronised) == 1;
}

Test(core_session, a_sleeping_worker_is_woken_for_latency_sensitive_results, .timeout = 20)
{
        cr_assert(heard("ls"));
}

Test(core_session, a_sleeping_worker_is_not_woken_for_others, .timeout = 20)
{
        cr_assert(!heard("be"));
}
