/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of coloured memory, as the supervisor keeps it: files that outlive a worker
 *
 * A worker that has made a pool (daemon/worker/pool.h) says so behind its Ready, piece by piece. All later workers are
 * given the pieces before anything else, so that a session's slabs are what they were. A pool that is not complete when
 * its worker ends is forgotten, and the next worker makes another. Which session has which slab stands in the ledgers.
 * At a planned restart of the daemon a pool of which sessions have some goes to the next daemon with them.
 *
 * The file of facts is the worker's word: it is checked before a figure of it is shown or reckoned with.
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
        int slabs[DS_POOL_SLABS_MAX], file; /* -1: none */
        struct ds_pool_file facts;          /* when it is complete */
};

void ds_pool_init(struct ds_pool *pool);
void ds_pool_deinit(struct ds_pool *pool);
/* The words of a worker that was not given one; takes the fd. 0 or -EPROTO. */
int ds_pool_take(struct ds_pool *pool, const Detshare__Internal__PoolPiece *piece, int *fd);
/*
 * A piece of a supervisor before (handover.h): as above, and checked as what anybody could have written. device: the
 * files of slabs are of a GPU's driver, or a simulated device's memory. The slabs that are lent are told by sessions.
 */
int ds_pool_take_over(struct ds_pool *pool, const Detshare__Internal__PoolPiece *piece, int simulated, int *fd);
/* For the next one: fn is called with each piece, and its file, in order, until it returns nonzero, which is returned.
 */
typedef int (*ds_pool_piece_fn)(void *user, Detshare__Internal__PoolPiece *piece, int fd);
int ds_pool_show(const struct ds_pool *pool, ds_pool_piece_fn fn, void *user);
/* To a worker that has just become ready: all of it, if there is one; else what was begun is forgotten. 0 or -EPIPE. */
int ds_pool_give(struct ds_pool *pool, struct ds_worker_link *link);
/*
 * Best effort's share as the worker is told it; NULL: there is to be no pool, and *ret_why says why. "auto": what was
 * measured (calibration.h) on the GPU, gpu; NULL: which that is nobody knows yet.
 */
const char *ds_pool_wanted(const struct ds_config *config, const struct ds_calibration *calibration, const char *gpu,
        const char **ret_why);
/* How long a worker may take until it is ready that makes such a pool: all of it may have to be probed. */
uint32_t ds_pool_patience_ms(const struct ds_config *config);
/* How many slabs sessions have. */
uint32_t ds_pool_lent(const struct ds_supervisor *supervisor);
/* Into the status; lent: slabs that sessions have. The list of channels is written to `list`. */
void ds_pool_status(const struct ds_pool *pool, const struct ds_config *config,
        const struct ds_calibration *calibration, const char *gpu, uint32_t lent,
        uint32_t list[static DS_POOL_CHANNELS_MAX], Detshare__StatusReply *status);
