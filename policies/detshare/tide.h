/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tide: what latency-sensitive (LS) sessions do and need, as `detshare` sees it
 *
 * For each recent LS session the policy knows: whether a request runs (detshare.c defines begin and end), the length of
 * its requests, their number of kernels and the gaps between these, the SMs they need, the pauses between requests, and
 * the regime of best effort (BE) under which requests keep their slack. tide_look() sums that up for one decision:
 * whether a request runs, how many SMs to leave free, how long a wait is harmless. Nothing here launches anything.
 *
 * The state of the whole policy and its parameters are declared here, because both parts read them.
 */
#pragma once

#include "policies/detshare/budget.h"
#include "policies/detshare/felt.h"
#include "policies/detshare/gaps.h"
#include "policies/stair.h"

#define US 1000ull
#define MS 1000000ull
#define LS_MAX 32u
#define BE_MAX 64u
#define NEEDS 32u /* buckets of the histogram of SM needs; each stands for an equal share of the GPU's SMs */
/* each full multiple of this in an LS operation's duration counts as one more delay by BE, ns */
#define DELAY_NS 10000ull
#define ALONE_NS 1000000000ull
#define RECENT_PERCENT 99u /* quantile of a session's pauses that counts as its long pause, percent */
#define RECENT_TIMES 4u    /* a session idle for this many long pauses counts as gone */
/* places in the tables of coroutines, indexed by id; of two ids with the same place the later one stays */
#define ENDED 128u
#define CAME_BACK UINT64_MAX /* value of free_ns: BE left the device during this request and came back */
#define BLOCKS_MAX 32u       /* maximum number of SM counts in the calibration */
/* One of this many requests beside which the budget allows BE has no more of it than without an objective. */
#define BUY_NOT 64u
#define SLACK_MOST_NS (UINT64_MAX / 4) /* objectives may be any number, and other times are added to the slack */
#define LS_LOOK 256u /* operations of all LS queues that one decision looks at for their SM needs, to bound its time */

/* requests of a busy session that pay for one BE kernel on a part of the GPU, at least: those until the GPU switches
 * to another context */
#define MASK_REQUESTS 4u

/* Values of the parameter ls_overlap */
#define LS_OVERLAP 1
#define LS_APART 2

enum param {
        P_LS_DEPTH,
        P_LS_LATE_DEPTH,
        P_LS_OVERLAP,
        P_LS_TOLERANCE,
        P_BE_TOLERANCE,
        P_SLACK,
        P_ATTAIN,
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
        P_EVICT,
        P_RESUME,
        P_FLOOR,
        P_EVICT_RUN,
        P_MASK,
        P_HELD_FIRST,
        P_MEET,
        P_BUSY,
        PARAMS,
};

