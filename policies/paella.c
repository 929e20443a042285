/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paella: the job with the least remaining work first, as much at once as fits
 *
 * The rule of Paella (Ng, Demoulin, Liu, SOSP'23), as its public code has it. A job is a request of a session, a stage
 * one operation of it.
 *
 * - Shortest remaining first: the remaining work of a job is the sum over its stages of length x share of the GPU, and
 *   the job with the least goes first. The length of a stage is learned: (old + new) / 2 at each end.
 * - A stage is dispatched when its predecessors have ended and its blocks fit beside those on the GPU, so that later
 *   stages can still go first. At most `extra_kernels` (2) stages that do not fit wait on the device, to hide the
 *   launch.
 * - Fairness: with each dispatch every session with work gets 1/n of a credit, and the served one gives one back. A
 *   session with `unfair` credits is served first. The published default is a million, so never: long jobs wait as long
 *   as shorter ones come, and may starve.
 *
 * Differences. Paella's kernels report the begin and the end of their blocks; here kernels are unchanged, and one holds
 * the SMs that all its blocks need (sms_needed) from its launch to its end. The code's jobs are compiled models with
 * known stages. Here the remaining work of a job is its queue, or the work of the session's last jobs less what is
 * done, if that is more: (old + new) / 2 again. A job ends when the client has waited for it, or an LS session's queues
 * are empty. The code gives credit to types of jobs; here each session is a type. `ahead` (1) operations wait on the
 * device behind a running one when nothing else waits for dispatch, because a launch takes longer than Paella's.
 * Classes do not matter.
 */
#include "policies/round.h"
#include "policies/table.h"

#define PAELLA_SORT 256u /* maximum number of coroutines with work on the device that a decision looks at */
#define PAELLA_POPS 32u  /* maximum number of operations that one decision dispatches */

struct job {
        struct table_row row;
        uint64_t done, total; /* work of the running job that is done; learned work of a whole job */
        uint64_t queued;      /* queued work in this snapshot */
        int64_t credit;       /* fairness credit, millionths of a credit */
        uint64_t counted;     /* number of the last pop in which the job got credit */
};

struct stage {
        struct table_row row;
        uint64_t ns;
};

struct paella {
        uint32_t extra, ahead;
        int64_t unfair; /* credit at which a session is served first, millionths of a credit */
        uint64_t pops;
        struct job jobs[TABLE_SESSIONS];
        struct stage stages[TABLE_KERNELS];
};

static const struct detshare_policy_param paella_params[] = {
        {.name = "extra_kernels",
                .help = "kernels on the device beyond those whose blocks fit",
                .def = 2,
                .min = 0,
                .max = 64},
        {.name = "unfair",
                .help = "credits after which a session is served first; large: shortest remaining time alone decides",
                .def = 1000000,
                .min = 1,
                .max = 1000000000},
        {.name = "ahead",
                .help = "operations of a session queued on the device behind the one that runs",
                .def = 1,
                .min = 0,
                .max = 64},
};

static int paella_init(void *state, const struct detshare_policy_config *config)
{
        struct paella *paella = state;

        paella->extra = (uint32_t)config->params[0];
        paella->unfair = config->params[1] * 1000000;
        paella->ahead = (uint32_t)config->params[2];
        return 0;
}

static struct job *job_of(struct paella *paella, const struct detshare_snapshot *snapshot,
        const struct detshare_coroutine_view *coroutine)
{
        return TABLE_TAKE(paella->jobs, snapshot->sessions[coroutine->session].id, snapshot->now_ns);
}

/* --- remaining work ----------------------------------------------------------------------------------------------- */

static uint64_t work_of(const struct detshare_op_view *op, uint64_t ns, uint32_t n_sms)
{
        uint64_t share = op->kind == DETSHARE_OP_KERNEL ? (uint64_t)op->sms_needed * 1024 / n_sms : 0;

        return ns / 1024 * (share ? share : 1) + 1;
}

static uint64_t stage_work(
        struct paella *paella, const struct detshare_snapshot *snapshot, const struct detshare_op_view *op)
{
        uint64_t ns = op->expected_ns;

        if (op->kind == DETSHARE_OP_KERNEL && op->samples) {
                struct stage *stage = TABLE_TAKE(paella->stages, op->kernel, snapshot->now_ns);

                if (!stage->ns)
                        stage->ns = ns;
                ns = stage->ns;
        }
        return work_of(op, ns, snapshot->n_sms);
}

/* Learns from a stage that ended: the length of the stage, and the work that its job has done. */
static void stage_end(struct paella *paella, const struct detshare_snapshot *snapshot, struct job *job)
{
        const struct detshare_op_view *op = &snapshot->event_op;
        uint64_t ns = snapshot->event_end_ns - snapshot->event_start_ns;

        if (op->kind == DETSHARE_OP_KERNEL) {
                struct stage *stage = TABLE_TAKE(paella->stages, op->kernel, snapshot->now_ns);

                stage->ns = stage->ns ? (stage->ns + ns) / 2 : ns;
        }
        job->done += work_of(op, ns, snapshot->n_sms);
}

static void observe(struct paella *paella, const struct detshare_snapshot *snapshot)
{
        struct job *job;

        if (snapshot->event_session == UINT32_MAX)
                return;
        job = TABLE_TAKE(paella->jobs, snapshot->sessions[snapshot->event_session].id, snapshot->now_ns);
        if (snapshot->event == DETSHARE_EVENT_COMPLETE)
                stage_end(paella, snapshot, job);
        if (!job->done ||
                (snapshot->event != DETSHARE_EVENT_REQUEST_END && snapshot->event != DETSHARE_EVENT_SYNCHRONISED))
                return;
        job->total = job->total ? (job->total + job->done) / 2 : job->done;
        job->done = 0;
}

/* Queued work of a coroutine. Operations that the snapshot does not show count as the mean of those that it shows. */
static uint64_t queued_work(struct paella *paella, const struct detshare_snapshot *snapshot,
        const struct detshare_coroutine_view *coroutine)
{
        uint64_t sum = 0;

        for (uint32_t i = 0; i < coroutine->n_ahead; i++)
                sum += stage_work(paella, snapshot, &coroutine->ahead[i]);
        if (coroutine->n_ahead && coroutine->queued > coroutine->n_ahead)
                sum += sum / coroutine->n_ahead * (coroutine->queued - coroutine->n_ahead);
        return sum;
}

static void count_queued(struct paella *paella, const struct detshare_snapshot *snapshot)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++)
                job_of(paella, snapshot, &snapshot->coroutines[i])->queued = 0;
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++)
                job_of(paella, snapshot, &snapshot->coroutines[i])->queued +=
                        queued_work(paella, snapshot, &snapshot->coroutines[i]);
}

