/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_worker_graph.c on the cuda device, which launches a whole graph where the scheduler allows it
 */
#define GRAPH_CUDA
#include "test_worker_graph.c"

#include "device/cuda/internal.h"
#include "sched/internal.h"
#include "worker/graph_piece.h"

/* Number of whole graphs and of single kernels launched on the device. */
static uint32_t whole, singles, made, changed; /* launches, new graphs of the device, nodes changed in place */
static ds_worker *watched; /* asserts that BE graphs are not launched whole while this worker's LS sessions have work */
static uint32_t watched_space;
/* NULL, or the client that launches then_graph at the next launch of a whole graph, before the device has that graph */
static struct side *then;
static uint32_t then_stream;
static uint64_t then_graph;
static struct ds_device_ops counting;

static void launch_then(void)
{
        if (then)
                launch(then, then_stream, then_graph);
        then = NULL;
}

static int count_whole(ds_device *device, const struct ds_graph_launch *launch, uint64_t token)
{
        uint32_t in_flight, all;

        whole++;
        launch_then();
        if (watched && launch->space == watched_space) {
                ds_sched_load(watched->sched, DETSHARE_CLASS_LS, &in_flight, &all);
                cr_assert_eq(all, 0);
        }
        return ds_cuda_ops.graph_launch(device, launch, token);
}

static int count_single(ds_device *device, const struct ds_launch *launch, uint64_t token)
{
        singles++;
        return ds_cuda_ops.launch(device, launch, token);
}

/* Asserts that each node depends on its predecessor, in whatever part of a graph the device receives. */
static int check_deps(
        ds_device *device, uint32_t space, const struct ds_device_node *nodes, uint32_t n, ds_device_graph **ret)
{
        made++;
        for (uint32_t i = 0; i < n; i++) {
                cr_assert_eq(nodes[i].n_deps, i > 0);
                cr_assert(!i || nodes[i].deps[0] == i - 1);
        }
        return ds_cuda_ops.graph_new(device, space, nodes, n, ret);
}

static int count_changed(ds_device *device, uint32_t space, ds_device_graph *graph, const uint32_t *at,
        const struct ds_device_node *nodes, uint32_t n)
{
        int r = ds_cuda_ops.graph_change(device, space, graph, at, nodes, n);

        changed += r ? 0 : n;
        return r;
}

static struct wt *open_policy(const char *policy)
{
        setenv("DETSHARE_LIBCUDA", TEST_FAKE_CUDA, 1);
        setenv("PTXAS", TEST_PTXAS, 1);
        setenv("FAKE_CUDA_STRICT", "1", 1);
        counting = ds_cuda_ops;
        counting.graph_launch = count_whole;
        counting.launch = count_single;
        counting.graph_new = check_deps;
        counting.graph_change = count_changed;
        wt_ops = &counting;
        whole = singles = made = changed = 0;
        watched = NULL;
        then = NULL;
        wt_tick = 200 * DS_NS_PER_US;
        return wt_open_policy("0", policy, wt_policies());
}

static struct wt *open_counting(void)
{
        return open_policy("fifo");
}

static void run(struct wt *t, struct side *side, uint64_t graph, int n)
{
        for (int i = 0; i < n; i++)
                launch(side, 0, graph);
        cr_assert_eq(wt_sync_all(t, &side->client), 0);
}

/* How graphs are launched: BE alone as a whole from the first launch on, BE beside an LS session in parts, LS as a
 * whole. */
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

/* Number of the worker's requests to settle (supervisor/settle.h) within some time. */
static int n_stirred(struct wt *t)
{
        const uint64_t end = t->worker->wall_ns() + 100 * DS_NS_PER_MS;
        int n = 0;

        while (t->worker->wall_ns() < end) {
                wt_turn(t, 1);
                for (wt_answer *answer; (answer = wt_take(t, 0)); wt_free(answer))
                        n += answer->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_STIRRED;
        }
        return n;
}

/* Waits until the worker has requested a settle for all reasons so far, and takes the requests. */
static void take_stirred(struct wt *t)
{
        uint32_t divided;

        while (n_stirred(t) ||
                t->worker->stirs.told != t->worker->ops->stirs(t->worker->device, &divided) + t->worker->stirs.n_slow)
                ;
}

/*
 * The worker requests a settle for LS sessions only, once they are idle, also for events before they connected. Work on
 * all SMs and removed graphs are no reason, however many stops they need.
 */
