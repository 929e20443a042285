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
 * within the slack, the kernel stays on the whole GPU. The slack is `slack_permille` of the request's length, or what the
 * session's objective leaves (see Objectives). Otherwise the kernel goes
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
 * Price of a part (`mask_permille`). On an H200, after kernels ran on a part of the SMs, every later kernel begins
 * later, until the GPU has had another context for a moment (daemon/supervisor/settle.h). Where the device reports such
 * a cost, a kernel goes to a part of the SMs only if half of its time exceeds the loss of the next few requests.
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
 * Felt cost. Prices are predictions, so felt.h times a session's requests with and without BE. If requests lose more
 * than the slack, all of BE keeps to a half, a quarter or an eighth of the SMs while they run: the largest part at
 * which they keep the slack. Now and then BE tries a larger part during one request, until that request has taken twice
 * its usual time. A kernel runs on such a part only if it ends sooner there than on all SMs after the requests. If
 * requests lose more than the slack even beside the smallest part, BE is held: none of its kernels is launched, except
 * after `starve_ms`.
 *
 * Objectives. A session that states a latency has a budget (budget.h): `attain_permille` of its requests must meet the
 * latency, the others may miss it. While the budget lasts, BE may cost a request all that the objective leaves, and is
 * held once the request needs the rest for itself. A request that waited in its client for others gets BE only while the
 * budget has a whole miss in reserve: each delay would also delay those behind it. When the budget is spent, the session
 * is treated as one without an objective.
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
 * The state is bounded: it holds the LS sessions and the BE sessions seen last, a fixed number of each. If there are
 * more sessions, the policy forgets the one that it has not seen for longest, and learns it again when it returns.
 */
#include "policies/detshare/interference.h"
#include "policies/detshare/tide.h"

#define DEPTH 256u /* maximum number of operations of a BE coroutine on the device */
/* Limits on all BE operations on the device. They keep room there for LS, however many streams the BE clients open. */
/* BE operations on the device from which on each BE coroutine has at most one operation there */
#define BE_MANY 512u
#define BE_MOST 3072u /* BE operations on the device from which on no more are sent until some have ended */
/* pause below which the next request was already queued when the previous one ended, ns */
#define QUEUED_NS 50000ull
#define TRIAL_TIMES 2u /* a trial of more BE ends once the request has taken this multiple of its usual time */
/* least work that a BE coroutine keeps on the device, ns, so that the device is not idle until the next operation
 * arrives */
#define AHEAD_LEAST_NS 20000ull

/* --- launches ----------------------------------------------------------------------------------------------------- */

struct place {
        uint32_t rung, blocks, evictable;
};

/* Launches `count` operations of the coroutine: extends the decision's last action if place and coroutine are the
 * same, otherwise adds an action. Returns 0 if the decision has no room. */
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

/* The earliest deadline among the LS sessions with queued or running work, ns; UINT64_MAX if none has a deadline. */
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

/* Launches the ready LS work in two rounds: first the sessions with the earliest deadline, then all other LS
 * sessions. */
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

/* Bound on the resident blocks of a BE kernel on n_sms SMs, from the calibration at the next higher measured SM
 * count. */
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

/* Mean time until a block of the kernel ends, seen from an arbitrary moment, ns. 0 if its blocks are short or leave
 * room on the SMs; UINT64_MAX if the kernel's time is unknown. */
static uint64_t be_rest(const struct detshare *d, const struct detshare_op_view *op)
{
        uint64_t block = stair_block(op, d->n_sms);

        if (!stair_fills(op, d->n_sms))
                return 0;
        if (!stair_known(op))
                return UINT64_MAX;
        return block <= us(d, P_SHORT) ? 0 : block / 2;
}

/* Whether running this BE kernel on a part of the GPU costs LS less than half of the kernel's remaining time on all
 * SMs. */
static int be_may_divide(const struct detshare *d, const struct detshare_op_view *op)
{
        return !d->mask_ns || !stair_known(op) || stair_time(op, d->n_sms, d->n_sms) / 2 > d->mask_ns;
}

