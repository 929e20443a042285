/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare: the tide goes by requests
 *
 * Best-effort (BE) work has the whole GPU while no latency-sensitive (LS) request is under way. When one begins, BE
 * ebbs; when it ends, BE flows back. The unit is the request and not the kernel, because a request is hundreds of
 * kernels of 1 to 2 us, and what hurts is waiting at each of them. The idea of reserving SMs for what the LS queue
 * needs, and of looking for that need offline, is SGDRC's (PPoPP'25, sections 4 and 7.1: tidal SM masking); requests,
 * stairs, prices and everything learnt are ours.
 *
 * Beginning and end. A request begins with its first launch. It ends when its queue is empty and the client has waited
 * for it, or when the queue stayed empty for a hold-off: the quantile `hold_percent` of the gaps that this session had
 * inside its requests (a program bound by its host has one between any two kernels).
 *
 * Two prices. A BE kernel beside LS need not give way: where its blocks are short, priority alone lets LS in within
 * microseconds. Its harm is the mean rest of a block that LS finds on full SMs, less the gap that LS makes anyway,
 * times the LS kernels of a request (one that runs long counts once more per 10 us: it may be a graph). As long as that
 * is within the slack (`slo_permille` of what the SLO leaves of a request, without an SLO `slack_permille` of a
 * request's own length), it stays on the whole GPU. Else it goes to the upper rung with the lowest SM count of its own
 * stair (stair.h) that leaves the reserve, since below the first missing SM the next ones cost nothing.
 *
 * The reserve: the most SMs that an LS kernel among the first of the queues needs for its best latency, and the same
 * for what the session launched lately (the quantile `need_percent` of its kernels' time), up to `reserve_percent` of
 * the GPU. LS itself goes to the whole GPU with high priority: it begins in the reserve and spreads as BE blocks end
 * (`ls_overlap` 0: to the lower rung of its need, where that hurts).
 *
 * While no request is under way but an LS session was active lately, one more wait is left: that of a request's first
 * kernel for a BE block. Where that is more than the slack, BE leaves a standing reserve, as large as the need if its
 * kernel loses no more than `standing_permille` by that, else smaller, else none: a kernel that would fall off its
 * stair keeps all SMs. A kernel that takes longer than a session usually is idle will run beside the next request
 * anyway, so it is placed as if that had begun; requests back to back do not move it to and fro.
 *
 * Bounds. A BE coroutine is given the next operation when what it has on the device is expected to end within
 * `be_ahead_us` (with no LS for a second `be_alone_us`), not earlier. Beside LS, kernels known to be bound by compute
 * or memory have no more blocks resident than the calibration found to keep LS under `interference_permille`; kernels
 * that are not known are not bounded by it. BE sessions are kept within `fair_us` of device time of each other.
 *
 * A kernel whose blocks must all be resident and do not fit what BE may have borrows the whole GPU if every LS request
 * under way would still meet its slack; else it waits, for `starve_ms` at most.
 *
 * Felt. Prices are expectations. A session whose requests take longer beside BE than the slack, as felt.h finds by
 * timing them with and without, has BE held while they run: no kernel of it is launched, but for what `starve_ms` says.
 *
 * While LS is idle a kernel that is well known on few SM counts is now and then sent to a rung where it is not, for its
 * profile, for `explore_permille` of BE's time at most.
 *
 * Several LS sessions: by deadline. The first to be due may have `ls_depth` operations on the device, others
 * `ls_late_depth`.
 *
 * State is bounded: the LS and BE sessions seen last, so many of each; of more the one not seen for longest is learnt
 * anew.
 */
#include "policies/felt.h"
#include "policies/gaps.h"
#include "policies/interference.h"
#include "policies/stair.h"

#define US 1000ull
#define MS 1000000ull
#define LS_MAX 32u
#define BE_MAX 64u
#define NEEDS 32u         /* buckets of needs, in parts of the GPU */
#define DELAY_NS 10000ull /* an LS operation that takes longer is delayed once more per so much */
#define ALONE_NS 1000000000ull
#define ENDED 128u     /* coroutines by id; of two with one place the last counts */
#define DEPTH 256u     /* most operations of a BE coroutine on the device */
#define BLOCKS_MAX 32u /* SM counts of the calibration */
/* However many streams clients open, a decision must not take long, and there must be room on the device for LS. */
#define LS_LOOK 256u  /* operations that are looked at for the window, of all queues */
#define BE_MANY 512u  /* BE operations on the device: of each coroutine no more than one then ... */
#define BE_MOST 3072u /* ... and more go only when some have ended */

enum param {
        P_LS_DEPTH,
        P_LS_LATE_DEPTH,
        P_LS_OVERLAP,
        P_LS_TOLERANCE,
        P_BE_TOLERANCE,
        P_SLACK,
        P_SLO,
        P_SHORT,
        P_WINDOW,
        P_NEED,
        P_RESERVE_LEAST,
        P_RESERVE,
        P_STANDING,
        P_RECENT,
        P_HOLD,
        P_HOLD_FIRST,
        P_HOLD_LEAST,
        P_HOLD_MOST,
        P_AHEAD,
        P_ALONE,
        P_UNKNOWN,
        P_INTERFERENCE,
        P_FAIR,
        P_STARVE,
        P_EXPLORE,
        P_EXPLORE_SAMPLES,
        P_EXPLORE_POINTS,
        P_FEEL,
        PARAMS,
};

static const struct detshare_policy_param params[PARAMS] = {
        {"ls_depth", "operations on the device at once of the LS session that is due first", 64, 1, 1024},
        {"ls_late_depth", "the same of other LS sessions", 16, 1, 1024},
        {"ls_overlap", "1: LS may spread over BE's SMs, 0: it stays on the lower rung of its need", 1, 0, 1},
        {"ls_tolerance_permille", "latencies this close count as the best one of an LS kernel", 50, 0, 1000},
        {"be_tolerance_permille", "times this close are one step of a BE kernel's stair", 50, 0, 1000},
        {"slack_permille", "of a request's length that BE may cost it when it has no SLO", 50, 0, 10000},
        {"slo_permille", "of what the SLO leaves that BE may cost a request", 100, 0, 1000},
        {"short_us", "BE blocks that last no longer never give way", 5, 0, 1000000},
        {"window", "operations of an LS queue that are looked at for the reserve", 8, 1, DETSHARE_AHEAD_MAX},
        {"need_percent", "quantile of an LS session's needs, by time", 90, 1, 100},
        {"reserve_sms", "least SMs that BE leaves while it gives way", 8, 0, 1024},
        {"reserve_percent", "most of the GPU that BE leaves", 50, 1, 100},
        {"standing_permille", "what a BE kernel may lose by a reserve while LS is idle, 0 = none", 50, 0, 1000},
        {"recent_ms", "an LS session not active for longer has no standing reserve", 1000, 0, 1000000},
        {"hold_percent", "quantile of the gaps inside requests after which one has ended", 95, 1, 100},
        {"hold_first_us", "hold-off while nothing is learnt", 100, 0, 1000000},
        {"hold_least_us", "least hold-off", 10, 0, 1000000},
        {"hold_most_us", "most; longer gaps lie between requests", 1000, 1, 1000000},
        {"be_ahead_us", "time before its end at which BE work is followed by the next", 100, 0, 1000000},
        {"be_alone_us", "the same while there has been no LS work for a second", 1000, 0, 1000000},
        {"be_unknown", "operations of unknown duration of a BE coroutine on the device", 2, 1, 256},
        {"interference_permille", "LS time beside BE, by the calibration, up to which BE's blocks are unbounded", 1100,
                1000, 100000},
        {"fair_us", "device time by which a BE session may be ahead of another", 2000, 1, 1000000},
        {"starve_ms", "a BE kernel waits for LS no longer", 50, 1, 100000},
        {"explore_permille", "of BE's time spent on learning how kernels do on fewer SMs", 10, 0, 1000},
        {"explore_samples", "completions after which a kernel is worth that", 32, 1, 1000000},
        {"explore_points", "SM counts at which it is to be known", 6, 1, DETSHARE_POINTS_MAX},
        {"feel", "1: what BE is seen to cost requests decides how far it ebbs, 0: prices alone", 1, 0, 1},
};

struct ls {
        uint64_t id;
        uint64_t seen;                /* number of the decision that saw it last; 0: nobody */
        uint64_t active_ns;           /* when it had work last */
        uint64_t begin_ns, empty_ns;  /* of the request that goes on, or the last one; 0: none yet */
        uint64_t slo_ns, deadline_ns; /* UINT64_MAX: none */
        uint8_t open;                 /* a request goes on */
        uint8_t busy;                 /* it has work queued or on the device */
        uint8_t synchronised;         /* while it has none: its client has waited for all */
        uint8_t gapped;               /* this request had gaps */
        uint8_t mixed;                /* another regime than its own was in force, too */
        uint8_t beside;               /* BE was on the device */
        struct gaps inside;
        uint32_t delays, idle_ns;       /* of this request: kernels, and time without work */
        uint32_t need;                  /* of the window, now */
        uint32_t needs[NEEDS];          /* time of kernels by what they need, in us */
        uint64_t length_ns;             /* of a request, low among those seen; 0: unknown */
        uint64_t idle_between_ns;       /* from one request to the next, in the mean; 0: unknown */
        uint32_t mean_delays, mean_gap; /* of a request; ns between two kernels */
        struct felt felt;
        uint64_t piece_ns;           /* when a piece of this request began that is looked at by itself */
        uint32_t regime, operations; /* of the piece: what it has BE do, and what of it has ended */
};

struct be {
        uint64_t id, seen;
        uint64_t device_ns; /* as its view says */
        uint64_t virtual_ns;
};

/* When an operation of a BE coroutine ended last. */
struct ended {
        uint64_t coroutine, ns;
};

/* Blocks that BE may have resident on so many SMs beside LS; 0: no bound. */
struct bound {
        uint32_t n_sms, blocks[DETSHARE_BOUND_MEMORY + 1];
};

struct detshare {
        int64_t p[PARAMS];
        uint32_t n_sms;
        struct stair_side upper, lower;
        struct bound bounds[BLOCKS_MAX];
        uint32_t n_bounds;
        uint64_t decision;
        struct ls ls[LS_MAX];
        struct be be[BE_MAX];
        struct ended ended[ENDED];
        uint64_t be_ns, explored_ns; /* BE's time, and what of it went to exploring */
        uint64_t ls_seen_ns;         /* + 1; 0: never */

        /* of one decision */
        uint64_t now_ns, timer_ns;
        int wet, alone;
        uint32_t regime; /* of BE: the strictest of the requests under way */
        uint32_t reserve;
        uint64_t harmless_ns;  /* rest of a block that LS can bear at each of its kernels */
        uint64_t standing_ns;  /* and at the first one, while it is idle; UINT64_MAX: whatever */
        uint32_t standing_sms; /* needed then */
        uint64_t soon_ns;      /* while it is idle: how long it usually is; UINT64_MAX: who knows */
        uint64_t soon_harmless_ns;
        uint64_t fair_ns;           /* virtual time of the BE session with ready work that has least */
        int fair_runs;              /* what it has on the device counts as it runs: with time it has more */
        uint32_t be_flying, flying; /* BE operations on the device; coroutines that have anything there */
};

static uint64_t us(const struct detshare *d, enum param param)
{
        return (uint64_t)d->p[param] * US;
}

static uint32_t number(const struct detshare *d, enum param param)
{
        return (uint32_t)d->p[param];
}

static void wake_at(struct detshare *d, uint64_t ns)
{
        if (ns < d->timer_ns)
                d->timer_ns = ns;
}

/* --- what is learnt --------------------------------------------------------------------------------------------------
 */

static void needs_learn(struct detshare *d, struct ls *ls, uint32_t need, uint64_t ns)
{
        uint32_t bucket = (need * NEEDS + d->n_sms - 1) / d->n_sms;
        uint64_t sum = 0;

        ls->needs[bucket ? bucket - 1 : 0] += (uint32_t)min_u64(ns / US + 1, 100000);
        for (uint32_t i = 0; i < NEEDS; i++)
                sum += ls->needs[i];
        for (uint32_t i = 0; sum > 100000 && i < NEEDS; i++)
                ls->needs[i] /= 2;
}

static uint32_t needs_quantile(const struct detshare *d, const struct ls *ls)
{
        uint64_t sum = 0, all = 0;
        uint32_t bucket = 0;

        for (uint32_t i = 0; i < NEEDS; i++)
                all += ls->needs[i];
        if (!all)
                return 0;
        for (; bucket < NEEDS - 1; bucket++) {
                sum += ls->needs[bucket];
                if (sum * 100 >= all * number(d, P_NEED))
                        break;
        }
        return (bucket + 1) * d->n_sms / NEEDS;
}

/* --- requests --------------------------------------------------------------------------------------------------------
 */

static struct ls *ls_find(struct detshare *d, uint64_t id, int make)
{
        struct ls *oldest = &d->ls[0];

        for (uint32_t i = 0; i < LS_MAX; i++) {
                if (d->ls[i].seen && d->ls[i].id == id)
                        return &d->ls[i];
                if (d->ls[i].seen < oldest->seen)
                        oldest = &d->ls[i];
        }
        if (!make)
                return NULL;
        *oldest = (struct ls){.id = id, .seen = d->decision};
        return oldest;
}

/* How long its queue must be empty for the request to be over. */
static uint64_t ls_hold(const struct detshare *d, const struct ls *ls)
{
        uint64_t hold = gaps_quantile(&ls->inside, number(d, P_HOLD));

        if (hold == UINT64_MAX)
                return us(d, P_HOLD_FIRST);
        return min_u64(max_u64(hold, us(d, P_HOLD_LEAST)), us(d, P_HOLD_MOST));
}

static void ls_felt(struct ls *ls, uint64_t end_ns)
{
        if (ls->operations && (!ls->mixed || !ls->beside))
                felt_learn(&ls->felt, ls->beside ? ls->regime : FELT_HELD, end_ns - ls->piece_ns, ls->operations);
}

static void ls_close(struct ls *ls)
{
        const uint64_t length = max_u64(ls->empty_ns - ls->begin_ns, 1);

        ls->open = 0;
        if (!ls->gapped)
                gaps_learn(&ls->inside, 0);
        learn_low(&ls->length_ns, length);
        ls_felt(ls, ls->empty_ns);
        learn_mean(&ls->mean_delays, ls->delays);
        learn_mean(&ls->mean_gap, ls->idle_ns / (ls->delays ? ls->delays : 1));
}

/* What BE may cost one of its requests. */
static uint64_t ls_slack(const struct detshare *d, const struct ls *ls)
{
        if (!ls->length_ns)
                return 0;
        if (!ls->slo_ns)
                return ls->length_ns / 1000 * (uint64_t)d->p[P_SLACK];
        return ls->slo_ns > ls->length_ns ? (ls->slo_ns - ls->length_ns) / 1000 * (uint64_t)d->p[P_SLO] : 0;
}

static uint64_t ls_slack_permille(const struct detshare *d, const struct ls *ls)
{
        return ls->length_ns ? ls_slack(d, ls) / (ls->length_ns / 1000 + 1) : 0;
}

/* What comes now of a request is looked at by itself. */
static void ls_piece(const struct detshare *d, struct ls *ls)
{
        ls->mixed = ls->beside = 0;
        ls->operations = 0;
        ls->piece_ns = d->now_ns;
        ls->regime = d->p[P_FEEL] ? felt_choose(&ls->felt, ls_slack_permille(d, ls)) : FELT_EBB;
}

/* It has work again. */
static void ls_wake(struct detshare *d, struct ls *ls)
{
        uint64_t gap = d->now_ns - ls->empty_ns;

        if (ls->begin_ns && !ls->synchronised && gap <= us(d, P_HOLD_MOST))
                gaps_learn(&ls->inside, gap);
        if (ls->open) {
                ls->gapped = 1;
                ls->idle_ns = (uint32_t)min_u64(ls->idle_ns + gap, UINT32_MAX);
        } else {
                if (ls->begin_ns)
                        learn_low(&ls->idle_between_ns, max_u64(gap, 1));
                ls->open = 1;
                ls->begin_ns = d->now_ns;
                ls->gapped = 0;
                ls->delays = ls->idle_ns = 0;
                ls_piece(d, ls);
        }
        ls->busy = 1;
        ls->synchronised = 0;
}

/* view: NULL when it has none, which means that it has no work. */
static void ls_look(struct detshare *d, struct ls *ls, const struct detshare_session_view *view)
{
        int busy = view && view->request_active;

        if (view) {
                ls->seen = d->decision;
                ls->slo_ns = view->slo_ns;
        }
        if (busy && !ls->busy)
                ls_wake(d, ls);
        /* an SLO is what a client says: it may be any number */
        ls->deadline_ns = ls->slo_ns && ls->slo_ns < UINT64_MAX - ls->begin_ns ? ls->begin_ns + ls->slo_ns : UINT64_MAX;
        if (busy)
                ls->active_ns = d->now_ns;
        if (!busy && ls->busy) {
                ls->busy = 0;
                ls->empty_ns = d->now_ns;
        }
        ls->need = 0;
        if (!busy && view && view->synchronised)
                ls->synchronised = 1;
        if (!busy && ls->open && (ls->synchronised || d->now_ns >= ls->empty_ns + ls_hold(d, ls)))
                ls_close(ls);
        if (!busy && ls->open)
                wake_at(d, ls->empty_ns + ls_hold(d, ls));
}

/* What the first of its queues need. */
static void ls_window(struct detshare *d, const struct detshare_snapshot *snapshot)
{
        uint32_t left = LS_LOOK;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                struct ls *ls;

                if (coroutine->class_ != DETSHARE_CLASS_LS)
                        continue;
                ls = ls_find(d, snapshot->sessions[coroutine->session].id, 0);
                for (uint32_t k = 0; ls && k < coroutine->n_ahead && k < number(d, P_WINDOW) && left; k++, left--) {
                        const struct detshare_op_view *op = &coroutine->ahead[k];
                        uint32_t need = 0;

                        if (op->kind == DETSHARE_OP_KERNEL && op->blocks > ls->need)
                                need = stair_need(op, d->n_sms, number(d, P_LS_TOLERANCE));
                        if (need > ls->need)
                                ls->need = need;
                }
        }
}

/* --- the tide --------------------------------------------------------------------------------------------------------
 */

static void tide_session(struct detshare *d, const struct ls *ls)
{
        uint64_t slack = ls_slack(d, ls), gap = ls->mean_gap, delays = ls->mean_delays ? ls->mean_delays : 1;
        uint32_t need = needs_quantile(d, ls);

        if (ls->open) {
                d->wet = 1;
                d->harmless_ns = min_u64(d->harmless_ns, ls->length_ns ? gap + slack / delays : 0);
                d->reserve = (uint32_t)max_u64(d->reserve, max_u64(need, ls->need));
        }
        if (ls->length_ns && d->now_ns - ls->active_ns <= (uint64_t)d->p[P_RECENT] * MS) {
                d->standing_ns = min_u64(d->standing_ns, slack);
                d->standing_sms = (uint32_t)max_u64(d->standing_sms, need);
                d->soon_harmless_ns = min_u64(d->soon_harmless_ns, gap + slack / delays);
                if (ls->idle_between_ns)
                        d->soon_ns = min_u64(d->soon_ns, ls->idle_between_ns);
        }
}

static void tide_look(struct detshare *d, const struct detshare_snapshot *snapshot)
{
        uint32_t most = d->n_sms * number(d, P_RESERVE) / 100;

        for (uint32_t i = 0; i < snapshot->n_sessions; i++) {
                const struct detshare_session_view *view = &snapshot->sessions[i];

                if (view->class_ != DETSHARE_CLASS_LS)
                        continue;
                d->ls_seen_ns = d->now_ns + 1;
                ls_look(d, ls_find(d, view->id, 1), view);
        }
        for (uint32_t i = 0; i < LS_MAX; i++)
                if (d->ls[i].seen && d->ls[i].seen != d->decision)
                        ls_look(d, &d->ls[i], NULL);
        d->alone = !d->ls_seen_ns || d->now_ns - d->ls_seen_ns + 1 > ALONE_NS;
        d->wet = 0;
        d->harmless_ns = d->standing_ns = d->soon_ns = d->soon_harmless_ns = UINT64_MAX;
        d->reserve = d->standing_sms = 0;
        ls_window(d, snapshot);
        for (uint32_t i = 0; i < LS_MAX; i++)
                if (d->ls[i].seen)
                        tide_session(d, &d->ls[i]);
        d->reserve = (uint32_t)min_u64(max_u64(d->reserve, number(d, P_RESERVE_LEAST)), most);
        d->standing_sms = (uint32_t)min_u64(max_u64(d->standing_sms, number(d, P_RESERVE_LEAST)), most);
}

/* An operation of LS ended: before its request may end by it, so that one of a single operation has one. */
static void tide_count(struct detshare *d, const struct detshare_snapshot *snapshot)
{
        struct ls *ls;

        if (snapshot->event != DETSHARE_EVENT_COMPLETE || snapshot->event_session >= snapshot->n_sessions ||
                snapshot->sessions[snapshot->event_session].class_ != DETSHARE_CLASS_LS)
                return;
        ls = ls_find(d, snapshot->sessions[snapshot->event_session].id, 0);
        if (ls)
                ls->operations++;
}

/* An operation ended. Of what a device tells of together only the sum is right, so the mean counts. */
static void tide_complete(struct detshare *d, const struct detshare_snapshot *snapshot)
{
        const struct detshare_session_view *view;
        const struct detshare_op_view *op = &snapshot->event_op;
        uint64_t ns = op->samples ? op->expected_ns : snapshot->event_end_ns - snapshot->event_start_ns;
        struct ls *ls;

        if (snapshot->event != DETSHARE_EVENT_COMPLETE || snapshot->event_session >= snapshot->n_sessions)
                return;
        view = &snapshot->sessions[snapshot->event_session];
        if (view->class_ != DETSHARE_CLASS_LS) {
                d->be_ns += ns;
                d->ended[snapshot->event_coroutine % ENDED] =
                        (struct ended){snapshot->event_coroutine, snapshot->event_end_ns};
                return;
        }
        ls = ls_find(d, view->id, 0);
        if (!ls)
                return;
        if (ls->open && d->now_ns - ls->piece_ns >= FELT_PIECE_NS) {
                ls_felt(ls, d->now_ns);
                ls_piece(d, ls);
        }
        if (op->kind != DETSHARE_OP_KERNEL)
                return;
        ls->delays += 1 + (uint32_t)min_u64(ns / DELAY_NS, 1000000);
        needs_learn(d, ls, stair_need(op, d->n_sms, number(d, P_LS_TOLERANCE)), ns);
}

/* --- launching -------------------------------------------------------------------------------------------------------
 */

struct place {
        uint32_t rung, blocks;
};

/* Adds to the action before where it is the same; 0: no room. */
static int launch(struct detshare_decision *decision, const struct detshare_coroutine_view *coroutine,
        const struct place *place, uint32_t count)
{
        struct detshare_action *action = decision->n ? &decision->actions[decision->n - 1] : NULL;

        if (action && action->coroutine == coroutine->id && action->rung == place->rung &&
                action->max_resident_blocks == place->blocks) {
                action->count += count;
                return 1;
        }
        if (decision->n == decision->capacity) {
                decision->again = 1;
                return 0;
        }
        decision->actions[decision->n++] = (struct detshare_action){
                .kind = DETSHARE_ACTION_LAUNCH,
                .rung = place->rung,
                .coroutine = coroutine->id,
                .priority = coroutine->class_ == DETSHARE_CLASS_LS ? DETSHARE_PRIORITY_HIGH : DETSHARE_PRIORITY_LOW,
                .count = count,
                .max_resident_blocks = place->blocks,
        };
        return 1;
}

static uint32_t ls_rung(const struct detshare *d)
{
        uint32_t at;

        if (d->p[P_LS_OVERLAP])
                return 0;
        at = stair_at_least(&d->lower, d->reserve);
        return at < d->lower.n ? d->lower.rung[at] : 0;
}

/* The deadline of whoever is due first and has work ready. */
static uint64_t ls_first(struct detshare *d, const struct detshare_snapshot *snapshot)
{
        uint64_t first = UINT64_MAX;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                const struct ls *ls = NULL;

                if (coroutine->class_ == DETSHARE_CLASS_LS)
                        ls = ls_find(d, snapshot->sessions[coroutine->session].id, 0);
                if (ls)
                        first = min_u64(first, ls->deadline_ns);
        }
        return first;
}

