/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching: from the head of a coroutine to a stream of a rung, and back as a completion
 *
 * Every rung has a few streams per priority. A coroutine with work in flight stays on its stream, so the device keeps
 * its order. When the policy moves it to another rung or priority, the new stream is first fenced behind the old one.
 * With nothing in flight it uses its last stream index if that is free, else the least loaded one.
 *
 * A sample of a kernel's duration against SMs counts only if the kernel was alone on the GPU, as far as the scheduler
 * knows. At its launch nothing of another coroutine was in flight, and until its end nothing of another one was
 * launched. Earlier and later work of its own coroutine does not overlap it, because a coroutine is one stream. The
 * rule is conservative: work counts as in flight until its completion arrives. The scheduler does not know about other
 * processes on the GPU and the clearing of new memory. To get such samples it occasionally requests exact times from
 * the device, more often while there are few; see launch_tell().
 *
 * A kernel with other forms is launched in the one that forms.h chooses; if the device refuses that, in the native one.
 * let_go.h handles operations that return before their end, slices.h handles slices.
 *
 * Operations in flight are in a fixed table of slots. A token is a slot and a generation, so a completion finds its
 * operation at once, and an old token finds nothing.
 */
#pragma once

#include <stdint.h>

#include "sched/event.h"
#include "sched/sched.h"

struct ds_slot {
        struct ds_sched_event event; /* event COMPLETE; pending until the policy has seen it */
        struct ds_op *op;            /* operation in the slot; NULL after it has ended */
        struct detshare_op_view view;
        uint64_t coroutine;
        uint64_t start_ns, end_ns;
        uint32_t generation;
        uint32_t next_free;
        uint32_t rung, stream, class_;
        uint32_t stat_row;
        /* 1: at its launch nothing of another coroutine was in flight, and no bound on its resident blocks applies */
        uint8_t clean;
        uint64_t number;          /* number of the launch */
        uint32_t priority, flags; /* flags: enum ds_trace_flag, for the history */
        uint8_t slice;            /* 1: the slot is that of a slice; the sliced operation has another slot */
        uint8_t lets_go;          /* 1: counted in its coroutine's n_let_go */
        uint8_t trial;            /* 1: the launch measures the cost of its form */
        /* slot of a slice: its blocks; slot of a sliced operation: blocks that have run since its launch */
        uint32_t blocks;
        uint32_t max_blocks; /* bound on resident blocks, 0 = none */
        uint64_t evict_ns;   /* eviction time, ns */
};

struct ds_launch_target {
        uint32_t rung, priority, max_resident_blocks;
        uint32_t evictable; /* 1: the policy requested an evictable launch */
};

#define DS_SLOT_NONE UINT32_MAX

/*
 * Launches up to count operations from the head. Stops at an operation that is not ready. Returns the number of
 * operations that were launched or refused by the device with a CUDA error (which ends them), or a fatal errno.
 */
int ds_launch_head(ds_coroutine *coroutine, const struct ds_launch_target *target, uint32_t count, uint64_t now_ns);
/* Frees the slot of an operation whose COMPLETE event the policy has seen. */
void ds_slot_told(ds_sched *sched, struct ds_slot *slot);
struct ds_slot *ds_slot_take(ds_sched *sched); /* returns NULL if no slot is free */
uint64_t ds_slot_token(const ds_sched *sched, const struct ds_slot *slot);

/*
 * Passes the operation to the device with its slot's stream, bound and token. slice not NULL: passes only the
 * operation's next blocks, as many as the slice has, with the slice's token. Returns as ds_device_ops.launch.
 */
int ds_launch_submit(ds_sched *sched, struct ds_op *op, const struct ds_slot *slot, const struct ds_slot *slice);
/* Handles the completion of a slot's operation: its end, a kill or an eviction. */
void ds_launch_ended(ds_sched *sched, struct ds_slot *slot, const struct ds_completion *completion);

static inline uint64_t ds_launch_blocks(const struct ds_launch *launch)
{
        return (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
}

/*
 * Whether the launch can run only where all its blocks are resident at once. True for a cooperative launch, and for a
 * kernel that may wait for other blocks if the whole GPU holds its grid. A larger grid cannot rely on that: its blocks
 * can wait only for earlier ones (decoupled look-back), which are resident on any rung.
 */
int ds_launch_all_resident(
        const ds_sched *sched, const struct ds_launch *launch, uint64_t blocks, uint32_t blocks_per_sm);
