/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tpot-first: the next token of running answers comes before the first token of new ones
 *
 * For servers of language models. The abstract of DetShare's paper (arXiv 2603.15042) names a policy TPOT-First under
 * which fewer tokens take longer than their objective. It does not give the rule; this one is ours. Where the time to
 * first token (TTFT) and the time per output token (TPOT) cannot both be kept, TPOT is. An LS session is a server; its
 * objective is the time per output token (`tpot_ms` without one).
 *
 * - A decode step begins when the last one ended, or with its first operation if that is more than the objective later.
 *   Its slack is the objective less the time since then and less what the step, by its recent length, still needs. A
 *   server whose last step was a decode step is in the middle of an answer: its slack counts also while it queues
 *   nothing, until the objective has passed.
 * - Decode steps go at once, on the whole GPU at high priority, least slack first, from `decode_streams` streams at
 *   once.
 * - Prefill comes next, at low priority. A server that has begun its prompt goes before one that has not, and among
 *   them the older prompt. But a new one whose TTFT slack (of `ttft_ms` from its first operation) is below
 *   `late_percent` goes before a begun one with more slack, or with none left.
 * - Beside an answer, prefill has `prefill_depth` operations on the device. On the whole GPU a prefill operation delays
 *   each kernel of the decode step by half of a block in the mean, and the next step by all of it. If the least slack
 *   of all servers covers that, it may go there. Otherwise it goes to `prefill_percent` of the SMs with
 *   `prefill_blocks` resident blocks per SM. Without any slack it waits.
 * - Best effort gets the rest: nothing while prefill waits or there is no slack, `be_percent` of the SMs and `be_depth`
 *   operations beside working servers, and the whole GPU otherwise.
 * - Nothing starves: an operation at the head of its queue for `starve_ms` goes, one at a time, to the SMs of its kind.
 *
 * Kind of work: the client's phase hint decides. Without a hint the launch pattern does. A sequence is what is launched
 * between two synchronisations (of a client that never synchronises: between two times without work), or what a client
 * declares as one phase. A sequence with about the kernels of the last one, that takes no longer than the objective, is
 * a decode step; its kernels are then known as bits of a sketch. A kernel that is not among them and fills the GPU
 * makes the rest of its sequence prefill. Everything else counts as decode, so unknown work is protected. A step that
 * does prefill and decode at once is what its client says; otherwise prefill the first time, and a decode step when it
 * repeats in time.
 *
 * A server that queues its next step before the last has ended shows no ends of steps; then a new step counts as begun
 * after twice the objective.
 */
#include "policies/round.h"
#include "policies/size.h"
#include "policies/stair.h"
#include "policies/table.h"

#define TPOT_MS 1000000ll
#define TPOT_SLO_MOST_NS (10000ull * TPOT_MS) /* maximum of the parameter tpot_ms, ns */
#define TPOT_SERVERS 64u
#define SKETCH_WORDS 8u

/* Set of the kernels in a sequence, as bits of a hash. */
struct sketch {
        uint64_t word[SKETCH_WORDS];
        uint32_t n;
        uint32_t unused; /* always zero */
        uint64_t ns;     /* device time of the sequence, ns */
};

struct server {
        struct table_row row;
        uint32_t synchronises;
        uint32_t phase;          /* phase of the running sequence, as far as it is known */
        uint32_t answers;        /* 1: the last step was a decode step, so the server is in the middle of an answer */
        uint32_t launched;       /* operations launched in the running sequence */
        uint32_t sent;           /* enum detshare_phase of the server's last launched operation */
        uint32_t unused;         /* always zero */
        uint64_t slo_ns;         /* objective per token, ns */
        uint64_t begin_ns;       /* begin of the running sequence + 1, ns; 0: it has no operation yet */
        uint64_t end_ns;         /* end of the last sequence, ns */
        struct sketch now, last; /* kernels of the running sequence, and of the last one */
        struct sketch decode;    /* last sequence that was a decode step; its ns is a running mean, (old + new) / 2 */
};

