/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orion: best-effort kernels beside latency-sensitive ones with another bottleneck
 *
 * The rule of Orion (Strati, Ma, Klimovic, EuroSys'24) as its public code has it (eth-easl/orion, busy_wait_profile).
 * Latency-sensitive (high-priority) work is launched at once. Best-effort clients take turns, one operation each per
 * round, and an operation goes if one of these holds:
 *
 *  (a) no latency-sensitive request is being served, or it is no kernel;
 *  (b) the system is in its first ten iterations, or the latency-sensitive client has finished;
 *  (c) the latency-sensitive client trains and is in its update phase (its first `update_start` kernels have ended),
 *      and the kernel needs at most SM_THRESHOLD SMs;
 *  (d) it and the operations sent in this round need at most SM_THRESHOLD SMs, and its bottleneck (compute or memory)
 *      differs from that of the latency-sensitive kernel launched last, or one of the two is unknown.
 *
 * When the expected times of the best-effort kernels launched since the last drain exceed DUR_THRESHOLD, nothing more
 * goes until all of them have ended. The authors set it to 2.5% of the latency of a high-priority request. SM_THRESHOLD
 * is all SMs for inference. For latency-sensitive training it starts at half, and every ten iterations moves by binary
 * search: up if an iteration took at most `hp_limit_us` on average, else down.
 *
 * Differences:
 *
 * - The code has one high-priority client; here it is all LS sessions, and a request of theirs is an iteration.
 * - The code knows the number of kernels of an iteration. Here one lasts from the first launch until nothing is queued
 *   or running. So a client that leaves its queue empty inside a request makes several short ones of it: best effort
 *   goes in between, and the learned lengths are too small.
 * - Sessions have no known end: the client counts as finished when no LS work was seen for `finished_ms`.
 * - The code's (b) counts the iterations of the best-effort client; here LS requests count.
 * - Without a setting DUR_THRESHOLD follows the shortest request latency seen, which drifts up slowly when requests
 *   become longer. Before the first request it is 100 us, theirs for MobileNetV2.
 * - A kernel of unknown duration counts as the whole threshold (Orion has none: it profiles first).
 * - Rounds follow each other at once, so (d) bounds a round and not the work on the device, unless sm_in_flight is 1.
 *
 * A best-effort kernel with the bottleneck of the latency-sensitive ones, or that needs more SMs, waits for ever beside
 * a client whose requests follow each other without a gap: that is the rule.
 */
#include "policies/round.h"

#define US 1000ull
#define MS 1000000ull
#define DURATION_FIRST_NS (100 * US)
#define SEARCH_ITERATIONS 10u
#define LATENCY_DRIFT 64u /* a longer request moves the known latency by the difference divided by this number */

struct orion {
        uint32_t sm_threshold, sm_low;
        /* duration 0: the threshold follows the learned latency; limit 0: LS does inference, not training */
        uint64_t duration_ns, limit_ns, finished_ns;
        uint32_t permille, update_start, first_iterations, sm_in_flight, ls_depth, sm_high;

        uint64_t last_be; /* id of the best-effort coroutine served last */
        uint64_t sum_ns;  /* expected time of the best-effort kernels since the last drain, ns */
        uint32_t drain;
        uint32_t round_sms; /* SMs needed by the best-effort kernels of this round */

        uint64_t ls_seen_ns; /* time of the last LS work + 1, ns; 0: never */
        uint32_t ls_bound;   /* bottleneck of the LS kernel launched last */
        uint64_t request_session, request_begin_ns;
        uint32_t request_kernels; /* kernels of the LS request that have ended */
        uint32_t iterations;
        uint64_t iterations_ns; /* total time of the iterations since the last search step (up to ten), ns */
        uint64_t latency_ns;
};

/* State of one decision */
struct gate {
        struct orion *orion;
        uint32_t pass, in_flight, in_flight_sms;
        int in_request, finished;
};

static const struct detshare_policy_param params[] = {
        {.name = "sm_threshold",
                .help = "SMs that the BE kernels of one round may need beside LS; 0 = all",
                .def = 0,
                .min = 0,
                .max = 1024},
        {.name = "dur_threshold_us",
                .help = "BE work between two drains, us; 0 = dur_permille of an LS request",
                .def = 0,
                .min = 0,
                .max = 1000000},
        {.name = "dur_permille",
                .help = "BE work between two drains, permille of the shortest LS request seen",
                .def = 25,
                .min = 1,
                .max = 1000},
        {.name = "first_iterations",
                .help = "first LS requests during which BE joins without restriction",
                .def = 10,
                .min = 0,
                .max = 1000000},
        {.name = "hp_limit_us",
                .help = "LS that trains: longest iteration for which sm_threshold is searched, us; 0 = LS is inference",
                .def = 0,
                .min = 0,
                .max = 1000000000},
        {.name = "update_start",
                .help = "LS that trains: kernels of an iteration before its update phase; 0 = no such phase",
                .def = 0,
                .min = 0,
                .max = 1000000},
        {.name = "sm_in_flight",
                .help = "1: sm_threshold counts all BE kernels on the device; 0: those of one round",
                .def = 0,
                .min = 0,
                .max = 1},
        {.name = "finished_ms",
                .help = "time without LS work after which the LS client counts as finished, ms",
                .def = 1000,
                .min = 1,
                .max = 1000000},
        ROUND_LS_DEPTH_PARAM,
};

static int orion_init(void *state, const struct detshare_policy_config *config)
{
        struct orion *orion = state;
        const int64_t *value = config->params;

        orion->sm_threshold = value[0] ? (uint32_t)value[0] : config->n_sms;
        orion->duration_ns = (uint64_t)value[1] * US;
        orion->permille = (uint32_t)value[2];
        orion->first_iterations = (uint32_t)value[3];
        orion->limit_ns = (uint64_t)value[4] * US;
        orion->update_start = (uint32_t)value[5];
        orion->sm_in_flight = (uint32_t)value[6];
        orion->finished_ns = (uint64_t)value[7] * MS;
        orion->ls_depth = (uint32_t)value[8];
        if (!orion->limit_ns)
                return 0;
        orion->sm_high = orion->sm_threshold; /* upper end of the binary search */
        orion->sm_threshold /= 2;
        return 0;
}

/* --- learning ----------------------------------------------------------------------------------------------------- */

static void learn_latency(struct orion *orion, uint64_t ns)
{
        if (!orion->latency_ns || ns < orion->latency_ns)
                orion->latency_ns = ns;
        else
                orion->latency_ns += (ns - orion->latency_ns) / LATENCY_DRIFT;
}

/* Counts an LS iteration; after each ten iterations makes one step of the binary search for the SM threshold. */
static void search(struct orion *orion, uint64_t ns)
{
        orion->iterations_ns += ns;
        if (orion->iterations % SEARCH_ITERATIONS || orion->sm_threshold == orion->sm_low)
                return;
        if (orion->iterations_ns / SEARCH_ITERATIONS > orion->limit_ns)
                orion->sm_high = orion->sm_threshold;
        else
                orion->sm_low = orion->sm_threshold;
        orion->sm_threshold = (orion->sm_low + orion->sm_high) / 2;
        orion->iterations_ns = 0;
}

static void iteration(struct orion *orion, uint64_t ns)
{
        if (orion->iterations < UINT32_MAX)
                orion->iterations++;
        learn_latency(orion, ns);
        if (orion->limit_ns)
                search(orion, ns);
}

static void observe(struct orion *orion, const struct detshare_snapshot *snapshot)
{
        const struct detshare_session_view *session;

        if (round_is_busy(snapshot, DETSHARE_CLASS_LS) || round_request_active(snapshot))
                orion->ls_seen_ns = snapshot->now_ns + 1;
        if (snapshot->event_session == UINT32_MAX)
                return;
        session = &snapshot->sessions[snapshot->event_session];
        if (session->class_ != DETSHARE_CLASS_LS)
                return;
        if (snapshot->event == DETSHARE_EVENT_REQUEST_BEGIN) {
                orion->request_session = session->id;
                orion->request_begin_ns = session->request_begin_ns;
                orion->request_kernels = 0;
        } else if (session->id != orion->request_session) {
                return;
        } else if (snapshot->event == DETSHARE_EVENT_REQUEST_END) {
                iteration(orion, snapshot->now_ns - orion->request_begin_ns);
                orion->request_kernels = 0;
        } else if (snapshot->event == DETSHARE_EVENT_COMPLETE && snapshot->event_op.kind == DETSHARE_OP_KERNEL) {
                orion->request_kernels++;
        }
}

/* --- the gate ----------------------------------------------------------------------------------------------------- */

static uint64_t duration_threshold(const struct orion *orion)
{
        if (orion->duration_ns)
                return orion->duration_ns;
        return orion->latency_ns ? orion->latency_ns * orion->permille / 1000 : DURATION_FIRST_NS;
}

static int complementary(const struct orion *orion, const struct detshare_op_view *op)
{
        return !op->bound || !orion->ls_bound || op->bound != orion->ls_bound;
}

/* Whether a best-effort operation may go now: the conditions (a) to (d) at the top of this file. */
static int may_join(const struct gate *gate, const struct detshare_op_view *op)
{
        const struct orion *orion = gate->orion;
        uint32_t sms = orion->round_sms + (orion->sm_in_flight ? gate->in_flight_sms : 0);

        if (!gate->in_request || op->kind != DETSHARE_OP_KERNEL)
                return 1;
        if (orion->iterations < orion->first_iterations)
                return 1;
        if (orion->update_start && orion->request_kernels >= orion->update_start &&
                op->sms_needed <= orion->sm_threshold)
                return 1;
        return sms + op->sms_needed <= orion->sm_threshold && complementary(orion, op);
}

static int may(
        void *state, uint32_t pass, const struct detshare_coroutine_view *coroutine, const struct detshare_op_view *op)
{
        struct gate *gate = state;
        struct orion *orion = gate->orion;
        uint64_t threshold_ns = duration_threshold(orion);

        (void)coroutine;
        if (pass != gate->pass && !orion->sm_in_flight)
                orion->round_sms = 0;
        gate->pass = pass;
        if (!may_join(gate, op))
                return 0;
        if (orion->drain && gate->in_flight)
                return 0;
        if (orion->drain)
                orion->sum_ns = 0;
        orion->drain = 0;
        gate->in_flight++;
        if (op->kind != DETSHARE_OP_KERNEL)
                return 1;
        orion->round_sms += op->sms_needed;
        orion->sum_ns += op->samples ? op->expected_ns : threshold_ns + 1;
        orion->drain = orion->sum_ns > threshold_ns && !gate->finished;
        return 1;
}

static void launch_ls(struct orion *orion, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (coroutine->class_ != DETSHARE_CLASS_LS || !coroutine->ready)
                        continue;
                for (uint32_t k = 0; k < coroutine->n_ahead; k++)
                        if (coroutine->ahead[k].kind == DETSHARE_OP_KERNEL)
                                orion->ls_bound = coroutine->ahead[k].bound;
        }
        round_launch_class(snapshot, decision, DETSHARE_CLASS_LS, orion->ls_depth);
}

static int orion_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct orion *orion = state;
        struct gate gate = {.orion = orion, .pass = UINT32_MAX};

        observe(orion, snapshot);
        launch_ls(orion, snapshot, decision);
        gate.in_request = round_request_active(snapshot) && round_is_busy(snapshot, DETSHARE_CLASS_LS);
        gate.finished = !orion->ls_seen_ns || snapshot->now_ns - orion->ls_seen_ns + 1 > orion->finished_ns;
        gate.in_flight = round_in_flight(snapshot, DETSHARE_CLASS_BE);
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++)
                if (snapshot->coroutines[i].class_ == DETSHARE_CLASS_BE)
                        gate.in_flight_sms += snapshot->coroutines[i].in_flight_sms;
        orion->round_sms = 0;
        round_robin(snapshot, decision, DETSHARE_CLASS_BE, ROUND_DEPTH, may, &gate, &orion->last_be);
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "orion",
        .description = "BE kernels run beside LS kernels with another bottleneck, bounded in SMs and time (Orion)",
        .params = params,
        .n_params = sizeof(params) / sizeof(params[0]),
        .state_size = sizeof(struct orion),
        .init = orion_init,
        .decide = orion_decide,
};