/* In two rounds: those that are due first, then the others. */
static void ls_launch(struct detshare *d, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        uint64_t first = ls_first(d, snapshot);
        struct place place = {.rung = ls_rung(d)};

        for (int late = 0; late < 2; late++) {
                uint32_t depth = number(d, late ? P_LS_LATE_DEPTH : P_LS_DEPTH);

                for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                        const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                        const struct ls *ls;

                        if (coroutine->class_ != DETSHARE_CLASS_LS || !coroutine->ready ||
                                coroutine->in_flight >= depth)
                                continue;
                        ls = ls_find(d, snapshot->sessions[coroutine->session].id, 0);
                        if (late != (ls && ls->deadline_ns > first))
                                continue;
                        if (!launch(decision, coroutine, &place, depth - coroutine->in_flight))
                                return;
                }
        }
}

/* The bound of the calibration for a kernel on so many SMs: of the SM count next above that was measured. */
static uint32_t be_blocks(const struct detshare *d, const struct detshare_op_view *op, uint32_t n_sms)
{
        uint32_t best = BLOCKS_MAX;

        if (op->bound == DETSHARE_BOUND_UNKNOWN || op->bound > DETSHARE_BOUND_MEMORY || op->all_resident)
                return 0;
        for (uint32_t i = 0; i < d->n_bounds; i++)
                if (d->bounds[i].n_sms >= n_sms && (best == BLOCKS_MAX || d->bounds[i].n_sms < d->bounds[best].n_sms))
                        best = i;
        return best == BLOCKS_MAX ? 0 : d->bounds[best].blocks[op->bound];
}

