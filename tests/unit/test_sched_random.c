/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random histories of sessions, streams, waits, policies and cancellations, against properties of all of them
 *
 * A model states CUDA's promises: operations of a stream run in sequence; a wait delays its successors; the legacy
 * default stream and the blocking streams of a session wait for each other. Every operation is reported exactly once
 * and in order, under every policy, however often policies change (all of them take part) and kill work, and in the end
 * nothing is left. The seed is printed; DETSHARE_TEST_SEED repeats a run, DETSHARE_TEST_ROUNDS makes it longer.
 */
#include "tests/unit/sched_device.h"

#define US 1000ULL
#define SESSIONS 5
#define STREAMS 6
#define STREAM_OPS 400
#define STEPS 1500

struct model_stream {
        ds_coroutine *coroutine; /* NULL: not open */
        int session, blocking, legacy, referenced;
        int n, told;
        uint64_t after_ns; /* earliest start of following operations, from the ends of operations waited for, ns */
};

struct model_op {
        struct top top;
        int stream, cancelled;
        int wait_stream, wait_index; /* the operation that a wait is for; -1: none */
        uint64_t wait_life;
        int joined_ns_known;
        /* for each stream of the session: number of its operations that this operation waits for, by the legacy
         * stream's rule */
        uint32_t joins[STREAMS];
        uint64_t life; /* counts the streams that have used this slot */
};

static const struct ds_sched_forms sliced_only = {.sliced = &sdev_sliced},
                                   persistent_only = {.persistent = &sdev_persistent};
static struct harness h;
static uint64_t random_state, rounds_seed;
static ds_sched_session *sessions[SESSIONS];
static int cancelled[SESSIONS];
static uint64_t session_ids;
static struct model_stream streams[SESSIONS * STREAMS];
static uint64_t lives[SESSIONS * STREAMS];
static struct model_op ops[SESSIONS * STREAMS][STREAM_OPS];
static uint64_t submitted, told, kills, nonsense, fallbacks, evictions, slices;
static size_t n_policies;
static char policy[32];

static uint64_t dice(uint64_t sides)
{
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return random_state % sides;
}

static int is_work(const struct model_op *op)
{
        return ds_op_is_work(&op->top.op);
}

/* Asserts that everything op had to wait for has been reported and ended before op started. */
static void check_dependencies(const struct model_op *op)
{
        const struct model_stream *stream = &streams[op->stream];
        int first = stream->session * STREAMS;

        for (int i = 0; i < STREAMS; i++) {
                cr_assert_geq((uint32_t)streams[first + i].told, op->joins[i], "seed %llu: a join was not kept",
                        (unsigned long long)rounds_seed);
                for (uint32_t k = 0; k < op->joins[i]; k++)
                        cr_assert_geq(op->top.start_ns, ops[first + i][k].top.end_ns);
        }
        if (op->wait_stream >= 0 && lives[op->wait_stream] == op->wait_life)
                cr_assert_geq(streams[op->wait_stream].told, op->wait_index + 1, "seed %llu: a wait was not kept",
                        (unsigned long long)rounds_seed);
}

static void on_done(struct harness *harness, struct top *top)
{
        struct model_op *op = DS_CONTAINER_OF(top, struct model_op, top);
        struct model_stream *stream = &streams[op->stream];

        cr_assert_eq(top->done, 1);
        if (top->op.kind == DS_OP_LAUNCH && !top->status)
                cr_assert_eq(top->script.ran, top->op.launch.grid[0], "seed %llu: not every block ran once",
                        (unsigned long long)rounds_seed);
        cr_assert_eq(
                op, &ops[op->stream][stream->told], "seed %llu: told out of order", (unsigned long long)rounds_seed);
        told++;
        if (!op->cancelled || top->status == 0) {
                cr_assert_geq(top->end_ns, top->start_ns);
                cr_assert_geq(top->start_ns, stream->told ? ops[op->stream][stream->told - 1].top.end_ns : 0);
                if (!cancelled[stream->session])
                        check_dependencies(op);
                if (is_work(op) && top->status == 0 && !cancelled[stream->session])
                        cr_assert_geq(top->start_ns, stream->after_ns);
        }
        if (op->wait_stream >= 0 && lives[op->wait_stream] == op->wait_life &&
                streams[op->wait_stream].told > op->wait_index)
                stream->after_ns = DS_MAX(stream->after_ns, ops[op->wait_stream][op->wait_index].top.end_ns);
        stream->told++;
}

