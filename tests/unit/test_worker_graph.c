/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs in the worker: creation, launches in parts, updates, removal; and invalid files
 */
#include "tests/unit/graph_fixture.h"
#include "worker/ring.h"

Test(worker_graph, parts_run_in_order_and_count_one, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        uint32_t expected = 0;
        uint64_t graph;

        steps(&side, 100); /* so many nodes that the replay needs several windows */
        cr_assert_eq(create(t, &side, &graph), 0);
        for (int i = 0; i < 3; i++) {
                launch(&side, 0, graph);
                wt_push_poke(&side.client, 0, side.step, side.memory, 7);
                expected = stepped(expected, 100) * 3 + 7;
        }
        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        cr_assert_eq(word(t, &side, 0), expected);
        cr_assert_eq(atomic_load(&side.client.page->stream_done[0]), 7, "six operations and the read");
        cr_assert_eq(wt_worker_stats(t).launches, 303);
        cr_assert_eq(wt_worker_stats(t).completed, 304, "and the read");
        cr_assert_eq(destroy(t, &side, graph), 0);
        cr_assert_eq(destroy(t, &side, graph), DS_CUDA_INVALID_HANDLE);
        wt_client_close(t, &side.client);
        wt_close(t);
}

Test(worker_graph, every_kind_of_node, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__LS);
        struct ds_record nothing = {.type = DS_RECORD_PAD, .size = sizeof(nothing)};
        uint64_t begin = wt_new_event(t, &side.client), end = wt_new_event(t, &side.client), graph;
        WT_REQUEST(elapsed, EVENT_ELAPSED, event_elapsed, EventElapsed, EVENT_ELAPSED, .start = begin, .end = end);

        gf_begin(&file);
        gf_event(&file, begin);
        gf_memset(&file, side.memory, 5, 16);
        gf_add(&file, &nothing, sizeof(nothing), NULL, 0, 0);
        gf_poke(&file, side.step, side.memory, 1);
        gf_copy(&file, side.memory + 64, side.memory, 16);
        gf_poke(&file, side.step, side.memory, 1);
        gf_event(&file, end);
        gf_end(&file);
        cr_assert_eq(create(t, &side, &graph), 0);
        launch(&side, 0, graph);
        launch(&side, 0, graph);
        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        cr_assert_eq(word(t, &side, 0), 49);
        cr_assert_eq(word(t, &side, 64), 16);
        cr_assert_eq(word(t, &side, 68), 5);
        cr_assert_eq(wt_call_status(t, &side.client, &elapsed), 0);
        cr_assert_eq(atomic_load(&side.client.page->stream_done[0]), 5);
        wt_client_close(t, &side.client);
        wt_close(t);
}

/* Host functions of the client and waits for values keep their places in the order. */
Test(worker_graph, host_functions_and_values, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        struct ds_record_host host = {.head = {DS_RECORD_HOST, 0, sizeof(host)}, .id = 4711};
        struct ds_record_value value = {.head = {DS_RECORD_VALUE, 0, sizeof(value)}, .bytes = 4};
        struct ds_ring_header *header = (void *)side.client.ring;
        struct ds_completion_page *page = side.client.page;
        const uint64_t one = 1;
        uint64_t graph;

        gf_begin(&file);
        gf_poke(&file, side.step, side.memory, 1);
        gf_add(&file, &host, sizeof(host), NULL, 0, 0);
        gf_poke(&file, side.step, side.memory, 2);
        value.kind = DS_VALUE_WRITE;
        value.address = side.memory + 8;
        value.value = 99;
        gf_add(&file, &value, sizeof(value), NULL, 0, 0);
        value.kind = DS_VALUE_EQ;
        gf_add(&file, &value, sizeof(value), NULL, 0, 0);
        gf_poke(&file, side.step, side.memory, 3);
        gf_end(&file);
        cr_assert_eq(create(t, &side, &graph), 0);
        for (uint32_t i = 1; i <= 3; i++) {
                launch(&side, 0, graph);
                for (int n = 0; n < WT_TURNS && atomic_load(&page->host_calls) < i; n++)
                        wt_turn(t, 1);
                cr_assert_eq(atomic_load(&page->host_calls), i);
                cr_assert_eq(atomic_load(&page->host_ids[(i - 1) % DS_HOST_CALLS]), 4711);
                cr_assert_eq(atomic_load(&page->stream_done[0]), 2 * i - 2);
                atomic_store(&header->host_done, i);
                cr_assert_eq(write(side.client.event_fd, &one, sizeof(one)), sizeof(one));
                for (int n = 0; n < WT_TURNS && atomic_load(&page->stream_done[0]) < 2 * i - 1; n++) {
                        wt_wall += 100 * DS_NS_PER_US;
                        wt_turn(t, 1);
                }
                cr_assert_eq(word(t, &side, 8), 99);
        }
        cr_assert_eq(word(t, &side, 0), ((18 * 27 + 18) * 27 + 18));
        /* a node that waits for a value outside of any memory */
        gf_begin(&file);
        value.address = 4096;
        gf_add(&file, &value, sizeof(value), NULL, 0, 0);
        gf_end(&file);
        cr_assert_eq(create(t, &side, &graph), DS_CUDA_INVALID_VALUE);
        wt_client_close(t, &side.client);
        wt_close(t);
}

