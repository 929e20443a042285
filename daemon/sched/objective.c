/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/objective.h"

#include <math.h>
#include <string.h>

#include "sched/internal.h"
#include "sched/step.h"
#include "util/alloc.h"
#include "util/macro.h"

#define WARM_UP 16u    /* first requests of a session, not measured: they load code and allocate memory */
#define LEAST 32u      /* latencies alone from which on their p99 is used */
#define JUDGED 200u    /* latencies alone from which on it is judged whether the session misses its objective alone */
#define WINDOW 1000u   /* latencies per window; the p99 is that of the last one to two windows */
#define TOP 21u        /* largest latencies kept per window: those above the p99 of two windows, and one */
#define SHARED_PART 8u /* part of a request that BE may have been on the device */
/* After a pause up to this one, the next request was there when the last one ended: a client in Python needs up to 0.3 ms
 * to take it from its queue. */
#define QUEUED_NS 300000u
#define QUEUED_LEAST_NS 50000u /* the same of a session with short intervals, ns: a QUEUED_PART-th of the mean one */
#define QUEUED_PART 8u
#define NEVER_PAUSES 32u /* pauses in so many requests, or fewer: the client has no queue */
#define PARTS_MOST 16u   /* requests that one step may consist of */
#define MEAN_OF 256u     /* requests of a running mean */
#define TURN_OF 16       /* the same of the mean turn */

/* The largest latencies alone of a window of requests, largest first, ns. */
struct window {
        uint32_t n, missed; /* latencies in the window; those of them above the objective */
        uint64_t top_ns[TOP];
};

struct kind {
        struct window windows[2]; /* [0]: the current one */
        uint64_t p99_ns;          /* 0: not known */
};

/* The session's queue as it would be without others. */
struct queue {
        uint64_t begin_ns, end_ns, arrival_ns; /* begin, end and (drawn) arrival of the last request */
        uint64_t free_ns;                      /* when the last request would have ended alone */
        uint64_t interval_ns;                  /* mean time from begin to begin, ns */
        uint64_t turn_ns;                      /* mean time from an end to the begin of a request of the queue, ns */
        uint32_t pauses;                       /* share of requests after a pause, of 2^16 */
        uint32_t seed;
};

struct ds_objective {
        struct kind kinds[_DS_SLO_KINDS];
        struct ds_step step;
        struct queue queue;
        uint64_t n;                     /* requests */
        uint64_t alone_ns;              /* duration of the last request that ran alone; 0: none yet */
        uint64_t be_ns, others;         /* presence of BE, and LS requests begun, when this request began */
        uint64_t beside_ns;             /* time for which BE was on the device during this request, ns */
        uint64_t stated_ns;             /* arrival of the running request as the client stated it, ns; 0: not stated */
        uint64_t seen_ns;               /* last statement that belongs to a request, ns */
        uint64_t from_ns;               /* time from which the running request's objective counts, ns */
        uint64_t begin_ns, last_end_ns; /* begin of the running request, end of the last one, ns */
        uint32_t active, accompanied;   /* 1: a request runs; 1: beside another LS session's request */
        uint32_t parts, unused;         /* requests that are parts of the running step so far; always zero */
};

/* --- presence of a class ------------------------------------------------------------------------------------------ */

void ds_presence_change(struct ds_presence *presence, uint64_t now_ns, int32_t change)
{
        const uint32_t n = presence->n + (uint32_t)change;

        if (!presence->n && n)
                presence->since_ns = now_ns;
        if (presence->n && !n)
                presence->total_ns += now_ns - DS_MIN(now_ns, presence->since_ns);
        presence->n = n;
}

static uint64_t presence_until(const struct ds_presence *presence, uint64_t now_ns)
{
        return presence->total_ns + (presence->n ? now_ns - DS_MIN(now_ns, presence->since_ns) : 0);
}

/* --- p99 alone ---------------------------------------------------------------------------------------------------- */

static void window_add(struct window *window, uint64_t ns, int missed)
{
        uint32_t at = TOP;

        while (at && window->top_ns[at - 1] < ns)
                at--;
        if (at < TOP) {
                memmove(&window->top_ns[at + 1], &window->top_ns[at], (TOP - 1 - at) * sizeof(ns));
                window->top_ns[at] = ns;
        }
        window->n++;
        window->missed += (uint32_t)missed;
}

