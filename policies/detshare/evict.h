/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evicting: BE kernels that LS would wait for stop and resume elsewhere
 *
 * A BE kernel of long blocks is launched in an evictable form (daemon/sched/forms.h), so no request waits for its end.
 * When a request comes and BE runs where it would not be sent now, it is evicted if its own end is farther off than an
 * eviction costs. It resumes on the rung that leaves the reserve, and moves back likewise after the request. BE never
 * starves: it runs for a share of the time since its last eviction before the next one, whatever LS needs.
 */
#pragma once

#include "policies/detshare/state.h"

/* Whether this decision evicts the coroutine's kernel. Then the coroutine can launch nothing until the kernel is
 * back in its queue. */
int be_leaves(const struct detshare *d, const struct detshare_coroutine_view *coroutine);

/* Evicts BE kernels that should run elsewhere: while LS requests run, those that hold SMs of LS; otherwise those
 * that should return to all SMs. */
void be_evict_all(struct detshare *d, const struct detshare_snapshot *snapshot, struct detshare_decision *decision);