/* --- events of a history ------------------------------------------------------------------------------------------ */

static void open_session(int s)
{
        sessions[s] =
                session_open(&h, ++session_ids, dice(2) ? DETSHARE_CLASS_LS : DETSHARE_CLASS_BE, dice(2) * 500 * US);
        cancelled[s] = 0;
}

static void open_stream(int s, int i)
{
        struct model_stream *stream = &streams[s * STREAMS + i];
        int legacy = i == 0, blocking = !legacy && dice(2);

        *stream = (struct model_stream){.session = s, .legacy = legacy, .blocking = blocking};
        lives[s * STREAMS + i]++;
        cr_assert_eq(ds_coroutine_new(sessions[s], (int32_t)dice(3), blocking, legacy, &stream->coroutine), 0);
}

static void note_joins(struct model_op *op)
{
        struct model_stream *stream = &streams[op->stream];
        int first = stream->session * STREAMS;

        memset(op->joins, 0, sizeof(op->joins));
        for (int i = 0; i < STREAMS; i++) {
                struct model_stream *other = &streams[first + i];

                if ((stream->legacy && other->blocking) || (stream->blocking && other->legacy))
                        op->joins[i] = (uint32_t)other->n;
        }
}

static void make_wait(struct model_op *op)
{
        int target = (int)dice(SESSIONS * STREAMS);
        struct model_stream *other = &streams[target];

        wait_init(&op->top, NULL, 0);
        if (!other->coroutine || !other->n)
                return;
        op->wait_stream = target;
        op->wait_life = lives[target];
        op->wait_index = (int)dice((uint64_t)other->n);
        op->top.op.wait_for = other->coroutine;
        /* the wait is sometimes for an operation after the last one */
        op->top.op.wait_seq = (uint64_t)op->wait_index + 1;
        if (dice(8) == 0) {
                op->wait_index = other->n - 1;
                op->top.op.wait_seq = UINT64_MAX - dice(10);
        }
}

static void make_op(struct model_op *op, int s)
{
        uint64_t kind = dice(20);

        op->wait_stream = -1;
        if (kind < 3) {
                mark_init(&op->top);
        } else if (kind < 6) {
                make_wait(op);
        } else if (kind < 8) {
                op->top = (struct top){.op.kind = DS_OP_COPY};
                op->top.op.copy = (struct ds_copy){.space = (uint32_t)s, .width = dice(30 * US), .height = 1};
        } else if (kind < 9) {
                op->top = (struct top){.op.kind = DS_OP_MEMSET};
                op->top.op.memset =
                        (struct ds_memset){.space = (uint32_t)s, .width = dice(9 * US), .height = 1, .element_size = 4};
        } else {
                kernel_init(&op->top, (uint32_t)s, dice(50 * US), 1 + (uint32_t)dice(500), dice(2) * (1 + dice(9)));
                if (s & 1)
                        op->top.op.launch.kernel = &sdev_idempotent;
                if (dice(2))
                        op->top.op.forms = dice(3) ? &sdev_forms : dice(2) ? &sliced_only : &persistent_only;
                if (dice(40) == 0)
                        op->top.script.refuse_form = DS_CUDA_OUT_OF_MEMORY;
                if (dice(40) == 0)
                        op->top.script.refuse = DS_CUDA_LAUNCH_OUT_OF_RESOURCES;
                if (dice(40) == 0)
                        op->top.script.status = DS_CUDA_ILLEGAL_ADDRESS;
        }
}

static void submit_some(int at)
{
        struct model_stream *stream = &streams[at];
        uint64_t n = 1 + dice(dice(5) ? 3 : 40);

        for (uint64_t i = 0; i < n && stream->n < STREAM_OPS; i++) {
                struct model_op *op = &ops[at][stream->n];
                int r;

                *op = (struct model_op){.stream = at};
                make_op(op, stream->session);
                op->stream = at;
                op->life = lives[at];
                note_joins(op);
                r = submit(&h, stream->coroutine, &op->top);
                if (cancelled[stream->session]) {
                        cr_assert_eq(r, DS_SCHED_E_FAULTED);
                        return;
                }
                cr_assert_eq(r, 0);
                stream->n++;
                submitted++;
        }
}

