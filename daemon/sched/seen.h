/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that were seen for the first time
 *
 * Whoever keeps profiles has to know which it is to look up, and how people call them. So the first launch of a kernel
 * and shape is noted, with its name, until somebody asks (ds_sched_seen). The notes are few: one that finds no room is
 * made at a later launch.
 */
#pragma once

#include "sched/sched.h"

#define DS_SEEN_MAX 128u

struct ds_seen {
        struct ds_sched_seen *notes; /* made with the first */
        uint32_t first, n;
};

/* op is a kernel or a graph. 1: it is noted. */
int ds_seen_note(ds_sched *sched, const struct ds_op *op);
void ds_seen_deinit(struct ds_seen *seen);
