/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tgs: best-effort work at a rate at which latency-sensitive work keeps its progress
 *
 * The closed loop of TGS (Wu, Zhang, Bai, Liu, Jin, NSDI'23) as its public code has it (pkusys/TGS,
 * low_priority_hijack_call.c). The unit is the thread block. Every control interval the number of blocks that LS ran is
 * one sample of its rate. Best-effort work may launch kernels as long as its blocks launched in the present window (50
 * ms) do not exceed a limit. The limit grows while LS keeps its highest known rate and shrinks when it does not. With
 * delta = |rate - highest| / highest:
 *
 * - slow start: delta <= 3%: limit = 1.5 limit + 1; else limit /= 1.5, and on to congestion avoidance;
 * - congestion avoidance: delta <= 3%: limit += max(0.025% of the highest rate, 1000); else limit -= max(8%, 1000);
 *   delta >= 9%: limit /= 10 and back to slow start;
 * - delta >= 12% for 20 samples: the highest rate counts as too high: it becomes 80%, limit /= 2, slow start;
 * - no limit grows beyond the larger of three times the launches of best effort in the last window and 2^40 (slow
 *   start) or 2^32;
 * - three of the last five samples below 1000 blocks, after 15 samples: LS is idle, no limit; exactly two of them: LS
 *   comes back, the limit is 20000 again, which is also the first limit.
 *
 * The highest rate is the largest mean of two adjacent samples of the five before this one. While it is profiled (the
 * first five samples, and until it holds within 5%) best effort gets almost nothing: one kernel per window, with a
 * limit of 0. Later a change within 10% can only raise it. One of more than 20% sets it again (2.5% below or above the
 * sample) and starts another profile, during which the limit stays as it is.
 *
 * Differences:
 *
 * - The code has one job of each kind; here all LS work together is one, and best-effort clients take turns within the
 *   limit.
 * - Samples are taken every `interval_ms` and not every 5 s, which is too slow for inference. Rates are per 5 s all the
 *   same, so that the constants are the published ones. Blocks of LS are counted when they end.
 * - The code's profile does not end while the rate does not change at all; here five samples are enough.
 * - A side counts as gone after `gone_ms` without work; then nothing is limited. While there is only LS its highest
 *   rate is followed as the code's LS side does it; with the first best-effort work control begins.
 * - Memory moves by quotas here, not by the policy.
 *
 * The rule is made for training, whose rate is steady. Requests that arrive at random vary by more than 3% from one
 * sample to the next, which looks like harm, so best effort gets almost nothing. `smooth_permille` weighs the previous
 * rate against the new sample (the code has such a weight, and sets it to 0); 980 makes the rate one of about the
 * published 5 s again.
 *
 * Nothing starves: with the limit at 0 one kernel still goes in every window.
 */
#include "policies/round.h"

#define TGS_MS 1000000ull
#define TGS_RATE_NS (5000 * TGS_MS) /* time unit of the published rates: blocks per 5 s */
#define TGS_WINDOW 5
#define PROFILE_SAMPLES 5u
#define LIMIT_FIRST 20000.0
#define RATE_MIN 1000.0
#define LIMIT_MOST 1e14
#define LIMIT_SLOW_START 1099511627776.0 /* 2^40 blocks: cap of the limit in slow start */
#define LIMIT_AVOIDANCE 4294967296.0     /* 2^32 blocks: cap of the limit in congestion avoidance */
#define DELTA 0.03
#define SAMPLES_BEFORE_IDLE 15u
#define CATCH_UP 64u /* maximum number of overdue samples taken at once, after a time without any event */

enum tgs_state { TGS_SLOW_START, TGS_AVOIDANCE };

struct tgs {
        uint64_t interval_ns, window_ns, gone_ns;
        uint32_t ls_depth;
        double smooth;

