/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which form a kernel is launched: native, sliced or persistent (ptx/pass/forms.h)
 *
 * The native form holds the GPU until its last block has run. The others let go sooner, and cost something: more
 * launches, or a counter per block. So which is used is decided per kernel and shape, and by what was measured:
 *  - never, always: as the daemon was told; always takes the persistent form where there is one, else the sliced one;
 *  - auto: only for BE, and only if the policy asked for something that can be evicted. Where the kernel takes no
 * longer than the bound on evictions its own end is near enough. Else each form is taken that would let go within the
 *    bound: a few times to time it, alone on the GPU and with exact times, then the cheapest. Where no form lets go
 *    within the bound, since a single block takes longer, the one that does soonest, if that halves the wait. A form
 *    that makes the kernel longer by more than FORMS_DEAR is not used.
 *
 * An eviction of the persistent form takes as long as a worker's blocks: one, or as many as take about a tenth of the
 * bound. That of the sliced form takes as long as the slices on the device, of which there are two so
 * that one follows the other without a gap: each has as many waves of blocks as take half of the bound. How long a
 * block takes is the kernel's time over its waves.
 *
 * Kernels whose blocks may wait for others have forms only where everything is transformed and the grid is larger than
 * what the whole GPU holds at once (struct ds_sched_forms). Clusters and cooperative launches have none.
 *
 * What is not promised: that a bound holds. Blocks' times are means of the past, and blocks of a grid may differ.
 */
#pragma once

#include <stdint.h>

#include "sched/sched.h"

#define DS_FORMS_SLICES 2u /* of a kernel on the device at once */

struct ds_slot;
struct ds_place;

/* How an operation is launched. */
struct ds_form {
        enum ds_ptx_form form;
        uint32_t chunk, slice;
        uint64_t evict_ns; /* 0 = it does not let go, or not known */
        int trial;         /* to learn what the form costs */
};

/* The forms that an operation may have, DETSHARE_FORM_ bits; view: the rest of it is written. */
uint32_t ds_forms_of(const ds_sched *sched, const struct ds_op *op, const struct detshare_op_view *view);
/* What a policy is told about evicting it, by what the statistics say now; the view has that already. */
void ds_forms_show(const ds_sched *sched, uint32_t stat_row, struct detshare_op_view *view);
/*
 * The form for the head of a coroutine, on the slot's rung, where so many of its blocks may be resident (0 = what
 * fits). evictable: the policy asked for it. Remembers why, for ds_sched_form_chosen.
 */
void ds_forms_choose(const ds_coroutine *coroutine, const struct ds_op *op, const struct ds_slot *slot,
        uint32_t max_resident_blocks, int evictable, struct ds_form *ret);
/*
 * The device would not launch it in its form, for that CUDA error. Other launches of the kernel in this shape have
 * another form then, but where the error may be gone by then.
 */
void ds_forms_refused(ds_sched *sched, const struct ds_op *op, int status);
/* A form of the kernel took so long on so many SMs, alone. */
void ds_forms_sample(ds_sched *sched, const struct ds_op *op, uint32_t n_sms, uint64_t duration_ns);
