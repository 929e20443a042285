/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of coloured memory in the supervisor: files that outlive a worker
 *
 * A worker that has made a pool (daemon/worker/pool.h) sends its pieces after Ready. Every later worker receives the
 * pieces before any other message, so that sessions keep their slabs. If a worker ends before its pool is complete, the
 * pieces are dropped and the next worker makes a new pool. The ledgers record which session has which slab. At a
 * planned restart of the daemon, a pool that sessions use goes to the next daemon with them.
 *
 * The file of facts is written by the worker, so it is checked before any value of it is used.
 */
#pragma once

#include <stdint.h>

#include "internal.pb-c.h"
#include "proto/wire.h"

struct ds_calibration;
struct ds_config;
struct ds_supervisor;
struct ds_worker_link;

struct ds_pool {
        int complete;
        uint32_t n_taken;
        /* descriptors of the slabs' files and of the file of channel labels; -1: none */
        int slabs[DS_POOL_SLABS_MAX], file;
        struct ds_pool_file facts; /* valid when complete */
};

void ds_pool_init(struct ds_pool *pool);
void ds_pool_deinit(struct ds_pool *pool);
/* Adds a piece of the pool that a worker has made. Consumes the fd. Returns 0 or -EPROTO. */
int ds_pool_take(struct ds_pool *pool, const Detshare__Internal__PoolPiece *piece, int *fd);
/*
 * Adds a piece that the previous supervisor stored (handover.h), checked as untrusted input. simulated: slabs are files
 * of a simulated device's memory, otherwise of a GPU's driver. The sessions' records say which slabs are lent.
 */
int ds_pool_take_over(struct ds_pool *pool, const Detshare__Internal__PoolPiece *piece, int simulated, int *fd);
/* Passes each piece of the pool and its file to fn, in order, until fn returns nonzero. Returns the last result of
 * fn. */
typedef int (*ds_pool_piece_fn)(void *user, Detshare__Internal__PoolPiece *piece, int fd);
int ds_pool_show(const struct ds_pool *pool, ds_pool_piece_fn fn, void *user);
/* Called for a worker that has just become ready: sends the whole pool if there is one, otherwise drops an
 * incomplete one. Returns 0 or -EPIPE. */
int ds_pool_give(struct ds_pool *pool, struct ds_worker_link *link);
/*
 * Returns BE's share of the channels as text for the worker. NULL: no pool shall be made, for the reason in *ret_why.
 * With "auto" it is the measured share (calibration.h) of the GPU `gpu`; gpu NULL: the GPU is not known yet.
 */
const char *ds_pool_wanted(const struct ds_config *config, const struct ds_calibration *calibration, const char *gpu,
        const char **ret_why);
/* Time that a worker may take until it is ready, ms, if it makes the configured pool: it may have to probe all of
 * the pool. */
uint32_t ds_pool_patience_ms(const struct ds_config *config);
/* Number of the pool's slabs that sessions have. */
uint32_t ds_pool_lent(const struct ds_supervisor *supervisor);
/* Fills in the pool's part of the status. lent: number of slabs that sessions have. The channel numbers are written
 * to `list`. */
void ds_pool_status(const struct ds_pool *pool, const struct ds_config *config,
        const struct ds_calibration *calibration, const char *gpu, uint32_t lent,
        uint32_t list[static DS_POOL_CHANNELS_MAX], Detshare__StatusReply *status);