static uint64_t remaining(const struct job *job)
{
        uint64_t learnt = job->total > job->done ? job->total - job->done : 0;

        return learnt > job->queued ? learnt : job->queued;
}

/* --- work on the device ------------------------------------------------------------------------------------------- */

struct residency {
        uint32_t n_sms, used_sms;
        uint32_t unfit;
};

static void residency_add(struct residency *residency, uint32_t sms)
{
        if (residency->used_sms + sms <= residency->n_sms)
                residency->used_sms += sms;
        else
                residency->unfit++;
}

/* Decides which operations hold SMs, in the order of their launches: one operation of each coroutine, if it fits.
 * The others wait on the device for room. */
static struct residency look(const struct detshare_snapshot *snapshot)
{
        const struct detshare_coroutine_view *order[PAELLA_SORT];
        struct residency residency = {.n_sms = snapshot->n_sms};
        uint32_t n = 0;

        for (uint32_t i = 0; i < snapshot->n_coroutines && n < PAELLA_SORT; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                uint32_t at = n;

                if (!coroutine->in_flight)
                        continue;
                for (; at && order[at - 1]->in_flight_since_ns > coroutine->in_flight_since_ns; at--)
                        order[at] = order[at - 1];
                order[at] = coroutine;
                n++;
        }
        for (uint32_t i = 0; i < n; i++)
                residency_add(&residency, (order[i]->in_flight_sms + order[i]->in_flight - 1) / order[i]->in_flight);
        return residency;
}

/* --- dispatch ----------------------------------------------------------------------------------------------------- */

/* The launch action of this decision for the coroutine; NULL if there is none yet. */
static struct detshare_action *action_of(
        struct detshare_decision *decision, const struct detshare_coroutine_view *coroutine)
{
        for (uint32_t i = 0; i < decision->n; i++)
                if (decision->actions[i].coroutine == coroutine->id)
                        return &decision->actions[i];
        return NULL;
}

