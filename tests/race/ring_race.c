/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client core under ThreadSanitizer
 *
 * First the ring alone: one producer, one consumer that sleeps on the eventfd whenever possible, 200,000 records. Then
 * the whole core against a daemon inside the test: threads launch, wait, copy, allocate and query at once while the
 * worker dies at times. This is a plain program, since ThreadSanitizer does not run under Criterion. Exit status 0; 1
 * with a message; or ThreadSanitizer's 66.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/core.h"
#include "core/ring.h"
#include "tests/support/fake_daemon.h"

#define RECORDS 200000u
#define ROUNDS 300u

/*
 * A new attachment's page is mapped over the old one while other threads read it. The kernel replaces the mapping
 * atomically, but ThreadSanitizer treats it as a write by the mapping thread.
 */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
        return "race:map_over\n";
}

static _Atomic uint32_t failures;

static void fail(const char *what)
{
        if (failures++ < 5)
                fprintf(stderr, "FAIL %s\n", what);
}

/* --- the ring alone --- */

static _Alignas(64) uint8_t ring_file[DS_RING_BYTES];
static struct ds_completion_page ring_page;
static int ring_event;

static uint32_t payload_size(uint64_t i)
{
        return (uint32_t)(i * 2654435761u % 400);
}

static void check(uint64_t i, const struct ds_record_event *event)
{
        const uint8_t *payload = (const uint8_t *)(event + 1);
        if (event->event != i || event->head.size != sizeof(*event) + payload_size(i))
                fail("a record is not the next one");
        for (uint32_t k = 0; k < payload_size(i); k++)
                if (payload[k] != (uint8_t)(i + k))
                        fail("a record's payload is not its own");
}

static uint64_t consume_available(struct ds_ring_header *header, uint64_t *head, uint64_t next)
{
        const uint64_t tail = atomic_load(&header->tail);
        while (*head != tail) {
                const uint8_t *at = ring_file + DS_RING_HEADER + (*head & (DS_RING_SLOTS - 1)) * DS_RING_SLOT;
                const struct ds_record *record = (const struct ds_record *)at;
                if (record->type == DS_RECORD_EVENT)
                        check(next++, (const struct ds_record_event *)record);
                *head += (record->size + DS_RING_SLOT - 1) / DS_RING_SLOT;
                atomic_store(&ring_page.head, *head);
        }
        return next;
}

static void *consumer(void *arg)
{
        struct ds_ring_header *header = arg;
        uint64_t head = 0, next = 0, value;
        while (next < RECORDS) {
                next = consume_available(header, &head, next);
                atomic_store(&ring_page.asleep, 1);
                if (next < RECORDS && atomic_load(&header->tail) == head) {
                        struct pollfd p = {.fd = ring_event, .events = POLLIN};
                        if (poll(&p, 1, 5000) != 1)
                                fail("a wake-up was lost");
                        if (read(ring_event, &value, sizeof(value)) < 0)
                                fail("the eventfd cannot be read");
                }
                atomic_store(&ring_page.asleep, 0);
        }
        return NULL;
}

static void ring_alone(void)
{
        struct ds_ring_header *header = (struct ds_ring_header *)ring_file;
        struct dsc__ring ring;
        pthread_t thread;
        uint8_t payload[400];
        ring_event = eventfd(0, EFD_CLOEXEC);
        header->slots = DS_RING_SLOTS;
        dsc__ring_init(&ring, header, &ring_page, ring_event);
        pthread_create(&thread, NULL, consumer, header);
        for (uint64_t i = 0; i < RECORDS; i++) {
                const struct ds_record_event event = {.head = {.type = DS_RECORD_EVENT}, .event = i};
                for (uint32_t k = 0; k < payload_size(i); k++)
                        payload[k] = (uint8_t)(i + k);
                while (dsc__ring_put(&ring, &event.head, sizeof(event), payload, payload_size(i)) == DSC__RING_FULL)
                        usleep(50);
                if (i % 1000 == 0)
                        usleep(100); /* lets the consumer fall asleep */
        }
        pthread_join(thread, NULL);
}

/* --- the whole core --- */

static struct fake fake;
static _Atomic uint32_t busy, resets;

static int launch_round(dsc_session *s, uint32_t stream)
{
        const struct dsc_launch launch = {.kernel = 1};
        uint64_t seq;
        int r = dsc_launch(s, stream, &launch);
        if (!r)
                r = dsc_event_record(s, stream, 0, &seq);
        if (!r && (r = dsc_query(s, stream, seq)) == 600)
                r = dsc_wait(s, stream, seq);
        return r;
}

static int memory_round(dsc_session *s, uint32_t stream)
{
        uint8_t from[6000], to[6000];
        uint64_t address, base, size;
        const uint32_t before = resets;
        int r = dsc_mem_alloc(s, sizeof(from), &address);
        if (r)
                return r;
        memset(from, (int)address >> 9, sizeof(from));
        r = dsc_write(s, stream, address, 0, from, 0, sizeof(from), 1);
        if (!r)
                r = dsc_read(s, stream, to, 0, address, 0, sizeof(to), 1);
        const bool same = !memcmp(from, to, sizeof(to));
        const bool there = dsc_lookup(s, address, &base, &size) == 1 && base == address;
        const bool freed = dsc_mem_free(s, address) == 0;
        if (before % 2 || resets != before)
                return r; /* a reset has freed the memory, and another thread may own it since */
        if (!r && !same)
                fail("the bytes read are not the bytes written");
        if (!there)
                fail("an allocation is not in the table");
        if (!freed)
                fail("an allocation cannot be freed");
        return r;
}

static void *user(void *arg)
{
        static _Atomic uint32_t next_stream;
        dsc_session *s = arg;
        const uint32_t stream = next_stream++ % 4;
        for (uint32_t i = 0; i < ROUNDS; i++) {
                int r = i % 3 ? launch_round(s, stream) : memory_round(s, stream);
                if (r && r != 719) {
                        fprintf(stderr, "FAIL a round gave %d: %s\n", r, dsc_message());
                        failures++;
                }
        }
        busy--;
        return NULL;
}

static void whole_core(void)
{
        pthread_t threads[6];
        int error = 0;
        fake.window = 0x004000000000; /* address at which ThreadSanitizer allows mappings */
        fake.naps = true;
        fake_start(&fake);
        dsc_session *s = dsc_get(&error);
        if (!s || dsc_wait_all(s) || launch_round(s, 0)) {
                fail("no session");
                return;
        }
        busy = 6;
        for (int i = 0; i < 6; i++)
                pthread_create(&threads[i], NULL, user, s);
        while (busy > 0) {
                usleep(3000);
                fake_worker_dies(&fake, 0);
                usleep(1000);
                if (!dsc_sticky_error(s))
                        continue;
                resets++;
                if (dsc_reset(s))
                        fail("a session cannot be reset");
                resets++;
        }
        for (int i = 0; i < 6; i++)
                pthread_join(threads[i], NULL);
        fake_stop(&fake);
        if (dsc_wait_all(s) == 0 && dsc_launch(s, 0, &(struct dsc_launch){.kernel = 1}) == 0 && dsc_wait_all(s) == 0)
                fail("the daemon's death was not noticed");
}

int main(void)
{
        ring_alone();
        whole_core();
        return failures ? 1 : 0;
}
