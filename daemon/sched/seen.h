/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels seen for the first time
 *
 * The keeper of profiles must know which profile to load, and the kernel's name. So the first launch of a kernel and
 * shape is noted with its name until ds_sched_seen() reads the note. Notes are few: if there is no room, a later launch
 * is noted.
 */
#pragma once

#include "sched/sched.h"

#define DS_SEEN_MAX 128u

struct ds_seen {
        struct ds_sched_seen *notes; /* NULL until the first note */
        uint32_t first, n;
};

/* Notes the first launch of a kernel or graph. Returns 1 if it is noted. */
int ds_seen_note(ds_sched *sched, const struct ds_op *op);
void ds_seen_deinit(struct ds_seen *seen);
