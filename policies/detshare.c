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
 * (`ls_overlap` 0: to the lower rung of its need, where that hurts; 2: to the SMs that BE leaves it by what is felt).
 *
 * While no request is under way but an LS session was active lately (`recent_ms`, or four times the pauses that it
 * makes), one more wait is left: that of a request's first kernel for a BE block. Where that is more than the slack, BE
 * leaves a standing reserve, as large as the need if its kernel loses no more than `standing_permille` by that, else
 * smaller, else none: a kernel that would fall off its stair keeps all SMs.
 *
 * Pauses. A kernel that is likely to be still running when the next request comes (more than `meet_permille` of the
 * pauses that last as long as this one so far are over by then) is not launched on all SMs, where that request would
 * feel it. Requests that queue behind each other come within microseconds, so BE waits out that time after each; in the
 * pauses that are left it runs. What is longer than these will run beside the next request anyway, so it is placed as
 * if that had begun, and requests back to back do not move it to and fro: but not while they queue, and only where the
 * session would be busy for no more than `busy_permille` of its time if all its requests took what those beside BE do.
 * With little time left, and slower than alone, it would never get through its queue; so then BE waits, for `starve_ms`
 * at most. Kernels whose blocks must all be resident are launched in any pause.
 *
 * Parts have a price where the device says so (`mask_permille`): on an H200 every kernel that comes after some have run
 * on a part of the SMs begins later, until the GPU has had another context for a moment (daemon/supervisor/settle.h).
 * So only what takes long is sent to a part: where half of its time is more than what the next few requests lose by
 * that.
 *
 * Bounds. A BE coroutine is given the next operation when what it has on the device is expected to end within
 * `be_ahead_us` (with no LS for a second `be_alone_us`), not earlier, and with LS within its slack: what is queued is
 * a wait of the next request, too. Beside LS, kernels known to be bound by compute or memory have no more blocks
 * resident than the calibration found to keep LS under `interference_permille`; kernels that are not known are not
 * bounded by it. BE sessions are kept within `fair_us` of device time of each other.
 *
 * A kernel whose blocks must all be resident and do not fit what BE may have borrows the whole GPU if every LS request
 * under way would still meet its slack; else it waits, for `starve_ms` at most.
 *
 * Felt. Prices are expectations. A session whose requests take longer beside BE than the slack, as felt.h finds by
 * timing them with and without, has all of BE keep to a half, a quarter or an eighth of the SMs while they run,
 * whichever is the most that they do not feel. Now and then one is tried that is more generous, until its request has
 * taken twice as long as usual. A kernel goes there only if it so ends sooner than on all SMs after the requests. Where
 * they feel even the least, BE is held: no kernel of it is launched, but for what `starve_ms` says.
 *
 * Evicting. A BE kernel of long blocks is asked for in a form that lets go (daemon/sched/forms.h), so that neither a
 * request has to wait for its end nor the SMs have to be kept free for one that may come. When one does, and BE runs
 * where it would not be sent now, it is evicted if its own end is farther off than that costs (`resume_us` and the time
 * that it takes), and goes on from there on the rung that leaves the reserve; and likewise back when the request is
 * over. So that it never starves it runs for
 * `be_floor_permille` of the time since its last eviction before the next one, whatever LS needs.
 *
 * While LS is idle, and where parts have a price there was none lately, a kernel that is well known on few SM counts is
 * now and then sent to a rung where it is not, for its profile, for `explore_permille` of BE's time at most.
 *
 * Several LS sessions: by deadline. The first to be due may have `ls_depth` operations on the device, others
 * `ls_late_depth`.
 *
 * State is bounded: the LS and BE sessions seen last, so many of each; of more the one not seen for longest is learnt
 * anew.
 */
#include "policies/interference.h"
#include "policies/tide.h"

#define DEPTH 256u /* most operations of a BE coroutine on the device */
/* However many streams clients open, there must be room on the device for LS. */
#define BE_MANY 512u            /* BE operations on the device: of each coroutine no more than one then ... */
#define BE_MOST 3072u           /* ... and more go only when some have ended */
#define QUEUED_NS 50000ull      /* requests that follow each other so closely were waiting already */
#define TRIAL_TIMES 2u          /* what a request usually takes, after which a trial of more BE beside it is over */
#define AHEAD_LEAST_NS 20000ull /* of work on the device, so that it is not idle until the next is there */

/* --- launching ---------------------------------------------------------------------------------------------------- */

struct place {
        uint32_t rung, blocks, evictable;
};

/* Adds to the action before where it is the same; 0: no room. */
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

