/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool: memory whose channels are known, of which sessions borrow slabs
 *
 * It is set aside before the worker is READY and labelled then, while nothing else is on the device; later nobody could
 * measure anything. Its addresses are its own, outside of all windows and the same in every worker's life: on a GPU the
 * channels are those of the memory behind, on a simulated device those of the address, and neither changes.
 *
 * A slab is lent as a whole and is mapped in its borrower's space alone, so that nobody's bytes lie beside another's
 * for the price of the sectors that the borrower has no use for. It is cleared before each loan, by work of the
 * borrower's that nobody else waits for, and counts against the session's limit.
 *
 * The files are handed on: the supervisor keeps them, and who has what, and the next worker is given both. What is
 * known of the channels is one sealed file for that worker, for clients and for who asks (struct ds_pool_file).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "internal.pb-c.h"
#include "proto/wire.h"
#include "sched/sched.h"
#include "worker/worker.h"

struct dsw_session;
struct dsw_call;
struct dsw_op;

/* Above all windows, and below where the kernel puts programs. */
#define DSW_POOL_BASE UINT64_C(0x500000000000)
#define DSW_POOL_BYTES_MAX (UINT64_C(1) << 38)

struct dsw_pool_slab {
        int fd;                     /* -1: there is none */
        struct dsw_session *holder; /* NULL: nobody */
};

struct dsw_pool {
        struct ds_pool_file facts; /* n_slabs 0: there is no pool */
        int file;
        struct dsw_pool_slab slabs[DS_POOL_SLABS_MAX];
};

/* Of a session; all zero: it has none */
struct dsw_loan {
        uint64_t slabs, hidden;  /* a bit each; hidden: its client has not been told of it, or gave it back */
        ds_coroutine *coroutine; /* what clears runs there; NULL: none yet */
        struct dsw_op *clearing; /* on its way; one at a time */
};

void dsw_pool_init(struct dsw_pool *pool);
void dsw_pool_deinit(struct dsw_pool *pool);
/*
 * pool_make.c: set it aside and find its channels; it may take seconds. Without a pool in the configuration, or where
 * it cannot be had (said in a line), there is none. 0, or a negative errno: the device is not to be trusted any more.
 */
int dsw_pool_make(ds_worker *worker, const struct ds_worker_config *config);
/* What is known as a sealed memory file; classes: a byte for each sector. 0 or a negative errno. */
int dsw_pool_file_make(const struct ds_pool_file *facts, const uint8_t *classes, int *ret_fd);
/* To the supervisor, after Ready. */
void dsw_pool_tell(ds_worker *worker);
/* A piece of the pool of the worker before; takes the fd. 0 or a daemon status. */
int dsw_pool_take(ds_worker *worker, const Detshare__Internal__PoolPiece *piece, int *fd);

uint64_t dsw_pool_address(const struct dsw_pool *pool, uint32_t slab);
uint32_t dsw_pool_free_slabs(const struct dsw_pool *pool);
/* Bytes that the session has of it. */
uint64_t dsw_pool_used(const struct dsw_session *session);
/* Map a free slab in the session's space; it is hidden until it is published. 0; OUT_OF_MEMORY with *ret_why, or a
 * negative errno. */
int dsw_pool_borrow(struct dsw_session *session, uint32_t *ret_slab, const char **ret_why);
/* Clear it; the call hears of the end as of a Read's. 0, STALLED, or OUT_OF_MEMORY. */
int dsw_pool_clear(struct dsw_session *session, uint32_t slab, struct dsw_call *call);
void dsw_pool_publish(struct dsw_session *session, uint32_t slab);
void dsw_pool_cleared(struct dsw_op *op, int status); /* an operation without a stream has ended */
/* It has it, and has not given it back: marks it as being given back. 0 or -ENOENT. */
int dsw_pool_begin_return(struct dsw_session *session, uint32_t slab);
void dsw_pool_return(struct dsw_session *session, uint32_t slab); /* no work uses it any more */
void dsw_pool_return_all(struct dsw_session *session);
int dsw_pool_restore(struct dsw_session *session, uint32_t slab); /* 0, a daemon status, or a negative errno */
void dsw_pool_reset(struct dsw_session *session);                 /* its coroutines are going */