static const struct detshare_policy_param params[PARAMS] = {
        {"ls_depth", "operations on the device at once of the LS session with the earliest deadline", 64, 1, 1024},
        {"ls_late_depth", "operations on the device at once of every other LS session", 16, 1, 1024},
        {"ls_overlap",
                "1: LS may also use BE's SMs; 0: LS stays on the SMs it needs; 2: as 1, but on the other SMs while all "
                "of BE is confined to a part",
                LS_OVERLAP, 0, LS_APART},
        {"ls_tolerance_permille", "latencies of an LS kernel this close count as its best one, permille", 50, 0, 1000},
        {"be_tolerance_permille", "times of a BE kernel this close count as one step of its stair, permille", 50, 0,
                1000},
        {"slack_permille", "time that BE may cost a request without an objective, permille of its length", 20, 0,
                10000},
        {"attain_permille", "requests of a session with an objective that must meet it, permille", 990, 0, 1000},
        {"short_us", "BE kernels whose blocks last at most this long never give up SMs, us", 5, 0, 1000000},
        {"window", "operations at the head of an LS queue that decide the SMs reserved for it", 8, 1,
                DETSHARE_AHEAD_MAX},
        {"need_percent", "quantile of the SM counts that an LS session needed, weighted by time, percent", 90, 1, 100},
        {"reserve_sms", "fewest SMs that BE leaves free during a request", 8, 0, 1024},
        {"reserve_percent", "most SMs that BE leaves free during a request, percent of the GPU", 50, 1, 100},
        {"standing_permille",
                "time that a BE kernel may lose by SMs left free while LS is idle, permille; 0 = none are left free",
                50, 0, 1000},
        {"recent_ms",
                "time without a request after which no SMs are left free for an LS session, ms; less if it usually "
                "pauses briefly",
                1000, 0, 1000000},
        {"hold_percent", "quantile of the gaps inside requests; a longer gap ends a request, percent", 95, 1, 100},
        {"hold_first_us", "gap that ends a request while no gaps are known, us", 100, 0, 1000000},
        {"hold_least_us", "shortest gap that ends a request, us", 10, 0, 1000000},
        {"hold_most_us", "longest gap inside a request, us; longer gaps lie between requests", 1000, 1, 1000000},
        {"be_ahead_us", "time before the expected end of BE work at which the next is sent, us", 100, 0, 1000000},
        {"be_alone_us", "the same as be_ahead_us while no LS work has come for a second, us", 1000, 0, 1000000},
        {"be_unknown", "operations of unknown duration of one BE coroutine on the device at once", 2, 1, 256},
        {"interference_permille",
                "calibrated LS time beside BE up to which resident BE blocks are not bounded, permille of alone", 1100,
                1000, 100000},
        {"fair_us", "device time by which one BE session may be ahead of another, us", 2000, 1, 1000000},
        {"starve_ms", "longest wait of a BE kernel for LS, ms", 50, 1, 100000},
        {"explore_permille", "share of BE's time for measuring kernels on fewer SMs, permille", 10, 0, 1000},
        {"explore_samples", "completions after which a kernel is measured on fewer SMs", 32, 1, 1000000},
        {"explore_points", "SM counts at which a kernel is measured", 6, 1, DETSHARE_POINTS_MAX},
        {"feel",
                "regimes that measured request times choose from: 1: ebb or held; 2 to 4: also 1/2, 1/4, 1/8 of the "
                "SMs; 0: predicted prices alone decide",
                4, 0, FELT_HELD},
        {"evict", "1: BE kernels that LS would wait for are evicted, where they can be; 0: never", 1, 0, 1},
        {"resume_us", "cost of an eviction for BE besides its duration, us", 20, 0, 1000000},
        {"be_floor_permille",
                "share of the time since its last eviction that BE must run before the next one, permille", 50, 0,
                1000},
        {"evict_run_us", "run time of BE before it is moved, where it leaves LS some SMs, us", 200, 0, 1000000},
        {"mask_permille",
                "time that requests lose after kernels ran on a part of the GPU, permille; -1 = the device's own "
                "figure",
                -1, -1, 1000},
        {"held_first", "1: BE is held during requests until its cost for them is known; 0: it starts at once", 1, 0, 1},
        {"meet_permille",
                "largest share of an LS session's pauses that may end during a BE kernel on all SMs, permille", 333, 1,
                1000},
        {"busy_permille",
                "busiest LS session beside which BE kernels that outlast its pauses run on a part of the SMs, permille "
                "of its time",
                800, 0, 1000},
};

struct ls {
        uint64_t id;
        uint64_t seen;      /* number of the last decision that saw the session; 0: free place */
        uint64_t active_ns; /* time of the session's last work, ns */
        /* last time at which work of the session was on the device or could have been launched, ns */
        uint64_t works_ns;
        /* begin of the running or last request, and time since when the session's queue is empty, ns; 0: none yet */
        uint64_t begin_ns, empty_ns;
        uint64_t slo_ns, deadline_ns; /* objective and deadline, ns; UINT64_MAX: none */
        uint8_t open;                 /* 1: a request runs */
        uint8_t busy;                 /* 1: the session has work queued or on the device */
        /* 1: the client has waited for everything it submitted; only while the session has no work */
        uint8_t synchronised;
        uint8_t gapped;              /* 1: the running request had gaps without work */
        uint8_t mixed;               /* 1: during this piece another regime than the session's own was in force, too */
        uint8_t beside;              /* 1: BE was on the device during this piece */
        uint8_t cut;                 /* 1: the trial of a more generous regime was ended in this piece */
        uint8_t bought;              /* 1: the objective's budget allows BE beside the running request */
        struct gaps inside, between; /* gaps inside requests, and between them */
        uint32_t delays, idle_ns;    /* kernels of this request, and its time without work, ns */
        uint32_t n_bought;           /* requests beside which the budget allowed BE */
        uint32_t need;               /* SMs that the first operations of the session's queues need now */
        uint32_t needs[NEEDS];       /* total time of kernels per bucket of SM need, us */
        /* length of a request without BE, near the shortest lengths seen, ns; 0: unknown */
        uint64_t length_ns;
        uint64_t idle_between_ns; /* pause between two requests, near the shortest pauses seen, ns; 0: unknown */
        /* mean length of requests, of requests beside BE, and of pauses, ns; 0: unknown */
        uint64_t mean_length_ns, mean_beside_ns, mean_idle_ns;
        uint32_t mean_delays, mean_gap; /* kernels of a request; gap between two kernels, ns */
        struct felt felt;
        struct budget budget;
        /* time since when no BE is on the device during this request, ns; 0: BE is there; or CAME_BACK */
        uint64_t free_ns;
        /* begin of the present piece of the request, ns; felt.h measures each piece by itself */
        uint64_t piece_ns;
        uint32_t regime, operations; /* regime of the piece, and number of its operations that ended */
};

