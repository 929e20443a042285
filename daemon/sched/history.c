/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charges every nanosecond of a request once
 */
#include "sched/history.h"

#include <assert.h>
#include <string.h>

#include "sched/internal.h"
#include "util/alloc.h"
#include "util/macro.h"

#define LOOK_COROUTINES 64u /* coroutines that the search for work on the device examines */
#define LOOK_SESSIONS 8u    /* sessions to which one wait is charged at most */
#define BUSY_JOIN 4u        /* number of the newest stretches that the next operation may extend */
#define BUSY_GAP_NS 5000u   /* longest gap between two operations of one stretch, ns */

/* A time charged as waiting. It is kept because later completions may turn it into running. */
struct wait {
        uint64_t begin_ns, end_ns, session;
        uint32_t rung;
        enum ds_history_part part;
};

struct window {
        struct ds_histogram latency;
        uint64_t judged, met; /* requests that had an objective, and those of them that met it */
};

struct ds_history_session {
        int active, idle; /* active: a request has begun; idle: it has no work left, but its client may continue it */
        uint64_t cursor_ns;
        struct ds_history_request current;
        struct wait waits[DS_HISTORY_WAITS];
        uint32_t n_waits;             /* number of waits since the request began */
        enum ds_history_part op_part; /* waiting before the current operation: the part with the most of it */
        uint64_t op_ns, op_behind;

        struct ds_history_request last[DS_HISTORY_REQUESTS];
        uint64_t n_requests;
        uint64_t shares[DS_HISTORY_SHARES], share_bucket;
        uint32_t rung;            /* rung of the session's last work */
        struct window windows[2]; /* statistics of requests by window; [0] is the current, incomplete window */
        uint64_t window_ns;       /* begin of the current window */
};

/* A session that may have delayed another, and for how long it was on the device meanwhile. */
struct suspect {
        uint64_t session, ns;
        uint32_t uid, rung;
};

struct suspects {
        struct suspect of[LOOK_SESSIONS];
        uint32_t n;
};

static uint64_t overlap(uint64_t a_begin, uint64_t a_end, uint64_t b_begin, uint64_t b_end)
{
        uint64_t begin = DS_MAX(a_begin, b_begin), end = DS_MIN(a_end, b_end);

        return end > begin ? end - begin : 0;
}

/* --- share of the last second in which the session's work ran ----------------------------------------------------- */

static void share_turn(struct ds_history_session *history, uint64_t bucket)
{
        uint64_t first = history->share_bucket + 1;

        if (bucket <= history->share_bucket)
                return;
        if (bucket - history->share_bucket > DS_HISTORY_SHARES)
                first = bucket - DS_HISTORY_SHARES + 1;
        for (; first <= bucket; first++)
                history->shares[first % DS_HISTORY_SHARES] = 0;
        history->share_bucket = bucket;
}

static void share_add(struct ds_history_session *history, uint64_t begin_ns, uint64_t end_ns)
{
        const uint64_t most = (uint64_t)DS_HISTORY_SHARES << DS_HISTORY_SHARE_BITS;

        if (end_ns - begin_ns > most)
                begin_ns = end_ns - most;
        while (begin_ns < end_ns) {
                uint64_t bucket = begin_ns >> DS_HISTORY_SHARE_BITS;
                uint64_t end = DS_MIN(end_ns, (bucket + 1) << DS_HISTORY_SHARE_BITS);

                share_turn(history, bucket);
                if (bucket + DS_HISTORY_SHARES > history->share_bucket)
                        history->shares[bucket % DS_HISTORY_SHARES] += end - begin_ns;
                begin_ns = end;
        }
}

/* Earliest time at which the session's work in flight may have started; UINT64_MAX: none is in flight. */
static uint64_t runs_since(const ds_sched_session *session)
{
        const ds_coroutine *coroutine;
        uint64_t since = UINT64_MAX;

        for (coroutine = session->n_in_flight ? session->coroutines : NULL; coroutine; coroutine = coroutine->next)
                if (coroutine->n_in_flight)
                        since = DS_MIN(since, DS_MAX(coroutine->first->launched_ns, coroutine->last_end_ns));
        return since;
}

