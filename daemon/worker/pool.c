/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/pool.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ptx/pass/colour.h"
#include "util/error.h"
#include "util/fd.h"
#include "worker/internal.h"

void dsw_pool_init(struct dsw_pool *pool)
{
        *pool = (struct dsw_pool){.file = -1};
        for (size_t i = 0; i < DS_ARRAY_SIZE(pool->slabs); i++)
                pool->slabs[i].fd = -1;
}

void dsw_pool_deinit(struct dsw_pool *pool)
{
        pool->file = ds_close(pool->file);
        for (size_t i = 0; i < DS_ARRAY_SIZE(pool->slabs); i++) {
                pool->slabs[i].holder = NULL;
                pool->slabs[i].fd = ds_close(pool->slabs[i].fd);
        }
        pool->facts.n_slabs = 0;
}

uint64_t dsw_pool_address(const struct dsw_pool *pool, uint32_t slab)
{
        return DSW_POOL_BASE + slab * pool->facts.slab_bytes;
}

uint32_t dsw_pool_free_slabs(const struct dsw_pool *pool)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < pool->facts.n_slabs; i++)
                n += !pool->slabs[i].holder;
        return n;
}

uint64_t dsw_pool_used(const struct dsw_session *session)
{
        return (uint64_t)__builtin_popcountll(session->loan.slabs) * session->worker->pool.facts.slab_bytes;
}

/* --- the pool's file, and how it is passed on --------------------------------------------------------------------- */

static size_t pool_classes(const struct ds_pool_file *facts)
{
        return (size_t)(facts->n_slabs * (facts->slab_bytes >> facts->sector_bits));
}