Test(worker_graph_whole, turns, .timeout = 60)
{
        struct wt *t = open_counting();
        struct side be = side_open(t, 1, DETSHARE__CLASS__BE), ls;
        uint64_t graph, other;
        int n = 0;

        t->worker->piece_ns = 1; /* too short for pieces, whose instances would be a reason */
        steps(&be, 30);
        cr_assert_eq(create(t, &be, &graph), 0);
        run(t, &be, graph, 3);
        cr_assert_eq(n_stirred(t), 0, "nobody measures");
        ls = side_open(t, 2, DETSHARE__CLASS__LS);
        steps(&ls, 20);
        cr_assert_eq(wt_sync_all(t, &ls.client), 0);
        for (int i = 0; !n && i < 100; i++)
                n = n_stirred(t);
        cr_assert_gt(n, 0, "code and memory");
        take_stirred(t);
        run(t, &be, graph, 3);
        cr_assert_eq(n_stirred(t), 0, "what runs");
        steps(&be, 10);
        cr_assert_eq(create(t, &be, &other), 0);
        run(t, &be, other, 1);
        cr_assert_leq(n_stirred(t), 2, "few for what comes together");
        take_stirred(t);
        cr_assert_eq(destroy(t, &be, graph), 0);
        cr_assert_eq(destroy(t, &be, other), 0);
        while (t->worker->ops->put_off(t->worker->device))
                wt_turn(t, 0);
        cr_assert_eq(n_stirred(t), 0, "what goes");
        wt_client_close(t, &ls.client);
        wt_client_close(t, &be.client);
        wt_close(t);
}

/* A graph queued as a whole runs in parts if an LS session connects before it starts. */
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

/* An update changes the instance between launches in progress. */
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

/* A change costs the changed nodes only: no new graph of the device, and no other node is given to the driver. */
Test(worker_graph_whole, changes_cost_what_changed, .timeout = 60)
{
        struct wt *t = open_counting();
        struct side be = side_open(t, 1, DETSHARE__CLASS__BE);
        struct changes c = {.bytes = 0};
        uint32_t expected = stepped(0, 100);
        uint64_t graph;

        steps(&be, 100);
        cr_assert_eq(create(t, &be, &graph), 0);
        run(t, &be, graph, 1);
        for (uint32_t round = 1; round <= 10; round++) {
                change_poke(&c, 40, be.step, be.memory, 40 * round);
                change_poke(&c, 60, be.step, be.memory, 60 * round);
                change_send(&be, &c, DS_RECORD_GRAPH, graph);
                cr_assert_eq(wt_sync_all(t, &be.client), 0);
                for (uint32_t i = 0; i < 100; i++)
                        expected = expected * 3 + (i == 40 || i == 60 ? i * round : i);
        }
        cr_assert_eq(word(t, &be, 0), expected);
        cr_assert_eq(made, 1);
        cr_assert_eq(changed, 20);
        cr_assert_eq(whole, 11);
        cr_assert_eq(singles, 0);
        wt_client_close(t, &be.client);
        wt_close(t);
}

/* The driver refuses a change: the launch has the new parameters all the same. */
Test(worker_graph_whole, a_refused_change, .timeout = 60)
{
        struct changes c = {.bytes = 0};
        struct side be;
        uint64_t graph;
        struct wt *t;

        setenv("FAKE_CUDA_FAIL", "cuGraphExecKernelNodeSetParams:1:999", 1);
        t = open_counting();
        be = side_open(t, 1, DETSHARE__CLASS__BE);
        steps(&be, 10);
        cr_assert_eq(create(t, &be, &graph), 0);
        change_poke(&c, 9, be.step, be.memory, 1000);
        change_send(&be, &c, DS_RECORD_GRAPH, graph);
        cr_assert_eq(wt_sync_all(t, &be.client), 0);
        cr_assert_eq(word(t, &be, 0), stepped(0, 9) * 3 + 1000);
        wt_client_close(t, &be.client);
        wt_close(t);
}

/* --- pieces: BE graphs beside an LS session ---------------------------------------------------------------------- */

#define WORDS 16u /* words of memory that random graphs write */

/* A worker with an LS session and a BE session, and a limit for pieces. */
struct pair {
        struct wt *t;
        struct side be, ls;
};

static struct pair pair_open_policy(const char *policy, uint64_t piece_ns)
{
        struct pair pair = {.t = open_policy(policy)};

