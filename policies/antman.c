/* SPDX-License-Identifier: Apache-2.0 */
/*
 * antman: opportunistic jobs slow down until guaranteed ones recover
 *
 * The mechanisms of AntMan (Xiao et al., OSDI'20), as its public code has them. LS sessions are its resource-guarantee
 * jobs, BE sessions its opportunistic ones.
 *
 * - An opportunistic job runs at a perfControl of p percent: after work of time t it sleeps until t * 100 / p have
 *   passed. 100: no sleep; 0: it is suspended.
 * - While guaranteed jobs lose more than `harm_permille`, p falls at the end of each `interval_ms`, until they recover;
 *   then it rises again step by step. The coordinator for that is in the paper (section 4.2) and not in the code;
 *   halving and adding `step_percent` are ours.
 * - Memory is elastic: an opportunistic job may grow into free memory that guaranteed jobs are not entitled to (their
 *   unused memory limits, or `reserve_mib`). Opportunistic jobs with work share it evenly. A job keeps its memory: the
 *   code then moves memory to the host, which a plain allocation cannot.
 *
 * Loss of guaranteed jobs: AntMan's jobs are trainings that report the time of a mini-batch. Here the efficiency is the
 * shortest known time of each of their kernels over the time in which they had work on the device or ready for it. The
 * best efficiency counts as that without harm. It decays by `forget_permille` per interval, so a mix of jobs that is
 * slower by itself does not keep opportunistic ones down for ever. When guaranteed work comes after none for `gone_ms`,
 * opportunistic jobs are suspended for one interval, in which the efficiency is measured. The code's wait is 50 us
 * shorter, for the lateness of its own timer; here there is none.
 *
 * Nothing starves. With p at 0 the effect of opportunistic jobs cannot be seen, so p rises after an interval. If
 * guaranteed jobs became slower by themselves, p rises when the best efficiency has decayed: after half a minute with
 * the defaults, if they take twice as long. With `forget_permille` 0 that is never.
 */
#include "policies/round.h"
#include "policies/table.h"

#define ANTMAN_MS 1000000ull
#define LEAST_NS (100 * 1000ull) /* least guaranteed work in an interval for its efficiency to count, ns */
#define LATE_NS (50 * 1000ull)
#define CAP_STEP (16ull << 20) /* a new memory cap is set only if it differs by at least this from the old one, bytes */
#define MIB (1ull << 20)

struct job {
        struct table_row row;
        uint64_t wake_ns; /* opportunistic: time before which it does not run */
        uint64_t cap;     /* cap that was set, bytes; 0: none */
        /* guaranteed: bytes that the job may still allocate; time of the last update of `need`, ns */
        uint64_t need, needed_ns;
        uint64_t counted; /* number of the last decision in which the job had work */
};

struct kernel {
        struct table_row row;
        uint64_t best_ns;
};

struct antman {
        uint64_t interval_ns, gone_ns, reserve;
        double harm, forget;
        int64_t step, percent;
        uint32_t depth;
        uint32_t is_watched; /* 1: a guaranteed job had work within the last `gone_ms` */
        uint64_t seen_ns, last_ns, next_ns;
        uint64_t decision;
        uint32_t n_active; /* guaranteed jobs at work at the last decision */
        /* sum of the best known kernel times, and time with guaranteed work, in this interval, ns */
        uint64_t best_ns, spent_ns;
        double efficiency; /* best efficiency of the guaranteed jobs so far; it decays */
        struct job jobs[TABLE_SESSIONS];
        struct kernel kernels[TABLE_KERNELS];
};

static const struct detshare_policy_param antman_params[] = {
        {.name = "interval_ms",
                .help = "time between two adjustments of BE's share of time, ms",
                .def = 100,
                .min = 1,
                .max = 60000},
        {.name = "harm_permille",
                .help = "efficiency that LS may lose before BE's share is halved, permille of the best seen",
                .def = 50,
                .min = 0,
                .max = 1000},
        {.name = "step_percent",
                .help = "step by which BE's share rises while LS loses less, percent",
                .def = 10,
                .min = 1,
                .max = 100},
        {.name = "gone_ms",
                .help = "time without LS work after which BE runs without sleeps, ms",
                .def = 5000,
                .min = 1,
                .max = 1000000},
        {.name = "forget_permille",
                .help = "decay of the best efficiency seen, permille per interval",
                .def = 2,
                .min = 0,
                .max = 1000},
        {.name = "reserve_mib",
                .help = "memory kept free for each LS session without a memory limit, MiB",
                .def = 1024,
                .min = 0,
                .max = 1 << 20},
        {.name = "depth",
                .help = "operations of one coroutine on the device at once",
                .def = ROUND_DEPTH,
                .min = 1,
                .max = 1024},
};

