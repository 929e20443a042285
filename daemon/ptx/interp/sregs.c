/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Special registers
 *
 * All except the clocks are constant while a block runs. So they are filled once per warp into arrays that operands
 * name like any register; only those that the module reads are filled. The clocks count executed warp instructions (of
 * a cluster: of all its blocks together): they only increase, are the same in every run, and say nothing about real
 * time.
 */
#include "ptx/interp/core.h"

enum slot {
        SLOT_TID_X,
        SLOT_TID_Y,
        SLOT_TID_Z,
        SLOT_NTID_X,
        SLOT_NTID_Y,
        SLOT_NTID_Z,
        SLOT_CTAID_X,
        SLOT_CTAID_Y,
        SLOT_CTAID_Z,
        SLOT_NCTAID_X,
        SLOT_NCTAID_Y,
        SLOT_NCTAID_Z,
        SLOT_LANEID,
        SLOT_WARPID,
        SLOT_NWARPID,
        SLOT_SMID,
        SLOT_NSMID,
        SLOT_MASK_EQ,
        SLOT_MASK_LE,
        SLOT_MASK_LT,
        SLOT_MASK_GE,
        SLOT_MASK_GT,
        SLOT_TOTAL_SHARED,
        SLOT_DYNAMIC_SHARED,
        SLOT_CLUSTERID_X,
        SLOT_CLUSTERID_Y,
        SLOT_CLUSTERID_Z,
        SLOT_NCLUSTERID_X,
        SLOT_NCLUSTERID_Y,
        SLOT_NCLUSTERID_Z,
        SLOT_CLUSTER_CTAID_X,
        SLOT_CLUSTER_CTAID_Y,
        SLOT_CLUSTER_CTAID_Z,
        SLOT_CLUSTER_NCTAID_X,
        SLOT_CLUSTER_NCTAID_Y,
        SLOT_CLUSTER_NCTAID_Z,
        SLOT_CLUSTER_CTARANK,
        SLOT_CLUSTER_NCTARANK,
        SLOT_EXPLICIT, /* %is_explicit_cluster, a predicate */
        /* %envreg1 and %envreg2: address of a cooperative launch's workspace, upper and lower half */
        SLOT_WORKSPACE_HIGH,
        SLOT_WORKSPACE_LOW,
        SLOT_ZERO, /* 64 bits of zeros, in the last two slots */
        SLOT_ZERO_HIGH,
        _SLOT_MAX,
};

_Static_assert(_SLOT_MAX <= DS_IX_SREGS_SLOTS, "area too small");

static enum slot vector_slot(enum slot x, uint32_t component)
{
        return component < 3 ? (enum slot)(x + component) : SLOT_ZERO;
}

