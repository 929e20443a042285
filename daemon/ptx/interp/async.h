/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mbarriers and bulk copies
 *
 * An mbarrier is 64 bits of shared memory that count arrivals and bytes: a phase is complete when all expected ones
 * have come. Its state is only in these 64 bits. So a program may store it anywhere, copy it or overwrite it; at worst
 * it counts wrong. PTX calls the bits opaque. The phase bit, and the arrival counts (which count up to zero), are at an
 * H200's positions; the other bits are invented:
 *
 *      63 phase   43..62 - missing arrivals   21..41 bytes still to come   1..20 - arrivals of a phase   0 initialised
 *
 * The state that an arrival returns is the previous value of the object; only its phase and its missing arrivals are
 * read again. Behaviour that PTX leaves undefined is a fault here: more arrivals than are missing, counts out of range,
 * an object that was never initialised.
 *
 * A copy is done when it is issued, one of the times at which hardware may do it, and its bytes are counted at its
 * mbarrier at once. So waits for groups of copies never wait. A copy is checked as a whole before any byte is moved,
 * and costs instructions by its size.
 *
 * A thread whose wait fails yields: a loop around mbarrier.try_wait lets the others run. When a block has only waited
 * for a long time, each wait takes a time slice. So clocks advance, and a block whose mbarriers can never complete
 * reaches its budget.
 */
#pragma once

#include "ptx/interp/decode.h"

enum ds_ix_arrival {
        DS_IX_ARRIVE_DROP = 1 << 0, /* later phases expect fewer arrivals, by the count of this arrival */
};

/* Operands of the mbarrier operations: a f imm space: address of the mbarrier; b: count of init, bytes of expect_tx
 * and complete_tx, or count of arrive (NO_SLOT: 1). */
const ds_ix_op *ds_ix_mbarrier_init(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_mbarrier_inval(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_mbarrier_expect(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_mbarrier_complete(ds_ix_warp *w, const ds_ix_op *op);
/* Arrival. c: bytes to expect, or NO_SLOT; d: returned state; mode: enum ds_ix_arrival */
const ds_ix_op *ds_ix_mbarrier_arrive(ds_ix_warp *w, const ds_ix_op *op);
/* cp.async.mbarrier.arrive without .noinc: an arrival that is expected in addition */
const ds_ix_op *ds_ix_mbarrier_touch(ds_ix_warp *w, const ds_ix_op *op);
/* Wait, a control operation. b: the state, or the phase's parity if mode is set; d: the resulting predicate */
const ds_ix_op *ds_ix_mbarrier_wait(ds_ix_warp *w, const ds_ix_op *op);
/* pending_count. a: state; d: the number of missing arrivals in it */
const ds_ix_op *ds_ix_mbarrier_pending(ds_ix_warp *w, const ds_ix_op *op);
/* Counts bytes that have arrived at the mbarrier at a generic address. 0: faulted. */
int ds_ix_mbarrier_bytes(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, uint64_t address, uint32_t bytes);

/* Computes the generic address of the operand in a f imm space. d: the result */
const ds_ix_op *ds_ix_address_of(ds_ix_warp *w, const ds_ix_op *op);

enum ds_ix_bulk {
        DS_IX_BULK_FROM_SHARED = 1 << 0,
        DS_IX_BULK_TO_SHARED = 1 << 1,
        DS_IX_BULK_MULTICAST = 1 << 2, /* copies to the same location in every block whose bit is set in e */
};
/*
 * Bulk copy, a control operation. a: source, b: destination, f: mbarrier or NO_SLOT, all generic addresses; c: bytes;
 * e: mask of the bytes of each 16, or NO_SLOT; mode: enum ds_ix_bulk; ext: the reduction of elements, or NULL
 */
const ds_ix_op *ds_ix_bulk_copy(ds_ix_warp *w, const ds_ix_op *op);

/* cp.async of a part. a: source, b: destination, both generic addresses; n: bytes to write; c: bytes to copy, the
 * rest become zeros; e: predicate that is true to copy none */
const ds_ix_op *ds_ix_copy_some(ds_ix_warp *w, const ds_ix_op *op);

/* Reduction of one element. alone: 1 if the cell is in shared memory, where no other thread writes at the same time */
struct ds_ix_reduction {
        void (*apply)(void *cell, const void *with, int alone);
        uint32_t bytes;
};
/* Reduction for an operation and a type; NULL: there is none. */
const struct ds_ix_reduction *ds_ix_find_reduction(enum ds_ptx_modifier what, enum ds_ptx_type type);