/* A reset while a host function of a graph runs: a client whose function does not return, and one that disconnects. */
Test(worker_graph, a_reset_while_a_function_runs, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        struct ds_record_host host = {.head = {DS_RECORD_HOST, 0, sizeof(host)}, .id = 1};
        uint64_t graph;

        gf_begin(&file);
        for (int i = 0; i < 50; i++)
                gf_add(&file, &host, sizeof(host), NULL, 0, 0);
        gf_end(&file);
        for (int round = 0; round < 2; round++) {
                cr_assert_eq(create(t, &side, &graph), 0);
                for (int i = 0; i < 4; i++)
                        launch(&side, 0, graph);
                wt_settle(t);
                cr_assert_gt(atomic_load(&side.client.page->host_calls), 0);
                if (!round)
                        cr_assert_eq(wt_reset(t, &side.client), 0);
        }
        wt_client_close(t, &side.client);
        wt_close(t);
}

Test(worker_graph, launches_keep_their_initial_graph, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        uint64_t graph;

        steps(&side, 40);
        cr_assert_eq(create(t, &side, &graph), 0);
        launch(&side, 0, graph);
        gf_begin(&file);
        for (uint32_t i = 0; i < 40; i++)
                gf_poke(&file, side.poke, side.memory + 4, i);
        gf_end(&file);
        cr_assert_eq(update(t, &side, graph), 0);
        launch(&side, 0, graph);
        cr_assert_eq(destroy(t, &side, graph), 0, "with launches under way");
        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        cr_assert_eq(word(t, &side, 0), stepped(0, 40));
        cr_assert_eq(word(t, &side, 4), 39);
        cr_assert_eq(update(t, &side, graph), DS_CUDA_INVALID_HANDLE);
        /* a graph with other nodes than the instantiated one is no valid update */
        steps(&side, 3);
        cr_assert_eq(create(t, &side, &graph), 0);
        steps(&side, 4);
        cr_assert_eq(update(t, &side, graph), DS_CUDA_INVALID_VALUE);
        gf_begin(&file);
        gf_poke(&file, side.step, side.memory, 1);
        gf_memset(&file, side.memory, 1, 1);
        gf_poke(&file, side.step, side.memory, 1);
        gf_end(&file);
        cr_assert_eq(update(t, &side, graph), DS_CUDA_INVALID_VALUE);
        launch(&side, 0, graph);
        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        cr_assert_eq(word(t, &side, 0), stepped(stepped(0, 40), 3));
        wt_client_close(t, &side.client);
        wt_close(t);
}

/* Streams wait for a graph launch as for any operation, and the graph waits for earlier operations. */
Test(worker_graph, other_streams_wait_for_all_of_it, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        uint32_t stream;
        uint64_t graph;

        cr_assert_eq(wt_stream(t, &side.client, &stream), 0);
        steps(&side, 50);
        cr_assert_eq(create(t, &side, &graph), 0);
        for (uint64_t i = 0; i < 4; i++) {
                launch(&side, stream, graph);
                wt_push_wait(&side.client, 0, stream, 2 * i + 1);
                launch(&side, 0, graph);
                wt_push_wait(&side.client, stream, 0, 2 * i + 2);
        }
        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        cr_assert_eq(word(t, &side, 0),
                stepped(stepped(stepped(stepped(stepped(stepped(stepped(stepped(0, 50), 50), 50), 50), 50), 50), 50),
                        50));
        wt_client_close(t, &side.client);
        wt_close(t);
}

