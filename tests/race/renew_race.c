/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Daemons that replace each other under threads that never stop calling: data shared with the thread that retires the
 * session
 *
 * Two threads renew the session, perhaps twice for the same death; the others make calls as programs do. Calls may only
 * fail with errors of a dead daemon; results are not checked.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/core.h"
#include "detshare/detshare.h"
#include "tests/support/fake_daemon.h"

#define LIVES 8
#define CALLERS 5
#define RENEWERS 2
#define WINDOW 0x004000000000 /* address at which ThreadSanitizer allows mappings */

/* ThreadSanitizer must not report that empty memory is mapped over ring and page while threads read them
 * (ring_race.c says why). */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
        return "race:drop_ring_locked\n";
}

static struct fake fakes[LIVES + 1];
static _Atomic int over, failures, renewed;

static int one_call(dsc_session *s, unsigned kind, unsigned char *bytes, size_t size)
{
        struct dsc_launch launch = {.kernel = 1};
        uint64_t address;
        void *p;
        int r;

        switch (kind) {
        case 0:
                return (r = dsc_launch(s, 0, &launch)) ? r : dsc_wait(s, 0, dsc_stream_tail(s, 0));
        case 1:
                return (r = dsc_host_alloc(s, 8192, &p)) ? r : dsc_host_free(s, p);
        case 2:
                return dsc_write(s, 0, WINDOW, 0, bytes, 0, size, 1);
        case 3:
                return (r = dsc_mem_alloc(s, 64, &address)) ? r : dsc_mem_free(s, address);
        default:
                return detshare_now(&address) ? 999 : dsc_read(s, 0, bytes, 0, WINDOW, 0, 4096, 1);
        }
}

static void *caller_main(void *arg)
{
        const unsigned kind = (unsigned)(uintptr_t)arg;
        unsigned char *bytes = calloc(1, 2u << 20);

        while (!over) {
                int error = 0;
                dsc_session *s = dsc_get(&error);
                const int r = s ? one_call(s, kind, bytes, 2u << 20) : error;

                if (r && r != 999 && r != 100 && r != 1) {
                        fprintf(stderr, "call %u: %d %s\n", kind, r, dsc_message());
                        failures++;
                }
                if (r)
                        usleep(1000);
        }
        free(bytes);
        return NULL;
}

static void *renewer_main(void *arg)
{
        while (!over) {
                int error = 0;
                dsc_session *s = dsc_get(&error);

                if (s && dsc_lost(s) && dsc_renew(NULL, &error))
                        renewed++;
                usleep(500);
        }
        return NULL;
}

/* 1 if a session of the current daemon exists. A thread that requests a session while no daemon runs gets the next
 * one without renewing. */
static int served(void)
{
        int error = 0;
        dsc_session *s = dsc_get(&error);

        return s && !dsc_lost(s);
}

int main(void)
{
        pthread_t threads[CALLERS + RENEWERS];
        int lives = 0;

        for (int i = 0; i <= LIVES; i++) {
                fakes[i].simulated = true;
                fakes[i].window = WINDOW;
        }
        fake_start(&fakes[0]);
        if (detshare_connect(NULL))
                return 1;
        for (uintptr_t i = 0; i < CALLERS + RENEWERS; i++)
                if (pthread_create(&threads[i], NULL, i < CALLERS ? caller_main : renewer_main, (void *)i))
                        return 1;
        for (int i = 0; i < LIVES; i++) {
                usleep(30000);
                fake_stop(&fakes[i]);
                fake_start(&fakes[i + 1]);
                for (int n = 0; !served() && n < 10000; n++)
                        usleep(1000);
                lives += served();
        }
        over = 1;
        for (int i = 0; i < CALLERS + RENEWERS; i++)
                pthread_join(threads[i], NULL);
        printf("%d lives, %d renewals, %d failures\n", lives, (int)renewed, (int)failures);
        return failures || !renewed || lives < LIVES;
}
