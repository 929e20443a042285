/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Best effort: the device time of each BE session, and which of them may launch next
 *
 * BE sessions are kept within 2 ms of device time of each other, by a virtual time per session.
 */
#pragma once

#include "policies/detshare/state.h"

/* Time for which the coroutine's oldest operation on the device has run: since its launch, or since the previous
 * operation of the coroutine ended, ns. */
uint64_t be_runs_for(const struct detshare *d, const struct detshare_coroutine_view *coroutine);

/* The session's place in the table. A new session replaces the one not seen for longest, and the learned cost of BE
 * is discarded. */
struct be *be_find(struct detshare *d, const struct detshare_session_view *view);

/* Notes the kernel of a BE session that ended, see sketch.h. */
void be_complete(struct detshare *d, const struct detshare_snapshot *snapshot);

/*
 * Updates the virtual times of the BE sessions. A session that had no work lately, or that waits for LS, is moved up to
 * the others, so no session waits for it. The time of a running operation counts before its end, so the other sessions
 * need not wait for the end of a long kernel.
 */
void be_look(struct detshare *d, const struct detshare_snapshot *snapshot);
