/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching: from the head of a coroutine to a stream of a rung, and back as a completion
 *
 * Every rung has a few streams per priority. A coroutine with work in flight stays on its stream, so the device keeps
 * its order; when the policy moves it to another rung or priority, the new stream is fenced behind the old one first.
 * With nothing in flight it takes its last stream index if that is free, else the least loaded one.
 *
 * A sample of a kernel's time against SMs counts only if the kernel was alone on the GPU, as far as the scheduler
 * knows: when it was launched nothing of another coroutine was in flight, and from then until its end came nothing of
 * another one was launched. What came before and after it in its own coroutine does not overlap it, since a coroutine
 * is one stream. This is careful: what has ended counts as in flight until its completion came. What the scheduler does
 * not know of is other processes on the GPU and the clearing of new memory. To get such samples the device is asked for
 * exact times now and then, more often while there are few; see launch_tell.
 *
 * Killing: what is in flight is ended from the youngest to the oldest, so that none begins because one before it was
 * ended. When all of it has come back, the queue begins again with the first that did not run to its end.
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
        uint32_t stat_row;
        uint8_t clean;   /* nothing of another coroutine was in flight at its launch, and nothing bounds its blocks */
        uint64_t number; /* of the launch */
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
/*
 * End what the coroutine has in flight and put it back at the head of its queue. 1: it is under way (nothing of it is
 * launched before all has come back, and what had ended before counts as ended); 0: something in flight is no kernel
 * that is proven idempotent, or nothing is, or the device cannot; DS_KILL_ALREADY; or a fatal errno.
 */
#define DS_KILL_ALREADY 2
int ds_launch_kill(ds_coroutine *coroutine);
/* Give back the slot of an event that was told. */
void ds_slot_told(ds_sched *sched, struct ds_slot *slot);

/*
 * Whether the launch runs only where all its blocks are resident at once: a cooperative one, or of a kernel that may
 * wait for other blocks, if the whole GPU holds them. A grid that not even that holds cannot rely on it: its blocks
 * wait for earlier ones at most (decoupled look-back), which are there whatever the rung.
 */
int ds_launch_all_resident(
        const ds_sched *sched, const struct ds_launch *launch, uint64_t blocks, uint32_t blocks_per_sm);