/* The mean rest of a block that somebody finds who comes at any time; 0 where there is room beside the blocks. */
static uint64_t be_rest(const struct detshare *d, const struct detshare_op_view *op)
{
        uint64_t block = stair_block(op, d->n_sms);

        if (!stair_fills(op, d->n_sms))
                return 0;
        if (!stair_known(op))
                return UINT64_MAX;
        return block <= us(d, P_SHORT) ? 0 : block / 2;
}

/* Whether the GPU may be lent to a kernel that takes so long. */
static int be_may_borrow(const struct detshare *d, uint64_t ns)
{
        for (uint32_t i = 0; i < LS_MAX; i++) {
                const struct ls *ls = &d->ls[i];
                uint64_t rest, since = d->now_ns - ls->begin_ns;

                if (!ls->open)
                        continue;
                rest = ls->length_ns > since ? ls->length_ns - since : 0;
                if (ls->slo_ns ? d->now_ns + rest + ns > ls->deadline_ns : ns > ls_slack(d, ls))
                        return 0;
        }
        return 1;
}

/* The upper rung beside LS: the one it is on, if that is as good as the best. upper.n: there is none. */
static uint32_t be_masked(const struct detshare *d, const struct detshare_coroutine_view *coroutine,
        const struct detshare_op_view *op, uint32_t reserve)
{
        uint32_t may = d->n_sms - reserve;
        uint32_t at = stair_choose(&d->upper, op, may, d->n_sms, number(d, P_BE_TOLERANCE));

        if (at == d->upper.n)
                return d->upper.n ? 0 : at;
        for (uint32_t i = at; i < d->upper.n && d->upper.n_sms[i] <= may; i++)
                if (d->upper.rung[i] == coroutine->rung)
                        return i;
        return at;
}

