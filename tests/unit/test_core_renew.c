/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process continues after its daemon has gone: it opens another session, while other threads still use the old one
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/core.h"
#include "detshare/detshare.h"
#include "tests/support/fake_daemon.h"

#define LIVES 12
#define THREADS 6
#define SOON_MS 3000 /* bound for "does not hang"; the promise is 100 ms, which tests/e2e/daemon_kills.c measures */

static struct fake fakes[LIVES + 1];

static dsc_session *get(void)
{
        int error = -1;
        dsc_session *s = dsc_get(&error);
        cr_assert(s, "dsc_get: %d %s", error, dsc_message());
        return s;
}

static void use(dsc_session *s)
{
        struct dsc_launch launch = {.kernel = 1};
        uint8_t out[5000], in[5000];
        uint64_t address;
        void *p;
        memset(out, 0x5a, sizeof(out));
        cr_assert_eq(dsc_mem_alloc(s, sizeof(out), &address), 0);
        cr_assert_eq(dsc_host_alloc(s, 10000, &p), 0);
        memset(p, 7, 10000);
        cr_assert_eq(dsc_write(s, 0, address, 0, out, 0, sizeof(out), 1), 0);
        cr_assert_eq(dsc_launch(s, 0, &launch), 0);
        cr_assert_eq(dsc_wait_all(s), 0);
        cr_assert_eq(dsc_read(s, 0, in, 0, address, 0, sizeof(in), 1), 0);
        cr_assert_eq(memcmp(in, out, sizeof(in)), 0);
}

static void is_dead(dsc_session *s)
{
        struct dsc_launch launch = {.kernel = 1};
        uint64_t address;
        uint32_t stream;
        char bytes[16];
        void *p;
        cr_assert_eq(dsc_mem_alloc(s, 64, &address), 999);
        cr_assert_eq(dsc_mem_free(s, FAKE_WINDOW), 999);
        cr_assert_eq(dsc_host_alloc(s, 64, &p), 999);
        cr_assert_eq(dsc_host_free(s, bytes), 999);
        cr_assert_eq(dsc_launch(s, 0, &launch), 999);
        cr_assert_eq(dsc_wait(s, 0, 1), 999);
        cr_assert_eq(dsc_query(s, 0, 1), 999);
        cr_assert_eq(dsc_sticky_error(s), 999);
        cr_assert_eq(dsc_wait_all(s), 999);
        cr_assert_eq(dsc_reset(s), 999);
        cr_assert_eq(dsc_read(s, 0, bytes, 0, FAKE_WINDOW, 0, 16, 1), 999);
        cr_assert_eq(dsc_stream_create(s, 0, 0, &stream), 999);
}