        uint32_t sampled;    /* 1: LS work is present, so its rate is sampled */
        uint32_t controlled; /* 1: LS and BE work are present, so the limit is in force */
        uint64_t ls_seen_ns, be_seen_ns, next_sample_ns, next_window_ns;
        double ls_blocks;          /* LS blocks that ended since the last sample */
        double window[TGS_WINDOW]; /* the last samples of the LS rate, the newest first */
        double rate, highest;      /* LS rate now, and the highest known one; blocks per 5 s */
        uint32_t profiling;        /* samples of the profile so far + 1; 0: no profile is being made */
        uint32_t samples, worse;   /* samples since control began; samples in a row with delta >= 12% */
        enum tgs_state state;
        double limit;             /* blocks of BE per window */
        double launched, current; /* BE blocks launched in this window, and in the last one */
        uint64_t last_be;
};

static const struct detshare_policy_param tgs_params[] = {
        {.name = "interval_ms",
                .help = "time between two samples of the LS rate, ms",
                .def = 100,
                .min = 1,
                .max = 60000},
        {.name = "window_ms",
                .help = "window over which the blocks of BE are limited, ms",
                .def = 50,
                .min = 1,
                .max = 60000},
        {.name = "gone_ms",
                .help = "time without LS work after which BE is not limited, ms",
                .def = 5000,
                .min = 1,
                .max = 1000000},
        ROUND_LS_DEPTH_PARAM,
        {.name = "smooth_permille",
                .help = "weight of the previous rate against a new sample, permille",
                .def = 0,
                .min = 0,
                .max = 999},
};

static int tgs_init(void *state, const struct detshare_policy_config *config)
{
        struct tgs *tgs = state;

        tgs->interval_ns = (uint64_t)config->params[0] * TGS_MS;
        tgs->window_ns = (uint64_t)config->params[1] * TGS_MS;
        tgs->gone_ns = (uint64_t)config->params[2] * TGS_MS;
        tgs->ls_depth = (uint32_t)config->params[3];
        tgs->smooth = (double)config->params[4] / 1000;
        return 0;
}

static double larger(double a, double b)
{
        return a > b ? a : b;
}

static double smaller(double a, double b)
{
        return a < b ? a : b;
}

/* --- the highest rate --------------------------------------------------------------------------------------------- */

/* Adds a sample; returns the largest mean of two adjacent earlier samples. */
static double shift(struct tgs *tgs, double rate)
{
        double highest = 0;

        for (int i = TGS_WINDOW - 1; i > 0; i--) {
                highest = larger(highest, (tgs->window[i] + tgs->window[i - 1]) / 2);
                tgs->window[i] = tgs->window[i - 1];
        }
        tgs->window[0] = rate;
        return highest;
}

static double relative(double value, double to)
{
        return (value - to) / larger(to, 1);
}

/* Moves the highest rate to 2.5% below or above the sampled rate. */
static void follow(struct tgs *tgs, double seen)
{
        if (seen > tgs->highest)
                tgs->highest = larger(tgs->highest, seen * 0.975);
        else
                tgs->highest = smaller(tgs->highest, seen * 1.025);
}

static void profile(struct tgs *tgs, double seen)
{
        double change = relative(seen, tgs->highest);
        int holds = change >= -0.05 && change <= 0.05;

        if (holds)
                tgs->highest = larger(tgs->highest, seen);
        else
                follow(tgs, seen);
        tgs->profiling++;
        if (holds && tgs->profiling > PROFILE_SAMPLES)
                tgs->profiling = 0;
}

/* Compares the sampled rate with the highest one. Returns 1 if the highest rate must be profiled again. */
static int watch(struct tgs *tgs, double seen)
{
        double change = relative(seen, tgs->highest);

        if (change >= -0.1 && change <= 0.1) {
                tgs->highest = larger(tgs->highest, seen);
        } else if (change > 0.2 || change < -0.2) {
                follow(tgs, seen);
                tgs->profiling = 1;
                return 1;
        }
        return 0;
}

/* --- the limit ---------------------------------------------------------------------------------------------------- */

static void restart(struct tgs *tgs, double limit)
{
        tgs->limit = limit;
        tgs->state = TGS_SLOW_START;
}

