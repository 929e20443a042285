/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client core's submission ring, its waits, and its behaviour when workers die, against a worker inside the test
 *
 * The worker of this test checks every launch: the number of a launch determines its parameters, and the numbers of one
 * stream must come in order and without gaps.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "detshare/detshare.h"
#include "tests/support/fake_daemon.h"

static struct fake fake;
static _Atomic uint64_t next_number[DS_STREAMS_MAX];
static _Atomic uint32_t wrong;

static dsc_session *get(void)
{
        int error = -1;
        dsc_session *s = dsc_get(&error);
        cr_assert(s, "dsc_get: %d %s", error, dsc_message());
        return s;
}

static void check_launch(struct fake *f, const struct ds_record *record)
{
        const struct ds_record_launch *l = (const struct ds_record_launch *)record;
        const uint8_t *params = (const uint8_t *)(l + 1);
        if (record->type != DS_RECORD_LAUNCH)
                return;
        wrong += l->kernel != next_number[record->stream]++ || l->head.size != sizeof(*l) + l->params_size;
        for (uint32_t i = 0; i < l->params_size; i++)
                wrong += params[i] != (uint8_t)(l->kernel * 31 + i);
}

static int put(dsc_session *s, uint32_t stream, uint64_t number, uint32_t size)
{
        uint8_t params[DS_RECORD_PARAMS_MAX];
        const struct dsc_launch launch = {
                .kernel = number, .grid = {1, 1, 1}, .block = {1, 1, 1}, .params = params, .params_size = size};
        for (uint32_t i = 0; i < size; i++)
                params[i] = (uint8_t)(number * 31 + i);
        return dsc_launch(s, stream, &launch);
}

static uint32_t some_size(uint64_t i)
{
        return (uint32_t)(i % 97 == 0 ? 5000 + i % 3000 : i * 2654435761u % 300);
}

static void start(void)
{
        fake.on_record = check_launch;
        fake_start(&fake);
}

Test(core_ring, records_wrap_and_stay_whole, .timeout = 60)
{
        start();
        dsc_session *s = get();
        for (uint64_t i = 0; i < 20000; i++)
                cr_assert_eq(put(s, 0, i, some_size(i)), 0);
        cr_assert_eq(dsc_stream_tail(s, 0), 20000);
        cr_assert_eq(dsc_wait(s, 0, 20000), 0);
        cr_assert_eq(wrong, 0);
        cr_assert_eq(fake.records[DS_RECORD_LAUNCH], 20000);
        cr_assert_gt(fake.records[DS_RECORD_PAD], 3);
        cr_assert_eq(dsc_query(s, 0, 20000), 0);
}

Test(core_ring, the_largest_parameters_fit_and_larger_ones_do_not, .timeout = 20)
{
        struct dsc_launch launch = {.params_size = DS_RECORD_PARAMS_MAX + 1};
        start();
        dsc_session *s = get();
        for (uint64_t i = 0; i < 100; i++)
                cr_assert_eq(put(s, 3, i, DS_RECORD_PARAMS_MAX), 0);
        cr_assert_eq(dsc_launch(s, 3, &launch), 1);
        cr_assert_eq(dsc_launch(s, DS_STREAMS_MAX, &launch), 1);
        cr_assert_eq(dsc_wait_all(s), 0);
        cr_assert_eq(wrong, 0);
}

static void *put_many(void *session)
{
        int r = 0;
        for (uint64_t i = 0; i < 10000 && !r; i++)
                r = put(session, 0, i, 100);
        return (void *)(intptr_t)r;
}