static enum slot find_slot(enum ds_ptx_sreg sreg, uint32_t component)
{
        switch (sreg) {
        case DS_PTX_SREG_TID:
                return vector_slot(SLOT_TID_X, component);
        case DS_PTX_SREG_NTID:
                return vector_slot(SLOT_NTID_X, component);
        case DS_PTX_SREG_CTAID:
                return vector_slot(SLOT_CTAID_X, component);
        case DS_PTX_SREG_NCTAID:
                return vector_slot(SLOT_NCTAID_X, component);
        case DS_PTX_SREG_CLUSTERID:
                return vector_slot(SLOT_CLUSTERID_X, component);
        case DS_PTX_SREG_NCLUSTERID:
                return vector_slot(SLOT_NCLUSTERID_X, component);
        case DS_PTX_SREG_CLUSTER_CTAID:
                return vector_slot(SLOT_CLUSTER_CTAID_X, component);
        case DS_PTX_SREG_CLUSTER_NCTAID:
                return vector_slot(SLOT_CLUSTER_NCTAID_X, component);
        case DS_PTX_SREG_CLUSTER_CTARANK:
                return SLOT_CLUSTER_CTARANK;
        case DS_PTX_SREG_CLUSTER_NCTARANK:
                return SLOT_CLUSTER_NCTARANK;
        case DS_PTX_SREG_IS_EXPLICIT_CLUSTER:
                return SLOT_EXPLICIT;
        case DS_PTX_SREG_LANEID:
                return SLOT_LANEID;
        case DS_PTX_SREG_WARPID:
                return SLOT_WARPID;
        case DS_PTX_SREG_NWARPID:
                return SLOT_NWARPID;
        case DS_PTX_SREG_SMID:
                return SLOT_SMID;
        case DS_PTX_SREG_NSMID:
                return SLOT_NSMID;
        case DS_PTX_SREG_LANEMASK_EQ:
                return SLOT_MASK_EQ;
        case DS_PTX_SREG_LANEMASK_LE:
                return SLOT_MASK_LE;
        case DS_PTX_SREG_LANEMASK_LT:
                return SLOT_MASK_LT;
        case DS_PTX_SREG_LANEMASK_GE:
                return SLOT_MASK_GE;
        case DS_PTX_SREG_LANEMASK_GT:
                return SLOT_MASK_GT;
        case DS_PTX_SREG_TOTAL_SMEM_SIZE:
        case DS_PTX_SREG_AGGR_SMEM_SIZE:
                return SLOT_TOTAL_SHARED;
        case DS_PTX_SREG_DYNAMIC_SMEM_SIZE:
                return SLOT_DYNAMIC_SHARED;
        case DS_PTX_SREG_ENVREG:
                return component == 1 ? SLOT_WORKSPACE_HIGH : component == 2 ? SLOT_WORKSPACE_LOW : SLOT_ZERO;
        default: /* performance counters and all other %envreg read zero, as on a machine without them */
                return SLOT_ZERO;
        }
}

uint32_t ds_ix_sreg_slot(enum ds_ptx_sreg sreg, uint32_t component)
{
        switch (sreg) {
        case DS_PTX_SREG_CLOCK:
        case DS_PTX_SREG_CLOCK_HI:
        case DS_PTX_SREG_CLOCK64:
        case DS_PTX_SREG_GLOBALTIMER:
        case DS_PTX_SREG_GLOBALTIMER_LO:
        case DS_PTX_SREG_GLOBALTIMER_HI:
                return DS_IX_NO_SLOT;
        default:
                return (uint32_t)find_slot(sreg, component) * DS_IX_SREGS_SLOT + DS_IX_IN_SREGS;
        }
}

/* --- filling --- */
/* Value of a special register about clusters; without clusters each block is a cluster of its own. */
static uint32_t cluster_value(const ds_ix_block *block, enum slot slot)
{
        const struct ds_ix_cluster *cluster = block->cluster;
        const uint32_t *grid = block->launch->grid;
        uint32_t i = (uint32_t)(slot - SLOT_CLUSTERID_X) % 3;

        switch (slot) {
        case SLOT_CLUSTERID_X:
        case SLOT_CLUSTERID_Y:
        case SLOT_CLUSTERID_Z:
                return block->ctaid[i] / cluster->dim[i];
        case SLOT_NCLUSTERID_X:
        case SLOT_NCLUSTERID_Y:
        case SLOT_NCLUSTERID_Z:
                return grid[i] / cluster->dim[i];
        case SLOT_CLUSTER_CTAID_X:
        case SLOT_CLUSTER_CTAID_Y:
        case SLOT_CLUSTER_CTAID_Z:
                return block->ctaid[i] % cluster->dim[i];
        case SLOT_CLUSTER_NCTAID_X:
        case SLOT_CLUSTER_NCTAID_Y:
        case SLOT_CLUSTER_NCTAID_Z:
                return cluster->dim[i];
        case SLOT_CLUSTER_CTARANK:
                return block->rank;
        case SLOT_CLUSTER_NCTARANK:
                return cluster->n;
        default:
                return block->launch->cluster[0] ? UINT32_MAX : 0;
        }
}

