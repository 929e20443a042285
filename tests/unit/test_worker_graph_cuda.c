/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_worker_graph.c on the cuda device, where graphs are launched as a whole when that is allowed
 */
#define GRAPH_CUDA
#include "test_worker_graph.c"

#include "device/cuda/internal.h"

/* How many launches of graphs the device was asked for; otherwise as it is. */
static uint32_t whole;
static struct ds_device_ops counting;

static int count_whole(ds_device *device, const struct ds_graph_launch *launch, uint64_t token)
{
        whole++;
        return ds_cuda_ops.graph_launch(device, launch, token);
}

static struct wt *open_counting(void)
{
        setenv("DETSHARE_LIBCUDA", TEST_FAKE_CUDA, 1);
        setenv("PTXAS", TEST_PTXAS, 1);
        setenv("FAKE_CUDA_STRICT", "1", 1);
        counting = ds_cuda_ops;
        counting.graph_launch = count_whole;
        wt_ops = &counting;
        whole = 0;
        wt_tick = 200 * DS_NS_PER_US;
#undef wt_open
        return wt_open("0");
}

static void run(struct wt *t, struct side *side, uint64_t graph, int n)
{
        for (int i = 0; i < n; i++)
                launch(side, 0, graph);
        cr_assert_eq(wt_sync_all(t, &side->client), 0);
}

/* BE alone: as a whole from the first launch on. Beside an LS session: in parts. LS: as a whole. */
Test(worker_graph_whole, classes, .timeout = 60)
{
        struct wt *t = open_counting();
        struct side be = side_open(t, 1, DETSHARE__CLASS__BE), ls;
        uint32_t expected = stepped(stepped(0, 30), 30);
        uint64_t graph, theirs;

        steps(&be, 30);
        cr_assert_eq(create(t, &be, &graph), 0);
        run(t, &be, graph, 2);
        cr_assert_eq(whole, 2);
        cr_assert_eq(word(t, &be, 0), expected);
        cr_assert_eq(wt_worker_stats(t).launches, 60);
        cr_assert_eq(wt_worker_stats(t).completed, 61, "and the read");
        ls = side_open(t, 2, DETSHARE__CLASS__LS);
        run(t, &be, graph, 2);
        cr_assert_eq(whole, 2, "beside LS");
        steps(&ls, 20);
        cr_assert_eq(create(t, &ls, &theirs), 0);
        run(t, &ls, theirs, 3);
        cr_assert_eq(whole, 5);
        cr_assert_eq(word(t, &ls, 0), stepped(stepped(stepped(0, 20), 20), 20));
        wt_client_close(t, &ls.client);
        run(t, &be, graph, 1);
        cr_assert_eq(whole, 6);
        cr_assert_eq(word(t, &be, 0), stepped(stepped(stepped(expected, 30), 30), 30));
        wt_client_close(t, &be.client);
        wt_close(t);
}

/* One that was queued as a whole goes in parts when an LS session comes before its turn. */
Test(worker_graph_whole, an_ls_session_comes, .timeout = 60)
{
        struct wt *t = open_counting();
        struct side be = side_open(t, 1, DETSHARE__CLASS__BE);
        struct wt_client ls;
        uint64_t graph;

        steps(&be, 100);
        cr_assert_eq(create(t, &be, &graph), 0);
        for (int i = 0; i < 50; i++)
                launch(&be, 0, graph);
        wt_turn(t, 0);
        ls = wt_client(t, 2, DETSHARE__CLASS__LS);
        for (int i = 0; i < 50; i++)
                launch(&be, 0, graph);
        cr_assert_eq(wt_sync_all(t, &be.client), 0);
        cr_assert_lt(whole, 100);
        {
                uint32_t expected = 0;

                for (int i = 0; i < 100; i++)
                        expected = stepped(expected, 100);
                cr_assert_eq(word(t, &be, 0), expected);
        }
        wt_client_close(t, &ls);
        wt_client_close(t, &be.client);
        wt_close(t);
}

/* An update goes into what is built, between launches that are under way. */
Test(worker_graph_whole, updates, .timeout = 60)
{
        struct wt *t = open_counting();
        struct side be = side_open(t, 1, DETSHARE__CLASS__BE);
        uint32_t expected = 0;
        uint64_t graph;

        steps(&be, 10);
        cr_assert_eq(create(t, &be, &graph), 0);
        for (uint32_t round = 0; round < 20; round++) {
                gf_begin(&file);
                for (uint32_t i = 0; i < 10; i++)
                        gf_poke(&file, be.step, be.memory, i + round);
                gf_end(&file);
                cr_assert_eq(update(t, &be, graph), 0);
                for (int k = 0; k < 3; k++) {
                        launch(&be, 0, graph);
                        for (uint32_t i = 0; i < 10; i++)
                                expected = expected * 3 + i + round;
                }
        }
        cr_assert_eq(wt_sync_all(t, &be.client), 0);
        cr_assert_eq(word(t, &be, 0), expected);
        cr_assert_gt(whole, 0);
        wt_client_close(t, &be.client);
        wt_close(t);
}
