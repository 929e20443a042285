/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retiring a session: its daemon is gone, or the process wants no more of it
 *
 * Threads may be inside a call or about to make one with this session, so the object stays (some 10 KiB for each time
 * that a daemon ended) and only what it holds goes:
 *  - addresses: nobody maps into the window without memory.use, which is taken for writing here, and then finds no
 *    window. What staged copies were under way have failed by then.
 *  - ring and page: empty memory takes their place at the same address. A thread that looks at it sees operations that
 *    do not end, and then that the session is lost.
 *  - socket and buffers: with the last request (rpc.c).
 */
#include <sys/mman.h>
#include <unistd.h>

#include "core/internal.h"

static void drop_ring_locked(dsc_session *s)
{
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
        if (s->ring_header)
                mmap(s->ring_header, DS_RING_BYTES + DS_PAGE_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (s->submit.ring.event_fd >= 0)
                close(s->submit.ring.event_fd);
        s->submit.ring.event_fd = -1;
}

void dsc__retire(dsc_session *s)
{
        dsc__lose(s);
        pthread_rwlock_wrlock(&s->memory.use);
        pthread_mutex_lock(&s->submit.lock);
        dsc__table_clear(s);
        dsc__arena_drop(s);
        dsc__reserved_drop(s, false);
        drop_ring_locked(s);
        if (s->window_bytes)
                munmap((void *)(uintptr_t)s->window_base, s->window_bytes);
        s->window_bytes = 0;
        pthread_mutex_unlock(&s->submit.lock);
        pthread_rwlock_unlock(&s->memory.use);
        dsc__host_wake(s, false);
        dsc__coloured_drop(s);
        dsc__rpc_retire(&s->rpc);
}
