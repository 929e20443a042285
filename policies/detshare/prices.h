/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prices: what a BE kernel is expected to cost LS requests
 *
 * A BE kernel beside LS need not give way: where its blocks are short, priority alone lets LS in within microseconds.
 * Its harm is the mean rest of a block that LS finds on full SMs, less the gap that LS makes anyway, times the LS
 * kernels of a request (a long one counts once more per 10 us, because it may be a graph).
 *
 * On an H200, after kernels ran on a part of the SMs, every later kernel begins later, until the GPU has had another
 * context for a moment (daemon/supervisor/settle.h). So where the device reports such a cost, a kernel goes to a part
 * of the SMs only if half of its time exceeds the loss of the next few requests.
 *
 * Beside LS, kernels known to be bound by compute or memory have at most as many resident blocks as the calibration
 * found to keep LS within limits (interference.h); unknown kernels are not bounded.
 */
#pragma once

#include "policies/detshare/state.h"

/* Mean time until a block of the kernel ends, seen from an arbitrary moment, ns. 0 if its blocks are short or leave
 * room on the SMs; UINT64_MAX if the kernel's time is unknown. */
uint64_t be_rest(const struct detshare *d, const struct detshare_op_view *op);

/* Whether running this BE kernel on a part of the GPU costs LS less than half of the kernel's remaining time on all
 * SMs. */
int be_may_divide(const struct detshare *d, const struct detshare_op_view *op);

/* Whether a BE kernel that takes `ns` may borrow the whole GPU while LS requests run. */
int be_may_borrow(const struct detshare *d, uint64_t ns);

/* Whether the kernel could be evicted, and `evict` allows that. */
int be_may_evict(const struct detshare *d, const struct detshare_op_view *op);

/* Bound on the resident blocks of a BE kernel on n_sms SMs, from the calibration at the next higher measured SM
 * count. */
uint32_t be_blocks(const struct detshare *d, const struct detshare_op_view *op, uint32_t n_sms);

/*
 * Whether the next request will probably come within `ns`: true right after a request, because requests often follow
 * closely, and true if `ns` exceeds the usual pauses. In these cases a timer causes a new decision when the length of
 * this pause is better known.
 */
int be_meets(struct detshare *d, uint64_t ns);
