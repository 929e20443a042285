/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions: functions of the program that a stream calls in order
 *
 * The worker writes the ids of due functions into the page (over the socket: it answers HostNext). A thread of this
 * library runs them in that order, one after another, and writes into the ring's header how many have returned. The
 * thread is created with the first function and sleeps without polling while there is none. It blocks all signals and
 * ends when the session is lost. A forked child has no thread and no session.
 *
 * An entry that runs once is removed from the table before it runs, so nothing runs twice: neither when a worker dies,
 * nor when an error arrives while it is due. An entry is `armed` when its call has been submitted. If that call can no
 * longer come (a sticky error, a reset, a lost daemon), armed functions run all the same, because the program may wait
 * for them; they check the session's error themselves if it matters.
 *
 * The count of returned functions belongs to one attachment. A function that was called under an earlier attachment is
 * not counted when it returns: `generation` changes before an Attach, so the number in the ring's header stays fixed
 * from then on.
 */
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "core/internal.h"

#define NAP_NS 50000000 /* interval of checks for an error while no function waits for it, ns */

struct dsc__function {
        struct dsc__function *next, *prev, *chain;
        uint64_t id;
        void (*fn)(void *);
        void *arg;
        bool once, armed;
};

void dsc__host_init(struct dsc__host *host)
{
        pthread_mutex_init(&host->lock, NULL);
        pthread_cond_init(&host->cond, NULL);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static struct dsc__function **place_locked(struct dsc__host *host, uint64_t id)
{
        struct dsc__function **at = &host->buckets[id % DSC__HOST_BUCKETS];
        while (*at && (*at)->id != id)
                at = &(*at)->chain;
        return at;
}

static void insert_locked(struct dsc__host *host, struct dsc__function *f)
{
        struct dsc__function **bucket = &host->buckets[f->id % DSC__HOST_BUCKETS];
        f->chain = *bucket;
        *bucket = f;
        f->prev = host->last;
        if (host->last)
                host->last->next = f;
        else
                host->first = f;
        host->last = f;
        atomic_fetch_add(&host->n, 1);
}

static void remove_locked(struct dsc__host *host, struct dsc__function *f)
{
        *place_locked(host, f->id) = f->chain;
        if (f->prev)
                f->prev->next = f->next;
        else
                host->first = f->next;
        if (f->next)
                f->next->prev = f->prev;
        else
                host->last = f->prev;
        atomic_fetch_sub(&host->n, 1);
        if (f->armed)
                atomic_fetch_sub(&host->n_armed, 1);
}

static void run(dsc_session *s, uint64_t id)
{
        struct dsc__host *host = &s->host;
        struct dsc__function copy = {.fn = NULL};
        pthread_mutex_lock(&host->lock);
        struct dsc__function *f = *place_locked(host, id);
        if (f) {
                copy = *f;
                if (f->once) {
                        remove_locked(host, f);
                        free(f);
                }
        }
        pthread_mutex_unlock(&host->lock);
        if (copy.fn)
                copy.fn(copy.arg);
}

/* Removes the armed functions (their calls will not come) from the table and runs them, oldest first. */
static void run_armed(dsc_session *s)
{
        struct dsc__host *host = &s->host;
        for (;;) {
                pthread_mutex_lock(&host->lock);
                struct dsc__function *f = host->first;
                while (f && !f->armed)
                        f = f->next;
                const uint64_t id = f ? f->id : 0;
                pthread_mutex_unlock(&host->lock);
                if (!id)
                        return;
                run(s, id);
        }
}

/* --- over the ring ------------------------------------------------------------------------------------------------ */

static bool has_reason(dsc_session *s, const void *arg)
{
        struct dsc__host *host = &s->host;
        return atomic_load(&s->page->host_calls) != atomic_load(&host->returned) || atomic_load(&s->page->dead) ||
               !atomic_load(&host->n) || (atomic_load(&host->n_armed) && (host->orphaned || dsc__sticky(s)));
}

/* Takes the next function that is due. True: *ret_id is its id, *ret_generation the attachment that called it. */
static bool take_call(dsc_session *s, uint64_t *ret_id, uint64_t *ret_generation)
{
        struct dsc__host *host = &s->host;
        bool due = false;
        pthread_mutex_lock(&s->submit.lock);
        if (dsc__attach_locked(s) == 0) {
                const uint64_t at = atomic_load(&host->returned);
                due = atomic_load(&s->page->host_calls) != at;
                *ret_id = atomic_load(&s->page->host_ids[at % DS_HOST_CALLS]);
                *ret_generation = host->generation;
        }
        pthread_mutex_unlock(&s->submit.lock);
        return due;
}

static void say_returned(dsc_session *s, uint64_t generation)
{
        struct dsc__host *host = &s->host;
        pthread_mutex_lock(&s->submit.lock);
        if (generation == host->generation && !s->lost) {
                atomic_store(&s->ring_header->host_done, atomic_fetch_add(&host->returned, 1) + 1);
                if (atomic_load(&s->page->asleep))
                        dsc__ring_kick(&s->submit.ring);
        }
        pthread_mutex_unlock(&s->submit.lock);
}

void dsc__host_detach_locked(dsc_session *s)
{
        s->host.generation++;
}

void dsc__host_attach_locked(dsc_session *s)
{
        atomic_store(&s->host.returned, atomic_load(&s->ring_header->host_done));
        pthread_mutex_lock(&s->host.lock);
        pthread_cond_broadcast(&s->host.cond);
        pthread_mutex_unlock(&s->host.lock);
}

static void serve_page(dsc_session *s)
{
        struct dsc__host *host = &s->host;
        uint64_t id, generation;
        if (dsc__await(s, has_reason, NULL, DSC__ALIVE_NS))
                return;
        if (take_call(s, &id, &generation)) {
                run(s, id);
                say_returned(s, generation);
        } else if (atomic_exchange(&host->orphaned, false) || dsc__sticky(s)) {
                run_armed(s);
        }
}

/* --- over the socket ---------------------------------------------------------------------------------------------- */

static void nap(dsc_session *s)
{
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += NAP_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&s->host.lock);
        pthread_cond_timedwait(&s->host.cond, &s->host.lock, &until);
        pthread_mutex_unlock(&s->host.lock);
}