static bool is_free(uint64_t base, uint64_t bytes)
{
        void *p = mmap((void *)(uintptr_t)base, bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (p == MAP_FAILED)
                return false;
        munmap(p, bytes);
        return (uintptr_t)p == base;
}

Test(core_renew, a_lost_session_stays_lost_until_connect)
{
        uint64_t base, size;
        fake_start(&fakes[0]);
        dsc_session *old = get();
        use(old);
        cr_assert_eq(dsc_lookup(old, FAKE_WINDOW, &base, &size), 1);
        fake_stop(&fakes[0]);
        fake_start(&fakes[1]);
        cr_assert(dsc_lost(old));
        cr_assert_eq(detshare_connected(), 0);
        cr_assert_eq(get(), old, "nothing connects by itself");
        is_dead(old);
        cr_assert_eq(fakes[1].connections, 0);
        cr_assert_eq(detshare_connect(NULL), DETSHARE_OK);
        cr_assert_eq(detshare_connected(), 1);
        dsc_session *s = get();
        cr_assert_neq(s, old);
        use(s);
        is_dead(old);
        cr_assert_eq(dsc_lookup(old, FAKE_WINDOW, &base, &size), 0);
        use(s);
        cr_assert_eq(fakes[1].connections, 1);
        cr_assert_eq(fakes[1].requests[DETSHARE__REQUEST__CALL_WINDOW_REFUSED], 0, "the addresses of before are free");
}

Test(core_renew, while_there_is_no_daemon_it_is_unreachable_and_later_not)
{
        int error = 0;
        fake_start(&fakes[0]);
        dsc_session *old = get();
        use(old);
        fake_stop(&fakes[0]);
        setenv("DETSHARE_SOCKET", "/nonexistent/elsewhere", 1);
        cr_assert_null(dsc_renew(NULL, &error));
        cr_assert_eq(error, 100);
        cr_assert_eq(detshare_connect(fakes[0].path), DETSHARE_E_UNREACHABLE);
        cr_assert(is_free(FAKE_WINDOW, FAKE_WINDOW_BYTES));
        is_dead(old);
        fake_start(&fakes[1]);
        setenv("DETSHARE_SOCKET", "/nonexistent/elsewhere", 1);
        dsc_session *s = dsc_renew(NULL, &error);
        cr_assert(s, "where the last session was: %s", dsc_message());
        use(s);
        cr_assert_eq(dsc_renew(NULL, &error), s, "one that lives stays");
}

Test(core_renew, disconnect_ends_a_session_that_lives)
{
        fake_start(&fakes[0]);
        dsc_session *old = get();
        use(old);
        cr_assert_eq(detshare_disconnect(), DETSHARE_OK);
        cr_assert_eq(detshare_connected(), 0);
        cr_assert(is_free(FAKE_WINDOW, FAKE_WINDOW_BYTES));
        is_dead(old);
        cr_assert_eq(detshare_disconnect(), DETSHARE_OK, "none is there");
        cr_assert_neq(get(), old);
        cr_assert_eq(fakes[0].connections, 2);
        use(get());
}

/* A program that has submitted nothing waits for nothing; if it polls, it still learns that the daemon has ended. */
Test(core_renew, a_polling_program_learns_of_the_loss)
{
        fake_start(&fakes[0]);
        dsc_session *s = get();
        cr_assert_eq(dsc_query(s, 0, 0), 0);
        cr_assert_eq(dsc_wait(s, 0, 0), 0);
        fake_stop(&fakes[0]);
        int r = 0;
        for (const uint64_t begin = fake_now_ms(); !r && fake_now_ms() < begin + SOON_MS;)
                r = dsc_query(s, 0, 0);
        cr_assert_eq(r, 999);
        cr_assert_eq(dsc_wait(s, 0, 0), 999);
        cr_assert_eq(dsc_wait_all(s), 999);
}

Test(core_renew, plain_memory_outlives_the_daemon)
{
        void *p;
        setenv("DETSHARE_TRANSPORT", "rpc", 1);
        fake_start(&fakes[0]);
        dsc_session *s = get();
        cr_assert_eq(dsc_host_alloc(s, 10000, &p), 0);
        fake_stop(&fakes[0]);
        cr_assert(dsc_lost(s));
        memset(p, 1, 10000);
        cr_assert_eq(dsc_host_free(s, p), 0);
        cr_assert_eq(dsc_host_free(s, p), 1);
}

Test(core_renew, a_declaration_to_the_clock_is_made_to_one_daemon)
{
        uint64_t ns;
        fakes[0].simulated = fakes[1].simulated = true;
        fake_start(&fakes[0]);
        cr_assert_eq(detshare_now(&ns), 0);
        cr_assert_eq(fakes[0].declared, 1);
        fake_stop(&fakes[0]);
        fake_start(&fakes[1]);
        int r = 0;
        for (const uint64_t begin = fake_now_ms(); !r && fake_now_ms() < begin + SOON_MS;)
                r = detshare_now(&ns);
        cr_assert_eq(r, DETSHARE_E_LOST);
        cr_assert_eq(detshare_connect(NULL), DETSHARE_OK);
        cr_assert_eq(detshare_now(&ns), 0);
        cr_assert_eq(fakes[1].declared, 1);
        cr_assert_eq(detshare_clock_leave(), 0);
}

/* --- threads --- */

static _Atomic bool over;
static _Atomic uint32_t failures, longest_ms;

/* Makes one call of this kind, of those in which a program can be when the daemon ends. Returns 0 while the daemon
 * serves. */
static int one_call(dsc_session *s, unsigned kind, uint8_t *bytes, size_t size)
{
        struct dsc_launch launch = {.kernel = 1};
        void *p;
        int r;
        switch (kind % 6) {
        case 0:
                return (r = dsc_launch(s, 0, &launch)) ? r : dsc_wait(s, 0, dsc_stream_tail(s, 0));
        case 1:
                return (r = dsc_host_alloc(s, 8192, &p)) ? r : dsc_host_free(s, p);
        case 2:
                return dsc_write(s, 0, FAKE_WINDOW, 0, bytes, 0, size, 1);
        case 3:
                return dsc_read(s, 0, bytes, 0, FAKE_WINDOW, 0, size, 1);
        case 4:
                return dsc_launch(s, 0, &launch);
        default:
                return (r = dsc_query(s, 0, dsc_stream_tail(s, 0))) == 600 ? 0 : r;
        }
}

static void *caller_main(void *arg)
{
        const unsigned kind = (unsigned)(uintptr_t)arg;
        const size_t size = 3u << 20;
        uint8_t *bytes = calloc(1, size);
        while (!over) {
                int error = 0;
                dsc_session *s = dsc_get(&error);
                const uint64_t begin = fake_now_ms();
                const int r = s ? one_call(s, kind, bytes, size) : 100;
                const uint32_t took = (uint32_t)(fake_now_ms() - begin);
                if (took > longest_ms)
                        longest_ms = took;
                if (r && r != 999 && r != 100)
                        failures++;
                if (r)
                        usleep(1000);
        }
        free(bytes);
        return NULL;
}

/* The daemon stops and starts while threads call without pause, and one of them renews the session. */
Test(core_renew, threads_continue_through_many_daemons)
{
        pthread_t threads[THREADS];
        fake_start(&fakes[0]);
        cr_assert_eq(detshare_connect(NULL), 0);
        for (uintptr_t i = 0; i < THREADS; i++)
                cr_assert_eq(pthread_create(&threads[i], NULL, caller_main, (void *)i), 0);
        for (int i = 0; i < LIVES; i++) {
                usleep(20000);
                fake_stop(&fakes[i]);
                if (i % 3 == 0)
                        usleep(20000);
                fake_start(&fakes[i + 1]);
                cr_assert_eq(detshare_connect(NULL), 0, "%s", dsc_message());
        }
        over = true;
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        cr_assert_eq(failures, 0);
        cr_assert_leq(longest_ms, SOON_MS, "%u ms", longest_ms);
        use(get());
}
