/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare: BE gives up SMs for the time of an LS request
 *
 * Best-effort (BE) work has the whole GPU while no latency-sensitive (LS) request runs. When a request begins, BE ebbs:
 * it gives up SMs. When the request ends, BE flows back. The unit is the request and not the kernel: a request is
 * hundreds of kernels of 1 to 2 us, and a wait at each of them adds up. Reserving SMs for the needs of the LS queue,
 * and looking for these needs offline, is SGDRC's idea (PPoPP'25, sections 4 and 7.1: tidal SM masking). Requests,
 * stairs, prices and everything learned are ours. docs/policies/detshare.md explains the rule for users.
 *
 * Begin and end. A request begins with its first launch. It ends when its queue is empty and the client has waited for
 * it, or when the queue stayed empty for a hold-off: the quantile `hold_percent` of the gaps inside this session's
 * requests (a program bound by its host has one between any two kernels).
 *
 * Prices. A BE kernel beside LS need not give way: where its blocks are short, priority alone lets LS in within
 * microseconds. Its harm is the mean rest of a block that LS finds on full SMs, less the gap that LS makes anyway,
 * times the LS kernels of a request (a long one counts once more per 10 us, because it may be a graph). While that is
 * within the slack, the kernel stays on the whole GPU. The slack is `slo_permille` of the time that the objective
 * leaves of a request, or without an objective `slack_permille` of the request's own length. Otherwise the kernel goes
 * to the upper rung with the lowest SM count of its own stair (stair.h) that leaves the reserve: below the first
 * missing SM the next ones cost nothing.
 *
 * The reserve is the most SMs that an LS kernel among the first of the queues needs for its best latency, and that the
 * session's recent kernels needed (the quantile `need_percent` of their time), up to `reserve_percent` of the GPU. LS
 * itself goes to the whole GPU with high priority: it begins in the reserve and spreads as BE blocks end. (`ls_overlap`
 * 0: it goes to the lower rung of its need, where spreading hurts; 2: to the SMs outside of BE's part.)
 *
 * Standing reserve. While no request runs but an LS session was active lately (`recent_ms`, or four times its pauses),
 * one wait remains: that of a request's first kernel for a BE block. Where that exceeds the slack, BE leaves SMs free:
 * as many as the need if its kernel loses at most `standing_permille` by that, otherwise fewer, otherwise none. A
 * kernel that would fall off its stair keeps all SMs.
 *
 * Pauses. A kernel is not launched on all SMs if it will probably still run when the next request comes, and that
 * request would suffer. Probably means: more than `meet_permille` of the pauses that last as long as this one so far
 * end by then. Queued requests follow each other within microseconds, so BE waits for that time after each; it runs in
 * the remaining pauses. A kernel longer than the pauses runs beside the next request anyway. So it is placed as if that
 * had begun, and requests back to back do not move it to and fro. But this holds only while no requests queue, and only
 * beside a session that would be busy for at most `busy_permille` of its time if all its requests took what those
 * beside BE take: a busier one would never get through its queue. Otherwise BE waits, for at most `starve_ms`. Kernels
 * whose blocks must all be resident are launched in any pause.
 *
 * Parts have a price where the device says so (`mask_permille`): on an H200, after kernels ran on a part of the SMs,
 * every later kernel begins later, until the GPU has had another context for a moment (daemon/supervisor/settle.h). So
 * a kernel goes to a part only if half of its time exceeds the loss of the next few requests.
 *
 * Bounds. A BE coroutine gets the next operation when its work on the device should end within `be_ahead_us`
 * (`be_alone_us` with no LS for a second), not earlier, and with LS within its slack: queued work delays the next
 * request, too. Beside LS, kernels known to be bound by compute or memory have at most as many resident blocks as the
 * calibration found to keep LS under `interference_permille`; unknown kernels are not bounded. BE sessions are kept
 * within `fair_us` of device time of each other.
 *
 * A kernel whose blocks must all be resident and do not fit BE's SMs borrows the whole GPU if every running LS request
 * would still keep its slack. Otherwise it waits, for at most `starve_ms`.
 *
 * Felt. Prices are predictions. felt.h times a session's requests with and without BE. If they lose more than the
 * slack, all of BE keeps to a half, a quarter or an eighth of the SMs while they run: the largest part that they do not
 * feel. Now and then a more generous part is tried, until that request has taken twice its usual time. A kernel goes
 * there only if it ends sooner there than on all SMs after the requests. If requests feel even the smallest part, BE is
 * held: none of its kernels is launched, except after `starve_ms`.
 *
 * Evicting. A BE kernel of long blocks is launched in an evictable form (daemon/sched/forms.h), so no request waits for
 * its end, and no SMs stay free for a request that may come. When a request comes and BE runs where it would not be
 * sent now, it is evicted if its own end is farther off than an eviction costs (its duration and `resume_us`). It
 * resumes on the rung that leaves the reserve, and moves back likewise after the request. BE never starves: it runs for
 * `be_floor_permille` of the time since its last eviction before the next one, whatever LS needs.
 *
 * Exploring. While LS is idle (and, where parts have a price, was idle for a while), a kernel with a good profile at
 * few SM counts is now and then sent to an unknown rung, for at most `explore_permille` of BE's time.
 *
 * Several LS sessions go by deadline. The earliest may have `ls_depth` operations on the device, others
 * `ls_late_depth`.
 *
 * The state is bounded: it holds the LS and BE sessions seen last, so many of each. Of more sessions the one not seen
 * for longest is forgotten and learned again.
 */
#include "policies/interference.h"
#include "policies/tide.h"

#define DEPTH 256u /* maximum number of operations of a BE coroutine on the device */
/* However many streams clients open, the device must have room for LS. */
#define BE_MANY 512u            /* BE operations on the device from which on each coroutine has at most one ... */
#define BE_MOST 3072u           /* ... and from which on more are sent only after some have ended */
#define QUEUED_NS 50000ull      /* pause below which the next request was already waiting, ns */
#define TRIAL_TIMES 2u          /* a trial of more BE ends after this many times a request's usual time */
#define AHEAD_LEAST_NS 20000ull /* least work on the device, ns, so that it is not idle until the next arrives */

/* --- launches ----------------------------------------------------------------------------------------------------- */

struct place {
        uint32_t rung, blocks, evictable;
};

/* Adds to the previous action where it is the same. Returns 0 without room. */
static int launch(struct detshare_decision *decision, const struct detshare_coroutine_view *coroutine,
        const struct place *place, uint32_t count)
{
        struct detshare_action *action = decision->n ? &decision->actions[decision->n - 1] : NULL;

        if (action && action->kind == DETSHARE_ACTION_LAUNCH && action->coroutine == coroutine->id &&
                action->rung == place->rung && action->max_resident_blocks == place->blocks &&
                action->evictable == place->evictable) {
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
                .evictable = place->evictable,
        };
        return 1;
}

static uint32_t ls_rung(const struct detshare *d)
{
        uint32_t at;

        if (d->p[P_LS_OVERLAP] == LS_OVERLAP || (d->p[P_LS_OVERLAP] == LS_APART && !d->part))
                return 0;
        at = stair_at_least(&d->lower, d->reserve);
        return at < d->lower.n ? d->lower.rung[at] : 0;
}

/* The earliest deadline among LS sessions with ready work. */
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

/* Two rounds: first the sessions with the earliest deadline, then the others. */
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

/* The calibration's bound on blocks for a kernel on n_sms SMs: that of the next higher measured SM count. */
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

/* Mean rest of a block at an arbitrary arrival, ns; 0 where there is room beside the blocks. */
static uint64_t be_rest(const struct detshare *d, const struct detshare_op_view *op)
{
        uint64_t block = stair_block(op, d->n_sms);

        if (!stair_fills(op, d->n_sms))
                return 0;
        if (!stair_known(op))
                return UINT64_MAX;
        return block <= us(d, P_SHORT) ? 0 : block / 2;
}

/* Whether LS loses less by this kernel on a part of the GPU than by its remaining time, in the mean, on all SMs. */
static int be_may_divide(const struct detshare *d, const struct detshare_op_view *op)
{
        return !d->mask_ns || !stair_known(op) || stair_time(op, d->n_sms, d->n_sms) / 2 > d->mask_ns;
}

/* Whether the GPU may be lent to a kernel that takes `ns`. */
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

/* The upper rung beside LS: its present one if that is as good as the best. upper.n: there is none. */
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

static int be_may_evict(const struct detshare *d, const struct detshare_op_view *op)
{
        return d->p[P_EVICT] && op->evict_ns;
}

/*
 * Whether a kernel ends sooner on n_sms SMs, behind its coroutine's work there, than on all SMs after the requests.
 * What it gets beside them must not cost it more after them.
 */
static int be_ends_sooner(
        const struct detshare *d, const struct detshare_op_view *op, uint64_t queue_ns, uint32_t n_sms)
{
        return !stair_known(op) || queue_ns + stair_time(op, n_sms, d->n_sms) <=
                                           max_u64(queue_ns, d->left_ns) + stair_time(op, d->n_sms, d->n_sms);
}

/* Until when the coroutine's head may wait for LS. */
static uint64_t be_until(const struct detshare *d, const struct detshare_coroutine_view *coroutine)
{
        return coroutine->head_since_ns + (uint64_t)d->p[P_STARVE] * MS;
}

/* Returns 1 and the place of a kernel beside LS, behind queue_ns of work; 0: it waits. */
static int be_beside(struct detshare *d, const struct detshare_coroutine_view *coroutine,
        const struct detshare_op_view *op, uint64_t queue_ns, struct place *place)
{
        uint64_t until = be_until(d, coroutine);
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
        if (!d->part && (be_rest(d, op) <= d->harmless_ns || !be_may_divide(d, op)))
                n_sms = d->n_sms;
        else if (at < d->upper.n)
                place->rung = d->upper.rung[at];
        if (d->part && d->now_ns < until && !be_may_evict(d, op) && !be_ends_sooner(d, op, queue_ns, n_sms)) {
                wake_at(d, until);
                return 0;
        }
        place->blocks = be_blocks(d, op, n_sms);
        return 1;
}

/*
 * Whether a kernel is launched in an evictable form. Such a kernel may hold its SMs until it is evicted, so not where
 * priority alone lets LS in soon enough.
 */
static uint32_t be_lets_go(const struct detshare *d, const struct detshare_op_view *op, const struct place *place)
{
        if (!be_may_evict(d, op))
                return 0;
        if (d->wet)
                return place->rung || be_rest(d, op) > d->harmless_ns;
        return be_rest(d, op) > d->soon_harmless_ns;
}

/* The rung that leaves a standing reserve; 0: not worth it, or not needed. */
static uint32_t be_standing(const struct detshare *d, const struct detshare_op_view *op)
{
        if (d->standing_ns == UINT64_MAX)
                return 0; /* no recent LS */
        if (!d->p[P_STANDING] || be_rest(d, op) <= d->standing_ns || !stair_known(op) || !be_may_divide(d, op))
                return 0;
        for (uint32_t i = stair_at_least(&d->upper, d->n_sms - d->standing_sms); i < d->upper.n; i++)
                if (stair_loss(op, d->upper.n_sms[i], d->n_sms) <= (uint64_t)d->p[P_STANDING])
                        return d->upper.rung[i];
        return 0;
}

/* Whether trials have shown that its requests keep the slack with BE beside them, wherever the prices send it. */
static int ls_bears(const struct detshare *d, const struct ls *ls)
{
        return ls->felt.now == FELT_EBB && felt_keeps(&ls->felt, FELT_EBB, ls_slack_permille(d, ls));
}

/*
 * Whether the next request will probably come before `ns` have passed: right after a request, where they often follow
 * closely, and where `ns` exceeds the usual pauses. Then the timer asks for another look when more is known of this
 * pause.
 */
static int be_meets(struct detshare *d, uint64_t ns)
{
        int meets = 0;

        for (uint32_t i = 0; i < LS_MAX; i++) {
                const struct ls *ls = &d->ls[i];
                const uint64_t since = d->now_ns - ls->empty_ns;

                if (!ls->seen || ls->open || !tide_recent(d, ls) || ls_bears(d, ls) ||
                        gaps_over_permille(&ls->between, since, ns) <= (uint64_t)d->p[P_MEET])
                        continue;
                wake_at(d, ls->empty_ns + gaps_edge(since));
                meets = 1;
        }
        return meets;
}

/*
 * Returns 1 and the place of a kernel while no request runs, behind queue_ns of work; 0: it waits. One that is longer
 * than the pauses goes where it would go if the next request had begun.
 */
static int be_between(struct detshare *d, const struct detshare_coroutine_view *coroutine,
        const struct detshare_op_view *op, uint64_t queue_ns, struct place *place)
{
        const uint64_t until = be_until(d, coroutine);
        uint64_t ns = AHEAD_LEAST_NS;
        uint32_t at = d->upper.n;
        int meets, divides;

        if (d->standing_ns == UINT64_MAX || be_rest(d, op) <= d->soon_harmless_ns || be_may_evict(d, op))
                return 1;
        if (stair_known(op)) {
                ns = stair_time(op, d->n_sms, d->n_sms);
                at = be_masked(d, coroutine, op, d->standing_sms);
        }
        divides = at < d->upper.n && be_may_divide(d, op);
        meets = queue_ns + ns > d->standing_ns && be_meets(d, queue_ns + ns);
        if (meets && d->now_ns < until &&
                (!divides || d->busy_permille > number(d, P_BUSY) || be_meets(d, QUEUED_NS))) {
                wake_at(d, until);
                return 0;
        }
        if (divides && (meets || ns > d->soon_ns))
                place->rung = d->upper.rung[at];
        return 1;
}

/* The upper rung farthest from the kernel's known points; upper.n: it is known well enough. */
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

/* A rung to learn on; 0: none. Only with nothing else on the GPU, or the sample would mean nothing. */
static uint32_t be_explore(
        struct detshare *d, const struct detshare_coroutine_view *coroutine, const struct detshare_op_view *op)
{
        uint64_t ns;
        uint32_t at;

        if (op->samples < number(d, P_EXPLORE_SAMPLES) || !op->n_points || op->n_points >= number(d, P_EXPLORE_POINTS))
                return 0;
        if (d->flying > (coroutine->in_flight != 0) || d->mask_ns)
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
        const struct detshare_op_view *op, uint64_t queue_ns, struct place *place)
{
        place->evictable = 0;
        if (op->kind != DETSHARE_OP_KERNEL) {
                if (coroutine->in_flight)
                        place->rung = coroutine->rung;
                return 1;
        }
        if (d->wet) {
                if (!be_beside(d, coroutine, op, queue_ns, place))
                        return 0;
                place->evictable = be_lets_go(d, op, place);
                return 1;
        }
        *place = (struct place){0};
        if (op->all_resident)
                return 1;
        if (!be_between(d, coroutine, op, queue_ns, place))
                return 0;
        if (!place->rung)
                place->rung = be_standing(d, op);
        if (!place->rung && d->p[P_EXPLORE])
                place->rung = be_explore(d, coroutine, op);
        place->evictable = be_lets_go(d, op, place);
        return 1;
}

/* Operations of a BE coroutine on the device. */
struct pipeline {
        uint32_t n;
        int known;
        uint64_t all_ns;  /* expected time of the operations, ns */
        uint64_t rest_ns; /* remaining part of it, ns */
};

/* Time for which the coroutine's running operation has run: it began when the previous one ended. */
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
 * Whether the next operation should be sent now. The device reports ends late where others follow, so an operation that
 * should have ended counts as ended, but only up to a limit: kernels that are slower than expected must not pile up
 * there.
 */
static int be_follows(struct detshare *d, const struct pipeline *pipeline, const struct detshare_op_view *op)
{
        uint64_t ahead = us(d, d->alone ? P_ALONE : P_AHEAD);

        if (!d->alone)
                ahead = min_u64(ahead, max_u64(d->standing_ns, AHEAD_LEAST_NS));
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

static struct be *be_find(struct detshare *d, const struct detshare_session_view *view)
{
        struct be *oldest = &d->be[0], *last = &d->be[d->be_last];
        int crowd;

        /* the coroutines of a session come one after the other */
        if (last->seen && last->id == view->id)
                return last;
        for (uint32_t i = 0; i < BE_MAX; i++) {
                if (d->be[i].seen && d->be[i].id == view->id) {
                        d->be_last = i;
                        return &d->be[i];
                }
                if (d->be[i].seen < oldest->seen)
                        oldest = &d->be[i];
        }
        /* with more sessions than places each is new all the time; that is no change of BE */
        crowd = oldest->seen && oldest->seen + 1 >= d->decision;
        *oldest = (struct be){.id = view->id, .device_ns = view->device_ns};
        for (uint32_t i = 0; i < LS_MAX && !crowd; i++) {
                felt_forget(&d->ls[i].felt);
                d->ls[i].mean_beside_ns = 0;
        }
        return oldest;
}

/* Sends the next operations of a coroutine, just in time. Returns 0 if the decision is full. */
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
                if (!be_follows(d, &pipeline, op))
                        break;
                if (!be_place(d, coroutine, op, pipeline.rest_ns, &place)) {
                        if (!pipeline.n)
                                be_find(d, &snapshot->sessions[coroutine->session])->waits = d->decision;
                        break;
                }
                if (!launch(decision, coroutine, &place, 1))
                        return 0;
                ns = op->samples ? stair_time(op, snapshot->rungs[place.rung].n_sms, d->n_sms) : 0;
                ns -= ns / 1000 * op->progress_permille;
                pipeline.n++;
                d->be_flying++;
                pipeline.known = pipeline.known && op->samples;
                pipeline.all_ns += ns;
                pipeline.rest_ns += ns;
        }
        return 1;
}

