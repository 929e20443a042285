/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool: memory with known channels, of which sessions borrow slabs
 *
 * The worker allocates the pool before it is READY and labels it then, while nothing else runs; later no measurement
 * would be possible. Its addresses lie outside all windows and are the same in every worker's life. On a GPU the
 * channels are those of the physical memory, on a simulated device those of the address, and neither changes.
 *
 * A slab is lent as a whole and mapped only in its borrower's space. So no bytes of two sessions are adjacent, at the
 * price of the sectors that the borrower does not use. The slab is cleared before each loan, by work of the borrower
 * that no other session waits for, and counts towards the session's limit.
 *
 * The supervisor keeps the files and the list of borrowers, and passes both to the next worker. The channel labels are
 * one sealed file, for the next worker and for clients (struct ds_pool_file).
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

/* Above all windows, and below the addresses where the kernel puts programs. */
#define DSW_POOL_BASE UINT64_C(0x500000000000)
#define DSW_POOL_BYTES_MAX (UINT64_C(1) << 38)

struct dsw_pool_slab {
        int fd;                     /* -1: there is none */
        struct dsw_session *holder; /* NULL: not lent */
};

struct dsw_pool {
        struct ds_pool_file facts; /* n_slabs 0: there is no pool */
        int file;
        struct dsw_pool_slab slabs[DS_POOL_SLABS_MAX];
};

/* The slabs of a session; all zero: none */
struct dsw_loan {
        uint64_t slabs, hidden;  /* bit sets; hidden: its client does not know the slab yet, or has returned it */
        ds_coroutine *coroutine; /* coroutine of the clearing work; NULL until the first use */
        struct dsw_op *clearing; /* in flight; one at a time */
};

void dsw_pool_init(struct dsw_pool *pool);
void dsw_pool_deinit(struct dsw_pool *pool);
/*
 * pool_make.c: allocates the pool and finds its channels, which may take seconds. There is no pool if the configuration
 * has none or if it cannot be made (a log line gives the reason). Returns 0, or a negative errno: the device is
 * unusable.
 */
int dsw_pool_make(ds_worker *worker, const struct ds_worker_config *config);
/* Stores the labels in a sealed memory file; classes: a byte per sector. Returns 0 or a negative errno. */
int dsw_pool_file_make(const struct ds_pool_file *facts, const uint8_t *classes, int *ret_fd);
/* Sends the pool's description to the supervisor, after Ready. */
void dsw_pool_tell(ds_worker *worker);
/* Receives a piece of the previous worker's pool; takes the fd. Returns 0 or a daemon status. */
int dsw_pool_take(ds_worker *worker, const Detshare__Internal__PoolPiece *piece, int *fd);

uint64_t dsw_pool_address(const struct dsw_pool *pool, uint32_t slab);
uint32_t dsw_pool_free_slabs(const struct dsw_pool *pool);
/* Bytes of the pool that the session has. */
uint64_t dsw_pool_used(const struct dsw_session *session);
/* Maps a free slab in the session's space; it is hidden until it is published. Returns 0; OUT_OF_MEMORY with
 * *ret_why; or a negative errno. */
int dsw_pool_borrow(struct dsw_session *session, uint32_t *ret_slab, const char **ret_why);
/* Clears the slab; the call is completed as by a Read. Returns 0, STALLED, or OUT_OF_MEMORY. */
int dsw_pool_clear(struct dsw_session *session, uint32_t slab, struct dsw_call *call);
void dsw_pool_publish(struct dsw_session *session, uint32_t slab);
void dsw_pool_cleared(struct dsw_op *op, int status); /* an operation without a stream has ended */
/* Marks a slab of the session as being returned. Returns 0, or -ENOENT if it has none such or has returned it
 * already. */
int dsw_pool_begin_return(struct dsw_session *session, uint32_t slab);
void dsw_pool_return(struct dsw_session *session, uint32_t slab); /* no work uses it any more */
void dsw_pool_return_all(struct dsw_session *session);
int dsw_pool_restore(struct dsw_session *session, uint32_t slab); /* 0, a daemon status, or a negative errno */
void dsw_pool_reset(struct dsw_session *session);                 /* its coroutines are about to be freed */
