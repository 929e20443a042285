/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters: barrier.cluster, and the block that owns an address of shared memory
 *
 * The barrier has two halves. A thread arrives and may continue. A thread that waits continues when all threads of the
 * cluster that have not exited have arrived. The next arrival belongs to the next barrier, so a thread must wait in
 * between: PTX leaves the other case undefined, and here it is a fault. Each warp records the lanes that have arrived
 * and not waited, and those of them whose barrier is complete. At most two barriers are in progress: the complete one
 * and the next.
 */
#include "ptx/interp/lane.h"

/* If all threads of the cluster have arrived, releases the waiting groups; lanes that wait later do not block. */
static int release(struct ds_ix_cluster *cluster)
{
        if (!cluster->arrived || cluster->arrived < cluster->live_threads)
                return 0;
        cluster->arrived = 0;
        for (uint32_t b = 0; b < cluster->n; b++) {
                for (uint32_t k = 0; k < cluster->block[b]->n_started; k++) {
                        ds_ix_warp *w = &cluster->block[b]->warp[k];

                        for (uint32_t i = 0; i < w->n_groups; i++) {
                                if (w->group[i].state != DS_IX_WAIT_CLUSTER)
                                        continue;
                                w->group[i].state = DS_IX_READY;
                                w->cluster_arrived &= ~w->group[i].mask;
                                w->others++;
                        }
                        w->cluster_complete = w->cluster_arrived;
                }
        }
        return 1;
}

/* Counts exited lanes out: barrier.cluster no longer waits for them, and their earlier arrivals do not count. */
void ds_ix_cluster_exit(ds_ix_warp *w, uint32_t leaving)
{
        struct ds_ix_cluster *cluster = w->block->cluster;

        cluster->live_threads -= (uint32_t)__builtin_popcount(leaving);
        cluster->arrived -= (uint32_t)__builtin_popcount(leaving & w->cluster_arrived & ~w->cluster_complete);
        w->cluster_arrived &= ~leaving;
        w->cluster_complete &= ~leaving;
        (void)release(cluster);
}

const ds_ix_op *ds_ix_cluster_arrive(ds_ix_warp *w, const ds_ix_op *op)
{
        struct ds_ix_cluster *cluster = w->block->cluster;
        uint32_t again = w->mask & w->cluster_arrived;

        w->cost.barriers++;
        if (again)
                return ds_ix_fault(w, op, DS_INTERP_FAULT_ILLEGAL, (uint32_t)__builtin_ctz(again), 0,
                        "a thread arrives at the cluster's barrier twice without waiting");
        w->cluster_arrived |= w->mask;
        cluster->arrived += (uint32_t)__builtin_popcount(w->mask);
        if (release(cluster) && w->others)
                return ds_ix_switch(w, op + 1);
        return op + 1;
}

const ds_ix_op *ds_ix_cluster_wait(ds_ix_warp *w, const ds_ix_op *op)
{
        uint32_t without = w->mask & ~w->cluster_arrived, complete = w->mask & w->cluster_complete;

        if (without)
                return ds_ix_fault(w, op, DS_INTERP_FAULT_ILLEGAL, (uint32_t)__builtin_ctz(without), 0,
                        "a thread waits at the cluster's barrier without having arrived");
        if (!complete)
                return ds_ix_wait(w, op + 1, DS_IX_WAIT_CLUSTER);
        /* the group has lanes of two consecutive barriers: those of the later one wait here */
        if (complete != w->mask)
                ds_ix_split(w, w->mask & ~complete, op);
        w->cluster_arrived &= ~complete;
        w->cluster_complete &= ~complete;
        return op + 1;
}

/* --- addresses --- */
#define RANK_MAX 255u
#define RANK_BITS ((uint64_t)RANK_MAX << DS_IX_RANK_SHIFT)

/* mapa: the address of the same location in the block with another rank. Accesses with a rank that does not exist
 * fault. */
#define MAPA(x, rank) (((x) & ~RANK_BITS) | (uint64_t)((rank) < RANK_MAX ? (rank) : RANK_MAX) << DS_IX_RANK_SHIFT)
DS_IX_OP2(mapa_32, uint32_t, uint32_t, uint32_t, MAPA((uint64_t)x, y))
DS_IX_OP2(mapa_64, uint64_t, uint64_t, uint32_t, MAPA(x, y))
DS_IX_OP1(rank_32, uint32_t, uint32_t, x >> DS_IX_RANK_SHIFT & RANK_MAX)
DS_IX_OP1(rank_64, uint32_t, uint64_t, x >> DS_IX_RANK_SHIFT & RANK_MAX)

const struct ds_ix_impl *ds_ix_find_mapa(uint32_t bytes)
{
        return bytes == 8 ? &mapa_64 : bytes == 4 ? &mapa_32 : NULL;
}

const struct ds_ix_impl *ds_ix_find_getctarank(uint32_t bytes)
{
        return bytes == 8 ? &rank_64 : bytes == 4 ? &rank_32 : NULL;
}