/* Whether LS loses less by a kernel that runs on a part of the GPU than by what is left of it, in the mean, on all. */
static int be_may_divide(const struct detshare *d, const struct detshare_op_view *op)
{
        return !d->mask_ns || !stair_known(op) || stair_time(op, d->n_sms, d->n_sms) / 2 > d->mask_ns;
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

static int be_may_evict(const struct detshare *d, const struct detshare_op_view *op)
{
        return d->p[P_EVICT] && op->evict_ns;
}

/*
 * Whether a kernel ends sooner on so many SMs, behind what its coroutine has there, than on all of them when the
 * requests are over: what it is given beside them must not cost it more after them.
 */
static int be_ends_sooner(
        const struct detshare *d, const struct detshare_op_view *op, uint64_t queue_ns, uint32_t n_sms)
{
        return !stair_known(op) || queue_ns + stair_time(op, n_sms, d->n_sms) <=
                                           max_u64(queue_ns, d->left_ns) + stair_time(op, d->n_sms, d->n_sms);
}

/* Until when the coroutine's head may be made to wait for LS. */
static uint64_t be_until(const struct detshare *d, const struct detshare_coroutine_view *coroutine)
{
        return coroutine->head_since_ns + (uint64_t)d->p[P_STARVE] * MS;
}

/* 1 and where it goes beside LS, behind work of so long; 0: it waits. */
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
 * Whether a kernel is to let go when it is evicted. One that does may hold its SMs until then, so not where priority
 * alone lets LS in soon enough.
 */
static uint32_t be_lets_go(const struct detshare *d, const struct detshare_op_view *op, const struct place *place)
{
        if (!be_may_evict(d, op))
                return 0;
        if (d->wet)
                return place->rung || be_rest(d, op) > d->harmless_ns;
        return be_rest(d, op) > d->soon_harmless_ns;
}

/* The rung that leaves a standing reserve; 0: not worth it, or needless. */
static uint32_t be_standing(const struct detshare *d, const struct detshare_op_view *op)
{
        if (d->standing_ns == UINT64_MAX)
                return 0; /* there was no LS lately */
        if (!d->p[P_STANDING] || be_rest(d, op) <= d->standing_ns || !stair_known(op) || !be_may_divide(d, op))
                return 0;
        for (uint32_t i = stair_at_least(&d->upper, d->n_sms - d->standing_sms); i < d->upper.n; i++)
                if (stair_loss(op, d->upper.n_sms[i], d->n_sms) <= (uint64_t)d->p[P_STANDING])
                        return d->upper.rung[i];
        return 0;
}

/* Whether its requests are known to be well with BE beside them, wherever the prices send it. */
static int ls_bears(const struct detshare *d, const struct ls *ls)
{
        return ls->felt.now == FELT_EBB && felt_keeps(&ls->felt, FELT_EBB, ls_slack_permille(d, ls));
}

/*
 * Whether the next request is likely to come while something runs that ends after so long: at once after a request,
 * where they often follow each other closely, and where that is longer than pauses are. Then it is to be looked at
 * again when more is known of this pause.
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
 * 1 and where a kernel goes, behind work of so long, while no request is under way; 0: it waits. One that takes longer
 * than pauses do goes where it would go if the next request had begun.
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

        /* a session's coroutines come one behind the other */
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
        /* of more sessions than have a place each comes anew all the time, and is no other BE for that */
        crowd = oldest->seen && oldest->seen + 1 >= d->decision;
        *oldest = (struct be){.id = view->id, .device_ns = view->device_ns};
        for (uint32_t i = 0; i < LS_MAX && !crowd; i++) {
                felt_forget(&d->ls[i].felt);
                d->ls[i].mean_beside_ns = 0;
        }
        return oldest;
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

/* --- evicting ----------------------------------------------------------------------------------------------------- */

/*
 * BE never starves: between two evictions of a coroutine it runs for a share of the time, whatever LS needs. Where it
 * has not, the policy looks again when it will have.
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
 * Whether LS would wait longer for the coroutine's work to end than an eviction takes, on SMs that it needs. Of what
 * has run for longer than expected as much again is expected.
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
 * LS is done, and the coroutine's work is where it had to give way to it: whether moving it back wins more than twice
 * what that costs. Once: it may have reasons to be there.
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

/* What goes on later: beside LS, or when LS is done on all SMs. */
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
 * Virtual times; who has had nothing to do lately begins where the others are, and so does who waits for LS: nobody
 * waits for it. What runs counts already: others do not wait for the end of a long kernel.
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
 * Whether the trial of a more generous regime has gone on for so long that it is known how it ends: each of hundreds of
 * kernels may be waiting for a block, and who comes behind this request for all of them.
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
 * The regime that a request under way asks for, as long as it is not its own host that it waits for. One that is
 * stricter for the measure alone is so for `starve_ms` at most: its next end may be a long way off. After a trial of a
 * more generous one that is over it is the one in force.
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
 * The strictest regime of the requests under way is in force. Only those of sessions that do not know what BE costs,
 * but hold it all the same, give way to one that finds out: else none of several that overlap ever would.
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

/* Who had BE beside it, and under which regime. */
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
