/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evicting: BE kernels that LS would wait for stop and resume elsewhere
 */
#pragma once

#include "policies/detshare/state.h"

/* Evicts BE kernels that should run elsewhere: while LS requests run, those that hold SMs of LS; otherwise those
 * that should return to all SMs. */
void be_evict_all(struct detshare *d, const struct detshare_snapshot *snapshot, struct detshare_decision *decision);