struct tpot {
        int64_t slo_ns, ttft_ns, late_ns, starve_ns;
        uint32_t decode_streams, ls_depth, prefill_depth, prefill_percent, prefill_blocks, be_depth, be_percent;
        struct server servers[TPOT_SERVERS];
};

static const struct detshare_policy_param tpot_params[] = {
        {.name = "tpot_ms",
                .help = "time per output token for a session without an objective, ms",
                .def = 30,
                .min = 1,
                .max = 10000},
        {.name = "ttft_ms", .help = "time to the first token, ms", .def = 500, .min = 1, .max = 100000},
        {.name = "late_percent",
                .help = "slack below which a new prompt overtakes others, percent of ttft_ms",
                .def = 25,
                .min = 0,
                .max = 100},
        {.name = "starve_ms",
                .help = "wait at the head of a queue after which an operation runs in any case, ms",
                .def = 2000,
                .min = 1,
                .max = 100000},
        {.name = "decode_streams",
                .help = "streams with decode operations on the device at once",
                .def = 4,
                .min = 1,
                .max = 64},
        ROUND_LS_DEPTH_PARAM,
        {.name = "prefill_depth",
                .help = "prefill operations on the device at once while answers are decoded",
                .def = 2,
                .min = 1,
                .max = 64},
        {.name = "prefill_percent",
                .help = "share of the SMs for prefill when the slack is short, percent",
                .def = 50,
                .min = 1,
                .max = 100},
        {.name = "prefill_blocks",
                .help = "resident prefill blocks per SM when the slack is short",
                .def = 1,
                .min = 1,
                .max = 32},
        {.name = "be_depth",
                .help = "operations of one BE coroutine on the device at once beside LS sessions",
                .def = 2,
                .min = 1,
                .max = 64},
        {.name = "be_percent",
                .help = "share of the SMs for BE beside LS sessions, percent",
                .def = 25,
                .min = 1,
                .max = 100},
};

static int tpot_init(void *state, const struct detshare_policy_config *config)
{
        struct tpot *tpot = state;

        tpot->slo_ns = config->params[0] * TPOT_MS;
        tpot->ttft_ns = config->params[1] * TPOT_MS;
        tpot->late_ns = tpot->ttft_ns / 100 * config->params[2];
        tpot->starve_ns = config->params[3] * TPOT_MS;
        tpot->decode_streams = (uint32_t)config->params[4];
        tpot->ls_depth = (uint32_t)config->params[5];
        tpot->prefill_depth = (uint32_t)config->params[6];
        tpot->prefill_percent = (uint32_t)config->params[7];
        tpot->prefill_blocks = (uint32_t)config->params[8];
        tpot->be_depth = (uint32_t)config->params[9];
        tpot->be_percent = (uint32_t)config->params[10];
        return 0;
}

static struct server *server_of(struct tpot *tpot, const struct detshare_snapshot *snapshot, uint32_t session)
{
        struct server *server = TABLE_TAKE(tpot->servers, snapshot->sessions[session].id, snapshot->now_ns);
        const struct detshare_session_view *view = &snapshot->sessions[session];
        uint64_t slo_ns = view->tpot_ns ? view->tpot_ns : view->slo_ns;

        /* limited, because a client may set any objective, and a server counts as answering for that long after it
         * is gone */
        server->slo_ns = slo_ns ? slo_ns : (uint64_t)tpot->slo_ns;
        server->slo_ns = server->slo_ns < TPOT_SLO_MOST_NS ? server->slo_ns : TPOT_SLO_MOST_NS;
        return server;
}

/* --- sequences ---------------------------------------------------------------------------------------------------- */

static uint64_t *sketch_word(struct sketch *sketch, uint64_t kernel, uint64_t *ret_bit)
{
        uint64_t hash = kernel * 0x9e3779b97f4a7c15ull;

        *ret_bit = 1ull << (hash >> 58);
        return &sketch->word[(hash >> 40) % SKETCH_WORDS];
}