/* --- evictions ---------------------------------------------------------------------------------------------------- */

/*
 * Ensures that BE never starves: between two evictions of a coroutine it runs for a share of the time, whatever LS
 * needs. If it has not yet, a timer asks for another look.
 */
static int be_has_run(struct detshare *d, const struct detshare_coroutine_view *coroutine, uint64_t runs_for)
{
        const struct evicted *last = &d->evicted[coroutine->id % ENDED];
        uint64_t floor = (uint64_t)d->p[P_FLOOR], due;

        if (last->coroutine != coroutine->id)
                return 1;
        due = (d->now_ns - last->ns) / 1000 * floor;
        if (runs_for >= due)
                return 1;
        if (floor < 1000)
                wake_at(d, d->now_ns + (due - runs_for) / (1000 - floor) * 1000 + 1000);
        return 0;
}

/*
 * Whether LS would wait longer for the coroutine's work to end than an eviction takes, on SMs that LS needs. A kernel
 * that has run for longer than expected is expected to run as long again.
 */
static int be_to_be_evicted(
        struct detshare *d, const struct detshare_snapshot *snapshot, const struct detshare_coroutine_view *coroutine)
{
        const struct detshare_rung_view *rung = &snapshot->rungs[coroutine->rung];
        uint32_t left = rung->side == DETSHARE_SIDE_UPPER ? d->n_sms - rung->n_sms : 0;
        uint64_t runs_for = be_runs_for(d, coroutine), all = coroutine->in_flight_expected_ns;
        uint64_t rest = all > runs_for ? all - runs_for : runs_for - all;