Test(core_ring, a_full_ring_is_waited_for, .timeout = 30)
{
        pthread_t thread;
        void *r;
        start();
        dsc_session *s = get();
        cr_assert_eq(put(s, 1, 0, 0), 0);
        cr_assert_eq(dsc_wait_all(s), 0);
        fake.paused = true;
        usleep(2000);
        pthread_create(&thread, NULL, put_many, s);
        while (atomic_load(&fake.ring->waiters) == 0)
                usleep(500);
        const uint64_t tail = atomic_load(&fake.ring->tail), head = atomic_load(&fake.page->head);
        cr_assert_leq(tail - head, DS_RING_SLOTS);
        cr_assert_gt(tail - head, DS_RING_SLOTS - 8);
        fake.paused = false;
        pthread_join(thread, &r);
        cr_assert_null(r);
        cr_assert_eq(dsc_wait_all(s), 0);
        cr_assert_eq(wrong, 0);
        cr_assert_eq(atomic_load(&fake.ring->waiters), 0);
}

/*
 * A forgotten kick hangs the worker for ever, because it waits for its eventfd only. A wake-up that the waiter misses
 * costs 50 ms, so 5,000 rounds would take longer than the limit.
 */
Test(core_ring, wake_ups_are_never_lost, .timeout = 60)
{
        fake.naps = true;
        start();
        dsc_session *s = get();
        const uint64_t before = fake_now_ms();
        for (uint64_t i = 0; i < 5000; i++) {
                cr_assert_eq(put(s, 2, i, 8), 0);
                cr_assert_eq(dsc_wait(s, 2, i + 1), 0);
        }
        cr_assert_lt(fake_now_ms() - before, 20000);
        cr_assert_gt(fake.sleeps, 100, "the worker slept only %u times: nothing was tested", fake.sleeps);
        cr_assert_eq(wrong, 0);
}

struct producer {
        dsc_session *session;
        uint32_t stream;
        int result;
};

static void *produce(void *arg)
{
        struct producer *p = arg;
        for (uint64_t i = 0; i < 5000 && !p->result; i++) {
                p->result = put(p->session, p->stream, i, some_size(i + p->stream));
                if (!p->result && i % 50 == 0)
                        p->result = dsc_wait(p->session, p->stream, dsc_stream_tail(p->session, p->stream));
        }
        return NULL;
}

Test(core_ring, threads_share_the_ring, .timeout = 60)
{
        pthread_t threads[4];
        struct producer producers[4];
        fake.naps = true;
        start();
        dsc_session *s = get();
        for (uint32_t i = 0; i < 4; i++) {
                producers[i] = (struct producer){.session = s, .stream = i};
                pthread_create(&threads[i], NULL, produce, &producers[i]);
        }
        for (int i = 0; i < 4; i++) {
                pthread_join(threads[i], NULL);
                cr_assert_eq(producers[i].result, 0);
        }
        cr_assert_eq(dsc_wait_all(s), 0);
        cr_assert_eq(wrong, 0);
        for (uint32_t i = 0; i < 4; i++)
                cr_assert_eq(next_number[i], 5000);
}

Test(core_ring, requests_carry_the_tail, .timeout = 20)
{
        uint64_t address;
        start();
        dsc_session *s = get();
        cr_assert_eq(dsc_mem_alloc(s, 64, &address), 0);
        cr_assert_eq(fake.last_ring_tail, 0);
        for (uint64_t i = 0; i < 10; i++)
                cr_assert_eq(put(s, 0, i, 0), 0);
        cr_assert_eq(dsc_mem_alloc(s, 64, &address), 0);
        cr_assert_eq(fake.last_ring_tail, 10);
        cr_assert_eq(fake.records[DS_RECORD_LAUNCH], 10, "the fake daemon consumes up to the tail first");
}