int dsw_pool_file_make(const struct ds_pool_file *facts, const uint8_t *classes, int *ret_fd)
{
        ds_cleanup(ds_closep) int fd = memfd_create("detshare-channels", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        int r;

        if (fd < 0)
                return ds_error_origin(-errno);
        r = ds_write_all(fd, facts, sizeof(*facts));
        if (!r)
                r = ds_write_all(fd, classes, pool_classes(facts));
        if (r)
                return ds_error_origin(r);
        if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
                return ds_error_origin(-errno);
        *ret_fd = DS_TAKE_FD(fd);
        return 0;
}

static void pool_tell_piece(ds_worker *worker, uint32_t index, int fd)
{
        Detshare__Internal__FromWorker message = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__PoolPiece piece = DETSHARE__INTERNAL__POOL_PIECE__INIT;

        piece.index = index;
        piece.slabs = worker->pool.facts.n_slabs;
        piece.bytes = worker->pool.facts.slab_bytes;
        message.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_POOL;
        message.pool = &piece;
        dsw_message_send(worker, &message, &fd, 1);
}

void dsw_pool_tell(ds_worker *worker)
{
        const struct dsw_pool *pool = &worker->pool;

        if (!pool->facts.n_slabs)
                return;
        for (uint32_t i = 0; i < pool->facts.n_slabs; i++)
                pool_tell_piece(worker, i, pool->slabs[i].fd);
        pool_tell_piece(worker, pool->facts.n_slabs, pool->file);
}

static int pool_bits_can_be(const struct ds_pool_file *facts)
{
        if (facts->sector_bits < DS_PTX_COLOUR_SECTOR_MIN || facts->sector_bits > 21 || facts->granule_bits > 21 ||
                facts->n_channels > DS_POOL_CHANNELS_MAX)
                return 0;
        for (uint32_t i = facts->n_channels; i < DS_POOL_CHANNELS_MAX; i++)
                if (facts->be_set[i / 64] >> i % 64 & 1)
                        return 0;
        return 1;
}

/* Reads the file of the previous worker and checks it like untrusted input. */
static int pool_read(int fd, struct ds_pool_file *ret)
{
        struct ds_pool_file facts;
        struct stat st;

        if (pread(fd, &facts, sizeof(facts), 0) != sizeof(facts) || fstat(fd, &st) < 0)
                return DETSHARE__STATUS__BAD_REQUEST;
        if (facts.magic != DS_POOL_MAGIC || facts.version != DS_WIRE_VERSION || !facts.n_slabs ||
                facts.n_slabs > DS_POOL_SLABS_MAX || !facts.slab_bytes || facts.slab_bytes % DS_MIB(2) ||
                facts.slab_bytes > DSW_POOL_BYTES_MAX / facts.n_slabs || !pool_bits_can_be(&facts))
                return DETSHARE__STATUS__BAD_REQUEST;
        if ((uint64_t)st.st_size != sizeof(facts) + pool_classes(&facts))
                return DETSHARE__STATUS__BAD_REQUEST;
        *ret = facts;
        return 0;
}

int dsw_pool_take(ds_worker *worker, const Detshare__Internal__PoolPiece *piece, int *fd)
{
        struct dsw_pool *pool = &worker->pool;
        struct ds_pool_file facts;
        int r;

        if (pool->facts.n_slabs || *fd < 0 || piece->index > DS_POOL_SLABS_MAX || piece->slabs > DS_POOL_SLABS_MAX)
                return DETSHARE__STATUS__BAD_REQUEST;
        if (piece->index < piece->slabs) {
                ds_close(pool->slabs[piece->index].fd);
                pool->slabs[piece->index].fd = DS_TAKE_FD(*fd);
                return 0;
        }
        r = pool_read(*fd, &facts);
        for (uint32_t i = 0; !r && i < facts.n_slabs; i++)
                r = pool->slabs[i].fd < 0 ? DETSHARE__STATUS__BAD_REQUEST : 0;
        if (r)
                return r;
        pool->facts = facts;
        pool->file = DS_TAKE_FD(*fd);
        worker->slab_bytes += facts.n_slabs * facts.slab_bytes;
        return 0;
}

/* --- loans -------------------------------------------------------------------------------------------------------- */

/* Maps a slab. Returns 0, -EEXIST (earlier work there still runs), OUT_OF_MEMORY, or a negative errno. */
static int pool_map(struct dsw_session *session, uint32_t slab)
{
        ds_worker *worker = session->worker;
        struct dsw_pool *pool = &worker->pool;
        const uint64_t va = dsw_pool_address(pool, slab);
        int r = worker->ops->mem_map(worker->device, session->space, pool->slabs[slab].fd, va, pool->facts.slab_bytes);

        if (r)
                return r;
        /* the memory of a pool slab stays allocated when it is unmapped: the device must not reuse it for another
         * session */
        r = worker->ops->mem_keep(worker->device, session->space, va);
        if (r) {
                (void)ds_error_trace(
                        worker->ops->mem_unmap(worker->device, session->space, va, pool->facts.slab_bytes));
                return ds_error_trace(r);
        }
        pool->slabs[slab].holder = session;
        session->loan.slabs |= UINT64_C(1) << slab;
        session->loan.hidden |= UINT64_C(1) << slab;
        session->memory.peak = DS_MAX(session->memory.peak, dsw_memory_used(session));
        dsw_memory_tell(session);
        return 0;
}

int dsw_pool_borrow(struct dsw_session *session, uint32_t *ret_slab, const char **ret_why)
{
        struct dsw_pool *pool = &session->worker->pool;
        int r = DS_CUDA_OUT_OF_MEMORY;

        *ret_why = "the session's memory limit has no room for a slab";
        if (!dsw_memory_may(session, pool->facts.slab_bytes))
                return r;
        *ret_why = "all slabs are lent";
        for (uint32_t i = 0; i < pool->facts.n_slabs; i++) {
                if (pool->slabs[i].holder)
                        continue;
                r = pool_map(session, i);
                if (r == -EEXIST) {
                        *ret_why = "the slabs that are free are still in use by work that has not ended";
                        continue;
                }
                *ret_why = "the device cannot map it";
                *ret_slab = i;
                return r > 0 ? r : ds_error_trace(r);
        }
        return DS_CUDA_OUT_OF_MEMORY;
}

void dsw_pool_publish(struct dsw_session *session, uint32_t slab)
{
        session->loan.hidden &= ~(UINT64_C(1) << slab);
}

static void pool_unmap(struct dsw_session *session, uint32_t slab)
{
        ds_worker *worker = session->worker;
        struct dsw_pool *pool = &worker->pool;

        assert(pool->slabs[slab].holder == session);
        pool->slabs[slab].holder = NULL;
        session->loan.slabs &= ~(UINT64_C(1) << slab);
        session->loan.hidden &= ~(UINT64_C(1) << slab);
        (void)ds_error_trace(worker->ops->mem_unmap(
                worker->device, session->space, dsw_pool_address(pool, slab), pool->facts.slab_bytes));
}

int dsw_pool_begin_return(struct dsw_session *session, uint32_t slab)
{
        const uint64_t bit = slab < DS_POOL_SLABS_MAX ? UINT64_C(1) << slab : 0;

        if (!(session->loan.slabs & ~session->loan.hidden & bit))
                return -ENOENT;
        session->loan.hidden |= bit;
        return 0;
}

void dsw_pool_return(struct dsw_session *session, uint32_t slab)
{
        pool_unmap(session, slab);
        dsw_memory_tell(session);
}

void dsw_pool_return_all(struct dsw_session *session)
{
        for (uint32_t i = 0; session->loan.slabs; i++)
                if (session->loan.slabs >> i & 1)
                        pool_unmap(session, i);
}

int dsw_pool_restore(struct dsw_session *session, uint32_t slab)
{
        const struct dsw_pool *pool = &session->worker->pool;
        int r;

        if (slab >= pool->facts.n_slabs || pool->slabs[slab].holder)
                return DETSHARE__STATUS__BAD_REQUEST;
        r = pool_map(session, slab);
        if (!r)
                dsw_pool_publish(session, slab);
        return r > 0 ? r : ds_error_trace(r);
}

/* --- clearing ----------------------------------------------------------------------------------------------------- */

int dsw_pool_clear(struct dsw_session *session, uint32_t slab, struct dsw_call *call)
{
        const struct dsw_pool *pool = &session->worker->pool;
        struct dsw_loan *loan = &session->loan;
        struct dsw_op *op;

        if (!loan->coroutine && ds_coroutine_new(session->sched, 0, 0, 0, &loan->coroutine)) {
                loan->coroutine = NULL;
                return DS_CUDA_OUT_OF_MEMORY;
        }
        op = dsw_op_new(session, DS_OP_MEMSET, 0);
        if (!op)
                return DS_CUDA_OUT_OF_MEMORY;
        op->op.memset = (struct ds_memset){
                .space = session->space,
                .dst = dsw_pool_address(pool, slab),
                .element_size = 4,
                .width = pool->facts.slab_bytes / 4,
                .height = 1,
                .pitch = pool->facts.slab_bytes,
        };
        op->call = call;
        if (ds_sched_submit(loan->coroutine, &op->op, session->worker->now_ns)) {
                dsw_op_free(op);
                return DS_CUDA_OUT_OF_MEMORY;
        }
        call->op = op;
        loan->clearing = op;
        session->worker->live_ops++;
        session->worker->sched_due = 1;
        return 0;
}

void dsw_pool_cleared(struct dsw_op *op, int status)
{
        struct dsw_session *session = op->session;

        assert(session->loan.clearing == op);
        session->loan.clearing = NULL;
        session->worker->live_ops--;
        if (op->call) {
                op->call->op = NULL;
                op->call->status = status;
        }
        dsw_op_free(op);
        /* another request for a slab may wait until this clearing has ended */
        session->retry = 1;
        dsw_session_activate(session);
        dsw_session_dirty(session);
}

void dsw_pool_reset(struct dsw_session *session)
{
        assert(!session->loan.clearing);
        session->loan.coroutine = NULL;
}