        pair.t->worker->piece_ns = piece_ns;
        pair.ls = side_open(pair.t, 1, DETSHARE__CLASS__LS);
        pair.be = side_open(pair.t, 2, DETSHARE__CLASS__BE);
        return pair;
}

static struct pair pair_open(uint64_t piece_ns)
{
        return pair_open_policy("fifo", piece_ns);
}

static void pair_close(struct pair *pair)
{
        wt_client_close(pair->t, &pair->be.client);
        wt_client_close(pair->t, &pair->ls.client);
        wt_close(pair->t);
}

static struct dsw_session *session_of(const struct pair *pair)
{
        struct dsw_session *session;

        HASH_FIND(hh, pair->t->worker->sessions, &pair->be.client.id, sizeof(pair->be.client.id), session);
        return session;
}

/* Gives the scheduler a duration for launches of this kernel with one thread. */
static void takes(const struct pair *pair, uint64_t kernel, uint64_t ns)
{
        struct ds_launch launch = {
                .kernel = dsw_module_kernel(session_of(pair), kernel)->device, .grid = {1, 1, 1}, .block = {1, 1, 1}};
        ds_sched *sched = pair->t->worker->sched;
        uint64_t key = ds_launch_key(sched, &launch);
        struct ds_kstat_row *row = ds_kstat_at(sched->kstat, ds_kstat_touch(sched->kstat, key), key);

        row->mean_ns = ns;
        row->samples = 1;
}

static void steps_take(const struct pair *pair, uint64_t ns)
{
        takes(pair, pair->be.step, ns);
        takes(pair, pair->be.poke, ns);
}

/* Launches the graph until it runs in pieces. Returns the number of launches. */
static uint32_t run_until_cut(struct pair *pair, uint64_t graph)
{
        uint32_t n, before = whole;

        for (n = 0; n < 64 && whole == before; n++) {
                run(pair->t, &pair->be, graph, 1);
                for (int i = 0; i < 10; i++)
                        wt_turn(pair->t, 0);
        }
        cr_assert_gt(whole, before);
        return n;
}

Test(worker_graph_pieces, one_after_the_other_in_order, .timeout = 60)
{
        struct pair pair = pair_open(DS_NS_PER_S * 1000);
        uint32_t expected = 0, before;
        uint64_t graph;

        steps(&pair.be, 100);
        cr_assert_eq(create(pair.t, &pair.be, &graph), 0);
        run(pair.t, &pair.be, graph, 3);
        cr_assert_eq(whole, 0, "what kernels take is not known yet");
        for (uint32_t i = run_until_cut(&pair, graph) + 3; i; i--)
                expected = stepped(expected, 100);
        cr_assert_eq(word(pair.t, &pair.be, 0), expected);
        before = singles;
        run(pair.t, &pair.be, graph, 1);
        cr_assert_eq(singles, before, "all of it is one piece");
        cr_assert_eq(word(pair.t, &pair.be, 0), stepped(expected, 100));
        pair_close(&pair);
}

/* Ten kernels of 10 us run in one long piece after a second without LS work. Sooner they run in pieces of at most 35 us:
 * three, three, three kernels, and one alone. */
Test(worker_graph_pieces, are_no_longer_than_they_may_be, .timeout = 60)
{
        struct pair pair = pair_open(35 * DS_NS_PER_US);
        struct dsw_piece *longer;
        uint32_t before, before_singles;
        uint64_t graph;

        steps(&pair.be, 10);
        cr_assert_eq(create(pair.t, &pair.be, &graph), 0);
        run(pair.t, &pair.be, graph, 3);
        steps_take(&pair, 10 * DS_NS_PER_US);
        run_until_cut(&pair, graph);
        cr_assert_eq(session_of(&pair)->n_pieces, 4);
        before = whole;
        before_singles = singles;
        run(pair.t, &pair.be, graph, 1);
        cr_assert_eq(whole - before, 1, "LS has never had work");
        cr_assert_eq(singles, before_singles);
        longer = (struct dsw_piece *)dsw_pieces_at(session_of(&pair)->pieces, NULL, 0);
        cr_assert_eq(longer->sched.away_ns, DS_NS_PER_S);
        cr_assert_eq(dsw_pieces_at(session_of(&pair)->pieces, longer, 0)->sched.away_ns, 120 * DS_NS_PER_US);
        /* LS has been idle for longer than a short piece demands, and for less than the long one does */
        pair.t->worker->sched->class_left_ns[DETSHARE_CLASS_LS] = 1;
        longer->sched.away_ns = UINT64_MAX;
        run_until_cut(&pair, graph); /* the first launch only requests the short pieces */
        before = whole;
        before_singles = singles;
        run(pair.t, &pair.be, graph, 1);
        cr_assert_eq(whole - before, 3);
        cr_assert_eq(singles - before_singles, 1);
        cr_assert_eq(destroy(pair.t, &pair.be, graph), 0);
        wt_turn(pair.t, 0);
        cr_assert_eq(session_of(&pair)->n_pieces, 0);
        pair_close(&pair);
}