/* 1 and where it goes beside LS; 0: it waits. */
static int be_beside(struct detshare *d, const struct detshare_coroutine_view *coroutine,
        const struct detshare_op_view *op, struct place *place)
{
        uint64_t until = coroutine->head_since_ns + (uint64_t)d->p[P_STARVE] * MS;
        uint32_t at = be_masked(d, coroutine, op, d->reserve), n_sms = at < d->upper.n ? d->upper.n_sms[at] : d->n_sms;

        *place = (struct place){0};
        if (d->regime == FELT_HELD && d->now_ns < until) {
                wake_at(d, until);
                return 0;
        }
        if (op->all_resident && (uint64_t)op->blocks > (uint64_t)op->blocks_per_sm * n_sms) {
                if (d->now_ns >= until || be_may_borrow(d, stair_time(op, d->n_sms, d->n_sms)))
                        return 1;
                wake_at(d, until);
                return 0;
        }
        if (be_rest(d, op) <= d->harmless_ns)
                n_sms = d->n_sms;
        else if (at < d->upper.n)
                place->rung = d->upper.rung[at];
        place->blocks = be_blocks(d, op, n_sms);
        return 1;
}

/* The rung that leaves a standing reserve; 0: not worth it, or needless. */
static uint32_t be_standing(
        const struct detshare *d, const struct detshare_coroutine_view *coroutine, const struct detshare_op_view *op)
{
        uint64_t rest;
        uint32_t at;

        if (d->standing_ns == UINT64_MAX)
                return 0; /* there was no LS lately */
        rest = be_rest(d, op);
        at = be_masked(d, coroutine, op, d->standing_sms);
        if (stair_known(op) && rest > d->soon_harmless_ns && stair_time(op, d->n_sms, d->n_sms) > d->soon_ns &&
                at < d->upper.n)
                return d->upper.rung[at];
        if (!d->p[P_STANDING] || rest <= d->standing_ns || !stair_known(op))
                return 0;
        for (uint32_t i = stair_at_least(&d->upper, d->n_sms - d->standing_sms); i < d->upper.n; i++)
                if (stair_loss(op, d->upper.n_sms[i], d->n_sms) <= (uint64_t)d->p[P_STANDING])
                        return d->upper.rung[i];
        return 0;
}

