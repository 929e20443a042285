/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/requests.h"

#include "policies/detshare/kept.h"
#include "policies/detshare/mean.h"

/* each full multiple of this in an LS operation's duration counts as one more delay by BE, ns */
#define DELAY_NS 10000ull
/* latencies of an LS kernel this close count as its best one, permille: they vary by as much from run to run */
#define LS_TOLERANCE 50u
#define NEED_PERCENT 90u /* quantile of the SM counts that a session needed, weighted by time, percent */
/* A session's queue must be empty for this quantile of its gaps inside requests before its request counts as ended. */
#define HOLD_PERCENT 95u
#define HOLD_FIRST_NS (100 * US) /* the same while no gaps are known, ns */
#define HOLD_LEAST_NS (10 * US)  /* the same at least, ns: a client needs some us from one launch to the next */
#define HOLD_MOST_NS MS          /* longer gaps lie between requests, ns */
/* longest time without a request after which the session counts as gone, ns */
#define RECENT_NS (1000 * MS)
#define RECENT_PERCENT 99u /* quantile of a session's pauses that counts as its long pause, percent */
#define RECENT_TIMES 4u    /* a session idle for this many long pauses counts as gone */
/* One of this many requests beside which the budget allows BE has no more of it than without an objective. */
#define BUY_NOT 64u
#define BUY_LEAST_PART 12u /* the budget allows BE beside a request only for more than this part of its length */
/* Sessions whose requests take at least this part of the time share SMs in different ways, permille. Other sessions leave
 * all SMs to BE in their pauses, and a change between all SMs and a part of them costs requests 10%. */
#define WAYS_BUSY_PERMILLE 750u
#define WAYS_STILL_PERMILLE 700u       /* the same for a session that did so until now */
#define SLACK_MOST_NS (UINT64_MAX / 4) /* objectives may be any number, and other times are added to the slack */
/* requests of a busy session that pay for one BE kernel on a part of the GPU, at least: those until the GPU switches
 * to another context */
#define MASK_REQUESTS 4u

uint32_t ls_need(const struct detshare *d, const struct detshare_op_view *op)
{
        return stair_need(op, d->n_sms, LS_TOLERANCE);
}

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

uint32_t needs_quantile(const struct detshare *d, const struct ls *ls)
{
        uint64_t sum = 0, all = 0;
        uint32_t bucket = 0;

        for (uint32_t i = 0; i < NEEDS; i++)
                all += ls->needs[i];
        if (!all)
                return 0;
        for (; bucket < NEEDS - 1; bucket++) {
                sum += ls->needs[bucket];
                if (sum * 100 >= all * NEED_PERCENT)
                        break;
        }
        return (bucket + 1) * d->n_sms / NEEDS;
}

struct ls *ls_find(struct detshare *d, uint64_t id, int make)
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
static uint64_t ls_hold(const struct detshare *d, const struct ls *ls)
{
        uint64_t hold = gaps_quantile(&ls->inside, HOLD_PERCENT);

        if (hold == UINT64_MAX)
                return HOLD_FIRST_NS;
        return min_u64(max_u64(hold, HOLD_LEAST_NS), HOLD_MOST_NS);
}

uint64_t ls_slack(const struct detshare *d, const struct ls *ls)
{
        if (!ls->length_ns)
                return 0;
        if (ls_buys(ls))
                return min_u64(ls->slo_ns - ls->length_ns, SLACK_MOST_NS);
        return ls->length_ns / 1000 * (uint64_t)d->p[P_SLACK];
}

uint64_t ls_slack_permille(const struct detshare *d, const struct ls *ls)
{
        return ls->length_ns ? ls_slack(d, ls) / (ls->length_ns / 1000 + 1) : 0;
}

int ls_buys(const struct ls *ls)
{
        return ls->open && ls->bought && !ls->cut && ls->slo_ns > ls->length_ns;
}

uint64_t ls_until(const struct ls *ls)
{
        const uint64_t may = ls->slo_ns ? budget_until(&ls->budget, ls->slo_ns) : 0;

        return may ? ls->begin_ns + min_u64(sharing_time(&ls->sharing, ls->sharing.now, may), UINT64_MAX - ls->begin_ns)
                   : 0;
}

int ls_is_spent(const struct ls *ls)
{
        return ls->slo_ns && budget_is_spent(&ls->budget);
}

int ls_bears(const struct detshare *d, const struct ls *ls)
{
        return ls->felt.now == FELT_EBB && felt_keeps(&ls->felt, ls_slack_permille(d, ls));
}

uint64_t ls_mask_ns(const struct detshare *d, const struct ls *ls)
{
        return ls->length_ns / 1000 * d->mask_permille * MASK_REQUESTS;
}