/* Creates a graph of n steps and launches it until it is cut into pieces. */
static uint64_t cut_graph(struct pair *pair, uint32_t n)
{
        uint64_t graph;

        steps(&pair->be, n);
        cr_assert_eq(create(pair->t, &pair->be, &graph), 0);
        run(pair->t, &pair->be, graph, 3);
        steps_take(pair, 10 * DS_NS_PER_US);
        run_until_cut(pair, graph);
        return graph;
}

/* pieces of 30 kernels of 10 us, if a piece takes at most 30 us: ten short ones, and long ones of 12, 12 and 6 kernels */
#define PIECES_OF_30 (10 + 3)

/* The limit on a session's graphs does not count pieces. */
Test(worker_graph_pieces, pieces_do_not_count_as_graphs, .timeout = 60)
{
        struct pair pair = pair_open(30 * DS_NS_PER_US);
        struct dsw_session *session = session_of(&pair);
        uint64_t graph, one, rest;

        steps(&pair.be, 200);
        cr_assert_eq(create(pair.t, &pair.be, &graph), 0);
        one = session->graph_bytes;
        cr_assert_eq(destroy(pair.t, &pair.be, graph), 0);
        one -= session->graph_bytes;
        cut_graph(&pair, 200);
        cr_assert_eq(session->n_pieces, 67 + 17);
        /* the session's graphs and pieces leave exactly enough room for two more graphs */
        rest = DSW_SESSION_GRAPH_BYTES - 3 * one - (session->graph_bytes - one);
        session->graph_bytes += rest;
        session->user->graph_bytes += rest;
        cr_assert_eq(create(pair.t, &pair.be, &graph), 0);
        cr_assert_eq(create(pair.t, &pair.be, &graph), 0);
        cr_assert_eq(create(pair.t, &pair.be, &graph), DETSHARE__STATUS__QUOTA);
        session->graph_bytes -= rest;
        session->user->graph_bytes -= rest;
        pair_close(&pair);
}

/* When the room is full, the pieces with the oldest launch are removed, without any other effect. */
Test(worker_graph_pieces, give_way, .timeout = 60)
{
        struct pair pair = pair_open(30 * DS_NS_PER_US);
        struct dsw_session *session = session_of(&pair);
        uint64_t graphs[3], one, rest;
        uint32_t before;

        graphs[0] = cut_graph(&pair, 30);
        one = session->piece_bytes;
        graphs[1] = cut_graph(&pair, 30);
        cr_assert_eq(session->n_pieces, 2 * PIECES_OF_30);
        rest = DSW_SESSION_PIECE_BYTES - 2 * one;
        session->piece_bytes += rest;
        session->user->piece_bytes += rest;
        run(pair.t, &pair.be, graphs[0], 1);
        graphs[2] = cut_graph(&pair, 30);
        cr_assert_eq(session->n_pieces, 2 * PIECES_OF_30);
        before = whole;
        run(pair.t, &pair.be, graphs[1], 1);
        cr_assert_eq(whole, before, "it was the last one to be launched");
        run(pair.t, &pair.be, graphs[0], 1);
        run(pair.t, &pair.be, graphs[2], 1);
        cr_assert_eq(whole, before + 2 * 3);
        session->piece_bytes -= rest;
        session->user->piece_bytes -= rest;
        /* pieces beyond the limit on their number are removed too */
        session->n_pieces += DSW_SESSION_PIECES_MAX - 2 * PIECES_OF_30;
        run(pair.t, &pair.be, graphs[1], 2);
        steps_take(&pair, 10 * DS_NS_PER_US);
        run_until_cut(&pair, graphs[1]); /* the last launch without pieces is the eighth */
        session->n_pieces -= DSW_SESSION_PIECES_MAX - 2 * PIECES_OF_30;
        cr_assert_eq(session->n_pieces, 2 * PIECES_OF_30);
        before = whole;
        run(pair.t, &pair.be, graphs[0], 1);
        cr_assert_eq(whole, before);
        pair_close(&pair);
}

