/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The completion page: shows a client its progress without a request
 *
 * Progress is stored where it happens (dsw_op_done, the ring). This file does the rest: the time, and the wake-up of
 * threads that sleep on `wake`. The order matters. A waiter announces itself in the ring's `waiters` and then checks
 * the progress again; the worker stores progress and then checks `waiters`. Both sides put a full fence in between, so
 * at least one of them sees the other's store.
 */
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker/internal.h"

/* Bit set of the classes that have work submitted and not ended. */
static uint32_t classes_at_work(const ds_worker *worker)
{
        uint32_t in_flight, be, ls;

        ds_sched_load(worker->sched, DETSHARE_CLASS_BE, &in_flight, &be);
        ds_sched_load(worker->sched, DETSHARE_CLASS_LS, &in_flight, &ls);
        return (be ? 1u << DETSHARE_CLASS_BE : 0) | (ls ? 1u << DETSHARE_CLASS_LS : 0);
}

static void page_beside(struct dsw_session *session, uint32_t at_work)
{
        const uint32_t beside = (at_work & ~(1u << session->class_)) != 0;

        if (atomic_load_explicit(&session->page->beside, memory_order_relaxed) != beside)
                atomic_store_explicit(&session->page->beside, beside, memory_order_relaxed);
}

void dsw_page_tell_beside(ds_worker *worker)
{
        const uint32_t at_work = classes_at_work(worker);
        struct dsw_session *session;

        if (at_work == worker->at_work)
                return;
        worker->at_work = at_work;
        for (session = worker->sessions; session; session = session->hh.next)
                if (session->page)
                        page_beside(session, at_work);
}

void dsw_page_flush(struct dsw_session *session)
{
        struct ds_completion_page *page = session->page;

        page_beside(session, session->worker->at_work);
        atomic_store_explicit(&page->now_ns, session->worker->now_ns, memory_order_release);
        atomic_thread_fence(memory_order_seq_cst);
        if (!session->ring || !atomic_load_explicit(&session->ring->waiters, memory_order_relaxed))
                return;
        atomic_fetch_add_explicit(&page->wake, 1, memory_order_release);
        /* the futex is shared with the client's process, so the wake must not be FUTEX_PRIVATE */
        syscall(SYS_futex, &page->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/*
 * Writes an event's time under a sequence lock. The client reads `turn` before and after: equal and even values mean a
 * consistent time. Each store is a release, so that the client sees none of them before the odd `turn`.
 */
void dsw_page_time(struct dsw_session *session, uint64_t event, uint32_t stream, uint64_t seq, uint64_t ns)
{
        struct ds_event_time *time = &session->page->times[event % DS_EVENT_TIMES];
        uint32_t turn = atomic_load_explicit(&time->turn, memory_order_relaxed);

        atomic_store_explicit(&time->turn, turn | 1, memory_order_relaxed);
        atomic_store_explicit(&time->event, event, memory_order_release);
        atomic_store_explicit(&time->stream, stream, memory_order_release);
        atomic_store_explicit(&time->seq, seq, memory_order_release);
        atomic_store_explicit(&time->ns, ns, memory_order_release);
        atomic_store_explicit(&time->turn, (turn | 1) + 1, memory_order_release);
}

void dsw_page_sleeps(struct dsw_session *session, int asleep)
{
        if (session->asleep == asleep)
                return;
        session->asleep = asleep;
        atomic_store_explicit(&session->page->asleep, (uint32_t)asleep, memory_order_relaxed);
}