static void cancel_session(int s)
{
        for (int i = s * STREAMS; i < (s + 1) * STREAMS; i++)
                for (int k = streams[i].told; k < streams[i].n; k++)
                        ops[i][k].cancelled = 1;
        cancelled[s] = 1;
        ds_sched_session_cancel(sessions[s], DS_CUDA_LAUNCH_FAILED, harness_now(&h));
}

static void close_streams(int s)
{
        for (int i = s * STREAMS; i < (s + 1) * STREAMS; i++) {
                cr_assert_eq(streams[i].told, streams[i].n);
                if (streams[i].referenced)
                        ds_coroutine_unref(streams[i].coroutine);
                lives[i]++;
                streams[i] = (struct model_stream){.session = s};
        }
}

/* Frees a session only when idle, so that no other session's wait refers to a stream whose model is gone. */
static void try_free_session(int s)
{
        if (!ds_sched_session_idle(sessions[s]))
                return;
        h.caps[sessions[s]->config.id] = 0;
        sessions[s] = ds_sched_session_free(sessions[s]);
        close_streams(s);
}

/* One of the policies, without those that are made to fail. */
static const char *pick_policy(void)
{
        static struct ds_policy_listing list[128];
        const char *name;

        if (dice(3) == 0)
                return "chaos";
        cr_assert_gt(n_policies = DS_MIN(ds_sched_list_policies(h.sched, list, 128), 128), 6);
        do
                name = list[dice(n_policies)].name;
        while (!strncmp(name, "bad-", 4) || !strcmp(name, "slow") || !strcmp(name, "probe"));
        return name;
}

/* Only the policy `dice` may return senseless actions or be replaced. */
static void check_policy(void)
{
        struct ds_sched_stats stats = harness_stats(&h);

        if (strcmp(policy, "chaos")) {
                cr_assert_eq(stats.nonsense, nonsense, "seed %llu: nonsense of %s: %s", (unsigned long long)rounds_seed,
                        policy, h.sched->host.nonsense);
                cr_assert_eq(stats.fallbacks, fallbacks, "seed %llu: %s was given up", (unsigned long long)rounds_seed,
                        policy);
        }
        nonsense = stats.nonsense;
        fallbacks = stats.fallbacks;
        snprintf(policy, sizeof(policy), "%s", stats.policy);
}

static void change_policy(void)
{
        const char *name = pick_policy();
        char param[40], message[128];
        const char *params[] = {param};

        snprintf(param, sizeof(param), "seed=%llu", 1 + (unsigned long long)dice(1000000));
        cr_assert_eq(ds_sched_set_policy(
                             h.sched, name, params, !strcmp(name, "chaos"), harness_now(&h), message, sizeof(message)),
                0, "%s", message);
        snprintf(policy, sizeof(policy), "%s", name);
        for (uint64_t i = 0; i <= session_ids; i++)
                cr_assert(!h.caps[i] || h.caps[i] == UINT64_MAX,
                        "seed %llu: a cap of session %llu goes with who made it", (unsigned long long)rounds_seed,
                        (unsigned long long)i);
}

/* The client states a random phase, share or size of its session; the scheduler must trust none of it. */
static void say_something(int s)
{
        switch (dice(4)) {
        case 0:
                ds_sched_session_phase(sessions[s], (uint32_t)dice(3), harness_now(&h));
                break;
        case 1:
                ds_sched_session_share(sessions[s], (uint32_t)dice(1001), (uint32_t)dice(1001), harness_now(&h));
                break;
        case 2:
                ds_sched_session_memory(sessions[s], dice(1 << 30), dice(2) << 30, harness_now(&h));
                break;
        default:
                ds_sched_session_synchronised(sessions[s], harness_now(&h));
        }
}