/* Whether a BE kernel that takes `ns` may borrow the whole GPU while LS requests run. */
static int be_may_borrow(const struct detshare *d, uint64_t ns)
{
        for (uint32_t i = 0; i < LS_MAX; i++) {
                const struct ls *ls = &d->ls[i];
                uint64_t rest, since = d->now_ns - ls->begin_ns;

                if (!ls->open)
                        continue;
                rest = ls->length_ns > since ? ls->length_ns - since : 0;
                if (ls_buys(ls) ? d->now_ns + rest + ns > ls->deadline_ns : ns > ls_slack(d, ls))
                        return 0;
        }
        return 1;
}

/* Index of the upper rung for a BE kernel beside LS: the coroutine's present rung if that is as good as the best
 * one. upper.n if no rung is small enough. */
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
 * Whether a kernel ends sooner on n_sms SMs now, behind its coroutine's work there, than on all SMs after the LS
 * requests. Running beside the requests must not make the kernel end later.
 */
static int be_ends_sooner(
        const struct detshare *d, const struct detshare_op_view *op, uint64_t queue_ns, uint32_t n_sms)
{
        return !stair_known(op) || queue_ns + stair_time(op, n_sms, d->n_sms) <=
                                           max_u64(queue_ns, d->left_ns) + stair_time(op, d->n_sms, d->n_sms);
}

/* Time until which the operation at the head of the coroutine's queue may wait for LS, ns. */
static uint64_t be_until(const struct detshare *d, const struct detshare_coroutine_view *coroutine)
{
        return coroutine->head_since_ns + (uint64_t)d->p[P_STARVE] * MS;
}

/* Finds the place of a BE kernel while LS requests run, behind queue_ns of work. Returns 1 and the place; 0 if the
 * kernel must wait. */
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
 * Whether a kernel is launched in an evictable form. An evictable kernel may hold its SMs until it is evicted, so this
 * returns 0 where priority alone lets LS in soon enough.
 */
static uint32_t be_lets_go(const struct detshare *d, const struct detshare_op_view *op, const struct place *place)
{
        if (!be_may_evict(d, op))
                return 0;
        if (d->wet)
                return place->rung || be_rest(d, op) > d->harmless_ns;
        return be_rest(d, op) > d->soon_harmless_ns;
}

/* The rung of a BE kernel that keeps the standing reserve free while no request runs; 0 (the whole GPU) if a reserve
 * is not needed or costs too much. */
static uint32_t be_standing(const struct detshare *d, const struct detshare_op_view *op)
{
        if (d->standing_ns == UINT64_MAX)
                return 0; /* no LS session was active recently */
        if (!d->p[P_STANDING] || be_rest(d, op) <= d->standing_ns || !stair_known(op) || !be_may_divide(d, op))
                return 0;
        for (uint32_t i = stair_at_least(&d->upper, d->n_sms - d->standing_sms); i < d->upper.n; i++)
                if (stair_loss(op, d->upper.n_sms[i], d->n_sms) <= (uint64_t)d->p[P_STANDING])
                        return d->upper.rung[i];
        return 0;
}

/* Whether trials have shown that the session's requests stay within the slack while BE kernels run wherever their
 * prices allow. */
static int ls_bears(const struct detshare *d, const struct ls *ls)
{
        return ls->felt.now == FELT_EBB && felt_keeps(&ls->felt, FELT_EBB, ls_slack_permille(d, ls));
}

/*
 * Whether the next request will probably come within `ns`: true right after a request, because requests often follow
 * closely, and true if `ns` exceeds the usual pauses. In these cases a timer causes a new decision when the length of
 * this pause is better known.
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
 * Finds the place of a BE kernel while no request runs, behind queue_ns of work. Returns 1 and the place; 0 if the
 * kernel must wait. A kernel longer than the pauses gets the place that it would have beside a request.
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

/* Index of the upper rung whose SM count is farthest from those in the kernel's profile; upper.n if the profile is
 * good enough. */
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

/* The rung on which the kernel runs to complete its profile; 0 for none. Only while nothing else is on the GPU,
 * because other work would falsify the sample. */
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