static int sketch_has(struct sketch *sketch, uint64_t kernel)
{
        uint64_t bit, *word = sketch_word(sketch, kernel, &bit);

        return (*word & bit) != 0;
}

static void sketch_add(struct sketch *sketch, uint64_t kernel, uint64_t ns)
{
        uint64_t bit, *word = sketch_word(sketch, kernel, &bit);

        *word |= bit;
        sketch->n++;
        sketch->ns += ns;
}

/* Whether two sequences are alike: at most a tenth more or fewer operations, and at most a quarter of other kernels.
 * A growing answer changes some grids. */
static int is_like(const struct sketch *a, const struct sketch *b)
{
        uint32_t n = a->n > b->n ? a->n - b->n : b->n - a->n, other = 0, all = 0;

        for (uint32_t i = 0; i < SKETCH_WORDS; i++) {
                other += (uint32_t)__builtin_popcountll(a->word[i] ^ b->word[i]);
                all += (uint32_t)__builtin_popcountll(a->word[i] | b->word[i]);
        }
        return a->n && b->n && n <= a->n / 10 && other <= all / 4;
}

static uint32_t phase_of(
        struct server *server, const struct detshare_snapshot *snapshot, const struct detshare_op_view *op)
{
        if (op->phase != DETSHARE_PHASE_NONE)
                return op->phase;
        if (op->kind != DETSHARE_OP_KERNEL)
                return server->phase == DETSHARE_PHASE_NONE ? DETSHARE_PHASE_DECODE : server->phase;
        if (server->phase == DETSHARE_PHASE_PREFILL)
                return DETSHARE_PHASE_PREFILL;
        if (!sketch_has(&server->decode, op->kernel) && stair_fills(op, snapshot->n_sms))
                return DETSHARE_PHASE_PREFILL;
        return DETSHARE_PHASE_DECODE;
}

static void learn(struct server *server, int is_decode)
{
        uint64_t ns = server->decode.ns;

        if (!is_decode)
                return;
        server->decode = server->now;
        if (ns)
                server->decode.ns = (ns + server->now.ns) / 2;
}

static void sequence_end(struct server *server, uint64_t now_ns)
{
        static const struct sketch none;
        int repeats = is_like(&server->now, &server->last) || is_like(&server->now, &server->decode);
        int is_decode = server->phase == DETSHARE_PHASE_DECODE;

        if (!server->now.n)
                return;
        is_decode |= repeats && server->now.ns <= server->slo_ns;
        learn(server, is_decode && (repeats || !server->decode.n));
        server->answers = (uint32_t)is_decode;
        server->last = server->now;
        server->now = none;
        server->phase = DETSHARE_PHASE_NONE;
        server->launched = 0;
        server->begin_ns = 0;
        server->end_ns = now_ns;
}

static void observe(struct tpot *tpot, const struct detshare_snapshot *snapshot)
{
        const struct detshare_op_view *op = &snapshot->event_op;
        struct server *server;

        if (snapshot->event_session == UINT32_MAX ||
                snapshot->sessions[snapshot->event_session].class_ != DETSHARE_CLASS_LS)
                return;
        server = server_of(tpot, snapshot, snapshot->event_session);
        if (snapshot->event == DETSHARE_EVENT_COMPLETE && op->kind == DETSHARE_OP_KERNEL) {
                if (op->phase != DETSHARE_PHASE_NONE && server->phase != DETSHARE_PHASE_NONE &&
                        op->phase != server->phase)
                        sequence_end(server, snapshot->event_start_ns);
                server->phase = phase_of(server, snapshot, op);
                sketch_add(&server->now, op->kernel, snapshot->event_end_ns - snapshot->event_start_ns);
        } else if (snapshot->event == DETSHARE_EVENT_SYNCHRONISED) {
                server->synchronises = 1;
                sequence_end(server, snapshot->now_ns);
        } else if (snapshot->event == DETSHARE_EVENT_REQUEST_END && !server->synchronises) {
                sequence_end(server, snapshot->now_ns);
        }
}

