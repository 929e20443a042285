/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions, waits for values and shared events in the worker: which function is called, in which order, what a
 * client's report of completion is worth, and that they delay their stream only
 */
#include "tests/unit/worker_harness.h"

struct scene {
        struct wt *t;
        struct wt_client a, b;
        uint64_t kernel, address;
};

static struct scene scene_open(void)
{
        struct scene scene = {.t = wt_open(FUNCTIONAL)};
        uint64_t module;

        /* reading the clock advances it, because freeing pinned memory waits for a while without LS, in real time */
        wt_tick = 100 * DS_NS_PER_US;
        scene.a = wt_client(scene.t, 1, DETSHARE__CLASS__BE);
        scene.b = wt_client(scene.t, 2, DETSHARE__CLASS__LS);
        wt_attach(scene.t, &scene.a);
        wt_attach(scene.t, &scene.b);
        cr_assert_eq(wt_module(scene.t, &scene.a, DT_PTX, &module), 0);
        scene.kernel = wt_kernel(scene.t, &scene.a, module, "poke");
        cr_assert_eq(wt_alloc(scene.t, &scene.a, 4096, &scene.address), 0);
        return scene;
}

static void scene_close(struct scene *scene)
{
        wt_client_close(scene->t, &scene->a);
        wt_client_close(scene->t, &scene->b);
        wt_close(scene->t);
}

static void push_host(struct wt_client *client, uint32_t stream, uint64_t id)
{
        struct ds_record_host record = {.head = {DS_RECORD_HOST, (uint16_t)stream, sizeof(record)}, .id = id};

        wt_push(client, &record, sizeof(record));
}

static void push_value(
        struct wt_client *client, uint32_t stream, uint32_t kind, uint32_t bytes, uint64_t address, uint64_t value)
{
        struct ds_record_value record = {.head = {DS_RECORD_VALUE, (uint16_t)stream, sizeof(record)},
                .kind = kind,
                .bytes = bytes,
                .address = address,
                .value = value};

        wt_push(client, &record, sizeof(record));
}

static uint64_t called(struct wt_client *client)
{
        return atomic_load(&client->page->host_calls);
}

static void say_done(struct wt_client *client, uint64_t n)
{
        struct ds_ring_header *header = (void *)client->ring;
        uint64_t one = 1;

        atomic_store(&header->host_done, n);
        if (atomic_load(&client->page->asleep))
                cr_assert_eq(write(client->event_fd, &one, sizeof(one)), sizeof(one));
}

static uint64_t done(struct wt_client *client, uint32_t stream)
{
        return atomic_load(&client->page->stream_done[stream]);
}

Test(worker_host, is_due_when_all_before_it_has_ended, .timeout = 60)
{
        struct scene scene = scene_open();
        uint32_t other, word = 0;

        cr_assert_eq(wt_stream(scene.t, &scene.a, &other), 0);
        wt_push_poke(&scene.a, 0, scene.kernel, scene.address, 5);
        push_host(&scene.a, 0, 77);
        wt_push_poke(&scene.a, 0, scene.kernel, scene.address + 4, 6);
        wt_push_wait(&scene.a, other, 0, 2);
        cr_assert_eq(wt_sync(scene.t, &scene.a, 0, 1), 0);
        wt_settle(scene.t);
        cr_assert_eq(called(&scene.a), 1);
        cr_assert_eq(atomic_load(&scene.a.page->host_ids[0]), 77);
        cr_assert_eq(done(&scene.a, 0), 1);
        cr_assert_eq(done(&scene.a, other), 0);
        /* the client's kernels run in another stream, which does not join the waiting one */
        cr_assert_eq(wt_stream(scene.t, &scene.a, &other), 0);
        wt_push_poke(&scene.a, other, scene.kernel, scene.address + 8, 7);
        cr_assert_eq(wt_sync(scene.t, &scene.a, other, 0), 0);
        say_done(&scene.a, 1);
        cr_assert_eq(wt_sync_all(scene.t, &scene.a), 0);
        cr_assert_eq(wt_read(scene.t, &scene.a, &word, scene.address + 4, 4), 0);
        cr_assert_eq(word, 6);
        scene_close(&scene);
}