static int antman_init(void *state, const struct detshare_policy_config *config)
{
        struct antman *antman = state;

        antman->interval_ns = (uint64_t)config->params[0] * ANTMAN_MS;
        antman->harm = (double)config->params[1] / 1000;
        antman->step = config->params[2];
        antman->gone_ns = (uint64_t)config->params[3] * ANTMAN_MS;
        antman->forget = (double)config->params[4] / 1000;
        antman->reserve = (uint64_t)config->params[5] * MIB;
        antman->depth = (uint32_t)config->params[6];
        antman->percent = 100;
        return 0;
}

static struct job *job_of(struct antman *antman, const struct detshare_snapshot *snapshot, uint32_t session)
{
        return TABLE_TAKE(antman->jobs, snapshot->sessions[session].id, snapshot->now_ns);
}

/* --- guaranteed jobs ---------------------------------------------------------------------------------------------- */

static int is_guaranteed(const struct detshare_snapshot *snapshot, uint32_t session)
{
        return snapshot->sessions[session].class_ == DETSHARE_CLASS_LS;
}

static void guaranteed_end(struct antman *antman, const struct detshare_snapshot *snapshot)
{
        const struct detshare_op_view *op = &snapshot->event_op;
        uint64_t ns = snapshot->event_end_ns - snapshot->event_start_ns;
        struct kernel *kernel;

        if (op->kind != DETSHARE_OP_KERNEL)
                return;
        kernel = TABLE_TAKE(antman->kernels, op->kernel, snapshot->now_ns);
        if (!kernel->best_ns || ns < kernel->best_ns)
                kernel->best_ns = ns;
        antman->best_ns += kernel->best_ns;
}

static void watch_begin(struct antman *antman, uint64_t now_ns)
{
        antman->is_watched = 1;
        antman->percent = 0;
        antman->efficiency = 0;
        antman->best_ns = antman->spent_ns = 0;
        antman->next_ns = now_ns + antman->interval_ns;
}

static void watch_end(struct antman *antman)
{
        antman->is_watched = 0;
        antman->percent = 100;
}

/* Number of guaranteed jobs with work on the device or ready for it. A job that waits for its own host does not
 * count. */
static uint32_t count_active(struct antman *antman, const struct detshare_snapshot *snapshot)
{
        uint32_t n = 0;

        antman->decision++;
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                struct job *job;

                if (!is_guaranteed(snapshot, coroutine->session) || (!coroutine->ready && !coroutine->in_flight))
                        continue;
                job = job_of(antman, snapshot, coroutine->session);
                n += job->counted != antman->decision;
                job->counted = antman->decision;
        }
        return n;
}

/* Adds the time since the last decision in which guaranteed jobs were at work, and notes whether there are any. */
static void watch(struct antman *antman, const struct detshare_snapshot *snapshot)
{
        uint32_t n = count_active(antman, snapshot);

        antman->spent_ns += antman->n_active * (snapshot->now_ns - antman->last_ns);
        antman->last_ns = snapshot->now_ns;
        antman->n_active = n;
        if (n) {
                antman->seen_ns = snapshot->now_ns;
                if (!antman->is_watched)
                        watch_begin(antman, snapshot->now_ns);
        }
        if (antman->is_watched && snapshot->now_ns - antman->seen_ns >= antman->gone_ns)
                watch_end(antman);
}

static void interval_end(struct antman *antman)
{
        double efficiency = (double)antman->best_ns / (double)antman->spent_ns;

        antman->best_ns = antman->spent_ns = 0;
        antman->efficiency *= 1 - antman->forget;
        if (efficiency >= antman->efficiency)
                antman->efficiency = efficiency;
        if (efficiency < antman->efficiency * (1 - antman->harm))
                antman->percent /= 2;
        else
                antman->percent += antman->step;
        if (antman->percent > 100)
                antman->percent = 100;
}

/* Ends an interval. After an interval with almost no guaranteed work the percentage rises by one step. */
static void pass_time(struct antman *antman, uint64_t now_ns)
{
        if (!antman->is_watched || now_ns < antman->next_ns)
                return;
        antman->next_ns = now_ns + antman->interval_ns;
        if (antman->spent_ns >= LEAST_NS)
                interval_end(antman);
        else
                antman->percent = antman->percent + antman->step < 100 ? antman->percent + antman->step : 100;
}

/* --- opportunistic jobs ------------------------------------------------------------------------------------------- */

/*
 * An operation of the opportunistic job has ended. Sets the time until which the job sleeps: the operation's duration *
 * 100 / percent after the job's last wake-up time. Durations of the job's streams add up. If the operation began late,
 * at most LATE_NS of its delay shortens the next sleep.
 */