        if (left >= (d->regime == FELT_HELD ? d->n_sms : d->reserve))
                return 0;
        if (all && rest <= coroutine->evict_ns + us(d, P_RESUME))
                return 0;
        if (left && runs_for < us(d, P_EVICT_RUN)) {
                wake_at(d, d->now_ns + us(d, P_EVICT_RUN) - runs_for);
                return 0;
        }
        return be_has_run(d, coroutine, runs_for);
}

/*
 * Whether moving the coroutine's work back to all SMs after the requests gains more than twice the cost. Only once per
 * kernel: it may have reasons to be where it is.
 */
static int be_flows_back(
        struct detshare *d, const struct detshare_snapshot *snapshot, const struct detshare_coroutine_view *coroutine)
{
        const struct detshare_rung_view *rung = &snapshot->rungs[coroutine->rung];
        const struct evicted *last = &d->evicted[coroutine->id % ENDED];
        uint64_t runs_for = be_runs_for(d, coroutine), all = coroutine->in_flight_expected_ns;
        uint64_t gain = all > runs_for ? (all - runs_for) / d->n_sms * (d->n_sms - rung->n_sms) : 0;
        uint64_t cost = coroutine->evict_ns + us(d, P_RESUME);

        if (last->coroutine != coroutine->id || last->back || gain <= 2 * cost || d->soon_ns <= cost)
                return 0;
        if (runs_for < us(d, P_EVICT_RUN)) {
                wake_at(d, d->now_ns + us(d, P_EVICT_RUN) - runs_for);
                return 0;
        }
        return 1;
}