static void expect_beside(struct scene *scene, uint32_t a, uint32_t b)
{
        wt_settle(scene->t);
        cr_assert_eq(atomic_load(&scene->a.page->beside), a);
        cr_assert_eq(atomic_load(&scene->b.page->beside), b);
}

Test(worker_host, pages_say_whether_the_other_class_has_work, .timeout = 60)
{
        struct scene scene = scene_open();

        expect_beside(&scene, 0, 0);
        push_host(&scene.b, 0, 1);
        expect_beside(&scene, 1, 0);
        push_host(&scene.a, 0, 2);
        expect_beside(&scene, 1, 1);
        say_done(&scene.b, 1);
        expect_beside(&scene, 0, 1);
        say_done(&scene.a, 1);
        expect_beside(&scene, 0, 0);
        scene_close(&scene);
}

Test(worker_host, no_more_than_fit_are_called_and_all_in_order, .timeout = 60)
{
        struct scene scene = scene_open();
        uint32_t streams[100];

        for (uint32_t i = 0; i < 100; i++) {
                cr_assert_eq(wt_stream(scene.t, &scene.a, &streams[i]), 0);
                push_host(&scene.a, streams[i], 1000 + i);
        }
        wt_settle(scene.t);
        cr_assert_eq(called(&scene.a), DS_HOST_CALLS);
        for (uint32_t i = 0; i < 100; i++) {
                cr_assert_gt(called(&scene.a), i);
                cr_assert_eq(atomic_load(&scene.a.page->host_ids[i % DS_HOST_CALLS]), 1000 + i);
                say_done(&scene.a, i + 1);
                wt_settle(scene.t);
                cr_assert_eq(done(&scene.a, streams[i]), 1);
                cr_assert_leq(called(&scene.a) - (i + 1), DS_HOST_CALLS);
        }
        scene_close(&scene);
}

static void expect_fault(uint64_t calls, uint64_t said)
{
        struct scene scene = scene_open();
        wt_answer *fault = NULL;

        for (uint64_t i = 0; i < calls; i++)
                push_host(&scene.a, 0, i);
        wt_settle(scene.t);
        say_done(&scene.a, said);
        wt_settle(scene.t);
        for (size_t i = 0; i < scene.t->n_stash; i++)
                if (scene.t->stash[i]->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_FAULT)
                        fault = scene.t->stash[i];
        cr_assert_not_null(fault);
        cr_assert_eq(fault->fault->session, 1);
        cr_assert_not_null(strstr(fault->fault->reason, "not called"));
        /* the fault does not affect the other session */
        wt_push_event(&scene.b, 0, 0);
        cr_assert_eq(wt_sync(scene.t, &scene.b, 0, 1), 0);
        scene_close(&scene);
}

Test(worker_host, more_returned_than_called, .timeout = 60)
{
        expect_fault(1, 2);
}

Test(worker_host, returned_but_none_called, .timeout = 60)
{
        expect_fault(0, UINT64_MAX);
}

/* A reset drops a running function: it is counted when it returns, and numbering continues from there. */
Test(worker_host, a_reset_drops_it_and_the_count_continues, .timeout = 60)
{
        struct scene scene = scene_open();

        push_host(&scene.a, 0, 1);
        push_host(&scene.a, 0, 2);
        wt_settle(scene.t);
        cr_assert_eq(called(&scene.a), 1);
        cr_assert_eq(wt_reset(scene.t, &scene.a), 0);
        cr_assert_eq(done(&scene.a, 0), 2);
        push_host(&scene.a, 0, 3);
        wt_settle(scene.t);
        cr_assert_eq(called(&scene.a), 2);
        cr_assert_eq(atomic_load(&scene.a.page->host_ids[1]), 3);
        say_done(&scene.a, 1);
        wt_settle(scene.t);
        cr_assert_eq(done(&scene.a, 0), 2);
        say_done(&scene.a, 2);
        wt_settle(scene.t);
        cr_assert_eq(done(&scene.a, 0), 3);
        scene_close(&scene);
}