Test(core_ring, other_records_say_what_was_asked, .timeout = 20)
{
        uint64_t seq = 0;
        const struct dsc_copy copy = {
                .kind = DSC_DTOD, .dst = FAKE_WINDOW, .src = FAKE_WINDOW + 8, .width = 8, .height = 1};
        const struct dsc_memset set = {.dst = FAKE_WINDOW, .value = 1, .element_size = 4, .width = 4, .height = 1};
        start();
        dsc_session *s = get();
        cr_assert_eq(dsc_copy(s, 0, &copy), 0);
        cr_assert_eq(dsc_memset(s, 0, &set), 0);
        cr_assert_eq(dsc_event_record(s, 0, 5, &seq), 0);
        cr_assert_eq(seq, 3);
        cr_assert_eq(dsc_stream_wait(s, 1, 0, seq), 0);
        cr_assert_eq(dsc_stream_wait(s, 1, DS_STREAMS_MAX, seq), 1);
        cr_assert_eq(dsc_wait_all(s), 0);
        for (int type = DS_RECORD_COPY; type <= DS_RECORD_WAIT; type++)
                cr_assert_eq(fake.records[type], 1);
}

/* --- workers die --- */

Test(core_ring, an_idle_session_does_not_notice_a_new_worker, .timeout = 20)
{
        start();
        dsc_session *s = get();
        for (uint64_t i = 0; i < 100; i++)
                cr_assert_eq(put(s, 4, i, 20), 0);
        cr_assert_eq(dsc_wait_all(s), 0);
        fake_worker_dies(&fake, 0);
        fake.restarting = 2;
        cr_assert_eq(dsc_query(s, 4, 100), 0);
        cr_assert_eq(put(s, 4, 100, 20), 0);
        cr_assert_eq(dsc_stream_tail(s, 4), 101);
        cr_assert_eq(dsc_wait(s, 4, 101), 0);
        cr_assert_eq(dsc_sticky_error(s), 0);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_ATTACH], 4, "one at first, two refused, one more");
        cr_assert_eq(wrong, 0);
}

static void *wait_main(void *session)
{
        return (void *)(intptr_t)dsc_wait_all(session);
}

Test(core_ring, work_in_flight_is_an_error_until_reset, .timeout = 20)
{
        pthread_t thread;
        void *r;
        fake.paused = true;
        start();
        dsc_session *s = get();
        cr_assert_eq(put(s, 0, 0, 20), 0);
        pthread_create(&thread, NULL, wait_main, s);
        while (atomic_load(&fake.ring->waiters) == 0)
                usleep(500);
        const uint64_t before = fake_now_ms();
        fake_worker_dies(&fake, 719);
        pthread_join(thread, &r);
        cr_assert_eq((intptr_t)r, 719);
        cr_assert_lt(fake_now_ms() - before, 300);
        cr_assert_eq(put(s, 0, 1, 20), 719);
        cr_assert_eq(dsc_query(s, 0, 1), 719);
        cr_assert_eq(dsc_sticky_error(s), 719);
        fake.paused = false;
        cr_assert_eq(dsc_reset(s), 0);
        cr_assert_eq(dsc_sticky_error(s), 0);
        cr_assert_eq(put(s, 0, 0, 20), 0);
        cr_assert_eq(dsc_wait_all(s), 0);
        cr_assert_eq(wrong, 0);
}

/* The daemon looks at the ring before the client publishes a record, and declares the completion page dead after it. */
Test(core_ring, lost_work_is_noticed_even_if_the_daemon_did_not, .timeout = 20)
{
        fake.paused = true;
        start();
        dsc_session *s = get();
        cr_assert_eq(put(s, 0, 0, 20), 0);
        fake_worker_dies(&fake, 0);
        fake.paused = false;
        cr_assert_eq(dsc_wait(s, 0, 1), 719);
        cr_assert_eq(dsc_sticky_error(s), 719);
        cr_assert_eq(put(s, 0, 1, 20), 719);
        cr_assert_eq(dsc_reset(s), 0);
        cr_assert_eq(put(s, 0, 0, 20), 0);
        cr_assert_eq(dsc_wait_all(s), 0);
}