#ifndef GRAPH_CUDA /* on the cuda device a fault ends the worker: test_cuda_graph.c */
Test(worker_graph, a_fault_in_a_part_is_the_sessions, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE), other = side_open(t, 2, DETSHARE__CLASS__LS);
        struct ds_record_launch trap = {.head = {DS_RECORD_LAUNCH, 0, sizeof(trap)},
                .kernel = side.traps,
                .grid = {1, 1, 1},
                .block = {1, 1, 1}};
        uint64_t graph, theirs;

        steps(&other, 30);
        cr_assert_eq(create(t, &other, &theirs), 0);
        gf_begin(&file);
        for (int i = 0; i < 20; i++)
                gf_poke(&file, side.poke, side.memory, 1);
        gf_add(&file, &trap, sizeof(trap), NULL, 0, 0);
        for (int i = 0; i < 60; i++)
                gf_poke(&file, side.poke, side.memory, 2);
        gf_end(&file);
        cr_assert_eq(create(t, &side, &graph), 0);
        for (int i = 0; i < 5; i++)
                launch(&side, 0, graph);
        launch(&other, 0, theirs);
        cr_assert_neq(wt_sync_all(t, &side.client), 0);
        cr_assert_eq(wt_sync_all(t, &other.client), 0);
        cr_assert_eq(wt_reset(t, &side.client), 0);
        launch(&side, 0, graph);
        cr_assert_eq(wt_sync_all(t, &side.client), DS_CUDA_INVALID_HANDLE, "a reset takes graphs along");
        wt_client_close(t, &side.client);
        wt_client_close(t, &other.client);
        wt_close(t);
}
#endif

/* A client disconnects while its graphs run, with many of them in progress. */
Test(worker_graph, a_client_goes_in_the_middle, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);

        for (uint64_t id = 1; id < 8; id++) {
                struct side side = side_open(t, id, id % 2 ? DETSHARE__CLASS__BE : DETSHARE__CLASS__LS);
                uint64_t graph;

                steps(&side, (uint32_t)id * 17);
                cr_assert_eq(create(t, &side, &graph), 0);
                for (int i = 0; i < 200; i++)
                        launch(&side, 0, graph);
                for (uint64_t i = 0; i < id * 3; i++)
                        wt_turn(t, 0);
                wt_client_close(t, &side.client);
        }
        wt_close(t);
}

/* An object that the graph names is gone at a launch: that launch fails, and earlier launches are unaffected. */
Test(worker_graph, names_are_looked_at_again, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        WT_REQUEST(unload, MODULE_UNLOAD, module_unload, ModuleUnload, MODULE_UNLOAD, .module = side.module);
        uint64_t graph, copies, spare, other;

        cr_assert_eq(wt_alloc(t, &side.client, 4096, &spare), 0);
        gf_begin(&file);
        gf_copy(&file, spare, side.memory, 64);
        gf_end(&file);
        cr_assert_eq(create(t, &side, &copies), 0);
        steps(&side, 64);
        cr_assert_eq(create(t, &side, &graph), 0);
        launch(&side, 0, copies);
        launch(&side, 0, graph);
        cr_assert_eq(wt_mem_free(t, &side.client, spare), 0);
        launch(&side, 0, graph);
        cr_assert_eq(wt_call_status(t, &side.client, &unload), 0, "waits for the launches");
        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        cr_assert_eq(word(t, &side, 0), stepped(stepped(0, 64), 64));
        cr_assert_eq(create(t, &side, &other), DS_CUDA_INVALID_HANDLE, "its kernel is gone");
        launch(&side, 0, copies);
        cr_assert_eq(wt_sync_all(t, &side.client), DS_CUDA_INVALID_VALUE, "its memory is gone");
        cr_assert_eq(wt_reset(t, &side.client), 0);
        wt_client_close(t, &side.client);
        wt_close(t);
}

