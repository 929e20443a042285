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

/* Addresses of the pool: above all windows, and below the addresses where the operating system puts programs. */
#define DSW_POOL_BASE UINT64_C(0x500000000000)
#define DSW_POOL_BYTES_MAX (UINT64_C(1) << 38)

struct dsw_pool_slab {
        int fd;                     /* memory file of the slab; -1: there is no such slab */
        struct dsw_session *holder; /* borrower of the slab; NULL: not lent */
};

struct dsw_pool {
        struct ds_pool_file facts; /* description of the pool; n_slabs 0: there is no pool */
        int file;
        struct dsw_pool_slab slabs[DS_POOL_SLABS_MAX];
};

/* The slabs of a session; all zero: none */
struct dsw_loan {
        /* bit sets of slabs; hidden: slabs whose address the client does not know yet, or that it has returned */
        uint64_t slabs, hidden;
        ds_coroutine *coroutine; /* coroutine of the clearing work; NULL until the first use */
        struct dsw_op *clearing; /* the clearing in flight; NULL: none. A session clears one slab at a time */
};

void dsw_pool_init(struct dsw_pool *pool);
void dsw_pool_deinit(struct dsw_pool *pool);
/*
 * pool_make.c: allocates the pool and finds its channels, which may take seconds. The worker has no pool if the
 * configuration asks for none or if making it fails (a log line gives the reason). Returns 0, or a negative errno: the
 * device is unusable.
 */
int dsw_pool_make(ds_worker *worker, const struct ds_worker_config *config);
/* Stores the labels in a sealed memory file. `classes` holds one byte per sector. Returns 0 or a negative errno. */
int dsw_pool_file_make(const struct ds_pool_file *facts, const uint8_t *classes, int *ret_fd);
/* Sends the pool's description to the supervisor. Called after Ready. */
void dsw_pool_tell(ds_worker *worker);
/* Receives a piece of the previous worker's pool; takes the fd. Returns 0 or a daemon status. */
int dsw_pool_take(ds_worker *worker, const Detshare__Internal__PoolPiece *piece, int *fd);

uint64_t dsw_pool_address(const struct dsw_pool *pool, uint32_t slab);
uint32_t dsw_pool_free_slabs(const struct dsw_pool *pool);
/* Bytes of the pool that the session has borrowed. */
uint64_t dsw_pool_used(const struct dsw_session *session);
/* Maps a free slab in the session's space. The slab is hidden from the client until dsw_pool_publish(). Returns 0;
 * OUT_OF_MEMORY with *ret_why; or a negative errno. */
int dsw_pool_borrow(struct dsw_session *session, uint32_t *ret_slab, const char **ret_why);
/* Clears the slab; the end of the clearing completes `call`, as the end of a Read does. Returns 0, STALLED, or
 * OUT_OF_MEMORY. */
int dsw_pool_clear(struct dsw_session *session, uint32_t slab, struct dsw_call *call);
void dsw_pool_publish(struct dsw_session *session, uint32_t slab);
void dsw_pool_cleared(struct dsw_op *op, int status); /* for the operation that clears a slab, when it has ended */
/* Marks a slab of the session as being returned. Returns 0, or -ENOENT if the session has no such slab or has
 * returned it already. */
int dsw_pool_begin_return(struct dsw_session *session, uint32_t slab);
void dsw_pool_return(struct dsw_session *session, uint32_t slab); /* returns a slab that no work uses any more */
void dsw_pool_return_all(struct dsw_session *session);
int dsw_pool_restore(struct dsw_session *session, uint32_t slab); /* returns 0, a daemon status, or a negative errno */
/* must precede the freeing of the session's coroutines */
void dsw_pool_reset(struct dsw_session *session);