/* Begins a sequence when a server gets work. A sequence that has lasted for twice the objective counts as ended, and
 * the next one begins. */
static void observe_begin(struct tpot *tpot, const struct detshare_snapshot *snapshot)
{
        uint64_t now_ns = snapshot->now_ns;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                struct server *server;

                if (coroutine->class_ != DETSHARE_CLASS_LS)
                        continue;
                server = server_of(tpot, snapshot, coroutine->session);
                if (coroutine->in_flight)
                        server->launched = 1;
                if (!server->begin_ns)
                        server->begin_ns = server->answers && now_ns - server->end_ns < server->slo_ns
                                                   ? server->end_ns + 1
                                                   : now_ns + 1;
                else if (server->phase == DETSHARE_PHASE_DECODE && now_ns + 1 - server->begin_ns > 2 * server->slo_ns)
                        server->begin_ns = now_ns + 1;
        }
}

/* --- slack -------------------------------------------------------------------------------------------------------- */

static int64_t decode_slack(const struct server *server, uint64_t now_ns)
{
        uint64_t begin_ns = server->begin_ns ? server->begin_ns - 1 : server->end_ns;
        uint64_t needs_ns = server->decode.ns > server->now.ns ? server->decode.ns - server->now.ns : 0;

        return (int64_t)(begin_ns + server->slo_ns) - (int64_t)(now_ns + needs_ns);
}

/* The state that one decision uses. */
struct look {
        int is_answering;    /* 1: a decode step runs or is due */
        int64_t slack_ns;    /* least slack of all servers, ns */
        uint32_t kernels;    /* maximum number of kernels that a decode step still has to run, over all servers */
        uint32_t decoding;   /* streams with decode operations on the device */
        uint32_t prefilling; /* prefill operations on the device */
        uint64_t prefill_ns; /* expected time of the prefill operations on the device, ns */
        uint32_t wants;      /* 1: prefill work is ready or on the device */
        uint64_t end_ns;     /* earliest time at which a server stops counting as answering, ns; UINT64_MAX: none */
};

static void look_server(struct look *look, const struct server *server, uint64_t now_ns)
{
        int64_t slack_ns = decode_slack(server, now_ns);
        uint32_t left = server->decode.n > server->now.n ? server->decode.n - server->now.n : 1;

        if (!look->is_answering || slack_ns < look->slack_ns)
                look->slack_ns = slack_ns;
        look->is_answering = 1;
        if (left > look->kernels)
                look->kernels = left;
}

/* Kind of work at the head of the queue; of an empty queue, the kind that its server sent last. */
static uint32_t kind_of(
        struct tpot *tpot, const struct detshare_snapshot *snapshot, const struct detshare_coroutine_view *coroutine)
{
        struct server *server = server_of(tpot, snapshot, coroutine->session);

        return coroutine->n_ahead ? phase_of(server, snapshot, &coroutine->ahead[0]) : server->sent;
}

static void look_coroutine(struct tpot *tpot, const struct detshare_snapshot *snapshot,
        const struct detshare_coroutine_view *coroutine, struct look *look)
{
        if (kind_of(tpot, snapshot, coroutine) == DETSHARE_PHASE_PREFILL) {
                look->wants |= coroutine->ready || coroutine->in_flight;
                look->prefilling += coroutine->in_flight;
                look->prefill_ns += coroutine->in_flight_expected_ns;
        } else if (coroutine->ready || coroutine->in_flight) {
                look->decoding += coroutine->in_flight != 0;
                look_server(look, server_of(tpot, snapshot, coroutine->session), snapshot->now_ns);
        }
}

/*
 * Time until which a server counts as in the middle of an answer, also while it queues nothing, ns. Between two steps:
 * the objective after the last one. Inside a step: twice the objective after its begin. 0: the server does not answer.
 */