/* The largest latency of both windows but `skip`, ns. */
static uint64_t windows_top(const struct window windows[2], uint32_t skip)
{
        uint32_t a = 0, b = 0;
        uint64_t top = 0;

        for (uint32_t i = 0; i <= skip && (a < TOP || b < TOP); i++) {
                const uint64_t from_a = a < TOP ? windows[0].top_ns[a] : 0, from_b = b < TOP ? windows[1].top_ns[b] : 0;

                top = DS_MAX(from_a, from_b);
                if (from_a >= from_b)
                        a++;
                else
                        b++;
        }
        return top;
}

static void kind_add(struct kind *kind, uint64_t ns, int missed)
{
        uint32_t n;

        if (kind->windows[0].n == WINDOW) {
                kind->windows[1] = kind->windows[0];
                kind->windows[0] = (struct window){0};
        }
        window_add(&kind->windows[0], ns, missed);
        n = kind->windows[0].n + kind->windows[1].n;
        if (n >= LEAST)
                kind->p99_ns = windows_top(kind->windows, n / 100);
}

/* Share of the latencies alone that miss the objective, permille; 0: at most one in a hundred does, as far as the
 * number of latencies tells (two standard deviations). */
static uint32_t kind_missed_permille(const struct kind *kind)
{
        const uint32_t n = kind->windows[0].n + kind->windows[1].n;
        const uint32_t missed = kind->windows[0].missed + kind->windows[1].missed, usual = n / 100;

        if (n < JUDGED || missed <= usual || (missed - usual) * (missed - usual) <= 4 * usual)
                return 0;
        return missed * 1000 / n;
}

/* --- queue in the client ------------------------------------------------------------------------------------------ */

/* A number from 0 to 1, of a sequence that is the same in every run. */
static double queue_random(struct queue *queue)
{
        queue->seed = queue->seed * 1664525u + 1013904223u;
        return (double)(queue->seed >> 8) / (double)(1u << 24);
}

/* Draws the arrival of a request that began at once after the last one: arrivals at random times have exponentially
 * distributed distances, and this one is at most `most_ns`. */
static uint64_t queue_distance(struct queue *queue, uint64_t most_ns)
{
        const double mean = (double)DS_MAX(queue->interval_ns, (uint64_t)1);
        const double within = 1 - exp(-(double)most_ns / mean);

        return DS_MIN((uint64_t)(-mean * log(1 - queue_random(queue) * within)), most_ns);
}

/* Whether a request that begins then was there when the last one ended. */
static int queue_is_queued(const struct queue *queue, uint64_t begin_ns)
{
        const uint64_t part_ns = DS_MAX(queue->interval_ns / QUEUED_PART, (uint64_t)QUEUED_LEAST_NS);

        return begin_ns <= queue->end_ns + DS_MIN(part_ns, (uint64_t)QUEUED_NS);
}

static uint64_t queue_arrival(struct queue *queue, uint64_t begin_ns, uint64_t stated_ns)
{
        if (stated_ns)
                return DS_MAX(stated_ns, queue->arrival_ns);
        if (!queue_is_queued(queue, begin_ns) || queue->pauses < (1u << 16) / NEVER_PAUSES)
                return begin_ns;
        return queue->arrival_ns + queue_distance(queue, begin_ns - DS_MIN(begin_ns, queue->arrival_ns));
}

/* Returns the latency that the request would have had alone, from its arrival, given its duration alone, ns. */
static uint64_t queue_alone(
        struct queue *queue, uint64_t begin_ns, uint64_t end_ns, uint64_t stated_ns, uint64_t alone_ns)
{
        const uint32_t pause = queue->end_ns && !queue_is_queued(queue, begin_ns) ? 1u << 16 : 0;
        const uint64_t interval = queue->begin_ns ? begin_ns - queue->begin_ns : 0;