/* Time for which the coroutine's oldest operation on the device has run: since its launch, or since the previous
 * operation of the coroutine ended, ns. */
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
 * Whether the next operation should be sent now. The device reports the end of an operation late if others follow, so
 * an operation whose expected time has passed counts as ended. A limit on this keeps kernels that are slower than
 * expected from piling up on the device.
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

        /* the coroutines of a session follow each other in the snapshot, so the same session is usually looked up
         * again */
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
        /* with more BE sessions than places in the table, sessions replace each other all the time; that is no
         * change of BE */
        crowd = oldest->seen && oldest->seen + 1 >= d->decision;
        *oldest = (struct be){.id = view->id, .device_ns = view->device_ns};
        for (uint32_t i = 0; i < LS_MAX && !crowd; i++) {
                felt_forget(&d->ls[i].felt);
                d->ls[i].mean_beside_ns = 0;
        }
        return oldest;
}

/* Sends the next operations of a BE coroutine shortly before the device needs them. Returns 0 if the decision is
 * full. */
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
 * Whether the coroutine has run for its guaranteed share of the time (`be_floor_permille`) since its last eviction. If
 * not, it must not be evicted yet, and a timer causes a new decision when it has. So BE never starves.
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
 * Whether the coroutine's kernel holds SMs that LS needs, and would hold them for longer than an eviction takes. A
 * kernel that has run for longer than expected is expected to run as long again.
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
 * Whether to evict the coroutine's kernel so that it resumes on all SMs after the LS requests: if the gain exceeds
 * twice the cost. At most once per kernel, because the kernel may return to a part of the SMs for another reason.
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

/* Evicts BE kernels that should run elsewhere: while LS requests run, those that hold SMs of LS; otherwise those
 * that should return to all SMs. */
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
 * Updates the virtual times of the BE sessions. A session that had no work lately, or that waits for LS, is moved up to
 * the others, so no session waits for it. The time of a running operation counts before its end, so the other sessions
 * need not wait for the end of a long kernel.
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
 * Whether the trial of a more generous regime on this request has lasted so long that the result is known. The trial
 * must end then: each of the request's hundreds of kernels may wait for a BE block, and the next request waits for all
 * of them.
 */
static int ls_trial_is_over(struct detshare *d, const struct ls *ls)
{
        uint64_t until = ls->piece_ns + TRIAL_TIMES * max_u64(ls->length_ns, ls->mean_length_ns);

        if (ls->bought)
                until = ls_until(ls);
        else if (ls->regime >= ls->felt.now || !ls->length_ns)
                return 0;
        if (d->now_ns < until)
                wake_at(d, until);
        return d->now_ns >= until;
}

/*
 * The regime that this session requires now; FELT_EBB (no restriction) if no request runs or the request waits for its
 * own host. A regime that is stricter only for a measurement lasts at most `starve_ms`, because the request's end may
 * be far off. When a trial of a more generous regime has ended, the regime in force returns.
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
 * Sets the regime of BE: the strictest that a running request requires. Only sessions that hold BE because they do not
 * know its cost give way to a trial of another session. Otherwise none of several overlapping sessions would ever
 * finish a trial.
 */
static void tide_regime(struct detshare *d)
{
        int trial = 0;

        for (uint32_t i = 0; i < LS_MAX; i++) {
                struct ls *ls = &d->ls[i];

                ls->cut |= ls->open && ls_trial_is_over(d, ls);
                trial |= ls->open && !ls->cut && !ls->bought && ls->regime == FELT_EBB && ls->felt.now == FELT_HELD;
        }
        d->regime = FELT_EBB;
        for (uint32_t i = 0; i < LS_MAX; i++)
                if (!trial || !felt_is_ignorant(&d->ls[i].felt))
                        d->regime = (uint32_t)max_u64(d->regime, ls_regime(d, &d->ls[i]));
        d->part = d->regime == FELT_HELD ? 0 : d->regime;
        d->reserve = (uint32_t)max_u64(d->reserve, d->n_sms - (d->n_sms >> d->part));
}

/* Notes for each LS session whether BE ran beside its request, and under which regime. */
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
