/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for the device
 *
 * A waiter counts itself in the ring's header, checks once more, and sleeps on the page's `wake` word. The worker
 * changes the page, then checks whether there are waiters, and only then changes `wake` and wakes them. So there is no
 * system call on either side without waiters, and no lost wake-up: all these accesses are sequentially consistent, so
 * one side sees the other.
 *
 * Before that the waiter spins, for several times the cost of sleeping and waking: launching and waiting in turn then
 * makes no system call on either side. On machines with one or two processors it does not spin: the worker needs a
 * processor, and so do the kernel's threads.
 *
 * When the whole daemon is killed, nobody wakes the waiters, so a sleeper checks its socket every 50 ms.
 *
 * When a wait has ended and no submitted work is left, the client has all its results. It stores that in the ring's
 * header, which tells policies that a request has ended (proto/wire.h). Only a latency-sensitive client also wakes a
 * sleeping worker for this. That is rare: the worker keeps polling for a while after each activity of such a client.
 * For a best-effort client nobody waits for the end of a request.
 *
 * Threads that are declared to the device's clock wait by a request instead: the daemon must know that they wait,
 * because a simulated device's clock stands still while they run.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/internal.h"

#define SPIN_NS 2000000u
#define SPINS 32u /* number of checks between two readings of the clock */
/* interval of checks for room in the ring, ns: nobody wakes the waiter when the worker consumes records */
#define ROOM_NAP_NS 1000000u

void dsc__waiters_init(struct dsc__waiters *waiters)
{
        pthread_mutex_init(&waiters->lock, NULL);
        waiters->spin_ns = sysconf(_SC_NPROCESSORS_ONLN) > 2 ? SPIN_NS : 0;
}

static void publish_locked(dsc_session *s)
{
        atomic_store(&s->ring_header->waiters, s->waiters.n);
}

void dsc__waiters_publish(dsc_session *s)
{
        pthread_mutex_lock(&s->waiters.lock);
        publish_locked(s);
        pthread_mutex_unlock(&s->waiters.lock);
}

static void announce(dsc_session *s, int change)
{
        pthread_mutex_lock(&s->waiters.lock);
        s->waiters.n += (uint32_t)change;
        publish_locked(s);
        pthread_mutex_unlock(&s->waiters.lock);
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#else
        atomic_signal_fence(memory_order_seq_cst);
#endif
}

static void sleep_on(const _Atomic uint32_t *word, uint32_t seen, uint32_t nap_ns)
{
        const struct timespec t = {.tv_nsec = nap_ns};
        syscall(SYS_futex, (const void *)word, FUTEX_WAIT, seen, &t, NULL, 0);
}

static bool spin(dsc_session *s, dsc__condition condition, const void *arg)
{
        const uint64_t end = s->waiters.spin_ns ? dsc__now() + s->waiters.spin_ns : 0;
        do {
                for (unsigned i = 0; i < SPINS && end; i++) {
                        if (condition(s, arg))
                                return true;
                        relax();
                }
        } while (end && dsc__now() < end);
        return false;
}

int dsc__await(dsc_session *s, dsc__condition condition, const void *arg, uint32_t nap_ns)
{
        if (spin(s, condition, arg))
                return 0;
        int r = 0;
        uint64_t look = dsc__now() + DSC__ALIVE_NS;
        announce(s, 1);
        for (;;) {
                const uint32_t seen = atomic_load(&s->page->wake);
                if (condition(s, arg))
                        break;
                sleep_on(&s->page->wake, seen, nap_ns);
                const uint64_t now = dsc__now();
                if (now >= look) {
                        look = now + DSC__ALIVE_NS;
                        dsc__peer_gone(s);
                }
                r = dsc__usable(s);
                if (r)
                        break;
        }
        announce(s, -1);
        return r;
}

/* --- room in the ring --- */

static bool room_or_dead(dsc_session *s, const void *arg)
{
        const uint64_t tail = atomic_load(&s->rpc.ring_tail), head = atomic_load(&s->page->head);
        return tail + *(const uint64_t *)arg - head <= DS_RING_SLOTS || atomic_load(&s->page->dead);
}

