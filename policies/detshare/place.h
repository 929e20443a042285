/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Place: the rung and the form in which a BE kernel is launched now, or the decision that it waits
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
