/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "worker/spare.h"

/* time in which the device unmaps freed memory of a session that has work, also on a loaded machine */
#define SPARE_COMES_NS 1000000000u

/* The allocation in word i; NULL: none, no whole allocation, or that of an earlier word. */
static const struct dsw_range *spare_range(const struct dsw_session *session, uint32_t i)
{
        const struct ds_ring_header *ring = session->ring;
        const struct dsw_range *range;
        uint64_t va;

        if (!ring || session->state != DSW_SESSION_OPEN)
                return NULL;
        va = atomic_load(&ring->spare[i]);
        range = va ? dsw_heap_find(&session->memory.device, va) : NULL;
        if (!range || range->va != va || range->flags)
                return NULL;
        while (i-- > 0) {
                if (atomic_load(&ring->spare[i]) == va)
                        return NULL;
        }
        return range;
}

/* Frees the allocation in word i. Returns 1 if memory was freed. */
static int spare_take(struct dsw_session *session, uint32_t i)
{
        struct ds_ring_header *ring = (struct ds_ring_header *)(uintptr_t)session->ring;
        Detshare__Internal__FromWorker message = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        const struct dsw_range *range = spare_range(session, i);
        uint64_t va = range ? range->va : 0, seen = va;

        if (!range || !atomic_compare_exchange_strong(&ring->spare[i], &seen, 0))
                return 0;
        (void)dsw_memory_begin_free(session, va, 0);
        ledger.session = session->id;
        ledger.alloc_removed = va;
        dsw_memory_free(session, va, &ledger.slab_removed);
        session->worker->spare_wall_ns = session->worker->wall_ns();
        message.ledger = &ledger;
        dsw_message_send(session->worker, &message, NULL, 0);
        return 1;
}

int dsw_spare_free(struct dsw_session *session)
{
        int n = 0;

        for (uint32_t i = 0; i < DS_SPARES; i++)
                n += spare_take(session, i);
        return n;
}

int dsw_spare_free_all(ds_worker *worker, const struct dsw_user *user, int busy)
{
        struct dsw_session *session, *next;
        int n = 0;

        HASH_ITER(hh, worker->sessions, session, next)
        {
                if ((!user || session->user == user) && (busy || dsw_session_idle(session)))
                        n += dsw_spare_free(session);
        }
        return n;
}

int dsw_spare_coming(const ds_worker *worker)
{
        return worker->spare_wall_ns && worker->wall_ns() - worker->spare_wall_ns < SPARE_COMES_NS;
}

uint64_t dsw_spare_bytes(const struct dsw_session *session, uint64_t least)
{
        uint64_t bytes = 0;

        for (uint32_t i = 0; i < DS_SPARES; i++) {
                const struct dsw_range *range = spare_range(session, i);

                if (range && range->bytes >= least)
                        bytes += range->bytes;
        }
        return bytes;
}

void dsw_spare_sum(const struct dsw_session *session, uint64_t *ret_other, uint64_t *ret_user)
{
        const struct dsw_session *other;

        *ret_other = *ret_user = 0;
        for (other = session->worker->sessions; other; other = other->hh.next) {
                if (other != session) /* a smaller allocation may share its slab with allocations in use */
                        *ret_other += dsw_spare_bytes(other, DSW_SLAB_BYTES);
                if (other->user == session->user)
                        *ret_user += dsw_spare_bytes(other, 0);
        }
}