static void something_happens(void)
{
        int at = (int)dice(SESSIONS * STREAMS), s = at / STREAMS;
        struct model_stream *stream = &streams[at];
        uint64_t what = dice(200);

        if (!sessions[s]) {
                open_session(s);
        } else if (what < 2) {
                if (!cancelled[s])
                        cancel_session(s);
        } else if (what < 6) {
                try_free_session(s);
        } else if (what < 10) {
                change_policy();
        } else if (what < 14) {
                const struct ds_slo slo = {.ns = {dice(3) * 100 * US, dice(3) * 200 * US, dice(2) * 50 * US},
                        .permille = {dice(2) * 1500, dice(3) / 2 * 2000, dice(3) / 2 * 1200}};

                ds_sched_session_set(
                        sessions[s], dice(2) ? DETSHARE_CLASS_LS : DETSHARE_CLASS_BE, &slo, 100, harness_now(&h));
                ds_sched_session_arrival(sessions[s], harness_now(&h) - dice(2) * US, harness_now(&h));
        } else if (what < 20) {
                say_something(s);
        } else if (what < 21) {
                ds_sched_hold(h.sched, (unsigned)dice(4), harness_now(&h));
        } else if (!stream->coroutine) {
                open_stream(s, at % STREAMS);
        } else if (what < 23 && !stream->referenced && stream->n) {
                /* the stream is released: nothing more is submitted to it, but other streams can still wait for its
                 * operations */
                ds_coroutine_ref(stream->coroutine);
                ds_coroutine_release(stream->coroutine);
                stream->referenced = 1;
        } else if (what < 125) {
                if (!stream->referenced)
                        submit_some(at);
        } else {
                uint64_t limit = harness_now(&h) + dice(60 * US);

                check_policy();
                harness_step(&h);
                check_policy();
                sdev_advance(h.device, DS_MIN(limit, ds_sched_next_timer(h.sched)));
        }
}

static void one_round(uint64_t seed)
{
        char message[128];

        rounds_seed = seed;
        random_state = seed * 0x9e3779b97f4a7c15ULL | 1;
        memset(sessions, 0, sizeof(sessions));
        memset(streams, 0, sizeof(streams));
        submitted = told = session_ids = 0;
        cr_assert_eq(harness_open_transform(&h, 8, "tests/policies", "fifo", (enum ds_sched_transform)dice(3)), 0);
        h.sched->evict_bound_ns = 1000 + dice(20 * US);
        strcpy(policy, "fifo");
        nonsense = fallbacks = 0;
        h.on_done = on_done;
        h.device->abort_works = (int)dice(2);
        for (int i = 0; i < STEPS; i++)
                something_happens();
        ds_sched_hold(h.sched, 0, harness_now(&h));
        cr_assert_eq(ds_sched_set_policy(h.sched, "fifo", NULL, 0, harness_now(&h), message, sizeof(message)), 0);
        harness_run(&h, UINT64_MAX);
        cr_assert_eq(submitted, told, "seed %llu: %llu submitted, %llu told", (unsigned long long)seed,
                (unsigned long long)submitted, (unsigned long long)told);
        harness_assert_clean(&h);
        for (int s = 0; s < SESSIONS; s++)
                if (sessions[s]) {
                        cr_assert(ds_sched_session_idle(sessions[s]));
                        try_free_session(s);
                }
        kills += harness_stats(&h).kills;
        evictions += h.device->evictions;
        slices += harness_stats(&h).sliced;
        cr_assert_eq(harness_stats(&h).coroutines, 0);
        cr_assert_eq(harness_stats(&h).sessions, 0);
        harness_run(&h, UINT64_MAX);
        harness_close(&h);
}

Test(sched_random, histories)
{
        const char *seed_text = getenv("DETSHARE_TEST_SEED"), *rounds_text = getenv("DETSHARE_TEST_ROUNDS");
        uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : (uint64_t)getpid() * 1000;
        int rounds = rounds_text ? atoi(rounds_text) : 60;

        printf("DETSHARE_TEST_SEED=%llu (%d rounds)\n", (unsigned long long)seed, rounds);
        fflush(stdout);
        for (int i = 0; i < rounds; i++)
                one_round(seed + (uint64_t)i);
        printf("%llu kernels were killed, %llu evicted, %llu sliced, %zu policies\n", (unsigned long long)kills,
                (unsigned long long)evictions, (unsigned long long)slices, n_policies);
        cr_assert_gt(kills, 0);
        cr_assert_gt(evictions, 0);
        cr_assert_gt(slices, 0);
}

/* The same seed gives the same history to the nanosecond: nothing depends on addresses or on the wall clock. */
Test(sched_random, a_history_repeats)
{
        uint64_t ends[2] = {0, 0}, totals[2];

        for (int i = 0; i < 2; i++) {
                memset(lives, 0, sizeof(lives));
                session_ids = 0;
                one_round(4711);
                totals[i] = told;
                for (int k = 0; k < SESSIONS * STREAMS; k++)
                        for (int n = 0; n < STREAM_OPS; n++)
                                ends[i] = ds_kstat_mix(ends[i], ops[k][n].top.end_ns);
        }
        cr_assert_eq(totals[0], totals[1]);
        cr_assert_eq(ends[0], ends[1]);
}
