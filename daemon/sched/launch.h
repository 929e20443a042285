/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching: from the head of a coroutine to a stream of a rung, and back as a completion
 *
 * Every rung has a few streams per priority. A coroutine with work in flight stays on its stream, so the device keeps
 * its order; when the policy moves it to another rung or priority, the new stream is fenced behind the old one first.
 * With nothing in flight it takes its last stream index if that is free, else the least loaded one.
 *
 * Operations in flight sit in a fixed table of slots; a token is a slot and a generation, so a completion finds its
 * operation at once and a token from the past finds nothing.
 */
#pragma once

#include <stdint.h>

#include "sched/event.h"
#include "sched/sched.h"

struct ds_slot {
        struct ds_sched_event event; /* COMPLETE; pending until the policy was told */
        struct ds_op *op;            /* NULL once it has ended */
        struct detshare_op_view view;
        uint64_t coroutine;
        uint64_t start_ns, end_ns;
        uint32_t generation;
        uint32_t next_free;
        uint32_t rung, stream, class_;
        uint32_t priority, flags; /* enum ds_trace_flag; for the history */
};

struct ds_launch_target {
        uint32_t rung, priority, max_resident_blocks;
};

#define DS_SLOT_NONE UINT32_MAX

/*
 * Launch up to count operations from the head. Stops early at one that is not ready. Returns how many were launched or
 * refused by the device with a CUDA error (those end with it), or a fatal errno.
 */
int ds_launch_head(ds_coroutine *coroutine, const struct ds_launch_target *target, uint32_t count, uint64_t now_ns);
/* Give back the slot of an event that was told. */
void ds_slot_told(ds_sched *sched, struct ds_slot *slot);
