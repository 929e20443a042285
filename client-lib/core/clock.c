/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's clock, and the threads that are declared to it
 *
 * On a simulated device time is virtual. It stands still while a declared thread runs, so that the program's own speed
 * does not show in what it measures. A thread declares itself by reading the clock; n_declared counts the declared
 * threads, here and in the worker. A worker that dies forgets them, so every new attachment repeats the declarations.
 * The worker also drops a session's declarations after 5 s without contact. This side keeps the time of the last
 * contact while threads are declared; after such a silence all declarations are void, and each thread declares itself
 * again when it next reads the clock.
 *
 * On a GPU none of this happens: the clock is CLOCK_MONOTONIC.
 */
#include <errno.h>
#include <time.h>

#include "core/internal.h"

#define SILENCE_NS 4900000000u
#define SLEEP_MAX_NS 3600000000000u /* longest sleep in one request, device time, ns */

static __thread uint32_t my_epoch; /* value of clock.epoch in which the thread declared itself, 0 = not declared */
static pthread_key_t at_thread_end;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

uint32_t dsc__clock_epoch(void)
{
        static _Atomic uint32_t last;
        return atomic_fetch_add(&last, 1) + 1;
}

bool dsc__declared(dsc_session *s)
{
        return my_epoch && my_epoch == atomic_load_explicit(&s->clock.epoch, memory_order_relaxed);
}

void dsc__clock_contact(dsc_session *s)
{
        if (atomic_load_explicit(&s->clock.n_declared, memory_order_relaxed))
                atomic_store_explicit(&s->clock.contact_ns, dsc__now(), memory_order_relaxed);
}

static void tell_leave(dsc_session *s)
{
        Detshare__ClockLeave leave = DETSHARE__CLOCK_LEAVE__INIT;
        Detshare__Request request = DSC__REQUEST(CLOCK_LEAVE, clock_leave, &leave);
        dsc__call_forget(s, &request);
}

int dsc__clock_leave(dsc_session *s)
{
        const bool declared = dsc__declared(s);
        my_epoch = 0;
        if (!declared || dsc__usable(s))
                return dsc__usable(s);
        pthread_mutex_lock(&s->submit.lock);
        atomic_fetch_sub(&s->clock.n_declared, 1);
        tell_leave(s);
        pthread_mutex_unlock(&s->submit.lock);
        return 0;
}

static void thread_ends(void *session)
{
        dsc__clock_leave(session);
}

static void make_key(void)
{
        pthread_key_create(&at_thread_end, thread_ends);
}

static int tell_join(dsc_session *s, uint64_t *ret_ns)
{
        Detshare__ClockJoin join = DETSHARE__CLOCK_JOIN__INIT;
        Detshare__Request request = DSC__REQUEST(CLOCK_JOIN, clock_join, &join);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_CLOCK, &answer);
        if (r)
                return r;
        *ret_ns = answer.reply->clock->now_ns;
        dsc__answer_clear(&answer);
        return 0;
}

int dsc__clock_rejoin_locked(dsc_session *s)
{
        uint64_t ns;
        int r = 0;
        for (uint32_t n = atomic_load(&s->clock.n_declared); n > 0 && !r; n--)
                r = tell_join(s, &ns);
        return r;
}

/* Declares the calling thread. If the worker has died, its successor may have got this declaration, and the
 * attachment repeats it: so withdraws it before attaching. */
static int declare_locked(dsc_session *s, uint64_t *ret_ns)
{
        int r = s->socket_only ? 0 : dsc__attach_locked(s);
        if (!r)
                r = tell_join(s, ret_ns);
        if (r)
                return r;
        atomic_fetch_add(&s->clock.n_declared, 1);
        atomic_store(&s->note.over, true);
        my_epoch = atomic_load(&s->clock.epoch);
        if (s->socket_only || !atomic_load(&s->page->dead))
                return 0;
        tell_leave(s);
        return dsc__attach_locked(s);
}

static int declare(dsc_session *s, uint64_t *ret_ns)
{
        pthread_once(&key_once, make_key);
        pthread_setspecific(at_thread_end, s);
        pthread_mutex_lock(&s->submit.lock);
        int r = declare_locked(s, ret_ns);
        pthread_mutex_unlock(&s->submit.lock);
        dsc__clock_contact(s);
        return r;
}

/* After 4.9 s without contact the worker may have dropped the declarations: withdraws them all. */
static void check_silence(dsc_session *s)
{
        struct dsc__clock *clock = &s->clock;
        if (!atomic_load(&clock->n_declared) || dsc__now() - atomic_load(&clock->contact_ns) < SILENCE_NS)
                return;
        pthread_mutex_lock(&s->submit.lock);
        if (dsc__now() - atomic_load(&clock->contact_ns) >= SILENCE_NS) {
                for (uint32_t n = atomic_load(&clock->n_declared); n > 0; n--)
                        tell_leave(s);
                atomic_store(&clock->n_declared, 0);
                atomic_store(&clock->epoch, dsc__clock_epoch());
        }
        pthread_mutex_unlock(&s->submit.lock);
}

static int sleep_call(dsc_session *s, uint64_t ns, uint64_t *ret_ns)
{
        Detshare__SleepUntil sleep = DETSHARE__SLEEP_UNTIL__INIT;
        sleep.ns = ns;
        Detshare__Request request = DSC__REQUEST(SLEEP_UNTIL, sleep_until, &sleep);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_CLOCK, &answer);
        if (r)
                return r;
        *ret_ns = answer.reply->clock->now_ns;
        dsc__answer_clear(&answer);
        return 0;
}

int dsc__clock_now(dsc_session *s, uint64_t *ret_ns)
{
        int r = dsc__usable(s);
        if (r)
                return r;
        if (!s->simulated) {
                *ret_ns = dsc__now();
                return 0;
        }
        check_silence(s);
        if (!dsc__declared(s))
                return declare(s, ret_ns);
        if (s->socket_only)
                return sleep_call(s, 0, ret_ns);
        dsc__clock_contact(s);
        r = atomic_load(&s->page->dead) ? dsc__attach(s) : dsc__look(s);
        if (!r)
                *ret_ns = atomic_load(&s->page->now_ns);
        return r;
}

int dsc__clock_sleep(dsc_session *s, uint64_t ns)
{
        uint64_t now;
        int r = dsc__clock_now(s, &now);
        if (r || now >= ns)
                return r;
        while (s->simulated && now < ns && !r)
                r = sleep_call(s, ns - now > SLEEP_MAX_NS ? now + SLEEP_MAX_NS : ns, &now);
        if (s->simulated)
                return r;
        const struct timespec until = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
                ;
        return 0;
}