static uint32_t launched(struct detshare_decision *decision, const struct detshare_coroutine_view *coroutine)
{
        const struct detshare_action *action = action_of(decision, coroutine);

        return action ? action->count : 0;
}

static int is_before(const struct paella *paella, const struct job *a, const struct job *b)
{
        int64_t credit_a = a->credit >= paella->unfair ? a->credit : 0;
        int64_t credit_b = b->credit >= paella->unfair ? b->credit : 0;

        if (credit_a != credit_b)
                return credit_a > credit_b;
        return remaining(a) < remaining(b);
}

/* A stage of the job that goes first, among stages whose predecessors have ended; NULL if there is no such stage. */
static const struct detshare_coroutine_view *choose(struct paella *paella, const struct detshare_snapshot *snapshot,
        struct detshare_decision *decision, struct job **ret_job)
{
        const struct detshare_coroutine_view *best = NULL;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                struct job *job;

                if (!coroutine->ready || coroutine->in_flight || !coroutine->n_ahead || launched(decision, coroutine))
                        continue;
                job = job_of(paella, snapshot, coroutine);
                if (best && !is_before(paella, job, *ret_job))
                        continue;
                best = coroutine;
                *ret_job = job;
        }
        return best;
}

/* Fairness credit for one dispatched operation: each session with work gets 1/n of a credit, and the served session
 * gives one back. */
static void give_credit(struct paella *paella, const struct detshare_snapshot *snapshot, struct job *served)
{
        uint32_t n = 0;

        for (int pass = 0; pass < 2; pass++) {
                paella->pops++;
                for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                        struct job *job = job_of(paella, snapshot, &snapshot->coroutines[i]);

                        if (!snapshot->coroutines[i].ready || job->counted == paella->pops)
                                continue;
                        job->counted = paella->pops;
                        if (pass)
                                job->credit += 1000000 / (n ? n : 1);
                        else
                                n++;
                }
        }
        served->credit -= 1000000;
}

static int push(struct detshare_decision *decision, const struct detshare_coroutine_view *coroutine)
{
        if (!round_launch(decision, coroutine, 0, 1))
                return 0;
        decision->actions[decision->n - 1].priority = DETSHARE_PRIORITY_LOW;
        return 1;
}

/* Dispatches the stages that may go now. Returns 1 if no stage is left that waits for dispatch. */
static int dispatch(struct paella *paella, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct residency residency = look(snapshot);

        for (uint32_t i = 0; i < PAELLA_POPS; i++) {
                struct job *job = NULL;
                const struct detshare_coroutine_view *best = choose(paella, snapshot, decision, &job);
                uint32_t sms;

                if (!best)
                        return 1;
                sms = best->ahead[0].kind == DETSHARE_OP_KERNEL ? best->ahead[0].sms_needed : 0;
                if (residency.used_sms + sms > residency.n_sms && residency.unfit >= paella->extra)
                        return 0;
                if (!push(decision, best))
                        return 0;
                residency_add(&residency, sms);
                give_credit(paella, snapshot, job);
        }
        decision->again = 1;
        return 0;
}

/* Sends the next operations of running streams after the dispatched ones. */
static void dispatch_ahead(
        struct paella *paella, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                struct detshare_action *action = action_of(decision, coroutine);
                uint32_t more = coroutine->in_flight;

                if (!coroutine->ready || (!more && !action))
                        continue;
                more = paella->ahead + 1 > more ? paella->ahead + 1 - more : 0;
                if (action && more)
                        action->count = more;
                else if (more && push(decision, coroutine))
                        decision->actions[decision->n - 1].count = more;
        }
}

static int paella_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct paella *paella = state;

        observe(paella, snapshot);
        count_queued(paella, snapshot);
        if (dispatch(paella, snapshot, decision))
                dispatch_ahead(paella, snapshot, decision);
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "paella",
        .description = "the job with the least remaining work first, as many kernels at once as fit (Paella)",
        .params = paella_params,
        .n_params = sizeof(paella_params) / sizeof(paella_params[0]),
        .state_size = sizeof(struct paella),
        .init = paella_init,
        .decide = paella_decide,
};