/* Evicts the BE work that resumes elsewhere: beside LS, or on all SMs after LS. */
static void be_evict_all(
        struct detshare *d, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines && d->p[P_EVICT]; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (coroutine->class_ == DETSHARE_CLASS_LS || !coroutine->evictable ||
                        !(d->wet ? be_to_be_evicted : be_flows_back)(d, snapshot, coroutine))
                        continue;
                if (decision->n == decision->capacity) {
                        decision->again = 1;
                        return;
                }
                decision->actions[decision->n++] =
                        (struct detshare_action){.kind = DETSHARE_ACTION_EVICT, .coroutine = coroutine->id};
                d->evicted[coroutine->id % ENDED] = (struct evicted){coroutine->id, d->now_ns, !d->wet};
        }
}

/*
 * Updates virtual times. A session that had no work lately starts where the others are, and so does one that waits for
 * LS; nobody waits for it. A running operation counts already, so others do not wait for the end of a long kernel.
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
                if (be->waits && be->waits + 1 == d->decision) {
                        be->virtual_ns = max_u64(be->virtual_ns, d->fair_ns);
                        continue;
                }
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

/*
 * Whether a trial of a more generous regime has lasted so long that its result is known. Each of hundreds of kernels
 * may wait for a block, and the request behind this one waits for all of them.
 */