struct be {
        uint64_t id, seen;
        uint64_t waits;     /* number of the last decision in which the session waited for LS */
        uint64_t device_ns; /* device time of the session in its last view, ns */
        uint64_t virtual_ns;
};

/* Time of the last end of an operation of a BE coroutine. */
struct ended {
        uint64_t coroutine, ns;
};

/* Time of the last eviction of a BE coroutine. */
struct evicted {
        uint64_t coroutine, ns;
        uint32_t back; /* 1: evicted to resume on all SMs, after the LS requests */
};

/* Resident blocks that BE may have on n_sms SMs beside LS; 0: no bound. */
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
        uint32_t be_last; /* index in `be` of the session looked up last */
        struct ended ended[ENDED];
        struct evicted evicted[ENDED];
        uint64_t be_ns, explored_ns; /* device time of all BE, and the part of it spent on exploring, ns */
        uint64_t ls_seen_ns;         /* time of the last LS work + 1, ns; 0: never */

        /* state of one decision */
        uint64_t now_ns, timer_ns;
        int wet, alone;
        uint32_t regime; /* regime of BE: the strictest of the running requests */
        uint32_t reserve;
        uint32_t part;    /* all of BE keeps to 1 / 2^part of the SMs; 0: the prices decide per kernel */
        uint64_t left_ns; /* expected rest of the running requests, ns */
        /* remaining time of a BE block that LS can bear at each kernel of the running requests, ns */
        uint64_t harmless_ns;
        /* remaining time of a BE block that LS can bear at the first kernel of a request, while LS is idle, ns;
         * UINT64_MAX: any */
        uint64_t standing_ns;
        uint32_t standing_sms; /* SMs that BE leaves free for a standing reserve */
        /* while LS is idle: shortest usual pause between requests of all sessions, ns; UINT64_MAX: unknown */
        uint64_t soon_ns;
        uint64_t soon_harmless_ns;
        /* cost of one BE kernel on a part of the GPU for the session with the shortest requests, ns; 0: nothing */
        uint64_t mask_ns;
        /* share of time that the busiest LS session would be busy if BE were always beside it, permille */
        uint32_t busy_permille;
        uint32_t ls_recent; /* LS sessions present at the previous decision */
        uint64_t fair_ns;   /* least virtual time among BE sessions with ready work */
        /* 1: the session with the least virtual time has running work, so its virtual time grows */
        int fair_runs;
        uint32_t be_flying, flying; /* BE operations on the device; coroutines with any operation on the device */
};

static inline uint64_t us(const struct detshare *d, enum param param)
{
        return (uint64_t)d->p[param] * US;
}

static inline uint32_t number(const struct detshare *d, enum param param)
{
        return (uint32_t)d->p[param];
}

static inline void wake_at(struct detshare *d, uint64_t ns)
{
        if (ns < d->timer_ns)
                d->timer_ns = ns;
}

/* --- learning ----------------------------------------------------------------------------------------------------- */

static inline void needs_learn(struct detshare *d, struct ls *ls, uint32_t need, uint64_t ns)
{
        uint32_t bucket = (need * NEEDS + d->n_sms - 1) / d->n_sms;
        uint64_t sum = 0;

        ls->needs[bucket ? bucket - 1 : 0] += (uint32_t)min_u64(ns / US + 1, 100000);
        for (uint32_t i = 0; i < NEEDS; i++)
                sum += ls->needs[i];
        for (uint32_t i = 0; sum > 100000 && i < NEEDS; i++)
                ls->needs[i] /= 2;
}

static inline uint32_t needs_quantile(const struct detshare *d, const struct ls *ls)
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

