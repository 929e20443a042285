/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events that a client creates and destroys in the ring
 */
#include "tests/unit/worker_harness.h"
#include "worker/internal.h"

struct side {
        struct wt *t;
        struct wt_client client;
        uint64_t poke, spins, memory;
};

static void side_load(struct side *side)
{
        uint64_t module;

        cr_assert_eq(wt_module(side->t, &side->client, DT_PTX, &module), 0);
        side->poke = wt_kernel(side->t, &side->client, module, "poke");
        side->spins = wt_kernel(side->t, &side->client, module, "spins");
        cr_assert_eq(wt_alloc(side->t, &side->client, 4096, &side->memory), 0);
}

static struct side side_open(void)
{
        struct side side = {.t = wt_open(FUNCTIONAL)};

        side.client = wt_client(side.t, 1, DETSHARE__CLASS__BE);
        wt_attach(side.t, &side.client);
        side_load(&side);
        return side;
}

static void side_close(struct side *side)
{
        wt_client_close(side->t, &side->client);
        wt_close(side->t);
}

static void object(struct side *side, uint32_t stream, uint32_t kind, int32_t priority, uint64_t event)
{
        struct ds_record_object record = {.head = {DS_RECORD_OBJECT, (uint16_t)stream, sizeof(record)},
                .kind = kind,
                .priority = priority,
                .id = event};

        wt_push(&side->client, &record, sizeof(record));
}

static uint32_t word(struct side *side, uint64_t offset)
{
        uint32_t value = 0;

        cr_assert_eq(wt_read(side->t, &side->client, &value, side->memory + offset, sizeof(value)), 0);
        return value;
}

/* Takes the next message about the ledger that answers no request. */
static wt_answer *take_note(struct wt *t)
{
        for (size_t i = 0; i < t->n_stash; i++) {
                wt_answer *answer = t->stash[i];

                if (answer->id || !answer->ledger)
                        continue;
                t->n_stash--;
                memmove(&t->stash[i], &t->stash[i + 1], (t->n_stash - i) * sizeof(t->stash[0]));
                memmove(&t->fds[i], &t->fds[i + 1], (t->n_stash - i) * sizeof(t->fds[0]));
                return answer;
        }
        return NULL;
}

/* The next note for the ledger adds this stream, after it has removed `removed` (0: nothing). added 0: adds nothing. */
static void expect_note(struct side *side, uint32_t removed, uint32_t added, int32_t priority, int non_blocking)
{
        wt_answer *note = take_note(side->t);

        cr_assert_not_null(note);
        cr_expect_eq(note->ledger->session, 1);
        cr_expect_eq(note->ledger->stream_removed, removed);
        cr_assert_eq(note->ledger->stream_added != NULL, added != 0);
        if (added) {
                cr_expect_eq(note->ledger->stream_added->stream, added);
                cr_expect_eq(note->ledger->stream_added->priority, priority);
                cr_expect_eq(note->ledger->stream_added->non_blocking, non_blocking);
        }
        wt_free(note);
}

/* A stream is there for the records behind its own, and its slot is free for the records behind its end. */
Test(worker_object, streams_in_the_order_of_records, .timeout = 60)
{
        struct side side = side_open();

        for (uint32_t i = 1; i <= 50; i++) {
                object(&side, 7, i % 2 ? DS_OBJECT_STREAM : DS_OBJECT_STREAM_NON_BLOCKING, -(int32_t)(i % 3), 0);
                wt_push_poke(&side.client, 7, side.poke, side.memory, i);
                cr_assert_eq(wt_sync_all(side.t, &side.client), 0);
                cr_assert_eq(word(&side, 0), i);
                object(&side, 7, DS_OBJECT_STREAM_END, 0, 0);
        }
        wt_settle(side.t);
        cr_assert_eq(atomic_load(&side.client.page->stream_done[7]), 50, "only launches have numbers");
        cr_assert_eq(atomic_load(&side.client.page->error), 0);
        for (uint32_t i = 1; i <= 50; i++) {
                expect_note(&side, 0, 7, -(int32_t)(i % 3), i % 2 == 0);
                expect_note(&side, 7, 0, 0, 0);
        }
        cr_assert_null(take_note(side.t));
        side_close(&side);
}

/* All slots; requests find the streams of records, and records do not get the slots of requests. */
Test(worker_object, as_many_streams_as_there_are_slots, .timeout = 60)
{
        struct side side = side_open();
        uint32_t slot;

        cr_assert_eq(wt_stream(side.t, &side.client, &slot), 0);
        for (uint32_t i = 1; i < DS_STREAMS_MAX; i++) {
                if (i == slot)
                        continue;
                object(&side, i, DS_OBJECT_STREAM_NON_BLOCKING, 0, 0);
                wt_settle(side.t);
                expect_note(&side, 0, i, 0, 1);
        }
        cr_assert_eq(wt_stream(side.t, &side.client, &slot), DETSHARE__STATUS__QUOTA);
        for (uint32_t i = 1; i < DS_STREAMS_MAX; i++)
                wt_push_poke(&side.client, i, side.poke, side.memory + 4 * i, i);
        cr_assert_eq(wt_sync_all(side.t, &side.client), 0);
        cr_assert_eq(word(&side, 4 * 300), 300);
        object(&side, 300, DS_OBJECT_STREAM_END, 0, 0);
        cr_assert_eq(wt_stream(side.t, &side.client, &slot), 0);
        cr_assert_eq(slot, 300);
        side_close(&side);
}