int ls_is_expected(const struct detshare *d, const struct ls *ls)
{
        uint64_t idle = gaps_quantile(&ls->between, RECENT_PERCENT), recent = RECENT_NS;

        if (idle < recent / RECENT_TIMES)
                recent = idle * RECENT_TIMES;
        return ls->length_ns && d->now_ns - ls->active_ns <= recent;
}

int ls_stalls(struct detshare *d, const struct ls *ls)
{
        const uint64_t until = ls->works_ns + ls_hold(d, ls);

        if (ls->works_ns != d->now_ns && d->now_ns < until)
                wake_at(d, until);
        return d->now_ns >= until;
}

void ls_felt(struct ls *ls, uint64_t end_ns)
{
        const uint64_t ns = end_ns - ls->piece_ns;

        if (ls->bought || !ls->operations || (ls->mixed && ls->beside))
                return;
        if (!ls->cut || !ls->beside || felt_is_bad(&ls->felt, ns, ls->operations))
                felt_learn(&ls->felt, ls->beside ? ls->regime : FELT_HELD, ns, ls->operations);
}

void ls_learn_length(struct ls *ls, uint64_t length)
{
        const uint64_t alone = ls->free_ns && ls->empty_ns > ls->free_ns ? ls->empty_ns - ls->free_ns : 0;

        if (!ls->length_ns || length < ls->length_ns)
                learn_low(&ls->length_ns, length);
        else if (alone > ls->length_ns)
                learn_low(&ls->length_ns, alone);
}

/* Learns from a request beside which the objective allowed BE. */
static void ls_learn_sharing(const struct detshare *d, struct ls *ls, uint64_t length)
{
        const int left = ls->free_ns && ls->free_ns != CAME_BACK;

        if (!ls->bought)
                sharing_learn_without(&ls->sharing, d->be_work_ns);
        else if (ls->budget.samples && ls->accompanied && !ls->other_way)
                sharing_learn(&ls->sharing, length, ls->cut_ns ? ls->cut_ns - ls->begin_ns : length,
                        left ? ls->free_ns - ls->begin_ns : length, ls->budget.mean_ns,
                        left ? ls->free_work_ns : d->be_work_ns);
        kept_write(d, ls);
}

static void ls_close(const struct detshare *d, struct ls *ls)
{
        const uint64_t length = max_u64(ls->empty_ns - ls->begin_ns, 1);

        if (ls->slo_ns)
                budget_end(&ls->budget, length, ls->bought || ls->tried, ls->slo_ns, number(d, P_ATTAIN));
        ls_learn_sharing(d, ls, length);
        ls->open = 0;
        if (!ls->gapped)
                gaps_learn(&ls->inside, 0);
        ls_learn_length(ls, length);
        learn_slowly(&ls->mean_length_ns, length);
        if (ls->accompanied)
                learn_slowly(&ls->mean_beside_ns, length);
        ls_felt(ls, ls->empty_ns);
        learn_mean(&ls->mean_delays, ls->delays);
        learn_mean(&ls->mean_gap, ls->idle_ns / (ls->delays ? ls->delays : 1));
}

/* Begins a new piece of the running request; each piece is measured by itself. */
static void ls_piece(const struct detshare *d, struct ls *ls)
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
                ls->regime = felt_choose(&ls->felt, ls_slack_permille(d, ls), (uint32_t)max_u64(d->ls_recent, 1));
        if (ls_is_spent(ls))
                ls->regime = FELT_HELD;
        ls->tried |= ls->regime < ls->felt.now;
}

/* Decides whether the session's requests take most of the time. Those beside which an objective allowed BE do not count,
 * because they are longer and the pauses after them shorter. */
static void ls_learn_pauses(struct ls *ls)
{
        const uint64_t length_ns = ls->budget.samples ? ls->budget.mean_ns : ls->mean_length_ns;
        const uint64_t busy = length_ns * 1000 / (length_ns + ls->idle_after_ns + 1);

        ls->never_pauses = busy >= (ls->never_pauses ? WAYS_STILL_PERMILLE : WAYS_BUSY_PERMILLE);
}

int ls_may_share(const struct ls *ls)
{
        return !ls_is_spent(ls) && budget_until(&ls->budget, ls->slo_ns);
}

uint32_t ls_ways(const struct detshare *d, const struct ls *ls)
{
        return ls->never_pauses && d->ls_recent <= 1 ? d->n_ways : 1;
}

/* Whether the way chosen for the request gains BE so much that it is worth a longer request. To measure a way, less will
 * do. */
static int ls_gains(const struct ls *ls, uint64_t may_ns, uint32_t n_ways)
{
        const uint32_t now = ls->sharing.now;
        const int measures = n_ways > 1 && !sharing_is_known(&ls->sharing.way[now]);

        return sharing_time(&ls->sharing, now, may_ns) >
               ls->length_ns / (measures ? SHARING_LEAST_PART : BUY_LEAST_PART);
}

