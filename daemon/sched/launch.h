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
 * A kernel that has other forms is launched in the one that forms.h chooses; where the device will not have it, in the
 * native one. What comes back before its end is let_go.h's business, slices are slices.h's.
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
        uint8_t slice;            /* it is one of an operation that has a slot of its own besides */
        uint8_t lets_go;          /* it counts as that in its coroutine */
        uint8_t trial;            /* its time says what its form costs */
        uint32_t blocks;          /* of a slice; of a sliced operation: that have run since it was launched */
        uint32_t max_blocks;      /* resident at once, 0 = no bound */
        uint64_t evict_ns;        /* how long it takes to let go */
};

struct ds_launch_target {
        uint32_t rung, priority, max_resident_blocks;
        uint32_t evictable; /* as in struct detshare_action */
};

#define DS_SLOT_NONE UINT32_MAX

/*
 * Launch up to count operations from the head. Stops early at one that is not ready. Returns how many were launched or
 * refused by the device with a CUDA error (those end with it), or a fatal errno.
 */
int ds_launch_head(ds_coroutine *coroutine, const struct ds_launch_target *target, uint32_t count, uint64_t now_ns);
/* Give back the slot of an event that was told. */
void ds_slot_told(ds_sched *sched, struct ds_slot *slot);
struct ds_slot *ds_slot_take(ds_sched *sched); /* NULL: there is none */
uint64_t ds_slot_token(const ds_sched *sched, const struct ds_slot *slot);

/*
 * Give the operation to the device: stream and bound as in its slot, and its token; of a sliced one the next blocks,
 * as many as the slice has, with the slice's token (NULL: it is not sliced). As ds_device_ops.launch.
 */
int ds_launch_submit(ds_sched *sched, struct ds_op *op, const struct ds_slot *slot, const struct ds_slot *slice);
/* The operation of a slot is over, in one way or another. */
void ds_launch_ended(ds_sched *sched, struct ds_slot *slot, const struct ds_completion *completion);

static inline uint64_t ds_launch_blocks(const struct ds_launch *launch)
{
        return (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
}

/*
 * Whether the launch runs only where all its blocks are resident at once: a cooperative one, or of a kernel that may
 * wait for other blocks, if the whole GPU holds them. A grid that not even that holds cannot rely on it: its blocks
 * wait for earlier ones at most (decoupled look-back), which are there whatever the rung.
 */
int ds_launch_all_resident(
        const ds_sched *sched, const struct ds_launch *launch, uint64_t blocks, uint32_t blocks_per_sm);