static void opportunistic_end(struct antman *antman, const struct detshare_snapshot *snapshot)
{
        struct job *job = job_of(antman, snapshot, snapshot->event_session);
        uint64_t ns = snapshot->event_end_ns - snapshot->event_start_ns, p = (uint64_t)antman->percent;

        if (!p || p >= 100)
                return;
        if (job->wake_ns + LATE_NS < snapshot->event_start_ns)
                job->wake_ns = snapshot->event_start_ns - LATE_NS;
        job->wake_ns += ns * 100 / p;
}

static void observe(struct antman *antman, const struct detshare_snapshot *snapshot)
{
        watch(antman, snapshot);
        pass_time(antman, snapshot->now_ns);
        if (snapshot->event != DETSHARE_EVENT_COMPLETE || snapshot->event_session == UINT32_MAX)
                return;
        if (is_guaranteed(snapshot, snapshot->event_session))
                guaranteed_end(antman, snapshot);
        else
                opportunistic_end(antman, snapshot);
}

/* Sets the decision's timer to at_ns if that is earlier than the timer's present value. */
static void timer(struct detshare_decision *decision, uint64_t at_ns)
{
        if (at_ns < decision->next_timer_ns)
                decision->next_timer_ns = at_ns;
}

static void launch_opportunistic(
        struct antman *antman, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        uint32_t depth = antman->percent >= 100 ? antman->depth : 1;

        for (uint32_t i = 0; i < snapshot->n_coroutines && antman->percent; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                struct job *job;

                if (coroutine->class_ != DETSHARE_CLASS_BE || !coroutine->ready || coroutine->in_flight >= depth)
                        continue;
                job = job_of(antman, snapshot, coroutine->session);
                if (antman->percent < 100 && job->wake_ns > snapshot->now_ns)
                        timer(decision, job->wake_ns);
                else if (!round_launch(decision, coroutine, 0, depth - coroutine->in_flight))
                        return;
        }
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* Free memory that no guaranteed job is entitled to, bytes. */
static uint64_t memory_left(struct antman *antman, const struct detshare_snapshot *snapshot)
{
        uint64_t needed = 0;

        for (uint32_t i = 0; i < snapshot->n_sessions; i++) {
                const struct detshare_session_view *session = &snapshot->sessions[i];
                struct job *job;

                if (!is_guaranteed(snapshot, i))
                        continue;
                job = job_of(antman, snapshot, i);
                job->needed_ns = snapshot->now_ns + 1;
                job->need = antman->reserve;
                if (session->memory_limit)
                        job->need = session->memory_limit > session->memory_used
                                            ? session->memory_limit - session->memory_used
                                            : 0;
        }
        for (uint32_t i = 0; i < TABLE_SESSIONS; i++)
                if (antman->jobs[i].needed_ns && snapshot->now_ns + 1 - antman->jobs[i].needed_ns < antman->gone_ns)
                        needed += antman->jobs[i].need;
        return snapshot->memory_free > needed ? snapshot->memory_free - needed : 0;
}

static void cap(struct job *job, const struct detshare_coroutine_view *coroutine, uint64_t bytes,
        struct detshare_decision *decision)
{
        uint64_t change = bytes > job->cap ? bytes - job->cap : job->cap - bytes;

        if (change < CAP_STEP || (!job->cap && bytes == UINT64_MAX))
                return;
        if (!round_launch(decision, coroutine, 0, 0))
                return;
        job->cap = bytes;
        decision->actions[decision->n - 1].kind = DETSHARE_ACTION_MEMORY_CAP;
        decision->actions[decision->n - 1].bytes = bytes;
}

static void cap_opportunistic(
        struct antman *antman, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        uint64_t left = memory_left(antman, snapshot);
        uint32_t n = 0;

        for (uint32_t i = 0; i < snapshot->n_sessions; i++)
                n += !is_guaranteed(snapshot, i);
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                const struct detshare_session_view *session = &snapshot->sessions[coroutine->session];
                /* no cap; this also removes the cap of a session that was opportunistic before */
                uint64_t bytes = UINT64_MAX;

                if (antman->is_watched && !is_guaranteed(snapshot, coroutine->session))
                        bytes = session->memory_used + left / (n ? n : 1);
                cap(job_of(antman, snapshot, coroutine->session), coroutine, bytes, decision);
        }
}

static int antman_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct antman *antman = state;

        observe(antman, snapshot);
        if (snapshot->memory_total)
                cap_opportunistic(antman, snapshot, decision);
        round_launch_class(snapshot, decision, DETSHARE_CLASS_LS, antman->depth);
        launch_opportunistic(antman, snapshot, decision);
        if (antman->is_watched && snapshot->n_coroutines)
                timer(decision, antman->next_ns);
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "antman",
        .description = "BE sleeps between its operations, the more the more LS loses; BE memory is capped (AntMan)",
        .params = antman_params,
        .n_params = sizeof(antman_params) / sizeof(antman_params[0]),
        .state_size = sizeof(struct antman),
        .init = antman_init,
        .decide = antman_decide,
};