/* The upper rung that lies farthest from what is known of it; upper.n: it is known well enough. */
static uint32_t be_unexplored(const struct detshare *d, const struct detshare_op_view *op)
{
        uint32_t best = d->upper.n, best_distance = 0;

        for (uint32_t i = 0; i < d->upper.n; i++) {
                uint32_t distance = UINT32_MAX, n_sms = d->upper.n_sms[i];

                for (uint32_t k = 0; k < op->n_points; k++) {
                        uint32_t at = op->points[k].n_sms, away = at > n_sms ? at - n_sms : n_sms - at;

                        distance = away < distance ? away : distance;
                }
                if (distance > best_distance) {
                        best = i;
                        best_distance = distance;
                }
        }
        return best;
}

/* A rung to learn on, 0: none. Nothing else is on the GPU, or what is seen would mean nothing. */
static uint32_t be_explore(
        struct detshare *d, const struct detshare_coroutine_view *coroutine, const struct detshare_op_view *op)
{
        uint64_t ns;
        uint32_t at;

        if (op->samples < number(d, P_EXPLORE_SAMPLES) || !op->n_points || op->n_points >= number(d, P_EXPLORE_POINTS))
                return 0;
        if (d->flying > (coroutine->in_flight != 0))
                return 0;
        at = be_unexplored(d, op);
        if (at == d->upper.n)
                return 0;
        ns = stair_time(op, d->upper.n_sms[at], d->n_sms);
        if ((d->explored_ns + ns) / (uint64_t)d->p[P_EXPLORE] > d->be_ns / 1000)
                return 0;
        d->explored_ns += ns;
        return d->upper.rung[at];
}

