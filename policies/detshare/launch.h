/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching: LS work at once, BE work just before the device needs it
 *
 * The LS session with the earliest deadline may have `ls_depth` operations on the device, others `ls_late_depth`. A BE
 * coroutine gets the next operation when its work on the device should end within `be_ahead_us`, not earlier: queued
 * work delays the next request, too.
 */
#pragma once

#include "policies/detshare/state.h"

/* Launches the ready LS work in two rounds: first the sessions with the earliest deadline, then all other LS
 * sessions. */
void launch_ls(struct detshare *d, const struct detshare_snapshot *snapshot, struct detshare_decision *decision);

/* Launches the ready BE work that should be sent now, of sessions within `fair_us` of the least served one. */
void launch_be(struct detshare *d, const struct detshare_snapshot *snapshot, struct detshare_decision *decision);