static uint32_t share_permille(ds_sched_session *session, uint64_t now_ns)
{
        struct ds_history_session *history = session->history;
        uint64_t since = runs_since(session), sum = 0;
        uint64_t window = ((uint64_t)(DS_HISTORY_SHARES - 1) << DS_HISTORY_SHARE_BITS) +
                          (now_ns & ((1ULL << DS_HISTORY_SHARE_BITS) - 1));

        window = DS_MAX(DS_MIN(window, now_ns), (uint64_t)1);
        share_turn(history, now_ns >> DS_HISTORY_SHARE_BITS);
        for (uint32_t i = 0; i < DS_HISTORY_SHARES; i++)
                sum += history->shares[i];
        if (since != UINT64_MAX && DS_MAX(since, history->cursor_ns) < now_ns)
                sum += now_ns - DS_MAX(since, history->cursor_ns);
        return (uint32_t)DS_MIN(sum * 1000 / window, (uint64_t)1000);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static void window_turn(struct ds_history_session *history, uint64_t now_ns)
{
        if (now_ns < history->window_ns + DS_HISTORY_WINDOW_NS)
                return;
        if (now_ns < history->window_ns + 2 * DS_HISTORY_WINDOW_NS)
                history->windows[1] = history->windows[0];
        else
                memset(&history->windows[1], 0, sizeof(history->windows[1]));
        memset(&history->windows[0], 0, sizeof(history->windows[0]));
        history->window_ns = now_ns;
}

static void request_begin(ds_sched_session *session, uint64_t now_ns)
{
        struct ds_history_session *history = session->history;

        history->active = 1;
        history->idle = 0;
        history->n_waits = 0;
        history->cursor_ns = now_ns;
        history->current = (struct ds_history_request){.begin_ns = now_ns, .end_ns = now_ns};
        ds_objective_begin(session, now_ns);
}

static void request_end(ds_sched_session *session)
{
        struct ds_history_session *history = session->history;
        struct ds_history_request *request = &history->current;
        uint64_t ns = request->end_ns - request->begin_ns,
                 deadline_ns = ds_objective_deadline(session, request->begin_ns);

        window_turn(history, request->end_ns);
        ds_histogram_add(&history->windows[0].latency, ns);
        if (deadline_ns != UINT64_MAX) {
                history->windows[0].judged++;
                history->windows[0].met += request->end_ns <= deadline_ns;
        }
        history->last[history->n_requests++ % DS_HISTORY_REQUESTS] = *request;
        history->active = history->idle = 0;
        ds_objective_end(session, request->begin_ns, request->end_ns);
        ds_trace_request(session, request->begin_ns, request->end_ns);
}

void ds_history_objective_changed(ds_sched_session *session)
{
        struct ds_history_session *history = session->history;

        for (int i = 0; history && i < 2; i++)
                history->windows[i].judged = history->windows[i].met = 0;
}

/* Ends a request that is idle if its client has not continued it in time. */
static void request_settle(ds_sched_session *session, uint64_t now_ns)
{
        const struct ds_history_session *history = session->history;

        if (history->active && history->idle && now_ns > history->current.end_ns + DS_HISTORY_GAP_NS)
                request_end(session);
}

static struct ds_history_rung *request_rung(ds_sched_session *session, uint32_t rung)
{
        struct ds_history_request *request = &session->history->current;
        uint32_t i;

        for (i = 0; i < request->n_rungs; i++)
                if (request->rungs[i].rung == rung)
                        return &request->rungs[i];
        if (i == DS_HISTORY_RUNGS)
                return NULL;
        request->n_rungs++;
        request->rungs[i] = (struct ds_history_rung){.rung = rung, .n_sms = session->sched->ladder.views[rung].n_sms};
        return &request->rungs[i];
}

static struct ds_history_blocker *request_blocker(struct ds_history_request *request, uint64_t session)
{
        for (uint32_t i = 0; i < request->n_blockers; i++)
                if (request->blockers[i].session == session)
                        return &request->blockers[i];
        return NULL;
}

static void blocker_add(struct ds_history_request *request, const struct suspect *suspect, uint64_t ns)
{
        struct ds_history_blocker *blocker = request_blocker(request, suspect->session);

        if (!blocker && request->n_blockers < DS_HISTORY_BLOCKERS) {
                blocker = &request->blockers[request->n_blockers++];
                *blocker = (struct ds_history_blocker){.session = suspect->session, .uid = suspect->uid};
        }
        if (!blocker)
                return;
        blocker->rung = suspect->rung;
        blocker->ns += ns;
        for (; blocker > request->blockers && blocker[-1].ns < blocker->ns; blocker--) {
                struct ds_history_blocker other = blocker[-1];

                blocker[-1] = *blocker;
                *blocker = other;
        }
}

/* --- charging ----------------------------------------------------------------------------------------------------- */

/* Charges the next ns from the cursor on as waiting, and advances the cursor. rung: the rung that the work waited
 * for; DETSHARE_RUNG_NONE: it did not wait for a rung. */
static void charge_wait(
        ds_sched_session *session, enum ds_history_part part, uint64_t ns, uint32_t rung, const struct suspect *suspect)
{
        struct ds_history_session *history = session->history;
        struct ds_history_rung *waited;

        if (!ns)
                return;
        history->waits[history->n_waits++ % DS_HISTORY_WAITS] = (struct wait){
                .begin_ns = history->cursor_ns,
                .end_ns = history->cursor_ns + ns,
                .session = suspect ? suspect->session : 0,
                .rung = rung,
                .part = part,
        };
        history->cursor_ns += ns;
        history->current.ns[part] += ns;
        waited = rung == DETSHARE_RUNG_NONE ? NULL : request_rung(session, rung);
        if (waited)
                waited->wait_ns += ns;
        if (suspect)
                blocker_add(&history->current, suspect, ns);
        if (ns <= history->op_ns)
                return;
        history->op_ns = ns;
        history->op_part = part;
        history->op_behind = suspect ? suspect->session : 0;
}

static void charge_run(ds_sched_session *session, uint64_t begin_ns, uint64_t end_ns, uint32_t rung)
{
        struct ds_history_rung *ran = request_rung(session, rung);

        session->history->current.ns[DS_HISTORY_RUNNING] += end_ns - begin_ns;
        session->history->rung = rung;
        if (ran)
                ran->run_ns += end_ns - begin_ns;
        share_add(session->history, begin_ns, end_ns);
}

static void wait_take_back(ds_sched_session *session, const struct wait *wait, uint64_t ns)
{
        struct ds_history_request *request = &session->history->current;
        struct ds_history_blocker *blocker = wait->session ? request_blocker(request, wait->session) : NULL;
        struct ds_history_rung *waited = wait->rung == DETSHARE_RUNG_NONE ? NULL : request_rung(session, wait->rung);

        request->ns[wait->part] -= ns;
        if (blocker)
                blocker->ns -= DS_MIN(blocker->ns, ns);
        if (waited)
                waited->wait_ns -= DS_MIN(waited->wait_ns, ns);
}

/* Charges a time before the cursor in which work of the session ran: time that was charged as waiting becomes
 * running. */
static void recharge(ds_sched_session *session, uint64_t begin_ns, uint64_t end_ns, uint32_t rung)
{
        struct ds_history_session *history = session->history;
        uint32_t n = DS_MIN(history->n_waits, DS_HISTORY_WAITS);

        for (uint32_t i = 1; i <= n; i++) {
                struct wait *wait = &history->waits[(history->n_waits - i) % DS_HISTORY_WAITS];
                uint64_t from = DS_MAX(begin_ns, wait->begin_ns), to = DS_MIN(end_ns, wait->end_ns);

                if (wait->end_ns <= begin_ns)
                        break;
                if (from >= to)
                        continue;
                wait_take_back(session, wait, to - from);
                charge_run(session, from, to, rung);
                /* the rest of the wait, before `from` or else behind `to`, can still become running */
                if (from > wait->begin_ns)
                        wait->end_ns = from;
                else
                        wait->begin_ns = to;
        }
}

/* --- sessions that caused a wait ---------------------------------------------------------------------------------- */

static void suspect_add(struct suspects *suspects, const struct suspect *suspect)
{
        for (uint32_t i = 0; i < suspects->n; i++) {
                if (suspects->of[i].session != suspect->session)
                        continue;
                suspects->of[i].ns += suspect->ns;
                return;
        }
        if (suspects->n < LOOK_SESSIONS)
                suspects->of[suspects->n++] = *suspect;
}

static int rungs_meet(const ds_sched *sched, uint32_t a, uint32_t b)
{
        const struct detshare_rung_view *x = &sched->ladder.views[a], *y = &sched->ladder.views[b];

        return ((x->tpcs[0] & y->tpcs[0]) | (x->tpcs[1] & y->tpcs[1])) != 0;
}

/* Collects other sessions that had work on the device in this time. rung: only work on TPCs of this rung;
 * DETSHARE_RUNG_NONE: all work. */
static void suspects_gather(
        const ds_sched_session *session, uint64_t begin_ns, uint64_t end_ns, uint32_t rung, struct suspects *suspects)
{
        const ds_sched *sched = session->sched;
        const struct ds_history *all = &sched->history;
        uint32_t n_busy = DS_MIN(all->n_busy, DS_HISTORY_BUSY);
        uint32_t n_coroutines = DS_MIN(sched->snapshot.n_coroutines, LOOK_COROUTINES);
        struct suspect suspect;

        suspects->n = 0;
        for (uint32_t i = 0; i < n_busy; i++) {
                const struct ds_history_busy *busy = &all->busy[i];

                suspect = (struct suspect){.session = busy->session, .uid = busy->uid, .rung = busy->rung};
                suspect.ns = overlap(begin_ns, end_ns, busy->start_ns, busy->end_ns);
                if (suspect.ns && busy->session != session->config.id &&
                        (rung == DETSHARE_RUNG_NONE || rungs_meet(sched, rung, busy->rung)))
                        suspect_add(suspects, &suspect);
        }
        for (uint32_t i = 0; i < n_coroutines; i++) {
                const ds_coroutine *coroutine = sched->snapshot.coroutines[i];

                if (!coroutine->n_in_flight || coroutine->session == session)
                        continue;
                suspect = (struct suspect){.session = coroutine->session->config.id,
                        .uid = coroutine->session->config.uid,
                        .rung = coroutine->rung};
                suspect.ns = overlap(
                        begin_ns, end_ns, DS_MAX(coroutine->first->launched_ns, coroutine->last_end_ns), UINT64_MAX);
                if (suspect.ns && (rung == DETSHARE_RUNG_NONE || rungs_meet(sched, rung, coroutine->rung)))
                        suspect_add(suspects, &suspect);
        }
}

/* Charges a wait of ns from the cursor on to the sessions that caused it. rung: the rung that the work waited for.
 * The time that no session explains is charged to `part`. */
static void charge_behind(ds_sched_session *session, uint64_t ns, uint32_t rung, enum ds_history_part part)
{
        uint64_t begin_ns = session->history->cursor_ns;
        struct suspects suspects = {.n = 0};

        if (ns >= DS_HISTORY_LOOK_NS)
                suspects_gather(session, begin_ns, begin_ns + ns, part == DS_HISTORY_DEVICE ? rung : DETSHARE_RUNG_NONE,
                        &suspects);
        while (ns) {
                struct suspect *most = NULL;
                uint64_t some;

                for (uint32_t i = 0; i < suspects.n; i++)
                        if (suspects.of[i].ns && (!most || suspects.of[i].ns > most->ns))
                                most = &suspects.of[i];
                if (!most)
                        break;
                some = DS_MIN(ns, most->ns);
                charge_wait(session, DS_HISTORY_BEHIND, some, rung, most);
                ns -= some;
                most->ns = 0;
        }
        charge_wait(session, part, ns, rung, NULL);
}

static uint64_t held_ns(const ds_sched_session *session, uint64_t begin_ns, uint64_t end_ns)
{
        const struct ds_history *all = &session->sched->history;
        uint64_t sum = 0;

        for (uint32_t i = 1; i <= DS_MIN(all->n_holds, DS_HISTORY_HOLDS); i++) {
                const struct ds_history_hold *hold = &all->holds[(all->n_holds - i) % DS_HISTORY_HOLDS];

                if (hold->end_ns <= begin_ns)
                        break;
                if (hold->classes >> session->config.class_ & 1)
                        sum += overlap(begin_ns, end_ns, hold->begin_ns, hold->end_ns);
        }
        return sum;
}

/* Charges the time from the cursor to to_ns as waiting of work that was ready but not launched. */
static void charge_unlaunched(ds_sched_session *session, uint64_t to_ns, uint32_t rung)
{
        struct ds_history_session *history = session->history;
        uint64_t held;

        if (to_ns <= history->cursor_ns)
                return;
        held = held_ns(session, history->cursor_ns, to_ns);
        charge_wait(session, DS_HISTORY_HELD, held, rung, NULL);
        charge_behind(session, to_ns - history->cursor_ns, rung, DS_HISTORY_POLICY);
}

static void charge_until(ds_sched_session *session, uint64_t to_ns, enum ds_history_part part)
{
        if (to_ns > session->history->cursor_ns)
                charge_wait(session, part, to_ns - session->history->cursor_ns, DETSHARE_RUNG_NONE, NULL);
}

/* Charges the time from the cursor to the start (start_ns) of an operation. */
static void charge_before(ds_sched_session *session, const struct ds_op *op, uint64_t start_ns, uint32_t rung)
{
        struct ds_history_session *history = session->history;

        history->op_ns = 0;
        if (start_ns <= history->cursor_ns)
                return;
        /* until this operation was submitted, the work of another stream was queued and not running */
        if (session->n_active > 1)
                charge_unlaunched(session, DS_MIN(op->submitted_ns, start_ns), rung);
        charge_until(session, DS_MIN(op->submitted_ns, start_ns), DS_HISTORY_HOST);
        charge_until(session, DS_MIN(op->ready_ns, start_ns), DS_HISTORY_DEPENDS);
        charge_unlaunched(session, DS_MIN(op->launched_ns, start_ns), rung);
        if (start_ns > history->cursor_ns)
                charge_behind(session, start_ns - history->cursor_ns, rung, DS_HISTORY_DEVICE);
}

static void busy_add(struct ds_history *all, const struct ds_history_busy *busy)
{
        for (uint32_t i = 1; i <= DS_MIN(all->n_busy, BUSY_JOIN); i++) {
                struct ds_history_busy *last = &all->busy[(all->n_busy - i) % DS_HISTORY_BUSY];

                if (last->session != busy->session || last->rung != busy->rung)
                        continue;
                if (busy->start_ns > last->end_ns + BUSY_GAP_NS || busy->end_ns < last->start_ns)
                        break;
                last->start_ns = DS_MIN(last->start_ns, busy->start_ns);
                last->end_ns = DS_MAX(last->end_ns, busy->end_ns);
                return;
        }
        all->busy[all->n_busy % DS_HISTORY_BUSY] = *busy;
        all->n_busy = all->n_busy + 1 < 2 * DS_HISTORY_BUSY ? all->n_busy + 1 : all->n_busy + 1 - DS_HISTORY_BUSY;
}

/* --- hooks -------------------------------------------------------------------------------------------------------- */

void ds_history_submit(ds_sched_session *session, uint64_t now_ns)
{
        struct ds_history_session *history = session->history;

        if (history && history->active && !history->idle)
                return;
        if (!history)
                history = session->history = ds_alloc0(1, sizeof(*session->history));
        if (!history)
                return; /* out of memory: this request is not recorded */
        request_settle(session, now_ns);
        if (!history->active) {
                request_begin(session, now_ns);
                return;
        }
        history->idle = 0;
        charge_until(session, now_ns, DS_HISTORY_HOST);
}

void ds_history_launch(
        ds_coroutine *coroutine, struct ds_op *op, struct ds_slot *slot, const struct ds_launch_target *target)
{
        struct ds_history_session *history = coroutine->session->history;
        uint32_t from = coroutine->rung;

        op->ready_ns = DS_MAX(coroutine->head_since_ns, op->submitted_ns);
        slot->priority = target->priority;
        slot->flags = 0;
        if (slot->rung != target->rung)
                slot->flags = slot->rung ? DS_TRACE_CAPPED : DS_TRACE_LOAN;
        if (coroutine->n_in_flight && coroutine->stream != slot->stream)
                slot->flags |= DS_TRACE_FENCED;
        if (history && history->active) {
                history->current.migrations += (slot->flags & DS_TRACE_FENCED) != 0;
                history->current.loans += (slot->flags & DS_TRACE_LOAN) != 0;
        }
        if (from != DETSHARE_RUNG_NONE && from != slot->rung)
                ds_trace_move(coroutine, from, slot);
}

void ds_history_complete(ds_coroutine *coroutine, const struct ds_op *op, const struct ds_slot *slot)
{
        ds_sched_session *session = coroutine->session;
        struct ds_history_session *history = session->history;
        struct ds_history_busy busy = {.session = session->config.id,
                .start_ns = op->start_ns,
                .end_ns = op->end_ns,
                .uid = session->config.uid,
                .rung = slot->rung};
        uint64_t before;

        busy_add(&session->sched->history, &busy);
        if (!history || !history->active) { /* the request began when there was no memory for its history */
                ds_trace_operation(coroutine, op, slot, 0, 0);
                return;
        }
        before = history->cursor_ns;
        charge_before(session, op, DS_MIN(op->start_ns, op->end_ns), slot->rung);
        if (op->start_ns < before)
                recharge(session, op->start_ns, DS_MIN(op->end_ns, before), slot->rung);
        if (op->end_ns > history->cursor_ns) {
                charge_run(session, history->cursor_ns, op->end_ns, slot->rung);
                history->cursor_ns = op->end_ns;
        }
        history->current.operations++;
        if (op->kind == DS_OP_LAUNCH || op->kind == DS_OP_GRAPH)
                ds_objective_kernel(session, op,
                        slot->view.blocks >= (uint64_t)slot->view.blocks_per_sm * session->sched->info->n_sms);
        if (!op->evictions) /* time in its own queue; not of an evicted kernel, because a part of it ran meanwhile */
                history->current.own_ns += op->ready_ns - op->submitted_ns;
        ds_trace_operation(coroutine, op, slot, history->op_ns ? 1 + (uint32_t)history->op_part : 0,
                history->op_ns ? history->op_behind : 0);
}

void ds_history_idle(ds_sched_session *session, uint64_t end_ns)
{
        struct ds_history_session *history = session->history;

        if (!history || !history->active || history->idle)
                return;
        /* the last end was not that of device work, but of a host function or a dropped operation */
        history->op_ns = 0;
        charge_until(session, end_ns, DS_HISTORY_DEPENDS);
        history->current.end_ns = history->cursor_ns;
        history->idle = 1;
        ds_objective_idle(session);
        if (session->cancelled)
                request_end(session);
}

void ds_history_synchronised(ds_sched_session *session)
{
        if (session->history && session->history->active && session->history->idle)
                request_end(session);
}

void ds_history_held(ds_sched *sched, unsigned classes, uint64_t now_ns)
{
        struct ds_history *all = &sched->history;
        struct ds_history_hold *last = &all->holds[(all->n_holds - 1) % DS_HISTORY_HOLDS];

        if (all->n_holds && last->end_ns == UINT64_MAX) {
                last->end_ns = now_ns;
                ds_trace_hold(sched, last->classes, last->begin_ns, last->end_ns);
        }
        if (!classes)
                return;
        all->holds[all->n_holds % DS_HISTORY_HOLDS] =
                (struct ds_history_hold){.begin_ns = now_ns, .end_ns = UINT64_MAX, .classes = classes};
        all->n_holds = all->n_holds + 1 < 2 * DS_HISTORY_HOLDS ? all->n_holds + 1 : all->n_holds + 1 - DS_HISTORY_HOLDS;
}

void ds_history_forget(ds_sched_session *session)
{
        ds_trace_gone(session);
        session->history = ds_free(session->history);
}

/* --- queries ------------------------------------------------------------------------------------------------------ */

int ds_history_is_active(const ds_sched_session *session)
{
        return session->history && session->history->active && !session->history->idle;
}

static void activity_requests(ds_sched_session *session, uint64_t now_ns, struct ds_history_activity *ret)
{
        struct ds_history_session *history = session->history;
        const struct ds_histogram *a = &history->windows[0].latency, *b = &history->windows[1].latency;

        request_settle(session, now_ns);
        window_turn(history, now_ns);
        ret->request_active = (uint32_t)ds_history_is_active(session);
        ret->share_permille = share_permille(session, now_ns);
        if (ret->rung == DETSHARE_RUNG_NONE && ret->share_permille) {
                ret->rung = history->rung;
                ret->rung_sms = session->sched->ladder.views[history->rung].n_sms;
        }
        ret->requests = history->n_requests;
        ret->window_requests = a->n + b->n;
        ret->window_judged = history->windows[0].judged + history->windows[1].judged;
        ret->window_met = history->windows[0].met + history->windows[1].met;
        ret->p50_ns = ds_histogram_quantile(a, b, 500);
        ret->p99_ns = ds_histogram_quantile(a, b, 990);
        ret->max_ns = DS_MAX(a->max_ns, b->max_ns);
}

void ds_history_activity(ds_sched_session *session, uint64_t now_ns, struct ds_history_activity *ret)
{
        const struct ds_ladder *ladder = &session->sched->ladder;
        const ds_coroutine *coroutine;

        now_ns = DS_MAX(now_ns, session->sched->now_ns);
        *ret = (struct ds_history_activity){
                .session = session->config.id,
                .uid = session->config.uid,
                .class_ = session->config.class_,
                .queued = session->n_ops - session->n_in_flight,
                .in_flight = session->n_in_flight,
                .coroutines = session->n_coroutines,
                .rung = DETSHARE_RUNG_NONE,
        };
        /* report the largest of several rungs with work in flight */
        for (coroutine = session->n_in_flight ? session->coroutines : NULL; coroutine; coroutine = coroutine->next) {
                if (!coroutine->n_in_flight || ladder->views[coroutine->rung].n_sms <= ret->rung_sms)
                        continue;
                ret->rung = coroutine->rung;
                ret->rung_sms = ladder->views[coroutine->rung].n_sms;
        }
        if (session->history)
                activity_requests(session, now_ns, ret);
}

size_t ds_history_requests(ds_sched_session *session, uint64_t now_ns, struct ds_history_request *out, size_t n)
{
        struct ds_history_session *history = session->history;
        uint64_t first;
        size_t count = 0;

        if (!history)
                return 0;
        request_settle(session, DS_MAX(now_ns, session->sched->now_ns));
        first = history->n_requests - DS_MIN(history->n_requests, DS_HISTORY_REQUESTS);
        if (history->n_requests - first + (uint64_t)history->active > n)
                first = history->n_requests + (uint64_t)history->active - n;
        for (; first < history->n_requests && count < n; first++)
                out[count++] = history->last[first % DS_HISTORY_REQUESTS];
        if (!history->active || count == n)
                return count;
        out[count] = history->current;
        out[count].end_ns = history->cursor_ns;
        out[count++].active = 1;
        return count;
}