static int ls_trial_is_over(struct detshare *d, const struct ls *ls)
{
        const uint64_t until = ls->piece_ns + TRIAL_TIMES * max_u64(ls->length_ns, ls->mean_length_ns);

        if (ls->regime >= ls->felt.now || !ls->length_ns)
                return 0;
        if (d->now_ns < until)
                wake_at(d, until);
        return d->now_ns >= until;
}

/*
 * The regime that a running request requires, unless it waits for its own host. A regime that is stricter only for a
 * measurement lasts at most `starve_ms`, because its next end may be far off. After a trial of a more generous one has
 * ended it is the one in force.
 */
static uint32_t ls_regime(struct detshare *d, const struct ls *ls)
{
        if (!ls->open || (ls->busy && ls_stalls(d, ls)))
                return FELT_EBB;
        if (ls->cut)
                return ls->felt.now;
        if (d->now_ns - ls->piece_ns < (uint64_t)d->p[P_STARVE] * MS)
                return ls->regime;
        return (uint32_t)min_u64(ls->regime, ls->felt.now);
}

/*
 * Sets the strictest regime of the running requests. Only sessions that hold BE because they do not know its cost give
 * way to a trial; otherwise none of several overlapping ones would ever finish one.
 */
static void tide_regime(struct detshare *d)
{
        int trial = 0;

        for (uint32_t i = 0; i < LS_MAX; i++) {
                struct ls *ls = &d->ls[i];

                ls->cut |= ls->open && ls_trial_is_over(d, ls);
                trial |= ls->open && !ls->cut && ls->regime == FELT_EBB && ls->felt.now == FELT_HELD;
        }
        d->regime = FELT_EBB;
        for (uint32_t i = 0; i < LS_MAX; i++)
                if (!trial || !felt_is_ignorant(&d->ls[i].felt))
                        d->regime = (uint32_t)max_u64(d->regime, ls_regime(d, &d->ls[i]));
        d->part = d->regime == FELT_HELD ? 0 : d->regime;
        d->reserve = (uint32_t)max_u64(d->reserve, d->n_sms - (d->n_sms >> d->part));
}