/* A launch is refused because the module of its graph is being unloaded: this does not disturb earlier launches. */
Test(worker_graph, a_refused_launch_spoils_none_before_it, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        WT_REQUEST(unload, MODULE_UNLOAD, module_unload, ModuleUnload, MODULE_UNLOAD, .module = side.module);
        struct ds_record_host host = {.head = {DS_RECORD_HOST, 0, sizeof(host)}, .id = 1};
        const uint64_t one = 1;
        uint64_t graph, going;
        wt_answer *answer;

        steps(&side, 3);
        cr_assert_eq(create(t, &side, &graph), 0);
        wt_push(&side.client, &host, sizeof(host));
        launch(&side, 0, graph);
        wt_settle(t);
        going = wt_send_call(t, &side.client, &unload);
        wt_settle(t);
        {
                WT_REQUEST(again, GRAPH_LAUNCH, graph_launch, GraphLaunch, GRAPH_LAUNCH, .graph = graph);

                cr_assert_eq(wt_call_status(t, &side.client, &again), DS_CUDA_INVALID_HANDLE, "its kernel is going");
        }
        atomic_store(&((struct ds_ring_header *)side.client.ring)->host_done, 1);
        cr_assert_eq(write(side.client.event_fd, &one, sizeof(one)), sizeof(one));
        answer = wt_wait(t, going);
        cr_assert_eq(answer->status, 0);
        wt_free(answer);
        cr_assert_eq(word(t, &side, 0), stepped(0, 3));
        wt_client_close(t, &side.client);
        wt_close(t);
}

/* The client has unmapped memory that its graph uses. Another allocation may be there, so the launch checks again. */
Test(worker_graph, unmapped_memory_is_looked_at_again, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        const uint64_t va = UINT64_C(0x700000000000), bytes = DS_MIB(2);
        WT_REQUEST(make, MEM_CREATE, mem_create, MemCreate, MEM_CREATE, .bytes = bytes);
        wt_answer *answer = wt_wait(t, wt_send_call(t, &side.client, &make));
        uint64_t graph, handle;

        cr_assert_eq(answer->status, 0);
        handle = answer->reply->physical->handle;
        wt_free(answer);
        {
                WT_REQUEST(map, MEM_MAP, mem_map, MemMap, MEM_MAP, .handle = handle, .address = va, .bytes = bytes);
                WT_REQUEST(unmap, MEM_UNMAP, mem_unmap, MemUnmap, MEM_UNMAP, .address = va);

                cr_assert_eq(wt_call_status(t, &side.client, &map), 0);
                gf_begin(&file);
                gf_memset(&file, va, 7, 16);
                gf_end(&file);
                cr_assert_eq(create(t, &side, &graph), 0);
                launch(&side, 0, graph);
                cr_assert_eq(wt_sync_all(t, &side.client), 0);
                cr_assert_eq(wt_call_status(t, &side.client, &unmap), 0);
        }
        {
                WT_REQUEST(again, GRAPH_LAUNCH, graph_launch, GraphLaunch, GRAPH_LAUNCH, .graph = graph);

                cr_assert_eq(wt_call_status(t, &side.client, &again), DS_CUDA_INVALID_VALUE, "its memory is gone");
        }
        wt_client_close(t, &side.client);
        wt_close(t);
}

/* Event nodes cost the device nothing: they complete and are freed before many more are created. */
Test(worker_graph, events_are_unfolded_a_few_at_a_time, .timeout = 60)
{
        enum { EVENTS = 2000, LAUNCHES = 24 };
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        struct ds_record_event event = {.head = {DS_RECORD_EVENT, 0, sizeof(event)}};
        struct ds_sched_stats stats;
        uint64_t graph, most = 0;
        uint32_t value = 0;

        event.event = wt_new_event(t, &side.client);
        gf_begin(&file);
        for (uint32_t i = 0; i < EVENTS; i++)
                gf_add(&file, &event, sizeof(event), NULL, 0, 0);
        gf_poke(&file, side.step, side.memory, 1);
        gf_end(&file);
        cr_assert_eq(create(t, &side, &graph), 0);
        for (uint32_t i = 0; i < LAUNCHES; i++, value = value * 3 + 1)
                launch(&side, 0, graph);
        for (int i = 0; i < WT_TURNS && atomic_load(&side.client.page->stream_done[0]) < LAUNCHES; i++) {
                wt_turn(t, 1);
                ds_sched_stats(t->worker->sched, &stats);
                most = DS_MAX(most, (uint64_t)stats.queued);
        }
        cr_assert_eq(word(t, &side, 0), value);
        cr_assert_lt(most, EVENTS, "%llu operations at once", (unsigned long long)most);
        wt_client_close(t, &side.client);
        wt_close(t);
}