static int be_place(struct detshare *d, const struct detshare_coroutine_view *coroutine,
        const struct detshare_op_view *op, struct place *place)
{
        if (op->kind != DETSHARE_OP_KERNEL) {
                if (coroutine->in_flight)
                        place->rung = coroutine->rung;
                return 1;
        }
        if (d->wet)
                return be_beside(d, coroutine, op, place);
        *place = (struct place){0};
        if (op->all_resident)
                return 1;
        place->rung = be_standing(d, coroutine, op);
        if (!place->rung && d->p[P_EXPLORE])
                place->rung = be_explore(d, coroutine, op);
        return 1;
}

/* What a BE coroutine has on the device. */
struct pipeline {
        uint32_t n;
        int known;
        uint64_t all_ns;  /* of the operations */
        uint64_t rest_ns; /* that is still to come */
};

/* How long what runs of the coroutine has been running: it began when the one before it ended. */
static uint64_t be_runs_for(const struct detshare *d, const struct detshare_coroutine_view *coroutine)
{
        const struct ended *ended = &d->ended[coroutine->id % ENDED];
        uint64_t begin = coroutine->in_flight_since_ns;

        if (ended->coroutine == coroutine->id)
                begin = max_u64(begin, ended->ns);
        return coroutine->in_flight && d->now_ns > begin ? d->now_ns - begin : 0;
}

