/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole worker under load: waiting requests, limits, full queues, and the holder of the device clock
 */
#include "tests/unit/worker_harness.h"
#include "worker/internal.h"

/* --- waiting, limits, clock --------------------------------------------------------------------------------------- */

/* Waiting requests do not block others, and freeing waits for the work. */
Test(worker_waits, waiting_requests_do_not_block_others, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        WT_REQUEST(sync, SYNC, sync, Sync, SYNC, .all = 1);
        WT_REQUEST(query, QUERY, query, Query, QUERY, .stream = 0);
        uint64_t module, spin, p, sync_id, free_id;
        wt_answer *answer;

        wt_attach(t, &client);
        cr_assert_eq(wt_alloc(t, &client, 100, &p), 0);
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        spin = wt_kernel(t, &client, module, "spins");
        wt_push_launch(&client, 0, spin, 1, 1, NULL, 0);
        sync_id = wt_send_call(t, &client, &sync);
        {
                WT_REQUEST(free_, MEM_FREE, mem_free, MemFree, MEM_FREE, .address = p);

                free_id = wt_send_call(t, &client, &free_);
        }
        answer = wt_call(t, &client, &query);
        cr_assert_eq(answer->reply->query->submitted, 1);
        cr_assert_eq(answer->reply->query->done, 0);
        wt_free(answer);
        cr_assert_null(wt_take(t, sync_id));
        cr_assert_null(wt_take(t, free_id));
        /* memory that is being freed cannot be freed again, nor used for new work */
        cr_assert_eq(wt_mem_free(t, &client, p), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(wt_write(t, &client, p, "x", 1), DS_CUDA_INVALID_VALUE);
        /* closing a client ends its endless kernel, and waiting requests get answers */
        cr_assert_eq(wt_status(t, wt_send_close(t, &client)), 0);
        cr_assert_eq(wt_status(t, sync_id), DETSHARE__STATUS__NO_SUCH);
        cr_assert_eq(wt_status(t, free_id), DETSHARE__STATUS__NO_SUCH);
        cr_assert_eq(wt_worker_stats(t).memory_slabs, 0);
        wt_client_unmap(&client);
        wt_close(t);
}

/* Pushes n launches into the ring; lets the worker run rounds whenever the ring is full. */
static void push_many(struct wt *t, struct wt_client *client, uint64_t kernel, uint64_t n)
{
        for (uint64_t i = 0; i < n; i++) {
                for (int turns = 0; wt_ring_room(client) < 2; turns++) {
                        cr_assert_lt(turns, 10000, "the ring stays full");
                        wt_turn(t, 0);
                }
                wt_push_launch(client, 0, kernel, 1, 32, NULL, 0);
        }
}

/* A declared thread does not wait: the clock stands and nothing ends, so the queue and then the ring fill up. */
Test(worker_waits, a_queue_that_is_full_holds_the_ring, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        WT_REQUEST(join, CLOCK_JOIN, clock_join, ClockJoin, CLOCK_JOIN, .base = {0});
        WT_REQUEST(info, MEM_INFO, mem_info, MemInfo, MEM_INFO, .base = {0});
        uint64_t module, null;

        wt_attach(t, &client);
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        null = wt_kernel(t, &client, module, "null");
        cr_assert_eq(wt_call_status(t, &client, &join), 0);
        push_many(t, &client, null, DS_SCHED_QUEUE_MAX + 100);
        wt_settle(t);
        cr_assert_eq(atomic_load(&client.page->accepted), DS_SCHED_QUEUE_MAX);
        cr_assert_eq(atomic_load(&client.page->completed), 0);
        /* a request behind these launches cannot start: its thread waits, so time may pass */
        cr_assert_eq(wt_call_status(t, &client, &info), 0);
        cr_assert_eq(atomic_load(&client.page->accepted), DS_SCHED_QUEUE_MAX + 100);
        cr_assert_gt(atomic_load(&client.page->completed), 0);
        /* fills the ring: its writer may be waiting for room */
        push_many(t, &client, null, 4 * DS_RING_SLOTS);
        cr_assert_eq(wt_sync_all(t, &client), 0);
        cr_assert_eq(atomic_load(&client.page->stream_done[0]), DS_SCHED_QUEUE_MAX + 100 + 4 * DS_RING_SLOTS);
        wt_client_close(t, &client);
        wt_close(t);
}

/* Order holds: the ring is not read past a request that has no room yet. */
Test(worker_waits, a_stalled_request_holds_the_ring, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        WT_REQUEST(join, CLOCK_JOIN, clock_join, ClockJoin, CLOCK_JOIN, .base = {0});
        WT_REQUEST(leave, CLOCK_LEAVE, clock_leave, ClockLeave, CLOCK_LEAVE, .base = {0});
        uint64_t module, null, id, leave_ids[2];
        uint32_t side;
        wt_answer *answer;

        wt_attach(t, &client);
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        null = wt_kernel(t, &client, module, "null");
        cr_assert_eq(wt_stream(t, &client, &side), 0);
        /* the client declares three threads: two may wait for answers, and the clock still stands */
        for (int i = 0; i < 3; i++)
                cr_assert_eq(wt_call_status(t, &client, &join), 0);
        push_many(t, &client, null, DS_SCHED_QUEUE_MAX);
        wt_settle(t);
        cr_assert_eq(atomic_load(&client.page->accepted), DS_SCHED_QUEUE_MAX);
        {
                WT_REQUEST(launch, LAUNCH, launch, Launch, LAUNCH, .kernel = null, .grid_x = 1, .grid_y = 1,
                        .grid_z = 1, .block_x = 1, .block_y = 1, .block_z = 1);

                id = wt_send_call(t, &client, &launch);
        }
        wt_settle(t);
        wt_push_launch(&client, side, null, 1, 1, NULL, 0);
        wt_settle(t);
        cr_assert_null(wt_take(t, id));
        cr_assert_eq(atomic_load(&client.page->accepted), DS_SCHED_QUEUE_MAX, "the ring was read past the request");
        /* the third thread waits too */
        leave_ids[0] = wt_send_call(t, &client, &leave);
        leave_ids[1] = wt_send_call(t, &client, &leave);
        answer = wt_wait(t, id);
        cr_assert_eq(answer->status, 0);
        cr_assert_eq(answer->reply->submitted->seq, DS_SCHED_QUEUE_MAX + 1);
        wt_free(answer);
        for (int i = 0; i < 2; i++)
                cr_assert_eq(wt_status(t, leave_ids[i]), 0);
        cr_assert_eq(wt_sync_all(t, &client), 0);
        cr_assert_eq(atomic_load(&client.page->stream_done[side]), 1);
        wt_client_close(t, &client);
        wt_close(t);
}

/* A session's operations are bounded over all its streams. */
Test(worker_waits, a_session_holds_only_so_much, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        WT_REQUEST(join, CLOCK_JOIN, clock_join, ClockJoin, CLOCK_JOIN, .base = {0});
        uint64_t module, null;
        uint32_t side;

        wt_attach(t, &client);
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        null = wt_kernel(t, &client, module, "null");
        for (int i = 0; i < 3; i++)
                cr_assert_eq(wt_stream(t, &client, &side), 0);
        cr_assert_eq(wt_call_status(t, &client, &join), 0);
        for (uint32_t i = 0; i < DSW_SESSION_OPS_MAX + 300; i++) {
                wt_push_launch(&client, i % (side + 1), null, 1, 1, NULL, 0);
                if (i % 256 == 0)
                        wt_turn(t, 0);
        }
        wt_settle(t);
        cr_assert_eq(atomic_load(&client.page->accepted), DSW_SESSION_OPS_MAX);
        cr_assert_eq(atomic_load(&client.page->completed), 0);
        cr_assert_eq(wt_sync_all(t, &client), 0);
        cr_assert_eq(atomic_load(&client.page->completed), DSW_SESSION_OPS_MAX + 300);
        wt_client_close(t, &client);
        wt_close(t);
}

Test(worker_waits, reads_and_writes_are_bounded, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        static uint8_t data[DSW_COPY_RPC_MAX + 1], got[DSW_COPY_RPC_MAX + 1];
        uint64_t p;

        for (size_t i = 0; i < sizeof(data); i++)
                data[i] = (uint8_t)(i * 31 + i / 256);
        cr_assert_eq(wt_alloc(t, &client, sizeof(data), &p), 0);
        cr_assert_eq(wt_write(t, &client, p, data, DSW_COPY_RPC_MAX + 1), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(wt_read(t, &client, got, p, DSW_COPY_RPC_MAX + 1), DS_CUDA_INVALID_VALUE);
        /* copies more bytes than the bounce buffer holds, without waiting in between */
        for (int i = 0; i < 50; i++) {
                WT_REQUEST(request, WRITE, write, Write, WRITE, .dst = p);

                request_body.data.data = data;
                request_body.data.len = DSW_COPY_RPC_MAX;
                cr_assert_eq(wt_call_status(t, &client, &request), 0);
        }
        cr_assert_eq(wt_read(t, &client, got, p, DSW_COPY_RPC_MAX), 0);
        cr_assert_arr_eq(got, data, DSW_COPY_RPC_MAX);
        cr_assert_eq(wt_read(t, &client, got, p + 512, 1), 0);
        cr_assert_eq(got[0], data[512]);
        wt_client_close(t, &client);
        wt_close(t);
}

Test(worker_waits, too_many_requests_are_refused, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        WT_REQUEST(sync, SYNC, sync, Sync, SYNC, .all = 1);
        uint64_t module, spin, ids[70];

        wt_attach(t, &client);
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        spin = wt_kernel(t, &client, module, "spins");
        wt_push_launch(&client, 0, spin, 1, 1, NULL, 0);
        for (int i = 0; i < 70; i++)
                ids[i] = wt_send_call(t, &client, &sync);
        for (int i = 64; i < 70; i++)
                cr_assert_eq(wt_status(t, ids[i]), DETSHARE__STATUS__QUOTA);
        /* a reset is a request too */
        wt_settle(t);
        cr_assert_eq(wt_reset(t, &client), DETSHARE__STATUS__QUOTA);
        cr_assert_eq(wt_status(t, wt_send_close(t, &client)), 0);
        for (int i = 0; i < 64; i++)
                cr_assert_eq(wt_status(t, ids[i]), DETSHARE__STATUS__NO_SUCH);
        wt_client_unmap(&client);
        wt_close(t);
}

static uint64_t clock_now(wt_answer *answer)
{
        uint64_t now = answer->reply->clock->now_ns;

        cr_assert_eq(answer->status, 0);
        cr_assert_eq(answer->reply->clock->simulated, 1);
        wt_free(answer);
        return now;
}

static uint64_t send_sleep(struct wt *t, struct wt_client *client, uint64_t ns)
{
        WT_REQUEST(sleep_, SLEEP_UNTIL, sleep_until, SleepUntil, SLEEP_UNTIL, .ns = ns);

        return wt_send_call(t, client, &sleep_);
}

/* Virtual time passes only while every declared thread of every session waits. */
Test(worker_waits, the_clock_waits_for_declared_threads, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client one = wt_client(t, 1, DETSHARE__CLASS__LS), two = wt_client(t, 2, DETSHARE__CLASS__BE);
        WT_REQUEST(join, CLOCK_JOIN, clock_join, ClockJoin, CLOCK_JOIN, .base = {0});
        WT_REQUEST(leave, CLOCK_LEAVE, clock_leave, ClockLeave, CLOCK_LEAVE, .base = {0});
        uint64_t start, a, b, a2;

        wt_attach(t, &one);
        start = clock_now(wt_call(t, &one, &join));
        cr_assert_eq(atomic_load(&one.page->now_ns), start);
        cr_assert_eq(clock_now(wt_call(t, &two, &join)), start);
        a = send_sleep(t, &one, start + 5000);
        wt_settle(t);
        cr_assert_null(wt_take(t, a));
        b = send_sleep(t, &two, start + 3000);
        cr_assert_eq(clock_now(wt_wait(t, b)), start + 3000);
        wt_settle(t);
        /* client two runs at virtual time 3000 and holds the clock */
        cr_assert_null(wt_take(t, a));
        b = send_sleep(t, &two, start + 9000);
        cr_assert_eq(clock_now(wt_wait(t, a)), start + 5000);
        cr_assert_eq(atomic_load(&one.page->now_ns), start + 5000);
        wt_settle(t);
        cr_assert_null(wt_take(t, b));
        /* client one has a second declared thread: both must wait */
        cr_assert_eq(clock_now(wt_call(t, &one, &join)), start + 5000);
        a = send_sleep(t, &one, start + 6000);
        wt_settle(t);
        cr_assert_null(wt_take(t, a));
        a2 = send_sleep(t, &one, start + 5500);
        cr_assert_eq(clock_now(wt_wait(t, a2)), start + 5500);
        wt_settle(t);
        cr_assert_null(wt_take(t, a));
        cr_assert_eq(clock_now(wt_call(t, &one, &leave)), start + 5500);
        cr_assert_eq(clock_now(wt_wait(t, a)), start + 6000);
        cr_assert_eq(clock_now(wt_call(t, &one, &leave)), start + 6000);
        cr_assert_eq(clock_now(wt_wait(t, b)), start + 9000);
        /* a sleep that is too long is refused; a sleep until a past time ends at once */
        cr_assert_eq(wt_status(t, send_sleep(t, &two, UINT64_MAX)), DETSHARE__STATUS__BAD_PARAMETER);
        cr_assert_eq(clock_now(wt_wait(t, send_sleep(t, &two, 0))), start + 9000);
        wt_client_close(t, &one);
        wt_client_close(t, &two);
        wt_close(t);
}

/* A declared thread that is silent for 5 s loses its hold once another session needs the clock, and not before. */
Test(worker_waits, a_silent_holder_is_dropped, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client one = wt_client(t, 1, DETSHARE__CLASS__LS), two = wt_client(t, 2, DETSHARE__CLASS__BE);
        WT_REQUEST(join, CLOCK_JOIN, clock_join, ClockJoin, CLOCK_JOIN, .base = {0});
        uint64_t start, b;

        start = clock_now(wt_call(t, &one, &join));
        b = send_sleep(t, &two, start + 1000);
        wt_settle(t);
        cr_assert_null(wt_take(t, b));
        wt_wall += 4 * DS_NS_PER_S;
        wt_settle(t);
        cr_assert_null(wt_take(t, b));
        wt_wall += 2 * DS_NS_PER_S;
        cr_assert_eq(clock_now(wt_wait(t, b)), start + 1000);
        wt_client_close(t, &one);
        wt_client_close(t, &two);
        wt_close(t);
}

/* The page's time of the event, recorded as this operation, read while the worker does not write it. */
static uint64_t time_of(const struct wt_client *client, uint64_t event, uint32_t stream, uint64_t seq)
{
        const struct ds_event_time *time = &client->page->times[event % DS_EVENT_TIMES];

        cr_assert(time->event == event && time->stream == stream && time->seq == seq);
        cr_assert(time->turn && time->turn % 2 == 0);
        return time->ns;
}

Test(worker_waits, events_have_times, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        uint64_t module, null, start, end, seq, now;
        wt_answer *answer;

        wt_attach(t, &client);
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        null = wt_kernel(t, &client, module, "null");
        start = wt_new_event(t, &client);
        end = wt_new_event(t, &client);
        {
                WT_REQUEST(
                        elapsed, EVENT_ELAPSED, event_elapsed, EventElapsed, EVENT_ELAPSED, .start = start, .end = end);
                WT_REQUEST(destroy, EVENT_DESTROY, event_destroy, EventDestroy, EVENT_DESTROY, .event = end);

                cr_assert_eq(wt_call_status(t, &client, &elapsed), DS_CUDA_NOT_READY);
                wt_push_event(&client, 0, start);
                for (int i = 0; i < 10; i++)
                        wt_push_launch(&client, 0, null, 132, 128, NULL, 0);
                wt_push_event(&client, 0, end);
                cr_assert_eq(wt_sync(t, &client, 0, 12), 0);
                answer = wt_call(t, &client, &elapsed);
                cr_assert_eq(answer->status, 0);
                cr_assert_gt(answer->reply->event_elapsed->ns, 1000);
                cr_assert_lt(answer->reply->event_elapsed->ns, 1000000);
                cr_assert_eq(answer->reply->event_elapsed->ns,
                        (int64_t)(time_of(&client, end, 0, 12) - time_of(&client, start, 0, 1)));
                wt_free(answer);
                cr_assert_eq(wt_call_status(t, &client, &destroy), 0);
                cr_assert_eq(wt_call_status(t, &client, &destroy), DS_CUDA_INVALID_HANDLE);
                cr_assert_eq(wt_call_status(t, &client, &elapsed), DS_CUDA_INVALID_HANDLE);
        }
        /* the event is recorded again and that has not ended yet: its old time is gone */
        {
                WT_REQUEST(join, CLOCK_JOIN, clock_join, ClockJoin, CLOCK_JOIN, .base = {0});
                WT_REQUEST(elapsed, EVENT_ELAPSED, event_elapsed, EventElapsed, EVENT_ELAPSED, .start = start,
                        .end = start);
                WT_REQUEST(leave, CLOCK_LEAVE, clock_leave, ClockLeave, CLOCK_LEAVE, .base = {0});

                cr_assert_eq(wt_call_status(t, &client, &elapsed), 0);
                now = clock_now(wt_call(t, &client, &join));
                wt_push_event(&client, 0, start);
                wt_push_launch(&client, 0, null, 1, 1, NULL, 0);
                wt_push_event(&client, 0, start);
                wt_settle(t);
                cr_assert_eq(atomic_load(&client.page->stream_done[0]), 12, "decided while a declared thread ran");
                /* nothing is before the first event, so it ends at once; the kernel before the second event takes
                 * longer than the declared thread sleeps */
                cr_assert_eq(clock_now(wt_wait(t, send_sleep(t, &client, now + 1))), now + 1);
                wt_settle(t);
                cr_assert_eq(atomic_load(&client.page->stream_done[0]), 13);
                cr_assert_eq(wt_call_status(t, &client, &elapsed), DS_CUDA_NOT_READY);
                cr_assert_eq(client.page->times[start % DS_EVENT_TIMES].seq, 1, "still the first time");
                cr_assert_eq(wt_call_status(t, &client, &leave), 0);
                cr_assert_eq(wt_sync(t, &client, 0, 15), 0);
                (void)time_of(&client, start, 0, 15);
                cr_assert_eq(wt_call_status(t, &client, &elapsed), 0);
        }
        /* the same with requests on the socket */
        {
                WT_REQUEST(record, EVENT_RECORD, event_record, EventRecord, EVENT_RECORD, .event = start);

                answer = wt_call(t, &client, &record);
                seq = answer->reply->submitted->seq;
                cr_assert_eq(seq, 16);
                wt_free(answer);
                record_body.event = end;
                cr_assert_eq(wt_call_status(t, &client, &record), DS_CUDA_INVALID_HANDLE);
        }
        wt_client_close(t, &client);
        wt_close(t);
}