/* --- requests ----------------------------------------------------------------------------------------------------- */

static inline struct ls *ls_find(struct detshare *d, uint64_t id, int make)
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

/* How long a session's queue must be empty until its request counts as ended, ns. */
static inline uint64_t ls_hold(const struct detshare *d, const struct ls *ls)
{
        uint64_t hold = gaps_quantile(&ls->inside, number(d, P_HOLD));

        if (hold == UINT64_MAX)
                return us(d, P_HOLD_FIRST);
        return min_u64(max_u64(hold, us(d, P_HOLD_LEAST)), us(d, P_HOLD_MOST));
}

/* Learns the duration of a piece of a request. After a trial that was cut short the piece counts only if it took at
 * least twice the usual time, which proves that the trial failed. Beside BE that only the objective allowed, nothing is
 * learned: that is no regime of felt.h. */
static inline void ls_felt(struct ls *ls, uint64_t end_ns)
{
        const uint64_t ns = end_ns - ls->piece_ns;

        if (ls->bought || !ls->operations || (ls->mixed && ls->beside))
                return;
        if (!ls->cut || !ls->beside || felt_is_bad(&ls->felt, ns, ls->operations))
                felt_learn(&ls->felt, ls->beside ? ls->regime : FELT_HELD, ns, ls->operations);
}

/*
 * Learns the length of a request without BE: at most its duration, and at least the time for which the device was free
 * of BE. The duration beside BE must not count as length: then BE would look harmless, and the policy would run still
 * more BE beside the next request. While BE never leaves the device, the length can only fall; BE does leave for
 * requests that hold it.
 */
static inline void ls_learn_length(struct ls *ls, uint64_t length)
{
        const uint64_t alone = ls->free_ns && ls->empty_ns > ls->free_ns ? ls->empty_ns - ls->free_ns : 0;

        if (!ls->length_ns || length < ls->length_ns)
                learn_low(&ls->length_ns, length);
        else if (alone > ls->length_ns)
                learn_low(&ls->length_ns, alone);
}

static inline void ls_close(const struct detshare *d, struct ls *ls)
{
        const uint64_t length = max_u64(ls->empty_ns - ls->begin_ns, 1);

        if (ls->slo_ns)
                budget_end(&ls->budget, length, ls->bought, ls->slo_ns, number(d, P_ATTAIN));
        ls->open = 0;
        if (!ls->gapped)
                gaps_learn(&ls->inside, 0);
        ls_learn_length(ls, length);
        learn_slowly(&ls->mean_length_ns, length);
        if (ls->beside)
                learn_slowly(&ls->mean_beside_ns, length);
        ls_felt(ls, ls->empty_ns);
        learn_mean(&ls->mean_delays, ls->delays);
        learn_mean(&ls->mean_gap, ls->idle_ns / (ls->delays ? ls->delays : 1));
}

/* Whether the budget allows BE beside the session's running request. Between two requests a session has the same slack
 * as without an objective, because it is not known whether the next one will have waited. */
static inline int ls_buys(const struct ls *ls)
{
        return ls->open && ls->bought && !ls->cut && ls->slo_ns > ls->length_ns;
}

/* Time at which BE must leave the running request of a session with an objective, ns; 0: it may not run beside it. */
static inline uint64_t ls_until(const struct ls *ls)
{
        const uint64_t may = ls->slo_ns ? budget_until(&ls->budget, ls->slo_ns) : 0;

        return may ? ls->begin_ns + min_u64(may, UINT64_MAX - ls->begin_ns) : 0;
}

/* Time that BE may cost one request of the session, ns. */
static inline uint64_t ls_slack(const struct detshare *d, const struct ls *ls)
{
        if (!ls->length_ns)
                return 0;
        if (ls_buys(ls))
                return min_u64(ls->slo_ns - ls->length_ns, SLACK_MOST_NS);
        return ls->length_ns / 1000 * (uint64_t)d->p[P_SLACK];
}

static inline uint64_t ls_slack_permille(const struct detshare *d, const struct ls *ls)
{
        return ls->length_ns ? ls_slack(d, ls) / (ls->length_ns / 1000 + 1) : 0;
}

/* Number of regimes to try. Regimes that keep BE to a part of the GPU are tried only if running on a part costs LS
 * no more than the slack. */
static inline uint32_t ls_steps(const struct detshare *d, const struct ls *ls)
{
        return (uint64_t)d->p[P_MASK] > ls_slack_permille(d, ls) ? FELT_HALF : number(d, P_FEEL);
}

