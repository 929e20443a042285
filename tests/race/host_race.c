/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions under ThreadSanitizer
 *
 * Threads submit functions, withdraw some and wait, while the worker dies, the session is reset, and finally the daemon
 * exits. Every submitted function runs exactly once, and a refused one never. This is a plain program, since
 * ThreadSanitizer does not run under Criterion. Exit status 0; 1 with a message; or ThreadSanitizer's 66.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "tests/support/fake_daemon.h"

#define THREADS 4u
#define ROUNDS 400u

/* ThreadSanitizer must not report that a new attachment is mapped over the old one (ring_race.c says why). */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
        return "race:map_over\n";
}

static struct fake fake;
static _Atomic uint32_t failures, busy, submitted, ran;
static _Atomic int runs[THREADS][ROUNDS];
static int expected[THREADS][ROUNDS];

static void fail(const char *what)
{
        if (failures++ < 5)
                fprintf(stderr, "FAIL %s\n", what);
}

static void run(void *arg)
{
        _Atomic int *count = arg;
        atomic_fetch_add(count, 1);
        atomic_fetch_add(&ran, 1);
}

struct user {
        dsc_session *s;
        uint32_t number;
};

static void *user(void *arg)
{
        const struct user *u = arg;
        for (uint32_t i = 0; i < ROUNDS; i++) {
                uint64_t id, seq = 0;
                int r = dsc_host_register(u->s, run, &runs[u->number][i], 1, &id);
                if (r) {
                        fail("a function cannot be registered");
                        break;
                }
                if (i % 8 == 7) {
                        dsc_host_unregister(u->s, id); /* withdraws a function that was not submitted */
                        continue;
                }
                r = dsc_host_call(u->s, u->number, id, &seq);
                if (r) {
                        dsc_host_unregister(u->s, id);
                        usleep(300); /* waits until a thread has reset the session */
                        continue;
                }
                expected[u->number][i] = 1;
                atomic_fetch_add(&submitted, 1);
                if (i % 16 == 0)
                        dsc_wait(u->s, u->number, seq);
        }
        busy--;
        return NULL;
}

static void disturb(dsc_session *s)
{
        while (busy > 0) {
                usleep(20000);
                fake_worker_dies(&fake, 0);
                usleep(1000);
                if (dsc_sticky_error(s) && dsc_reset(s))
                        fail("a session cannot be reset");
        }
}

static void settled(void)
{
        for (int i = 0; i < 20000 && atomic_load(&ran) != atomic_load(&submitted); i++)
                usleep(1000);
        for (uint32_t t = 0; t < THREADS; t++)
                for (uint32_t i = 0; i < ROUNDS; i++)
                        if (atomic_load(&runs[t][i]) != expected[t][i])
                                fail("a function did not run exactly once per submission");
}

int main(void)
{
        static _Atomic int late;
        pthread_t threads[THREADS];
        struct user users[THREADS];
        uint64_t id, after;
        int error = 0;
        fake.window = 0x004000000000; /* address at which ThreadSanitizer allows mappings */
        fake.naps = true;
        fake_start(&fake);
        dsc_session *s = dsc_get(&error);
        if (!s) {
                fprintf(stderr, "FAIL no session\n");
                return 1;
        }
        busy = THREADS;
        for (uint32_t i = 0; i < THREADS; i++) {
                users[i] = (struct user){s, i};
                pthread_create(&threads[i], NULL, user, &users[i]);
        }
        disturb(s);
        for (uint32_t i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        settled();
        /* a function that never runs, because the daemon exits */
        fake.paused = true;
        if (dsc_sticky_error(s))
                dsc_reset(s);
        if (dsc_host_register(s, run, &late, 1, &id) || dsc_host_call(s, 0, id, NULL))
                fail("a function cannot be submitted");
        fake_stop(&fake);
        for (int i = 0; i < 20000 && !atomic_load(&late); i++)
                usleep(1000);
        if (atomic_load(&late) != 1)
                fail("a function did not run once after the daemon's exit");
        usleep(200000);
        if (!dsc_host_register(s, run, &late, 1, &after))
                fail("a function can be registered after the daemon's exit");
        fprintf(stderr, "%u functions were submitted\n", atomic_load(&submitted));
        return failures ? 1 : 0;
}