int dsc__await_room(dsc_session *s, uint64_t slots)
{
        return dsc__await(s, room_or_dead, &slots, ROOM_NAP_NS);
}

/* --- operations --- */

/*
 * 1: no submitted work is left. Reads `completed` before `accepted`: records up to `head` are counted in `accepted`,
 * and `completed` never decreases, so equal counts mean that no work was left when `accepted` was read.
 */
static bool nothing_left(dsc_session *s, uint64_t *ret_accepted)
{
        if (atomic_load(&s->rpc.ring_tail) != atomic_load(&s->page->head))
                return false;
        const uint64_t completed = atomic_load(&s->page->completed);
        *ret_accepted = atomic_load(&s->page->accepted);
        return completed == *ret_accepted;
}

void dsc__synchronised(dsc_session *s)
{
        uint64_t accepted;
        if (s->socket_only || !dsc__attached(s) || !nothing_left(s, &accepted) ||
                atomic_load_explicit(&s->ring_header->synchronised, memory_order_relaxed) == accepted)
                return;
        atomic_store(&s->ring_header->synchronised, accepted);
        if (!atomic_load(&s->page->asleep) || atomic_load(&s->granted_class) != DETSHARE__CLASS__LS)
                return;
        pthread_mutex_lock(&s->submit.lock);
        if (!dsc__usable(s))
                dsc__ring_kick(&s->submit.ring);
        pthread_mutex_unlock(&s->submit.lock);
}

int dsc_may_run_ahead(dsc_session *s)
{
        return !dsc__usable(s) && !s->socket_only && dsc__attached(s) && !dsc__declared(s) &&
               !atomic_load(&s->page->dead);
}

static int sync_call(dsc_session *s, uint32_t stream, uint64_t seq, bool all)
{
        Detshare__Sync sync = DETSHARE__SYNC__INIT;
        sync.stream = stream;
        sync.seq = seq;
        sync.all = all;
        Detshare__Request request = DSC__REQUEST(SYNC, sync, &sync);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

struct operation {
        uint32_t stream;
        uint64_t seq;
};

/* 1: the operation has ended. A number beyond the submitted ones belongs to an operation that was lost with a
 * worker: it counts as ended. */
bool dsc__ended(dsc_session *s, uint32_t stream, uint64_t seq)
{
        return atomic_load(&s->page->stream_done[stream]) >= seq || seq > atomic_load(&s->submit.tails[stream]);
}

bool dsc__ended_or_over(dsc_session *s, uint32_t stream, uint64_t seq)
{
        return dsc__ended(s, stream, seq) || atomic_load(&s->page->dead) || atomic_load(&s->page->error) > 0;
}

static bool ended_or_over(dsc_session *s, const void *arg)
{
        const struct operation *o = arg;
        return dsc__ended_or_over(s, o->stream, o->seq);
}

static int wait_attached(dsc_session *s, uint32_t stream, uint64_t seq)
{
        const struct operation o = {.stream = stream, .seq = seq};
        for (;;) {
                int r = dsc__sticky(s);
                if (!r && dsc__ended(s, stream, seq)) {
                        r = dsc__sticky(s);
                        return r ? r : dsc__look(s);
                }
                if (r)
                        return r;
                if (atomic_load(&s->page->dead))
                        r = dsc__attach(s);
                else if (dsc__declared(s))
                        return sync_call(s, stream, seq, false);
                else
                        r = dsc__await(s, ended_or_over, &o, DSC__ALIVE_NS);
                if (r)
                        return r;
        }
}

int dsc_wait(dsc_session *s, uint32_t stream, uint64_t seq)
{
        int r = dsc__usable(s);
        if (r)
                return r;
        if (stream >= DS_STREAMS_MAX)
                return DSC__INVALID_VALUE;
        if (s->socket_only)
                r = seq ? sync_call(s, stream, seq, false) : dsc_sticky_error(s);
        else
                r = dsc__attached(s) ? wait_attached(s, stream, seq) : dsc__look(s);
        if (!r)
                dsc__synchronised(s);
        dsc_output(s);
        if (s->simulated)
                dsc__clock_note(s);
        return dsc__told(s, r);
}

static int wait_all(dsc_session *s)
{
        int r = 0;
        if (s->socket_only)
                return sync_call(s, 0, 0, true);
        if (!dsc__attached(s))
                return dsc__look(s);
        /* quick check first: nearly all streams have nothing to wait for, and checking each of them closely takes
         * longer than a kernel */
        for (uint32_t i = 0; i < DS_STREAMS_MAX && !r; i++) {
                const uint64_t tail = atomic_load(&s->submit.tails[i]);
                if (!dsc__ended(s, i, tail))
                        r = wait_attached(s, i, tail);
        }
        return r ? r : wait_attached(s, 0, 0);
}

int dsc_wait_all(dsc_session *s)
{
        int r = dsc__usable(s);
        if (r)
                return r;
        r = wait_all(s);
        if (!r)
                dsc__synchronised(s);
        dsc_output(s);
        if (s->simulated)
                dsc__clock_note(s);
        return dsc__told(s, r);
}

/* --- queries ---------------------- */

static int query_call(dsc_session *s, uint32_t stream, uint64_t seq)
{
        Detshare__Query query = DETSHARE__QUERY__INIT;
        query.stream = stream;
        Detshare__Request request = DSC__REQUEST(QUERY, query, &query);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_QUERY, &answer);
        if (r)
                return r;
        const Detshare__QueryReply *reply = answer.reply->query;
        r = reply->error > 0 ? reply->error : reply->done >= seq ? 0 : DSC__NOT_READY;
        dsc__answer_clear(&answer);
        return r;
}