/* Begins a new piece of the running request; each piece is measured by itself. */
static inline void ls_piece(const struct detshare *d, struct ls *ls)
{
        ls->mixed = ls->beside = ls->cut = 0;
        ls->operations = 0;
        ls->piece_ns = d->now_ns;
        ls->regime = FELT_EBB;
        if (!ls->felt.requests)
                ls->felt.first = d->p[P_FEEL] && d->p[P_HELD_FIRST] ? FELT_HELD : FELT_EBB;
        if (ls->bought)
                ls->felt.requests++; /* the base of felt.h must not look newer than it is */
        else if (d->p[P_FEEL])
                ls->regime = felt_choose(
                        &ls->felt, ls_slack_permille(d, ls), ls_steps(d, ls), (uint32_t)max_u64(d->ls_recent, 1));
}

/* Whether the objective's budget allows BE beside the request that begins now. One request in BUY_NOT has what it would
 * have without an objective, to learn how long such a request takes. */
static inline uint8_t ls_buy(const struct detshare *d, struct ls *ls)
{
        return d->now_ns < ls_until(ls) && ls->n_bought++ % BUY_NOT;
}

/* Updates the session when it gets work again after having none. */
static inline void ls_wake(struct detshare *d, struct ls *ls)
{
        uint64_t gap = d->now_ns - ls->empty_ns;

        if (ls->begin_ns && !ls->synchronised && gap <= us(d, P_HOLD_MOST))
                gaps_learn(&ls->inside, gap);
        if (ls->open) {
                ls->gapped = 1;
                ls->idle_ns = (uint32_t)min_u64(ls->idle_ns + gap, UINT32_MAX);
        } else {
                if (ls->begin_ns) {
                        learn_low(&ls->idle_between_ns, max_u64(gap, 1));
                        learn_slowly(&ls->mean_idle_ns, max_u64(gap, 1));
                        gaps_learn(&ls->between, gap);
                }
                if (ls->slo_ns)
                        waits_begin(&ls->budget.waits, d->now_ns - ls->begin_ns, gap, ls->slo_ns);
                ls->open = 1;
                ls->begin_ns = d->now_ns;
                ls->gapped = 0;
                ls->delays = ls->idle_ns = 0;
                ls->free_ns = 0;
                ls->bought = ls_buy(d, ls);
                ls_piece(d, ls);
        }
        ls->busy = 1;
        ls->works_ns = d->now_ns;
        ls->synchronised = 0;
}

/* Updates the session from its view. view: NULL if the snapshot does not show the session, which means that it has
 * no work. */
static inline void ls_look(struct detshare *d, struct ls *ls, const struct detshare_session_view *view)
{
        int busy = view && view->request_active;

        if (view) {
                ls->seen = d->decision;
                ls->slo_ns = view->slo_ns;
        }
        if (busy && !ls->busy)
                ls_wake(d, ls);
        /* saturates, because a client may set any objective */
        ls->deadline_ns = ls->slo_ns && ls->slo_ns < UINT64_MAX - ls->begin_ns ? ls->begin_ns + ls->slo_ns : UINT64_MAX;
        if (busy)
                ls->active_ns = d->now_ns;
        if (!busy && ls->busy) {
                ls->busy = 0;
                ls->empty_ns = ls->active_ns = d->now_ns;
        }
        ls->need = 0;
        if (!busy && view && view->synchronised)
                ls->synchronised = 1;
        if (!busy && ls->open && (ls->synchronised || d->now_ns >= ls->empty_ns + ls_hold(d, ls)))
                ls_close(d, ls);
        if (!busy && ls->open)
                wake_at(d, ls->empty_ns + ls_hold(d, ls));
}

/*
 * Whether a running request has no work on the device for longer than its usual gaps, so it waits for its own host.
 * While it does, BE is treated as if no request ran.
 */
static inline int ls_stalls(struct detshare *d, const struct ls *ls)
{
        const uint64_t until = ls->works_ns + ls_hold(d, ls);

        if (ls->works_ns != d->now_ns && d->now_ns < until)
                wake_at(d, until);
        return d->now_ns >= until;
}

/* Updates for each LS session whether its queues have work, and how many SMs the first operations of its queues
 * need. */
