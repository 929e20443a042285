/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exploring: measures BE kernels on fewer SMs
 *
 * While LS is idle, a kernel with a good profile at few SM counts is now and then sent to an unknown rung, for at most
 * `explore_permille` of BE's time.
 */
#pragma once

#include "policies/detshare/state.h"

/* The rung on which the kernel runs to complete its profile; 0 for none. Only while nothing else is on the GPU,
 * because other work would falsify the sample. */
uint32_t be_explore(
        struct detshare *d, const struct detshare_coroutine_view *coroutine, const struct detshare_op_view *op);