static uint64_t due_until(const struct server *server)
{
        if (server->begin_ns)
                return server->phase == DETSHARE_PHASE_DECODE ? server->begin_ns + 2 * server->slo_ns : 0;
        return server->answers ? server->end_ns + server->slo_ns : 0;
}

static struct look look(struct tpot *tpot, const struct detshare_snapshot *snapshot)
{
        struct look look = {.end_ns = UINT64_MAX};

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++)
                if (snapshot->coroutines[i].class_ == DETSHARE_CLASS_LS)
                        look_coroutine(tpot, snapshot, &snapshot->coroutines[i], &look);
        for (uint32_t i = 0; i < TPOT_SERVERS; i++) {
                const struct server *server = &tpot->servers[i];
                uint64_t end_ns = due_until(server);

                if (snapshot->now_ns >= end_ns)
                        continue;
                look_server(&look, server, snapshot->now_ns);
                if (end_ns < look.end_ns)
                        look.end_ns = end_ns;
        }
        return look;
}

/* --- decode ------------------------------------------------------------------------------------------------------- */

/* Number of operations at the head of the queue that are of the head's kind. */
static uint32_t same_kind(
        struct tpot *tpot, const struct detshare_snapshot *snapshot, const struct detshare_coroutine_view *coroutine)
{
        struct server *server = server_of(tpot, snapshot, coroutine->session);
        uint32_t n = 0;

        while (n < coroutine->n_ahead &&
                phase_of(server, snapshot, &coroutine->ahead[n]) == phase_of(server, snapshot, &coroutine->ahead[0]))
                n++;
        return n;
}

/* The decode stream to launch next: that of the server with the least slack, among streams with ready decode work
 * that this decision has not launched yet; NULL if there is none. is_new: 1: only streams with nothing on the
 * device; 0: only the others. */
static const struct detshare_coroutine_view *next_decode(struct tpot *tpot, const struct detshare_snapshot *snapshot,
        const struct detshare_decision *decision, int is_new)
{
        const struct detshare_coroutine_view *best = NULL;
        int64_t least_ns = INT64_MAX;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                int64_t slack_ns;
                uint32_t k = 0;

                if (coroutine->class_ != DETSHARE_CLASS_LS || !coroutine->ready ||
                        (coroutine->in_flight == 0) != is_new || coroutine->in_flight >= tpot->ls_depth ||
                        kind_of(tpot, snapshot, coroutine) == DETSHARE_PHASE_PREFILL)
                        continue;
                while (k < decision->n && decision->actions[k].coroutine != coroutine->id)
                        k++;
                slack_ns = decode_slack(server_of(tpot, snapshot, coroutine->session), snapshot->now_ns);
                if (k == decision->n && slack_ns < least_ns) {
                        best = coroutine;
                        least_ns = slack_ns;
                }
        }
        return best;
}

static void launch_decode(struct tpot *tpot, const struct detshare_snapshot *snapshot,
        struct detshare_decision *decision, struct look *look)
{
        for (int is_new = 0; is_new < 2; is_new++) {
                const struct detshare_coroutine_view *next;

                while ((!is_new || look->decoding < tpot->decode_streams) &&
                        (next = next_decode(tpot, snapshot, decision, is_new))) {
                        uint32_t n = same_kind(tpot, snapshot, next), most = tpot->ls_depth - next->in_flight;

                        if (!round_launch(decision, next, 0, n < most ? n : most))
                                return;
                        server_of(tpot, snapshot, next->session)->sent = DETSHARE_PHASE_DECODE;
                        look->decoding += (uint32_t)is_new;
                }
        }
}

/* --- prefill ------------------------------------------------------------------------------------------------------ */

static int64_t ttft_slack(const struct tpot *tpot, const struct server *server, uint64_t now_ns)
{
        return tpot->ttft_ns - (int64_t)(now_ns + 1 - server->begin_ns);
}