/* A running host function delays no call that stops the device, of its own or another session. It does not delay the
 * end of its session either. */
Test(worker_host, a_quiesce_and_a_close_do_not_wait_for_it, .timeout = 60)
{
        struct scene scene = scene_open();
        WT_REQUEST(pinned, PINNED_ALLOC, pinned_alloc, PinnedAlloc, PINNED_ALLOC, .bytes = 4096);
        uint64_t module;

        push_host(&scene.a, 0, 1);
        push_value(&scene.a, 0, DS_VALUE_EQ, 4, scene.address, 12345);
        wt_settle(scene.t);
        cr_assert_eq(wt_module(scene.t, &scene.b, DT_PTX, &module), 0);
        cr_assert_eq(wt_call_status(scene.t, &scene.b, &pinned), 0);
        cr_assert_eq(wt_call_status(scene.t, &scene.a, &pinned), 0);
        cr_assert_eq(called(&scene.a), 1);
        cr_assert_eq(done(&scene.a, 0), 0);
        scene_close(&scene);
}

Test(worker_host, by_request, .timeout = 60)
{
        struct scene scene = {.t = wt_open(FUNCTIONAL)};
        WT_REQUEST(call, HOST_CALL, host_call, HostCall, HOST_CALL, .id = 5);
        WT_REQUEST(next, HOST_NEXT, host_next, HostNext, HOST_NEXT, .done = 0);
        uint64_t waiting, number;
        wt_answer *answer;

        scene.a = wt_client(scene.t, 1, DETSHARE__CLASS__BE);
        scene.b = wt_client(scene.t, 2, DETSHARE__CLASS__BE);
        waiting = wt_send_call(scene.t, &scene.a, &next);
        wt_settle(scene.t);
        cr_assert_null(wt_take(scene.t, waiting));
        cr_assert_eq(wt_call_status(scene.t, &scene.a, &call), 0);
        answer = wt_wait(scene.t, waiting);
        cr_assert_eq(answer->status, 0);
        cr_assert_eq(answer->reply->host_next->id, 5);
        number = answer->reply->host_next->number;
        wt_free(answer);
        cr_assert_eq(done(&scene.a, 0), 0);
        /* a number from another session's function has no effect */
        next_body.done = number;
        wt_send_call(scene.t, &scene.b, &next);
        wt_settle(scene.t);
        cr_assert_eq(done(&scene.a, 0), 0);
        wt_send_call(scene.t, &scene.a, &next);
        wt_settle(scene.t);
        cr_assert_eq(done(&scene.a, 0), 1);
        scene_close(&scene);
}