static double most(const struct tgs *tgs, double floor)
{
        return smaller(LIMIT_MOST, larger(3 * tgs->current, floor));
}

static void avoid(struct tgs *tgs, double delta)
{
        if (delta <= DELTA)
                tgs->limit += larger(tgs->highest * 0.00025, RATE_MIN);
        else
                tgs->limit -= larger(tgs->limit * 0.08, RATE_MIN);
        tgs->limit = smaller(tgs->limit, most(tgs, LIMIT_AVOIDANCE));
        if (delta >= 3 * DELTA)
                restart(tgs, tgs->limit / 10);
}

static void adjust(struct tgs *tgs, double rate)
{
        double delta = relative(rate, tgs->highest);

        delta = larger(delta, -delta);
        if (tgs->state == TGS_AVOIDANCE) {
                avoid(tgs, delta);
        } else if (delta <= DELTA) {
                tgs->limit = smaller(tgs->limit * 1.5 + 1, most(tgs, LIMIT_SLOW_START));
        } else {
                tgs->limit /= 1.5;
                tgs->state = TGS_AVOIDANCE;
        }
        tgs->worse = delta >= 0.12 ? tgs->worse + 1 : 0;
        if (tgs->worse == 20) {
                tgs->worse = 0;
                tgs->highest *= 0.8;
                restart(tgs, tgs->limit / 2);
        }
        tgs->limit = larger(tgs->limit, 0);
}

static uint32_t idle_samples(const struct tgs *tgs)
{
        uint32_t n = 0;

        for (int i = 0; i < TGS_WINDOW; i++)
                n += tgs->window[i] < RATE_MIN;
        return n;
}

/* While there is no best-effort work: the highest rate becomes the sample, or stays if the sample is at most 20%
 * below it. */
static void sample_alone(struct tgs *tgs, double seen)
{
        double change = relative(seen, tgs->highest);

        if (change >= -0.2 && change <= 0.2)
                tgs->highest = larger(tgs->highest, seen);
        else
                tgs->highest = seen;
}

static void sample_controlled(struct tgs *tgs, double rate, double seen)
{
        uint32_t idle = idle_samples(tgs);

        if (tgs->profiling) {
                profile(tgs, seen);
                return;
        }
        if (watch(tgs, seen))
                return;
        if (tgs->samples < UINT32_MAX)
                tgs->samples++;
        if (tgs->samples == 1)
                restart(tgs, LIMIT_FIRST);
        else if (idle > 2 && tgs->samples >= SAMPLES_BEFORE_IDLE)
                restart(tgs, most(tgs, LIMIT_AVOIDANCE));
        else if (idle == 2 && tgs->samples > SAMPLES_BEFORE_IDLE)
                restart(tgs, LIMIT_FIRST);
        else
                adjust(tgs, rate);
}

static void sample(struct tgs *tgs)
{
        double now = tgs->ls_blocks * (double)TGS_RATE_NS / (double)tgs->interval_ns, rate, seen;

        tgs->rate = tgs->smooth * tgs->rate + (1 - tgs->smooth) * larger(now, 1);
        rate = tgs->rate;
        seen = shift(tgs, rate);

        tgs->ls_blocks = 0;
        if (tgs->controlled)
                sample_controlled(tgs, rate, seen);
        else
                sample_alone(tgs, seen);
}

/* --- time --------------------------------------------------------------------------------------------------------- */

static void sampling_begin(struct tgs *tgs, uint64_t now_ns)
{
        tgs->sampled = 1;
        tgs->next_sample_ns = now_ns + tgs->interval_ns;
        tgs->ls_blocks = tgs->rate = tgs->highest = 0;
        for (int i = 0; i < TGS_WINDOW; i++)
                tgs->window[i] = 0;
}

static void control_begin(struct tgs *tgs, uint64_t now_ns)
{
        tgs->controlled = 1;
        tgs->next_window_ns = now_ns + tgs->window_ns;
        tgs->launched = tgs->current = tgs->limit = 0;
        tgs->profiling = 1;
        tgs->samples = tgs->worse = 0;
        tgs->state = TGS_SLOW_START;
}

