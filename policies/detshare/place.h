/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Place: the rung and the form in which a BE kernel is launched now, or the decision that it waits
 *
 * Beside requests, a kernel that costs more than the slack (prices.h) goes to the upper rung with the lowest SM count
 * of its own stair (stair.h) that leaves the reserve: below the first missing SM the next ones cost nothing. A kernel
 * whose blocks must all be resident and do not fit there borrows the whole GPU if every running request would still
 * keep its slack.
 *
 * Between requests, a kernel is not launched on all SMs if it will probably still run when the next request comes, and
 * that request would suffer. Probably means: more than `meet_permille` of the pauses that last as long as this one so
 * far end by then. Queued requests follow each other within microseconds, so BE waits for that time after each. A
 * kernel longer than the pauses is placed as if the next request had begun, so requests back to back do not move it to
 * and fro. But this holds only while no requests queue, and only beside a session that would get through its queue if
 * all its requests took what those beside BE take. Otherwise the kernel waits.
 *
 * Every wait ends after `starve_ms`.
 */
#pragma once

#include "policies/detshare/state.h"

struct place {
        uint32_t rung;
        uint32_t blocks;    /* bound on resident blocks; 0: none */
        uint32_t evictable; /* 1: launch in an evictable form */
};

/* Finds the place of an operation of BE behind queue_ns of its coroutine's work. Returns 1 and the place; 0 if the
 * operation must wait, with a timer for the end of the wait. */
int be_place(struct detshare *d, const struct detshare_coroutine_view *coroutine, const struct detshare_op_view *op,
        uint64_t queue_ns, struct place *place);
