/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: what the policy learns about the requests of each LS session
 *
 * For each recent LS session the policy knows whether a request runs, the length of its requests, their number of
 * kernels and the gaps between these, the SMs that they need, the pauses between requests, and the regime of BE under
 * which requests keep their slack.
 *
 * A request begins with its first launch. It ends when its queue is empty and the client has waited for it, or when the
 * queue stayed empty for a hold-off: a quantile of the gaps inside this session's requests (a program bound by its host
 * has one between any two kernels).
 *
 * Budget: while it lasts (budget.h), BE may cost a request all that the objective leaves, and is held once the request
 * needs the rest for itself. While the budget is spent, BE is held during each request, and starts between requests
 * only if it very probably ends before the next one.
 *
 * The reserve is the most SMs that an LS kernel among the first of the queues needs for its best latency, and that the
 * session's recent kernels needed, up to `reserve_percent` of the GPU.
 */
#pragma once

#include "policies/detshare/state.h"

/* SMs that the LS kernel needs for its best latency. */
uint32_t ls_need(const struct detshare *d, const struct detshare_op_view *op);

/* SMs that sufficed for the session's kernels during nearly all of their recent time; 0: unknown. */
uint32_t needs_quantile(const struct detshare *d, const struct ls *ls);

/* The session's place in the table. make: 1: a new session replaces the one not seen for longest; 0: returns NULL
 * for an unknown session. */
struct ls *ls_find(struct detshare *d, uint64_t id, int make);

/* Time that BE may cost one request of the session, ns. */
uint64_t ls_slack(const struct detshare *d, const struct ls *ls);

/* The slack, permille of the length of a request; 0: unknown. */
uint64_t ls_slack_permille(const struct detshare *d, const struct ls *ls);

/* Whether the session's budget allows BE beside its requests. */
int ls_may_share(const struct ls *ls);

/* Number of ways in which BE may share with the session, at least 1, see sharing.h. */
uint32_t ls_ways(const struct detshare *d, const struct ls *ls);

/* Whether the budget allows BE beside the session's running request. Between two requests a session has the same slack
 * as without an objective, because it is not known whether the next one will have waited. */
int ls_buys(const struct ls *ls);

/* Time at which BE must leave the running request of a session with an objective, ns; 0: it may not run beside it. */
uint64_t ls_until(const struct ls *ls);

/* Whether the budget of the session's objective is spent, so that BE must not delay its requests. */
int ls_is_spent(const struct ls *ls);

/* Whether trials have shown that the session's requests stay within the slack while BE kernels run wherever their
 * prices allow. */
int ls_bears(const struct detshare *d, const struct ls *ls);

/*
 * Cost for a session of one BE kernel on a part of the GPU, ns; 0 if the device reports no such cost. Until the GPU has
 * switched to another context, all later requests are longer.
 */
uint64_t ls_mask_ns(const struct detshare *d, const struct ls *ls);

/* Whether a next request of the session is expected: it has not been idle for far longer than its long pause. */
int ls_is_expected(const struct detshare *d, const struct ls *ls);

/*
 * Whether a running request has no work on the device for longer than its usual gaps, so it waits for its own host.
 * While it does, BE is treated as if no request ran.
 */
int ls_stalls(struct detshare *d, const struct ls *ls);

/* Whether every running request is in a gap that will last for another `ns`, so that a BE kernel of that time costs none
 * of them anything. */
int ls_all_gapped(const struct detshare *d, uint64_t ns);

/* Learns the duration of a piece of a request. After a trial that was cut short the piece counts only if it took at
 * least twice the usual time, which proves that the trial failed. Beside BE that only the objective allowed, nothing is
 * learned: that is no regime of felt.h. */
void ls_felt(struct ls *ls, uint64_t end_ns);

/*
 * Learns the length of a request without BE: at most its duration, and at least the time for which the device was free
 * of BE. The duration beside BE must not count as length: then BE would look harmless, and the policy would run still
 * more BE beside the next request. While BE never leaves the device, the length can only fall; BE does leave for
 * requests that hold it.
 */
void ls_learn_length(struct ls *ls, uint64_t length);

/* Updates the session from its view. view: NULL if the snapshot does not show the session, which means that it has
 * no work. */
void ls_look(struct detshare *d, struct ls *ls, const struct detshare_session_view *view);

/* Counts an LS operation that ended. Called before the request may end by that operation, so that a request of one
 * operation has a count of one. */
void ls_count(struct detshare *d, const struct detshare_snapshot *snapshot);

/* Learns from an operation that ended. The device may report several operations at once; then only the sum of their
 * times is right, so the mean duration is used. */
void ls_complete(struct detshare *d, const struct detshare_snapshot *snapshot);