static void serve_call(dsc_session *s, uint64_t *done)
{
        Detshare__HostNext next = DETSHARE__HOST_NEXT__INIT;
        next.done = *done;
        Detshare__Request request = DSC__REQUEST(HOST_NEXT, host_next, &next);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_HOST_NEXT, &answer);
        if (r) {
                /* the session has an error (not this request), so armed functions will not be called */
                if (r > DSC__OUT_OF_MEMORY && r < DETSHARE__STATUS__BAD_REQUEST)
                        run_armed(s);
                nap(s);
                return;
        }
        *done = answer.reply->host_next->number;
        const uint64_t id = answer.reply->host_next->id;
        dsc__answer_clear(&answer);
        run(s, id);
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

/* Sleeps until a function may be due. False: the session is over, and the thread ends. */
static bool await_work(dsc_session *s, bool owes)
{
        struct dsc__host *host = &s->host;
        pthread_mutex_lock(&host->lock);
        while (!s->lost && !owes && (!atomic_load(&host->n) || (!s->socket_only && !dsc__attached(s))))
                pthread_cond_wait(&host->cond, &host->lock);
        host->ended = s->lost;
        pthread_mutex_unlock(&host->lock);
        return !s->lost;
}

static void *serve(void *arg)
{
        dsc_session *s = arg;
        uint64_t done = 0;
        while (await_work(s, done != 0)) {
                if (s->socket_only)
                        serve_call(s, &done);
                else
                        serve_page(s);
        }
        run_armed(s);
        return NULL;
}

static int start_locked(dsc_session *s)
{
        pthread_t thread;
        sigset_t all, before;
        if (s->host.started)
                return 0;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        const int r = pthread_create(&thread, NULL, serve, s);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (r)
                return DSC__OUT_OF_MEMORY;
        pthread_setname_np(thread, "detshare-host");
        pthread_detach(thread);
        s->host.started = true;
        return 0;
}

void dsc__host_wake(dsc_session *s, bool orphaned)
{
        pthread_mutex_lock(&s->host.lock);
        if (orphaned && atomic_load(&s->host.n_armed))
                atomic_store(&s->host.orphaned, true);
        pthread_cond_broadcast(&s->host.cond);
        pthread_mutex_unlock(&s->host.lock);
}

/* --- entry points ------------------------------------------------------------------------------------------------- */

int dsc_host_register(dsc_session *s, void (*fn)(void *), void *arg, int once, uint64_t *ret_id)
{
        struct dsc__host *host = &s->host;
        int r = dsc__usable(s);
        if (r)
                return r;
        struct dsc__function *f = calloc(1, sizeof(*f));
        if (!f)
                return DSC__OUT_OF_MEMORY;
        pthread_mutex_lock(&host->lock);
        r = host->ended ? DSC__UNKNOWN : start_locked(s);
        if (!r) {
                *f = (struct dsc__function){.id = ++host->next_id, .fn = fn, .arg = arg, .once = once != 0};
                insert_locked(host, f);
                *ret_id = f->id;
                pthread_cond_broadcast(&host->cond);
        }
        pthread_mutex_unlock(&host->lock);
        if (r)
                free(f);
        return r;
}

void dsc_host_unregister(dsc_session *s, uint64_t id)
{
        if (atomic_load_explicit(&dsc__forked, memory_order_relaxed))
                return;
        pthread_mutex_lock(&s->host.lock);
        struct dsc__function *f = *place_locked(&s->host, id);
        if (f)
                remove_locked(&s->host, f);
        pthread_mutex_unlock(&s->host.lock);
        free(f);
}

static int submit(dsc_session *s, uint32_t stream, uint64_t id, uint64_t *ret_seq)
{
        if (s->socket_only) {
                Detshare__HostCall call = DETSHARE__HOST_CALL__INIT;
                call.stream = stream;
                call.id = id;
                Detshare__Request request = DSC__REQUEST(HOST_CALL, host_call, &call);
                return dsc__submit_call(s, stream, &request, ret_seq);
        }
        const struct ds_record_host record = {
                .head = {.type = DS_RECORD_HOST, .stream = (uint16_t)stream},
                .id = id,
        };
        return dsc__submit(s, &record.head, sizeof(record), NULL, 0, ret_seq);
}

int dsc_host_call(dsc_session *s, uint32_t stream, uint64_t id, uint64_t *ret_seq)
{
        struct dsc__host *host = &s->host;
        if (stream >= DS_STREAMS_MAX)
                return DSC__INVALID_VALUE;
        int r = submit(s, stream, id, ret_seq);
        if (r)
                return r;
        pthread_mutex_lock(&host->lock);
        struct dsc__function *f = *place_locked(host, id);
        if (f && f->once && !f->armed) {
                f->armed = true;
                atomic_fetch_add(&host->n_armed, 1);
        }
        pthread_cond_broadcast(&host->cond);
        pthread_mutex_unlock(&host->lock);
        return 0;
}
