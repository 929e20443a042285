/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the form in which a kernel is launched: native, sliced or persistent (ptx/pass/forms.h)
 *
 * The native form occupies the GPU until its last block has run. The others can be evicted earlier, at a cost: more
 * launches, or a counter per block. The choice is made per kernel and launch shape:
 *  - never, always: configured. "Always" uses the persistent form if there is one, else the sliced one;
 *  - auto: only for BE, and only if the policy requested an evictable launch. A kernel that takes no longer than the
 *    bound on evictions stays native. Otherwise, forms with an eviction time within the bound are first measured a few
 *    times, alone on the GPU and with exact times; then the cheapest is used. If no form meets the bound because a
 *    single block takes longer, the form with the shortest eviction time is used, if that halves the wait. A form that
 *    makes the kernel longer by more than FORMS_DEAR is not used.
 *
 * An eviction of the persistent form takes as long as the blocks of one worker: one block, or as many as take about a
 * tenth of the bound. An eviction of the sliced form takes as long as the slices on the device. There are two, so that
 * one follows the other without a gap; each has as many waves of blocks as take half of the bound. The duration of a
 * block is the kernel's duration divided by its waves.
 *
 * Kernels whose blocks may wait for others use forms only in mode "always", and only if the grid is larger than the
 * whole GPU holds at once (struct ds_sched_forms). Launches with clusters and cooperative launches have no forms.
 *
 * Not guaranteed: that an eviction meets the bound. Block durations are means of the past, and blocks of a grid may
 * differ.
 */
#pragma once

#include <stdint.h>

#include "sched/sched.h"

#define DS_FORMS_SLICES 2u /* slices of a kernel on the device at once */

struct ds_slot;
struct ds_place;

/* The chosen form of a launch. */
struct ds_form {
        enum ds_ptx_form form;
        uint32_t chunk, slice;
        uint64_t evict_ns; /* eviction time, ns; 0 = cannot be evicted, or not known */
        int trial;         /* 1: a measurement of the form's cost */
};

/* Forms that an operation may use, as DETSHARE_FORM_ bits. The caller has filled in the other fields of view. */
uint32_t ds_forms_of(const ds_sched *sched, const struct ds_op *op, const struct detshare_op_view *view);
/* Fills in the view's eviction attributes from current statistics. The caller has filled in the other fields of
 * view. */
void ds_forms_show(const ds_sched *sched, uint32_t stat_row, struct detshare_op_view *view);
/*
 * Chooses the form of a coroutine's head on the slot's rung with at most max_resident_blocks resident blocks (0 = as
 * many as fit). evictable: the policy requested an evictable launch. Stores the reason for ds_sched_form_chosen().
 */
void ds_forms_choose(const ds_coroutine *coroutine, const struct ds_op *op, const struct ds_slot *slot,
        uint32_t max_resident_blocks, int evictable, struct ds_form *ret);
/*
 * Records that the device refused the operation's form with this CUDA error. Later launches of the kernel in this shape
 * use another form, unless the error may be temporary.
 */
void ds_forms_refused(ds_sched *sched, const struct ds_op *op, int status);
/* Records the duration of a form on this many SMs, measured alone on the GPU. */
void ds_forms_sample(ds_sched *sched, const struct ds_op *op, uint32_t n_sms, uint64_t duration_ns);
