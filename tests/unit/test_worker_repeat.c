/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that repeat, which the worker launches as a graph: on the cuda device with the fake driver
 */
#define GRAPH_CUDA
#include "tests/unit/graph_fixture.h"
#include "worker/repeat.h"

#define STREAMS 3u
#define TICK 500u /* ns by which the clock advances at each reading */

/* launches of whole graphs and of single kernels on the device */
static uint32_t whole, singles;

static int count_whole(ds_device *device, const struct ds_graph_launch *launch, uint64_t token)
{
        whole++;
        return ds_cuda_ops.graph_launch(device, launch, token);
}

static int count_single(ds_device *device, const struct ds_launch *launch, uint64_t token)
{
        singles++;
        return ds_cuda_ops.launch(device, launch, token);
}

static struct wt *open_counting(void)
{
        static struct ds_device_ops counting;
        struct wt *t;

        setenv("DETSHARE_LIBCUDA", TEST_FAKE_CUDA, 1);
        setenv("PTXAS", TEST_PTXAS, 1);
        setenv("FAKE_CUDA_STRICT", "1", 1);
        counting = ds_cuda_ops;
        counting.graph_launch = count_whole;
        counting.launch = count_single;
        wt_ops = &counting;
        whole = singles = 0;
        wt_tick = TICK;
        t = wt_open_policy("0", "fifo", wt_policies());
        t->worker->repeat_ns = DS_NS_PER_S; /* how long the fake driver takes says nothing */
        return t;
}

/* A client's stream with the value that its steps make, and the number of its operations. */
struct line {
        uint32_t stream, value;
        uint64_t submitted;
};

static void room(struct wt *t, struct side *side)
{
        while (wt_ring_room(&side->client) < 64)
                wt_turn(t, 0);
}

static void push_step(struct wt *t, struct side *side, struct line *line, uint32_t offset, uint32_t add)
{
        room(t, side);
        wt_push_poke(&side->client, line->stream, side->step, side->memory + offset, add);
        line->submitted++;
        line->value = line->value * 3 + add;
}

/* A loop of `times` times `period` steps, as a program submits it that is far ahead of the worker. */
static void push_loop(
        struct wt *t, struct side *side, struct line *line, uint32_t offset, uint32_t period, uint32_t times)
{
        for (uint32_t i = 0; i < times * period; i++)
                push_step(t, side, line, offset, i % period);
}

/* The read takes a number of stream 0. */
static void check_line(struct wt *t, struct side *side, struct line *line, uint32_t offset)
{
        cr_assert_eq(wt_sync_all(t, &side->client), 0);
        cr_assert_eq(atomic_load(&side->client.page->stream_done[line->stream]), line->submitted);
        cr_assert_eq(word(t, side, offset), line->value);
        line->submitted += line->stream == 0;
}

static uint64_t chance_state = 0x9e3779b97f4a7c15ull;

static uint32_t chance(uint32_t n)
{
        chance_state ^= chance_state << 13;
        chance_state ^= chance_state >> 7;
        chance_state ^= chance_state << 17;
        return (uint32_t)(chance_state % n);
}

/* Long loops are launched as graphs, with the same result and the same numbers. */
Test(worker_repeat, a_loop, .timeout = 60)
{
        static const uint32_t periods[] = {1, 3, 17, 48};
        struct wt *t = open_counting();
        struct side be = side_open(t, 1, DETSHARE__CLASS__BE);
        struct line line = {0};

        for (size_t i = 0; i < sizeof(periods) / sizeof(periods[0]); i++) {
                const uint32_t before = whole;

                push_loop(t, &be, &line, 0, periods[i], 24000 / periods[i]);
                check_line(t, &be, &line, 0);
                cr_assert_gt(whole, before + 20, "period %u: %u graphs", periods[i], whole - before);
        }
        cr_assert_eq(wt_worker_stats(t).launches, line.submitted - sizeof(periods) / sizeof(periods[0]),
                "all but the reads");
        cr_assert_eq(atomic_load(&be.client.page->accepted), atomic_load(&be.client.page->completed));
        wt_client_close(t, &be.client);
        wt_close(t);
}

/* Each launch has another argument. */
Test(worker_repeat, arguments, .timeout = 60)
{
        struct wt *t = open_counting();
        struct side be = side_open(t, 1, DETSHARE__CLASS__BE);
        struct line line = {0};

        for (uint32_t i = 0; i < 20000; i++)
                push_step(t, &be, &line, 0, i);
        check_line(t, &be, &line, 0);
        cr_assert_gt(whole, 100);
        for (uint32_t i = 0; i < 20000; i++) /* some of them */
                push_step(t, &be, &line, 0, i % 7 ? 5 : i);
        check_line(t, &be, &line, 0);
        wt_client_close(t, &be.client);
        wt_close(t);
}

/* A graph that was queued as a whole runs in parts, with its arguments, if an LS session comes before it starts. */
Test(worker_repeat, an_ls_session_comes, .timeout = 60)
{
        struct wt *t = open_counting();
        struct side be = side_open(t, 1, DETSHARE__CLASS__BE);
        struct wt_client ls;
        struct line line = {0};
        uint32_t before;

        for (uint32_t i = 0; i < 12000; i++)
                push_step(t, &be, &line, 0, i);
        check_line(t, &be, &line, 0);
        before = whole;
        for (uint32_t i = 0; i < 12000; i++)
                push_step(t, &be, &line, 0, i);
        cr_assert_gt(whole, before, "there is an instance");
        ls = wt_client(t, 2, DETSHARE__CLASS__LS);
        check_line(t, &be, &line, 0);
        wt_client_close(t, &ls);
        wt_client_close(t, &be.client);
        wt_close(t);
}

