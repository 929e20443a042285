/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objectives of a session in time: what its requests take alone, and what they may take
 *
 * A session may state its objective as a factor of what it has alone (proto/slo.h). This file measures that: the p99 of
 * the latencies of requests that had the GPU to themselves. A request counts if BE was on the device for at most an
 * eighth of it, and no other LS session had a request meanwhile. Beside BE it may have lost that time or nothing, so half
 * of it is subtracted. The p99 is known only if the policy holds BE during some requests, or no BE runs. Until then a
 * factor is no objective.
 *
 * A client that serves one request after the other has its queue in its own process. Its latency includes the wait
 * there, and so does what it has alone. The arrivals are not known unless the client states them. A request that begins
 * after a pause arrived then. The arrivals of those that follow each other at once are drawn at random, with the
 * session's mean rate; from them follows when each request would have ended alone. A request that did not have the GPU to
 * itself counts with the duration of the last one that had. A client that nearly never pauses counts as one that has no
 * queue, because its next request depends on the answer.
 *
 * Sessions with an objective for the time to first token or per output token have steps (step.h), each kind with its
 * own p99. The objective of a decode step counts from the end of the step before.
 *
 * It does not decide anything: the policy gets the objective and the deadline of each request.
 */
#pragma once

#include "sched/sched.h"

struct ds_op;

/* How much of the time operations of a class were on the device. */
struct ds_presence {
        uint64_t total_ns, since_ns; /* time until now, without the current period; begin of that, ns */
        uint32_t n;                  /* operations on the device */
};

/* Records that `change` more operations of the class are on the device from now on. */
void ds_presence_change(struct ds_presence *presence, uint64_t now_ns, int32_t change);

/* A request begins, has less work for now, or has ended at end_ns. For sessions without objectives, ds_objective_begin()
 * counts requests of LS sessions, and the others do nothing. */
void ds_objective_begin(ds_sched_session *session, uint64_t now_ns);
void ds_objective_kernel(ds_sched_session *session, const struct ds_op *op, int fills);
void ds_objective_idle(ds_sched_session *session);
void ds_objective_end(ds_sched_session *session, uint64_t begin_ns, uint64_t end_ns);
/* The session's class or its stated objectives change. A running request or step is not measured. */
void ds_objective_changed(ds_sched_session *session);
void ds_objective_forget(ds_sched_session *session);

/* The session's objective of a kind as a latency, ns; 0: none, or a factor of a latency that is not known yet. A step must
 * also keep the objective of any request. */
uint64_t ds_objective_in_force(const ds_sched_session *session, enum ds_slo_kind kind);
/* Latency that the running or next request may have, counted from its first launch, ns; 0: no objective. *ret_counted:
 * 1 if it is known when the request arrived, so that no time before its launch must be allowed for. */
uint64_t ds_objective_ns(const ds_sched_session *session, uint32_t *ret_counted);
/* Time at which the running request, which began at begin_ns, misses its objective, ns; UINT64_MAX: never. */
uint64_t ds_objective_deadline(const ds_sched_session *session, uint64_t begin_ns);
void ds_objective_activity(const ds_sched_session *session, struct ds_sched_objective *ret);