/* Whether a new prompt goes before a begun one: only then can the new prompt be answered in time, and the begun one
 * is not hurt or is late anyway. */
static int overtakes(const struct tpot *tpot, int64_t slack_new_ns, int64_t slack_begun_ns)
{
        return slack_new_ns > 0 && slack_new_ns < tpot->late_ns &&
               (slack_begun_ns <= 0 || slack_begun_ns > slack_new_ns);
}

/* Whether the prompt of server a goes before the prompt of server b. */
static int is_before(const struct tpot *tpot, const struct server *a, const struct server *b, uint64_t now_ns)
{
        int64_t slack_a = ttft_slack(tpot, a, now_ns), slack_b = ttft_slack(tpot, b, now_ns);

        if (a->launched && !b->launched)
                return !overtakes(tpot, slack_b, slack_a);
        if (b->launched && !a->launched)
                return overtakes(tpot, slack_a, slack_b);
        return slack_a < slack_b;
}

static const struct detshare_coroutine_view *next_prefill(struct tpot *tpot, const struct detshare_snapshot *snapshot)
{
        const struct detshare_coroutine_view *best = NULL;
        const struct server *best_server = NULL;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                const struct server *server;

                if (coroutine->class_ != DETSHARE_CLASS_LS || !coroutine->ready || !coroutine->n_ahead ||
                        kind_of(tpot, snapshot, coroutine) != DETSHARE_PHASE_PREFILL)
                        continue;
                server = server_of(tpot, snapshot, coroutine->session);
                if (!best || is_before(tpot, server, best_server, snapshot->now_ns)) {
                        best = coroutine;
                        best_server = server;
                }
        }
        return best;
}

static int is_starved(const struct tpot *tpot, const struct detshare_snapshot *snapshot,
        const struct detshare_coroutine_view *coroutine)
{
        return !coroutine->in_flight && snapshot->now_ns >= coroutine->head_since_ns + (uint64_t)tpot->starve_ns;
}

/* Whether the least slack of all servers covers the delay by this prefill operation on the whole GPU, behind the
 * prefill operations on the device. */
static int is_covered(
        const struct look *look, const struct detshare_snapshot *snapshot, const struct detshare_op_view *op)
{
        uint64_t harm_ns;

        if (!op->samples)
                return 0;
        harm_ns = look->prefill_ns + op->expected_ns;
        if (op->kind == DETSHARE_OP_KERNEL)
                harm_ns += stair_block(op, snapshot->n_sms) / 2 * look->kernels;
        return look->slack_ns > 0 && harm_ns <= (uint64_t)look->slack_ns;
}

static uint32_t upper(const struct detshare_snapshot *snapshot, uint32_t percent)
{
        uint32_t sms = snapshot->n_sms * percent / 100;

        return size_rung(snapshot, DETSHARE_SIDE_UPPER, sms > 2 ? sms : 2, NULL);
}

/* Launches operations at low priority on a part of the SMs, with a bound on the resident blocks per SM. */
static int launch_bounded(const struct detshare_snapshot *snapshot, struct detshare_decision *decision,
        const struct detshare_coroutine_view *coroutine, uint32_t count, uint32_t percent, uint32_t blocks)
{
        uint32_t rung = upper(snapshot, percent);
        struct detshare_action *action;

        if (!round_launch(decision, coroutine, rung, count))
                return 0;
        action = &decision->actions[decision->n - 1];
        action->priority = DETSHARE_PRIORITY_LOW;
        if (coroutine->ahead[0].kind == DETSHARE_OP_KERNEL && coroutine->ahead[0].blocks_per_sm > blocks)
                action->max_resident_blocks = blocks * snapshot->rungs[rung].n_sms;
        return 1;
}

