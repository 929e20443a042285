/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retiring a session: its daemon is gone, or the process disconnects
 *
 * Threads may be inside a call with this session, or about to make one. So the object stays (about 10 KiB per ended
 * session) and only its resources are freed:
 *  - Addresses: mapping into the window needs memory.use, which is taken for writing here; later there is no window.
 *    Staged copies in flight have failed by then.
 *  - Ring and page: empty memory takes their place at the same address. A thread that reads it sees unfinished
 *    operations, then that the session is lost.
 *  - Socket and buffers: freed with the last request (rpc.c).
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