static struct pipeline be_pipeline(const struct detshare *d, const struct detshare_coroutine_view *coroutine)
{
        uint64_t all = coroutine->in_flight_expected_ns;

        if (!coroutine->in_flight)
                return (struct pipeline){.known = 1};
        return (struct pipeline){
                .n = coroutine->in_flight,
                .known = all != 0,
                .all_ns = all,
                .rest_ns = all - min_u64(be_runs_for(d, coroutine), all),
        };
}

/*
 * Whether the next operation is to follow now. An end is told of late where others follow, so what should have ended
 * counts as ended, but only so far: of kernels that take longer than they did there must not be more and more.
 */
static int be_follows(struct detshare *d, const struct pipeline *pipeline, const struct detshare_op_view *op)
{
        uint64_t ahead = us(d, d->alone ? P_ALONE : P_AHEAD);

        if (pipeline->n >= number(d, P_UNKNOWN) && (!pipeline->known || !op->samples))
                return 0;
        if (!pipeline->n || !pipeline->all_ns)
                return 1;
        if (pipeline->n >= 2 && pipeline->all_ns > 2 * ahead)
                return 0;
        if (pipeline->rest_ns > ahead)
                wake_at(d, d->now_ns + pipeline->rest_ns - ahead);
        return pipeline->rest_ns <= ahead;
}

/* The next operations of a coroutine, just in time. 0: the decision is full. */
static int be_launch(struct detshare *d, const struct detshare_snapshot *snapshot, struct detshare_decision *decision,
        const struct detshare_coroutine_view *coroutine)
{
        struct pipeline pipeline = be_pipeline(d, coroutine);
        struct place place = {0};
        uint64_t ns;

        for (uint32_t i = 0; i < coroutine->n_ahead && pipeline.n < DEPTH; i++) {
                const struct detshare_op_view *op = &coroutine->ahead[i];

                if (d->be_flying >= (pipeline.n ? BE_MANY : BE_MOST))
                        break;
                if (!be_follows(d, &pipeline, op) || !be_place(d, coroutine, op, &place))
                        break;
                if (!launch(decision, coroutine, &place, 1))
                        return 0;
                ns = op->samples ? stair_time(op, snapshot->rungs[place.rung].n_sms, d->n_sms) : 0;
                pipeline.n++;
                d->be_flying++;
                pipeline.known = pipeline.known && op->samples;
                pipeline.all_ns += ns;
                pipeline.rest_ns += ns;
        }
        return 1;
}

static struct be *be_find(struct detshare *d, const struct detshare_session_view *view)
{
        struct be *oldest = &d->be[0];
        int crowd;

        for (uint32_t i = 0; i < BE_MAX; i++) {
                if (d->be[i].seen && d->be[i].id == view->id)
                        return &d->be[i];
                if (d->be[i].seen < oldest->seen)
                        oldest = &d->be[i];
        }
        /* of more sessions than have a place each comes anew all the time, and is no other BE for that */
        crowd = oldest->seen && oldest->seen + 1 >= d->decision;
        *oldest = (struct be){.id = view->id, .device_ns = view->device_ns};
        for (uint32_t i = 0; i < LS_MAX && !crowd; i++)
                felt_forget(&d->ls[i].felt);
        return oldest;
}