/* No pieces are removed for a graph that would not fit even then. */
Test(worker_graph_pieces, do_not_give_way_for_nothing, .timeout = 60)
{
        struct pair pair = pair_open(30 * DS_NS_PER_US);
        struct dsw_session *session = session_of(&pair);
        uint64_t first = cut_graph(&pair, 30), second, rest;
        uint32_t before;

        /* the user's other sessions leave one byte too little for second, even without first's pieces */
        rest = DSW_USER_PIECE_BYTES - session->piece_bytes + 1 - (session->user->piece_bytes - session->piece_bytes);
        session->user->piece_bytes += rest;
        steps(&pair.be, 30);
        cr_assert_eq(create(pair.t, &pair.be, &second), 0);
        run(pair.t, &pair.be, second, 3);
        steps_take(&pair, 10 * DS_NS_PER_US);
        before = whole;
        run(pair.t, &pair.be, second, 1); /* at the fourth launch `second` would be cut */
        cr_assert_eq(whole, before, "it goes kernel by kernel");
        cr_assert_eq(session->n_pieces, PIECES_OF_30);
        run(pair.t, &pair.be, first, 1);
        cr_assert_eq(whole, before + 3, "they are there");
        session->user->piece_bytes -= rest;
        pair_close(&pair);
}

/* Pieces whose launch is in progress are not removed, so the other graph is not cut. */
Test(worker_graph_pieces, do_not_give_way_on_their_way, .timeout = 60)
{
        struct pair pair = pair_open(30 * DS_NS_PER_US);
        struct dsw_session *session = session_of(&pair);
        uint64_t first = cut_graph(&pair, 30), rest;
        uint32_t before;

        steps(&pair.be, 30);
        cr_assert_eq(create(pair.t, &pair.be, &then_graph), 0);
        cr_assert_eq(wt_stream(pair.t, &pair.be.client, &then_stream), 0);
        run(pair.t, &pair.be, then_graph, 3);
        rest = DSW_SESSION_PIECE_BYTES - session->piece_bytes;
        session->piece_bytes += rest;
        session->user->piece_bytes += rest;
        before = singles;
        /* this client launches then_graph for the fourth time while the launch of `first` is on its way */
        then = &pair.be;
        run(pair.t, &pair.be, first, 1);
        cr_assert_null(then);
        /* the wait in run() may have begun before that launch */
        cr_assert_eq(wt_sync_all(pair.t, &pair.be.client), 0);
        cr_assert_eq(singles, before + 30, "%u", singles - before);
        cr_assert_eq(session->n_pieces, PIECES_OF_30);
        before = whole;
        run(pair.t, &pair.be, first, 1);
        cr_assert_eq(whole, before + 3, "they are there");
        session->piece_bytes -= rest;
        session->user->piece_bytes -= rest;
        pair_close(&pair);
}

/* A kernel longer than a piece may be runs alone. */
Test(worker_graph_pieces, long_kernels_are_none, .timeout = 60)
{
        struct pair pair = pair_open(30 * DS_NS_PER_US);
        uint64_t graph;

        steps(&pair.be, 10);
        cr_assert_eq(create(pair.t, &pair.be, &graph), 0);
        run(pair.t, &pair.be, graph, 3);
        steps_take(&pair, 4 * 30 * DS_NS_PER_US + 1);
        run(pair.t, &pair.be, graph, 1);
        cr_assert_eq(session_of(&pair)->n_pieces, 0);
        cr_assert_eq(whole, 0);
        pair_close(&pair);
}

/* If a policy places BE on some SMs only, it decides about each kernel of a graph, so graphs are not cut into
 * pieces. */
Test(worker_graph_pieces, not_on_other_rungs, .timeout = 60)
{
        struct pair pair = pair_open_policy("static", DS_NS_PER_S * 1000);
        uint32_t expected = 0;
        uint64_t graph;

        steps(&pair.be, 40);
        cr_assert_eq(create(pair.t, &pair.be, &graph), 0);
        for (int i = 0; i < 12; i++) {
                run(pair.t, &pair.be, graph, 1);
                expected = stepped(expected, 40);
        }
        cr_assert_eq(session_of(&pair)->n_pieces, 1);
        cr_assert_eq(whole, 0);
        cr_assert_eq(singles, 12 * 40);
        cr_assert_eq(word(pair.t, &pair.be, 0), expected);
        cr_assert_eq(pair.t->worker->ops->put_off(pair.t->worker->device), 0, "nothing is built for it");
        pair_close(&pair);
}

