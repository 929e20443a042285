/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching: LS work at once, BE work just before the device needs it
 *
 * LS kernels go to the whole GPU with high priority: they begin on the SMs that BE leaves free, and spread as BE blocks
 * end. A BE coroutine gets the next operation when its work on the device should end within `be_ahead_us`, not earlier:
 * queued work delays the next request, too.
 */
#pragma once

#include "policies/detshare/state.h"

/* Launches the ready LS work. */
void launch_ls(const struct detshare_snapshot *snapshot, struct detshare_decision *decision);

/* Launches the ready BE work that should be sent now, of the sessions that are not far ahead of the least served
 * one. */
void launch_be(struct detshare *d, const struct detshare_snapshot *snapshot, struct detshare_decision *decision);
