/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tide: what all LS sessions together require of BE in one decision
 *
 * tide_look() sums up the sessions: whether a request runs, how many SMs to leave free, how long a wait is harmless.
 * tide_regime() then decides whether a running request holds BE (felt.h). Nothing here launches anything.
 */
#pragma once

#include "policies/detshare/state.h"

/* Updates all LS sessions from the snapshot, and sums up what they require. */
void tide_look(struct detshare *d, const struct detshare_snapshot *snapshot);

/*
 * Decides whether BE is held: if a running request requires it. Only sessions that hold BE because they do not know
 * its cost give way to a trial of another session. Otherwise none of several overlapping sessions would ever
 * finish a trial.
 */
void tide_regime(struct detshare *d);

/* Notes for each LS session whether BE ran beside its request, and under which regime. */
void tide_note(struct detshare *d);