static uint32_t uniform_value(const ds_ix_block *block, const ds_ix_warp *w, enum slot slot)
{
        const struct ds_interp_launch *launch = block->launch;

        switch (slot) {
        case SLOT_NTID_X:
        case SLOT_NTID_Y:
        case SLOT_NTID_Z:
                return launch->block[slot - SLOT_NTID_X];
        case SLOT_CTAID_X:
        case SLOT_CTAID_Y:
        case SLOT_CTAID_Z:
                return block->ctaid[slot - SLOT_CTAID_X];
        case SLOT_NCTAID_X:
        case SLOT_NCTAID_Y:
        case SLOT_NCTAID_Z:
                return launch->grid[slot - SLOT_NCTAID_X];
        case SLOT_WARPID:
                return w->index;
        case SLOT_NWARPID:
                return block->n_warps;
        case SLOT_SMID:
                return launch->sm_id;
        case SLOT_NSMID:
                return launch->n_sms;
        case SLOT_TOTAL_SHARED:
                return block->shared_size;
        case SLOT_DYNAMIC_SHARED:
                return launch->dynamic_shared;
        case SLOT_WORKSPACE_HIGH:
                return (uint32_t)(launch->workspace >> 32);
        case SLOT_WORKSPACE_LOW:
                return (uint32_t)launch->workspace;
        case SLOT_ZERO:
        case SLOT_ZERO_HIGH:
                return 0;
        default:
                return cluster_value(block, slot);
        }
}

static uint32_t mask_value(enum slot slot, uint32_t lane)
{
        uint32_t bit = 1u << lane;

        switch (slot) {
        case SLOT_LANEID:
                return lane;
        case SLOT_MASK_EQ:
                return bit;
        case SLOT_MASK_LE:
                return bit | (bit - 1);
        case SLOT_MASK_LT:
                return bit - 1;
        case SLOT_MASK_GE:
                return ~(bit - 1);
        default:
                return ~(bit | (bit - 1));
        }
}

/* Fills %tid by counting from the warp's first thread, without a division per lane. */
static void fill_tid(const uint32_t *dim, uint32_t first, enum slot slot, uint32_t *to)
{
        uint32_t at[3] = {first % dim[0], first / dim[0] % dim[1], first / dim[0] / dim[1]};

        for (uint32_t i = 0; i < DS_IX_LANES; i++) {
                to[i] = at[slot - SLOT_TID_X];
                if (++at[0] < dim[0])
                        continue;
                at[0] = 0;
                at[2] += ++at[1] == dim[1];
                at[1] = at[1] == dim[1] ? 0 : at[1];
        }
}

void ds_ix_sregs_fill(const ds_ix_block *block, ds_ix_warp *w)
{
        uint32_t *area = (uint32_t *)(void *)w->base[DS_IX_IN_SREGS];

        for (uint64_t left = block->interp->sregs_used; left; left &= left - 1) {
                enum slot slot = (enum slot)__builtin_ctzll(left);
                uint32_t *to = area + (size_t)slot * DS_IX_LANES, value;

                if (slot <= SLOT_TID_Z) {
                        fill_tid(block->launch->block, w->index * DS_IX_LANES, slot, to);
                } else if (slot == SLOT_LANEID || (slot >= SLOT_MASK_EQ && slot <= SLOT_MASK_GT)) {
                        for (uint32_t i = 0; i < DS_IX_LANES; i++)
                                to[i] = mask_value(slot, i);
                } else {
                        value = uniform_value(block, w, slot);
                        for (uint32_t i = 0; i < DS_IX_LANES; i++)
                                to[i] = value;
                }
        }
}

/* --- clocks --- */
const ds_ix_op *ds_ix_clock(ds_ix_warp *w, const ds_ix_op *op)
{
        uint64_t now = w->block->cluster->executed + (uint64_t)((int64_t)w->slice - w->fuel);
        uint8_t *d = ds_ix_lanes(w, op->d);

        w->spun = 1;
        /* reading a clock costs an instruction, so that a loop that waits for the clock reaches its budget */
        w->fuel--;
        if (op->mode >= DS_PTX_SREG_GLOBALTIMER)
                now += w->block->launch->clock_ns;
        else if (w->block->launch->waited)
                now += *w->block->launch->waited;
        if (op->mode == DS_PTX_SREG_CLOCK_HI || op->mode == DS_PTX_SREG_GLOBALTIMER_HI)
                now >>= 32;
        for (uint32_t i = 0; i < DS_IX_LANES; i++) {
                if (w->mask >> i & 1)
                        memcpy(d + (size_t)i * op->n, &now, op->n);
        }
        return op + 1;
}