/*
 * Virtual times; who has had nothing to do lately begins where the others are. What runs counts already: others do not
 * wait for the end of a long kernel.
 */
static void be_look(struct detshare *d, const struct detshare_snapshot *snapshot)
{
        uint64_t least = UINT64_MAX, runs_for;

        d->be_flying = d->flying = 0;
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                const struct detshare_session_view *view = &snapshot->sessions[coroutine->session];
                struct be *be;

                d->flying += coroutine->in_flight != 0;
                if (coroutine->class_ == DETSHARE_CLASS_LS)
                        continue;
                d->be_flying += coroutine->in_flight;
                be = be_find(d, view);
                if (be->seen + 1 < d->decision)
                        be->virtual_ns = max_u64(be->virtual_ns, d->fair_ns);
                be->virtual_ns += view->device_ns - be->device_ns;
                be->device_ns = view->device_ns;
                be->seen = d->decision;
                runs_for = be_runs_for(d, coroutine);
                if (!coroutine->ready || be->virtual_ns + runs_for >= least)
                        continue;
                least = be->virtual_ns + runs_for;
                d->fair_runs = coroutine->in_flight != 0;
        }
        if (least != UINT64_MAX)
                d->fair_ns = least;
}

static void be_launch_all(
        struct detshare *d, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                uint64_t may = d->fair_ns + us(d, P_FAIR), is;

                if (coroutine->class_ == DETSHARE_CLASS_LS || !coroutine->ready)
                        continue;
                is = be_find(d, &snapshot->sessions[coroutine->session])->virtual_ns;
                if (is > may && d->fair_runs)
                        wake_at(d, d->now_ns + is - may);
                if (is > may)
                        continue;
                if (!be_launch(d, snapshot, decision, coroutine))
                        return;
        }
}

/* A request that holds BE for the measure alone does so for `starve_ms` at most: its next end may be a long way off. */
static int ls_holds(const struct detshare *d, const struct ls *ls)
{
        return ls->open && ls->regime == FELT_HELD &&
               (ls->felt.now == FELT_HELD || d->now_ns - ls->piece_ns < (uint64_t)d->p[P_STARVE] * MS);
}

/* The strictest regime that a request under way asks for. */
static void tide_regime(struct detshare *d)
{
        d->regime = FELT_EBB;
        for (uint32_t i = 0; i < LS_MAX; i++)
                if (ls_holds(d, &d->ls[i]))
                        d->regime = FELT_HELD;
}

/* Who had BE beside it, and under which regime. */
static void ls_feel(struct detshare *d)
{
        for (uint32_t i = 0; i < LS_MAX; i++) {
                struct ls *ls = &d->ls[i];

                if (!ls->open)
                        continue;
                ls->mixed |= ls->regime != d->regime;
                ls->beside |= d->be_flying != 0;
        }
}

static int detshare_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct detshare *d = state;

        d->decision++;
        d->now_ns = snapshot->now_ns;
        d->timer_ns = UINT64_MAX;
        tide_count(d, snapshot);
        tide_look(d, snapshot);
        tide_complete(d, snapshot);
        tide_regime(d);
        be_look(d, snapshot);
        ls_launch(d, snapshot, decision);
        if (!decision->again)
                be_launch_all(d, snapshot, decision);
        ls_feel(d);
        decision->next_timer_ns = d->timer_ns;
        return 0;
}

/* --- the calibration -------------------------------------------------------------------------------------------------
 */

static void bounds_init(struct detshare *d, const struct detshare_policy_config *config)
{
        for (uint32_t i = 0; i < config->n_interference && d->n_bounds < BLOCKS_MAX; i++) {
                uint32_t n_sms = config->interference[i].be_sms, k = 0;

                while (k < d->n_bounds && d->bounds[k].n_sms != n_sms)
                        k++;
                if (k < d->n_bounds)
                        continue;
                d->bounds[k].n_sms = n_sms;
                for (uint32_t bound = DETSHARE_BOUND_COMPUTE; bound <= DETSHARE_BOUND_MEMORY; bound++)
                        d->bounds[k].blocks[bound] =
                                interference_bound(config, n_sms, bound, number(d, P_INTERFERENCE));
                d->n_bounds++;
        }
}

static int detshare_init(void *state, const struct detshare_policy_config *config)
{
        struct detshare *d = state;

        for (uint32_t i = 0; i < PARAMS; i++)
                d->p[i] = config->params[i];
        d->n_sms = config->n_sms;
        stair_side_init(&d->upper, config, DETSHARE_SIDE_UPPER, DETSHARE_FAMILY_FINE);
        stair_side_init(&d->lower, config, DETSHARE_SIDE_LOWER, DETSHARE_FAMILY_FINE);
        bounds_init(d, config);
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "detshare",
        .description = "BE ebbs when an LS request begins and flows back when it ends",
        .params = params,
        .n_params = PARAMS,
        .state_size = sizeof(struct detshare),
        .init = detshare_init,
        .decide = detshare_decide,
};