Test(core_ring, a_reset_may_be_the_first_thing_after_a_death, .timeout = 20)
{
        fake.paused = true;
        start();
        dsc_session *s = get();
        cr_assert_eq(put(s, 0, 0, 20), 0);
        fake_worker_dies(&fake, 719);
        fake.paused = false;
        cr_assert_eq(dsc_reset(s), 0);
        cr_assert_eq(put(s, 0, 0, 20), 0);
        cr_assert_eq(dsc_wait_all(s), 0);
        cr_assert_eq(dsc_sticky_error(s), 0);
}

static void *put_one(void *session)
{
        return (void *)(intptr_t)put(session, 5, 0, 20);
}

/* The worker dies and seems idle, after the client has published a record and before the client looks at `dead`. */
Test(core_ring, an_unseen_record_is_submitted_again, .timeout = 20)
{
        pthread_t thread;
        uint64_t value;
        void *r;
        fake.paused = true;
        fake.kick_blocks = true;
        start();
        dsc_session *s = get();
        pthread_create(&thread, NULL, put_one, s);
        while (!fake.ring || atomic_load(&fake.ring->tail) == 0)
                usleep(500);
        fake.kick_blocks = false;
        const int kicked = dup(fake.event_fd);
        fake_worker_dies(&fake, 0);
        fake.paused = false;
        cr_assert_eq(read(kicked, &value, sizeof(value)), (ssize_t)sizeof(value));
        pthread_join(thread, &r);
        cr_assert_null(r);
        cr_assert_eq(dsc_stream_tail(s, 5), 1);
        cr_assert_eq(dsc_wait(s, 5, 1), 0);
        cr_assert_eq(next_number[5], 1);
        cr_assert_eq(wrong, 0);
        cr_assert_eq(dsc_sticky_error(s), 0);
        close(kicked);
}

static _Atomic bool stop_putting;
static _Atomic unsigned idle_us;
static _Atomic uint64_t n_put;

/* Launches one kernel after another through any number of workers' deaths. Returns the first error that does not
 * mean lost work. */
static void *put_for_ever(void *session)
{
        uint64_t number = 0;
        while (!stop_putting) {
                int r = put(session, 0, number, 16);
                if (!r && (number % 7 == 0 || idle_us))
                        r = dsc_wait(session, 0, dsc_stream_tail(session, 0));
                if (r == 719)
                        return (void *)(intptr_t)1;
                if (r)
                        return (void *)(intptr_t)r;
                n_put = ++number;
                if (idle_us && !r)
                        usleep(idle_us);
        }
        return NULL;
}

/* Kills the worker again and again while a thread launches: every launch runs exactly once, or the thread gets error
 * 719. */
Test(core_ring, deaths_among_launches_lose_nothing_silently, .timeout = 60)
{
        int clean = 0, lost = 0;
        start();
        dsc_session *s = get();
        for (int round = 0; round < 150; round++) {
                pthread_t thread;
                void *r;
                stop_putting = false;
                n_put = 0;
                idle_us = round % 2 ? 300 : 0;
                next_number[0] = 0;
                pthread_create(&thread, NULL, put_for_ever, s);
                while (n_put < 1 + (uint64_t)(round % 20))
                        ;
                fake_worker_dies(&fake, 0);
                usleep(200);
                stop_putting = true;
                pthread_join(thread, &r);
                cr_assert_leq((intptr_t)r, 1, "launching gave %d", (int)(intptr_t)r);
                const int end = dsc_wait_all(s);
                if (!r && !end) {
                        cr_assert_eq(next_number[0], n_put);
                        clean++;
                } else {
                        cr_assert(end == 719 || end == 0);
                        lost++;
                }
                cr_assert_eq(wrong, 0, "a launch was run twice or never (round %d)", round);
                cr_assert_eq(dsc_reset(s), 0);
        }
        cr_assert_gt(clean, 10, "only %d rounds without loss, %d with", clean, lost);
        cr_assert_gt(lost, 10, "%d rounds without loss, only %d with", clean, lost);
        cr_assert_eq(dsc_sticky_error(s), 0);
}