int dsc__look(dsc_session *s)
{
        static __thread uint64_t look;
        const uint64_t now = dsc__now();
        if (now < look)
                return 0;
        look = now + DSC__ALIVE_NS;
        dsc__peer_gone(s);
        return dsc__usable(s);
}

static int query_page(dsc_session *s, uint32_t stream, uint64_t seq)
{
        if (!dsc__attached(s))
                return dsc__look(s);
        for (;;) {
                const bool ended = dsc__ended(s, stream, seq);
                int r = dsc__sticky(s);
                if (r)
                        return r;
                if (ended || !atomic_load(&s->page->dead)) {
                        r = dsc__look(s);
                        return r ? r : ended ? 0 : DSC__NOT_READY;
                }
                r = dsc__attach(s);
                if (r)
                        return r;
        }
}

int dsc_ended(dsc_session *s, uint32_t stream, uint64_t seq)
{
        if (dsc__usable(s) || stream >= DS_STREAMS_MAX)
                return 1;
        if (s->socket_only)
                return query_call(s, stream, seq) != DSC__NOT_READY;
        return !dsc__attached(s) || dsc__ended(s, stream, seq);
}

static int query(dsc_session *s, uint32_t stream, uint64_t seq)
{
        return s->socket_only ? query_call(s, stream, seq) : query_page(s, stream, seq);
}

/* For a declared thread, each call lets the device's clock advance by 1 us; otherwise a program that polls would
 * wait for ever. */
int dsc_peek(dsc_session *s, uint32_t stream, uint64_t seq)
{
        uint64_t now;
        int r = dsc__usable(s);
        if (r || stream >= DS_STREAMS_MAX)
                return r ? r : DSC__INVALID_VALUE;
        r = dsc__told(s, query(s, stream, seq));
        if (r != DSC__NOT_READY || !s->simulated || !dsc__declared(s))
                return r;
        r = dsc__clock_now(s, &now);
        if (!r)
                r = dsc__clock_sleep(s, now + 1000);
        return r ? r : query(s, stream, seq);
}

int dsc_query(dsc_session *s, uint32_t stream, uint64_t seq)
{
        int r = dsc_peek(s, stream, seq);
        if (!r)
                dsc__synchronised(s);
        return r;
}

int dsc_sticky_error(dsc_session *s)
{
        int r = dsc__usable(s);
        if (r)
                return r;
        r = s->socket_only ? query_call(s, 0, 0) : dsc__sticky(s);
        if (r == DSC__NOT_READY)
                return 0;
        return __builtin_expect(r != 0, 0) ? dsc__told(s, r) : 0;
}