/* The kernels of a BE graph run one by one while LS has work. */
Test(worker_graph_pieces, not_while_ls_has_work, .timeout = 60)
{
        struct pair pair = pair_open(DS_NS_PER_S * 1000);
        struct ds_record_host host = {.head = {DS_RECORD_HOST, 0, sizeof(host)}, .id = 4711};
        struct ds_ring_header *header = (void *)pair.ls.client.ring;
        const uint64_t one = 1;
        uint32_t before, before_singles;
        uint64_t graph;

        steps(&pair.be, 40);
        cr_assert_eq(create(pair.t, &pair.be, &graph), 0);
        run_until_cut(&pair, graph);
        wt_push(&pair.ls.client, &host, sizeof(host));
        for (int n = 0; n < WT_TURNS && !atomic_load(&pair.ls.client.page->host_calls); n++)
                wt_turn(pair.t, 0);
        before = whole;
        before_singles = singles;
        run(pair.t, &pair.be, graph, 1);
        cr_assert_eq(whole, before);
        cr_assert_eq(singles - before_singles, 40);
        atomic_store(&header->host_done, 1);
        cr_assert_eq(write(pair.ls.client.event_fd, &one, sizeof(one)), sizeof(one));
        cr_assert_eq(wt_sync_all(pair.t, &pair.ls.client), 0);
        run_until_cut(&pair, graph); /* pieces return after LS has been idle for a while */
        pair_close(&pair);
}

/* Right after LS work a piece must be short compared with LS's idle time; for pieces of 40 s that never happens
 * here. */
Test(worker_graph_pieces, not_soon_after_ls_had_work, .timeout = 60)
{
        struct pair pair = pair_open(DS_NS_PER_S * 1000);
        uint32_t before;
        uint64_t graph;

        steps(&pair.be, 40);
        cr_assert_eq(create(pair.t, &pair.be, &graph), 0);
        run(pair.t, &pair.be, graph, 3);
        steps_take(&pair, DS_NS_PER_S);
        run_until_cut(&pair, graph);
        wt_push_poke(&pair.ls.client, 0, pair.ls.step, pair.ls.memory, 7);
        cr_assert_eq(wt_sync_all(pair.t, &pair.ls.client), 0);
        before = whole;
        run(pair.t, &pair.be, graph, 4);
        cr_assert_eq(whole, before);
        pair_close(&pair);
}

/* A graph with nodes of all kinds, some empty or disabled, on the same few words. */
static void random_graph(struct side *side, uint32_t *seed)
{
        struct ds_record nothing = {.type = DS_RECORD_PAD, .size = sizeof(nothing)};
        uint32_t n = 2 + rand_r((unsigned *)seed) % 60;

        gf_begin(&file);
        for (uint32_t i = 0; i < n; i++) {
                uint32_t r = (uint32_t)rand_r((unsigned *)seed), to = r / 64 % WORDS, from = r / 1024 % WORDS;

                if (r % 16 < 11)
                        gf_poke(&file, side->step, side->memory + 4 * (uint64_t)to, r % 1000);
                else if (r % 16 == 11)
                        gf_memset(&file, side->memory + 4 * (uint64_t)to, r, 1);
                else if (r % 16 == 12 && to != from)
                        gf_copy(&file, side->memory + 4 * (uint64_t)to, side->memory + 4 * (uint64_t)from, 4);
                else if (r % 16 == 13)
                        gf_poke(&file, side->poke, side->memory + 4 * (uint64_t)to, r);
                else
                        gf_add(&file, &nothing, sizeof(nothing), &(uint32_t){i - 1}, i > 0, 0);
        }
        gf_end(&file);
}

static void words_of(struct pair *pair, uint32_t *words)
{
        cr_assert_eq(wt_read(pair->t, &pair->be.client, words, pair->be.memory, 4 * WORDS), 0);
}