/* A client that launches large graphs without pause does not occupy the worker. */
Test(worker_graph, large_graphs_are_more_than_a_record, .timeout = 60)
{
        enum { EVENTS = 16000, LAUNCHES = 16 };
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        struct ds_record_event event = {.head = {DS_RECORD_EVENT, 0, sizeof(event)}};
        struct dsw_session *session = dsw_session_find(t->worker, 1);
        uint64_t graph;

        event.event = wt_new_event(t, &side.client);
        gf_begin(&file);
        for (uint32_t i = 0; i < EVENTS; i++)
                gf_add(&file, &event, sizeof(event), NULL, 0, 0);
        gf_end(&file);
        cr_assert_eq(create(t, &side, &graph), 0);
        for (uint32_t i = 0; i < LAUNCHES; i++)
                launch(&side, 0, graph);
        cr_assert_eq(dsw_ring_consume(session, dsw_ring_tail(session), DSW_RING_BATCH), 1);
        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        cr_assert_eq(atomic_load(&side.client.page->stream_done[0]), LAUNCHES);
        wt_client_close(t, &side.client);
        wt_close(t);
}

/* Random graphs, launches, marks and waits of a client with several streams, each with a word that its steps change. */
#define CHANCE_STREAMS 4

struct chance {
        struct side side;
        uint32_t streams[CHANCE_STREAMS], words[CHANCE_STREAMS];
        uint64_t submitted[CHANCE_STREAMS], graphs[CHANCE_STREAMS][3];
};

static const uint32_t chance_sizes[3] = {1, 17, 90};
static uint64_t chance_state = 88172645463325252ull;

static uint32_t chance(uint32_t n)
{
        chance_state ^= chance_state << 13;
        chance_state ^= chance_state >> 7;
        chance_state ^= chance_state << 17;
        return (uint32_t)(chance_state % n);
}

static void chance_open(struct wt *t, struct chance *c, uint64_t id, Detshare__Class class_)
{
        c->side = side_open(t, id, class_);
        for (uint32_t i = 0; i < CHANCE_STREAMS; i++) {
                if (i)
                        cr_assert_eq(wt_stream(t, &c->side.client, &c->streams[i]), 0);
                for (int k = 0; k < 3; k++) {
                        gf_begin(&file);
                        for (uint32_t n = 0; n < chance_sizes[k]; n++)
                                gf_poke(&file, c->side.step, c->side.memory + i * 4, n);
                        gf_end(&file);
                        cr_assert_eq(create(t, &c->side, &c->graphs[i][k]), 0);
                }
        }
}

static void chance_act(struct chance *c)
{
        uint32_t i = chance(CHANCE_STREAMS), other = chance(CHANCE_STREAMS), k;

        switch (chance(6)) {
        case 0:
                wt_push_poke(&c->side.client, c->streams[i], c->side.step, c->side.memory + i * 4, 5);
                c->words[i] = c->words[i] * 3 + 5;
                break;
        case 1:
                wt_push_event(&c->side.client, c->streams[i], 0);
                break;
        case 2:
                wt_push_wait(&c->side.client, c->streams[i], c->streams[other], i == other ? 0 : c->submitted[other]);
                break;
        default:
                k = chance(3);
                launch(&c->side, c->streams[i], c->graphs[i][k]);
                c->words[i] = stepped(c->words[i], chance_sizes[k]);
        }
        c->submitted[i]++;
}