/* A client creates its streams again in a new worker: one that exists stays, or gets the new attributes. */
Test(worker_object, created_again, .timeout = 60)
{
        struct side side = side_open();

        object(&side, 3, DS_OBJECT_STREAM, -2, 0);
        wt_push_poke(&side.client, 3, side.poke, side.memory, 1);
        cr_assert_eq(wt_sync_all(side.t, &side.client), 0);
        expect_note(&side, 0, 3, -2, 0);
        object(&side, 3, DS_OBJECT_STREAM, -2, 0);
        cr_assert_eq(wt_sync_all(side.t, &side.client), 0);
        cr_assert_null(take_note(side.t));
        object(&side, 3, DS_OBJECT_STREAM_NON_BLOCKING, -2, 0);
        wt_push_poke(&side.client, 3, side.poke, side.memory, 2);
        cr_assert_eq(wt_sync(side.t, &side.client, 3, 2), 0);
        expect_note(&side, 3, 3, -2, 1);
        cr_assert_eq(word(&side, 0), 2);
        side_close(&side);
}

/* Records that no correct client writes: the session fails, and a reset makes it good again. */
Test(worker_object, mistakes, .timeout = 60)
{
        struct side side = side_open();

        for (int what = 0; what < 4; what++) {
                if (what == 0)
                        object(&side, 5, DS_OBJECT_STREAM_END, 0, 0);
                if (what == 1)
                        object(&side, 0, DS_OBJECT_EVENT_END, 0, 12345 + (UINT64_C(1) << 62));
                if (what >= 2) {
                        object(&side, 5, DS_OBJECT_STREAM, 0, 0);
                        wt_push_launch(&side.client, 5, side.spins, 1, 1, NULL, 0);
                        if (what == 3)
                                object(&side, 5, DS_OBJECT_STREAM_END, 0, 0);
                        object(&side, 5, DS_OBJECT_STREAM, -1, 0);
                }
                wt_settle(side.t);
                cr_assert_eq(atomic_load(&side.client.page->error),
                        what == 3 ? DS_CUDA_OUT_OF_MEMORY : DS_CUDA_INVALID_HANDLE, "mistake %d: error %d", what,
                        atomic_load(&side.client.page->error));
                /* nothing is created in a failed session */
                object(&side, 6, DS_OBJECT_STREAM, 0, 0);
                object(&side, 6, DS_OBJECT_STREAM_END, 0, 0);
                cr_assert_eq(wt_reset(side.t, &side.client), 0);
                cr_assert_eq(atomic_load(&side.client.page->error), 0);
                side_load(&side);
        }
        object(&side, 5, DS_OBJECT_STREAM, 0, 0);
        cr_assert_eq(wt_sync_all(side.t, &side.client), 0);
        side_close(&side);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static int elapsed(struct side *side, uint64_t start, uint64_t end)
{
        WT_REQUEST(ask, EVENT_ELAPSED, event_elapsed, EventElapsed, EVENT_ELAPSED, .start = start, .end = end);

        return wt_call_status(side->t, &side->client, &ask);
}

/* Events with the client's ids need no request, and their number is bounded. */
Test(worker_object, events_of_the_client, .timeout = 60)
{
        struct side side = side_open();
        const uint64_t first = DS_EVENT_OF_CLIENT | 1;

        wt_push_event(&side.client, 0, first);
        wt_push_poke(&side.client, 0, side.poke, side.memory, 1);
        wt_push_event(&side.client, 0, first + 1);
        cr_assert_eq(wt_sync_all(side.t, &side.client), 0);
        cr_assert_eq(elapsed(&side, first, first + 1), 0);
        object(&side, 0, DS_OBJECT_EVENT_END, 0, first + 1);
        object(&side, 0, DS_OBJECT_EVENT_END, 0, first + 2);
        for (uint64_t i = 0; i < 3 * DS_EVENTS_MAX; i++) {
                for (int turns = 0; wt_ring_room(&side.client) < 2 || i % 500 == 0; turns++) {
                        cr_assert_lt(turns, 10000);
                        wt_turn(side.t, 0);
                        if (wt_ring_room(&side.client) >= 2)
                                break;
                }
                wt_push_event(&side.client, 0, first + 10 + i);
                object(&side, 0, DS_OBJECT_EVENT_END, 0, first + 10 + i);
        }
        cr_assert_eq(wt_sync_all(side.t, &side.client), 0, "each is destroyed before the next one");
        cr_assert_eq(elapsed(&side, first, first), 0);
        for (uint64_t i = 0; i < DS_EVENTS_MAX; i++) {
                while (wt_ring_room(&side.client) < 2)
                        wt_turn(side.t, 0);
                wt_push_event(&side.client, 0, first + 100000 + i);
        }
        cr_assert_eq(wt_sync_all(side.t, &side.client), DS_CUDA_INVALID_HANDLE, "one more than permitted");
        side_close(&side);
}