/* The virtual clock stands while a declared thread waits for a host function that runs, but not for ever. */
Test(worker_host, a_running_function_holds_the_clock, .timeout = 60)
{
        struct scene scene = scene_open();
        WT_REQUEST(join, CLOCK_JOIN, clock_join, ClockJoin, CLOCK_JOIN, .base = {0});
        WT_REQUEST(sync, SYNC, sync, Sync, SYNC, .stream = 0);
        WT_REQUEST(nap, SLEEP_UNTIL, sleep_until, SleepUntil, SLEEP_UNTIL, .ns = 0);
        uint64_t synced, slept;

        cr_assert_eq(wt_call_status(scene.t, &scene.a, &join), 0);
        push_host(&scene.a, 0, 1);
        synced = wt_send_call(scene.t, &scene.a, &sync);
        wt_settle(scene.t);
        cr_assert_eq(called(&scene.a), 1);
        nap_body.ns = atomic_load(&scene.a.page->now_ns) + 1000000;
        slept = wt_send_call(scene.t, &scene.b, &nap);
        wt_settle(scene.t);
        cr_assert_null(wt_take(scene.t, slept));
        say_done(&scene.a, 1);
        cr_assert_eq(wt_status(scene.t, synced), 0);
        /* a declared thread now waits for a function that does not return: time continues after a while */
        push_host(&scene.a, 0, 2);
        wt_send_call(scene.t, &scene.a, &sync);
        wt_settle(scene.t);
        cr_assert_null(wt_take(scene.t, slept));
        wt_wall += 5 * DS_NS_PER_S; /* the longest that a silent client may hold the clock */
        cr_assert_eq(wt_status(scene.t, slept), 0);
        scene_close(&scene);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

Test(worker_host, waits_for_a_value_that_other_work_writes, .timeout = 60)
{
        struct scene scene = scene_open();
        uint32_t other, zero[4] = {0}, word = 0;

        cr_assert_eq(wt_stream(scene.t, &scene.a, &other), 0);
        cr_assert_eq(wt_write(scene.t, &scene.a, scene.address, zero, sizeof(zero)), 0);
        push_value(&scene.a, other, DS_VALUE_GEQ, 4, scene.address, 3);
        push_value(&scene.a, other, DS_VALUE_WRITE, 4, scene.address + 4, 9);
        wt_settle(scene.t);
        cr_assert_eq(done(&scene.a, other), 0);
        wt_push_poke(&scene.a, 0, scene.kernel, scene.address, 2);
        cr_assert_eq(wt_sync(scene.t, &scene.a, 0, 0), 0);
        wt_settle(scene.t);
        cr_assert_eq(done(&scene.a, other), 0);
        wt_push_poke(&scene.a, 0, scene.kernel, scene.address, 4);
        cr_assert_eq(wt_sync(scene.t, &scene.a, other, 0), 0);
        cr_assert_eq(wt_read(scene.t, &scene.a, &word, scene.address + 4, 4), 0);
        cr_assert_eq(word, 9);
        scene_close(&scene);
}

Test(worker_host, a_value_that_never_comes_holds_its_stream_only, .timeout = 60)
{
        struct scene scene = scene_open();
        uint32_t streams[50], zero = 0;

        cr_assert_eq(wt_write(scene.t, &scene.a, scene.address, &zero, sizeof(zero)), 0);
        for (uint32_t i = 0; i < 50; i++) {
                cr_assert_eq(wt_stream(scene.t, &scene.a, &streams[i]), 0);
                push_value(&scene.a, streams[i], DS_VALUE_EQ, 4, scene.address, 1);
        }
        for (int i = 0; i < 20; i++) {
                wt_settle(scene.t);
                wt_wall += 5 * DS_NS_PER_MS;
        }
        for (uint32_t i = 0; i < 50; i++)
                cr_assert_eq(done(&scene.a, streams[i]), 0);
        wt_push_poke(&scene.a, 0, scene.kernel, scene.address + 8, 2);
        cr_assert_eq(wt_sync(scene.t, &scene.a, 0, 0), 0);
        wt_push_event(&scene.b, 0, 0);
        cr_assert_eq(wt_sync(scene.t, &scene.b, 0, 1), 0);
        cr_assert_eq(wt_reset(scene.t, &scene.a), 0);
        scene_close(&scene);
}

Test(worker_host, a_value_outside_of_memory_is_refused, .timeout = 60)
{
        struct scene scene = scene_open();

        push_value(&scene.a, 0, DS_VALUE_EQ, 8, scene.address + 4092, 1);
        wt_settle(scene.t);
        cr_assert_eq(atomic_load(&scene.a.page->error), DS_CUDA_INVALID_VALUE);
        push_value(&scene.b, 0, DS_VALUE_WRITE, 4, scene.address, 1);
        wt_settle(scene.t);
        cr_assert_eq(atomic_load(&scene.b.page->error), DS_CUDA_INVALID_VALUE);
        scene_close(&scene);
}

/* --- shared events ------------------------------------------------------------------------------------------------ */

static int shared(struct wt *t, struct wt_client *client, Detshare__SharedEventOp op, uint64_t event,
        ProtobufCBinaryData token, uint64_t seq, Detshare__SharedEventReply *ret, uint8_t ret_token[32])
{
        WT_REQUEST(request, SHARED_EVENT, shared_event, SharedEvent, SHARED_EVENT, .op = op, .event = event,
                .token = token, .seq = seq);
        wt_answer *answer = wt_call(t, client, &request);
        int status = answer->status;

        if (!status && answer->reply->shared_event) {
                *ret = *answer->reply->shared_event;
                if (ret->token.len == 32)
                        memcpy(ret_token, ret->token.data, 32);
        }
        wt_free(answer);
        return status;
}

Test(worker_host, shared_events, .timeout = 60)
{
        struct scene scene = scene_open();
        uint8_t token[32] = {0}, none[32];
        const ProtobufCBinaryData no_token = {0}, by_token = {.len = 32, .data = token}, wrong = {.len = 31, token};
        Detshare__SharedEventReply made, opened, looked;
        struct ds_record_wait wait = {.head = {DS_RECORD_WAIT, 0, sizeof(wait)}, .shared = 1};

        cr_assert_eq(
                shared(scene.t, &scene.a, DETSHARE__SHARED_EVENT_OP__SHARED_CREATE, 0, no_token, 0, &made, token), 0);
        cr_assert_neq(shared(scene.t, &scene.b, DETSHARE__SHARED_EVENT_OP__SHARED_OPEN, 0, wrong, 0, &opened, none), 0);
        token[5] ^= 1;
        cr_assert_neq(
                shared(scene.t, &scene.b, DETSHARE__SHARED_EVENT_OP__SHARED_OPEN, 0, by_token, 0, &opened, none), 0);
        token[5] ^= 1;
        cr_assert_eq(
                shared(scene.t, &scene.b, DETSHARE__SHARED_EVENT_OP__SHARED_OPEN, 0, by_token, 0, &opened, none), 0);
        /* ids of shared events belong to one session */
        cr_assert_eq(shared(scene.t, &scene.b, DETSHARE__SHARED_EVENT_OP__SHARED_QUERY, made.event, no_token, 0,
                             &looked, none),
                DS_CUDA_INVALID_HANDLE);
        push_host(&scene.a, 0, 1);
        wt_settle(scene.t);
        cr_assert_eq(shared(scene.t, &scene.a, DETSHARE__SHARED_EVENT_OP__SHARED_RECORD, made.event, no_token, 1,
                             &looked, none),
                0);
        cr_assert_neq(shared(scene.t, &scene.a, DETSHARE__SHARED_EVENT_OP__SHARED_RECORD, made.event, no_token, 2,
                              &looked, none),
                0, "behind what was not submitted");
        cr_assert_eq(shared(scene.t, &scene.b, DETSHARE__SHARED_EVENT_OP__SHARED_QUERY, opened.event, no_token, 0,
                             &looked, none),
                0);
        cr_assert_not(looked.done);
        wait.seq = opened.event;
        wt_push(&scene.b, &wait, sizeof(wait));
        wt_settle(scene.t);
        cr_assert_eq(done(&scene.b, 0), 0);
        /* the recording session closes with its function due: the event counts as completed */
        wt_client_close(scene.t, &scene.a);
        cr_assert_eq(wt_sync(scene.t, &scene.b, 0, 1), 0);
        cr_assert_eq(shared(scene.t, &scene.b, DETSHARE__SHARED_EVENT_OP__SHARED_QUERY, opened.event, no_token, 0,
                             &looked, none),
                0);
        cr_assert(looked.done);
        wt_client_close(scene.t, &scene.b);
        wt_close(scene.t);
}