static inline void ls_window(struct detshare *d, const struct detshare_snapshot *snapshot)
{
        uint32_t left = LS_LOOK;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                struct ls *ls;

                if (coroutine->class_ != DETSHARE_CLASS_LS)
                        continue;
                ls = ls_find(d, snapshot->sessions[coroutine->session].id, 0);
                if (ls && (coroutine->in_flight || coroutine->ready))
                        ls->works_ns = d->now_ns;
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

/*
 * Cost for a session of one BE kernel on a part of the GPU, ns; 0 if the device reports no such cost. Until the GPU has
 * switched to another context, all later requests are longer.
 */
static inline uint64_t ls_mask_ns(const struct detshare *d, const struct ls *ls)
{
        return ls->length_ns / 1000 * (uint64_t)d->p[P_MASK] * MASK_REQUESTS;
}

/* --- the tide ----------------------------------------------------------------------------------------------------- */

/* Whether a next request of the session is expected: it has not been idle for far longer than its long pause. */
static inline int tide_recent(const struct detshare *d, const struct ls *ls)
{
        uint64_t idle = gaps_quantile(&ls->between, RECENT_PERCENT), recent = (uint64_t)d->p[P_RECENT] * MS;

        if (idle < recent / RECENT_TIMES)
                recent = idle * RECENT_TIMES;
        return ls->length_ns && d->now_ns - ls->active_ns <= recent;
}

static inline void tide_session(struct detshare *d, const struct ls *ls)
{
        uint64_t slack = ls_slack(d, ls), gap = ls->mean_gap, since = d->now_ns - ls->begin_ns,
                 delays = ls->mean_delays ? ls->mean_delays : 1;
        uint32_t need = needs_quantile(d, ls);

        if (ls->open) {
                d->wet = 1;
                d->left_ns = max_u64(d->left_ns, ls->length_ns > since ? ls->length_ns - since : 0);
                d->harmless_ns = min_u64(d->harmless_ns, ls->length_ns ? gap + slack / delays : 0);
                d->reserve = (uint32_t)max_u64(d->reserve, max_u64(need, ls->need));
        }
        if (ls->open || tide_recent(d, ls)) {
                const uint64_t mask = ls_mask_ns(d, ls);

                d->ls_recent++;
                if (mask && (!d->mask_ns || mask < d->mask_ns))
                        d->mask_ns = mask;
        }
        if (tide_recent(d, ls)) {
                d->standing_ns = min_u64(d->standing_ns, slack);
                d->standing_sms = (uint32_t)max_u64(d->standing_sms, need);
                d->soon_harmless_ns = min_u64(d->soon_harmless_ns, gap + slack / delays);
                if (ls->idle_between_ns)
                        d->soon_ns = min_u64(d->soon_ns, ls->idle_between_ns);
                if (ls->mean_idle_ns)
                        d->busy_permille = (uint32_t)max_u64(
                                d->busy_permille, max_u64(ls->mean_length_ns, ls->mean_beside_ns) * 1000 /
                                                          (ls->mean_length_ns + ls->mean_idle_ns));
        }
}

static inline void tide_look(struct detshare *d, const struct detshare_snapshot *snapshot)
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
        d->left_ns = d->mask_ns = 0;
        d->ls_recent = d->busy_permille = 0;
        ls_window(d, snapshot);
        for (uint32_t i = 0; i < LS_MAX; i++)
                if (d->ls[i].seen)
                        tide_session(d, &d->ls[i]);
        d->reserve = (uint32_t)min_u64(max_u64(d->reserve, number(d, P_RESERVE_LEAST)), most);
        d->standing_sms = (uint32_t)min_u64(max_u64(d->standing_sms, number(d, P_RESERVE_LEAST)), most);
}

/* Counts an LS operation that ended. Called before the request may end by that operation, so that a request of one
 * operation has a count of one. */
static inline void tide_count(struct detshare *d, const struct detshare_snapshot *snapshot)
{
        struct ls *ls;

        if (snapshot->event != DETSHARE_EVENT_COMPLETE || snapshot->event_session >= snapshot->n_sessions ||
                snapshot->sessions[snapshot->event_session].class_ != DETSHARE_CLASS_LS)
                return;
        ls = ls_find(d, snapshot->sessions[snapshot->event_session].id, 0);
        if (ls)
                ls->operations++;
}

/* Learns from an operation that ended. The device may report several operations at once; then only the sum of their
 * times is right, so the mean duration is used. */
static inline void tide_complete(struct detshare *d, const struct detshare_snapshot *snapshot)
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