Test(worker_graph, by_chance, .timeout = 60)
{
        static struct chance clients[2];
        struct wt *t = wt_open(FUNCTIONAL);

        chance_open(t, &clients[0], 1, DETSHARE__CLASS__BE);
        for (int n = 0; n < 300; n++) {
                if (n == 150)
                        chance_open(t, &clients[1], 2, DETSHARE__CLASS__LS);
                chance_act(&clients[n > 150 && chance(2)]);
                if (!chance(10))
                        wt_turn(t, 0);
        }
        for (int j = 0; j < 2; j++) {
                struct chance *c = &clients[j];

                cr_assert_eq(wt_sync_all(t, &c->side.client), 0);
                for (uint32_t i = 0; i < CHANCE_STREAMS; i++) {
                        cr_assert_eq(atomic_load(&c->side.client.page->stream_done[c->streams[i]]), c->submitted[i]);
                }
                for (uint32_t i = 0; i < CHANCE_STREAMS; i++)
                        cr_assert_eq(word(t, &c->side, i * 4), c->words[i], "client %d, stream %u", j, i);
        }
        wt_client_close(t, &clients[1].side.client);
        wt_client_close(t, &clients[0].side.client);
        wt_close(t);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static struct ds_graph_node *node(uint32_t index)
{
        uint8_t *at = file.at + sizeof(struct ds_graph_file);

        while (index--)
                at += ((struct ds_graph_node *)at)->size;
        return (void *)at;
}

static struct ds_record *record(uint32_t index)
{
        return (void *)((uint8_t *)node(index) + node(index)->record_offset);
}

#define BAD(change)                                                                         \
        do {                                                                                \
                steps(&side, 3);                                                            \
                change;                                                                     \
                cr_expect_eq(create(t, &side, NULL), DS_CUDA_INVALID_VALUE, "%s", #change); \
        } while (0)

Test(worker_graph, files_that_make_no_sense, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        struct ds_graph_file *header = (void *)file.at;
        struct ds_record_launch *launched;

        BAD(header->version++);
        BAD(header->n_nodes++);
        BAD(header->n_nodes--);
        BAD(header->n_nodes = UINT32_MAX);
        BAD(header->n_nodes = DS_GRAPH_NODES_MAX);
        BAD(header->bytes++);
        BAD(header->bytes = 0);
        BAD(header->bytes = UINT64_MAX);
        BAD(file.bytes = 8);
        BAD(file.bytes = 0);
        BAD(file.bytes -= 8);
        BAD((file.bytes -= 8, header->bytes -= 8));
        BAD(node(2)->size += 8);
        BAD(node(1)->size -= 8);
        BAD(node(1)->size = 0);
        BAD(node(1)->size = 15);
        BAD(node(1)->size |= 4);
        BAD(node(1)->size = UINT32_MAX - 7);
        BAD(node(1)->n_deps = 100);
        BAD(node(1)->n_deps = UINT32_MAX);
        BAD(node(1)->record_offset = 0);
        BAD(node(1)->record_offset = 16);
        BAD(node(1)->record_offset += 4);
        BAD(node(1)->record_offset = node(1)->size);
        BAD(node(1)->record_offset = UINT32_MAX - 7);
        BAD(node(1)->flags = 2);
        BAD(*(uint32_t *)(node(1) + 1) = 1);
        BAD(*(uint32_t *)(node(2) + 1) = UINT32_MAX);
        BAD(record(1)->type = 0);
        BAD(record(1)->type = DS_RECORD_WAIT);
        BAD(record(1)->type = DS_RECORD_GRAPH);
        BAD(record(1)->type = DS_RECORD_COPY);
        BAD(record(1)->type = UINT16_MAX);
        BAD(record(1)->size += 16);
        BAD(record(1)->size = UINT32_MAX);
        BAD(record(1)->size = 8);
        BAD((launched = (void *)record(1), launched->params_size += 4));
        BAD((launched = (void *)record(1), launched->params_size = UINT32_MAX));
        BAD((launched = (void *)record(1), launched->grid[0] = 0));
        BAD((launched = (void *)record(1), launched->block[2] = 65));
        steps(&side, 3);
        ((struct ds_record_launch *)record(2))->kernel = 12345;
        cr_expect_eq(create(t, &side, NULL), DS_CUDA_INVALID_HANDLE);
        steps(&side, 0);
        cr_expect_eq(create(t, &side, NULL), 0, "an empty graph is one");
        /* a request without a file */
        {
                WT_REQUEST(request, GRAPH_CREATE, graph_create, GraphCreate, GRAPH_CREATE, .bytes = 64);
                cr_expect_eq(wt_call_status(t, &side.client, &request), DS_CUDA_INVALID_VALUE);
        }
        wt_client_close(t, &side.client);
        wt_close(t);
}

/* Random bytes of a valid file change: it is refused, or it is a graph that can be launched. */
Test(worker_graph, files_changed_by_chance, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        struct ds_record_host host = {.head = {DS_RECORD_HOST, 0, sizeof(host)}, .id = 1};
        unsigned made = 0, refused = 0;

        for (int n = 0; n < 1500; n++) {
                uint64_t graph;
                int r;

                steps(&side, 2);
                gf_copy(&file, side.memory + 64, side.memory, 16);
                gf_memset(&file, side.memory + 128, 5, 4);
                gf_event(&file, 0);
                gf_add(&file, &host, sizeof(host), NULL, 0, 0);
                gf_end(&file);
                for (uint32_t k = 1 + chance(3); k > 0; k--)
                        file.at[chance((uint32_t)file.bytes)] ^= (uint8_t)(1u << chance(8));
                r = create(t, &side, &graph);
                cr_assert(!r || r == DS_CUDA_INVALID_VALUE || r == DS_CUDA_INVALID_HANDLE ||
                                  r == DS_CUDA_INVALID_CLUSTER_SIZE,
                        "status %d", r);
                made += !r;
                refused += r != 0;
                if (!r)
                        cr_assert_eq(destroy(t, &side, graph), 0);
        }
        cr_assert_gt(made, 100);
        cr_assert_gt(refused, 100);
        wt_client_close(t, &side.client);
        wt_close(t);
}

#ifndef GRAPH_CUDA /* tested once, because the fake driver is slow with very large graphs */
Test(worker_graph, limits_of_a_session, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        uint64_t graph;
        int n, r = 0;

        steps(&side, 8000);
        for (n = 0; n < 1000 && !r; n++)
                r = create(t, &side, &graph);
        cr_assert_eq(r, DETSHARE__STATUS__QUOTA);
        cr_assert_gt(n, 20);
        cr_assert_eq(destroy(t, &side, graph), 0);
        cr_assert_eq(create(t, &side, &graph), 0);
        cr_assert_eq(wt_reset(t, &side.client), 0);
        cr_assert_eq(graph_module(t, &side.client, &side.module), 0);
        side.step = wt_kernel(t, &side.client, side.module, "step");
        steps(&side, 1);
        for (n = 0, r = 0; n < 5000 && !r; n++)
                r = create(t, &side, &graph);
        cr_assert_eq(r, DETSHARE__STATUS__QUOTA);
        cr_assert_eq(n, DSW_SESSION_GRAPHS_MAX + 1);
        wt_client_close(t, &side.client);
        wt_close(t);
}
#endif

/* --- another worker ----------------------------------------------------------------------------------------------- */

static int restored_fd = -1; /* file of the last restored graph */

static int restore(struct wt *t, struct side *side, uint64_t id)
{
        Detshare__Internal__RestoreGraph body = DETSHARE__INTERNAL__RESTORE_GRAPH__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        int fd = gf_fd(&file), status;

        body.session = side->client.id;
        body.graph = id;
        body.bytes = file.bytes;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_GRAPH;
        message.restore_graph = &body;
        status = wt_status(t, wt_send(t, &message, &fd, 1));
        if (restored_fd >= 0)
                close(restored_fd);
        restored_fd = fd;
        return status;
}

/* The graph keeps its id. A graph whose kernel is missing becomes an error only when it is launched. */
Test(worker_graph, an_earlier_workers_graph_comes_back, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        uint64_t graph;

        steps(&side, 20);
        cr_assert_eq(restore(t, &side, 77), 0);
        cr_assert_neq(restore(t, &side, 77), 0, "there already");
        launch(&side, 0, 77);
        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        cr_assert_eq(word(t, &side, 0), stepped(0, 20));
        cr_assert_eq(create(t, &side, &graph), 0);
        cr_assert_gt(graph, 77);
        ((struct ds_record_launch *)record(2))->kernel = 12345;
        cr_assert_eq(restore(t, &side, 78), 0);
        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        launch(&side, 0, 78);
        cr_assert_eq(wt_sync_all(t, &side.client), DS_CUDA_INVALID_HANDLE);
        wt_client_close(t, &side.client);
        wt_close(t);
}

/* A record destroys a graph, in order with its launches. */
Test(worker_graph, destroyed_in_the_ring, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        struct ds_record_object end = {.head = {DS_RECORD_OBJECT, 0, sizeof(end)}, .kind = DS_OBJECT_GRAPH_END};
        uint64_t graph;

        steps(&side, 20);
        cr_assert_eq(create(t, &side, &graph), 0);
        launch(&side, 0, graph);
        launch(&side, 0, graph);
        end.id = graph;
        wt_push(&side.client, &end, sizeof(end));
        wt_push(&side.client, &end, sizeof(end));
        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        cr_assert_eq(word(t, &side, 0), stepped(stepped(0, 20), 20));
        cr_assert_eq(destroy(t, &side, graph), DS_CUDA_INVALID_HANDLE);
        launch(&side, 0, graph);
        cr_assert_eq(wt_sync_all(t, &side.client), DS_CUDA_INVALID_HANDLE);
        wt_client_close(t, &side.client);
        wt_close(t);
}

#include "tests/unit/graph_changes.h"