/* Notes for each session whether BE ran beside it, and under which regime. */
static void ls_feel(struct detshare *d)
{
        for (uint32_t i = 0; i < LS_MAX; i++) {
                struct ls *ls = &d->ls[i];

                if (!ls->open)
                        continue;
                ls->mixed |= (ls->cut ? ls->felt.now : ls->regime) != d->regime;
                ls->beside |= d->be_flying != 0;
                if (d->be_flying && ls->free_ns)
                        ls->free_ns = CAME_BACK;
                else if (!d->be_flying && !ls->free_ns)
                        ls->free_ns = d->now_ns;
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
        be_evict_all(d, snapshot, decision);
        ls_launch(d, snapshot, decision);
        if (!decision->again)
                be_launch_all(d, snapshot, decision);
        ls_feel(d);
        decision->next_timer_ns = d->timer_ns;
        return 0;
}

/* --- the calibration ---------------------------------------------------------------------------------------------- */

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
        if (d->p[P_MASK] < 0)
                d->p[P_MASK] = config->mask_permille;
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
        .description = "BE gives up SMs when an LS request begins and takes them back when it ends",
        .params = params,
        .n_params = PARAMS,
        .state_size = sizeof(struct detshare),
        .init = detshare_init,
        .decide = detshare_decide,
};