/*
 * Decides whether the objective's budget allows BE beside the request that begins now. Two kinds of requests have what
 * they would have without an objective: those that measure the cost of BE, and one in BUY_NOT, to learn how long such a
 * request takes.
 */
static void ls_buy(const struct detshare *d, struct ls *ls)
{
        const uint64_t may_ns = ls->slo_ns ? budget_until(&ls->budget, ls->slo_ns) : 0;
        const uint32_t turn = ls->n_bought, n_ways = ls_ways(d, ls);

        if (ls->slo_ns && ls->budget.samples)
                kept_recall(d, ls);
        if (!may_ns)
                return;
        sharing_choose(&ls->sharing, n_ways, may_ns, ls->length_ns, ls->mean_idle_ns);
        if (!ls_gains(ls, may_ns, n_ways) || ls->n_bought++ % BUY_NOT == 0 ||
                (!sharing_pays(&ls->sharing, ls->sharing.now) && turn % BUY_NOT != BUY_NOT / 2) ||
                (d->p[P_FEEL] &&
                        felt_measures(&ls->felt, ls_slack_permille(d, ls), (uint32_t)max_u64(d->ls_recent, 1)))) {
                sharing_begin(&ls->sharing, d->be_work_ns);
                return;
        }
        ls->bought = 1;
        ls->regime = FELT_EBB;
}

/* Begins a request, gap_ns after the end of the session's last one. */
static void ls_open(struct detshare *d, struct ls *ls, uint64_t gap_ns)
{
        if (ls->begin_ns) {
                learn_low(&ls->idle_between_ns, max_u64(gap_ns, 1));
                learn_slowly(&ls->mean_idle_ns, max_u64(gap_ns, 1));
                gaps_learn(&ls->between, gap_ns);
                if (!ls->bought)
                        learn_slowly(&ls->idle_after_ns, max_u64(gap_ns, 1));
                ls_learn_pauses(ls);
        }
        if (ls->slo_ns)
                budget_begin(&ls->budget, &(struct waits_step){d->now_ns - ls->begin_ns, gap_ns, ls->bought},
                        ls->counted, ls->slo_ns);
        ls->open = 1;
        positions_begin(&ls->positions);
        ls->begin_ns = d->now_ns;
        ls->gapped = 0;
        ls->delays = ls->idle_ns = 0;
        ls->free_ns = 0;
        ls->bought = ls->accompanied = ls->tried = ls->other_way = 0;
        ls->cut_ns = 0;
        sharing_begin(&ls->sharing, d->be_work_ns);
        ls_piece(d, ls);
        ls_buy(d, ls);
}

/* Updates the session when it gets work again after having none. */
static void ls_wake(struct detshare *d, struct ls *ls)
{
        uint64_t gap = d->now_ns - ls->empty_ns;

        if (ls->begin_ns && !ls->synchronised && gap <= HOLD_MOST_NS)
                gaps_learn(&ls->inside, gap);
        if (ls->open) {
                ls->gapped = 1;
                positions_learn(&ls->positions, gap);
                ls->idle_ns = (uint32_t)min_u64(ls->idle_ns + gap, UINT32_MAX);
        } else {
                ls_open(d, ls, gap);
        }
        ls->busy = 1;
        ls->works_ns = d->now_ns;
        ls->synchronised = 0;
}

void ls_look(struct detshare *d, struct ls *ls, const struct detshare_session_view *view)
{
        int busy = view && view->request_active;

        if (view) {
                ls->seen = d->decision;
                /* until a request is closed its objective counts, which may be another than that of the next one */
                ls->uid = view->uid;
                if (busy || !ls->open) {
                        ls->slo_ns = view->slo_ns;
                        ls->counted = view->counted != 0;
                }
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

int ls_all_gapped(const struct detshare *d, uint64_t ns)
{
        for (uint32_t i = 0; i < LS_MAX; i++) {
                const struct ls *ls = &d->ls[i];

                if (ls->seen && ls->open && (ls->busy || positions_left(&ls->positions, d->now_ns - ls->empty_ns) < ns))
                        return 0;
        }
        return 1;
}

void ls_count(struct detshare *d, const struct detshare_snapshot *snapshot)
{
        struct ls *ls;

        if (snapshot->event != DETSHARE_EVENT_COMPLETE || snapshot->event_session >= snapshot->n_sessions ||
                snapshot->sessions[snapshot->event_session].class_ != DETSHARE_CLASS_LS)
                return;
        ls = ls_find(d, snapshot->sessions[snapshot->event_session].id, 0);
        if (!ls)
                return;
        ls->operations++;
        positions_count(&ls->positions);
        sketch_add(&ls->kernels, &snapshot->event_op);
}

void ls_complete(struct detshare *d, const struct detshare_snapshot *snapshot)
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
                d->be_work_ns += stair_known(op) ? stair_time(op, d->n_sms, d->n_sms) : ns;
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
        needs_learn(d, ls, ls_need(d, op), ns);
}