        queue->pauses += (int32_t)(pause - queue->pauses) / (int32_t)MEAN_OF;
        queue->interval_ns =
                queue->interval_ns ? queue->interval_ns - queue->interval_ns / MEAN_OF + interval / MEAN_OF : interval;
        if (queue->end_ns && !pause)
                queue->turn_ns += (int64_t)(begin_ns - DS_MIN(begin_ns, queue->end_ns) - queue->turn_ns) / TURN_OF;
        queue->arrival_ns = queue_arrival(queue, begin_ns, stated_ns);
        queue->free_ns = DS_MAX(queue->free_ns + queue->turn_ns, queue->arrival_ns) + alone_ns;
        queue->begin_ns = begin_ns;
        queue->end_ns = end_ns;
        return queue->free_ns - queue->arrival_ns;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static struct ds_objective *of(ds_sched_session *session)
{
        if (session->config.class_ != DETSHARE_CLASS_LS || !ds_slo_is_stated(&session->config.slo))
                return NULL;
        if (!session->objective) {
                session->objective = ds_alloc0(1, sizeof(*session->objective));
                if (session->objective)
                        session->objective->queue.pauses = 1u << 16;
        }
        return session->objective; /* NULL without memory: then the session has no objective */
}

/* Kind of objective that the running or next request has. */
static enum ds_slo_kind kind_of(const ds_sched_session *session)
{
        if (!ds_slo_has_steps(&session->config.slo))
                return DS_SLO_LATENCY;
        return ds_step_phase(&session->objective->step) == DETSHARE_PHASE_PREFILL ? DS_SLO_TTFT : DS_SLO_TPOT;
}

static uint64_t stricter(uint64_t a_ns, uint64_t b_ns)
{
        return !a_ns || (b_ns && b_ns < a_ns) ? b_ns : a_ns;
}

/* A factor of p99_ns, ns; saturates, because a client may state that its requests arrived long ago. 0: either is 0. */
static uint64_t factor_ns(uint64_t p99_ns, uint32_t permille)
{
        return permille && p99_ns > UINT64_MAX / permille ? UINT64_MAX : p99_ns * permille / 1000;
}

uint64_t ds_objective_in_force(const ds_sched_session *session, enum ds_slo_kind kind)
{
        const struct ds_slo *slo = &session->config.slo;
        const uint64_t p99_ns = session->objective ? session->objective->kinds[kind].p99_ns : 0;
        uint64_t ns = stricter(slo->ns[kind], factor_ns(p99_ns, slo->permille[kind]));

        if (session->config.class_ != DETSHARE_CLASS_LS)
                return kind == DS_SLO_LATENCY ? slo->ns[kind] : 0;
        if (kind != DS_SLO_LATENCY && ds_slo_has_steps(slo))
                ns = stricter(ns, stricter(slo->ns[DS_SLO_LATENCY], factor_ns(p99_ns, slo->permille[DS_SLO_LATENCY])));
        return ns;
}

static int is_missed(const ds_sched_session *session, enum ds_slo_kind kind, uint64_t ns)
{
        const uint64_t may_ns = ds_objective_in_force(session, kind);

        return may_ns && ns > may_ns;
}

void ds_objective_begin(ds_sched_session *session, uint64_t now_ns)
{
        struct ds_objective *o = of(session);
        ds_sched *sched = session->sched;

        sched->ls_begun += session->config.class_ == DETSHARE_CLASS_LS;
        if (!o)
                return;
        o->active = 1;
        o->begin_ns = now_ns;
        o->be_ns = presence_until(&sched->be_presence, now_ns);
        o->others = sched->ls_begun;
        if (o->parts)
                return;
        o->beside_ns = 0;
        o->accompanied = sched->n_class_in_flight[DETSHARE_CLASS_LS] > session->n_in_flight;
        /* a client that states an arrival and launches at once may be ahead of the worker's last look at the clock */
        o->stated_ns = session->arrival_ns != o->seen_ns ? DS_MIN(session->arrival_ns, now_ns) : 0;
        o->seen_ns = session->arrival_ns;
        o->from_ns = o->stated_ns ? o->stated_ns : now_ns;
        if (kind_of(session) == DS_SLO_TPOT && o->last_end_ns &&
                now_ns - o->last_end_ns < ds_objective_in_force(session, DS_SLO_TPOT))
                o->from_ns = o->last_end_ns;
}

void ds_objective_kernel(ds_sched_session *session, const struct ds_op *op, int fills)
{
        struct ds_objective *o = session->objective;

        if (o && o->active && ds_slo_has_steps(&session->config.slo))
                ds_step_kernel(&o->step, op->kernel_key, op->phase, fills);
}

void ds_objective_idle(ds_sched_session *session)
{
        struct ds_objective *o = session->objective;
        uint64_t be_ns;

        if (!o || !o->active)
                return;
        be_ns = presence_until(&session->sched->be_presence, session->sched->now_ns);
        o->beside_ns += be_ns - o->be_ns;
        o->be_ns = be_ns;
        o->accompanied |= session->sched->ls_begun != o->others;
}

/* Ends a step, if the request that ends was not only a part of one: one after which the client did not wait, or with few
 * kernels. Returns 1 if the time since from_ns is that of a whole step without others. */
static int step_end(struct ds_objective *o, int synchronised, int is_alone, enum ds_slo_kind *ret_kind)
{
        if ((!synchronised || ds_step_is_part(&o->step)) && o->parts < PARTS_MOST) {
                o->parts++;
                return 0;
        }
        o->parts = 0;
        *ret_kind = ds_step_end(&o->step) == DETSHARE_PHASE_PREFILL ? DS_SLO_TTFT : DS_SLO_TPOT;
        return is_alone;
}

void ds_objective_end(ds_sched_session *session, uint64_t begin_ns, uint64_t end_ns)
{
        struct ds_objective *o = of(session);
        enum ds_slo_kind kind = DS_SLO_LATENCY;
        uint64_t latency_ns;
        int is_alone, counts;

        if (!o || !o->active)
                return;
        o->active = 0;
        latency_ns = end_ns - DS_MIN(ds_slo_has_steps(&session->config.slo) ? o->from_ns : begin_ns, end_ns);
        is_alone = !o->accompanied && o->beside_ns <= latency_ns / SHARED_PART;
        if (ds_slo_has_steps(&session->config.slo)) {
                counts = step_end(o, session->synchronised, is_alone, &kind);
                latency_ns -= DS_MIN(o->beside_ns, latency_ns) / 2;
        } else {
                if (is_alone)
                        o->alone_ns = latency_ns - o->beside_ns / 2;
                counts = o->alone_ns != 0;
                latency_ns = queue_alone(&o->queue, begin_ns, end_ns, o->stated_ns, o->alone_ns);
        }
        o->last_end_ns = o->parts ? o->last_end_ns : end_ns;
        if (++o->n <= WARM_UP || !counts)
                return;
        kind_add(&o->kinds[kind], latency_ns, is_missed(session, kind, latency_ns));
        ds_snapshot_session_changed(session);
}

void ds_objective_changed(ds_sched_session *session)
{
        struct ds_objective *o = session->objective;

        if (!o)
                return;
        o->active = o->parts = 0;
        for (int kind = 0; kind < _DS_SLO_KINDS; kind++)
                o->kinds[kind].windows[0].missed = o->kinds[kind].windows[1].missed = 0;
}

void ds_objective_forget(ds_sched_session *session)
{
        session->objective = ds_free(session->objective);
}

/* --- queries ------------------------------------------------------------------------------------------------------ */

uint64_t ds_objective_ns(const ds_sched_session *session, uint32_t *ret_counted)
{
        const struct ds_objective *o = session->objective;
        uint64_t ns, before;

        *ret_counted = 0;
        if (!o)
                return ds_objective_in_force(session, DS_SLO_LATENCY);
        ns = ds_objective_in_force(session, kind_of(session));
        *ret_counted = kind_of(session) != DS_SLO_LATENCY || (o->active && o->stated_ns);
        before = o->active ? o->begin_ns - DS_MIN(o->begin_ns, o->from_ns) : 0;
        return ns ? DS_MAX(ns - DS_MIN(ns, before), (uint64_t)1) : 0;
}

uint64_t ds_objective_deadline(const ds_sched_session *session, uint64_t begin_ns)
{
        const struct ds_objective *o = session->objective;
        const int knows = o && o->active && session->config.class_ == DETSHARE_CLASS_LS;
        const uint64_t from_ns = knows ? o->from_ns : begin_ns;
        const uint64_t ns = ds_objective_in_force(session, knows ? kind_of(session) : DS_SLO_LATENCY);

        return ns && ns < UINT64_MAX - from_ns ? from_ns + ns : UINT64_MAX;
}

void ds_objective_activity(const ds_sched_session *session, struct ds_sched_objective *ret)
{
        *ret = (struct ds_sched_objective){.stated = session->config.slo};
        for (int kind = 0; kind < _DS_SLO_KINDS; kind++) {
                ret->ns[kind] = ds_objective_in_force(session, (enum ds_slo_kind)kind);
                if (!session->objective)
                        continue;
                ret->alone_ns[kind] = session->objective->kinds[kind].p99_ns;
                ret->alone_missed_permille =
                        DS_MAX(ret->alone_missed_permille, kind_missed_permille(&session->objective->kinds[kind]));
        }
}