static void launch_prefill_free(
        struct tpot *tpot, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        const struct detshare_coroutine_view *next = next_prefill(tpot, snapshot);
        uint32_t n;

        if (!next || next->in_flight >= tpot->ls_depth)
                return;
        n = same_kind(tpot, snapshot, next);
        n = n < tpot->ls_depth - next->in_flight ? n : tpot->ls_depth - next->in_flight;
        server_of(tpot, snapshot, next->session)->sent = DETSHARE_PHASE_PREFILL;
        if (round_launch(decision, next, 0, n))
                decision->actions[decision->n - 1].priority = DETSHARE_PRIORITY_LOW;
}

static void launch_prefill(struct tpot *tpot, const struct detshare_snapshot *snapshot,
        struct detshare_decision *decision, struct look *look)
{
        const struct detshare_coroutine_view *next = next_prefill(tpot, snapshot);
        int is_covered_now;

        if (!next || look->prefilling >= tpot->prefill_depth)
                return;
        is_covered_now = is_covered(look, snapshot, &next->ahead[0]);
        if (is_covered_now && round_launch(decision, next, 0, 1))
                decision->actions[decision->n - 1].priority = DETSHARE_PRIORITY_LOW;
        else if (!is_covered_now && (look->slack_ns > 0 || is_starved(tpot, snapshot, next)))
                launch_bounded(snapshot, decision, next, 1, tpot->prefill_percent, tpot->prefill_blocks);
        else
                return;
        server_of(tpot, snapshot, next->session)->sent = DETSHARE_PHASE_PREFILL;
        decision->again = look->prefilling + 1 < tpot->prefill_depth;
}

/* --- best effort -------------------------------------------------------------------------------------------------- */

static void launch_be(struct tpot *tpot, const struct detshare_snapshot *snapshot, struct detshare_decision *decision,
        const struct look *look)
{
        int is_alone = !look->is_answering && !look->wants;
        int may = is_alone || (!look->wants && look->slack_ns > 0);

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (coroutine->class_ != DETSHARE_CLASS_BE || !coroutine->ready || !coroutine->n_ahead)
                        continue;
                if (is_alone) {
                        uint32_t n = round_within(coroutine, TPOT_MS, ROUND_DEPTH);

                        if (n && !round_launch(decision, coroutine, 0, n))
                                return;
                } else if ((may && coroutine->in_flight < tpot->be_depth) || is_starved(tpot, snapshot, coroutine)) {
                        uint32_t n = may ? tpot->be_depth - coroutine->in_flight : 1;

                        if (!launch_bounded(snapshot, decision, coroutine, n, tpot->be_percent, UINT32_MAX))
                                return;
                }
        }
}

/* Sets the timer to the first moment at which a waiting operation reaches `starve_ms`, or a server stops counting as
 * answering. */
static void set_timer(const struct tpot *tpot, const struct detshare_snapshot *snapshot,
        struct detshare_decision *decision, const struct look *look)
{
        decision->next_timer_ns = look->end_ns;
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                uint64_t at_ns = coroutine->head_since_ns + (uint64_t)tpot->starve_ns;

                if (coroutine->ready && at_ns > snapshot->now_ns && at_ns < decision->next_timer_ns)
                        decision->next_timer_ns = at_ns;
        }
}

static int tpot_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct tpot *tpot = state;
        struct look now;

        observe(tpot, snapshot);
        observe_begin(tpot, snapshot);
        now = look(tpot, snapshot);
        launch_decode(tpot, snapshot, decision, &now);
        if (now.is_answering)
                launch_prefill(tpot, snapshot, decision, &now);
        else
                launch_prefill_free(tpot, snapshot, decision);
        launch_be(tpot, snapshot, decision, &now);
        set_timer(tpot, snapshot, decision, &now);
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "tpot-first",
        .description = "decode steps of language models, then their prefill, then BE (TPOT-First)",
        .params = tpot_params,
        .n_params = sizeof(tpot_params) / sizeof(tpot_params[0]),
        .state_size = sizeof(struct tpot),
        .init = tpot_init,
        .decide = tpot_decide,
};