static void control_end(struct tgs *tgs)
{
        tgs->controlled = 0;
        tgs->highest *= 0.8;
}

static int is_ls_end(const struct detshare_snapshot *snapshot)
{
        return snapshot->event == DETSHARE_EVENT_COMPLETE && snapshot->event_session != UINT32_MAX &&
               snapshot->sessions[snapshot->event_session].class_ == DETSHARE_CLASS_LS;
}

static void observe(struct tgs *tgs, const struct detshare_snapshot *snapshot)
{
        uint64_t now_ns = snapshot->now_ns;
        int is_be = round_is_busy(snapshot, DETSHARE_CLASS_BE);

        if (round_is_busy(snapshot, DETSHARE_CLASS_LS) || round_request_active(snapshot) || is_ls_end(snapshot)) {
                if (!tgs->sampled)
                        sampling_begin(tgs, now_ns);
                tgs->ls_seen_ns = now_ns;
        }
        if (is_be)
                tgs->be_seen_ns = now_ns;
        if (tgs->sampled && now_ns - tgs->ls_seen_ns > tgs->gone_ns)
                tgs->sampled = tgs->controlled = 0;
        if (tgs->sampled && !tgs->controlled && is_be)
                control_begin(tgs, now_ns);
        if (tgs->controlled && now_ns - tgs->be_seen_ns > tgs->gone_ns)
                control_end(tgs);
}

static void pass_time(struct tgs *tgs, uint64_t now_ns)
{
        for (uint32_t i = 0; i < CATCH_UP && now_ns >= tgs->next_sample_ns; i++) {
                sample(tgs);
                tgs->next_sample_ns += tgs->interval_ns;
        }
        if (now_ns >= tgs->next_sample_ns)
                tgs->next_sample_ns = now_ns + tgs->interval_ns;
        if (!tgs->controlled || now_ns < tgs->next_window_ns)
                return;
        tgs->current = now_ns - tgs->next_window_ns < tgs->window_ns ? tgs->launched : 0;
        tgs->launched = 0;
        tgs->next_window_ns += ((now_ns - tgs->next_window_ns) / tgs->window_ns + 1) * tgs->window_ns;
}

static int may(
        void *state, uint32_t pass, const struct detshare_coroutine_view *coroutine, const struct detshare_op_view *op)
{
        struct tgs *tgs = state;

        (void)pass;
        (void)coroutine;
        if (op->kind != DETSHARE_OP_KERNEL)
                return 1;
        if (tgs->controlled && tgs->launched > tgs->limit)
                return 0;
        tgs->launched += op->blocks;
        return 1;
}

static uint64_t next_timer(const struct tgs *tgs)
{
        if (tgs->controlled && tgs->next_window_ns < tgs->next_sample_ns)
                return tgs->next_window_ns;
        return tgs->next_sample_ns;
}

static int tgs_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct tgs *tgs = state;

        observe(tgs, snapshot);
        if (tgs->sampled)
                pass_time(tgs, snapshot->now_ns);
        if (is_ls_end(snapshot) && snapshot->event_op.kind == DETSHARE_OP_KERNEL)
                tgs->ls_blocks += snapshot->event_op.blocks;
        round_launch_class(snapshot, decision, DETSHARE_CLASS_LS, tgs->ls_depth);
        round_robin(snapshot, decision, DETSHARE_CLASS_BE, ROUND_DEPTH, may, tgs, &tgs->last_be);
        if (tgs->sampled && snapshot->n_coroutines)
                decision->next_timer_ns = next_timer(tgs);
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "tgs",
        .description = "BE launches as many blocks as leave LS its rate, by feedback (TGS)",
        .params = tgs_params,
        .n_params = sizeof(tgs_params) / sizeof(tgs_params[0]),
        .state_size = sizeof(struct tgs),
        .init = tgs_init,
        .decide = tgs_decide,
};