static void words_clear(struct pair *pair)
{
        gf_begin(&file);
        gf_memset(&file, pair->be.memory, 0, WORDS);
        gf_end(&file);
        {
                uint64_t graph;

                cr_assert_eq(create(pair->t, &pair->be, &graph), 0);
                run(pair->t, &pair->be, graph, 1);
                cr_assert_eq(destroy(pair->t, &pair->be, graph), 0);
        }
}

/* A graph that runs in pieces beside LS requests leaves the same bits as one that runs kernel by kernel. */
Test(worker_graph_pieces, random_graphs_leave_the_same_bits, .timeout = 120)
{
        struct pair pair = pair_open(45 * DS_NS_PER_US);
        uint32_t seed = 4, in_pieces = 0;

        watched = pair.t->worker;
        watched_space = session_of(&pair)->space;
        for (int round = 0; round < 8; round++) {
                uint32_t words[2][WORDS];
                uint64_t graph;

                words_clear(&pair);
                random_graph(&pair.be, &seed);
                cr_assert_eq(create(pair.t, &pair.be, &graph), 0);
                run(pair.t, &pair.be, graph, 6);
                words_of(&pair, words[0]);
                run(pair.t, &pair.be, graph, 1);
                steps_take(&pair, 10 * DS_NS_PER_US);
                /* at the eighth launch the graph is cut if two of its nodes can run concurrently */
                run(pair.t, &pair.be, graph, 1);
                pair.t->worker->sched->class_left_ns[DETSHARE_CLASS_LS] = 1; /* LS has been idle for long */
                if (session_of(&pair)->n_pieces)
                        run_until_cut(&pair, graph);
                /* every second graph runs as if LS had just ended its work, so that its short pieces are built too */
                pair.t->worker->sched->class_left_ns[DETSHARE_CLASS_LS] = round % 2 ? pair.t->worker->now_ns : 1;
                run(pair.t, &pair.be, graph, 8);
                words_clear(&pair);
                in_pieces -= whole;
                for (int i = 0; i < 6; i++) {
                        launch(&pair.be, 0, graph);
                        if (rand_r((unsigned *)&seed) % 2)
                                wt_push_poke(&pair.ls.client, 0, pair.ls.step, pair.ls.memory, 7);
                        wt_turn(pair.t, 0);
                }
                cr_assert_eq(wt_sync_all(pair.t, &pair.be.client), 0);
                in_pieces += whole;
                words_of(&pair, words[1]);
                cr_assert_arr_eq(words[0], words[1], sizeof(words[0]), "round %d", round);
                cr_assert_eq(destroy(pair.t, &pair.be, graph), 0);
        }
        cr_assert_gt(in_pieces, 0);
        watched = NULL;
        pair_close(&pair);
}

/* New parameters make a new graph, which is cut again; a graph with new parameters at every launch is not cut. */
Test(worker_graph_pieces, updates, .timeout = 60)
{
        struct pair pair = pair_open(DS_NS_PER_S * 1000);
        uint32_t expected = 0;
        uint64_t graph;

        steps(&pair.be, 20);
        cr_assert_eq(create(pair.t, &pair.be, &graph), 0);
        for (uint32_t i = run_until_cut(&pair, graph); i; i--)
                expected = stepped(expected, 20);
        for (int i = 0; i < 6; i++) {
                launch(&pair.be, 0, graph); /* launches in progress keep the old parameters */
                expected = stepped(expected, 20);
                steps(&pair.be, 20);
                cr_assert_eq(update(pair.t, &pair.be, graph), 0);
                run(pair.t, &pair.be, graph, 8);
                for (int n = 0; n < 8; n++)
                        expected = stepped(expected, 20);
        }
        cr_assert_eq(word(pair.t, &pair.be, 0), expected);
        cr_assert_eq(session_of(&pair)->n_pieces, 0, "it was updated too often");
        pair_close(&pair);
}

/* A client disconnects while pieces of its graph wait and run. */
Test(worker_graph_pieces, clients_go_in_the_middle, .timeout = 60)
{
        struct pair pair = pair_open(45 * DS_NS_PER_US);
        uint64_t graph;

        steps(&pair.be, 60);
        cr_assert_eq(create(pair.t, &pair.be, &graph), 0);
        run(pair.t, &pair.be, graph, 3);
        steps_take(&pair, 10 * DS_NS_PER_US);
        run_until_cut(&pair, graph);
        for (int i = 0; i < 20; i++)
                launch(&pair.be, 0, graph);
        wt_turn(pair.t, 0);
        pair_close(&pair);
}