/* Loops that a policy may want to divide, and launches that do not repeat, are launched one by one. */
Test(worker_repeat, not_these, .timeout = 60)
{
        struct wt *t = open_counting();
        struct side be = side_open(t, 1, DETSHARE__CLASS__BE), ls;
        struct line line = {0}, theirs = {0};

        for (uint32_t i = 0; i < 5000; i++) {
                if (chance(2))
                        push_step(t, &be, &line, 0, 7);
                room(t, &be);
                wt_push_launch(&be.client, 0, be.null, 1, 1 + chance(9), NULL, 0);
                line.submitted++;
        }
        check_line(t, &be, &line, 0);
        cr_assert_eq(whole, 0, "no order repeats");
        ls = side_open(t, 2, DETSHARE__CLASS__LS);
        push_loop(t, &be, &line, 0, 2, 700);
        push_loop(t, &ls, &theirs, 0, 2, 700);
        check_line(t, &be, &line, 0);
        check_line(t, &ls, &theirs, 0);
        cr_assert_eq(whole, 0, "both classes are there");
        wt_tick = 20 * DS_NS_PER_MS; /* the end of BE's session waits for a stop */
        wt_client_close(t, &be.client);
        wt_tick = TICK;
        push_loop(t, &ls, &theirs, 0, 2, 4000);
        check_line(t, &ls, &theirs, 0);
        cr_assert_gt(whole, 10, "LS alone");
        wt_tick = 20 * DS_NS_PER_MS;
        wt_client_close(t, &ls.client);
        wt_close(t);
}

/* A repeat is forgotten with its module, and the next module's kernels are launched. */
Test(worker_repeat, a_module_goes, .timeout = 60)
{
        struct wt *t = open_counting();
        struct side be = side_open(t, 1, DETSHARE__CLASS__BE);
        struct line line = {0};

        for (int i = 0; i < 3; i++) {
                const uint32_t before = whole;

                push_loop(t, &be, &line, 0, 5, 2400);
                check_line(t, &be, &line, 0);
                cr_assert_gt(whole, before + 10);
                {
                        WT_REQUEST(request, MODULE_UNLOAD, module_unload, ModuleUnload, MODULE_UNLOAD,
                                .module = be.module);

                        cr_assert_eq(wt_call_status(t, &be.client, &request), 0);
                }
                cr_assert_eq(graph_module(t, &be.client, &be.module), 0);
                be.step = wt_kernel(t, &be.client, be.module, "step");
        }
        push_loop(t, &be, &line, 0, 5, 2000);
        wt_client_close(t, &be.client); /* in the middle */
        wt_close(t);
}

/* A launch behind the unload of its module fails, also one that repeats, although the module waits for older work. */
Test(worker_repeat, a_module_is_going, .timeout = 60)
{
        struct ds_record_host host = {.head = {DS_RECORD_HOST, 0, sizeof(host)}, .id = 1};
        struct wt *t = open_counting();
        struct side be = side_open(t, 1, DETSHARE__CLASS__BE);
        struct line line = {0};
        uint32_t stream;
        WT_REQUEST(request, MODULE_UNLOAD, module_unload, ModuleUnload, MODULE_UNLOAD, .module = be.module);

        cr_assert_eq(wt_stream(t, &be.client, &stream), 0);
        push_loop(t, &be, &line, 0, 5, 2400);
        check_line(t, &be, &line, 0);
        cr_assert_gt(whole, 10);
        host.head.stream = (uint16_t)stream;
        wt_push(&be.client, &host, sizeof(host)); /* does not return */
        wt_send_call(t, &be.client, &request);
        push_loop(t, &be, &line, 0, 5, 400);
        cr_assert_eq(wt_sync_all(t, &be.client), DS_CUDA_INVALID_HANDLE);
        cr_assert_eq(wt_worker_stats(t).launches, 5 * 2400);
        wt_client_close(t, &be.client);
        wt_close(t);
}

/* Loops of random periods and lengths, interrupted by other work, on several streams that wait for each other. */
Test(worker_repeat, by_chance, .timeout = 120)
{
        struct wt *t = open_counting();
        struct side be = side_open(t, 1, DETSHARE__CLASS__BE);
        struct line lines[STREAMS] = {{0}};

        for (uint32_t i = 1; i < STREAMS; i++)
                cr_assert_eq(wt_stream(t, &be.client, &lines[i].stream), 0);
        for (int n = 0; n < 300; n++) {
                const uint32_t i = chance(STREAMS), other = chance(STREAMS);
                struct line *line = &lines[i];

                room(t, &be);
                switch (chance(8)) {
                case 0:
                        wt_push_event(&be.client, line->stream, 0);
                        line->submitted++;
                        break;
                case 1: /* the other line's value, after all that it has submitted */
                        wt_push_wait(
                                &be.client, line->stream, lines[other].stream, i == other ? 0 : lines[other].submitted);
                        line->submitted++;
                        push_step(t, &be, line, i * 4, chance(9));
                        break;
                case 2:
                        push_step(t, &be, line, i * 4, chance(1000));
                        break;
                case 3:
                        wt_turn(t, 0);
                        break;
                default:
                        push_loop(t, &be, line, i * 4, 1 + chance(6), 1 + chance(500));
                }
        }
        check_line(t, &be, &lines[0], 0);
        for (uint32_t i = 1; i < STREAMS; i++)
                check_line(t, &be, &lines[i], i * 4);
        cr_assert_gt(whole, 3);
        wt_client_close(t, &be.client);
        wt_close(t);
}
